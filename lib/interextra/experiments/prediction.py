"""How well a predictor orders queries by a target such as RR@10 or the loss out of domain.

Kendall's tau-b: 1 is the same order, 0 none. Intervals are of the bootstrap over queries, or their units: every
predictor, target and system sees the same resamples, without the noise of training. Taught in notebooks/07_indicators.
"""

from collections.abc import Mapping, Sequence

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


def prediction_table(predictors: pd.DataFrame, targets: pd.DataFrame, groups: pd.Series, w: np.ndarray) -> Effects:
    """Kendall's tau-b of every predictor with every target, with percentile intervals.

    predictors, targets : a column each, indexed by the same query_ids in one order. A query that has no value of a
        predictor is dropped for this predictor; targets have one for all.
    groups : a label a query, e.g. its cluster, for tau within groups, see `kendall_within`.

    Returns target, name (of the predictor), kendall and within (tau within groups), each with _low and _high,
    n_queries (used), and the draws of `within`. NaN where tau is not defined.
    """
    rows, drawn = [], []
    for predictor, values in predictors.items():
        used = values.notna()
        x, y, weights = values[used].to_numpy(float), targets[used].to_numpy(float), w[used]
        tau, taus = kendall_within(x, y, groups[used], weights)
        found = {
            "kendall": ([stats.kendalltau(x, target).statistic for target in y.T], kendall_draws(x, y, weights)),
            "within": (tau[0], taus),
        }
        for t, target in enumerate(targets):
            row = {"target": target, "name": predictor}
            for name, (value, draws) in found.items():
                low, high = interval(draws[:, 0, t])
                row |= {name: float(value[t]), f"{name}_low": low, f"{name}_high": high}
            rows.append(row | {"n_queries": len(x)})
            drawn.append(taus[:, 0, t])
    return Effects.of(pd.DataFrame(rows), ["target", "name"], ["within"], drawn)


def predict(wide: pd.DataFrame, predictors: pd.DataFrame, w: pd.DataFrame) -> Effects:
    """`prediction_table` of each shift and model, below the columns shift and model.

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
        known = _predictors_of(predictors, shift, model, wanted.index).dropna(axis=1, thresh=len(wanted) // 2 + 1)
        turned = known * np.where(known.columns == "collection: length", -1, 1)
        table = prediction_table(turned, wanted, of[first]["stratum"], w.loc[wanted.index].to_numpy())
        table.insert(0, "shift", shift)
        table.insert(1, "model", model)
        parts.append(table)
    table = pd.concat(parts, ignore_index=True)
    return Effects.of(table, ["shift", "model", "target", "name"], ["within"], table.drawn())


def _predictors_of(predictors: pd.DataFrame, shift: str, model: str, query_ids: pd.Index) -> pd.DataFrame:
    mine = predictors[(predictors["shift"] == shift) & (predictors["model"] == model)]
    return mine.drop(columns=["shift", "model"]).set_index("query_id").loc[query_ids]


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


def difficulty(
    values: pd.DataFrame, predictors: pd.DataFrame, clusters: Mapping[str, Sequence[str]], w: pd.DataFrame
) -> Effects:
    """Does a distance predict the model without the cluster better than a model that had it? If not: difficulty.

    One model stands against one model on the same query: tau within clusters with the value under each single model
    that had the cluster, averaged over these models. (The mean of several models is less noisy.)

    `values`: of `splits.resttest.sides`, of one measure; `predictors`: of `predictor_table`, of which R, max and
    density in dense and own space are taken; `clusters`: shift → its clusters; `w`: of `resampled`. Returns shift,
    model, name (space: predictor), tau_in, tau_out, difference, low, high (of the difference), n_queries, and draws.
    """
    rows, drawn = [], []
    for (shift, model), part in values.groupby(["shift", "model"], sort=False):
        names = pd.Index(clusters[shift])
        place = (names.get_indexer(part["left_out"]) - names.get_indexer(part["stratum"])) % len(names)
        each = part.assign(place=place).groupby(["stratum", "query_id", "place"], sort=False)["value"].mean().unstack()
        target = worse(part["measure"].iloc[0]) * each.sort_index(axis=1).to_numpy()  # column 0: out; the others: in
        strata, query_ids = (each.index.get_level_values(name) for name in ("stratum", "query_id"))
        known = _predictors_of(predictors, shift, model, query_ids).filter(regex="^(dense|own): ").dropna(axis=1)
        tau, taus = kendall_within(known, target, strata, w.loc[query_ids].to_numpy())
        both = [(some[..., 1:].mean(axis=-1), some[..., 0]) for some in (tau, taus)]  # in and out
        drawn.extend(np.stack([*both[1], both[1][1] - both[1][0]], axis=1).transpose(2, 1, 0))
        for name, a, b, found in zip(known, *both[0], drawn[-len(tau) :], strict=True):
            rows.append((shift, model, name, a, b, b - a, *interval(found[2]), len(each)))
    by, sides = ["shift", "model", "name"], ["tau_in", "tau_out", "difference"]
    table = pd.DataFrame(rows, columns=[*by, *sides, "low", "high", "n_queries"])
    return Effects.of(table, by, sides, *np.stack(drawn, axis=1))
