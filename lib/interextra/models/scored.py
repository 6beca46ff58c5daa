"""From a batch to its loss: which scores a model of each kind gives to the loss of the recipe."""

from collections.abc import Callable

import torch

from interextra.models.losses import losses
from interextra.models.recipe import Trained


def ranking_loss(good, bad, label, recipe: Trained):
    """The recipe's loss of the scores of the positives [batch, 1] and of negatives [batch, m].

    `label`: of a loss with a teacher its goal, else bool[batch, m], negatives that are relevant and left out, or None.
    """
    loss = losses()[recipe.loss]
    good, bad = good / recipe.temperature, bad / recipe.temperature
    if loss.goal is None and label is not None:
        bad = bad.masked_fill(label, float("-inf"))
    return loss(good, bad, label, recipe)


class SharedNegatives(torch.nn.Module):
    """The loss of encoders: all queries of a batch share its negatives, or each query has its own.

    represent(model output) → representation [n, …]; pairwise(queries, passages) → [n] scores of row i with row i;
    matrix(queries, passages) → [n, m] scores of all pairs.
    """

    def __init__(self, model, recipe: Trained, represent: Callable, pairwise: Callable, matrix: Callable):
        super().__init__()
        self.model, self.recipe, self.represent, self.pairwise, self.matrix = model, recipe, represent, pairwise, matrix

    def forward(self, features, label):
        tasks = ("query", "document", "document")
        columns = [self.represent(self.model(c, task=task)) for c, task in zip(features, tasks, strict=False)]
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


def inner_product_loss(model, recipe: Trained) -> SharedNegatives:
    """The loss of one vector a text, dense or sparse."""
    functions = lambda out: out["sentence_embedding"], lambda q, p: (q * p).sum(dim=1), lambda q, p: q @ p.T
    return SharedNegatives(model, recipe, *functions)


class OwnRanking(torch.nn.Module):
    """A query encoder against the passages that it ranks first itself: the vectors of the passages stay as they are.

    The first `negative_depth` that are not relevant are the negatives (ADORE: Zhan et al., SIGIR 2021). `passages`:
    float32[n, d].
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
        self.batches.count(rows[torch.isfinite(bad)].cpu().numpy())
        return ranking_loss(good, bad, None, self.recipe)


class PairLoss(torch.nn.Module):
    """The loss of a cross-encoder."""

    def __init__(self, model, recipe: Trained):
        super().__init__()
        self.model, self.recipe = model, recipe

    def forward(self, features, barred, prompt=None, task=None):
        scores = self.model(features[0])["scores"].view(-1, len(barred)).T  # [batch, 1 + n_negatives]
        some = barred if barred.any() else None  # hardly ever: only random negatives can be relevant
        return ranking_loss(scores[:, :1], scores[:, 1:], some, self.recipe)
