"""Files: written aside and renamed, named by their content, sealed with checksums."""

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interextra.store.errors import InputError

SEAL = "seal.json"


def cache_folder() -> Path:
    """Return where converted collections and indexes are kept.

    INTEREXTRA_CACHE, or ~/.cache/interextra.
    """
    return Path(os.environ.get("INTEREXTRA_CACHE") or Path.home() / ".cache" / "interextra")


@contextmanager
def write_aside(path: str | Path) -> Iterator[Path]:
    """Give a path to write to, and rename it to `path` when the block ends well.

    When it does not, what was written is removed.
    """
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


def parse_json(text: str | bytes, where: object) -> Any:
    """Return a JSON value from anybody's text.

    Parameters
    ----------
    text
        JSON.
    where
        What begins the message of an error: a file, a file and line, a key.

    Raises
    ------
    InputError
        No UTF-8, no JSON, an object with one key twice, nested too deeply for this parser, a whole
        number of thousands of digits, or half of a surrogate pair (a cut emoji), which no file can
        hold as UTF-8.

    Examples
    --------
    >>> parse_json('{"a": [1, 2]}', "note.json")
    {'a': [1, 2]}
    >>> parse_json("[" * 100_000, "note.json:1")
    Traceback (most recent call last):
    interextra.store.errors.InputError: note.json:1: the JSON is nested too deeply; write it again
    """
    try:
        text = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        text.encode()
        value = json.loads(text, object_pairs_hook=_each_key_once)
        if "\\u" in text:  # an escape may stand for half of a pair
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise InputError(
            f"{where}: {half} is half of a surrogate pair (a cut emoji?); write the whole one"
        ) from None
    except RecursionError:
        raise InputError(f"{where}: the JSON is nested too deeply; write it again") from None
    except ValueError as error:
        # also UnicodeDecodeError, and whole numbers beyond Python's limit of digits
        raise InputError(f"{where}: not readable as JSON ({error}); write it again") from None
    return value


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; Python would keep the last of two equal keys without a word."""
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        repeated = max(counts, key=counts.__getitem__)
        raise ValueError(f"the key {repeated[:80]!r} stands twice")
    return value


def read_json(path: str | Path) -> Any:
    """Return the JSON value in a file, see `parse_json`.

    OSError as usual where there is none.
    """
    return parse_json(Path(path).read_bytes(), path)


def sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file, 64 hex digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(value: Any) -> str:
    """Return the first 20 hex digits of the SHA-256 of a JSON value, whatever its keys' order.

    Examples
    --------
    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _sums(folder: Path, checksum: Callable[[Path], str]) -> dict[str, str]:
    """Return the checksums of all files below a folder but its seal, by relative name."""
    sums = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name != SEAL:
            sums[name] = checksum(path)
    return sums


def seal(folder: Path, checksum: Callable[[Path], str] = sha256) -> None:
    """Write the checksums of all files in a folder, last of all.

    `checksum` gives the SHA-256 of a file: computed, or known by `store.checksums`.
    """
    write_json(folder / SEAL, _sums(folder, checksum))


def seal_problem(folder: Path, checksum: Callable[[Path], str] = sha256) -> str | None:
    """Return why a folder is not just what its seal names, or None when it is.

    A file more, one that is gone, other bytes. `checksum`: see `seal`.
    """
    try:
        named = read_json(folder / SEAL)
        if not named or not isinstance(named, dict):
            return f"{SEAL} names no file"
        sums = _sums(folder, checksum)
    except FileNotFoundError:
        return "no seal"
    except (InputError, IsADirectoryError):
        return f"{SEAL} is not readable"
    unnamed = sums.keys() - named.keys()
    if unnamed:
        return f"{SEAL} does not name {min(unnamed)}"
    for name, expected in named.items():
        if name not in sums:
            return f"{name} is missing"
        if sums[name] != expected:
            return f"{name} was changed"
    return None
