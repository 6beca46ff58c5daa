"""Write versions of the stored notebooks for a class.

For students, with solutions, as sources of nbgrader and of otter-grader, and as slides; with them
goes a sheet for the predictions of the chosen notebooks. What is tagged `solution` is not in the
versions for students (see `tools.exercises`), nor is a paragraph below RESULT; cells tagged `slide`
make the slides.
"""

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from interextra.site.parameters import BASE
from interextra.site.repository import notebooks
from interextra.site.travel import CELLS, REFERENCE
from interextra.store.errors import InputError, offenders
from interextra.store.files import read_json, write_text
from tools.exercises import Cells, Entry, Exercise, checked, read_entries
from tools.structure import Cell, source_of, tags_of

POINTS = 2
STUB = "# Write your answer here."
STUB_IN_WORDS = "*Write your answer here.*"
CONFIG = f"""c = get_config()
c.ClearSolutions.code_stub = {{"python": "{STUB}"}}
c.ClearSolutions.text_stub = "{STUB_IN_WORDS}"
c.Execute.timeout = 7200  # seconds
"""
MARKED = "### BEGIN SOLUTION\n{}\n### END SOLUTION"
# what holds a solution, one in words, and a check; a grader takes out what is marked
FORMATS = {
    "plain": (STUB, STUB_IN_WORDS, ""),
    "nbgrader": (MARKED, MARKED, "### BEGIN HIDDEN TESTS\n{}\n### END HIDDEN TESTS"),
    "otter": ("# BEGIN SOLUTION\n{}\n# END SOLUTION", "{}", "# HIDDEN\n{}"),
}
# in place of {}: the folder of a notebook in the reference
FROM_REFERENCE = """import os

from interextra.site.repository import house

os.environ["INTEREXTRA_REFERENCE"] = str(house() / "{}")  # no training"""
PREDICTION = "**Predict before you run:**"  # in the text before a result
CONCLUSION = "## In short"  # begins the text before the answer
# Figures are as wide as a slide, lines of code break between words, tables and lists fit
LOOKS = """<style>
.reveal table { font-size: 90% !important }
.reveal .jp-OutputArea-output img { width: 100% !important; max-height: 25rem; object-fit: contain }
.reveal .jp-OutputArea-output pre { font-size: 60% !important; white-space: pre-wrap !important;
  word-break: normal !important; overflow-wrap: normal !important }
.reveal section { text-align: left }
</style>"""
# Terms of the glossary that stand on a slide of their own where slides use them
TERMS = (
    "interpolation",
    "extrapolation",
    "ReSTrain",
    "ReSTTest",
    "Δ",
    "gate",
    "exposed passage",
)
# brackets, which can hold others, and what stands in them where they hold estimates
BRACKETS = re.compile(r" \((?:[^()]|\([^()]*\))*\)")
INTERVAL = re.compile(r"\[[-+.\d]+, [-+.\d]+\]")
GLOSSARY = Path("book", "glossary.md")
HEADING = re.compile(r"^##+ (.*)$", re.M)
# A paragraph after this line says what came out: students predict first
RESULT = re.compile(r"<!-- result -->\n.*?(?:\n\n|\Z)", re.S)
SHEET = """# Prediction sheet

Name:

Fill in the third column before you run a notebook: a sign or a name, a rough size, and a reason. A
prediction need not be right.

"""
SHEET_COLUMNS = ("notebook", "question", "my prediction, and why", "what came out")
YOUR_PREDICTION = "*Your prediction, with a reason:*"
LINK = re.compile(r"\[([^\]]*)\]\((?:notes_\d\d\.md|\d\d_\w+\.ipynb)\)")
# after a notebook went to the repository's root
TO_ITS_FOLDER = "import os\n\nos.chdir(_dh[0])  # otter looks for its tests here"


