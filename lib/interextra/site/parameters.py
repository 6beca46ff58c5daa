"""Where the parameters of a run come from: the notebook's module, its profile, and the user.

The defaults are those of the notebook's class (`interextra.notebooks.parameters`), a profile's
file params/PROFILE/NOTEBOOK.yaml replaces some, and the user's own values go before both. All are
checked before anything runs.
"""

import difflib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from interextra.notebooks import module_of
from interextra.notebooks.fitting import fitted
from interextra.notebooks.parameters import NotebookParameters
from interextra.site.repository import notebooks
from interextra.store import InputError, digest, offenders

CHANGES_NO_RESULT = True  # parameters are part of a notebook's configuration, see `store.code`
BASE = "mini"  # the profile whose values are the defaults
TAKEN = r"cells|lab|reference|verify-.*|.*-from-reference"  # under outputs/
# of such a folder that the user names: a file system takes 255 bytes, some of which are ours
GIVEN_LENGTH = 200
NAME_LENGTH = 80  # of a folder under outputs/ that is named by what was changed

Kind = type[NotebookParameters]


def kind_of(notebook: Path) -> Kind:
    """Return the class of a notebook's parameters."""
    return module_of(notebook.stem).Parameters


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the `name: value` lines of a file of parameters; none where there is no file.

    Raises
    ------
    InputError
        No UTF-8, no YAML, or something else than names and values.
    """
    if not path.exists():
        return {}
    try:
        values = parse_yaml(path.read_text(encoding="utf-8"), path)
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8; save the file as UTF-8") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise InputError(f"{path}: must hold `name: value` lines")
    return values


def parse_yaml(text: str, where: object) -> Any:
    """Return a value of YAML.

    Parameters
    ----------
    text
        YAML.
    where
        What begins the message of an error: a file, an option.

    Raises
    ------
    InputError
        No YAML, or something that JSON cannot hold.
    """
    try:
        value = yaml.safe_load(text)
        json.dumps(value, ensure_ascii=False).encode()
    except yaml.YAMLError as error:
        reason = str(error).splitlines()[-1].strip()
        raise InputError(
            f"{where}: not readable as YAML; put what holds braces into quotes ({reason})"
        ) from None
    except UnicodeEncodeError:
        raise InputError(
            f"{where}: half of a surrogate pair (a cut emoji?); write the whole one"
        ) from None
    except RecursionError:
        raise InputError(f"{where}: nested too deeply; write it again") from None
    except (ValueError, TypeError) as error:
        # a day that no month has, a date, a set, bytes, a list inside of itself
        raise InputError(
            f"{where}: {error}; write text in quotes, numbers, true or false, and lists of them"
        ) from None
    return value


def read_overrides(root: Path, only: str, pairs: Sequence[str]) -> dict[str, Any]:
    """Return parameters as `-p NAME=VALUE` gives them, for the notebooks `only`.

    The value of a text parameter is taken as it is written, whatever YAML would make of it; all
    others are YAML.
    """
    overrides = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign:
            raise InputError(f"-p {pair}: write name=value")
        is_text = _types_of(name, notebooks(root, only)) == {str}
        if not is_text:
            text = parse_yaml(text, f"-p {pair}")
        overrides[name] = text
    return overrides


def _types_of(name: str, paths: Sequence[Path]) -> set[Any]:
    """Return the types of a parameter in some notebooks, those of them that have it."""
    fields_of_notebooks = [kind_of(path).model_fields for path in paths]
    return {fields[name].annotation for fields in fields_of_notebooks if name in fields}


def checked(kind: Kind, values: dict[str, Any], where: str) -> NotebookParameters:
    """Return a notebook's parameters: the defaults, and some values in their place.

    Parameters
    ----------
    kind
        Their class.
    values
        Name → value.
    where
        What begins the message of an error.

    Raises
    ------
    InputError
        An unknown name, a wrong type or an impossible value.
    """
    unknown = [name for name in values if name not in kind.model_fields]
    if unknown:
        hint = "there are " + ", ".join(kind.model_fields)
        for near in difflib.get_close_matches(unknown[0], kind.model_fields, 1):
            hint = f"did you mean {near!r}?"
        raise InputError(f"{where}: unknown parameter {offenders(unknown)} ({hint})")
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise InputError(f"{where}: {_problem(kind, error)}") from None


def _problem(kind: Kind, error: ValidationError) -> str:
    """Return what is wrong with the first parameter that is."""
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0])
    message = first["msg"].removeprefix("Value error, ")
    value = repr(first["input"])[:200]
    meaning = kind.meaning_of(name)
    return f"parameter {name!r}: {message}, is {value} ({meaning})"


def profile_parameters(
    root: Path, profile: str, notebook: Path, overrides: dict[str, Any]
) -> NotebookParameters:
    """Return what a notebook runs with: its defaults, its profile's values, then `overrides`.

    On another collection than the profile's, sizes, splits and kinds are fitted to it.

    Raises
    ------
    InputError
        An unknown profile, or what `checked` refuses.
    """
    folders = [path.name for path in (root / "params").iterdir() if path.is_dir()]
    known = sorted({BASE, *folders})
    if profile not in known:
        raise InputError(f"no profile {profile!r} under params/; there are {', '.join(known)}")
    if "profile" in overrides:
        raise InputError(
            f"{notebook.stem}, -p: the profile is chosen by --profile (make run PROFILE=…)"
        )
    kind = kind_of(notebook)
    where = f"params/{profile}/{notebook.stem}.yaml"
    values = read_yaml(root / where)
    usual = checked(kind, values, where)
    asked = values | overrides | {"profile": profile}
    given = checked(kind, asked, f"{notebook.stem}, -p")
    return _on_its_collection(given, usual, overrides, notebook.stem)


def _on_its_collection(
    given: NotebookParameters, usual: NotebookParameters, chosen: dict[str, Any], name: str
) -> NotebookParameters:
    """Return parameters, fitted to their collection where it is another than the profile's.

    Parameters
    ----------
    given
        The parameters.
    usual
        Those of the profile.
    chosen
        What the user set, which stays.
    name
        Of the notebook.
    """
    if given.collection == usual.collection:
        return given
    values = given.model_dump()
    fitting = fitted(values, usual.collection, chosen)
    return checked(type(given), values | fitting, f"{name}, on this collection")


def completed(root: Path, notebook: Path, variables: dict[str, Any]) -> NotebookParameters:
    """Return the parameters of a notebook that papermill or JupyterLab runs.

    They are completed as `interextra run` would complete them.

    Parameters
    ----------
    root
        The repository.
    notebook
        Its file.
    variables
        Name → value of the notebook's variables that are parameters. On another collection than
        the profile's, sizes, splits and kinds are fitted to it; what they set otherwise than the
        profile stays.

    Raises
    ------
    InputError
        They name a profile whose parameters they do not hold, so that the results would have a
        wrong name.
    """
    kind = kind_of(notebook)
    profile = variables["profile"]
    usual = profile_parameters(root, profile, notebook, {})
    missing = _missing(usual, kind(), variables)
    if missing:
        names = offenders(missing)
        command = f"interextra run --profile {profile} --only {notebook.stem[:2]}"
        raise InputError(
            f"{notebook.stem}: profile {profile!r} is named, but {names} are those of {BASE}. "
            f"Give its parameters, too: papermill … -f params/{profile}/{notebook.stem}.yaml, "
            f"or run it by `{command}`"
        )
    given = checked(kind, variables, notebook.stem)
    chosen = {}
    for name, value in given:
        usual_value = getattr(usual, name)
        if value != usual_value:
            chosen[name] = value
    return _on_its_collection(given, usual, chosen, notebook.stem)


def _missing(
    usual: NotebookParameters, default: NotebookParameters, variables: dict[str, Any]
) -> list[str]:
    """Return what a profile sets otherwise than by default, and some variables do not."""
    names = []
    for name, default_value in default:
        is_set = getattr(usual, name) != default_value
        is_default = variables.get(name, default_value) == default_value
        if name != "profile" and is_set and is_default:
            names.append(name)
    return names


def output_name(root: Path, profile: str, overrides: dict[str, Any], name: str) -> str:
    """Return the folder under outputs/ of a run.

    It is the profile's, or one of its own where parameters were changed. A name made of the changes
    ends with a digest of them where it alone could be that of others: cut, or made of more than
    words, numbers and lists of numbers. The file names of two collections must never give one
    folder.

    Raises
    ------
    InputError
        A name that leaves outputs/, that is taken there, or that is too long.
    """
    is_folder = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) and ".." not in name
    if name and not is_folder:
        raise InputError(
            f"--name {name!r}: letters, digits, dots, - and _ only, a letter or digit first, no "
            "two dots together; it names a folder under outputs/"
        )
    if len(name) > GIVEN_LENGTH:
        raise InputError(
            f"--name {name[:20]}…: {len(name)} characters; give at most {GIVEN_LENGTH}"
        )
    name = name or _name_of(profile, overrides)
    is_profile = (root / "params" / name).is_dir() or name == BASE
    is_taken = is_profile and (bool(overrides) or name != profile)
    if is_taken or re.fullmatch(TAKEN, name):
        raise InputError(
            f"--name {name} is taken under outputs/, as the names of profiles are; choose another"
        )
    return name


def _name_of(profile: str, overrides: dict[str, Any]) -> str:
    """Return a name made of the profile and of what was changed."""
    changes = [f"{key}-{value}" for key, value in overrides.items()]
    whole = "-".join([profile, *changes])
    name = re.sub(r"[^A-Za-z0-9_.]+|[.]{2,}", "-", whole).strip("-.")
    is_plain = re.fullmatch(r"[A-Za-z0-9_.,\[\] -]+", whole)
    if is_plain and len(name) <= NAME_LENGTH:
        return name
    beginning = name[: NAME_LENGTH - 9]
    return f"{beginning}-{digest(whole)[:8]}"
