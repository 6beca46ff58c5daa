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
from interextra.models.architectures.bm25 import LABEL as BM25
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
from interextra.splits.resttest import sides
from interextra.splits.shift import in_domain
from interextra.stats.bootstrap import interval
from interextra.stats.correlation import kendall_within
from interextra.stats.effects import DRAWN, Effects, effects
from interextra.stats.formatting import with_interval
from interextra.store.errors import InputError

POOLED = "pooled"
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
SHARED_WORDS = "shared words (weighted Jaccard similarity)   more →"
DISTANCE = "interval of R, from least to most similar"
# predictors, as `predictors.SPACES` names them → in words
IN_WORDS = {
    "dense: R": "R, dense",
    "dense: max": "nearest query, dense",
    "dense: density": "nearest queries, dense",
    "own: R": "R, own",
    "own: max": "nearest query, own",
    "own: density": "nearest queries, own",
    "words: query_jaccard": "Jaccard, all queries",
    "words: nearest_jaccard": "Jaccard, nearest query",
    "collection: avg_idf": "mean IDF",
    "collection: max_idf": "highest IDF",
    "collection: sum_scq": "summed SCQ",
    "collection: length": "query length",
    "run: top_score": "top score of the run",
    "run: nqc": "NQC of the run",
    "run: wig": "WIG of the run",
    "run: smv": "SMV of the run",
}
MEANINGS = (  # of the predictors, for captions
    " Predictors: similarity in the dense model's space (dense) or the system's own (own), words "
    "of the queries, statistics of the collection's terms, scores of the run."
)
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


def training_runs(design: pd.DataFrame) -> pd.DataFrame:
    """Return what is trained: shift, clusters left out, training queries, systems, seeds.

    A row a shift, each of whose systems is trained without each cluster in turn; BM25 is tuned on
    the same queries. `design` is the frame of the plan.
    """
    rows = []
    for shift, runs in design.groupby("shift", sort=False):
        n_train = runs["run"].iloc[0].model.train.size()
        row = {"shift": shift, "clusters left out": _listed(runs["left_out"])}
        row |= {"training queries": n_train, "systems": "; ".join(runs["model"].unique())}
        rows.append(row | {"seeds": _listed(runs["seed"])})
    return pd.DataFrame(rows)


def _listed(values: pd.Series) -> str:
    """Return the different values with commas between them."""
    return ", ".join(map(str, values.unique()))


def control_of(plan: plans.Plan) -> str:
    """Return the name of the shift by random clusters; "" where the plan has none."""
    return plan.control["shift"].iloc[0] if len(plan.control) else ""


