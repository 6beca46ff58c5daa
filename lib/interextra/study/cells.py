"""Cells: content-addressed folders, the unit of compute. Without a valid seal a cell does not exist.

A cell is named by the SHA-256 of its configuration. It is built in a folder aside and renamed when its seal (a
checksum of every file) is written, so that a killed process leaves nothing that could be taken for a result. A lock per
key makes a second process wait instead of computing the same cell; the lock vanishes with its process.
"""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

from interextra.ground.errors import InputError

SEAL = "seal.json"


def canonical(config: dict) -> str:
    """Configuration as one JSON line with sorted keys: the same bytes for the same content."""
    return json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def cell_key(config: dict) -> str:
    """Name of a cell: first 20 hex digits of the SHA-256 of its canonical configuration.

    >>> cell_key({"a": 1, "b": 2}) == cell_key({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(canonical(config).encode()).hexdigest()[:20]


def file_sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path, value: object) -> None:
    """JSON written aside, then renamed."""
    aside = path.with_name(f"{path.name}.tmp{os.getpid()}")
    aside.write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(aside, path)


def seal(folder: Path) -> None:
    """Write the checksums of all files in the folder, last of all."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SEAL)
    write_json(folder / SEAL, {path.relative_to(folder).as_posix(): file_sha256(path) for path in files})


def seal_problem(folder: Path) -> str | None:
    """Why the folder is not a valid sealed folder, or None when it is.

    Files that the seal does not name are ignored; a named file that is gone or whose bytes changed is a problem.
    """
    try:
        sums = json.loads((folder / SEAL).read_text(encoding="utf-8"))
        for name, expected in sums.items():
            path = folder / name
            if not path.is_file():
                return f"{name} is missing"
            if file_sha256(path) != expected:
                return f"{name} was changed"
    except FileNotFoundError:
        return "no seal"
    except (ValueError, AttributeError):  # also UnicodeDecodeError: a flipped byte may break the encoding
        return f"{SEAL} is not readable"
    return None


class Store:
    """The folder of all cells.

    Parameters
    ----------
    root : folder, made when needed.
    say : called with one line when something happened that a reader must know (a damaged cell).
    """

    def __init__(self, root: Path | str, say: Callable[[str], None] = print):
        self.root = Path(root)
        self.say = say
        self._checked: set[str] = set()

    def path(self, key: str) -> Path:
        return self.root / key

    def plan(self, config: dict) -> str:
        """Note the configuration, so that `interextra cell KEY` can build the cell; returns the key."""
        key = cell_key(config)
        planned = self.root / "planned" / f"{key}.json"
        if not planned.exists():
            planned.parent.mkdir(parents=True, exist_ok=True)
            write_json(planned, config)
        return key

    def config(self, key: str) -> dict:
        """Configuration of a planned or finished cell; a file whose content does not give the key is not trusted."""
        for path in (self.root / "planned" / f"{key}.json", self.path(key) / "config.json"):
            try:
                config = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
            if cell_key(config) == key:
                return config
        raise InputError(f"no cell {key!r} is planned in {self.root}: run `interextra plan` first")

    def valid(self, key: str) -> bool:
        """Whether the cell exists with a valid seal; checksums are read once a process."""
        if key not in self._checked and self.problem(key) is None:
            self._checked.add(key)
        return key in self._checked

    def problem(self, key: str) -> str | None:
        """Why there is no valid cell of this key, or None."""
        problem = seal_problem(self.path(key))
        if (
            problem is None
            and cell_key(json.loads((self.path(key) / "config.json").read_text(encoding="utf-8"))) != key
        ):
            return "config.json belongs to another cell"
        return problem

    def _put_aside(self, key: str) -> None:
        """Rename what stands in the cell's place without being valid; only under the cell's lock."""
        folder = self.path(key)
        if not folder.exists():
            return
        if not any(folder.iterdir()):  # made by a workflow engine before the cell
            folder.rmdir()
            return
        # A file may be read by another process at this moment: rename, never delete in place.
        aside = self.root / "damaged" / f"{key}.{time.time_ns()}"
        aside.parent.mkdir(parents=True, exist_ok=True)
        problem = self.problem(key)
        os.replace(folder, aside)
        self.say(f"cell {key} is damaged ({problem}): put aside under {aside.parent.name}/, computed again")

    @contextmanager
    def _lock(self, key: str):
        locks = self.root / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        with open(locks / key, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def build(self, config: dict, builder: Callable[[dict, Path], None]) -> Path:
        """The cell's folder, built first when there is none with a valid seal.

        `builder(config, folder)` writes the files of the cell into an empty folder.
        """
        key = self.plan(config)
        if self.valid(key):
            return self.path(key)
        with self._lock(key):
            if self.valid(key):  # another process built it while this one waited
                return self.path(key)
            self._put_aside(key)
            aside = self.root / "building" / f"{key}.{os.getpid()}"
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
            try:
                builder(config, aside)
                write_json(aside / "config.json", config)
                seal(aside)
                os.replace(aside, self.path(key))
            finally:
                shutil.rmtree(aside, ignore_errors=True)
        self._checked.add(key)
        return self.path(key)

    def sweep(self) -> None:
        """Remove what killed processes left half built: folders of cells that nobody holds the lock of."""
        for folder in (self.root / "building").glob("*.*"):
            with open(self.root / "locks" / folder.stem, "a") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                shutil.rmtree(folder, ignore_errors=True)
