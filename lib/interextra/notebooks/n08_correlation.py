"""Notebook 08: whether extrapolation predicts how a model does on other collections.

Zhan et al., section 4.2, Table 5. Models of 8 training strategies at 3 sizes, in both regimes,
search further collections, which they never saw, as they are. A *point* is a training strategy at
one size: its measure in domain, and that of the same model out of domain.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from interextra.data.queries import Queries, Source
from interextra.measures import pool
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.recipe import Recipe
from interextra.models.search.run import Run
from interextra.notebooks import plans
from interextra.notebooks.n06_pretraining import start_in
from interextra.notebooks.parameters import (
    AnyEntries,
    AnySizes,
    Entries,
    Entry,
    Measure,
    Names,
    PretrainingParameters,
    ReSTrainParameters,
    Seeds,
    Share,
    Sizes,
    parameter,
)
from interextra.papers import published, published_models
from interextra.splits.restrain import ReSTrain
from interextra.splits.split import REGIMES
from interextra.stats.bootstrap import interval
from interextra.stats.correlation import (
    METHODS,
    correlations,
    drawn_groups,
    ends_of,
    steiger,
    stretched_z,
)
from interextra.stats.effects import DRAWN, Effects, effects
from interextra.stats.formatting import spelled, with_interval, with_unit
from interextra.stats.tests import holm
from interextra.store import Store
from interextra.store.errors import InputError, offenders

IN_DOMAIN, ALL = "in domain", "mean of all"
LABELS = ["method", "n_train", "regime", "seed"]
POINT = ["method", "n_train"]  # what is seen of it in both regimes
WITHIN = "Spearman within a size"  # what size alone does is taken out
STATISTICS = (*METHODS, WITHIN)
JUDGED = "Judged@10"
SIDES = dict(zip(REGIMES, ("first", "second"), strict=True))  # whose draws are a regime's
Rows = list[dict[str, Any]]  # of a design


class Parameters(ReSTrainParameters, PretrainingParameters):
    """Parameters of notebook 08, the correlation with other collections."""

    trained_sizes: Sizes = parameter(
        [112, 1600], "training-set sizes, some of `sizes`", paper="all three"
    )
    more_sizes: AnySizes = parameter(
        [],
        "further sizes, sampled separately so that the training sets of `sizes` stay as they are",
    )
    seeds: Seeds = parameter([1], "seeds of the training runs and of the pretraining before them")
    measure: Measure = parameter("nDCG@10", "in domain and on other collections, as in the paper")
    results: str = parameter(
        "", "scores of published models, one row per model; empty: the committed result is shown"
    )
    floor: Share = parameter(
        0.3, "least nDCG@10 on MS MARCO dev for a published model to count as a retrieval model"
    )
    test_splits: Names = parameter(
        ["test", "graded"], "test queries in domain", paper="the 97 judged of DL19 and DL20"
    )
    recipes: Entries = parameter(
        ["bm25", "mini-dense"], "BM25, and the dense system of that encoder"
    )
    bm25: Entry = parameter(
        {"recipe": "bm25", "k1": [0.9], "b": [0.4]}, "the BM25 to beat, as it comes"
    )
    strategies: Entries = parameter(
        [
            {"label": "Random", "recipe": "mini-dense"},
            {"label": "STAR", "recipe": "mini-star"},
            {"label": "TCT-ColBERT", "recipe": "mini-tct"},
        ],
        "training strategies",
        paper="random and hard negatives, distillation, all from BERT",
    )
    starts: Entries = parameter(
        [
            {"label": "words", "objective": "words", "text": "other"},
            {"label": "order", "objective": "order", "text": "other"},
            {"label": "Condenser", "objective": "condenser", "text": "other"},
            {"label": "coCondenser, other text", "objective": "spans", "text": "other"},
            {"label": "coCondenser, target", "objective": "spans", "text": "target"},
        ],
        "as in notebook 06",
        paper="five further starts with random negatives",
    )
    lineage: Names = parameter(
        ["Random", "STAR"],
        "training strategies that start from one another: one unit of the bootstrap",
    )

    collections: Entries = parameter(
        [
            {
                "name": "hobby questions",
                "split": "test",
                "read": "similar texts (pretraining on other text)",
                "collection": "mini:ood-hobby-questions,seed=4",
            },
            {
                "name": "hobby claims",
                "split": "test",
                "read": "similar texts (pretraining on other text)",
                "collection": "mini:ood-hobby-claims,seed=4",
            },
            {
                "name": "hobby titles",
                "split": "test",
                "read": "similar texts (pretraining on other text)",
                "collection": "mini:ood-hobby-titles,seed=4",
            },
            {
                "name": "hobby duplicates",
                "split": "test",
                "read": "no",
                "collection": "mini:ood-hobby-duplicates,seed=4",
            },
            {
                "name": "affairs questions",
                "split": "test",
                "read": "similar texts (pretraining on other text)",
                "collection": "mini:ood-affairs-questions,seed=4",
            },
            {
                "name": "affairs keywords",
                "split": "test",
                "read": "similar texts (pretraining on other text)",
                "collection": "mini:ood-affairs-keywords,seed=4",
            },
            {
                "name": "affairs comparisons",
                "split": "test",
                "read": "similar texts (pretraining on other text)",
                "collection": "mini:ood-affairs-comparisons,seed=4",
            },
            {
                "name": "affairs lookup",
                "split": "test",
                "read": "similar texts (pretraining on other text)",
                "collection": "mini:ood-affairs-lookup,seed=4",
            },
        ],
        "read: what the models have read of its texts; a name that stands several times is one "
        "mean",
    )
    skip_own: AnyEntries = parameter(
        [], "of these, those whose queries are passages: BEIR leaves out a query's own passage"
    )
    complete: bool = parameter(
        True,
        "whether what the qrels do not have is known to be irrelevant, as in a generated world",
    )


class Correlation(NamedTuple):
    """A correlation, or the difference of two, and its draws float[n_boot]."""

    value: float
    draws: np.ndarray


class OtherCollection(NamedTuple):
    """A collection that no model is trained on, or a part of one."""

    name: str
    split: str
    read: str  # what the models have read of its texts
    spec: str


def plan(p: Parameters) -> plans.Plan:
    """Plan the runs of all models, in domain and on the further collections.

    A collection of several parts is the mean of them.

    Returns
    -------
    in_domain
        method, n_train, regime, seed, run.
    elsewhere
        As `in_domain`, and collection, part (its spec), skip_own.
    bm25
        BM25 on both: collection, part, skip_own, run.
    sets
        Training-set size → ReSTrain.
    read
        Collection → what the models have read of it.
    """
    _refuse_shared("parameter 'more_sizes'", p.more_sizes, p.sizes, "'sizes', too; keep it in one")
    if p.results:
        published_models.read(p.results)  # an error in it is told before anything runs
    systems = _systems(p)
    split_of = _splits(p)
    sets = []
    for size in sorted(split_of):
        sets += plans.in_both_regimes(split_of[size], [size])
    plans.refuse_unknown("lineage", p.lineage, systems)
    collections = _collections(p)
    test = plans.test_queries(p, p.test_splits)
    in_domain = plans.runs(p, systems, sets, test)
    bm25 = {"run": _bm25(p, test)}
    bm25_in_domain = {"collection": IN_DOMAIN, "part": p.collection, "skip_own": False} | bm25
    return plans.Plan(
        sets=split_of,
        read={each.name: each.read for each in collections},
        in_domain=_design(in_domain),
        elsewhere=_design(_elsewhere(p, in_domain, collections)),
        bm25=_design([bm25_in_domain, *_elsewhere(p, [bm25], collections)]),
    )


def _refuse_shared(where: str, one: Iterable, other: Iterable, place: str) -> None:
    """Raise an InputError for what stands in two parameters."""
    shared = set(one).intersection(other)
    if shared:
        raise InputError(f"{where}: {offenders(sorted(shared))} stands in {place}")


def _splits(p: Parameters) -> dict[int, ReSTrain]:
    """Return training-set size → split that it is a size of."""
    split = plans.restrain_of(p, p.sizes)
    split_of = dict.fromkeys(p.trained_sizes, split)
    if p.more_sizes:
        further = plans.restrain_of(p, p.more_sizes)
        split_of |= dict.fromkeys(p.more_sizes, further)
    return split_of


def _systems(p: Parameters) -> dict[str, Recipe]:
    """Return label → recipe of all training strategies and initialisations."""
    strategies = plans.systems(p, p.strategies)
    starts = {}
    for entry in p.starts:
        start = start_in(p, entry)
        starts[start["model"]] = start["recipe"]
    _refuse_shared("parameters 'strategies' and 'starts'", strategies, starts, "both")
    return strategies | starts


def _collections(p: Parameters) -> list[OtherCollection]:
    """Return the further collections of the parameters."""
    collections = [
        OtherCollection(*plans.fields(entry, "name", "split", "read", "collection"))
        for entry in p.collections
    ]
    plans.refuse_unknown("skip_own", p.skip_own, [each.name for each in collections])
    return collections


def _bm25(p: Parameters, test: tuple[Queries, ...]) -> Run:
    """Return the run of the BM25 to beat, in domain."""
    recipe = plans.named_recipe(p.bm25)
    plans.refuse_unknown("bm25, architecture", [recipe.architecture], ["bm25"])
    train = plans.training_queries(p)
    return plans.run_of(p, recipe, train, p.seed, test)


def _elsewhere(p: Parameters, rows: Rows, collections: list[OtherCollection]) -> Rows:
    """Return rows of the models of some rows that search each further collection."""
    elsewhere = []
    for row, other in itertools.product(rows, collections):
        source = Source.of(other.spec)
        queries = Queries(source=source, split=other.split)
        model = row["run"].model
        run = Run(model=model, queries=(queries,), depth=p.depth)
        skip_own = other.name in p.skip_own
        labels = {"collection": other.name, "part": other.spec, "skip_own": skip_own}
        elsewhere.append(row | labels | {"run": run})
    return elsewhere


def _design(rows: Rows) -> pd.DataFrame:
    """Return a row a run, whose system is called a method here."""
    return plans.design(rows).rename(columns={"model": "method"})


def models(inside: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of each model in domain.

    Parameters
    ----------
    inside
        Of `nb.measure`.

    Returns
    -------
    model, method, n_train, regime, dl_ndcg (its mean in domain), seed; a row a model
    """
    means = inside.groupby(LABELS, sort=False)["value"].mean()
    table = means.rename("dl_ndcg").reset_index()
    named = table.assign(model=_model_names(table))
    return named[["model", "method", "n_train", "regime", "dl_ndcg", "seed"]]


