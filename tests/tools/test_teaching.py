"""Versions for a class: what students get holds no solution, runs without them, and is what the
graders read.
"""

import json
import subprocess
import sys

import nbformat
import pytest

from interextra.site.repository import notebooks
from interextra.store.errors import InputError
from tools.teaching import STUB, exercises, write

code, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
EXERCISES = """## Exercises

1. *Write:* twice
   one.
2. *True or false:* it is odd.
3. *Look:* at half of it.

No exercise.
3 apples.
"""
CHECKED = """two = 1 + 1
assert two == 2
assert (
    two % 2 == 0
)
print([x for x in (two,)])"""


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
        tagged(text("Ask the class first."), "instructor"),
        text("## In short\n\n1. no exercise"),
    ]


@pytest.fixture
def one(tmp_path):
    """A repository with one notebook."""
    (tmp_path / "notebooks").mkdir()
    nbformat.write(
        nbformat.v4.new_notebook(cells=cells()), tmp_path / "notebooks" / "02_even.ipynb"
    )
    return tmp_path


def made(root, form, place, **options):
    options = {"executed": root / "runs", "from_reference": False} | options
    assert root / "out" / place in write(root, form, "", root / "out", **options)
    notebook = nbformat.read(root / "out" / place, 4)
    nbformat.validate(notebook)
    return notebook.cells


def test_student_version_asks_and_holds_no_solution_and_nothing_for_teachers(one):
    found = made(one, "plain", "student/02_even.ipynb")
    assert [cell.source for cell in found[4:7]] == [
        f"# Exercise 1. Write: twice one.\n{STUB}",
        f"# Exercise 2. True or false: it is odd.\n{STUB}",
        f"# Exercise 3. Look: at half of it.\n{STUB}",
    ]
    assert [cell.source for cell in found[:4] + found[7:]] == [
        cell.source for cell in cells()[:4] + cells()[-1:]
    ]


def test_solution_version_shows_all(one):
    found = made(one, "plain", "solution/02_even.ipynb")
    assert [cell.source for cell in found] == [cell.source for cell in cells()]
    assert not any("jupyter" in cell.metadata for cell in found)


def test_source_for_nbgrader_marks_solutions_and_checks_what_they_name(one):
    found = made(one, "nbgrader", "source/02_even/02_even.ipynb")[4:8]
    assert found[0].source == (
        "# Exercise 1. Write: twice one. The check reads two.\n"
        "### BEGIN SOLUTION\ntwo = 1 + 1\nprint([x for x in (two,)])\n\n"
        "assert [1 for x in (1,)] and (four := 2 * two) == 4\n### END SOLUTION"
    )
    checks = "assert two == 2\nassert (\n    two % 2 == 0\n)"
    assert found[1].source == f"### BEGIN HIDDEN TESTS\n{checks}\n### END HIDDEN TESTS"
    assert (
        "assert not odd\n### END SOLUTION" in found[2].source
    )  # who answers in words names nothing
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
    assert "c.Execute.timeout" in (one / "out" / "nbgrader_config.py").read_text()


def test_source_for_otter_puts_each_exercise_between_raw_cells(one):
    found = made(one, "otter", "source/02_even/02_even.ipynb")
    raw = [cell.source.split("\n") for cell in found if cell.cell_type == "raw"]
    assert raw[0] == ["# BEGIN QUESTION", "name: exercise_1", "points: 2", "manual: false"]
    assert raw[6] == ["# BEGIN QUESTION", "name: exercise_2", "points: 2", "manual: true"]
    solution, tests = (
        (["# BEGIN SOLUTION"], ["# END SOLUTION"]),
        (["# BEGIN TESTS"], ["# END TESTS"]),
    )
    assert raw[1:6] == [*solution, *tests, ["# END QUESTION"]] and raw[7:10] == [
        *solution,
        ["# END QUESTION"],
    ]
    assert [cell.source for cell in found if cell.source.startswith("# HIDDEN\nassert two == 2\n")]
    assert (
        "os.chdir(_dh[0])" in found[2].source
    )  # after the notebook went to the root of the repository


def test_slides_begin_with_a_text_and_keep_the_outputs(one):
    stored = nbformat.read(one / "notebooks" / "02_even.ipynb", 4)
    stored.cells[1]["outputs"] = [nbformat.v4.new_output("stream", text="1")]
    (one / "runs" / "02_even").mkdir(parents=True)
    nbformat.write(stored, one / "runs" / "02_even" / "02_even.ipynb")
    found = made(one, "slides", "02_even.ipynb")
    assert [cell.metadata["slideshow"]["slide_type"] for cell in found] == [
        "slide",
        "-",
        "subslide",
    ]
    assert found[0].source == "# Is it even?" and found[1]["outputs"][0]["text"] == "1"


def test_version_from_the_reference_says_so_after_its_title(one):
    values = one / "outputs" / "reference" / "mini" / "02_even"
    values.mkdir(parents=True)
    (values / "cells.zip").touch()
    found = made(one, "plain", "student/02_even.ipynb", from_reference=True)
    assert found[0].source == "# Is it even?\n\nWe ask."
    assert '= str(repository_root() / "outputs/reference/mini/02_even")' in found[1].source


def refused(root, form="plain", **options):
    with pytest.raises(InputError) as error:
        made(root, form, "", **options)
    assert not (root / "out" / "student" / "03_odd.ipynb").exists()
    return str(error.value)


def test_one_wrong_notebook_and_nothing_is_written(one):
    nbformat.write(nbformat.v4.new_notebook(cells=cells()[:6]), one / "notebooks" / "03_odd.ipynb")
    assert "03_odd: 3 exercises, 1 solutions; tag further ones" in refused(one)
    assert not (one / "out").exists()


def test_what_is_missing_is_named(one):
    assert "runs/02_even/02_even.ipynb' is missing" in refused(one, "slides")
    assert "mini/02_even/cells.zip' is missing" in refused(one, from_reference=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells()[3:]), one / "notebooks" / "02_even.ipynb")
    (one / "runs" / "02_even").mkdir(parents=True)
    (one / "notebooks" / "02_even.ipynb").rename(one / "runs" / "02_even" / "02_even.ipynb")
    (one / "notebooks" / "02_even.ipynb").touch()
    assert "02_even: no cell is tagged `slide`" in refused(one, "slides")


def test_a_changed_version_is_not_overwritten(one):
    path = one / "out" / "student" / "02_even.ipynb"
    made(one, "plain", "student/02_even.ipynb")
    made(one, "plain", "student/02_even.ipynb")  # the same again
    path.write_text("{}")
    assert "would be overwritten" in refused(one) and path.read_text() == "{}"


def test_stored_notebooks_as_students_get_them_name_nothing_that_a_solution_defines(house):
    write(house, "plain", "", house / "class", house, False)
    students = sorted((house / "class" / "student").glob("*.ipynb"))
    assert [path.name for path in students] == [path.name for path in notebooks(house)]
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--no-cache",
        "--select",
        "F821",
        *students,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for path in notebooks(house):
        stored = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert len(exercises(stored)) >= 4
    for path in students:
        sources = [cell["source"] for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
        assert not any("ix.answer(" in "".join(source) for source in sources), path.name
        assert any("import interextra as ix" in "".join(source) for source in sources), path.name
