"""Vectors: the nearest training queries, k-means, and exact search among random vectors.

Three peers are faster, and why they are not used: scikit-learn's nearest neighbours hold all
similarities at once, which takes eight times the memory here and more at the size of MS MARCO; its
k-means draws other first centroids, and with them every split by clusters would be another one;
sentence-transformers' search breaks ties as they come and holds ten times the memory.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from .form import SEED, Case, DifferentError, Peer, Sizes, equal_within, unit_vectors

DIMENSIONS = 384
N_NEAREST = 10
N_CLUSTERS = 100
ITERATIONS = 25  # of `kmeans`
N_QUERIES = 200
K = 100
BLOCK = 8192  # passages that are searched at once
OF_PASSAGES = 64  # dimensions


def n_test(n: int) -> int:
    """Return so many test queries: at 503,000 training queries 6,980, as MS MARCO has."""
    return max(10, round(n * 6_980 / 503_000))


def nearest_ours(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Find the nearest training queries by the kit; return their cosines."""
    from interextra.splits.similarity import nearest

    train = unit_vectors(n, DIMENSIONS)
    test = unit_vectors(n_test(n), DIMENSIONS, SEED + 1)
    return lambda: nearest(test, train, N_NEAREST)[0]


def nearest_faiss(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Find them by a flat index of faiss."""
    import faiss

    train = unit_vectors(n, DIMENSIONS)
    test = unit_vectors(n_test(n), DIMENSIONS, SEED + 1)

    def work() -> np.ndarray:
        """Return the cosines."""
        index = faiss.IndexFlatIP(DIMENSIONS)
        index.add(train)
        return index.search(test, N_NEAREST)[0]

    return work


def nearest_sklearn(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Find them by scikit-learn."""
    from sklearn.neighbors import NearestNeighbors

    train = unit_vectors(n, DIMENSIONS)
    test = unit_vectors(n_test(n), DIMENSIONS, SEED + 1)

    def work() -> np.ndarray:
        """Return the cosines."""
        index = NearestNeighbors(n_neighbors=N_NEAREST, metric="cosine", algorithm="brute")
        distances, _ = index.fit(train).kneighbors(test)
        return 1 - distances

    return work


def inertia(vectors: np.ndarray, centroids: np.ndarray) -> float:
    """Return the mean squared distance to the nearest centroid."""
    import faiss

    centroids = np.ascontiguousarray(centroids, np.float32)
    squares, _ = faiss.knn(vectors, centroids, 1)
    return float(squares.mean())


def kmeans_ours(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Cluster by the kit; return the centroids."""
    from interextra.splits.clusters import kmeans

    vectors = unit_vectors(n, DIMENSIONS)
    return lambda: kmeans(vectors, min(N_CLUSTERS, n // 10), SEED, normalise=False)


def kmeans_sklearn(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Cluster by scikit-learn with as many iterations from random points."""
    from sklearn.cluster import KMeans

    vectors = unit_vectors(n, DIMENSIONS)

    def work() -> np.ndarray:
        """Return the centroids."""
        clustering = KMeans(
            min(N_CLUSTERS, n // 10),
            init="random",
            n_init=1,
            max_iter=ITERATIONS,
            tol=0,
            random_state=SEED,
        )
        return clustering.fit(vectors).cluster_centers_

    return work


def same_inertia(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Compare how near new vectors lie to the centroids."""
    others = unit_vectors(1000, DIMENSIONS, SEED + 2)
    ratio = inertia(others, theirs) / inertia(others, ours)
    sentence = f"mean squared distance of new vectors {ratio:.3f} times ours"
    if not 0.9 < ratio < 1.1:
        raise DifferentError(sentence)
    return sentence


def search_ours(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Search vectors by the kit; return the scores.

    Its ties are broken by doc_id, whose order is made before, once for a collection.
    """
    from interextra.data.collection import Passages, write_passages
    from interextra.models.architectures.dense import inner_products
    from interextra.models.search.topk import exact_search

    rows = ((str(number), "") for number in range(n))
    write_passages(folder / "passages.arrow", rows)
    passages = Passages(folder / "passages.arrow")
    assert len(passages.tie_order[0]) == n
    vectors = unit_vectors(n, OF_PASSAGES)
    queries = unit_vectors(N_QUERIES, OF_PASSAGES, SEED + 1)

    def work() -> np.ndarray:
        """Return the scores."""
        starts = range(0, n, BLOCK)
        blocks = (vectors[start : start + BLOCK] for start in starts)
        open_block = inner_products(queries)
        return exact_search(passages, blocks, open_block, N_QUERIES, K, N_QUERIES)[1]

    return work


def search_faiss(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Search them by a flat index of faiss."""
    import faiss

    vectors = unit_vectors(n, OF_PASSAGES)
    queries = unit_vectors(N_QUERIES, OF_PASSAGES, SEED + 1)

    def work() -> np.ndarray:
        """Return the scores."""
        index = faiss.IndexFlatIP(OF_PASSAGES)
        index.add(vectors)
        return index.search(queries, K)[0]

    return work


def search_library(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Search them by sentence-transformers."""
    from sentence_transformers import util

    vectors = unit_vectors(n, OF_PASSAGES)
    queries = unit_vectors(N_QUERIES, OF_PASSAGES, SEED + 1)

    def work() -> np.ndarray:
        """Return the scores."""
        rankings = util.semantic_search(queries, vectors, top_k=K, score_function=util.dot_score)
        scores = [[hit["score"] for hit in ranking] for ranking in rankings]
        return np.array(scores, np.float32)

    return work


# what is imported once, before processes start
IMPORTS = ("faiss", "sentence_transformers", "sklearn.cluster", "sklearn.neighbors")
CASES = [
    Case(
        "nearest training queries",
        "training queries, 1.4% as many test queries",
        Sizes(1000, 80_000, 503_000),
        nearest_ours,
        {
            "faiss": Peer(nearest_faiss, ("faiss",)),
            "scikit-learn": Peer(nearest_sklearn, ("sklearn",)),
        },
        equal_within(1e-5),
    ),
    Case(
        "k-means, 100 clusters",
        "vectors",
        Sizes(1000, 40_000, 100_000),
        kmeans_ours,
        {"scikit-learn": Peer(kmeans_sklearn, ("sklearn",))},
        same_inertia,
    ),
    Case(
        "exact search, 200 queries",
        "vectors of 64 dimensions",
        Sizes(1000, 400_000, 2_000_000),
        search_ours,
        {
            "faiss": Peer(search_faiss, ("faiss",)),
            "sentence-transformers": Peer(search_library, ("sentence_transformers",)),
        },
        equal_within(1e-5),
    ),
]
