"""Numbers in a grid."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch, Rectangle
from pandas import DataFrame

from interextra.figures.looks import captioned, kind_of_figure
from interextra.figures.panels import figure_of, finish, panels_of
from interextra.figures.words import Names, in_words, inches_of, range_of, wrapped

UNKNOWN = {"fc": "white", "ec": "#BBBBBB", "hatch": "///", "lw": 0, "label": "not computed"}
CELL = 0.29  # inches, of the width of a cell at least


@kind_of_figure
def heat(
    frame: DataFrame,
    row: str,
    column: str,
    value: str,
    label: str,
    panel: Names = "",
    sure: str = "",
) -> Figure:
    """Return numbers in a grid, one colour scale for all panels.

    Each panel has the columns that it has numbers of. Where rows and columns have the same names,
    rows are what was left out of training and columns what is tested: cells of both are framed, and
    colour is the relative difference from the mean of a column's other cells.

    Parameters
    ----------
    row, column, value : columns of the frame.
    label : of the colour scale.
    panel : a panel each.
    sure : a boolean column; only what is true has a colour.
    """
    rows = frame[row].unique()
    framed = set(frame[row]) == set(frame[column])
    panels = panels_of(frame, panel)
    grids = []
    for part in panels.values():
        columns = rows if framed else part[column].unique()
        cells = part.set_index([row, column])
        grids.append(_grid(cells, value, rows, columns, sure, framed))
    largest = [grid.shades.abs().max(axis=None) for grid in grids]
    limit = np.nanmax([1e-9, *largest])
    names = [in_words(str(name)) for name in rows]
    widths = [grid.numbers.shape[1] for grid in grids]
    room = mpl.rcParams["figure.figsize"][0] - 0.3 - inches_of(names)
    fitting = _fitting(panels, widths, room)
    height = 1 + 0.24 * len(rows)
    figure, drawn = figure_of(panels, height, fitting, widths=widths, sharey=True)
    for (axis, _), grid in zip(drawn, grids, strict=True):
        image = _draw(axis, grid, limit, framed)
        axis.set_yticks(range(len(rows)), names)
    if framed:
        _name_axes(figure, [axis for axis, _ in drawn], in_words(column), in_words(row))
    _draw_scale(figure, image, label, room, fitting, framed)
    has_unknown = any(grid.numbers.isna().any(axis=None) for grid in grids)
    finish(figure, {"": _keys(framed, bool(sure), has_unknown)})
    extent = range_of(frame, value, [row, column, panel])
    seen = f"{label}, {in_words(row)} by {in_words(column)}: {extent}."
    message = _below_others(grids) if framed else _beside_zero(frame, value, sure)
    return captioned(figure, message, seen)


class _Grid(NamedTuple):
    """The cells of a panel."""

    numbers: DataFrame
    shades: DataFrame  # what a colour stands for
    is_sure: DataFrame  # what has a colour


def _grid(
    cells: DataFrame,
    value: str,
    rows: Sequence,
    columns: Sequence,
    sure: str,
    framed: bool,
) -> _Grid:
    """Return the cells of a panel, of a frame that is indexed by row and column."""
    numbers = cells[value].unstack().reindex(index=rows, columns=columns)
    is_sure = numbers.notna()
    if sure:
        is_sure = cells[sure].unstack().reindex_like(numbers).eq(True)
    shades = _relative(numbers) if framed else numbers
    return _Grid(numbers, shades, is_sure)


def _name_axes(figure: Figure, axes: Sequence[Axes], x: str, y: str) -> None:
    """Write the names of the columns below each panel, and that of the rows beside all."""
    for axis in axes:
        axis.set_xlabel(x)
    figure.supylabel(y)


def _relative(grid: DataFrame) -> DataFrame:
    """Return the relative difference of each cell from the mean of the others in its column."""
    others = grid.mask(np.eye(len(grid), dtype=bool))
    return grid / others.mean() - 1


def _fitting(
    panels: Mapping[str, object],
    widths: Sequence[int],
    room: float,
) -> int:
    """Return how many panels stand side by side in so many inches."""
    words = " ".join(panels).split()
    of_title = inches_of(["", *words]) + 0.1
    return max(1, int(room // max(CELL * max(widths), of_title)))


def _draw(
    axis: Axes,
    grid: _Grid,
    limit: float,
    framed: bool,
) -> AxesImage:
    """Draw a panel: colours, numbers, frames, and the names of its columns."""
    colour = grid.shades.where(grid.is_sure).to_numpy(float)
    image = axis.imshow(colour, cmap="PuOr", vmin=-limit, vmax=limit, aspect="auto")
    for (i, j), number in np.ndenumerate(grid.numbers.to_numpy(float)):
        if np.isnan(number):
            axis.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, **UNKNOWN))
        else:
            ink = _ink(colour[i, j], limit)
            text = _short(number)
            axis.text(j, i, text, color=ink, ha="center", va="center", fontsize=8)
        if framed and i == j:
            axis.add_patch(Rectangle((j - 0.47, i - 0.47), 0.94, 0.94, fill=False, lw=1.6))
    columns = [in_words(str(name)) for name in grid.numbers.columns]
    tilt = {}
    if max(map(len, columns)) > 3:
        tilt = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    axis.set_xticks(range(len(columns)), columns, **tilt)
    axis.grid(False)
    return image


def _ink(shade: float, limit: float) -> str:
    """Return the colour of a number that can be read on this shade, grey where there is none."""
    if np.isnan(shade):
        return "#555555"
    return "white" if abs(shade) > 0.6 * limit else "black"


def _short(number: float) -> str:
    """Return a number of a cell; of one below 1 two digits, without the 0 before them."""
    if abs(number) >= 1:
        return f"{number:.1f}"
    return f"{round(number, 2) + 0.0:.2f}".replace("0.", ".", 1)


def _draw_scale(
    figure: Figure,
    image: AxesImage,
    label: str,
    room: float,
    fitting: int,
    framed: bool,
) -> None:
    """Draw the colour scale in a place that no panel has, or else below all."""
    form = "{x:+.0%}" if framed else None
    if framed:
        label += ", relative to the models trained with it"
    spare = [axis for axis in figure.axes if not axis.axison]
    if spare:
        place = {"cax": spare[0].inset_axes([0.1, 0.8, 0.8, 0.08])}
        n_ticks, width = 3, 0.6 * room / fitting
    else:
        place = {"ax": figure.axes, "aspect": 40}
        n_ticks, width = 5, room
    ticks = plt.MaxNLocator(n_ticks)
    scale = figure.colorbar(image, orientation="horizontal", ticks=ticks, format=form, **place)
    scale.set_label(wrapped(label, width))


def _keys(framed: bool, has_unsure: bool, has_unknown: bool) -> list[Patch]:
    """Return the keys of what is drawn but for colours."""
    keys = []
    if framed:
        keys.append(Patch(fill=False, lw=1.6, label="excluded from training"))
    if has_unsure:
        keys.append(Patch(fc="white", ec="#999999", label="white: interval includes 0"))
    if has_unknown:
        keys.append(Patch(**UNKNOWN))
    return keys


def _below_others(grids: Sequence[_Grid]) -> str:
    """Return how many framed cells lie below the others in their column."""
    n_below = sum((np.diag(grid.shades) < 0).sum() for grid in grids)
    n = sum(len(grid.numbers) for grid in grids)
    return f"{n_below} of {n} framed cells lie below the mean of the others in their column."


def _beside_zero(frame: DataFrame, value: str, sure: str) -> str:
    """Return how many cells are coloured as above and as below 0."""
    is_known = frame[value].notna()
    is_above = frame.loc[frame[sure] if sure else is_known, value] > 0
    n_above, n_below = sum(is_above), sum(~is_above)
    return f"{n_above} of {is_known.sum()} coloured as above 0, {n_below} as below."
