"""ReSTTest: k-means buckets of training and test queries, one held out from training at a time (Zhan §4.1.3).

For test sets too large for ReSTrain. A test query is extrapolation for the model trained without its bucket, and
interpolation for the other k - 1 models: both regimes are measured on the same queries. The paper doesn't say how
k-means was started nor how the k folds are averaged; here both are arguments. Taught in notebooks/03.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from interextra.ground.errors import InputError, offenders
from interextra.splits.restrain import size_matched_control
from interextra.splits.similarity import _pair, _scale

AVERAGES = ("micro", "macro")


@dataclass(frozen=True)
class Buckets:
    """A partition of the queries; bucket numbers from 0, most training queries first."""

    train: np.ndarray  # int64[n_train], bucket of each training query
    test: np.ndarray  # int64[n_test]
    centroids: np.ndarray  # float32[k, d], of length 1 where normalised
    inertia: float  # sum over all queries of the squared distance to their centroid
    normalise: bool

    @property
    def sizes(self) -> pd.DataFrame:
        """bucket, n_train, n_test: a row a bucket."""
        counts = [np.bincount(rows, minlength=len(self.centroids)) for rows in (self.train, self.test)]
        return pd.DataFrame({"bucket": range(len(self.centroids)), "n_train": counts[0], "n_test": counts[1]})

    def distances(self, vectors: np.ndarray) -> np.ndarray:
        """Squared distance of each of `vectors` [n, d] to each centroid: float64[n, k]."""
        scale = _scale(vectors, "cosine" if self.normalise else "dot")
        return squared_distances(vectors, scale, self.centroids)


def buckets(
    train: np.ndarray, test: np.ndarray, k: int = 5, seed: int = 0, normalise: bool = True, iterations: int = 25,
    redo: int = 1,
) -> Buckets:  # fmt: skip
    """Cluster training and test queries together.

    Parameters
    ----------
    train, test : float[n_train, d], float[n_test, d]
    k : number of buckets; the paper's is 5.
    seed : of the first centroids. The same seed gives the same buckets.
    normalise : bring vectors and centroids to length 1 (spherical k-means: nearest by cosine, as the release says of
        its similarity). False: plain k-means on the vectors as they are.
    iterations, redo : of k-means; of `redo` starts the one with the smallest inertia is kept. All queries take part.

    Raises
    ------
    InputError
        k below 2 or above the number of queries, NaN, zero vectors where normalised, a bucket without a training or
        without a test query.

    >>> found = buckets([[0.0], [1], [9]], [[2.0], [8], [10]], k=2, normalise=False)
    >>> found.train.tolist(), found.test.tolist(), found.centroids.ravel().tolist()
    ([0, 0, 1], [0, 1, 1], [1.0, 9.0])
    """
    test, train = _pair(test, train, "cosine" if normalise else "dot")
    vectors = np.concatenate([train, test]).astype(np.float32)
    if not 2 <= k <= len(vectors):
        raise InputError(f"k={k}: {len(vectors)} queries can make 2 to {len(vectors)} buckets")
    scale = _scale(vectors, "cosine" if normalise else "dot")
    centroids = kmeans(vectors, scale, k, seed, normalise, iterations, redo)
    distances = squared_distances(vectors, scale, centroids)
    nearest = distances.argmin(axis=1)  # ties: the lower number
    order = np.argsort(-np.bincount(nearest[: len(train)], minlength=k), kind="stable")
    at = np.argsort(order)[nearest]
    inertia = float(distances.min(axis=1).sum())
    found = Buckets(at[: len(train)], at[len(train) :], centroids[order], inertia, normalise)
    for name, rows in (("training", found.train), ("test", found.test)):
        if len(missing := np.setdiff1d(np.arange(k), rows)):
            raise InputError(f"empty bucket: no {name} query in {offenders(missing.tolist())}; lower k or other seed")
    return found


def folds(found: Buckets, fold_size: int = 0, seed: int = 0) -> list[np.ndarray]:
    """Per bucket the training queries outside it, sorted rows; with `fold_size` a random part of that size.

    Buckets are unequal, so the k training sets are too: `fold_size` makes them equal.

    >>> found = Buckets(np.array([0, 0, 1]), np.array([0, 1]), np.zeros((2, 1)), 0.0, False)
    >>> [rows.tolist() for rows in folds(found)]
    [[2], [0, 1]]
    """
    made = [np.flatnonzero(found.train != bucket) for bucket in range(len(found.centroids))]
    if fold_size > (small := min(map(len, made))):
        raise InputError(f"fold_size {fold_size}: the smallest fold has {small} training queries; use at most that")
    return [size_matched_control(rows, fold_size, seed) for rows in made] if fold_size else made


def regime_values(values: np.ndarray, bucket: np.ndarray, average: str) -> tuple[np.ndarray, np.ndarray]:
    """What each test query adds to the interpolation mean and to the extrapolation mean.

    Parameters
    ----------
    values : float[k, n_test], values[b, q] = measure of query q under the model trained without bucket b.
    bucket : int[n_test], bucket of each query, from 0.
    average : "micro": every query counts the same, interpolation is its mean over the other k - 1 models. "macro": the
        mean of each fold first, then the mean over the k folds, so a query of a small bucket counts more.

    Returns
    -------
    inter, extra float64[n_test]: their plain means are the regimes' means, so that `regime_row(..., paired=True)`
    takes both. Under macro they are weighted values (n / (k n_b) and so on); the bootstrap holds the weights fixed.

    >>> values = np.array([[0.2, 0.6, 0.8], [0.8, 0.3, 0.5]])
    >>> [[round(float(x.mean()), 3) for x in regime_values(values, np.array([0, 1, 1]), how)] for how in AVERAGES]
    [[0.733, 0.333], [0.75, 0.3]]
    """
    values, bucket = np.asarray(values, float), np.asarray(bucket)
    k, n = values.shape
    if average not in AVERAGES:
        raise InputError(f"unknown average {average!r}: one of {', '.join(AVERAGES)}")
    if bucket.shape != (n,) or not np.array_equal(np.unique(bucket), np.arange(k)):
        raise InputError(f"bucket: needs a number from 0 to {k - 1} for each of {n} test queries, each number used")
    held_out = bucket == np.arange(k)[:, None]  # [k, n]: is the query's bucket out of this model's training?
    inside = held_out.sum(axis=1, keepdims=True)  # [k, 1]
    macro = average == "macro"
    extra = values * (n / (k * inside) if macro else 1.0)
    inter = values * (n / (k * (n - inside)) if macro else 1 / (k - 1))
    return np.where(held_out, 0, inter).sum(axis=0), np.where(held_out, extra, 0).sum(axis=0)


def agreement(ours: np.ndarray, released: np.ndarray) -> dict:
    """How alike two partitions of the same queries are; buckets are matched to share most queries (Hungarian method).

    Returns ari (expected 0 by chance; 1: the same), nmi (above 0 by chance), share_matched (queries in matched
    buckets), sizes and released_sizes (of matched buckets, in the order of the released ones), match (released → ours).

    >>> agreement([5, 5, 7, 7], [1, 1, 1, 2])["match"]
    {1: 5, 2: 7}
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    shared = pd.crosstab(np.asarray(released), np.asarray(ours))
    rows, columns = linear_sum_assignment(-shared.to_numpy())
    return {
        "ari": float(adjusted_rand_score(released, ours)),
        "nmi": float(normalized_mutual_info_score(released, ours)),
        "share_matched": float(shared.to_numpy()[rows, columns].sum() / len(np.asarray(ours))),
        "sizes": shared.sum(axis=0).to_numpy()[columns].tolist(),
        "released_sizes": shared.sum(axis=1).to_numpy()[rows].tolist(),
        "match": dict(zip(shared.index[rows].tolist(), shared.columns[columns].tolist(), strict=True)),
    }


