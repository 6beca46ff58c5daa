"""Notebook 12: how much of what fine-tuning gains is interpolation.

And what near and far queries say of a model.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field

from interextra.data.queries import Part
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.architectures.dense import LABEL as DENSE
from interextra.models.planning import model_of
from interextra.models.recipe import Recipe, changed, recipe_name
from interextra.models.search.run import Run
from interextra.models.search.vectors import Vectors
from interextra.notebooks import n11_pool_bias as pool_bias
from interextra.notebooks import plans
from interextra.notebooks.parameters import (
    Count,
    Entry,
    Measures,
    Million,
    Names,
    RunParameters,
    Seeds,
    Sizes,
    Thousands,
    parameter,
)
from interextra.own import api, merge, nested, probe
from interextra.own import splitting as own
from interextra.own.finished import with_leads
from interextra.own.split_folder import SplitFolder
from interextra.own.values import values_of_run
from interextra.splits.restrain import ReSTrain
from interextra.splits.shift import OUTSIDE, Shift
from interextra.splits.similarity import near_half, nearest
from interextra.stats.bootstrap import interval, ratio
from interextra.stats.effects import Effects, effects
from interextra.stats.formatting import with_interval
from interextra.store import InputError, Store, offenders

BASE = "base"
RANDOM = "random split"
FAR = "far queries"
OUT = "left-out kind"
SPARED = "left-out kind, unexposed"
CONDITIONS = [BM25, BASE, RANDOM, FAR, OUT, SPARED]
TAKEN_APART = [BM25, BASE, RANDOM, OUT]  # conditions without which there is no gain to take apart
MERGED_ALPHAS = (0.25, 0.5, 0.75, 1.0)  # of the models without a kind; 1: not merged
KEPT = "kept on a left-out kind"
EXPOSED = "lost to exposed negatives"
KIND = "interpolation: needs the kind"
# of the gain → the two conditions whose difference it is; the first four add up: 1 = 2 + 3 + 4
PARTS = {
    "whole gain": (RANDOM, BASE),
    KEPT: (OUT, BASE),
    EXPOSED: (SPARED, OUT),
    KIND: (RANDOM, SPARED),
    "kept with far training queries": (FAR, BASE),
    "interpolation: needs near queries": (RANDOM, FAR),
}

SCRIPTS_RECIPE = {  # of our trainer, as the script of the notebook trains
    "recipe": "mini-dense",
    "pooling": "mean",
    "similarity": "cosine",
    "temperature": 0.05,
    "n_negatives": 32,
    "batch_size": 32,
}

CUTS = {  # how a gain is cut → a whole and its parts
    "by kind of query": list(PARTS)[:4],
    "by distance": [next(iter(PARTS)), *list(PARTS)[4:]],
}


# under the root of the repository
POOL_BIAS_VALUES = Path("outputs", "reference", "small", "11_pool_bias", "values")


class Parameters(RunParameters):
    """Parameters of notebook 12, your own retriever."""

    shift: Entry = parameter(
        "python:interextra.world.truth:kind_of_question",
        "attribute whose kinds are left out in turn, see 04",
    )
    conditions: Names = parameter(
        CONDITIONS, "what is compared; `far queries` and the unexposed negatives may be left out"
    )
    train_size: Count = parameter(1500, "training queries of each model whose gain is taken apart")
    random_sets: Thousands = parameter(
        1, "random training sets of this size, each trained with each seed"
    )
    merge_left_out: bool = parameter(
        False,
        "also weights between the base and each model without a kind, by α of `gate_split` "
        "(empty: dev)",
    )
    fine_tuning: Entry = parameter(
        {"recipe": "mini-dense", "negatives": "random", "n_negatives": 32},
        "recipe, the same for all of them",
    )
    steps: Count = parameter(60, "training steps; 0: as the recipe says")
    seeds: Seeds = parameter([1], "seeds, one per training run")
    own_size: Annotated[float, Field(ge=1e-9, le=1e9)] = parameter(
        0.1, "training queries per set of your own trainer; below 1 their share"
    )
    own_seeds: Seeds = parameter([1, 2], "its seeds")
    measures: Measures = parameter(
        ["RR@10"], "the claims about the gain take RR@10, the one about TREC DL nDCG@10"
    )
    test_splits: Names = parameter(["test", "graded"], "their queries measure the gain")
    gate_split: str = parameter(
        "",
        "split of queries that only show the lead of your own trainer; empty: dev, or a fifth of "
        "the test queries",
    )
    n_test: Count = parameter(
        200, "queries of each kind that no model is trained on, as in 09, whose models these are"
    )
    encoder: str = parameter("lsa", "whose vectors say what is near: lsa, minilm")
    baseline: Entry = parameter("bm25", "recipe of the baseline")
    own_model: str = parameter("tiny-base", "the model that your own trainer starts from")
    own_recipe: Entry = parameter(SCRIPTS_RECIPE, "of our trainer: what the script does")
    own_steps: Million = parameter(60, "training steps of your own trainer")
    curve_model: str = parameter("tiny-base", "the model that the learning curves start from")
    curve_recipe: Entry = parameter(SCRIPTS_RECIPE, "its recipe")
    curve_sizes: Sizes = parameter(
        [50, 100, 200, 400, 800], "training queries of the nested sets of the learning curves"
    )
    curve_steps: Million = parameter(60, "training steps, the same for all sizes")
    curve_seeds: Seeds = parameter([1, 2], "seeds of the learning curves")
    real_runs: bool = parameter(
        False, "answer the claim on published runs, from the committed values of notebook 11"
    )
    loss: Annotated[float, Field(ge=1e-9, le=1)] = parameter(
        0.11, "share that a finished model should be shown to lose", paper=".11 (Zhan, Table 6)"
    )


def plan(p: Parameters) -> plans.Plan:
    """Plan a model before and after the same fine-tuning on equally many queries.

    These are random, far, and without each kind.

    Returns
    -------
    design
        condition, model, draw (of several random sets, from 1), left_out (of a left-out kind),
        seed, run: on the test queries; with merges those of the left-out kinds also on the gate's.
    merges, gate
        See `_merges`; the splits whose queries choose α. Both empty without `merge_left_out`.
    some, sets (ReSTrain, by vectors), shift
        What makes the first random training set, the far ones (None without them), and those
        without a kind.
    own
        See `own_trainings`.
    curves
        See `learning_curves`.
    """
    if not p.train_size or p.train_limit:
        raise InputError(
            "parameters 'train_size' and 'train_limit': give a number and 0: the sets have one size"
        )
    test = plans.test_queries(p, p.test_splits)
    shift = plans.one_shift(p)
    pool = plans.training_queries(p)
    vectors = Vectors(encoder=p.encoder, train=pool, test=test)
    sets = None
    if FAR in p.conditions:
        sets = ReSTrain(vectors=vectors, sizes=(p.train_size,), seed=p.seed)
    some = _random_sets(p)[0].queries
    gate = _gate_of_merges(p)
    rows = _rows(p, shift, sets, gate)
    return plans.Plan(
        design=plans.design(rows),
        merges=_merges(rows) if p.merge_left_out else pd.DataFrame(),
        gate=gate,
        own=own_trainings(p),
        curves=learning_curves(p),
        shift=shift,
        vectors=vectors,
        sets=sets,
        some=some,
    )


def _rows(p: Parameters, shift: Shift, sets: ReSTrain | None, gate: list[str]) -> list[plans.Row]:
    """Return rows of the design; what is not trained has the first random set."""
    test = plans.test_queries(p, p.test_splits)
    searched = {OUT: (*test, *plans.test_queries(p, gate))}
    random_sets = _random_sets(p)
    without_each = plans.without_each(shift)
    training_sets = {RANDOM: random_sets, OUT: without_each, SPARED: without_each}
    if sets:
        far = Part(of=sets, part=f"extrapolation-{p.train_size}")
        training_sets[FAR] = [plans.TrainingSet({}, far)]
    untrained_on = [plans.TrainingSet({}, random_sets[0].queries)]
    rows = []
    for condition, recipe in _recipes(p).items():
        system = {BM25 if condition == BM25 else DENSE: recipe}
        trained_on = training_sets.get(condition, untrained_on)
        queries = searched.get(condition, test)
        rows += plans.runs(p, system, trained_on, queries, condition=condition)
    return rows


def _random_sets(p: Parameters) -> list[plans.TrainingSet]:
    """Return the random training sets, with the label draw where there are several."""
    sets = []
    for number in range(p.random_sets):
        drawn = p.changed(train_limit=p.train_size, seed=p.seed + number)
        labels = {"draw": number + 1} if p.random_sets > 1 else {}
        sets.append(plans.TrainingSet(labels, plans.training_queries(drawn)))
    return sets


def _gate_of_merges(p: Parameters) -> list[str]:
    """Return the split whose queries choose α, as a list; empty where nothing is merged."""
    if not p.merge_left_out:
        return []
    gate = p.gate_split or "dev"
    if gate in (p.train_split, *p.test_splits):
        raise InputError(
            f"parameter 'gate_split': {gate!r} is among the other splits; queries that choose α "
            "may neither train nor measure it: name another split"
        )
    return [gate]


def _merges(rows: list[plans.Row]) -> pd.DataFrame:
    """Plan the weights between the base and the models without a kind, of rows of the design.

    Returns
    -------
    left_out, seed, alpha, run: at α = 1 the runs of the models themselves.
    """
    [base] = [row["run"].model for row in rows if row["condition"] == BASE]
    merges = []
    for row in rows:
        if row["condition"] != OUT:
            continue
        for alpha in MERGED_ALPHAS:
            run = merge.merged_run(base, row["run"], alpha)
            merges.append((row["left_out"], row["seed"], alpha, run))
    return pd.DataFrame(merges, columns=["left_out", "seed", "alpha", "run"])


def _recipes(p: Parameters) -> dict[str, Recipe]:
    """Return condition → recipe, of those that are asked for."""
    bm25 = plans.recipe(p, p.baseline)
    plans.refuse_unknown("baseline, architecture", [bm25.architecture], ["bm25"])
    fine_tuned = plans.recipe(p, p.fine_tuning)
    recipes = {
        BM25: bm25,
        BASE: changed(fine_tuned, steps=0, epochs=None),
        RANDOM: fine_tuned,
        FAR: fine_tuned,
        OUT: fine_tuned,
        SPARED: changed(fine_tuned, negative_passages="unexposed"),
    }
    plans.refuse_unknown("conditions", p.conditions, CONDITIONS)
    lacking = [condition for condition in TAKEN_APART if condition not in p.conditions]
    if lacking:
        raise InputError(
            f"parameter 'conditions': {offenders(lacking)} is missing, without which no gain is "
            "taken apart; add it"
        )
    return {condition: recipes[condition] for condition in CONDITIONS if condition in p.conditions}


def own_trainings(p: Parameters) -> plans.Plan:
    """Plan what a trainer of your own does, by ours.

    Returns
    -------
    recipe, split (ReSTrain), runs (of its sets and seeds)
    """
    recipe = probe.recipe_of(p.own_model, fine_tuning=recipe_name(p.own_recipe))
    plans.refuse_unknown("own_recipe, architecture", [recipe.architecture], ["dense"])
    recipe = changed(recipe, steps=p.own_steps, epochs=None)
    options = _own_options(p, p.own_size)
    split = own.split_of("restrain", p.collection, options)
    gate = own.gate_of(options, split.pool.source)
    train = probe.trainer(recipe, split, gate)
    names = own.sets_of(split)
    runs = [train(Path(name), seed) for name in names for seed in p.own_seeds]
    return plans.Plan(recipe=recipe, split=split, runs=runs)


def _own_options(p: Parameters, size: float) -> own.Options:
    """Return the options of a split for your own trainer, with sets of this size."""
    return own.DEFAULTS | {
        "train_split": p.train_split,
        "test_splits": p.test_splits,
        "gate_split": p.gate_split,
        "encoder": p.encoder,
        "size": size,
    }


def learning_curves(p: Parameters) -> plans.Plan:
    """Plan our trainer on nested sets of both regimes, and weights between before and after.

    Returns
    -------
    given
        A row: the run of the model before fine-tuning.
    design
        regime, size, seed, set, run: of nested sets.
    merges
        regime, negatives, seed, alpha, set, run: of the largest sets.
    """
    recipe = probe.recipe_of(p.curve_model, fine_tuning=recipe_name(p.curve_recipe))
    plans.refuse_unknown("curve_recipe, architecture", [recipe.architecture], ["dense"])
    recipe = changed(recipe, steps=p.curve_steps, epochs=None)
    sizes = nested.checked_sizes(p.curve_sizes)
    options = _own_options(p, sizes[-1])
    split = own.split_of("restrain", p.collection, options)
    gate = own.gate_of(options, split.pool.source)
    sets = nested.Nested(of=split, sizes=sizes, seed=p.seed)
    queries = own.searched_queries(split, gate)
    untrained = model_of(changed(recipe, steps=0), split.pool, 0)
    given = Run(model=untrained, queries=queries, depth=probe.DEPTH)
    largest = {}
    for name in own.sets_of(split):
        largest[name] = Part(of=sets, part=sets.part(name, sizes[-1]))
    merges = merge.design(recipe, largest, queries, p.curve_seeds, untrained)
    return plans.Plan(
        given=pd.DataFrame({"run": [given]}),
        design=_with_regime(nested.design(recipe, sets, gate, p.curve_seeds)),
        merges=_with_regime(merges),
    )


def _with_regime(design: pd.DataFrame) -> pd.DataFrame:
    """Return a design on sets of ReSTrain, which are named REGIME-SIZE, with the regime."""
    regime = design["set"].str.partition("-")[0]
    return design.assign(regime=regime)


def in_conditions(values: pd.DataFrame) -> pd.DataFrame:
    """Return one value a query, condition, random set and seed.

    Of the models without a kind only those on this kind's queries.
    """
    left_out, stratum = values["left_out"], values["stratum"]
    is_own = left_out.isna() | (left_out == stratum)
    return values[is_own & ~stratum.isin([OUTSIDE, ""])]


def of_first_set(values: pd.DataFrame) -> pd.DataFrame:
    """Return the values without those of further random sets."""
    if "draw" not in values:
        return values
    is_further = values["draw"] > 1
    return values[~is_further]


def _over_random_sets(values: pd.DataFrame) -> pd.DataFrame:
    """Return values whose trainings on random sets, where there are several, are these sets.

    The models of a set, one a seed, are averaged by `effects`, so that sets vary by drawing and by
    training.
    """
    if "draw" not in values:
        return values
    is_of_set = values["draw"].notna()
    name = RANDOM + " " + values["draw"].astype(str)
    return values.assign(
        seed=values["seed"].astype(object).mask(is_of_set, name),
        trained=values["trained"].mask(is_of_set, name),
    )


def by_condition(values: pd.DataFrame, **options: Any) -> Effects:
    """Return means by condition and measure.

    What is fine-tuned shares the noise of training; BM25 and the base have none. With several
    random sets it is the noise of drawing a set and of training on it. `options`: of `effects`.
    """
    values = _over_random_sets(values)
    is_untrained = values["condition"].isin([BM25, BASE])
    model = values["condition"].where(is_untrained, DENSE)
    by = ["condition", "measure"]
    table = effects(values.assign(model=model), ["model", *by], **options)
    return table.without("model", "mean")


def parts_of(means: Effects) -> pd.DataFrame:
    """Return the gain taken apart, with intervals on the same draws.

    Parameters
    ----------
    means
        Effects by condition and measure.

    Returns
    -------
    part (of PARTS), measure, first, second, difference, low, high, share, share_low, share_high

    share: of the whole gain, undefined where this is 0. Its interval is undefined where that of the
    whole gain includes 0: the interval of a ratio has no bound where the denominator can be 0.
    """
    parts = means.contrast("condition", list(PARTS.values()))
    part_of = {conditions: part for part, conditions in PARTS.items()}
    conditions = zip(parts["first"], parts["second"], strict=True)
    parts["part"] = [part_of[pair] for pair in conditions]
    whole_gains = parts[parts["part"] == "whole gain"].set_index("measure")
    whole = whole_gains.loc[parts["measure"]]
    drawn_shares = ratio(parts.drawn(), whole.drawn())
    table = pd.DataFrame(parts)
    table["share"] = ratio(table["difference"], whole["difference"])
    table[["share_low", "share_high"]] = [interval(draws) for draws in drawn_shares]
    shares = ["share", "share_low", "share_high"]
    is_open = (whole["low"] <= 0).to_numpy()  # not where all queries gain the same
    table.loc[is_open, shares[1:]] = np.nan
    columns = ["part", "measure", "first", "second", "difference", "low", "high"]
    return table[[*columns, *shares]]


def published_runs(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read values of the published runs on TREC DL, and how near their queries lie.

    Parameters
    ----------
    folder
        Values of notebook 11.

    Returns
    -------
    values
        system (a family, whose runs are averaged), measure, query_id, value; empty without files.
    near
        query_id, is_near; empty without files.
    """
    if not (folder / "by_pool.parquet").is_file():
        none = pd.DataFrame(columns=["system", "measure", "query_id", "value"])
        return none, pd.DataFrame()
    near = pd.read_parquet(folder / "distances.parquet")
    values = pd.read_parquet(folder / "by_pool.parquet")
    is_kept = values["judged_by"] == pool_bias.ALL
    is_kept &= values["measure"] == pool_bias.FIRST
    is_kept &= values["query_id"].isin(near["query_id"])
    families = pool_bias.by_family(values[is_kept])
    return families.rename(columns={"family": "system"}), near


