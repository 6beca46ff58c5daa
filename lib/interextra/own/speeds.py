"""What was measured of this machine today, so that `probe` does not measure it again.

A file of the cache folder for each model, machine and setting: other processes, another version of
a library or a hot day make a speed old, so that those of other days are removed.
"""

import os
import platform
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from interextra.models.model import weights_digest
from interextra.models.search.topk import device
from interextra.own.cost import Measurement, Speed
from interextra.store import cache_folder, write_json
from interextra.store.files import digest, read_json
from interextra.store.schedule import n_cores

FOLDER = "speeds"


class Measured(NamedTuple):
    """What was measured today."""

    speed: Speed
    per_text: dict[str, float]  # encoder of a split → seconds of a query


def kept(measurements: Sequence[Measurement]) -> Measured | None:
    """Return what was kept today of these measurements on this machine, if anything was."""
    path = _path(measurements)
    if not path.is_file():
        return None
    found = read_json(path)
    return Measured(Speed(**found["speed"]), found["per_text"])


def keep(measurements: Sequence[Measurement], measured: Measured) -> None:
    """Keep what was measured for today; what other days kept is removed."""
    path = _path(measurements)
    path.parent.mkdir(parents=True, exist_ok=True)
    for old in path.parent.glob("*.json"):
        if not old.name.startswith(_today()):
            old.unlink(missing_ok=True)
    write_json(path, {"speed": measured.speed._asdict(), "per_text": measured.per_text})


def _today() -> str:
    """Return what the files of today begin with."""
    return f"{date.today()}-"


def _path(measurements: Sequence[Measurement]) -> Path:
    """Return the file of measurements, named by all that a speed depends on."""
    recipe = measurements[0].recipe
    asked: dict[str, Any] = {
        "measurements": [measurement.key for measurement in measurements],
        "weights": weights_digest(recipe),
        "machine": platform.node(),
        "cores": n_cores(),
        "device": device(),
        "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
    }
    return cache_folder() / FOLDER / f"{_today()}{digest(asked)}.json"
