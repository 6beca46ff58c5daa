# The same work as a graph of results and notebooks:  .venv/bin/snakemake --cores 2 --config profile=mini
# On a cluster:  .venv/bin/snakemake --executor slurm --jobs 50 --config profile=msmarco   (see book/cluster.md)
import json
import subprocess
import sys
from glob import glob

from snakemake.exceptions import WorkflowError

PROFILE = config.get("profile", "mini")
ONLY = config.get("only", "")
ONLY = f"{ONLY:02}" if isinstance(ONLY, int) else ONLY  # only=01 is read as a number
INTEREXTRA = [sys.executable, "-m", "interextra.cli"]  # of the environment that runs snakemake
PLAN = json.loads(subprocess.check_output([*INTEREXTRA, "plan", "--json", "--profile", PROFILE, "--only", ONLY]))
if PLAN["missing"]:  # what was only priced cannot be computed
    raise WorkflowError(f"{len(PLAN['missing'])} collections and models are not here; fetch them first: {PLAN['fetch']}")
PLAN = PLAN["notebooks"]
MISSING = [cell for notebook in PLAN for cell in notebook["cells"] if cell["state"] == "todo"]
CELLS = {cell["key"]: cell for cell in MISSING if not cell["what"].startswith("notebook")}


wildcard_constraints:
    key="[0-9a-f]{20}",


rule all:
    input:
        f"outputs/{PROFILE}/index.html",


rule cell:
    input:
        lambda wildcards: [f"outputs/cells/{key}/seal.json" for key in CELLS[wildcards.key]["needs"]],
    output:
        "outputs/cells/{key}/seal.json",
    threads: 1
    resources:
        runtime=lambda wildcards: 10 + int(CELLS[wildcards.key]["seconds"] / 20),
    shell:
        "OMP_NUM_THREADS={threads} {INTEREXTRA:q} cell {wildcards.key}"


rule notebooks:
    input:
        [f"outputs/cells/{key}/seal.json" for key in CELLS],
        glob("notebooks/*.ipynb") + glob(f"params/{PROFILE}/*.yaml"),
    output:
        f"outputs/{PROFILE}/index.html",
    shell:
        "{INTEREXTRA:q} run --profile {PROFILE} --only '{ONLY}'"
