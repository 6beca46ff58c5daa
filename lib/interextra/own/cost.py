"""Notebook 12: what `probe` takes on this machine, measured in its first seconds, stage by stage.

Processes that work side by side slow each other down, so that as many measure as will train.
"""

import heapq
import importlib
import itertools
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from interextra.data.collection import Passages
from interextra.data.queries import Queries
from interextra.models.architectures.reranker import Reranker
from interextra.models.encoders import seconds_of
from interextra.models.model import fit, load_model
from interextra.models.prices import INDEXED_PER_SECOND
from interextra.models.recipe import Recipe, Trained, changed
from interextra.models.retriever import Encoder
from interextra.models.search.run import Run
from interextra.models.search.topk import device, exact_search
from interextra.own import distance, splitting
from interextra.own.fine_tuning import OwnTraining, Trial
from interextra.own.probe import DEPTH
from interextra.own.steps import Elapsed, elapsed
from interextra.splits.split import REGIMES, OfVectors
from interextra.stats.effects import effects
from interextra.store import Cell, InputError, Store, write_json, write_text
from interextra.store.files import read_json
from interextra.store.progress import lasting
from interextra.store.schedule import build_all, n_workers
from interextra.store.workers import WorkerLostError

SPEED = "speed.json"
FILE = "cost.csv"
BUDGET = 4.0  # seconds, see `Measurement`
MOST_STEPS = 50  # so few that the loss of each is logged
N_TEXTS = 2048  # sampled, of which as many are encoded as the budget allows
BATCH = 128  # texts at once, as in a search
FEW = 16  # texts at once of a slow encoder
LEAST_BATCHES = 4
N_QUERIES = 256  # that search at once
# What no model takes part in: seconds of one core of a server, on which `_pace` is PACE
PACE = 0.028
FREE = 0.5  # cores that may be taken though all are needed
IMPORTED = 7.0  # what the split and the report import
BM25_STARTED = 2.0
BM25_QUERY = 5e-3
REPORTED_QUERY = 1e-3
REPORTED_ROW = 1e-6  # of a run: read, written as text, measured
WRITTEN_ROW = 5e-7  # of a run, in the store
# Stages, in the order of the table; the first two are over when the table is printed
PLANNING = "plan, over"
MEASURING = "measuring this machine, over"
SPLITTING = "split and its files"
LEXICAL = "BM25"
START = "start of processes"
TRIALS = "short trainings for the rate"
TRAINING = "training of a model"
ENCODING = "encoding the passages"
SEARCH = "search"
RERANKING = "reranking"
REPORTING = "runs and report"
STAGES = (
    PLANNING,
    MEASURING,
    SPLITTING,
    LEXICAL,
    START,
    TRIALS,
    TRAINING,
    ENCODING,
    SEARCH,
    RERANKING,
    REPORTING,
)
IN_ALL = "in all"
COLUMNS = ["stage", "times", "seconds each", "core seconds", "seconds"]
TAKEN = "taken"


class Speed(NamedTuple):
    """Seconds that a process takes beside others that do the same."""

    imports: float
    prepared: float  # a training without its steps
    step: float
    opened: float  # a trained model
    passage: float  # encoded, on average
    query: float
    pair: float  # a query compared with a passage, and the best ones kept
    reranked: float  # a query and a passage, read together
    pace: float  # of a small computation without a model, as PACE
    loss: float  # of the last step
    n_steps: float