def design_page(design: pd.DataFrame, train_size: int) -> pd.DataFrame:
    """Return the training runs of the design for the page, a row a condition."""
    of_condition = design.groupby(["condition", "model"], sort=False, as_index=False)
    page = of_condition.agg(kinds=("left_out", "nunique"), seeds=("seed", "nunique"))
    is_untrained = page["condition"].isin([BM25, BASE])
    page["n_train"] = np.where(is_untrained, 0, train_size)
    return page.rename(columns={"model": "system", "kinds": "kinds left out in turn"})


def relative_gain(means: Effects, measures: list[str]) -> pd.DataFrame:
    """Return the gain on a random split as a share of the model before fine-tuning.

    Returns
    -------
    measure, base, random split, change, low, high
    """
    sides = means[means["condition"].isin([BASE, RANDOM])].set_index(["measure", "condition"])
    rows = []
    for measure in measures:
        before = sides.loc[(measure, BASE)]
        after = sides.loc[(measure, RANDOM)]
        drawn = after["draws"].effect / before["draws"].effect - 1
        change = after["mean"] / before["mean"] - 1
        rows.append((measure, before["mean"], after["mean"], change, *interval(drawn)))
    return pd.DataFrame(rows, columns=["measure", BASE, RANDOM, "change", "low", "high"])


