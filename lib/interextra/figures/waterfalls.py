"""Waterfalls: a whole, and the parts that add up to it."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from pandas import DataFrame

from interextra.figures.looks import INK, Drawing, kind_of_figure
from interextra.figures.panels import distance_of, figure_of, finish, name_rows, panels_of
from interextra.figures.words import Names, extent_of, in_words, names_of

WHOLE = "#999999"
PART = "#56B4E9"
LOSS = "#D55E00"  # of a part below 0


@kind_of_figure
def waterfall(frame: DataFrame, row: Names, effect: str, label: str, panel: Names = "") -> Drawing:
    """Return wholes and their parts as lying bars, each part from where the one above it ends.

    Parameters
    ----------
    frame : columns effect, low and high. The first row of a panel is the whole, the others are its
        parts in their order.
    row : names of the rows.
    effect : the column of the whole and its parts.
    label : of the x-axis.
    panel : a whole each.
    """
    panels = panels_of(frame, panel)
    heights = [_height(part, row) for part in panels.values()]
    figure, drawn = figure_of(panels, heights, sharex=True)
    for axis, part in drawn:
        _draw(axis, part, row, effect)
    finish(figure, {}, label)
    sums = [_sum(part, row, effect) for part in panels.values()]
    seen = extent_of(f"Waterfall of {label}", frame, effect, [row, panel])
    figure.say(" ".join(sums), seen)
    return figure


def _height(part: DataFrame, row: Names) -> float:
    """Return the inches of a panel."""
    rows = names_of(part, row).unique()
    of_row = max(0.3, 1.15 * distance_of(rows))
    return 0.5 + len(rows) * of_row


def starts_of(effects: pd.Series) -> np.ndarray:
    """Return where each bar begins: the whole and its first part at 0, a part where the last ends.

    Examples
    --------
    >>> starts_of(pd.Series([0.5, 0.25, 0.125, 0.125])).tolist()
    [0.0, 0.0, 0.25, 0.375]
    """
    parts = effects.to_numpy(float)[1:]
    ends = np.cumsum(parts)
    starts = np.zeros(len(effects))
    starts[2:] = ends[:-1]
    return starts


def _draw(axis: Axes, part: DataFrame, row: Names, effect: str) -> None:
    """Draw the bars of a panel, and the interval of each from where it begins."""
    effects = part[effect].to_numpy(float)
    starts = starts_of(part[effect])
    y = np.arange(len(part))
    of_parts = np.where(effects < 0, LOSS, PART)
    colours = [WHOLE, *of_parts[1:]]
    axis.barh(y, effects, 0.6, left=starts, color=colours)
    low = starts + part["low"]
    high = starts + part["high"]
    axis.hlines(y, low, high, color=INK, lw=1.5)
    for below in range(2, len(part)):
        start = starts[below]
        axis.plot([start, start], [below - 1, below], color=INK, lw=0.6, ls=":")
    axis.axvline(0, color="black", lw=0.8)
    name_rows(axis, list(names_of(part, row)))


def _sum(part: DataFrame, row: Names, effect: str) -> str:
    """Return a whole and its parts as a sentence."""
    texts = []
    names = names_of(part, row).map(in_words)
    for name, value in zip(names, part[effect], strict=True):
        texts.append(f"{name} {value:.3g}")
    whole, *parts = texts
    capital = whole[0].upper()
    listed = "; ".join(parts)
    return f"{capital}{whole[1:]}: {listed}."
