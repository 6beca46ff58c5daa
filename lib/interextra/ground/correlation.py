"""Correlations of many resamples at once, and the tests of their differences.

A resample is a row of counts: how often each point was drawn. Points that belong together, such as one way of training
at three sizes, are drawn together by equal counts. Taught in notebooks/08_beir_correlation.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from scipy import stats

from interextra.ground.effects import interval

METHODS = ("Spearman", "Kendall", "Pearson")


def drawn_groups(groups: Sequence, seed: int, n_boot: int) -> np.ndarray:
    """Counts float[n_boot, n_points]: as many groups are drawn as there are, each with all its points.

    >>> drawn_groups(["a", "a", "b"], seed=0, n_boot=2).shape
    (2, 3)
    """
    codes, names = np.unique(np.asarray(groups, str), return_inverse=True)[1], set(groups)
    drawn = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), n_boot)
    return drawn[:, codes].astype(float)


def correlations(
    x: np.ndarray, y: np.ndarray, counts: np.ndarray, method: str, within: Sequence | None = None
) -> np.ndarray:
    """One correlation a resample, float[n_boot]; undefined (NaN) where all drawn points of a side are equal.

    Parameters
    ----------
    x, y : float[n_points], or float[n_boot, n_points] where the points themselves vary between resamples.
    counts : float[n_boot, n_points].
    method : Spearman (ties have their mean rank), Kendall (tau-b) or Pearson.
    within : a label a point; values, or for Spearman their ranks, then count less the mean of their label, so that what
        is between labels plays no part. Not with Kendall.

    >>> correlations([1.0, 2, 3], [1.0, 3, 2], np.ones((1, 3)), "Spearman").tolist()
    [0.5]
    """
    x, y = (np.asarray(side, float) for side in (x, y))
    if method == "Kendall":
        one, two = (np.sign(side[..., :, None] - side[..., None, :]) for side in (x, y))
        both, *alone = ((_weighted(counts, pairs) * counts).sum(axis=1) for pairs in (one * two, one**2, two**2))
        return _ratio(both, np.sqrt(alone[0] * alone[1]))
    if method == "Spearman":
        x, y = (_ranks(side, counts) for side in (x, y))
    labels = np.zeros(x.shape[-1]) if within is None else np.asarray(within)
    x, y = (_less_means(side, counts, labels) for side in (x, y))
    products = ((counts * pair).sum(axis=1) for pair in (x * y, x * x, y * y))
    both, *alone = products
    return _ratio(both, np.sqrt(alone[0] * alone[1]))


def _weighted(counts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Sums over the first axis of pairs float[n, n] or float[n_boot, n, n], by counts: float[n_boot, n]."""
    return counts @ pairs if pairs.ndim == 2 else np.matmul(counts[:, None], pairs)[:, 0]


