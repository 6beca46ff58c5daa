"""Predictors against the papers' formulas in loops over queries and words, and against sums on paper."""

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from interextra.data.load import open_collection
from interextra.ground.errors import InputError
from interextra.evaluation import predictors as pr
from interextra.data.runs import Run

TEXTS = ["The red fox.", "red RED sea", "a hat", "fox-hunt: fox!", ""]
QUERIES = pd.DataFrame(
    {"query_id": ["b", "a", "c", "d"], "text": ["Red fox fox", "sea zyx", "zyx?", "a red hunt in the sea"]}
)


class Shelf:
    """Passages in memory, which remembers the sizes of the batches that were asked for."""

    def __init__(self, texts):
        self.texts, self.asked = texts, []

    def batches(self, size):
        self.asked.append(size)
        for start in range(0, len(self.texts), size):
            yield start, self.texts[start : start + size]


def run_of(scores: dict) -> Run:
    rows = [(query, f"d{place}", score) for query, own in scores.items() for place, score in enumerate(own)]
    return Run.from_frame(pd.DataFrame(rows, columns=["query_id", "doc_id", "score"]))


def drawn_run(seed=0, low=1.0):
    rng = np.random.default_rng(seed)
    return run_of({f"q{i}": (low + rng.gamma(2, 2, rng.integers(1, 160))).tolist() for i in range(30)})


def test_counts_of_words_by_hand():
    found = pr.term_statistics(Shelf(TEXTS))
    assert found.n_passages == 5 and found.n_words == 3 + 3 + 2 + 3
    assert found.df == {"the": 1, "red": 2, "fox": 2, "sea": 1, "a": 1, "hat": 1, "hunt": 1}
    assert found.cf == found.df | {"red": 3, "fox": 3}


@pytest.mark.parametrize("batch", [1, 2, 65_536])
def test_batches_and_the_choice_of_words_change_no_count(batch):
    whole, shelf = pr.term_statistics(Shelf(TEXTS)), Shelf(TEXTS)
    part = pr.term_statistics(shelf, QUERIES["text"], batch)
    assert shelf.asked == [batch]  # one pass
    assert part.df == {word: n for word, n in whole.df.items() if word != "hat"}
    assert part.cf == {word: n for word, n in whole.cf.items() if word != "hat"}
    assert (part.n_passages, part.n_words) == (whole.n_passages, whole.n_words)


def test_counts_of_a_collection_on_disk(tmp_path):
    collection = open_collection("mini:n_train=100,n_dev=20", tmp_path)
    queries = collection.queries("dev")
    found = pr.term_statistics(collection.passages, queries["text"], batch=300)
    tokens = [pr.words(text) for text in collection.passages.texts(slice(None))]
    wanted = {word for text in queries["text"] for word in pr.words(text)}
    counts = Counter(word for own in tokens for word in own), Counter(word for own in tokens for word in set(own))
    assert found.cf == {word: counts[0][word] for word in wanted & counts[0].keys()} and len(found.cf) > 50
    assert found.df == {word: counts[1][word] for word in wanted & counts[1].keys()}
    assert found.n_words == sum(map(len, tokens)) and found.n_passages == len(collection.passages)
    table = pr.pre_retrieval(queries, found)
    assert table.index.tolist() == queries["query_id"].tolist() and not table.isna().any(axis=None)


def test_no_words_is_an_error():
    for texts in ([], ["", "?"]):
        with pytest.raises(InputError, match=f"no word in {len(texts)} passages"):
            pr.term_statistics(Shelf(texts))


def test_pre_retrieval_by_hand():
    table = pr.pre_retrieval(QUERIES, pr.term_statistics(Shelf(TEXTS), QUERIES["text"]))
    assert table.columns.tolist() == list(pr.PRE) and table.index.tolist() == ["b", "a", "c", "d"]
    idf = {"red": math.log(5 / 2), "fox": math.log(5 / 2)} | dict.fromkeys(("a", "hunt", "the", "sea"), math.log(5))
    scq = {word: (1 + math.log(3)) * math.log(1 + 5 / 2) for word in ("red", "fox")}
    scq |= dict.fromkeys(("a", "hunt", "the", "sea"), math.log(6))
    for query, own in {"b": ["red", "fox"], "a": ["sea"], "d": ["a", "red", "hunt", "the", "sea"]}.items():
        assert table.loc[query, "avg_idf"] == pytest.approx(np.mean([idf[word] for word in own])), query
        assert table.loc[query, "max_idf"] == pytest.approx(max(idf[word] for word in own))
        assert table.loc[query, "sum_scq"] == pytest.approx(sum(scq[word] for word in own))
        assert table.loc[query, "avg_scq"] == pytest.approx(np.mean([scq[word] for word in own]))
    assert table["length"].tolist() == [3, 2, 1, 6]
    assert table.loc["c"].drop("length").isna().all()


def test_queries_without_any_known_word_have_a_length_only():
    table = pr.pre_retrieval(pd.DataFrame({"query_id": ["q"], "text": ["zyx zyx"]}), pr.term_statistics(Shelf(TEXTS)))
    assert table.loc["q", "length"] == 2 and table.drop(columns="length").isna().all(axis=None)


def test_corpus_score_is_the_log_likelihood_under_the_collection():
    scores = pr.corpus_scores(QUERIES, pr.term_statistics(Shelf(TEXTS)))
    assert scores["b"] == pytest.approx(3 * math.log(3 / 11)) and scores["a"] == pytest.approx(math.log(1 / 11))
    assert math.isnan(scores["c"])


