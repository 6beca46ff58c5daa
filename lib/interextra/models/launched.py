"""One of several processes that train together, see `launch`."""

import os
import sys
from pathlib import Path

from interextra.data.load import open_collection
from interextra.models.launch import JOB, LOG
from interextra.models.model import fit
from interextra.models.recipe import make_recipe
from interextra.models.training.checkpoints import Checkpoints
from interextra.store import write_json
from interextra.store.files import read_json


def main() -> None:
    """Train as the job says that stands in the folder of the command line."""
    import torch

    if torch.cuda.is_available():
        # what "cuda" means in this process from here on
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    folder = Path(sys.argv[1])
    job = read_json(folder / JOB)
    given = {role: Path(path) for role, path in job["given"].items()}
    if job["checkpoints"]:
        checkpoints = job["checkpoints"]
        given["checkpoints"] = Checkpoints(Path(checkpoints["folder"]), checkpoints["made_by"])
    log = fit(
        make_recipe(job["recipe"], str(folder)),
        open_collection(job["collection"]),
        job["query_ids"],
        job["split"],
        job["seed"],
        job["out_dir"],
        **given,
    )
    if os.environ["RANK"] == "0":
        write_json(folder / LOG, log)


if __name__ == "__main__":
    main()
