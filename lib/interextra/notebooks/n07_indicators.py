"""Notebook 07: whether a loss can be predicted from the queries alone.

Lupart et al., §5.2, Figures 3 to 6. Indicators, by shift, model and query_id, are of the model
without the query's cluster.
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
from interextra.stats.formatting import with_interval
from interextra.store.errors import InputError

POOLED = "pooled"
# those of Figure 5
FIRST_STAGE = [module.LABEL for module in architectures().values() if module.ENCODES_QUERIES]
GAPS = [  # definitions of far that are compared
    ("dense: R", "own: R"),
    ("dense: max", "own: max"),
    ("dense: density", "own: density"),
    ("dense: R", "dense: max"),
    ("dense: R", "dense: density"),
    ("dense: R", "words: nearest_jaccard"),
]
SYSTEM = ["shift", "model", "measure"]
SPLADE, COLBERT = (architectures()[name].LABEL for name in ("splade", "colbert"))
NEGATIVES = {"negatives": "bm25+in-batch", "n_negatives": 1, "negative_depth": 20}


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
            {"recipe": "mini-colbert", "steps": 60, **NEGATIVES},
            {"recipe": "mini-splade", "steps": 60, **NEGATIVES},
            {"recipe": "mini-dense", "steps": 60, **NEGATIVES},
        ],
        "systems; those that are trained for both shifts; negatives as in the paper, BM25's and "
        "in-batch",
    )


def plan(p: Parameters) -> plans.Plan:
    """Plan the runs of notebook 04, and where each test query lies in the models' query spaces.

    Returns
    -------
    near
        As `design` and `control` together, but Nearness cells for runs, of the systems that encode
        queries.
    The rest
        As in notebook 04, which alone takes the real queries.
    """
    plan = shifts.plan(p)
    runs = pd.concat([plan.design, plan.control], ignore_index=True)
    if DENSE not in set(runs["model"]):
        raise InputError(
            "parameter 'recipes': R is measured in the dense model's space; give a dense recipe, "
            "too"
        )
    rows = []
    for row in runs.to_dict("records"):
        run = row.pop("run")
        architecture = architectures()[run.model.recipe.architecture]
        if architecture.ENCODES_QUERIES:
            held_out = run.queries[:1]
            near = Nearness(model=run.model, queries=held_out, k=p.neighbours)
            rows.append(row | {"near": near})
    plan.near = pd.DataFrame(rows)
    plan.real = None
    return plan


def common_shifts(values: pd.DataFrame, control: str) -> list[str]:
    """Return the shifts that can be taken together.

    They are those in which all systems were trained, without the control.
    """
    kept = values[values["shift"] != control]
    n_systems = kept.groupby("shift", sort=False)["model"].nunique()
    return n_systems.index[n_systems == n_systems.max()].tolist()


def averaged(values: pd.DataFrame, together: Sequence[str]) -> pd.DataFrame:
    """Return one value per shift, system, measure, query, side and training.

    The models that had the query's cluster in training are averaged. The shifts `together` stand
    once more under POOLED, with the stratum "": there a query counts once, with the mean of what it
    has in them.

    Parameters
    ----------
    values
        Of `splits.resttest.sides`.
    together
        Of `common_shifts`.
    """
    averaged_over = ("left_out", "test_set", "trained", "value")
    labels = [name for name in values if name not in averaged_over]
    each = values.groupby(labels, sort=False, as_index=False)["value"].mean()
    is_pooled = each["shift"].isin(together)
    pooled = each[is_pooled].assign(shift=POOLED, stratum="")
    pooled = pooled.groupby(labels, sort=False, as_index=False)["value"].mean()
    both = pd.concat([each, pooled], ignore_index=True)
    if "trained" not in values:
        return both
    # the models of a side and training count as one, whichever intervals of queries they stand on
    trainings = both[["shift", "model", "side", "seed"]].astype(str)
    names = trainings.agg(" ".join, axis=1)
    trained_models = values.loc[values["trained"].ne(""), "model"]
    is_trained = both["model"].isin(trained_models)
    return both.assign(trained=names.where(is_trained, ""))


def pairs(each: pd.DataFrame) -> pd.DataFrame:
    """Return the two sides of each query, means over trainings.

    Parameters
    ----------
    each
        Of `averaged`.

    Returns
    -------
    shift, model, measure, stratum, query_id, unit, in, out
    """
    by = [*SYSTEM, "stratum", "query_id", "unit", "side"]
    means = each.groupby(by, sort=False)["value"].mean()
    return means.unstack().rename_axis(columns=None).reset_index()


def distances(near: pd.DataFrame, together: Sequence[str]) -> pd.DataFrame:
    """Return R of the dense model.

    Under POOLED R is standardised in each cluster, and the mean over the shifts `together` in which
    the query is.

    Parameters
    ----------
    near
        Of `predictors.spaces`.
    together
        Of `common_shifts`.

    Returns
    -------
    shift, query_id, R
    """
    dense = near[near["model"] == DENSE]
    cluster = [dense["shift"], dense["stratum"]]
    standardised = dense.assign(R=z_scores(dense["R"], cluster))
    is_pooled = dense["shift"].isin(together)
    pooled = standardised[is_pooled].assign(shift=POOLED)
    both = pd.concat([dense, pooled])
    by_query = both.groupby(["shift", "query_id"], sort=False)
    return by_query["R"].mean().reset_index()


def in_bins(far: pd.DataFrame, n_bins: int, how: str) -> pd.DataFrame:
    """Return `distances` with `bin`, the interval of R within its shift.

    They are numbered from 1 for the farthest queries.
    """
    of_shift = far.groupby("shift")["R"]
    number = of_shift.transform(lambda r: bins(r, n_bins, how))
    return far.assign(bin=number + 1)


def delta_by_r(
    each: pd.DataFrame, far: pd.DataFrame, n_bins: int, seed: int, n_boot: int
) -> pd.DataFrame:
    """Return effects in intervals of R, by both ways to cut and both averagings.

    Lupart Figure 5 does not say which.

    Parameters
    ----------
    each
        Of `averaged`.
    far
        Of `distances`.
    n_bins
        Number of intervals.
    seed, n_boot
        Of `effects`.

    Returns
    -------
    shift, model, measure, binning, averaging, bin (1 is the farthest; without queries no row),
    r_low, r_high (ends of R in it), n_queries, n_dropped, delta, low, high, n_trainings

    averaging: ratio of means; or mean of ratios, over trainings, without queries of Avg In 0
    (n_dropped).
    """
    wide = pairs(each)
    change = change_per_query(wide["in"], wide["out"])
    ratios = wide.assign(value=change).dropna(subset="value")
    parts = []
    for binning in BINNINGS:
        numbered = in_bins(far, n_bins, binning)
        r_of_bin = numbered.groupby(["shift", "bin"])["R"]
        ends = r_of_bin.agg(r_low="min", r_high="max").reset_index()
        table = _delta_by_bin(each.merge(numbered), ratios.merge(numbered), seed, n_boot)
        parts.append(table.merge(ends).assign(binning=binning))
    columns = ["binning", "averaging", "bin", "r_low", "r_high", "n_queries", "n_dropped"]
    both = pd.concat(parts, ignore_index=True)
    return both[[*SYSTEM, *columns, "delta", "low", "high", "n_trainings"]]


def _delta_by_bin(each: pd.DataFrame, ratios: pd.DataFrame, seed: int, n_boot: int) -> pd.DataFrame:
    """Return the effects in each bin, by both averagings.

    `each`: both sides of the queries; `ratios`: Out / Avg In - 1 of those that have it.
    """
    by = [*SYSTEM, "bin"]
    of_means = effects(each, by, "side", ("in", "out"), "delta", seed=seed, n_boot=n_boot)
    of_ratios = effects(ratios, by, seed=seed, n_boot=n_boot)
    of_ratios = of_ratios.rename(columns={"mean": "delta"})
    counts = pd.DataFrame(of_means[[*by, "n_queries", "n_trainings"]])
    parts = []
    for averaging, table in (("ratio of means", of_means), ("mean of ratios", of_ratios)):
        kept = table[[*by, "n_queries", "delta", "low", "high"]]
        kept = kept.rename(columns={"n_queries": "n_kept"})
        both = counts.merge(kept, how="left", on=by)
        n_kept = both["n_kept"].fillna(0).astype(int)
        both["n_dropped"] = both["n_queries"] - n_kept
        parts.append(both.assign(averaging=averaging))
    return pd.concat(parts, ignore_index=True)


def trend(wide: pd.DataFrame, far: pd.DataFrame, w: pd.DataFrame) -> Effects:
    """Return Kendall's tau of R with the effect within clusters.

    Each cluster has a model, and scale of R, of its own. Above 0: the farther, the more is lost;
    where lower is better it is turned.

    Parameters
    ----------
    wide
        Of `pairs`.
    far
        Of `distances`.
    w
        Of `predictors.resampled`.

    Returns
    -------
    Effects[shift, model, measure, loss (difference, Out - Avg In, or relative, over Avg In above
    0), statistic, kendall, low, high, n_queries]; NaN where no cluster has two queries
    """
    rows, drawn = [], []
    for key, part in wide.merge(far).groupby(SYSTEM, sort=False):
        losses = {
            "difference": part["out"] - part["in"],
            "relative": change_per_query(part["in"], part["out"]),
        }
        measure = key[2]
        for name, loss in losses.items():
            turned = part.assign(loss=worse(measure) * loss)
            known = turned.dropna(subset="loss")
            tau, draws = _tau_of_r(known, w)
            drawn.append(draws)
            low, high = interval(draws)
            rows.append((*key, name, "Kendall", tau, low, high, len(known)))
    columns = [*SYSTEM, "loss", "statistic", "kendall", "low", "high", "n_queries"]
    table = pd.DataFrame(rows, columns=columns)
    return Effects.of(table, [*SYSTEM, "loss"], ["kendall"], drawn)


def _tau_of_r(queries: pd.DataFrame, w: pd.DataFrame) -> tuple[float, np.ndarray]:
    """Return tau of R and loss within clusters, and its draws float[n_boot]."""
    cluster = queries["stratum"]
    if not cluster.duplicated().any():
        return np.nan, np.full(w.shape[1], np.nan)
    counts = w.loc[queries["query_id"]].to_numpy()
    tau, draws = kendall_within(queries["R"], queries["loss"], cluster, counts)
    return tau.item(), draws[:, 0, 0]


def of_all_systems(points: pd.DataFrame, by: str, n_boot: int) -> Effects:
    """Return `link` of the mean effect over the systems, as a table that answers claims.

    The link is with an indicator, over clusters. The draws are those of Fisher's z, as if clusters
    were independent.

    Parameters
    ----------
    points
        A row a cluster and system, the same systems for each: shift, model, stratum, measure,
        delta, n_queries, n_trainings and the column `by`.
    by
        The indicator.
    n_boot
        Number of draws.
    """
    aggregates = {"delta": "mean", by: "first", "n_queries": "min", "n_trainings": "min"}
    clusters = points.groupby(["shift", "stratum"], sort=False)
    mean = clusters.agg(aggregates).reset_index()
    table = link(mean.assign(model="mean over the systems"), by)
    table = table.dropna(subset="low").drop(columns="model")
    table = table.assign(
        measure=points["measure"].iloc[0],
        n_queries=mean["n_queries"].sum(),
        n_trainings=mean["n_trainings"].min(),
        n_units=len(mean),
        **{DRAWN: "clusters"},
    )
    drawn = _drawn_by_fisher(table, n_boot)
    return Effects.of(table, ["indicator", "kind", "method"], ["estimate"], drawn)


def _drawn_by_fisher(correlations: pd.DataFrame, n_boot: int) -> np.ndarray:
    """Return draws float[rows, n_boot] of correlations, by the width of their intervals."""
    estimates = correlations[["estimate", "low", "high"]].to_numpy(float)
    estimate, low, high = np.arctanh(estimates).T
    standard_error = (high - low) / 2 / stats.norm.ppf(0.975)
    noise = np.random.default_rng(0).normal(size=n_boot)
    return np.tanh(estimate[:, np.newaxis] + np.outer(standard_error, noise))


def spread(numbered: pd.DataFrame, w: pd.DataFrame) -> pd.DataFrame:
    """Return how wide the per-query effects spread in the farthest and the nearest interval.

    By the interquartile range; Figure 6 shows the variance, which a single query near Avg In = 0
    would decide.

    Parameters
    ----------
    numbered
        Pairs with `bin` and `delta` of each query.
    w
        Of `predictors.resampled`.

    Returns
    -------
    model, measure, farthest, nearest, difference, low, high
    """
    rows = []
    for key, part in numbered.groupby(["model", "measure"], sort=False):
        number = part["bin"]
        farthest = part[number == number.min()]
        nearest = part[number == number.max()]
        iqr_far = stats.iqr(farthest["delta"])
        iqr_near = stats.iqr(nearest["delta"])
        drawn = _resampled_iqr(farthest, w) - _resampled_iqr(nearest, w)
        low, high = interval(drawn)
        rows.append((*key, iqr_far, iqr_near, iqr_far - iqr_near, low, high))
    columns = ["model", "measure", "farthest", "nearest", "difference", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def _resampled_iqr(queries: pd.DataFrame, w: pd.DataFrame) -> np.ndarray:
    """Return the interquartile range of delta in each draw; NaN where it misses all queries."""
    counts = w.loc[queries["query_id"]].to_numpy(int).T  # [n_boot, queries]
    delta = queries["delta"].to_numpy()
    drawn = np.full(len(counts), np.nan)
    for draw, often in enumerate(counts):
        if often.any():
            drawn[draw] = stats.iqr(np.repeat(delta, often))
    return drawn


def splade_less_colbert(
    losses: Effects, jaccard: pd.DataFrame, printed: pd.DataFrame
) -> pd.DataFrame:
    """Return Δ of SPLADE minus Δ of ColBERT on each topic, ours and published, by shared words.

    Above 0: SPLADE loses less, as in the paper on the topics that share most words (section 5.2).

    Parameters
    ----------
    losses
        Effects by shift, model, measure, stratum.
    jaccard
        shift, stratum, jaccard: of our clusters.
    printed
        Of `papers.releases.published_points`.

    Returns
    -------
    source (ours, published), cluster, jaccard, difference, low, high (missing where published); the
    highest Jaccard of a source first
    """
    topics = losses[losses["shift"] == "topics"]
    ours = topics.iloc[:0]
    if len(topics):
        ours = topics.contrast("model", [(SPLADE, COLBERT)]).merge(jaccard)
    ours = pd.DataFrame(ours).rename(columns={"stratum": "cluster"}).assign(source="ours")
    of_topics = printed[printed["shift"] == "topics"]
    by_cluster = ["cluster", "jaccard"]
    deltas = of_topics.pivot(index=by_cluster, columns="model", values="delta")
    theirs = (deltas[SPLADE] - deltas[COLBERT]).rename("difference").reset_index()
    both = pd.concat([ours, theirs.assign(source="published")], ignore_index=True)
    columns = ["source", "cluster", "jaccard", "difference", "low", "high"]
    both = both.reindex(columns=columns)
    return both.sort_values(["source", "jaccard"], ascending=[True, False], ignore_index=True)


def splade_page(gaps: pd.DataFrame) -> pd.DataFrame:
    """Return `splade_less_colbert` for the page; what is published has no interval."""
    page = with_interval(gaps, "difference", "points")
    page["difference"] = page["difference"].str.removesuffix(" [undefined]")
    return page.rename(columns={"jaccard": "J", "difference": f"{SPLADE} minus {COLBERT}"})


def splade_sentence(gaps: pd.DataFrame) -> str:
    """Return on how many topics SPLADE loses less than ColBERT: those with more words, and others.

    `gaps`: of `splade_less_colbert`. The half with more shared words is the smaller one where their
    number is odd.
    """
    parts = []
    for source, part in gaps.groupby("source", sort=False):
        is_above = (part["difference"] > 0).to_numpy()
        n_upper = len(part) // 2
        upper, lower = is_above[:n_upper], is_above[n_upper:]
        parts.append(f"{source} {upper.sum()} of {len(upper)}, {lower.sum()} of {len(lower)}")
    which = "the half of the topics with more shared words, and the others"
    return f"{SPLADE} loses less than {COLBERT} on ({which}):\n{'; '.join(parts)}."
