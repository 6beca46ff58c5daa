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
import itertools
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random

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

KEPT = Path(__file__).parents[1] / "build" / "fuzz"
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

Damage = Callable[[Random, bytes], bytes]
# what is done with the damaged file of a folder, by its name there; what comes of it
Call = Callable[[Path, str], object]


def flip(draw: Random, data: bytes) -> bytes:
    """Make one bit another."""
    n_bits = 8 * len(data)
    index, bit = divmod(draw.randrange(n_bits), 8)
    damaged = bytearray(data)
    damaged[index] ^= 1 << bit
    return bytes(damaged)


def cut(draw: Random, data: bytes) -> bytes:
    """Take the end away, or all of it."""
    place = draw.randrange(len(data))
    return data[: draw.choice([0, place])]


def insert(draw: Random, data: bytes) -> bytes:
    """Insert a sign of another format or encoding."""
    place = draw.randrange(len(data) + 1)
    return _replaced(data, place, place, draw.choice(ODD))


def swap(draw: Random, data: bytes) -> bytes:
    """Put a value of another type in the place of one, or of a size that no table can hold."""
    tokens = list(TOKEN.finditer(data))
    start, end = draw.choice(tokens).span()
    return _replaced(data, start, end, draw.choice(VALUES))


def _replaced(data: bytes, start: int, end: int, part: bytes) -> bytes:
    """Return data with another part from `start` to `end`."""
    return data[:start] + part + data[end:]


def repeat(draw: Random, data: bytes) -> bytes:
    """Write a line twice."""
    lines = data.splitlines(keepends=True)
    return b"".join([*lines, draw.choice(lines)])


DAMAGES = (flip, cut, insert, swap, swap, repeat)


def damage(draw: Random, path: Path) -> bool:
    """Damage a file, and return whether a sound reader can answer only as it did before.

    It can refuse, too. So it is with other bytes of a Parquet file, by its digest.
    """
    if path.suffix == ".parquet":
        if draw.random() < 0.3:
            _damage_metadata(draw, path)
            return False
        path.write_bytes(flip(draw, path.read_bytes()))
        return path.name != "theirs.parquet"
    data = path.read_bytes()
    for _ in range(draw.choice([1, 1, 2])):
        if data:
            change = draw.choice(DAMAGES)
            data = change(draw, data)
    path.write_bytes(data)
    return False


def _damage_metadata(draw: Random, path: Path) -> None:
    """Write other metadata into a Parquet file."""
    key = draw.choice([b"query_ids", b"interextra.content", b"pandas"])
    table = pq.read_table(path)
    metadata = dict(table.schema.metadata or {})
    values = [b"", b"\xff", b'["q1"]', b'[["q1"]]', *VALUES]
    metadata[key] = draw.choice(values)
    pq.write_table(table.replace_schema_metadata(metadata), path)


def write_sound(folder: Path) -> None:
    """Write what is damaged later, all of it sound.

    A collection of 48 queries, a split of it, runs in every format, and files of the other readers.
    """
    # the commands want to be inside a repository
    for name in ("coll/qrels", "runs", "notebooks", "params"):
        (folder / name).mkdir(parents=True)
    test = write_collection(folder / "coll")
    _write_lines(folder / "a.qrels", [f"{query_id} 0 p-{query_id} 1" for query_id in test])
    qrels = {query_id: {f"p-{query_id}": 1} for query_id in test}
    (folder / "qrel.json").write_text(json.dumps(qrels))
    queries = pd.read_json(folder / "coll" / "queries.jsonl", lines=True)
    _write_lines(folder / "queries.tsv", queries["_id"] + "\t" + queries["text"])
    pair = "t,tea,q,hot tea,bm25,full,similar"
    _write_lines(folder / "sheet.csv", [",".join(SHEET), pair])
    for name in ("a", "runs/interpolation-12", "runs/extrapolation-12"):
        write_runs(folder / name, test)
    pd.read_csv(folder / "a.csv").to_parquet(folder / "theirs.parquet")
    run_command([*SPLITTING, "out"], folder)


