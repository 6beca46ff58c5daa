"""Topics of MS-Shift: few, far-apart groups of queries grown from k-means clusters (Lupart et al.,
ECIR 2023, §3.1).

Three steps: k-means makes k native clusters of all queries; the n_topics with the largest sum of
pairwise distances between their centroids start a topic each; each topic joins the nearest free
clusters until it has about `target` queries. Most queries end in no topic, which keeps the topics
apart. What the paper doesn't say are arguments here.
"""

import itertools
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist, pdist

from interextra.splits.clusters import kmeans
from interextra.splits.similarity import checked_vectors
from interextra.splits.split import OfVectors
from interextra.store import InputError, Store, offenders, write_json

SWITCHES = {
    "choose": ("exact", "greedy"),
    "merge": ("native", "merged"),
    "order": ("nearest", "turns"),
    "stop": ("reach", "closest"),
}


class Topics(OfVectors):
    """Topics of the training queries of the vectors; its fields are the arguments of `topics`.

    Files: topic.npy, native.npy, centroids.npy, topics.json (chosen, joined, spread): see
    `TopicClusters`.
    """

    n_topics: int
    k: int
    target: int
    seed: int = 0
    choose: str = "exact"
    merge: str = "native"
    order: str = "nearest"
    stop: str = "reach"
    normalise: bool = False

    def __init__(self, **fields):
        super().__init__(**fields)
        n = self.pool.size() if self.pool.source.is_open else None
        check(
            self.n_topics, self.k, self.target, n, {name: getattr(self, name) for name in SWITCHES}
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"C{topic}" for topic in range(self.n_topics))

    def title(self) -> str:
        return f"topics · {self.pool.source.spec} · {self.n_topics} of {self.k} clusters · seed {self.seed}"

    def seconds(self) -> float:
        return 1 + self.pool.size() / 20_000

    def build(self, folder: Path, store: Store) -> None:
        made = topics(self.vectors.read(store)[0], **self.model_dump(exclude={"vectors"}))
        for name in ("topic", "native", "centroids"):
            np.save(folder / f"{name}.npy", getattr(made, name))
        found = {"chosen": made.chosen.tolist(), "joined": made.joined, "spread": made.spread}
        write_json(folder / "topics.json", found)

    def labels(self, store: Store) -> np.ndarray:
        """Name of the topic of each query of the pool, object[n]; "" for none."""
        return np.array([*self.names, ""], dtype=object)[np.load(store[self] / "topic.npy")]


@dataclass(frozen=True)
class TopicClusters:
    """Native clusters, numbered from 0, most queries first, and the topics that start from some of
    them.
    """

    native: np.ndarray  # int64[n], native cluster of each query, 0 to k - 1
    centroids: np.ndarray  # float32[k, d], of length 1 where normalised
    chosen: (
        np.ndarray
    )  # int64[n_topics], the native cluster that starts each topic, ascending: the largest first
    joined: list[list[int]]  # per topic its native clusters in the order of joining, `chosen` first
    topic: np.ndarray  # int64[n], topic of each query, 0 to n_topics - 1; -1: in no topic
    spread: float  # sum of the pairwise l2 distances of the chosen centroids

    @property
    def sizes(self) -> pd.DataFrame:
        """topic, n_clusters, n_native (queries of the cluster that starts it), n_queries: a row a
        topic.
        """
        native = np.bincount(self.native)[self.chosen]
        sizes = pd.DataFrame(
            {"topic": range(len(self.chosen)), "n_clusters": list(map(len, self.joined))}
        )
        return sizes.assign(n_native=native, n_queries=np.bincount(self.topic[self.topic >= 0]))


