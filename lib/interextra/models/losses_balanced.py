"""The loss of TAS-Balanced training: two teachers, one of pairs and one of all passages of the batch."""

from interextra.models.losses import for_scores, shared_scores


@for_scores("topics", goal=shared_scores)
def tas_balanced(good, bad, goal, recipe):
    """Squared error of margins: of each query's own pair, and `in_batch_weight` times that of all passages there.

    good: [batch, 1]; bad: [batch, m], those of the batch's pairs first; goal: [batch, 2 + m], one teacher's margin of
    the query's own pair, the other's scores of good and bad. Source: Hofstätter et al., SIGIR 2021, section 3.3.
    """
    pair = ((good - bad).diagonal() - goal[:, 0]) ** 2
    return pair.mean() + recipe.in_batch_weight * ((good - bad - goal[:, 1:2] + goal[:, 2:]) ** 2).mean()
