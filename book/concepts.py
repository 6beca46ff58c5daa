"""The concept map of the kit, drawn from concepts.yaml.

```{concepts}
```

Each concept is a box in a row, a link to the page of its notebook where there is one. Below the map
stands the same as a list, for those who do not see it.
"""

import textwrap
from html import escape
from pathlib import Path
from typing import NamedTuple

import yaml
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

FILE = Path(__file__).with_name("concepts.yaml")
WIDTH = 840
BOX = 196  # width of a box
LINE = 18  # height of a line of text
ROOM = 92  # between two rows, for what is written on links
LETTERS = 25  # of a line in a box


def setup(app):
    """Tell Sphinx of the directive."""
    app.add_directive("concepts", Concepts)
    return {"parallel_read_safe": True}


class Box(NamedTuple):
    """A concept on the map: the middle of its upper edge, and its height."""

    x: float
    y: float
    height: float
    text: str
    notebook: str

    @property
    def lines(self):
        """The lines of its text, and that of its notebook."""
        named = [f"notebook {self.notebook}"] if self.notebook else []
        return [*textwrap.wrap(self.text, LETTERS), *named]


class Concepts(SphinxDirective):
    """The map as SVG, and as a list."""

    def run(self):
        """Return the HTML of both."""
        self.env.note_dependency(str(FILE))
        plan = yaml.safe_load(FILE.read_text(encoding="utf-8"))
        pages = {name[:2]: name for name in self.env.found_docs if name[:2].isdigit()}
        boxes = placed(plan["rows"])
        links = plan["links"]
        html = f'<div class="concepts">{drawn(boxes, links, pages)}</div>\n{listed(boxes, links)}'
        return [nodes.raw("", html, format="html")]


def placed(rows):
    """Return the name of each concept → its box; the boxes of a row share the width."""
    boxes = {}
    y = 10
    for row in rows:
        of_row = []
        for place, (name, concept) in enumerate(row.items()):
            x = WIDTH * (place + 0.5) / len(row)
            box = Box(x, y, 0, concept["text"], concept.get("notebook", ""))
            of_row.append((name, box))
        height = LINE * max(len(box.lines) for _, box in of_row) + 14
        boxes |= {name: box._replace(height=height) for name, box in of_row}
        y += height + ROOM
    return boxes


def drawn(boxes, links, pages):
    """Return the map as SVG."""
    height = max(box.y + box.height for box in boxes.values()) + 10
    parts = [_link(boxes[start], boxes[end], said) for start, end, said in links]
    parts += [_box(box, pages) for box in boxes.values()]
    label = "Concept map: how the concepts of the notebooks depend on each other; a list follows."
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="group" aria-label="{label}">\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def _box(box, pages):
    """Return a concept, which leads to its notebook where this has a page."""
    left = box.x - BOX / 2
    first = box.y + (box.height - LINE * len(box.lines)) / 2 + 13
    texts = []
    for at, line in enumerate(box.lines):
        kind = ' class="notebook"' if line == f"notebook {box.notebook}" else ""
        y = first + LINE * at
        texts.append(f'<text{kind} x="{box.x:.0f}" y="{y:.0f}">{escape(line)}</text>')
    frame = f'<rect x="{left:.0f}" y="{box.y:.0f}" width="{BOX}" height="{box.height:.0f}" rx="8"/>'
    content = frame + "".join(texts)
    if box.notebook in pages:
        return f'<a href="{pages[box.notebook]}.html">{content}</a>'
    return f"<g>{content}</g>"


def _link(start, end, said):
    """Return a line from the lower edge of a box to the upper edge of another, with its words."""
    top = start.y + start.height
    middle = (top + end.y) / 2
    path = f"M{start.x:.0f} {top:.0f} C{start.x:.0f} {middle:.0f} {end.x:.0f} {middle:.0f} "
    path += f"{end.x:.0f} {end.y - 7:.0f}"
    tip = f"M{end.x - 4:.0f} {end.y - 8:.0f} l4 7 l4 -7 z"
    x = (start.x + end.x) / 2
    return (
        f'<path class="line" d="{path}"/><path class="tip" d="{tip}"/>'
        f'<text class="said" x="{x:.0f}" y="{middle + 4:.0f}">{escape(said)}</text>'
    )


def listed(boxes, links):
    """Return the links as sentences, folded."""
    items = []
    for start, end, said in links:
        first, second = escape(boxes[start].text), escape(boxes[end].text)
        items.append(f"<li>{first} → <em>{escape(said)}</em> → {second}</li>")
    return (
        "<details><summary>The map as a list</summary>\n<ul>\n"
        + "\n".join(items)
        + "\n</ul>\n</details>"
    )
