"""Topics of MS-Shift: few, far-apart groups of queries grown from k-means clusters (Lupart et al., ECIR 2023, §3.1).

Three steps: k-means makes k native clusters of all queries; the n_topics with the largest sum of pairwise distances
between their centroids start a topic each; each topic joins the nearest free clusters until it has about `target`
queries. Most queries end in no topic, which keeps the topics apart. The paper doesn't say whether vectors were
normalised, from what a cluster must be nearest, who joins first, nor when exactly joining stops: arguments here.
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from interextra.ground.errors import InputError, offenders
from interextra.splits.resttest import kmeans, squared_distances
from interextra.splits.similarity import _pair, _scale

CHOICES = ("exact", "greedy")
MERGES = ("native", "merged")
ORDERS = ("nearest", "turns")
STOPS = ("reach", "closest")
LIMIT = 2 * 10**8  # subsets that the exact choice is made among at most; 100 centroids make 75 million of five


@dataclass(frozen=True)
class Topics:
    """Native clusters, numbered from 0, most queries first, and the topics that start from some of them."""

    native: np.ndarray  # int64[n], native cluster of each query, 0 to k - 1
    centroids: np.ndarray  # float32[k, d], of length 1 where normalised
    chosen: np.ndarray  # int64[n_topics], the native cluster that starts each topic, ascending: the largest first
    joined: list[list[int]]  # per topic its native clusters in the order of joining, `chosen` first
    topic: np.ndarray  # int64[n], topic of each query, 0 to n_topics - 1; -1: in no topic
    spread: float  # sum of the pairwise l2 distances of the chosen centroids
    best: float  # the largest such sum; NaN where it was too much to search

    @property
    def gap(self) -> float:
        """What the choice lacks to the best one: 1 - spread / best, 0 for the exact choice."""
        return 0.0 if self.spread == self.best else 1 - self.spread / self.best

    @property
    def sizes(self) -> pd.DataFrame:
        """topic, n_clusters, n_native (queries of the cluster that starts it), n_queries: a row a topic."""
        native = np.bincount(self.native, minlength=len(self.centroids))
        return pd.DataFrame(
            {
                "topic": range(len(self.chosen)),
                "n_clusters": [len(clusters) for clusters in self.joined],
                "n_native": native[self.chosen],
                "n_queries": np.bincount(self.topic[self.topic >= 0], minlength=len(self.chosen)),
            }
        )


def topics(
    vectors: np.ndarray, n_topics: int = 5, k: int = 100, target: int = 25_000, seed: int = 0, choose: str = "exact",
    merge: str = "native", stop: str = "reach", normalise: bool = False, iterations: int = 25, order: str = "nearest",
) -> Topics:  # fmt: skip
    """Cluster queries into topics and a rest that is in none.

    Parameters
    ----------
    vectors : float[n, d]; the paper's are [CLS] of a DistilBERT.
    n_topics, k, target : number of topics, of native clusters, and queries a topic should have; the defaults are the
        paper's, for its 500,000 queries: for others keep the share, target = n / 20.
    seed : of the first centroids. The same seed gives the same topics.
    choose : "exact" or "greedy", see `farthest`.
    merge, stop, order : see `expand`.
    normalise : False: plain k-means on the vectors as they are. True: vectors and centroids of length 1 (spherical).
    iterations : of k-means; all queries take part.

    Native clusters that k-means leaves without a query come last, and neither start nor join a topic.

    Raises
    ------
    InputError
        k above the number of queries or below n_topics, n_topics · target queries that are not there, NaN, zero vectors
        where normalised, and all that `farthest` and `expand` refuse.

    >>> found = topics([[0.0], [1], [10], [11], [30], [31], [32]], n_topics=2, k=3, target=2)
    >>> found.native.tolist(), found.centroids.ravel().tolist(), found.spread
    ([1, 1, 2, 2, 0, 0, 0], [31.0, 0.5, 10.5], 30.5)
    >>> found.topic.tolist(), found.joined
    ([1, 1, -1, -1, 0, 0, 0], [[0], [1]])
    """
    _one_of("choose", choose, CHOICES)
    metric = "cosine" if normalise else "dot"
    vectors = _pair(vectors, vectors, metric)[0].astype(np.float32, copy=False)
    if not 1 <= k <= len(vectors):
        raise InputError(f"k={k}: {len(vectors)} queries can make 1 to {len(vectors)} native clusters")
    if not 1 <= n_topics <= k:
        raise InputError(f"n_topics={n_topics}: {k} native clusters can start 1 to {k} topics; raise k")
    _enough(len(vectors), n_topics, target, merge, stop, order)
    scale = _scale(vectors, metric)
    centroids = kmeans(vectors, scale, k, seed, normalise, iterations)
    native = _nearest(vectors, scale, centroids)
    sizes = np.bincount(native, minlength=k)
    by_size = np.argsort(-sizes, kind="stable")
    native, centroids, sizes = np.argsort(by_size)[native], centroids[by_size], sizes[by_size]
    used = int((sizes > 0).sum())
    chosen, spread = farthest(centroids[:used], n_topics, choose)
    best = spread
    if choose != "exact":
        best = farthest(centroids[:used], n_topics)[1] if math.comb(used, n_topics) <= LIMIT else math.nan
    joined = expand(centroids[:used], sizes[:used], chosen, target, merge, stop, order)
    of_cluster = np.full(k, -1)
    for topic, clusters in enumerate(joined):
        of_cluster[clusters] = topic
    return Topics(native, centroids, chosen, joined, of_cluster[native], spread, best)


def farthest(centroids: np.ndarray, n: int = 5, method: str = "exact") -> tuple[np.ndarray, float]:
    """The `n` centroids with the largest sum of pairwise l2 distances (Lupart §3.1, step ii).

    Parameters
    ----------
    centroids : float[k, d]
    method : "exact": the best of all subsets; ties (up to rounding): the lexicographically first. Up to 200 million
        subsets, seconds for five of 100. "greedy": the farthest pair, then one by one the centroid with the largest
        sum of distances to those chosen; ties: the lower number.

    Returns
    -------
    rows int64[n] ascending, and their sum of distances.

    >>> farthest([[0.0], [1], [5], [6]], n=3)  # 0, 1, 6 and 0, 5, 6 are as far apart: the first
    (array([0, 1, 3]), 12.0)
    """
    _one_of("method", method, CHOICES)
    centroids = _matrix(centroids)
    k = len(centroids)
    if not 1 <= n <= k:
        raise InputError(f"n={n}: of {k} centroids 1 to {k} can be chosen")
    if method == "exact" and math.comb(k, n) > LIMIT:
        raise InputError(f"{math.comb(k, n):,} subsets of {n} among {k} centroids are too many to try; use 'greedy'")
    distances = cdist(centroids, centroids)
    rows = _greedy(distances, n)
    if method == "exact" and n > 1:
        rows = _exact(distances, n, _spread(distances, rows))
    return rows, _spread(distances, rows)


def expand(
    centroids: np.ndarray, sizes: np.ndarray, chosen: np.ndarray, target: int, merge: str = "native",
    stop: str = "reach", order: str = "nearest",
) -> list[list[int]]:  # fmt: skip
    """Grow each chosen cluster into a topic by joining free clusters, none twice (Lupart §3.1, step iii).

    Parameters
    ----------
    centroids, sizes : float[k, d], int[k]; centroid and number of queries of each native cluster.
    chosen : int[n_topics], the clusters to start from. One that has `target` queries already joins nothing.
    target : queries a topic should have.
    merge : a cluster is near to a topic by its distance to the centroid of the topic's first cluster ("native"), or of
        all that it has joined so far, weighted by size ("merged").
    stop : "reach": a topic joins until it has `target` queries or more. "closest": the cluster that would take it
        past `target` joins only if the size gets nearer to `target`; else it stays free, and the topic is done.
    order : "nearest": of all topics still growing and all free clusters the nearest pair joins first. "turns": the
        topics join their nearest free cluster in turn. Ties: the first topic, then the lower cluster.

    Returns
    -------
    Per topic its clusters in the order of joining, first the chosen one.

    >>> expand([[0.0], [1], [3], [4], [9]], [2, 2, 2, 2, 2], [0, 4], target=4)
    [[0, 1], [4, 3]]
    """
    centroids, sizes, chosen = _matrix(centroids), np.asarray(sizes), np.asarray(chosen)
    if sizes.shape != (len(centroids),) or sizes.min() < 1:
        raise InputError(f"sizes: needs a number of queries, 1 or more, for each of {len(centroids)} clusters")
    if chosen.ndim != 1 or not len(chosen) or not np.isin(chosen, np.arange(len(centroids))).all():
        raise InputError(f"chosen: needs one or more numbers from 0 to {len(centroids) - 1}, got {chosen.tolist()}")
    if len(np.unique(chosen)) < len(chosen):
        raise InputError(f"chosen: a cluster starts two topics in {chosen.tolist()}; give each once")
    _enough(int(sizes.sum()), len(chosen), target, merge, stop, order)
    joined = [[int(cluster)] for cluster in chosen]
    distances = cdist(centroids[chosen], centroids)  # [n_topics, k]
    distances[:, chosen] = np.inf  # inf: not free
    size = sizes[chosen]
    growing, last = size < target, -1
    while growing.any():
        if np.isinf(distances).all():
            short = [f"{number} ({size[number]} queries)" for number in np.flatnonzero(growing)]
            raise InputError(f"no free cluster left for topic {offenders(short)}, target {target}: lower it or raise k")
        last, cluster = _next(distances, growing, last, order)
        after = size[last] + sizes[cluster]
        if stop == "closest" and after > target and after - target >= target - size[last]:
            growing[last] = False
            continue
        joined[last].append(cluster)
        size[last], growing[last] = after, after < target
        distances[:, cluster] = np.inf
        if merge == "merged":
            centre = np.average(centroids[joined[last]], axis=0, weights=sizes[joined[last]])
            distances[last] = np.where(np.isinf(distances[last]), np.inf, cdist(centre[None], centroids)[0])
    return joined


def _nearest(vectors: np.ndarray, scale: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Number of the nearest centroid of each row, int64[n]; ties: the lower number.

    A matrix product finds it; where it leaves two a rounding apart, `squared_distances`, many times slower, decides.
    """
    parts, wide = [], centroids.astype(np.float64)
    lengths = (wide**2).sum(axis=1)
    for start in range(0, len(vectors), 2**14):
        rows = slice(start, start + 2**14)
        block = vectors[rows].astype(np.float64) * scale[rows, None]
        score = lengths - 2 * block @ wide.T  # the squared distance less that of the row from 0
        nearest, best = score.argmin(axis=1), score.min(axis=1, keepdims=True)
        slack = 1e-9 * (lengths.max() + (block**2).sum(axis=1, keepdims=True))
        close = np.flatnonzero((score <= best + slack).sum(axis=1) > 1)
        if len(close):
            nearest[close] = squared_distances(vectors[rows][close], scale[rows][close], centroids).argmin(axis=1)
        parts.append(nearest)
    return np.concatenate(parts)


