"""Rankings as cells: by a trained model or an index, imported, and several fused into one."""

import itertools
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from interextra.data.collection import Passages
from interextra.data.queries import Part, Queries, Source
from interextra.data.runs import RunFile
from interextra.models.architectures.dense import Dense, inner_products
from interextra.models.model import LOG, Model, OfModel, file_of, names_of
from interextra.models.prices import (
    FLOAT32_MEGABYTES,
    FUSED_MEGABYTES,
    MULTIPLICATIONS_PER_SECOND,
    RANKED_MEGABYTES,
    RUN_ROW_MEGABYTES,
)
from interextra.models.recipe import Recipe
from interextra.models.search import sharded
from interextra.models.search.indexes import (
    BLOCK,
    PRECISIONS,
    Index,
    blocks_of,
    quantised_search,
)
from interextra.models.search.sharded import Hits
from interextra.models.search.sizes import build_seconds, peak_bytes
from interextra.models.search.topk import exact_search
from interextra.models.search.vectors import GivenFile, write_vectors
from interextra.store import Cell, InputError, Store, offenders, write_json
from interextra.store.files import read_json


class Ranking(Cell):
    """A ranking of at least one set of queries, a file each (`file_of`).

    Each kind has its sets as `queries`, a field or a property. All sets belong to one collection,
    whose passages are ranked: InputError for sets of several collections, and for no set. In the
    folder of a trained model's ranking the model's log (`LOG`) stands, too.
    """

    travels: ClassVar[tuple[str, ...]] = (LOG,)  # with a committed reference, see `Cell`
    recipe: ClassVar[Recipe | None] = None  # of the model that ranked, where there is a single one
    depth: int = 100  # passages a query

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        kind = type(self).__name__
        if not self.queries:
            raise InputError(f"{kind}: no set of queries is given; give one or more")
        if len({queries.source for queries in self.queries}) > 1:
            collections = dict.fromkeys(queries.source.spec for queries in self.queries)
            raise InputError(
                f"{kind}: the queries are of several collections ({offenders(collections)}), "
                "and one collection is searched; make a run for each of them"
            )

    @property
    def source(self) -> Source:
        """The collection that is searched."""
        return self.queries[0].source

    @property
    def rerank_depth(self) -> float:
        """How many passages of a query a reranker put in order; below stands the first stage's.

        Infinite for all other rankings, whose order is their own down to `depth`.
        """
        return getattr(self.recipe, "rerank_depth", np.inf)

    def read(self, store: Store, queries: Queries | Part | str) -> RunFile:
        """Return the ranking of one of the sets of queries, given or named as in `set_of`."""
        return RunFile.read(store[self] / file_of(self.set_of(queries)))

    def set_of(self, queries: Queries | Part | str) -> Queries | Part:
        """Return one of the sets of queries of this ranking, given or by its name in `names_of`.

        InputError for a set that is not ranked here.
        """
        names = names_of(self.queries)
        for name, ranked in zip(names, self.queries, strict=True):
            if queries in (name, ranked):
                return ranked
        asked = queries
        if not isinstance(queries, str):
            asked = f"{queries.name} of {queries.source.spec}"
        raise InputError(
            f"{self.title()} has no ranking of {asked!r}; it has {offenders(names, 20)}"
        )

    def log(self, store: Store) -> dict:
        """Return what the model noted of its training (steps, loss, n_train, …).

        It is {} where nothing was trained.
        """
        path = store[self] / LOG
        return read_json(path) if path.is_file() else {}

    def write(
        self,
        folder: Path,
        store: Store,
        search: Callable[[list[str]], Hits],
    ) -> None:
        """Write what `search` finds for all sets of queries, and the log of the model.

        This is for the kinds of ranking that have a `model`.

        Parameters
        ----------
        search : texts of all queries → their hits.
        """
        frames = [queries.frame(store) for queries in self.queries]
        texts = pd.concat(frames)["text"].tolist()
        rows, scores = search(texts)
        doc_ids = self.source.open().passages.doc_ids
        start = 0
        for queries, frame in zip(self.queries, frames, strict=True):
            of_set = slice(start, start + len(frame))
            query_ids = frame["query_id"].tolist()
            run = RunFile.from_arrays(query_ids, doc_ids, rows[of_set], scores[of_set])
            run.write_parquet(folder / file_of(queries))
            start += len(frame)
        shutil.copy(store[self.model] / LOG, folder)

    def megabytes(self) -> float:
        """Return the estimated size on disk."""
        return RUN_ROW_MEGABYTES * self.n_queries() * self.depth

    def memory(self) -> float:
        """Return the estimated megabytes of memory at the peak."""
        ranking = RANKED_MEGABYTES * self.n_queries() * self.depth
        return super().memory() + self.source.memory() + ranking

    def n_queries(self) -> int:
        """Return the number of queries in all sets."""
        return sum(queries.size() for queries in self.queries)

    def _set_names(self) -> str:
        """Return the names of all sets, for a title."""
        return "+".join(queries.name for queries in self.queries)


