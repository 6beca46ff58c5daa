"""Time the correlations of all resamples at once beside scipy, resample by resample.

Seconds for one row of a table: 187 points in 112 groups as in notebook 08; scipy gets each drawn
point as often as it was drawn. Run: python bench/correlation.py [--small]
"""

import sys
import time

import numpy as np
from scipy import stats

from interextra.stats.correlation import correlations, drawn_groups

N_POINTS = 187
N_GROUPS = 112
N_BOOT = 2_000
OF_SCIPY = {"Spearman": stats.spearmanr, "Kendall": stats.kendalltau, "Pearson": stats.pearsonr}


def main(n_boot: int) -> None:
    """Print seconds and the largest difference of each kind of correlation."""
    random = np.random.default_rng(1)
    x = random.random(N_POINTS)
    y = x + random.random(N_POINTS)
    counts = drawn_groups(random.integers(N_GROUPS, size=N_POINTS), 1, n_boot)
    for method, correlation in OF_SCIPY.items():
        begin = time.perf_counter()
        ours = correlations(x, y, counts, method)
        our_seconds = time.perf_counter() - begin
        begin = time.perf_counter()
        theirs = []
        for times in counts.astype(int):
            drawn_x = np.repeat(x, times)
            drawn_y = np.repeat(y, times)
            theirs.append(correlation(drawn_x, drawn_y).statistic)
        their_seconds = time.perf_counter() - begin
        difference = np.abs(ours - theirs).max()
        print(
            f"{method}, {n_boot:,} resamples: {our_seconds:.2f} s, scipy {their_seconds:.2f} s; "
            f"largest difference {difference:.1e}"
        )


if __name__ == "__main__":
    main(50 if "--small" in sys.argv else N_BOOT)
