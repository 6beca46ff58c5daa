"""Cells of older code: taken over where a recomputed sample is byte-equal, or cleaned away."""

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from interextra.ground.cells import NOTES, Cell, Store, config_of
from interextra.ground.files import checksums, digest, seal_problem, write_json
from interextra.models.model import Model
from interextra.models.recipe import make_recipe

SAMPLE = 2  # cells of each kind that are recomputed
RECIPE_OF_MODEL = "weights/model.json"


def adopt(store: Store, cells: Iterable[Cell]) -> Counter:
    """Take over the results of older code for what is missing of these cells.

    Of each kind (and architecture) the first `SAMPLE` cells are computed with today's code. Only where all their files
    equal those of the older cell of the same configuration, byte for byte, the rest of the kind is taken over; the
    provenance of a cell that was taken over says so. Returns counts of (kind, recomputed | adopted | differs).
    """
    older = {digest(note["config"]): folder for folder in store.root.glob("*/config.json") for note in [_noted(folder)]}
    equal, counts = Counter(), Counter()
    for cell in store.missing(cells):
        kind = (type(cell).__name__, cell.modules())
        folder = older.get(digest(config_of(cell)), Path()).parent
        if store.valid(cell) or equal[kind] < 0 or seal_problem(folder):
            continue
        if equal[kind] < SAMPLE:
            same = results(store.build(cell)) == results(folder)
            equal[kind] = equal[kind] + 1 if same else -1
            counts[kind[0], "recomputed" if same else "differs"] += 1
        else:
            with store.lock(cell.key):
                if not store.valid(cell):  # else another process built it while this one waited
                    _take(store, cell, folder)
                    counts[kind[0], "adopted"] += 1
    return counts


def _take(store: Store, cell: Cell, folder: Path) -> None:
    aside = store.root / "building" / f"{cell.key}.adopted"
    shutil.copytree(folder, aside, dirs_exist_ok=True)
    note = json.loads((aside / "provenance.json").read_text(encoding="utf-8"))
    write_json(aside / "provenance.json", note | {"adopted": {"from": folder.name, "equal sample": SAMPLE}})
    store.finish(cell, aside)


def _noted(path: Path) -> dict:
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        note = {}
    return note if "config" in note else {"config": path.parent.name}


def results(folder: Path) -> dict[str, str]:
    """Checksums of the results in a cell's folder, without the notes about it.

    A recipe written before it had a parameter equals one that has it at its default.
    """
    found = {name: sum_ for name, sum_ in checksums(folder).items() if name not in NOTES}
    for name in found.keys() & {RECIPE_OF_MODEL}:
        note = json.loads((folder / name).read_text(encoding="utf-8"))
        found[name] = digest(note | {"recipe": config_of(make_recipe(note["recipe"], source=str(folder / name)))})
    return found


def clean(store: Store) -> tuple[int, int]:
    """Remove the weights that no planned run still needs, cells of older code, and what is damaged or half built.

    Returns (folders removed, bytes freed).
    """
    planned = store.planned()
    needed = {cell.key for cell in store.missing(planned)} | {
        need.key for cell in store.missing(planned) for need in cell.needs()
    }
    models = {cell.key for cell in planned if isinstance(cell, Model)} - needed
    kept = {cell.key for cell in planned} - models | needed
    gone = [path for path in store.root.glob("*/config.json") if path.parent.name not in kept]
    folders = [path.parent for path in gone] + [store.root / name for name in ("damaged", "building")]
    notes = [path for path in store.root.glob("planned/*.json") if path.stem not in {cell.key for cell in planned}]
    freed = sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    for path in notes:
        path.unlink()
    return len(gone), freed
