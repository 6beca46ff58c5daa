"""MaxSim of token vectors: texts of similar length are scored together, in tiles that fit a cache.

A block of texts has `tokens` float32[tokens of all texts, d] and `lengths` int64[texts].
"""

import numpy as np

from interextra.models.topk import Block, device

# Tokens of queries and of passages that are scored at once: the scores of a tile stay in the processor's cache
TILE = (256, 4096)
GPU_TILE = (4096, 32768)  # half a GB of scores, so that starting the kernels costs little


def texts_of(block: Block, which) -> Block:
    """The block of some of its texts: a slice, or their indices."""
    lengths = block["lengths"][which]
    first = (np.cumsum(block["lengths"]) - block["lengths"])[which]
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return {"tokens": block["tokens"][np.repeat(first, lengths) + within], "lengths": lengths}


def maxsim(queries: Block, passages: Block):
    """MaxSim of all pairs of two blocks: a float32 tensor [queries, passages] on the device.

    Texts of similar length are scored together, so that little is computed for padding.

    >>> a = {"tokens": np.array([[1, 0], [0, 1]], dtype=np.float32), "lengths": np.array([2])}
    >>> b = {"tokens": np.array([[1, 0], [0.6, 0.8], [0, 1]], dtype=np.float32), "lengths": np.array([2, 1])}
    >>> maxsim(a, b).tolist()
    [[1.7999999523162842, 1.0]]
    """
    import torch

    where = device()
    rows, columns = TILE if where == "cpu" else GPU_TILE
    scores = torch.empty(len(queries["lengths"]), len(passages["lengths"]), device=where)
    left = list(_tiles(queries, rows, where, repeat=False))
    for there, right in _tiles(passages, columns, where, repeat=True):
        m, width, d = right.shape
        for here, some in left:
            best = (some.reshape(-1, d) @ right.reshape(-1, d).T).view(-1, width).amax(dim=1)
            scores[here[:, None], there] = best.view(len(some), -1, m).sum(dim=1)
    return scores


def _tiles(block: Block, size: int, where: str, repeat: bool):
    """Texts by length, at most `size` tokens (or one text) at once: (int64[n] which, float32[n, longest, d] vectors).

    Padding repeats a passage's first token, which leaves the maximum as it is; in a query it is a zero vector, which
    scores 0 with everything and adds nothing.
    """
    import torch

    tokens, lengths = torch.as_tensor(block["tokens"]).to(where), block["lengths"]
    if not repeat:
        tokens = torch.cat([tokens, torch.zeros_like(tokens[:1])])
    first = np.cumsum(lengths) - lengths
    order, start = np.argsort(lengths, kind="stable"), 0
    while start < len(order):
        sizes = lengths[order[start:]] * np.arange(1, len(order) - start + 1)  # ascending: the last text is the longest
        stop = start + max(1, int(np.searchsorted(sizes, size, side="right")))
        some = order[start:stop]
        at = np.arange(lengths[some[-1]])
        padding = first[some, None] if repeat else len(tokens) - 1
        index = np.where(at < lengths[some, None], first[some, None] + at, padding)
        yield torch.as_tensor(some).to(where), tokens[torch.as_tensor(index).to(where)]
        start = stop
