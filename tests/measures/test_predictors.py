"""Predictors against the papers' formulas in loops over queries and words, and against sums on
paper.
"""

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from interextra.data.load import open_collection
from interextra.data.runs import RunFile
from interextra.measures import predictors as pr
from interextra.store.errors import InputError

TEXTS = ["The red fox.", "red RED sea", "a hat", "fox-hunt: fox!", ""]
QUERIES = pd.DataFrame(
    {
        "query_id": ["b", "a", "c", "d"],
        "text": ["Red fox fox", "sea zyx", "zyx?", "a red hunt in the sea"],
    }
)


class Shelf(list):
    """Passages in memory, three to a batch."""

    def batches(self, size):
        for start in range(0, len(self), 3):
            yield start, self[start : start + 3]


def run_of(scores: dict) -> RunFile:
    rows = [
        (query, f"d{place}", score)
        for query, own in scores.items()
        for place, score in enumerate(own)
    ]
    return RunFile.from_frame(pd.DataFrame(rows, columns=["query_id", "doc_id", "score"]))


def drawn_run(seed=0, low=1.0):
    rng = np.random.default_rng(seed)
    return run_of(
        {f"q{i}": (low + rng.gamma(2, 2, rng.integers(1, 160))).tolist() for i in range(30)}
    )


def test_counts_are_those_of_a_collection_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("INTEREXTRA_CACHE", str(tmp_path))
    collection = open_collection("mini:n_train=100,n_dev=20")
    queries, n = collection.queries("dev"), len(collection.passages)
    table = pr.pre_retrieval(queries, collection.passages)
    assert table.index.tolist() == queries["query_id"].tolist() and not table.isna().any(axis=None)
    tokens = [pr.words(text) for text in collection.passages.texts(slice(None))]
    cf, df = (Counter(word for own in tokens for word in kind(own)) for kind in (list, set))
    for query_id, text in zip(queries["query_id"], queries["text"], strict=True):
        known = set(pr.words(text)) & df.keys()
        assert table.loc[query_id, "avg_idf"] == pytest.approx(
            np.mean([math.log(n / df[word]) for word in known])
        )
        scq = sum((1 + math.log(cf[word])) * math.log(1 + n / df[word]) for word in known)
        assert table.loc[query_id, "sum_scq"] == pytest.approx(scq)


def test_no_words_is_an_error():
    for texts in ([], ["", "?"]):
        with pytest.raises(InputError, match=f"{len(texts)} passages hold no word"):
            pr.pre_retrieval(QUERIES, Shelf(texts))


def test_pre_retrieval_by_hand():
    table = pr.pre_retrieval(QUERIES, Shelf(TEXTS))
    assert table.columns.tolist() == list(pr.PRE) and table.index.tolist() == ["b", "a", "c", "d"]
    idf = {"red": math.log(5 / 2), "fox": math.log(5 / 2)} | dict.fromkeys(
        ("a", "hunt", "the", "sea"), math.log(5)
    )
    scq = {word: (1 + math.log(3)) * math.log(1 + 5 / 2) for word in ("red", "fox")}
    scq |= dict.fromkeys(("a", "hunt", "the", "sea"), math.log(6))
    for query, own in {
        "b": ["red", "fox"],
        "a": ["sea"],
        "d": ["a", "red", "hunt", "the", "sea"],
    }.items():
        assert table.loc[query, "avg_idf"] == pytest.approx(np.mean([idf[word] for word in own])), (
            query
        )
        assert table.loc[query, "max_idf"] == pytest.approx(max(idf[word] for word in own))
        assert table.loc[query, "sum_scq"] == pytest.approx(sum(scq[word] for word in own))
    assert table["length"].tolist() == [3, 2, 1, 6]
    assert table.loc["c"].drop("length").isna().all()


def test_post_retrieval_by_hand():
    run = run_of(
        {
            "q1": [4.0, 2.0, 9.0, 1.0],
            "q2": [3.0],
            "q3": [-1.0, -3.0],
            "q4": [2.0, -2.0],
            "q5": [1.0, 0.0],
        }
    )
    table, nan = pr.post_retrieval(run, k=3), math.nan
    deviation = math.sqrt((16 + 1 + 9) / 3)  # 9, 4, 2 about their mean of 5
    first = (9 * math.log(9 / 5) + 4 * math.log(5 / 4) + 2 * math.log(5 / 2)) / 3
    third = (1 * math.log(2 / 1) + 3 * math.log(3 / 2)) / 2  # negative scores: magnitudes
    assert table["nqc"].tolist() == pytest.approx([deviation, 0, 1, 2, 0.5])
    assert table["wig"].tolist() == pytest.approx([5, 3, -2, 0, 0.5])
    assert table["smv"].tolist() == pytest.approx(
        [first, 0, third, nan, nan], nan_ok=True
    )  # signs differ, or a 0
    assert table["top_score"].tolist() == [9, 3, -1, 2, 1] and table.index.tolist() == [
        "q1",
        "q2",
        "q3",
        "q4",
        "q5",
    ]


@pytest.mark.parametrize("k", [1, 7, 100, 1000])
def test_post_retrieval_is_the_formulas_query_by_query(k):
    run = drawn_run()
    table = pr.post_retrieval(run, k)
    assert table.columns.tolist() == list(pr.POST)
    for query, own in run.frame().groupby("query_id"):
        s = np.sort(own["score"].to_numpy(float))[::-1][:k]
        smv = np.mean([x * abs(math.log(x / s.mean())) for x in s])
        assert table.loc[query].tolist() == pytest.approx([s.std(), s[:5].mean(), smv, s[0]])


def test_order_of_queries_is_that_of_the_run_and_missing_passages_are_missing_values():
    run = RunFile.from_arrays(
        ["b", "a"], ["d1", "d2"], np.array([[-1, -1], [0, 1]]), np.array([[0, 0], [3.0, 1.0]])
    )
    table = pr.post_retrieval(run, k=100)
    assert (
        table.index.tolist() == ["b", "a"]
        and table.loc["b"].isna().all()
        and not table.loc["a"].isna().any()
    )
