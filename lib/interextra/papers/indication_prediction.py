"""Can the loss, or effectiveness out of domain, be foreseen from a query alone? (beyond Lupart §5.2)

Predictors of three kinds: distance from training (in the dense model's space, in the model's own, by words), statistics
of the collection, scores of the run. Input are the per-query frames of `indication`. Taught in notebooks/07_indicators.
"""

import numpy as np
import pandas as pd

from interextra.ground import statistics
from interextra.papers.indication import POST, PRE, SPACE, WORDS, Frames
from interextra.papers.indication_tables import POOLED, Values, worse
from interextra.papers.lupart_losses import DENSE

FAMILIES = {"dense": SPACE, "own": SPACE, "words": WORDS, "collection": PRE, "run": POST}  # space → its predictors


def predictor_frames(
    sides: Frames, near: Frames, words: dict[str, pd.DataFrame], before: dict[str, pd.DataFrame], after: Frames
) -> Frames:
    """All predictors of the test queries, columns `SPACE: NAME`; `own` only where it is not the dense model's space."""
    found = {}
    for shift, model in sides:
        parts = {"dense": near[shift, DENSE], "words": words[shift], "collection": before[shift]}
        if (shift, model) in near and model != DENSE:
            parts["own"] = near[shift, model]
        parts["run"] = after[shift, model]
        found[shift, model] = pd.concat(
            [parts[name].add_prefix(f"{name}: ") for name in FAMILIES if name in parts], axis=1
        )
    return found


def targets(frame: pd.DataFrame, measures: list[str]) -> tuple[pd.DataFrame, dict[str, int]]:
    """What is predicted: Out of every measure, and the loss AvgIn - Out of the first; and which way each points."""
    found = {f"out {name}": frame[f"out {name}"] for name in measures}
    found["loss"] = worse(measures[0]) * (frame[f"in {measures[0]}"] - frame[f"out {measures[0]}"])
    return pd.DataFrame(found), {f"out {name}": worse(name) for name in measures} | {"loss": -1}


def predict(sides: Frames, predictors: Frames, measures: list[str], seed: int, n_boot: int) -> pd.DataFrame:
    """Every predictor with every target, each turned so that a positive tau is what its makers expect.

    Expected: near, specific or confidently answered queries do well and lose little; long ones do badly. A predictor
    that is known for fewer than half of the queries is left out.

    Returns
    -------
    DataFrame[shift, model, target, predictor, space, kendall, kendall_low, kendall_high, within, within_low,
    within_high, smare, smare_low, smare_high, n_queries] : `within` is tau within clusters, see `prediction`; over all
        queries scores of different models are mixed.
    """
    parts = []
    for (shift, model), frame in sides.items():
        known = predictors[shift, model].dropna(axis=1, thresh=len(frame) // 2 + 1)
        wanted, signs = targets(frame, measures)
        signs |= {"collection: length": -1} if "collection: length" in known else {}
        table = prediction.prediction_table(known, wanted, signs, seed, n_boot, groups=frame["cluster"])
        parts.append(table.assign(shift=shift, model=model))
    table = pd.concat(parts, ignore_index=True)
    table[["space", "predictor"]] = table["predictor"].str.split(": ", expand=True)
    table.columns = table.columns.str.replace("kendall_within", "within")
    ends = [f"{name}{end}" for name in ("kendall", "within", "smare") for end in ("", "_low", "_high")]
    return table[["shift", "model", "target", "predictor", "space", *ends, "n_queries"]]


def definitions(table: pd.DataFrame) -> pd.DataFrame:
    """How well each definition of far orders losses within clusters: shift, model, definition, kendall, low, high."""
    part = table[(table["target"] == "loss") & table["space"].isin(["dense", "own", "words"])]
    made = part.assign(definition=part["space"] + ": " + part["predictor"])
    names = {"within": "kendall", "within_low": "low", "within_high": "high"}
    return made[["shift", "model", "definition", *names]].rename(columns=names).reset_index(drop=True)


def definition_gaps(sides: Frames, predictors: Frames, measure: str, seed: int, n_boot: int) -> pd.DataFrame:
    """Paired differences of tau (within clusters, with the loss) between definitions of far.

    Returns DataFrame[shift, model, first, second, tau_first, tau_second, difference, low, high]: second less first;
    own less dense space for R, max and density, and max, density and the nearest by words less R of the dense model.
    """
    pairs = [(f"dense: {name}", f"own: {name}") for name in SPACE]
    pairs += [("dense: R", f"dense: {name}") for name in SPACE[1:]] + [("dense: R", "words: nearest_jaccard")]
    rows = []
    for (shift, model), frame in sides.items():
        known = predictors[shift, model]
        loss = targets(frame, [measure])[0]["loss"]
        for first, second in pairs if loss.nunique() > 1 else ():
            if second in known:
                found = prediction.tau_difference(known[first], known[second], -loss, frame["cluster"], seed, n_boot)
                names = {"shift": shift, "model": model, "first": first, "second": second}
                rows.append(names | {"tau_first": found.pop("first"), "tau_second": found.pop("second")} | found)
    columns = ["shift", "model", "first", "second", "tau_first", "tau_second", "difference", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def difficulty(values: Values, measure: str, seed: int, n_boot: int) -> pd.DataFrame:
    """Does R predict the model without the cluster better than the models that had it? If not, it measures difficulty.

    Returns
    -------
    DataFrame[shift, model, tau_in, in_low, in_high, tau_out, out_low, out_high, difference, low, high, verdict] : tau
        of R with AvgIn and with Out within clusters, on the same resamples. Verdict: `distance` (it predicts Out, and
        Out better than AvgIn), `difficulty` (it predicts both, and no difference is shown), `undecided` (it predicts
        Out alone, and no difference is shown), `reversed` (near queries do worse), `no prediction` (of Out).
    """
    rows = []
    for (shift, model), frame in values.items():
        if shift == POOLED:
            continue
        both = worse(measure) * frame[[f"in {measure}", f"out {measure}"]].to_numpy()
        tau, draws = prediction.within_draws(frame["R"], both, frame["cluster"], seed, n_boot)
        a, b, gap = (statistics.percentiles(x[~np.isnan(x)]) if not np.isnan(x).all() else (np.nan, np.nan)
                     for x in (draws[:, 0, 0], draws[:, 0, 1], draws[:, 0, 1] - draws[:, 0, 0]))  # fmt: skip
        short = "distance" if gap[0] > 0 else "difficulty" if a[0] > 0 else "undecided"
        other = "reversed" if b[1] < 0 else "no prediction"
        rows.append(
            {
                "shift": shift, "model": model, "tau_in": tau[0, 0], "in_low": a[0], "in_high": a[1],
                "tau_out": tau[0, 1], "out_low": b[0], "out_high": b[1], "difference": tau[0, 1] - tau[0, 0],
                "low": gap[0], "high": gap[1], "verdict": short if b[0] > 0 else other,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)
