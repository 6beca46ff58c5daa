"""What a user brings: vectors of queries, and anybody's runs, from files that are identified by their content."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from interextra.data.queries import Part, Queries
from interextra.data.runs import RunFile
from interextra.ground.cells import Store
from interextra.ground.errors import InputError, offenders
from interextra.ground.files import sha256
from interextra.models.ranking import Ranking, file_of
from interextra.models.vectors import QueryVectors


class GivenFile(BaseModel):
    """A file of the user in a configuration: found by its path, identified by its content."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    sha256: str

    @classmethod
    def of(cls, path: str | Path) -> "GivenFile":
        if not Path(path).is_file():
            raise InputError(f"{path}: no such file")
        return cls(path=str(path), sha256=sha256(path))

    def open(self) -> Path:
        """Its path; InputError where it is gone, or has changed since it was planned."""
        if self.of(self.path) != self:
            raise InputError(f"{self.path} is not the file that was planned: its content changed. Plan again")
        return Path(self.path)


class GivenVectors(QueryVectors):
    """From files: one for each set of queries, or one Parquet for all.

    A `.npy` holds float[n, d], a row for each query in the order of its set; a Parquet has columns query_id and vector.
    """

    files: tuple[GivenFile, ...]  # of the training queries, then of each set of test queries

    @classmethod
    def of(cls, paths: Sequence[str | Path], train: Queries, test: tuple[Queries, ...] = ()) -> "GivenVectors":
        if len(paths) not in (1, 1 + len(test)):
            raise InputError(f"given vectors: {len(paths)} files for {1 + len(test)} sets of queries; one each")
        files = [GivenFile.of(path) for path in paths]
        return cls(files=tuple(files * (1 + len(test)) if len(files) == 1 else files), train=train, test=test)

    def vectors(self, store: Store) -> Iterator[np.ndarray]:
        for file, queries in zip(self.files, (self.train, *self.test), strict=True):
            yield vectors_of(file.open(), queries.ids())

    def title(self) -> str:
        return f"vectors · {self.train.source.spec} · {Path(self.files[0].path).name}"

    def megabytes(self) -> float:
        return sum(Path(file.path).stat().st_size for file in set(self.files)) / 1e6


def vectors_of(path: Path, query_ids: Sequence[str]) -> np.ndarray:
    """float32[n, d] of these queries; InputError where the file holds no such matrix or lacks a query."""
    try:
        if path.suffix == ".npy":
            found = np.load(path, allow_pickle=False)
        else:
            table = pq.read_table(path, columns=["query_id", "vector"]).to_pandas()
            known = pd.Index(table["query_id"].astype(str))
            wrong = [*pd.Index(query_ids).difference(known), *known[known.duplicated()]]
            if wrong:
                raise InputError(f"{path}: {len(wrong)} queries have no vector or two: {offenders(wrong)}")
            found = np.stack(table["vector"].to_numpy()[known.get_indexer(query_ids)])
    except (OSError, ValueError, KeyError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path}: no vectors of one length ({error}); give a .npy of floats, or a Parquet with query_id and vector"
        ) from None
    if found.ndim != 2 or len(found) != len(query_ids) or found.dtype.kind != "f" or not np.isfinite(found).all():
        raise InputError(
            f"{path}: {found.dtype}{list(found.shape)} for {len(query_ids)} queries; "
            "give a row of finite floats for each query, in the order of the set"
        )
    return found.astype(np.float32)


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
            "queries are missing (missing_queries allows it)": sorted(asked - set(run.query_ids)),
            "doc_ids are not in the collection": [doc_id for doc_id, row in zip(doc_ids, rows, strict=True) if row < 0],
        }
        found = [f"{len(these)} {what}: {offenders(these)}" for what, these in wrong.items() if these]
        if self.missing_queries:
            found = [line for line in found if "missing_queries" not in line]
        if found:
            raise InputError(f"{self.file.path}: {'; '.join(found)}")
        frame = run.frame()
        frame = frame[frame["rank"] <= self.depth]
        for queries, part in zip(self.queries, ids, strict=True):
            RunFile.from_frame(frame[frame["query_id"].isin(part)]).write_parquet(folder / file_of(queries))

    def title(self) -> str:
        return f"imported run {Path(self.file.path).name} → {'+'.join(queries.name for queries in self.queries)}"