def write(
    root: Path, form: str, only: str, out: Path, executed: Path | None, from_reference: bool
) -> list[Path]:
    """Write the versions of the chosen notebooks under `out`, all or none, and return their paths.

    Parameters
    ----------
    root : the repository.
    form : of FORMATS, or "slides".
    only : numbers or names of notebooks, with commas between them; "" for all.
    out : a folder.
    executed : folder of a run, whose outputs slides and solutions show; None: solutions have none,
        and slides show those of the default profile.
    from_reference : whether the notebooks begin from the committed values, without training.

    Raises
    ------
    InputError
        A notebook, its exercises or its values are missing or wrong, a text does not name what its
        check reads, or another file would be overwritten.
    """
    if form == "slides" and executed is None:
        executed = root / "outputs" / BASE
    files = {}
    chosen = notebooks(root, only)
    if form != "slides":
        files[out / _sheet_name(chosen, only)] = prediction_sheet(chosen)
    if form == "nbgrader":
        files[out / "nbgrader_config.py"] = CONFIG
    for stored in chosen:
        name = stored.stem
        notebook = read_json(stored)
        shown = _executed(stored, executed) if executed else notebook["cells"]
        if form == "slides":
            versions = {f"{name}.ipynb": slides(shown, name, defined_terms(root))}
        else:
            begin = [_begin_from_reference(root, name)] if from_reference else []
            expected = read_entries(root, name)
            versions = _versions(notebook["cells"], shown, expected, begin, name, form)
        for place, cells in versions.items():
            version = notebook | {"cells": cells}
            text = json.dumps(version, indent=1, ensure_ascii=False)
            files[out / place] = f"{text}\n"
    _refuse_overwriting(files)
    for path, text in files.items():
        write_text(path, text)
    return list(files)


def prediction_sheet(chosen: Sequence[Path]) -> str:
    """Return the sheet of stored notebooks in Markdown, a row a prediction that they ask for."""
    rows = [SHEET_COLUMNS, ("---",) * len(SHEET_COLUMNS)]
    rows += [(number, question, "", "") for number, question in predictions(chosen)]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return SHEET + "\n".join(lines) + "\n"


def predictions(chosen: Sequence[Path]) -> list[tuple[str, str]]:
    """Return number and question of each prediction that stored notebooks ask for."""
    found = []
    for stored in chosen:
        for cell in read_json(stored)["cells"]:
            _, mark, behind = source_of(cell).partition(PREDICTION)
            if mark:
                paragraph, _, _ = behind.partition("\n\n")
                question = " ".join(paragraph.split())
                found.append((stored.stem[:2], question[0].upper() + question[1:]))
    return found


def _sheet_name(chosen: Sequence[Path], only: str) -> str:
    """Return the name of the sheet: the same folder can have those of several choices."""
    numbers = [stored.stem[:2] for stored in chosen]
    return f"predictions_{'_'.join(numbers)}.md" if only else "predictions.md"


def _executed(stored: Path, run: Path) -> Cells:
    """Return the cells of a notebook as a run executed them.

    Raises
    ------
    InputError
        The run has no such notebook, or executed another version of it.
    """
    path = run / stored.stem / stored.name
    _refuse_missing(stored.stem, path)
    cells = read_json(path)["cells"]
    sources = {cell["id"]: source_of(cell) for cell in cells}
    for cell in read_json(stored)["cells"]:
        if sources.get(cell["id"]) != source_of(cell):
            raise InputError(
                f"{offenders([str(path)])} was executed from another version of {stored.stem} "
                f"(cell {cell['id']}): run it again"
            )
    return cells


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


def _code(cell_id: str, source: str) -> Cell:
    """Return a code cell."""
    return _cell("code", cell_id, source) | {"execution_count": None, "outputs": []}


def _cell(kind: str, cell_id: str, source: str) -> Cell:
    """Return a cell of a kind, as it is stored."""
    return {"cell_type": kind, "id": cell_id, "metadata": {}, "source": source}


def _versions(
    cells: Cells,
    shown: Cells,
    expected: list[tuple[Exercise, Entry]],
    begin: Cells,
    name: str,
    form: str,
) -> dict[str, Cells]:
    """Return the versions of a notebook: place of a file → its cells.

    Parameters
    ----------
    cells : as they are stored, of which students get theirs.
    shown : those of the version with solutions, with outputs or without.
    expected : the exercises and what is expected of them.
    begin : what stands behind the title of both versions.
    name : of the notebook.
    form : of FORMATS.
    """
    questions = {}
    for exercise, entry in expected:
        _refuse_unnamed(exercise, name)
        questions[exercise.cell_id] = _question(exercise, entry, form)
    for cell in shown:
        cell["metadata"].pop("jupyter", None)  # a stored notebook hides its solutions
    asked = _for_students(cells, questions, form)
    folder = "student" if form == "plain" else f"source/{name}"
    return {
        f"{folder}/{name}.ipynb": asked[:1] + begin + asked[1:],
        f"solution/{name}.ipynb": shown[:1] + begin + shown[1:],
    }


