"""The split files that the two groups released, read and written byte for byte; our own splits in
the same formats.

Zhan et al. (CIKM 2022), repository jingtaozhan/extrapolate-eval: TREC qrels separated by tabs.
Lupart et al. (ECIR 2023), repository naver/ms-marco-shift: queries separated by tabs, qrels as
JSON.
"""

import json
import re
from collections.abc import Mapping, Sequence
from operator import index
from pathlib import Path

import pandas as pd

from interextra.data import trec
from interextra.store import InputError, offenders, write_text
from interextra.store.files import parse_json

KINDS = ("restrain", "resttest", "shift")


def read_restrain(folder: Path, size: str, regime: str) -> pd.DataFrame:
    """Training qrels of a ReSTrain set: query_id, doc_id, relevance, rows as in the file (200k
    repeats a few).
    """
    return trec.read_qrels(
        folder / f"restrain_files/msmarco-passage/{size}/{regime}.train-qrel.txt", duplicates="keep"
    )


def read_resttest(folder: Path, bucket: int, regime: str, test_set: str) -> pd.DataFrame:
    """Test qrels of a ReSTTest bucket: `extrapolate` is the bucket held out, `interpolate` the
    other four.
    """
    return trec.read_qrels(
        folder / f"resttest_files/msmarco-passage/bucket-{bucket}/{regime}.{test_set}-qrel.txt"
    )


def read_shift(folder: Path, cluster: str) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """An MS-Shift evaluation set: its queries, its qrels, and the query_ids that have qrels but no
    text.

    Texts are kept as released, double spaces and broken characters included: the length rule counts
    single spaces.
    """
    queries_path, qrels_path = _shift_paths(folder, cluster)
    queries, qrels = trec.read_queries_tsv(queries_path), read_qrels_json(qrels_path)
    return (
        queries,
        qrels,
        qrels["query_id"][~qrels["query_id"].isin(queries["query_id"])].unique().tolist(),
    )


def _shift_paths(folder: Path, cluster: str) -> tuple[Path, Path]:
    return folder / f"EVAL/queries/queries_{cluster}.tsv", folder / f"EVAL/qrel/qrel_{cluster}.json"


def read_qrels_json(path: Path) -> pd.DataFrame:
    """Qrels from one JSON object {query_id: {doc_id: relevance}}: query_id, doc_id, relevance."""
    shape = 'write {"query_id": {"doc_id": relevance, …}, …}, relevance in whole numbers of 64 bits'
    document = parse_json(trec.content(path), path)
    try:
        judged = [(query_id, *pair) for query_id, docs in document.items() for pair in docs.items()]
        rows = [(query_id, doc_id, index(relevance)) for query_id, doc_id, relevance in judged]
    except (AttributeError, TypeError) as error:
        raise InputError(f"{path}: not qrels as JSON ({error}); {shape}") from None
    if not rows:
        raise InputError(f"{path}: no judgements in it; {shape}")
    if large := [row for row in rows if not -(2**63) <= row[2] < 2**63]:
        raise InputError(
            f"{path}: the relevance of {offenders(row[:2] for row in large)} is too large; {shape}"
        )
    return pd.DataFrame(rows, columns=trec.QRELS_COLUMNS)


def write_qrels(path: Path, qrels: pd.DataFrame) -> Path:
    """Write `query_id 0 doc_id relevance`, separated by tabs, rows in the order given: the format
    of Zhan et al.
    """
    for name in ("query_id", "doc_id"):
        trec.refuse_white_space(name, qrels[name])
    rows = qrels[trec.QRELS_COLUMNS].itertuples(index=False)
    return write_text(
        path,
        "".join(f"{query_id}\t0\t{doc_id}\t{relevance}\n" for query_id, doc_id, relevance in rows),
    )


def write_shift(
    folder: Path, cluster: str, queries: pd.DataFrame, qrels: pd.DataFrame
) -> list[Path]:
    """Write a set of MS-Shift: tab-separated texts, and the qrels as one JSON object on one
    line.
    """
    queries_path, qrels_path = _shift_paths(folder, cluster)
    if len(bad := queries["query_id"][queries["text"].str.contains(r"[\t\r\n]")]):
        raise InputError(
            f"query_id {offenders(bad)}: a tab or line break in the text; this format cannot hold it"
        )
    trec.refuse_repeated(qrels[["query_id", "doc_id"]], "qrels")
    parts = qrels.groupby("query_id", sort=False)
    judged = {
        query_id: dict(zip(part["doc_id"], part["relevance"].tolist(), strict=True))
        for query_id, part in parts
    }
    texts = "".join(queries["query_id"] + "\t" + queries["text"] + "\n")
    return [write_text(queries_path, texts), write_text(qrels_path, json.dumps(judged))]


def export_split(
    kind: str,
    sets: Mapping[str, Sequence[str]],
    queries: pd.DataFrame,
    qrels: pd.DataFrame,
    folder: Path,
) -> list[Path]:
    """Write a split of ours as the releases write theirs; returns the paths.

    InputError: an unknown kind, a name that no file can have.

    kind : "restrain" writes SIZE/REGIME.train-qrel.txt for a set REGIME-SIZE, NAME.train-qrel.txt
    for any other;
        "resttest" writes bucket-NAME/extrapolate.test-qrel.txt (the set) and
        interpolate.test-qrel.txt (all others); "shift" writes EVAL/queries/queries_NAME.tsv and
        EVAL/qrel/qrel_NAME.json.
    sets : name -> query_ids: the sets of a split, or for the last two kinds the test queries of
    each bucket or cluster. queries, qrels : query_id, text and judgements of at least these
    queries.
    """
    if kind not in KINDS:
        raise InputError(f"export_split: no kind {kind!r}; there are {', '.join(KINDS)}")
    if bad := [name for name in sets if "/" in name]:
        raise InputError(
            f"label {offenders(bad)}: the name of a file cannot hold a /; rename the label"
        )
    paths, qrels = [], qrels[qrels["query_id"].isin(set().union(*sets.values()))]
    for name, ids in sets.items():
        inside = qrels["query_id"].isin(ids)
        if kind == "shift":
            paths += write_shift(
                folder, name, queries[queries["query_id"].isin(ids)], qrels[inside]
            )
        elif kind == "resttest":
            for regime, rows in (("extrapolate", inside), ("interpolate", ~inside)):
                paths.append(
                    write_qrels(folder / f"bucket-{name}/{regime}.test-qrel.txt", qrels[rows])
                )
        else:
            released = re.sub(r"^(in|ex)(ter|tra)polation-(\d+)$", r"\3/\1\2polate", name)
            paths.append(write_qrels(folder / f"{released}.train-qrel.txt", qrels[inside]))
    return paths
