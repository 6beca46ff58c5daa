"""Parameters of a notebook: what a reader changes in its parameters cell, the others in
params/mini/NOTEBOOK.yaml.

Other profiles override both; all are checked before anything runs. papermill takes a misspelt key
silently; here an unknown or ill-typed one is an error that names it.
"""

import ast
import difflib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import TypeAdapter, ValidationError

from interextra.store import InputError, digest, offenders

CHANGES_NO_RESULT = True  # parameters are part of a notebook's configuration, see `store.code`
TYPES = {"str": str, "int": int, "float": float, "bool": bool}
TYPES |= {f"list[{name}]": list[kind] for name, kind in TYPES.items() if name != "bool"}
TYPES |= {
    "list": list[str | int | float | dict[str, Any]],
    "dict": dict[str, list[str]],
}  # of systems, of names
BASE = "mini"  # the profile whose values are the defaults
LARGE = 10**9
# Least and greatest value of a number, by its parameter; what a collection bounds (sizes) is
# checked where it is read.
_BOUNDED = {
    (0, 2**31 - 1): "seed seeds other_seeds grid_seeds bucket_seeds",  # faiss takes no larger one
    (40, 1_000_000): "n_boot n_tau",  # fewer have no 2.5 % percentile
    (
        1,
        1_000_000,
    ): "depth sample_dev pretraining_steps native_clusters n_test test_size draw_train topic_size",
    (1, LARGE): "sizes grid_sizes trained_sizes more_sizes",
    (2, 1_000): "k n_topics annotators",
    (1, 1_000): "bins candidates neighbours real_neighbours map_queries orders n_draws",
    (0, 1_000): "grid_draws test_draws",  # 0: none
    (1, 100_000): "rerank_depth efforts pool_depth own_steps",
    (1, 10): "recall_relevance",
    (0, 1): "error_rate error_rates doses margin floor",
    (1e-9, 1): "pretraining_rate loss",
    (1e-9, LARGE): "own_size",
}
BOUNDS = {name: bounds for bounds, names in _BOUNDED.items() for name in names.split()}
TAKEN = r"cells|lab|reference|verify-.*|.*-from-reference"  # under outputs/
# of such a folder that the user names: a file system takes 255 bytes, some of which are ours
GIVEN_LENGTH = 200
NAME_LENGTH = 80  # of a folder under outputs/ that is named by what was changed


class Parameter(NamedTuple):
    """One line of a parameters cell, `name: type = literal  # meaning`, or of YAML, `name: literal
    # meaning`.
    """

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
    raise InputError(
        f"{start} is not inside the repository: start from the folder with notebooks/ and params/"
    )


def notebooks(root: Path, only: str = "") -> list[Path]:
    """Numbered notebooks in reading order; `only` is a comma-separated list of numbers ("01,02") or
    names.
    """
    found = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    wanted = [part.strip() for part in only.split(",") if part.strip()]
    chosen = [
        path for path in found if not wanted or path.stem[:2] in wanted or path.stem in wanted
    ]
    unknown = [
        part for part in wanted if not any(part in (path.stem[:2], path.stem) for path in found)
    ]
    if unknown or not chosen:
        raise InputError(
            f"no notebook {offenders(unknown)}; there are {', '.join(path.stem for path in found)}"
        )
    return chosen


def declared_parameters(notebook: Path) -> dict[str, Parameter]:
    """The declarations in the notebook's parameters cell and in params/mini/NOTEBOOK.yaml, by
    name.
    """
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    sources = [
        "".join(cell["source"])
        for cell in cells
        if "parameters" in cell["metadata"].get("tags", [])
    ]
    if len(sources) != 1:
        raise InputError(
            f"{notebook.name}: needs exactly one cell tagged `parameters`, has {len(sources)}"
        )
    lines, found = sources[0].split("\n"), {}
    for node in ast.parse(sources[0]).body:
        if (
            not isinstance(node, ast.AnnAssign)
            or (kind := ast.unparse(node.annotation)) not in TYPES
        ):
            place = f"{notebook.name}, parameters cell, line {node.lineno}"
            raise InputError(
                f"{place}: write `name: type = literal`, type one of {', '.join(TYPES)}"
            )
        meaning = lines[node.end_lineno - 1].partition("#")[2].strip()
        found[node.target.id] = Parameter(
            node.target.id, kind, ast.literal_eval(node.value), meaning
        )
    path = notebook.parent.parent / "params" / BASE / f"{notebook.stem}.yaml"
    values = read_yaml(path)
    if twice := found.keys() & values.keys():
        raise InputError(
            f"{path}: {offenders(sorted(twice))} is declared in the notebook, too; change it there"
        )
    meanings = dict(
        re.findall(r"^(\w+):.*?  # (.*)", path.read_text(encoding="utf-8"), re.M) if values else []
    )
    return found | {
        name: Parameter(name, _type(name, of), of, meanings.get(name, ""))
        for name, of in values.items()
    }


