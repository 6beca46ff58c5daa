"""One string opens any collection: `mini`, `beir:PATH`, `irds:ID`, with options after commas."""

import os
import re
from collections.abc import Callable, Mapping, Set
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from interextra import world
from interextra.data import converted
from interextra.data.beir import open_beir
from interextra.data.collection import Collection
from interextra.data.irds import Published, open_irds, peek_irds, published_irds
from interextra.data.msmarco import QuerySets
from interextra.data.nl2bash import open_nl2bash
from interextra.data.squadshifts import NEW_PASSAGES, open_squadshifts
from interextra.data.texts import is_utf8
from interextra.data.tldr import BY_YEAR, open_tldr
from interextra.store import InputError, cache_folder, offenders, sha256
from interextra.store.extras import require

CHANGES_NO_RESULT = True  # a collection is named by its content, see `store.code`
SWITCHES = {"dangling": "drop", "empty": "keep"}
FORMS = (
    "mini, mini:key=value, mini:ood-NAME, beir:PATH, irds:ID, msmarco-queries, "
    "nl2bash:CLONE, tldr:CLONE, squadshifts:FILE"
)
NAME_OF_QRELS = re.compile(r"\w*")
# What opens a release of authors, and the options of its spec
RELEASES: dict[str, tuple[Callable[..., Collection], dict[str, str]]] = {
    "nl2bash": (open_nl2bash, {}),
    "squadshifts": (open_squadshifts, {"qrels": NEW_PASSAGES}),
    "tldr": (open_tldr, {"qrels": BY_YEAR}),
}


def open_collection(spec: str) -> Collection | QuerySets:
    """Open the collection that `spec` names, once per process.

    Parameters
    ----------
    spec
        The generated world `mini`, `mini:seed=7,n_train=1000` or `mini:ood-NAME`; a folder
        `beir:PATH`; a data set of ir_datasets `irds:ID` or `irds:ID,SPLIT=ID,SPLIT=ID`. The last
        two take `,dangling=drop` (leave out qrels of unknown queries or passages) and `,empty=keep`
        (allow empty texts); a folder takes `,keep=N`, too (whole entities until the first split has
        N queries; what any split asks of them stays, with its passages), and `,qrels=NAME` (the
        splits in its folder qrels_NAME). `$INTEREXTRA_DATA` in it
        stands for the folder of real data, and `msmarco-queries` opens the queries of MS MARCO and
        TREC DL in that folder, without passages. Releases of authors are opened as they are cloned:
        `nl2bash:CLONE`, `tldr:CLONE` (`,qrels=by_year`), and a file `squadshifts:FILE`
        (`,qrels=new_passages`).

    Raises
    ------
    InputError
        An unknown option, a missing folder, a broken file.
    """
    located = with_data_folder(spec)
    if not is_utf8(located):
        raise InputError(f"{located!r}: is not UTF-8; rename the folder")
    return _opened(spec, located, cache_folder())


def peek(spec: str) -> dict[str, Any]:
    """Return what opening a data set of ir_datasets would download, see `peek_irds`.

    Empty where it would download nothing.
    """
    scheme, _, rest = with_data_folder(spec).partition(":")
    if scheme != "irds" or not rest:
        return {}
    return peek_irds(*_irds_options(spec, rest))


def published(spec: str) -> Published | None:
    """Return what is known of a data set of ir_datasets before it is downloaded; None for others.

    Raises
    ------
    InputError
        An unknown data set or option.
    """
    scheme, _, rest = spec.partition(":")
    if scheme != "irds" or not rest:
        return None
    require(spec, "ir_datasets")
    return published_irds(*_irds_options(spec, rest))


def data_folder() -> Path:
    """Return the folder of the real data: the environment variable INTEREXTRA_DATA."""
    value = os.environ.get("INTEREXTRA_DATA", "")
    folder = os.path.expanduser(value)
    if not value or not os.path.isdir(folder):
        raise InputError(
            f"real data: set the environment variable INTEREXTRA_DATA ({value!r}) to their folder"
        )
    return Path(folder).resolve()


def with_data_folder(text: str) -> str:
    """Return the text with the folder of the real data in the place of `$INTEREXTRA_DATA`."""
    if "$INTEREXTRA_DATA" not in text:
        return text
    return text.replace("$INTEREXTRA_DATA", str(data_folder()))


@lru_cache(maxsize=32)
def _opened(spec: str, located: str, cache: Path) -> Collection | QuerySets:
    """Open a collection once for each spec, data folder and cache folder.

    `located` is the spec with the folder of the real data in it.
    """
    scheme, _, rest = located.partition(":")
    if located == "msmarco-queries":
        return QuerySets(data_folder(), spec)
    if located == "mini" or (scheme == "mini" and rest):
        return _open_mini(spec)
    if scheme == "beir" and rest:
        return _open_folder(spec, rest)
    if scheme == "irds" and rest:
        require(spec, "ir_datasets")
        return open_irds(*_irds_options(spec, rest), spec)
    if scheme in RELEASES and rest:
        return _open_release(spec, scheme, rest)
    raise InputError(f"{spec!r} is no collection spec; use one of {FORMS}")


