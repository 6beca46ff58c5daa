"""ColBERT: a vector a token, ranked by MaxSim (sentence-transformers).

score(q, d) = Σ over tokens i of q of max over tokens j of d of q_i · d_j (Khattab & Zaharia 2020, equation 3).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from interextra.models.recipe import Recipe
from interextra.models.retriever import Retriever, reopen, transformer
from interextra.models.topk import Block, device

TILE = 8192  # passage tokens scored at once against TILE // 16 query tokens: about 16 MB of scores


class ColBERT(Retriever):
    """A multi-vector encoder; wraps a `MultiVectorEncoder`."""

    block_size = 1024
    query_block = 2048

    def encode_tokens(self, texts: Sequence[str], task: str) -> list[np.ndarray]:
        """Token vectors of each text, float32[tokens, d] of length 1; `task` is query or document."""
        return [np.asarray(vectors.float().cpu()) for vectors in self._encode(texts, task)]

    def encode_block(self, texts: Sequence[str]) -> Block:
        vectors = self.encode_tokens(texts, "document")
        return {"tokens": np.concatenate(vectors), "lengths": np.array([len(v) for v in vectors])}

    def open_queries(self, texts: Sequence[str]):
        import torch

        queries = self.encode_tokens(texts, "query")
        # a zero vector scores 0 with everything: as padding of a query it adds nothing
        width = max(len(vectors) for vectors in queries)
        padded = np.zeros((len(queries), width, queries[0].shape[1]), dtype=np.float32)
        for row, vectors in enumerate(queries):
            padded[row, : len(vectors)] = vectors
        padded = torch.as_tensor(padded).to(device())

        def open_block(block: Block):
            passages = torch.as_tensor(pad(block)).to(device())
            return lambda here: maxsim(padded[here], passages)

        return open_block


def pad(block: Block) -> np.ndarray:
    """Token vectors as float32[passages, longest, d]; padding repeats a passage's first token: the maximum is the same."""
    lengths, tokens = block["lengths"], block["tokens"]
    first = np.cumsum(lengths) - lengths
    at = np.arange(lengths.max())
    return tokens[first[:, None] + np.where(at < lengths[:, None], at, 0)]


def maxsim(queries, passages):
    """MaxSim of all pairs: [n, t, d] and [m, l, d] tensors → [n, m]. Tokens of a query that count nothing are zero.

    >>> import torch
    >>> maxsim(torch.tensor([[[1.0, 0], [0, 1]]]), torch.tensor([[[1.0, 0], [0.6, 0.8]]])).tolist()
    [[1.7999999523162842]]
    """
    import torch

    (n, t, d), (m, width, _) = queries.shape, passages.shape
    scores = torch.empty(n, m, device=queries.device)
    rows, columns = max(1, TILE // 16 // t), max(1, TILE // width)
    for i in range(0, n, rows):
        left = queries[i : i + rows].reshape(-1, d)
        for j in range(0, m, columns):
            right = passages[j : j + columns].reshape(-1, d)
            best = (left @ right.T).view(-1, t, len(right) // width, width).amax(dim=3)
            scores[i : i + rows, j : j + columns] = best.sum(dim=1)
    return scores


def build(recipe: Recipe, seed: int):
    """The untrained `MultiVectorEncoder` of a recipe, on the device: a projection without bias to `dimension`."""
    import torch
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
    from sentence_transformers.sentence_transformer.modules import Normalize

    expansion = {"strategy": "fixed", "length": recipe.query_length} if recipe.query_expansion else None
    lengths = {"query_length": recipe.query_length, "document_length": recipe.passage_length}
    words = transformer(recipe, seed, query_expansion=expansion, **lengths)
    torch.manual_seed(seed)
    shape = {"in_features": words.get_embedding_dimension(), "out_features": recipe.dimension, "bias": False}
    projection = Dense(**shape, activation_function=torch.nn.Identity(), module_input_name="token_embeddings")
    modules = [words, projection, MultiVectorMask(), Normalize(module_input_name="token_embeddings")]
    return MultiVectorEncoder(modules=modules, device=device())


def _represent(out):
    """(vectors [n, tokens, d], mask [n, tokens]) of a model's output."""
    return out["token_embeddings"], out["attention_mask"].bool()


def _pairwise(queries, passages):
    from sentence_transformers.util.similarity import maxsim_pairwise

    return maxsim_pairwise(queries[0], passages[0], a_mask=queries[1], b_mask=passages[1])


def _matrix(queries, passages):
    """MaxSim of all pairs for training: the gradient goes to one best token only, which is faster than spreading it."""
    import torch

    (left, counts), (right, there) = queries, passages
    (n, t, d), (m, width, _) = left.shape, right.shape
    scores = (left.reshape(-1, d) @ right.reshape(-1, d).T).float().view(n, t, m, width)
    best = (scores + torch.where(there, 0.0, -1e4)).max(dim=3).values
    return (best * counts[:, :, None]).sum(dim=1)


def fit(recipe: Recipe, collection, query_ids: Sequence[str], split: str, seed: int, out_dir: Path) -> dict:
    """Train a multi-vector encoder and save it; see `interextra.models.fit`."""
    from sentence_transformers import MultiVectorEncoderTrainer, MultiVectorEncoderTrainingArguments

    from interextra.models.training import EncoderBatches, Setting, encoder_loss, train

    loss = encoder_loss(_represent, _pairwise, _matrix)
    setting = Setting(MultiVectorEncoderTrainer, MultiVectorEncoderTrainingArguments, loss, EncoderBatches)
    return train(setting, build(recipe, seed), recipe, collection, query_ids, split, seed, out_dir)


def load(out_dir: Path, recipe: Recipe) -> ColBERT:
    """The model that `fit` wrote."""
    from sentence_transformers import MultiVectorEncoder

    model, key = reopen(MultiVectorEncoder, out_dir, recipe)
    return ColBERT(model, recipe, key)
