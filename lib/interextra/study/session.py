"""What a notebook holds in its hand: parameters, cells, tables, figures, numbers, provenance.

nb = Session.start("02_restrain", globals())
nb.table(frame, "restrain"); nb.figure(fig, "gap"); nb.metric("delta", -.1); nb.finish()
"""

import os
import shutil
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from interextra.ground.errors import InputError
from interextra.study import provenance
from interextra.study.cells import Store, file_sha256, write_json
from interextra.study.params import checked, declared_parameters, repository_root


class Session:
    """One run of one notebook: under `outputs/<profile>/` by `interextra run`, in JupyterLab under `outputs/lab/`."""

    def __init__(self, name: str, parameters: dict[str, Any], root: Path, goal: str = ""):
        self.name, self.parameters, self.root, self.goal = name, parameters, root, goal
        # `interextra run` names a folder aside, which it renames when the notebook is through.
        aside = os.environ.get("INTEREXTRA_OUTPUT")
        self.folder = Path(aside) if aside else root / "outputs" / "lab" / name  # never into what a run has sealed
        for part in ("tables", "figures"):
            shutil.rmtree(self.folder / part, ignore_errors=True)
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self.store = Store(root / "outputs" / "cells")
        self.metrics: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        self.data: dict[str, str] = {}
        self.cells: list[str] = []
        self._begin = time.perf_counter()

    @classmethod
    def start(cls, name: str, variables: dict[str, Any], goal: str = "") -> "Session":
        """Take the declared parameters from the notebook's variables, check them, open the output folder.

        Parameters
        ----------
        name : the notebook's file name without `.ipynb`; its parameters cell says which parameters there are.
        variables : `globals()` of the notebook.
        goal : the question that the notebook answers, for the provenance record.
        """
        root = repository_root()
        os.chdir(root)  # relative paths in parameters mean the same as on the command line
        declared = declared_parameters(root / "notebooks" / f"{name}.ipynb")
        missing = [parameter for parameter in declared if parameter not in variables]
        if missing:
            raise InputError(f"{name}: run the parameters cell first ({missing[0]!r} is not set)")
        values = checked(declared, {parameter: variables[parameter] for parameter in declared}, name)
        return cls(name, values, root, goal)

    def collection(self, spec: str):
        """Open a collection and note its fingerprint in the provenance."""
        from interextra.study.jobs import open_spec

        collection = open_spec(spec)
        self.data[spec] = collection.fingerprint
        return collection

    def run(self, configs: list[dict]) -> list[Path]:
        """Folders of the cells, computed first where there are none; several at once on several cores."""
        from interextra.study.pool import build_all

        with self.stage("cells"):
            folders = build_all(self.store, configs).folders
        self.cells += [folder.name for folder in folders]
        return folders

    def cost(self, configs: list[dict]) -> pd.DataFrame:
        """What the notebook will compute, before it does: cells, those that are done, estimated seconds of one core.

        A row a cell; where there are more than 20, a row for each kind of cell (`interextra plan` lists them all).
        """
        from interextra.study.plan import describe

        rows = pd.DataFrame(describe(self.store, configs), columns=["what", "state", "seconds"])
        todo = rows.loc[rows["state"] != "done", "seconds"].sum()
        print(
            f"{len(rows)} cells, {(rows['state'] == 'done').sum()} done, the others need about {todo:.0f} s of one core"
        )
        if len(rows) > 20:
            kinds = rows["what"].str.split(" · ").str[:2].str.join(" · ").rename("what")
            done = rows["state"] == "done"
            rows = rows.assign(cells=1, done=done).groupby(kinds, sort=False)[["cells", "done", "seconds"]].sum()
            rows = rows.reset_index()
        return rows.round({"seconds": 0}).style.hide(axis="index").format(precision=0)

    @contextmanager
    def stage(self, name: str):
        """Add the seconds of a `with` block to the stage `name` of the provenance."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - begin, 3)

    def table(self, frame: pd.DataFrame, name: str) -> pd.DataFrame:
        """Write `tables/<name>.csv` (full precision to 10 digits, no index) and return the frame for display."""
        if not len(frame.columns):
            raise InputError(f"table {name!r} has no columns: nothing was measured")
        path = self.folder / "tables" / f"{name}.csv"
        aside = path.with_suffix(".csv.tmp")
        frame.to_csv(aside, index=False, float_format="%.10g", lineterminator="\n")
        aside.replace(path)
        return frame

    def figure(self, figure, name: str) -> None:
        """Write `figures/<name>.png` and `.svg`; the picture itself is shown by the notebook."""
        # Without a date and with a fixed salt, the same picture gives the same bytes.
        figure.savefig(self.folder / "figures" / f"{name}.png", metadata={"Software": None})
        figure.savefig(self.folder / "figures" / f"{name}.svg", metadata={"Date": None})

    def metric(self, name: str, value: Any) -> Any:
        """Note a single number for metrics.json and return it."""
        self.metrics[name] = value.item() if hasattr(value, "item") else value
        return value

    def finish(self) -> dict:
        """Write metrics.json and provenance.json (all declared parameters, versions, checksums, seconds a stage)."""
        self.seconds["whole notebook"] = round(time.perf_counter() - self._begin, 3)
        write_json(self.folder / "metrics.json", self.metrics)
        written = sorted(path for part in ("tables", "figures") for path in (self.folder / part).glob("*.*"))
        record = provenance.record(
            self.root,
            research_goal={"notebook": self.name, "question": self.goal},
            method={"parameters": self.parameters, "cells": sorted(set(self.cells))},
            data={"collections": self.data},
            results={path.relative_to(self.folder).as_posix(): file_sha256(path) for path in written},
            seconds=self.seconds,
        )
        write_json(self.folder / "provenance.json", record)
        return record
