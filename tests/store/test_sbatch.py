"""The scripts for Slurm submit every job after what it needs: tried in bash, with a stub of sbatch."""

import os
import subprocess

import pytest
from test_prices import graph

from interextra.store import jobs as batch
from interextra.store import sbatch

# Notes what it was asked for, and computes at once: each task of an array by its number
STUB = """\
#!/bin/bash
set -euo pipefail
number=$(($(cat "$LOGS/number" 2>/dev/null || echo 0) + 1))
echo "$number" >"$LOGS/number"
echo "$number $*" >>"$LOGS/asked"
[[ "$*" == *"--partition=full"* ]] && { echo "sbatch: error: no" >&2; exit 1; }
options=() tasks=""
while [[ "$1" == --* ]]; do
    [[ "$1" == --array=1-* ]] && tasks="${1#--array=1-}"
    shift
done
if [[ -n "$tasks" ]]; then
    for task in $(seq "$tasks"); do SLURM_ARRAY_TASK_ID="$task" bash "$@" >&2; done
else
    bash "$@" >&2
fi
echo "$number;cluster"
"""
INTEREXTRA = """\
#!/bin/bash
echo "$PWD $*" >>"$LOGS/computed"
"""


@pytest.fixture
def submitted(tmp_path, monkeypatch):
    """Write the scripts of some jobs and submit them; gives the ended process, and its logs."""
    (tmp_path / "bin").mkdir()
    for name, text in (("sbatch", STUB), ("python", INTEREXTRA)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setattr(sbatch.sys, "executable", str(tmp_path / "bin" / "python"))
    root = tmp_path / "the house"
    root.mkdir()

    def submit(jobs, *options):
        run = batch.notebooks_job([])
        arguments = ["--profile", "small", "--only", "", "-p", "sizes=[1, 2]"]
        script = sbatch.write(root / "scripts", root, jobs, run, arguments)
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        environment = {"PATH": path, "LOGS": str(tmp_path)}
        return subprocess.run(
            ["bash", script, *options], env=environment, capture_output=True, text=True
        )

    submit.logs = tmp_path
    return submit


@pytest.mark.parametrize("seed", range(3))
def test_every_result_is_computed_after_what_it_needs_and_the_notebooks_last(submitted, seed):
    rows = graph(seed, n=12)
    for each in rows.values():
        each["seconds"] *= 40
    made = batch.jobs({"00": list(rows.values())})
    done = submitted(made, "--partition=long")
    assert done.returncode == 0, done.stderr
    assert "submitted" in done.stdout
    *lines, last = (submitted.logs / "computed").read_text().splitlines()
    root = submitted.logs / "the house"
    begins = f"{root} -m interextra.cli cell "
    assert all(line.startswith(begins) for line in lines)
    assert last == f"{root} -m interextra.cli run --profile small --only  -p sizes=[1, 2]"
    computed = [key for line in lines for key in line.removeprefix(begins).split()]
    assert sorted(computed) == sorted(rows)
    for key, each in rows.items():
        assert all(computed.index(needed) < computed.index(key) for needed in each["needs"])

    asked = [line.split() for line in (submitted.logs / "asked").read_text().splitlines()]
    assert all("--partition=long" in words for words in asked)
    numbers = {}  # of the arrays of a level
    for number, *words in asked[:-1]:
        name = value_of("--job-name", words)
        level = int(name.split("-")[1])
        numbers.setdefault(level, []).append(number)
        after = [f":{each}" for each in numbers.get(level - 1, [])]
        assert value_of("--dependency", words) == ("afterok" + "".join(after) if after else None)
        assert value_of("--gpus", words) == ("1" if "-gpu-" in name else None)
    after = [f":{each}" for each in numbers[max(numbers)]]
    assert value_of("--dependency", asked[-1]) == "afterok" + "".join(after)


def value_of(option, words):
    """What follows an option; None where it is not given."""
    return next((word.partition("=")[2] for word in words if word.startswith(f"{option}=")), None)


def test_what_arrays_ask_for_is_enough_for_each_of_their_jobs(submitted):
    rows = graph(1, n=12)
    for number, each in enumerate(rows.values()):
        each["seconds"] *= 100
        each["memory"] = 100.0 * number
    made = batch.jobs({"00": list(rows.values())})
    assert submitted(made).returncode == 0
    for line in (submitted.logs / "asked").read_text().splitlines()[:-1]:
        words = dict(
            word.split("=", 1) for word in line.split() if word.startswith("--") and "=" in word
        )
        listed = line.split()[-1] if "scripts" in line.split()[-1] else ""
        assert listed
        keys = (submitted.logs / "the house" / "scripts" / listed.split("/")[-1]).read_text()
        for job in made:
            if " ".join(job["keys"]) in keys.splitlines():
                assert int(words["--mem"]) >= job["mem_mb"]
                assert int(words["--time"]) >= job["minutes"]
                assert int(words["--cpus-per-task"]) >= job["threads"]


def test_nothing_missing_submits_the_notebooks_alone(submitted):
    assert submitted([]).returncode == 0
    [line] = (submitted.logs / "asked").read_text().splitlines()
    assert "interextra-notebooks" in line and "--dependency" not in line


def test_what_sbatch_refuses_ends_the_submission(submitted):
    made = batch.jobs({"00": list(graph(2).values())})
    done = submitted(made, "--partition=full")
    assert done.returncode == 1 and "sbatch: error: no" in done.stderr
    assert len((submitted.logs / "asked").read_text().splitlines()) == 1
