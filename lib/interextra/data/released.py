"""The split files that the two groups released, read and written byte for byte; our own splits in the same formats.

Zhan et al. (CIKM 2022), repository jingtaozhan/extrapolate-eval: TREC qrels separated by tabs in
`restrain_files/msmarco-passage/SIZE/REGIME.train-qrel.txt` and
`resttest_files/msmarco-passage/bucket-N/REGIME.SET-qrel.txt`.
Lupart et al. (ECIR 2023), repository naver/ms-marco-shift: `EVAL/queries/queries_CLUSTER.tsv` and
`EVAL/qrel/qrel_CLUSTER.json`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import product
from operator import index
from pathlib import Path

import pandas as pd
import yaml

from interextra.data.trec import (
    QRELS_COLUMNS,
    numbered_lines,
    read_qrels,
    read_queries_tsv,
    refuse_repeated,
    refuse_white_space,
)
from interextra.ground.errors import InputError, offenders
from interextra.ground.files import write_aside

SIZES = ("14k", "45k", "200k")
REGIMES = ("interpolate", "extrapolate")
BUCKETS = (1, 2, 3, 4, 5)
TEST_SETS = ("dev", "trec19", "trec20")
CLUSTERS = ("0", "1", "2", "3", "4", "wha", "how", "who", "short", "long")

# release -> row -> property -> value
KNOWN = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def read_restrain(folder: Path, size: str, regime: str) -> pd.DataFrame:
    """Training qrels of a ReSTrain set: query_id, doc_id, relevance, rows as in the file (200k repeats a few)."""
    return read_qrels(folder / f"restrain_files/msmarco-passage/{size}/{regime}.train-qrel.txt", duplicates="keep")


def read_resttest(folder: Path, bucket: int, regime: str, test_set: str) -> pd.DataFrame:
    """Test qrels of a ReSTTest bucket: `extrapolate` is the bucket held out, `interpolate` the other four."""
    return read_qrels(folder / f"resttest_files/msmarco-passage/bucket-{bucket}/{regime}.{test_set}-qrel.txt")


def read_shift(folder: Path, cluster: str) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """An MS-Shift evaluation set: its queries, its qrels, and the query_ids that have qrels but no text.

    Texts are kept as released, double spaces and broken characters included: the length rule counts single spaces.
    """
    queries_path, qrels_path = _shift_paths(folder, cluster)
    queries, qrels = read_queries_tsv(queries_path), _read_qrels_json(qrels_path)
    with_qrels = qrels["query_id"].drop_duplicates()
    return queries, qrels, with_qrels[~with_qrels.isin(queries["query_id"])].tolist()


def _shift_paths(folder: Path, cluster: str) -> tuple[Path, Path]:
    return folder / f"EVAL/queries/queries_{cluster}.tsv", folder / f"EVAL/qrel/qrel_{cluster}.json"


def _read_qrels_json(path: Path) -> pd.DataFrame:
    text = "".join(line for _, line in numbered_lines(path))
    try:
        judged = [(query_id, *pair) for query_id, docs in json.loads(text).items() for pair in docs.items()]
        rows = [(query_id, doc_id, index(relevance)) for query_id, doc_id, relevance in judged]
    except (ValueError, AttributeError, TypeError) as error:
        shape = 'write {"query_id": {"doc_id": relevance, …}, …}'
        raise InputError(f"{path}: not qrels as JSON ({error}); {shape}") from None
    return pd.DataFrame(rows, columns=QRELS_COLUMNS)


def write_qrels(path: Path, qrels: pd.DataFrame) -> None:
    """Write `query_id 0 doc_id relevance`, separated by tabs, rows in the order given: the format of Zhan et al."""
    for name in ("query_id", "doc_id"):
        refuse_white_space(name, qrels[name])
    rows = qrels[QRELS_COLUMNS].itertuples(index=False)
    _write(path, "".join(f"{query_id}\t0\t{doc_id}\t{relevance}\n" for query_id, doc_id, relevance in rows))


def write_shift(folder: Path, cluster: str, queries: pd.DataFrame, qrels: pd.DataFrame) -> None:
    """Write a set of MS-Shift: tab-separated texts, and the qrels as one JSON object on one line."""
    queries_path, qrels_path = _shift_paths(folder, cluster)
    if len(bad := queries["query_id"][queries["text"].str.contains(r"[\t\r\n]")]):
        raise InputError(f"query_id {offenders(bad)}: a tab or line break in the text; this format cannot hold it")
    refuse_repeated(qrels[["query_id", "doc_id"]], lambda row: f"qrels, row {row + 1}")
    judged: dict[str, dict[str, int]] = {}
    for query_id, doc_id, relevance in qrels[QRELS_COLUMNS].itertuples(index=False):
        judged.setdefault(query_id, {})[doc_id] = relevance
    rows = queries[["query_id", "text"]].itertuples(index=False)
    _write(queries_path, "".join(f"{query_id}\t{text}\n" for query_id, text in rows))
    _write(qrels_path, json.dumps(judged))


def _write(path: Path, text: str) -> None:
    with write_aside(path) as aside:
        aside.write_bytes(text.encode())


def export_split(
    kind: str, sets: Mapping[str, Sequence[str]], queries: pd.DataFrame, qrels: pd.DataFrame, folder: Path
) -> list[Path]:
    """Write a split of ours as the releases write theirs; returns the paths.

    Parameters
    ----------
    kind : "restrain" writes SIZE/REGIME.train-qrel.txt for a set REGIME-SIZE, NAME.train-qrel.txt for any other;
        "resttest" writes bucket-NAME/extrapolate.test-qrel.txt (the set) and interpolate.test-qrel.txt (all others);
        "shift" writes EVAL/queries/queries_NAME.tsv and EVAL/qrel/qrel_NAME.json.
    sets : name -> query_ids: the sets of a split, or for the last two kinds the test queries of each bucket or cluster.
    queries, qrels : query_id, text and judgements of at least these queries.

    InputError, and nothing is written: the name of a set would lead out of the folder.
    """
    paths = {name: _paths(kind, name, folder) for name in sets}
    for name, path in ((name, path) for name, files in paths.items() for path in files):
        if ".." in path.parts[len(folder.parts) :] or not path.resolve().is_relative_to(folder.resolve()):
            raise InputError(f"label {name!r}: its file {path} would not lie in {folder}; rename the label")
    qrels = qrels[qrels["query_id"].isin(set().union(*sets.values()))]
    for name, ids in sets.items():
        inside = qrels["query_id"].isin(ids)
        if kind == "shift":
            write_shift(folder, name, queries[queries["query_id"].isin(ids)], qrels[inside])
            continue
        for path, rows in zip(paths[name], (inside, ~inside), strict=False):
            write_qrels(path, qrels[rows])
    return [path for files in paths.values() for path in files]


def _paths(kind: str, name: str, folder: Path) -> tuple[Path, ...]:
    """The files of a set: its own and, of a bucket, that of all others."""
    if kind == "shift":
        return _shift_paths(folder, name)
    released = re.sub(r"^(in|ex)(ter|tra)polation-(\d+)$", r"\3/\1\2polate", name)
    names = [f"bucket-{name}/{regime}.test" for regime in ("extrapolate", "interpolate")]
    return tuple(folder / f"{file}-qrel.txt" for file in (names if kind == "resttest" else [f"{released}.train"]))


def check_release(folder: Path) -> pd.DataFrame:
    """Measure the files of a release (its folder) and compare with what they are known to hold (`KNOWN`).

    Returns
    -------
    DataFrame with release, property, value, expected, ok.
    """
    rows = []
    for name, (release, measure) in FOLDERS.items():
        if (folder / name).is_dir():
            facts = measure(folder)
            for row, known in KNOWN[release].items():
                rows += [(release, f"{row}: {what}", facts[row][what], value) for what, value in known.items()]
    if not rows:
        raise InputError(f"{folder}: none of {', '.join(FOLDERS)} in it; give the folder of a release")
    table = pd.DataFrame(rows, columns=["release", "property", "value", "expected"])
    return table.assign(ok=table["value"] == table["expected"])


def _restrain_facts(folder: Path) -> dict[str, dict]:
    sets = {(size, regime): read_restrain(folder, size, regime) for size, regime in product(SIZES, REGIMES)}
    ids = {name: set(qrels["query_id"]) for name, qrels in sets.items()}
    larger = dict(zip(SIZES, (*SIZES[1:], SIZES[-1]), strict=True))
    return {
        f"{regime} {size}": {
            "queries": len(ids[size, regime]),
            "rows": len(qrels),
            "repeated rows": int(qrels.duplicated().sum()),
            "queries outside the next size": len(ids[size, regime] - ids[larger[size], regime]),
            "queries also in interpolate": len(ids[size, regime] & ids[size, "interpolate"]),
        }
        for (size, regime), qrels in sets.items()
    }


def _resttest_facts(folder: Path) -> dict[str, dict]:
    facts = {}
    for test_set in TEST_SETS:
        held_out = {bucket: read_resttest(folder, bucket, "extrapolate", test_set)["query_id"] for bucket in BUCKETS}
        everything = pd.concat(held_out.values())
        for bucket, ids in held_out.items():
            others = set(read_resttest(folder, bucket, "interpolate", test_set)["query_id"])
            facts[f"{test_set} bucket {bucket}"] = {
                "queries held out": ids.nunique(),
                "interpolate is not the complement by": len(others ^ (set(everything) - set(ids))),
            }
        facts[test_set] = {
            "queries": everything.nunique(),
            "queries in more than one bucket": sum(map(pd.Series.nunique, held_out.values())) - everything.nunique(),
            "qrels rows": len(everything),
        }
    return facts


def _shift_facts(folder: Path) -> dict[str, dict]:
    facts = {}
    for cluster in CLUSTERS:
        queries, qrels, without_text = read_shift(folder, cluster)
        facts[cluster] = {
            "queries with qrels": qrels["query_id"].nunique(),
            "queries with text": len(queries),
            "qrels without query text": " ".join(sorted(without_text, key=int)),
        }
    return facts


FOLDERS = {
    "restrain_files": ("ReSTrain", _restrain_facts),
    "resttest_files": ("ReSTTest", _resttest_facts),
    "EVAL": ("MS-Shift", _shift_facts),
}
