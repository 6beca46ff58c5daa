"""Check the rules that every stored notebook keeps; a function for each rule yields what is wrong.

`make check` also looks whether finished results are undamaged.
"""

import ast
import dis
import itertools
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from interextra.site.repository import notebooks, repository_root
from interextra.store.errors import InputError
from interextra.store.files import read_json, seal_problem
from interextra.store.folders import Store

# lines of a code cell
MEDIAN_LINES = 7
USUAL_LINES = 15
USUAL_SHARE = 0.9
MAX_LINES = 30
# of a notebook; the introduction and the tool for one's own retriever hold more
MAX_CELLS = 45
MAX_WORDS = 1500
LONGER = ("00_start_here", "12_your_own_retriever")
QUESTION = re.compile(r"# .*\?\s*$", re.M)
HEADINGS = ("Worked example", "Where it can go wrong", "Exercises", "In short")
RESULT_NUMBER = re.compile(r"(?<![\w.])[01]?\.\d{2,}(?!\w)")
SOURCE_NAMED = re.compile(r"Zhan|Lupart|Hofstätter|[Pp]aper|[Pp]ublished|Table|e\.g\.")
NEXT = re.compile(r"\*\*Next:\*\* \[`\w+`\]\((\w+\.ipynb)\)")
SUPPRESSED = re.compile(r"#\s*(fmt:\s*(?:skip|off)|noqa)")

Cell = dict[str, Any]  # of a notebook in JSON


def source_of(cell: Cell) -> str:
    """Return the source of a cell, which is stored in lines."""
    return "".join(cell["source"])


def tags_of(cell: Cell) -> set[str]:
    """Return the tags of a cell."""
    return set(cell["metadata"].get("tags", []))


def _sources(cells: list[Cell], kind: str) -> list[str]:
    """Return the sources of all cells of a kind."""
    return [source_of(cell) for cell in cells if cell["cell_type"] == kind]


def _tagged(cells: list[Cell], tag: str) -> list[Cell]:
    """Return the cells with a tag."""
    return [cell for cell in cells if tag in tags_of(cell)]


def cell_of(notebook: Path) -> dict[str, Any]:
    """Return name → value of the notebook's parameters cell.

    Raises
    ------
    InputError
        There is not exactly one such cell, or a line of it is no `name: type = literal`.
    """
    cells = read_json(notebook)["cells"]
    tagged = _tagged(cells, "parameters")
    if len(tagged) != 1:
        raise InputError(
            f"{notebook.name}: needs exactly one cell tagged `parameters`, has {len(tagged)}"
        )
    values = {}
    for node in ast.parse(source_of(tagged[0])).body:
        if not isinstance(node, ast.AnnAssign) or node.value is None:
            place = f"{notebook.name}, parameters cell, line {node.lineno}"
            raise InputError(f"{place}: write `name: type = literal`")
        values[ast.unparse(node.target)] = ast.literal_eval(node.value)
    return values


def stored_outputs(cells: list[Cell], path: Path) -> Iterator[str]:
    """Refuse outputs and execution counts."""
    for index, cell in enumerate(cells):
        if cell.get("outputs") or cell.get("execution_count"):
            yield f"cell {index} is stored with outputs: strip them"


def parameters_cell(cells: list[Cell], path: Path) -> Iterator[str]:
    """Require a line for each parameter, `name: type = literal  # meaning`, as papermill reads."""
    try:
        cell_of(path)
    except InputError as error:
        yield str(error)
        return
    [parameters] = _tagged(cells, "parameters")
    for line in source_of(parameters).split("\n"):
        name = line.partition(":")[0]
        comment = line.partition("#")[2]
        if not comment.strip():
            yield f"parameter {name!r} has no comment that says what it means"
        if line.count("=") > 1:  # papermill gives up on it with a warning
            yield f"more than one `=` in the parameter line {name!r}"


def metadata(cells: list[Cell], path: Path) -> Iterator[str]:
    """Require the kernel and the language, without which papermill executes nothing."""
    found = read_json(path)["metadata"]
    if not {"kernelspec", "language_info"} <= found.keys():
        yield "its metadata lack kernelspec or language_info: take those of another notebook"


def length_of_cells(cells: list[Cell], path: Path) -> Iterator[str]:
    """Refuse long code cells; blank lines do not count.

    The parameters cell is as long as there are parameters.
    """
    parameters = _tagged(cells, "parameters")
    others = [cell for cell in cells if cell not in parameters]
    sources = _sources(others, "code")
    if not sources:
        return
    lengths = [_n_lines(source) for source in sources]
    if max(lengths) > MAX_LINES:
        yield f"a code cell has {max(lengths)} lines, at most {MAX_LINES}"
    n_usual = sum(length <= USUAL_LINES for length in lengths)
    if n_usual < USUAL_SHARE * len(lengths):
        share = f"over {1 - USUAL_SHARE:.0%}"
        yield f"{share} of the code cells have more than {USUAL_LINES} lines"
    median = statistics.median(lengths)
    if median > MEDIAN_LINES:
        yield f"code cells have a median of {median:g} lines, at most {MEDIAN_LINES}"


def length(cells: list[Cell], path: Path) -> Iterator[str]:
    """Refuse a long notebook: what its main line does not need belongs on its page of notes."""
    if path.stem in LONGER:
        return
    if len(cells) > MAX_CELLS:
        yield f"{len(cells)} cells, at most {MAX_CELLS}: move details to book/notes_NN.md"
    n_words = sum(len(text.split()) for text in _sources(cells, "markdown"))
    if n_words > MAX_WORDS:
        yield f"{n_words:,} words, at most {MAX_WORDS:,}: move details to book/notes_NN.md"


