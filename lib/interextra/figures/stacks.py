"""Percents as lying bars."""

import numpy as np
from matplotlib.figure import Figure
from pandas import DataFrame

from interextra.figures.looks import INK, blues, captioned, keys_of, kind_of_figure
from interextra.figures.panels import figure_of, finish, name_rows
from interextra.figures.words import Names, in_words, names_of, range_of

LEAST = 8  # percent, of a bar that is wide enough for its number


@kind_of_figure
def bars(frame: DataFrame, row: Names, value: str, hue: str, label: str) -> Figure:
    """Return percents as lying bars, the hues of a row stacked, from dark to light."""
    rows = list(names_of(frame, row).unique())
    hue_names = names_of(frame, hue)
    hues = list(map(str, frame[hue].unique()))
    colours = dict(zip(hues, blues(len(hues), 0.35), strict=True))
    left = np.zeros(len(rows))
    figure, [(axis, _)] = figure_of({"": frame}, 0.3 + 0.32 * len(rows))
    for place, (name, colour) in enumerate(colours.items()):
        part = frame[hue_names == name]
        values = part.set_index(names_of(part, row))[value]
        values = values.reindex(rows).fillna(0).to_numpy()
        drawn = axis.barh(range(len(rows)), values, left=left, color=colour)
        texts = [f"{number:.0f}" if number >= LEAST else "" for number in values]
        ink = "white" if place < len(hues) / 2 else INK
        axis.bar_label(drawn, texts, label_type="center", fontsize=8, color=ink)
        left += values
    axis.set_xlim(0, 100)
    name_rows(axis, rows)
    finish(figure, {in_words(hue): keys_of(colours, marker="s", lw=0)}, label)
    first = frame[hue_names == hues[0]]
    message = f"Share of {hues[0]}: {range_of(first, value, [row])}."
    seen = f"Stacked bars of {label}: {range_of(frame, value, [row, hue])}."
    return captioned(figure, message, seen)