class Run(OfModel, Ranking):
    """The first `depth` passages of each query, by a trained model.

    The collection of the queries need not be that of the training: its passages are encoded once.
    """

    model: Model
    queries: tuple[Queries | Part, ...]

    def build(self, folder: Path, store: Store) -> None:
        """Search with the model, and write the rankings and the model's log."""
        collection = self.source.open()
        n_devices = sharded.n_devices(self.recipe)

        def search(texts: list[str]) -> Hits:
            """Search on one device, or on all that there are."""
            if n_devices > 1:
                weights = store[self.model] / "weights"
                return sharded.search(weights, self.source, texts, self.depth, n_devices)
            return self.open_model(store).search(collection, texts, self.depth)

        self.write(folder, store, search)

    def title(self) -> str:
        """Return what a reader calls it."""
        model = self.model.title().removeprefix("model ")
        return f"run {model} → {self._set_names()} of {self.source.spec}"

    def seconds(self) -> float:
        """Return the estimated seconds on its device: those in which the model reads texts."""
        n_passages = self.source.n_passages()
        return self.recipe.search_seconds(n_passages, self.n_queries())

    def memory(self) -> float:
        """Return the estimated megabytes of memory at the peak."""
        return super().memory() + self.recipe.search_memory(self.n_queries())


class Encoded(OfModel):
    """The vectors of a collection's passages, by a model with one vector a text.

    `passages.npy` holds float32[n, d].
    """

    model: Model
    source: Source

    def build(self, folder: Path, store: Store) -> None:
        """Encode the passages block by block into the file."""
        passages = self.source.open().passages
        model = self.open_model(store)
        if not isinstance(model, Dense):
            raise InputError(f"{self.model.title()} has not one vector a text; give a dense model")
        path = folder / "passages.npy"
        n_devices = sharded.n_devices(self.recipe)
        if n_devices > 1:
            sharded.encode(store[self.model] / "weights", self.source, path, n_devices)
            return
        texts_of_blocks = (texts for _, texts in passages.batches(model.block_size))
        write_vectors(path, len(passages), map(model.encode_passages, texts_of_blocks))

    def read(self, store: Store) -> np.ndarray:
        """Return the vectors, on disk until they are used."""
        return np.load(store[self] / "passages.npy", mmap_mode="r")

    def title(self) -> str:
        """Return what a reader calls it."""
        return f"encoding · passages of {self.source.spec} by {self.model.title()}"

    def seconds(self) -> float:
        """Return the estimated seconds on its device."""
        return self.recipe.search_seconds(self.source.n_passages(), 0)

    def memory(self) -> float:
        """Return the estimated megabytes of memory at the peak."""
        return super().memory() + self.recipe.search_memory(0) + self.source.memory()

    def megabytes(self) -> float:
        """Return the estimated size on disk."""
        return self.source.n_passages() * self.recipe.size.dimension * FLOAT32_MEGABYTES


