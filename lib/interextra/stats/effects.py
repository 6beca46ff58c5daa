"""Tables of effects, each with an interval: one bootstrap for all tables of the kit.

*Values* are tidy: a row a run, query and measure, with the run's labels (model, regime, seed …),
query_id, measure and value. `effects` compares two sides of them; its table, an `Effects`, carries
the draws of each row.

Values are paired by query_id, whatever the order of the rows. What is drawn seeds its draws: the
ids of the queries (or of their units) and the name of their stratum. So systems measured on the
same queries are drawn jointly, those measured on other queries independently, and nothing else in a
table moves a row. Taught in notebooks/02_restrain.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from interextra.stats.bootstrap import interval, ratio, resampled_means, seed_of, stretched
from interextra.stats.pairing import Key, Paired, grouped, paired
from interextra.stats.tests import holm, paired_t
from interextra.stats.trainings import (
    ONE_TRAINING,
    QUERIES,
    TRAININGS,
    TrainingNoise,
    training_noises,
)
from interextra.store.errors import InputError, offenders

DRAWS = "draws"  # the column of a table that is for computing on, not for reading
# columns of tables → their headings on a page
HEADINGS = {
    "p_value": "p",
    "p_holm": "p, Holm",
    "p_equivalent": "p of equality",
    "test_set": "test set",
    "query_id": "query",
    "doc_id": "passage",
    "n_queries": "queries",
    "n_models": "models",
    "n_units": "units",
    "n_train": "training queries",
    "n_trainings": "training runs",
}
DRAWN = "drawn_units"  # column of a table whose draws are not of queries: models, clusters
SYSTEM = ("model", "measure", "average")  # labels of a system and of what it is measured by
Statistic = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of the means of both sides
KINDS: dict[str, Statistic] = {  # by the name of an effect
    # Zhan et al.; the RelLoss of Lupart et al. is -delta
    "delta": lambda first, second: ratio(second, first) - 1,
    "difference": lambda first, second: second - first,
    "mean": lambda first, second: first,
}


@dataclass(frozen=True, eq=False, slots=True)
class Draws:
    """The resamples of one row of a table of effects, float[n_boot] each, in its column `draws`."""

    by: tuple[str, ...]  # the columns that name the row
    columns: dict[str, str]  # first, second, effect → the column that holds the estimate
    first: np.ndarray
    second: np.ndarray
    effect: np.ndarray
    # By how much the mean over plain resamples (not stretched, without the noise of training)
    # exceeds the effect. The draws keep it. 0 where it is not computed, as for a contrast.
    bias: float = 0.0
    # What the noise of training adds to the draws of first, second and effect, float[3, n_boot];
    # None where nothing was trained twice, and where it is not kept
    noise: np.ndarray | None = None

    def __repr__(self) -> str:
        """Return how many draws of which effect they are: thousands of numbers tell less."""
        return f"{len(self.effect):,} draws of {self.columns['effect']}"


class Effects(pd.DataFrame):
    """A table of effects whose rows carry their draws, whatever is done to it as a table.

    What is printed are the estimates: the column `draws` is left out.
    """

    @property
    def _constructor(self) -> type["Effects"]:
        return Effects

    def __repr__(self) -> str:
        """Return the estimates as pandas prints a table."""
        return repr(pd.DataFrame(self).drop(columns=DRAWS, errors="ignore"))

    @classmethod
    def of(
        cls,
        table: pd.DataFrame,
        by: Sequence[str],
        columns: Sequence[str],
        *drawn: Sequence[np.ndarray],
        bias: Sequence[float] | None = None,
        noise: Sequence[np.ndarray | None] | None = None,
    ) -> "Effects":
        """Return a table with the draws of its effects, or of both sides and the effect.

        Parameters
        ----------
        table : a row an effect.
        by : the columns that name a row.
        columns : those of the estimates of first, second and effect; or that of the effect alone.
        drawn : float[rows, n_boot] of each of the columns.
        bias, noise : of each row, see `Draws`; unless given, 0 and None.
        """
        if len(columns) == 1:  # the effect stands for both sides, too
            columns = [*columns] * 3
            drawn = drawn * 3
        column_of = dict(zip(("first", "second", "effect"), columns, strict=True))
        biases = [0.0] * len(table) if bias is None else bias
        noises = [None] * len(table) if noise is None else noise
        rows = zip(*drawn, biases, noises, strict=True)
        draws = [Draws(tuple(by), column_of, *row) for row in rows]
        return cls(table.assign(**{DRAWS: pd.Series(draws, table.index, object)}))

    def drawn(self, what: str = "effect") -> np.ndarray:
        """Return the draws float[rows, n_boot] of the effects, or of the `first` or `second` side.

        Raises
        ------
        InputError
            The table has no draws.
        """
        return np.stack([getattr(draws, what) for draws in self._draws()])

    def noise(self, what: str = "effect") -> np.ndarray:
        """Return what of `drawn` is noise of training, float[rows, n_boot].

        0 where nothing was trained twice.
        """
        place = ("first", "second", "effect").index(what)
        rows = []
        for draws in self._draws():
            of_row = draws.noise
            rows.append(np.zeros_like(draws.effect) if of_row is None else of_row[place])
        return np.stack(rows)

    def _draws(self) -> pd.Series:
        """Return the column of the draws."""
        if DRAWS not in self:
            raise InputError(
                "this table has no draws: take a table of `effects`, or some of its rows"
            )
        return self[DRAWS]

    def _estimates(self) -> pd.Series:
        """Return the column of the effects."""
        return self[self._draws().iloc[0].columns["effect"]]

    def _repr_html_(self) -> str:
        return shown(self).to_html()

    def without(self, label: str, effect: str) -> "Effects":
        """Return means whose rows are named by the other labels, with their draws and noise.

        Parameters
        ----------
        label : one of those that name the rows, which the others tell apart, too.
        effect : what the column `mean` is called.
        """
        by = [name for name in self._draws().iloc[0].by if name != label]
        table = self.drop(columns=[label, DRAWS]).rename(columns={"mean": effect})
        noise = [draws.noise for draws in self._draws()]
        return Effects.of(table, by, [effect], list(self.drawn()), noise=noise)

    def contrast(self, column: str, pairs: Sequence[tuple]) -> "Effects":
        """Return the effect of one system minus that of another, on the same draws.

        Parameters
        ----------
        column : one of those that name the rows, e.g. model.
        pairs : (first, second) values of the column. A pair has no row where one of them is
            missing among the rows of the same other labels.

        Returns
        -------
        Effects[the other labels, first, second, difference, low, high]

        Examples
        --------
        >>> values = pd.DataFrame(
        ...     {"model": list("aabb"), "query_id": list("pqpq"), "value": [0.8, 0.6, 0.4, 0.3]}
        ... )
        >>> means = effects(values, ["model"])
        >>> means.contrast("model", [("a", "b")])["difference"].round(9).tolist()
        [0.35]
        """
        by = self._draws().iloc[0].by
        others = [label for label in by if label != column]
        rows, drawn = [], []
        for key, part in grouped(self, others):
            draws = dict(zip(part[column], part.drawn(), strict=True))
            estimates = dict(zip(part[column], part._estimates(), strict=True))
            for first, second in pairs:
                if first in draws and second in draws:
                    difference = estimates[first] - estimates[second]
                    drawn_difference = draws[first] - draws[second]
                    rows.append((*key, first, second, difference, *interval(drawn_difference)))
                    drawn.append(drawn_difference)
        labels = [*others, "first", "second"]
        table = pd.DataFrame(rows, columns=[*labels, "difference", "low", "high"])
        return Effects.of(table, labels, ["difference"], drawn)

    def beside(self, published: pd.DataFrame, on: Sequence[str]) -> "Effects":
        """Return the rows with the published effects beside them: `published`, and a `verdict`.

        A published effect is all numbers that are printed like it, from scaled - rounding to
        scaled + rounding. The verdict is the first that applies:

        - "": nothing is published;
        - undecided: our effect or its interval is undefined, or our interval includes 0, or the
          published effect includes 0 and lies outside our interval;
        - agrees: the published effect overlaps our interval;
        - same direction: both effects have the same sign;
        - opposite.

        Parameters
        ----------
        published : rows of `papers.published.load`, or others with the columns of `on`, scaled (the
            effect on our scale) and rounding (half a unit of its last digit). Several of our rows
            may stand beside the same published one.
        on : columns that name an effect on both sides.

        Raises
        ------
        InputError
            A column of `on` is missing, or a published effect is named twice.
        """
        on = list(on)
        absent = [name for name in on if name not in self or name not in published]
        if absent:
            raise InputError(f"published effects: {offenders(absent)} is no column of both tables")
        is_repeated = published.duplicated(on)
        if is_repeated.any():
            repeated = published.loc[is_repeated, on].itertuples(index=False, name=None)
            raise InputError(
                f"published effects: named twice: {offenders(repeated)}; "
                "add to `on` the columns that tell them apart"
            )
        theirs = published[[*on, "scaled", "rounding"]]
        beside = pd.DataFrame(self[on]).merge(theirs, how="left", on=on)
        beside.index = self.index
        verdicts = _verdicts(self, beside["scaled"], beside["rounding"])
        return self.assign(published=beside["scaled"], verdict=verdicts)


def _verdicts(table: Effects, theirs: pd.Series, rounding: pd.Series) -> np.ndarray:
    """Return what our effects and their intervals say of the published ones, see `beside`."""
    ours = table._estimates()
    low = table["low"]
    high = table["high"]
    reach = rounding + 1e-12  # an end that is equal but for binary fractions counts as inside
    is_inside = (low <= theirs + reach) & (theirs - reach <= high)
    is_zero = theirs.abs() <= reach
    is_undefined = ours.isna() | low.isna() | high.isna()
    includes_zero = (low <= 0) & (high >= 0)
    rules = {
        "": theirs.isna(),
        "undecided": is_undefined | includes_zero | (is_zero & ~is_inside),
        "agrees": is_inside,
        "same direction": ours * theirs > 0,
    }
    return np.select(list(rules.values()), list(rules), "opposite")


def effects(
    values: pd.DataFrame,
    by: Sequence[str],
    on: str | None = None,
    sides: tuple = (),
    effect: str = "mean",
    strata: str | None = None,
    family: Sequence[str] | None = None,
    seed: int = 0,
    n_boot: int = 10_000,
) -> Effects:
    """Return a table of effects: a row a group with the means of its sides, and an interval.

    Parameters
    ----------
    values : tidy values; several of one query, side and training are averaged, such as those of
        the k - 1 models that trained on the query's cluster. Columns that they may have:

        - seed: of the training.
        - left_out: which of the models of a system a value is of, such as the cluster that it was
          not trained on.
        - unit: queries of the same unit are drawn together.
        - trained: the name of the trained model, the same on whatever queries; "" where nothing was
          trained.
    by : labels that make a group.
    on, sides : the label that tells the two sides apart, and its two values, e.g.
        ("interpolation", "extrapolation"). Without them the mean of each group.
    effect : delta, difference or mean (of the first side, if there are two), see `KINDS`; undefined
        (NaN) where it divides by a mean of 0.
    strata : a column; queries are drawn within each of its values, and the effect is the mean of
        the strata's effects.
    family : labels of `by`; Holm's correction is over the rows that share them, over all rows if it
        is empty. Unless given, the measure where `by` has it.
    seed : of the draws, with the ids of what is drawn.
    n_boot : number of resamples.

    Returns
    -------
    Effects[*by, *sides, effect, low, high, p_value, p_holm, n_queries, n_units, n_trainings,
    sd_trainings, over]
        Columns of the sides and of the effect bear their names. p_value is of the paired t-test
        over queries: of two sides, without strata. n_units: what is drawn, queries or units of
        them. sd_trainings is the standard deviation between trainings of the mean of a single model
        on the queries of its row, with strata on those of the first one by name, see
        `training_noises`; where it is missing, nothing was trained twice. over: what the interval
        is over, QUERIES, ONE_TRAINING (the next one may come out otherwise) or TRAININGS.
        Intervals: see `stretched` and `interval`.

    Raises
    ------
    InputError
        Unknown columns or effect, not two sides, a missing value, a query that has one side only or
        several units, or no values at all.

    Examples
    --------
    >>> values = pd.DataFrame(
    ...     {"regime": list("iiee"), "query_id": list("abba"), "value": [0.8, 0.6, 0.4, 0.3]}
    ... )
    >>> table = effects(values, [], "regime", ("i", "e"), "delta", family=[])
    >>> table[["delta", "n_queries"]].values.tolist()
    [[-0.5, 2.0]]
    """
    by = list(by)
    if family is None:
        family = [name for name in by if name == "measure"]
    _refuse_columns(values, [*by, on, strata], family, by)
    _refuse_sides(on, sides, effect)
    values = _of_these_sides(values, on, sides)
    labels = [*by, strata] if strata else by
    parts = {}
    for key, part in grouped(values, labels):
        parts[key] = paired(part, on, sides, key)
    groups = _resampled_groups(parts, labels, len(by), seed, n_boot)
    # without sides, all three columns are the same one, the mean
    names_of_sides = map(str, sides or ("mean", "mean"))
    columns = [*names_of_sides, effect]
    table = _estimated(groups, by, columns, effect)
    if on:
        p_values = [np.nan] * len(table)
        if not strata:  # then each part is a row, in the same order
            p_values = [paired_t(part.difference) for part in parts.values()]
        _insert_p_values(table, p_values, family)
    return table


def _of_these_sides(values: pd.DataFrame, on: str | None, sides: tuple) -> pd.DataFrame:
    """Return the values of the sides; refuse values that hold none."""
    if on:
        values = values[values[on].isin(sides)]
    if values.empty:
        names = offenders(sides) or "any run"
        raise InputError(f"effects: no values of {names}; nothing was measured")
    return values


def _refuse_columns(
    values: pd.DataFrame,
    labels: Sequence[str | None],
    family: Sequence[str],
    by: Sequence[str],
) -> None:
    """Refuse values without one of these columns, and a family by a label that is not in `by`."""
    wanted = [name for name in labels if name] + ["query_id", "value"]
    absent = [name for name in wanted if name not in values]
    if absent:
        there = ", ".join(map(str, values.columns))
        raise InputError(f"effects: no column {offenders(absent)}; there are {there}")
    strange = [name for name in family if name not in by]
    if strange:
        there = ", ".join(by)
        raise InputError(
            f"effects: family: {offenders(strange)} is no label of a row; there are {there}"
        )


def _refuse_sides(on: str | None, sides: tuple, effect: str) -> None:
    """Refuse an unknown effect, sides that do not fit `on`, and an effect that lacks its sides."""
    if effect not in KINDS:
        raise InputError(f"effects: no effect {effect!r}; there are {', '.join(KINDS)}")
    n_sides = 0 if on is None else 2
    is_repeated = len(set(sides)) < len(sides)
    if len(sides) != n_sides or is_repeated:
        raise InputError(
            f"effects: on = {on!r}, sides = {sides!r}; give a column and its two values, or neither"
        )
    if effect != "mean" and on is None:
        raise InputError(
            f"effects: a {effect} is between two sides; give `on` and `sides`, or take the mean"
        )


def _insert_p_values(table: Effects, p_values: Sequence[float], family: Sequence[str]) -> None:
    """Insert p-values behind the intervals of a table, and Holm's, within families of rows."""
    place = list(table).index("high") + 1
    table.insert(place, "p_value", p_values)
    one_family = np.zeros(len(table))
    families = list(family) or one_family
    by_family = table.groupby(families, dropna=False)
    adjusted = by_family["p_value"].transform(holm)
    table.insert(place + 1, "p_holm", adjusted)


