"""Damage everything that takes a file: is each input answered, or refused in one line.

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
# signs of other formats and encodings
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
# of other types and sizes
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
    b"[" * 100_000,  # deep
    b'"\\ud83d"',  # half of an emoji
    b'"a\\u0000b"',
    b'"' + b"n" * 300 + b'"',  # too long
]
COLUMNS = ["query_id", "doc_id", "score"]
WORDS = ["granite", "marble", "basalt", "slate", "tulip", "willow", "clover", "bamboo"]
TOKEN = re.compile(rb'"[^"\n]*"|-?\d+(?:\.\d+)?|\b(?:null|true|false)\b|\S+')


SUFFIXES = ("run", "parquet", "json", "jsonl", "csv")  # of the formats of a run
RUNS = (*(f"a.{suffix}" for suffix in SUFFIXES), "theirs.parquet")
COLLECTION = (
    "coll/corpus.jsonl",
    "coll/queries.jsonl",
    "coll/qrels/train.tsv",
    "coll/qrels/test.tsv",
)
SPLIT = ("out/manifest.json", "out/test.tsv", "out/test.qrels", "out/gate.txt")
MEASURED = tuple(f"runs/interpolation-12.{suffix}" for suffix in SUFFIXES)
SPLITTING = ["split", "restrain", "--collection", "beir:coll", "--size", "12", "--out"]
MEASURING = ["regimes", "--split", "out", "--runs", "runs/{part}SUFFIX", "--baseline", "a.run"]

Damage = Callable[[random.Random, bytes], bytes]
# what is done with the damaged file of a folder, by its name there; what comes of it
Call = Callable[[Path, str], object]


def flip(draw: random.Random, data: bytes) -> bytes:
    """Make one bit another."""
    index, bit = divmod(draw.randrange(8 * len(data)), 8)
    damaged = bytearray(data)
    damaged[index] ^= 1 << bit
    return bytes(damaged)


def cut(draw: random.Random, data: bytes) -> bytes:
    """Take the end away, or all of it."""
    return data[: draw.choice([0, draw.randrange(len(data))])]


def insert(draw: random.Random, data: bytes) -> bytes:
    """Insert a sign of another format or encoding."""
    place = draw.randrange(len(data) + 1)
    return data[:place] + draw.choice(ODD) + data[place:]


def swap(draw: random.Random, data: bytes) -> bytes:
    """Put a value of another type in the place of one, or of a size that no table can hold."""
    token = draw.choice(list(TOKEN.finditer(data)))
    return data[: token.start()] + draw.choice(VALUES) + data[token.end() :]


def repeat(draw: random.Random, data: bytes) -> bytes:
    """Write a line twice."""
    lines = data.splitlines(keepends=True)
    return b"".join([*lines, draw.choice(lines)])


DAMAGES: tuple[Damage, ...] = (flip, cut, insert, swap, swap, repeat)


def damage(draw: random.Random, path: Path) -> bool:
    """Damage a file, and return whether a sound reader can answer only as it did before.

    It can refuse, too. So it is with other bytes of a Parquet file, by its digest.
    """
    if path.suffix == ".parquet":
        if draw.random() < 0.3:
            _damage_metadata(draw, path)
            return False
        _apply(draw, flip, path)
        return "theirs" not in path.name
    for _ in range(draw.choice([1, 1, 2])):
        if path.stat().st_size:
            _apply(draw, draw.choice(DAMAGES), path)
    return False


def _damage_metadata(draw: random.Random, path: Path) -> None:
    """Write other metadata into a Parquet file."""
    key = draw.choice([b"query_ids", b"interextra.content", b"pandas"])
    table = pq.read_table(path)
    metadata = dict(table.schema.metadata or {})
    metadata[key] = draw.choice([b"", b"\xff", b'["q1"]', b'[["q1"]]', *VALUES])
    pq.write_table(table.replace_schema_metadata(metadata), path)


def _apply(draw: random.Random, change: Damage, path: Path) -> None:
    """Change the bytes of a file."""
    path.write_bytes(change(draw, path.read_bytes()))


def write_sound(folder: Path) -> None:
    """Write what is damaged later, all of it sound.

    A collection of 48 queries, a split of it, runs in every format, and files of the other readers.
    """
    queries = {f"q{word}{n}": f"which {word} is number {n}" for word in WORDS for n in range(6)}
    test = [query_id for query_id in queries if query_id[-1] in "45"]
    train = [query_id for query_id in queries if query_id not in test]
    write_collection(folder / "coll", queries, {"train": train, "test": test})
    _write_lines(folder / "queries.tsv", [f"{name}\t{text}" for name, text in queries.items()])
    _write_lines(folder / "a.qrels", [f"{query_id} 0 p-{query_id} 1" for query_id in test])
    qrels = {query_id: {f"p-{query_id}": 1} for query_id in test}
    (folder / "qrel.json").write_text(json.dumps(qrels))
    pair = ["t", "tea", "q", "hot tea", "bm25", "full", "similar"]
    pd.DataFrame([pair], columns=list(SHEET)).to_csv(folder / "sheet.csv", index=False)
    (folder / "runs").mkdir()
    for name in ("a", "runs/interpolation-12", "runs/extrapolation-12"):
        write_runs(folder / name, test)
    pd.read_csv(folder / "a.csv").to_parquet(folder / "theirs.parquet")
    for name in ("notebooks", "params"):
        (folder / name).mkdir()  # the commands want to be inside a repository
    run_command([*SPLITTING, "out"], folder)


def write_collection(folder: Path, queries: dict[str, str], splits: dict[str, list[str]]) -> None:
    """Write a folder in BEIR's layout, with a passage for each query."""
    (folder / "qrels").mkdir(parents=True)
    query_lines = []
    passage_lines = []
    for query_id, text in queries.items():
        query = {"_id": query_id, "text": text, "metadata": {"kind": query_id[1]}}
        passage = {"_id": f"p-{query_id}", "title": "About", "text": text}
        query_lines.append(json.dumps(query))
        passage_lines.append(json.dumps(passage))
    _write_lines(folder / "queries.jsonl", query_lines)
    _write_lines(folder / "corpus.jsonl", passage_lines)
    for split, query_ids in splits.items():
        lines = [f"{query_id}\tp-{query_id}\t1" for query_id in query_ids]
        path = folder / "qrels" / f"{split}.tsv"
        _write_lines(path, ["query-id\tcorpus-id\tscore", *lines])


