"""The ground that all rooms stand on; what most of their modules need can be taken from here."""

from interextra.store.cells import Cell
from interextra.store.errors import InputError, offenders
from interextra.store.files import (
    cache_folder,
    digest,
    scratch,
    sha256,
    write_aside,
    write_json,
    write_text,
)
from interextra.store.folders import Store

__all__ = [
    "Cell",
    "InputError",
    "Store",
    "cache_folder",
    "digest",
    "offenders",
    "scratch",
    "sha256",
    "write_aside",
]
__all__ += ["write_json", "write_text"]
