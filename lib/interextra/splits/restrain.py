"""ReSTrain: keep the test queries, choose the training queries near them or far from them (Zhan §4.1.2).

The interpolation set is the union over test queries of their top-I training queries; the extrapolation set is every
training query outside the union of their top-E. Both follow from one number per training query, the best rank that it
reaches for any test query: interpolation = {best rank <= I}, extrapolation = {best rank > E}. So the sets of one regime
are nested, as the released ones are (14k in 45k in 200k), and size and distance are confounded: the smaller the
extrapolation set, the farther it lies. `size_matched_control` and `distance_matched_ladder` take the two apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from interextra.ground.errors import InputError, offenders
from interextra.splits.similarity import best_ranks

MATCHES = ("as-released", "exact")


@dataclass(frozen=True)
class Neighbourhood:
    """Where the training queries lie as seen from the test queries: computed once, used for every size."""

    best_rank: np.ndarray  # int64[n_train], from 1: the lowest rank over the test queries
    similarity: np.ndarray  # float32[n_train]: the highest similarity to any test query
    n_test: int

    def mean_similarity(self, rows: np.ndarray) -> float:
        """Mean over the training queries `rows` of their highest similarity to a test query."""
        return float(self.similarity[rows].mean(dtype=np.float64))


@dataclass(frozen=True)
class ReSTrain:
    """Two disjoint training sets, as sorted rows of the training queries."""

    interpolation: np.ndarray
    extrapolation: np.ndarray
    I: int  # noqa: E741  top-I of every test query are in (match="exact": the last rank may be in only partly)
    E: int  # top-E of every test query are out (match="exact": the last rank may be out only partly)
    interpolation_similarity: float  # mean over the set of the highest similarity to a test query
    extrapolation_similarity: float
    match: str = "as-released"

    @property
    def sizes(self) -> tuple[int, int]:
        """Training queries in (interpolation, extrapolation)."""
        return len(self.interpolation), len(self.extrapolation)


def neighbourhood(test: np.ndarray, train: np.ndarray, metric: str = "cosine") -> Neighbourhood:
    """Best rank and highest similarity of each row of `train` [n_train, d] over the rows of `test` [n_test, d]."""
    return Neighbourhood(*best_ranks(test, train, metric), n_test=len(test))


def interpolation_rows(neighbours: np.ndarray, I: int) -> np.ndarray:  # noqa: E741  the paper's letter
    """Union over test queries of their top-I training queries, sorted; `neighbours` int[n_test, K], -1 = padding.

    >>> interpolation_rows(np.array([[0, 2], [2, 1]]), I=1).tolist()
    [0, 2]
    """
    rows = np.unique(_top(neighbours, I, "I"))
    return rows[rows >= 0].astype(np.int64)


def extrapolation_rows(neighbours: np.ndarray, E: int, n_train: int) -> np.ndarray:
    """All training queries outside the union of the top-E, sorted.

    >>> extrapolation_rows(np.array([[0, 2], [2, 1]]), E=1, n_train=4).tolist()
    [1, 3]
    """
    near = interpolation_rows(neighbours, E) if E else np.empty(0, np.int64)
    if len(near) and near[-1] >= n_train:
        raise InputError(f"neighbours point at row {near[-1]} but there are only {n_train} training queries")
    return np.setdiff1d(np.arange(n_train), near, assume_unique=True)


def restrain(
    space: Neighbourhood, size: int, match: str = "as-released", labels: Sequence[int] | np.ndarray | None = None
) -> ReSTrain:
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
    labels : int[n_train], optional
        relevance judgements of each training query: `size` then counts judgements (rows of the qrels).

    Errors
    ------
    InputError: unknown switch, the two regimes would overlap, or a set would be empty.
    """
    if match not in MATCHES:
        raise InputError(f"unknown match {match!r}: one of {', '.join(MATCHES)}")
    n = len(space.best_rank)
    weights = np.ones(n, np.int64) if labels is None else np.asarray(labels)
    if len(weights) != n or (weights < 1).any():
        raise InputError(f"labels: needs one count of at least 1 for each of the {n} training queries")
    if size < 1:
        raise InputError(f"size is {size}: an empty training set; ask for at least 1")
    if 2 * size > weights.sum():
        raise InputError(
            f"size {size}: interpolation and extrapolation set would overlap, since together they need {2 * size} of "
            f"{weights.sum()} training {'queries' if labels is None else 'judgements'}; at most {weights.sum() // 2}"
        )
    order = np.lexsort((np.arange(n), -space.similarity, space.best_rank))  # from the nearest to the farthest
    ranks, mass = space.best_rank[order], np.cumsum(weights[order])
    near = int(np.searchsorted(mass, size, side="right"))  # so many of the nearest fit
    far = int(np.searchsorted(mass, mass[-1] - size, side="left")) + 1  # the first of the farthest that fit
    if match == "as-released":  # back to the last, forward to the next border between two ranks
        near = int(np.searchsorted(ranks, ranks[near], side="left"))
        far = int(np.searchsorted(ranks, ranks[far - 1], side="right"))
    for regime, empty, border in (
        ("interpolation", near == 0, ranks == ranks[0]),
        ("extrapolation", far >= n, ranks == ranks[-1]),
    ):
        if empty:
            raise InputError(
                f"size {size}: the {regime} set would be empty, since its first rank alone holds "
                f"{weights[order][border].sum()}; use at least that size, or match='exact'"
            )
    return ReSTrain(
        interpolation=np.sort(order[:near]),
        extrapolation=np.sort(order[far:]),
        I=int(ranks[near] - 1 if match == "as-released" else ranks[near - 1]),
        E=int(ranks[far - 1]),
        interpolation_similarity=space.mean_similarity(order[:near]),
        extrapolation_similarity=space.mean_similarity(order[far:]),
        match=match,
    )


