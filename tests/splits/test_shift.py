"""A shift: no test query is ever trained on, and the model of a cluster never sees it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from toy_splits import drawn, queries

from interextra.data.queries import Source
from interextra.splits import attributes
from interextra.splits.shift import Shift, shift
from interextra.splits.topics import Topics
from interextra.store.cells import config_of, from_config
from interextra.store.errors import InputError
from interextra.store.folders import Store

LABELS = np.array(list("aaaaaaabbbbbccccc") + ["", "", "d"], dtype=object)


def test_training_sets_hold_the_other_clusters_and_no_test_query():
    made = shift(LABELS, n_test=2, clusters=("a", "b", "c"), seed=3)
    assert [int(made.test[made.labels == name].sum()) for name in "abc"] == [
        2,
        2,
        2,
    ] and made.test.sum() == 6
    for name in "abc":
        rows = made.complement(name)
        assert not made.test[rows].any() and name not in made.labels[rows]
        assert set(made.labels[rows]) == set("abc") - {name}  # neither d nor queries without label
        expected = [
            i for i in range(len(LABELS)) if LABELS[i] in set("abc") - {name} and not made.test[i]
        ]
        assert rows.tolist() == expected


def test_equal_sizes_are_drawn_from_the_complement_by_the_seed():
    made = shift(LABELS, n_test=2, clusters=("a", "b", "c"))
    drawn = [made.complement("a", size=4, seed=s) for s in (0, 0, 1, 2, 3)]
    assert all(len(set(rows)) == 4 and set(rows) <= set(made.complement("a")) for rows in drawn)
    assert np.array_equal(drawn[0], drawn[1]) and any(
        not np.array_equal(drawn[0], rows) for rows in drawn[2:]
    )
    with pytest.raises(InputError, match="7 of 6 training queries"):
        made.complement("a", size=7)


def test_the_division_depends_on_the_seed_only():
    one, same, other = (shift(LABELS, 2, ("a", "b"), seed).test for seed in (1, 1, 2))
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_clusters_are_the_labels_largest_first_without_those_of_none():
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
        ({"n_test": 5, "clusters": ["a", "b"]}, r"'b \(5\)'"),
    ],
)
def test_impossible_shifts_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        shift(LABELS, **arguments)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("outputs") / "cells")


def by_words(**change) -> Shift:
    return Shift(
        **{"pool": queries(), "by": "wh-words", "clusters": ("how", "who"), "n_test": 15, "seed": 1}
        | change
    )


def test_cell_divides_by_the_attribute(store):
    cell = by_words()
    kept = pd.read_parquet(store.build(cell) / "labels.parquet")
    expected = attributes.labels(cell.pool.frame(), "wh-words")
    assert kept["cluster"].tolist() == [
        label if label in ("how", "who") else "" for label in expected
    ]
    sets, cluster = cell.sets(store), kept.set_index("query_id")["cluster"]
    assert sets.keys() == {"without-how", "without-who", "held-out"}
    assert set(cluster[sets["without-how"]]) == {"who"} and set(cluster[sets["without-who"]]) == {
        "how"
    }
    assert not set(sets["held-out"]) & {*sets["without-how"], *sets["without-who"]}
    strata = cell.strata(store)
    assert strata.index.tolist() == sets["held-out"] and strata.value_counts().to_dict() == {
        "how": 15,
        "who": 15,
    }
    assert (strata == cluster[sets["held-out"]]).all()
    assert cell.size_of("held-out") == 30 and by_words(train_size=40).size_of("without-how") == 40


def test_a_planned_note_imports_no_module_until_it_is_built(tmp_path, monkeypatch, store):
    (tmp_path / "own_rule.py").write_text(
        "import pathlib\npathlib.Path('ran').touch()\ndef rule(query):\n    return 'a'\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    elsewhere = queries().model_copy(
        update={"source": Source(spec="mini", fingerprint="planned by another process")}
    )
    note = config_of(
        Shift(pool=elsewhere, by="python:own_rule:rule", n_test=5, by_sha256="of another file")
    )
    assert from_config(note).by_sha256 == "of another file"
    assert (
        from_config({name: of for name, of in note.items() if name != "by_sha256"})
        and not Path("ran").exists()
    )
    planned = Shift(pool=queries(), by="python:interextra.world.truth:kind_of_question", n_test=5)
    with pytest.raises(InputError, match="has changed since it was planned"):
        store.build(planned.model_copy(update={"by_sha256": "of another file"}))


def test_cell_divides_by_topics_that_are_a_cell(store):
    grown = Topics(vectors=drawn(), n_topics=2, k=10, target=100, seed=1)
    cell = Shift(pool=queries(), by=grown, n_test=15, train_size=40, seed=1)
    assert (
        cell.needs() == (grown,) and cell.names == ("C0", "C1") and cell.size_of("without-C0") == 40
    )
    made = shift(grown.labels(store) if store.build(cell) else (), 15, ("C0", "C1"), 1)
    ids, sets = np.array(cell.pool.ids()), cell.sets(store)
    assert sets["held-out"] == ids[made.test].tolist()
    assert sets["without-C0"] == ids[made.complement("C0", 40, 1)].tolist()
    other = Topics(vectors=drawn(), n_topics=2, k=10, target=100, seed=1, merge="merged")
    assert Shift(pool=queries(), by=other, n_test=15, train_size=40, seed=1).key != cell.key


def test_clusters_are_known_and_checked_before_anything_is_built():
    assert Shift(pool=queries(), by="length", n_test=9).names == ("long", "short")
    grown = Topics(vectors=drawn(), n_topics=2, k=10, target=100)
    for change, words in (
        ({"clusters": ("how", "why")}, "no query of cluster 'why'"),
        ({"n_test": 600}, "leave no training query"),
        ({"by": grown, "clusters": ("C0", "C2")}, "no topic 'C2'; there are C0, C1"),
    ):
        with pytest.raises(InputError, match=words):
            by_words(**change).size_of("held-out")
    with pytest.raises(InputError, match="by topics of other queries"):
        Shift(pool=queries("dev"), by=grown, n_test=9)


def test_each_choice_names_another_cell():
    changes = (
        {},
        {"seed": 2},
        {"n_test": 16},
        {"train_size": 40},
        {"by": "wh-words:whole=true"},
        {"clusters": ()},
    )
    assert len({by_words(**change).key for change in changes}) == len(changes)


def test_a_function_of_your_own_is_named_by_its_content(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "my_attribute.py"
    module.write_text(
        "def label(query):\n    return 'even' if len(query['text']) % 2 == 0 else 'odd'\n"
    )
    key = by_words(by="python:my_attribute:label", clusters=("odd", "even")).key
    assert key == by_words(by="python:my_attribute:label", clusters=("odd", "even")).key
    module.write_text(module.read_text() + "# changed\n")
    assert by_words(by="python:my_attribute:label", clusters=("odd", "even")).key != key


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_test": -1}, "n_test -1: give the number of test queries"),
        ({"train_size": 600}, "600 of \\d+ training queries; use a size of"),
        ({"train_size": -1}, "-1 of \\d+ training queries"),
    ],
)
def test_impossible_divisions_are_found_wrong_when_they_are_planned(change, words):
    """They were only after training, or with a traceback."""
    with pytest.raises(InputError, match=words):
        by_words(**change)
