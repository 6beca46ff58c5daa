"""Notebook 12: two learning curves, one of each regime.

How many training queries are needed, and do they buy interpolation or extrapolation?
"""

import glob
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from interextra import figures
from interextra.data.runs import RunFile
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.own import probe, regimes, splitting
from interextra.own.nested import nested_sets
from interextra.own.page import html_page, paragraphs, svg_of, wide_table
from interextra.own.regimes import AS_GIVEN, INTERPOLATION
from interextra.own.seen import Given
from interextra.own.split_folder import SplitFolder
from interextra.own.values import MODEL, join_trainings, values_of_run, values_of_runs
from interextra.splits.split import REGIMES
from interextra.stats.bootstrap import interval, ratio, simultaneous
from interextra.stats.effects import Effects, effects
from interextra.stats.formatting import drawn_over, spelled, with_interval
from interextra.stats.tests import LEAST_QUERIES, detectable, standard_error
from interextra.store import Cell, InputError, Store, write_text

POINTS = [
    "regime",
    "size",
    "measure",
    "mean",
    "low",
    "high",
    "to_largest",
    "gain_low",
    "gain_high",
    "detects",
    "n_queries",
    "n_trainings",
    "over",
]
# Columns of POINTS that say how a size differs from the largest.
CHANGES = ["to_largest", "gain_low", "gain_high", "detects"]
LEGEND = (
    "Intervals are simultaneous (95 %): of all means, and of all changes to the largest size. They "
    "are over {over}; the nested training sets are one draw. Detects: the smallest change to the "
    "largest size that is found with 80 % power."
)


class Curve(NamedTuple):
    """What models of nested training sets say, as tables and as sentences."""

    # regime, size (training queries), measure, mean with its simultaneous interval; to_largest: the
    # change from this size to the largest, with its simultaneous interval; detects, …
    points: pd.DataFrame
    systems: pd.DataFrame  # system, measure, mean, low, high, n_queries: BM25, the model as given
    values: pd.DataFrame  # all that was measured
    sentences: list[str]  # the first one answers
    files: list[Path] = []  # of `write`


def curve(
    train: Callable[[Path, list[str], int], Any],
    collection: str,
    protocol: str = "restrain",
    sizes: Sequence[int] = (),
    seeds: Sequence[int] = (1, 2),
    measures: Sequence[str] = ("nDCG@10",),
    out: str | Path = "curve",
    store: Store | None = None,
    compute: Callable[[Cell], Any] | None = None,
    margin: float = 0.05,
    n_boot: int = 10_000,
    given: Any = None,
    **options: Any,
) -> Curve:
    """Train on nested parts of each set of a split, search its test queries, and report.

    Parameters
    ----------
    train : callable
        f(folder, query_ids, seed) → a model or a run, as of `probe`, trained on these queries of
        the set in the folder, whose `ids` and `st` have a row a pair.
    sizes : sequence of int
        Training queries; none: five sizes, the largest that of the smallest set.
    collection, protocol, seeds, measures, out, store, compute, margin, n_boot, given, options
        As of `probe`.

    Raises
    ------
    InputError
        What can be refused is refused before the first training.
    """
    regimes.refuse_measures(measures)
    numbers = {"seeds": list(seeds), "margin": margin, "n_boot": n_boot}
    options = probe.checked_options(train, options, numbers)
    out = Path(out)
    splitting.refuse_place(out)
    store = store or Store(out / "cells")
    compute = compute or store.build
    split = splitting.split_of(protocol, collection, options)
    split = splitting.prepared(split, store, options, compute)
    path = out / "split"
    folder = probe.open_or_export(path, split, options, store, compute)
    nested = nested_sets(split, store, sizes)
    compute(nested)
    compute(folder.bm25)
    first_stage = folder.read(folder.bm25, store)
    baseline = values_of_run(first_stage, folder, measures)
    before = None
    if given is not None:
        before = probe.before_fine_tuning(given, folder, measures, store, compute, options, n_boot)
    query_ids = nested.sets(store)

    def run_of(name: str, size: int, seed: int) -> RunFile:
        """Train on the first queries of a set, and search."""
        part = nested.part(name, size)
        model = train(path / name, query_ids[part], seed)
        return probe.ranked(model, folder, first_stage, store, compute)

    values = _values_of_trainings(run_of, folder, nested.sizes, seeds, measures)
    found = report(values, baseline, folder.gate_ids, margin, options["seed"], n_boot, before)
    return write(out, with_bm25(found, folder, store))


