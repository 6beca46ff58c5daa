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

from interextra.stats.bootstrap import NORMAL, interval, ratio, seed_of
from interextra.store.errors import InputError, offenders

METHODS = ("Spearman", "Kendall", "Pearson")
BLOCK = 2**22  # values of a sign matrix held at once
ALL_ORDERS = 8  # points up to which Spearman's correlation is tested by all their orders


def drawn_groups(groups: Sequence, seed: int, n_boot: int) -> np.ndarray:
    """Return counts float[n_boot, n_points] of resamples of groups, each with all its points.

    As many groups are drawn as there are. Their names are part of the seed: other groups, other
    draws.
    """
    names, codes = np.unique(np.asarray(groups, str), return_inverse=True)
    random = np.random.default_rng(seed_of(seed, names))
    n_groups = len(names)
    chances = np.full(n_groups, 1 / n_groups)
    counts = random.multinomial(n_groups, chances, n_boot)
    return counts[:, codes].astype(float)


def correlations(
    x: np.ndarray,
    y: np.ndarray,
    counts: np.ndarray,
    method: str,
    within: Sequence | None = None,
) -> np.ndarray:
    """Return one correlation a resample.

    Parameters
    ----------
    x, y : float[n_points], or float[n_boot, n_points] where the points themselves vary between
        resamples.
    counts : float[n_boot, n_points].
    method : Spearman (ties have their mean rank), Kendall (tau-b) or Pearson.
    within : a label a point; values, or for Spearman their ranks, then count minus the mean of
        their label, so that what is between labels plays no part. Not with Kendall.

    Returns
    -------
    float[n_boot]
        Undefined (NaN) where all drawn points of a side are equal.

    Examples
    --------
    >>> correlations([1.0, 2, 3], [1.0, 3, 2], np.ones((1, 3)), "Spearman").tolist()
    [0.5]
    """
    x = np.asarray(x, float)
    y = np.asarray(y, float)
    if method == "Kendall":
        x = _signs(x)
        y = _signs(y)
        summed = _sums_over_pairs
    else:
        if method == "Spearman":
            x = _ranks(x, counts)
            y = _ranks(y, counts)
        x = _deviations(x, counts, within)
        y = _deviations(y, counts, within)
        summed = _sums
    of_x = summed(counts, x * x)
    of_y = summed(counts, y * y)
    spread = np.sqrt(of_x * of_y)
    spread[spread <= 1e-12] = 0.0
    return ratio(summed(counts, x * y), spread)


def _signs(values: np.ndarray) -> np.ndarray:
    """Return the sign of each point's value minus each other's, float[..., n, n]."""
    return np.sign(values[..., None] - values[..., None, :])


