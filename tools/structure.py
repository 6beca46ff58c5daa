"""Rules that every stored notebook keeps, each checked by one function that returns what is wrong.

`make check` also looks whether finished results are undamaged.
"""

import ast
import dis
import json
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from interextra.site.parameters import cell_of
from interextra.site.repository import notebooks, repository_root
from interextra.store.errors import InputError
from interextra.store.files import seal_problem
from interextra.store.folders import Store

MEDIAN_LINES, USUAL_LINES, USUAL_SHARE, MAX_LINES = 7, 15, 0.9, 30
HEADINGS = ("Worked example", "Where it can go wrong", "Exercises", "In short")
RESULT_NUMBER = re.compile(r"(?<![\w.])[01]?\.\d{2,}(?!\w)")
SOURCE_NAMED = re.compile(r"Zhan|Lupart|Hofstätter|[Pp]aper|[Pp]ublished|Table|e\.g\.")
NEXT = re.compile(r"\*\*Next:\*\* \[`\w+`\]\((\w+\.ipynb)\)")
SUPPRESSED = re.compile(r"#\s*(fmt:\s*(?:skip|off)|noqa)")


def _sources(cells: list[dict], kind: str) -> list[str]:
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


def _tagged(cells: list[dict], tag: str) -> list[dict]:
    return [cell for cell in cells if tag in cell["metadata"].get("tags", [])]


def stored_outputs(cells: list[dict], path: Path) -> Iterator[str]:
    for index, cell in enumerate(cells):
        if cell.get("outputs") or cell.get("execution_count"):
            yield f"cell {index} is stored with outputs: strip them"


def parameters_cell(cells: list[dict], path: Path) -> Iterator[str]:
    """Each parameter is one line, `name: type = literal  # meaning`, as papermill reads it."""
    try:
        cell_of(path)
    except InputError as error:
        yield str(error)
        return
    for line in "".join(_tagged(cells, "parameters")[0]["source"]).split("\n"):
        name = line.split(":")[0]
        if not line.partition("#")[2].strip():
            yield f"parameter {name!r} has no comment that says what it means"
        if line.count("=") > 1:  # papermill gives up on it with a warning
            yield f"more than one `=` in the parameter line {name!r}"


def length_of_cells(cells: list[dict], path: Path) -> Iterator[str]:
    """Lines that are not blank; the parameters cell is as long as there are parameters."""
    sources = _sources([cell for cell in cells if cell not in _tagged(cells, "parameters")], "code")
    lines = [sum(bool(line.strip()) for line in source.split("\n")) for source in sources] or [0]
    if max(lines) > MAX_LINES:
        yield f"a code cell has {max(lines)} lines, at most {MAX_LINES}"
    if sum(n <= USUAL_LINES for n in lines) < USUAL_SHARE * len(lines):
        yield f"over {1 - USUAL_SHARE:.0%} of the code cells have more than {USUAL_LINES} lines"
    if (median := statistics.median(lines)) > MEDIAN_LINES:
        yield f"code cells have a median of {median:g} lines, at most {MEDIAN_LINES}"


def checks_kept(cells: list[dict], path: Path) -> Iterator[str]:
    for found in map(SUPPRESSED.search, _sources(cells, "code")):
        if found:
            yield f"`{found[1]}` switches a check off: rewrite the line"


def names_of_functions(cells: list[dict], path: Path) -> Iterator[str]:
    """What a cell of another profile names anew, a later cell would call."""
    tree = ast.parse("\n".join(_sources(cells, "code")))
    stored = [
        made.argval
        for made in dis.get_instructions(compile(tree, path.name, "exec"))
        if "STORE" in made.opname
    ]
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    yield from (
        f"{name!r} is a function, and named anew" for name in functions if Counter(stored)[name] > 1
    )


def ids_of_cells(cells: list[dict], path: Path) -> Iterator[str]:
    ids = [cell.get("id") for cell in cells]
    if None in ids or len(set(ids)) != len(ids):
        yield "cell ids are missing or not unique"


