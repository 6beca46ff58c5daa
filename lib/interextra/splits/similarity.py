"""How similar queries are: exact nearest neighbours by cosine (Zhan §4.1.1)."""

import numpy as np

from interextra.store.errors import InputError, offenders


def nearest(queries: np.ndarray, candidates: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the `k` candidates with the highest cosine to each query, exactly (faiss).

    Parameters
    ----------
    queries : float[n, d]
        Vectors of any length above 0.
    candidates : float[m, d]
        Vectors of the same space.
    k : int
        Number of candidates per query, clipped to m.

    Returns
    -------
    cosines : float32[n, k]
        Descending.
    rows : int64[n, k]
        Rows of `candidates`; ties: the lower row first.

    Raises
    ------
    InputError
        Vectors that `same_space` refuses.

    Examples
    --------
    >>> cosines, rows = nearest([[1, 0]], [[0, 1], [2, 0], [1, 0]], k=2)
    >>> rows.tolist(), cosines.tolist()
    ([[1, 2]], [[1.0, 1.0]])
    """
    import faiss

    queries, candidates = same_space(queries, candidates)
    k = min(k, len(candidates))
    k_searched = min(k + 1, len(candidates))  # one more shows whether the last one is tied with it
    cosines, rows = faiss.knn(queries, candidates, k_searched, faiss.METRIC_INNER_PRODUCT)
    next_cosines = cosines[:, k:]
    cosines = cosines[:, :k]
    rows = rows[:, :k]
    is_tied = (next_cosines == cosines[:, -1:]).any(axis=1)
    for query in np.flatnonzero(is_tied):  # of tied candidates, faiss keeps any
        cosines[query], rows[query] = _nearest_by_sorting(queries[query], candidates, k)
    order = np.lexsort((rows, -cosines))
    cosines = np.take_along_axis(cosines, order, axis=1)
    rows = np.take_along_axis(rows, order, axis=1)
    return cosines, rows


def _nearest_by_sorting(
    query: np.ndarray, candidates: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return cosines and rows of the `k` nearest candidates of one query; ties: the lower row."""
    cosines = candidates @ query
    rows = np.argsort(-cosines, kind="stable")[:k]
    return cosines[rows], rows


def same_space(
    first: np.ndarray, second: np.ndarray, normalise: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors of two sets of queries as `checked_vectors` gives them.

    Raises
    ------
    InputError
        Vectors that `checked_vectors` refuses, or of two numbers of dimensions.
    """
    first = checked_vectors(first, normalise)
    second = checked_vectors(second, normalise)
    if first.shape[1] != second.shape[1]:
        raise InputError(
            f"vectors of {first.shape[1]} and of {second.shape[1]} dimensions: "
            "encode both with one model"
        )
    return first, second


def checked_vectors(vectors: np.ndarray, normalise: bool) -> np.ndarray:
    """Return vectors as float32[n, d], brought to length 1 where `normalise`.

    Raises
    ------
    InputError
        No matrix of numbers, or an empty one; NaN or infinite values; vectors of length 0 where
        `normalise`.
    """
    vectors = np.asarray(vectors)
    is_numeric = vectors.dtype.kind in "fiu"
    if vectors.ndim != 2 or vectors.size == 0 or not is_numeric:
        raise InputError(
            "vectors: needs a non-empty matrix of numbers [queries, dimensions], "
            f"got {vectors.dtype}{vectors.shape}"
        )
    vectors = np.ascontiguousarray(vectors, np.float32)
    squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    lengths = np.sqrt(squares)
    _refuse_rows(~np.isfinite(lengths), "NaN or infinite values")
    if not normalise:
        return vectors
    _refuse_rows(lengths == 0, "no direction")
    factors = (1 / lengths).astype(np.float32)
    return vectors * factors[:, None]


def _refuse_rows(is_bad: np.ndarray, fault: str) -> None:
    """Raise InputError with the first rows, bool[n], that have the fault."""
    rows = np.flatnonzero(is_bad).tolist()
    if rows:
        raise InputError(
            f"vectors: {fault} in {len(rows)} rows ({offenders(rows)}); leave these queries out, "
            "or take another encoder: lsa knows no word that the training queries lack"
        )


def near_half(cosines: np.ndarray) -> np.ndarray:
    """Return which of some queries are in the half with the higher cosines, bool[n].

    Equal cosines do not change the sizes of the halves: the later ones are in the nearer half. The
    middle one of an odd number of queries is in the farther half.

    Parameters
    ----------
    cosines : float[n]
        Of each query to its nearest training query.

    Examples
    --------
    >>> near_half(np.array([0.5, 0.9, 0.5, 0.5])).tolist()
    [False, True, False, True]
    """
    ascending = np.argsort(cosines, kind="stable")
    n_near = len(cosines) // 2
    n_far = len(cosines) - n_near
    is_near = np.zeros(len(cosines), bool)
    is_near[ascending[n_far:]] = True
    return is_near
