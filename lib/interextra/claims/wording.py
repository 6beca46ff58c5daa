"""Claims in words: the sentences of a notebook's answer, and the cells of a table for a page.

What is said follows from the rows that `judgement` made of a claim, one for each data set. The form
of a sentence stands in `_sentence`; that of the one which answers a notebook's title, in `_answer`.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml

from interextra.claims import collections_wording
from interextra.claims.claim import Claim, every_claim
from interextra.claims.judgement import (
    FEW,
    GATE,
    NO_VARIATION,
    ONE_COLLECTION,
    ONE_WORLD,
    UNMEASURED,
)
from interextra.stats.formatting import spelled, with_unit
from interextra.stats.trainings import ONE_TRAINING

Row = Mapping[str, Any]  # a row of `concluded`, `without_verdict` or `over_worlds`
Rows = Mapping[str, Row]  # data set → its row of a claim
Tables = Mapping[str, pd.DataFrame]  # data set → its table of claims

NONE = "–"  # the cell of a table
# What stands for the texts of a row that are missing in a file
NO_TEXTS = {"verdict": "", "size": "", "reason": "", "over": ""}
# First sentences of answers by notebook, see the file
ANSWERS = Path(__file__).with_name("answers.yaml")
DATA = {"MedQuAD": "small", "worlds": "worlds"}  # profiles whose reference decides claims
PLACES = {"MedQuAD": "on real data", "worlds": "in the worlds"}
# Real data by notebook or claim; else MedQuAD
REAL_DATA_OF = {
    "01_overlap_annotation_analysis": "MS MARCO",
    "11_pool_bias": "TREC DL",
    "finished-near": "TREC DL",
    "predicted-by-declared": "published models",
}
FOUR = "four real collections"
IN_BRACKETS = re.compile(r" \([^()]*\)")
NAMED = {"worlds": "fourteen worlds", "here": "this run"}  # columns of a page
# Counts of a row: column → their unit, of one and of several
UNITS = {
    "n_models": ("model", "models"),
    "n_queries": ("query", "queries"),
    "n_trainings": ("training run", "training runs"),
    "n_worlds": ("world", "worlds"),
}
MANY = {"trainings": "training runs"}  # where a unit has another name than the reason

# What one data set says of a claim, by its verdict: of a question of ours, …
SUPPORT = {"holds": "supported", "contradicted": "contradicted"}
# … of the paper's design on real data, …
REPLICATION = {"holds": "replicated", "contradicted": "contradicted"}
# … and of another design, or in a generated world: that there is no difference, or a direction.
AGREEMENT = {"holds": "agrees", "contradicted": "differs"}
DIRECTION = {"holds": "agrees in direction", "contradicted": "differs"}
POSITIVE = ("replicated", "supported", "agrees")
NEGATIVE = ("contradicted", "differs")
NO_DIFFERENCE = "no difference"
DEPENDS = "depends on the data"
UNDECIDED = "undecided"
UNJUDGED = "not judged"
UNTESTABLE = "not testable"
OPEN_OUTCOMES = (UNDECIDED, UNJUDGED, UNTESTABLE)
# Why it is undecided, where the reason alone is no phrase
REASONS = {
    "queries": "too few queries",
    "trainings": "too few training runs",
    "models": "too few models",
    "clusters": "too few clusters",
    "worlds": "too few worlds",
    GATE: "a system is not shown to beat BM25 in domain",
    UNMEASURED: "no lead over BM25 was measured",
}
# Why a run has no verdict on a claim, where it alone decides nothing
ALONE = {
    ONE_WORLD: "one generated world decides no claim",
    ONE_COLLECTION: "one collection alone decides no claim",
}
# a claim that needs more than this many times the data is declared out of reach
REACHABLE = 10
# a name at the beginning keeps its capital letter after a colon: BM25, ColBERT
NAME = re.compile(r"\w+[A-Z0-9]")


def sentences(tables: Tables, notebook: str = "") -> list[str]:
    """Return a sentence for each claim of `page`: what came out, and the estimates with intervals.

    The claim that answers the title of the notebook (`answers.yaml`) comes first, as an answer;
    decided ones are next.

    Parameters
    ----------
    tables : name of the data → a table, as of `page`.
    notebook : none: no claim answers a title.

    Examples
    --------
    >>> row = {"claim": "topics-dense", "estimate": -0.074, "low": -0.119, "high": 0.029}
    >>> row |= {"verdict": "undecided", "size": "", "reason": "queries"}
    >>> [sentence] = sentences({"here": pd.DataFrame([row])})
    >>> sentence[82:]
    ': undecided here, too few queries (RR@10: this run -7.4 % [-11.9, +2.9]; published -11.1 %).'
    """
    answers = yaml.safe_load(ANSWERS.read_text(encoding="utf-8"))
    title = answers.get(notebook, {})
    answer, decided, undecided = [], [], []
    for claim, rows in by_claim(tables):
        if claim.name == title.get("claim"):
            answer.append(_answer(claim, rows, title))
        elif conclusion(claim, rows).startswith(OPEN_OUTCOMES):
            undecided.append(_sentence(claim, rows))
        else:
            decided.append(_sentence(claim, rows))
    return answer + decided + undecided


class Lead(NamedTuple):
    """The answer to the title of a notebook, and the conclusion with its estimates."""

    answer: str
    evidence: str


def lead(
    tables: Tables, notebook: str, over_collections: pd.DataFrame | None = None
) -> Lead | None:
    """Return the answer to the title of a notebook, short.

    Parameters
    ----------
    tables : name of the data → a table, as of `page`.
    notebook : its name.
    over_collections : what real collections say, of `over_collections.judged`.

    Returns
    -------
    Lead
        None where no claim answers the title, or nothing is known of it.
    """
    titles = yaml.safe_load(ANSWERS.read_text(encoding="utf-8"))
    title = titles.get(notebook, {})
    for claim, rows in by_claim(tables):
        if claim.name == title.get("claim"):
            outcome = conclusion(claim, rows)
            on_collections = _on_collections(claim, over_collections)
            if on_collections:
                outcome = beside_collections(outcome)
            estimates = "; ".join(_estimates_of_data(claim, rows))
            if outcome.startswith(OPEN_OUTCOMES):
                answer = f"{_open_question(claim)}."
                outcome += _other_way(claim, rows)
            else:
                answer = _first_sentence(claim, rows, title)
            about = f"{claim.statistic}{claim.measure}"
            evidence = f"{outcome.capitalize()}. {about}: {estimates}{on_collections}."
            return Lead(answer, evidence)
    return None


def beside_collections(outcome: str) -> str:
    """Return a conclusion for a place where four real collections answer the question, too.

    Examples
    --------
    >>> beside_collections("agrees in the worlds, not testable on real data")
    'agrees in the worlds, not testable on other real data'
    """
    return outcome.replace("on real data", "on other real data")


def _on_collections(claim: Claim, table: pd.DataFrame | None) -> str:
    """Return what real collections say of the question of a claim, behind its estimates.

    Without what stands in brackets: the names of collections have their place among the claims.
    """
    if table is None or claim.on_collections not in set(table.get("claim", [])):
        return ""
    text = collections_wording.in_short(table)[claim.on_collections]
    return f"; {FOUR} {IN_BRACKETS.sub('', text)}"


def _sentence(claim: Claim, rows: Rows) -> str:
    """Return the sentence of a claim that answers no title."""
    sentence = claim.sentence.removesuffix(".")
    reasoned = _conclusion_with_reasons(claim, rows)
    estimates = _estimates(claim, rows)
    return f"{sentence}: {reasoned} ({estimates})."


def _answer(claim: Claim, rows: Rows, title: Mapping[str, str]) -> str:
    """Return the sentence of the claim that answers a title, by the notebook's entry in ANSWERS."""
    estimates = _estimates(claim, rows)
    intervals = _intervals(claim, rows)
    outcome = conclusion(claim, rows)
    if outcome.startswith(OPEN_OUTCOMES):
        word = _open_word(outcome)
        reasons = "; ".join(_reasons_of_answer(claim, rows))
        question = _open_question(claim)
        return f"{question}: {word}, {reasons} ({estimates}; {intervals})."
    answer = _first_sentence(claim, rows, title).removesuffix(".")
    reasoned = _conclusion_with_reasons(claim, rows)
    return f"{answer}: {reasoned} ({estimates}; {intervals})."


