"""One bad notebook for each rule; the stored notebooks keep all of them."""

import copy
import json

import nbformat
import pytest

from interextra.study.params import notebooks
from interextra.study.structure import problems

code, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell


def good():
    headings = ["## By hand", "## Where it can go wrong", "## Exercises", "## In short"]
    cells = [text("# Does it hold?"), code("n: int = 3  # queries", metadata={"tags": ["parameters"]})]
    cells += [cell for heading in headings for cell in (text(heading), code("n + 1"))]
    cells += [text(f"Then step {number}.") for number in range(6)] + [code("nb.finish()")]
    return json.loads(nbformat.writes(nbformat.v4.new_notebook(cells=cells)))


def spoiled(change):
    document = copy.deepcopy(good())
    change(document["cells"])
    return document


def stored_output(cells):
    cells[1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["3"]}]


BAD = {
    "stored with outputs": stored_output,
    "exactly one cell tagged": lambda cells: cells[1]["metadata"].clear(),
    "no comment": lambda cells: cells[1].update(source="n: int = 3"),
    "write `name: type = literal`": lambda cells: cells[1].update(source="n = 3  # queries"),
    "more than one `=`": lambda cells: cells[1].update(source="n: int = 3  # k=3"),
    "has 30 lines": lambda cells: cells[3].update(source="\n".join(["n"] * 30)),
    "more than 12 lines": lambda cells: [c.update(source="\n".join(["n"] * 14)) for c in cells[3:8:2]],
    "cells, allowed are": lambda cells: cells.__delitem__(slice(3, 12)),
    "not unique": lambda cells: cells[3].update(id=cells[5]["id"]),
    "asks a question": lambda cells: cells[0].update(source="# It holds"),
    "no heading with 'Exercises'": lambda cells: cells[6].update(source="## Homework"),
    "must record the provenance": lambda cells: cells[-1].update(source="n"),
    "stands in the text without a source": lambda cells: cells[11].update(source="The loss is 0.123 here."),
}


@pytest.mark.parametrize("rule", BAD)
def test_each_rule_finds_its_bad_notebook(tmp_path, rule):
    path = tmp_path / "bad.ipynb"
    path.write_text(json.dumps(spoiled(BAD[rule])))
    found = problems(path)
    assert any(rule in line for line in found), found


def test_good_notebook_has_no_problems(tmp_path):
    path = tmp_path / "good.ipynb"
    path.write_text(json.dumps(good()))
    assert problems(path) == []


def test_stored_notebooks_keep_the_rules(root):
    assert [line for path in notebooks(root) for line in problems(path)] == []
