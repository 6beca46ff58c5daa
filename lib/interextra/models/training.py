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
from sentence_transformers.sentence_transformer.losses import MarginMSELoss
from torch.nn.functional import softplus
from transformers import PrinterCallback, ProgressCallback

from interextra.ground.errors import InputError
from interextra.models.model import load_model
from interextra.models.pairs import (
    Pairs,
    bm25_ranking,
    exposed_passages,
    negatives_of,
    ranked_rows,
    training_pairs,
)
from interextra.models.recipe import Trained
from interextra.models.topk import device

# Which columns of a batch, after query and positive, are negatives of every query in it: "negative" is drawn from the
# corpus (random, both) or from a ranking (bm25, mined), the positives of the other queries come with "in-batch".
_DRAWN = {"random", "both", "bm25", "bm25+in-batch", "mined", "mined+in-batch"}
_IN_BATCH = {"in-batch", "both", "bm25+in-batch", "mined+in-batch"}


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


def distillation_loss(good, bad, goal, temperature: float, teacher_temperature: float):
    """Cross entropy of the softmax of a student's scores against that of its teacher's, mean over the batch.

    Its gradient is that of the Kullback–Leibler divergence. Source: TCT-ColBERT (Lin et al., RepL4NLP 2021).
    Taught in notebooks/06_pretraining_study.

    Parameters
    ----------
    good, bad : [batch, 1] and [batch, m] scores of the student.
    goal : [batch, 1 + m] of the teacher, of the same passages; −∞ for one that is left out.
    """
    left_out = torch.isneginf(goal)
    scores = torch.cat([good, bad], dim=1).masked_fill(left_out, float("-inf")) / temperature
    share = torch.softmax(goal / teacher_temperature, dim=1)
    return -(share * scores.log_softmax(dim=1).masked_fill(left_out, 0.0)).sum(dim=1).mean()


class SharedNegatives(torch.nn.Module):
    """The ranking loss of encoders: all queries of a batch share its negatives.

    represent(model output) → representation [n, …]; pairwise(queries, passages) → [n] scores of row i with row i;
    matrix(queries, passages) → [n, m] scores of all pairs.
    """

    def __init__(self, model, recipe: Trained, represent: Callable, pairwise: Callable, matrix: Callable):
        super().__init__()
        self.model, self.recipe, self.represent, self.pairwise, self.matrix = model, recipe, represent, pairwise, matrix
        self.margins = MarginMSELoss(None, lambda q, p: pairwise(q, p) / recipe.temperature)

    def forward(self, features, label):
        tasks = ("query", "document", "document")
        columns = [self.represent(self.model(c, task=task)) for c, task in zip(features, tasks, strict=False)]
        return self.compute_loss_from_embeddings(columns, label)

    def compute_loss_from_embeddings(self, columns, label):
        queries, positives, *drawn = columns
        if self.recipe.loss == "margin-mse":  # the label is the teacher's score of the positive and of each negative
            own = drawn[0].unflatten(0, (len(queries), -1)).unbind(1)
            return self.margins.compute_loss_from_embeddings([queries, positives, *own], label)
        bad = [*drawn, *([positives] if self.recipe.negatives in _IN_BATCH else [])]
        good = self.pairwise(queries, positives).unsqueeze(1)
        scores = torch.cat([self.matrix(queries, column) for column in bad], dim=1)
        if self.recipe.teacher:  # the label is the goal
            return distillation_loss(good, scores, label, self.recipe.temperature, self.recipe.teacher_temperature)
        return ranking_loss(good, scores, self.recipe.loss, self.recipe.temperature, label)


