"""A split: named sets of the queries of a pool, kept as query_ids in a cell."""

import json
from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

import numpy as np

from interextra.data.queries import Queries
from interextra.store import Cell, InputError, Store, offenders, write_json

REGIMES = ("interpolation", "extrapolation")


class OfVectors(Cell):
    """What divides the training queries that some vectors are of."""

    vectors: Cell

    @property
    def pool(self) -> Queries:
        return self.vectors.train

    def directed(self, store: Store) -> tuple[np.ndarray, np.ndarray]:
        """The vectors float32[n, d] of the training and of the test queries, none of length 0.

        InputError: the split and the query_ids without a direction, such as blank texts: they are
        similar to no query.
        """
        train, test = self.vectors.read(store)
        vectors = np.concatenate([train, test]) if len(test) else train
        rows, first = np.flatnonzero(~vectors.any(axis=1)), 0
        for queries in (self.vectors.train, *self.vectors.test) if len(rows) else ():
            frame = queries.frame(store)
            inside = frame.iloc[rows[(rows >= first) & (rows < first + len(frame))] - first]
            if len(inside):
                shown = offenders(inside[["query_id", "text"]].itertuples(index=False, name=None))
                told = f"{queries.source.spec}, split {queries.split}: {len(inside)} queries have a vector of zeros"
                raise InputError(
                    f"{told}: {shown}; leave them out, write their texts, or take another encoder"
                )
            first += len(frame)
        return train, test


class Split(Cell):
    """What all kinds of split have in common: they divide the queries of their `pool`, a field or a
    property, and some divide test queries, too, those of `tested` into `strata`.
    """

    release: ClassVar[str] = (
        ""  # how test queries are written, see `released.export_split`; "": it divides none
    )

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
