"""A real Slurm: notebooks 00, 03 and 12 of smoke by Snakemake and by job arrays, through failures.

`make test-slurm` runs it. Whatever computes them, their tables are those of `interextra run`, byte
for byte. Houses, logs and what each job asked for and used (`jobs.csv`) are left in build/slurm.
"""

import atexit
import importlib.util
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import cluster
import pandas as pd

from interextra.store.files import read_json

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "slurm"
COPIED = ("notebooks", "params", "profiles", "book", "Snakefile")
ALL = "00,03,12"  # notebooks
SHORT = "00,03"
PATIENCE = 1800  # seconds until something that is waited for has happened
ACCOUNTED = "JobID,Comment,State,ReqCPUS,ReqMem,TimelimitRaw,ElapsedRaw,TotalCPU,MaxRSS"
SUBMITTED = "has been submitted with SLURM jobid"
T = TypeVar("T")
# In the Snakefile, what a job asks for; and the same in a house where it is too little at first.
MEMORY = 'SNAKEMAKE + job_of(wildcards)["mem_mb"] * attempt'
TOO_LITTLE = "450 * 2 ** (attempt - 1)"  # MB: enough for Snakemake itself


class House:
    """A copy of the repository without results, and the environment that its commands run in."""

    def __init__(
        self, name: str, environment: dict[str, str], only: str = ALL, profile: str = "smoke"
    ):
        self.name = name
        self.only = only
        self.profile = profile
        self.root = OUT / name
        self.environment = environment | {"INTEREXTRA_CACHE": str(OUT / "cache")}
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        for part in COPIED:
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            copy(ROOT / part, self.root / part)

    def start(self, program: str, *arguments: str) -> subprocess.Popen:
        """Start a program of this environment; what it prints is added to the house's log."""
        with self.log.open("a") as log:
            started = subprocess.Popen(
                [f"{sys.prefix}/bin/{program}", *arguments],
                cwd=self.root,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        atexit.register(started.kill)
        return started

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of this environment, which must succeed."""
        code = self.start(program, *arguments).wait()
        command = " ".join([program, *arguments])
        assert not code, f"{command} ended with {code}: see {self.log}"

    @property
    def log(self) -> Path:
        """What the programs in this house printed."""
        return OUT / f"{self.name}.log"

    def has_said(self, text: str) -> bool:
        """Whether a text stands in the log."""
        return text in self.log.read_text()

    def seals(self) -> list[Path]:
        """Return the seals of the finished results."""
        return list(self.root.glob("outputs/cells/*/seal.json"))

    def tables(self) -> dict[str, bytes]:
        """Return the tables of the executed notebooks, by their paths."""
        paths = sorted((self.root / "outputs" / "smoke").glob("*/tables/*"))
        return {str(path.relative_to(self.root)): path.read_bytes() for path in paths}

    def jobs(self, *options: str) -> list[str]:
        """Return the numbers of Slurm's jobs that wait or run."""
        command = ["squeue", "--noheader", "--format=%i", *options]
        return cluster.said(command, self.environment).split()

    def snakemake(self, *more: str, profile: str) -> list[str]:
        """Return the README's command, for some notebooks of the house's profile."""
        config = ["--config", f"profile={self.profile}", f"only={self.only}"]
        return ["snakemake", "--profile", f"profiles/{profile}", *more, *config]


def until(happened: Callable[[], T], what: str) -> T:
    """Wait until something has happened; return what it is."""
    deadline = time.monotonic() + PATIENCE
    while not (found := happened()):
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
        time.sleep(0.5)
    return found


def of_notebooks(tables: dict[str, bytes], only: str) -> dict[str, bytes]:
    """Return the tables of some notebooks, given by their numbers."""
    names = tuple(f"outputs/smoke/{number}_" for number in only.split(","))
    return {path: table for path, table in tables.items() if path.startswith(names)}


def check_tables(house: House, expected: dict[str, bytes]) -> None:
    """Compare the tables of a house with those that are expected of its notebooks, byte for byte."""
    made = house.tables()
    expected = of_notebooks(expected, house.only)
    assert made.keys() == expected.keys(), made.keys() ^ expected.keys()
    different = [path for path, content in expected.items() if made[path] != content]
    assert not different, f"{house.name}: other tables than of `interextra run`: {different}"
    print(f"{house.name}: its {len(made)} tables are those of `interextra run`", flush=True)


def run_here(environment: dict[str, str]) -> dict[str, bytes]:
    """Compute the notebooks by `interextra run`; return their tables."""
    house = House("run", environment)
    house.run("interextra", "run", "--profile", "smoke", "--only", house.only)
    tables = house.tables()
    assert tables
    return tables


def undisturbed(house: House) -> None:
    """Run the README's command; again, it has nothing to do."""
    command = house.snakemake(profile="slurm")
    house.run(*command)
    n_jobs = house.log.read_text().count(SUBMITTED)
    house.run(*command)
    assert house.log.read_text().count(SUBMITTED) == n_jobs, "a second start computed again"


def disturbed(house: House) -> None:
    """Cancel a job and kill Snakemake; what is finished is not computed again."""
    command = house.snakemake(profile="slurm-no-accounting")
    snakemake = house.start(*command)
    cancelled = until(lambda: house.jobs("--states=running"), "a running job")[0]
    subprocess.run(["scancel", cancelled], env=house.environment, check=True)
    until(lambda: house.has_said("Trying to restart job"), "a cancelled job is started again")
    until(house.seals, "a first result")
    until(lambda: house.jobs("--states=running"), "a running job")
    snakemake.kill()
    snakemake.wait()
    finished = {seal: seal.stat().st_mtime_ns for seal in house.seals()}
    print(f"{house.name}: Snakemake killed after {len(finished)} results", flush=True)

    if house.start(*command).wait():
        assert house.has_said("--unlock"), f"Snakemake did not say how to go on: see {house.log}"
        house.run(*house.snakemake("--unlock", profile="slurm-no-accounting"))
        house.run(*house.snakemake("--rerun-incomplete", profile="slurm-no-accounting"))
    again = [seal for seal, time_ns in finished.items() if seal.stat().st_mtime_ns != time_ns]
    assert not again, f"computed again: {again}"


def too_little_memory(house: House) -> None:
    """Ask for less memory than a job takes; it is killed, and tried again with more."""
    snakefile = house.root / "Snakefile"
    text = snakefile.read_text()
    assert text.count(MEMORY) == 1, "the Snakefile asks for memory in another way"
    snakefile.write_text(text.replace(MEMORY, TOO_LITTLE))
    house.run(*house.snakemake(profile="slurm"))
    said = "".join(path.read_text() for path in house.root.glob(".snakemake/slurm_logs/**/*.log"))
    assert "exceeded memory limit" in said, "no job was killed for its memory"


def job_arrays(house: House) -> None:
    """Submit everything as job arrays, without Snakemake."""
    notebooks = ["--profile", "smoke", "--only", house.only]
    house.run("interextra", "plan", *notebooks, "--sbatch", "jobs")
    submitted = subprocess.run(["bash", "jobs/submit.sh"], cwd=house.root, env=house.environment)
    assert not submitted.returncode
    until(lambda: not house.jobs(), "all jobs have ended")


def accounted(environment: dict[str, str]) -> pd.DataFrame:
    """Return what each job asked for and used, as `sacct` has it.

    Returns
    -------
    DataFrame[JobID, Comment, State, ReqCPUS, ReqMem, TimelimitRaw, ElapsedRaw, TotalCPU, MaxRSS]
        A row a job; memory in MB, its limit in minutes, its time in seconds, that of its cores as
        a text.
    """
    command = ["sacct", "--parsable2", "--units=M", f"--format={ACCOUNTED}"]
    rows = pd.read_csv(io.StringIO(cluster.said(command, environment)), sep="|", dtype=str)
    for column in ("ReqMem", "MaxRSS"):
        rows[column] = pd.to_numeric(rows[column].str.rstrip("M"))
    job = rows["JobID"].str.partition(".")[0]
    jobs = rows[rows["JobID"] == job].drop(columns="MaxRSS")
    peaks = rows.groupby(job)["MaxRSS"].max()
    return jobs.merge(peaks, left_on="JobID", right_index=True)


def with_results(jobs: pd.DataFrame, house: House) -> pd.DataFrame:
    """Add how many results each job computed, and the seconds that they and all else took.

    Returns
    -------
    DataFrame[..., results, computing, beside]
        `computing` is the results' own time, `beside` the rest of the job's a result; both are NaN
        for the job of the notebooks.
    """
    [plan] = house.root.glob("outputs/jobs/*/plan.json")
    keys_of = {name: job["keys"] for name, job in read_json(plan)["jobs"].items()}
    names = jobs["Comment"].str[-len(min(keys_of)) :]
    cells = house.root / "outputs" / "cells"
    seconds = {
        name: sum(read_json(cells / key / "provenance.json")["seconds"] for key in keys)
        for name, keys in keys_of.items()
    }
    results = names.map({name: len(keys) for name, keys in keys_of.items()})
    computing = names.map(seconds)
    beside = (jobs["ElapsedRaw"].astype(float) - computing) / results
    return jobs.assign(results=results, computing=computing.round(1), beside=beside.round(1))


@contextmanager
def slurm(name: str, accounting: bool) -> Iterator[dict[str, str]]:
    """Start a Slurm in a folder of its own; its logs are left in build/slurm."""
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        try:
            with cluster.slurm(Path(folder) / name, accounting) as environment:
                yield environment
        finally:
            for log in Path(folder).glob("*/*.log"):
                shutil.copy(log, OUT / f"{name}-{log.name}")


def main() -> None:
    """Check everything, with accounting and without."""
    reason = cluster.why_not()
    if not reason and not importlib.util.find_spec("snakemake_executor_plugin_slurm"):
        reason = "no executor of Snakemake for Slurm: .venv/bin/pip install '.[cluster]'"
    if reason:
        raise SystemExit(reason)
    signal.signal(signal.SIGTERM, cluster.stopped_by_signal)
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    expected = run_here(dict(os.environ))
    with slurm("accounting", accounting=True) as environment:
        house = House("slurm", environment)
        undisturbed(house)
        check_tables(house, expected)
        jobs = with_results(accounted(environment), house)
        jobs.to_csv(OUT / "jobs.csv", index=False)
        print(jobs.to_string(index=False), flush=True)
        house = House("too-little-memory", environment, only=SHORT)
        too_little_memory(house)
        check_tables(house, expected)
    with slurm("no-accounting", accounting=False) as environment:
        house = House("disturbed", environment)
        disturbed(house)
        check_tables(house, expected)
        house = House("job-arrays", environment, only=SHORT)
        job_arrays(house)
        check_tables(house, expected)


if __name__ == "__main__":
    main()