class OwnRanking(torch.nn.Module):
    """A query encoder against the passages that it ranks first itself: the vectors of the passages stay as they are.

    Each of the first `negative_depth` passages that are not relevant is a negative of the positive one, pair by pair;
    a pair weighs what exchanging the two would change the reciprocal rank by (LambdaRank). Source: ADORE (Zhan et al.,
    SIGIR 2021).

    `passages`: float32[n, d].
    """

    def __init__(self, model, recipe: Trained, passages: torch.Tensor):
        super().__init__()
        self.model, self.recipe, self.passages, self.batches = model, recipe, passages, None

    def forward(self, features, label):
        vectors = self.model(features[0], task="query")["sentence_embedding"]
        scores = vectors @ self.passages.T  # [batch, n]
        good = scores.gather(1, label[:, :1])
        allowed = torch.zeros(len(self.passages), dtype=torch.bool, device=scores.device)
        allowed[torch.as_tensor(self.batches.rows, device=scores.device)] = True
        others = scores.masked_fill(~allowed, float("-inf"))
        others = others.scatter(1, torch.where(label < 0, label[:, :1], label), float("-inf"))
        bad, rows = others.topk(min(self.recipe.negative_depth, others.shape[1]), dim=1)
        met = torch.isfinite(bad)
        self.batches.count(rows[met].cpu().numpy())
        return rank_weighted_loss(good / self.recipe.temperature, bad / self.recipe.temperature, met)


def rank_weighted_loss(good, bad, met):
    """Mean over the batch of Σ |1/rank⁺ − 1/rank⁻| · log(1 + exp(s⁻ − s⁺)) over the negatives.

    Ranks are those among the positive passage and its negatives. good: [batch, 1]; bad: [batch, m] by score descending;
    met: bool[batch, m], which of them count. Taught in notebooks/06_pretraining_study.
    """
    above = ((bad > good) & met).sum(dim=1, keepdim=True)
    place = torch.arange(1, bad.shape[1] + 1, device=bad.device)
    ranks = place + (place > above)  # the positive stands between them
    weights = (1 / (1 + above) - 1 / ranks).abs()
    pairs = softplus(torch.where(met, bad - good, torch.zeros_like(bad)))
    return (weights * pairs * met).sum(dim=1).mean()


def inner_product_loss(model, recipe: Trained) -> SharedNegatives:
    """The loss of one vector a text, dense or sparse."""
    functions = lambda out: out["sentence_embedding"], lambda q, p: (q * p).sum(dim=1), lambda q, p: q @ p.T
    return SharedNegatives(model, recipe, *functions)


