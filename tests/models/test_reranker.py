"""Reranker: learns, repeats bit for bit, and leaves what it does not read below, as BM25 ranked
it.
"""

import numpy as np
import pytest
import torch
from toy_models import animals, collection_of

from interextra.models.architectures.bm25 import BM25, reciprocal_rank
from interextra.models.architectures.reranker import Reranker, below, build
from interextra.models.base import WEIGHTS
from interextra.models.model import fit, load_model
from interextra.models.recipe import load_recipe
from interextra.models.training.pairs import training_pairs
from interextra.models.training.trainer import PairBatches, PairLoss
from interextra.store.files import sha256

QUICK = {"steps": 6, "batch_size": 4, "warmup_steps": 1, "n_negatives": 2}
LEARNS = {
    "steps": 60,
    "batch_size": 16,
    "warmup_steps": 10,
    "n_negatives": 3,
    "loss": "listwise",
    "negative_depth": 10,
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return animals(tmp_path_factory.mktemp("toy"), n=20)


@pytest.fixture(scope="module")
def trained(toy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "model"
    recipe = load_recipe("mini-reranker", rerank_depth=10, **LEARNS)
    return folder, fit(recipe, toy, toy.query_ids("train"), "train", 1, folder)


def mean_rr(toy, rows):
    relevant = [toy.passages.rows([doc_id]) for doc_id in toy.qrels("train")["doc_id"]]
    return reciprocal_rank(rows, relevant).mean()


def test_training_repeated_gives_the_same_bytes_and_another_seed_does_not(toy, tmp_path):
    recipe = load_recipe("mini-reranker", **QUICK)
    for name, seed, query_ids in (("a", 1, 1), ("b", 1, -1), ("c", 2, 1)):
        fit(recipe, toy, toy.query_ids("train")[::query_ids], "train", seed, tmp_path / name)
    first, again, other = (sha256(tmp_path / name / WEIGHTS) for name in "abc")
    heads = [sha256(next((tmp_path / name).glob("*Dense/*.safetensors"))) for name in "abc"]
    assert first == again != other
    assert heads[0] == heads[1] != heads[2]


def test_trained_reranker_beats_the_untrained_one(toy, trained):
    folder, log = trained
    texts = toy.queries("train")["text"].tolist()
    recipe = load_recipe("mini-reranker", rerank_depth=10, **LEARNS)
    before, _ = Reranker(build(recipe, 1), recipe, BM25(0.9, 0.4)).search(toy, texts, 10)
    after, _ = load_model(folder).search(toy, texts, 10)
    assert mean_rr(toy, after) > mean_rr(toy, before) + 0.2
    assert log["loss"][-1][1] < 0.7 * log["loss"][0][1]
    assert log["first_stage"] == {"k1": 0.9, "b": 0.4, "tuning_queries": 0} and log["pairs"] == 40


@pytest.mark.parametrize("loss", ["pairwise", "listwise"])
def test_every_loss_trains(toy, tmp_path, loss):
    log = fit(
        load_recipe("mini-reranker", **QUICK, loss=loss),
        toy,
        toy.query_ids("train"),
        "train",
        1,
        tmp_path / "a",
    )
    assert log["steps"] == 6 and all(np.isfinite(value) and value > 0 for _, value in log["loss"])


def test_random_negatives_need_no_search(toy, tmp_path, monkeypatch):
    monkeypatch.setattr("interextra.models.training.trainer.bm25_search", None)
    recipe = load_recipe("mini-reranker", **QUICK, negatives="random")
    assert fit(recipe, toy, toy.query_ids("train"), "train", 1, tmp_path / "a")["steps"] == 6


@pytest.mark.parametrize("k", [3, 8, 25])
def test_first_passages_stand_by_the_model_and_the_rest_below_by_bm25(toy, trained, k):
    model = load_model(trained[0])  # reads 10 passages a query
    texts = toy.queries("train")["text"].tolist()[:4]
    rows, scores = model.search(toy, texts, k)
    first, _ = model.first_stage.search(toy, texts, 40)
    assert rows.shape == scores.shape == (4, k)
    for i, text in enumerate(texts):
        head = first[i][:10]
        head = head[head >= 0]
        alone = model.model.predict(
            [[text, toy.passages.texts([row])[0]] for row in head], show_progress_bar=False
        )
        expected = head[np.argsort(-alone, kind="stable")]
        assert rows[i, : len(head)].tolist() == expected[:k].tolist()
        rest = first[i][10:k]
        assert rows[i, 10:].tolist() == rest.tolist()
    assert (np.diff(np.where(rows >= 0, scores, -1e9), axis=1) <= 0).all()
    assert ((rows < 0) == np.isneginf(scores)).all()


def test_query_without_a_known_word_gets_padding_only(toy, trained):
    rows, scores = load_model(trained[0]).search(toy, ["xyzzy", "where does the badodo live"], 5)
    assert (rows[0] == -1).all() and np.isneginf(scores[0]).all() and rows[1, 0] >= 0


def test_below_equals_brute_force_with_ties_by_doc_id():
    draw = np.random.default_rng(5)
    for _ in range(60):
        n, depth, reads = 5, 12, int(draw.integers(1, 13))
        k, place = int(draw.integers(1, 16)), draw.permutation(30)
        first = np.stack([draw.permutation(30)[:depth] for _ in range(n)]).astype(np.int32)
        first_scores = -np.sort(-draw.integers(1, 6, (n, depth)), axis=1).astype(np.float32)
        for i in range(n):  # ties of the first stage by place, as BM25 gives them
            order = np.lexsort((place[first[i]], -first_scores[i]))
            first[i] = first[i][order]
        empty = np.arange(depth) >= draw.integers(0, depth + 1, n)[:, None]
        first[empty], first_scores[empty] = -1, -np.inf
        scored = draw.integers(-3, 3, (n, reads)).astype(np.float32)
        scored[first[:, :reads] < 0] = -np.inf
        rows, scores = below(first, first_scores, scored, place, k)
        for i in range(n):
            head = [row for row in first[i, :reads] if row >= 0]
            head.sort(
                key=lambda row, i=i: (-scored[i][first[i, :reads].tolist().index(row)], place[row])
            )
            expected = (head + [row for row in first[i, reads:] if row >= 0])[:k]
            found = rows[i][rows[i] >= 0].tolist()
            assert found == expected
            kept = scores[i][: len(found)]
            assert (np.diff(kept) <= 0).all() and np.isneginf(scores[i][len(found) :]).all()
            if 0 < reads < len(found):
                assert kept[reads] < kept[reads - 1]


class Echo:
    """Instead of a cross-encoder: keeps the pairs."""

    def preprocess(self, pairs):
        return {"texts": pairs}


def test_batch_stands_positives_first_then_one_row_a_negative_each_with_its_own_query(tmp_path):
    passages = [
        ("d0", "fox eats"),
        ("d1", "fox fox"),
        ("d2", "fox sleeps"),
        ("d3", "owl"),
        ("d4", "owl owl eats"),
    ]
    toy = collection_of(
        tmp_path, passages, [("a", "fox"), ("b", "owl")], [("a", "d1", 1), ("b", "d3", 1)]
    )
    recipe = load_recipe("mini-reranker", negatives="bm25", n_negatives=3)
    pairs = training_pairs(toy, ["a", "b"], "train", 1)
    made = PairBatches(Echo(), pairs, toy, recipe, 1)([{"pair": 1}, {"pair": 0}])
    assert made["label"].tolist() == [[False] * 3] * 2
    asked, texts = zip(*made["pair_texts"], strict=True)
    assert asked == ("owl", "fox") * 4
    assert texts[:2] == ("owl", "fox fox")
    assert set(texts[2::2]) == {"owl owl eats"} and set(texts[3::2]) <= {"fox eats", "fox sleeps"}


def test_query_and_passage_have_different_segments_and_keep_them_when_saved(trained):
    model = load_model(trained[0]).model
    coded = model.preprocess([["red fox", "a fox eats fish"], ["x", "long " * 200]])
    segments = coded["token_type_ids"][0].tolist()
    tokens = coded["input_ids"][0].tolist()
    end = tokens.index(model.tokenizer.sep_token_id)
    last = coded["attention_mask"][0].sum().item()
    assert not any(segments[: end + 1]) and all(segments[end + 1 : last])
    assert coded["input_ids"].shape[1] == 76  # query and passage together


@pytest.mark.parametrize("negatives", ["random", "bm25"])
def test_drawn_negative_that_is_relevant_is_left_out_of_the_loss(tmp_path, negatives):
    passages = [("d0", "fox"), ("d1", "fox fox"), ("d2", "sea")]
    toy = collection_of(
        tmp_path, passages, [("a", "fox")], [("a", "d0", 1), ("a", "d1", 1)]
    )  # BM25 has no others
    recipe = load_recipe("mini-reranker", n_negatives=8, negatives=negatives, loss="pairwise")
    made = PairBatches(Echo(), training_pairs(toy, ["a"], "train", 1), toy, recipe, 1)(
        [{"pair": 0}]
    )
    texts = [text for _, text in made["pair_texts"]]
    assert (
        made["label"].tolist() == [[text != "sea" for text in texts[1:]]]
        and 0 < made["label"].sum() < 8
    )
    scores = torch.arange(9.0)
    model = torch.nn.Identity()
    model.forward = lambda features: {"scores": features}
    kept = scores[1:][~made["label"][0]]
    expected = torch.nn.functional.softplus(kept - scores[0]).mean()
    torch.testing.assert_close(PairLoss(model, recipe)([scores], made["label"]), expected)
