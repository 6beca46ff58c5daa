"""interextra: do neural retrievers interpolate or extrapolate?

The front door: `import interextra as ix`, and five verbs. A *design* is a frame of runs, `nb.measure` gives their
values per query, `ix.effects` a table of effects with intervals, its `beside` puts the published figures beside it, and
`ix.figures` draws it. Imports go downwards only: ground, data and world, splits, models, overlap and evaluation,
papers, study.
"""

import importlib

__version__ = "0.2.0"

# Name → where it lives; loaded when it is used, so that nothing heavy is imported for nothing.
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
    "Fused": "models.run",
    "Encoded": "models.run",
    "Searched": "models.run",
    "Imported": "models.run",
    "GivenVectors": "models.vectors",
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
    "published": "papers.published",
    "figures": "figures",
    "REGIMES": "experiments.plans",
    "in_regimes": "experiments.plans",
    "start_here": "experiments.start_here",
    "restrain": "experiments.restrain",
    "resttest": "experiments.resttest",
    "architectures": "experiments.architectures",
    "shifts": "experiments.shifts",
    "exposure": "experiments.exposure",
    "indicators": "experiments.indicators",
    "pretraining": "experiments.pretraining",
    "correlation": "experiments.correlation",
    "published_models": "papers.published_models",
    "releases": "papers.releases",
}
__all__ = list(_FRONT)


def __getattr__(name: str):
    if name not in _FRONT:
        raise AttributeError(f"interextra has no {name!r}; it has {', '.join(_FRONT)}")
    place = importlib.import_module(f"interextra.{_FRONT[name]}")
    return getattr(place, name, place)


def __dir__() -> list[str]:
    return __all__
