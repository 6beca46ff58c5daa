"""Time the table of effects beside scipy's bootstrap, run row by row.

Seconds for the tables of one notebook: twenty systems on 1,521 queries, 10,000 resamples. Run:
python bench/effects.py [--small]
"""

import sys
import time

import numpy as np
import pandas as pd
from scipy import stats

from interextra.stats.effects import effects

N_SYSTEMS = 20
N_QUERIES = 1521
N_BOOT = 10_000


def relative_change(first: np.ndarray, second: np.ndarray, axis: int) -> np.ndarray:
    """Return the relative change of the mean from the first side to the second."""
    return second.mean(axis) / first.mean(axis) - 1


def main(n_boot: int) -> None:
    """Print seconds, and how far the intervals are apart."""
    values = np.random.default_rng(1).random((N_SYSTEMS, 2, N_QUERIES))
    levels = {"model": range(N_SYSTEMS), "side": ["in", "out"], "query_id": range(N_QUERIES)}
    index = pd.MultiIndex.from_product(levels.values(), names=levels)
    tidy = pd.DataFrame({"value": values.ravel()}, index=index).reset_index()

    begin = time.perf_counter()
    table = effects(tidy, ["model"], "side", ("in", "out"), "delta", family=[], n_boot=n_boot)
    our_seconds = time.perf_counter() - begin

    options = {
        "paired": True,
        "n_resamples": n_boot,
        "method": "percentile",
        "vectorized": True,
        "batch": 500,
    }
    begin = time.perf_counter()
    results = [stats.bootstrap(pair, relative_change, **options) for pair in values]
    their_seconds = time.perf_counter() - begin

    their_lows = [result.confidence_interval.low for result in results]
    difference = np.abs(table["low"] - their_lows).max()
    print(
        f"{N_SYSTEMS} systems × {N_QUERIES} queries: effects {our_seconds:.1f} s, "
        f"scipy.stats.bootstrap {their_seconds:.1f} s"
    )
    print(f"largest difference of an end of an interval: {difference:.4f} (other draws)")


if __name__ == "__main__":
    main(100 if "--small" in sys.argv else N_BOOT)
