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
# verdicts
HOLDS = "holds"
CONTRADICTED = "contradicted"
DEPENDS = "depends on the collection"
OPEN = "open"
CONSTANT = "constant"  # no query and no training differs: nothing to test
INCOMPLETE = "incomplete"  # not every collection that decides answers it, yet
DESCRIBED = "described"  # the section `real` does not ask it
NO_GATE = ""  # of a claim that asks for none
CLOSED = "none"  # no collection where the systems are ahead of BM25
# columns of `of_each`
OWN = ["claim", "collection", "estimate", "low", "high", "error", "lead", "lead_low"]
COUNTS = ["n_queries", "n_trainings"]
ERRORS = ["error_queries", "error_trainings", "borrowed"]
# columns of `judged`
MEAN = ["claim", "estimate", "low", "high", "error", "resolution"]
JUDGED = ["p_value", "p_holm", "verdict", "gate", "k", "n", "holds_on", "against_on"]
RANDOM_EFFECTS = [
    "random_effects",
    "random_low",
    "random_high",
    "prediction_low",
    "prediction_high",
    "tau",
]


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
    every = _with_borrowed(pd.concat(parts, ignore_index=True))
    every["error"] = np.hypot(every["error_queries"], every["error_trainings"])
    every = _with_interval(every)
    return every[[*OWN, *COUNTS, *ERRORS]]


