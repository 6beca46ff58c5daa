"""Recipes: what is said is what is used, and a slip is an error that names it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interextra import models
from interextra.models.prices import SIZES
from interextra.models.recipe import RECIPES, Recipe, load_recipe, make_recipe
from interextra.store.errors import InputError


@pytest.mark.parametrize("name", sorted(path.stem for path in RECIPES.glob("*.yaml")))
def test_every_recipe_of_the_package_loads_and_survives_a_round_trip(name):
    recipe = load_recipe(name)
    assert make_recipe(recipe.model_dump(), "again") == recipe and type(recipe) is not Recipe


def test_msmarco_recipe_has_the_constants_of_the_paper():
    recipe = load_recipe("msmarco-dense")
    assert (recipe.n_negatives, recipe.epochs, recipe.pooling) == (1024, 50, "cls")
    assert (recipe.query_length, recipe.passage_length) == (24, 120)


def test_misspelt_key_is_named_with_the_nearest_known_one(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("architecture: dense\nsteps: 5\nlearning_rat: 0.1\n")
    message = r"mine\.yaml: dense has no parameter 'learning_rat', did you mean 'learning_rate'"
    with pytest.raises(InputError, match=message):
        load_recipe(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": "bert"}, "architecture = 'bert'"),
        ({"loss": "triplet"}, "loss = 'triplet'"),
        ({"steps": -1}, "steps = -1"),
        ({"steps": 5, "epochs": 1}, "exactly one of steps and epochs"),
        ({"steps": None}, "exactly one of steps and epochs"),
        ({"k1": [1.0]}, "dense has no parameter 'k1'"),
    ],
)
def test_value_that_cannot_be_is_an_error_that_names_it(changes, message):
    with pytest.raises(InputError, match=message):
        load_recipe("mini-dense", **changes)


def test_parameter_of_training_is_refused_for_bm25():
    with pytest.raises(InputError, match="bm25 has no parameter 'learning_rate'"):
        load_recipe("bm25", learning_rate=0.5)


def test_unknown_recipe_lists_the_known_ones():
    with pytest.raises(InputError, match="mini-dense"):
        load_recipe("mini-dens")


def test_steps_replace_the_epochs_of_the_file():
    assert load_recipe("msmarco-dense", steps=7).epochs is None


def test_steps_from_epochs_round_up():
    assert load_recipe("mini-dense", epochs=2, batch_size=32).training_steps(33) == 3


def test_cost_grows_with_steps_and_passages():
    recipe, speed = load_recipe("mini-dense", steps=100, negatives="random"), SIZES["tiny"]
    passages = recipe.batch_size + recipe.n_negatives
    tokens = 100 * (recipe.batch_size * recipe.query_length + passages * recipe.passage_length)
    assert recipe.train_seconds(10, 500) == tokens / speed.train_tokens
    assert recipe.search_seconds(500, 7) == 500 * recipe.passage_length / speed.encode_tokens
    assert load_recipe("bm25").search_seconds(16_000, 7) == 2


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("mini-dense", {"rerank_depth": 10}, "dense has no parameter 'rerank_depth'"),
        (
            "mini-dense",
            {"query_flops": 0.1, "dimension": 32},
            "dense has no parameter 'query_flops'",
        ),
        (
            "mini-dense",
            {"loss": "rank"},
            "loss = 'rank': it is one of distilled, listwise, margin-mse, pairwise",
        ),
        ("mini-splade", {"query_expansion": True}, "splade has no parameter 'query_expansion'"),
        ("mini-splade", {"pooling": "mean"}, "splade has no parameter 'pooling'"),
        ("mini-colbert", {"passage_flops": 0.5}, "colbert has no parameter 'passage_flops'"),
        ("mini-colbert", {"similarity": "cosine"}, "colbert has no parameter 'similarity'"),
        (
            "mini-reranker",
            {"loss": "distilled"},
            "loss = 'distilled': it is one of listwise, pairwise",
        ),
        (
            "mini-colbert",
            {"loss": "margin-mse"},
            "loss = 'margin-mse': it is one of distilled, listwise, pairwise",
        ),
        (
            "mini-reranker",
            {"negatives": "in-batch"},
            "negatives = 'in-batch': input should be 'random', 'both'",
        ),
        ("mini-reranker", {"similarity": "cosine"}, "reranker has no parameter 'similarity'"),
        ("bm25", {"encode_precision": "bf16"}, "bm25 has no parameter 'encode_precision'"),
    ],
)
def test_parameter_of_another_architecture_is_refused(name, changes, message):
    with pytest.raises(InputError, match=message):
        load_recipe(name, **changes)


def test_cost_of_a_reranker_counts_the_pairs_of_training_and_search():
    recipe = load_recipe(
        "mini-reranker", steps=10, batch_size=4, negatives="bm25", n_negatives=3, rerank_depth=20
    )
    length = recipe.query_length + recipe.passage_length
    speed = SIZES["tiny"].speed("reranker")
    assert recipe.train_seconds(100, 5000) == 10 * 4 * (1 + 3) * length / speed.train_tokens
    assert recipe.search_seconds(5000, 50) == 50 * 20 * length / speed.encode_tokens
    assert recipe.scored_pairs(10) == 10 * 4 * (1 + 3)
    both = recipe.model_copy(update={"negatives": "both"})
    assert both.scored_pairs(10) == 10 * 4 * (1 + 3 + 3)


def test_bm25_negatives_of_every_query_cost_and_teach():
    shared, own = (
        load_recipe("mini-dense", steps=1, batch_size=8, n_negatives=2, negatives=kind)
        for kind in ("random", "bm25")
    )
    more = own.train_seconds(9, 9) - shared.train_seconds(9, 9)
    assert more == pytest.approx((8 * 2 - 2) * own.passage_length / SIZES["tiny"].train_tokens)
    assert own.scored_pairs(1) - shared.scored_pairs(1) == 8 * (8 * 2 - 2)


def test_cost_counts_what_training_reads_without_learning_from_it():
    seconds = [
        load_recipe("mini-dense", **values).train_seconds(100, 10_000)
        for values in (
            {"negatives": "in-batch"},
            {"negatives": "in-batch", "loss": "distilled", "teacher": "mini-colbert"},
            {"negatives": "own", "loss": "rank-weighted", "after": "mini-star"},
        )
    ]
    recipe = load_recipe("mini-dense")
    tokens = recipe.batch_size * (recipe.query_length + recipe.passage_length)
    speed = SIZES["tiny"].encode_tokens
    assert seconds[1] - seconds[0] == pytest.approx(
        recipe.steps * tokens / speed
    )  # the teacher reads each batch
    assert seconds[2] - seconds[0] == pytest.approx(
        10_000 * recipe.passage_length / speed
    )  # all passages, once


def test_reranker_at_paper_scale_has_the_constants_of_the_paper():
    recipe = load_recipe("msmarco-reranker")
    assert (recipe.loss, recipe.epochs, recipe.rerank_depth) == ("pairwise", 50, 1000)
    assert (recipe.initialisation, recipe.k1, recipe.b) == (
        "bert-base-uncased",
        load_recipe("bm25").k1,
        load_recipe("bm25").b,
    )


TFIDF = """
LABEL = "TF-IDF"
COLOUR = "#000000"
ENCODES_QUERIES = False

