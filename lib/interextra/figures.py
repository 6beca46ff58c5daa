"""Seven kinds of figure in one style, each drawn from a tidy frame and the names of its columns.

Each is as wide as a page, readable on a telephone; `figure.column()` is the same at the width of a
column in print. Instead of a column a list of columns may be given, whose values are joined:
`panel=["protocol", "measure"]`. Two texts come from the data: `figure.caption` states the message,
`figure.alt` says what is seen.
"""

import functools
import itertools
import re
import textwrap
from collections.abc import Sequence

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from pandas import DataFrame

from interextra.models.architectures import architectures
from interextra.stats.formatting import drawn_over
from interextra.store.errors import InputError

Names = str | list[str]  # of columns; "" is none
INK = "#333333"  # where colour says nothing
# Colour-blind safe: Okabe and Ito, and three of Tol's
COLOURS = {
    "interpolation": "#E69F00",
    "extrapolation": "#0072B2",
    "random": "#999999",
    "published": "#CC79A7",
}
COLOURS |= {"median": "#D55E00", "": INK} | {
    module.LABEL: module.COLOUR for module in architectures().values()
}
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
UNKNOWN = {"fc": "white", "ec": "#BBBBBB", "hatch": "///", "lw": 0, "label": "not computed"}
WIDTH, COLUMN = 5, 3.33  # inches, of a page (480 pixels) and of a column in print (ACM)
NAME = 1.7  # inches, of the name of a row at most: a longer one is wrapped
FEW, QUANTILES = 8, 20  # values that texts name one by one; dots of a distribution
WORDS = {
    "n_train": "training queries",
    "model": "system",
    "method": "training strategy",
    "wh-words": "question words",
}
WORDS |= {
    "wha": "what",
    "left_out": "excluded from training",
    "stratum": "test cluster",
    "bucket": "test bucket",
}


def style() -> None:
    """Set the kit's look, as `ix.start` does."""
    look = {
        "figure.figsize": (WIDTH, 3),
        "savefig.dpi": 200,
        "font.size": 9,
        "axes.axisbelow": True,
    }
    look |= dict.fromkeys(
        ("axes.titlesize", "axes.labelsize", "figure.labelsize", "legend.title_fontsize"), "medium"
    )
    look |= {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "legend.frameon": False,
    }
    look |= {
        "grid.alpha": 0.25,
        "pdf.fonttype": 42,
        "svg.fonttype": "none",
        "svg.hashsalt": "interextra",
    }  # same bytes
    mpl.rcParams.update(look)


def _kind(draw):
    """Let a figure draw itself again, at the width of a column in print."""

    @functools.wraps(draw)
    def drawn(*args, **options) -> Figure:
        figure, narrow = (
            draw(*args, **options),
            mpl.rc_context({"figure.figsize": (COLUMN, 3), "font.size": 8}),
        )
        figure.column = narrow(functools.partial(draw, *args, **options))
        return figure

    return drawn


