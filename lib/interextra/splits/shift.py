"""A leave-one-out shift: clusters of queries, one of which each model is not trained on.

Lupart et al., ECIR 2023, §3.1. Each cluster is divided for training and test. The model of a
cluster is trained on the training queries of all others; its test queries come from the cluster
itself, as in the paper for topics and question words. Taught in notebooks/04_ms_shift_clusters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from interextra.data.queries import Queries
from interextra.splits import attributes
from interextra.splits.restrain import random_part
from interextra.splits.split import Clusters, Split
from interextra.store import InputError, Store, offenders

OUTSIDE = "no cluster of the shift"


class Shift(Split):
    """Training sets without one cluster each, and the test queries of all clusters.

    Sets: without-CLUSTER, and held-out unless n_test is 0. Files: sets.json, sizes.csv (cluster,
    n_queries, n_train, n_test), labels.parquet (query_id, cluster or "", test).
    """

    release = "shift"
    pool: Queries
    by: Clusters | str  # of the same pool, or an attribute: see `splits.attributes.attribute`
    # Those that take part, in the order of the tables; default: all, the largest first
    clusters: tuple[str, ...] = ()
    n_test: int  # queries per cluster; 0: none, those of another split measure
    train_size: int = 0  # queries of a training set, drawn; 0: all
    seed: int = 0
    # `attributes.fingerprint`, set where this is planned, so that reading a note runs no code
    by_sha256: str = ""

    def __init__(self, **fields: Any) -> None:
        by = fields.get("by")
        pool = fields.get("pool")
        if isinstance(by, str) and isinstance(pool, Queries) and pool.source.is_open:
            fingerprint = attributes.fingerprint(by)
            planned = fields.get("by_sha256", "")
            if planned and planned != fingerprint:
                raise _changed_code(by)
            fields["by_sha256"] = fingerprint
        super().__init__(**fields)
        self._check()

    def _check(self) -> None:
        """Refuse clusters of other queries, and numbers that the clusters do not allow."""
        if self.n_test < 0:
            raise InputError(
                f"n_test {self.n_test}: give the number of test queries per cluster, 0 or more"
            )
        if not isinstance(self.by, str):  # they have no sizes before they are made
            if self.by.pool != self.pool:
                raise InputError(
                    f"a shift of {self.pool} by {self.by.word}s of other queries, {self.by.pool}: "
                    "take the same"
                )
            return
        if self.train_size and self.pool.source.is_open:
            division = _division_of(self, self.by)
            for name in division.clusters:
                division.complement(name, self.train_size, self.seed)

    @property
    def tested(self) -> tuple[Queries, ...]:
        """The queries that are divided into clusters: those of the pool."""
        return (self.pool,)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What is left out: the clusters that take part."""
        if not isinstance(self.by, str):
            unknown = [name for name in self.clusters if name not in self.by.names]
            if unknown:
                raise InputError(
                    f"no {self.by.word} {offenders(unknown)}; there are {', '.join(self.by.names)}"
                )
            return self.clusters or self.by.names
        if self.pool.source.fingerprint:  # else it is only priced
            return _division_of(self, self.by).clusters
        rule = self.by.partition(":")[0]
        known = self.clusters or attributes.KNOWN_LABELS.get(rule)
        if not known:
            raise InputError(
                f"attribute {self.by!r}: its labels are known when the collection is here; "
                "name some of them as clusters"
            )
        return known

    def title(self) -> str:
        """Return what a reader calls the split."""
        by = self.by if isinstance(self.by, str) else f"{self.by.word}s"
        return f"shift · {self.pool.source.spec} · {by} · seed {self.seed}"

    def parts(self) -> tuple[str, ...]:
        """Return the names of the sets: without each cluster, and the test queries, if any."""
        training_sets = super().parts()
        return (*training_sets, "held-out") if self.n_test else training_sets

    def size_of(self, part: str) -> int:
        """Return the number of queries in a set, estimated unless it is given."""
        n_clusters = len(self.names)
        if part == "held-out":
            return n_clusters * self.n_test
        if self.train_size:
            return self.train_size
        if isinstance(self.by, str):
            cluster_size = self.pool.size() // n_clusters
        else:
            cluster_size = self.by.cluster_size()
        n_train = max(1, cluster_size - self.n_test)
        return (n_clusters - 1) * n_train

    def build(self, folder: Path, store: Store) -> None:
        """Write the files of the split."""
        queries = self.pool.frame(store)
        if isinstance(self.by, str):
            if attributes.fingerprint(self.by) != self.by_sha256:
                raise _changed_code(self.by)
            labels = attributes.labels(queries, self.by)
        else:
            labels = self.by.labels(store)
        division = shift(labels, self.n_test, self.names, self.seed)
        sets = {
            f"without-{name}": division.complement(name, self.train_size, self.seed)
            for name in division.clusters
        }
        if self.n_test:
            sets["held-out"] = division.test
        self.write_sets(folder, store, sets)
        division.sizes.to_csv(folder / "sizes.csv", index=False)
        labelled = queries[["query_id"]].assign(cluster=division.labels, test=division.test)
        labelled.to_parquet(folder / "labels.parquet")

    def strata(self, store: Store, others: Sequence[str] = ()) -> pd.Series:
        """Return the cluster of each test query, one of `names`; index query_id.

        The queries of the splits `others` follow. One that is in no cluster of the shift has
        OUTSIDE, and "" with topics, which only the pool's queries have.
        """
        labelled = pd.read_parquet(store[self] / "labels.parquet")
        tested = labelled.query("test").set_index("query_id")["cluster"]
        of_others = [self._clusters_of(split, store) for split in others]
        return pd.concat([tested, *of_others]).rename("stratum")

    def _clusters_of(self, split: str, store: Store) -> pd.Series:
        """Return the cluster of each query of another split of the collection."""
        queries = self.pool.source.open().queries(split)
        if isinstance(self.by, str):
            labels = attributes.labels(queries, self.by)
        else:
            labels = self.by.labels_of(split, store)
        clusters = pd.Series(labels, queries["query_id"], dtype=object)
        if not isinstance(self.by, str) and self.by.of_pool_only:
            return clusters
        return clusters.where(clusters.isin(self.names), OUTSIDE)


