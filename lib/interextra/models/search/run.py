"""Rankings as cells: of a trained model on any collection, of an index, of others, and several
fused into one.
"""

import itertools
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from interextra.data.queries import Part, Queries, Source
from interextra.data.runs import RunFile
from interextra.models.architectures.dense import Dense, inner_products
from interextra.models.model import LOG, Model, OfModel, Pretrained, file_of, load_model, names_of
from interextra.models.recipe import INNER_PRODUCTS, NUMBER, RUN_ROW, Recipe, Trained, load_recipe
from interextra.models.search.indexes import BLOCK, PRECISIONS, Index, quantised_search
from interextra.models.search.topk import exact_search
from interextra.models.search.vectors import GivenFile
from interextra.store import Cell, InputError, Store, offenders, write_json


class Ranking(Cell):
    """A ranking of at least one set of queries, a file each (`file_of`); of a trained model also
    its `training.json`.

    A kind of ranking has `queries`, a field or a property. All sets belong to one collection, whose
    passages are ranked: InputError for sets of several collections, and for no set.
    """

    travels: ClassVar[tuple[str, ...]] = (LOG,)
    recipe: ClassVar[Recipe | None] = None  # of the model that ranked, where there is a single one
    depth: int = 100  # passages a query

    def __init__(self, **fields):
        super().__init__(**fields)
        if not self.queries:
            raise InputError(f"{type(self).__name__}: no set of queries is given; give one or more")
        collections = dict.fromkeys(queries.source.spec for queries in self.queries)
        if len({queries.source for queries in self.queries}) > 1:
            raise InputError(
                f"{type(self).__name__}: the queries are of several collections ({offenders(collections)}), and one "
                "collection is searched; make a run for each of them"
            )

    @property
    def rerank_depth(self) -> float:
        """So many passages are reranked, below them the first stage's order stays; infinite without
        a reranker.
        """
        return getattr(self.recipe, "rerank_depth", np.inf)

    def read(self, store: Store, queries: Queries | Part | str) -> RunFile:
        """The ranking of one of the sets of queries, given or named; InputError for a set that is
        not ranked here.
        """
        return RunFile.read(store[self] / file_of(self.set_of(queries)))

    def set_of(self, queries: Queries | Part | str) -> Queries | Part:
        """One of the sets of queries of this ranking, given or by its name in `names_of`."""
        names = names_of(self.queries)
        known = dict(
            zip(names if isinstance(queries, str) else self.queries, self.queries, strict=True)
        )
        if queries not in known:
            asked = (
                queries if isinstance(queries, str) else f"{queries.name} of {queries.source.spec}"
            )
            raise InputError(
                f"{self.title()} has no ranking of {asked!r}; it has {offenders(names, 20)}"
            )
        return known[queries]

    def log(self, store: Store) -> dict:
        """What the model noted of its training (steps, loss, n_train, …); {} where nothing was
        trained.
        """
        path = store[self] / LOG
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def write(self, folder: Path, store: Store, search: Callable) -> None:
        """What `search` (texts → rows, scores [n, k]) finds for all sets of queries, and the log of
        the model.
        """
        frames = [queries.frame(store) for queries in self.queries]
        found = search([text for frame in frames for text in frame["text"]])
        ends, doc_ids = (
            np.cumsum([len(frame) for frame in frames])[:-1],
            self.queries[0].source.open().passages.doc_ids,
        )
        for queries, frame, *hits in zip(
            self.queries, frames, *(np.split(part, ends) for part in found), strict=True
        ):
            RunFile.from_arrays(frame["query_id"].tolist(), doc_ids, *hits).write_parquet(
                folder / file_of(queries)
            )
        shutil.copy(store[self.model] / LOG, folder)

    def megabytes(self) -> float:
        return RUN_ROW * self.n_queries() * self.depth

    def n_queries(self) -> int:
        return sum(part.size() for part in self.queries)


