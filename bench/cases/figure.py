"""The figure of seconds over size."""

from collections.abc import Iterable
from typing import Any

import matplotlib.ticker
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from interextra.figures import Drawing
from interextra.figures.looks import INK, OTHERS, kind_of_figure
from interextra.figures.panels import figure_of, finish, panels_of
from interextra.figures.words import wrapped

from .form import OURS

INCHES = 1.25  # of what is written below a panel
MARKERS = "os^"


@kind_of_figure
def figure_of_seconds(rows: pd.DataFrame) -> Drawing:
    """Return seconds over size, both logarithmic, a panel a case, a line a system."""
    looks = looks_of(rows["system"].unique())
    figure, drawn = figure_of(panels_of(rows, "case"), 1.8, 3)
    for axis, part in drawn:
        draw_case(axis, part, looks)
    figure.supylabel("seconds")
    keys = {"the kit": [], "others": []}
    for system, look in looks.items():
        title = "the kit" if is_ours(system) else "others"
        keys[title].append(Line2D([], [], label=system, **look))
    finish(figure, keys)
    last = rows.groupby(["case", "system"], sort=False).tail(1)
    peers = last[~last["system"].map(is_ours)]
    n_slower = int((peers["ratio"] > 1).sum())
    message = f"At the largest size the kit is faster than {n_slower} of {len(peers)} others."
    seen = f"Lines of seconds over size in {rows['case'].nunique()} panels. {message}"
    figure.say(message, seen)
    return figure


def is_ours(system: str) -> bool:
    """Return whether a system is a way of the kit."""
    return system.startswith(OURS)


def looks_of(systems: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the look of each system's line, another for each."""
    looks: dict[str, dict[str, Any]] = {}
    n_others = 0
    for system in systems:
        if is_ours(system):
            line_style = "-" if system == OURS else "--"
            looks[system] = {"color": INK, "marker": "o", "ms": 3, "lw": 2, "ls": line_style}
            continue
        round_of_colours, place = divmod(n_others, len(OTHERS))
        marker = MARKERS[round_of_colours]
        looks[system] = {"color": OTHERS[place], "marker": marker, "ms": 4, "lw": 1.2}
        n_others += 1
    return looks


def draw_case(axis: Axes, part: pd.DataFrame, looks: dict[str, dict[str, Any]]) -> None:
    """Draw a panel."""
    for system, points in part.groupby("system", sort=False):
        axis.plot(points["n"], points["seconds"], **looks[system])
    axis.set_xscale("log")
    axis.set_yscale("log")
    places = part["n"].unique().tolist()
    ends = (min(places), max(places))
    axis.set_xticks(places, [short(place) if place in ends else "" for place in places])
    axis.minorticks_off()
    seconds = matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}")
    axis.yaxis.set_major_formatter(seconds)
    axis.set_xlabel(wrapped(part["counted"].iloc[0], INCHES))
    axis.margins(y=0.1)


def short(number: int) -> str:
    """Return a number in few letters.

    >>> [short(number) for number in (250, 12_500, 503_000, 2_000_000)]
    ['250', '12.5k', '503k', '2M']
    """
    for unit, name in ((10**6, "M"), (10**3, "k")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return str(number)
