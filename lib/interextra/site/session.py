"""What a notebook holds in its hand: parameters, cells, values, tables, figures, provenance.

nb = ix.start("02_restrain", globals(), goal="…")
plan = ix.restrain.plan(nb.parameters); nb.cost(plan); values = nb.measure(plan.design, ["nDCG@10"])
nb.table(frame, "restrain"); nb.figure(figure, "gap"); nb.metric("delta", -0.1); nb.finish()
"""

import os
import shutil
import time
from collections.abc import Callable, Iterable, MutableMapping
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
from IPython.display import Image, Markdown, display

from interextra import figures
from interextra.claims import judgement, wording
from interextra.claims.claim import answered, of_notebook
from interextra.data.load import open_collection
from interextra.measures import evaluate as measures
from interextra.models.model import trained_behind
from interextra.notebooks.plans import cells_of
from interextra.site.answers import text_of
from interextra.site.parameters import (
    checked,
    completed,
    declared_parameters,
    profile_parameters,
    repository_root,
)
from interextra.site.travel import REFERENCE, RUN, RUNS, SKIPS, VALUES, Reference, write_runs
from interextra.stats.effects import DRAWS, Effects, shown
from interextra.store import InputError, Store, provenance, sha256, write_json
from interextra.store.schedule import build_all, described, priced

# set by `interextra run` for the notebook that it executes: the folder of its results
OUTPUT = "INTEREXTRA_OUTPUT"


def start(name: str, variables: MutableMapping[str, Any], goal: str) -> "Session":
    """Open a notebook's output folder; its parameters, from its `globals()`, are checked. `goal`:
    its question.

    Where `interextra run` did not start the notebook, they are completed as it does
    (`parameters.completed`); what changes on another collection is changed among the variables,
    too.
    """
    root = repository_root()
    os.chdir(root)  # relative paths in parameters mean the same as on the command line
    notebook = root / "notebooks" / f"{name}.ipynb"
    declared = declared_parameters(notebook)
    if "profile" not in variables:
        raise InputError(f"{name}: run the parameters cell first ('profile' is not set)")
    figures.style()
    values = {key: variables[key] for key in declared if key in variables}
    if OUTPUT in os.environ:
        return Session(name, checked(declared, values, name), root, goal)
    parameters = completed(root, notebook, values)
    variables.update({key: parameters[key] for key in values})
    return Session(name, parameters, root, goal)


