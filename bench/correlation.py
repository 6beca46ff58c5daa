"""Correlations of all resamples at once beside scipy, resample by resample: seconds for one row of
a table.

187 points in 112 groups as in notebook 08; scipy gets each drawn point as often as it was drawn.
Run: python bench/correlation.py [--small]
"""

import sys
import time

import numpy as np
from scipy import stats

from interextra.stats.correlation import correlations, drawn_groups

POINTS, GROUPS, RESAMPLES = 187, 112, 2_000
THEIRS = {"Spearman": stats.spearmanr, "Kendall": stats.kendalltau, "Pearson": stats.pearsonr}


def main(n_boot: int) -> None:
    random = np.random.default_rng(1)
    x = random.random(POINTS)
    y = x + random.random(POINTS)
    counts = drawn_groups(random.integers(GROUPS, size=POINTS), 1, n_boot)
    for method, of_one in THEIRS.items():
        begin = time.perf_counter()
        ours = correlations(x, y, counts, method)
        seconds, begin = time.perf_counter() - begin, time.perf_counter()
        times = counts.astype(int)
        theirs = [of_one(np.repeat(x, row), np.repeat(y, row)).statistic for row in times]
        print(
            f"{method}, {n_boot:,} resamples: {seconds:.2f} s, scipy {time.perf_counter() - begin:.2f} s; "
            f"largest difference {np.abs(ours - theirs).max():.1e}"
        )


if __name__ == "__main__":
    main(50 if "--small" in sys.argv else RESAMPLES)