def with_bm25(found: Curve, folder: SplitFolder, store: Store) -> Curve:
    """Return curves whose last sentence says what the baseline is, where it was made here."""
    sentence = f"The baseline is {folder.bm25_in_words(store)}."
    return found._replace(sentences=[*found.sentences, sentence])


def _values_of_trainings(
    run_of: Callable[[str, int, int], RunFile],
    folder: SplitFolder,
    sizes: Sequence[int],
    seeds: Sequence[int],
    measures: Sequence[str],
) -> pd.DataFrame:
    """Train each set with each size and seed, and return what the runs of all models measure.

    `run_of`: (set, size, seed) → the run.
    """
    values_of_sizes = {}
    for size in sizes:
        values = {}
        for name, seed in itertools.product(folder.sets, seeds):
            run = run_of(name, size, seed)
            values[name, str(seed)] = values_of_run(run, folder, measures)
        values_of_sizes[size] = join_trainings(values, folder)
    return _join_sizes(values_of_sizes)


def values_of_pattern(
    folder: SplitFolder, pattern: str, measures: Sequence[str], skip_own: bool = False
) -> pd.DataFrame:
    """Return the values of all runs that a pattern finds.

    Parameters
    ----------
    pattern : str
        As of `values_of_runs`, with {size} for the number of training queries.

    Returns
    -------
    DataFrame
        Those of `values_of_runs`, and size.

    Raises
    ------
    InputError
        A pattern without {size}, fewer than two sizes, a size that lacks a run of a set or seed,
        and what `values_of_runs` refuses.
    """
    if pattern.count("{size}") != 1:
        raise InputError(
            f"--runs {pattern}: write {{size}} once, where the number of training queries stands"
        )
    sizes = _sizes_of_runs(pattern, folder.sets)
    if len(sizes) < 2:
        raise InputError(
            f"--runs {pattern}: runs of {len(sizes)} sizes; a curve needs two or more, e.g. "
            "runs/{part}.{size}.{seed}.run"
        )
    values = {}
    for size in sizes:
        of_size = pattern.replace("{size}", str(size))
        values[size] = values_of_runs(folder, of_size, measures, skip_own)
    return _join_sizes(values)


def _sizes_of_runs(pattern: str, set_names: Sequence[str]) -> list[int]:
    """Return the sizes of which there are runs of any set, ascending."""
    sizes = set()
    for name in set_names:
        path = Path(pattern.replace("{part}", name)).as_posix()
        expression = re.escape(path)
        expression = expression.replace(r"\{size\}", r"(?P<size>[1-9]\d*)")
        expression = expression.replace(r"\{seed\}", "[^/.]+")
        wildcard = glob.escape(path)
        wildcard = wildcard.replace("{size}", "*")
        wildcard = wildcard.replace("{seed}", "*")
        for run in glob.glob(wildcard):
            match = re.fullmatch(expression, Path(run).as_posix())
            if match:
                sizes.add(int(match["size"]))
    return sorted(sizes)


def _join_sizes(values_of_sizes: Mapping[int, pd.DataFrame]) -> pd.DataFrame:
    """Return the values of models of all sizes; each model has a name of its own."""
    labelled = []
    for size, values in values_of_sizes.items():
        trained = f"{size} " + values["trained"]
        labelled.append(values.assign(size=size, trained=trained))
    return pd.concat(labelled, ignore_index=True)


