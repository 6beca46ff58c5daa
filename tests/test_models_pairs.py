"""Training pairs and negatives: whose they are, in which order, and what is never among them."""

import numpy as np
import pytest
from toy_models import collection_of

from interextra.ground.errors import InputError
from interextra.models.lucene import bm25_search
from interextra.models.pairs import exposed_passages, negatives_of, training_pairs
from interextra.models.recipe import load_recipe
from interextra.models.training import EncoderBatches, PairBatches, drawable_passages

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
EVERY = np.ones(len(PASSAGES), bool)
KINDS = ("random", "in-batch", "both", "bm25", "bm25+in-batch")


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return collection_of(tmp_path_factory.mktemp("toy"), PASSAGES, QUERIES, QRELS)


@pytest.fixture(scope="module")
def pairs(toy):
    return training_pairs(toy, toy.query_ids("train"), "train", 1)


class Words:
    """Instead of a tokenizer: keeps the texts."""

    def preprocess(self, texts, task=""):
        return {"texts": list(texts), "task": task}


def collator(toy, pairs, seed=1, kind=EncoderBatches, **options):
    name = "mini-dense" if kind is EncoderBatches else "mini-reranker"
    return kind(Words(), pairs, toy, load_recipe(name, negative_depth=3, **options), seed)


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
    mined = negatives_of(bm25_search(toy, pairs.texts, 5, 0.9, 0.4)[0], pairs, EVERY)
    ranked, _ = bm25_search(toy, pairs.texts, 5, 0.9, 0.4)
    assert ranked[0].tolist() == [0, 1, 2, -1, -1]  # what the next lines take away from
    assert mined.tolist() == [[0, 2, -1, -1, -1], [-1] * 5, [-1] * 5, [-1] * 5]
    for query, kept, all_rows in zip(range(4), mined, ranked, strict=True):
        relevant = pairs.rows[pairs.query == query]
        assert kept[kept >= 0].tolist() == [row for row in all_rows if row >= 0 and row not in relevant]


def test_depth_counts_before_the_relevant_passages_are_taken_out(toy, pairs):
    assert negatives_of(bm25_search(toy, pairs.texts, 2, 0.9, 0.4)[0], pairs, EVERY).tolist()[0] == [0, -1]


def test_drawn_negatives_come_evenly_from_what_was_mined_and_never_from_padding(toy, pairs):
    made = collator(toy, pairs, negatives="bm25", n_negatives=2)
    made.mined = np.array([[3, 4, 5, -1, -1]])
    drawn = made.drawn(np.random.default_rng(1), np.zeros(3000, int))
    values, counts = np.unique(drawn, return_counts=True)
    assert drawn.shape == (3000, 2) and values.tolist() == [3, 4, 5]
    assert abs(counts / drawn.size - 1 / 3).max() < 0.03  # five standard deviations


def test_query_without_mined_passages_gets_random_ones(toy, pairs):
    made = collator(toy, pairs, negatives="bm25", n_negatives=6)
    drawn = made.drawn(np.random.default_rng(1), np.full(500, 1))  # BM25 finds badger's answers only
    assert set(np.unique(drawn)) == set(range(len(PASSAGES)))


def test_exposed_is_relevant_to_queries_outside_the_training_set_only(toy):
    some = training_pairs(toy, ["q0", "q3"], "train", 1)  # d1 and d4; badger's other answer is d4, too
    assert np.flatnonzero(exposed_passages(toy, some, 1)).tolist() == [3, 5]
    assert np.flatnonzero(exposed_passages(toy, some, 2)).tolist() == []


@pytest.mark.parametrize("negatives", ["random", "both", "bm25", "bm25+in-batch"])
def test_unexposed_negatives_never_hold_an_exposed_passage_and_all_do(toy, negatives):
    some = training_pairs(toy, ["q1"], "train", 1)  # badger: d3 and d4; exposed are d1 and d5
    met = {}
    for passages in ("all", "unexposed"):
        made = collator(toy, some, negatives=negatives, n_negatives=3, negative_passages=passages)
        for seed in range(20):
            made.seed = seed
            made([{"pair": 0}, {"pair": 1}])
        met[passages] = made.n_exposed
    assert met["unexposed"] == 0 < met["all"]


def test_mined_negatives_leave_out_exposed_passages(toy):
    some = training_pairs(toy, ["q1", "q2"], "train", 1)
    asked = some._replace(texts=["fox badger", "the"])
    exposed = exposed_passages(toy, some, 1)
    assert exposed[1] and 1 in negatives_of(bm25_search(toy, asked.texts, 5, 0.9, 0.4)[0], asked, EVERY)[0]
    assert 1 not in negatives_of(bm25_search(toy, asked.texts, 5, 0.9, 0.4)[0], asked, ~exposed)[0]


def test_control_spares_as_many_passages_as_are_exposed_whichever():
    exposed = np.arange(1000) < 300
    spared = ~drawable_passages(exposed, "control", seed=1)
    assert spared.sum() == 300 and 60 < (spared & exposed).sum() < 120  # 90 expected, deviation 8
    assert (spared != ~drawable_passages(exposed, "control", seed=2)).any()


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_share_of_exposed_negatives_is_as_asked(toy, share):
    some = training_pairs(toy, ["q0"], "train", 1)
    made = collator(toy, some, negatives="random", n_negatives=4000, negative_passages=share)
    made([{"pair": 0}])
    assert made.n_exposed / made.n_negatives == pytest.approx(share, abs=0.04)  # five standard deviations


def test_nothing_to_draw_and_a_share_without_random_negatives_are_clear_errors(toy, pairs):
    with pytest.raises(InputError, match="1.0: 0 of 6 passages are exposed"):
        collator(toy, pairs, negatives="random", negative_passages=1.0)
    with pytest.raises(InputError, match="unexposed: 2 of 2 passages are exposed"):
        drawable_passages(np.ones(2, bool), "unexposed", 0)
    with pytest.raises(InputError, match="needs negatives: random or both"):
        load_recipe("mini-dense", negatives="bm25", negative_passages=0.5)


def test_reranker_with_both_reads_random_passages_and_those_of_other_queries(toy, pairs):
    made = collator(toy, pairs, kind=PairBatches, negatives="both", n_negatives=2)
    texts = [pair[1] for pair in made([{"pair": i} for i in (0, 1, 3)])["pair_texts"]]
    positives = [PASSAGES[row][1] for row in (1, 3, 5)]
    assert texts[:3] == positives and texts[9:12] == positives[2:] + positives[:2]  # shifted by one
    assert texts[12:15] == positives[1:] + positives[:1] and len(texts) == 15


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
