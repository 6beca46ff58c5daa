"""Automatic stand-ins for the human labels of query pairs, and how good they are.

The authors' annotations are not public, so Tables 1 and 2 can be approximated only. A proxy is a score for each pair
(words in common, cosine) with two thresholds that cut it into the codes 0, 1, 2 of `annotation.CODES`. The thresholds
are chosen on one part of the test queries and judged on the other.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from interextra.ground.errors import InputError

# words that say nothing about what is asked for; "cost", "long", "mean", "define" stay in, they carry intent
_WORDS = """a about all an and any are as at be been by can could did do does for from get had has have how i if in into
is it its many much my of on or s should so t than that the their there these they this to was were what when where
which who whom whose why will with would you your"""
FUNCTION_WORDS = frozenset(_WORDS.split())


@dataclass(frozen=True)
class ProxyQuality:
    """How a proxy's codes agree with true ones, on pairs that its thresholds have not seen."""

    confusion: pd.DataFrame  # rows truth 0, 1, 2; columns predicted
    accuracy: float
    accuracy_interval: tuple[float, float]
    kappa: float
    kappa_interval: tuple[float, float]
    n_pairs: int
    thresholds: tuple[float, float] | None = None  # of code 1 and of code 2


def tokens(text: str) -> frozenset[str]:
    """Lower-cased words and numbers of a query, as a set."""
    return frozenset(re.findall(r"[^\W_]+", text.lower()))


def jaccard(left: Sequence[str], right: Sequence[str]) -> np.ndarray:
    """Words in common of all words of both texts, pair by pair: float64[n].

    >>> jaccard(["what is a shebang"], ["meaning of shebang"]).round(2).tolist()
    [0.17]
    """
    return _ratio([(tokens(a), tokens(b)) for a, b in zip(left, right, strict=True)], lambda a, b: len(a | b))


def containment(left: Sequence[str], right: Sequence[str]) -> np.ndarray:
    """Content words in common, of those in the shorter of both texts, pair by pair: float64[n]; 0 where one has none.

    >>> containment(["what is a shebang"], ["meaning of shebang"]).tolist()
    [1.0]
    """
    pairs = ((tokens(a) - FUNCTION_WORDS, tokens(b) - FUNCTION_WORDS) for a, b in zip(left, right, strict=True))
    return _ratio(list(pairs), lambda a, b: min(len(a), len(b)))


