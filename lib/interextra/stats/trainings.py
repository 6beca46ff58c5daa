"""The noise of training: how much the mean of a single model varies between its trainings."""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from interextra.stats.pairing import Key, Models, Paired

# What an interval is over: the column `over` of a table
QUERIES = "queries"
ONE_TRAINING = "queries; one training run"
TRAININGS = "queries and training runs"


def weakest_over(over: Iterable[str]) -> str:
    """Return what the interval of a sum of effects is over: that about which least is known.

    Examples
    --------
    >>> weakest_over([QUERIES, TRAININGS]), weakest_over([TRAININGS, ONE_TRAINING])
    ('queries and training runs', 'queries; one training run')
    """
    known = set(over)
    for weakest in (ONE_TRAINING, TRAININGS):
        if weakest in known:
            return weakest
    return QUERIES


class TrainingNoise(NamedTuple):
    """How much the mean of a single model varies from training to training."""

    deviation: float  # NaN: nothing was trained twice
    freedom: int  # degrees of freedom of the deviation: how well it is known


def training_noises(
    parts: Mapping[Key, Paired], system_labels: Sequence[int]
) -> dict[Key, TrainingNoise]:
    """Return the noise of training of each group of values.

    Two or three trainings of a model say little of it: the variance is pooled over the models of a
    system, each counted once. Of the same models on several sets of queries (all, the near and the
    far half) a row has its own variance; that of other models is the mean over their rows. A row
    whose models were trained once borrows it.

    Parameters
    ----------
    parts : the values of each group and the models behind them, by its key.
    system_labels : which labels of a key name the system, and what it is measured by.
    """
    systems: dict[Key, dict[Key, Models]] = {}
    for key, part in parts.items():
        system = tuple(key[place] for place in system_labels)
        systems.setdefault(system, {})[key] = part.models
    noises = dict.fromkeys(parts, TrainingNoise(float("nan"), 0))
    for rows in systems.values():
        noises.update(_noises_of_system(rows))
    return noises


def _noises_of_system(rows: Mapping[Key, Models]) -> dict[Key, TrainingNoise]:
    """Return the noise of each row of a system with trained models, if any was trained twice."""
    mean_variances = _mean_variances(rows.values())
    weights = list(map(_freedom, mean_variances))
    if not any(weights):
        return {}
    names_of_rows = [models.names for models in rows.values()]
    freedom = _freedom(frozenset.union(*names_of_rows))
    noises = {}
    for key, models in rows.items():
        if not models.names:
            continue
        variances = dict(mean_variances)
        if models.counted:
            variances[models.names] = models.variance
        pooled = fmean(variances.values(), weights)
        noises[key] = TrainingNoise(math.sqrt(pooled), freedom)
    return noises


def _freedom(names: frozenset[Key]) -> int:
    """Return the degrees of freedom of some models: their trainings beyond the first of each."""
    return sum(len(trainings) - 1 for trainings in names)


def _mean_variances(rows: Iterable[Models]) -> dict[frozenset[Key], float]:
    """Return the variance of some models between trainings, mean over the rows of these models."""
    variances: dict[frozenset[Key], list[float]] = {}
    for models in rows:
        if models.counted:
            variances.setdefault(models.names, []).append(models.variance)
    return {names: fmean(each) for names, each in variances.items()}
