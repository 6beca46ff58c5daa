"""Exact search by brute force: passages stream through in blocks.

Only the order of their ids stays in memory.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from interextra.data.collection import Passages

if TYPE_CHECKING:
    import torch

PADDING = -1
# A passage's score and its place in the order of ties are packed into one integer, so that a
# larger key is a better passage: the score above 31 bits, which are larger for an earlier place.
_LOW_BITS = 0x7FFFFFFF  # 31 of them: those of a place, or of a float32 without its sign
_SIGN_BIT = 0x80000000  # of a float32
_NO_PASSAGE = np.iinfo(np.int64).min


def device() -> str:
    """Return where models compute: `cuda` where there is a GPU, else `cpu`."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def devices() -> list[str]:
    """Return the devices to encode on: every GPU, else the CPU."""
    import torch

    gpus = range(torch.cuda.device_count())
    return [f"cuda:{i}" for i in gpus] or ["cpu"]


def exact_search(
    passages: Passages,
    blocks: Iterable,
    open_block: Callable,
    n_queries: int,
    k: int,
    query_block: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k passages of highest score for each query, exactly.

    One block after the other is scored, merged with the best so far, and forgotten.

    Parameters
    ----------
    passages : Passages
        What is searched; ties have their order.
    blocks : iterable
        What a model keeps of all passages, some at once, in their order.
    open_block : callable
        block → function from a slice of the queries to their scores, a float32 tensor [queries,
        passages of the block].
    query_block : int
        Queries scored at once, which like the size of the blocks bounds memory and changes no
        result.

    Returns
    -------
    rows : int32[n_queries, k]
        Rows of the passages by score descending, ties by doc_id descending as in trec_eval;
        padding is -1.
    scores : float32[n_queries, k]
        Their scores; padding is -inf.
    """
    import torch

    row_at, place_of = passages.tie_order
    best_keys = torch.full((n_queries, k), _NO_PASSAGE, device=device())
    start = 0
    for block in blocks:
        score = open_block(block)
        for first_query in range(0, n_queries, query_block):
            queries = slice(first_query, first_query + query_block)
            scores = score(queries)
            end = start + scores.shape[1]
            top_keys = _top_keys(scores, place_of[start:end], k)
            keys = torch.cat([best_keys[queries], top_keys], dim=1)
            best_keys[queries] = keys.topk(k, dim=1).values
        start = end
    return _unpacked(best_keys.cpu().numpy(), row_at)


def _top_keys(scores: "torch.Tensor", places: np.ndarray, k: int) -> "torch.Tensor":
    """Pack the k best passages of a block for each query, of tied ones those of the first places.

    scores: [queries, passages]; places: int32[passages].
    """
    import torch

    place_keys = torch.as_tensor(_LOW_BITS - places.astype(np.int64))
    place_keys = place_keys.to(scores.device)
    k = min(k, scores.shape[1])
    k_searched = min(k + 1, scores.shape[1])  # one more shows whether the last one is tied with it
    top_scores, columns = scores.topk(k_searched, dim=1)
    keys = _packed(top_scores[:, :k], place_keys[columns[:, :k]])
    # torch.topk picks any of the tied scores at the cut: there, weigh all passages
    is_tied = (top_scores[:, k:] == top_scores[:, k - 1 : k]).any(dim=1)
    tied_at_cut = is_tied.nonzero().squeeze(1)
    for queries in tied_at_cut.split(256):
        all_keys = _packed(scores[queries], place_keys.expand(len(queries), -1))
        keys[queries] = all_keys.topk(k, dim=1).values
    return keys


def _packed(scores: "torch.Tensor", place_keys: "torch.Tensor") -> "torch.Tensor":
    """Pack scores and places into keys; a score of -inf is no passage."""
    import torch

    # + 0.0 turns -0.0 into 0.0
    scores = (scores + 0.0).contiguous()
    bits = scores.view(torch.int32).to(torch.int64)
    # the order of the floats, as integers
    ordered = torch.where(bits < 0, -(bits & _LOW_BITS), bits)
    return torch.where(torch.isneginf(scores), _NO_PASSAGE, (ordered << 31) | place_keys)


def _unpacked(keys: np.ndarray, row_at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unpack keys into rows and scores; `row_at`: the row at each place."""
    is_padding = keys == _NO_PASSAGE
    places = np.where(is_padding, 0, _LOW_BITS - (keys & _LOW_BITS))
    rows = np.where(is_padding, PADDING, row_at[places])
    ordered = keys >> 31
    bits = np.where(ordered < 0, -ordered | _SIGN_BIT, ordered)
    scores = bits.astype(np.uint32).view(np.float32)
    scores[is_padding] = -np.inf
    return rows.astype(np.int32), scores
