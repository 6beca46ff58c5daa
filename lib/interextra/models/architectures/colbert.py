"""ColBERT: a vector a token, ranked by MaxSim (sentence-transformers).

score(q, d) = Σ over tokens i of q of max over tokens j of d of q_i · d_j (Khattab & Zaharia 2020,
equation 3).
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from pydantic import Field

from interextra.models.recipe import Dimension, Trained
from interextra.models.retriever import Encoder, reopen, transformer
from interextra.models.search.topk import device

LABEL = "ColBERT"
COLOUR = "#E69F00"
ENCODES_QUERIES, INTERACTS = True, True

# Tokens of queries and of passages that are scored at once: the scores of a tile stay in the
# processor's cache
TILE = (256, 4096)
GPU_TILE = (4096, 32768)  # half a GB of scores, so that starting the kernels costs little


class Options(Trained):
    dimension: Dimension = Field(128, ge=1)  # of a token's vector
    query_expansion: bool = (
        False  # pad queries with [MASK] to query_length and let the masks score, too
    )


class ColBERT(Encoder):
    """Wraps a `MultiVectorEncoder`. A block: for each passage or query float32[tokens, d], vectors
    of length 1.
    """

    block_size = 1024

    def encode_block(self, texts: Sequence[str], task: str = "document") -> list[np.ndarray]:
        return [np.asarray(tokens.float().cpu()) for tokens in self._encode(texts, task)]

    def open_queries(self, texts: Sequence[str]) -> Callable:
        queries = self.encode_block(texts, "query")
        return lambda passages: lambda here: maxsim(queries[here], passages)


def maxsim(queries: Sequence[np.ndarray], passages: Sequence[np.ndarray]):
    """MaxSim of all pairs of two blocks: a float32 tensor [queries, passages] on the device.

    Texts of similar length are scored together, so that little is computed for padding.
    """
    import torch

    where = device()
    rows, columns = TILE if where == "cpu" else GPU_TILE
    scores = torch.empty(len(queries), len(passages), device=where)
    left = list(_tiles(queries, rows, where, repeat=False))
    for there, right in _tiles(passages, columns, where, repeat=True):
        m, width, d = right.shape
        for here, some in left:
            best = (some.reshape(-1, d) @ right.reshape(-1, d).T).view(-1, width).amax(dim=1)
            scores[here[:, None], there] = best.view(len(some), -1, m).sum(dim=1)
    return scores


def _tiles(block: Sequence[np.ndarray], size: int, where: str, repeat: bool):
    """Texts by length, at most `size` tokens (or one text) at once: (int64[n] which, float32[n,
    longest, d] vectors).

    Padding repeats a passage's first token, which leaves the maximum as it is; in a query it is a
    zero vector.
    """
    import torch

    tokens = torch.as_tensor(np.concatenate([*block, np.zeros_like(block[0][:1])])).to(where)
    lengths = np.array([len(text) for text in block])
    first = np.cumsum(lengths) - lengths
    order, start = np.argsort(lengths, kind="stable"), 0
    while start < len(order):
        sizes = lengths[order[start:]] * np.arange(
            1, len(order) - start + 1
        )  # ascending: the last text is the longest
        stop = start + max(1, int(np.searchsorted(sizes, size, side="right")))
        some = order[start:stop]
        at = np.arange(lengths[some[-1]])
        padding = first[some, None] if repeat else len(tokens) - 1
        index = np.where(at < lengths[some, None], first[some, None] + at, padding)
        yield torch.as_tensor(some).to(where), tokens[torch.as_tensor(index).to(where)]
        start = stop


def build(recipe: Options, seed: int):
    """The untrained `MultiVectorEncoder` of a recipe, on the device: a projection without bias to
    `dimension`.
    """
    import torch
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
    from sentence_transformers.sentence_transformer.modules import Normalize

    expansion = (
        {"strategy": "fixed", "length": recipe.query_length} if recipe.query_expansion else None
    )
    words = transformer(recipe, seed, query_expansion=expansion)
    torch.manual_seed(seed)
    shape = {
        "in_features": words.get_embedding_dimension(),
        "out_features": recipe.dimension,
        "bias": False,
    }
    projection = Dense(
        **shape, activation_function=torch.nn.Identity(), module_input_name="token_embeddings"
    )
    modules = [
        words,
        projection,
        MultiVectorMask(),
        Normalize(module_input_name="token_embeddings"),
    ]
    return MultiVectorEncoder(modules=modules, device=device())


def _matrix(queries, passages):
    """MaxSim of all pairs for training: the gradient goes to one best token only, which is faster
    than spreading it.
    """
    (left, counts), (right, there) = queries, passages
    (n, t, d), (m, width, _) = left.shape, right.shape
    scores = (left.reshape(-1, d) @ right.reshape(-1, d).T).float().view(n, t, m, width)
    best = scores.masked_fill(~there, -1e4).max(dim=3).values
    return (best * counts[:, :, None]).sum(dim=1)


def fit(
    recipe: Options, collection, query_ids, split: str, seed: int, out_dir: Path, **given: Path
) -> dict:
    from sentence_transformers.util.similarity import maxsim_pairwise

    from interextra.models.training.trainer import SharedNegatives, train

    def represent(out):  # (vectors [n, tokens, d], mask [n, tokens])
        return out["token_embeddings"], out["attention_mask"].bool()

    def pairwise(queries, passages):
        return maxsim_pairwise(queries[0], passages[0], a_mask=queries[1], b_mask=passages[1])

    loss = SharedNegatives(build(recipe, seed), recipe, represent, pairwise, _matrix)
    return train(loss, recipe, collection, query_ids, split, seed, out_dir, **given)


def load(out_dir: Path, recipe: Options) -> ColBERT:
    return ColBERT(reopen("MultiVectorEncoder", out_dir, recipe), recipe)
