"""The profile `real`: notebooks over real collections, an estimate a collection and their mean.

params/real/NOTEBOOK.yaml holds what all collections share, params/collections.yaml a line or
two a collection: where it is, and the rate and epochs of each recipe that its development queries
chose.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, ValidationError

from interextra.claims.over_collections import judged, of_each
from interextra.notebooks.parameters import NotebookParameters
from interextra.site.notebook import Notebook
from interextra.site.parameters import checked, kind_of, read_yaml
from interextra.site.places import OverPlaces, Tables
from interextra.store import InputError

PROFILE = "real"
FILE = Path("params", "collections.yaml")
SEEDS = ("seeds", "other_seeds", "draw_seeds")  # parameters: seeds of trainings
Recipes = Mapping[str, Mapping[str, Any]]  # name of a recipe → options that were chosen


class Place(BaseModel, frozen=True, extra="forbid"):
    """A collection of the profile, as its file describes it.

    `seen`: something had been trained on it before the claims were written, or its questions are
    those of another one, so that it stands beside those that decide; `trainings` of each system on
    each set, unless a notebook's file names its seeds; `parameters` of all notebooks that have
    them; `without`: numbers of notebooks that do not run there.
    """

    collection: str
    seen: bool = False
    trainings: int = 1
    recipes: dict[str, dict[str, Any]] = {}
    parameters: dict[str, Any] = {}
    without: tuple[str, ...] = ()


class OverCollections(OverPlaces):
    """`tables/` of one notebook over its runs on real collections.

    `collections.csv` holds the estimate of each claim in each of them, `over_collections.csv` what
    those that decide say together, when all of them are there. Each other table is that of
    all collections, with a column `collection`.
    """

    places: tuple[str, ...]
    deciding: tuple[str, ...]  # those that were unseen, whether they are among the places or not

    @classmethod
    def of(
        cls, name: str, runs: Mapping[str, Notebook], known: Mapping[str, Place]
    ) -> "OverCollections":
        """Return a notebook over its runs, by the collections."""
        deciding = tuple(place for place, described in known.items() if not described.seen)
        return cls(name=name, runs=tuple(runs.values()), places=tuple(runs), deciding=deciding)

    @property
    def by_place(self) -> dict[str, Notebook]:
        """The notebook on each collection, by the folder of its values in the reference."""
        return dict(zip(self.places, self.runs, strict=True))

    def title(self) -> str:
        """Return what a reader calls it."""
        return f"notebook {self.name} over {len(self.runs)} collections"

    def over_places(self, tables: Tables) -> dict[str, pd.DataFrame]:
        """Return the tables over the collections by their files."""
        over_all = {}
        for name, table_of_collection in tables.items():
            if name not in ("claims.csv", "gate.csv"):
                labelled = pd.concat(table_of_collection, names=["collection"])
                over_all[name] = labelled.reset_index("collection")
        claims = tables.get("claims.csv")
        if claims:
            each = of_each(claims)
            over_all["collections.csv"] = each
            over_all["over_collections.csv"] = judged(each, self.deciding)
        return over_all


def places(root: Path) -> dict[str, Place]:
    """Return the collections of the profile by their names, in the order of the file.

    Raises
    ------
    InputError
        An entry that lacks something or has too much.
    """
    found = {}
    for name, entry in read_yaml(root / FILE).items():
        try:
            found[name] = Place.model_validate(entry)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(map(str, first["loc"]))
            raise InputError(f"{FILE}, {name}: {field}: {first['msg']}") from None
    return found


def asked(root: Path, paths: Sequence[Path]) -> list[tuple[Path, str, NotebookParameters]]:
    """Return each run's notebook, its collection, and its parameters."""
    runs = []
    for path in paths:
        for name, place in places(root).items():
            if path.stem[:2] not in place.without:
                runs.append((path, name, parameters_on(root, path, place)))
    return runs


def parameters_on(root: Path, notebook: Path, place: Place) -> NotebookParameters:
    """Return the parameters of a notebook on a collection of the profile."""
    kind = kind_of(notebook)
    where = Path("params", PROFILE, f"{notebook.stem}.yaml")
    values = read_yaml(root / where)
    for name, value in place.parameters.items():
        if name in kind.model_fields:
            values[name] = value
    for name in SEEDS:
        if name in kind.model_fields:
            values.setdefault(name, list(range(1, place.trainings + 1)))
    values = {name: with_chosen(value, place.recipes) for name, value in values.items()}
    values |= {"profile": PROFILE, "collection": place.collection}
    return checked(kind, values, f"{where}, {place.collection}")


def with_chosen(value: Any, recipes: Recipes) -> Any:
    """Return a parameter whose recipes have the options that a collection chose.

    Recipes are found wherever they stand in it: the name alone among `recipes`, {recipe: name,
    option: value}, or the recipe that one goes on from (`after`). Options that an entry names stay.

    Examples
    --------
    >>> chosen = {"small-dense": {"epochs": 3}}
    >>> with_chosen(["bm25", "small-dense", {"recipe": "small-dense", "epochs": 1}], chosen)
    ['bm25', {'recipe': 'small-dense', 'epochs': 3}, {'recipe': 'small-dense', 'epochs': 1}]
    """
    if isinstance(value, list):
        return [with_chosen(part, recipes) for part in value]
    if isinstance(value, str):
        return {"recipe": value, **recipes[value]} if value in recipes else value
    if not isinstance(value, dict):
        return value
    entry = {name: with_chosen(part, recipes) for name, part in value.items() if name != "recipe"}
    if "recipe" not in value:
        return entry
    name = value["recipe"]
    return {"recipe": name, **recipes.get(name, {}), **entry}
