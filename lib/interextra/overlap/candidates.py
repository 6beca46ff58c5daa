"""The pairs to annotate: for each test query its nearest training queries, by BM25 and by vectors
(Zhan §3.2).

Taught in notebooks/01_overlap_annotation_analysis.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.data.collection import Collection, Passages, write_passages
from interextra.models.search.lucene import bm25_search
from interextra.models.search.vectors import QueryVectors
from interextra.overlap.annotation import SHEET
from interextra.splits.similarity import nearest
from interextra.store import Cell, InputError, Store, offenders


class Candidates(Cell):
    """The pairs to label, without texts: `candidates` in candidates.parquet. BM25 has Anserini's
    default k1 and b.
    """

    vectors: QueryVectors
    k: int

    def title(self) -> str:
        return f"candidates · {self.k} a method · {self.vectors.title()}"

    def seconds(self) -> float:
        return 5 + sum(part.size() for part in self.vectors.test) / 200

    def build(self, folder: Path, store: Store) -> None:
        train, test = self.vectors.read(store)
        pool, asked = (
            self.vectors.train.frame(store),
            pd.concat([part.frame(store) for part in self.vectors.test]),
        )
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "queries.arrow"
            fingerprint = write_passages(path, zip(pool["query_id"], pool["text"], strict=True))
            as_passages = Collection("queries", "queries", Passages(path), pool, {}, fingerprint)
            by_words = bm25_search(as_passages, asked["text"].tolist(), self.k, k1=0.9, b=0.4)[0]
        found = candidates(
            asked["query_id"], pool["query_id"], by_words, nearest(test, train, self.k)[1]
        )
        found.to_parquet(folder / "candidates.parquet")

    def read(self, store: Store) -> pd.DataFrame:
        pool, asked = (
            self.vectors.train.frame(store),
            pd.concat([part.frame(store) for part in self.vectors.test]),
        )
        return with_texts(pd.read_parquet(store[self] / "candidates.parquet"), asked, pool)


def candidates(
    test: pd.Series, train: pd.Series, bm25_rows: np.ndarray, embedding_rows: np.ndarray
) -> pd.DataFrame:
    """The pairs to label: what both methods found, each pair once, by test query, best rank, row of
    `train`.

    Of the ids of test and training queries and int[n_test, k], rows of `train` from the nearest on,
    -1 = padding. Returns DataFrame[test_query_id, train_query_id, source, bm25_rank,
    embedding_rank] : ranks from 1, 0 = not found; source is bm25, embedding or both.
    """
    if len(both := test[test.isin(train)]):
        raise InputError(
            f"{len(both)} test queries are also training queries ({offenders(both)}): take them out there"
        )
    parts = []
    for method, rows in (("bm25", bm25_rows), ("embedding", embedding_rows)):
        at, rank = np.nonzero(rows >= 0)
        parts.append(pd.DataFrame({"at": at, "row": rows[at, rank], f"{method}_rank": rank + 1}))
    pairs = parts[0].merge(parts[1], on=["at", "row"], how="outer").fillna(0).astype(np.int64)
    ranks = pairs[["bm25_rank", "embedding_rank"]]
    source = np.select(
        [ranks.min(axis=1) > 0, ranks["bm25_rank"] > 0], ["both", "bm25"], "embedding"
    )
    best = ranks.where(ranks > 0).min(axis=1)
    pairs = pairs.assign(source=source, best=best).sort_values(
        ["at", "best", "row"], ignore_index=True
    )
    pairs = pairs.assign(
        test_query_id=test.to_numpy()[pairs["at"]], train_query_id=train.to_numpy()[pairs["row"]]
    )
    return pairs[["test_query_id", "train_query_id", "source", "bm25_rank", "embedding_rank"]]


def with_texts(pairs: pd.DataFrame, test: pd.DataFrame, train: pd.DataFrame) -> pd.DataFrame:
    """`candidates` as a sheet: the columns of `SHEET`, labels empty, then the ranks; of frames with
    query_id, text.
    """
    for name, queries in (("test", test), ("train", train)):
        text = queries.drop_duplicates("query_id").set_index("query_id")["text"]
        pairs = pairs.assign(**{f"{name}_query": pairs[f"{name}_query_id"].map(text)})
    return pairs.assign(entity="", intent="")[[*SHEET, "bm25_rank", "embedding_rank"]]
