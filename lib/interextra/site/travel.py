"""What travels with the reference: values per query and small cells, so that notebooks run without
a trained model.

A notebook keeps the values of its runs (`Session.measure`) and what it computed from files that are
too large to travel (`Session.kept`) in `values/`; `tools/reference.py` adds the small files of its
cells: no texts, weights or rankings.
"""

import re
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import pandas as pd

from interextra.models.model import Model
from interextra.store import Cell, InputError, Store, offenders

REFERENCE = Path("outputs", "reference")
VALUES, RUNS, CELLS = "values", "values/runs.parquet", "cells.zip"
RUN, SKIPS = (
    "run_identity",
    "skips_own",
)  # columns of RUNS beside the labels: the run, and whether own passages count
MEMBER = re.compile(r"[0-9a-f]{20}(/|(/[\w .@-]+)+)")  # identity of a cell, then a file of it
PLACE = [RUN, "test_set", "measure", SKIPS]


def write_runs(path: Path, parts: Sequence[pd.DataFrame]) -> None:
    """The values of several designs, as `Session.measure` has them, in one file; `design`: which of
    them.
    """
    table = pd.concat(
        [part.assign(design=number) for number, part in enumerate(parts)], ignore_index=True
    )
    words = table.select_dtypes(exclude="number").columns.drop(SKIPS)
    kept = table.assign(
        **{name: table[name].map(str, na_action="ignore").astype("category") for name in words}
    )
    kept.to_parquet(path, index=False, compression="zstd")


class Reference(Store):
    """Committed cells and values, in a notebook's `folder`; the others, if untrained, are computed,
    under `root`.
    """

    def __init__(self, folder: Path, root: Path):
        super().__init__(root)
        self.folder, self._unpacked = folder, tempfile.TemporaryDirectory()
        with zipfile.ZipFile(folder / CELLS) as archive:
            if bad := [
                name for name in archive.namelist() if not MEMBER.fullmatch(name) or ".." in name
            ]:
                raise InputError(
                    f"{folder / CELLS}: {offenders(bad)} is no file of a cell; get the archive again"
                )
            archive.extractall(self._unpacked.name)

    def path(self, cell: Cell) -> Path:
        here = Path(self._unpacked.name) / cell.identity
        return here if here.is_dir() else super().path(cell)

    def valid(self, cell: Cell) -> bool:
        return (Path(self._unpacked.name) / cell.identity).is_dir() or super().valid(cell)

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        found = super().missing(cells)
        if trained := [cell.title() for cell in found if isinstance(cell, Model)]:
            told = f"{self.folder}: {len(trained)} models would have to be trained ({offenders(trained)}): the"
            raise InputError(
                f"{told} reference has other parameters or is older than this notebook; run without it"
            )
        return found

    @cached_property
    def _runs(self) -> dict[tuple, pd.Series]:
        """(run, test set, measure, skip_own) → value by query_id."""
        once = (
            pd.read_parquet(self.folder / RUNS)
            .drop_duplicates([*PLACE, "query_id"])
            .astype({"query_id": object})
        )
        parts = once.groupby(PLACE, sort=False, observed=True)
        return {key: part.set_index("query_id")["value"] for key, part in parts}

    def measured(
        self, run: Cell, test_set: str, names: Sequence[str], skip_own: bool
    ) -> pd.DataFrame:
        """Values of a run by query_id, a column a measure."""
        places = {name: (run.identity, test_set, name, skip_own) for name in names}
        if absent := [name for name, place in places.items() if place not in self._runs]:
            raise InputError(
                f"{self.folder}: no values of {offenders(absent)} for {run.title()}: run without it"
            )
        return pd.DataFrame({name: self._runs[place] for name, place in places.items()})

    def kept(self, name: str) -> pd.DataFrame:
        path = self.folder / VALUES / f"{name}.parquet"
        if not path.is_file():
            raise InputError(f"{self.folder}: no values {name!r}: run without it")
        return pd.read_parquet(path)
