"""Training of all neural architectures: batches with their negatives, drawn with the seed; scores;
one trainer.
"""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import sentence_transformers
import torch
from datasets import Dataset
from sentence_transformers.base.trainer import BaseTrainer
from torch.nn.utils.rnn import pad_sequence
from transformers import PrinterCallback

from interextra.models.model import load_model
from interextra.models.recipe import Trained
from interextra.models.retriever import transformers_of
from interextra.models.search.lucene import bm25_search
from interextra.models.search.topk import device
from interextra.models.training.losses import losses
from interextra.models.training.pairs import (
    Pairs,
    exposed_passages,
    negatives_of,
    ranked_rows,
    read_spared,
    relevant_pairs,
    spared_passages,
    text_numbers,
    training_pairs,
)
from interextra.models.training.reproducible import reproducible
from interextra.models.training.tokens import Tokens
from interextra.store.errors import InputError

# What `SharedNegatives` takes of a model with one vector a text
INNER_PRODUCT = (
    lambda out: out["sentence_embedding"],
    lambda q, p: (q * p).sum(dim=1),
    lambda q, p: q @ p.T,
)


class Batches:
    """A collator: draws the negatives of a batch of {"pair": index} and tokenizes it; the label are
    barred negatives.

    `tokens`: a `Tokens`. `ranking`: rows of the passages that a model ranks first for each query
    (see `ranked_rows`). `teacher`: a model whose scores are the loss's goal. `spared`: doc_ids of
    passages that are not drawn either. What says the same as a relevant passage is relevant, too,
    whatever its id (see `relevant_pairs`).
    """

    valid_label_columns = ("label",)

    def __init__(
        self,
        tokens,
        pairs: Pairs,
        collection,
        recipe: Trained,
        seed: int,
        ranking=None,
        teacher=None,
        spared=(),
    ):
        self.tokens, self.pairs, self.passages = tokens, pairs, collection.passages
        self.recipe, self.seed, self.teacher, self.goal = (
            recipe,
            seed,
            teacher,
            losses()[recipe.loss].goal,
        )
        alike = text_numbers(collection.passages)
        self.relevant = relevant_pairs(pairs, alike)
        self.exposed = exposed_passages(collection, pairs, recipe.positive_relevance, alike)
        is_spared = spared_passages(spared, collection.passages, alike)
        self.drawable = drawable_passages(self.exposed, recipe.negative_passages, seed, is_spared)
        self.rows = np.flatnonzero(self.drawable)
        self.exposed_rows = np.flatnonzero(self.exposed & ~is_spared)
        if recipe.negatives.startswith("bm25"):
            ranking, _ = bm25_search(collection, pairs.texts, recipe.negative_depth, k1=0.9, b=0.4)
        self.mined = (
            None if ranking is None else negatives_of(ranking, self.relevant, self.drawable)
        )
        self.n_negatives = self.n_exposed = 0  # met so far

    def taken(self, examples: list[dict]) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
        """Query and positive of each example, and a generator seeded by them: any process draws the
        same.
        """
        at = np.array([example["pair"] for example in examples])
        return (
            self.pairs.query[at],
            self.pairs.rows[at],
            np.random.default_rng([self.seed, *at.tolist()]),
        )

    def barred(self, query: np.ndarray, negatives: np.ndarray) -> torch.Tensor:
        """Which negatives [batch or 1, m] are relevant to their query after all: bool[batch, m];
        counts the exposed.
        """
        self.count(negatives)
        codes = query[:, None] * len(self.passages) + negatives
        found = np.searchsorted(self.relevant, codes).clip(max=len(self.relevant) - 1)
        return torch.as_tensor(self.relevant[found] == codes)

    def count(self, negatives: np.ndarray) -> None:
        """Note how many negatives were met, and how many of them exposed."""
        self.n_negatives += negatives.size
        self.n_exposed += int(self.exposed[negatives].sum())

    def random(self, draw: np.random.Generator, size) -> np.ndarray:
        found, share = (
            self.rows[draw.integers(len(self.rows), size=size)],
            self.recipe.negative_passages,
        )
        if isinstance(share, str):
            return found
        is_exposed = draw.random(size) < share
        return np.where(
            is_exposed, self.exposed_rows[draw.integers(len(self.exposed_rows), size=size)], found
        )

    def drawn(self, draw: np.random.Generator, query: np.ndarray) -> np.ndarray:
        """`n_negatives` for each query [batch, n]: of those ranked first, random where there is
        none, or no ranking.
        """
        n = self.recipe.n_negatives
        if self.mined is None:
            return self.random(draw, (len(query), n))
        mined = self.mined[query]
        counts = (mined >= 0).sum(axis=1)  # padding is at the end
        picked = np.take_along_axis(
            mined, draw.integers(np.maximum(counts, 1)[:, None], size=(len(mined), n)), axis=1
        )
        return np.where(counts[:, None] > 0, picked, self.random(draw, picked.shape))


