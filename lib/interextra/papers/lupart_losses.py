"""Lupart et al.: the published losses (Tables 2 and 3), their link with the Jaccard, and our own losses beside them."""

import itertools
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from interextra.ground.errors import InputError, offenders
from interextra.ground import statistics
from interextra.study import architectures, lupart, published

MODELS = {  # ours → the paper's
    "BM25": "BM25", "Reranker": "monoBERT", "ColBERT": "ColBERT", "SPLADE": "SPLADE", "DR (base)": "bi-encoder",
}  # fmt: skip
DENSE = "DR (base)"
STEPS = ((DENSE, "SPLADE"), ("SPLADE", "ColBERT"), ("SPLADE", "Reranker"))  # the first is said to lose more


def published_losses(ours: bool = False) -> pd.DataFrame:
    """Tables 2 and 3 in long form, as fractions: shift, cluster, model, rel_loss, avg_in, out (RR@10).

    BM25 isn't trained: its one score is `out`, and it has no published loss. `ours` names the models as we do.

    >>> published_losses().query("cluster == 'C1' and model == 'ColBERT'").iloc[0].to_dict()["rel_loss"]
    0.085
    """
    cells = pd.concat([published.load("lupart", number) for number in (2, 3)])
    cells["shift"] = cells["collection"].str.removeprefix("MS-Shift ")
    cells["quantity"] = cells["quantity"].fillna("Out").map({"Rel Loss": "rel_loss", "Avg In": "avg_in", "Out": "out"})
    wide = cells.pivot(index=["shift", "cluster", "model"], columns="quantity", values="scaled")
    order = cells[["shift", "cluster", "model"]].drop_duplicates()
    order = order.sort_values("shift", key=lambda shift: shift.map(list(lupart.CLUSTERS).index), kind="stable")
    wide = wide.loc[list(order.itertuples(index=False, name=None))].reset_index().rename_axis(columns=None).round(6)
    if ours:
        wide["model"] = wide["model"].map({theirs: name for name, theirs in MODELS.items()})
    return wide[["shift", "cluster", "model", "rel_loss", "avg_in", "out"]]


def published_jaccard_link(folder: str | Path | None = None, level: float = 0.95) -> pd.DataFrame:
    """Correlation over clusters of the published losses with the weighted Jaccard (Lupart §5.2, Figure 3), per model.

    Five clusters can show little: |Pearson| must exceed .88 for p < .05, Spearman must be 1 or -1, and an interval
    around -.7 reaches from nearly -1 to above 0. Four models are four tests of the same five clusters, hence `p_holm`.

    Parameters
    ----------
    folder : of the release, for the Jaccard of the released evaluation queries, and so for the question words too;
        None: only the values of the release's notebook, which has the topics.
    level : of the intervals: Fisher's z for Pearson, Bonett and Wright (Psychometrika 2000) for Spearman.

    Returns
    -------
    DataFrame[jaccard, clusters, n, model, method, estimate, low, high, p_value, p_holm, needed]: `jaccard` authors or
        released; p_value by Student's t for Pearson, by all orders for Spearman; `needed` is the smallest |estimate|
        with p < .05 at this n. No interval (NaN) for a correlation of 1 or -1.
    """
    losses = published_losses().dropna(subset="rel_loss").set_index(["model", "cluster"])["rel_loss"]
    rows = []
    for (name, clusters), values in _jaccards(folder).items():
        for method in ("Pearson", "Spearman"):
            found = []
            for model in dict.fromkeys(losses.index.get_level_values("model")):
                row = {"jaccard": name, "clusters": clusters, "n": len(values), "model": model, "method": method}
                found.append(row | correlation(values, losses[model].loc[values.index], method, level))
            holm = statistics.holm([row["p_value"] for row in found])
            rows += [row | {"p_holm": p} for row, p in zip(found, holm, strict=True)]
    columns = ["jaccard", "clusters", "n", "model", "method", "estimate", "low", "high", "p_value", "p_holm", "needed"]
    return pd.DataFrame(rows)[columns]


