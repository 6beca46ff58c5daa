"""ReSTTest: k-means buckets of training and test queries, one held out from training at a time.

Zhan et al., CIKM 2022, §4.1.3. A test query is extrapolation for the model trained without its
bucket, and interpolation for the other k - 1 models: both regimes are measured on the same queries.
The paper doesn't say how k-means was started nor how the k folds are averaged; here both are
choices. Taught in notebooks/03_resttest.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from interextra.data.queries import Queries
from interextra.splits.clusters import kmeans
from interextra.splits.restrain import check_part, random_part
from interextra.splits.similarity import same_space
from interextra.splits.split import OfVectors, Split
from interextra.store import InputError, Store, offenders

# Columns of tidy values that label no system
APART = ("left_out", "trained", "test_set", "query_id", "unit", "stratum", "value", "side")


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

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        if not self.pool.source.is_open:
            return
        clustered = (self.pool, *self.tested)
        n_queries = sum(queries.size() for queries in clustered)
        check_k(self.k, n_queries)
        if self.fold_size:  # the largest bucket holds a k-th of the training queries or more
            check_part(self.fold_size, self._mean_fold_size())

    @property
    def tested(self) -> tuple[Queries, ...]:
        """The test queries that are divided into buckets, too."""
        return self.vectors.test

    @property
    def names(self) -> tuple[str, ...]:
        """What is left out: 1 to k."""
        return tuple(str(bucket) for bucket in range(1, self.k + 1))

    def title(self) -> str:
        """Return what a reader calls the split."""
        return f"ReSTTest · {self.pool.source.spec} · {self.k} buckets · seed {self.seed}"

    def size_of(self, part: str) -> int:
        """Return the number of queries in a set, estimated unless the folds have one size."""
        return self.fold_size or self._mean_fold_size()

    def _mean_fold_size(self) -> int:
        """Return how many training queries are outside a bucket on average."""
        return self.pool.size() * (self.k - 1) // self.k

    def build(self, folder: Path, store: Store) -> None:
        """Write the files of the split."""
        read = self.nonzero_vectors if self.normalise else self.vectors.read
        train, test = read(store)
        found = buckets(train, test, self.k, self.seed, self.normalise)
        np.save(folder / "train.npy", found.train)
        np.save(folder / "test.npy", found.test)
        sizes = found.sizes.assign(bucket=self.names)
        sizes.to_csv(folder / "sizes.csv", index=False)
        outside = folds(found, self.fold_size, self.seed)
        sets = dict(zip(self.parts(), outside, strict=True))
        self.write_sets(folder, store, sets)

    def strata(self, store: Store) -> pd.Series:
        """Return the bucket of each test query, one of `names`; index query_id."""
        query_ids = [query_id for queries in self.tested for query_id in queries.ids(store)]
        bucket = np.load(store[self] / "test.npy")
        names = np.array(self.names, dtype=object)
        index = pd.Index(query_ids, name="query_id")
        return pd.Series(names[bucket], index, name="stratum")


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
        """DataFrame[bucket, n_train, n_test], a row a bucket."""
        k = len(self.centroids)
        return pd.DataFrame(
            {
                "bucket": range(k),
                "n_train": np.bincount(self.train, minlength=k),
                "n_test": np.bincount(self.test, minlength=k),
            }
        )


def buckets(
    train: np.ndarray, test: np.ndarray, k: int, seed: int = 0, normalise: bool = True
) -> Buckets:
    """Cluster training and test queries together into buckets.

    Parameters
    ----------
    train, test : float[n_train, d], float[n_test, d]
        Vectors of the queries.
    k : int
        Number of buckets; the paper's is 5.
    seed : int
        Of k-means.
    normalise : bool
        Whether to bring vectors and centroids to length 1 (spherical k-means: nearest by cosine,
        as the release says of its similarity).

    Raises
    ------
    InputError
        NaN, zero vectors where normalised, a bucket without a training or a test query.

    Examples
    --------
    >>> found = buckets([[0.0], [1], [9]], [[2.0], [8], [10]], k=2, normalise=False)
    >>> found.train.tolist(), found.test.tolist(), found.centroids.ravel().tolist()
    ([0, 0, 1], [0, 1, 1], [1.0, 9.0])
    """
    train, test = same_space(train, test, normalise)
    vectors = np.concatenate([train, test])
    check_k(k, len(vectors))
    centroids = kmeans(vectors, k, seed, normalise)
    distances = cdist(vectors, centroids, "sqeuclidean")
    cluster = distances.argmin(axis=1)  # ties: the lower number
    cluster_of_train = cluster[: len(train)]
    n_train = np.bincount(cluster_of_train, minlength=k)
    by_size = np.argsort(-n_train, kind="stable")  # the cluster of each bucket
    bucket = np.argsort(by_size)[cluster]
    found = Buckets(
        train=bucket[: len(train)],
        test=bucket[len(train) :],
        centroids=centroids[by_size],
        distances=distances[:, by_size],
        inertia=float(distances.min(axis=1).sum()),
    )
    _refuse_empty_buckets(found.train, k, "training")
    _refuse_empty_buckets(found.test, k, "test")
    return found


def check_k(k: int, n: int) -> None:
    """Refuse a number of buckets that `n` queries cannot make."""
    if not 2 <= k <= n:
        raise InputError(f"k={k}: {n} queries can make 2 to {n} buckets")


def _refuse_empty_buckets(bucket_of_query: np.ndarray, k: int, kind: str) -> None:
    """Raise InputError with the buckets that have no query of this kind."""
    empty = np.setdiff1d(np.arange(k), bucket_of_query).tolist()
    if empty:
        raise InputError(
            f"empty bucket: no {kind} query in {offenders(empty)}; lower k or other seed"
        )


def folds(found: Buckets, fold_size: int = 0, seed: int = 0) -> list[np.ndarray]:
    """Return for each bucket the training queries outside it, as sorted rows.

    Every fold is drawn with the same seed, so that draws from equally many candidates take the same
    places of their lists. Folds share queries, too, as their candidates do: two of k have all but
    two buckets in common. Models without one bucket and another are not independent.

    Parameters
    ----------
    found : Buckets
    fold_size : int
        Number of queries of each fold, drawn at random; 0: all.
    seed : int
        Of the draw.

    Examples
    --------
    >>> train, test = np.array([0, 0, 1]), np.array([0, 1])
    >>> found = Buckets(train, test, np.zeros((2, 1)), np.zeros((5, 2)), inertia=0.0)
    >>> [rows.tolist() for rows in folds(found)]
    [[2], [0, 1]]
    """
    k = len(found.centroids)
    outside = [np.flatnonzero(found.train != bucket) for bucket in range(k)]
    if not fold_size:
        return outside
    return [random_part(rows, fold_size, seed) for rows in outside]


def sides(values: pd.DataFrame) -> pd.DataFrame:
    """Add the column `side`: "out" for the model without the query's stratum, "in" for the others.

    Plain means over queries are micro averages.

    Parameters
    ----------
    values : pandas.DataFrame
        Tidy values of any leave-one-out design: left_out (of the run) and stratum (of the query)
        have the same names.

    Raises
    ------
    InputError
        A system was not trained without each of the strata.

    Examples
    --------
    >>> values = pd.DataFrame({"model": "a", "left_out": [1, 2, 1, 2], "query_id": list("ppqq")})
    >>> sides(values.assign(stratum=list("1122"), value=0.5))["side"].tolist()
    ['out', 'in', 'in', 'out']
    """
    left_out = values["left_out"].astype(str)
    stratum = values["stratum"].astype(str)
    system = [name for name in values if name not in APART]
    named = values[system].assign(left_out=left_out, stratum=stratum).drop_duplicates()
    for label, runs in named.groupby(system, dropna=False):
        unmatched = set(runs["left_out"]).symmetric_difference(runs["stratum"])
        if unmatched:
            raise InputError(
                f"leave-one-out, {label}: {offenders(sorted(unmatched))} is not both left out "
                "and a stratum of queries"
            )
    side = np.where(left_out == stratum, "out", "in")
    return values.assign(side=side)


def in_regimes(values: pd.DataFrame) -> pd.DataFrame:
    """Add to values of a leave-one-out design their `side` and `regime`.

    The regime is extrapolation for the model without the query's stratum, else interpolation.
    """
    sided = sides(values)
    regime_of = {"in": "interpolation", "out": "extrapolation"}
    return sided.assign(regime=sided["side"].map(regime_of))
