"""Exact search by brute force: passages stream through in blocks, nothing of the size of the corpus stays in memory.

The one exception is the order of the doc_ids (4 bytes a passage), which settles ties.
"""

import os
from collections.abc import Callable, Iterable
from weakref import WeakKeyDictionary

import numpy as np

PADDING = -1
Block = dict[str, np.ndarray]  # what a model keeps of some passages, as named arrays
_ORDERS: WeakKeyDictionary = WeakKeyDictionary()
_LOWEST = np.iinfo(np.int64).min


def tie_order(passages) -> tuple[np.ndarray, np.ndarray]:
    """Rows by doc_id descending, and each row's place in that order: trec_eval ranks ties by doc_id descending.

    (rows int32[n], place int32[n]): `place[rows[i]] == i`; the smaller place wins a tie. Computed once a collection.
    """
    if passages not in _ORDERS:
        import pyarrow.compute as pc

        # Arrow compares UTF-8 bytes, as strcmp in trec_eval does
        rows = np.asarray(pc.sort_indices(passages.doc_ids, sort_keys=[("", "descending")])).astype(np.int32)
        place = np.empty_like(rows)
        place[rows] = np.arange(len(rows), dtype=np.int32)
        _ORDERS[passages] = rows, place
    return _ORDERS[passages]


def device() -> str:
    """`cuda` where there is a GPU, else `cpu`."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def devices() -> list[str]:
    """Devices to encode on: INTEREXTRA_DEVICES (comma-separated), else every GPU, else the CPU."""
    import torch

    named = [name for name in os.environ.get("INTEREXTRA_DEVICES", "").split(",") if name]
    return named or [f"cuda:{i}" for i in range(torch.cuda.device_count())] or ["cpu"]


def exact_search(
    passages,
    blocks: Iterable[Block],
    open_block: Callable[[Block], Callable[[slice], "object"]],
    n_queries: int,
    k: int,
    query_block: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The k passages of highest score for each query, exactly: take a block, score it, merge it, forget it.

    `blocks`: those of all passages, in their order; `open_block`: block → function from a slice of the queries to their
    scores, a float32 tensor [queries, passages of the block]; `query_block`: queries scored at once, which like the
    size of the blocks bounds memory and changes no result. Returns (rows int32[n, k], scores float32[n, k]) by score
    descending, then doc_id descending; fewer than k passages: row -1, score -inf.
    """
    best, start = Best(passages, n_queries, k), 0
    for block in blocks:
        scores, size = open_block(block), 0
        for at in range(0, n_queries, query_block):
            here = slice(at, min(at + query_block, n_queries))
            found = scores(here)
            size = found.shape[1]
            best.merge(here, slice(start, start + size), found)
        start += size
    return best.result()


class Best:
    """The running k best passages of each query: one integer holds score and place, to rank ties by doc_id."""

    def __init__(self, passages, n_queries: int, k: int):
        import torch

        self._order, self._place = tie_order(passages)
        self._keys = torch.full((n_queries, k), _LOWEST, device=device())

    def merge(self, queries: slice, rows: slice, scores) -> None:
        """Take in scores, float32[queries, m], of the m passages of these rows."""
        import torch

        k, m = self._keys.shape[1], scores.shape[1]
        low = torch.as_tensor(0x7FFFFFFF - self._place[rows].astype(np.int64)).to(scores.device)
        keys = torch.cat([self._keys[queries], _candidates(scores, low, min(k, m))], dim=1)
        self._keys[queries] = keys.topk(k, dim=1).values

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """(rows int32[n, k], scores float32[n, k]); padding is row -1 with score -inf."""
        return _unpack(self._keys.cpu().numpy(), self._order)


def _candidates(scores, low, k: int):
    """Packed keys of the k best columns of `scores`, ties by the larger `low`."""
    import torch

    top, columns = scores.topk(k, dim=1)
    keys = _pack(top, low[columns])
    # torch.topk picks any of the tied scores at the cut: where more reach the last score, weigh all of them
    unsure = ((scores >= top[:, -1:]).sum(dim=1) > k).nonzero().squeeze(1)
    for some in torch.split(unsure, 256):
        keys[some] = _pack(scores[some], low.expand(len(some), -1)).topk(k, dim=1).values
    return keys


def _pack(scores, low):
    import torch

    bits = (scores + 0.0).contiguous().view(torch.int32).to(torch.int64)  # + 0.0 turns -0.0 into 0.0
    ordered = torch.where(bits < 0, -(bits & 0x7FFFFFFF), bits)  # the order of the floats, as integers
    return torch.where(torch.isneginf(scores), _LOWEST, (ordered << 31) | low)


def _unpack(keys: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    padding = keys == _LOWEST
    rows = np.where(padding, PADDING, order[np.where(padding, 0, 0x7FFFFFFF - (keys & 0x7FFFFFFF))])
    ordered = keys >> 31
    bits = np.where(ordered < 0, -ordered | 0x80000000, ordered).astype(np.uint32)
    return rows.astype(np.int32), np.where(padding, np.float32(-np.inf), bits.view(np.float32))
