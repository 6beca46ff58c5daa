"""Runs as cells: of a trained model on any collection, of others, and several fused into one."""

from pathlib import Path

import pandas as pd

from interextra.data.queries import Part, Queries
from interextra.data.runs import RunFile
from interextra.ground.cells import Store
from interextra.ground.errors import InputError, offenders
from interextra.models.model import Model, load_model
from interextra.models.ranking import Ranking, file_of
from interextra.models.recipe import Recipe
from interextra.models.vectors import GivenFile


class Run(Ranking):
    """The first `depth` passages of each query, by a trained model.

    All sets of queries belong to one collection, which need not be that of the training: its passages are encoded once.
    """

    model: Model
    queries: tuple[Queries | Part, ...]
    depth: int = 100

    @property
    def recipe(self) -> Recipe:
        return self.model.recipe

    def build(self, folder: Path, store: Store) -> None:
        collection, model = self.queries[0].source.open(), load_model(store[self.model] / "weights")
        self.write(folder, store, self.model, lambda texts: model.search(collection, texts, self.depth))

    def title(self) -> str:
        found = "+".join(queries.name for queries in self.queries)
        return f"run {self.model.title().removeprefix('model ')} → {found} of {self.queries[0].source.spec}"

    def seconds(self) -> float:
        return self.recipe.cost(0, self.queries[0].source.n_passages(), self.n_queries())["encode_seconds"]


class Imported(Ranking):
    """Anybody's run (a TREC file, or Parquet as `RunFile` writes it) on the queries that it ranks for."""

    file: GivenFile
    queries: tuple[Queries | Part, ...]
    depth: int = 100
    missing_queries: bool = False  # whether the run may lack queries, which have then retrieved nothing

    def build(self, folder: Path, store: Store) -> None:
        run, ids = RunFile.read(self.file.open()), [part.ids(store) for part in self.queries]
        asked = {query_id for part in ids for query_id in part}
        doc_ids = run.doc_ids.to_pylist()
        rows = self.queries[0].source.open().passages.rows(doc_ids)
        wrong = {
            "query_ids are not among the queries": [query_id for query_id in run.query_ids if query_id not in asked],
            "doc_ids are not in the collection": [doc_id for doc_id, row in zip(doc_ids, rows, strict=True) if row < 0],
        }
        if not self.missing_queries:
            wrong["queries are missing (missing_queries allows it)"] = sorted(asked - set(run.query_ids))
        if found := [f"{len(these)} {what}: {offenders(these)}" for what, these in wrong.items() if these]:
            raise InputError(f"{self.file.path}: {'; '.join(found)}")
        frame = run.frame()
        frame = frame[frame["rank"] <= self.depth]
        for queries, part in zip(self.queries, ids, strict=True):
            RunFile.from_frame(frame[frame["query_id"].isin(part)]).write_parquet(folder / file_of(queries))

    def title(self) -> str:
        return f"imported run {Path(self.file.path).name} → {'+'.join(queries.name for queries in self.queries)}"


class Fused(Ranking):
    """Runs on the same queries in one ranking, `run.NAME.parquet` a set of queries.

    `method` is one of ranx: rrf (reciprocal rank fusion, k = 60), or wsum with `weights`, one a run, of scores that
    were brought to 0…1 by query (the weighted interpolation of Hofstätter et al., TREC 2021).
    """

    runs: tuple[Ranking, ...]
    method: str = "rrf"
    weights: tuple[float, ...] = ()
    depth: int = 100

    @property
    def queries(self) -> tuple[Queries | Part, ...]:
        return self.runs[0].queries

    def build(self, folder: Path, store: Store) -> None:
        if {run.queries for run in self.runs} != {self.queries} or len(self.weights) not in (0, len(self.runs)):
            raise InputError("fusion: give runs on the same queries, and a weight for each run or none")
        import ranx

        columns = {"query_id": object, "doc_id": object, "score": float}  # ranx refuses pandas' own strings
        options = {"params": {"weights": self.weights}} if self.weights else {}
        for queries in self.queries:
            files = [run.read(store, queries) for run in self.runs]
            runs = [ranx.Run.from_df(file.frame().astype(columns), *columns) for file in files]
            fused = ranx.fuse(runs, norm="min-max", method=self.method, **options).to_dataframe()
            fused.columns = [*columns]
            kept = fused.sort_values("score", ascending=False, kind="stable").groupby("query_id").head(self.depth)
            order = pd.Index(files[0].query_ids).get_indexer(kept["query_id"])
            RunFile.from_frame(kept.iloc[order.argsort(kind="stable")]).write_parquet(folder / file_of(queries))

    def title(self) -> str:
        return f"fusion by {self.method} of {len(self.runs)} runs"
