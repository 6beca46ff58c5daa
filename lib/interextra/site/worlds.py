"""The notebooks of a profile as cells; `worlds` has each in several generated worlds.

A generated world is random. How sure an effect is, only several say: the mean over worlds, with
Student's interval.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from interextra.claims.judgement import gate, over_worlds, pooled
from interextra.notebooks.parameters import NotebookParameters
from interextra.site.notebook import Notebook
from interextra.site.parameters import profile_parameters
from interextra.site.repository import notebooks
from interextra.site.travel import CELLS, REFERENCE
from interextra.store import Cell, InputError, Store, offenders, provenance, write_json

PROFILE = "worlds"
# fresh: nothing was chosen by a look at one; 43 and 44 came later, see RESULTS.md
SEEDS = tuple(range(31, 45))


class Worlds(Cell):
    """`tables/` of one notebook over its runs in several worlds: see `pooled`."""

    name: str
    runs: tuple[Notebook, ...]

    @property
    def by_place(self) -> dict[str, Notebook]:
        """The notebook in each world, by the folder of its values in the reference."""
        return dict(zip(map(str, SEEDS), self.runs, strict=True))

    def title(self) -> str:
        """Return what a reader calls it."""
        return f"notebook {self.name} over {len(self.runs)} worlds"

    def build(self, folder: Path, store: Store) -> None:
        """Write the tables over the worlds."""
        (folder / "tables").mkdir()
        for name, table in self._pooled(store).items():
            if len(table):
                path = folder / "tables" / name
                table.to_csv(path, index=False, float_format="%.10g", lineterminator="\n")
        write_json(folder / "metrics.json", {})
        method = {
            "parameters": json.loads(self.runs[0].parameters),
            "worlds": len(self.runs),
            "untrained tables": [],
        }
        record = provenance.record(store.root.parent.parent, method=method)
        write_json(folder / "provenance.json", record)

    def _pooled(self, store: Store) -> dict[str, pd.DataFrame]:
        """Return the tables over the worlds by their files."""
        tables = self._tables_of_worlds(store)
        claims = tables.pop("claims.csv", {})
        gates = tables.pop("gate.csv", {})
        over_all = {}
        for name, table_of_world in tables.items():
            over_all[name] = pooled(list(table_of_world.values()))
        if claims:
            no_gate = gate(pd.DataFrame())
            every_gate = {world: gates.get(world, no_gate) for world in self.by_place}
            gate_frames = list(every_gate.values())
            over_all["claims.csv"] = over_worlds(list(claims.values()), gate_frames)
            labelled = pd.concat(every_gate, names=["world"])
            over_all["gate.csv"] = labelled.reset_index("world")
        return over_all

    def _tables_of_worlds(self, store: Store) -> dict[str, dict[str, pd.DataFrame]]:
        """Return the file of a table → world → the table there."""
        tables: dict[str, dict[str, pd.DataFrame]] = {}
        for world, run in self.by_place.items():
            for path in (store[run] / "tables").glob("*.csv"):
                tables.setdefault(path.name, {})[world] = pd.read_csv(path)
        return tables


def planned(
    root: Path,
    profile: str,
    only: str,
    overrides: dict[str, Any] | None = None,
    from_reference: bool = False,
) -> list[Cell]:
    """Return the cells of a profile: its notebooks.

    Of `worlds` they are those that have a file under params/worlds. All parameters are checked
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
        Overrides of several notebooks or of worlds, an unknown notebook, or one without committed
        values.
    """
    paths = notebooks(root, only)
    changes = overrides or {}
    if profile == PROFILE:
        if changes:
            raise InputError(
                "-p: the profile worlds has its own worlds; change its files under params/worlds"
            )
        paths = _with_worlds(root, paths, only)
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
    if profile != PROFILE:
        return list(runs)
    return [_over_runs(path.stem, runs) for path in paths]


def _over_runs(name: str, runs: Sequence[Notebook]) -> Worlds:
    """Return a notebook over those of some runs that are its own."""
    its_runs = tuple(run for run in runs if run.name == name)
    return Worlds(name=name, runs=its_runs)


def _asked(
    root: Path, profile: str, paths: Sequence[Path], overrides: dict[str, Any]
) -> list[tuple[Path, str, NotebookParameters]]:
    """Return each run's notebook, the folder of its values in the reference, and its parameters."""
    changes_by_place = {"": overrides}
    if profile == PROFILE:
        changes_by_place = {str(seed): {"collection": f"mini:seed={seed}"} for seed in SEEDS}
    asked = []
    for path in paths:
        for place, changes in changes_by_place.items():
            parameters = profile_parameters(root, profile, path, changes)
            asked.append((path, place, parameters))
    return asked


def _with_worlds(root: Path, paths: Sequence[Path], only: str) -> list[Path]:
    """Return the notebooks that the profile worlds has."""
    files = sorted((root / "params" / PROFILE).glob("*.yaml"))
    names = [file.stem for file in files]
    chosen = [path for path in paths if path.stem in names]
    if not chosen:
        raise InputError(f"--only {only}: the profile worlds has {', '.join(names)}")
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
