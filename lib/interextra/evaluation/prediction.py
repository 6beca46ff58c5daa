"""How well a predictor orders queries by a target such as RR@10 or the loss out of domain.

Kendall's tau-b (1: the same order; 0: none) and sMARE, the mean error of a query's rank as a share of the number of
queries (Faggioli et al., ECIR 2021; 0: the same order, 1/3 expected by chance, 1/2 reversed). Intervals are of the
bootstrap over queries: every predictor and target sees the same resamples, so that differences are paired.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from interextra.ground.errors import InputError, offenders
from interextra.ground.statistics import percentiles, same_queries

BLOCK = 2**22  # values of a sign matrix, or of the ranks of resamples, held at once


def kendall(predictor: np.ndarray, target: np.ndarray) -> float:
    """Kendall's tau-b of two columns float[n], by scipy; NaN where one of them is constant.

    >>> round(kendall([1, 2, 3, 4], [1, 3, 2, 4]), 9)  # 5 pairs in order, 1 not, of 6
    0.666666667
    """
    (x,), (y,) = _ranked(predictor, target)
    return float(stats.kendalltau(x, y).statistic)


def smare(predictor: np.ndarray, target: np.ndarray, sign: int = 1) -> float:
    """Mean of |rank by the predictor - rank by the target| / n; ties share their average rank.

    sign : -1 where a low predictor means a high target.

    >>> smare([1, 2, 3, 4], [1, 3, 2, 4]), smare([4, 3, 2, 1], [1, 2, 3, 4], sign=-1)
    (0.125, 0.0)
    """
    if sign not in (-1, 1):
        raise InputError(f"sign {sign!r}: 1 where a higher predictor means a higher target, else -1")
    (x,), (y,) = _ranked(sign * np.asarray(predictor, float), target)
    return float(np.abs(stats.rankdata(x) - stats.rankdata(y)).mean() / len(x))


def resamples(n: int, seed: int = 0, n_boot: int = 1000) -> np.ndarray:
    """How often each of n queries is in each resample of n queries with replacement: float32[n_boot, n]."""
    rng = np.random.default_rng(seed)
    return np.stack([np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(n_boot)]).astype(np.float32)


def kendall_draws(predictors: np.ndarray, targets: np.ndarray, seed: int = 0, n_boot: int = 1000) -> np.ndarray:
    """tau-b of each predictor with each target on each resample of `resamples`: float64[n_boot, p, t].

    With counts w of a resample tau-b is a ratio of quadratic forms: over all pairs i, j of queries, w_i w_j times the
    product of the signs of the predictor's and of the target's difference, over the root of what is not tied on
    either side. For a pair of columns that is a matrix product of n^2 n_boot / 2 multiply-adds in float32 (its sums are
    whole and exact), in blocks of rows: memory grows with n n_boot and time with n^2 n_boot p t. On one core that is
    far less than a loop of scipy's up to some 3,000 queries, as long for one pair of columns at 6,000, longer beyond.

    Parameters: predictors float[n, p] and targets float[n, t], or single columns float[n]. NaN where a resample has
    one value alone on a side.

    >>> kendall_draws([1, 2, 3, 4], [1, 2, 3, 4], n_boot=2).tolist()
    [[[1.0]], [[1.0]]]
    """
    predictors, targets = _ranked(predictors, targets)
    n, w = predictors.shape[1], np.ascontiguousarray(resamples(predictors.shape[1], seed, n_boot).T)  # [n, n_boot]
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
    both = np.sqrt(untied[0][:, :, None] * untied[1][:, None, :])
    return np.divide(agree, both, out=np.full_like(agree, np.nan), where=both > 0)


def smare_draws(predictors: np.ndarray, targets: np.ndarray, seed: int = 0, n_boot: int = 1000) -> np.ndarray:
    """sMARE of each predictor with each target on the resamples of `kendall_draws`: float64[n_boot, p, t]."""
    predictors, targets = _ranked(predictors, targets)
    n, w = predictors.shape[1], resamples(predictors.shape[1], seed, n_boot)
    draws = np.empty((n_boot, len(predictors), len(targets)))
    step = max(1, BLOCK // n)
    for start in range(0, n_boot, step):
        block = w[start : start + step]
        right = [_weighted_ranks(column, block) for column in targets]
        for p, column in enumerate(predictors):
            left = _weighted_ranks(column, block)
            for t, ranks in enumerate(right):
                errors = np.einsum("bn,bn->b", np.abs(left - ranks), block, dtype=np.float64)
                draws[start : start + step, p, t] = errors / n**2
    return draws


def within_draws(
    predictors: np.ndarray, targets: np.ndarray, groups: Sequence, seed: int = 0, n_boot: int = 1000
) -> tuple[np.ndarray, np.ndarray]:
    """tau-b within each group of queries, averaged over groups by their number of queries.

    Groups that differ in predictor and target, as clusters of queries do, give a tau over all queries even where none
    of them has one; this mean leaves that out. Queries are resampled within their group. A group, or a resample of it,
    without a tau is left out of the mean; so is a group of one query.

    Returns: tau float64[p, t] and its draws float64[n_boot, p, t]. `groups`: a label a query.

    >>> tau, _ = within_draws([1, 2, 11, 12], [2, 1, 12, 11], ["a", "a", "b", "b"], n_boot=5)
    >>> tau.tolist(), round(kendall([1, 2, 11, 12], [2, 1, 12, 11]), 3)
    ([[-1.0]], 0.333)
    """
    predictors, targets = _ranked(predictors, targets)
    codes, labels = pd.factorize(np.asarray(groups, object))
    if len(codes) != predictors.shape[1] or (codes < 0).any():
        raise InputError(f"groups: {(codes >= 0).sum()} labels for {predictors.shape[1]} queries; give each query one")
    taus, draws, weights = [], [], []
    for number in range(len(labels)):
        x, y = predictors[:, codes == number].T, targets[:, codes == number].T
        if len(x) > 1:
            taus.append([[kendall(one, other) for other in y.T] for one in x.T])
            draws.append(kendall_draws(x, y, [seed, number], n_boot))
            weights.append(len(x))
    if not taus:
        raise InputError(f"groups: no group has two of {len(codes)} queries; use larger groups")
    return _weighted_mean(np.array(taus), weights), _weighted_mean(np.array(draws), weights)


def prediction_table(
    predictors: pd.DataFrame, targets: pd.DataFrame, signs: Mapping[str, int] | None = None, seed: int = 0,
    n_boot: int = 1000, level: float = 0.95, groups: pd.Series | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Kendall's tau-b and sMARE of every predictor with every target, with percentile intervals.

    Parameters
    ----------
    predictors, targets : a column each, indexed by the same query_ids in any order. A query with a missing value on
        either side of a pair is dropped for this pair; infinite values are an error.
    signs : -1 for columns where lower is better (ASL) or where a high predictor means a hard query (query length, R
        against the loss); they are negated first, so that a positive tau is a prediction in the expected direction.
    groups : a label a query, e.g. its cluster: adds tau within groups, see `within_draws`.
    seed, n_boot, level : of the bootstrap over queries.

    Returns
    -------
    Table of predictor, target, kendall, kendall_low, kendall_high, smare, smare_low, smare_high, n_queries (used); with
    groups also kendall_within, kendall_within_low, kendall_within_high. NaN where tau is not defined.

    >>> table = prediction_table(pd.DataFrame({"R": [1.0, 2, 3]}), pd.DataFrame({"RR@10": [0.1, 0.2, 0.5]}), n_boot=9)
    >>> table[["predictor", "target", "kendall", "smare", "n_queries"]].values.tolist()
    [['R', 'RR@10', 1.0, 0.0, 3]]
    """
    same_queries(predictors, targets, "prediction table")
    signs = dict(signs or {})
    if unknown := [name for name in signs if name not in predictors and name not in targets]:
        raise InputError(f"signs: {offenders(unknown)} is neither a predictor nor a target")
    if wrong := [name for name, sign in signs.items() if sign not in (-1, 1)]:
        raise InputError(f"signs: {offenders(wrong)} must be 1 or -1")
    if groups is not None:
        same_queries(groups, targets, "groups")
        groups = groups.reindex(targets.index).to_numpy(object)
    x, y = (_signed(side.reindex(targets.index), signs) for side in (predictors, targets))
    rows = {}
    for p_names in _alike(x):  # columns that miss the same queries are drawn at once
        for t_names in _alike(y):
            used = (x[p_names].notna().all(axis=1) & y[t_names].notna().all(axis=1)).to_numpy()
            if used.sum() < 2:
                raise InputError(f"{offenders(p_names)} and {offenders(t_names)}: {used.sum()} queries have both")
            sides = x.loc[used, p_names].to_numpy(), y.loc[used, t_names].to_numpy()
            made = _rows(*sides, None if groups is None else groups[used], seed, n_boot, level)
            for p, first in enumerate(p_names):
                rows |= {(first, second): made[p][t] for t, second in enumerate(t_names)}
    order = [(first, second) for first in predictors for second in targets]
    return pd.DataFrame([{"predictor": pair[0], "target": pair[1], **rows[pair]} for pair in order])