class EncoderBatches(Batches):
    """Query, positive and drawn negatives as columns of their own, cut to the lengths of the
    recipe.
    """

    def __call__(self, examples: list[dict]) -> dict:
        query, positive, draw = self.taken(examples)
        columns, texts = {"positive": positive}, [self.pairs.texts[row] for row in query]
        negatives = positive if self.recipe.in_batch else positive[:0]
        if self.recipe.drawn():
            # random ones are shared by the batch anyway, so that those of one query are enough
            columns["negative"] = self.drawn(
                draw, query if self.mined is not None else query[:1]
            ).ravel()
            negatives = np.concatenate([columns["negative"], negatives])
        coded = {"query": self.tokens.preprocess(texts, task="query")}
        for name, rows in columns.items():
            coded[name] = self.tokens.preprocess(self.passages.texts(rows), task="document")
        batch = {
            f"{name}_{key}": value
            for name, column in coded.items()
            for key, value in column.items()
        }
        label = self.barred(query, negatives[None])
        if self.goal:
            label = self.goal(self.teacher, self.passages, texts, positive, negatives, label)
        return batch | {"label": label}


class QueryBatches(Batches):
    """Queries alone, for a model that is trained against its own ranking of all passages.

    The label: row of the example's passage, then those of all relevant ones, -1 where there are
    fewer: int64[batch, n].
    """

    def __call__(self, examples: list[dict]) -> dict:
        query, positive, _ = self.taken(examples)
        n = len(self.passages)
        ends = np.searchsorted(self.relevant, [query * n, (query + 1) * n])
        relevant = [self.relevant[start:end] % n for start, end in ends.T]
        labels = [
            torch.as_tensor(np.append(*rows)) for rows in zip(positive, relevant, strict=True)
        ]
        label = pad_sequence(labels, batch_first=True, padding_value=-1)
        coded = self.tokens.preprocess([self.pairs.texts[row] for row in query], task="query")
        return {f"query_{key}": value for key, value in coded.items()} | {"label": label}


class PairBatches(Batches):
    """Each positive with its own negatives, as pairs of query and passage: [positives, first
    negatives, second …].
    """

    def __call__(self, examples: list[dict]) -> dict:
        query, positive, draw = self.taken(examples)
        places = range(1, self.recipe.n_negatives + 1) if self.recipe.in_batch else ()
        others = [
            np.roll(positive, place) for place in places
        ]  # positives of the batch's other queries
        rows = np.stack([positive, *self.drawn(draw, query).T, *others])  # [1 + negatives, batch]
        asked = [self.pairs.texts[i] for i in query] * len(rows)
        texts = self.passages.texts(rows.ravel())
        coded = self.tokens.preprocess([list(pair) for pair in zip(asked, texts, strict=True)])
        return {f"pair_{key}": value for key, value in coded.items()} | {
            "label": self.barred(query, rows[1:].T)
        }


def drawable_passages(
    exposed: np.ndarray, which: str | float, seed: int, spared: np.ndarray
) -> np.ndarray:
    """bool[passages]: what may be drawn as a negative, see `recipe.Trained.negative_passages`,
    without the `spared`.
    """
    drawable = np.ones(len(exposed), bool) if which in ("all", "control") else ~exposed
    if which == "control":
        drawable[np.random.default_rng(seed).choice(len(exposed), exposed.sum(), replace=False)] = (
            False
        )
    drawable &= ~spared
    if not drawable.any() or (isinstance(which, float) and not (exposed & ~spared).any()):
        held = f"{exposed.sum()} of {len(exposed)} passages are exposed"
        held += f", {spared.sum()} are spared" if spared.any() else ""
        raise InputError(
            f"negative_passages = {which}: {held}, so that none is left to draw; use all"
        )
    return drawable


def ranking_loss(good, bad, label, recipe: Trained):
    """The recipe's loss of the scores of the positives [batch, 1] and of negatives [batch, m].

    `label`: of a loss with a teacher its goal, else bool[batch, m], negatives that are relevant and
    left out, or None.
    """
    loss = losses()[recipe.loss]
    good, bad = good / recipe.temperature, bad / recipe.temperature
    if loss.goal is None and label is not None:
        bad = bad.masked_fill(label, float("-inf"))
    return loss(good, bad, label, recipe)


class SharedNegatives(torch.nn.Module):
    """The loss of encoders: all queries of a batch share its negatives, or each query has its own.

    represent(model output) → representation [n, …]; pairwise(queries, passages) → [n] scores of row
    i with row i; matrix(queries, passages) → [n, m] scores of all pairs.
    """

    def __init__(
        self, model, recipe: Trained, represent: Callable, pairwise: Callable, matrix: Callable
    ):
        super().__init__()
        self.model, self.recipe, self.represent, self.pairwise, self.matrix = (
            model,
            recipe,
            represent,
            pairwise,
            matrix,
        )

    def forward(self, features, label):
        tasks = ("query", "document", "document")
        columns = [
            self.represent(self.model(c, task=task))
            for c, task in zip(features, tasks, strict=False)
        ]
        return self.compute_loss_from_embeddings(columns, label)

    def compute_loss_from_embeddings(self, columns, label):
        queries, positives, *drawn = columns
        good = self.pairwise(queries, positives).unsqueeze(1)
        if "query" in losses()[self.recipe.loss].kinds:
            own = drawn[0].unflatten(0, (len(queries), -1)).unbind(1)
            bad = torch.stack([self.pairwise(queries, column) for column in own], dim=1)
        else:
            shared = [*drawn, *([positives] if self.recipe.in_batch else [])]
            bad = torch.cat([self.matrix(queries, column) for column in shared], dim=1)
        return ranking_loss(good, bad, label, self.recipe)