def distinctive_words(texts: Sequence[str], labels: Sequence, n: int = 6, prior: float = 500.0) -> dict:
    """Label → its over-represented words: log-odds against the other texts, in standard deviations, with all texts as
    a prior worth `prior` words, so that a rare word needs evidence (Monroe et al., Political Analysis 2008, §3.5).

    >>> distinctive_words(["red fox", "red hat", "sea", "sea air"], [0, 0, 1, 1], n=1)
    {0: ['red'], 1: ['sea']}
    """
    from sklearn.feature_extraction.text import CountVectorizer

    counter, labels, found = CountVectorizer(token_pattern=r"\w+", binary=True), np.asarray(labels), {}
    counts = counter.fit_transform(texts)  # [n_texts, n_words]
    words, total = counter.get_feature_names_out(), np.asarray(counts.sum(axis=0), float).ravel()
    for label in np.unique(labels).tolist():
        inside = np.asarray(counts[labels == label].sum(axis=0), float).ravel()
        a, b = (part + prior * total / total.sum() for part in (inside, total - inside))
        odds = np.log(a / (a.sum() - a)) - np.log(b / (b.sum() - b))
        found[label] = words[np.argsort(-odds / np.sqrt(1 / a + 1 / b), kind="stable")[:n]].tolist()
    return found


