"""Sets of queries as parts of a configuration: a split of a collection, or a named set of a split
cell.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
import pandas as pd
from pydantic import BaseModel

from interextra.data.collection import Collection
from interextra.data.load import open_collection, peek
from interextra.data.msmarco import QuerySets
from interextra.store import Cell, InputError, Store
from interextra.store.cells import is_reading

TRAINED = 1  # relevance from which a passage is a positive of a training
_PRICING = [False]
_OPEN: set[str] = set()  # fingerprints of the collections that this process has planned with


@contextmanager
def pricing() -> Iterator[None]:
    """Within it a collection that would have to be downloaded is only counted, so that a plan shows
    its cost before.
    """
    before, _PRICING[0] = _PRICING[0], True
    try:
        yield
    finally:
        _PRICING[0] = before


class Source(BaseModel, frozen=True, extra="forbid"):
    """A collection in a configuration: named by its spec, identified by its content."""

    spec: str
    fingerprint: str  # "" while it is only priced

    @classmethod
    def of(cls, spec: str) -> "Source":
        fingerprint = "" if _PRICING[0] and peek(spec) else open_collection(spec).fingerprint
        _OPEN.add(fingerprint)
        return cls(spec=spec, fingerprint=fingerprint)

    @property
    def is_open(self) -> bool:
        """Whether cells can be checked against it when they are planned: a worker, say, need not
        open it for that.
        """
        return bool(self.fingerprint) and self.fingerprint in _OPEN and not is_reading()

    def n_passages(self) -> int:
        return len(self.open().passages) if self.fingerprint else peek(self.spec)["passages"]

    def open(
        self,
    ) -> (
        Collection | QuerySets
    ):  # named here, so that its code is in the keys: `data.load` is apart
        """The collection; InputError where its content has changed since it was planned."""
        collection = open_collection(self.spec)
        if collection.fingerprint != self.fingerprint:
            raise InputError(
                f"{self.spec} is not the collection that was planned: its content changed. Plan again"
            )
        return collection


class Queries(BaseModel, frozen=True, extra="forbid"):
    """The queries of a split, or a random `limit` of them (0: all).

    relevance : only those with a passage of this relevance or more, before any are drawn; 0: all.
    See `trainable`.
    """

    source: Source
    split: str
    limit: int = 0
    seed: int = 0
    relevance: int = 0

    def __init__(self, **fields):
        super().__init__(**fields)
        if self.limit < 0:
            raise InputError(
                f"{self.limit} queries of the split {self.split!r}: give a number, 0 for all"
            )
        known = [self.split]
        if self.source.is_open:
            known = self.source.open().splits
        elif _PRICING[0] and not self.source.fingerprint:
            known = peek(self.source.spec)["queries"]
        if self.split not in known:
            raise InputError(
                f"{self.source.spec} has no split {self.split!r}; it has {', '.join(known)}"
            )

    @property
    def name(self) -> str:
        return self.split

    def frame(self, store: Store | None = None) -> pd.DataFrame:
        """query_id, text, attributes, in the order of the split; the caller's own: changing it
        changes no other.
        """
        return _queries(self).copy(deep=False)  # copied where it is written to

    def ids(self, store: Store | None = None) -> list[str]:
        return _queries(self)["query_id"].tolist()

    def qrels(self, store: Store | None = None) -> pd.DataFrame:
        qrels = self.source.open().qrels(self.split)
        is_part = self.limit or self.relevance
        return (
            qrels[qrels["query_id"].isin(self.ids())].reset_index(drop=True) if is_part else qrels
        )

    def size(self) -> int:
        source, split = self.source, self.split
        if self.relevance and source.fingerprint:
            return len(_queries(self))
        n = (
            len(source.open().query_ids(split))
            if source.fingerprint
            else peek(source.spec)["queries"][split]
        )
        return min(n, self.limit or 2**62)

    def trainable(self) -> "Queries":
        """Those that a training can learn from: with a relevant passage, of relevance 1 or more.

        The same set where all are, where the passages are not here, and of queries without
        passages. InputError: none.
        """
        if not self.source.fingerprint or not len(self.source.open().passages):
            return self
        qrels = self.source.open().qrels(self.split)
        n = qrels.loc[qrels["relevance"] >= TRAINED, "query_id"].nunique()
        every = qrels["query_id"].nunique()
        if not n:
            told = f"none of {every} queries of the split {self.split!r} has a passage of relevance {TRAINED} or more"
            raise InputError(f"{self.source.spec}: {told}")
        return self if n == every else self.model_copy(update={"relevance": TRAINED})


@lru_cache(maxsize=16)
def _queries(queries: Queries) -> pd.DataFrame:
    frame = queries.source.open().queries(queries.split)
    if queries.relevance:
        qrels = queries.source.open().qrels(queries.split)
        relevant = qrels.loc[qrels["relevance"] >= queries.relevance, "query_id"]
        frame = frame[frame["query_id"].isin(relevant)].reset_index(drop=True)
    if queries.limit and queries.limit < len(frame):
        rows = np.random.default_rng(queries.seed).choice(len(frame), queries.limit, replace=False)
        frame = frame.iloc[np.sort(rows)].reset_index(drop=True)
    if not len(frame):
        raise InputError(f"{queries.source.spec}: the split {queries.split!r} is empty")
    return frame


class Part(BaseModel, frozen=True, extra="forbid", arbitrary_types_allowed=True):
    """A named set of queries of a split cell, which has `pool`, `parts()`, `sets(store)` and
    `size_of(part)`.
    """

    of: Cell
    part: str

    def __init__(self, **fields):
        super().__init__(**fields)
        if self.source.is_open and self.part not in (known := self.of.parts()):
            raise InputError(
                f"{self.of.title()} has no set {self.part!r}; it has {', '.join(known)}"
            )

    @property
    def name(self) -> str:
        return self.part

    @property
    def source(self) -> Source:
        return self.of.pool.source

    @property
    def split(self) -> str:
        return self.of.pool.split

    def ids(self, store: Store) -> list[str]:
        if not (ids := self.of.sets(store)[self.part]):
            raise InputError(f"{self.of.title()}: the set {self.part!r} is empty")
        return ids

    def frame(self, store: Store) -> pd.DataFrame:
        """query_id, text, attributes, in the order of the set."""
        return (
            self.of.pool.frame(store)
            .set_index("query_id", drop=False)
            .loc[self.ids(store)]
            .reset_index(drop=True)
        )

    def qrels(self, store: Store) -> pd.DataFrame:
        qrels = self.of.pool.qrels(store)
        return qrels[qrels["query_id"].isin(self.ids(store))].reset_index(drop=True)

    def size(self) -> int:
        """Estimated, where the split is not there yet."""
        return self.of.size_of(self.part)