def _open_question(claim: Claim) -> str:
    """Return what is not known while a claim is open."""
    return f"We cannot tell whether {_after_colon(claim.sentence).removesuffix('.')}"


def _other_way(claim: Claim, rows: Rows) -> str:
    """Return that all estimates of a claim of a direction point against it; "" where not."""
    if claim.asks == "equal":
        return ""
    sign = 1 if claim.asks == "above" else -1
    is_against = all(sign * row["estimate"] < 0 for row in rows.values())
    if not is_against:
        return ""
    one = ", and our estimate points the other way"
    return one if len(rows) == 1 else ", and all our estimates point the other way"


def _first_sentence(claim: Claim, rows: Rows, title: Mapping[str, str]) -> str:
    """Return what a decided conclusion says to the title, and whether worlds alone say it."""
    sentence = _said_to_title(claim, conclusion(claim, rows), title)
    outcome_of = outcomes(claim, rows)
    deciding = {
        data for data, outcome in outcome_of.items() if not outcome.startswith(OPEN_OUTCOMES)
    }
    return f"In generated worlds: {_after_colon(sentence)}" if deciding == {"worlds"} else sentence


def _said_to_title(claim: Claim, outcome: str, title: Mapping[str, str]) -> str:
    """Return the sentence for a decided conclusion."""
    is_positive = any(word in outcome for word in POSITIVE)
    is_negative = any(word in outcome for word in NEGATIVE)
    is_equal = NO_DIFFERENCE in outcome
    if outcome == DEPENDS or is_positive + is_negative + is_equal > 1:
        return f"It depends on the data. {claim.sentence}"
    if is_positive:
        return title["holds"]
    return title["contradicted"] if is_negative else title["equal"]


