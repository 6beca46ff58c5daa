"""ReSTrain: keep the test queries, choose the training queries near them or far from them.

Zhan et al., CIKM 2022, §4.1.2. The interpolation set is the union of the top-I training queries of
all test queries, {best rank <= I}; outside that of their top-E is the extrapolation set, {best rank
> E}. So the sets of a regime are nested, and the smaller that of extrapolation, the farther it
lies: random sets in `bands` take both apart. Taught in notebooks/02_restrain.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from interextra.splits.similarity import same_space
from interextra.splits.split import REGIMES, OfVectors, Split
from interextra.store import InputError, Store

BANDS = ("near", "middle", "far")
MATCHES = ("as-released", "exact")
BLOCK = 2**14  # training queries in memory in float64 at a time


class ReSTrain(OfVectors, Split):
    """Training sets of all sizes in both regimes, as seen from the test queries of the vectors.

    Sets: interpolation-SIZE and extrapolation-SIZE; with `draws` also BAND-SIZE-NUMBER (from 0):
    random parts. Files: sets.json, sets.csv (set, n_train, mean_max_similarity), tuned.csv (size,
    I, E), neighbourhood.parquet.
    """

    sizes: tuple[int, ...]  # training queries per regime
    match: str = "exact"  # see `restrain`
    draws: int = 0  # random sets of each size and band of distance
    seed: int = 0  # of these

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        n_train = self.pool.size() if self.pool.source.is_open else None
        for size in self.sizes:
            if self.sizes.count(size) > 1:
                raise InputError(f"sizes: {size} stands twice; keep one of each")
            check_size(size, self.match, n_train)
            if self.draws and n_train:
                check_part(size, n_train // len(BANDS))

    def title(self) -> str:
        """Return what a reader calls the split."""
        sizes = ", ".join(map(str, self.sizes))
        return f"ReSTrain · {self.pool.source.spec} · {sizes} training queries"

    def parts(self) -> tuple[str, ...]:
        """Return the names of the sets: both regimes of each size, then the random ones."""
        regimes = [f"{regime}-{size}" for size in self.sizes for regime in REGIMES]
        random_sets = [
            f"{band}-{size}-{number}"
            for band, size, number in product(BANDS, self.sizes, range(self.draws))
        ]
        return (*regimes, *random_sets)

    def size_of(self, part: str) -> int:
        """Return the number of queries in a set."""
        return int(part.split("-")[1])

    def build(self, folder: Path, store: Store) -> None:
        """Write the files of the split."""
        train, test = self.nonzero_vectors(store)
        space = neighbourhood(test, train)
        tuned = [restrain(space, size, self.match) for size in self.sizes]
        sets = dict(zip(self.parts(), self._rows(space, tuned), strict=True))
        self.write_sets(folder, store, sets)
        pd.DataFrame(vars(space)).to_parquet(folder / "neighbourhood.parquet")
        described = pd.DataFrame(
            {
                "set": list(sets),
                "n_train": [len(rows) for rows in sets.values()],
                "mean_max_similarity": [space.mean_similarity(rows) for rows in sets.values()],
            }
        )
        described.to_csv(folder / "sets.csv", index=False)
        ranks = pd.DataFrame(
            {
                "size": self.sizes,
                "I": [regimes.top_i for regimes in tuned],
                "E": [regimes.top_e for regimes in tuned],
            }
        )
        ranks.to_csv(folder / "tuned.csv", index=False)

    def _rows(self, space: "Neighbourhood", tuned: list["Regimes"]) -> Iterator[np.ndarray]:
        """Yield the rows of each set, in the order of `parts`."""
        for regimes in tuned:
            yield regimes.interpolation
            yield regimes.extrapolation
        for band_number, band_rows in enumerate(bands(space).values()):
            for size, number in product(self.sizes, range(self.draws)):
                seed = (self.seed, number, size, band_number)
                yield random_part(band_rows, size, seed)

    def neighbourhood(self, store: Store) -> "Neighbourhood":
        """Return where the training queries lie as seen from the test queries."""
        frame = pd.read_parquet(store[self] / "neighbourhood.parquet")
        return Neighbourhood(frame["best_rank"].to_numpy(), frame["similarity"].to_numpy())


@dataclass(frozen=True)
class Neighbourhood:
    """Where the training queries lie as seen from the test queries."""

    best_rank: np.ndarray  # int64[n_train], from 1: the lowest rank over the test queries
    similarity: np.ndarray  # float32[n_train]: the highest cosine to any test query

    def mean_similarity(self, rows: np.ndarray) -> float:
        """Return the mean highest cosine to a test query over the training queries `rows`."""
        return float(self.similarity[rows].mean(dtype=np.float64))


@dataclass(frozen=True)
class Regimes:
    """Two disjoint training sets, as sorted rows of the training queries."""

    interpolation: np.ndarray
    extrapolation: np.ndarray
    # I: top-I of every test query are in (match="exact": the last rank may be in only partly)
    top_i: int
    # E: top-E of every test query are out (match="exact": the last rank may be out only partly)
    top_e: int
    interpolation_similarity: float  # mean over the set of the highest cosine to a test query
    extrapolation_similarity: float


def neighbourhood(test: np.ndarray, train: np.ndarray) -> Neighbourhood:
    """Return the best rank and the highest cosine of each training query over all test queries.

    Equally near training queries have different ranks, in their order. So of a training query that
    stands there several times, copies differ in their best rank: where a test query has more than E
    copies among the training queries, those beyond the first E can be in the extrapolation set.

    Parameters
    ----------
    test : float[n_test, d]
        Each test query ranks all training queries.
    train : float[n_train, d]

    Examples
    --------
    >>> neighbourhood([[1, 0], [0, 1]], [[1, 0], [1, .5], [0, 1]]).best_rank.tolist()
    [1, 2, 1]
    """
    test, train = same_space(test, train)
    n_train = len(train)
    best_rank = np.full(n_train, n_train, np.int64)
    similarity = np.full(n_train, -np.inf, np.float32)
    n_rankings = max(1, 2**22 // n_train)  # rankings in memory at a time
    for start in range(0, len(test), n_rankings):
        some_test = test[start : start + n_rankings]
        cosines = _cosines(some_test, train)
        ranks = rankdata(-cosines, method="ordinal", axis=1)
        best_rank = np.minimum(best_rank, ranks.min(axis=0))
        similarity = np.maximum(similarity, cosines.max(axis=0))
    return Neighbourhood(best_rank, similarity)


def _cosines(test: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Return float32[n_test, n_train], from float64, so that equal queries are equally near."""
    test = test.astype(np.float64)
    cosines = np.empty((len(test), len(train)), np.float32)
    for start in range(0, len(train), BLOCK):
        block = slice(start, start + BLOCK)
        some_train = train[block].astype(np.float64)
        cosines[:, block] = test @ some_train.T
    return cosines


