"""Search over vectors that are there: exact, with vectors quantised as sentence-transformers does, by faiss indexes."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from interextra.ground.errors import InputError
from interextra.models.dense import inner_products
from interextra.models.topk import exact_search, tie_order

BLOCK = 8192  # passages scored or inserted at once
RESCORED = 64  # queries rescored at once
PRECISIONS = ("float32", "int8", "uint8", "binary", "ubinary")
OWN = {"truncate_dim", "rescore_multiplier", "calibration"}  # parameters that are not faiss's


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


def exhaustive(
    passages,
    vectors: np.ndarray,
    queries: np.ndarray,
    k: int,
    precision: str = "float32",
    rescore_multiplier: int = 2,
    calibration: int = 0,
) -> tuple[tuple[np.ndarray, np.ndarray], float]:
    """The ranking of `topk.exact_search` of `vectors` [n_passages, d] for `queries` float32[n, d], and their bytes.

    precision : of both sides, see sentence-transformers' `quantize_embeddings`. Codes are compared by inner product,
        bits by how many agree.
    rescore_multiplier : so many times k passages are scored again, their codes turned back into numbers (bits into 0
        and 1), with the query as it was; 0: never. As in `semantic_search_faiss`.
    calibration : int8 and uint8: the first so many passages give the range of each dimension; 0: all.

    InputError: an unknown precision, or a calibration of one passage.
    """
    from sentence_transformers.util import quantize_embeddings

    if precision not in PRECISIONS or calibration == 1:
        raise InputError(
            f"precision {precision!r}, calibration={calibration}: one of {', '.join(PRECISIONS)}; two passages"
        )
    blocks = [slice(at, at + BLOCK) for at in range(0, len(vectors), BLOCK)]
    ranges, size = None, len(vectors) * vectors.shape[1] * 4.0
    if precision.endswith("int8"):
        parts = [vectors[: calibration or None][block] for block in blocks]
        ends = [np.stack([part.min(axis=0), part.max(axis=0)]) for part in parts if len(part)]
        ranges = np.stack([np.min(ends, axis=0)[0], np.max(ends, axis=0)[1]])
        size = size / 4 + ranges.nbytes
    elif precision != "float32":
        size = float(len(vectors) * -(-vectors.shape[1] // 8))

    def coded(part: np.ndarray) -> np.ndarray:
        """Numbers that are compared: codes, or −1 and 1 for bits."""
        if precision.endswith("binary"):
            return np.where(part > 0, 1, -1).astype(np.float32)
        return np.ascontiguousarray(quantize_embeddings(np.asarray(part), precision, ranges=ranges), dtype=np.float32)

    def restored(part: np.ndarray) -> np.ndarray:
        if precision.endswith("binary"):
            return (part > 0).astype(np.float32)
        step = (ranges[1] - ranges[0]) / 255
        return (coded(part) + 128 * (precision == "int8")) * np.where(step == 0, 1, step) + ranges[0]

    times = rescore_multiplier if precision != "float32" else 0
    opened, depth = inner_products(coded(queries)), min(k * max(times, 1), len(vectors))
    rows, scores = exact_search(
        passages, (coded(vectors[block]) for block in blocks), opened, len(queries), depth, 2048
    )
    for at in range(0, len(rows) if times else 0, RESCORED):
        here = slice(at, at + RESCORED)
        scores[here] = np.einsum("nd,nkd->nk", queries[here], restored(vectors[rows[here]]))
    if times:
        order = np.lexsort((tie_order(passages)[1][rows], -scores), axis=1)
        rows, scores = (np.take_along_axis(part, order, axis=1) for part in (rows, scores))
    padding = ((0, 0), (0, max(0, k - depth)))
    rows, scores = (
        np.pad(part[:, :k], padding, constant_values=fill) for part, fill in ((rows, -1), (scores, -np.inf))
    )
    return (rows, scores), size


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
            message = str(error).strip().splitlines()[-1]
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
