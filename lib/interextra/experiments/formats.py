"""Notebook 12: the training sets of a split as the trainers of others read them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from interextra.data.collection import Collection
from interextra.data.trec import BEIR_HEADER, QRELS_COLUMNS
from interextra.models.pairs import Pairs, exposed_passages, training_pairs
from interextra.papers import released
from interextra.splits.split import Split


class Training(NamedTuple):
    """A training set: the pairs, and random negatives of each."""

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

    def by_query(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """query_id, query, positives, negatives (lists): a row a query of `ids` or `texts`."""
        rows = []
        for at, places in pairs.groupby(self.pairs.query).indices.items():
            part = pairs.iloc[places]
            negatives = pd.unique(part.iloc[:, 2:].to_numpy().ravel()).tolist()
            rows.append((self.pairs.query_ids[at], self.pairs.texts[at], part.iloc[:, 1].tolist(), negatives))
        return pd.DataFrame(rows, columns=["query_id", "query", "positives", "negatives"])


def _dataset(frame: pd.DataFrame):
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    return Dataset.from_pandas(frame, preserve_index=False)


def _corpus(split: Split, doc_id: str):
    """The passages as a data set with the columns `doc_id` and text."""
    from datasets import Dataset
    from datasets.table import InMemoryTable

    return Dataset(InMemoryTable(split.pool.source.open().passages.table.rename_columns([doc_id, "text"])))


def _jsonl(data, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data.to_json(path, force_ascii=False)


def _queries(split: Split):
    """The training queries: query_id, text."""
    return _dataset(split.pool.frame()[["query_id", "text"]])


def _as_ids(out: Path, split: Split, sets: Mapping[str, Training], qrels: pd.DataFrame) -> None:
    """For sentence-transformers' `resolve_ids`: NAME/ids, and once queries and corpus, folders of `datasets`."""
    _queries(split).save_to_disk(out / "queries")
    _corpus(split, "passage_id").save_to_disk(out / "corpus")
    for name, made in sets.items():
        _dataset(made.ids()).save_to_disk(out / name / "ids")


def _as_texts(out: Path, split: Split, sets: Mapping[str, Training], qrels: pd.DataFrame) -> None:
    """For a trainer of sentence-transformers: NAME/st, a folder of `datasets`."""
    for name, made in sets.items():
        _dataset(made.texts()).save_to_disk(out / name / "st")


def _as_pylate(out: Path, split: Split, sets: Mapping[str, Training], qrels: pd.DataFrame) -> None:
    """For PyLate's `KDProcessing`: NAME/pylate-kd, and once pylate-queries and pylate-documents.

    The scores are the labels, 1 and 0: those of a teacher go in their place.
    """
    _queries(split).save_to_disk(out / "pylate-queries")
    _corpus(split, "document_id").save_to_disk(out / "pylate-documents")
    for name, made in sets.items():
        of = made.by_query(made.ids())
        scores = [[1.0] * len(row.positives) + [0.0] * len(row.negatives) for row in of.itertuples()]
        rows = of[["query_id"]].assign(document_ids=of["positives"] + of["negatives"], scores=scores)
        _dataset(rows).save_to_disk(out / name / "pylate-kd")


def _as_tevatron(out: Path, split: Split, sets: Mapping[str, Training], qrels: pd.DataFrame) -> None:
    """NAME/tevatron.jsonl, and once tevatron-corpus.jsonl."""
    _jsonl(_corpus(split, "docid"), out / "tevatron-corpus.jsonl")
    names = ["query_id", "query_text", "positive_document_ids", "negative_document_ids"]
    for name, made in sets.items():
        _jsonl(_dataset(made.by_query(made.ids()).set_axis(names, axis=1)), out / name / "tevatron.jsonl")


def _as_flagembedding(out: Path, split: Split, sets: Mapping[str, Training], qrels: pd.DataFrame) -> None:
    """NAME/flagembedding.jsonl."""
    for name, made in sets.items():
        rows = made.by_query(made.texts()).drop(columns="query_id").set_axis(["query", "pos", "neg"], axis=1)
        _jsonl(_dataset(rows), out / name / "flagembedding.jsonl")


def _as_beir(out: Path, split: Split, sets: Mapping[str, Training], qrels: pd.DataFrame) -> None:
    """beir/: corpus.jsonl, queries.jsonl, and qrels/NAME.tsv of each training set and of the test queries."""
    data, pool = split.pool.source.open(), split.pool.qrels()
    _jsonl(_corpus(split, "_id"), out / "beir" / "corpus.jsonl")
    every = pd.concat([data.queries(name) for name in data.splits]).drop_duplicates("query_id")
    _jsonl(_dataset(every[["query_id", "text"]].set_axis(["_id", "text"], axis=1)), out / "beir" / "queries.jsonl")
    judged = {name: pool[pool["query_id"].isin(made.pairs.query_ids)] for name, made in sets.items()}
    (out / "beir" / "qrels").mkdir()
    for name, part in (judged | {"test": qrels}).items():
        part[QRELS_COLUMNS].to_csv(out / "beir" / "qrels" / f"{name}.tsv", sep="\t", index=False, header=BEIR_HEADER)


def _as_released(out: Path, split: Split, sets: Mapping[str, Training], qrels: pd.DataFrame) -> None:
    """NAME.train-qrel.txt, as Zhan et al. released theirs."""
    ids = {name: made.pairs.query_ids for name, made in sets.items()}
    released.export_split("restrain", ids, split.pool.frame(), split.pool.qrels(), out)


FORMATS: dict[str, Callable] = {"ids": _as_ids, "st": _as_texts, "pylate-kd": _as_pylate, "tevatron": _as_tevatron}
FORMATS |= {"flagembedding": _as_flagembedding, "beir": _as_beir, "released": _as_released}