@_kind
def forest(
    frame: DataFrame,
    row: Names,
    effect: str,
    label: str,
    panel: Names = "",
    hue: Names = "",
    percent: bool = False,
) -> Figure:
    """Effects with their intervals, a line each; columns effect, low, high, and published where
    there is something.

    Columns claim_low and claim_high: the simultaneous interval of the claim on a row, a thin line.
    The column over says what the intervals are over, for the caption. Several hues of a row stand
    below each other. `percent`: effects are fractions. Where a column `excluded` is true, points
    are hollow.
    """
    frame = frame.assign(
        **{
            x: np.nan
            for x in ("published", "claim_low", "claim_high", "excluded")
            if x not in frame
        }
    )
    coloured = hue or (row if set(_names(frame, row)) & SYSTEMS else "")
    colours, panels = _colours(frame, coloured), _panels(frame, panel)
    beside = (
        hue if any(not _names(part, row).is_unique for part in panels.values()) else ""
    )  # below each other
    heights = []
    for part in panels.values():
        rows = _names(part, row).unique()
        heights.append(
            0.4 + len(rows) * max(0.1 + 0.14 * _names(part, beside).nunique(), _apart(rows))
        )
    figure, drawn = _figure(panels, heights, 3, row, sharex=True)
    for axis, part in drawn:
        rows, places = list(_names(part, row).unique()), list(_names(part, beside).unique())
        below = 0.7 * ((_names(part, beside).map(places.index) + 0.5) / len(places) - 0.5)
        at, colour = _names(part, row).map(rows.index) + below, _names(part, coloured).map(colours)
        axis.hlines(at, part["low"], part["high"], color=colour, lw=2.5)
        axis.hlines(at, part["claim_low"], part["claim_high"], color=colour, lw=0.9)
        axis.scatter(
            part[effect],
            at,
            c=colour.mask(part["excluded"].eq(True), "white"),
            ec=colour,
            s=36,
            zorder=3,
        )
        axis.scatter(
            part["published"],
            at,
            marker="D",
            s=36,
            fc="none",
            ec=COLOURS["published"],
            lw=1.5,
            zorder=4,
        )
        axis.axvline(0, color="black", lw=0.8)
        for between in range(1, len(rows) if len(places) > 1 else 0):
            axis.axhline(between - 0.5, color="#DDDDDD", lw=0.8)
        _name_rows(axis, rows)
        if percent:
            axis.xaxis.set_major_formatter(Percents())
    low, high, theirs = frame["low"], frame["high"], frame["published"]
    marks = _keys({"estimate, 95 % interval": INK}, marker="o", lw=2.5)
    marks += _keys({"simultaneous, of a claim": INK}, lw=0.9) * bool(frame["claim_low"].any())
    marks += _keys({"excluded: not above BM25": INK}, marker="o", lw=2.5, mfc="white") * bool(
        frame["excluded"].any()
    )
    seen = message = f"{label}: {_range(frame, effect, [row, hue, panel], percent)}."
    if effect not in ("mean", "percent"):  # which are not compared with 0
        by = row if set(_names(frame, row)) & SYSTEMS else hue or row
        told = _counted(
            {"Intervals below 0": high < 0, "Intervals above 0": low > 0}, _names(frame, by)
        )
        message = told or "Every interval includes 0."
    if "over" in frame:
        message += f" Intervals are over {drawn_over(frame['over'])}."
    if n := theirs.notna().sum():
        marks += _keys({"published": COLOURS["published"]}, marker="D", lw=0, mfc="none", mew=1.5)
        seen += f" {theirs.between(low, high).sum()} of {n} published values (diamonds) lie inside the interval there."
    keys = {
        _words(hue): _keys({} if coloured in ("", row) else colours, marker="o", lw=2.5),
        "": marks,
    }
    _finish(
        figure,
        keys,
        label,
        _words(row) if _names(frame, row).str.fullmatch(r"[\d,]+").all() else "",
    )
    return _said(figure, message, f"Forest plot, {len(frame)} rows. {seen}")


