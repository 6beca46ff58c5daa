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
WANTED = {"queries": "more queries", "trainings": "more training runs"}


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
    low, high = row["low"], row["high"]
    if obstacle:
        return f"Undecided, as {obstacle} {numbers}."
    if np.isnan(low):
        return f"Undecided, as the change is undefined {numbers}."
    if low > 0:
        return f"No loss: effectiveness is higher in extrapolation {numbers}."
    if high < 0:
        size = _size_of_loss(low, high, margin)
        return f"A loss{size.format(limit)} {numbers}."
    if low > -margin:
        return f"No loss above {limit} {numbers}."
    wanted = WANTED.get(row["reason"], "more data")
    return f"Undecided: {wanted} would show or exclude a loss above {limit} {numbers}."


def _size_of_loss(low: float, high: float, margin: float) -> str:
    """Return what is known of the size of a loss, with a place for the margin."""
    if high < -margin:
        return " above {}"
    if low > -margin:
        return ", below {}"
    return ""


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


def numbers_sentence(row: Row, measure: str, protocol: str, baseline: float) -> str:
    """Return what was measured in both regimes, and what would be found.

    Parameters
    ----------
    row : of the changes: interpolation, extrapolation, detects, n_queries.
    baseline : mean of the baseline on the same queries; it is one run, the same in both regimes.
    """
    means = [f"{row[regime]:.3f} in {regime}" for regime in REGIMES]
    of_model = " and ".join(means)
    both = f"{of_model}, that of {BM25} {baseline:.3f} in both"
    design = f"{protocol}, {row['n_queries']:,.0f} test queries"
    power = "no change would be found"
    if np.isfinite(row["detects"]):
        percent = 100 * row["detects"]
        power = f"a change of {percent:.1f} % would be found with 80 % power"
    return f"{measure} is {both} ({design}); {power}."


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
