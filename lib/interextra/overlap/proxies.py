"""Automatic stand-ins for the human labels of query pairs, which are not public, and how good they are.

A proxy is a score for each pair (words in common, cosine) with two thresholds that cut it into the codes 0, 1, 2 of
`annotation.CODES`. Taught in notebooks/01_overlap_annotation_analysis.
"""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from interextra.ground.effects import interval, ratio, resamples
from interextra.ground.errors import InputError

# words that say nothing about what is asked for; "cost", "long", "mean", "define" stay in, they carry intent
_WORDS = """a about all an and any are as at be been by can could did do does for from get had has have how i if in into
is it its many much my of on or s should so t than that the their there these they this to was were what when where
which who whom whose why will with would you your"""
FUNCTION_WORDS = frozenset(_WORDS.split())
STEPS = 50  # thresholds tried


def tokens(text: str) -> frozenset[str]:
    """Lower-cased words and numbers of a query, as a set."""
    return frozenset(re.findall(r"[^\W_]+", text.lower()))


def jaccard(left: Sequence[str], right: Sequence[str]) -> np.ndarray:
    """Words in common of all words of both texts, pair by pair: float64[n].

    >>> jaccard(["what is a shebang"], ["meaning of shebang"]).round(2).tolist()
    [0.17]
    """
    pairs = [(tokens(a), tokens(b)) for a, b in zip(left, right, strict=True)]
    return np.array([len(a & b) / (len(a | b) or 1) for a, b in pairs])


def containment(left: Sequence[str], right: Sequence[str]) -> np.ndarray:
    """Content words in common, of those in the shorter of both texts, pair by pair: float64[n]; 0 where one has none.

    >>> containment(["what is a shebang"], ["meaning of shebang"]).tolist()
    [1.0]
    """
    pairs = [[tokens(text) - FUNCTION_WORDS for text in pair] for pair in zip(left, right, strict=True)]
    return np.array([len(a & b) / (min(len(a), len(b)) or 1) for a, b in pairs])


def cosine(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Cosine of the vectors float[n, d] of both texts, pair by pair: float64[n]."""
    left, right = np.asarray(left, np.float64), np.asarray(right, np.float64)
    return (left * right).sum(axis=1) / (np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1))


def cut(scores: np.ndarray, thresholds: tuple[float, float]) -> np.ndarray:
    """Codes of scores: 2 from the higher threshold on, 1 from the lower one on, else 0.

    >>> cut(np.array([0.1, 0.5, 0.9]), (0.5, 0.8)).tolist()
    [0, 1, 2]
    """
    return (scores[:, None] >= np.array(thresholds)).sum(axis=1)


def choose_thresholds(scores: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """The two thresholds with the best kappa among `STEPS` quantiles of the scores; ties: the lowest."""
    grid = np.unique(np.quantile(scores, np.linspace(0, 1, STEPS), method="nearest"))
    grid = np.append(grid, np.nextafter(grid[-1], np.inf))  # above every score: no pair gets this code
    below = np.searchsorted(grid, scores, side="right")  # thresholds that the score reaches
    reached = np.zeros((3, len(grid) + 1))
    np.add.at(reached, (truth, below), 1)
    reaching = reached[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]  # [truth, threshold]: pairs at or above it
    low, high = np.triu_indices(len(grid))
    ones, twos = reaching[:, low] - reaching[:, high], reaching[:, high]
    tables = np.stack([reached.sum(axis=1)[:, None] - reaching[:, low], ones, twos], axis=1).transpose(2, 0, 1)
    best = int(np.argmax(np.nan_to_num(_kappa(tables).round(12), nan=-2)))
    return float(grid[low[best]]), float(grid[high[best]])


def evaluate_proxy(scores: np.ndarray, truth: np.ndarray, groups: Sequence, seed: int) -> dict[str, float]:
    """A proxy on half of the test queries, with thresholds chosen on the pairs of the other half.

    `groups`: the test query of each pair. Returns accuracy, kappa (Cohen's), kappa_low, kappa_high, n_pairs of the half
    that is judged; the bootstrap draws whole test queries, since pairs of one query depend on each other.
    """
    from sklearn.model_selection import GroupShuffleSplit

    group, names = pd.factorize(np.asarray(groups))
    if len(names) < 2:
        raise InputError("evaluate_proxy: a proxy is tuned and judged on different test queries; give two at least")
    halves = GroupShuffleSplit(1, train_size=0.5, random_state=seed)
    tuned, judged = next(halves.split(scores, groups=groups))
    predicted, truth = cut(scores, choose_thresholds(scores[tuned], truth[tuned]))[judged], truth[judged]
    tables = np.zeros((len(names), 3, 3))  # [test query, truth, predicted]
    np.add.at(tables, (group[judged], truth, predicted), 1)
    tables = tables[pd.unique(group[judged])]
    drawn = [np.tensordot(counts, tables, axes=1) for counts in resamples(len(tables), seed, n_boot=2_000)]
    low, high = interval(_kappa(np.concatenate(drawn)))
    found = {"accuracy": float((predicted == truth).mean()), "kappa": float(_kappa(tables.sum(axis=0)[None])[0])}
    return found | {"kappa_low": low, "kappa_high": high, "n_pairs": len(truth)}


def _kappa(tables: np.ndarray) -> np.ndarray:
    """Cohen's kappa float[n] from confusion tables float[n, 3, 3]; NaN where only one label occurs."""
    n = tables.sum(axis=(1, 2))
    observed = np.trace(tables, axis1=1, axis2=2) / n
    expected = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1) / n**2
    return ratio(observed - expected, 1 - expected)
