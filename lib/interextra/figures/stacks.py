"""Percents as lying bars."""

from pandas import DataFrame, Series

from interextra.figures.looks import INK, Drawing, blues, keys_of, kind_of_figure
from interextra.figures.panels import figure_of, finish, name_rows, panels_of
from interextra.figures.words import Names, in_words, names_of, range_of

LEAST = 8  # percent, of a bar that is wide enough for its number


@kind_of_figure
def bars(frame: DataFrame, row: Names, value: str, hue: str, label: str) -> Drawing:
    """Return percents as lying bars, the hues of a row stacked, from dark to light."""
    panels = panels_of(frame, "")
    row_names = names_of(frame, row)
    hue_names = names_of(frame, hue)
    rows = row_names.unique()
    hues = hue_names.unique()
    shares = frame.set_index([row_names, hue_names])[value].unstack()
    shares = shares.reindex(index=rows, columns=hues).fillna(0)
    left = shares.cumsum(axis=1).shift(axis=1, fill_value=0)
    colours = dict(zip(hues, blues(len(hues), 0.35), strict=True))
    figure, [(axis, _)] = figure_of(panels, 0.3 + 0.32 * len(rows))
    for place, (name, colour) in enumerate(colours.items()):
        drawn = axis.barh(range(len(rows)), shares[name], left=left[name], color=colour)
        ink = "white" if place < len(hues) / 2 else INK
        axis.bar_label(drawn, _numbers(shares[name]), label_type="center", fontsize=8, color=ink)
    axis.set_xlim(0, 100)
    name_rows(axis, rows)
    finish(figure, {in_words(hue): keys_of(colours, marker="s", lw=0)}, label)
    first = frame[hue_names == hues[0]]
    message = f"Share of {hues[0]}: {range_of(first, value, [row])}."
    seen = f"Stacked bars of {label}: {range_of(frame, value, [row, hue])}."
    figure.say(message, seen)
    return figure


def _numbers(percents: Series) -> list[str]:
    """Return what stands on the bars: nothing on one that is too narrow for its number."""
    return [f"{percent:.0f}" if percent >= LEAST else "" for percent in percents]
