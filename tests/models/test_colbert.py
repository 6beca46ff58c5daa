"""ColBERT: MaxSim as defined, training that learns and repeats, exact search."""

import numpy as np
import pytest
import torch
from toy_models import animals

from interextra.models.architectures import colbert
from interextra.models.architectures.bm25 import reciprocal_rank
from interextra.models.base import WEIGHTS
from interextra.models.model import fit, load_model
from interextra.models.recipe import load_recipe
from interextra.models.training.tokens import Tokens
from interextra.store.errors import InputError
from interextra.store.files import sha256

QUICK = {"steps": 12, "batch_size": 8, "warmup_steps": 2, "negatives": "in-batch"}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return animals(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def trained(toy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "model"
    fit(
        load_recipe("mini-colbert", **QUICK | {"steps": 30}),
        toy,
        toy.query_ids("train"),
        "train",
        1,
        folder,
    )
    return folder


@pytest.fixture(scope="module")
def model(trained):
    return load_model(trained)


@pytest.fixture(scope="module")
def texts(toy):
    return toy.queries("train")["text"].tolist()


def block(draw, lengths, d=8):
    return [draw.normal(size=(length, d)).astype(np.float32) for length in lengths]


def one_by_one(queries, passages):
    """Equation 3 of Khattab & Zaharia in plain numpy, a pair at a time."""
    return np.array([[(q @ p.T).max(axis=1).sum() for p in passages] for q in queries])


@pytest.mark.parametrize("tile", [(1, 1), (5, 7), (16, 1000), (256, 4096)])
def test_maxsim_is_the_sum_of_maxima_for_any_tile(monkeypatch, tile):
    draw = np.random.default_rng(1)
    queries, passages = (
        block(draw, [3, 1, 7, 7, 2]),
        block(draw, [4, 9, 1, 12, 4, 30]),
    )  # negative scores, too
    monkeypatch.setattr(colbert, "TILE", tile)
    monkeypatch.setattr(colbert, "GPU_TILE", tile)
    found = colbert.maxsim(queries, passages).cpu().numpy()
    np.testing.assert_allclose(found, one_by_one(queries, passages), atol=1e-5)


def test_maxsim_of_only_negative_products_is_negative():
    one = [np.array([[1, 0]], np.float32)]
    other = [np.array([[-1, 0], [-0.5, 0]], np.float32), np.array([[-0.25, 0]], np.float32)]
    assert colbert.maxsim(one, other).tolist() == [[-0.5, -0.25]]


def test_training_scores_are_maxsim_and_ignore_masked_tokens():
    from sentence_transformers.util.similarity import maxsim as library_maxsim

    draw = torch.Generator().manual_seed(0)
    left, right = torch.randn(4, 5, 8, generator=draw), torch.randn(6, 7, 8, generator=draw)
    some, there = torch.rand(4, 5, generator=draw) < 0.7, torch.rand(6, 7, generator=draw) < 0.7
    there[:, 0] = True
    found = colbert._maxsim_of_all(
        colbert.TokenVectors(left, some), colbert.TokenVectors(right, there)
    )
    np.testing.assert_allclose(
        found, library_maxsim(left, right, a_mask=some, b_mask=there), atol=1e-5
    )


def test_training_repeated_gives_the_same_bytes_and_another_seed_does_not(toy, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        fit(
            load_recipe("mini-colbert", **QUICK),
            toy,
            toy.query_ids("train"),
            "train",
            seed,
            tmp_path / name,
        )
    first, again, other = (
        [sha256(path) for path in sorted((tmp_path / name).rglob(WEIGHTS))] for name in "abc"
    )
    assert first == again != other and len(first) == 2  # transformer and projection


def test_training_finds_what_it_was_trained_on(toy, model, texts):
    rows, _ = model.search(toy, texts, 10)
    relevant = [toy.passages.rows([doc_id]) for doc_id in toy.qrels("train")["doc_id"]]
    assert reciprocal_rank(rows, relevant).mean() > 0.9


def test_token_vectors_have_the_dimension_of_the_recipe_and_length_one(model, texts):
    found = model.encode_block(texts[:5], "query")
    assert all(tokens.shape[1] == 32 and tokens.dtype == np.float32 for tokens in found)
    np.testing.assert_allclose(np.linalg.norm(np.concatenate(found), axis=1), 1, atol=1e-5)


def test_query_expansion_lets_masks_score(toy):
    def tokens(**options):
        recipe = load_recipe("mini-colbert", query_length=16, **options)
        made = colbert.ColBERT(colbert.build(recipe, 1), recipe)
        asked = ["where does it live", "what does the bado eat in the morning"]
        return [len(tokens) for tokens in made.encode_block(asked, "query")]

    assert tokens(query_expansion=True) == [16, 16]
    short, long = tokens()
    assert short < long < 16


def test_lengths_of_the_recipe_cut_the_texts(model):
    long = " ".join(["forest"] * 200)
    assert len(model.encode_block([long], "query")[0]) <= 20
    assert 20 < len(model.encode_block([long])[0]) <= 56


def test_damaged_projection_is_a_clear_error(trained, tmp_path):
    import shutil

    copy = tmp_path / "model"
    shutil.copytree(trained, copy)
    projection = next(path for path in copy.rglob(WEIGHTS) if path.parent != copy)
    projection.write_bytes(projection.read_bytes()[:100])
    with pytest.raises(InputError, match="holds no readable colbert model"):
        load_model(copy)


@pytest.mark.parametrize("expansion", [False, True])
def test_kept_tokens_are_what_the_model_makes_of_a_text(expansion):
    model = colbert.build(load_recipe("mini-colbert", query_expansion=expansion), 1)
    texts, tokens = (
        ["what is a whale", "why", "what is a whale", "how old is the oldest whale of all"],
        Tokens(model),
    )
    for task, chosen in (
        ("query", texts),
        ("query", texts[1:2]),
        ("document", texts),
        ("document", texts[::-1]),
    ):
        made, expected = tokens.preprocess(chosen, task), model.preprocess(chosen, task=task)
        assert made.keys() == expected.keys()
        for name, column in expected.items():
            assert made[name] == column if name == "modality" else torch.equal(made[name], column)
    kept = [("document", text) for text in dict.fromkeys(texts)]
    assert [key for key in tokens.kept if key[0] == "document"] == kept
