"""Zhan et al., section 4.2: does extrapolation predict how a model does on collections that it
never saw (Table 5)?

Models of 8 training strategies at 3 sizes, in both regimes, search further collections as they are.
A *point* is a training strategy at one size: its measure in domain, and that of the same model out
of domain.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from interextra.data.queries import Queries, Source
from interextra.models.architectures.bm25 import LABEL as BM25
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
from interextra.stats.tests import holm
from interextra.store.errors import InputError, offenders

IN_DOMAIN, ALL = "in domain", "mean of all"
LABELS = ["method", "n_train", "regime", "seed"]
POINT = ["method", "n_train"]  # what is seen of it in both regimes
WITHIN = "Spearman within a size"  # what size alone does is taken out
STATISTICS, JUDGED = (*METHODS, WITHIN), "Judged@10"
SIDES = dict(zip(REGIMES, ("first", "second"), strict=True))  # whose draws are a regime's


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
        "read: what the models have read of its texts; a name that stands several times is one mean",
    )
    skip_own: AnyEntries = parameter(
        [], "of these, those whose queries are passages: BEIR leaves out a query's own passage"
    )
    complete: bool = parameter(
        True,
        "whether what the qrels do not have is known to be irrelevant, as in a generated world",
    )


def plan(p: Parameters) -> plans.Plan:
    """Frames of runs: `in_domain` (method, n_train, regime, seed); `elsewhere` (collection, part,
    too); `bm25` (both).

    A collection of several parts is the mean of them. `read`: collection → what the models have
    read of it.
    """
    if twice := set(p.more_sizes) & set(p.sizes):
        raise InputError(
            f"parameter 'more_sizes': {offenders(sorted(twice))} stands in 'sizes', too; keep it in one"
        )
    if p.results:
        published_models.read(p.results)  # an error in it is told before anything runs
    ways = plans.systems(p, p.strategies)
    starts = {
        start["model"]: start["recipe"] for start in (start_in(p, entry) for entry in p.starts)
    }
    if twice := ways.keys() & starts.keys():
        raise InputError(
            f"parameters 'strategies' and 'starts': {offenders(sorted(twice))} stands in both"
        )
    of_size = dict.fromkeys(p.trained_sizes, plans.restrain_of(p, p.sizes))
    if p.more_sizes:
        of_size |= dict.fromkeys(p.more_sizes, plans.restrain_of(p, p.more_sizes))
    sets = [one for size in sorted(of_size) for one in plans.in_both_regimes(of_size[size], [size])]
    plans.refuse_unknown("lineage", p.lineage, [*ways, *starts])
    entries = [
        plans.fields(entry, "name", "split", "read", "collection") for entry in p.collections
    ]
    plans.refuse_unknown("skip_own", p.skip_own, [name for name, *_ in entries])

    def elsewhere(row: dict) -> list[dict]:
        rows = []
        for name, split, _, spec in entries:
            run = Run(
                model=row["run"].model,
                queries=(Queries(source=Source.of(spec), split=split),),
                depth=p.depth,
            )
            rows.append(
                row | {"collection": name, "part": spec, "skip_own": name in p.skip_own, "run": run}
            )
        return rows

    test = plans.test_queries(p, p.test_splits)
    inside = plans.runs(p, ways | starts, sets, test)
    lexical = plans.named_recipe(p.bm25)
    plans.refuse_unknown("bm25, architecture", [lexical.architecture], ["bm25"])
    own = {"run": plans.run_of(p, lexical, plans.training_queries(p), p.seed, test)}
    bm25 = [
        {"collection": IN_DOMAIN, "part": p.collection, "skip_own": False} | own,
        *elsewhere(own),
    ]
    frames = {
        "in_domain": inside,
        "elsewhere": [there for row in inside for there in elsewhere(row)],
        "bm25": bm25,
    }
    frames = {
        name: plans.design(rows).rename(columns={"model": "method"})
        for name, rows in frames.items()
    }
    return plans.Plan(sets=of_size, read={name: about for name, _, about, _ in entries}, **frames)


def models(inside: pd.DataFrame) -> pd.DataFrame:
    """A row a model: model, method, n_train, regime, dl_ndcg (its mean in domain), seed. `inside`:
    of `nb.measure`.
    """
    table = inside.groupby(LABELS, sort=False)["value"].mean().rename("dl_ndcg").reset_index()
    named = table.assign(model=table[LABELS].astype(str).agg(", ".join, axis=1))
    return named[["model", "method", "n_train", "regime", "dl_ndcg", "seed"]]


def out_of_domain(outside: pd.DataFrame, bm25: pd.DataFrame, measure: str) -> pd.DataFrame:
    """A row a model and collection: model, collection, measure, value, judged_at_10, n_queries;
    BM25's come last.

    `outside`, `bm25`: values of `measure` and of Judged@10 of the frames `elsewhere` and `bm25` of
    the plan.
    """
    theirs = bm25[bm25["collection"] != IN_DOMAIN].assign(method=BM25, n_train=0, regime="", seed=0)
    by = [*LABELS, "collection", "measure"]
    parts = (
        pd.concat([outside, theirs])
        .groupby([*by, "part"], sort=False)["value"]
        .agg(["mean", "size"])
    )
    means = (
        parts.groupby(by, sort=False)
        .agg(value=("mean", "mean"), n_queries=("size", "sum"))
        .reset_index()
    )
    is_bm25, named = means["method"] == BM25, means[LABELS].astype(str).agg(", ".join, axis=1)
    means = means.assign(model=named.mask(is_bm25, BM25))
    judged = means[means["measure"] == JUDGED].rename(columns={"value": "judged_at_10"})
    found = means[means["measure"] == measure].merge(
        judged[["model", "collection", "judged_at_10"]]
    )
    return found[["model", "collection", "measure", "value", "judged_at_10", "n_queries"]]


def by_collection(ood: pd.DataFrame, seen: dict[str, str]) -> pd.DataFrame:
    """For the page, a row a collection; `ood`: of `out_of_domain`, `seen`: `read` of the plan."""
    models, bm25 = (
        ood[ood["model"] != BM25].groupby("collection"),
        ood[ood["model"] == BM25].set_index("collection"),
    )
    columns = {"seen in pretraining": pd.Series(seen), "BM25": bm25["value"]}
    columns |= {
        f"{end} effective model": models["value"].agg(of)
        for end, of in (("least", "min"), ("most", "max"))
    }
    columns |= {
        "Judged@10, BM25": bm25["judged_at_10"],
        "Judged@10, models": models["judged_at_10"].mean(),
    }
    return (
        pd.DataFrame(columns | {"queries": bm25["n_queries"]})
        .loc[list(seen)]
        .reset_index(names="collection")
    )


def points(
    inside: pd.DataFrame, outside: pd.DataFrame, seed: int, n_boot: int, lineage: Sequence[str] = ()
) -> Effects:
    """Both sides of every point in domain, in each collection and in their mean, on the same draws
    of queries.

    `inside`, `outside`: values of one measure of the frames `in_domain` and `elsewhere` of the
    plan. Returns Effects[collection (IN_DOMAIN, each, ALL), method, n_train, interpolation,
    extrapolation, difference, unit]. Units are drawn, each with all its points: a training
    strategy, as its models share much, so that 8 methods at 3 sizes are not 24 independent points,
    or all of the `lineage`, which start from one another. InputError: a model lacks queries.
    """
    how = {
        "on": "regime",
        "sides": REGIMES,
        "effect": "difference",
        "family": [],
        "seed": seed,
        "n_boot": n_boot,
    }
    by, places = (
        ["collection", "part", *POINT],
        (inside.assign(collection=IN_DOMAIN, part=""), outside),
    )
    parts = pd.concat(
        [effects(values.drop(columns="seed"), by, **how) for values in places], ignore_index=True
    )
    if (
        parts.pivot(index=by[:2], columns=POINT, values="n_queries").nunique(axis=1, dropna=False)
        > 1
    ).any():
        raise InputError("points: a model lacks queries that others have; measure all alike")
    order = pd.MultiIndex.from_frame(parts[POINT])  # points stand in one order everywhere
    place = pd.Index(order.unique()).get_indexer(order)
    each = _mean(
        parts.iloc[np.lexsort([place, pd.factorize(parts["collection"])[0]])],
        ["collection", *POINT],
    )
    table = pd.concat(
        [each, _mean(each[each["collection"] != IN_DOMAIN], POINT).assign(collection=ALL)]
    )
    return table.assign(unit=table["method"].mask(table["method"].isin(lineage), "lineage"))


def _mean(table: Effects, by: list[str]) -> Effects:
    """The mean of the rows that share these labels, and of their draws."""
    groups, columns = table.groupby(by, sort=False), [*REGIMES, "difference"]
    drawn = [
        [part.drawn(side).mean(axis=0) for _, part in groups]
        for side in ("first", "second", "effect")
    ]
    return Effects.of(groups[columns].mean().reset_index(), by, columns, *drawn)


def leads(points: Effects, bm25: pd.DataFrame, seed: int) -> pd.DataFrame:
    """What each model is ahead of BM25 in domain: method, n_train, regime, lead, lead_low (of its
    interval).
    """
    inside = points[points["collection"] == IN_DOMAIN]
    rival = effects(bm25, [], seed=seed, n_boot=inside.drawn().shape[1])
    ahead = pd.DataFrame(inside).melt(POINT, list(SIDES), "regime", "lead")
    drawn = np.concatenate([inside.drawn(side) for side in SIDES.values()]) - rival.drawn()
    low = [interval(row)[0] for row in drawn]
    return ahead.assign(lead=ahead["lead"] - rival["mean"].item(), lead_low=low)


def correlated(
    points: Effects, regime: str, where: str, seed: int, **how
) -> tuple[float, np.ndarray]:
    """Correlation of a regime in domain with the same one in a collection, and its draws; `how`: of
    `correlations`.
    """
    sides = [points[points["collection"] == name] for name in (IN_DOMAIN, where)]
    drawn, unit = (
        [np.ascontiguousarray(side.drawn(SIDES[regime]).T) for side in sides],
        sides[0]["unit"],
    )
    value = float(
        correlations(*(side[regime] for side in sides), np.ones((1, len(unit))), **how)[0]
    )
    draws = correlations(*drawn, drawn_groups(unit, seed, len(drawn[0])), **how)
    return value, stretched_z(draws, value, unit.nunique())


def table_5(points: Effects, seed: int) -> Effects:
    """Does what a model does in domain predict what it does out of domain? A row a collection and
    statistic.

    Returns Effects[collection, statistic, interpolation, extrapolation, difference (extrapolation
    less interpolation), p_value, p_holm, n_models (in a regime)], and the intervals `ENDS` on the
    draws of `points`. p_value is Steiger's, for which points count as independent (too small a
    value, then), Holm's over the collections; Kendall has none.
    """
    of, rows, drawn = dict(iter(points.groupby("collection", sort=False))), [], []
    inside = of.pop(IN_DOMAIN)
    for name, statistic in itertools.product(
        of, STATISTICS if inside["n_train"].nunique() > 1 else METHODS
    ):
        how = {
            "method": statistic.split()[0],
            "within": inside["n_train"] if statistic == WITHIN else None,
        }
        (one, of_one), (two, of_two) = (
            correlated(points, regime, name, seed, **how) for regime in REGIMES
        )
        row = {"collection": name, "statistic": statistic}
        drawn.append((of_one, of_two, of_two - of_one))
        for (column, ends), value, side in zip(
            published.ENDS.items(), (one, two, two - one), drawn[-1], strict=True
        ):
            row |= {column: value} | dict(zip(ends, ends_of(side), strict=True))
        pairs = [(inside[regime], of[name][regime]) for regime in REGIMES]
        row["p_value"] = np.nan if how["method"] == "Kendall" else dependent(pairs, **how)
        rows.append(row | {"p_holm": np.nan, "n_models": len(inside)})
    table = pd.DataFrame(rows)
    table["p_holm"] = (
        table[table["collection"] != ALL]
        .groupby("statistic")["p_value"]
        .transform(lambda p: holm(p))
    )
    return Effects.of(
        table, ["collection", "statistic"], list(published.ENDS), *zip(*drawn, strict=True)
    )


def claimed(table: Effects, measure: str, n_queries: int, n_trainings: int) -> Effects:
    """The correlations of `table_5` with the mean of all collections, a row a regime and statistic,
    for the claims.

    Returns Effects[statistic, regime, measure, estimate, n_models, n_queries, n_trainings,
    drawn_units]. Where a draw of one way of training alone has no correlation, another draw stands
    for it, if they are 1 % or fewer.
    """
    counts = {"n_queries": n_queries, "n_trainings": n_trainings, DRAWN: "models"}
    mean = table[table["collection"] == ALL]
    both = pd.DataFrame(mean).melt(["statistic", "n_models"], list(REGIMES), "regime", "estimate")
    drawn = np.concatenate([mean.drawn(side) for side in ("first", "second")])
    if 0 < (undefined := ~np.isfinite(drawn).all(axis=0)).mean() <= 0.01:
        drawn[:, undefined] = drawn[:, ~undefined][:, : undefined.sum()]
    return Effects.of(
        both.assign(measure=measure, **counts), ["statistic", "regime"], ["estimate"], drawn
    )


def gate(leads: pd.DataFrame) -> pd.DataFrame:
    """The median of `leads` at the largest size, as `Session.conclude` takes it: regime, lead,
    lead_low.
    """
    largest = leads[leads["n_train"] == leads["n_train"].max()]
    return largest.groupby("regime", sort=False)[["lead", "lead_low"]].median().reset_index()


def dependent(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]], method: str, within: Sequence | None = None
) -> float:
    """Steiger's p-value of the difference of two correlations over the same points; a label costs
    one of them.
    """
    sides = [side for pair in pairs for side in pair]
    once = np.ones((1, len(sides[0])))
    matrix = np.array(
        [[correlations(one, other, once, method, within)[0] for other in sides] for one in sides]
    )
    n = len(sides[0]) - (0 if within is None else len(set(within)) - 1)
    return steiger(matrix, n)[1]
