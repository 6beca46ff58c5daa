"""Training by several processes, each on a GPU, which `accelerate launch` starts (`launched`)."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from interextra.data.collection import Collection
from interextra.models.recipe import Recipe
from interextra.models.training.checkpoints import Checkpoints
from interextra.store import scratch, write_json
from interextra.store.files import read_json

CHANGES_NO_RESULT = True  # a recipe's `processes` does: see `store.code`
JOB = "job.json"
LOG = "log.json"
MODULE = "interextra.models.launched"
# all that it would look up in a file of the user's; 0: any port that is free
LAUNCHER = (
    *(sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines", "1"),
    *("--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"),
)


def processes_to_start(recipe: Recipe) -> int:
    """Return how many processes a training of this recipe starts: its `processes`, or none (1).

    They are started where there is a GPU for each, and not from within one of them. Else this
    process computes their batches one after the other.
    """
    processes = getattr(recipe, "processes", 1)
    if processes == 1 or "RANK" in os.environ:
        return 1
    import torch

    return processes if torch.cuda.device_count() >= processes else 1


def launch(
    n_processes: int,
    recipe: Recipe,
    collection: Collection,
    query_ids: Sequence[str],
    split: str,
    seed: int,
    out_dir: Path,
    given: Mapping[str, Any],
) -> dict:
    """Train as `model.fit` with so many processes, and return its log.

    RuntimeError where one of them fails: what it said stands on standard error.
    """
    checkpoints = given.get("checkpoints")
    job = {
        "recipe": recipe.model_dump(mode="json"),
        "collection": collection.spec,
        "query_ids": list(query_ids),
        "split": split,
        "seed": seed,
        "out_dir": str(out_dir),
        "given": {role: str(path) for role, path in given.items() if role != "checkpoints"},
        "checkpoints": _written(checkpoints) if checkpoints else None,
    }
    with scratch(out_dir.with_name(f"{out_dir.name}.launch{os.getpid()}")) as folder:
        write_json(folder / JOB, job)
        command = [*LAUNCHER, "--num_processes", str(n_processes), "--module", MODULE, str(folder)]
        done = subprocess.run(command, check=False)
        if done.returncode:
            raise RuntimeError(
                f"a training by {n_processes} processes ended with code {done.returncode}; its "
                "messages stand above"
            )
        return read_json(folder / LOG)


def _written(checkpoints: Checkpoints) -> dict[str, Any]:
    """Return what makes the same checkpoints in another process."""
    return {"folder": str(checkpoints.folder), "made_by": checkpoints.made_by}
