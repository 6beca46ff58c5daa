"""A pretrained encoder as a cell: an objective on the passages of collections, from a start that others share."""

from importlib import import_module
from pathlib import Path

from interextra.data.queries import Source
from interextra.ground.cells import Cell, Store
from interextra.ground.files import write_json
from interextra.models.base import megabytes_of, start_of
from interextra.models.recipe import THROUGHPUT, Pretraining

OBJECTIVES = "interextra.models.objectives"  # imports torch, and only these cells depend on its code


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
        collections = [source.open() for source in self.corpus]
        log = import_module(OBJECTIVES).pretrain(
            self.how, collections, self.initialisation, self.seed, folder / "weights"
        )
        write_json(folder / "pretraining.json", log)

    def modules(self) -> tuple[str, ...]:
        return (*super().modules(), OBJECTIVES)

    def title(self) -> str:
        read = "+".join(source.spec for source in self.corpus)
        return f"pretraining {self.how.objective} · {read or 'nothing'} · from {self.initialisation} · seed {self.seed}"

    def seconds(self) -> float:
        speed = THROUGHPUT["minilm" if self.initialisation.startswith("minilm") else "tiny"]["train_tokens"]
        return self.how.steps * self.how.batch_size * self.how.length / speed

    def megabytes(self) -> float:
        return megabytes_of(self.initialisation)
