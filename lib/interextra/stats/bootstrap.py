"""The bootstrap of all tables of the kit: seeds, resamples, and intervals of draws."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy import stats

BLOCK = 250_000  # counts of a block of resamples held at once: they stay in the cache of a core


def seed_of(seed: int, names: Iterable[object]) -> tuple[int, int]:
    """Seed of the draws of the units with these names, in whatever order: other units, other draws.

    >>> seed_of(1, ["q2", "q1"]) == seed_of(1, ["q1", "q2"]) != seed_of(1, ["q1", "q3"])
    True
    """
    text = "\0".join(sorted(map(str, names)))
    return seed, int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def resamples(n: int, seed: Any, n_boot: int) -> Iterator[np.ndarray]:
    """Blocks of float32[b, n]: how often each of n queries is in each of `n_boot` draws of n with
    replacement.
    """
    random, size = np.random.default_rng(seed), max(1, BLOCK // n)
    for start in range(0, n_boot, size):
        drawn = random.integers(n, size=(min(size, n_boot - start), n), dtype=np.int32)
        places = drawn + n * np.arange(len(drawn))[:, None]
        yield (
            np.bincount(places.ravel(), minlength=drawn.size)
            .reshape(drawn.shape)
            .astype(np.float32)
        )


def resampled_means(
    tables: Sequence[np.ndarray], units: np.ndarray, seed: Any, n_boot: int
) -> list[np.ndarray]:
    """Means float[n_boot, columns] of each table float[n_queries, columns] on the same draws.

    units : int[n_queries], which are drawn with all their queries. Tables are multiplied one by
    one: in one product
        the last digit of a mean would depend on what stands beside it.
    """
    sizes = np.bincount(units).astype(float)
    sums = [
        np.stack([np.bincount(units, column) for column in table.T], axis=1) for table in tables
    ]
    blocks: list[list[np.ndarray]] = [[] for _ in tables]
    for counts in resamples(len(sizes), seed, n_boot):
        counts = counts.astype(float)
        n_drawn = (counts @ sizes)[:, None]
        for found, of_units in zip(blocks, sums, strict=True):
            found.append(counts @ of_units / n_drawn)
    return [np.concatenate(found) for found in blocks]


def stretched(draws: np.ndarray, estimate: float, freedom: float) -> np.ndarray:
    """Draws float[n_boot] as far from the estimate as few units ask for: one rule for every number
    of them.

    Deviations to each side are multiplied by Student's quantile over the normal one, or by more
    where the middle 95 % of the draws would still end within Student's interval, as they do for
    values most of which are 0. `freedom`: degrees of freedom; none (0): undefined draws. A
    simulation chose the rule (`tools/simulation.py`).
    """
    if freedom <= 0:
        return np.full(len(draws), np.nan)
    if not varies(draws):
        return draws
    student = stats.t.ppf(0.975, freedom)
    least, reach = student / stats.norm.ppf(0.975), student * draws.std()
    low, high = np.quantile(draws, [0.025, 0.975])
    below = max(least, reach / (estimate - low)) if estimate > low else least
    above = max(least, reach / (high - estimate)) if estimate < high else least
    deviations = draws - estimate
    return estimate + np.where(deviations < 0, below, above) * deviations


def interval(draws: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """The middle `level` of the draws, outward to values that were drawn; undefined if a draw is,
    or if none varies.

    Where all queries differ by the same, resampling them says nothing of others: that is no
    certainty.
    """
    if not varies(draws):
        return float("nan"), float("nan")
    low = np.quantile(draws, (1 - level) / 2, method="lower")
    return float(low), float(np.quantile(draws, (1 + level) / 2, method="higher"))


def varies(draws: np.ndarray) -> np.ndarray:
    """Whether draws float[..., n_boot] differ by more than rounding does; not where one is
    undefined.
    """
    return np.ptp(draws, axis=-1) > 1e-12 * np.maximum(1.0, np.abs(draws).max(axis=-1))


def simultaneous(
    estimates: np.ndarray, draws: np.ndarray, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of simultaneous intervals of this `level`: estimates float[rows], draws float[rows,
    n_boot].

    Balanced max-t: each row reaches as far as a share of its own deviations from the estimate does,
    the same share for all rows, such that in `level` of the draws no row deviates more. Ranks, not
    standard deviations, are compared, as draws with the noise of two or three trainings have heavy
    tails; only where there are too few draws for the ranks of so many rows, standard deviations
    are. A row has no interval if a draw is undefined, or if none varies.
    """
    estimates = np.asarray(estimates, float)
    known = varies(draws) & np.isfinite(estimates)
    reach = np.where(known, 0.0, np.nan)
    far = np.abs(draws[known] - estimates[known, None])
    if known.sum() > (1 - level) * draws.shape[1] > 0:
        spread = draws[known].std(axis=1)
        reach[known] = spread * np.quantile((far / spread[:, None]).max(axis=0), level)
    elif known.any():
        place = stats.rankdata(far, method="min", axis=1).max(
            axis=0
        )  # ties, such as draws all equal, rank low
        share = (np.quantile(place, level, method="higher") - 1) / (draws.shape[1] - 1)
        reach[known] = np.quantile(far, share, axis=1, method="higher")
    return estimates - reach, estimates + reach


def ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Top / bottom, NaN where bottom is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(top, float), np.asarray(bottom, float))
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0)
