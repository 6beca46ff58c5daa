"""The commands `audit`, `split`, `regimes` and `probe` as functions, which take frames, too."""

import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pandas as pd

from interextra.data.collection import Passages, write_passages
from interextra.data.runs import RunFile
from interextra.measures.evaluate import check
from interextra.own import audit as auditing
from interextra.own import clean, splitting
from interextra.own import probe as probing
from interextra.own import regimes as reporting
from interextra.own.audit import NEAR, TEXT, Side
from interextra.own.frames import Judged, passages_of, write_collection
from interextra.own.options import refuse_numbers
from interextra.own.regimes import Report
from interextra.own.results import AuditResult, RegimesResult, SplitResult, zero_shot
from interextra.own.seen import Given, has_seen
from interextra.own.split_folder import SplitFolder
from interextra.own.steps import say
from interextra.own.values import (
    BM25,
    Found,
    systems_of,
    value_of_each,
    values_of_run,
    values_of_runs,
    values_of_systems,
)
from interextra.store import InputError, Store, cache_folder, offenders
from interextra.store.extras import explained, require
from interextra.store.progress import lasting

NDCG = "nDCG@10"
# What trainings found, see `regimes`
Trained: TypeAlias = str | Path | pd.DataFrame | Mapping[str, Found]


@explained("ix.audit")
def audit(
    train: str | pd.DataFrame,
    test: str | pd.DataFrame,
    passages: pd.DataFrame | None = None,
    *,
    train_qrels: pd.DataFrame | None = None,
    test_qrels: pd.DataFrame | None = None,
    run: str | Found = "",
    measure: str = NDCG,
    near: float = NEAR,
    near_passages: float = 1.0,
    encoder: str = "lsa",
) -> AuditResult:
    """Say what of the test queries was seen in training, and what the others can still tell apart.

    Parameters
    ----------
    train, test : DataFrame or str
        Queries: query_id, text (or PyTerrier's qid, query). What is relevant to them stands beside
        them, a row a pair, as doc_id (docno) or as the text of a positive, or in the frames of
        judgements. A string is a spec as the command takes it.
    passages : DataFrame
        The passages of both sides: doc_id, text (docno, text). Passages are then compared by their
        texts, and copies under other ids are found.
    train_qrels, test_qrels : DataFrame
        Judgements: query_id, doc_id, relevance (qid, docno, label; without it all are relevant).
    run : DataFrame, RunFile, mapping or str
        A run on the test queries, or its values per query (query_id, measure, value), from which it
        is told what clean queries can tell apart; or the path of a run.
    measure : str
        Of that run.
    near, near_passages, encoder
        See `interextra.own.audit.audit`.

    Raises
    ------
    InputError
        A frame with other columns, and what the command refuses.

    Examples
    --------
    >>> train = pd.DataFrame({"query_id": ["1"], "text": ["who wrote faust"], "doc_id": ["d1"]})
    >>> test = pd.DataFrame({"query_id": ["7"], "text": ["Who wrote Faust?"], "doc_id": ["d1"]})
    >>> result = audit(train, test)
    >>> result.found.test_queries, result.clean_queries
    (['7'], [])
    """
    refuse_numbers(Namespace(near=near))
    check([measure])
    with _passages_of(passages) as opened:
        train_side = _side(train, train_qrels, opened, "train")
        test_side = _side(test, test_qrels, opened, "test")
        found = auditing.audit(train_side, test_side, encoder, near, near_passages)
    values = _values_of_system(run, test_side, measure)
    by_name = ""
    if isinstance(train, str) and isinstance(test, str):
        by_name = zero_shot(train_side, test_side)
    return AuditResult(found, test_side, values, measure, encoder, by_name)


@contextmanager
def _passages_of(frame: pd.DataFrame | None) -> Iterator[Passages | None]:
    """Write a frame of passages where it can be read as those of a collection, for a block."""
    if frame is None:
        yield None
        return
    table = passages_of(frame)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "passages.arrow"
        write_passages(path, zip(table["doc_id"], table["text"], strict=True))
        yield Passages(path)


