"""One bad notebook for each rule; the stored notebooks keep all of them."""

import copy
import json

import nbformat
import pytest

from interextra.site.repository import notebooks
from tools.structure import problems, source_of

code, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell


def good():
    headings = [
        "## Worked example",
        "## Where it can go wrong",
        "## Exercises\n\n1. *Predict:* n\n2. *Write:* n",
        "## In short",
    ]
    parameters = "\n".join(f"n{at}: int = 3  # queries" for at in range(30))
    answer = code('import interextra as ix\n\nix.answer("bad")', metadata={"tags": ["answer"]})
    cells = [text("# Does it hold?"), answer, code(parameters, metadata={"tags": ["parameters"]})]
    cells += [cell for heading in headings for cell in (text(heading), code("n + 1"))]
    folded = {"tags": ["solution"], "jupyter": {"source_hidden": True}}
    cells += [code("n", metadata=copy.deepcopy(folded)) for _ in range(2)]
    cells += [text("**Next:** [`other`](other.ipynb)"), code('nb.answer("yes")\nnb.finish()')]
    kernel = {
        "kernelspec": {"name": "python3", "display_name": "Python"},
        "language_info": {"name": "python"},
    }
    document = nbformat.v4.new_notebook(cells=cells, metadata=kernel)
    return json.loads(nbformat.writes(document))


def n_words(cells):
    texts = [source_of(cell) for cell in cells if cell["cell_type"] == "markdown"]
    return sum(len(text.split()) for text in texts)


def spoiled(change):
    document = copy.deepcopy(good())
    change(document["cells"])
    return document


def test_notebook_that_names_no_kernel(tmp_path):
    document = good()
    document["metadata"].clear()
    (tmp_path / "bad.ipynb").write_text(json.dumps(document))
    assert "lack kernelspec" in problems(tmp_path / "bad.ipynb")[0]


def stored_output(cells):
    cells[2]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["3"]}]


BAD = {
    "stored with outputs": stored_output,
    "exactly one cell tagged": lambda cells: cells[2]["metadata"].clear(),
    "no comment": lambda cells: cells[2].update(source="n: int = 3"),
    "write `name: type = literal`": lambda cells: cells[2].update(source="n = 3  # queries"),
    "more than one `=`": lambda cells: cells[2].update(source="n: int = 3  # k=3"),
    "has 31 lines": lambda cells: cells[4].update(source="\n".join(["n"] * 31)),
    "more than 15 lines": lambda cells: cells[4].update(source="\n".join(["n"] * 16)),
    "a median of 8 lines": lambda cells: [
        cell.update(source="\n".join("nnnnnnnn")) for cell in cells[4:13:2] + cells[11:12]
    ],
    "46 cells, at most 45": lambda cells: cells.extend(
        code("n", id=f"more-{at}") for at in range(46 - len(cells))
    ),
    "1,501 words, at most 1,500": lambda cells: cells[3].update(
        source=source_of(cells[3]) + " word" * (1501 - n_words(cells))
    ),
    "`noqa` switches a check off": lambda cells: cells[4].update(source="import os  # noqa: F401"),
    "`fmt: skip` switches a check off": lambda cells: cells[4].update(source="n  # fmt: skip"),
    "'n' is a function, and named anew": lambda cells: cells[4].update(
        source="def n():\n    n = 1\n\n\nn = 2"
    ),
    "not unique": lambda cells: cells[4].update(id=cells[6]["id"]),
    "asks a question": lambda cells: cells[0].update(source="# It holds"),
    "the second cell must be tagged `answer`": lambda cells: cells[1]["metadata"].clear(),
    'ix.answer("bad")': lambda cells: cells[1].update(
        source='import interextra as ix\n\nix.answer("other")'
    ),
    "no cell notes the answer": lambda cells: cells[-1].update(source="nb.finish()"),
    "must stand once": lambda cells: cells[4].update(source="import interextra as ix"),
    "no heading with 'Exercises'": lambda cells: cells[7].update(source="## Homework"),
    "must record the provenance": lambda cells: cells[-1].update(source="n"),
    "stands in the text without a source": lambda cells: cells[9].update(
        source="## In short\nThe loss is 0.123."
    ),
    "2 exercises, but 1 code cells": lambda cells: cells[11]["metadata"].clear(),
    "stands in the open": lambda cells: cells[11]["metadata"].pop("jupyter"),
    "no link to the next notebook": lambda cells: cells[13].update(
        source="**Next:** [`gone`](gone.ipynb)"
    ),
}


@pytest.fixture
def bad(tmp_path):
    (tmp_path / "other.ipynb").touch()
    return tmp_path / "bad.ipynb"


@pytest.mark.parametrize("rule", BAD)
def test_each_rule_finds_its_bad_notebook(bad, rule):
    bad.write_text(json.dumps(spoiled(BAD[rule])))
    found = problems(bad)
    assert any(rule in line for line in found), found


def test_good_notebook_has_no_problems(bad):
    bad.write_text(json.dumps(good()))
    assert problems(bad) == []


def test_last_notebook_needs_no_next_one(bad):
    (bad.parent / "other.ipynb").unlink()
    bad.write_text(json.dumps(spoiled(lambda cells: cells[13].update(source="The end."))))
    assert problems(bad) == []


def test_stored_notebooks_keep_the_rules(root):
    assert [line for path in notebooks(root) for line in problems(path)] == []
