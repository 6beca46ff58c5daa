"""Training of all neural architectures: the same draws, the same ranking losses, the same deterministic trainer."""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import sentence_transformers
import torch
from datasets import Dataset
from sentence_transformers.base.trainer import BaseTrainer
from torch.nn.functional import softplus
from transformers import PrinterCallback, ProgressCallback

from interextra.ground.errors import InputError
from interextra.models.pairs import Pairs, bm25_negatives, exposed_passages, training_pairs
from interextra.models.recipe import Trained
from interextra.models.topk import device

# Which columns of a batch, after query and positive, are negatives of every query in it: "negative" is drawn from the
# corpus (random, both) or from BM25's ranking (bm25), the positives of the other queries come with "in-batch".
_DRAWN = {"random", "both", "bm25", "bm25+in-batch"}
_IN_BATCH = {"in-batch", "both", "bm25+in-batch"}


def ranking_loss(good, bad, kind: str, temperature: float, barred):
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
    good, bad = good / temperature, bad / temperature
    if barred is not None:
        bad = bad.masked_fill(barred, float("-inf"))
    if kind == "listwise":
        return (torch.cat([good, bad], dim=1).logsumexp(dim=1) - good.squeeze(1)).mean()
    allowed = torch.isfinite(bad)
    if kind == "pointwise":
        return torch.cat([softplus(-good).flatten(), softplus(bad)[allowed]]).mean()
    return softplus(bad - good)[allowed].sum() / allowed.sum().clamp(min=1)


class SharedNegatives(torch.nn.Module):
    """The ranking loss of encoders: all queries of a batch share its negatives.

    represent(model output) → representation [n, …]; pairwise(queries, passages) → [n] scores of row i with row i;
    matrix(queries, passages) → [n, m] scores of all pairs.
    """

    def __init__(self, model, recipe: Trained, represent: Callable, pairwise: Callable, matrix: Callable):
        super().__init__()
        self.model, self.recipe, self.represent, self.pairwise, self.matrix = model, recipe, represent, pairwise, matrix

    def forward(self, features, barred):
        tasks = ("query", "document", "document")
        columns = [self.represent(self.model(c, task=task)) for c, task in zip(features, tasks, strict=False)]
        return self.compute_loss_from_embeddings(columns, barred)

    def compute_loss_from_embeddings(self, columns, barred):
        queries, positives, *drawn = columns
        bad = [*drawn, *([positives] if self.recipe.negatives in _IN_BATCH else [])]
        good = self.pairwise(queries, positives).unsqueeze(1)
        scores = torch.cat([self.matrix(queries, column) for column in bad], dim=1)
        return ranking_loss(good, scores, self.recipe.loss, self.recipe.temperature, barred)


def inner_product_loss(model, recipe: Trained) -> SharedNegatives:
    """The loss of one vector a text, dense or sparse."""
    functions = lambda out: out["sentence_embedding"], lambda q, p: (q * p).sum(dim=1), lambda q, p: q @ p.T
    return SharedNegatives(model, recipe, *functions)


class Batches:
    """A collator: draws the negatives of a batch of {"pair": index} and tokenizes it; the label are barred negatives.

    A subclass says how a batch is laid out.
    """

    def __init__(self, model, pairs: Pairs, collection, recipe: Trained, seed: int):
        self.model, self.pairs, self.passages, self.recipe, self.seed = model, pairs, collection.passages, recipe, seed
        self.relevant = np.sort(pairs.query * len(self.passages) + pairs.rows)  # sorted codes of all relevant pairs
        self.exposed = exposed_passages(collection, pairs, recipe.positive_relevance)
        drawable = drawable_passages(self.exposed, recipe.negative_passages, seed)
        self.rows = np.flatnonzero(drawable)
        mined = recipe.negatives.startswith("bm25")
        self.mined = bm25_negatives(collection, pairs, recipe.negative_depth, drawable) if mined else None
        self.n_negatives = self.n_exposed = 0  # met so far

    def taken(self, examples: list[dict]) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
        """Query and positive of each example, and a generator seeded by them: any process draws the same."""
        at = np.array([example["pair"] for example in examples])
        return self.pairs.query[at], self.pairs.rows[at], np.random.default_rng([self.seed, *at.tolist()])

    def barred(self, query: np.ndarray, negatives: np.ndarray) -> torch.Tensor:
        """Which negatives [batch or 1, m] are relevant to their query after all: bool[batch, m]; counts the exposed."""
        self.n_negatives += negatives.size
        self.n_exposed += int(self.exposed[negatives].sum())
        codes = query[:, None] * len(self.passages) + negatives
        found = np.searchsorted(self.relevant, codes).clip(max=len(self.relevant) - 1)
        return torch.as_tensor(self.relevant[found] == codes)

    def random(self, draw: np.random.Generator, size) -> np.ndarray:
        """Random passages that may be negatives."""
        drawn, share = self.rows[draw.integers(len(self.rows), size=size)], self.recipe.negative_passages
        if isinstance(share, str):
            return drawn
        exposed = np.flatnonzero(self.exposed)
        return np.where(draw.random(size) < share, exposed[draw.integers(len(exposed), size=size)], drawn)

    def from_ranking(self, draw: np.random.Generator, query: np.ndarray) -> np.ndarray:
        """`n_negatives` of BM25's for each query [batch, n]; random passages where it has none."""
        mined, n = self.mined[query], self.recipe.n_negatives
        counts = (mined >= 0).sum(axis=1)  # padding is at the end
        picked = np.take_along_axis(mined, draw.integers(np.maximum(counts, 1)[:, None], size=(len(mined), n)), axis=1)
        return np.where(counts[:, None] > 0, picked, self.random(draw, picked.shape))


