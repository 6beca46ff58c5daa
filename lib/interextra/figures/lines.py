"""Lines over a number."""

from collections.abc import Collection, Iterable, Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from pandas import DataFrame

from interextra.figures.looks import INK, Drawing, colours_of, keys_of, kind_of_figure
from interextra.figures.panels import figure_of, finish, panels_of
from interextra.figures.words import (
    DIFFERENCES,
    Names,
    axis_name,
    counted,
    extent_of,
    in_words,
    names_of,
)

LEVEL_STYLES = ("--", ":", "-.")  # of horizontal lines
CHOSEN = "chosen"  # column that marks a place on the x-axis


@kind_of_figure
def curves(
    frame: DataFrame,
    x: str,
    y: str,
    hue: Names,
    label: str,
    panel: Names = "",
    percent: bool = False,
    log: bool = False,
) -> Drawing:
    """Return lines over a number, a colour a hue.

    Parameters
    ----------
    frame : columns x, y, and low and high where there are intervals, drawn as bars: then lines
        stand apart. published: a level, the same for all x, dotted.
    label : of the y-axis; of differences it says so where it does not yet, and a line is at 0.
    panel : a panel each.
    percent : y are fractions.
    log : x is a few numbers on a logarithmic axis, which alone are written below it.
    """
    panels = panels_of(frame, panel)
    colours = colours_of(frame, hue)
    label = axis_name(label, y)
    asides = _asides(frame, x, colours, log)
    figure, drawn = figure_of(panels, 1.7, 3, sharex=True, sharey=True)
    for axis, part in drawn:
        _draw_lines(axis, part, x, y, hue, colours, asides, log)
        if y in DIFFERENCES:
            axis.axhline(0, color="black", lw=0.8)
    _limit(figure.axes[0], frame, y)  # and so all panels
    if log:
        _make_logarithmic(figure.axes, frame[x])
    hues = keys_of(colours, marker="o", ms=4, lw=2)
    level = keys_of({"published": INK}, ls=":") if "published" in frame else []
    finish(figure, {in_words(hue): hues, "": level}, in_words(x), label, percent)
    message = _rising(panels.values(), x, y, hue, label)
    what = f"Lines of {label} over {in_words(x)}"
    seen = extent_of(what, frame, y, [hue, x, panel], percent)
    figure.say(message, seen)
    return figure


@kind_of_figure
def bands(
    frame: DataFrame,
    x: str,
    y: str,
    hue: Names,
    label: str,
    panel: Names = "",
    levels: Mapping[str, float] | None = None,
    log: bool = False,
) -> Drawing:
    """Return lines over a number with their intervals as bands, a colour a hue.

    Parameters
    ----------
    frame : columns x, y, low and high. chosen: whether the place on the x-axis is marked by a
        vertical line.
    label : of the y-axis.
    panel : a panel each.
    levels : name → height of a horizontal line.
    log : x is a few numbers on a logarithmic axis, which alone are written below it.
    """
    panels = panels_of(frame, panel)
    colours = colours_of(frame, hue)
    level_keys = _level_keys(levels or {})
    figure, drawn = figure_of(panels, 2.2, 2, sharex=True, sharey=True)
    for axis, part in drawn:
        _draw_bands(axis, part, x, y, hue, colours)
        for key, level in zip(level_keys, (levels or {}).values(), strict=True):
            axis.axhline(level, color=INK, ls=key.get_linestyle(), lw=1)
    if log:
        _make_logarithmic(figure.axes, frame[x])
    hues = keys_of(colours, marker="o", ms=4, lw=2)
    marks = []
    if CHOSEN in frame:
        marks = keys_of({"chosen on the gate's queries": INK}, lw=0.8)
    finish(figure, {in_words(hue): hues, "": [*level_keys, *marks]}, in_words(x), label)
    message = _rising(panels.values(), x, y, hue, label)
    seen = extent_of(f"Lines of {label} over {in_words(x)}", frame, y, [hue, x, panel])
    for name, level in (levels or {}).items():
        seen += f" {name}: {level:.3g}."
    figure.say(message, seen)
    return figure


def _level_keys(levels: Mapping[str, float]) -> list[Line2D]:
    """Return the key of each horizontal line."""
    keys = []
    for name, line_style in zip(levels, LEVEL_STYLES, strict=False):
        keys += keys_of({name: INK}, ls=line_style, lw=1)
    return keys


