"""A collection encoded once by a dense model, and searched in any way that faiss knows."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from interextra.data.queries import Part, Queries, Source
from interextra.ground.cells import Cell, Store
from interextra.ground.errors import InputError
from interextra.models import architectures
from interextra.models.model import Model, load_model
from interextra.models.recipe import INNER_PRODUCTS, NUMBER, Recipe
from interextra.models.run import Ranking
from interextra.models.topk import exact_search

BLOCK = 8192  # passages scored or inserted at once


class Encoded(Cell):
    """`passages.npy`: the vectors float32[n, d] of a collection's passages, by a model with one vector a text."""

    model: Model
    source: Source

    def build(self, folder: Path, store: Store) -> None:
        if not architectures()[self.model.recipe.architecture].SINGLE_VECTOR:
            raise InputError(f"{self.model.title()} has not one vector a text; give a dense model")
        collection, start, file = self.source.open(), 0, None
        for block in load_model(store[self.model] / "weights").blocks(collection):
            if file is None:
                shape = len(collection.passages), block.shape[1]
                file = np.lib.format.open_memmap(folder / "passages.npy", "w+", np.float32, shape)
            file[start : start + len(block)] = block
            start += len(block)
        file.flush()

    def read(self, store: Store) -> np.ndarray:
        """The vectors, on disk until they are used."""
        return np.load(store[self] / "passages.npy", mmap_mode="r")

    def modules(self) -> tuple[str, ...]:
        return (*super().modules(), architectures()[self.model.recipe.architecture].__name__)

    def title(self) -> str:
        return f"passages of {self.source.spec} by {self.model.title()}"

    def seconds(self) -> float:
        return self.model.recipe.cost(0, self.source.n_passages(), 0)["encode_seconds"]

    def megabytes(self) -> float:
        return self.source.n_passages() * self.model.recipe.size.dimension * NUMBER


class Searched(Ranking):
    """The first `depth` passages of each query by a faiss index over vectors that are there.

    `Flat` is exact, with the ranking of a `Run`; ties of other indexes are broken among what they return.
    """

    encoded: Encoded
    queries: tuple[Queries | Part, ...]  # of the collection that is encoded; the same model encodes them
    depth: int = 100
    index: str = "Flat"  # as faiss's index_factory reads it: HNSW32, "IVF1024,Flat", "IVF1024,PQ16", …
    parameters: str = ""  # as faiss's ParameterSpace reads them: "efConstruction=80,efSearch=64", nprobe=16, …
    seed: int = 0  # of the order in which passages are inserted; 0 is that of the collection

    @property
    def recipe(self) -> Recipe:
        return self.encoded.model.recipe

    def needs(self) -> tuple[Cell, ...]:
        return (*super().needs(), self.encoded.model)  # which encodes the queries

    def build(self, folder: Path, store: Store) -> None:
        if self.queries[0].source != self.encoded.source:
            raise InputError(f"{self.title()}: the queries are of another collection than the encoded passages")
        model, vectors = load_model(store[self.encoded.model] / "weights"), self.encoded.read(store)

        def search(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
            if self.index == "Flat":
                blocks = ({"vectors": np.array(vectors[at : at + BLOCK])} for at in range(0, len(vectors), BLOCK))
                passages, scores = self.encoded.source.open().passages, model.open_queries(texts)
                return exact_search(passages, blocks, scores, len(texts), self.depth, model.query_block)
            order = np.random.default_rng(self.seed).permutation(len(vectors)) if self.seed else np.arange(len(vectors))
            return indexed_search(vectors, order, model.encode_queries(texts), self.depth, self.index, self.parameters)

        self.write(folder, store, self.encoded.model, search)

    def title(self) -> str:
        found = "+".join(queries.name for queries in self.queries)
        return f"search {self.index} {self.parameters} → {found} of {self.encoded.title()}"

    def seconds(self) -> float:
        products = self.n_queries() * self.encoded.source.n_passages() * self.recipe.size.dimension
        return products / INNER_PRODUCTS


def indexed_search(
    vectors: np.ndarray, order: np.ndarray, queries: np.ndarray, k: int, index: str, parameters: str
) -> tuple[np.ndarray, np.ndarray]:
    """What a faiss index finds: (rows int64[n, k], scores float32[n, k]); row -1, score -inf where it finds fewer.

    `vectors` float32[n, d] are inserted in `order`, by one thread, so that a repetition gives the same index.
    """
    import faiss

    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        made = faiss.index_factory(vectors.shape[1], index, faiss.METRIC_INNER_PRODUCT)
        faiss.ParameterSpace().set_index_parameters(made, parameters)
        if not made.is_trained:
            made.train(np.asarray(vectors))
        for start in range(0, len(order), BLOCK):
            made.add(vectors[order[start : start + BLOCK]])
        scores, places = made.search(queries, k)
    except RuntimeError as error:
        message = " ".join(str(error).split())[-200:]
        raise InputError(f"faiss: index {index!r} with parameters {parameters!r}: {message}") from None
    finally:
        faiss.omp_set_num_threads(threads)
    return np.where(places < 0, -1, order[places]), np.where(places < 0, -np.inf, scores)
