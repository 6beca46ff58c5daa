"""Everything that takes a file, on damaged ones: is each answered, or refused in one line?

    python -m tools.fuzz --seed 1 --n 200

Of every reader and of the commands evaluate, audit, split and regimes, `n` inputs each: a small
valid set of files of which one is damaged. Counted are answers, refusals (InputError; exit code 2),
tracebacks, hangs, and wrong answers where that can be known: a Parquet file with other bytes gives
what the sound one gives or nothing, and a TREC run what a plain reading of its lines gives. The
failing inputs stay in build/fuzz.
"""

import argparse
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from interextra.cli import main
from interextra.data import load
from interextra.data.load import open_collection
from interextra.data.runs import RunFile
from interextra.data.trec import read_qrels, read_queries_tsv
from interextra.overlap.annotation import SHEET, read_sheet
from interextra.own.run_files import read_run
from interextra.papers.released import read_qrels_json
from interextra.store import InputError

KEPT = Path(__file__).resolve().parents[1] / "build" / "fuzz"
SECONDS = 20  # an input
OUTCOMES = ("answered", "refused", "traceback", "hang", "wrong")
ODD = [
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\x1f\x8b",
    b"\r",
    b"\xe2\x80\xa8",
    b"\xc2\x85",
    b"\t",
    b" ",
    b",",
    b'"',
    b"#",
]
VALUES = [
    b"{}",
    b"[]",
    b"null",
    b"true",
    b"NaN",
    b"-1",
    b"0.5",
    b"1e999",
    b'"x"',
    b'""',
    b"9" * 30,
    b"9" * 5000,
]
VALUES += [
    b"[" * 100_000,
    b'"\\ud83d"',
    b'"a\\u0000b"',
    b'"' + b"n" * 300 + b'"',
]  # deep, half of an emoji, too long
COLUMNS = ["query_id", "doc_id", "score"]
WORDS = ["granite", "marble", "basalt", "slate", "tulip", "willow", "clover", "bamboo"]
TOKEN = re.compile(rb'"[^"\n]*"|-?\d+(?:\.\d+)?|\b(?:null|true|false)\b|\S+')


def flip(draw: random.Random, data: bytes) -> bytes:
    """One bit is another."""
    place = draw.randrange(8 * len(data))
    return data[: place // 8] + bytes([data[place // 8] ^ 1 << place % 8]) + data[place // 8 + 1 :]


def cut(draw: random.Random, data: bytes) -> bytes:
    """The end is missing, or all of it."""
    return data[: draw.choice([0, draw.randrange(len(data))])]


def insert(draw: random.Random, data: bytes) -> bytes:
    """A sign of another format or encoding."""
    place = draw.randrange(len(data) + 1)
    return data[:place] + draw.choice(ODD) + data[place:]


def swap(draw: random.Random, data: bytes) -> bytes:
    """A value of another type, or of a size that no table can hold."""
    found = draw.choice(list(TOKEN.finditer(data)))
    return data[: found.start()] + draw.choice(VALUES) + data[found.end() :]


def repeat(draw: random.Random, data: bytes) -> bytes:
    """A line stands twice."""
    lines = data.splitlines(keepends=True)
    return b"".join([*lines, draw.choice(lines)])


DAMAGES = (flip, cut, insert, swap, swap, repeat)


def damage(draw: random.Random, path: Path) -> bool:
    """Damage a file; whether a sound reader can only refuse it or give what it gave before
    (Parquet, by its digest).
    """
    if path.suffix == ".parquet" and draw.random() < 0.3:
        key = draw.choice([b"query_ids", b"interextra.content", b"pandas"])
        table = pq.read_table(path)
        told = (table.schema.metadata or {}) | {
            key: draw.choice([b"", b"\xff", b'["q1"]', b'[["q1"]]', *VALUES])
        }
        pq.write_table(table.replace_schema_metadata(told), path)
        return False
    for _ in range(1 if path.suffix == ".parquet" else draw.choice([1, 1, 2])):
        if data := path.read_bytes():
            path.write_bytes(
                (flip if path.suffix == ".parquet" else draw.choice(DAMAGES))(draw, data)
            )
    return path.suffix == ".parquet" and "theirs" not in path.name


def write_sound(folder: Path) -> None:
    """A collection of 48 queries, a split of it, runs in every format, and files of the other
    readers.
    """
    asked = {f"q{word}{at}": f"which {word} is number {at}" for word in WORDS for at in range(6)}
    tests = [name for name in asked if name[-1] in "45"]
    write_collection(
        folder / "coll",
        asked,
        {"train": [name for name in asked if name not in tests], "test": tests},
    )
    (folder / "queries.tsv").write_text(
        "".join(f"{name}\t{text}\n" for name, text in asked.items())
    )
    (folder / "a.qrels").write_text("".join(f"{name} 0 p-{name} 1\n" for name in tests))
    (folder / "qrel.json").write_text(json.dumps({name: {f"p-{name}": 1} for name in tests}))
    pair = ["t", "tea", "q", "hot tea", "bm25", "full", "similar"]
    pd.DataFrame([pair], columns=list(SHEET)).to_csv(folder / "sheet.csv", index=False)
    (folder / "runs").mkdir()
    for name in ("a", "runs/interpolation-12", "runs/extrapolation-12"):
        write_runs(folder / name, tests)
    pd.read_csv(folder / "a.csv").to_parquet(folder / "theirs.parquet")
    for name in ("notebooks", "params"):
        (folder / name).mkdir()  # the commands want to be inside a repository
    commanded([*SPLITTING, "out"])(folder, "")


def write_collection(folder: Path, asked: dict[str, str], splits: dict[str, list[str]]) -> None:
    """A folder in BEIR's layout, a passage a query."""
    (folder / "qrels").mkdir(parents=True)
    rows = {
        "queries": [
            {"_id": name, "text": asked[name], "metadata": {"kind": name[1]}} for name in asked
        ]
    }
    rows["corpus"] = [
        {"_id": f"p-{name}", "title": "About", "text": text} for name, text in asked.items()
    ]
    for name, objects in rows.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in objects))
    for split, names in splits.items():
        lines = [f"{name}\tp-{name}\t1\n" for name in names]
        (folder / "qrels" / f"{split}.tsv").write_text(
            "query-id\tcorpus-id\tscore\n" + "".join(lines)
        )