class EncoderBatches(Batches):
    """Query, positive and drawn negatives as columns of their own, cut to the lengths of the recipe."""

    valid_label_columns = ("barred",)

    def __call__(self, examples: list[dict]) -> dict:
        query, positive, draw = self.taken(examples)
        columns = {"positive": positive}
        negatives = positive if self.recipe.negatives in _IN_BATCH else positive[:0]
        if self.recipe.negatives in _DRAWN:
            columns["negative"] = self._draw(draw, query)
            negatives = np.concatenate([columns["negative"], negatives])
        coded = {"query": self.model.preprocess([self.pairs.texts[row] for row in query], task="query")}
        for name, rows in columns.items():
            coded[name] = self.model.preprocess(self.passages.texts(rows), task="document")
        batch = {f"{name}_{key}": value for name, column in coded.items() for key, value in column.items()}
        return batch | {"label": self.barred(query, negatives[None])}

    def _draw(self, draw: np.random.Generator, query: np.ndarray) -> np.ndarray:
        if self.mined is None:
            return self.random(draw, self.recipe.n_negatives)
        return self.from_ranking(draw, query).ravel()


class PairBatches(Batches):
    """Each positive with its own negatives, as pairs of query and passage: [positives, first negatives, second …]."""

    valid_label_columns = ("label",)

    def __call__(self, examples: list[dict]) -> dict:
        query, positive, draw = self.taken(examples)
        n = self.recipe.n_negatives
        negatives = self.random(draw, (len(query), n)) if self.mined is None else self.from_ranking(draw, query)
        if self.recipe.negatives in _IN_BATCH:
            others = [np.roll(positive, place) for place in range(1, n + 1)]
            negatives = np.column_stack([negatives, *others])
        rows = np.concatenate([positive[None], negatives.T])  # [1 + n_negatives, batch]
        asked = [self.pairs.texts[i] for i in query] * len(rows)
        texts = self.passages.texts(rows.ravel())
        coded = self.model.preprocess([list(pair) for pair in zip(asked, texts, strict=True)])
        return {f"pair_{key}": value for key, value in coded.items()} | {"label": self.barred(query, negatives)}


class PairLoss(torch.nn.Module):
    """The ranking loss of a cross-encoder."""

    def __init__(self, model, recipe: Trained):
        super().__init__()
        self.model, self.recipe = model, recipe

    def forward(self, features, barred, prompt=None, task=None):
        scores = self.model(features[0])["scores"].view(-1, len(barred)).T  # [batch, 1 + n_negatives]
        some = barred if barred.any() else None  # hardly ever: only random negatives can be relevant
        return ranking_loss(scores[:, :1], scores[:, 1:], self.recipe.loss, self.recipe.temperature, some)


def drawable_passages(exposed: np.ndarray, which: str | float, seed: int) -> np.ndarray:
    """bool[passages]: what may be drawn as a negative, see `recipe.Trained.negative_passages`.

    >>> exposed = np.array([True, False, False, False])
    >>> [int(drawable_passages(exposed, which, 0).sum()) for which in ("all", "unexposed", "control")]
    [4, 3, 3]
    """
    drawable = np.ones(len(exposed), bool)
    if which == "control":
        drawable[np.random.default_rng(seed).choice(len(exposed), exposed.sum(), replace=False)] = False
    elif which != "all":
        drawable = ~exposed
    if not drawable.any() or (isinstance(which, float) and not exposed.any()):
        held = f"{exposed.sum()} of {len(exposed)} passages are exposed"
        raise InputError(f"negative_passages = {which}: {held}, so that none is left to draw; use all")
    return drawable


def train(
    model,
    loss: torch.nn.Module,
    batches: type[Batches],
    recipe: Trained,
    collection,
    query_ids: Sequence[str],
    split: str,
    seed: int,
    out_dir: Path,
) -> dict:
    """Train a model of sentence-transformers and save it to `out_dir`; the log that `model.fit` returns.

    On the CPU one thread is used unless OMP_NUM_THREADS says otherwise, so that a repetition gives the same bytes.
    """
    cpu = device() == "cpu"
    threads = torch.get_num_threads()
    if cpu and "OMP_NUM_THREADS" not in os.environ:  # two threads do not sum as one does: keep to one by default
        torch.set_num_threads(1)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # CUDA's matrix products repeat only with it
    torch.use_deterministic_algorithms(True, warn_only=True)
    pairs = training_pairs(collection, query_ids, split, recipe.positive_relevance)
    steps = recipe.training_steps(len(pairs.rows))
    kind = type(model).__name__
    arguments = getattr(sentence_transformers, f"{kind}TrainingArguments")(
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

    class Trainer(getattr(sentence_transformers, f"{kind}Trainer")):
        def add_model_card_callback(self, default_args_dict):
            """No model card: it prints progress and describes what the recipe says already."""

        def collect_features(self, inputs):
            return BaseTrainer.collect_features(self, inputs)  # tokenized by the collator, for a cross-encoder too

    try:
        collator = batches(model, pairs, collection, recipe, seed)
        trainer = Trainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict({"pair": np.arange(len(pairs.rows))}),
            loss=loss,
            data_collator=collator,
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
        "loss": history,
        "pairs": len(pairs.rows),
        "queries": len(pairs.texts),
        "exposed_passages": float(collator.exposed.mean()),  # share of the collection
        "exposed_negatives": collator.n_exposed / max(1, collator.n_negatives),  # share of what the loss has seen
        "parameters": sum(p.numel() for p in model.parameters()),
        "device": device(),
    }
