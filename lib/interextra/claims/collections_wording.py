"""Claims over collections in words: a decision for each, and a table and a frame for a page."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from interextra.claims.claim import Claim, every_claim, of_collections, stated
from interextra.claims.over_collections import (
    CLOSED,
    CONSTANT,
    CONTRADICTED,
    DEPENDS,
    DESCRIBED,
    HOLDS,
    INCOMPLETE,
    NO_GATE,
    OPEN,
)
from interextra.stats.formatting import spelled, with_unit

MEAN = "mean"  # the row of what the deciding collections say together
WORLDS = "worlds"  # a column, and a row: what generated worlds say
NONE = "–"
# What stands above the figure of a notebook's claims on real collections
ABOUT = (
    "The claims of the profile `real` were written before anything was "
    "trained on its collections ([the rules](results.md)). Each collection has its own interval; "
    "the mean is of the four that decide. Hollow: not shown to beat BM25 in domain."
)
# of a claim about a system that is not shown to beat BM25 in domain on each of the collections
NO_VERDICT = "no verdict"
NOTHING_TO_TEST = f"{OPEN} (the same on every query: there is nothing to test)"
WITHOUT_MEAN = (INCOMPLETE, DESCRIBED)
# columns of `page` → their names on cards
HEADINGS = {
    "finds": "effect found with 80 % power, of the mean",
    "random effects": "mean by random effects",
    "prediction": "prediction for another collection",
    WORLDS: "fourteen worlds",
}

Row = Mapping[str, Any]


def decisions(table: pd.DataFrame) -> dict[str, str]:
    """Return each claim with what the collections that decide say of it, its parts together.

    Parameters
    ----------
    table : of `over_collections.judged`.
    """
    names = table["claim"].map(whole)
    by_claim = table.groupby(names, sort=False)
    return {name: _decision(parts.to_dict("records")) for name, parts in by_claim}


def whole(name: str) -> str:
    """Return the name of the claim that a row is a part of."""
    return name.partition(":")[0]


def _decision(parts: Sequence[Row]) -> str:
    """Return what is decided by the rule and the gate; where that is closed also by the rule alone.

    A claim with several parts holds where all of them do.
    """
    verdicts = {part["verdict"] for part in parts}
    fewest = min(part["n"] for part in parts)
    if DESCRIBED in verdicts:
        return f"{DESCRIBED} on {fewest:.0f} collections, no verdict"
    if INCOMPLETE in verdicts:
        return f"{INCOMPLETE}, {fewest:.0f} of the collections that decide answer it"
    text = _without_gate(parts)
    n = parts[0]["n"]
    if parts[0]["gate"] == NO_GATE or pd.isna(parts[0]["gate"]):  # missing in a file
        return text
    names = _ahead_on(parts)
    if len(names) == n:
        return text
    ahead = f"ahead in domain on {len(names)} of {n}"
    if names:
        ahead += f": {', '.join(names)}"
    why = f"not ahead of BM25 on each ({ahead})"
    return f"{NO_VERDICT}, {why}; judged all the same: {text}"


def _ahead_on(parts: Sequence[Row]) -> list[str]:
    """Return the collections where the systems of all parts are ahead of BM25 in domain."""
    gates = ["" if part["gate"] == CLOSED else part["gate"] for part in parts]
    first, *others = map(_listed, gates)
    return [name for name in first if all(name in other for other in others)]


def _without_gate(parts: Sequence[Row]) -> str:
    """Return what the rule says of a claim without a look at the gate."""
    verdicts = {part["verdict"] for part in parts}
    if verdicts == {CONSTANT}:
        return NOTHING_TO_TEST
    if CONTRADICTED in verdicts:
        return CONTRADICTED
    if DEPENDS in verdicts:
        against = [name for part in parts for name in _listed(part["against_on"])]
        return f"{DEPENDS} (the opposite on {', '.join(dict.fromkeys(against))})"
    if verdicts <= {HOLDS, CONSTANT}:
        return _holds_on([part for part in parts if part["verdict"] == HOLDS])
    times = max(_times_the_data(part) for part in parts if part["verdict"] == OPEN)
    return f"{OPEN}, an effect of the margin needs {times:,.0f} times the queries and trainings"


def _holds_on(parts: Sequence[Row]) -> str:
    """Return on how many collections all parts of a claim hold, and on which."""
    n = parts[0]["n"]
    names = _listed(parts[0]["holds_on"])
    for part in parts[1:]:
        also = _listed(part["holds_on"])
        names = [name for name in names if name in also]
    text = f"{HOLDS} on {len(names)} of {n}"
    if 0 < len(names) < n:
        text += f" ({', '.join(names)})"
    return text


def _listed(names: Any) -> list[str]:
    """Return the names in a text; one that is missing in a file names none."""
    return [] if pd.isna(names) or not names else names.split(", ")


def _times_the_data(part: Row) -> float:
    """Return how many times the data would find an effect as large as the margin."""
    claim = of_collections()[part["claim"]]
    times = (part["resolution"] / claim.margin) ** 2
    return max(1.0, np.ceil(times))


def sentences(table: pd.DataFrame) -> list[str]:
    """Return a sentence a claim: what is claimed, what is decided, and what was known before.

    Parameters
    ----------
    table : of `over_collections.judged`.
    """
    claims = {whole(name): every_claim()[name] for name in table["claim"]}
    texts = []
    for name, decision in decisions(table).items():
        claim = claims[name]
        text = f"{claim.sentence.removesuffix('.')}: {decision}."
        if claim.source not in ("", "ours"):  # published, or seen on other data
            text += f" Known before: {claim.source}."
        texts.append(text)
    return texts


def in_short(table: pd.DataFrame) -> dict[str, str]:
    """Return each claim, or part of one, with its mean and what is decided, for one cell of a page.

    Parameters
    ----------
    table : of `over_collections.judged`.
    """
    decided = decisions(table)
    texts = {}
    for row in table.to_dict("records"):
        name = row["claim"]
        text = decided[whole(name)]
        if row["verdict"] not in WITHOUT_MEAN:
            text = f"{_cell(row, every_claim()[name])}: {text}"
        texts[name] = text
    return texts


def briefly(table: pd.DataFrame) -> dict[str, str]:
    """Return each claim, or part of one, with the first words of what is decided.

    Examples
    --------
    >>> row = {"claim": "real-kind-dense", "verdict": "holds", "gate": "a", "n": 2}
    >>> briefly(pd.DataFrame([row | {"holds_on": "a, b"}]))
    {'real-kind-dense': 'no verdict'}
    """
    decided = decisions(table)
    return {
        name: re.split(r" \(|, ", decided[whole(name)], maxsplit=1)[0] for name in table["claim"]
    }


def page(
    each: pd.DataFrame, table: pd.DataFrame, of_worlds: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return the numbers for a page: a row a claim or part of one, a column a collection.

    What is decided stands in `sentences`.

    Parameters
    ----------
    each : of `over_collections.of_each`.
    table : of `over_collections.judged`.
    of_worlds : the claims of the same notebook over generated worlds.

    Returns
    -------
    DataFrame[claim, unit, the collections, mean, finds, random effects, prediction, worlds]
        unit: of all numbers of the row. finds: the smallest effect that is found with 80 % power.
        random effects: the mean over collections like these. prediction: 95 % interval of the
        effect on another one. worlds: see `in_worlds`.
    """
    worlds = in_worlds(table["claim"], of_worlds)
    names = each["collection"].unique()
    lines = []
    for row in table.to_dict("records"):
        claim = every_claim()[row["claim"]]
        line = dict.fromkeys(names, NONE)
        for own in each[each["claim"] == claim.name].to_dict("records"):
            line[own["collection"]] = _cell(own, claim)
        is_judged = row["verdict"] not in WITHOUT_MEAN
        line[MEAN] = _cell(row, claim) if is_judged else NONE
        is_tested = is_judged and row["verdict"] != CONSTANT
        finds = with_unit(row["resolution"], claim.unit).lstrip("+")
        line["finds"] = finds if is_tested else NONE
        line["random effects"] = _random_effects(row, claim) if is_judged else NONE
        line["prediction"] = _prediction(row, claim) if is_judged else NONE
        line[WORLDS] = _cell(worlds[claim.name], claim) if claim.name in worlds else NONE
        numbers = {name: _without_unit(text, claim.unit) for name, text in line.items()}
        lines.append({"claim": _sentence(claim), "unit": claim.unit or NONE} | numbers)
    return pd.DataFrame(lines)