def correlation(first: np.ndarray, second: np.ndarray, method: str, level: float = 0.95) -> dict[str, float]:
    """Pearson or Spearman correlation of 4 to 9 points: estimate, low, high, p_value, needed; as in the link above.

    >>> found = correlation([1, 2, 3, 4, 5], [5, 3, 4, 2, 1], "Spearman")
    >>> [round(found[name], 3) for name in ("estimate", "p_value", "needed")]
    [-0.9, 0.083, 1.0]
    """
    first, second = np.asarray(first, float), np.asarray(second, float)
    n = len(first)
    if len(second) != n or not 4 <= n <= 9 or not np.isfinite([first, second]).all():
        raise InputError(f"correlation: 4 to 9 pairs of numbers, not {n} and {len(second)} values, none missing")
    if not (np.ptp(first) and np.ptp(second)):
        raise InputError("correlation: one side is constant; leave it out")
    if method == "Pearson":
        estimate, p_value = map(float, stats.pearsonr(first, second))
        t = stats.t.ppf(0.975, n - 2)
        needed, spread = t / np.sqrt(n - 2 + t**2), 1.0
    elif method == "Spearman":
        ranks = [stats.rankdata(side) for side in (first, second)]
        estimate = round(float(np.corrcoef(*ranks)[0, 1]), 12)  # 1 is 1
        size = np.abs(_all_orders(ranks))
        p_value = float((size >= abs(estimate) - 1e-9).mean())
        possible = np.unique(size.round(9))
        needed = min((v for v in possible if (size >= v - 1e-9).mean() < 0.05), default=np.nan)
        spread = 1 + estimate**2 / 2
    else:
        raise InputError(f"correlation {method!r}: use Pearson or Spearman")
    low = high = np.nan
    if abs(estimate) < 1 - 1e-9:
        width = stats.norm.ppf((1 + level) / 2) * np.sqrt(spread / (n - 3))
        low, high = np.tanh(np.arctanh(estimate) + np.array([-width, width]))
    values = {"estimate": estimate, "low": low, "high": high, "p_value": p_value, "needed": needed}
    return {name: float(value) for name, value in values.items()}


def compare_losses(measured: pd.DataFrame, measure: str = "RR@10") -> pd.DataFrame:
    """Our losses beside the range of the published ones, and the order of the architectures.

    Collections, encoders and clusters differ, so direction, size and order are compared and no single number is.

    Parameters
    ----------
    measured : DataFrame[shift, model, cluster, measure, rel_loss] with our model names, a row a cluster; with `low`
        and `high` the clusters are counted whose interval lies above 0.
    measure : which of the rows; published is RR@10.

    Returns
    -------
    DataFrame[shift, model, published_model, n_clusters, n_shown, own_min, own_mean, own_max, published_min,
    published_mean, published_max, same_direction, mean_inside, own_rank, published_rank, tau], a row a shift and model.
        Ranks (1: loses most) and Kendall's tau of the mean losses are over the models that both have, so without BM25;
        four models agree in order by chance in 1 of 24 cases. NaN or None where nothing was published.
    """
    own = _own_losses(measured, measure)
    theirs = published_losses(ours=True).groupby(["shift", "model"])["rel_loss"].agg(["min", "mean", "max"])
    table = own.join(theirs.add_prefix("published_")).reset_index()
    known = table["published_mean"].notna()
    both = table["own_mean"] * table["published_mean"]
    table["same_direction"] = (both > 0).astype(object).where(known, None)
    inside = table["own_mean"].between(table["published_min"], table["published_max"])
    table["mean_inside"] = inside.astype(object).where(known, None)
    for side in ("own", "published"):
        table[f"{side}_rank"] = table[f"{side}_mean"].where(known).groupby(table["shift"]).rank(ascending=False)
    taus = {
        shift: stats.kendalltau(part["own_rank"], part["published_rank"]).statistic if len(part) > 1 else np.nan
        for shift, part in table[known].groupby("shift")
    }
    table["tau"] = table["shift"].map(taus).astype(float)
    table.insert(2, "published_model", table["model"].map(MODELS))
    shifts = [*lupart.CLUSTERS, *sorted(set(table["shift"]) - set(lupart.CLUSTERS))]
    place = {name: at for names in (shifts, MODELS) for at, name in enumerate(names)}
    return table.sort_values(["shift", "model"], key=lambda names: names.map(place), ignore_index=True)