class Searched(OfModel, Ranking):
    """The first `depth` passages of each query by an index over vectors that are there.

    `Flat` is exact, with the ranking of a `Run`; ties of faiss's other indexes are broken among
    what they return. `bytes.json`: what a passage costs, the whole of codes, codebooks and graph
    divided by the passages.
    """

    encoded: Encoded
    queries: tuple[Queries | Part, ...]  # of the same collection as the encoded passages
    # As faiss's index_factory reads it: HNSW32, "IVF1024,Flat", "IVF1024,PQ16", …; or one of
    # `indexes.PRECISIONS`
    index: str = "Flat"
    # as faiss's ParameterSpace reads them: "efConstruction=80,efSearch=64", nprobe=16, …
    parameters: str = ""
    seed: int = 0  # of the order in which passages are inserted; 0 is that of the collection
    truncate_dim: int = Field(0, ge=0)  # the first so many dimensions; 0: all
    rescore_multiplier: int = Field(2, ge=0)  # these two: see `indexes.quantised_search`
    calibration: int = Field(0, ge=0)

    @property
    def model(self) -> Model:
        """The model that encoded the passages, and encodes the queries."""
        return self.encoded.model

    def needs(self) -> tuple[Cell, ...]:
        """Return the encoded passages, and the model, which encodes the queries."""
        return (*super().needs(), self.model)

    def build(self, folder: Path, store: Store) -> None:
        """Search with the index, and write the rankings, the model's log and `bytes.json`.

        InputError for queries of another collection, and for more dimensions than there are.
        """
        if self.source != self.encoded.source:
            raise InputError(
                f"{self.title()}: the queries are of another collection than the encoded passages"
            )
        vectors = self.encoded.read(store)
        if self.truncate_dim > vectors.shape[1]:
            raise InputError(
                f"{self.title()}: truncate_dim = {self.truncate_dim} "
                f"of {vectors.shape[1]} dimensions"
            )
        vectors = vectors[:, : self.truncate_dim or None]
        model = self.open_model(store)
        passages = self.source.open().passages

        def search(texts: Sequence[str]) -> Hits:
            """Search with the index, and write what a passage costs in it: known only here."""
            queries = model.encode_queries(texts)[:, : vectors.shape[1]]
            hits, n_bytes = self._search(passages, vectors, queries, folder)
            write_json(folder / "bytes.json", n_bytes / len(vectors))
            return hits

        self.write(folder, store, search)

    def _search(
        self, passages: Passages, vectors: np.ndarray, queries: np.ndarray, folder: Path
    ) -> tuple[Hits, float]:
        """Search over vectors of passages; return what is found, and the bytes of the index.

        `folder` is where a training may keep what it reads.
        """
        if self.index == "Flat":
            blocks = blocks_of(vectors)
            open_block = inner_products(queries)
            hits = exact_search(passages, blocks, open_block, len(queries), self.depth, BLOCK)
            return hits, vectors.size * FLOAT32_MEGABYTES * 1e6
        if self.index in PRECISIONS:
            return quantised_search(
                vectors,
                queries,
                self.depth,
                self.index,
                self.rescore_multiplier,
                self.calibration,
            )
        index = Index(vectors, self.index, self.parameters, self.seed, folder)
        return index.search(queries, self.depth), index.size

    def bytes_per_passage(self, store: Store) -> float:
        """Return how many bytes of the index a passage takes."""
        return read_json(store[self] / "bytes.json")

    def title(self) -> str:
        """Return what a reader calls it."""
        index = f"{self.index} {self.parameters}"
        return f"search · {index} → {self._set_names()} of {self.encoded.title()}"

    def device(self) -> str:
        """Return what computes it: faiss, on the CPU."""
        return "cpu"

    def memory(self) -> float:
        """Return the estimated megabytes of memory at the peak: the index, and blocks."""
        size = self.recipe.size
        megabytes = super().memory() + size.searching_megabytes()
        if self.index == "Flat":  # never in memory as a whole
            return megabytes
        n_dimensions = self.truncate_dim or size.dimension
        return megabytes + peak_bytes(self.index, self.source.n_passages(), n_dimensions) / 1e6

    def seconds(self) -> float:
        """Return the estimated seconds of one core: of building a graph, and of an exact search."""
        n_passages = self.source.n_passages()
        n_dimensions = self.truncate_dim or self.recipe.size.dimension
        building = build_seconds(self.index, self.parameters, n_passages, n_dimensions)
        n_pairs = self.n_queries() * n_passages
        return building + n_pairs * self.recipe.size.dimension / MULTIPLICATIONS_PER_SECOND