def _refuse_unnamed(exercise: Exercise, name: str) -> None:
    """Refuse an exercise whose text does not say in which names its check reads an answer."""
    unnamed = [read for read in exercise.read if f"`{read}`" not in exercise.text]
    if unnamed:
        raise InputError(
            f"{name}, exercise {exercise.number}: its check reads {offenders(unnamed)}, which its "
            "text does not name in backticks: say what to store there, and in which type"
        )


def _without_answer(cell: Cell) -> Cell:
    """Return the cell of the answer with its imports alone: students predict first."""
    lines = source_of(cell).splitlines()
    imports = [line for line in lines if not line.startswith("ix.answer(")]
    return cell | {"source": "\n".join(imports).strip(), "outputs": []}


def slides(cells: Cells, name: str, terms: Mapping[str, str]) -> Cells:
    """Return the slides of a notebook.

    A text begins a slide; the first code after it stays on it, further code goes below it, and so
    does all code after a text that asks for a prediction or concludes. What goes below has the
    heading of its section; sentences of an answer leave out the brackets with their estimates,
    which the figure before shows. The second slide says what `terms` mean that the slides use.

    Parameters
    ----------
    cells : of the notebook, with outputs or without.
    name : of the notebook.
    terms : what the terms of TERMS mean.

    Raises
    ------
    InputError
        No cell is tagged `slide`.
    """
    found: Cells = []
    heading = ""
    goes_below = False
    for cell in cells:
        headings = HEADING.findall(source_of(cell)) if cell["cell_type"] == "markdown" else []
        heading = headings[-1] if headings else heading
        if "slide" not in tags_of(cell):
            continue
        if cell["cell_type"] == "markdown":
            found.append(_placed(cell, "slide"))
            goes_below = are_results_below(source_of(cell))
            continue
        if goes_below:
            title = _cell("markdown", f"{cell['id']}-heading", f"## {heading}")
            found.append(_placed(title, "subslide"))
        found.append(_placed(_without_estimates(cell), "-"))
        goes_below = True
    if not found:
        raise InputError(f"{name}: no cell is tagged `slide`")
    title, _, _ = source_of(found[0]).partition("\n")
    found[0]["source"] = f"{title}\n\n{LOOKS}"
    return found[:1] + _slide_of_terms(found, terms) + found[1:]


def _without_estimates(cell: Cell) -> Cell:
    """Return a cell whose sentences (Markdown that it shows) have no brackets with an interval."""
    outputs = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if "text/markdown" in data:
            text = BRACKETS.sub(_kept_brackets, "".join(data["text/markdown"]))
            output = output | {"data": data | {"text/markdown": text}}
        outputs.append(output)
    return cell | {"outputs": outputs}


def _kept_brackets(found: re.Match) -> str:
    """Return brackets as they are, or nothing where they hold an interval."""
    return "" if INTERVAL.search(found[0]) else found[0]


def _placed(cell: Cell, slide_type: str) -> Cell:
    """Return a cell as a slide, below one (subslide), or on the one before (-)."""
    return cell | {"metadata": cell["metadata"] | {"slideshow": {"slide_type": slide_type}}}


def _slide_of_terms(cells: Cells, terms: Mapping[str, str]) -> Cells:
    """Return the slide that defines the terms which a talk uses; none where it uses none."""
    shown = "\n".join(f"{source_of(cell)}\n{_texts_shown(cell)}" for cell in cells)
    lines = [f"- **{term}**: {meaning}" for term, meaning in terms.items() if term in shown]
    if not lines:
        return []
    text = "\n".join(["## Terms", "", *lines])
    return [_placed(_cell("markdown", "terms", text), "slide")]


def _texts_shown(cell: Cell) -> str:
    """Return the texts and tables that a cell shows."""
    texts = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        shown = [output.get("text", ""), data.get("text/markdown", ""), data.get("text/html", "")]
        texts += ["".join(text) for text in shown]
    return "\n".join(texts)


def defined_terms(root: Path) -> dict[str, str]:
    """Return each of TERMS that the glossary has → the first sentence that it says of it."""
    path = root / GLOSSARY
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    meanings = {}
    for term in TERMS:
        found = re.search(rf"(?m)^{re.escape(term)}\n(?:\S.*\n)*((?:  .*\n)+)", text)
        if found:
            sentence = re.split(r"(?<=\.) (?=[A-Z*])", " ".join(found[1].split()))[0]
            meanings[term] = sentence
    return meanings


def are_results_below(text: str) -> bool:
    """Return whether results stand below the slide of a text: behind a prediction, or many."""
    return PREDICTION in text or text.startswith(CONCLUSION)


