"""Parameters of a notebook: read from its own parameters cell, overridden by a profile, checked before anything runs.

papermill takes a misspelt key silently; here an unknown or ill-typed one is an error that names it.
"""

import ast
import difflib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ConfigDict, ValidationError, create_model

from interextra.ground.errors import InputError, offenders

TYPES = {"str": str, "int": int, "float": float, "bool": bool}
TYPES |= {f"list[{name}]": list[kind] for name, kind in TYPES.items() if name != "bool"}
POSITIVE = ("n_boot", "n_tau", "bins", "depth", "n_test", "k", "n_topics", "native_clusters", "topic_size")


class Parameter(NamedTuple):
    """One line of a parameters cell: `name: type = literal  # meaning`."""

    name: str
    type: str
    default: Any
    meaning: str


def repository_root() -> Path:
    """The folder that holds notebooks/ and params/: the working directory or one above it."""
    start = Path.cwd().resolve()
    for folder in (start, *start.parents):
        if (folder / "notebooks").is_dir() and (folder / "params").is_dir():
            return folder
    raise InputError(f"{start} is not inside the repository: start from the folder with notebooks/ and params/")


def notebooks(root: Path, only: str = "") -> list[Path]:
    """Numbered notebooks in reading order; `only` is a comma-separated list of numbers ("01,02") or names."""
    found = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    wanted = [part.strip() for part in only.split(",") if part.strip()]
    chosen = [path for path in found if not wanted or path.stem[:2] in wanted or path.stem in wanted]
    unknown = [part for part in wanted if not any(part in (path.stem[:2], path.stem) for path in found)]
    if unknown or not chosen:
        raise InputError(f"no notebook {offenders(unknown)}; there are {', '.join(path.stem for path in found)}")
    return chosen


def declared_parameters(notebook: Path) -> dict[str, Parameter]:
    """The declarations in the notebook's parameters cell."""
    document = json.loads(notebook.read_text(encoding="utf-8"))
    cells = [cell for cell in document["cells"] if "parameters" in cell["metadata"].get("tags", [])]
    if len(cells) != 1:
        raise InputError(f"{notebook.name}: needs exactly one cell tagged `parameters`, has {len(cells)}")
    source = "".join(cells[0]["source"])
    lines, found = source.split("\n"), {}
    for node in ast.parse(source).body:
        if not isinstance(node, ast.AnnAssign) or ast.unparse(node.annotation) not in TYPES:
            raise InputError(
                f"{notebook.name}, parameters cell, line {node.lineno}: write `name: type = literal`, "
                f"type one of {', '.join(TYPES)}"
            )
        meaning = lines[node.end_lineno - 1].partition("#")[2].strip()
        name, kind = node.target.id, ast.unparse(node.annotation)
        found[name] = Parameter(name, kind, ast.literal_eval(node.value), meaning)
    return found


def checked(declared: dict[str, Parameter], values: dict[str, Any], where: str) -> dict[str, Any]:
    """Defaults overridden by `values`; an unknown name, a wrong type or an impossible value is an InputError."""
    if unknown := [name for name in values if name not in declared]:
        near = difflib.get_close_matches(unknown[0], declared, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else f" (there are {', '.join(declared)})"
        raise InputError(f"{where}: unknown parameter {offenders(unknown)}{hint}")
    fields = {p.name: (TYPES[p.type], p.default) for p in declared.values()}
    model = create_model("Parameters", __config__=ConfigDict(extra="forbid", strict=True), **fields)
    try:
        found = model(**values).model_dump()
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise InputError(f"{where}: parameter {name!r} must be {declared[name].type}, is {first['input']!r}") from None
    for name, value in found.items():
        if problem := next((text for refused, text in REFUSED if refused(name, value, declared[name].default)), ""):
            raise InputError(f"{where}: parameter {name!r} {problem}, is {value!r}")
        if name.endswith("measures"):
            from interextra.evaluation import measures

            measures.check(value)
    return found


def _numbers(value: Any) -> list[float]:
    values = value if isinstance(value, list) else [value]
    return [item for item in values if isinstance(item, int | float) and not isinstance(item, bool)]


REFUSED: tuple[tuple[Callable[[str, Any, Any], bool], str], ...] = (
    (lambda name, value, default: value == [] and default != [], "must not be empty: nothing would be measured"),
    (lambda name, value, default: any(number < 0 for number in _numbers(value)), "must not be negative"),
    (lambda name, value, default: name in POSITIVE and value < 1, "must be at least 1"),
    (
        lambda name, value, default: isinstance(value, list) and len(value) > len(set(map(str, value))),
        "repeats a value",
    ),
)


def profile_parameters(root: Path, profile: str, notebook: Path, overrides: dict[str, Any]) -> dict[str, Any]:
    """What a notebook runs with: its defaults, then params/<profile>/<notebook>.yaml, then overrides; checked."""
    known = sorted(path.name for path in (root / "params").iterdir() if path.is_dir())
    if profile not in known:
        raise InputError(f"no profile {profile!r} under params/; there are {', '.join(known)}")
    declared, values = declared_parameters(notebook), {}
    path = root / "params" / profile / f"{notebook.stem}.yaml"
    if path.exists():
        try:
            values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except yaml.YAMLError as error:
            last = str(error).splitlines()[-1].strip()
            raise InputError(f"{path.relative_to(root)}: not valid YAML: {last}") from None
        if not isinstance(values, dict):
            raise InputError(f"{path.relative_to(root)}: must hold `name: value` lines")
        checked(declared, values, str(path.relative_to(root)))
    if "profile" in overrides:
        raise InputError(f"{notebook.stem}, -p: the profile is chosen by --profile (make run PROFILE=…)")
    return checked(declared, {**values, **overrides, "profile": profile}, f"{notebook.stem}, -p")


def output_name(profile: str, overrides: dict[str, Any], name: str) -> str:
    """The folder under outputs/ of a run: the profile's, or one of its own where parameters were changed.

    >>> output_name("mini", {}, ""), output_name("mini", {"collection": "beir:/tmp/my data", "seed": 2}, "")
    ('mini', 'mini-collection-beir-tmp-my-data-seed-2')
    """
    if name and not re.fullmatch(r"[\w.-]+", name):
        raise InputError(f"--name {name!r}: letters, digits, dots, - and _ only; it names a folder under outputs/")
    if name in ("cells", "lab", "reference"):
        raise InputError(f"--name {name!r} is taken under outputs/; choose another")
    changed = [f"{key}-{value}" for key, value in overrides.items()]
    return name or re.sub(r"[^\w.]+", "-", "-".join([profile, *changed])).strip("-")[:80]