class OwnRanking(torch.nn.Module):
    """A query encoder against the passages that it ranks first itself: the vectors of the passages
    stay as they are.

    The first `negative_depth` not relevant are the negatives (ADORE: Zhan et al., 2021).
    `passages`: float32[n, d].
    """

    def __init__(self, model, recipe: Trained, passages: np.ndarray):
        super().__init__()
        self.model, self.recipe, self.passages = (
            model,
            recipe,
            torch.as_tensor(passages).to(device()),
        )

    def forward(self, features, label):
        vectors = self.model(features[0], task="query")["sentence_embedding"]
        scores = vectors @ self.passages.T  # [batch, n]
        good = scores.gather(1, label[:, :1])
        others = scores.masked_fill(
            torch.as_tensor(~self.batches.drawable, device=scores.device), float("-inf")
        )
        others = others.scatter(1, torch.where(label < 0, label[:, :1], label), float("-inf"))
        bad, rows = others.topk(min(self.recipe.negative_depth, others.shape[1]), dim=1)
        self.batches.count(rows[torch.isfinite(bad)].cpu().numpy())
        return ranking_loss(good, bad, None, self.recipe)


class PairLoss(torch.nn.Module):
    def __init__(self, model, recipe: Trained):
        super().__init__()
        self.model, self.recipe = model, recipe

    def forward(self, features, barred, prompt=None, task=None):
        scores = (
            self.model(features[0])["scores"].view(-1, len(barred)).T
        )  # [batch, 1 + n_negatives]
        some = (
            barred if barred.any() else None
        )  # hardly ever: only random negatives can be relevant
        return ranking_loss(scores[:, :1], scores[:, 1:], some, self.recipe)


@reproducible()
def train(
    loss,
    recipe: Trained,
    collection,
    query_ids,
    split,
    seed,
    out_dir: Path,
    ranking=None,
    teacher=None,
    spared=None,
) -> dict:
    """Train the `model` of a loss, one of sentence-transformers, and save it to `out_dir`; see
    `model.fit`.
    """
    model, cpu = loss.model, device() == "cpu"
    pairs = training_pairs(collection, query_ids, split, recipe.positive_relevance)
    steps = recipe.training_steps(len(pairs.rows))
    kind = type(model).__name__
    arguments = getattr(sentence_transformers, f"{kind}TrainingArguments")(
        output_dir=str(out_dir),
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
        save_strategy="no",
        disable_tqdm=True,
        dataloader_drop_last=len(pairs.rows) >= recipe.batch_size,
        dataloader_pin_memory=not cpu,
    )

    class Trainer(getattr(sentence_transformers, f"{kind}Trainer")):
        collect_features = (
            BaseTrainer.collect_features
        )  # tokenized by the collator, for a cross-encoder too

        def add_model_card_callback(self, default_args_dict):
            """No model card: it prints progress and describes what the recipe says already."""

    found = ranking and ranked_rows(ranking, collection, pairs.query_ids, recipe.negative_depth)
    batches = QueryBatches if recipe.negatives == "own" else EncoderBatches
    batches = PairBatches if kind == "CrossEncoder" else batches
    taught_by = teacher and load_model(teacher)
    collator = batches(
        Tokens(model), pairs, collection, recipe, seed, found, taught_by, read_spared(spared)
    )
    loss.batches = collator  # where the loss draws the negatives itself
    examples = Dataset.from_dict({"pair": np.arange(len(pairs.rows))})
    trainer = Trainer(
        model=model, args=arguments, train_dataset=examples, loss=loss, data_collator=collator
    )
    trainer.remove_callback(PrinterCallback)
    if steps:
        trainer.train()
    for words in transformers_of(
        model
    ):  # else tokenizer.json holds the lengths of the texts that were tokenized last
        words.tokenizer.backend_tokenizer.no_truncation()
        words.tokenizer.backend_tokenizer.no_padding()
    model.save_pretrained(str(out_dir), create_model_card=False, safe_serialization=True)
    return {
        "steps": steps,
        "loss": [
            [entry["step"], round(entry["loss"], 5)]
            for entry in trainer.state.log_history
            if "loss" in entry
        ],
        "pairs": len(pairs.rows),
        "queries": len(pairs.texts),
        "exposed_passages": float(collator.exposed.mean()),  # share of the collection
        "exposed_negatives": collator.n_exposed
        / max(1, collator.n_negatives),  # share of what the loss has seen
        "parameters": sum(p.numel() for p in model.parameters()),
        "device": device(),
    }
