"""The code behind a result, as one digest: a changed method is another result, a changed docstring
is not.

From some definitions (functions, classes, constants at the top of a module) everything of this
package that they name is found, and the versions of the libraries that compute. A local variable
with the name of a definition counts as it; what is looked up while the program runs (a registry,
`importlib`) must be named by whoever asks. Docstrings, comments, the wording of errors and the
methods of `ABOUT` do not count; a definition may move to another module.
"""

import ast
import hashlib
import os
import sys
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

from interextra import FRONT

PACKAGE = "interextra"
ROOT = Path(__file__).parents[1]
# How results are kept and errors worded changes no result, and a collection is named by its
# content.
APART = {
    f"{PACKAGE}.store.{name}"
    for name in ("cells", "code", "errors", "files", "provenance", "schedule")
}
APART |= {f"{PACKAGE}.{name}" for name in ("data.load", "site.parameters")}
ABOUT = {"title", "seconds", "megabytes", "modules", "cost"}
COMPUTING = {
    "torch",
    "transformers",
    "tokenizers",
    "sentence_transformers",
    "pyserini",
    "faiss",
    "ranx",
}
COMPUTING |= {"numpy", "scipy", "sklearn", "statsmodels"}  # libraries, as they are imported

Place = tuple[str, str]  # a module and a definition in it; "" stands for the whole module
_distributions = cache(
    metadata.packages_distributions
)  # it reads the files of all that is installed


def source_of(module: str) -> Path | None:
    """The file of a module of this package, or of an imported one outside it; None for a name
    inside a module.
    """
    if module.partition(".")[0] != PACKAGE:
        found = getattr(sys.modules.get(module), "__file__", None)
        return Path(found) if found else None
    parts = module.split(".")[1:]
    if not all(
        part.isidentifier() for part in parts
    ):  # from a note: it must not lead out of the package
        return None
    path = ROOT.joinpath(*parts)
    return next(
        (file for file in (path.with_suffix(".py"), path / "__init__.py") if os.path.isfile(file)),
        None,
    )


def has_class(module: str, name: str) -> bool:
    """Whether the source of a module has a class of this name at its top; the module is not
    imported.
    """
    path = source_of(module)
    nodes = ast.parse(path.read_text(encoding="utf-8")).body if path else []
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in nodes)


@cache
def behind(names: tuple[str, ...]) -> dict[str, str]:
    """`module:definition` or library → digest or version, of all that stands behind some modules
    and definitions.

    `names`: `module`, which stands for all of it, or `module:definition`.

    >>> list(behind(("interextra.store.files:digest",))), list(behind(("interextra.stats.bootstrap:ratio",)))
    ([], ['interextra.stats.bootstrap:ratio', 'numpy'])
    """
    found: dict[str, str] = {}
    todo = [(module, name) for module, _, name in (name.partition(":") for name in names)]
    while todo:
        module, name = todo.pop()
        if module in COMPUTING:
            known = _distributions().get(
                module
            )  # its version without what tells builds apart (+cpu)
            found[module] = metadata.version(known[0]).partition("+")[0] if known else "none"
        is_library = not name and module.partition(".")[0] != PACKAGE
        if is_library or module in APART or source_of(module) is None:
            continue
        digests, uses = _parsed(module)
        if name and name not in uses:
            raise AttributeError(f"{module} has no {name!r}, which the code behind a result uses")
        for one in ("", name) if name else digests:
            place = f"{module}:{one}"
            if place not in found and one in uses:
                todo += uses[one]
                if one in digests:
                    found[place] = digests[one]
    return dict(sorted(found.items()))


def digested(names: tuple[str, ...]) -> list[list[str]]:
    """`behind` without the modules in which the definitions stand: to move one is no change."""
    return sorted([place.rpartition(":")[2], value] for place, value in behind(names).items())


def used_by(source: str) -> tuple[str, ...]:
    """What a notebook's code uses of this package, as `behind` takes it.

    >>> used_by("import interextra as ix; ix.effects(1); ix.figures.forest(2)")
    ('interextra.figures:forest', 'interextra.stats.effects:effects')
    """
    tree = ast.parse(source)
    imports = _imported(tree.body)
    places = {_place([imports[first], *rest]) for first, *rest in _used(tree) if first in imports}
    return tuple(
        sorted(
            ":".join(filter(None, place)) for place in places if place[0].startswith(f"{PACKAGE}.")
        )
    )


def _place(names: list[str]) -> Place:
    """The definition that an imported name and the attributes behind it stand for; a library as a
    whole.
    """
    parts = ".".join(names).split(".")
    if parts[0] != PACKAGE:
        return parts[0], ""
    n_module = max(n for n in range(1, len(parts) + 1) if source_of(".".join(parts[:n])))
    module, inside = ".".join(parts[:n_module]), parts[n_module:]
    if module == PACKAGE and inside and inside[0] in FRONT:
        return _place([FRONT[inside[0]].replace(":", "."), *inside[1:]])
    return module, inside[0] if inside else ""


@cache
def _parsed(module: str) -> tuple[dict[str, str], dict[str, set[Place]]]:
    """Digests of a module's definitions (all that binds a name; "": what is run at import), and
    what each name uses.
    """
    tree = _bare(ast.parse(source_of(module).read_text(encoding="utf-8")))
    imports, parts = _imported(tree.body), {}
    for node in tree.body:
        is_script = isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
        if not is_script and not isinstance(node, ast.Import | ast.ImportFrom):
            for name in _bound(node) or {""}:
                parts.setdefault(name, []).append(node)
    digests, uses = {}, {name: {_place([target])} for name, target in imports.items()}
    for name, nodes in parts.items():
        digests[name] = hashlib.sha256("\n".join(map(ast.dump, nodes)).encode()).hexdigest()
        known = imports | _imported(part for node in nodes for part in ast.walk(node))
        chains = set().union(*map(_used, nodes))
        uses[name] = {_place([known[first], *rest]) for first, *rest in chains if first in known}
        uses[name] |= {(module, first) for first, *_ in chains if first in parts}
    return digests, uses


def _bare(tree: ast.Module) -> ast.Module:
    """Without docstrings, without the wording of errors, and without the methods of ABOUT."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            node.exc = node.cause = None
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            del node.body[0]
        if isinstance(node, ast.ClassDef):
            node.body = [part for part in node.body if getattr(part, "name", "") not in ABOUT]
    return tree


def _bound(node: ast.stmt) -> set[str]:
    """Names that a statement at the top of a module binds or changes."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {
        part.id
        for target in filter(None, targets)
        for part in ast.walk(target)
        if isinstance(part, ast.Name)
    }


def _imported(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Local name → dotted name of what the imports among some statements bind."""
    found = {}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            inside = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            found |= {
                alias.asname or alias.name.partition(".")[0]: inside + alias.name
                for alias in node.names
            }
    return found


def _used(node: ast.AST) -> set[tuple[str, ...]]:
    """Names in a piece of code, each with the attributes behind it."""
    attributes, inner = [], node
    while isinstance(inner, ast.Attribute):
        attributes, inner = [inner.attr, *attributes], inner.value
    if isinstance(inner, ast.Name):
        return {(inner.id, *attributes)}
    return set().union(*map(_used, ast.iter_child_nodes(inner)))
