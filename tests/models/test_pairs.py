"""Training pairs and negatives: whose they are, in which order, and what is never among them."""

import numpy as np
import pytest
import torch
from toy_models import collection_of

from interextra.data.runs import RunFile
from interextra.models.architectures.tas_balanced import scored_pairs
from interextra.models.recipe import load_recipe
from interextra.models.search.lucene import bm25_search
from interextra.models.training.losses import losses
from interextra.models.training.pairs import (
    exposed_passages,
    negatives_of,
    read_spared,
    relevant_pairs,
    text_numbers,
    training_pairs,
)
from interextra.models.training.trainer import (
    EncoderBatches,
    PairBatches,
    QueryBatches,
    drawable_passages,
)
from interextra.store.errors import InputError

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


def relevant(toy, pairs):
    return relevant_pairs(pairs, text_numbers(toy.passages))


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
    assert list(zip(pairs.query.tolist(), pairs.rows.tolist(), strict=True)) == [
        (0, 1),
        (1, 3),
        (1, 4),
        (2, 5),
        (3, 4),
    ]
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
    mined = negatives_of(bm25_search(toy, pairs.texts, 5, 0.9, 0.4)[0], relevant(toy, pairs), EVERY)
    ranked, _ = bm25_search(toy, pairs.texts, 5, 0.9, 0.4)
    assert ranked[0].tolist() == [0, 1, 2, -1, -1]  # what the next lines take away from
    assert mined.tolist() == [[0, 2, -1, -1, -1], [-1] * 5, [-1] * 5, [-1] * 5]
    for query, kept, all_rows in zip(range(4), mined, ranked, strict=True):
        answers = pairs.rows[pairs.query == query]
        assert kept[kept >= 0].tolist() == [
            row for row in all_rows if row >= 0 and row not in answers
        ]


def test_depth_counts_before_the_relevant_passages_are_taken_out(toy, pairs):
    ranked, _ = bm25_search(toy, pairs.texts, 2, 0.9, 0.4)
    assert negatives_of(ranked, relevant(toy, pairs), EVERY).tolist()[0] == [0, -1]


def test_drawn_negatives_come_evenly_from_what_was_mined_and_never_from_padding(toy, pairs):
    made = collator(toy, pairs, negatives="bm25", n_negatives=2)
    made.mined = np.array([[3, 4, 5, -1, -1]])
    drawn = made.draw(np.random.default_rng(1), np.zeros(3000, int))
    values, counts = np.unique(drawn, return_counts=True)
    assert drawn.shape == (3000, 2) and values.tolist() == [3, 4, 5]
    assert abs(counts / drawn.size - 1 / 3).max() < 0.03  # five standard deviations


def test_query_without_mined_passages_gets_random_ones(toy, pairs):
    made = collator(toy, pairs, negatives="bm25", n_negatives=6)
    drawn = made.draw(np.random.default_rng(1), np.full(500, 1))  # BM25 finds badger's answers only
    assert set(np.unique(drawn)) == set(range(len(PASSAGES)))


def test_exposed_is_relevant_to_queries_outside_the_training_set_only(toy):
    some = training_pairs(
        toy, ["q0", "q3"], "train", 1
    )  # d1 and d4; badger's other answer is d4, too
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
    ranked, _ = bm25_search(toy, asked.texts, 5, 0.9, 0.4)
    assert exposed[1] and 1 in negatives_of(ranked, relevant(toy, asked), EVERY)[0]
    assert 1 not in negatives_of(ranked, relevant(toy, asked), ~exposed)[0]


def test_control_spares_as_many_passages_as_are_exposed_whichever():
    exposed = np.arange(1000) < 300
    spared = ~drawable_passages(exposed, "control", 1, np.zeros(1000, bool))
    assert spared.sum() == 300 and 60 < (spared & exposed).sum() < 120  # 90 expected, deviation 8
    assert (spared != ~drawable_passages(exposed, "control", 2, np.zeros(1000, bool))).any()


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_share_of_exposed_negatives_is_as_asked(toy, share):
    some = training_pairs(toy, ["q0"], "train", 1)
    made = collator(toy, some, negatives="random", n_negatives=4000, negative_passages=share)
    made([{"pair": 0}])
    assert made.n_exposed / made.n_negatives == pytest.approx(
        share, abs=0.04
    )  # five standard deviations


