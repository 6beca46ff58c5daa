"""Verify the committed reference, from its values and from nothing.

`tools/reference.py` makes it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from interextra.site.planning import planned
from interextra.site.travel import CELLS
from interextra.store.errors import InputError, offenders
from interextra.store.files import read_json

# Profile → tables and figures with texts of real queries, which are not ours to pass on: no part
# of its reference.
WITHHELD = {
    "small": ("duplicates", "passages_tsne", "passages_pca"),
    "real": ("clusters",),
}
MEASURED = "measured.json"  # provenance of the values, where the tables were made from them later
# Relative difference allowed to a number that follows from a training, on the same kind of
# processor; on another kind to one that follows from none: there products of matrices round
# differently
ROUNDING = 1e-6
PRINTED = 1e-9  # relative difference that is always allowed: a table holds 10 digits
# share of a table's rows that may leave the reference's 95 % intervals on another kind of processor
OUTSIDE = 0.05
COLUMNS = ["notebook", "table", "rows", "largest_difference", "other_verdicts", "problem"]


class Difference(NamedTuple):
    """Largest relative difference of two tables' numbers, and what is wrong ("" for nothing)."""

    largest: float
    problem: str


def verify(root: Path, profile: str, only: str) -> pd.DataFrame:
    """Run a profile in a folder of its own, and compare every table with the reference.

    It is run from the committed values, and then from an empty store. A profile without values is
    compared with a run from nothing only.

    Parameters
    ----------
    root : the repository.
    profile : its name.
    only : numbers or names of notebooks, with commas between them; "" for all.

    Returns
    -------
    DataFrame[made_from, notebook, table, rows, largest_difference, other_verdicts, problem]
        No problem: it agrees. other_verdicts: number of rows, on another kind of processor.

    Raises
    ------
    InputError
        The reference lacks a notebook, or a run fails.
    """
    reference = root / "outputs" / "reference" / profile
    names = [cell.name for cell in planned(root, profile, only)]
    _refuse_without_reference(names, reference)
    house = root / "outputs" / f"verify-{profile}"
    _furnish(house, root)
    command = ["run", "--profile", profile, "--only", only, "--no-book"]
    measured = {"nothing": house / "outputs" / profile}
    without_values = [name for name in names if not any((reference / name).rglob(CELLS))]
    if not without_values:
        _run(house, [*command, "--from-reference"])
        from_values = house / "outputs" / f"{profile}-from-reference"
        measured = {"values": from_values} | measured
    _run(house, command)
    withheld = WITHHELD.get(profile, ())
    tables = []
    for made_from, folder in measured.items():
        for name in names:
            table = compared(name, reference, folder, withheld)
            table.insert(0, "made_from", made_from)
            tables.append(table)
    return pd.concat(tables, ignore_index=True)


def _refuse_without_reference(names: list[str], reference: Path) -> None:
    """Refuse notebooks of which the reference has no folder."""
    absent = [name for name in names if not (reference / name).is_dir()]
    if absent:
        raise InputError(
            f"outputs/reference/{reference.name} has no {offenders(absent)}: "
            "nothing to compare with"
        )


def _furnish(house: Path, root: Path) -> None:
    """Make a folder anew with what a run of a profile needs."""
    shutil.rmtree(house, ignore_errors=True)
    for part in ("notebooks", "params", "outputs/reference"):
        if (root / part).is_dir():
            shutil.copytree(root / part, house / part)


def _run(house: Path, arguments: list[str]) -> None:
    """Run `interextra` in a folder, with an empty store."""
    shutil.rmtree(house / "outputs" / "cells", ignore_errors=True)
    command = [sys.executable, "-m", "interextra.cli", *arguments]
    environment = os.environ | {"INTEREXTRA_CACHE": str(house / "cache")}
    if subprocess.run(command, cwd=house, env=environment).returncode:
        raise InputError(f"the run in {os.path.relpath(house)} failed: see above")


def compared(
    name: str, reference: Path, measured: Path, withheld: Collection[str] = ()
) -> pd.DataFrame:
    """Return the tables of one notebook beside those of the reference, a row a table.

    Parameters
    ----------
    name : of the notebook.
    reference, measured : folders with a folder for each notebook.
    withheld : tables that are left out.

    Returns
    -------
    DataFrame[notebook, table, rows, largest_difference, other_verdicts, problem]
        See `verify`.
    """
    reference_folder = reference / name
    measured_folder = measured / name
    record = read_json(reference_folder / "provenance.json")
    untrained = set(record["method"]["untrained tables"])
    is_same_processor = _processor(reference_folder) == _processor(measured_folder)
    tables = _tables(reference_folder) | _tables(measured_folder)
    rows = []
    for table in sorted(tables.difference(withheld)):
        old = _read_table(reference_folder, table)
        new = _read_table(measured_folder, table)
        allowed = _allowed(table in untrained, is_same_processor)
        largest, problem = difference_of(old, new, allowed)
        n_verdicts = 0 if problem else _n_other_verdicts(old, new)
        rows.append((name, table, len(new), largest, n_verdicts, problem))
    return pd.DataFrame(rows, columns=COLUMNS)


def _tables(folder: Path) -> set[str]:
    """Return the names of the tables of a notebook."""
    return {path.stem for path in folder.glob("tables/*.csv")}


