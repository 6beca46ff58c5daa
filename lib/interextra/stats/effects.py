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

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from interextra.store.errors import InputError, offenders

BLOCK = 250_000  # counts of a block of resamples held at once: they stay in the cache of a core
DRAWS = "draws"  # the column of a table that is for computing on, not for reading
DRAWN = "drawn_units"  # column of a table whose draws are not of queries: models, clusters
THEIRS = ["scaled", "rounding"]  # columns of published effects
TESTED = ["p_value", "p_permutation", "p_equivalent", "cohen_d", "worse", "better", "n_queries"]
LEAST_QUERIES = (
    10  # fewer queries (or units of them) decide nothing: no verdict, no test of equivalence
)
KINDS = {  # name of an effect → from the means of the first and the second side
    "delta": lambda first, second: (
        ratio(second, first) - 1
    ),  # Zhan et al.; the RelLoss of Lupart et al. is -delta
    "difference": lambda first, second: second - first,
    "mean": lambda first, second: first,
}
# What an interval is over: the column `over` of a table
QUERIES, ONE_TRAINING, TRAININGS = (
    "queries",
    "queries; one training run",
    "queries and training runs",
)


def seed_of(seed: int, names: Iterable[object]) -> tuple[int, int]:
    """Seed of the draws of the units with these names, in whatever order: other units, other draws.

    >>> seed_of(1, ["q2", "q1"]) == seed_of(1, ["q1", "q2"]) != seed_of(1, ["q1", "q3"])
    True
    """
    text = "\0".join(sorted(map(str, names)))
    return seed, int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def resamples(n: int, seed: Any, n_boot: int) -> Iterator[np.ndarray]:
    """Blocks of float32[b, n]: how often each of n queries is in each of `n_boot` draws of n with
    replacement.
    """
    random, size = np.random.default_rng(seed), max(1, BLOCK // n)
    for start in range(0, n_boot, size):
        drawn = random.integers(n, size=(min(size, n_boot - start), n), dtype=np.int32)
        places = drawn + n * np.arange(len(drawn))[:, None]
        yield (
            np.bincount(places.ravel(), minlength=drawn.size)
            .reshape(drawn.shape)
            .astype(np.float32)
        )


def resampled_means(
    tables: Sequence[np.ndarray], units: np.ndarray, seed: Any, n_boot: int
) -> list[np.ndarray]:
    """Means float[n_boot, columns] of each table float[n_queries, columns] on the same draws.

    units : int[n_queries], which are drawn with all their queries. Tables are multiplied one by
    one: in one product
        the last digit of a mean would depend on what stands beside it.
    """
    sizes = np.bincount(units).astype(float)
    sums = [
        np.stack([np.bincount(units, column) for column in table.T], axis=1) for table in tables
    ]
    blocks: list[list[np.ndarray]] = [[] for _ in tables]
    for counts in resamples(len(sizes), seed, n_boot):
        counts = counts.astype(float)
        n_drawn = (counts @ sizes)[:, None]
        for found, of_units in zip(blocks, sums, strict=True):
            found.append(counts @ of_units / n_drawn)
    return [np.concatenate(found) for found in blocks]


def stretched(draws: np.ndarray, estimate: float, freedom: float) -> np.ndarray:
    """Draws float[n_boot] as far from the estimate as few units ask for: one rule for every number
    of them.

    Deviations to each side are multiplied by Student's quantile over the normal one, or by more
    where the middle 95 % of the draws would still end within Student's interval, as they do for
    values most of which are 0. `freedom`: degrees of freedom; none (0): undefined draws. A
    simulation chose the rule (`tools/simulation.py`).
    """
    if freedom <= 0:
        return np.full(len(draws), np.nan)
    if not varies(draws):
        return draws
    student = stats.t.ppf(0.975, freedom)
    least, reach = student / stats.norm.ppf(0.975), student * draws.std()
    low, high = np.quantile(draws, [0.025, 0.975])
    below = max(least, reach / (estimate - low)) if estimate > low else least
    above = max(least, reach / (high - estimate)) if estimate < high else least
    deviations = draws - estimate
    return estimate + np.where(deviations < 0, below, above) * deviations


def interval(draws: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """The middle `level` of the draws, outward to values that were drawn; undefined if a draw is,
    or if none varies.

    Where all queries differ by the same, resampling them says nothing of others: that is no
    certainty.
    """
    if not varies(draws):
        return float("nan"), float("nan")
    low = np.quantile(draws, (1 - level) / 2, method="lower")
    return float(low), float(np.quantile(draws, (1 + level) / 2, method="higher"))


def varies(draws: np.ndarray) -> np.ndarray:
    """Whether draws float[..., n_boot] differ by more than rounding does; not where one is
    undefined.
    """
    return np.ptp(draws, axis=-1) > 1e-12 * np.maximum(1.0, np.abs(draws).max(axis=-1))


def simultaneous(
    estimates: np.ndarray, draws: np.ndarray, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of simultaneous intervals of this `level`: estimates float[rows], draws float[rows,
    n_boot].

    Balanced max-t: each row reaches as far as a share of its own deviations from the estimate does,
    the same share for all rows, such that in `level` of the draws no row deviates more. Ranks, not
    standard deviations, are compared, as draws with the noise of two or three trainings have heavy
    tails; only where there are too few draws for the ranks of so many rows, standard deviations
    are. A row has no interval if a draw is undefined, or if none varies.
    """
    estimates = np.asarray(estimates, float)
    known = varies(draws) & np.isfinite(estimates)
    reach = np.where(known, 0.0, np.nan)
    far = np.abs(draws[known] - estimates[known, None])
    if known.sum() > (1 - level) * draws.shape[1] > 0:
        spread = draws[known].std(axis=1)
        reach[known] = spread * np.quantile((far / spread[:, None]).max(axis=0), level)
    elif known.any():
        place = stats.rankdata(far, method="min", axis=1).max(
            axis=0
        )  # ties, such as draws all equal, rank low
        share = (np.quantile(place, level, method="higher") - 1) / (draws.shape[1] - 1)
        reach[known] = np.quantile(far, share, axis=1, method="higher")
    return estimates - reach, estimates + reach


def outside(draws: np.ndarray, margin: float) -> float:
    """p-value of two one-sided tests of an effect within plus and minus `margin`, by its draws
    float[n_boot].

    The larger share of the draws at or beyond an end, which counts one draw more, as a bootstrap
    never shows 0. NaN for draws that are undefined or all alike.
    """
    if not varies(draws):
        return float("nan")
    beyond = max((draws <= -margin).sum(), (draws >= margin).sum())
    return float((beyond + 1) / (len(draws) + 1))


def detectable(low: np.ndarray, high: np.ndarray, error: np.ndarray) -> np.ndarray:
    """The smallest effect told from none with 80 % power, by the ends of an interval and a standard
    error.
    """
    return (high - low) / 2 + stats.norm.ppf(0.8) * error


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Holm's adjusted p-values; NaN is no test of the family. (statsmodels' collects the garbage of
    the process.)
    """
    adjusted = np.asarray(p_values, float).copy()
    order = np.argsort(adjusted)[: np.isfinite(adjusted).sum()]  # NaN is last
    adjusted[order] = np.minimum(
        np.maximum.accumulate(adjusted[order] * np.arange(len(order), 0, -1)), 1
    )
    return adjusted


def ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Top / bottom, NaN where bottom is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(top, float), np.asarray(bottom, float))
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0)


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
    noises = _noises(parts, systems)
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


def tests(
    values: pd.DataFrame,
    by: Sequence[str],
    on: str,
    sides: tuple,
    margin: float = 0.05,
    seed: int = 0,
) -> pd.DataFrame:
    """Is the difference real, how large is it, and is a loss beyond the margin excluded? One row a
    group.

    Returns DataFrame[*by, p_value, p_permutation, p_equivalent, cohen_d, worse, better, n_queries]:
    paired t-test, permutation test (sign flips), two one-sided t-tests against plus and minus
    `margin` times the mean of the first side, mean difference in standard deviations, queries with
    a lower and with a higher value on the second side. Undefined (NaN): all of one query;
    p_equivalent of fewer than LEAST_QUERIES; and where all queries differ by the same,
    p_equivalent, and cohen_d unless they do not differ.
    """
    rows = []
    for key, part in _grouped(values[values[on].isin(sides)], list(by)):
        pair = _part(part, on, sides, key).values.mean(axis=1)  # [n_queries, 2]
        difference, bound = pair[:, 1] - pair[:, 0], margin * pair[:, 0].mean()
        differs = not np.allclose(difference, 0, atol=1e-12)
        spread = difference.std(ddof=1) if len(pair) > 1 else 0.0
        permuted, equivalent = np.nan, np.nan
        cohen_d = np.nan if differs or len(pair) < 2 else 0.0
        if len(pair) > 1:
            permuted = _permuted(difference, seed) if differs else 1.0
        if spread > 1e-12:
            cohen_d = difference.mean() / spread
        if spread > 1e-12 and len(pair) >= LEAST_QUERIES:
            sided = ((-bound, "greater"), (bound, "less"))
            equivalent = max(
                stats.ttest_1samp(difference, at, alternative=side).pvalue for at, side in sided
            )
        counts = (difference < 0).sum(), (difference > 0).sum(), len(pair)
        rows.append((*key, _paired_t(pair), permuted, equivalent, cohen_d, *counts))
    return pd.DataFrame(rows, columns=[*by, *TESTED])


def _permuted(difference: np.ndarray, seed: int) -> float:
    """p-value of the permutation test of a mean difference float[n_queries] (sign flips)."""
    flips = {
        "permutation_type": "samples",
        "n_resamples": 9999,
        "batch": max(1, 4_000_000 // len(difference)),
    }
    return float(
        stats.permutation_test((difference,), np.mean, vectorized=True, rng=seed, **flips).pvalue
    )


def _grouped(frame: pd.DataFrame, columns: list[str]) -> Iterator[tuple[tuple, pd.DataFrame]]:
    return iter(frame.groupby(columns, sort=False, dropna=False) if columns else [((), frame)])


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


class _Part(NamedTuple):
    """What was measured of a group and stratum; queries and units stand in the order of their ids,
    repeats averaged.
    """

    values: np.ndarray  # float[n_queries, n_trainings, n_sides]
    units: np.ndarray  # int[n_queries], place of each query's unit
    unit_ids: tuple[str, ...]
    models: _Models


def _codes(labels: Iterable) -> tuple[np.ndarray, list[str]]:
    """Place of each label, as text, among all of them in order."""
    codes, names = pd.factorize(pd.Series(labels, dtype=object).astype(str), sort=True)
    return codes, list(names)


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


def _is_folded(rows: pd.DataFrame) -> bool:
    """Whether the rows are of several models, each trained without a part of the queries."""
    return "left_out" in rows and bool(rows["left_out"].notna().all())


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


class _Noise(NamedTuple):
    """How much the mean of a single model varies from training to training, and how well that is
    known.
    """

    deviation: float  # NaN: nothing was trained twice
    freedom: int


def _noises(parts: dict[tuple, _Part], places: Sequence[int]) -> dict[tuple, _Noise]:
    """The noise of training of each group and stratum. `places`: of the labels of a system in those
    of a group.

    Two or three trainings of a model say little of it: the variance is pooled over the models of a
    system, each counted once. Of the same models on several sets of queries (all, the near and the
    far half) a row has its own variance; that of other models is the mean over their rows. A row
    whose models were trained once borrows it.
    """
    systems: dict[tuple, dict[tuple, _Models]] = {}
    for key, part in parts.items():
        systems.setdefault(tuple(key[place] for place in places), {})[key] = part.models
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


def _paired_t(pair: np.ndarray) -> float:
    """Two-sided p-value of the paired t-test of columns float[n, 2]; 1 where all pairs are equal,
    NaN for one query.
    """
    difference = pair[:, 1] - pair[:, 0]
    if len(difference) < 2:
        return float("nan")
    return (
        1.0
        if np.allclose(difference, 0, atol=1e-12)
        else float(stats.ttest_1samp(difference, 0).pvalue)
    )


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


def spelled(value: float, low: float, high: float, unit: str = "%") -> str:
    """An effect and its interval as text; `unit`: %, points (both times 100) or nothing.

    >>> spelled(0.5, 0.25, 0.75, unit=""), spelled(0.5, 0.25, 0.75, "points"), spelled(0.5, np.nan, np.nan)
    ('+0.50 [+0.25, +0.75]', '+50.0 points [+25.0, +75.0]', '+50.0 % [undefined]')
    """
    text = (lambda part: f"{100 * part:+.1f}") if unit else "{:+.2f}".format
    between = "undefined" if np.isnan(low) else f"{text(low)}, {text(high)}"
    return "undefined" if np.isnan(value) else f"{text(value)} {unit}".rstrip() + f" [{between}]"


def drawn_over(over: pd.Series) -> str:
    """What the intervals of a table are over, in words, of its column `over`.

    >>> drawn_over(pd.Series([ONE_TRAINING, QUERIES]))
    'queries of one training run; where nothing is trained, over queries alone'
    """
    found = set(over.dropna())
    if TRAININGS in found and ONE_TRAINING in found:
        return f"{TRAININGS}; where a system was trained once, or not at all, over queries alone"
    trained = TRAININGS if TRAININGS in found else "queries of one training run"
    if QUERIES in found and len(found) > 1:
        return f"{trained}; where nothing is trained, over queries alone"
    return trained if found & {TRAININGS, ONE_TRAINING} else " or ".join(sorted(found))


def with_interval(
    table: pd.DataFrame,
    effect: str = "delta",
    unit: str = "%",
    low: str = "low",
    high: str = "high",
) -> pd.DataFrame:
    """For the page: an effect with its interval (`low` to `high`, which go) as one text;
    `published` as a percentage.

    >>> with_interval(pd.DataFrame({"delta": [-0.104], "low": [-0.18], "high": [-0.026]}))["delta"].item()
    '-10.4 % [-18.0, -2.6]'
    """
    ends = zip(table[effect], table[low], table[high], strict=True)
    table = table.drop(columns=[low, high]).assign(
        **{effect: [spelled(*row, unit) for row in ends]}
    )
    if "published" in table:
        table["published"] = [
            f"{100 * value:+.0f} %" if np.isfinite(value) else "–" for value in table["published"]
        ]
    return table


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
