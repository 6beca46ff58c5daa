"""The softmax of a teacher's scores of the same passages is the goal, instead of the positive passage (an encoder)."""

import numpy as np

SCORES = ("batch",)


def loss(good, bad, goal, recipe):
    return distillation_loss(good, bad, goal, 1.0, recipe.teacher_temperature)


def goal(teacher, passages, texts, positive, negatives, barred):
    """The teacher's scores of the positive and the negatives, −∞ for a barred one: float32[batch, 1 + m]."""
    import torch

    rows, at = np.unique(np.concatenate([positive, negatives]), return_inverse=True)
    scores = teacher.open_queries(texts)(teacher.encode_block(passages.texts(rows)))(slice(None))
    good, bad = at[: len(positive)], at[len(positive) :]
    good = scores[torch.arange(len(texts)), torch.as_tensor(good)].unsqueeze(1)
    return torch.cat([good, scores[:, torch.as_tensor(bad)].masked_fill(barred, float("-inf"))], dim=1).float()


def distillation_loss(good, bad, goal, temperature: float, teacher_temperature: float):
    """Cross entropy of the softmax of a student's scores against that of its teacher's, mean over the batch.

    Its gradient is that of the Kullback–Leibler divergence. Source: TCT-ColBERT (Lin et al., RepL4NLP 2021).
    Taught in notebooks/06_pretraining_study.

    Parameters
    ----------
    good, bad : [batch, 1] and [batch, m] scores of the student.
    goal : [batch, 1 + m] of the teacher, of the same passages; −∞ for one that is left out.
    """
    import torch

    left_out = torch.isneginf(goal)
    scores = torch.cat([good, bad], dim=1).masked_fill(left_out, float("-inf")) / temperature
    share = torch.softmax(goal / teacher_temperature, dim=1)
    return -(share * scores.log_softmax(dim=1).masked_fill(left_out, 0.0)).sum(dim=1).mean()
