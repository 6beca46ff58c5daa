"""Topics of MS-Shift: few, far-apart groups of queries grown from k-means clusters.

Lupart et al., ECIR 2023, §3.1. Three steps: k-means makes k native clusters of all queries; the
n_topics with the largest sum of pairwise distances between their centroids start a topic each; each
topic joins the nearest free clusters until it has about `target` queries. Most queries end in no
topic, which keeps the topics apart. What the paper doesn't say are arguments here.
"""

import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist, pdist

from interextra.splits.clusters import largest_first
from interextra.splits.similarity import checked_vectors
from interextra.splits.split import Clusters, OfVectors
from interextra.store import InputError, Store, offenders, write_json

# Choices that the paper doesn't report: `choose` see `farthest`, the others see `expand`
SWITCHES = {
    "choose": ("exact", "greedy"),
    "merge": ("native", "merged"),
    "order": ("nearest", "turns"),
    "stop": ("reach", "closest"),
}
MOST_SUBSETS = 2 * 10**8  # to try; 100 centroids make 75 million subsets of five


class Topics(OfVectors, Clusters):
    """Topics of the training queries of the vectors; its fields are the arguments of `topics`.

    Files: topic.npy, native.npy, centroids.npy, topics.json (chosen, joined, spread): see
    `TopicClusters`.
    """

    word: ClassVar[str] = "topic"
    of_pool_only: ClassVar[bool] = True
    n_topics: int
    k: int
    target: int
    seed: int = 0
    choose: str = "exact"
    merge: str = "native"
    order: str = "nearest"
    stop: str = "reach"
    normalise: bool = False

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        check_switches({name: getattr(self, name) for name in SWITCHES})
        if self.pool.source.is_open:
            check_sizes(self.n_topics, self.k, self.target, self.pool.size())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the topics: C0, C1, …."""
        return tuple(f"C{topic}" for topic in range(self.n_topics))

    def title(self) -> str:
        """Return what a reader calls the topics."""
        collection = self.pool.source.spec
        return f"topics · {collection} · {self.n_topics} of {self.k} clusters · seed {self.seed}"

    def seconds(self) -> float:
        """Return the estimated seconds of one core."""
        return 1 + self.pool.size() / 20_000

    def build(self, folder: Path, store: Store) -> None:
        """Write the files of the topics."""
        vectors, _ = self.vectors.read(store)
        found = topics(vectors, **self.model_dump(exclude={"vectors"}))
        np.save(folder / "topic.npy", found.topic)
        np.save(folder / "native.npy", found.native)
        np.save(folder / "centroids.npy", found.centroids)
        chosen = found.chosen.tolist()
        write_json(
            folder / "topics.json",
            {"chosen": chosen, "joined": found.joined, "spread": found.spread},
        )

    def labels(self, store: Store) -> np.ndarray:
        """Return the name of the topic of each query of the pool, object[n]; "" for none."""
        topic = np.load(store[self] / "topic.npy")
        names = np.array([*self.names, ""], dtype=object)  # the last one is that of topic -1
        return names[topic]

    def labels_of(self, split: str, store: Store) -> np.ndarray:
        """Return "" for each query of a split, object[n]: only those of the pool are divided."""
        n_queries = len(self.pool.source.open().query_ids(split))
        return np.full(n_queries, "", dtype=object)

    def cluster_size(self) -> int:
        """Return the number of queries that a topic should have."""
        return self.target


@dataclass(frozen=True)
class TopicClusters:
    """Native clusters, most queries first, and the topics that start from some of them."""

    native: np.ndarray  # int64[n], native cluster of each query, 0 to k - 1
    centroids: np.ndarray  # float32[k, d], of length 1 where normalised
    # int64[n_topics], the native cluster that starts each topic, ascending: the largest first
    chosen: np.ndarray
    joined: list[list[int]]  # per topic its native clusters in the order of joining, `chosen` first
    topic: np.ndarray  # int64[n], topic of each query, 0 to n_topics - 1; -1: in no topic
    spread: float  # sum of the pairwise l2 distances of the chosen centroids

    @property
    def sizes(self) -> pd.DataFrame:
        """DataFrame[topic, n_clusters, n_native, n_queries], a row a topic.

        n_native are the queries of the cluster that starts it.
        """
        return pd.DataFrame(
            {
                "topic": range(len(self.chosen)),
                "n_clusters": [len(clusters) for clusters in self.joined],
                "n_native": np.bincount(self.native)[self.chosen],
                "n_queries": np.bincount(self.topic[self.topic >= 0]),
            }
        )


def topics(
    vectors: np.ndarray,
    n_topics: int,
    k: int,
    target: int,
    seed: int,
    normalise: bool = False,
    choose: str = "exact",
    merge: str = "native",
    order: str = "nearest",
    stop: str = "reach",
) -> TopicClusters:
    """Cluster queries into topics and a rest that is in none.

    Native clusters that k-means leaves without a query come last, and neither start nor join a
    topic.

    Parameters
    ----------
    vectors : float[n, d]
        The paper's are [CLS] of a DistilBERT.
    n_topics, k, target : int
        Number of topics, of native clusters, and of queries that a topic should have; the paper's
        are 5, 100 and 25,000 for its 500,000 queries: for others keep the share, target = n / 20.
    seed : int
        Of `kmeans`.
    normalise : bool
        Whether the vectors, and the centroids of `kmeans`, have length 1.
    choose : {"exact", "greedy"}
        See `farthest`.
    merge, order, stop : str
        See `expand`.

    Raises
    ------
    InputError
        A number that the queries do not allow, an unknown switch, NaN, zero vectors where
        normalised.

    Examples
    --------
    >>> points = [[0.0], [1], [10], [11], [30], [31], [32]]
    >>> found = topics(points, n_topics=2, k=3, target=2, seed=0)
    >>> found.native.tolist(), found.centroids.ravel().tolist(), found.spread
    ([1, 1, 2, 2, 0, 0, 0], [31.0, 0.5, 10.5], 30.5)
    >>> found.topic.tolist(), found.joined
    ([1, 1, -1, -1, 0, 0, 0], [[0], [1]])
    """
    vectors = checked_vectors(vectors, normalise)
    check_switches({"choose": choose, "merge": merge, "order": order, "stop": stop})
    check_sizes(n_topics, k, target, len(vectors))
    native, centroids = largest_first(vectors, k, seed, normalise)
    sizes = np.bincount(native)
    used = centroids[: len(sizes)]  # of the clusters that have a query
    chosen, spread = farthest(used, n_topics, choose)
    joined = expand(used, sizes, chosen, target, merge, order, stop)
    topic_of_cluster = np.full(k, -1)
    for topic, clusters in enumerate(joined):
        topic_of_cluster[clusters] = topic
    return TopicClusters(
        native=native,
        centroids=centroids,
        chosen=chosen,
        joined=joined,
        topic=topic_of_cluster[native],
        spread=spread,
    )


def check_switches(switches: dict[str, str]) -> None:
    """Refuse values of `SWITCHES` that are unknown."""
    for name, value in switches.items():
        if value not in SWITCHES[name]:
            known = ", ".join(SWITCHES[name])
            raise InputError(f"unknown {name} {value!r}: one of {known}")


def check_sizes(n_topics: int, k: int, target: int, n: int) -> None:
    """Refuse numbers that `n` queries do not allow."""
    if not 1 <= n_topics <= k <= n:
        raise InputError(
            f"{n_topics} topics of k={k} clusters of {n} queries: none may exceed the next"
        )
    largest = n // n_topics
    if not 1 <= target <= largest:
        raise InputError(
            f"{n_topics} topics of {target} queries: {n} can make topics of 1 to {largest}"
        )


def farthest(centroids: np.ndarray, n: int, method: str = "exact") -> tuple[np.ndarray, float]:
    """Choose the centroids with the largest sum of pairwise l2 distances (Lupart §3.1, step ii).

    Parameters
    ----------
    centroids : float[k, d]
    n : int
        Number of centroids to choose.
    method : {"exact", "greedy"}
        "exact": the best of all subsets; ties (up to rounding): the lexicographically first.
        "greedy": the farthest pair, then one by one the farthest in sum from those chosen; ties:
        the lower number.

    Returns
    -------
    rows : int64[n]
        Ascending.
    spread : float
        Their sum of distances.

    Raises
    ------
    InputError
        More than there are, or too many subsets to try.

    Examples
    --------
    >>> farthest([[0.0], [1], [5], [6]], n=3)  # 0, 1, 6 and 0, 5, 6 are as far apart: the first
    (array([0, 1, 3]), 12.0)
    """
    centroids = np.asarray(centroids, np.float64)
    k = len(centroids)
    if not 1 <= n <= k:
        raise InputError(f"n={n}: of {k} centroids 1 to {k} can be chosen")
    n_subsets = math.comb(k, n)
    if method == "exact" and n_subsets > MOST_SUBSETS:
        raise InputError(
            f"{n_subsets:,} subsets of {n} among {k} centroids are too many to try; use 'greedy'"
        )
    if n == 1:
        return np.zeros(1, np.int64), 0.0
    distances = cdist(centroids, centroids)
    choose = _exact if method == "exact" else _greedy
    rows = choose(distances, n)
    spread = pdist(centroids[rows]).sum()
    return rows, float(spread)


def _greedy(distances: np.ndarray, n: int) -> np.ndarray:
    """Return the farthest pair, then one by one the farthest in sum from those chosen."""
    without_diagonal = distances - np.eye(len(distances))  # of equal centroids, no one twice
    rows = list(np.unravel_index(without_diagonal.argmax(), distances.shape))
    while len(rows) < n:
        sums = distances[rows].sum(axis=0)
        sums[rows] = -np.inf
        rows.append(sums.argmax())
    return np.sort(np.array(rows, np.int64))


def _exact(distances: np.ndarray, n: int) -> np.ndarray:
    """Return the best of all subsets.

    For all that the first n - 2 members may be, in order, the best last two are found at once, in
    a matrix of sums.
    """
    largest_distance = distances.max()
    tolerance = 1e-12 * n**2 * largest_distance  # sums that rounding alone sets apart are ties
    k = len(distances)
    is_lower = np.tri(k, dtype=bool)
    pairs = np.where(is_lower, -np.inf, distances)  # each pair once, in order
    best_sum = -np.inf
    best_rows: list[int] = []
    for members in map(list, itertools.combinations(range(k - 2), n - 2)):
        start = members[-1] + 1 if members else 0
        inner_sum = distances[members][:, members].sum() / 2
        gains = distances[members, start:].sum(axis=0)  # of each later centroid
        if inner_sum + 2 * gains.max() + largest_distance <= best_sum:
            continue
        later_pairs = pairs[start:, start:]
        sums = later_pairs + gains[:, None] + gains
        largest = sums.max()
        if inner_sum + largest > best_sum + tolerance:
            best_sum = inner_sum + largest
            is_largest = sums >= largest - tolerance
            last_two = start + np.argwhere(is_largest)[0]
            best_rows = [*members, *last_two]
    return np.array(best_rows, np.int64)


def expand(
    centroids: np.ndarray,
    sizes: np.ndarray,
    chosen: np.ndarray,
    target: int,
    merge: str,
    order: str,
    stop: str,
) -> list[list[int]]:
    """Let topics join free clusters until they have about `target` queries (Lupart §3.1, step iii).

    Parameters
    ----------
    centroids, sizes : float[k, d], int[k]
        Of the native clusters; sizes in queries.
    chosen : int[n_topics]
        The clusters that start.
    target : int
        Queries that a topic should have.
    merge : {"native", "merged"}
        A cluster is near to a topic by its distance to the centroid of the topic's first cluster
        ("native"), or of all that it has joined so far, weighted by size ("merged").
    order : {"nearest", "turns"}
        "nearest": of all topics still growing and all free clusters the nearest pair joins first.
        "turns": the topics join their nearest free cluster in turn. Ties: the first topic, then the
        lower cluster.
    stop : {"reach", "closest"}
        "reach": a topic joins until it has `target` queries or more. "closest": the cluster that
        would take it past `target` joins only if the size gets nearer to `target`; else it stays
        free, and the topic is done.

    Returns
    -------
    list of list of int
        Clusters of each topic in the order of joining: the chosen one, then free ones.

    Raises
    ------
    InputError
        No free cluster is left for a topic that should grow.

    Examples
    --------
    >>> line = np.array([[0.0], [1], [3], [4], [9]])
    >>> options = {"merge": "native", "order": "nearest", "stop": "reach"}
    >>> expand(line, sizes=np.full(5, 2), chosen=np.array([0, 4]), target=4, **options)
    [[0, 1], [4, 3]]
    """
    joined = [[cluster] for cluster in chosen.tolist()]
    distances = cdist(centroids[chosen], centroids)  # [n_topics, k]
    distances[:, chosen] = np.inf  # inf: not free
    topic_sizes = sizes[chosen]
    is_growing = topic_sizes < target
    topic = -1
    while is_growing.any():
        if np.isinf(distances).all():
            raise _no_free_cluster(topic_sizes, is_growing, target)
        topic = _next_topic(distances, is_growing, order, topic)
        cluster = int(distances[topic].argmin())
        new_size = topic_sizes[topic] + sizes[cluster]
        gets_nearer = new_size - target < target - topic_sizes[topic]
        if stop == "closest" and not gets_nearer:
            is_growing[topic] = False
            continue
        joined[topic].append(cluster)
        topic_sizes[topic] = new_size
        is_growing[topic] = new_size < target
        distances[:, cluster] = np.inf
        if merge == "merged":
            is_free = np.isfinite(distances[topic])
            members = joined[topic]
            from_centre = _distances_from_centre(centroids, sizes, members)
            distances[topic, is_free] = from_centre[is_free]
    return joined


def _distances_from_centre(
    centroids: np.ndarray, sizes: np.ndarray, members: list[int]
) -> np.ndarray:
    """Return the distance of each centroid from that of all queries of the clusters `members`."""
    centre = np.average(centroids[members], axis=0, weights=sizes[members])
    return cdist(centre[None], centroids)[0]


def _next_topic(distances: np.ndarray, is_growing: np.ndarray, order: str, last: int) -> int:
    """Return the topic that joins a cluster next: the nearest to one, or the first after `last`."""
    growing = np.flatnonzero(is_growing)
    if order == "nearest":
        nearest = distances[growing].min(axis=1)
        return growing[nearest.argmin()]
    later = growing[growing > last]
    return later[0] if len(later) else growing[0]


def _no_free_cluster(topic_sizes: np.ndarray, is_growing: np.ndarray, target: int) -> InputError:
    """Return the error of topics that are too small when all clusters are taken."""
    growing = np.flatnonzero(is_growing)
    too_small = [f"{topic} ({topic_sizes[topic]} queries)" for topic in growing]
    return InputError(
        f"no free cluster left for topic {offenders(too_small)}, target {target}: "
        "lower it or raise k"
    )
