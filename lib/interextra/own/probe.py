"""Notebook 12: a training of the user's on each set of a split, and what its models say of both
regimes.
"""

import itertools
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from interextra.data.queries import Part
from interextra.data.runs import RunFile
from interextra.measures.evaluate import check as check_measures
from interextra.models.architectures.dense import inner_products
from interextra.models.model import fit, load_model
from interextra.models.recipe import Recipe, changed, load_recipe
from interextra.models.retriever import Encoder
from interextra.models.search import hybrid
from interextra.models.search.run import Run
from interextra.models.search.topk import exact_search
from interextra.own import regimes
from interextra.own import splitting as own
from interextra.own.given import (
    COLUMNS,
    Given,
    nearest,
    of_hits,
    of_training,
    read_run,
    together,
    values_of,
)
from interextra.own.options import refuse_numbers
from interextra.splits.split import Split
from interextra.stats.tests import detectable
from interextra.store import Cell, InputError, Store, offenders

DEPTH, RERANKED, BLOCK = (
    1000,
    100,
    8192,
)  # passages in a run, of BM25 that a `predict` orders, encoded at once
CAN = "encode_query and encode_document, encode(list[str]), predict(pairs), or search({query_id: text})"


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
    **options: Any,
) -> regimes.Report:
    """Train on each set of a split with each seed, search its test queries, and report: a
    `cross_validate`.

    train : f(folder, seed) → a model or a run. The folder holds the training set as `ids` and `st`,
    and exposed.txt,
        what to exclude from negatives; beside it lie the data sets `queries` and `corpus` (see
        `formats`). A model can one of `CAN`; a run: a cell to compute, `RunFile`, file, frame (qid,
        docno, score), {query_id: {doc_id: score}}.
    protocol, options : of `own.split_of` and `own.export`, see `own.DEFAULTS`. out : the split and
    the report go there, the models' runs too, or into `predictions`. store, compute : where results
    are kept, and what computes one there: in a notebook `nb.store`, `nb.run`.
    """
    check_measures(measures)
    regimes.refuse_first(measures[0])
    if not callable(train):
        raise InputError(
            f"probe: train is {type(train).__name__}; give a function of a folder and a seed"
        )
    if unknown := sorted(options.keys() - own.DEFAULTS.keys()):
        raise InputError(
            f"probe: no option {offenders(unknown)}; there are {', '.join(own.DEFAULTS)}"
        )
    p, out = own.DEFAULTS | options, Path(out)
    folder, runs, store = (
        out / "split",
        Path(predictions or out / "runs"),
        store or Store(out / "cells"),
    )
    refuse_numbers(Namespace(**p, seeds=list(seeds), margin=margin, n_boot=n_boot))
    for place in (out, runs):
        own.refuse_place(place)
    split, compute = own.split_of(protocol, collection, p), compute or store.build
    if not folder.is_dir():
        compute(split)
        own.export(split, store, folder, p)
    given = Given.open(folder, p["attribute"])
    asked = {"negatives": p["negatives"], "spare": p["spare"], "format": list(p["format"])}
    asked["gate"] = own.gate_of(p, split.pool.source)
    if given.split != split or given.manifest != given.manifest.model_copy(update=asked):
        raise InputError(f"{folder}: is of other options; name another folder, or move it away")
    compute(given.bm25)
    first = given.read(given.bm25, store)
    rival = values_of(first, given, measures)
    tested = rival.loc[
        (rival["measure"] == measures[0]) & ~rival["query_id"].isin(given.held), "value"
    ]
    error = tested.sem()
    smallest = 100 * detectable(-1.96 * error, 1.96 * error, error) / (tested.mean() or np.nan)
    told = f"{len(tested):,} queries find a change of about {smallest:.0f} % with 80 % power (of queries alone, if the"
    told += " models' values vary as BM25's do and correlate at one half between the regimes)"
    print(told, file=sys.stderr, flush=True)  # before anything is trained
    near, suffix, parts = nearest(given, p["encoder"]), _suffix(given), []
    for name, seed in itertools.product(given.sets, seeds):
        found = train(folder / name, seed)
        if isinstance(found, Run):
            compute(found)
            found = given.read(found, store)
        path, run = runs / f"{name}.{seed}{suffix}", run_of(found, given, first)
        run.write_trec(path) if suffix == ".run" else run.write_parquet(path)
        parts.append(of_training(values_of(path, given, measures), given, name, str(seed)))
    values = together(parts, given)
    return regimes.write(out, regimes.report(given, values, rival, near, margin, p["seed"], n_boot))


