"""Time R(q, T) in closed form, and bootstrapped tau-b, beside plain computations of both.

R beside the mean of all pairs: 6,200 test queries, 100,000 training queries, 768 dimensions,
vectors of length 1; the pairs are made in blocks, so that memory holds the vectors and one block.
Then tau-b of 12 predictors with 3 targets on resamples of 1,500 queries: all of them at once, and a
loop of scipy's over the first few, whose time is scaled up. Ends with an error if R or tau differs
by 1e-6 or more, or the closed form is less than 100 times as fast; with --small times are not
judged.

    python bench/indicators.py [--small]
"""

import os
import resource
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import stats

from interextra.measures.indicators import mean_similarity
from interextra.stats.bootstrap import resamples
from interextra.stats.correlation import kendall_draws

DIMENSIONS = 768
SEED = 0
AT_LEAST = 100  # times as fast
TOLERANCE = 1e-6
# of tau-b
N_QUERIES = 1500
N_BOOT = 500
N_PREDICTORS = 12
N_TARGETS = 3
N_LOOPED = 20  # resamples of the loop


def unit_vectors(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return float32[n, 768] around a common direction, as those of a trained encoder are."""
    vectors = rng.standard_normal((n, DIMENSIONS), np.float32)
    vectors += 1
    # without a copy, which would hide the peak below
    vectors /= np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    return vectors


def timed(work: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    """Return the seconds of some work, and its result."""
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def peak_mb() -> float:
    """Return the peak memory of the process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts KiB


def mean_score(n_test: int, n_train: int, at_least: int) -> bool:
    """Print both ways to R; return whether they agree, and the closed form is fast enough."""
    rng = np.random.default_rng(SEED)
    test = unit_vectors(rng, n_test)
    train = unit_vectors(rng, n_train)
    blocks = np.array_split(test, max(1, n_test * n_train // 2**24))

    def all_pairs() -> np.ndarray:
        """Return R as the mean of all pairs."""
        return np.concatenate([(block @ train.T).mean(axis=1) for block in blocks])

    before = peak_mb()
    trials = [timed(lambda: mean_similarity(test, train)) for _ in range(3)]
    closed_seconds = min(seconds for seconds, _ in trials)
    pair_seconds, pairs = timed(all_pairs)
    difference = float(np.abs(trials[0][1] - pairs).max())
    times = pair_seconds / closed_seconds
    print(
        f"R of {n_test:,} test and {n_train:,} training queries, {DIMENSIONS} dimensions\n"
        f"closed form {closed_seconds:.3f} s (best of 3), all pairs {pair_seconds:.1f} s: "
        f"{times:.0f} times as fast\n"
        f"largest difference {difference:.1e}; peak memory {peak_mb():,.0f} MiB, "
        f"{before:,.0f} before the two"
    )
    return difference < TOLERANCE and times >= at_least


def tau(n_boot: int) -> bool:
    """Print both ways to tau-b; return whether they agree."""
    rng = np.random.default_rng(SEED)
    ease = rng.standard_normal((N_QUERIES, 1))
    predictors = (ease + rng.standard_normal((N_QUERIES, N_PREDICTORS))).round(1)  # rounded: ties
    targets = (ease + rng.standard_normal((N_QUERIES, N_TARGETS))).clip(0)
    counts = np.concatenate(list(resamples(N_QUERIES, SEED, n_boot)))  # [n_boot, n]
    seconds, ours = timed(lambda: kendall_draws(predictors, targets, counts.T))
    looped = counts[:N_LOOPED].astype(int)
    loop_seconds, theirs = timed(lambda: looped_tau(predictors, targets, looped))
    loop_seconds *= n_boot / N_LOOPED
    difference = float(np.abs(ours[:N_LOOPED] - theirs).max())
    print(
        f"\ntau-b of {N_PREDICTORS} x {N_TARGETS} columns on {n_boot} resamples of "
        f"{N_QUERIES:,} queries\n"
        f"at once {seconds:.2f} s, a loop of scipy's {loop_seconds:.1f} s "
        f"(from {N_LOOPED} resamples)\n"
        f"largest difference {difference:.1e}"
    )
    return difference < TOLERANCE


def looped_tau(predictors: np.ndarray, targets: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return tau-b of scipy, float[n_boot, n_predictors, n_targets], one by one."""
    taus = np.empty((len(counts), predictors.shape[1], targets.shape[1]))
    for draw, times in enumerate(counts):
        rows = np.repeat(np.arange(len(times)), times)
        for first, predictor in enumerate(predictors[rows].T):
            for second, target in enumerate(targets[rows].T):
                taus[draw, first, second] = stats.kendalltau(predictor, target).statistic
    return taus


def main(n_test: int, n_train: int, n_boot: int, at_least: int) -> int:
    """Run both; return 1 if one of them is not as it should be."""
    is_fast = mean_score(n_test, n_train, at_least)
    is_equal = tau(n_boot)
    speed = "at least" if is_fast else "NOT"
    equality = "equal" if is_equal else "DIFFERS"
    print(f"\nR: {speed} {at_least} times as fast and below {TOLERANCE}; tau-b {equality}")
    return 0 if is_fast and is_equal else 1


if __name__ == "__main__":
    if "--small" in sys.argv:
        sys.exit(main(200, 2000, N_LOOPED, 0))
    sys.exit(main(6200, 100_000, N_BOOT, AT_LEAST))