def _open_word(outcome: str) -> str:
    """Return why a conclusion is open, in a word; "" where it is decided on all data."""
    return next((word for word in OPEN_OUTCOMES if word in outcome), "")


def _after_colon(sentence: str) -> str:
    """Return a sentence with a small first letter, unless it begins with a name."""
    if NAME.match(sentence):
        return sentence
    return sentence[:1].lower() + sentence[1:]


def _conclusion_with_reasons(claim: Claim, rows: Rows) -> str:
    """Return the conclusion, why it is open, and why data sets cannot test it."""
    text = conclusion(claim, rows)
    if _open_word(text) in (UNDECIDED, UNJUDGED):
        text = f"{text}, {_why_open(claim, rows)}"
    return _with_untestable(text, claim, rows)


def _with_untestable(text: str, claim: Claim, rows: Rows) -> str:
    """Return a conclusion and why data sets cannot test the claim."""
    for why in _why_untestable(claim, rows):
        text = f"{text} ({why})"
    return text


def _with_notes(claim: Claim, rows: Rows) -> str:
    """Return the conclusion for a page: why there is none, and what else is to be known."""
    text = conclusion(claim, rows)
    if text == UNJUDGED:
        text = f"{text}, {_why_open(claim, rows)}"
    text = _with_untestable(text, claim, rows)
    return f"{text} ({claim.note})" if claim.note else text


def _reasons_of_answer(claim: Claim, rows: Rows) -> list[str]:
    """Return why an answer is open, and why data sets cannot test the claim."""
    if _open_word(conclusion(claim, rows)) == UNTESTABLE:
        return _why_untestable(claim, rows)
    return [_why_open(claim, rows), *_why_untestable(claim, rows)]


def _why_untestable(claim: Claim, rows: Rows) -> list[str]:
    """Return why data sets that estimate a claim cannot test it, each reason once."""
    reasons = [why for data, why in claim.not_testable.items() if data in rows]
    return list(dict.fromkeys(reasons))


def _why_open(claim: Claim, rows: Rows) -> str:
    """Return why a claim is undecided, or has no verdict: the first reason of a data set."""
    if not any(row["verdict"] for row in rows.values()):
        reasons = [row["reason"] for row in rows.values()]
        for alone, why in ALONE.items():
            if alone in reasons:
                return why
        return "as a secondary claim"
    for data, row in rows.items():
        reason: str = row["reason"]
        if data not in claim.not_testable and _is_open(row) and reason:
            return REASONS.get(reason, reason)
    return "no estimate"


