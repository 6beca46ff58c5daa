"""Notebook 12: splits for a user's own trainer, and what the runs of its models say of both regimes."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from interextra.data.collection import Collection
from interextra.data.queries import Part, Queries, Source
from interextra.data.trec import BEIR_HEADER, QRELS_COLUMNS
from interextra.ground import InputError, offenders, scratch, sha256, write_json
from interextra.ground.cells import Store, config_of
from interextra.models.pairs import Pairs, exposed_passages, training_pairs
from interextra.models.vectors import GivenVectors, Vectors
from interextra.papers import released
from interextra.splits import attributes
from interextra.splits.restrain import ReSTrain
from interextra.splits.resttest import ReSTTest
from interextra.splits.shift import Shift
from interextra.splits.split import Split

PROTOCOLS = ("restrain", "resttest", "shift")
MANIFEST, EXPOSED, STRATA, HELD_OUT = "manifest.json", "exposed.txt", "strata.tsv", "held-out"


def split_of(protocol: str, collection: str, p: Mapping[str, Any]) -> Split:
    """A split of a collection by one of `PROTOCOLS`.

    `p`: train (split of queries), test (splits), encoder, vectors (files in its place), attribute (of a shift), size
    (training queries of a set, or their share below 1; 0: all), k (buckets), n_test (test queries per cluster, or
    their share of the smallest one), seed.
    """
    source, seed = Source.of(collection), p["seed"]
    pool = Queries(source=source, split=p["train"], seed=seed)
    size = _number(p["size"], pool.size())
    if protocol == "shift":
        if not p["attribute"]:
            raise InputError("split shift: name what is left out, --attribute wh-words, length, column:NAME, …")
        labels = attributes.labels(pool.frame(), p["attribute"])
        n_test = _number(p["n_test"], pd.Series(labels[labels != ""]).value_counts().min())
        return Shift(pool=pool, by=p["attribute"], n_test=n_test, train_size=size, seed=seed)
    asked = tuple(Queries(source=source, split=name) for name in p["test"])
    given = p["vectors"]
    vectors = GivenVectors.of(given, pool, asked) if given else Vectors(encoder=p["encoder"], train=pool, test=asked)
    if protocol == "restrain":
        return ReSTrain(vectors=vectors, sizes=(size or pool.size() // 2,), seed=seed)
    return ReSTTest(vectors=vectors, k=p["k"], fold_size=size, seed=seed)


def _number(given: float, of: int) -> int:
    """A number, or below 1 a share of `of`, at least 1; 0 stays."""
    return int(given) if given >= 1 or not given else max(1, int(given * of))


def tested(split: Split) -> tuple[Queries | Part, ...]:
    """The test queries of a split."""
    return (Part(of=split, part=HELD_OUT),) if HELD_OUT in split.parts() else split.vectors.test


class Training(NamedTuple):
    """A training set as trainers read it: the pairs, and random negatives of each."""

    data: Collection
    pairs: Pairs
    negatives: np.ndarray  # int64[pairs, n], rows of the passages
    exposed: np.ndarray  # bool[passages], see `exposed_passages`

    @classmethod
    def of(cls, split: Split, ids: Sequence[str], n: int, spare: bool, seed: int) -> "Training":
        """Negatives are drawn from all passages but the relevant ones of the query and, with `spare`, exposed ones."""
        data = split.pool.source.open()
        pairs = training_pairs(data, ids, split.pool.split, relevance=1)
        exposed, draw = exposed_passages(data, pairs, relevance=1), np.random.default_rng(seed)
        allowed = np.flatnonzero(~exposed) if spare else np.arange(len(exposed))
        drawn, known = draw.choice(allowed, (len(pairs.rows), n)), pairs.query * len(exposed) + pairs.rows
        while (wrong := np.isin(pairs.query[:, None] * len(exposed) + drawn, known)).any():
            drawn[wrong] = draw.choice(allowed, wrong.sum())
        return cls(data, pairs, drawn, exposed)

    def ids(self) -> pd.DataFrame:
        """query_id, positive_id, negative_id (negative_id_1 … where there are several): a row a pair."""
        names = np.asarray(self.data.passages.doc_ids.to_pylist(), dtype=object)
        frame = {"query_id": np.asarray(self.pairs.query_ids, object)[self.pairs.query]}
        frame["positive_id"], n = names[self.pairs.rows], self.negatives.shape[1]
        columns = ["negative_id"] if n == 1 else [f"negative_id_{at}" for at in range(1, n + 1)]
        return pd.DataFrame(frame | dict(zip(columns, names[self.negatives].T, strict=True)))

    def texts(self) -> pd.DataFrame:
        """anchor, positive, negative_1 …: the same rows as texts."""
        read = self.data.passages.texts
        frame = {"anchor": np.asarray(self.pairs.texts, object)[self.pairs.query], "positive": read(self.pairs.rows)}
        return pd.DataFrame(frame | {f"negative_{at}": read(rows) for at, rows in enumerate(self.negatives.T, 1)})

    def by_query(self, of: Callable[[], pd.DataFrame]) -> Iterable[tuple[str, str, list, list]]:
        """query_id, text, positives and negatives of each query, as `ids` or as `texts`."""
        frame = of()
        for at, rows in frame.groupby(self.pairs.query).indices.items():
            part = frame.iloc[rows]
            negatives = pd.unique(part.iloc[:, 2:].to_numpy().ravel()).tolist()
            yield self.pairs.query_ids[at], self.pairs.texts[at], part.iloc[:, 1].tolist(), negatives


def _lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _passages(data: Collection, doc_id: str, text: str) -> Iterable[dict[str, str]]:
    ids = data.passages.doc_ids
    for start, texts in data.passages.batches(8192):
        names = ids.slice(start, len(texts)).to_pylist()
        yield from ({doc_id: name, text: passage} for name, passage in zip(names, texts, strict=True))


def _saved(frame: pd.DataFrame, folder: Path) -> None:
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    Dataset.from_pandas(frame, preserve_index=False).save_to_disk(folder)


def _as_ids(out: Path, split: Split, sets: Mapping[str, Training], qrels: pd.DataFrame) -> None:
    """For sentence-transformers' `resolve_ids`: NAME/ids, and once queries and corpus, folders of `datasets`."""
    from datasets import Dataset
    from datasets.table import InMemoryTable

    data = split.pool.source.open()
    _saved(data.queries(split.pool.split)[["query_id", "text"]], out / "queries")
    passages = InMemoryTable(data.passages.table.rename_columns(["passage_id", "text"]))
    Dataset(passages).save_to_disk(out / "corpus")
    for name, made in sets.items():
        _saved(made.ids(), out / name / "ids")


