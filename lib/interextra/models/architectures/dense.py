"""Dense bi-encoder: one vector a text, ranked by inner product (sentence-transformers)."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from interextra.models.recipe import Trained
from interextra.models.retriever import Encoder, reopen, transformer, transformers_of
from interextra.models.search.topk import device

LABEL = "DR (base)"
COLOUR = "#0072B2"
ENCODES_QUERIES, INTERACTS = True, False


class Options(Trained):
    scores: ClassVar[tuple[str, ...]] = ("batch", "query", "corpus")

    pooling: Literal["cls", "mean"] = "cls"
    similarity: Literal["dot", "cosine"] = "dot"


class Dense(Encoder):
    """A bi-encoder; wraps a `SentenceTransformer`. A block, of passages or of queries: float32[n,
    d].
    """

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self.encode_block(texts, "query")

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        return self.encode_block(texts)

    def encode_block(self, texts: Sequence[str], task: str = "document") -> np.ndarray:
        return np.ascontiguousarray(self._encode(texts, task), dtype=np.float32)

    def open_queries(self, texts: Sequence[str]) -> Callable:
        return inner_products(self.encode_queries(texts))


def inner_products(queries: np.ndarray) -> Callable:
    """`open_block` of `topk.exact_search` for query vectors float32[n, d]."""
    import torch

    queries = torch.as_tensor(queries).to(device())

    def open_block(block: np.ndarray):
        vectors = torch.as_tensor(block).to(queries.device)
        return lambda here: queries[here] @ vectors.T

    return open_block


def build(recipe: Options, seed: int):
    """The untrained `SentenceTransformer` of a recipe, on the device."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    words = transformer(recipe, seed)
    modules = [words, Pooling(words.get_embedding_dimension(), pooling_mode=recipe.pooling)]
    modules += [Normalize()] if recipe.similarity == "cosine" else []
    model = SentenceTransformer(
        modules=modules, device=device(), similarity_fn_name=recipe.similarity
    )
    return _first_token_only(model, recipe)


def _first_token_only(model, recipe: Options):
    """Let the last layer of a BERT go on with [CLS] alone where nothing else is read: the same
    vectors, faster.
    """
    for words in transformers_of(model):
        if recipe.pooling == "cls" and words.config.model_type in ("bert", "roberta"):
            # a hook, so that a saved model is a plain one of the library
            words.model.base_model.encoder.layer[-1].attention.output.register_forward_pre_hook(
                _cut_to_first
            )
    return model


def _cut_to_first(module, inputs: tuple) -> tuple:
    return tuple(states[:, :1] for states in inputs)


def fit(
    recipe: Options, collection, query_ids, split: str, seed: int, out_dir: Path, **given: Path
) -> dict:
    """With `negatives: own` the encoder of queries alone is trained, and saved beside that of
    passages as it was.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Router

    from interextra.models.training.trainer import INNER_PRODUCT, OwnRanking, SharedNegatives, train

    model = build(recipe, seed)
    loss = SharedNegatives(model, recipe, *INNER_PRODUCT)
    if recipe.negatives == "own":
        routes = Router.for_query_document(
            list(model), list(copy.deepcopy(model).requires_grad_(False))
        )
        both = SentenceTransformer(
            modules=[routes], device=device(), similarity_fn_name=model.similarity_fn_name
        )
        loss = OwnRanking(both, recipe, np.concatenate([*Dense(model, recipe).blocks(collection)]))
    return train(loss, recipe, collection, query_ids, split, seed, out_dir, **given)


def load(out_dir: Path, recipe: Options) -> Dense:
    return Dense(_first_token_only(reopen("SentenceTransformer", out_dir, recipe), recipe), recipe)
