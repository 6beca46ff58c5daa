"""Negative exposure: what notebook 09 measures. Both papers leave out queries and leave their answers in the corpus.

There every sampler of negatives finds them. A held-out answer is then a negative, now and again, and never a positive:
the model learns that it is wrong. Neither paper takes this apart from not having seen the like of a query.
"""

import itertools

import pandas as pd

from interextra.data.queries import Part
from interextra.models.dense import LABEL as DENSE
from interextra.models.model import Model
from interextra.models.recipe import Recipe, make_recipe
from interextra.models.run import Run
from interextra.papers.lupart import read_shift
from interextra.papers.plans import Plan, design, plans, pool, recipe, systems, trainings
from interextra.splits.shift import Shift

NONE = "none"  # where nothing is drawn


@plans("09_negative_exposure")
def negative_exposure(p: dict) -> Plan:
    """Each system without each cluster of one shift, by the source of its negatives and by which passages may be drawn.

    `design`: shift, model, negatives, negative_passages, left_out, seed, run. `dose`: the same labels, of the dense
    system with random negatives, and share, the probability that a negative is an exposed passage. `shift`: the Shift.
    """
    name, by, kept = read_shift(p["shift"])
    sizes = {"n_test": p["n_test"], "train_size": p["train_size"], "seed": p["seed"]}
    shift = Shift(pool=pool(p), by=by, clusters=tuple(kept), **sizes)
    test = (Part(of=shift, part="held-out"),)

    def runs(model: str, negatives: str, passages: str | float, made: Recipe) -> list[dict]:
        labels = {"shift": name, "model": model, "negatives": negatives, "negative_passages": passages}
        rows = []
        for left_out, seed in itertools.product(shift.names, trainings(p, made)):
            run = Run(model=Model.of(made, Part(of=shift, part=f"without-{left_out}"), seed), queries=test, depth=100)
            rows.append(labels | {"left_out": left_out, "seed": seed, "run": run})
        return rows

    rows, dose = [], []
    for model, made in systems(p).items():
        rows += runs(model, NONE, "all", made)
    for text in p["conditions"]:
        model, negatives, recipe_name = (part.strip() for part in text.split("|"))
        made = recipe(p, recipe_name)
        spared = ["all", "unexposed", *(["control"] if model in p["controlled"] else [])]
        for passages in spared if made.negatives not in ("in-batch", "both") else ["all"]:
            rows += runs(model, negatives, passages, _with(made, passages))
        if model == DENSE and made.negatives == "random":
            for share in p["doses"]:
                dose += [row | {"share": share} for row in runs(model, negatives, share, _with(made, share))]
    return Plan(shift=shift, design=design(rows), dose=pd.DataFrame(dose))


def _with(made: Recipe, passages: str | float) -> Recipe:
    return make_recipe(made.model_dump() | {"negative_passages": passages}, "negative_passages")
