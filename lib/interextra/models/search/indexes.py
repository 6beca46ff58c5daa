"""Search over vectors that are there: by faiss indexes, and by vectors that sentence-transformers
quantises.
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
    """Search with quantised vectors float32[n, d] and queries: as `Index.search` gives it, and the
    bytes of all codes.

    Codes are compared by inner product, bits by how many agree less how many differ, as in
    `semantic_search_faiss` of sentence-transformers. Codes of uint8, which are all positive, favour
    passages of large codes; those of int8 do not.

    precision : of PRECISIONS. rescore_multiplier : so many times k passages are scored again, with
    the query as it was and numbers restored from codes (0 and 1 for bits); 0: never. calibration :
    the first so many passages give the range of each dimension (int8, uint8); 0: all. InputError:
    an unknown precision, a calibration by one passage.
    """
    import faiss
    from sentence_transformers.util import quantize_embeddings

    if precision not in PRECISIONS or calibration == 1:
        known = f"one of {', '.join(PRECISIONS)}, and two passages or more"
        raise InputError(f"precision {precision!r}, calibration={calibration}: give {known}")
    is_bits, given = precision.endswith("binary"), np.asarray(vectors[: calibration or None])
    ranges = np.stack([given.min(axis=0), given.max(axis=0)])
    name, n_first = "ubinary" if is_bits else precision, k * max(rescore_multiplier, 1)
    codes, asked = (
        quantize_embeddings(np.asarray(part), name, ranges=ranges) for part in (vectors, queries)
    )
    size = codes.nbytes + (0 if is_bits else ranges.nbytes)
    if is_bits:
        index = faiss.IndexBinaryFlat(8 * codes.shape[1])
        index.add(codes)
        differing, rows = index.search(asked, n_first)
        scores = np.where(rows < 0, -np.inf, vectors.shape[1] - 2.0 * differing)
    else:
        rows, scores = Index(codes.astype(np.float32), "Flat").search(asked, n_first)
    step = np.where(ranges[0] == ranges[1], 1, (ranges[1] - ranges[0]) / 255)
    for at in range(len(rows) if rescore_multiplier else 0):
        found = codes[rows[at]]
        if is_bits:
            numbers = np.unpackbits(found, axis=1, count=vectors.shape[1])
        else:
            numbers = (found.astype(np.float32) + 128 * (precision == "int8")) * step + ranges[0]
        again = np.where(rows[at] < 0, -np.inf, numbers @ queries[at])
        order = np.argsort(-again, kind="stable")
        rows[at], scores[at] = rows[at, order], again[order]
    return (rows[:, :k], scores[:, :k].astype(np.float32)), size


class Index:
    """A faiss index over vectors float32[n, d] that are inserted by one thread, so that a
    repetition gives the same.

    `index` and `parameters` as faiss's index_factory and ParameterSpace read them; `seed`: of the
    order of insertion, 0 is that of the vectors. InputError for what faiss refuses.
    """

    def __init__(self, vectors: np.ndarray, index: str, parameters: str = "", seed: int = 0):
        n, self.name, self.mean = len(vectors), index, 0.0
        self.order = np.random.default_rng(seed).permutation(n) if seed else np.arange(n)
        with self._faiss(parameters) as faiss:
            self.made = faiss.index_factory(vectors.shape[1], index, faiss.METRIC_INNER_PRODUCT)
            faiss.ParameterSpace().set_index_parameters(self.made, parameters)
            if not self.made.is_trained:
                self.made.train(np.ascontiguousarray(vectors))
            for start in range(0, n, BLOCK):
                self.made.add(np.ascontiguousarray(vectors[self.order[start : start + BLOCK]]))
        if index.startswith(
            "PCA"
        ):  # faiss centres queries, too, which would favour passages along the mean
            self.mean = np.asarray(vectors).mean(axis=0)

    @contextmanager
    def _faiss(self, parameters: str) -> Iterator[ModuleType]:
        """Faiss with one thread, its errors made clear."""
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
        """(rows int64[n, k], scores float32[n, k]); row -1, score -inf where it finds fewer."""
        with self._faiss(parameters) as faiss:
            faiss.ParameterSpace().set_index_parameters(self.made, parameters)
            scores, places = self.made.search(
                np.ascontiguousarray(queries + self.mean, dtype=np.float32), k
            )
        return np.where(places < 0, -1, self.order[places]), np.where(places < 0, -np.inf, scores)

    @property
    def size(self) -> int:
        """Bytes of all that it holds: codes, codebooks, transformations, graph."""
        import faiss

        return len(faiss.serialize_index(self.made))
