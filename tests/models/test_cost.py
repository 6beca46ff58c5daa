"""Prices follow what a model starts from, and are there before anything is computed."""

import json

import pytest

from interextra.data.pricing import pricing
from interextra.data.queries import Queries, Source
from interextra.models.model import Model, Pretrained
from interextra.models.prices import RUN_ROW_MEGABYTES, SIZES, on_gpu, size_of, throughput
from interextra.models.recipe import Pretraining, load_recipe
from interextra.models.search.run import Encoded, Run, Searched
from interextra.models.search.sizes import build_seconds
from interextra.models.search.vectors import TrainedVectors, Vectors
from interextra.store.errors import InputError

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
        ("bert-base-uncased", "base"),
        ("/minilm-experiments/bert-base", "base"),
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
    slower = SIZES["tiny"].encode_tokens / SIZES["minilm"].encode_tokens
    as_minilm = pytest.approx(slower * seconds["cls:tiny-base"])
    assert slower > 1 and seconds["minilm"] == seconds["cls:minilm"] == as_minilm
    with pricing():
        of_the_hub = Vectors(encoder="cls:bert-base-uncased", train=train)
    assert of_the_hub.megabytes() == pytest.approx(400 * 768 * 4e-6)
    model = Model.of(load_recipe("small-dense"), train, seed=1)
    assert TrainedVectors(model=model, train=train).seconds() == seconds["minilm"]


def test_pretraining_costs_what_its_start_costs():
    how = Pretraining(objective="words", corpus=("mini",), steps=10)
    starts = {
        name: Pretrained(how=how, corpus=(), initialisation=name, start="", seed=1)
        for name in ("tiny-base", "/x/minilm")
    }
    slower = SIZES["tiny"].train_tokens / SIZES["minilm"].train_tokens
    as_minilm = pytest.approx(slower * starts["tiny-base"].seconds())
    assert slower > 1 and starts["/x/minilm"].seconds() == as_minilm
    assert starts["/x/minilm"].megabytes() == 62.0


def test_megabytes_of_what_is_large(source, train):
    model = Model.of(load_recipe("mini-dense"), train, seed=1)
    run = Run(model=model, queries=(train,), depth=50)
    assert (model.megabytes(), run.megabytes()) == (1.6, RUN_ROW_MEGABYTES * 400 * 50)
    assert Encoded(model=model, source=source).megabytes() == source.n_passages() * 64 * 4e-6
    assert Model.of(load_recipe("bm25"), train, seed=1).megabytes() == 0.0


def test_speeds_of_the_h100_are_those_that_were_measured(root):
    measured = json.loads((root / "bench" / "measured" / "throughput-h100.json").read_text())
    assert len(measured["recipes"]) == 4
    for row in measured["recipes"]:
        speed = load_recipe(row["recipe"]).speed
        assert speed == (row["train_tokens"], row["encode_tokens"])
    assert measured["device"] in throughput("h100")["source"]


def test_speeds_of_an_a100_are_a_stated_share_of_the_h100():
    recipe = load_recipe("msmarco-dense")  # trained in bf16, encodes in fp32
    of_h100 = recipe.speed
    with on_gpu("a100"):
        of_a100 = recipe.speed
    assert of_a100.train_tokens == pytest.approx(312 / 989 * of_h100.train_tokens, rel=1e-3)
    assert of_a100.encode_tokens == pytest.approx(19.5 / 67 * of_h100.encode_tokens, rel=1e-3)
    assert "derived" in throughput("a100")["source"]
    assert recipe.speed == of_h100


def test_speeds_of_a_gpu_of_ones_own_come_from_the_file_of_the_benchmark(root, tmp_path):
    path = root / "bench" / "measured" / "throughput-h100.json"
    recipe = load_recipe("msmarco-splade")
    with on_gpu(str(path)):
        assert recipe.speed == (137806, 79742)
    (tmp_path / "other.json").write_text('{"device": "x", "recipes": []}')
    for gpu, message in {
        "v100": "no speeds of 'v100': known are a100, h100",
        str(tmp_path / "none.json"): "not the speeds of a device",
        str(tmp_path / "other.json"): "not the speeds of a device",
    }.items():
        with pytest.raises(InputError, match=message), on_gpu(gpu):
            pass


def test_every_size_has_a_speed_on_its_device():
    for size in SIZES.values():
        device = "h100" if size.device == "gpu" else "cpu"
        assert size.name in throughput(device) and throughput(device)["source"]
        assert size.train_tokens > 0 and size.encode_tokens > 0
    for size in (SIZES["tiny"], SIZES["minilm"]):
        assert size.speed("splade").train_tokens < size.train_tokens / 2


def test_device_follows_the_encoder_and_faiss_has_none(source, train):
    with pricing():  # a model of the hub is not loaded
        dense = Model.of(load_recipe("msmarco-dense"), train, seed=1)
    tiny = Model.of(load_recipe("mini-dense"), train, seed=1)
    run = Run(model=dense, queries=(train,))
    search = Searched(encoded=Encoded(model=dense, source=source), queries=(train,))
    bm25 = Model.of(load_recipe("bm25"), train, seed=1)
    assert [cell.device() for cell in (dense, run, search, tiny, bm25)] == [
        "gpu",
        "gpu",
        "cpu",
        "cpu",
        "cpu",
    ]
    assert [cell.gpus() for cell in (dense, run, search, tiny)] == [1, 1, 0, 0]
    assert all(cell.threads() == 1 for cell in (dense, run, search, tiny, bm25))


def test_several_processes_take_as_many_gpus_and_the_same_gpu_hours(train):
    with pricing():
        one, four = (
            Model.of(load_recipe("msmarco-dense", processes=n, batch_size=256 // n), train, seed=1)
            for n in (1, 4)
        )
    assert (one.gpus(), four.gpus()) == (1, 4)
    assert 0.9 < 4 * four.seconds() / one.seconds() < 4.1
    on_a_core = load_recipe("mini-dense", processes=2)
    assert Model.of(on_a_core, train, seed=1).gpus() == 0


def test_memory_grows_with_what_is_held(source, train):
    def memory(name, **values):
        return Model.of(load_recipe(name, **values), train, seed=1).memory()

    assert memory("mini-dense", batch_size=64) > memory("mini-dense", batch_size=8)
    assert memory("mini-splade") > memory("mini-dense")  # a logit for every word
    assert memory("small-dense") > memory("mini-dense")
    assert memory("bm25") > 2_000  # Java
    model = Model.of(load_recipe("mini-dense"), train, seed=1)
    shallow, deep = (Run(model=model, queries=(train,), depth=depth) for depth in (10, 1000))
    assert deep.memory() - shallow.memory() == pytest.approx(400 * 990 * 120e-6)
    encoded = Encoded(model=model, source=source)
    of_index = {
        index: Searched(encoded=encoded, queries=(train,), index=index).memory()
        for index in ("Flat", "int8", "HNSW32")
    }
    assert of_index["Flat"] < of_index["int8"] < of_index["HNSW32"]


def test_a_graph_is_priced_by_what_it_costs_to_build(source, train):
    encoded = Encoded(model=Model.of(load_recipe("mini-dense"), train, seed=1), source=source)
    exact = Searched(encoded=encoded, queries=(train,))
    graph = Searched(encoded=encoded, queries=(train,), index="HNSW32")
    building = build_seconds("HNSW32", "", source.n_passages(), 64)
    assert graph.seconds() == pytest.approx(exact.seconds() + building)
    assert building > 0
