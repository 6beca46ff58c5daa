"""Training pairs (query, relevant passage) of chosen queries, as arrays."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from interextra.data.runs import RunFile
from interextra.ground.errors import InputError, offenders


class Pairs(NamedTuple):
    """`texts[query[i]]` is answered by passage `rows[i]`. Sorted by query, then row."""

    query_ids: list[str]
    texts: list[str]
    query: np.ndarray  # int64[pairs] into texts
    rows: np.ndarray  # int64[pairs] into the passages


def training_pairs(collection, query_ids: Sequence[str], split: str, relevance: int) -> Pairs:
    """Judgements of at least `relevance` for `query_ids`; queries without one are left out.

    InputError for a query_id that is not in the split, for no pair, for a judged passage that is not in the collection.
    """
    queries, name = collection.queries(split), collection.name
    known, wanted = pd.Index(queries["query_id"]), pd.Index(query_ids).unique()
    if len(missing := wanted.difference(known)):
        raise InputError(f"{name}: {len(missing)} query_ids are not in split {split!r}: {offenders(missing)}")
    qrels = collection.qrels(split)
    qrels = qrels[(qrels["relevance"] >= relevance) & qrels["query_id"].isin(wanted)]
    if qrels.empty:
        asked = f"none of {len(wanted)} queries of split {split!r}"
        raise InputError(f"{name}: {asked} has a passage of relevance {relevance} or more")
    rows = collection.passages.rows(qrels["doc_id"])
    if (rows < 0).any():
        bad = qrels["doc_id"].to_numpy()[rows < 0]
        raise InputError(f"{name}: {len(bad)} judged passages are not in the collection: {offenders(bad)}")
    # the order of the caller's list does not matter: the same set of queries gives the same model
    at, query = np.unique(known.get_indexer(qrels["query_id"]), return_inverse=True)
    order = np.lexsort((rows, query))
    used = queries.iloc[at]
    return Pairs(used["query_id"].tolist(), used["text"].tolist(), query[order], rows[order])


def exposed_passages(collection, pairs: Pairs, relevance: int) -> np.ndarray:
    """Which passages are relevant to some query of the collection, of any split, but to none of the training queries.

    Negative exposure: such a passage is in the corpus, so a sampler can find it, and training teaches that it is wrong
    only. Returns bool[passages]. Taught in notebooks/09_negative_exposure.
    """
    judged = pd.concat([collection.qrels(split) for split in collection.splits])
    rows = collection.passages.rows(judged.loc[judged["relevance"] >= relevance, "doc_id"])
    exposed = np.zeros(len(collection.passages), bool)
    exposed[rows[rows >= 0]] = True
    exposed[pairs.rows] = False
    return exposed


def ranked_rows(path: Path, collection, query_ids: Sequence[str], depth: int) -> np.ndarray:
    """Rows of the first `depth` passages of each query in a run file: int64[queries, depth], -1 where it has fewer."""
    run = RunFile.read(path)
    if absent := set(query_ids) - set(run.query_ids):
        raise InputError(f"{path}: {len(absent)} training queries are not in the run: {offenders(sorted(absent))}")
    at = pd.Index(run.query_ids).get_indexer(query_ids)
    place = run.offsets[at, None] + np.arange(depth)
    rows = np.append(collection.passages.rows(run.doc_ids.to_pylist())[run.doc_codes], -1)  # of the hits in a line
    return rows[np.where(place < run.offsets[at + 1, None], place, -1)]


def negatives_of(ranking: np.ndarray, pairs: Pairs, drawable: np.ndarray) -> np.ndarray:
    """A ranking of the training queries without the relevant passages: int32[queries, depth], best first, -1 last.

    Unjudged passages count as not relevant, as in the papers. `drawable`: bool[passages], those that may be negatives.
    """
    codes = np.arange(len(ranking), dtype=np.int64)[:, None] * len(drawable) + ranking
    bad = np.isin(codes, pairs.query * len(drawable) + pairs.rows) | ~drawable[ranking]
    rows = np.where(bad, -1, ranking)
    return np.take_along_axis(rows, np.argsort(rows < 0, axis=1, kind="stable"), axis=1)
