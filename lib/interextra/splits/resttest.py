"""ReSTTest: k-means buckets of training and test queries, one held out from training at a time
(Zhan §4.1.3).

A test query is extrapolation for the model trained without its bucket, and interpolation for the
other k - 1 models: both regimes are measured on the same queries. The paper doesn't say how k-means
was started nor how the k folds are averaged; here both are choices. Taught in
notebooks/03_resttest.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from interextra.data.queries import Queries
from interextra.splits.clusters import kmeans
from interextra.splits.restrain import check_part, random_part
from interextra.splits.similarity import same_space
from interextra.splits.split import REGIMES, OfVectors, Split
from interextra.store import InputError, Store, offenders

APART = (
    "left_out",
    "trained",
    "test_set",
    "query_id",
    "unit",
    "stratum",
    "value",
    "side",
)  # label no system


class ReSTTest(OfVectors, Split):
    """Training sets without one of k buckets each, and the bucket of every query.

    Sets: without-1 to without-k. Files: sets.json, sizes.csv (bucket from 1, n_train, n_test),
    train.npy and test.npy (bucket of each query, from 0).
    """

    release = "resttest"
    k: int
    fold_size: int = 0  # see `folds`
    normalise: bool = True
    seed: int = 0

    def __init__(self, **fields):
        super().__init__(**fields)
        if self.pool.source.is_open:
            n = self.pool.size()
            check_k(self.k, n + sum(queries.size() for queries in self.vectors.test))
            if self.fold_size:  # the largest bucket holds a k-th of the training queries or more
                check_part(self.fold_size, n * (self.k - 1) // self.k)

    @property
    def tested(self) -> tuple[Queries, ...]:
        return self.vectors.test

    @property
    def names(self) -> tuple[str, ...]:
        """What is left out: 1 to k."""
        return tuple(str(bucket) for bucket in range(1, self.k + 1))

    def title(self) -> str:
        return f"ReSTTest · {self.pool.source.spec} · {self.k} buckets · seed {self.seed}"

    def size_of(self, part: str) -> int:
        return self.fold_size or self.pool.size() * (self.k - 1) // self.k

    def build(self, folder: Path, store: Store) -> None:
        vectors = self.directed(store) if self.normalise else self.vectors.read(store)
        found = buckets(*vectors, self.k, self.seed, self.normalise)
        np.save(folder / "train.npy", found.train)
        np.save(folder / "test.npy", found.test)
        found.sizes.assign(bucket=self.names).to_csv(folder / "sizes.csv", index=False)
        self.write_sets(
            folder,
            store,
            dict(zip(self.parts(), folds(found, self.fold_size, self.seed), strict=True)),
        )

    def strata(self, store: Store) -> pd.Series:
        """Bucket of each test query, one of `names`; index query_id."""
        ids = [query_id for queries in self.tested for query_id in queries.ids(store)]
        names = np.array(self.names, dtype=object)[np.load(store[self] / "test.npy")]
        return pd.Series(names, pd.Index(ids, name="query_id"), name="stratum")


@dataclass(frozen=True)
class Buckets:
    """A partition of the queries; bucket numbers from 0, most training queries first."""

    train: np.ndarray  # int64[n_train], bucket of each training query
    test: np.ndarray  # int64[n_test]
    centroids: np.ndarray  # float32[k, d], of length 1 where normalised
    distances: np.ndarray  # float64[n_train + n_test, k], squared, of each query to each centroid
    inertia: float  # sum over all queries of the squared distance to their centroid

    @property
    def sizes(self) -> pd.DataFrame:
        """bucket, n_train, n_test: a row a bucket."""
        counts = [
            np.bincount(rows, minlength=len(self.centroids)) for rows in (self.train, self.test)
        ]
        return pd.DataFrame(
            {"bucket": range(len(self.centroids)), "n_train": counts[0], "n_test": counts[1]}
        )


def buckets(
    train: np.ndarray, test: np.ndarray, k: int, seed: int = 0, normalise: bool = True
) -> Buckets:
    """Cluster training and test queries, float[n_train, d] and float[n_test, d], into `k` buckets;
    the paper's are 5.

    `normalise` brings vectors and centroids to length 1 (spherical k-means: nearest by cosine, as
    the release says of its similarity). InputError: NaN, zero vectors where normalised, a bucket
    without a training or a test query.

    >>> found = buckets([[0.0], [1], [9]], [[2.0], [8], [10]], k=2, normalise=False)
    >>> found.train.tolist(), found.test.tolist(), found.centroids.ravel().tolist()
    ([0, 0, 1], [0, 1, 1], [1.0, 9.0])
    """
    train, test = same_space(train, test, normalise)
    vectors = np.concatenate([train, test])
    check_k(k, len(vectors))
    centroids = kmeans(vectors, k, seed, normalise)
    distances = cdist(vectors, centroids, "sqeuclidean")
    nearest = distances.argmin(axis=1)  # ties: the lower number
    order = np.argsort(-np.bincount(nearest[: len(train)], minlength=k), kind="stable")
    at, inertia = np.argsort(order)[nearest], float(distances.min(axis=1).sum())
    found = Buckets(
        at[: len(train)], at[len(train) :], centroids[order], distances[:, order], inertia
    )
    for name, rows in (("training", found.train), ("test", found.test)):
        if len(missing := np.setdiff1d(np.arange(k), rows)):
            raise InputError(
                f"empty bucket: no {name} query in {offenders(missing.tolist())}; lower k or other seed"
            )
    return found


def check_k(k: int, n: int) -> None:
    """InputError where `n` queries cannot make k buckets."""
    if not 2 <= k <= n:
        raise InputError(f"k={k}: {n} queries can make 2 to {n} buckets")


def folds(found: Buckets, fold_size: int = 0, seed: int = 0) -> list[np.ndarray]:
    """Per bucket the training queries outside it, sorted rows; with `fold_size`, of all buckets
    alike, a random part.

    >>> found = Buckets(np.array([0, 0, 1]), np.array([0, 1]), np.zeros((2, 1)), np.zeros((5, 2)), 0.0)
    >>> [rows.tolist() for rows in folds(found)]
    [[2], [0, 1]]
    """
    made = [np.flatnonzero(found.train != bucket) for bucket in range(len(found.centroids))]
    return [random_part(rows, fold_size, seed) for rows in made] if fold_size else made


def sides(values: pd.DataFrame) -> pd.DataFrame:
    """Values with the column `side`: "out" for the model trained without the query's stratum, "in"
    for the others.

    Of tidy values of any leave-one-out design: left_out (of the run) and stratum (of the query)
    have the same names. Plain means over queries are micro averages. InputError: a system was not
    trained without each of the strata.

    >>> values = pd.DataFrame({"model": "a", "left_out": [1, 2, 1, 2], "query_id": list("ppqq"), "value": 0.5})
    >>> sides(values.assign(stratum=list("1122")))["side"].tolist()
    ['out', 'in', 'in', 'out']
    """
    named = values.assign(
        left_out=values["left_out"].astype(str), stratum=values["stratum"].astype(str)
    )
    labels = [name for name in values if name not in APART]
    for label, runs in (
        named[[*labels, "left_out", "stratum"]].drop_duplicates().groupby(labels, dropna=False)
    ):
        if odd := sorted(set(runs["left_out"]) ^ set(runs["stratum"])):
            raise InputError(
                f"leave-one-out, {label}: {offenders(odd)} is not both left out and a stratum of queries"
            )
    return values.assign(side=np.where(named["left_out"] == named["stratum"], "out", "in"))


def in_regimes(values: pd.DataFrame) -> pd.DataFrame:
    """Values of a leave-one-out design with `regime`: extrapolation for the model without the
    query's stratum.
    """
    return sides(values).assign(
        regime=lambda of: of["side"].map(dict(zip(("in", "out"), REGIMES, strict=True)))
    )
