"""Measure the kit beside what a user would otherwise run: seconds, memory, ratios, growth.

Each system runs in a process of its own, warmed by the smallest size, with one thread; what is
prepared, such as made-up data, is not timed. Repeats go on for at most some seconds; the least and
the median count. Memory is the peak of the process less what it held before. Growth is the exponent
of a power of the size, fitted to the least seconds of four sizes. Results must agree with ours, as
each case says. A peer that is not installed is skipped and named.

Writes side_by_side.json, side_by_side.svg and side_by_side.png to a folder. Rows of the JSON: case,
what n counts, system, n, seconds (the least), median, cpu (seconds of all threads, the least),
repeats, megabytes, ratio (its seconds by ours), agreement. Ends with an error where a result
differs, or where a peer is not as much slower as its case says.

    python bench/side_by_side.py [--small | --full] [--only CASE …] [--out FOLDER]
"""

import argparse
import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# before numpy is imported
os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
os.environ.update(TQDM_DISABLE="1", TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1")
if "--small" in sys.argv:
    os.environ["NUMBA_DISABLE_JIT"] = "1"  # to compile takes longer than the small run

import numpy as np
import pandas as pd
from cases import duplicates, encoding, lexical, measures, statistics, training, vectors
from cases.figure import figure_of_seconds
from cases.form import OURS, Case, DifferentError, Peer
from cases.timing import Measured, apart, exponent_of, measured

from interextra.figures import style

MODULES = (measures, vectors, encoding, training, duplicates, lexical, statistics)
CASES: list[Case] = [case for module in MODULES for case in module.CASES]
# imported once, before the processes start
IMPORTED = (
    "datasets",
    "faiss",
    "sentence_transformers",
    "sklearn.cluster",
    "sklearn.neighbors",
    "interextra.models.training.trainer",
    "interextra.overlap.near",
    "interextra.stats.effects",
)
NAME = "side_by_side"
OUT = Path("build", "bench")
ROOT = Path(__file__).resolve().parents[1]
MACHINE = Path("/proc/cpuinfo")


def missing(peer: Peer) -> list[str]:
    """Return the modules of a peer that are not installed."""
    return [module for module in peer.needs if find_spec(module) is None]


class Comparison:
    """What is found: a row for each case, system and size, and what is not as it should be."""

    def __init__(self, level: str) -> None:
        self.level = level
        self.rows: list[dict[str, Any]] = []
        self.growth: list[dict[str, Any]] = []
        self.skipped: list[str] = []
        self.faster: list[str] = []  # peers
        self.faults: list[str] = []

    def add(self, case: Case) -> None:
        """Measure a case, and print its table."""
        sizes = case.sizes.of(self.level)
        once = self.level == "small"
        print(f"\n{case.name} ({case.counted})", flush=True)
        ours = apart(measured, case.ours, sizes, once)
        self.note(case, OURS, ours, ours)
        for system, peer in case.peers.items():
            lacking = missing(peer)
            if lacking:
                self.skipped.append(f"{case.name}: {system} ({', '.join(lacking)} not installed)")
                print(f"  {system}: skipped, {', '.join(lacking)} not installed")
                continue
            theirs = apart(measured, peer.prepare, sizes, once)
            self.note(case, system, theirs, ours)
            if not once:
                self.judge(case, system, peer)

    def note(
        self, case: Case, system: str, theirs: Sequence[Measured], ours: Sequence[Measured]
    ) -> None:
        """Add and print the rows of a system, and its growth."""
        for their, our in zip(theirs, ours, strict=True):
            row = {
                "case": case.name,
                "counted": case.counted,
                "system": system,
                "n": their.n,
                "seconds": min(their.seconds),
                "median": float(np.median(their.seconds)),
                "cpu": min(their.cpu),
                "repeats": len(their.seconds),
                "megabytes": round(their.megabytes, 1),
                "ratio": min(their.seconds) / min(our.seconds),
                "agreement": "" if system == OURS else self.agreement(case, system, their, our),
            }
            self.rows.append(row)
            print(line_of(row), flush=True)
        exponent = exponent_of(theirs)
        self.growth.append({"case": case.name, "system": system, "exponent": exponent})
        print(f"  {system:24} grows with the size to the power of {exponent:.2f}")

    def agreement(self, case: Case, system: str, their: Measured, our: Measured) -> str:
        """Return how results agree; note those that differ."""
        try:
            return case.compare(our.result, their.result)
        except DifferentError as error:
            self.faults.append(f"{case.name}, {their.n:,}: {system} differs: {error}")
            return f"DIFFERS: {error}"

    def judge(self, case: Case, system: str, peer: Peer) -> None:
        """Note a peer that is faster at the largest size, or not as slow as it should be."""
        last = self.rows[-1]
        ratio = last["ratio"]
        at = f"{case.name}, {last['n']:,}: {system}"
        if ratio < 1:
            self.faster.append(f"{at} takes {ratio:.2f} of our seconds")
        if ratio < peer.least:
            self.faults.append(f"{at} takes {ratio:.1f} times our seconds, not {peer.least:g}")

    def report(self) -> None:
        """Print what a reader must know."""
        for title, lines in (
            ("Faster than the kit", self.faster),
            ("Skipped (pip install 'interextra[bench]'; text-dedup: see its case)", self.skipped),
            ("NOT AS IT SHOULD BE", self.faults),
        ):
            if lines:
                print(f"\n{title}:")
                for line in lines:
                    print(f"  {line}")


def line_of(row: dict[str, Any]) -> str:
    """Return a row as printed."""
    numbers = f"{row['n']:>10,}{row['seconds']:10.3f} s{row['megabytes']:9,.0f} MiB"
    ratio = "" if row["system"] == OURS else f"  x {row['ratio']:.2f}  {row['agreement']}"
    return f"  {row['system']:24}{numbers}{ratio}"


def machine() -> dict[str, Any]:
    """Return what computes, and how busy it is."""
    processor = platform.machine()
    if MACHINE.exists():
        lines = MACHINE.read_text().splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        processor = names[0] if names else processor
    load, _, _ = os.getloadavg()
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "threads": 1,
        "load": load,
        "python": platform.python_version(),
    }


