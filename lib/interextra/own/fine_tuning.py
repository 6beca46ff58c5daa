"""Notebook 12: how our own training fine-tunes a model of the user's, where no recipe is given.

Lengths come from the texts of the collection, the learning rate from short trainings.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from interextra.data.queries import Queries
from interextra.data.runs import RunFile
from interextra.measures.evaluate import per_query
from interextra.models.model import fit, load_model, refuse_changed, weights_digest
from interextra.models.recipe import Recipe, Trained, changed, load_recipe
from interextra.models.search.run import Run
from interextra.own import probe, splitting
from interextra.own.split_folder import run_before_training
from interextra.splits.split import Split
from interextra.store import Cell, Store, write_json
from interextra.store.files import read_json

N_SAMPLED = 1000  # texts of each kind whose tokens are counted
COVERED = 0.95  # share of them that is not cut
MULTIPLE = 8  # lengths are multiples of it
MOST_TOKENS = 256  # of a length that is not given: memory and time grow faster than it
WIDTH = 384  # of the encoder that the default recipe's rate is for; AdamW's goes with 1 / width
RATES = (0.1, 1 / 3, 1)  # times that rate
MEASURE = "RR@10"  # that the rates are compared by
N_RANKED = 10  # passages that it looks at
N_GATE = 200  # queries that they are compared on, at most
LEAST_GATE = 20  # and at least
DEPTHS = (5, 20)  # least and most passages of BM25 that are ranked for each of them
LEAST_STEPS = 5  # of a short training: fewer tell nothing
LEARNING = 3  # tokens that are read in the time in which a training learns from one
SHARE = 0.25  # that the short trainings add to the work of all others and of their searches
TRIAL = "trial.json"
FILE = "recipe.json"


class Lengths(NamedTuple):
    """Which share of the queries and of the passages in a sample a recipe cuts."""

    queries_cut: float
    passages_cut: float


def fitted(recipe: Trained, pool: Queries, **given: Any) -> tuple[Trained, Lengths]:
    """Return a recipe with lengths that hold most texts of a collection, and a rate for its width.

    Parameters
    ----------
    recipe : Trained
        The default recipe of a model, from which all else is taken.
    pool : Queries
        The training queries.
    given
        Values that are given: query_length, passage_length, learning_rate.
    """
    from interextra.models.retriever import transformer

    module = transformer(recipe, 0)
    counts = _counted_tokens(module, pool)
    values: dict[str, Any] = {}
    for name, n_tokens in counts.items():
        values[name] = _holding_most(n_tokens, _most_tokens(module))
    if recipe.initialisation != "tiny-base":  # whose recipe has a rate of its own
        rate = recipe.learning_rate * WIDTH / module.config.hidden_size
        values["learning_rate"] = _rounded(rate)
    recipe = changed(recipe, **values | given)
    lengths = Lengths(
        queries_cut=float((counts["query_length"] > recipe.query_length).mean()),
        passages_cut=float((counts["passage_length"] > recipe.passage_length).mean()),
    )
    return recipe, lengths


def _counted_tokens(module: Any, pool: Queries) -> dict[str, np.ndarray]:
    """Return the tokens of sampled queries and passages, by the length in a recipe."""
    passages = pool.source.open().passages
    generator = np.random.default_rng(0)
    n_passages = min(N_SAMPLED, len(passages))
    rows = generator.choice(len(passages), n_passages, replace=False)
    queries = pool.frame()["text"]
    n_queries = min(N_SAMPLED, len(queries))
    query_sample = queries.sample(n_queries, random_state=0).tolist()
    passage_sample = passages.texts(np.sort(rows))
    return {
        "query_length": _token_counts(module, query_sample),
        "passage_length": _token_counts(module, passage_sample),
    }


def _token_counts(module: Any, texts: list[str]) -> np.ndarray:
    """Return the number of tokens of each text, int[n]."""
    token_ids = module.tokenizer(texts)["input_ids"]
    return np.array([len(ids) for ids in token_ids])


def _most_tokens(module: Any) -> int:
    """Return how many tokens an encoder reads at once, MOST_TOKENS at most."""
    positions = getattr(module.config, "max_position_embeddings", None)
    return min(module.tokenizer.model_max_length, positions or np.inf, MOST_TOKENS)


def _holding_most(n_tokens: np.ndarray, limit: int) -> int:
    """Return a length that holds COVERED of the texts, or as much as the model reads."""
    covering = np.quantile(n_tokens, COVERED)
    length = np.ceil(covering / MULTIPLE) * MULTIPLE
    return int(min(length, limit))


def _rounded(rate: float) -> float:
    """Return a rate with two digits."""
    return float(f"{rate:.2g}")


class Trial(Cell):
    """A short training with a learning rate, and what its model ranks first on the gate's queries.

    It learns from random queries of all training sets, so that the rate suits none of them more
    than another. `trial.json`: the mean of MEASURE, steps, losses.
    """

    recipe: Recipe
    split: Split
    gate: str
    candidates: Run  # BM25's, of the queries to search
    n_queries: int  # of the gate, at most
    depth: int  # passages of it that are ranked for each query
    n_train: int  # training queries
    start: str  # what the weights start from, by content

    def build(self, folder: Path, store: Store) -> None:
        """Train, and rank the candidates of all queries for each of them."""
        refuse_changed(self.start, weights_digest(self.recipe), self.title())
        pool = self.split.pool
        weights = folder / "weights"
        query_ids = self._training_ids(store)
        collection = pool.source.open()
        log = fit(self.recipe, collection, query_ids, pool.split, 0, weights)
        queries, qrels = self._gate_queries(store)
        rows = self._candidates(queries["query_id"], qrels, store)
        run = self._ranked(load_model(weights), queries, rows)
        shutil.rmtree(weights)
        mean = per_query(run, qrels, [MEASURE])[MEASURE].mean()
        found = {
            MEASURE: float(mean),
            "n_queries": len(queries),
            "n_passages": len(rows),
            "steps": log["steps"],
            "loss": log["loss"],
        }
        write_json(folder / TRIAL, found)

    def _training_ids(self, store: Store) -> list[str]:
        """Draw queries of all training sets."""
        sets = self.split.sets(store)
        names = splitting.sets_of(self.split)
        query_ids: set[str] = set()
        for name in names:
            query_ids.update(sets[name])
        n_train = min(self.n_train, len(query_ids))
        generator = np.random.default_rng(0)
        return generator.choice(sorted(query_ids), n_train, replace=False).tolist()

    def _gate_queries(self, store: Store) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Draw queries of the gate; return them and their judgements."""
        test = splitting.read_test_set(self.split, store, self.gate)
        shuffled = np.random.default_rng(0).permutation(test.gate_ids)
        drawn = shuffled[: self.n_queries]
        is_drawn = test.queries["query_id"].isin(drawn)
        is_of_drawn = test.qrels["query_id"].isin(drawn)
        return test.queries[is_drawn], test.qrels[is_of_drawn]

    def _candidates(self, query_ids: pd.Series, qrels: pd.DataFrame, store: Store) -> np.ndarray:
        """Return the rows of BM25's first passages of all queries, and of their answers."""
        runs = [self.candidates.read(store, part) for part in self.candidates.queries]
        ranking = pd.concat([run.frame() for run in runs])
        is_of_query = ranking["query_id"].isin(query_ids)
        is_first = ranking["rank"] <= self.depth
        candidates = ranking.loc[is_of_query & is_first, "doc_id"]
        answers = qrels.loc[qrels["relevance"] >= 1, "doc_id"]
        passages = self.split.pool.source.open().passages
        rows = np.unique(passages.rows([*candidates, *answers]))
        return rows[rows >= 0]

    def _ranked(self, model: Any, queries: pd.DataFrame, rows: np.ndarray) -> RunFile:
        """Return the first passages of each query among the candidates of all queries."""
        passages = self.split.pool.source.open().passages
        score = model.open_queries(queries["text"].tolist())
        candidates = model.encode_block(passages.texts(rows))
        every_query = slice(None)
        scores = score(candidates)(every_query)
        n_ranked = min(N_RANKED, len(rows))
        best = scores.topk(n_ranked, dim=1)
        best_rows = rows[best.indices.cpu().numpy()]
        best_scores = best.values.float().cpu().numpy()
        query_ids = queries["query_id"].tolist()
        return RunFile.from_arrays(query_ids, passages.doc_ids, best_rows, best_scores)

    def title(self) -> str:
        """Return what a reader calls it."""
        source = self.split.pool.source.spec
        return f"short training · {source} · learning rate {self.recipe.learning_rate:g}"

    def seconds(self) -> float:
        """Return the estimated seconds of one core."""
        return self.recipe.train_seconds(self.n_train, 0)


