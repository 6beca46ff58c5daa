"""Results in the files that other tools read: runs as TREC files, splits in the formats of the papers' releases."""

from pathlib import Path

from interextra.data import released
from interextra.data.runs import RunFile
from interextra.ground.cells import Cell, Store
from interextra.ground.errors import InputError


def export(store: Store, cell: Cell, folder: Path) -> list[Path]:
    """Write a finished run or split to files under `folder`; returns their paths.

    A run: NAME.trec a set of queries. A split: the training qrels of each of its sets, as Zhan et al. released theirs.
    """
    runs = sorted(store[cell].glob("run.*.parquet"))
    if not runs and not hasattr(cell, "sets"):
        raise InputError(f"{cell.title()} is neither a run nor a split; `interextra plan` lists those")
    if not runs:
        return released.export_split(cell.sets(store), cell.pool.qrels(store), folder)
    for path in runs:
        RunFile.read(path).write_trec(folder / f"{path.stem.removeprefix('run.')}.trec")
    return [folder / f"{path.stem.removeprefix('run.')}.trec" for path in runs]
