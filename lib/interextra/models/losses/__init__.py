"""Losses: what the scores of a relevant passage and of negatives cost a model in training.

A loss is a module of this folder; a recipe names it, with - for _. It has

SCORES      which scores it is for (some of): `batch`, all queries of a batch with the same negatives; `query`, each
            query with its own; `pairs`, those of a cross-encoder; `corpus`, all passages that may be negatives
loss        (good [batch, 1], bad [batch, m], goal, recipe) → mean over the batch; scores are divided by the
            recipe's temperature, bad is −∞ where a passage is left out because it is relevant to the query
goal        where the loss has a teacher: (teacher, passages, texts, positive, negatives, barred) → the `goal` of `loss`
            for queries `texts`, rows `positive` [batch] and `negatives` [m], and `barred`, bool[batch, m]
"""

from functools import cache
from types import ModuleType

from interextra.models import modules_with


@cache
def losses() -> dict[str, ModuleType]:
    """Name of each loss → its module (none of them imports torch before it is used).

    >>> losses()["margin-mse"].SCORES
    ('query',)
    """
    return {name.replace("_", "-"): module for name, module in modules_with("SCORES", __name__).items()}
