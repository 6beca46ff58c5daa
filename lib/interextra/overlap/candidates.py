"""The pairs to annotate: the nearest training queries of each test query, by BM25 and by vectors.

Zhan et al., CIKM 2022, §3.2. Taught in notebooks/01_overlap_annotation_analysis.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.data.collection import Collection, Passages, write_passages
from interextra.models.prices import JAVA
from interextra.models.search.lucene import bm25_search
from interextra.models.search.vectors import QueryVectors
from interextra.overlap.annotation import SHEET
from interextra.splits.similarity import nearest
from interextra.store import Cell, InputError, Store, offenders

RANKS = ["bm25_rank", "embedding_rank"]


class Candidates(Cell):
    """The pairs to label, without texts: `candidates` in candidates.parquet.

    BM25 has Anserini's default k1 and b.
    """

    vectors: QueryVectors
    k: int

    def title(self) -> str:
        """Return what a reader calls the candidates."""
        return f"candidates · {self.k} a method · {self.vectors.title()}"

    def memory(self) -> float:
        """Return the estimated megabytes of memory at the peak: Java, and the vectors."""
        return super().memory() + JAVA + 2 * self.vectors.megabytes()

    def seconds(self) -> float:
        """Return the estimated seconds of one core."""
        n_test = sum(queries.size() for queries in self.vectors.test)
        return 5 + n_test / 200

    def build(self, folder: Path, store: Store) -> None:
        """Write candidates.parquet."""
        train_vectors, test_vectors = self.vectors.read(store)
        test, train = _test_and_train(self.vectors, store)
        texts = test["text"].tolist()
        bm25_rows = _bm25_rows(texts, train, self.k)
        _, embedding_rows = nearest(test_vectors, train_vectors, self.k)
        pairs = candidates(test["query_id"], train["query_id"], bm25_rows, embedding_rows)
        pairs.to_parquet(folder / "candidates.parquet")

    def read(self, store: Store) -> pd.DataFrame:
        """Read the pairs, with texts, see `with_texts`."""
        pairs = pd.read_parquet(store[self] / "candidates.parquet")
        return with_texts(pairs, *_test_and_train(self.vectors, store))


def _test_and_train(vectors: QueryVectors, store: Store) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the test and the training queries of the vectors."""
    frames = [queries.frame(store) for queries in vectors.test]
    test = pd.concat(frames)
    return test, vectors.train.frame(store)


def _bm25_rows(texts: list[str], train: pd.DataFrame, k: int) -> np.ndarray:
    """Return the rows int[n, k] of the training queries that BM25 finds; -1 = padding."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "queries.arrow"
        queries = zip(train["query_id"], train["text"], strict=True)
        fingerprint = write_passages(path, queries)
        as_passages = Collection("queries", "queries", Passages(path), train, {}, fingerprint)
        rows, _ = bm25_search(as_passages, texts, k, k1=0.9, b=0.4)
        return rows


def candidates(
    test: pd.Series, train: pd.Series, bm25_rows: np.ndarray, embedding_rows: np.ndarray
) -> pd.DataFrame:
    """Return the pairs to label: what both methods found, each pair once.

    Parameters
    ----------
    test, train : pandas.Series
        query_ids.
    bm25_rows, embedding_rows : int[n_test, k]
        Rows of `train` from the nearest on, -1 = padding.

    Returns
    -------
    pandas.DataFrame
        test_query_id, train_query_id, source (bm25, embedding or both), bm25_rank, embedding_rank
        (from 1, 0 = not found); by test query, best rank, row of `train`.

    Raises
    ------
    InputError
        Test queries that are also training queries.
    """
    both = test[test.isin(train)]
    if len(both):
        raise InputError(
            f"{len(both)} test queries are also training queries ({offenders(both)}): "
            "take them out there"
        )
    pairs = _found_by_either(bm25_rows, embedding_rows)
    pairs = pairs.sort_values(["test_row", "best_rank", "train_row"], ignore_index=True)
    pairs["test_query_id"] = test.to_numpy()[pairs["test_row"]]
    pairs["train_query_id"] = train.to_numpy()[pairs["train_row"]]
    return pairs[["test_query_id", "train_query_id", "source", *RANKS]]


def _found_by_either(bm25_rows: np.ndarray, embedding_rows: np.ndarray) -> pd.DataFrame:
    """Return test_row, train_row, both ranks (0 = not found), best_rank and source."""
    by_bm25 = _ranked(bm25_rows, "bm25_rank")
    by_embedding = _ranked(embedding_rows, "embedding_rank")
    pairs = by_bm25.merge(by_embedding, on=["test_row", "train_row"], how="outer")
    pairs = pairs.fillna(0).astype(np.int64)
    ranks = pairs[RANKS]
    is_found = ranks > 0
    pairs["best_rank"] = ranks.where(is_found).min(axis=1)
    by_both = is_found.all(axis=1)
    by_bm25_at_least = is_found["bm25_rank"]
    is_of_source = [by_both, by_bm25_at_least]
    pairs["source"] = np.select(is_of_source, ["both", "bm25"], "embedding")
    return pairs


def _ranked(rows: np.ndarray, name: str) -> pd.DataFrame:
    """Return test_row, train_row and the rank, from 1, of what one method found."""
    test_row, place = np.nonzero(rows >= 0)
    train_row = rows[test_row, place]
    rank = place + 1
    return pd.DataFrame({"test_row": test_row, "train_row": train_row, name: rank})


def with_texts(pairs: pd.DataFrame, test: pd.DataFrame, train: pd.DataFrame) -> pd.DataFrame:
    """Return `candidates` as a sheet: the columns of `SHEET`, labels empty, then the ranks.

    `test` and `train` have query_id and text.
    """
    return pairs.assign(
        test_query=pairs["test_query_id"].map(_text_of(test)),
        train_query=pairs["train_query_id"].map(_text_of(train)),
        entity="",
        intent="",
    )[[*SHEET, *RANKS]]


def _text_of(queries: pd.DataFrame) -> pd.Series:
    """Return the text of each query_id."""
    return queries.drop_duplicates("query_id").set_index("query_id")["text"]
