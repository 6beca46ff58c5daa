"""The exercises of the stored notebooks, their solutions, and what a teacher expects of an answer.

Exercises are the numbered list under the heading Exercises; the k-th code cell tagged `solution`
answers exercise k, together with those after it that are tagged `continued`, too. The asserts of a
solution that read a name which it assigns are the check of the exercise. In the order of the
exercises, `book/exercises/NOTEBOOK.yaml` says what is expected of each.
"""

import ast
import re
import symtable
import textwrap
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, Field, ValidationError

from interextra.site.parameters import parse_yaml
from interextra.store.errors import InputError
from interextra.store.files import read_json
from tools.structure import Cell, source_of, tags_of

FOLDER = Path("book", "exercises")
IN_WORDS = ("*Predict", "*True")  # beginnings of exercises that are answered in words
LEAST_RIGHT = 3
LEAST_WRONG = 2
SECTION = re.compile(r"^##+ .*Exercises(.*?)(?=^##|\Z)", re.M | re.S)
SENTENCE = re.compile(r"(?<=[.?!]) (?=[A-Z])")
# The check of an exercise in a class
CHECKED = """from interextra.site.checks import checked

with checked(
    globals(),
    {read},
    asked={asked!r},
    mistake={mistake!r},
):
{check}"""
ITEM = re.compile(r"^\d+\. (.*?)(?=\n\d+\. |\n\n|\Z)", re.M | re.S)

Cells = list[Cell]


class Exercise(NamedTuple):
    """An exercise with its solution, which begins in the cell `cell_id`.

    `answer` is the solution without its check, `check` that check ("": none), and `read` has the
    names of the solution that the check reads. Answers in words have no check.
    """

    number: int
    text: str
    cell_id: str
    answer: str
    check: str
    read: list[str]

    @property
    def is_in_words(self) -> bool:
        """Whether the answer is a text."""
        return self.text.startswith(IN_WORDS)


class Variants(BaseModel, extra="forbid"):
    """Code in place of a solution: what its check must accept, and what it must refuse."""

    right: list[str]
    wrong: list[str]


class Entry(BaseModel, extra="forbid"):
    """What a teacher expects of an exercise, the typical wrong answer, and minutes of work."""

    minutes: int = Field(gt=0)
    expected: str = Field(min_length=1)
    mistake: str = Field(min_length=1)
    variants: Variants | None = None


def checked(exercise: Exercise, entry: Entry) -> str:
    """Return the check of an exercise with what it says of an answer that it cannot read."""
    named = [f"`{name}`" for name in exercise.read]
    sentences = SENTENCE.split(exercise.text)
    asked = [sentence for sentence in sentences if any(name in sentence for name in named)]
    return CHECKED.format(
        read=exercise.read,
        asked=" ".join(asked),
        mistake=" ".join(entry.mistake.split()),
        check=textwrap.indent(exercise.check, "    "),
    )


def texts(cells: Cells) -> list[str]:
    """Return the texts of the exercises of a notebook."""
    written = [cell for cell in cells if cell["cell_type"] == "markdown"]
    questions = [source_of(cell) for cell in written if "solution" not in tags_of(cell)]
    section = SECTION.search("\n\n".join(questions))
    if section is None:
        return []
    items = ITEM.findall(section[1])
    return [" ".join(item.split()) for item in items]


def exercises(cells: Cells, name: str) -> list[Exercise]:
    """Return the exercises of a notebook.

    Raises
    ------
    InputError
        There are none, or another number of solutions.
    """
    asked = texts(cells)
    sources = _sources_of_solutions(cells)
    if not asked or len(asked) != len(sources):
        raise InputError(
            f"{name}: {len(asked)} exercises, {len(sources)} solutions; tag further ones "
            "`continued`, too"
        )
    found = []
    for text, (cell_id, source) in zip(asked, sources.items(), strict=True):
        parts = (source, "", []) if text.startswith(IN_WORDS) else _without_check(source)
        found.append(Exercise(len(found) + 1, text, cell_id, *parts))
    return found


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


def _without_check(source: str) -> tuple[str, str, list[str]]:
    """Take the check out of a solution: asserts that read what it names, and name nothing.

    Returns the solution without it, the check, and the names of the solution that it reads.
    """
    assigned = _assigned(source)
    answer = source.split("\n")
    check: list[str] = []
    read: set[str] = set()
    for node in reversed(ast.parse(source).body):
        if not isinstance(node, ast.Assert) or ":=" in ast.unparse(node):
            continue
        names = assigned & _read(ast.unparse(node))
        if names:
            lines = slice(node.lineno - 1, node.end_lineno)
            check = answer[lines] + check
            del answer[lines]
            read |= names
    return "\n".join(answer), "\n".join(check), sorted(read)


def _assigned(source: str) -> set[str]:
    """Return the names that the top level of a code assigns."""
    symbols = symtable.symtable(source, "", "exec").get_symbols()
    return {symbol.get_name() for symbol in symbols if symbol.is_assigned()}


def _read(source: str) -> set[str]:
    """Return the names that a code reads; the variables of its comprehensions are its own."""
    names = set()
    scopes = [symtable.symtable(source, "", "exec")]
    while scopes:
        scope = scopes.pop()
        scopes += scope.get_children()
        symbols = scope.get_symbols()
        names |= {symbol.get_name() for symbol in symbols if symbol.is_global()}
    return names


def read_entries(root: Path, name: str) -> list[tuple[Exercise, Entry]]:
    """Return the exercises of a stored notebook, each with what is expected of it.

    Parameters
    ----------
    root
        The repository.
    name
        Of the notebook.

    Raises
    ------
    InputError
        The file is missing, no list of one entry an exercise, or an entry is wrong.
    """
    path = root / FOLDER / f"{name}.yaml"
    if not path.is_file():
        raise InputError(f"{path} is missing: it says what is expected of each exercise of {name}")
    notebook = root / "notebooks" / f"{name}.ipynb"
    asked = exercises(read_json(notebook)["cells"], name)
    values = parse_yaml(path.read_text(encoding="utf-8"), path)
    if not isinstance(values, list) or len(values) != len(asked):
        n_entries = len(values) if isinstance(values, list) else "no list of"
        raise InputError(f"{path}: {n_entries} entries, but {name} has {len(asked)} exercises")
    found = []
    for exercise, value in zip(asked, values, strict=True):
        found.append((exercise, _entry(exercise, value, f"{path}, entry {exercise.number}")))
    return found


def _entry(exercise: Exercise, value: object, where: str) -> Entry:
    """Return an entry, checked; `where` begins messages."""
    try:
        entry = Entry.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the entry"
        block = "; code with a colon must be a block of lines (`|`)" if "variants" in field else ""
        raise InputError(f"{where}: {field}: {first['msg']}{block}") from None
    if not exercise.check:
        if entry.variants:
            raise InputError(f"{where}: has variants, but the exercise has no check to try them")
        return entry
    if entry.variants is None:
        raise InputError(f"{where}: has no variants to try the check of the exercise")
    n_right = len(entry.variants.right)
    n_wrong = len(entry.variants.wrong)
    if n_right < LEAST_RIGHT or n_wrong < LEAST_WRONG:
        raise InputError(
            f"{where}: {n_right} right and {n_wrong} wrong variants; write at least "
            f"{LEAST_RIGHT} and {LEAST_WRONG}"
        )
    return entry
