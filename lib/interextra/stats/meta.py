"""Random-effects means over few independent estimates, such as those of collections."""

from typing import NamedTuple

import numpy as np
from scipy import optimize, stats

NAN = float("nan")


class RandomEffects(NamedTuple):
    """The mean of what is estimated in a population of which some members were measured."""

    mean: float
    low: float  # 95 %, modified Hartung-Knapp
    high: float
    prediction_low: float  # 95 %, of another member; NaN for two members
    prediction_high: float
    tau: float  # standard deviation between members, by REML


UNDEFINED = RandomEffects(NAN, NAN, NAN, NAN, NAN, NAN)


def random_effects(estimates: np.ndarray, variances: np.ndarray) -> RandomEffects:
    """Return the random-effects mean of some estimates.

    The variance between members is that of restricted maximum likelihood. The interval is that of
    Hartung and Knapp (Statistics in Medicine 2001), modified so that it is never narrower than
    without their factor (Röver, Knapp and Friede, BMC Medical Research Methodology 2015). The
    prediction interval is that of Higgins, Thompson and Spiegelhalter (JRSS A 2009).

    Parameters
    ----------
    estimates : float[k]
    variances : float[k], squared standard errors, above 0.

    Examples
    --------
    >>> alike = random_effects(np.array([0.1, 0.1, 0.1]), np.array([0.01, 0.01, 0.01]))
    >>> round(alike.mean, 3), alike.tau
    (0.1, 0.0)
    """
    k = len(estimates)
    if k < 2 or not np.all(variances > 0):
        return UNDEFINED
    tau_squared = _reml(estimates, variances)
    weights = 1 / (variances + tau_squared)
    mean = np.average(estimates, weights=weights)
    spread = (weights * (estimates - mean) ** 2).sum() / (k - 1)
    error = np.sqrt(max(1.0, spread) / weights.sum())
    reach = stats.t.ppf(0.975, k - 1) * error
    tau = np.sqrt(tau_squared)
    reach_of_another = stats.t.ppf(0.975, k - 2) * np.hypot(tau, error) if k > 2 else NAN
    return RandomEffects(
        mean=float(mean),
        low=float(mean - reach),
        high=float(mean + reach),
        prediction_low=float(mean - reach_of_another),
        prediction_high=float(mean + reach_of_another),
        tau=float(tau),
    )


def _reml(estimates: np.ndarray, variances: np.ndarray) -> float:
    """Return the variance between members that has the largest restricted likelihood.

    The likelihood falls from where this variance is above all others and three times the squared
    range of the estimates. A few precise estimates may lie far apart among vague ones that do not,
    so that it is looked for on both sides of ten times their variance.
    """

    def negative_log_likelihood(tau_squared: float) -> float:
        total = variances + tau_squared
        weights = 1 / total
        mean = np.average(estimates, weights=weights)
        squares = (weights * (estimates - mean) ** 2).sum()
        return (np.log(total).sum() + np.log(weights.sum()) + squares) / 2

    usual = 10 * np.var(estimates, ddof=1) + 1e-12
    largest = max(usual, np.max(variances), 3 * np.ptp(estimates) ** 2)
    best, least = 0.0, negative_log_likelihood(0.0)
    for bounds in ((0, usual), (usual, largest)):
        found = optimize.minimize_scalar(
            negative_log_likelihood, bounds=bounds, method="bounded", options={"xatol": 1e-12}
        )
        if found.fun < least:
            best, least = float(found.x), found.fun
    return best
