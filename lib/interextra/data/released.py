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


def read_restrain(folder: str | Path, size: str, regime: str) -> pd.DataFrame:
    """Training qrels of a ReSTrain set: query_id, doc_id, relevance, rows as in the file (200k repeats a few).

    Parameters
    ----------
    folder : the release's folder, the one that holds `restrain_files`.
    size : "14k", "45k" or "200k".
    regime : "interpolate" or "extrapolate".
    """
    path = Path(folder) / "restrain_files" / "msmarco-passage" / size / f"{regime}.train-qrel.txt"
    return read_qrels(path, duplicates="keep")


def read_resttest(folder: str | Path, bucket: int, regime: str, test_set: str) -> pd.DataFrame:
    """Test qrels of a ReSTTest bucket (1 to 5): `extrapolate` is the bucket held out, `interpolate` the other four.

    `test_set` is "dev", "trec19" or "trec20".
    """
    below = Path(folder) / "resttest_files" / "msmarco-passage" / f"bucket-{bucket}"
    return read_qrels(below / f"{regime}.{test_set}-qrel.txt")


def read_shift(folder: str | Path, cluster: str) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """An MS-Shift evaluation set: its queries, its qrels, and the query_ids that have qrels but no text.

    Texts are kept as released, double spaces and broken characters included: the length rule counts single spaces.

    Parameters
    ----------
    folder : the release's folder, the one that holds `EVAL`.
    cluster : topics "0" to "4", question words "wha", "how", "who", lengths "short", "long".
    """
    queries_path, qrels_path = _shift_paths(folder, cluster)
    queries, qrels = read_queries_tsv(queries_path), _read_qrels_json(qrels_path)
    with_qrels = qrels["query_id"].drop_duplicates()
    return queries, qrels, with_qrels[~with_qrels.isin(queries["query_id"])].tolist()


def _shift_paths(folder: str | Path, cluster: str) -> tuple[Path, Path]:
    below = Path(folder) / "EVAL"
    return below / "queries" / f"queries_{cluster}.tsv", below / "qrel" / f"qrel_{cluster}.json"


def _read_qrels_json(path: Path) -> pd.DataFrame:
    shape = 'write {"query_id": {"doc_id": relevance, …}, …}'
    text = "".join(line for _, line in numbered_lines(path))
    try:
        rows = [(query_id, *pair) for query_id, docs in json.loads(text).items() for pair in docs.items()]
    except (ValueError, AttributeError) as error:
        raise InputError(f"{path}: not qrels as JSON ({error}); {shape}") from None
    bad = [f"{query_id} {doc_id}" for query_id, doc_id, relevance in rows if type(relevance) is not int]
    if bad or not rows:
        raise InputError(f"{path}: {f'relevance of {offenders(bad)} is no integer' if bad else 'no qrels'}; {shape}")
    return pd.DataFrame(rows, columns=QRELS_COLUMNS)


def write_qrels(path: str | Path, qrels: pd.DataFrame) -> None:
    """Write `query_id 0 doc_id relevance`, separated by tabs, rows in the order given: the format of Zhan et al."""
    for name in ("query_id", "doc_id"):
        refuse_white_space(name, qrels[name])
    columns = (qrels[name].tolist() for name in QRELS_COLUMNS)
    lines = (f"{query}\t0\t{doc}\t{relevance}\n" for query, doc, relevance in zip(*columns, strict=True))
    with write_aside(path) as aside:
        aside.write_bytes("".join(lines).encode())