@_kind
def heat(
    frame: DataFrame,
    row: str,
    column: str,
    value: str,
    label: str,
    panel: Names = "",
    sure: str = "",
) -> Figure:
    """Numbers in a grid, one colour scale for all panels, each with the columns that it has numbers
    of.

    Where rows and columns have the same names, rows are what was left out of training and columns
    what is tested: cells of both are framed, and colour is the relative difference from the mean of
    a column's other cells. `sure`: a boolean column; only what is true has a colour.
    """
    rows, framed = frame[row].unique(), set(frame[row]) == set(frame[column])
    panels, grids, shades = _panels(frame, panel), {}, {}
    for title, part in panels.items():
        grid = part.pivot(index=row, columns=column, values=value)
        grids[title] = grid = grid.reindex(
            index=rows, columns=rows if framed else part[column].unique()
        )
        shades[title] = (
            grid / grid.mask(np.eye(len(rows), dtype=bool)).mean() - 1 if framed else grid
        )
    limit = np.nanmax([1e-9, *(shade.abs().max(axis=None) for shade in shades.values())])
    names, widths = [_words(str(name)) for name in rows], [grid.shape[1] for grid in grids.values()]
    room = mpl.rcParams["figure.figsize"][0] - 0.3 - _inches(names)
    fitting = max(
        1, int(room // max(0.29 * max(widths), _inches(["", *" ".join(panels).split()]) + 0.1))
    )
    figure, drawn = _figure(panels, 1 + 0.24 * len(rows), fitting, widths=widths, sharey=True)
    for (axis, part), grid, shade in zip(drawn, grids.values(), shades.values(), strict=True):
        known = (
            part.pivot(index=row, columns=column, values=sure).reindex_like(grid)
            if sure
            else grid.notna()
        )
        shade = shade.where(known.eq(True)).to_numpy(float)
        image = axis.imshow(shade, cmap="PuOr", vmin=-limit, vmax=limit, aspect="auto")
        for (i, j), number in np.ndenumerate(grid.to_numpy(float)):
            ink = (
                "#555555"
                if np.isnan(shade[i, j])
                else "white"
                if abs(shade[i, j]) > 0.6 * limit
                else "black"
            )
            text = (
                f"{number:.1f}"
                if abs(number) >= 1
                else f"{round(number, 2) + 0.0:.2f}".replace("0.", ".", 1)
            )
            if np.isnan(number):
                axis.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, **UNKNOWN))
            else:
                axis.text(j, i, text, color=ink, ha="center", va="center", fontsize=8)
            if framed and i == j:
                axis.add_patch(Rectangle((j - 0.47, i - 0.47), 0.94, 0.94, fill=False, lw=1.6))
        columns = [_words(str(name)) for name in grid.columns]
        tilt = (
            {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
            if max(map(len, columns)) > 3
            else {}
        )
        axis.set_xticks(range(len(columns)), columns, **tilt)
        axis.set_yticks(range(len(rows)), names)
        axis.grid(False)
        axis.set_xlabel(_words(column) * framed)
    spare = [axis.inset_axes([0.1, 0.8, 0.8, 0.08]) for axis in figure.axes if not axis.axison][:1]
    place = {"cax": spare[0]} if spare else {"ax": figure.axes, "aspect": 40}
    place |= {"ticks": plt.MaxNLocator(3 if spare else 5), "format": "{x:+.0%}" if framed else None}
    scale = figure.colorbar(image, orientation="horizontal", **place)
    told = label + ", relative to the models trained with it" * framed
    scale.set_label(_wrapped(told, 0.6 * room / fitting if spare else room))
    figure.supylabel(_words(row) * framed)
    keys = [Patch(fill=False, lw=1.6, label="excluded from training")] * framed
    keys += [Patch(fc="white", ec="#999999", label="white: interval includes 0")] if sure else []
    _finish(
        figure,
        {
            "": keys
            + [Patch(**UNKNOWN)] * any(grid.isna().any(axis=None) for grid in grids.values())
        },
    )
    seen = (
        f"{label}, {_words(row)} by {_words(column)}: {_range(frame, value, [row, column, panel])}."
    )
    if framed:
        below = sum((np.diag(shade) < 0).sum() for shade in shades.values())
        told = f"{below} of {len(rows) * len(grids)} framed cells lie below the mean of the others in their column."
    else:
        above = frame.loc[frame[sure] if sure else frame[value].notna(), value] > 0
        told = f"{sum(above)} of {frame[value].notna().sum()} coloured as above 0, {sum(~above)} as below."
    return _said(figure, told, seen)


@_kind
def scatter_map(vectors: dict[str, np.ndarray], group: Sequence[str], title: str) -> Figure:
    """Vectors float[n, d] in a plane by t-SNE, a panel a name, a colour a group; `title` says what
    the groups are.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    group = np.asarray(group, dtype=object)
    sizes, colours = (
        pd.Series(group).value_counts(sort=False),
        _colours(DataFrame({"group": group}), "group"),
    )
    figure, drawn = _figure(vectors, 1.7, 2)
    for axis, every in drawn:
        short = PCA(min(50, *every.shape), random_state=1234).fit_transform(every)
        points = TSNE(
            perplexity=(len(every) - 1) / 6, max_iter=1000, random_state=1234
        ).fit_transform(short)
        axis.scatter(*points.T, c=[colours[name] for name in group], s=16, lw=0)
        axis.set(xticks=[], yticks=[])
    named = {
        f"{name}\u00a0({sizes[name]:,})": colour for name, colour in colours.items()
    }  # in one line with its end
    _finish(figure, {title: _keys(named, marker="o", lw=0, ms=5)})
    return _said(
        figure,
        f"{'; '.join(vectors)}.",
        f"Map by t-SNE of {len(group)} vectors: {'; '.join(named)}.",
    )


@_kind
def bars(frame: DataFrame, row: Names, value: str, hue: str, label: str) -> Figure:
    """Percents as lying bars, the hues of a row stacked, from dark to light."""
    rows, hues = list(_names(frame, row).unique()), list(map(str, frame[hue].unique()))
    colours, left = dict(zip(hues, _ramp(len(hues), 0.35), strict=True)), np.zeros(len(rows))
    figure, [(axis, _)] = _figure({"": frame}, 0.3 + 0.32 * len(rows))
    for at, (name, colour) in enumerate(colours.items()):
        here = frame[_names(frame, hue) == name]
        values = here.set_index(_names(here, row))[value].reindex(rows).fillna(0).to_numpy()
        drawn = axis.barh(range(len(rows)), values, left=left, color=colour)
        shown = [f"{number:.0f}" if number >= 8 else "" for number in values]
        axis.bar_label(
            drawn,
            shown,
            label_type="center",
            fontsize=8,
            color="white" if at < len(hues) / 2 else INK,
        )
        left += values
    axis.set_xlim(0, 100)
    _name_rows(axis, rows)
    _finish(figure, {_words(hue): _keys(colours, marker="s", lw=0)}, label)
    message = f"Share of {hues[0]}: {_range(frame[_names(frame, hue) == hues[0]], value, [row])}."
    return _said(figure, message, f"Stacked bars of {label}: {_range(frame, value, [row, hue])}.")


@_kind
def curves(
    frame: DataFrame, x: str, y: str, hue: str, label: str, panel: Names = "", percent: bool = False
) -> Figure:
    """Lines over a number, a colour a hue; columns low and high, where the frame has them, are
    drawn as bars.

    `percent`: y are fractions. A column `published`: a level, the same for all x, dotted. Lines
    with bars stand apart.
    """
    panels, colours, bars, ways = _panels(frame, panel), _colours(frame, hue), "low" in frame, []
    step = 0.02 * np.ptp(frame[x]) * bars
    figure, drawn = _figure(panels, 1.7, 3, sharex=True, sharey=True)
    for axis, part in drawn:
        for name, found in part.groupby(_names(part, hue), sort=False):
            found = found.sort_values(x)
            at = found[x] + step * (list(colours).index(name) - (len(colours) - 1) / 2)
            axis.plot(at, found[y], color=colours[name], marker="o", ms=4, lw=1.2)
            if bars:
                axis.vlines(at, found["low"], found["high"], color=colours[name], lw=1)
            if "published" in found and found["published"].notna().any():
                axis.axhline(found["published"].iloc[0], color=colours[name], ls=":")
            ways.append((name, found[y].iloc[-1] - found[y].iloc[0]))
        axis.locator_params(axis="x", integer=pd.api.types.is_integer_dtype(frame[x]))
    if (
        bars and frame[y].notna().any()
    ):  # very wide intervals are cut, so that the lines can be told apart
        least, most, room = (
            frame[y].min(),
            frame[y].max(),
            1.2 * np.ptp(frame[y].dropna()) or 0.01,
        )  # all values equal
        ends = np.fmax(frame["low"].min(), least - room), np.fmin(frame["high"].max(), most + room)
        drawn[0][0].set_ylim(ends[0] - 0.1 * room, ends[1] + 0.1 * room)
    level = _keys({"published": INK}, ls=":") * ("published" in frame)
    _finish(
        figure,
        {_words(hue): _keys(colours, marker="o", ms=4, lw=2), "": level},
        _words(x),
        label,
        percent,
    )
    names, ways = map(pd.Series, zip(*ways, strict=True))
    if names.str.isdigit().all():
        names = f"{_words(hue)} " + names
    sides = {
        f"Lines that end higher than they begin, over {_words(x)}": ways > 0,
        "Lower": ways < 0,
    }
    told = _counted(sides, names, " panels")
    return _said(
        figure,
        told,
        f"Lines of {label} over {_words(x)}: {_range(frame, y, [hue, x, panel], percent)}.",
    )


@_kind
def histogram(frame: DataFrame, value: str, row: str, label: str, panel: Names = "") -> Figure:
    """Distributions below each other, a row each, as 20 dots, each for 5 % of its values; a line:
    the median.
    """
    panels, edges = _panels(frame, panel), np.histogram_bin_edges(frame[value].dropna(), 40)
    figure, drawn = _figure(
        panels, [0.4 + 0.42 * part[row].nunique() for part in panels.values()], 3, row, sharex=True
    )
    for axis, part in drawn:
        rows = part.groupby(row, sort=False)[value]
        for y, (name, values) in enumerate(rows):
            dots = np.quantile(values.dropna(), (np.arange(QUANTILES) + 0.5) / QUANTILES)
            pile = np.digitize(dots, edges)
            height = np.arange(QUANTILES) - np.searchsorted(
                pile, pile
            )  # dots of one pile stand on each other
            step = min(0.1, 0.6 / max(1, height.max()))  # and stay below the next row
            axis.scatter(dots, y + 0.25 - step * height, s=10, color=COLOURS.get(name, INK), lw=0)
            axis.plot([values.median()] * 2, [y + 0.32, y + 0.45], color=COLOURS["median"], lw=2)
        _name_rows(axis, list(map(str, rows.groups)), top=-0.6)
    dot = _keys({f"{100 // QUANTILES} % of a row": INK}, marker="o", lw=0, ms=3.5)
    _finish(
        figure,
        {"": dot + _keys({"median": COLOURS["median"]}, marker="|", lw=0, mew=2, ms=7)},
        label,
    )
    medians = (
        frame.groupby([_names(frame, panel).rename("in"), row], sort=False)[value]
        .median()
        .reset_index()
    )
    told = f"Median {label}: {_range(medians, value, [row, 'in'])}."
    return _said(
        figure, told, f"Distributions of {label} as dots: {_range(frame, value, [row, panel])}."
    )


@_kind
def scatter(
    frame: DataFrame,
    x: str,
    y: str,
    hue: str,
    marker: str,
    label: str,
    panel: str,
    percent: bool,
    beside: tuple = (),
) -> Figure:
    """Numbers over others as points. `beside`: a system that is not among them, with its x and y,
    as grey lines.
    """
    colours, shapes = (
        _colours(frame, hue),
        dict(zip(frame[marker].unique(), itertools.cycle("osD^vPX*"), strict=False)),
    )
    figure, drawn = _figure(_panels(frame, panel), 2.2, 3, sharex=True, sharey=True)
    for axis, part in drawn:
        for (name, shape), found in part.dropna(subset=[x, y]).groupby(
            [_names(part, hue), marker], sort=False
        ):
            look = {
                "marker": shapes[shape],
                "s": 60 if shapes[shape] in "*^vPX" else 36,
                "ec": INK,
                "lw": 0.5,
            }
            axis.scatter(found[x], found[y], color=colours[name], **look)
        for draw, place in zip((axis.axvline, axis.axhline), beside[1:], strict=False):
            draw(place, color=COLOURS["random"], ls="--", lw=1.2)
    points = [
        key
        for name, shape in shapes.items()
        for key in _keys({name: "#777777"}, marker=shape, lw=0)
    ]
    level = _keys(dict.fromkeys(beside[:1], COLOURS["random"]), ls="--")
    _finish(
        figure,
        {_words(hue): _keys(colours, lw=4), _words(marker): points, "": level},
        _words(x),
        label,
        percent,
    )
    seen = f"{label}, {len(frame)} points over {_words(x)}: {_range(frame, y, [hue, marker, panel], percent)}."
    above = [(frame[name] > level).sum() for name, level in zip((x, y), beside[1:], strict=False)]
    told = (
        f"Of {len(frame)} points {above[0]} lie right of {beside[0]} and {above[1]} above it."
        if beside
        else seen
    )
    return _said(figure, told, seen)


def _figure(
    panels: dict,
    height: float | list[float],
    most: int = 1,
    row: Names = "",
    widths: Sequence = (),
    **shared: bool,
) -> tuple[Figure, list[tuple]]:
    """A figure and its panels, (axes, content): at most so many side by side; one, if their values
    of `row` differ.
    """
    wide, n = mpl.rcParams["figure.figsize"][0], len(panels)
    if row:
        shared["sharey"] = len({tuple(_names(part, row).unique()) for part in panels.values()}) == 1
        most = most if shared["sharey"] else 1
    lines = -(-n // (most if len(widths) else max(1, round(most * wide / WIDTH))))
    columns = -(-n // lines)
    ratios = widths if len(widths) == columns else [1] * columns
    heights = np.maximum.reduceat(
        np.full(n, height), range(0, n, columns)
    ).tolist()  # of each line of panels
    options = {"figsize": (wide, sum(heights) + 0.4), "layout": "constrained", "squeeze": False}
    options |= {"height_ratios": heights, "width_ratios": ratios}
    figure, axes = plt.subplots(lines, columns, **options, **shared)
    plt.close(figure)  # shown once, by the last expression of the notebook's cell
    for axis in axes.flat[n:]:
        axis.axis("off")
    for axis in axes.flat[n - columns : n]:  # those with no axes below them
        axis.tick_params(labelbottom=True)
    for axis, title, share in zip(axes.flat, panels, itertools.cycle(ratios), strict=False):
        axis.set_title(_wrapped(_words(title), 0.75 * wide * share / sum(ratios)))
        axis.locator_params(axis="x", nbins=max(2, round(1.6 * (wide - 1) / columns)))
        axis.tick_params(labelsize=mpl.rcParams["font.size"])
    return figure, list(zip(axes.flat, panels.values(), strict=False))


def _said(figure: Figure, message: str, seen: str) -> Figure:
    figure.caption, figure.alt = (
        re.sub(r"← [\w ]+?   |   [\w ]+ →", "", text) for text in (message, seen)
    )
    return figure


class Percents(mpl.ticker.Formatter):
    """Fractions as percentages, all with the digits that their steps need."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """One tick: as many digits as the step of all ticks needs."""
        ticks = [] if self.axis is None else self.axis.get_majorticklocs()
        percents = 100 * np.asarray([*ticks, x])
        digits = next(
            (n for n in range(2) if np.allclose(percents, percents.round(n), rtol=0, atol=1e-6)), 2
        )
        return self.fix_minus(f"{round(100 * x, digits) + 0.0:.{digits}f}%")  # + 0.0: no -0


def _name_rows(axis: Axes, rows: list[str], top: float = -0.5) -> None:
    """Names at the rows 0, 1, … from the top, without lines across."""
    axis.set_yticks(range(len(rows)), [_wrapped(_words(row), NAME) for row in rows])
    axis.set(ylim=(len(rows) - 0.5, top))
    axis.grid(False, axis="y")


def _apart(rows: Sequence[str]) -> float:
    """Inches between two rows, such that their names, of one line or more, do not touch."""
    lines = [1 + _wrapped(_words(row), NAME).count("\n") for row in rows]
    return (
        max(map(sum, itertools.pairwise(lines)), default=0)
        / 2
        * 1.35
        * mpl.rcParams["font.size"]
        / 72
    )


def _names(frame: DataFrame, columns: Names) -> pd.Series:
    """The values of a column, or of several joined, as text a row; no column gives empty text."""
    chosen = [columns] if isinstance(columns, str) else columns
    parts = [
        [f"{v:,}" if isinstance(v, int) else str(v) for v in frame[name].tolist()]
        for name in chosen
        if name
    ]
    return pd.Series(
        [", ".join(values) for values in zip(*parts, strict=True)] if parts else "",
        frame.index,
        object,
    )


def _panels(frame: DataFrame, columns: Names) -> dict[str, DataFrame]:
    if frame.empty:
        raise InputError(
            "nothing to draw: the table has no rows; draw it only where there are some"
        )
    return dict(list(frame.groupby(_names(frame, columns), sort=False)))


def _colours(frame: DataFrame, hue: Names) -> dict[str, str]:
    """Colour of each name of the hue: the kit's own, light to dark for numbers, else one that is
    left.
    """
    if hue in list(frame) and pd.api.types.is_numeric_dtype(frame[hue]):
        names = _names(frame.sort_values(hue), hue).unique()
        return dict(zip(names, _ramp(len(names), 0.45)[::-1], strict=True))
    names = list(_names(frame, hue).unique())
    taken = {
        COLOURS.get(name)
        for name in (COLOURS if SYSTEMS.intersection(names) else [*names, "published"])
    }
    mine = {COLOURS.get(name) for name in [*names, "published"]}
    free = [colour for colour in OTHERS if colour not in mine]
    free.sort(key=lambda colour: colour in taken)  # those of systems that are not here come last
    left = itertools.cycle(free)
    return {name: COLOURS.get(name) or next(left) for name in names}


def _ramp(n: int, lightest: float) -> list[str]:
    return [
        mpl.colors.to_hex(colour)
        for colour in mpl.colormaps["Blues"](np.linspace(1.0, lightest, n))
    ]


def _keys(colours: dict[str, str], **look) -> list[Line2D]:
    return [
        Line2D([], [], color=colour, label=_words(name), **look) for name, colour in colours.items()
    ]


def _finish(
    figure: Figure, variables: dict[str, list], x: str = "", y: str = "", percent: bool = False
) -> None:
    """Names of both axes, and legends above them, or where a place is left over: title → keys, a
    variable each.
    """
    for axis in [axis for axis in figure.axes if percent and axis.axison]:
        axis.axhline(0, color="black", lw=0.8)
        axis.yaxis.set_major_formatter(Percents())
    if x:
        figure.supxlabel(_wrapped(x, figure.get_figwidth()))
        figure.supylabel(_wrapped(y, figure.get_figheight()), ma="center")
    made, (wide, tall), groups = (
        [],
        figure.get_size_inches(),
        [group for group in variables.items() if group[1]],
    )
    if len(groups) == 1 and (
        spare := [axis for axis in figure.axes if not axis.axison and not axis.child_axes]
    ):
        keys = groups.pop()[1]
        _fit(keys, spare[0].get_position().width * wide)
        spare[0].legend(handles=keys, loc="center")
    for title, keys in groups:
        lines = _fit(keys, wide)
        fitting = max(1, int(wide // (_inches(lines) + 0.55)))
        look = {"loc": "upper center", "borderaxespad": 0, "borderpad": 0.3, "columnspacing": 1.2}
        made.append(figure.legend(handles=keys, title=title, ncols=min(len(keys), fitting), **look))
    heights = [legend.get_window_extent().height / figure.dpi for legend in made]
    figure.set_figheight(tall + sum(heights))
    for legend, above in zip(made, np.cumsum([0, *heights]), strict=False):
        legend.set_bbox_to_anchor((0.5, 1 - above / figure.get_figheight()))
    figure.get_layout_engine().set(rect=(0, 0, 1, tall / figure.get_figheight()))


def _fit(keys: list, inches: float) -> list[str]:
    """Wrap what keys of a legend say to this width; returns its lines."""
    for key in keys:
        key.set_label(_wrapped(str(key.get_label()), inches - 0.55))
    return [line for key in keys for line in key.get_label().split("\n")]


def _words(name: Names) -> str:
    """A name of the data as a reader says it; of several columns none."""
    return (
        WORDS.get(name) or re.sub(r"^C(\d+)$", r"topic \1", name.replace("_", " "))
        if isinstance(name, str)
        else ""
    )


def _inches(texts: Sequence[str]) -> float:
    return max(map(len, texts)) * 0.58 * mpl.rcParams["font.size"] / 72  # about, of the longest


def _wrapped(text: str, inches: float) -> str:
    return textwrap.fill(text, max(8, int(inches / _inches("x"))))


def _counted(sides: dict[str, pd.Series], names: pd.Series, what: str = "") -> str:
    """Who is on which side, and how often; `what` is counted."""
    texts = []
    for side, found in sides.items():
        counts = found.groupby(names, sort=False).agg(["sum", "size"]).query("sum > 0").itertuples()
        if told := [
            f"{_words(name)}{f' ({n} of {size}{what})' * (size > 1)}" for name, n, size in counts
        ]:
            texts.append(f"{side}: {'; '.join(told)}.")
    return " ".join(texts)


def _range(frame: DataFrame, value: str, columns: Sequence[Names], percent: bool = False) -> str:
    """The smallest and the largest value in words, each with the names of its row; all, where there
    are but a few.
    """
    shown, form = frame[frame[value].notna()], ".1%" if percent else ".3g"
    if is_many := len(shown) > FEW:
        shown = shown.iloc[[shown[value].argmin(), shown[value].argmax()]]
    rows = zip(
        shown[value],
        *(_names(shown.round(2), column).map(_words) for column in columns),
        strict=True,
    )
    texts = [
        f"{number:{form}} ({', '.join(dict.fromkeys(filter(None, names)))})"
        for number, *names in rows
    ]
    return (
        f"from {texts[0]} to {texts[1]}" if is_many else ", ".join(texts) or "none of them defined"
    )
