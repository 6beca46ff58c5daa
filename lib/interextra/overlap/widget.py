"""Filling in an annotation sheet in a notebook.

A session that knows no browser, and a widget around it.
"""

from collections.abc import Callable
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from interextra.overlap.annotation import read_sheet, write_sheet
from interextra.overlap.labels import LABELS

if TYPE_CHECKING:
    import ipywidgets


class Annotation:
    """One annotator's way through a sheet. Each choice is on disk before the next pair is shown.

    Attributes
    ----------
    row : int
        The place in the sheet, which starts at the first pair that lacks a label.
    changed : callable
        Called after each step.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.row = 0
        self.sheet = read_sheet(self.path, complete=False)
        self.changed: Callable[[], None] = lambda: None
        self._history: list[tuple[int, str, str]] = []  # row, column, label before
        self.next(0)

    @property
    def current(self) -> dict[str, str]:
        """The pair at `row`, by column."""
        return self.sheet.iloc[self.row].to_dict()

    @property
    def open(self) -> np.ndarray:
        """Rows of the pairs that lack a label."""
        is_open = self.sheet[list(LABELS)] == ""
        return np.flatnonzero(is_open.any(axis=1))

    def next(self, step: int = 1) -> None:
        """Go to the first pair with an open label, from `step` pairs on and round the end.

        Stay where none is open.
        """
        rows = self.open
        if len(rows):
            later = rows[rows >= self.row + step]
            first = rows[0]
            if len(later):
                first = later[0]
            self.row = int(first)
        self.changed()

    def label(self, column: str, label: str) -> None:
        """Give a label (column entity or intent), write the sheet, go on when the pair has both."""
        before = self.sheet.loc[self.row, column]
        self._history.append((self.row, column, before))
        self.sheet.loc[self.row, column] = label
        write_sheet(self.path, self.sheet)
        self.next(0)

    def undo(self) -> None:
        """Take the last choice back and return to its pair; nothing happens when there is none."""
        if not self._history:
            return
        self.row, column, before = self._history.pop()
        self.sheet.loc[self.row, column] = before
        write_sheet(self.path, self.sheet)
        self.changed()


def widget(sheet_path: Path | str) -> "ipywidgets.VBox":
    """Return a box to label a sheet pair by pair, its source hidden; it writes each choice.

    The attribute `session` of the box is its `Annotation`.
    """
    import ipywidgets

    session = Annotation(sheet_path)
    view = ipywidgets.HTML()
    buttons = {}
    rows = []
    for column, labels in LABELS.items():
        row = [ipywidgets.Label(column)]
        for label in labels:
            give_label = partial(session.label, column, label)
            buttons[label] = _button(label, give_label)
            row.append(buttons[label])
        rows.append(ipywidgets.HBox(row))
    undo = _button("undo", session.undo)
    next_pair = _button("next open pair", session.next)
    rows.append(ipywidgets.HBox([undo, next_pair]))

    def show() -> None:
        """Show the current pair, and which labels it has."""
        view.value = _html(session)
        given = [session.current[column] for column in LABELS]
        for label, button in buttons.items():
            button.button_style = "info" if label in given else ""

    session.changed = show
    show()
    box = ipywidgets.VBox([view, *rows])
    box.session = session
    return box


def _button(text: str, action: Callable[[], None]) -> "ipywidgets.Button":
    """Return a button that runs an action on a click."""
    import ipywidgets

    button = ipywidgets.Button(description=text)
    button.on_click(lambda _: action())
    return button


def _html(session: Annotation) -> str:
    """Return progress and texts of the current pair."""
    pair = session.current
    number = session.row + 1
    n_pairs = len(session.sheet)
    n_labelled = n_pairs - len(session.open)
    test = escape(pair["test_query"])
    train = escape(pair["train_query"])
    return (
        f"<p>pair {number} · labelled {n_labelled} of {n_pairs}</p>"
        f"<p>test: <b>{test}</b><br>train: <b>{train}</b></p>"
    )
