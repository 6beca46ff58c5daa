"""What is said of claims: sentences, conclusions and tables for a page."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from interextra.claims.claim import Claim, stated
from interextra.claims.judgement import FEW, GATE, JUDGED, NO_VARIATION, UNMEASURED
from interextra.stats.effects import (
    spelled,
)

ANSWERS = Path(__file__).with_name("answers.yaml")
DATA = {"MedQuAD": "small", "worlds": "worlds"}  # profiles whose reference decides claims
PLACES = {"MedQuAD": "on real data", "worlds": "in the worlds"}
# Real data by notebook or claim; else MedQuAD
REAL = {
    "01_overlap_annotation_analysis": "MS MARCO",
    "11_pool_bias": "TREC DL",
    "finished-near": "TREC DL",
}
REAL |= {"predicted-by-declared": "published models"}
NAMED = {"worlds": "fourteen worlds", "here": "this run"}  # columns of a page
# First words of a conclusion → the entry of answers.yaml that answers the title.
HELD = "replicated|supported|agrees"
ANSWER_TO = {f"depends|no difference.*({HELD})": "depends", "no difference": "equal"}
ANSWER_TO |= {HELD: "holds", "contradicted|differs": "contradicted"}
UNJUDGED = "not judged"
UNTESTABLE = "not testable"
ONE = {"models": "model", "queries": "query", "trainings": "training run", "worlds": "world"}
MANY = {"trainings": "training runs"}  # where it has another name than the column of its number
REASONS = {
    name: f"too few {MANY.get(name, name)}"
    for name in ("queries", "worlds", "models", "clusters", "trainings")
}
REASONS |= {FEW: FEW, NO_VARIATION: NO_VARIATION}
REASONS |= {
    GATE: "a system is not shown to beat BM25 in domain",
    UNMEASURED: "no lead over BM25 was measured",
}
SHOWN = ["n_models", "n_queries", "n_trainings", "n_worlds"]  # counts on a page
OUT_OF_REACH = 10  # a claim that needs more than this many times the data is declared so


def formatted(row: Mapping[str, Any], own: Claim | None = None) -> str:
    """A row of `concluded` or `over_worlds` as text: estimate, interval, unit of inference, verdict
    and its reason.

    `own`: the claim, where it is not in the file.

    >>> row = {"claim": "resttest-dense", "estimate": -0.1, "low": -0.14, "high": -0.06, "n_queries": 900}
    >>> formatted(row | {"n_worlds": 12, "verdict": "holds", "size": "", "reason": ""})
    '-10.0 % [-14.0, -6.0], 900 queries, 12 worlds: holds'
    """
    claim = own or stated()[row["claim"]]
    text = spelled(row["estimate"], row["low"], row["high"], claim.unit)
    counts = {name.removeprefix("n_"): row[name] for name in SHOWN if not pd.isna(row.get(name))}
    units = [
        f"{int(n):,} {ONE[what] if n == 1 else MANY.get(what, what)}" for what, n in counts.items()
    ]
    found = ", ".join([text, *units])
    reason = "; ".join(_reasons(row, claim))
    judged = ", ".join(filter(None, [row["verdict"], row["size"]]))
    if not judged and not reason:
        return found
    if not judged:
        return f"{found}: {reason}"
    return f"{found}: {judged} ({reason})" if reason else f"{found}: {judged}"


def _reasons(row: Mapping[str, Any], claim: Claim) -> list[str]:
    """Why a claim is undecided, what its design detects, and how much more data would decide it."""
    reason, needed = row["reason"], row.get("resolution", np.nan)
    reasons = [MANY.get(reason, reason)] if reason else []
    if reason == GATE and np.isfinite(row["lead"]):
        return [*reasons, f"lead {100 * row['lead']:+.1f} points"]
    if row["verdict"] != "undecided" or reason.startswith("gate") or not np.isfinite(needed):
        return reasons
    if claim.unit:
        reasons.append(f"detects {100 * needed:.1f} {claim.unit}")
    else:  # of a correlation, or of a difference of two
        largest = 2.0 if "minus" in claim.rows else 1.0
        reasons.append(f"detects {needed:.2f}" if needed < largest else "detects no correlation")
    times = (
        (needed / claim.asked) ** 2 if claim.asked else 0.0
    )  # nothing is asked of a baseline that finds nothing
    if times > OUT_OF_REACH:
        reasons.append(
            f"out of reach: needs {_more_data(times, reason, row.get('share_trainings', np.nan))}"
        )
    return reasons


def _more_data(times: float, noise: str, share_trainings: float) -> str:
    """What would make the variance so many times smaller.

    >>> _more_data(30, "queries", 0.1), _more_data(30, "trainings", 0.99)
    ('30 times as many queries', '42 times as many training runs')
    """
    units = MANY.get(noise, noise)
    if noise != "trainings" or np.isnan(share_trainings):
        return f"{times:.0f} times as many {units}"
    left = 1 - times * (
        1 - share_trainings
    )  # of the variance wanted, what the queries leave to the trainings
    if left > 0:
        return f"{times * share_trainings / left:.0f} times as many {units}"
    return f"{times:.0f} times as many {units} and queries"


def page(found: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """For the page: a row a claim; its sentence, what is published, and a column a data set that
    answers it.

    `found`: name of the data → a table of `concluded`, `in_one_world` or `over_worlds`; without
    rows for none.
    """
    asked, made = [data for data, table in found.items() if len(table)], []
    for claim, rows in _by_claim(found):
        told = {
            _named(data, claim): formatted(rows[data]) if data in rows else "–" for data in asked
        }
        row = {
            "claim": claim.sentence,
            "margin": margin(claim),
            "published": published(claim),
        } | told
        untested = "".join(f" ({why})" for why in _untested(claim, rows))
        made.append(row | {"conclusion": conclusion(claim, rows) + untested})
    table = pd.DataFrame(made).fillna("–")
    return table[[*table.columns.drop("conclusion"), "conclusion"]] if made else table


def _by_claim(found: Mapping[str, pd.DataFrame]) -> list[tuple[Claim, dict[str, dict]]]:
    """Each claim that a table of `page` answers, with its row in each data set; in a file an empty
    text is missing.
    """
    rows: dict[str, dict[str, dict]] = {}
    for data, table in found.items():
        texts = {
            name: table[name].astype(object).fillna("")
            for name in (*JUDGED[:3], "over")
            if name in table
        }
        for row in table.assign(**texts).to_dict("records"):
            rows.setdefault(row["claim"], {})[data] = row
    return [(stated()[name], of) for name, of in rows.items()]


def _named(data: str, claim: Claim) -> str:
    return (
        (REAL.get(claim.name) or REAL.get(claim.notebook, data))
        if data == "MedQuAD"
        else NAMED.get(data, data)
    )


def conclusion(claim: Claim, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """What data sets say together of a claim: data set → its row. A single generated world says
    nothing.

    >>> holds, undecided = ({"verdict": verdict, "size": ""} for verdict in ("holds", "undecided"))
    >>> conclusion(stated()["resttest-dense"], {"MedQuAD": undecided, "worlds": holds})
    'agrees in direction in the worlds, undecided on real data'
    """
    heard = {data: _outcome(claim, data, row) for data, row in rows.items()}
    judged = {data: told for data, told in heard.items() if told != UNJUDGED}
    tested = {data for data in judged if data not in claim.not_testable}
    if {"holds", "contradicted"} <= {rows[data]["verdict"] for data in tested}:
        return "depends on the data"
    if len(judged) > 1 and len(set(judged.values())) == 1:
        return next(iter(judged.values()))
    decided_first = sorted(
        judged.items(), key=lambda item: item[1].startswith(("undecided", UNTESTABLE))
    )
    return ", ".join(f"{told} {PLACES.get(data, data)}" for data, told in decided_first) or UNJUDGED


def _outcome(claim: Claim, data: str, row: Mapping[str, Any]) -> str:
    """What one data set says of a claim, in a word.

    *replicated* and *contradicted* are of the paper's design and question on real data; a generated
    world, or another design, only *agrees* (of an effect: *in direction*) or *differs*. A question
    of ours is *supported* or *contradicted*. *not testable* is what a design cannot answer, as
    `claims.yaml` says with the reason.
    """
    if data in claim.not_testable:
        return UNTESTABLE
    smaller = ", but smaller than the margin," * bool(row["size"] and claim.asks != "equal")
    if claim.paper == "kit":
        words = {"holds": "supported", "contradicted": "contradicted"}
    elif claim.design == "of the paper" and data != "worlds":
        words = {"holds": "replicated", "contradicted": "contradicted"}
    else:
        agrees = "agrees" if claim.asks == "equal" else "agrees in direction"
        words = {"holds": agrees, "contradicted": "differs"}
    if row["verdict"] in words:
        return words[row["verdict"]] + smaller
    if not row["verdict"]:
        return UNJUDGED
    return "undecided" if _is_open(row) else "no difference"


def _is_open(row: Mapping[str, Any]) -> bool:
    """Whether neither direction nor size is decided; of a system that is excluded nothing is
    said.
    """
    return row["verdict"] == "undecided" and (
        not row["size"] or str(row.get("reason", "")).startswith("gate")
    )


def margin(claim: Claim) -> str:
    """What counts as no difference: of equality, or of a loss or gain that is too small to
    matter.
    """
    return f"{100 * claim.margin:.1f} {claim.unit}" if claim.unit else f"{claim.margin:.2f}"


def published(claim: Claim) -> str:
    value, unit = claim.published, claim.unit
    return "–" if np.isnan(value) else f"{100 * value:+.1f} {unit}" if unit else f"{value:+.2f}"


def sentences(found: Mapping[str, pd.DataFrame], notebook: str = "") -> list[str]:
    """A sentence for each claim of `page`: what came out, and the estimate of each data set with
    its interval.

    `notebook`: the claim that answers its title (`answers.yaml`) comes first, as an answer; decided
    ones are next.

    >>> row = {"claim": "topics-dense", "estimate": -0.074, "low": -0.119, "high": 0.029, "size": ""}
    >>> sentences({"here": pd.DataFrame([row | {"verdict": "undecided", "reason": "queries"}])})[0][82:]
    ': undecided here, too few queries (RR@10: this run -7.4 % [-11.9, +2.9]; published -11.1 %).'
    """
    answer, decided, others = [], [], []
    title = yaml.safe_load(ANSWERS.read_text(encoding="utf-8")).get(notebook, {})
    for claim, rows in _by_claim(found):
        outcome, reason = conclusion(claim, rows), _reason(rows)
        estimated = {
            data: spelled(row["estimate"], row["low"], row["high"], claim.unit)
            for data, row in rows.items()
        }
        parts = [f"{_named(data, claim)} {text}" for data, text in estimated.items()]
        parts += [f"published {published(claim)}"] if np.isfinite(claim.published) else []
        if claim.asks == "equal" or any(row["size"] for row in rows.values()):
            parts.append(f"margin {margin(claim)}")
        estimates = f"{claim.statistic}{claim.measure}: {'; '.join(parts)}"
        told = outcome
        word = next((word for word in ("undecided", UNJUDGED, UNTESTABLE) if word in told), "")
        is_open = told.startswith(("undecided", UNJUDGED, UNTESTABLE))
        has_reason = word in ("undecided", UNJUDGED)
        told += f", {reason}" * has_reason
        untested = _untested(claim, rows)
        told += "".join(f" ({why})" for why in untested)
        if claim.name != title.get("claim"):
            text = f"{claim.sentence.removesuffix('.')}: {told} ({estimates})."
            (others if is_open else decided).append(text)
            continue
        has_name = re.match(
            r"\w+[A-Z0-9]", claim.sentence
        )  # which keeps its capitals after a colon
        inside = claim.sentence if has_name else claim.sentence[:1].lower() + claim.sentence[1:]
        open_for = "; ".join([reason] * has_reason + untested)
        forms = {"": f"{word.capitalize()} ({open_for}): {inside}"}
        forms |= {"depends": f"It depends on the data. {claim.sentence}"} | title
        key = next((key for word, key in ANSWER_TO.items() if re.match(word, outcome)), "")
        text = forms[key].removesuffix(".") + f": {told}" * (not is_open)
        answer = [f"{text} ({estimates}; {_intervals(claim, rows)})."]
    return answer + decided + others


def _untested(claim: Claim, rows: Mapping[str, Any]) -> list[str]:
    """Why data sets that estimate a claim cannot test it, each reason once."""
    return list(dict.fromkeys(why for data, why in claim.not_testable.items() if data in rows))


def _intervals(claim: Claim, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """What kind of intervals the estimates of a claim have, and what each is over."""
    alone = [
        data for data, row in rows.items() if row["reason"] == "one world"
    ]  # which has no correction
    kind = "individual" if len(alone) == len(rows) else "simultaneous"
    names_over: dict[str, list[str]] = {}
    for data, row in rows.items():
        over = str(row.get("over", "")).replace("; one training run", " of one training run")
        is_apart = data in alone and kind == "simultaneous"
        names_over.setdefault(over, []).append(_named(data, claim) + ", individual" * is_apart)
    is_one_for_all = len(names_over) == 1 and len(alone) in (0, len(rows))
    each = []
    for over, names in names_over.items():
        whose = "" if is_one_for_all else f" ({', '.join(names)})"
        each += [f"over {over}{whose}"] if over else []
    return " ".join([f"{kind} 95 % confidence intervals", "; ".join(each)]).strip()


def _reason(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Why a claim is undecided, or has no verdict, by its row in each data set."""
    if not any(row["verdict"] for row in rows.values()):
        worlds = any(row["reason"] == "one world" for row in rows.values())
        return "one generated world decides no claim" if worlds else "a secondary claim"
    reason = next(
        (row["reason"] for row in rows.values() if _is_open(row) and row["reason"]), "no estimate"
    )
    return REASONS.get(reason, reason)
