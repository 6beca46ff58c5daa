"""Query vectors for the tests of split cells: drawn at random, about four centres."""

import numpy as np

from interextra.data.queries import Queries, Source
from interextra.store.cells import Cell

WORLD = "mini:n_train=600"


def queries(split: str = "train") -> Queries:
    return Queries(source=Source.of(WORLD), split=split)


class Drawn(Cell):
    """Stands for the cell of an encoder."""

    train: Queries
    test: tuple[Queries, ...] = ()

    def modules(self):
        return ("interextra.splits.similarity",)

    def build(self, folder, store):
        for at, part in enumerate((self.train, *self.test)):
            rng = np.random.default_rng([7, at])
            centres = 2 * np.eye(6)[rng.choice(4, part.size(), p=(0.1, 0.2, 0.3, 0.4))]
            np.save(
                folder / f"{part.name}.npy",
                (centres + rng.normal(size=centres.shape)).astype(np.float32),
            )

    def read(self, store):
        train, *test = (
            np.load(store[self] / f"{part.name}.npy") for part in (self.train, *self.test)
        )
        return train, np.concatenate([train[:0], *test])


def drawn() -> Drawn:
    return Drawn(train=queries(), test=(queries("dev"), queries("test")))
