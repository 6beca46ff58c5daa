"""Intervals and tests over queries.

Paired: two systems measured on the same queries (ReSTrain, ReSTTest). Unpaired: one system on different queries.
Values are arrays over queries, in the same order where paired. Every random procedure takes a seed.
With thousands of queries nearly every difference is significant, and Wilcoxon and sign tests reject too often
(Ihemelandu and Ekstrand, SIGIR 2023): hence means, t, permutation and bootstrap only, and effect sizes beside them.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from interextra.ground.errors import InputError, offenders

BLOCK = 4_000_000  # resampled values held at once
Interval = tuple[float, float]


def bootstrap_mean(values: np.ndarray, *, seed: int = 0, n_boot: int = 10_000, level: float = 0.95) -> Interval:
    """Percentile interval of the mean of `values`[n].

    >>> bootstrap_mean(np.array([0.5, 0.5, 0.5]))
    (0.5, 0.5)
    """
    return percentiles(resampled_means(_columns(values), seed, n_boot)[:, 0], level)


def bootstrap_difference(
    first: np.ndarray,
    second: np.ndarray,
    *,
    paired: bool,
    seed: int = 0,
    n_boot: int = 10_000,
    level: float = 0.95,
) -> Interval:
    """Percentile interval of mean(second) - mean(first); queries are resampled jointly where paired."""
    first_means, second_means = _two_means(first, second, paired, seed, n_boot)
    return percentiles(second_means - first_means, level)


def bootstrap_delta(
    inter: np.ndarray,
    extra: np.ndarray,
    *,
    paired: bool,
    seed: int = 0,
    n_boot: int = 10_000,
    level: float = 0.95,
) -> Interval:
    """Percentile interval of delta = mean(extra) / mean(inter) - 1.

    A resample whose interpolation mean is 0 has no ratio and counts as +infinity.
    """
    inter_means, extra_means = _two_means(inter, extra, paired, seed, n_boot)
    ratio = np.divide(extra_means, inter_means, out=np.full(n_boot, np.inf), where=inter_means != 0)
    return percentiles(ratio - 1, level)


def mean_over_seeds(runs: Sequence[pd.Series]) -> pd.Series:
    """Mean per query over trainings with different seeds, to be resampled over queries; one Series a seed.

    Raises InputError where the seeds were measured on different queries.

    >>> mean_over_seeds([pd.Series({"q1": 0.0, "q2": 1.0}), pd.Series({"q2": 0.0, "q1": 1.0})]).tolist()
    [0.5, 0.5]
    """
    if not len(runs):
        raise InputError("mean over seeds: no seed given")
    for number, values in enumerate(runs):
        same_queries(runs[0], values, f"seed number {number + 1}")
    return sum(values.reindex(runs[0].index) for values in runs) / len(runs)


def same_queries(first: pd.Series, second: pd.Series, what: str) -> None:
    """Raise InputError unless both are indexed by the same queries, each once."""
    for values in (first, second):
        if not values.index.is_unique:
            raise InputError(f"{what}: query_id given twice: {offenders(values.index[values.index.duplicated()])}")
    if len(alone := first.index.symmetric_difference(second.index, sort=False)):
        raise InputError(
            f"{what}: not the same queries on both sides: {offenders(alone)} only on one; measure both alike"
        )


def paired_t_test(first: np.ndarray, second: np.ndarray) -> float:
    """Two-sided p-value of Student's paired t-test; 1 where all differences are 0, NaN for one query."""
    difference = _differences(first, second)
    if len(difference) < 2:
        return math.nan
    return 1.0 if not difference.any() else float(stats.ttest_1samp(difference, 0).pvalue)


def welch_test(first: np.ndarray, second: np.ndarray) -> float:
    """Two-sided p-value of Welch's unpaired t-test; 1 where both sides are the same constant.

    NaN where a side has fewer than two queries.
    """
    first, second = np.asarray(first, float), np.asarray(second, float)
    if min(len(first), len(second)) < 2:
        return math.nan
    if np.ptp(np.concatenate([first, second])) == 0:
        return 1.0
    return float(stats.ttest_ind(first, second, equal_var=False).pvalue)


