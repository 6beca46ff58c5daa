"""Zhan et al., section 4.2: does extrapolation foretell how a model does on collections that it never saw (Table 5)?

Models of 8 ways of training at 3 sizes, in both regimes, search further collections as they are. A *point* is a way of
training at one size: its measure in domain, and that of the same model out of domain.
"""

import itertools
from collections.abc import Sequence

from interextra.data.queries import Part, Queries, Source
from interextra.ground.errors import InputError, offenders
from interextra.models.model import Model
from interextra.models.recipe import Recipe, load_recipe
from interextra.models.run import Run
from interextra.papers.plans import Plan, design, parts_of, plans, pool, systems, trainings
from interextra.papers.pretraining import start_in
from interextra.papers.zhan import REGIMES, run_of, sets_of


IN_DOMAIN = "in domain"


@plans("08_beir_correlation")
def zero_shot(p: dict) -> Plan:
    """Frames of runs: `in_domain` with the labels method, n_train, regime, seed, and `elsewhere` also with collection and
    part; a collection of several parts is the mean of them.

    `bm25`: the runs of BM25, which stand for no point: collection (in domain among them), part. `read`: collection →
    what its entry says of the texts that the models have read.
    """
    made, sets = methods(p), sets_of(p)
    of_size = dict.fromkeys(p["trained_sizes"], sets)
    if p["more_sizes"]:
        of_size |= dict.fromkeys(p["more_sizes"], sets_of(p | {"sizes": p["more_sizes"]}))
    entries = [parts_of(entry, "NAME | SPLIT | READ | SPEC") for entry in p["collections"]]
    elsewhere = [(name, spec, Queries(source=Source.of(spec), split=split)) for name, split, _, spec in entries]
    inside, outside = [], []
    for (method, one), (size, of), regime in itertools.product(made.items(), sorted(of_size.items()), REGIMES):
        for seed in trainings(p, one):
            labels = {"method": method, "n_train": size, "regime": regime, "seed": seed}
            run = run_of(p, one, Part(of=of, part=f"{regime}-{size}"), seed, p["test_splits"])
            inside.append(labels | {"run": run})
            outside += [labels | row for row in _searches(run.model, elsewhere, p["depth"])]
    own = run_of(p, load_recipe(p["bm25"]), pool(p), p["seed"], p["test_splits"])
    bm25 = [{"collection": IN_DOMAIN, "part": p["collection"], "run": own}, *_searches(own.model, elsewhere, p["depth"])]
    read = {name: about for name, _, about, _ in entries}
    frames = {"in_domain": design(inside), "elsewhere": design(outside), "bm25": design(bm25)}
    return Plan(sets=of_size, read=read, **frames)


def _searches(model: Model, elsewhere: Sequence[tuple[str, str, Queries]], depth: int) -> list[dict]:
    """Rows collection, part, run of a model in each collection."""
    return [
        {"collection": name, "part": spec, "run": Run(model=model, queries=(queries,), depth=depth)}
        for name, spec, queries in elsewhere
    ]


def methods(p: dict) -> dict[str, Recipe]:
    """Label → recipe of the ways of training and of the starts, written as in notebook 06."""
    ways = systems(p | {"recipes": p["strategies"]})
    starts = {start.label: start.recipe for start in (start_in(p, text) for text in p["starts"])}
    if twice := ways.keys() & starts.keys():
        raise InputError(f"parameters 'strategies' and 'starts': {offenders(sorted(twice))} stands in both")
    return ways | starts
