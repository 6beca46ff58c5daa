"""Distributions below each other."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from pandas import DataFrame
from pandas.api.typing import SeriesGroupBy

from interextra.figures.looks import COLOURS, INK, Drawing, keys_of, kind_of_figure
from interextra.figures.panels import figure_of_rows, finish, name_rows, panels_of
from interextra.figures.words import Names, extent_of, names_of

QUANTILES = 20  # dots of a distribution
MEDIAN = COLOURS["median"]


@kind_of_figure
def histogram(
    frame: DataFrame,
    value: str,
    row: str,
    label: str,
    panel: Names = "",
) -> Drawing:
    """Return distributions below each other, a row each, as 20 dots, each for 5 % of its values.

    A line is the median.
    """
    panels = panels_of(frame, panel)
    heights = [0.4 + 0.42 * part[row].nunique() for part in panels.values()]
    figure, drawn = figure_of_rows(panels, heights, row)
    edges = np.histogram_bin_edges(frame[value].dropna(), 40)
    for axis, part in drawn:
        by_row = part.groupby(row, sort=False)
        _draw_rows(axis, by_row[value], edges)
    finish(figure, {"": _keys()}, label)
    titles = names_of(frame, panel).rename("in")
    distributions = frame.groupby([titles, row], sort=False)[value]
    medians = distributions.median().reset_index()
    message = extent_of(f"Median {label}", medians, value, [row, "in"])
    what = f"Distributions of {label} as dots"
    seen = extent_of(what, frame, value, [row, panel])
    figure.say(message, seen)
    return figure


def _draw_rows(axis: Axes, distributions: SeriesGroupBy, edges: np.ndarray) -> None:
    """Draw the distributions of a panel, the first above."""
    for y, (name, values) in enumerate(distributions):
        colour = COLOURS.get(name, INK)
        _draw_row(axis, y, values.dropna().to_numpy(), edges, colour)
    names = [str(name) for name in distributions.groups]
    name_rows(axis, names, top=-0.6)


def _draw_row(
    axis: Axes,
    y: int,
    values: np.ndarray,
    edges: np.ndarray,
    colour: str,
) -> None:
    """Draw a distribution and its median.

    Dots of one pile stand on each other and stay below the next row.
    """
    shares = (np.arange(QUANTILES) + 0.5) / QUANTILES
    dots = np.quantile(values, shares)
    pile = np.digitize(dots, edges)
    height = np.arange(QUANTILES) - np.searchsorted(pile, pile)
    highest = max(1, height.max())
    step = min(0.1, 0.6 / highest)
    places = y + 0.25 - step * height
    axis.scatter(dots, places, s=10, color=colour, lw=0)
    median = np.median(values)
    line = [y + 0.32, y + 0.45]
    axis.plot([median, median], line, color=MEDIAN, lw=2)


def _keys() -> list[Line2D]:
    """Return the keys of dots and medians."""
    dot = keys_of({"5 % of a row": INK}, marker="o", lw=0, ms=3.5)
    line = keys_of({"median": MEDIAN}, marker="|", lw=0, mew=2, ms=7)
    return dot + line
