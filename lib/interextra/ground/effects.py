"""From values per query to tables of effects, each with an interval: one bootstrap for all tables of the kit.

*Values* are tidy: a row a run, query and measure, with the run's labels (model, regime, seed …), query_id, measure and
value. `effects` compares two sides of them; its table, an `Effects`, carries the draws of each row. Equal seed and
equal queries give equal draws, jointly over all systems measured on them. Taught in notebooks/02_restrain.
"""

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from interextra.ground.errors import InputError, offenders

BLOCK = 4_000_000  # counts of a block of resamples held at once
DRAWS = "draws"  # the column of a table that is for computing on, not for reading
THEIRS = ["scaled", "rounding"]  # columns of published effects
TESTED = ["p_value", "p_permutation", "p_equivalent", "cohen_d", "worse", "better", "n_queries"]
KINDS = {  # name of an effect → from the means of the first and the second side
    "delta": lambda first, second: ratio(second, first) - 1,  # Zhan et al.; the RelLoss of Lupart et al. is -delta
    "difference": lambda first, second: second - first,
    "mean": lambda first, second: first,
}


def resamples(n: int, seed: Any, n_boot: int) -> Iterator[np.ndarray]:
    """Blocks of float32[b, n]: how often each of n queries is in each of `n_boot` draws of n with replacement."""
    random, size = np.random.default_rng(seed), max(1, BLOCK // n)
    for start in range(0, n_boot, size):
        drawn = random.integers(n, size=(min(size, n_boot - start), n), dtype=np.int32)
        places = drawn + n * np.arange(len(drawn))[:, None]
        yield np.bincount(places.ravel(), minlength=drawn.size).reshape(drawn.shape).astype(np.float32)


def resampled_means(values: np.ndarray, units: np.ndarray, seed: Any, n_boot: int) -> np.ndarray:
    """Means float[n_boot, columns] of values float[n_queries, columns]: units int[n_queries] are drawn as a whole."""
    sums = np.stack([np.bincount(units, column) for column in values.T], axis=1)
    sizes = np.bincount(units).astype(float)
    return np.concatenate([counts @ sums / (counts @ sizes)[:, None] for counts in resamples(len(sums), seed, n_boot)])


def interval(draws: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """The middle `level` of the draws, outward to values that were drawn; undefined if a draw is."""
    low = np.quantile(draws, (1 - level) / 2, method="lower")
    return float(low), float(np.quantile(draws, (1 + level) / 2, method="higher"))


def simultaneous(estimates: np.ndarray, draws: np.ndarray, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Ends of simultaneous intervals of this `level`: estimates float[rows], draws float[rows, n_boot].

    Balanced max-t: each row reaches as far as a share of its own deviations from the estimate does, the same share for
    all rows, such that in `level` of the draws no row deviates more. Ranks, not standard deviations, are compared, as
    draws with the noise of two or three trainings have heavy tails; only where there are too few draws for the ranks of
    so many rows, standard deviations are. A row with undefined draws has no interval.
    """
    estimates = np.asarray(estimates, float)
    known = np.isfinite(draws).all(axis=1) & np.isfinite(estimates)
    reach = np.where(known, 0.0, np.nan)
    far = np.abs(draws[known] - estimates[known, None])
    if known.sum() > (1 - level) * draws.shape[1] > 0:
        spread = draws[known].std(axis=1)
        moves = spread > 0
        reach[known] = spread * np.quantile((far[moves] / spread[moves, None]).max(axis=0, initial=0), level)
    elif known.any():
        place = stats.rankdata(far, method="min", axis=1).max(axis=0)  # ties, such as draws all equal, rank low
        share = (np.quantile(place, level, method="higher") - 1) / (draws.shape[1] - 1)
        reach[known] = np.quantile(far, share, axis=1, method="higher")
    return estimates - reach, estimates + reach


def detectable(low: np.ndarray, high: np.ndarray, error: np.ndarray) -> np.ndarray:
    """The smallest effect told from none with 80 % power, by the ends of an interval and a standard error."""
    return (high - low) / 2 + stats.norm.ppf(0.8) * error


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Holm's adjusted p-values; NaN is no test of the family. (statsmodels' collects the garbage of the process.)"""
    adjusted = np.asarray(p_values, float).copy()
    order = np.argsort(adjusted)[: np.isfinite(adjusted).sum()]  # NaN is last
    adjusted[order] = np.minimum(np.maximum.accumulate(adjusted[order] * np.arange(len(order), 0, -1)), 1)
    return adjusted


def ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """top / bottom, NaN where bottom is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(top, float), np.asarray(bottom, float))
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0)


@dataclass(frozen=True, eq=False, slots=True)
class Draws:
    """The resamples of one row of a table of effects, float[n_boot] each; they ride in its column `draws`."""

    by: tuple[str, ...]  # the columns that name the row
    columns: dict[str, str]  # first, second, effect → the column that holds the estimate
    first: np.ndarray
    second: np.ndarray
    effect: np.ndarray


class Effects(pd.DataFrame):
    """A table of effects whose rows carry their draws, whatever is done to it as a table."""

    @property
    def _constructor(self) -> type["Effects"]:
        return Effects

    @classmethod
    def of(cls, table: pd.DataFrame, by: Sequence[str], columns: Sequence[str], *drawn: np.ndarray) -> "Effects":
        """A table with draws float[rows, n_boot] of its effects, or of both sides and the effect, in `columns`."""
        names, sides = (list(part) * (3 // len(part)) for part in (columns, drawn))
        named = dict(zip(("first", "second", "effect"), names, strict=True))
        return cls(table.assign(**{DRAWS: [Draws(tuple(by), named, *row) for row in zip(*sides, strict=True)]}))

    def drawn(self, what: str = "effect") -> np.ndarray:
        """The draws float[rows, n_boot] of the effects, or of the `first` or `second` sides."""
        if DRAWS not in self:
            raise InputError("this table has no draws: take a table of `effects`, or some of its rows")
        return np.stack([getattr(draws, what) for draws in self[DRAWS]])

    def _repr_html_(self) -> str:
        return shown(self).to_html()

    def contrast(self, column: str, pairs: Sequence[tuple]) -> "Effects":
        """Effect of one system less that of another, on the same draws.

        `pairs`: (first, second) values of `column`, which is one of those that name the rows, e.g. model; a group that
        lacks one of them has no row. Returns Effects[the other labels, first, second, difference, low, high].

        >>> values = pd.DataFrame({"model": list("aabb"), "query_id": list("pqpq"), "value": [0.8, 0.6, 0.4, 0.2]})
        >>> effects(values, ["model"]).contrast("model", [("a", "b")]).drop(columns=DRAWS).round(9).values.tolist()
        [['a', 'b', 0.4, 0.4, 0.4]]
        """
        every, rows, drawn = self.drawn(), [], []
        estimates = self[self[DRAWS].iloc[0].columns["effect"]].to_numpy(float)
        others = [label for label in self[DRAWS].iloc[0].by if label != column]
        for key, part in _grouped(self.assign(_row=range(len(self))), others):
            of = dict(zip(part[column], part["_row"], strict=True))
            for first, second in [pair for pair in pairs if set(pair) <= of.keys()]:
                drawn.append(every[of[first]] - every[of[second]])
                rows.append((*key, first, second, estimates[of[first]] - estimates[of[second]], *interval(drawn[-1])))
        labels = [*others, "first", "second"]
        table = pd.DataFrame(rows, columns=[*labels, "difference", "low", "high"])
        return Effects.of(table, labels, ["difference"], drawn)

    def beside(self, published: pd.DataFrame, on: Sequence[str]) -> "Effects":
        """The rows with the published effects beside them: `published`, and one `verdict` a row by the rules below.

        `published`: rows of `papers.published.load`, or others with the columns of `on`, which name an effect on both
        sides, scaled and rounding. Several of our rows may stand beside the same published one. InputError: a column of
        `on` is missing, or a published effect is named twice.
        """
        on = list(on)
        if absent := [name for name in on if name not in self or name not in published]:
            raise InputError(f"published effects: {offenders(absent)} is no column of both tables")
        if (twice := published.duplicated(on)).any():
            several = offenders(published.loc[twice, on].itertuples(index=False, name=None))
            raise InputError(f"published effects: named twice: {several}; add to `on` the columns that tell them apart")
        printed = pd.DataFrame(self[on]).merge(published[[*on, *THEIRS]], how="left", on=on)
        theirs, reach = (printed[name].set_axis(self.index) for name in THEIRS)
        reach += 1e-12  # binary fractions: -0.13 must be within half a percent of -0.125
        ours, low, high = self[self[DRAWS].iloc[0].columns["effect"]], self["low"], self["high"]
        inside, is_zero = (low <= theirs + reach) & (theirs - reach <= high), theirs.abs() <= reach
        undecided = ours.isna() | low.isna() | high.isna() | ((low <= 0) & (high >= 0)) | (is_zero & ~inside)
        # the first that applies; the published effect counts with its rounding
        rules = {"": theirs.isna(), "undecided": undecided, "agrees": inside, "same direction": ours * theirs > 0}
        return self.assign(published=theirs, verdict=np.select(list(rules.values()), list(rules), "opposite"))


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

    values : tidy values; several of one query, side and training (the k - 1 models that had its cluster) are averaged.
        They may have the columns seed (trainings), left_out (the model of a row made of several), and unit (queries
        that are drawn together).
    by : labels that make a group.
    on, sides : the label that tells the two sides apart, and its two values, e.g. ("interpolation", "extrapolation").
        Without them the mean of each group.
    effect : delta, difference or mean, see `KINDS`; undefined (NaN) where it divides by a mean of 0.
    strata : a column; queries are drawn within each of its values, and the effect is the mean of the strata's effects.
    family : Holm's correction holds within rows that share these labels of `by`; unless given, the measure.

    Returns Effects[*by, *sides, effect, low, high, p_value, p_holm, n_queries, n_trainings, sd_trainings]: columns of
    the sides and of the effect bear their names. p_value is of the paired t-test over queries: of two sides, without
    strata. sd_trainings is the standard deviation between trainings of the mean of a single model on the queries of its
    row and stratum, pooled over the models of a system; where it is missing, nothing was trained twice and the interval
    is of queries alone. An interval is undefined if a draw is.

    InputError: unknown columns or effect, a missing value, a query that has one side only, or no values at all.

    >>> values = pd.DataFrame({"regime": list("iiee"), "query_id": list("abab"), "value": [0.8, 0.6, 0.4, 0.3]})
    >>> effects(values, [], "regime", ("i", "e"), "delta", family=[])[["delta", "low", "n_queries"]].values.tolist()
    [[-0.5, -0.5, 2.0]]
    """
    by, names = list(by), [str(side) for side in sides] or ["mean"]
    family = [name for name in by if name == "measure"] if family is None else list(family)
    groups = [*by, strata] if strata else by
    if absent := [name for name in (*groups, *filter(None, [on]), "query_id", "value") if name not in values]:
        raise InputError(f"effects: no column {offenders(absent)}; there are {', '.join(map(str, values.columns))}")
    if absent := [name for name in family if name not in by]:
        raise InputError(f"effects: family: {offenders(absent)} is no label of a row; there are {', '.join(by)}")
    if effect not in KINDS:
        raise InputError(f"effects: no effect {effect!r}; there are {', '.join(KINDS)}")
    kept = values[values[on].isin(sides)] if on else values
    if kept.empty:
        raise InputError(f"effects: no values of {offenders(sides) or 'any run'}; nothing was measured")
    parts = {key: _matrix(part, on, sides) for key, part in _grouped(kept, groups)}
    means = _resampled(parts, len(by) if strata else None, seed, n_boot)
    system = [groups.index(name) for name in ("model", "measure", "average") if name in groups]
    means, deviations = _with_noise(means, parts, system, seed, n_boot)
    rows, drawn = [], []
    for key in dict.fromkeys(key[: len(by)] for key in parts):
        mine = [name for name in parts if name[: len(by)] == key]
        sides_here = np.array([parts[name].values.mean(axis=(0, 1)) for name in mine])  # [strata, sides]
        sides_drawn = np.stack([means[name] for name in mine])  # [strata, n_boot, sides]
        estimate, effect_drawn = (KINDS[effect](x[..., 0], x[..., -1]).mean(axis=0) for x in (sides_here, sides_drawn))
        row = dict(zip(by, key, strict=True)) | dict(zip(names, sides_here.mean(axis=0), strict=True))
        row |= {effect: float(estimate)} | dict(zip(("low", "high"), interval(effect_drawn), strict=True))
        if on:
            row["p_value"] = np.nan if strata else _paired_t(parts[key].values.mean(axis=1))
        row["n_queries"] = sum(len(parts[name].values) for name in mine)
        row["n_trainings"] = min(parts[name].values.shape[1] for name in mine)
        rows.append(row | {"sd_trainings": deviations[mine[0]]})
        drawn.append([sides_drawn[..., 0].mean(axis=0), sides_drawn[..., -1].mean(axis=0), effect_drawn])
    table = pd.DataFrame(rows)
    if on:
        alike = table.groupby(family or np.zeros(len(table)), dropna=False)["p_value"]
        table.insert(table.columns.get_loc("p_value") + 1, "p_holm", alike.transform(lambda p: holm(p)))
    return Effects.of(table, by, [names[0], names[-1], effect], *zip(*drawn, strict=True))


def tests(
    values: pd.DataFrame, by: Sequence[str], on: str, sides: tuple, margin: float = 0.05, seed: int = 0
) -> pd.DataFrame:
    """Is the difference real, how large is it, and is a loss beyond the margin excluded? One row a group.

    Returns DataFrame[*by, p_value, p_permutation, p_equivalent, cohen_d, worse, better, n_queries]: paired t-test,
    permutation test (sign flips), two one-sided t-tests against plus and minus `margin` times the mean of the first
    side, mean difference in standard deviations, queries with a lower and with a higher value on the second side.
    Where all queries differ by the same, p_equivalent is 0 within the margin and 1 beyond it, cohen_d 0 or NaN.
    """
    rows = []
    for key, part in _grouped(values[values[on].isin(sides)], list(by)):
        pair = _matrix(part, on, sides).values.mean(axis=1)  # [n_queries, 2]
        difference, bound = pair[:, 1] - pair[:, 0], margin * pair[:, 0].mean()
        spread, differs = difference.std(ddof=1), not np.allclose(difference, 0, atol=1e-12)
        permuted, equivalent, cohen_d = 1.0, float(abs(difference.mean()) > abs(bound)), np.nan if differs else 0.0
        if differs:
            flips = {"permutation_type": "samples", "n_resamples": 9999, "batch": max(1, BLOCK // len(pair))}
            permuted = stats.permutation_test((difference,), np.mean, vectorized=True, rng=seed, **flips).pvalue
        if spread > 1e-12:
            sided = ((-bound, "greater"), (bound, "less"))
            equivalent = max(stats.ttest_1samp(difference, at, alternative=side).pvalue for at, side in sided)
            cohen_d = difference.mean() / spread
        counts = (difference < 0).sum(), (difference > 0).sum(), len(pair)
        rows.append((*key, _paired_t(pair), permuted, equivalent, cohen_d, *counts))
    return pd.DataFrame(rows, columns=[*by, *TESTED])


def _grouped(frame: pd.DataFrame, columns: list[str]) -> Iterator[tuple[tuple, pd.DataFrame]]:
    return iter(frame.groupby(columns, sort=False, dropna=False) if columns else [((), frame)])


class _Part(NamedTuple):
    """What was measured of a group, queries in order of appearance, repeats averaged, and of its single models."""

    values: np.ndarray  # float[n_queries, n_trainings, n_sides]
    units: np.ndarray  # int[n_queries]
    squares: float  # of the deviations of single models from the mean of their trainings
    counted: int  # degrees of freedom in `squares`
    freedom: int  # of these the independent ones: both sides of a leave-one-out row have the same models
    shares: np.ndarray  # float[n_sides], sum of squared weights of the models in the mean of a side; 1: one model


def _matrix(part: pd.DataFrame, on: str | None, sides: tuple) -> _Part:
    if part["value"].isna().any():
        raise InputError(f"effects: no value for query {offenders(part['query_id'][part['value'].isna()].unique())}")
    query, query_ids = pd.factorize(part["query_id"])
    side = pd.Index(sides).get_indexer(part[on]) if on else np.zeros(len(part), np.int64)
    training = part.groupby(side)["seed"].transform(lambda one: pd.factorize(one)[0]) if "seed" in part else 0 * side
    shape = (len(query_ids), int(training.max()) + 1, max(1, len(sides)))
    at = np.ravel_multi_index((query, training, side), shape)
    counts = np.bincount(at, minlength=np.prod(shape)).reshape(shape)
    if not counts.all():
        alone = [query_ids[row] for row in np.flatnonzero((counts == 0).any(axis=(1, 2)))]
        raise InputError(f"effects: query {offenders(alone)} lacks a side or a training; measure all alike")
    values = np.bincount(at, part["value"].to_numpy(float), minlength=np.prod(shape)).reshape(shape) / counts
    unit = part.drop_duplicates("query_id")["unit"] if "unit" in part else query_ids
    weight = 1 / counts.ravel()[at] / len(query_ids)  # of each value in the mean of its side
    is_folded = "left_out" in part and part["left_out"].notna().all()
    label = part["left_out"].to_numpy() if is_folded else np.zeros(len(part))
    of = pd.DataFrame({"side": side, "model": label, "training": training, "value": part["value"], "weight": weight})
    models = of.groupby(["side", "model", "training"])  # below: [sides × models, trainings]
    means, weights = (by.unstack("training") for by in (models["value"].mean(), models["weight"].sum()))
    shares = (weights.iloc[:, 0] ** 2).groupby("side").sum().to_numpy()
    again, squares = means.shape[1] - 1, means.sub(means.mean(axis=1), axis=0).pow(2).to_numpy().sum()
    last = (means.index.get_level_values("side") == side.max()).sum() if is_folded else len(means)
    return _Part(values, pd.factorize(unit)[0], float(squares), again * len(means), int(again * last), shares)


def _resampled(parts: dict[tuple, _Part], n_by: int | None, seed: int, n_boot: int) -> dict[tuple, np.ndarray]:
    """Resampled means float[n_boot, n_sides] of each group; groups of the same units share their draws.

    `n_by`: so many labels make a group, the next one its stratum, whose place by name is part of the seed.
    """
    alike: dict[tuple, list[tuple]] = {}
    counted = Counter()
    for key, part in sorted(parts.items(), key=lambda item: str(item[0][n_by:])):
        own = (seed,) if n_by is None else (seed, counted[key[:n_by]])
        counted[key[:n_by]] += 1
        alike.setdefault((len(part.values), part.units.tobytes(), own), []).append(key)
    found = {}
    for (n, _, own), keys in alike.items():
        columns = np.concatenate([parts[key].values.reshape(n, -1) for key in keys], axis=1)
        means = resampled_means(columns, parts[keys[0]].units, own, n_boot)
        ends = np.cumsum([parts[key].values[0].size for key in keys])[:-1]
        for key, drawn in zip(keys, np.split(means, ends, axis=1), strict=True):
            found[key] = drawn.reshape(n_boot, *parts[key].values.shape[1:]).mean(axis=1)
    return found


def _with_noise(
    means: dict[tuple, np.ndarray], parts: dict[tuple, _Part], places: list[int], seed: int, n_boot: int
) -> tuple[dict[tuple, np.ndarray], dict[tuple, float]]:
    """Each group's resampled means float[n_boot, n_sides] with the noise of training, and its deviation.

    It is normal, with the deviation of the single models of a system, pooled over all its rows, as two or three
    trainings of one say little; its own uncertainty is chi-squared. NaN where nothing was trained twice. `places`: of
    the labels of a system in those of a group. Noise is drawn for each side and stratum by itself, although one model
    stands on several, and drawn queries hold a part of it: where strata differ little, intervals come too wide.
    """
    systems, found, deviations = {key: tuple(key[place] for place in places) for key in parts}, dict(means), {}

    def random(labels: tuple) -> np.random.Generator:
        return np.random.default_rng((seed, zlib.crc32(repr(labels).encode())))

    for system in dict.fromkeys(systems.values()):
        mine = {key: part for key, part in parts.items() if systems[key] == system}
        counted, freedom = (sum(getattr(part, name) for part in mine.values()) for name in ("counted", "freedom"))
        deviation = float(np.sqrt(sum(part.squares for part in mine.values()) / counted)) if counted else float("nan")
        deviations |= dict.fromkeys(mine, deviation)
        for key, part in mine.items() if freedom else ():
            scale = np.sqrt(freedom / random(system).chisquare(freedom, n_boot))[:, None]
            level = deviation * np.sqrt(part.shares / part.values.shape[1])  # [n_sides]
            found[key] = means[key] + random(key).normal(size=(n_boot, len(level))) * scale * level
    return found, deviations


def _paired_t(pair: np.ndarray) -> float:
    """Two-sided p-value of the paired t-test of columns float[n, 2]; 1 where all pairs are equal, NaN for one query."""
    difference = pair[:, 1] - pair[:, 0]
    if len(difference) < 2:
        return float("nan")
    return 1.0 if np.allclose(difference, 0, atol=1e-12) else float(stats.ttest_1samp(difference, 0).pvalue)


def across(table: pd.DataFrame, unit: str, by: Sequence[str], effect: str) -> pd.DataFrame:
    """Mean of an effect over few independent units, such as worlds, with Student's 95 % interval over them.

    Returns DataFrame[*by, effect, low, high, least, most, n], n the number of units; no interval for a single one.
    """
    of_unit = table.groupby([*by, unit], sort=False, dropna=False)[effect].mean()
    columns = {effect: "mean", "low": "sem", "high": "sem", "least": "min", "most": "max", "n": "count"}
    found = of_unit.groupby(list(by), sort=False, dropna=False).agg(**columns)
    reach = stats.t.ppf(0.975, found["n"] - 1) * found["low"]  # still the standard error
    return found.assign(low=found[effect] - reach, high=found[effect] + reach).reset_index()


def spelled(value: float, low: float, high: float, unit: str = "%") -> str:
    """An effect and its interval as text; `unit`: %, points (both times 100) or nothing.

    >>> spelled(0.5, 0.25, 0.75, unit=""), spelled(0.5, 0.25, 0.75, "points"), spelled(0.5, np.nan, np.nan)
    ('+0.50 [+0.25, +0.75]', '+50.0 points [+25.0, +75.0]', '+50.0 % [undefined]')
    """
    text = (lambda part: f"{100 * part:+.1f}") if unit else "{:+.2f}".format
    between = "undefined" if np.isnan(low) else f"{text(low)}, {text(high)}"
    return "undefined" if np.isnan(value) else f"{text(value)} {unit}".rstrip() + f" [{between}]"


def with_interval(
    table: pd.DataFrame, effect: str = "delta", unit: str = "%", low: str = "low", high: str = "high"
) -> pd.DataFrame:
    """For the page: an effect with its interval (`low` to `high`, which go) as one text; `published` as a percentage.

    >>> with_interval(pd.DataFrame({"delta": [-0.104], "low": [-0.18], "high": [-0.026]}))["delta"].item()
    '-10.4 % [-18.0, -2.6]'
    """
    ends = zip(table[effect], table[low], table[high], strict=True)
    table = table.drop(columns=[low, high]).assign(**{effect: [spelled(*row, unit) for row in ends]})
    if "published" in table:
        table["published"] = [f"{100 * value:+.0f} %" if np.isfinite(value) else "–" for value in table["published"]]
    return table


def shown(frame: pd.DataFrame) -> Any:
    """A table for the page: all text escaped and to the left, three digits, p < .001, a dash for nothing, no index."""
    frame = pd.DataFrame(frame.drop(columns=DRAWS, errors="ignore"))
    left = {name: [{"selector": "", "props": "text-align: left"}] for name in frame.select_dtypes(exclude="number")}
    tests = {name: lambda p: "< .001" if p < 0.001 else f"{p:.3f}" for name in frame if str(name).startswith("p_")}
    look = frame.style.hide(axis="index").format(tests, precision=3, na_rep="–", escape="html")
    return look.format_index(escape="html", axis=1).set_table_styles(left)