def _as_texts(out: Path, split: Split, sets: Mapping[str, Training], qrels: pd.DataFrame) -> None:
    """For a trainer of sentence-transformers: NAME/st, a folder of `datasets`."""
    for name, made in sets.items():
        _saved(made.texts(), out / name / "st")


def _as_tevatron(out: Path, split: Split, sets: Mapping[str, Training], qrels: pd.DataFrame) -> None:
    """NAME/tevatron.jsonl, and once tevatron-corpus.jsonl."""
    _lines(out / "tevatron-corpus.jsonl", _passages(split.pool.source.open(), "docid", "text"))
    names = ("query_id", "query_text", "positive_document_ids", "negative_document_ids")
    for name, made in sets.items():
        rows = (dict(zip(names, row, strict=True)) for row in made.by_query(made.ids))
        _lines(out / name / "tevatron.jsonl", rows)


def _as_flagembedding(out: Path, split: Split, sets: Mapping[str, Training], qrels: pd.DataFrame) -> None:
    """NAME/flagembedding.jsonl."""
    for name, made in sets.items():
        rows = ({"query": text, "pos": pos, "neg": neg} for _, text, pos, neg in made.by_query(made.texts))
        _lines(out / name / "flagembedding.jsonl", rows)


def _as_beir(out: Path, split: Split, sets: Mapping[str, Training], qrels: pd.DataFrame) -> None:
    """beir/: corpus.jsonl, queries.jsonl, and qrels/NAME.tsv of each training set and of the test queries."""
    data = split.pool.source.open()
    _lines(out / "beir" / "corpus.jsonl", _passages(data, "_id", "text"))
    every = pd.concat([data.queries(name) for name in data.splits]).drop_duplicates("query_id")
    rows = zip(every["query_id"], every["text"], strict=True)
    _lines(out / "beir" / "queries.jsonl", ({"_id": query_id, "text": text} for query_id, text in rows))
    pool = split.pool.qrels()
    judged = {name: pool[pool["query_id"].isin(made.pairs.query_ids)] for name, made in sets.items()}
    (out / "beir" / "qrels").mkdir()
    for name, part in (judged | {"test": qrels}).items():
        part[QRELS_COLUMNS].to_csv(out / "beir" / "qrels" / f"{name}.tsv", sep="\t", index=False, header=BEIR_HEADER)