def cosine(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Cosine of the vectors float[n, d] of both texts, pair by pair: float64[n]."""
    left, right = np.asarray(left, np.float64), np.asarray(right, np.float64)
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    if left.shape != right.shape or not np.isfinite(lengths).all() or not lengths.all():
        raise InputError(f"cosine: needs two finite, non-zero float[n, d], got {left.shape} and {right.shape}")
    return (left * right).sum(axis=1) / lengths


def cut(scores: np.ndarray, thresholds: tuple[float, float]) -> np.ndarray:
    """Codes of scores: 2 from the higher threshold on, 1 from the lower one on, else 0.

    >>> cut(np.array([0.1, 0.5, 0.9]), (0.5, 0.8)).tolist()
    [0, 1, 2]
    """
    low, high = thresholds
    if not low <= high:
        raise InputError(f"thresholds {thresholds}: the one of code 1 must not be above the one of code 2")
    scores = np.asarray(scores)
    return (scores >= low).astype(np.int64) + (scores >= high)


def choose_thresholds(
    scores: np.ndarray, truth: np.ndarray, objective: str = "kappa", steps: int = 50
) -> tuple[float, float]:
    """The two thresholds with the best kappa (or accuracy) among `steps` quantiles of the scores; ties: the lowest."""
    scores, truth = _aligned(scores, truth)
    if objective not in ("kappa", "accuracy"):
        raise InputError(f"unknown objective {objective!r}: kappa or accuracy")
    grid = np.unique(np.quantile(scores, np.linspace(0, 1, steps), method="nearest"))
    grid = np.append(grid, np.nextafter(grid[-1], np.inf))  # above every score: no pair gets this code
    below = np.searchsorted(grid, scores, side="right")  # thresholds that the score reaches
    reached = np.zeros((3, len(grid) + 1))
    np.add.at(reached, (truth, below), 1)
    reaching = reached[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]  # [truth, threshold]: pairs at or above it
    low, high = np.triu_indices(len(grid))
    ones, twos = reaching[:, low] - reaching[:, high], reaching[:, high]
    tables = np.stack([reached.sum(axis=1)[:, None] - reaching[:, low], ones, twos], axis=1).transpose(2, 0, 1)
    value = _kappa(tables) if objective == "kappa" else _accuracy(tables)
    best = int(np.nanargmax(np.round(value, 12))) if not np.isnan(value).all() else 0
    return float(grid[low[best]]), float(grid[high[best]])


def measure(
    predicted: np.ndarray,
    truth: np.ndarray,
    groups: Sequence,
    resamples: int = 2_000,
    level: float = 0.95,
    *,
    seed: int,
) -> ProxyQuality:
    """Confusion, accuracy and Cohen's kappa of predicted codes int[n] with bootstrap intervals.

    `groups`: the test query of each pair; whole test queries are drawn, since pairs of one query depend on each other.
    """
    predicted, truth = _aligned(predicted, truth)
    group, n_groups = pd.factorize(np.asarray(groups))[0], len(set(groups))
    predicted = predicted.astype(np.int64)
    if len(group) != len(truth) or not np.isin(predicted, (0, 1, 2)).all():
        raise InputError(f"measure: needs codes 0, 1, 2 and one group for each of the {len(truth)} pairs")
    tables = np.zeros((n_groups, 3, 3))
    np.add.at(tables, (group, truth, predicted), 1)
    drawn = np.random.default_rng(seed).multinomial(n_groups, np.full(n_groups, 1 / n_groups), resamples)
    resampled = np.tensordot(drawn.astype(float), tables, axes=1)
    tail, total = (1 - level) / 2, tables.sum(axis=0)

    def interval(values):
        low, high = np.nanquantile(values, [tail, 1 - tail]) if not np.isnan(values).all() else (np.nan, np.nan)
        return float(low), float(high)

    return ProxyQuality(
        confusion=pd.DataFrame(total.astype(int)).rename_axis(index="truth", columns="predicted"),
        accuracy=float(_accuracy(total[None])[0]),
        accuracy_interval=interval(_accuracy(resampled)),
        kappa=float(_kappa(total[None])[0]),
        kappa_interval=interval(_kappa(resampled)),
        n_pairs=len(truth),
    )


def held_out(test_query_ids: Sequence[str], share: float = 0.5, *, seed: int) -> np.ndarray:
    """bool[n_pairs]: True for the pairs of a random `share` of the test queries; pairs of one query stay together."""
    at, unique = pd.factorize(np.asarray(test_query_ids))
    n = round(share * len(unique))
    if not 0 < n < len(unique):
        raise InputError(f"held_out: a share of {share} of {len(unique)} test queries leaves one part empty")
    chosen = np.zeros(len(unique), bool)
    chosen[np.random.default_rng(seed).choice(len(unique), n, replace=False)] = True
    return chosen[at]


def evaluate_proxy(
    scores: np.ndarray, truth: np.ndarray, groups: Sequence, share: float = 0.5, objective: str = "kappa", *, seed: int
) -> ProxyQuality:
    """Choose the thresholds on the pairs of a `share` of the test queries, measure on those of the others."""
    scores, truth = _aligned(scores, truth)
    tune, groups = held_out(groups, share, seed=seed), np.asarray(groups)
    thresholds = choose_thresholds(scores[tune], truth[tune], objective)
    quality = measure(cut(scores[~tune], thresholds), truth[~tune], groups[~tune], seed=seed)
    return ProxyQuality(**{**vars(quality), "thresholds": thresholds})


def _ratio(pairs: list[tuple[frozenset, frozenset]], size) -> np.ndarray:
    return np.array([len(a & b) / (size(a, b) or 1) for a, b in pairs], dtype=np.float64)


def _aligned(scores, truth) -> tuple[np.ndarray, np.ndarray]:
    scores, truth = np.asarray(scores), np.asarray(truth)
    if scores.shape != truth.shape or truth.ndim != 1 or not len(truth):
        raise InputError(f"scores and truth must be two vectors of one length, got {scores.shape} and {truth.shape}")
    if not np.isin(truth, (0, 1, 2)).all() or not np.isfinite(scores).all():
        raise InputError("truth must hold the codes 0, 1, 2 and scores must be finite numbers")
    return scores, truth.astype(np.int64)


def _accuracy(tables: np.ndarray) -> np.ndarray:
    """float[n] from confusion tables float[n, 3, 3]."""
    return np.trace(tables, axis1=1, axis2=2) / tables.sum(axis=(1, 2))


def _kappa(tables: np.ndarray) -> np.ndarray:
    """Cohen's kappa float[n] from confusion tables float[n, 3, 3]; NaN where only one label occurs."""
    n = tables.sum(axis=(1, 2))
    expected = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1) / n**2
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(expected < 1, (_accuracy(tables) - expected) / (1 - expected), np.nan)
