"""Filling in an annotation sheet in a notebook: a session that knows no browser, and a widget
around it.
"""

from collections.abc import Callable
from html import escape
from pathlib import Path

import numpy as np

from interextra.overlap.annotation import read_sheet, write_sheet
from interextra.overlap.labels import LABELS


class Annotation:
    """One annotator's way through a sheet. Each choice is on disk before the next pair is shown.

    `row`, the place in the sheet, starts at the first pair that lacks a label. `changed` is called
    after each step.
    """

    def __init__(self, path: Path | str):
        self.path, self.row = Path(path), 0
        self.sheet = read_sheet(self.path, complete=False)
        self._history: list[tuple[int, str, str]] = []
        self.changed: Callable[[], None] = lambda: None
        self.next(0)

    @property
    def current(self) -> dict[str, str]:
        return self.sheet.iloc[self.row].to_dict()

    @property
    def open(self) -> np.ndarray:
        """Rows of the pairs that lack a label."""
        return np.flatnonzero((self.sheet[list(LABELS)] == "").any(axis=1))

    def next(self, step: int = 1) -> None:
        """Go to the first pair with an open label, from `step` pairs on and round the end; stay
        where none is open.
        """
        if len(self.open):
            self.row = int(self.open[np.argmax(self.open >= self.row + step)])
        self.changed()

    def label(self, column: str, label: str) -> None:
        """Give a label (column entity or intent), write the sheet, go on when the pair has both."""
        self._history.append((self.row, column, self.sheet.loc[self.row, column]))
        self.sheet.loc[self.row, column] = label
        write_sheet(self.path, self.sheet)
        self.next(0)

    def undo(self) -> None:
        """Take the last choice back and return to its pair; nothing happens when there is none."""
        if self._history:
            self.row, column, before = self._history.pop()
            self.sheet.loc[self.row, column] = before
            write_sheet(self.path, self.sheet)
            self.changed()


def widget(sheet_path: Path | str):
    """A box to label a sheet pair by pair, its source hidden; it writes each choice. `session`: its
    `Annotation`.
    """
    import ipywidgets

    session, view, buttons, rows = Annotation(sheet_path), ipywidgets.HTML(), {}, []

    def show() -> None:
        pair, total = session.current, len(session.sheet)
        view.value = (
            f"<p>pair {session.row + 1} · labelled {total - len(session.open)} of {total}</p>"
            f"<p>test: <b>{escape(pair['test_query'])}</b><br>train: <b>{escape(pair['train_query'])}</b></p>"
        )
        for (column, label), each in buttons.items():
            each.button_style = "info" if pair[column] == label else ""

    def button(text: str, do, *arguments):
        made = ipywidgets.Button(description=text)
        made.on_click(lambda _: do(*arguments))
        return made

    for column, labels in LABELS.items():
        for label in labels:
            buttons[column, label] = button(label, session.label, column, label)
        rows.append(
            ipywidgets.HBox(
                [ipywidgets.Label(column), *(buttons[column, label] for label in labels)]
            )
        )
    rows.append(
        ipywidgets.HBox([button("undo", session.undo), button("next open pair", session.next)])
    )
    session.changed = show
    show()
    box = ipywidgets.VBox([view, *rows])
    box.session = session
    return box
