"""The loss at each distance from training: queries sorted into intervals of an indicator (Lupart Figures 5 and 6)."""

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from interextra.ground.errors import InputError, offenders
from interextra.ground.statistics import bootstrap_delta, bootstrap_mean

BINNINGS = ("width", "quantile")
AVERAGINGS = ("ratio of means", "mean of ratios")


def bins(values: np.ndarray, n: int = 5, how: str = "width") -> tuple[np.ndarray, np.ndarray]:
    """Intervals of an indicator; the paper does not say how its own were cut.

    Parameters
    ----------
    how : "width": n intervals of equal width, some perhaps empty. "quantile": as many values in each as ties allow,
        none empty: equal values stay together, and where that leaves an interval without values it is left out.

    Returns
    -------
    edges float64[m + 1], which int64[n_values] from 0. An interval holds its low edge and not its high one; the last
    holds both. m = n, but for fewer under "quantile" with ties, and 1 where all values are equal.

    Raises InputError for no values, NaN or infinity, n below 1.

    >>> bins([0, 1, 2, 10], 2)[1].tolist(), bins([0, 1, 2, 10], 2, "quantile")[1].tolist()
    ([0, 0, 0, 1], [0, 0, 1, 1])
    >>> bins([3, 3, 3, 3, 7], 4, "quantile")
    (array([3., 7., 7.]), array([0, 0, 0, 0, 1]))
    """
    (values,) = _columns(values=values)
    if n < 1 or how not in BINNINGS:
        raise InputError(f"bins: n={n}, how={how!r}; needs n of at least 1 and how of {', '.join(BINNINGS)}")
    low, high = values.min(), values.max()
    if low == high:
        edges = np.array([low, high])
    elif how == "width":
        edges = np.linspace(low, high, n + 1)
    else:  # by mean rank, which ties share
        slot = ((rankdata(values) - 0.5) * n / len(values)).astype(np.int64)
        edges = np.array([*(values[slot == used].min() for used in np.unique(slot)), high])
    return edges, np.searchsorted(edges[1:-1], values, side="right")


def per_query_loss(avg_in: np.ndarray, out: np.ndarray) -> np.ndarray:
    """(AvgIn - Out) / AvgIn of each query, float64[n]; NaN where AvgIn is 0, which RR@10 is for many queries.

    Where lower is better (ASL) a loss is negative, as in the right part of Figure 6.

    >>> per_query_loss([0.5, 0.0, 1.0], [0.25, 0.0, 1.0]).tolist()
    [0.5, nan, 0.0]
    """
    avg_in, out = _columns(avg_in=avg_in, out=out)
    return np.divide(avg_in - out, avg_in, out=np.full(len(avg_in), np.nan), where=avg_in != 0)


def loss_by(
    indicator: np.ndarray, avg_in: np.ndarray, out: np.ndarray, n_bins: int = 5, binning: str = "width",
    averaging: str = "ratio of means", seed: int = 0, n_boot: int = 1000, level: float = 0.95,
) -> pd.DataFrame:  # fmt: skip
    """Relative loss out of domain in each interval of an indicator (Lupart Figures 5 and 6).

    Parameters
    ----------
    indicator, avg_in, out : float[n], a value a query: e.g. R; the measure's mean over the models that were trained on
        the query's cluster; the measure under the model that was not.
    n_bins, binning : see `bins`.
    averaging : "ratio of means": (mean AvgIn - mean Out) / mean AvgIn of the interval's queries. "mean of ratios": mean
        of `per_query_loss` where AvgIn is above 0; the others are dropped and counted. The paper does not say which.
    seed, n_boot, level : of the percentile bootstrap over the queries of an interval, without the dropped; a resample
        whose mean AvgIn is 0 has no ratio and counts as -infinity.

    Returns
    -------
    Table of bin (from 0), low_edge, high_edge, n_queries (with the dropped), n_dropped, rel_loss, low, high; NaN for a
    loss that is not defined (no query left, or a mean AvgIn of 0).

    >>> table = loss_by([0, 1, 8, 9], [0.5, 0.0, 0.4, 0.8], [0.1, 0.2, 0.4, 0.8], n_bins=2)
    >>> table.rel_loss.round(9).tolist(), table.n_queries.tolist()
    ([0.4, 0.0], [2, 2])
    """
    indicator, avg_in, out = _columns(indicator=indicator, avg_in=avg_in, out=out)
    if averaging not in AVERAGINGS:
        raise InputError(f"unknown averaging {averaging!r}: one of {', '.join(AVERAGINGS)}")
    if (avg_in < 0).any():
        raise InputError(f"loss: negative AvgIn {offenders(avg_in[avg_in < 0].tolist())}; a measure is at least 0")
    edges, which = bins(indicator, n_bins, binning)
    rows = []
    for number in range(len(edges) - 1):
        inside = which == number
        kept = inside & (avg_in > 0) if averaging == "mean of ratios" else inside
        draws = {"seed": [seed, number], "n_boot": n_boot, "level": level}
        loss = _loss(avg_in[kept], out[kept], averaging, draws)
        count = int(inside.sum())
        rows.append((number, edges[number], edges[number + 1], count, count - int(kept.sum()), *loss))
    names = ["bin", "low_edge", "high_edge", "n_queries", "n_dropped", "rel_loss", "low", "high"]
    return pd.DataFrame(rows, columns=names)


def _loss(avg_in: np.ndarray, out: np.ndarray, averaging: str, draws: dict) -> tuple[float, float, float]:
    """Relative loss and its interval."""
    if not avg_in.any():
        return (np.nan,) * 3
    if averaging == "mean of ratios":
        losses = per_query_loss(avg_in, out)
        return (float(losses.mean()), *bootstrap_mean(losses, **draws))
    low, high = bootstrap_delta(avg_in, out, paired=True, **draws)  # delta = -loss
    return float(1 - out.mean() / avg_in.mean()), 0 - high, 0 - low


def _columns(**columns) -> list[np.ndarray]:
    """The columns as float64[n], all of one length, without NaN."""
    arrays = {name: np.asarray(values, np.float64) for name, values in columns.items()}
    lengths = {name: values.shape for name, values in arrays.items()}
    if len(set(lengths.values())) > 1 or any(len(shape) != 1 or not shape[0] for shape in lengths.values()):
        raise InputError(f"needs as many values in each of {lengths}, at least one; give a value a query")
    for name, values in arrays.items():
        if not np.isfinite(values).all():
            bad = np.flatnonzero(~np.isfinite(values)).tolist()
            raise InputError(f"{name}: NaN or infinite at {offenders(bad)}; drop these queries on all sides")
    return list(arrays.values())