def order_claims(
    losses: pd.DataFrame,
    draws: Mapping[str, np.ndarray] | None = None,
    out_draws: Mapping[str, np.ndarray] | None = None,
    level: float = 0.95,
) -> pd.DataFrame:
    """The findings of §5.1 on the order of the architectures as differences of mean losses over the clusters.

    Parameters
    ----------
    losses : DataFrame[model, cluster, rel_loss] of one shift and measure, our model names; with `out` for the finding
        about BM25. Findings about absent models are left out.
    draws, out_draws : model → float[n_boot], resampled means of rel_loss and of out over the clusters, drawn jointly.
        None: no interval, so the verdict is `no interval`.

    Returns
    -------
    DataFrame[finding, estimate, low, high, verdict], verdicts as in `architectures.claims`: each finding says that its
    estimate is above 0. Where it names several models the estimate is the smallest difference.
    """
    _require(losses, ["model", "cluster", "rel_loss"], "losses")
    means = losses.groupby("model")["rel_loss"].mean()
    neural = [name for name in MODELS if name in means and name != "BM25"]
    said = [(f"{DENSE} loses most", DENSE, [name for name in neural if name != DENSE])]
    said += [(f"{more} loses more than {less}", more, [less]) for more, less in STEPS]
    stated = [
        (finding, *_smallest(means, draws, [(more, name) for name in less]), "above")
        for finding, more, less in said
        if less and {more, *less} <= set(neural)
    ]
    if "out" in losses and "BM25" in set(losses["model"]) and neural:
        scores = losses.groupby("model")["out"].mean()
        below = _smallest(scores, out_draws, [(name, "BM25") for name in neural])
        stated.append(("no model below BM25 out of domain", *below, "above"))
    if not stated:
        raise InputError(f"no finding can be stated of {offenders(means.index)}: give two of {', '.join(MODELS)}")
    return architectures.judged(stated, level=level)


def _smallest(means: pd.Series, draws: Mapping | None, pairs: list[tuple[str, str]]) -> tuple:
    """Smallest difference first - second over the pairs, and its draws or None."""
    estimate = float(min(means[first] - means[second] for first, second in pairs))
    if draws is None:
        return estimate, None
    if absent := sorted({name for pair in pairs for name in pair} - set(draws)):
        raise InputError(f"claims: no draws of {offenders(absent)}; resample all models together")
    return estimate, np.min([np.asarray(draws[a], float) - np.asarray(draws[b], float) for a, b in pairs], axis=0)


def _jaccards(folder: str | Path | None) -> dict[tuple[str, str], pd.Series]:
    table = published.load("lupart", "release-jaccard")
    found = {("authors", "topics"): table.set_index("cluster")["scaled"]}
    if folder is not None:
        ours = lupart.released_jaccard(folder).set_index("cluster")
        topics = ours["shift"] == "topics"
        found["released", "topics"] = ours.loc[topics, "jaccard"]
        found["released", "topics and wh-words"] = ours.loc[topics | (ours["shift"] == "wh-words"), "jaccard"]
    return found


def _all_orders(ranks: list[np.ndarray]) -> np.ndarray:
    """Correlation of the ranks under every order of the second: float[n!]."""
    first, second = (side - side.mean() for side in ranks)
    return second[_permutations(len(first))] @ first / np.sqrt((first**2).sum() * (second**2).sum())


@lru_cache
def _permutations(n: int) -> np.ndarray:
    return np.array(list(itertools.permutations(range(n))), np.int8)


def _own_losses(measured: pd.DataFrame, measure: str) -> pd.DataFrame:
    """n_clusters, n_shown, own_min, own_mean, own_max by shift and model."""
    _require(measured, ["shift", "model", "cluster", "measure", "rel_loss"], "measured losses")
    own = measured[measured["measure"] == measure]
    if own.empty:
        raise InputError(f"measured losses: none of {measure}; there are {offenders(measured['measure'].unique(), 12)}")
    if unknown := [name for name in own["model"].unique() if name not in MODELS]:
        raise InputError(f"measured losses: unknown model {offenders(unknown)}; use {', '.join(MODELS)}")
    if (twice := own.duplicated(["shift", "model", "cluster"])).any():
        cells = own.loc[twice, ["shift", "model", "cluster"]].itertuples(index=False, name=None)
        raise InputError(f"measured losses: given twice: {offenders(cells)}; average over seeds first")
    own = own.assign(shown=own["low"] > 0 if "low" in own else np.nan)
    grouped = own.groupby(["shift", "model"])
    return pd.DataFrame(
        {
            "n_clusters": grouped.size(), "n_shown": grouped["shown"].sum(min_count=1),
            "own_min": grouped["rel_loss"].min(), "own_mean": grouped["rel_loss"].mean(),
            "own_max": grouped["rel_loss"].max(),
        }
    )  # fmt: skip


def _require(frame: pd.DataFrame, columns: list[str], what: str) -> None:
    if absent := [name for name in columns if name not in frame]:
        raise InputError(f"{what}: no column {offenders(absent)}; there are {', '.join(map(str, frame.columns))}")
