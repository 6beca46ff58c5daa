"""What a notebook holds in its hand: parameters, cells, values; and through it tables and figures.

nb = ix.start("02_restrain", globals(), goal="…")
plan = ix.restrain.plan(nb.parameters); nb.cost(plan); values = nb.measure(plan.design, ["nDCG@10"])
nb.table(frame, "restrain"); nb.figure(figure, "gap"); nb.metric("delta", -0.1); nb.finish()
"""

import os
import time
from collections.abc import Callable, Iterable, MutableMapping
from pathlib import Path
from typing import Any

import pandas as pd
from IPython.display import Markdown, display

from interextra import figures
from interextra.claims import collections_wording
from interextra.claims.cards import Cards
from interextra.claims.claim import REAL
from interextra.claims.judgement import on_rows
from interextra.data.load import open_collection
from interextra.measures import evaluate
from interextra.models.model import trained_behind
from interextra.notebooks.parameters import NotebookParameters
from interextra.notebooks.plans import cells_of
from interextra.site.conclusions import conclude
from interextra.site.output import OutputFolder
from interextra.site.parameters import checked, completed, kind_of, profile_parameters
from interextra.site.repository import house
from interextra.site.travel import REFERENCE, RUN, RUNS, SKIPS, VALUES, Reference, write_runs
from interextra.stats.effects import Effects, shown
from interextra.store import InputError, Store
from interextra.store.prices import described, priced
from interextra.store.schedule import build_all

# Set by `interextra run` for the notebook that it executes: the folder of its results, and that of
# the committed values from which it is executed
OUTPUT, COMMITTED = "INTEREXTRA_OUTPUT", "INTEREXTRA_REFERENCE"

Compute = Callable[[], pd.DataFrame]


def start(name: str, variables: MutableMapping[str, Any], goal: str) -> "Session":
    """Open a notebook's output folder.

    Where `interextra run` did not start the notebook, its parameters are completed as it does
    (`parameters.completed`); what changes on another collection is changed among the variables,
    too.

    Parameters
    ----------
    name
        Of the notebook.
    variables
        Its `globals()`, some of which are parameters.
    goal
        Its question.

    Raises
    ------
    InputError
        The parameters cell did not run, or a parameter cannot be meant.
    """
    root = house()
    os.chdir(root)  # relative paths in parameters mean the same as on the command line
    notebook = root / "notebooks" / f"{name}.ipynb"
    if "profile" not in variables:
        raise InputError(f"{name}: run the parameters cell first ('profile' is not set)")
    figures.style()
    kind = kind_of(notebook)
    values = {key: variables[key] for key in kind.model_fields if key in variables}
    if OUTPUT in os.environ:
        return Session(name, checked(kind, values, name), root, goal)
    parameters = completed(root, notebook, values)
    variables.update({key: getattr(parameters, key) for key in values})
    return Session(name, parameters, root, goal)