def restrain(space: Neighbourhood, size: int, match: str) -> Regimes:
    """Tune I and E to `size` training queries per regime.

    The released interpolation sets are 3.0-4.5 % smaller than the extrapolation sets in queries,
    but only 0.5-0.9 % in qrels rows.

    Parameters
    ----------
    space : Neighbourhood
    size : int
        At most half of the training queries.
    match : {"as-released", "exact"}
        "as-released": whole ranks only, the largest I and the smallest E whose sets have at most
        `size` queries. "exact": precisely `size` queries in both; the border rank is filled by
        similarity (interpolation: the most similar first; extrapolation: the least similar first;
        then by row).

    Raises
    ------
    InputError
        The sets would overlap, or one would be empty.
    """
    n = len(space.best_rank)
    check_size(size, match, n)
    # Training queries from the nearest to the farthest, ties by row. The first ones, up to
    # `end_near`, interpolate, those from `start_far` on extrapolate.
    order = np.lexsort((-space.similarity, space.best_rank))
    ranks = space.best_rank[order]
    if match == "exact":
        end_near, start_far = size, n - size
        top_i = ranks[end_near - 1]
    else:
        end_near, start_far = _whole_ranks(ranks, size)
        top_i = ranks[end_near] - 1
    near = order[:end_near]
    far = order[start_far:]
    return Regimes(
        interpolation=np.sort(near),
        extrapolation=np.sort(far),
        top_i=int(top_i),
        top_e=int(ranks[start_far - 1]),
        interpolation_similarity=space.mean_similarity(near),
        extrapolation_similarity=space.mean_similarity(far),
    )


def _whole_ranks(ranks: np.ndarray, size: int) -> tuple[int, int]:
    """Return `end_near` and `start_far` of `restrain` where only whole ranks are taken."""
    first_out = ranks[size]
    end_near = int(np.searchsorted(ranks, first_out, side="left"))
    last_out = ranks[len(ranks) - size - 1]
    start_far = int(np.searchsorted(ranks, last_out, side="right"))
    if end_near == 0 or start_far == len(ranks):
        first_rank = ranks[0] if end_near == 0 else ranks[-1]
        n_queries = (ranks == first_rank).sum()
        raise InputError(
            f"size {size}: an empty set, as its first rank alone has {n_queries}; "
            "use that, or match='exact'"
        )
    return end_near, start_far


def check_size(size: int, match: str, n_train: int | None) -> None:
    """Refuse arguments of `restrain` that no `n_train` training queries (None: unknown) allow."""
    if match not in MATCHES:
        raise InputError(f"unknown match {match!r}: one of {', '.join(MATCHES)}")
    if n_train and not 1 <= size <= n_train // 2:
        raise InputError(
            f"size {size}: two sets of {n_train} training queries that don't overlap have "
            f"1 to {n_train // 2}"
        )


def check_part(size: int, n_train: int) -> None:
    """Refuse a random part of `size` that cannot be drawn from `n_train` training queries."""
    if not 0 < size <= n_train:
        raise InputError(
            f"a random part: {size} of {n_train} training queries; use a size of 1 to {n_train}"
        )


def random_part(rows: np.ndarray, size: int, seed: int | tuple[int, ...]) -> np.ndarray:
    """Draw `size` of the training queries `rows`, sorted."""
    check_part(size, len(rows))
    rng = np.random.default_rng(seed)
    return np.sort(rng.choice(rows, size, replace=False))


def bands(space: Neighbourhood) -> dict[str, np.ndarray]:
    """Divide all training queries in three by their highest similarity to a test query.

    Returns
    -------
    dict
        The rows of each of `BANDS`, the most similar first.

    Examples
    --------
    >>> thirds = bands(Neighbourhood(np.ones(3, int), np.array([0.1, 0.9, 0.5])))
    >>> {band: rows.tolist() for band, rows in thirds.items()}
    {'near': [1], 'middle': [2], 'far': [0]}
    """
    order = np.argsort(-space.similarity, kind="stable")
    thirds = np.array_split(order, len(BANDS))
    return dict(zip(BANDS, thirds, strict=True))
