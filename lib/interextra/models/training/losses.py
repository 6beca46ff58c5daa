"""Losses: what the scores of a relevant passage and of negatives cost a model in training.

A loss is a function `for_scores` of some kind; a recipe names it, with - for _.

It takes (good [batch, 1], bad [batch, m], goal, recipe) and gives the mean over the batch. Scores
are divided by the recipe's temperature; bad is −∞ where a passage is left out because it is
relevant to the query.
"""

from collections.abc import Callable

import numpy as np

HARD_LABELS = 0.1  # their weight beside those of a teacher


_LOSSES: dict[str, Callable] = {}


def losses() -> dict[str, Callable]:
    """Name of each loss → its function (this module does not import torch before a loss is
    used).
    """
    return dict(sorted(_LOSSES.items()))


def for_scores(*kinds: str, goal: Callable | None = None) -> Callable:
    """Make a function a loss for some kinds of scores.

    `batch`: all queries of a batch with the same negatives; `query`: each query with its own;
    `pairs`: those of a cross-encoder; `corpus`: all passages that may be negatives. `goal`, where
    the loss has a teacher: (teacher, passages, texts, positive, negatives, barred) → the `goal` of
    the loss for queries `texts`, rows `positive` [batch] and `negatives` [m], and `barred`,
    bool[batch, m].
    """

    def loss_of(loss: Callable) -> Callable:
        loss.kinds, loss.goal = kinds, goal
        _LOSSES[loss.__name__.replace("_", "-")] = loss
        return loss

    return loss_of


@for_scores("batch", "pairs")
def listwise(good, bad, goal, recipe):
    """One softmax over the positive passage and all negatives; "cross entropy" in the paper can be
    read as this.
    """
    import torch

    return (torch.cat([good, bad], dim=1).logsumexp(dim=1) - good.squeeze(1)).mean()


@for_scores("batch", "pairs")
def pairwise(good, bad, goal, recipe):
    """Cross entropy of two logits, mean over the pairs (positive, negative); the other reading of
    "cross entropy".
    """
    from torch.nn.functional import softplus

    allowed = bad.isfinite()
    return softplus(bad - good)[allowed].sum() / allowed.sum().clamp(min=1)


def own_scores(teacher, passages, texts, positive, negatives, barred):
    """The teacher's scores of the positive and of each query's own negatives, −∞ for a barred one.

    float32[batch, 1 + negatives a query]
    """
    import torch

    n = len(texts)
    own = np.column_stack([positive, negatives.reshape(n, -1)])
    scores = torch.as_tensor(teacher.score(passages, texts, own))
    own_barred = barred.reshape(n, n, -1)[range(n), range(n)]
    return torch.cat([scores[:, :1], scores[:, 1:].masked_fill(own_barred, float("-inf"))], dim=1)


@for_scores("query", goal=own_scores)
def margin_mse(good, bad, goal, recipe):
    """Squared error of margins, mean over the pairs; the goal is a reranker's (MarginMSE:
    Hofstätter et al., 2020).
    """
    from torch.nn.functional import mse_loss

    margins, asked = good - bad, goal[:, :1] - goal[:, 1:]
    if (left_out := asked.isposinf()).any():  # only a random negative can be relevant: hardly ever
        margins, asked = margins[~left_out], asked[~left_out]
    return mse_loss(margins, asked) if asked.numel() else margins.sum()


def shared_scores(teacher, passages, texts, positive, negatives, barred):
    """The teacher's scores of the positive and the negatives, −∞ for a barred one: float32[batch, 1
    + m].
    """
    import torch

    rows, at = np.unique(np.concatenate([positive, negatives]), return_inverse=True)
    scores = teacher.open_queries(texts)(teacher.encode_block(passages.texts(rows)))(slice(None))[
        :, at
    ]
    scores = scores.to(barred.device, torch.float32)
    bad = scores[:, len(positive) :].masked_fill(barred, float("-inf"))
    return torch.cat([scores.diagonal().unsqueeze(1), bad], dim=1)


@for_scores("batch", goal=shared_scores)
def distilled(good, bad, goal, recipe):
    """The softmax of a teacher's scores of the same passages is nine tenths of the goal, the
    positive the rest.

    Source: TCT-ColBERT (Lin et al., 2020, γ = 0.1); the authors' code trains on the teacher's share
    alone.
    """
    soft = distillation_loss(good, bad, goal, 1.0, recipe.teacher_temperature)
    others = bad.masked_fill(
        goal[:, 1:].isneginf(), float("-inf")
    )  # without what is relevant to the query
    return HARD_LABELS * listwise(good, others, None, recipe) + (1 - HARD_LABELS) * soft


def distillation_loss(good, bad, goal, temperature: float, teacher_temperature: float):
    """Cross entropy of the softmax of a student's scores against that of its teacher's, mean over
    the batch.

    Its gradient is that of the Kullback–Leibler divergence. Source: TCT-ColBERT (Lin et al.,
    RepL4NLP 2021). Taught in notebooks/06_pretraining_study. good, bad: [batch, 1] and [batch, m]
    of the student; goal: [batch, 1 + m] of the teacher, of the same passages, −∞ for one that is
    left out.
    """
    import torch

    left_out = torch.isneginf(goal)
    scores = torch.cat([good, bad], dim=1).masked_fill(left_out, float("-inf")) / temperature
    share = torch.softmax(goal / teacher_temperature, dim=1)
    return -(share * scores.log_softmax(dim=1).masked_fill(left_out, 0.0)).sum(dim=1).mean()


@for_scores("corpus")
def rank_weighted(good, bad, goal, recipe):
    """Each negative weighs what exchanging it with the positive would change the reciprocal rank by
    (LambdaRank).
    """
    return rank_weighted_loss(good, bad, bad.isfinite())


def rank_weighted_loss(good, bad, met):
    """Mean over the batch of Σ |1/rank⁺ − 1/rank⁻| · log(1 + exp(s⁻ − s⁺)) over the negatives.

    Ranks are those among the positive passage and its negatives, which the model itself ranks first
    (ADORE: Zhan et al., SIGIR 2021). good: [batch, 1]; bad: [batch, m] by score descending; met:
    bool[batch, m], which of them count. Taught in notebooks/06_pretraining_study.
    """
    import torch
    from torch.nn.functional import softplus

    above = ((bad > good) & met).sum(dim=1, keepdim=True)
    place = torch.arange(1, bad.shape[1] + 1, device=bad.device)
    ranks = place + (place > above)  # the positive stands between them
    weights = (1 / (1 + above) - 1 / ranks).abs()
    pairs = softplus(torch.where(met, bad - good, torch.zeros_like(bad)))
    return (weights * pairs * met).sum(dim=1).mean()


@for_scores("topics", goal=shared_scores)
def tas_balanced(good, bad, goal, recipe):
    """Squared error of margins: of each query's own pair, and `in_batch_weight` times that of all
    passages there.

    good: [batch, 1]; bad: [batch, m], those of the batch's pairs first; goal: [batch, 2 + m], one
    teacher's margin of the query's own pair, the other's scores of good and bad. Source: Hofstätter
    et al., SIGIR 2021, section 3.3.
    """
    pair = ((good - bad).diagonal() - goal[:, 0]) ** 2
    return (
        pair.mean()
        + recipe.in_batch_weight * ((good - bad - goal[:, 1:2] + goal[:, 2:]) ** 2).mean()
    )