class Batches:
    """A collator: draws the negatives of a batch of {"pair": index} and tokenizes it; the label are barred negatives.

    A subclass says how a batch is laid out. `ranking`: rows of the passages that a model ranks first for each training
    query, best first, int[queries, depth], -1 where there are fewer (negatives: mined). `teacher`: an encoder, or a
    reranker (loss: margin-mse).
    """

    def __init__(self, model, pairs: Pairs, collection, recipe: Trained, seed: int, ranking=None, teacher=None):
        self.model, self.pairs, self.passages, self.recipe, self.seed = model, pairs, collection.passages, recipe, seed
        self.teacher = teacher
        self.relevant = np.sort(pairs.query * len(self.passages) + pairs.rows)  # sorted codes of all relevant pairs
        self.exposed = exposed_passages(collection, pairs, recipe.positive_relevance)
        drawable = drawable_passages(self.exposed, recipe.negative_passages, seed)
        self.rows = np.flatnonzero(drawable)
        if recipe.negatives.startswith("bm25"):
            ranking = bm25_ranking(collection, pairs, recipe.negative_depth)
        self.mined = None if ranking is None else negatives_of(ranking, pairs, drawable)
        self.n_negatives = self.n_exposed = 0  # met so far

    def taken(self, examples: list[dict]) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
        """Query and positive of each example, and a generator seeded by them: any process draws the same."""
        at = np.array([example["pair"] for example in examples])
        return self.pairs.query[at], self.pairs.rows[at], np.random.default_rng([self.seed, *at.tolist()])

    def barred(self, query: np.ndarray, negatives: np.ndarray) -> torch.Tensor:
        """Which negatives [batch or 1, m] are relevant to their query after all: bool[batch, m]; counts the exposed."""
        self.count(negatives)
        codes = query[:, None] * len(self.passages) + negatives
        found = np.searchsorted(self.relevant, codes).clip(max=len(self.relevant) - 1)
        return torch.as_tensor(self.relevant[found] == codes)

    def count(self, negatives: np.ndarray) -> None:
        """Note how many negatives were met, and how many of them exposed."""
        self.n_negatives += negatives.size
        self.n_exposed += int(self.exposed[negatives].sum())

    def random(self, draw: np.random.Generator, size) -> np.ndarray:
        """Random passages that may be negatives."""
        drawn, share = self.rows[draw.integers(len(self.rows), size=size)], self.recipe.negative_passages
        if isinstance(share, str):
            return drawn
        exposed = np.flatnonzero(self.exposed)
        return np.where(draw.random(size) < share, exposed[draw.integers(len(exposed), size=size)], drawn)

    def from_ranking(self, draw: np.random.Generator, query: np.ndarray) -> np.ndarray:
        """`n_negatives` of those ranked first for each query [batch, n]; random passages where there is none."""
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
        label = self.barred(query, negatives[None])
        if self.recipe.loss == "margin-mse":
            own = np.column_stack([positive, columns["negative"].reshape(len(query), -1)])
            label = torch.as_tensor(self.teacher.score(self.passages, [self.pairs.texts[row] for row in query], own))
        elif self.teacher is not None:
            label = self._goal(query, positive, negatives, label)
        return batch | {"label": label}

    def _goal(self, query, positive, negatives, barred) -> torch.Tensor:
        """The teacher's scores of the positive and the negatives, −∞ for a barred one: float32[batch, 1 + m]."""
        rows, at = np.unique(np.concatenate([positive, negatives]), return_inverse=True)
        passages = self.teacher.encode_block(self.passages.texts(rows))
        scores = self.teacher.open_queries([self.pairs.texts[row] for row in query])(passages)(slice(None))
        good, bad = at[: len(positive)], at[len(positive) :]
        good = scores[torch.arange(len(query)), torch.as_tensor(good)].unsqueeze(1)
        return torch.cat([good, scores[:, torch.as_tensor(bad)].masked_fill(barred, float("-inf"))], dim=1).float()

    def _draw(self, draw: np.random.Generator, query: np.ndarray) -> np.ndarray:
        if self.mined is None:
            return self.random(draw, self.recipe.n_negatives)
        return self.from_ranking(draw, query).ravel()


class QueryBatches(Batches):
    """Queries alone, for a model that is trained against its own ranking of all passages.

    The label: row of the example's passage, then those of all relevant ones, -1 where there are fewer: int64[batch, n].
    """

    valid_label_columns = ("label",)

    def __call__(self, examples: list[dict]) -> dict:
        query, positive, _ = self.taken(examples)
        relevant = [self.pairs.rows[self.pairs.query == row] for row in query]
        label = np.full((len(query), 1 + max(map(len, relevant))), -1)
        label[:, 0] = positive
        for row, found in zip(label, relevant, strict=True):
            row[1 : 1 + len(found)] = found
        coded = self.model.preprocess([self.pairs.texts[row] for row in query], task="query")
        return {f"query_{key}": value for key, value in coded.items()} | {"label": torch.as_tensor(label)}


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
    ranking: Path | None = None,
    teacher: Path | None = None,
) -> dict:
    """Train a model of sentence-transformers and save it to `out_dir`; the log that `model.fit` returns.

    `ranking`: a run of the training queries; `teacher`: the folder of a trained model. See `model.fit`.

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
        found = ranking and ranked_rows(ranking, collection, pairs.query_ids, recipe.negative_depth)
        collator = batches(model, pairs, collection, recipe, seed, found, teacher and load_model(teacher))
        if isinstance(loss, OwnRanking):
            loss.batches = collator
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