def _model_names(table: pd.DataFrame) -> pd.Series:
    """Return the name of the model of each row: its labels."""
    labels = table[LABELS].astype(str)
    return labels.agg(", ".join, axis=1)


def out_of_domain(outside: pd.DataFrame, bm25: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the mean of each model in each further collection; BM25's come last.

    Parameters
    ----------
    outside, bm25
        Values of `measure` and of Judged@10 of the frames `elsewhere` and `bm25` of the plan.
    measure
        The measure.

    Returns
    -------
    model, collection, measure, value, judged_at_10, n_queries; a row a model and collection
    """
    theirs = bm25[bm25["collection"] != IN_DOMAIN]
    theirs = theirs.assign(method=BM25, n_train=0, regime="", seed=0)
    means = _means_of_parts(pd.concat([outside, theirs]))
    is_bm25 = means["method"] == BM25
    means["model"] = _model_names(means).mask(is_bm25, BM25)
    judged = means[means["measure"] == JUDGED]
    judged = judged[["model", "collection", "value"]].rename(columns={"value": "judged_at_10"})
    table = means[means["measure"] == measure].merge(judged, on=["model", "collection"])
    return table[["model", "collection", "measure", "value", "judged_at_10", "n_queries"]]


def _means_of_parts(values: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of each model, collection and measure over the parts, and all queries."""
    by = [*LABELS, "collection", "measure"]
    parts = values.groupby([*by, "part"], sort=False)
    of_parts = parts["value"].agg(["mean", "size"])
    collections = of_parts.groupby(by, sort=False)
    means = collections.agg(value=("mean", "mean"), n_queries=("size", "sum"))
    return means.reset_index()


def by_collection(ood: pd.DataFrame, seen: dict[str, str]) -> pd.DataFrame:
    """Return a row a collection, for the page.

    Parameters
    ----------
    ood
        Of `out_of_domain`.
    seen
        `read` of the plan.
    """
    is_bm25 = ood["model"] == BM25
    bm25 = ood[is_bm25].set_index("collection")
    trained = ood[~is_bm25].groupby("collection")
    table = pd.DataFrame(
        {
            "seen in pretraining": pd.Series(seen),
            "BM25": bm25["value"],
            "least effective model": trained["value"].min(),
            "most effective model": trained["value"].max(),
            "Judged@10, BM25": bm25["judged_at_10"],
            "Judged@10, models": trained["judged_at_10"].mean(),
            "queries": bm25["n_queries"],
        }
    )
    return table.loc[list(seen)].reset_index(names="collection")


def points(
    inside: pd.DataFrame,
    outside: pd.DataFrame,
    seed: int,
    n_boot: int,
    lineage: Sequence[str] = (),
) -> Effects:
    """Return both sides of every point in domain, in each collection and in their mean.

    All are on the same draws of queries. Units are drawn, each with all its points: a training
    strategy, as its models share much, so that 8 methods at 3 sizes are not 24 independent points,
    or all of the `lineage`, which start from one another.

    Parameters
    ----------
    inside, outside
        Values of one measure of the frames `in_domain` and `elsewhere` of the plan.
    seed, n_boot
        Of the draws of queries.
    lineage
        Methods that are one unit.

    Returns
    -------
    Effects[collection (IN_DOMAIN, each, ALL), method, n_train, interpolation, extrapolation,
    difference, unit]

    Raises
    ------
    InputError
        A model lacks queries.
    """
    by = ["collection", "part", *POINT]
    tables = []
    for values in (inside.assign(collection=IN_DOMAIN, part=""), outside):
        table = effects(
            values.drop(columns="seed"),
            by,
            on="regime",
            sides=REGIMES,
            effect="difference",
            family=[],
            seed=seed,
            n_boot=n_boot,
        )
        tables.append(table)
    parts = pd.concat(tables, ignore_index=True)
    _refuse_fewer_queries(parts)
    each = _mean(_in_one_order(parts), ["collection", *POINT])
    further = each[each["collection"] != IN_DOMAIN]
    mean = _mean(further, POINT).assign(collection=ALL)
    table = pd.concat([each, mean])
    is_lineage = table["method"].isin(lineage)
    return table.assign(unit=table["method"].mask(is_lineage, "lineage"))


def _refuse_fewer_queries(parts: Effects) -> None:
    """Raise an InputError for points that are measured on fewer queries than others."""
    n_queries = parts.pivot(index=["collection", "part"], columns=POINT, values="n_queries")
    if (n_queries.nunique(axis=1, dropna=False) > 1).any():
        raise InputError("points: a model lacks queries that others have; measure all alike")


def _in_one_order(parts: Effects) -> Effects:
    """Return the rows by collection, and the points in one order in all of them."""
    point = parts.groupby(POINT, sort=False).ngroup()
    collection = parts.groupby("collection", sort=False).ngroup()
    return parts.iloc[np.lexsort([point, collection])]


def _mean(table: Effects, by: list[str]) -> Effects:
    """Return the mean of the rows that share these labels, and of their draws."""
    groups = table.groupby(by, sort=False)
    columns = [*REGIMES, "difference"]
    means = groups[columns].mean().reset_index()
    parts = [part for _, part in groups]
    drawn = []
    for side in (*SIDES.values(), "effect"):
        mean_draws = [part.drawn(side).mean(axis=0) for part in parts]
        drawn.append(mean_draws)
    return Effects.of(means, by, columns, *drawn)


def _drawn_by_regime(table: Effects) -> np.ndarray:
    """Return the draws of one regime after those of the other, as `melt` has them in rows."""
    return np.concatenate([table.drawn(side) for side in SIDES.values()])


def leads(points: Effects, bm25: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return what each model is ahead of BM25 in domain.

    Returns
    -------
    method, n_train, regime, lead, lead_low (of its interval)
    """
    inside = points[points["collection"] == IN_DOMAIN]
    values = pd.DataFrame(inside).melt(POINT, REGIMES, "regime", "lead")
    drawn = _drawn_by_regime(inside)
    rival = effects(bm25, [], seed=seed, n_boot=drawn.shape[1])
    lead = values["lead"] - rival["mean"].item()
    lead_low = [interval(draws)[0] for draws in drawn - rival.drawn()]
    return values.assign(lead=lead, lead_low=lead_low)


def correlated(
    points: Effects,
    regime: str,
    where: str,
    seed: int,
    method: str,
    within: Sequence | None = None,
) -> Correlation:
    """Correlate a regime in domain with the same one in a collection.

    Parameters
    ----------
    points
        Of `points`.
    regime
        Interpolation or extrapolation.
    where
        The collection, or ALL.
    seed
        Of the draws of units.
    method, within
        Of `correlations`.
    """
    inside = points[points["collection"] == IN_DOMAIN]
    outside = points[points["collection"] == where]
    unit = inside["unit"]
    once = np.ones((1, len(unit)))
    plain = correlations(inside[regime], outside[regime], once, method, within)
    value = plain.item()
    side = SIDES[regime]
    x = np.ascontiguousarray(inside.drawn(side).T)
    y = np.ascontiguousarray(outside.drawn(side).T)
    counts = drawn_groups(unit, seed, len(x))
    draws = correlations(x, y, counts, method, within)
    return Correlation(value, stretched_z(draws, value, unit.nunique()))


def table_5(points: Effects, seed: int) -> Effects:
    """Return how well what a model does in domain predicts what it does out of domain.

    p_value is Steiger's, for which points count as independent (too small a value, then), Holm's
    over the collections; Kendall has none.

    Returns
    -------
    Effects[collection, statistic, interpolation, extrapolation, difference (extrapolation less
    interpolation), p_value, p_holm, n_models (in a regime)], and the intervals `ENDS` on the draws
    of `points`
    """
    collections = [name for name in points["collection"].unique() if name != IN_DOMAIN]
    has_sizes = points["n_train"].nunique() > 1
    statistics = STATISTICS if has_sizes else METHODS
    rows, drawn = [], []
    for name, statistic in itertools.product(collections, statistics):
        row, draws = _prediction(points, name, statistic, seed)
        rows.append(row)
        drawn.append(draws)
    table = pd.DataFrame(rows)
    single = table[table["collection"] != ALL]
    by_statistic = single.groupby("statistic")["p_value"]
    table["p_holm"] = by_statistic.transform(holm)
    by = ["collection", "statistic"]
    draws_by_column = zip(*drawn, strict=True)
    return Effects.of(table, by, list(published.ENDS), *draws_by_column)


def _prediction(
    points: Effects, where: str, statistic: str, seed: int
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return a row of Table 5, and the draws of both correlations and of their difference."""
    inside = points[points["collection"] == IN_DOMAIN]
    outside = points[points["collection"] == where]
    method = statistic.split()[0]
    within = inside["n_train"] if statistic == WITHIN else None
    row: dict[str, Any] = {"collection": where, "statistic": statistic}
    drawn = []
    for column, estimate in _compared(points, where, seed, method, within).items():
        low, high = published.ENDS[column]
        row[column] = estimate.value
        row[low], row[high] = ends_of(estimate.draws)
        drawn.append(estimate.draws)
    row["p_value"] = _p_value(inside, outside, method, within)
    row["p_holm"] = np.nan
    row["n_models"] = len(inside)
    return row, drawn


def _compared(
    points: Effects, where: str, seed: int, method: str, within: Sequence | None
) -> dict[str, Correlation]:
    """Return the correlations of both regimes and their difference, by the columns of `ENDS`."""
    inter, extra = [correlated(points, regime, where, seed, method, within) for regime in REGIMES]
    difference = Correlation(extra.value - inter.value, extra.draws - inter.draws)
    return dict(zip(published.ENDS, (inter, extra, difference), strict=True))


def _p_value(inside: Effects, outside: Effects, method: str, within: Sequence | None) -> float:
    """Return Steiger's p-value of the regimes' difference; NaN with Kendall, which has none."""
    if method == "Kendall":
        return np.nan
    pairs = [(inside[regime], outside[regime]) for regime in REGIMES]
    return dependent(pairs, method, within)


def claimed(table: Effects, measure: str, n_queries: int, n_trainings: int) -> Effects:
    """Return the correlations of `table_5` with the mean of all collections, for the claims.

    Where a draw of one training strategy alone has no correlation, another draw stands for it, if
    they are 1 % or fewer.

    Returns
    -------
    Effects[statistic, regime, measure, estimate, n_models, n_queries, n_trainings, drawn_units], a
    row a regime and statistic
    """
    mean = table[table["collection"] == ALL]
    labels = ["statistic", "n_models"]
    estimates = pd.DataFrame(mean).melt(labels, REGIMES, "regime", "estimate")
    counts = {"n_queries": n_queries, "n_trainings": n_trainings, DRAWN: "models"}
    estimates = estimates.assign(measure=measure, **counts)
    drawn = _drawn_by_regime(mean)
    is_undefined = ~np.isfinite(drawn).all(axis=0)
    if 0 < is_undefined.mean() <= 0.01:
        known = drawn[:, ~is_undefined]
        n_undefined = is_undefined.sum()
        drawn[:, is_undefined] = known[:, :n_undefined]
    return Effects.of(estimates, ["statistic", "regime"], ["estimate"], drawn)


def gate(leads: pd.DataFrame) -> pd.DataFrame:
    """Return the median of `leads` at the largest size, as `Session.conclude` takes it.

    Returns
    -------
    regime, lead, lead_low
    """
    n_train = leads["n_train"]
    by_regime = leads[n_train == n_train.max()].groupby("regime", sort=False)
    return by_regime[["lead", "lead_low"]].median().reset_index()


def dependent(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
    method: str,
    within: Sequence | None = None,
) -> float:
    """Return Steiger's p-value of the difference of two correlations over the same points.

    A label costs one of them.

    Parameters
    ----------
    pairs
        The two sides of each correlation, float[points].
    method, within
        Of `correlations`.
    """
    sides = [side for pair in pairs for side in pair]
    n_points = len(sides[0])
    once = np.ones((1, n_points))
    matrix = []
    for one in sides:
        row = [correlations(one, other, once, method, within).item() for other in sides]
        matrix.append(row)
    if within is not None:
        n_points -= len(set(within)) - 1
    return steiger(np.array(matrix), n_points)[1]


def training_runs(in_domain: pd.DataFrame) -> pd.DataFrame:
    """Return what is trained: training strategy, training queries, regimes, seeds, models.

    A row a training strategy; `in_domain` is the frame of the plan.
    """
    rows = []
    for method, runs in in_domain.groupby("method", sort=False):
        row = {"training strategy": method}
        for column, name in (("n_train", "training queries"), ("regime", ""), ("seed", "seeds")):
            values = runs[column].unique()
            row[name or "regimes"] = ", ".join(map(str, values))
        rows.append(row | {"models": len(runs)})
    return pd.DataFrame(rows)


def models_page(models: pd.DataFrame) -> pd.DataFrame:
    """Return the means of `models` for the page: a column a training-set size and regime."""
    means = models.pivot_table("dl_ndcg", "method", ["n_train", "regime"], sort=False)
    means.columns = [f"{size:,}, {regime}" for size, regime in means]
    return means.reset_index(names="training strategy")


def in_domain_of(bm25: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return BM25's values of a measure in domain, of all that were measured of it."""
    is_inside = bm25["collection"] == IN_DOMAIN
    return bm25[is_inside & (bm25["measure"] == measure)]


def scores_by_point(models: pd.DataFrame, ood: pd.DataFrame) -> pd.DataFrame:
    """Return both sides of each point: in domain, and the mean of all collections.

    Parameters
    ----------
    models
        Of `models`.
    ood
        Of `out_of_domain`.

    Returns
    -------
    dl_ndcg, elsewhere: means over seeds, indexed by regime, method, n_train
    """
    of_model = ood.groupby("model")["value"].mean()
    scores = models.assign(elsewhere=models["model"].map(of_model))
    by_point = scores.groupby(["regime", *POINT], sort=False)
    return by_point[["dl_ndcg", "elsewhere"]].mean()


def prediction_sentence(table: pd.DataFrame) -> str:
    """Return whether the interval of the regimes' difference includes 0, in words.

    `table`: of `table_5`; the row is Spearman's for the mean of all collections.
    """
    row = _row_of_mean(table, "Spearman")
    low, high = row["difference_low"], row["difference_high"]
    includes = "includes" if low <= 0 <= high else "excludes"
    return f"the interval of the difference, [{low:+.2f}, {high:+.2f}], {includes} 0"


def _row_of_mean(table: pd.DataFrame, statistic: str) -> pd.Series:
    """Return the row of `table_5` with the mean of all collections."""
    is_asked = (table["collection"] == ALL) & (table["statistic"] == statistic)
    return table[is_asked].iloc[0]


def with_mean_by_regime(table: pd.DataFrame) -> pd.DataFrame:
    """Return Spearman's correlation with the mean of all collections, a row a regime, to draw.

    `table`: of `table_5`.

    Returns
    -------
    DataFrame[regime, correlation, low, high]
    """
    of_mean = _row_of_mean(table, "Spearman")
    rows = []
    for regime in REGIMES:
        low, high = published.ENDS[regime]
        rows.append((regime, of_mean[regime], of_mean[low], of_mean[high]))
    return pd.DataFrame(rows, columns=["regime", "correlation", "low", "high"])


def with_mean_sentence(table: pd.DataFrame) -> str:
    """Return both correlations with the mean of all collections, and their difference, in words."""
    row = published.correlations_page(table, "Spearman").set_index("collection").loc[ALL]
    return (
        "Spearman correlation of in-domain scores with the mean of all collections (individual "
        f"95 % intervals): extrapolation {row['extrapolation']}, interpolation "
        f"{row['interpolation']}, difference {row['difference']}."
    )


def alike_sentence(alike: float, n_pairs: int) -> str:
    """Return how strongly the in-domain scores of the two regimes correlate, and what follows.

    `alike`: Spearman's correlation over `n_pairs` pairs of models.
    """
    end = ", so strongly that this design hardly separates them." if alike > 0.9 else "."
    return (
        f"The in-domain scores of the two regimes correlate at {alike:.2f} (Spearman, {n_pairs} "
        f"pairs of models){end}"
    )


def above_bm25(points: Effects, leads: pd.DataFrame) -> Effects:
    """Return the points whose models of both regimes beat BM25 in domain.

    `leads`: of `leads`.
    """
    beats = _beats(leads).all(axis=1)
    names = pd.MultiIndex.from_frame(points[POINT])
    return points[beats.loc[names].to_numpy()]


def _beats(leads: pd.DataFrame) -> pd.DataFrame:
    """Return whether each point's interval over BM25 in domain is above 0, a column a regime."""
    judged = leads.assign(beats=leads["lead_low"] > 0)
    return judged.pivot(index=POINT, columns="regime", values="beats")


def bm25_sentence(leads: pd.DataFrame, ood: pd.DataFrame, measure: str) -> str:
    """Return how many models beat BM25 in domain, and the best of them elsewhere, in words."""
    beats = _beats(leads)
    counts = [f"{beats[regime].sum()} of {len(beats)} ({regime})" for regime in REGIMES]
    of_model = ood.groupby("model")["value"].mean()
    most = of_model.drop(BM25).max()
    return (
        f"Models that beat BM25 in domain: {' and '.join(counts)}. Mean {measure} of all "
        f"collections: most effective model {most:.2f}, BM25 {of_model[BM25]:.2f}."
    )


def spearman_page(table: pd.DataFrame) -> pd.DataFrame:
    """Return Spearman's correlations of `table_5` for the page; a table without rows as it is."""
    return published.correlations_page(table, "Spearman") if len(table) else table


def published_sentences(theirs: pd.DataFrame) -> list[str]:
    """Return what the published correlations show with a test, in words.

    `theirs`: of `papers.published.zhan_correlations`.
    """
    spearman = theirs[theirs["statistic"] == "Spearman"]
    is_above = spearman["difference"] > 0
    n_negative = (is_above & (spearman["extrapolation"] < 0)).sum()
    n_single = (spearman["p_value"] < 0.05).sum()
    n_holm = (spearman["p_holm"] < 0.05).sum()
    return [
        f"{is_above.sum()} of {len(spearman)} published differences are above 0; in {n_negative} "
        "of these both correlations are negative.",
        f"Differences with p < .05: {n_single}; after Holm's correction: {n_holm}.",
    ]


def beside_sentences(table: Effects) -> list[str]:
    """Return our differences beside the published ones, with the verdict, in words.

    `table`: of `table_5`; one sentence where it has none of the paper's collections.
    """
    beside = published.beside_differences(table)
    if beside.empty:
        return ["This run measures none of the paper's collections."]
    sentences = []
    for row in beside.itertuples():
        ours = spelled(row.difference, row.low, row.high, unit="")
        theirs = with_unit(row.published, "")
        sentences.append(f"{row.collection}: ours {ours}, published {theirs} ({row.verdict})")
    return sentences


def whose(is_ours: bool, table: pd.DataFrame) -> str:
    """Return whose table `nb.optional` has given: of this run, the committed one, or none."""
    if is_ours:
        return "This run:"
    return "Committed result of the profile small:" if len(table) else "No such result."


def ranges(plan: plans.Plan, store: Store, seed: int) -> pd.DataFrame:
    """Return how much unjudged passages leave open of each model, and of BM25.

    Without collections whose queries retrieve themselves.

    Returns
    -------
    collection, method, n_train, regime, and the four values of `pool.pool_range`
    """
    is_inside = plan.bm25["collection"] == IN_DOMAIN
    theirs = plan.bm25[~is_inside].assign(method=BM25, n_train=0, regime="")
    searched = pd.concat([plan.elsewhere, theirs])
    others = searched[~searched["skip_own"].astype(bool)]
    return pool.ranges(others, store, ["collection", *POINT, "regime"], seed)


def published_models_page(found: pd.DataFrame) -> pd.DataFrame:
    """Return the correlations of published models with the mean of BEIR, for the page.

    `found`: of `published_models.correlated`, or without rows; a row a subset of the models.
    """
    if found.empty:
        return found
    of_mean = found[found["collection"] == published_models.ALL]
    names = {"n_models": "models", "n_families": "families"}
    page = with_interval(of_mean, "value", unit="").rename(columns=names)
    wide = page.pivot(index=["subset", *names.values()], columns="statistic", values="value")
    return wide.rename_axis(columns=None).reset_index().sort_values("models", ascending=False)
