"""Notebook 12: two learning curves, one of each regime.

How many training queries are needed, and do they buy interpolation or extrapolation?
"""

import glob
import html
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
from interextra.models.search.run import Run
from interextra.own import probe, regimes, splitting
from interextra.own.nested import nested_sets
from interextra.own.page import html_page, svg_of
from interextra.own.regimes import AS_GIVEN, INTERPOLATION
from interextra.own.seen import Given
from interextra.own.split_folder import SplitFolder
from interextra.own.values import MODEL, join_trainings, values_of_run, values_of_runs
from interextra.splits.split import REGIMES
from interextra.stats.bootstrap import interval, ratio, simultaneous
from interextra.stats.effects import Effects, effects, shown
from interextra.stats.formatting import drawn_over, spelled, with_interval
from interextra.stats.tests import LEAST_QUERIES, detectable
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
    values_of_sizes = {}
    for size in nested.sizes:
        values = {}
        for name, seed in itertools.product(folder.sets, seeds):
            model = train(path / name, query_ids[nested.part(name, size)], seed)
            run = _ranked(model, folder, first_stage, store, compute)
            values[name, str(seed)] = values_of_run(run, folder, measures)
        values_of_sizes[size] = join_trainings(values, folder)
    joined = _join_sizes(values_of_sizes)
    found = report(joined, baseline, folder.gate_ids, margin, options["seed"], n_boot, before)
    return write(out, found)


def _ranked(
    model: Any,
    folder: SplitFolder,
    first_stage: RunFile,
    store: Store,
    compute: Callable[[Cell], Any],
) -> RunFile:
    """Return the run of what a training gave."""
    if isinstance(model, Run):
        compute(model)
        return folder.read(model, store)
    return probe.rank_with(model, folder, first_stage)


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
        wildcard = glob.escape(path).replace("{size}", "*").replace("{seed}", "*")
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
    points = pd.concat([pd.DataFrame(part)[POINTS] for part in of_measures], ignore_index=True)
    sentences = _sentences(of_measures[0], margin)
    if given and given.seen.is_shown:
        sentences = [given.seen.sentence(measure)]
    elif given:
        sentences.append(given.seen.sentence(measure))
    return Curve(
        points=points,
        systems=_systems(tested, baseline, given, bootstrap),
        values=values,
        sentences=sentences,
    )


def _points(means: Effects) -> Effects:
    """Return the means of a measure with their simultaneous intervals, and the changes from them.

    Rows are sorted by regime (interpolation first) and size.
    """
    points = means.sort_values(["regime", "size"], ascending=[False, True], ignore_index=True)
    n_sizes = points["size"].nunique()
    draws = points.drawn()
    points["low"], points["high"] = simultaneous(points["mean"], draws)
    by_regime = points["mean"].to_numpy().reshape(len(REGIMES), n_sizes)
    drawn_by_regime = draws.reshape(len(REGIMES), n_sizes, -1)
    gains = ratio(by_regime[:, -1:], by_regime) - 1
    drawn_gains = ratio(drawn_by_regime[:, -1:], drawn_by_regime) - 1
    is_smaller = points["size"] < points["size"].max()
    estimates = gains[:, :-1].ravel()
    drawn = drawn_gains[:, :-1].reshape(len(estimates), -1)
    low, high = simultaneous(estimates, drawn)
    added = ["to_largest", "gain_low", "gain_high", "detects"]
    points[added] = np.nan
    detects = detectable(low, high, drawn.std(axis=1))
    points.loc[is_smaller, added] = np.column_stack([estimates, low, high, detects])
    return points


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
    is_within = (smaller["gain_low"] > -margin) & (smaller["gain_high"] < margin)
    is_flat_on = is_within[::-1].cummin()  # from the largest of them to the smallest
    flat_sizes = smaller.loc[is_flat_on[is_flat_on].index, "size"]
    return None if flat_sizes.empty else int(flat_sizes.min())


def _sentences(points: Effects, margin: float) -> list[str]:
    """Return the answer, from which size each curve is flat, and what the design can see."""
    n_queries = int(points["n_queries"].min())
    if n_queries < LEAST_QUERIES:
        return [f"Nothing is said: {n_queries} test queries, and below {LEAST_QUERIES} none is."]
    curves = {regime: points[points["regime"] == regime] for regime in REGIMES}
    visible = []
    for regime, of_regime in curves.items():
        percent = 100 * of_regime["detects"].iloc[-2]
        visible.append(f"{percent:.1f} % in {regime}")
    before_last, largest = curves[INTERPOLATION]["size"].iloc[-2:]
    return [
        _answer(points, margin),
        *(_flatness(regime, of_regime, margin) for regime, of_regime in curves.items()),
        f"The smallest step from {before_last:,} to {largest:,} that would be found with 80 % "
        f"power: {' and '.join(visible)}.",
    ]