def report(
    values: pd.DataFrame,
    baseline: pd.DataFrame,
    gate_ids: Sequence[str],
    margin: float,
    seed: int,
    n_boot: int,
    given: Given | None = None,
) -> Curve:
    """Compare models of nested training sets in both regimes.

    The noise of training is pooled over all sizes and both regimes (`trainings.training_noises`).

    Parameters
    ----------
    values : DataFrame
        regime, size, seed, query_id, measure, value, trained (the model); the sentences are of its
        first measure.
    baseline : DataFrame
        Values of BM25.
    gate_ids : sequence of str
        Queries that measure nothing here.
    margin : float
        The change to the largest size within which a curve is flat, as a share.
    seed, n_boot : int
        Of the bootstrap.
    given : Given
        The model before fine-tuning; where it is shown to have seen the training queries, the first
        sentence says so, and no other answers.
    """
    measure = values["measure"].iloc[0]
    regimes.refuse_first(measure)
    bootstrap: dict[str, Any] = {"seed": seed, "n_boot": n_boot}
    tested = values[~values["query_id"].isin(gate_ids)]
    labels = ["model", "regime", "size", "measure"]
    means = effects(tested.assign(model=MODEL), labels, **bootstrap)
    of_measures = [_points(part) for _, part in means.groupby("measure", sort=False)]
    tables = [pd.DataFrame(part)[POINTS] for part in of_measures]
    sentences = _sentences(of_measures[0], margin)
    if given:
        sentences = _with_seen(sentences, given, measure)
    return Curve(
        points=pd.concat(tables, ignore_index=True),
        systems=_systems(tested, baseline, given, bootstrap),
        values=values,
        sentences=sentences,
    )


def _with_seen(sentences: list[str], given: Given, measure: str) -> list[str]:
    """Return the sentences with the one of what the model had seen; where it is shown, it alone."""
    sentence = given.seen.sentence(measure)
    if given.seen.is_shown:
        return [sentence]
    return [*sentences, sentence]


def _points(means: Effects) -> Effects:
    """Return the means of a measure with their simultaneous intervals, and the changes from them.

    Rows are sorted by regime (interpolation first) and size.
    """
    order = ["regime", "size"]
    points = means.sort_values(order, ascending=[False, True], ignore_index=True)
    low, high = simultaneous(points["mean"], points.drawn())
    points["low"] = low
    points["high"] = high
    is_smaller = points["size"] < points["size"].max()
    points[CHANGES] = np.nan
    points.loc[is_smaller, CHANGES] = _changes_to_largest(points)
    return points


def _changes_to_largest(points: Effects) -> np.ndarray:
    """Return the CHANGES of all sizes but the largest, float[rows, 4]; rows as in `_points`."""
    n_sizes = points["size"].nunique()
    means = points["mean"].to_numpy().reshape(len(REGIMES), n_sizes)
    draws = points.drawn().reshape(len(REGIMES), n_sizes, -1)
    changes = _to_last(means).ravel()
    drawn_changes = _to_last(draws).reshape(len(changes), -1)
    low, high = simultaneous(changes, drawn_changes)
    detects = detectable(low, high, standard_error(drawn_changes))
    return np.column_stack([changes, low, high, detects])


def _to_last(by_regime: np.ndarray) -> np.ndarray:
    """Return the changes from each size to the last one, as shares; regimes, sizes (and draws)."""
    last = by_regime[:, -1:]
    changes = ratio(last, by_regime) - 1
    return changes[:, :-1]


def flat_from(points: pd.DataFrame, margin: float) -> int | None:
    """Return the size from which a curve is flat, None where none is shown.

    From it on, the change of each size to the largest has its simultaneous interval within plus and
    minus the margin: that a curve is called flat from a size on from which it is not happens in at
    most 5 % of cases, over all sizes and both regimes.

    Parameters
    ----------
    points : DataFrame
        size, gain_low, gain_high of a regime, by size; the last row is the largest size.

    Examples
    --------
    >>> points = pd.DataFrame(
    ...     {"size": [1, 2, 4, 8], "gain_low": [0.1, -0.02, -0.03, np.nan]}
    ... ).assign(gain_high=[0.3, 0.04, 0.02, np.nan])
    >>> flat_from(points, 0.05), flat_from(points, 0.03)
    (2, None)
    """
    smaller = points.iloc[:-1]
    is_above = smaller["gain_low"] > -margin
    is_below = smaller["gain_high"] < margin
    is_within = is_above & is_below
    is_flat_on = is_within[::-1].cummin()  # from the largest of them to the smallest
    flat_sizes = smaller.loc[is_flat_on[is_flat_on].index, "size"]
    return None if flat_sizes.empty else int(flat_sizes.min())


