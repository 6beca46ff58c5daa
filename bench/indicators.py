"""R(q, T) in closed form beside the mean of all pairs, and bootstrapped tau-b beside a loop of
scipy's.

6,200 test queries, 100,000 training queries, 768 dimensions, vectors of length 1; the pairs are
made in blocks, so that memory holds the vectors and one block. Then tau-b of 12 predictors with 3
targets on resamples of 1,500 queries: all of them at once, and a loop over the first few, whose
time is scaled up. Ends with an error if R or tau differs by 1e-6 or more, or the closed form is
less than 100 times as fast; with --small times are not judged.

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

DIMENSIONS, SEED = 768, 0
AT_LEAST, TOLERANCE = 100, 1e-6
N_QUERIES, N_BOOT, N_PREDICTORS, N_TARGETS, N_LOOPED = 1500, 500, 12, 3, 20


def unit_vectors(rng: np.random.Generator, n: int) -> np.ndarray:
    """Vectors of length 1 around a common direction, as those of a trained encoder are: float32[n,
    768].
    """
    made = rng.standard_normal((n, DIMENSIONS), np.float32)
    made += 1
    made /= np.sqrt(np.einsum("ij,ij->i", made, made))[
        :, None
    ]  # without a copy, which would hide the peak below
    return made


def timed(work: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts KiB


def mean_score(n_test: int, n_train: int, at_least: int) -> bool:
    rng = np.random.default_rng(SEED)
    test, train = unit_vectors(rng, n_test), unit_vectors(rng, n_train)
    before = peak_mb()
    closed_seconds, closed = min(
        (timed(lambda: mean_similarity(test, train)) for _ in range(3)), key=lambda x: x[0]
    )
    blocks = np.array_split(test, max(1, n_test * n_train // 2**24))
    pair_seconds, pairs = timed(
        lambda: np.concatenate([(block @ train.T).mean(axis=1) for block in blocks])
    )
    difference, times = float(np.abs(closed - pairs).max()), pair_seconds / closed_seconds
    print(f"R of {n_test:,} test and {n_train:,} training queries, {DIMENSIONS} dimensions")
    print(
        f"closed form {closed_seconds:.3f} s (best of 3), all pairs {pair_seconds:.1f} s: {times:.0f} times as fast"
    )
    print(
        f"largest difference {difference:.1e}; peak memory {peak_mb():,.0f} MiB, {before:,.0f} before the two"
    )
    return difference < TOLERANCE and times >= at_least


def tau(n_boot: int) -> bool:
    rng = np.random.default_rng(SEED)
    ease = rng.standard_normal((N_QUERIES, 1))
    predictors = (ease + rng.standard_normal((N_QUERIES, N_PREDICTORS))).round(1)  # rounded: ties
    targets = (ease + rng.standard_normal((N_QUERIES, N_TARGETS))).clip(0)
    counts = np.concatenate(list(resamples(N_QUERIES, SEED, n_boot)))  # [n_boot, n]
    seconds, ours = timed(lambda: kendall_draws(predictors, targets, counts.T))
    drawn = counts[:N_LOOPED].astype(int)

    def loop() -> np.ndarray:
        rows = [np.repeat(np.arange(N_QUERIES), counts) for counts in drawn]
        pairs = [(predictors[own].T, targets[own].T) for own in rows]
        return np.array(
            [[[stats.kendalltau(a, b).statistic for b in y] for a in x] for x, y in pairs]
        )

    loop_seconds, theirs = timed(loop)
    loop_seconds *= n_boot / N_LOOPED
    difference = float(np.abs(ours[:N_LOOPED] - theirs).max())
    print(
        f"\ntau-b of {N_PREDICTORS} x {N_TARGETS} columns on {n_boot} resamples of {N_QUERIES:,} queries"
    )
    print(
        f"at once {seconds:.2f} s, a loop of scipy's {loop_seconds:.1f} s (from {N_LOOPED} resamples)"
    )
    print(f"largest difference {difference:.1e}")
    return difference < TOLERANCE


def main(n_test: int, n_train: int, n_boot: int, at_least: int) -> int:
    good = [mean_score(n_test, n_train, at_least), tau(n_boot)]
    verdict = f"{'at least' if good[0] else 'NOT'} {at_least} times as fast and below {TOLERANCE}"
    print(f"\nR: {verdict}; tau-b {'equal' if good[1] else 'DIFFERS'}")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(
        main(200, 2000, N_LOOPED, 0)
        if "--small" in sys.argv
        else main(6200, 100_000, N_BOOT, AT_LEAST)
    )