def tau_difference(
    first: np.ndarray, second: np.ndarray, target: np.ndarray, groups: Sequence | None = None, seed: int = 0,
    n_boot: int = 1000, level: float = 0.95,
) -> dict[str, float]:  # fmt: skip
    """tau-b of the second predictor with a target less that of the first, on the same queries and resamples.

    Returns first, second (the taus; within groups where given), difference, low, high.

    >>> row = tau_difference([1, 3, 2, 4], [1, 2, 3, 4], [1, 2, 3, 4])
    >>> round(row["difference"], 3), row["low"]
    (0.333, 0.0)
    """
    if len(first) != len(second):
        raise InputError(f"{len(first)} and {len(second)} values of the two predictors; give the same queries")
    both = np.column_stack([np.asarray(first, float), np.asarray(second, float)])
    if groups is None:
        tau, draws = [kendall(column, target) for column in both.T], kendall_draws(both, target, seed, n_boot)
    else:
        tau, draws = within_draws(both, target, groups, seed, n_boot)
    a, b = np.ravel(tau).tolist()
    low, high = _interval(draws[:, 1, 0] - draws[:, 0, 0], level)
    return {"first": a, "second": b, "difference": b - a, "low": low, "high": high}


def _rows(x: np.ndarray, y: np.ndarray, groups, seed: int, n_boot: int, level: float) -> list[list[dict]]:
    """A row of the table for each column of x [n, p] with each of y [n, t]."""
    taus, errors = kendall_draws(x, y, seed, n_boot), smare_draws(x, y, seed, n_boot)
    within, within_taus = (None, None) if groups is None else within_draws(x, y, groups, seed, n_boot)

    def cells(name: str, value: float, draws: np.ndarray) -> dict:
        low, high = _interval(draws, level)
        return {name: float(value), f"{name}_low": low, f"{name}_high": high}

    def row(p: int, t: int) -> dict:
        pair = x[:, p], y[:, t]
        made = cells("kendall", kendall(*pair), taus[:, p, t]) | cells("smare", smare(*pair), errors[:, p, t])
        made["n_queries"] = len(x)
        return made if groups is None else made | cells("kendall_within", within[p, t], within_taus[:, p, t])

    return [[row(p, t) for t in range(y.shape[1])] for p in range(x.shape[1])]


