"""Dense bi-encoder: one vector a text, ranked by inner product (sentence-transformers)."""

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from interextra.errors import InputError
from interextra.models.base import WEIGHTS, Initialisation, file_digest, initialisation, quiet
from interextra.models.pairs import Pairs, training_pairs
from interextra.models.recipe import Recipe, training_steps
from interextra.models.topk import device, embedding_blocks, search_embeddings, tie_order

BLOCK = 8192  # passages encoded and scored at once


class Dense:
    """A bi-encoder; wraps a `SentenceTransformer`.

    `encode_queries(texts)` and `encode_passages(texts)` give float32[n, d].
    """

    def __init__(self, model, recipe: Recipe, key: str = ""):
        self.model, self.recipe, self.key = model, recipe, key

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts, "query")

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts, "document")

    def _encode(self, texts: Sequence[str], task: str) -> np.ndarray:
        if not len(texts):
            return np.zeros((0, self.model.get_embedding_dimension()), dtype=np.float32)
        vectors = self.model.encode(list(texts), task=task, batch_size=128, show_progress_bar=False)
        return np.ascontiguousarray(vectors, dtype=np.float32)

    def search(
        self, collection, queries: Sequence[str], k: int, block_size: int = BLOCK, embeddings_dir: Path | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `interextra.models.search`; with `embeddings_dir` the passage vectors are kept there and reused."""
        key = f"{self.key}:{collection.fingerprint}"
        blocks = embedding_blocks(self.encode_passages, collection.passages, block_size, embeddings_dir, key)
        _, place = tie_order(collection.passages)
        return search_embeddings(self.encode_queries(queries), blocks, place, k)


def build(recipe: Recipe, seed: int):
    """The untrained `SentenceTransformer` of a recipe, on the device."""
    import torch
    from safetensors import SafetensorError
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    quiet()
    torch.manual_seed(seed)
    start = initialisation(recipe.initialisation)
    lengths = {"query_length": recipe.query_length, "document_length": recipe.passage_length}
    safe = {"use_safetensors": True, "trust_remote_code": False}
    no_code = {"trust_remote_code": False}
    try:
        words = Transformer(start.source, model_kwargs=safe, processor_kwargs=no_code, config_kwargs=no_code, **lengths)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise InputError(
            f"initialisation {recipe.initialisation!r} cannot be loaded: {' '.join(str(error).split())[:300]} "
            "(a model needs config.json, a tokenizer and safetensors weights; a hub id needs the network)"
        ) from None
    _reshape(words, start, seed)
    limit = getattr(words.config, "max_position_embeddings", None)
    if limit and max(recipe.query_length, recipe.passage_length) > limit:
        raise InputError(f"{recipe.initialisation} reads at most {limit} tokens; lower query_length and passage_length")
    modules = [words, Pooling(words.get_embedding_dimension(), pooling_mode=recipe.pooling)]
    if recipe.similarity == "cosine":
        modules.append(Normalize())
    return SentenceTransformer(modules=modules, device=device(), similarity_fn_name=recipe.similarity)


def _reshape(words, start: Initialisation, seed: int) -> None:
    import torch
    from transformers import AutoModel

    if start.random:
        torch.manual_seed(seed)
        words.model = AutoModel.from_config(words.config)
    if start.layers is not None:
        stack = words.model.encoder
        stack.layer = stack.layer[: start.layers]
        words.model.config.num_hidden_layers = start.layers


def ranking_loss(queries, positives, negatives, kind: str, temperature: float, barred=None):
    """Cross entropy of the positive passage against negatives; mean over the batch.

    Parameters
    ----------
    queries, positives
        [batch, d]
    negatives
        [m, d], shared by all queries
    kind
        listwise: one softmax over the positive and all negatives;
        pairwise: mean over the (positive, negative) pairs of a softmax over two logits.
    barred
        bool[batch, m]: negatives that are relevant to the query, left out.
    """
    import torch
    from torch.nn.functional import softplus

    good = (queries * positives).sum(dim=1, keepdim=True) / temperature
    bad = queries @ negatives.T / temperature
    if barred is not None:
        bad = bad.masked_fill(barred, float("-inf"))
    if kind == "listwise":
        return (torch.cat([good, bad], dim=1).logsumexp(dim=1) - good.squeeze(1)).mean()
    allowed = torch.isfinite(bad)
    return softplus(bad - good)[allowed].sum() / allowed.sum().clamp(min=1)


class _Batches:
    """Collator: draws the shared negatives of a batch and tokenizes everything to the lengths of the recipe."""

    valid_label_columns = ("barred",)

    def __init__(self, model, pairs: Pairs, passages, recipe: Recipe, seed: int):
        self.model, self.pairs, self.passages, self.recipe, self.seed = model, pairs, passages, recipe, seed
        self.relevant = np.sort(pairs.query * len(passages) + pairs.rows)  # sorted codes of all relevant pairs

    def __call__(self, examples: list[dict]) -> dict:
        import torch

        at = np.array([example["pair"] for example in examples])
        query, positive = self.pairs.query[at], self.pairs.rows[at]
        columns = {"query": query, "positive": positive}
        negative = positive if self.recipe.negatives != "random" else positive[:0]
        if self.recipe.negatives != "in-batch":
            # seeded by the batch itself: the same draw whatever process or worker makes it
            draw = np.random.default_rng([self.seed, *at.tolist()])
            columns["negative"] = draw.integers(len(self.passages), size=self.recipe.n_negatives)
            negative = np.concatenate([columns["negative"], negative])
        batch = {}
        for name, rows in columns.items():
            if name == "query":
                coded = self.model.preprocess([self.pairs.texts[row] for row in rows], task="query")
            else:
                coded = self.model.preprocess(self.passages.texts(rows), task="document")
            batch.update({f"{name}_{key}": value for key, value in coded.items()})
        codes = query[:, None] * len(self.passages) + negative
        found = np.searchsorted(self.relevant, codes).clip(max=len(self.relevant) - 1)
        batch["label"] = torch.as_tensor(self.relevant[found] == codes)
        return batch


def _loss_module(model, recipe: Recipe):
    import torch

    class SharedNegatives(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, features, barred):
            vectors = [self.model(column)["sentence_embedding"] for column in features]
            negatives = {"random": vectors[2:], "in-batch": vectors[1:], "both": vectors[:0:-1]}[recipe.negatives]
            return ranking_loss(*vectors[:2], torch.cat(negatives), recipe.loss, recipe.temperature, barred)

    return SharedNegatives()


def fit(recipe: Recipe, collection, query_ids: Sequence[str], split: str, seed: int, out_dir: Path) -> dict:
    """Train a bi-encoder and save it; see `interextra.models.fit`."""
    import torch
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from transformers import PrinterCallback, ProgressCallback

    began = time.perf_counter()
    cpu = device() == "cpu"
    threads = torch.get_num_threads()
    if cpu and "OMP_NUM_THREADS" not in os.environ:  # two threads do not sum as one does: keep to one by default
        torch.set_num_threads(1)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # CUDA's matrix products repeat only with it
    torch.use_deterministic_algorithms(True, warn_only=True)
    model = build(recipe, seed)
    pairs = training_pairs(collection, query_ids, split, recipe.positive_relevance)
    steps = training_steps(recipe, len(pairs.rows))
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(out_dir / "trainer"),
        max_steps=steps,
        per_device_train_batch_size=recipe.batch_size,
        learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup_steps,
        weight_decay=recipe.weight_decay,
        bf16=recipe.precision == "bf16",
        seed=seed,
        use_cpu=cpu,
        logging_steps=max(1, steps // 50),
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        dataloader_drop_last=len(pairs.rows) >= recipe.batch_size,
        dataloader_pin_memory=not cpu,
    )

    class Trainer(SentenceTransformerTrainer):
        def add_model_card_callback(self, default_args_dict):
            """No model card: it prints progress and describes what the recipe says already."""

    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_dict({"pair": np.arange(len(pairs.rows))}),
        loss=_loss_module(model, recipe),
        data_collator=_Batches(model, pairs, collection.passages, recipe, seed),
    )
    for printer in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(printer)
    try:
        trainer.train()
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(threads)
    shutil.rmtree(out_dir / "trainer", ignore_errors=True)
    model.save_pretrained(str(out_dir), create_model_card=False, safe_serialization=True)
    history = [[entry["step"], round(entry["loss"], 5)] for entry in trainer.state.log_history if "loss" in entry]
    seconds = round(time.perf_counter() - began, 3)
    counts = {
        "pairs": len(pairs.rows),
        "queries": len(pairs.texts),
        "parameters": sum(p.numel() for p in model.parameters()),
    }
    return {"steps": steps, "seconds": seconds, "loss": history, **counts, "device": device()}


def load(out_dir: Path, recipe: Recipe) -> Dense:
    """The model that `fit` wrote."""
    from safetensors import SafetensorError
    from sentence_transformers import SentenceTransformer

    quiet()
    try:
        model = SentenceTransformer(str(out_dir), device=device(), trust_remote_code=False)
        digest = file_digest(out_dir / WEIGHTS)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise InputError(f"{out_dir} holds no readable dense model: {' '.join(str(error).split())[:300]}") from None
    return Dense(model, recipe, key=digest)
