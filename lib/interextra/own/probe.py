"""Notebook 12: a training of the user's on each set of a split.

What its models say of both regimes is reported.
"""

import itertools
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from interextra.data.queries import Part
from interextra.data.runs import COLUMNS, RunFile
from interextra.models import hub
from interextra.models.architectures.dense import inner_products
from interextra.models.planning import model_of
from interextra.models.recipe import Recipe, changed, load_recipe
from interextra.models.search.run import Run
from interextra.models.search.topk import exact_search
from interextra.own import distance, regimes, splitting
from interextra.own.clean import smallest_difference
from interextra.own.options import refuse_numbers
from interextra.own.run_files import read_run, run_of_hits
from interextra.own.seen import Given, has_seen
from interextra.own.sentences import power_words
from interextra.own.split_folder import SplitFolder, run_before_training
from interextra.own.values import join_trainings, values_of_run
from interextra.splits.split import Split
from interextra.store import Cell, InputError, Store, offenders

DEPTH = 1000  # passages in a run
RERANKED = 100  # passages of BM25 that a `predict` orders
BLOCK = 8192  # passages encoded at once
CAN = (
    "encode_query and encode_document, encode(list[str]), predict(pairs), "
    "or search({query_id: text})"
)


def probe(
    train: Callable[[Path, int], Any],
    collection: str,
    protocol: str = "restrain",
    seeds: Sequence[int] = (1, 2),
    measures: Sequence[str] = ("nDCG@10",),
    out: str | Path = "probe",
    predictions: str | Path = "",
    store: Store | None = None,
    compute: Callable[[Cell], Any] | None = None,
    margin: float = 0.05,
    n_boot: int = 10_000,
    given: Any = None,
    **options: Any,
) -> regimes.Report:
    """Train on each set of a split with each seed, search its test queries, and report.

    It is for regimes what scikit-learn's `cross_validate` is for folds.

    Parameters
    ----------
    train : callable
        f(folder, seed) → a model or a run. What its method `sentence` returns at the end, if it has
        one, is the last line of the report. The folder holds the training set as `ids` and `st`,
        and exposed.txt, what to exclude from negatives; beside it lie the data sets `queries` and
        `corpus` (see `formats`). A model can one of `CAN`; a run: a cell to compute, `RunFile`,
        file, frame (qid, docno, score), {query_id: {doc_id: score}}.
    collection : str
        Its spec.
    seeds, measures
        A training of each set per seed; the claims are of the first measure.
    protocol, options
        Of `splitting.split_of` and `splitting.export`, see `splitting.DEFAULTS`.
    out : path
        The split and the report go there, the models' runs too, or into `predictions`.
    store, compute
        Where results are kept, and what computes one there: in a notebook `nb.store`, `nb.run`.
    margin, seed, n_boot
        See `regimes.report`.
    given
        The model before fine-tuning, in a form that `train` may give. It is shown beside the
        fine-tuned ones, and `seen.has_seen` tests whether it has seen the training queries; a run
        must hold the queries of training.tsv, too. It is written beside theirs as `given`.

    Raises
    ------
    InputError
        What can be refused is refused before the first training.
    """
    regimes.refuse_measures(measures)
    numbers = {"seeds": list(seeds), "margin": margin, "n_boot": n_boot}
    options = checked_options(train, options, numbers)
    out = Path(out)
    run_folder = Path(predictions or out / "runs")
    splitting.refuse_place(out)
    splitting.refuse_place(run_folder)
    store = store or Store(out / "cells")
    compute = compute or store.build
    split = splitting.split_of(protocol, collection, options)
    split = splitting.prepared(split, store, options, compute)
    split_path = out / "split"
    folder = open_or_export(split_path, split, options, store, compute)
    print(distance.printed(folder.distances), file=sys.stderr)
    first_stage = _computed(folder.bm25, folder, store, compute)
    baseline = values_of_run(first_stage, folder, measures)
    before = None
    if given is not None:
        run_path = run_folder / f"given{_run_suffix(folder)}"
        before = before_fine_tuning(
            given, folder, measures, store, compute, options, n_boot, run_path
        )
    _print_detectable(baseline, folder, measures[0], margin)
    nearest = regimes.nearest_training_queries(folder)

    def run_of(set_name: str, seed: int) -> RunFile:
        """Train on a set, and search."""
        model = train(split_path / set_name, seed)
        return ranked(model, folder, first_stage, store, compute)

    values = _values_of_trainings(run_of, folder, seeds, measures, run_folder)
    report = regimes.report(
        folder, values, baseline, nearest, margin, options["seed"], n_boot, before
    )
    about = report.about | {"baseline": folder.bm25_in_words(store)}
    return regimes.write(out, _with_sentence_of(train, report._replace(about=about)))


