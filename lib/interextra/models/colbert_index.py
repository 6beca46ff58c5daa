"""Approximate ColBERT search: faiss finds passages by single token vectors, MaxSim scores those passages exactly.

As in ColBERT's own code (Khattab & Zaharia 2020, section 3.6): every token of the query asks an inverted file over the
token vectors of all passages; the passages of what it finds are the candidates.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from interextra.models.colbert import maxsim, texts_of
from interextra.models.topk import Best, Kept, blocks, device


def ivf_search(
    model,
    collection,
    queries: Sequence[str],
    k: int,
    block_size: int | None = None,
    embeddings_dir: str | Path | None = None,
    index_dir: str | Path | None = None,
    nlist: int | None = None,
    nprobe: int = 16,
    candidates: int = 512,
    codec: str = "SQ8",
) -> tuple[np.ndarray, np.ndarray]:
    """The k best of the candidates, with their exact scores; fewer than k candidates: row -1, score -inf.

    Parameters
    ----------
    embeddings_dir
        Token vectors are kept there and read for the exact scores; None: in a temporary folder.
    index_dir
        The index is kept there and used again. It has to fit in memory.
    nlist
        Lists of the inverted file; None: the square root of the number of token vectors.
    nprobe
        Lists searched for each token of a query; nlist searches all.
    candidates
        Nearest passage tokens taken for each token of a query; as many as there are tokens takes all passages.
    codec
        How faiss stores the vectors of the index: Flat, SQ8 (a byte a dimension), PQ16 (16 bytes a vector), …
    """
    passages, size = collection.passages, block_size or model.block_size
    with tempfile.TemporaryDirectory(prefix="interextra-") as aside:
        key = f"{model.key}:{collection.fingerprint}"
        kept = Kept(embeddings_dir or aside, f"{key}:{size}")
        index = _index(model, passages, size, kept, Kept(index_dir, f"{key}:{nlist}:{codec}"), nlist, codec)
        index.nprobe = nprobe
        asked = model.encode_block(queries, "query")
        found = _candidates(index, asked, min(candidates, index.ntotal))
        best = Best(passages, len(queries), k)
        for start, _, block in blocks(passages, model.encode_block, size, kept):
            best.merge(slice(None), start, _scores(asked, block, found, start))
    return best.result()


def _index(model, passages, size: int, kept: Kept, index_kept: Kept, nlist: int | None, codec: str):
    """The inverted file of all token vectors; each carries the row of its passage as its id."""
    import faiss

    stored = index_kept.read("index")
    if stored is not None:
        return faiss.deserialize_index(stored["index"])
    draw, sample, total = np.random.default_rng(0), [], 0
    share = -(-64 * int((len(passages) * model.recipe.passage_length) ** 0.5) * size // len(passages))
    for _, _, block in blocks(passages, model.encode_block, size, kept):
        total += len(block["tokens"])
        sample.append(draw.permutation(block["tokens"])[:share])  # of each block as many: 64 for each list in all
    sample = np.concatenate(sample)
    nlist = nlist or max(1, round(total**0.5))
    index = faiss.index_factory(sample.shape[1], f"IVF{min(nlist, len(sample))},{codec}", faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1  # a small collection is not worth a warning
    index.train(sample)
    for start, _, block in blocks(passages, model.encode_block, size, kept):
        index.add_with_ids(block["tokens"], start + np.repeat(np.arange(len(block["lengths"])), block["lengths"]))
    index_kept.write("index", {"index": faiss.serialize_index(index)})
    return index


def _candidates(index, asked, depth: int) -> list[np.ndarray]:
    """Rows of the candidates of each query, ascending."""
    queries = np.split(asked["tokens"], np.cumsum(asked["lengths"])[:-1])
    found = (index.search(tokens, depth)[1] for tokens in queries)
    return [np.unique(rows[rows >= 0]) for rows in found]


def _scores(asked, block, found: list[np.ndarray], start: int):
    """MaxSim of each query with its candidates in a block, float32[queries, m]; -inf for all others."""
    import torch

    scores = torch.full((len(found), len(block["lengths"])), -torch.inf, device=device())
    for query, rows in enumerate(found):
        here = rows[slice(*np.searchsorted(rows, [start, start + scores.shape[1]]))] - start
        if len(here):
            scores[query, here] = maxsim(texts_of(asked, [query]), texts_of(block, here))[0]
    return scores
