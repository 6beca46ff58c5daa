"""What a comparison of near and far test queries says of a finished model, in sentences."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from interextra.own import regimes
from interextra.own.sentences import ends
from interextra.stats.formatting import with_unit

ALL, NEAR_HALF, FAR_HALF = regimes.GROUPS
COPIES = "exact and near-duplicates"
GROUPS = (*regimes.GROUPS, COPIES)
LOSS = 0.11  # share that training without near queries costs (Zhan et al., Table 6)
LARGER = "larger on near queries"
SMALLER = "smaller on near queries"
MEANINGS = {LARGER: "part of it may be interpolation", SMALLER: "no sign of interpolation"}
# the same of a system that is behind the rival on both halves
BEHIND = {LARGER: "what is better there may be interpolation", SMALLER: MEANINGS[SMALLER]}
NO_DIFFERENCE = "no difference"
DIFFICULTY = "undecided: difficulty"
UNDECIDED = "undecided"


class Systems(NamedTuple):
    """The names of the systems that are compared."""

    models: list[str]  # finished ones
    rivals: list[str]
    control: str = ""  # the rival of the models' kind; "": none is

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Return whose lead over which rival is compared: of each model, and of the control.

        Leads over the control stand first.
        """
        others = [name for name in self.rivals if name != self.control]
        rivals = [self.control, *others] if self.control else others
        pairs = [(model, rival) for model in self.models for rival in rivals]
        if self.control:
            pairs += [(self.control, rival) for rival in others]
        return pairs

    @property
    def with_leads(self) -> list[str]:
        """Return the names of all systems, and of the leads of `pairs`."""
        leads = [" minus ".join(pair) for pair in self.pairs]
        return [*self.models, *self.rivals, *leads]


def sentences(
    differences: pd.DataFrame,
    groups: pd.DataFrame,
    queries: pd.DataFrame,
    systems: Systems,
    encoder: str,
) -> list[str]:
    """Return the sentences on the tables of `Finished`; the first words of the first one answer."""
    told = []
    for row in differences.itertuples():
        if row.system == systems.control:
            told.append(_of_control(row))
        else:
            told.append(_answer(row))
    told.append(_of_copies(queries, groups, systems))
    told.append(_of_distance(queries, encoder))
    first = differences.iloc[0]
    n_compared = (queries["queries"] != COPIES).sum()
    if pd.notna(first["needed"]) and first["needed"] > n_compared:
        told.append(_of_power(first, n_compared))
    return told


def verdict(row: Any, margin: float) -> str:
    """Return what a row of `Finished.differences` shows; `margin` as in `finished`."""
    low, high = _judged_ends(row)
    if low > 0:
        return LARGER
    if high < 0:
        return SMALLER
    if max(-low, high) <= margin * row.own_near:
        return NO_DIFFERENCE
    if row.low > 0 or row.high < 0:
        return DIFFICULTY
    return UNDECIDED


def _of_control(row: Any) -> str:
    """Return the sentence of the lead of the control."""
    points = _points(row.difference, row.low, row.high)
    return (
        f"For comparison, the lead of {row.system}, the control, over {row.rival} has near minus "
        f"far {points}."
    )


def _answer(row: Any) -> str:
    """Return the sentence of the lead of a model."""
    points = _points(row.difference, row.low, row.high)
    if row.verdict in MEANINGS:
        meaning = BEHIND[row.verdict] if _trails(row) else MEANINGS[row.verdict]
        return f"{_capital(_change(row))}: {points}: {meaning}."
    if row.verdict == NO_DIFFERENCE:
        low, high = _judged_ends(row)
        bound = _times_100(max(-low, high))
        return f"No difference above {bound} points: {_lead(row)}, near minus far {points}."
    if row.verdict == UNDECIDED:
        detects = f"{_times_100(row.detects)} points would be found with 80 % power"
        return (
            f"Undecided: {_lead(row)} is not shown to differ, near minus far {points}; {detects}."
        )
    return (
        f"Undecided: {_change(row)}, {points}, if difficulty acts on both alike. "
        f"{_if_difficulty_differs(row)}"
    )


def _trails(row: Any) -> bool:
    """Whether a system is behind the rival on both halves."""
    return max(row.near, row.far) < 0


