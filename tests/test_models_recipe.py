"""Recipes: what is said is what is used, and a slip is an error that names it."""

import pytest

from interextra.ground.errors import InputError
from interextra.models import ARCHITECTURES, Recipe, cost, fit, load_recipe, training_steps
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
        ({"steps": -1}, "steps = -1"),
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


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("mini-dense", {"rerank_depth": 10}, "rerank_depth has no effect on dense"),
        ("mini-dense", {"query_flops": 0.1, "dimension": 32}, "dimension, query_flops has no effect on dense"),
        ("mini-dense", {"loss": "pointwise"}, "loss pointwise is for the reranker only"),
        ("mini-splade", {"query_expansion": True}, "query_expansion has no effect on splade"),
        ("mini-splade", {"pooling": "mean"}, "pooling has no effect on splade"),
        ("mini-colbert", {"passage_flops": 0.5}, "passage_flops has no effect on colbert"),
        ("mini-colbert", {"similarity": "cosine"}, "similarity has no effect on colbert"),
        ("mini-reranker", {"negatives": "both"}, "a reranker's negatives are random or bm25"),
        ("mini-reranker", {"similarity": "cosine"}, "similarity has no effect on reranker"),
        ("bm25", {"encode_precision": "bf16"}, "encode_precision has no effect on bm25"),
    ],
)
def test_parameter_of_another_architecture_is_refused(name, changes, message):
    with pytest.raises(InputError, match=message):
        load_recipe(name, **changes)


def test_later_fields_name_a_cell_only_where_they_are_not_at_their_default():
    recipe = load_recipe("mini-reranker", rerank_depth=1000, negative_depth=7)
    assert "rerank_depth" not in recipe.named() and recipe.named()["negative_depth"] == 7
    assert recipe.model_dump()["rerank_depth"] == 1000
    assert Recipe(**recipe.named()) == recipe


def test_names_of_the_first_cells_are_what_they_were():
    """Fields that are added must not rename the cells of older results: add them to `_LATER`."""
    assert list(load_recipe("mini-dense").named()) == [
        *("architecture", "initialisation", "pooling", "similarity", "temperature", "loss", "negatives"),
        *("n_negatives", "positive_relevance", "batch_size", "steps", "epochs", "learning_rate", "warmup_steps"),
        *("weight_decay", "query_length", "passage_length", "precision", "k1", "b", "tuning_queries"),
    ]
    assert list(load_recipe("bm25").named()) == list(load_recipe("mini-dense").named())


def test_cost_of_a_reranker_counts_the_pairs_of_training_and_search():
    recipe = load_recipe("mini-reranker", steps=10, batch_size=4, n_negatives=3, rerank_depth=20)
    length = recipe.query_length + recipe.passage_length
    found = cost(recipe, 100, 5000, {"train_tokens": 1000, "encode_tokens": 2000}, n_queries=50)
    assert found["train_seconds"] == 10 * 4 * (1 + 3) * length / 1000
    assert found["encode_seconds"] == 50 * 20 * length / 2000


def test_cost_counts_bm25_negatives_of_every_query():
    speed = {"train_tokens": 1, "encode_tokens": 1}
    shared, own = (
        cost(load_recipe("mini-dense", steps=1, batch_size=8, n_negatives=2, negatives=kind), 9, 9, speed)
        for kind in ("random", "bm25")
    )
    assert own["train_seconds"] - shared["train_seconds"] == (8 * 2 - 2) * load_recipe("mini-dense").passage_length


def test_reranker_at_paper_scale_has_the_constants_of_the_paper():
    recipe = load_recipe("msmarco-reranker")
    assert (recipe.loss, recipe.epochs, recipe.rerank_depth) == ("pairwise", 50, 1000)
    assert (recipe.initialisation, recipe.k1, recipe.b) == (
        "bert-base-uncased",
        load_recipe("bm25").k1,
        load_recipe("bm25").b,
    )


def test_architecture_that_is_not_there_lists_those_that_are(tmp_path, monkeypatch):
    monkeypatch.delitem(ARCHITECTURES, "splade")
    with pytest.raises(InputError, match="splade is not part of this version; it has bm25, dense, colbert, reranker"):
        fit(Recipe(architecture="splade", steps=1), None, [], "train", 0, tmp_path / "out")
    assert not (tmp_path / "out").exists()
