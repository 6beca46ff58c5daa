"""A run as a cell: a trained model searches any collection."""

import shutil
from pathlib import Path

import numpy as np

from interextra.data.queries import Part, Queries
from interextra.data.runs import RunFile
from interextra.ground.cells import Cell, Store
from interextra.models import architectures
from interextra.models.model import Model, load_model


class Run(Cell):
    """The first `depth` passages of each query: `run.NAME.parquet` a set of queries, and the model's training.json.

    All sets of queries belong to one collection, which need not be that of the training: its passages are encoded once.
    """

    model: Model
    queries: tuple[Queries | Part, ...]
    depth: int = 100
    index: str = "exact"  # how it is searched: exact, or an index of the architecture (impact, ivf)

    def build(self, folder: Path, store: Store) -> None:
        collection, model = self.queries[0].source.open(), load_model(store[self.model] / "weights")
        asked = [queries.frame(store) for queries in self.queries]
        texts = [text for frame in asked for text in frame["text"]]
        found = model.search(collection, texts, self.depth, self.index)
        ends = np.cumsum([len(frame) for frame in asked])[:-1]
        for queries, frame, *hits in zip(self.queries, asked, *(np.split(part, ends) for part in found), strict=True):
            run = RunFile.from_arrays(frame["query_id"].tolist(), collection.passages.doc_ids, *hits)
            run.write_parquet(folder / f"run.{queries.name}.parquet")
        shutil.copy(store[self.model] / "training.json", folder)

    def modules(self) -> tuple[str, ...]:
        return (*super().modules(), architectures()[self.model.recipe.architecture].__name__)

    def title(self) -> str:
        found = "+".join(queries.name for queries in self.queries)
        return f"run {self.model.title().removeprefix('model ')} → {found} of {self.queries[0].source.spec}"

    def seconds(self) -> float:
        n_passages, n_queries = self.queries[0].source.n_passages(), sum(part.size() for part in self.queries)
        return self.model.recipe.cost(0, n_passages, n_queries)["encode_seconds"]

    def megabytes(self) -> float:
        return 7e-6 * sum(queries.size() for queries in self.queries) * self.depth  # from what some took