def _with_borrowed(every: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with error_trainings for those that were trained once, and `borrowed`."""
    own = every["error_trainings"]
    is_own = own > 0
    of_single = every["n_trainings"] * own**2  # variance of a single training
    by_claim = of_single.where(is_own).groupby(every["claim"])
    variance = by_claim.transform("mean") / every["n_trainings"]
    borrowed = np.sqrt(variance).fillna(0.0)
    is_borrowed = ~is_own & (borrowed > 0)
    return every.assign(error_trainings=own.where(is_own, borrowed), borrowed=is_borrowed)


def _with_interval(table: pd.DataFrame) -> pd.DataFrame:
    """Return estimates with the ends of their 95 % intervals."""
    critical = stats.norm.ppf(1 - LEVEL / 2)
    reach = critical * table["error"]
    return table.assign(low=table["estimate"] - reach, high=table["estimate"] + reach)


def judged(each: pd.DataFrame, deciding: Sequence[str]) -> pd.DataFrame:
    """Judge the claims of a notebook, which are a family, over the collections that decide.

    Parameters
    ----------
    each : of `of_each`.
    deciding : names of the collections; the others are left out.

    Returns
    -------
    DataFrame[claim, estimate, low, high, error, resolution, p_value, p_holm, verdict, gate, k, n,
    holds_on, against_on, random_effects, random_low, random_high, prediction_low, prediction_high,
    tau, n_queries]
        A row a part of a claim. One that not all these collections answer has no mean: its verdict
        is INCOMPLETE, and n counts those that do. Nor has a claim that the section does not ask,
        which is DESCRIBED. low and high: plain 95 %.
        resolution: the smallest effect that the corrected two-sided test of a family of this size
        finds with 80 % power. p_value: that the mean is on the claimed side (of equality: within
        the margin, by two one-sided tests at 5 %, which is a 90 % interval); p_holm: after Holm's
        correction over the family, which is all that the section asks of the notebook. verdict:
        what the rule says without a look at the gate, see `_verdict`; gate: in which of the
        collections the systems are ahead of BM25 in domain, see `_gate`. k of n: the collections
        whose own interval lies on the claimed side; holds_on names them, against_on those where it
        lies on the other side.
    """
    of_deciding = each[each["collection"].isin(deciding)]
    complete = []
    without_mean = []
    for name, of_claim in of_deciding.groupby("claim", sort=False):
        claim = of_collections().get(name)
        if claim is None:
            without_mean.append({"claim": name, "verdict": DESCRIBED, "n": len(of_claim)})
        elif len(of_claim) < len(deciding):
            without_mean.append({"claim": name, "verdict": INCOMPLETE, "n": len(of_claim)})
        else:
            complete.append(_mean(claim, of_claim) | _of_collections(claim, of_claim))
    table = pd.DataFrame(complete)
    if complete:
        n_asked = _n_asked(table["claim"])
        table["p_holm"] = holm(table["p_value"], n_asked)
        table["resolution"] = _z_of_resolution(n_asked) * table["error"]
        table["verdict"] = [_verdict(row) for row in table.to_dict("records")]
    columns = [*MEAN, *JUDGED, *RANDOM_EFFECTS, "n_queries"]
    return pd.concat([table, pd.DataFrame(without_mean)]).reindex(columns=columns)


def _n_asked(claims: pd.Series) -> int:
    """Return the size of the family of some claims: all that the section asks of their notebook.

    Those that are not answered yet count, so that a verdict does not wait for them.
    """
    asked = of_collections()
    notebooks = {asked[name].notebook for name in claims}
    return sum(claim.notebook in notebooks for claim in asked.values())


def _z_of_resolution(n_tests: int) -> float:
    """Return how many standard errors a two-sided test of a family finds with POWER."""
    critical = stats.norm.ppf(1 - LEVEL / 2 / n_tests)
    return float(critical + stats.norm.ppf(POWER))


def _mean(claim: Claim, each: pd.DataFrame) -> dict[str, Any]:
    """Return what the mean of the collections says of a claim."""
    errors = each["error"].to_numpy()
    mean = each["estimate"].mean()
    error = float(np.linalg.norm(errors)) / len(errors)
    [row] = _with_interval(pd.DataFrame({"estimate": [mean], "error": [error]})).to_dict("records")
    shown = _shown(claim, row["low"], row["high"])
    row |= {"claim": claim.name, "is_other": shown.is_other}
    return row | {"p_value": _p_value(claim, mean, error)}


def _of_collections(claim: Claim, each: pd.DataFrame) -> dict[str, Any]:
    """Return what the collections say of a claim one by one, and as a sample of others."""
    intervals = each[["low", "high"]].itertuples(index=False)
    shown = [_shown(claim, *interval) for interval in intervals]
    estimates = each["estimate"].to_numpy()
    variances = each["error"].to_numpy() ** 2
    of_others = random_effects(estimates, variances)
    row: dict[str, Any] = dict(zip(RANDOM_EFFECTS, of_others, strict=True))
    row["holds_on"] = _names(each, [one.is_claimed for one in shown])
    row["against_on"] = _names(each, [one.is_other for one in shown])
    row["k"] = sum(one.is_claimed for one in shown)
    row["n"] = len(each)
    row["n_queries"] = each["n_queries"].sum()
    row["gate"] = _gate(claim, each)
    return row


def _shown(claim: Claim, low: float, high: float) -> Shown:
    """Return what an interval shows of a claim."""
    if claim.asks == "equal":
        is_inside = -claim.margin < low and high < claim.margin
        is_outside = high < -claim.margin or low > claim.margin
        return Shown(is_inside, is_outside)
    is_below, is_above = high < 0, low > 0
    if claim.asks == "above":
        return Shown(is_above, is_below)
    return Shown(is_below, is_above)


def _p_value(claim: Claim, mean: float, error: float) -> float:
    """Return the p-value of a claim; of a direction it is two-sided, as its interval is."""
    if error == 0:
        return np.nan
    if claim.asks == "equal":
        to_margin = claim.margin - abs(mean)
        return float(stats.norm.sf(to_margin / error))
    is_claimed = mean > 0 if claim.asks == "above" else mean < 0
    if not is_claimed:
        return 1.0
    return float(2 * stats.norm.sf(abs(mean) / error))


def _gate(claim: Claim, each: pd.DataFrame) -> str:
    """Return the collections whose systems beat BM25 in domain, CLOSED for none, or NO_GATE."""
    if not claim.is_gated:
        return NO_GATE
    return _names(each, each["lead_low"] > 0) or CLOSED


def _names(each: pd.DataFrame, chosen: Sequence[bool] | pd.Series) -> str:
    """Return the names of the chosen collections in one text, "" for none."""
    return ", ".join(each.loc[list(chosen), "collection"])


def _verdict(row: Mapping[str, Any]) -> str:
    """Return what the rule says, the gate apart.

    HOLDS: Holm's p-value is below 5 %, and no collection is shown to be on the other side. DEPENDS:
    one is. CONTRADICTED: the mean is shown to be on the other side. CONSTANT: the mean has no
    error. Else OPEN.
    """
    if row["error"] == 0:
        return CONSTANT
    if row["is_other"]:
        return CONTRADICTED
    if row["against_on"]:
        return DEPENDS
    return HOLDS if row["p_holm"] < LEVEL else OPEN
