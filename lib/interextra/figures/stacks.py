"""Percents as lying bars."""

from matplotlib.axes import Axes
from pandas import DataFrame

from interextra.figures.looks import INK, Drawing, blues, keys_of, kind_of_figure
from interextra.figures.panels import figure_of, finish, name_rows, panels_of
from interextra.figures.words import Names, extent_of, in_words, names_of

LEAST = 8  # percent, of a bar that is wide enough for its number


@kind_of_figure
def bars(frame: DataFrame, row: Names, value: str, hue: Names, label: str) -> Drawing:
    """Return percents as lying bars, the hues of a row stacked, from dark to light."""
    panels = panels_of(frame, "")
    shares = _shares(frame, row, value, hue)
    hues = shares.columns
    shades = blues(len(hues), 0.35)
    colours = dict(zip(hues, shades, strict=True))
    height = 0.3 + 0.32 * len(shares)
    figure, [(axis, _)] = figure_of(panels, height)
    _draw(axis, shares, colours)
    keys = keys_of(colours, marker="s", lw=0)
    finish(figure, {in_words(hue): keys}, label)
    is_first = names_of(frame, hue) == hues[0]
    first = frame[is_first]
    message = extent_of(f"Share of {hues[0]}", first, value, [row])
    seen = extent_of(f"Stacked bars of {label}", frame, value, [row, hue])
    figure.say(message, seen)
    return figure


def _draw(axis: Axes, shares: DataFrame, colours: dict[str, str]) -> None:
    """Draw a bar of each row and hue, with its number where there is room."""
    right = shares.cumsum(axis=1)
    left = right.shift(axis=1, fill_value=0)
    for place, (name, colour) in enumerate(colours.items()):
        share = shares[name]
        drawn = axis.barh(range(len(share)), share, left=left[name], color=colour)
        is_dark = place < len(colours) / 2
        ink = "white" if is_dark else INK
        numbers = [f"{percent:.0f}" if percent >= LEAST else "" for percent in share]
        axis.bar_label(drawn, numbers, label_type="center", fontsize=8, color=ink)
    axis.set_xlim(0, 100)
    name_rows(axis, shares.index)


def _shares(frame: DataFrame, row: Names, value: str, hue: Names) -> DataFrame:
    """Return the values, row × hue in the order of the frame, 0 where there is none."""
    row_names = names_of(frame, row)
    hue_names = names_of(frame, hue)
    shares = frame.set_index([row_names, hue_names])[value].unstack()
    rows = row_names.unique()
    hues = hue_names.unique()
    shares = shares.reindex(index=rows, columns=hues)
    return shares.fillna(0)
