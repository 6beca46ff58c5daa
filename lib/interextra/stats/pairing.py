"""From tidy values to arrays that are paired by query_id, and what is known of the models behind.

*Tidy values* have a row a run, query and measure, with query_id, value and, where there is
something to say, seed (of the training), left_out (which of several models of a system a row is
of), unit (what is drawn together) and trained (the name of the trained model).
"""

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from interextra.stats.bootstrap import ratio
from interextra.store.errors import InputError, offenders

Key = tuple[Hashable, ...]  # the labels of a group of rows
Names = Mapping[tuple[int, int], Key]  # of the trained models of each side and model


class Models(NamedTuple):
    """The single models behind the values of a group; each is trained once or several times."""

    squares: float  # of the deviations of single trainings from the mean of their model
    counted: int  # degrees of freedom in `squares`: a model on both sides counts twice
    names: frozenset[Key]  # of each trained model those of its trainings, on whatever queries
    shares: np.ndarray  # float[n_sides], sum of squared weights of the models; 1: a single model
    is_trained: bool  # and named

    @property
    def variance(self) -> float:
        """Between the trainings of a model."""
        return self.squares / self.counted


class Paired(NamedTuple):
    """The values of a group; queries and units stand in the order of their ids."""

    values: np.ndarray  # float[n_queries, n_trainings, n_sides], repeats averaged
    units: np.ndarray  # int[n_queries], place of each query's unit
    unit_ids: tuple[str, ...]
    models: Models

    @property
    def sides(self) -> np.ndarray:
        """Means over trainings, float[n_queries, n_sides]."""
        return self.values.mean(axis=1)

    @property
    def difference(self) -> np.ndarray:
        """The second side minus the first, float[n_queries]."""
        first, second = self.sides.T
        return second - first


class Coded(NamedTuple):
    """Values float[n] and their labels as numbers int[n], the place among all labels of a kind."""

    query: np.ndarray
    side: np.ndarray
    training: np.ndarray  # among those of its side
    model: np.ndarray
    value: np.ndarray

    def ordered(self) -> "Coded":
        """Return the values by query, side, training, model and size."""
        order = np.lexsort(self[::-1])
        return Coded(*(column[order] for column in self))


def grouped(
    frame: pd.DataFrame,
    labels: Sequence[str],
) -> Iterator[tuple[Key, pd.DataFrame]]:
    """Yield the rows that share these labels, with the labels; all rows where there are none."""
    if labels:
        yield from frame.groupby(list(labels), sort=False, dropna=False)
    else:
        yield (), frame


def paired(
    rows: pd.DataFrame,
    on: str | None,
    sides: Sequence[object],
    key: Key,
) -> Paired:
    """Return the values of a group of rows, paired by query_id, whatever the order of the rows.

    Parameters
    ----------
    rows : tidy values, all of one system and measure.
    on : the column that tells the sides apart; None: there is one side only.
    sides : the values of `on`, in the order of the sides.
    key : the labels of the group: they name its models where no column does.

    Raises
    ------
    InputError
        A value is missing, or a query lacks a side or a training, or has several units.
    """
    is_missing = rows["value"].isna()
    _refuse(rows.loc[is_missing, "query_id"], "effects: no value for query {}")
    if "seed" in rows:
        has_no_seed = rows["seed"].isna()
        _refuse(rows.loc[has_no_seed, "query_id"], "effects: no seed for query {}")
    query, query_ids = _codes(rows["query_id"])
    coded = _coded(rows, on, sides, query)
    n_trainings = coded.training.max() + 1
    shape = (len(query_ids), n_trainings, max(1, len(sides)))
    names_of_models = _names_of_models(rows, coded, key)

    coded = coded.ordered()  # values of one query are added up in one order
    places = (coded.query, coded.training, coded.side)
    counts = _totals(places, shape)
    _refuse_gaps(counts, query_ids)
    weights = 1 / counts[places] / len(query_ids)  # of each value in the mean of its side
    models = _models(coded, weights, names_of_models, is_named="trained" in rows)
    units, unit_ids = _units(rows, query_ids)
    values = _totals(places, shape, coded.value) / counts
    return Paired(values, units, unit_ids, models)


def _refuse_gaps(counts: np.ndarray, query_ids: Sequence[str]) -> None:
    """Refuse a query without a value on a side or of a training, by int[queries, …] of values."""
    has_gap = (counts == 0).any(axis=(1, 2))
    lacking = [query_ids[place] for place in np.flatnonzero(has_gap).tolist()]
    _refuse(lacking, "effects: query {} lacks a side or a training; measure all alike")


