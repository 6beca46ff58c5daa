"""A pretrained encoder as a cell: an objective on the passages of collections, from a start that others share."""

from pathlib import Path

from interextra.data.queries import Source
from interextra.ground.cells import Cell, Store
from interextra.ground.files import write_json
from interextra.models.base import start_of
from interextra.models.recipe import Pretraining, size_of


class Pretrained(Cell):
    """`weights/` as transformers saves them, and `pretraining.json`: losses, and what it can before and after."""

    how: Pretraining
    corpus: tuple[Source, ...]
    initialisation: str
    start: str  # what the weights start from, by content
    seed: int

    @classmethod
    def of(cls, how: Pretraining, initialisation: str, seed: int) -> "Pretrained":
        corpus = tuple(Source.of(spec) for spec in how.corpus)
        return cls(how=how, corpus=corpus, initialisation=initialisation, start=start_of(initialisation), seed=seed)

    def build(self, folder: Path, store: Store) -> None:
        from interextra.models.objectives import pretrain  # which imports torch

        collections = [source.open() for source in self.corpus]
        log = pretrain(self.how, collections, self.initialisation, self.seed, folder / "weights")
        write_json(folder / "pretraining.json", log)

    def travels(self) -> tuple[str, ...]:
        return ("pretraining.json", "provenance.json")

    def title(self) -> str:
        read = "+".join(source.spec for source in self.corpus)
        return f"pretraining {self.how.objective} · {read or 'nothing'} · from {self.initialisation} · seed {self.seed}"

    def seconds(self) -> float:
        return self.how.steps * self.how.batch_size * self.how.length / size_of(self.initialisation).train_tokens

    def megabytes(self) -> float:
        return size_of(self.initialisation).megabytes
