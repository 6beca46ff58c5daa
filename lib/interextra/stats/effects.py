"""From values per query to tables of effects, each with an interval: one bootstrap for all tables
of the kit.

*Values* are tidy: a row a run, query and measure, with the run's labels (model, regime, seed …),
query_id, measure and value. `effects` compares two sides of them; its table, an `Effects`, carries
the draws of each row.

Values are paired by query_id, whatever the order of the rows. What is drawn seeds its draws: the
ids of the queries (or of their units) and the name of their stratum. So systems measured on the
same queries are drawn jointly, those measured on other queries independently, and nothing else in a
table moves a row. Taught in notebooks/02_restrain.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from interextra.stats.bootstrap import (
    interval,
    ratio,
    resampled_means,
    seed_of,
    stretched,
)
from interextra.stats.pairing import _grouped, _Part, _part
from interextra.stats.tests import _paired_t, holm
from interextra.stats.trainings import ONE_TRAINING, QUERIES, TRAININGS, _Noise, _noises
from interextra.store.errors import InputError, offenders

DRAWS = "draws"  # the column of a table that is for computing on, not for reading
DRAWN = "drawn_units"  # column of a table whose draws are not of queries: models, clusters
THEIRS = ["scaled", "rounding"]  # columns of published effects
KINDS = {  # name of an effect → from the means of the first and the second side
    "delta": lambda first, second: (
        ratio(second, first) - 1
    ),  # Zhan et al.; the RelLoss of Lupart et al. is -delta
    "difference": lambda first, second: second - first,
    "mean": lambda first, second: first,
}


@dataclass(frozen=True, eq=False, slots=True)
class Draws:
    """The resamples of one row of a table of effects, float[n_boot] each; they ride in its column
    `draws`.
    """

    by: tuple[str, ...]  # the columns that name the row
    columns: dict[str, str]  # first, second, effect → the column that holds the estimate
    first: np.ndarray
    second: np.ndarray
    effect: np.ndarray
    bias: float = 0.0  # what plain resamples of the queries shift the effect by


class Effects(pd.DataFrame):
    """A table of effects whose rows carry their draws, whatever is done to it as a table."""

    @property
    def _constructor(self) -> type["Effects"]:
        return Effects

    @classmethod
    def of(
        cls,
        table: pd.DataFrame,
        by: Sequence[str],
        columns: Sequence[str],
        *drawn: Sequence[np.ndarray],
        bias: Sequence[float] | None = None,
    ) -> "Effects":
        """A table with draws float[rows, n_boot] of its effects, or of both sides and the effect,
        in `columns`.

        Of a table with one column, that of the effect, this also stands for both sides. `bias`: of
        each row, or none.
        """
        names = list(columns) if len(columns) == 3 else [columns[0]] * 3
        sides = list(drawn) if len(drawn) == 3 else [drawn[0]] * 3
        named = dict(zip(("first", "second", "effect"), names, strict=True))
        rows = zip(*sides, [0.0] * len(table) if bias is None else bias, strict=True)
        return cls(table.assign(**{DRAWS: [Draws(tuple(by), named, *row) for row in rows]}))

    def drawn(self, what: str = "effect") -> np.ndarray:
        """The draws float[rows, n_boot] of the effects, or of the `first` or `second` sides."""
        if DRAWS not in self:
            raise InputError(
                "this table has no draws: take a table of `effects`, or some of its rows"
            )
        return np.stack([getattr(draws, what) for draws in self[DRAWS]])

    def _repr_html_(self) -> str:
        return shown(self).to_html()

    def contrast(self, column: str, pairs: Sequence[tuple]) -> "Effects":
        """Effect of one system less that of another, on the same draws.

        `pairs`: (first, second) values of `column`, which is one of those that name the rows, e.g.
        model; a group that lacks one of them has no row. Returns Effects[the other labels, first,
        second, difference, low, high].

        >>> values = pd.DataFrame({"model": list("aabb"), "query_id": list("pqpq"), "value": [0.8, 0.6, 0.4, 0.3]})
        >>> effects(values, ["model"]).contrast("model", [("a", "b")])["difference"].round(9).tolist()
        [0.35]
        """
        every, rows, drawn = self.drawn(), [], []
        estimates = self[self[DRAWS].iloc[0].columns["effect"]].to_numpy(float)
        others = [label for label in self[DRAWS].iloc[0].by if label != column]
        for key, part in _grouped(self.assign(_row=range(len(self))), others):
            of = dict(zip(part[column], part["_row"], strict=True))
            for first, second in [pair for pair in pairs if set(pair) <= of.keys()]:
                difference = estimates[of[first]] - estimates[of[second]]
                draws = every[of[first]] - every[of[second]]
                rows.append((*key, first, second, difference, *interval(draws)))
                drawn.append(draws)
        labels = [*others, "first", "second"]
        table = pd.DataFrame(rows, columns=[*labels, "difference", "low", "high"])
        return Effects.of(table, labels, ["difference"], drawn)

    def beside(self, published: pd.DataFrame, on: Sequence[str]) -> "Effects":
        """The rows with the published effects beside them: `published`, and one `verdict` a row by
        the rules below.

        `published`: rows of `papers.published.load`, or others with the columns of `on`, which name
        an effect on both sides, scaled and rounding. Several of our rows may stand beside the same
        published one. InputError: a column of `on` is missing, or a published effect is named
        twice.
        """
        on = list(on)
        if absent := [name for name in on if name not in self or name not in published]:
            raise InputError(f"published effects: {offenders(absent)} is no column of both tables")
        if (twice := published.duplicated(on)).any():
            several = offenders(published.loc[twice, on].itertuples(index=False, name=None))
            raise InputError(
                f"published effects: named twice: {several}; add to `on` the columns that tell them apart"
            )
        printed = pd.DataFrame(self[on]).merge(published[[*on, *THEIRS]], how="left", on=on)
        theirs, reach = (printed[name].set_axis(self.index) for name in THEIRS)
        reach += 1e-12  # binary fractions: -0.13 must be within half a percent of -0.125
        ours, low, high = self[self[DRAWS].iloc[0].columns["effect"]], self["low"], self["high"]
        inside, is_zero = (low <= theirs + reach) & (theirs - reach <= high), theirs.abs() <= reach
        undecided = (
            ours.isna()
            | low.isna()
            | high.isna()
            | ((low <= 0) & (high >= 0))
            | (is_zero & ~inside)
        )
        # the first that applies; the published effect counts with its rounding
        rules = {
            "": theirs.isna(),
            "undecided": undecided,
            "agrees": inside,
            "same direction": ours * theirs > 0,
        }
        return self.assign(
            published=theirs, verdict=np.select(list(rules.values()), list(rules), "opposite")
        )


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
    """One row a group: means of the sides, their effect and its interval.

    Parameters
    ----------
    values : tidy values; several of one query, side and training (the k - 1 models that had its
    cluster) are averaged.
        They may have the columns seed (trainings), left_out (the model of a row made of several),
        unit (queries that are drawn together) and trained (which trained model a value is of, the
        same name on whatever queries; "" for what is not trained).
    by : labels that make a group. on, sides : the label that tells the two sides apart, and its two
    values, e.g. ("interpolation", "extrapolation").
        Without them the mean of each group.
    effect : delta, difference or mean, see `KINDS`; undefined (NaN) where it divides by a mean of
    0. strata : a column; queries are drawn within each of its values, and the effect is the mean of
    the strata's effects. family : Holm's correction holds within rows that share these labels of
    `by`; unless given, the measure.

    Returns
    -------
    Effects[*by, *sides, effect, low, high, p_value, p_holm, n_queries, n_units, n_trainings,
    sd_trainings, over]
        Columns of the sides and of the effect bear their names. p_value is of the paired t-test
        over queries: of two sides, without strata. n_units: what is drawn, queries or units of
        them. sd_trainings is the standard deviation between trainings of the mean of a single model
        on the queries of its row and stratum, see `_noises`; where it is missing, nothing was
        trained twice. over: what the interval is over, QUERIES, ONE_TRAINING (the next one may come
        out otherwise) or TRAININGS. Intervals: see `stretched` and `interval`.

    Raises
    ------
    InputError
        unknown columns or effect, not two sides, a missing value, a query that has one side only or
        several units, or no values at all.

    Examples
    --------
    >>> values = pd.DataFrame({"regime": list("iiee"), "query_id": list("abba"), "value": [0.8, 0.6, 0.4, 0.3]})
    >>> effects(values, [], "regime", ("i", "e"), "delta", family=[])[["delta", "n_queries"]].values.tolist()
    [[-0.5, 2.0]]
    """
    by = list(by)
    family = [name for name in by if name == "measure"] if family is None else list(family)
    _refuse(values, by, on, sides, effect, strata, family)
    kept = values[values[on].isin(sides)] if on else values
    if kept.empty:
        raise InputError(
            f"effects: no values of {offenders(sides) or 'any run'}; nothing was measured"
        )
    groups = [*by, strata] if strata else by
    parts = {key: _part(rows, on, sides, key) for key, rows in _grouped(kept, groups)}
    resampled = _resampled(parts, len(by) if strata else None, seed, n_boot)
    systems = [groups.index(name) for name in ("model", "measure", "average") if name in groups]
    noises = _noises({key: part.models for key, part in parts.items()}, systems)
    rows, drawn, biases = [], [], []
    for key in dict.fromkeys(key[: len(by)] for key in parts):
        mine = sorted((name for name in parts if name[: len(by)] == key), key=str)
        strata_here = [
            _Stratum.of(parts[name], resampled[name], noises[name], name, seed) for name in mine
        ]
        first, second, change = _combined(strata_here, effect)
        names = [str(side) for side in sides] or ["mean"]
        row = dict(zip(by, key, strict=True)) | dict(
            zip(names, (first.estimate, second.estimate), strict=False)
        )
        row |= {effect: change.estimate} | dict(
            zip(("low", "high"), interval(change.draws), strict=True)
        )
        if on:
            row["p_value"] = np.nan if strata else _paired_t(parts[key].values.mean(axis=1))
        rows.append(row | _counts([parts[name] for name in mine], [noises[name] for name in mine]))
        drawn.append((first.draws, second.draws, change.draws))
        biases.append(change.bias)
    table = pd.DataFrame(rows)
    if on:
        alike = table.groupby(family or np.zeros(len(table)), dropna=False)["p_value"]
        table.insert(
            table.columns.get_loc("p_value") + 1, "p_holm", alike.transform(lambda p: holm(p))
        )
    return Effects.of(
        table, by, [names[0], names[-1], effect], *zip(*drawn, strict=True), bias=biases
    )


def _refuse(
    values: pd.DataFrame,
    by: Sequence[str],
    on: str | None,
    sides: tuple,
    effect: str,
    strata: str | None,
    family: Sequence[str],
) -> None:
    """InputError for what `effects` cannot compute; what is wrong with single values is seen
    later.
    """
    wanted = [*by, *filter(None, [on, strata]), "query_id", "value"]
    if absent := [name for name in wanted if name not in values]:
        raise InputError(
            f"effects: no column {offenders(absent)}; there are {', '.join(map(str, values.columns))}"
        )
    if absent := [name for name in family if name not in by]:
        raise InputError(
            f"effects: family: {offenders(absent)} is no label of a row; there are {', '.join(by)}"
        )
    if effect not in KINDS:
        raise InputError(f"effects: no effect {effect!r}; there are {', '.join(KINDS)}")
    n_sides = len(set(sides))
    if (on is None) != (n_sides == 0) or n_sides not in (0, 2) or n_sides != len(sides):
        raise InputError(
            f"effects: on = {on!r}, sides = {sides!r}; give a column and its two values, or neither"
        )
    if effect != "mean" and on is None:
        raise InputError(
            f"effects: a {effect} is between two sides; give `on` and `sides`, or take the mean"
        )


def _resampled(
    parts: dict[tuple, _Part], n_by: int | None, seed: int, n_boot: int
) -> dict[tuple, np.ndarray]:
    """Resampled means float[n_boot, n_sides] of each group; those of the same units share their
    draws.

    `n_by`: so many labels make a group, the next one is its stratum, whose name is part of the
    seed; None: no strata.
    """
    alike: dict[tuple, list[tuple]] = {}
    for key, part in parts.items():
        stratum = "" if n_by is None else str(key[n_by])
        alike.setdefault((stratum, part.unit_ids, part.units.tobytes()), []).append(key)
    found = {}
    for (stratum, unit_ids, _), keys in alike.items():
        units = parts[keys[0]].units
        tables = [parts[key].values.reshape(len(units), -1) for key in keys]
        own = (
            seed_of(seed, unit_ids)
            if n_by is None
            else (*seed_of(seed, unit_ids), seed_of(seed, [stratum])[1])
        )
        for key, means in zip(keys, resampled_means(tables, units, own, n_boot), strict=True):
            found[key] = means.reshape(n_boot, *parts[key].values.shape[1:]).mean(axis=1)
    return found


class _Drawn(NamedTuple):
    """An estimate, its draws float[n_boot], and what resampling queries shifts it by, as it does a
    ratio of means.
    """

    estimate: float
    draws: np.ndarray
    bias: float


class _Stratum(NamedTuple):
    """A group in one stratum: the means of its sides, resampled, and the noise of training apart
    from them.
    """

    means: np.ndarray  # float[n_sides]
    resampled: np.ndarray  # float[n_boot, n_sides]
    noise: np.ndarray  # float[n_boot, n_sides], or zeros
    n_units: int

    @classmethod
    def of(
        cls, part: _Part, resampled: np.ndarray, noise: _Noise, labels: tuple, seed: int
    ) -> "_Stratum":
        """The noise is normal, its own uncertainty chi-squared; `labels` are part of its seed.

        It is drawn for each side and stratum by itself, although one model stands on several, and
        drawn queries hold a part of it: where strata differ little, intervals come too wide.
        """
        drawn = np.zeros_like(resampled)
        if noise.freedom:
            random = np.random.default_rng(seed_of(seed, [repr(tuple(map(str, labels)))]))
            scale = np.sqrt(noise.freedom / random.chisquare(noise.freedom, len(drawn)))[:, None]
            level = noise.deviation * np.sqrt(
                part.models.shares / part.values.shape[1]
            )  # [n_sides]
            drawn = random.normal(size=drawn.shape) * scale * level
        return cls(part.values.mean(axis=(0, 1)), resampled, drawn, len(part.unit_ids))


def _combined(strata: Sequence[_Stratum], effect: str) -> list[_Drawn]:
    """The first side, the second, and the effect of a group: means over its strata, drawn within
    each of them.

    Few units widen what is drawn of queries (`stretched`), with Welch's and Satterthwaite's degrees
    of freedom over strata; the noise of training comes on top.
    """
    change = KINDS[effect]
    kinds = (
        lambda means: means[..., 0],
        lambda means: means[..., -1],
        lambda means: change(means[..., 0], means[..., -1]),
    )
    n_units = np.array([one.n_units for one in strata])
    # resamples of n units vary less than new ones would, by (n - 1) / n
    short = np.sqrt(ratio(n_units, n_units - 1))
    found = []
    for kind in kinds:
        estimates = [float(kind(one.means)) for one in strata]
        plain = [kind(one.resampled) for one in strata]
        noise = [
            kind(one.resampled + one.noise) - drawn
            for one, drawn in zip(strata, plain, strict=True)
        ]
        of_strata = [
            at + by * (draws - at) for at, by, draws in zip(estimates, short, plain, strict=True)
        ]
        freedom = _freedom(np.array([draws.var() for draws in of_strata]), n_units - 1)
        estimate = math.fsum(estimates) / len(strata)
        draws = stretched(np.mean(of_strata, axis=0), estimate, freedom) + np.mean(noise, axis=0)
        found.append(_Drawn(estimate, draws, float(np.mean(plain)) - estimate))
    return found


def _freedom(variances: np.ndarray, freedoms: np.ndarray) -> float:
    """Degrees of freedom of a sum of means, by Welch and Satterthwaite: float[strata] each; 0 where
    a part has none.
    """
    if not freedoms.all():
        return 0.0
    below = float((variances**2 / freedoms).sum())
    return float(variances.sum() ** 2 / below) if below > 0 else float(freedoms.sum())


def _counts(parts: Sequence[_Part], noises: Sequence[_Noise]) -> dict[str, Any]:
    """The columns of a row that count what is behind it."""
    deviation = noises[0].deviation
    is_once = any(part.models.is_trained for part in parts)
    over = (
        TRAININGS
        if any(noise.freedom for noise in noises)
        else ONE_TRAINING
        if is_once
        else QUERIES
    )
    return {
        "n_queries": sum(len(part.values) for part in parts),
        "n_units": sum(len(part.unit_ids) for part in parts),
        "n_trainings": min(part.values.shape[1] for part in parts),
        "sd_trainings": deviation,
        "over": over,
    }


def across(table: pd.DataFrame, unit: str, by: Sequence[str], effect: str) -> pd.DataFrame:
    """Mean of an effect over few independent units, such as worlds, with Student's 95 % interval
    over them.

    Returns DataFrame[*by, effect, low, high, least, most, n], n the number of units; no interval
    for a single one, nor where all are alike.
    """
    of_unit = table.groupby([*by, unit], sort=False, dropna=False)[effect].mean()
    columns = {
        effect: "mean",
        "low": "sem",
        "high": "sem",
        "least": "min",
        "most": "max",
        "n": "count",
    }
    found = of_unit.groupby(list(by), sort=False, dropna=False).agg(**columns)
    error = found["low"].where(found["low"] > 1e-12)  # still the standard error
    reach = stats.t.ppf(0.975, found["n"] - 1) * error
    return found.assign(low=found[effect] - reach, high=found[effect] + reach).reset_index()


def shown(frame: pd.DataFrame) -> Any:
    """A table for the page: all text escaped and to the left, three digits, p < .001, a dash for
    nothing, no index.
    """
    frame = pd.DataFrame(frame.drop(columns=DRAWS, errors="ignore"))
    left = {
        name: [{"selector": "", "props": "text-align: left"}]
        for name in frame.select_dtypes(exclude="number")
    }
    tests = {
        name: lambda p: "< .001" if p < 0.001 else f"{p:.3f}"
        for name in frame
        if str(name).startswith("p_")
    }
    look = frame.style.hide(axis="index").format(tests, precision=3, na_rep="–", escape="html")
    return look.format_index(escape="html", axis=1).set_table_styles(left)
