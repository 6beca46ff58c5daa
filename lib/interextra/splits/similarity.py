"""How similar two sets of queries are: exact nearest neighbours by cosine or dot product (Zhan §4.1.1)."""

import numpy as np

from interextra.ground.errors import InputError, offenders

METRICS = ("cosine", "dot")


def nearest(
    queries: np.ndarray, candidates: np.ndarray, k: int, metric: str = "cosine", block: int = 16_384
) -> tuple[np.ndarray, np.ndarray]:
    """The `k` candidates with the highest similarity to each query, exactly.

    Parameters
    ----------
    queries, candidates : float[n, d], float[m, d]
    k : int
        clipped to m.
    metric : "cosine" (zero vectors are an error) or "dot"
    block : int
        candidates compared at a time: memory only, the result does not depend on it.

    Returns
    -------
    scores float32[n, k] descending, rows int64[n, k]; equal scores: lower row first.

    >>> scores, rows = nearest([[1, 0]], [[0, 1], [2, 0], [1, 0]], k=2)
    >>> rows.tolist(), scores.tolist()
    ([[1, 2]], [[1.0, 1.0]])
    """
    q, c = _pair(queries, candidates, metric)
    if k < 1 or block < 1:
        raise InputError(f"k and block must be at least 1, not k={k}, block={block}")
    k, q_scale, c_scale = min(int(k), len(c)), _scale(q, metric), _scale(c, metric)
    step = max(1, 2**24 // (block + k))  # queries at a time: the score matrix stays near 64 MB
    parts = [_search(q[i : i + step], q_scale[i : i + step], c, c_scale, k, block) for i in range(0, len(q), step)]
    return np.concatenate([s for s, _ in parts]), np.concatenate([r for _, r in parts])


def max_similarity(test: np.ndarray, train: np.ndarray, metric: str = "cosine", block: int = 16_384) -> np.ndarray:
    """For each row of `test` its highest similarity to any row of `train`: float32[n_test].

    Swap the two for the similarity of each training query to its closest test query.

    >>> max_similarity([[1, 0], [0, 1]], [[3, 0]]).tolist()
    [1.0, 0.0]
    """
    return nearest(test, train, 1, metric, block)[0][:, 0]


def best_ranks(
    test: np.ndarray, train: np.ndarray, metric: str = "cosine", block: int = 16_384
) -> tuple[np.ndarray, np.ndarray]:
    """The best rank (from 1) that each training query reaches in the full ranking of any test query.

    Memory is one ranking at a time, so a full ranking of 0.5 million training queries is no problem.

    Returns
    -------
    best rank int64[n_train]; highest similarity to any test query float32[n_train].

    >>> best_ranks([[1, 0], [0, 1]], [[1, 0], [1, .5], [0, 1]])[0].tolist()
    [1, 2, 1]
    """
    q, c = _pair(test, train, metric)
    q_scale, c_scale = _scale(q, metric), _scale(c, metric)
    best, highest = np.full(len(c), len(c), np.int64), np.full(len(c), -np.inf, np.float32)
    ranks = np.arange(1, len(c) + 1)
    step = max(1, 2**24 // len(c))
    for i in range(0, len(q), step):
        left = q[i : i + step].astype(np.float64) * q_scale[i : i + step, None]
        scores = np.empty((len(left), len(c)), np.float32)  # rounding puts the equal ones of a float64 product together
        for j in range(0, len(c), block):
            scores[:, j : j + block] = left @ (c[j : j + block] * c_scale[j : j + block, None]).T
        np.maximum(highest, scores.max(axis=0), out=highest)
        for row in scores:
            order = np.argsort(-row, kind="stable")
            best[order] = np.minimum(best[order], ranks)
    return best, highest


def _search(q, q_scale, c, c_scale, k, block):
    """Top k in two steps: a fast float32 product proposes all that could be in it, float64 decides."""
    left = (q * q_scale[:, None]).astype(np.float32)
    norms, longest = np.linalg.norm(left, axis=1), 0.0
    kept = np.full((len(q), k), -np.inf, np.float32)
    owners, rows, proposed = [], [], []
    for start in range(0, len(c), block):
        right = (c[start : start + block] * c_scale[start : start + block, None]).astype(np.float32)
        longest = max(longest, float(np.linalg.norm(right, axis=1).max()))
        scores = left @ right.T
        both = np.concatenate([kept, scores], axis=1)
        kept = np.partition(both, both.shape[1] - k, axis=1)[:, -k:]
        # a bound on the rounding error of both products, so that no true neighbour is lost whatever the block
        slack = (2 * (q.shape[1] + 4) * np.finfo(np.float32).eps) * norms * longest
        at, row = np.nonzero(scores >= (kept.min(axis=1) - slack)[:, None])
        owners.append(at), rows.append(row + start), proposed.append(scores[at, row])
    owner, row, score = np.concatenate(owners), np.concatenate(rows), np.concatenate(proposed)
    stay = score >= (kept.min(axis=1) - slack)[owner]
    owner, row = owner[stay], row[stay]
    exact = np.empty(len(owner), np.float32)
    for i in range(0, len(owner), 2**15):
        a, b = owner[i : i + 2**15], row[i : i + 2**15]
        product = (q[a].astype(np.float64) * c[b]).sum(axis=1)  # one sum per pair: no matrix shape in its rounding
        exact[i : i + 2**15] = product * q_scale[a] * c_scale[b]
    order = np.lexsort((row, -exact, owner))
    first = np.searchsorted(owner[order], np.arange(len(q)))
    pick = order[first[:, None] + np.arange(k)]
    return exact[pick], row[pick].astype(np.int64)


def _scale(x: np.ndarray, metric: str) -> np.ndarray:
    """What each row is multiplied by: 1 / its length under cosine. In chunks, to keep no float64 copy of all."""
    if metric != "cosine":
        return np.ones(len(x))
    chunks = (x[i : i + 2**15].astype(np.float64) for i in range(0, len(x), 2**15))
    return 1 / np.sqrt(np.concatenate([(chunk**2).sum(axis=1) for chunk in chunks]))


def _pair(queries, candidates, metric) -> tuple[np.ndarray, np.ndarray]:
    if metric not in METRICS:
        raise InputError(f"unknown metric {metric!r}: one of {', '.join(METRICS)}")
    out = []
    for name, x in (("queries", queries), ("candidates", candidates)):
        x = np.asarray(x)
        if x.ndim != 2 or 0 in x.shape or x.dtype.kind not in "fiu":
            raise InputError(f"{name}: needs a non-empty matrix of numbers [rows, dimensions], got {x.dtype}{x.shape}")
        x = np.ascontiguousarray(x, np.float32 if x.dtype in (np.float16, np.float32) else np.float64)
        if not np.isfinite(x).all():
            bad = np.flatnonzero(~np.isfinite(x).all(axis=1)).tolist()
            raise InputError(f"{name}: NaN or infinite values in {len(bad)} rows ({offenders(bad)}); encode them again")
        if metric == "cosine" and not x.any(axis=1).all():
            bad = np.flatnonzero(~x.any(axis=1)).tolist()
            raise InputError(
                f"{name}: {len(bad)} zero vectors (rows {offenders(bad)}) have no cosine; drop them or use metric='dot'"
            )
        out.append(x)
    if out[0].shape[1] != out[1].shape[1]:
        raise InputError(
            f"queries have {out[0].shape[1]} dimensions and candidates {out[1].shape[1]}: encode both with one model"
        )
    return out[0], out[1]
