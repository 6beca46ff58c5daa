"""Makes the committed reference of a profile that is executed: `python -m tools.reference --profile
mini`.
"""

import argparse
import fnmatch
import json
import os
import shutil
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

from interextra.site.repository import repository_root
from interextra.site.travel import CELLS, VALUES
from interextra.site.worlds import planned
from interextra.store import provenance
from interextra.store.cells import Cell
from interextra.store.errors import InputError, offenders
from interextra.store.folders import NOTES, Store
from tools.verify import MEASURED, WITHHELD


def make(root: Path, profile: str, only: str = "", from_reference: bool = False) -> Path:
    """Copy tables, figures, values, small cells and provenance of a finished profile to
    outputs/reference/<profile>.

    `from_reference`: of notebooks that were executed from the committed values; these and the cells
    stay, and the provenance of the run that measured them, `measured.json`.

    InputError: a tree with changes, or a notebook that is not executed with today's code,
    parameters and collections.
    """
    if "+changes" in provenance.commit(root) or provenance.commit(root) == "unknown":
        raise InputError(
            "the tree has changes that are not committed: a reference is made from one clean commit"
        )
    store, target = Store(root / "outputs" / "cells"), root / "outputs" / "reference" / profile
    found = {
        cell.name: cell for cell in planned(root, profile, only, from_reference=from_reference)
    }
    if stale := offenders(name for name, notebook in found.items() if not store.valid(notebook)):
        how = f"interextra run --profile {profile}{' --from-reference' * from_reference}"
        raise InputError(f"{stale}: not executed with today's code and collections; {how}")
    left_out = shutil.ignore_patterns(
        "*.svg", "*.pdf", *(f"{name}.*" for name in WITHHELD.get(profile, ()))
    )
    for name, notebook in found.items():
        folder, into = store[notebook], target / name
        record = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
        if "+changes" in record["implementation"]["source"]["commit"]:
            raise InputError(
                f"{name} was executed from a tree with changes: remove its cell {notebook.key}, run again"
            )
        if not from_reference:
            shutil.rmtree(into, ignore_errors=True)
        elif not (into / MEASURED).is_file():
            os.replace(into / "provenance.json", into / MEASURED)
        for part in ("tables", "figures"):
            shutil.rmtree(into / part, ignore_errors=True)
            if (folder / part).is_dir():  # worlds has no figures
                shutil.copytree(folder / part, into / part, ignore=left_out)
        for note in ("metrics.json", "provenance.json"):
            shutil.copy(folder / note, into)
        for place, run in ({} if from_reference else notebook.by_place).items():
            pack(store[run], run.plan, store, into / place)
    return target


def pack(folder: Path, cells: Iterable[Cell], store: Store, into: Path) -> None:
    """Copy the values of an executed notebook, and the files of its cells that travel, into one
    archive.

    A cell without such files is an empty folder there: what the notebook made of it is among the
    values.
    """
    shutil.copytree(folder / VALUES, into / VALUES)
    members: dict[str, Path | None] = {}
    for cell in cells:
        members[f"{cell.identity}/"] = None
        for path in filter(Path.is_file, store[cell].rglob("*")):
            name = path.relative_to(store[cell]).as_posix()
            is_named = any(fnmatch.fnmatch(name, pattern) for pattern in cell.travels)
            if is_named and (name not in NOTES or name in cell.travels):
                members[f"{cell.identity}/{name}"] = path
    with zipfile.ZipFile(into / CELLS, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(members.items()):  # a ZipInfo has no date
            archive.writestr(
                zipfile.ZipInfo(name), path.read_bytes() if path else b"", zipfile.ZIP_DEFLATED, 9
            )


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--profile", default="mini")
    asked.add_argument("--only", default="", metavar="01,02", help="numbers or names of notebooks")
    asked.add_argument(
        "--from-reference", action="store_true", help="they were executed from the committed values"
    )
    given = asked.parse_args()
    try:
        print(
            os.path.relpath(
                make(repository_root(), given.profile, given.only, given.from_reference)
            )
        )
    except InputError as error:
        sys.exit(f"tools.reference: {error}")
