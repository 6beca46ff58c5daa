"""Versions for a class: what students get holds no solution, runs without them, and is what the
graders read.
"""

import json
import re
import subprocess
import sys

import nbformat
import pandas as pd
import pytest
import yaml

from interextra.site.repository import notebooks
from interextra.store.errors import InputError
from tools.exercises import read_entries
from tools.teaching import FORMATS, LOOKS, STUB, STUB_IN_WORDS, are_results_below, write

code, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
EXERCISES = """## Exercises

1. *Write:* twice
   one, as an int in `two`.
2. *True or false:* it is odd.
3. *Look:* at half of it.

No exercise.
3 apples.
"""
CHECKED = """two = 1 + 1
assert two == 2, "two must be twice one"
assert (
    two % 2 == 0
)
print([x for x in (two,)])"""
EXPECTED = [
    {
        "minutes": 3,
        "expected": "Two.",
        "mistake": "One: nothing was doubled.",
        "variants": {
            "right": ["two = 2", "two = 2.0", "two = len('ab')"],
            "wrong": ["two = 1", "two = 4"],
        },
    },
    {"minutes": 2, "expected": "False: *two* is even.", "mistake": "True."},
    {"minutes": 1, "expected": "One.", "mistake": "A quarter."},
]


def tagged(cell, *tags):
    cell["metadata"] = {"tags": [*tags], "jupyter": {"source_hidden": True}}
    return cell


def cells():
    return [
        tagged(text("# Is it even?\n\nWe ask."), "slide"),
        tagged(code('one = ix.start("02_even")'), "slide"),
        tagged(code("one"), "slide"),
        text(EXERCISES),
        tagged(code(CHECKED), "solution"),
        tagged(
            code("assert [1 for x in (1,)] and (four := 2 * two) == 4"), "solution", "continued"
        ),
        tagged(text("1. It is, since 2 is divisible by 2."), "solution"),
        tagged(code("odd = two % 2\nassert not odd"), "solution"),
        tagged(code("two / 2"), "solution"),
        text("## In short\n\n1. no exercise"),
    ]


def store(root, name="02_even", stored=None, expected=EXPECTED):
    """Put a notebook and what is expected of its exercises into a repository."""
    notebook = nbformat.v4.new_notebook(cells=cells() if stored is None else stored)
    (root / "notebooks").mkdir(exist_ok=True)
    nbformat.write(notebook, root / "notebooks" / f"{name}.ipynb")
    (root / "book" / "exercises").mkdir(parents=True, exist_ok=True)
    (root / "book" / "exercises" / f"{name}.yaml").write_text(yaml.safe_dump(expected))


def execute(root, output="1", name="02_even"):
    """Write the executed copy of a stored notebook, with an output of its first code cell."""
    executed = nbformat.read(root / "notebooks" / f"{name}.ipynb", 4)
    executed.cells[1]["outputs"] = [nbformat.v4.new_output("stream", text=output)]
    (root / "runs" / name).mkdir(parents=True)
    nbformat.write(executed, root / "runs" / name / f"{name}.ipynb")


@pytest.fixture
def one(tmp_path):
    """A repository with one notebook."""
    store(tmp_path)
    return tmp_path


def made(root, form, place, **options):
    options = {"executed": None, "from_reference": False} | options
    assert root / "out" / place in write(root, form, "", root / "out", **options)
    notebook = nbformat.read(root / "out" / place, 4)
    nbformat.validate(notebook)
    return notebook.cells


def test_student_version_asks_and_holds_no_solution(one):
    found = made(one, "plain", "student/02_even.ipynb")
    assert [cell.source for cell in found[4:7]] == [
        f"# Exercise 1 (2 points). Write: twice one, as an int in `two`.\n{STUB}",
        f"**Exercise 2 (2 points).** *True or false:* it is odd.\n\n{STUB_IN_WORDS}",
        f"# Exercise 3 (2 points). Look: at half of it.\n{STUB}",
    ]
    assert [cell.cell_type for cell in found[4:7]] == ["code", "markdown", "code"]
    assert [cell.source for cell in found[:4] + found[7:]] == [
        cell.source for cell in cells()[:4] + cells()[-1:]
    ]


