"""Training of each architecture beside the plain trainer of sentence-transformers.

Both start from the same weights and read the same pairs, 32 a step, each query with the passages of
the batch (a cross-encoder with one other passage), and have the same loss. Timed is a whole
training: opening the weights, the steps, and saving.
"""

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .form import SEED, Case, DifferentError, Peer, Sizes

N_PAIRS = 2048
BATCH = 32
QUERY_WORDS = 5
PASSAGE_WORDS = 40  # more word pieces than a recipe reads
LEARNING_RATE = 1e-6  # so small that the losses of both can be compared
RECIPE = {
    "loss": "listwise",
    "negatives": "in-batch",
    "batch_size": BATCH,
    "learning_rate": LEARNING_RATE,
    "warmup_steps": 0,
}
OF_PAIRS = {"negatives": "random", "n_negatives": 1}  # of a cross-encoder


class Setting(NamedTuple):
    """What a training takes."""

    recipe: Any
    collection: Any
    queries: list[str]
    passages: list[str]


def setting(architecture: str, steps: int, folder: Path) -> Setting:
    """Return a recipe, and pairs of drawn words."""
    import pandas as pd
    from passages import WORDS

    from interextra.data.collection import Collection, Passages, write_passages
    from interextra.models.recipe import load_recipe

    rng = np.random.default_rng(SEED)
    queries = list(map(" ".join, rng.choice(WORDS, (N_PAIRS, QUERY_WORDS))))
    passages = list(map(" ".join, rng.choice(WORDS, (N_PAIRS, PASSAGE_WORDS))))
    query_ids = [f"q{number}" for number in range(N_PAIRS)]
    doc_ids = [f"d{number}" for number in range(N_PAIRS)]
    write_passages(folder / "passages.arrow", zip(doc_ids, passages, strict=True))
    qrels = pd.DataFrame({"query_id": query_ids, "doc_id": doc_ids, "relevance": 1})
    texts = pd.DataFrame({"query_id": query_ids, "text": queries})
    held = Passages(folder / "passages.arrow")
    collection = Collection("bench", "bench", held, texts, {"train": qrels}, "bench")
    options = RECIPE | (OF_PAIRS if architecture == "reranker" else {})
    recipe = load_recipe(f"mini-{architecture}", steps=steps, **options)
    return Setting(recipe, collection, queries, passages)


def ours(architecture: str, steps: int, folder: Path) -> Callable[[], float]:
    """Train by the kit; return the mean loss."""
    from throughput import train_reranker

    from interextra.models.model import fit

    recipe, collection, _, _ = setting(architecture, steps, folder)
    query_ids = collection.query_ids("train")
    train = train_reranker if architecture == "reranker" else fit

    def work() -> float:
        """Return the mean loss."""
        log = train(recipe, collection, query_ids, "train", SEED, folder / "ours")
        _, losses = zip(*log["loss"], strict=True)
        return float(np.mean(losses))

    return work


CLASSES = {
    "dense": "SentenceTransformer",
    "splade": "SparseEncoder",
    "colbert": "MultiVectorEncoder",
    "reranker": "CrossEncoder",
}


def plain_loss(architecture: str, model: Any, recipe: Any) -> Any:
    """Return the library's loss that is that of the recipe."""
    from sentence_transformers import util

    scale = 1 / recipe.temperature
    if architecture == "dense":
        from sentence_transformers.sentence_transformer.losses import (
            MultipleNegativesRankingLoss,
        )

        return MultipleNegativesRankingLoss(model, scale, util.dot_score)
    if architecture == "splade":
        from sentence_transformers.sparse_encoder.losses import (
            SparseMultipleNegativesRankingLoss,
            SpladeLoss,
        )

        return SpladeLoss(
            model,
            SparseMultipleNegativesRankingLoss(model, scale),
            query_regularizer_weight=recipe.query_flops,
            document_regularizer_weight=recipe.passage_flops,
        )
    if architecture == "colbert":
        from sentence_transformers.multi_vector_encoder.losses import (
            MultiVectorMultipleNegativesRankingLoss,
        )

        return MultiVectorMultipleNegativesRankingLoss(model, scale=scale)
    from sentence_transformers.cross_encoder.losses import MultipleNegativesRankingLoss
    from torch.nn import Identity

    return MultipleNegativesRankingLoss(
        model, num_negatives=1, scale=scale, activation_fn=Identity()
    )


def plain_arguments(name: str, steps: int, out: str) -> Any:
    """Return the arguments of the library's trainer for a class of models."""
    import sentence_transformers

    from interextra.models.search.topk import device

    return getattr(sentence_transformers, f"{name}TrainingArguments")(
        output_dir=out,
        max_steps=steps,
        per_device_train_batch_size=BATCH,
        learning_rate=LEARNING_RATE,
        seed=SEED,
        use_cpu=device() == "cpu",
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_drop_last=True,
        dataloader_pin_memory=False,
    )


def plain(architecture: str, steps: int, folder: Path) -> Callable[[], float]:
    """Train by the library's trainer from the weights that ours starts from."""
    import sentence_transformers
    from datasets import Dataset
    from transformers import PrinterCallback

    from interextra.models.search.topk import device

    recipe, _, queries, passages = setting(architecture, steps, folder)
    module = importlib.import_module(f"interextra.models.architectures.{architecture}")
    start = str(folder / "start")
    module.build(recipe, SEED).save_pretrained(start, create_model_card=False)
    name = CLASSES[architecture]
    data = Dataset.from_dict({"query": queries, "positive": passages})
    arguments = plain_arguments(name, steps, str(folder / "plain"))

    def work() -> float:
        """Return the mean loss."""
        model = getattr(sentence_transformers, name)(start, device=device())
        trainer = getattr(sentence_transformers, f"{name}Trainer")(
            model=model,
            args=arguments,
            train_dataset=data,
            loss=plain_loss(architecture, model, recipe),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        model.save_pretrained(str(folder / "plain"), create_model_card=False)
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        return float(np.mean(losses))

    return work


def same_loss(ours: float, theirs: float) -> str:
    """Compare the mean losses: batches differ in their pairs alone."""
    sentence = f"mean loss {theirs:.3f}, ours {ours:.3f}"
    if abs(theirs - ours) > 0.1 * ours:
        raise DifferentError(sentence)
    return sentence


# what is imported once, before processes start
IMPORTS = ("sentence_transformers", "interextra.models.training.trainer")
CASES = [
    Case(
        f"training, {architecture}",
        "steps",
        Sizes(2, 32, 200),
        partial(ours, architecture),
        {"sentence-transformers": Peer(partial(plain, architecture), ("sentence_transformers",))},
        same_loss,
    )
    for architecture in CLASSES
]