class Imported(Ranking):
    """A user's run: a TREC file, or Parquet as `RunFile` writes it.

    `queries` are those that it ranks passages for.
    """

    file: GivenFile
    queries: tuple[Queries | Part, ...]
    # whether the run may lack queries, which have then retrieved nothing
    missing_queries: bool = False

    def build(self, folder: Path, store: Store) -> None:
        """Write the first `depth` passages of each query.

        InputError for ids that are not those of the collection, and for queries that the run lacks.
        """
        given = RunFile.read(self.file.open())
        ids_of_sets = {queries: queries.ids(store) for queries in self.queries}
        asked = set().union(*ids_of_sets.values())
        self._refuse_other_ids(given, asked)
        ranking = given.frame()
        ranking = ranking[ranking["rank"] <= self.depth]
        for queries, query_ids in ids_of_sets.items():
            is_of_set = ranking["query_id"].isin(query_ids)
            run = RunFile.from_frame(ranking[is_of_set])
            run.write_parquet(folder / file_of(queries))

    def _refuse_other_ids(self, run: RunFile, asked: set[str]) -> None:
        """Refuse a run that ranks other queries or passages, or lacks some of the queries asked.

        It may lack queries where `missing_queries` allows it.
        """
        doc_ids = np.array(run.doc_ids)
        rows = self.source.open().passages.rows(doc_ids)
        foreign = [query_id for query_id in run.query_ids if query_id not in asked]
        wrong = {
            "query_ids are not among the queries": foreign,
            "doc_ids are not in the collection": doc_ids[rows < 0].tolist(),
        }
        if not self.missing_queries:
            missing = sorted(asked - set(run.query_ids))
            wrong["queries are missing (missing_queries allows it)"] = missing
        problems = []
        for what, ids in wrong.items():
            if ids:
                problems.append(f"{len(ids)} {what}: {offenders(ids)}")
        if problems:
            raise InputError(f"{self.file.path}: {'; '.join(problems)}")

    def title(self) -> str:
        """Return what a reader calls it."""
        name = Path(self.file.path).name
        return f"imported run {name} → {self._set_names()}"


RANX = ["query_id", "doc_id", "score"]


def _as_ranx(run: RunFile, by_rank: bool) -> Any:
    """Make a run of ranx; `by_rank`: with negative ranks as scores, which has no ties."""
    import ranx

    frame = run.frame()
    if by_rank:
        frame["score"] = -frame["rank"]
    # objects: ranx refuses pandas' own strings
    types = {"query_id": object, "doc_id": object, "score": float}
    return ranx.Run.from_df(frame.astype(types), *RANX)


class OfRuns(Ranking):
    """What is made of `runs` on the same queries."""

    runs: tuple[Ranking, ...]

    @property
    def queries(self) -> tuple[Queries | Part, ...]:
        """The sets of queries that the runs rank."""
        return self.runs[0].queries if self.runs else ()

    @property
    def has_same_queries(self) -> bool:
        """Whether all runs rank the same sets of queries, in the same order."""
        return all(run.queries == self.queries for run in self.runs)