def test_solution_version_shows_all(one):
    found = made(one, "plain", "solution/02_even.ipynb")
    assert [cell.source for cell in found] == [cell.source for cell in cells()]
    assert not any("jupyter" in cell.metadata for cell in found)


def test_solution_version_has_the_outputs_of_a_run_and_students_get_none(one):
    execute(one)
    found = made(one, "plain", "solution/02_even.ipynb", executed=one / "runs")
    assert [cell.source for cell in found] == [cell.source for cell in cells()]
    assert found[1]["outputs"][0]["text"] == "1"
    students = nbformat.read(one / "out" / "student" / "02_even.ipynb", 4).cells
    assert not any(cell.get("outputs") for cell in students)


def test_outputs_of_another_version_of_a_notebook_are_refused(one):
    execute(one)
    changed = nbformat.read(one / "notebooks" / "02_even.ipynb", 4).cells
    changed[4].source += "\nprint(4)"
    store(one, stored=changed)
    assert "executed from another version of 02_even (cell" in refused(one, executed=one / "runs")


def test_source_for_nbgrader_marks_solutions_and_checks_what_they_name(one):
    found = made(one, "nbgrader", "source/02_even/02_even.ipynb")[4:8]
    assert found[0].source == (
        "# Exercise 1 (2 points, 1 of them by a check). Write: twice one, as an int in `two`.\n"
        "### BEGIN SOLUTION\ntwo = 1 + 1\nprint([x for x in (two,)])\n\n"
        "assert [1 for x in (1,)] and (four := 2 * two) == 4\n### END SOLUTION"
    )
    checks = (
        '    assert two == 2, "two must be twice one"\n    assert (\n        two % 2 == 0\n    )'
    )
    begin, end = "### BEGIN HIDDEN TESTS\n", f"{checks}\n### END HIDDEN TESTS"
    assert found[1].source.startswith(begin) and found[1].source.endswith(end)
    # what it says where it cannot read the answer
    asked = "*Write:* twice one, as an int in `two`."
    answers = {
        f"two must be twice one. {asked} A typical mistake: One": {"two": 3},
        f"two is a Series with the index [0, 1], which the check cannot read. {asked}": {
            "two": pd.Series([1, 2])
        },
        f"two is missing. {asked}": {},
    }
    for said, names in answers.items():
        with pytest.raises(AssertionError, match=re.escape(said)):
            exec(found[1].source, names)
    # an answer in words has no check, and teachers see what is expected
    assert found[2].cell_type == "markdown"
    assert found[2].source == (
        "**Exercise 2 (2 points).** *True or false:* it is odd.\n\n"
        "### BEGIN SOLUTION\nFalse: *two* is even.\n### END SOLUTION"
    )
    marks = [cell.metadata["nbgrader"] for cell in found]
    assert all(mark["schema_version"] == 3 and mark["grade"] and not mark["task"] for mark in marks)
    assert [
        [mark[name] for name in ("grade_id", "points", "solution", "locked")] for mark in marks
    ] == [
        ["exercise-1", 1, True, False],
        ["exercise-1-check", 1, False, True],
        ["exercise-2", 2, True, False],
        ["exercise-3", 2, True, False],
    ]
    config = (one / "out" / "nbgrader_config.py").read_text()
    assert "c.Execute.timeout" in config and STUB_IN_WORDS in config


