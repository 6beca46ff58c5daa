"""Parameters of a notebook: read from its own parameters cell, overridden by a profile, checked before anything runs.

papermill takes a misspelt key silently; here an unknown or ill-typed one is an error that names it.
"""

import ast
import difflib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ConfigDict, ValidationError, create_model

from interextra.ground.errors import InputError, offenders

TYPES = {
    "str": str, "int": int, "float": float, "bool": bool, "list[str]": list[str], "list[int]": list[int],
    "list[float]": list[float],
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """One line of a parameters cell: `name: type = literal  # meaning`."""

    name: str
    type: str
    default: Any
    meaning: str


def repository_root(start: Path | None = None) -> Path:
    """The folder that holds notebooks/ and params/: the working directory or one above it."""
    start = (start or Path.cwd()).resolve()
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
    lines = source.split("\n")
    found = {}
    for node in ast.parse(source).body:
        if not isinstance(node, ast.AnnAssign) or ast.unparse(node.annotation) not in TYPES:
            raise InputError(
                f"{notebook.name}, parameters cell, line {node.lineno}: write `name: type = literal`, "
                f"type one of {', '.join(TYPES)}"
            )
        comment = lines[node.end_lineno - 1].partition("#")[2].strip()
        name = node.target.id
        found[name] = Parameter(name, ast.unparse(node.annotation), ast.literal_eval(node.value), comment)
    return found


def checked(declared: dict[str, Parameter], values: dict[str, Any], where: str) -> dict[str, Any]:
    """Defaults overridden by `values`; an unknown name or a wrong type is an InputError that names it."""
    unknown = [name for name in values if name not in declared]
    if unknown:
        near = difflib.get_close_matches(unknown[0], declared, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else f" (there are {', '.join(declared)})"
        raise InputError(f"{where}: unknown parameter {offenders(unknown)}{hint}")
    fields = {p.name: (TYPES[p.type], p.default) for p in declared.values()}
    model = create_model("Parameters", __config__=ConfigDict(extra="forbid", strict=True), **fields)
    for name, value in values.items():
        if value == [] and declared[name].default != []:
            raise InputError(f"{where}: parameter {name!r} is an empty list: nothing would be measured")
        if any(isinstance(v, int) and v < 0 for v in (value if isinstance(value, list) else [value])):
            raise InputError(f"{where}: parameter {name!r} must not be negative, is {value!r}")
    try:
        return model(**values).model_dump()
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise InputError(f"{where}: parameter {name!r} must be {declared[name].type}, is {first['input']!r}") from None


def profile_parameters(root: Path, profile: str, notebook: Path, overrides: dict[str, Any] | None = None) -> dict:
    """What a notebook runs with: its defaults, then params/<profile>/<notebook>.yaml, then overrides; checked."""
    folder = root / "params" / profile
    if not folder.is_dir():
        have = sorted(path.name for path in (root / "params").iterdir() if path.is_dir())
        raise InputError(f"no profile {profile!r} under params/; there are {', '.join(have)}")
    declared = declared_parameters(notebook)
    path = folder / f"{notebook.stem}.yaml"
    values: dict[str, Any] = {}
    if path.exists():
        try:
            values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except yaml.YAMLError as error:
            raise InputError(
                f"{path.relative_to(root)}: not valid YAML: {str(error).splitlines()[-1].strip()}"
            ) from None
        if not isinstance(values, dict):
            raise InputError(f"{path.relative_to(root)}: must hold `name: value` lines")
        values = checked(declared, values, str(path.relative_to(root)))
    if "profile" in (overrides or {}):
        raise InputError(
            f"{notebook.stem}, -p: the profile is chosen by --profile (make run PROFILE={overrides['profile']})"
        )
    return checked(declared, {**values, **(overrides or {}), "profile": profile}, f"{notebook.stem}, -p")


def data_folder() -> Path:
    """Folder of the real data: the environment variable INTEREXTRA_DATA."""
    given = os.environ.get("INTEREXTRA_DATA", "")
    if not given:
        raise InputError("real data needed: set the environment variable INTEREXTRA_DATA to their folder")
    folder = Path(given).expanduser().resolve()
    if not folder.is_dir():
        raise InputError(f"real data: INTEREXTRA_DATA={given} is not a folder")
    return folder
