"""What is expected of the exercises: a file a notebook, an entry an exercise, variants where there
is a check.
"""

import json

import pytest
import yaml

from interextra.site.repository import notebooks
from interextra.store.errors import InputError
from tools.exercises import FOLDER, read_entries

TEXT = """## Exercises

1. *Predict:* is one odd?
2. *Write:* two in `two`.
"""
ENTRIES = [
    {"minutes": 1, "expected": "Yes.", "mistake": "No."},
    {
        "minutes": 2,
        "expected": "Two.",
        "mistake": "One.",
        "variants": {
            "right": ["two = 2", "two = 2.0", "two = 1 + 1"],
            "wrong": ["two = 1", "two = 3"],
        },
    },
]


def cell(kind, cell_id, source, *tags):
    return {"cell_type": kind, "id": cell_id, "metadata": {"tags": [*tags]}, "source": source}


@pytest.fixture
def one(tmp_path):
    """A repository with one notebook, whose second exercise has a check."""
    cells = [
        cell("markdown", "a", TEXT),
        cell("code", "b", "odd = 1 % 2\nassert odd", "solution"),
        cell("code", "c", "two = 2\nassert two == 2, 'two must be 2'", "solution"),
    ]
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "02_even.ipynb").write_text(json.dumps({"cells": cells}))
    (tmp_path / FOLDER).mkdir(parents=True)
    return tmp_path


def entries(root, values):
    text = values if isinstance(values, str) else yaml.safe_dump(values)
    (root / FOLDER / "02_even.yaml").write_text(text)
    return read_entries(root, "02_even")


def refused(root, values):
    with pytest.raises(InputError) as error:
        entries(root, values)
    return str(error.value)


def changed(number, **values):
    """The entries with other values in one of them; None: without the field."""
    found = [dict(entry) for entry in ENTRIES]
    found[number - 1] |= values
    found[number - 1] = {
        key: value for key, value in found[number - 1].items() if value is not None
    }
    return found


def test_each_exercise_has_its_solution_its_check_and_its_entry(one):
    (first, expected), (second, with_check) = entries(one, ENTRIES)
    assert first.is_in_words and not first.check and expected.minutes == 1
    assert (second.answer, second.check) == ("two = 2", "assert two == 2, 'two must be 2'")
    assert second.read == ["two"] and not second.is_in_words
    assert with_check.variants.right[2] == "two = 1 + 1"


def test_a_check_reads_what_a_solution_assigns_and_not_variables_of_its_comprehensions(one):
    source = """for twice in [1]:
    two = 2 * twice
assert {twice: two for twice in (1, 2)} == {1: 2, 2: 2}, "two must be 2"
assert all(map(lambda twice: twice, [1]))"""
    path = one / "notebooks" / "02_even.ipynb"
    notebook = json.loads(path.read_text())
    notebook["cells"][2]["source"] = source
    path.write_text(json.dumps(notebook))
    exercise = entries(one, ENTRIES)[1][0]
    assert exercise.read == ["two"] and exercise.check == source.splitlines()[2]


def test_another_number_of_entries_is_refused(one):
    assert "02_even.yaml: 1 entries, but 02_even has 2 exercises" in refused(one, ENTRIES[:1])
    assert "no list of entries" in refused(one, "minutes: 3")


def test_what_is_wrong_in_an_entry_is_named(one):
    assert "02_even.yaml, entry 1: mistake: Field required" in refused(
        one, changed(1, mistake=None)
    )
    assert "entry 1: minutes: Input should be greater" in refused(one, changed(1, minutes=0))
    assert "entry 2: hint: Extra inputs" in refused(one, changed(2, hint="two"))
    assert "entry 1: the entry: Input should be" in refused(one, ["Yes.", ENTRIES[1]])
    variants = {"right": [{"two = {1": "2}[1]"}], "wrong": []}  # a colon makes a mapping of it
    found = refused(one, changed(2, variants=variants))
    assert "entry 2: variants.right.0: Input should be a valid string; code with" in found


def test_variants_stand_where_a_check_tries_them(one):
    variants = ENTRIES[1]["variants"]
    assert "entry 1: has variants, but the exercise has no check" in refused(
        one, changed(1, variants=variants)
    )
    assert "entry 2: has no variants" in refused(one, changed(2, variants=None))
    few = variants | {"wrong": ["two = 1"]}
    assert "entry 2: 3 right and 1 wrong variants" in refused(one, changed(2, variants=few))


def test_every_stored_notebook_says_what_is_expected(root):
    files = {path.stem for path in (root / FOLDER).glob("*.yaml")}
    assert files == {path.stem for path in notebooks(root)}
    for name in files:
        read_entries(root, name)
