"""Notebook 12: a folder of `splitting.export`, opened again by whoever has runs on it."""

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from interextra.data.collection import Passages
from interextra.data.runs import RunFile
from interextra.data.trec import numbered_lines, read_qrels, read_queries_tsv
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.model import LOG
from interextra.models.planning import model_of
from interextra.models.recipe import Recipe, load_recipe
from interextra.models.search.run import Run
from interextra.own.distance import COLUMNS, NEAREST_COLUMNS
from interextra.own.manifest import Manifest
from interextra.own.splitting import (
    DISTANCE,
    GATE,
    MANIFEST,
    NEAREST,
    STRATA,
    searched_queries,
    training_sample,
)
from interextra.splits.split import Split
from interextra.store import InputError, Store, offenders, sha256
from interextra.store.files import read_json

DEPTH = 1000  # passages of BM25 for a query


class SplitFolder(NamedTuple):
    """A folder of `splitting.export`, opened."""

    split: Split
    sets: list[str]  # names of the training sets
    queries: pd.DataFrame  # to search: query_id, text
    qrels: pd.DataFrame
    # what left-out part each query belongs to; None: the regime is that of the set
    strata: pd.Series | None
    # split of the queries that only show a lead over the baseline; "": some of the test queries do
    gate: str
    gate_ids: list[str]  # these queries
    manifest: Manifest
    # of `distance.measure`; both empty: written before there were any
    distances: pd.DataFrame
    nearest: pd.DataFrame
    sampled_ids: list[str] = []  # training queries to search, too; see `with_training_sample`

    @classmethod
    def open(cls, folder: Path, attribute: str = "") -> "SplitFolder":
        """Read a folder of `interextra split`; anybody may have written it.

        Parameters
        ----------
        folder : Path
        attribute : str
            That of a shift by a function in Python, as the user names it; the folder alone loads no
            code.

        Raises
        ------
        InputError
            No such folder, a file that changed since the split was written, or one that holds
            something else.
        """
        manifest = Manifest.read(folder)
        split = manifest.open_split(folder / MANIFEST, [attribute])
        files = ["test.tsv", "test.qrels", GATE]
        if split.release:
            files.append(STRATA)
        files += [name for name in (DISTANCE, NEAREST) if name in manifest.files]
        _refuse_changed_files(folder, files, manifest)
        opened = cls(
            split,
            sets=list(manifest.sets),
            queries=read_queries_tsv(folder / "test.tsv"),
            qrels=read_qrels(folder / "test.qrels"),
            strata=_read_strata(folder / STRATA) if split.release else None,
            gate=manifest.gate,
            gate_ids=[query_id for _, query_id in numbered_lines(folder / GATE)],
            manifest=manifest,
            distances=_read_table(folder / DISTANCE, COLUMNS, manifest),
            nearest=_read_table(folder / NEAREST, NEAREST_COLUMNS, manifest),
        )
        opened._refuse_contradictions(folder)
        return opened

    def _refuse_contradictions(self, folder: Path) -> None:
        """Refuse files that name other queries, or other left-out parts, than they should."""
        query_ids = set(self.queries["query_id"])
        not_asked = "is no query of test.tsv"
        faults = [
            (GATE, set(self.gate_ids) - query_ids, not_asked),
            ("test.qrels", set(self.qrels["query_id"]) - query_ids, not_asked),
            (NEAREST, set(self.nearest["query_id"]) - query_ids, not_asked),
        ]
        if self.strata is not None:
            not_in_both = query_ids ^ set(self.strata.index)
            left_out = {name.partition("-")[2] for name in self.sets}
            faults += [
                (STRATA, not_in_both, "is not in both it and test.tsv"),
                (STRATA, set(self.strata) - left_out, "is left out of no training set"),
            ]
        for name, ids, fault in faults:
            if ids:
                wrong = offenders(sorted(ids))
                raise InputError(f"{folder / name}: {wrong} {fault}; split again")

    @property
    def passages(self) -> Passages:
        """The passages of the collection."""
        return self.split.pool.source.open().passages

    @property
    def bm25(self) -> Run:
        """BM25, tuned on training queries, on the queries to search and on a training sample."""
        return run_before_training(load_recipe("bm25"), self.split, self.gate)

    def bm25_in_words(self, store: Store) -> str:
        """Return BM25 with its parameters in words, if its model is still in the store."""
        if not store.valid(self.bm25.model):
            return BM25
        log = read_json(store[self.bm25.model] / LOG)
        return (
            f"{BM25} with k1 = {log['k1']:g} and b = {log['b']:g}, the best of its grid on "
            f"{log['tuning_queries']:,} training queries"
        )

    def with_training_sample(self) -> "SplitFolder":
        """Return the folder with a sample of training queries among those to search."""
        sample = training_sample(self.split)
        frame = sample.frame()[["query_id", "text"]]
        frame = frame[~frame["query_id"].isin(self.queries["query_id"])]
        qrels = sample.qrels()
        qrels = qrels[qrels["query_id"].isin(frame["query_id"])]
        return self._replace(
            queries=pd.concat([self.queries, frame], ignore_index=True),
            qrels=pd.concat([self.qrels, qrels], ignore_index=True),
            sampled_ids=frame["query_id"].tolist(),
        )

    def read(self, run: Run, store: Store) -> RunFile:
        """Return the ranking of the queries to search.

        A gate's query of a kind that is in no training set is none of them. A training query that
        a shift holds out may stand in two parts of the run.
        """
        parts = [run.read(store, part) for part in run.queries]
        rankings = pd.concat([part.frame() for part in parts])
        rankings = rankings.drop_duplicates(["query_id", "doc_id"])
        is_searched = rankings["query_id"].isin(self.queries["query_id"])
        return RunFile.from_frame(rankings[is_searched])


def run_before_training(recipe: Recipe, split: Split, gate: str) -> Run:
    """Return the run of a model that no set trains: on the queries to search, and on a sample.

    The sample is of the training queries, see `training_sample`.
    """
    model = model_of(recipe, split.pool, 0)
    queries = (*searched_queries(split, gate), training_sample(split))
    return Run(model=model, queries=queries, depth=DEPTH)


def _refuse_changed_files(folder: Path, names: list[str], manifest: Manifest) -> None:
    """Refuse a file that is no longer as the manifest has it."""
    for name in names:
        path = folder / name
        if name not in manifest.files:
            raise InputError(
                f"{folder / MANIFEST}: 'files' has no SHA-256 of {name}; write the split again"
            )
        is_unchanged = path.is_file() and sha256(path) == manifest.files[name]
        if not is_unchanged:
            raise InputError(
                f"{path}: was changed or is gone since the split was written; split again"
            )


def _read_strata(path: Path) -> pd.Series:
    """Read the left-out part of each query: index query_id."""
    return read_queries_tsv(path).set_index("query_id")["text"]


def _read_table(path: Path, columns: dict[str, type], manifest: Manifest) -> pd.DataFrame:
    """Read a table of how near the sets lie; no rows where it was not measured."""
    if path.name not in manifest.files:
        return pd.DataFrame(columns=list(columns))
    texts = {name: str for name, kind in columns.items() if kind is str}
    try:
        table = pd.read_csv(path, dtype=texts, keep_default_na=False)
        return table[list(columns)].astype(columns)
    except (ValueError, KeyError) as error:
        raise InputError(f"{path}: no table of distances ({error}); split again") from None
