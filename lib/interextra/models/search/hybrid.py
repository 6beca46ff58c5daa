"""Passages of several runs in the order of a cross-encoder, whose scores train TAS-Balanced."""

from pathlib import Path

import numpy as np
import pandas as pd

from interextra.data.queries import Part, Queries
from interextra.data.runs import RunFile
from interextra.models.architectures.reranker import Reranker
from interextra.models.model import Model, OfModel, file_of
from interextra.models.search.run import OfRuns
from interextra.store import InputError, Store


class Reranked(OfModel, OfRuns):
    """The union of the first `depth` passages of some runs, by the scores of a cross-encoder alone.

    Each passage stands there once. `hybrid_cat` of Hofstätter et al. (TREC 2021, section 5).
    `relevant`: with all relevant passages, which teach.
    """

    model: Model  # a reranker
    relevant: bool = False

    def build(self, folder: Path, store: Store) -> None:
        """Score the passages of each query, and write the rankings."""
        model = self.open_model(store)
        if not isinstance(model, Reranker) or not self.has_same_queries:
            raise InputError(f"{self.title()}: give a reranker, and runs on the same queries")
        passages = self.source.open().passages
        for queries in self.queries:
            pairs = self._pairs(store, queries).merge(queries.frame(store), on="query_id")
            rows = passages.rows(pairs["doc_id"])
            scores = model.score(passages, pairs["text"].tolist(), rows[:, np.newaxis])
            ranking = RunFile.from_frame(pairs.assign(score=scores[:, 0]))
            ranking.write_parquet(folder / file_of(queries))

    def _pairs(self, store: Store, queries: Queries | Part) -> pd.DataFrame:
        """Return query_id and doc_id of all that is to be scored, each pair once."""
        frames = []
        for run in self.runs:
            ranking = run.read(store, queries).frame()
            frames.append(ranking[ranking["rank"] <= self.depth])
        if self.relevant:
            qrels = queries.qrels(store)
            frames.append(qrels[qrels["relevance"] >= 1])
        return pd.concat(frames)[["query_id", "doc_id"]].drop_duplicates()

    def memory(self) -> float:
        """Return the estimated megabytes of memory at the peak."""
        return super().memory() + self.recipe.size.searching_megabytes()

    def seconds(self) -> float:
        """Return the estimated seconds on its device."""
        n_pairs = len(self.runs) * self.depth * self.n_queries()
        length = self.recipe.query_length + self.recipe.passage_length
        return n_pairs * length / self.recipe.speed.encode_tokens

    def title(self) -> str:
        """Return what a reader calls it."""
        runs = f"{len(self.runs)} runs, first {self.depth} each"
        return f"reranking · {runs} · {self.model.title()}"
