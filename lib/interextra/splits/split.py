"""A split: named sets of the queries of a pool, kept as query_ids in a cell."""

import json
from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from interextra.data.queries import Part, Queries
from interextra.store import Cell, InputError, Store, offenders, write_json

if TYPE_CHECKING:
    from interextra.models.search.vectors import QueryVectors
else:
    QueryVectors = Cell  # the rooms above may add kinds: any cell with `train`, `test` and `read`

REGIMES = ("interpolation", "extrapolation")


class OfVectors(Cell):
    """A cell that divides the training queries that some vectors are of."""

    vectors: QueryVectors

    @property
    def pool(self) -> Queries:
        """The queries that are divided."""
        return self.vectors.train

    def memory(self) -> float:
        """Return the estimated megabytes of memory at the peak: the vectors, and copies of them."""
        return super().memory() + self.pool.source.memory() + 3 * self.vectors.megabytes()

    def nonzero_vectors(self, store: Store) -> tuple[np.ndarray, np.ndarray]:
        """Read the vectors of the training and of the test queries, none of length 0.

        Returns
        -------
        tuple of numpy.ndarray
            float32[n_train, d] and float32[n_test, d].

        Raises
        ------
        InputError
            Names the split and the queries without a direction, such as blank texts: they are
            similar to no query.
        """
        train, test = self.vectors.read(store)
        _refuse_zero_vectors(train, [self.vectors.train], store)
        _refuse_zero_vectors(test, self.vectors.test, store)
        return train, test


class Clusters(Cell):
    """Named clusters of the queries of a pool, which a shift leaves out in turn.

    The pool is a field or a property.
    """

    word: ClassVar[str]  # what a reader calls one of them
    of_pool_only: ClassVar[bool] = False  # whether queries of other splits are in none

    if TYPE_CHECKING:  # here a property would be the default of a kind's field of that name

        @property
        def pool(self) -> Queries:
            """The queries that are divided."""

        @property
        def names(self) -> tuple[str, ...]:
            """The names of the clusters."""

    @abstractmethod
    def labels(self, store: Store) -> np.ndarray:
        """Return the cluster of each query of the pool, object[n]; "" for none."""

    @abstractmethod
    def labels_of(self, split: str, store: Store) -> np.ndarray:
        """Return the cluster of each query of another split, object[n]; "" for none."""

    @abstractmethod
    def cluster_size(self) -> int:
        """Return the estimated number of the pool's queries in a cluster."""


class Split(Cell):
    """What all kinds of split have in common: they divide the queries of their `pool`.

    The pool is a field or a property. Some kinds divide test queries, too: those of `tested` into
    `strata`, whose names are `names`.
    """

    # How test queries are written, see `released.export_split`; "": the split divides none.
    release: ClassVar[str] = ""

    if TYPE_CHECKING:  # here a property would be the default of a kind's field of that name

        @property
        def pool(self) -> Queries:
            """The queries that are divided."""

        @property
        def seed(self) -> int:
            """Seed of what is drawn."""

        @property
        def tested(self) -> tuple[Queries | Part, ...]:
            """The test queries that are divided, too."""

        @property
        def names(self) -> tuple[str, ...]:
            """What is left out: the names of the strata."""

        def strata(self, store: Store) -> pd.Series:
            """Return the stratum of each test query; index query_id."""

    @abstractmethod
    def size_of(self, part: str) -> int:
        """Return the number of queries in a set, estimated where the split is not there yet."""

    def parts(self) -> tuple[str, ...]:
        """Return the names of the sets; here of those without one of the strata each."""
        return tuple(f"without-{name}" for name in self.names)

    def sets(self, store: Store) -> dict[str, list[str]]:
        """Return the query_ids of each set, by its name."""
        path = store[self] / "sets.json"
        return json.loads(path.read_text(encoding="utf-8"))

    def seconds(self) -> float:
        """Return the estimated seconds of one core."""
        return 1 + self.pool.size() / 20_000

    def write_sets(self, folder: Path, store: Store, rows_of: dict[str, np.ndarray]) -> None:
        """Write sets.json from the rows of the pool's queries that are in each set."""
        query_ids = np.asarray(self.pool.ids(store), object)
        sets = {name: query_ids[rows].tolist() for name, rows in rows_of.items()}
        write_json(folder / "sets.json", sets)


def _refuse_zero_vectors(vectors: np.ndarray, splits: Iterable[Queries], store: Store) -> None:
    """Raise InputError for the first split with a vector of length 0; `vectors` are of all."""
    is_zero = ~np.any(vectors, axis=1)
    if not is_zero.any():  # the queries are read for the message only
        return
    start = 0
    for queries in splits:
        frame = queries.frame(store)
        end = start + len(frame)
        without_direction = frame[is_zero[start:end]]
        if len(without_direction):
            shown = zip(without_direction["query_id"], without_direction["text"], strict=True)
            raise InputError(
                f"{queries.source.spec}, split {queries.split}: {len(without_direction)} queries "
                f"have a vector of zeros: {offenders(shown)}; "
                "leave them out, write their texts, or take another encoder"
            )
        start = end
