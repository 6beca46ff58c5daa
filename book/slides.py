"""What notebooks hold for a talk and for a class: their slides and minutes, their predictions.

```{slides} 02, 05, 09
:minutes: 20
```

counts the cells tagged `slide` as `interextra class --format slides` makes slides of them.

```{predictions} 00, 02
```

is the sheet on which students write what they predict: a row a prediction that these notebooks ask
for.
"""

import json
from typing import ClassVar

import pandas as pd
from committed import as_html
from docutils import nodes
from docutils.parsers.rst.directives import positive_int
from sphinx.util.docutils import SphinxDirective

from interextra.site.first_page import title
from interextra.site.repository import notebooks, repository_root
from tools.teaching import SHEET_COLUMNS, defined_terms, predictions, slides


def setup(app):
    """Tell Sphinx of the directives."""
    app.add_directive("slides", Slides)
    app.add_directive("predictions", Predictions)
    return {"parallel_read_safe": True}


class Slides(SphinxDirective):
    """A table: notebook, question, slides, slides below them, minutes."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar = {"minutes": positive_int}

    def run(self):
        """Return the table, and above it all slides together."""
        rows = []
        for path in notebooks(repository_root(), self.arguments[0]):
            self.env.note_dependency(str(path))
            rows.append([path.stem[:2], title(path), *counted(path)])
        table = pd.DataFrame(rows, columns=["notebook", "question", "slides", "below them"])
        total = table["slides"].sum()
        minutes = self.options["minutes"]
        each = minutes / total
        below = table["below them"].sum()
        text = (
            f"{total} slides in {minutes} minutes, {each:.1f} minutes each. {below} more stand "
            "below them: results behind a prediction, and the estimates of the answer."
        )
        table["minutes"] = (each * table["slides"]).map("{:.0f}".format)
        return [nodes.paragraph("", text), as_html(table)]


class Predictions(SphinxDirective):
    """A table: notebook, question, and two empty columns."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        """Return the table."""
        chosen = notebooks(repository_root(), self.arguments[0])
        for path in chosen:
            self.env.note_dependency(str(path))
        rows = [[*asked, "", ""] for asked in predictions(chosen)]
        return [as_html(pd.DataFrame(rows, columns=list(SHEET_COLUMNS)))]


def counted(path):
    """Return the slides of a notebook, and those below them."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    found = slides(cells, path.stem, defined_terms(repository_root()))
    types = [cell["metadata"]["slideshow"]["slide_type"] for cell in found]
    return types.count("slide"), types.count("subslide")