def test_source_for_otter_puts_each_exercise_between_raw_cells(one):
    found = made(one, "otter", "source/02_even/02_even.ipynb")
    raw = [cell.source.split("\n") for cell in found if cell.cell_type == "raw"]
    assert raw[0] == ["# BEGIN QUESTION", "name: exercise_1", "points: 2", "manual: false"]
    assert raw[6] == ["# BEGIN QUESTION", "name: exercise_2", "points: 2", "manual: true"]
    solution, tests = (
        (["# BEGIN SOLUTION"], ["# END SOLUTION"]),
        (["# BEGIN TESTS"], ["# END TESTS"]),
    )
    assert raw[1:6] == [*solution, *tests, ["# END QUESTION"]]
    assert raw[7:10] == [*solution, ["# END QUESTION"]]
    words = [cell.source for cell in found if cell.cell_type == "markdown"]
    assert words[2:4] == [
        "**Exercise 2 (2 points).** *True or false:* it is odd.",
        "False: *two* is even.",
    ]
    checks = [cell.source for cell in found if cell.source.startswith("# HIDDEN\n")]
    assert len(checks) == 1 and "    assert two == 2, " in checks[0]
    assert (
        "os.chdir(_dh[0])" in found[2].source
    )  # after the notebook went to the root of the repository


def test_slides_begin_with_a_text_and_keep_the_outputs(one):
    execute(one)
    found = made(one, "slides", "02_even.ipynb", executed=one / "runs")
    types = [cell.metadata["slideshow"]["slide_type"] for cell in found]
    assert types == ["slide", "-", "subslide", "-"]
    assert found[0].source == f"# Is it even?\n\n{LOOKS}"
    assert found[1]["outputs"][0]["text"] == "1"
    assert are_results_below("## In short\n\nIt is.")
    assert not are_results_below("## Data")


def test_slides_define_their_terms_head_their_results_and_break_no_line_of_estimates(one):
    """Δ was never defined, a result had no heading, and the last slide was a wall of brackets."""
    stored = cells()
    stored.insert(2, text("## Its half\n\nNot on a slide."))
    stored[3] = tagged(code("one.delta"), "slide")
    stored[0].source = "# Is it even?\n\nBy Δ."
    store(one, stored=stored)
    glossary = "```{glossary}\n\nΔ\n  A change. More of it.\n\ngate\n  A condition.\n```\n"
    (one / "book" / "glossary.md").write_text(glossary, encoding="utf-8")
    execute(one)
    path = one / "runs" / "02_even" / "02_even.ipynb"
    executed = nbformat.read(path, 4)
    answer = "- It loses (RR@10: -7.4 % [-11.9, +2.9]; over queries (MedQuAD)), see Δ (below)."
    executed.cells[1]["outputs"] = [
        nbformat.v4.new_output("display_data", {"text/markdown": answer})
    ]
    nbformat.write(executed, path)
    found = made(one, "slides", "02_even.ipynb", executed=one / "runs")
    assert [cell.source for cell in found[1:2]] == ["## Terms\n\n- **Δ**: A change."]
    assert found[2]["outputs"][0]["data"]["text/markdown"] == "- It loses, see Δ (below)."
    assert [cell.source for cell in found[3:]] == ["## Its half", "one.delta"]


def test_version_from_the_reference_says_so_after_its_title(one):
    values = one / "outputs" / "reference" / "mini" / "02_even"
    values.mkdir(parents=True)
    (values / "cells.zip").touch()
    found = made(one, "plain", "student/02_even.ipynb", from_reference=True)
    assert found[0].source == "# Is it even?\n\nWe ask."
    assert '= str(house() / "outputs/reference/mini/02_even")' in found[1].source


def refused(root, form="plain", **options):
    with pytest.raises(InputError) as error:
        made(root, form, "", **options)
    assert not (root / "out" / "student" / "03_odd.ipynb").exists()
    return str(error.value)


def test_one_wrong_notebook_and_nothing_is_written(one):
    store(one, "03_odd", cells()[:6])
    assert "03_odd: 3 exercises, 1 solutions; tag further ones" in refused(one)
    assert not (one / "out").exists()


def test_what_is_missing_is_named(one):
    assert "outputs/mini/02_even/02_even.ipynb' is missing" in refused(one, "slides")
    assert "runs/02_even/02_even.ipynb' is missing" in refused(one, executed=one / "runs")
    assert "mini/02_even/cells.zip' is missing" in refused(one, from_reference=True)
    store(one, stored=cells()[3:])
    execute(one)
    assert "02_even: no cell is tagged `slide`" in refused(one, "slides", executed=one / "runs")
    (one / "book" / "exercises" / "02_even.yaml").unlink()
    assert "02_even.yaml is missing" in refused(one)


