"""How well a predictor orders queries by a target such as RR@10 or the loss out of domain.

Kendall's tau-b: 1 is the same order, 0 none. Intervals are of the bootstrap over queries, or their units: every
predictor, target and system sees the same resamples, without the noise of training. Taught in notebooks/07_indicators.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from interextra.evaluation.measures import worse
from interextra.ground.correlation import kendall_draws, kendall_within
from interextra.ground.effects import Effects, interval, resamples, simultaneous


def resampled(values: pd.DataFrame, seed: int, n_boot: int) -> pd.DataFrame:
    """How often each query is in each resample, float32; index query_id, a column a resample.

    `values`: query_id and unit. Units are drawn, each with all its queries.

    >>> values = pd.DataFrame({"query_id": list("pqr"), "unit": list("aab")})
    >>> resampled(values, seed=0, n_boot=4).T.to_numpy().tolist()
    [[0.0, 0.0, 2.0], [1.0, 1.0, 1.0], [2.0, 2.0, 0.0], [2.0, 2.0, 0.0]]
    """
    units = values.drop_duplicates("query_id").set_index("query_id")["unit"]
    codes, names = pd.factorize(units.to_numpy(object))
    drawn = np.concatenate(list(resamples(len(names), seed, n_boot)))[:, codes]
    return pd.DataFrame(np.ascontiguousarray(drawn.T), units.index)


def prediction_table(
    predictors: pd.DataFrame, targets: pd.DataFrame, groups: pd.Series, w: np.ndarray, **labels: str
) -> Effects:
    """Kendall's tau-b of every predictor with every target, with percentile intervals.

    predictors, targets : a column each, indexed by the same query_ids in one order. A query that has no value of a
        predictor is dropped for this predictor; targets have one for all.
    groups : a label a query, e.g. its cluster, for tau within groups, see `kendall_within`.
    labels : of all rows.

    Returns labels, target, name (of the predictor), kendall and within (tau within groups), each with _low and _high,
    n_queries (used), and the draws of `within`. NaN where tau is not defined.
    """
    rows, drawn = [], []
    for predictor, values in predictors.items():
        used = values.notna()
        x, y, weights = values[used].to_numpy(float), targets[used].to_numpy(float), w[used]
        over_all, (within, of_within) = kendall_draws(x, y, weights), kendall_within(x, y, groups[used], weights)
        for t, target in enumerate(targets):
            tau, row = stats.kendalltau(x, y[:, t]).statistic, labels | {"target": target, "name": predictor}
            drawn.append(of_within[:, 0, t])
            for name, value, draws in (("kendall", tau, over_all[:, 0, t]), ("within", within[0, t], drawn[-1])):
                low, high = interval(draws)
                row |= {name: float(value), f"{name}_low": low, f"{name}_high": high}
            rows.append(row | {"n_queries": len(x)})
    return Effects.of(pd.DataFrame(rows), [*labels, "target", "name"], ["within"], drawn)


def predict(wide: pd.DataFrame, predictors: pd.DataFrame, w: pd.DataFrame) -> Effects:
    """`prediction_table` of each shift and model, which are its labels.

    `wide`: shift, model, measure, stratum, query_id, in, out; `predictors`: of `predictors.predictor_table`; `w`: of
    `resampled`. Targets: Out of every measure, and `loss`, Avg In - Out of the first. Expected: near, specific or
    confidently answered queries do well and lose little; long ones do badly. Loss, length and measures of which lower
    is better are turned round first: a positive tau is a prediction in the expected direction. A predictor that is
    known for fewer than half of the queries is left out. Groups are clusters: over all queries scores of different
    models are mixed.
    """
    parts = []
    for (shift, model), part in wide.groupby(["shift", "model"], sort=False):
        of = {measure: some.set_index("query_id") for measure, some in part.groupby("measure", sort=False)}
        first = next(iter(of))
        wanted = pd.DataFrame({f"out {name}": worse(name) * some["out"] for name, some in of.items()})
        wanted["loss"] = worse(first) * (of[first]["out"] - of[first]["in"])
        mine = predictors[(predictors["shift"] == shift) & (predictors["model"] == model)].set_index("query_id")
        known = mine.loc[wanted.index].drop(columns=["shift", "model"])
        known = known.dropna(axis=1, thresh=len(wanted) // 2 + 1)
        turned = known * np.where(known.columns == "collection: length", -1, 1)
        weights = w.loc[wanted.index].to_numpy()
        parts.append(prediction_table(turned, wanted, of[first]["stratum"], weights, shift=shift, model=model))
    return pd.concat(parts, ignore_index=True)


def ranking(predicted: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Predictors by their mean tau over shifts (and systems), and whether the best is shown to be the best.

    `predicted`: rows of `predict`, with their draws; `by`: what tells the rankings apart, target or target and model.
    Returns these, name, within, low, high (simultaneous over the predictors of a ranking), n (means are over so
    many shifts and systems), better_than (how many others this one is shown to exceed, by simultaneous intervals of the
    differences of all pairs). A predictor that some shifts or systems have not is not compared.
    Where no predictor orders anything, all stand there, undefined.
    """
    parts = []
    for key, part in predicted.groupby(list(by), sort=False):
        n = part.groupby("name", sort=False)["within"].count()
        if not n.any() and predicted["within"].notna().any():  # too few queries, or all of one value
            continue
        table = part[part["name"].isin(n.index[n == n.max()])].groupby("name", sort=False)[["within"]].mean()
        drawn = np.stack([part[part["name"] == name].drawn().mean(axis=0) for name in table.index])
        table["low"], table["high"] = simultaneous(table["within"], drawn)
        first, second = np.nonzero(~np.eye(len(table), dtype=bool))
        gaps = table["within"].to_numpy()[first] - table["within"].to_numpy()[second]
        above = simultaneous(gaps, drawn[first] - drawn[second])[0] > 0
        table = table.assign(**dict(zip(by, key, strict=True)), n=n.max())
        table["better_than"] = np.bincount(first[above], minlength=len(table))
        parts.append(table.sort_values("within", ascending=False).reset_index())
    columns = [*by, "name", "within", "low", "high", "n", "better_than"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)