def _processor(folder: Path) -> str:
    """Return the kind of processor that measured the values of a notebook; of places, all kinds."""
    notes = [folder / MEASURED, *folder.glob("*/provenance.json")]
    there = [note for note in notes if note.is_file()] or [folder / "provenance.json"]
    kinds = {read_json(note)["platform"]["hardware"]["processor"] for note in there}
    return ", ".join(sorted(kinds))


def _read_table(folder: Path, table: str) -> pd.DataFrame:
    """Return a table of a notebook; an empty one if it is not there."""
    path = folder / "tables" / f"{table}.csv"
    return pd.read_csv(path) if path.is_file() else pd.DataFrame()


def _n_other_verdicts(reference: pd.DataFrame, measured: pd.DataFrame) -> int:
    """Return in how many rows two tables of one shape have another verdict."""
    if "verdict" not in reference:
        return 0
    old = reference["verdict"].astype(object).fillna("")
    new = measured["verdict"].astype(object).fillna("")
    return int((old != new).sum())


def _allowed(is_untrained: bool, is_same_processor: bool) -> float | None:
    """Return the relative difference that the numbers of a table may have, see `difference_of`."""
    if is_untrained:
        return 0.0 if is_same_processor else ROUNDING
    return ROUNDING if is_same_processor else None


def difference_of(
    reference: pd.DataFrame, measured: pd.DataFrame, allowed: float | None
) -> Difference:
    """Return how far two tables are apart.

    Parameters
    ----------
    reference, measured : the tables.
    allowed : relative difference that a number may have. None, for what is trained on another kind
        of processor: at least 95 % of the numbers beside an interval (columns low and high) must
        lie inside the reference's, and none farther from it than it is wide. Its other numbers, and
        the verdicts that follow from them, are not judged.
    """
    numbers = _numbers(reference, measured)
    problem = _other_content(reference, measured, numbers, allowed)
    if problem:
        return Difference(float("nan"), problem)
    relative = _relative_differences(reference[numbers], measured[numbers])
    largest = float(relative.max(initial=0.0))
    if allowed is not None:
        # NaN is too large, too
        if not largest <= max(allowed, PRINTED):
            problem = _largest_difference(relative, reference[numbers], measured[numbers])
    elif "low" in numbers and "high" in numbers:
        effect = numbers[numbers.index("low") - 1]
        problem = _outside(reference, measured, effect)
    return Difference(largest, problem)


def _other_content(
    reference: pd.DataFrame, measured: pd.DataFrame, numbers: list[str], allowed: float | None
) -> str:
    """Return in which columns, rows or texts two tables differ; "" for none."""
    has_same_columns = reference.columns.equals(measured.columns)
    if not has_same_columns or len(reference) != len(measured):
        return f"columns or rows differ: {reference.shape} and {measured.shape}"
    texts = [column for column in reference if column not in numbers]
    if allowed is None:
        texts = [column for column in texts if column in ("model", "measure")]
    return _other_text(reference[texts], measured[texts])


def _numbers(reference: pd.DataFrame, measured: pd.DataFrame) -> list[str]:
    """Return the columns that hold numbers in both tables."""
    numbers = reference.select_dtypes("number").columns
    return list(numbers.intersection(measured.select_dtypes("number").columns))


def _other_text(reference: pd.DataFrame, measured: pd.DataFrame) -> str:
    """Return the first text that differs between two tables; "" for none."""
    old_texts = reference.astype(str).fillna("")
    is_other = old_texts != measured.astype(str).fillna("")
    for column in reference:
        if is_other[column].any():
            row = is_other[column].idxmax()
            old = reference.loc[row, column]
            new = measured.loc[row, column]
            return _at(column, row, old, new)
    return ""


def _at(column: str, row: int, old: object, new: object) -> str:
    """Return where two tables differ, and their values there."""
    return f"{column}, row {row + 1}: {old} ≠ {new}"


def _relative_differences(reference: pd.DataFrame, measured: pd.DataFrame) -> np.ndarray:
    """Return the differences of numbers by the reference's; 0 where both are undefined."""
    old = reference.to_numpy(float)
    new = measured.to_numpy(float)
    sizes = np.where(old == 0, 1.0, np.abs(old))
    are_undefined = np.isnan(old) & np.isnan(new)
    differences = np.abs(new - old)
    return np.where(are_undefined, 0.0, differences / sizes)


def _largest_difference(
    relative: np.ndarray, reference: pd.DataFrame, measured: pd.DataFrame
) -> str:
    """Return where two tables are farthest apart; undefined is farther than any number."""
    place = np.nan_to_num(relative, nan=np.inf).argmax()
    row, column = np.unravel_index(place, relative.shape)
    old = f"{reference.iloc[row, column]:.10g}"
    new = f"{measured.iloc[row, column]:.10g}"
    return _at(reference.columns[column], row, old, new)


def _outside(reference: pd.DataFrame, measured: pd.DataFrame, effect: str) -> str:
    """Return where too many effects lie outside the reference's intervals, or one too far."""
    low = reference["low"]
    high = reference["high"]
    values = measured[effect]
    has_interval = low.notna()
    is_equal = values == reference[effect]
    is_outside = has_interval & ~values.between(low, high) & ~is_equal
    distance = (values - (low + high) / 2).abs()
    is_far = is_outside & (distance > 1.5 * (high - low))
    n_outside = is_outside.sum()
    n_intervals = has_interval.sum()
    if n_outside <= OUTSIDE * n_intervals and not is_far.any():
        return ""
    row = is_outside.idxmax() + 1
    where = f"{effect}, row {row} and {n_outside} of {n_intervals} in all"
    return f"{where}: outside the reference's interval"
