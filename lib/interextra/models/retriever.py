"""What all encoders share: passages and queries are encoded apart from each other, then searched exactly."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from interextra.ground.errors import InputError, offenders
from interextra.models.base import WEIGHTS, Initialisation, file_digest, initialisation, quiet
from interextra.models.recipe import Recipe
from interextra.models.topk import Block, Kept, device, devices, digest, exact_search


class Retriever(ABC):
    """A trained encoder; subclasses say what a block of passages holds and how queries score it.

    `encode_block(texts) -> Block` and `open_queries(texts) -> open_block`, see `topk.exact_search`.
    """

    block_size = 8192  # passages encoded and scored at once
    query_block = 2048

    def __init__(self, model, recipe: Recipe, key: str = ""):
        self.model, self.recipe, self.key, self._pool = model, recipe, key, None

    def search(
        self,
        collection,
        queries: Sequence[str],
        k: int,
        block_size: int | None = None,
        embeddings_dir: str | Path | None = None,
        resume_dir: str | Path | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `interextra.models.topk`.

        Parameters
        ----------
        block_size
            Passages at once: memory only, the result does not depend on it.
        embeddings_dir
            Encoded passages are kept there and used again.
        resume_dir
            The running top k is kept there, so that an interrupted search goes on at the block.
        """
        if not self.key and (embeddings_dir or resume_dir):  # unnamed models would share blocks
            raise InputError("blocks are kept under the name of a saved model; use fit and load_model, or give a key")
        size = block_size or self.block_size
        key = f"{self.key}:{collection.fingerprint}"
        return exact_search(
            collection.passages,
            self.encode_block,
            self.open_queries(queries),
            len(queries),
            k,
            size,
            self.query_block,
            embeddings=Kept(embeddings_dir, f"{key}:{size}"),
            state=Kept(resume_dir, f"{key}:{k}:{digest(queries)}"),
        )

    def query_similarities(self, queries: Sequence[str], others: Sequence[str]) -> Iterator[np.ndarray]:
        """Scores of queries against other queries taken for passages: blocks float32[some queries, n_others]."""
        scores = self.open_queries(queries)(self.encode_query_block(others))
        for start in range(0, len(queries), self.query_block):
            yield np.asarray(scores(slice(start, start + self.query_block)).cpu(), dtype=np.float32)

    @abstractmethod
    def encode_query_block(self, texts: Sequence[str]) -> Block:
        """A block of texts that are encoded as queries."""

    @abstractmethod
    def encode_block(self, texts: Sequence[str]) -> Block:
        """A block of passages."""

    @abstractmethod
    def open_queries(self, texts: Sequence[str]):
        """`open_block` of `topk.exact_search` for these queries."""

    def _encode(self, texts: Sequence[str], task: str, **options):
        """The library's own encode: in this process on one device, with a worker a device on several."""
        if len(devices()) > 1:
            self._pool = self._pool or self.model.start_multi_process_pool(devices())
            options["pool"] = self._pool
        return self.model.encode(list(texts), task=task, batch_size=128, show_progress_bar=False, **options)


def transformer(recipe: Recipe, seed: int, **options):
    """The transformer that a recipe starts from, cut or drawn anew as the recipe says.

    `options` go to sentence-transformers' `Transformer`, e.g. `transformer_task="fill-mask"`.

    Raises
    ------
    InputError
        Weights that are missing, damaged or of another kind of model; texts longer than the model reads.
    """
    import torch
    from safetensors import SafetensorError
    from sentence_transformers.base.modules import Transformer

    quiet()
    torch.manual_seed(seed)
    start = initialisation(recipe.initialisation)
    safe = {"use_safetensors": True, "trust_remote_code": False}
    no_code = {"trust_remote_code": False}
    source = _first_module(start.source)
    try:
        words = Transformer(source, model_kwargs=safe, processor_kwargs=no_code, config_kwargs=no_code, **options)
        _check(words, source)
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError, TypeError, SafetensorError) as error:
        raise InputError(
            f"initialisation {recipe.initialisation!r} cannot be loaded as {recipe.architecture}: "
            f"{_reason(error)} (a model needs config.json, a tokenizer and safetensors weights; "
            "a hub id needs the network)"
        ) from None
    _reshape(words, start, seed)
    limit = getattr(words.config, "max_position_embeddings", None)
    longest = max(recipe.query_length, recipe.passage_length)
    if recipe.architecture == "reranker":
        longest = recipe.query_length + recipe.passage_length
    if limit and longest > limit:
        raise InputError(f"{recipe.initialisation} reads at most {limit} tokens; lower query_length and passage_length")
    return words


