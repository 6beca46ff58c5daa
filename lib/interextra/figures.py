"""Eight kinds of figure in one style, each drawn from a tidy frame and the names of its columns.

Each is as wide as a page, has its legend outside and the same axes in all its panels. Instead of a column a list of
columns may be given, whose values are joined: `panel=["protocol", "measure"]`. `alt` of each figure says in words what
is seen, from the data. A regime and a system have one colour in all figures; numbers, such as training sizes, go from
light to dark blue.
"""

import itertools
from collections.abc import Sequence

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from pandas import DataFrame

from interextra.ground.errors import InputError
from interextra.models import architectures

Names = str | list[str]  # of columns; "" is none

# Colour-blind safe: Okabe and Ito, and three of Tol's
COLOURS = {
    "interpolation": "#E69F00",
    "extrapolation": "#0072B2",
    "random": "#999999",
    "published": "#CC79A7",
    "median": "#D55E00",
} | {module.LABEL: module.COLOUR for module in architectures().values()}
SYSTEMS = {module.LABEL for module in architectures().values()}
OTHERS = ["#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#882255", "#0072B2", "#44AA99", "#332288", "#999933"]
INK = "#333333"  # where colour says nothing
WIDTH = 8  # inches
MOST = 3000  # points of a map; more hide each other
FEW = 8  # lines or medians that alternative text names one by one
QUANTILES = 20  # dots of a distribution