class _Stratum(NamedTuple):
    """A group in one stratum: what was measured, what was resampled, and the noise of training."""

    part: Paired
    resampled: np.ndarray  # float[n_boot, n_sides], means of the sides on resamples of the units
    noisy: np.ndarray  # float[n_boot, n_sides], the same plus the noise of training
    noise: TrainingNoise

    @property
    def means(self) -> np.ndarray:
        """Of the sides, float[n_sides]."""
        return self.part.values.mean(axis=(0, 1))

    @property
    def n_units(self) -> int:
        """What is drawn: queries, or units of them."""
        return len(self.part.unit_ids)


class _Estimate(NamedTuple):
    """An estimate and its draws."""

    value: float
    draws: np.ndarray  # float[n_boot]
    noise: np.ndarray  # float[n_boot], what of them is of training
    bias: float  # see `Draws`; a ratio of means has one


def _resampled_groups(
    parts: Mapping[Key, Paired],
    labels: Sequence[str],
    n_by: int,
    seed: int,
    n_boot: int,
) -> dict[Key, list[_Stratum]]:
    """Return the strata of each group with all that is drawn for them.

    The first `n_by` labels of a key name the group, one behind them the stratum. Groups have the
    order of the parts, strata that of their names.
    """
    resampled = _resampled(parts, n_by, seed, n_boot)
    places_of_system = [labels.index(name) for name in SYSTEM if name in labels]
    noises = training_noises(parts, places_of_system)
    groups: dict[Key, list[_Stratum]] = {key[:n_by]: [] for key in parts}
    for key in sorted(parts, key=str):
        part = parts[key]
        noise = noises[key]
        means = resampled[key]
        noisy = means + _drawn_noise(part, noise, key, seed, n_boot)
        stratum = _Stratum(part, means, noisy, noise)
        groups[key[:n_by]].append(stratum)
    return groups


