"""What a notebook holds in its hand: parameters, cells, values, tables, figures, provenance.

nb = ix.start("02_restrain", globals(), goal="…")
plan = ix.restrain.plan(nb.parameters); nb.cost(plan); values = nb.measure(plan.design, ["nDCG@10"])
nb.table(frame, "restrain"); nb.figure(figure, "gap"); nb.metric("delta", -0.1); nb.finish()
"""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from IPython.display import Image, Markdown

from interextra import figures
from interextra.data.load import open_collection
from interextra.evaluation import measures
from interextra.experiments.plans import cells_of
from interextra.ground import provenance
from interextra.ground.cells import Cell, Store
from interextra.ground.effects import DRAWS, shown
from interextra.ground.errors import InputError
from interextra.ground.files import sha256, write_aside, write_json
from interextra.models.model import Model
from interextra.study.answer import text_of
from interextra.study.parameters import checked, declared_parameters, repository_root
from interextra.study.schedule import build_all, described
from interextra.study.travel import RUN, RUNS, SKIPS, VALUES, Reference, write_runs

PIXELS_PER_INCH = 96  # on a page; the file has more


def start(name: str, variables: Mapping[str, Any], goal: str) -> "Session":
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
    if missing := [parameter for parameter in declared if parameter not in variables]:
        raise InputError(f"{name}: run the parameters cell first ({missing[0]!r} is not set)")
    figures.style()
    return Session(name, checked(declared, {key: variables[key] for key in declared}, name), root, goal)


