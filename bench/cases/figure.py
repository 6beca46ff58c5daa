"""The figure of seconds over size."""

import matplotlib.ticker
import pandas as pd
from matplotlib.axes import Axes

from interextra.figures import Drawing, colours_of
from interextra.figures.looks import keys_of, kind_of_figure
from interextra.figures.panels import figure_of, panels_of

from .form import OURS

LINE = {"marker": "o", "ms": 4, "lw": 1.4}


@kind_of_figure
def figure_of_seconds(rows: pd.DataFrame) -> Drawing:
    """Return seconds over size, both logarithmic, a panel a case, a colour a system."""
    figure, drawn = figure_of(panels_of(rows, "case"), 2, 2)
    for axis, part in drawn:
        draw_case(axis, part)
    figure.supylabel("seconds, the least of several repeats")
    last = rows.groupby(["case", "system"], sort=False).tail(1)
    peers = last[~last["system"].str.startswith(OURS)]
    n_slower = int((peers["ratio"] > 1).sum())
    message = f"At the largest size the kit is faster than {n_slower} of {len(peers)} others."
    seen = f"Lines of seconds over size in {rows['case'].nunique()} panels. {message}"
    figure.say(message, seen)
    return figure


def draw_case(axis: Axes, part: pd.DataFrame) -> None:
    """Draw a panel."""
    colours = colours_of(part, "system")
    for system, points in part.groupby("system", sort=False):
        axis.plot(points["n"], points["seconds"], color=colours[system], **LINE)
    axis.set_xscale("log")
    axis.set_yscale("log")
    places = part["n"].unique().tolist()
    axis.set_xticks(places, [short(place) for place in places])
    axis.minorticks_off()
    seconds = matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}")
    axis.yaxis.set_major_formatter(seconds)
    axis.set_xlabel(part["counted"].iloc[0])
    axis.margins(y=0.15)
    keys = keys_of(colours, **LINE)
    axis.legend(handles=keys, fontsize="small")


def short(number: int) -> str:
    """Return a number in few letters.

    >>> [short(number) for number in (250, 12_500, 503_000, 2_000_000)]
    ['250', '12.5k', '503k', '2M']
    """
    for unit, name in ((10**6, "M"), (10**3, "k")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return str(number)