def _write_lines(path: Path, lines: list[str]) -> None:
    """Write lines, each with its end."""
    path.write_text("".join(f"{line}\n" for line in lines))


def write_runs(path: Path, query_ids: list[str]) -> None:
    """Write one run in every format; `path` lacks the suffix."""
    hits = {query_id: {f"p-{query_id}": 2.5, "p-qslate0": 1.5} for query_id in query_ids}
    rows = []
    lines = []
    for query_id, scores in hits.items():
        rows += [(query_id, doc_id, score) for doc_id, score in scores.items()]
        results = [{"corpus_id": doc_id, "score": score} for doc_id, score in scores.items()]
        lines.append(json.dumps({"query_id": query_id, "results": results}))
    run = RunFile.from_frame(pd.DataFrame(rows, columns=COLUMNS))
    run.write_trec(path.with_suffix(".run"))
    run.write_parquet(path.with_suffix(".parquet"))
    run.frame().to_csv(path.with_suffix(".csv"), index=False)
    of_mteb = {"mteb_model_meta": {}, "default": {"test": hits}}
    path.with_suffix(".json").write_text(json.dumps(of_mteb))
    _write_lines(path.with_suffix(".jsonl"), lines)


def run_command(arguments: list[str], folder: Path) -> str:
    """Return what a command prints, run in a folder; its refusal is an InputError, too."""
    out = io.StringIO()
    errors = io.StringIO()
    with chdir(folder), redirect_stdout(out), redirect_stderr(errors):
        code = main(arguments)
    lines = errors.getvalue().strip().splitlines()
    if code == 2 and lines and lines[-1].startswith("interextra: "):
        raise InputError(lines[-1])
    if code:
        raise RuntimeError(f"exit code {code} without a line: {errors.getvalue()[-500:]}")
    return out.getvalue()


def commanded(*arguments: str) -> Call:
    """Return a command on the files of a folder; `*` in an argument is the damaged file.

    SUFFIX is that of a damaged run in the folder `runs`, else of TREC.
    """

    def call(folder: Path, name: str) -> str:
        """Return what the command prints."""
        suffix = Path(name).suffix if name.startswith("runs/") else ".run"
        given = [part.replace("*", name).replace("SUFFIX", suffix) for part in arguments]
        return run_command(given, folder)

    return call


def plainly(data: bytes) -> list[tuple[str, str, float]]:
    """Return the rows of a TREC run, read line by line."""
    rows = []
    text = data.decode("utf-8-sig", "replace")  # a tag may be of any encoding
    for line in re.split(r"[\r\n]+", text):
        fields = re.split(r"[ \t]+", line.strip(" \t"))
        if fields[0] and not fields[0].startswith("#"):
            rows.append((fields[0], fields[2], float(np.float32(fields[4]))))
    return rows


