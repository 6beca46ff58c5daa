"""One string opens any collection: `mini`, `beir:PATH`, `irds:ID`, each with options after
commas.
"""

import os
from collections.abc import Set
from functools import lru_cache
from pathlib import Path

import pandas as pd

from interextra import world
from interextra.data import converted
from interextra.data.beir import open_beir
from interextra.data.collection import Collection
from interextra.data.irds import open_irds, peek_irds
from interextra.data.msmarco import QuerySets
from interextra.store import InputError, cache_folder, offenders, sha256

CHANGES_NO_RESULT = True  # a collection is named by its content, see `store.code`
SWITCHES = {"dangling": "drop", "empty": "keep"}
FORMS = "mini, mini:key=value, mini:ood-NAME, beir:PATH, irds:ID, msmarco-queries"


def open_collection(spec: str) -> Collection | QuerySets:
    """Open the collection that `spec` names, once per process.

    The generated world `mini`, `mini:seed=7,n_train=1000` or `mini:ood-NAME`; a folder `beir:PATH`;
    a data set of ir_datasets `irds:ID` or `irds:ID,SPLIT=ID,SPLIT=ID`. The last two take
    `,dangling=drop` (leave out qrels of unknown queries or passages) and `,empty=keep` (allow empty
    texts); a folder takes `,keep=N`, too (whole entities until the first split has N queries; what
    any split asks of them stays, with its passages). `$INTEREXTRA_DATA` in it stands for the folder
    of real data, and `msmarco-queries` opens the queries of MS MARCO and TREC DL in that folder,
    without passages. An InputError names an unknown option, a missing folder, a broken file.
    """
    located = with_data_folder(spec)
    if located.encode(errors="replace").decode() != located:
        raise InputError(f"{located!r}: is not UTF-8; rename the folder")
    return _opened(spec, located, cache_folder())


def peek(spec: str) -> dict | None:
    """What opening a data set of ir_datasets would download, see `peek_irds`; None where nothing
    is.
    """
    scheme, _, rest = with_data_folder(spec).partition(":")
    return peek_irds(*_irds_options(spec, rest)) if scheme == "irds" and rest else None


def data_folder() -> Path:
    """Folder of the real data: the environment variable INTEREXTRA_DATA."""
    given = os.environ.get("INTEREXTRA_DATA", "")
    folder = os.path.expanduser(given)
    if not given or not os.path.isdir(folder):
        raise InputError(
            f"real data: set the environment variable INTEREXTRA_DATA ({given!r}) to their folder"
        )
    return Path(folder).resolve()


def with_data_folder(text: str) -> str:
    """The text with the folder of the real data in the place of `$INTEREXTRA_DATA`."""
    return (
        text.replace("$INTEREXTRA_DATA", str(data_folder())) if "$INTEREXTRA_DATA" in text else text
    )


@lru_cache(maxsize=32)
def _opened(spec: str, located: str, cache: Path) -> Collection | QuerySets:
    scheme, colon, rest = located.partition(":")
    if located == "msmarco-queries":
        return QuerySets(data_folder(), spec)
    if scheme == "mini" and bool(colon) == bool(rest):
        return _open_mini(spec)
    if scheme == "beir" and rest:
        path, options = (
            (rest, {}) if os.path.isdir(os.path.expanduser(rest)) else split_options(spec, rest)
        )
        keep = options.pop("keep", "0")
        if not _is_number(keep):
            raise InputError(f"{spec!r}: keep={keep} must be a number of queries")
        return open_beir(path, spec, _switches(spec, options), int(keep))
    if scheme == "irds" and rest:
        return open_irds(*_irds_options(spec, rest), spec)
    raise InputError(f"{spec!r} is no collection spec; use one of {FORMS}")


def split_options(spec: str, rest: str) -> tuple[str, dict[str, str]]:
    """Split `name,key=value,key=value` into the name and its options.

    >>> split_options("irds:a", "a,dev=a/dev/small")
    ('a', {'dev': 'a/dev/small'})
    """
    name, *parts = rest.split(",")
    if bad := [part for part in parts if not all(part.partition("="))]:
        raise InputError(f"{spec!r}: {offenders(bad)} is no option; write key=value")
    options = dict(part.split("=", 1) for part in parts)
    if len(options) < len(parts):
        raise InputError(f"{spec!r}: an option stands twice; keep one")
    return name, options


def _is_number(text: str) -> bool:
    """Whether it is a whole number that a machine counts with."""
    return text.isdecimal() and len(text) < 19


def _switches(spec: str, options: dict[str, str]) -> Set[str]:
    for key, value in options.items():
        if value != SWITCHES.get(key):
            raise InputError(
                f"{spec!r}: unknown option {key}={value}; allowed are dangling=drop, empty=keep"
            )
    return options.keys()


def _irds_options(spec: str, rest: str) -> tuple[str, dict[str, str], Set[str]]:
    """Data set, splits spelt out (`dev=msmarco-passage/dev/small`), switches."""
    dataset_id, options = split_options(spec, rest)
    switches = _switches(spec, {name: options.pop(name) for name in SWITCHES.keys() & options})
    return dataset_id, options, switches


def open_world(spec: str) -> world.World:
    """The generated world behind a `mini` spec: the collection with its facts."""
    name, parameters = _world_of(spec)
    return world.generate(name, **parameters)


def _open_mini(spec: str) -> Collection:
    """A generated world, kept by its name, its parameters, and the generator's code and texts."""
    texts = [
        [path.name, sha256(path)] for path in sorted(Path(world.__file__).parent.glob("*.yaml"))
    ]
    name, parameters = _world_of(spec)

    def read() -> converted.Parts:
        made = open_world(spec)
        queries = pd.concat(made.queries.values(), ignore_index=True)
        return converted.Parts(
            made.passages, queries, made.qrels, lambda part, row: f"{spec} {part}, row {row + 1}"
        )

    folder = converted.folder_of(name, "interextra.world:generate", name, parameters, texts)
    return converted.stored(folder, name, spec, read, set())


def _world_of(spec: str) -> tuple[str, dict]:
    """Name and arguments of a world; those out of the domain know a seed only."""
    rest = spec.partition(":")[2]
    ood = rest.startswith("ood-")
    name, options = split_options(spec, rest if ood else f"mini,{rest}".rstrip(","))
    known = ("seed",) if ood else ("mismatch", "n_dev", "n_graded", "n_train", "seed")
    for key, value in options.items():
        if key not in known or not _is_number(value):
            allowed = ", ".join(f"{option}=INTEGER" for option in known)
            raise InputError(f"{spec!r}: unknown option {key}={value}; allowed are {allowed}")
    return name, {key: int(value) for key, value in options.items()}
