"""What trained models share: search, several devices; and how the weights of a recipe are
opened.
"""

import weakref
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from interextra.models.base import WEIGHTS, initialisation, quiet
from interextra.models.recipe import Trained
from interextra.models.search.topk import device, devices, exact_search
from interextra.store.errors import InputError, offenders


class Neural:
    """A trained model of sentence-transformers, on one device or several (see `topk.devices`)."""

    def __init__(self, model, recipe: Trained):
        self.model, self.recipe = model, recipe

    @cached_property
    def pool(self) -> dict | None:
        """A worker a device where there are several, until this object is gone; else None."""
        if len(devices()) == 1:
            return None
        pool = self.model.start_multi_process_pool(devices())
        weakref.finalize(self, self.model.stop_multi_process_pool, pool)
        return pool


class Encoder(Neural):
    """Encodes passages and queries apart from each other; a subclass says what a block holds and
    how it is scored.

    It has encode_block(texts, task) → a block of passages, with the task `query` of queries, and
    open_queries(texts) → the `open_block` of `topk.exact_search`.
    """

    block_size = 8192  # passages encoded and scored at once
    query_block = 2048

    def search(self, collection, texts: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best passages for each query text, see `topk.exact_search`."""
        blocks, scores = self.blocks(collection), self.open_queries(texts)
        return exact_search(collection.passages, blocks, scores, len(texts), k, self.query_block)

    def blocks(self, collection) -> Iterator:
        return (
            self.encode_block(texts) for _, texts in collection.passages.batches(self.block_size)
        )

    def query_similarities(
        self, queries: Sequence[str], others: Sequence[str]
    ) -> Iterator[np.ndarray]:
        """Scores of queries against other queries taken for passages: blocks float32[some queries,
        n_others].
        """
        scores = self.open_queries(queries)(self.encode_block(others, "query"))
        for start in range(0, len(queries), self.query_block):
            yield np.asarray(scores(slice(start, start + self.query_block)).cpu(), dtype=np.float32)

    def _encode(self, texts: Sequence[str], task: str, **options):
        options |= {"batch_size": 128, "show_progress_bar": False, "pool": self.pool}
        return self.model.encode(list(texts), task=task, **options)


def transformer(recipe: Trained, seed: int, **options):
    """The transformer that a recipe starts from, cut or drawn anew as it says; `options` are the
    library's.

    Without a `max_seq_length` of both together, queries and passages have the lengths of the
    recipe. InputError for weights that are missing, damaged or of another kind of model, and for
    texts longer than the model reads.
    """
    import torch
    from sentence_transformers.base.modules import Transformer

    quiet()
    torch.manual_seed(seed)
    start = initialisation(recipe.initialisation)
    options |= {
        "processor_kwargs": {"trust_remote_code": False},
        "config_kwargs": {"trust_remote_code": False},
    }
    if "max_seq_length" not in options:
        options |= {"query_length": recipe.query_length, "document_length": recipe.passage_length}
    try:
        words = Transformer(
            start.source,
            model_kwargs={"use_safetensors": True, "trust_remote_code": False},
            **options,
        )
        _check(words, start.source)
    except Exception as error:  # the libraries meet a stranger's files: each raises what it likes
        raise InputError(
            f"initialisation {recipe.initialisation!r} cannot be loaded as {recipe.architecture}: {_reason(error)} "
            "(a model needs config.json, a tokenizer and safetensors weights; a hub id needs the network)"
        ) from error
    if start.random:
        torch.manual_seed(seed)
        words.model = type(words.model)(words.config)
    if start.layers is not None:
        del words.model.base_model.encoder.layer[start.layers :]
        words.model.config.num_hidden_layers = start.layers
    refuse_longer(recipe, getattr(words.config, "max_position_embeddings", None))
    return words


def refuse_longer(recipe: Trained, limit: int | None) -> None:
    """InputError where texts of a recipe are longer than its encoder reads, `limit` tokens (None:
    not known).
    """
    if limit and recipe.longest > limit:
        raise InputError(
            f"{recipe.initialisation} reads at most {limit} tokens; lower query_length and passage_length"
        )


def _reason(error: Exception) -> str:
    """One line of what transformers says; two of its messages say nothing to a reader."""
    message = " ".join(str(error).split())[:300] or type(error).__name__
    if "ignore_mismatched_sizes" in message:
        return "the weights do not have the shapes of config.json"
    return (
        "no encoder in the manner of BERT"
        if message.startswith("Unrecognized configuration class")
        else message
    )


def _check(words, source: str) -> None:
    """ValueError for what loads without complaint and is no encoder all the same."""
    from safetensors import safe_open
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    config, tokenizer = words.config, words.tokenizer
    if config.is_encoder_decoder or config.model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise ValueError(f"{config.model_type} is no encoder in the manner of BERT")
    if len(tokenizer) <= len(
        tokenizer.all_special_tokens
    ):  # what transformers makes up where files are missing
        raise ValueError("there is no tokenizer, or one without words")
    if len(tokenizer) > config.vocab_size:
        raise ValueError(
            f"the tokenizer knows {len(tokenizer)} words, the model {config.vocab_size}"
        )
    weights = Path(source) / WEIGHTS
    if not weights.is_file():  # a hub id
        return
    with safe_open(weights, "pt") as file:
        names = file.keys()
    # a model with a head puts a prefix before the names; the oldest checkpoints have TensorFlow's;
    # no pooler is used
    held = {name[at:] for name in names for at in (0, name.find(".") + 1)}
    held = {name.replace(".gamma", ".weight").replace(".beta", ".bias") for name in held}
    asked = [
        name
        for name, _ in words.model.base_model.named_parameters()
        if not name.startswith("pooler.")
    ]
    if absent := [name for name in asked if name not in held]:  # they would be random
        raise ValueError(
            f"{WEIGHTS} lacks {len(absent)} weights that config.json asks for: {offenders(absent)}"
        )


def words_of(model) -> list:
    """The `Transformer` of a model of sentence-transformers, or the two of one with an encoder for
    queries alone.
    """
    routes = getattr(model[0], "sub_modules", None)
    return [route[0] for route in routes.values()] if routes else [model[0]]


def reopen(kind: str, out_dir: Path, recipe: Trained):
    """The sentence-transformers model of class `kind` that `fit` saved to `out_dir`, in the
    `encode_precision`.
    """
    import sentence_transformers
    import torch

    quiet()
    try:
        model = getattr(sentence_transformers, kind)(
            str(out_dir), device=device(), trust_remote_code=False
        )
    except Exception as error:  # as in `transformer`
        raise InputError(
            f"{out_dir} holds no readable {recipe.architecture} model: {_reason(error)}"
        ) from error
    return model.to(torch.bfloat16) if recipe.encode_precision == "bf16" else model
