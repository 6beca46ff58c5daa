"""The noise of training: how much the mean of a single model varies between its trainings."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from interextra.stats.bootstrap import ratio

# What an interval is over: the column `over` of a table
QUERIES, ONE_TRAINING, TRAININGS = (
    "queries",
    "queries; one training run",
    "queries and training runs",
)


def _is_folded(rows: pd.DataFrame) -> bool:
    """Whether the rows are of several models, each trained without a part of the queries."""
    return "left_out" in rows and bool(rows["left_out"].notna().all())


class _Models(NamedTuple):
    """The single models behind the values of a group and stratum; each is trained once or several
    times.
    """

    squares: float  # of the deviations of single trainings from the mean of their model
    counted: int  # degrees of freedom in `squares`: a model on both sides counts twice
    freedom: Mapping[Any, int]  # name of each trained model → its trainings beyond the first
    shares: (
        np.ndarray
    )  # float[n_sides], sum of squared weights of the models in the mean of a side; 1: one model
    is_trained: bool


def _models(
    labels: np.ndarray,
    value: np.ndarray,
    weight: np.ndarray,
    trained: np.ndarray | None,
    place: tuple[tuple, bool],
) -> _Models:
    """The models behind values float[n] with the labels int[3, n] (side, model, training) and
    weights in their side.

    trained : names [n] of the models; None: nobody named them, so that each row has models of its
    own. place : the key
        of the row, and whether both of its sides have the same models, each without a part of the
        queries.
    """
    shape = tuple(labels.max(axis=1) + 1)
    at = np.ravel_multi_index(tuple(labels), shape)
    sums, counts, weights = (
        np.bincount(at, one, minlength=math.prod(shape)).reshape(shape)
        for one in (value, np.ones_like(value), weight)
    )
    means = ratio(sums, counts)  # [sides, models, trainings]; NaN: this side has not this model
    names: dict[tuple[int, int], tuple] = {}
    for side, model in np.argwhere(counts[..., 0] > 0).tolist():
        if trained is None:
            key, is_folded = place
            names[side, model] = (key, is_folded or side, model)
        else:
            here = (labels[0] == side) & (labels[1] == model)
            names[side, model] = tuple(sorted(set(trained[here]) - {""}))
    known = [pair for pair, name in names.items() if name]
    again = shape[2] - 1
    deviations = [means[pair] - means[pair].mean() for pair in known]
    return _Models(
        squares=math.fsum(float(one @ one) for one in deviations),
        counted=again * len(known),
        freedom={names[pair]: again if trained is None else len(names[pair]) - 1 for pair in known},
        shares=(weights[..., 0] ** 2).sum(axis=1),
        is_trained=bool(known) and trained is not None,
    )


class _Noise(NamedTuple):
    """How much the mean of a single model varies from training to training, and how well that is
    known.
    """

    deviation: float  # NaN: nothing was trained twice
    freedom: int


def _noises(parts: dict[tuple, _Models], places: Sequence[int]) -> dict[tuple, _Noise]:
    """The noise of training of each group and stratum. `places`: of the labels of a system in those
    of a group.

    Two or three trainings of a model say little of it: the variance is pooled over the models of a
    system, each counted once. Of the same models on several sets of queries (all, the near and the
    far half) a row has its own variance; that of other models is the mean over their rows. A row
    whose models were trained once borrows it.
    """
    systems: dict[tuple, dict[tuple, _Models]] = {}
    for key, models in parts.items():
        systems.setdefault(tuple(key[place] for place in places), {})[key] = models
    found = dict.fromkeys(parts, _Noise(float("nan"), 0))
    for rows in systems.values():
        freedom = {name: n for models in rows.values() for name, n in models.freedom.items()}
        variances: dict[
            frozenset, list[float]
        ] = {}  # some models → the variance in each row of them
        for models in rows.values():
            if models.counted:
                variances.setdefault(frozenset(models.freedom), []).append(
                    models.squares / models.counted
                )
        weights = {names: sum(freedom[name] for name in names) for names in variances}
        if not sum(weights.values()):
            continue
        means = {names: math.fsum(each) / len(each) for names, each in variances.items()}
        for key, models in rows.items():
            if models.freedom:
                own = (
                    {frozenset(models.freedom): models.squares / models.counted}
                    if models.counted
                    else {}
                )
                weighted = math.fsum(
                    weights[names] * variance for names, variance in (means | own).items()
                )
                found[key] = _Noise(
                    math.sqrt(weighted / sum(weights.values())), sum(freedom.values())
                )
    return found
