"""What travels with a reference: values per query and small cells.

So notebooks run without a trained model.

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
# columns of RUNS beside the labels: the run, and whether own passages count
RUN, SKIPS = "run_identity", "skips_own"
MEMBER = re.compile(r"[0-9a-f]{20}(/|(/[\w .@-]+)+)")  # identity of a cell, then a file of it
PLACE = [RUN, "test_set", "measure", SKIPS]


def _is_member(name: str) -> bool:
    """Whether a name in CELLS is that of a file of a cell, which leads nowhere else."""
    return ".." not in name and MEMBER.fullmatch(name) is not None


def write_runs(path: Path, parts: Sequence[pd.DataFrame]) -> None:
    """Write the values of several designs, as `Session.measure` has them, in one file.

    Its column `design` says which of them.
    """
    numbered = [part.assign(design=number) for number, part in enumerate(parts)]
    table = pd.concat(numbered, ignore_index=True)
    for name in table.select_dtypes(exclude="number").columns.drop(SKIPS):
        texts = table[name].map(str, na_action="ignore")
        table[name] = texts.astype("category")
    table.to_parquet(path, index=False, compression="zstd")


class Reference(Store):
    """Committed cells and values; the others, if untrained, are computed.

    Parameters
    ----------
    folder
        Of a notebook under outputs/reference.
    root
        Where cells are computed.
    """

    def __init__(self, folder: Path, root: Path):
        super().__init__(root)
        self.folder = folder
        self._unpacked = tempfile.TemporaryDirectory()
        with zipfile.ZipFile(folder / CELLS) as archive:
            wrong = [name for name in archive.namelist() if not _is_member(name)]
            if wrong:
                raise InputError(
                    f"{folder / CELLS}: {offenders(wrong)} is no file of a cell; get the archive "
                    "again"
                )
            archive.extractall(self._unpacked.name)

    def path(self, cell: Cell) -> Path:
        """Return the folder of a cell: the committed one, or where it is computed."""
        committed = self._committed(cell)
        return committed if committed.is_dir() else super().path(cell)

    def _committed(self, cell: Cell) -> Path:
        return Path(self._unpacked.name) / cell.identity

    def valid(self, cell: Cell) -> bool:
        """Whether a cell is committed, or computed."""
        return self._committed(cell).is_dir() or super().valid(cell)

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """Return what must be computed.

        Raises
        ------
        InputError
            Models would have to be trained.
        """
        missing = super().missing(cells)
        trained = [cell.title() for cell in missing if isinstance(cell, Model)]
        if trained:
            raise InputError(
                f"{self.folder}: {len(trained)} models would have to be trained "
                f"({offenders(trained)}): the reference has other parameters or is older than this "
                "notebook; run without it"
            )
        return missing

    @cached_property
    def _values(self) -> dict[tuple, pd.Series]:
        """(run, test set, measure, skips_own) → value by query_id."""
        table = pd.read_parquet(self.folder / RUNS)
        once = table.drop_duplicates([*PLACE, "query_id"]).astype({"query_id": object})
        parts = once.groupby(PLACE, sort=False, observed=True)
        return {place: part.set_index("query_id")["value"] for place, part in parts}

    def measured(
        self, run: Cell, test_set: str, names: Sequence[str], skip_own: bool
    ) -> pd.DataFrame:
        """Return committed values of a run by query_id, a column a measure.

        Raises
        ------
        InputError
            There are none of a measure.
        """
        values = {}
        absent = []
        for name in names:
            place = (run.identity, test_set, name, skip_own)
            if place in self._values:
                values[name] = self._values[place]
            else:
                absent.append(name)
        if absent:
            what = f"{offenders(absent)} for {run.title()}"
            raise InputError(f"{self.folder}: no values of {what}: run without it")
        return pd.DataFrame(values)

    def kept(self, name: str) -> pd.DataFrame:
        """Return what `Session.kept` computed.

        Raises
        ------
        InputError
            It is not there.
        """
        path = self.folder / VALUES / f"{name}.parquet"
        if not path.is_file():
            raise InputError(f"{self.folder}: no values {name!r}: run without it")
        return pd.read_parquet(path)
