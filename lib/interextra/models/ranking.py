"""Rankings as cells: what everything has that ranks passages for sets of queries."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from interextra.data.queries import Part, Queries
from interextra.data.runs import RunFile
from interextra.ground.cells import Cell, Store
from interextra.models import architectures
from interextra.models.recipe import RUN_ROW, Recipe

LOG = "training.json"


class Ranking(Cell):
    """A ranking of at least one set of queries: `run.NAME.parquet` each; of a trained model also its `training.json`.

    A kind of ranking has `queries`, a field or a property, and `depth`.
    """

    @property
    def recipe(self) -> Recipe | None:
        """Of the model that ranked; None where there is no single one."""
        return None

    def read(self, store: Store, queries: Queries | Part | str) -> RunFile:
        """The ranking of a set of queries, given or named."""
        return RunFile.read(store[self] / file_of(queries))

    def log(self, store: Store) -> dict:
        """What the model noted of its training (steps, loss, n_train, …); {} where nothing was trained."""
        path = store[self] / LOG
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def write(self, folder: Path, store: Store, model: Cell, search: Callable) -> None:
        """What `search` (texts → rows, scores [n, k]) finds for all sets of queries, and the log of the model."""
        frames = [queries.frame(store) for queries in self.queries]
        found = search([text for frame in frames for text in frame["text"]])
        ends, doc_ids = np.cumsum([len(frame) for frame in frames])[:-1], self.queries[0].source.open().passages.doc_ids
        for queries, frame, *hits in zip(self.queries, frames, *(np.split(part, ends) for part in found), strict=True):
            RunFile.from_arrays(frame["query_id"].tolist(), doc_ids, *hits).write_parquet(folder / file_of(queries))
        shutil.copy(store[model] / LOG, folder)

    def modules(self) -> tuple[str, ...]:
        found = super().modules()
        return (*found, architectures()[self.recipe.architecture].__name__) if self.recipe else found

    def travels(self) -> tuple[str, ...]:
        return (LOG,)

    def megabytes(self) -> float:
        return RUN_ROW * self.n_queries() * self.depth

    def n_queries(self) -> int:
        return sum(part.size() for part in self.queries)


def file_of(queries: Queries | Part | str) -> str:
    return f"run.{queries if isinstance(queries, str) else queries.name}.parquet"
