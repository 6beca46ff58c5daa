"""Jobs as job arrays of Slurm, submitted by a script of plain bash: nothing else is needed."""

import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from interextra.store.files import write_text
from interextra.store.jobs import Job

Array = list[Job]
LARGEST_ARRAY = 1000  # tasks: Slurm allows so many unless it is told otherwise
TASK = """\
#!/bin/bash
# One task of an array: computes the results whose keys stand in a line of the file $1.
set -euo pipefail
keys=$(sed -n "${{SLURM_ARRAY_TASK_ID}}p" "$1")
export OMP_NUM_THREADS="${{SLURM_CPUS_PER_TASK:-1}}"
exec {interextra} cell $keys
"""
RUN = """\
#!/bin/bash
# Executes the notebooks, whose results are there, and makes the pages.
set -euo pipefail
exec {interextra} run {arguments}
"""
SUBMIT = """\
#!/bin/bash
# Submits everything to Slurm. Each level of results waits until the one before it is there.
# Options of sbatch that all jobs need may follow: bash {submit} --partition=NAME
set -euo pipefail
shopt -s inherit_errexit  # what sbatch refuses ends it all
cd {root}
folder={folder}
mkdir -p "$folder/logs"
everywhere=("$@")
ids=""  # of the level before, each with a colon before it

submit() {{  # options, script and arguments; prints the job's number
    local id
    id=$(sbatch --parsable --output="$folder/logs/%x-%j.out" ${{ids:+--dependency=afterok$ids}} \\
        --kill-on-invalid-dep=yes "${{everywhere[@]}}" "$@")
    echo ":${{id%%;*}}"
}}

{levels}
echo "submitted; \\`squeue --me\\` shows the jobs, $folder/logs what they say"
"""


def write(
    folder: Path, root: Path, jobs: Sequence[Job], run: Job, arguments: Sequence[str]
) -> Path:
    """Write scripts that submit jobs as arrays: those of a level that ask for about the same.

    Parameters
    ----------
    folder
        Where they go.
    root
        Of the repository, which all nodes see.
    jobs, run
        As `jobs.jobs` and `jobs.notebooks_job` give them.
    arguments
        Of the command `interextra run` that follows.

    Returns
    -------
    Path
        The script that submits.
    """
    folder = folder.resolve()
    interextra = shlex.join([sys.executable, "-m", "interextra.cli"])
    task = write_text(folder / "task.sh", TASK.format(interextra=interextra))
    last = RUN.format(interextra=interextra, arguments=shlex.join(arguments))
    notebooks = write_text(folder / "notebooks.sh", last)
    blocks = []
    for level, arrays in _by_level(jobs):
        blocks.append(_block(folder, level, arrays, task))
    of_notebooks = ["--job-name=interextra-notebooks", *_asked([run])]
    blocks.append(_submitted([*of_notebooks, notebooks]))
    submit = folder / "submit.sh"
    text = SUBMIT.format(
        root=shlex.quote(str(root)),
        folder=shlex.quote(str(folder)),
        submit=shlex.quote(str(submit)),
        levels="\n".join(blocks),
    )
    return write_text(submit, text)


def _block(folder: Path, level: int, arrays: Sequence[Array], task: Path) -> str:
    """Write the keys of the arrays of a level; return the lines that submit them."""
    lines = ['next=""']
    for number, array in enumerate(arrays, start=1):
        device = array[0]["device"]
        name = f"{level}-{device}-{number}"
        keys = [" ".join(job["keys"]) for job in array]
        text = "\n".join(keys)
        listed = write_text(folder / f"{name}.txt", f"{text}\n")
        of_array = [f"--job-name=interextra-{name}", f"--array=1-{len(array)}"]
        options = [*of_array, *_asked(array)]
        lines.append(_submitted([*options, task, listed]))
    return "\n".join([*lines, 'ids="$next"'])


def _by_level(jobs: Sequence[Job]) -> Iterator[tuple[int, list[Array]]]:
    """Yield each level with its arrays: jobs of as many GPUs that take about as long."""
    for level in sorted({job["level"] for job in jobs}):
        alike: dict[tuple[int, int], list[Job]] = {}
        for job in jobs:
            if job["level"] == level:
                magnitude = math.ceil(math.log(job["minutes"], 4))
                alike.setdefault((job["gpus"], magnitude), []).append(job)
        arrays = []
        for together in alike.values():
            starts = range(0, len(together), LARGEST_ARRAY)
            arrays += [together[start : start + LARGEST_ARRAY] for start in starts]
        yield level, arrays


def _asked(jobs: Sequence[Job]) -> list[str]:
    """Return the options of sbatch for what the largest of some jobs asks for."""
    threads = max(job["threads"] for job in jobs)
    megabytes = max(job["mem_mb"] for job in jobs)
    minutes = max(job["minutes"] for job in jobs)
    options = [f"--cpus-per-task={threads}"]
    options += [f"--mem={megabytes}", f"--time={minutes}"]
    gpus = max(job["gpus"] for job in jobs)
    if gpus:
        options.append(f"--gpus={gpus}")
    return options


def _submitted(words: Sequence[object]) -> str:
    """Return the line that submits a job and remembers its number."""
    return f"next+=$(submit {shlex.join(map(str, words))})"
