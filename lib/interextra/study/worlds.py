"""The notebooks of a profile as cells; `worlds` has each in several generated worlds, and its tables over them.

A generated world is random, and so is a training in it. One world shows the method; how sure an effect is, only several
of them say: the mean over worlds, with Student's interval.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from interextra.ground import provenance
from interextra.ground.cells import Cell, Store
from interextra.ground.effects import across
from interextra.ground.errors import InputError, offenders
from interextra.ground.files import write_json
from interextra.papers.verdicts import over_worlds
from interextra.study.notebook import Notebook
from interextra.study.parameters import notebooks, profile_parameters
from interextra.study.travel import CELLS, REFERENCE

PROFILE = "worlds"
SEEDS = tuple(range(11, 23))  # fresh: nothing was chosen by a look at one of them
DERIVED = ("p_value", "p_holm", "sd_trainings", "published", "verdict")  # columns of one world only


class Worlds(Cell):
    """`tables/` of one notebook over its runs in several worlds: see `pooled`."""

    name: str
    runs: tuple[Notebook, ...]

    @property
    def by_place(self) -> dict[str, Notebook]:
        """The notebook in each world, by the folder of its values in the reference."""
        return dict(zip(map(str, SEEDS), self.runs, strict=True))

    def title(self) -> str:
        return f"notebook {self.name} over {len(self.runs)} worlds"

    def build(self, folder: Path, store: Store) -> None:
        (folder / "tables").mkdir()
        paths = [path for run in self.runs for path in (store[run] / "tables").glob("*.csv")]
        for name in sorted({path.name for path in paths}):
            pool = over_worlds if name == "claims.csv" else pooled
            if len(made := pool([pd.read_csv(path) for path in paths if path.name == name])):
                made.to_csv(folder / "tables" / name, index=False, float_format="%.10g", lineterminator="\n")
        write_json(folder / "metrics.json", {})
        noted = {"parameters": json.loads(self.runs[0].parameters), "worlds": len(self.runs), "untrained tables": []}
        write_json(folder / "provenance.json", provenance.record(store.root.parent.parent, method=noted))


def planned(
    root: Path, profile: str, only: str, overrides: dict[str, Any] | None = None, from_reference: bool = False
) -> list[Cell]:
    """The cells of a profile: its notebooks, or of `worlds` those that have a file under params/worlds.

    `overrides` change parameters of one notebook. All parameters are checked before the first plan is made.
    `from_reference`: executed from the committed values, see `travel`; InputError where a notebook has none.
    """
    chosen, changes = notebooks(root, only), {"": overrides or {}}
    if profile == PROFILE:
        if overrides:
            raise InputError("-p: the profile worlds has its own worlds; change its files under params/worlds")
        files = [path.stem for path in sorted((root / "params" / PROFILE).glob("*.yaml"))]
        if not (chosen := [path for path in chosen if path.stem in files]):
            raise InputError(f"--only {only}: the profile worlds has {', '.join(files)}")
        changes = {str(seed): {"collection": f"mini:seed={seed}"} for seed in SEEDS}
    elif overrides and len(chosen) > 1:
        raise InputError("-p changes one notebook: name it with --only")
    given = {path: [profile_parameters(root, profile, path, one) for one in changes.values()] for path in chosen}
    cells = []
    for path, settings in given.items():
        folders = [Path(profile, path.stem, place).as_posix() if from_reference else "" for place in changes]
        runs = tuple(Notebook.of(path, *pair) for pair in zip(settings, folders, strict=True))
        cells.append(Worlds(name=path.stem, runs=runs) if profile == PROFILE else runs[0])
    needed = {run.reference: run.name for cell in cells for run in cell.by_place.values() if from_reference}
    if absent := {name for place, name in needed.items() if not (root / REFERENCE / place / CELLS).is_file()}:
        told = f"{REFERENCE / profile} has no values of {offenders(sorted(absent))}"
        raise InputError(f"{told}: run without the reference, or name others with --only")
    return cells


def pooled(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """One table of the tables of several worlds, of those with an effect and its interval; empty for others.

    The effect is the column before `low`; labels are columns of words, and of numbers that do not differ between the
    worlds. Returns labels, the effect, low, high (Student's, plain 95 %), least, most, n of the rows that are in every
    world.

    >>> table = pd.DataFrame({"model": ["a"], "loss": [0.2], "low": [0.1], "high": [0.3], "n_queries": [9]})
    >>> pooled([table, table.assign(loss=0.4)])[["model", "loss", "least", "most", "n"]].values.tolist()
    [['a', 0.30000000000000004, 0.2, 0.4, 2]]
    """
    if not all({"low", "high"} <= set(frame) for frame in frames):
        return pd.DataFrame()
    effect = frames[0].columns[frames[0].columns.get_loc("low") - 1]
    every = pd.concat([frame.assign(world=world) for world, frame in enumerate(frames)], ignore_index=True)
    measured = {effect, "low", "high", "n_queries", "n_trainings", *DERIVED}
    labels = [name for name in frames[0] if name not in measured and _tells_apart([frame[name] for frame in frames])]
    if not labels or any(frame.duplicated(labels).any() for frame in frames):
        return pd.DataFrame()
    found = across(every, "world", labels, effect)
    return found[found["n"] == len(frames)].reset_index(drop=True)


def _tells_apart(columns: list[pd.Series]) -> bool:
    """Whether a column says which row this is: words, or numbers that the worlds share (sizes, shares of a design)."""
    values = [column.dropna() for column in columns]
    shared = set(max(values, key=len))
    return not all(map(pd.api.types.is_numeric_dtype, values)) or all(set(column) <= shared for column in values)
