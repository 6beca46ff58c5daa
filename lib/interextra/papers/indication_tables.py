"""The loss at each distance from training, and which findings hold (Lupart §5.2, Figures 5 and 6).

Input are the per-query frames of `indication`. A loss is turned so that positive is worse for every measure, but for
RelLoss, which keeps the paper's sign: for ASL a negative one is a loss. Taught in notebooks/07_indicators.
"""

import itertools

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from interextra.ground import statistics
from interextra.papers.indication import Frames, standardised
from interextra.papers.lupart_losses import DENSE

POOLED = "all shifts"
FIRST_STAGE = (DENSE, "SPLADE", "ColBERT")  # those of Figure 5
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
            alike = [part.assign(R=standardised(part["R"], part["cluster"])) for part in parts]
            found[POOLED, model] = pd.concat(alike)
    return found


def loss_by_r(values: Values, measures: list[str], n_bins: int, seed: int, n_boot: int) -> pd.DataFrame:
    """RelLoss in intervals of R, by both binnings and both averagings (Lupart Figure 5 does not say which).

    Returns DataFrame[shift, model, measure, binning, averaging, bin, r_low, r_high, n_queries, n_dropped, rel_loss,
    low, high], bin 1 the farthest; under `all shifts` R is standardised.
    """
    parts = []
    for (shift, model), frame in values.items():
        for measure, binning, how in itertools.product(measures, loss_bins.BINNINGS, loss_bins.AVERAGINGS):
            r, *both = (frame[name].to_numpy() for name in ("R", f"in {measure}", f"out {measure}"))
            part = loss_bins.loss_by(r, *both, n_bins, binning, how, seed, n_boot)
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
        found = {"n_steps": len(steps), "n_as_stated": down, "monotone": bool(len(steps)) and down == len(steps)}
        rows.append(dict(zip(keys, names, strict=True)) | found)
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
            losses = {"difference": avg_in - out, "relative": loss_bins.per_query_loss(avg_in, out)}
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
            loss = loss_bins.per_query_loss(frame[f"in {measure}"], frame[f"out {measure}"])
            which = loss_bins.bins(frame["R"], n_bins, "quantile")[1] + 1
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


def farthest(
    values: Values, measure: str, first: str, others: list[str], n_bins: int, seed: int, n_boot: int
) -> pd.DataFrame:
    """RelLoss of one model less that of others on the farthest queries of all shifts, an n-th of them.

    Returns DataFrame[first, second, rel_loss_first, rel_loss_second, difference, low, high, n_queries]; the bootstrap
    draws queries for all models at once.
    """
    models = [first, *others]
    columns = [values[POOLED, name][f"{side} {measure}"].to_numpy() for name in models for side in ("in", "out")]
    inside = loss_bins.bins(values[POOLED, first]["R"], n_bins, "quantile")[1] == 0
    some, rows = np.stack(columns, axis=1)[inside], []  # [n, 2 · models]
    (here,) = _rel_losses(some.mean(axis=0)[None])
    draws = _rel_losses(statistics.resampled_means(some, seed, n_boot))
    for i, name in enumerate(others, 1):
        gaps = draws[:, 0] - draws[:, i]
        low, high = statistics.percentiles(gaps[~np.isnan(gaps)])
        rows.append({"first": first, "second": name, "rel_loss_first": here[0], "rel_loss_second": here[i],
                     "difference": here[0] - here[i], "low": low, "high": high, "n_queries": len(some)})  # fmt: skip
    return pd.DataFrame(rows)


def _rel_losses(means: np.ndarray) -> np.ndarray:
    """RelLoss float[b, models] of float[b, 2 · models] (AvgIn and Out by turns); NaN where AvgIn is 0."""
    avg_in, out = means[:, ::2], means[:, 1::2]
    return np.divide(avg_in - out, avg_in, out=np.full(avg_in.shape, np.nan), where=avg_in > 0)


def findings(
    by_jaccard: pd.DataFrame, by_r: pd.DataFrame, far: pd.DataFrame, widths: pd.DataFrame, predicted: pd.DataFrame,
    measure: str, control: str = "",
) -> pd.DataFrame:  # fmt: skip
    """The sentences of Lupart §5.2 as intervals: shift, model, finding, estimate, low, high, verdict.

    Tables of `link`, `trend`, `farthest`, `spread` and `indication_prediction.difficulty`. A finding `holds` where the
    interval lies on its side of 0, is `contradicted` where it lies on the other, else it is `not shown`.
    """
    rows = []

    def add(shift, model, finding, row, estimate, side, ends=("low", "high")):
        low, high = (row[end] for end in ends)
        verdict = "holds" if side * low > 0 < side * high else "contradicted" if side * low < 0 > side * high else ""
        rows.append({"shift": shift, "model": model, "finding": finding, "estimate": row[estimate], "low": low,
                     "high": high, "verdict": verdict or "not shown"})  # fmt: skip

    trained = by_jaccard[(by_jaccard["method"] == "Pearson") & (by_jaccard["model"] != "BM25")]  # the paper's isn't
    for row in trained.to_dict("records"):
        add(POOLED, row["model"], f"higher {row['indicator']}, lower loss (correlation)", row, "estimate", -1)
    part = by_r[(by_r["shift"] == POOLED) & (by_r["measure"] == measure) & by_r["model"].isin(FIRST_STAGE)]
    for row in part.to_dict("records"):
        add(POOLED, row["model"], f"the farther, the higher the loss ({row['loss']})", row, "spearman", -1)
    for row in far.to_dict("records"):
        finding = f"farthest queries: {row['first']} loses less than {row['second']}"
        add(POOLED, row["first"], finding, row, "difference", -1)
    for row in widths[widths["model"].isin(FIRST_STAGE)].to_dict("records"):
        side = worse(row["measure"])  # the paper: RR varies less far away, ASL more
        finding = f"losses of {row['measure']} vary {'less' if side > 0 else 'more'} far away"
        add(POOLED, row["model"], finding, row, "difference", -side)
    for row in predicted[predicted["model"] == DENSE].to_dict("records"):
        where = " even where clusters are random" if row["shift"] == control else ""
        add(row["shift"], DENSE, f"R orders queries by {measure}{where}", row, "tau_out", 1, ("out_low", "out_high"))
        better = f"R orders queries by {measure} better without the cluster in training than with it"
        add(row["shift"], DENSE, better, row, "difference", 1)
    return pd.DataFrame(rows)