def _resampled(
    parts: Mapping[Key, Paired],
    n_by: int,
    seed: int,
    n_boot: int,
) -> dict[Key, np.ndarray]:
    """Return resampled means float[n_boot, n_sides]; those of the same units share their draws.

    Other units, and the same ones in a stratum of another name, have other seeds.
    """
    resampled: dict[Key, np.ndarray] = {}
    keys_by_units = _keys_by_units(parts, n_by)
    for (stratum, unit_ids, _), keys in keys_by_units.items():
        own_seed: tuple[int, ...] = seed_of(seed, unit_ids)
        if stratum:
            _, number_of_stratum = seed_of(seed, stratum)
            own_seed = (*own_seed, number_of_stratum)
        units = parts[keys[0]].units
        tables = [parts[key].values for key in keys]
        means_of_tables = resampled_means(tables, units, own_seed, n_boot)
        for key, means in zip(keys, means_of_tables, strict=True):
            resampled[key] = means.mean(axis=1)  # of float[n_boot, n_trainings, n_sides]
    return resampled


def _keys_by_units(parts: Mapping[Key, Paired], n_by: int) -> dict[tuple, list[Key]]:
    """Return the keys of parts that share their draws, by what these parts have in common.

    It is the stratum (() without strata), the ids of the units, and the unit of each query, as
    bytes.
    """
    keys_by_units: dict[tuple, list[Key]] = {}
    for key, part in parts.items():
        stratum = tuple(map(str, key[n_by:]))
        shared = (stratum, part.unit_ids, part.units.tobytes())
        keys_by_units.setdefault(shared, []).append(key)
    return keys_by_units


