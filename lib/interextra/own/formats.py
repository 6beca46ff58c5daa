"""Notebook 12: the training sets of a split as the trainers of others read them."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from interextra.data.collection import Collection
from interextra.data.queries import Source
from interextra.data.trec import BEIR_HEADER, QRELS_COLUMNS
from interextra.models.training.pairs import (
    Pairs,
    exposed_passages,
    relevant_pairs,
    text_numbers,
    training_pairs,
)
from interextra.papers import released
from interextra.splits.split import Split
from interextra.store import InputError, Store, offenders

HELD_OUT = "held-out"  # a set of test queries


class TrainingSet(NamedTuple):
    """The training pairs of some queries, and random negatives of each pair."""

    data: Collection
    pairs: Pairs
    negatives: np.ndarray  # int64[pairs, n], rows of the passages
    exposed: np.ndarray  # bool[passages], see `exposed_passages`

    @classmethod
    def of(
        cls,
        split: Split,
        ids: Sequence[str],
        n: int,
        spare: bool,
        name: str = "",
    ) -> "TrainingSet":
        """Return the training set of some queries of the split's pool, with `n` negatives a pair.

        Negatives are drawn from all passages but the relevant ones of the query and, with `spare`,
        exposed ones. A passage of the same text as another (see `data.texts`) is relevant, or
        exposed, where the other is. A query without a passage that could be its negative is left
        out of the set `name`, which is said on standard error.

        Raises
        ------
        InputError
            No query is left.
        """
        data = split.pool.source.open()
        pairs = training_pairs(data, ids, split.pool.split, relevance=1)
        alike = _text_numbers(split.pool.source)
        exposed = exposed_passages(data, pairs, relevance=1, text_of=alike)
        is_allowed = ~exposed if spare else np.ones(len(exposed), bool)
        has_negative = _has_negative(pairs, alike, is_allowed)
        if not has_negative.all():
            _report_left_out(pairs, has_negative, spare, name)
            pairs = _of_queries(pairs, has_negative)
        negatives = _draw_negatives(pairs, alike, is_allowed, n, split.seed)
        return cls(data, pairs, negatives, exposed)

    def ids(self) -> pd.DataFrame:
        """Return query_id, positive_id, negative_id: a row a pair.

        The columns are negative_id_1, negative_id_2 … where a pair has several negatives.
        """
        doc_ids = np.asarray(self.data.passages.doc_ids.to_pylist(), dtype=object)
        query_ids = np.asarray(self.pairs.query_ids, dtype=object)
        columns = {
            "query_id": query_ids[self.pairs.query],
            "positive_id": doc_ids[self.pairs.rows],
        }
        n_negatives = self.negatives.shape[1]
        for at, rows in enumerate(self.negatives.T, 1):
            column = "negative_id" if n_negatives == 1 else f"negative_id_{at}"
            columns[column] = doc_ids[rows]
        return pd.DataFrame(columns)

    def texts(self) -> pd.DataFrame:
        """Return anchor, positive, negative_1 …: the rows of `ids` as texts."""
        passages = self.data.passages
        queries = np.asarray(self.pairs.texts, dtype=object)
        columns = {
            "anchor": queries[self.pairs.query],
            "positive": passages.texts(self.pairs.rows),
        }
        for at, rows in enumerate(self.negatives.T, 1):
            columns[f"negative_{at}"] = passages.texts(rows)
        return pd.DataFrame(columns)

    def by_query(self, pairs: pd.DataFrame, *names: str) -> pd.DataFrame:
        """Return query_id, query, positives, negatives as columns `names`: a row a query.

        Positives and negatives are lists, of the `pairs` that `ids` or `texts` returned.
        """
        rows = []
        for at, of_query in pairs.groupby(self.pairs.query):
            query_id = self.pairs.query_ids[at]
            text = self.pairs.texts[at]
            positives = of_query.iloc[:, 1].tolist()
            negatives = of_query.iloc[:, 2:].to_numpy().ravel()
            rows.append((query_id, text, positives, pd.unique(negatives).tolist()))
        return pd.DataFrame(rows, columns=names)

    def tevatron(self) -> pd.DataFrame:
        """Return the rows that Tevatron reads: ids of passages, by query."""
        return self.by_query(
            self.ids(), "query_id", "query_text", "positive_document_ids", "negative_document_ids"
        )

    def flagembedding(self) -> pd.DataFrame:
        """Return the rows that FlagEmbedding reads: texts, by query."""
        by_query = self.by_query(self.texts(), "query_id", "query", "pos", "neg")
        return by_query.drop(columns="query_id")

    def pylate(self) -> pd.DataFrame:
        """Return query_id, document_ids, scores, as PyLate's `KDProcessing` reads them.

        The scores are labels, 1 and 0, in the place of a teacher's scores.
        """
        by_query = self.by_query(self.ids(), "query_id", "query", "positives", "negatives")
        positives, negatives = by_query["positives"], by_query["negatives"]
        ones = positives.map(lambda ids: [1.0] * len(ids))
        zeros = negatives.map(lambda ids: [0.0] * len(ids))
        return by_query[["query_id"]].assign(
            document_ids=positives + negatives, scores=ones + zeros
        )


@lru_cache(maxsize=2)
def _text_numbers(source: Source) -> np.ndarray:
    """Return `text_numbers` of the passages, which all sets of a split have in common."""
    return text_numbers(source.open().passages)


def _has_negative(pairs: Pairs, alike: np.ndarray, is_allowed: np.ndarray) -> np.ndarray:
    """Return for which queries some allowed passage is not relevant: bool[queries]."""
    query, row = np.divmod(relevant_pairs(pairs, alike), len(alike))
    allowed_of = query[is_allowed[row]]
    n_relevant = np.bincount(allowed_of, minlength=len(pairs.query_ids))
    return n_relevant < is_allowed.sum()


def _report_left_out(pairs: Pairs, has_negative: np.ndarray, spare: bool, name: str) -> None:
    """Say on standard error which queries have no negative; refuse a set where none has one."""
    left_out = list(compress(pairs.query_ids, ~has_negative))
    if not has_negative.any():
        todo = "give a larger set, or no --spare" if spare else "give a larger set"
        raise InputError(f"query {offenders(left_out)}: no passage is left for a negative; {todo}")
    what = "relevant or exposed" if spare else "relevant"
    print(
        f"{name}: without {len(left_out)} queries to which every passage is {what}, so that they "
        f"have no negative: {offenders(left_out)}",
        file=sys.stderr,
    )


def _of_queries(pairs: Pairs, is_kept: np.ndarray) -> Pairs:
    """Return the pairs of some queries, bool[queries]."""
    query_ids = list(compress(pairs.query_ids, is_kept))
    texts = list(compress(pairs.texts, is_kept))
    kept_pairs = is_kept[pairs.query]
    new_number = np.cumsum(is_kept) - 1
    query = new_number[pairs.query[kept_pairs]]
    return Pairs(query_ids, texts, query, pairs.rows[kept_pairs])


def _draw_negatives(
    pairs: Pairs, alike: np.ndarray, is_allowed: np.ndarray, n: int, seed: int
) -> np.ndarray:
    """Draw `n` of the allowed passages for each pair until none is relevant: int64[pairs, n]."""
    generator = np.random.default_rng(seed)
    allowed = np.flatnonzero(is_allowed)
    relevant = relevant_pairs(pairs, alike)
    first_code = pairs.query[:, None] * len(alike)  # see `relevant_pairs`
    n_pairs = len(pairs.rows)
    negatives = generator.choice(allowed, (n_pairs, n))
    while True:
        is_relevant = np.isin(first_code + negatives, relevant)
        if not is_relevant.any():
            return negatives
        negatives[is_relevant] = generator.choice(allowed, is_relevant.sum())


# What each set has in a format: a folder of `datasets`, or a file of JSON_LINES. `ids` is for
# sentence-transformers' `resolve_ids`, `pylate-kd` for PyLate's `KDProcessing`.
ROWS: dict[str, Callable[[TrainingSet], pd.DataFrame]] = {
    "ids": TrainingSet.ids,
    "st": TrainingSet.texts,
    "pylate-kd": TrainingSet.pylate,
    "tevatron": TrainingSet.tevatron,
    "flagembedding": TrainingSet.flagembedding,
}
JSON_LINES = ("tevatron", "flagembedding")
FORMATS = (*ROWS, "beir", "released")  # the last two hold all sets
# What a format needs once, beside the sets.
TRAINING_QUERIES = {"ids": "queries", "pylate-kd": "pylate-queries"}
# The file of all passages, and what the format calls their ids.
CORPUS = {
    "ids": ("corpus", "passage_id"),
    "tevatron": ("tevatron-corpus.jsonl", "docid"),
    "pylate-kd": ("pylate-documents", "document_id"),
    "beir": ("beir/corpus.jsonl", "_id"),
}


def as_released(split: Split, store: Store, folder: Path) -> list[Path]:
    """Write a computed split as Zhan et al. and Lupart et al. released theirs; return the paths."""
    training_sets = split.sets(store)
    training_sets.pop(HELD_OUT, None)
    pool = split.pool
    paths = released.export_split(
        "restrain", training_sets, pool.frame(store), pool.qrels(store), folder
    )
    if split.release:
        strata = split.strata(store)
        test_sets = {}
        for name, ids in strata.groupby(strata).groups.items():
            test_sets[str(name)] = ids.tolist()
        queries = pd.concat([tested.frame(store) for tested in split.tested])
        qrels = pd.concat([tested.qrels(store) for tested in split.tested])
        paths += released.export_split(split.release, test_sets, queries, qrels, folder)
    return paths


def write(
    name: str,
    folder: Path,
    split: Split,
    store: Store,
    training_sets: Mapping[str, TrainingSet],
    test_qrels: pd.DataFrame,
    gate_ids: Sequence[str],
) -> None:
    """Write the training sets in the format `name`, one of FORMATS.

    `gate_ids`: of the judged queries, those that only show a lead.
    """
    from datasets import disable_progress_bars

    disable_progress_bars()
    if name in CORPUS:
        file, id_column = CORPUS[name]
        passages = split.pool.source.open().passages
        _save(passages.table.rename_columns([id_column, "text"]), folder / file)
    if name in TRAINING_QUERIES:
        queries = split.pool.frame()[["query_id", "text"]]
        _save(queries, folder / TRAINING_QUERIES[name])
    if name in ROWS:
        file = f"{name}.jsonl" if name in JSON_LINES else name
        for set_name, training_set in training_sets.items():
            rows = ROWS[name](training_set)
            _save(rows, folder / set_name / file)
    elif name == "beir":
        _write_beir(folder / "beir", split, training_sets, test_qrels, gate_ids)
    else:
        as_released(split, store, folder)


def _write_beir(
    folder: Path,
    split: Split,
    training_sets: Mapping[str, TrainingSet],
    test_qrels: pd.DataFrame,
    gate_ids: Sequence[str],
) -> None:
    """Write all queries of the collection, and the qrels of each set, the test and the gate."""
    data = split.pool.source.open()
    every_split = pd.concat([data.queries(part) for part in data.splits])
    queries = every_split.drop_duplicates("query_id")[["query_id", "text"]]
    _save(queries.rename(columns={"query_id": "_id"}), folder / "queries.jsonl")
    pool_qrels = split.pool.qrels()
    qrels = {}
    for set_name, training_set in training_sets.items():
        of_set = pool_qrels["query_id"].isin(training_set.pairs.query_ids)
        qrels[set_name] = pool_qrels[of_set]
    is_gate = test_qrels["query_id"].isin(gate_ids)
    qrels["test"] = test_qrels[~is_gate]
    qrels["gate"] = test_qrels[is_gate]
    (folder / "qrels").mkdir()
    for part, judged in qrels.items():
        path = folder / "qrels" / f"{part}.tsv"
        judged[QRELS_COLUMNS].to_csv(path, sep="\t", index=False, header=BEIR_HEADER)


def _save(rows: pd.DataFrame | pa.Table, path: Path) -> None:
    """Save a table as a folder of `datasets`, or where the path is .jsonl as lines of JSON."""
    from datasets import Dataset
    from datasets.table import InMemoryTable

    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(rows, pd.DataFrame):
        dataset = Dataset.from_pandas(rows, preserve_index=False)
    else:
        dataset = Dataset(InMemoryTable(rows))
    if path.suffix == ".jsonl":
        dataset.to_json(path, force_ascii=False)
    else:
        dataset.save_to_disk(path)
