"""A pair of the positive passage and a negative weighs what exchanging the two would change the reciprocal rank by.

LambdaRank, against the passages that the model itself ranks first (ADORE: Zhan et al., SIGIR 2021).
"""

SCORES = ("corpus",)


def loss(good, bad, goal, recipe):
    return rank_weighted_loss(good, bad, bad.isfinite())


def rank_weighted_loss(good, bad, met):
    """Mean over the batch of Σ |1/rank⁺ − 1/rank⁻| · log(1 + exp(s⁻ − s⁺)) over the negatives.

    Ranks are those among the positive passage and its negatives. good: [batch, 1]; bad: [batch, m] by score descending;
    met: bool[batch, m], which of them count. Taught in notebooks/06_pretraining_study.
    """
    import torch
    from torch.nn.functional import softplus

    above = ((bad > good) & met).sum(dim=1, keepdim=True)
    place = torch.arange(1, bad.shape[1] + 1, device=bad.device)
    ranks = place + (place > above)  # the positive stands between them
    weights = (1 / (1 + above) - 1 / ranks).abs()
    pairs = softplus(torch.where(met, bad - good, torch.zeros_like(bad)))
    return (weights * pairs * met).sum(dim=1).mean()
