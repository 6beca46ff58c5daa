"""Numbers over others as points."""

import itertools

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from interextra.figures.looks import (
    COLOURS,
    INK,
    captioned,
    colours_of,
    keys_of,
    kind_of_figure,
)
from interextra.figures.panels import figure_of, finish, panels_of
from interextra.figures.words import in_words, names_of, range_of


@kind_of_figure
def scatter(
    frame: DataFrame,
    x: str,
    y: str,
    hue: str,
    marker: str,
    label: str,
    panel: str,
    percent: bool,
    beside: tuple = (),
) -> Figure:
    """Return numbers over others as points.

    `beside`: a system that is not among them, with its x and y, as grey lines.
    """
    colours = colours_of(frame, hue)
    shapes = dict(zip(frame[marker].unique(), itertools.cycle("osD^vPX*"), strict=False))
    figure, drawn = figure_of(panels_of(frame, panel), 2.2, 3, sharex=True, sharey=True)
    for axis, part in drawn:
        known = part.dropna(subset=[x, y])
        for (name, value), points in known.groupby([names_of(part, hue), marker], sort=False):
            _draw_points(axis, points[x], points[y], colours[name], shapes[value])
        if beside:
            axis.axvline(beside[1], color=COLOURS["random"], ls="--", lw=1.2)
            axis.axhline(beside[2], color=COLOURS["random"], ls="--", lw=1.2)
    points = []
    for name, shape in shapes.items():
        points += keys_of({name: "#777777"}, marker=shape, lw=0)
    level = keys_of(dict.fromkeys(beside[:1], COLOURS["random"]), ls="--")
    legends = {in_words(hue): keys_of(colours, lw=4), in_words(marker): points, "": level}
    finish(figure, legends, in_words(x), label, percent)
    extent = range_of(frame, y, [hue, marker, panel], percent)
    seen = f"{label}, {len(frame)} points over {in_words(x)}: {extent}."
    message = _beside(frame[x], frame[y], *beside) if beside else seen
    return captioned(figure, message, seen)


def _draw_points(
    axis: Axes,
    x: pd.Series,
    y: pd.Series,
    colour: str,
    shape: str,
) -> None:
    """Draw points of one shape; those that look small are larger."""
    size = 60 if shape in "*^vPX" else 36
    axis.scatter(x, y, color=colour, marker=shape, s=size, ec=INK, lw=0.5)


def _beside(
    x: pd.Series,
    y: pd.Series,
    system: str,
    system_x: float,
    system_y: float,
) -> str:
    """Return how many points lie right of a system, and above it."""
    n_right = (x > system_x).sum()
    n_above = (y > system_y).sum()
    return f"Of {len(x)} points {n_right} lie right of {system} and {n_above} above it."
