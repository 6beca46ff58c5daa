"""A split: named sets of the queries of a pool, kept as query_ids in a cell."""

import json
from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

import numpy as np

from interextra.data.queries import Queries
from interextra.ground import Cell, InputError, Store, offenders, write_json


class OfVectors(Cell):
    """What divides the training queries that some vectors are of."""

    vectors: Cell

    @property
    def pool(self) -> Queries:
        return self.vectors.train

    def directed(self, store: Store) -> tuple[np.ndarray, np.ndarray]:
        """Vectors of the training queries and of the test queries; InputError with the ids of those that are zero."""
        train, test = self.vectors.read(store)
        sets = (self.pool, *self.vectors.test)
        ids = np.concatenate([np.array(queries.ids(store), dtype=object) for queries in sets])
        of_split = np.repeat([queries.split for queries in sets], [queries.size() for queries in sets])
        is_zero = np.concatenate([~vectors.any(axis=1) for vectors in (train, test)])
        if is_zero.any():
            where = offenders(np.unique(of_split[is_zero]).tolist())
            told = f"{is_zero.sum()} queries of the split {where} have no direction: {offenders(ids[is_zero])}"
            todo = "leave them out, or take another encoder (lsa knows no word that the training queries lack)"
            raise InputError(f"{self.pool.source.spec}: {told}; {todo}")
        return train, test


class Split(Cell):
    """What all kinds of split have in common: they divide the queries of their `pool`, a field or a property, and some
    divide test queries, too, those of `tested` into `strata`."""

    release: ClassVar[str] = ""  # how test queries are written, see `released.export_split`; "": it divides none

    @abstractmethod
    def size_of(self, part: str) -> int:
        """Number of queries in a set, estimated where the split is not there yet."""

    def parts(self) -> tuple[str, ...]:
        """Names of the sets; here of those without one of the strata each, `names`."""
        return tuple(f"without-{name}" for name in self.names)

    def sets(self, store: Store) -> dict[str, list[str]]:
        """query_ids of each set, by its name."""
        return json.loads((store[self] / "sets.json").read_text(encoding="utf-8"))

    def seconds(self) -> float:
        return 1 + self.pool.size() / 20_000

    def write_sets(self, folder: Path, store: Store, sets: dict[str, np.ndarray]) -> None:
        """Write sets.json from the rows of the pool's queries that are in each set."""
        ids = np.array(self.pool.ids(store), dtype=object)
        write_json(folder / "sets.json", {name: ids[rows].tolist() for name, rows in sets.items()})
