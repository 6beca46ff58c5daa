"""Losses: what the scores of a relevant passage and of negatives cost a model in training.

A loss is a function `for_scores` of some kind; a recipe names it, with - for _.

It takes (good, bad, goal, recipe) and gives the mean over the batch. `good` [batch, 1] are the
scores of the relevant passages, `bad` [batch, m] those of the negatives, both divided by the
recipe's temperature; bad is −∞ where a passage is left out because it is relevant to the query.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

    from interextra.data.collection import Passages

HARD_LABELS = 0.1  # their weight beside those of a teacher
LEFT_OUT = float("-inf")  # the score of a passage that is left out

_LOSSES: dict[str, Callable] = {}


def losses() -> dict[str, Callable]:
    """Return the function of each loss by its name; none imports torch before it is used."""
    return dict(sorted(_LOSSES.items()))


def losses_for(*kinds: str) -> list[str]:
    """Return the names of the losses that are for some of these kinds of scores."""
    names = []
    for name, loss in losses().items():
        if not set(kinds).isdisjoint(loss.kinds):
            names.append(name)
    return names


def for_scores(*kinds: str, goal: Callable | None = None) -> Callable:
    """Make a function a loss for some kinds of scores.

    Parameters
    ----------
    kinds
        `batch`: all queries of a batch with the same negatives; `query`: each query with its own;
        `pairs`: those of a cross-encoder; `corpus`: all passages that may be negatives; `topics`:
        all passages of a batch of TAS-Balanced.
    goal
        Where the loss has a teacher: (teacher, passages, texts, positive, negatives, barred) → the
        `goal` of the loss for queries `texts`, rows `positive` [batch] and `negatives` [m], and
        `barred`, bool[batch, m].
    """

    def register(loss: Any) -> Callable:
        """Note a loss under its name."""
        loss.kinds = kinds
        loss.goal = goal
        _LOSSES[loss.__name__.replace("_", "-")] = loss
        return loss

    return register


@for_scores("batch", "pairs")
def listwise(good: "Tensor", bad: "Tensor", goal: None, recipe: Any) -> "Tensor":
    """Return the cross entropy of one softmax over the positive passage and all negatives.

    "Cross entropy" in the paper can be read as this.
    """
    import torch

    scores = torch.cat([good, bad], dim=1)
    return (scores.logsumexp(dim=1) - good.squeeze(1)).mean()


@for_scores("batch", "pairs")
def pairwise(good: "Tensor", bad: "Tensor", goal: None, recipe: Any) -> "Tensor":
    """Return the cross entropy of two logits, mean over the pairs (positive, negative).

    The other reading of "cross entropy".
    """
    from torch.nn.functional import softplus

    allowed = bad.isfinite()
    n_allowed = allowed.sum().clamp(min=1)
    return softplus(bad - good)[allowed].sum() / n_allowed


def own_scores(
    teacher: Any,
    passages: "Passages",
    texts: Sequence[str],
    positive: np.ndarray,
    negatives: np.ndarray,
    barred: "Tensor",
) -> "Tensor":
    """Return a reranker's scores of the positive and of each query's own negatives.

    float32[batch, 1 + negatives of a query], −∞ for a barred one.
    """
    import torch

    n_queries = len(texts)
    own_negatives = negatives.reshape(n_queries, -1)
    rows = np.column_stack([positive, own_negatives])
    scores = torch.as_tensor(teacher.score(passages, texts, rows))
    query = range(n_queries)
    own_barred = barred.reshape(n_queries, n_queries, -1)[query, query]
    scores[:, 1:].masked_fill_(own_barred, LEFT_OUT)
    return scores


@for_scores("query", goal=own_scores)
def margin_mse(good: "Tensor", bad: "Tensor", goal: "Tensor", recipe: Any) -> "Tensor":
    """Return the squared error of margins, mean over the pairs; the goal is a reranker's scores.

    Source: MarginMSE (Hofstätter et al., 2020).
    """
    from torch.nn.functional import mse_loss

    margins = good - bad
    teacher_good, teacher_bad = goal.tensor_split([1], dim=1)
    teacher_margins = teacher_good - teacher_bad
    left_out = teacher_margins.isposinf()
    if left_out.any():  # only a random negative can be relevant: hardly ever
        margins = margins[~left_out]
        teacher_margins = teacher_margins[~left_out]
    if not teacher_margins.numel():
        return margins.sum()
    return mse_loss(margins, teacher_margins)


def shared_scores(
    teacher: Any,
    passages: "Passages",
    texts: Sequence[str],
    positive: np.ndarray,
    negatives: np.ndarray,
    barred: "Tensor",
) -> "Tensor":
    """Return an encoder's scores of the positive and of the negatives that all queries share.

    float32[batch, 1 + m], −∞ for a barred one.
    """
    import torch

    columns = np.concatenate([positive, negatives])
    rows, column_of = np.unique(columns, return_inverse=True)
    open_block = teacher.open_queries(texts)
    score = open_block(teacher.encode_block(passages.texts(rows)))
    all_queries = slice(None)
    scores = score(all_queries)[:, column_of].to(barred.device, torch.float32)
    good = scores.diagonal().unsqueeze(1)
    bad = scores[:, len(positive) :]
    return torch.cat([good, bad.masked_fill(barred, LEFT_OUT)], dim=1)


@for_scores("batch", goal=shared_scores)
def distilled(good: "Tensor", bad: "Tensor", goal: "Tensor", recipe: Any) -> "Tensor":
    """Return nine tenths of the loss against a teacher's softmax, and one of `listwise`.

    The teacher scores the same passages. Source: TCT-ColBERT (Lin et al., 2020, γ = 0.1); the
    authors' code trains on the teacher's share alone.
    """
    soft = distillation_loss(good, bad, goal, 1.0, recipe.teacher_temperature)
    is_relevant = goal[:, 1:].isneginf()
    allowed = bad.masked_fill(is_relevant, LEFT_OUT)
    hard = listwise(good, allowed, None, recipe)
    return HARD_LABELS * hard + (1 - HARD_LABELS) * soft


def distillation_loss(
    good: "Tensor",
    bad: "Tensor",
    goal: "Tensor",
    temperature: float,
    teacher_temperature: float,
) -> "Tensor":
    """Return the cross entropy of the softmax of a student's scores against that of its teacher's.

    Its gradient is that of the Kullback–Leibler divergence. Source: TCT-ColBERT (Lin et al.,
    RepL4NLP 2021). Taught in notebooks/06_pretraining_study.

    Parameters
    ----------
    good, bad
        [batch, 1] and [batch, m], the student's scores.
    goal
        [batch, 1 + m], the teacher's scores of the same passages, −∞ for one that is left out.
    temperature, teacher_temperature
        The student's and the teacher's scores are divided by them.

    Returns
    -------
    The mean over the batch.
    """
    import torch

    left_out = torch.isneginf(goal)
    scores = torch.cat([good, bad], dim=1)
    scores = scores.masked_fill(left_out, LEFT_OUT)
    log_probability = (scores / temperature).log_softmax(dim=1)
    log_probability = log_probability.masked_fill(left_out, 0.0)
    teacher_probability = torch.softmax(goal / teacher_temperature, dim=1)
    return -(teacher_probability * log_probability).sum(dim=1).mean()


@for_scores("corpus")
def rank_weighted(good: "Tensor", bad: "Tensor", goal: None, recipe: Any) -> "Tensor":
    """Return `rank_weighted_loss` of the finite scores.

    Each negative weighs what exchanging it with the positive would change the reciprocal rank by
    (LambdaRank).
    """
    return rank_weighted_loss(good, bad, bad.isfinite())


def rank_weighted_loss(good: "Tensor", bad: "Tensor", met: "Tensor") -> "Tensor":
    """Return the mean over the batch of Σ |1/rank⁺ − 1/rank⁻| · log(1 + exp(s⁻ − s⁺)).

    The sum is over the negatives. Ranks are those among the positive passage and its negatives,
    which the model itself ranks first (ADORE: Zhan et al., SIGIR 2021). Taught in
    notebooks/06_pretraining_study.

    Parameters
    ----------
    good
        [batch, 1]
    bad
        [batch, m], by score descending.
    met
        bool[batch, m], which of them count.
    """
    import torch
    from torch.nn.functional import softplus

    is_above = (bad > good) & met
    n_above = is_above.sum(dim=1, keepdim=True)
    place = torch.arange(1, bad.shape[1] + 1, device=bad.device)
    ranks = place + (place > n_above)  # the positive stands between them
    weights = (1 / (1 + n_above) - 1 / ranks).abs()
    margins = torch.where(met, bad - good, 0.0)
    costs = weights * softplus(margins) * met
    return costs.sum(dim=1).mean()


@for_scores("topics", goal=shared_scores)
def tas_balanced(good: "Tensor", bad: "Tensor", goal: "Tensor", recipe: Any) -> "Tensor":
    """Return the squared error of margins of each query's own pair, and that of all passages.

    The second is multiplied by `in_batch_weight`. Source: Hofstätter et al., SIGIR 2021, section
    3.3.

    Parameters
    ----------
    good
        [batch, 1]
    bad
        [batch, m], those of the batch's pairs first.
    goal
        [batch, 2 + m], one teacher's margin of the query's own pair, the other's scores of good and
        bad.
    """
    pair_margin, teacher_good, teacher_bad = goal.tensor_split([1, 2], dim=1)
    own_margin = (good - bad).diagonal()
    pair_error = (own_margin - pair_margin.squeeze(1)) ** 2
    batch_error = (good - bad - teacher_good + teacher_bad) ** 2
    return pair_error.mean() + recipe.in_batch_weight * batch_error.mean()
