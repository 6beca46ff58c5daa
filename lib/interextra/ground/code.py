"""The code behind a result, as one digest: a changed method is another result, a changed docstring is not.

Starting from some definitions (functions, classes, constants at the top of a module), everything of this package that
they reach by name is found, definition by definition: names in bodies, annotations, decorators and base classes, names
of imported modules and their attributes, imports inside functions. What is looked up while the program runs (a
registry, `importlib`) is invisible and must be named by whoever asks. Docstrings, comments, the wording of errors, and
the methods of `ABOUT`, which say what a result is called and costs, do not count; a definition may move to another
module. The versions of the libraries that compute belong to it.
"""

import ast
import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

PACKAGE = "interextra"
ROOT = Path(__file__).parents[1]
# How results are kept and errors worded changes no result, and a collection is named by its content.
APART = {f"{PACKAGE}.ground.{name}" for name in ("cells", "code", "errors", "files", "provenance")}
APART |= {f"{PACKAGE}.{name}" for name in ("data.load", "study.parameters", "study.schedule")}
ABOUT = {"title", "seconds", "megabytes", "modules", "cost"}
# Libraries that compute → the distributions that may hold them
VERSIONS = {name: (name,) for name in ("torch", "transformers", "tokenizers", "pyserini", "ranx", "numpy", "scipy")}
VERSIONS |= {"sentence_transformers": ("sentence-transformers",), "sklearn": ("scikit-learn",)}
VERSIONS |= {"faiss": ("faiss-cpu", "faiss-gpu", "faiss-gpu-cuvs"), "statsmodels": ("statsmodels",)}

Chain = tuple[str, ...]  # a name and the attributes behind it


class Definition(NamedTuple):
    """What stands at the top of a module under one name."""

    digest: str
    names: frozenset[Chain]  # that it uses and does not bind itself
    imports: dict[str, Chain]  # local name → what an import inside it binds: (module,) or (module, name)


class Module(NamedTuple):
    """The definitions of a module by name, and what its imports bind. "" stands for what is run when it is imported."""

    definitions: dict[str, Definition]
    imports: dict[str, Chain]


def source_of(module: str) -> Path | None:
    """The file of a module of this package, or of an imported one outside it; None for a name inside a module."""
    if module.partition(".")[0] != PACKAGE:
        found = getattr(sys.modules.get(module), "__file__", None)
        return Path(found) if found else None
    path = ROOT.joinpath(*module.split(".")[1:])
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@cache
def behind(names: tuple[str, ...]) -> dict[str, str]:
    """`module:definition` or library → digest or version, of all that stands behind some modules and definitions.

    `names`: `module`, which stands for all of it, or `module:definition`.

    >>> list(behind(("interextra.ground.files:digest",))), list(behind(("interextra.ground.effects:ratio",)))
    ([], ['interextra.ground.effects:ratio', 'numpy'])
    """
    found: dict[str, str] = {}
    todo = [tuple(name.split(":")) for name in names]
    while todo:
        module, *name = todo.pop()
        if module in APART or source_of(module) is None:
            continue
        parsed = _parsed(module)
        for one in name or parsed.definitions:
            place = f"{module}:{one}"
            if one in parsed.imports and one not in parsed.definitions:  # a name that the module has from another one
                todo.append(_resolved(parsed.imports[one], []))
            elif one and one not in parsed.definitions:
                raise AttributeError(f"{module} has no {one!r}, which the code behind a result uses")
            elif place not in found and one in parsed.definitions:
                found[place] = parsed.definitions[one].digest
                todo += [(module, "")] if "" in parsed.definitions else []
                for target in _targets(module, parsed, parsed.definitions[one]):
                    if target[0] in VERSIONS:
                        found[target[0]] = _version(target[0])
                    elif len(target) > 1 or target[0].partition(".")[0] == PACKAGE:
                        todo.append(target)
    return dict(sorted(found.items()))


def digested(names: tuple[str, ...]) -> list[list[str]]:
    """`behind` without the modules in which the definitions stand: to move one is no change."""
    return sorted([place.rpartition(":")[2], value] for place, value in behind(names).items())


def used_by(source: str, front: dict[str, str]) -> tuple[str, ...]:
    """What a notebook's code uses of this package, as `behind` takes it.

    `front`: name of the front door (`import interextra as ix`, `ix.NAME`) → the module where it is.

    >>> front = {"effects": "ground.effects", "figures": "figures"}
    >>> used_by("import interextra as ix; ix.effects(1); ix.figures.forest(2)", front)
    ('interextra.figures:forest', 'interextra.ground.effects:effects')
    """
    imports, names, found = {}, set(), set()
    for node in ast.parse(source).body:
        names |= _used(node)
        imports |= _imported(node)
    for first, *rest in names:
        target = imports.get(first, ())
        if target == (PACKAGE,) and rest and rest[0] in front:
            place, name, *further = f"{PACKAGE}.{front[rest[0]]}", *rest
            is_inside = source_of(place) is None or name in _parsed(place).definitions
            found.add(":".join([place, name] if is_inside else [place, *further[:1]]))
        elif target and target[0].startswith(f"{PACKAGE}."):
            found.add(":".join(_resolved(target, rest)))
    return tuple(sorted(found))


