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
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

# before numpy is imported
os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
os.environ.update(TQDM_DISABLE="1", TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1")
if "--small" in sys.argv:
    os.environ["NUMBA_DISABLE_JIT"] = "1"  # to compile takes longer than the small run

import pandas as pd
from cases import duplicates, encoding, intervals, lexical, measures, training, vectors
from cases.figure import figure_of_seconds
from cases.form import OURS, Case, DifferentError, Peer, Prepare
from cases.timing import Measured, apart, exponent_of, measured

from interextra.figures import style

MODULES = (measures, vectors, encoding, training, duplicates, lexical, intervals)
CASES: list[Case] = [case for module in MODULES for case in module.CASES]
NAME = "side_by_side"
OUT = Path("build", "bench")
ROOT = Path(__file__).resolve().parents[1]
MACHINE = Path("/proc/cpuinfo")


def missing(peer: Peer) -> list[str]:
    """Return the modules of a peer that are not installed."""
    return [module for module in peer.needs if find_spec(module) is None]


class Row(NamedTuple):
    """What a system of a case takes at a size, beside ours."""

    case: str
    counted: str  # what n is
    system: str
    n: int
    seconds: float  # the least
    median: float
    cpu: float  # seconds of all threads, the least
    repeats: int
    megabytes: float
    ratio: float  # its seconds by ours
    agreement: str

    def line(self) -> str:
        """Return it as printed."""
        cells = [f"  {self.system:24}", f"{self.n:>10,}", f"{self.seconds:9.3f} s"]
        cells.append(f"{self.megabytes:7,.0f} MiB")
        if self.system != OURS:
            cells += [f"x {self.ratio:.2f}", self.agreement]
        return "  ".join(cells)


class Comparison:
    """What is found: a row for each case, system and size, and what is not as it should be."""

    def __init__(self, level: str) -> None:
        self.level = level
        self.rows: list[Row] = []
        self.growth: list[dict[str, Any]] = []
        self.skipped: list[str] = []
        self.faster: list[str] = []  # peers
        self.faults: list[str] = []

    def add(self, case: Case) -> None:
        """Measure a case, and print its table."""
        print(f"\n{case.name} ({case.counted})", flush=True)
        ours = self.measured(case.ours, case)
        self.note(case, OURS, ours, ours)
        for system, peer in case.peers.items():
            lacking = ", ".join(missing(peer))
            if lacking:
                line = f"{system}: skipped, {lacking} not installed"
                self.skipped.append(f"{case.name}: {line}")
                print(f"  {line}")
                continue
            self.note(case, system, self.measured(peer.prepare, case), ours)
            if self.level != "small":
                self.judge(self.rows[-1], peer)

    def measured(self, prepare: Prepare, case: Case) -> list[Measured]:
        """Measure a system in a process of its own."""
        return apart(measured, prepare, case.sizes.of(self.level), self.level == "small")

    def note(
        self, case: Case, system: str, theirs: Sequence[Measured], ours: Sequence[Measured]
    ) -> None:
        """Add and print the rows of a system, and its growth."""
        for their, our in zip(theirs, ours, strict=True):
            least = min(their.seconds)
            row = Row(
                case=case.name,
                counted=case.counted,
                system=system,
                n=their.n,
                seconds=least,
                median=statistics.median(their.seconds),
                cpu=min(their.cpu),
                repeats=len(their.seconds),
                megabytes=round(their.megabytes, 1),
                ratio=least / min(our.seconds),
                agreement=self.agreement(case, system, their, our),
            )
            self.rows.append(row)
            print(row.line(), flush=True)
        if len(theirs) > 1:
            exponent = exponent_of(theirs)
            self.growth.append({"case": case.name, "system": system, "exponent": exponent})
            print(f"  {system:24}  grows with the size to the power of {exponent:.2f}")

    def agreement(self, case: Case, system: str, their: Measured, our: Measured) -> str:
        """Return how results agree; note those that differ."""
        if system == OURS:
            return ""
        try:
            return case.compare(our.result, their.result)
        except DifferentError as error:
            differs = f"DIFFERS: {error}"
            self.faults.append(f"{case.name}, {their.n:,}: {system} {differs}")
            return differs

    def judge(self, row: Row, peer: Peer) -> None:
        """Note a peer that is faster at the largest size, or not as slow as it should be."""
        takes = f"{row.case}, {row.n:,}: {row.system} takes {row.ratio:.2f} times our seconds"
        if row.ratio < 1:
            self.faster.append(takes)
        if row.ratio < peer.least:
            self.faults.append(f"{takes}, not {peer.least:g}")

    def report(self) -> None:
        """Print what a reader must know."""
        titles = {
            "Faster than the kit": self.faster,
            "Skipped (extra `bench`; text-dedup: see its case)": self.skipped,
            "NOT AS IT SHOULD BE": self.faults,
        }
        for title, lines in titles.items():
            if lines:
                print(f"\n{title}:", *lines, sep="\n  ")


def machine() -> dict[str, Any]:
    """Return what computes, and how busy it is."""
    processor = platform.machine()
    if MACHINE.exists():
        lines = MACHINE.read_text().splitlines()
        names = [line for line in lines if line.startswith("model name")]
        if names:
            _, _, processor = names[0].partition(": ")
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
        command = ["git", "archive", f"--output={archive}", "HEAD"]
        subprocess.run(command, cwd=ROOT, check=True)
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
    cases = [case for case in CASES if not names or case.name in names]
    import_once(cases)
    result: dict[str, Any] = {"sizes": level, "machine": machine(), "versions": versions(cases)}
    comparison = Comparison(level)
    for case in cases:
        comparison.add(case)
    if profile:
        result["cold_run"] = cold_run(profile)
    comparison.report()
    table = pd.DataFrame(comparison.rows)
    result |= {
        "rows": table.to_dict("records"),
        "growth": comparison.growth,
        "faster": comparison.faster,
        "skipped": comparison.skipped,
        "faults": comparison.faults,
    }
    write(result, table, out)
    minutes = (time.perf_counter() - begin) / 60
    print(f"\n{minutes:.1f} minutes; written to {out}")
    return 1 if comparison.faults else 0


def import_once(cases: Sequence[Case]) -> None:
    """Import what the systems of some cases import, before their processes start."""
    for module in MODULES:
        if any(case in cases for case in module.CASES):
            for name in module.IMPORTS:
                importlib.import_module(name)


def write(result: dict[str, Any], table: pd.DataFrame, out: Path) -> None:
    """Write the JSON and the figure."""
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1)
    (out / f"{NAME}.json").write_text(f"{text}\n")
    style()
    figure = figure_of_seconds(table)
    for kind in ("svg", "png"):
        figure.savefig(out / f"{NAME}.{kind}")


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
