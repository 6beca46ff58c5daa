"""What a paper says, judged by an interval: does it hold here, is it contradicted, or is it not shown?"""

import numpy as np

from interextra.ground.effects import interval


def judge(
    finding: str, estimate: float, draws: np.ndarray, kind: str, margin: float = 0.0, gate: bool = True
) -> dict[str, float | str]:
    """One finding with its 95 % interval and its verdict: finding, estimate, low, high, verdict.

    Parameters
    ----------
    estimate, draws : an effect and its bootstrap draws float[n_boot], such as `ground.effects.draws` gives.
    kind : what is said of the effect: below 0, above 0, or none (an effect within ±`margin`).
    gate : false where the systems can't be compared, such as one that is worse than BM25 in domain.

    Returns
    -------
    The finding `holds` where the interval lies where it says and is `contradicted` where it lies beyond, that is on the
    other side of 0 or outside ±`margin`; else it is `not shown`. An effect whose estimate or any draw is undefined (a
    side with mean 0) is `undefined`; behind a closed gate it is `not comparable`.

    >>> judge("a loss", -0.1, np.linspace(-0.2, -0.01, 100), "below")["verdict"]
    'holds'
    """
    low, high = interval(draws)
    least, most = {"below": (-np.inf, 0.0), "above": (0.0, np.inf), "none": (-margin, margin)}[kind]
    if not gate:
        verdict = "not comparable"
    elif not (np.isfinite(estimate) and np.isfinite(draws).all()):
        verdict = "undefined"
    elif least < low and high < most:
        verdict = "holds"
    else:
        verdict = "contradicted" if low > most or high < least else "not shown"
    return {"finding": finding, "estimate": float(estimate), "low": low, "high": high, "verdict": verdict}
