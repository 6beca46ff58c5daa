"""The difference of a reranker's scores of the positive passage and of each negative is the goal.

Squared error, mean over the pairs (MarginMSE: Hofstätter et al., 2020).
"""

import numpy as np

SCORES = ("query",)


def loss(good, bad, goal, recipe):
    from torch.nn.functional import mse_loss

    return mse_loss(good - bad, goal[:, :1] - goal[:, 1:])


def goal(teacher, passages, texts, positive, negatives, barred):
    """The teacher's scores of the positive and of each query's own negatives: float32[batch, 1 + negatives a query]."""
    import torch

    own = np.column_stack([positive, negatives.reshape(len(texts), -1)])
    return torch.as_tensor(teacher.score(passages, texts, own))
