"""What fine-tuning gains over the model before it, in both regimes, and how much of it is kept.

Does fine-tuning help on new queries, or only on queries like the training queries?
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from interextra.own.sentences import gain_sentence
from interextra.splits.split import REGIMES
from interextra.stats.bootstrap import interval, ratio
from interextra.stats.effects import Effects, effects

INTERPOLATION, EXTRAPOLATION = REGIMES
# A side of the changes → its name among their draws
SIDES = {INTERPOLATION: "first", EXTRAPOLATION: "second"}


class Gains(NamedTuple):
    """What fine-tuning gains, as tables; without rows where the model before it is unknown."""

    # measure, regime, gain over the model before fine-tuning, low, high, n_queries
    gains: pd.DataFrame = pd.DataFrame()
    # measure, share of the gain in interpolation that is kept in extrapolation, low, high; NaN
    # where a gain in interpolation is not shown
    kept: pd.DataFrame = pd.DataFrame()

    def sentence(self, measure: str) -> str:
        """Return what is gained by one measure, and how much of it is kept."""
        of_measure = self.gains[self.gains["measure"] == measure]
        rows = of_measure.set_index("regime").to_dict("index")
        [kept] = self.kept[self.kept["measure"] == measure].to_dict("records")
        return gain_sentence(rows, kept, measure)


def gains_of(changes: Effects, given: pd.DataFrame, bootstrap: Mapping[str, Any]) -> Gains:
    """Compare the fine-tuned models with the one before fine-tuning, on the draws of the changes.

    Parameters
    ----------
    changes : Effects
        A row a measure: the change between the regimes on all test queries.
    given : DataFrame
        Values of the model before fine-tuning on the same queries: query_id, measure, value.
    bootstrap
        seed and n_boot, those of the changes.
    """
    before = effects(given, ["measure"], **bootstrap).set_index("measure")
    gains = []
    kept = []
    for place, row in enumerate(changes.to_dict("records")):
        measure = row["measure"]
        of_given = before.loc[measure]
        draws = {}
        estimates = {}
        for regime, side in SIDES.items():
            drawn = changes.drawn(side)[place] - of_given["draws"].effect
            estimates[regime] = row[regime] - of_given["mean"]
            low, high = interval(drawn)
            gains.append((measure, regime, estimates[regime], low, high, row["n_queries"]))
            draws[regime] = drawn
        kept.append((measure, *_share_kept(estimates, draws)))
    return Gains(
        pd.DataFrame(gains, columns=["measure", "regime", "gain", "low", "high", "n_queries"]),
        pd.DataFrame(kept, columns=["measure", "share", "low", "high"]),
    )


def _share_kept(
    gains: Mapping[str, float], draws: Mapping[str, np.ndarray]
) -> tuple[float, float, float]:
    """Return the share of the gain that is kept, with its interval.

    It is undefined (NaN) where a gain in interpolation is not shown: its interval includes 0, or
    lies below it.
    """
    low, _ = interval(draws[INTERPOLATION])
    if not low > 0:
        return np.nan, np.nan, np.nan
    share = gains[EXTRAPOLATION] / gains[INTERPOLATION]
    low, high = interval(ratio(draws[EXTRAPOLATION], draws[INTERPOLATION]))
    return share, low, high
