"""Distributions below each other."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from interextra.figures.looks import COLOURS, INK, captioned, keys_of, kind_of_figure
from interextra.figures.panels import figure_of, finish, name_rows, panels_of
from interextra.figures.words import Names, names_of, range_of

QUANTILES = 20  # dots of a distribution


@kind_of_figure
def histogram(
    frame: DataFrame,
    value: str,
    row: str,
    label: str,
    panel: Names = "",
) -> Figure:
    """Return distributions below each other, a row each, as 20 dots, each for 5 % of its values.

    A line is the median.
    """
    panels = panels_of(frame, panel)
    edges = np.histogram_bin_edges(frame[value].dropna(), 40)
    heights = [0.4 + 0.42 * part[row].nunique() for part in panels.values()]
    figure, drawn = figure_of(panels, heights, 3, row, sharex=True)
    for axis, part in drawn:
        rows = part.groupby(row, sort=False)[value]
        for y, (name, values) in enumerate(rows):
            _draw_dots(axis, y, values.dropna().to_numpy(), edges, COLOURS.get(name, INK))
            median = [values.median()] * 2
            axis.plot(median, [y + 0.32, y + 0.45], color=COLOURS["median"], lw=2)
        name_rows(axis, list(map(str, rows.groups)), top=-0.6)
    dot = keys_of({f"{100 // QUANTILES} % of a row": INK}, marker="o", lw=0, ms=3.5)
    line = keys_of({"median": COLOURS["median"]}, marker="|", lw=0, mew=2, ms=7)
    finish(figure, {"": dot + line}, label)
    titles = names_of(frame, panel).rename("in")
    medians = frame.groupby([titles, row], sort=False)[value].median().reset_index()
    message = f"Median {label}: {range_of(medians, value, [row, 'in'])}."
    extent = range_of(frame, value, [row, panel])
    return captioned(figure, message, f"Distributions of {label} as dots: {extent}.")


def _draw_dots(
    axis: Axes,
    y: int,
    values: np.ndarray,
    edges: np.ndarray,
    colour: str,
) -> None:
    """Draw a distribution; dots of one pile stand on each other and stay below the next row."""
    dots = np.quantile(values, (np.arange(QUANTILES) + 0.5) / QUANTILES)
    pile = np.digitize(dots, edges)
    height = np.arange(QUANTILES) - np.searchsorted(pile, pile)
    step = min(0.1, 0.6 / max(1, height.max()))
    axis.scatter(dots, y + 0.25 - step * height, s=10, color=colour, lw=0)