def rows_of(run: RunFile) -> str:
    """Return the rows of a run as text, in one order."""
    return str(sorted(run.frame()[COLUMNS].itertuples(index=False, name=None)))


# name → files of which one is damaged, and what is done with it
TARGETS: dict[str, tuple[tuple[str, ...], Call]] = {
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
        commanded("evaluate", "--run", "*", "--qrels", "a.qrels", "-m", "nDCG@10"),
    ),
    "evaluate by qrels": (
        ("a.qrels",),
        commanded("evaluate", "--run", "a.run", "--qrels", "*", "-m", "nDCG@10"),
    ),
    "audit lines": (
        ("queries.tsv",),
        commanded("audit", "--train", "*", "--test", "beir:coll@test"),
    ),
    "audit a collection": (
        COLLECTION,
        commanded("audit", "--train", "beir:coll", "--test", "beir:coll@test"),
    ),
    "split": (COLLECTION, commanded(*SPLITTING, "new")),
    "regimes": (
        (*SPLIT, *MEASURED),
        commanded(*MEASURING, "--out", "found", "--n-boot", "40"),
    ),
}


def outcome(call: Call, folder: Path, name: str) -> tuple[str, object]:
    """Return what came of an input, of `OUTCOMES`, and the answer, message or traceback."""

    def too_late(*_: object) -> None:
        """End a hang."""
        raise TimeoutError

    load._opened.cache_clear()
    signal.signal(signal.SIGALRM, too_late)
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
    """Return whether an answer is known to be wrong.

    Parameters
    ----------
    answer, sound : on the damaged file and on the sound one.
    is_same : whether both must be equal, see `damage`.
    path : of the damaged file.
    """
    if is_same:
        return answer != sound
    if path.name == "a.run" and isinstance(answer, str) and answer.startswith("["):
        return answer != str(sorted(plainly(path.read_bytes())))
    return False


def fuzz(seed: int, n: int, only: str = "") -> pd.DataFrame:
    """Return counts of outcomes, a row a target; what failed is printed and kept.

    Parameters
    ----------
    seed : of the damages.
    n : inputs of each target.
    only : a part of the names of targets.
    """
    counts = {}
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["INTEREXTRA_CACHE"] = f"{scratch}/cache"
        sound = Path(scratch, "sound")
        write_sound(sound)
        for target in TARGETS:
            if only in target:
                counts[target] = _fuzz_target(target, seed, n, sound, Path(scratch, "input"))
    return pd.DataFrame(counts, index=OUTCOMES).T.fillna(0).astype(int)


def _fuzz_target(target: str, seed: int, n: int, sound: Path, folder: Path) -> Counter[str]:
    """Return how often each outcome came; `folder` is made anew for each input."""
    files, call = TARGETS[target]
    answers = {name: _answer_on_sound(target, name, sound, folder) for name in files}
    counts: Counter[str] = Counter()
    draw = random.Random(f"{seed} {target}")
    for number in range(n):
        name = draw.choice(files)
        shutil.copytree(sound, folder)
        is_same = damage(draw, folder / name)
        kind, answer = outcome(call, folder, name)
        if kind == "answered" and is_wrong(answer, answers[name], is_same, folder / name):
            kind = "wrong"
        counts[kind] += 1
        if kind not in ("answered", "refused"):
            kept = KEPT / f"{target.replace(' ', '-')}-{seed}-{number}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(folder, kept)
            print(f"{target}: {kind}: {kept / name}\n{str(answer)[-1500:]}", file=sys.stderr)
        shutil.rmtree(folder)
    return counts


def _answer_on_sound(target: str, name: str, sound: Path, folder: Path) -> object:
    """Return the answer of a target on sound files; refuse to go on without one."""
    shutil.copytree(sound, folder)
    kind, answer = outcome(TARGETS[target][1], folder, name)
    if kind != "answered":
        raise RuntimeError(f"{target} does not answer on the sound {name}: {answer}")
    shutil.rmtree(folder)
    return answer


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=100, help="inputs of each target")
    parser.add_argument("--only", default="", help="targets whose name holds this")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    table = fuzz(args.seed, args.n, args.only)
    print(table.to_string(), table.sum().to_string(), sep="\n\n")
    n_failed = table[["traceback", "hang", "wrong"]].sum().sum()
    sys.exit(1 if n_failed else 0)
