"""Rank and product-moment correlations of many resamples at once, their intervals and tests.

A resample is a row of counts: how often each point was drawn; one sample is a resample of ones.
`correlations` takes one pair of columns; `kendall_draws` and `kendall_within` take many columns of
thousands of queries, in blocks, with counts float32[n, n_boot]. Taught in
notebooks/08_beir_correlation and notebooks/07_indicators.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from scipy import stats

from interextra.stats.bootstrap import interval, ratio, seed_of
from interextra.store.errors import InputError, offenders

METHODS = ("Spearman", "Kendall", "Pearson")
BLOCK = 2**22  # values of a sign matrix held at once


def drawn_groups(groups: Sequence, seed: int, n_boot: int) -> np.ndarray:
    """Counts float[n_boot, n_points]: as many groups are drawn as there are, each with all its
    points.

    Their names are part of the seed: other groups, other draws.
    """
    names, codes = np.unique(np.asarray(groups, str), return_inverse=True)
    random = np.random.default_rng(seed_of(seed, names))
    drawn = random.multinomial(len(names), np.full(len(names), 1 / len(names)), n_boot)
    return drawn[:, codes].astype(float)


def correlations(
    x: np.ndarray, y: np.ndarray, counts: np.ndarray, method: str, within: Sequence | None = None
) -> np.ndarray:
    """One correlation a resample, float[n_boot]; undefined (NaN) where all drawn points of a side
    are equal.

    x, y : float[n_points], or float[n_boot, n_points] where the points themselves vary between
    resamples. counts : float[n_boot, n_points]. method : Spearman (ties have their mean rank),
    Kendall (tau-b) or Pearson. within : a label a point; values, or for Spearman their ranks, then
    count less the mean of their label, so that what
        is between labels plays no part. Not with Kendall.

    >>> correlations([1.0, 2, 3], [1.0, 3, 2], np.ones((1, 3)), "Spearman").tolist()
    [0.5]
    """
    x, y = (np.asarray(side, float) for side in (x, y))
    if method == "Kendall":
        one, two = (np.sign(side[..., :, None] - side[..., None, :]) for side in (x, y))
        products = [
            (_weighted(counts, pairs) * counts).sum(axis=1) for pairs in (one * two, one**2, two**2)
        ]
    else:
        if (
            method == "Spearman"
        ):  # ranks among the points drawn; [other, point]: 1 below, ½ equal, 0 above
            orders = ((np.sign(side[..., None, :] - side[..., :, None]) + 1) / 2 for side in (x, y))
            x, y = (_weighted(counts, order) for order in orders)
        labels = np.zeros(x.shape[-1]) if within is None else np.asarray(within)
        member = (labels[:, None] == np.unique(labels)).astype(float)  # [n_points, labels]
        sizes = np.maximum(counts @ member, 1)  # a label of which no point is drawn has no mean
        x, y = (side - ((counts * side) @ member / sizes) @ member.T for side in (x, y))
        products = [(counts * pair).sum(axis=1) for pair in (x * y, x * x, y * y)]
    both, *alone = products
    spread = np.sqrt(alone[0] * alone[1])
    return ratio(both, np.where(spread > 1e-12, spread, 0.0))


def _weighted(counts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Sums over the first axis of pairs float[n, n] or float[n_boot, n, n], by counts:
    float[n_boot, n].
    """
    return counts @ pairs if pairs.ndim == 2 else np.matmul(counts[:, None], pairs)[:, 0]