def in_worlds(names: Iterable[str], of_worlds: pd.DataFrame | None) -> dict[str, dict]:
    """Return claims with what generated worlds say of the same: of the same measure and scale.

    Parameters
    ----------
    names : of claims over collections.
    of_worlds : the claims of a notebook over generated worlds; None or empty for none.
    """
    if of_worlds is None or of_worlds.empty:
        return {}
    rows = {row["claim"]: row for row in of_worlds.to_dict("records")}
    found = {}
    for name in names:
        like = _like(every_claim()[name])
        if like and like.name in rows:
            found[name] = rows[like.name]
    return found


def _like(claim: Claim) -> Claim | None:
    """Return the claim about one data set that asks the same of the same measure, if there is one.

    It has the same name but for the first word.
    """
    like = stated().get(claim.name.removeprefix("real-"))
    if like is None:
        return None
    is_same = (like.measure, like.scale, like.side) == (claim.measure, claim.scale, claim.side)
    return like if is_same else None


def _sentence(claim: Claim) -> str:
    """Return what is claimed, and of which part of a claim."""
    sentence = claim.sentence.removesuffix(".")
    return f"{sentence}: {claim.part}" if claim.part else sentence


def _cell(row: Row, claim: Claim) -> str:
    """Return an estimate with its interval; one without an error has none."""
    if row.get("error") == 0:
        return with_unit(row["estimate"], claim.unit)
    return spelled(row["estimate"], row["low"], row["high"], claim.unit)


