"""Rankings as cells: what everything has that ranks passages for sets of queries."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from interextra.data.queries import Part, Queries
from interextra.data.runs import RunFile
from interextra.ground.cells import Cell, Store
from interextra.models.cost import RUN_ROW
from interextra.models.recipe import Recipe

LOG = "training.json"


class Ranking(Cell):
    """A ranking of at least one set of queries: `run.NAME.parquet` each; of a trained model also its `training.json`.

    A kind of ranking has `queries`, a field or a property, and `depth`.
    """

    @property
    def recipe(self) -> Recipe | None:
        """Of the model that ranked; None where there is no single one."""
        return None

    @property
    def rerank_depth(self) -> float:
        """So many passages are reranked, below them the first stage's order stays; infinite without a reranker."""
        return getattr(self.recipe, "rerank_depth", np.inf)

    def read(self, store: Store, queries: Queries | Part | str) -> RunFile:
        """The ranking of a set of queries, given or named."""
        return RunFile.read(store[self] / file_of(queries))

    def log(self, store: Store) -> dict:
        """What the model noted of its training (steps, loss, n_train, …); {} where nothing was trained."""
        path = store[self] / LOG
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def write(self, folder: Path, frames: Sequence, doc_ids, rows: np.ndarray, scores: np.ndarray) -> None:
        """A file for each set of queries; `rows`, `scores` [n, k] are those of the `frames` one after another."""
        ends = np.cumsum([len(frame) for frame in frames])[:-1]
        parts = zip(self.queries, frames, np.split(rows, ends), np.split(scores, ends), strict=True)
        for queries, frame, *hits in parts:
            RunFile.from_arrays(frame["query_id"].tolist(), doc_ids, *hits).write_parquet(folder / file_of(queries))

    def travels(self) -> tuple[str, ...]:
        return (LOG,)

    def megabytes(self) -> float:
        return RUN_ROW * self.n_queries() * self.depth

    def n_queries(self) -> int:
        return sum(part.size() for part in self.queries)


def file_of(queries: Queries | Part | str) -> str:
    return f"run.{queries if isinstance(queries, str) else queries.name}.parquet"