def _as_released(out: Path, split: Split, sets: Mapping[str, Training], qrels: pd.DataFrame) -> None:
    """NAME.train-qrel.txt, as Zhan et al. released theirs."""
    ids = {name: made.pairs.query_ids for name, made in sets.items()}
    released.export_split("restrain", ids, split.pool.frame(), split.pool.qrels(), out)


FORMATS: dict[str, Callable] = {"ids": _as_ids, "st": _as_texts, "tevatron": _as_tevatron}
FORMATS |= {"flagembedding": _as_flagembedding, "beir": _as_beir, "released": _as_released}


def export(
    split: Split, store: Store, out: Path, formats: Sequence[str] = ("ids",), negatives: int = 1, spare: bool = False
) -> dict:
    """Write the training sets of a split as trainers read them, with what its runs are measured by; the manifest.

    split : computed in the store. formats : of `FORMATS`.
    negatives : random ones of each pair, see `Training.of`; `spare`: no exposed ones.

    For each set NAME/exposed.txt lists the passages to exclude from a trainer's own negatives. test.tsv, test.qrels:
    the test queries and their judgements; strata.tsv: what left-out part each belongs to. manifest.json: protocol,
    configuration, counts, SHA-256 of every file. InputError: the folder is there, or the collection has no passages.
    """
    if unknown := [name for name in formats if name not in FORMATS]:
        raise InputError(f"split: no format {offenders(unknown)}; there are {', '.join(FORMATS)}")
    if out.exists():
        raise InputError(f"{out}: is there already; name another folder, or move it away")
    if not len(split.pool.source.open().passages):
        raise InputError(f"{split.pool.source.spec}: queries without passages; a trainer needs passages")
    parts = [part for part in split.parts() if part != HELD_OUT]
    if bad := [name for name in parts if "/" in name]:
        raise InputError(f"label {offenders(bad)}: the name of a folder cannot hold a /; rename the label")
    chosen = split.sets(store)
    sets = {name: Training.of(split, chosen[name], negatives, spare, split.seed) for name in parts}
    qrels = pd.concat([queries.qrels(store) for queries in tested(split)], ignore_index=True)
    with scratch(out.with_name(f"{out.name}.tmp{os.getpid()}")) as aside:
        for name, made in sets.items():
            (aside / name).mkdir(parents=True)
            spared = made.data.passages.doc_ids.filter(pa.array(made.exposed)).to_pylist()
            (aside / name / EXPOSED).write_text("".join(f"{one}\n" for one in spared), encoding="utf-8")
        asked = pd.concat([queries.frame(store) for queries in tested(split)])[["query_id", "text"]]
        lines = asked["query_id"] + "\t" + asked["text"].str.replace(r"[\t\r\n]", " ", regex=True) + "\n"
        (aside / "test.tsv").write_text("".join(lines), encoding="utf-8")
        released.write_qrels(aside / "test.qrels", qrels)
        if split.release:
            split.strata(store).to_csv(aside / STRATA, sep="\t", header=False)
        for name in formats:
            FORMATS[name](aside, split, sets, qrels)
        numbers = {name: (len(made.pairs.query_ids), len(made.pairs.rows)) for name, made in sets.items()}
        counts = {name: dict(zip(("queries", "pairs"), found, strict=True)) for name, found in numbers.items()}
        manifest = {"protocol": type(split).__name__, "split": config_of(split), "sets": counts}
        manifest |= {"n_test": len(asked), "negatives": negatives, "spare": spare}
        paths = sorted(path for path in aside.rglob("*") if path.is_file())
        manifest["files"] = {path.relative_to(aside).as_posix(): sha256(path) for path in paths}
        write_json(aside / MANIFEST, manifest)
        os.replace(aside, out)
    return manifest
