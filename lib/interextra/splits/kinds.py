"""Kinds of passages: clusters of a collection's passages, and of the queries that they answer.

A query is of the kind of its answer, so that all questions about a passage are of one kind: what a
shift leaves out are passages that no training query asks for.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import pandas as pd

from interextra.data.collection import Passages, present_rows
from interextra.data.queries import TRAINED, Queries
from interextra.splits.clusters import largest_first
from interextra.splits.similarity import checked_vectors
from interextra.splits.split import Clusters
from interextra.store import Cell, InputError, Store

if TYPE_CHECKING:
    from interextra.models.search.vectors import PassageVectors
else:
    PassageVectors = Cell  # of a room below: any cell with `source` and `read`


class PassageKinds(Clusters):
    """Spherical k-means of the passages; `kind.npy`: the kind of each one, from 0, int16[n].

    The kinds are named kind 1 to kind k, that with most passages first.
    """

    word: ClassVar[str] = "kind"
    vectors: PassageVectors
    pool: Queries
    k: int
    seed: int = 0  # of the first centroids

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self._check()

    def _check(self) -> None:
        """Refuse vectors of other passages, and a number of kinds that these cannot make."""
        source = self.pool.source
        if self.vectors.source != source:
            raise InputError(
                f"kinds of the passages of {self.vectors.source.spec} for queries of "
                f"{source.spec}: take the same collection"
            )
        if source.is_open and not 2 <= self.k <= len(source.open().passages):
            n_passages = len(source.open().passages)
            raise InputError(
                f"k={self.k} kinds of passages: {n_passages} passages of {source.spec} can make 2 "
                f"to {n_passages}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the kinds: kind 1, kind 2, …."""
        return tuple(f"kind {number}" for number in range(1, self.k + 1))

    def title(self) -> str:
        """Return what a reader calls the kinds."""
        collection = self.pool.source.spec
        return f"kinds of passages · {collection} · {self.k} · seed {self.seed}"

    def seconds(self) -> float:
        """Return the estimated seconds of one core."""
        return 1 + self.pool.source.n_passages() / 20_000

    def memory(self) -> float:
        """Return the estimated megabytes of memory at the peak: the vectors, and copies of them."""
        return super().memory() + self.pool.source.memory() + 3 * self.vectors.megabytes()

    def build(self, folder: Path, store: Store) -> None:
        """Write the kind of each passage."""
        vectors = checked_vectors(self.vectors.read(store), normalise=True)
        kind, _ = largest_first(vectors, self.k, self.seed, normalise=True)
        np.save(folder / "kind.npy", kind.astype(np.int16))

    def is_of(self, name: str, store: Store) -> np.ndarray:
        """Return which passages are of a kind, bool[n_passages]."""
        return self._read(store) == self.names.index(name)

    def labels(self, store: Store) -> np.ndarray:
        """Return the kind of each query of the pool, object[n]; "" where it has no answer.

        It is the kind of its first passage of relevance 1 or more, in the order of the qrels.
        """
        return self._of_answers(self.pool.ids(store), self.pool.qrels(store), store)

    def labels_of(self, split: str, store: Store) -> np.ndarray:
        """Return the kind of each query of another split, as `labels`."""
        data = self.pool.source.open()
        return self._of_answers(data.query_ids(split), data.qrels(split), store)

    def cluster_size(self) -> int:
        """Return the mean number of the pool's queries of a kind."""
        return self.pool.size() // self.k

    def _of_answers(
        self, query_ids: Sequence[str], qrels: pd.DataFrame, store: Store
    ) -> np.ndarray:
        """Return the kind of the first answer of each query, object[n]; "" for none.

        InputError for an answer that is not in the collection.
        """
        is_answer = qrels["relevance"] >= TRAINED
        first_answers = qrels[is_answer].drop_duplicates("query_id")
        passages = cast(Passages, self.pool.source.open().passages)  # there are some: k of kinds
        doc_ids = first_answers["doc_id"].tolist()
        rows = present_rows(passages, doc_ids, f"{self.pool.source.spec}, qrels")
        names = np.array(self.names, dtype=object)
        names_of_answers = names[self._read(store)[rows]]
        kind_of_query = pd.Series(names_of_answers, first_answers["query_id"], dtype=object)
        return kind_of_query.reindex(query_ids, fill_value="").to_numpy(object)

    def _read(self, store: Store) -> np.ndarray:
        """Read the kind of each passage, from 0."""
        return np.load(store[self] / "kind.npy")
