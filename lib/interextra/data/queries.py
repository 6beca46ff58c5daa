"""Sets of queries as parts of a configuration.

A set is a split of a collection, or a named set of a split cell.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pydantic import BaseModel

from interextra.data.collection import Collection, in_order, no_split, rows_of
from interextra.data.load import open_collection, peek
from interextra.data.msmarco import QuerySets
from interextra.data.pricing import is_pricing, note_collection, sample_size
from interextra.store import Cell, InputError, Store
from interextra.store.cells import is_reading

if TYPE_CHECKING:
    from interextra.splits.split import Split
else:
    Split = Cell  # any cell with `pool`, `parts`, `sets` and `size_of`

COLLECTION_MEGABYTES = 60e-6  # of memory, for each passage
TRAINED = 1  # relevance from which a passage is a positive of a training
POOLED = 200  # passages for each test query in a sample, see `Source.n_passages`
_OPEN: set[str] = set()  # fingerprints of the collections that this process has planned with


@lru_cache(maxsize=64)
def _catalogued(spec: str) -> dict[str, Any]:
    """Return what the catalogue says of a collection that is only priced; a plan asks often."""
    return peek(spec)


class Source(BaseModel, frozen=True, extra="forbid"):
    """A collection in a configuration: named by its spec, identified by its content."""

    spec: str
    fingerprint: str  # "" while it is only priced

    @classmethod
    def of(cls, spec: str) -> "Source":
        """Return the source that a spec names."""
        note_collection(spec)
        fingerprint = ""
        if not (is_pricing() and peek(spec)):
            fingerprint = open_collection(spec).fingerprint
        _OPEN.add(fingerprint)
        return cls(spec=spec, fingerprint=fingerprint)

    @property
    def is_open(self) -> bool:
        """Whether cells can be checked against it when they are planned.

        A worker, say, need not open it for that.
        """
        return bool(self.fingerprint) and self.fingerprint in _OPEN and not is_reading()

    def n_passages(self) -> int:
        """Return the number of passages, by the catalogue while it is only priced.

        While a sample is priced: the judged passages, the first 100 of two systems for each test
        query, and the sample, where these are fewer.
        """
        n_passages = self._n_all_passages()
        if not sample_size():
            return n_passages
        return min(n_passages, sample_size() + self._n_judged_and_pooled())

    def _n_all_passages(self) -> int:
        if not self.fingerprint:
            return _catalogued(self.spec)["passages"]
        return len(self.open().passages)

    def _n_judged_and_pooled(self) -> int:
        """Return how many passages are judged, or among the first ones of a test query."""
        if self.fingerprint:
            collection = self.open()
            n_judged = {split: len(collection.qrels(split)) for split in collection.splits}
            n_queries = {split: len(collection.query_ids(split)) for split in collection.splits}
        else:
            catalogued = _catalogued(self.spec)
            n_judged = catalogued["qrels"]
            n_queries = catalogued["queries"]
        n_test = sum(n_queries[split] for split in n_queries if split != "train")
        return sum(n_judged.values()) + n_test * POOLED

    def memory(self) -> float:
        """Estimate the megabytes that the open collection takes, its queries among them."""
        return COLLECTION_MEGABYTES * self.n_passages()

    # the classes are named here, so that their code is in the keys: `data.load` is apart
    def open(self) -> Collection | QuerySets:
        """Return the collection.

        Raises
        ------
        InputError
            It was planned before it was here, or its content has changed since.
        """
        if not self.fingerprint:
            raise InputError(
                f"{self.spec} was not here when this was planned: fetch it (`interextra fetch`), "
                "then plan again (`interextra plan`)"
            )
        collection = open_collection(self.spec)
        if collection.fingerprint != self.fingerprint:
            raise InputError(
                f"{self.spec} is not the collection that was planned: "
                "its content changed. Plan again"
            )
        return collection


class Queries(BaseModel, frozen=True, extra="forbid"):
    """The queries of a split, or a random `limit` of them (0: all).

    relevance : only those with a passage of this relevance or more, before any are drawn; 0: all.
    See `trainable`.
    block : from 1, which `limit` of them in one random order, the first or a later one: blocks of
    the same seed share no query; 0: a draw of its own.
    """

    source: Source
    split: str
    limit: int = 0
    seed: int = 0
    relevance: int = 0
    block: int = 0

    def __init__(self, **fields: Any):
        super().__init__(**fields)
        if self.limit < 0:
            raise InputError(
                f"{self.limit} queries of the split {self.split!r}: give a number, 0 for all"
            )
        splits: Sequence[str] = [self.split]
        if self.source.is_open:
            splits = self.source.open().splits
        elif is_pricing() and not self.source.fingerprint:
            splits = peek(self.source.spec)["queries"]
        if self.split not in splits:
            raise no_split(self.source.spec, self.split, splits)
        if self.block:
            self._refuse_block()

    def _refuse_block(self) -> None:
        """Raise an InputError for a block that is none, or that the split cannot fill."""
        is_known = self.source.is_open or is_pricing()
        n_queries = self.model_copy(update={"limit": 0, "block": 0}).size() if is_known else None
        is_short = n_queries is not None and n_queries < self.block * self.limit
        if self.block < 0 or not self.limit or is_short:
            raise InputError(
                f"{self.source.spec}: no block {self.block} of {self.limit} queries of the split "
                f"{self.split!r}, which has {n_queries}; give fewer or smaller blocks, from 1"
            )

    @property
    def name(self) -> str:
        """Name of the set: its split."""
        return self.split

    def frame(self, store: Store | None = None) -> pd.DataFrame:
        """Return query_id, text, attributes, in the order of the split.

        The table is the caller's own: changing it changes no other.
        """
        return _queries(self).copy(deep=False)  # copied where it is written to

    def ids(self, store: Store | None = None) -> list[str]:
        """Return the query_ids, in the order of the split."""
        return _queries(self)["query_id"].tolist()

    def qrels(self, store: Store | None = None) -> pd.DataFrame:
        """Return the judgements of these queries: query_id, doc_id, relevance."""
        qrels = self.source.open().qrels(self.split)
        if not self.limit and not self.relevance:
            return qrels
        return rows_of(qrels, self.ids())

    def size(self) -> int:
        """Return the number of queries, by the catalogue while the source is only priced."""
        if not self.source.fingerprint:
            n_split = _catalogued(self.source.spec)["queries"][self.split]
        elif self.relevance:
            return len(_queries(self))
        else:
            n_split = len(self.source.open().query_ids(self.split))
        return min(n_split, self.limit or 2**62)

    def trainable(self) -> "Queries":
        """Return those that a training can learn from.

        They have a relevant passage, of relevance 1 or more. The same set where all are, where the
        passages are not here, and of queries without passages.

        Raises
        ------
        InputError
            None is trainable.
        """
        if not self.source.fingerprint:
            return self
        collection = self.source.open()
        if not len(collection.passages):
            return self
        qrels = collection.qrels(self.split)
        n_queries = qrels["query_id"].nunique()
        is_relevant = qrels["relevance"] >= TRAINED
        n_trainable = qrels.loc[is_relevant, "query_id"].nunique()
        if not n_trainable:
            raise InputError(
                f"{self.source.spec}: none of {n_queries} queries of the split {self.split!r} "
                f"has a passage of relevance {TRAINED} or more"
            )
        if n_trainable == n_queries:
            return self
        return self.model_copy(update={"relevance": TRAINED})


@lru_cache(maxsize=16)
def _queries(queries: Queries) -> pd.DataFrame:
    """Return query_id, text, attributes of a set, read once per process."""
    collection = queries.source.open()
    frame = collection.queries(queries.split)
    if queries.relevance:
        qrels = collection.qrels(queries.split)
        is_relevant = qrels["relevance"] >= queries.relevance
        relevant = qrels.loc[is_relevant, "query_id"]
        frame = rows_of(frame, relevant)
    if queries.block or 0 < queries.limit < len(frame):
        rows = _drawn_rows(queries, len(frame))
        frame = frame.iloc[np.sort(rows)].reset_index(drop=True)
    if not len(frame):
        raise InputError(f"{queries.source.spec}: the split {queries.split!r} is empty")
    return frame


def _drawn_rows(queries: Queries, n_queries: int) -> np.ndarray:
    """Return the rows int[limit] that are drawn of a split's queries."""
    rng = np.random.default_rng(queries.seed)
    if not queries.block:
        return rng.choice(n_queries, queries.limit, replace=False)
    order = rng.permutation(n_queries)
    end = queries.block * queries.limit
    return order[end - queries.limit : end]


