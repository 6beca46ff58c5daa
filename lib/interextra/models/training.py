"""Training of all neural architectures: the same batches, the same ranking losses, the same deterministic trainer."""

import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from interextra.models.pairs import Pairs, bm25_negatives, training_pairs
from interextra.models.recipe import Recipe, training_steps
from interextra.models.topk import device


class Setting(NamedTuple):
    """What `train` needs to know of an architecture: its trainer and arguments classes, its loss and its batches."""

    trainer: type
    arguments: type
    loss: Callable  # (model, recipe) → torch module with forward(features, label)
    batches: Callable  # (model, pairs, collection, recipe, seed) → collator of a list of {"pair": index}


def ranking_loss(good, bad, kind: str, temperature: float, barred=None):
    """Cross entropy of the positive passage against negatives; mean over the batch.

    Parameters
    ----------
    good
        [batch, 1] scores of the positives
    bad
        [batch, m] scores of the negatives, shared by all queries or not
    kind
        listwise: one softmax over the positive and all negatives;
        pairwise: mean over the (positive, negative) pairs of a softmax over two logits;
        pointwise: binary cross entropy of each score, mean over all.
    barred
        bool[batch, m]: negatives that are relevant to the query, left out.
    """
    import torch
    from torch.nn.functional import softplus

    good, bad = good / temperature, bad / temperature
    if barred is not None:
        bad = bad.masked_fill(barred, float("-inf"))
    if kind == "listwise":
        return (torch.cat([good, bad], dim=1).logsumexp(dim=1) - good.squeeze(1)).mean()
    allowed = torch.isfinite(bad)
    if kind == "pointwise":
        return torch.cat([softplus(-good).flatten(), softplus(bad)[allowed]]).mean()
    return softplus(bad - good)[allowed].sum() / allowed.sum().clamp(min=1)


# Which columns of a batch, after query and positive, are negatives of every query in it: "negative" is drawn from the
# corpus (random, both) or from BM25's ranking (bm25), the positives of the other queries come with "in-batch".
_DRAWN = {"random": True, "both": True, "bm25": True, "bm25+in-batch": True, "in-batch": False}
_IN_BATCH = {"in-batch", "both", "bm25+in-batch"}


def encoder_loss(represent: Callable, pairwise: Callable, matrix: Callable):
    """A loss for encoders, as `Setting.loss`.

    represent(model output) → representation [n, …]; pairwise(queries, passages) → [n] scores of row i with row i;
    matrix(queries, passages) → [n, m] scores of all pairs.
    """

    def make(model, recipe: Recipe):
        import torch

        class SharedNegatives(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, features, barred):
                tasks = ("query", "document", "document")
                columns = [
                    represent(self.model(column, task=task)) for column, task in zip(features, tasks, strict=False)
                ]
                return self.compute_loss_from_embeddings(columns, barred)

            def compute_loss_from_embeddings(self, columns, barred):
                queries, positives, *drawn = columns
                bad = [*drawn, *([positives] if recipe.negatives in _IN_BATCH else [])]
                good = pairwise(queries, positives).unsqueeze(1)
                scores = torch.cat([matrix(queries, column) for column in bad], dim=1)
                return ranking_loss(good, scores, recipe.loss, recipe.temperature, barred)

        return SharedNegatives()

    return make


class EncoderBatches:
    """Collator of encoders: draws the negatives of a batch and tokenizes everything to the lengths of the recipe."""

    valid_label_columns = ("barred",)

    def __init__(self, model, pairs: Pairs, collection, recipe: Recipe, seed: int):
        self.model, self.pairs, self.passages, self.recipe, self.seed = model, pairs, collection.passages, recipe, seed
        self.relevant = np.sort(pairs.query * len(self.passages) + pairs.rows)  # sorted codes of all relevant pairs
        mined = recipe.negatives.startswith("bm25")
        self.mined = bm25_negatives(collection, pairs, recipe.negative_depth) if mined else None

    def __call__(self, examples: list[dict]) -> dict:
        import torch

        at = np.array([example["pair"] for example in examples])
        query, positive = self.pairs.query[at], self.pairs.rows[at]
        columns = {"query": query, "positive": positive}
        negative = positive if self.recipe.negatives in _IN_BATCH else positive[:0]
        if _DRAWN[self.recipe.negatives]:
            # seeded by the batch itself: the same draw whatever process or worker makes it
            draw = np.random.default_rng([self.seed, *at.tolist()])
            columns["negative"] = self._draw(draw, query)
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

    def _draw(self, draw: np.random.Generator, query: np.ndarray) -> np.ndarray:
        if self.mined is None:
            return draw.integers(len(self.passages), size=self.recipe.n_negatives)
        return draw_mined(draw, self.mined[query], self.recipe.n_negatives, len(self.passages)).ravel()