class Run(OfModel, Ranking):
    """The first `depth` passages of each query, by a trained model.

    The collection of the queries need not be that of the training: its passages are encoded once.
    """

    model: Model
    queries: tuple[Queries | Part, ...]

    def build(self, folder: Path, store: Store) -> None:
        collection, model = self.queries[0].source.open(), load_model(store[self.model] / "weights")
        self.write(folder, store, lambda texts: model.search(collection, texts, self.depth))

    def title(self) -> str:
        found = "+".join(queries.name for queries in self.queries)
        return f"run {self.model.title().removeprefix('model ')} → {found} of {self.queries[0].source.spec}"

    def seconds(self) -> float:
        return self.recipe.cost(0, self.queries[0].source.n_passages(), self.n_queries())[
            "encode_seconds"
        ]


def model_of(recipe: Recipe, train: Queries | Part, seed: int) -> Model:
    """The model of a recipe with what it needs first: pretrained weights, a model that mines
    negatives, a teacher.

    All are trained on the same queries with the same seed; negatives are drawn from the same
    `negative_passages`.
    """
    if not isinstance(recipe, Trained):
        return Model.of(recipe, train, seed)
    same, named = (
        {"negative_passages": recipe.negative_passages},
        {"first": recipe.after, "teacher": recipe.teacher},
    )
    others = {
        role: model_of(load_recipe(name, **same), train, seed)
        for role, name in named.items()
        if name
    }
    if recipe.pretraining:
        others["first"] = Pretrained.of(recipe.pretraining, recipe.initialisation, seed)
    if recipe.negatives.startswith("mined"):
        others["ranking"] = Run(
            model=others["first"], queries=(train,), depth=recipe.negative_depth
        )
    return Model.of(recipe, train, seed, **others)


class Encoded(OfModel):
    """`passages.npy`: the vectors float32[n, d] of a collection's passages, by a model with one
    vector a text.
    """

    model: Model
    source: Source

    def build(self, folder: Path, store: Store) -> None:
        passages, model = self.source.open().passages, load_model(store[self.model] / "weights")
        if not isinstance(model, Dense):
            raise InputError(f"{self.model.title()} has not one vector a text; give a dense model")
        for start, texts in passages.batches(model.block_size):
            block = model.encode_passages(texts)
            if not start:
                shape = len(passages), block.shape[1]
                file = np.lib.format.open_memmap(folder / "passages.npy", "w+", np.float32, shape)
            file[start : start + len(block)] = block
        file.flush()

    def read(self, store: Store) -> np.ndarray:
        """The vectors, on disk until they are used."""
        return np.load(store[self] / "passages.npy", mmap_mode="r")

    def title(self) -> str:
        return f"encoding · passages of {self.source.spec} by {self.model.title()}"

    def seconds(self) -> float:
        return self.recipe.cost(0, self.source.n_passages(), 0)["encode_seconds"]

    def megabytes(self) -> float:
        return self.source.n_passages() * self.recipe.size.dimension * NUMBER


