"""The notebooks of a profile as cells: in one place, or in each of several."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from interextra.notebooks.parameters import NotebookParameters
from interextra.site import collections, worlds
from interextra.site.notebook import Notebook
from interextra.site.parameters import profile_parameters
from interextra.site.places import OverPlaces
from interextra.site.repository import notebooks
from interextra.site.travel import CELLS, REFERENCE
from interextra.store import Cell, InputError, offenders

# a notebook, the folder of its values in the reference ("" in one place), and its parameters
Asked = tuple[Path, str, NotebookParameters]


def planned(
    root: Path,
    profile: str,
    only: str,
    overrides: dict[str, Any] | None = None,
    from_reference: bool = False,
    places: str = "",
) -> list[Cell]:
    """Return the cells of a profile: its notebooks.

    Of `worlds`, `fresh` and `real` they are those that have a file under params/; of `real` only
    where they run in the places asked for, or have committed values. All parameters are checked
    before the first plan is made.

    Parameters
    ----------
    root
        The repository.
    profile
        Its name.
    only
        Numbers or names of notebooks, separated by commas; empty: all.
    overrides
        Parameters of one notebook that change.
    from_reference
        Whether they are executed from the committed values, see `travel`.
    places
        Names of collections of `real`, separated by commas; empty: all, or those with committed
        values if it is executed from them.

    Raises
    ------
    InputError
        Overrides of several notebooks or of a profile with several places, an unknown notebook or
        collection, or one without committed values.
    """
    paths = notebooks(root, only)
    changes = overrides or {}
    has_places = profile in (*worlds.SEEDS, collections.PROFILE)
    if has_places:
        _refuse_overrides(profile, changes)
        paths = _with_parameters(root, profile, paths, only)
    elif changes.keys() - {"collection"} and len(paths) > 1:
        raise InputError("-p changes one notebook: name it with --only")
    asked = _asked(root, profile, paths, changes)
    asked = _in_places(root, profile, asked, places, from_reference)
    runs: dict[str, dict[str, Notebook]] = {}
    for path, place, parameters in asked:
        reference = _reference_of(profile, path, place) if from_reference else ""
        runs.setdefault(path.stem, {})[place] = Notebook.of(path, parameters, reference)
    names = [path.stem for path in paths]
    if from_reference:
        _refuse_without_values(root, profile, runs or dict.fromkeys(names, {}))
    elif not runs:
        raise InputError(f"--places {places}: {offenders(names)} does not run there")
    if not has_places:
        return [run for of_notebook in runs.values() for run in of_notebook.values()]
    return [_over_places(root, profile, name, by_place) for name, by_place in runs.items()]


def _reference_of(profile: str, notebook: Path, place: str) -> str:
    """Return the folder of a notebook's values in a place, under that of the reference."""
    return Path(profile, notebook.stem, place).as_posix()


def _in_places(
    root: Path, profile: str, asked: list[Asked], places: str, from_reference: bool
) -> list[Asked]:
    """Return those of the runs that are in the named places; of `real`, see `planned`.

    Raises
    ------
    InputError
        A place that is not there, or a profile whose places cannot be chosen.
    """
    if profile != collections.PROFILE:
        if places:
            raise InputError(f"--places {places}: of the profile {collections.PROFILE} only")
        return asked
    if places:
        chosen = places.split(",")
        unknown = set(chosen) - set(collections.places(root))
        if unknown:
            raise InputError(f"--places: {collections.FILE} has no {offenders(sorted(unknown))}")
        return [run for run in asked if run[1] in chosen]
    if from_reference:
        return [run for run in asked if _has_values(root, _reference_of(profile, *run[:2]))]
    return asked


def _has_values(root: Path, reference: str) -> bool:
    """Whether a folder of the reference has values that a notebook is executed from."""
    return (root / REFERENCE / reference / CELLS).is_file()


def _refuse_overrides(profile: str, changes: dict[str, Any]) -> None:
    """Raise an InputError for parameters of a profile with several places."""
    if changes:
        raise InputError(
            f"-p: the profile {profile} has places of its own; change its files under "
            f"params/{profile}"
        )


def _over_places(
    root: Path, profile: str, name: str, by_place: Mapping[str, Notebook]
) -> OverPlaces:
    """Return a notebook over its runs."""
    if profile in worlds.SEEDS:
        runs = tuple(by_place.values())
        return worlds.Worlds(name=name, runs=runs, seeds=worlds.SEEDS[profile])
    return collections.OverCollections.of(name, by_place, collections.places(root))


def _asked(
    root: Path, profile: str, paths: Sequence[Path], overrides: dict[str, Any]
) -> list[Asked]:
    """Return each run's notebook, the folder of its values in the reference, and its parameters."""
    if profile == collections.PROFILE:
        return collections.asked(root, paths)
    changes_by_place = {"": overrides}
    if profile in worlds.SEEDS:
        changes_by_place = {}
        for seed in worlds.SEEDS[profile]:
            changes_by_place[str(seed)] = {"collection": f"mini:seed={seed}"}
    asked = []
    for path in paths:
        for place, changes in changes_by_place.items():
            parameters = profile_parameters(root, profile, path, changes)
            asked.append((path, place, parameters))
    return asked


def _with_parameters(root: Path, profile: str, paths: Sequence[Path], only: str) -> list[Path]:
    """Return the notebooks that a profile with several places has."""
    files = sorted((root / "params" / profile).glob("[0-9][0-9]_*.yaml"))
    names = [file.stem for file in files]
    chosen = [path for path in paths if path.stem in names]
    if not chosen:
        raise InputError(f"--only {only}: the profile {profile} has {', '.join(names)}")
    return chosen


def _refuse_without_values(
    root: Path, profile: str, runs: Mapping[str, Mapping[str, Notebook]]
) -> None:
    """Raise an InputError for notebooks whose values are not committed."""
    absent = set()
    for name, by_place in runs.items():
        is_there = [_has_values(root, run.reference) for run in by_place.values()]
        if not is_there or not all(is_there):
            absent.add(name)
    if absent:
        raise InputError(
            f"{REFERENCE / profile} has no values of {offenders(sorted(absent))}: run without the "
            "reference, or name others with --only"
        )
