"""What notebook 00 shows of a collection, and what it answers."""

import pandas as pd
import pytest

from interextra.data.load import open_collection
from interextra.notebooks import n00_start_here as start_here

PASSAGES = {"tea": "Tea is a drink.", "rome": "Rome is a city.", "lion": "A lion is a cat."}
QUERIES = {"1": "what is tea", "2": "where is rome", "3": "what is a lion"}


@pytest.fixture
def data(house):
    answer_of = {"train": {"1": "tea"}, "test": {"2": "rome", "3": "lion"}}
    start_here.write_collection(house / "three", PASSAGES, QUERIES, **answer_of)
    return open_collection(f"beir:{house / 'three'}")


def test_a_written_collection_is_read_as_it_was_meant(data):
    counts = start_here.counts(data).set_index("split")
    assert counts["queries"].to_dict() == {"train": 1, "test": 2}
    assert counts["relevant_per_query"].eq(1).all()
    assert start_here.answers(data, "test").to_dict() == {"2": "rome", "3": "lion"}
    question, graded = start_here.a_passage_of_each_grade(data, "test")
    assert question == "where is rome" and graded.values.tolist() == [[1, "Rome is a city."]]


def test_each_sampled_query_stands_above_its_answer(data):
    text = start_here.sampled(data, "test", 12, seed=1)
    pairs = [part.split("\n") for part in text.split("\n\n")]
    assert sorted(pairs) == [
        ["Q  what is a lion", "P  A lion is a cat."],
        ["Q  where is rome", "P  Rome is a city."],
    ]


def test_answers_are_passages_of_a_high_grade_where_there_are_some(data, monkeypatch):
    qrels = pd.DataFrame(
        {"query_id": ["2", "2", "3"], "doc_id": ["tea", "rome", "lion"], "relevance": [1, 3, 1]}
    )
    monkeypatch.setattr(type(data), "qrels", lambda self, split: qrels)
    assert start_here.answers(data, "test").to_dict() == {"2": "rome"}


def test_no_random_baseline_outside_a_generated_world():
    assert start_here.random_baseline("beir:somewhere", ["test"]).empty


def test_the_answer_names_the_sets_on_which_the_difference_is_open():
    rows = [
        ("dev", "RR@10", "DR", "BM25", 0.2, 0.1, 0.3),
        ("test", "RR@10", "DR", "BM25", -0.1, -0.2, 0.05),
        ("dev", "nDCG@10", "DR", "BM25", 0.9, 0.9, 0.9),
    ]
    columns = ["test_set", "measure", "first", "second", "difference", "low", "high"]
    tested = pd.DataFrame(
        {
            "test_set": ["dev", "test"],
            "measure": "RR@10",
            "n_queries": [1000, 5],
            "better": [600, 1],
            "worse": [300, 2],
        }
    )
    means = pd.Series({"BM25": 0.4, "floor": 0.25})
    found = start_here.answer_sentences(
        pd.DataFrame(rows, columns=columns), tested, means, "dev", "9 passages"
    )
    assert found == [
        "DR is more effective than BM25 on the 1,000 dev queries; it is not shown to be more or less "
        "effective than BM25 on the 5 test queries. DR minus BM25 in RR@10: +0.200 [+0.100, +0.300] "
        "on 1,000 dev queries, -0.100 [-0.200, +0.050] on 5 test queries (paired percentile "
        "bootstrap, 95 % confidence intervals).",
        "Mean RR@10 on the 1,000 dev queries: BM25 0.400, random baseline 0.250; 9 passages.",
        "DR wins 600 of these queries, loses 300 and ties 100.",
    ]
