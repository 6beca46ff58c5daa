"""One string opens any collection: `mini`, `beir:PATH`, `irds:ID`, each with options after commas."""

import hashlib
import inspect
import os
from collections.abc import Set
from functools import cached_property, lru_cache
from pathlib import Path

import pandas as pd

from interextra.data import converted
from interextra.data.beir import open_beir
from interextra.data.collection import Collection
from interextra.data.irds import open_irds, peek_irds
from interextra.data.trec import read_qrels, read_queries_tsv
from interextra.ground.errors import InputError, offenders
from interextra.ground.files import cache_folder, sha256

SWITCHES = {"dangling": ("error", "drop"), "empty": ("error", "keep")}
TRAIN_FILES = ("queries.train.tsv", "queries.train.tsv.gz", "queries.train.partial.tsv.gz")
TEST_FILES = {
    "dl19": ("topics.dl19-passage.txt", "qrels.dl19-passage.txt"),
    "dl20": ("topics.dl20.txt", "qrels.dl20-passage.txt"),
    "dev": ("topics.msmarco-passage.dev-subset.txt", "qrels.msmarco-passage.dev-subset.txt"),
}
FORMS = "mini, mini:key=value, mini:ood-NAME, beir:PATH, irds:ID, msmarco-queries"


class QuerySets:
    """Training, dev and judged DL queries of MS MARCO, like a Collection without passages.

    `FOLDER/msmarco` holds the official `queries.train.tsv` (or a part of it), and `topics.*` and `qrels.*` of DL19,
    DL20 and dev-small as Anserini names them.
    """

    name, passages, splits = "MS MARCO queries", (), ("train", *TEST_FILES)

    def __init__(self, folder: str | Path, spec: str):
        self.folder, self.spec = Path(folder) / "msmarco", spec
        self._train_file = next(filter(Path.is_file, map(self.folder.joinpath, TRAIN_FILES)), None)
        if not self._train_file:
            raise InputError(f"{self.folder}: no training queries; put the official queries.train.tsv there")

    def queries(self, split: str) -> pd.DataFrame:
        """query_id, text; of a test set the queries with judgements, as the papers use them (43, 54, 6,980)."""
        if split == "train":
            return self._training
        if split not in TEST_FILES:
            raise InputError(f"{self.name} has no split {split!r}; it has {', '.join(self.splits)}")
        topics = read_queries_tsv(self.folder / TEST_FILES[split][0])
        return topics[topics["query_id"].isin(self.qrels(split)["query_id"])].reset_index(drop=True)

    def qrels(self, split: str) -> pd.DataFrame:
        """Judgements of a test set: query_id, doc_id, relevance."""
        return read_qrels(self.folder / TEST_FILES[split][1])

    def query_ids(self, split: str) -> list[str]:
        return self.queries(split)["query_id"].tolist()

    @cached_property
    def _training(self) -> pd.DataFrame:
        """All training queries with text, less those that are test queries."""
        frame = read_queries_tsv(self._train_file)
        test = pd.concat([self.queries(split)["query_id"] for split in TEST_FILES])
        return frame[~frame["query_id"].isin(test)].reset_index(drop=True)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the bytes of all files that are read."""
        total = hashlib.sha256()
        for path in (self._train_file, *(self.folder / name for pair in TEST_FILES.values() for name in pair)):
            total.update(path.name.encode() + bytes.fromhex(sha256(path)))
        return total.hexdigest()


def open_collection(spec: str) -> Collection | QuerySets:
    """Open the collection that `spec` names, once per process.

    The generated world `mini`, `mini:seed=7,n_train=1000`, `mini:shares.dl19.intent=0.5/0.3/0.2` or `mini:ood-NAME`; a
    folder `beir:PATH`; a data set of ir_datasets `irds:ID` or `irds:ID,SPLIT=ID,SPLIT=ID`. The last two take
    `,dangling=drop` (leave out qrels of unknown queries or passages) and `,empty=keep` (allow empty texts); a folder
    takes `,keep=N`, too (whole entities until the first split has N queries; what any split asks of them stays).
    `$INTEREXTRA_DATA` in it stands for the folder of real data, and `msmarco-queries` opens the queries of MS MARCO and
    TREC DL in that folder, without passages. An InputError names an unknown option, a missing folder, a broken file.
    """
    located = with_data_folder(f"{spec}:$INTEREXTRA_DATA" if spec == "msmarco-queries" else spec)
    return _opened(spec, located, cache_folder())


def peek(spec: str) -> dict | None:
    """What opening a data set of ir_datasets would download, see `peek_irds`; None where nothing is."""
    scheme, _, rest = with_data_folder(spec).partition(":")
    return peek_irds(*_irds_options(spec, rest)) if scheme == "irds" and rest else None


def data_folder() -> Path:
    """Folder of the real data: the environment variable INTEREXTRA_DATA."""
    given = os.environ.get("INTEREXTRA_DATA", "")
    folder = Path(given).expanduser().resolve()
    if not given or not folder.is_dir():
        raise InputError(f"real data: set the environment variable INTEREXTRA_DATA ({given!r}) to their folder")
    return folder


def with_data_folder(text: str) -> str:
    """The text with the folder of the real data in the place of `$INTEREXTRA_DATA`."""
    return text.replace("$INTEREXTRA_DATA", str(data_folder())) if "$INTEREXTRA_DATA" in text else text


@lru_cache(maxsize=32)
def _opened(spec: str, located: str, cache: Path) -> Collection | QuerySets:
    scheme, colon, rest = located.partition(":")
    if scheme == "msmarco-queries" and rest:
        return QuerySets(rest, spec)
    if scheme == "mini" and bool(colon) == bool(rest):
        return _open_mini(spec)
    if scheme == "beir" and rest:
        path, options = (rest, {}) if Path(rest).expanduser().is_dir() else split_options(spec, rest)
        keep = options.pop("keep", "0")
        if not keep.isdecimal():
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


def _switches(spec: str, options: dict[str, str]) -> Set[str]:
    """The switches that are not at their default, error."""
    for key, value in options.items():
        if value not in SWITCHES.get(key, ()):
            allowed = ", ".join(f"{name}={'|'.join(values)}" for name, values in SWITCHES.items())
            raise InputError(f"{spec!r}: unknown option {key}={value}; allowed are {allowed}")
    return {key for key, value in options.items() if value != "error"}


def _irds_options(spec: str, rest: str) -> tuple[str, dict[str, str], Set[str]]:
    """Data set, splits spelt out (`dev=msmarco-passage/dev/small`), switches."""
    dataset_id, options = split_options(spec, rest)
    splits = {name: part for name, part in options.items() if name not in SWITCHES}
    return dataset_id, splits, _switches(spec, {name: options[name] for name in options.keys() - splits})


def open_world(spec: str):
    """The generated world behind a `mini` spec: the collection with its facts and truths (`interextra.world`)."""
    from interextra import world

    name, parameters = _world_of(spec)
    return world.generate(name, **parameters)


def _open_mini(spec: str) -> Collection:
    """A generated world, kept by its name, its parameters, and the generator's code and texts."""
    from interextra import world

    texts = [[path.name, sha256(path)] for path in sorted(Path(world.__file__).parent.glob("*.yaml"))]
    name, parameters = _world_of(spec)

    def read() -> converted.Parts:
        made = open_world(spec)
        queries = pd.concat(made.queries.values(), ignore_index=True)
        return converted.Parts(made.passages, queries, made.qrels, lambda part, row: f"{spec} {part}, row {row + 1}")

    folder = converted.folder_of(name, "interextra.world:generate", name, parameters, texts)
    return converted.stored(folder, name, spec, read, set())


def _world_of(spec: str) -> tuple[str, dict]:
    """Name and arguments of a world; those out of the domain know a seed only."""
    from interextra import world

    rest = spec.partition(":")[2]
    ood = rest.startswith("ood-")
    name, options = split_options(spec, rest if ood else f"mini,{rest}".rstrip(","))
    known = {"seed"} if ood else {*inspect.signature(world.generate_mini).parameters}
    arguments: dict = {}
    for key, value in options.items():
        argument, *below = key.split(".")
        try:
            if argument not in known or len(below) != 2 * (argument == "shares"):
                raise ValueError
            if below:
                shares = arguments.setdefault("shares", {}).setdefault(below[0], {})
                shares[below[1]] = [float(share) for share in value.split("/")]
            else:
                arguments[key] = int(value)
        except ValueError:
            allowed = ", ".join(f"{option}=INTEGER" for option in sorted(known - {"shares"}))
            allowed += "" if ood else ", shares.SET.entity|intent=A/B/C"
            raise InputError(f"{spec!r}: unknown option {key}={value}; allowed are {allowed}") from None
    return name, arguments