def portrait(found: Buckets, vectors: np.ndarray, texts: Sequence[str], n: int = 3) -> pd.DataFrame:
    """Queries by which to know each bucket: bucket, kind, text, margin; `vectors` [n_queries, d] belong to `texts`.

    `typical`: the `n` nearest to the centroid. `boundary`: the `n` with the smallest margin, the difference between the
    squared distances to the second nearest centroid and to their own.
    """
    distances = found.distances(vectors)
    two = np.partition(distances, 1, axis=1)
    frame = pd.DataFrame({"bucket": distances.argmin(axis=1), "distance": two[:, 0], "margin": two[:, 1] - two[:, 0]})
    parts = []
    for kind, key in (("typical", "distance"), ("boundary", "margin")):
        first = frame.sort_values(key, kind="stable").groupby("bucket").head(n)
        parts.append(first.assign(kind=kind, text=[texts[at] for at in first.index]))
    return pd.concat(parts).sort_values("bucket", kind="stable")[["bucket", "kind", "text", "margin"]]


def kmeans(
    vectors: np.ndarray, scale: np.ndarray, k: int, seed: int, normalise: bool, iterations: int = 25, redo: int = 1
) -> np.ndarray:
    """Centroids float32[k, d] of `vectors` float32[n, d], all of which take part.

    `scale` float64[n] (from `similarity._scale`) brings the rows to length 1 where normalised: spherical k-means.
    """
    import faiss

    scaled = vectors * scale[:, None].astype(np.float32) if normalise else vectors
    # faiss draws a sample of 256 points a centroid by default, and warns below 39
    trained = faiss.Kmeans(
        vectors.shape[1], k, niter=iterations, nredo=redo, seed=seed, spherical=normalise, verbose=False,
        min_points_per_centroid=1, max_points_per_centroid=len(vectors),
    )  # fmt: skip
    trained.train(np.ascontiguousarray(scaled))
    return trained.centroids.copy()


def squared_distances(vectors: np.ndarray, scale: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Squared distances in float64, so that no rounding of faiss decides: [n, k]; in blocks, to copy no big matrix."""
    parts = []
    for start in range(0, len(vectors), 2**14):
        block = vectors[start : start + 2**14].astype(np.float64) * scale[start : start + 2**14, None]
        parts.append(np.stack([((block - centroid) ** 2).sum(axis=1) for centroid in centroids], axis=1))
    return np.concatenate(parts)
