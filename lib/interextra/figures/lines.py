"""Lines over a number."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from pandas import DataFrame

from interextra.figures.looks import INK, Drawing, colours_of, keys_of, kind_of_figure
from interextra.figures.panels import figure_of, finish, panels_of
from interextra.figures.words import Names, counted, extent_of, in_words, names_of


@kind_of_figure
def curves(
    frame: DataFrame,
    x: str,
    y: str,
    hue: Names,
    label: str,
    panel: Names = "",
    percent: bool = False,
) -> Drawing:
    """Return lines over a number, a colour a hue.

    Parameters
    ----------
    frame : columns x, y, and low and high where there are intervals, drawn as bars: then lines
        stand apart. published: a level, the same for all x, dotted.
    label : of the y-axis.
    panel : a panel each.
    percent : y are fractions.
    """
    panels = panels_of(frame, panel)
    colours = colours_of(frame, hue)
    asides = _asides(frame, x, list(colours))
    figure, drawn = figure_of(panels, 1.7, 3, sharex=True, sharey=True)
    rises = []
    for axis, part in drawn:
        for name, points in part.groupby(names_of(part, hue), sort=False):
            line = points.sort_values(x)
            _draw_line(axis, line, line[x] + asides[name], y, colours[name])
            values = line[y].tolist()
            rises.append((name, values[-1] - values[0]))
        has_whole_numbers = pd.api.types.is_integer_dtype(frame[x])
        axis.locator_params(axis="x", integer=has_whole_numbers)
    if "low" in frame and frame[y].notna().any():
        figure.axes[0].set_ylim(_limits(frame, y))  # and so of all panels
    hues = keys_of(colours, marker="o", ms=4, lw=2)
    level = keys_of({"published": INK}, ls=":") if "published" in frame else []
    finish(figure, {in_words(hue): hues, "": level}, in_words(x), label, percent)
    lines = DataFrame(rises, columns=["name", "rise"])
    what = f"Lines of {label} over {in_words(x)}"
    seen = extent_of(what, frame, y, [hue, x, panel], percent)
    figure.say(_rising(lines, in_words(x), in_words(hue)), seen)
    return figure


def _asides(frame: DataFrame, x: str, names: list[str]) -> dict[str, float]:
    """Return how far aside each line stands, so that bars of intervals can be told apart."""
    if "low" not in frame:
        return dict.fromkeys(names, 0)
    middle = (len(names) - 1) / 2
    places = np.arange(len(names)) - middle
    asides = 0.02 * np.ptp(frame[x]) * places
    return dict(zip(names, asides, strict=True))


def _draw_line(
    axis: Axes,
    line: DataFrame,
    x: pd.Series,
    y: str,
    colour: str,
) -> None:
    """Draw a line with its intervals and its published level."""
    axis.plot(x, line[y], color=colour, marker="o", ms=4, lw=1.2)
    if "low" in line:
        axis.vlines(x, line["low"], line["high"], color=colour, lw=1)
    if "published" in line and line["published"].notna().any():
        axis.axhline(line["published"].iloc[0], color=colour, ls=":")


def _limits(frame: DataFrame, y: str) -> tuple[float, float]:
    """Return the ends of the y-axis; wide intervals are cut, so that lines can be told apart."""
    room = 1.2 * np.ptp(frame[y].dropna()) or 0.01  # all values equal
    lowest = frame[y].min() - room
    highest = frame[y].max() + room
    low = np.fmax(frame["low"].min(), lowest)
    high = np.fmin(frame["high"].max(), highest)
    return low - 0.1 * room, high + 0.1 * room


def _rising(lines: DataFrame, x: str, hue: str) -> str:
    """Return which lines end higher than they begin, and which lower."""
    names = lines["name"]
    if names.str.isdigit().all():
        names = f"{hue} " + names
    sides = {
        f"Lines that end higher than they begin, over {x}": lines["rise"] > 0,
        "Lower": lines["rise"] < 0,
    }
    return counted(sides, names, " panels")
