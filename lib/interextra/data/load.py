"""One string opens any collection: `mini`, `beir:PATH`, `irds:ID`, each with options after commas."""

from pathlib import Path

from interextra.data.beir import open_beir
from interextra.data.collection import Collection
from interextra.data.irds import open_irds
from interextra.errors import InputError, offenders

SWITCHES = {"dangling": ("error", "drop"), "empty": ("error", "keep")}
FORMS = "mini, mini:key=value, mini:ood-NAME, beir:PATH, irds:ID"


def open_collection(spec: str, cache_dir: str | Path | None = None) -> Collection:
    """Open the collection that `spec` names.

    Parameters
    ----------
    spec : `mini`, `mini:seed=7,n_train=1000`, `mini:ood-NAME`; `beir:PATH`; `irds:ID`. The last two take
        `,dangling=drop` (leave out qrels of unknown queries or passages) and `,empty=keep` (allow empty texts).
    cache_dir : where converted collections are kept; else INTEREXTRA_CACHE, else ~/.cache/interextra.

    Raises
    ------
    InputError
        An unknown scheme or option, a missing folder, a broken file.
    """
    scheme, _, rest = spec.partition(":")
    if scheme == "beir" and rest:
        if Path(rest).expanduser().is_dir():
            return open_beir(rest, cache_dir)
        path, options = split_options(spec, rest)
        return open_beir(path, cache_dir, **_switches(spec, options))
    if scheme == "irds" and rest:
        dataset_id, options = split_options(spec, rest)
        switches = _switches(spec, [option for option in options if option[0] in SWITCHES])
        return open_irds(dataset_id, _named_splits(spec, options), cache_dir, spec=spec, **switches)
    raise InputError(f"{spec!r} is no collection spec; use one of {FORMS}")


def split_options(spec: str, rest: str) -> tuple[str, list[tuple[str, str]]]:
    """Split `name,key=value,key=value` into the name and its options, in order."""
    name, *parts = rest.split(",")
    bad = [part for part in parts if "=" not in part]
    if bad:
        raise InputError(f"{spec!r}: {offenders(bad)} is no option; write key=value")
    return name, [tuple(part.split("=", 1)) for part in parts]


def _switches(spec: str, options: list[tuple[str, str]]) -> dict[str, str]:
    for key, value in options:
        if value not in SWITCHES.get(key, ()):
            allowed = ", ".join(f"{name}={'|'.join(values)}" for name, values in SWITCHES.items())
            raise InputError(f"{spec!r}: unknown option {key}={value}; allowed are {allowed}")
    return dict(options)


def _named_splits(spec: str, options: list[tuple[str, str]]) -> dict[str, str]:
    """Splits spelt out in an irds spec: `dev=msmarco-passage/dev/small`, or `split=ID`, named by the id's last part."""
    splits = {}
    for key, part in options:
        if key not in SWITCHES:
            name = part.rsplit("/", 1)[-1] if key == "split" else key
            if name in splits:
                raise InputError(f"{spec!r}: split {name!r} stands twice; name one of them, e.g. other={part}")
            splits[name] = part
    return splits
