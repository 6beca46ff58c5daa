"""Effects and their intervals as text for the page."""

import numpy as np
import pandas as pd

from interextra.stats.trainings import ONE_TRAINING, QUERIES, TRAININGS


def spelled(value: float, low: float, high: float, unit: str = "%") -> str:
    """Return an effect and its interval as text; `unit`: %, points (both times 100) or nothing.

    Examples
    --------
    >>> spelled(0.5, 0.25, 0.75, unit=""), spelled(0.5, 0.25, 0.75, "points")
    ('+0.50 [+0.25, +0.75]', '+50.0 points [+25.0, +75.0]')
    >>> spelled(0.5, np.nan, np.nan)
    '+50.0 % [undefined]'
    """
    if np.isnan(value):
        return "undefined"
    effect = with_unit(value, unit)
    if np.isnan(low):
        return f"{effect} [undefined]"
    ends = f"{_number(low, unit)}, {_number(high, unit)}"
    return f"{effect} [{ends}]"


def with_unit(value: float, unit: str) -> str:
    """Return an effect as text with its unit, see `spelled`; what rounds to 0 has no sign.

    The ends of an interval keep theirs, which says on which side of 0 they lie.

    Examples
    --------
    >>> with_unit(-0.0004, "%"), with_unit(-0.004, "%"), spelled(-0.0004, -0.0002, 0.0004)
    ('0.0 %', '-0.4 %', '0.0 % [-0.0, +0.0]')
    """
    number = _number(value, unit)
    if not float(number):
        number = number.lstrip("+-")
    return f"{number} {unit}".rstrip()


def _number(value: float, unit: str) -> str:
    """Return a number with its sign, times 100 if it has a unit."""
    return f"{100 * value:+.1f}" if unit else f"{value:+.2f}"


def drawn_over(over: pd.Series) -> str:
    """Return what the intervals of a table are over, in words, of its column `over`.

    Examples
    --------
    >>> drawn_over(pd.Series([ONE_TRAINING, QUERIES]))
    'queries of one training run; where nothing is trained, over queries alone'
    """
    kinds = set(over.dropna())
    if {TRAININGS, ONE_TRAINING} <= kinds:
        return f"{TRAININGS}; where a system was trained once, or not at all, over queries alone"
    if TRAININGS in kinds:
        trained = TRAININGS
    elif ONE_TRAINING in kinds:
        trained = "queries of one training run"
    else:
        return " or ".join(sorted(kinds))
    if QUERIES in kinds:
        return f"{trained}; where nothing is trained, over queries alone"
    return trained


def with_interval(
    table: pd.DataFrame,
    effect: str = "delta",
    unit: str = "%",
    low: str = "low",
    high: str = "high",
) -> pd.DataFrame:
    """Return a table for the page: an effect with its interval in one column.

    The columns of the ends, `low` and `high`, go; `published` becomes a percentage.

    Examples
    --------
    >>> table = pd.DataFrame({"delta": [-0.104], "low": [-0.18], "high": [-0.026]})
    >>> with_interval(table)["delta"].item()
    '-10.4 % [-18.0, -2.6]'
    """
    values = table[[effect, low, high]].to_numpy(float)
    table = table.drop(columns=[low, high])
    table[effect] = [spelled(value, start, end, unit) for value, start, end in values]
    if "published" in table:
        table["published"] = [_percentage(value) for value in table["published"]]
    return table


def _percentage(value: float) -> str:
    """Return a fraction as a percentage, a dash for nothing."""
    return f"{100 * value:+.0f} %" if np.isfinite(value) else "–"
