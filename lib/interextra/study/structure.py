"""Rules that every stored notebook keeps, each checked by one function that returns what is wrong."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from interextra.ground.errors import InputError
from interextra.study.params import declared_parameters

MAX_LINES, USUAL_LINES, USUAL_SHARE = 25, 12, 0.9
CELLS = range(15, 46)
HEADINGS = ("By hand", "Where it can go wrong", "Exercises", "In short")
RESULT_NUMBER = re.compile(r"(?<![\w.])[01]?\.\d{2,}(?!\w)")
SOURCE_NAMED = re.compile(r"Zhan|Lupart|Hofstätter|[Pp]aper|[Pp]ublished|Table|e\.g\.")


def _sources(cells: list[dict], kind: str) -> list[str]:
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


def stored_outputs(cells: list[dict], path: Path) -> Iterator[str]:
    for index, cell in enumerate(cells):
        if cell.get("outputs") or cell.get("execution_count"):
            yield f"cell {index} is stored with outputs: strip them"


def parameters_cell(cells: list[dict], path: Path) -> Iterator[str]:
    try:
        silent = [p.name for p in declared_parameters(path).values() if not p.meaning]
    except InputError as error:
        yield str(error)
    else:
        yield from (f"parameter {name!r} has no comment that says what it means" for name in silent)
        tagged = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
        for line in "".join(tagged[0]["source"]).split("\n"):
            if line.count("=") > 1:  # papermill gives up on it with a warning
                yield f"more than one `=` in the parameter line {line.split(':')[0]!r}"


def length_of_cells(cells: list[dict], path: Path) -> Iterator[str]:
    lines = [sum(bool(line.strip()) for line in source.split("\n")) for source in _sources(cells, "code")]
    if lines and max(lines) > MAX_LINES:
        yield f"a code cell has {max(lines)} lines, at most {MAX_LINES}"
    if lines and sum(n <= USUAL_LINES for n in lines) < USUAL_SHARE * len(lines):
        yield f"over {1 - USUAL_SHARE:.0%} of the code cells have more than {USUAL_LINES} lines"


def number_of_cells(cells: list[dict], path: Path) -> Iterator[str]:
    if len(cells) not in CELLS:
        yield f"{len(cells)} cells, allowed are {CELLS.start} to {CELLS.stop - 1}"


def ids_of_cells(cells: list[dict], path: Path) -> Iterator[str]:
    ids = [cell.get("id") for cell in cells]
    if None in ids or len(set(ids)) != len(ids):
        yield "cell ids are missing or not unique"


def title(cells: list[dict], path: Path) -> Iterator[str]:
    first = "".join(cells[0]["source"]).split("\n")[0] if cells and cells[0]["cell_type"] == "markdown" else ""
    if not (first.startswith("# ") and first.rstrip().endswith("?")):
        yield "the first cell must be a title that asks a question (`# …?`)"


def headings(cells: list[dict], path: Path) -> Iterator[str]:
    text = "\n".join(_sources(cells, "markdown"))
    yield from (f"no heading with {name!r}" for name in HEADINGS if not re.search(rf"^##+ .*{name}", text, re.M))


def provenance_last(cells: list[dict], path: Path) -> Iterator[str]:
    if "nb.finish()" not in (_sources(cells, "code") or [""])[-1]:
        yield "the last code cell must record the provenance (`nb.finish()`)"


def numbers_in_prose(cells: list[dict], path: Path) -> Iterator[str]:
    for source in _sources(cells, "markdown"):
        for line in source.split("\n"):
            found = RESULT_NUMBER.search(line)
            if found and not SOURCE_NAMED.search(line):
                yield f"the number {found[0]} stands in the text without a source: print it from a code cell"


RULES = (
    stored_outputs, parameters_cell, length_of_cells, number_of_cells, ids_of_cells, title, headings, provenance_last,
    numbers_in_prose,
)  # fmt: skip


def problems(path: Path) -> list[str]:
    """Everything that is wrong with a stored notebook, a line each; empty when nothing is."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [f"{path.name}: {line}" for rule in RULES for line in rule(cells, path)]