def _sentences(points: Effects, margin: float) -> list[str]:
    """Return the answer, from which size each curve is flat, and what the design can see."""
    n_queries = int(points["n_queries"].min())
    if n_queries < LEAST_QUERIES:
        return [f"Nothing is said: {n_queries} test queries, and below {LEAST_QUERIES} none is."]
    curves = {regime: points[points["regime"] == regime] for regime in REGIMES}
    sentences = [_answer(points, margin)]
    visible = []
    for regime, of_regime in curves.items():
        sentences.append(_flatness(regime, of_regime, margin))
        percent = 100 * of_regime["detects"].iloc[-2]
        visible.append(f"{percent:.1f} % in {regime}")
    sizes = curves[INTERPOLATION]["size"]
    before_last, largest = sizes.iloc[-2:]
    sentences.append(
        f"The smallest step from {before_last:,} to {largest:,} that would be found with 80 % "
        f"power: {' and '.join(visible)}."
    )
    return sentences


def _answer(points: Effects, margin: float) -> str:
    """Return what the training queries from the smallest to the largest size buy."""
    measure = points["measure"].iloc[0]
    smallest = points["size"].min()
    largest = points["size"].max()
    ends = points[points["size"].isin([smallest, largest])]
    low, high, more = _more_gained(ends)
    reach = margin * ends["mean"].iloc[1]  # of interpolation at the largest size
    if low > 0:
        verdict = "More training queries serve interpolation more than extrapolation"
    elif high < 0:
        verdict = "More training queries serve extrapolation more than interpolation"
    elif -reach < low and high < reach:
        verdict = "More training queries serve interpolation and extrapolation alike"
    else:
        verdict = "It is undecided which regime more training queries serve more"
    changes = []
    is_smallest = ends["size"] == smallest
    for _, row in ends[is_smallest].iterrows():
        changes.append(f"{_change(row)} in {row['regime']}")
    both_changes = " and by ".join(changes)
    return (
        f"{verdict}: from {smallest:,} to {largest:,}, {measure} changes by "
        f"{both_changes}; in points of the measure, the gain in interpolation minus that in "
        f"extrapolation is {more} (95 % CI)."
    )


def _more_gained(ends: Effects) -> tuple[float, float, str]:
    """Return the interval of how much more interpolation gains, and both as text.

    `ends`: of each regime, interpolation first, the smallest and the largest size.
    """
    means = ends["mean"].to_numpy().reshape(len(REGIMES), 2)
    draws = ends.drawn().reshape(len(REGIMES), 2, -1)
    of_interpolation, of_extrapolation = means[:, 1] - means[:, 0]
    drawn_interpolation, drawn_extrapolation = draws[:, 1] - draws[:, 0]
    low, high = interval(drawn_interpolation - drawn_extrapolation)
    more = of_interpolation - of_extrapolation
    return low, high, spelled(more, low, high, "points")


def _change(row: pd.Series) -> str:
    """Return the change from a size to the largest as text."""
    return spelled(row["to_largest"], row["gain_low"], row["gain_high"])


