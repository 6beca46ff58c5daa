"""Notebook 12: how much of what fine-tuning gains is interpolation, and what near and far queries
say of a model.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.data.queries import Part, Queries
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.architectures.dense import LABEL as DENSE
from interextra.models.recipe import changed
from interextra.models.search.vectors import Vectors
from interextra.notebooks import n11_pool_bias as pool_bias
from interextra.notebooks import plans
from interextra.own import probe
from interextra.own import splitting as own
from interextra.splits.restrain import ReSTrain
from interextra.splits.shift import OUTSIDE, Shift, read_shift
from interextra.stats.bootstrap import interval, ratio
from interextra.stats.effects import Effects, effects
from interextra.stats.tests import detectable
from interextra.store import InputError

NOTEBOOK = "12_your_own_retriever"
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


def plan(p: dict) -> plans.Plan:
    """A model before and after the same fine-tuning on equally many queries: random, far, and
    without each kind.

    `design`: condition, model, left_out (of the last), seed, run, on the test queries. `some`
    (random), `sets` (ReSTrain, by `vectors`) and `shift` make the training sets. `own`: see
    `own_trainings`.
    """
    _, by, kept = read_shift(p["shift"])
    pool, test = plans.training_queries(p), plans.test_queries(p, p["test_splits"])
    if not p["train_size"] or p["train_limit"]:
        raise InputError(
            "parameters 'train_size' and 'train_limit': give a number and 0: the sets have one size"
        )
    sizes = {name: p[name] for name in ("n_test", "train_size", "seed")}
    shift = Shift(pool=pool, by=by, clusters=tuple(kept), **sizes)
    vectors = Vectors(encoder=p["encoder"], train=pool, test=test)
    sets = ReSTrain(vectors=vectors, sizes=(p["train_size"],), seed=p["seed"])
    some = Queries(
        source=pool.source, split=pool.split, limit=p["train_size"], seed=p["seed"]
    ).trainable()
    made, bm25, kinds = (
        plans.recipe(p, p["fine_tuning"]),
        plans.recipe(p, p["baseline"]),
        plans.without_each(shift),
    )
    spared, base = changed(made, negative_passages="unexposed"), changed(made, steps=0, epochs=None)
    plans.refuse_unknown("baseline, architecture", [bm25.architecture], ["bm25"])
    alone, far = [({}, some)], [({}, Part(of=sets, part=f"extrapolation-{p['train_size']}"))]
    models = {BM25: (bm25, alone), BASE: (base, alone), RANDOM: (made, alone), FAR: (made, far)}
    models |= {OUT: (made, kinds), SPARED: (spared, kinds)}
    rows = []
    for condition, (one, trained_on) in models.items():
        rows += plans.runs(
            p, {BM25 if condition == BM25 else DENSE: one}, trained_on, test, condition=condition
        )
    found = {"design": plans.design(rows), "own": own_trainings(p)}
    return plans.Plan(**found, shift=shift, vectors=vectors, sets=sets, some=some)


def own_trainings(p: dict) -> plans.Plan:
    """What a trainer of your own does, by ours: `recipe`, `split` (ReSTrain), and the `runs` of its
    sets and seeds.
    """
    asked = {name: p[name] for name in ("train_split", "test_splits", "gate_split", "encoder")}
    asked = own.DEFAULTS | asked | {"size": p["own_size"]}
    recipe = probe.recipe_of(p["own_model"], fine_tuning=p["own_recipe"])
    plans.refuse_unknown("own_recipe, architecture", [recipe.architecture], ["dense"])
    recipe = changed(recipe, steps=p["own_steps"], epochs=None)
    split = own.split_of("restrain", p["collection"], asked)
    train = probe.trainer(recipe, split, own.gate_of(asked, split.pool.source))
    runs = [train(Path(name), seed) for name in own.sets_of(split) for seed in p["own_seeds"]]
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
