"""Fusion: several runs on the same queries become one, with ranx (reciprocal rank fusion, weighted sums, …)."""

from pathlib import Path

import pandas as pd

from interextra.data.queries import Part, Queries
from interextra.data.runs import RunFile
from interextra.ground.cells import Store
from interextra.ground.errors import InputError
from interextra.models.ranking import Ranking, file_of


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
        if any(run.queries != self.queries for run in self.runs) or (
            self.weights and len(self.weights) != len(self.runs)
        ):
            raise InputError("fusion: give runs on the same queries, and a weight for each run or none")
        import ranx

        for queries in self.queries:
            files = [run.read(store, queries) for run in self.runs]
            types = {"query_id": object, "doc_id": object, "score": float}  # ranx refuses pandas' own strings
            frames = [file.frame().astype(types) for file in files]
            runs = [
                ranx.Run.from_df(frame, q_id_col="query_id", doc_id_col="doc_id", score_col="score") for frame in frames
            ]
            options = {"params": {"weights": self.weights}} if self.weights else {}
            fused = ranx.fuse(runs, norm="min-max", method=self.method, **options).to_dataframe()
            fused.columns = ["query_id", "doc_id", "score"]
            kept = fused.sort_values("score", ascending=False, kind="stable").groupby("query_id").head(self.depth)
            order = pd.Index(files[0].query_ids).get_indexer(kept["query_id"])
            RunFile.from_frame(kept.iloc[order.argsort(kind="stable")]).write_parquet(folder / file_of(queries))

    def title(self) -> str:
        return f"fusion by {self.method} of {len(self.runs)} runs"
