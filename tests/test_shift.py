"""A shift: no test query is ever trained on, and the model of a cluster never sees it."""

import numpy as np
import pytest

from interextra.ground.errors import InputError
from interextra.splits.shift import cluster_names, shift

LABELS = np.array(list("aaaaaaabbbbbccccc") + ["", "", "d"], dtype=object)


def test_training_sets_hold_the_other_clusters_and_no_test_query():
    made = shift(LABELS, n_test=2, clusters=("a", "b", "c"), seed=3)
    assert [int(made.test[made.labels == name].sum()) for name in "abc"] == [2, 2, 2] and made.test.sum() == 6
    for name in "abc":
        rows = made.complement(name)
        assert not made.test[rows].any() and name not in made.labels[rows]
        assert set(made.labels[rows]) == set("abc") - {name}  # neither d nor queries without label
        expected = [i for i in range(len(LABELS)) if LABELS[i] in set("abc") - {name} and not made.test[i]]
        assert rows.tolist() == expected


def test_equal_sizes_are_drawn_from_the_complement_by_the_seed():
    made = shift(LABELS, n_test=2, clusters=("a", "b", "c"))
    drawn = [made.complement("a", size=4, seed=s) for s in (0, 0, 1, 2, 3)]
    assert all(len(set(rows)) == 4 and set(rows) <= set(made.complement("a")) for rows in drawn)
    assert np.array_equal(drawn[0], drawn[1]) and any(not np.array_equal(drawn[0], rows) for rows in drawn[2:])
    with pytest.raises(InputError, match="6 training queries, not 7"):
        made.complement("a", size=7)


def test_the_division_depends_on_the_seed_only():
    one, same, other = (shift(LABELS, 2, ("a", "b"), seed).test for seed in (1, 1, 2))
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_clusters_are_the_labels_largest_first_without_those_of_none():
    assert cluster_names(LABELS) == ("a", "b", "c", "d")
    assert shift(LABELS[:-1], 1).clusters == ("a", "b", "c")
    sizes = shift(LABELS, 2, ("c", "a")).sizes
    assert sizes.to_numpy().tolist() == [["c", 5, 3, 2], ["a", 7, 5, 2]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_test": 1}, r"leave no training query of 'd \(1\)'"),
        ({"n_test": 2, "clusters": ["a", "x"]}, "no query of cluster 'x'"),
        ({"n_test": 2, "clusters": ["a"]}, "at least two different clusters"),
        ({"n_test": 2, "clusters": ["a", "a"]}, "at least two different clusters"),
        ({"n_test": 0, "clusters": ["a", "b"]}, "every cluster needs a test query"),
        ({"n_test": 5, "clusters": ["a", "b"]}, r"'b \(5\)'"),
    ],
)
def test_impossible_shifts_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        shift(LABELS, **arguments)


def test_unknown_cluster_has_no_complement():
    with pytest.raises(InputError, match="no cluster 'x'"):
        shift(LABELS, 2, ("a", "b")).complement("x")