def read_yaml(path: Path) -> dict[str, Any]:
    """The `name: value` lines of a file of parameters; none where there is no file."""
    try:
        values = parse_yaml(path.read_text(encoding="utf-8"), path) or {} if path.exists() else {}
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8; save the file as UTF-8") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: must hold `name: value` lines")
    return values


def parse_yaml(text: str, where: object) -> Any:
    """A value of YAML; InputError, which `where` begins, for what is none, or is nothing that JSON
    can hold.
    """
    try:
        value = yaml.safe_load(text)
        json.dumps(value, ensure_ascii=False).encode()
    except yaml.YAMLError as error:
        told = str(error).splitlines()[-1].strip()
        raise InputError(
            f"{where}: not readable as YAML; put what holds braces into quotes ({told})"
        ) from None
    except UnicodeEncodeError:
        raise InputError(
            f"{where}: half of a surrogate pair (a cut emoji?); write the whole one"
        ) from None
    except RecursionError:
        raise InputError(f"{where}: nested too deeply; write it again") from None
    except (
        ValueError,
        TypeError,
    ) as error:  # a day that no month has, a date, a set, bytes, a list inside of itself
        raise InputError(
            f"{where}: {error}; write text in quotes, numbers, true or false, and lists of them"
        ) from None
    return value


def read_overrides(root: Path, only: str, pairs: Sequence[str]) -> dict[str, Any]:
    """Parameters as `-p NAME=VALUE` gives them, for the notebooks `only`.

    The value of a text parameter is taken as it is written, whatever YAML would make of it; all
    others are YAML.
    """
    declared = (
        [declared_parameters(notebook) for notebook in notebooks(root, only)] if pairs else []
    )
    found = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign:
            raise InputError(f"-p {pair}: write name=value")
        kinds = {parameters[name].type for parameters in declared if name in parameters}
        found[name] = text if kinds == {"str"} else parse_yaml(text, f"-p {pair}")
    return found


def _type(name: str, value: Any) -> str:
    """The key of TYPES for a value in YAML; a list of systems, and one that is empty or mixed, is
    any list.
    """
    kinds = {type(entry).__name__ for entry in value} if isinstance(value, list) else set()
    named = {
        f"list[{kind}]" for kind in kinds if name not in ("recipes", "strategies", "shifts")
    } & TYPES.keys()
    return named.pop() if len(kinds) == len(named) == 1 else type(value).__name__