class Measurement(Cell):
    """The speed of a process of this machine with a recipe: no store of results keeps it."""

    recipe: Recipe
    pool: Queries
    n_train: int  # queries of a training set
    number: int  # of the process
    budget: float  # seconds for each of: steps of a training, passages, queries

    def build(self, folder: Path, store: Store) -> None:
        """Train a few steps; encode and search a few texts of the collection."""
        importlib.import_module("interextra.models.training.trainer")
        imports = time.process_time()  # since the process began
        weights = folder / "weights"
        found = self._trained(weights)
        found["opened"] = _timed(load_model, weights)
        found |= self._searched(load_model(weights))
        shutil.rmtree(weights)
        speed = Speed(imports=imports, pace=_pace(), **found)
        write_json(folder / SPEED, speed._asdict())

    def _trained(self, weights: Path) -> dict[str, Any]:
        """Train until the budget is used."""
        from interextra.models.training.watch import clocked

        recipe = changed(self.recipe, steps=MOST_STEPS, epochs=None)
        every_id = self.pool.ids()
        n_train = min(self.n_train, len(every_id))
        generator = np.random.default_rng(0)
        query_ids = generator.choice(every_id, n_train, replace=False).tolist()
        now = _clock()
        began = now()
        with clocked(now, self.budget) as clock:
            log = fit(recipe, self.pool.source.open(), query_ids, self.pool.split, 1, weights)
        seconds = now() - began
        return {
            "prepared": seconds - clock.seconds,
            "step": clock.step,
            "loss": log["loss"][-1][1],
            "n_steps": len(clock.ends),
        }

    def _searched(self, model: Any) -> dict[str, float]:
        """Encode passages and queries and compare them, or read pairs."""
        passages = self.pool.source.open().passages
        every_query = self.pool.frame()["text"]
        n_queries = min(N_TEXTS, len(every_query))
        queries = every_query.sample(n_queries, random_state=0).tolist()
        found = dict.fromkeys(("passage", "query", "pair", "reranked"), 0.0)
        if isinstance(model, Reranker):
            found["reranked"] = _seconds_of_pair(model, passages, queries, self.budget)
        elif isinstance(model, Encoder):
            generator = np.random.default_rng(0)
            n_passages = min(N_TEXTS, len(passages))
            rows = generator.choice(len(passages), n_passages, replace=False)
            texts = passages.texts(np.sort(rows))
            found["passage"] = _seconds_of_text(model.encode_block, texts, self.budget)
            found["query"] = _seconds_of_text(model.open_queries, queries, self.budget)
            found["pair"] = _seconds_of_comparison(model, passages, queries[:N_QUERIES])
        return found

    def title(self) -> str:
        """Return what a reader calls it."""
        return f"speed of process {self.number}"


def _clock() -> Callable[[], float]:
    """Return what tells the time: of this process alone, unless a GPU computes.

    So it is the time of a machine that does nothing else.
    """
    return time.process_time if device() == "cpu" else time.perf_counter


def _timed(function: Callable, *arguments: Any) -> float:
    """Return the seconds of a call."""
    now = _clock()
    began = now()
    function(*arguments)
    return now() - began


def _pace() -> float:
    """Return the seconds of a small bootstrap, as they are taken without any model."""
    generator = np.random.default_rng(0)
    keys = itertools.product(map(str, range(300)), REGIMES, "12")
    values = pd.DataFrame(keys, columns=["query_id", "regime", "seed"])
    values = values.assign(model="", measure="")
    values["value"] = generator.random(len(values))
    labels = ["model", "measure"]
    compare = partial(effects, values, labels, "regime", REGIMES, seed=1, n_boot=2000)
    compare()  # the warm-up
    return _timed(compare)


def _seconds_of_text(encode: Callable, texts: list[str], budget: float) -> float:
    """Return the mean seconds of a text, encoded with others of its length, as in a search."""
    texts = sorted(texts, key=len)
    longest = texts[-FEW:]
    encode(longest)  # the warm-up
    per_text = _timed(encode, longest) / len(longest)
    size = BATCH if per_text * BATCH < budget / LEAST_BATCHES else FEW
    starts = range(0, len(texts), size)
    batches = [texts[start : start + size] for start in starts]
    n_affordable = int(budget / (per_text * size))
    n_batches = min(max(n_affordable, LEAST_BATCHES), len(batches))
    numbers = np.arange(n_batches)
    middles = (numbers + 0.5) * len(batches) / n_batches
    chosen = [batches[place] for place in middles.astype(int)]
    seconds = sum(_timed(encode, batch) for batch in chosen)
    return seconds / sum(map(len, chosen))


