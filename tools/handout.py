"""Write the handout of a talk: one page with the question, the protocol, and three findings.

`python -m tools.handout [PATH]` writes it as HTML (build/handout.html), which a browser prints on
one page of A4. All numbers are those of the committed tables, and so are the sentences with them.
"""

import sys
from html import escape
from pathlib import Path

import pandas as pd

from interextra.claims.tally import in_words, tally
from interextra.site.answers import answer_of, lead_of
from interextra.site.first_page import JUDGED, TITLE, claims_of, title
from interextra.site.repository import notebooks, repository_root
from interextra.site.travel import REFERENCE
from interextra.store.errors import InputError
from interextra.store.files import write_text
from tools.readme import losses

PROFILE = "small"  # whose committed answers say what is not shown
# The notebooks of the talk, as book/talk.md has them
FINDINGS = ("02", "05", "09")
ASKED = (
    "Does a neural retriever find relevant passages for queries unlike its training queries "
    "(extrapolation), or mostly for queries like them (interpolation)? A test set seldom says, "
    "since most test queries have a training query that resembles them."
)
PROTOCOL = (
    "The test queries stay the same; two training sets of equal size are chosen for them, one of "
    "similar and one of dissimilar queries. Δ is effectiveness in extrapolation, divided by that "
    "in interpolation, minus 1: below 0 is a loss. A system that is not shown to beat BM25 in "
    "domain is not judged."
)
READING = (
    "Estimates have simultaneous 95 % confidence intervals over the claims of a notebook: over "
    "queries on real data, over worlds in generated worlds. A claim of a direction is undecided "
    "where its interval includes 0, one of equality where two one-sided tests do not place the "
    "effect within the margin and its interval does not lie beyond it. Generated worlds support a "
    "mechanism; they say nothing of the size of an effect on MS MARCO. The models have two layers."
)
STYLE = """
@page { size: A4; margin: 14mm }
body { font: 9.5pt/1.3 sans-serif; color: #222; max-width: 182mm; margin: 0 auto }
h1 { font-size: 17pt; margin: 0 0 2mm }
h2 { font-size: 12pt; margin: 4mm 0 1mm }
h3 { font-size: 9.5pt; margin: 2.5mm 0 .5mm }
p { margin: 0 0 1.5mm }
.shown { color: #555 }
svg { width: 100%; height: auto }
svg rect { fill: #f4f6f8; stroke: #8a949e }
svg .near { fill: #fff1d6; stroke: #b87f00 }
svg .far { fill: #dcecf7; stroke: #0072b2 }
svg text { font: 15px sans-serif; text-anchor: middle; fill: #222 }
svg path { fill: none; stroke: #555 }
svg .tip { fill: #555 }
svg .value { stroke: #0072b2; stroke-width: 4 }
svg circle { fill: #0072b2; stroke: #0072b2; stroke-width: 3 }
svg .excluded { fill: #fff }
svg .label { text-anchor: start }
footer { margin-top: 3mm; font-size: 9pt; color: #555 }
"""
# What stands in a box of the drawing: its left edge, its upper edge, its kind, its lines
BOXES = [
    (0, 62, "", ("all training", "queries")),
    (190, 8, "near", ("similar to the", "test queries")),
    (190, 116, "far", ("dissimilar to the", "test queries")),
    (380, 8, "near", ("one retriever",)),
    (380, 116, "far", ("the same, trained", "again")),
    (570, 62, "", ("the same", "test queries")),
    (760, 62, "", ("Δ, with its", "interval")),
]
BOX = (140, 48)  # width and height
ROW = 20  # height of a line of the drawing of losses
TICKS = (-0.5, -0.4, -0.3, -0.2, -0.1, 0.0, 0.1)  # of its axis
ARROWS = [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 5), (5, 6)]  # between the boxes


