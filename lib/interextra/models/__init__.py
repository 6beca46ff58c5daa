"""Models: a recipe is fitted to a collection's queries and then searches any collection.

An architecture is a module of this folder. It has

LABEL, COLOUR       of tables and figures
ENCODES_QUERIES     whether a query is encoded without a passage, so that queries have similarities
INTERACTS           whether words of the query meet words of the passage in a learnt score (Zhan et al., section 5.1)
SINGLE_VECTOR       whether a text is one vector of numbers
Options             its recipe
fit                 (recipe, collection, query_ids, split, seed, out_dir) → log
load                (out_dir, recipe) → retriever
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
