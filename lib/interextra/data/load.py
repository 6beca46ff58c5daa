"""One string opens any collection: `mini`, `beir:PATH`, `irds:ID`, each with options after commas."""

import hashlib
import inspect
from pathlib import Path

import pandas as pd

from interextra.data import converted as store
from interextra.data.beir import open_beir
from interextra.data.collection import Collection
from interextra.data.trec import Origin
from interextra.data.irds import open_irds
from interextra.ground.errors import InputError, offenders

SWITCHES = {"dangling": ("error", "drop"), "empty": ("error", "keep")}
FORMS = "mini, mini:key=value, mini:ood-NAME, beir:PATH, irds:ID"


def open_collection(spec: str, cache_dir: str | Path | None = None) -> Collection:
    """Open the collection that `spec` names.

    Parameters
    ----------
    spec : the generated world `mini`, `mini:seed=7,n_train=1000`, `mini:shares.dl19.intent=0.5/0.3/0.2` or
        `mini:ood-NAME`; a folder `beir:PATH`; a data set of ir_datasets `irds:ID` or `irds:ID,SPLIT=ID,SPLIT=ID`. The
        last two take `,dangling=drop` (leave out qrels of unknown queries or passages) and `,empty=keep` (allow empty
        texts).
    cache_dir : where converted collections are kept; else INTEREXTRA_CACHE, else ~/.cache/interextra.

    Raises
    ------
    InputError
        An unknown scheme or option, a missing folder, a broken file.
    """
    scheme, colon, rest = spec.partition(":")
    if scheme == "mini" and bool(colon) == bool(rest):
        return _open_mini(spec, rest, cache_dir)
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
    """Split `name,key=value,key=value` into the name and its options, in order.

    >>> split_options("irds:a", "a,dev=a/dev/small")
    ('a', [('dev', 'a/dev/small')])
    """
    name, *parts = rest.split(",")
    bad = [part for part in parts if not all(part.partition("="))]
    if bad:
        raise InputError(f"{spec!r}: {offenders(bad)} is no option; write key=value")
    options = [tuple(part.split("=", 1)) for part in parts]
    keys = [key for key, _ in options if key != "split"]
    if len(set(keys)) < len(keys):
        raise InputError(f"{spec!r}: option {offenders(k for k in keys if keys.count(k) > 1)} stands twice; keep one")
    return name, options


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


def open_world(spec: str):
    """The generated world behind a `mini` spec: the collection with its facts and truths (`interextra.world`)."""
    from interextra import world

    scheme, _, rest = spec.partition(":")
    if scheme != "mini":
        raise InputError(f"{spec!r} is no generated world; use mini, mini:key=value or mini:ood-NAME")
    name, parameters = _world_of(spec, rest)
    return world.generate(name, **parameters)


def _open_mini(spec: str, rest: str, cache_dir: str | Path | None) -> Collection:
    """A generated world, kept by its name, parameters and the hash of the generator's own files."""
    from interextra import world

    name, parameters = _world_of(spec, rest)
    key = store.content_key("mini", name, parameters, _content_version(Path(world.__file__).parent))
    target = store.cache_folder(cache_dir) / f"{name}-{key}"
    found = store.open_stored(target, name, spec)
    if found is None:
        made = open_world(spec)
        origins = {part: Origin(f"{spec} {part}") for part in ("passages", "queries", *made.qrels)}
        store.build(target, made.passages, pd.concat(made.queries.values(), ignore_index=True), made.qrels, origins)
        found = store.open_stored(target, name, spec)
    return found


def _world_of(spec: str, rest: str) -> tuple[str, dict]:
    """Name and parameters of a world; the out-of-domain worlds know a seed only."""
    from interextra import world

    ood = rest.startswith("ood-")
    name, options = split_options(spec, rest if ood else f"mini,{rest}".rstrip(","))
    known = ["seed"] if ood else [*inspect.signature(world.generate).parameters][1:]
    return name, _world_parameters(spec, options, known)


def _world_parameters(spec: str, options: list[tuple[str, str]], known: list[str]) -> dict:
    """Options of a mini spec as arguments of `generate`; shares are written `shares.SET.entity=0.6/0.3/0.1`."""
    numbers = [name for name in known if name != "shares"]
    parameters: dict = {}
    for key, value in options:
        try:
            if key in numbers:
                parameters[key] = int(value)
                continue
            first, test_set, kind = key.split(".")
            if first != "shares" or "shares" not in known:
                raise ValueError
            shares = [float(share) for share in value.split("/")]
        except ValueError:
            allowed = ", ".join(
                [f"{name}=INTEGER" for name in numbers] + ["shares.SET.entity|intent=A/B/C"] * ("shares" in known)
            )
            raise InputError(f"{spec!r}: unknown option {key}={value}; allowed are {allowed}") from None
        parameters.setdefault("shares", {}).setdefault(test_set, {})[kind] = shares
    return parameters


def _content_version(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
