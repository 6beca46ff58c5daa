"""A collection is encoded once, and searched exactly and by indexes."""

import numpy as np
import pytest

from interextra.data.queries import Queries, Source
from interextra.models.model import Model, load_model
from interextra.models.recipe import load_recipe
from interextra.models.search.indexes import Index
from interextra.models.search.run import Encoded, Run, Searched
from interextra.store.errors import InputError
from interextra.store.folders import Store

SPEC = "mini:n_train=400,n_dev=40"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("home") / "outputs" / "cells")


@pytest.fixture(scope="module")
def asked():
    return tuple(Queries(source=Source.of(SPEC), split=split) for split in ("dev", "test"))


@pytest.fixture(scope="module")
def model(asked):
    return Model.of(
        load_recipe("mini-dense", steps=2), Queries(source=asked[0].source, split="train"), seed=1
    )


@pytest.fixture(scope="module")
def encoded(home, model, asked):
    cell = Encoded(model=model, source=asked[0].source)
    home.build(cell)
    return cell


def test_flat_search_is_the_models_own_with_ties_by_doc_id(home, model, encoded, asked):
    run, searched = (
        Run(model=model, queries=asked, depth=20),
        Searched(encoded=encoded, queries=asked, depth=20),
    )
    for cell in (run, searched):
        home.build(cell)
    for queries in asked:
        ours, found = (cell.read(home, queries).frame() for cell in (run, searched))
        assert ours.equals(found)
    assert searched.log(home) == run.log(home) and searched.recipe == run.recipe


def test_vectors_are_those_of_the_model_and_stay_on_disk(home, model, encoded, asked):
    vectors, passages = encoded.read(home), asked[0].source.open().passages
    assert (
        isinstance(vectors, np.memmap)
        and vectors.dtype == np.float32
        and len(vectors) == len(passages)
    )
    some = load_model(home[model] / "weights").encode_passages(passages.texts(slice(0, 50)))
    np.testing.assert_allclose(vectors[:50], some, atol=1e-5)


def test_every_passage_is_found_by_an_index_that_looks_everywhere(home, encoded, asked):
    exact = Searched(encoded=encoded, queries=asked[:1], depth=10)
    lists = Searched(
        encoded=encoded,
        queries=asked[:1],
        depth=10,
        index="IVF8,Flat",
        parameters="nprobe=8",
        seed=3,
    )
    few = lists.model_copy(update={"parameters": "nprobe=1"})
    frames = []
    for cell in (exact, lists, few):
        home.build(cell)
        frames.append(cell.read(home, "dev").frame())
    assert np.allclose(frames[0]["score"], frames[1]["score"], atol=1e-5)
    assert frames[2]["score"].sum() < frames[1]["score"].sum()


def test_order_of_insertion_is_drawn_with_the_seed_and_repeats():
    draw = np.random.default_rng(1)
    vectors, queries = (draw.random((n, 8)).astype(np.float32) for n in (2000, 50))
    small = "efConstruction=8,efSearch=4"
    first, again, other = (
        Index(vectors, "HNSW4", small, seed).search(queries, 10) for seed in (0, 0, 1)
    )
    assert (first[0] == again[0]).all() and (first[0] != other[0]).any()
    scores = queries @ vectors.T
    much = Index(vectors, "HNSW32", "efConstruction=200,efSearch=500", seed=1).search(queries, 10)
    np.testing.assert_allclose(much[1], np.take_along_axis(scores, much[0], axis=1), atol=1e-5)
    exact = np.argsort(-scores, axis=1)[:, :10]
    recall = [
        np.mean([np.isin(a, b).mean() for a, b in zip(exact, found[0], strict=True)])
        for found in (first, much)
    ]
    assert recall[0] < 0.9 < 0.97 < recall[1]


@pytest.mark.parametrize(
    ("index", "parameters"), [("HNWS", ""), ("HNSW4", "efSerach=4"), ("IVF4,Flat", "nprobe=x")]
)
def test_misspelt_index_or_parameter_is_a_clear_error(index, parameters):
    vectors = np.random.default_rng(1).random((100, 8)).astype(np.float32)
    with pytest.raises(InputError, match=f"faiss: index '{index}' with parameters '{parameters}'"):
        Index(vectors, index, parameters)


def test_what_cannot_be_encoded_or_searched_is_refused(home, encoded, asked):
    elsewhere = Queries(source=Source.of("mini:ood-hobby-questions"), split="test")
    with pytest.raises(InputError, match="another collection"):
        home.build(Searched(encoded=encoded, queries=(elsewhere,)))
    colbert = Model.of(load_recipe("mini-colbert", steps=0), encoded.model.train, seed=1)
    with pytest.raises(InputError, match="not one vector a text"):
        home.build(Encoded(model=colbert, source=encoded.source))


def test_queries_can_be_encoded_where_the_weights_are_gone(home, encoded, asked):
    assert encoded.model in Searched(encoded=encoded, queries=asked, depth=7).needs()
