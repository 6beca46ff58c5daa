"""Exact search by brute force: passages stream through in blocks; only the order of their ids stays
in memory.
"""

from collections.abc import Callable, Iterable

import numpy as np

PADDING = -1
_LOWEST = np.iinfo(np.int64).min


def device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def devices() -> list[str]:
    """Devices to encode on: every GPU, else the CPU."""
    import torch

    return [f"cuda:{i}" for i in range(torch.cuda.device_count())] or ["cpu"]


def exact_search(
    passages, blocks: Iterable, open_block: Callable, n_queries: int, k: int, query_block: int
) -> tuple[np.ndarray, np.ndarray]:
    """The k passages of highest score for each query, exactly: take a block, score it, merge it,
    forget it.

    `blocks`: what a model keeps of all passages, some at once, in their order; `open_block`: block
    → function from a slice of the queries to their scores, a float32 tensor [queries, passages of
    the block]; `query_block`: queries scored at once, which like the size of the blocks bounds
    memory and changes no result.

    Returns (rows int32[n, k], scores float32[n, k]): rows of the passages by score descending, ties
    by doc_id descending as trec_eval; padding is row -1 with score -inf.
    """
    import torch

    order, place = passages.tie_order
    best, start = (
        torch.full((n_queries, k), _LOWEST, device=device()),
        0,
    )  # one integer holds score and place
    for block in blocks:
        scores = open_block(block)
        for at in range(0, n_queries, query_block):
            here = slice(at, at + query_block)
            found = scores(here)
            end = start + found.shape[1]
            low = torch.as_tensor(0x7FFFFFFF - place[start:end].astype(np.int64)).to(found.device)
            keys = torch.cat([best[here], _candidates(found, low, min(k, end - start))], dim=1)
            best[here] = keys.topk(k, dim=1).values
        start = end
    keys = best.cpu().numpy()
    padding, ordered = keys == _LOWEST, keys >> 31
    rows = np.where(padding, PADDING, order[np.where(padding, 0, 0x7FFFFFFF - (keys & 0x7FFFFFFF))])
    bits = np.where(ordered < 0, -ordered | 0x80000000, ordered).astype(np.uint32)
    return rows.astype(np.int32), np.where(padding, np.float32(-np.inf), bits.view(np.float32))


def _candidates(scores, low, k: int):
    """Packed keys of the k best columns of `scores`, ties by the larger `low`."""
    top, columns = scores.topk(k, dim=1)
    keys = _pack(top, low[columns])
    # torch.topk picks any of the tied scores at the cut: where more reach the last score, weigh all
    # of them
    unsure = ((scores >= top[:, -1:]).sum(dim=1) > k).nonzero().squeeze(1)
    for some in unsure.split(256):
        keys[some] = _pack(scores[some], low.expand(len(some), -1)).topk(k, dim=1).values
    return keys


def _pack(scores, low):
    import torch

    bits = (
        (scores + 0.0).contiguous().view(torch.int32).to(torch.int64)
    )  # + 0.0 turns -0.0 into 0.0
    ordered = torch.where(
        bits < 0, -(bits & 0x7FFFFFFF), bits
    )  # the order of the floats, as integers
    return torch.where(torch.isneginf(scores), _LOWEST, (ordered << 31) | low)
