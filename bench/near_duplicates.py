"""Measure the search for near-duplicates, and the audit around it, at the size of MS MARCO.

7,000 test queries against 500,000 training queries, of words as frequent as those of questions
(Zipf); every tenth test query is a training query with its words in another order. Each query has
a passage of 20 to 100 words; every tenth one of the test queries is an edited training passage. The
audit is the whole command, on two folders of `datasets`, without and with edited copies. Run:
python bench/near_duplicates.py [--small]
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from datasets import Dataset

from interextra.overlap.near import near_pairs, near_rows

N_WORDS = 200_000
SHARES = (0.8, 0.6)
OF_PASSAGES = 0.8
AT_ONCE = 50_000  # texts that are drawn at once


def texts(rng: np.random.Generator, n: int, least: int, most: int) -> list[str]:
    """Return texts of `least` to `most` words."""
    ranks = np.arange(1, N_WORDS + 1)
    chances = 1 / (ranks + 5)
    chances /= chances.sum()
    drawn_texts: list[str] = []
    for start in range(0, n, AT_ONCE):
        lengths = rng.integers(least, most + 1, min(AT_ONCE, n - start))
        drawn = rng.choice(N_WORDS, lengths.sum(), p=chances)
        words = [f"w{number}" for number in drawn]
        ends = np.cumsum(lengths)
        pairs = zip(ends - lengths, ends, strict=True)
        drawn_texts += [" ".join(words[first:end]) for first, end in pairs]
    return drawn_texts


def megabytes(usage: resource.struct_rusage) -> float:
    """Return the most memory that was held, in MiB; Linux counts KiB."""
    return usage.ru_maxrss / 1024


def audited(folder: Path, *options: str) -> str:
    """Return what the command `audit` takes of time and memory, and its first line."""
    sides = [f"--train=datasets:{folder}/train", f"--test=datasets:{folder}/test"]
    command = [sys.executable, "-m", "interextra", "audit", *sides, f"--out={folder}/out"]
    begin = time.perf_counter()
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    first_line = process.stdout.readline().strip()
    process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)}: exit status {status}")
    seconds = time.perf_counter() - begin
    cpu = usage.ru_utime + usage.ru_stime
    return f"{seconds:.0f} s ({cpu:.0f} s of CPU), {megabytes(usage):,.0f} MiB: {first_line}"


def main(n_train: int, n_test: int) -> None:
    """Print a line for each search, and for each audit."""
    rng = np.random.default_rng(5)
    train = texts(rng, n_train, 2, 10)
    test = texts(rng, n_test, 2, 10)
    taught = texts(rng, n_train, 20, 100)
    answers = texts(rng, n_test, 20, 100)
    planted = range(0, n_test, 10)
    for row in planted:
        test[row] = " ".join(train[row].split()[::-1])
        answers[row] = " ".join([*taught[row].split()[:-1], "edited"])
    print(f"{n_test:,} against {n_train:,}, {len(planted):,} of them planted")
    with tempfile.TemporaryDirectory(prefix="interextra-bench-") as name:
        folder = Path(name)
        for side, queries, passages in (("train", train, taught), ("test", test, answers)):
            data = Dataset.from_dict({"query": queries, "positive": passages})
            data.save_to_disk(folder / side)
        print("audit:", audited(folder))
        print("audit with edited copies:", audited(folder, f"--near-passages={OF_PASSAGES}"))
    searches = [("queries", near_pairs, train, test, near) for near in SHARES]
    searches.append(("passages", near_rows, taught, answers, OF_PASSAGES))
    before = megabytes(resource.getrusage(resource.RUSAGE_SELF))
    for name, search, right, left, near in searches:
        begin, cpu = time.perf_counter(), time.process_time()
        pairs = search(right, left, near)
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        peak = megabytes(resource.getrusage(resource.RUSAGE_SELF))
        n_found = len(set(planted) & set(pairs["test"]))
        print(
            f"{name} at {near:g}: {seconds:.0f} s ({cpu:.0f} s of CPU), {peak:,.0f} MiB "
            f"({before:,.0f} before), {len(pairs):,} pairs, {n_found} planted ones"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--small"]:
        main(5_000, 100)
    else:
        main(500_000, 7_000)
