"""The split files that the two groups released, read and written byte for byte.

Zhan et al. (CIKM 2022), repository jingtaozhan/extrapolate-eval: TREC qrels separated by tabs in
`restrain_files/msmarco-passage/SIZE/REGIME.train-qrel.txt` and
`resttest_files/msmarco-passage/bucket-N/REGIME.SET-qrel.txt`.
Lupart et al. (ECIR 2023), repository naver/ms-marco-shift: `EVAL/queries/queries_CLUSTER.tsv` and
`EVAL/qrel/qrel_CLUSTER.json`.
"""

import json
from itertools import pairwise
from pathlib import Path

import pandas as pd

from interextra.data.trec import QRELS_COLUMNS, open_bytes, read_qrels, read_queries_tsv, write_aside, write_qrels
from interextra.ground.errors import InputError, offenders

SIZES = ("14k", "45k", "200k")
REGIMES = ("interpolate", "extrapolate")
BUCKETS = (1, 2, 3, 4, 5)
TEST_SETS = ("dev", "trec19", "trec20")
CLUSTERS = ("0", "1", "2", "3", "4", "wha", "how", "who", "short", "long")

# Measured on the released files: (queries, rows, repeated rows) of each ReSTrain set; queries of each ReSTTest bucket;
# (queries with qrels, ids of those without a text) of each MS-Shift cluster.
RESTRAIN = {
    ("interpolate", "14k"): (13_175, 14_295, 0),
    ("interpolate", "45k"): (42_725, 46_291, 0),
    ("interpolate", "200k"): (194_113, 208_017, 5),
    ("extrapolate", "14k"): (13_763, 14_363, 0),
    ("extrapolate", "45k"): (44_747, 46_691, 0),
    ("extrapolate", "200k"): (200_137, 209_681, 3),
}
RESTTEST = {"dev": (981, 2206, 1824, 1491, 478), "trec19": (5, 17, 7, 13, 1), "trec20": (2, 18, 14, 13, 7)}
RESTTEST_TOTALS = {"dev": (6980, 7437), "trec19": (43, 9260), "trec20": (54, 11_386)}
SHIFT = {
    "0": (6597, "54 749567"),
    "1": (5962, "55 540270"),
    "2": (6257, "675535 794137"),
    "3": (5868, ""),
    "4": (6568, "878557 1070274"),
    "wha": (6496, ""),
    "how": (6497, ""),
    "who": (6494, ""),
    "short": (3434, ""),
    "long": (3546, ""),
}


def _one_of(name: str, value: object, allowed: tuple) -> None:
    if value not in allowed:
        raise InputError(f"{name} {value!r} is not in the release; use one of {', '.join(map(str, allowed))}")


def restrain_path(folder: str | Path, size: str, regime: str) -> Path:
    """File of a ReSTrain training set below the release's folder."""
    _one_of("size", size, SIZES)
    _one_of("regime", regime, REGIMES)
    return Path(folder) / "restrain_files" / "msmarco-passage" / size / f"{regime}.train-qrel.txt"


def resttest_path(folder: str | Path, bucket: int, regime: str, test_set: str) -> Path:
    """File of a ReSTTest test set below the release's folder."""
    _one_of("bucket", bucket, BUCKETS)
    _one_of("regime", regime, REGIMES)
    _one_of("test set", test_set, TEST_SETS)
    return Path(folder) / "resttest_files" / "msmarco-passage" / f"bucket-{bucket}" / f"{regime}.{test_set}-qrel.txt"


def read_restrain(folder: str | Path, size: str, regime: str) -> pd.DataFrame:
    """Training qrels of a ReSTrain set: query_id, doc_id, relevance, rows as in the file (200k repeats a few).

    Parameters
    ----------
    folder : the release's folder, the one that holds `restrain_files`.
    size : "14k", "45k" or "200k".
    regime : "interpolate" or "extrapolate".
    """
    return read_qrels(restrain_path(folder, size, regime), duplicates="keep")


def write_restrain(folder: str | Path, size: str, regime: str, qrels: pd.DataFrame) -> Path:
    """Write a ReSTrain set as released: rows in the order given, tabs."""
    path = restrain_path(folder, size, regime)
    write_qrels(path, qrels, separator="\t")
    return path


