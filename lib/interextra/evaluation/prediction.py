"""How well a predictor orders queries by a target such as RR@10 or the loss out of domain.

Kendall's tau-b (1: the same order; 0: none) and sMARE, the mean error of a query's rank as a share of the number of
queries (Faggioli et al., ECIR 2021; 0: the same order, 1/3 expected by chance, 1/2 reversed). Intervals are of the
bootstrap over queries, or their units: every predictor, target and system sees the same resamples, so that differences
are paired. The noise of training is not in them. Taught in notebooks/07_indicators.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from interextra.ground.effects import interval, ratio, resamples
from interextra.ground.errors import InputError, offenders

BLOCK = 2**22  # values of a sign matrix held at once


def kendall(predictor: np.ndarray, target: np.ndarray) -> float:
    """Kendall's tau-b of two columns float[n], by scipy; NaN where one of them is constant.

    >>> round(kendall([1, 2, 3, 4], [1, 3, 2, 4]), 9)  # 5 pairs in order, 1 not, of 6
    0.666666667
    """
    (x,), (y,) = _ranked(predictor, target)
    return float(stats.kendalltau(x, y).statistic)


def smare(predictor: np.ndarray, target: np.ndarray) -> float:
    """Mean of |rank by the predictor - rank by the target| / n; ties share their average rank.

    >>> smare([1, 2, 3, 4], [1, 3, 2, 4]), smare([4, 3, 2, 1], [1, 2, 3, 4])
    (0.125, 0.5)
    """
    (x,), (y,) = _ranked(predictor, target)
    return float(np.abs(stats.rankdata(x) - stats.rankdata(y)).mean() / len(x))


def counts(units: Sequence, seed: int, n_boot: int) -> np.ndarray:
    """How often each query is in each resample, float32[n, n_boot]; as many units are drawn as there are.

    `units`: a label a query; those of one unit are drawn together, see `ground.effects`.

    >>> counts(["a", "a", "b"], seed=0, n_boot=4).T.tolist()
    [[0.0, 0.0, 2.0], [1.0, 1.0, 1.0], [2.0, 2.0, 0.0], [2.0, 2.0, 0.0]]
    """
    codes, names = pd.factorize(np.asarray(units, object))
    return np.ascontiguousarray(np.concatenate(list(resamples(len(names), seed, n_boot)))[:, codes].T)


def kendall_draws(predictors: np.ndarray, targets: np.ndarray, w: np.ndarray) -> np.ndarray:
    """tau-b of each predictor with each target on each resample of `counts`, w float32[n, n_boot]: [n_boot, p, t].

    With counts w of a resample tau-b is a ratio of quadratic forms: over all pairs i, j of queries, w_i w_j times the
    product of the signs of the predictor's and of the target's difference, over the root of what is not tied on
    either side. For a pair of columns that is a matrix product of n^2 n_boot / 2 multiply-adds in float32 (its sums are
    whole and exact), in blocks of rows. On one core that is far less than a loop of scipy's up to some 3,000 queries,
    as long at 6,000, longer beyond. NaN where a resample has one value alone on a side.

    >>> kendall_draws([1, 2, 3, 4], [1, 2, 3, 4], np.array([[1.0, 2], [1, 0], [1, 2], [1, 0]])).tolist()
    [[[1.0]], [[1.0]]]
    """
    predictors, targets = _ranked(predictors, targets)
    n = predictors.shape[1]
    agree = np.zeros((w.shape[1], len(predictors), len(targets)))
    step = min(256, max(1, BLOCK // n))
    for start in range(0, n, step):
        own, size = w[start : start + step], min(step, n - start)
        # each pair of queries once: the rows of the block with all rows from there on, those behind it counted twice
        twice = np.where(np.arange(n - start) < size, 1, 2).astype(np.float32)
        right = [np.sign(y[start : start + step, None] - y[start:]) * twice for y in targets]
        for p, x in enumerate(predictors):
            left = np.sign(x[start : start + step, None] - x[start:])
            for t, signs in enumerate(right):
                agree[:, p, t] += ((left * signs @ w[start:]) * own).sum(axis=0, dtype=np.float64)
    untied = [np.stack([_untied(column, w) for column in side], axis=1) for side in (predictors, targets)]
    return ratio(agree, np.sqrt(untied[0][:, :, None] * untied[1][:, None, :]))


def smare_draws(predictors: np.ndarray, targets: np.ndarray, w: np.ndarray) -> np.ndarray:
    """sMARE of each predictor with each target on the resamples of `kendall_draws`: float64[n_boot, p, t]."""
    predictors, targets = _ranked(predictors, targets)
    n, draws = predictors.shape[1], []
    for start in range(0, w.shape[1], step := max(1, BLOCK // n)):
        some = w[:, start : start + step].T
        left, right = ([_weighted_ranks(column, some) for column in side] for side in (predictors, targets))
        errors = [[(np.abs(x - y) * some).sum(axis=1, dtype=np.float64) for y in right] for x in left]
        draws.append(np.moveaxis(np.array(errors), 2, 0))
    return ratio(np.concatenate(draws), w.sum(axis=0, dtype=np.float64)[:, None, None] ** 2)


def within_draws(
    predictors: np.ndarray, targets: np.ndarray, groups: Sequence, w: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """tau-b within each group of queries, averaged over groups by their number of queries.

    Groups that differ in predictor and target, as clusters of queries do, give a tau over all queries even where none
    of them has one; this mean leaves that out. A group, or a resample of it, without a tau is left out of the mean; so
    is a group of one query. Returns tau float64[p, t] and its draws float64[n_boot, p, t] on the resamples w.

    >>> tau, _ = within_draws([1, 2, 11, 12], [2, 1, 12, 11], ["a", "a", "b", "b"], np.ones((4, 5), np.float32))
    >>> tau.tolist(), round(kendall([1, 2, 11, 12], [2, 1, 12, 11]), 3)
    ([[-1.0]], 0.333)
    """
    predictors, targets = _ranked(predictors, targets)
    codes, labels = pd.factorize(np.asarray(groups, object))
    taus, draws, sizes = [], [], []
    for number in range(len(labels)):
        here = codes == number
        x, y = predictors[:, here], targets[:, here]
        if x.shape[1] > 1:
            taus.append([[kendall(one, other) for other in y] for one in x])
            draws.append(kendall_draws(x.T, y.T, w[here]))
            sizes.append(x.shape[1])
    if not taus:
        raise InputError(f"groups: no group has two of {len(codes)} queries; use larger groups")
    return _weighted_mean(np.array(taus), sizes), _weighted_mean(np.array(draws), sizes)


def prediction_table(
    predictors: pd.DataFrame,
    targets: pd.DataFrame,
    signs: Mapping[str, int],
    groups: pd.Series,
    w: np.ndarray,
) -> tuple[pd.DataFrame, np.ndarray]:
    """Kendall's tau-b and sMARE of every predictor with every target, with percentile intervals.

    Parameters
    ----------
    predictors, targets : a column each, indexed by the same query_ids in one order. A query that has no value of a
        predictor is dropped for this predictor; targets have one for all.
    signs : -1 for columns where lower is better (ASL) or where a high predictor means a hard query (query length, R
        against the loss); they are negated first, so that a positive tau is a prediction in the expected direction.
    groups : a label a query, e.g. its cluster, for tau within groups, see `within_draws`.
    w : float32[n, n_boot], see `counts`.

    Returns a table of predictor, target, n_queries (used) and kendall, within (tau within groups), smare, each with
    _low and _high, and the draws of `within` float64[rows, n_boot]. NaN where tau is not defined.

    >>> R, wanted = pd.DataFrame({"R": [1.0, 2, 3]}), pd.DataFrame({"RR@10": [0.1, 0.2, 0.5]})
    >>> table, _ = prediction_table(R, wanted, {}, pd.Series(["a", "a", "a"]), np.ones((3, 9), np.float32))
    >>> table[["predictor", "target", "kendall", "smare", "n_queries"]].values.tolist()
    [['R', 'RR@10', 1.0, 0.0, 3]]
    """
    if not (predictors.index.equals(targets.index) and groups.index.equals(targets.index)):
        raise InputError("prediction: predictors, targets and groups need the same queries in the same order")
    signed = [side.astype(float) * [signs.get(name, 1) for name in side] for side in (predictors, targets)]
    rows, drawn = {}, {}
    lacking = signed[0].isna().T.apply(tuple, axis=1)
    for missing, names in lacking.groupby(lacking).groups.items():  # columns that miss the same queries at once
        used = ~np.array(missing)
        x, y = signed[0].loc[used, names].to_numpy(), signed[1][used].to_numpy()
        found = {
            "kendall": ([[kendall(a, b) for b in y.T] for a in x.T], kendall_draws(x, y, w[used])),
            "within": within_draws(x, y, groups[used], w[used]),
            "smare": ([[smare(a, b) for b in y.T] for a in x.T], smare_draws(x, y, w[used])),
        }
        for p, predictor in enumerate(names):
            for t, target in enumerate(targets):
                row = {"predictor": predictor, "target": target, "n_queries": len(x)}
                for name, (value, draws) in found.items():
                    low, high = interval(draws[:, p, t])
                    row |= {name: float(value[p][t]), f"{name}_low": low, f"{name}_high": high}
                rows[predictor, target], drawn[predictor, target] = row, found["within"][1][:, p, t]
    ordered = [(predictor, target) for predictor in predictors for target in targets]
    return pd.DataFrame([rows[pair] for pair in ordered]), np.stack([drawn[pair] for pair in ordered])


def _ranked(predictors, targets) -> list[np.ndarray]:
    """Columns as rows of dense ranks float32[columns, n]: tau and sMARE see no more of them."""
    sides = []
    for name, values in (("predictor", predictors), ("target", targets)):
        values = np.asarray(values, np.float64)
        values = values[:, None] if values.ndim == 1 else values
        if not np.isfinite(values).all():
            bad = np.flatnonzero(~np.isfinite(values).all(axis=1)).tolist()
            raise InputError(f"{name}: NaN or infinite in rows {offenders(bad)}; drop these queries")
        sides.append(stats.rankdata(values, "dense", axis=0).T.astype(np.float32))
    n, m = (side.shape[1] for side in sides)
    if n != m or n < 2:
        raise InputError(f"{n} values of the predictor and {m} of the target; give two at least of the same queries")
    return sides


def _grouped(column: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per resample the number of queries with each value, float64[n_boot, n_values], and each query's value number."""
    order, numbers = np.argsort(column, kind="stable"), column.astype(np.int64) - 1  # dense ranks count from 1
    starts = np.searchsorted(column[order], np.arange(1, numbers.max() + 2))
    return np.add.reduceat(w[:, order], starts, axis=1, dtype=np.float64), numbers


def _untied(column: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Ordered pairs of queries with different values in each resample, float64[n_boot]; w float32[n, n_boot]."""
    sizes, _ = _grouped(column, w.T)
    return sizes.sum(axis=1) ** 2 - (sizes**2).sum(axis=1)


def _weighted_ranks(column: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Average rank of each query in each resample, float64[n_boot, n]; w float32[n_boot, n]."""
    sizes, numbers = _grouped(column, w)
    return (np.cumsum(sizes, axis=1) - (sizes - 1) / 2)[:, numbers]


def _weighted_mean(values: np.ndarray, weights: Sequence[int]) -> np.ndarray:
    """Mean over the first axis by weights, of what is not NaN; NaN where nothing is."""
    shares = np.where(np.isnan(values), 0, np.reshape(weights, (-1,) + (1,) * (values.ndim - 1)))
    return ratio((np.nan_to_num(values) * shares).sum(axis=0), shares.sum(axis=0))