class Searched(OfModel, Ranking):
    """The first `depth` passages of each query by an index over vectors that are there.

    `Flat` is exact, with the ranking of a `Run`; ties of faiss's other indexes are broken among
    what they return. `bytes.json`: what a passage costs, the whole of codes, codebooks and graph
    divided by the passages.
    """

    encoded: Encoded
    queries: tuple[
        Queries | Part, ...
    ]  # of the collection that is encoded; the same model encodes them
    # As faiss's index_factory reads it: HNSW32, "IVF1024,Flat", "IVF1024,PQ16", …; or one of
    # `indexes.PRECISIONS`
    index: str = "Flat"
    parameters: str = (
        ""  # as faiss's ParameterSpace reads them: "efConstruction=80,efSearch=64", nprobe=16, …
    )
    seed: int = 0  # of the order in which passages are inserted; 0 is that of the collection
    truncate_dim: int = Field(0, ge=0)  # the first so many dimensions; 0: all
    rescore_multiplier: int = Field(2, ge=0)  # these two: see `indexes.quantised_search`
    calibration: int = Field(0, ge=0)

    @property
    def model(self) -> Model:
        return self.encoded.model

    def needs(self) -> tuple[Cell, ...]:
        return (*super().needs(), self.model)  # which encodes the queries

    def build(self, folder: Path, store: Store) -> None:
        if self.queries[0].source != self.encoded.source:
            raise InputError(
                f"{self.title()}: the queries are of another collection than the encoded passages"
            )
        vectors = self.encoded.read(store)
        if self.truncate_dim > vectors.shape[1]:
            raise InputError(
                f"{self.title()}: truncate_dim = {self.truncate_dim} of {vectors.shape[1]} dimensions"
            )
        vectors = vectors[:, : self.truncate_dim or None]
        model, passages = (
            load_model(store[self.model] / "weights"),
            self.encoded.source.open().passages,
        )

        def search(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
            queries, size = (
                model.encode_queries(texts)[:, : vectors.shape[1]],
                vectors.size * NUMBER * 1e6,
            )
            if self.index == "Flat":
                blocks = (
                    np.array(vectors[at : at + BLOCK]) for at in range(0, len(vectors), BLOCK)
                )
                found = exact_search(
                    passages, blocks, inner_products(queries), len(texts), self.depth, BLOCK
                )
            elif self.index in PRECISIONS:
                how = self.index, self.rescore_multiplier, self.calibration
                found, size = quantised_search(vectors, queries, self.depth, *how)
            else:
                index = Index(vectors, self.index, self.parameters, self.seed)
                found, size = index.search(queries, self.depth), index.size
            write_json(folder / "bytes.json", size / len(vectors))
            return found

        self.write(folder, store, search)

    def bytes_per_passage(self, store: Store) -> float:
        return json.loads((store[self] / "bytes.json").read_text(encoding="utf-8"))

    def title(self) -> str:
        found = "+".join(queries.name for queries in self.queries)
        return f"search · {self.index} {self.parameters} → {found} of {self.encoded.title()}"

    def seconds(self) -> float:
        return (
            self.n_queries()
            * self.encoded.source.n_passages()
            * self.recipe.size.dimension
            / INNER_PRODUCTS
        )


class Imported(Ranking):
    """Anybody's run (a TREC file, or Parquet as `RunFile` writes it) on the queries that it ranks
    for.
    """

    file: GivenFile
    queries: tuple[Queries | Part, ...]
    missing_queries: bool = (
        False  # whether the run may lack queries, which have then retrieved nothing
    )

    def build(self, folder: Path, store: Store) -> None:
        run, ids = (
            RunFile.read(self.file.open()),
            {queries: queries.ids(store) for queries in self.queries},
        )
        asked, doc_ids = set().union(*ids.values()), np.array(run.doc_ids)
        unknown = self.queries[0].source.open().passages.rows(doc_ids) < 0
        wrong = {
            "query_ids are not among the queries": [
                query_id for query_id in run.query_ids if query_id not in asked
            ],
            "doc_ids are not in the collection": doc_ids[unknown].tolist(),
        }
        if not self.missing_queries:
            wrong["queries are missing (missing_queries allows it)"] = sorted(
                asked - set(run.query_ids)
            )
        if found := [
            f"{len(these)} {what}: {offenders(these)}" for what, these in wrong.items() if these
        ]:
            raise InputError(f"{self.file.path}: {'; '.join(found)}")
        frame = run.frame().query("rank <= @self.depth")
        for queries, part in ids.items():
            RunFile.from_frame(frame[frame["query_id"].isin(part)]).write_parquet(
                folder / file_of(queries)
            )

    def title(self) -> str:
        return f"imported run {Path(self.file.path).name} → {'+'.join(queries.name for queries in self.queries)}"


RANX = ["query_id", "doc_id", "score"]


def _ranx(file: RunFile, by_rank: bool):
    """A run of ranx, which refuses pandas' own strings; with ranks turned round as scores it has no
    ties.
    """
    import ranx

    frame = file.frame()
    frame["score"] = -frame["rank"] if by_rank else frame["score"]
    return ranx.Run.from_df(
        frame.astype({"query_id": object, "doc_id": object, "score": float}), *RANX
    )


class Fused(Ranking):
    """Runs on the same queries in one ranking.

    `method` is one of ranx: rrf (reciprocal rank fusion, k = 60), or wsum with `weights`, one a
    run, of scores that were brought to 0…1 by query (the weighted interpolation of Hofstätter et
    al., TREC 2021). With `tuned`, queries that measure nothing, the weights are chosen among tenths
    by their nDCG@10: `weights.json`.
    """

    runs: tuple[Ranking, ...]
    method: str = "rrf"
    weights: tuple[float, ...] = ()
    tuned: Queries | Part | None = None  # one of the sets of queries that the runs rank

    @property
    def queries(self) -> tuple[Queries | Part, ...]:
        return self.runs[0].queries if self.runs else ()

    def build(self, folder: Path, store: Store) -> None:
        if {run.queries for run in self.runs} != {self.queries} or len(self.weights) not in (
            0,
            len(self.runs),
        ):
            raise InputError(
                "fusion: give runs on the same queries, and a weight for each run or none"
            )
        if self.method == "rrf" and (self.weights or self.tuned):
            raise InputError("fusion by rrf: it has no weights; give none, or the method wsum")
        weights = self._tuned(store) if self.tuned else self.weights
        if self.tuned:
            write_json(folder / "weights.json", weights)
        for queries in self.queries:
            files = [run.read(store, queries) for run in self.runs]
            self._fused(files, weights).write_parquet(folder / file_of(queries))

    def _fused(self, files: Sequence[RunFile], weights: Sequence[float]) -> RunFile:
        """Ties have the order of `RunFile`; ranx breaks them anyhow, so it gets ranks where ranks
        are what counts.
        """
        import ranx

        by_rank, params = self.method == "rrf", {"weights": weights} if weights else None
        query_ids = list(dict.fromkeys(query_id for file in files for query_id in file.query_ids))
        runs = [_ranx(file, by_rank) for file in files]
        if any(len(run) < len(query_ids) for run in runs):  # a query may have hits in one run alone
            asked = ranx.Qrels.from_dict({query_id: {"": 1} for query_id in query_ids})
            runs = [run.make_comparable(asked) for run in runs]
        fused = ranx.fuse(runs, None if by_rank else "min-max", self.method, params).to_dataframe()
        ordered = fused.sort_values("q_id", key=pd.Index(query_ids).get_indexer, kind="stable")
        found = RunFile.from_frame(ordered.set_axis(RANX, axis=1)).frame()
        return RunFile.from_frame(found.query("rank <= @self.depth"))

    def _tuned(self, store: Store) -> tuple[float, ...]:
        """The weights, in tenths, that are best on the queries `tuned`, of those that all runs
        have.
        """
        import ranx

        qrels, frames = (
            self.tuned.qrels(store),
            [run.read(store, self.tuned).frame() for run in self.runs],
        )
        shared = set(qrels["query_id"]).intersection(*(frame["query_id"] for frame in frames))
        if not shared:
            raise InputError(
                f"fusion: no query of {self.tuned.name} has judgements and a ranking of each run"
            )
        files = [RunFile.from_frame(frame[frame["query_id"].isin(shared)]) for frame in frames]
        qrels = qrels[qrels["query_id"].isin(shared)].astype(
            {"query_id": object, "doc_id": object, "relevance": int}
        )
        judged = ranx.Qrels.from_df(qrels, "query_id", "doc_id", "relevance")
        tenths = [
            part for part in itertools.product(range(11), repeat=len(files)) if sum(part) == 10
        ]
        weights = [tuple(tenth / 10 for tenth in part) for part in tenths]
        return max(
            weights,
            key=lambda part: ranx.evaluate(
                judged, _ranx(self._fused(files, part), True), "ndcg@10"
            ),
        )

    def title(self) -> str:
        return f"fusion by {self.method} of {len(self.runs)} runs"
