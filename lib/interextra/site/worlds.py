"""Notebooks in several generated worlds.

A generated world is random. How sure an effect is, only several say: the mean over worlds, with
Student's interval.
"""

import pandas as pd

from interextra.claims.judgement import gate, over_worlds, pooled
from interextra.site.notebook import Notebook
from interextra.site.places import OverPlaces, Tables

# Profile → its worlds. Nothing was chosen by a look at one; 43 and 44 came later, see RESULTS.md.
# What was asked after a look at those of `worlds` is asked in those of `fresh`.
SEEDS = {"worlds": tuple(range(31, 45)), "fresh": tuple(range(45, 59))}


class Worlds(OverPlaces):
    """`tables/` of one notebook over its runs in several worlds: see `pooled`."""

    seeds: tuple[int, ...]

    @property
    def by_place(self) -> dict[str, Notebook]:
        """The notebook in each world, by the folder of its values in the reference."""
        return dict(zip(map(str, self.seeds), self.runs, strict=True))

    def title(self) -> str:
        """Return what a reader calls it."""
        return f"notebook {self.name} over {len(self.runs)} worlds"

    def over_places(self, tables: Tables) -> dict[str, pd.DataFrame]:
        """Return the tables over the worlds by their files."""
        over_all = {}
        for name, table_of_world in tables.items():
            if name not in ("claims.csv", "gate.csv"):
                over_all[name] = pooled(list(table_of_world.values()))
        claims = tables.get("claims.csv", {})
        gates = tables.get("gate.csv", {})
        if claims:
            no_gate = gate(pd.DataFrame())
            every_gate = {world: gates.get(world, no_gate) for world in self.by_place}
            gate_frames = list(every_gate.values())
            over_all["claims.csv"] = over_worlds(list(claims.values()), gate_frames)
            labelled = pd.concat(every_gate, names=["world"])
            over_all["gate.csv"] = labelled.reset_index("world")
        return over_all
