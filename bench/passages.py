"""Measure passages on disk beside a Python dictionary: seconds and peak memory at two million.

Writes a corpus of plain words in the BEIR layout to a temporary folder, measures each step in a
process of its own, and removes everything. Run: python bench/passages.py [number of passages, or
--small]
"""

import importlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

WORDS = [
    f"{a}{b}"
    for a in ("ba", "ce", "di", "fo", "gu", "ha", "je")
    for b in ("ral", "ten", "mis", "vor", "nup")
]
WORDS_OF_PASSAGE = 56  # about as many as in MS MARCO
N_TEXTS = 1000
N_IDS = 10_000
TIMED = ("open", "texts", "rows")


def write_corpus(folder: Path, n: int) -> None:
    """Write passages as long as MS MARCO's; ids are shuffled numbers of up to seven digits."""
    rng = np.random.default_rng(7)
    ids = rng.permutation(n)
    (folder / "qrels").mkdir(parents=True)
    with (folder / "corpus.jsonl").open("w") as out:
        for start in range(0, n, 10_000):
            block = ids[start : start + 10_000].tolist()
            drawn = rng.integers(0, len(WORDS), (len(block), WORDS_OF_PASSAGE)).tolist()
            for doc_id, numbers in zip(block, drawn, strict=True):
                passage = {"_id": str(doc_id), "title": "", "text": text_of(numbers)}
                out.write(f"{json.dumps(passage)}\n")
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "ral ten"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t0\t1\n")


def text_of(numbers: list[int]) -> str:
    """Return the words with these numbers."""
    return " ".join(WORDS[number] for number in numbers)


def step_arrow(folder: Path) -> dict[str, float]:
    """Open (converting when there is no copy), fetch texts of random rows, and rows of ids."""
    from interextra.data.load import open_collection

    os.environ["INTEREXTRA_CACHE"] = str(folder / "cache")
    begin = time.perf_counter()
    passages = open_collection(f"beir:{folder / 'corpus'}").passages
    opened = time.perf_counter() - begin
    rng = random.Random(3)
    rows = rng.choices(range(len(passages)), k=N_TEXTS)
    ids = [str(number) for number in rng.choices(range(len(passages)), k=N_IDS)]
    begin = time.perf_counter()
    passages.texts(rows)
    fetched = time.perf_counter() - begin
    begin = time.perf_counter()
    rows_of_ids = passages.rows(ids)
    found = time.perf_counter() - begin
    if (rows_of_ids < 0).any() or passages.doc_ids.take(rows_of_ids).to_pylist() != ids:
        raise SystemExit("rows() and doc_ids_at() disagree")
    return {"open": opened, "texts": fetched, "rows": found}


def step_dictionary(folder: Path) -> dict[str, float]:
    """Do the same with `{doc_id: text}` read from the JSON lines, and a dictionary of rows."""
    begin = time.perf_counter()
    texts = {}
    with (folder / "corpus" / "corpus.jsonl").open() as lines:
        for line in lines:
            passage = json.loads(line)
            texts[passage["_id"]] = passage["text"]
    row_of = {doc_id: row for row, doc_id in enumerate(texts)}
    opened = time.perf_counter() - begin
    ids = [str(number) for number in random.Random(3).choices(range(len(texts)), k=N_IDS)]
    begin = time.perf_counter()
    [texts[doc_id] for doc_id in ids[:N_TEXTS]]
    fetched = time.perf_counter() - begin
    begin = time.perf_counter()
    [row_of[doc_id] for doc_id in ids]
    found = time.perf_counter() - begin
    return {"open": opened, "texts": fetched, "rows": found}


STEPS = {
    "import only": None,
    "convert": step_arrow,
    "open again": step_arrow,
    "dictionary": step_dictionary,
}


def own_mb() -> float:
    """Return the memory of the process itself in MiB; Linux only.

    Without the pages of mapped files, which can be given back.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("RssAnon"):
                return int(line.split()[1]) / 1024
    return float("nan")


def with_memory(work: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Return what some work returns, and the peak of memory in MiB: of all, and of its own."""
    samples = [own_mb()]
    is_done = threading.Event()

    def sample() -> None:
        """Note the memory every hundredth of a second."""
        while not is_done.wait(0.01):
            samples.append(own_mb())

    sampler = threading.Thread(target=sample)
    sampler.start()
    measured = work()
    is_done.set()
    sampler.join()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts KiB
    return measured | {"peak": peak, "own": max(samples)}


def child(step: str, folder: Path) -> None:
    """Print what a step takes, in this process."""
    importlib.import_module("interextra.data.load")  # what every step pays
    work = STEPS[step]
    measured = with_memory(lambda: work(folder) if work else {})
    print(json.dumps(measured))


def main(n: int) -> None:
    """Print a line for each step, which runs in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="interextra-bench-") as name:
        write_corpus(Path(name, "corpus"), n)
        size = Path(name, "corpus", "corpus.jsonl").stat().st_size / 2**20
        print(
            f"{n:,} passages, {size:,.0f} MiB of JSON lines; {N_TEXTS:,} texts, "
            f"rows of {N_IDS:,} ids"
        )
        headings = "".join(f"{f'{column} s':>9}" for column in TIMED)
        print(f"{'step':12}{headings}{'peak MiB':>10}{'of it own':>11}")
        for step in STEPS:
            command = [sys.executable, __file__, "--step", step, name]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            measured = json.loads(done.stdout)
            cells = ""
            for column in TIMED:
                cells += f"{measured[column]:9.3f}" if column in measured else " " * 9
            print(f"{step:12}{cells}{measured['peak']:10,.0f}{measured['own']:11,.0f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        child(sys.argv[2], Path(sys.argv[3]))
    elif sys.argv[1:2] == ["--small"]:
        main(2_000)
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000)
