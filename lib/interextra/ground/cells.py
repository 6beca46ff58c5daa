"""Cells: results in content-addressed folders, the unit of compute. Without a valid seal a cell does not exist.

A cell is named by its configuration, by the cells that it needs and by the code behind it. It is built in a folder
aside and renamed when its seal (a checksum of every file) is written, so that a killed process leaves nothing that
could be taken for a result. A lock per key makes a second process wait instead of computing the same cell; the lock
vanishes with its process.
"""

import fcntl
import importlib
import json
import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from interextra.ground import code, provenance
from interextra.ground.errors import InputError
from interextra.ground.files import digest, seal, seal_problem, write_json

NOTES = ("config.json", "provenance.json", "seal.json")  # what stands beside the results of a cell


class Cell(BaseModel, ABC):
    """A result that is kept. Its fields are its configuration, and the cells among them are what it needs.

    A kind of cell says in `build` which files it writes, in `seconds` what that costs one core, in `title` what a
    reader calls it, and in `modules` whose code decides its result.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    @abstractmethod
    def build(self, folder: Path, store: "Store") -> None:
        """Write the files of the cell into an empty folder; `store[needed]` is the folder of a cell that it needs.

        The same cell must give the same bytes: no seconds and no dates.
        """

    def title(self) -> str:
        return type(self).__name__

    def seconds(self) -> float:
        """Estimated seconds of one core."""
        return 1.0

    def megabytes(self) -> float:
        """Estimated size on disk."""
        return 0.0

    def modules(self) -> tuple[str, ...]:
        """Modules whose code, with all that they import from this package, decides the result."""
        return (type(self).__module__,)

    def needs(self) -> tuple["Cell", ...]:
        """The cells that must be there first, each once."""
        return tuple(
            {cell.key: cell for name in type(self).model_fields for cell in nested(getattr(self, name))}.values()
        )

    @cached_property
    def code(self) -> str:
        """Digest of the code behind this kind of cell."""
        return digest(code.behind(self.modules()))

    @cached_property
    def key(self) -> str:
        """Name of the cell: 20 hex digits of its configuration, the keys of the cells it needs, and its code."""
        return digest([config_of(self, lambda cell: cell.key), self.code])

    def __hash__(self) -> int:
        return hash(self.key)


def nested(value: Any) -> Iterator[Cell]:
    """The outermost cells in a value of a field."""
    if isinstance(value, Cell):
        yield value
    elif isinstance(value, BaseModel):
        yield from nested([getattr(value, name) for name in type(value).model_fields])
    elif isinstance(value, tuple | list):
        for item in value:
            yield from nested(item)
    elif isinstance(value, dict):
        yield from nested(list(value.values()))


def config_of(value: Any, inner: Callable[[Cell], Any] | None = None) -> Any:
    """Plain JSON of a cell or of any of its values; fields at their default are left out.

    `inner` replaces each cell inside the value (the key of a cell names the cells inside it by their keys).
    """

    def plain(item: Any) -> Any:
        if isinstance(item, Cell) and inner and item is not value:
            return inner(item)
        if isinstance(item, BaseModel):
            fields = type(item).model_fields
            kind = f"{type(item).__module__}.{type(item).__qualname__}"
            given = {name: getattr(item, name) for name in fields if getattr(item, name) != fields[name].default}
            return {"kind": kind} | {name: plain(part) for name, part in given.items()}
        if isinstance(item, tuple | list):
            return [plain(part) for part in item]
        return {name: plain(part) for name, part in item.items()} if isinstance(item, dict) else item

    return plain(value)


def from_config(config: Any) -> Any:
    """What `config_of` was made from."""
    if isinstance(config, list):
        return tuple(from_config(item) for item in config)
    if not isinstance(config, dict):
        return config
    values = {name: from_config(value) for name, value in config.items() if name != "kind"}
    if "kind" not in config:
        return values
    module, _, name = config["kind"].rpartition(".")
    return getattr(importlib.import_module(module), name)(**values)


class Store:
    """The folder of all cells.

    Parameters
    ----------
    root : folder, made when needed.
    say : called with one line when something happened that a reader must know (a damaged cell).
    """

    _valid: set[Path] = set()  # checksums are read once a process

    def __init__(self, root: Path | str, say: Callable[[str], None] = print):
        self.root, self.say = Path(root).resolve(), say

    def __getitem__(self, cell: Cell) -> Path:
        """The folder of a finished cell."""
        if not self.valid(cell):
            raise InputError(f"{cell.title()} ({cell.key}) is not computed; build it first")
        return self.path(cell)

    def path(self, cell: Cell) -> Path:
        return self.root / cell.key

    def valid(self, cell: Cell) -> bool:
        """Whether the cell is there with a valid seal."""
        folder = self.path(cell)
        if folder in self._valid and folder.is_dir():
            return True
        self._valid.discard(folder)
        if self.problem(cell) is None:
            self._valid.add(folder)
        return folder in self._valid

    def problem(self, cell: Cell) -> str | None:
        """Why there is no valid folder of this cell, or None."""
        problem = seal_problem(self.path(cell))
        if problem is None and self.noted(self.path(cell)) != {"config": config_of(cell), "code": cell.code}:
            return "config.json belongs to another cell"
        return problem

    def noted(self, path: Path) -> dict | None:
        """Configuration and code that stand in a folder's config.json or in a planned file; None if unreadable."""
        try:
            return json.loads((path / "config.json" if path.is_dir() else path).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def plan(self, cell: Cell) -> None:
        """Note the cell, so that `interextra cell KEY` can build it; a damaged note is written again."""
        path, note = self.root / "planned" / f"{cell.key}.json", {"config": config_of(cell), "code": cell.code}
        if self.noted(path) != note:
            write_json(path, note)

    def planned(self) -> list[Cell]:
        """All cells that were planned with today's code."""
        return [cell for path in sorted(self.root.glob("planned/*.json")) if (cell := self._read(path.stem))]

    def cell(self, key: str) -> Cell:
        """A planned cell; InputError where none has this key, or where its code has changed since."""
        if cell := self._read(key):
            return cell
        raise InputError(f"no cell {key!r} is planned in {self.root}: run `interextra plan` (again, if code changed)")

    def _read(self, key: str) -> Cell | None:
        note = self.noted(self.root / "planned" / f"{key}.json")
        try:
            cell = from_config(note["config"])
        except (TypeError, KeyError, ValueError, ImportError, AttributeError):  # damaged, or of another version
            return None
        return cell if isinstance(cell, Cell) and cell.key == key else None

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """What must be computed for these cells, each after those that it needs.

        A cell that is there needs nothing: what it was made from (weights, say) may be gone.
        """
        found: dict[str, Cell] = {}

        def visit(cell: Cell) -> None:
            if cell.key not in found and not self.valid(cell):
                for needed in cell.needs():
                    visit(needed)
                found[cell.key] = cell

        for cell in cells:
            visit(cell)
        return list(found.values())

    def build(self, cell: Cell) -> Path:
        """The cell's folder, built first (with what it needs) when there is none with a valid seal."""
        for needed in self.missing([cell]):
            self.plan(needed)
            with self.lock(needed.key):
                if not self.valid(needed):  # else another process built it while this one waited
                    self._build(needed)
        return self.path(cell)

    def _build(self, cell: Cell) -> None:
        self._put_aside(cell)
        aside = self.root / "building" / f"{cell.key}.{os.getpid()}"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        try:
            begin = time.perf_counter()
            cell.build(aside, self)
            self.finish(cell, aside, seconds=round(time.perf_counter() - begin, 3))
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def finish(self, cell: Cell, aside: Path, **noted: Any) -> None:
        """Note configuration and provenance in a folder aside, seal it, and put it into the cell's place."""
        write_json(aside / "config.json", {"config": config_of(cell), "code": cell.code})
        if not (aside / "provenance.json").exists():
            write_json(aside / "provenance.json", provenance.record(self.root.parent.parent, **noted))
        seal(aside)
        os.replace(aside, self.path(cell))
        self._valid.add(self.path(cell))

    def _put_aside(self, cell: Cell) -> None:
        """Rename what stands in the cell's place without being valid; only under the cell's lock."""
        folder = self.path(cell)
        if not folder.exists():
            return
        if not any(folder.iterdir()):  # made by a workflow engine before the cell
            folder.rmdir()
            return
        # A file may be read by another process at this moment: rename, never delete in place.
        aside = self.root / "damaged" / f"{cell.key}.{time.time_ns()}"
        aside.parent.mkdir(parents=True, exist_ok=True)
        problem = self.problem(cell)
        os.replace(folder, aside)
        self.say(f"cell {cell.key} is damaged ({problem}): put aside under {aside.parent.name}/, computed again")

    @contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """While the block runs, nobody else writes the folder of this key."""
        locks = self.root / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        with open(locks / key, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def sweep(self) -> None:
        """Remove what killed processes left half built: folders of cells that nobody holds the lock of."""
        for folder in (self.root / "building").glob("*.*"):
            with open(self.root / "locks" / folder.stem, "a") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                shutil.rmtree(folder, ignore_errors=True)