class Session:
    """One run of one notebook: in a cell by `interextra run`, in JupyterLab under `outputs/lab/`."""

    def __init__(self, name: str, parameters: dict[str, Any], root: Path, goal: str):
        self.name, self.parameters, self.root, self.goal = name, parameters, root, goal
        aside = os.environ.get("INTEREXTRA_OUTPUT")  # `interextra run` names the folder of the cell that it builds
        self.folder = Path(aside) if aside else root / "outputs" / "lab" / name
        for part in ("tables", "figures", VALUES):
            shutil.rmtree(self.folder / part, ignore_errors=True)
        for part in ("tables", "figures"):
            (self.folder / part).mkdir(parents=True)
        reference, cells = os.environ.get("INTEREXTRA_REFERENCE"), root / "outputs" / "cells"
        self.store = Reference(Path(reference), cells) if reference else Store(cells)
        self.metrics: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        self.data: dict[str, str] = {}
        self.cells: set[str] = set()
        self.values: list[pd.DataFrame] = []  # of all measured designs
        self.trained, self.untrained = False, []  # has a trained model been used; tables written before
        self.looks: dict[str, Image] = {}  # figures by name
        self._begin = time.perf_counter()

    def collection(self, spec: str):
        """Open a collection and note its fingerprint in the provenance."""
        collection = open_collection(spec)
        self.data[spec] = collection.fingerprint
        return collection

    def run(self, plan: Any) -> None:
        """Compute what is missing of the cells of a plan, a frame, a list; several at once on several cores."""
        cells = cells_of(plan)
        with self.stage("cells"):
            build_all(self.store, cells)
        self.cells |= {cell.key for cell in cells}
        self.trained = self.trained or any(needs_training(cell) for cell in cells)

    def folder_of(self, cell: Cell) -> Path:
        """The folder of a cell, computed first when it is missing."""
        self.run([cell])
        return self.store[cell]

    def cost(self, plan: Any) -> Any:
        """What the notebook will compute, before it does: a row a kind of result, and estimated seconds of one core."""
        rows = pd.DataFrame(described(self.store, cells_of(plan)))
        todo = rows[rows["state"] == "todo"]
        rest = f"{len(todo)} of them need about {todo['seconds'].sum():.0f} s" if len(todo) else "all of them are here"
        print(f"{len(rows)} results; {rest}")
        kind = rows["what"].str.split(" · ").str[0].rename("what")
        counted = rows.assign(results=1, done=rows["state"] == "done").groupby(kind, sort=False)
        return shown(counted[["results", "done", "seconds"]].sum().round(0).astype(int).reset_index())

    def measure(self, design: pd.DataFrame, names: Iterable[str], strata: pd.Series | None = None) -> pd.DataFrame:
        """Values: the labels of each run of a design, query_id, measure and value; runs are computed where missing.

        `strata`: query_id → label, becomes the column stratum.
        """
        self.run(design)
        marks = {RUN: [run.identity for run in design["run"]], SKIPS: design.get("skip_own", False)}
        self.values.append(measures.values(design.assign(**marks), self.store, list(names), strata))
        return self.values[-1].drop(columns=list(marks))

    def kept(self, name: str, compute: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        """What is computed from files that don't travel with a reference (rankings, vectors, weights), kept with it.

        `compute` gives a frame without texts; it is called where the files are, else the kept frame is read.
        """
        if isinstance(self.store, Reference):
            return self.store.kept(name)
        path = self.folder / VALUES / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        compute().to_parquet(path, compression="zstd")
        return pd.read_parquet(path)  # as a reader of the reference gets it

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the seconds of a `with` block to the stage `name` of the provenance."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - begin, 3)

    def table(self, frame: pd.DataFrame, name: str) -> pd.DataFrame:
        """Write `tables/<name>.csv` (10 digits, no index) and return the frame."""
        if not len(frame.columns):
            raise InputError(f"table {name!r} has no columns: nothing was measured")
        plain = frame.drop(columns=DRAWS, errors="ignore")
        with write_aside(self.folder / "tables" / f"{name}.csv") as aside:
            plain.to_csv(aside, index=False, float_format="%.10g", lineterminator="\n")
        if not self.trained:
            self.untrained.append(name)
        return frame

    def figure(self, figure: Any, name: str) -> Image:
        """Write `figures/<name>.png` and `.svg`; returns the picture, with what is seen on it as alt text."""
        # Without a date and with a fixed salt, the same picture gives the same bytes.
        path = self.folder / "figures" / f"{name}.png"
        figure.savefig(path, metadata={"Software": None, "Description": figure.alt})
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None, "Description": figure.alt})
        self.looks[name] = Image(path, alt=figure.alt, width=int(PIXELS_PER_INCH * figure.get_figwidth()))
        return self.looks[name]

    def metric(self, name: str, value: Any) -> None:
        """Note a single number for metrics.json."""
        self.metrics[name] = value.item() if hasattr(value, "item") else value

    def answer(self, *sentences: str, not_shown: str = "", figure: str = "") -> Markdown:
        """Note the answer of this notebook, for the box under its title: sentences with numbers, and the one figure.

        `not_shown`: what a reader could expect and this run does not say. `figure`: the name of one made by `figure`.
        """
        if figure and figure not in self.looks:
            raise InputError(f"answer: no figure {figure!r}; there are {', '.join(self.looks) or 'none'}")
        noted = {"sentences": list(sentences), "not_shown": not_shown, "figure": figure}
        look = self.looks.get(figure)
        self.metric("answer", noted | ({"alt": look.alt, "width": look.width} if look else {}))
        return Markdown(text_of(noted, "In this run"))

    def reference(self, profile: str, table: str) -> pd.DataFrame:
        """A committed table of this notebook, from outputs/reference; without columns where there is none."""
        path = self.root / "outputs" / "reference" / profile / self.name / "tables" / f"{table}.csv"
        return pd.read_csv(path) if path.is_file() else pd.DataFrame()

    def finish(self) -> None:
        """Write metrics.json and provenance.json (all declared parameters, versions, checksums, seconds a stage)."""
        self.seconds["whole notebook"] = round(time.perf_counter() - self._begin, 3)
        write_json(self.folder / "metrics.json", self.metrics)
        if self.values and not isinstance(self.store, Reference):
            write_runs(self.folder / RUNS, self.values)
        written = sorted(path for part in ("tables", "figures") for path in (self.folder / part).glob("*.*"))
        record = provenance.record(
            self.root,
            research_goal={"notebook": self.name, "question": self.goal},
            method={
                "parameters": self.parameters,
                "cells": sorted(self.cells),
                "untrained tables": sorted(self.untrained),
            },
            data={"collections": self.data},
            results={path.relative_to(self.folder).as_posix(): sha256(path) for path in written},
            seconds=self.seconds,
        )
        write_json(self.folder / "provenance.json", record)
        print(f"{self.seconds['whole notebook']:.1f} s, commit {record['implementation']['source']['commit'][:12]}")


def needs_training(cell: Cell) -> bool:
    """Whether a cell follows from trained weights."""
    if isinstance(cell, Model):
        return cell.recipe.training_steps(cell.train.size()) > 0
    return any(needs_training(needed) for needed in cell.needs())
