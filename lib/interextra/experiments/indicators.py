"""Notebook 07: can a loss be predicted from the queries alone? (Lupart et al., §5.2, Figures 3 to 6)

Frames are tidy. `averaged` gives a value per query, side and training; `pairs` of them are wide: a row a shift, model,
measure and test query with its Avg In and Out. Indicators are frames by shift, model and query_id; the model that
counts is the one without the query's cluster. A difference is turned so that positive is worse for every measure;
RelLoss keeps the paper's sign. Correlations over queries are on one set of resamples, see `prediction.resampled`.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from interextra.evaluation.indicators import BINNINGS, Nearness, bins, per_query_loss, z_scores
from interextra.evaluation.measures import worse
from interextra.experiments import shifts
from interextra.experiments.plans import Plan
from interextra.ground.correlation import kendall_within
from interextra.ground.effects import Effects, effects, interval
from interextra.ground.errors import InputError
from interextra.models import architectures
from interextra.models.colbert import LABEL as COLBERT
from interextra.models.dense import LABEL as DENSE
from interextra.papers.claims import judged, said

NOTEBOOK = "07_indicators"
POOLED = "pooled"
FIRST_STAGE = [module.LABEL for module in architectures().values() if module.ENCODES_QUERIES]  # those of Figure 5
GAPS = [(f"dense: {name}", f"own: {name}") for name in ("R", "max", "density")]  # definitions of far that are compared
GAPS += [("dense: R", name) for name in ("dense: max", "dense: density", "words: nearest_jaccard")]
SYSTEM = ["shift", "model", "measure"]


def plan(p: dict) -> Plan:
    """The runs of notebook 04 without its variants, and where each test query lies in the models' own query spaces.

    `near`: as `design` and `control` together, but for Nearness cells instead of runs, of the systems that encode a
    query by itself.
    """
    found = shifts.plan(p | {"variants": []})
    near = pd.concat([found.design, found.control], ignore_index=True)
    if DENSE not in set(near["model"]):
        raise InputError("parameter 'recipes': R is measured in the dense model's space; give a dense recipe, too")
    near = near[[architectures()[run.model.recipe.architecture].ENCODES_QUERIES for run in near["run"]]]
    cells = [Nearness(model=run.model, queries=run.queries[:1], k=p["neighbours"]) for run in near["run"]]
    found.near = near.drop(columns="run").assign(near=cells)
    return found


def common_shifts(values: pd.DataFrame, control: str) -> list[str]:
    """The shifts that can be taken together: those in which all systems were trained, without the control."""
    n = values[values["shift"] != control].groupby("shift", sort=False)["model"].nunique()
    return n.index[n == n.max()].tolist()


def averaged(values: pd.DataFrame, together: Sequence[str]) -> pd.DataFrame:
    """One value per shift, system, measure, query, side and training, of the values of `splits.resttest.sides`.

    The models that had the query's cluster in training are averaged. The shifts `together` stand once more under
    POOLED, with the stratum "": there a query counts once, with the mean of what it has in them.
    """
    labels = [name for name in values if name not in ("left_out", "test_set", "value")]
    each = values.groupby(labels, sort=False)["value"].mean().reset_index()
    pooled = each[each["shift"].isin(together)].assign(shift=POOLED, stratum="")
    return pd.concat([each, pooled.groupby(labels, sort=False)["value"].mean().reset_index()], ignore_index=True)


def pairs(each: pd.DataFrame) -> pd.DataFrame:
    """Of `averaged`, means over trainings: shift, model, measure, stratum, query_id, unit, in, out."""
    by = [*SYSTEM, "stratum", "query_id", "unit"]
    return each.groupby([*by, "side"], sort=False)["value"].mean().unstack().rename_axis(columns=None).reset_index()


def distances(near: pd.DataFrame, together: Sequence[str]) -> pd.DataFrame:
    """R of the dense model, of `spaces`: shift, query_id, R.

    Under POOLED R is standardised in each cluster, and the mean over the shifts `together` in which the query is.
    """
    dense = near[near["model"] == DENSE]
    alike = dense.assign(R=z_scores(dense["R"], [dense["shift"], dense["stratum"]]))
    both = pd.concat([dense, alike[alike["shift"].isin(together)].assign(shift=POOLED)])
    return both.groupby(["shift", "query_id"], sort=False)["R"].mean().reset_index()


def in_bins(far: pd.DataFrame, n_bins: int, how: str) -> pd.DataFrame:
    """`distances` with `bin`, the interval of R within its shift, from 1 for the farthest queries."""
    return far.assign(bin=far.groupby("shift")["R"].transform(lambda r: bins(r, n_bins, how) + 1))


def loss_by_r(each: pd.DataFrame, far: pd.DataFrame, n_bins: int, seed: int, n_boot: int) -> pd.DataFrame:
    """RelLoss in intervals of R, by both ways to cut and both averagings (Lupart Figure 5 does not say which).

    `each`: of `averaged`; `far`: of `distances`. Returns shift, model, measure, binning, averaging, bin (1 is the
    farthest; without queries it has no row), r_low and r_high (smallest and largest R in it), n_queries, n_dropped,
    loss, low, high, n_trainings. averaging: ratio of means, or mean of ratios, the mean of the queries' own RelLoss,
    without those whose Avg In is 0 (n_dropped) and with the mean over trainings.
    """
    by, parts, wide = [*SYSTEM, "bin"], [], pairs(each)
    single = wide.assign(value=per_query_loss(wide["in"], wide["out"])).dropna(subset="value")
    for how in BINNINGS:
        numbered = in_bins(far, n_bins, how)
        ends = numbered.groupby(["shift", "bin"])["R"].agg(r_low="min", r_high="max")
        every = effects(each.merge(numbered), by, "side", ("in", "out"), "loss", seed=seed, n_boot=n_boot)
        own = effects(single.merge(numbered), by, seed=seed, n_boot=n_boot).rename(columns={"mean": "loss"})
        n_queries = every.set_index(by)[["n_queries", "n_trainings"]]
        for averaging, found in (("ratio of means", every), ("mean of ratios", own)):
            kept = found.set_index(by)[["n_queries", "loss", "low", "high"]].rename(columns={"n_queries": "n_kept"})
            made = n_queries.join(kept).reset_index().join(ends, on=["shift", "bin"])
            made["n_dropped"] = made["n_queries"] - made["n_kept"].fillna(0).astype(int)
            parts.append(made.assign(binning=how, averaging=averaging))
    columns = ["binning", "averaging", "bin", "r_low", "r_high", "n_queries", "n_dropped", "loss", "low", "high"]
    return pd.concat(parts, ignore_index=True)[[*SYSTEM, *columns, "n_trainings"]]


def trend(wide: pd.DataFrame, far: pd.DataFrame, w: pd.DataFrame) -> Effects:
    """Kendall's tau within clusters of R with the loss; below 0: the farther, the higher the loss.

    `wide`: of `pairs`; `far`: of `distances`; `w`: of `prediction.resampled`. Within clusters, as every cluster has a
    model and so a scale of R of its own. Returns shift, model, measure, loss, kendall, low, high, n_queries, and draws:
    `loss` is "difference" (Avg In - Out of all queries) or "relative" (over Avg In, of the queries where Avg In is
    above 0). NaN where no cluster has two of them.
    """
    rows, drawn = [], []
    for key, part in wide.merge(far).groupby(SYSTEM, sort=False):
        relative = per_query_loss(part["in"], part["out"])
        for name, loss in (("difference", (part["in"] - part["out"]).to_numpy()), ("relative", relative)):
            known = ~np.isnan(loss)
            some, turned = part[known], worse(key[2]) * loss[known]
            tau, taus = np.array(np.nan), np.full(w.shape[1], np.nan)
            if some["stratum"].value_counts().max() > 1:
                found = kendall_within(some["R"], turned, some["stratum"], w.loc[some["query_id"]].to_numpy())
                tau, taus = (side.squeeze() for side in found)
            rows.append((*key, name, tau.item(), *interval(taus), len(some)))
            drawn.append(taus)
    table = pd.DataFrame(rows, columns=[*SYSTEM, "loss", "kendall", "low", "high", "n_queries"])
    return Effects.of(table, [*SYSTEM, "loss"], ["kendall"], drawn)


def spread(numbered: pd.DataFrame, w: pd.DataFrame) -> Effects:
    """Middle half of the per-query losses in the farthest and the nearest interval, and their difference (Figure 6).

    `numbered`: pairs with the `bin` and the `loss` of each query, none missing; `w`: of `prediction.resampled`. Returns
    model, measure, farthest, nearest, difference, low, high, and draws: interquartile ranges of RelLoss; they stand for
    the variance, which a single query near Avg In = 0 would decide.
    """

    def width(loss: np.ndarray) -> float:
        return float(np.subtract(*np.percentile(loss, [75, 25]))) if len(loss) else np.nan  # a draw may miss all of few

    rows, drawn = [], []
    for key, part in numbered.groupby(["model", "measure"], sort=False):
        ends = [part[part["bin"] == at] for at in (part["bin"].min(), part["bin"].max())]
        far, near = (width(end["loss"]) for end in ends)
        often = [w.loc[end["query_id"]].to_numpy(int).T for end in ends]  # [n_boot, queries]
        drawn_of = [
            [width(np.repeat(end["loss"].to_numpy(), n)) for n in of] for end, of in zip(ends, often, strict=True)
        ]
        drawn.append(np.subtract(*map(np.array, drawn_of)))
        rows.append((*key, far, near, far - near, *interval(drawn[-1])))
    table = pd.DataFrame(rows, columns=["model", "measure", "farthest", "nearest", "difference", "low", "high"])
    return Effects.of(table, ["model", "measure"], ["difference"], drawn)


ORDERS = "R orders the queries of the model without their cluster"
BETTER = "R orders queries better without their cluster in training than with it"


def findings(
    links: pd.DataFrame,
    trends: Effects,
    far: Effects,
    widths: Effects,
    hard: Effects,
    comparable: Mapping[tuple[str, str], bool],
) -> pd.DataFrame:
    """The sentences of Lupart §5.2 and what R says, in one family: shift, model, and the columns of `claims.judged`.

    Tables of `indicators.link` (whose Pearson correlations within shifts count), `trend` (of one measure), `effects`
    (losses of the farthest queries by model), `spread`, and rows of `prediction.difficulty`, all of equally many draws.
    `comparable`: (shift, model) → may it be judged, see `claims.gate`. A correlation over clusters is judged as
    Fisher's z, with draws from its normal distribution apart from all others, as it has none over queries. n_queries:
    whose values are in it, of a correlation over clusters those of all clusters, of the farthest queries these.
    """

    def rows(table: Effects) -> list[pd.Series]:
        table = table if "shift" in table else table.assign(shift=POOLED)
        pairs = zip(table["shift"], table["model"], strict=True)
        return [row for _, row in table.assign(comparable=[comparable.get(pair, False) for pair in pairs]).iterrows()]

    def of(row: pd.Series, finding: str, kind: str, *less: pd.Series, side: str = "effect") -> dict:
        return said(finding, ([row], less), kind=kind, side=side, shift=row["shift"], model=row["model"])

    links = links[(links["method"] == "Pearson") & (links["kind"] != "pooled")]
    z, low, high = np.arctanh(links[["estimate", "low", "high"]].to_numpy(float)).T
    normal, n_boot = zip(z, (high - low) / 2 / stats.norm.ppf(0.975), strict=True), trends.drawn().shape[1]
    drawn = [np.random.default_rng(at).normal(*parameters, n_boot) for at, parameters in enumerate(normal)]
    links = Effects.of(links.assign(z=z, n_queries=trends["n_queries"].max()), ["model", "indicator"], ["z"], drawn)
    found = [of(row, f"higher {row['indicator']}, lower loss", "below") for row in rows(links)]
    for row in rows(trends[(trends["shift"] == POOLED) & trends["model"].isin(FIRST_STAGE)]):
        found.append(of(row, f"the farther, the higher the loss ({row['loss']})", "below"))
    systems = {row["model"]: row for row in rows(far) if row["model"] in FIRST_STAGE}
    rivals = [name for name in FIRST_STAGE if name in systems and name != COLBERT] if COLBERT in systems else []
    for rival in rivals:
        made = of(systems[COLBERT], "farthest queries: ColBERT loses less", "below", systems[rival])
        found.append(made | {"model": rival})
    for row in rows(widths[widths["model"].isin(FIRST_STAGE)].assign(n_queries=far["n_queries"].max())):
        less, kind = ("less", "below") if worse(row["measure"]) > 0 else ("more", "above")
        found.append(of(row, f"losses of {row['measure']} vary {less} far away", kind))  # the paper: RR less, ASL more
    for row in rows(hard):
        found += [of(row, ORDERS, "above", side="second"), of(row, BETTER, "above")]
    table, ends = judged(found), ["estimate", "low", "high"]
    table.loc[: len(links) - 1, ends] = np.tanh(table.loc[: len(links) - 1, ends])
    return table


def readings(found: pd.DataFrame, margin: float) -> pd.DataFrame:
    """What R is in each shift and for each system, by the simultaneous intervals of `findings`: distance or difficulty.

    Returns shift, model, tau_out, difference, low, high (of the difference), reading: `distance` (R orders the queries
    of the model without the cluster, and better than those of a model with it), `difficulty` (it orders them, and a
    difference of `margin` is excluded), `not told apart` (it orders them; neither is shown), `reversed` (near queries
    do worse), `no order shown`, or `not comparable`.
    """
    out, gap = (found[found["finding"] == name].set_index(["shift", "model"]) for name in (ORDERS, BETTER))
    cases = {
        "not comparable": gap["verdict"] == "not comparable",
        "reversed": out["high"] < 0,
        "no order shown": ~(out["low"] > 0),
        "distance": gap["low"] > 0,
        "difficulty": gap["high"] < margin,
    }
    table = gap.rename(columns={"estimate": "difference"}).assign(tau_out=out["estimate"])
    table["reading"] = np.select(list(cases.values()), list(cases), "not told apart")
    return table.reset_index()[["shift", "model", "tau_out", "difference", "low", "high", "reading"]]
