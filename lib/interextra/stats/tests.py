"""Tests of paired values and of draws, families of p-values, and what a design can detect."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from interextra.stats.bootstrap import varies
from interextra.stats.pairing import grouped, paired

# Fewer queries (or units of them) decide nothing: no verdict, no test of equivalence
LEAST_QUERIES = 10
N_FLIPS = 9999  # resamples of a permutation test
FLIPS_AT_ONCE = 4_000_000  # values of a block of resamples
TESTED = ["p_value", "p_permutation", "p_equivalent", "cohen_d", "worse", "better", "n_queries"]


def tests(
    values: pd.DataFrame,
    by: Sequence[str],
    on: str,
    sides: tuple,
    margin: float = 0.05,
    seed: int = 0,
) -> pd.DataFrame:
    """Return whether the difference is real, how large it is, and whether a loss is excluded.

    Parameters
    ----------
    values : tidy values.
    by : labels that make a group.
    on, sides : the label that tells the two sides apart, and its two values.
    margin : of a loss, as a share of the mean of the first side.
    seed : of the permutation test.

    Returns
    -------
    DataFrame[*by, p_value, p_permutation, p_equivalent, cohen_d, worse, better, n_queries]
        A row a group: paired t-test, permutation test (sign flips), two one-sided t-tests against
        plus and minus the margin, mean difference in standard deviations, queries with a lower and
        with a higher value on the second side. Undefined (NaN): all of one query; p_equivalent of
        fewer than LEAST_QUERIES; and where all queries differ by the same, p_equivalent, and
        cohen_d unless they do not differ.
    """
    rows = []
    measured = values[values[on].isin(sides)]
    for key, part in grouped(measured, by):
        pairs = paired(part, on, sides, key)
        difference = pairs.difference
        first = pairs.sides[:, 0]
        bound = margin * first.mean()
        tested = (
            paired_t(difference),
            _permutation_test(difference, seed),
            _equivalence_test(difference, bound),
            _cohen_d(difference),
            (difference < 0).sum(),
            (difference > 0).sum(),
            len(difference),
        )
        rows.append((*key, *tested))
    return pd.DataFrame(rows, columns=[*by, *TESTED])


def paired_t(difference: np.ndarray) -> float:
    """Return the two-sided p-value of the paired t-test of differences float[n].

    1 where all are 0, NaN for one query.
    """
    if len(difference) < 2:
        return float("nan")
    if _is_zero(difference):
        return 1.0
    return float(stats.ttest_1samp(difference, 0).pvalue)


def _permutation_test(difference: np.ndarray, seed: int) -> float:
    """Return the p-value of the permutation test of a mean difference (sign flips)."""
    if len(difference) < 2:
        return float("nan")
    if _is_zero(difference):
        return 1.0
    test = stats.permutation_test(
        (difference,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=N_FLIPS,
        batch=max(1, FLIPS_AT_ONCE // len(difference)),
        rng=seed,
    )
    return float(test.pvalue)


def _equivalence_test(difference: np.ndarray, bound: float) -> float:
    """Return the p-value of two one-sided t-tests of a mean difference within ± the bound."""
    if len(difference) < LEAST_QUERIES or not _is_spread(difference):
        return float("nan")
    above = stats.ttest_1samp(difference, -bound, alternative="greater")
    below = stats.ttest_1samp(difference, bound, alternative="less")
    return max(above.pvalue, below.pvalue)


def _cohen_d(difference: np.ndarray) -> float:
    """Return a mean difference in standard deviations."""
    if _is_spread(difference):
        return difference.mean() / difference.std(ddof=1)
    if len(difference) > 1 and _is_zero(difference):
        return 0.0
    return float("nan")


def _is_zero(difference: np.ndarray) -> bool:
    """Return whether no query differs by more than rounding does."""
    return np.allclose(difference, 0, atol=1e-12)


def _is_spread(difference: np.ndarray) -> bool:
    """Return whether queries differ by more or less than others."""
    return len(difference) > 1 and difference.std(ddof=1) > 1e-12


def outside(draws: np.ndarray, margin: float) -> float:
    """Return the p-value of two one-sided tests of an effect within plus and minus a margin.

    By the draws float[n_boot] of the effect: the larger share of them at or beyond an end, which
    counts one draw more, as a bootstrap never shows 0. NaN for draws that are undefined or all
    alike.
    """
    if not varies(draws):
        return float("nan")
    n_below = (draws <= -margin).sum()
    n_above = (draws >= margin).sum()
    n_beyond = max(n_below, n_above)
    share = (n_beyond + 1) / (len(draws) + 1)
    return float(share)


def standard_error(draws: np.ndarray) -> np.ndarray:
    """Return the standard error that draws tell: half of the width of their central 68.3 %.

    That is the standard deviation of normal draws. The deviation of draws with the noise of two
    trainings has no bound, as that of Student's t with one degree of freedom has none.

    Parameters
    ----------
    draws : float[rows, n_boot].

    Returns
    -------
    float[rows]
        0 where the draws differ by rounding alone.
    """
    low, high = np.quantile(draws, stats.norm.cdf([-1, 1]), axis=1)
    return np.where(varies(draws), (high - low) / 2, 0.0)


def detectable(low: np.ndarray, high: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return the smallest effect told from none with 80 % power.

    By the ends of an interval and a standard error.
    """
    half_width = (high - low) / 2
    return half_width + stats.norm.ppf(0.8) * error


def holm(p_values: ArrayLike, n_family: int = 0) -> np.ndarray:
    """Return Holm's adjusted p-values; NaN is no test of the family.

    As statsmodels' `multipletests`, which collects the garbage of the whole process at each call.

    Parameters
    ----------
    p_values
        Of the tests.
    n_family
        How many tests the family has, where some are not done yet: these count as if their
        p-values were the largest. 0: those that are there.

    Examples
    --------
    >>> holm([0.01, 0.04]).tolist(), holm([0.01, 0.04], n_family=3).tolist()
    ([0.02, 0.04], [0.03, 0.08])
    """
    adjusted = np.array(p_values, float)
    n_tests = np.isfinite(adjusted).sum()
    order = np.argsort(adjusted)[:n_tests]  # NaN is last
    n_largest = max(n_family, n_tests)
    factors = n_largest - np.arange(n_tests)
    largest_so_far = np.maximum.accumulate(adjusted[order] * factors)
    adjusted[order] = np.minimum(largest_so_far, 1)
    return adjusted


def wilson(counts: ArrayLike, n: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson's 95 % confidence interval of shares.

    Parameters
    ----------
    counts, n : int[...]
        How many of how many.

    Returns
    -------
    low, high : float64[...]

    Examples
    --------
    >>> low, high = wilson([5], [10])
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.237], [0.763])
    """
    n = np.asarray(n, float)
    share = np.asarray(counts) / n
    z = stats.norm.isf(0.025)
    scale = 1 + z**2 / n
    centre = (share + z**2 / (2 * n)) / scale
    variance = share * (1 - share) / n + z**2 / (4 * n**2)
    half_width = z * np.sqrt(variance) / scale
    return np.clip(centre - half_width, 0, 1), np.clip(centre + half_width, 0, 1)
