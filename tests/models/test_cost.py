"""Prices follow what a model starts from, and are there before anything is computed."""

import pytest

from interextra.data.queries import Queries, Source
from interextra.models.model import Model, Pretrained
from interextra.models.recipe import RUN_ROW_MEGABYTES, SIZES, Pretraining, load_recipe, size_of
from interextra.models.search.run import Encoded, Run, Searched
from interextra.models.search.sizes import build_seconds
from interextra.models.search.vectors import TrainedVectors, Vectors

SPEC = "mini:n_train=400,n_dev=40"


@pytest.fixture(scope="module")
def source():
    return Source.of(SPEC)


@pytest.fixture(scope="module")
def train(source):
    return Queries(source=source, split="train")


@pytest.mark.parametrize(
    ("initialisation", "size"),
    [
        ("tiny-base", "tiny"),
        ("random", "tiny"),
        ("tiny-base:random", "tiny"),
        ("minilm", "minilm"),
        ("minilm:layers=2", "minilm"),
        ("/models/all-MiniLM-L6-v2", "minilm"),
        ("bert-base-uncased", "base-gpu"),
        ("/minilm-experiments/bert-base", "base-gpu"),
    ],
)
def test_size_is_that_of_the_initialisation(initialisation, size):
    assert size_of(initialisation) == SIZES[size]


@pytest.mark.parametrize("name", ["small-star", "small-adore", "msmarco-star", "msmarco-adore"])
def test_training_after_another_has_the_size_of_that_one(name):
    recipe, first = (
        load_recipe(name),
        load_recipe("msmarco-dense" if name.startswith("msm") else "small-dense"),
    )
    assert recipe.size == first.size != SIZES["tiny"]
    search = recipe.search_seconds(1000, 0)
    assert search == 1000 * recipe.passage_length / first.size.encode_tokens


def test_vectors_cost_what_their_encoder_costs(train):
    seconds = {
        spec: Vectors(encoder=spec, train=train).seconds()
        for spec in ("lsa", "minilm", "cls:minilm", "cls:tiny-base")
    }
    assert (
        seconds["minilm"]
        == seconds["cls:minilm"]
        == pytest.approx(200 / 9 * seconds["cls:tiny-base"])
    )
    assert Vectors(encoder="cls:bert-base-uncased", train=train).megabytes() == pytest.approx(
        400 * 768 * 4e-6
    )
    model = Model.of(load_recipe("small-dense"), train, seed=1)
    assert TrainedVectors(model=model, train=train).seconds() == seconds["minilm"]


def test_pretraining_costs_what_its_start_costs():
    how = Pretraining(objective="words", corpus=("mini",), steps=10)
    starts = {
        name: Pretrained(how=how, corpus=(), initialisation=name, start="", seed=1)
        for name in ("tiny-base", "/x/minilm")
    }
    assert starts["/x/minilm"].seconds() == pytest.approx(36 * starts["tiny-base"].seconds())
    assert starts["/x/minilm"].megabytes() == 62.0


def test_megabytes_of_what_is_large(source, train):
    model = Model.of(load_recipe("mini-dense"), train, seed=1)
    run = Run(model=model, queries=(train,), depth=50)
    assert (model.megabytes(), run.megabytes()) == (1.6, RUN_ROW_MEGABYTES * 400 * 50)
    assert Encoded(model=model, source=source).megabytes() == source.n_passages() * 64 * 4e-6
    assert Model.of(load_recipe("bm25"), train, seed=1).megabytes() == 0.0


def test_a_graph_is_priced_by_what_it_costs_to_build(source, train):
    encoded = Encoded(model=Model.of(load_recipe("mini-dense"), train, seed=1), source=source)
    exact = Searched(encoded=encoded, queries=(train,))
    graph = Searched(encoded=encoded, queries=(train,), index="HNSW32")
    building = build_seconds("HNSW32", "", source.n_passages(), 64)
    assert graph.seconds() == pytest.approx(exact.seconds() + building) > exact.seconds()