def _ranks(side: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Rank of each point among those drawn, ties in their middle: float[n_boot, n_points]."""
    order = (np.sign(side[..., None, :] - side[..., :, None]) + 1) / 2  # [other, point]: 1 below, ½ equal, 0 above
    return _weighted(counts, order)


def _less_means(side: np.ndarray, counts: np.ndarray, labels: np.ndarray) -> np.ndarray:
    member = (labels[:, None] == np.unique(labels)).astype(float)  # [n_points, labels]
    sums, sizes = (counts * side) @ member, counts @ member
    return side - _ratio(sums, sizes, empty=0.0) @ member.T


def _ratio(top: np.ndarray, bottom: np.ndarray, empty: float = np.nan) -> np.ndarray:
    return np.divide(top, bottom, out=np.full(top.shape, empty), where=bottom > 1e-12)


def stretched(drawn: np.ndarray, estimate: float, n_groups: int) -> np.ndarray:
    """Draws of a correlation, float[n_boot], as far from the estimate as few groups ask for.

    On Fisher's z, by Student's factor over the normal one and that of a sample's own mean. Of eight groups the plain
    draws miss a true 0 in up to 10 of 100 samples, these in at most 5 (a test has the simulation).

    >>> stretched(np.array([0.5, 0.9]), 0.5, n_groups=8).round(2).tolist()
    [0.5, 0.94]
    """
    if n_groups < 2:
        return np.full(len(drawn), np.nan)
    factor = stats.t.ppf(0.975, n_groups - 1) / stats.norm.ppf(0.975) * np.sqrt(n_groups / (n_groups - 1))
    centre = fisher_z(estimate)
    return np.tanh(centre + factor * (fisher_z(drawn) - centre))


def ends_of(drawn: np.ndarray) -> tuple[float, float]:
    """Interval of draws. Those of one point alone have no correlation: they are left out where they are 1 % or fewer.

    >>> ends_of(np.append(np.full(99, 0.5), np.nan)), ends_of(np.array([0.5, np.nan]))
    ((0.5, 0.5), (nan, nan))
    """
    known = drawn[np.isfinite(drawn)]
    return interval(known if len(known) >= 0.99 * len(drawn) else drawn)


def fisher_z(r: np.ndarray | float) -> np.ndarray:
    """Fisher's z; 1 and -1 count as a shade less."""
    return np.arctanh(np.clip(r, -0.9999, 0.9999))


def interval_of_one(r: float, n: int, method: str, level: float = 0.95) -> tuple[float, float]:
    """Interval of one correlation of n independent points by Fisher's z, for Spearman as Bonett and Wright
    (Psychometrika 2000).

    >>> low, high = interval_of_one(0.537, 24, "Spearman")
    >>> round(low, 2), round(high, 2)
    (0.14, 0.78)
    """
    width = stats.norm.ppf((1 + level) / 2) * np.sqrt(_variance(r, n, method))
    return float(np.tanh(np.arctanh(r) - width)), float(np.tanh(np.arctanh(r) + width))


def independent(r: float, other: float, n: int, method: str) -> float:
    """Two-sided p-value of two correlations' difference, as if each were of n points of its own."""
    spread = np.sqrt(_variance(r, n, method) + _variance(other, n, method))
    return float(2 * stats.norm.sf(abs(np.arctanh(r) - np.arctanh(other)) / spread))


def _variance(r: float, n: int, method: str) -> float:
    return (1 + (r**2 / 2 if method == "Spearman" else 0)) / (n - 3)


def steiger(matrix: np.ndarray, n: int) -> tuple[float, float]:
    """z and two-sided p-value of r(1, 2) − r(3, 4), of four variables of the same n points (Steiger, Psychological
    Bulletin 1980, statistic Z̄2*). The points count as independent; `matrix`: float[4, 4].

    >>> example = np.array([[1, 0.5, 0.7, 0.5], [0.5, 1, 0.5, 0.8], [0.7, 0.5, 1, 0.6], [0.5, 0.8, 0.6, 1]])
    >>> round(steiger(example, 103)[0], 2)  # his example of correlations at two times
    -1.4
    """
    r12, r13, r14, r23, r24, r34 = matrix[np.triu_indices(4, 1)]
    r = (r12 + r34) / 2
    joint = (r13 - r * r23) * (r24 - r23 * r) + (r14 - r13 * r) * (r23 - r13 * r)
    joint += (r13 - r14 * r) * (r24 - r14 * r) + (r14 - r * r24) * (r23 - r24 * r)
    shared = joint / 2 / (1 - r**2) ** 2
    if not shared < 1:
        return float("nan"), float("nan")
    z = (np.arctanh(r12) - np.arctanh(r34)) * np.sqrt((n - 3) / (2 - 2 * shared))
    return float(z), float(2 * stats.norm.sf(abs(z)))


def dependent(pairs: Sequence[tuple[np.ndarray, np.ndarray]], method: str, within: Sequence | None = None) -> float:
    """Steiger's p-value of the difference of two correlations over the same points; a label costs one of them."""
    sides = [side for pair in pairs for side in pair]
    matrix = np.eye(4)
    for one, two in itertools.combinations(range(4), 2):
        both = correlations(sides[one], sides[two], np.ones((1, len(sides[0]))), method, within)[0]
        matrix[one, two] = matrix[two, one] = both
    n = len(sides[0]) - (0 if within is None else len(set(within)) - 1)
    return steiger(matrix, n)[1] if n > 3 and np.abs(np.triu(matrix, 1)).max() < 1 else float("nan")
