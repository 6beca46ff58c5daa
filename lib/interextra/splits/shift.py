"""A leave-one-out shift: clusters of queries, each divided for training and test, one left out at a
time (Lupart §3.1).

The model of a cluster is trained on the training queries of all others; its test queries come from
the cluster itself, as in the paper for topics and question words. Taught in
notebooks/04_ms_shift_clusters.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.data.queries import Queries
from interextra.splits import attributes
from interextra.splits.restrain import random_part
from interextra.splits.split import Split
from interextra.splits.topics import Topics
from interextra.store import InputError, Store, offenders

OUTSIDE = "no cluster of the shift"


class Shift(Split):
    """Training sets without one cluster each, and the test queries of all clusters.

    Sets: without-CLUSTER, and held-out. Files: sets.json, sizes.csv (cluster, n_queries, n_train,
    n_test), labels.parquet (query_id, cluster or "", test).
    """

    release = "shift"
    pool: Queries
    by: Topics | str  # topics of the same pool, or an attribute: see `splits.attributes.attribute`
    clusters: tuple[
        str, ...
    ] = ()  # those that take part, in the order of the tables; default: all, the largest first
    n_test: int  # queries per cluster
    train_size: int = 0  # queries of a training set, drawn; 0: all
    seed: int = 0
    # `attributes.fingerprint`, set where this is planned, so that reading a note runs no code
    by_sha256: str = ""

    def __init__(self, **fields):
        by, pool = fields.get("by"), fields.get("pool")
        if isinstance(by, str) and isinstance(pool, Queries) and pool.source.is_open:
            now, then = attributes.fingerprint(by), fields.get("by_sha256", "")
            if then and then != now:
                raise InputError(
                    f"attribute {by!r}: its code has changed since it was planned; plan again"
                )
            fields["by_sha256"] = now
        super().__init__(**fields)
        if isinstance(self.by, Topics) and self.by.pool != self.pool:
            raise InputError(
                f"a shift of {self.pool} by topics of other queries, {self.by.pool}: take the same"
            )
        if self.n_test < 1:
            raise InputError(
                f"n_test {self.n_test}: give the number of test queries per cluster, 1 or more"
            )
        if self.pool.source.is_open and not isinstance(
            self.by, Topics
        ):  # topics have no sizes before they are made
            for name in self.names if self.train_size else ():
                _divided(self).complement(name, self.train_size, self.seed)

    @property
    def tested(self) -> tuple[Queries, ...]:
        return (self.pool,)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What is left out: the clusters that take part."""
        if not isinstance(self.by, Topics):
            if self.pool.source.fingerprint:  # else it is only priced
                return _divided(self).clusters
            if known := self.clusters or attributes.KNOWN_LABELS.get(self.by.partition(":")[0]):
                return known
            told = f"its labels are known when the collection is here; write {self.by}/A/B"
            raise InputError(f"attribute {self.by!r}: {told}")
        if unknown := [name for name in self.clusters if name not in self.by.names]:
            raise InputError(f"no topic {offenders(unknown)}; there are {', '.join(self.by.names)}")
        return self.clusters or self.by.names

    def title(self) -> str:
        by = "topics" if isinstance(self.by, Topics) else self.by
        return f"shift · {self.pool.source.spec} · {by} · seed {self.seed}"

    def parts(self) -> tuple[str, ...]:
        return (*super().parts(), "held-out")

    def size_of(self, part: str) -> int:
        n = len(self.names)
        each = self.by.target if isinstance(self.by, Topics) else self.pool.size() // n
        return (
            n * self.n_test
            if part == "held-out"
            else self.train_size or (n - 1) * max(1, each - self.n_test)
        )

    def build(self, folder: Path, store: Store) -> None:
        queries = self.pool.frame(store)
        if isinstance(self.by, str) and attributes.fingerprint(self.by) != self.by_sha256:
            raise InputError(
                f"attribute {self.by!r}: its code has changed since it was planned; plan again"
            )
        labels = (
            self.by.labels(store)
            if isinstance(self.by, Topics)
            else attributes.labels(queries, self.by)
        )
        made = shift(labels, self.n_test, self.names, self.seed)
        without = {
            f"without-{name}": made.complement(name, self.train_size, self.seed)
            for name in made.clusters
        }
        self.write_sets(folder, store, without | {"held-out": made.test})
        made.sizes.to_csv(folder / "sizes.csv", index=False)
        queries[["query_id"]].assign(cluster=made.labels, test=made.test).to_parquet(
            folder / "labels.parquet"
        )

    def strata(self, store: Store, gate: Sequence[str] = ()) -> pd.Series:
        """Cluster of each test query, one of `names`, and of the queries of the splits `gate`;
        index query_id.

        A gate's query that is in no cluster of the shift has OUTSIDE, and "" with topics, which
        only the pool's queries have.
        """
        kept = pd.read_parquet(store[self] / "labels.parquet").query("test").set_index("query_id")
        found = [kept["cluster"]]
        for split in gate:
            queries = self.pool.source.open().queries(split)
            labels = pd.Series("", queries["query_id"], dtype=object)
            if isinstance(self.by, str):
                labels[:] = attributes.labels(queries, self.by)
                labels = labels.where(labels.isin(self.names), OUTSIDE)
            found.append(labels)
        return pd.concat(found).rename("stratum")


