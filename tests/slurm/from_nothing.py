"""The paper's profile on a real Slurm, from nothing: fetched, planned, some results of each kind.

Collections and models are miniatures in the true formats (`tests/toy_downloads.py`), trainings take a
step or two, sets of queries are a twentieth as large; the graph of results and the code are those of
the profile. Snakemake is killed midway, and goes on. What was computed, a row a kind, and what each
job asked for and used, a row a job, are left in build/slurm. Run: python tests/slurm/from_nothing.py [RESULTS_A_KIND]
"""

import json
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import cluster
import pandas as pd
from end_to_end import OUT, ROOT, House, accounted, slurm, until

from interextra.store.files import read_json

sys.path.insert(0, str(ROOT))
from tests import toy_downloads

PROFILE = "msmarco"
A_KIND = 20  # results
KILLED_AFTER = 60  # results
# What makes trainings and searches of the profile long, and what stands there in miniature
SHORTER = {
    r"steps: \d{2,}": "steps: 2",
    r"epochs: \d+": "epochs: 0.00001",
    r"batch_size: \d+": "batch_size: 8",
    r"n_negatives: \d{2,}": "n_negatives: 2",
    r"rerank_depth: \d{2,}": "rerank_depth: 4",
    r"negative_depth: \d{2,}": "negative_depth: 4",  # a teacher scores them for each query
    r"precision: bf16": "precision: fp32",  # a hundred times faster where a CPU has no units for it
    # the miniatures' vectors have 64 dimensions
    r"truncations: \[384, 192, 96\]": "truncations: [32, 16, 8]",
    r"(dimension|truncate_dim): 192": r"\1: 16",
    "PCA192": "PCA16",
    "OPQ48,PQ48": "OPQ16,PQ16",
}
SMALLER = 20  # times
SIZES = re.compile(r"\b(?!batch_)(\w*_)?(sizes?|n_test): \[?[\d, ]+")  # of sets of queries


def shorten(folder: Path) -> None:
    """Let trainings of all YAML files below a folder take a step or two of eight queries.

    Sets of queries are a twentieth as large as they say.
    """
    for path in folder.rglob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        for long, short in SHORTER.items():
            text = re.sub(long, short, text)
        path.write_text(SIZES.sub(smaller, text), encoding="utf-8")


