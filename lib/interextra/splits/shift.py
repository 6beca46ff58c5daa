"""A leave-one-out shift: clusters of queries, each divided for training and test, one left out at a time (Lupart §3.1).

The model of a cluster is trained on the training queries of all other clusters; queries of no cluster take no part.
Its test queries come from the cluster itself, as in the paper for topics and question words.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from interextra.ground.errors import InputError, offenders
from interextra.splits.restrain import size_matched_control


@dataclass(frozen=True)
class Shift:
    """Clusters of queries, divided for training and test."""

    labels: np.ndarray  # object[n], cluster of each query; "" = in none
    clusters: tuple[str, ...]
    test: np.ndarray  # bool[n], held out from every training set

    @property
    def sizes(self) -> pd.DataFrame:
        """cluster, n_queries, n_train, n_test: a row a cluster."""
        inside = [self.labels == cluster for cluster in self.clusters]
        return pd.DataFrame(
            {
                "cluster": self.clusters,
                "n_queries": [int(rows.sum()) for rows in inside],
                "n_train": [int((rows & ~self.test).sum()) for rows in inside],
                "n_test": [int((rows & self.test).sum()) for rows in inside],
            }
        )

    def complement(self, cluster: str, size: int = 0, seed: int = 0) -> np.ndarray:
        """Training queries of all clusters but `cluster`, sorted rows; with `size` a random part of that size.

        >>> made = Shift(np.array(["a", "b", "c", "", "a"]), ("a", "b", "c"), np.array([0, 0, 0, 0, 1], bool))
        >>> made.complement("b").tolist()
        [0, 2]
        """
        if cluster not in self.clusters:
            raise InputError(f"no cluster {cluster!r}; there are {', '.join(self.clusters)}")
        others = [name for name in self.clusters if name != cluster]
        rows = np.flatnonzero(np.isin(self.labels, others) & ~self.test)
        if size > len(rows):
            raise InputError(f"without cluster {cluster!r} there are {len(rows)} training queries, not {size}")
        return size_matched_control(rows, size, seed) if size else rows


def shift(labels: Sequence[str], n_test: int, clusters: Sequence[str] = (), seed: int = 0) -> Shift:
    """Divide each cluster at random into training and test queries.

    Parameters
    ----------
    labels : of each query; "" for none.
    n_test : test queries a cluster; in the paper about 6,200 of 25,000.
    clusters : which labels take part, in the order of the tables; default: all, the largest first.

    Raises
    ------
    InputError
        Fewer than two clusters, an unknown one, a cluster without a training query left.

    >>> made = shift(["a", "b", "a", "", "b", "b"], n_test=1)
    >>> made.clusters, made.sizes.n_train.tolist()
    (('b', 'a'), [2, 1])
    """
    labels, found = np.asarray(labels, dtype=object), cluster_names(labels)
    counts = {name: int((labels == name).sum()) for name in found}
    if unknown := [name for name in clusters if name not in counts]:
        raise InputError(f"no query of cluster {offenders(unknown)}; there are {offenders(found, 12)}")
    names = tuple(clusters) or found
    if len(set(names)) < max(2, len(names)):
        raise InputError(f"a shift needs at least two different clusters, not {', '.join(names) or 'none'}")
    if small := [f"{name} ({counts[name]})" for name in names if counts[name] <= n_test]:
        raise InputError(f"{n_test} test queries leave no training query of {offenders(small)}; lower n_test or choose")
    if n_test < 1:
        raise InputError(f"n_test={n_test}: every cluster needs a test query")
    test = np.zeros(len(labels), bool)
    for at, name in enumerate(names):
        rows = np.flatnonzero(labels == name)
        test[np.random.default_rng([seed, at]).choice(rows, n_test, replace=False)] = True
    return Shift(labels, names, test)


def cluster_names(labels: Sequence[str]) -> tuple[str, ...]:
    """The labels that occur, the most frequent first, ties by name; "" is none."""
    counts = pd.Series(labels, dtype=object).value_counts()
    return tuple(sorted(counts.index.drop("", errors="ignore"), key=lambda label: (-counts[label], label)))
