"""Tests of paired values, of draws, and of families of p-values."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from interextra.stats.bootstrap import varies
from interextra.stats.pairing import _grouped, _part

TESTED = ["p_value", "p_permutation", "p_equivalent", "cohen_d", "worse", "better", "n_queries"]
LEAST_QUERIES = (
    10  # fewer queries (or units of them) decide nothing: no verdict, no test of equivalence
)


def _paired_t(pair: np.ndarray) -> float:
    """Two-sided p-value of the paired t-test of columns float[n, 2]; 1 where all pairs are equal,
    NaN for one query.
    """
    difference = pair[:, 1] - pair[:, 0]
    if len(difference) < 2:
        return float("nan")
    return (
        1.0
        if np.allclose(difference, 0, atol=1e-12)
        else float(stats.ttest_1samp(difference, 0).pvalue)
    )


def _permuted(difference: np.ndarray, seed: int) -> float:
    """p-value of the permutation test of a mean difference float[n_queries] (sign flips)."""
    flips = {
        "permutation_type": "samples",
        "n_resamples": 9999,
        "batch": max(1, 4_000_000 // len(difference)),
    }
    return float(
        stats.permutation_test((difference,), np.mean, vectorized=True, rng=seed, **flips).pvalue
    )


def tests(
    values: pd.DataFrame,
    by: Sequence[str],
    on: str,
    sides: tuple,
    margin: float = 0.05,
    seed: int = 0,
) -> pd.DataFrame:
    """Is the difference real, how large is it, and is a loss beyond the margin excluded? One row a
    group.

    Returns DataFrame[*by, p_value, p_permutation, p_equivalent, cohen_d, worse, better, n_queries]:
    paired t-test, permutation test (sign flips), two one-sided t-tests against plus and minus
    `margin` times the mean of the first side, mean difference in standard deviations, queries with
    a lower and with a higher value on the second side. Undefined (NaN): all of one query;
    p_equivalent of fewer than LEAST_QUERIES; and where all queries differ by the same,
    p_equivalent, and cohen_d unless they do not differ.
    """
    rows = []
    for key, part in _grouped(values[values[on].isin(sides)], list(by)):
        pair = _part(part, on, sides, key).values.mean(axis=1)  # [n_queries, 2]
        difference, bound = pair[:, 1] - pair[:, 0], margin * pair[:, 0].mean()
        differs = not np.allclose(difference, 0, atol=1e-12)
        spread = difference.std(ddof=1) if len(pair) > 1 else 0.0
        permuted, equivalent = np.nan, np.nan
        cohen_d = np.nan if differs or len(pair) < 2 else 0.0
        if len(pair) > 1:
            permuted = _permuted(difference, seed) if differs else 1.0
        if spread > 1e-12:
            cohen_d = difference.mean() / spread
        if spread > 1e-12 and len(pair) >= LEAST_QUERIES:
            sided = ((-bound, "greater"), (bound, "less"))
            equivalent = max(
                stats.ttest_1samp(difference, at, alternative=side).pvalue for at, side in sided
            )
        counts = (difference < 0).sum(), (difference > 0).sum(), len(pair)
        rows.append((*key, _paired_t(pair), permuted, equivalent, cohen_d, *counts))
    return pd.DataFrame(rows, columns=[*by, *TESTED])


def outside(draws: np.ndarray, margin: float) -> float:
    """p-value of two one-sided tests of an effect within plus and minus `margin`, by its draws
    float[n_boot].

    The larger share of the draws at or beyond an end, which counts one draw more, as a bootstrap
    never shows 0. NaN for draws that are undefined or all alike.
    """
    if not varies(draws):
        return float("nan")
    beyond = max((draws <= -margin).sum(), (draws >= margin).sum())
    return float((beyond + 1) / (len(draws) + 1))


def detectable(low: np.ndarray, high: np.ndarray, error: np.ndarray) -> np.ndarray:
    """The smallest effect told from none with 80 % power, by the ends of an interval and a standard
    error.
    """
    return (high - low) / 2 + stats.norm.ppf(0.8) * error


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Holm's adjusted p-values; NaN is no test of the family. (statsmodels' collects the garbage of
    the process.)
    """
    adjusted = np.asarray(p_values, float).copy()
    order = np.argsort(adjusted)[: np.isfinite(adjusted).sum()]  # NaN is last
    adjusted[order] = np.minimum(
        np.maximum.accumulate(adjusted[order] * np.arange(len(order), 0, -1)), 1
    )
    return adjusted
