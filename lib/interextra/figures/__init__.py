"""Nine kinds of figure in one style, each drawn from a tidy frame and the names of its columns.

Each is as wide as a page, readable on a telephone; `figure.column()` is the same at the width of a
column in print. Instead of a column a list of columns may be given, whose values are joined:
`panel=["protocol", "measure"]`. Two texts come from the data: `figure.caption` states the message,
`figure.alt` says what is seen.
"""

from interextra.figures.distributions import histogram
from interextra.figures.forests import forest
from interextra.figures.heatmaps import heat
from interextra.figures.lines import bands, curves
from interextra.figures.looks import COLOURS, COLUMN, WIDTH, Drawing, colours_of, style
from interextra.figures.maps import scatter_map
from interextra.figures.points import scatter
from interextra.figures.stacks import bars
from interextra.figures.waterfalls import waterfall

__all__ = [
    "COLOURS",
    "COLUMN",
    "WIDTH",
    "Drawing",
    "bands",
    "bars",
    "colours_of",
    "curves",
    "forest",
    "heat",
    "histogram",
    "scatter",
    "scatter_map",
    "style",
    "waterfall",
]