class OwnTraining:
    """Our own training, for `probe`: (folder, seed) → its run.

    Parameters
    ----------
    recipe : Recipe
        Its rate, times RATES, is what is chosen from, unless it is given.
    split, gate
        Of `splitting.split_of` and `gate_of`.
    seeds
        A training of each set for each.
    store
        Where results are kept.
    lengths
        Of `fitted`; None: the lengths of the recipe were given.
    is_rate_given
        Whether the recipe's learning rate is taken as it is.
    """

    def __init__(
        self,
        recipe: Recipe,
        split: Split,
        gate: str,
        seeds: Sequence[int],
        store: Store,
        lengths: Lengths | None = None,
        is_rate_given: bool = True,
    ) -> None:
        self.recipe = recipe
        self.split = split
        self.gate = gate
        self.seeds = seeds
        self.store = store
        self.lengths = lengths
        self.set_names = splitting.sets_of(split)
        self.lexical = run_before_training(load_recipe("bm25"), split, gate)
        self.given = probe.untrained(recipe, split, gate)
        self.trials = []
        if isinstance(recipe, Trained) and not is_rate_given:
            self.trials = self._planned_trials(recipe)

    @property
    def n_trainings(self) -> int:
        """How many models are fine-tuned."""
        return len(self.set_names) * len(self.seeds)

    @property
    def set_size(self) -> int:
        """Queries of the largest training set."""
        return max(self.split.size_of(name) for name in self.set_names)

    def n_pairs(self) -> int:
        """Return the training pairs of such a set, estimated where the split is not there yet."""
        pool = self.split.pool
        qrels = pool.qrels()
        is_positive = qrels["relevance"] >= self.recipe.positive_relevance
        return round(self.set_size * is_positive.sum() / pool.size())

    def _planned_trials(self, recipe: Trained) -> list[Trial]:
        """Plan a short training with each rate; none where steps or queries are too few to tell."""
        steps = recipe.training_steps(self.n_pairs())
        n_queries, depth, trial_steps = self._sizes_of_trial(recipe, steps)
        if n_queries < LEAST_GATE or trial_steps < LEAST_STEPS:
            return []
        trials = []
        for times in RATES:
            tried = changed(
                recipe,
                steps=trial_steps,
                epochs=None,
                learning_rate=_rounded(times * recipe.learning_rate),
                warmup_steps=recipe.warmup_steps * trial_steps // steps,
            )
            trial = Trial(
                recipe=tried,
                split=self.split,
                gate=self.gate,
                candidates=self.lexical,
                n_queries=n_queries,
                depth=depth,
                n_train=self.set_size,
                start=weights_digest(tried),
            )
            trials.append(trial)
        return trials

    def _sizes_of_trial(self, recipe: Trained, steps: int) -> tuple[int, int, int]:
        """Return the queries, the passages of each and the steps of a trial, so that SHARE holds.

        It is a count of tokens, not of seconds: the same on all machines.
        """
        n_passages = self.split.pool.source.n_passages()
        learnt = LEARNING * recipe.step_tokens()  # a step, in tokens read
        trainings = self.n_trainings * steps * learnt
        searches = (self.n_trainings + 1) * n_passages * recipe.passage_length
        budget = SHARE * (trainings + searches) / len(RATES)
        n_affordable = budget / 2 / recipe.passage_length
        least_depth, most_depth = DEPTHS
        most_queries = int(n_affordable / (least_depth + 1))  # and the answer
        n_queries = min(N_GATE, self.n_gate(), most_queries)
        n_each = int(n_affordable / max(n_queries, 1))
        depth = min(n_each - 1, most_depth)
        n_ranked = min(n_queries * (depth + 1), n_passages)
        left = budget - n_ranked * recipe.passage_length
        return n_queries, depth, min(int(left / learnt), steps)

    def n_gate(self) -> int:
        """Return the queries of the gate."""
        if self.gate:
            gate = Queries(source=self.split.pool.source, split=self.gate)
            return gate.size()
        searched = splitting.searched_queries(self.split, self.gate)
        n_searched = sum(part.size() for part in searched)
        return round(splitting.GATE_SHARE * n_searched)

    def is_chosen(self) -> bool:
        """Whether the rate is given, or all short trainings are done."""
        return not self.store.missing(self.trials)

    def chosen(self) -> Recipe:
        """Return the recipe with the best of the rates."""
        if not self.trials:
            return self.recipe
        means = [found[MEASURE] for found in self._found()]
        best = self.trials[int(np.argmax(means))]
        return changed(self.recipe, learning_rate=best.recipe.learning_rate)

    def _found(self) -> list[dict[str, Any]]:
        """Return what each short training has found."""
        return [read_json(self.store[trial] / TRIAL) for trial in self.trials]

    def __call__(self, folder: Path, seed: int) -> Run:
        """Return the run of the model of a training set, which the folder names."""
        train = probe.trainer(self.chosen(), self.split, self.gate)
        return train(folder, seed)

    def planned_runs(self) -> list[Run]:
        """Return the runs of all trainings, with the recipe's rate until another is chosen."""
        recipe = self.chosen() if self.is_chosen() else self.recipe
        train = probe.trainer(recipe, self.split, self.gate)
        paths = map(Path, self.set_names)
        return [train(path, seed) for path in paths for seed in self.seeds]

    def together(self, cell: Cell) -> list[Cell]:
        """Return what is computed side by side with a cell, itself too; [] if it has a turn alone.

        The short trainings go with the model as given, and the trainings follow.
        """
        trained = self.planned_runs()
        if not self.trials:
            stages = [[*trained, self.given]]
        else:
            stages = [[self.given, *self.trials], trained]
        for cells in stages:
            if cell in cells:
                return list(cells)
        return []

    def cells(self) -> list[Cell]:
        """Return what is computed in all, with the rate of the recipe until another is chosen."""
        return [self.given, *self.trials, *self.planned_runs()]

    def missing(self) -> list[Cell]:
        """Return what of it is not there yet, and what that needs."""
        return self.store.missing(self.cells())

    def sentence(self) -> str:
        """Say how the models are fine-tuned, and why."""
        recipe = self.recipe
        if not isinstance(recipe, Trained):
            return f"Recipe: {recipe.architecture}."
        n_pairs = self.n_pairs()
        steps = recipe.training_steps(n_pairs)
        epochs = steps * recipe.batch_size / max(n_pairs, 1)
        negatives = f"negatives: {recipe.negatives}"
        if recipe.drawn():
            negatives += f", {recipe.n_negatives} drawn"
        return (
            f"Recipe: learning rate {self._rate()}; about {steps:,} steps of "
            f"{recipe.batch_size} pairs ({epochs:.2g} epochs); queries of at most "
            f"{recipe.query_length} and passages of at most {recipe.passage_length} tokens"
            f"{self._how_long()}; {negatives}; temperature {recipe.temperature:g}."
        )

    def _rate(self) -> str:
        """Say the learning rate, and what it is or will be chosen from."""
        if not self.trials:
            return f"{self.recipe.learning_rate:g}"
        rates = [f"{trial.recipe.learning_rate:g}" for trial in self.trials]
        steps = self.trials[0].recipe.steps
        if not self.is_chosen():
            return f"the best of {', '.join(rates)} after {steps:,} steps"
        found = self._found()
        pairs = zip(rates, found, strict=True)
        means = ", ".join(f"{trial[MEASURE]:.3f} with {rate}" for rate, trial in pairs)
        n_queries = found[0]["n_queries"]
        best = self.chosen().learning_rate
        return (
            f"{best:g} (the best of three on {n_queries:,} queries of the "
            f"lead after {steps:,} steps: {MEASURE} {means})"
        )

    def _how_long(self) -> str:
        """Say how many texts are longer, in brackets; nothing where the lengths were given."""
        if not self.lengths:
            return ""
        queries = 100 * self.lengths.queries_cut
        passages = 100 * self.lengths.passages_cut
        return f" (in a sample {queries:.0f} % and {passages:.0f} % are longer)"

    def write(self, folder: Path) -> Path:
        """Write the recipe, and what it was chosen from, into a folder; return the file."""
        recipe = self.chosen()
        n_pairs = self.n_pairs()
        trials = []
        for trial, found in zip(self.trials, self._found(), strict=True):
            trials.append({"learning_rate": trial.recipe.learning_rate} | found)
        described = {
            "recipe": recipe.model_dump(mode="json"),
            "training_pairs": n_pairs,
            "steps": recipe.training_steps(n_pairs),
            "lengths": self.lengths._asdict() if self.lengths else None,
            "trials": trials,
        }
        path = folder / FILE
        write_json(path, described)
        return path
