"""Training of all neural architectures: batches with drawn negatives, scores, one trainer."""

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sentence_transformers
import torch
from accelerate.utils import broadcast_object_list
from datasets import Dataset
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.base.trainer import BaseTrainer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import RandomSampler
from transformers import (
    PrinterCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from interextra.data.collection import Collection
from interextra.models.model import load_model
from interextra.models.recipe import Trained
from interextra.models.retriever import transformers_of
from interextra.models.search.lucene import bm25_search
from interextra.models.search.topk import device
from interextra.models.training.checkpoints import Checkpoints, load_weights, save_weights
from interextra.models.training.losses import LEFT_OUT, losses
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
from interextra.models.training.watch import Watch
from interextra.store.errors import InputError
from interextra.store.files import read_json, write_json

Batch = dict[str, Any]  # tensors by name, as the library's trainer takes them


class Batches:
    """A collator: draws the negatives of a batch of {"pair": index} and tokenizes it.

    What says the same as a relevant passage is relevant, too, whatever its id (see
    `relevant_pairs`). A subclass says what a batch holds; its `label` says which negatives are
    barred.

    Parameters
    ----------
    tokens
        A `Tokens`.
    pairs, collection, recipe
        The training pairs, and what their negatives are.
    seed
        Of the negatives.
    ranking
        Rows of the passages that a model ranks first for each query, see `ranked_rows`.
    teacher
        A model whose scores are the loss's goal.
    spared
        doc_ids of passages that are not drawn either.
    """

    valid_label_columns = ("label",)

    def __init__(
        self,
        tokens: Any,
        pairs: Pairs,
        collection: Collection,
        recipe: Trained,
        seed: int,
        ranking: np.ndarray | None = None,
        teacher: Any = None,
        spared: Sequence[str] = (),
    ) -> None:
        self.tokens = tokens
        self.pairs = pairs
        self.passages = collection.passages
        self.recipe = recipe
        self.seed = seed
        self.teacher = teacher
        self.goal = losses()[recipe.loss].goal
        text_of = text_numbers(self.passages)
        self.relevant = relevant_pairs(pairs, text_of)
        self.exposed = exposed_passages(collection, pairs, recipe.positive_relevance, text_of)
        is_spared = spared_passages(spared, self.passages, text_of)
        self.drawable = drawable_passages(self.exposed, recipe.negative_passages, seed, is_spared)
        self.rows = np.flatnonzero(self.drawable)
        self.exposed_rows = np.flatnonzero(self.exposed & ~is_spared)
        self.mined = self._mined(collection, ranking)
        self.n_batches = 0  # whose negatives were met so far
        self.n_negatives = 0
        self.n_exposed = 0  # of these
        self.counts_before = (0, 0)  # negatives and exposed ones without those of the last batch

    def _mined(
        self,
        collection: Collection,
        ranking: np.ndarray | None,
    ) -> np.ndarray | None:
        """Return the negatives that BM25 or a model ranks first, see `negatives_of`."""
        if self.recipe.negatives.startswith("bm25"):
            depth = self.recipe.negative_depth
            ranking, _ = bm25_search(collection, self.pairs.texts, depth, k1=0.9, b=0.4)
        if ranking is None:
            return None
        return negatives_of(ranking, self.relevant, self.drawable)

    def examples_of(
        self, examples: Sequence[dict]
    ) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
        """Return query and positive of each example, and a generator for their negatives.

        It is seeded by the examples: any process draws the same.
        """
        pair = np.array([example["pair"] for example in examples])
        generator = np.random.default_rng([self.seed, *pair.tolist()])
        return self.pairs.query[pair], self.pairs.rows[pair], generator

    def texts_of(self, query: np.ndarray) -> list[str]:
        """Return the texts of queries."""
        return [self.pairs.texts[number] for number in query]

    def barred(self, query: np.ndarray, negatives: np.ndarray) -> Tensor:
        """Return which negatives are relevant to their query after all; count the exposed ones.

        `negatives` are [batch, m], or [1, m] where the batch shares them: bool[batch, m].
        """
        self.count(negatives)
        codes = query[:, None] * len(self.passages) + negatives
        place = np.searchsorted(self.relevant, codes)
        nearest = self.relevant[place.clip(max=len(self.relevant) - 1)]
        return torch.as_tensor(nearest == codes)

    def count(self, negatives: np.ndarray) -> None:
        """Note how many negatives of a batch were met, and how many of them exposed."""
        self.n_batches += 1
        self.counts_before = (self.n_negatives, self.n_exposed)
        self.n_negatives += negatives.size
        self.n_exposed += int(self.exposed[negatives].sum())

    def counts(self, n_batches: int) -> tuple[int, int]:
        """Return the negatives that so many batches met, and how many of them are exposed.

        A batch is made one step before it trains, so that there may be one more than that.
        """
        is_ahead = self.n_batches > n_batches
        return self.counts_before if is_ahead else (self.n_negatives, self.n_exposed)

    def draw_random(
        self,
        generator: np.random.Generator,
        size: int | tuple[int, ...],
    ) -> np.ndarray:
        """Draw passages; exposed ones with the probability of the recipe, if it has one."""
        rows = generator.choice(self.rows, size=size)
        share_exposed = self.recipe.negative_passages
        if isinstance(share_exposed, str):
            return rows
        is_exposed = generator.random(size) < share_exposed
        exposed_rows = generator.choice(self.exposed_rows, size=size)
        return np.where(is_exposed, exposed_rows, rows)

    def draw(self, generator: np.random.Generator, query: np.ndarray) -> np.ndarray:
        """Draw `n_negatives` for each query, [batch, n].

        They are of those ranked first, random where there is none, or no ranking.
        """
        shape = (len(query), self.recipe.n_negatives)
        if self.mined is None:
            return self.draw_random(generator, shape)
        mined = self.mined[query]
        n_mined = (mined >= 0).sum(axis=1, keepdims=True)  # padding is at the end
        place = generator.integers(np.maximum(n_mined, 1), size=shape)
        picked = np.take_along_axis(mined, place, axis=1)
        return np.where(n_mined > 0, picked, self.draw_random(generator, shape))


class EncoderBatches(Batches):
    """Query, positive and drawn negatives as columns of their own, cut to the recipe's lengths."""

    def __call__(self, examples: Sequence[dict]) -> Batch:
        """Return a batch; the label is the goal of a loss with a teacher, else what is barred."""
        query, positive, generator = self.examples_of(examples)
        drawn = self.batch_negatives(generator, query)
        in_batch = positive if self.recipe.in_batch else positive[:0]
        negatives = np.concatenate([drawn, in_batch])
        texts = self.texts_of(query)
        batch = _named("query", self.tokens.preprocess(texts, task="query"))
        batch |= self.encoded("positive", positive)
        if len(drawn):
            batch |= self.encoded("negative", drawn)
        label = self.barred(query, negatives[None])
        if self.goal:
            label = self.goal(self.teacher, self.passages, texts, positive, negatives, label)
        return batch | {"label": label}

    def batch_negatives(self, generator: np.random.Generator, query: np.ndarray) -> np.ndarray:
        """Draw the negatives of a batch, int[n]: those of each query in turn."""
        if not self.recipe.drawn():
            return np.empty(0, int)
        if self.mined is None:
            # random ones are shared by the batch anyway, so that those of one query are enough
            query = query[:1]
        return self.draw(generator, query).ravel()

    def encoded(self, name: str, rows: np.ndarray) -> Batch:
        """Return the tokens of passages, as a column of a batch."""
        texts = self.passages.texts(rows)
        return _named(name, self.tokens.preprocess(texts, task="document"))


class QueryBatches(Batches):
    """Queries alone, for a loss that takes the passages itself.

    The label: row of the example's passage, then those of all relevant ones, -1 where there are
    fewer: int64[batch, n].
    """

    def __call__(self, examples: Sequence[dict]) -> Batch:
        """Return a batch of queries, tokenized, and their labels."""
        query, positive, _ = self.examples_of(examples)
        n_passages = len(self.passages)
        labels = []
        for query_number, row in zip(query, positive, strict=True):
            first_code = query_number * n_passages
            start, end = np.searchsorted(self.relevant, [first_code, first_code + n_passages])
            relevant = self.relevant[start:end] - first_code
            labels.append(torch.as_tensor(np.append(row, relevant)))
        label = pad_sequence(labels, batch_first=True, padding_value=-1)
        tokens = self.tokens.preprocess(self.texts_of(query), task="query")
        return _named("query", tokens) | {"label": label}


class PairBatches(Batches):
    """Each positive with its own negatives, as pairs of query and passage.

    [positives, first negatives, second …]
    """

    def __call__(self, examples: Sequence[dict]) -> Batch:
        """Return a batch; the label is what is barred, bool[batch, negatives]."""
        query, positive, generator = self.examples_of(examples)
        rows = [positive, *self.draw(generator, query).T]
        if self.recipe.in_batch:  # positives of the batch's other queries
            places = range(1, self.recipe.n_negatives + 1)
            rows += [np.roll(positive, place) for place in places]
        table = np.stack(rows)  # [1 + negatives, batch]
        queries = self.texts_of(query) * len(table)
        passages = self.passages.texts(table.ravel())
        pairs = list(zip(queries, passages, strict=True))
        batch = _named("pair", self.tokens.preprocess(pairs))
        return batch | {"label": self.barred(query, table[1:].T)}


def _named(column: str, tokens: Batch) -> Batch:
    """Name the tokens of a column of a batch, as the library's trainer tells columns apart."""
    return {f"{column}_{name}": value for name, value in tokens.items()}


def drawable_passages(
    exposed: np.ndarray, which: str | float, seed: int, spared: np.ndarray
) -> np.ndarray:
    """Return bool[passages]: what may be drawn as a negative, without the `spared`.

    `which` is that of `recipe.Trained.negative_passages`; InputError where nothing is left.
    """
    drawable = ~spared
    if which == "control":
        generator = np.random.default_rng(seed)
        left_out = generator.choice(len(exposed), exposed.sum(), replace=False)
        drawable[left_out] = False
    elif which != "all":
        drawable &= ~exposed
    lacks_exposed = isinstance(which, float) and spared[exposed].all()
    if lacks_exposed or not drawable.any():
        counts = f"{exposed.sum()} of {len(exposed)} passages are exposed"
        if spared.any():
            counts += f", {spared.sum()} are spared"
        raise InputError(
            f"negative_passages = {which}: {counts}, so that none is left to draw; use all"
        )
    return drawable


def ranking_loss(good: Tensor, bad: Tensor, label: Tensor | None, recipe: Trained) -> Tensor:
    """Return the recipe's loss of the scores of positives [batch, 1] and of negatives [batch, m].

    `label`: of a loss with a teacher its goal, else bool[batch, m], negatives that are relevant and
    left out, or None.
    """
    loss = losses()[recipe.loss]
    good = good / recipe.temperature
    bad = bad / recipe.temperature
    if loss.goal is None and label is not None:
        bad = bad.masked_fill(label, LEFT_OUT)
    return loss(good, bad, label, recipe)


class Scoring(NamedTuple):
    """How a loss comes from an encoder's output to scores."""

    represent: Callable  # output of the model → representation [n, …]
    of_rows: Callable  # queries, passages → [n] scores of row i with row i
    of_all: Callable  # queries, passages → [n, m] scores of all pairs


INNER_PRODUCT = Scoring(
    represent=lambda output: output["sentence_embedding"],
    of_rows=lambda queries, passages: (queries * passages).sum(dim=1),
    of_all=lambda queries, passages: queries @ passages.T,
)


class SharedNegatives(torch.nn.Module):
    """The loss of encoders: all queries of a batch share its negatives, or each has its own."""

    def __init__(self, model: Any, recipe: Trained, scoring: Scoring) -> None:
        super().__init__()
        self.model = model
        self.recipe = recipe
        self.scoring = scoring

    def forward(self, features: Sequence[dict], label: Tensor) -> Tensor:
        """Return the loss of a batch of `EncoderBatches`, by columns."""
        columns = []
        for number, tokens in enumerate(features):
            output = self.model(tokens, task="document" if number else "query")
            columns.append(self.scoring.represent(output))
        return self.compute_loss_from_embeddings(columns, label)

    def compute_loss_from_embeddings(self, columns: Sequence[Any], label: Tensor) -> Tensor:
        """Return the loss of representations of queries, positives and, if any, negatives."""
        queries, positives, *drawn = columns
        good = self.scoring.of_rows(queries, positives).unsqueeze(1)
        if "query" in losses()[self.recipe.loss].kinds:
            own = drawn[0].unflatten(0, (len(queries), -1)).unbind(1)
            scores = [self.scoring.of_rows(queries, negatives) for negatives in own]
            bad = torch.stack(scores, dim=1)
        else:
            shared = [*drawn, positives] if self.recipe.in_batch else drawn
            scores = [self.scoring.of_all(queries, negatives) for negatives in shared]
            bad = torch.cat(scores, dim=1)
        return ranking_loss(good, bad, label, self.recipe)


class DynamicHardNegatives(torch.nn.Module):
    """A query encoder against the passages that it ranks first itself at each step.

    The first `negative_depth` not relevant are the negatives (ADORE: Zhan et al., 2021). The
    vectors of the passages, float32[n, d], stay as they are.
    """

    batches: QueryBatches  # set by the trainer

    def __init__(self, model: Any, recipe: Trained, passages: np.ndarray) -> None:
        super().__init__()
        self.model = model
        self.recipe = recipe
        self.passages = torch.as_tensor(passages).to(device())

    def forward(self, features: Sequence[dict], label: Tensor) -> Tensor:
        """Return the loss of a batch of `QueryBatches`."""
        queries = self.model(features[0], task="query")["sentence_embedding"]
        scores = queries @ self.passages.T  # [batch, n]
        positive = label[:, :1]
        relevant = torch.where(label < 0, positive, label)
        barred = torch.as_tensor(~self.batches.drawable, device=scores.device)
        others = scores.masked_fill(barred, LEFT_OUT)
        others = others.scatter(1, relevant, LEFT_OUT)
        depth = min(self.recipe.negative_depth, others.shape[1])
        bad, rows = others.topk(depth, dim=1)
        negatives = rows[torch.isfinite(bad)]
        self.batches.count(negatives.cpu().numpy())
        return ranking_loss(scores.gather(1, positive), bad, None, self.recipe)


class PairLoss(torch.nn.Module):
    """The loss of cross-encoders."""

    def __init__(self, model: Any, recipe: Trained) -> None:
        super().__init__()
        self.model = model
        self.recipe = recipe

    def forward(
        self,
        features: Sequence[dict],
        barred: Tensor,
        prompt: None = None,
        task: None = None,
    ) -> Tensor:
        """Return the loss of a batch of `PairBatches`; prompt and task are the library's."""
        pair_scores = self.model(features[0])["scores"]
        scores = pair_scores.view(-1, len(barred)).T  # [batch, 1 + negatives]
        # hardly ever: only random negatives can be relevant
        label = barred if barred.any() else None
        good, bad = scores.tensor_split([1], dim=1)
        return ranking_loss(good, bad, label, self.recipe)


@reproducible()
def train(
    loss: Any,
    recipe: Trained,
    collection: Collection,
    query_ids: Sequence[str],
    split: str,
    seed: int,
    out_dir: Path,
    batches: type[Batches] = EncoderBatches,
    ranking: Path | None = None,
    teacher: Path | None = None,
    spared: Path | None = None,
    checkpoints: Checkpoints | None = None,
) -> dict:
    """Train the `model` of a loss, one of sentence-transformers, and save it to `out_dir`.

    `batches` are those that the loss takes; all else is as in `model.fit`. Returns the training
    log.
    """
    model = loss.model
    pairs = training_pairs(collection, query_ids, split, recipe.positive_relevance)
    n_pairs = len(pairs.rows)
    arguments = _training_arguments(model, recipe, n_pairs, seed, out_dir)
    rows = None
    if ranking:
        rows = ranked_rows(ranking, collection, pairs.query_ids, recipe.negative_depth)
    collator = batches(
        Tokens(model),
        pairs,
        collection,
        recipe,
        seed,
        ranking=rows,
        teacher=load_model(teacher) if teacher else None,
        spared=read_spared(spared),
    )
    loss.batches = collator  # where the loss draws the negatives itself
    trainer = _trainer_class(model, recipe.processes, checkpoints)(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_dict({"pair": np.arange(n_pairs)}),
        loss=loss,
        data_collator=collator,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Watch(out_dir))
    newest = None
    if checkpoints:
        newest = checkpoints.newest()
        trainer.add_callback(Saving(trainer, checkpoints, newest))
    if arguments.max_steps:
        trainer.train(resume_from_checkpoint=str(newest) if newest else None)
    _save(model, out_dir)
    return _training_log(trainer, collator)


class Saving(TrainerCallback):
    """Writes checkpoints of a trainer, and adds to them what the library leaves out.

    Parameters
    ----------
    trainer
        Of `_trainer_class`, whose collator is a `Batches`.
    checkpoints
        Where and when they are written.
    start
        The checkpoint that the training goes on from.
    """

    def __init__(self, trainer: Any, checkpoints: Checkpoints, start: Path | None) -> None:
        self.trainer = trainer
        self.collator = trainer.data_collator
        self.checkpoints = checkpoints
        self.start = start
        self.file = f"counts_{trainer.args.process_index}.json"

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Go back to what was counted until the checkpoint that the training starts from."""
        if self.start is None:
            return
        counts = read_json(self.start / self.file)
        self.collator.n_batches = counts["batches"]
        self.collator.n_negatives = counts["negatives"]
        self.collator.n_exposed = counts["exposed"]
        self.trainer._tr_loss += counts["loss"]
        self.trainer._globalstep_last_logged = counts["logged"]

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Ask for a checkpoint when it is time by the clock of the first process."""
        is_due, *_ = broadcast_object_list([self.checkpoints.is_due()])
        control.should_save |= is_due

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Add the counts of this process to the checkpoint, and finish it when all have."""
        path = self.checkpoints.path_of(state.global_step)
        n_batches = state.global_step * args.gradient_accumulation_steps
        n_negatives, n_exposed = self.collator.counts(n_batches)
        counts = {
            "batches": n_batches,
            "negatives": n_negatives,
            "exposed": n_exposed,
            "loss": self.trainer._tr_loss.item(),  # the sum since it was logged
            "logged": self.trainer._globalstep_last_logged,
        }
        write_json(path / self.file, counts)
        self.trainer.accelerator.wait_for_everyone()
        if state.is_world_process_zero:
            self.checkpoints.finish(path)


def _training_log(trainer: Any, collator: Batches) -> dict:
    """Return what a training did, as `model.fit` gives it."""
    history = [entry for entry in trainer.state.log_history if "loss" in entry]
    counts = torch.tensor([collator.n_negatives, collator.n_exposed], device=trainer.args.device)
    n_negatives, n_exposed = trainer.accelerator.reduce(counts).tolist()  # of all processes
    return {
        "steps": trainer.args.max_steps,
        "loss": [[entry["step"], round(entry["loss"], 5)] for entry in history],
        "pairs": len(collator.pairs.rows),
        "queries": len(collator.pairs.texts),
        "exposed_passages": float(collator.exposed.mean()),  # share of the collection
        # share of what the loss has seen
        "exposed_negatives": n_exposed / max(1, n_negatives),
        "parameters": sum(weights.numel() for weights in trainer.model.parameters()),
        "device": device(),
    }


def _training_arguments(
    model: Any, recipe: Trained, n_pairs: int, seed: int, out_dir: Path
) -> TrainingArguments:
    """Return the arguments of the library's trainer; `Saving` asks for checkpoints."""
    steps = recipe.training_steps(n_pairs)
    on_cpu = device() == "cpu"
    is_distributed = "RANK" in os.environ
    arguments = getattr(sentence_transformers, f"{type(model).__name__}TrainingArguments")(
        output_dir=str(out_dir),
        max_steps=steps,
        per_device_train_batch_size=recipe.batch_size,
        gradient_accumulation_steps=_batches_of_process(recipe, n_pairs),
        learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup_steps,
        weight_decay=recipe.weight_decay,
        bf16=recipe.precision == "bf16",
        seed=seed,
        use_cpu=on_cpu,
        ddp_backend="gloo" if on_cpu and is_distributed else None,
        logging_steps=max(1, steps // 50),
        save_strategy="no",
        disable_tqdm=True,
        dataloader_drop_last=n_pairs >= recipe.batch_size,
        dataloader_pin_memory=not on_cpu,
    )
    # else a process that sees several GPUs gives each a batch, so that a step takes several
    arguments._n_gpu = min(arguments.n_gpu, 1)
    return arguments


def _batches_of_process(recipe: Trained, n_pairs: int) -> int:
    """Return how many batches a process takes a step.

    InputError for other processes than the recipe says, and for fewer pairs than a step takes.
    """
    n_running = int(os.environ.get("WORLD_SIZE", 1))
    if recipe.processes % n_running:
        raise InputError(
            f"{n_running} processes train together, and the recipe says processes = "
            f"{recipe.processes}: start as many, or one"
        )
    n_needed = recipe.processes * recipe.batch_size
    if recipe.processes > 1 and n_pairs < n_needed:
        raise InputError(
            f"a step takes {n_needed} training pairs (processes = {recipe.processes}, batch_size = "
            f"{recipe.batch_size}), and there are {n_pairs}: give more queries, or fewer processes"
        )
    return recipe.processes // n_running


class WholeSteps(DefaultBatchSampler):
    """Batches of which an epoch has as many as its steps take, for one process or several.

    The pairs that are left over change with the epoch. `options` are those of the library's class.
    """

    def __init__(self, batches_a_step: int, dataset: Dataset, **options: Any) -> None:
        super().__init__(RandomSampler(dataset, generator=options["generator"]), **options)
        self.batches_a_step = batches_a_step

    def __len__(self) -> int:
        """Return the number of batches."""
        n_batches = super().__len__()
        return n_batches - n_batches % self.batches_a_step

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the pairs of each batch."""
        return islice(super().__iter__(), len(self))


def _trainer_class(model: Any, processes: int, checkpoints: Checkpoints | None) -> type:
    """Return the library's trainer of a model, with our batches and without a model card."""

    class Trainer(getattr(sentence_transformers, f"{type(model).__name__}Trainer")):
        """A trainer whose batches are tokenized already, and whose checkpoints hold no pickles."""

        # tokenized by the collator, for a cross-encoder too
        collect_features = BaseTrainer.collect_features

        def add_model_card_callback(self, default_args_dict: dict) -> None:
            """No model card: it prints progress and describes what the recipe says already."""

        def get_batch_sampler(self, dataset: Dataset, **options: Any) -> DefaultBatchSampler:
            """Return the library's batches, for several processes those of whole steps."""
            if processes == 1:
                return super().get_batch_sampler(dataset, **options)
            return WholeSteps(processes, dataset, **options)

        def _get_output_dir(self, trial: None) -> str:
            """Return where checkpoints are written."""
            return str(checkpoints.folder) if checkpoints else super()._get_output_dir(trial)

        def _save(self, output_dir: str, state_dict: None = None) -> None:
            """Write the weights of a checkpoint."""
            if self.args.should_save:
                save_weights(self.model, Path(output_dir))

        def _load_from_checkpoint(self, checkpoint_path: str) -> None:
            """Read the weights of a checkpoint."""
            load_weights(self.model, Path(checkpoint_path))

    return Trainer


def _save(model: Any, out_dir: Path) -> None:
    """Save a trained model to `out_dir`."""
    # else tokenizer.json holds the lengths of the texts that were tokenized last
    for words in transformers_of(model):
        words.tokenizer.backend_tokenizer.no_truncation()
        words.tokenizer.backend_tokenizer.no_padding()
    model.save_pretrained(str(out_dir), create_model_card=False, safe_serialization=True)