def _interval(draws: np.ndarray, level: float) -> tuple[float, float]:
    """Percentiles of the draws that are defined."""
    draws = draws[~np.isnan(draws)]
    return percentiles(draws, level) if len(draws) else (np.nan, np.nan)


def _signed(frame: pd.DataFrame, signs: Mapping[str, int]) -> pd.DataFrame:
    return frame.astype(float) * pd.Series({name: signs.get(name, 1) for name in frame})


def _alike(frame: pd.DataFrame) -> list[list[str]]:
    """Names of columns, those with the same missing rows together."""
    kinds = {}
    for name in frame:
        kinds.setdefault(frame[name].isna().to_numpy().tobytes(), []).append(name)
    return list(kinds.values())


def _ranked(predictors, targets) -> list[np.ndarray]:
    """Columns as rows of dense ranks float32[columns, n]: tau and sMARE see no more of them."""
    sides = []
    for name, values in (("predictor", predictors), ("target", targets)):
        values = np.asarray(values, np.float64)
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or 0 in values.shape or not np.isfinite(values).all():
            bad = np.flatnonzero(~np.isfinite(values).all(axis=1)).tolist() if values.ndim == 2 else []
            fault = f"NaN or infinite in rows {offenders(bad)}; drop these queries" if bad else f"shape {values.shape}"
            raise InputError(f"{name}: {fault}; needs [n_queries] or [n_queries, columns]")
        sides.append(np.stack([stats.rankdata(column, "dense") for column in values.T]).astype(np.float32))
    if sides[0].shape[1] != sides[1].shape[1] or sides[0].shape[1] < 2:
        counts = f"{sides[0].shape[1]} values of the predictor and {sides[1].shape[1]} of the target"
        raise InputError(f"{counts}; give the same queries on both sides, two at least")
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
    """Mean over the first axis by weights, of what is not NaN."""
    shares = np.where(np.isnan(values), 0, np.reshape(weights, (-1,) + (1,) * (values.ndim - 1)))
    total, summed = shares.sum(axis=0), (np.nan_to_num(values) * shares).sum(axis=0)
    return np.divide(summed, total, out=np.full(total.shape, np.nan), where=total > 0)
