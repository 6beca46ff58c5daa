"""The notebooks of a profile as cells: in one place, or in each of several."""

from collections.abc import Sequence
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


def planned(
    root: Path,
    profile: str,
    only: str,
    overrides: dict[str, Any] | None = None,
    from_reference: bool = False,
) -> list[Cell]:
    """Return the cells of a profile: its notebooks.

    Of `worlds` and `real` they are those that have a file under params/. All parameters are checked
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

    Raises
    ------
    InputError
        Overrides of several notebooks or of a profile with several places, an unknown notebook, or
        one without committed values.
    """
    paths = notebooks(root, only)
    changes = overrides or {}
    has_places = profile in (worlds.PROFILE, collections.PROFILE)
    if has_places:
        _refuse_overrides(profile, changes)
        paths = _with_parameters(root, profile, paths, only)
    elif changes.keys() - {"collection"} and len(paths) > 1:
        raise InputError("-p changes one notebook: name it with --only")
    runs = []
    for path, place, parameters in _asked(root, profile, paths, changes):
        reference = ""
        if from_reference:
            reference = Path(profile, path.stem, place).as_posix()
        runs.append(Notebook.of(path, parameters, reference))
    if from_reference:
        _refuse_without_values(root, profile, runs)
    if not has_places:
        return list(runs)
    return [_over_places(root, profile, path.stem, runs) for path in paths]


def _refuse_overrides(profile: str, changes: dict[str, Any]) -> None:
    """Raise an InputError for parameters of a profile with several places."""
    if changes:
        raise InputError(
            f"-p: the profile {profile} has places of its own; change its files under "
            f"params/{profile}"
        )


def _over_places(root: Path, profile: str, name: str, runs: Sequence[Notebook]) -> OverPlaces:
    """Return a notebook over those of some runs that are its own."""
    its_runs = tuple(run for run in runs if run.name == name)
    if profile == worlds.PROFILE:
        return worlds.Worlds(name=name, runs=its_runs)
    return collections.OverCollections.of(name, its_runs, collections.places(root))


def _asked(
    root: Path, profile: str, paths: Sequence[Path], overrides: dict[str, Any]
) -> list[tuple[Path, str, NotebookParameters]]:
    """Return each run's notebook, the folder of its values in the reference, and its parameters."""
    if profile == collections.PROFILE:
        return collections.asked(root, paths)
    changes_by_place = {"": overrides}
    if profile == worlds.PROFILE:
        changes_by_place = {}
        for seed in worlds.SEEDS:
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


def _refuse_without_values(root: Path, profile: str, runs: Sequence[Notebook]) -> None:
    """Raise an InputError for notebooks whose values are not committed."""
    absent = set()
    for run in runs:
        values = root / REFERENCE / run.reference / CELLS
        if not values.is_file():
            absent.add(run.name)
    if absent:
        raise InputError(
            f"{REFERENCE / profile} has no values of {offenders(sorted(absent))}: run without the "
            "reference, or name others with --only"
        )
