"""Search over vectors that are there by faiss: its own indexes, and vectors quantised as sentence-transformers does."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from interextra.ground.errors import InputError

BLOCK = 8192  # passages inserted at once
#: Names of sentence-transformers → those that its search by faiss has; int8 and binary are the same codes less 128.
PRECISIONS = {"int8": "uint8", "uint8": "uint8", "binary": "ubinary", "ubinary": "ubinary"}
OWN = ("truncate_dim", "rescore_multiplier", "calibration")  # parameters that are not faiss's


def own_parameters(parameters: str) -> tuple[dict[str, int], str]:
    """Parameters NAME=VALUE with commas, those of ours as numbers and the others as they are.

    >>> own_parameters("truncate_dim=16,efSearch=64")
    ({'truncate_dim': 16}, 'efSearch=64')
    """
    parts = [part.partition("=") for part in parameters.split(",")]
    if wrong := [f"{name}={value}" for name, _, value in parts if name in OWN and not value.isdigit()]:
        raise InputError(f"parameters {parameters!r}: {wrong[0]} is no whole number of 0 or more")
    ours = {name: int(value) for name, _, value in parts if name in OWN}
    return ours, ",".join("".join(part) for part in parts if part[0] not in OWN)


def quantised_search(
    vectors: np.ndarray, queries: np.ndarray, k: int, precision: str, rescore_multiplier: int = 2, calibration: int = 0
) -> tuple[tuple[np.ndarray, np.ndarray], int]:
    """What `semantic_search_faiss` of sentence-transformers finds, as `Index.search` gives it; and the bytes of all.

    precision : of PRECISIONS. rescore_multiplier : so many times k passages are scored again, with the query as it was and
    numbers restored from codes, or 0 and 1 for bits; 0: never. calibration : the first so many passages
    give the range of each dimension (int8, uint8); 0: all. InputError: an unknown precision, a single passage for it.
    """
    from sentence_transformers.util.quantization import quantize_embeddings, semantic_search_faiss

    if precision not in PRECISIONS or calibration == 1:
        known = f"one of {', '.join(PRECISIONS)}, and two passages or more"
        raise InputError(f"precision {precision!r}, calibration={calibration}: give {known}")
    precision, given = PRECISIONS[precision], np.asarray(vectors[: calibration or None])
    codes = quantize_embeddings(np.asarray(vectors), precision, calibration_embeddings=given)
    how = {"corpus_precision": precision, "rescore": rescore_multiplier > 0, "calibration_embeddings": given}
    how |= {"rescore_multiplier": rescore_multiplier} if rescore_multiplier else {}
    found, _ = semantic_search_faiss(queries, corpus_embeddings=codes, top_k=k, **how)
    rows, scores = np.full((len(queries), k), -1), np.full((len(queries), k), -np.inf, np.float32)
    for at, hits in enumerate(found):
        rows[at, : len(hits)] = [hit["corpus_id"] for hit in hits]
        scores[at, : len(hits)] = [hit["score"] for hit in hits]
    if precision == "ubinary" and not rescore_multiplier:
        scores = -scores  # how many bits differ
    return (rows, scores), codes.nbytes + 8 * given.shape[1] * (precision == "uint8")


class Index:
    """A faiss index over vectors float32[n, d] that are inserted by one thread, so that a repetition gives the same.

    `index` and `parameters` as faiss's index_factory and ParameterSpace read them; `seed`: of the order of insertion, 0
    is that of the vectors. InputError for what faiss refuses.
    """

    def __init__(self, vectors: np.ndarray, index: str, parameters: str = "", seed: int = 0):
        import faiss

        n, self.name, self.mean = len(vectors), index, 0.0
        self.order = np.random.default_rng(seed).permutation(n) if seed else np.arange(n)
        with self._faiss(parameters):
            self.made = faiss.index_factory(vectors.shape[1], index, faiss.METRIC_INNER_PRODUCT)
            faiss.ParameterSpace().set_index_parameters(self.made, parameters)
            if not self.made.is_trained:
                self.made.train(np.ascontiguousarray(vectors))
            for start in range(0, n, BLOCK):
                self.made.add(np.ascontiguousarray(vectors[self.order[start : start + BLOCK]]))
        if index.startswith("PCA"):  # faiss centres queries, too, which would favour passages along the mean
            self.mean = np.asarray(vectors).mean(axis=0)

    @contextmanager
    def _faiss(self, parameters: str) -> Iterator[None]:
        import faiss

        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)
        try:
            yield
        except RuntimeError as error:
            message = " ".join(str(error).split())[-200:]
            raise InputError(f"faiss: index {self.name!r} with parameters {parameters!r}: {message}") from None
        finally:
            faiss.omp_set_num_threads(threads)

    def search(self, queries: np.ndarray, k: int, parameters: str = "") -> tuple[np.ndarray, np.ndarray]:
        """(rows int64[n, k], scores float32[n, k]); row -1, score -inf where it finds fewer."""
        import faiss

        with self._faiss(parameters):
            faiss.ParameterSpace().set_index_parameters(self.made, parameters)
            scores, places = self.made.search(np.ascontiguousarray(queries + self.mean, dtype=np.float32), k)
        return np.where(places < 0, -1, self.order[places]), np.where(places < 0, -np.inf, scores)

    @property
    def size(self) -> int:
        """Bytes of all that it holds: codes, codebooks, transformations, graph."""
        import faiss

        return len(faiss.serialize_index(self.made))
