"""The code behind a result, as one digest: an edited method is noticed, an edited docstring is not.

From some definitions (functions, classes, constants at the top of a module) everything of this
package that they name is found, and the libraries that compute. A local variable with the name of a
definition counts as that definition; what is looked up while the program runs (a registry,
`importlib`) must be named by whoever asks. Docstrings, comments, the wording of errors and the
methods of `DESCRIBING` do not count; a definition may move to another module.
"""

import ast
import hashlib
import os
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

PACKAGE = "interextra"
ROOT = Path(__file__).parents[1]
# How results are kept and how errors are worded changes no result. Other modules of which this is
# true say so with this name at their top.
CHANGES_NO_RESULT = "CHANGES_NO_RESULT"
STORE = f"{PACKAGE}.store."
# Methods of a kind of cell that describe it.
DESCRIBING = {
    "title",
    "modules",
    "device",
    "gpus",
    "threads",
    "seconds",
    "memory",
    "megabytes",
    "speed",
    "train_seconds",
    "train_memory",
    "search_seconds",
    "search_memory",
    "query_megabytes",
}
# Libraries that compute, as they are imported.
COMPUTING = {
    "faiss",
    "numpy",
    "pyserini",
    "ranx",
    "scipy",
    "sentence_transformers",
    "sklearn",
    "statsmodels",
    "tokenizers",
    "torch",
    "transformers",
}

Documented = ast.Module | ast.ClassDef | ast.FunctionDef

_packages_distributions = cache(metadata.packages_distributions)  # it reads all that is installed


class Place(NamedTuple):
    """A definition at the top of a module; without a name the whole module, or a library."""

    module: str
    name: str = ""

    def __str__(self) -> str:
        """Write it as notes do."""
        return f"{self.module}:{self.name}"


class Parsed(NamedTuple):
    """What a module defines: digests of its definitions, and the places that each of them uses.

    The name "" stands for the statements that are run when the module is imported.
    """

    digests: dict[str, str]
    uses: dict[str, set[Place]]
    changes_no_result: bool


def source_of(module: str) -> Path | None:
    """Return the file of a module of this package, or of an imported one outside it.

    None for a name inside a module, and for what is no module.
    """
    if module.partition(".")[0] != PACKAGE:
        file = getattr(sys.modules.get(module), "__file__", None)
        return Path(file) if file else None
    parts = module.split(".")[1:]
    if not all(part.isidentifier() for part in parts):  # of a note: it must not lead elsewhere
        return None
    path = ROOT.joinpath(*parts)
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if os.path.isfile(file):
            return file
    return None


def has_class(module: str, name: str) -> bool:
    """Whether the source of a module has a class of this name at its top; nothing is imported."""
    path = source_of(module)
    if path is None:
        return False
    statements = ast.parse(path.read_text(encoding="utf-8")).body
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in statements)


@cache
def behind(names: tuple[str, ...]) -> dict[str, str]:
    """Return what stands behind some modules and definitions.

    Parameters
    ----------
    names
        `module:definition`, or `module`, which stands for all of it.

    Returns
    -------
    dict
        `module:definition` → digest of its code, or library → version, in alphabetical order.

    Raises
    ------
    AttributeError
        A definition that its module does not have.

    Examples
    --------
    >>> list(behind(("interextra.store.files:digest",)))
    []
    >>> list(behind(("interextra.stats.bootstrap:ratio",)))
    ['interextra.stats.bootstrap:ratio', 'numpy']
    """
    found: dict[str, str] = {}
    todo = []
    for name in names:
        module, _, definition = name.partition(":")
        todo.append(Place(module, definition))
    while todo:
        place = todo.pop()
        if place.module in COMPUTING:
            found[place.module] = _version(place.module)
        parsed = _counted(place)
        if parsed:
            todo += _visited(place, parsed, found)
    return dict(sorted(found.items()))


@cache
def _version(library: str) -> str:
    """Return the version of a library without what tells builds apart (+cpu)."""
    distributions = _packages_distributions().get(library)
    return metadata.version(distributions[0]).partition("+")[0] if distributions else "none"


def _counted(place: Place) -> Parsed | None:
    """Return the module of a place, if its source is there and can change a result."""
    is_library = not place.name and place.module.partition(".")[0] != PACKAGE
    if is_library or place.module.startswith(STORE):
        return None
    file = source_of(place.module)
    if file is None:
        return None
    parsed = _parsed(place.module, file)
    return None if parsed.changes_no_result else parsed


def _visited(place: Place, parsed: Parsed, found: dict[str, str]) -> list[Place]:
    """Add the digests of a place in a module to `found`, and return what the place uses."""
    if place.name and place.name not in parsed.uses:
        raise AttributeError(
            f"{place.module} has no {place.name!r}, which the code behind a result uses"
        )
    next_places: list[Place] = []
    for name in ("", place.name) if place.name else parsed.digests:
        key = str(Place(place.module, name))
        if key not in found and name in parsed.uses:
            next_places += parsed.uses[name]
            if name in parsed.digests:
                found[key] = parsed.digests[name]
    return next_places


