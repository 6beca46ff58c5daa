"""What teachers expect of the exercises, behind the introduction of the page `expected_answers`.

It shows the files of `book/exercises/`: minutes by notebook, and for each exercise the expected
answer, the typical wrong one, and how it is graded.
"""

import re
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from interextra.store.files import read_json  # noqa: E402
from tools.exercises import FOLDER, read_entries  # noqa: E402
from tools.structure import source_of  # noqa: E402

PAGE = "expected_answers"
LINK = re.compile(r"\[([^\]]*)\]\(\w+\.ipynb\)")  # to a notebook, which may have no page in a run


def setup(app):
    """Tell Sphinx what to call."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True}


def read(app, name, source):
    """Put the exercises of all notebooks that have a file behind the text of the page."""
    if name != PAGE:
        return
    files = sorted((REPOSITORY / FOLDER).glob("*.yaml"))
    for path in files:
        app.env.note_dependency(str(path))
    source[0] += "\n" + page([path.stem for path in files]) + "\n"


def page(names):
    """Return Markdown: minutes by notebook, then a heading for each notebook."""
    expected = {name: read_entries(REPOSITORY, name) for name in names}
    parts = [_minutes(expected)]
    for name, entries in expected.items():
        parts.append(f"## {name[:2]} · {_title(name)}")
        parts += [_exercise(exercise, entry) for exercise, entry in entries]
    return "\n\n".join(parts)


def _minutes(expected):
    """Return a table of minutes by notebook."""
    lines = ["| notebook | exercises | with a check | minutes |", "|---|---|---|---|"]
    for name, entries in expected.items():
        n_checked = sum(bool(exercise.check) for exercise, _ in entries)
        minutes = sum(entry.minutes for _, entry in entries)
        lines.append(f"| {name[:2]} | {len(entries)} | {n_checked} | {minutes} |")
    return "\n".join(lines)


def _title(name):
    """Return the question of a notebook."""
    first_cell = read_json(REPOSITORY / "notebooks" / f"{name}.ipynb")["cells"][0]
    return source_of(first_cell).splitlines()[0].lstrip("# ")


def _exercise(exercise, entry):
    """Return an exercise with what is expected of it."""
    return "\n".join(
        [
            f"**{exercise.number}.** {_line(exercise.text)} ({entry.minutes} minutes, "
            f"{_grading(exercise)})",
            f"- Expected: {_line(entry.expected)}",
            f"- Typical mistake: {_line(entry.mistake)}",
        ]
    )


def _grading(exercise):
    """Return how an answer is graded."""
    if exercise.check:
        return "half of the points by a check"
    return "in words" if exercise.is_in_words else "by hand"


def _line(text):
    """Return a text in one line, without links to notebooks."""
    return LINK.sub(r"\1", " ".join(text.split()))
