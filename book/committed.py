"""A table of the committed runs on a page of the book.

```{committed} small/02_restrain/restrain
:where: measure == "nDCG@10"
:columns: model = system, n_train = training queries, delta = Δ
```

shows these columns of `outputs/reference/small/02_restrain/tables/restrain.csv` under these names.
An effect (`delta`, `difference`) has its interval in its column, and so has the estimate of claims
on relative changes with the option `:percent: estimate`.
"""

from pathlib import Path
from typing import ClassVar

import pandas as pd
from docutils import nodes
from docutils.parsers.rst.directives import unchanged
from pages import unbroken
from sphinx.util.docutils import SphinxDirective

from interextra.site.travel import REFERENCE
from interextra.stats.effects import shown
from interextra.stats.formatting import with_interval

ROOT = Path(__file__).resolve().parents[1]  # whose runs are committed, wherever a book is made
UNITS = {"delta": "%", "difference": ""}  # of the effects whose interval stands beside them


def setup(app):
    """Tell Sphinx of the directive."""
    app.add_directive("committed", Committed)
    return {"parallel_read_safe": True}


class Committed(SphinxDirective):
    """A table of the committed runs: PROFILE/NOTEBOOK/TABLE."""

    required_arguments = 1
    option_spec: ClassVar = {"where": unchanged, "columns": unchanged, "percent": unchanged}

    def run(self):
        """Return the table as HTML."""
        profile, notebook, name = self.arguments[0].split("/")
        path = ROOT / REFERENCE / profile / notebook / "tables" / f"{name}.csv"
        if not path.is_file():
            raise self.error(f"no committed table {self.arguments[0]}")
        self.env.note_dependency(str(path))
        rows = pd.read_csv(path)
        if "where" in self.options:
            rows = rows.query(self.options["where"])
        units = UNITS | {self.options["percent"]: "%"} if "percent" in self.options else UNITS
        for effect in units.keys() & set(rows):
            if {"low", "high"} <= set(rows):
                rows = with_interval(rows, effect, units[effect])
        named = columns(self.options.get("columns", ""), rows)
        return [as_html(rows[list(named)].rename(columns=named))]


def as_html(frame):
    """Return a frame as a table of a page, which scrolls in a box of its own where it is wide."""
    table = unbroken(shown(frame).to_html(table_attributes='class="table"'))
    box = f'<div class="pst-scrollable-table-container">{table}</div>'
    return nodes.raw("", box, format="html")


def columns(text, rows):
    """Return column → its name on the page, from `column = name, column`; all of them for ""."""
    if not text:
        return {column: column for column in rows}
    parts = [part.partition("=") for part in text.split(",")]
    return {column.strip(): (name or column).strip() for column, _, name in parts}
