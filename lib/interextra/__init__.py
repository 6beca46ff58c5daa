"""interextra: do neural retrievers interpolate or extrapolate?

The front door: `import interextra as ix`, and five verbs. A *design* is a frame of runs, `nb.measure` gives their
values per query, `ix.effects` a table of effects with intervals, its `beside` puts the published figures beside it, and
`ix.figures` draws it. What else there is stands in the rooms, each importing those before it only: ground, data and
world, splits, models, overlap and evaluation, papers, experiments, study (`from interextra.models.run import Run`).
"""

import importlib

__version__ = "0.2.0"

# Name → the module that has it, and modules; loaded when they are used, so that nothing heavy is imported for nothing.
_FRONT = {
    "start": "study.session",
    "answer": "study.site",
    "open_collection": "data.load",
    "RunFile": "data.runs",
    "load_recipe": "models.recipe",
    "fit": "models.model",
    "load_model": "models.model",
    "Run": "models.run",  # this one and the next three: to search with, in a design of one's own
    "Fused": "models.run",
    "Searched": "models.run",
    "Imported": "models.run",
    "effects": "ground.effects",
    "tests": "ground.effects",
    "across": "ground.effects",
    "shown": "ground.effects",
    "with_interval": "ground.effects",
    "gate": "papers.claims",
    "fair": "papers.claims",
    "REGIMES": "experiments.plans",
    "in_regimes": "experiments.plans",
}
_PAPERS = ("published", "published_models", "published_correlations", "releases", "shift_losses")
_NOTEBOOKS = ("start_here", "restrain", "resttest", "shifts", "architectures", "pretraining", "indicators")
_MODULES = {"figures": "figures", "logs": "evaluation.logs"} | {name: f"papers.{name}" for name in _PAPERS}
_MODULES |= {name: f"experiments.{name}" for name in (*_NOTEBOOKS, "correlation", "exposure")}
__all__ = [*_FRONT, *_MODULES]


def __getattr__(name: str):
    if name in _MODULES:
        return importlib.import_module(f"interextra.{_MODULES[name]}")
    if name in _FRONT:
        return getattr(importlib.import_module(f"interextra.{_FRONT[name]}"), name)
    raise AttributeError(f"interextra has no {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return __all__
