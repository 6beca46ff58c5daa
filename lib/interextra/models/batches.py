"""Batches of training: which passages are the negatives of which queries, drawn with the seed, and tokenized."""

import numpy as np
import torch

from interextra.ground.errors import InputError
from interextra.models.losses import losses
from interextra.models.pairs import Pairs, bm25_ranking, exposed_passages, negatives_of
from interextra.models.recipe import Trained


class Batches:
    """A collator: draws the negatives of a batch of {"pair": index} and tokenizes it; the label are barred negatives.

    A subclass says how a batch is laid out. `ranking`: rows of the passages that a model ranks first for each training
    query, as `pairs.ranked_rows` gives them (negatives: mined). `teacher`: a model whose scores are the loss's goal.
    """

    def __init__(self, model, pairs: Pairs, collection, recipe: Trained, seed: int, ranking=None, teacher=None):
        self.model, self.pairs, self.passages, self.recipe, self.seed = model, pairs, collection.passages, recipe, seed
        self.teacher, self.goal = teacher, losses()[recipe.loss].goal
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
        found, share = self.rows[draw.integers(len(self.rows), size=size)], self.recipe.negative_passages
        if isinstance(share, str):
            return found
        exposed = np.flatnonzero(self.exposed)
        return np.where(draw.random(size) < share, exposed[draw.integers(len(exposed), size=size)], found)

    def drawn(self, draw: np.random.Generator, query: np.ndarray) -> np.ndarray:
        """`n_negatives` for each query [batch, n]: of those ranked first, random where there is none, or no ranking."""
        n = self.recipe.n_negatives
        if self.mined is None:
            return self.random(draw, (len(query), n))
        mined = self.mined[query]
        counts = (mined >= 0).sum(axis=1)  # padding is at the end
        picked = np.take_along_axis(mined, draw.integers(np.maximum(counts, 1)[:, None], size=(len(mined), n)), axis=1)
        return np.where(counts[:, None] > 0, picked, self.random(draw, picked.shape))


class EncoderBatches(Batches):
    """Query, positive and drawn negatives as columns of their own, cut to the lengths of the recipe."""

    valid_label_columns = ("barred",)

    def __call__(self, examples: list[dict]) -> dict:
        query, positive, draw = self.taken(examples)
        columns, texts = {"positive": positive}, [self.pairs.texts[row] for row in query]
        negatives = positive if self.recipe.in_batch else positive[:0]
        if self.recipe.drawn():
            # random ones are shared by the batch anyway, so that those of one query are enough
            columns["negative"] = self.drawn(draw, query if self.mined is not None else query[:1]).ravel()
            negatives = np.concatenate([columns["negative"], negatives])
        coded = {"query": self.model.preprocess(texts, task="query")}
        for name, rows in columns.items():
            coded[name] = self.model.preprocess(self.passages.texts(rows), task="document")
        batch = {f"{name}_{key}": value for name, column in coded.items() for key, value in column.items()}
        label = self.barred(query, negatives[None])
        if self.goal:
            label = self.goal(self.teacher, self.passages, texts, positive, negatives, label)
        return batch | {"label": label}


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
        negatives = self.drawn(draw, query)
        if self.recipe.in_batch:
            others = [np.roll(positive, place) for place in range(1, self.recipe.n_negatives + 1)]
            negatives = np.column_stack([negatives, *others])
        rows = np.concatenate([positive[None], negatives.T])  # [1 + n_negatives, batch]
        asked = [self.pairs.texts[i] for i in query] * len(rows)
        texts = self.passages.texts(rows.ravel())
        coded = self.model.preprocess([list(pair) for pair in zip(asked, texts, strict=True)])
        return {f"pair_{key}": value for key, value in coded.items()} | {"label": self.barred(query, negatives)}


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
