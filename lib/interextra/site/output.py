"""The folder of one run of a notebook: its tables, figures, numbers, answer and provenance."""

import shutil
import time
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
from IPython.display import Image, Markdown, display
from matplotlib.figure import Figure

from interextra.site.answers import text_of
from interextra.site.travel import VALUES
from interextra.stats.effects import DRAWS
from interextra.store import InputError, provenance, sha256, write_json

NO_CLAIM = "This run asks none of the claims of this notebook."


class OutputFolder:
    """What a notebook writes.

    Parameters
    ----------
    folder
        Made anew: older tables, figures and values go.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        for part in ("tables", "figures", VALUES):
            shutil.rmtree(folder / part, ignore_errors=True)
            (folder / part).mkdir(parents=True)
        self.metrics: dict[str, Any] = {}
        self.drawn: dict[str, tuple[Figure, Image]] = {}  # figures and their pictures, by name
        self.has_trained = False  # has a trained model been used?
        self.untrained: list[str] = []  # tables that were written before
        self.seconds: dict[str, float] = {}
        self._begin = time.perf_counter()

    def table(self, frame: pd.DataFrame, name: str) -> pd.DataFrame:
        """Write `tables/<name>.csv` (10 digits, no index), and return the frame.

        Raises
        ------
        InputError
            It has no columns.
        """
        if not len(frame.columns):
            raise InputError(f"table {name!r} has no columns: nothing was measured")
        plain = frame.drop(columns=DRAWS, errors="ignore")
        path = self.folder / "tables" / f"{name}.csv"
        plain.to_csv(path, index=False, float_format="%.10g", lineterminator="\n")
        if not self.has_trained:
            self.untrained.append(name)
        return frame

    def figure(self, figure: Figure, name: str) -> Image:
        """Show a figure's caption, write `figures/<name>.png` and `.svg`.

        Returns
        -------
        Image
            The picture, with alt text.
        """
        path = self.folder / "figures" / f"{name}.png"
        texts = {"Title": figure.caption, "Description": figure.alt}
        # without a date: the same picture gives the same bytes
        figure.savefig(path, metadata={"Software": None} | texts)
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None} | texts)
        width = int(96 * figure.get_figwidth())  # pixels; the file has more
        picture = Image(path, alt=figure.alt, width=width)
        self.drawn[name] = figure, picture
        display(Markdown(escape(figure.caption, quote=False)))
        return picture

    def metric(self, name: str, value: Any) -> None:
        """Note a single number for metrics.json."""
        if hasattr(value, "item"):  # of numpy
            value = value.item()
        self.metrics[name] = value

    def answer(
        self, *sentences: str, not_shown: str = "", figure: str = "", first_screen: str = ""
    ) -> Markdown:
        """Note the answer of this notebook, for the box under its title.

        Parameters
        ----------
        sentences
            With numbers.
        not_shown
            What a reader could expect and this run does not say.
        figure
            Name of the one figure of the answer, which is written as PDF, too.
        first_screen
            What the title asks beyond the claim that answers it: beside that on the first screen.

        Raises
        ------
        InputError
            No figure of this name was drawn.
        """
        if figure and figure not in self.drawn:
            raise InputError(
                f"answer: no figure {figure!r}; there are {', '.join(self.drawn) or 'none'}"
            )
        noted: dict[str, Any] = {
            "sentences": list(sentences) or [NO_CLAIM],
            "not_shown": not_shown,
            "figure": figure,
        }
        if first_screen:
            noted["first_screen"] = first_screen
        if figure:  # as it goes into a paper
            drawn, picture = self.drawn[figure]
            undated = dict.fromkeys(("CreationDate", "Creator", "Producer"))
            path = self.folder / "figures" / f"{figure}.pdf"
            metadata = undated | {"Title": drawn.caption}
            drawn.column().savefig(path, metadata=metadata)
            noted |= {"alt": picture.alt, "width": picture.width}
        self.metric("answer", noted)
        return Markdown(text_of(noted, "In this run"))

    def write_record(self, root: Path, **sections: Any) -> dict:
        """Write metrics.json and provenance.json, with checksums and seconds a stage."""
        seconds = time.perf_counter() - self._begin
        self.seconds["whole notebook"] = round(seconds, 3)
        write_json(self.folder / "metrics.json", self.metrics)
        results = {}
        for part in ("tables", "figures"):
            for path in sorted((self.folder / part).glob("*.*")):
                name = path.relative_to(self.folder).as_posix()
                results[name] = sha256(path)
        record = provenance.record(root, **sections, results=results, seconds=self.seconds)
        write_json(self.folder / "provenance.json", record)
        return record