def test_nothing_to_draw_and_a_share_without_random_negatives_are_clear_errors(toy, pairs):
    with pytest.raises(InputError, match="1.0: 0 of 6 passages are exposed"):
        collator(toy, pairs, negatives="random", negative_passages=1.0)
    with pytest.raises(InputError, match="unexposed: 2 of 2 passages are exposed"):
        drawable_passages(np.ones(2, bool), "unexposed", 0, np.zeros(2, bool))
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
    drawn = {"random": 2, "in-batch": 0, "both": 2, "bm25": 6, "bm25+in-batch": 6}[
        negatives
    ]  # 2 a batch or a query
    in_batch = 3 if "batch" in negatives or negatives == "both" else 0
    assert made["query_texts"] == ["fox", "badger", "owl"] and rows["positive"] == [1, 3, 4]
    assert len(rows.get("negative", [])) == drawn
    assert made["label"].shape == (3, drawn + in_batch)
    assert [made[f"{name}_task"] for name in ("query", "positive")] == ["query", "document"]


@pytest.mark.parametrize("negatives", KINDS)
def test_relevant_passages_are_barred_and_no_others(toy, pairs, negatives):
    at = (
        0,
        2,
        4,
    )  # fox → d1, badger → d4 (d3 is relevant, too), owl → d4: the same positive as badger's
    for seed in range(8):
        made, rows = batch(toy, pairs, negatives, at=at, seed=seed)
        columns = rows.get("negative", []) + (
            rows["positive"] if "batch" in negatives or negatives == "both" else []
        )
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


COPIED = [
    ("d0", "Tea is a hot drink from the first leaves"),
    ("d1", "tea is a HOT  drink from the ﬁrst leaves"),  # what d0 says, with a ligature
    ("d2", "Gold is a metal"),
    ("d3", "gold is a metal "),
    ("d4", "hot drink and metal, nothing else"),
    ("d5", "a lion is no drink"),
]
ASKED = [("q0", "hot drink"), ("q1", "metal drink"), ("q2", "hot tea"), ("q3", "a lion")]
ANSWERS = [("q0", "d0", 1), ("q1", "d2", 1), ("q2", "d1", 1), ("q3", "d5", 1)]
SAME = {
    0: {0, 1},
    1: {2, 3},
    2: {0, 1},
    3: {5},
}  # query → passages that say what its relevant one says


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    return collection_of(tmp_path_factory.mktemp("copied"), COPIED, ASKED, ANSWERS)


@pytest.fixture(scope="module")
def asked(copied):
    return training_pairs(copied, copied.query_ids("train"), "train", 1)


@pytest.mark.parametrize("negatives", KINDS)
def test_copy_of_a_relevant_passage_is_never_a_negative_of_its_query(copied, asked, negatives):
    recipe, texts = (
        load_recipe("mini-dense", negatives=negatives, n_negatives=3, negative_depth=6),
        dict(COPIED),
    )
    met = set()
    for seed in range(10):
        made = EncoderBatches(Words(), asked, copied, recipe, seed)
        batch = made([{"pair": 0}, {"pair": 1}, {"pair": 2}])
        columns = batch.get("negative_texts", []) + (
            batch["positive_texts"] if recipe.in_batch else []
        )
        rows = [list(texts.values()).index(text) for text in columns]
        met |= set(rows)
        assert batch["label"].tolist() == [
            [row in SAME[query] for row in rows] for query in range(3)
        ]
        if made.mined is not None:
            own = zip(np.repeat([0, 1, 2], 3).tolist(), rows[:9], strict=True)
            assert not [(query, row) for query, row in own if row in SAME[query]]
    assert met & {0, 1, 2, 3}  # something had to be barred


@pytest.mark.parametrize("negatives", ["random", "both", "bm25"])
def test_reranker_never_reads_a_copy_of_a_relevant_passage_as_a_negative(copied, asked, negatives):
    recipe, texts = (
        load_recipe("mini-reranker", negatives=negatives, n_negatives=2, negative_depth=6),
        dict(COPIED),
    )
    n_barred = 0
    for seed in range(10):
        batch = PairBatches(Words(), asked, copied, recipe, seed)([{"pair": i} for i in (0, 1, 2)])
        read = (
            np.array([pair[1] for pair in batch["pair_texts"]]).reshape(-1, 3)[1:].T
        )  # [query, its negatives]
        rows = [[list(texts.values()).index(text) for text in own] for own in read]
        assert batch["label"].tolist() == [
            [row in SAME[query] for row in own] for query, own in enumerate(rows)
        ]
        n_barred += int(batch["label"].sum())
    assert (n_barred == 0) == (
        negatives == "bm25"
    )  # those of BM25 are left out before any is drawn


def test_ranking_of_a_model_gives_no_copy_of_a_relevant_passage_as_a_hard_negative(copied, asked):
    ranking = np.array([[1, 0, 4], [3, 2, 4], [0, 1, 4], [5, 4, 0]])
    mined = negatives_of(ranking, relevant(copied, asked), EVERY)
    assert mined.tolist() == [[4, -1, -1], [4, -1, -1], [4, -1, -1], [4, 0, -1]]


