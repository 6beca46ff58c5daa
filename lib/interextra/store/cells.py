"""Cells: results in content-addressed folders, the unit of compute. Without a valid seal a cell
does not exist.

The name of the folder is the key: configuration, keys of what it is made from, and code. A result
of other code has another name and is never served, however small the change was.
"""

import fcntl
import importlib
import os
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel

from interextra.store import code, provenance
from interextra.store.errors import InputError
from interextra.store.files import SEAL, digest, read_json, scratch, seal, seal_problem, write_json

NOTES = ("config.json", "provenance.json", SEAL)  # what stands beside the results of a cell
# What a note that was damaged, made by another version or written by a stranger can do to the kinds
# of cell. A package that does not even parse is none of it: `clean` would take all results for
# those of older code.
UNREADABLE = (
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    AttributeError,
    ImportError,
    RecursionError,
)

_reading = ContextVar("_reading", default=False)


class Cell(BaseModel, ABC, frozen=True, extra="forbid", arbitrary_types_allowed=True):
    """A result that is kept. Its fields are its configuration, and the cells among them are what it
    needs.
    """

    # Patterns of the files that go with a committed reference: small ones, without texts and
    # weights
    travels: ClassVar[tuple[str, ...]] = ("*",)
    # Whether the cell is of no use once what is made from it is there: `interextra clean` removes
    # it then
    is_stepping_stone: ClassVar[bool] = False

    @abstractmethod
    def build(self, folder: Path, store: "Store") -> None:
        """Write the files of the cell into an empty folder; `store[needed]` is the folder of a cell
        that it needs.

        The same cell must give the same bytes: no seconds and no dates.
        """

    def title(self) -> str:
        """What a reader calls it."""
        return type(self).__name__

    def seconds(self) -> float:
        """Estimated seconds of one core."""
        return 1.0

    def megabytes(self) -> float:
        """Estimated size on disk."""
        return 0.0

    def modules(self) -> tuple[str, ...]:
        """Definitions and modules that decide the result with all that they reach, see
        `store.code.behind`.

        What `build` looks up while it runs must be named here.
        """
        return (f"{type(self).__module__}:{type(self).__qualname__}",)

    def needs(self) -> tuple["Cell", ...]:
        return tuple({cell.key: cell for cell in nested(self)}.values())

    @cached_property
    def code(self) -> str:
        """Digest of the code behind this kind of cell."""
        return digest(code.digested(self.modules()))

    @cached_property
    def identity(self) -> str:
        """Digest of the configuration alone, its own and that of all that it needs; it names
        committed values.
        """
        return digest(config_of(self, lambda cell: cell.identity))

    @cached_property
    def key(self) -> str:
        """Name of the cell: 20 hex digits of its configuration, the keys of the cells it needs, and
        its code.
        """
        return digest([config_of(self, lambda cell: cell.key), self.code])

    def __copy__(self) -> "Cell":
        """Without what was derived from the fields, which `model_copy` may change."""
        copied = super().__copy__()
        for name in ("code", "identity", "key"):
            copied.__dict__.pop(name, None)
        return copied

    def __hash__(self) -> int:
        return hash(self.key)


def nested(value: Any) -> Iterator[Cell]:
    """The outermost cells inside a cell or a value of a field."""
    if isinstance(value, BaseModel):
        value = [getattr(value, name) for name in type(value).model_fields]
    for part in value if isinstance(value, tuple | list) else ():
        yield from [part] if isinstance(part, Cell) else nested(part)


def config_of(value: Any, inner: Callable[[Cell], Any] | None = None) -> Any:
    """Plain JSON of a cell or of any of its values; fields at their default are left out.

    `inner` replaces each cell inside the value (for a key, by its key); a kind is then named
    without its module.
    """

    def plain(part: Any) -> Any:
        return inner(part) if inner and isinstance(part, Cell) else config_of(part, inner)

    if isinstance(value, BaseModel):
        kind, fields = type(value), type(value).model_fields
        given = {
            name: getattr(value, name)
            for name in fields
            if getattr(value, name) != fields[name].default
        }
        named = kind.__name__ if inner else f"{kind.__module__}.{kind.__qualname__}"
        return {"kind": named} | {name: plain(part) for name, part in given.items()}
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    return {name: plain(part) for name, part in value.items()} if isinstance(value, dict) else value


def from_config(config: Any) -> Any:
    """What `config_of` was made from; nothing is opened or run for it, see `is_reading`.

    Raises
    ------
    InputError
        a kind that is none of this package (nor a loaded kind of cell): see `_kind`.
    UNREADABLE
        whatever the kind raises on values that are not for it.
    """
    before = _reading.set(True)
    try:
        return _made(config)
    finally:
        _reading.reset(before)


def is_reading() -> bool:
    """Whether cells are being made from a note: a kind then opens no collection and imports no
    attribute to check it, for the note may be anybody's. It was checked when it was planned.
    """
    return _reading.get()


def _made(config: Any) -> Any:
    if isinstance(config, list):
        return tuple(_made(item) for item in config)
    if not isinstance(config, dict):
        return config
    values = {name: _made(value) for name, value in config.items() if name != "kind"}
    return _kind(config["kind"])(**values) if "kind" in config else values


def _kind(named: Any) -> type[BaseModel]:
    """The class that a note names: one of this package, or a kind of cell of another module that is
    loaded.

    Nothing is imported but a module of this package whose source has such a class, and no attribute
    of a module is asked for, which a module may answer by importing others.
    """
    place, _, name = named.rpartition(".") if isinstance(named, str) else ("", "", "")
    is_own = place.startswith(f"{code.PACKAGE}.")
    if is_own and place not in sys.modules and code.has_class(place, name):
        importlib.import_module(place)
    found = getattr(sys.modules.get(place), "__dict__", {}).get(name)
    is_kind = isinstance(found, type) and issubclass(found, BaseModel if is_own else Cell)
    if not is_kind or (found.__module__, found.__qualname__) != (place, name):
        raise InputError(f"{named!r:.100} is no kind of this package")
    return found


