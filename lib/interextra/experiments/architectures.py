"""Notebook 05: five architectures in both protocols, and which of them lose. Zhan et al. (CIKM 2022), section 5.1.

It builds on notebooks 02 (ReSTrain) and 03 (ReSTTest).
"""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from interextra.evaluation import measures
from interextra.experiments import plans
from interextra.experiments.resttest import in_regimes
from interextra.ground.cells import Store
from interextra.ground.correlation import correlations
from interextra.ground.effects import Effects, interval
from interextra.models.recipe import FirstStage, Recipe, make_recipe

NOTEBOOK = "05_architecture_comparison"


def plan(p: dict) -> plans.Plan:
    """Five systems in both protocols: frames `restrain` and `resttest` as in notebooks 02 and 03.

    `systems`: label → recipe. `first_restrain`, `first_resttest`: the ranking that each reranker reads, under the
    reranker's label. `learning`: trained, model, seed, run, on all training queries and untrained.
    """
    asked = plans.searched(p)
    sets, buckets = plans.restrain_of(p), plans.resttest_of(p, asked["resttest_splits"])
    train, queries = plans.training_queries(p), plans.test_queries(p, p["resttest_splits"])
    made, learning = plans.with_bm25(plans.systems(p)), []
    for (model, one), trained in itertools.product(made.items(), (True, False) if p["learning"] else ()):
        run = plans.run_of(p, one if trained else plans.untrained(one), train, p["seed"], queries)
        learning.append({"trained": trained, "model": model, "seed": p["seed"], "run": run})
    firsts = {model: first_stage(one) for model, one in made.items() if one.architecture == "reranker"}
    frames = {name: plans.design(rows) for name, rows in plans.both_protocols(asked, sets, buckets, made).items()}
    for name, rows in plans.both_protocols(asked, sets, buckets, firsts).items():
        frames[f"first_{name}"] = pd.DataFrame(rows)
    frames |= {"learning": pd.DataFrame(learning), "measures": plans.measures_of(p, "restrain_measures")}
    return plans.Plan(systems=made, sets=sets, buckets=buckets, **frames)


def first_stage(reranker: Recipe) -> Recipe:
    """BM25 as a reranker reads it."""
    options = reranker.model_dump(include=set(FirstStage.model_fields))
    return make_recipe(options | {"architecture": "bm25"}, "first stage")


def candidate_orders(asked: plans.Plan, names: Mapping[str, str], store: Store, seed: int) -> pd.DataFrame:
    """Values in both regimes of each reranker and of other orders of the passages that it reads.

    `asked`: of `plan`, with a reranker in one protocol or both; of ReSTrain its largest size. `names`: protocol
    (ReSTrain, ReSTTest) → a measure. Returns DataFrame[protocol, reranker, model, regime, seed, query_id, unit,
    measure, value, …]: `model` says whose order it is: random, BM25's (of the first stage as the reranker reads it) or
    the reranker's.
    """
    found = []
    for protocol, name in names.items():
        first, runs = (getattr(asked, f"{which}{protocol.lower()}") for which in ("first_", ""))
        if first.empty:
            continue
        runs = runs[runs["model"].isin(first["model"])]
        if protocol == "ReSTrain":
            first, runs = (frame[frame["n_train"] == frame["n_train"].max()] for frame in (first, runs))
        once = runs[runs["seed"].isin(first["seed"])]  # all trainings read the same passages
        depths = once["run"].map(lambda run: run.model.recipe.rerank_depth)
        orders = [measures.in_random_order(part, store, [name], depth, seed) for depth, part in once.groupby(depths)]
        made = {"random order of the same candidates": pd.concat(orders)}
        made |= {"BM25's order of them": measures.values(first, store, [name])}
        made |= {"the reranker's order": measures.values(runs, store, [name])}
        parts = [part.rename(columns={"model": "reranker"}).assign(model=order) for order, part in made.items()]
        values = pd.concat(parts, ignore_index=True)
        if protocol == "ReSTTest":
            values = in_regimes(values.assign(stratum=values["query_id"].map(asked.buckets.strata(store))))
        found.append(values.assign(protocol=protocol))
    return pd.concat(found, ignore_index=True)


def scored_pairs(design: pd.DataFrame, store: Store) -> list[int]:
    """How many scores of a query and a passage the loss of each run has seen; 0 for BM25."""
    steps = [(run.model.recipe, run.log(store)["steps"]) for run in design["run"]]
    return [recipe.scored_pairs(n) if n else 0 for recipe, n in steps]


def loss_curves(design: pd.DataFrame, store: Store) -> pd.DataFrame:
    """Training loss of the trained runs of a design: its labels, step, loss (the mean since the step before)."""
    parts = []
    for labels, run in zip(design.drop(columns="run").to_dict("records"), design["run"], strict=True):
        curve = pd.DataFrame(run.log(store).get("loss", []), columns=["step", "loss"])
        parts.append(curve.assign(**labels))
    return pd.concat(parts, ignore_index=True)


def rank_correlation(table: Effects, by: Sequence[str]) -> pd.DataFrame:
    """The order of the systems in both regimes by Kendall's tau-b, which is 1 for the same order; a row a group.

    Returns DataFrame[*by, tau, low, high, interpolation, extrapolation], the two last the orders.
    """
    rows = []
    for key, part in table.groupby(list(by), sort=False):
        once, drawn = part[list(plans.REGIMES)].to_numpy().T[:, None], (part.drawn("first").T, part.drawn("second").T)
        tau, taus = (correlations(*sides, np.ones(sides[0].shape), "Kendall") for sides in (once, drawn))
        orders = {r: " > ".join(part.sort_values(r, ascending=False, kind="stable")["model"]) for r in plans.REGIMES}
        ends = dict(zip(("tau", "low", "high"), (tau.item(), *interval(taus)), strict=True))
        rows.append(dict(zip(by, key, strict=True)) | ends | orders)
    return pd.DataFrame(rows)
