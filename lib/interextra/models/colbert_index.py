"""Approximate ColBERT search: faiss finds passages by single token vectors, MaxSim scores those passages exactly.

As in ColBERT's own code (Khattab & Zaharia 2020, section 3.6): every token of the query asks an inverted file over the
token vectors of all passages; the passages of what it finds are the candidates.
"""

from collections.abc import Sequence

import numpy as np

from interextra.models.maxsim import maxsim, texts_of
from interextra.models.topk import Best, device

NPROBE = 16  # lists of the inverted file that are searched for each token of a query
CANDIDATES = 512  # nearest passage tokens taken for each token of a query
SAMPLE = 64  # token vectors that the lists are made from, a list


def ivf_search(model, passages, texts: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k best of the candidates, with their exact scores; fewer than k candidates: row -1, score -inf.

    The index has to fit in memory, a byte a dimension of every token vector. Passages are encoded once to be indexed,
    and the candidates of all queries once more to be scored: no token vectors are kept.
    """
    index = token_index(model, passages)
    asked = model.encode_block(texts, "query")
    found = _candidates(index, asked)
    rows = np.unique(np.concatenate(found))
    best = Best(passages, len(texts), k)
    for at in range(0, len(rows), model.block_size):
        some = rows[at : at + model.block_size]
        best.merge(slice(None), some, _scores(asked, model.encode_block(passages.texts(some)), found, some))
    return best.result()


def token_index(model, passages):
    """The inverted file of all token vectors; each carries the row of its passage as its id."""
    import faiss

    n_lists = max(1, round((len(passages) * model.recipe.passage_length) ** 0.5))
    draw = np.random.default_rng(0)
    some = draw.permutation(len(passages))[: SAMPLE * n_lists // 8]  # a passage has more than 8 tokens …
    sample = draw.permutation(model.encode_block(passages.texts(some))["tokens"])[: SAMPLE * n_lists]
    index = faiss.index_factory(sample.shape[1], f"IVF{min(n_lists, len(sample))},SQ8", faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1  # a small collection is not worth a warning
    index.train(sample)
    for start, texts in passages.batches(model.block_size):
        block = model.encode_block(texts)
        index.add_with_ids(block["tokens"], start + np.repeat(np.arange(len(texts)), block["lengths"]))
    index.nprobe = NPROBE
    return index


def _candidates(index, asked) -> list[np.ndarray]:
    """Rows of the candidates of each query, ascending."""
    queries = np.split(asked["tokens"], np.cumsum(asked["lengths"])[:-1])
    found = (index.search(tokens, min(CANDIDATES, index.ntotal))[1] for tokens in queries)
    return [np.unique(rows[rows >= 0]) for rows in found]


def _scores(asked, block, found: list[np.ndarray], rows: np.ndarray):
    """MaxSim of each query with its candidates among some passages, float32[queries, rows]; -inf for all others."""
    import torch

    scores = torch.full((len(found), len(rows)), -torch.inf, device=device())
    for query, candidates in enumerate(found):
        here = np.flatnonzero(np.isin(rows, candidates, assume_unique=True))
        if len(here):
            scores[query, here] = maxsim(texts_of(asked, [query]), texts_of(block, here))[0]
    return scores
