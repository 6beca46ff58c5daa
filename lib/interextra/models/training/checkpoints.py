"""Checkpoints of a training, from which it goes on after it was killed, to the same weights.

They lie beside the cell that is built, under its key, and go when it is finished. Nothing in them
is code: weights are safetensors, and states of optimiser, schedule and random numbers are read with
torch's `weights_only`.
"""

import math
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interextra.store import Cell, InputError, Store, write_json
from interextra.store.code import behind
from interextra.store.files import read_json, seal, seal_problem

if TYPE_CHECKING:
    import torch

MINUTES = 15.0  # between two checkpoints
VARIABLE = "INTEREXTRA_CHECKPOINT_MINUTES"  # an environment variable with other minutes; in no key
NAME = "checkpoint-"  # of a folder, before the number of steps, as transformers names it
MADE_BY = "made_by.json"
WEIGHTS = "model.safetensors"


class Checkpoints:
    """The checkpoints of one training.

    Parameters
    ----------
    folder
        Of the checkpoints of this training alone; made with the first one.
    made_by
        What code and settings the training is made by, as JSON: a checkpoint of others is not used.
    """

    def __init__(self, folder: Path, made_by: dict[str, Any]) -> None:
        self.folder = folder
        self.made_by = made_by
        self.seconds = 60 * minutes()
        self.saved = time.monotonic()

    @classmethod
    def of(cls, cell: Cell, store: Store, n_processes: int = 1) -> "Checkpoints":
        """Return those of a cell that a store builds, with so many processes."""
        made_by = {
            "key": cell.key,
            "code": cell.code_behind,
            "behind": behind(cell.modules()),  # also the exact versions of libraries
            "processes": n_processes,
        }
        return cls(store.checkpoints(cell), made_by)

    def newest(self) -> Path | None:
        """Return the newest complete checkpoint of the same code and settings, if there is one.

        All others are removed, and those of other code or settings are named on standard error.
        """
        newest = None
        others = []
        for path in sorted(self.folder.glob(f"{NAME}*"), key=_steps_of, reverse=True):
            is_complete = not seal_problem(path)
            is_same = is_complete and read_json(path / MADE_BY) == self.made_by
            if is_complete and not is_same:
                others.append(path)
            if is_same and newest is None:
                newest = path
            else:
                shutil.rmtree(path, ignore_errors=True)
        if others:
            _say(f"{others[0]} is of other code or settings: removed, the training begins anew")
        if newest:
            _say(f"{newest}: the training goes on after step {_steps_of(newest)}")
        return newest

    def is_due(self) -> bool:
        """Whether it is time for another one."""
        return time.monotonic() - self.saved >= self.seconds

    def path_of(self, step: int) -> Path:
        """Return where the checkpoint after so many steps is written."""
        return self.folder / f"{NAME}{step}"

    def finish(self, path: Path) -> None:
        """Note and seal a checkpoint whose files are written; remove those before it."""
        write_json(path / MADE_BY, self.made_by)
        seal(path)
        for other in self.folder.glob(f"{NAME}*"):
            if other != path:
                shutil.rmtree(other, ignore_errors=True)
        self.saved = time.monotonic()


def minutes() -> float:
    """Return the minutes between two checkpoints: VARIABLE, or MINUTES; InputError for no time."""
    given = os.environ.get(VARIABLE) or MINUTES
    try:
        n_minutes = float(given)
    except ValueError:
        n_minutes = math.nan
    if not n_minutes >= 0:
        raise InputError(f"{VARIABLE} = {given!r}: give minutes, 0 for a checkpoint at each step")
    return n_minutes


def _steps_of(path: Path) -> int:
    """Return after how many steps a checkpoint was written, by its name; -1 for another name."""
    number = path.name.removeprefix(NAME)
    return int(number) if number.isdecimal() else -1


def _say(message: str) -> None:
    """Say something on standard error."""
    print(message, file=sys.stderr)


def save_weights(model: "torch.nn.Module", folder: Path) -> None:
    """Write the weights of a model into a folder."""
    from safetensors.torch import save_model

    folder.mkdir(parents=True, exist_ok=True)
    save_model(model, str(folder / WEIGHTS))


def load_weights(model: "torch.nn.Module", folder: Path) -> None:
    """Read weights that `save_weights` wrote into the same model."""
    from safetensors.torch import load_model

    load_model(model, folder / WEIGHTS)


def random_states() -> dict[str, Any]:
    """Return the states of torch's random numbers, on all devices."""
    import torch

    return {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all()}


def set_random_states(states: dict[str, Any]) -> None:
    """Go back to the states of `random_states`."""
    import torch

    torch.set_rng_state(states["cpu"])
    torch.cuda.set_rng_state_all(states["cuda"])