def read_resttest(folder: str | Path, bucket: int, regime: str, test_set: str) -> pd.DataFrame:
    """Test qrels of a ReSTTest bucket (1 to 5): `extrapolate` is the bucket held out, `interpolate` the other four.

    `test_set` is "dev", "trec19" or "trec20".
    """
    return read_qrels(resttest_path(folder, bucket, regime, test_set))


def write_resttest(folder: str | Path, bucket: int, regime: str, test_set: str, qrels: pd.DataFrame) -> Path:
    """Write a ReSTTest set as released: rows in the order given, tabs."""
    path = resttest_path(folder, bucket, regime, test_set)
    write_qrels(path, qrels, separator="\t")
    return path


def shift_paths(folder: str | Path, cluster: str) -> tuple[Path, Path]:
    """Queries and qrels files of an MS-Shift evaluation cluster below the release's folder."""
    _one_of("cluster", cluster, CLUSTERS)
    folder = Path(folder) / "EVAL"
    return folder / "queries" / f"queries_{cluster}.tsv", folder / "qrel" / f"qrel_{cluster}.json"


def read_shift(folder: str | Path, cluster: str) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """An MS-Shift evaluation set: its queries, its qrels, and the query_ids that have qrels but no text.

    Texts are kept as released, double spaces and broken characters included: the length rule counts single spaces.

    Parameters
    ----------
    folder : the release's folder, the one that holds `EVAL`.
    cluster : topics "0" to "4", question words "wha", "how", "who", lengths "short", "long".
    """
    queries_path, qrels_path = shift_paths(folder, cluster)
    queries, qrels = read_queries_tsv(queries_path), _read_qrels_json(qrels_path)
    with_qrels = qrels["query_id"].drop_duplicates()
    return queries, qrels, with_qrels[~with_qrels.isin(queries["query_id"])].tolist()


def _read_qrels_json(path: Path) -> pd.DataFrame:
    with open_bytes(path) as file:
        try:
            judged = json.load(file)
        except ValueError as error:
            raise InputError(f"{path}: not JSON ({error}); copy the released file again") from None
    shape = 'write {"query_id": {"doc_id": relevance, …}, …}'
    if not isinstance(judged, dict) or not all(isinstance(docs, dict) for docs in judged.values()):
        raise InputError(f"{path}: not qrels; {shape}")
    rows = [(query_id, doc_id, relevance) for query_id, docs in judged.items() for doc_id, relevance in docs.items()]
    bad = [f"{q} {d}" for q, d, relevance in rows if type(relevance) is not int]
    if bad or not rows:
        raise InputError(f"{path}: {f'relevance of {offenders(bad)} is no integer' if bad else 'no qrels'}; {shape}")
    return pd.DataFrame(rows, columns=QRELS_COLUMNS).astype({"query_id": "str", "doc_id": "str", "relevance": "int64"})


def write_shift(folder: str | Path, cluster: str, queries: pd.DataFrame, qrels: pd.DataFrame) -> tuple[Path, Path]:
    """Write an MS-Shift evaluation set as released: tab-separated texts, and one JSON object on one line."""
    queries_path, qrels_path = shift_paths(folder, cluster)
    bad = queries["query_id"][queries["text"].str.contains(r"[\t\r\n]")]
    if len(bad):
        raise InputError(f"query_id {offenders(bad)}: a tab or line break in the text; this format cannot hold it")
    twice = qrels[qrels.duplicated(["query_id", "doc_id"])]
    if len(twice):
        raise InputError(f"pairs judged twice, first query_id {offenders(twice['query_id'])}; keep one row a pair")
    judged: dict[str, dict[str, int]] = {}
    for query_id, doc_id, relevance in zip(*(qrels[name].tolist() for name in QRELS_COLUMNS), strict=True):
        judged.setdefault(query_id, {})[doc_id] = relevance
    lines = (f"{query_id}\t{text}\n" for query_id, text in zip(queries["query_id"], queries["text"], strict=True))
    for path, text in ((queries_path, "".join(lines)), (qrels_path, json.dumps(judged))):
        with write_aside(path) as aside:
            aside.write_bytes(text.encode())
    return queries_path, qrels_path


