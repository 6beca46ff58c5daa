"""What an installation without an extra lacks, said in one line.

`pip install interextra` brings what `audit`, `split`, `regimes`, `finished` and `evaluate` need,
the extras of pyproject.toml what other commands need.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from interextra.store.errors import InputError

# Extra → modules of other packages that it brings.
MODULES = {
    "train": (
        "accelerate",
        "pyserini",
        "ranx",
        "rich",
        "safetensors",
        "sentence_transformers",
        "tokenizers",
        "torch",
        "transformers",
    ),
    "irds": ("ir_datasets",),
    "notebooks": ("IPython", "ipywidgets", "ir_measures", "nbformat", "papermill", "statsmodels"),
    "site": ("myst_nb", "sphinx"),
    "cluster": ("snakemake",),
}
EXTRA = {module: extra for extra, modules in MODULES.items() for module in modules}


def require(what: str, *modules: str) -> None:
    """Refuse what needs modules that are not installed.

    Parameters
    ----------
    what
        A command, perhaps with an option, as the user would write it.
    modules
        Of MODULES.

    Raises
    ------
    InputError
        One is missing: which, and the extra that brings it.

    Examples
    --------
    >>> require("audit", "torch_of_tomorrow")
    Traceback (most recent call last):
    interextra.store.errors.InputError: audit needs torch_of_tomorrow, which is not installed
    """
    for module in modules:
        if find_spec(module) is None:
            raise lacking(what, module)


def lacking(what: str, module: str) -> InputError:
    """Return the one line about a module that is not installed.

    Examples
    --------
    >>> print(lacking("probe", "torch"))
    probe needs torch, which is not installed: pip install 'interextra[train]'
    """
    line = f"{what} needs {module}, which is not installed"
    if module in EXTRA:
        line += f": pip install 'interextra[{EXTRA[module]}]'"
    return InputError(line)


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn the error of a module that is not installed into the one line, in a block or a function.

    Raises
    ------
    InputError
        A module of an extra is not installed.

    Examples
    --------
    >>> with explained("ix.fit"):  # doctest: +ELLIPSIS
    ...     raise ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")
    Traceback (most recent call last):
    interextra.store.errors.InputError: ix.fit needs torch, which is not installed: pip install ...
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in EXTRA:
            raise lacking(what, package) from error
        raise
