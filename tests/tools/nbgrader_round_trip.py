"""Hand in five submissions of a notebook, grade them with nbgrader, and print its gradebook.

`make test-class [ONLY=11]` runs it in an environment of its own, which has nbgrader. The answers are
variants of the exercises' checks (book/exercises): right, right in another form, and wrong; one
student hands in nothing, and the code of one ends the kernel. It ends with 1 if a right answer gets
no point, a wrong or missing one gets a point, a check has no message, or one submission keeps
others from being graded.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pandas as pd

from interextra.site.repository import notebooks
from tools.exercises import Entry, Exercise, read_entries
from tools.teaching import write

ROOT = Path(__file__).resolve().parents[2]
COURSE = ROOT / "build" / "nbgrader_round_trip"
RIGHT, OTHER, WRONG, EMPTY, STOPS = STUDENTS = (
    "right",
    "right in another form",
    "wrong",
    "empty",
    "ends the kernel",
)
ENDS_KERNEL = "import os\n\nos._exit(1)"
# where a teacher grades
IN_WORDS = "An answer in words."
IN_CODE = "print('an answer')"
BY_HAND = "by hand"

Expected = list[tuple[Exercise, Entry]]


def main(only: str) -> int:
    """Grade the submissions of one notebook, and print what is wrong."""
    [notebook] = notebooks(ROOT, only)
    name = notebook.stem
    expected = read_entries(ROOT, name)
    shutil.rmtree(COURSE, ignore_errors=True)
    write(ROOT, "nbgrader", name, COURSE, None, from_reference=True)
    done = run("generate_assignment", name)
    if done.returncode:
        print(done.stderr)
        return 1
    for student in STUDENTS:
        hand_in(student, name, expected)
    log = run("autograde", name).stderr
    grades = gradebook(name)
    print(grades.to_string())
    wrong = list(problems(grades, name, expected))
    if wrong:
        print(log[-3000:], *wrong, sep="\n")
    return int(bool(wrong))


def run(*arguments: str) -> subprocess.CompletedProcess:
    """Run a command of nbgrader in the folder of the course; it looks for alembic in PATH."""
    command = [sys.executable, "-m", "nbgrader", *arguments]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT / "lib")}
    return subprocess.run(command, cwd=COURSE, env=environment, capture_output=True, text=True)


def hand_in(student: str, name: str, expected: Expected) -> None:
    """Write the submission of a student: the released notebook with answers."""
    notebook = nbformat.read(COURSE / "release" / name / f"{name}.ipynb", 4)
    cells = {cell["id"]: cell for cell in notebook.cells}
    for exercise, entry in expected:
        answer = answer_of(student, exercise, entry)
        if answer:
            cells[exercise.cell_id]["source"] = answer
    folder = COURSE / "submitted" / student / name
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / f"{name}.ipynb")


def answer_of(student: str, exercise: Exercise, entry: Entry) -> str:
    """Return what a student answers to an exercise; "": nothing."""
    if student == EMPTY:
        return ""
    if exercise.is_in_words:
        return IN_WORDS
    if student == STOPS:
        return ENDS_KERNEL
    if entry.variants is None:
        return IN_CODE
    right, other, *_ = entry.variants.right
    return {RIGHT: right, OTHER: other, WRONG: entry.variants.wrong[0]}[student]


def gradebook(name: str) -> pd.DataFrame:
    """Return the automatic points, a row a student, a column a cell of an exercise."""
    from nbgrader.api import Gradebook

    rows: dict[str, dict[str, float | str]] = {}
    with Gradebook(f"sqlite:///{COURSE}/gradebook.db") as book:
        for submission in book.assignment_submissions(name):
            row = rows.setdefault(submission.student.id, {})
            for notebook in submission.notebooks:
                for grade in notebook.grades:
                    points = BY_HAND if grade.needs_manual_grade else grade.auto_score
                    row[grade.name] = points
    table = pd.DataFrame.from_dict(rows, orient="index")
    return table.reindex(index=STUDENTS, columns=sorted(table))


def problems(grades: pd.DataFrame, name: str, expected: Expected) -> Iterator[str]:
    """Yield what the gradebook has wrong."""
    for exercise, _ in expected:
        if not exercise.check:
            continue
        cell = f"exercise-{exercise.number}-check"
        for student, points in {RIGHT: 1, OTHER: 1, WRONG: 0, EMPTY: 0}.items():
            if grades.loc[student, cell] != points:
                yield f"{cell}, {student}: {grades.loc[student, cell]} points, not {points}"
    for student in (RIGHT, OTHER):
        yield from (f"{student}: {error}" for error in errors(student, name))
    messages = errors(WRONG, name)
    n_checks = sum(bool(exercise.check) for exercise, _ in expected)
    if len(messages) != n_checks or not all(
        text.startswith("AssertionError: ") for text in messages
    ):
        yield f"wrong: {n_checks} checks, but the errors are {messages}"
    if (grades.loc[EMPTY] == BY_HAND).any():
        yield "an unchanged cell is left to be graded by hand"
    if (COURSE / "autograded" / STOPS / name).exists():
        yield "the submission that ends the kernel counts as graded"


def errors(student: str, name: str) -> list[str]:
    """Return the errors of a graded submission, as the student gets to see them."""
    path = COURSE / "autograded" / student / name / f"{name}.ipynb"
    outputs = [cell.get("outputs", []) for cell in nbformat.read(path, 4).cells]
    found = [output for part in outputs for output in part if output["output_type"] == "error"]
    return [f"{error['ename']}: {error['evalue']}" for error in found]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
