"""Development worlds: quality in domain, and what dense retrieval loses in them.

By their quality the mismatch of the reported worlds and the recipes were chosen; the losses were
looked at after that choice. Development worlds have the seeds 901 and following; no reported world
has one of them. Mismatch 4 is that of an older generator; 44 is that of the reported worlds.
"""

import itertools
import sys
from typing import NamedTuple

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
TABLE = f"development/{NOTEBOOK}/tables/mismatch.csv"  # in the reference
N_TRAIN = 1600  # the largest size of ReSTrain
SYSTEMS = ["bm25", "mini-dense", "mini-splade", "mini-colbert", "mini-reranker"]
USAGE = (
    "python -m tools.development quality|losses SEEDS MISMATCHES [RECIPE …], "
    "e.g. quality 901,902 4,44"
)


class World(NamedTuple):
    """What tells a development world from the others."""

    mismatch: int
    seed: int

    @property
    def collection(self) -> str:
        """Name the collection of the world."""
        return f"mini:seed={self.seed},mismatch={self.mismatch}"


def quality(worlds: list[World], recipes: list[str], store: Store) -> pd.DataFrame:
    """Return RR@10 on dev and nDCG@10 on graded queries of each system.

    One training of `N_TRAIN` random queries.

    Parameters
    ----------
    worlds : where it is measured.
    recipes : of the systems.
    store : of results.

    Returns
    -------
    DataFrame[mismatch, seed_of_world, model, test_set, measure, value]
    """
    rows = []
    for world in worlds:
        p = RunParameters(collection=f"{world.collection},n_graded=300", train_limit=N_TRAIN)
        train = plans.training_queries(p)
        test = plans.test_queries(p, ["dev", "graded"])
        for label, recipe in plans.systems(p, recipes).items():
            rows.append(
                {
                    "mismatch": world.mismatch,
                    "seed_of_world": world.seed,
                    "model": label,
                    "run": plans.run_of(p, recipe, train, 1, test),
                }
            )
    design = plans.design(rows)
    build_all(store, list(design["run"]))
    table = values(design, store, ["RR@10", "nDCG@10"])
    is_binary = table["test_set"] == "dev"
    is_for_binary = table["measure"] == "RR@10"
    table = table[is_binary == is_for_binary]
    labels = ["mismatch", "seed_of_world", "model", "test_set", "measure"]
    return table.groupby(labels, sort=False, as_index=False)["value"].mean()


def losses(worlds: list[World], recipes: list[str], store: Store) -> pd.DataFrame:
    """Return the relative change of RR@10 under ReSTTest (notebook 03), and the lead over BM25.

    The lead is on dev queries.

    Parameters
    ----------
    worlds : where it is measured.
    recipes : of the systems.
    store : of results.

    Returns
    -------
    DataFrame[mismatch, model, delta, low, high, least, most, n, lead]
        Over the worlds, with Student's intervals.
    """
    tables = []
    for world in worlds:
        table = _losses_in_world(world, recipes, store)
        tables.append(table.assign(mismatch=world.mismatch, world=world.seed))
    all_worlds = pd.concat(tables, ignore_index=True)
    labels = ["mismatch", "model"]
    leads = all_worlds.groupby(labels, sort=False, as_index=False)["lead"].mean()
    return across(all_worlds, "world", labels, "delta").merge(leads)


def _losses_in_world(world: World, recipes: list[str], store: Store) -> pd.DataFrame:
    """Return the relative change of each system in a world, and its lead over BM25."""
    root = repository_root()
    [path] = notebooks(root, NOTEBOOK)
    measures = ["RR@10"]
    changed = {"collection": world.collection, "recipes": recipes, "measures": measures}
    plan = resttest.plan(profile_parameters(root, "worlds", path, changed))
    build_all(store, list(plan.design["run"]))
    strata = plan.split.strata(store)
    table = values(plan.design, store, measures, strata)
    is_gate = table["test_set"] == "dev"
    averages = resttest.averages(table[~is_gate])
    micro = averages[averages["average"] == "micro"]
    rows = effects(micro, ["model", "measure"], "regime", REGIMES, "delta", n_boot=1000)
    gate = in_regimes(table[is_gate]).set_index("regime")
    interpolation = gate.loc["interpolation"]
    means = interpolation.groupby("model")["value"].mean()
    leads = (means - means[BM25]).rename("lead")
    changes = pd.DataFrame(rows)[["model", "delta"]]
    return changes.join(leads, on="model")


def main(arguments: list[str]) -> None:
    """Print what is asked for; losses are written to the reference, for notebook 03."""
    try:
        what, seeds, mismatches, *recipes = arguments
        measure = {"quality": quality, "losses": losses}[what]
    except (ValueError, KeyError):
        raise InputError(f"write: {USAGE}") from None
    root = repository_root()
    store = Store(root / "outputs" / "cells")
    worlds = []
    asked = itertools.product(mismatches.split(","), seeds.split(","))
    for mismatch, seed in asked:
        worlds.append(World(int(mismatch), int(seed)))
    table = measure(worlds, recipes or SYSTEMS, store)
    if what == "quality":
        labels = ["mismatch", "measure", "model"]
        table = table.pivot_table("value", labels, "seed_of_world", sort=False)
    else:
        path = root / REFERENCE / TABLE
        path.parent.mkdir(parents=True, exist_ok=True)
        table.to_csv(path, index=False, float_format="%.10g", lineterminator="\n")
    print(table.round(3).to_string())


if __name__ == "__main__":
    main(sys.argv[1:])
