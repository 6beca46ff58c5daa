"""How similar queries are: exact nearest neighbours by cosine (Zhan §4.1.1)."""

import numpy as np

from interextra.store.errors import InputError, offenders


def nearest(queries: np.ndarray, candidates: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The `k` candidates with the highest cosine to each query, exactly (faiss).

    Of float[n, d], float[m, d], k clipped to m: cosines float32[n, k] descending, rows int64[n, k];
    ties: lower row.

    >>> cosines, rows = nearest([[1, 0]], [[0, 1], [2, 0], [1, 0]], k=2)
    >>> rows.tolist(), cosines.tolist()
    ([[1, 2]], [[1.0, 1.0]])
    """
    import faiss

    queries, candidates = same_space(queries, candidates)
    k = min(k, len(candidates))
    cosines, rows = faiss.knn(
        queries, candidates, min(k + 1, len(candidates)), faiss.METRIC_INNER_PRODUCT
    )
    if k < len(candidates):  # where the last one is tied with the next one, faiss keeps either
        for at in np.flatnonzero(cosines[:, k - 1] == cosines[:, k]):
            every = candidates @ queries[at]
            rows[at, :k] = np.argsort(-every, kind="stable")[:k]
            cosines[at, :k] = every[rows[at, :k]]
    order = np.lexsort((rows[:, :k], -cosines[:, :k]))
    return np.take_along_axis(cosines, order, axis=1), np.take_along_axis(rows, order, axis=1)


def same_space(
    first: np.ndarray, second: np.ndarray, normalise: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of two sets of queries, as from `checked`; InputError where their dimensions
    differ.
    """
    first, second = checked(first, normalise), checked(second, normalise)
    if first.shape[1] != second.shape[1]:
        raise InputError(
            f"vectors of {first.shape[1]} and of {second.shape[1]} dimensions: encode both with one model"
        )
    return first, second


def checked(vectors: np.ndarray, normalise: bool) -> np.ndarray:
    """float32[n, d] of length 1 where `normalise`; InputError for what is no vector, or has no
    direction.
    """
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or 0 in vectors.shape or vectors.dtype.kind not in "fiu":
        kind = f"{vectors.dtype}{vectors.shape}"
        raise InputError(
            f"vectors: needs a non-empty matrix of numbers [queries, dimensions], got {kind}"
        )
    vectors = np.ascontiguousarray(vectors, np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    for what, bad in (
        ("NaN or infinite values", ~np.isfinite(lengths)),
        ("no direction", normalise & (lengths == 0)),
    ):
        if rows := np.flatnonzero(bad).tolist():
            raise InputError(
                f"vectors: {what} in {len(rows)} rows ({offenders(rows)}); leave these queries out, or take another "
                "encoder: lsa knows no word that the training queries lack"
            )
    return vectors * (1 / lengths).astype(np.float32)[:, None] if normalise else vectors
