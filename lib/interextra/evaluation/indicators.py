"""Indicators of how far test queries lie from training (Lupart §5.2); the loss at each distance: `loss_bins`.

By words: the weighted Jaccard similarity of two sets of queries, and of a query with a set. By a model: R(q, T), the
mean score of a query with the training queries, which has a closed form; beside it the nearest training query and the
k nearest, which have none. A query vector comes from the model trained on T, so R of two models is on two scales.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise

import numpy as np
import pandas as pd
from scipy import sparse

from interextra.ground.errors import InputError, offenders
from interextra.splits.similarity import METRICS

CELLS = 2**24  # scores held at once: 64 MB of float32


def jaccard(source: Sequence[str], target: Sequence[str]) -> float:
    """Weighted Jaccard of the words of two sets of texts: sum of min(S_k, T_k) / sum of max(S_k, T_k) (Lupart §5.2).

    S_k and T_k are word k's share of all words of its set; words are text.lower().split(), as in the release. 1: the
    same shares; 0: no word in common. Raises InputError for a set without words.

    >>> round(jaccard(["red fox"], ["Red sea", "red hat"]), 9)  # 1/2 of `red` in both; 1.5 = 1/2 + 1/2 + 1/4 + 1/4
    0.333333333
    """
    s, t = (Counter(chain.from_iterable(_words(texts))) for texts in (source, target))
    n_s, n_t = s.total(), t.total()
    if not n_s or not n_t:
        raise InputError(f"Jaccard: no word in the {'target' if n_s else 'source'} texts; give texts with words")
    shared = sum(min(count / n_s, t[word] / n_t) for word, count in s.items() if word in t)
    return shared / (2 - shared)  # each set's shares add up to 1, so the sum of max is 2 - the sum of min


def query_jaccard(queries: Sequence[str], train: Sequence[str]) -> np.ndarray:
    """`jaccard([q], train)` of each query, float64[n_queries].

    A short query can hold few of the words of a large set, so the values are small and grow with its length.

    >>> query_jaccard(["red fox", "sun"], ["Red sea", "red hat"]).round(3).tolist()
    [0.333, 0.0]
    """
    q, t = _counts(queries, train)
    total = t.sum(axis=0)
    share = (total / total.sum())[q.indices]
    q.data = np.minimum(q.data / np.repeat(q.sum(axis=1), np.diff(q.indptr)), share)
    shared = q.sum(axis=1)
    return shared / (2 - shared)


def nearest_jaccard(queries: Sequence[str], train: Sequence[str]) -> np.ndarray:
    """The largest Jaccard similarity of each query's set of words with that of any training query, float64[n_queries].

    Plain sets, so that a word that comes twice counts once. 1: a training query has the same words.

    >>> nearest_jaccard(["red fox", "sun", "hat red red"], ["Red sea", "red hat"]).round(3).tolist()
    [0.333, 0.0, 1.0]
    """
    q, t = _counts(queries, train)
    sizes, postings, found = np.diff(t.indptr), t.T.tocsr(), []  # postings: word -> training queries that hold it
    for start, end in pairwise(q.indptr):
        holders = [postings.indices[slice(*postings.indptr[word : word + 2])] for word in q.indices[start:end]]
        shared = np.bincount(np.concatenate(holders), minlength=len(sizes))  # words in common with each
        found.append((shared / (end - start + sizes - shared)).max())
    return np.array(found)


def mean_similarity(test, train, metric: str = "dot") -> np.ndarray:
    """R(q, T) of each test query: its mean score with the training queries (Lupart §5.2, equation 1).

    Scores are inner products, so the mean over T is the product with T's mean vector: O(n d) and not O(n_test n_train).

    Parameters
    ----------
    test, train : float[n_test, d], float[n_train, d], or both scipy sparse.
    metric : "dot" (the paper's) or "cosine" (vectors of length 1; zero vectors are an error).

    Returns
    -------
    float64[n_test], accumulated in float64.

    >>> mean_similarity([[1, 0], [1, 1]], [[2, 0], [0, 4], [1, 5]]).tolist()
    [1.0, 4.0]
    """
    test, train = _vectors(test, train, metric)
    lengths = [None, None]
    if metric == "cosine" or sparse.issparse(test):
        lengths = [_lengths("test", test, metric), _lengths("train", train, metric)]
    centre = _centre(train, lengths[1])
    parts = [test[i : i + 2**15].astype(np.float64) @ centre for i in range(0, test.shape[0], 2**15)]
    means = np.concatenate(parts) / (1 if lengths[0] is None else lengths[0])
    if not np.isfinite(means).all():  # looked for last: reading the vectors for it takes longer than the mean
        _lengths("test", test, metric), _lengths("train", train, metric)
    return means


def mean_similarity_pairwise(test, train, metric: str = "dot") -> np.ndarray:
    """R by its definition, every score made and averaged: what `mean_similarity` must equal; n_test x n_train scores.

    >>> mean_similarity_pairwise([[1, 0], [1, 1]], [[2, 0], [0, 4], [1, 5]]).tolist()
    [1.0, 4.0]
    """
    return np.concatenate([block.mean(axis=1, dtype=np.float64) for block in score_blocks(test, train, metric)])


def score_blocks(test, train, metric: str = "dot") -> Iterator[np.ndarray]:
    """Scores of the test queries with all training queries, in blocks float[b, n_train] of some 64 MB; see `nearness`.

    Takes what `mean_similarity` takes. Blocks are float32 where both sides are.
    """
    test, train = _vectors(test, train, metric)
    own, other = _lengths("test", test, metric), _lengths("train", train, metric)
    step = max(1, CELLS // train.shape[0])
    for start in range(0, test.shape[0], step):
        scores = test[start : start + step] @ train.T
        scores = scores.toarray() if sparse.issparse(scores) else scores
        if metric == "cosine":
            scores /= own[start : start + step, None]
            scores /= other
        yield scores


def nearness(scores: Iterable[np.ndarray], k: int = 10) -> pd.DataFrame:
    """Mean, maximum and k-nearest density of each test query's scores with the training queries.

    Parameters
    ----------
    scores : blocks float[b, n_train] of query-query scores in the order of the test queries, e.g. of `score_blocks`, or
        of a model whose scores have no closed form (ColBERT).
    k : clipped to n_train.

    Returns
    -------
    Table of mean (R of equation 1), max, density (mean of the k largest); a row a test query.

    >>> nearness([np.array([[1.0, 5, 3]]), np.array([[0.0, 0, 6]])], k=2).to_numpy().tolist()
    [[3.0, 5.0, 4.0], [2.0, 6.0, 3.0]]
    """
    if k < 1:
        raise InputError(f"nearness: k must be at least 1, not {k}")
    parts, width, row = [], None, 0
    for block in scores:
        block = np.asarray(block)
        if block.ndim != 2 or not block.shape[1] or block.shape[1] != (width or block.shape[1]):
            raise InputError(f"nearness: block from row {row} has shape {block.shape}; needs [b, {width or 'n_train'}]")
        mean = block.mean(axis=1, dtype=np.float64)
        if not np.isfinite(mean).all():
            bad = row + np.flatnonzero(~np.isfinite(mean))
            raise InputError(f"nearness: NaN or infinite scores in rows {offenders(bad.tolist())}; score them again")
        top = np.partition(block, -min(k, block.shape[1]), axis=1)[:, -min(k, block.shape[1]) :]
        parts.append(np.column_stack([mean, top.max(axis=1), top.mean(axis=1, dtype=np.float64)]))
        width, row = block.shape[1], row + len(block)
    if not row:
        raise InputError("nearness: no scores given; an iterator can be read only once")
    return pd.DataFrame(np.concatenate(parts), columns=["mean", "max", "density"])


def _words(texts: Sequence[str]) -> list[list[str]]:
    if isinstance(texts, str):
        raise InputError(f"Jaccard: one text {texts!r:.40} given; give a list of texts")
    return [text.lower().split() for text in texts]


def _counts(queries: Sequence[str], train: Sequence[str]) -> list[sparse.csr_array]:
    """Word counts float64[n_queries, v] and [n_train, v] over one vocabulary."""
    sides = [_words(queries), _words(train)]
    if bad := [row for row, words in enumerate(sides[0]) if not words]:
        raise InputError(f"queries: {len(bad)} without words (rows {offenders(bad)}); drop them")
    if not sides[0] or not any(sides[1]):
        raise InputError(f"Jaccard: no word in the {'train' if sides[0] else 'queries'} texts; give texts with words")
    flat = np.array([word for side in sides for words in side for word in words], object)
    columns, vocabulary = pd.factorize(flat)
    made, start = [], 0
    for side in sides:
        rows = np.repeat(np.arange(len(side)), [len(words) for words in side])
        cells = np.ones(len(rows)), (rows, columns[start : start + len(rows)])
        made.append(sparse.csr_array(cells, shape=(len(side), len(vocabulary))))  # adds up repeated words
        start += len(rows)
    return made


def _vectors(test, train, metric: str) -> list:
    """Both sides as matrices of float32 or float64, dense or sparse."""
    if metric not in METRICS:
        raise InputError(f"unknown metric {metric!r}: one of {', '.join(METRICS)}")
    made = [sparse.csr_array(side) if sparse.issparse(side) else np.asarray(side) for side in (test, train)]
    for name, side in zip(("test", "train"), made, strict=True):
        if side.ndim != 2 or 0 in side.shape or side.dtype.kind not in "fiu":
            raise InputError(f"{name}: needs a matrix of numbers [queries, dimensions], got {side.dtype}{side.shape}")
    if made[0].shape[1] != made[1].shape[1] or sparse.issparse(test) != sparse.issparse(train):
        raise InputError(
            f"test {made[0].shape} and train {made[1].shape}: need the same dimensions, and to be both dense or both "
            "sparse; encode both with one model"
        )
    return [side.astype(np.promote_types(side.dtype, np.float32), copy=False) for side in made]


def _lengths(name: str, x, metric: str) -> np.ndarray:
    """Length of each row, float64[n] and all 1 under dot; refuses NaN and, under cosine, zero vectors."""
    if sparse.issparse(x):
        lengths = np.sqrt((x.astype(np.float64) ** 2).sum(axis=1))
    else:
        blocks = (x[i : i + 2**10].astype(np.float64) for i in range(0, len(x), 2**10))
        lengths = np.sqrt(np.concatenate([np.einsum("ij,ij->i", block, block) for block in blocks]))
    if len(bad := np.flatnonzero(~np.isfinite(lengths))):
        raise InputError(f"{name}: NaN or infinite values in rows {offenders(bad.tolist())}; encode them again")
    if metric == "cosine" and len(bad := np.flatnonzero(lengths == 0)):
        raise InputError(f"{name}: {len(bad)} zero vectors (rows {offenders(bad.tolist())}) have no cosine; drop them")
    return lengths if metric == "cosine" else np.ones(len(lengths))


def _centre(train, lengths: np.ndarray | None) -> np.ndarray:
    """Mean of the rows, divided by their lengths where given; float64[d], in blocks that fit a processor's cache."""
    if sparse.issparse(train):
        return train.T @ (1 / lengths) / train.shape[0]
    blocks = [slice(i, i + 2**10) for i in range(0, len(train), 2**10)]
    if lengths is None:
        return sum(train[rows].sum(axis=0, dtype=np.float64) for rows in blocks) / len(train)
    return sum((1 / lengths[rows]) @ train[rows].astype(np.float64) for rows in blocks) / len(train)
