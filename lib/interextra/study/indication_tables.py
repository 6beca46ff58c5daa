"""What indicators say of losses: loss by distance, prediction, which definition of far is best (Lupart §5.2 and beyond).

Input are the per-query frames of `indication`. A loss is turned so that positive is worse for every measure, but for
RelLoss, which keeps the paper's sign: for ASL a negative one is a loss. Taught in notebooks/07_indicators.
"""

import itertools

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from interextra.evaluation import indicators, prediction, statistics
from interextra.study.indication import POST, PRE, SPACE, WORDS, Asked, Frames, standardised
from interextra.study.lupart_losses import DENSE

POOLED = "all shifts"
FAMILIES = {"dense": SPACE, "own": SPACE, "words": WORDS, "collection": PRE, "run": POST}  # space → its predictors
Values = dict[tuple[str, str], pd.DataFrame]


def worse(measure: str) -> int:
    """1 where a lower value is worse, -1 where a higher one is (ASL)."""
    return -1 if measure.startswith("ASL") else 1


def pooled(sides: Frames, near: Frames, control: str = "") -> Values:
    """Per (shift, model) the sides with R of the dense model as `R`; under `all shifts` with R standardised.

    The pool leaves out the control and models that are not in every shift. A query that is in two shifts counts twice.
    """
    found = {(shift, model): frame.assign(R=near[shift, DENSE]["R"]) for (shift, model), frame in sides.items()}
    names = [name for name in dict.fromkeys(shift for shift, _ in sides) if name != control]
    for model in dict.fromkeys(model for _, model in sides):
        parts = [found[name, model] for name in names if (name, model) in found]
        if len(parts) == len(names):
            found[POOLED, model] = pd.concat([part.assign(R=standardised(part["R"], part["cluster"])) for part in parts])
    return found


def loss_by_r(values: Values, measures: list[str], n_bins: int, seed: int, n_boot: int) -> pd.DataFrame:
    """RelLoss in intervals of R, by both binnings and both averagings (Lupart Figure 5 does not say which).

    Returns DataFrame[shift, model, measure, binning, averaging, bin, r_low, r_high, n_queries, n_dropped, rel_loss, low,
    high], bin 1 the farthest; under `all shifts` R is standardised.
    """
    parts = []
    for (shift, model), frame in values.items():
        for measure, binning, how in itertools.product(measures, indicators.BINNINGS, indicators.AVERAGINGS):
            r, *both = (frame[name].to_numpy() for name in ("R", f"in {measure}", f"out {measure}"))
            part = indicators.loss_by(r, *both, n_bins, binning, how, seed, n_boot)
            names = {"shift": shift, "model": model, "measure": measure, "binning": binning, "averaging": how}
            parts.append(part.assign(**names, bin=part["bin"] + 1))
    table = pd.concat(parts, ignore_index=True).rename(columns={"low_edge": "r_low", "high_edge": "r_high"})
    return table[[*names, "bin", "r_low", "r_high", "n_queries", "n_dropped", "rel_loss", "low", "high"]]


def monotone(table: pd.DataFrame) -> pd.DataFrame:
    """Does the loss of `loss_by_r` get less from each interval to the next one nearer to training?

    Returns shift, model, measure, binning, averaging, n_steps (between intervals that have a loss), n_as_stated (steps
    to a smaller loss), monotone (all of them).
    """
    keys, rows = ["shift", "model", "measure", "binning", "averaging"], []
    for names, part in table.groupby(keys, sort=False):
        steps = np.diff(worse(names[2]) * part["rel_loss"].dropna().to_numpy())
        down = int((steps < 0).sum())
        rows.append(dict(zip(keys, names, strict=True)) | {
            "n_steps": len(steps), "n_as_stated": down, "monotone": bool(len(steps)) and down == len(steps)})  # fmt: skip
    return pd.DataFrame(rows)


