"""Cells: results in sealed folders, the unit of compute, found again by what they are.

The name of a folder is the cell's *key*: its kind, its configuration, the keys of what it is made
from, major.minor of the libraries that compute it, and the VERSION of its kind. The code that made
a result stands in its note, see `store.folders`.
"""

import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel

from interextra.store import code
from interextra.store.errors import InputError
from interextra.store.files import digest

if TYPE_CHECKING:
    from interextra.store.folders import Store

# What a note that was damaged, made by another version or written by a stranger can do to the kinds
# of cell. A package that does not even parse is none of it: `clean` would take all results for
# those of older code.
UNREADABLE = (
    ArithmeticError,
    AttributeError,
    ImportError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)

# Memory of a process that computes a small cell: Python, numpy, pandas, Arrow
PROCESS_MEGABYTES = 250.0

_reading = ContextVar("_reading", default=False)


class Cell(BaseModel, ABC, frozen=True, extra="forbid", arbitrary_types_allowed=True):
    """A result that is kept.

    Its fields are its configuration, and the cells among them are what it needs.
    """

    # Raised by whoever changes what this kind computes: results of older versions are not used
    VERSION: ClassVar[int] = 1
    # Patterns of the files that go with a committed reference: small, without texts and weights
    travels: ClassVar[tuple[str, ...]] = ("*",)
    # Whether it is of no use once what is made from it is there: `interextra clean` removes it
    is_stepping_stone: ClassVar[bool] = False

    @abstractmethod
    def build(self, folder: Path, store: "Store") -> None:
        """Write the files of the cell into an empty folder.

        The same cell must give the same bytes: no seconds and no dates.

        Parameters
        ----------
        folder
            Where to write.
        store
            `store[needed]` is the folder of a cell that this one needs.
        """

    def title(self) -> str:
        """Return what a reader calls it."""
        return type(self).__name__

    def device(self) -> str:
        """Return what computes it: `cpu` or `gpu`."""
        return "cpu"

    def seconds(self) -> float:
        """Estimate the seconds on its device: so many GPUs, or so many cores, as it uses."""
        return 1.0

    def gpus(self) -> int:
        """Return the GPUs that it uses at once."""
        return 1 if self.device() == "gpu" else 0

    def threads(self) -> int:
        """Return the cores that it uses."""
        return 1

    def memory(self) -> float:
        """Estimate the megabytes of memory at the peak, those of the process included."""
        return PROCESS_MEGABYTES

    def megabytes(self) -> float:
        """Estimate the size on disk."""
        return 0.0

    def modules(self) -> tuple[str, ...]:
        """Return the definitions and modules that decide the result with all that they reach.

        See `store.code.behind`. What `build` looks up while it runs must be named here.
        """
        return (f"{type(self).__module__}:{type(self).__qualname__}",)

    def needs(self) -> tuple["Cell", ...]:
        """Return the cells that it is made from, each once."""
        return tuple({cell.key: cell for cell in nested(self)}.values())

    @cached_property
    def code(self) -> str:
        """Digest of the code behind this kind of cell."""
        return digest(code.digests_of(self.modules()))

    @cached_property
    def code_behind(self) -> dict[str, str]:
        """Key → digest of the code, of this cell and of all that it is made from."""
        codes = {self.key: self.code}
        for needed in self.needs():
            codes |= needed.code_behind
        return codes

    @cached_property
    def identity(self) -> str:
        """Digest of the configuration alone, its own and that of all that it needs.

        It names committed values.
        """
        return digest(config_of(self, lambda cell: cell.identity))

    @cached_property
    def key(self) -> str:
        """Name of the cell: 20 hex digits."""
        config = config_of(self, lambda cell: cell.key)
        return digest([config, self.VERSION, code.libraries_of(self.modules())])

    def __copy__(self) -> "Cell":
        """Copy it without what was derived from the fields, which `model_copy` may change."""
        copied = super().__copy__()
        for name in ("code", "code_behind", "identity", "key"):
            copied.__dict__.pop(name, None)
        return copied

    def __hash__(self) -> int:
        """Hash its key."""
        return hash(self.key)


def nested(value: Any) -> Iterator[Cell]:
    """Yield the outermost cells inside a cell or inside a value of a field."""
    if isinstance(value, BaseModel):
        value = [getattr(value, name) for name in type(value).model_fields]
    if not isinstance(value, tuple | list):
        return
    for part in value:
        if isinstance(part, Cell):
            yield part
        else:
            yield from nested(part)


def config_of(value: Any, name_of: Callable[[Cell], Any] | None = None) -> Any:
    """Return plain JSON of a cell or of any of its values; fields at their default are left out.

    Parameters
    ----------
    value
        A cell, or what a field of one holds.
    name_of
        What stands for each cell inside the value (for a key, its key); a kind is then named
        without its module.
    """

    def plain(part: Any) -> Any:
        """Return plain JSON of a part of the value."""
        if name_of and isinstance(part, Cell):
            return name_of(part)
        return config_of(part, name_of)

    if isinstance(value, BaseModel):
        kind = type(value)
        config = {"kind": kind.__name__ if name_of else f"{kind.__module__}.{kind.__qualname__}"}
        for name, field in kind.model_fields.items():
            part = getattr(value, name)
            if part != field.default:
                config[name] = plain(part)
        return config
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return value


def from_config(config: Any) -> Any:
    """Return what `config_of` was made from; nothing is opened or run for it, see `is_reading`.

    Raises
    ------
    InputError
        A kind that is none of this package (nor a loaded kind of cell): see `_kind`.
    UNREADABLE
        Whatever the kind raises on values that are not for it.
    """
    before = _reading.set(True)
    try:
        return _from_config(config)
    finally:
        _reading.reset(before)


def is_reading() -> bool:
    """Whether cells are being made from a note.

    A kind then opens no collection and imports no attribute to check it, for the note may be
    anybody's. It was checked when it was planned.
    """
    return _reading.get()


def _from_config(config: Any) -> Any:
    if isinstance(config, list):
        return tuple(_from_config(item) for item in config)
    if not isinstance(config, dict):
        return config
    values = {name: _from_config(value) for name, value in config.items() if name != "kind"}
    return _kind(config["kind"])(**values) if "kind" in config else values


def _kind(named: Any) -> type[BaseModel]:
    """Return the class that a note names: one of this package, or a loaded kind of cell elsewhere.

    Nothing is imported but a module of this package whose source has such a class, and no attribute
    of a module is asked for, which a module may answer by importing others.
    """
    place, _, name = str(named).rpartition(".")
    is_own = place.startswith(f"{code.PACKAGE}.")
    if is_own and place not in sys.modules and code.has_class(place, name):
        importlib.import_module(place)
    found = getattr(sys.modules.get(place), "__dict__", {}).get(name)
    if isinstance(found, type) and issubclass(found, BaseModel if is_own else Cell):
        is_named = f"{found.__module__}.{found.__qualname__}" == named
        if is_named:
            return found
    raise InputError(f"{named!r:.100} is no kind of this package")
