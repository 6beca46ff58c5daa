"""The look of all figures: sizes, colours, and how a figure draws itself at another width."""

import functools
import itertools
import re
from collections.abc import Callable

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from pandas import DataFrame

from interextra.figures.words import Names, in_words, names_of
from interextra.models.architectures import architectures

INK = "#333333"  # where colour says nothing
WIDTH = 5  # inches, of a page (480 pixels)
COLUMN = 3.33  # inches, of a column in print (ACM)
# Colour-blind safe: Okabe and Ito, and three of Tol's
COLOURS = {
    "interpolation": "#E69F00",
    "extrapolation": "#0072B2",
    "random": "#999999",
    "published": "#CC79A7",
    "median": "#D55E00",
    "": INK,
}
COLOURS |= {module.LABEL: module.COLOUR for module in architectures().values()}
SYSTEMS = {module.LABEL for module in architectures().values()}
OTHERS = [
    "#56B4E9",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#D55E00",
    "#882255",
    "#0072B2",
    "#44AA99",
    "#332288",
    "#999933",
]


def style() -> None:
    """Set the kit's look, as `ix.start` does."""
    titles = ("axes.titlesize", "axes.labelsize", "figure.labelsize", "legend.title_fontsize")
    mpl.rcParams.update(dict.fromkeys(titles, "medium"))
    mpl.rcParams.update(
        {
            "figure.figsize": (WIDTH, 3),
            "savefig.dpi": 200,
            "font.size": 9,
            "axes.axisbelow": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "legend.frameon": False,
            "grid.alpha": 0.25,
            "pdf.fonttype": 42,
            "svg.fonttype": "none",
            "svg.hashsalt": "interextra",  # same bytes
        }
    )


def kind_of_figure(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Let a figure draw itself again, at the width of a column in print."""

    @functools.wraps(draw)
    def _drawn(*args: object, **options: object) -> Figure:
        narrow = mpl.rc_context({"figure.figsize": (COLUMN, 3), "font.size": 8})
        figure = draw(*args, **options)
        figure.column = narrow(functools.partial(draw, *args, **options))
        return figure

    return _drawn


def captioned(figure: Figure, message: str, seen: str) -> Figure:
    """Return the figure with its caption and what is seen, without where an axis points to."""
    arrows = r"← [\w ]+?   |   [\w ]+ →"
    figure.caption = re.sub(arrows, "", message)
    figure.alt = re.sub(arrows, "", seen)
    return figure


def colours_of(frame: DataFrame, hue: Names) -> dict[str, str]:
    """Return the colour of each name of the hue: the kit's own, else one that is left.

    Numbers are light to dark.
    """
    if hue in list(frame) and pd.api.types.is_numeric_dtype(frame[hue]):
        numbers = names_of(frame.sort_values(hue), hue).unique()
        return dict(zip(numbers, blues(len(numbers), 0.45)[::-1], strict=True))
    names = list(names_of(frame, hue).unique())
    shown = [*names, "published"]
    reserved = COLOURS if SYSTEMS.intersection(names) else shown
    reserved_colours = {COLOURS.get(name) for name in reserved}
    shown_colours = {COLOURS.get(name) for name in shown}
    free = [colour for colour in OTHERS if colour not in shown_colours]
    free.sort(key=lambda colour: colour in reserved_colours)  # of systems not here: last
    left = itertools.cycle(free)
    return {name: COLOURS.get(name) or next(left) for name in names}


def blues(n: int, lightest: float) -> list[str]:
    """Return n blues, from dark to light."""
    shades = mpl.colormaps["Blues"](np.linspace(1.0, lightest, n))
    return [mpl.colors.to_hex(shade) for shade in shades]


def keys_of(colours: dict[str, str], **look: object) -> list[Line2D]:
    """Return the keys of a legend, one a name."""
    keys = []
    for name, colour in colours.items():
        keys.append(Line2D([], [], color=colour, label=in_words(name), **look))
    return keys
