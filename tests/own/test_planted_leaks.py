"""The audit finds the planted leaks that it must find, and next to no other query."""

import pytest

from bench.planted_leaks import FINDS_ALL, planted, precision, recall


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return planted(tmp_path_factory.mktemp("leaks"), n_unleaked=2_000)


def test_leaks_of_the_same_words_letters_and_passages_are_all_found(data):
    table = recall(data, near=0.9)
    found = table.set_index("kind")
    assert (found.loc[list(FINDS_ALL), "found"] == found.loc[list(FINDS_ALL), "n"]).all()
    assert found.loc["reordered", "found"] == found.loc["reordered", "n"]
    assert found.loc["", "n"] == 2_000 and precision(table) >= 0.99


def test_more_leaks_are_found_among_more_others_at_a_lower_share(data):
    low, high = (recall(data, near).set_index("kind")["found"] for near in (0.6, 0.9))
    assert (low >= high).all() and low["one word changed"] == 10 and low[""] > high[""]


def test_edited_copies_of_passages_are_found_where_asked_for(data):
    """Of the world's passages, which are written from templates, a few have another's words."""
    table = recall(data, near=0.9, near_passages=0.8)
    found = table.set_index("kind")["found"]
    assert found["copied passage with edits"] >= 8 and precision(table) >= 0.95