def write_runs(path: Path, tests: list[str]) -> None:
    """One run in every format; `path` lacks the suffix."""
    hits = {name: {f"p-{name}": 2.5, "p-qslate0": 1.5} for name in tests}
    rows = [(query_id, *hit) for query_id, found in hits.items() for hit in found.items()]
    run = RunFile.from_frame(pd.DataFrame(rows, columns=COLUMNS))
    run.write_trec(path.with_suffix(".run"))
    run.write_parquet(path.with_suffix(".parquet"))
    run.frame().to_csv(path.with_suffix(".csv"), index=False)
    path.with_suffix(".json").write_text(
        json.dumps({"mteb_model_meta": {}, "default": {"test": hits}})
    )
    with path.with_suffix(".jsonl").open("w") as lines:
        for query_id, found in hits.items():
            results = [{"corpus_id": doc_id, "score": score} for doc_id, score in found.items()]
            lines.write(json.dumps({"query_id": query_id, "results": results}) + "\n")


def commanded(arguments: list[str]) -> Callable[[Path, str], str]:
    """A command on the files of a folder: what it prints; `*` in an argument is the damaged
    file.
    """

    def run(folder: Path, name: str) -> str:
        out, err = io.StringIO(), io.StringIO()
        suffix = Path(name).suffix if name.startswith("runs/") else ".run"
        given = [one.replace("*", name).replace("SUFFIX", suffix) for one in arguments]
        with chdir(folder), redirect_stdout(out), redirect_stderr(err):
            code = main(given)
        lines = err.getvalue().strip().splitlines()
        if code == 2 and lines and lines[-1].startswith("interextra: "):
            raise InputError(lines[-1])
        if code:
            raise RuntimeError(f"exit code {code} without a line: {err.getvalue()[-500:]}")
        return out.getvalue()

    return run


def plainly(data: bytes) -> list[tuple[str, str, float]]:
    """The rows of a TREC run, read line by line."""
    text = data.decode("utf-8-sig", "replace")  # a tag may be of any encoding
    lines = (re.split(r"[ \t]+", line.strip(" \t")) for line in re.split(r"[\r\n]+", text))
    return [
        (one[0], one[2], float(np.float32(one[4])))
        for one in lines
        if one[0] and not one[0].startswith("#")
    ]


def rows_of(run: RunFile) -> str:
    return str(sorted(run.frame()[COLUMNS].itertuples(index=False, name=None)))


