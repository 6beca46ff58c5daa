"""ReSTrain: keep the test queries, choose the training queries near them or far from them (Zhan
§4.1.2).

The interpolation set is the union of the top-I training queries of all test queries, {best rank <=
I}; outside that of their top-E is the extrapolation set, {best rank > E}. So the sets of a regime
are nested, and the smaller that of extrapolation, the farther it lies: random sets in `bands` take
both apart. Taught in notebooks/02_restrain.
"""

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from interextra.splits.similarity import same_space
from interextra.splits.split import OfVectors, Split
from interextra.store import InputError, Store

BANDS = ("near", "middle", "far")


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

    def __init__(self, **fields):
        super().__init__(**fields)
        if twice := [size for size in self.sizes if self.sizes.count(size) > 1]:
            raise InputError(f"sizes: {twice[0]} stands twice; keep one of each")
        n = self.pool.size() if self.pool.source.is_open else None
        for size in self.sizes:
            check_size(size, self.match, n)
            if self.draws and n:
                check_part(size, n // len(BANDS))

    def title(self) -> str:
        return f"ReSTrain · {self.pool.source.spec} · {', '.join(map(str, self.sizes))} training queries"

    def parts(self) -> tuple[str, ...]:
        drawn = (
            f"{band}-{size}-{at}"
            for band, size, at in product(BANDS, self.sizes, range(self.draws))
        )
        return (
            *(
                f"{regime}-{size}"
                for size in self.sizes
                for regime in ("interpolation", "extrapolation")
            ),
            *drawn,
        )

    def size_of(self, part: str) -> int:
        return int(part.split("-")[1])

    def build(self, folder: Path, store: Store) -> None:
        train, test = self.directed(store)
        space = neighbourhood(test, train)
        found = [restrain(space, size, self.match) for size in self.sizes]
        made = [
            rows for regimes in found for rows in (regimes.interpolation, regimes.extrapolation)
        ]
        for (at, third), size, number in product(
            enumerate(bands(space).values()), self.sizes, range(self.draws)
        ):
            made.append(random_part(third, size, (self.seed, number, size, at)))
        sets = dict(zip(self.parts(), made, strict=True))
        self.write_sets(folder, store, sets)
        pd.DataFrame(vars(space)).to_parquet(folder / "neighbourhood.parquet")
        rows = [(name, len(part), space.mean_similarity(part)) for name, part in sets.items()]
        pd.DataFrame(rows, columns=["set", "n_train", "mean_max_similarity"]).to_csv(
            folder / "sets.csv", index=False
        )
        rows = [
            (size, regimes.top_i, regimes.top_e)
            for size, regimes in zip(self.sizes, found, strict=True)
        ]
        pd.DataFrame(rows, columns=["size", "I", "E"]).to_csv(folder / "tuned.csv", index=False)

    def neighbourhood(self, store: Store) -> "Neighbourhood":
        """Where the training queries lie as seen from the test queries."""
        found = pd.read_parquet(store[self] / "neighbourhood.parquet")
        return Neighbourhood(found["best_rank"].to_numpy(), found["similarity"].to_numpy())


@dataclass(frozen=True)
class Neighbourhood:
    """Where the training queries lie as seen from the test queries."""

    best_rank: np.ndarray  # int64[n_train], from 1: the lowest rank over the test queries
    similarity: np.ndarray  # float32[n_train]: the highest cosine to any test query

    def mean_similarity(self, rows: np.ndarray) -> float:
        """Mean over the training queries `rows` of their highest cosine to a test query."""
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
    """Best rank and highest cosine of each row of `train` [n_train, d] over the full rankings of
    `test` [n_test, d].

    >>> neighbourhood([[1, 0], [0, 1]], [[1, 0], [1, .5], [0, 1]]).best_rank.tolist()
    [1, 2, 1]
    """
    test, train = same_space(test, train)
    best, highest = (
        np.full(len(train), len(train), np.int64),
        np.full(len(train), -np.inf, np.float32),
    )
    step = max(1, 2**22 // len(train))  # rankings in memory at a time
    for start in range(0, len(test), step):
        some = test[start : start + step].astype(np.float64)
        parts = [
            some @ train[i : i + 2**14].astype(np.float64).T for i in range(0, len(train), 2**14)
        ]
        cosines = np.concatenate(parts, axis=1).astype(
            np.float32
        )  # rounded, so that equal queries are equally near
        best = np.minimum(best, rankdata(-cosines, method="ordinal", axis=1).min(axis=0))
        highest = np.maximum(highest, cosines.max(axis=0))
    return Neighbourhood(best, highest)


def restrain(space: Neighbourhood, size: int, match: str) -> Regimes:
    """Tune I and E to `size` training queries per regime; InputError: they would overlap, or a set
    would be empty.

    match : "as-released": whole ranks only, the largest I and the smallest E whose sets have at
    most `size` queries.
        "exact": precisely `size` queries in both; the border rank is filled by similarity
        (interpolation: the most similar first; extrapolation: the least similar first; then by
        row). The released interpolation sets are 3.0-4.5 % smaller than the extrapolation sets in
        queries, but only 0.5-0.9 % in qrels rows.
    """
    n = len(space.best_rank)
    check_size(size, match, n)
    order = np.lexsort(
        (-space.similarity, space.best_rank)
    )  # from the nearest to the farthest; ties: by row
    ranks, near, far = space.best_rank[order], size, n - size
    if match == "as-released":  # back to the last, forward to the next border between two ranks
        near = int(np.searchsorted(ranks, ranks[near], side="left"))
        far = int(np.searchsorted(ranks, ranks[far - 1], side="right"))
    if not near or far == n:
        least = (ranks == ranks[0 if not near else -1]).sum()
        raise InputError(
            f"size {size}: an empty set, as its first rank alone has {least}; use that, or match='exact'"
        )
    top_i, top_e = (
        int(ranks[near] - 1 if match == "as-released" else ranks[near - 1]),
        int(ranks[far - 1]),
    )
    similarities = space.mean_similarity(order[:near]), space.mean_similarity(order[far:])
    return Regimes(np.sort(order[:near]), np.sort(order[far:]), top_i, top_e, *similarities)


def check_size(size: int, match: str, n: int | None) -> None:
    """InputError for arguments of `restrain` that no `n` training queries (None: not known yet)
    allow.
    """
    if match not in ("as-released", "exact"):
        raise InputError(f"unknown match {match!r}: one of as-released, exact")
    if n and not 1 <= size <= n // 2:
        raise InputError(
            f"size {size}: two sets of {n} training queries that don't overlap have 1 to {n // 2}"
        )


def check_part(size: int, n: int) -> None:
    """InputError where no random part of `size` can be drawn from `n` training queries."""
    if not 0 < size <= n:
        raise InputError(f"a random part: {size} of {n} training queries; use a size of 1 to {n}")


def random_part(rows: np.ndarray, size: int, seed: int | tuple[int, ...]) -> np.ndarray:
    """Random `size` of the training queries `rows`, sorted."""
    check_part(size, len(rows))
    return np.sort(np.random.default_rng(seed).choice(rows, size, replace=False))


def bands(space: Neighbourhood) -> dict[str, np.ndarray]:
    """All training queries in three parts by their highest similarity to a test query: band → rows.

    >>> made = bands(Neighbourhood(np.ones(3, int), np.array([0.1, 0.9, 0.5])))
    >>> {band: rows.tolist() for band, rows in made.items()}
    {'near': [1], 'middle': [2], 'far': [0]}
    """
    return dict(
        zip(
            BANDS,
            np.array_split(np.argsort(-space.similarity, kind="stable"), len(BANDS)),
            strict=True,
        )
    )
