"""Claims as cards: each claim above what is published and what each data set says of it.

The HTML has its looks within it, so that it is the same in a notebook and on a page of the book: a
card is as wide as its place, and its parts stand beside each other where there is room. Text from
data is escaped.
"""

from html import escape

import pandas as pd

from interextra.claims.wording import NONE

CARD = (
    "border:1px solid rgba(128,128,128,.45);border-radius:.4rem;padding:.6rem .9rem;margin:.7rem 0"
)
CLAIM = "margin:0 0 .4rem;font-weight:600;text-align:left"
# at least this wide, so that there is one part a line on a telephone
COLUMNS = "grid-template-columns:repeat(auto-fit,minmax(11rem,1fr))"
PARTS = f"display:grid;{COLUMNS};gap:.4rem 1.2rem;margin:0"
NAME = "font-size:.85em;font-weight:400"
VALUE = "margin:0;text-align:left"
OUTCOME = f"{VALUE};font-weight:600"
WHOLE_LINE = ' style="grid-column:1/-1"'


class Cards:
    """Claims as JupyterLab and the book show them.

    Parameters
    ----------
    data
        The claims, of `wording.page`.
    """

    def __init__(self, data: pd.DataFrame):
        self.data = data

    def _repr_html_(self) -> str:
        """Return the cards, as JupyterLab asks for them."""
        return html(self.data)

    def __repr__(self) -> str:
        """Return the claims as a table of text."""
        return self.data.to_string(index=False)


def html(page: pd.DataFrame) -> str:
    """Return a card for each claim.

    Parameters
    ----------
    page
        Of `wording.page`: claim, then the columns that become parts of a card. A dash is left out.

    Examples
    --------
    >>> cells = {"claim": "It loses.", "published": "-3.0 %", "this run": "–"}
    >>> cards = html(pd.DataFrame([cells]))
    >>> "It loses." in cards, "published" in cards, "this run" in cards
    (True, True, False)
    """
    cards = [_card(row) for row in page.to_dict("records")]
    return "\n".join(cards)


def _card(row: dict) -> str:
    """Return the card of a claim."""
    claim = escape(row["claim"], quote=False)
    parts = []
    for name, text in row.items():
        if name != "claim" and text != NONE:
            parts.append(_part(name, text))
    return (
        f'<div class="claim" style="{CARD}">\n'
        f'<p style="{CLAIM}">{claim}</p>\n'
        f'<dl style="{PARTS}">\n' + "\n".join(parts) + "\n</dl>\n</div>"
    )


def _part(name: str, text: str) -> str:
    """Return a part of a card: its name, and what it says."""
    is_outcome = name == "conclusion"
    look = OUTCOME if is_outcome else VALUE
    place = WHOLE_LINE if is_outcome else ""
    value = escape(text, quote=False)
    return (
        f'<div{place}><dt style="{NAME}">{escape(name)}</dt><dd style="{look}">{value}</dd></div>'
    )
