"""What trained models share: search; and how a recipe's weights are opened."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from interextra.data.collection import Collection
from interextra.models.base import WEIGHTS, initialisation, quiet
from interextra.models.recipe import Trained
from interextra.models.search.topk import device, exact_search
from interextra.store.errors import InputError, offenders


class Neural:
    """A trained model of sentence-transformers, on the device of this process."""

    def __init__(self, model: Any, recipe: Trained) -> None:
        self.model = model
        self.recipe = recipe


class Encoder(Neural, ABC):
    """Encodes passages and queries apart from each other.

    A subclass says what a block holds and how it is scored.
    """

    block_size = 8192  # passages encoded and scored at once
    query_block = 2048

    @abstractmethod
    def encode_block(self, texts: Sequence[str], task: str = "document") -> Any:
        """Encode texts as a block of passages, or with the task `query` as one of queries."""

    @abstractmethod
    def open_queries(self, texts: Sequence[str]) -> Callable:
        """Encode queries, and return the `open_block` of `topk.exact_search`."""

    def search(
        self, collection: Collection, texts: Sequence[str], k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best passages for each query text, see `topk.exact_search`."""
        blocks = self.blocks(collection)
        open_block = self.open_queries(texts)
        n_queries = len(texts)
        return exact_search(collection.passages, blocks, open_block, n_queries, k, self.query_block)

    def blocks(self, collection: Collection) -> Iterator[Any]:
        """Yield the encoded passages of a collection, a block after the other."""
        for _, texts in collection.passages.batches(self.block_size):
            yield self.encode_block(texts)

    def query_similarities(
        self, queries: Sequence[str], others: Sequence[str]
    ) -> Iterator[np.ndarray]:
        """Yield scores of queries against other queries taken for passages.

        They come in blocks float32[some queries, n_others].
        """
        score = self.open_queries(queries)(self.encode_block(others, "query"))
        for start in range(0, len(queries), self.query_block):
            scores = score(slice(start, start + self.query_block))
            yield np.asarray(scores.cpu(), dtype=np.float32)

    def _encode(self, texts: Sequence[str], task: str, **options: Any) -> Any:
        return self.model.encode(
            list(texts),
            task=task,
            batch_size=128,
            show_progress_bar=False,
            **options,
        )


def transformer(recipe: Trained, seed: int, **options: Any) -> Any:
    """Return the `Transformer` that a recipe starts from, cut or drawn anew as it says.

    `options` are those of the library's class. Without a `max_seq_length` of both together,
    queries and passages have the lengths of the recipe.

    Raises
    ------
    InputError
        Weights that are missing, damaged or of another kind of model, or texts longer than the
        model reads.
    """
    import torch

    quiet()
    torch.manual_seed(seed)
    start = initialisation(recipe.initialisation)
    if "max_seq_length" not in options:
        options["query_length"] = recipe.query_length
        options["document_length"] = recipe.passage_length
    module = _load_transformer(recipe, start.source, options)
    if start.random:
        torch.manual_seed(seed)
        module.model = type(module.model)(module.config)
    cut_layers(module.model, start.layers)
    refuse_longer(recipe, getattr(module.config, "max_position_embeddings", None))
    return module


def cut_layers(model: Any, n_layers: int | None) -> None:
    """Keep the first layers of an encoder of transformers; None: all of them."""
    if n_layers is not None:
        del model.base_model.encoder.layer[n_layers:]
        model.config.num_hidden_layers = n_layers


def _load_transformer(recipe: Trained, source: str, options: dict[str, Any]) -> Any:
    """Load a `Transformer` without code of others and without pickles, and check it."""
    from sentence_transformers.base.modules import Transformer

    try:
        module = Transformer(
            source,
            model_kwargs={"use_safetensors": True, "trust_remote_code": False},
            processor_kwargs={"trust_remote_code": False},
            config_kwargs={"trust_remote_code": False},
            **options,
        )
        _check_encoder(module)
        weights = Path(source) / WEIGHTS
        if weights.is_file():  # else it is a hub id
            _check_weights(module, weights)
    except Exception as error:  # the libraries meet a stranger's files: each raises what it likes
        raise InputError(
            f"initialisation {recipe.initialisation!r} cannot be loaded as {recipe.architecture}: "
            f"{_reason(error)} (a model needs config.json, a tokenizer and safetensors weights; "
            "a hub id needs the network)"
        ) from error
    return module


def refuse_longer(recipe: Trained, limit: int | None) -> None:
    """Refuse texts of a recipe that are longer than its encoder reads.

    `limit`: in tokens; None: not known.
    """
    if limit and recipe.longest > limit:
        raise InputError(
            f"{recipe.initialisation} reads at most {limit} tokens; "
            "lower query_length and passage_length"
        )


def _reason(error: Exception) -> str:
    """Return one line of what transformers says; two of its messages say nothing to a reader."""
    message = " ".join(str(error).split())[:300]
    if not message:
        return type(error).__name__
    if "ignore_mismatched_sizes" in message:
        return "the weights do not have the shapes of config.json"
    if message.startswith("Unrecognized configuration class"):
        return "no encoder in the manner of BERT"
    return message


def _check_encoder(module: Any) -> None:
    """Raise ValueError for what loads without complaint and is no encoder all the same."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    config = module.config
    tokenizer = module.tokenizer
    if config.is_encoder_decoder or config.model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise ValueError(f"{config.model_type} is no encoder in the manner of BERT")
    # special tokens alone: what transformers makes up where files are missing
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise ValueError("there is no tokenizer, or one without words")
    if len(tokenizer) > config.vocab_size:
        raise ValueError(
            f"the tokenizer knows {len(tokenizer)} words, the model {config.vocab_size}"
        )


def _check_weights(module: Any, path: Path) -> None:
    """Raise ValueError where a file lacks weights of an encoder: they would be random."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        names = file.keys()
    present = set()
    for name in names:
        # the oldest checkpoints have TensorFlow's names
        known = name.replace(".gamma", ".weight").replace(".beta", ".bias")
        # a model with a head puts a prefix before the names
        present |= {known, known.partition(".")[2]}
    missing = [
        name
        for name, _ in module.model.base_model.named_parameters()
        if name not in present and not name.startswith("pooler.")  # no pooler is used
    ]
    if missing:
        raise ValueError(
            f"{WEIGHTS} lacks {len(missing)} weights that config.json asks for: "
            f"{offenders(missing)}"
        )


def transformers_of(model: Any) -> list:
    """Return the `Transformer` of a model of sentence-transformers.

    They are two where a model has an encoder for queries alone.
    """
    routes = getattr(model[0], "sub_modules", None)
    if not routes:
        return [model[0]]
    return [route[0] for route in routes.values()]


def reopen(kind: str, out_dir: Path, recipe: Trained) -> Any:
    """Open the model that `fit` saved to `out_dir`, in the recipe's `encode_precision`.

    `kind`: the name of its class in sentence-transformers.
    """
    import sentence_transformers
    import torch

    quiet()
    try:
        model_class = getattr(sentence_transformers, kind)
        model = model_class(str(out_dir), device=device(), trust_remote_code=False)
    except Exception as error:  # as in `_load_transformer`
        raise InputError(
            f"{out_dir} holds no readable {recipe.architecture} model: {_reason(error)}"
        ) from error
    return model.to(torch.bfloat16) if recipe.encode_precision == "bf16" else model
