"""Clusters of queries: k-means, how alike two clusterings are, and by what to know a cluster."""

from collections.abc import Sequence

import numpy as np


def kmeans(vectors: np.ndarray, k: int, seed: int, normalise: bool) -> np.ndarray:
    """Centroids float32[k, d] of `vectors` float32[n, d], all of which take part (faiss, 25
    iterations).

    `seed`: of the first ones; `normalise`: spherical k-means, centroids of length 1 as the vectors
    are already.
    """
    import faiss

    # faiss draws a sample of 256 points a centroid by default, and warns below 39
    every = {"min_points_per_centroid": 1, "max_points_per_centroid": len(vectors)}
    trained = faiss.Kmeans(
        vectors.shape[1], k, niter=25, seed=seed, spherical=normalise, verbose=False, **every
    )
    trained.train(vectors)
    return trained.centroids.copy()


def agreement(ours: Sequence, released: Sequence) -> dict[str, float]:
    """How alike two partitions of the same queries are: ari (expected 0 by chance; 1: the same),
    nmi (above 0 by chance), share_matched (queries in common of clusters that are matched to share
    most, by the Hungarian method).

    >>> agreement([5, 5, 7, 7], [1, 1, 1, 2])["share_matched"]
    0.75
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn import metrics

    counts = metrics.cluster.contingency_matrix(released, ours)
    return {
        "ari": float(metrics.adjusted_rand_score(released, ours)),
        "nmi": float(metrics.normalized_mutual_info_score(released, ours)),
        "share_matched": float(counts[linear_sum_assignment(-counts)].sum() / counts.sum()),
    }


def distinctive_words(texts: Sequence[str], labels: Sequence, n: int = 6) -> dict:
    """Label → its over-represented words: log-odds against the other texts, in standard deviations,
    with all texts as a prior that is worth 500 words, so that a rare word needs evidence (Monroe et
    al., Political Analysis 2008, §3.5).

    >>> distinctive_words(["red fox", "red hat", "sea", "sea air"], [0, 0, 1, 1], n=1)
    {0: ['red'], 1: ['sea']}
    """
    from sklearn.feature_extraction.text import CountVectorizer

    counter, labels, found = (
        CountVectorizer(token_pattern=r"\w+", binary=True),
        np.asarray(labels),
        {},
    )
    counts = counter.fit_transform(texts)  # [n_texts, n_words]
    words, total = counter.get_feature_names_out(), np.asarray(counts.sum(axis=0), float).ravel()
    for label in np.unique(labels).tolist():
        inside = np.asarray(counts[labels == label].sum(axis=0), float).ravel()
        a, b = (part + 500 * total / total.sum() for part in (inside, total - inside))
        odds = np.log(a / (a.sum() - a)) - np.log(b / (b.sum() - b))
        found[label] = words[np.argsort(-odds / np.sqrt(1 / a + 1 / b), kind="stable")[:n]].tolist()
    return found