def _open_folder(spec: str, rest: str) -> Collection:
    """Open a folder in the BEIR layout; its name may hold commas, if no options follow."""
    path, options = _path_and_options(spec, rest)
    keep = options.pop("keep", "0")
    if not _is_number(keep):
        raise InputError(f"{spec!r}: keep={keep} must be a number of queries")
    qrels = options.pop("qrels", "")
    if not NAME_OF_QRELS.fullmatch(qrels):
        raise InputError(f"{spec!r}: qrels={qrels} must be the letters and digits behind qrels_")
    return open_beir(path, spec, _switches(spec, options), int(keep), qrels)


def _open_release(spec: str, scheme: str, rest: str) -> Collection:
    """Open a clone or a file of authors; its name may hold commas, if no options follow."""
    open_release, allowed = RELEASES[scheme]
    path, options = _path_and_options(spec, rest)
    _refuse_other_options(spec, options, allowed)
    located = os.path.realpath(os.path.expanduser(path))
    return open_release(Path(located), spec, **options)


def _path_and_options(spec: str, rest: str) -> tuple[str, dict[str, str]]:
    """Return a path, which may hold commas if no options follow, and the options behind it."""
    if os.path.exists(os.path.expanduser(rest)):
        return rest, {}
    return split_options(spec, rest)


def split_options(spec: str, rest: str) -> tuple[str, dict[str, str]]:
    """Split `name,key=value,key=value` into the name and its options.

    Examples
    --------
    >>> split_options("irds:a", "a,dev=a/dev/small")
    ('a', {'dev': 'a/dev/small'})
    """
    name, *parts = rest.split(",")
    wrong = [part for part in parts if not all(part.partition("="))]
    if wrong:
        raise InputError(f"{spec!r}: {offenders(wrong)} is no option; write key=value")
    options = dict(part.split("=", 1) for part in parts)
    if len(options) < len(parts):
        raise InputError(f"{spec!r}: an option stands twice; keep one")
    return name, options


def _is_number(text: str) -> bool:
    """Return whether it is a whole number that a machine counts with."""
    return text.isdecimal() and len(text) < 19


def _switches(spec: str, options: dict[str, str]) -> Set[str]:
    """Return the names of the options; refuse what is not in SWITCHES."""
    _refuse_other_options(spec, options, SWITCHES)
    return options.keys()


def _refuse_other_options(
    spec: str, options: Mapping[str, str], allowed: Mapping[str, str]
) -> None:
    """Refuse options that are not among the allowed ones."""
    for key, value in options.items():
        if value != allowed.get(key):
            known = ", ".join(f"{name}={setting}" for name, setting in allowed.items())
            raise InputError(
                f"{spec!r}: unknown option {key}={value}; allowed are {known or 'none'}"
            )


def _irds_options(spec: str, rest: str) -> tuple[str, dict[str, str], Set[str]]:
    """Return the data set, its splits (`dev=msmarco-passage/dev/small`), and the switches."""
    dataset_id, splits = split_options(spec, rest)
    options = {name: splits.pop(name) for name in SWITCHES if name in splits}
    return dataset_id, splits, _switches(spec, options)


def open_world(spec: str) -> world.World:
    """Return the generated world behind a `mini` spec: the collection with its facts."""
    name, parameters = _world_of(spec)
    return world.generate(name, **parameters)


def _open_mini(spec: str) -> Collection:
    """Open a generated world, kept by its name, parameters, and the generator's code and texts."""
    name, parameters = _world_of(spec)
    text_files = sorted(Path(world.__file__).parent.glob("*.yaml"))
    checksums = [[path.name, sha256(path)] for path in text_files]

    def place_of(part: str, row: int) -> str:
        """Return the place of a row, for errors."""
        return f"{spec} {part}, row {row + 1}"

    def read() -> converted.Parts:
        """Generate the world."""
        generated = open_world(spec)
        queries = pd.concat(generated.queries.values(), ignore_index=True)
        return converted.Parts(generated.passages, queries, generated.qrels, place_of)

    folder = converted.folder_of(name, "interextra.world:generate", name, parameters, checksums)
    return converted.stored(folder, name, spec, read, set())


def _world_of(spec: str) -> tuple[str, dict[str, int]]:
    """Return name and arguments of a world; those out of the domain know a seed only."""
    _, _, rest = spec.partition(":")
    known = ["seed"]
    if not rest.startswith("ood-"):
        known = ["mismatch", "n_dev", "n_domains", "n_graded", "n_train", "seed"]
        rest = f"mini,{rest}".rstrip(",")
    name, options = split_options(spec, rest)
    for key, value in options.items():
        if key not in known or not _is_number(value):
            allowed = ", ".join(f"{option}=INTEGER" for option in known)
            raise InputError(f"{spec!r}: unknown option {key}={value}; allowed are {allowed}")
    return name, {key: int(value) for key, value in options.items()}