def _suffix(given: Given) -> str:
    """Of the files of runs: TREC's, or Parquet where a doc_id has white space, which a TREC file
    cannot hold.
    """
    doc_ids = given.split.pool.source.open().passages.doc_ids
    has_space = pc.any(pc.match_substring_regex(doc_ids, r"\s")).as_py()
    return ".parquet" if has_space else ".run"


def run_of(found: Any, given: Given, first: RunFile) -> RunFile:
    """The run of what a training gave, by what it can; `first`: BM25's, which a `predict`
    reranks.
    """
    text_of = given.queries.set_index("query_id")["text"]
    passages = given.split.pool.source.open().passages
    if isinstance(found, RunFile):
        return found
    if isinstance(found, str | Path):
        return read_run(Path(found))
    if isinstance(found, pd.DataFrame):
        return RunFile.from_frame(found.rename(columns=COLUMNS))
    if hasattr(found, "search"):
        found = found.search(text_of.to_dict())
    if isinstance(found, Mapping):
        return of_hits(found)
    if encode := getattr(found, "encode_query", getattr(found, "encode", None)):
        encode_document = getattr(found, "encode_document", encode)
        is_cosine = getattr(found, "similarity_fn_name", "") == "cosine"
        blocks = (
            _matrix(encode_document, block, is_cosine) for _, block in passages.batches(BLOCK)
        )
        scores = inner_products(_matrix(encode, text_of.tolist(), is_cosine))
        hits = exact_search(passages, blocks, scores, len(text_of), DEPTH, BLOCK)
        return RunFile.from_arrays(text_of.index.tolist(), passages.doc_ids, *hits)
    if not hasattr(found, "predict"):
        raise InputError(
            f"probe: the training gave {type(found).__name__}; it needs {CAN}, or give a run"
        )
    kept = first.frame().query("rank <= @RERANKED")
    pairs = zip(
        text_of[kept["query_id"]], passages.texts(passages.rows(kept["doc_id"])), strict=True
    )
    return RunFile.from_frame(
        kept.assign(score=np.asarray(found.predict(list(pairs)), float).ravel())
    )


def _matrix(encode: Callable, texts: list[str], is_cosine: bool) -> np.ndarray:
    try:
        found = np.asarray(encode(texts), dtype=np.float32)
    except (ValueError, TypeError):
        found = np.empty(0)
    if found.shape[:1] != (len(texts),) or found.ndim != 2:
        raise InputError(
            f"probe: the model gave no matrix for {len(texts)} texts, a row each; give it a search"
        )
    return found / np.linalg.norm(found, axis=1, keepdims=True).clip(1e-12) if is_cosine else found


def recipe_of(
    model: str, revision: str = "", fine_tuning: str = "", batch_size: int = 0, spare: bool = False
) -> Recipe:
    """A recipe that starts from the user's model, of a hub id in some revision; `spare`: no exposed
    negatives.
    """
    if revision:
        from huggingface_hub import snapshot_download

        try:
            model = snapshot_download(model, revision=revision)
        except (OSError, ValueError) as error:
            raise InputError(
                f"--model-revision {revision}: {model} is not there: {error}"
            ) from None
    fine_tuning = fine_tuning or ("mini-dense" if model == "tiny-base" else "small-dense")
    options = {"batch_size": batch_size} if batch_size else {}
    options |= {"negative_passages": "unexposed"} if spare else {}
    return load_recipe(fine_tuning, initialisation=model, **options)


def trainer(recipe: Recipe, split: Split, gate: str) -> Callable[[Path, int], Run]:
    """Our own training, for `probe`: (folder, seed) → its run, of which the cost is known before it
    is computed.
    """
    search = {"queries": own.searched(split, gate), "depth": DEPTH}
    return lambda folder, seed: Run(
        model=hybrid.any_model_of(recipe, Part(of=split, part=folder.name), seed), **search
    )


def check(recipe: Recipe, split: Split) -> str:
    """Train one step on ten queries and, of an encoder, rank ten passages: what is wrong is said
    before it costs.
    """
    if recipe.needs():
        told = f"this recipe trains other models first ({', '.join(recipe.needs())}), which --check does not"
        raise InputError(f"--check: {told}; run without it")
    data, texts = split.pool.source.open(), split.pool.frame()["text"].tolist()[:10]
    with tempfile.TemporaryDirectory() as folder:
        once = changed(recipe, steps=1, epochs=None)
        log = fit(once, data, split.pool.ids()[:10], split.pool.split, 1, folder)
        told = f"A training step on ten queries has the loss {log['loss'][0][1]:.3f}."
        if isinstance(model := load_model(folder), Encoder):
            scores = model.open_queries(texts)(model.encode_block(data.passages.texts(slice(10))))(
                slice(None)
            )
            told += f" It ranks {scores.shape[1]} passages for {scores.shape[0]} queries."
    return told
