"""Panels of a figure, their axes and legends."""

import itertools
from collections.abc import Mapping, Sequence

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from pandas import DataFrame

from interextra.figures.looks import WIDTH
from interextra.figures.words import NAME, Names, in_words, inches_of, names_of, wrapped
from interextra.store.errors import InputError

KEY = 0.55  # inches of a legend's key and its margins


def panels_of(frame: DataFrame, columns: Names) -> dict[str, DataFrame]:
    """Return the rows of each panel, by its title; there must be some."""
    if frame.empty:
        raise InputError(
            "nothing to draw: the table has no rows; draw it only where there are some"
        )
    return dict(list(frame.groupby(names_of(frame, columns), sort=False)))


def figure_of(
    panels: Mapping[str, object],
    height: float | list[float],
    most: int = 1,
    row: Names = "",
    widths: Sequence[float] = (),
    **shared: bool,
) -> tuple[Figure, list[tuple[Axes, object]]]:
    """Return a figure and its panels, each with its content.

    Parameters
    ----------
    panels : title → content.
    height : inches, of each panel or of all.
    most : so many side by side on a page; one, if their values of `row` differ.
    row : the column of the names on the y-axis.
    widths : of the panels relative to each other; they count where all are in one line, and then
        `most` is not of a page, but of this figure.
    shared : sharex, sharey.
    """
    width = mpl.rcParams["figure.figsize"][0]
    n = len(panels)
    if row:
        rows = {tuple(names_of(part, row).unique()) for part in panels.values()}
        shared["sharey"] = len(rows) == 1
        most = most if shared["sharey"] else 1
    if not len(widths):
        most = max(1, round(most * width / WIDTH))
    n_lines = -(-n // most)
    n_columns = -(-n // n_lines)
    ratios = widths if len(widths) == n_columns else [1] * n_columns
    heights = np.maximum.reduceat(np.full(n, height), range(0, n, n_columns)).tolist()  # of lines
    figure, axes = plt.subplots(
        n_lines,
        n_columns,
        figsize=(width, sum(heights) + 0.4),
        layout="constrained",
        squeeze=False,
        height_ratios=heights,
        width_ratios=ratios,
        **shared,
    )
    plt.close(figure)  # shown once, by the last expression of the notebook's cell
    for axis in axes.flat[n:]:
        axis.axis("off")
    for axis in axes.flat[n - n_columns : n]:  # those with no axes below them
        axis.tick_params(labelbottom=True)
    n_ticks = max(2, round(1.6 * (width - 1) / n_columns))
    for axis, title, share in zip(axes.flat, panels, itertools.cycle(ratios), strict=False):
        inches = width * share / sum(ratios)
        _label(axis, wrapped(in_words(title), 0.75 * inches), n_ticks)
    return figure, list(zip(axes.flat, panels.values(), strict=False))


def _label(axis: Axes, title: str, n_ticks: int) -> None:
    """Set the title of a panel, and how many numbers its x-axis has at most."""
    axis.set_title(title)
    axis.locator_params(axis="x", nbins=n_ticks)
    axis.tick_params(labelsize=mpl.rcParams["font.size"])


class Percents(mpl.ticker.Formatter):
    """Fractions as percentages, all with the digits that their steps need."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return one tick with as many digits as the steps of all ticks need."""
        ticks = [] if self.axis is None else self.axis.get_majorticklocs()
        percents = 100 * np.asarray([*ticks, x])
        digits = 2
        for fewer in (1, 0):
            if np.allclose(percents, percents.round(fewer), rtol=0, atol=1e-6):
                digits = fewer
        value = round(100 * x, digits) + 0.0  # no -0
        return self.fix_minus(f"{value:.{digits}f}%")


def name_rows(axis: Axes, rows: Sequence[str], top: float = -0.5) -> None:
    """Write names at the rows 0, 1, … from the top, without lines across."""
    labels = [wrapped(in_words(row), NAME) for row in rows]
    axis.set_yticks(range(len(rows)), labels)
    axis.set(ylim=(len(rows) - 0.5, top))
    axis.grid(False, axis="y")


def distance_of(rows: Sequence[str]) -> float:
    """Return the inches between rows such that their names, of one line or more, do not touch."""
    n_lines = [1 + wrapped(in_words(row), NAME).count("\n") for row in rows]
    most = max(map(sum, itertools.pairwise(n_lines)), default=0)
    return most / 2 * 1.35 * mpl.rcParams["font.size"] / 72


def finish(
    figure: Figure,
    variables: Mapping[str, list],
    x: str = "",
    y: str = "",
    percent: bool = False,
) -> None:
    """Write the names of both axes, and legends above them, or where a place is left over.

    Parameters
    ----------
    variables : title → keys, of a legend each.
    x, y : names of the axes.
    percent : y are fractions.
    """
    if percent:
        for axis in figure.axes:
            if axis.axison:
                axis.axhline(0, color="black", lw=0.8)
                axis.yaxis.set_major_formatter(Percents())
    if x:
        figure.supxlabel(wrapped(x, figure.get_figwidth()))
        figure.supylabel(wrapped(y, figure.get_figheight()), ma="center")
    legends = {title: keys for title, keys in variables.items() if keys}
    spare = [axis for axis in figure.axes if not axis.axison and not axis.child_axes]
    if len(legends) == 1 and spare:
        [keys] = legends.values()
        _fit(keys, spare[0].get_position().width * figure.get_figwidth())
        spare[0].legend(handles=keys, loc="center")
        legends = {}
    _stack(figure, [_legend(figure, title, keys) for title, keys in legends.items()])


def _legend(figure: Figure, title: str, keys: list) -> Legend:
    """Return a legend of the figure, in as many columns as fit."""
    width = figure.get_figwidth()
    lines = _fit(keys, width)
    fitting = max(1, int(width // (inches_of(lines) + KEY)))
    return figure.legend(
        handles=keys,
        title=title,
        ncols=min(len(keys), fitting),
        loc="upper center",
        borderaxespad=0,
        borderpad=0.3,
        columnspacing=1.2,
    )


def _fit(keys: list, inches: float) -> list[str]:
    """Wrap what keys of a legend say to this width; return its lines."""
    lines = []
    for key in keys:
        key.set_label(wrapped(str(key.get_label()), inches - KEY))
        lines += key.get_label().split("\n")
    return lines


def _stack(figure: Figure, legends: Sequence[Legend]) -> None:
    """Put the legends below each other above the panels, for which the figure grows."""
    height = figure.get_figheight()
    heights = [legend.get_window_extent().height / figure.dpi for legend in legends]
    figure.set_figheight(height + sum(heights))
    total = figure.get_figheight()
    for legend, above in zip(legends, np.cumsum([0, *heights]), strict=False):
        legend.set_bbox_to_anchor((0.5, 1 - above / total))
    figure.get_layout_engine().set(rect=(0, 0, 1, height / total))
