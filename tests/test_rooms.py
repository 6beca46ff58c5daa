"""The house: imports go downwards only, no circle, and no function that nobody calls."""

import ast
import re
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import interextra
from interextra.store.code import ROOT, source_of

# A room may import those before it; those of one line stand side by side.
FLOORS = (
    {"store"},
    {"stats"},
    {"data", "world"},
    {"splits"},
    {"models"},
    {"measures", "overlap"},
    {"papers", "figures"},
    {"claims"},
    {"own"},
    {"notebooks"},
    {"site"},
    {"cli"},
    {"__main__"},
    {"__init__"},
)
ORDER = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
FILES = sorted(ROOT.rglob("*.py"))


def module_of(path):
    return ".".join(("interextra", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
        ".__init__"
    )


def imported(path):
    """Modules of the package that a file imports, at the top or inside a function."""
    found = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []  # of a type checker
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    found = {name for name in found if name.startswith("interextra.") and source_of(name)}
    return found - {module_of(path)}


IMPORTS = {module_of(path): imported(path) for path in FILES}


def test_imports_go_downwards_only():
    def room(module):
        return ORDER[module.split(".")[1] if "." in module else "__init__"]

    wrong = [
        (one, other)
        for one, others in IMPORTS.items()
        for other in others
        if room(other) > room(one)
    ]
    assert not wrong


def test_no_import_circle():
    packages = {module_of(path) for path in FILES if path.name == "__init__.py"}
    graph = {
        one: {other for other in others if other not in packages} for one, others in IMPORTS.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"circle: {' → '.join(error.args[1])}")


def test_every_function_and_class_has_a_caller(root):
    """By name: in the library, the notebooks, the tools, the benchmarks, or as a name of the front
    door.
    """
    outside = [
        path for folder in ("bench", "tools", "notebooks") for path in (root / folder).glob("*.*")
    ]
    texts = [path.read_text() for path in [*FILES, *outside] if path.is_file()]
    counts = Counter(re.findall(r"\w+", "\n".join(texts)))
    called_by_others = {
        "main",
        "forward",
        "add_model_card_callback",
        "collect_features",
        "compute_loss_from_embeddings",
        "_repr_html_",
        "format_ticks",
        "on_train_begin",
        "on_step_end",
        "on_train_end",
        "on_save",
        "get_batch_sampler",
        "_get_output_dir",
        "_load_from_checkpoint",
    }
    idle = []
    for path in [*FILES, *(root / "tools").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            registered = getattr(node, "decorator_list", [])  # a validator, a plan
            if (
                isinstance(node, ast.FunctionDef | ast.ClassDef)
                and not node.name.startswith("__")
                and not registered
            ):
                named = (
                    counts[node.name] > 1
                    or node.name in called_by_others
                    or node.name in interextra.__all__
                )
                idle += [] if named else [f"{path.stem}.{node.name}"]
    assert not idle


def test_every_name_of_the_front_door_is_there():
    assert all(getattr(interextra, name) is not None for name in interextra.__all__)
    with pytest.raises(AttributeError, match="has no 'nothing'"):
        interextra.__getattr__("nothing")


def test_stored_code_has_no_suppressed_formatting_or_rule(root):
    folders = ("lib", "notebooks", "tests", "bench", "tools")
    marks = ("fmt" + ": skip", "no" + "qa")
    files = [
        path
        for folder in folders
        for path in Path(root / folder).rglob("*")
        if path.suffix in (".py", ".ipynb")
    ]
    files = [
        path for path in files if "structure" not in path.name
    ]  # which has the rule for notebooks
    assert not [(str(path), mark) for path in files for mark in marks if mark in path.read_text()]
