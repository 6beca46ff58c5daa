"""Statistics over queries, all resamples at once, beside scipy's one by one; and R in closed form."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from .form import SEED, Case, DifferentError, Peer, Sizes, equal_within, unit_vectors

ALL_PAIRS = 10  # times as long as the closed form, at 24,000 training queries
DIMENSIONS = 768
# of the effects
N_SYSTEMS = 5
N_QUERIES = 1521
WIDEST = 0.05  # difference of an end of an interval, of other draws
# of the correlations, as in notebook 08
N_POINTS = 187
N_GROUPS = 112
OF_SCIPY = {"Spearman": stats.spearmanr, "Kendall": stats.kendalltau, "Pearson": stats.pearsonr}
# of tau-b
N_VALUES = 1500
N_PREDICTORS = 12
N_TARGETS = 3


def effects_ours(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Return the low ends of the intervals of five systems by the kit."""
    from interextra.stats.effects import effects

    sides = ("in", "out")
    levels = {"model": range(N_SYSTEMS), "side": sides, "query_id": range(N_QUERIES)}
    index = pd.MultiIndex.from_product(levels.values(), names=levels)
    values = pd.DataFrame({"value": two_sides().ravel()}, index=index)
    tidy = values.reset_index()

    def work() -> np.ndarray:
        """Return the low ends."""
        table = effects(tidy, ["model"], "side", sides, "delta", family=[], n_boot=n)
        return table["low"].to_numpy()

    return work


def two_sides() -> np.ndarray:
    """Return values float64[systems, 2, queries]."""
    return np.random.default_rng(SEED).random((N_SYSTEMS, 2, N_QUERIES))


def relative_change(first: np.ndarray, second: np.ndarray, axis: int) -> np.ndarray:
    """Return the relative change of the mean from the first side to the second."""
    return second.mean(axis) / first.mean(axis) - 1


def effects_scipy(n: int, folder: Path) -> Callable[[], list[float]]:
    """Return them by scipy's bootstrap."""
    values = two_sides()
    options = {
        "paired": True,
        "n_resamples": n,
        "method": "percentile",
        "vectorized": True,
        "batch": 500,
    }

    def work() -> list[float]:
        """Return the low ends."""
        results = [stats.bootstrap(pair, relative_change, **options) for pair in values]
        return [result.confidence_interval.low for result in results]

    return work


def points(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two columns, and how often each point is drawn, float[n, points]."""
    from interextra.stats.correlation import drawn_groups

    rng = np.random.default_rng(SEED)
    x = rng.random(N_POINTS)
    y = x + rng.random(N_POINTS)
    group = rng.integers(N_GROUPS, size=N_POINTS)
    return x, y, drawn_groups(group, 1, n)


def correlations_ours(n: int, folder: Path) -> Callable[[], list[np.ndarray]]:
    """Return three kinds of correlation of each resample by the kit."""
    from interextra.stats.correlation import correlations

    x, y, counts = points(n)
    return lambda: [correlations(x, y, counts, method) for method in OF_SCIPY]


def correlations_scipy(n: int, folder: Path) -> Callable[[], list[list[float]]]:
    """Return them by scipy, which gets each drawn point as often as it was drawn."""
    x, y, counts = points(n)

    def work() -> list[list[float]]:
        """Return the correlations of each kind."""
        of_kinds = []
        for correlation in OF_SCIPY.values():
            values = []
            for times in counts.astype(int):
                drawn = correlation(np.repeat(x, times), np.repeat(y, times))
                values.append(drawn.statistic)
            of_kinds.append(values)
        return of_kinds

    return work


def tau_data(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return predictors, targets, and how often each query is drawn, float[n, queries]."""
    from interextra.stats.bootstrap import resamples

    rng = np.random.default_rng(SEED)
    ease = rng.standard_normal((N_VALUES, 1))
    predictors = (ease + rng.standard_normal((N_VALUES, N_PREDICTORS))).round(1)  # rounded: ties
    targets = (ease + rng.standard_normal((N_VALUES, N_TARGETS))).clip(0)
    counts = np.concatenate(list(resamples(N_VALUES, SEED, n)))
    return predictors, targets, counts


def tau_ours(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Return tau-b of each resample, predictor and target by the kit."""
    from interextra.stats.correlation import kendall_draws

    predictors, targets, counts = tau_data(n)
    return lambda: kendall_draws(predictors, targets, counts.T)


def tau_scipy(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Return it by scipy, one by one."""
    predictors, targets, counts = tau_data(n)

    def work() -> np.ndarray:
        """Return float64[n, predictors, targets]."""
        taus = np.empty((n, N_PREDICTORS, N_TARGETS))
        for draw, times in enumerate(counts.astype(int)):
            rows = np.repeat(np.arange(N_VALUES), times)
            for first, predictor in enumerate(predictors[rows].T):
                for second, target in enumerate(targets[rows].T):
                    taus[draw, first, second] = stats.kendalltau(predictor, target).statistic
        return taus

    return work


def n_test(n: int) -> int:
    """Return so many test queries: 6,200 at 100,000 training queries."""
    return max(10, round(0.062 * n))


def similarity_ours(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Return R(q, T) of each test query by the kit."""
    from interextra.measures.indicators import mean_similarity

    test = unit_vectors(n_test(n), DIMENSIONS, SEED + 1)
    train = unit_vectors(n, DIMENSIONS)
    return lambda: mean_similarity(test, train)


def similarity_pairs(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Return it as the mean of all pairs, made in blocks."""
    test = unit_vectors(n_test(n), DIMENSIONS, SEED + 1)
    train = unit_vectors(n, DIMENSIONS)
    n_blocks = 1 + len(test) * n // 2**24
    blocks = np.array_split(test, n_blocks)

    def work() -> np.ndarray:
        """Return the means."""
        means = [(block @ train.T).mean(axis=1) for block in blocks]
        return np.concatenate(means)

    return work


def near_intervals(ours: np.ndarray, theirs: list[float]) -> str:
    """Compare ends of intervals of other draws."""
    difference = float(np.abs(ours - theirs).max())
    sentence = f"largest difference of an end of an interval {difference:.4f} (other draws)"
    if difference > WIDEST:
        raise DifferentError(sentence)
    return sentence


# what is imported once, before processes start
IMPORTS = ("scipy.stats", "interextra.stats.effects")
CASES = [
    Case(
        "intervals of 5 effects",
        "resamples of 1,521 queries",
        Sizes(100, 10_000, 10_000),
        effects_ours,
        {"scipy": Peer(effects_scipy)},
        near_intervals,
    ),
    Case(
        "three kinds of correlation",
        "resamples of 187 points",
        Sizes(20, 2000, 10_000),
        correlations_ours,
        {"scipy": Peer(correlations_scipy)},
        equal_within(1e-6),
    ),
    Case(
        "tau-b of 36 pairs of columns",
        "resamples of 1,500 queries",
        Sizes(2, 40, 500),
        tau_ours,
        {"scipy": Peer(tau_scipy)},
        equal_within(1e-6),
    ),
    Case(
        "R(q, T), mean similarity",
        "training queries, 6.2% as many test queries",
        Sizes(1000, 24_000, 100_000),
        similarity_ours,
        {"all pairs": Peer(similarity_pairs, least=ALL_PAIRS)},
        equal_within(1e-6),
    ),
]
