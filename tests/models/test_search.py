"""Exact search equals brute force, ties included; all four neural architectures go through it."""

import hashlib

import numpy as np
import pytest
import torch
from toy_models import collection_of

from interextra.models.architectures import colbert, dense, reranker, splade
from interextra.models.architectures.bm25 import BM25
from interextra.models.architectures.dense import inner_products
from interextra.models.recipe import load_recipe
from interextra.models.search.topk import device, exact_search


def brute_force(scores, doc_ids, k):
    """By score descending, then doc_id descending, with Python's own sort: (rows, scores) of
    float32[n, m] scores.
    """
    rows = [
        sorted(range(len(doc_ids)), key=lambda row: (line[row], doc_ids[row]), reverse=True)[:k]
        for line in scores
    ]
    return np.array(rows), np.take_along_axis(scores, np.array(rows), axis=1)


def find(passages, queries, vectors, k, size, query_block=9):
    """`exact_search` over vectors: the text of passage i is the number i."""
    scores = inner_products(queries)
    return exact_search(passages, blocks_of(vectors, size), scores, len(queries), k, query_block)


def blocks_of(vectors, size):
    return (vectors[start : start + size] for start in range(0, len(vectors), size))


def same(found, expected):
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.fixture(scope="module")
def passages(tmp_path_factory):
    # ids whose order is not that of the rows, of unequal length, some not ASCII
    ids = [
        hashlib.sha256(str(i).encode()).hexdigest()[: 3 + i % 4] + "é" * (i % 3) + str(i)
        for i in range(157)
    ]
    rows = [(doc_id, str(row)) for row, doc_id in enumerate(ids)]
    return collection_of(tmp_path_factory.mktemp("toy"), rows).passages


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(5).normal(size=(157, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def queries():
    return np.random.default_rng(6).normal(size=(23, 8)).astype(np.float32)


@pytest.mark.parametrize("size", [1, 7, 50, 157, 1000])
@pytest.mark.parametrize("k", [1, 10, 157])
def test_search_equals_brute_force_for_any_block_size(passages, queries, vectors, size, k):
    rows, scores = find(passages, queries, vectors, k, size)
    expected_rows, expected_scores = brute_force(
        queries @ vectors.T, passages.doc_ids.to_pylist(), k
    )
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_allclose(scores, expected_scores, atol=1e-5)


@pytest.mark.parametrize("size", [1, 7, 50, 1000])
def test_ties_go_to_the_larger_doc_id_for_any_block_size(passages, size):
    draw = np.random.default_rng(0)
    vectors = draw.integers(-1, 2, size=(157, 2)).astype(
        np.float32
    )  # scores between -4 and 4: nearly all are tied
    queries = draw.integers(-2, 3, size=(40, 2)).astype(np.float32)
    expected = brute_force(queries @ vectors.T, passages.doc_ids.to_pylist(), 20)
    same(find(passages, queries, vectors, 20, size), expected)


@pytest.mark.parametrize("size", [7, 1000])
def test_all_tied_passages_come_by_doc_id(passages, size):
    rows, scores = find(
        passages, np.ones((2, 2), np.float32), np.ones((157, 2), np.float32), 30, size
    )
    assert (rows == passages.tie_order[0][:30]).all() and (scores == 2).all()


def test_zero_and_minus_zero_are_a_tie(passages):
    vectors = np.zeros((157, 2), np.float32)
    vectors[::2, 0] = -0.0
    rows, _ = find(passages, np.array([[1.0, 0.0]], np.float32), vectors, 157, 20)
    np.testing.assert_array_equal(rows[0], passages.tie_order[0])


def test_fewer_passages_than_k_are_padded(passages):
    vectors = np.ones((157, 2), np.float32)
    rows, scores = find(passages, vectors[:3], vectors, 160, 100)
    assert rows.dtype == np.int32 and scores.dtype == np.float32
    assert (
        (rows[:, 157:] == -1).all()
        and np.isneginf(scores[:, 157:]).all()
        and (rows[:, :157] >= 0).all()
    )


def test_passages_scored_minus_infinity_are_left_out(passages):
    def open_block(block):
        return lambda here: torch.where(
            torch.as_tensor(block[:, 0]).to(device()) > 0, 1.0, -torch.inf
        )[None]

    vectors = np.arange(157, dtype=np.float32)[:, None] % 2
    rows, scores = exact_search(passages, blocks_of(vectors, 50), open_block, 1, 157, 9)
    assert sorted(rows[0, :78]) == list(range(1, 157, 2)) and (scores[0, :78] == 1).all()
    assert (rows[0, 78:] == -1).all() and np.isneginf(scores[0, 78:]).all()


def test_tie_order_is_doc_id_descending_in_bytes(passages):
    ids = passages.doc_ids.take(passages.tie_order[0]).to_pylist()
    assert ids == sorted(ids, key=lambda doc_id: doc_id.encode(), reverse=True)


# --- the four architectures
# -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """500 passages of drawn words, 40 queries of words that some passages hold; BM25's index
    beside it.
    """
    draw = np.random.default_rng(11)
    words = np.array(
        [
            a + b
            for a in ("ba", "ce", "di", "fo", "gu", "ha", "je")
            for b in ("ral", "ten", "mis", "vor")
        ]
    )
    texts = [" ".join(draw.choice(words, draw.integers(3, 12))) for _ in range(500)]
    passages = [(f"d{row * 7919 % 2003}", text) for row, text in enumerate(texts)]
    queries = [(f"q{row}", " ".join(draw.choice(texts[row * 12].split(), 3))) for row in range(40)]
    qrels = [(f"q{row}", passages[row * 12][0], 1) for row in range(40)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INTEREXTRA_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield collection_of(tmp_path_factory.mktemp("generated"), passages, queries, qrels)


@pytest.fixture(scope="module")
def asked(generated):
    return generated.queries("train")["text"].tolist()


K = 50
ENCODERS = {"dense": dense.Dense, "splade": splade.Splade, "colbert": colbert.ColBERT}


@pytest.fixture(scope="module", params=ENCODERS)
def encoder(request, generated, asked):
    """(the untrained model, its brute-force scores float32[queries, passages] in plain numpy)."""
    recipe = load_recipe(f"mini-{request.param}")
    module = {"dense": dense, "splade": splade, "colbert": colbert}[request.param]
    model = ENCODERS[request.param](module.build(recipe, 1), recipe)
    texts = generated.passages.texts(slice(None))
    if request.param == "dense":
        return model, model.encode_queries(asked) @ model.encode_passages(texts).T
    if request.param == "splade":
        return model, model.encode_block(asked, "query").toarray() @ model.encode_block(
            texts
        ).toarray().T
    queries = [tokens.cpu().numpy() for tokens in model.model.encode(asked, task="query")]
    passages = [tokens.cpu().numpy() for tokens in model.model.encode(texts, task="document")]
    return model, np.array(
        [[(q @ p.T).max(axis=1).sum() for p in passages] for q in queries], dtype=np.float32
    )


def agrees(found, scores, doc_ids):
    """The found scores are the best ones to 1e-5, and each row's score is its own; ids may differ
    in near ties only.
    """
    rows, best = found
    expected_rows, expected = brute_force(scores, doc_ids, K)
    np.testing.assert_allclose(best, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(best, np.take_along_axis(scores, rows, axis=1), rtol=1e-5, atol=1e-5)
    assert all(len(set(line)) == K for line in rows.tolist())
    moved = rows != expected_rows
    gap = np.abs(
        np.take_along_axis(scores, expected_rows, axis=1) - np.take_along_axis(scores, rows, axis=1)
    )
    assert (gap[moved] <= 2e-5 * np.abs(expected[moved]).clip(1)).all() and moved.mean() < 0.1


def test_search_of_each_encoder_equals_brute_force_for_any_block_size(
    generated, asked, encoder, monkeypatch
):
    model, scores = encoder
    doc_ids = generated.passages.doc_ids.to_pylist()
    for size in (64, 300, 1000):
        monkeypatch.setattr(model, "block_size", size)
        agrees(model.search(generated, asked, K), scores, doc_ids)


@pytest.fixture(scope="module")
def reranked():
    recipe = load_recipe("mini-reranker", rerank_depth=15, first_stage_weight=0)
    return reranker.Reranker(reranker.build(recipe, 1), recipe, BM25(0.9, 0.4))


def test_reranking_equals_scoring_pair_by_pair(generated, asked, reranked, monkeypatch):
    asked = asked[:12]
    first, _ = reranked.first_stage.search(generated, asked, 15)
    doc_ids, texts = generated.passages.doc_ids.to_pylist(), generated.passages.texts(slice(None))
    alone = [
        {
            row: reranked.model.predict(
                [[query, texts[row]]],
                activation_fn=torch.nn.Identity(),
                show_progress_bar=False,
            )[0]
            for row in pool
            if row >= 0
        }
        for query, pool in zip(asked, first.tolist(), strict=True)
    ]
    for size in (1, 5, 64):
        monkeypatch.setattr(reranker, "BLOCK", size)
        rows, scores = reranked.search(generated, asked, 15)
        for own, found, got in zip(alone, rows.tolist(), scores, strict=True):
            pool = list(own)
            expected = sorted(pool, key=lambda row: (own[row], doc_ids[row]), reverse=True)
            np.testing.assert_allclose(got[: len(pool)], [own[row] for row in expected], atol=1e-5)
            assert all(
                a == b or abs(own[a] - own[b]) < 2e-5 for a, b in zip(found, expected, strict=False)
            )
            assert sorted(found[: len(pool)]) == sorted(pool) and set(found[len(pool) :]) <= {-1}


def test_interpolated_reranking_is_the_mean_of_both_standardised_scores(generated, asked, reranked):
    recipe = reranked.recipe.model_copy(update={"first_stage_weight": 0.25})
    mixed = reranker.Reranker(reranked.model, recipe, reranked.first_stage)
    own, first, both = (
        dict(zip(rows[0].tolist(), scores[0].astype(float).tolist(), strict=True))
        for rows, scores in (
            model.search(generated, asked[:1], 15)
            for model in (reranked, reranked.first_stage, mixed)
        )
    )
    z = [
        {row: (s - np.mean([*of.values()])) / np.std([*of.values()]) for row, s in of.items()}
        for of in (own, first)
    ]
    assert both.keys() == own.keys()
    assert all(
        score == pytest.approx(0.75 * z[0][row] + 0.25 * z[1][row], abs=1e-4)
        for row, score in both.items()
    )
