"""Passages on disk beside a Python dictionary: seconds and peak memory at two million passages.

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
from pathlib import Path

import numpy as np

WORDS = [
    f"{a}{b}"
    for a in ("ba", "ce", "di", "fo", "gu", "ha", "je")
    for b in ("ral", "ten", "mis", "vor", "nup")
]
N_TEXTS, N_IDS = 1000, 10_000


def write_corpus(folder: Path, n: int) -> None:
    """About 56 words a passage, as in MS MARCO; ids are shuffled numbers of up to seven digits."""
    rng = np.random.default_rng(7)
    ids = rng.permutation(n)
    (folder / "qrels").mkdir(parents=True)
    with (folder / "corpus.jsonl").open("w") as out:
        for start in range(0, n, 10_000):
            block = ids[start : start + 10_000]
            words = rng.integers(0, len(WORDS), (len(block), 56))
            rows = zip(block.tolist(), words.tolist(), strict=True)
            out.writelines(
                f'{{"_id": "{i}", "title": "", "text": "{" ".join(map(WORDS.__getitem__, row))}"}}\n'
                for i, row in rows
            )
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "ral ten"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t0\t1\n")


def step_arrow(folder: Path) -> dict[str, float]:
    """Open (converting when there is no copy), then fetch texts of random rows and rows of random
    ids.
    """
    from interextra.data.load import open_collection

    seconds, started = {}, time.perf_counter()
    os.environ["INTEREXTRA_CACHE"] = str(folder / "cache")
    passages = open_collection(f"beir:{folder / 'corpus'}").passages
    seconds["open"] = time.perf_counter() - started
    rng = random.Random(3)
    rows, ids = (
        rng.choices(range(len(passages)), k=N_TEXTS),
        [str(i) for i in rng.choices(range(len(passages)), k=N_IDS)],
    )
    started = time.perf_counter()
    passages.texts(rows)
    seconds["texts"] = time.perf_counter() - started
    started = time.perf_counter()
    found = passages.rows(ids)
    seconds["rows"] = time.perf_counter() - started
    if (found < 0).any() or passages.doc_ids.take(found).to_pylist() != ids:
        raise SystemExit("rows() and doc_ids_at() disagree")
    return seconds


def step_dictionary(folder: Path) -> dict[str, float]:
    """The same with `{doc_id: text}` read from the JSON lines, and a dictionary of rows."""
    seconds, started = {}, time.perf_counter()
    texts = {}
    with (folder / "corpus" / "corpus.jsonl").open() as lines:
        for line in lines:
            row = json.loads(line)
            texts[row["_id"]] = row["text"]
    row_of = {doc_id: row for row, doc_id in enumerate(texts)}
    seconds["open"] = time.perf_counter() - started
    rng = random.Random(3)
    ids = [str(i) for i in rng.choices(range(len(texts)), k=N_IDS)]
    started = time.perf_counter()
    [texts[doc_id] for doc_id in ids[:N_TEXTS]]
    seconds["texts"] = time.perf_counter() - started
    started = time.perf_counter()
    [row_of[doc_id] for doc_id in ids]
    seconds["rows"] = time.perf_counter() - started
    return seconds


STEPS = {
    "import only": None,
    "convert": step_arrow,
    "open again": step_arrow,
    "dictionary": step_dictionary,
}


def own_mb() -> float:
    """Memory of the process itself, in MiB, without the pages of mapped files (which can be given
    back); Linux only.
    """
    status = Path("/proc/self/status")
    found = (
        [line.split()[1] for line in status.open() if line.startswith("RssAnon")]
        if status.exists()
        else []
    )
    return int(found[0]) / 1024 if found else float("nan")


def child(step: str, folder: Path) -> None:
    importlib.import_module("interextra.data.load")  # what every step pays

    samples, done = [own_mb()], threading.Event()

    def sample() -> None:
        while not done.wait(0.01):
            samples.append(own_mb())

    sampler = threading.Thread(target=sample)
    sampler.start()
    seconds = STEPS[step](folder) if STEPS[step] else {}
    done.set()
    sampler.join()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts KiB
    print(json.dumps(seconds | {"peak": peak, "own": max(samples)}))


def main(n: int) -> None:
    with tempfile.TemporaryDirectory(prefix="interextra-bench-") as name:
        folder = Path(name)
        write_corpus(folder / "corpus", n)
        size = (folder / "corpus" / "corpus.jsonl").stat().st_size / 2**20
        print(
            f"{n:,} passages, {size:,.0f} MiB of JSON lines; {N_TEXTS:,} texts, rows of {N_IDS:,} ids"
        )
        print(
            f"{'step':12}{'open s':>9}{'texts s':>9}{'rows s':>9}{'peak MiB':>10}{'of it own':>11}"
        )
        for step in STEPS:
            command = [sys.executable, __file__, "--step", step, name]
            found = json.loads(
                subprocess.run(command, check=True, capture_output=True, text=True).stdout
            )
            cells = (
                f"{found[key]:9.3f}" if key in found else " " * 9
                for key in ("open", "texts", "rows")
            )
            print(f"{step:12}{''.join(cells)}{found['peak']:10,.0f}{found['own']:11,.0f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        child(sys.argv[2], Path(sys.argv[3]))
    elif sys.argv[1:2] == ["--small"]:
        main(2_000)
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000)