def _next(distances: np.ndarray, growing: np.ndarray, last: int, order: str) -> tuple[int, int]:
    """The topic that joins next, and the cluster; `last` is the topic that was at it before."""
    open_topics = np.flatnonzero(growing)
    if order == "turns":
        open_topics = np.roll(open_topics, -np.searchsorted(open_topics, last, side="right"))[:1]
    at, cluster = np.unravel_index(distances[open_topics].argmin(), (len(open_topics), distances.shape[1]))
    return int(open_topics[at]), int(cluster)


def _spread(distances: np.ndarray, rows: np.ndarray) -> float:
    return float(distances[np.ix_(rows, rows)][np.triu_indices(len(rows), 1)].sum())


def _greedy(distances: np.ndarray, n: int) -> np.ndarray:
    rows = list(np.unravel_index(distances.argmax(), distances.shape)) if n > 1 else [0]
    if n > 1 and rows[0] == rows[1]:
        rows = [0, 1]  # all distances are 0
    while len(rows) < n:
        gain = distances[rows].sum(axis=0)
        gain[rows] = -np.inf
        rows.append(gain.argmax())
    return np.sort(np.array(rows, np.int64))


def _exact(distances: np.ndarray, n: int, reached: float) -> np.ndarray:
    """Depth first in lexicographic order, the last two levels at once as a matrix; `reached`: a sum known to exist.

    A prefix is left where the best it could become is not above the best found. Of a subset's sum a further member
    adds its distances to the prefix and half of those to the other further members, at most its largest ones.
    """
    k = len(distances)
    largest = -np.sort(-distances, axis=1)[:, : n - 1]
    half = np.concatenate([np.zeros((k, 1)), largest.cumsum(axis=1) / 2], axis=1)  # [k, n]; column m: of the m largest
    upper = np.where(np.tri(k, dtype=bool), -np.inf, distances)
    tolerance = 1e-12 * (reached or 1.0)  # sums that rounding alone sets apart are ties
    best, rows = reached - 2 * tolerance, None

    def search(prefix: list[int], total: float, to_prefix: np.ndarray) -> None:
        nonlocal best, rows
        start, left = prefix[-1] + 1 if prefix else 0, n - len(prefix)
        gain = to_prefix[start:]
        could = np.partition(gain + half[start:, left - 1], len(gain) - left)[len(gain) - left :]
        if total + could.sum() <= best:
            return
        if left > 2:
            for row in range(start, k - left + 1):
                search([*prefix, row], total + to_prefix[row], to_prefix + distances[row])
            return
        sums = (upper[start:, start:] + gain[:, None] + gain).ravel()
        if total + (highest := sums.max()) > best + tolerance:
            first, second = divmod(int((sums >= highest - tolerance).argmax()), len(gain))
            best, rows = total + highest, [*prefix, start + first, start + second]

    search([], 0.0, np.zeros(k))
    return np.array(rows, np.int64)


def _one_of(name: str, value: str, allowed: tuple) -> None:
    if value not in allowed:
        raise InputError(f"unknown {name} {value!r}: one of {', '.join(allowed)}")


def _enough(n_queries: int, n_topics: int, target: int, merge: str, stop: str, order: str) -> None:
    for name, value, allowed in (("merge", merge, MERGES), ("stop", stop, STOPS), ("order", order, ORDERS)):
        _one_of(name, value, allowed)
    if target < 1:
        raise InputError(f"target={target}: a topic needs 1 query or more")
    if n_topics * target > n_queries:
        raise InputError(
            f"{n_topics} topics of {target} queries need {n_topics * target}, and there are {n_queries}; lower target"
        )


def _matrix(centroids: np.ndarray) -> np.ndarray:
    centroids = np.asarray(centroids, np.float64)
    if centroids.ndim != 2 or 0 in centroids.shape or not np.isfinite(centroids).all():
        raise InputError(f"centroids: needs a matrix of finite numbers [k, dimensions], got shape {centroids.shape}")
    return centroids