def check_release(folder: str | Path) -> pd.DataFrame:
    """Measure a release's files and compare with what the published files are known to hold.

    Parameters
    ----------
    folder : the folder of either release; it holds `restrain_files`, `resttest_files` or `EVAL`.

    Returns
    -------
    DataFrame with release, property, value, expected, ok: sizes, nestedness and disjointness of the ReSTrain sets,
    partition and sizes of the ReSTTest buckets, sizes of the MS-Shift sets and their queries without text.
    """
    folder, rows = Path(folder), []
    parts = {"restrain_files": _check_restrain, "resttest_files": _check_resttest, "EVAL": _check_shift}
    for name, check in parts.items():
        if (folder / name).is_dir():
            rows += check(folder)
    if not rows:
        raise InputError(f"{folder}: none of {', '.join(parts)} in it; give the folder of a release")
    table = pd.DataFrame(rows, columns=["release", "property", "value", "expected"])
    return table.assign(
        ok=[value == expected for value, expected in zip(table["value"], table["expected"], strict=True)]
    )


def _check_restrain(folder: Path) -> list[tuple]:
    rows, ids = [], {}
    for (regime, size), expected in RESTRAIN.items():
        qrels = read_restrain(folder, size, regime)
        ids[regime, size] = set(qrels["query_id"])
        measured = (len(ids[regime, size]), len(qrels), int(qrels.duplicated().sum()))
        for what, value, known in zip(("queries", "rows", "repeated rows"), measured, expected, strict=True):
            rows.append(("ReSTrain", f"{regime} {size}: {what}", value, known))
    for regime in REGIMES:
        for small, large in pairwise(SIZES):
            outside = len(ids[regime, small] - ids[regime, large])
            rows.append(("ReSTrain", f"{regime}: queries of {small} outside {large}", outside, 0))
    for size in SIZES:
        both = len(ids["interpolate", size] & ids["extrapolate", size])
        rows.append(("ReSTrain", f"{size}: queries in both regimes", both, 0))
    return rows


def _check_resttest(folder: Path) -> list[tuple]:
    rows = []
    for test_set, sizes in RESTTEST.items():
        sets = {(b, r): read_resttest(folder, b, r, test_set) for b in BUCKETS for r in REGIMES}
        held_out = {bucket: set(sets[bucket, "extrapolate"]["query_id"]) for bucket in BUCKETS}
        everything = set().union(*held_out.values())
        for bucket, size in zip(BUCKETS, sizes, strict=True):
            rows.append(("ReSTTest", f"{test_set} bucket {bucket}: queries held out", len(held_out[bucket]), size))
            others = everything - held_out[bucket]
            differ = len(others ^ set(sets[bucket, "interpolate"]["query_id"]))
            rows.append(("ReSTTest", f"{test_set} bucket {bucket}: interpolate is not the complement by", differ, 0))
        queries, qrels_rows = RESTTEST_TOTALS[test_set]
        shared = sum(len(ids) for ids in held_out.values()) - len(everything)
        total = sum(len(sets[bucket, "extrapolate"]) for bucket in BUCKETS)
        rows.append(("ReSTTest", f"{test_set}: queries in more than one bucket", shared, 0))
        rows.append(("ReSTTest", f"{test_set}: queries", len(everything), queries))
        rows.append(("ReSTTest", f"{test_set}: qrels rows", total, qrels_rows))
    return rows


def _check_shift(folder: Path) -> list[tuple]:
    rows = []
    for cluster, (n_queries, known) in SHIFT.items():
        queries, qrels, without_text = read_shift(folder, cluster)
        rows.append(("MS-Shift", f"{cluster}: queries with qrels", qrels["query_id"].nunique(), n_queries))
        rows.append(("MS-Shift", f"{cluster}: queries with text", len(queries), n_queries - len(known.split())))
        rows.append(
            (
                "MS-Shift",
                f"{cluster}: qrels without query text",
                " ".join(sorted(without_text, key=lambda i: (len(i), i))),
                known,
            )
        )
    return rows