class Session(OutputFolder):
    """One run of one notebook, in a cell by `interextra run` or in outputs/lab/.

    `nb["k"]` is its parameter k.

    Parameters
    ----------
    name
        Of the notebook.
    parameters
        All of them, checked.
    root
        The repository.
    goal
        The notebook's question.
    """

    def __init__(self, name: str, parameters: NotebookParameters, root: Path, goal: str):
        outputs = root / "outputs"
        # `interextra run` names the folder of the cell that it builds
        folder = os.environ.get(OUTPUT) or outputs / "lab" / name
        super().__init__(Path(folder))
        self.name = name
        self.parameters = parameters
        self.root = root
        self.goal = goal
        self.store = Store(outputs / "cells")
        reference = os.environ.get(COMMITTED)
        if reference:
            self.store = Reference(Path(reference), self.store.root)
        self.collections: dict[str, str] = {}  # spec → fingerprint
        self.cells: set[str] = set()
        self.values: list[pd.DataFrame] = []  # of all measured designs
        self.concluded: list[str] = []  # sentences of `conclude`
        self._claims = pd.DataFrame()

    def __getitem__(self, parameter: str) -> Any:
        """Return a parameter."""
        return getattr(self.parameters, parameter)

    def collection(self, spec: str) -> Any:
        """Open a collection and note its fingerprint in the provenance."""
        collection = open_collection(spec)
        self.collections[spec] = collection.fingerprint
        return collection

    def run(self, plan: Any) -> None:
        """Compute what is missing of the cells of a plan, a frame, a list; several at once."""
        cells = cells_of(plan)
        begin = time.perf_counter()
        build_all(self.store, cells)
        seconds = time.perf_counter() - begin
        earlier = self.seconds.get("cells", 0.0)
        self.seconds["cells"] = round(earlier + seconds, 3)
        self.cells |= {cell.key for cell in cells}
        if any(trained_behind(cell) for cell in cells):
            self.has_trained = True

    def cost(self, plan: Any) -> Any:
        """Return what the notebook needs, a row a kind of result.

        Prints which parameters are other than in the profile, where the collection is.

        Returns
        -------
        Styler
            what, results, seconds (estimated, of one core or GPU), MB (on disk).
        """
        rows = described(self.store, cells_of(plan))
        seconds = [row["seconds"] for row in rows if row["state"] == "todo"]
        left = "all are computed already"
        if seconds:
            left = f"{len(seconds)} of them need about {sum(seconds):.0f} s"
        print(f"{len(rows)} results; {left}")
        self._print_other_parameters()
        every = [row | {"state": "todo"} for row in rows]
        table = priced({self.name: every})[self.name]
        whole_numbers = table[["results", "seconds", "MB"]].round().astype(int)
        return shown(whole_numbers.reset_index(names="what"))

    def _print_other_parameters(self) -> None:
        """Say what is other than in the profile, where the collection is."""
        notebook = self.root / "notebooks" / f"{self.name}.ipynb"
        usual = profile_parameters(self.root, self["profile"], notebook, {})
        if self["collection"] == usual.collection:
            return
        others = []
        for name, value in self.parameters:
            if name != "collection" and value != getattr(usual, name):
                others.append(f"{name} {value}")
        print(f"On this collection, other than in the profile: {'; '.join(others) or 'nothing'}.")

    def measure(
        self, design: pd.DataFrame, names: Iterable[str], strata: pd.Series | None = None
    ) -> pd.DataFrame:
        """Return values of a design's runs, which are computed where they are missing.

        Parameters
        ----------
        design
            Labels, and the run.
        names
            Of measures.
        strata
            query_id → label; becomes the column stratum.

        Returns
        -------
        DataFrame
            The labels of each run, query_id, measure, value, and `trained`: which trained model a
            value is of, "" where nothing was trained.
        """
        self.run(design)
        identities = [run.identity for run in design["run"]]
        skips = design.get("skip_own", False)
        marked = design.assign(**{RUN: identities, SKIPS: skips})
        measured = evaluate.values(marked, self.store, list(names), strata)
        self.values.append(measured)
        trained = {run.identity: trained_behind(run) for run in design["run"]}
        trained_of_value = measured[RUN].map(trained)
        measured = measured.assign(trained=trained_of_value)
        return measured.drop(columns=[RUN, SKIPS])

    def kept(self, name: str, compute: Compute) -> pd.DataFrame:
        """Return what is computed from files that don't travel with a reference, kept with it.

        Such are rankings, vectors, weights.

        Parameters
        ----------
        name
            Of its file.
        compute
            Gives a frame without texts; it is called where the files are, else the kept frame is
            read.
        """
        if isinstance(self.store, Reference):
            return self.store.kept(name)
        path = self.folder / VALUES / f"{name}.parquet"
        compute().to_parquet(path, compression="zstd")
        return pd.read_parquet(path)  # as a reader of the reference gets it

    def conclude(self, *tables: Effects, ahead: pd.DataFrame) -> Cards:
        """Judge this notebook's claims by the rows of some tables; write claims.csv and gate.csv.

        No file is written where the tables answer none. The sentences are in `concluded`.

        Parameters
        ----------
        tables
            Effects.
        ahead
            Leads over BM25 in domain, of `ix.leads`.

        Returns
        -------
        Cards
            The claims for the page, beside what the committed reference says of other data.
        """
        conclusions = conclude(
            self.name,
            self["profile"],
            self["collection"].startswith("mini"),
            tables,
            ahead,
            lambda profile: self.reference(profile, "claims"),
        )
        if len(conclusions.claims):
            self.table(conclusions.claims, "claims")
        if len(conclusions.gate):
            self.table(conclusions.gate, "gate")
        if conclusions.unasked:
            sentences = [claim.sentence for claim in conclusions.unasked]
            print("Claims that this run does not evaluate:", *sentences, sep="\n- ")
        self._claims = conclusions.in_figures
        self.concluded = conclusions.sentences
        return Cards(conclusions.page)

    def claimed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return effects with the simultaneous interval of the claim on a row, for `forest`."""
        return on_rows(frame, self._claims)

    def over_collections(self) -> Cards | None:
        """Return what the committed run of `real` measured of claims on real collections.

        Prints what was asked and what is decided, and draws a forest: each claim in each
        collection, and the mean of those that decide.

        Returns
        -------
        Cards
            See `collections_wording.page`; None where no such run is committed.
        """
        each = self.reference(REAL, "collections")
        judged = self.reference(REAL, "over_collections")
        if judged.empty:
            return None
        display(Markdown(collections_wording.ABOUT))
        print(*collections_wording.sentences(judged), sep="\n")
        of_worlds = self.reference("worlds", "claims")
        rows = collections_wording.forest_rows(each, judged, of_worlds=of_worlds)
        label = "estimate (points or percent)"
        drawn = figures.forest(
            rows, "collection", "estimate", label, panel="claim", hue="estimate_of", percent=True
        )
        self.figure(drawn, "over_collections")
        claims = collections_wording.page(each, judged, of_worlds)
        return Cards(claims.rename(columns=collections_wording.HEADINGS))

    def reference(self, profile: str, table: str) -> pd.DataFrame:
        """Return a committed table of this notebook; without columns where there is none."""
        folder = self.root / REFERENCE / profile / self.name
        path = folder / "tables" / f"{table}.csv"
        return pd.read_csv(path) if path.is_file() else pd.DataFrame()

    def optional(
        self, name: str, when: Any, compute: Compute, travels: bool = True
    ) -> pd.DataFrame:
        """Return a table that only some profiles make.

        Parameters
        ----------
        name
            Of the table.
        when
            Whether this profile makes it: it is computed and written, else the committed one of
            small is read.
        compute
            Gives it.
        travels
            False where it needs real data that no reference holds; from a reference the committed
            one stands.
        """
        if not when:
            return self.reference("small", name)
        if isinstance(self.store, Reference) and not travels:
            return self.table(self.reference(self["profile"], name), name)
        return self.table(compute(), name)

    def finish(self) -> None:
        """Write metrics.json and provenance.json: all parameters, versions, checksums, seconds."""
        if self.values and not isinstance(self.store, Reference):
            write_runs(self.folder / RUNS, self.values)
        method = {
            "parameters": self.parameters.model_dump(),
            "cells": sorted(self.cells),
            "untrained tables": sorted(self.untrained),
        }
        record = self.write_record(
            self.root,
            research_goal={"notebook": self.name, "question": self.goal},
            method=method,
            data={"collections": self.collections},
        )
        seconds = self.seconds["whole notebook"]
        commit = record["implementation"]["source"]["commit"]
        print(f"{seconds:.1f} s, commit {commit[:12]}")
