"""Encoding and search by several GPUs, a process each, which give the bytes of one process.

A shard is a run of the blocks that one process would make, so that each text is encoded beside the
same others. What the shards find is merged by score and the order of ties, which are all that a
ranking depends on.
"""

import dataclasses
import math
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from interextra.data.collection import Passages
from interextra.data.queries import Source
from interextra.models.architectures.reranker import BLOCK
from interextra.models.model import load_model
from interextra.models.recipe import Recipe, Trained
from interextra.models.retriever import Encoder
from interextra.models.search.topk import PADDING, devices

CHANGES_NO_RESULT = True  # tests hold it to that: see `store.code`
VISIBLE = "CUDA_VISIBLE_DEVICES"

Hits = tuple[np.ndarray, np.ndarray]  # rows int32[n_queries, k], scores float32[n_queries, k]


class Shard(NamedTuple):
    """One of `n` parts of the same work, from 0."""

    number: int
    n: int

    def of(self, n_items: int, block_size: int) -> slice:
        """Return its run of items in whole blocks; all runs together are all items.

        Examples
        --------
        >>> [Shard(number, 2).of(10, 4) for number in (0, 1)]
        [slice(0, 4, None), slice(4, 10, None)]
        """
        n_blocks = math.ceil(n_items / block_size)
        first_block = self.number * n_blocks // self.n
        end_block = (self.number + 1) * n_blocks // self.n
        return slice(first_block * block_size, min(end_block * block_size, n_items))


class SomePassages:
    """A run of passages, with the rows and the order of ties that they have among all."""

    def __init__(self, passages: Passages, run: slice) -> None:
        self.passages = passages
        self.run = run

    def __len__(self) -> int:
        """Return the number of passages."""
        return self.run.stop - self.run.start

    def batches(self, size: int) -> Iterator[tuple[int, list[str]]]:
        """Yield (first row, texts) for each `size` passages."""
        for start in range(self.run.start, self.run.stop, size):
            end = min(start + size, self.run.stop)
            yield start, self.passages.texts(slice(start, end))

    @property
    def tie_order(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows of all passages by doc_id descending, and the places of these in that order."""
        row_at, place_of = self.passages.tie_order
        return row_at, place_of[self.run]


def n_devices(recipe: Recipe) -> int:
    """Return by how many GPUs the model of a recipe encodes and searches; without GPUs 1."""
    return len(devices()) if isinstance(recipe, Trained) else 1


def search(weights: Path, source: Source, texts: Sequence[str], k: int, n: int) -> Hits:
    """Return the k best passages for each query text, as the `search` of the model gives them.

    Parameters
    ----------
    weights
        A folder that `model.fit` wrote.
    source
        The collection that is searched.
    n
        Processes, each with a GPU of its own. The passages are divided among those of an encoder,
        the queries among those of a reranker.
    """
    parts = _by_processes(n, _search_shard, weights, source, texts, k)
    _, place_of = source.open().passages.tie_order
    return _merged(parts, place_of, k)


def _search_shard(
    shard: Shard, weights: Path, source: Source, texts: Sequence[str], k: int
) -> Hits:
    """Return what is found in a shard; a query of another shard of a reranker has padding alone."""
    model = load_model(weights)
    collection = source.open()
    if isinstance(model, Encoder):
        run = shard.of(len(collection.passages), model.block_size)
        some_passages = SomePassages(collection.passages, run)
        return model.search(dataclasses.replace(collection, passages=some_passages), texts, k)
    rows = np.full((len(texts), k), PADDING, np.int32)
    scores = np.full((len(texts), k), -np.inf, np.float32)
    queries = shard.of(len(texts), BLOCK)
    if texts[queries]:
        rows[queries], scores[queries] = model.search(collection, texts[queries], k)
    return rows, scores


def _merged(parts: Sequence[Hits], place_of: np.ndarray, k: int) -> Hits:
    """Return the best k of several rankings of the same queries.

    Ties have the order `place_of` of their rows; padding is last.
    """
    all_rows, all_scores = zip(*parts, strict=True)
    rows = np.concatenate(all_rows, axis=1)
    scores = np.concatenate(all_scores, axis=1)
    places = np.where(rows == PADDING, len(place_of), place_of[rows])
    best = np.lexsort((places, -scores), axis=1)[:, :k]
    return np.take_along_axis(rows, best, axis=1), np.take_along_axis(scores, best, axis=1)


def encode(weights: Path, source: Source, path: Path, n: int) -> None:
    """Write the vectors of a collection's passages, by a dense model, to a .npy, float32[n, d].

    For the arguments see `search`.
    """
    passages = source.open().passages
    first = load_model(weights).encode_passages(passages.texts(slice(1)))
    shape = (len(passages), first.shape[1])
    np.lib.format.open_memmap(path, "w+", np.float32, shape).flush()
    _by_processes(n, _encode_shard, weights, source, path)


def _encode_shard(shard: Shard, weights: Path, source: Source, path: Path) -> None:
    """Write the vectors of the passages of a shard, block by block."""
    model = load_model(weights)
    passages = source.open().passages
    run = shard.of(len(passages), model.block_size)
    vectors = np.lib.format.open_memmap(path, "r+")
    for start, texts in SomePassages(passages, run).batches(model.block_size):
        vectors[start : start + len(texts)] = model.encode_passages(texts)
    vectors.flush()


def _by_processes(n: int, work: Callable, *given: Any) -> list:
    """Return what `work` gives for each of n shards, each in a process with a GPU of its own."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n, spawn, max_tasks_per_child=1) as pool:
        futures = [pool.submit(_on_device, Shard(i, n), work, given) for i in range(n)]
        return [future.result() for future in futures]


def _on_device(shard: Shard, work: Callable, given: tuple) -> Any:
    """Do the work of a shard with the GPU of its number alone, before torch looks for GPUs."""
    visible = os.environ.get(VISIBLE)
    names = visible.split(",") if visible else [str(i) for i in range(shard.n)]
    os.environ[VISIBLE] = names[shard.number]
    return work(shard, *given)
