"""A notebook that runs in several places, such as generated worlds, and what they say together."""

import json
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from interextra.site.notebook import Notebook
from interextra.store import Cell, Store, provenance, write_json

Tables = Mapping[str, Mapping[str, pd.DataFrame]]  # file of a table → place → the table there


class OverPlaces(Cell):
    """`tables/` of one notebook over its runs in several places."""

    name: str
    runs: tuple[Notebook, ...]

    @property
    @abstractmethod
    def by_place(self) -> dict[str, Notebook]:
        """The notebook in each place, by the folder of its values in the reference."""

    @abstractmethod
    def over_places(self, tables: Tables) -> dict[str, pd.DataFrame]:
        """Return the tables over the places by their files; an empty one is not written."""

    def build(self, folder: Path, store: Store) -> None:
        """Write the tables over the places."""
        (folder / "tables").mkdir()
        for name, table in self.over_places(self._tables(store)).items():
            if len(table):
                path = folder / "tables" / name
                table.to_csv(path, index=False, float_format="%.10g", lineterminator="\n")
        write_json(folder / "metrics.json", {})
        method = {
            "parameters": json.loads(self.runs[0].parameters),
            "places": list(self.by_place),
            "untrained tables": [],
        }
        record = provenance.record(store.root.parent.parent, method=method)
        write_json(folder / "provenance.json", record)

    def _tables(self, store: Store) -> Tables:
        """Return the tables of the runs."""
        tables: dict[str, dict[str, pd.DataFrame]] = {}
        for place, run in self.by_place.items():
            for path in sorted((store[run] / "tables").glob("*.csv")):
                tables.setdefault(path.name, {})[place] = pd.read_csv(path)
        return tables
