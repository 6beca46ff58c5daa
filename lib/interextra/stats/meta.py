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
    """Return the variance between members that has the largest restricted likelihood."""

    def negative_log_likelihood(tau_squared: float) -> float:
        total = variances + tau_squared
        weights = 1 / total
        mean = np.average(estimates, weights=weights)
        squares = (weights * (estimates - mean) ** 2).sum()
        return (np.log(total).sum() + np.log(weights.sum()) + squares) / 2

    largest = 10 * np.var(estimates, ddof=1) + 1e-12
    found = optimize.minimize_scalar(
        negative_log_likelihood, bounds=(0, largest), method="bounded", options={"xatol": 1e-12}
    )
    at_zero = negative_log_likelihood(0.0)
    return 0.0 if at_zero <= found.fun else float(found.x)
