"""Development worlds: quality in domain, and what dense retrieval loses in them.

By their quality the mismatch of the reported worlds and the recipes were chosen; the losses were
looked at after that choice. Development worlds have the seeds 901 and following; no reported world
has one of them. Mismatch 4 is that of an older generator; 44 is that of the reported worlds.
"""

import itertools
import sys
from pathlib import Path

import pandas as pd

from interextra.measures.evaluate import values
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.notebooks import n03_resttest as resttest
from interextra.notebooks import plans
from interextra.notebooks.parameters import RunParameters
from interextra.site.parameters import profile_parameters
from interextra.site.repository import notebooks, repository_root
from interextra.site.travel import REFERENCE
from interextra.splits.resttest import in_regimes
from interextra.splits.split import REGIMES
from interextra.stats.effects import across, effects
from interextra.store.errors import InputError
from interextra.store.folders import Store
from interextra.store.schedule import build_all

NOTEBOOK = "03_resttest"
N_TRAIN = 1600  # the largest size of ReSTrain
SYSTEMS = ["bm25", "mini-dense", "mini-splade", "mini-colbert", "mini-reranker"]
USAGE = (
    "python -m tools.development quality|losses SEEDS MISMATCHES [RECIPE …], "
    "e.g. quality 901,902 4,44"
)


def quality(
    seeds: list[int], mismatches: list[int], recipes: list[str], folder: Path
) -> pd.DataFrame:
    """Return RR@10 on dev and nDCG@10 on graded queries of each system.

    One training of `N_TRAIN` random queries.

    Parameters
    ----------
    seeds, mismatches : of the worlds.
    recipes : of the systems.
    folder : of results.

    Returns
    -------
    DataFrame[mismatch, seed_of_world, model, test_set, measure, value]
    """
    rows = []
    for seed, mismatch in itertools.product(seeds, mismatches):
        world = {"mismatch": mismatch, "seed_of_world": seed}
        spec = f"mini:seed={seed},mismatch={mismatch},n_graded=300"
        p = RunParameters(collection=spec, train_limit=N_TRAIN)
        train = plans.training_queries(p)
        test = plans.test_queries(p, ["dev", "graded"])
        for label, recipe in plans.systems(p, recipes).items():
            run = plans.run_of(p, recipe, train, 1, test)
            rows.append(world | {"model": label, "run": run})
    design = plans.design(rows)
    store = Store(folder)
    build_all(store, list(design["run"]))
    table = values(design, store, ["RR@10", "nDCG@10"])
    is_binary = table["test_set"] == "dev"
    is_for_binary = table["measure"] == "RR@10"
    table = table[is_binary == is_for_binary]
    labels = ["mismatch", "seed_of_world", "model", "test_set", "measure"]
    return table.groupby(labels, sort=False)["value"].mean().reset_index()


def losses(
    seeds: list[int], mismatches: list[int], recipes: list[str], folder: Path
) -> pd.DataFrame:
    """Return the relative change of RR@10 under ReSTTest (notebook 03), and the lead over BM25.

    The lead is on dev queries.

    Parameters
    ----------
    seeds, mismatches : of the worlds.
    recipes : of the systems.
    folder : of results.

    Returns
    -------
    DataFrame[mismatch, model, delta, low, high, least, most, n, lead]
        Over the worlds, with Student's intervals.
    """
    tables = []
    for mismatch, seed in itertools.product(mismatches, seeds):
        table = _losses_in_world(seed, mismatch, recipes, Store(folder))
        tables.append(table.assign(mismatch=mismatch, world=seed))
    all_worlds = pd.concat(tables, ignore_index=True)
    labels = ["mismatch", "model"]
    leads = all_worlds.groupby(labels, sort=False)["lead"].mean().reset_index()
    return across(all_worlds, "world", labels, "delta").merge(leads)


def _losses_in_world(seed: int, mismatch: int, recipes: list[str], store: Store) -> pd.DataFrame:
    """Return the relative change of each system in a world, and its lead over BM25."""
    root = repository_root()
    [path] = notebooks(root, NOTEBOOK)
    changed = {
        "collection": f"mini:seed={seed},mismatch={mismatch}",
        "recipes": recipes,
        "measures": ["RR@10"],
    }
    plan = resttest.plan(profile_parameters(root, "worlds", path, changed))
    build_all(store, list(plan.design["run"]))
    table = values(plan.design, store, ["RR@10"], plan.split.strata(store))
    is_gate = table["test_set"] == "dev"
    gate = in_regimes(table[is_gate])
    in_domain = gate[gate["regime"] == "interpolation"].groupby("model")["value"].mean()
    averages = resttest.averages(table[~is_gate])
    micro = averages[averages["average"] == "micro"]
    changes = effects(micro, ["model", "measure"], "regime", REGIMES, "delta", n_boot=1000)
    changes = pd.DataFrame(changes)[["model", "delta"]]
    return changes.assign(lead=changes["model"].map(in_domain) - in_domain[BM25])


def main(arguments: list[str]) -> None:
    """Print what is asked for; losses are written to the reference, for notebook 03."""
    try:
        what, seeds_text, mismatches_text, *recipes = arguments
        measure = {"quality": quality, "losses": losses}[what]
    except (ValueError, KeyError):
        raise InputError(f"write: {USAGE}") from None
    root = repository_root()
    seeds = [int(seed) for seed in seeds_text.split(",")]
    mismatches = [int(mismatch) for mismatch in mismatches_text.split(",")]
    table = measure(seeds, mismatches, recipes or SYSTEMS, root / "outputs" / "cells")
    if what == "quality":
        labels = ["mismatch", "measure", "model"]
        print(table.pivot_table("value", labels, "seed_of_world", sort=False).round(3).to_string())
        return
    target = root / REFERENCE / "development" / NOTEBOOK / "tables" / "mismatch.csv"
    target.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(target, index=False, float_format="%.10g", lineterminator="\n")
    print(table.round(3).to_string())


if __name__ == "__main__":
    main(sys.argv[1:])