def _refuse(query_ids: Iterable[str], problem: str) -> None:
    """Refuse these queries, if there are any; {} in the problem stands for their names."""
    distinct = dict.fromkeys(query_ids)
    if distinct:
        raise InputError(problem.format(offenders(distinct)))


def _codes(labels: pd.Series) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the place of each label, as text, among all of them in order, and these."""
    texts = labels.astype(object).astype(str)
    codes, names = pd.factorize(texts, sort=True)
    return codes, tuple(names)


def _coded(
    rows: pd.DataFrame,
    on: str | None,
    sides: Sequence[object],
    query: np.ndarray,
) -> Coded:
    """Return the values of some rows and their labels as numbers."""
    side = model = np.zeros(len(rows), np.int64)
    if on:
        side = pd.Index(sides).get_indexer(rows[on])
    if _is_folded(rows):
        model, _ = _codes(rows["left_out"])
    training = _trainings(rows, side)
    value = rows["value"].to_numpy(float)
    return Coded(query, side, training, model, value)


def _is_folded(rows: pd.DataFrame) -> bool:
    """Return whether the rows are of several models, each trained without a part of the queries."""
    return "left_out" in rows and bool(rows["left_out"].notna().all())


def _trainings(rows: pd.DataFrame, side: np.ndarray) -> np.ndarray:
    """Return the number of each row's training among those of its side, which has its own seeds."""
    training = np.zeros(len(rows), np.int64)
    if "seed" in rows:
        for number in np.unique(side):
            is_here = side == number
            training[is_here], _ = _codes(rows["seed"][is_here])
    return training


def _units(
    rows: pd.DataFrame,
    query_ids: tuple[str, ...],
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the place of each query's unit, and the units; a query without one is its own."""
    if "unit" not in rows:
        return np.arange(len(query_ids)), query_ids
    unit = rows["unit"].where(rows["unit"].notna(), rows["query_id"])
    unit_of = rows[["query_id"]].assign(unit=unit).astype(str)
    unit_of = unit_of.drop_duplicates().sort_values("query_id")
    is_repeated = unit_of["query_id"].duplicated()
    repeated = unit_of.loc[is_repeated, "query_id"]
    _refuse(repeated, "effects: query {} has several units; give it one")
    return _codes(unit_of["unit"])


def _totals(
    places: tuple[np.ndarray, ...],
    shape: tuple[int, ...],
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return the sums of weights, or counts, in the cells of a table of this shape."""
    cells = np.ravel_multi_index(places, shape)
    return np.bincount(cells, weights, minlength=math.prod(shape)).reshape(shape)


def _names_of_models(rows: pd.DataFrame, coded: Coded, key: Key) -> Names:
    """Return the names of the trained models of each side and model; of the untrained none.

    Where nobody named them, each group has models of its own: one a side, or, where they were
    trained without a part of the queries, the same ones on both sides.
    """
    columns = {"side": coded.side, "model": coded.model}
    labels = pd.DataFrame(columns)
    if "trained" in rows:
        labels["name"] = rows["trained"].fillna("").to_numpy(object)
        return {
            pair: tuple(sorted(set(names) - {""}))
            for pair, names in labels.groupby(["side", "model"])["name"]
        }
    trainings = range(coded.training.max() + 1)
    is_folded = _is_folded(rows)
    names_of_models = {}
    for side, model in labels.drop_duplicates().to_numpy().tolist():
        owner = (key, "both sides" if is_folded else side, model)
        names_of_models[side, model] = tuple(itertools.product([owner], trainings))
    return names_of_models


def _models(
    coded: Coded,
    weights: np.ndarray,
    names_of_models: Names,
    is_named: bool,
) -> Models:
    """Return what the trainings of the single models tell, of values with weights in their side."""
    places = (coded.side, coded.model, coded.training)
    shape = tuple(place.max() + 1 for place in places)
    counts = _totals(places, shape)
    sums = _totals(places, shape, coded.value)
    means = ratio(sums, counts)  # [sides, models, trainings]; NaN: not on this side
    shares = _totals(places, shape, weights)[..., 0]
    squares = []
    trained = set()
    for pair, names in names_of_models.items():
        is_there = counts[pair] > 0
        if names and is_there.any():
            if not is_there.all():
                raise InputError(
                    "effects: a model lacks a training that others of its side have; measure all "
                    "alike"
                )
            deviations = means[pair] - means[pair].mean()
            squares.append(deviations @ deviations)
            trained.add(names)
    n_trainings = shape[2]
    return Models(
        squares=math.fsum(squares),
        counted=(n_trainings - 1) * len(squares),
        names=frozenset(trained),
        shares=(shares**2).sum(axis=1),
        is_trained=is_named and bool(trained),
    )