def _version(library: str) -> str:
    """Of the first of its distributions that is installed, without what tells builds apart (+cpu)."""
    for name in VERSIONS[library]:
        try:
            return metadata.version(name).partition("+")[0]
        except metadata.PackageNotFoundError:
            continue
    return "none"


def _targets(module: str, parsed: Module, definition: Definition) -> Iterator[tuple[str, ...]]:
    """(module,) or (module, name) for each name that a definition uses and that is known where it stands."""
    for first, *rest in definition.names:
        if first in definition.imports:
            yield _resolved(definition.imports[first], rest)
        elif first in parsed.definitions:
            yield module, first
        elif first in parsed.imports:
            yield _resolved(parsed.imports[first], rest)


def _resolved(target: Chain, rest: list[str]) -> tuple[str, ...]:
    """The definition that an imported name and attributes behind it stand for; a module alone where none is named."""
    module, name = ".".join(target), ""
    if module.partition(".")[0] != PACKAGE:
        return (module.partition(".")[0],)
    for part in (*rest, None):
        if source_of(module) is None:  # the last part is a name inside a module
            module, _, name = module.rpartition(".")
            break
        if part is None:
            return (module,)
        module = f"{module}.{part}"
    if source_of(module) is None:
        return (".".join(target),)
    again = _parsed(module).imports.get(name)  # a name that the module has from another one
    return _resolved(again, []) if again and name not in _parsed(module).definitions else (module, name)


@cache
def _parsed(module: str) -> Module:
    """The definitions of a module; several statements that bind one name are one definition."""
    tree = _Bare().visit(ast.parse(source_of(module).read_text(encoding="utf-8")))
    parts: dict[str, list[ast.stmt]] = {}
    imports: dict[str, Chain] = {}
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= _imported(node)
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"):
            for name in _bound_at_top(node) or {""}:
                parts.setdefault(name, []).append(node)
    definitions = {}
    for name, nodes in parts.items():
        text = "\n".join(map(ast.dump, nodes))
        inside = [part for node in nodes for part in ast.walk(node) if isinstance(part, ast.Import | ast.ImportFrom)]
        bound = {local: target for part in inside for local, target in _imported(part).items()}
        used = frozenset().union(*map(_used, nodes))
        definitions[name] = Definition(hashlib.sha256(text.encode()).hexdigest(), used, bound)
    return Module(definitions, imports)


class _Bare(ast.NodeTransformer):
    """Without docstrings, without the wording of errors, and without the methods of ABOUT."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Raise):
            return ast.Raise()
        body = getattr(node, "body", None)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and body:
            kept = body[1:] if ast.get_docstring(node, clean=False) is not None else body
            if isinstance(node, ast.ClassDef):
                kept = [part for part in kept if getattr(part, "name", "") not in ABOUT]
            node.body = kept or [ast.Pass()]
        return super().generic_visit(node)


def _bound_at_top(node: ast.stmt) -> set[str]:
    """Names that a statement at the top of a module binds or changes."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {part.id for target in filter(None, targets) for part in ast.walk(target) if isinstance(part, ast.Name)}


def _imported(node: ast.AST) -> dict[str, Chain]:
    """Local name → (module,) or (module, name) of an import; empty for anything else."""
    if isinstance(node, ast.Import):
        first = {alias.name.partition(".")[0]: (alias.name.partition(".")[0],) for alias in node.names}
        return first | {alias.asname: (alias.name,) for alias in node.names if alias.asname}
    if isinstance(node, ast.ImportFrom):
        return {alias.asname or alias.name: (node.module or "", alias.name) for alias in node.names}
    return {}


def _used(node: ast.AST, bound: frozenset[str] = frozenset()) -> frozenset[Chain]:
    """Names that a piece of code uses without binding them, with the attributes behind them."""
    if isinstance(node, ast.Attribute):
        chain, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            chain, inner = [inner.attr, *chain], inner.value
        if isinstance(inner, ast.Name):
            return frozenset() if inner.id in bound else frozenset({(inner.id, *chain)})
        return _used(inner, bound)
    if isinstance(node, ast.Name):
        is_read = isinstance(node.ctx, ast.Load) and node.id not in bound
        return frozenset({(node.id,)}) if is_read else frozenset()
    parts, inside = list(ast.iter_child_nodes(node)), bound
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        own = node.body if isinstance(node.body, list) else [node.body]
        parts = [part for part in parts if part not in own]
        found = frozenset().union(*(_used(part, bound) for part in parts))
        inside = bound | {part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)}
        inside |= frozenset().union(*map(_bound_inside, own))
        return found.union(*(_used(part, inside) for part in own))
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        targets = {part.id for loop in node.generators for part in ast.walk(loop.target) if isinstance(part, ast.Name)}
        outer = _used(node.generators[0].iter, bound)
        return outer.union(*(_used(part, bound | targets) for part in parts))
    return frozenset().union(*(_used(part, inside) for part in parts))


def _bound_inside(node: ast.AST) -> frozenset[str]:
    """Names that a statement of a function binds there: not in inner functions or comprehensions, nor by imports."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return frozenset({node.name})
    if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return frozenset()
    own = {node.id} if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) else set()
    own |= {node.name} if isinstance(node, ast.ExceptHandler) and node.name else set()
    return frozenset(own).union(*map(_bound_inside, ast.iter_child_nodes(node)))