def _side(
    queries: str | pd.DataFrame,
    qrels: pd.DataFrame | None,
    passages: Passages | None,
    name: str,
) -> Side:
    """Return one side of an audit, of a frame or of a spec."""
    if isinstance(queries, pd.DataFrame):
        return Judged.of(queries, qrels, name).side(passages)
    if qrels is not None:
        raise InputError(f"{name}_qrels: {queries} has judgements of its own; leave them out")
    return auditing.read(queries, name)


def _values_of_system(run: str | Found, test: Side, measure: str) -> pd.Series | None:
    """Return the values per query of a run in any form, see `clean.values_of_system`."""
    if isinstance(run, str):
        return clean.values_of_system(test, run, measure)
    qrels = None if test.known_by == TEXT else test.qrels
    return value_of_each(run, test.queries["query_id"].tolist(), qrels, measure)


@explained("ix.split")
def split(
    train: str | pd.DataFrame,
    test: pd.DataFrame | None = None,
    passages: pd.DataFrame | None = None,
    *,
    train_qrels: pd.DataFrame | None = None,
    test_qrels: pd.DataFrame | None = None,
    protocol: str = "restrain",
    out: str | Path = "folds",
    store: Store | None = None,
    **options: Any,
) -> SplitResult:
    """Divide training queries into sets that are near the test queries and sets that are not.

    Parameters
    ----------
    train : DataFrame or str
        The training queries, see `audit`; or the spec of a collection, which has all.
    test, passages, train_qrels, test_qrels
        See `audit`. Frames are written as a collection in BEIR's layout beside `out`, as
        OUT-collection; further columns of the queries are attributes, for a shift. Of a shift the
        test queries are those of the training split, and `test` shows nothing.
    protocol : {"restrain", "resttest", "shift"}
    out : path
        The folder of the split, which must not be there yet.
    store : Store
        Where results are kept; default: in the cache folder.
    **options
        Of the command, with underscores: size, k, seed, attribute, format, … (see
        `splitting.DEFAULTS`).

    Raises
    ------
    InputError
        What the command refuses, and frames with other columns.
    """
    every_option = _every_option(options)
    out = Path(out)
    splitting.refuse_existing(out)
    if isinstance(train, str):
        spec = train
    else:
        collection = out.with_name(f"{out.name}-collection")
        queries = {"train": (train, train_qrels), "test": (test, test_qrels)}
        spec = _written(collection, queries, passages)
    divided = splitting.split_of(protocol, spec, every_option)
    store = store or _default_store()
    divided = splitting.prepared(divided, store, every_option)
    store.build(divided)
    splitting.export(divided, store, out, every_option)
    return SplitResult(out, every_option["attribute"])


