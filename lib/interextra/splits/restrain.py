"""ReSTrain: keep the test queries, choose the training queries near them or far from them (Zhan §4.1.2).

The interpolation set is the union over test queries of their top-I training queries; the extrapolation set is every
training query outside the union of their top-E. Both follow from one number per training query, the best rank that it
reaches for any test query: interpolation = {best rank <= I}, extrapolation = {best rank > E}. So the sets of one regime
are nested, as the released ones are (14k in 45k in 200k), and size and distance are confounded: the smaller the
extrapolation set, the farther it lies. `size_matched_control` and `distance_matched_ladder` take the two apart.
Taught in notebooks/02_restrain.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.data.queries import Queries
from interextra.ground.cells import Cell, Store
from interextra.ground.errors import InputError, offenders
from interextra.splits.similarity import best_ranks
from interextra.splits.split import Split

MATCHES = ("as-released", "exact")
BINS = 20  # of similarity, in the ladder


class ReSTrain(Split):
    """Training sets of all sizes in both regimes, as seen from the test queries of the vectors.

    Sets: interpolation-SIZE and extrapolation-SIZE; per control, numbered from 0, random-SIZE-NUMBER and, below the
    largest size, REGIME-matched-SIZE-NUMBER: as many queries at the distance of the largest set.
    Files: sets.json, sets.csv (set, n_train, mean_max_similarity), tuned.csv (size, I, E).
    """

    vectors: Cell  # of training and test queries
    sizes: tuple[int, ...]  # training queries per regime
    match: str = "exact"  # see `restrain`
    controls: int = 0
    seed: int = 0  # of the controls

    @property
    def pool(self) -> Queries:
        return self.vectors.train

    def title(self) -> str:
        return f"ReSTrain · {self.pool.source.spec} · {', '.join(map(str, self.sizes))} training queries"

    def size_of(self, part: str) -> int:
        return int(next(token for token in part.split("-") if token.isdecimal()))

    def build(self, folder: Path, store: Store) -> None:
        train, test = self.vectors.read(store)
        space = neighbourhood(test, train)
        made = {size: restrain(space, size, self.match) for size in self.sizes}
        sets, largest = {}, made[max(made)]
        for size, found in made.items():
            of = {"interpolation": found.interpolation, "extrapolation": found.extrapolation}
            sets |= {f"{regime}-{size}": rows for regime, rows in of.items()}
            for number in range(self.controls):
                draw = (self.seed, number, size)  # and the kind of control: each has a draw of its own
                sets[f"random-{size}-{number}"] = size_matched_control(np.arange(len(train)), size, (*draw, 0))
                for at, (regime, rows) in enumerate(of.items() if size < max(made) else (), 1):
                    matched = size_matched_control(getattr(largest, regime), len(rows), (*draw, at))
                    sets[f"{regime}-matched-{size}-{number}"] = matched
        self.write_sets(folder, store, sets)
        rows = [(name, len(found), space.mean_similarity(found)) for name, found in sets.items()]
        columns = ["set", "n_train", "mean_max_similarity"]
        pd.DataFrame(rows, columns=columns).to_csv(folder / "sets.csv", index=False)
        tuned = [(size, found.top_i, found.top_e) for size, found in made.items()]
        pd.DataFrame(tuned, columns=["size", "I", "E"]).to_csv(folder / "tuned.csv", index=False)


@dataclass(frozen=True)
class Neighbourhood:
    """Where the training queries lie as seen from the test queries: computed once, used for every size."""

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
    top_i: int  # I: top-I of every test query are in (match="exact": the last rank may be in only partly)
    top_e: int  # E: top-E of every test query are out (match="exact": the last rank may be out only partly)
    interpolation_similarity: float  # mean over the set of the highest cosine to a test query
    extrapolation_similarity: float

    @property
    def sizes(self) -> tuple[int, int]:
        """Training queries in (interpolation, extrapolation)."""
        return len(self.interpolation), len(self.extrapolation)


def neighbourhood(test: np.ndarray, train: np.ndarray) -> Neighbourhood:
    """Best rank and highest cosine of each row of `train` [n_train, d] over the rows of `test` [n_test, d]."""
    return Neighbourhood(*best_ranks(test, train))


def interpolation_rows(neighbours: np.ndarray, top_i: int) -> np.ndarray:
    """Union over test queries of their top-I training queries, sorted; `neighbours` int[n_test, K], nearest first.

    >>> interpolation_rows(np.array([[0, 2], [2, 1]]), top_i=1).tolist()
    [0, 2]
    """
    neighbours = np.asarray(neighbours)
    if neighbours.ndim != 2 or not 1 <= top_i <= neighbours.shape[1]:
        raise InputError(
            f"the top {top_i} need int[n_test, K] neighbours with K >= {top_i} >= 1, got {neighbours.shape}"
        )
    return np.unique(neighbours[:, :top_i]).astype(np.int64)


def extrapolation_rows(neighbours: np.ndarray, top_e: int, n_train: int) -> np.ndarray:
    """All training queries outside the union of the top-E, sorted.

    >>> extrapolation_rows(np.array([[0, 2], [2, 1]]), top_e=1, n_train=4).tolist()
    [1, 3]
    """
    near = interpolation_rows(neighbours, top_e)
    if near[-1] >= n_train:
        raise InputError(f"neighbours point at row {near[-1]} but there are only {n_train} training queries")
    return np.setdiff1d(np.arange(n_train), near, assume_unique=True)


def restrain(space: Neighbourhood, size: int, match: str) -> Regimes:
    """Tune I and E to a training set size.

    Parameters
    ----------
    size : int
        training queries per regime.
    match : "as-released" or "exact"
        as-released: whole ranks only, the largest I and the smallest E whose sets have at most `size` queries.
        exact: precisely `size` queries in both; the border rank is filled by similarity (interpolation: the most
        similar first; extrapolation: the least similar first; then by row). The released interpolation sets are
        3.0-4.5 % smaller than the extrapolation sets in queries, but only 0.5-0.9 % in qrels rows.

    Raises
    ------
    InputError
        Unknown switch, the two regimes would overlap, or a set would be empty.
    """
    n = len(space.best_rank)
    if match not in MATCHES:
        raise InputError(f"unknown match {match!r}: one of {', '.join(MATCHES)}")
    if size < 1:
        raise InputError(f"size is {size}: an empty training set; ask for at least 1")
    if 2 * size > n:
        raise InputError(
            f"size {size}: interpolation and extrapolation set would overlap, since together they need {2 * size} of "
            f"{n} training queries; at most {n // 2}"
        )
    order = np.lexsort((np.arange(n), -space.similarity, space.best_rank))  # from the nearest to the farthest
    ranks, near, far = space.best_rank[order], size, n - size
    if match == "as-released":  # back to the last, forward to the next border between two ranks
        near = int(np.searchsorted(ranks, ranks[near], side="left"))
        far = int(np.searchsorted(ranks, ranks[far - 1], side="right"))
    for regime, empty, border in (("interpolation", near == 0, ranks[0]), ("extrapolation", far == n, ranks[-1])):
        if empty:
            raise InputError(
                f"size {size}: the {regime} set would be empty, since its first rank alone holds "
                f"{(ranks == border).sum()}; use at least that size, or match='exact'"
            )
    return Regimes(
        interpolation=np.sort(order[:near]),
        extrapolation=np.sort(order[far:]),
        top_i=int(ranks[near] - 1 if match == "as-released" else ranks[near - 1]),
        top_e=int(ranks[far - 1]),
        interpolation_similarity=space.mean_similarity(order[:near]),
        extrapolation_similarity=space.mean_similarity(order[far:]),
    )


def size_matched_control(rows: np.ndarray, size: int, seed: int | tuple[int, ...]) -> np.ndarray:
    """Random `size` of the training queries `rows`: a small set at the distance of the large one; sorted."""
    if not 0 < size <= len(rows):
        raise InputError(f"a random part: {size} of {len(rows)} training queries; use a size of 1 to {len(rows)}")
    return np.sort(np.random.default_rng(seed).choice(rows, size, replace=False))


def distance_matched_ladder(
    space: Neighbourhood, rows: np.ndarray, sizes: Sequence[int], seed: int
) -> dict[int, np.ndarray]:
    """Nested sets of several sizes, all at the same distance from the test queries.

    `rows` are put into quantile bins of their highest similarity to a test query and every set takes the same share of
    each bin, so only the size changes: the control for Table 6, where a smaller extrapolation set is also a farther
    one. Returns size -> sorted rows.
    """
    if wrong := [size for size in sizes if not 0 < size <= len(rows)]:
        raise InputError(f"ladder over {len(rows)} training queries: impossible sizes {offenders(wrong)}")
    random, n_bins = np.random.default_rng(seed), min(BINS, len(rows))
    shuffled = random.permutation(rows)
    by_similarity = shuffled[np.argsort(space.similarity[shuffled], kind="stable")]
    bins = [len(part) for part in np.array_split(by_similarity, n_bins)]
    # turn within a bin: the first of every bin, then the second of every bin …; offsets spread the remainder
    offsets = random.random(n_bins)
    turn = [(random.permutation(n) + offset) / n for n, offset in zip(bins, offsets, strict=True)]
    drawn = by_similarity[np.argsort(np.concatenate(turn), kind="stable")]
    return {size: np.sort(drawn[:size]) for size in sorted(sizes)}


def agreement(
    neighbour_rows: np.ndarray,
    train_ids: Sequence[str],
    interpolation_ids: Sequence[str],
    extrapolation_ids: Sequence[str],
) -> pd.DataFrame:
    """How released sets look from our own neighbours.

    Per test query (row) the share of its nearest training queries that lie in the released interpolation set, in the
    released extrapolation set, and in neither. `neighbour_rows` int[n_test, k] are rows of `train_ids`, the training
    queries whose text is at hand.

    >>> agreement([[0, 1]], ["a", "b"], ["a"], ["c"]).to_dict("records")
    [{'interpolation': 0.5, 'extrapolation': 0.0, 'neither': 0.5}]
    """
    ids, rows = pd.Index(train_ids), np.asarray(neighbour_rows)
    sets = {"interpolation": pd.Index(interpolation_ids), "extrapolation": pd.Index(extrapolation_ids)}
    for what, wrong in (
        ("training queries given twice", ids[ids.duplicated()]),
        ("training queries in both released sets", sets["interpolation"].intersection(sets["extrapolation"])),
    ):
        if len(wrong):
            raise InputError(f"agreement: {len(wrong)} {what} ({offenders(wrong)})")
    table = pd.DataFrame({regime: ids.isin(found)[rows].mean(axis=1) for regime, found in sets.items()})
    return table.assign(neither=(1 - table.sum(axis=1)).clip(0))
