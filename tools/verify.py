"""The committed reference, verified: from its values and from nothing (`tools/reference.py` makes
it).
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.site.travel import CELLS
from interextra.site.worlds import planned
from interextra.store.errors import InputError, offenders

# : Profile → tables and figures with texts of real queries, which are not ours to pass on: no part
# of its reference.
WITHHELD = {"small": ("duplicates", "passages_tsne", "passages_pca")}
MEASURED = "measured.json"  # provenance of the values, where the tables were made from them later
# Relative difference allowed to a number that follows from a training, on the same kind of
# processor; on another kind to one that follows from none: there products of matrices round
# differently
ROUNDING = 1e-6
# share of a table's rows that may leave the reference's 95 % intervals on another kind of processor
OUTSIDE = 0.05


def verify(root: Path, profile: str, only: str) -> pd.DataFrame:
    """Run a profile in a folder of its own, from the committed values and then from an empty store,
    and compare every table with the reference. One without values is compared with a run from
    nothing only.

    Returns DataFrame[made_from, notebook, table, rows, largest_difference, other_verdicts,
    problem]; no problem: it agrees. other_verdicts: of rows, on another kind of processor.
    """
    house, reference = (
        root / "outputs" / f"verify-{profile}",
        root / "outputs" / "reference" / profile,
    )
    names = [cell.name for cell in planned(root, profile, only)]
    if absent := [name for name in names if not (reference / name).is_dir()]:
        raise InputError(
            f"outputs/reference/{profile} has no {offenders(absent)}: nothing to compare with"
        )
    shutil.rmtree(house, ignore_errors=True)
    for part in ("notebooks", "params", f"outputs/reference/{profile}", "outputs/reference/small"):
        if (root / part).is_dir() and not (house / part).is_dir():
            shutil.copytree(root / part, house / part)
    command = [sys.executable, "-m", "interextra.cli", "run", "--profile", profile, "--only", only]
    environment, parts = os.environ | {"INTEREXTRA_CACHE": str(house / "cache")}, {}
    ways = (
        {"values": "--from-reference"}
        if all(any((reference / name).rglob(CELLS)) for name in names)
        else {}
    )
    for way, option in (ways | {"nothing": ""}).items():
        shutil.rmtree(house / "outputs" / "cells", ignore_errors=True)
        if subprocess.run(
            [*command, *filter(None, [option])], cwd=house, env=environment
        ).returncode:
            raise InputError(f"the run in {os.path.relpath(house)} failed: see above")
        measured = house / "outputs" / f"{profile}{option.removeprefix('-')}"
        parts[way] = pd.concat(
            compared(name, reference, measured, WITHHELD.get(profile, ())) for name in names
        )
    return pd.concat(parts, names=["made_from"]).reset_index("made_from").reset_index(drop=True)


def compared(
    name: str, reference: Path, measured: Path, withheld: Collection[str] = ()
) -> pd.DataFrame:
    """The tables of one notebook beside those of the reference but for `withheld`, a row a table;
    see `verify`.
    """
    notes = [folder / name / "provenance.json" for folder in (reference, measured)]
    records = [json.loads(note.read_text()) for note in notes]
    made = [
        json.loads(path.read_text())
        for note in notes
        if (path := note.with_name(MEASURED)).is_file()
    ]
    same_processor = (
        len(
            {
                one["platform"]["hardware"]["processor"]
                for one in (made or records[:1]) + records[1:]
            }
        )
        == 1
    )
    untrained = set(records[0]["method"]["untrained tables"])
    names = sorted(
        {
            path.stem
            for folder in (reference, measured)
            for path in folder.glob(f"{name}/tables/*.csv")
        }
    )
    rows = []
    for table in [table for table in names if table not in withheld]:
        paths = [folder / name / "tables" / f"{table}.csv" for folder in (reference, measured)]
        pair = [pd.read_csv(path) if path.is_file() else pd.DataFrame() for path in paths]
        exact = table in untrained
        allowed = (0.0 if exact else ROUNDING) if same_processor else ROUNDING if exact else None
        largest, problem = difference_of(*pair, allowed)
        other = 0
        if not problem and "verdict" in pair[0]:
            other = int(
                np.not_equal(*(frame["verdict"].astype(object).fillna("") for frame in pair)).sum()
            )
        rows.append((name, table, len(pair[1]), largest, other, problem))
    columns = ["notebook", "table", "rows", "largest_difference", "other_verdicts", "problem"]
    return pd.DataFrame(rows, columns=columns)


def difference_of(
    reference: pd.DataFrame, measured: pd.DataFrame, allowed: float | None
) -> tuple[float, str]:
    """Largest relative difference of two tables' numbers, and what is wrong ("" for nothing).

    `allowed` is the relative difference that a number may have; None, for what is trained on
    another kind of processor: at least 95 % of the numbers beside an interval (columns low and
    high) must lie inside the reference's, and none farther from it than it is wide. Its other
    numbers, and the verdicts that follow from them, are not judged.
    """
    if list(reference) != list(measured) or len(reference) != len(measured):
        return float("nan"), f"columns or rows differ: {reference.shape} and {measured.shape}"
    numbers = reference.select_dtypes("number").columns.intersection(
        measured.select_dtypes("number").columns
    )
    for column in reference.columns.difference(numbers, sort=False):
        unequal = reference[column].astype(str).fillna("") != measured[column].astype(str).fillna(
            ""
        )
        if unequal.any() and (allowed is not None or column in ("model", "measure")):
            first = unequal.idxmax()
            return float(
                "nan"
            ), f"{column}, row {first + 1}: {reference[column][first]} ≠ {measured[column][first]}"
    old, new = (frame[numbers].to_numpy(float) for frame in (reference, measured))
    apart = np.abs(new - old)
    relative = np.where(
        np.isnan(old) & np.isnan(new), 0.0, apart / np.where(old == 0, 1.0, np.abs(old))
    )
    largest = float(relative.max(initial=0.0))
    if allowed is None and {"low", "high"} <= set(numbers):
        effect = numbers[numbers.get_loc("low") - 1]
        inside = measured[effect].between(reference["low"], reference["high"]) | measured[
            effect
        ].eq(reference[effect])
        outside = (~inside)[reference["low"].notna()]
        low, high = reference["low"], reference["high"]
        far = (measured[effect] - (low + high) / 2).abs() > 1.5 * (high - low)
        if outside.sum() > OUTSIDE * len(outside) or far[outside[outside].index].any():
            where = (
                f"{effect}, row {outside.idxmax() + 1} and {outside.sum()} of {len(outside)} in all"
            )
            return largest, f"{where}: outside the reference's interval"
    if allowed is not None and not largest <= max(
        allowed, 1e-9
    ):  # a table holds 10 digits; NaN is too large
        row, column = np.unravel_index(
            np.nanargmax(np.nan_to_num(relative, nan=np.inf)), relative.shape
        )
        return (
            largest,
            f"{numbers[column]}, row {row + 1}: {old[row, column]:.10g} ≠ {new[row, column]:.10g}",
        )
    return largest, ""
