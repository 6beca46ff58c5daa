"""The notebooks of a profile as cells; `worlds` has each in several generated worlds, and its
tables over them.

A generated world is random. How sure an effect is, only several say: the mean over worlds, with
Student's interval.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from interextra.claims.judgement import gate, over_worlds, pooled
from interextra.site.notebook import Notebook
from interextra.site.parameters import notebooks, profile_parameters
from interextra.site.travel import CELLS, REFERENCE
from interextra.store import Cell, InputError, Store, offenders, provenance, write_json

PROFILE = "worlds"
SEEDS = tuple(
    range(31, 45)
)  # fresh: nothing was chosen by a look at one; 43 and 44 came later, see RESULTS.md


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
        tables = [
            {path.name: pd.read_csv(path) for path in (store[run] / "tables").glob("*.csv")}
            for run in self.runs
        ]
        found = {name: [of[name] for of in tables if name in of] for name in set().union(*tables)}
        made = {
            name: pooled(frames)
            for name, frames in found.items()
            if name not in ("claims.csv", "gate.csv")
        }
        if "claims.csv" in found:
            gates = [of.get("gate.csv", gate(pd.DataFrame())) for of in tables]
            made["claims.csv"] = over_worlds(found["claims.csv"], gates)
            made["gate.csv"] = pd.concat(
                gates, keys=list(self.by_place), names=["world"]
            ).reset_index("world")
        for name, table in made.items():
            if len(table):
                table.to_csv(
                    folder / "tables" / name, index=False, float_format="%.10g", lineterminator="\n"
                )
        write_json(folder / "metrics.json", {})
        noted = {
            "parameters": json.loads(self.runs[0].parameters),
            "worlds": len(self.runs),
            "untrained tables": [],
        }
        write_json(
            folder / "provenance.json", provenance.record(store.root.parent.parent, method=noted)
        )


def planned(
    root: Path,
    profile: str,
    only: str,
    overrides: dict[str, Any] | None = None,
    from_reference: bool = False,
) -> list[Cell]:
    """The cells of a profile: its notebooks, or of `worlds` those that have a file under
    params/worlds.

    `overrides` change parameters of one notebook. All parameters are checked before the first plan
    is made. `from_reference`: executed from the committed values, see `travel`; InputError where a
    notebook has none.
    """
    # `changes`: by the folder of its values in the reference, what a notebook's run changes
    chosen, changes = notebooks(root, only), {"": overrides or {}}
    if profile == PROFILE:
        if overrides:
            raise InputError(
                "-p: the profile worlds has its own worlds; change its files under params/worlds"
            )
        files = [path.stem for path in sorted((root / "params" / PROFILE).glob("*.yaml"))]
        if not (chosen := [path for path in chosen if path.stem in files]):
            raise InputError(f"--only {only}: the profile worlds has {', '.join(files)}")
        changes = {str(seed): {"collection": f"mini:seed={seed}"} for seed in SEEDS}
    elif set(overrides or ()) - {"collection"} and len(chosen) > 1:
        raise InputError("-p changes one notebook: name it with --only")
    pairs = [(path, place) for path in chosen for place in changes]
    checked = [profile_parameters(root, profile, path, changes[place]) for path, place in pairs]
    references = [
        Path(profile, path.stem, place).as_posix() if from_reference else ""
        for path, place in pairs
    ]
    runs = [
        Notebook.of(path, *given)
        for (path, _), *given in zip(pairs, checked, references, strict=True)
    ]
    absent = {run.name for run in runs if not (root / REFERENCE / run.reference / CELLS).is_file()}
    if from_reference and absent:
        told = f"{REFERENCE / profile} has no values of {offenders(sorted(absent))}"
        raise InputError(f"{told}: run without the reference, or name others with --only")
    if profile != PROFILE:
        return runs
    return [
        Worlds(name=path.stem, runs=tuple(run for run in runs if run.name == path.stem))
        for path in chosen
    ]
