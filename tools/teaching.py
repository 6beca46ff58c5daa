"""Write versions of the stored notebooks for a class.

For students, with solutions, as sources of nbgrader and of otter-grader, and as slides. Exercises
are the numbered list under the heading Exercises; the k-th code cell tagged `solution` answers
exercise k, together with those after it that are tagged `continued`, too. Cells tagged
`instructor`, and texts tagged `solution`, are for teachers; cells tagged `slide` make the slides.
"""

import ast
import json
import re
import symtable
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from interextra.site.parameters import BASE
from interextra.site.repository import notebooks
from interextra.site.travel import CELLS, REFERENCE
from interextra.store.errors import InputError, offenders
from interextra.store.files import write_aside

POINTS = 2
STUB = "# Write your answer here."
CONFIG = f"""c = get_config()
c.ClearSolutions.code_stub = {{"python": "{STUB}"}}
c.Execute.timeout = 7200  # seconds
"""
FORMATS = {  # what holds a solution and what holds its checks; a grader takes out what is marked
    "plain": (STUB, ""),
    "nbgrader": (
        "### BEGIN SOLUTION\n{}\n### END SOLUTION",
        "### BEGIN HIDDEN TESTS\n{}\n### END HIDDEN TESTS",
    ),
    "otter": ("# BEGIN SOLUTION\n{}\n# END SOLUTION", "# HIDDEN\n{}"),
}
IN_WORDS = ("*Predict", "*True")  # beginnings of exercises that are answered in words
# in place of {}: the folder of a notebook in the reference
FROM_REFERENCE = """import os

from interextra.site.repository import repository_root

os.environ["INTEREXTRA_REFERENCE"] = str(repository_root() / "{}")  # no training"""
# after a notebook went to the repository's root
TO_ITS_FOLDER = "import os\n\nos.chdir(_dh[0])  # otter looks for its tests here"

Cell = dict[str, Any]  # of a notebook in JSON


class Solution(NamedTuple):
    """A solution without its checks, the checks, and the names of the solution that they read."""

    answer: str
    checks: str
    read: list[str]


def write(
    root: Path, form: str, only: str, out: Path, executed: Path, from_reference: bool
) -> list[Path]:
    """Write the versions of the chosen notebooks under `out`, all or none, and return their paths.

    Parameters
    ----------
    root : the repository.
    form : of FORMATS, or "slides".
    only : numbers or names of notebooks, with commas between them; "" for all.
    out : a folder.
    executed : folder of a run, for the slides.
    from_reference : whether the notebooks begin from the committed values, without training.

    Raises
    ------
    InputError
        A notebook or its values are missing or wrong, or another file would be overwritten.
    """
    files = {}
    if form == "nbgrader":
        files[out / "nbgrader_config.py"] = CONFIG
    for stored in notebooks(root, only):
        name = stored.stem
        path = executed / name / stored.name if form == "slides" else stored
        values = REFERENCE / BASE / name
        _refuse_missing(name, [path, root / values / CELLS] if from_reference else [path])
        notebook = json.loads(path.read_text(encoding="utf-8"))
        if from_reference:
            source = FROM_REFERENCE.format(values.as_posix())
            notebook["cells"].insert(1, _code("from-reference", source))
        for place, cells in _versions(notebook["cells"], name, form).items():
            version = notebook | {"cells": cells}
            files[out / place] = json.dumps(version, indent=1, ensure_ascii=False) + "\n"
    _refuse_overwriting(files)
    for path, text in files.items():
        with write_aside(path) as aside:
            aside.write_text(text, encoding="utf-8")
    return list(files)


def _refuse_missing(name: str, paths: Iterable[Path]) -> None:
    """Refuse a notebook some of whose files are not there."""
    missing = [str(path) for path in paths if not path.is_file()]
    if missing:
        raise InputError(
            f"{offenders(missing)} is missing: run {name} first; --executed names the folder of "
            "a run"
        )


def _refuse_overwriting(files: dict[Path, str]) -> None:
    """Refuse files that are there with another text."""
    changed = [
        str(path)
        for path, text in files.items()
        if path.exists() and path.read_text(encoding="utf-8") != text
    ]
    if changed:
        raise InputError(
            f"{offenders(changed)} would be overwritten: move it away, or name another folder "
            "(--out)"
        )


def exercises(cells: list[Cell]) -> list[str]:
    """Return the texts of the exercises of a notebook."""
    texts = [
        _source(cell)
        for cell in cells
        if cell["cell_type"] == "markdown" and "solution" not in _tags(cell)
    ]
    section = re.search(r"^##+ .*Exercises(.*?)(?=^##|\Z)", "\n\n".join(texts), re.M | re.S)
    if section is None:
        return []
    items = re.findall(r"^\d+\. (.*?)(?=\n\d+\. |\n\n|\Z)", section[1], re.M | re.S)
    return [" ".join(item.split()) for item in items]


def _source(cell: Cell) -> str:
    """Return the source of a cell, which is stored in lines."""
    return "".join(cell["source"])


def _tags(cell: Cell) -> set[str]:
    """Return the tags of a cell."""
    return set(cell["metadata"].get("tags", []))


def _code(cell_id: str, source: str) -> Cell:
    """Return a code cell."""
    return _cell("code", cell_id, source) | {"execution_count": None, "outputs": []}


def _cell(kind: str, cell_id: str, source: str) -> Cell:
    """Return a cell of a kind, as it is stored."""
    return {"cell_type": kind, "id": cell_id, "metadata": {}, "source": source}