def smaller(found: re.Match) -> str:
    """Return a size, or a list of them, with each number divided by SMALLER."""
    return re.sub(r"\d+", lambda number: str(int(number[0]) // SMALLER), found[0])


def open_house(environment: dict[str, str]) -> House:
    """Return a house with the profile, shortened, and miniatures to fetch from."""
    house = House("from-nothing", environment, only="", profile=PROFILE)
    shutil.copytree(ROOT / "lib", house.root / "lib")
    shorten(house.root / "lib" / "interextra" / "models" / "recipes")
    shorten(house.root / "params" / PROFILE)
    n_train = toy_downloads.N_TRAIN // SMALLER
    n_dev = toy_downloads.N_DEV // 10  # fewer would not do for the sets of test queries
    stub = toy_downloads.put(house.root / "miniatures", n_train, n_dev)
    stub.serve_locally()
    stub.put_models()
    of_stub = stub.environment
    of_stub["PYTHONPATH"] = f"{house.root / 'lib'}:{of_stub['PYTHONPATH']}"
    house.environment |= of_stub
    house.environment.pop("INTEREXTRA_DATA", None)
    return house


def newest_plan(house: House) -> Path:
    """Return the plan that Snakemake made last."""
    plans = house.root.glob("outputs/jobs/*/plan.json")
    return max(plans, key=lambda path: path.stat().st_mtime_ns)


def plan(house: House) -> tuple[str, dict[str, list[str]]]:
    """Let Snakemake plan what is missing; return the plan's name, and the results of each job."""
    house.run(*house.snakemake("--dry-run", "--quiet", profile="slurm"))
    path = newest_plan(house)
    jobs = read_json(path)["jobs"]
    return path.parent.name, {name: job["keys"] for name, job in jobs.items()}


def kinds_of(house: House, jobs: Mapping[str, list[str]]) -> dict[str, str]:
    """Return the kind of each planned result, by its key."""
    planned = house.root / "outputs" / "cells" / "planned"
    keys = [key for of_job in jobs.values() for key in of_job]
    return {key: kind_of(read_json(planned / f"{key}.json")) for key in keys}


def kind_of(note: dict) -> str:
    """Return the kind that a note of a planned result names."""
    return str(note["config"]["kind"])


def chosen(kinds: Mapping[str, str], a_kind: int) -> list[str]:
    """Return the keys of the first results of each kind, so many of each."""
    n_chosen: Counter[str] = Counter()
    keys = []
    for key, kind in kinds.items():
        if n_chosen[kind] < a_kind:
            n_chosen[kind] += 1
            keys.append(key)
    return keys


def targets(house: House, keys: list[str]) -> list[str]:
    """Return the marks of the jobs that compute what is missing of some results, in a new plan."""
    name, jobs = plan(house)
    wanted = set(keys)
    of_wanted = [job for job, computed in jobs.items() if wanted.intersection(computed)]
    return [f"outputs/jobs/{name}/{job}.done" for job in of_wanted]


def killed_and_resumed(house: House, keys: list[str]) -> None:
    """Compute results, kill Snakemake midway, and go on; nothing finished is computed again."""
    first = house.snakemake(*targets(house, keys), profile="slurm")
    snakemake = house.start(*first)
    until(lambda: len(house.seals()) >= KILLED_AFTER, f"{KILLED_AFTER} results")
    snakemake.send_signal(signal.SIGKILL)
    snakemake.wait()
    finished = {seal: seal.stat().st_mtime_ns for seal in house.seals()}
    print(f"Snakemake killed after {len(finished)} results", flush=True)
    subprocess.run(["scancel", "--user", str(cluster.getpass.getuser())], env=house.environment)
    until(lambda: not house.jobs(), "its jobs have ended")
    house.run(*house.snakemake("--unlock", profile="slurm"))
    house.run(*house.snakemake(*targets(house, keys), profile="slurm"))
    again = [seal for seal, time_ns in finished.items() if seal.stat().st_mtime_ns != time_ns]
    assert not again, f"computed again: {again}"


def computed(house: House, kinds: Mapping[str, str], keys: list[str]) -> pd.DataFrame:
    """Return how many results of each kind are there, and their seconds.

    Returns
    -------
    DataFrame[kind, planned, asked, there, seconds]
        `seconds`: the mean of those that are there.
    """
    rows = []
    cells = house.root / "outputs" / "cells"
    for key, kind in kinds.items():
        record = cells / key / "provenance.json"
        seconds = read_json(record)["seconds"] if record.exists() else None
        rows.append({"kind": kind, "asked": key in keys, "seconds": seconds})
    grouped = pd.DataFrame(rows).groupby("kind")
    counts = grouped["seconds"].agg(planned="size", there="count", seconds="mean")
    counts.insert(1, "asked", grouped["asked"].sum())
    return counts.reset_index()


def main() -> None:
    """Fetch, plan, compute so many results of each kind, through a kill."""
    a_kind = int(sys.argv[1]) if len(sys.argv) > 1 else A_KIND
    reason = cluster.why_not()
    if reason:
        raise SystemExit(reason)
    signal.signal(signal.SIGTERM, cluster.stopped_by_signal)
    OUT.mkdir(parents=True, exist_ok=True)
    with slurm("from-nothing", accounting=True) as environment:
        house = open_house(environment)
        house.run("interextra", "fetch", "--profile", PROFILE)
        _, jobs = plan(house)
        kinds = kinds_of(house, jobs)
        keys = chosen(kinds, a_kind)
        print(f"{len(kinds)} results planned, {len(keys)} asked for", flush=True)
        killed_and_resumed(house, keys)
        there = computed(house, kinds, keys)
        there.to_csv(OUT / "from-nothing.csv", index=False)
        print(there.to_string(index=False), flush=True)
        accounted(environment).to_csv(OUT / "from-nothing-jobs.csv", index=False)
        cells = house.root / "outputs" / "cells"
        missing = [key for key in keys if not (cells / key / "seal.json").exists()]
        assert not missing, f"{len(missing)} results are missing: {json.dumps(missing[:3])}"


if __name__ == "__main__":
    main()