def write_collection(folder: Path) -> list[str]:
    """Write a folder in BEIR's layout, and return the ids of the test queries, a third.

    A passage for each query.
    """
    queries = []
    passages = []
    qrels: dict[str, list[str]] = {"train": [], "test": []}
    for word, number in itertools.product(WORDS, range(6)):
        query_id = f"q{word}{number}"
        text = f"which {word} is number {number}"
        queries.append({"_id": query_id, "text": text, "metadata": {"kind": word[0]}})
        passages.append({"_id": f"p-{query_id}", "title": "About", "text": text})
        qrels["train" if number < 4 else "test"].append(query_id)
    _write_lines(folder / "queries.jsonl", map(json.dumps, queries))
    _write_lines(folder / "corpus.jsonl", map(json.dumps, passages))
    for split, query_ids in qrels.items():
        judgements = [f"{query_id}\tp-{query_id}\t1" for query_id in query_ids]
        header = "query-id\tcorpus-id\tscore"
        _write_lines(folder / "qrels" / f"{split}.tsv", [header, *judgements])
    return qrels["test"]


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines, each with its end."""
    path.write_text("\n".join([*lines, ""]))


def write_runs(path: Path, query_ids: list[str]) -> None:
    """Write one run in every format; `path` lacks the suffix."""
    rows = []
    hits = {}
    lines = []
    for query_id in query_ids:
        scores = {f"p-{query_id}": 2.5, "p-qslate0": 1.5}
        results = []
        for doc_id, score in scores.items():
            rows.append((query_id, doc_id, score))
            results.append({"corpus_id": doc_id, "score": score})
        hits[query_id] = scores
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
    message = errors.getvalue()
    last_line = message.strip().rpartition("\n")[2]
    if code == 2 and last_line.startswith("interextra: "):
        raise InputError(last_line)
    if code:
        raise RuntimeError(f"exit code {code} without a line: {message[-500:]}")
    return out.getvalue()


def commanded(*arguments: str) -> Call:
    """Return a command on the files of a folder; `*` in an argument is the damaged file.

    SUFFIX is that of a damaged run in the folder `runs`, else of TREC.
    """

    def call(folder: Path, name: str) -> str:
        """Return what the command prints."""
        suffix = Path(name).suffix if name.startswith("runs/") else ".run"
        named = [part.replace("*", name) for part in arguments]
        return run_command([part.replace("SUFFIX", suffix) for part in named], folder)

    return call


def reading(read: Callable[[Path], object]) -> Call:
    """Return a reader of the damaged file."""

    def call(folder: Path, name: str) -> object:
        """Return what the reader gives; the rows of a run as text."""
        content = read(folder / name)
        return rows_of(content) if isinstance(content, RunFile) else content

    return call


def plainly(data: bytes) -> list[tuple[str, str, float]]:
    """Return the rows of a TREC run, read line by line."""
    rows = []
    text = data.decode("utf-8-sig", "replace")  # a tag may be of any encoding
    for line in re.split(r"[\r\n]+", text):
        fields = re.split(r"[ \t]+", line.strip(" \t"))
        if fields[0] and not fields[0].startswith("#"):
            query_id, _, doc_id, _, score, *_ = fields
            rows.append((query_id, doc_id, float(np.float32(score))))
    return rows


def rows_of(run: RunFile) -> str:
    """Return the rows of a run as text, in one order."""
    frame = run.frame()[COLUMNS]
    return str(sorted(frame.itertuples(index=False, name=None)))


# name → files of which one is damaged, and what is done with it
TARGETS: dict[str, tuple[Sequence[str], Call]] = {
    "RunFile.read": (RUNS[:2], reading(RunFile.read)),
    "read_run": (RUNS, reading(read_run)),
    "read_qrels": (("a.qrels", "coll/qrels/test.tsv"), reading(read_qrels)),
    "read_queries_tsv": (("queries.tsv",), reading(read_queries_tsv)),
    "read_qrels_json": (("qrel.json",), reading(read_qrels_json)),
    "read_sheet": (("sheet.csv",), reading(read_sheet)),
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
        message = str(error)
        return ("traceback" if "\n" in message else "refused"), message
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
    outcomes = {}
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["INTEREXTRA_CACHE"] = f"{scratch}/cache"
        sound = Path(scratch, "sound")
        folder = Path(scratch, "input")
        write_sound(sound)
        for target in TARGETS:
            if only in target:
                kinds = pd.Series(_outcomes(target, seed, n, sound, folder))
                outcomes[target] = kinds.value_counts()
    counts = pd.DataFrame(outcomes, index=OUTCOMES).T
    return counts.fillna(0).astype(int)


def _outcomes(target: str, seed: int, n: int, sound: Path, folder: Path) -> Iterator[str]:
    """Yield what came of each input; `folder` is made anew for each."""
    files, call = TARGETS[target]
    answers = {name: _answer_on_sound(target, name, sound, folder) for name in files}
    draw = Random(f"{seed} {target}")
    for number in range(n):
        name = draw.choice(files)
        path = folder / name
        shutil.copytree(sound, folder)
        is_same = damage(draw, path)
        kind, answer = outcome(call, folder, name)
        if kind == "answered" and is_wrong(answer, answers[name], is_same, path):
            kind = "wrong"
        if kind not in ("answered", "refused"):
            kept = _keep(folder, f"{target}-{seed}-{number}")
            print(f"{target}: {kind}: {kept / name}", file=sys.stderr)
            print(str(answer)[-1500:], file=sys.stderr)
        shutil.rmtree(folder)
        yield kind


def _answer_on_sound(target: str, name: str, sound: Path, folder: Path) -> object:
    """Return the answer of a target on sound files; refuse to go on without one."""
    _, call = TARGETS[target]
    shutil.copytree(sound, folder)
    kind, answer = outcome(call, folder, name)
    shutil.rmtree(folder)
    if kind != "answered":
        raise RuntimeError(f"{target} does not answer on the sound {name}: {answer}")
    return answer


def _keep(folder: Path, name: str) -> Path:
    """Copy an input that failed to where it stays, and return this folder."""
    kept = KEPT / name.replace(" ", "-")
    shutil.rmtree(kept, ignore_errors=True)
    return shutil.copytree(folder, kept)


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