def topics(
    vectors: np.ndarray,
    n_topics: int,
    k: int,
    target: int,
    seed: int,
    normalise: bool = False,
    **switches: str,
) -> TopicClusters:
    """Cluster queries into topics and a rest that is in none.

    vectors : float[n, d]; the paper's are [CLS] of a DistilBERT. n_topics, k, target : number of
    topics, of native clusters, and queries a topic should have; the paper's are 5, 100
        and 25,000 for its 500,000 queries: for others keep the share, target = n / 20.
    seed, normalise : of `kmeans`; with `normalise` the vectors have length 1, too. switches :
    choose, see `farthest`, and merge, order, stop, see `expand`; by default the first of SWITCHES.

    Native clusters that k-means leaves without a query come last, and neither start nor join a
    topic. InputError: a number that the queries do not allow, an unknown switch, NaN, zero vectors
    where normalised.

    >>> found = topics([[0.0], [1], [10], [11], [30], [31], [32]], n_topics=2, k=3, target=2, seed=0)
    >>> found.native.tolist(), found.centroids.ravel().tolist(), found.spread
    ([1, 1, 2, 2, 0, 0, 0], [31.0, 0.5, 10.5], 30.5)
    >>> found.topic.tolist(), found.joined
    ([1, 1, -1, -1, 0, 0, 0], [[0], [1]])
    """
    switches = {name: known[0] for name, known in SWITCHES.items()} | switches
    vectors = checked_vectors(vectors, normalise)
    check(n_topics, k, target, len(vectors), switches)
    centroids = kmeans(vectors, k, seed, normalise)
    native = cdist(vectors, centroids, "sqeuclidean").argmin(axis=1)  # ties: the lower number
    sizes = np.bincount(native, minlength=k)
    by_size = np.argsort(-sizes, kind="stable")
    native, centroids, sizes = np.argsort(by_size)[native], centroids[by_size], sizes[by_size]
    used = int((sizes > 0).sum())
    chosen, spread = farthest(centroids[:used], n_topics, switches.pop("choose"))
    joined = expand(centroids[:used], sizes[:used], chosen, target, **switches)
    of_cluster = np.full(k, -1)
    for topic, clusters in enumerate(joined):
        of_cluster[clusters] = topic
    return TopicClusters(native, centroids, chosen, joined, of_cluster[native], spread)


def check(n_topics: int, k: int, target: int, n: int | None, switches: dict[str, str]) -> None:
    """InputError for an unknown switch, and for numbers that `n` queries (None: not known yet) do
    not allow.
    """
    for name, value in switches.items():
        if value not in SWITCHES.get(name, ()):
            raise InputError(
                f"unknown {name} {value!r}: one of {', '.join(SWITCHES.get(name, SWITCHES))}"
            )
    if n is not None and not 1 <= n_topics <= k <= n:
        raise InputError(
            f"{n_topics} topics of k={k} clusters of {n} queries: none may exceed the next"
        )
    if n is not None and not 1 <= target <= n // n_topics:
        raise InputError(
            f"{n_topics} topics of {target} queries: {n} can make topics of 1 to {n // n_topics}"
        )


def farthest(centroids: np.ndarray, n: int, method: str = "exact") -> tuple[np.ndarray, float]:
    """Rows int64[n], ascending, of the centroids with the largest sum of pairwise l2 distances, and
    this sum.

    Lupart §3.1, step ii. method "exact": the best of all subsets; ties (up to rounding): the
    lexicographically first. "greedy": the farthest pair, then one by one the farthest in sum from
    those chosen; ties: the lower number.

    >>> farthest([[0.0], [1], [5], [6]], n=3)  # 0, 1, 6 and 0, 5, 6 are as far apart: the first
    (array([0, 1, 3]), 12.0)
    """
    centroids, k = np.asarray(centroids, np.float64), len(centroids)
    if not 1 <= n <= k:
        raise InputError(f"n={n}: of {k} centroids 1 to {k} can be chosen")
    if (
        method == "exact" and math.comb(k, n) > 2 * 10**8
    ):  # 100 centroids make 75 million subsets of five
        raise InputError(
            f"{math.comb(k, n):,} subsets of {n} among {k} centroids are too many to try; use 'greedy'"
        )
    if n == 1:
        return np.zeros(1, np.int64), 0.0
    distances = cdist(centroids, centroids)
    rows = _exact(distances, n) if method == "exact" else _greedy(distances, n)
    return rows, float(pdist(centroids[rows]).sum())


