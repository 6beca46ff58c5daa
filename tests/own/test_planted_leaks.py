"""The audit finds the planted leaks that it must find, and next to no other query."""

import pandas as pd
import pytest

from bench.planted_leaks import (
    CONFIRMING,
    FINDS_ALL,
    WANTED,
    chosen,
    of_world,
    planted,
    precision,
    precisions,
    recall,
)
from interextra.own.audit import NEAR


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Leaks in a world that the default was not chosen on."""
    source = of_world(CONFIRMING[0])
    return planted(tmp_path_factory.mktemp("leaks"), source, n_unleaked=2_000)


def test_leaks_of_the_same_words_letters_and_passages_are_all_found(data):
    table = recall(data, near=NEAR)
    found = table.set_index("kind")
    assert (found.loc[list(FINDS_ALL), "found"] == found.loc[list(FINDS_ALL), "n"]).all()
    assert found.loc["reordered", "found"] == found.loc["reordered", "n"]
    assert (found.loc[found.index != "", "n"] == 10).all()
    assert found.loc["", "n"] >= 1_900 and precision(table) >= WANTED


def test_more_leaks_are_found_among_more_others_at_a_lower_share(data):
    low, high = (recall(data, near).set_index("kind")["found"] for near in (0.6, NEAR))
    assert (low >= high).all() and low["one word changed"] == 10 and low[""] > high[""]


def test_edited_copies_of_passages_are_found_where_asked_for(data):
    """Of the world's passages, which are written from templates, a few have another's words."""
    table = recall(data, near=NEAR, near_passages=0.8)
    found = table.set_index("kind")["found"]
    assert found["copied passage with edits"] >= 8 and precision(table) >= 0.95


def test_the_lowest_share_with_the_wanted_precision_in_each_collection_is_chosen():
    rows = [
        ("a", 0.9, 0),
        ("a", 0.8, 1),
        ("a", 0.7, 1),
        ("b", 0.9, 1),
        ("b", 0.8, 1),
        ("b", 0.7, 9),
    ]
    found = pd.DataFrame(
        [
            {"collection": name, "near": near, "near_passages": 1, "kind": kind, "found": n}
            for name, near, n_others in rows
            for kind, n in (("exact", 200), ("", n_others))
        ]
    ).assign(n=200)
    assert chosen(precisions(found)) == 0.8
