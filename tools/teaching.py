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
from pathlib import Path
from typing import NamedTuple

from interextra.site.parameters import BASE
from interextra.site.repository import notebooks
from interextra.site.travel import CELLS, REFERENCE
from interextra.store.errors import InputError, offenders
from interextra.store.files import read_json, write_text
from tools.structure import Cell, source_of, tags_of

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
SECTION = re.compile(r"^##+ .*Exercises(.*?)(?=^##|\Z)", re.M | re.S)
ITEM = re.compile(r"^\d+\. (.*?)(?=\n\d+\. |\n\n|\Z)", re.M | re.S)
# in place of {}: the folder of a notebook in the reference
FROM_REFERENCE = """import os

from interextra.site.repository import repository_root

os.environ["INTEREXTRA_REFERENCE"] = str(repository_root() / "{}")  # no training"""
# after a notebook went to the repository's root
TO_ITS_FOLDER = "import os\n\nos.chdir(_dh[0])  # otter looks for its tests here"

Cells = list[Cell]


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
        path = stored
        if form == "slides":
            path = executed / name / stored.name
        _refuse_missing(name, path)
        notebook = read_json(path)
        if from_reference:
            notebook["cells"].insert(1, _begin_from_reference(root, name))
        for place, cells in _versions(notebook["cells"], name, form).items():
            version = notebook | {"cells": cells}
            text = json.dumps(version, indent=1, ensure_ascii=False)
            files[out / place] = f"{text}\n"
    _refuse_overwriting(files)
    for path, text in files.items():
        write_text(path, text)
    return list(files)


def _begin_from_reference(root: Path, name: str) -> Cell:
    """Return the cell that lets a notebook begin from its committed values."""
    values = REFERENCE / BASE / name
    _refuse_missing(name, root / values / CELLS)
    return _code("from-reference", FROM_REFERENCE.format(values.as_posix()))


def _refuse_missing(name: str, path: Path) -> None:
    """Refuse a notebook one of whose files is not there."""
    if not path.is_file():
        raise InputError(
            f"{offenders([str(path)])} is missing: run {name} first; --executed names the folder "
            "of a run"
        )


def _refuse_overwriting(files: dict[Path, str]) -> None:
    """Refuse files that are there with another text."""
    changed = []
    for path, text in files.items():
        if path.exists() and path.read_text(encoding="utf-8") != text:
            changed.append(str(path))
    if changed:
        raise InputError(
            f"{offenders(changed)} would be overwritten: move it away, or name another folder "
            "(--out)"
        )


def exercises(cells: Cells) -> list[str]:
    """Return the texts of the exercises of a notebook."""
    texts = [cell for cell in cells if cell["cell_type"] == "markdown"]
    questions = [source_of(cell) for cell in texts if "solution" not in tags_of(cell)]
    section = SECTION.search("\n\n".join(questions))
    if section is None:
        return []
    items = ITEM.findall(section[1])
    return [" ".join(item.split()) for item in items]


def _code(cell_id: str, source: str) -> Cell:
    """Return a code cell."""
    return _cell("code", cell_id, source) | {"execution_count": None, "outputs": []}


def _cell(kind: str, cell_id: str, source: str) -> Cell:
    """Return a cell of a kind, as it is stored."""
    return {"cell_type": kind, "id": cell_id, "metadata": {}, "source": source}


def _versions(cells: Cells, name: str, form: str) -> dict[str, Cells]:
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


def _without_answer(cell: Cell) -> Cell:
    """Return the cell of the answer with its imports alone: students predict first."""
    lines = source_of(cell).splitlines()
    imports = [line for line in lines if not line.startswith("ix.answer(")]
    return cell | {"source": "\n".join(imports).strip(), "outputs": []}


def _slides(cells: Cells, name: str) -> Cells:
    """Return the slides of a notebook.

    A text begins a slide; the first code after it stays on it, further code goes below it.
    """
    shown = [cell for cell in cells if "slide" in tags_of(cell)]
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
    title, _, _ = source_of(shown[0]).partition("\n")
    shown[0]["source"] = title
    return shown


