"""What came out of all claims, in a sentence."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from interextra.claims import collections_wording
from interextra.claims.claim import Claim, of_collections
from interextra.claims.collections_wording import NO_VERDICT, NOTHING_TO_TEST
from interextra.claims.over_collections import INCOMPLETE, OPEN
from interextra.claims.wording import (
    DEPENDS,
    NEGATIVE,
    NO_DIFFERENCE,
    POSITIVE,
    UNJUDGED,
    Rows,
    Tables,
    by_claim,
    conclusion,
    is_known,
    outcomes,
)

ON_REAL = "holds on real data"
SEEN_BEFORE = "holds on real data seen before"
IN_WORLDS = "holds in generated worlds alone"
CONTRADICTED = "contradicted"
OTHER = "open"
# an outcome of a claim → what is said of one with it, and of several
OUTCOMES = {
    ON_REAL: ("is supported on real data", "are supported on real data"),
    SEEN_BEFORE: (
        "is supported on real data seen before",
        "are supported on real data seen before",
    ),
    IN_WORLDS: ("is supported in worlds alone", "are supported in worlds alone"),
    CONTRADICTED: ("is contradicted", "are contradicted"),
    DEPENDS: ("depends on the data", "depend on the data"),
    NO_DIFFERENCE: (
        "shows no difference beyond its margin",
        "show no difference beyond their margins",
    ),
    OTHER: ("is undecided or not testable there", "are undecided or not testable there"),
}


class Counts(NamedTuple):
    """How many claims are put to real collections."""

    asked: int
    measured: int
    decided: int


def tally_over_collections(tables: Iterable[pd.DataFrame]) -> Counts:
    """Return how many claims of the section `real` the collections measure, and decide.

    A claim whose rows are the same on every query measures nothing.

    Parameters
    ----------
    tables
        Of notebooks, as `over_collections.judged` makes them.
    """
    decisions: dict[str, str] = {}
    for table in tables:
        decisions |= collections_wording.decisions(table)
    asked = {collections_wording.whole(name) for name in of_collections()}
    measured = [
        decision
        for name, decision in decisions.items()
        if name in asked and not decision.startswith(INCOMPLETE) and NOTHING_TO_TEST not in decision
    ]
    n_decided = sum(not decision.startswith((OPEN, NO_VERDICT)) for decision in measured)
    return Counts(len(asked), len(measured), n_decided)


def tally(tables_of_notebooks: Iterable[Tables]) -> Counter[str]:
    """Return how many claims have each of OUTCOMES; those without a verdict are not counted.

    Parameters
    ----------
    tables_of_notebooks
        For each notebook name of the data → its table of claims, as `wording.page` takes them.
    """
    counts: Counter[str] = Counter()
    for tables in tables_of_notebooks:
        for claim, rows in by_claim(tables):
            text = conclusion(claim, rows)
            if text != UNJUDGED:
                counts[_outcome(claim, rows, text)] += 1
    return counts


def _outcome(claim: Claim, rows: Rows, text: str) -> str:
    """Return the outcome that a conclusion means: what is decided counts, wherever it is."""
    outcome_of = outcomes(claim, rows)
    positive = [data for data, outcome in outcome_of.items() if outcome.startswith(POSITIVE)]
    is_negative = any(word in text for word in NEGATIVE)
    if text == DEPENDS or (positive and is_negative):
        return DEPENDS
    if positive == ["worlds"]:
        return IN_WORLDS
    if positive:
        is_seen = any(is_known(claim, data) for data in positive if data != "worlds")
        return SEEN_BEFORE if is_seen else ON_REAL
    if is_negative:
        return CONTRADICTED
    return NO_DIFFERENCE if NO_DIFFERENCE in text else OTHER


def in_words(counts: Counter[str], data: str) -> str:
    """Return a sentence: of how many claims that were judged, how many came out how.

    Parameters
    ----------
    counts
        Of `tally`; of some claims.
    data
        The names of the data.

    Examples
    --------
    >>> in_words(Counter({CONTRADICTED: 3, DEPENDS: 1}), "MedQuAD")
    'Of 4 claims that were judged on MedQuAD, 3 are contradicted and 1 depends on the data.'
    """
    if not counts.total():
        return f"No claim was judged on {data}."
    parts = []
    for outcome, (of_one, of_several) in OUTCOMES.items():
        count = counts[outcome]
        if count:
            parts.append(f"{count} {of_one if count == 1 else of_several}")
    *first, last = parts
    listed = f"{', '.join(first)} and {last}" if first else last
    return f"Of {counts.total()} claims that were judged on {data}, {listed}."