def _values_of_trainings(
    run_of: Callable[[str, int], RunFile],
    folder: SplitFolder,
    seeds: Sequence[int],
    measures: Sequence[str],
    run_folder: Path,
) -> pd.DataFrame:
    """Train on each set with each seed, write the runs, and return what they measure.

    `run_of`: (set, seed) → the run.
    """
    suffix = _run_suffix(folder)
    values = {}
    for set_name, seed in itertools.product(folder.sets, seeds):
        run = run_of(set_name, seed)
        path = run_folder / f"{set_name}.{seed}{suffix}"
        values[set_name, str(seed)] = _write_and_measure(run, path, folder, measures)
    return join_trainings(values, folder)


def _with_sentence_of(train: Any, report: regimes.Report) -> regimes.Report:
    """Return the report with what a training says at the end, if it does."""
    if not hasattr(train, "sentence"):
        return report
    sentences = [*report.sentences, train.sentence()]
    return report._replace(sentences=sentences)


def checked_options(
    train: Any, options: Mapping[str, Any], numbers: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all options of a split; refuse what is no training, no option or out of bounds."""
    if not callable(train):
        raise InputError(
            f"probe: train is {type(train).__name__}; give a function of a folder and a seed"
        )
    unknown = sorted(options.keys() - splitting.DEFAULTS.keys())
    if unknown:
        raise InputError(
            f"probe: no option {offenders(unknown)}; there are {', '.join(splitting.DEFAULTS)}"
        )
    all_options = {**splitting.DEFAULTS, **options}
    refuse_numbers(Namespace(**all_options, **numbers))
    return all_options


def _computed(
    run: Run, folder: SplitFolder, store: Store, compute: Callable[[Cell], Any]
) -> RunFile:
    """Compute the run of a model on the queries to search, and read it."""
    compute(run)
    return folder.read(run, store)


def ranked(
    model: Any,
    folder: SplitFolder,
    first_stage: RunFile,
    store: Store,
    compute: Callable[[Cell], Any],
) -> RunFile:
    """Return the run of what a training gave, computed first where it is a cell."""
    if isinstance(model, Run):
        return _computed(model, folder, store, compute)
    return rank_with(model, folder, first_stage)


def before_fine_tuning(
    given: Any,
    folder: SplitFolder,
    measures: Sequence[str],
    store: Store,
    compute: Callable[[Cell], Any],
    options: splitting.Options,
    n_boot: int,
    path: Path | None = None,
) -> Given:
    """Measure the model as given, and test whether it has seen the training queries.

    `path`: where its run is written.
    """
    sampled = folder.with_training_sample()
    first_stage = sampled.read(folder.bm25, store)
    run = ranked(given, sampled, first_stage, store, compute)
    if path:
        _write_run(run, path)
    baseline = values_of_run(first_stage, sampled, measures)
    values = values_of_run(run, sampled, measures)
    seen = has_seen(sampled, values, baseline, measures[0], options["seed"], n_boot)
    return Given(values, seen)


def open_or_export(
    path: Path,
    split: Split,
    options: splitting.Options,
    store: Store,
    compute: Callable[[Cell], Any],
) -> SplitFolder:
    """Open the folder of a split, which is written where it is not there; refuse other options."""
    if not path.is_dir():
        compute(split)
        splitting.export(split, store, path, options)
    folder = SplitFolder.open(path, options["attribute"])
    asked = {
        "negatives": options["negatives"],
        "spare": options["spare"],
        "format": list(options["format"]),
        "gate": splitting.gate_of(options, split.pool.source),
    }
    manifest = folder.manifest
    if folder.split != split or manifest != manifest.model_copy(update=asked):
        raise InputError(f"{path}: is of other options; name another folder, or move it away")
    return folder


def _print_detectable(
    baseline: pd.DataFrame, folder: SplitFolder, measure: str, margin: float
) -> None:
    """Say on standard error, before anything is trained, how small a change can be found."""
    is_gate = baseline["query_id"].isin(folder.gate_ids)
    is_first = baseline["measure"] == measure
    values = baseline.loc[~is_gate & is_first, "value"]
    mean = values.mean() or np.nan
    percent = 100 * smallest_difference(values) / mean
    power = power_words(percent, 100 * margin, ".0f")
    message = (
        f"{len(values):,} test queries: {power} (about; of queries alone, if the models' values "
        "vary as BM25's do and correlate at one half between the regimes)"
    )
    print(message, file=sys.stderr)


def _run_suffix(folder: SplitFolder) -> str:
    """Return the suffix of the files of runs: TREC's, or Parquet's.

    A doc_id may have white space, which a TREC file cannot hold.
    """
    has_space = pc.match_substring_regex(folder.passages.doc_ids, r"\s")
    return ".parquet" if pc.any(has_space).as_py() else ".run"


def _write_and_measure(
    run: RunFile, path: Path, folder: SplitFolder, measures: Sequence[str]
) -> pd.DataFrame:
    """Write a run; return the values of the file."""
    _write_run(run, path)
    return values_of_run(path, folder, measures)


def _write_run(run: RunFile, path: Path) -> None:
    """Write a run in the form that the suffix names."""
    if path.suffix == ".parquet":
        run.write_parquet(path)
    else:
        run.write_trec(path)


def rank_with(model: Any, folder: SplitFolder, first_stage: RunFile) -> RunFile:
    """Return the run of what a training gave, by what it can.

    Parameters
    ----------
    model : Any
        A model that can one of `CAN`, or a run in one of the forms that `probe` takes.
    first_stage : RunFile
        BM25's, which a `predict` reranks.
    """
    if isinstance(model, RunFile):
        return model
    if isinstance(model, str | Path):
        return read_run(Path(model))
    if isinstance(model, pd.DataFrame):
        return RunFile.from_frame(model.rename(columns=COLUMNS))
    if hasattr(model, "search"):
        text_of = folder.queries.set_index("query_id")["text"]
        model = model.search(text_of.to_dict())
    if isinstance(model, Mapping):
        return run_of_hits(model)
    encode = getattr(model, "encode_query", getattr(model, "encode", None))
    if encode:
        return _search(model, encode, folder)
    if hasattr(model, "predict"):
        return _rerank(model, folder, first_stage)
    raise InputError(
        f"probe: the training gave {type(model).__name__}; it needs {CAN}, or give a run"
    )


def _search(model: Any, encode_queries: Callable, folder: SplitFolder) -> RunFile:
    """Return the run of an exact search with the model's vectors."""
    queries = folder.queries
    passages = folder.passages
    encode_passages = getattr(model, "encode_document", encode_queries)
    is_cosine = getattr(model, "similarity_fn_name", "") == "cosine"
    batches = passages.batches(BLOCK)
    blocks = (_vectors(encode_passages, texts, is_cosine) for _, texts in batches)
    query_vectors = _vectors(encode_queries, queries["text"].tolist(), is_cosine)
    score = inner_products(query_vectors)
    rows, scores = exact_search(passages, blocks, score, len(queries), DEPTH, BLOCK)
    query_ids = queries["query_id"].tolist()
    return RunFile.from_arrays(query_ids, passages.doc_ids, rows, scores)


def _vectors(encode: Callable, texts: list[str], is_cosine: bool) -> np.ndarray:
    """Return the vectors of texts, float32[n, d], of length 1 for a cosine."""
    try:
        vectors = np.asarray(encode(texts), dtype=np.float32)
    except (ValueError, TypeError):
        vectors = np.empty(0, np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise InputError(
            f"probe: the model gave no matrix for {len(texts)} texts, a row each; give it a search"
        )
    if not is_cosine:
        return vectors
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / lengths.clip(1e-12)


def _rerank(model: Any, folder: SplitFolder, first_stage: RunFile) -> RunFile:
    """Return the first passages of the first stage in the order of the model's `predict`."""
    passages = folder.passages
    text_of = folder.queries.set_index("query_id")["text"]
    ranking = first_stage.frame()
    candidates = ranking[ranking["rank"] <= RERANKED]
    query_texts = text_of[candidates["query_id"]]
    passage_texts = passages.texts(passages.rows(candidates["doc_id"]))
    pairs = list(zip(query_texts, passage_texts, strict=True))
    scores = np.asarray(model.predict(pairs), float).ravel()
    return RunFile.from_frame(candidates.assign(score=scores))


def recipe_of(
    model: str,
    revision: str = "",
    fine_tuning: str = "",
    batch_size: int = 0,
    spare: bool = False,
) -> Recipe:
    """Return a recipe that starts from the user's model.

    Parameters
    ----------
    model : str
        tiny-base, minilm, a folder or a hub id.
    revision : str
        Of a hub id.
    fine_tuning : str
        Name of a recipe; default: small-dense, of tiny-base mini-dense.
    batch_size : int
        Of training; 0: as the recipe says.
    spare : bool
        Whether exposed passages are no negatives.
    """
    if revision:
        from huggingface_hub import snapshot_download

        try:
            model = snapshot_download(model, revision=revision)
        except (OSError, ValueError) as error:
            raise InputError(
                f"--model-revision {revision} of {model}: {hub.why_not(error)}; give a branch or a "
                "commit of a model of the hub"
            ) from None
    if not fine_tuning:
        fine_tuning = "mini-dense" if model == "tiny-base" else "small-dense"
    changes: dict[str, Any] = {}
    if batch_size:
        changes["batch_size"] = batch_size
    if spare:
        changes["negative_passages"] = "unexposed"
    return load_recipe(fine_tuning, initialisation=model, **changes)


def trainer(recipe: Recipe, split: Split, gate: str) -> Callable[[Path, int], Run]:
    """Return our own training, for `probe`: (folder, seed) → its run.

    The cost of a run is known before it is computed.
    """
    queries = splitting.searched_queries(split, gate)

    def train(folder: Path, seed: int) -> Run:
        """Return the run of the model of a training set, which the folder names."""
        training_set = Part(of=split, part=folder.name)
        model = model_of(recipe, training_set, seed)
        return Run(model=model, queries=queries, depth=DEPTH)

    return train


def untrained(recipe: Recipe, split: Split, gate: str) -> Run:
    """Return the run of the model that our own training starts from."""
    without_steps = changed(recipe, steps=0, epochs=None)
    return run_before_training(without_steps, split, gate)
