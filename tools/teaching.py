"""Versions of the stored notebooks for a class: student, solution, source of nbgrader and of
otter-grader, slides.

Exercises are the numbered list under the heading Exercises; the k-th code cell tagged `solution`
answers exercise k, together with those after it that are tagged `continued`, too. Cells tagged
`instructor`, and texts tagged `solution`, are for teachers; cells tagged `slide` make the slides.
"""

import ast
import json
import re
import symtable
import textwrap
from pathlib import Path

from interextra.site.parameters import BASE
from interextra.site.repository import notebooks
from interextra.site.travel import CELLS, REFERENCE
from interextra.store.errors import InputError, offenders
from interextra.store.files import write_aside

POINTS, STUB = 2, "# Write your answer here."
CONFIG = f'c = get_config()\nc.ClearSolutions.code_stub = {{"python": "{STUB}"}}\nc.Execute.timeout = 7200  # seconds\n'
FORMATS = {  # what holds a solution and what holds its checks; a grader takes out what is marked
    "plain": (STUB, ""),
    "nbgrader": (
        "### BEGIN SOLUTION\n{}\n### END SOLUTION",
        "### BEGIN HIDDEN TESTS\n{}\n### END HIDDEN TESTS",
    ),
    "otter": ("# BEGIN SOLUTION\n{}\n# END SOLUTION", "# HIDDEN\n{}"),
}


def write(
    root: Path, form: str, only: str, out: Path, executed: Path, from_reference: bool
) -> list[Path]:
    """Write the versions of the chosen notebooks under `out`, all or none. `executed`: a run, for
    the slides.
    """
    files = {out / "nbgrader_config.py": CONFIG} if form == "nbgrader" else {}
    for path in notebooks(root, only):
        name, values = path.stem, REFERENCE / BASE / path.stem
        path = executed / name / path.name if form == "slides" else path
        if missing := [
            str(one)
            for one in [path] + [root / values / CELLS] * from_reference
            if not one.is_file()
        ]:
            raise InputError(
                f"{offenders(missing)} is missing: run {name} first; --executed names the folder of a run"
            )
        notebook = json.loads(path.read_text(encoding="utf-8"))
        take = f'os.environ["INTEREXTRA_REFERENCE"] = str(repository_root() / "{values.as_posix()}")  # no training'
        take = f"import os\n\nfrom interextra.site.repository import repository_root\n\n{take}"
        notebook["cells"][1:1] = [_cell("code", "from-reference", take)] * from_reference
        made = (
            _slides(notebook["cells"], name)
            if form == "slides"
            else _versions(notebook["cells"], name, form)
        )
        for place, cells in made.items():
            files[out / place] = (
                json.dumps(notebook | {"cells": cells}, indent=1, ensure_ascii=False) + "\n"
            )
    if there := [
        str(path)
        for path, text in files.items()
        if path.exists() and path.read_text("utf-8") != text
    ]:
        raise InputError(
            f"{offenders(there)} would be overwritten: move it away, or name another folder (--out)"
        )
    for path, text in files.items():
        with write_aside(path) as aside:
            aside.write_text(text, encoding="utf-8")
    return list(files)


def exercises(cells: list[dict]) -> list[str]:
    """The exercises of a notebook."""
    texts = [
        cell for cell in cells if cell["cell_type"] == "markdown" and "solution" not in _tags(cell)
    ]
    text = "\n\n".join("".join(cell["source"]) for cell in texts)
    under = "".join(re.findall(r"^##+ .*Exercises(.*?)(?=^##|\Z)", text, re.M | re.S)[:1])
    return [
        " ".join(one.split())
        for one in re.findall(r"^\d+\. (.*?)(?=\n\d+\. |\n\n|\Z)", under, re.M | re.S)
    ]


def _tags(cell: dict) -> set[str]:
    return set(cell["metadata"].get("tags", []))