def _seconds_of_comparison(model: Encoder, passages: Passages, queries: list[str]) -> float:
    """Return the seconds in which a query is compared with a passage, and the best ones kept."""
    import torch

    block = model.encode_block(passages.texts(slice(BATCH)))
    score = model.open_queries(queries)(block)
    every_query = slice(None)
    n_pairs = score(every_query).numel()
    compared = _timed(score, every_query) / n_pairs
    n_passages = min(len(passages), model.block_size)
    scores = torch.rand(len(queries), n_passages, device=device())

    def open_block(block: None) -> Callable:
        """Return the scores of some queries, which are there already."""
        return lambda some_queries: scores[some_queries]

    arguments = (passages, [None], open_block, len(queries), DEPTH, model.query_block)
    kept = _timed(exact_search, *arguments) / scores.numel()
    return compared + kept


def _seconds_of_pair(
    model: Reranker, passages: Passages, queries: list[str], budget: float
) -> float:
    """Return the mean seconds in which a query and a random passage are read together."""
    generator = np.random.default_rng(0)

    def scored(n_pairs: int) -> float:
        """Return the seconds of a query with so many passages."""
        rows = generator.integers(len(passages), size=(1, n_pairs))
        return _timed(model.score, passages, queries[:1], rows)

    scored(FEW)  # the warm-up
    n_affordable = int(budget / scored(FEW)) * FEW
    n_pairs = min(max(n_affordable, FEW), N_TEXTS)
    return scored(n_pairs) / n_pairs


def measurements(training: OwnTraining) -> list[Measurement]:
    """Return as many measurements as processes will train side by side.

    Raises
    ------
    InputError
        The recipe trains others first.
    """
    recipe = training.recipe
    first_stages = recipe.needs()
    if first_stages:
        raise InputError(
            f"--check: this recipe trains other models first ({', '.join(first_stages)}), "
            "which --check does not; run without it"
        )
    pool = training.split.pool
    cells = []
    for number in range(1, n_workers(training.n_trainings) + 1):
        measurement = Measurement(
            recipe=recipe,
            pool=pool,
            n_train=training.set_size,
            number=number,
            budget=BUDGET,
        )
        cells.append(measurement)
    return cells


def measure(training: OwnTraining) -> Speed:
    """Measure as many processes as will train side by side; return the mean of them.

    Raises
    ------
    InputError
        The model cannot be trained or loaded, memory does not suffice, or the recipe trains others
        first.
    """
    cells = measurements(training)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        try:
            build_all(store, cells)
        except WorkerLostError as error:
            raise InputError(
                f"probe: {error}. {len(cells)} processes train side by side: give a lower "
                "--batch-size or --passage-length"
            ) from None
        paths = [store.path(cell) / SPEED for cell in cells]
        speeds = [Speed(**read_json(path)) for path in paths]
    return Speed(*np.mean(speeds, axis=0).tolist())


class Spent(NamedTuple):
    """What a command has taken before its price is known, and what it measures again."""

    began: Elapsed  # when the command began
    planned: Elapsed  # when it began to measure
    is_kept: bool = False  # whether the speed was measured earlier today
    is_check: bool = False  # whether another command trains, which takes up what was measured

    def rows(self) -> list[tuple[str, float, float]]:
        """Return stage, core seconds and seconds of what is over, of the command that trains."""
        plan = self.planned.since(self.began)
        measurement = elapsed().since(self.planned)
        rows = [(PLANNING, plan.cores, plan.wall)]
        if not self.is_check:
            rows.append((MEASURING, measurement.cores, measurement.wall))
        return rows

    def sentence(self) -> str:
        """Return what a check has taken itself, and what follows for the next command."""
        taken = elapsed().since(self.began)
        measured = "What it measured is kept for today"
        if self.is_kept:
            measured = "It took the speed that was measured earlier today"
        return (
            f"This check took {lasting(taken.wall)} ({taken.cores:,.0f} s of one core). "
            f"{measured}: a probe or a check of this model with these settings does not measure "
            "again."
        )