def sign_flip_test(first: np.ndarray, second: np.ndarray, *, seed: int = 0, n_flips: int = 10_000) -> float:
    """Two-sided p-value of the paired permutation test on the mean: each difference changes sign or not.

    Exact for up to 12 queries; otherwise by `n_flips` random draws, (count + 1) / (n_flips + 1).

    >>> sign_flip_test(np.array([0, 0, 0]), np.array([1, 2, 3]))  # 2 of the 8 sign patterns
    0.25
    """
    difference = _differences(first, second)
    n = len(difference)
    if n <= 12:
        flips = np.array(list(itertools.product([0, 1], repeat=n)), float)
        return _share_as_extreme(difference.sum() - 2 * flips @ difference, difference, exact=True)
    rng = np.random.default_rng(seed)

    def block(size: int) -> np.ndarray:
        bits = np.unpackbits(rng.integers(256, size=(size, -(-n // 8)), dtype=np.uint8), axis=1, count=n)
        return difference.sum() - 2 * (bits @ difference)

    return _share_as_extreme(_in_blocks(block, n_flips, n), difference, exact=False)


def permutation_test(first: np.ndarray, second: np.ndarray, *, seed: int = 0, n_permutations: int = 10_000) -> float:
    """Two-sided p-value of the unpaired permutation test on the difference of means.

    Exact where there are no more divisions of the pooled queries than `n_permutations`. It tests equal distributions:
    where sizes and variances differ, prefer `welch_test`.
    """
    first, second = np.asarray(first, float), np.asarray(second, float)
    pooled, n = np.concatenate([first, second]), len(first)
    pooled = pooled - pooled.mean()  # the sum of the first group then says everything
    observed = pooled[:n]
    if math.comb(len(pooled), n) <= n_permutations:
        chosen = np.array(list(itertools.combinations(range(len(pooled)), n)))
        return _share_as_extreme(pooled[chosen].sum(axis=1), observed, exact=True)
    rng = np.random.default_rng(seed)
    smaller = min(n, len(second))  # both groups' sums are the same up to the sign

    def block(size: int) -> np.ndarray:
        draws = rng.random((size, len(pooled)), np.float32)
        return pooled[np.argpartition(draws, smaller - 1, axis=1)[:, :smaller]].sum(axis=1)

    return _share_as_extreme(_in_blocks(block, n_permutations, len(pooled)), observed, exact=False)


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Holm's adjusted p-values (family-wise error), in the order given; from statsmodels."""
    return _adjusted(p_values, "holm")


def benjamini_hochberg(p_values: Sequence[float]) -> np.ndarray:
    """Benjamini and Hochberg's adjusted p-values (false discovery rate), in the order given; from statsmodels."""
    return _adjusted(p_values, "fdr_bh")


def cohens_d(first: np.ndarray, second: np.ndarray, *, paired: bool) -> float:
    """Standardised mean of second - first: by the deviation of the differences where paired, else by the pooled one."""
    if paired:
        difference = _differences(first, second)
        mean, deviation = difference.mean(), difference.std(ddof=1)
    else:
        first, second = np.asarray(first, float), np.asarray(second, float)
        squares = (len(first) - 1) * first.var(ddof=1) + (len(second) - 1) * second.var(ddof=1)
        mean, deviation = second.mean() - first.mean(), math.sqrt(squares / (len(first) + len(second) - 2))
    if deviation == 0:
        return 0.0 if mean == 0 else math.copysign(math.inf, mean)
    return float(mean / deviation)


def tost(first: np.ndarray, second: np.ndarray, margin: float, *, paired: bool) -> float:
    """p-value of equivalence by two one-sided t-tests: small where |mean(second) - mean(first)| < `margin` is shown."""
    if margin <= 0:
        raise InputError(f"tost: the margin must be above 0, not {margin}; give it in the measure's unit")
    if paired:
        difference = _differences(first, second)
        tests = [stats.ttest_1samp(difference, bound, alternative=side).pvalue for bound, side in _sides(margin)]
    else:
        first, second = np.asarray(first, float), np.asarray(second, float)
        tests = [
            stats.ttest_ind(second - bound, first, equal_var=False, alternative=side).pvalue
            for bound, side in _sides(margin)
        ]
    return float(max(tests))


def _sides(margin: float) -> list[tuple[float, str]]:
    return [(-margin, "greater"), (margin, "less")]


def _columns(*values: np.ndarray) -> np.ndarray:
    columns = np.column_stack([np.asarray(column, float) for column in values])
    if not len(columns):
        raise InputError("statistics: no queries given")
    return columns


def _differences(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    first, second = np.asarray(first, float), np.asarray(second, float)
    if len(first) != len(second) or not len(first):
        raise InputError(
            f"paired test: {len(first)} and {len(second)} queries; give the same queries, in the same order"
        )
    return second - first


def _two_means(first, second, paired: bool, seed: int, n_boot: int) -> np.ndarray:
    """Means of the resamples, float[2, n_boot]."""
    if paired:
        _differences(first, second)
        return resampled_means(_columns(first, second), seed, n_boot).T
    seeds = np.random.SeedSequence(seed).spawn(2)
    sides = zip((first, second), seeds, strict=True)
    return np.stack([resampled_means(_columns(side), own_seed, n_boot)[:, 0] for side, own_seed in sides])


def resampled_means(values: np.ndarray, seed, n_boot: int) -> np.ndarray:
    """Means of rows drawn with replacement: float[n_boot, n_columns] of float[n, n_columns].

    A row is a query: all columns are resampled jointly.
    """
    rng = np.random.default_rng(seed)

    def block(size: int) -> np.ndarray:
        drawn = rng.integers(len(values), size=(size, len(values)), dtype=np.int32)
        return np.stack([column[drawn].mean(axis=1) for column in values.T], axis=1)

    return _in_blocks(block, n_boot, len(values))


def _in_blocks(block: Callable[[int], np.ndarray], n_draws: int, n_values: int) -> np.ndarray:
    """Rows of `block(size)` until there are `n_draws`, never more than BLOCK values at once."""
    size = max(1, min(n_draws, BLOCK // n_values))
    return np.concatenate([block(min(size, n_draws - start)) for start in range(0, n_draws, size)])


def percentiles(values: np.ndarray, level: float = 0.95) -> Interval:
    """The interval that holds the middle `level` of resampled `values`."""
    if not 0 < level < 1:
        raise InputError(f"confidence level {level}: it must lie between 0 and 1, e.g. 0.95")
    # outward to a value that was drawn: no interpolation between a number and infinity
    low = np.quantile(values, (1 - level) / 2, method="lower")
    return float(low), float(np.quantile(values, (1 + level) / 2, method="higher"))


def _share_as_extreme(sums: np.ndarray, observed: np.ndarray, exact: bool) -> float:
    """Share of the sums as far from 0 as the observed one; rounding must not turn a tie into a smaller one."""
    tolerance = 1e-12 * max(np.abs(observed).sum(), 1e-300)
    extreme = int((np.abs(sums) >= abs(observed.sum()) - tolerance).sum())
    return extreme / len(sums) if exact else (extreme + 1) / (len(sums) + 1)


def _adjusted(p_values: Sequence[float], method: str) -> np.ndarray:
    from statsmodels.stats.multitest import multipletests

    adjusted = np.asarray(p_values, float).copy()
    if (known := ~np.isnan(adjusted)).any():  # a test that could not be made is not one of the family
        adjusted[known] = multipletests(adjusted[known], method=method)[1]
    return adjusted