def _cell(kind: str, name: str, source: str) -> dict:
    cell = {"cell_type": kind, "id": name, "metadata": {}, "source": source}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _slides(cells: list[dict], name: str) -> dict[str, list[dict]]:
    """A text begins a slide; the first code after it stays on it, further code goes below it."""
    shown, before = [cell for cell in cells if "slide" in _tags(cell)], "text"
    for cell in shown:
        kind = (
            "slide" if cell["cell_type"] == "markdown" else "subslide" if before == "code" else "-"
        )
        cell["metadata"]["slideshow"], before = {"slide_type": kind}, cell["cell_type"]
    if not shown:
        raise InputError(f"{name}: no cell is tagged `slide`")
    shown[0]["source"] = "".join(shown[0]["source"]).split("\n")[0]  # the title alone
    return {f"{name}.ipynb": shown}


def _versions(cells: list[dict], name: str, form: str) -> dict[str, list[dict]]:
    """Cells by the place of their file."""
    asked, answers, given, first = exercises(cells), {}, [], ""
    for cell in (
        cell for cell in cells if cell["cell_type"] == "code" and "solution" in _tags(cell)
    ):
        first = first if "continued" in _tags(cell) else cell["id"]
        answers[first] = answers.get(first, "") + "".join(cell["source"]) + "\n\n"
    if not asked or len(asked) != len(answers):
        raise InputError(
            f"{name}: {len(asked)} exercises, {len(answers)} solutions; tag further ones `continued`, too"
        )
    made = {
        key: _question(at, asked[at - 1], key, answers[key].strip(), form)
        for at, key in enumerate(answers, 1)
    }
    for cell in cells:
        cell["metadata"].pop("jupyter", None)  # a stored notebook hides its solutions
        given += made.get(cell["id"], [] if {"solution", "instructor"} & _tags(cell) else [cell])
        if form == "otter" and "ix.start(" in "".join(
            cell["source"]
        ):  # which goes to the repository's root
            given.append(
                _cell(
                    "code",
                    "folder",
                    "import os\n\nos.chdir(_dh[0])  # otter looks for its tests here",
                )
            )
    place = f"student/{name}.ipynb" if form == "plain" else f"source/{name}/{name}.ipynb"
    return {place: given, f"solution/{name}.ipynb": cells}


def _question(number: int, text: str, name: str, source: str, form: str) -> list[dict]:
    """Cells of an exercise. Asserts that read what its solution names become a check; none where
    words answer.
    """
    lines, checks, read, in_words = (
        source.split("\n"),
        [],
        set(),
        text.startswith(("*Predict", "*True")),
    )
    named = {
        one.get_name()
        for one in symtable.symtable(source, "", "exec").get_symbols()
        if one.is_assigned()
    }
    for node in reversed([] if in_words or form == "plain" else ast.parse(source).body):
        names = named & {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        if (
            isinstance(node, ast.Assert) and names and ":=" not in ast.unparse(node)
        ):  # a check names nothing
            checks[:0], read = lines[node.lineno - 1 : node.end_lineno], read | names
            del lines[node.lineno - 1 : node.end_lineno]
    task = (
        f"Exercise {number}. {text.replace('*', '')}"
        + f" The check reads {', '.join(sorted(read))}." * bool(read)
    )
    task = textwrap.fill(task, 100, initial_indent="# ", subsequent_indent="# ")
    answer, check = (
        mark.format("\n".join(part))
        for mark, part in zip(FORMATS[form], (lines, checks), strict=True)
    )
    cells = [_cell("code", name, f"{task}\n{answer}"), _cell("code", f"{name}-check", check)][
        : 1 + bool(checks)
    ]
    for at, cell in enumerate(cells if form == "nbgrader" else []):
        graded = {
            "points": POINTS / len(cells),
            "grade": True,
            "solution": at == 0,
            "locked": at == 1,
            "task": False,
        }
        cell["metadata"]["nbgrader"] = graded | {
            "grade_id": f"exercise-{number}" + "-check" * at,
            "schema_version": 3,
        }
    if form == "otter":
        begin = f"# BEGIN QUESTION\nname: exercise_{number}\npoints: {POINTS}\nmanual: {str(not checks).lower()}"
        parts = [
            begin,
            "# BEGIN SOLUTION",
            cells[0],
            "# END SOLUTION",
            "# BEGIN TESTS",
            cells[-1],
            "# END TESTS",
        ]
        parts = [*(parts if checks else parts[:4]), "# END QUESTION"]
        cells = [
            one if isinstance(one, dict) else _cell("raw", f"{name}-{at}", one)
            for at, one in enumerate(parts)
        ]
    return cells
