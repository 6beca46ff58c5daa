"""Distributions below each other."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from pandas import DataFrame

from interextra.figures.looks import COLOURS, INK, Drawing, keys_of, kind_of_figure
from interextra.figures.panels import figure_of_rows, finish, name_rows, panels_of
from interextra.figures.words import Names, names_of, range_of

QUANTILES = 20  # dots of a distribution


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
    edges = np.histogram_bin_edges(frame[value].dropna(), 40)
    heights = [0.4 + 0.42 * part[row].nunique() for part in panels.values()]
    figure, drawn = figure_of_rows(panels, heights, row)
    for axis, part in drawn:
        distributions = part.groupby(row, sort=False)[value]
        for y, (name, values) in enumerate(distributions):
            known = values.dropna().to_numpy()
            _draw_row(axis, y, known, edges, COLOURS.get(name, INK))
        name_rows(axis, list(map(str, distributions.groups)), top=-0.6)
    finish(figure, {"": _keys()}, label)
    titles = names_of(frame, panel).rename("in")
    medians = frame.groupby([titles, row], sort=False)[value].median().reset_index()
    message = f"Median {label}: {range_of(medians, value, [row, 'in'])}."
    extent = range_of(frame, value, [row, panel])
    figure.say(message, f"Distributions of {label} as dots: {extent}.")
    return figure


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
    dots = np.quantile(values, (np.arange(QUANTILES) + 0.5) / QUANTILES)
    pile = np.digitize(dots, edges)
    height = np.arange(QUANTILES) - np.searchsorted(pile, pile)
    step = min(0.1, 0.6 / max(1, height.max()))
    axis.scatter(dots, y + 0.25 - step * height, s=10, color=colour, lw=0)
    axis.plot([np.median(values)] * 2, [y + 0.32, y + 0.45], color=COLOURS["median"], lw=2)


def _keys() -> list[Line2D]:
    """Return the keys of dots and medians."""
    dot = {f"{100 // QUANTILES} % of a row": INK}
    median = {"median": COLOURS["median"]}
    return [
        *keys_of(dot, marker="o", lw=0, ms=3.5),
        *keys_of(median, marker="|", lw=0, mew=2, ms=7),
    ]