def _versions(cells: list[Cell], name: str, form: str) -> dict[str, list[Cell]]:
    """Return the versions of a notebook: place of a file → its cells."""
    if form == "slides":
        return {f"{name}.ipynb": _slides(cells, name)}
    questions = _questions(cells, name, form)
    for cell in cells:
        cell["metadata"].pop("jupyter", None)  # a stored notebook hides its solutions
    folder = "student" if form == "plain" else f"source/{name}"
    return {
        f"{folder}/{name}.ipynb": _for_students(cells, questions, form),
        f"solution/{name}.ipynb": cells,
    }


def _slides(cells: list[Cell], name: str) -> list[Cell]:
    """Return the slides of a notebook.

    A text begins a slide; the first code after it stays on it, further code goes below it.
    """
    shown = [cell for cell in cells if "slide" in _tags(cell)]
    if not shown:
        raise InputError(f"{name}: no cell is tagged `slide`")
    kind_before = "markdown"
    for cell in shown:
        kind = cell["cell_type"]
        if kind == "markdown":
            slide_type = "slide"
        elif kind_before == "code":
            slide_type = "subslide"
        else:
            slide_type = "-"
        cell["metadata"]["slideshow"] = {"slide_type": slide_type}
        kind_before = kind
    shown[0]["source"] = _source(shown[0]).split("\n")[0]  # the title alone
    return shown


def _for_students(cells: list[Cell], questions: dict[str, list[Cell]], form: str) -> list[Cell]:
    """Return the cells of a notebook with questions in the place of solutions."""
    kept = []
    for cell in cells:
        if cell["id"] in questions:
            kept += questions[cell["id"]]
        elif not _tags(cell) & {"solution", "instructor"}:
            kept.append(cell)
        if form == "otter" and "ix.start(" in _source(cell):
            kept.append(_code("folder", TO_ITS_FOLDER))
    return kept


def _questions(cells: list[Cell], name: str, form: str) -> dict[str, list[Cell]]:
    """Return id of the first cell of a solution → the cells that ask for it."""
    texts = exercises(cells)
    sources = _sources_of_solutions(cells)
    if not texts or len(texts) != len(sources):
        raise InputError(
            f"{name}: {len(texts)} exercises, {len(sources)} solutions; tag further ones "
            "`continued`, too"
        )
    questions = {}
    for number, cell_id in enumerate(sources, 1):
        text = texts[number - 1]
        questions[cell_id] = _question(number, text, cell_id, sources[cell_id], form)
    return questions


def _sources_of_solutions(cells: list[Cell]) -> dict[str, str]:
    """Return id of the first cell of a solution → the source of all its cells."""
    parts: dict[str, list[str]] = {}
    first = ""
    for cell in cells:
        if cell["cell_type"] != "code" or "solution" not in _tags(cell):
            continue
        if "continued" not in _tags(cell):
            first = cell["id"]
        parts.setdefault(first, []).append(_source(cell))
    return {cell_id: "\n\n".join(sources).strip() for cell_id, sources in parts.items()}


def _question(number: int, text: str, cell_id: str, source: str, form: str) -> list[Cell]:
    """Return the cells of an exercise; none checks an answer in words."""
    if form == "plain" or text.startswith(IN_WORDS):
        solution = Solution(source, "", [])
    else:
        solution = _without_checks(source)
    task = f"Exercise {number}. {text.replace('*', '')}"
    if solution.read:
        task += f" The check reads {', '.join(solution.read)}."
    comment = textwrap.fill(task, 100, initial_indent="# ", subsequent_indent="# ")
    answer_mark, check_mark = FORMATS[form]
    cells = [_code(cell_id, f"{comment}\n{answer_mark.format(solution.answer)}")]
    if solution.checks:
        cells.append(_code(f"{cell_id}-check", check_mark.format(solution.checks)))
    if form == "nbgrader":
        _grade(cells, number)
    if form == "otter":
        return _between_marks(cells, number, cell_id)
    return cells


def _without_checks(source: str) -> Solution:
    """Take the checks out of a solution: asserts that read what it names, and name nothing."""
    symbols = symtable.symtable(source, "", "exec").get_symbols()
    named = {symbol.get_name() for symbol in symbols if symbol.is_assigned()}
    answer: list[str] = []
    checks: list[str] = []
    read: set[str] = set()
    lines = source.split("\n")
    n_done = 0
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assert) or ":=" in ast.unparse(node):
            continue
        names = named & {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        if names:
            answer += lines[n_done : node.lineno - 1]
            checks += lines[node.lineno - 1 : node.end_lineno]
            n_done = node.end_lineno
            read |= names
    answer += lines[n_done:]
    return Solution("\n".join(answer), "\n".join(checks), sorted(read))


def _grade(cells: list[Cell], number: int) -> None:
    """Mark the answer to an exercise, and its check if there is one, for nbgrader."""
    for index, cell in enumerate(cells):
        is_check = index == 1
        grade_id = f"exercise-{number}"
        cell["metadata"]["nbgrader"] = {
            "points": POINTS / len(cells),
            "grade": True,
            "solution": not is_check,
            "locked": is_check,
            "task": False,
            "grade_id": f"{grade_id}-check" if is_check else grade_id,
            "schema_version": 3,
        }


def _between_marks(cells: list[Cell], number: int, cell_id: str) -> list[Cell]:
    """Return the answer to an exercise, and its check, between the raw cells of otter."""
    answer, *checks = cells
    is_manual = str(not checks).lower()
    begin = f"# BEGIN QUESTION\nname: exercise_{number}\npoints: {POINTS}\nmanual: {is_manual}"
    parts = [begin, "# BEGIN SOLUTION", answer, "# END SOLUTION"]
    if checks:
        parts += ["# BEGIN TESTS", *checks, "# END TESTS"]
    parts.append("# END QUESTION")
    marked = []
    for index, part in enumerate(parts):
        is_mark = isinstance(part, str)
        marked.append(_cell("raw", f"{cell_id}-{index}", part) if is_mark else part)
    return marked