def checked(declared: dict[str, Parameter], values: dict[str, Any], where: str) -> dict[str, Any]:
    """Defaults overridden by `values`; an unknown name, a wrong type or an impossible value is an
    InputError.
    """
    if unknown := [name for name in values if name not in declared]:
        near = difflib.get_close_matches(unknown[0], declared, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else f" (there are {', '.join(declared)})"
        raise InputError(f"{where}: unknown parameter {offenders(unknown)}{hint}")
    found = {}
    for name, parameter in declared.items():
        value = values.get(name, parameter.default)
        try:
            found[name] = TypeAdapter(TYPES[parameter.type]).validate_python(value, strict=True)
        except ValidationError as error:
            wrong = error.errors()[0]["input"]
            raise InputError(
                f"{where}: parameter {name!r} must be {parameter.type}, is {wrong!r}"
            ) from None
        if problem := _problem(parameter, value):
            raise InputError(f"{where}: parameter {name!r} {problem}, is {value!r}")
        if name.endswith(("measure", "measures")):
            from interextra.measures import evaluate as measures

            measures.check(value if isinstance(value, list) else [value])
    return found


def _problem(parameter: Parameter, value: Any) -> str:
    """Why a value of the right type cannot be meant, or nothing."""
    values = value if isinstance(value, list) else [value]
    if (
        not values and parameter.default != [] and parameter.name not in ("gate_splits", "doses")
    ):  # they ask for no run
        return "must not be empty: nothing would be measured"
    if len(values) > len(set(map(str, values))):
        return "repeats a value"
    if any(isinstance(one, (str, bool, dict)) for one in values):
        return ""
    low, high = BOUNDS.get(parameter.name, (0, LARGE))  # 0: as the recipe says, all, none
    within = all(low <= number <= high for number in values)  # NaN is not
    return "" if within else f"must be {low:,} to {high:,} ({parameter.meaning})"


def profile_parameters(
    root: Path, profile: str, notebook: Path, overrides: dict[str, Any]
) -> dict[str, Any]:
    """What a notebook runs with: its defaults, then params/<profile>/<notebook>.yaml, then
    overrides; checked.
    """
    known = sorted(path.name for path in (root / "params").iterdir() if path.is_dir())
    if profile not in known:
        raise InputError(f"no profile {profile!r} under params/; there are {', '.join(known)}")
    declared, where = declared_parameters(notebook), f"params/{profile}/{notebook.stem}.yaml"
    values = read_yaml(root / where)
    usual = checked(declared, values, where)
    if "profile" in overrides:
        raise InputError(
            f"{notebook.stem}, -p: the profile is chosen by --profile (make run PROFILE=…)"
        )
    given = checked(declared, {**values, **overrides, "profile": profile}, f"{notebook.stem}, -p")
    if usual.get("collection") != given.get("collection"):
        from interextra.notebooks.fitting import fitted

        given |= fitted(given, usual["collection"], overrides)
        checked(declared, given, f"{notebook.stem}, on this collection")
    return given


def completed(root: Path, notebook: Path, values: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a notebook that papermill or JupyterLab runs, as `interextra run` would
    complete them.

    `values`: name → value of the notebook's variables that are parameters. On another collection
    than the profile's, sizes, splits and kinds are fitted to it; what `values` set otherwise than
    the profile stays. InputError: they name a profile whose parameters they do not hold, so that
    the results would have a wrong name.
    """
    declared, profile = declared_parameters(notebook), values["profile"]
    usual = profile_parameters(root, profile, notebook, {})
    default = {name: parameter.default for name, parameter in declared.items()}
    differs = [
        name for name, value in usual.items() if name != "profile" and value != default[name]
    ]
    missing = [name for name in differs if values.get(name, default[name]) == default[name]]
    if missing:
        number = notebook.stem[:2]
        raise InputError(
            f"{notebook.stem}: profile {profile!r} is named, but {offenders(missing)} are those of {BASE}. Give its "
            f"parameters, too: papermill … -f params/{profile}/{notebook.stem}.yaml, or run it by "
            f"`interextra run --profile {profile} --only {number}`"
        )
    given = checked(declared, values, notebook.stem)
    if usual.get("collection") == given.get("collection"):
        return given
    from interextra.notebooks.fitting import fitted

    set_here = {name: value for name, value in given.items() if value != usual[name]}
    fitting = fitted(given, usual["collection"], set_here)
    return checked(declared, given | fitting, f"{notebook.stem}, on this collection")


def output_name(root: Path, profile: str, overrides: dict[str, Any], name: str) -> str:
    """The folder under outputs/ of a run: the profile's, or one of its own where parameters were
    changed.

    A name made of the changes ends with a digest of them where it alone could be that of others:
    cut, or made of more than words, numbers and lists of numbers. The file names of two collections
    must never give one folder.
    """
    if name and (not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or ".." in name):
        allowed = (
            "letters, digits, dots, - and _ only, a letter or digit first, no two dots together"
        )
        raise InputError(f"--name {name!r}: {allowed}; it names a folder under outputs/")
    if len(name) > GIVEN_LENGTH:
        raise InputError(
            f"--name {name[:20]}…: {len(name)} characters; give at most {GIVEN_LENGTH}"
        )
    whole = "-".join([profile, *(f"{key}-{value}" for key, value in overrides.items())])
    made = re.sub(r"[^A-Za-z0-9_.]+|[.]{2,}", "-", whole).strip("-.")
    if len(made) > NAME_LENGTH or not re.fullmatch(r"[A-Za-z0-9_.,\[\] -]+", whole):
        made = f"{made[: NAME_LENGTH - 9]}-{digest(whole)[:8]}"
    name = name or made
    if re.fullmatch(TAKEN, name) or (
        (root / "params" / name).is_dir() and (overrides or name != profile)
    ):
        raise InputError(
            f"--name {name} is taken under outputs/, as the names of profiles are; choose another"
        )
    return name
