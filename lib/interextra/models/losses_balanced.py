"""The loss of TAS-Balanced training: two teachers, one of pairs and one of all passages of the batch."""

from interextra.models.losses import for_scores


@for_scores("topics")
def tas_balanced(good, bad, goal, recipe):
    """Squared error of margins: of each query's own pair, and `in_batch_weight` times that of all passages there.

    good: [batch, 1]; bad: [batch, 1 + m], the pair's negative, then the m passages of the batch; goal: the teachers'
    margins of them, [batch, 1 + m]. Source: Hofstätter et al., SIGIR 2021, section 3.3.
    """
    errors = (good - bad - goal) ** 2
    return errors[:, 0].mean() + recipe.in_batch_weight * errors[:, 1:].mean()
