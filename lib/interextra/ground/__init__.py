"""The ground that all rooms stand on; what most of their modules need can be taken from here."""

from interextra.ground.cells import Cell, Store
from interextra.ground.errors import InputError, offenders
from interextra.ground.files import cache_folder, digest, scratch, seal, seal_problem, sha256, write_aside, write_json

__all__ = ["Cell", "InputError", "Store", "cache_folder", "digest", "offenders", "scratch", "seal", "seal_problem"]
__all__ += ["sha256", "write_aside", "write_json"]
