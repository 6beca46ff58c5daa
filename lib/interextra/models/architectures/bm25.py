"""BM25 with Lucene: a model is k1 and b, tuned on training queries; its index is the collection's
(see `lucene`).
"""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from interextra.models.recipe import PositiveInt, Recipe
from interextra.models.search.lucene import bm25_index, bm25_search
from interextra.models.training.pairs import training_pairs

LABEL = "BM25"
COLOUR = "#999999"
ENCODES_QUERIES, INTERACTS = False, False
QUERY_SECONDS, PASSAGE_SECONDS = 2e-4, 5e-9  # of a search, and for each passage of the collection


class Options(Recipe):
    # all pairs of k1 and b are tried, on at most so many training queries, drawn with the seed
    k1: tuple[Annotated[float, Field(ge=0, le=1000)], ...] = Field((0.9,), min_length=1)
    b: tuple[Annotated[float, Field(ge=0, le=1)], ...] = Field((0.4,), min_length=1)
    tuning_queries: PositiveInt = 500

    def cost(self, n_train: int, n_passages: int, n_queries: int) -> dict[str, float]:
        points = len(self.k1) * len(self.b)
        tuning = min(self.tuning_queries, n_train) * points if points > 1 else 0
        seconds = tuning * (QUERY_SECONDS + n_passages * PASSAGE_SECONDS)
        return super().cost(n_train, n_passages, n_queries) | {"train_seconds": seconds}


class BM25(NamedTuple):
    """A BM25 model. A query without any known word gets padding only."""

    k1: float
    b: float

    def search(self, collection, texts: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        return bm25_search(collection, texts, k, self.k1, self.b)


def reciprocal_rank(rows: np.ndarray, relevant: Sequence[np.ndarray]) -> np.ndarray:
    """RR@10 of each ranking; `relevant[i]` are the rows that count for query i."""
    hits = np.stack(
        [np.isin(ranking[:10], right) for ranking, right in zip(rows, relevant, strict=True)]
    )
    return np.where(hits.any(axis=1), 1 / (hits.argmax(axis=1) + 1), 0.0)


def fit(
    recipe: Options, collection, query_ids: Sequence[str], split: str, seed: int, out_dir: Path
) -> dict:
    """Choose k1 and b by mean RR@10 on (a sample of) the training queries; write them to `out_dir`.

    The first best pair in the order of the recipe wins. A grid of one point needs no queries.
    """
    tried = [{"k1": k1, "b": b} for k1, b in itertools.product(recipe.k1, recipe.b)]
    chosen = []
    if len(tried) == 1:
        bm25_index(collection)
    else:
        pairs = training_pairs(collection, query_ids, split, recipe.positive_relevance)
        n, n_chosen = len(pairs.texts), min(len(pairs.texts), recipe.tuning_queries)
        chosen = np.sort(np.random.default_rng(seed).choice(n, n_chosen, replace=False))
        texts = [pairs.texts[i] for i in chosen]
        relevant = [pairs.rows[pairs.query == i] for i in chosen]
        for point in tried:
            rows, _ = bm25_search(collection, texts, 10, point["k1"], point["b"])
            point["RR@10"] = float(reciprocal_rank(rows, relevant).mean())
    best = max(tried, key=lambda point: point.get("RR@10", 0))
    found = {name: best[name] for name in ("k1", "b")}
    (out_dir / "bm25.json").write_text(json.dumps(found))
    return {"steps": 0, "loss": [], **found, "tuning_queries": len(chosen), "grid": tried}


def load(out_dir: Path, recipe: Options) -> BM25:
    return BM25(**json.loads((out_dir / "bm25.json").read_text()))