class Part(BaseModel, frozen=True, extra="forbid", arbitrary_types_allowed=True):
    """A named set of queries of a split cell."""

    of: Split
    part: str

    def __init__(self, **fields: Any):
        super().__init__(**fields)
        if not self.source.is_open:
            return
        parts = self.of.parts()
        if self.part not in parts:
            known = ", ".join(parts)
            raise InputError(f"{self.of.title()} has no set {self.part!r}; it has {known}")

    @property
    def name(self) -> str:
        """Name of the set: its part of the cell."""
        return self.part

    @property
    def source(self) -> Source:
        """Collection that the cell splits."""
        return self.of.pool.source

    @property
    def split(self) -> str:
        """Split of the collection that the cell splits further."""
        return self.of.pool.split

    def ids(self, store: Store) -> list[str]:
        """Return the query_ids, in the order of the set."""
        ids = self.of.sets(store).get(self.part)
        if not ids:
            raise InputError(
                f"{self.of.title()}: the set {self.part!r} is empty, or sets.json lacks it"
            )
        return ids

    def frame(self, store: Store) -> pd.DataFrame:
        """Return query_id, text, attributes, in the order of the set."""
        pool = self.of.pool.frame(store)
        return in_order(pool, self.ids(store))

    def qrels(self, store: Store) -> pd.DataFrame:
        """Return the judgements of these queries: query_id, doc_id, relevance."""
        qrels = self.of.pool.qrels(store)
        return rows_of(qrels, self.ids(store))

    def size(self) -> int:
        """Return the number of queries, estimated where the split is not there yet."""
        return self.of.size_of(self.part)