def _estimates(claim: Claim, rows: Rows) -> str:
    """Return the estimates of each data set, what is published, and the margin where it decides."""
    parts = _estimates_of_data(claim, rows)
    is_sized = any(row["size"] for row in rows.values())
    if claim.asks == "equal" or is_sized:
        parts.append(f"margin {margin(claim)}")
    return f"{claim.statistic}{claim.measure}: {'; '.join(parts)}"


def _estimates_of_data(claim: Claim, rows: Rows) -> list[str]:
    """Return the estimate of each data set, and what is published."""
    parts = [f"{data_name(data, claim)} {_estimate(row, claim)}" for data, row in rows.items()]
    if np.isfinite(claim.published):
        parts.append(f"published {published(claim)}")
    return parts


def _estimate(row: Row, claim: Claim) -> str:
    """Return the estimate of a row with its interval."""
    return spelled(row["estimate"], row["low"], row["high"], claim.unit)


def _intervals(claim: Claim, rows: Rows) -> str:
    """Return what kind of intervals the estimates of a claim have, and what each is over."""
    # of claims that one run alone does not decide: not corrected for their number
    uncorrected = [data for data, row in rows.items() if row["reason"] in ALONE]
    if len(uncorrected) == len(rows):
        kind = "individual"
        apart = []
    else:
        kind = "simultaneous"
        apart = uncorrected
    names_by_units = _names_by_units(claim, rows, apart)
    is_same_for_all = len(names_by_units) == 1 and not apart
    parts = []
    for units, names in names_by_units.items():
        if units and is_same_for_all:
            parts.append(f"over {units}")
        elif units:
            parts.append(f"over {units} ({', '.join(names)})")
    text = f"{kind} 95 % confidence intervals"
    if not parts:
        return text
    return f"{text} {'; '.join(parts)}"


def _names_by_units(claim: Claim, rows: Rows, apart: Sequence[str]) -> dict[str, list[str]]:
    """Return what intervals are over → the data sets whose intervals are.

    `apart`: data sets with individual intervals, where the others have simultaneous ones.
    """
    names_by_units: dict[str, list[str]] = {}
    for data, row in rows.items():
        name = data_name(data, claim)
        if data in apart:
            name = f"{name}, individual"
        names_by_units.setdefault(_over(row), []).append(name)
    return names_by_units


def _over(row: Row) -> str:
    """Return what the interval of a row is over, in words; "" where it is not known."""
    over = row.get("over", "")
    return "queries of one training run" if over == ONE_TRAINING else over


def conclusion(claim: Claim, rows: Rows) -> str:
    """Return what data sets say together of a claim; a single generated world says nothing.

    Parameters
    ----------
    claim : the claim.
    rows : data set → its row, with verdict, size and reason.

    Examples
    --------
    >>> holds, undecided = ({"verdict": verdict, "size": ""} for verdict in ("holds", "undecided"))
    >>> conclusion(every_claim()["resttest-dense"], {"MedQuAD": undecided, "worlds": holds})
    'agrees in direction in the worlds, undecided on real data'
    """
    outcome_of = outcomes(claim, rows)
    if not outcome_of:
        return UNJUDGED
    tested = outcome_of.keys() - claim.not_testable.keys()
    verdicts = {rows[data]["verdict"] for data in tested}
    if {"holds", "contradicted"} <= verdicts:
        return DEPENDS
    places: dict[str, list[str]] = {}
    for data, outcome in outcome_of.items():
        place = PLACES.get(data, data)
        if is_known(claim, data) and outcome not in OPEN_OUTCOMES:
            place += " seen before"
        places.setdefault(outcome, []).append(place)
    if len(outcome_of) > 1 and len(places) == 1 and outcome in OPEN_OUTCOMES:
        return outcome
    texts = [f"{outcome} {' and '.join(where)}" for outcome, where in places.items()]
    decided_first = sorted(texts, key=lambda text: text.startswith(OPEN_OUTCOMES))
    return ", ".join(decided_first)