def spearman(x: np.ndarray, y: np.ndarray, seed: int, n_boot: int) -> tuple[float, float, float]:
    """Rank correlation of two columns float[n] with the percentile interval of a bootstrap over queries.

    NaN where a column is constant; so is a resample's, which the interval leaves out.

    >>> spearman(np.arange(9.0), -np.arange(9.0), seed=0, n_boot=50)
    (-1.0, -1.0, -1.0)
    """

    def correlation(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        first, second = (rankdata(side, axis=1) - (side.shape[1] + 1) / 2 for side in (first, second))
        size = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
        return np.divide((first * second).sum(axis=1), size, out=np.full(len(size), np.nan), where=size > 0)

    drawn = np.random.default_rng(seed).integers(len(x), size=(n_boot, len(x)))
    draws = correlation(x[drawn], y[drawn]).round(12)
    draws = draws[~np.isnan(draws)]
    ends = statistics.percentiles(draws) if len(draws) else (np.nan, np.nan)
    return float(correlation(x[None], y[None])[0].round(12)), *ends


def trend(values: Values, measures: list[str], seed: int, n_boot: int) -> pd.DataFrame:
    """Rank correlation over queries of R with the loss; below 0: the farther, the higher the loss.

    R is standardised within each left-out cluster, as every cluster has a model and a scale of its own.

    Returns
    -------
    DataFrame[shift, model, measure, loss, spearman, low, high, n_queries] : `loss` is "difference" (AvgIn - Out of all
        queries) or "relative" (over AvgIn, of the queries where AvgIn is above 0).
    """
    rows = []
    for (shift, model), frame in values.items():
        r = frame["R"] if shift == POOLED else standardised(frame["R"], frame["cluster"])
        for measure in measures:
            avg_in, out = (frame[f"{side} {measure}"].to_numpy() for side in ("in", "out"))
            losses = {"difference": avg_in - out, "relative": indicators.per_query_loss(avg_in, out)}
            for name, loss in losses.items():
                known = ~np.isnan(loss)
                estimate, low, high = spearman(r[known].to_numpy(), worse(measure) * loss[known], seed, n_boot)
                rows.append({"shift": shift, "model": model, "measure": measure, "loss": name, "spearman": estimate,
                             "low": low, "high": high, "n_queries": int(known.sum())})  # fmt: skip
    return pd.DataFrame(rows)


def per_query(values: Values, measures: list[str], n_bins: int) -> pd.DataFrame:
    """RelLoss of each query beside its interval of R (Figure 6): model, measure, bin (1: farthest), R, rel_loss.

    All shifts together, as many queries in each interval as ties allow; without queries whose AvgIn is 0.
    """
    parts = []
    for (shift, model), frame in values.items():
        for measure in measures if shift == POOLED else ():
            loss = indicators.per_query_loss(frame[f"in {measure}"], frame[f"out {measure}"])
            which = indicators.bins(frame["R"], n_bins, "quantile")[1] + 1
            part = pd.DataFrame({"model": model, "measure": measure, "bin": which, "R": frame["R"], "rel_loss": loss})
            parts.append(part.dropna())
    return pd.concat(parts, ignore_index=True)


def spread(losses: pd.DataFrame, seed: int, n_boot: int) -> pd.DataFrame:
    """Middle half of the per-query losses in the farthest and the nearest interval, and their difference (Figure 6).

    Returns DataFrame[model, measure, farthest, nearest, difference, low, high]: interquartile ranges of RelLoss; they
    stand for the variance, which a single query near AvgIn = 0 would decide.
    """
    rows = []
    for (model, measure), part in losses.groupby(["model", "measure"], sort=False):
        rng, found, draws = np.random.default_rng(seed), [], []
        for number in (part["bin"].min(), part["bin"].max()):
            x = part.loc[part["bin"] == number, "rel_loss"].to_numpy()
            found.append(float(np.subtract(*np.quantile(x, [0.75, 0.25]))))
            drawn = x[rng.integers(len(x), size=(n_boot, len(x)))]
            draws.append(np.subtract(*np.quantile(drawn, [0.75, 0.25], axis=1)))
        low, high = statistics.percentiles(draws[0] - draws[1])
        rows.append({"model": model, "measure": measure, "farthest": found[0], "nearest": found[1],
                     "difference": found[0] - found[1], "low": low, "high": high})  # fmt: skip
    return pd.DataFrame(rows)


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
    """How well each definition of far orders the losses within clusters: shift, model, definition, kendall, low, high."""
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
        Out alone, and no difference is shown), `no prediction` (of Out).
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
        rows.append(
            {
                "shift": shift, "model": model, "tau_in": tau[0, 0], "in_low": a[0], "in_high": a[1],
                "tau_out": tau[0, 1], "out_low": b[0], "out_high": b[1], "difference": tau[0, 1] - tau[0, 0],
                "low": gap[0], "high": gap[1], "verdict": short if b[0] > 0 else "no prediction",
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def farthest(values: Values, measure: str, first: str, others: list[str], n_bins: int, seed: int, n_boot: int) -> list:
    """(other model, RelLoss of `first` less that of the other on the farthest queries of all shifts, its draws)."""
    models = [first, *others]
    columns = [values[POOLED, name][f"{side} {measure}"].to_numpy() for name in models for side in ("in", "out")]
    inside = indicators.bins(values[POOLED, first]["R"], n_bins, "quantile")[1] == 0
    some = np.stack(columns, axis=1)[inside]  # [n, 2 · models]

    def losses(means: np.ndarray) -> np.ndarray:
        means = means.reshape(len(means), -1, 2)
        return 1 - np.divide(means[..., 1], means[..., 0], out=np.full(means.shape[:2], np.nan), where=means[..., 0] > 0)

    here, draws = losses(some.mean(axis=0)[None])[0], losses(statistics.resampled_means(some, seed, n_boot))
    return [(name, here[0] - here[i], draws[:, 0] - draws[:, i]) for i, name in enumerate(others, 1)]