def _drawn_noise(
    part: Paired,
    noise: TrainingNoise,
    key: Key,
    seed: int,
    n_boot: int,
) -> np.ndarray:
    """Return draws float[n_boot, n_sides] of the noise of training in the means of the sides.

    The noise is normal, its own uncertainty chi-squared; the key is part of its seed. There is none
    (0) where nothing was trained twice.

    Noise is drawn for each side and stratum by itself, although one model may stand on several, and
    although the values of drawn queries hold a part of it. So where strata differ little, as random
    ones do, intervals are wider than they need be.
    """
    _, n_trainings, n_sides = part.values.shape
    if not noise.freedom:
        return np.zeros((n_boot, n_sides))
    name = repr(tuple(map(str, key)))
    random = np.random.default_rng(seed_of(seed, [name]))
    scale = np.sqrt(noise.freedom / random.chisquare(noise.freedom, n_boot))
    # float[n_sides]; a side is a mean over trainings and, by their shares, over models
    deviations = noise.deviation * np.sqrt(part.models.shares / n_trainings)
    normal = random.normal(size=(n_boot, n_sides))
    return normal * scale[:, None] * deviations


def _estimated(
    groups: Mapping[Key, Sequence[_Stratum]],
    by: Sequence[str],
    columns: Sequence[str],
    effect: str,
) -> Effects:
    """Return the effects of groups; `columns` are those of both sides and the effect."""
    statistics: tuple[Statistic, ...] = (
        lambda first, second: first,
        lambda first, second: second,
        KINDS[effect],
    )
    table = pd.DataFrame(list(groups), columns=by)
    drawn, noises = [], []
    for column, statistic in zip(columns, statistics, strict=True):
        estimates = [_over_strata(strata, statistic) for strata in groups.values()]
        table[column] = [estimate.value for estimate in estimates]
        drawn.append([estimate.draws for estimate in estimates])
        noises.append([estimate.noise for estimate in estimates])
    # the last column is that of the effect
    biases = [estimate.bias for estimate in estimates]
    ends = map(interval, drawn[-1])
    table[["low", "high"]] = list(ends)
    counts = pd.DataFrame(map(_counts, groups.values()))
    table = table.join(counts)
    noise_of_rows = map(_kept_noise, zip(*noises, strict=True))
    return Effects.of(table, by, columns, *drawn, bias=biases, noise=list(noise_of_rows))


