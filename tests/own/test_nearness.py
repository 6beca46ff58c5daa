"""How near test queries lie to training queries, beside training queries held out."""

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from interextra.cli import main
from interextra.data.words import lower_words
from interextra.own import nearness as module
from interextra.own.nearness import nearness

PLACES = ("peru", "ghana", "nepal", "chile")
TOPICS = ("granite", "tulips", "comets", "glaciers", "violins", "vaccines")
TRAIN = [f"where were {topic} first described in {place}" for topic in TOPICS for place in PLACES]
FAR = ["aspirin inhibits production of prostaglandin", "tax law for the self employed"]


def by_hand(train, test):
    """The highest cosines of test queries, and of training queries to another one."""
    weights = TfidfVectorizer(sublinear_tf=True, analyzer=lower_words).fit_transform(train + test)
    cosines = cosine_similarity(weights)[:, : len(train)]
    np.fill_diagonal(cosines, 0)
    highest = cosines.max(axis=1).round(6)
    return highest[len(train) :], highest[: len(train)]


@pytest.mark.parametrize("at_once", [1, 60, 10_000])
def test_cosines_are_those_of_all_pairs_whatever_is_held_at_once(monkeypatch, at_once):
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    test = ["where were tulips first seen in peru", *FAR]
    found = nearness(TRAIN, test)
    cosines, held_out = by_hand(TRAIN, test)
    expected = [cosines.mean(), np.median(cosines), held_out.mean(), np.median(held_out)]
    told = [found.test_mean, found.test_median, found.held_out_mean, found.held_out_median]
    assert told == pytest.approx(expected, abs=1e-5)
    assert (found.n_test, found.n_held_out) == (3, len(TRAIN))
    assert found.share_as_near == pytest.approx((cosines >= np.median(held_out)).mean())


def test_queries_of_another_field_are_far_though_they_share_a_word():
    """A word that training lacks counts: what is left of the query would be like training."""
    near = nearness(TRAIN[1::2], TRAIN[::2])
    far = nearness(TRAIN, [f"in {query}" for query in FAR])
    assert far.test_mean < 0.2 < near.test_mean
    assert far.share_as_near == 0 and near.share_as_near > 0.3


def test_of_many_queries_some_are_looked_at(monkeypatch):
    monkeypatch.setattr(module, "MOST_QUERIES", 5)
    found = nearness(TRAIN, TRAIN[::2])
    assert found.n_test == found.n_held_out == 5
    monkeypatch.setattr(module, "MOST_PAIRS", 2 * len(TRAIN))
    assert nearness(TRAIN, TRAIN[::2]).n_test == 2


def test_one_training_query_has_no_other_one():
    found = nearness(TRAIN[:1], TRAIN[:2])
    assert found.n_held_out == 0 and found.record()["held_out_mean"] is None
    assert found.sentence().endswith("(median 0.86; 2 test queries).")


def test_the_audit_says_which_test_queries_have_no_row_in_pairs(tmp_path, capsys):
    for name, texts in (("train", TRAIN), ("test", [*TRAIN[:3], *FAR])):
        lines = (f"{name}{at}\t{text}\n" for at, text in enumerate(texts))
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    sides = ["--train", f"{tmp_path}/train.tsv", "--test", f"{tmp_path}/test.tsv"]
    assert main(["audit", *sides, "--out", f"{tmp_path}/out"]) == 0
    told = capsys.readouterr().out
    assert "By TF-IDF of words, the mean cosine of a test query to its nearest training" in told
    assert (
        "Without a row in pairs.csv: 2 of 5 test queries have no vector by lsa, as it knows none "
        "of their words ('test3', 'test4')."
    ) in told
    pairs = pd.read_csv(tmp_path / "out" / "pairs.csv")
    assert set(pairs["test_query_id"]) == {"test0", "test1", "test2"}
