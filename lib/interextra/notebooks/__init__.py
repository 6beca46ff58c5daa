"""The notebooks' modules, named after them: n02_restrain is that of notebooks/02_restrain.ipynb.

Each has what only its notebook computes, its `Parameters`, and `plan(parameters)`: the cells that
it needs (see `plans`).
"""

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from interextra.store.errors import InputError


@cache
def module_of(notebook: str) -> ModuleType:
    """Return the module of a notebook, by its number.

    Parameters
    ----------
    notebook
        Its name, like `02_restrain`.

    Raises
    ------
    InputError
        There is none.

    Examples
    --------
    >>> module_of("02_restrain").__name__
    'interextra.notebooks.n02_restrain'
    """
    start = f"n{notebook[:2]}_"
    for module in pkgutil.iter_modules(__path__):
        if module.name.startswith(start):
            return importlib.import_module(f"{__name__}.{module.name}")
    raise InputError(f"notebook {notebook}: there is no module interextra/notebooks/{start}*.py")