def _kept_noise(of_columns: Sequence[np.ndarray]) -> np.ndarray | None:
    """Return the noise of a row for its three columns, None where nothing was trained twice."""
    return np.stack(of_columns) if np.any(of_columns) else None


def _over_strata(strata: Sequence[_Stratum], statistic: Statistic) -> _Estimate:
    """Return the mean over strata of a statistic of the means of the sides, drawn within each.

    What is drawn of queries is widened twice: in each stratum, as the variance of resamples is too
    small, and then their mean over strata, as few units tell little of it (`stretched`). The noise
    of training comes on top.
    """
    n_units = np.array([stratum.n_units for stratum in strata])
    # the variance of resamples of n units is (n - 1) / n of that of new ones; NaN for one unit
    widening = np.sqrt(ratio(n_units, n_units - 1))
    values = np.stack([_of_sides(stratum.means, statistic) for stratum in strata])
    plain = np.stack([_of_sides(stratum.resampled, statistic) for stratum in strata])
    noisy = np.stack([_of_sides(stratum.noisy, statistic) for stratum in strata])
    centres = values[:, None]
    of_queries = centres + widening[:, None] * (plain - centres)  # [strata, n_boot]
    of_training = noisy - plain
    value = fmean(values)
    variances = of_queries.var(axis=1)
    freedom = _degrees_of_freedom(variances, n_units - 1)
    widened = stretched(of_queries.mean(axis=0), value, freedom)
    noise = of_training.mean(axis=0)
    return _Estimate(
        value,
        draws=widened + noise,
        noise=noise,
        bias=plain.mean() - value,
    )