SMALL = {"q1": [4.0, 2.0, 9.0, 1.0], "q2": [3.0], "q3": [-1.0, -3.0], "q4": [2.0, -2.0]}
CORPUS, LENGTHS = pd.Series({"q4": 1, "q3": -2, "q2": 0, "q1": -4}), pd.Series({"q1": 4, "q2": 1, "q3": 9, "q4": 1})


def values(series):
    assert series.index.tolist() == ["q1", "q2", "q3", "q4"] and series.index.name == "query_id"
    return pytest.approx(series.tolist(), nan_ok=True)


def test_nqc_by_hand():
    run, nan = run_of(SMALL), math.nan
    deviation = math.sqrt((16 + 1 + 9) / 3)  # 9, 4, 2 about their mean of 5
    assert values(pr.nqc(run, normalise="none", k=3)) == [deviation, 0, 1, 2]
    assert values(pr.nqc(run, normalise="mean", k=3)) == [deviation / 5, 0, 0.5, nan]
    assert values(pr.nqc(run, normalise="corpus", k=3, corpus=CORPUS)) == [deviation / 4, nan, 0.5, 2]
    assert pr.nqc(run, normalise="none")["q1"] == pytest.approx(np.std(SMALL["q1"]))  # k above the depth


def test_wig_by_hand():
    run = run_of(SMALL)
    assert values(pr.wig(run, k=2)) == [6.5, 3, -2, 0]
    assert values(pr.wig(run, k=2, corpus=CORPUS)) == [10.5, 3, 0, -1]
    assert values(pr.wig(run, k=2, corpus=CORPUS, lengths=LENGTHS)) == [5.25, 3, 0, -1]
    assert pr.wig(drawn_run())["q3"] == pr.wig(drawn_run(), k=5)["q3"] != pr.wig(drawn_run(), k=100)["q3"]


def test_smv_by_hand():
    run, nan = run_of(SMALL), math.nan
    first = (9 * math.log(9 / 5) + 4 * math.log(5 / 4) + 2 * math.log(5 / 2)) / 3
    third = (1 * math.log(2 / 1) + 3 * math.log(3 / 2)) / 2  # negative scores: magnitudes
    assert values(pr.smv(run, normalise="none", k=3)) == [first, 0, third, nan]
    assert values(pr.smv(run, normalise="mean", k=3)) == [first / 5, 0, third / 2, nan]
    assert values(pr.smv(run, normalise="corpus", k=3, corpus=CORPUS)) == [first / 4, nan, third / 2, nan]
    assert math.isnan(pr.smv(run_of({"q": [1.0, 0.0]}), normalise="none")["q"])


@pytest.mark.parametrize("k", [1, 7, 100, 1000])
def test_post_retrieval_is_the_formulas_query_by_query(k):
    run = drawn_run()
    corpus = pd.Series({query: -1.0 - place for place, query in enumerate(run.query_ids)})
    lengths = pd.Series({query: 1 + place % 4 for place, query in enumerate(run.query_ids)})
    table = pr.post_retrieval(run, normalise="corpus", k=k, wig_k=k, corpus=corpus, lengths=lengths)
    assert table.columns.tolist() == list(pr.POST)
    for query, own in run.frame().groupby("query_id"):
        s, c = np.sort(own["score"].to_numpy(float))[::-1][:k], abs(corpus[query])
        wig = np.mean([(x - corpus[query]) / math.sqrt(lengths[query]) for x in s])
        smv = np.mean([x * abs(math.log(x / s.mean())) for x in s]) / c
        assert table.loc[query].tolist() == pytest.approx([s.std() / c, wig, smv, s[0]])


def test_order_of_queries_is_that_of_the_run_and_missing_passages_are_missing_values():
    run = Run.from_arrays(["b", "a"], ["d1", "d2"], np.array([[-1, -1], [0, 1]]), np.array([[0, 0], [3.0, 1.0]]))
    table = pr.post_retrieval(run, normalise="none")
    assert table.index.tolist() == ["b", "a"] and table.loc["b"].isna().all() and not table.loc["a"].isna().any()


def test_the_scale_of_scores_drops_out_of_the_normalised_ranks_only():
    """Twice the scores: NQC and SMV by the mean stay, the others double."""
    run, one = drawn_run(), {}
    double = run_of({query: (2 * own["score"]).tolist() for query, own in run.frame().groupby("query_id", sort=False)})
    for how, factor in (("mean", 1), ("none", 2)):
        one[how] = pr.post_retrieval(run, normalise=how)
        twice = pr.post_retrieval(double, normalise=how)
        assert twice["nqc"].to_numpy() == pytest.approx(factor * one[how]["nqc"].to_numpy())
        assert twice["smv"].to_numpy() == pytest.approx(factor * one[how]["smv"].to_numpy())
    assert twice["wig"].to_numpy() == pytest.approx(2 * one["none"]["wig"].to_numpy())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run: pr.nqc(run, normalise="max"), "unknown normalise 'max'"),
        (lambda run: pr.nqc(run, normalise="corpus"), "belong to normalise='corpus'"),
        (lambda run: pr.smv(run, normalise="none", corpus=CORPUS), "belong to normalise='corpus'"),
        (lambda run: pr.nqc(run, normalise="corpus", corpus=CORPUS[:2]), "corpus: no value for query 'q1', 'q2'"),
        (lambda run: pr.wig(run, lengths=pd.concat([LENGTHS, LENGTHS])), "lengths: a query_id given twice"),
        (lambda run: pr.wig(run, k=0), "k must be at least 1"),
        (lambda _: pr.top_score(run_of({"q1": [1.0], "q2": [math.inf]})), "infinite scores for query 'q2'"),
    ],
)
def test_bad_switches_are_errors(call, message):
    with pytest.raises(InputError, match=message):
        call(run_of(SMALL))
