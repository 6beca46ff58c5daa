"""interextra: do neural retrievers interpolate or extrapolate?

The front door: `import interextra as ix`, and five verbs. A *design* is a frame of runs, `nb.measure` gives their
values per query, `ix.effects` a table of effects with intervals, its `beside` puts the published figures beside it, and
`ix.figures` draws it. Imports go downwards only: ground, data and world, splits, models, overlap and evaluation,
papers, study.
"""

import importlib

__version__ = "0.2.0"

# Name → the module that has it, and modules; loaded when they are used, so that nothing heavy is imported for nothing.
_FRONT = {
    "start": "study.session",
    "shown": "ground.effects",
    "with_interval": "ground.effects",
    "answer": "study.answer",
    "open_collection": "data.load",
    "Queries": "data.queries",
    "RunFile": "data.runs",
    "load_recipe": "models.recipe",
    "fit": "models.model",
    "load_model": "models.model",
    "Model": "models.model",
    "Run": "models.run",
    "Fused": "models.fusion",
    "Encoded": "models.encoded",
    "Searched": "models.encoded",
    "Imported": "models.given",
    "GivenVectors": "models.given",
    "Vectors": "models.vectors",
    "ReSTrain": "splits.restrain",
    "ReSTTest": "splits.resttest",
    "Shift": "splits.shift",
    "effects": "ground.effects",
    "tests": "ground.effects",
    "across": "ground.effects",
    "gate": "papers.claims",
    "fair": "papers.claims",
    "judged": "papers.claims",
    "REGIMES": "experiments.plans",
    "in_regimes": "experiments.plans",
}
_MODULES = {
    "logs": "evaluation.logs",
    "figures": "figures",
    "start_here": "experiments.start_here",
    "restrain": "experiments.restrain",
    "resttest": "experiments.resttest",
    "architectures": "experiments.architectures",
    "shifts": "experiments.shifts",
    "exposure": "experiments.exposure",
    "indicators": "experiments.indicators",
    "pretraining": "experiments.pretraining",
    "correlation": "experiments.correlation",
    "published": "papers.published",
    "published_models": "papers.published_models",
    "published_correlations": "papers.published_correlations",
    "releases": "papers.releases",
    "shift_losses": "papers.shift_losses",
}
__all__ = [*_FRONT, *_MODULES]


def __getattr__(name: str):
    if name not in __all__:
        raise AttributeError(f"interextra has no {name!r}; it has {', '.join(__all__)}")
    if name in _MODULES:
        return importlib.import_module(f"interextra.{_MODULES[name]}")
    return getattr(importlib.import_module(f"interextra.{_FRONT[name]}"), name)


def __dir__() -> list[str]:
    return __all__