def outcomes(claim: Claim, rows: Rows) -> dict[str, str]:
    """Return data set → what it says of a claim, in a word, without those that do not judge it.

    Parameters
    ----------
    claim, rows : see `conclusion`.
    """
    outcome_of = {data: _outcome(claim, data, row) for data, row in rows.items()}
    return {data: outcome for data, outcome in outcome_of.items() if outcome != UNJUDGED}


def is_known(claim: Claim, data: str) -> bool:
    """Return whether the answer on a data set had been seen before the claim was written down."""
    population = data if data == "worlds" else data_name(data, claim)
    return population in claim.known


def _outcome(claim: Claim, data: str, row: Row) -> str:
    """Return what one data set says of a claim, in a word.

    *replicated* and *contradicted* are of the paper's design and question on real data whose answer
    had not been seen before; a generated world, another design, or data seen before only *agrees*
    (of an effect: *in direction*) or *differs*. A question of ours is *supported* or
    *contradicted*. *not testable* is what a design cannot answer, as `claims.yaml` says with the
    reason.
    """
    if data in claim.not_testable:
        return UNTESTABLE
    if not row["verdict"]:
        return UNJUDGED
    if _is_open(row):
        return UNDECIDED
    if row["verdict"] == "undecided":
        return NO_DIFFERENCE
    outcome = _words(claim, data)[row["verdict"]]
    if row["size"] and claim.asks != "equal":
        return f"{outcome}, but smaller than the margin,"
    return outcome


def _words(claim: Claim, data: str) -> Mapping[str, str]:
    """Return the words for a verdict on a claim, on one data set."""
    if claim.paper == "kit":
        return SUPPORT
    is_unseen = data != "worlds" and not is_known(claim, data)
    if claim.design == "of the paper" and is_unseen:
        return REPLICATION
    return AGREEMENT if claim.asks == "equal" else DIRECTION


def _is_open(row: Row) -> bool:
    """Return whether neither direction nor size is decided.

    Of a system that is excluded nothing is said.
    """
    if row["verdict"] != "undecided":
        return False
    is_excluded = row.get("reason", "").startswith("gate")
    return is_excluded or not row["size"]


