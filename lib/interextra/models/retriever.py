"""What all retrievers share: one signature of search, several devices; and how the weights of a recipe are opened."""

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np

from interextra.ground.errors import InputError, offenders
from interextra.models.base import WEIGHTS, initialisation, quiet
from interextra.models.recipe import Trained
from interextra.models.topk import Block, device, devices, exact_search

LIMIT = 100_000  # texts whose tokens are kept, some 150 MB; beyond it texts are tokenized each time
_KEPT: dict = defaultdict(dict)  # (tokenizer, lengths, task) → text → its tensors without padding


class Retriever(ABC):
    """A model that searches."""

    _workers = nullcontext  # what runs while a search does

    @abstractmethod
    def exact(self, collection, texts: list[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """`search` for one text or more."""

    def search(self, collection, texts: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best passages for each query text: (rows int32[n, k], scores float32[n, k]).

        Rows of `collection.passages` by score descending, ties by doc_id descending as trec_eval; padding is row -1
        with score -inf.
        """
        if not len(texts):
            return np.zeros((0, k), dtype=np.int32), np.zeros((0, k), dtype=np.float32)
        with self._workers():
            return self.exact(collection, list(texts), k)


class Neural(Retriever):
    """A trained model of sentence-transformers, on one device or several (see `topk.devices`)."""

    def __init__(self, model, recipe: Trained):
        self.model, self.recipe, self._pool = model, recipe, None

    @contextmanager
    def _workers(self) -> Iterator[None]:
        """A worker a device while the block runs, where there are several devices and no workers yet."""
        if self._pool is not None or len(devices()) == 1:
            yield
            return
        self._pool = self.model.start_multi_process_pool(devices())
        try:
            yield
        finally:
            self.model.stop_multi_process_pool(self._pool)
            self._pool = None


class Encoder(Neural):
    """Encodes passages and queries apart from each other; a subclass says what a block holds and how it is scored."""

    block_size = 8192  # passages encoded and scored at once
    query_block = 2048

    def exact(self, collection, texts: list[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        blocks, scores = self.blocks(collection), self.open_queries(texts)
        return exact_search(collection.passages, blocks, scores, len(texts), k, self.query_block)

    def blocks(self, collection) -> Iterator[Block]:
        """Those of all passages, `block_size` at once."""
        with self._workers():
            for _, texts in collection.passages.batches(self.block_size):
                yield self.encode_block(texts)

    def query_similarities(self, queries: Sequence[str], others: Sequence[str]) -> Iterator[np.ndarray]:
        """Scores of queries against other queries taken for passages: blocks float32[some queries, n_others]."""
        with self._workers():
            scores = self.open_queries(queries)(self.encode_block(others, "query"))
        for start in range(0, len(queries), self.query_block):
            yield np.asarray(scores(slice(start, start + self.query_block)).cpu(), dtype=np.float32)

    @abstractmethod
    def encode_block(self, texts: Sequence[str], task: str = "document") -> Block:
        """A block of passages, or with the task `query` of queries."""

    @abstractmethod
    def open_queries(self, texts: Sequence[str]):
        """`open_block` of `topk.exact_search` for these queries."""

    def _encode(self, texts: Sequence[str], task: str, **options):
        with self._workers():
            options |= {"batch_size": 128, "show_progress_bar": False, "pool": self._pool}
            return self.model.encode(list(texts), task=task, **options)


def transformer(recipe: Trained, seed: int, **options):
    """The transformer that a recipe starts from, cut or drawn anew as it says; `options` are the library's.

    Without a `max_seq_length` of both together, queries and passages have the lengths of the recipe. InputError for
    weights that are missing, damaged or of another kind of model, and for texts longer than the model reads.
    """
    import torch
    from safetensors import SafetensorError
    from sentence_transformers.base.modules import Transformer

    quiet()
    torch.manual_seed(seed)
    start = initialisation(recipe.initialisation)
    options |= {"processor_kwargs": {"trust_remote_code": False}, "config_kwargs": {"trust_remote_code": False}}
    if "max_seq_length" not in options:
        options |= {"query_length": recipe.query_length, "document_length": recipe.passage_length}
    source = _first_module(start.source)
    try:
        words = Transformer(source, model_kwargs={"use_safetensors": True, "trust_remote_code": False}, **options)
        _check(words, source)
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError, TypeError, SafetensorError) as error:
        raise InputError(
            f"initialisation {recipe.initialisation!r} cannot be loaded as {recipe.architecture}: {_reason(error)} "
            "(a model needs config.json, a tokenizer and safetensors weights; a hub id needs the network)"
        ) from None
    if start.random:
        torch.manual_seed(seed)
        words.model = type(words.model)(words.config)
    if start.layers is not None:
        stack = words.model.base_model.encoder
        stack.layer = stack.layer[: start.layers]
        words.model.config.num_hidden_layers = start.layers
    words.preprocess = Remembered(words)
    limit = getattr(words.config, "max_position_embeddings", None)
    longest = max(value for name, value in options.items() if name.endswith("_length"))
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
    weights = Path(source) / WEIGHTS
    if weights.is_file() and (absent := _absent(words.model.base_model, weights)):
        raise ValueError(f"{WEIGHTS} lacks {len(absent)} weights that config.json asks for: {offenders(absent)}")


def _absent(model, path: Path) -> list[str]:
    """Weights of an encoder that the file does not hold; they would be random. The pooler is not used."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        names = file.keys()
    # a model with a head puts a prefix before the names; the oldest checkpoints have TensorFlow's names
    held = {name[at:] for name in names for at in (0, name.find(".") + 1)}
    held = {name.replace(".gamma", ".weight").replace(".beta", ".bias") for name in held}
    return [name for name, _ in model.named_parameters() if name not in held and not name.startswith("pooler.")]


class Remembered:
    """`preprocess` of a `Transformer` of sentence-transformers, once a text: training draws the same passages often."""

    def __init__(self, words):
        self.words = words
        lengths = words.query_length, words.document_length, str(words.query_expansion), words.max_seq_length
        self.key = hash(words.tokenizer.backend_tokenizer.to_str()), *lengths

    def __call__(self, inputs: Sequence, prompt=None, task=None, **options) -> dict:
        from torch.nn.utils.rnn import pad_sequence

        plain = type(self.words).preprocess
        kept = _KEPT[*self.key, task]
        new = [text for text in dict.fromkeys(inputs) if text not in kept] if isinstance(inputs[0], str) else inputs
        if prompt or options or not isinstance(inputs[0], str) or len(kept) + len(new) > LIMIT:
            return plain(self.words, inputs, prompt=prompt, task=task, **options)
        padding = self.words.tokenizer.pad_token_id
        if new:
            coded = plain(self.words, new, task=task)
            ends = (coded["input_ids"] != padding).sum(dim=1).tolist()
            columns = {name: column for name, column in coded.items() if name != "modality"}
            for row, (text, end) in enumerate(zip(new, ends, strict=True)):
                kept[text] = {name: column[row, :end].clone() for name, column in columns.items()}
        found = [kept[text] for text in inputs]
        batch = {}
        for name in found[0]:
            value = padding if name == "input_ids" else 0
            batch[name] = pad_sequence([text[name] for text in found], batch_first=True, padding_value=value)
        return batch | {"modality": "text"}


def words_of(model) -> list:
    """The `Transformer` of a model of sentence-transformers, or the two of one with an encoder for queries alone."""
    routes = getattr(model[0], "sub_modules", None)
    return [route[0] for route in routes.values()] if routes else [model[0]]


def reopen(kind: str, out_dir: Path, recipe: Trained):
    """The sentence-transformers model of class `kind` that `fit` saved to `out_dir`, in the `encode_precision`."""
    import sentence_transformers
    import torch
    from safetensors import SafetensorError

    quiet()
    try:
        model = getattr(sentence_transformers, kind)(str(out_dir), device=device(), trust_remote_code=False)
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError, SafetensorError) as error:
        raise InputError(f"{out_dir} holds no readable {recipe.architecture} model: {_reason(error)}") from None
    for words in words_of(model):
        words.preprocess = Remembered(words)
    return model.to(torch.bfloat16) if recipe.encode_precision == "bf16" else model
