"""The grid of the profile `real`: rate and epochs of each architecture, chosen on dev queries.

Trained on 2,000 random training queries of a collection, three rates around the recipe's and one or
three epochs, measured by RR@10 on its development queries, which measure nothing else (500 of them
for a cross-encoder, which reads 30 passages for each). A training strategy that goes on from
another model, or learns from one, needs that model's grid before its own. The results are cells, so
that a grid that was ended goes on. The table is added to bench/measured/grids.csv; the best row of
each recipe is the recipe of the profile in that collection.

    python -m tools.grids COLLECTION [--recipes RECIPE …] [--initialisation FOLDER] [--out FILE]
"""

import argparse
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from interextra.measures.evaluate import values
from interextra.models.recipe import Recipe, load_recipe
from interextra.models.search.topk import device
from interextra.notebooks import plans
from interextra.notebooks.parameters import RunParameters
from interextra.site.collections import Recipes, with_chosen
from interextra.site.repository import repository_root
from interextra.store.errors import InputError, offenders
from interextra.store.folders import Store
from interextra.store.schedule import build_all

RECIPES = ("small-dense", "small-colbert", "small-splade", "small-reranker")
# a cross-encoder without BM25's score
ALONE = {"small-reranker": {"first_stage_weight": 0, "rerank_depth": 30}}
N_DEV_ALONE = 500
# the models that a training strategy needs, as notebook 06 names them
NEEDED: dict[str, dict[str, Any]] = {
    "small-star": {"after": "small-dense"},
    "small-adore": {"after": {"recipe": "small-star", "after": "small-dense"}},
    "small-tct": {"teacher": "small-colbert"},
}
BEFORE = {
    "small-star": ["small-dense"],
    "small-adore": ["small-dense", "small-star"],
    "small-tct": ["small-colbert"],
}
TIMES_THE_RATE = (0.5, 1, 2)
EPOCHS = (1, 3)
N_TRAIN = 2000
MEASURE = "RR@10"
OPTIONS = ["learning_rate", "epochs"]
KEYS = ["collection", "recipe"]
OUT = Path("bench", "measured", "grids.csv")


def entries(name: str, initialisation: str = "", known: Recipes | None = None) -> list[Recipe]:
    """Return the recipes of a grid: the rates and epochs around a recipe's own.

    Parameters
    ----------
    name : of the recipe.
    initialisation : of all of them; unless given, the recipe's own.
    known : what other grids have chosen, by `options_chosen`.

    Returns
    -------
    list[Recipe]
        Each rate with each number of epochs.

    Raises
    ------
    InputError
        The grid of a model that the recipe needs is missing.
    """
    known = known or {}
    missing = [other for other in BEFORE.get(name, []) if other not in known]
    if missing:
        raise InputError(f"{name} needs the grid of {offenders(missing)}: measure that one first")
    needed = with_chosen(NEEDED.get(name, {}), known)
    options = {**ALONE.get(name, {}), **needed}
    if initialisation:
        options["initialisation"] = initialisation
    rate = load_recipe(name).learning_rate
    recipes = []
    for times, epochs in itertools.product(TIMES_THE_RATE, EPOCHS):
        of_entry = {"learning_rate": rate * times, "epochs": epochs}
        recipes.append(load_recipe(name, **options, **of_entry))
    return recipes


def _grid(
    names: Sequence[str], initialisation: str, known: Recipes
) -> Iterator[tuple[str, Recipe]]:
    """Yield the recipes of some grids, each with the name of its own."""
    for name in names:
        for recipe in entries(name, initialisation, known):
            yield name, recipe


def measured(
    collection: str,
    names: Sequence[str],
    store: Store,
    initialisation: str = "",
    before: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Train and measure the grids of some recipes on a collection.

    Parameters
    ----------
    collection : its spec.
    names : of the recipes.
    store : of results.
    initialisation : of all of them; unless given, the recipes' own.
    before : the grids that were measured before, of any collection.

    Returns
    -------
    DataFrame[collection, recipe, learning_rate, epochs, RR@10, n_queries, n_train, device]
        In the order of the grid.
    """
    p = RunParameters(collection=collection, train_limit=N_TRAIN)
    train = plans.training_queries(p)
    [dev] = plans.test_queries(p, ["dev"])
    some = dev.model_copy(update={"limit": N_DEV_ALONE, "seed": p.seed})
    name_of_collection = dev.source.open().name
    known = {} if before is None else options_chosen(before, name_of_collection)
    rows = []
    for name, recipe in _grid(names, initialisation, known):
        row = {option: getattr(recipe, option) for option in OPTIONS}
        searched = some if name in ALONE else dev
        run = plans.run_of(p, recipe, train, 1, (searched,))
        rows.append({"recipe": name, **row, "run": run})
    design = plans.design(rows)
    build_all(store, list(design["run"]))
    by_query = values(design, store, [MEASURE])
    grouped = by_query.groupby(["recipe", *OPTIONS], sort=False)["value"]
    table = grouped.agg(["mean", "size"]).reset_index()
    table = table.rename(columns={"mean": MEASURE, "size": "n_queries"})
    table.insert(0, "collection", name_of_collection)
    return table.assign(n_train=train.size(), device=device())


def chosen(table: pd.DataFrame) -> pd.DataFrame:
    """Return the best row of each collection and recipe; of equal ones the one that trains least.

    Parameters
    ----------
    table : of `measured`.

    Returns
    -------
    DataFrame[the columns of `table`]
    """
    order = [*KEYS, MEASURE, "epochs", "learning_rate"]
    by_value = table.sort_values(order, ascending=[True, True, False, True, True], kind="stable")
    return by_value.drop_duplicates(KEYS).reset_index(drop=True)


def options_chosen(table: pd.DataFrame, collection: str) -> dict[str, dict[str, Any]]:
    """Return the rate and epochs that a collection chose, by the recipe, as in its profile."""
    best = chosen(table[table["collection"] == collection])
    return best.set_index("recipe")[OPTIONS].astype(object).to_dict("index")


def add(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Add grids to a file, in the place of those of the same collection and recipe; return all."""
    if path.is_file():
        before = pd.read_csv(path)
        is_new = before.set_index(KEYS).index.isin(table.set_index(KEYS).index)
        table = pd.concat([before[~is_new], table], ignore_index=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False, float_format="%.10g", lineterminator="\n")
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the grids of a collection, add them to the file, and print what is chosen."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    root = repository_root()
    parser.add_argument("collection")
    parser.add_argument("--recipes", nargs="+", default=RECIPES)
    parser.add_argument("--initialisation", default="")
    parser.add_argument("--out", type=Path, default=root / OUT)
    args = parser.parse_args(arguments)
    store = Store(root / "outputs" / "cells")
    before = pd.read_csv(args.out) if args.out.is_file() else None
    table = measured(args.collection, args.recipes, store, args.initialisation, before)
    every = add(table, args.out)
    print(chosen(every).to_string(index=False))


if __name__ == "__main__":
    main()
