"""Which cells a notebook needs, from its parameters alone: notebook, plan and workflow ask the same place.

A plan is a namespace of cells, of frames of runs (a *design*: labels and, in the column `run`, the cell), or of lists.
The function that makes a notebook's plan stands in the module of its paper, under `@plans("NN_name")`.
"""

import importlib
import json
import pkgutil
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pandas as pd

from interextra.data.queries import Queries, Source
from interextra.ground.cells import Cell, Store
from interextra.ground.errors import InputError
from interextra.models import architectures
from interextra.models.chain import model_of
from interextra.models.recipe import Recipe, load_recipe, make_recipe
from interextra.models.run import Run
from interextra.models.vectors import QueryVectors, TrainedVectors, Vectors

Plan = SimpleNamespace
_PLANS: dict[str, Callable[[dict], Plan]] = {}


def plans(*notebooks: str) -> Callable:
    """Register the function that makes the plan of these notebooks."""

    def register(function: Callable[[dict], Plan]) -> Callable[[dict], Plan]:
        _PLANS.update(dict.fromkeys(notebooks, function))
        return function

    return register


def plan_of(notebook: str, parameters: dict) -> Plan:
    """The plan of a notebook; empty for one that computes nothing that is kept."""
    import interextra.papers as papers

    for module in pkgutil.iter_modules(papers.__path__):
        importlib.import_module(f"{papers.__name__}.{module.name}")
    return _PLANS[notebook](parameters) if notebook in _PLANS else Plan()


def cells_of(plan: Any) -> list[Cell]:
    """All cells of a plan, each once, in its order."""
    found: dict[str, Cell] = {}

    def visit(part: Any) -> None:
        if isinstance(part, Cell):
            found.setdefault(part.key, part)
        elif isinstance(part, pd.DataFrame):
            visit([item for column in part if part[column].dtype == object for item in part[column]])
        elif isinstance(part, Plan):
            visit(vars(part))
        elif isinstance(part, dict):
            visit(list(part.values()))
        elif isinstance(part, list | tuple):
            for item in part:
                visit(item)

    visit(plan)
    return list(found.values())


def pool(p: dict) -> Queries:
    """The training queries that a notebook's parameters name."""
    source, limit = Source.of(p["collection"]), p.get("train_limit", 0)
    return Queries(source=source, split=p["train_split"], limit=limit, seed=p["seed"])


def tests(p: dict, splits: list[str]) -> tuple[Queries, ...]:
    return tuple(Queries(source=Source.of(p["collection"]), split=split) for split in splits)


def recipe(p: dict, name: str) -> Recipe:
    """The recipe of this name; the parameters `steps` (not 0) and `negative_passages` (not all) replace its values."""
    made, given = load_recipe(name), {}
    if p["steps"] and "steps" in type(made).model_fields:
        given["steps"] = p["steps"]
    if p.get("negative_passages", "all") != "all" and "negative_passages" in type(made).model_fields:
        given["negative_passages"] = p["negative_passages"]
    return load_recipe(name, **given) if given else made


def systems(p: dict) -> dict[str, Recipe]:
    """Label in tables → recipe, of the parameter `recipes` in its order.

    An entry is the name of a recipe, whose label is that of its architecture, or `LABEL | RECIPE`.
    """
    found: dict[str, Recipe] = {}
    for text in p["recipes"]:
        label, _, name = text.rpartition(" | ")
        made = recipe(p, name)
        label = label.strip() or architectures()[made.architecture].LABEL
        if label in found:
            raise InputError(f"parameter 'recipes': {label!r} stands twice; write LABEL | RECIPE for one of them")
        found[label] = made
    return found


def parts_of(text: str, form: str) -> list[str]:
    """What stands between the bars of an entry; InputError unless it has the form, e.g. SHIFT | MODEL | RECIPE.

    >>> parts_of("topics | DR, pairwise | mini-dense{loss: pairwise}", "SHIFT | MODEL | RECIPE")[1]
    'DR, pairwise'
    """
    parts = [part.strip() for part in text.split("|")]
    if len(parts) != len(form.split("|")) or not all(parts):
        raise InputError(f"parameter entry {text!r}: write {form}")
    return parts


def training_log(run: Run, store: Store) -> dict:
    """What a model noted of its training: steps, loss, n_train, shares of exposed passages and negatives."""
    return json.loads((store[run] / "training.json").read_text(encoding="utf-8"))


def trainings(p: dict, made: Recipe) -> list[int]:
    """Seeds of a system's trainings: `seeds` for dense, `other_seeds` for the others; one where nothing is trained."""
    seeds = p["seeds"] if made.architecture == "dense" else p.get("other_seeds", p["seeds"])
    return seeds if made.training_steps(1) else seeds[:1]


def untrained(made: Recipe) -> Recipe:
    """The recipe without any training step; of BM25 itself."""
    given = made.model_dump()
    return make_recipe(given | {"steps": 0, "epochs": None}, "untrained") if "steps" in given else made


def query_vectors(p: dict, test: tuple[Queries, ...]) -> QueryVectors:
    """Vectors of training and test queries by `encoder`: trained (dense, on all training queries), minilm, lsa."""
    if p["encoder"] != "trained":
        return Vectors(encoder=p["encoder"], train=pool(p), test=test)
    dense = next((made for made in systems(p).values() if made.architecture == "dense"), None)
    if dense is None:
        raise InputError(
            "parameter 'encoder': trained needs a dense recipe among `recipes`; give one, or minilm or lsa"
        )
    return TrainedVectors(model=model_of(dense, pool(p), p["seed"]), train=pool(p), test=test)


def design(rows: list[dict]) -> pd.DataFrame:
    """A row a run, its labels and the cell; InputError where nothing would be measured."""
    if not rows:
        raise InputError("the parameters ask for no run: give a recipe, a training size, a seed")
    return pd.DataFrame(rows)
