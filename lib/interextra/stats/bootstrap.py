"""The bootstrap behind all tables: seeded resamples of units, their means, and intervals.

A *unit* is what is drawn: a query, or several queries that belong together. A *resample* is as
many units as there are, drawn with replacement. The *draws* of an estimate are its values on all
resamples, float[n_boot]. Taught in notebooks/02_restrain.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from scipy import stats

Seed = int | tuple[int, ...]  # of numpy's generator

NORMAL = stats.norm.ppf(0.975)  # standard deviations from the middle of a 95 % interval to its end
BLOCK = 250_000  # counts of a block of resamples held at once: they stay in the cache of a core


def seed_of(seed: int, names: Iterable[object]) -> tuple[int, int]:
    """Return the seed of the draws of the units with these names, in whatever order.

    Other units have other draws.

    Examples
    --------
    >>> seed_of(1, ["q2", "q1"]) == seed_of(1, ["q1", "q2"]) != seed_of(1, ["q1", "q3"])
    True
    """
    text = "\0".join(sorted(map(str, names)))
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return seed, int.from_bytes(digest)


def resamples(n: int, seed: Seed, n_boot: int) -> Iterator[np.ndarray]:
    """Yield blocks of resamples, float32[block, n]: how often each of n units was drawn."""
    random = np.random.default_rng(seed)
    block = max(1, BLOCK // n)
    for start in range(0, n_boot, block):
        shape = (min(block, n_boot - start), n)
        drawn = random.integers(n, size=shape, dtype=np.int32)
        # each resample has n bins of its own, so that one call counts the whole block
        first_bins = n * np.arange(len(drawn))
        bins = drawn + first_bins[:, None]
        counts = np.bincount(bins.ravel(), minlength=drawn.size)
        yield counts.reshape(shape).astype(np.float32)


def resampled_means(
    tables: Sequence[np.ndarray],
    units: np.ndarray,
    seed: Seed,
    n_boot: int,
) -> list[np.ndarray]:
    """Return the means over the queries of several tables on the same resamples.

    Tables are multiplied one by one: in one product the last digit of a mean would depend on what
    stands beside it.

    Parameters
    ----------
    tables : float[n_queries, …] each.
    units : int[n_queries], the unit of each query; it is drawn with all its queries.
    seed : of numpy's generator, see `seed_of`.
    n_boot : number of resamples.

    Returns
    -------
    list of float[n_boot, …], one a table.
    """
    unit_sizes = np.bincount(units).astype(float)
    unit_sums = [_sums_of_units(table, units) for table in tables]
    blocks = []
    for block in resamples(len(unit_sizes), seed, n_boot):
        counts = block.astype(float)
        n_drawn = (counts @ unit_sizes)[:, None]
        blocks.append([counts @ sums / n_drawn for sums in unit_sums])
    means = map(np.concatenate, zip(*blocks, strict=True))
    shapes = [(n_boot, *table.shape[1:]) for table in tables]
    return list(map(np.reshape, means, shapes))


def _sums_of_units(table: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return the sums of a table over the queries of each unit, float[n_units, columns]."""
    columns = table.reshape(len(units), -1).T
    sums = [np.bincount(units, column) for column in columns]
    return np.stack(sums, axis=1)


def stretched(draws: np.ndarray, estimate: float, degrees_of_freedom: float) -> np.ndarray:
    """Return the draws, moved as far from the estimate as few units ask for.

    One rule for every number of units; a simulation chose it (`tools/simulation.py`). Deviations
    to each side are multiplied by Student's quantile over the normal one, or by more where the
    middle 95 % of the draws would still end within Student's interval, as they do for values most
    of which are 0. Without degrees of freedom (0) the draws are undefined (NaN).
    """
    if degrees_of_freedom <= 0:
        return np.full(len(draws), np.nan)
    if not varies(draws):
        return draws
    student = stats.t.ppf(0.975, degrees_of_freedom)
    least = student / NORMAL
    reach = student * draws.std()
    low, high = np.quantile(draws, [0.025, 0.975])
    factor_below = np.fmax(least, ratio(reach, estimate - low))
    factor_above = np.fmax(least, ratio(reach, high - estimate))
    deviations = draws - estimate
    factors = np.where(deviations < 0, factor_below, factor_above)
    return estimate + factors * deviations


def interval(draws: np.ndarray) -> tuple[float, float]:
    """Return the ends of the middle 95 % of the draws, outward to values that were drawn.

    Undefined (NaN) if a draw is, or if none varies: where all queries differ by the same,
    resampling them says nothing of others, and that is no certainty.
    """
    if not varies(draws):
        return float("nan"), float("nan")
    low = np.quantile(draws, 0.025, method="lower")
    high = np.quantile(draws, 0.975, method="higher")
    return float(low), float(high)


def varies(draws: np.ndarray) -> np.ndarray:
    """Return whether draws float[..., n_boot] differ by more than rounding does.

    They do not where one of them is undefined.
    """
    spread = np.ptp(draws, axis=-1)
    largest = np.abs(draws).max(axis=-1)
    return spread > 1e-12 * np.maximum(1.0, largest)


def simultaneous(
    estimates: np.ndarray,
    draws: np.ndarray,
    level: float = 0.95,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and the upper ends of simultaneous confidence intervals of a family of rows.

    Balanced max-t: each row reaches as far as a share of its own deviations from the estimate
    does, the same share for all rows, such that in `level` of the draws no row deviates more.
    Ranks, not standard deviations, are compared, as draws with the noise of two or three trainings
    have heavy tails; only where there are too few draws for the ranks of so many rows, standard
    deviations are. A row has no interval (NaN) if a draw is undefined, or if none varies.

    Parameters
    ----------
    estimates : float[rows].
    draws : float[rows, n_boot].
    level : of the family.

    Returns
    -------
    float[rows] and float[rows].
    """
    estimates = np.asarray(estimates, float)
    known = varies(draws) & np.isfinite(estimates)
    reach = np.full(len(estimates), np.nan)
    if known.any():
        deviations = np.abs(draws[known] - estimates[known, None])
        n_rows, n_boot = deviations.shape
        if n_rows > (1 - level) * n_boot:
            spread = draws[known].std(axis=1)
            reach[known] = _reach_by_spread(deviations, spread, level)
        else:
            reach[known] = _reach_by_ranks(deviations, level)
    return estimates - reach, estimates + reach


def _reach_by_spread(deviations: np.ndarray, spread: np.ndarray, level: float) -> np.ndarray:
    """Return how far each row reaches: the same number of its standard deviations for all rows."""
    largest = (deviations / spread[:, None]).max(axis=0)
    return spread * np.quantile(largest, level)


def _reach_by_ranks(deviations: np.ndarray, level: float) -> np.ndarray:
    """Return how far each row reaches: the same quantile of its deviations for all rows."""
    n_boot = deviations.shape[1]
    ranks = stats.rankdata(deviations, method="min", axis=1)  # ties, such as all equal, rank low
    largest = ranks.max(axis=0)
    rank = np.quantile(largest, level, method="higher")
    share = (rank - 1) / (n_boot - 1)
    return np.quantile(deviations, share, axis=1, method="higher")


def ratio(
    numerator: np.ndarray | float,
    denominator: np.ndarray | float,
) -> np.ndarray:
    """Return numerator / denominator, NaN where the denominator is 0."""
    numerator = np.asarray(numerator, float)
    denominator = np.asarray(denominator, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(denominator != 0, numerator / denominator, np.nan)