RUNS = tuple(f"a.{end}" for end in ("run", "parquet", "json", "jsonl", "csv")) + ("theirs.parquet",)
COLLECTION = tuple(
    f"coll/{name}"
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/train.tsv", "qrels/test.tsv")
)
SPLIT = tuple(f"out/{name}" for name in ("manifest.json", "test.tsv", "test.qrels", "gate.txt"))
MEASURED = tuple(
    f"runs/interpolation-12.{end}" for end in ("run", "parquet", "json", "jsonl", "csv")
)
REGIMES = [
    "regimes",
    "--split",
    "out",
    "--runs",
    "runs/{part}SUFFIX",
    "--baseline",
    "a.run",
    "--out",
    "found",
]
SPLITTING = ["split", "restrain", "--collection", "beir:coll", "--size", "12", "--out"]
TARGETS: dict[str, tuple[tuple[str, ...], Callable[[Path, str], object]]] = {
    "RunFile.read": (RUNS[:2], lambda folder, name: rows_of(RunFile.read(folder / name))),
    "read_run": (RUNS, lambda folder, name: rows_of(read_run(folder / name))),
    "read_qrels": (
        ("a.qrels", "coll/qrels/test.tsv"),
        lambda folder, name: read_qrels(folder / name),
    ),
    "read_queries_tsv": (("queries.tsv",), lambda folder, name: read_queries_tsv(folder / name)),
    "read_qrels_json": (("qrel.json",), lambda folder, name: read_qrels_json(folder / name)),
    "read_sheet": (("sheet.csv",), lambda folder, name: read_sheet(folder / name)),
    "open_collection": (
        COLLECTION,
        lambda folder, name: open_collection(f"beir:{folder / 'coll'}"),
    ),
    "evaluate a run": (
        RUNS[:2],
        commanded(["evaluate", "--run", "*", "--qrels", "a.qrels", "-m", "nDCG@10"]),
    ),
    "evaluate by qrels": (
        ("a.qrels",),
        commanded(["evaluate", "--run", "a.run", "--qrels", "*", "-m", "nDCG@10"]),
    ),
    "audit lines": (
        ("queries.tsv",),
        commanded(["audit", "--train", "*", "--test", "beir:coll@test"]),
    ),
    "audit a collection": (
        COLLECTION,
        commanded(["audit", "--train", "beir:coll", "--test", "beir:coll@test"]),
    ),
    "split": (COLLECTION, commanded([*SPLITTING, "new"])),
    "regimes": ((*SPLIT, *MEASURED), commanded([*REGIMES, "--n-boot", "40"])),
}


def outcome(call: Callable[[Path, str], object], folder: Path, name: str) -> tuple[str, object]:
    """What came of an input, of `OUTCOMES`, and the answer, the message or the traceback."""

    def late(*_) -> None:
        raise TimeoutError

    load._opened.cache_clear()
    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        return "answered", call(folder, name)
    except InputError as error:
        return ("refused" if "\n" not in str(error) else "traceback"), str(error)
    except TimeoutError:
        return "hang", traceback.format_exc()
    except (Exception, SystemExit):
        return "traceback", traceback.format_exc()
    finally:
        signal.alarm(0)


def is_wrong(answer: object, sound: object, is_same: bool, path: Path) -> bool:
    """Whether an answer is known to be wrong."""
    if is_same:
        return answer != sound
    if path.name == "a.run" and isinstance(answer, str) and answer.startswith("["):
        return answer != str(sorted(plainly(path.read_bytes())))
    return False


def fuzz(seed: int, n: int, only: str = "") -> pd.DataFrame:
    """Counts of outcomes, a row a target; what failed is printed and kept."""
    counts = {target: Counter() for target in TARGETS if only in target}
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["INTEREXTRA_CACHE"] = f"{scratch}/cache"
        sound, folder = Path(scratch, "sound"), Path(scratch, "input")
        write_sound(sound)
        for target in counts:
            files, call = TARGETS[target]
            answers = {}
            for name in files:
                shutil.copytree(sound, folder)
                what, answers[name] = outcome(call, folder, name)
                if what != "answered":
                    raise RuntimeError(
                        f"{target} does not answer on the sound {name}: {answers[name]}"
                    )
                shutil.rmtree(folder)
            draw = random.Random(f"{seed} {target}")
            for at in range(n):
                name = draw.choice(files)
                shutil.copytree(sound, folder)
                is_same = damage(draw, folder / name)
                what, answer = outcome(call, folder, name)
                if what == "answered" and is_wrong(answer, answers[name], is_same, folder / name):
                    what = "wrong"
                counts[target][what] += 1
                if what not in ("answered", "refused"):
                    kept = KEPT / f"{target.replace(' ', '-')}-{seed}-{at}"
                    shutil.rmtree(kept, ignore_errors=True)
                    shutil.copytree(folder, kept)
                    print(
                        f"{target}: {what}: {kept / name}\n{str(answer)[-1500:]}", file=sys.stderr
                    )
                shutil.rmtree(folder)
    return pd.DataFrame(counts, index=OUTCOMES).T.fillna(0).astype(int)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=100, help="inputs of each target")
    parser.add_argument("--only", default="", help="targets whose name holds this")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = fuzz(options.seed, options.n, options.only)
    print(found.to_string(), found.sum().to_string(), sep="\n\n")
    sys.exit(1 if found[["traceback", "hang", "wrong"]].sum().sum() else 0)
