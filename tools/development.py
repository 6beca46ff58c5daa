"""Quality in domain on development worlds, by which the mismatch of the reported worlds and the recipes are chosen.

No loss is looked at. Development worlds have the seeds 901 and following; no reported world has one of them.
"""

import sys
from pathlib import Path

import pandas as pd

from interextra.evaluation.measures import values
from interextra.experiments import plans
from interextra.ground.cells import Store
from interextra.ground.errors import InputError
from interextra.study.parameters import repository_root
from interextra.study.schedule import build_all

N_TRAIN = 1600  # the largest size of ReSTrain
SYSTEMS = ["bm25", "mini-dense", "mini-splade", "mini-colbert", "mini-reranker"]


def quality(seeds: list[int], mismatches: list[int], recipes: list[str], folder: Path) -> pd.DataFrame:
    """RR@10 on dev and nDCG@10 on graded queries of each system, one training of `N_TRAIN` random queries.

    Returns DataFrame[mismatch, seed_of_world, model, test_set, measure, value].
    """
    rows = []
    for seed in seeds:
        for mismatch in mismatches:
            spec = f"mini:seed={seed},mismatch={mismatch},n_graded=300"
            given = {"collection": spec, "train_split": "train", "train_limit": N_TRAIN, "seed": 1, "steps": 0}
            p = given | {"recipes": recipes, "seeds": [1], "depth": 100}
            sets, tested = [({}, plans.training_queries(p))], plans.test_queries(p, ["dev", "graded"])
            made = plans.systems(p)
            rows += plans.runs(p, made, sets, tested, mismatch=mismatch, seed_of_world=seed)
    design, store = plans.design(rows), Store(folder)
    build_all(store, list(design["run"]))
    found = values(design, store, ["RR@10", "nDCG@10"])
    found = found[(found["test_set"] == "dev") == (found["measure"] == "RR@10")]
    by = ["mismatch", "seed_of_world", "model", "test_set", "measure"]
    return found.groupby(by, sort=False)["value"].mean().reset_index()


if __name__ == "__main__":
    try:
        seeds, mismatches, *recipes = sys.argv[1:]
    except ValueError:
        raise InputError("write: python -m tools.development SEEDS MISMATCHES [RECIPE …], e.g. 901,902 4,44") from None
    numbers = [[int(number) for number in given.split(",")] for given in (seeds, mismatches)]
    made = quality(*numbers, recipes or SYSTEMS, repository_root() / "outputs" / "cells")
    print(made.pivot_table("value", ["mismatch", "measure", "model"], "seed_of_world", sort=False).round(3).to_string())
