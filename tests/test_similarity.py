"""Exact neighbours against brute force in float64."""

import numpy as np
import pytest

from interextra.ground.errors import InputError
from interextra.splits.similarity import best_ranks, max_similarity, nearest


def brute_force(q, c, k, metric):
    q, c = np.asarray(q, float), np.asarray(c, float)
    scores = (q[:, None, :] * c[None, :, :]).sum(-1)
    if metric == "cosine":
        scores = scores / np.linalg.norm(q, axis=1)[:, None] / np.linalg.norm(c, axis=1)[None]
    scores = scores.astype(np.float32)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, 1), order


@pytest.fixture
def vectors():
    rng = np.random.default_rng(7)  # seed of the drawn vectors
    c = rng.normal(size=(400, 24)).astype(np.float32) + 0.3
    c[100:130] = c[5]  # 31 copies: ties wider than k
    c[300] = 2 * c[5]
    q = np.concatenate([rng.normal(size=(20, 24)), c[5:6], c[100:101] * 4]).astype(np.float32)
    return q, c


@pytest.mark.parametrize("metric", ["cosine", "dot"])
@pytest.mark.parametrize("k", [1, 7, 400])
def test_equals_brute_force_in_float64(vectors, metric, k):
    scores, rows = nearest(*vectors, k, metric)
    want_scores, want_rows = brute_force(*vectors, k, metric)
    assert (rows == want_rows).all()
    np.testing.assert_allclose(scores, want_scores, rtol=1e-6)
    assert scores.dtype == np.float32 and rows.dtype == np.int64


@pytest.mark.parametrize("block", [1, 3, 64, 399, 10_000])
def test_result_does_not_depend_on_block(vectors, block):
    want, got = nearest(*vectors, 12), nearest(*vectors, 12, block=block)
    assert (want[0] == got[0]).all() and (want[1] == got[1]).all()


def test_equal_scores_come_in_row_order(vectors):
    _, rows = nearest(vectors[1][5:6], vectors[1], 10)
    assert rows[0].tolist() == [5, *range(100, 109)]


def test_near_ties_are_decided_in_double_precision():
    c = np.tile(np.linspace(1, 2, 96), (50, 1))
    c[:, 0] += np.arange(50) * 3e-7  # differences that a float32 product rounds away
    _, rows = nearest(c[:1], c, 5, metric="dot")
    want = np.argsort(-(c @ c[0]).astype(np.float32), kind="stable")[:5]
    assert rows[0].tolist() == want.tolist()


def test_agrees_with_faiss(vectors):
    faiss = pytest.importorskip("faiss")
    q, c = (np.random.default_rng(3).normal(size=s).astype(np.float32) for s in ((30, 16), (500, 16)))
    index = faiss.IndexFlatIP(16)
    index.add(c)
    scores, rows = index.search(q, 10)
    ours = nearest(q, c, 10, metric="dot")
    assert (ours[1] == rows).all()
    np.testing.assert_allclose(ours[0], scores, rtol=1e-5)


def test_k_is_clipped_to_the_candidates(vectors):
    assert nearest(vectors[0], vectors[1][:3], 10)[1].shape == (22, 3)


def test_max_similarity_is_the_first_neighbour(vectors):
    np.testing.assert_allclose(max_similarity(*vectors), brute_force(*vectors, 1, "cosine")[0][:, 0], rtol=1e-6)


@pytest.mark.parametrize("block", [50, 10_000])
def test_best_rank_is_the_minimum_over_full_rankings(vectors, block):
    best, highest = best_ranks(*vectors, block=block)
    scores, order = brute_force(*vectors, 400, "cosine")
    ranks = np.argsort(order, axis=1) + 1
    assert (best == ranks.min(axis=0)).all()
    by_row = np.take_along_axis(scores, np.argsort(order, axis=1), 1)
    np.testing.assert_allclose(highest, by_row.max(axis=0), rtol=1e-6)


@pytest.mark.parametrize(
    ("q", "c", "metric", "words"),
    [
        ([[1.0, np.nan]], [[1.0, 1.0]], "cosine", "NaN"),
        ([[1.0, 1.0]], [[1.0, 1.0], [0.0, 0.0]], "cosine", "zero vectors"),
        ([[1.0, 1.0]], [[1.0, 1.0, 1.0]], "dot", "dimensions"),
        ([[1.0, 1.0]], np.empty((0, 2)), "dot", "non-empty"),
        ([1.0, 1.0], [[1.0, 1.0]], "dot", "matrix"),
        ([[1.0]], [[1.0]], "l2", "unknown metric"),
    ],
)
def test_bad_input_is_refused(q, c, metric, words):
    with pytest.raises(InputError, match=words):
        nearest(np.asarray(q), np.asarray(c), 1, metric)


def test_zero_vectors_are_fine_under_dot():
    assert nearest(np.zeros((1, 2)), np.zeros((3, 2)), 2, "dot")[1].tolist() == [[0, 1]]
