"""Dense bi-encoder: one vector a text, ranked by inner product (sentence-transformers)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from interextra.models.recipe import Trained
from interextra.models.retriever import Encoder, reopen, transformer
from interextra.models.topk import Block, device

LABEL = "DR (base)"
COLOUR = "#0072B2"


class Options(Trained):
    """The recipe of a dense retriever."""

    pooling: Literal["cls", "mean"] = "cls"
    similarity: Literal["dot", "cosine"] = "dot"


class Dense(Encoder):
    """A bi-encoder; wraps a `SentenceTransformer`.

    `encode_queries(texts)` and `encode_passages(texts)` give float32[n, d].
    """

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self._vectors(texts, "query")

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        return self._vectors(texts, "document")

    def _vectors(self, texts: Sequence[str], task: str) -> np.ndarray:
        if not len(texts):
            return np.zeros((0, self.model.get_embedding_dimension()), dtype=np.float32)
        return np.ascontiguousarray(self._encode(texts, task), dtype=np.float32)

    def encode_block(self, texts: Sequence[str]) -> Block:
        return {"vectors": self.encode_passages(texts)}

    def encode_query_block(self, texts: Sequence[str]) -> Block:
        return {"vectors": self.encode_queries(texts)}

    def open_queries(self, texts: Sequence[str]):
        return inner_products(self.encode_queries(texts))


def inner_products(queries: np.ndarray):
    """`open_block` of `topk.exact_search` for query vectors float32[n, d]."""
    import torch

    queries = torch.as_tensor(np.ascontiguousarray(queries, dtype=np.float32)).to(device())

    def open_block(block: Block):
        vectors = torch.as_tensor(block["vectors"], dtype=torch.float32).to(queries.device)
        return lambda here: queries[here] @ vectors.T

    return open_block


def build(recipe: Options, seed: int):
    """The untrained `SentenceTransformer` of a recipe, on the device."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    words = transformer(recipe, seed, query_length=recipe.query_length, document_length=recipe.passage_length)
    modules = [words, Pooling(words.get_embedding_dimension(), pooling_mode=recipe.pooling)]
    if recipe.similarity == "cosine":
        modules.append(Normalize())
    model = SentenceTransformer(modules=modules, device=device(), similarity_fn_name=recipe.similarity)
    return _first_token_only(model, recipe)


def _first_token_only(model, recipe: Options):
    """Let the last layer of a BERT go on with [CLS] alone where nothing else is read: the same vectors, faster.

    A hook, so that a saved model is a plain one of the library.
    """
    if recipe.pooling == "cls" and model[0].config.model_type in ("bert", "roberta"):
        model[0].model.base_model.encoder.layer[-1].attention.output.register_forward_pre_hook(_cut_to_first)
    return model


def _cut_to_first(module, inputs: tuple) -> tuple:
    return tuple(states[:, :1] for states in inputs)


def fit(recipe: Options, collection, query_ids: Sequence[str], split: str, seed: int, out_dir: Path) -> dict:
    """Train a bi-encoder and save it; see `interextra.models.model.fit`."""
    from interextra.models.training import EncoderBatches, inner_product_loss, train

    model = build(recipe, seed)
    loss = inner_product_loss(model, recipe)
    return train(model, loss, EncoderBatches, recipe, collection, query_ids, split, seed, out_dir)


def load(out_dir: Path, recipe: Options) -> Dense:
    """The model that `fit` wrote."""
    return Dense(_first_token_only(reopen("SentenceTransformer", out_dir, recipe), recipe), recipe)