def versions(cases: Sequence[Case]) -> dict[str, str]:
    """Return the versions of what the peers need, where installed."""
    modules = {module for case in cases for peer in case.peers.values() for module in peer.needs}
    distributions = packages_distributions()
    names = {name for module in modules for name in distributions.get(module, [])}
    return {name: version(name) for name in sorted(names)}


def cold_run(profile: str) -> dict[str, Any]:
    """Time `interextra run` of a profile from nothing: a copy of the last commit, no cache."""
    with tempfile.TemporaryDirectory(prefix="interextra-bench-") as scratch:
        archive = Path(scratch, "commit.tar")
        copy = Path(scratch, "copy")
        subprocess.run(["git", "archive", f"--output={archive}", "HEAD"], cwd=ROOT, check=True)
        shutil.unpack_archive(archive, copy, filter="data")
        variables = {"INTEREXTRA_CACHE": str(copy / "cache"), "PYTHONPATH": str(copy / "lib")}
        command = [sys.executable, "-m", "interextra", "run", "--profile", profile]
        begin = time.perf_counter()
        subprocess.run(command, cwd=copy, env=os.environ | variables, check=True)
        seconds = time.perf_counter() - begin
    print(f"\ncold run of {profile}: {seconds:.0f} s")
    return {"profile": profile, "seconds": seconds}


def main(level: str, names: Sequence[str], out: Path, profile: str) -> int:
    """Measure some cases, and write a JSON and a figure; return 1 where something is wrong."""
    begin = time.perf_counter()
    for module in IMPORTED:
        importlib.import_module(module)
    result: dict[str, Any] = {"sizes": level, "machine": machine()}
    comparison = Comparison(level)
    cases = [case for case in CASES if not names or case.name in names]
    for case in cases:
        comparison.add(case)
    if profile:
        result["cold_run"] = cold_run(profile)
    comparison.report()
    result |= {
        "versions": versions(cases),
        "rows": comparison.rows,
        "growth": comparison.growth,
        "faster": comparison.faster,
        "skipped": comparison.skipped,
        "faults": comparison.faults,
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{NAME}.json").write_text(json.dumps(result, indent=1) + "\n")
    style()
    figure = figure_of_seconds(pd.DataFrame(comparison.rows))
    for kind in ("svg", "png"):
        figure.savefig(out / f"{NAME}.{kind}")
    print(f"\n{time.perf_counter() - begin:.0f} s; written: {out}/{NAME}.json, .svg and .png")
    return 1 if comparison.faults else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--small", action="store_true", help="tiny sizes: only whether it runs")
    sizes.add_argument("--full", action="store_true", help="the sizes of MS MARCO: hours")
    parser.add_argument(
        "--only", nargs="+", default=[], choices=[case.name for case in CASES], metavar="CASE"
    )
    parser.add_argument("--out", type=Path, default=OUT, metavar="FOLDER")
    parser.add_argument(
        "--cold-run", default="", metavar="PROFILE", help="also time a run of a profile"
    )
    args = parser.parse_args()
    level = "small" if args.small else "full" if args.full else "usual"
    out = args.out / level if args.small else args.out
    sys.exit(main(level, args.only, out, args.cold_run))