def _changed_code(by: str) -> InputError:
    """Return the error of an attribute that is no longer the planned one."""
    return InputError(f"attribute {by!r}: its code has changed since it was planned; plan again")


@lru_cache(maxsize=16)
def _division_of(cell: Shift, attribute: str) -> "Division":
    """Divide the queries of a shift by its attribute.

    Runs, workers and planned notes ask for it again and again.
    """
    labels = attributes.labels(cell.pool.frame(), attribute)
    return shift(labels, cell.n_test, cell.clusters, cell.seed)


@dataclass(frozen=True)
class Division:
    """Clusters of queries, divided for training and test."""

    labels: np.ndarray  # object[n], cluster of each query; "" = in none
    clusters: tuple[str, ...]
    test: np.ndarray  # bool[n], held out from every training set

    @property
    def sizes(self) -> pd.DataFrame:
        """DataFrame[cluster, n_queries, n_train, n_test], a row a cluster."""
        rows = []
        for name in self.clusters:
            is_test = self.test[self.labels == name]
            n_train = (~is_test).sum()
            n_test = is_test.sum()
            rows.append((name, len(is_test), n_train, n_test))
        return pd.DataFrame(rows, columns=["cluster", "n_queries", "n_train", "n_test"])

    def complement(self, cluster: str, size: int = 0, seed: int = 0) -> np.ndarray:
        """Return the training queries of all clusters but `cluster`, as sorted rows.

        With `size`, a random part of that size.

        Examples
        --------
        >>> is_test = np.array([False, False, False, False, True])
        >>> division = Division(np.array(["a", "b", "c", "", "a"]), ("a", "b", "c"), is_test)
        >>> division.complement("b").tolist()
        [0, 2]
        """
        others = [name for name in self.clusters if name != cluster]
        is_training = np.isin(self.labels, others) & ~self.test
        rows = np.flatnonzero(is_training)
        return random_part(rows, size, seed) if size else rows


def shift(
    labels: Sequence[str] | np.ndarray,
    n_test: int,
    clusters: Sequence[str] = (),
    seed: int = 0,
) -> Division:
    """Divide each cluster at random into training and test queries.

    Parameters
    ----------
    labels : sequence of str
        Of each query; "" for none.
    n_test : int
        Test queries per cluster, 0 for none; in the paper about 6,200 of 25,000.
    clusters : sequence of str
        Which labels take part, in the order of the tables; default: all, the largest first, ties by
        name.
    seed : int
        Of the draws.

    Raises
    ------
    InputError
        A cluster without a query or of `n_test` queries or fewer; fewer than two clusters.

    Examples
    --------
    >>> division = shift(["a", "b", "a", "", "b", "b"], n_test=1)
    >>> division.clusters, division.sizes.n_train.tolist()
    (('b', 'a'), [2, 1])
    """
    label_of_query = np.asarray(labels, dtype=object)
    labelled = pd.Series(label_of_query[label_of_query != ""])
    by_name = labelled.value_counts().sort_index()
    counts = by_name.sort_values(ascending=False, kind="stable")
    clusters = tuple(clusters) or tuple(counts.index)
    _check_clusters(clusters, counts, n_test)
    is_test = np.zeros(len(label_of_query), bool)
    for number, name in enumerate(clusters):
        rng = np.random.default_rng([seed, number])
        rows = np.flatnonzero(label_of_query == name)
        is_test[rng.choice(rows, n_test, replace=False)] = True
    takes_part = np.isin(label_of_query, clusters)
    return Division(np.where(takes_part, label_of_query, ""), clusters, is_test)


def _check_clusters(clusters: tuple[str, ...], counts: pd.Series, n_test: int) -> None:
    """Refuse clusters that `counts`, the queries by label, do not allow to divide."""
    unknown = [name for name in clusters if name not in counts]
    if unknown:
        raise InputError(
            f"no query of cluster {offenders(unknown)}; there are {offenders(counts.index, 12)}"
        )
    is_repeated = len(set(clusters)) < len(clusters)
    if len(clusters) < 2 or is_repeated:
        raise InputError(
            f"a shift needs at least two different clusters, not {', '.join(clusters) or 'none'}"
        )
    n_queries = counts[list(clusters)]
    small = n_queries[n_queries <= n_test]
    if len(small):
        shown = [f"{name} ({n})" for name, n in small.items()]
        raise InputError(
            f"{n_test} test queries leave no training query of {offenders(shown)}; "
            "lower n_test or choose"
        )


def in_a_cluster(values: pd.DataFrame) -> pd.DataFrame:
    """Return the values of queries that are in a cluster of the shift; the others measure nothing.

    `values`: with strata of `Shift.strata`.
    """
    is_in_none = values["stratum"].isin(["", OUTSIDE])
    return values[~is_in_none]


def in_domain(values: pd.DataFrame) -> pd.DataFrame:
    """Return the values of queries whose cluster the model was trained on; with topics all.

    `values`: with strata of `Shift.strata`.
    """
    is_left_out = values["stratum"] == values["left_out"]
    return values[~is_left_out & (values["stratum"] != OUTSIDE)]