def size_matched_control(rows: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Random `size` of the training queries `rows`: a small set at the distance of the large one; sorted."""
    rows = np.asarray(rows)
    if not 0 < size <= len(rows):
        raise InputError(
            f"size_matched_control: {size} of {len(rows)} training queries; use a size of 1 to {len(rows)}"
        )
    return np.sort(np.random.default_rng(seed).choice(rows, size, replace=False))


def random_regime(n_train: int, size: int, seed: int) -> np.ndarray:
    """The baseline between the regimes: random training queries, sorted rows."""
    return size_matched_control(np.arange(n_train), size, seed)


def distance_matched_ladder(
    space: Neighbourhood, rows: np.ndarray, sizes: Sequence[int], seed: int, bins: int = 20
) -> dict[int, np.ndarray]:
    """Nested sets of several sizes, all at the same distance from the test queries.

    `rows` are put into `bins` quantile bins of their highest similarity to a test query and every set takes the same
    share of each bin, so only the size changes: the control for Table 6, where a smaller extrapolation set is also a
    farther one. Returns size -> sorted rows.
    """
    rows = np.asarray(rows)
    wrong = [s for s in sizes if not 0 < s <= len(rows)]
    if wrong or not 1 <= bins <= len(rows):
        raise InputError(
            f"ladder over {len(rows)} training queries: impossible sizes {offenders(wrong)} or bins={bins}"
        )
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(rows)
    by_similarity = shuffled[np.argsort(space.similarity[shuffled], kind="stable")]
    # turn within a bin: the first of every bin, then the second of every bin …; offsets spread the remainder
    turn = np.concatenate(
        [
            (rng.permutation(len(b)) + u) / len(b)
            for b, u in zip(np.array_split(by_similarity, bins), rng.random(bins), strict=True)
        ]
    )
    drawn = by_similarity[np.argsort(turn, kind="stable")]
    return {int(s): np.sort(drawn[:s]) for s in sorted(sizes)}


def agreement(
    neighbour_rows: np.ndarray, train_ids: Sequence[str], interp_ids: Sequence[str], extrap_ids: Sequence[str]
) -> pd.DataFrame:
    """How released sets look from our own neighbours.

    Per test query (row) the share of its nearest training queries that lie in the released interpolation set, in the
    released extrapolation set, and in neither. `neighbour_rows` int[n_test, k] are rows of `train_ids` (the training
    queries whose text is at hand), -1 = padding.

    >>> agreement([[0, 1]], ["a", "b"], ["a"], ["c"]).to_dict("records")
    [{'interpolation': 0.5, 'extrapolation': 0.0, 'neither': 0.5}]
    """
    rows, ids = np.asarray(neighbour_rows), pd.Index(train_ids)
    interpolation, extrapolation = pd.Index(interp_ids).unique(), pd.Index(extrap_ids).unique()
    for what, wrong in (
        ("training queries given twice", ids[ids.duplicated()]),
        ("training queries in both released sets", interpolation[interpolation.isin(extrapolation)]),
        ("neighbour rows outside the training queries", np.unique(rows[(rows >= len(ids)) | (rows < -1)]).tolist()),
        ("test queries without any neighbour", np.flatnonzero((rows < 0).all(axis=1)).tolist()),
    ):
        if len(wrong):
            raise InputError(f"agreement: {len(wrong)} {what} ({offenders(wrong)})")
    there = rows >= 0

    def share(ids_of_set):
        inside = np.append(ids.isin(ids_of_set), False)[rows] & there  # row -1 looks up the appended False
        return inside.sum(axis=1) / there.sum(axis=1)

    table = pd.DataFrame({"interpolation": share(interpolation), "extrapolation": share(extrapolation)})
    return table.assign(neither=(1 - table.sum(axis=1)).clip(0))


def _top(neighbours: np.ndarray, k: int, letter: str) -> np.ndarray:
    neighbours = np.asarray(neighbours)
    if neighbours.ndim != 2 or not 1 <= k <= neighbours.shape[1]:
        raise InputError(
            f"{letter}={k} needs int[n_test, K] neighbours with K >= {letter} >= 1, got {neighbours.shape}"
        )
    return neighbours[:, :k]
