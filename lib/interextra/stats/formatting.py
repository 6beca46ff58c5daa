"""Effects and their intervals as text for the page."""

import numpy as np
import pandas as pd

from interextra.stats.trainings import ONE_TRAINING, QUERIES, TRAININGS


def spelled(value: float, low: float, high: float, unit: str = "%") -> str:
    """An effect and its interval as text; `unit`: %, points (both times 100) or nothing.

    >>> spelled(0.5, 0.25, 0.75, unit=""), spelled(0.5, 0.25, 0.75, "points"), spelled(0.5, np.nan, np.nan)
    ('+0.50 [+0.25, +0.75]', '+50.0 points [+25.0, +75.0]', '+50.0 % [undefined]')
    """
    text = (lambda part: f"{100 * part:+.1f}") if unit else "{:+.2f}".format
    between = "undefined" if np.isnan(low) else f"{text(low)}, {text(high)}"
    return "undefined" if np.isnan(value) else f"{text(value)} {unit}".rstrip() + f" [{between}]"


def drawn_over(over: pd.Series) -> str:
    """What the intervals of a table are over, in words, of its column `over`.

    >>> drawn_over(pd.Series([ONE_TRAINING, QUERIES]))
    'queries of one training run; where nothing is trained, over queries alone'
    """
    found = set(over.dropna())
    if TRAININGS in found and ONE_TRAINING in found:
        return f"{TRAININGS}; where a system was trained once, or not at all, over queries alone"
    trained = TRAININGS if TRAININGS in found else "queries of one training run"
    if QUERIES in found and len(found) > 1:
        return f"{trained}; where nothing is trained, over queries alone"
    return trained if found & {TRAININGS, ONE_TRAINING} else " or ".join(sorted(found))


def with_interval(
    table: pd.DataFrame,
    effect: str = "delta",
    unit: str = "%",
    low: str = "low",
    high: str = "high",
) -> pd.DataFrame:
    """For the page: an effect with its interval (`low` to `high`, which go) as one text;
    `published` as a percentage.

    >>> with_interval(pd.DataFrame({"delta": [-0.104], "low": [-0.18], "high": [-0.026]}))["delta"].item()
    '-10.4 % [-18.0, -2.6]'
    """
    ends = zip(table[effect], table[low], table[high], strict=True)
    table = table.drop(columns=[low, high]).assign(
        **{effect: [spelled(*row, unit) for row in ends]}
    )
    if "published" in table:
        table["published"] = [
            f"{100 * value:+.0f} %" if np.isfinite(value) else "–" for value in table["published"]
        ]
    return table