def page(tables: Tables, over_collections: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return a table for the page: a row a claim, and a column a data set that answers it.

    Parameters
    ----------
    tables : name of the data → a table of `concluded`, `without_verdict` or `over_worlds`; without
        rows for none.
    over_collections : what real collections say, of `over_collections.judged`.

    Returns
    -------
    DataFrame[claim, margin, published, the data sets, four real collections, conclusion]
        A cell of a data set is `formatted`. Empty without any row.
    """
    asked = [data for data in tables if len(tables[data])]
    on_collections: dict[str, str] = {}
    if over_collections is not None:
        on_collections = collections_wording.in_short(over_collections)
    lines, conclusions = [], []
    for claim, rows in by_claim(tables):
        line = {
            "claim": claim.sentence,
            "margin": margin(claim),
            "published": published(claim),
        }
        for data in asked:
            name = data_name(data, claim)
            line[name] = formatted(rows[data], claim) if data in rows else NONE
        if claim.on_collections in on_collections:
            line[FOUR] = on_collections[claim.on_collections]
        lines.append(line)
        conclusions.append(_with_notes(claim, rows))
    if not lines:
        return pd.DataFrame()
    return pd.DataFrame(lines).fillna(NONE).assign(conclusion=conclusions)


def by_claim(tables: Tables) -> list[tuple[Claim, Rows]]:
    """Return each claim that some tables answer, with its row in each data set.

    Parameters
    ----------
    tables : name of the data → a table, as of `page`.
    """
    rows: dict[str, dict[str, Row]] = {}
    for data, table in tables.items():
        complete = table.astype(object).fillna(NO_TEXTS)
        for row in complete.to_dict("records"):
            rows.setdefault(row["claim"], {})[data] = row
    claims = [every_claim()[name] for name in rows]
    return list(zip(claims, rows.values(), strict=True))


def data_name(data: str, claim: Claim) -> str:
    """Return the name of a data set in sentences and columns of a claim."""
    if data != "MedQuAD":
        return NAMED.get(data, data)
    return REAL_DATA_OF.get(claim.name) or REAL_DATA_OF.get(claim.notebook, data)


def margin(claim: Claim) -> str:
    """Return what counts as no difference.

    Of equality, or of a loss or gain that is too small to matter.
    """
    return with_unit(claim.margin, claim.unit).removeprefix("+")


def published(claim: Claim) -> str:
    """Return the published effect with its unit; a dash where none is."""
    if np.isnan(claim.published):
        return NONE
    return with_unit(claim.published, claim.unit)


def formatted(row: Row, claim: Claim | None = None) -> str:
    """Return a row of `concluded` or `over_worlds` as the cell of a table.

    Estimate, interval, units of inference, verdict and its reasons.

    Parameters
    ----------
    row : a row of a table of claims.
    claim : the claim, where it is not in the file.

    Examples
    --------
    >>> row = {"claim": "resttest-dense", "estimate": -0.1, "low": -0.14, "high": -0.06}
    >>> row |= {"n_queries": 900, "n_worlds": 12, "verdict": "holds", "size": "", "reason": ""}
    >>> formatted(row)
    '-10.0 % [-14.0, -6.0], 900 queries, 12 worlds: holds'
    """
    claim = claim or every_claim()[row["claim"]]
    measured = ", ".join([_estimate(row, claim), *_counts(row)])
    verdict = ", ".join(filter(None, [row["verdict"], row["size"]]))
    reasons = "; ".join(_reasons_in_cell(row, claim))
    if verdict and reasons:
        return f"{measured}: {verdict} ({reasons})"
    if verdict or reasons:
        return f"{measured}: {verdict or reasons}"
    return measured


def _counts(row: Row) -> list[str]:
    """Return the numbers of models, queries, training runs and worlds that a row has."""
    counts = []
    for column, (one, several) in UNITS.items():
        number = row.get(column, np.nan)
        if np.isfinite(number):
            unit = one if number == 1 else several
            counts.append(f"{int(number):,} {unit}")
    return counts


def _reasons_in_cell(row: Row, claim: Claim) -> list[str]:
    """Return why a claim is undecided, what its design detects, and what would decide it."""
    reason: str = row["reason"]
    reasons = [MANY.get(reason, reason)] if reason else []
    if reason == GATE and np.isfinite(row["lead"]):
        return [*reasons, f"lead {with_unit(row['lead'], 'points')}"]
    resolution = row.get("resolution", np.nan)
    has_no_size = reason.startswith("gate") or reason in (FEW, NO_VARIATION)
    if row["verdict"] != "undecided" or has_no_size or not np.isfinite(resolution):
        return reasons
    reasons.append(_detects(claim, resolution))
    if claim.asked == 0:  # a published effect of 0 has no size to detect
        return reasons
    times = (resolution / claim.asked) ** 2
    if times > REACHABLE:
        more = _more_data(times, reason, row.get("share_trainings", np.nan))
        reasons.append(f"out of reach: needs {more}")
    return reasons


def _detects(claim: Claim, resolution: float) -> str:
    """Return the smallest effect that the design of a claim finds with 80 % power."""
    if claim.unit:
        return f"detects {100 * resolution:.1f} {claim.unit}"
    largest = 1.0 if claim.is_correlation else 2.0  # of a difference of two
    if resolution < largest:
        return f"detects {resolution:.2f}"
    return "detects no correlation"


def _more_data(times: float, noise: str, share_trainings: float) -> str:
    """Return what would make the variance so many times smaller.

    More trainings leave the variance that is of the queries as it is.

    >>> _more_data(30, "queries", 0.1), _more_data(30, "trainings", 0.99)
    ('30 times as many queries', '42 times as many training runs')
    """
    units = MANY.get(noise, noise)
    if noise != "trainings" or np.isnan(share_trainings):
        return f"{times:.0f} times as many {units}"
    # of the variance wanted, what the queries leave to the trainings
    left_to_trainings = 1 - times * (1 - share_trainings)
    if left_to_trainings > 0:
        times_trainings = times * share_trainings / left_to_trainings
        return f"{times_trainings:.0f} times as many {units}"
    return f"{times:.0f} times as many {units} and queries"
