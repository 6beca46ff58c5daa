"""BM25 with Lucene. k1 and b are tuned on training queries; a model is these two numbers.

The index belongs to the collection, not to the model: it is built once in the cache and shared (see `lucene`).
"""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from interextra.models.lucene import bm25_index, bm25_search
from interextra.models.pairs import training_pairs
from interextra.models.recipe import BM25_PASSAGE, BM25_QUERY, FirstStage

LABEL = "BM25"
COLOUR = "#999999"
ENCODES_QUERIES, INTERACTS = False, False


class Options(FirstStage):
    def cost(self, n_train: int, n_passages: int, n_queries: int) -> dict[str, float]:
        points = len(self.k1) * len(self.b)
        tuning = min(self.tuning_queries, n_train) * points if points > 1 else 0
        seconds = tuning * (BM25_QUERY + n_passages * BM25_PASSAGE)
        return super().cost(n_train, n_passages, n_queries) | {"train_seconds": seconds}


class BM25:
    """A BM25 model: k1 and b. A query without any known word gets padding only."""

    def __init__(self, k1: float, b: float):
        self.k1, self.b = k1, b

    def search(self, collection, texts: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        return bm25_search(collection, texts, k, self.k1, self.b)


def reciprocal_rank(rows: np.ndarray, relevant: Sequence[np.ndarray]) -> np.ndarray:
    """RR@10 of each ranking; `relevant[i]` are the rows that count for query i."""
    hits = np.stack([np.isin(ranking[:10], right) for ranking, right in zip(rows, relevant, strict=True)])
    return np.where(hits.any(axis=1), 1 / (hits.argmax(axis=1) + 1), 0.0)


def fit(recipe: FirstStage, collection, query_ids: Sequence[str], split: str, seed: int, out_dir: Path) -> dict:
    """Choose k1 and b by mean RR@10 on (a sample of) the training queries; write them to `out_dir`.

    The first best pair in the order of the recipe wins. A grid of one point needs no queries.
    """
    tried = [{"k1": k1, "b": b} for k1, b in itertools.product(recipe.k1, recipe.b)]
    chosen = []
    if len(tried) == 1:
        bm25_index(collection)
    else:
        pairs = training_pairs(collection, query_ids, split, recipe.positive_relevance)
        chosen = np.arange(len(pairs.texts))
        if len(chosen) > recipe.tuning_queries:
            chosen = np.sort(np.random.default_rng(seed).choice(chosen, recipe.tuning_queries, replace=False))
        texts = [pairs.texts[i] for i in chosen]
        relevant = [pairs.rows[pairs.query == i] for i in chosen]
        for point in tried:
            rows, _ = bm25_search(collection, texts, 10, point["k1"], point["b"])
            point["RR@10"] = float(reciprocal_rank(rows, relevant).mean())
    best = max(tried, key=lambda point: point.get("RR@10", 0))
    found = {name: best[name] for name in ("k1", "b")}
    (out_dir / "bm25.json").write_text(json.dumps(found))
    return {"steps": 0, "loss": [], **found, "tuning_queries": len(chosen), "grid": tried}


def load(out_dir: Path, recipe: FirstStage) -> BM25:
    return BM25(**json.loads((out_dir / "bm25.json").read_text()))