def _reason(error: Exception) -> str:
    """One line of what transformers says; two of its messages say nothing to a reader."""
    message = " ".join(str(error).split())[:300]
    if "ignore_mismatched_sizes" in message:
        return "the weights do not have the shapes of config.json"
    return "no encoder in the manner of BERT" if message.startswith("Unrecognized configuration class") else message


def _first_module(source: str) -> str:
    """Where the transformer lies in a folder of sentence-transformers, which older versions put into a subfolder."""
    folder = Path(source)
    if (folder / "config.json").is_file() or not (folder / "modules.json").is_file():
        return source
    try:
        return str(folder / json.loads((folder / "modules.json").read_text(encoding="utf-8"))[0]["path"])
    except (OSError, ValueError, LookupError, TypeError):
        return source


def _check(words, source: str) -> None:
    """ValueError for what loads without complaint and is no encoder all the same."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    config, tokenizer = words.config, words.tokenizer
    if config.is_encoder_decoder or config.model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise ValueError(f"{config.model_type} is no encoder in the manner of BERT")
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # what transformers makes up where files are missing
        raise ValueError("there is no tokenizer, or one without words")
    if len(tokenizer) > config.vocab_size:
        raise ValueError(f"the tokenizer knows {len(tokenizer)} words, the model {config.vocab_size}")
    if (Path(source) / WEIGHTS).is_file():
        absent = _absent(words.model.base_model, Path(source) / WEIGHTS)
        if absent:
            raise ValueError(f"{WEIGHTS} lacks {len(absent)} weights that config.json asks for: {offenders(absent)}")


def _absent(model, path: Path) -> list[str]:
    """Weights of an encoder that the file does not hold; they would be random. The pooler is not used."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        # a model with a head puts a prefix before the names; the oldest checkpoints have TensorFlow's names
        held = [name.replace(".gamma", ".weight").replace(".beta", ".bias") for name in file.keys()]  # noqa: SIM118
    held = {name[at:] for name in held for at in (0, name.find(".") + 1)}
    return [name for name, _ in model.named_parameters() if name not in held and not name.startswith("pooler.")]


def _reshape(words, start: Initialisation, seed: int) -> None:
    import torch

    if start.random:
        torch.manual_seed(seed)
        words.model = type(words.model)(words.config)
    if start.layers is not None:
        stack = words.model.base_model.encoder
        stack.layer = stack.layer[: start.layers]
        words.model.config.num_hidden_layers = start.layers


def reopen(kind: type, out_dir: Path, recipe: Recipe):
    """The sentence-transformers model of class `kind` that `fit` saved to `out_dir`, and a key of what it computes.

    Encoding runs in the recipe's `encode_precision`.
    """
    import torch
    from safetensors import SafetensorError

    quiet()
    try:
        model = kind(str(out_dir), device=device(), trust_remote_code=False)
        weights = [file_digest(path) for path in sorted(out_dir.rglob("*.safetensors"))]
        key = digest([*weights, recipe.model_dump_json()])  # lengths and precision change vectors, too
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError, SafetensorError) as error:
        raise InputError(
            f"{out_dir} holds no readable {recipe.architecture} model: {' '.join(str(error).split())[:300]}"
        ) from None
    if recipe.encode_precision == "bf16":
        model = model.to(torch.bfloat16)
    return model, key
