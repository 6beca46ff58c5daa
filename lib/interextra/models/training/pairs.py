"""Training pairs (query, relevant passage) of chosen queries, and what is never their negative.

A passage is what it says, not its id: one that says the same as a relevant one is as good an
answer, under any id.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from interextra.data.collection import BATCH_ROWS, Collection, Passages
from interextra.data.runs import RunFile
from interextra.data.texts import same_text
from interextra.store.errors import InputError, offenders
from interextra.store.files import read_json


class Pairs(NamedTuple):
    """`texts[query[i]]` is answered by passage `rows[i]`; sorted by query, then row."""

    query_ids: list[str]
    texts: list[str]
    query: np.ndarray  # int64[pairs] into texts
    rows: np.ndarray  # int64[pairs] into the passages


def training_pairs(
    collection: Collection, query_ids: Sequence[str], split: str, relevance: int
) -> Pairs:
    """Return the pairs of `query_ids` and their passages of at least `relevance`.

    Queries without such a passage are left out. The order of `query_ids` does not matter: the same
    set of queries gives the same model.

    Raises
    ------
    InputError
        For a query_id that is not in the split, for no pair, for a judged passage that is not in
        the collection.
    """
    queries = collection.queries(split)
    known = pd.Index(queries["query_id"])
    wanted = pd.Index(query_ids).unique()
    missing = wanted.difference(known)
    if len(missing):
        raise InputError(
            f"{collection.name}: {len(missing)} query_ids are not in split {split!r}: "
            f"{offenders(missing)}"
        )
    qrels = _relevant_judgements(collection, wanted, split, relevance)
    rows = _rows_of(collection.passages, qrels["doc_id"], collection.name, "judged passages")
    query_rows = known.get_indexer(qrels["query_id"])
    used, query = np.unique(query_rows, return_inverse=True)
    order = np.lexsort((rows, query))
    training = queries.iloc[used]
    return Pairs(
        query_ids=training["query_id"].tolist(),
        texts=training["text"].tolist(),
        query=query[order],
        rows=rows[order],
    )


def _relevant_judgements(
    collection: Collection, query_ids: pd.Index, split: str, relevance: int
) -> pd.DataFrame:
    """Return judgements of at least `relevance` for some queries; InputError for none."""
    qrels = collection.qrels(split)
    is_relevant = qrels["relevance"] >= relevance
    qrels = qrels[is_relevant & qrels["query_id"].isin(query_ids)]
    if qrels.empty:
        raise InputError(
            f"{collection.name}: none of {len(query_ids)} queries of split {split!r} has a passage "
            f"of relevance {relevance} or more"
        )
    return qrels


def _rows_of(passages: Passages, doc_ids: Sequence[str], owner: str, kind: str) -> np.ndarray:
    """Find the rows of passages; InputError for absent ones, with whose and what they are."""
    rows = passages.rows(doc_ids)
    absent = pd.Index(doc_ids)[rows < 0]
    if len(absent):
        raise InputError(
            f"{owner}: {len(absent)} {kind} are not in the collection: {offenders(absent)}"
        )
    return rows


def text_numbers(passages: Passages) -> np.ndarray:
    """Return a number for the text of each passage, int64[passages].

    It is equal where two passages say the same (`data.texts.same_text`).
    """
    return same_text(text for _, texts in passages.batches(BATCH_ROWS) for text in texts)


def relevant_pairs(pairs: Pairs, text_of: np.ndarray) -> np.ndarray:
    """Return all pairs of a query and a passage that says the same as a relevant one, as codes.

    Parameters
    ----------
    pairs
        The training pairs.
    text_of
        `text_numbers` of all passages.

    Returns
    -------
    int64, ascending: the code of (query, row) is query · passages + row.

    Examples
    --------
    >>> pairs = Pairs(["q"], ["tea?"], np.array([0]), np.array([1]))
    >>> relevant_pairs(pairs, np.array([0, 1, 2, 1])).tolist()  # the last passage is a copy
    [1, 3]
    """
    relevant = pd.DataFrame({"query": pairs.query, "text": text_of[pairs.rows]})
    says_the_same = np.isin(text_of, relevant["text"])
    rows = np.flatnonzero(says_the_same)
    passages = pd.DataFrame({"text": text_of[rows], "row": rows})
    both = relevant.merge(passages, on="text")
    codes = both["query"] * len(text_of) + both["row"]
    return np.unique(codes)


def exposed_passages(
    collection: Collection, pairs: Pairs, relevance: int, text_of: np.ndarray | None = None
) -> np.ndarray:
    """Return which passages are relevant to some query of any split, but to no training query.

    Negative exposure: such a passage is in the corpus, so a sampler can find it, and training
    teaches that it is wrong only. A copy of such a passage is exposed, too, and a copy of a
    training passage is not. Taught in notebooks/09_negative_exposure.

    Parameters
    ----------
    collection
        Its judgements of at least `relevance` count.
    pairs
        The training pairs.
    relevance
        The lowest grade that counts as relevant.
    text_of
        `text_numbers` of the passages, where they are known.

    Returns
    -------
    bool[passages]
    """
    if text_of is None:
        text_of = text_numbers(collection.passages)
    judged = pd.concat([collection.qrels(split) for split in collection.splits])
    judged = judged[judged["relevance"] >= relevance]
    rows = collection.passages.rows(judged["doc_id"])
    is_relevant = np.isin(text_of, text_of[rows[rows >= 0]])
    is_trained = np.isin(text_of, text_of[pairs.rows])
    return is_relevant & ~is_trained


def read_spared(path: Path | None) -> list[str]:
    """Read the doc_ids of passages that are never negatives from a JSON file; none without one."""
    doc_ids = read_json(path) if path else []
    is_list = isinstance(doc_ids, list)
    if not is_list or not all(isinstance(doc_id, str) for doc_id in doc_ids):
        raise InputError(f"{path}: give a JSON list of doc_ids")
    return doc_ids


def spared_passages(doc_ids: Sequence[str], passages: Passages, text_of: np.ndarray) -> np.ndarray:
    """Return bool[passages]: the passages of these doc_ids and their copies.

    InputError for ids that are not in the collection.
    """
    rows = _rows_of(passages, doc_ids, "spared", "passages")
    return np.isin(text_of, text_of[rows])


def ranked_rows(
    path: Path, collection: Collection, query_ids: Sequence[str], depth: int
) -> np.ndarray:
    """Read the rows of the first `depth` passages of each query in a run file.

    Returns int64[queries, depth], -1 where a query has fewer.
    """
    run = RunFile.read(path)
    absent = set(query_ids) - set(run.query_ids)
    if absent:
        raise InputError(
            f"{path}: {len(absent)} training queries are not in the run: "
            f"{offenders(sorted(absent))}"
        )
    query = pd.Index(run.query_ids).get_indexer(query_ids)
    hit = run.offsets[query, None] + np.arange(depth)
    is_hit = hit < run.offsets[query + 1, None]
    row_of_code = collection.passages.rows(run.doc_ids.to_pylist())
    row_of_hit = np.append(row_of_code[run.doc_codes], -1)
    return row_of_hit[np.where(is_hit, hit, -1)]


def negatives_of(ranking: np.ndarray, relevant: np.ndarray, drawable: np.ndarray) -> np.ndarray:
    """Return a ranking of the training queries without the relevant passages.

    Unjudged passages count as not relevant, as in the papers, but for copies of relevant ones.

    Parameters
    ----------
    ranking
        int[queries, depth], rows of passages, best first, -1 last.
    relevant
        Codes as of `relevant_pairs`.
    drawable
        bool[passages], those that may be negatives.

    Returns
    -------
    int[queries, depth], best first, -1 last.
    """
    query = np.arange(len(ranking), dtype=np.int64)[:, None]
    is_relevant = np.isin(query * len(drawable) + ranking, relevant)
    is_barred = is_relevant | ~drawable[ranking]
    rows = np.where(is_barred, -1, ranking)
    padding_last = np.argsort(rows < 0, axis=1, kind="stable")
    return np.take_along_axis(rows, padding_last, axis=1)
