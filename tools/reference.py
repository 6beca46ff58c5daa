"""Make the committed reference of a profile that is executed.

`python -m tools.reference --profile mini`
"""

import argparse
import fnmatch
import os
import shutil
import sys
import zipfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from interextra.site.planning import planned
from interextra.site.repository import repository_root
from interextra.site.travel import CELLS, VALUES
from interextra.store import provenance
from interextra.store.cells import Cell
from interextra.store.errors import InputError, offenders
from interextra.store.files import read_json
from interextra.store.folders import NOTES, Store
from tools.verify import MEASURED, WITHHELD


def make(
    root: Path, profile: str, only: str = "", from_reference: bool = False, places: str = ""
) -> Path:
    """Copy what a finished profile shows to outputs/reference/<profile>, and return this folder.

    Tables, figures, values, small cells and provenance.

    Parameters
    ----------
    root : the repository.
    profile : its name.
    only : numbers or names of notebooks, with commas between them; "" for all.
    from_reference : of notebooks that were executed from the committed values; these and the cells
        stay, and the provenance of the run that measured them, `measured.json`.
    places : collections of `real`, with commas between them, whose values and provenance alone are
        copied: the tables over all of them are then made from the values.

    Raises
    ------
    InputError
        A tree with changes, or a notebook that is not executed with today's code, parameters and
        collections.
    """
    _refuse_changes(provenance.commit(root))
    store = Store(root / "outputs" / "cells")
    target = root / "outputs" / "reference" / profile
    executed = planned(root, profile, only, from_reference=from_reference, places=places)
    stale = [cell.name for cell in executed if not store.valid(cell)]
    if stale:
        suffix = " --from-reference" if from_reference else ""
        suffix += f" --places {places}" if places else ""
        raise InputError(
            f"{offenders(stale)}: not executed with today's code and collections; "
            f"interextra run --profile {profile}{suffix}"
        )
    withheld = WITHHELD.get(profile, ())
    for cell in executed:
        _refuse_changed_tree(cell, store)
        into = target / cell.name
        if from_reference:
            _keep_provenance(into)
            _copy_shown(store[cell], into, withheld)
            continue
        if not places:
            shutil.rmtree(into, ignore_errors=True)
            _copy_shown(store[cell], into, withheld)
        for place, notebook in cell.by_place.items():
            if place:
                _copy_provenance(store[notebook], into / place)
            pack(store[notebook], notebook.plan, store, into / place)
    return target


def _copy_provenance(folder: Path, into: Path) -> None:
    """Copy the provenance of a notebook in one of several places into an empty folder."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    shutil.copy(folder / "provenance.json", into)


def _refuse_changes(commit: str) -> None:
    """Refuse a tree that is not at a clean commit."""
    if "+changes" in commit or commit == "unknown":
        raise InputError(
            "the tree has changes that are not committed: a reference is made from one clean commit"
        )


def _refuse_changed_tree(cell: Cell, store: Store) -> None:
    """Refuse a notebook that was executed from a tree with changes, in one of its places or all."""
    for executed in {cell, *cell.by_place.values()}:
        record = read_json(store[executed] / "provenance.json")
        if "+changes" in record["implementation"]["source"]["commit"]:
            raise InputError(
                f"{cell.name} was executed from a tree with changes: remove its cell "
                f"{executed.key}, run again"
            )


def _keep_provenance(folder: Path) -> None:
    """Set aside the provenance of the run that measured the values, if it is not yet.

    Where there are several places, each has its own.
    """
    of_places = list(folder.glob("*/provenance.json"))
    if not of_places and not (folder / MEASURED).is_file():
        os.replace(folder / "provenance.json", folder / MEASURED)


def _copy_shown(folder: Path, into: Path, withheld: Collection[str]) -> None:
    """Copy tables, figures and notes of an executed notebook, without vector graphics."""
    withheld_files = [f"{name}.*" for name in withheld]
    left_out = shutil.ignore_patterns("*.svg", "*.pdf", *withheld_files)
    for part in ("tables", "figures"):
        shutil.rmtree(into / part, ignore_errors=True)
        if (folder / part).is_dir():  # worlds has no figures
            shutil.copytree(folder / part, into / part, ignore=left_out)
    for note in ("metrics.json", "provenance.json"):
        shutil.copy(folder / note, into)


def pack(folder: Path, cells: Iterable[Cell], store: Store, into: Path) -> None:
    """Copy the values of an executed notebook, and pack the files of its cells that travel.

    They come into one archive. A cell without such files is an empty folder there: what the
    notebook made of it is among the values.

    Parameters
    ----------
    folder : of the executed notebook.
    cells : results that it was made from.
    store : where they are.
    into : a folder of the reference.
    """
    shutil.copytree(folder / VALUES, into / VALUES)
    contents = {}
    for cell in cells:
        place = f"{cell.identity}/"
        contents[place] = b""
        for name, path in _travelling(cell, store[cell]):
            contents[place + name] = path.read_bytes()
    with zipfile.ZipFile(into / CELLS, "w") as archive:
        for name, content in sorted(contents.items()):
            member = zipfile.ZipInfo(name)  # without a date: the same bytes each time
            archive.writestr(member, content, zipfile.ZIP_DEFLATED, 9)


def _travelling(cell: Cell, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and path of the files of a cell that go into the reference."""
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        name = path.relative_to(folder).as_posix()
        matching = [pattern for pattern in cell.travels if fnmatch.fnmatch(name, pattern)]
        if name in matching or (matching and name not in NOTES):
            yield name, path


def main() -> None:
    """Make the reference that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="mini")
    parser.add_argument("--only", default="", metavar="01,02", help="numbers or names of notebooks")
    parser.add_argument(
        "--from-reference", action="store_true", help="they were executed from the committed values"
    )
    parser.add_argument(
        "--places", default="", metavar="nl2bash,reddit", help="values of these collections alone"
    )
    args = parser.parse_args()
    root = repository_root()
    try:
        target = make(root, args.profile, args.only, args.from_reference, args.places)
    except InputError as error:
        sys.exit(f"tools.reference: {error}")
    print(os.path.relpath(target))


if __name__ == "__main__":
    main()
