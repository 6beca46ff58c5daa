"""The split files that the two groups released, read and written byte for byte; ours beside them.

Zhan et al. (CIKM 2022), repository jingtaozhan/extrapolate-eval: TREC qrels separated by tabs.
Lupart et al. (ECIR 2023), repository naver/ms-marco-shift: queries separated by tabs, qrels as
JSON. Our own splits are written in the same formats.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from pathlib import Path

import pandas as pd

from interextra.data import trec
from interextra.data.collection import rows_of
from interextra.store import InputError, offenders, write_text
from interextra.store.files import parse_json

KINDS = ("restrain", "resttest", "shift")


def read_restrain(folder: Path, size: str, regime: str) -> pd.DataFrame:
    """Read the training qrels of a ReSTrain set: query_id, doc_id, relevance.

    Rows are as in the file (200k repeats a few).
    """
    path = folder / f"restrain_files/msmarco-passage/{size}/{regime}.train-qrel.txt"
    return trec.read_qrels(path, duplicates="keep")


def read_resttest(folder: Path, bucket: int, regime: str, test_set: str) -> pd.DataFrame:
    """Read the test qrels of a ReSTTest bucket.

    `extrapolate` is the bucket held out, `interpolate` the other four.
    """
    bucket_folder = folder / f"resttest_files/msmarco-passage/bucket-{bucket}"
    return trec.read_qrels(bucket_folder / f"{regime}.{test_set}-qrel.txt")


def read_shift(folder: Path, cluster: str) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Read an MS-Shift evaluation set.

    Texts are kept as released, double spaces and broken characters included: the length rule counts
    single spaces.

    Returns
    -------
    Its queries, its qrels, and the query_ids that have qrels but no text.
    """
    queries_path, qrels_path = _shift_paths(folder, cluster)
    queries = trec.read_queries_tsv(queries_path)
    qrels = read_qrels_json(qrels_path)
    has_text = qrels["query_id"].isin(queries["query_id"])
    without_text = qrels["query_id"][~has_text].unique()
    return queries, qrels, without_text.tolist()


def _shift_paths(folder: Path, cluster: str) -> tuple[Path, Path]:
    """Return the paths of the queries and of the qrels of an MS-Shift evaluation set."""
    queries_path = folder / f"EVAL/queries/queries_{cluster}.tsv"
    return queries_path, folder / f"EVAL/qrel/qrel_{cluster}.json"


def read_qrels_json(path: Path) -> pd.DataFrame:
    """Read qrels from one JSON object {query_id: {doc_id: relevance}}.

    Returns
    -------
    query_id, doc_id, relevance.

    Raises
    ------
    InputError
        The file is no such object, has no judgement, or a relevance that is not whole or too large.
    """
    shape = 'write {"query_id": {"doc_id": relevance, …}, …}, relevance in whole numbers of 64 bits'
    document = parse_json(trec.content(path), path)
    rows = []
    try:
        for query_id, judgements in document.items():
            for doc_id, relevance in judgements.items():
                rows.append((query_id, doc_id, index(relevance)))
    except (AttributeError, TypeError) as error:
        raise InputError(f"{path}: not qrels as JSON ({error}); {shape}") from None
    if not rows:
        raise InputError(f"{path}: no judgements in it; {shape}")
    too_large = []
    for query_id, doc_id, relevance in rows:
        if not -(2**63) <= relevance < 2**63:
            too_large.append((query_id, doc_id))
    if too_large:
        pairs = offenders(too_large)
        raise InputError(f"{path}: the relevance of {pairs} is too large; {shape}")
    return pd.DataFrame(rows, columns=trec.QRELS_COLUMNS)


def write_qrels(path: Path, qrels: pd.DataFrame) -> Path:
    """Write `query_id 0 doc_id relevance`, separated by tabs: the format of Zhan et al.

    Rows are in the order given.
    """
    for name in ("query_id", "doc_id"):
        trec.refuse_white_space(name, qrels[name])
    rows = qrels[trec.QRELS_COLUMNS].itertuples(index=False)
    lines = [f"{query_id}\t0\t{doc_id}\t{relevance}\n" for query_id, doc_id, relevance in rows]
    return write_text(path, "".join(lines))


