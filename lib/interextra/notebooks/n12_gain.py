"""Notebook 12: how much of what fine-tuning gains is interpolation, and what near and far queries
say of a model.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from interextra.data.queries import Part, Queries
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.architectures.dense import LABEL as DENSE
from interextra.models.recipe import changed, recipe_name
from interextra.models.search.vectors import Vectors
from interextra.notebooks import n11_pool_bias as pool_bias
from interextra.notebooks import plans
from interextra.notebooks.parameters import (
    Count,
    Entry,
    Measures,
    Million,
    Names,
    Positive,
    RunParameters,
    Seeds,
    parameter,
)
from interextra.own import probe
from interextra.own import splitting as own
from interextra.splits.restrain import ReSTrain
from interextra.splits.shift import OUTSIDE
from interextra.stats.bootstrap import interval, ratio
from interextra.stats.effects import Effects, effects
from interextra.stats.tests import detectable
from interextra.store import InputError

BASE, RANDOM, FAR, OUT, SPARED = (
    "base",
    "random split",
    "far queries",
    "left-out kind",
    "left-out kind, unexposed",
)
# of the gain → the two conditions whose difference it is; the first four add up: 1 = 2 + 3 + 4
PARTS = {
    "whole gain": (RANDOM, BASE),
    "kept on a left-out kind": (OUT, BASE),
    "lost to exposed negatives": (SPARED, OUT),
    "interpolation: needs the kind": (RANDOM, SPARED),
    "kept with far training queries": (FAR, BASE),
    "interpolation: needs near queries": (RANDOM, FAR),
}


class Parameters(RunParameters):
    """Parameters of notebook 12, your own retriever."""

    shift: Entry = parameter(
        "python:interextra.world.truth:kind_of_question",
        "attribute whose kinds are left out in turn, see 04",
    )
    train_size: Count = parameter(1500, "training queries of each model whose gain is taken apart")
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
        "split of queries that only show the lead of your own trainer; empty: dev, or a fifth of the test queries",
    )
    n_test: Positive = parameter(
        200, "queries of each kind that no model is trained on, as in 09, whose models these are"
    )
    encoder: str = parameter("lsa", "whose vectors say what is near: lsa, minilm")
    baseline: Entry = parameter("bm25", "recipe of the baseline")
    own_model: str = parameter("tiny-base", "the model that your own trainer starts from")
    own_recipe: Entry = parameter(
        {
            "recipe": "mini-dense",
            "pooling": "mean",
            "similarity": "cosine",
            "temperature": 0.05,
            "n_negatives": 32,
            "batch_size": 32,
        },
        "of our trainer: what the script does",
    )
    own_steps: Million = parameter(60, "training steps of your own trainer")
    real_runs: bool = parameter(
        False, "answer the claim on published runs, from the committed values of notebook 11"
    )
    loss: Annotated[float, Field(ge=1e-9, le=1)] = parameter(
        0.11, "share that a finished model should be shown to lose", paper=".11 (Zhan, Table 6)"
    )


def plan(p: Parameters) -> plans.Plan:
    """A model before and after the same fine-tuning on equally many queries: random, far, and
    without each kind.

    `design`: condition, model, left_out (of the last), seed, run, on the test queries. `some`
    (random), `sets` (ReSTrain, by `vectors`) and `shift` make the training sets. `own`: see
    `own_trainings`.
    """
    if not p.train_size or p.train_limit:
        raise InputError(
            "parameters 'train_size' and 'train_limit': give a number and 0: the sets have one size"
        )
    pool, test = plans.training_queries(p), plans.test_queries(p, p.test_splits)
    shift = plans.one_shift(p)
    vectors = Vectors(encoder=p.encoder, train=pool, test=test)
    sets = ReSTrain(vectors=vectors, sizes=(p.train_size,), seed=p.seed)
    some = Queries(
        source=pool.source, split=pool.split, limit=p.train_size, seed=p.seed
    ).trainable()
    fine_tuned = plans.recipe(p, p.fine_tuning)
    spared = changed(fine_tuned, negative_passages="unexposed")
    untrained = changed(fine_tuned, steps=0, epochs=None)
    bm25 = plans.recipe(p, p.baseline)
    plans.refuse_unknown("baseline, architecture", [bm25.architecture], ["bm25"])
    at_random = [plans.TrainingSet({}, some)]
    far = [plans.TrainingSet({}, Part(of=sets, part=f"extrapolation-{p.train_size}"))]
    kinds = plans.without_each(shift)
    models = {
        BM25: (bm25, at_random),
        BASE: (untrained, at_random),
        RANDOM: (fine_tuned, at_random),
        FAR: (fine_tuned, far),
        OUT: (fine_tuned, kinds),
        SPARED: (spared, kinds),
    }
    rows = []
    for condition, (one, trained_on) in models.items():
        rows += plans.runs(
            p, {BM25 if condition == BM25 else DENSE: one}, trained_on, test, condition=condition
        )
    found = {"design": plans.design(rows), "own": own_trainings(p)}
    return plans.Plan(**found, shift=shift, vectors=vectors, sets=sets, some=some)


def own_trainings(p: Parameters) -> plans.Plan:
    """What a trainer of your own does, by ours: `recipe`, `split` (ReSTrain), and the `runs` of its
    sets and seeds.
    """
    asked = own.DEFAULTS | {
        "train_split": p.train_split,
        "test_splits": p.test_splits,
        "gate_split": p.gate_split,
        "encoder": p.encoder,
        "size": p.own_size,
    }
    recipe = probe.recipe_of(p.own_model, fine_tuning=recipe_name(p.own_recipe))
    plans.refuse_unknown("own_recipe, architecture", [recipe.architecture], ["dense"])
    recipe = changed(recipe, steps=p.own_steps, epochs=None)
    split = own.split_of("restrain", p.collection, asked)
    train = probe.trainer(recipe, split, own.gate_of(asked, split.pool.source))
    runs = [train(Path(name), seed) for name in own.sets_of(split) for seed in p.own_seeds]
    return plans.Plan(recipe=recipe, split=split, runs=runs)


def in_conditions(values: pd.DataFrame) -> pd.DataFrame:
    """One value a query, condition and seed: of the models without a kind only those on this kind's
    queries.
    """
    kept = values["left_out"].isna() | (values["left_out"] == values["stratum"])
    return values[kept & (values["stratum"] != OUTSIDE)]


def by_condition(values: pd.DataFrame, **how) -> Effects:
    """Means by condition and measure. What is fine-tuned shares the noise of training; BM25 and the
    base have none.
    """
    model = values["condition"].where(values["condition"].isin([BM25, BASE]), DENSE)
    found = effects(values.assign(model=model), ["model", "condition", "measure"], **how)
    return Effects.of(
        found.drop(columns="model"), ["condition", "measure"], ["mean"], found.drawn()
    )


def parts_of(means: Effects) -> pd.DataFrame:
    """The gain taken apart, with intervals on the same draws: part, measure, difference, low, high,
    share, its ends.

    `means`: effects of conditions. share: of the whole gain, undefined where this is 0.
    """
    apart = means.contrast("condition", list(PARTS.values()))
    whole, named = (
        apart[apart["first"].eq(RANDOM) & apart["second"].eq(BASE)],
        {of: part for part, of in PARTS.items()},
    )
    at = pd.Index(whole["measure"]).get_indexer(apart["measure"])
    ends = [interval(shares) for shares in ratio(apart.drawn(), whole.drawn()[at])]
    table = pd.DataFrame(apart).join(pd.DataFrame(ends, columns=["share_low", "share_high"]))
    table["share"] = ratio(table["difference"], whole["difference"].to_numpy()[at])
    table["part"] = [named[pair] for pair in zip(table["first"], table["second"], strict=True)]
    columns = [
        "part",
        "measure",
        "first",
        "second",
        "difference",
        "low",
        "high",
        "share",
        "share_low",
        "share_high",
    ]
    return table[columns]


def minus(values: pd.DataFrame, rivals: Sequence[str]) -> pd.DataFrame:
    """Mean values a system, query and measure, and beside them those of each system less those of
    each rival.
    """
    means = (
        values.groupby(["system", "measure", "query_id"], sort=False)["value"].mean().reset_index()
    )
    parts = [means]
    for rival in rivals:
        other = means[means["system"] == rival].drop(columns="system")
        both = means[means["system"] != rival].merge(
            other, on=["measure", "query_id"], suffixes=("", "_rival")
        )
        both = both.assign(
            system=both["system"] + f" minus {rival}", value=both["value"] - both["value_rival"]
        )
        parts.append(both.drop(columns="value_rival"))
    return pd.concat(parts, ignore_index=True)


def near_and_far(means: Effects, loss: float) -> pd.DataFrame:
    """Far less near queries of each system, or of its lead: of a lead the difference in
    differences.

    `means`: effects of system, measure, is_near. `loss`: share of a value that should be found.
    Returns system, measure, far, near, difference, low, high, detects (80 % power), needed (queries
    that find the loss).
    """
    apart, key = means.contrast("is_near", [(False, True)]), ["system", "measure"]
    apart["detects"] = detectable(apart["low"], apart["high"], apart.drawn().std(axis=1))
    sides = pd.DataFrame(means).pivot(index=key, columns="is_near", values="mean").reset_index()
    sides = sides.rename(columns={True: "near", False: "far"})
    found = sides.merge(pd.DataFrame(apart)[[*key, "difference", "low", "high", "detects"]], on=key)
    of = (
        found[key]
        .assign(system=found["system"].str.split(" minus ").str[0])
        .merge(sides, how="left", on=key)
    )
    needed = 2 * means["n_queries"].max() * ratio(found["detects"], loss * of["near"]) ** 2
    return found.assign(needed=pd.array(np.ceil(needed), dtype="Int64"))


def published_runs(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Values of the published runs on TREC DL, means of each family, and how near their queries
    lie: from notebook 11.

    Returns (system, measure, query_id, value) and (query_id, is_near) of its `folder` of values,
    empty without files.
    """
    if not (folder / "by_pool.parquet").is_file():
        return pd.DataFrame(columns=["system", "measure", "query_id", "value"]), pd.DataFrame()
    near, values = (
        pd.read_parquet(folder / "distances.parquet"),
        pd.read_parquet(folder / "by_pool.parquet"),
    )
    kept = (values["judged_by"] == pool_bias.ALL) & (values["measure"] == pool_bias.FIRST)
    kept &= values["query_id"].isin(near["query_id"])
    return pool_bias.by_family(values[kept]).rename(columns={"family": "system"}), near