def title(cells: list[dict], path: Path) -> Iterator[str]:
    first = (
        "".join(cells[0]["source"]).split("\n")[0]
        if cells and cells[0]["cell_type"] == "markdown"
        else ""
    )
    if not (first.startswith("# ") and first.rstrip().endswith("?")):
        yield "the first cell must be a title that asks a question (`# …?`)"


def answer_box(cells: list[dict], path: Path) -> Iterator[str]:
    """The second cell shows the answer of the notebook, a later one notes it."""
    code, box = (
        "\n".join(_sources(cells, "code")),
        f'import interextra as ix\n\nix.answer("{path.stem}")',
    )
    if "".join(cells[1]["source"]) != box or cells[1] not in _tagged(cells, "answer"):
        yield f"the second cell must be tagged `answer` and be: {box!r}"
    if "nb.answer(" not in code:
        yield "no cell notes the answer (`nb.answer(…)`)"
    if code.count("import interextra as ix") != 1:
        yield "`import interextra as ix` must stand once, in the second cell"


def headings(cells: list[dict], path: Path) -> Iterator[str]:
    text = "\n".join(_sources(cells, "markdown"))
    yield from (
        f"no heading with {name!r}"
        for name in HEADINGS
        if not re.search(rf"^##+ .*{name}", text, re.M)
    )


def provenance_last(cells: list[dict], path: Path) -> Iterator[str]:
    if "nb.finish()" not in (_sources(cells, "code") or [""])[-1]:
        yield "the last code cell must record the provenance (`nb.finish()`)"


def numbers_in_prose(cells: list[dict], path: Path) -> Iterator[str]:
    for source in _sources(cells, "markdown"):
        for line in source.split("\n"):
            found = RESULT_NUMBER.search(line)
            if found and not SOURCE_NAMED.search(line):
                yield f"the number {found[0]} stands in the text without a source: print it from a code cell"


def solutions(cells: list[dict], path: Path) -> Iterator[str]:
    asked = [
        source
        for source in _sources(cells, "markdown")
        if re.search(r"^##+ .*Exercises", source, re.M)
    ]
    exercises, solved = (
        len(re.findall(r"^\d+\. ", "\n".join(asked), re.M)),
        _tagged(cells, "solution"),
    )
    if len(solved) < exercises:
        yield f"{exercises} exercises, but {len(solved)} code cells tagged `solution`"
    if not all(cell["metadata"].get("jupyter", {}).get("source_hidden") for cell in solved):
        yield "a solution stands in the open: set jupyter.source_hidden in the metadata of its cell"


def next_notebook(cells: list[dict], path: Path) -> Iterator[str]:
    """The last notebook has none."""
    there = {other.name for other in path.parent.glob("*.ipynb")}
    linked = NEXT.findall("\n".join(_sources(cells, "markdown")))
    if path.name != max(there) and not (linked and set(linked) <= there):
        yield "no link to the next notebook: **Next:** [`NAME`](NAME.ipynb), to a notebook that exists"


RULES = (
    stored_outputs,
    parameters_cell,
    length_of_cells,
    checks_kept,
    names_of_functions,
    ids_of_cells,
    title,
    answer_box,
    headings,
    provenance_last,
    numbers_in_prose,
    solutions,
    next_notebook,
)


def problems(path: Path) -> list[str]:
    """Everything that is wrong with a stored notebook, a line each; empty when nothing is."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [f"{path.name}: {line}" for rule in RULES for line in rule(cells, path)]


def damaged_results(store: Store) -> Iterator[str]:
    """Of the planned ones that are there."""
    there = (path for cell in store.planned() if (path := store.path(cell)).is_dir())
    yield from (f"{path.name}: {problem}" for path in there if (problem := seal_problem(path)))


if __name__ == "__main__":
    top = repository_root()
    stored = notebooks(top)
    wrong = [line for path in stored for line in problems(path)]
    wrong += damaged_results(Store(top / "outputs" / "cells"))
    print(
        "\n".join(wrong) or f"{len(stored)} stored notebooks and the results on disk: nothing wrong"
    )
    sys.exit(1 if wrong else 0)