def _of_sides(means: np.ndarray, statistic: Statistic) -> np.ndarray:
    """Return a statistic of the means of the sides, float[..., n_sides]; a single one is both."""
    return statistic(means[..., 0], means[..., -1])


def _degrees_of_freedom(variances: np.ndarray, freedoms: np.ndarray) -> float:
    """Return the degrees of freedom of the mean over strata, by Welch and Satterthwaite.

    Parameters
    ----------
    variances : float[strata], of the estimate in each stratum.
    freedoms : int[strata], degrees of freedom of each variance; where one is 0, the result is 0.
    """
    if not freedoms.all():
        return 0.0
    below = (variances**2 / freedoms).sum()
    if below > 0:
        return variances.sum() ** 2 / below
    return freedoms.sum()  # nothing varies


def _counts(strata: Sequence[_Stratum]) -> dict[str, Any]:
    """Return the columns of a row that count what is behind it."""
    if any(stratum.noise.freedom for stratum in strata):
        over = TRAININGS
    elif any(stratum.part.models.is_trained for stratum in strata):
        over = ONE_TRAINING
    else:
        over = QUERIES
    return {
        "n_queries": sum(len(stratum.part.values) for stratum in strata),
        "n_units": sum(stratum.n_units for stratum in strata),
        "n_trainings": min(stratum.part.values.shape[1] for stratum in strata),
        "sd_trainings": strata[0].noise.deviation,
        "over": over,
    }