def _answer(points: Effects, margin: float) -> str:
    """Return what the training queries from the smallest to the largest size buy."""
    measure = points["measure"].iloc[0]
    smallest, largest = points["size"].min(), points["size"].max()
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
    for _, row in ends[ends["size"] == smallest].iterrows():
        changes.append(f"{_change(row)} in {row['regime']}")
    return (
        f"{verdict}: from {smallest:,} to {largest:,}, {measure} changes by "
        f"{' and by '.join(changes)}; the difference of both gains is {more} (95 % CI)."
    )


def _more_gained(ends: Effects) -> tuple[float, float, str]:
    """Return the interval of how much more interpolation gains, and both as text.

    `ends`: of each regime, interpolation first, the smallest and the largest size.
    """
    means = ends["mean"].to_numpy().reshape(len(REGIMES), 2)
    draws = ends.drawn().reshape(len(REGIMES), 2, -1)
    gains = means[:, 1] - means[:, 0]
    drawn_gains = draws[:, 1] - draws[:, 0]
    low, high = interval(drawn_gains[0] - drawn_gains[1])
    return low, high, spelled(gains[0] - gains[1], low, high, "points")


def _change(row: pd.Series) -> str:
    """Return the change from a size to the largest as text."""
    return spelled(row["to_largest"], row["gain_low"], row["gain_high"])


def _flatness(regime: str, points: pd.DataFrame, margin: float) -> str:
    """Return from which size the curve of a regime is flat, or what its last step shows."""
    largest = points["size"].iloc[-1]
    start = flat_from(points, margin)
    if start is not None:
        change = _change(points[points["size"] == start].iloc[0])
        return (
            f"In {regime}, the curve is flat from {start:,} training queries on: from there to "
            f"{largest:,} it changes by {change}, within {100 * margin:g} %."
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
        f"In {regime}, the curve is not shown to be flat within {100 * margin:g} % from any size "
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
    tables = [values[kept].assign(system=name) for name, values in systems.items()]
    asked = tested[tested.columns.intersection(["query_id", "unit"])].drop_duplicates()
    measured = pd.concat(tables).merge(asked, on="query_id")
    means = effects(measured, ["system", "measure"], **bootstrap)
    return pd.DataFrame(means)[["system", "measure", "mean", "low", "high", "n_queries"]]


def write(folder: Path, found: Curve) -> Curve:
    """Write the report as curve.html and tables, curve.csv and systems.csv; return it with `files`.

    values.csv has the values per query, as PyTerrier writes them.
    """
    of_training = found.values["size"].astype(str) + ", training " + found.values["seed"]
    names = found.values["regime"] + ", " + of_training
    values = found.values.rename(columns={"query_id": "qid"}).assign(name=names)
    tables = {
        "curve": found.points,
        "systems": found.systems,
        "values": values[["name", "qid", "measure", "value"]],
    }
    files = []
    for name, table in tables.items():
        text = table.to_csv(index=False, float_format="%.6g")
        files.append(write_text(folder / f"{name}.csv", text))
    files.append(write_text(folder / "curve.html", page(found)))
    return found._replace(files=files)


def page(found: Curve) -> str:
    """Return the report as one HTML page."""
    table = for_page(found.points)
    figures.style()
    body = [
        "<h1>How many training queries, and for which regime?</h1>",
        *(f"<p>{html.escape(sentence)}</p>" for sentence in found.sentences),
        svg_of(picture(found.points, found.systems)),
        shown(table).to_html(),
        f"<p>{LEGEND.format(over=drawn_over(found.points['over']))}</p>",
        "<h2>Without fine-tuning</h2>",
        shown(found.systems.rename(columns={"n_queries": "queries"})).to_html(),
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
    of_measure = points[points["measure"] == measure].rename(columns={"size": "training queries"})
    is_measured = systems["measure"] == measure
    levels = systems[is_measured].set_index("system")["mean"].to_dict()
    return figures.bands(
        of_measure, "training queries", "mean", "regime", measure, levels=levels, log=True
    )