class Session:
    """One run of one notebook, in a cell by `interextra run` or in outputs/lab/; `nb["k"]` is its
    parameter k.
    """

    def __init__(self, name: str, parameters: dict[str, Any], root: Path, goal: str):
        self.name, self.parameters, self.root, self.goal = name, parameters, root, goal
        # `interextra run` names the folder of the cell that it builds
        self.folder = Path(os.environ.get(OUTPUT) or root / "outputs" / "lab" / name)
        for part in ("tables", "figures", VALUES):
            shutil.rmtree(self.folder / part, ignore_errors=True)
            (self.folder / part).mkdir(parents=True)
        reference, cells = os.environ.get("INTEREXTRA_REFERENCE"), root / "outputs" / "cells"
        self.store = Reference(Path(reference), cells) if reference else Store(cells)
        self.metrics: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        self.data: dict[str, str] = {}
        self.cells: set[str] = set()
        self.values: list[pd.DataFrame] = []  # of all measured designs
        self.trained, self.untrained = (
            False,
            [],
        )  # has a trained model been used; tables written before
        self.drawn: dict[str, tuple[Any, Image]] = {}  # figures and their pictures by name
        self.claims, self.concluded = pd.DataFrame(), []
        self._begin = time.perf_counter()

    def __getitem__(self, parameter: str) -> Any:
        return self.parameters[parameter]

    def collection(self, spec: str):
        """Open a collection and note its fingerprint in the provenance."""
        collection = open_collection(spec)
        self.data[spec] = collection.fingerprint
        return collection

    def run(self, plan: Any) -> None:
        """Compute what is missing of the cells of a plan, a frame, a list; several at once on
        several cores.
        """
        cells, begin = cells_of(plan), time.perf_counter()
        build_all(self.store, cells)
        self.seconds["cells"] = round(
            self.seconds.get("cells", 0.0) + time.perf_counter() - begin, 3
        )
        self.cells |= {cell.key for cell in cells}
        self.trained = self.trained or any(trained_behind(cell) for cell in cells)

    def cost(self, plan: Any) -> Any:
        """What the notebook needs: a row a kind of result, with estimated seconds of one core or
        GPU and MB on disk.

        Prints which parameters are other than in the profile, where the collection is.
        """
        rows = described(self.store, cells_of(plan))
        seconds = [row["seconds"] for row in rows if row["state"] == "todo"]
        rest = (
            f"{len(seconds)} of them need about {sum(seconds):.0f} s"
            if seconds
            else "all are computed already"
        )
        print(f"{len(rows)} results; {rest}")
        if "collection" in self.parameters:
            usual = profile_parameters(
                self.root, self["profile"], self.root / "notebooks" / f"{self.name}.ipynb", {}
            )
            other = {name: value for name, value in self.parameters.items() if value != usual[name]}
            if other.pop("collection", ""):
                told = "; ".join(f"{name} {value}" for name, value in other.items())
                print(f"On this collection, other than in the profile: {told or 'nothing'}.")
        [table, _] = priced(
            {self.name: [row | {"state": "todo"} for row in rows]}, cores=1
        ).values()
        return shown(
            table[["results", "seconds", "MB"]].round().astype(int).reset_index(names="what")
        )

    def measure(
        self, design: pd.DataFrame, names: Iterable[str], strata: pd.Series | None = None
    ) -> pd.DataFrame:
        """Values: the labels of each run of a design, query_id, measure and value; runs are
        computed where missing.

        `strata`: query_id → label, becomes the column stratum. `trained`: which trained model a
        value is of, "" where nothing was trained.
        """
        self.run(design)
        marks = {RUN: [run.identity for run in design["run"]], SKIPS: design.get("skip_own", False)}
        measured = measures.values(design.assign(**marks), self.store, list(names), strata)
        self.values.append(measured)
        trained = {run.identity: trained_behind(run) for run in design["run"]}
        return measured.assign(trained=measured[RUN].map(trained)).drop(columns=list(marks))

    def kept(self, name: str, compute: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        """What is computed from files that don't travel with a reference (rankings, vectors,
        weights), kept with it.

        `compute` gives a frame without texts; it is called where the files are, else the kept frame
        is read.
        """
        if isinstance(self.store, Reference):
            return self.store.kept(name)
        path = self.folder / VALUES / f"{name}.parquet"
        compute().to_parquet(path, compression="zstd")
        return pd.read_parquet(path)  # as a reader of the reference gets it

    def table(self, frame: pd.DataFrame, name: str) -> pd.DataFrame:
        """Write `tables/<name>.csv` (10 digits, no index) and return the frame."""
        if not len(frame.columns):
            raise InputError(f"table {name!r} has no columns: nothing was measured")
        path, plain = (
            self.folder / "tables" / f"{name}.csv",
            frame.drop(columns=DRAWS, errors="ignore"),
        )
        plain.to_csv(path, index=False, float_format="%.10g", lineterminator="\n")
        if not self.trained:
            self.untrained.append(name)
        return frame

    def conclude(self, *tables: Effects, ahead: pd.DataFrame) -> Any:
        """Write `tables/claims.csv`, this notebook's claims judged by the rows of some tables
        (`claims.judgement`), and `tables/gate.csv`, the leads over BM25 behind them; no file where
        the tables answer none.

        `ahead`: of `ix.leads`. A generated world alone decides nothing. Returns the claims for the
        page, beside what the committed reference says of other data; they are in `concluded` as
        sentences, the first one on the title.
        """
        profile, is_world = (
            self.parameters["profile"],
            self.parameters["collection"].startswith("mini"),
        )
        claims = of_notebook(self.name)
        answers = answered(claims, tables, ahead)
        here = judgement.in_one_world(answers) if is_world else judgement.concluded(answers)
        for name, made in (("claims", here), ("gate", judgement.gate(answers))):
            if len(made):
                self.table(made, name)
        self.claims = here[:0] if is_world else here
        found = {
            name: self.reference(of, "claims") if of != profile else here
            for name, of in wording.DATA.items()
        }
        found |= {} if profile in wording.DATA.values() else {"here": here}
        if unasked := [
            claim.sentence for claim in claims if claim.name not in set(answers["claim"])
        ]:
            print("Claims that this run does not evaluate:", *unasked, sep="\n- ")
        self.concluded = wording.sentences(found, self.name)
        return shown(wording.page(found))

    def claimed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Effects with the simultaneous interval of the claim on a row, where `conclude` judged
        one, for `forest`.
        """
        return judgement.on_rows(frame, self.claims)

    def figure(self, figure: Any, name: str) -> Image:
        """Show its caption, write `figures/<name>.png` and `.svg`; returns the picture, with alt
        text.
        """
        path, texts = (
            self.folder / "figures" / f"{name}.png",
            {"Title": figure.caption, "Description": figure.alt},
        )
        # without a date: the same picture gives the same bytes
        figure.savefig(path, metadata={"Software": None} | texts)
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None} | texts)
        picture = Image(
            path, alt=figure.alt, width=int(96 * figure.get_figwidth())
        )  # pixels; the file has more
        self.drawn[name] = figure, picture
        display(Markdown(escape(figure.caption, quote=False)))
        return picture

    def metric(self, name: str, value: Any) -> None:
        """Note a single number for metrics.json."""
        self.metrics[name] = value.item() if hasattr(value, "item") else value

    def answer(self, *sentences: str, not_shown: str = "", figure: str = "") -> Markdown:
        """Note the answer of this notebook, for the box under its title: sentences with numbers,
        and the one figure.

        `not_shown`: what a reader could expect and this run does not say. `figure`: name of one,
        written as PDF, too.
        """
        if figure and figure not in self.drawn:
            raise InputError(
                f"answer: no figure {figure!r}; there are {', '.join(self.drawn) or 'none'}"
            )
        none = ["This run asks none of the claims of this notebook."]
        noted = {"sentences": list(sentences) or none, "not_shown": not_shown, "figure": figure}
        if figure:  # as it goes into a paper
            drawn, picture = self.drawn[figure]
            metadata = {
                "CreationDate": None,
                "Creator": None,
                "Producer": None,
                "Title": drawn.caption,
            }
            drawn.column().savefig(self.folder / "figures" / f"{figure}.pdf", metadata=metadata)
            noted |= {"alt": picture.alt, "width": picture.width}
        self.metric("answer", noted)
        return Markdown(text_of(noted, "In this run"))

    def reference(self, profile: str, table: str) -> pd.DataFrame:
        """A committed table of this notebook, from outputs/reference; without columns where there
        is none.
        """
        path = self.root / REFERENCE / profile / self.name / "tables" / f"{table}.csv"
        return pd.read_csv(path) if path.is_file() else pd.DataFrame()

    def optional(
        self, name: str, when: Any, compute: Callable[[], pd.DataFrame], travels: bool = True
    ) -> pd.DataFrame:
        """A table that only some profiles make: computed and written where `when`, else the
        committed one of small.

        `travels`: False where it needs real data that no reference holds; from a reference the
        committed one stands.
        """
        if not when:
            return self.reference("small", name)
        stays = not travels and isinstance(self.store, Reference)
        return self.table(
            self.reference(self.parameters["profile"], name) if stays else compute(), name
        )

    def finish(self) -> None:
        """Write metrics.json and provenance.json (all declared parameters, versions, checksums,
        seconds a stage).
        """
        self.seconds["whole notebook"] = round(time.perf_counter() - self._begin, 3)
        write_json(self.folder / "metrics.json", self.metrics)
        if self.values and not isinstance(self.store, Reference):
            write_runs(self.folder / RUNS, self.values)
        written = sorted(
            path for part in ("tables", "figures") for path in (self.folder / part).glob("*.*")
        )
        method = {"parameters": self.parameters, "cells": sorted(self.cells)}
        record = provenance.record(
            self.root,
            research_goal={"notebook": self.name, "question": self.goal},
            method=method | {"untrained tables": sorted(self.untrained)},
            data={"collections": self.data},
            results={path.relative_to(self.folder).as_posix(): sha256(path) for path in written},
            seconds=self.seconds,
        )
        write_json(self.folder / "provenance.json", record)
        print(
            f"{self.seconds['whole notebook']:.1f} s, commit {record['implementation']['source']['commit'][:12]}"
        )