def _for_students(cells: Cells, questions: dict[str, Cells], form: str) -> Cells:
    """Return the cells of a notebook with questions in the place of solutions, and no answer."""
    kept = []
    for cell in cells:
        if cell["id"] in questions:
            kept += questions[cell["id"]]
        elif "answer" in tags_of(cell):
            kept.append(_without_answer(cell))
        elif not tags_of(cell) & {"solution", "instructor"}:
            kept.append(cell)
        if form == "otter" and "ix.start(" in source_of(cell):
            kept.append(_code("folder", TO_ITS_FOLDER))
    return kept


def _questions(cells: Cells, name: str, form: str) -> dict[str, Cells]:
    """Return id of the first cell of a solution → the cells that ask for it."""
    texts = exercises(cells)
    sources = _sources_of_solutions(cells)
    n_exercises = len(texts)
    n_solutions = len(sources)
    if not texts or n_exercises != n_solutions:
        raise InputError(
            f"{name}: {n_exercises} exercises, {n_solutions} solutions; tag further ones "
            "`continued`, too"
        )
    questions: dict[str, Cells] = {}
    for text, (cell_id, source) in zip(texts, sources.items(), strict=True):
        number = len(questions) + 1
        questions[cell_id] = _question(number, text, cell_id, source, form)
    return questions


def _sources_of_solutions(cells: Cells) -> dict[str, str]:
    """Return id of the first cell of a solution → the source of all its cells."""
    sources: dict[str, str] = {}
    first = ""
    for cell in cells:
        if cell["cell_type"] != "code" or "solution" not in tags_of(cell):
            continue
        if "continued" not in tags_of(cell):
            first = cell["id"]
        before = sources.get(first, "")
        sources[first] = f"{before}{source_of(cell)}\n\n"
    return {cell_id: source.strip() for cell_id, source in sources.items()}


def _question(number: int, text: str, cell_id: str, source: str, form: str) -> Cells:
    """Return the cells of an exercise; none checks an answer in words."""
    if form == "plain" or text.startswith(IN_WORDS):
        solution = Solution(source, "", [])
    else:
        solution = _without_checks(source)
    plain = text.replace("*", "")
    task = f"Exercise {number}. {plain}"
    if solution.read:
        task += f" The check reads {', '.join(solution.read)}."
    comment = textwrap.fill(task, 100, initial_indent="# ", subsequent_indent="# ")
    answer_mark, check_mark = FORMATS[form]
    answer = answer_mark.format(solution.answer)
    cells = [_code(cell_id, f"{comment}\n{answer}")]
    if solution.checks:
        checks = check_mark.format(solution.checks)
        cells.append(_code(f"{cell_id}-check", checks))
    if form == "nbgrader":
        _grade(cells, number)
    if form == "otter":
        return _between_marks(cells, number, cell_id)
    return cells


def _without_checks(source: str) -> Solution:
    """Take the checks out of a solution: asserts that read what it names, and name nothing."""
    assigned = _assigned(source)
    answer = source.split("\n")
    checks: list[str] = []
    read: set[str] = set()
    for node in reversed(ast.parse(source).body):
        if not isinstance(node, ast.Assert) or ":=" in ast.unparse(node):
            continue
        parts = ast.walk(node)
        used = {part.id for part in parts if isinstance(part, ast.Name)}
        names = assigned & used
        if names:
            lines = slice(node.lineno - 1, node.end_lineno)
            checks = answer[lines] + checks
            del answer[lines]
            read |= names
    return Solution("\n".join(answer), "\n".join(checks), sorted(read))


def _assigned(source: str) -> set[str]:
    """Return the names that the top level of a code assigns."""
    symbols = symtable.symtable(source, "", "exec").get_symbols()
    return {symbol.get_name() for symbol in symbols if symbol.is_assigned()}


def _grade(cells: Cells, number: int) -> None:
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


def _between_marks(cells: Cells, number: int, cell_id: str) -> Cells:
    """Return the answer to an exercise, and its check, between the raw cells of otter."""
    answer, *checks = cells
    is_manual = str(not checks).lower()
    begin = f"# BEGIN QUESTION\nname: exercise_{number}\npoints: {POINTS}\nmanual: {is_manual}"
    parts: list = [begin, "# BEGIN SOLUTION", answer, "# END SOLUTION"]
    if checks:
        parts += ["# BEGIN TESTS", *checks, "# END TESTS"]
    parts.append("# END QUESTION")
    for index, part in enumerate(parts):
        if isinstance(part, str):
            parts[index] = _cell("raw", f"{cell_id}-{index}", part)
    return parts
