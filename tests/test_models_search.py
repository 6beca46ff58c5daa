"""Exact search equals brute force, ties included."""

import hashlib

import numpy as np
import pytest
from toy_models import collection_of

from interextra.models.topk import embedding_blocks, search_embeddings, tie_order


def brute_force(queries, passages, doc_ids, k):
    """By score descending, then doc_id descending, with Python's own sort."""
    rows, scores = [], []
    for query in queries:
        score = [float(np.float32(query @ passage)) for passage in passages]
        best = sorted(range(len(passages)), key=lambda row: (score[row], doc_ids[row]), reverse=True)[:k]
        rows.append(best)
        scores.append([score[row] for row in best])
    return np.array(rows), np.array(scores)


def blocks(vectors, size):
    return ((start, vectors[start : start + size]) for start in range(0, len(vectors), size))


@pytest.fixture(scope="module")
def passages(tmp_path_factory):
    # ids whose order is not that of the rows, of unequal length, some not ASCII
    ids = [hashlib.sha256(str(i).encode()).hexdigest()[: 3 + i % 4] + "é" * (i % 3) + str(i) for i in range(157)]
    return collection_of(tmp_path_factory.mktemp("toy"), [(doc_id, "text") for doc_id in ids]).passages


@pytest.mark.parametrize("size", [1, 7, 50, 157, 1000])
@pytest.mark.parametrize("k", [1, 10, 157])
def test_search_equals_brute_force_for_any_block_size(passages, size, k):
    draw = np.random.default_rng(size + k)
    vectors = draw.normal(size=(157, 8)).astype(np.float32)
    queries = draw.normal(size=(23, 8)).astype(np.float32)
    rows, scores = search_embeddings(queries, blocks(vectors, size), tie_order(passages)[1], k, query_block=9)
    expected_rows, expected_scores = brute_force(queries, vectors, passages.doc_ids_at(slice(None)), k)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_allclose(scores, expected_scores, atol=1e-5)


@pytest.mark.parametrize("size", [1, 7, 50, 1000])
def test_ties_go_to_the_larger_doc_id_for_any_block_size(passages, size):
    draw = np.random.default_rng(0)
    vectors = draw.integers(-1, 2, size=(157, 2)).astype(np.float32)  # scores between -4 and 4: nearly all are tied
    queries = draw.integers(-2, 3, size=(40, 2)).astype(np.float32)
    rows, scores = search_embeddings(queries, blocks(vectors, size), tie_order(passages)[1], 20)
    expected_rows, expected_scores = brute_force(queries, vectors, passages.doc_ids_at(slice(None)), 20)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_array_equal(scores, expected_scores)


def test_zero_and_minus_zero_are_a_tie(passages):
    vectors = np.zeros((157, 2), np.float32)
    vectors[::2, 0] = -0.0
    rows, _ = search_embeddings(np.array([[1.0, 0.0]], np.float32), blocks(vectors, 20), tie_order(passages)[1], 157)
    np.testing.assert_array_equal(rows[0], tie_order(passages)[0])


def test_fewer_passages_than_k_are_padded(passages):
    vectors = np.ones((157, 2), np.float32)
    rows, scores = search_embeddings(vectors[:3], blocks(vectors, 100), tie_order(passages)[1], 160)
    assert rows.dtype == np.int32 and scores.dtype == np.float32
    assert (rows[:, 157:] == -1).all() and np.isneginf(scores[:, 157:]).all() and (rows[:, :157] >= 0).all()


def test_tie_order_is_doc_id_descending_in_bytes(passages):
    ids = passages.doc_ids_at(tie_order(passages)[0])
    assert ids == sorted(ids, key=lambda doc_id: doc_id.encode(), reverse=True)


def test_kept_embeddings_are_reused_and_damaged_ones_encoded_again(passages, tmp_path):
    calls = []

    def encode(texts):
        calls.append(len(texts))
        return np.full((len(texts), 2), len(calls), np.float32)

    first = [block for _, block in embedding_blocks(encode, passages, 100, tmp_path, "a")]
    assert calls == [100, 57]
    again = [block for _, block in embedding_blocks(encode, passages, 100, tmp_path, "a")]
    assert calls == [100, 57]
    np.testing.assert_array_equal(np.concatenate(first), np.concatenate(again))
    damaged = sorted(tmp_path.glob("*/*.npy"))[1]
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    list(embedding_blocks(encode, passages, 100, tmp_path, "a"))
    assert calls == [100, 57, 57]
    list(embedding_blocks(encode, passages, 100, tmp_path, "b"))  # another model
    assert calls == [100, 57, 57, 100, 57]
