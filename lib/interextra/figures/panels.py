"""Panels of a figure, their axes and legends."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.legend import Legend
from matplotlib.ticker import Formatter
from pandas import DataFrame

from interextra.figures.looks import WIDTH, Drawing
from interextra.figures.words import NAME, Names, in_words, inches_of, names_of, wrapped
from interextra.store.errors import InputError

KEY = 0.55  # inches of a legend's key and its margins
Content = TypeVar("Content")  # of a panel


def panels_of(frame: DataFrame, columns: Names) -> dict[str, DataFrame]:
    """Return the rows of each panel, by its title; there must be some."""
    if frame.empty:
        raise InputError(
            "nothing to draw: the table has no rows; draw it only where there are some"
        )
    titles = names_of(frame, columns)
    return dict(list(frame.groupby(titles, sort=False)))


def figure_of(
    panels: Mapping[str, Content],
    height: float | list[float],
    most: int = 1,
    widths: Sequence[float] = (),
    sharex: bool = False,
    sharey: bool = False,
) -> tuple[Drawing, list[tuple[Axes, Content]]]:
    """Return a figure and its panels, each with its content.

    Parameters
    ----------
    panels : title → content.
    height : inches, of each panel or of all.
    most : so many side by side on a page.
    widths : of the panels relative to each other; they count where all are in one line, and then
        `most` is not of a page, but of this figure.
    sharex, sharey : whether panels have the same axis.
    """
    width = mpl.rcParams["figure.figsize"][0]
    n = len(panels)
    if not widths:
        most = max(1, round(most * width / WIDTH))
    n_lines = math.ceil(n / most)
    n_columns = math.ceil(n / n_lines)
    ratios: Sequence[float] = [1] * n_columns
    if len(widths) == n_columns:
        ratios = widths
    first_of_lines = range(0, n, n_columns)
    heights_of_panels = np.full(n, height)
    heights = np.maximum.reduceat(heights_of_panels, first_of_lines).tolist()
    size = (width, sum(heights) + 0.4)
    created = plt.figure(figsize=size, layout="constrained", FigureClass=Drawing)
    figure = cast(Drawing, created)  # the stubs of pyplot do not follow FigureClass
    plt.close(figure)  # shown once, by the last expression of the notebook's cell
    grid = figure.subplots(
        n_lines,
        n_columns,
        squeeze=False,
        height_ratios=heights,
        width_ratios=ratios,
        sharex=sharex,
        sharey=sharey,
    )
    axes = grid.ravel()
    for axis in axes[n:]:
        axis.axis("off")
    for axis in axes[n - n_columns : n]:  # those with no axes below them
        axis.tick_params(labelbottom=True)
    fitting = round(1.6 * (width - 1) / n_columns)
    n_ticks = max(2, fitting)
    for axis, title, share in zip(axes, panels, itertools.cycle(ratios), strict=False):
        inches = width * share / sum(ratios)
        name = wrapped(in_words(title), 0.75 * inches)
        _label(axis, name, n_ticks)
    drawn = zip(axes, panels.values(), strict=False)
    return figure, list(drawn)


def figure_of_rows(
    panels: Mapping[str, DataFrame], heights: list[float], row: Names
) -> tuple[Drawing, list[tuple[Axes, DataFrame]]]:
    """Return a figure of panels with named rows: below each other, where their rows differ."""
    rows = {tuple(names_of(part, row).unique()) for part in panels.values()}
    if len(rows) > 1:
        return figure_of(panels, heights, sharex=True)
    return figure_of(panels, heights, 3, sharex=True, sharey=True)


def _label(axis: Axes, title: str, n_ticks: int) -> None:
    """Set the title of a panel, and how many numbers its x-axis has at most."""
    axis.set_title(title)
    axis.locator_params(axis="x", nbins=n_ticks)
    axis.tick_params(labelsize=mpl.rcParams["font.size"])


class Percents(Formatter):
    """Fractions as percentages, all with the digits that their steps need."""

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """Return the ticks as text, without a minus before 0."""
        percents = 100 * np.asarray(values)
        digits = 2
        for fewer in (1, 0):
            shorter = percents.round(fewer)
            if np.allclose(percents, shorter, rtol=0, atol=1e-6):
                digits = fewer
        rounded = [round(percent, digits) + 0.0 for percent in percents.tolist()]  # no -0
        ticks = []
        for percent in rounded:
            number = f"{percent:.{digits}f}"
            ticks.append(self.fix_minus(f"{number}%"))
        return ticks


def name_rows(axis: Axes, rows: Sequence[str], top: float = -0.5) -> None:
    """Write names at the rows 0, 1, … from the top, without lines across."""
    labels = [wrapped(in_words(row), NAME) for row in rows]
    axis.set_yticks(range(len(rows)), labels)
    axis.set_ylim(len(rows) - 0.5, top)
    axis.grid(False, axis="y")


def distance_of(rows: Sequence[str]) -> float:
    """Return the inches between rows such that their names, of one line or more, do not touch."""
    names = [wrapped(in_words(row), NAME) for row in rows]
    n_lines = [1 + name.count("\n") for name in names]
    lines_of_neighbours = map(sum, itertools.pairwise(n_lines))
    most = max(lines_of_neighbours, default=0)
    return most / 2 * 1.35 * mpl.rcParams["font.size"] / 72


def finish(
    figure: Drawing,
    legends: Mapping[str, Sequence[Artist]],
    x: str = "",
    y: str = "",
    percent: bool = False,
) -> None:
    """Write the names of both axes, and legends above them, or where a place is left over.

    Parameters
    ----------
    legends : title → keys.
    x, y : names of the axes.
    percent : y are fractions.
    """
    if percent:
        _show_percents(figure)
    if x:
        figure.supxlabel(wrapped(x, figure.get_figwidth()))
        figure.supylabel(wrapped(y, figure.get_figheight()), ma="center")
    legends = {title: keys for title, keys in legends.items() if keys}
    spare = [axis for axis in figure.axes if not axis.axison and not axis.child_axes]
    if len(legends) == 1 and spare:
        [keys] = legends.values()
        inches = spare[0].get_position().width * figure.get_figwidth()
        _fit(keys, inches)
        spare[0].legend(handles=keys, loc="center")
        legends = {}
    above = [_legend(figure, title, keys) for title, keys in legends.items()]
    _stack(figure, above)


def _show_percents(figure: Drawing) -> None:
    """Write the y of all panels as percentages, with a line at 0."""
    for axis in figure.axes:
        if axis.axison:
            axis.axhline(0, color="black", lw=0.8)
            axis.yaxis.set_major_formatter(Percents())


def _legend(figure: Drawing, title: str, keys: Sequence[Artist]) -> Legend:
    """Return a legend of the figure, in as many columns as fit."""
    width = figure.get_figwidth()
    lines = _fit(keys, width)
    fitting = int(width // (inches_of(lines) + KEY))
    return figure.legend(
        handles=keys,
        title=title,
        ncols=min(len(keys), max(1, fitting)),
        loc="upper center",
        borderaxespad=0,
        borderpad=0.3,
        columnspacing=1.2,
    )


def _fit(keys: Sequence[Artist], inches: float) -> list[str]:
    """Wrap what keys of a legend say to this width; return its lines."""
    lines = []
    for key in keys:
        label = str(key.get_label())
        label = wrapped(label, inches - KEY)
        key.set_label(label)
        lines += label.split("\n")
    return lines


def _stack(figure: Drawing, legends: Sequence[Legend]) -> None:
    """Put the legends below each other above the panels, for which the figure grows."""
    height = figure.get_figheight()
    heights = [legend.get_window_extent().height / figure.dpi for legend in legends]
    total = height + sum(heights)
    figure.set_figheight(total)
    tops = np.cumsum([0, *heights])
    for legend, top in zip(legends, tops, strict=False):
        legend.set_bbox_to_anchor((0.5, 1 - top / total))
    figure.set_layout_engine("constrained", rect=(0, 0, 1, height / total))