def _ranks(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the rank of each point among those drawn, float[n_boot, n_points], but for a constant.

    Below a point counts 1, beside it ½.
    """
    is_below = (1 - _signs(values)) / 2  # [..., other, point]
    return _weighted(counts, is_below)


def _deviations(
    values: np.ndarray,
    counts: np.ndarray,
    within: Sequence | None,
) -> np.ndarray:
    """Return the values minus the mean of the points drawn, or of those with the same label."""
    if within is None:
        within = [""] * values.shape[-1]
    labels = np.asarray(within)
    has_label = np.float64(labels[:, None] == np.unique(labels))  # [n_points, labels]
    sizes = np.maximum(counts @ has_label, 1)  # a label of which no point is drawn has no mean
    means = (counts * values) @ has_label / sizes
    return values - means @ has_label.T


def _sums(counts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the sums float[n_boot] over points, by how often each was drawn."""
    return (counts * values).sum(axis=1)


def _sums_over_pairs(counts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the sums float[n_boot] over pairs of points, by how often both were drawn."""
    return _sums(counts, _weighted(counts, values))


def _weighted(counts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Return sums by counts over the first points of pairs float[n, n] or float[n_boot, n, n]."""
    if pairs.ndim == 2:
        return counts @ pairs
    return np.matmul(counts[:, None], pairs)[:, 0]


def kendall_draws(
    predictors: np.ndarray,
    targets: np.ndarray,
    counts: np.ndarray,
) -> np.ndarray:
    """Return tau-b of each predictor with each target on each resample.

    Over all pairs i, j of queries, w_i w_j times the product of the signs of the predictor's and of
    the target's difference, over the root of what is not tied on either side, w the counts. The
    sums are whole numbers, exact in float32. Faster than a loop of scipy's up to some 3,000
    queries.

    Parameters
    ----------
    predictors, targets : float[n] or float[n, columns].
    counts : float32[n, n_boot].

    Returns
    -------
    float64[n_boot, p, t]
        NaN where a resample has one value alone on a side.
    """
    predictors, targets = _dense_ranks(predictors, targets)
    agreeing = _agreeing_pairs(predictors, targets, counts)
    untied_x = _untied_pairs(predictors, counts)[:, :, None]
    untied_y = _untied_pairs(targets, counts)[:, None, :]
    return ratio(agreeing, np.sqrt(untied_x * untied_y))


def _agreeing_pairs(predictors: np.ndarray, targets: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the pairs in the same order minus those in the other, float64[n_boot, p, t].

    Each pair of queries once, in blocks of rows: those of a block with all rows from there on,
    where those behind the block count twice.
    """
    n = predictors.shape[1]
    n_boot = counts.shape[1]
    agreeing = np.zeros((n_boot, len(predictors), len(targets)))
    block = min(256, max(1, BLOCK // n))
    for start in range(0, n, block):
        counts_in_block = counts[start : start + block]
        counts_from_there = counts[start:].copy()
        counts_from_there[block:] *= 2
        target_signs = [_signs_of_block(values, start, block) for values in targets]
        for p, values in enumerate(predictors):
            predictor_signs = _signs_of_block(values, start, block)
            for t, signs in enumerate(target_signs):
                sums = predictor_signs * signs @ counts_from_there * counts_in_block
                agreeing[:, p, t] += sums.sum(axis=0, dtype=np.float64)
    return agreeing


def _signs_of_block(values: np.ndarray, start: int, block: int) -> np.ndarray:
    """Return the signs of the values of a block of queries minus all from its start on."""
    in_block = values[start : start + block]
    return np.sign(in_block[:, None] - values[start:])


def _untied_pairs(columns: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return how many pairs of queries differ in each column, float64[n_boot, columns]."""
    untied = []
    for values in columns:
        has_value = np.float32(values == np.unique(values)[:, None])
        sizes = np.float64(has_value @ counts)  # [values, n_boot]
        all_pairs = sizes.sum(axis=0) ** 2
        tied_pairs = (sizes**2).sum(axis=0)
        untied.append(all_pairs - tied_pairs)
    return np.stack(untied, axis=1)


def kendall_within(
    predictors: np.ndarray,
    targets: np.ndarray,
    groups: Sequence,
    counts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return tau-b within each group of queries, averaged over groups by their number of queries.

    Groups that differ in predictor and target, as clusters of queries do, give a tau over all
    queries even where none of them has one; this mean leaves that out. A group, or a resample of
    it, without a tau is left out of the mean; so is a group of one query.

    Returns
    -------
    tau float64[p, t] and its draws float64[n_boot, p, t] on the resamples.

    Raises
    ------
    InputError
        No group has two queries.
    """
    predictors, targets = _dense_ranks(predictors, targets)
    labels = np.asarray(groups, object)
    sizes, taus, draws = [], [], []
    for name in dict.fromkeys(groups):
        here = np.flatnonzero(labels == name)
        if len(here) < 2:
            continue
        x = predictors[:, here]
        y = targets[:, here]
        sizes.append(len(here))
        taus.append([[stats.kendalltau(one, other).statistic for other in y] for one in x])
        draws.append(kendall_draws(x.T, y.T, counts[here]))
    if not sizes:
        raise InputError(f"groups: no group has two of {len(groups)} queries; use larger groups")
    return _known_mean(taus, sizes), _known_mean(draws, sizes)


def _known_mean(values: Sequence, sizes: Sequence[int]) -> np.ndarray:
    """Return the mean over groups by their sizes of what is known of them; NaN where nothing is."""
    known = np.ma.masked_invalid(np.array(values))
    return np.ma.filled(np.ma.average(known, axis=0, weights=sizes), np.nan)


def _dense_ranks(predictors: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns of both sides as rows of dense ranks, float32: more plays no part in tau.

    InputError: a value is not finite, or both sides are not of the same two queries at least.

    >>> _dense_ranks([0.5, 0.1, 0.5], [3, 2, 1])
    (array([[2., 1., 2.]], dtype=float32), array([[3., 2., 1.]], dtype=float32))
    """
    predictor_ranks = _dense_ranks_of_side("predictor", predictors)
    target_ranks = _dense_ranks_of_side("target", targets)
    n = predictor_ranks.shape[1]
    n_targets = target_ranks.shape[1]
    if n != n_targets or n < 2:
        raise InputError(
            f"{n} values of the predictor and {n_targets} of the target; "
            "give two at least of the same queries"
        )
    return predictor_ranks, target_ranks


def _dense_ranks_of_side(name: str, values: np.ndarray) -> np.ndarray:
    """Return the columns of a side, which has a name for errors, as rows of dense ranks."""
    columns = np.column_stack([np.asarray(values, np.float64)])
    is_finite = np.isfinite(columns).all(axis=1)
    if not is_finite.all():
        rows = offenders(np.flatnonzero(~is_finite).tolist())
        raise InputError(f"{name}: NaN or infinite in rows {rows}; drop these queries")
    ranks = stats.rankdata(columns, "dense", axis=0)
    return ranks.T.astype(np.float32)


def stretched_z(drawn: np.ndarray, estimate: float, n_groups: int) -> np.ndarray:
    """Return the draws of a correlation, moved as far from the estimate as few groups ask for.

    On Fisher's z, by Student's factor over the normal one and that of a sample's own mean. Of eight
    groups the plain draws miss a true 0 in up to 10 of 100 samples, these in at most 5 (a test has
    the simulation). Of a single group they are undefined (NaN).
    """
    if n_groups < 2:
        return np.full(len(drawn), np.nan)
    student = stats.t.ppf(0.975, n_groups - 1)
    widening = np.sqrt(n_groups / (n_groups - 1))
    factor = student / NORMAL * widening
    centre = fisher_z(estimate)
    deviations = fisher_z(drawn) - centre
    return np.tanh(centre + factor * deviations)


def ends_of(drawn: np.ndarray) -> tuple[float, float]:
    """Return the interval of the draws of a correlation.

    Those of one point alone have none: they are left out where they are 1 % or fewer.

    Examples
    --------
    >>> ends_of(np.append(np.arange(100) / 100, np.nan)), ends_of(np.array([0.4, 0.5, np.nan]))
    ((0.02, 0.97), (nan, nan))
    """
    known = drawn[np.isfinite(drawn)]
    if len(known) >= 0.99 * len(drawn):
        return interval(known)
    return interval(drawn)


def fisher_z(r: np.ndarray | float) -> np.ndarray:
    """Return Fisher's z; 1 and -1 count as a shade less."""
    return np.arctanh(np.clip(r, -0.9999, 0.9999))


def correlation_test(
    x: np.ndarray,
    y: np.ndarray,
    method: str,
    within: Sequence | None = None,
) -> dict[str, float]:
    """Return a Pearson or Spearman correlation with its interval and test.

    Parameters
    ----------
    x, y : float[n_points].
    method : Pearson or Spearman.
    within : a label a point, see `correlations`; each label but one costs a degree of freedom.

    Returns
    -------
    estimate, low, high, p_value and needed, the smallest absolute estimate with p < .05.
        Intervals as `interval_of_one`; none (NaN) for 1 and -1. p_value by Student's t; Spearman's
        of up to 8 points by all orders; none of two points.

    Raises
    ------
    InputError
        Another method.
    """
    if method not in ("Pearson", "Spearman"):
        raise InputError(
            f"correlation_test: no method {method!r}; there are 'Pearson' and 'Spearman'"
        )
    n = len(x)
    if within is not None:
        n -= len(set(within)) - 1
    once = np.ones((1, len(x)))
    [plain] = correlations(x, y, once, method, within).tolist()
    estimate = round(plain, 12)  # 1 is 1
    low = high = p_value = needed = float("nan")
    if n >= 3:
        if method == "Spearman" and n <= ALL_ORDERS and within is None:
            p_value, needed = _test_by_all_orders(x, y, estimate)
        else:
            p_value, needed = _student_test(estimate, n)
        if abs(estimate) < 1:
            low, high = interval_of_one(estimate, n, method)
    return {
        "estimate": estimate,
        "low": low,
        "high": high,
        "p_value": p_value,
        "needed": needed,
    }


def _student_test(estimate: float, n: int) -> tuple[float, float]:
    """Return the p-value of a correlation of n points, and the smallest one with p < .05."""
    t = stats.t.ppf(0.975, n - 2)
    needed = t / np.sqrt(n - 2 + t**2)
    if abs(estimate) == 1:
        return 0.0, float(needed)
    unexplained = 1 - estimate**2
    strength = estimate * np.sqrt((n - 2) / unexplained)
    p_value = 2 * stats.t.sf(abs(strength), n - 2)
    return float(p_value), float(needed)


def _test_by_all_orders(
    x: np.ndarray,
    y: np.ndarray,
    estimate: float,
) -> tuple[float, float]:
    """Return Spearman's exact p-value, and the smallest correlation with p < .05 (NaN: none)."""
    centre = (len(x) + 1) / 2
    x_ranks = stats.rankdata(x) - centre
    y_ranks = stats.rankdata(y) - centre
    orders = np.array(list(itertools.permutations(x_ranks)))
    norm = np.linalg.norm(x_ranks) * np.linalg.norm(y_ranks)
    correlations_of_orders = orders @ y_ranks / norm
    sizes = np.abs(correlations_of_orders).round(9)
    size = round(abs(estimate), 9)
    p_value = (sizes >= size).mean()
    significant = [size for size in np.unique(sizes) if (sizes >= size).mean() < 0.05]
    return float(p_value), min(significant, default=np.nan)


def interval_of_one(r: float, n: int, method: str) -> tuple[float, float]:
    """Return the 95 % interval of a correlation of n independent points, by Fisher's z.

    Bonett and Wright's (2000) for Spearman. Undefined (NaN) for three points and fewer, whose z has
    no variance.

    Examples
    --------
    >>> np.round(interval_of_one(0.537, 24, "Spearman"), 2).tolist()
    [0.14, 0.78]
    """
    z = np.arctanh(r)
    error = np.sqrt(_variance(r, n, method))
    reach = NORMAL * error
    low = np.tanh(z - reach)
    high = np.tanh(z + reach)
    return float(low), float(high)


def independent(r: float, other: float, n: int, method: str) -> float:
    """Return the two-sided p-value of two correlations' difference.

    As if each were of n points of its own; NaN for three.
    """
    variance = _variance(r, n, method) + _variance(other, n, method)
    difference = np.arctanh(r) - np.arctanh(other)
    return _two_sided(difference / np.sqrt(variance))


def _two_sided(z: float) -> float:
    """Return the p-value of a standard normal value."""
    return float(2 * stats.norm.sf(abs(z)))


def _variance(r: float, n: int, method: str) -> float:
    """Return the variance of Fisher's z of a correlation of n points."""
    if n <= 3:
        return float("nan")
    if method == "Spearman":
        return (1 + r**2 / 2) / (n - 3)
    return 1 / (n - 3)


def steiger(matrix: np.ndarray, n: int) -> tuple[float, float]:
    """Return Z and the two-sided p-value of r(1, 2) − r(3, 4), two correlations of the same points.

    Of four variables; Steiger (Psychological Bulletin 1980), statistic Z̄2*. The points count as
    independent. Undefined (NaN) for three points, and where two of the variables correlate at 1 or
    −1.

    Parameters
    ----------
    matrix : float[4, 4], correlations.
    n : number of points.
    """
    largest = np.abs(matrix[np.triu_indices(4, 1)]).max()
    if n <= 3 or largest >= 1:
        return float("nan"), float("nan")
    r12 = matrix[0, 1]
    r34 = matrix[2, 3]
    r = (r12 + r34) / 2  # both, if they are equal
    through_third = r * matrix[[1, 0, 0, 1], [2, 2, 3, 3]]  # r23, r13, r14, r24
    of_first = matrix[0, [2, 3, 2, 3]] - through_third  # r13, r14, r13, r14
    of_second = matrix[1, [3, 2, 3, 2]] - through_third  # r24, r23, r24, r23
    products = (of_first * of_second).reshape(2, 2)
    joint = products.sum(axis=1).sum() / 2
    covariance = joint / (1 - r**2) ** 2
    if covariance >= 1:
        return float("nan"), float("nan")
    difference = np.arctanh(r12) - np.arctanh(r34)
    precision = (n - 3) / (2 - 2 * covariance)
    z = float(difference * np.sqrt(precision))
    return z, _two_sided(z)