def kendall_draws(predictors: np.ndarray, targets: np.ndarray, w: np.ndarray) -> np.ndarray:
    """tau-b of each predictor with each target on each resample, counts w float32[n, n_boot]:
    float64[n_boot, p, t].

    Over all pairs i, j of queries, w_i w_j times the product of the signs of the predictor's and of
    the target's difference, over the root of what is not tied on either side. The sums are whole
    numbers, exact in float32. Faster than a loop of scipy's up to some 3,000 queries. NaN where a
    resample has one value alone on a side.
    """
    predictors, targets = dense_ranks(predictors, targets)
    n = predictors.shape[1]
    agree = np.zeros((w.shape[1], len(predictors), len(targets)))
    step = min(256, max(1, BLOCK // n))
    for start in range(0, n, step):
        own, size = w[start : start + step], min(step, n - start)
        # each pair of queries once: the rows of the block with all rows from there on, those behind
        # it counted twice
        twice = np.where(np.arange(n - start) < size, 1, 2).astype(np.float32)
        right = [np.sign(y[start : start + step, None] - y[start:]) * twice for y in targets]
        for p, x in enumerate(predictors):
            left = np.sign(x[start : start + step, None] - x[start:])
            for t, signs in enumerate(right):
                agree[:, p, t] += ((left * signs @ w[start:]) * own).sum(axis=0, dtype=np.float64)
    # how many queries have each value, [values, n_boot]
    of_ties = [
        [np.float64(np.float32(x == np.unique(x)[:, None]) @ w) for x in side]
        for side in (predictors, targets)
    ]
    untied = [
        np.stack([each.sum(axis=0) ** 2 - (each**2).sum(axis=0) for each in side], axis=1)
        for side in of_ties
    ]
    return ratio(agree, np.sqrt(untied[0][:, :, None] * untied[1][:, None, :]))


def kendall_within(
    predictors: np.ndarray, targets: np.ndarray, groups: Sequence, w: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """tau-b within each group of queries, averaged over groups by their number of queries.

    Groups that differ in predictor and target, as clusters of queries do, give a tau over all
    queries even where none of them has one; this mean leaves that out. A group, or a resample of
    it, without a tau is left out of the mean; so is a group of one query. Returns tau float64[p, t]
    and its draws float64[n_boot, p, t] on the resamples w.
    """
    predictors, targets = dense_ranks(predictors, targets)
    places = [np.flatnonzero(np.asarray(groups, object) == name) for name in dict.fromkeys(groups)]
    if not (places := [here for here in places if len(here) > 1]):
        raise InputError(f"groups: no group has two of {len(groups)} queries; use larger groups")
    sizes, parts = (
        [len(here) for here in places],
        [(predictors[:, here], targets[:, here]) for here in places],
    )
    taus = [
        [[stats.kendalltau(one, other).statistic for other in y] for one in x] for x, y in parts
    ]
    draws = [kendall_draws(x.T, y.T, w[here]) for (x, y), here in zip(parts, places, strict=True)]
    known = [np.ma.masked_invalid(np.array(side)) for side in (taus, draws)]
    return tuple(np.ma.average(side, axis=0, weights=sizes).filled(np.nan) for side in known)


def dense_ranks(predictors: np.ndarray, targets: np.ndarray) -> list[np.ndarray]:
    """Columns float[n] or float[n, columns] as rows of dense ranks float32[columns, n]: rank
    statistics see no more.

    >>> dense_ranks([0.5, 0.1, 0.5], [3, 2, 1])
    [array([[2., 1., 2.]], dtype=float32), array([[3., 2., 1.]], dtype=float32)]
    """
    sides = []
    for name, values in (("predictor", predictors), ("target", targets)):
        values = np.column_stack([np.asarray(values, np.float64)])
        if bad := np.flatnonzero(~np.isfinite(values).all(axis=1)).tolist():
            raise InputError(
                f"{name}: NaN or infinite in rows {offenders(bad)}; drop these queries"
            )
        sides.append(stats.rankdata(values, "dense", axis=0).T.astype(np.float32))
    n, m = (side.shape[1] for side in sides)
    if n != m or n < 2:
        raise InputError(
            f"{n} values of the predictor and {m} of the target; give two at least of the same queries"
        )
    return sides


def stretched_z(drawn: np.ndarray, estimate: float, n_groups: int) -> np.ndarray:
    """Draws of a correlation, float[n_boot], as far from the estimate as few groups ask for.

    On Fisher's z, by Student's factor over the normal one and that of a sample's own mean. Of eight
    groups the plain draws miss a true 0 in up to 10 of 100 samples, these in at most 5 (a test has
    the simulation).
    """
    if n_groups < 2:
        return np.full(len(drawn), np.nan)
    factor = (
        stats.t.ppf(0.975, n_groups - 1)
        / stats.norm.ppf(0.975)
        * np.sqrt(n_groups / (n_groups - 1))
    )
    centre = fisher_z(estimate)
    return np.tanh(centre + factor * (fisher_z(drawn) - centre))


def ends_of(drawn: np.ndarray) -> tuple[float, float]:
    """Interval of draws. Those of one point alone have no correlation: they are left out where they
    are 1 % or fewer.

    >>> ends_of(np.append(np.arange(100) / 100, np.nan)), ends_of(np.array([0.4, 0.5, np.nan]))
    ((0.02, 0.97), (nan, nan))
    """
    known = drawn[np.isfinite(drawn)]
    return interval(known if len(known) >= 0.99 * len(drawn) else drawn)


def fisher_z(r: np.ndarray | float) -> np.ndarray:
    """Fisher's z; 1 and -1 count as a shade less."""
    return np.arctanh(np.clip(r, -0.9999, 0.9999))


def correlation_test(
    x: np.ndarray, y: np.ndarray, method: str, within: Sequence | None = None
) -> dict[str, float]:
    """Pearson or Spearman correlation: estimate, low, high, p_value, needed (the smallest
    |estimate| with p < .05).

    `within`, a label a point, see `correlations`; each label but one costs a degree of freedom.
    Intervals as `interval_of_one`; none (NaN) for 1 and -1. p_value by Student's t; Spearman's of
    up to 8 points by all orders; none of two points. InputError: another method.
    """
    if method not in ("Pearson", "Spearman"):
        raise InputError(
            f"correlation_test: no method {method!r}; there are 'Pearson' and 'Spearman'"
        )
    n = len(x) - (0 if within is None else len(set(within)) - 1)
    estimate = round(
        float(correlations(x, y, np.ones((1, len(x))), method, within)[0]), 12
    )  # 1 is 1
    if n < 3:
        return {"estimate": estimate} | dict.fromkeys(
            ("low", "high", "p_value", "needed"), float("nan")
        )
    t = stats.t.ppf(0.975, n - 2)
    needed = t / np.sqrt(n - 2 + t**2)
    strength = np.inf if abs(estimate) == 1 else estimate * np.sqrt((n - 2) / (1 - estimate**2))
    p_value = 2 * stats.t.sf(abs(strength), n - 2)
    if method == "Spearman" and n < 9 and within is None:
        ranks = [stats.rankdata(side) - (n + 1) / 2 for side in (x, y)]
        orders = np.array(list(itertools.permutations(ranks[0])))
        sizes = np.abs(orders @ ranks[1] / np.prod([np.linalg.norm(side) for side in ranks])).round(
            9
        )
        p_value = (sizes >= round(abs(estimate), 9)).mean()
        needed = min(
            (size for size in np.unique(sizes) if (sizes >= size).mean() < 0.05), default=np.nan
        )
    low, high = interval_of_one(estimate, n, method) if abs(estimate) < 1 else (np.nan, np.nan)
    return {
        "estimate": estimate,
        "low": low,
        "high": high,
        "p_value": float(p_value),
        "needed": float(needed),
    }


def interval_of_one(r: float, n: int, method: str) -> tuple[float, float]:
    """95 % interval of a correlation of n independent points by Fisher's z; Bonett and Wright's
    (2000) for Spearman.

    Undefined (NaN) for three points and fewer, whose z has no variance.

    >>> np.round(interval_of_one(0.537, 24, "Spearman"), 2).tolist()
    [0.14, 0.78]
    """
    width = stats.norm.ppf(0.975) * np.sqrt(_variance(r, n, method))
    return float(np.tanh(np.arctanh(r) - width)), float(np.tanh(np.arctanh(r) + width))


def independent(r: float, other: float, n: int, method: str) -> float:
    """Two-sided p-value of two correlations' difference, as if each were of n points of its own;
    NaN for three.
    """
    spread = np.sqrt(_variance(r, n, method) + _variance(other, n, method))
    return float(2 * stats.norm.sf(abs(np.arctanh(r) - np.arctanh(other)) / spread))


def _variance(r: float, n: int, method: str) -> float:
    if n <= 3:
        return float("nan")
    return (1 + (r**2 / 2 if method == "Spearman" else 0)) / (n - 3)


def steiger(matrix: np.ndarray, n: int) -> tuple[float, float]:
    """Z and two-sided p-value of r(1, 2) − r(3, 4), of four variables of the same n points
    (Steiger, Psychological Bulletin 1980, statistic Z̄2*). The points count as independent;
    `matrix`: float[4, 4]. Undefined (NaN) for three points, and where two of the variables
    correlate at 1 or −1.
    """
    r12, r13, r14, r23, r24, r34 = each = matrix[np.triu_indices(4, 1)]
    r = (r12 + r34) / 2
    joint = (r13 - r * r23) * (r24 - r23 * r) + (r14 - r13 * r) * (r23 - r13 * r)
    joint += (r13 - r14 * r) * (r24 - r14 * r) + (r14 - r * r24) * (r23 - r24 * r)
    shared = joint / 2 / (1 - r**2) ** 2 if n > 3 and np.abs(each).max() < 1 else 1.0
    if not shared < 1:
        return float("nan"), float("nan")
    z = (np.arctanh(r12) - np.arctanh(r34)) * np.sqrt((n - 3) / (2 - 2 * shared))
    return float(z), float(2 * stats.norm.sf(abs(z)))
