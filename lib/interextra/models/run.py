"""A run as a cell: a trained model searches any collection."""

import shutil
from pathlib import Path

from interextra.data.queries import Part, Queries
from interextra.ground.cells import Store
from interextra.models import architectures
from interextra.models.model import Model, load_model
from interextra.models.ranking import LOG, Ranking
from interextra.models.recipe import Recipe


class Run(Ranking):
    """The first `depth` passages of each query, by a trained model.

    All sets of queries belong to one collection, which need not be that of the training: its passages are encoded once.
    """

    model: Model
    queries: tuple[Queries | Part, ...]
    depth: int = 100

    @property
    def recipe(self) -> Recipe:
        return self.model.recipe

    def build(self, folder: Path, store: Store) -> None:
        collection, model = self.queries[0].source.open(), load_model(store[self.model] / "weights")
        asked = [queries.frame(store) for queries in self.queries]
        texts = [text for frame in asked for text in frame["text"]]
        self.write(folder, asked, collection.passages.doc_ids, *model.search(collection, texts, self.depth))
        shutil.copy(store[self.model] / LOG, folder)

    def modules(self) -> tuple[str, ...]:
        return (*super().modules(), architectures()[self.recipe.architecture].__name__)

    def title(self) -> str:
        found = "+".join(queries.name for queries in self.queries)
        return f"run {self.model.title().removeprefix('model ')} → {found} of {self.queries[0].source.spec}"

    def seconds(self) -> float:
        return self.recipe.cost(0, self.queries[0].source.n_passages(), self.n_queries())["encode_seconds"]
