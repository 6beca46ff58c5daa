"""Training pairs and negatives: whose they are, in which order, and what is never among them."""

import numpy as np
import pytest
from toy_models import collection_of

from interextra.ground.errors import InputError
from interextra.models.lucene import bm25_search
from interextra.models.pairs import bm25_negatives, training_pairs
from interextra.models.recipe import load_recipe
from interextra.models.training import EncoderBatches, draw_mined

PASSAGES = [
    ("d0", "fox fox fox lives here"),
    ("d1", "fox fox and much else besides it"),
    ("d2", "fox and very many other words that make this passage longer than all others"),
    ("d3", "badger"),
    ("d4", "owl and badger"),
    ("d5", "nothing to see"),
]
QUERIES = [("q0", "fox"), ("q1", "badger"), ("q2", "the"), ("q3", "owl")]
QRELS = [("q0", "d1", 1), ("q1", "d4", 2), ("q1", "d3", 1), ("q2", "d5", 1), ("q3", "d4", 1)]
KINDS = ("random", "in-batch", "both", "bm25", "bm25+in-batch")


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return collection_of(tmp_path_factory.mktemp("toy"), PASSAGES, QUERIES, QRELS)


@pytest.fixture(scope="module")
def pairs(toy):
    return training_pairs(toy, toy.query_ids("train"), "train", 1)


class Words:
    """Instead of a tokenizer: keeps the texts."""

    def preprocess(self, texts, task):
        return {"texts": list(texts), "task": task}


def batch(toy, pairs, negatives, at=(0, 1, 4), seed=1):
    recipe = load_recipe("mini-dense", negatives=negatives, n_negatives=2, negative_depth=3)
    made = EncoderBatches(Words(), pairs, toy, recipe, seed)([{"pair": i} for i in at])
    texts = [text for _, text in PASSAGES]
    columns = [name for name in ("positive", "negative") if f"{name}_texts" in made]
    rows = {name: [texts.index(text) for text in made[f"{name}_texts"]] for name in columns}
    return made, rows


def test_pairs_are_sorted_and_independent_of_the_order_of_the_queries(toy, pairs):
    assert pairs.query_ids == ["q0", "q1", "q2", "q3"]
    assert list(zip(pairs.query.tolist(), pairs.rows.tolist(), strict=True)) == [(0, 1), (1, 3), (1, 4), (2, 5), (3, 4)]
    again = training_pairs(toy, ["q3", "q1", "q0", "q2", "q1"], "train", 1)
    assert again.query_ids == pairs.query_ids and np.array_equal(again.rows, pairs.rows)


def test_pairs_of_a_higher_grade_only(toy):
    graded = training_pairs(toy, toy.query_ids("train"), "train", relevance=2)
    assert graded.query_ids == ["q1"] and graded.rows.tolist() == [4]


def test_unknown_query_and_query_without_relevant_passage_are_clear_errors(toy):
    with pytest.raises(InputError, match=r"1 query_ids are not in split 'train'.*nobody"):
        training_pairs(toy, ["q0", "nobody"], "train", 1)
    with pytest.raises(InputError, match="none of 1 queries"):
        training_pairs(toy, ["q0"], "train", relevance=2)


def test_bm25_negatives_are_its_ranking_without_the_relevant_passages(toy, pairs):
    mined = bm25_negatives(toy, pairs, 5)
    ranked, _ = bm25_search(toy, pairs.texts, 5, 0.9, 0.4)
    assert ranked[0].tolist() == [0, 1, 2, -1, -1]  # what the next lines take away from
    assert mined.tolist() == [[0, 2, -1, -1, -1], [-1] * 5, [-1] * 5, [-1] * 5]
    for query, kept, all_rows in zip(range(4), mined, ranked, strict=True):
        relevant = pairs.rows[pairs.query == query]
        assert kept[kept >= 0].tolist() == [row for row in all_rows if row >= 0 and row not in relevant]


def test_depth_counts_before_the_relevant_passages_are_taken_out(toy, pairs):
    assert bm25_negatives(toy, pairs, 2).tolist()[0] == [0, -1]


def test_drawn_negatives_come_evenly_from_what_was_mined_and_never_from_padding():
    mined = np.repeat([[7, 8, 9, -1, -1]], 3000, axis=0)
    drawn = draw_mined(np.random.default_rng(1), mined, 2, 1000)
    values, counts = np.unique(drawn, return_counts=True)
    assert drawn.shape == (3000, 2) and values.tolist() == [7, 8, 9]
    assert abs(counts / drawn.size - 1 / 3).max() < 0.03  # five standard deviations


def test_query_without_mined_passages_gets_random_ones():
    drawn = draw_mined(np.random.default_rng(1), np.full((500, 4), -1), 6, 50)
    assert set(np.unique(drawn)) == set(range(50))


@pytest.mark.parametrize("negatives", KINDS)
def test_column_of_negatives_is_there_where_negatives_are_drawn(toy, pairs, negatives):
    made, rows = batch(toy, pairs, negatives)
    drawn = {"random": 2, "in-batch": 0, "both": 2, "bm25": 6, "bm25+in-batch": 6}[negatives]  # 2 a batch or a query
    in_batch = 3 if "batch" in negatives or negatives == "both" else 0
    assert made["query_texts"] == ["fox", "badger", "owl"] and rows["positive"] == [1, 3, 4]
    assert len(rows.get("negative", [])) == drawn
    assert made["label"].shape == (3, drawn + in_batch)
    assert [made[f"{name}_task"] for name in ("query", "positive")] == ["query", "document"]


@pytest.mark.parametrize("negatives", KINDS)
def test_relevant_passages_are_barred_and_no_others(toy, pairs, negatives):
    at = (0, 2, 4)  # fox → d1, badger → d4 (d3 is relevant, too), owl → d4: the same positive as badger's
    for seed in range(8):
        made, rows = batch(toy, pairs, negatives, at=at, seed=seed)
        columns = rows.get("negative", []) + (rows["positive"] if "batch" in negatives or negatives == "both" else [])
        relevant = {0: {1}, 1: {3, 4}, 2: {4}}
        expected = [[row in relevant[i] for row in columns] for i in range(3)]
        assert made["label"].tolist() == expected


def test_bm25_negatives_of_a_batch_stand_by_query_and_are_its_own(toy, pairs):
    for seed in range(5):
        rows = batch(toy, pairs, "bm25", at=(0, 0), seed=seed)[1]["negative"]
        assert set(rows) <= {0, 2}


def test_draw_depends_on_the_seed_and_the_batch_only(toy, pairs):
    first, again, other_seed, other_batch = (
        batch(toy, pairs, "random", at=at, seed=seed)[1]["negative"]
        for at, seed in (((0, 1, 4), 1), ((0, 1, 4), 1), ((0, 1, 4), 2), ((4, 1, 0), 1))
    )
    assert first == again
    assert first != other_seed or first != other_batch