class Prices:
    """What `probe` costs at a speed, without what is already there.

    Parameters
    ----------
    speed
        That of `measure`.
    training
        What is to be computed.
    out
        The folder of the report, where the split may be already.
    load
        Cores that other processes took before this one began.
    options
        Of the split, see `splitting.DEFAULTS`: which encoders read its queries.
    per_text
        Encoder → seconds of a query, of those that were timed already; the others are timed.
    spent
        What the command has taken so far; None: it begins now.
    """

    def __init__(
        self,
        speed: Speed,
        training: OwnTraining,
        out: Path,
        load: float = 0.0,
        options: splitting.Options = splitting.DEFAULTS,
        per_text: Mapping[str, float] | None = None,
        spent: Spent | None = None,
    ) -> None:
        self.speed = speed
        self.training = training
        self.load = load
        self.options = options
        self.has_split = (out / "split").is_dir()
        self.n_passages = training.split.pool.source.n_passages()
        self.n_pairs = training.n_pairs()
        self.per_text = dict(per_text or {})
        self.spent = spent
        self.stages = self._table()
        self.began = spent.began if spent else elapsed()

    def of(self, cell: Cell) -> float:
        """Return the seconds of a cell, in a process beside others."""
        stages = self._stages_of(cell)
        return sum(stages.values()) if stages else cell.seconds()

    def _stages_of(self, cell: Cell) -> dict[str, float]:
        """Return the seconds of a cell by stage; {} for one that no model computes."""
        recipe = getattr(cell, "recipe", None)
        if not isinstance(recipe, Trained):
            return {}
        speed = self.speed
        if isinstance(cell, Run):
            return self._stages_of_search(cell.n_queries(), recipe)
        steps = recipe.training_steps(self.n_pairs)
        seconds = speed.prepared + steps * speed.step
        if isinstance(cell, Trial):
            n_candidates = cell.n_queries * (cell.depth + 1)
            n_ranked = min(n_candidates, self.n_passages)
            return {TRIALS: seconds + speed.opened + n_ranked * speed.passage}
        return {TRAINING: seconds}

    def _stages_of_search(self, n_queries: int, recipe: Trained) -> dict[str, float]:
        """Return the seconds of a search: passages once, queries, and what is kept of them."""
        speed = self.speed
        written = n_queries * DEPTH * WRITTEN_ROW
        compared = n_queries * (speed.query + self.n_passages * speed.pair)
        stages = {SEARCH: compared + written}
        if speed.reranked:
            n_pairs = n_queries * recipe.rerank_depth
            stages[SEARCH] += n_queries * BM25_QUERY
            stages[RERANKING] = speed.opened + n_pairs * speed.reranked
        else:
            stages[ENCODING] = speed.opened + self.n_passages * speed.passage
        return stages

    def _table(self) -> pd.DataFrame:
        """Return what each stage costs, as COLUMNS; the last row is the sum."""
        alone = self._of_this_process()
        rows = [(stage, seconds, seconds) for stage, seconds in alone.items()]
        for jobs in self._builds():
            rows += self._of_workers(jobs)
        if self.spent:
            rows += self.spent.rows()  # the encoders are timed by now
        parts = pd.DataFrame(rows, columns=["stage", "core seconds", "seconds"])
        by_stage = parts.groupby("stage")
        table = by_stage.sum()
        table["times"] = by_stage.size()
        table["seconds each"] = table["core seconds"] / table["times"]
        order = [stage for stage in STAGES if stage in table.index]
        table = table.loc[order]
        table.loc[IN_ALL] = table[["core seconds", "seconds"]].sum()
        return table.reset_index()[COLUMNS]

    def _of_workers(self, jobs: list[list[Cell]]) -> list[tuple[str, float, float]]:
        """Return stage, seconds, and what of them passes, of results computed side by side."""
        at_once = n_workers(len(jobs))
        imports = self.speed.imports
        rows = [(START, imports, imports / at_once)] * at_once
        stages = [_summed(self._stages_of(cell) for cell in job) for job in jobs]
        seconds = [sum(of_job.values()) for of_job in stages]
        passing = side_by_side(seconds) / sum(seconds)
        for of_job in stages:
            rows += [(stage, each, each * passing) for stage, each in of_job.items()]
        return rows

    def _builds(self) -> list[list[list[Cell]]]:
        """Return the results that are computed side by side; a list has what one process does."""
        training = self.training
        missing = training.missing()
        first: list[list[Cell]] = [[training.given.model, training.given]]
        first += [[trial] for trial in training.trials]
        trained: list[list[Cell]] = [[run.model, run] for run in training.planned_runs()]
        builds = [first, trained] if training.trials else [first + trained]
        todo = []
        for build in builds:
            jobs = [[cell for cell in chain if cell in missing] for chain in build]
            todo.append([job for job in jobs if job])
        return [jobs for jobs in todo if jobs]

    def _of_this_process(self) -> dict[str, float]:
        """Return the seconds of the stages that no worker computes."""
        training = self.training
        n_searched = training.given.n_queries()
        n_runs = training.n_trainings + 2  # and those of BM25 and of the model as given
        pace = self.speed.pace / PACE
        n_rows = n_runs * n_searched * DEPTH
        stages = {REPORTING: n_searched * REPORTED_QUERY + n_rows * REPORTED_ROW}
        if not self.has_split:
            stages[SPLITTING] = IMPORTED
        if training.store.missing([training.lexical]):
            indexed = self.n_passages / INDEXED_PER_SECOND
            stages[LEXICAL] = BM25_STARTED + indexed + n_searched * BM25_QUERY
        stages = {stage: pace * seconds for stage, seconds in stages.items()}
        if not self.has_split:
            stages[SPLITTING] += self._encoding_seconds()
        return stages

    def _encoding_seconds(self) -> float:
        """Return the seconds in which encoders read the queries of the split, timed here.

        One that divides them reads all. One that only says how far the sets lie apart reads the
        training queries and some N_TESTED others, for which as many of them stand.
        """
        training = self.training
        split = training.split
        seconds = 0.0
        divided = splitting.texts_to_encode(split, training.store)
        if divided:
            seconds += self._encoder_seconds(split.vectors.encoder, divided)
        texts = split.pool.frame()["text"].tolist()
        searched = splitting.searched_queries(split, training.gate)
        n_searched = sum(queries.size() for queries in searched)
        first, other = distance.encoders_of(split, len(texts), n_searched, self.options)
        describing = {other}
        if not isinstance(split, OfVectors):  # no vectors of the first one are there
            describing.add(first)
        for encoder in sorted(describing):
            seconds += self._encoder_seconds(encoder, texts + texts[: distance.N_TESTED])
        return seconds

    def _encoder_seconds(self, encoder: str, texts: list[str]) -> float:
        """Return the seconds in which an encoder reads texts, timed once."""
        if encoder not in self.per_text:
            self.per_text[encoder] = seconds_of(encoder, texts) / len(texts)
        return self.per_text[encoder] * len(texts)

    def __str__(self) -> str:
        """Return the table of stages as text, and above it what was measured."""
        speed = self.speed
        is_kept = self.spent is not None and self.spent.is_kept
        when = "earlier today" if is_kept else "here"
        formats = {"times": "{:.0f}".format, "seconds each": "{:,.1f}".format}
        text = self.stages.to_string(
            index=False, na_rep="", formatters=formats, float_format="{:,.0f}".format
        )
        return (
            f"Measured {when}: {speed.n_steps:.0f} training steps of {speed.step:.2f} s (loss "
            f"{speed.loss:.3f}), and a sample of the texts. It will take about "
            f"{lasting(self.seconds)} on this machine when it is otherwise idle{self._over()}"
            f"{self._busy()}:\n"
            f"{text}"
        )

    def _over(self) -> str:
        """Return, after a comma, how much of it is over; "" where nothing was taken before."""
        is_over = self.stages["stage"].isin([PLANNING, MEASURING])
        if not is_over.any() or self.spent is None or self.spent.is_check:
            return ""
        seconds = self.stages.loc[is_over, "seconds"].sum()
        return f", of which {lasting(seconds)} are over"

    def _busy(self) -> str:
        """Return, after a semicolon, that others take cores that are needed; "" if they do not."""
        n_all = os.cpu_count() or 1
        n_needed = n_workers(self.training.n_trainings)
        if self.load + n_needed < n_all + FREE:
            return ""
        return (
            f"; other processes took about {self.load:.1f} of its {n_all} cores at the start, and "
            "while they do it takes longer"
        )

    def cheaper(self) -> str:
        """Return which options save most, as shares of the core seconds of all stages."""
        told = []
        savings = self._savings()
        for option in sorted(savings, key=savings.__getitem__, reverse=True):
            percent = round(100 * savings[option])
            if percent:
                told.append(f"{percent} % by {option}")
        told.append("a part of all by a smaller model (-m)")
        return f"To save core seconds: {', '.join(told)}."

    def _savings(self) -> dict[str, float]:
        """Return the share of the core seconds that each option saves."""
        training = self.training
        recipe = training.recipe
        if not isinstance(recipe, Trained):
            return {}
        missing = training.missing()
        runs = [run for run in training.planned_runs() if run in missing]
        models = [run.model for run in runs if run.model in missing]
        first_seed = training.seeds[0]
        share_of_others = 1 - 1 / len(training.seeds)
        all_seconds = sum(map(self.of, [*runs, *models]))
        seconds = {f"--seeds {first_seed}": share_of_others * all_seconds}
        seconds |= self._by_fewer_steps(recipe, len(models))
        seconds |= self._by_shorter_passages(recipe, len(models), len(runs))
        return {option: saved / self.core_seconds for option, saved in seconds.items()}

    def _by_fewer_steps(self, recipe: Trained, n_models: int) -> dict[str, float]:
        """Return the seconds that half of the epochs save, by option."""
        steps = recipe.training_steps(self.n_pairs)
        epochs = recipe.epochs or steps * recipe.batch_size / max(self.n_pairs, 1)
        half = changed(recipe, epochs=epochs / 2, steps=None)
        option = f"--epochs {half.epochs:.2g}"
        if recipe.epochs:
            option += f" or --size {self.training.set_size // 2}"
        n_fewer = steps - half.training_steps(self.n_pairs)
        return {option: n_models * n_fewer * self.speed.step}

    def _by_shorter_passages(self, recipe: Trained, n_models: int, n_runs: int) -> dict[str, float]:
        """Return the seconds that half of the passage length saves at most, by option.

        It saves less where passages are shorter already.
        """
        half = max(1, recipe.passage_length // 2)
        shorter = changed(recipe, passage_length=half)
        share = 1 - shorter.step_tokens() / recipe.step_tokens()
        steps = recipe.training_steps(self.n_pairs)
        learning = n_models * steps * self.speed.step
        encoding = n_runs * self.n_passages * self.speed.passage
        return {f"--passage-length {half} at most": share * learning + encoding / 2}

    @property
    def core_seconds(self) -> float:
        """The seconds of all stages, one after the other."""
        return float(self.stages["core seconds"].iloc[-1])

    @property
    def seconds(self) -> float:
        """The seconds of all stages."""
        return float(self.stages["seconds"].iloc[-1])

    def described(self) -> dict[str, Any]:
        """Return the same for a program."""
        table = self.stages.rename(columns=lambda name: name.replace(" ", "_"))
        stages = json.loads(table.to_json(orient="records"))
        found = {"seconds": self.seconds, "stages": stages, "speed": self.speed._asdict()}
        if self.spent:
            taken = elapsed().since(self.spent.began)
            found |= {"taken": taken._asdict(), "is_kept": self.spent.is_kept}
        return found | {"cheaper": self.cheaper()}

    def write(self, folder: Path) -> Path:
        """Write the stages, and in a last row what was taken since, into a folder; say both."""
        taken = elapsed().since(self.began)
        print(
            f"Promised {lasting(self.seconds)}, taken {lasting(taken.wall)}, both from the start "
            f"of the command; of one core: promised {self.core_seconds:,.0f} s, taken "
            f"{taken.cores:,.0f} s.",
            file=sys.stderr,
        )
        last = {"stage": TAKEN, "core seconds": taken.cores, "seconds": taken.wall}
        table = pd.concat([self.stages, pd.DataFrame([last])])
        text = table.to_csv(index=False, float_format="%.4g")
        return write_text(folder / FILE, text)


def _summed(parts: Iterable[dict[str, float]]) -> dict[str, float]:
    """Return the sums of the seconds of each stage."""
    sums: Counter = Counter()
    for part in parts:
        sums.update(part)
    return dict(sums)


def side_by_side(seconds: Sequence[float]) -> float:
    """Return the seconds that pass while this machine computes jobs, in this order.

    Examples
    --------
    >>> side_by_side([5.0])
    5.0
    """
    workers = [0.0] * n_workers(len(seconds))
    for job in seconds:
        heapq.heappush(workers, heapq.heappop(workers) + job)
    return max(workers)