def test_training_against_its_own_ranking_leaves_out_copies_of_relevant_passages(copied, asked):
    recipe = load_recipe("mini-dense", negatives="own", loss="rank-weighted", after="mini-dense")
    label = QueryBatches(Words(), asked, copied, recipe, 1)([{"pair": 0}, {"pair": 3}])["label"]
    assert label.tolist() == [[0, 0, 1], [5, 5, -1]]


def test_balanced_margins_have_no_pair_of_a_relevant_passage_and_its_copy(copied, asked, tmp_path):
    rows, scores = np.tile(np.arange(6), (4, 1)), np.tile(np.arange(6.0), (4, 1))
    RunFile.from_arrays(asked.query_ids, copied.passages.doc_ids, rows, scores).write_parquet(
        tmp_path / "run.parquet"
    )
    found = scored_pairs(tmp_path / "run.parquet", copied.passages, asked)
    others = {query: set(part["negative"]) for query, part in found.groupby("query")}
    assert others == {query: set(range(6)) - same for query, same in SAME.items()}
    found = scored_pairs(tmp_path / "run.parquet", copied.passages, asked, ["d4"])
    assert 4 not in set(found["negative"]) and len(found)


def test_copy_of_a_training_passage_is_not_exposed_and_that_of_an_exposed_one_is(copied):
    some = training_pairs(copied, ["q0"], "train", 1)  # d0; d1 answers q2 in the same words
    assert np.flatnonzero(exposed_passages(copied, some, 1)).tolist() == [2, 3, 5]
    made = collator(
        copied, some, negatives="random", n_negatives=400, negative_passages="unexposed"
    )
    drawn = set(made([{"pair": 0}])["negative_texts"])
    assert drawn == {COPIED[row][1] for row in (0, 1, 4)}


def test_distilled_margin_has_no_negative_that_is_relevant(copied, asked):
    """A query for which BM25 finds nothing else gets random passages, which may be its answer after
    all.
    """
    options = {
        "negatives": "bm25",
        "loss": "margin-mse",
        "teacher": "mini-reranker",
        "n_negatives": 6,
    }
    made = EncoderBatches(
        Words(), asked, copied, load_recipe("mini-dense", **options), 1, teacher=Lengths()
    )
    made.mined[:] = -1
    batch = made([{"pair": 0}, {"pair": 3}])
    rows = [[text for _, text in COPIED].index(text) for text in batch["negative_texts"]]
    barred = [[row in SAME[query] for row in own] for query, own in ((0, rows[:6]), (3, rows[6:]))]
    assert np.any(barred) and np.isneginf(batch["label"][:, 1:].numpy()).tolist() == barred
    good, bad, goal = (
        torch.tensor([[1.0]]),
        torch.tensor([[0.0, 5.0]]),
        torch.tensor([[2.0, -1.0, -np.inf]]),
    )
    assert float(losses()["margin-mse"](good, bad, goal, None)) == pytest.approx((1 - 3) ** 2)


class Lengths:
    """A teacher that scores a passage by its length."""

    def score(self, passages, texts, rows):
        return np.array([[len(text) for text in passages.texts(own)] for own in rows], np.float32)


def test_absent_passage_is_no_passage_to_spare(toy, pairs):
    with pytest.raises(InputError, match="spared: 1 passages are not in the collection: 'd9'"):
        EncoderBatches(Words(), pairs, toy, load_recipe("mini-dense"), 1, spared=["d0", "d9"])
    made = EncoderBatches(Words(), pairs, toy, load_recipe("mini-dense"), 1, spared=["d0"])
    assert made.rows.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_share_of_exposed_negatives_never_holds_a_spared_passage(toy, share):
    some = training_pairs(toy, ["q0"], "train", 1)  # d1; exposed are d3, d4, d5
    recipe = load_recipe(
        "mini-dense", negatives="random", n_negatives=2000, negative_passages=share
    )
    made = EncoderBatches(Words(), some, toy, recipe, 1, spared=["d0", "d3"])
    drawn = set(made([{"pair": 0}])["negative_texts"])
    rows = {0.0: (1, 2), 0.5: (1, 2, 4, 5), 1.0: (4, 5)}[share]
    assert drawn == {PASSAGES[row][1] for row in rows}
    with pytest.raises(InputError, match="3 of 6 passages are exposed, 3 are spared"):
        EncoderBatches(Words(), some, toy, recipe, 1, spared=["d3", "d4", "d5"])


def test_file_of_spared_passages_is_a_list_of_ids(tmp_path):
    (tmp_path / "doc_ids.json").write_text('["d1", 2]')
    with pytest.raises(InputError, match=r"doc_ids\.json: give a JSON list of doc_ids"):
        read_spared(tmp_path / "doc_ids.json")