def _lead(row: Any) -> str:
    """Return the lead that is compared between both halves, and whether it is none."""
    lead = f"the lead of {row.system} over {row.rival} in {row.measure}"
    return f"{lead} (below 0: {row.system} trails {row.rival})" if _trails(row) else lead


def _change(row: Any) -> str:
    """Return how it differs between both halves."""
    if _trails(row):
        amount = "less" if row.difference > 0 else "more"
        return f"{row.system} trails {row.rival} in {row.measure}, by {amount} on near queries"
    side = LARGER if row.difference > 0 else SMALLER
    return f"{_lead(row)} is {side}"


def _if_difficulty_differs(row: Any) -> str:
    """Return the sentence of the interval where difficulty acts otherwise on the system."""
    rival_points = with_unit(row.rival_difference, "points")
    rival = f"{row.rival} itself: {rival_points} near minus far"
    interval = ends(row.lowest, row.highest)
    return (
        f"If it acts on {row.system} not at all or up to twice as much, the interval is {interval} "
        f"({rival})."
    )


def _capital(text: str) -> str:
    """Return a text that begins with a capital."""
    return text[0].upper() + text[1:]


def _times_100(value: float) -> str:
    """Return a value in points, without a sign."""
    return f"{100 * value:.1f}"


def _judged_ends(row: Any) -> tuple[float, float]:
    """Return the ends of the interval that decides: over a control, the plain one."""
    if row.is_control:
        return row.low, row.high
    return row.lowest, row.highest


def _points(value: float, low: float, high: float) -> str:
    """Return a difference with its interval, in points."""
    interval = f"95 % CI {ends(low, high)}"
    if np.isnan(low):
        interval = "no interval"
    return f"{with_unit(value, 'points')} ({interval})"


def _of_copies(queries: pd.DataFrame, groups: pd.DataFrame, systems: Systems) -> str:
    """Return the sentence of the copies and near-duplicates of training queries."""
    n_copies = (queries["queries"] == COPIES).sum()
    if not n_copies:
        return "No test query is a copy or a near-duplicate of a training query."
    n_queries = len(queries)
    n_exact = queries["is_exact"].sum()
    model, rival = systems.pairs[0]
    of_copies = groups[groups["queries"] == COPIES].set_index("system")
    lead = of_copies.loc[f"{model} minus {rival}"]
    points = _points(lead["mean"], lead["low"], lead["high"])
    return (
        f"{n_copies:,} of {n_queries:,} test queries are near-duplicates of training queries, "
        f"{n_exact:,} of them copies; they are in neither half. "
        f"There the lead of {model} over {rival} is {points}."
    )


def _of_distance(queries: pd.DataFrame, encoder: str) -> str:
    """Return the sentence of how near both halves are."""
    by_group = queries.groupby("queries")["cosine"].agg(["mean", "size"])
    near = by_group.loc[NEAR_HALF]
    far = by_group.loc[FAR_HALF]
    n_near = f"{near['size']:,.0f}"
    n_far = f"{far['size']:,.0f}"
    return (
        f"Near are {n_near} queries with a mean cosine of {near['mean']:.2f} to the "
        f"nearest training query by {encoder}, far {n_far} with {far['mean']:.2f}."
    )


def _of_power(first: pd.Series, n_compared: int) -> str:
    """Return the warning that there are too few queries for the first lead to find LOSS."""
    points = _times_100(first["detects"])
    share = 100 * first["detects"] / first["own_near"]
    loss = f"{100 * LOSS:.0f} %"
    needed = first["needed"]
    return (
        f"Few queries: {n_compared:,} find {points} points with 80 % power, "
        f"{share:.0f} % of what {first['system']} has on near queries. "
        f"The {loss} that training without near queries costs (Zhan et al.) would need {needed:,}."
    )


def limits(systems: Systems) -> str:
    """Return the sentence of what cannot be said."""
    limits = (
        "What cannot be said: that the training queries are the cause. Near queries may be easier "
        "for models of this kind, whatever they were trained on"
    )
    if systems.control:
        return (
            f"{limits}: for that stands {systems.control}, if it differs from the model in its "
            "training queries alone and has seen none near to the test queries."
        )
    return (
        f"{limits}. A rival of the same kind that has not seen the training queries tells that: "
        "give it as control."
    )
