"""Near-duplicate queries: the exact search finds what comparing all pairs finds."""

import numpy as np
import pytest

from interextra.overlap import near as searching
from interextra.overlap.near import near_pairs, near_rows, words_in_order

SIGNS = {"latin": "abcdefghijkl", "han": "\u5317\u4eac\u5927\u5b66\u56fe\u4e66"}


def texts(rng, n, script):
    """Texts of few words, or of few characters without spaces; some are empty."""
    drawn = (rng.choice(list(SIGNS[script]), rng.integers(0, 9)) for _ in range(n))
    return [(" " if script == "latin" else "").join(signs) for signs in drawn]


@pytest.mark.parametrize("script", SIGNS)
@pytest.mark.parametrize("near", [0.05, 0.34, 0.5, 0.8, 1.0])
def test_it_finds_what_comparing_all_pairs_finds(script, near, monkeypatch):
    monkeypatch.setattr(searching, "POSTINGS", 50)
    monkeypatch.setattr(searching, "WORDS", 20)
    rng = np.random.default_rng(3)
    train, test = texts(rng, 120, script), texts(rng, 40, script)
    expected = set()
    for row, text in enumerate(test):
        for other_row, other in enumerate(train):
            words, other_words = words_in_order(text), words_in_order(other)
            common, total = {*words} & {*other_words}, {*words} | {*other_words}
            if total and (
                "".join(words) == "".join(other_words) or len(common) / len(total) >= near
            ):
                expected.add((row, other_row, round(len(common) / len(total), 9)))
    found = near_pairs(train, test, near)
    rows = zip(found["test"], found["train"], found["words"].round(9), strict=True)
    assert set(rows) == expected and len(found) == len(expected)
    assert found["order"].between(0, 1).all()
    columns = ["test", "train", "words"]
    same = found.sort_values(columns, ignore_index=True)[columns]
    assert same.equals(near_rows(train, test, near).sort_values(columns, ignore_index=True))


def test_texts_without_words_and_no_texts_have_no_near_duplicate():
    assert near_pairs(["?", ""], ["!", ""], 0.5).empty
    assert near_pairs([], ["a b"], 0.5).empty and near_pairs(["a b"], [], 0.5).empty


def test_digits_of_any_script_are_the_same():
    found = near_pairs(["born in 1984"], ["born in \u0967\u096f\u096e\u096a"], 1)
    assert found["order"].tolist() == [1]


def test_texts_of_one_word_and_repeated_texts_are_compared():
    found = near_rows(["python", "java", "python"], ["Python?", "c", "pythons"], 0.9)
    assert found[["test", "train"]].to_numpy().tolist() == [[0, 0], [0, 2]]


def test_the_order_is_of_the_longest_common_subsequence():
    """Of a b c d and b a c e, two of six words stand in the same order: a c, or b c."""
    found = near_pairs(["a b c d"], ["b a c e"], 0.5)
    assert found["words"].tolist() == [3 / 5] and found["order"].tolist() == [2 / 6]
