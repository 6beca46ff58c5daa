"""Eight kinds of figure in one style, each drawn from a tidy frame and the names of its columns.

forest (effects with their intervals, published ones as diamonds), heat, scatter_map, bars, curves, histogram (as dots),
boxes, scatter. Every one is as wide as a page, has its legend outside, and the same axes in all its panels. A column may
be given as a list of columns, whose values are then joined: `panel=["protocol", "measure"]`.

`alt` of each figure says in words what is seen, from the data. A regime and a system have one colour in all figures;
numbers, such as training sizes, go from light to dark blue.
"""

import itertools
from collections.abc import Iterable, Sequence

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter

from interextra.models import architectures

Columns = str | list[str]

# Colour-blind safe (Okabe and Ito)
COLOURS = {
    "interpolation": "#E69F00",
    "extrapolation": "#0072B2",
    "random": "#999999",
    "in neither set": "#DDDDDD",
    "not trained on": "#BBBBBB",
    "test queries": "#000000",
    "published": "#CC79A7",
} | {module.LABEL: module.COLOUR for module in architectures().values()}
OTHERS = ("#E69F00", "#56B4E9", "#009E73", "#D55E00", "#0072B2", "#F0E442", "#000000", "#CC79A7")  # told apart, no more
INK = "#333333"  # where colour says nothing
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
TITLES = {"n_train": "training queries"}  # columns whose names are not the words for them
WIDTH = 8  # inches
MOST = 3000  # points of a map; more hide each other
QUANTILES = 20  # dots of a distribution: each is 5 % of it

mpl.rcParams.update(
    {
        "figure.dpi": 130,
        "savefig.bbox": "tight",
        "figure.constrained_layout.use": True,
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.alpha": 0.25,
        "legend.frameon": False,
        "svg.hashsalt": "interextra",  # the same picture, the same bytes
        "svg.fonttype": "none",
    }
)


def forest(
    frame: pd.DataFrame,
    row: Columns,
    effect: str,
    label: str,
    panel: Columns | None = None,
    hue: Columns | None = None,
    percent: bool = False,
) -> Figure:
    """Effects with their intervals, a line a row; columns effect, low, high, and published where there is something.

    `percent`: effects are fractions. Panels with the same rows stand side by side and share one axis of effects.
    """
    names, colours = _names(frame, row), _colours(frame, hue)
    panels = _panels(frame, panel)
    same = len({tuple(names[part.index].unique()) for part in panels.values()}) == 1
    beside = hue if hue != row else None  # a colour a row needs no place of its own
    places = {name: at for at, name in enumerate(_names(frame, beside).unique())}
    most = max(names[part.index].nunique() for part in panels.values())
    height = 0.5 + most * (0.16 + 0.14 * len(places))
    figure, axes = _figure(len(panels), height, 4 if same else 2, sharex=True, sharey=same)
    for axis, (title, part) in zip(axes, panels.items(), strict=True):
        rows = list(names[part.index].unique())
        at = names[part.index].map(rows.index) + 0.7 * (_names(part, beside).map(places) + 0.5) / len(places) - 0.35
        colour = _names(part, hue).map(colours)
        axis.hlines(at, part["low"], part["high"], color=colour, lw=2)
        axis.scatter(part[effect], at, color=colour, s=22, zorder=3)
        if "published" in part:
            axis.scatter(part["published"], at, marker="D", s=22, color=COLOURS["published"], ec="white", zorder=4)
        axis.axvline(0, color="black", lw=0.8)
        axis.set_yticks(range(len(rows)), rows)
        axis.set(title=title, ylim=(len(rows) - 0.5, -0.5))
        axis.grid(False, axis="y")
        axis.locator_params(axis="x", nbins=6)
    if percent:
        axes[0].xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    figure.supxlabel(label)
    keys = _keys(colours if beside else {}, marker="o", lw=2)
    published = frame["published"].count() if "published" in frame else 0
    keys += _keys({"published": COLOURS["published"]}, marker="D", lw=0) if published else []
    _legend(figure, keys, beside)
    signs = f"{(frame['high'] < 0).sum()} intervals lie below 0, {(frame['low'] > 0).sum()} above"
    words = _range(frame, effect, [row, hue, panel], percent)
    figure.alt = f"{label}: {len(frame)} effects with intervals, {words}; {signs}; {published} published ones as diamonds."
    return figure