def handout(root: Path) -> str:
    """Return the handout as HTML.

    Raises
    ------
    InputError
        A notebook of FINDINGS has no committed answer.
    """
    reference = root / REFERENCE
    first, *others = (finding(path, reference) for path in notebooks(root, ",".join(FINDINGS)))
    parts = [
        f"<h1>{escape(TITLE)}</h1>",
        _paragraph(ASKED),
        "<h2>Protocol</h2>",
        drawing(),
        _paragraph(PROTOCOL),
        "<h2>Three findings</h2>",
        first,
        losses_drawn(reference),
        *others,
        "<h2>How to read this</h2>",
        _paragraph(READING),
        _paragraph(_all_claims(root, reference)),
        "<footer>interextra: notebooks, tables and all claims; <code>make run</code> makes them "
        "again.</footer>",
    ]
    body = "\n".join(parts)
    head = f'<meta charset="utf-8"><title>{escape(TITLE)}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def finding(notebook: Path, reference: Path) -> str:
    """Return what the committed runs say to the question of a notebook, and what they do not."""
    name = notebook.stem
    here = reference / PROFILE / name
    found = lead_of(name, PROFILE, here, reference)
    if found is None:
        raise InputError(f"{name} has no committed answer: run `make reference` first")
    not_shown = answer_of(here)["not_shown"]
    return "\n".join(
        [
            f"<h3>{escape(title(notebook))}</h3>",
            f"<p><b>{escape(found.answer)}</b> {escape(found.evidence)}</p>",
            f'<p class="shown">Not shown: {escape(not_shown)}</p>',
        ]
    )


def drawing() -> str:
    """Return the protocol as SVG."""
    width, height = BOX
    parts = []
    for start, end in ARROWS:
        left, top, *_ = BOXES[start]
        x, y, *_ = BOXES[end]
        from_y, to_y = top + height / 2, y + height / 2
        parts.append(f'<path d="M{left + width} {from_y} L{x - 6} {to_y}"/>')
        parts.append(f'<path class="tip" d="M{x} {to_y} l-8 -4 v8 z"/>')
    for left, top, kind, lines in BOXES:
        parts.append(
            f'<rect class="{kind}" x="{left + 1}" y="{top}" width="{width}" height="{height}" '
            'rx="6"/>'
        )
        first = top + height / 2 + 5 - 8 * (len(lines) - 1)
        for at, line in enumerate(lines):
            parts.append(f'<text x="{left + width / 2}" y="{first + 16 * at}">{line}</text>')
    label = "Protocol: two training sets, one retriever trained on each, the same test queries."
    return f'<svg viewBox="0 0 902 172" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def losses_drawn(reference: Path) -> str:
    """Return the changes of the first system of the README's figure as SVG, a line a data set."""
    rows = losses(reference)
    rows = rows[rows["system"] == rows["system"].iloc[0]]
    height = ROW * (len(rows) + 1)
    parts = [f'<path d="M{_at(0)} 0 V{height - ROW}"/>']
    parts += [f'<text x="{_at(share)}" y="{height - 4}">{share:.0%}</text>' for share in TICKS]
    for place, row in enumerate(rows.itertuples()):
        y = ROW * (place + 0.5)
        parts.append(f'<text class="label" x="0" y="{y + 5}">{escape(row.data)}</text>')
        if pd.notna(row.low):
            parts.append(f'<path class="value" d="M{_at(row.low)} {y} H{_at(row.high)}"/>')
        kind = "excluded" if row.excluded else ""
        change = row.change if pd.notna(row.change) else row.published
        parts.append(f'<circle class="{kind}" cx="{_at(change)}" cy="{y}" r="5"/>')
    label = "Change in effectiveness of dense retrieval on dissimilar queries, by data set."
    return (
        f'<svg viewBox="0 0 902 {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
        '<p class="shown">Δ of dense retrieval by data set, negative is a loss; hollow: not shown '
        "to beat BM25 in domain.</p>"
    )


def _at(share: float) -> float:
    """Return the horizontal place of a change, a fraction, on the drawing of losses."""
    left, right = TICKS[0], TICKS[-1]
    return round(220 + 650 * (share - left) / (right - left), 1)


def _all_claims(root: Path, reference: Path) -> str:
    """Return what came out of all claims."""
    names = [path.stem for path in notebooks(root)]
    tables = [claims_of(name, PROFILE, reference / PROFILE) for name in names]
    return in_words(tally(tables), JUDGED)


def _paragraph(text: str) -> str:
    """Return a paragraph of HTML."""
    return f"<p>{escape(text)}</p>"


def main() -> None:
    """Write the handout."""
    root = repository_root()
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "build" / "handout.html"
    write_text(path, handout(root))
    print(path)


if __name__ == "__main__":
    main()
