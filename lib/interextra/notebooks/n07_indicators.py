"""Notebook 07: can a loss be predicted from the queries alone? (Lupart et al., §5.2, Figures 3 to
6)

Indicators, by shift, model and query_id, are of the model without the query's cluster.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from interextra.measures.evaluate import worse
from interextra.measures.indicators import (
    BINNINGS,
    Nearness,
    bins,
    change_per_query,
    link,
    z_scores,
)
from interextra.models.architectures import architectures
from interextra.models.architectures.dense import LABEL as DENSE
from interextra.notebooks import n04_shifts as shifts
from interextra.notebooks import plans
from interextra.notebooks.parameters import (
    Entries,
    NamesByName,
    Resamples,
    ShiftParameters,
    Thousands,
    parameter,
)
from interextra.stats.bootstrap import interval
from interextra.stats.correlation import kendall_within
from interextra.stats.effects import DRAWN, Effects, effects
from interextra.store.errors import InputError

POOLED = "pooled"
FIRST_STAGE = [
    module.LABEL for module in architectures().values() if module.ENCODES_QUERIES
]  # those of Figure 5
GAPS = [
    (f"dense: {name}", f"own: {name}") for name in ("R", "max", "density")
]  # definitions of far that are compared
GAPS += [("dense: R", name) for name in ("dense: max", "dense: density", "words: nearest_jaccard")]
SYSTEM = ["shift", "model", "measure"]


class Parameters(ShiftParameters):
    """Parameters of notebook 07, generalisation indicators."""

    neighbours: Thousands = parameter(
        10, "nearest training queries whose mean score is a query's density"
    )
    bins: Thousands = parameter(
        5, "intervals of R", paper="it does not say how many or how they are cut"
    )
    n_tau: Resamples = parameter(
        500, "bootstrap samples for tau, the losses by distance and the claims"
    )
    only: NamesByName = parameter(
        {
            "wh-words": ["DR (base)", "ColBERT", "SPLADE", "BM25, fixed"],
            "length": ["DR (base)", "BM25, fixed"],
        },
        "shift: its systems beside BM25; of shifts that are not named all",
    )
    recipes: Entries = parameter(
        [
            "bm25",
            {"label": "BM25, fixed", "recipe": "bm25", "k1": [0.9], "b": [0.4]},
            {
                "recipe": "mini-colbert",
                "steps": 60,
                "negatives": "bm25+in-batch",
                "n_negatives": 1,
                "negative_depth": 20,
            },
            {
                "recipe": "mini-splade",
                "steps": 60,
                "negatives": "bm25+in-batch",
                "n_negatives": 1,
                "negative_depth": 20,
            },
            {
                "recipe": "mini-dense",
                "steps": 60,
                "negatives": "bm25+in-batch",
                "n_negatives": 1,
                "negative_depth": 20,
            },
        ],
        "systems; those that are trained for both shifts; negatives as in the paper, BM25's and in-batch",
    )


def plan(p: Parameters) -> plans.Plan:
    """The runs of notebook 04, and where each test query lies in the models' own query spaces.

    `near`: as `design` and `control` together, but Nearness cells for runs, of the systems that
    encode queries.
    """
    found = shifts.plan(p)
    near = pd.concat([found.design, found.control], ignore_index=True)
    if DENSE not in set(near["model"]):
        raise InputError(
            "parameter 'recipes': R is measured in the dense model's space; give a dense recipe, too"
        )
    near = near[
        [architectures()[run.model.recipe.architecture].ENCODES_QUERIES for run in near["run"]]
    ]
    cells = [
        Nearness(model=run.model, queries=run.queries[:1], k=p.neighbours) for run in near["run"]
    ]
    found.near, found.real = (
        near.drop(columns="run").assign(near=cells),
        None,
    )  # 04 alone takes the real queries
    return found


def common_shifts(values: pd.DataFrame, control: str) -> list[str]:
    """The shifts that can be taken together: those in which all systems were trained, without the
    control.
    """
    n = values[values["shift"] != control].groupby("shift", sort=False)["model"].nunique()
    return n.index[n == n.max()].tolist()


def averaged(values: pd.DataFrame, together: Sequence[str]) -> pd.DataFrame:
    """One value per shift, system, measure, query, side and training, of the values of
    `splits.resttest.sides`.

    The models that had the query's cluster in training are averaged. The shifts `together` stand
    once more under POOLED, with the stratum "": there a query counts once, with the mean of what it
    has in them.
    """
    labels = [name for name in values if name not in ("left_out", "test_set", "trained", "value")]
    each = values.groupby(labels, sort=False)["value"].mean().reset_index()
    pooled = each[each["shift"].isin(together)].assign(shift=POOLED, stratum="")
    both = pd.concat(
        [each, pooled.groupby(labels, sort=False)["value"].mean().reset_index()], ignore_index=True
    )
    if "trained" not in values:
        return both
    # the models of a side and training count as one, whichever intervals of queries they stand on
    names = both[["shift", "model", "side", "seed"]].astype(str).agg(" ".join, axis=1)
    is_trained = values.groupby("model")["trained"].agg(lambda behind: behind.ne("").any())
    return both.assign(trained=names.where(both["model"].map(is_trained), ""))


def pairs(each: pd.DataFrame) -> pd.DataFrame:
    """Of `averaged`, means over trainings: shift, model, measure, stratum, query_id, unit, in,
    out.
    """
    by = [*SYSTEM, "stratum", "query_id", "unit"]
    return (
        each.groupby([*by, "side"], sort=False)["value"]
        .mean()
        .unstack()
        .rename_axis(columns=None)
        .reset_index()
    )


def distances(near: pd.DataFrame, together: Sequence[str]) -> pd.DataFrame:
    """R of the dense model, of `spaces`: shift, query_id, R.

    Under POOLED R is standardised in each cluster, and the mean over the shifts `together` in which
    the query is.
    """
    dense = near[near["model"] == DENSE]
    alike = dense.assign(R=z_scores(dense["R"], [dense["shift"], dense["stratum"]]))
    both = pd.concat([dense, alike[alike["shift"].isin(together)].assign(shift=POOLED)])
    return both.groupby(["shift", "query_id"], sort=False)["R"].mean().reset_index()


def in_bins(far: pd.DataFrame, n_bins: int, how: str) -> pd.DataFrame:
    """`distances` with `bin`, the interval of R within its shift, from 1 for the farthest
    queries.
    """
    return far.assign(bin=far.groupby("shift")["R"].transform(lambda r: bins(r, n_bins, how) + 1))


def delta_by_r(
    each: pd.DataFrame, far: pd.DataFrame, n_bins: int, seed: int, n_boot: int
) -> pd.DataFrame:
    """Effects in intervals of R, by both ways to cut and both averagings (Lupart Figure 5 does not
    say which).

    `each`: of `averaged`; `far`: of `distances`. Returns shift, model, measure, binning, averaging,
    bin (1 is the farthest; without queries no row), r_low, r_high (ends of R in it), n_queries,
    n_dropped, delta, low, high, n_trainings. averaging: ratio of means; or mean of ratios, over
    trainings, without queries of Avg In 0 (n_dropped).
    """
    by, parts, wide = [*SYSTEM, "bin"], [], pairs(each)
    single = wide.assign(value=change_per_query(wide["in"], wide["out"])).dropna(subset="value")
    for how in BINNINGS:
        numbered = in_bins(far, n_bins, how)
        ends = numbered.groupby(["shift", "bin"])["R"].agg(r_low="min", r_high="max").reset_index()
        every = effects(
            each.merge(numbered), by, "side", ("in", "out"), "delta", seed=seed, n_boot=n_boot
        )
        own = effects(single.merge(numbered), by, seed=seed, n_boot=n_boot).rename(
            columns={"mean": "delta"}
        )
        counts = every[[*by, "n_queries", "n_trainings"]].merge(ends)
        for averaging, found in (("ratio of means", every), ("mean of ratios", own)):
            kept = found[[*by, "n_queries", "delta", "low", "high"]].rename(
                columns={"n_queries": "n_kept"}
            )
            parts.append(counts.merge(kept, how="left").assign(binning=how, averaging=averaging))
    table = pd.DataFrame(pd.concat(parts, ignore_index=True))
    table["n_dropped"] = table["n_queries"] - table["n_kept"].fillna(0).astype(int)
    columns = [
        "binning",
        "averaging",
        "bin",
        "r_low",
        "r_high",
        "n_queries",
        "n_dropped",
        "delta",
        "low",
        "high",
    ]
    return table[[*SYSTEM, *columns, "n_trainings"]]


def trend(wide: pd.DataFrame, far: pd.DataFrame, w: pd.DataFrame) -> Effects:
    """Kendall's tau of R with the effect within clusters, each with a model, and scale of R, of its
    own.

    Above 0: the farther, the more is lost; where lower is better it is turned. `wide`: of `pairs`;
    `far`: of `distances`; `w`: of `predictors.resampled`. Returns Effects[shift, model, measure,
    loss (difference, Out - Avg In, or relative, over Avg In above 0), statistic, kendall, low,
    high, n_queries]; NaN where no cluster has two queries.
    """
    rows, drawn = [], []
    for key, part in wide.merge(far).groupby(SYSTEM, sort=False):
        part = part.assign(
            difference=part["out"] - part["in"], relative=change_per_query(part["in"], part["out"])
        )
        for name in ("difference", "relative"):
            some, tau, taus = (
                part.dropna(subset=name),
                np.array([[np.nan]]),
                np.full((w.shape[1], 1, 1), np.nan),
            )
            if some["stratum"].duplicated().any():
                weights = w.loc[some["query_id"]].to_numpy()
                tau, taus = kendall_within(
                    some["R"], worse(key[2]) * some[name], some["stratum"], weights
                )
            drawn.append(taus[:, 0, 0])
            rows.append((*key, name, "Kendall", tau.item(), *interval(drawn[-1]), len(some)))
    table = pd.DataFrame(
        rows, columns=[*SYSTEM, "loss", "statistic", "kendall", "low", "high", "n_queries"]
    )
    return Effects.of(table, [*SYSTEM, "loss"], ["kendall"], drawn)


def of_all_systems(points: pd.DataFrame, by: str, n_boot: int) -> Effects:
    """`link` of the mean effect over the systems with an indicator, over clusters, as a table that
    answers claims.

    `points`: shift, model, stratum, measure, delta, n_queries, n_trainings and the column `by`, a
    row a cluster and system, the same systems for each. The draws are those of Fisher's z, as if
    clusters were independent.
    """
    over = {"delta": "mean", by: "first", "n_queries": "min", "n_trainings": "min"}
    mean = points.groupby(["shift", "stratum"], sort=False).agg(over).reset_index()
    table = link(mean.assign(model="mean over the systems"), by).dropna(subset="low")
    z, low, high = np.arctanh(table[["estimate", "low", "high"]].to_numpy(float)).T
    spread = (high - low) / 2 / stats.norm.ppf(0.975)
    drawn = np.tanh(z[:, None] + np.outer(spread, np.random.default_rng(0).normal(size=n_boot)))
    counted = {"n_queries": mean["n_queries"].sum(), "n_trainings": mean["n_trainings"].min()}
    counted |= {"n_units": len(mean), DRAWN: "clusters"}
    table = table.drop(columns="model").assign(measure=points["measure"].iloc[0], **counted)
    return Effects.of(table, ["indicator", "kind", "method"], ["estimate"], drawn)


def spread(numbered: pd.DataFrame, w: pd.DataFrame) -> pd.DataFrame:
    """Interquartile range of the per-query effects in the farthest and the nearest interval, and
    their difference.

    As in Figure 6, whose variance a single query near Avg In = 0 would decide. `numbered`: pairs
    with `bin` and `delta` of each query; `w`: of `predictors.resampled`. Returns model, measure,
    farthest, nearest, difference, low, high.
    """
    rows = []
    for key, part in numbered.groupby(["model", "measure"], sort=False):
        ends = [part[part["bin"] == at] for at in (part["bin"].min(), part["bin"].max())]
        far, near = (stats.iqr(end["delta"]) for end in ends)
        sides = [
            (end["delta"].to_numpy(), w.loc[end["query_id"]].to_numpy(int).T) for end in ends
        ]  # [n_boot, queries]
        drawn = np.subtract(  # a draw may miss all queries of an end
            *(
                [stats.iqr(np.repeat(delta, n)) if n.any() else np.nan for n in often]
                for delta, often in sides
            )
        )
        rows.append((*key, far, near, far - near, *interval(drawn)))
    return pd.DataFrame(
        rows, columns=["model", "measure", "farthest", "nearest", "difference", "low", "high"]
    )
