"""Numbers in a grid."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from interextra.figures.looks import Drawing, kind_of_figure
from interextra.figures.panels import figure_of, finish, panels_of
from interextra.figures.words import Names, extent_of, in_words, inches_of, wrapped

UNKNOWN: dict[str, Any] = {
    "fc": "white",
    "ec": "#BBBBBB",
    "hatch": "///",
    "lw": 0,
    "label": "not computed",
}
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
) -> Drawing:
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
    framed = set(frame[row]) == set(frame[column])
    rows = frame[row].unique()
    grids = {}
    for title, part in panels_of(frame, panel).items():
        columns = rows if framed else part[column].unique()
        cells = part.set_index([row, column])
        grids[title] = _grid(cells, value, rows, columns, sure, framed)
    width = mpl.rcParams["figure.figsize"][0]
    room = width - 0.3 - inches_of(_names(rows))
    fitting = _fitting(grids, room)
    widths = [grid.n_columns for grid in grids.values()]
    height = 1 + 0.24 * len(rows)
    figure, drawn = figure_of(grids, height, fitting, widths, sharey=True)
    limit = _limit(grids.values())
    for axis, grid in drawn:
        image = _draw(axis, grid, limit, framed)
        if framed:
            axis.set_xlabel(in_words(column))
    if framed:
        figure.supylabel(in_words(row))
    _draw_scale(figure, image, label, room, fitting, framed)
    has_unknown = any(grid.has_unknown for grid in grids.values())
    keys = _keys(framed, bool(sure), has_unknown)
    finish(figure, {"": keys})
    message = _below_others(grids.values()) if framed else _beside_zero(frame, value, sure)
    what = f"{label}, {in_words(row)} by {in_words(column)}"
    seen = extent_of(what, frame, value, [row, column, panel])
    figure.say(message, seen)
    return figure


class _Grid(NamedTuple):
    """The cells of a panel."""

    numbers: DataFrame
    shades: DataFrame  # what a colour stands for
    is_sure: DataFrame  # what has a colour

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.numbers.shape[1]

    @property
    def has_unknown(self) -> bool:
        """Whether a number is not computed."""
        return self.numbers.isna().any(axis=None)


def _grid(
    cells: DataFrame,
    value: str,
    rows: Sequence,
    columns: Sequence,
    sure: str,
    framed: bool,
) -> _Grid:
    """Return the cells of a panel, of a frame that is indexed by row and column."""
    numbers = cells[value].unstack()
    numbers = numbers.reindex(index=rows, columns=columns)
    is_sure = numbers.notna()
    if sure:
        has_colour = cells[sure].unstack()
        is_sure = has_colour.reindex_like(numbers).eq(True)
    shades = _relative(numbers) if framed else numbers
    return _Grid(numbers, shades, is_sure)


def _relative(numbers: DataFrame) -> DataFrame:
    """Return the relative difference of each cell from the mean of the others in its column."""
    diagonal = np.eye(len(numbers), dtype=bool)
    others = numbers.mask(diagonal)
    return numbers / others.mean() - 1


def _limit(grids: Iterable[_Grid]) -> float:
    """Return what the darkest colours stand for, in all panels."""
    largest = [grid.shades.abs().max(axis=None) for grid in grids]
    return np.nanmax([1e-9, *largest])


def _names(labels: Iterable) -> list[str]:
    """Return the names of rows or columns as a reader says them."""
    return [in_words(str(label)) for label in labels]


def _fitting(grids: Mapping[str, _Grid], room: float) -> int:
    """Return how many panels stand side by side in so many inches."""
    n_columns = max(grid.n_columns for grid in grids.values())
    words = " ".join(grids).split()
    of_title = inches_of(["", *words]) + 0.1
    of_panel = max(CELL * n_columns, of_title)
    return max(1, int(room // of_panel))


def _draw(axis: Axes, grid: _Grid, limit: float, framed: bool) -> AxesImage:
    """Draw a panel: colours, numbers, frames, and the names of its rows and columns."""
    shades = grid.shades.where(grid.is_sure).to_numpy(float)
    image = axis.imshow(shades, cmap="PuOr", vmin=-limit, vmax=limit, aspect="auto")
    numbers = grid.numbers.to_numpy(float)
    for (i, j), number in np.ndenumerate(numbers):
        if np.isnan(number):
            corner = (j - 0.5, i - 0.5)
            axis.add_patch(Rectangle(corner, 1, 1, **UNKNOWN))
        else:
            ink = _ink(shades[i, j], limit)
            axis.text(j, i, _short(number), color=ink, ha="center", va="center", fontsize=8)
        if framed and i == j:
            _draw_frame(axis, i)
    rows = _names(grid.numbers.index)
    columns = _names(grid.numbers.columns)
    _name_cells(axis, rows, columns)
    return image


def _draw_frame(axis: Axes, i: int) -> None:
    """Draw a frame round the i-th cell of the diagonal."""
    corner = (i - 0.47, i - 0.47)
    axis.add_patch(Rectangle(corner, 0.94, 0.94, fill=False, lw=1.6))


def _ink(shade: float, limit: float) -> str:
    """Return the colour of a number that can be read on this shade, grey where there is none."""
    if np.isnan(shade):
        return "#555555"
    return "white" if abs(shade) > 0.6 * limit else "black"


def _short(number: float) -> str:
    """Return a number of a cell; of one below 1 two digits, without the 0 before them."""
    if abs(number) >= 1:
        return f"{number:.1f}"
    rounded = round(number, 2) + 0.0  # no -0
    return f"{rounded:.2f}".replace("0.", ".", 1)


def _name_cells(axis: Axes, rows: list[str], columns: list[str]) -> None:
    """Write the names of rows and columns; long ones of columns aslant."""
    tilt: dict[str, Any] = {}
    if max(map(len, columns)) > 3:
        tilt = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    axis.set_xticks(range(len(columns)), columns, **tilt)
    axis.set_yticks(range(len(rows)), rows)
    axis.grid(False)


def _draw_scale(
    figure: Drawing,
    image: AxesImage,
    label: str,
    room: float,
    fitting: int,
    framed: bool,
) -> None:
    """Draw the colour scale in a place that no panel has, or else below all."""
    if framed:
        label += ", relative to the models trained with it"
    spare = [axis for axis in figure.axes if not axis.axison]
    place: dict[str, Any]
    if spare:
        inset = spare[0].inset_axes((0.1, 0.8, 0.8, 0.08))
        place = {"cax": inset}
        n_ticks = 3
        width = 0.6 * room / fitting
    else:
        place = {"ax": figure.axes, "aspect": 40}
        n_ticks = 5
        width = room
    scale = figure.colorbar(
        image,
        orientation="horizontal",
        ticks=MaxNLocator(n_ticks),
        format="{x:+.0%}" if framed else None,
        **place,
    )
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


def _below_others(grids: Iterable[_Grid]) -> str:
    """Return how many framed cells lie below the others in their column."""
    diagonals = [np.diag(grid.shades) for grid in grids]
    relative = np.concatenate(diagonals)
    n_below = (relative < 0).sum()
    n = len(relative)
    return (
        f"On what was excluded from training, models are below those trained with it in {n_below} "
        f"of {n} cells (framed)."
    )


def _beside_zero(frame: DataFrame, value: str, sure: str) -> str:
    """Return how many cells with a colour are above and below 0, and how many have none."""
    is_known = frame[value].notna()
    is_coloured = frame[sure] if sure else is_known
    is_above = frame.loc[is_coloured, value] > 0
    n_above = is_above.sum()
    n_below = len(is_above) - n_above
    n_known = is_known.sum()
    message = f"Of {n_known} values {n_above} are above 0 and {n_below} below"
    n_white = n_known - len(is_above)
    if n_white:
        return f"{message}; the intervals of the other {n_white} include 0."
    return f"{message}."
