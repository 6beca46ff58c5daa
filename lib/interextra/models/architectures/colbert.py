"""ColBERT: a vector for each token, ranked by MaxSim (sentence-transformers).

score(q, d) = Σ over tokens i of q of max over tokens j of d of q_i · d_j (Khattab & Zaharia 2020,
equation 3).
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pydantic import Field

from interextra.data.collection import Collection
from interextra.models.prices import FLOAT32_MEGABYTES
from interextra.models.recipe import Dimension, Trained
from interextra.models.retriever import Encoder, reopen, transformer
from interextra.models.search.topk import device

if TYPE_CHECKING:
    import torch
    from sentence_transformers import MultiVectorEncoder

LABEL = "ColBERT"
COLOUR = "#E69F00"
ENCODES_QUERIES = True

# Tokens of queries and of passages that are scored at once: the scores of a tile stay in the
# processor's cache
TILE = (256, 4096)
GPU_TILE = (4096, 32768)  # half a GB of scores, so that starting the kernels costs little


class Options(Trained):
    """The recipe of a ColBERT."""

    dimension: Dimension = Field(128, ge=1)  # of a token's vector
    # pad queries with [MASK] to query_length and let the masks score, too
    query_expansion: bool = False

    def query_megabytes(self) -> float:
        """Return the megabytes of an encoded query: a vector for each token."""
        return self.query_length * self.dimension * FLOAT32_MEGABYTES


class ColBERT(Encoder):
    """Wraps a `MultiVectorEncoder`.

    A block holds for each passage or query float32[tokens, d], vectors of length 1.
    """

    block_size = 1024

    def encode_block(self, texts: Sequence[str], task: str = "document") -> list[np.ndarray]:
        """Encode passages, or with the task `query` queries."""
        return [np.asarray(vectors.float().cpu()) for vectors in self._encode(texts, task)]

    def open_queries(self, texts: Sequence[str]) -> Callable:
        """Return the `open_block` of `topk.exact_search` for query texts."""
        queries = self.encode_block(texts, "query")
        return lambda passages: lambda some_queries: maxsim(queries[some_queries], passages)


def maxsim(queries: Sequence[np.ndarray], passages: Sequence[np.ndarray]) -> "torch.Tensor":
    """Return MaxSim of all pairs of two blocks: a float32 tensor [queries, passages] on the device.

    Texts of similar length are scored together, so that little is computed for padding.

    >>> query, passage = np.eye(2, dtype=np.float32), np.array([[0.5, 0], [0, 0.25]], np.float32)
    >>> maxsim([query], [passage]).tolist()
    [[0.75]]
    """
    import torch

    query_tokens, passage_tokens = TILE if device() == "cpu" else GPU_TILE
    query_groups = list(_padded_groups(queries, query_tokens, repeat_first=False))
    passage_groups = _padded_groups(passages, passage_tokens, repeat_first=True)
    shape = (len(queries), len(passages))
    scores = torch.empty(shape, device=device())
    for passage_rows, passage_vectors in passage_groups:
        for query_rows, query_vectors in query_groups:
            best = _best_matches(query_vectors, passage_vectors)
            scores[query_rows[:, None], passage_rows] = best.sum(dim=1)
    return scores


def _best_matches(queries: "torch.Tensor", passages: "torch.Tensor") -> "torch.Tensor":
    """Return the largest product of each query token with the tokens of each passage.

    [queries, tokens, d], [passages, tokens, d] → [queries, tokens, passages]
    """
    n_queries, n_tokens, _ = queries.shape
    n_passages, length, _ = passages.shape
    products = queries.flatten(0, 1) @ passages.flatten(0, 1).T
    best = products.view(-1, length).amax(dim=1)
    return best.view(n_queries, n_tokens, n_passages)


def _padded_groups(
    block: Sequence[np.ndarray], n_tokens: int, repeat_first: bool
) -> Iterator[tuple["torch.Tensor", "torch.Tensor"]]:
    """Yield groups of at most `n_tokens` tokens: int64[n], which texts, and their vectors.

    Vectors are float32[n, longest, d]. Padding repeats a text's first token, which leaves a
    passage's maximum as it is; or it is a zero vector, which adds nothing to a query's sum.
    """
    import torch

    zero = np.zeros_like(block[0][:1])
    tokens = np.concatenate([*block, zero])
    vectors = torch.as_tensor(tokens, device=device())
    lengths = np.array([len(text) for text in block])
    first = np.cumsum(lengths) - lengths
    for group in _groups_by_length(lengths, n_tokens):
        place = np.arange(lengths[group[-1]])
        start = first[group, None]
        padding = start if repeat_first else len(vectors) - 1
        is_token = place < lengths[group, None]
        index = np.where(is_token, start + place, padding)
        texts = torch.as_tensor(group, device=vectors.device)
        yield texts, vectors[torch.as_tensor(index, device=vectors.device)]


def _groups_by_length(lengths: np.ndarray, n_tokens: int) -> Iterator[np.ndarray]:
    """Yield indices of texts, shortest first, of at most `n_tokens` with padding (or one text)."""
    left = np.argsort(lengths, kind="stable")
    while len(left):
        n_texts = np.arange(1, len(left) + 1)
        sizes = lengths[left] * n_texts  # the last text of a group is its longest
        n_fitting = np.searchsorted(sizes, n_tokens, side="right")
        group, left = np.split(left, [max(1, n_fitting)])
        yield group


def build(recipe: Options, seed: int) -> "MultiVectorEncoder":
    """Return the untrained model of a recipe, on the device.

    A projection without bias to `dimension` follows the transformer.
    """
    import torch
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
    from sentence_transformers.sentence_transformer.modules import Normalize

    expansion = None
    if recipe.query_expansion:
        expansion = {"strategy": "fixed", "length": recipe.query_length}
    words = transformer(recipe, seed, query_expansion=expansion)
    torch.manual_seed(seed)
    projection = Dense(
        in_features=words.get_embedding_dimension(),
        out_features=recipe.dimension,
        bias=False,
        activation_function=torch.nn.Identity(),
        module_input_name="token_embeddings",
    )
    normalize = Normalize(module_input_name="token_embeddings")
    modules = [words, projection, MultiVectorMask(), normalize]
    return MultiVectorEncoder(modules=modules, device=device())


class TokenVectors(NamedTuple):
    """What the loss takes of a batch: vectors, and which of the tokens count."""

    vectors: "torch.Tensor"  # [n, tokens, d]
    mask: "torch.Tensor"  # bool[n, tokens]


def _token_vectors(output: dict[str, "torch.Tensor"]) -> TokenVectors:
    """Return the vectors and the mask of what the model gives."""
    return TokenVectors(output["token_embeddings"], output["attention_mask"].bool())


def _maxsim_of_rows(queries: TokenVectors, passages: TokenVectors) -> "torch.Tensor":
    """Return MaxSim of query i and passage i."""
    from sentence_transformers.util.similarity import maxsim_pairwise

    return maxsim_pairwise(
        queries.vectors, passages.vectors, a_mask=queries.mask, b_mask=passages.mask
    )


def _maxsim_of_all(queries: TokenVectors, passages: TokenVectors) -> "torch.Tensor":
    """Return MaxSim of all pairs.

    The gradient goes to one best token only, which is faster than spreading it.
    """
    products = queries.vectors.flatten(0, 1) @ passages.vectors.flatten(0, 1).T
    products = products.float().view(*queries.mask.shape, *passages.mask.shape)
    products = products.masked_fill(~passages.mask, -1e4)
    best = products.max(dim=3).values
    return (best * queries.mask.unsqueeze(2)).sum(dim=1)


def fit(
    recipe: Options,
    collection: Collection,
    query_ids: Sequence[str],
    split: str,
    seed: int,
    out_dir: Path,
    **inputs: Path,
) -> dict:
    """Train a ColBERT and save it to `out_dir`, see `interextra.models.model.fit`."""
    from interextra.models.training.trainer import Scoring, SharedNegatives, train

    scoring = Scoring(_token_vectors, _maxsim_of_rows, _maxsim_of_all)
    loss = SharedNegatives(build(recipe, seed), recipe, scoring)
    return train(loss, recipe, collection, query_ids, split, seed, out_dir, **inputs)


def load(out_dir: Path, recipe: Options) -> ColBERT:
    """Open the model that `fit` saved to `out_dir`."""
    return ColBERT(reopen("MultiVectorEncoder", out_dir, recipe), recipe)