def _every_option(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options of a split; refuse one that there is not, and one out of bounds."""
    unknown = sorted(options.keys() - splitting.DEFAULTS.keys())
    if unknown:
        known = ", ".join(splitting.DEFAULTS)
        raise InputError(f"ix.split: no option {offenders(unknown)}; there are {known}")
    every_option = {**splitting.DEFAULTS, **options}
    refuse_numbers(Namespace(**every_option))
    return every_option


def _default_store() -> Store:
    """Return the store of the cache folder."""
    return Store(cache_folder() / "cells")


def _written(
    folder: Path,
    queries: Mapping[str, tuple[pd.DataFrame | None, pd.DataFrame | None]],
    passages: pd.DataFrame | None,
) -> str:
    """Write frames as a collection; return its spec."""
    if passages is None:
        raise InputError("ix.split: a trainer needs passages; give them (doc_id, text)")
    splitting.refuse_existing(folder)
    splits = {}
    for name, (frame, qrels) in queries.items():
        if frame is not None:
            splits[name] = Judged.of(frame, qrels, name)
    return write_collection(folder, passages_of(passages), splits)


@explained("ix.regimes")
def regimes(
    values: Trained,
    split: str | Path | SplitResult,
    *,
    baseline: str | Found | None = None,
    given: str | Found | None = None,
    measures: Sequence[str] = (),
    margin: float = 0.05,
    encoder: str = splitting.DEFAULTS["encoder"],
    skip_own: bool = False,
    attribute: str = "",
    seed: int = 1,
    n_boot: int = 10_000,
    store: Store | None = None,
) -> RegimesResult:
    """Compare what trainings on a split found in both regimes.

    Parameters
    ----------
    values : DataFrame, mapping or str
        What each system found on the test queries. A frame of values per query: name, query_id,
        measure, value, as PyTerrier's `Experiment(..., perquery=True)` gives them (qid). A mapping
        from the name of a system to its run: a path, a frame (qid, docno, score), a `RunFile`,
        {query_id: {doc_id: score}}, or a frame of its values. A name is that of a training set, and
        behind a dot the seed where there are several: `without-who.1`. A string is a pattern of
        paths as the command takes it.
    split : path or SplitResult
        The folder of the split.
    baseline, given : name or run
        The baseline, and the model before fine-tuning, which is also tested for having seen the
        training queries: the name of a system among the values, or a run in any form. Without a
        baseline BM25 is made, which needs the extra `train`; so does `given`.
    measures : sequence of str
        The claims are of the first one. Default: those of a frame of values, else nDCG@10.
    margin, seed, n_boot
        See `interextra.own.regimes.report`.
    encoder : str
        Finds the nearest training query of each test query.
    skip_own : bool
        Whether a passage with the id of its query does not count.
    attribute : str
        See `SplitFolder.open`.
    store : Store
        Where BM25 is kept; default: in the cache folder.

    Raises
    ------
    InputError
        What the command refuses; names of no training set.
    """
    refuse_numbers(Namespace(margin=margin, seed=seed, n_boot=n_boot))
    _require_bm25(baseline is None, given is not None)
    folder = _opened(split, attribute)
    store = store or _default_store()
    systems = _systems(values)
    measures = list(measures) or _measures_of(systems)
    reporting.refuse_measures(measures)
    rival = _taken(baseline, systems, "baseline")
    as_given = _taken(given, systems, "given")
    say(f"Finding the nearest training query of each of {folder.manifest.n_test:,} test queries")
    nearest = reporting.nearest_training_queries(folder, encoder)
    say("Measuring the runs")
    found = _values_of_trainings(values, systems, folder, measures, skip_own)
    baseline_in_words = rival.name if rival else ""
    if rival is None:
        rival = _Named(BM25, bm25_run(folder, store))
        baseline_in_words = folder.bm25_in_words(store)
    of_rival = values_of_run(rival.found, folder, measures, skip_own, rival.name)
    before = None
    if as_given is not None:
        name, run = as_given
        say(f"Testing what the model before fine-tuning has seen: {name}")
        before = given_of(run, folder, store, measures, skip_own, seed, n_boot, name)
    say(f"Bootstrap of {n_boot:,} resamples of {folder.manifest.n_test:,} test queries")
    report = reporting.report(folder, found, of_rival, nearest, margin, seed, n_boot, before)
    report = _with_name(report, rival.name, before, measures[0])
    return RegimesResult(*_with_sources(report, values, baseline_in_words, as_given))


def _values_of_trainings(
    values: Trained,
    systems: Mapping[str, Found],
    folder: SplitFolder,
    measures: Sequence[str],
    skip_own: bool,
) -> pd.DataFrame:
    """Return the values of the runs that a pattern of paths finds, or of the systems."""
    if isinstance(values, str | Path):
        return values_of_runs(folder, str(values), measures, skip_own)
    return values_of_systems(folder, systems, measures, skip_own)


def _require_bm25(is_baseline: bool, has_given: bool) -> None:
    """Refuse what is compared with BM25 where that cannot be made."""
    if is_baseline:
        require("ix.regimes without a baseline", "pyserini")
    if has_given:
        require("ix.regimes with a given model, which is compared with BM25,", "pyserini")


def _opened(split: str | Path | SplitResult, attribute: str) -> SplitFolder:
    """Return the folder of a split."""
    if isinstance(split, SplitResult):
        return split.folder
    return SplitFolder.open(Path(split), attribute)


def bm25_run(folder: SplitFolder, store: Store) -> RunFile:
    """Compute BM25 on the queries to search, and read it."""
    missing = store.missing([folder.bm25])
    if missing:
        seconds = sum(cell.seconds() for cell in missing)
        say(f"Searching {len(folder.passages):,} passages by BM25, about {lasting(seconds)}")
    store.build(folder.bm25)
    return folder.read(folder.bm25, store)


class _Named(NamedTuple):
    """A system beside the trainings."""

    name: str
    found: Found


def _systems(values: Trained) -> dict[str, Found]:
    """Return what was found by the name of its system; of a pattern of paths nothing."""
    if isinstance(values, str | Path):
        return {}
    if isinstance(values, pd.DataFrame):
        return dict(systems_of(values))
    return dict(values)


def _measures_of(systems: Mapping[str, Found]) -> list[str]:
    """Return the measures of tables of values; nDCG@10 where there are none."""
    measures: dict[str, None] = {}
    for found in systems.values():
        if isinstance(found, pd.DataFrame) and "measure" in found:
            measures |= dict.fromkeys(found["measure"])
    return list(measures) or [NDCG]


def _taken(system: str | Found | None, systems: dict[str, Found], role: str) -> _Named | None:
    """Return a system beside the trainings, which is taken from them where it is named there."""
    if system is None:
        return None
    if isinstance(system, str) and system in systems:
        return _Named(system, systems.pop(system))
    if isinstance(system, str | Path):
        return _Named(Path(system).stem, Path(system))
    return _Named(role, system)


def given_of(
    run: Found,
    folder: SplitFolder,
    store: Store,
    measures: Sequence[str],
    skip_own: bool,
    seed: int,
    n_boot: int,
    name: str = "given",
) -> Given:
    """Measure the model before fine-tuning; what it has seen is tested against BM25."""
    sampled = folder.with_training_sample()
    rival = values_of_run(bm25_run(sampled, store), sampled, measures, skip_own)
    values = values_of_run(run, sampled, measures, skip_own, name)
    seen = has_seen(sampled, values, rival, measures[0], seed, n_boot)
    return Given(values, seen)


def _with_sources(
    report: Report, values: Trained, baseline: str, as_given: _Named | None
) -> Report:
    """Return a report whose page says where the runs are from, and what they stand beside."""
    about = report.about | {"baseline": baseline}
    if isinstance(values, str | Path):
        about["runs"] += f" ({values})"
    if as_given is not None:
        about[reporting.AS_GIVEN] = as_given.name
    return report._replace(about=about)


def _with_name(report: Report, name: str, given: Given | None, measure: str) -> Report:
    """Return a report that calls the baseline by its name.

    What the model had seen is tested against BM25, whatever the baseline.
    """
    kept = given.seen.sentence(measure) if given else ""
    sentences = []
    for sentence in report.sentences:
        renamed = sentence.replace(BM25, name)
        sentences.append(sentence if sentence == kept else renamed)
    systems = report.systems.replace({"system": {BM25: name}})
    return report._replace(sentences=sentences, systems=systems)


@explained("ix.probe")
@wraps(probing.probe)
def probe(*args: Any, **options: Any) -> RegimesResult:
    """Return what `own.probe.probe` reports, as an object that prints and draws itself."""
    require("ix.probe", "pyserini")
    return RegimesResult(*probing.probe(*args, **options))
