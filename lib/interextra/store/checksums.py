"""Checksums of large files, remembered between processes.

An encoding of 27 GB is read by every search over it, each a process of its own. Its checksum is
computed once, and used as long as the file is the same to the system: size, number (inode), time of
its content and time of its last change of any kind (ctime). No program can write to a file, replace
it or set its times without another ctime or number; a copy on another disk is another file. What
this does not see, and a checksum would, is a disk that loses bytes by itself.
"""

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from interextra.store.files import read_json, write_json

LARGE = 2**28  # bytes of a file whose checksum is remembered; a smaller one takes no time
# Seconds after which a write to a file surely has another time: some systems count two seconds
SETTLED = 2.0


class Checksums:
    """The checksums of the files of one folder.

    Parameters
    ----------
    note
        A JSON file outside of the folder, where those of large files are kept.
    """

    def __init__(self, note: Path) -> None:
        self.note = note

    def of(self, path: str | Path) -> str:
        """Return the SHA-256 of a file, 64 hex digits, remembered if it is large."""
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size < LARGE:
                return hashlib.file_digest(file, "sha256").hexdigest()
            identity = _identity(file)
            known = self._known()
            if identity not in known:
                _wait_until_settled(file)
                known[identity] = hashlib.file_digest(file, "sha256").hexdigest()
                if _identity(file) == identity:
                    self._remember(known)
            return known[identity]

    def _known(self) -> dict[str, str]:
        """Return the checksums that are kept, by the identity of their files."""
        try:
            known = read_json(self.note)
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def _remember(self, known: dict[str, str]) -> None:
        """Keep the checksums of files by their identity."""
        with suppress(OSError):  # of a store that may only be read
            write_json(self.note, known)


def _wait_until_settled(file: BinaryIO) -> None:
    """Wait until whoever writes to a file would leave another time than it has now."""
    age = time.time() - os.fstat(file.fileno()).st_ctime
    time.sleep(min(max(0.0, SETTLED - age), SETTLED))


def _identity(file: BinaryIO) -> str:
    """Return what tells a file from all others, and from itself with other content."""
    status = os.fstat(file.fileno())
    times = f"{status.st_mtime_ns} {status.st_ctime_ns}"
    return f"{status.st_ino} {status.st_size} {times}"
