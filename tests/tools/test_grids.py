"""The grid of a profile has the rates and epochs around a recipe's own; the best row is chosen."""

import pandas as pd
import pytest

from interextra.models.recipe import load_recipe
from interextra.store.errors import InputError
from tools.grids import BEFORE, KEYS, OPTIONS, OUT, RECIPES, add, chosen, entries, options_chosen

KNOWN = {
    "small-dense": {"learning_rate": 0.1, "epochs": 3},
    "small-star": {"learning_rate": 0.2, "epochs": 1},
    "small-colbert": {"learning_rate": 0.3, "epochs": 2},
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_grid_is_around_the_rate_of_its_recipe(name):
    own = load_recipe(name).learning_rate
    grid = [(recipe.learning_rate / own, recipe.epochs) for recipe in entries(name)]
    assert grid == [(0.5, 1), (0.5, 3), (1, 1), (1, 3), (2, 1), (2, 3)]


def test_a_cross_encoder_is_alone():
    assert {recipe.first_stage_weight for recipe in entries("small-reranker")} == {0}


def table(collection, recipe, *rows):
    columns = ["learning_rate", "epochs", "RR@10"]
    return pd.DataFrame(rows, columns=columns).assign(collection=collection, recipe=recipe)


def test_of_equal_rows_the_one_that_trains_least_is_chosen():
    grids = [
        table("a", "small-dense", (0.1, 3, 0.5), (0.2, 1, 0.5), (0.1, 1, 0.5), (0.1, 1, 0.4)),
        table("b", "small-dense", (0.1, 1, 0.3), (0.2, 3, 0.6)),
    ]
    best = chosen(pd.concat(grids))
    assert best[["collection", "learning_rate", "epochs"]].values.tolist() == [
        ["a", 0.1, 1],
        ["b", 0.2, 3],
    ]


def test_a_grid_that_is_measured_again_takes_its_own_place_only(tmp_path):
    path = tmp_path / "of" / "grids.csv"
    add(table("a", "small-dense", (0.1, 1, 0.5)), path)
    add(table("a", "small-splade", (0.1, 1, 0.6)), path)
    add(table("a", "small-dense", (0.1, 1, 0.7)), path)
    every = pd.read_csv(path)
    assert every[[*KEYS, "RR@10"]].values.tolist() == [
        ["a", "small-splade", 0.6],
        ["a", "small-dense", 0.7],
    ]


def test_the_committed_grids_are_whole(root):
    grids = pd.read_csv(root / OUT)
    for (_, name), of_recipe in grids.groupby(KEYS):
        for option in OPTIONS:
            asked = [getattr(recipe, option) for recipe in entries(name, known=KNOWN)]
            assert of_recipe[option].tolist() == pytest.approx(asked)
        assert of_recipe["n_train"].eq(2000).all() and of_recipe["RR@10"].between(0, 1).all()


def test_a_training_strategy_goes_on_from_what_was_chosen():
    """Of ADORE both passes before it, and of TCT-ColBERT its teacher."""
    star = load_recipe(entries("small-adore", known=KNOWN)[0].after)
    assert (star.learning_rate, star.epochs) == (0.2, 1)
    dense = load_recipe(star.after)
    assert (dense.learning_rate, dense.epochs) == (0.1, 3)
    teacher = load_recipe(entries("small-tct", known=KNOWN)[0].teacher)
    assert (teacher.learning_rate, teacher.epochs) == (0.3, 2)


@pytest.mark.parametrize("name", BEFORE)
def test_the_grid_of_a_model_that_is_needed_comes_before(name):
    with pytest.raises(InputError, match=rf"{name} needs the grid of 'small-\w+'"):
        entries(name, known={})


def test_options_are_those_of_one_collection():
    grids = [table(place, "small-dense", (0.1, 3, 0.5), (0.2, 1, 0.6)) for place in "ab"]
    grids.append(table("b", "small-dense", (0.4, 1, 0.9)))
    assert options_chosen(pd.concat(grids), "a") == {
        "small-dense": {"learning_rate": 0.2, "epochs": 1}
    }
