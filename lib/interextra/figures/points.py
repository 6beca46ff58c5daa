"""Numbers over others as points."""

import itertools

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from pandas import DataFrame, Series

from interextra.figures.looks import COLOURS, INK, Drawing, colours_of, keys_of, kind_of_figure
from interextra.figures.panels import Percents, figure_of, finish, panels_of
from interextra.figures.words import Names, extent_of, in_words, names_of

GREY = COLOURS["random"]  # of the system that is not among the points


@kind_of_figure
def scatter(
    frame: DataFrame,
    x: str,
    y: str,
    hue: Names,
    marker: str,
    label: str,
    panel: Names,
    percent: bool,
    beside: tuple[str, float, float] | None = None,
    ends: tuple[str, str] | None = None,
    diagonal: str = "",
) -> Drawing:
    """Return numbers over others as points.

    `beside`: a system that is not among them, with its x and y, as grey lines. `ends`: the columns
    of the ends of an interval of y. `diagonal`: what it means that both numbers are equal; they are
    of one kind, then, and there is a line where they are.
    """
    colours = colours_of(frame, hue)
    shapes = _shapes_of(frame[marker])
    panels = panels_of(frame, panel)
    figure, drawn = figure_of(panels, 2.2, 3, sharex=True, sharey=True)
    for axis, part in drawn:
        if ends:
            low, high = ends
            axis.vlines(part[x], part[low], part[high], color=GREY, lw=0.8, zorder=1)
        _draw_points(axis, part, x, y, hue, marker, colours, shapes)
        if diagonal:
            _draw_diagonal(axis, percent)
    what = f"{label}, {len(frame)} points over {in_words(x)}"
    seen = extent_of(what, frame, y, [hue, marker, panel], percent)
    message = seen
    if beside:
        message = _beside(figure, frame[x], frame[y], *beside, in_words(x), label)
    elif diagonal and ends:
        message = _near(frame, x, *ends, label)
    legends = _legends(hue, colours, marker, shapes, beside)
    if diagonal:
        legends[""] = legends[""] + keys_of({diagonal: INK}, ls=":")
    finish(figure, legends, in_words(x), label, percent)
    figure.say(message, seen)
    return figure


def _shapes_of(names: Series) -> dict[str, str]:
    """Return a shape for each name, again from the first where there are more names than shapes."""
    shapes = itertools.cycle("osD^vPX*")
    return dict(zip(names.unique(), shapes, strict=False))


def _draw_points(
    axis: Axes,
    part: DataFrame,
    x: str,
    y: str,
    hue: Names,
    marker: str,
    colours: dict[str, str],
    shapes: dict[str, str],
) -> None:
    """Draw the points of a panel that are known; those of shapes that look small are larger."""
    known = part.dropna(subset=[x, y])
    groups = known.groupby([names_of(known, hue), marker], sort=False)
    for (name, value), points in groups:
        colour = colours[name]
        shape = shapes[value]
        size = 60 if shape in "*^vPX" else 36
        axis.scatter(points[x], points[y], color=colour, marker=shape, s=size, ec=INK, lw=0.5)


def _near(frame: DataFrame, x: str, low: str, high: str, label: str) -> str:
    """Return for how many points the interval of y holds x."""
    holds = (frame[low] <= frame[x]) & (frame[x] <= frame[high])
    n_points = frame[low].notna().sum()
    return (
        f"{holds.sum()} of {n_points} intervals of {label} include the {in_words(x)} (dotted line)."
    )


def _draw_diagonal(axis: Axes, percent: bool) -> None:
    """Draw the line on which both numbers are equal, and write x as y is written."""
    axis.axline((0, 0), slope=1, color=INK, ls=":", lw=1)
    axis.axvline(0, color="black", lw=0.8)
    if percent:
        axis.xaxis.set_major_formatter(Percents())


def _legends(
    hue: Names,
    colours: dict[str, str],
    marker: str,
    shapes: dict[str, str],
    beside: tuple[str, float, float] | None,
) -> dict[str, list[Line2D]]:
    """Return the keys of colours and shapes, and of the system that is not among the points."""
    level = []
    if beside:
        system, _, _ = beside
        level = keys_of({system: GREY}, ls="--")
    return {
        in_words(hue): keys_of(colours, lw=4),
        in_words(marker): _keys_of_shapes(shapes),
        "": level,
    }


def _keys_of_shapes(shapes: dict[str, str]) -> list[Line2D]:
    """Return the keys of the shapes, one a name."""
    keys = []
    for name, shape in shapes.items():
        keys += keys_of({name: "#777777"}, marker=shape, lw=0)
    return keys


def _beside(
    figure: Drawing,
    x: Series,
    y: Series,
    system: str,
    system_x: float,
    system_y: float,
    name_of_x: str,
    name_of_y: str,
) -> str:
    """Draw a system as lines, and return how many points exceed it on either axis."""
    for axis in figure.axes:
        if axis.axison:
            axis.axvline(system_x, color=GREY, ls="--", lw=1.2)
            axis.axhline(system_y, color=GREY, ls="--", lw=1.2)
    n_right = (x > system_x).sum()
    n_above = (y > system_y).sum()
    n = len(x)
    return (
        f"Above {system} (dashed) are {n_right} of {n} points in {name_of_x}, "
        f"and {n_above} in {name_of_y}."
    )