def parts_page(parts: pd.DataFrame) -> pd.DataFrame:
    """Return `parts_of` of a measure for the page; the whole's share of itself has no interval."""
    page = with_interval(parts, "difference", "points")
    page = with_interval(page, "share", "%", "share_low", "share_high")
    page["share"] = page["share"].str.removesuffix(" [undefined]")
    return page[["part", "first", "second", "difference", "share"]]


def cuts(parts: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `parts_of` of a measure, once for each of CUTS that has parts there.

    Its column `cut` says of which.
    """
    by_part = parts.set_index("part")
    of_cuts = []
    for cut, names in CUTS.items():
        there = [name for name in names if name in by_part.index]
        if len(there) > 1:
            of_cuts.append(by_part.loc[there].reset_index().assign(cut=cut))
    return pd.concat(of_cuts, ignore_index=True)


def values_of_our_trainer(
    p: Parameters, recipe: Recipe, folder: SplitFolder, out: Path, store: Store, run: Any
) -> pd.DataFrame:
    """Return values of the models of our own trainer on the sets of a split, and of BM25.

    Parameters
    ----------
    p
        Of the notebook.
    recipe
        Of our trainer.
    folder
        A written split.
    out
        Where the command `probe` writes.
    store, run
        Where results are, and what computes them.

    Returns
    -------
    The columns of `values_of_runs`, and model
    """
    train = probe.trainer(recipe, folder.split, folder.gate)
    run([folder.bm25])
    found = api.probe(
        train,
        p.collection,
        out=out,
        store=store,
        compute=run,
        train_split=p.train_split,
        test_splits=p.test_splits,
        gate_split=p.gate_split,
        encoder=p.encoder,
        other_encoder="tf-idf",
        size=p.own_size,
        seeds=p.own_seeds,
        measures=p.measures,
        n_boot=40,
    )
    rival = values_of_run(folder.read(folder.bm25, store), folder, p.measures)
    return pd.concat([found.values, rival.assign(model=BM25)])


def regimes_page(changes: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return changes from interpolation to extrapolation of each trainer for the page."""
    page = with_interval(changes[changes["measure"] == measure], "change")
    page["detects"] = [f"{100 * share:.1f} %" for share in page["detects"]]
    columns = ["trainer", "queries", "interpolation", "extrapolation", "change", "detects"]
    return page[columns].rename(columns={"change": "change [individual 95 % CI]"})


def halves(plan: plans.Plan, store: Store) -> pd.DataFrame:
    """Return which test queries lie in the half nearer to the training queries of the random split.

    Returns
    -------
    query_id, is_near
    """
    pool, test_vectors = plan.vectors.read(store)
    is_trained_on = np.isin(plan.vectors.train.ids(), plan.some.ids())
    cosines, _ = nearest(test_vectors, pool[is_trained_on], 1)
    query_ids = [query_id for part in plan.vectors.test for query_id in part.ids()]
    return pd.DataFrame({"query_id": query_ids, "is_near": near_half(cosines[:, 0])})


def finished_values(values: pd.DataFrame, conditions: list[str]) -> pd.DataFrame:
    """Return values of the model of the random split as a finished one, of BM25, and its leads.

    The leads are over BM25, the base and the model trained on far queries, of the `conditions`.
    """
    rivals = [name for name in (BM25, BASE, FAR) if name in conditions]
    of_first = of_first_set(values)
    some = of_first[of_first["condition"].isin([*rivals, RANDOM])]
    systems = with_leads(some.rename(columns={"condition": "system"}), rivals)
    leads = [f"{RANDOM} minus {rival}" for rival in rivals]
    return systems[systems["system"].isin([BM25, RANDOM, *leads])]


def finished_page(table: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return `near_and_far` of a measure for the page, in points."""
    page = with_interval(table[table["measure"] == measure], "difference", "points")
    page["detects"] = [f"{100 * points:.1f} points" for points in page["detects"]]
    columns = ["system", "near", "far", "difference", "detects", "needed"]
    return page[columns].rename(columns={"difference": "far minus near"})


def row_of(table: pd.DataFrame, system: str, measure: str) -> pd.Series:
    """Return the row of a system and measure of `near_and_far`."""
    rows = table[(table["system"] == system) & (table["measure"] == measure)]
    return rows.squeeze()


def difficulty_sentences(table: pd.DataFrame, measure: str) -> list[str]:
    """Return what the difference in differences says, and whether BM25 explains it.

    Parameters
    ----------
    table
        `near_and_far` of `finished_values`.
    measure
        One of its measures.
    """
    of_measure = table[table["measure"] == measure].set_index("system")
    text_of = with_interval(of_measure, "difference", "points")["difference"]
    bm25 = of_measure.loc[BM25]
    lead = of_measure.loc[f"{RANDOM} minus {BM25}"]
    sentences = [
        f"Lead over BM25, far minus near queries: {text_of[lead.name]} (individual 95 % interval)."
    ]
    is_easier = bm25["low"] > 0
    if is_easier:
        sentences.append(f"BM25 finds the far half easier, by {text_of[BM25]}.")
    else:
        sentences.append(f"BM25 is not shown to find the far half easier: {text_of[BM25]}.")
    over_far = f"{RANDOM} minus {FAR}"
    if over_far not in of_measure.index:
        return sentences
    sentences.append(
        f"Lead over the model trained on far queries, far minus near: {text_of[over_far]}."
    )
    is_blamed = lead["high"] < 0
    shrinks = of_measure.loc[over_far, "high"] < 0
    if is_easier and is_blamed and not shrinks:
        sentences.append(
            "Retraining shows no such loss: the difference in differences blames the model for "
            "what is BM25's."
        )
    return sentences


def published_leads(root: Path, seed: int, n_boot: int) -> Effects:
    """Return means of the published runs on TREC DL and of their leads over BM25, on both halves.

    From the committed values of notebook 11; empty without them. Runs are given, not drawn.

    Returns
    -------
    Effects by system, measure, is_near
    """
    values, near = published_runs(root / POOL_BIAS_VALUES)
    if values.empty:
        return Effects(pd.DataFrame())
    in_halves = with_leads(values, [BM25]).merge(near, on="query_id")
    means = effects(in_halves, ["system", "measure", "is_near"], seed=seed, n_boot=n_boot)
    return means.drop(columns=["n_trainings", "sd_trainings"])


def answer_sentences(parts: pd.DataFrame, agreed: pd.DataFrame, measure: str) -> list[str]:
    """Return the gain, its three parts, and the difference of both trainers, with intervals.

    `parts`: of `parts_of`; `agreed`: the contrast of the trainers' changes.
    """
    of_measure = parts[parts["measure"] == measure]
    gain = with_interval(of_measure, "difference", "points").set_index("part")["difference"]
    kept = with_interval(of_measure, "share", "%", "share_low", "share_high")
    share = kept.set_index("part")["share"]
    of_parts = {
        KEPT: "is kept on a left-out kind",
        EXPOSED: "is lost to exposed negatives",
        KIND: "needs the kind",
    }
    is_defined = of_measure.set_index("part")["share"].notna()
    told = [
        f"{share[part]} {what}"
        for part, what in of_parts.items()
        if part in share and is_defined[part]
    ]
    whole = f"Gain on a random split: {gain['whole gain']} in {measure}"
    of_gain = f"; of it {_listed(told)} (individual intervals)" if told else ""
    unit = "percentage points of Δ"
    of_trainers = with_interval(agreed[agreed["measure"] == measure], "difference", unit)
    apart = of_trainers["difference"].item()
    return [
        f"{whole}{of_gain}.",
        f"The plain script minus our trainer, change from interpolation to extrapolation: {apart}.",
    ]


def _listed(texts: Sequence[str]) -> str:
    """Return texts in one, the last behind an *and*."""
    *first, last = texts
    return f"{', '.join(first)}, and {last}" if first else last
