"""The HTML pages of reports: one file each, with its figures in it."""

import html
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from interextra.stats.effects import shown

if TYPE_CHECKING:
    from interextra.figures import Drawing

STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:56em;margin:2em auto;padding:0 1em;color:#222}"
    "h1{font-size:1.5em}table{border-collapse:collapse;margin:1em 0}"
    "td,th{text-align:left;padding:.3em .8em .3em 0;vertical-align:top"
    ";border-bottom:1px solid #ddd}"
    "h2{font-size:1.15em;margin-top:2em}svg{max-width:100%;height:auto}"
    ".answer{font-size:1.15em;font-weight:bold}"
    # a table that is wider than the page is moved sideways, and a shadow says that it can be
    ".wide{overflow-x:auto;background:"
    "linear-gradient(270deg,#fff 30%,#fff0)right/3em 100% no-repeat local,"
    "linear-gradient(270deg,#0003,#0000)right/.7em 100% no-repeat}"
    ".texts td:nth-child(2){min-width:14em}.facts td{overflow-wrap:anywhere}"
    "@media(max-width:40em){body{font-size:13px;padding:0 .6em}td,th{padding:.2em .5em .2em 0}}"
)
VIEWPORT = '<meta name="viewport" content="width=device-width, initial-scale=1">'


def html_page(title: str, body: Sequence[str]) -> str:
    """Return a page of some elements of HTML below each other."""
    head = f'<meta charset="utf-8">{VIEWPORT}<title>{title}</title><style>{STYLE}</style>'
    return f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(body)}</body></html>"


def paragraphs(sentences: Iterable[str]) -> list[str]:
    """Return each sentence as an element of HTML."""
    return [f"<p>{html.escape(sentence)}</p>" for sentence in sentences]


def wide_table(table: pd.DataFrame, kind: str = "") -> str:
    """Return a table as HTML, which on a narrow page is moved sideways.

    `kind`: texts, where the second column has long ones.
    """
    classes = f"wide {kind}".rstrip()
    return f'<div class="{classes}">{shown(table).to_html()}</div>'


def facts(values: Mapping[str, str]) -> str:
    """Return a table of what is known, a row each: its name, and what it is."""
    rows = []
    for name, value in values.items():
        cells = f"<th>{html.escape(name)}</th><td>{html.escape(value)}</td>"
        rows.append(f"<tr>{cells}</tr>")
    return f'<table class="facts">{"".join(rows)}</table>'


def svg_of(figure: "Drawing") -> str:
    """Return a figure as SVG, without the head of a file; the same figure has the same bytes."""
    from matplotlib import rc_context

    picture = io.StringIO()
    with rc_context({"svg.hashsalt": "interextra"}):
        figure.savefig(picture, format="svg", metadata={"Date": None})
    svg = picture.getvalue()
    return svg[svg.index("<svg") :]
