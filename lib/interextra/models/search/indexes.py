"""Search over vectors that are there: by faiss indexes, and with quantised vectors.

Vectors are quantised by sentence-transformers. They may lie in a memory-mapped file: an index is
built from blocks of them, so that it is held in memory, and a block, and never all vectors.
"""

import mmap
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from interextra.models.search.sizes import (
    BLOCK,
    PRECISIONS,
    bytes_of_vectors,
    n_links,
    quantised_bytes,
    written_bytes,
)
from interextra.store.errors import InputError

if TYPE_CHECKING:
    import faiss


def blocks_of(vectors: np.ndarray, order: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """Yield vectors block by block, in the order of their rows or in another one.

    Where they are mapped from a file its pages are given back after each block: the system counts
    them as memory of this process.
    """
    for start in range(0, len(vectors), BLOCK):
        rows = slice(start, start + BLOCK)
        block = vectors[rows].copy() if order is None else vectors[order[rows]]
        _give_pages_back(vectors)
        yield np.asarray(block)


def _give_pages_back(vectors: np.ndarray) -> None:
    """Forget what was read of a mapped file that nobody writes through this map."""
    mapped = vectors
    while isinstance(mapped, np.ndarray):
        mapped = mapped.base
    if isinstance(mapped, mmap.mmap) and not vectors.flags.writeable:
        mapped.madvise(mmap.MADV_DONTNEED)


def quantised_search(
    vectors: np.ndarray,
    queries: np.ndarray,
    k: int,
    precision: str,
    rescore_multiplier: int = 2,
    calibration: int = 0,
) -> tuple[tuple[np.ndarray, np.ndarray], int]:
    """Search with quantised vectors and queries.

    Codes are compared by inner product, bits by how many agree less how many differ, as in
    `semantic_search_faiss` of sentence-transformers. Codes of uint8, which are all positive, favour
    passages of large codes; those of int8 do not. Of all passages only the codes are held.

    Parameters
    ----------
    vectors, queries : float32[n, d], float32[n_queries, d]
        Of the passages and of the queries.
    precision : str
        One of `PRECISIONS`.
    rescore_multiplier : int
        So many times `k` passages are scored again, with the query as it was and numbers restored
        from codes (0 and 1 for bits); 0: never.
    calibration : int
        The first so many passages give the range of each dimension (int8, uint8); 0: all.

    Returns
    -------
    (rows, scores) : int64[n_queries, k], float32[n_queries, k]
        As `Index.search` gives them.
    size : int
        Bytes of all codes, and of the ranges that restore them.

    Raises
    ------
    InputError
        An unknown precision, or a calibration by one passage.
    """
    if precision not in PRECISIONS or calibration == 1:
        known = f"one of {', '.join(PRECISIONS)}, and two passages or more"
        raise InputError(f"precision {precision!r}, calibration={calibration}: give {known}")
    ranges = _ranges_of(vectors[: calibration or None])
    codes = _codes_of(vectors, precision, ranges)
    query_codes = _quantised(queries, precision, ranges)
    n_candidates = k * max(rescore_multiplier, 1)
    if precision.endswith("binary"):
        rows, n_differing = _search_bits(codes, query_codes, n_candidates)
        scores = vectors.shape[1] - 2 * n_differing
    else:
        rows, scores = _search_codes(codes, query_codes, n_candidates)
    if rescore_multiplier:
        rows, scores = _rescored(rows, codes, queries, precision, ranges)
    best = (rows[:, :k], scores[:, :k].astype(np.float32))
    return best, quantised_bytes(precision, *vectors.shape)


def _ranges_of(vectors: np.ndarray) -> np.ndarray:
    """Return the lowest and the highest number of each dimension, float32[2, d]."""
    lowest = np.full(vectors.shape[1], np.inf, dtype=np.float32)
    highest = -lowest
    for block in blocks_of(vectors):
        lowest = np.minimum(lowest, block.min(axis=0))
        highest = np.maximum(highest, block.max(axis=0))
    return np.stack([lowest, highest])


def _quantised(vectors: np.ndarray, precision: str, ranges: np.ndarray) -> np.ndarray:
    """Return the codes of vectors; bits are packed, eight a byte."""
    from sentence_transformers.util import quantize_embeddings

    stored_as = "ubinary" if precision.endswith("binary") else precision
    return quantize_embeddings(np.asarray(vectors), stored_as, ranges=ranges)


def _codes_of(vectors: np.ndarray, precision: str, ranges: np.ndarray) -> np.ndarray:
    """Return the codes of all vectors, made block by block."""
    no_codes = _quantised(vectors[:0], precision, ranges)
    codes = np.empty((len(vectors), no_codes.shape[1]), no_codes.dtype)
    start = 0
    for block in blocks_of(vectors):
        end = start + len(block)
        codes[start:end] = _quantised(block, precision, ranges)
        start = end
    return codes


@contextmanager
def _one_thread() -> Iterator[ModuleType]:
    """Give faiss with one thread: several build another graph each time."""
    import faiss

    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield faiss
    finally:
        faiss.omp_set_num_threads(threads)


def _search_codes(
    codes: np.ndarray, query_codes: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Search codes [n, d] by inner product: rows and scores, as a `Flat` index of faiss has them.

    Only a block of the codes is turned into the floats that faiss compares. The index would choose
    among passages tied at the cut by all that it saw before, and so does `_search_tied`.
    """
    queries = query_codes.astype(np.float32)
    n_found = min(k, len(codes))
    best_rows, best_scores = _best_of_blocks(codes, queries, n_found + 1)
    is_tied = best_scores[:, n_found - 1] == best_scores[:, n_found]
    for tied in _as_many_scores_as_a_block(is_tied.nonzero()[0], codes):
        best_rows[tied, :n_found] = _search_tied(codes, queries[tied], n_found)
    rows = np.full((len(queries), k), -1)
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    rows[:, :n_found] = best_rows[:, :n_found]
    scores[:, :n_found] = best_scores[:, :n_found]
    return rows, scores


def _best_of_blocks(
    codes: np.ndarray, queries: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k rows of highest score for queries float32[n, d], and their scores.

    Where there are fewer, padding is last.
    """
    with _one_thread() as faiss:
        best = faiss.ResultHeap(len(queries), k, keep_max=True)
        for start in range(0, len(codes), BLOCK):
            block = codes[start : start + BLOCK].astype(np.float32)
            n_best = min(k, len(block))
            scores, places = faiss.knn(queries, block, n_best, faiss.METRIC_INNER_PRODUCT)
            best.add_result(scores, places + start)
        best.finalize()
    return best.I, best.D


def _as_many_scores_as_a_block(places: np.ndarray, codes: np.ndarray) -> Iterator[np.ndarray]:
    """Yield places of queries, as many as have no more scores than a block has numbers."""
    n, n_dimensions = codes.shape
    at_once = max(1, BLOCK * n_dimensions // n)
    for start in range(0, len(places), at_once):
        yield places[start : start + at_once]


def _search_tied(codes: np.ndarray, queries: np.ndarray, k: int) -> np.ndarray:
    """Return the k rows that a `Flat` index of faiss finds for queries float32[n, d].

    Which of several tied passages it keeps depends on the scores and their order alone: those of a
    query are searched as vectors of one dimension. Sums of codes are whole numbers and exact below
    2^24: int8 up to 1,024 dimensions. Larger sums, of uint8, are rounded here as numpy adds.
    """
    scores = np.empty((len(queries), len(codes)), dtype=np.float32)
    for start in range(0, len(codes), BLOCK):
        block = codes[start : start + BLOCK].astype(np.float32)
        scores[:, start : start + len(block)] = queries @ block.T
    one = np.ones((1, 1), dtype=np.float32)
    rows = np.empty((len(queries), k), dtype=np.int64)
    with _one_thread() as faiss:
        for i, of_query in enumerate(scores):
            as_vectors = of_query[:, np.newaxis]
            _, found = faiss.knn(one, as_vectors, k, faiss.METRIC_INNER_PRODUCT)
            rows[i] = found[0]
    return rows


def _search_bits(
    codes: np.ndarray, query_codes: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Search bits uint8[n, bytes]: rows, and how many bits differ (inf where there is no row)."""
    import faiss

    n_differing, rows = faiss.knn_hamming(query_codes, codes, k)
    return rows, np.where(rows < 0, np.inf, n_differing)


def _restored(codes: np.ndarray, precision: str, ranges: np.ndarray) -> np.ndarray:
    """Restore numbers [n, d] from codes: 0 and 1 from bits; `ranges`: float32[2, d]."""
    lowest, highest = ranges
    if precision.endswith("binary"):
        return np.unpackbits(codes, axis=1, count=len(lowest))
    step = np.where(lowest == highest, 1, (highest - lowest) / 255)
    first_code = -128 if precision == "int8" else 0
    return (codes.astype(np.float32) - first_code) * step + lowest


def _rescored(
    rows: np.ndarray, codes: np.ndarray, queries: np.ndarray, precision: str, ranges: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sort passages [n, k] by inner product of the query as it was and restored numbers.

    Ties stay in their order, padding is last.
    """
    scores = np.empty(rows.shape)
    for i, query in enumerate(queries):
        scores[i] = _restored(codes[rows[i]], precision, ranges) @ query
    scores[rows < 0] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


class Index:
    """A faiss index over vectors, inserted by one thread so that a repetition gives the same.

    Beside it there is a block of vectors in memory, and for what must be trained what faiss takes
    of them: at most a sample for IVF, PCA and OPQ, and for PQ a stripe of all vectors as wide as
    one of its codes stands for.

    Parameters
    ----------
    vectors : float32[n, d]
        Of the passages; they may be mapped from a file.
    index, parameters : str
        As faiss's index_factory and ParameterSpace read them.
    seed : int
        Of the order of insertion; 0 is that of the vectors.
    aside : Path or None
        A folder for what training reads where that is not as it lies in `vectors`, as large as all
        of them; None: that of temporary files.

    Raises
    ------
    InputError
        What faiss refuses.
    """

    def __init__(
        self,
        vectors: np.ndarray,
        index: str,
        parameters: str = "",
        seed: int = 0,
        aside: Path | None = None,
    ) -> None:
        n, n_dimensions = vectors.shape
        self.name = index
        self.order = np.arange(n)
        if seed:
            self.order = np.random.default_rng(seed).permutation(n)
        with self._faiss(parameters) as faiss:
            self.faiss_index = faiss.index_factory(n_dimensions, index, faiss.METRIC_INNER_PRODUCT)
            faiss.ParameterSpace().set_index_parameters(self.faiss_index, parameters)
            if not self.faiss_index.is_trained:
                _train(self.faiss_index, vectors, aside)
                _give_pages_back(vectors)
            self._empty_size = written_bytes(self.faiss_index)
            _make_room(self.faiss_index, n)
            for block in blocks_of(vectors, self.order):
                self.faiss_index.add(block)
        self.mean = 0.0
        if index.startswith("PCA"):
            # faiss centres queries, too, which would favour passages along the mean
            self.mean = np.asarray(vectors).mean(axis=0)

    @contextmanager
    def _faiss(self, parameters: str) -> Iterator[ModuleType]:
        """Give faiss with one thread, its errors made clear."""
        try:
            with _one_thread() as faiss:
                yield faiss
        except RuntimeError as error:
            message = " ".join(str(error).split())[-200:]
            raise InputError(
                f"faiss: index {self.name!r} with parameters {parameters!r}: {message}"
            ) from None

    def search(
        self, queries: np.ndarray, k: int, parameters: str = ""
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k passages of highest score that the index finds for each query.

        Returns
        -------
        rows : int64[n_queries, k]
            Rows of the passages; -1 where it finds fewer.
        scores : float32[n_queries, k]
            Their inner products; -inf where it finds fewer.
        """
        centred = np.ascontiguousarray(queries + self.mean, dtype=np.float32)
        with self._faiss(parameters) as faiss:
            faiss.ParameterSpace().set_index_parameters(self.faiss_index, parameters)
            scores, places = self.faiss_index.search(centred, k)
        is_padding = places < 0
        rows = np.where(is_padding, -1, self.order[places])
        return rows, np.where(is_padding, -np.inf, scores)

    @property
    def size(self) -> int:
        """Bytes of all that it holds: codes, codebooks, transformations, graph."""
        n_bytes = bytes_of_vectors(self.faiss_index, self.faiss_index.ntotal)
        if n_bytes is None:
            return written_bytes(self.faiss_index)
        return self._empty_size + n_bytes


def _make_room(index: "faiss.Index", n: int) -> None:
    """Reserve memory for n vectors, which would double each time that it is used up.

    Not for lists of IVF, whose lengths nobody knows.
    """
    import faiss

    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexPreTransform):
        _make_room(index.index, n)
    elif isinstance(index, faiss.IndexHNSW):
        _make_room(index.storage, n)
        _reserve(index.hnsw.neighbors, round(1.01 * n_links(index.hnsw, n)))
    elif isinstance(index, faiss.IndexFlatCodes):
        _reserve(index.codes, n * index.code_size)


def _reserve(empty: "faiss.MaybeOwnedVectorUInt8", size: int) -> None:
    """Let an empty vector of faiss grow to a size without moving; it stays empty."""
    empty.resize(size)
    empty.clear()


def _train(index: "faiss.Index", vectors: np.ndarray, aside: Path | None) -> None:
    """Train an index as its own `train` does, which would hold all vectors transformed."""
    import faiss

    read = vectors
    if not vectors.flags.c_contiguous:  # the first dimensions of each
        read = on_disk(blocks_of(vectors), vectors.shape, aside)
    if not isinstance(index, faiss.IndexPreTransform) or index.index.is_trained:
        index.train(read)
        return
    for place in range(index.chain.size()):
        transform = faiss.downcast_VectorTransform(index.chain.at(place))
        if not transform.is_trained:
            transform.train(read)
        transformed = map(transform.apply, _whole_blocks(read))
        read = on_disk(transformed, (len(vectors), transform.d_out), aside)
    index.index.train(read)
    index.is_trained = True


def _whole_blocks(vectors: np.ndarray) -> Iterator[np.ndarray]:
    """Yield blocks, the last one with what is left over.

    A few rows alone are multiplied in another order than among many, with other last digits.
    """
    n = len(vectors)
    for start in range(0, max(n - BLOCK, 0) + 1, BLOCK):
        end = start + BLOCK if start + 2 * BLOCK <= n else n
        yield np.asarray(vectors[start:end])


def on_disk(blocks: Iterable[np.ndarray], shape: tuple[int, ...], aside: Path | None) -> np.ndarray:
    """Return blocks as one array float32 of a shape, mapped from a file without a name.

    The file lies in the folder `aside`, or where temporary files do, as long as the array is used.
    """
    with tempfile.TemporaryFile(dir=aside) as file:
        array = np.memmap(file, np.float32, "w+", shape=shape)
    start = 0
    for block in blocks:
        array[start : start + len(block)] = block
        start += len(block)
    return array
