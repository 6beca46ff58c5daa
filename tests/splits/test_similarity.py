"""Exact neighbours against brute force in float64."""

import numpy as np
import pytest

from interextra.splits.restrain import neighbourhood
from interextra.splits.similarity import nearest
from interextra.store.errors import InputError


def brute_force(q, c, k):
    q, c = (
        x.astype(float) / np.linalg.norm(x.astype(float), axis=1, keepdims=True) for x in (q, c)
    )
    scores = (q[:, None, :] * c[None, :, :]).sum(-1).astype(np.float32)
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


@pytest.mark.parametrize("k", [1, 7, 40, 399, 400])
def test_equals_brute_force_in_float64(vectors, k):
    scores, rows = nearest(*vectors, k)
    want_scores, want_rows = brute_force(*vectors, k)
    assert (rows == want_rows).all()
    np.testing.assert_allclose(scores, want_scores, atol=1e-6)
    assert scores.dtype == np.float32 and rows.dtype == np.int64


def test_equal_scores_come_in_row_order(vectors):
    _, rows = nearest(vectors[1][5:6], vectors[1], 10)
    assert rows[0].tolist() == [5, *range(100, 109)]


def test_k_is_clipped_to_the_candidates(vectors):
    assert nearest(vectors[0], vectors[1][:3], 10)[1].shape == (22, 3)


def test_best_rank_is_the_minimum_over_full_rankings(vectors):
    found = neighbourhood(*vectors)
    scores, order = brute_force(*vectors, 400)
    ranks = np.argsort(order, axis=1) + 1
    assert (found.best_rank == ranks.min(axis=0)).all()
    by_row = np.take_along_axis(scores, np.argsort(order, axis=1), 1)
    np.testing.assert_allclose(found.similarity, by_row.max(axis=0), atol=1e-6)


@pytest.mark.parametrize(
    ("queries", "candidates", "k", "words"),
    [
        ([[1.0, np.nan]], [[1.0, 1.0]], 1, r"NaN or infinite values in 1 rows \(0\)"),
        ([[1.0, 1.0]], [[1.0, 1.0], [0.0, 0.0]], 1, r"no direction in 1 rows \(1\)"),
        ([[1.0, 1.0]], [[1.0, 1.0, 1.0]], 1, "of 2 and of 3 dimensions"),
        ([[1.0, 1.0]], np.empty((0, 2)), 1, "non-empty"),
        ([1.0, 1.0], [[1.0, 1.0]], 1, "matrix"),
        ([["a"]], [[1.0]], 1, "of numbers"),
    ],
)
def test_bad_input_is_refused(queries, candidates, k, words):
    with pytest.raises(InputError, match=words):
        nearest(queries, candidates, k)
