"""The store: a folder of sealed folders, one a cell. Without a valid seal a cell does not exist.

Beside its files a cell has a note of the code that made it and all that it is made from. A result
is used where that code is today's, or where today's and the older code are both signed as computing
the same (see `store.signatures`); else it is computed again. So whoever edits a method never gets
an old number, and whoever only rewrites it signs it (`make golden`) and trains nothing again.
"""

import fcntl
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from interextra.store import provenance, signatures
from interextra.store.cells import UNREADABLE, Cell, config_of, from_config
from interextra.store.checksums import Checksums
from interextra.store.errors import InputError
from interextra.store.files import SEAL, read_json, scratch, seal, seal_problem, write_json

OUTDATED = "other code made it"
NOTES = ("config.json", "provenance.json", SEAL)  # what stands beside the results of a cell


class Cleaned(NamedTuple):
    """What `Store.clean` removed, and how many cells another process computes just now."""

    folders: int
    n_bytes: int
    being_computed: int


class Store:
    """The folder of all cells, made when needed.

    Parameters
    ----------
    root
        The folder.
    """

    # checksums are read once a process, and those of large files once: see `store.checksums`
    _valid: set[Path] = set()
    # gives values of a run without its files, where they came with a reference
    measured: Callable | None = None

    def __init__(self, root: Path | str):
        self.root = Path(root).resolve()

    def __getitem__(self, cell: Cell) -> Path:
        """Return the folder of a cell.

        Raises
        ------
        InputError
            It is not computed.
        """
        if not self.valid(cell):
            raise InputError(f"{cell.title()} ({cell.key}) is not computed; build it first")
        return self.path(cell)

    def path(self, cell: Cell) -> Path:
        """Return where the folder of a cell is or would be."""
        return self.root / cell.key

    def checkpoints(self, cell: Cell) -> Path:
        """Return where a long cell keeps what it goes on from after a kill, until it is there."""
        return self.root / "checkpoints" / cell.key

    def valid(self, cell: Cell) -> bool:
        """Whether the cell is there with a valid seal, is this cell, and its code still holds."""
        folder = self.path(cell)
        is_known = folder in self._valid and folder.is_dir()
        if not is_known and self._problem(cell):
            return False
        self._valid.add(folder)
        return True

    def is_there(self, cell: Cell) -> bool:
        """Whether the cell is there, as `valid`, but no checksum is read."""
        return (self.path(cell) / SEAL).is_file() and not self._problem_of_note(cell)

    def _problem(self, cell: Cell) -> str:
        """Return why a folder is not used for a cell; empty where it is."""
        problem = seal_problem(self.path(cell), self._checksums(cell).of)
        return problem or self._problem_of_note(cell)

    def _checksums(self, cell: Cell) -> Checksums:
        """Return the checksums of a cell's files, kept beside the cells."""
        return Checksums(self.root / "checksums" / f"{cell.key}.json")

    def _problem_of_note(self, cell: Cell) -> str:
        """Return why the note of a folder is not that of a cell, made by code that still holds."""
        note = self.noted(self.path(cell) / "config.json")
        if note.get("key") != cell.key:
            return "it is another cell"
        codes = note.get("code")
        if not isinstance(codes, dict):
            return "it has no note of its code"
        for key, code_of_today in cell.code_behind.items():
            if not signatures.same(codes.get(key), code_of_today):
                return OUTDATED
        return ""

    def noted(self, path: Path) -> dict:
        """Return the values in a file of JSON, such as a cell's config.json; {} if unreadable."""
        try:
            note = read_json(path)
        except (OSError, ValueError):
            return {}
        return note if isinstance(note, dict) else {}

    def plan(self, cell: Cell) -> None:
        """Note the cell, so that `interextra cell KEY` can build it.

        A damaged note is written again.
        """
        path = self._plan_of(cell.key)
        if self.noted(path).get("key") != cell.key:
            write_json(path, {"key": cell.key, "config": config_of(cell)})

    def _plan_of(self, key: str) -> Path:
        """Return where a planned cell is noted."""
        return self.root / "planned" / f"{key}.json"

    def planned(self) -> list[Cell]:
        """Return all cells that were planned and still have the key of their note."""
        notes = sorted(self.root.glob("planned/*.json"))
        cells = [self._read(note.stem) for note in notes]
        return [cell for cell in cells if cell is not None]

    def cell(self, key: str) -> Cell:
        """Return a planned cell.

        Raises
        ------
        InputError
            None has this key, or what it needs has another key by now.
        """
        cell = self._read(key)
        if cell is None:
            raise InputError(
                f"no cell {key!r} is planned in {self.root}: run `interextra plan` (again, if code "
                "changed)"
            )
        return cell

    def _read(self, key: str) -> Cell | None:
        """Return a planned cell; None where its note cannot be read or has another key by now."""
        note = self.noted(self._plan_of(key))
        try:
            cell = from_config(note["config"])
            return cell if isinstance(cell, Cell) and cell.key == key else None
        except UNREADABLE:
            return None

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """Return what must be computed, each cell after what it needs.

        What a finished cell was made from (weights) may be gone.
        """
        found: dict[str, Cell] = {}

        def visit(cell: Cell) -> None:
            """Add a cell that is missing after what it needs."""
            if cell.key not in found and not self.valid(cell):
                for needed in cell.needs():
                    visit(needed)
                found[cell.key] = cell

        for cell in cells:
            visit(cell)
        return list(found.values())

    def build(self, cell: Cell) -> Path:
        """Return the cell's folder, built first (with what it needs) where it is not valid."""
        for needed in self.missing([cell]):
            self.plan(needed)
            with self._locked(needed.key):
                if not self.valid(needed):  # else another process built it while this one waited
                    self._put_aside(needed)
                    self._build(needed)
        return self.path(cell)

    @contextmanager
    def _locked(self, key: str, wait: bool = True) -> Iterator[bool]:
        """Hold the lock of a cell; False where another process holds it, unless `wait`."""
        path = self.root / "locks" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        operation = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
        with open(path, "w") as file:
            try:
                fcntl.flock(file, operation)
                is_ours = True
            except BlockingIOError:
                is_ours = False
            yield is_ours

    def _build(self, cell: Cell) -> None:
        """Build a cell aside, note and seal it, put it into its place; under the cell's lock."""
        with scratch(self.root / "building" / cell.key) as aside:
            begin = time.perf_counter()
            cell.build(aside, self)
            seconds = round(time.perf_counter() - begin, 3)
            note = {"key": cell.key, "code": cell.code_behind, "config": config_of(cell)}
            write_json(aside / "config.json", note)
            if not (aside / "provenance.json").exists():
                repository = self.root.parent.parent
                record = provenance.record(repository, seconds=seconds)
                write_json(aside / "provenance.json", record)
            seal(aside, self._checksums(cell).of)
            os.replace(aside, self.path(cell))
        self._valid.add(self.path(cell))
        shutil.rmtree(self.checkpoints(cell), ignore_errors=True)

    def _put_aside(self, cell: Cell) -> None:
        """Rename what stands in the cell's place without being valid, under its lock.

        It may be read just now.
        """
        folder = self.path(cell)
        if not folder.exists() or not any(folder.iterdir()):  # a workflow engine makes an empty one
            return
        problem = self._problem(cell)
        now = time.time_ns()
        aside = self.root / "aside" / f"{cell.key}.{now}"
        aside.parent.mkdir(parents=True, exist_ok=True)
        os.replace(folder, aside)
        if problem != OUTDATED:
            message = (
                f"cell {cell.key} is damaged ({problem}): put aside under aside/, computed again"
            )
            print(message, file=sys.stderr)

    def clean(self) -> Cleaned:
        """Remove stepping stones that no planned cell needs, older code's cells, and scraps.

        Scraps are what was put aside or is half built, and checkpoints of what is not planned.
        Where another process computes a cell, only what was put aside or is half built goes: it may
        need any of the others, and may have been started before the code changed.
        """
        n_bytes = _remove(self.root / "aside")
        being_computed = 0
        for folder in self.root.glob("building/*"):
            with self._locked(folder.name, wait=False) as is_ours:
                if is_ours:
                    n_bytes += _remove(folder)
                else:
                    being_computed += 1
        if being_computed:
            return Cleaned(0, n_bytes, being_computed)

        planned = self.planned()
        kept = self._kept(planned)
        folders = [path.parent for path in self.root.glob("*/config.json")]
        outdated = [folder for folder in folders if folder.name not in kept]
        for folder in outdated:
            n_bytes += _remove(folder)
        n_bytes += self._remove_notes({cell.key for cell in planned}, kept)
        return Cleaned(len(outdated), n_bytes, 0)

    def _remove_notes(self, planned: set[str], kept: set[str]) -> int:
        """Remove what stands beside the cells for others than these; return the bytes of it."""
        n_bytes = 0
        for path in self.root.glob("planned/*.json"):
            if path.stem not in planned:
                path.unlink()
        for folder in self.root.glob("checkpoints/*"):
            if folder.name not in planned:
                n_bytes += _remove(folder)
        for path in self.root.glob("checksums/*.json"):
            if path.stem not in kept:
                path.unlink()
        return n_bytes

    def _kept(self, planned: list[Cell]) -> set[str]:
        """Return the keys of the cells that are valid, and of use for those that are planned."""
        useful = [cell for cell in planned if not cell.is_stepping_stone]
        for cell in self.missing(planned):
            useful += cell.needs()
        return {cell.key for cell in useful if self.valid(cell)}


def _remove(folder: Path) -> int:
    """Remove a folder, if there is one; return the bytes of its files."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    n_bytes = sum(path.stat().st_size for path in files)
    shutil.rmtree(folder, ignore_errors=True)
    return n_bytes