def heat(
    frame: pd.DataFrame,
    row: str,
    column: str,
    value: str,
    label: str,
    panel: Columns | None = None,
    framed: bool = False,
    sure: str | None = None,
) -> Figure:
    """Numbers in a grid, one colour scale for all panels.

    `framed`: rows and columns are the same clusters; where both meet, the cluster was left out of training, and the
    cell is framed. Colour is then the relative difference from the mean of the cells of the column that are not framed,
    since clusters differ in difficulty; else it is the value. `sure`: a boolean column; the cells where it is true are
    bold, the others grey.
    """
    rows, panels = frame[row].unique(), _panels(frame, panel)
    grids = {name: part.pivot(index=row, columns=column, values=value) for name, part in panels.items()}
    grids = {name: grid.reindex(rows)[panels[name][column].unique()] for name, grid in grids.items()}
    shades = {name: _against_others(grid) if framed else grid for name, grid in grids.items()}
    limit = max(shade.abs().max(axis=None) for shade in shades.values())
    widest = max(grid.shape[1] for grid in grids.values())
    figure, axes = _figure(len(grids), 0.6 + 0.28 * len(rows), max(1, int(6 // (0.4 * widest))), sharey=True)
    for axis, (title, grid) in zip(axes, grids.items(), strict=True):
        shade = shades[title].to_numpy()
        image = axis.imshow(shade, cmap="PuOr", vmin=-limit, vmax=limit, aspect="auto")
        bold = grid.notna() if sure is None else panels[title].pivot(index=row, columns=column, values=sure).reindex(rows)
        for i, j in np.argwhere(grid.notna().to_numpy()):
            is_sure = bold[grid.columns[j]].iloc[i]
            ink = "white" if abs(shade[i, j]) > 0.6 * limit else "black" if is_sure else "#555555"
            look = {"weight": "bold"} if sure and is_sure else {}
            axis.text(j, i, _short(grid.iloc[i, j]), ha="center", va="center", fontsize=8, color=ink, **look)
            if framed and rows[i] == grid.columns[j]:
                axis.add_patch(Rectangle((j - 0.47, i - 0.47), 0.94, 0.94, fill=False, lw=1.6))
        axis.set_xticks(range(grid.shape[1]), map(str, grid.columns), rotation=40, ha="right")
        axis.set_yticks(range(len(rows)), map(str, rows))
        axis.set(title=title, xlim=(-0.5, widest - 0.5), ylabel=_words(row) if framed and axis is axes[0] else None)
        axis.grid(False)
    meaning = f"{label}, relative to the rows that are not framed" if framed else label
    figure.colorbar(image, ax=list(axes), label=meaning, format=PercentFormatter(1, 0) if framed else None)
    words = _range(frame, value, [row, column, panel])
    figure.alt = f"{label} as a grid of {_words(row)} by {_words(column)}: {words}."
    if framed:
        inside = frame[frame[row] == frame[column]]
        worst = inside[value].le(inside[column].map(frame.groupby(column)[value].mean())).sum()
        figure.alt += f" {worst} of {len(inside)} framed cells lie at or below the mean of their column."
    if sure:
        figure.alt += f" {frame[sure].sum()} of {len(frame)} are bold."
    return figure


def scatter_map(vectors: np.ndarray, group: Sequence[str], method: str = "PCA", crosses: Sequence[str] = ()) -> Figure:
    """Vectors float[n, d] in a plane, a colour a group; vectors of the group "" are left out.

    PCA is fitted to all of them and draws a random part of each group. t-SNE (Lupart, Figure 1) is fitted to what it
    draws, with the constants of the released notebook: PCA to 50 dimensions first, perplexity 40, 300 iterations.
    `crosses`: groups that are drawn as crosses above the others, at most 150 of each.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    group = pd.Series(group).astype(str)
    sizes = group[group != ""].value_counts(sort=False)
    dots = [name for name in sizes.index if name not in crosses]
    rng = np.random.default_rng(1234)
    drawn = {name: rng.permutation(np.flatnonzero(group == name))[: MOST // len(dots)] for name in dots}
    drawn |= {name: rng.permutation(np.flatnonzero(group == name))[:150] for name in crosses}
    rows = np.concatenate(list(drawn.values()))
    if method == "PCA":
        plane = PCA(2, random_state=0).fit(vectors[(group != "").to_numpy()])
        points, share = plane.transform(vectors[rows]), plane.explained_variance_ratio_
        labels = [f"{place} component ({part:.0%} of the variance)" for place, part in zip(("first", "second"), share)]
    else:
        short = PCA(min(50, vectors.shape[1], len(rows)), random_state=1234).fit_transform(vectors[rows])
        tsne = TSNE(perplexity=min(40, (len(rows) - 1) / 3), max_iter=300, random_state=1234)
        points, labels = tsne.fit_transform(short), ["t-SNE 1", "t-SNE 2"]
    colours = _colours(pd.DataFrame({"group": [*dots, *crosses]}), "group")
    figure, (axis,) = _figure(1, 5)
    starts = np.cumsum([0, *map(len, drawn.values())])
    keys = []
    for (name, _), start, end in zip(drawn.items(), starts, starts[1:]):
        look = {"marker": "x", "s": 26} if name in crosses else {"marker": ".", "s": 30, "lw": 0, "alpha": 0.7}
        axis.scatter(*points[start:end].T, color=colours[name], **look)
        keys += _keys({f"{name} ({sizes[name]:,})": colours[name]}, marker=look["marker"], lw=0)
    axis.set(xlabel=labels[0], ylabel=labels[1], xticks=[], yticks=[])
    _legend(figure, keys)
    counted = ", ".join(f"{name} {sizes[name]:,}" for name in drawn)
    figure.alt = f"Map of {sizes.sum():,} vectors by {method}, coloured by group: {counted}."
    return figure


def bars(
    frame: pd.DataFrame,
    row: Columns,
    value: str,
    hue: str,
    label: str,
    panel: Columns | None = None,
    stacked: bool = False,
    percent: bool = False,
) -> Figure:
    """Shares, lying: a bar a row and hue, beside each other or stacked; a row's `published` value is a diamond.

    `percent`: values are fractions, else percents.
    """
    names, panels, factor = _names(frame, row), _panels(frame, panel), 100 if percent else 1
    rows, hues = list(names.unique()), list(frame[hue].unique())
    colours = dict(zip(hues, _ramp(len(hues)), strict=True)) if stacked else _colours(frame, hue)
    height = 0.5 + len(rows) * (0.32 if stacked else 0.1 + 0.18 * len(hues))
    figure, axes = _figure(len(panels), height, 3, sharex=True, sharey=True)
    for axis, (title, part) in zip(axes, panels.items(), strict=True):
        left, width = np.zeros(len(rows)), 0.8 if stacked else 0.8 / len(hues)
        for at, name in enumerate(hues):
            here = part[part[hue] == name]
            values = factor * here.set_index(names[here.index])[value].reindex(rows).fillna(0).to_numpy()
            y = np.arange(len(rows)) + (0 if stacked else (at + 0.5) * width - 0.4)
            drawn = axis.barh(y, values, width, left=left if stacked else 0, color=list(colours.values())[at])
            shown = [f"{number:.0f}" if number >= 6 or not stacked else "" for number in values]
            ink = "white" if stacked and at < len(hues) / 2 else "black"
            axis.bar_label(drawn, shown, label_type="center" if stacked else "edge", padding=2, fontsize=8, color=ink)
            left += values
        if "published" in part:
            once = part.drop_duplicates(row)
            y = names[once.index].map(rows.index)
            axis.scatter(factor * once["published"], y, marker="D", s=30, color=COLOURS["published"], ec="white", zorder=4)
        axis.set_yticks(range(len(rows)), rows)
        axis.set(title=title, xlim=(0, 100 if stacked else 110), ylim=(len(rows) - 0.5, -0.5))
        axis.grid(False, axis="y")
    figure.supxlabel(label)
    keys = _keys(colours, marker="s", lw=0)
    if "published" in frame and frame["published"].notna().any():
        keys += _keys({"published": COLOURS["published"]}, marker="D", lw=0)
    _legend(figure, keys, hue)
    figure.alt = f"{label} as bars: {_range(frame, value, [row, hue, panel], percent)}."
    return figure


def curves(
    frame: pd.DataFrame,
    x: str,
    y: str,
    hue: Columns,
    label: str,
    panel: Columns | None = None,
    dashed: str | None = None,
    log: bool = False,
    own_scale: bool = False,
    percent: bool = False,
) -> Figure:
    """Lines over a number, a colour a hue; columns low and high, where the frame has them, are drawn as intervals.

    `dashed`: a boolean column; its lines are dashed. `log`: of x. `own_scale`: every panel has a y-axis of its own, for
    quantities of different kinds.
    """
    panels, colours, ticks = _panels(frame, panel), _colours(frame, hue), np.sort(frame[x].unique())
    figure, axes = _figure(len(panels), 2.4, 4, sharex=not own_scale, sharey=not own_scale)
    for axis, (title, part) in zip(axes, panels.items(), strict=True):
        is_dashed = part[dashed] if dashed else pd.Series(False, part.index)
        for (name, dash), found in part.groupby([_names(part, hue), is_dashed], sort=False):
            found = found.sort_values(x)
            look = {"ls": "--", "mfc": "white"} if dash else {}
            axis.plot(found[x], found[y], marker="o" if len(ticks) < 15 else "", ms=4, color=colours[name], **look)
            if "low" in found:
                axis.vlines(found[x], found["low"], found["high"], color=colours[name], lw=1, alpha=0.5)
        axis.set(title=title, xscale="log" if log else "linear")
        if len(ticks) <= 6:
            axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
            axis.minorticks_off()
        if percent:
            axis.axhline(0, color="black", lw=0.8)
            axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    figure.supxlabel(_words(x))
    figure.supylabel(label)
    keys = _keys(colours, marker="o", lw=2) + _keys({_words(dashed): INK} if dashed else {}, ls="--")
    _legend(figure, keys, hue)
    figure.alt = f"{label} over {_words(x)}, {len(colours)} lines: {_range(frame, y, [hue, x, panel], percent)}."
    return figure


def histogram(frame: pd.DataFrame, value: str, row: str, label: str, panel: Columns | None = None) -> Figure:
    """Distributions below each other, a row each, as dots: every dot is 5 % of the row's values."""
    panels = _panels(frame, panel)
    same = len({tuple(part[row].unique()) for part in panels.values()}) == 1
    most = max(part[row].nunique() for part in panels.values())
    figure, axes = _figure(len(panels), 0.5 + 0.55 * most, 3, sharex=True, sharey=same)
    edges = np.histogram_bin_edges(frame[value].dropna(), 40)
    at = (np.arange(QUANTILES) + 0.5) / QUANTILES
    for axis, (title, part) in zip(axes, panels.items(), strict=True):
        rows = list(part[row].unique())
        for y, name in enumerate(rows):
            dots = np.sort(np.quantile(part.loc[part[row] == name, value].dropna(), at))
            column = np.digitize(dots, edges)
            height = np.arange(len(dots)) - np.searchsorted(column, column)  # dots of one column are piled up
            axis.scatter(dots, y + 0.4 - 0.09 * height, s=14, color=COLOURS.get(name, INK), lw=0)
        axis.set_yticks(range(len(rows)), map(str, rows))
        axis.set(title=title, ylim=(len(rows) - 0.5, -0.5))
    figure.supxlabel(f"{label}; a dot is {100 // QUANTILES} % of a row")
    medians = frame.groupby([name for name in (row, panel) if name], sort=False)[value].median().reset_index()
    figure.alt = f"{label}, distributions as dots; medians {_range(medians, value, [row, panel])}."
    return figure


def boxes(frame: pd.DataFrame, x: str, y: str, label: str, panel: Columns) -> Figure:
    """The middle half of the values (box), their median, and whiskers, at each x; single outliers are not drawn."""
    panels = _panels(frame, panel)
    figure, axes = _figure(len(panels), 2.4, 5, sharex=True, sharey=True)
    for axis, (title, part) in zip(axes, panels.items(), strict=True):
        groups = {at: found[y].dropna() for at, found in part.groupby(x)}
        look = {"boxprops": {"fc": "#DDDDDD", "ec": "#555555"}, "medianprops": {"color": "#D55E00", "lw": 2}}
        axis.boxplot(list(groups.values()), positions=list(groups), showfliers=False, patch_artist=True, **look)
        axis.axhline(0, color="black", lw=0.8)
        axis.grid(False, axis="x")
        axis.set(title=title)
        axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    figure.supxlabel(_words(x))
    figure.supylabel(label)
    medians = frame.groupby([x, *([panel] if isinstance(panel, str) else panel)], sort=False)[y].median().reset_index()
    figure.alt = f"{label} over {_words(x)} as boxes; medians {_range(medians, y, [panel, x], percent=True)}."
    return figure


def scatter(frame: pd.DataFrame, x: str, y: str, hue: str, marker: str, label: str, panel: Columns | None) -> Figure:
    """Points with a least-squares line a hue (from three points on); `y` is a fraction, shown in percent."""
    panels, colours = _panels(frame, panel), _colours(frame, hue)
    shapes = dict(zip(frame[marker].unique(), itertools.cycle(MARKERS), strict=False))
    figure, axes = _figure(len(panels), 3.2, 3, sharex=True, sharey=True)
    for axis, (title, part) in zip(axes, panels.items(), strict=True):
        for (name, shape), found in part.groupby([hue, marker], sort=False):
            axis.scatter(found[x], found[y], marker=shapes[shape], s=36, color=colours[name], ec="white", lw=0.6)
        for name, found in part.groupby(hue, sort=False):
            if len(found) > 2 and np.ptp(found[x]):
                ends = np.array([found[x].min(), found[x].max()])
                axis.plot(ends, np.polyval(np.polyfit(found[x], found[y], 1), ends), color=colours[name], lw=1)
        axis.axhline(0, color="black", lw=0.8)
        axis.set(title=title)
        axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    figure.supxlabel(_words(x))
    figure.supylabel(label)
    keys = _keys(colours, lw=3)
    keys += [key for name, shape in shapes.items() for key in _keys({name: "#777777"}, marker=shape, lw=0)]
    _legend(figure, keys)
    figure.alt = f"{label} over {_words(x)}, {len(frame)} points: {_range(frame, y, [hue, marker, panel], percent=True)}."
    return figure


def _figure(n: int, height: float, most: int = 1, **shared: bool) -> tuple[Figure, np.ndarray]:
    """A figure of page width with `n` axes of that height, at most so many side by side."""
    rows = -(-n // most)
    columns = -(-n // rows)
    options = shared | {"figsize": (WIDTH, rows * height + 0.5), "squeeze": False}
    figure, axes = plt.subplots(rows, columns, **options)
    plt.close(figure)  # shown once, by the last expression of the notebook's cell
    for axis in axes.flat[n:]:
        axis.remove()
    for axis in axes.flat[n - columns : n]:  # those with no axes below them
        axis.tick_params(labelbottom=True)
    return figure, axes.flat[:n]


def _names(frame: pd.DataFrame, columns: Columns | None) -> pd.Series:
    """The values of a column, or of several joined, as text a row; no column gives empty text."""
    chosen = [] if columns is None else [columns] if isinstance(columns, str) else columns
    parts = [frame[name].map(lambda v: f"{v:,}" if isinstance(v, int | np.integer) else str(v)) for name in chosen]
    joined = [", ".join(values) for values in zip(*parts, strict=True)] if parts else ""
    return pd.Series(joined, frame.index, dtype=object)


def _panels(frame: pd.DataFrame, columns: Columns | None) -> dict[str, pd.DataFrame]:
    return dict(list(frame.groupby(_names(frame, columns), sort=False)))


def _colours(frame: pd.DataFrame, hue: Columns | None) -> dict[str, str]:
    """Colour of each name of the hue: the kit's own, light to dark for numbers, else one that is left."""
    names = list(_names(frame, hue).unique())
    if hue is None:
        return {"": INK}
    if isinstance(hue, str) and pd.api.types.is_numeric_dtype(frame[hue]):
        names = [f"{value:,}" for value in np.sort(frame[hue].unique())]
        return dict(zip(names, _ramp(len(names))[::-1], strict=True))
    taken = {COLOURS.get(name) for name in names}
    left = itertools.cycle([colour for colour in OTHERS if colour not in taken] or OTHERS)
    return {name: COLOURS.get(name) or next(left) for name in names}


def _ramp(n: int) -> list[str]:
    """Blues from dark to light."""
    return [mpl.colors.to_hex(colour) for colour in mpl.colormaps["Blues"](np.linspace(1.0, 0.35, n))]


def _against_others(grid: pd.DataFrame) -> pd.DataFrame:
    """Each cell relative to the mean of the other rows' cells of its column, the framed one (same name) left out."""
    framed = np.equal.outer(grid.index.to_numpy(), grid.columns.to_numpy())
    return grid / grid.mask(framed).mean() - 1


def _keys(colours: dict[str, str], **look) -> list[Line2D]:
    return [Line2D([], [], color=colour, label=name, **look) for name, colour in colours.items()]


def _legend(figure: Figure, keys: Sequence[Line2D], columns: Columns | None = None) -> None:
    """Above the axes; numbers get the name of their column as title."""
    labels = [str(key.get_label()) for key in keys]
    if labels:
        title = _words(columns) if isinstance(columns, str) and labels[0].replace(",", "").isdigit() else None
        fitting = max(1, 110 // (max(map(len, labels)) + 8))
        figure.legend(handles=keys, loc="outside upper center", ncols=min(len(keys), fitting), title=title)


def _words(column: str) -> str:
    return TITLES.get(column, column.replace("_", " "))


def _short(value: float) -> str:
    """Two decimals without the 0 before them, one from 1 on; no -.00."""
    text = f"{value:.1f}" if abs(value) >= 1 else f"{round(value, 2) + 0.0:.2f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def _range(frame: pd.DataFrame, value: str, columns: Iterable[Columns | None], percent: bool = False) -> str:
    """The smallest and the largest value, each with the names of its row."""
    frame = frame.reset_index(drop=True)
    names = [_names(frame, column) for column in columns if column]
    ends = []
    for at in (frame[value].idxmin(), frame[value].idxmax()):
        number = frame.loc[at, value]
        where = ", ".join(name[at] for name in names)
        ends.append(f"{number:.1%} ({where})" if percent else f"{number:.3g} ({where})")
    return f"from {ends[0]} to {ends[1]}"