import numpy as np
from interextra.models.recipe import Recipe


class Options(Recipe):
    scale: float = 1.0


class TFIDF:
    def search(self, collection, texts, k):
        return np.zeros((len(texts), k), np.int32), np.ones((len(texts), k), np.float32)


def fit(recipe, collection, query_ids, split, seed, out_dir):
    return {"steps": 0, "loss": [], "scale": recipe.scale}


def load(out_dir, recipe):
    return TFIDF()
"""


def test_architecture_is_a_module_and_a_recipe_and_nothing_else(tmp_path):
    shutil.copytree(Path(models.__file__).parents[1], tmp_path / "interextra")
    (tmp_path / "interextra" / "models" / "architectures" / "tfidf.py").write_text(TFIDF)
    (tmp_path / "interextra" / "models" / "recipes" / "toy.yaml").write_text(
        "architecture: tfidf\nscale: 2\n"
    )
    code = """if True:
        from interextra.models.architectures import architectures
        from interextra.models.model import fit, load_model
        from interextra.models.recipe import load_recipe
        print(architectures()["tfidf"].LABEL, fit(load_recipe("toy"), None, [], "train", 1, "model"),
              load_model("model").search(None, ["a"], 2)[0].shape)
    """
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.stdout == "TF-IDF {'steps': 0, 'loss': [], 'scale': 2.0} (1, 2)\n", done.stderr


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("mini-dense", {"learning_rate": float("inf")}, "learning_rate = inf"),
        ("mini-dense", {"learning_rate": float("nan")}, "learning_rate = nan"),
        ("mini-dense", {"learning_rate": -0.1}, "learning_rate = -0.1"),
        (
            "mini-dense",
            {"learning_rate": 3e30},
            "learning_rate = 3e[+]30: input should be less than or equal to 1",
        ),
        ("mini-dense", {"temperature": float("inf")}, "temperature = inf"),
        ("mini-dense", {"temperature": 1e-300}, "temperature = 1e-300"),
        ("mini-dense", {"weight_decay": float("nan")}, "weight_decay = nan"),
        ("mini-dense", {"epochs": float("inf")}, "epochs = inf"),
        ("mini-dense", {"steps": 10**30}, "steps = 1000000"),
        ("mini-dense", {"batch_size": 10**12}, "batch_size = 1000000000000"),
        ("mini-dense", {"warmup_steps": 10**30}, "warmup_steps"),
        ("mini-dense", {"negative_passages": float("nan")}, "negative_passages"),
        ("mini-splade", {"query_flops": float("inf")}, "query_flops = inf"),
        ("mini-colbert", {"dimension": 10**9}, "dimension = 1000000000"),
        ("mini-compressed", {"dimension": 10**9}, "dimension = 1000000000"),
        ("mini-tas-b", {"in_batch_weight": float("inf")}, "in_batch_weight = inf"),
        ("mini-reranker", {"first_stage_weight": float("nan")}, "first_stage_weight = nan"),
        ("bm25", {"k1": [float("inf")]}, "k1.0 = inf"),
        ("bm25", {"b": [float("nan")]}, "b.0 = nan"),
    ],
)
def test_number_that_trains_nothing_is_refused(name, values, message):
    with pytest.raises(InputError, match=message) as caught:
        load_recipe(name, **values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "given", ["learning_rate: .inf", "learning_rate: .nan", "epochs: .inf", "temperature: -.inf"]
)
def test_infinity_written_in_braces_is_refused(given):
    with pytest.raises(InputError, match=rf"mini-dense\{{{given}\}}: {given.partition(':')[0]} = "):
        load_recipe(f"mini-dense{{{given}}}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{1: 2}", "write mini-dense{key: value, key: value}"),
        ("{[a]: 2}", "write mini-dense"),
        ("{" * 20_000, "write mini-dense"),
        ("{a: " * 5_000, "write mini-dense"),
        ("{loss: 2001-99-99}", "not readable as YAML"),
        ('{loss: "\\ud800"}', "not readable as YAML"),
        ("{architecture: [dense]}", r"architecture = \['dense'\]: it is one of"),
        ("{architecture: null}", "architecture = None: it is one of"),
        ("{a: &x [1, 1], b: &y [*x, *x]}", "an alias"),
        ("{loss: " + "x" * 10_000 + "}", "loss = "),
        (f"{{steps: 0x{'f' * 20_000}}}", "not readable as YAML"),
        ("{steps: 1\n}\n--- {}", "not readable as YAML"),
        ("{loss: \x00}", "not readable as YAML"),
    ],
)
def test_text_behind_a_recipe_is_read_or_refused_in_a_line(text, message):
    with pytest.raises(InputError, match=message) as caught:
        load_recipe(f"mini-dense{text}")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 700


def test_file_of_a_recipe_is_read_or_refused_in_a_line(tmp_path):
    path = tmp_path / "mine.yaml"
    for content in (
        b"\xff\xfe\xfa",
        b"architecture: \xff",
        b"[1]",
        b"",
        b"1: 2",
        b"[" * 100_000,
        b"a: &x [*x]",
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"mine\.yaml: ") as caught:
            load_recipe(path)
        assert "\n" not in str(caught.value)
    for name in ("x" * 300 + ".yaml", "a\x00.yaml", "\ud800", str(tmp_path), "~nobody/x.yaml"):
        with pytest.raises(InputError, match="no recipe"):
            load_recipe(name)


def written(folder, name, **values):
    path = folder / f"{name}.yaml"
    lines = "".join(
        f"{key}: {value}\n"
        for key, value in ({"architecture": "dense", "steps": 5} | values).items()
    )
    path.write_text(lines)
    return path


def test_recipe_after_itself_is_refused(tmp_path):
    path = written(tmp_path, "mine", after=tmp_path / "mine.yaml")
    for name in (str(path), f"{path}{{steps: 3}}", f"{tmp_path}/./mine.yaml"):
        with pytest.raises(
            InputError, match=r"mine\.yaml, which never begins: change 'after' of .*mine\.yaml$"
        ):
            load_recipe(name)
    with pytest.raises(InputError, match="which never begins"):
        load_recipe(path, steps=3)
    with pytest.raises(InputError, match="which never begins: change 'after'"):
        load_recipe("mini-dense", after=str(path))


@pytest.mark.parametrize("role", ["after", "teacher", "pair_teacher"])
def test_recipes_that_need_each_other_are_refused(tmp_path, role):
    one, two, three = (tmp_path / f"{name}.yaml" for name in ("one", "two", "three"))
    more = {"loss": "distilled", "negatives": "in-batch"} if role == "teacher" else {}
    more |= (
        {"architecture": "tas_balanced", "teacher": "mini-colbert"}
        if role == "pair_teacher"
        else {}
    )
    more |= {"pair_teacher": "mini-reranker"} if role == "pair_teacher" else {}
    written(tmp_path, "one", **more | {role: two})
    written(tmp_path, "two", after=three)
    written(tmp_path, "three", after=one)
    with pytest.raises(
        InputError, match=r"/one\.yaml needs .*/two\.yaml needs .*/three\.yaml needs .*/one\.yaml,"
    ):
        load_recipe(one)
    written(tmp_path, "three", after="mini-dense")
    assert getattr(load_recipe(one), role) == str(two)


def test_recipe_with_other_values_may_come_after_that_of_its_name():
    recipe = load_recipe(
        "mini-dense", after="mini-star"
    )  # whose own first pass is mini-dense as it is
    assert recipe.size == SIZES["tiny"]
    assert load_recipe("mini-dense{after: mini-dense}").after == "mini-dense"


def test_a_recipe_that_another_one_needs_may_be_a_mapping_of_its_own_options():
    as_mapping = load_recipe("mini-star", after={"recipe": "mini-dense", "steps": 2})
    assert as_mapping == load_recipe("mini-star", after="mini-dense{steps: 2}")
    nested = {"recipe": "mini-star", "after": {"recipe": "mini-dense", "steps": 2}, "steps": 2}
    inner = load_recipe(load_recipe("mini-adore", after=nested).after)
    assert inner.steps == 2 and load_recipe(inner.after).steps == 2
    with pytest.raises(InputError, match="write {recipe: NAME, option: value}"):
        load_recipe("mini-star", after={"steps": 2})
