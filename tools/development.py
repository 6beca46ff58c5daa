"""Development worlds: their quality in domain, by which the mismatch of the reported worlds and the
recipes were chosen, and what dense retrieval loses in them, which was looked at after that choice.

Development worlds have the seeds 901 and following; no reported world has one of them. Mismatch 4
is that of an older generator; 44 is that of the reported worlds.
"""

import sys
from pathlib import Path

import pandas as pd

from interextra.measures.evaluate import values
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.notebooks import n03_resttest as resttest
from interextra.notebooks import plans
from interextra.site.parameters import profile_parameters
from interextra.site.repository import notebooks, repository_root
from interextra.site.travel import REFERENCE
from interextra.splits.split import REGIMES
from interextra.stats.effects import across, effects
from interextra.store.errors import InputError
from interextra.store.folders import Store
from interextra.store.schedule import build_all

NOTEBOOK = "03_resttest"
N_TRAIN = 1600  # the largest size of ReSTrain
SYSTEMS = ["bm25", "mini-dense", "mini-splade", "mini-colbert", "mini-reranker"]


def quality(
    seeds: list[int], mismatches: list[int], recipes: list[str], folder: Path
) -> pd.DataFrame:
    """RR@10 on dev and nDCG@10 on graded queries of each system, one training of `N_TRAIN` random
    queries.

    Returns DataFrame[mismatch, seed_of_world, model, test_set, measure, value].
    """
    rows = []
    for seed in seeds:
        for mismatch in mismatches:
            spec = f"mini:seed={seed},mismatch={mismatch},n_graded=300"
            given = {
                "collection": spec,
                "train_split": "train",
                "train_limit": N_TRAIN,
                "seed": 1,
                "steps": 0,
            }
            p = given | {"recipes": recipes, "seeds": [1], "depth": 100}
            sets, tested = (
                [({}, plans.training_queries(p))],
                plans.test_queries(p, ["dev", "graded"]),
            )
            made = plans.systems(p)
            rows += plans.runs(p, made, sets, tested, mismatch=mismatch, seed_of_world=seed)
    design, store = plans.design(rows), Store(folder)
    build_all(store, list(design["run"]))
    found = values(design, store, ["RR@10", "nDCG@10"])
    found = found[(found["test_set"] == "dev") == (found["measure"] == "RR@10")]
    by = ["mismatch", "seed_of_world", "model", "test_set", "measure"]
    return found.groupby(by, sort=False)["value"].mean().reset_index()


def losses(
    seeds: list[int], mismatches: list[int], recipes: list[str], folder: Path
) -> pd.DataFrame:
    """Relative change of RR@10 under ReSTTest (notebook 03) in each world, and its lead over BM25
    on dev queries.

    Returns DataFrame[mismatch, model, delta, low, high, least, most, n, lead] : over the worlds,
    with Student's intervals.
    """
    root, rows = repository_root(), []
    for mismatch in mismatches:
        for seed in seeds:
            changed = {
                "collection": f"mini:seed={seed},mismatch={mismatch}",
                "recipes": recipes,
                "measures": ["RR@10"],
            }
            [path] = notebooks(root, NOTEBOOK)
            plan, store = (
                resttest.plan(profile_parameters(root, "worlds", path, changed)),
                Store(folder),
            )
            build_all(store, list(plan.design["run"]))
            found = values(plan.design, store, ["RR@10"], plan.split.strata(store))
            is_gate = found["test_set"] == "dev"
            means = (
                resttest.in_regimes(found[is_gate])
                .query("regime == 'interpolation'")
                .groupby("model")["value"]
                .mean()
            )
            loss = resttest.averages(found[~is_gate]).query("average == 'micro'")
            table = effects(loss, ["model", "measure"], "regime", REGIMES, "delta", n_boot=1000)
            table = pd.DataFrame(table)[["model", "delta"]].assign(
                lead=table["model"].map(means) - means[BM25]
            )
            rows.append(table.assign(mismatch=mismatch, world=seed))
    every, by = pd.concat(rows, ignore_index=True), ["mismatch", "model"]
    leads = every.groupby(by, sort=False)["lead"].mean().reset_index()
    return across(every, "world", by, "delta").merge(leads)


if __name__ == "__main__":
    try:
        what, seeds, mismatches, *recipes = sys.argv[1:]
        measured = {"quality": quality, "losses": losses}[what]
    except (ValueError, KeyError):
        usage = "python -m tools.development quality|losses SEEDS MISMATCHES [RECIPE …], e.g. quality 901,902 4,44"
        raise InputError(f"write: {usage}") from None
    numbers = [[int(number) for number in given.split(",")] for given in (seeds, mismatches)]
    made = measured(*numbers, recipes or SYSTEMS, repository_root() / "outputs" / "cells")
    if measured is quality:
        by = ["mismatch", "measure", "model"]
        print(made.pivot_table("value", by, "seed_of_world", sort=False).round(3).to_string())
    else:  # committed: notebook 03 shows it
        target = (
            repository_root() / REFERENCE / "development" / NOTEBOOK / "tables" / "mismatch.csv"
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        made.to_csv(target, index=False, float_format="%.10g", lineterminator="\n")
        print(made.round(3).to_string())
