"""Training pairs (query, relevant passage) of chosen queries, as arrays; and which passages are
never their negatives.

A passage is what it says, not its id: one that says the same as a relevant one is as good an
answer, under any id.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from interextra.data.collection import BATCH_ROWS, Passages
from interextra.data.runs import RunFile
from interextra.data.texts import same_text
from interextra.store.errors import InputError, offenders
from interextra.store.files import read_json


class Pairs(NamedTuple):
    """`texts[query[i]]` is answered by passage `rows[i]`. Sorted by query, then row."""

    query_ids: list[str]
    texts: list[str]
    query: np.ndarray  # int64[pairs] into texts
    rows: np.ndarray  # int64[pairs] into the passages


def training_pairs(collection, query_ids: Sequence[str], split: str, relevance: int) -> Pairs:
    """Judgements of at least `relevance` for `query_ids`; queries without one are left out.

    InputError for a query_id that is not in the split, for no pair, for a judged passage that is
    not in the collection.
    """
    queries, name = collection.queries(split), collection.name
    known, wanted = pd.Index(queries["query_id"]), pd.Index(query_ids).unique()
    if len(missing := wanted.difference(known)):
        raise InputError(
            f"{name}: {len(missing)} query_ids are not in split {split!r}: {offenders(missing)}"
        )
    qrels = collection.qrels(split)
    qrels = qrels[(qrels["relevance"] >= relevance) & qrels["query_id"].isin(wanted)]
    if qrels.empty:
        asked = f"none of {len(wanted)} queries of split {split!r}"
        raise InputError(f"{name}: {asked} has a passage of relevance {relevance} or more")
    rows = collection.passages.rows(qrels["doc_id"])
    if (rows < 0).any():
        bad = qrels["doc_id"].to_numpy()[rows < 0]
        raise InputError(
            f"{name}: {len(bad)} judged passages are not in the collection: {offenders(bad)}"
        )
    # the order of the caller's list does not matter: the same set of queries gives the same model
    at, query = np.unique(known.get_indexer(qrels["query_id"]), return_inverse=True)
    order = np.lexsort((rows, query))
    used = queries.iloc[at]
    return Pairs(used["query_id"].tolist(), used["text"].tolist(), query[order], rows[order])


def text_numbers(passages: Passages) -> np.ndarray:
    """A number for each passage, int64[passages], equal where two say the same
    (`data.texts.same_text`).
    """
    return same_text(text for _, texts in passages.batches(BATCH_ROWS) for text in texts)


def relevant_pairs(pairs: Pairs, alike: np.ndarray) -> np.ndarray:
    """Codes of all pairs of a query and a passage that says the same as a relevant one: int64,
    ascending.

    The code of (query, row) is query · passages + row. `alike`: `text_numbers` of all passages.

    >>> pairs = Pairs(["q"], ["tea?"], np.array([0]), np.array([1]))
    >>> relevant_pairs(pairs, np.array([0, 1, 2, 1])).tolist()  # the last passage is a copy
    [1, 3]
    """
    by_text = np.argsort(alike, kind="stable")
    n_alike = np.bincount(alike)
    first = np.cumsum(n_alike) - n_alike
    of_pair = alike[pairs.rows]
    copies = n_alike[of_pair]
    among_copies = np.arange(copies.sum()) - np.repeat(np.cumsum(copies) - copies, copies)
    rows = by_text[np.repeat(first[of_pair], copies) + among_copies]
    return np.unique(np.repeat(pairs.query, copies) * len(alike) + rows)


def exposed_passages(
    collection, pairs: Pairs, relevance: int, alike: np.ndarray | None = None
) -> np.ndarray:
    """Which passages are relevant to some query of the collection, of any split, but to none of the
    training queries.

    Negative exposure: such a passage is in the corpus, so a sampler can find it, and training
    teaches that it is wrong only. A copy of such a passage is exposed, too, and a copy of a
    training passage is not. `alike`: `text_numbers` of the passages, where they are known. Returns
    bool[passages]. Taught in notebooks/09_negative_exposure.
    """
    alike = text_numbers(collection.passages) if alike is None else alike
    judged = pd.concat([collection.qrels(split) for split in collection.splits])
    rows = collection.passages.rows(judged.loc[judged["relevance"] >= relevance, "doc_id"])
    relevant_texts, trained_texts = alike[rows[rows >= 0]], alike[pairs.rows]
    return np.isin(alike, relevant_texts) & ~np.isin(alike, trained_texts)


def read_spared(path: Path | None) -> list[str]:
    """The doc_ids in a JSON file of passages that are never negatives; none without a file."""
    doc_ids = read_json(path) if path else []
    if not isinstance(doc_ids, list) or not all(isinstance(one, str) for one in doc_ids):
        raise InputError(f"{path}: give a JSON list of doc_ids")
    return doc_ids


def spared_passages(doc_ids: Sequence[str], passages: Passages, alike: np.ndarray) -> np.ndarray:
    """bool[passages]: the passages of these doc_ids and their copies; InputError for ids not in the
    collection.
    """
    rows = passages.rows(list(doc_ids))
    if (rows < 0).any():
        absent = [doc_id for doc_id, row in zip(doc_ids, rows, strict=True) if row < 0]
        raise InputError(
            f"spared: {len(absent)} passages are not in the collection: {offenders(absent)}"
        )
    return np.isin(alike, alike[rows])


def ranked_rows(path: Path, collection, query_ids: Sequence[str], depth: int) -> np.ndarray:
    """Rows of the first `depth` passages of each query in a run file: int64[queries, depth], -1
    where it has fewer.
    """
    run = RunFile.read(path)
    if absent := set(query_ids) - set(run.query_ids):
        raise InputError(
            f"{path}: {len(absent)} training queries are not in the run: {offenders(sorted(absent))}"
        )
    at = pd.Index(run.query_ids).get_indexer(query_ids)
    place = run.offsets[at, None] + np.arange(depth)
    rows = np.append(
        collection.passages.rows(run.doc_ids.to_pylist())[run.doc_codes], -1
    )  # of the hits in a line
    return rows[np.where(place < run.offsets[at + 1, None], place, -1)]


def negatives_of(ranking: np.ndarray, relevant: np.ndarray, drawable: np.ndarray) -> np.ndarray:
    """A ranking of the training queries without the relevant passages: int32[queries, depth], best
    first, -1 last.

    Unjudged passages count as not relevant, as in the papers, but for copies of relevant ones.
    `relevant`: codes as of `relevant_pairs`; `drawable`: bool[passages], those that may be
    negatives.
    """
    codes = np.arange(len(ranking), dtype=np.int64)[:, None] * len(drawable) + ranking
    bad = np.isin(codes, relevant) | ~drawable[ranking]
    rows = np.where(bad, -1, ranking)
    return np.take_along_axis(rows, np.argsort(rows < 0, axis=1, kind="stable"), axis=1)
