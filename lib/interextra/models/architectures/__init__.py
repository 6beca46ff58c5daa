"""Architectures: each module of this folder is one, and needs no entry anywhere else.

LABEL, COLOUR       its name and colour in tables and figures
ENCODES_QUERIES     whether a query is encoded without a passage, so that queries have similarities
Options             its recipe
fit                 (recipe, collection, query_ids, split, seed, out_dir) → training log
load                (out_dir, recipe) → model, whose search(collection, texts, k) gives what
                    `topk.exact_search` does
"""

import pkgutil
from functools import cache
from importlib import import_module
from types import ModuleType


@cache
def architectures() -> dict[str, ModuleType]:
    """Return the module of each architecture by its name; none imports torch before it is used."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: import_module(f"{__name__}.{name}") for name in names}
