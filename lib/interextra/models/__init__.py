"""Models: a recipe is fitted to a collection's queries and then searches any collection.

An architecture is a module of this folder that has LABEL (its name in tables), COLOUR (in figures), `Options` (the
fields of a recipe that matter for it), `fit` and `load`; see `model`.
"""

import importlib
import sys
from functools import cache
from pathlib import Path
from types import ModuleType


@cache
def architectures() -> dict[str, ModuleType]:
    """Name of each architecture of the kit → its module (none of them imports torch before it is used).

    >>> architectures()["dense"].LABEL
    'DR (base)'
    """
    return modules_with("LABEL", __name__)


def modules_with(constant: str, package: str) -> dict[str, ModuleType]:
    """Name → module, of the modules of a package that define a constant."""
    files = sorted(Path(sys.modules[package].__file__).parent.glob("*.py"))
    names = [file.stem for file in files if f"\n{constant} = " in file.read_text(encoding="utf-8")]
    return {name: importlib.import_module(f"{package}.{name}") for name in names}
