"""What parts add up to, as waterfalls."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from pandas import DataFrame

from interextra.figures.looks import COLOURS, INK, Drawing, keys_of, kind_of_figure
from interextra.figures.panels import distance_of, figure_of, finish, name_rows
from interextra.figures.words import axis_name, extent_of, in_words

WHOLE = "#999999"
ADDS = "#56B4E9"
TAKES = COLOURS["opposite"]
LEAST = 0.005  # of a part whose bar can be seen


@kind_of_figure
def waterfall(
    frame: DataFrame,
    part: str,
    effect: str,
    label: str,
    titles: Sequence[str] = (),
) -> Drawing:
    """Return a whole and the parts that add up to it, a bar each, which begins where the last ends.

    Parameters
    ----------
    frame : columns effect, low and high. The first row is the whole, the others are its parts in
        their order. Where they have added up to it, the next ones take it apart in another way,
        which is a panel of its own.
    part : names of the rows.
    effect : the column of the effects.
    label : of the x-axis.
    titles : of the panels.
    """
    label = axis_name(label, effect)
    whole, ways = _ways(frame, effect)
    numbered = map(str, range(len(ways)))
    names = titles if len(titles) == len(ways) else numbered  # a panel needs a name of its own
    panels = dict(zip(names, ways, strict=True))
    heights = [_height(way[part].map(in_words)) for way in ways]
    figure, drawn = figure_of(panels, heights, sharex=True)
    for axis, way in drawn:
        _draw(axis, way, part, effect)
        if names is numbered:
            axis.set_title("")
    colours = {"whole": WHOLE, "part": ADDS}
    if (frame[effect] < -LEAST).any():
        colours["part below 0"] = TAKES
    keys = keys_of(colours, marker="s", lw=0, ms=7)
    keys += keys_of({"95 % interval": INK}, lw=1.2)
    finish(figure, {"": keys}, label)
    figure.say(_shares(whole, ways, part, effect), extent_of(label, frame, effect, [part]))
    return figure


def _ways(frame: DataFrame, effect: str) -> tuple[float, list[DataFrame]]:
    """Return the whole, and for each way to take it apart the rows of the whole and its parts."""
    whole = frame[effect].iloc[0]
    first = frame.index[0]
    ways = []
    rows = [first]
    total = 0.0
    for row, number in frame[effect].iloc[1:].items():
        rows.append(row)
        total += number
        if math.isclose(total, whole, abs_tol=1e-6):
            ways.append(frame.loc[rows])
            rows = [first]
            total = 0.0
    if len(rows) > 1 or not ways:  # parts of which one is missing
        ways.append(frame.loc[rows])
    return whole, ways


def _height(names: Sequence[str]) -> float:
    """Return the inches of a panel."""
    of_row = max(0.32, distance_of(list(names)))
    return 0.35 + len(names) * of_row


def _draw(axis: Axes, way: DataFrame, part: str, effect: str) -> None:
    """Draw the whole from 0, and each part from the end of the one before, with its interval."""
    numbers = way[effect].to_numpy(float)
    ends = np.cumsum([0.0, *numbers[1:]])
    starts = np.array([0.0, *ends[:-1]])
    rows = np.arange(len(way))
    colours = [WHOLE] + [ADDS if number >= 0 else TAKES for number in numbers[1:]]
    axis.barh(rows, numbers, 0.62, left=starts, color=colours)
    axis.hlines(rows, starts + way["low"], starts + way["high"], color="black", lw=1.2)
    for row, end in enumerate(ends[1:], start=1):
        if row + 1 < len(way):  # where the next one begins
            axis.vlines(end, row, row + 1, color=INK, lw=0.8, ls=":")
    axis.axvline(0, color="black", lw=0.8)
    texts = np.fmax(starts + way["high"], np.fmax(starts, starts + numbers))
    for row, (place, number) in enumerate(zip(texts, numbers, strict=True)):
        axis.annotate(
            _short(number),
            (place, row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
        )
    axis.margins(x=0.12)
    name_rows(axis, list(way[part]))


def _short(number: float) -> str:
    """Return a number with two digits and its sign, none of what rounds to 0."""
    rounded = round(number, 2) + 0.0  # no -0
    return f"{rounded:+.2f}" if rounded else "0.00"


def _shares(whole: float, ways: Sequence[DataFrame], part: str, effect: str) -> str:
    """Return how much of the whole each part is, a sentence for each way to take it apart."""
    sentences = []
    for way in ways:
        names = way[part].map(in_words)
        shares = way[effect] / whole
        listed = []
        for name, share in zip(names.iloc[1:], shares.iloc[1:], strict=True):
            percent = round(100 * share) + 0  # no -0
            listed.append(f"{percent} % {name}")
        sentences.append(f"Of the {names.iloc[0]} ({_short(whole)}): {'; '.join(listed)}.")
    return " ".join(sentences)
