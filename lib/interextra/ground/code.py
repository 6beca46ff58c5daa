"""The code behind a result, as one digest: a changed method is another result, a changed docstring is not.

The digest is of the syntax trees of a module and of all modules of this package that it imports, at the top or inside a
function, without docstrings and comments; and of the minor versions of the model libraries that they import.
"""

import ast
import hashlib
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

PACKAGE = "interextra"
ROOT = Path(__file__).parents[1]
# How results are kept and errors worded changes no result, and a collection is named by its content.
APART = {f"{PACKAGE}.ground.{name}" for name in ("cells", "code", "errors", "files", "provenance")}
APART |= {f"{PACKAGE}.data.load"}
VERSIONS = {"torch": "torch", "transformers": "transformers", "sentence_transformers": "sentence-transformers"}


def source_of(module: str) -> Path | None:
    """The file of a module of this package, or of an imported one outside it; None for a name inside a module."""
    if not module.startswith(PACKAGE):
        return Path(sys.modules[module].__file__)
    path = ROOT.joinpath(*module.split(".")[1:])
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@cache
def _parsed(module: str) -> tuple[str, frozenset[str], frozenset[str]]:
    """(SHA-256 of the syntax tree, modules of the package that it imports, libraries of `VERSIONS` that it imports)."""
    tree = ast.parse(source_of(module).read_text(encoding="utf-8"))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            imported.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
        body = getattr(node, "body", None)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            node.body = body[1:] or [ast.Pass()]
    inside = {name for name in imported if name.startswith(f"{PACKAGE}.") and source_of(name)}
    libraries = {name.partition(".")[0] for name in imported} & VERSIONS.keys()
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), frozenset(inside), frozenset(libraries)


@cache
def behind(modules: tuple[str, ...]) -> dict[str, str]:
    """Module or library → digest or minor version, of all that stands behind some modules.

    >>> sorted(behind(("interextra.ground.effects",)))
    ['interextra.ground.effects']
    """
    found, libraries, todo = {}, set(), [name for name in modules if name not in APART]
    while todo:
        if (module := todo.pop()) not in found:
            found[module], inside, needed = _parsed(module)
            libraries |= needed
            todo += inside - APART - found.keys()
    return dict(sorted(found.items())) | {
        name: ".".join(metadata.version(VERSIONS[name]).split(".")[:2]) for name in sorted(libraries)
    }
