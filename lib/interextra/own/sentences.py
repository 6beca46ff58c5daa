"""What the runs on a split say, in sentences of which the first answers.

The interval that a sentence prints decides what it says.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from interextra.claims.judgement import FEW, GATE, NO_VARIATION, UNMEASURED
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.splits.split import REGIMES
from interextra.stats.formatting import with_unit

Row = Mapping[str, Any]  # of a table of claims, or of changes

SEEN = "the model as given has seen the training queries"
# Why nothing is decided whatever the interval: reason of a claim → the words of a sentence.
OBSTACLES = {
    GATE: f"the model is not shown to beat {BM25} in domain",
    UNMEASURED: f"no lead over {BM25} in domain was measured",
    FEW: "so few queries decide nothing",
    NO_VARIATION: "all queries differ by the same",
    SEEN: SEEN,
}
CHANGE = "the model from interpolation to extrapolation"
# What an interval shows of a loss, for a program: `answer_code` of the JSON
UNDECIDED = "undecided"
HIGHER = "no loss"
NO_LOSS = "no loss above margin"
SMALL_LOSS = "loss below margin"
LOSS = "loss"  # on either side of the margin
LARGE_LOSS = "loss above margin"
ANSWER_CODES = (LARGE_LOSS, LOSS, SMALL_LOSS, NO_LOSS, HIGHER, UNDECIDED)
WANTED = {"queries": "more queries", "trainings": "more training runs"}


def answer_code(row: Row, margin: float) -> str:
    """Return which of ANSWER_CODES the interval of a loss shows, as `loss_sentence` words it.

    Examples
    --------
    >>> row = {"reason": "", "low": -0.2, "high": -0.06}
    >>> answer_code(row, 0.05), answer_code(row, 0.1), answer_code(row, 0.25)
    ('loss above margin', 'loss', 'loss below margin')
    """
    low, high = row["low"], row["high"]
    if row["reason"] in OBSTACLES or np.isnan(low):
        return UNDECIDED
    if low > 0:
        return HIGHER
    if high < -margin:
        return LARGE_LOSS
    is_within = low > -margin
    if high < 0:
        return SMALL_LOSS if is_within else LOSS
    return NO_LOSS if is_within else UNDECIDED


def loss_sentence(row: Row, margin: float) -> str:
    """Return whether effectiveness is lost in extrapolation.

    Parameters
    ----------
    row : the claim: estimate, low, high (a share of interpolation), reason, n_trainings.
    margin : the loss that matters, a share.

    Examples
    --------
    >>> row = {"estimate": -0.012, "low": -0.041, "high": 0.017, "reason": "queries"}
    >>> loss_sentence(row | {"n_trainings": 1}, 0.05)[:73]
    'No loss above 5 % (the model from interpolation to extrapolation: -1.2 %,'
    """
    change = _with_interval(row, "%")
    numbers = f"({CHANGE}: {change}; {_trainings(row)})"
    limit = f"{100 * margin:g} %"
    obstacle = OBSTACLES.get(row["reason"])
    if obstacle:
        return f"Undecided, as {obstacle} {numbers}."
    if np.isnan(row["low"]):
        return f"Undecided, as the change is undefined {numbers}."
    wanted = WANTED.get(row["reason"], "more data")
    answers = {
        HIGHER: "No loss: effectiveness is higher in extrapolation",
        LARGE_LOSS: f"A loss above {limit}",
        SMALL_LOSS: f"A loss, below {limit}",
        LOSS: "A loss",
        NO_LOSS: f"No loss above {limit}",
        UNDECIDED: f"Undecided: {wanted} would show or exclude a loss above {limit}",
    }
    return f"{answers[answer_code(row, margin)]} {numbers}."


def lead_sentence(row: Row, measure: str, whose: str) -> str:
    """Return whether the model is above the baseline in domain.

    Parameters
    ----------
    row : the claim: estimate, low, high (points), n_queries.
    whose : whose queries show it.

    Examples
    --------
    >>> row = {"estimate": 0.08, "low": 0.05, "high": 0.11, "n_queries": 90}
    >>> lead_sentence(row, "nDCG@10", "queries of the split dev")[:74]
    'In domain, the model leads BM25 by +8.0 points nDCG@10 (95 % CI +5.0 to +1'
    """
    numbers = _with_interval(row, f"points {measure}", " (") + ")"
    where = f"on {row['n_queries']:,.0f} {whose}, which measure no loss"
    if row["low"] > 0:
        return f"In domain, the model leads {BM25} by {numbers}, {where}."
    if row["high"] < 0:
        return f"In domain, the model is below {BM25}: {numbers}, {where}."
    return f"In domain, a lead over {BM25} is not shown: {numbers}, {where}."


def numbers_sentence(row: Row, measure: str, protocol: str, baseline: float, margin: float) -> str:
    """Return what was measured in both regimes, and what would be found.

    The power to show a loss above the margin is that of a change from 0, as much farther below.

    Parameters
    ----------
    row : of the changes: interpolation, extrapolation, detects, n_queries.
    baseline : mean of the baseline on the same queries; it is one run, the same in both regimes.
    margin : the loss that matters, a share.
    """
    means = [f"{row[regime]:.3f} in {regime}" for regime in REGIMES]
    of_model = " and ".join(means)
    both = f"{of_model}, that of {BM25} {baseline:.3f} in both"
    design = f"{protocol}, {row['n_queries']:,.0f} test queries"
    power = "no change would be found"
    if np.isfinite(row["detects"]):
        power = power_words(100 * row["detects"], 100 * margin, ".1f")
    return f"{measure} is {both} ({design}); {power}."


def power_words(percent: float, margin: float, places: str) -> str:
    """Return which changes are found with 80 % power; both are percentages.

    Examples
    --------
    >>> power_words(8.0, 5.0, ".0f")[66:]
    'and a loss of 13 % to be above 5 %'
    """
    from_zero = f"{percent:{places}} %"
    above_margin = f"{percent + margin:{places}} %"
    return (
        f"with 80 % power, a change of {from_zero} would be found to differ from 0, and a loss of "
        f"{above_margin} to be above {margin:g} %"
    )


def halves_sentence(row: Row) -> str:
    """Return whether the near half of the test queries changes by other than the far half.

    Parameters
    ----------
    row : near half minus far half, of their relative changes: difference, low, high.

    Examples
    --------
    >>> halves_sentence({"difference": -0.09, "low": -0.2, "high": 0.02})[:81]
    'Near minus far half of the test queries: -9.0 percentage points (95 % CI -20.0 to'
    """
    estimate = {**row, "estimate": row["difference"]}
    numbers = _with_interval(estimate, "percentage points", " (")
    shown = "a difference is not shown"
    if row["high"] < 0:
        shown = "the near half loses more"
    elif row["low"] > 0:
        shown = "the far half loses more"
    return (
        f"Near minus far half of the test queries: {numbers}), {shown}. A query with near training "
        "queries has more to lose where these are left out."
    )


def gain_sentence(rows: Mapping[str, Row], kept: Row, measure: str) -> str:
    """Return whether fine-tuning gains in both regimes, and the share of the gain that is kept.

    Parameters
    ----------
    rows : by regime, the gain over the model before fine-tuning: gain, low, high.
    kept : the gain in extrapolation as a share of that in interpolation: share, low, high; NaN
        where a gain in interpolation is not shown.

    Examples
    --------
    >>> row = {"gain": 0.4, "low": 0.3, "high": 0.5}
    >>> rows = {"interpolation": row, "extrapolation": {"gain": 0.2, "low": 0.1, "high": 0.3}}
    >>> gain_sentence(rows, {"share": 0.5, "low": 0.3, "high": 0.7}, "nDCG@10")[-56:]
    'of the gain is kept in extrapolation (95 % CI 30 to 70).'
    """
    interpolation, extrapolation = REGIMES
    verbs = {regime: _gains(row) for regime, row in rows.items()}
    first = _gain(rows[extrapolation], f"points {measure}, 95 % CI")
    second = _gain(rows[interpolation], "points,")
    verb = "" if verbs[interpolation] == verbs[extrapolation] else f"{verbs[interpolation]} "
    both = f"{verbs[extrapolation]} in {extrapolation} ({first}) and {verb}in {interpolation}"
    if np.isnan(kept["share"]):
        return f"Fine-tuning {both} ({second})."
    share, low, high = (f"{100 * kept[name]:.0f}" for name in ("share", "low", "high"))
    return (
        f"Fine-tuning {both} ({second}): {share} % of the gain is kept in {extrapolation} "
        f"(95 % CI {low} to {high})."
    )


def _gains(row: Row) -> str:
    """Return whether a gain is shown."""
    if row["low"] > 0:
        return "gains"
    return "loses" if row["high"] < 0 else "is not shown to gain"


def _gain(row: Row, between: str) -> str:
    """Return a gain in points with its interval."""
    points = f"{100 * row['gain']:+.1f}"
    if np.isnan(row["low"]):
        return f"{points} {between} none"
    interval = ends(row["low"], row["high"])
    return f"{points} {between} {interval}"


def _with_interval(row: Row, unit: str, between: str = ", ") -> str:
    """Return an estimate with its interval, in words."""
    if np.isnan(row["estimate"]):
        return f"undefined{between}no interval"
    estimate = with_unit(row["estimate"], unit)
    if np.isnan(row["low"]):
        return f"{estimate}{between}no interval"
    interval = ends(row["low"], row["high"])
    return f"{estimate}{between}95 % CI {interval}"


def ends(low: float, high: float) -> str:
    """Return the ends of an interval, in points; a sign says on which side of 0 an end lies.

    Examples
    --------
    >>> ends(-0.25, 0.5)
    '-25.0 to +50.0'
    """
    first = 100 * low
    last = 100 * high
    return f"{first:+.1f} to {last:+.1f}"


def _trainings(row: Row) -> str:
    """Return the number of training runs of each set."""
    n_trainings = row["n_trainings"]
    return "one training run" if n_trainings == 1 else f"{n_trainings:.0f} training runs"