def across(
    table: pd.DataFrame,
    unit: str,
    by: Sequence[str],
    effect: str,
) -> pd.DataFrame:
    """Return the mean of an effect over few independent units, such as worlds.

    Parameters
    ----------
    table : several rows of a unit and group are averaged first.
    unit : the column of the units.
    by : columns that make a group, one or more.
    effect : the column of the effect.

    Returns
    -------
    DataFrame[*by, effect, low, high, least, most, n]
        Student's 95 % interval over the n units; none (NaN) for a single one, nor where all are
        alike.
    """
    of_units = table.groupby([*by, unit], sort=False, dropna=False)[effect].mean()
    groups = of_units.groupby(list(by), sort=False, dropna=False)
    columns = {effect: "mean", "low": "mean", "high": "mean"}
    means = groups.agg(**columns, least="min", most="max", n="count")
    error = groups.sem()
    error = error.where(error > 1e-12)
    reach = stats.t.ppf(0.975, means["n"] - 1) * error
    means["low"] -= reach
    means["high"] += reach
    return means.reset_index()


def shown(frame: pd.DataFrame) -> "pd.io.formats.style.Styler":
    """Return a table for the page.

    All text is escaped and to the left, numbers have three digits unless all of a column are whole;
    p < .001, yes and no, a dash for nothing, no index. Names of columns are in words.
    """
    frame = pd.DataFrame(frame.drop(columns=DRAWS, errors="ignore"))
    p_values = [HEADINGS.get(name, name) for name in frame if str(name).startswith("p_")]
    frame = _in_words(frame)
    whole = [name for name in frame if _is_whole(frame[name])]
    text_columns = frame.select_dtypes(exclude="number").columns
    to_the_left = [{"selector": "", "props": "text-align: left"}]
    page = frame.style.hide(axis="index")
    formats = dict.fromkeys(p_values, _p_value) | dict.fromkeys(whole, "{:.0f}")
    page = page.format(formats, precision=3, na_rep="–", escape="html")
    page = page.format_index(escape="html", axis=1)
    return page.set_table_styles(dict.fromkeys(text_columns, to_the_left))


def _in_words(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with headings and truth values in words; headings stay different."""
    truths = frame.select_dtypes("bool").columns
    in_words = frame.copy()
    for name in truths:
        in_words[name] = frame[name].map({True: "yes", False: "no"})
    headings = {name: words for name, words in HEADINGS.items() if words not in frame}
    return in_words.rename(columns=headings)


def _is_whole(column: pd.Series) -> bool:
    """Return whether a column of floating-point numbers holds whole ones alone, such as counts."""
    if not pd.api.types.is_float_dtype(column):
        return False
    numbers = column.dropna()
    return bool(len(numbers) and (numbers % 1 == 0).all())


def _p_value(p: float) -> str:
    """Return a p-value with three digits, or that it is smaller than these can say."""
    return "< .001" if p < 0.001 else f"{p:.3f}"