def write_shift(
    folder: Path, cluster: str, queries: pd.DataFrame, qrels: pd.DataFrame
) -> list[Path]:
    """Write a set of MS-Shift: tab-separated texts, and the qrels as JSON on one line."""
    queries_path, qrels_path = _shift_paths(folder, cluster)
    has_break = queries["text"].str.contains(r"[\t\r\n]")
    if has_break.any():
        broken = offenders(queries["query_id"][has_break])
        raise InputError(
            f"query_id {broken}: a tab or line break in the text; this format cannot hold it"
        )
    trec.refuse_repeated(qrels[["query_id", "doc_id"]], "qrels")
    document = {}
    for query_id, judgements in qrels.groupby("query_id", sort=False):
        relevance = judgements["relevance"].tolist()
        document[query_id] = dict(zip(judgements["doc_id"], relevance, strict=True))
    lines = queries["query_id"] + "\t" + queries["text"] + "\n"
    write_text(queries_path, "".join(lines))
    write_text(qrels_path, json.dumps(document))
    return [queries_path, qrels_path]


def export_split(
    kind: str,
    sets: Mapping[str, Sequence[str]],
    queries: pd.DataFrame,
    qrels: pd.DataFrame,
    folder: Path,
) -> list[Path]:
    """Write a split of ours as the releases write theirs; return the paths.

    Parameters
    ----------
    kind
        "restrain" writes SIZE/REGIME.train-qrel.txt for a set REGIME-SIZE, NAME.train-qrel.txt for
        any other; "resttest" writes bucket-NAME/extrapolate.test-qrel.txt (the set) and
        interpolate.test-qrel.txt (all others); "shift" writes EVAL/queries/queries_NAME.tsv and
        EVAL/qrel/qrel_NAME.json.
    sets
        Name → query_ids: the sets of a split, or for the last two kinds the test queries of each
        bucket or cluster.
    queries, qrels
        query_id, text and judgements of at least these queries.
    folder
        Where to.

    Raises
    ------
    InputError
        An unknown kind, a name that no file can have.
    """
    if kind not in KINDS:
        kinds = ", ".join(KINDS)
        raise InputError(f"export_split: no kind {kind!r}; there are {kinds}")
    _refuse_slashes(sets)
    all_ids = set().union(*sets.values())
    qrels = rows_of(qrels, all_ids)
    paths = []
    for name, query_ids in sets.items():
        inside = qrels["query_id"].isin(query_ids)
        if kind == "shift":
            texts = rows_of(queries, query_ids)
            paths += write_shift(folder, name, texts, qrels[inside])
        elif kind == "resttest":
            bucket_folder = folder / f"bucket-{name}"
            paths += _write_bucket(bucket_folder, qrels[inside], qrels[~inside])
        else:
            path = folder / _training_file(name)
            paths.append(write_qrels(path, qrels[inside]))
    return paths


def _write_bucket(folder: Path, held_out: pd.DataFrame, others: pd.DataFrame) -> list[Path]:
    """Write the test qrels of a bucket, and those of all other buckets; return the paths."""
    extrapolate = write_qrels(folder / "extrapolate.test-qrel.txt", held_out)
    interpolate = write_qrels(folder / "interpolate.test-qrel.txt", others)
    return [extrapolate, interpolate]


def _training_file(name: str) -> str:
    """Return the file of a training set: SIZE/REGIME for a set REGIME-SIZE, else by its name."""
    released = re.sub(r"^(in|ex)(ter|tra)polation-(\d+)$", r"\3/\1\2polate", name)
    return f"{released}.train-qrel.txt"


def _refuse_slashes(names: Iterable[str]) -> None:
    """Refuse names of sets that no file can have."""
    labels = [name for name in names if "/" in name]
    if labels:
        raise InputError(
            f"label {offenders(labels)}: the name of a file cannot hold a /; rename the label"
        )