class Store:
    """The folder of all cells, made when needed."""

    _valid: set[Path] = set()  # checksums are read once a process
    measured: Callable | None = (
        None  # gives values of a run without its files, where they came with a reference
    )

    def __init__(self, root: Path | str):
        self.root = Path(root).resolve()

    def __getitem__(self, cell: Cell) -> Path:
        if not self.valid(cell):
            raise InputError(f"{cell.title()} ({cell.key}) is not computed; build it first")
        return self.path(cell)

    def path(self, cell: Cell) -> Path:
        return self.root / cell.key

    def valid(self, cell: Cell) -> bool:
        """Whether the cell is there with a valid seal, and it is this cell."""
        folder = self.path(cell)
        is_known = folder in self._valid and folder.is_dir()
        if not is_known and (seal_problem(folder) or self.noted(folder).get("key") != cell.key):
            return False
        self._valid.add(folder)
        return True

    def noted(self, path: Path) -> dict:
        """What stands in a folder's config.json or in a planned file; empty if unreadable."""
        try:
            note = read_json(path / "config.json" if path.is_dir() else path)
        except (OSError, ValueError):
            return {}
        return note if isinstance(note, dict) else {}

    def plan(self, cell: Cell) -> None:
        """Note the cell, so that `interextra cell KEY` can build it; a damaged note is written
        again.
        """
        path = self.root / "planned" / f"{cell.key}.json"
        if self.noted(path).get("key") != cell.key:
            write_json(path, {"key": cell.key, "config": config_of(cell)})

    def planned(self) -> list[Cell]:
        """All cells that were planned with today's code."""
        return [
            cell
            for path in sorted(self.root.glob("planned/*.json"))
            if (cell := self._read(path.stem))
        ]

    def cell(self, key: str) -> Cell:
        """A planned cell; InputError where none has this key, or where its code has changed
        since.
        """
        if cell := self._read(key):
            return cell
        raise InputError(
            f"no cell {key!r} is planned in {self.root}: run `interextra plan` (again, if code changed)"
        )

    def _read(self, key: str) -> Cell | None:
        try:
            cell = from_config(self.noted(self.root / "planned" / f"{key}.json")["config"])
            return cell if isinstance(cell, Cell) and cell.key == key else None
        except UNREADABLE:
            return None

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """What must be computed, each after what it needs; what a finished cell was made from
        (weights) may be gone.
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
        """The cell's folder, built first (with what it needs) when there is none with a valid
        seal.
        """
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
        with open(path, "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_ours = True
            except BlockingIOError:
                is_ours = False
            yield is_ours

    def _build(self, cell: Cell) -> None:
        """Build a cell in a folder aside, note and seal it, and put it into its place; under the
        cell's lock.
        """
        with scratch(self.root / "building" / cell.key) as aside:
            begin = time.perf_counter()
            cell.build(aside, self)
            seconds = round(time.perf_counter() - begin, 3)
            write_json(
                aside / "config.json",
                {"key": cell.key, "code": cell.code, "config": config_of(cell)},
            )
            if not (aside / "provenance.json").exists():
                write_json(
                    aside / "provenance.json",
                    provenance.record(self.root.parent.parent, seconds=seconds),
                )
            seal(aside)
            os.replace(aside, self.path(cell))
        self._valid.add(self.path(cell))

    def _put_aside(self, cell: Cell) -> None:
        """Rename what stands in the cell's place without being valid (it may be read just now),
        under its lock.
        """
        folder = self.path(cell)
        if not folder.exists() or not any(folder.iterdir()):  # a workflow engine makes an empty one
            return
        aside = self.root / "damaged" / f"{cell.key}.{time.time_ns()}"
        aside.parent.mkdir(parents=True, exist_ok=True)
        problem = seal_problem(folder) or "it is another cell"
        os.replace(folder, aside)
        print(
            f"cell {cell.key} is damaged ({problem}): put aside under damaged/, computed again",
            file=sys.stderr,
        )

    def clean(self) -> tuple[int, int, int]:
        """Remove stepping stones that no planned cell still needs, cells of older code, and what is
        damaged or half built; returns (folders removed, bytes freed, cells that another process
        computes just now).

        Where there are such cells, only what is damaged or half built goes: they may need any of
        the others, and the process that computes them may have been started before the code
        changed.
        """
        planned = self.planned()
        kept = {cell.key for cell in planned if not cell.is_stepping_stone}
        kept |= {needed.key for cell in self.missing(planned) for needed in (cell, *cell.needs())}
        freed, live = _remove(self.root / "damaged"), 0
        for folder in self.root.glob("building/*"):
            with self._locked(folder.name, wait=False) as is_ours:
                freed += _remove(folder) if is_ours else 0
                live += not is_ours
        if live:
            return 0, freed, live
        gone = [
            path.parent for path in self.root.glob("*/config.json") if path.parent.name not in kept
        ]
        for folder in gone:
            freed += _remove(folder)
        for path in self.root.glob("planned/*.json"):
            if path.stem not in {cell.key for cell in planned}:
                path.unlink()
        return len(gone), freed, 0


def _remove(folder: Path) -> int:
    """Remove a folder, if there is one; returns the bytes of its files."""
    freed = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    shutil.rmtree(folder, ignore_errors=True)
    return freed