def _draw_bands(
    axis: Axes, part: DataFrame, x: str, y: str, hue: Names, colours: dict[str, str]
) -> None:
    """Draw the lines of a panel, their bands, and the place that was chosen."""
    for name, line in _lines(part, x, hue).items():
        colour = colours[name]
        axis.fill_between(line[x], line["low"], line["high"], color=colour, alpha=0.18, lw=0)
        axis.plot(line[x], line[y], color=colour, marker="o", ms=4, lw=1.4)
    if CHOSEN in part:
        for place in part.loc[part[CHOSEN], x].unique():
            axis.axvline(place, color=INK, lw=0.8)


def _make_logarithmic(axes: Iterable[Axes], numbers: pd.Series) -> None:
    """Make the x-axis of panels logarithmic, with the numbers of a frame below it."""
    places = sorted(numbers.unique())
    texts = [f"{place:,}" for place in places]
    for axis in axes:
        axis.set_xscale("log")
        axis.set_xticks(places, texts)
        axis.minorticks_off()


def _lines(part: DataFrame, x: str, hue: Names) -> dict[str, DataFrame]:
    """Return the points of each line of a panel, from left to right."""
    by_hue = part.groupby(names_of(part, hue), sort=False)
    return {name: points.sort_values(x) for name, points in by_hue}


def _rises(parts: Iterable[DataFrame], x: str, y: str, hue: Names) -> DataFrame:
    """Return the name of each line of all panels, and how much higher it ends than it begins.

    Columns: name, rise, is_steady (no step goes the other way).
    """
    rises = []
    for part in parts:
        for name, line in _lines(part, x, hue).items():
            values = line[y].tolist()
            rise = values[-1] - values[0]
            steps = np.diff(values) * np.sign(rise)
            is_steady = bool((steps >= 0).all())
            rises.append((name, rise, is_steady))
    return DataFrame(rises, columns=["name", "rise", "is_steady"])


def _asides(frame: DataFrame, x: str, names: Collection[str], log: bool) -> dict[str, float]:
    """Return how far aside each line stands, so that bars of intervals can be told apart.

    Of the range of x, or of that of its logarithm.
    """
    if "low" not in frame:
        return dict.fromkeys(names, 0)
    middle = (len(names) - 1) / 2
    places = np.arange(len(names)) - middle
    numbers = np.log(frame[x]) if log else frame[x]
    asides = 0.02 * np.ptp(numbers) * places
    return dict(zip(names, asides, strict=True))


def _draw_lines(
    axis: Axes,
    part: DataFrame,
    x: str,
    y: str,
    hue: Names,
    colours: dict[str, str],
    asides: dict[str, float],
    log: bool,
) -> None:
    """Draw the lines of a panel, each aside of the others."""
    for name, line in _lines(part, x, hue).items():
        aside = asides[name]
        places = line[x] * np.exp(aside) if log else line[x] + aside
        _draw_line(axis, line, places, y, colours[name])
    if not log:
        has_whole_numbers = pd.api.types.is_integer_dtype(part[x])
        axis.locator_params(axis="x", integer=has_whole_numbers)


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
        level = line["published"].iloc[0]
        axis.axhline(level, color=colour, ls=":")


def _limit(axis: Axes, frame: DataFrame, y: str) -> None:
    """Set the ends of the y-axis; wide intervals are cut, so that lines can be told apart."""
    if "low" not in frame or frame[y].isna().all():
        return
    span = np.ptp(frame[y].dropna())
    room = 1.2 * span or 0.01  # all values equal
    lowest = frame[y].min() - room
    highest = frame[y].max() + room
    low = np.fmax(frame["low"].min(), lowest)
    high = np.fmin(frame["high"].max(), highest)
    if y in DIFFERENCES:
        low, high = min(low, 0), max(high, 0)
    axis.set_ylim(low - 0.1 * room, high + 0.1 * room)


def _rising(parts: Iterable[DataFrame], x: str, y: str, hue: Names, label: str) -> str:
    """Return which lines of all panels end higher than they begin, and which lower."""
    lines = _rises(parts, x, y, hue)
    names = lines["name"]
    over = in_words(x)
    which = "Every" if len(lines) > 1 else "The"
    sides = {("rises", "higher"): lines["rise"] > 0, ("falls", "lower"): lines["rise"] < 0}
    for (steadily, in_the_end), is_there in sides.items():
        if is_there.all() and lines["is_steady"].all():
            return f"{which} line of {label} {steadily} with {over}."
        if is_there.all():
            return f"{which} line of {label} is {in_the_end} at its end than at its beginning."
    if names.str.isdigit().all():
        names = f"{in_words(hue)} " + names
    by_end = {
        f"Higher at the end of {over} than at its beginning": lines["rise"] > 0,
        "Lower": lines["rise"] < 0,
    }
    return counted(by_end, names, " panels")
