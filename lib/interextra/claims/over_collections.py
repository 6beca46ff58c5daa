"""Claims of the section `real` of `claims.yaml`, judged over collections.

What is estimated is the mean of the estimates of the collections that decide: a statement about
these collections. Beside it stand in how many of them the own interval lies on the claimed side,
and the random-effects mean with its prediction interval: a statement about other collections. The
rule of decision, `decision` there, was written down before any of the collections was trained on.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from interextra.claims.claim import Claim, of_collections
from interextra.stats.meta import random_effects
from interextra.stats.tests import holm

LEVEL = 0.05
POWER = 0.8
OWN = ["claim", "collection", "estimate", "low", "high", "error", "lead", "lead_low", "n_queries"]
# columns of `judged`
MEAN = ["claim", "estimate", "low", "high", "error", "resolution"]
JUDGED = ["p_value", "p_holm", "verdict", "gate", "k", "n"]
RANDOM_EFFECTS = [
    "random_effects",
    "random_low",
    "random_high",
    "prediction_low",
    "prediction_high",
    "tau",
]
BORROWED = "borrowed"  # column of `of_each`: whether the noise of training is that of others


class Shown(NamedTuple):
    """What one interval shows of a claim."""

    is_claimed: bool  # it lies on the claimed side, or within the margin
    is_other: bool  # on the other side, or outside the margin


def of_each(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the estimate of each claim in each collection with a 95 % interval.

    The interval is over queries and trainings. Where a collection was trained on once, the variance
    of a single training is the mean over those that were trained on twice.

    Parameters
    ----------
    tables : collection → its table of claims, with the columns of `claim.standard_errors`.

    Returns
    -------
    DataFrame[claim, collection, estimate, low, high, error, lead, lead_low, n_queries, n_trainings,
    error_queries, error_trainings, borrowed]
        Errors are standard errors.
    """
    parts = [table.assign(collection=name) for name, table in tables.items()]
    every = pd.concat(parts, ignore_index=True)
    is_measured = every["error_trainings"] > 0
    of_one = every["n_trainings"] * every["error_trainings"] ** 2  # variance of a single training
    mean_of_one = of_one.where(is_measured).groupby(every["claim"]).transform("mean")
    borrowed = np.sqrt(mean_of_one / every["n_trainings"]).fillna(0.0)
    every["error_trainings"] = every["error_trainings"].where(is_measured, borrowed)
    every[BORROWED] = ~is_measured & (borrowed > 0)
    every["error"] = np.hypot(every["error_queries"], every["error_trainings"])
    reach = stats.norm.ppf(1 - LEVEL / 2) * every["error"]
    every["low"] = every["estimate"] - reach
    every["high"] = every["estimate"] + reach
    return every[[*OWN, "n_trainings", "error_queries", "error_trainings", BORROWED]]


def judged(each: pd.DataFrame, deciding: Sequence[str]) -> pd.DataFrame:
    """Judge the claims of a notebook, which are a family, over the collections that decide.

    Parameters
    ----------
    each : of `of_each`.
    deciding : names of the collections; the others are left out.

    Returns
    -------
    DataFrame[claim, estimate, low, high, error, resolution, p_value, p_holm, verdict, gate, k, n,
    random_effects, random_low, random_high, prediction_low, prediction_high, tau, n_queries]
        A row a part of a claim that all these collections answer. low and high: plain 95 %.
        resolution: the smallest effect that the corrected test of a family of this size finds with
        80 % power. p_value: that the mean is on the claimed side (of equality: within the margin,
        by two one-sided tests); p_holm: after Holm's correction over the family. verdict: what the
        rule says without a look at the gate, see `_verdict`; gate: in which of the collections the
        systems are ahead of BM25 in domain, "" for a claim that asks for no gate. k of n: the
        collections whose own interval lies on the claimed side.
    """
    of_these = each[each["collection"].isin(deciding)]
    n_collections = of_these.groupby("claim", sort=False)["collection"].transform("nunique")
    complete = of_these[n_collections == len(deciding)]
    by_claim = complete.groupby("claim", sort=False)
    rows = [_row(of_collections()[name], part) for name, part in by_claim]
    table = pd.DataFrame(rows)
    if table.empty:
        return table
    table["p_holm"] = holm(table["p_value"])
    family = len(table)
    reach = stats.norm.ppf(1 - LEVEL / 2 / family) + stats.norm.ppf(POWER)
    table["resolution"] = reach * table["error"]
    table["verdict"] = list(map(_verdict, table.to_dict("records")))
    return table[[*MEAN, *JUDGED, *RANDOM_EFFECTS, "n_queries"]]


def _row(claim: Claim, each: pd.DataFrame) -> dict[str, Any]:
    """Return the row of a claim in `judged` but for what its family decides."""
    n = len(each)
    mean = each["estimate"].mean()
    error = np.sqrt((each["error"] ** 2).sum()) / n
    reach = stats.norm.ppf(1 - LEVEL / 2) * error
    intervals = zip(each["low"], each["high"], strict=True)
    shown = [_shown(claim, low, high) for low, high in intervals]
    spread = random_effects(each["estimate"].to_numpy(), each["error"].to_numpy() ** 2)
    return {
        "claim": claim.name,
        "estimate": mean,
        "low": mean - reach,
        "high": mean + reach,
        "error": error,
        "p_value": _p_value(claim, mean, error),
        "is_other": _shown(claim, mean - reach, mean + reach).is_other,
        "any_other": any(one.is_other for one in shown),
        "gate": _gate(claim, each),
        "k": sum(one.is_claimed for one in shown),
        "n": n,
        **dict(zip(RANDOM_EFFECTS, spread, strict=True)),
        "n_queries": each["n_queries"].sum(),
    }


def _shown(claim: Claim, low: float, high: float) -> Shown:
    """Return what an interval shows of a claim."""
    if claim.asks == "equal":
        is_inside = -claim.margin < low and high < claim.margin
        is_outside = high < -claim.margin or low > claim.margin
        return Shown(is_inside, is_outside)
    is_below, is_above = high < 0, low > 0
    return Shown(is_above, is_below) if claim.asks == "above" else Shown(is_below, is_above)


def _p_value(claim: Claim, mean: float, error: float) -> float:
    """Return the p-value of a claim; of a direction it is two-sided, as its interval is."""
    if error == 0:
        return np.nan
    if claim.asks == "equal":
        return float(stats.norm.sf((claim.margin - abs(mean)) / error))
    is_on_side = mean > 0 if claim.asks == "above" else mean < 0
    two_sided = 2 * stats.norm.sf(abs(mean) / error)
    return float(two_sided if is_on_side else 1.0)


def _gate(claim: Claim, each: pd.DataFrame) -> str:
    """Return the collections whose systems beat BM25 in domain, "none" for none of them."""
    if not claim.is_gated:
        return ""
    is_open = each["lead_low"] > 0
    return ", ".join(each.loc[is_open, "collection"]) or "none"


def _verdict(row: Mapping[str, Any]) -> str:
    """Return what the rule says, the gate apart.

    holds: Holm's p-value is below 5 %, and no collection is shown to be on the other side. depends
    on the collection: one is. contradicted: the mean is shown to be on the other side. Else open.
    """
    if row["is_other"]:
        return "contradicted"
    if row["any_other"]:
        return "depends on the collection"
    if row["p_holm"] < LEVEL:
        return "holds"
    return "open"