@pytest.mark.parametrize("form", FORMATS)
def test_a_text_that_does_not_name_what_its_check_reads_is_refused(one, form):
    silent = cells()
    silent[3].source = EXERCISES.replace("`two`", "two")
    store(one, stored=silent)
    assert "02_even, exercise 1: its check reads 'two'" in refused(one, form)


def test_a_changed_version_is_not_overwritten(one):
    path = one / "out" / "student" / "02_even.ipynb"
    made(one, "plain", "student/02_even.ipynb")
    made(one, "plain", "student/02_even.ipynb")  # the same again
    path.write_text("{}")
    assert "would be overwritten" in refused(one) and path.read_text() == "{}"


@pytest.mark.parametrize("form", FORMATS)
def test_class_versions_of_all_stored_notebooks_are_written(root, tmp_path, form):
    written = write(root, form, "", tmp_path, None, True)
    names = {path.name for path in notebooks(root)}
    for name in names:
        versions = [path for path in written if path.name == name]
        assert len(versions) == 2
        for path in versions:
            nbformat.validate(nbformat.read(path, 4))


def filled(cells, expected):
    """The cells of a student version with all variants in the place of the answers."""
    codes = {}
    for exercise, entry in expected:
        if entry.variants:
            variants = [*entry.variants.right, *entry.variants.wrong]
            codes[exercise.cell_id] = "\n".join([*variants, exercise.check])
    for cell in cells:
        cell["source"] = codes.get(cell["id"], cell["source"])


def test_stored_notebooks_as_students_get_them_name_nothing_that_a_solution_defines(root, tmp_path):
    write(root, "plain", "", tmp_path, None, False)
    students = sorted((tmp_path / "student").glob("*.ipynb"))
    assert [path.name for path in students] == [path.name for path in notebooks(root)]
    for path in students:
        student = json.loads(path.read_text(encoding="utf-8"))
        sources = ["".join(cell["source"]) for cell in student["cells"]]
        assert not any("ix.answer(" in source for source in sources), path.name
        assert any("import interextra as ix" in source for source in sources), path.name
        expected = read_entries(root, path.stem)
        assert len(expected) >= 4
        filled(student["cells"], expected)
        path.write_text(json.dumps(student), encoding="utf-8")
    options = ["--isolated", "--no-cache", "--select", "F821"]
    command = [sys.executable, "-m", "ruff", "check", *options, *students]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_students_get_no_paragraph_that_says_what_came_out(one):
    stored = cells()
    lead = "# Is it even?\n\nWe ask.\n\n<!-- result -->\nIt is even,\nby far.\n\n**Prerequisites:** none."
    stored[0].source = lead
    stored[-1].source = "## In short\n\nWe asked.\n\n<!-- result -->\nIt was even."
    store(one, stored=stored)
    found = made(one, "plain", "student/02_even.ipynb")
    assert found[0].source == "# Is it even?\n\nWe ask.\n\n**Prerequisites:** none."
    assert found[-1].source == "## In short\n\nWe asked."
    solution = nbformat.read(one / "out" / "solution" / "02_even.ipynb", 4).cells
    assert solution[0].source == lead


def test_the_sheet_has_a_row_for_each_prediction_that_the_chosen_notebooks_ask_for(one):
    asked = text("## Data\n\n**Predict before you run:** is it\neven?\n\nThen run.")
    store(one, "03_odd", [*cells()[:3], asked, *cells()[3:]])
    write(one, "plain", "", one / "out", None, False)
    sheet = (one / "out" / "predictions.md").read_text(encoding="utf-8")
    rows = [line for line in sheet.splitlines() if line.startswith("|")]
    assert rows[2:] == ["| 03 | Is it even? |  |  |"]
    write(one, "plain", "02", one / "out", None, False)  # beside the other sheet
    assert (one / "out" / "predictions_02.md").is_file()
