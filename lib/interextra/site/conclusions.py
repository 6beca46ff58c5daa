"""What a run says of its notebook's claims, beside what the committed references say."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import pandas as pd

from interextra.claims.claim import REAL, Claim, answered, of_notebook, standard_errors
from interextra.claims.judgement import (
    ONE_COLLECTION,
    ONE_WORLD,
    concluded,
    gate,
    without_verdict,
)
from interextra.claims.wording import DATA, page, sentences
from interextra.stats.effects import Effects

T = TypeVar("T")


class Conclusions(NamedTuple):
    """The claims of a notebook, judged.

    Parameters
    ----------
    claims
        A row a claim that this run answers, as in claims.csv.
    gate
        The leads over BM25 behind them, as in gate.csv.
    in_figures
        The claims whose simultaneous intervals figures show; a generated world alone decides none.
    page
        The claims for the page, a column a data set.
    sentences
        What to say of them, the claim of the title first.
    unasked
        The claims that this run does not evaluate.
    """

    claims: pd.DataFrame
    gate: pd.DataFrame
    in_figures: pd.DataFrame
    page: pd.DataFrame
    sentences: list[str]
    unasked: list[Claim]


def by_data(profile: str, here: T, committed: Callable[[str], T]) -> dict[str, T]:
    """Return what there is of each data set: of this run where it is its own, else the committed.

    Parameters
    ----------
    profile
        The profile of this run.
    here
        What this run has.
    committed
        Profile → what its committed reference has.
    """
    found = {}
    for data, of_profile in DATA.items():
        found[data] = here if of_profile == profile else committed(of_profile)
    if profile not in DATA.values():
        found["here"] = here
    return found


def conclude(
    notebook: str,
    profile: str,
    is_world: bool,
    tables: Sequence[Effects],
    ahead: pd.DataFrame,
    committed: Callable[[str], pd.DataFrame],
) -> Conclusions:
    """Judge the claims of a notebook by the rows of some tables.

    Parameters
    ----------
    notebook
        Its name.
    profile
        The profile of this run.
    is_world
        Whether its collection is a generated world, which alone decides nothing.
    tables
        The effects that answer claims.
    ahead
        Leads over BM25 in domain, of `leads`.
    committed
        Profile → its committed claims of this notebook.
    """
    claims = of_notebook(notebook, profile)
    answers = answered(claims, tables, ahead)
    alone = ONE_WORLD if is_world else ONE_COLLECTION if profile == REAL else ""
    judged = without_verdict(answers, alone) if alone else concluded(answers)
    if profile == REAL:  # what the judgement over collections needs
        gates = pd.DataFrame(answers)[["claim", "lead_low"]]
        judged = judged.merge(gates, on="claim")
        judged = judged.merge(standard_errors(claims, tables), on="claim")
    tables_by_data = by_data(profile, judged, committed)
    has_answer = set(answers["claim"])
    return Conclusions(
        claims=judged,
        gate=gate(answers),
        in_figures=judged[:0] if alone else judged,
        page=page(tables_by_data),
        sentences=sentences(tables_by_data, notebook),
        unasked=[claim for claim in claims if claim.name not in has_answer],
    )
