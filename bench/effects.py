"""The table of effects beside scipy's bootstrap, run row by row: seconds for the tables of one
notebook.

Twenty systems on 1,521 queries, 10,000 resamples. Run: python bench/effects.py [--small]
"""

import sys
import time

import numpy as np
import pandas as pd
from scipy import stats

from interextra.stats.effects import effects

SYSTEMS, QUERIES, RESAMPLES = 20, 1521, 10_000


def main(n_boot: int) -> None:
    values = np.random.default_rng(1).random((SYSTEMS, 2, QUERIES))
    index = pd.MultiIndex.from_product(
        [range(SYSTEMS), ["in", "out"], range(QUERIES)], names=["model", "side", "query_id"]
    )
    tidy = pd.DataFrame({"value": values.ravel()}, index=index).reset_index()
    begin = time.perf_counter()
    table = effects(tidy, ["model"], "side", ("in", "out"), "delta", family=[], n_boot=n_boot)
    ours, begin = time.perf_counter() - begin, time.perf_counter()
    options = {
        "paired": True,
        "n_resamples": n_boot,
        "method": "percentile",
        "vectorized": True,
        "batch": 500,
    }
    delta = [
        stats.bootstrap(
            pair, lambda a, b, axis: b.mean(axis) / a.mean(axis) - 1, **options
        ).confidence_interval
        for pair in values
    ]
    theirs = time.perf_counter() - begin
    apart = max(
        abs(row.low - found.low) for row, found in zip(table.itertuples(), delta, strict=True)
    )
    print(
        f"{SYSTEMS} systems × {QUERIES} queries: effects {ours:.1f} s, scipy.stats.bootstrap {theirs:.1f} s"
    )
    print(f"largest difference of an end of an interval: {apart:.4f} (other draws)")


if __name__ == "__main__":
    main(100 if "--small" in sys.argv else RESAMPLES)
