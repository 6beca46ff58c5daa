"""Measure the search for near-duplicate queries: seconds and memory at the size of MS MARCO.

7,000 test queries against 500,000 training queries, of words as frequent as those of questions
(Zipf); every tenth test query is a training query with its words in another order. Run: python
bench/near_duplicates.py [--small]
"""

import resource
import sys
import time

import numpy as np

from interextra.overlap.near import near_pairs

N_WORDS = 200_000
SHARES = (0.8, 0.6)


def queries(rng: np.random.Generator, n: int) -> list[str]:
    """Return queries of two to ten words."""
    ranks = np.arange(1, N_WORDS + 1)
    chances = 1 / (ranks + 5)
    lengths = rng.integers(2, 11, n)
    drawn = rng.choice(N_WORDS, lengths.sum(), p=chances / chances.sum())
    ends = np.cumsum(lengths)
    texts = np.split(drawn, ends[:-1])
    return [" ".join(f"w{number}" for number in numbers) for numbers in texts]


def main(n_train: int, n_test: int) -> None:
    """Print a line for each share of common words."""
    rng = np.random.default_rng(5)
    train = queries(rng, n_train)
    test = queries(rng, n_test)
    planted = range(0, n_test, 10)
    for row in planted:
        words = train[row].split()
        test[row] = " ".join(words[::-1])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts KiB
    for near in SHARES:
        begin = time.perf_counter()
        pairs = near_pairs(train, test, near)
        seconds = time.perf_counter() - begin
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        n_found = len(set(planted) & set(pairs["test"]))
        print(
            f"{n_test:,} against {n_train:,} queries at {near:g}: {seconds:.1f} s, "
            f"{peak:,.0f} MiB ({before:,.0f} before), {len(pairs):,} pairs, "
            f"{n_found} of {len(planted)} planted"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--small"]:
        main(5_000, 100)
    else:
        main(500_000, 7_000)
