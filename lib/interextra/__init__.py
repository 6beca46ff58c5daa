"""Whether neural retrievers interpolate or extrapolate: the front door.

`import interextra as ix`, and five verbs. A *design* is a frame of runs,
`nb.measure` gives their values per query, `ix.effects` a table of effects with intervals, its
`beside` puts the published figures beside it, and `ix.figures` draws it. What else there is stands
in the rooms, each importing those before it only: store, stats, data and world, splits, models,
measures and overlap, papers, claims, own, notebooks, site (`from interextra.models.search.run
import Run`).
"""

import importlib
from typing import Any

__version__ = "0.2.0"

# Name → the module or `module:definition` that it stands for, loaded when it is used, so that
# nothing heavy is imported for nothing.
FRONT = {
    "REGIMES": "splits.split:REGIMES",
    "Fused": "models.search.run:Fused",
    "Imported": "models.search.run:Imported",
    "RegimeEvaluator": "own.evaluator:RegimeEvaluator",
    "Run": "models.search.run:Run",
    "RunFile": "data.runs:RunFile",
    "Searched": "models.search.run:Searched",
    "across": "stats.effects:across",
    "answer": "site.answers:answer",
    "audit": "own.api:audit",
    "curve": "own.curve:curve",
    "effects": "stats.effects:effects",
    "figures": "figures",
    "finished": "own.finished:finished",
    "fit": "models.model:fit",
    "in_regimes": "splits.resttest:in_regimes",
    "leads": "claims.judgement:leads",
    "load_model": "models.model:load_model",
    "load_recipe": "models.recipe:load_recipe",
    "mine_hard_negatives": "own.mining:mine_hard_negatives",
    "open_collection": "data.load:open_collection",
    "probe": "own.api:probe",
    "published": "papers.published",
    "published_models": "papers.published_models",
    "regimes": "own.api:regimes",
    "releases": "papers.releases",
    "shown": "stats.effects:shown",
    "split": "own.api:split",
    "start": "site.session:start",
    "tests": "stats.tests:tests",
    "trained_answers": "overlap.trained_answers",
    "with_interval": "stats.formatting:with_interval",
    # the modules of notebooks
    "start_here": "notebooks.n00_start_here",
    "restrain": "notebooks.n02_restrain",
    "resttest": "notebooks.n03_resttest",
    "shifts": "notebooks.n04_shifts",
    "architectures": "notebooks.n05_architectures",
    "pretraining": "notebooks.n06_pretraining",
    "indicators": "notebooks.n07_indicators",
    "correlation": "notebooks.n08_correlation",
    "exposure": "notebooks.n09_exposure",
    "compression": "notebooks.n10_compression",
    "pool_bias": "notebooks.n11_pool_bias",
    "replication": "notebooks.n13_replication",
}
FRONT = {name: f"interextra.{place}" for name, place in FRONT.items()}
__all__ = list(FRONT)
# Modules of an extra (see `store.extras`) without which a name would fail late.
NEEDS = {
    "RegimeEvaluator": ("sentence_transformers",),
    "fit": ("torch",),
    "load_model": ("torch",),
    "mine_hard_negatives": ("sentence_transformers",),
}


def __getattr__(name: str) -> Any:
    """Load what a name of the front door stands for."""
    if name not in FRONT:
        raise AttributeError(f"interextra has no {name!r}; it has {', '.join(FRONT)}")
    from interextra.store.extras import explained, require

    what = f"ix.{name}"
    require(what, *NEEDS.get(name, ()))
    module, _, definition = FRONT[name].partition(":")
    with explained(what):
        found = importlib.import_module(module)
    return getattr(found, definition) if definition else found


def __dir__() -> list[str]:
    """List the names of the front door."""
    return __all__