def expand(
    centroids: np.ndarray,
    sizes: np.ndarray,
    chosen: np.ndarray,
    target: int,
    merge: str,
    order: str,
    stop: str,
) -> list[list[int]]:
    """Clusters of each topic in the order of joining: the chosen one, then free ones (Lupart §3.1,
    step iii).

    centroids, sizes : float[k, d], int[k] (queries) of the native clusters; chosen : int[n_topics],
    those that start. merge : a cluster is near to a topic by its distance to the centroid of the
    topic's first cluster ("native"), or of
        all that it has joined so far, weighted by size ("merged").
    order : "nearest": of all topics still growing and all free clusters the nearest pair joins
    first. "turns": the
        topics join their nearest free cluster in turn. Ties: the first topic, then the lower
        cluster.
    stop : "reach": a topic joins until it has `target` queries or more. "closest": the cluster that
    would take it
        past `target` joins only if the size gets nearer to `target`; else it stays free, and the
        topic is done.

    >>> line, sizes, chosen = np.array([[0.0], [1], [3], [4], [9]]), np.full(5, 2), np.array([0, 4])
    >>> expand(line, sizes, chosen, 4, merge="native", order="nearest", stop="reach")
    [[0, 1], [4, 3]]
    """
    joined = [[cluster] for cluster in chosen.tolist()]
    distances = cdist(centroids[chosen], centroids)  # [n_topics, k]
    distances[:, chosen] = np.inf  # inf: not free
    size = sizes[chosen]
    growing, last = size < target, -1
    while growing.any():
        if np.isinf(distances).all():
            short = [f"{number} ({size[number]} queries)" for number in np.flatnonzero(growing)]
            raise InputError(
                f"no free cluster left for topic {offenders(short)}, target {target}: lower it or raise k"
            )
        ready = np.flatnonzero(growing)
        if order == "turns":  # the first behind the last one, or from the start again
            ready = ready[[np.searchsorted(ready, last, side="right") % len(ready)]]
        at, cluster = divmod(int(distances[ready].argmin()), len(centroids))
        last = ready[at]
        after = size[last] + sizes[cluster]
        if stop == "closest" and after - target >= target - size[last]:
            growing[last] = False
            continue
        joined[last].append(cluster)
        size[last], growing[last] = after, after < target
        distances[:, cluster] = np.inf
        if merge == "merged":
            centre = np.average(centroids[joined[last]], axis=0, weights=sizes[joined[last]])
            distances[last] = np.where(
                np.isinf(distances[last]), np.inf, cdist(centre[None], centroids)[0]
            )
    return joined


def _greedy(distances: np.ndarray, n: int) -> np.ndarray:
    rows = list(np.unravel_index((distances - np.eye(len(distances))).argmax(), distances.shape))
    while len(rows) < n:
        gain = distances[rows].sum(axis=0)
        gain[rows] = -np.inf
        rows.append(gain.argmax())
    return np.sort(np.array(rows, np.int64))


def _exact(distances: np.ndarray, n: int) -> np.ndarray:
    """For all that the first n - 2 members may be, in order, the best last two at once, as a matrix
    of sums.
    """
    k, best, rows = len(distances), -np.inf, ()
    farthest_pair = distances.max()
    tolerance = 1e-12 * n**2 * farthest_pair  # sums that rounding alone sets apart are ties
    upper = np.where(np.tri(k, dtype=bool), -np.inf, distances)
    for first in map(list, itertools.combinations(range(k - 2), n - 2)):
        start = first[-1] + 1 if first else 0
        total, gain = distances[first][:, first].sum() / 2, distances[first, start:].sum(axis=0)
        if total + 2 * gain.max() + farthest_pair <= best:
            continue
        sums = upper[start:, start:] + gain[:, None] + gain
        if total + sums.max() > best + tolerance:
            best = total + sums.max()
            rows = [*first, *(start + np.argwhere(sums >= sums.max() - tolerance)[0])]
    return np.array(rows, np.int64)
