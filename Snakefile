# The same work as a graph of results and notebooks:  .venv/bin/snakemake --cores 2 --config profile=mini
# On a cluster:  .venv/bin/snakemake --profile profiles/slurm --config profile=msmarco   (see book/cluster.md)
#
# Snakemake reads this file again in each job. The plan is made once, in the first process; the jobs read
# the copy that lies beside the marks of what is done, outputs/jobs/<plan>/. What is there is said by the
# store alone: each start makes a new plan of what is missing.
import hashlib
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError

PROFILE = config.get("profile", "mini")
ONLY = config.get("only", "")
ONLY = "" if ONLY is None else ONLY  # only= is read as nothing
ONLY = f"{ONLY:02}" if isinstance(ONLY, int) else ONLY  # only=01 is read as a number
LONGEST = int(60 * float(config.get("hours", 0)))  # minutes that a job may ask for; 0: as many as it needs
INTEREXTRA = [sys.executable, "-m", "interextra.cli"]  # of the environment that runs snakemake
SNAKEMAKE = 800  # MB that it takes itself in a job of a cluster, where it runs twice, with up to 397 MB each
JOBS = Path("outputs/jobs")


def make_plan():
    """Plan what is missing, write it for the jobs, and return its name; "" if nothing is missing."""
    options = ["--json", "--profile", PROFILE, "--only", ONLY]
    planned = json.loads(subprocess.check_output([*INTEREXTRA, "plan", *options]))
    if planned["missing"]:  # jobs would compute what was only priced
        names = ", ".join(planned["missing"][:3])
        count = f"{len(planned['missing'])} collections and models are not here ({names}, …)"
        raise WorkflowError(f"{count}: {planned['fetch']}")
    states = {cell["state"] for notebook in planned["notebooks"] for cell in notebook["cells"]}
    if "todo" not in states and Path(f"outputs/{PROFILE}/index.html").exists():
        return ""
    jobs = {job["name"]: job for job in planned["jobs"]}
    text = json.dumps({"jobs": jobs, "run": planned["run"]})
    name = hashlib.sha256(text.encode()).hexdigest()[:20]
    folder = JOBS / name
    folder.mkdir(parents=True, exist_ok=True)
    for mark in folder.glob("*.done"):  # of a plan that was the same: what it marks is missing again
        mark.unlink()
    (folder / "plan.json").write_text(text)
    return name


@cache
def read_plan(name):
    return json.loads((JOBS / name / "plan.json").read_text())


def job_of(wildcards):
    return read_plan(wildcards.plan)["jobs"][wildcards.job]


def needed(wildcards):
    return [f"{JOBS}/{wildcards.plan}/{name}.done" for name in job_of(wildcards)["needs"]]


def every_job(wildcards):
    return [f"{JOBS}/{wildcards.plan}/{name}.done" for name in read_plan(wildcards.plan)["jobs"]]


def minutes(asked, attempt):
    """A training that is killed at its limit goes on from there at the next attempt."""
    return min(asked * attempt, LONGEST or asked * attempt)


# the plan alone says what is missing, not the times of files
PLAN = make_plan() if workflow.is_main_process else ""


wildcard_constraints:
    plan="[0-9a-f]{20}",
    job="[0-9a-f]{20}",


localrules:
    all,


rule all:
    input:
        f"{JOBS}/{PLAN}/notebooks.done" if PLAN else [],


rule cells:
    input:
        needed,
    output:
        touch("outputs/jobs/{plan}/{job}.done"),
    params:
        results=lambda wildcards: job_of(wildcards)["keys"],
    threads: lambda wildcards: job_of(wildcards)["threads"]
    resources:
        mem_mb=lambda wildcards, attempt: SNAKEMAKE + job_of(wildcards)["mem_mb"] * attempt,
        runtime=lambda wildcards, attempt: minutes(job_of(wildcards)["minutes"], attempt),
        gpu=lambda wildcards: job_of(wildcards)["gpus"],
    shell:
        "OMP_NUM_THREADS={threads} {INTEREXTRA:q} cell {params.results}"


rule notebooks:
    input:
        every_job,
    output:
        touch("outputs/jobs/{plan}/notebooks.done"),
    threads: lambda wildcards: read_plan(wildcards.plan)["run"]["threads"]
    resources:
        mem_mb=lambda wildcards, attempt: SNAKEMAKE + read_plan(wildcards.plan)["run"]["mem_mb"] * attempt,
        runtime=lambda wildcards, attempt: minutes(read_plan(wildcards.plan)["run"]["minutes"], attempt),
        gpu=0,
    shell:
        "{INTEREXTRA:q} run --profile {PROFILE} --only '{ONLY}'"
