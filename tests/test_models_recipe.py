"""Recipes: what is said is what is used, and a slip is an error that names it."""

import pytest

from interextra.errors import InputError
from interextra.models import Recipe, cost, fit, load_recipe, training_steps
from interextra.models.recipe import RECIPES


@pytest.mark.parametrize("name", sorted(path.stem for path in RECIPES.glob("*.yaml")))
def test_every_recipe_of_the_package_loads_and_survives_a_round_trip(name):
    recipe = load_recipe(name)
    assert Recipe(**recipe.model_dump()) == recipe


def test_msmarco_recipe_has_the_constants_of_the_paper():
    recipe = load_recipe("msmarco-dense")
    assert (recipe.n_negatives, recipe.epochs, recipe.pooling) == (1024, 50, "cls")
    assert (recipe.query_length, recipe.passage_length) == (24, 120)


def test_misspelt_key_is_named_with_the_nearest_known_one(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("architecture: dense\nsteps: 5\nlearning_rat: 0.1\n")
    with pytest.raises(InputError, match=r"mine\.yaml: unknown key 'learning_rat', did you mean 'learning_rate'"):
        load_recipe(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": "bert"}, "architecture = 'bert'"),
        ({"loss": "triplet"}, "loss = 'triplet'"),
        ({"steps": 0}, "steps = 0"),
        ({"steps": 5, "epochs": 1}, "exactly one of steps and epochs"),
        ({"steps": None}, "exactly one of steps and epochs"),
        ({"k1": [1.0]}, "k1 has no effect on dense"),
    ],
)
def test_value_that_cannot_be_is_an_error_that_names_it(changes, message):
    with pytest.raises(InputError, match=message):
        load_recipe("mini-dense", **changes)


def test_parameter_of_training_is_refused_for_bm25():
    with pytest.raises(InputError, match="learning_rate has no effect on bm25"):
        load_recipe("bm25", learning_rate=0.5)


def test_unknown_recipe_lists_the_known_ones():
    with pytest.raises(InputError, match="mini-dense"):
        load_recipe("mini-dens")


def test_steps_replace_the_epochs_of_the_file():
    assert load_recipe("msmarco-dense", steps=7).epochs is None


def test_steps_from_epochs_round_up():
    assert training_steps(Recipe(architecture="dense", epochs=2, batch_size=32), 33) == 3


def test_cost_grows_with_steps_and_passages():
    recipe = load_recipe("mini-dense", steps=100)
    speed = {"train_tokens": 1000, "encode_tokens": 7200}
    passages = recipe.batch_size + recipe.n_negatives
    tokens = 100 * (recipe.batch_size * recipe.query_length + passages * recipe.passage_length)
    assert cost(recipe, 10, 500, speed) == {
        "steps": 100,
        "train_seconds": tokens / 1000,
        "encode_seconds": 500 * recipe.passage_length / 7200,
        "seconds": tokens / 1000 + 500 * recipe.passage_length / 7200,
    }
    assert cost(load_recipe("bm25"), 100, 1000)["steps"] == 0


@pytest.mark.parametrize("architecture", ["splade", "colbert", "reranker"])
def test_architecture_of_a_later_version_is_refused(architecture, tmp_path):
    with pytest.raises(InputError, match=f"{architecture} is not part of this version"):
        fit(Recipe(architecture=architecture, steps=1), None, [], "train", 0, tmp_path / "out")
    assert not (tmp_path / "out").exists()
