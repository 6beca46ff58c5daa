"""Values per query, tidy, as arrays paired by query_id."""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from interextra.stats.trainings import _is_folded, _Models, _models
from interextra.store.errors import InputError, offenders


def _grouped(frame: pd.DataFrame, columns: list[str]) -> Iterator[tuple[tuple, pd.DataFrame]]:
    return iter(frame.groupby(columns, sort=False, dropna=False) if columns else [((), frame)])


def _codes(labels: Iterable) -> tuple[np.ndarray, list[str]]:
    """Place of each label, as text, among all of them in order."""
    codes, names = pd.factorize(pd.Series(labels, dtype=object).astype(str), sort=True)
    return codes, list(names)


class _Part(NamedTuple):
    """What was measured of a group and stratum; queries and units stand in the order of their ids,
    repeats averaged.
    """

    values: np.ndarray  # float[n_queries, n_trainings, n_sides]
    units: np.ndarray  # int[n_queries], place of each query's unit
    unit_ids: tuple[str, ...]
    models: _Models


def _part(rows: pd.DataFrame, on: str | None, sides: tuple, key: tuple) -> _Part:
    """The values of the group and stratum with this key, paired by query_id."""
    if rows["value"].isna().any():
        raise InputError(
            f"effects: no value for query {offenders(rows['query_id'][rows['value'].isna()].unique())}"
        )
    side = pd.Index(sides).get_indexer(rows[on]) if on else np.zeros(len(rows), np.int64)
    query, query_ids = _codes(rows["query_id"])
    model, _ = _codes(rows["left_out"]) if _is_folded(rows) else (np.zeros(len(rows), np.int64), [])
    training = _trainings(rows, side)
    # values of one query are added up in one order, whatever that of the rows
    order = np.lexsort((rows["value"].to_numpy(float), model, training, side, query))
    side, query, model, training = side[order], query[order], model[order], training[order]
    value = rows["value"].to_numpy(float)[order]
    shape = (len(query_ids), int(training.max()) + 1, max(1, len(sides)))
    place = np.ravel_multi_index((query, training, side), shape)
    counts = np.bincount(place, minlength=math.prod(shape)).reshape(shape)
    if not counts.all():
        alone = [query_ids[row] for row in np.flatnonzero((counts == 0).any(axis=(1, 2)))]
        raise InputError(
            f"effects: query {offenders(alone)} lacks a side or a training; measure all alike"
        )
    values = np.bincount(place, value, minlength=math.prod(shape)).reshape(shape) / counts
    weight = 1 / counts.ravel()[place] / len(query_ids)  # of each value in the mean of its side
    trained = rows["trained"].fillna("").to_numpy(object)[order] if "trained" in rows else None
    models = _models(
        np.stack([side, model, training]), value, weight, trained, (key, _is_folded(rows))
    )
    return _Part(values, *_units(rows, query_ids), models)


def _trainings(rows: pd.DataFrame, side: np.ndarray) -> np.ndarray:
    """Number of each row's training among those of its side, int[n]; they may have other seeds on
    each side.
    """
    training = np.zeros(len(rows), np.int64)
    for here in np.unique(side) if "seed" in rows else ():
        training[side == here] = _codes(rows["seed"][side == here])[0]
    return training


def _units(rows: pd.DataFrame, query_ids: list[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Place of the unit of each query, and the names of the units; a query is its own unit where
    none is named.
    """
    if "unit" not in rows:
        return np.arange(len(query_ids)), tuple(query_ids)
    named = rows[["query_id", "unit"]].astype(str).drop_duplicates().sort_values("query_id")
    if len(twice := named.loc[named["query_id"].duplicated(), "query_id"].unique()):
        raise InputError(f"effects: query {offenders(twice)} has several units; give it one")
    units, unit_ids = _codes(named["unit"])
    return units, tuple(unit_ids)