class Fused(OfRuns):
    """Runs on the same queries in one ranking.

    `method` is one of ranx: rrf (reciprocal rank fusion, k = 60), or wsum with `weights`, one a
    run, of scores that were brought to 0…1 by query (the weighted interpolation of Hofstätter et
    al., TREC 2021).

    With `tuned` the weights are those, in tenths, of the best nDCG@10 on this set of queries, on
    which nothing should be measured afterwards. They stand in `weights.json`.
    """

    method: str = "rrf"
    weights: tuple[float, ...] = ()
    tuned: Queries | Part | None = None  # one of the sets of queries that the runs rank

    def memory(self) -> float:
        """Return the estimated megabytes of memory at the peak: the runs as ranx has them."""
        return super().memory() + FUSED_MEGABYTES * self.n_queries() * self.depth * len(self.runs)

    def build(self, folder: Path, store: Store) -> None:
        """Fuse the rankings of each set of queries, with tuned weights where they are asked for."""
        weights_fit = len(self.weights) in (0, len(self.runs))
        if not self.has_same_queries or not weights_fit:
            raise InputError(
                "fusion: give runs on the same queries, and a weight for each run or none"
            )
        if self.method == "rrf" and (self.weights or self.tuned):
            raise InputError("fusion by rrf: it has no weights; give none, or the method wsum")
        weights = self.weights
        if self.tuned:
            weights = self._tuned_weights(store)
            write_json(folder / "weights.json", weights)
        for queries in self.queries:
            runs = [run.read(store, queries) for run in self.runs]
            fused = self._fused(runs, weights)
            fused.write_parquet(folder / file_of(queries))

    def _fused(self, runs: Sequence[RunFile], weights: Sequence[float]) -> RunFile:
        """Fuse runs; ties have the order of `RunFile`.

        ranx breaks them arbitrarily, so it gets ranks where ranks are what counts.
        """
        import ranx

        by_rank = self.method == "rrf"
        all_ids = itertools.chain.from_iterable(run.query_ids for run in runs)
        query_ids = list(dict.fromkeys(all_ids))
        ranx_runs = [_as_ranx(run, by_rank) for run in runs]
        # A query may have hits in one run alone. ranx adds it to the others, without a hit, where
        # it has a judgement, be it of a passage without a name.
        asked = ranx.Qrels.from_dict({query_id: {"": 1} for query_id in query_ids})
        ranx_runs = [run.make_comparable(asked) for run in ranx_runs]
        norm = None if by_rank else "min-max"
        params = {"weights": weights} if weights else None
        fused = ranx.fuse(ranx_runs, norm, self.method, params).to_dataframe()
        # queries in the order of the runs
        ordered = fused.sort_values("q_id", key=pd.Index(query_ids).get_indexer, kind="stable")
        # passages in the order of `RunFile`, whose ranks end at the depth
        named = ordered.set_axis(RANX, axis=1)
        ranking = RunFile.from_frame(named).frame()
        is_kept = ranking["rank"] <= self.depth
        return RunFile.from_frame(ranking[is_kept])

    def _tuned_weights(self, store: Store) -> tuple[float, ...]:
        """Return the weights, in tenths, that are best on the queries `tuned`.

        Only those of these queries count that have judgements and, in each run, a ranking. Of equal
        weights the first ones of `_weights_in_tenths` are taken.
        """
        import ranx

        qrels = self.tuned.qrels(store)
        runs = [run.read(store, self.tuned) for run in self.runs]
        ranked = [run.query_ids for run in runs]
        shared = set(qrels["query_id"]).intersection(*ranked)
        if not shared:
            raise InputError(
                f"fusion: no query of {self.tuned.name} has judgements and a ranking of each run"
            )
        types = {"query_id": object, "doc_id": object, "relevance": int}
        judged = qrels[qrels["query_id"].isin(shared)].astype(types)
        ranx_qrels = ranx.Qrels.from_df(judged, "query_id", "doc_id", "relevance")

        def ndcg(weights: tuple[float, ...]) -> float:
            """Return the mean nDCG@10 of the runs fused with these weights."""
            fused = _as_ranx(self._fused(runs, weights), by_rank=True)
            return ranx.evaluate(ranx_qrels, fused, "ndcg@10", make_comparable=True)

        return max(_weights_in_tenths(len(runs)), key=ndcg)

    def title(self) -> str:
        """Return what a reader calls it."""
        return f"fusion by {self.method} of {len(self.runs)} runs"


def _weights_in_tenths(n_runs: int) -> list[tuple[float, ...]]:
    """Return all weights of so many runs that are tenths and sum to 1.

    Examples
    --------
    >>> _weights_in_tenths(2)[:3]
    [(0.0, 1.0), (0.1, 0.9), (0.2, 0.8)]
    """
    all_tenths = itertools.product(range(11), repeat=n_runs)
    sum_to_one = [tenths for tenths in all_tenths if sum(tenths) == 10]
    return [tuple(number / 10 for number in tenths) for tenths in sum_to_one]
