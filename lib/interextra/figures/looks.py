"""The look of all figures: sizes, colours, and how a figure draws itself at another width."""

import functools
import itertools
import re
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec

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
SYSTEMS = {module.LABEL: module.COLOUR for module in architectures().values()}
# Colour-blind safe: Okabe and Ito, and three of Tol's
COLOURS = {
    "interpolation": "#E69F00",
    "extrapolation": "#0072B2",
    "random": "#999999",
    "published": "#CC79A7",
    "median": "#D55E00",
    "agrees": "#0072B2",
    "same direction": "#56B4E9",
    "opposite": "#D55E00",
    "differs": "#882255",
    "undecided": "#999999",
    "not testable": "#DDDDDD",
    "": INK,
    **SYSTEMS,
}
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
Arguments = ParamSpec("Arguments")


class Drawing(Figure):
    """A figure with its texts, which draws itself again at the width of a column in print."""

    caption: str  # the message
    alt: str  # what is seen
    column: Callable[[], "Drawing"]

    def say(self, message: str, seen: str) -> None:
        """Set the caption and what is seen, both without where an axis points to."""
        arrows = r"← [\w ]+?   |   [\w ]+ →"
        self.caption = re.sub(arrows, "", message)
        self.alt = re.sub(arrows, "", seen)


def style() -> None:
    """Set the kit's look, as `ix.start` does."""
    mpl.rcParams.update(
        {
            "figure.figsize": (WIDTH, 3),
            "savefig.dpi": 200,
            "font.size": 9,
            "figure.labelsize": "medium",
            "axes.titlesize": "medium",
            "axes.labelsize": "medium",
            "legend.title_fontsize": "medium",
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


def kind_of_figure(draw: Callable[Arguments, Drawing]) -> Callable[Arguments, Drawing]:
    """Let a figure draw itself again, at the width of a column in print."""

    @functools.wraps(draw)
    def _drawn(*args: Arguments.args, **options: Arguments.kwargs) -> Drawing:
        narrow = mpl.rc_context({"figure.figsize": (COLUMN, 3), "font.size": 8})
        figure = draw(*args, **options)
        again = functools.partial(draw, *args, **options)
        figure.column = narrow(again)
        return figure

    return _drawn


def has_systems(names: Iterable[str]) -> bool:
    """Return whether systems with a colour of their own are among the names."""
    return not SYSTEMS.keys().isdisjoint(names)


def colours_of(frame: DataFrame, hue: Names) -> dict[str, str]:
    """Return the colour of each name of the hue: the kit's own, else one that is left.

    Numbers are light to dark.
    """
    if hue in list(frame) and pd.api.types.is_numeric_dtype(frame[hue]):
        numbers = names_of(frame.sort_values(hue), hue).unique()
        light_to_dark = reversed(blues(len(numbers), 0.45))
        return dict(zip(numbers, light_to_dark, strict=True))
    names = list(names_of(frame, hue).unique())
    used = {COLOURS.get(name) for name in [*names, "published"]}
    free = [colour for colour in OTHERS if colour not in used]
    if has_systems(names):
        own = COLOURS.values()
        free.sort(key=lambda colour: colour in own)  # of systems that are not here: last
    left = itertools.cycle(free)
    return {name: COLOURS.get(name) or next(left) for name in names}


def blues(n: int, lightest: float) -> list[str]:
    """Return n blues, from dark to light."""
    places = np.linspace(1.0, lightest, n)
    shades = mpl.colormaps["Blues"](places)
    return [mpl.colors.to_hex(shade) for shade in shades]


def keys_of(colours: dict[str, str], **look: Any) -> list[Line2D]:
    """Return the keys of a legend, one a name."""
    keys = []
    for name, colour in colours.items():
        key = Line2D([], [], color=colour, label=in_words(name), **look)
        keys.append(key)
    return keys
