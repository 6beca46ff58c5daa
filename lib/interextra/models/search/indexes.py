"""Search over vectors that are there: by faiss indexes, and with quantised vectors.

Vectors are quantised by sentence-transformers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np

from interextra.store.errors import InputError

BLOCK = 8192  # passages inserted at once
PRECISIONS = ("int8", "uint8", "binary", "ubinary")  # as sentence-transformers names them


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
    passages of large codes; those of int8 do not.

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
    calibrating = np.asarray(vectors[: calibration or None])
    ranges = np.stack([calibrating.min(axis=0), calibrating.max(axis=0)])
    codes = _quantised(vectors, precision, ranges)
    query_codes = _quantised(queries, precision, ranges)
    n_candidates = k * max(rescore_multiplier, 1)
    if precision.endswith("binary"):
        size = codes.nbytes
        rows, n_differing = _search_bits(codes, query_codes, n_candidates)
        scores = vectors.shape[1] - 2 * n_differing
    else:
        size = codes.nbytes + ranges.nbytes
        index = Index(codes.astype(np.float32), "Flat")
        rows, scores = index.search(query_codes, n_candidates)
    if rescore_multiplier:
        rows, scores = _rescored(rows, codes, queries, precision, ranges)
    best = (rows[:, :k], scores[:, :k].astype(np.float32))
    return best, size


def _quantised(vectors: np.ndarray, precision: str, ranges: np.ndarray) -> np.ndarray:
    """Return the codes of vectors; bits are packed, eight a byte."""
    from sentence_transformers.util import quantize_embeddings

    stored_as = "ubinary" if precision.endswith("binary") else precision
    return quantize_embeddings(np.asarray(vectors), stored_as, ranges=ranges)


def _search_bits(
    codes: np.ndarray, query_codes: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Search bits uint8[n, bytes]: rows, and how many bits differ (inf where there is no row)."""
    import faiss

    index = faiss.IndexBinaryFlat(8 * codes.shape[1])
    index.add(codes)
    n_differing, rows = index.search(query_codes, k)
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

    Parameters
    ----------
    vectors : float32[n, d]
        Of the passages.
    index, parameters : str
        As faiss's index_factory and ParameterSpace read them.
    seed : int
        Of the order of insertion; 0 is that of the vectors.

    Raises
    ------
    InputError
        What faiss refuses.
    """

    def __init__(
        self, vectors: np.ndarray, index: str, parameters: str = "", seed: int = 0
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
                self.faiss_index.train(np.ascontiguousarray(vectors))
            for start in range(0, n, BLOCK):
                rows = self.order[start : start + BLOCK]
                self.faiss_index.add(np.ascontiguousarray(vectors[rows]))
        self.mean = 0.0
        if index.startswith("PCA"):
            # faiss centres queries, too, which would favour passages along the mean
            self.mean = np.asarray(vectors).mean(axis=0)

    @contextmanager
    def _faiss(self, parameters: str) -> Iterator[ModuleType]:
        """Give faiss with one thread, its errors made clear."""
        import faiss

        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)
        try:
            yield faiss
        except RuntimeError as error:
            message = " ".join(str(error).split())[-200:]
            raise InputError(
                f"faiss: index {self.name!r} with parameters {parameters!r}: {message}"
            ) from None
        finally:
            faiss.omp_set_num_threads(threads)

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
        import faiss

        return len(faiss.serialize_index(self.faiss_index))
