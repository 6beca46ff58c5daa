"""Claims over collections in words: a decision for each, and a table and a frame for a page."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from interextra.claims.claim import Claim, of_collections
from interextra.stats.formatting import spelled

MEAN = "mean"  # the row of what the deciding collections say together
CONTRADICTED = "contradicted"
DEPENDS = "depends on the collection"
OPEN = "open"
NONE = "–"


def decisions(table: pd.DataFrame) -> dict[str, str]:
    """Return each claim with what the collections that decide say of it, its parts together.

    Parameters
    ----------
    table : of `over_collections.judged`.
    """
    whole = table["claim"].str.partition(":")[0]
    return {name: _decision(parts) for name, parts in table.groupby(whole, sort=False)}


def _decision(parts: pd.DataFrame) -> str:
    """Return what is said of a claim: by the rule with its gate, and where that is closed without.

    A claim with several parts holds where all of them do.
    """
    text = _without_gate(parts)
    gate = parts["gate"].fillna("").iloc[0]
    n = parts["n"].iloc[0]
    if not gate:
        return text
    n_open = 0 if gate == "none" else len(gate.split(", "))
    if n_open == n:
        return text
    ahead = f"ahead of BM25 in domain on {n_open} of {n}"
    if n_open:
        ahead += f" ({gate})"
    return f"{OPEN} by the gate: {ahead}; without it {text}"


def _without_gate(parts: pd.DataFrame) -> str:
    """Return what the rule says of a claim without a look at the gate."""
    verdicts = set(parts["verdict"])
    for verdict in (CONTRADICTED, DEPENDS):
        if verdict in verdicts:
            return verdict
    if verdicts == {"holds"}:
        return f"holds on {parts['k'].min()} of {parts['n'].iloc[0]}"
    undecided = parts[parts["verdict"] == OPEN]
    times = max(map(_times_the_queries, undecided.to_dict("records")))
    return f"{OPEN}: an effect of the margin needs {times:,.0f} times the queries and trainings"


def _times_the_queries(row: Mapping[str, Any]) -> float:
    """Return how many times the data would find an effect as large as the margin."""
    margin = of_collections()[row["claim"]].margin
    return max(1.0, np.ceil((row["resolution"] / margin) ** 2))


def page(each: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return a table for the page: a row a claim or part of one, a column a collection.

    Parameters
    ----------
    each : of `over_collections.of_each`.
    table : of `over_collections.judged`.

    Returns
    -------
    DataFrame[claim, the collections, mean, finds, conclusion]
        finds: the smallest effect that is found with 80 % power. conclusion: of the whole claim, in
        its first row.
    """
    told = decisions(table)
    names = list(dict.fromkeys(each["collection"]))
    rows = []
    for row in table.to_dict("records"):
        claim = of_collections()[row["claim"]]
        of_claim = each[each["claim"] == row["claim"]].set_index("collection")
        line = {"claim": _sentence(claim)}
        for name in names:
            line[name] = _cell(of_claim.loc[name], claim) if name in of_claim.index else NONE
        line[MEAN] = _cell(row, claim)
        line["finds"] = f"{100 * row['resolution']:.1f}"
        line["conclusion"] = told.pop(row["claim"].partition(":")[0], "")
        rows.append(line)
    return pd.DataFrame(rows)


def _sentence(claim: Claim) -> str:
    """Return what is claimed, and of which part of a claim."""
    sentence = claim.sentence.removesuffix(".")
    return f"{sentence}: {claim.part}" if claim.part else sentence


def _cell(row: Mapping[str, Any] | pd.Series, claim: Claim) -> str:
    """Return an estimate with its interval."""
    return spelled(row["estimate"], row["low"], row["high"], claim.unit)


def forest_rows(
    each: pd.DataFrame, table: pd.DataFrame, deciding: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the rows of a forest: each claim in each collection, and their mean.

    Parameters
    ----------
    each, table : see `page`.
    deciding : collections that decide; the others are marked as seen.

    Returns
    -------
    DataFrame[claim, collection, estimate, low, high, excluded]
        excluded: a system that the claim names is not shown to beat BM25 in domain.
    """
    of_each = each[each["claim"].isin(table["claim"])].copy()
    gated = [name for name, claim in of_collections().items() if claim.is_gated]
    of_each["excluded"] = of_each["claim"].isin(gated) & ~(of_each["lead_low"] > 0)
    if deciding:
        seen = ~of_each["collection"].isin(deciding)
        of_each.loc[seen, "collection"] += " (seen)"
    means = table.assign(collection=MEAN, excluded=False)
    columns = ["claim", "collection", "estimate", "low", "high", "excluded"]
    return pd.concat([of_each[columns], means[columns]], ignore_index=True)
