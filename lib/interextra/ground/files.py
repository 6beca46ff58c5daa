"""Files: written aside and renamed, named by their content, sealed with checksums."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SEAL = "seal.json"


def cache_folder() -> Path:
    """Where converted collections and indexes are kept: INTEREXTRA_CACHE, or ~/.cache/interextra."""
    return Path(os.environ.get("INTEREXTRA_CACHE") or Path.home() / ".cache" / "interextra")


@contextmanager
def write_aside(path: str | Path) -> Iterator[Path]:
    """Give a path to write to; rename it to `path` when the block ends well, remove it when it does not."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.tmp{os.getpid()}")
    try:
        yield aside
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """Make an empty folder to write into; what is left of it when the block ends is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_text(path: str | Path, text: str) -> Path:
    """UTF-8, line ends as they are; written aside, then renamed. Returns the path."""
    with write_aside(path) as aside:
        aside.write_bytes(text.encode())
    return Path(path)


def write_json(path: str | Path, value: Any) -> None:
    """JSON with sorted keys, written aside, then renamed."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def sha256(path: str | Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(value: Any) -> str:
    """First 20 hex digits of the SHA-256 of a JSON value, whatever the order of its keys.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _sums(folder: Path) -> dict[str, str]:
    """SHA-256 of all files below a folder but its seal, by relative name."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: sha256(path) for name, path in files.items() if name != SEAL}


def seal(folder: Path) -> None:
    """Write the checksums of all files in the folder, last of all."""
    write_json(folder / SEAL, _sums(folder))


def seal_problem(folder: Path) -> str | None:
    """Why a folder is not just what its seal names (a file more, one gone, or other bytes), or None when it is."""
    try:
        named = json.loads((folder / SEAL).read_text(encoding="utf-8"))
        if not named or not isinstance(named, dict):
            return f"{SEAL} names no file"
        found = _sums(folder)
        if more := found.keys() - named:
            return f"{SEAL} does not name {min(more)}"
        for name, expected in named.items():
            if found.get(name) != expected:
                return f"{name} {'was changed' if name in found else 'is missing'}"
    except FileNotFoundError:
        return "no seal"
    except (ValueError, IsADirectoryError):  # also UnicodeDecodeError: a flipped byte may break the encoding
        return f"{SEAL} is not readable"
    return None