def _without_unit(text: str, unit: str) -> str:
    """Return the numbers of a cell without their unit.

    Examples
    --------
    >>> _without_unit("-53.8 % to -0.4 %", "%")
    '-53.8 to -0.4'
    """
    return text.replace(f" {unit}", "") if unit else text


def _random_effects(row: Row, claim: Claim) -> str:
    """Return the mean by random effects with its interval, NONE of estimates without errors."""
    if np.isnan(row["random_effects"]):
        return NONE
    return spelled(row["random_effects"], row["random_low"], row["random_high"], claim.unit)


def _prediction(row: Row, claim: Claim) -> str:
    """Return the interval of the effect on another collection, NONE without one."""
    if np.isnan(row["prediction_low"]):
        return NONE
    low, high = (with_unit(row[f"prediction_{end}"], claim.unit) for end in ("low", "high"))
    return f"{low} to {high}"


def forest_rows(
    each: pd.DataFrame,
    table: pd.DataFrame,
    deciding: Sequence[str] = (),
    of_worlds: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return the rows of a forest: each claim in each collection, their mean, and that of worlds.

    Parameters
    ----------
    each, table, of_worlds : see `page`.
    deciding : collections that decide; the others are marked as seen.

    Returns
    -------
    DataFrame[claim, collection, estimate_of, estimate, low, high, published, excluded]
        claim: as a heading. estimate_of: one collection, or whose mean. published: beside the mean
        of collections, where the paper has this measure. excluded: a system that the claim names is
        not shown to beat BM25 in domain.
    """
    of_each = each[each["claim"].isin(table["claim"])].copy()
    gated = [name for name, claim in every_claim().items() if claim.is_gated]
    is_ahead = of_each["lead_low"] > 0
    of_each["excluded"] = of_each["claim"].isin(gated) & ~is_ahead
    if deciding:
        is_seen = ~of_each["collection"].isin(deciding)
        of_each.loc[is_seen, "collection"] += " (seen)"
    has_mean = ~table["verdict"].isin(WITHOUT_MEAN)
    means = table[has_mean].assign(collection=MEAN)
    worlds = []
    for name, row in in_worlds(table["claim"], of_worlds).items():
        worlds.append(row | {"claim": name, "collection": WORLDS})
    parts = {
        "a single collection": of_each,
        "the mean of those that decide": means,
        "the mean of the worlds": pd.DataFrame(worlds),
    }
    rows = pd.concat(parts, names=["estimate_of"]).reset_index("estimate_of")
    rows["excluded"] = rows["excluded"].eq(True)
    likes = rows["claim"].map(lambda name: _like(every_claim()[name]))
    published = [like.published if like else np.nan for like in likes]
    rows["published"] = np.where(rows["collection"] == MEAN, published, np.nan)
    rows["claim"] = rows["claim"].map(_heading)
    labels = ["claim", "collection", "estimate_of"]
    drawn = ["estimate", "low", "high", "published", "excluded"]
    return rows[[*labels, *drawn]].reset_index(drop=True)


def _heading(name: str) -> str:
    """Return the name of a claim as the heading of a panel.

    Examples
    --------
    >>> _heading("real-merge: on the left-out kind")
    'merge: on the left-out kind'
    """
    title, colon, part = name.removeprefix("real-").partition(":")
    words = title.replace("-", " ")
    return f"{words}{colon}{part}"
