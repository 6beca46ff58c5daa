"""Clusters of queries: k-means, how alike two clusterings are, and by what to know a cluster."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse
from scipy.spatial.distance import cdist

PRIOR_WORDS = 500  # weight of all texts in `distinctive_words`


def kmeans(vectors: np.ndarray, k: int, seed: int, normalise: bool) -> np.ndarray:
    """Return the centroids of a k-means clustering, float32[k, d] (faiss, 25 iterations).

    Parameters
    ----------
    vectors : float32[n, d]
        All of them take part.
    k : int
        Number of clusters.
    seed : int
        Of the first centroids.
    normalise : bool
        Spherical k-means: centroids of length 1, as the vectors are already.
    """
    import faiss

    clustering = faiss.Kmeans(
        vectors.shape[1],
        k,
        niter=25,
        seed=seed,
        spherical=normalise,
        verbose=False,
        # faiss draws a sample of 256 points a centroid by default, and warns below 39
        min_points_per_centroid=1,
        max_points_per_centroid=len(vectors),
    )
    clustering.train(vectors)
    return np.array(clustering.centroids)


def largest_first(
    vectors: np.ndarray, k: int, seed: int, normalise: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cluster of each vector and the centroids of `kmeans`, most vectors first.

    Returns
    -------
    cluster : int64[n]
        From 0. Of two centroids at one distance the first that k-means gave.
    centroids : float32[k, d]
    """
    centroids = kmeans(vectors, k, seed, normalise)
    cluster = cdist(vectors, centroids, "sqeuclidean").argmin(axis=1)  # ties: the lower number
    sizes = np.bincount(cluster, minlength=k)
    by_size = np.argsort(-sizes, kind="stable")
    return np.argsort(by_size)[cluster], centroids[by_size]


def agreement(ours: Sequence | np.ndarray, released: Sequence | np.ndarray) -> dict[str, float]:
    """Measure how alike two partitions of the same queries are.

    Returns
    -------
    dict
        `ari`: adjusted Rand index, expected 0 by chance, 1 for the same partition. `nmi`:
        normalised mutual information, above 0 by chance. `share_matched`: share of queries in
        common of clusters that are matched to share most, by the Hungarian method.

    Examples
    --------
    >>> agreement([5, 5, 7, 7], [1, 1, 1, 2])["share_matched"]
    0.75
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn import metrics

    counts = metrics.cluster.contingency_matrix(released, ours)
    matched = linear_sum_assignment(-counts)
    return {
        "ari": float(metrics.adjusted_rand_score(released, ours)),
        "nmi": float(metrics.normalized_mutual_info_score(released, ours)),
        "share_matched": float(counts[matched].sum() / counts.sum()),
    }


def distinctive_words(texts: Sequence[str], labels: Sequence, n: int = 6) -> dict:
    """Return the `n` most over-represented words of the texts of each label.

    Words are sorted by their log-odds against the other texts, in standard deviations, with all
    texts as a prior that is worth 500 words, so that a rare word needs evidence (Monroe et al.,
    Political Analysis 2008, §3.5). A word counts once a text.

    Examples
    --------
    >>> distinctive_words(["red fox", "red hat", "sea", "sea air"], [0, 0, 1, 1], n=1)
    {0: ['red'], 1: ['sea']}
    """
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(token_pattern=r"\w+", binary=True)
    counts = counter.fit_transform(texts)  # [n_texts, n_words]
    words = counter.get_feature_names_out()
    in_all = _column_sums(counts)
    label_of_text = np.asarray(labels)
    words_of = {}
    for label in np.unique(label_of_text).tolist():
        inside = _column_sums(counts[label_of_text == label])
        log_odds = _log_odds(inside, in_all)
        order = np.argsort(-log_odds, kind="stable")
        words_of[label] = words[order[:n]].tolist()
    return words_of


def _column_sums(counts: scipy.sparse.csr_matrix) -> np.ndarray:
    """Return how many texts have each word, float64[n_words]."""
    return np.asarray(counts.sum(axis=0), float).ravel()


def _log_odds(inside: np.ndarray, in_all: np.ndarray) -> np.ndarray:
    """Return the log-odds of each word, inside against outside, in standard deviations."""
    prior = PRIOR_WORDS * in_all / in_all.sum()
    outside = in_all - inside + prior
    inside = inside + prior
    log_odds_inside = np.log(inside / (inside.sum() - inside))
    log_odds_outside = np.log(outside / (outside.sum() - outside))
    deviation = np.sqrt(1 / inside + 1 / outside)
    return (log_odds_inside - log_odds_outside) / deviation