def digests_of(names: tuple[str, ...]) -> list[list[str]]:
    """Return the digests of `behind` without their modules: to move a definition is no change.

    Libraries are left out: see `libraries_of`.
    """
    digests = []
    for place, value in behind(names).items():
        if ":" in place:
            name = place.rpartition(":")[2]
            digests.append([name, value])
    return sorted(digests)


def libraries_of(names: tuple[str, ...]) -> dict[str, str]:
    """Return the libraries that compute behind some definitions, each with its major.minor."""
    return {
        library: ".".join(version.split(".")[:2])
        for library, version in behind(names).items()
        if ":" not in library
    }


def used_by(source: str, front_door: Mapping[str, str]) -> tuple[str, ...]:
    """Return what a notebook's code uses of this package, as `behind` takes it.

    Parameters
    ----------
    source
        Python code.
    front_door
        Name that the package itself offers → `module` or `module:definition`.

    Examples
    --------
    >>> door = {"effects": "interextra.stats.effects:effects"}
    >>> used_by("import interextra as ix; ix.effects(1)", door)
    ('interextra.stats.effects:effects',)
    """
    tree = ast.parse(source)
    imports = _imported(tree.body)
    offered = {}
    for name, stands_for in front_door.items():
        offered[f"{PACKAGE}.{name}"] = stands_for.replace(":", ".")
    places = set()
    for first, *attributes in _used_names(tree):
        if first not in imports:
            continue
        parts = ".".join([imports[first], *attributes]).split(".")
        front = ".".join(parts[:2])  # what the front door may offer
        place = _place([offered.get(front, front), *parts[2:]])
        if place.module == PACKAGE and front in offered:
            raise AttributeError(f"{front} stands for {offered[front]}, which has no file")
        if place.module.startswith(f"{PACKAGE}."):
            places.add(str(place).removesuffix(":"))
    return tuple(sorted(places))


def _place(names: list[str]) -> Place:
    """Return the definition that an imported name and its attributes stand for; a library whole."""
    module, *rest = ".".join(names).split(".")
    if module != PACKAGE:
        return Place(module)
    while rest and source_of(f"{module}.{rest[0]}"):
        module = f"{module}.{rest.pop(0)}"
    return Place(module, *rest[:1])


@cache
def _parsed(module: str, file: Path) -> Parsed:
    """Return what a module defines, by the source in its file."""
    tree = _without_wording(ast.parse(file.read_text(encoding="utf-8")))
    imports = _imported(tree.body)
    statements = _by_name(tree)
    digests = {}
    uses = {name: {_place([target])} for name, target in imports.items()}
    for name, nodes in statements.items():
        text = "\n".join(ast.dump(node) for node in nodes)
        digests[name] = hashlib.sha256(text.encode()).hexdigest()
        definition = ast.Module(nodes, [])
        known = imports | _imported(ast.walk(definition))
        uses[name] = set()
        for first, *attributes in _used_names(definition):
            if first in known:
                uses[name].add(_place([known[first], *attributes]))
            if first in statements:
                uses[name].add(Place(module, first))
    return Parsed(digests, uses, CHANGES_NO_RESULT in statements)


def _by_name(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """Return the statements of a module by the names that they bind; "": those that bind none."""
    statements: dict[str, list[ast.stmt]] = {}
    for node in tree.body:
        is_script = isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
        if is_script or isinstance(node, ast.Import | ast.ImportFrom):
            continue
        for name in _bound(node) or {""}:
            statements.setdefault(name, []).append(node)
    return statements


def _without_wording(tree: ast.Module) -> ast.Module:
    """Remove docstrings, the wording of errors, and the methods of DESCRIBING."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            node.exc = node.cause = None
        if isinstance(node, Documented) and ast.get_docstring(node, clean=False):
            del node.body[0]
        if isinstance(node, ast.ClassDef):
            node.body = [part for part in node.body if getattr(part, "name", "") not in DESCRIBING]
    return tree


def _bound(node: ast.stmt) -> set[str]:
    """Return the names that a statement at the top of a module binds or changes."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For):
        targets = [node.target]
    else:
        targets = []
    names = set()
    for target in targets:
        names |= {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}
    return names


def _imported(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Return local name → dotted name of what the imports among some statements bind."""
    found = {}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                local = alias.asname or alias.name.partition(".")[0]
                found[local] = prefix + alias.name
    return found


def _used_names(node: ast.AST) -> set[tuple[str, ...]]:
    """Return the names in a piece of code, each with the attributes behind it."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.insert(0, node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        return {(node.id, *attributes)}
    names = set()
    for child in ast.iter_child_nodes(node):
        names |= _used_names(child)
    return names