def write_shift(folder: str | Path, cluster: str, queries: pd.DataFrame, qrels: pd.DataFrame) -> None:
    """Write a set of MS-Shift: tab-separated texts, and the qrels as one JSON object on one line."""
    queries_path, qrels_path = _shift_paths(folder, cluster)
    if len(bad := queries["query_id"][queries["text"].str.contains(r"[\t\r\n]")]):
        raise InputError(f"query_id {offenders(bad)}: a tab or line break in the text; this format cannot hold it")
    refuse_repeated(qrels[["query_id", "doc_id"]], lambda row: f"qrels, row {row + 1}")
    judged: dict[str, dict[str, int]] = {}
    for query_id, doc_id, relevance in zip(*(qrels[name].tolist() for name in QRELS_COLUMNS), strict=True):
        judged.setdefault(query_id, {})[doc_id] = relevance
    lines = (f"{query_id}\t{text}\n" for query_id, text in zip(queries["query_id"], queries["text"], strict=True))
    for path, text in ((queries_path, "".join(lines)), (qrels_path, json.dumps(judged))):
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

    Raises
    ------
    InputError
        Another kind; a query of a set without judgements; ids or texts that the format can't hold.
    """
    if kind not in ("restrain", "resttest", "shift"):
        raise InputError(f"kind {kind!r} is none of restrain, resttest, shift; give the kind of the split")
    everything = {query_id for ids in sets.values() for query_id in ids}
    if unjudged := sorted(everything - set(qrels["query_id"])):
        raise InputError(f"{len(unjudged)} queries without judgements: {offenders(unjudged)}; give their qrels too")
    qrels, paths = qrels[qrels["query_id"].isin(everything)], []
    for name, ids in sets.items():
        inside = qrels["query_id"].isin(ids)
        if kind == "shift":
            write_shift(folder, name, queries[queries["query_id"].isin(ids)], qrels[inside])
            paths += _shift_paths(folder, name)
            continue
        released_name = re.sub(r"^(in|ex)(ter|tra)polation-(\d+)$", r"\3/\1\2polate", name)
        parts = {f"{released_name}.train": inside}
        if kind == "resttest":
            parts = {f"bucket-{name}/extrapolate.test": inside, f"bucket-{name}/interpolate.test": ~inside}
        for file, rows in parts.items():
            paths.append(folder / f"{file}-qrel.txt")
            write_qrels(paths[-1], qrels[rows])
    return paths


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
    rows = []
    for name, (release, measure) in FOLDERS.items():
        if (Path(folder) / name).is_dir():
            facts = measure(Path(folder))
            for row, known in KNOWN[release].items():
                rows += [(release, f"{row}: {what}", facts[row][what], value) for what, value in known.items()]
    if not rows:
        raise InputError(f"{folder}: none of {', '.join(FOLDERS)} in it; give the folder of a release")
    table = pd.DataFrame(rows, columns=["release", "property", "value", "expected"])
    return table.assign(ok=table["value"] == table["expected"])


def _restrain_facts(folder: Path) -> dict[str, dict]:
    facts, ids = {}, {}
    for regime, size in product(REGIMES, reversed(SIZES)):
        qrels = read_restrain(folder, size, regime)
        larger = ids.get(regime, set(qrels["query_id"]))
        ids[regime] = ids[regime, size] = set(qrels["query_id"])
        facts[f"{regime} {size}"] = {
            "queries": len(ids[regime]),
            "rows": len(qrels),
            "repeated rows": int(qrels.duplicated().sum()),
            "queries outside the next size": len(ids[regime] - larger),
            "queries also in interpolate": len(ids[regime] & ids["interpolate", size]),
        }
    return facts


def _resttest_facts(folder: Path) -> dict[str, dict]:
    facts = {}
    for test_set in TEST_SETS:
        sets = {bucket: read_resttest(folder, bucket, "extrapolate", test_set) for bucket in BUCKETS}
        everything = pd.concat(sets.values())["query_id"]
        n_queries = everything.nunique()
        for bucket, qrels in sets.items():
            others = set(everything) - set(qrels["query_id"])
            differ = others ^ set(read_resttest(folder, bucket, "interpolate", test_set)["query_id"])
            facts[f"{test_set} bucket {bucket}"] = {
                "queries held out": qrels["query_id"].nunique(),
                "interpolate is not the complement by": len(differ),
            }
        facts[test_set] = {
            "queries": n_queries,
            "queries in more than one bucket": sum(q["query_id"].nunique() for q in sets.values()) - n_queries,
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