def _for_students(cells: Cells, questions: dict[str, Cells], form: str) -> Cells:
    """Return the cells of a notebook with questions in the place of solutions, and no answer.

    Paragraphs that say what came out are left out. After each text that asks for a prediction there
    is a cell for it; links to pages that students do not have are texts.
    """
    kept = []
    for cell in cells:
        if cell["id"] in questions:
            kept += questions[cell["id"]]
        elif "answer" in tags_of(cell):
            kept.append(_without_answer(cell))
        elif "solution" not in tags_of(cell):
            kept.append(_without_links(_without_results(cell)))
        if PREDICTION in source_of(cell):
            kept.append(_cell("markdown", f"{cell['id']}-prediction", YOUR_PREDICTION))
        if form == "otter" and "ix.start(" in source_of(cell):
            kept.append(_code("folder", TO_ITS_FOLDER))
    return kept


def _without_results(cell: Cell) -> Cell:
    """Return a cell without the paragraphs that say what came out; a code cell as it is."""
    text = source_of(cell)
    if cell["cell_type"] != "markdown" or not RESULT.search(text):
        return cell
    return cell | {"source": RESULT.sub("", text).rstrip()}


def _without_links(cell: Cell) -> Cell:
    """Return a cell whose links to notebooks and notes are texts; a code cell as it is."""
    if cell["cell_type"] != "markdown":
        return cell
    return cell | {"source": LINK.sub(r"\1", source_of(cell))}


def _question(exercise: Exercise, entry: Entry, form: str) -> Cells:
    """Return the cells that ask an exercise, with solution and check where the form has them."""
    if exercise.is_in_words:
        cells = _asked_in_words(exercise, entry, form)
    else:
        cells = _asked_in_code(exercise, entry, form)
    if form == "nbgrader":
        _grade(cells, exercise.number)
    if form == "otter":
        return _between_marks(cells, exercise)
    return cells


def _asked_in_words(exercise: Exercise, entry: Entry, form: str) -> Cells:
    """Return an exercise that is answered in a text: otter wants the question in a cell before."""
    _, answer_mark, _ = FORMATS[form]
    question = f"**Exercise {exercise.number} ({_points(exercise, form)}).** {exercise.text}"
    answer = answer_mark.format(entry.expected.strip())
    if form == "otter":
        return [
            _cell("markdown", f"{exercise.cell_id}-question", question),
            _cell("markdown", exercise.cell_id, answer),
        ]
    return [_cell("markdown", exercise.cell_id, f"{question}\n\n{answer}")]


def _asked_in_code(exercise: Exercise, entry: Entry, form: str) -> Cells:
    """Return an exercise that is answered in code, and its check if the form takes one."""
    answer_mark, _, check_mark = FORMATS[form]
    text = exercise.text.replace("*", "")
    task = f"Exercise {exercise.number} ({_points(exercise, form)}). {text}"
    comment = textwrap.fill(task, 100, initial_indent="# ", subsequent_indent="# ")
    answer = answer_mark.format(exercise.answer)
    cells = [_code(exercise.cell_id, f"{comment}\n{answer}")]
    if exercise.check and check_mark:
        check = check_mark.format(checked(exercise, entry))
        cells.append(_code(f"{exercise.cell_id}-check", check))
    return cells


def _points(exercise: Exercise, form: str) -> str:
    """Return what an exercise is worth, in words; nbgrader gives half of it by the check."""
    if exercise.check and form == "nbgrader":
        return f"{POINTS} points, {POINTS // 2} of them by a check"
    return f"{POINTS} points"


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


def _between_marks(cells: Cells, exercise: Exercise) -> Cells:
    """Return the cells of an exercise between the raw cells of otter."""
    has_check = bool(exercise.check)
    begin = (
        f"# BEGIN QUESTION\nname: exercise_{exercise.number}\npoints: {POINTS}\n"
        f"manual: {str(not has_check).lower()}"
    )
    before = cells[:1] if exercise.is_in_words else []
    answer, *checks = cells[len(before) :]
    parts: list = [begin, *before, "# BEGIN SOLUTION", answer, "# END SOLUTION"]
    if checks:
        parts += ["# BEGIN TESTS", *checks, "# END TESTS"]
    parts.append("# END QUESTION")
    for index, part in enumerate(parts):
        if isinstance(part, str):
            parts[index] = _cell("raw", f"{exercise.cell_id}-{index}", part)
    return parts