def _flatness(regime: str, points: pd.DataFrame, margin: float) -> str:
    """Return from which size the curve of a regime is flat, or what its last step shows."""
    largest = points["size"].iloc[-1]
    percent = 100 * margin
    start = flat_from(points, margin)
    if start is not None:
        is_start = points["size"] == start
        change = _change(points[is_start].iloc[0])
        return (
            f"In {regime}, the curve is flat from {start:,} training queries on: from there to "
            f"{largest:,} it changes by {change}, within {percent:g} %."
        )
    step = points.iloc[-2]
    change = _change(step)
    if step["gain_low"] > 0:
        shown_step = f"it still rises, by {change}"
    elif step["gain_high"] < 0:
        shown_step = f"it falls, by {change}"
    else:
        shown_step = f"it changes by {change}: undecided"
    return (
        f"In {regime}, the curve is not shown to be flat within {percent:g} % from any size "
        f"on: from {step['size']:,} to {largest:,} {shown_step}."
    )


def _systems(
    tested: pd.DataFrame,
    baseline: pd.DataFrame,
    given: Given | None,
    bootstrap: dict[str, Any],
) -> pd.DataFrame:
    """Return the means of BM25 and of the model as given on the test queries."""
    systems = {BM25: baseline}
    if given:
        systems[AS_GIVEN] = given.values
    kept = ["query_id", "measure", "value"]
    tables = []
    for name, values in systems.items():
        tables.append(values[kept].assign(system=name))
    identity = tested.columns.intersection(["query_id", "unit"])
    queries = tested[identity].drop_duplicates()
    measured = pd.concat(tables).merge(queries, on="query_id")
    means = effects(measured, ["system", "measure"], **bootstrap)
    columns = ["system", "measure", "mean", "low", "high", "n_queries"]
    return pd.DataFrame(means)[columns]


def write(folder: Path, found: Curve) -> Curve:
    """Write the report as curve.html and tables, curve.csv and systems.csv; return it with `files`.

    values.csv has the values per query, as PyTerrier writes them.
    """
    tables = {
        "curve": found.points,
        "systems": found.systems,
        "values": _per_query(found.values),
    }
    files = []
    for name, table in tables.items():
        text = table.to_csv(index=False, float_format="%.6g")
        files.append(write_text(folder / f"{name}.csv", text))
    files.append(write_text(folder / "curve.html", page(found)))
    return found._replace(files=files)


def _per_query(values: pd.DataFrame) -> pd.DataFrame:
    """Return the values per query as PyTerrier writes them, by the name of the model."""
    of_training = values["size"].astype(str) + ", training " + values["seed"]
    names = values["regime"] + ", " + of_training
    renamed = values.rename(columns={"query_id": "qid"})
    return renamed.assign(name=names)[["name", "qid", "measure", "value"]]


def page(found: Curve) -> str:
    """Return the report as one HTML page."""
    figures.style()
    over = drawn_over(found.points["over"])
    systems = found.systems.rename(columns={"n_queries": "queries"})
    body = [
        "<h1>How many training queries, and for which regime?</h1>",
        *paragraphs(found.sentences),
        svg_of(picture(found.points, found.systems)),
        wide_table(for_page(found.points)),
        f"<p>{LEGEND.format(over=over)}</p>",
        "<h2>Without fine-tuning</h2>",
        wide_table(systems),
    ]
    return html_page("Two learning curves", body)


def for_page(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points with fewer columns, in the words of a reader."""
    is_largest = points["to_largest"].isna()
    percent = 100 * points["detects"]
    points = points.assign(detects=percent.map("{:.1f} %".format, "ignore"))
    points = with_interval(points, "to_largest", low="gain_low", high="gain_high")
    points["to_largest"] = points["to_largest"].mask(is_largest, "–")
    names = {"size": "training queries", "to_largest": "change to the largest"}
    names |= {"n_queries": "queries", "n_trainings": "trainings"}
    return points.drop(columns="over").rename(columns=names)


def picture(points: pd.DataFrame, systems: pd.DataFrame) -> figures.Drawing:
    """Return both curves of the first measure with their bands, and the systems beside them."""
    measure = points["measure"].iloc[0]
    of_measure = points[points["measure"] == measure]
    curves = of_measure.rename(columns={"size": "training queries"})
    is_measured = systems["measure"] == measure
    levels = systems[is_measured].set_index("system")["mean"].to_dict()
    return figures.bands(
        curves, "training queries", "mean", "regime", measure, levels=levels, log=True
    )
