"""Dense bi-encoder: one vector for each text, ranked by inner product (sentence-transformers)."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from interextra.data.collection import Collection
from interextra.models.recipe import Trained
from interextra.models.retriever import Encoder, reopen, transformer, transformers_of
from interextra.models.search.indexes import on_disk
from interextra.models.search.topk import device

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

    from interextra.models.training.trainer import DynamicHardNegatives

LABEL = "DR (base)"
COLOUR = "#0072B2"
ENCODES_QUERIES = True


class Options(Trained):
    """The recipe of a dense retriever."""

    scores: ClassVar[tuple[str, ...]] = ("batch", "query", "corpus")

    pooling: Literal["cls", "mean"] = "cls"
    similarity: Literal["dot", "cosine"] = "dot"


class Dense(Encoder):
    """A bi-encoder; wraps a `SentenceTransformer`.

    A block, of passages or of queries, is float32[n, d].
    """

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors of queries, float32[n, d]."""
        return self.encode_block(texts, "query")

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors of passages, float32[n, d]."""
        return self.encode_block(texts)

    def encode_block(self, texts: Sequence[str], task: str = "document") -> np.ndarray:
        """Encode passages, or with the task `query` queries."""
        return np.ascontiguousarray(self._encode(texts, task), dtype=np.float32)

    def open_queries(self, texts: Sequence[str]) -> Callable:
        """Return the `open_block` of `topk.exact_search` for query texts."""
        return inner_products(self.encode_queries(texts))


def inner_products(queries: np.ndarray) -> Callable:
    """Return the `open_block` of `topk.exact_search` for query vectors float32[n, d]."""
    import torch

    query_vectors = torch.as_tensor(queries).to(device())

    def open_block(block: np.ndarray) -> Callable:
        """Return the scores of some queries with a block of passages."""
        passage_vectors = torch.as_tensor(block).to(query_vectors.device)
        return lambda some_queries: query_vectors[some_queries] @ passage_vectors.T

    return open_block


def build(recipe: Options, seed: int) -> "SentenceTransformer":
    """Return the untrained model of a recipe, on the device."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    words = transformer(recipe, seed)
    modules = [words, Pooling(words.get_embedding_dimension(), pooling_mode=recipe.pooling)]
    if recipe.similarity == "cosine":
        modules.append(Normalize())
    model = SentenceTransformer(
        modules=modules, device=device(), similarity_fn_name=recipe.similarity
    )
    return _first_token_only(model, recipe)


def _first_token_only(model: "SentenceTransformer", recipe: Options) -> "SentenceTransformer":
    """Let the last layer of a BERT go on with [CLS] alone where nothing else is read.

    The vectors are the same, and come faster.
    """
    if recipe.pooling != "cls":
        return model
    for words in transformers_of(model):
        if words.config.model_type in ("bert", "roberta"):
            last_layer = words.model.base_model.encoder.layer[-1]
            # a hook, so that a saved model is a plain one of the library
            last_layer.attention.output.register_forward_pre_hook(_cut_to_first)
    return model


def _cut_to_first(module: "torch.nn.Module", inputs: tuple) -> tuple:
    """Cut hidden states [n, tokens, d] to the first token."""
    return tuple(states[:, :1] for states in inputs)


def fit(
    recipe: Options,
    collection: Collection,
    query_ids: Sequence[str],
    split: str,
    seed: int,
    out_dir: Path,
    **inputs: Path,
) -> dict:
    """Train a bi-encoder and save it to `out_dir`, see `interextra.models.model.fit`.

    With `negatives: own` the negatives are dynamic: what the encoder of queries itself ranks first
    at each step. It alone is trained, and saved beside that of passages as it was.
    """
    from interextra.models.training.trainer import (
        INNER_PRODUCT,
        EncoderBatches,
        QueryBatches,
        SharedNegatives,
        train,
    )

    model = build(recipe, seed)
    if recipe.negatives == "own":
        loss = _dynamic_hard_negatives(model, recipe, collection, out_dir)
        batches = QueryBatches
    else:
        loss = SharedNegatives(model, recipe, INNER_PRODUCT)
        batches = EncoderBatches
    return train(
        loss, recipe, collection, query_ids, split, seed, out_dir, batches=batches, **inputs
    )


def _dynamic_hard_negatives(
    model: "SentenceTransformer", recipe: Options, collection: Collection, out_dir: Path
) -> "DynamicHardNegatives":
    """Return the loss of the encoder of queries against passages that keep their vectors.

    These are mapped from a file in `out_dir` that has no name and is gone when they are.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Router

    from interextra.models.training.trainer import DynamicHardNegatives

    of_passages = copy.deepcopy(model).requires_grad_(False)
    router = Router.for_query_document(list(model), list(of_passages))
    both = SentenceTransformer(
        modules=[router], device=device(), similarity_fn_name=model.similarity_fn_name
    )
    blocks = Dense(model, recipe).blocks(collection)
    shape = (len(collection.passages), model.get_embedding_dimension())
    vectors = on_disk(blocks, shape, out_dir)
    return DynamicHardNegatives(both, recipe, vectors)


def load(out_dir: Path, recipe: Options) -> Dense:
    """Open the model that `fit` saved to `out_dir`."""
    model = reopen("SentenceTransformer", out_dir, recipe)
    return Dense(_first_token_only(model, recipe), recipe)
