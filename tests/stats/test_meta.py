"""Random-effects means, against published figures."""

import numpy as np
import pytest

from interextra.stats.meta import random_effects

# Log risk ratios of BCG vaccination and their variances (Colditz et al., JAMA 1994)
ESTIMATES = [-0.8893, -1.5854, -1.3481, -1.4416, -0.2175, -0.7861, -1.6209, 0.0120, -0.4694]
ESTIMATES += [-1.3713, -0.3394, 0.4459, -0.0173]
VARIANCES = [0.3256, 0.1946, 0.4154, 0.0200, 0.0512, 0.0069, 0.2230, 0.0040, 0.0564, 0.0730]
VARIANCES += [0.0124, 0.5325, 0.0714]


def test_the_variance_between_members_is_that_of_restricted_maximum_likelihood():
    """metafor prints τ² = .3132 and a mean of -.7145 for these data."""
    found = random_effects(np.array(ESTIMATES), np.array(VARIANCES))
    assert found.tau**2 == pytest.approx(0.3132, abs=3e-4)
    assert found.mean == pytest.approx(-0.7145, abs=3e-4)


def test_precise_estimates_far_apart_among_vague_ones_have_the_variance_of_their_own():
    """Ten times the variance of all estimates is below it."""
    estimates = np.array([10.0, -10.0] + [0.0] * 60)
    variances = np.array([0.01, 0.01] + [1e6] * 60)
    found = random_effects(estimates, variances)
    assert found.tau == pytest.approx(np.std(estimates[:2], ddof=1), rel=0.01)


def test_the_interval_is_never_narrower_than_without_hartung_and_knapp():
    variances = np.full(4, 0.04)
    alike = random_effects(np.array([0.50, 0.51, 0.49, 0.50]), variances)
    assert alike.tau == 0
    assert (alike.high - alike.low) / 2 == pytest.approx(3.1824 * 0.1, rel=1e-4)  # t of 3 degrees


def test_hartung_and_knapp_widen_where_members_differ_more_than_their_weights_say():
    estimates = np.array([0.0, 1.0, 2.0])
    found = random_effects(estimates, np.full(3, 1e-6))
    by_hand = 4.3027 * np.std(estimates, ddof=1) / np.sqrt(3)
    assert (found.high - found.low) / 2 == pytest.approx(by_hand, rel=1e-3)
    assert found.prediction_low < found.low and found.prediction_high > found.high


@pytest.mark.parametrize("estimates, variances", [([1.0], [0.1]), ([1.0, 2.0], [0.1, 0.0])])
def test_one_member_or_one_without_a_variance_has_no_mean(estimates, variances):
    assert np.isnan(random_effects(np.array(estimates), np.array(variances))).all()
