"""BM25 with Lucene: a model is k1 and b, tuned on training queries.

Its index is that of the collection, see `lucene`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from interextra.data.collection import Collection
from interextra.models.recipe import PositiveInt, Recipe
from interextra.models.search.lucene import bm25_index, bm25_search
from interextra.models.training.pairs import training_pairs

LABEL = "BM25"
COLOUR = "#999999"
ENCODES_QUERIES = False
QUERY_SECONDS = 2e-4  # of a search
PASSAGE_SECONDS = 5e-9  # of a search, for each passage of the collection

K1 = Annotated[float, Field(ge=0, le=1000)]
B = Annotated[float, Field(ge=0, le=1)]


class Options(Recipe):
    """The values of k1 and b, all pairs of which are tried on training queries."""

    k1: tuple[K1, ...] = Field((0.9,), min_length=1)
    b: tuple[B, ...] = Field((0.4,), min_length=1)
    tuning_queries: PositiveInt = 500  # at most so many are drawn, with the seed

    def train_seconds(self, n_train: int, n_passages: int) -> float:
        """Estimate the seconds of the searches of the tuning."""
        n_points = len(self.k1) * len(self.b)
        if n_points == 1:
            return 0.0
        n_searches = n_points * min(self.tuning_queries, n_train)
        return n_searches * (QUERY_SECONDS + n_passages * PASSAGE_SECONDS)


class BM25(NamedTuple):
    """A BM25 model."""

    k1: float
    b: float

    def search(
        self, collection: Collection, texts: Sequence[str], k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best passages for each query text, see `topk.exact_search`.

        A query without any known word gets padding only.
        """
        return bm25_search(collection, texts, k, self.k1, self.b)


def reciprocal_rank(rows: np.ndarray, relevant: Sequence[np.ndarray]) -> np.ndarray:
    """Return RR@10 of each ranking in `rows`; `relevant[i]` are the rows that count for query i.

    >>> rows = np.array([[5, 3, 9], [1, 2, 4]])
    >>> reciprocal_rank(rows, [np.array([9, 3]), np.array([8])]).tolist()
    [0.5, 0.0]
    """
    values = np.zeros(len(rows))
    for query, answers in enumerate(relevant):
        hits = np.flatnonzero(np.isin(rows[query, :10], answers))
        if len(hits):
            values[query] = 1 / (hits[0] + 1)
    return values


def fit(
    recipe: Options,
    collection: Collection,
    query_ids: Sequence[str],
    split: str,
    seed: int,
    out_dir: Path,
) -> dict:
    """Choose k1 and b by mean RR@10 on (a sample of) the training queries; write them to `out_dir`.

    The first best pair in the order of the recipe wins. A grid of one pair needs no queries.
    """
    grid = [{"k1": k1, "b": b} for k1 in recipe.k1 for b in recipe.b]
    n_tuning_queries = 0
    if len(grid) == 1:
        bm25_index(collection)
    else:
        texts, relevant = _tuning_queries(recipe, collection, query_ids, split, seed)
        n_tuning_queries = len(texts)
        for point in grid:
            rows, _ = bm25_search(collection, texts, 10, **point)
            point["RR@10"] = float(reciprocal_rank(rows, relevant).mean())
    best = max(grid, key=lambda point: point.get("RR@10", 0))
    chosen = {"k1": best["k1"], "b": best["b"]}
    (out_dir / "bm25.json").write_text(json.dumps(chosen))
    return {"steps": 0, "loss": [], **chosen, "tuning_queries": n_tuning_queries, "grid": grid}


def _tuning_queries(
    recipe: Options, collection: Collection, query_ids: Sequence[str], split: str, seed: int
) -> tuple[list[str], list[np.ndarray]]:
    """Draw the texts of the queries that tune, and the rows of the relevant passages of each."""
    pairs = training_pairs(collection, query_ids, split, recipe.positive_relevance)
    n_queries = len(pairs.texts)
    n_drawn = min(n_queries, recipe.tuning_queries)
    generator = np.random.default_rng(seed)
    drawn = np.sort(generator.choice(n_queries, n_drawn, replace=False))
    texts = [pairs.texts[query] for query in drawn]
    relevant = [pairs.rows[pairs.query == query] for query in drawn]
    return texts, relevant


def load(out_dir: Path, recipe: Options) -> BM25:
    """Open the model that `fit` wrote to `out_dir`."""
    return BM25(**json.loads((out_dir / "bm25.json").read_text()))