@lru_cache(maxsize=16)
def _divided(cell: Shift) -> "Division":
    """The division of a shift by an attribute, which runs, workers and planned notes ask for again
    and again.
    """
    return shift(
        attributes.labels(cell.pool.frame(), cell.by), cell.n_test, cell.clusters, cell.seed
    )


@dataclass(frozen=True)
class Division:
    """Clusters of queries, divided for training and test."""

    labels: np.ndarray  # object[n], cluster of each query; "" = in none
    clusters: tuple[str, ...]
    test: np.ndarray  # bool[n], held out from every training set

    @property
    def sizes(self) -> pd.DataFrame:
        """cluster, n_queries, n_train, n_test: a row a cluster."""
        inside = [(name, self.labels == name) for name in self.clusters]
        rows = [
            (name, rows.sum(), (rows & ~self.test).sum(), (rows & self.test).sum())
            for name, rows in inside
        ]
        return pd.DataFrame(rows, columns=["cluster", "n_queries", "n_train", "n_test"])

    def complement(self, cluster: str, size: int = 0, seed: int = 0) -> np.ndarray:
        """Training queries of all clusters but `cluster`, sorted rows; with `size` a random part of
        that size.

        >>> made = Division(np.array(["a", "b", "c", "", "a"]), ("a", "b", "c"), np.array([0, 0, 0, 0, 1], bool))
        >>> made.complement("b").tolist()
        [0, 2]
        """
        others = [name for name in self.clusters if name != cluster]
        rows = np.flatnonzero(np.isin(self.labels, others) & ~self.test)
        return random_part(rows, size, seed) if size else rows


def shift(
    labels: Sequence[str], n_test: int, clusters: Sequence[str] = (), seed: int = 0
) -> Division:
    """Divide each cluster at random into training and test queries.

    labels : of each query; "" for none. n_test : test queries per cluster; in the paper about 6,200
    of 25,000. clusters : which labels take part, in the order of the tables; default: all, the
    largest first, ties by name.

    >>> made = shift(["a", "b", "a", "", "b", "b"], n_test=1)
    >>> made.clusters, made.sizes.n_train.tolist()
    (('b', 'a'), [2, 1])
    """
    labels = np.asarray(labels, dtype=object)
    counts = (
        pd.Series(labels[labels != ""])
        .value_counts()
        .sort_index()
        .sort_values(ascending=False, kind="stable")
    )
    if unknown := [name for name in clusters if name not in counts]:
        has_slash = any("/" in name for name in counts.index)
        hint = "; behind a /, write the / inside of a label as %2F" if has_slash else ""
        raise InputError(
            f"no query of cluster {offenders(unknown)}; there are {offenders(counts.index, 12)}{hint}"
        )
    names = tuple(clusters) or tuple(counts.index)
    if len(set(names)) < max(2, len(names)):
        raise InputError(
            f"a shift needs at least two different clusters, not {', '.join(names) or 'none'}"
        )
    if small := [f"{name} ({counts[name]})" for name in names if counts[name] <= n_test]:
        raise InputError(
            f"{n_test} test queries leave no training query of {offenders(small)}; lower n_test or choose"
        )
    test = np.zeros(len(labels), bool)
    for at, name in enumerate(names):
        rows = np.flatnonzero(labels == name)
        test[np.random.default_rng([seed, at]).choice(rows, n_test, replace=False)] = True
    return Division(np.where(np.isin(labels, names), labels, ""), names, test)


def in_domain(values: pd.DataFrame) -> pd.DataFrame:
    """The values, with strata of `Shift.strata`, of queries whose cluster the model was trained on;
    with topics all.
    """
    return values[(values["stratum"] != values["left_out"]) & (values["stratum"] != OUTSIDE)]


def read_shift(text: str) -> tuple[str, str, list[str]]:
    """(name, attribute, clusters) of a shift as it is written in the parameters, see
    `written_shift`.

    >>> read_shift("kind=column:qtype/causes/stages"), read_shift("length:limit=9"), read_shift("python:a:b")[0]
    (('kind', 'column:qtype', ['causes', 'stages']), ('length', 'length:limit=9', []), 'b')
    """
    spec, *kept = text.split("/")
    name, _, rest = spec.partition("=")
    short = spec.rpartition(":")[2] if attributes.is_code(spec) else spec.partition(":")[0]
    name, spec = (name, rest) if rest and ":" not in name else (short, spec)
    return name, _plain(spec), list(map(_plain, kept))


def written_shift(start: str, clusters: Iterable[str]) -> str:
    """A shift as the parameters write it, of how it starts (`[NAME=]ATTRIBUTE`) and its clusters.

    A / inside of a cluster's label is written %2F; where the label itself has %2F, or %25, its % is
    written %25.

    >>> written_shift("kind=column:kind", ["n/a", "100 %"]), read_shift("column:kind/n%2Fa")[2]
    ('kind=column:kind/n%2Fa/100 %', ['n/a'])
    """
    return "/".join(
        [start, *(re.sub("%(?=2F|25)", "%25", label).replace("/", "%2F") for label in clusters)]
    )


def _plain(written: str) -> str:
    return written.replace("%2F", "/").replace("%25", "%")
