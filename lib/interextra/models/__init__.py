"""Models: a recipe is fitted to a collection's queries and then searches any collection.

An architecture is a module of this folder. It has

LABEL, COLOUR       of tables and figures
ENCODES_QUERIES     whether a query is encoded without a passage, so that queries have similarities
INTERACTS           whether words of the query meet words of the passage in a learnt score (Zhan et al., section 5.1)
Options             its recipe
fit                 (recipe, collection, query_ids, split, seed, out_dir) → log
load                (out_dir, recipe) → model, whose search(collection, texts, k) gives what `topk.exact_search` does
"""

from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).parent


@cache
def architectures() -> dict[str, ModuleType]:
    """Name of each architecture of the kit → its module (none of them imports torch before it is used)."""
    files = [file for file in sorted(FOLDER.glob("*.py")) if "\nLABEL = " in file.read_text(encoding="utf-8")]
    return {file.stem: import_module(f"{__name__}.{file.stem}") for file in files}


def definitions(start: str, attribute: str) -> dict[str, Any]:
    """Name → what has an attribute, of the modules of this folder whose names begin with `start`."""
    modules = [import_module(f"{__name__}.{file.stem}") for file in sorted(FOLDER.glob(f"{start}*.py"))]
    return dict(sorted(pair for module in modules for pair in vars(module).items() if hasattr(pair[1], attribute)))