def sides_and_gate(
    parts: Sequence[pd.DataFrame], gate_splits: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the values of the left-out clusters by side, and those that open the gate.

    The gate is on queries of `gate_splits` whose cluster the model was trained on.

    Parameters
    ----------
    parts
        Of `nb.measure` with strata, one per shift.
    gate_splits
        Names of test sets.
    """
    sorted_parts = [part.sort_values("stratum", kind="stable") for part in parts]
    values = pd.concat(sorted_parts, ignore_index=True)
    is_gate = values["test_set"].isin(gate_splits)
    return sides(values[~is_gate]), in_domain(values[is_gate])


def with_pooled(gate: pd.DataFrame, together: Sequence[str]) -> pd.DataFrame:
    """Return the gate's values, those of the shifts `together` once more under POOLED."""
    pooled = gate[gate["shift"].isin(together)].assign(shift=POOLED)
    return pd.concat([gate, pooled], ignore_index=True)


def with_trainings(table: pd.DataFrame, means: Effects) -> pd.DataFrame:
    """Return a table by model with `n_trainings`, the number of training runs of each system.

    `means`: effects by shift and model; the fewest of a system count.
    """
    n_trainings = means.groupby("model", sort=False)["n_trainings"].min()
    return table.assign(n_trainings=table["model"].map(n_trainings))


def beating_bm25(leads: pd.DataFrame, measure: str) -> pd.MultiIndex:
    """Return the (shift, model) whose lead over BM25 in domain has an interval above 0.

    `leads`: of `ix.leads` by shift and measure.
    """
    is_ahead = _of_trained(leads, measure)["lead_low"] > 0
    return pd.MultiIndex.from_frame(_of_trained(leads, measure)[is_ahead][["shift", "model"]])


def _of_trained(leads: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the leads of trained systems by one measure."""
    is_bm25 = leads["model"].str.startswith(BM25)
    return leads[(leads["measure"] == measure) & ~is_bm25]


def included(table: pd.DataFrame, beating: pd.MultiIndex) -> pd.DataFrame:
    """Return the rows of systems that beat BM25 in domain; of all trained ones where none does.

    `table`: by shift and model; `beating`: of `beating_bm25`.
    """
    if not len(beating):
        return table[~table["model"].str.startswith(BM25)]
    pairs = pd.MultiIndex.from_frame(table[["shift", "model"]])
    return table[pairs.isin(beating)]


def gate_sentence(leads: pd.DataFrame, measure: str) -> str:
    """Return which shifts and trained systems beat BM25 in domain, in words."""
    asked = _of_trained(leads, measure)
    n_beating = (asked["lead_low"] > 0).sum()
    count = f"{n_beating} of {len(asked)} pairs of a shift and a trained system beat BM25 in domain"
    if not n_beating:
        return f"{count}, so the figures show all trained systems."
    behind = asked[asked["lead_low"] <= 0]
    if behind.empty:
        return f"{count}."
    names = ", ".join(f"{row.model} ({row.shift})" for row in behind.itertuples())
    return f"{count}. Excluded: {names}."


def losses_page(means: Effects) -> pd.DataFrame:
    """Return Δ and its interval for the page, a row a shift and a column a system.

    A system that nothing trains or tunes has no loss, and no column.
    """
    changes = means[means["low"].notna()]
    page = with_interval(changes)
    wide = page.pivot(index="shift", columns="model", values="delta")
    ordered = wide.reindex(index=changes["shift"].unique(), columns=changes["model"].unique())
    return ordered.rename_axis(columns=None).reset_index()


def jaccard_page(table: pd.DataFrame) -> pd.DataFrame:
    """Return `indicators.jaccard_table` for the page."""
    names = {
        "shift": "shift",
        "stratum": "cluster",
        "jaccard": "J, all queries",
        "jaccard_eval_only": "J, test and training queries",
        "n_queries": "test queries",
        "n_train": "training queries",
    }
    return table[list(names)].rename(columns=names)


def jaccard_sentences(table: pd.DataFrame) -> list[str]:
    """Return how alike the two variants of the Jaccard similarity order the clusters of a shift.

    Shifts whose clusters all have the same similarity are left out, as those with two clusters.
    """
    sentences = []
    for shift, part in table.groupby("shift", sort=False):
        if part["jaccard"].nunique() > 1:
            tau = stats.kendalltau(part["jaccard"], part["jaccard_eval_only"]).statistic
            sentences.append(f"{shift}: Kendall's τ {tau:.2f} over {len(part)} clusters")
    return sentences


def r_by_cluster(dense: pd.DataFrame, n_trainings: int) -> pd.DataFrame:
    """Return the distribution of the dense model's R in each cluster, as `describe` has it.

    `dense`: shift, stratum, R, a row a query; `n_trainings`: training runs of its models.
    """
    by_cluster = dense.groupby(["shift", "stratum"], sort=False)["R"]
    summary = by_cluster.describe(percentiles=[0.05, 0.5, 0.95]).reset_index()
    return summary.assign(n_trainings=n_trainings)


def beside_published(points: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """Return our clusters and the published ones in one frame, for the figure.

    Parameters
    ----------
    points
        shift, model, stratum, delta, jaccard.
    printed
        Of `papers.releases.published_points`.

    Returns
    -------
    The columns of both, source (ours, published), and the Jaccard similarity under SHARED_WORDS.
    """
    ours = points.rename(columns={"stratum": "cluster"}).assign(source="ours")
    both = pd.concat([ours, printed.assign(source="published")], ignore_index=True)
    return both.rename(columns={"jaccard": SHARED_WORDS})


def links(points: pd.DataFrame) -> pd.DataFrame:
    """Return `link` by both variants of the Jaccard similarity."""
    variants = [link(points, by) for by in ("jaccard", "jaccard_eval_only")]
    return pd.concat(variants, ignore_index=True)


def links_page(table: pd.DataFrame) -> pd.DataFrame:
    """Return Pearson's correlations of `links` with the paper's variant, for the page."""
    is_shown = (table["indicator"] == "jaccard") & (table["method"] == "Pearson")
    page = with_interval(table[is_shown], "estimate", unit="")
    page = page[["model", "kind", "n", "estimate", "needed", "p_holm"]]
    names = {"n": "clusters", "estimate": "Pearson's r [95 % CI]", "needed": "needed |r|"}
    return page.rename(columns=names)


def drawn_curves(curves: pd.DataFrame) -> pd.DataFrame:
    """Return of `delta_by_r` what the figure shows: quantile intervals, ratios of means."""
    is_drawn = (curves["averaging"] == "ratio of means") & (curves["binning"] == "quantile")
    return curves[is_drawn].rename(columns={"bin": DISTANCE})


def rising(curves: pd.DataFrame) -> pd.DataFrame:
    """Return how many curves of `delta_by_r` rise from each interval to the next, by variant.

    Returns
    -------
    intervals, average, curves that always rise, curves, and the queries that were left out over all
    curves, because their Avg In is 0
    """
    always = _always_rises(curves).groupby(level=["binning", "averaging"])
    counts = always.agg(["sum", "size"])
    counts = counts.set_axis(["curves that always rise", "curves"], axis=1)
    dropped = curves.groupby(["binning", "averaging"])["n_dropped"].sum()
    page = counts.join(dropped.rename("left out, Avg In = 0 (over all curves)"))
    names = {"binning": "intervals", "averaging": "average"}
    return page.reset_index().rename(columns=names)


def share_rising(curves: pd.DataFrame) -> float:
    """Return the share of all curves of `delta_by_r`, of every variant, that always rise."""
    return float(_always_rises(curves).mean())


def _always_rises(curves: pd.DataFrame) -> pd.Series:
    """Return whether each curve rises from each interval to the next that has a loss."""
    variants = curves.sort_values("bin").groupby(["binning", "averaging", *SYSTEM])
    return variants["delta"].apply(lambda delta: bool((delta.diff().dropna() > 0).all()))


def trend_page(trends: pd.DataFrame) -> pd.DataFrame:
    """Return `trend` of the pooled shifts, for the page."""
    pooled = trends[trends["shift"] == POOLED]
    page = with_interval(pooled, "kendall", unit="")
    names = {
        "model": "model",
        "loss": "change",
        "kendall": "τ [95 % CI]",
        "n_queries": "queries",
        "n_trainings": "training runs",
    }
    return page[list(names)].rename(columns=names)


def changes_by_bin(wide: pd.DataFrame, far: pd.DataFrame, n_bins: int) -> pd.DataFrame:
    """Return Δ of each query of the pooled shifts that has one, with its interval of R.

    Parameters
    ----------
    wide
        Of `pairs`.
    far
        Of `distances`.
    n_bins
        Number of intervals, with equally many queries each.

    Returns
    -------
    The columns of both, bin, delta
    """
    numbered = in_bins(far[far["shift"] == POOLED], n_bins, "quantile")
    single = wide.merge(numbered)
    changes = change_per_query(single["in"], single["out"])
    return single.assign(delta=changes).dropna(subset="delta")


def of_first_shift(wide: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame:
    """Return the queries of the first shift under the dense model, by the first measure.

    Parameters
    ----------
    wide
        Of `pairs`.
    known
        Of `predictors.predictor_table`.

    Returns
    -------
    The columns of both, lost (Avg In minus Out; above 0 is a loss), z (R standardised in each
    cluster, whose model has a scale of its own)
    """
    measure, shift = wide["measure"].iloc[0], wide["shift"].iloc[0]
    is_asked = (wide["model"] == DENSE) & (wide["measure"] == measure) & (wide["shift"] == shift)
    queries = wide[is_asked].merge(known)
    lost = worse(measure) * (queries["in"] - queries["out"])
    z = z_scores(queries["dense: R"], [queries["stratum"]])
    return queries.assign(lost=lost, z=z)


def definition_gaps(predicted: Effects, near: pd.DataFrame) -> pd.DataFrame:
    """Return the τ with the loss of one definition of distance minus that of another.

    On the same queries and draws, for systems that encode queries.

    Parameters
    ----------
    predicted
        Of `predictors.predict`.
    near
        Of `predictors.spaces`.

    Returns
    -------
    shift, model, target, first, second, difference, low, high
    """
    has_space = predicted["model"].isin(near["model"])
    of_loss = predicted[(predicted["target"] == "loss") & has_space]
    return of_loss.contrast("name", GAPS)


def in_words(ranked: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return rankings of predictors for the page: of `measure` and its loss, names in words.

    Parameters
    ----------
    ranked
        Of `predictors.ranking`.
    measure
        Whose Out is a target.

    Returns
    -------
    The columns of `ranked`, of which `name` is called predictor
    """
    targets = {f"out {measure}": f"target: {measure} (Out)", "loss": f"target: loss of {measure}"}
    page = ranked[ranked["target"].isin(targets)].rename(columns={"name": "predictor"})
    target = page["target"].map(targets)
    return page.assign(target=target, predictor=page["predictor"].replace(IN_WORDS))


def place_of_r(ranked: pd.DataFrame, by_system: pd.DataFrame, target: str) -> str:
    """Return where R ranks among the predictors of a target, and whether one exceeds all others.

    Parameters
    ----------
    ranked, by_system
        Of `predictors.ranking`, by target, and by target and model.
    target
        Of both.
    """
    page = with_interval(ranked[ranked["target"] == target], "within", unit="")
    page = page.reset_index(drop=True)
    best = page["name"].replace(IN_WORDS)[0]
    place = page.index[page["name"] == "dense: R"][0]
    systems = by_system[by_system["target"] == target].groupby("model")["better_than"]
    exceeds_all = systems.max() == systems.size() - 1
    names = ", ".join(exceeds_all.index[exceeds_all]) or "none"
    return (
        f"of {len(page)} predictors, {best} has the highest mean τ, {page['within'][0]}; "
        f"R of the dense model ranks {place + 1} ({page['within'][place]}). "
        f"Systems for which one predictor exceeds all others: {names}"
    )
