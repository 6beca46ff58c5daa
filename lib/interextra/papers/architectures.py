"""Architectures in two regimes: what several systems' values say together (Zhan §5.1, Tables 6 and 7)."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.ground.errors import InputError
from interextra.ground import statistics
from interextra.models.recipe import make_recipe, scored_pairs
from interextra.splits import resttest
from interextra.study import jobs

INTERACTION, REPRESENTATION = ("Reranker", "ColBERT"), ("SPLADE", "DR (base)")
Pair = tuple[pd.DataFrame, pd.DataFrame]  # values in interpolation and extrapolation, [query_id, measure]


def collect(
    design: list[dict], folders: Sequence[Path], collection, splits: Sequence[str], measures: list[str]
) -> pd.DataFrame:
    """The labels of each run, and in `values` its measures: DataFrame[query_id, measure] over all `splits`.

    Queries stand in the order of the collection, as in the test vectors and buckets.
    """
    runs = pd.DataFrame([{name: value for name, value in row.items() if name != "config"} for row in design])
    runs["values"] = [
        pd.concat(
            [jobs.measured(folder, collection, name, measures).loc[collection.query_ids(name)] for name in splits]
        )
        for folder in folders
    ]
    return runs


def over_seeds(runs: pd.DataFrame) -> pd.DataFrame:
    """Mean per query of some runs that differ in their seed only."""
    if not len(runs):
        raise InputError("no run to average: the labels asked for are not in the design")
    return sum(runs["values"]) / len(runs)


def restrain_pairs(runs: pd.DataFrame) -> dict[tuple[int, str], Pair]:
    """ReSTrain: (training size, model) → the same test queries under the two models; means over seeds."""
    pairs = {}
    for (n_train, model), found in runs.groupby(["n_train", "model"], sort=False):
        pairs[n_train, model] = tuple(
            over_seeds(found[found["regime"] == r]) for r in ("interpolation", "extrapolation")
        )
    return pairs


def resttest_pairs(runs: pd.DataFrame, bucket: np.ndarray, average: str) -> dict[str, Pair]:
    """ReSTTest: model → values of the test queries (in bucket[n_test], from 0) by the models that had their bucket and
    by the one that hadn't; `average` micro or macro, see `splits.resttest.regime_values`."""
    pairs = {}
    for model, found in runs.groupby("model", sort=False):
        folds = [over_seeds(found[found["bucket"] == b]) for b in sorted(found["bucket"].unique())]
        sides = {
            name: resttest.regime_values(np.stack([fold[name] for fold in folds]), bucket, average)
            for name in folds[0].columns
        }
        pairs[model] = tuple(
            pd.DataFrame({name: side[i] for name, side in sides.items()}, index=folds[0].index) for i in (0, 1)
        )
    return pairs


def rows(pairs: Mapping, measures: Sequence[str], label: Callable[[object], dict], **options) -> list[dict]:
    """`regimes.regime_row` of every pair and measure; `label(key)` gives the columns that name the pair."""
    return [
        {**label(key), "measure": name, **regimes.regime_row(inter[name], extra[name], paired=True, **options)}
        for key, (inter, extra) in pairs.items()
        for name in measures
    ]


class Resampled:
    """Deltas of several systems on the same queries, and their joint bootstrap: a draw of queries hits all systems.

    `delta` float[systems], `deltas` float[n_boot, systems]; `scores` and `drawn` with a last axis (inter, extra).
    """

    def __init__(self, pairs: Mapping[str, Pair], measure: str, seed: int = 0, n_boot: int = 10_000):
        self.systems = list(pairs)
        columns = np.stack([side[measure].to_numpy() for pair in pairs.values() for side in pair], axis=1)
        self.scores = columns.mean(axis=0).reshape(-1, 2)
        self.drawn = statistics.resampled_means(columns, seed, n_boot).reshape(n_boot, -1, 2)
        self.delta, self.deltas = (means[..., 1] / means[..., 0] - 1 for means in (self.scores, self.drawn))

    def of(self, systems: Sequence[str]) -> tuple[float, np.ndarray]:
        """Mean delta of some systems: the estimate, and its draws float[n_boot]."""
        at = [self.systems.index(system) for system in systems]
        return float(self.delta[at].mean()), self.deltas[:, at].mean(axis=1)

    def rank_correlation(self) -> tuple[float, np.ndarray]:
        """Kendall's tau-a of the systems' scores in the two regimes: the estimate and its draws."""

        def tau(means):
            signs = [np.sign(means[..., :, None, r] - means[..., None, :, r]) for r in (0, 1)]
            n = len(self.systems)
            return (signs[0] * signs[1]).sum(axis=(-1, -2)) / (n * (n - 1))

        return float(tau(self.scores)), tau(self.drawn)