def style() -> None:
    """Set the kit's look, as `ix.start` does."""
    look = {"figure.dpi": 130, "savefig.bbox": "tight", "font.size": 9, "axes.titlesize": 10, "legend.frameon": False}
    look |= {"axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True}
    look |= {"grid.alpha": 0.25}
    look |= {"svg.hashsalt": "interextra", "svg.fonttype": "none"}  # the same picture, the same bytes
    mpl.rcParams.update(look)


def forest(
    frame: DataFrame, row: Names, effect: str, label: str, panel: Names = "", hue: Names = "", percent: bool = False
) -> Figure:
    """Effects with their intervals, a line each; columns effect, low, high, and published where there is something.

    Several hues of a row stand below each other. `percent`: effects are fractions.
    """
    coloured = hue or (row if set(_names(frame, row)) & SYSTEMS else "")
    colours, panels = _colours(frame, coloured), _panels(frame, panel)
    same, counts = _rows_of(panels, row)
    beside = hue if any(not _names(part, row).is_unique for part in panels.values()) else ""  # below each other
    hues = [_names(part, beside).nunique() for part in panels.values()]
    heights = [0.5 + count * (0.16 + 0.14 * n) for count, n in zip(counts, hues, strict=True)]
    figure, drawn = _figure(panels, heights, 3 if same else 2, sharex=True, sharey=same)
    for axis, part in drawn:
        rows, places = list(_names(part, row).unique()), list(_names(part, beside).unique())
        below = 0.7 * ((_names(part, beside).map(places.index) + 0.5) / len(places) - 0.5)
        at, colour = _names(part, row).map(rows.index) + below, _names(part, coloured).map(colours)
        axis.hlines(at, part["low"], part["high"], color=colour, lw=2)
        axis.scatter(part[effect], at, color=colour, s=36, zorder=3)
        if "published" in part:
            axis.scatter(part["published"], at, marker="D", s=16, color=COLOURS["published"], ec="white", zorder=4)
        axis.axvline(0, color="black", lw=0.8)
        for between in range(1, len(rows) if len(places) > 1 else 0):
            axis.axhline(between - 0.5, color="#DDDDDD", lw=0.8)
        _name_rows(axis, rows)
        axis.locator_params(axis="x", nbins=6)
        if percent:
            axis.xaxis.set_major_formatter("{x:.0%}")
    figure.supxlabel(label)
    low, high, theirs = frame["low"], frame["high"], frame.get("published", frame["low"] * np.nan)
    keys = _keys(colours if hue else {}, marker="o", lw=2)
    keys += _keys({"published": COLOURS["published"]} if theirs.notna().any() else {}, marker="D", lw=0)
    _legend(figure, keys, hue)
    where = {"below 0": high < 0, "above 0": low > 0, "on both sides of 0": (low <= 0) & (high >= 0)}
    counted = ", ".join(f"{n} {side}" for side, found in where.items() if (n := found.sum())) or "none"
    figure.alt = f"{label}: {len(frame)} effects, {_range(frame, effect, [row, hue, panel], percent)}; "
    figure.alt += f"intervals: {counted}."
    if n := theirs.notna().sum():
        inside = ((low <= theirs) & (theirs <= high)).sum()
        figure.alt += f" {inside} of {n} published values (diamonds) lie inside the interval beside them."
    return figure


def heat(frame: DataFrame, row: str, column: str, value: str, label: str, panel: Names = "", sure: str = "") -> Figure:
    """Numbers in a grid, one colour scale for all panels.

    Where rows and columns have the same names, rows are what was left out of training and columns what is tested: the
    cells where both meet are framed, and colour is the relative difference from the mean of the cells of the column
    that are not, since clusters differ in difficulty. `sure`: a boolean column; only what is true has a colour.
    """
    rows, framed = frame[row].unique(), set(frame[row]) == set(frame[column])
    panels, grids, shades = _panels(frame, panel), {}, {}
    for title, part in panels.items():
        grid = part.pivot(index=row, columns=column, values=value)
        grids[title] = grid = grid.reindex(index=rows, columns=rows if framed else part[column].unique())
        shades[title] = grid / grid.mask(np.eye(len(rows), dtype=bool)).mean() - 1 if framed else grid
    limit = np.nanmax([1e-9, *(shade.abs().max(axis=None) for shade in shades.values())])
    widest, names = max(grid.shape[1] for grid in grids.values()), [_words(str(name)) for name in rows]
    room = WIDTH - 1 - 0.063 * max(map(len, names))  # inches beside the colour bar and the names of the rows
    fitting = int(room // max(0.31 * widest, 0.1 * max(map(len, grids))))
    figure, drawn = _figure(panels, 0.6 + 0.28 * len(rows), max(1, fitting), sharey=True)
    for (axis, part), grid, shade in zip(drawn, grids.values(), shades.values(), strict=True):
        known = part.pivot(index=row, columns=column, values=sure).reindex_like(grid) if sure else grid.notna()
        shade = shade.where(known.eq(True)).to_numpy(float)
        image = axis.imshow(shade, cmap="PuOr", vmin=-limit, vmax=limit, aspect="auto")
        for i, j in np.argwhere(grid.notna().to_numpy()):
            ink = "#666666" if np.isnan(shade[i, j]) else "white" if abs(shade[i, j]) > 0.6 * limit else "black"
            axis.text(j, i, _short(grid.iloc[i, j]), color=ink, ha="center", va="center", fontsize=8)
            if framed and i == j:
                axis.add_patch(Rectangle((j - 0.47, i - 0.47), 0.94, 0.94, fill=False, lw=1.6))
        columns = [_words(str(name)) for name in grid.columns]
        tilt = {"rotation": 40, "ha": "right"} if max(map(len, columns)) > 3 else {}
        axis.set_xticks(range(len(columns)), columns, **tilt)
        axis.set_yticks(range(len(rows)), names)
        axis.set(xlim=(-0.5, widest - 0.5))
        axis.grid(False)
    scale = {"label": "against the others", "format": "{x:.0%}"} if framed else {"label": label}
    figure.colorbar(image, ax=[axis for axis, _ in drawn], shrink=min(1, 3 / figure.get_figheight()), **scale)
    figure.alt = f"{label} in a grid, {_words(row)} by {_words(column)}: {_range(frame, value, [row, column, panel])}."
    if sure:
        above, below = ((frame[sure] & side).sum() for side in (frame[value] > 0, frame[value] < 0))
        figure.alt += f" Coloured, as sure: {above} above 0 and {below} below, of {frame[value].notna().sum()}."
    if framed:
        figure.supxlabel(f"{label}: {_words(column)}")
        figure.supylabel(_words(row))
        below = sum((np.diag(shade) < 0).sum() for shade in shades.values())
        figure.alt += f" {below} of {len(rows) * len(grids)} framed cells lie below the mean of the others."
    return figure


def scatter_map(vectors: dict[str, np.ndarray], group: Sequence[str], method: str = "PCA") -> Figure:
    """Vectors float[n, d] in a plane, a panel a name, a colour a group; vectors of the group "" are left out.

    PCA is fitted to all of them and draws a random part of each group. t-SNE (Lupart, Figure 1) is fitted to what it
    draws, with the constants of the released notebook: PCA to 50 dimensions first, perplexity 40, 300 iterations. At
    most 120 vectors get more iterations, and a sixth of their number as perplexity.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from sklearn.neighbors import NearestNeighbors

    group = np.asarray(group, dtype=object)
    names = [name for name in dict.fromkeys(group) if name != ""]
    rng = np.random.default_rng(1234)
    rows = {name: rng.permutation(np.flatnonzero(group == name)) for name in names}
    shown = np.concatenate([found[: MOST // max(1, len(names))] for found in rows.values()])
    of, colours, told = group[shown], _colours(DataFrame({"group": names}), "group"), []
    order = np.argsort(rng.random(len(of)))  # mixed: no group hides another
    figure, drawn = _figure(vectors, 5 if len(vectors) == 1 else 3.2, 2)
    for axis, every in drawn:
        if method == "PCA":
            plane = PCA(2, random_state=0).fit(every[group != ""])
            points, parts = plane.transform(every[shown]), plane.explained_variance_ratio_
            titles = [f"component {at} ({part:.0%} of the variance)" for at, part in enumerate(parts, 1)]
        else:
            short = PCA(min(50, every.shape[1], len(shown)), random_state=1234).fit_transform(every[shown])
            perplexity, steps = (40, 300) if len(shown) > 120 else ((len(shown) - 1) / 6, 1000)
            tsne = TSNE(perplexity=perplexity, max_iter=steps, random_state=1234)
            points, titles = tsne.fit_transform(short), ["t-SNE 1", "t-SNE 2"]
        axis.scatter(*points[order].T, c=[colours[name] for name in of[order]], marker=".", s=30, lw=0)
        axis.set(xlabel=titles[0], ylabel=titles[1], xticks=[], yticks=[])
        nearest = NearestNeighbors(n_neighbors=2).fit(points).kneighbors(points, return_distance=False)[:, 1]
        told.append(f"{axis.get_title()}: {(of[nearest] == of).mean():.0%}".removeprefix(": "))
    sizes = {f"{name} ({len(rows[name]):,})": colours[name] for name in names}
    _legend(figure, _keys(sizes, marker=".", lw=0))
    mixed = sum((of == name).mean() ** 2 for name in names)
    figure.alt = f"Map of vectors by {method}, coloured by group: {', '.join(sizes)}. {'; '.join(told)} of nearest "
    figure.alt += f"neighbours are of the same group; if all were mixed, {mixed:.0%} would be."
    return figure


def bars(frame: DataFrame, row: Names, value: str, hue: str, label: str) -> Figure:
    """Percents as lying bars, the hues of a row stacked, from dark to light."""
    rows, hues = list(_names(frame, row).unique()), list(map(str, frame[hue].unique()))
    colours, left = dict(zip(hues, _ramp(len(hues)), strict=True)), np.zeros(len(rows))
    figure, [(axis, _)] = _figure({"": frame}, 0.5 + 0.32 * len(rows))
    for at, (name, colour) in enumerate(colours.items()):
        here = frame[_names(frame, hue) == name]
        values = here.set_index(_names(here, row))[value].reindex(rows).fillna(0).to_numpy()
        drawn = axis.barh(range(len(rows)), values, left=left, color=colour)
        shown = [f"{number:.0f}" if number >= 6 else "" for number in values]
        axis.bar_label(drawn, shown, label_type="center", fontsize=8, color="white" if at < len(hues) / 2 else INK)
        left += values
    axis.set(xlim=(0, 100))
    _name_rows(axis, rows)
    figure.supxlabel(label)
    _legend(figure, _keys(colours, marker="s", lw=0), hue)
    figure.alt = f"{label} as bars: {_range(frame, value, [row, hue])}."
    return figure


def curves(
    frame: DataFrame,
    x: str,
    y: str,
    hue: Names,
    label: str,
    panel: Names = "",
    dashed: str = "",
    own_scale: bool = False,
    percent: bool = False,
) -> Figure:
    """Lines over a number, a colour a hue; columns low and high, where the frame has them, are drawn as intervals.

    `dashed`: a boolean column; its lines are dashed. `own_scale`: each panel has axes of its own, for quantities of
    different kinds. `percent`: y are fractions. A column `published`: a level, the same for all x, dotted. Lines with
    intervals stand a little apart.
    """
    panels, colours, intervals, ends = _panels(frame, panel), _colours(frame, hue), "low" in frame, {}
    step = 0.02 * np.ptp(frame[x]) if intervals else 0.0
    marker = "o" if frame[x].nunique() < 15 else ""
    figure, drawn = _figure(panels, 2.4, 4, sharex=not own_scale, sharey=not own_scale)
    for axis, part in drawn:
        is_dashed = part[dashed] if dashed else pd.Series(False, part.index)
        for (name, dash), found in part.groupby([_names(part, hue), is_dashed], sort=False):
            found, look = found.sort_values(x), {"ls": "--", "mfc": "white"} if dash else {}
            at = found[x] + step * (list(colours).index(name) - (len(colours) - 1) / 2)
            axis.plot(at, found[y], color=colours[name], marker=marker, ms=4, **look)
            if intervals:
                axis.vlines(at, found["low"], found["high"], color=colours[name], lw=1)
            if "published" in found and found["published"].notna().any():
                axis.axhline(found["published"].iloc[0], color=colours[name], ls=":")
            said = dict.fromkeys(filter(None, (axis.get_title(), name, _words(dashed) if dash else "")))
            ends[", ".join(said)] = found[y].dropna()
        axis.locator_params(axis="x", nbins=6, integer=pd.api.types.is_integer_dtype(frame[x]))
        if percent:
            axis.axhline(0, color="black", lw=0.8)
            axis.yaxis.set_major_formatter("{x:.0%}")
    if intervals and frame[y].notna().any():  # wide intervals are cut, so that the lines can be told apart
        room = 0.6 * np.ptp(frame[y].dropna()) or 0.01  # all values equal
        drawn[0][0].set_ylim(frame[y].min() - room, frame[y].max() + room)
    figure.supxlabel(_words(x))
    figure.supylabel(label)
    keys = _keys(colours if len(colours) > 1 else {}, marker="o", lw=2)
    keys += _keys({_words(dashed): INK} if dashed and frame[dashed].any() else {}, ls="--")
    keys += _keys({"published": INK} if "published" in frame else {}, ls=":")
    _legend(figure, keys, hue)
    figure.alt = f"{label} over {_words(x)}: {_range(frame, y, [hue, x, panel], percent)}.{_ways(ends, percent)}"
    return figure


def histogram(frame: DataFrame, value: str, row: str, label: str, panel: Names = "") -> Figure:
    """Distributions below each other, a row each, as 20 dots, each for 5 % of its values; a line: the median."""
    panels, edges = _panels(frame, panel), np.histogram_bin_edges(frame[value].dropna(), 40)
    same, counts = _rows_of(panels, row)
    figure, drawn = _figure(panels, [0.5 + 0.5 * count for count in counts], 3, sharex=True, sharey=same)
    for axis, part in drawn:
        rows = part.groupby(row, sort=False)[value]
        for y, (name, values) in enumerate(rows):
            dots = np.quantile(values.dropna(), (np.arange(QUANTILES) + 0.5) / QUANTILES)
            pile = np.digitize(dots, edges)
            height = np.arange(QUANTILES) - np.searchsorted(pile, pile)  # dots of one pile stand on each other
            step = min(0.1, 0.6 / max(1, height.max()))  # and stay below the next row
            axis.scatter(dots, y + 0.25 - step * height, s=14, color=COLOURS.get(name, INK), lw=0)
            axis.plot([values.median()] * 2, [y + 0.32, y + 0.45], color=COLOURS["median"], lw=2)
        _name_rows(axis, list(map(str, rows.groups)), top=-0.6)
    figure.supxlabel(f"{label}; a dot is {100 // QUANTILES} % of a row, the line below it the median")
    medians = frame.groupby([_names(frame, panel), row], sort=False)[value].median().rename_axis(["in", row])
    said = _range(medians.reset_index(), value, [row, "in"], few=FEW)
    figure.alt = f"{label}, distributions as dots; medians {said}."
    return figure


def scatter(
    frame: DataFrame, x: str, y: str, hue: str, marker: str, label: str, panel: Names, percent: bool = True
) -> Figure:
    """Numbers over others as points, with a least-squares line a hue from three points on; `percent`: y in percent."""
    colours, lines = _colours(frame, hue), {}
    shapes = dict(zip(frame[marker].unique(), itertools.cycle("osD^vPX*"), strict=False))
    figure, drawn = _figure(_panels(frame, panel), 3.2, 3, sharex=True, sharey=True)
    for axis, every in drawn:
        part = every.dropna(subset=[x, y])
        names = _names(part, hue)
        for (name, shape), found in part.groupby([names, marker], sort=False):
            axis.scatter(found[x], found[y], marker=shapes[shape], s=36, color=colours[name], ec="white", lw=0.6)
        for name, found in part.groupby(names, sort=False):
            if len(found) > 2 and np.ptp(found[x]):
                ends = np.array([found[x].min(), found[x].max()])
                line = np.polyval(np.polyfit(found[x], found[y], 1), ends)
                axis.plot(ends, line, color=colours[name], lw=1)
                lines[", ".join(filter(None, (axis.get_title(), f"line of {name}")))] = pd.Series(line)
        if frame[y].min() < 0:
            axis.axhline(0, color="black", lw=0.8)
        if percent:
            axis.yaxis.set_major_formatter("{x:.0%}")
    figure.supxlabel(_words(x))
    figure.supylabel(label)
    points = [key for name, shape in shapes.items() for key in _keys({name: "#777777"}, marker=shape, lw=0)]
    _legend(figure, _keys(colours, lw=3) + points, hue)
    figure.alt = f"{label} over {_words(x)}, {len(frame)} points: {_range(frame, y, [hue, marker, panel], percent)}."
    figure.alt += _ways(lines, percent=percent)
    return figure


def _figure(panels: dict, height: float | list[float], most: int = 1, **shared: bool) -> tuple[Figure, list[tuple]]:
    """A figure of page width, at most so many panels side by side, of one height or a height each; (axes, content)."""
    n = len(panels)
    lines = -(-n // most)
    columns = -(-n // lines)
    each = [height] * n if isinstance(height, float | int) else height
    heights = [max(each[at : at + columns]) for at in range(0, n, columns)]
    options = {"figsize": (WIDTH, sum(heights) + 0.5), "layout": "constrained", "squeeze": False}
    figure, axes = plt.subplots(lines, columns, height_ratios=heights, **options, **shared)
    plt.close(figure)  # shown once, by the last expression of the notebook's cell
    for axis in axes.flat[n:]:
        axis.remove()
    for axis in axes.flat[n - columns : n]:  # those with no axes below them
        axis.tick_params(labelbottom=True)
    for axis, title in zip(axes.flat, panels, strict=False):
        axis.set(title=title)
    return figure, list(zip(axes.flat, panels.values(), strict=False))


def _name_rows(axis: Axes, rows: list[str], top: float = -0.5) -> None:
    """Names at the rows 0, 1, … from the top, without lines across."""
    axis.set_yticks(range(len(rows)), rows)
    axis.set(ylim=(len(rows) - 0.5, top))
    axis.grid(False, axis="y")


def _names(frame: DataFrame, columns: Names) -> pd.Series:
    """The values of a column, or of several joined, as text a row; no column gives empty text."""
    chosen = [columns] if isinstance(columns, str) else columns
    parts = [[f"{v:,}" if isinstance(v, int) else str(v) for v in frame[name].tolist()] for name in chosen if name]
    return pd.Series([", ".join(values) for values in zip(*parts, strict=True)] if parts else "", frame.index, object)


def _panels(frame: DataFrame, columns: Names) -> dict[str, DataFrame]:
    if frame.empty:
        raise InputError("nothing to draw: the table has no rows; draw it only where there are some")
    return dict(list(frame.groupby(_names(frame, columns), sort=False)))


def _rows_of(panels: dict[str, DataFrame], row: Names) -> tuple[bool, list[int]]:
    """Do all panels have the same rows, and how many has each?"""
    rows = [tuple(_names(part, row).unique()) for part in panels.values()]
    return len(set(rows)) == 1, list(map(len, rows))


def _colours(frame: DataFrame, hue: Names) -> dict[str, str]:
    """Colour of each name of the hue: the kit's own, light to dark for numbers, else one that is left."""
    if not hue:
        return {"": INK}
    if isinstance(hue, str) and pd.api.types.is_numeric_dtype(frame[hue]):
        names = _names(frame.sort_values(hue), hue).unique()
        return dict(zip(names, _ramp(len(names))[::-1], strict=True))
    names = list(_names(frame, hue).unique())
    taken = {COLOURS.get(name) for name in (COLOURS if SYSTEMS.intersection(names) else [*names, "published"])}
    left = itertools.cycle(colour for colour in OTHERS if colour not in taken)
    return {name: COLOURS.get(name) or next(left) for name in names}


def _ramp(n: int) -> list[str]:
    """Blues from dark to light."""
    return [mpl.colors.to_hex(colour) for colour in mpl.colormaps["Blues"](np.linspace(1.0, 0.35, n))]


def _keys(colours: dict[str, str], **look) -> list[Line2D]:
    return [Line2D([], [], color=colour, label=name, **look) for name, colour in colours.items()]


def _legend(figure: Figure, keys: Sequence[Line2D], columns: Names = "") -> None:
    """Above the axes; numbers get the name of their column as title."""
    if labels := [str(key.get_label()) for key in keys]:
        title = _words(columns) if isinstance(columns, str) and labels[0].replace(",", "").isdigit() else None
        fitting = max(1, 110 // (max(map(len, labels)) + 8))
        figure.legend(handles=keys, loc="outside upper center", ncols=min(len(keys), fitting), title=title)


def _words(column: str) -> str:
    return "training queries" if column == "n_train" else column.replace("_", " ")


def _short(value: float) -> str:
    """Two decimals without the 0 before them, one from 1 on; no -.00."""
    return f"{value:.1f}" if abs(value) >= 1 else f"{round(value, 2) + 0.0:.2f}".replace("0.", ".", 1)


def _range(frame: DataFrame, value: str, columns: Sequence[Names], percent: bool = False, few: int = 0) -> str:
    """The smallest and the largest value in words, each with the names of its row; all, where there are but a few."""
    known = frame[frame[value].notna()]
    if known.empty:
        return "none of them defined"
    shown = known if len(known) <= few else known.iloc[[known[value].argmin(), known[value].argmax()]]
    where = zip(*(_names(shown, column) for column in columns), strict=True)
    pairs = zip(shown[value], where, strict=True)
    form = ".1%" if percent else ".3g"
    texts = [f"{number:{form}} ({', '.join(dict.fromkeys(filter(None, names)))})" for number, names in pairs]
    return ", ".join(texts) if len(known) <= few else f"from {texts[0]} to {texts[1]}"


def _ways(lines: dict[str, pd.Series], percent: bool = False) -> str:
    """A sentence that says where lines go; of many, how many rise and fall."""
    ends = {name: (line.iloc[0], line.iloc[-1]) for name, line in lines.items() if len(line) > 1}
    ways = [("falls", "stays", "rises")[1 + int(np.sign(end - start))] for start, end in ends.values()]
    if len(ends) > FEW:
        return f" Of {len(ends)} lines {ways.count('rises')} rise, {ways.count('falls')} fall."
    text = ("{:.1%} to {:.1%}" if percent else "{:.3g} to {:.3g}").format
    parts = [f"{name} {way} from {text(*both)}" for (name, both), way in zip(ends.items(), ways, strict=True)]
    return f" {'; '.join(parts)}." if parts else ""