def draw_mined(draw: np.random.Generator, mined: np.ndarray, n: int, n_passages: int) -> np.ndarray:
    """`n` of each row's mined negatives int[batch, depth] (-1 = padding); a random passage where a row has none."""
    counts = (mined >= 0).sum(axis=1)  # padding is at the end
    picked = np.take_along_axis(mined, draw.integers(np.maximum(counts, 1)[:, None], size=(len(mined), n)), axis=1)
    return np.where(counts[:, None] > 0, picked, draw.integers(n_passages, size=picked.shape))


def train(
    setting: Setting, model, recipe: Recipe, collection, query_ids: Sequence[str], split: str, seed: int, out_dir: Path
) -> dict:
    """Train `model` and save it to `out_dir`; the log that `interextra.models.fit` returns.

    On the CPU one thread is used unless OMP_NUM_THREADS says otherwise, so that a repetition gives the same bytes.
    """
    import torch
    from datasets import Dataset
    from sentence_transformers.base.trainer import BaseTrainer
    from transformers import PrinterCallback, ProgressCallback

    began = time.perf_counter()
    cpu = device() == "cpu"
    threads = torch.get_num_threads()
    if cpu and "OMP_NUM_THREADS" not in os.environ:  # two threads do not sum as one does: keep to one by default
        torch.set_num_threads(1)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # CUDA's matrix products repeat only with it
    torch.use_deterministic_algorithms(True, warn_only=True)
    pairs = training_pairs(collection, query_ids, split, recipe.positive_relevance)
    steps = training_steps(recipe, len(pairs.rows))
    arguments = setting.arguments(
        output_dir=str(out_dir / "trainer"),
        max_steps=steps,
        per_device_train_batch_size=recipe.batch_size,
        learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup_steps,
        weight_decay=recipe.weight_decay,
        bf16=recipe.precision == "bf16",
        seed=seed,
        use_cpu=cpu,
        ddp_backend="gloo" if cpu and "RANK" in os.environ else None,
        logging_steps=max(1, steps // 50),
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        dataloader_drop_last=len(pairs.rows) >= recipe.batch_size,
        dataloader_pin_memory=not cpu,
    )

    class Trainer(setting.trainer):
        def add_model_card_callback(self, default_args_dict):
            """No model card: it prints progress and describes what the recipe says already."""

        def collect_features(self, inputs):
            return BaseTrainer.collect_features(self, inputs)  # tokenized by the collator, for a cross-encoder too

    try:
        trainer = Trainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict({"pair": np.arange(len(pairs.rows))}),
            loss=setting.loss(model, recipe),
            data_collator=setting.batches(model, pairs, collection, recipe, seed),
        )
        for printer in (PrinterCallback, ProgressCallback):
            trainer.remove_callback(printer)
        if steps:
            trainer.train()
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(threads)
    shutil.rmtree(out_dir / "trainer", ignore_errors=True)
    model.save_pretrained(str(out_dir), create_model_card=False, safe_serialization=True)
    history = [[entry["step"], round(entry["loss"], 5)] for entry in trainer.state.log_history if "loss" in entry]
    return {
        "steps": steps,
        "seconds": round(time.perf_counter() - began, 3),
        "loss": history,
        "pairs": len(pairs.rows),
        "queries": len(pairs.texts),
        "parameters": sum(p.numel() for p in model.parameters()),
        "device": device(),
    }