def claims(drawn: Resampled, margin: float, level: float = 0.95) -> pd.DataFrame:
    """The published findings of §5.1.3 as intervals: finding, estimate, low, high, verdict.

    A loss or a gap `holds` where the interval lies on its side of 0 and is `contradicted` where it lies on the other;
    "no loss" holds where it lies within ±`margin` and is contradicted where it lies outside; else it is `not shown`.
    """
    loss, gap = (drawn.of(group) for group in (REPRESENTATION, INTERACTION))
    stated = [
        ("representation-based: a loss", *loss, "below"),
        (f"interaction-based: no loss (±{margin:.0%})", *gap, "none"),
        ("interaction-based: a smaller loss", gap[0] - loss[0], gap[1] - loss[1], "above"),
        (f"BM25: no loss (±{margin:.0%})", *drawn.of(["BM25"]), "none"),
    ]
    return judged(stated, margin, level)


def judged(stated: Sequence[tuple], margin: float = 0.0, level: float = 0.95) -> pd.DataFrame:
    """Findings with their intervals and verdicts: finding, estimate, low, high, verdict (see `claims`).

    `stated` holds (finding, estimate, draws float[n_boot], kind), kind `below` or `above` 0 or `none` (no loss).
    Without draws (None) there is `no interval`.
    """
    found = []
    for finding, estimate, draws, kind in stated:
        low, high = (np.nan, np.nan) if draws is None else statistics.percentiles(draws, level)
        verdict = "no interval" if draws is None else _verdict(low, high, kind, margin)
        found.append({"finding": finding, "estimate": estimate, "low": low, "high": high, "verdict": verdict})
    return pd.DataFrame(found)


def _verdict(low: float, high: float, kind: str, margin: float) -> str:
    if kind == "none":
        holds, contradicted = -margin <= low and high <= margin, high < -margin or low > margin
    else:
        holds, contradicted = (high < 0, low > 0) if kind == "below" else (low > 0, high < 0)
    return "holds" if holds else "contradicted" if contradicted else "not shown"


def differences(drawn: Resampled, level: float = 0.95) -> pd.DataFrame:
    """Delta of one system minus delta of another, every pair once: first, second, difference, low, high."""
    found = []
    for i, first in enumerate(drawn.systems):
        for j, second in list(enumerate(drawn.systems))[i + 1 :]:
            low, high = statistics.percentiles(drawn.deltas[:, i] - drawn.deltas[:, j], level)
            found.append({"first": first, "second": second, "difference": drawn.delta[i] - drawn.delta[j],
                          "low": low, "high": high})  # fmt: skip
    return pd.DataFrame(found)


def training_pairs(design: list[dict], folders: Sequence[Path]) -> list[int]:
    """How many scores of a query and a passage the loss of each run has seen; 0 for BM25."""
    found = []
    for row, folder in zip(design, folders, strict=True):
        log = json.loads((folder / "training.json").read_text(encoding="utf-8"))
        found.append(scored_pairs(make_recipe(row["config"]["recipe"]), log["steps"]))
    return found


def loss_curves(design: list[dict], folders: Sequence[Path]) -> pd.DataFrame:
    """Training loss of runs: model, seed, step, loss (the mean since the step before)."""
    parts = []
    for row, folder in zip(design, folders, strict=True):
        log = json.loads((folder / "training.json").read_text(encoding="utf-8"))
        curve = pd.DataFrame(log["loss"], columns=["step", "loss"])
        parts.append(curve.assign(model=row["model"], seed=row["seed"]))
    return pd.concat(parts, ignore_index=True)[["model", "seed", "step", "loss"]]
