"""Results in the files that other tools read: runs as TREC files, splits in the formats of the papers' releases."""

from pathlib import Path

import pandas as pd

from interextra.data import released
from interextra.data.runs import RunFile
from interextra.ground.cells import Cell, Store
from interextra.ground.errors import InputError
from interextra.splits.split import Split


def export(store: Store, cell: Cell, folder: Path) -> list[Path]:
    """Write a finished run or split to files under `folder`; returns their paths.

    A run: NAME.trec a set of queries. A split: the qrels of its training sets, and the test queries of its buckets or
    clusters, as Zhan et al. and Lupart et al. released theirs.
    """
    runs = sorted(store[cell].glob("run.*.parquet"))
    if not runs and not isinstance(cell, Split):
        raise InputError(f"{cell.title()} is neither a run nor a split; `interextra plan` lists those")
    paths = [folder / f"{path.stem.removeprefix('run.')}.trec" for path in runs]
    for run, path in zip(runs, paths, strict=True):
        RunFile.read(run).write_trec(path)
    if isinstance(cell, Split):
        sets = {name: ids for name, ids in cell.sets(store).items() if name != "held-out"}
        paths += released.export_split("restrain", sets, cell.pool.frame(store), cell.pool.qrels(store), folder)
        if cell.release:
            strata = cell.strata(store)
            sets = {str(name): part.index.tolist() for name, part in strata.groupby(strata)}
            parts = zip(*((queries.frame(store), queries.qrels(store)) for queries in cell.tested), strict=True)
            paths += released.export_split(cell.release, sets, *map(pd.concat, parts), folder)
    return paths
