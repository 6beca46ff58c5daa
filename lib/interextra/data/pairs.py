"""Collections that their authors release as pairs of a question and the passage that answers it.

What their readers share: each question once, and its split into train, dev and test.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random

import pandas as pd

from interextra.data import converted
from interextra.data.beir import FIRST_SPLITS, Record, stamp
from interextra.data.collection import Collection
from interextra.data.trec import QRELS_COLUMNS
from interextra.store.errors import InputError, offenders

SEED = 20221
ONE_OF = 10  # questions is in dev, one in test

Qrels = dict[str, pd.DataFrame]  # split -> query_id, doc_id, relevance


def open_pairs(
    name: str,
    spec: str,
    files: Sequence[Path],
    read: Callable[[], converted.Parts],
    reader: str,
    *depends: object,
) -> Collection:
    """Open what `read` delivers; it is converted once, and again after a change of the files.

    Parameters
    ----------
    reader
        MODULE:DEFINITION of `read`.
    depends
        What else the collection depends on, beside the times of its files.

    Raises
    ------
    InputError
        A missing file, and what `read` and `converted.convert` refuse.
    """
    missing = [str(path) for path in files if not os.path.isfile(path)]
    if missing:
        raise InputError(
            f"{spec}: no such file: {offenders(missing)}; clone the authors' repository, "
            "or give the path of the clone"
        )
    stamps = [stamp(path) for path in files]
    folder = converted.folder_of(name, reader, stamps, *depends)
    return converted.stored(folder, name, spec, read, set())


def numbered(
    pairs: Sequence[Record], source: Path, key_of: Callable[[str], str] = str.lower
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the questions, each once, and their judgements.

    Parameters
    ----------
    pairs
        In the order of the source: `text`, `doc_id` and attributes. Text and attributes of a
        question are those of its first pair.
    key_of
        What is equal of two texts of one question.

    Returns
    -------
    queries
        query_id (q0, q1, … by first appearance), text, attributes.
    qrels
        query_id, doc_id, relevance (1), by question, then in the order of the pairs.
    """
    if not pairs:
        raise InputError(f"{source}: no questions in it; is it what the authors released?")
    table = pd.DataFrame(pairs, dtype=object)
    keys = table["text"].map(key_of)
    numbers, _ = pd.factorize(keys)
    table["query_id"] = [f"q{number}" for number in numbers]
    table["relevance"] = 1
    table = table.iloc[numbers.argsort(kind="stable")]
    queries = table.drop_duplicates("query_id").drop(columns=["doc_id", "relevance"])
    qrels = table[QRELS_COLUMNS].drop_duplicates(["query_id", "doc_id"])
    return queries.reset_index(drop=True), qrels.reset_index(drop=True)


def at_random(units: Iterable[str]) -> dict[str, str]:
    """Return the split of each unit: a tenth dev, a tenth test, the others train."""
    shuffled = list(units)
    Random(SEED).shuffle(shuffled)
    n_held_out = len(shuffled) // ONE_OF
    dev = shuffled[:n_held_out]
    test = shuffled[n_held_out : 2 * n_held_out]
    split_of = dict.fromkeys(shuffled, "train")
    return split_of | dict.fromkeys(dev, "dev") | dict.fromkeys(test, "test")


def split_by_question(qrels: pd.DataFrame) -> Qrels:
    """Return the judgements of each split, whose questions are drawn at random."""
    query_ids = qrels["query_id"]
    split_of_query = at_random(query_ids.unique())
    return _divided(qrels, query_ids.map(split_of_query))


def split_by_passage(qrels: pd.DataFrame, split_of_passage: Mapping[str, str]) -> Qrels:
    """Return the judgements of each split of passages, in the alphabetical order of query_ids.

    Questions that passages of two splits answer, or one of no split (""), are left out.
    """
    split_of_row = qrels["doc_id"].map(split_of_passage)
    n_splits = split_of_row.groupby(qrels["query_id"]).transform("nunique")
    kept = qrels[n_splits == 1].sort_values("query_id", kind="stable")
    return _divided(kept, split_of_row[kept.index])


def _divided(qrels: pd.DataFrame, split_of_row: pd.Series) -> Qrels:
    """Return the judgements of each split."""
    divided = {}
    for split in FIRST_SPLITS:
        divided[split] = qrels[split_of_row == split].reset_index(drop=True)
    return divided


def parts_of(
    source: Path, passages: Mapping[str, str], queries: pd.DataFrame, qrels: Qrels
) -> converted.Parts:
    """Return the parts of a collection; `passages` are doc_id → text.

    Raises
    ------
    InputError
        A split without questions.
    """
    empty = [split for split, judged in qrels.items() if judged.empty]
    if empty:
        raise InputError(
            f"{source}: none of its {len(queries)} questions is in the split {offenders(empty)}; "
            "is it all that the authors released?"
        )

    def place_of(part: str, row: int) -> str:
        """Return the place of a row, for errors."""
        return f"{source}, {part}"

    return converted.Parts(passages.items(), queries, qrels, place_of)