def _n_lines(source: str) -> int:
    """Return the number of lines that are not blank."""
    return len([line for line in source.split("\n") if line.strip()])


def checks_kept(cells: list[Cell], path: Path) -> Iterator[str]:
    """Refuse comments that switch a check of the code off."""
    for source in _sources(cells, "code"):
        match = SUPPRESSED.search(source)
        if match:
            yield f"`{match[1]}` switches a check off: rewrite the line"


def names_of_functions(cells: list[Cell], path: Path) -> Iterator[str]:
    """Refuse a function whose name is given anew.

    What a cell of another profile names anew, a later cell would call.
    """
    code = "\n".join(_sources(cells, "code"))
    tree = ast.parse(code)
    instructions = dis.get_instructions(compile(tree, path.name, "exec"))
    stored = [step.argval for step in instructions if "STORE" in step.opname]
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    for name in set(functions):
        if stored.count(name) > 1:
            yield f"{name!r} is a function, and named anew"


def ids_of_cells(cells: list[Cell], path: Path) -> Iterator[str]:
    """Require an id of its own for each cell."""
    ids = [cell.get("id") for cell in cells]
    if None in ids or len(set(ids)) < len(ids):
        yield "cell ids are missing or not unique"


def title(cells: list[Cell], path: Path) -> Iterator[str]:
    """Require a title that asks a question."""
    texts = _sources(cells[:1], "markdown")
    if not texts or not QUESTION.match(texts[0]):
        yield "the first cell must be a title that asks a question (`# …?`)"


def answer_box(cells: list[Cell], path: Path) -> Iterator[str]:
    """Require that the second cell shows the answer of the notebook, and a later one notes it."""
    code = "\n".join(_sources(cells, "code"))
    box = f'import interextra as ix\n\nix.answer("{path.stem}")'
    tagged = _tagged(cells[1:2], "answer")
    if _sources(tagged, "code") != [box]:
        yield f"the second cell must be tagged `answer` and be: {box!r}"
    if "nb.answer(" not in code:
        yield "no cell notes the answer (`nb.answer(…)`)"
    if code.count("import interextra as ix") != 1:
        yield "`import interextra as ix` must stand once, in the second cell"


def headings(cells: list[Cell], path: Path) -> Iterator[str]:
    """Require the headings that every notebook has."""
    text = "\n".join(_sources(cells, "markdown"))
    for name in HEADINGS:
        if not re.search(rf"^##+ .*{name}", text, re.M):
            yield f"no heading with {name!r}"


def provenance_last(cells: list[Cell], path: Path) -> Iterator[str]:
    """Require that the last code cell records the provenance."""
    sources = _sources(cells, "code")
    if not sources or "nb.finish()" not in sources[-1]:
        yield "the last code cell must record the provenance (`nb.finish()`)"


def numbers_in_prose(cells: list[Cell], path: Path) -> Iterator[str]:
    """Refuse numbers in a text that look like results and have no source in their line."""
    for source in _sources(cells, "markdown"):
        for line in source.split("\n"):
            number = RESULT_NUMBER.search(line)
            if number and not SOURCE_NAMED.search(line):
                yield (
                    f"the number {number[0]} stands in the text without a source: print it from "
                    "a code cell"
                )


def solutions(cells: list[Cell], path: Path) -> Iterator[str]:
    """Require a solution for each exercise, all of them folded."""
    n_exercises = 0
    for source in _sources(cells, "markdown"):
        if re.search(r"^##+ .*Exercises", source, re.M):
            n_exercises += len(re.findall(r"^\d+\. ", source, re.M))
    solved = _tagged(cells, "solution")
    if len(solved) < n_exercises:
        yield f"{n_exercises} exercises, but {len(solved)} code cells tagged `solution`"
    views = [cell["metadata"].get("jupyter", {}) for cell in solved]
    if not all(view.get("source_hidden") for view in views):
        yield "a solution stands in the open: set jupyter.source_hidden in the metadata of its cell"


def next_notebook(cells: list[Cell], path: Path) -> Iterator[str]:
    """Require links to notebooks that exist; the last notebook needs none."""
    names = {other.name for other in path.parent.glob("*.ipynb")}
    if path.name == max(names):
        return
    text = "\n".join(_sources(cells, "markdown"))
    linked = NEXT.findall(text)
    if not linked or not names.issuperset(linked):
        yield (
            "no link to the next notebook: **Next:** [`NAME`](NAME.ipynb), to a notebook that "
            "exists"
        )


RULES = (
    stored_outputs,
    parameters_cell,
    metadata,
    length_of_cells,
    length,
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
    """Return everything that is wrong with a stored notebook, a line each."""
    cells = read_json(path)["cells"]
    found = itertools.chain.from_iterable(rule(cells, path) for rule in RULES)
    return [f"{path.name}: {problem}" for problem in found]


def damaged_results(store: Store) -> Iterator[str]:
    """Yield what is damaged of the planned results that are there."""
    for cell in store.planned():
        path = store.path(cell)
        problem = seal_problem(path) if path.is_dir() else ""
        if problem:
            yield f"{path.name}: {problem}"


def main() -> int:
    """Print what is wrong with the stored notebooks and the results on disk."""
    root = repository_root()
    stored = notebooks(root)
    wrong = [line for path in stored for line in problems(path)]
    wrong += damaged_results(Store(root / "outputs" / "cells"))
    if wrong:
        print("\n".join(wrong))
        return 1
    print(f"{len(stored)} stored notebooks and the results on disk: nothing wrong")
    return 0


if __name__ == "__main__":
    sys.exit(main())
