"""Forest plots: effects with their intervals, a line each."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from pandas import DataFrame

from interextra.figures.looks import (
    COLOURS,
    INK,
    SYSTEMS,
    Drawing,
    colours_of,
    has_systems,
    keys_of,
    kind_of_figure,
)
from interextra.figures.panels import (
    Percents,
    distance_of,
    figure_of_rows,
    finish,
    name_rows,
    panels_of,
)
from interextra.figures.words import (
    Names,
    axis_name,
    counted,
    extent_of,
    in_words,
    names_of,
)
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.stats.formatting import drawn_over

OPTIONAL = ("published", "claim_low", "claim_high", "excluded")  # columns


@kind_of_figure
def forest(
    frame: DataFrame,
    row: Names,
    effect: str,
    label: str,
    panel: Names = "",
    hue: Names = "",
    percent: bool = False,
) -> Drawing:
    """Return effects with their intervals, a line each.

    Parameters
    ----------
    frame : columns effect, low, high, and published where there is something. claim_low and
        claim_high: the simultaneous interval of the claim on a row, a thin line. over: what the
        intervals are over, for the caption. excluded: where true, points are hollow.
    row : names of the rows.
    effect : the column of the effects.
    label : of the x-axis; of differences it says so where it does not yet.
    panel : a panel each.
    hue : a colour each; several hues of a row stand below each other.
    percent : effects are fractions.
    """
    missing = [name for name in OPTIONAL if name not in frame]
    frame = frame.assign(**dict.fromkeys(missing, np.nan))
    label = axis_name(label, effect)
    row_names = names_of(frame, row)
    rows_are_systems = has_systems(row_names)
    coloured = row if rows_are_systems and not hue else hue
    colours = colours_of(frame, coloured) | _of_bm25(frame, row_names, coloured)
    panels = panels_of(frame, panel)
    is_unique = [names_of(part, row).is_unique for part in panels.values()]
    beside = "" if all(is_unique) else hue
    heights = [_height(part, row, beside) for part in panels.values()]
    figure, drawn = figure_of_rows(panels, heights, row)
    for axis, part in drawn:
        colour = names_of(part, coloured).map(colours)
        _draw(axis, part, effect, row, beside, colour)
        if percent:
            axis.xaxis.set_major_formatter(Percents())
    has_own_legend = coloured not in ("", row)
    hues = keys_of(colours, marker="o", lw=2.5) if has_own_legend else []
    rows_are_numbers = row_names.str.fullmatch(r"[\d,]+").all()
    y = in_words(row) if rows_are_numbers else ""
    legends = {in_words(hue): hues, "": _marks(frame)}
    finish(figure, legends, label, y)
    by = hue if hue and not rows_are_systems else row
    extent = extent_of(label, frame, effect, [row, hue, panel], percent)
    message = extent
    if effect not in ("mean", "percent"):
        message = _beside_zero(frame, names_of(frame, by))
    if "over" in frame:
        message += f" Intervals are over {drawn_over(frame['over'])}."
    seen = f"Forest plot, {len(frame)} rows. {extent}"
    figure.say(message, seen + _inside(frame))
    return figure


def _of_bm25(frame: DataFrame, row_names: pd.Series, hue: Names) -> dict[str, str]:
    """Return the colour of BM25 for each hue that BM25 alone has."""
    is_bm25 = row_names == BM25
    hues = names_of(frame, hue)
    of_others = set(hues[~is_bm25])
    return {name: SYSTEMS[BM25] for name in hues[is_bm25] if name not in of_others}


def _height(part: DataFrame, row: Names, beside: Names) -> float:
    """Return the inches of a panel."""
    rows = names_of(part, row).unique()
    of_hues = 0.1 + 0.14 * names_of(part, beside).nunique()
    of_row = max(of_hues, distance_of(rows))
    return 0.4 + len(rows) * of_row


def _draw(
    axis: Axes,
    part: DataFrame,
    effect: str,
    row: Names,
    beside: Names,
    colour: pd.Series,
) -> None:
    """Draw a panel: its rows from the top, and the hues of a row below each other."""
    row_codes, rows = pd.factorize(names_of(part, row))
    hue_codes, hues = pd.factorize(names_of(part, beside))
    below = (hue_codes + 0.5) / len(hues) - 0.5
    _draw_effects(axis, part, effect, row_codes + 0.7 * below, colour)
    if len(hues) > 1:
        for between in range(1, len(rows)):
            axis.axhline(between - 0.5, color="#DDDDDD", lw=0.8)
    name_rows(axis, rows)


def _draw_effects(
    axis: Axes,
    part: DataFrame,
    effect: str,
    y: np.ndarray,
    colour: pd.Series,
) -> None:
    """Draw effects with their intervals, those of claims, and what is published."""
    inside = colour.mask(part["excluded"].eq(True), "white")
    axis.hlines(y, part["low"], part["high"], color=colour, lw=2.5)
    axis.hlines(y, part["claim_low"], part["claim_high"], color=colour, lw=0.9)
    axis.scatter(part[effect], y, c=inside, ec=colour, s=36, zorder=3)
    axis.scatter(
        part["published"],
        y,
        marker="D",
        s=36,
        fc="none",
        ec=COLOURS["published"],
        lw=1.5,
        zorder=4,
    )
    axis.axvline(0, color="black", lw=0.8)


def _marks(frame: DataFrame) -> list[Line2D]:
    """Return the keys of what is drawn, whatever its colour."""
    marks = keys_of({"estimate, 95 % interval": INK}, marker="o", lw=2.5)
    if frame["claim_low"].any():
        marks += keys_of({"simultaneous, of a claim": INK}, lw=0.9)
    if frame["excluded"].any():
        excluded = {"excluded: not above BM25": INK}
        marks += keys_of(excluded, marker="o", lw=2.5, mfc="white")
    if frame["published"].notna().any():
        published = {"published": COLOURS["published"]}
        marks += keys_of(published, marker="D", lw=0, mfc="none", mew=1.5)
    return marks


def _beside_zero(frame: DataFrame, names: pd.Series) -> str:
    """Return which effects are below and above 0 with their whole interval."""
    below = frame["high"] < 0
    above = frame["low"] > 0
    if len(frame) > 1:
        for side, is_there in {"below": below, "above": above}.items():
            if is_there.all():
                return f"All effects are {side} 0, with their whole intervals."
    sides = {"Below 0 with the whole interval": below, "Above 0 with the whole interval": above}
    sentences = counted(sides, names)
    if not sentences:
        return "Every interval includes 0."
    if (below | above).all():
        return sentences
    return f"{sentences} The other intervals include 0."


def _inside(frame: DataFrame) -> str:
    """Return how many of the published values lie inside our intervals."""
    n = frame["published"].notna().sum()
    if not n:
        return ""
    is_inside = frame["published"].between(frame["low"], frame["high"])
    n_inside = is_inside.sum()
    return f" {n_inside} of {n} published values (diamonds) lie inside the interval there."
