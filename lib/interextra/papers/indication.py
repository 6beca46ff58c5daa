"""Indicators beside the losses of a shift, from its cells: Jaccard of clusters, R of queries (Lupart §5.2).

For a test query the model that counts is the one trained without its cluster. What follows from these tables is in
`indication_tables`. Taught in notebooks/07_indicators.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from interextra.ground.errors import InputError
from interextra.ground import statistics
from interextra.data.runs import Run
from interextra.models import make_recipe
from interextra.study import jobs, lupart, lupart_losses, published, shifts
from interextra.study.cells import Store

Asked = dict[str, pd.DataFrame]  # shift → text and cluster of its test queries, indexed by query_id
Frames = dict[tuple[str, str], pd.DataFrame]  # (shift, model) → a row a test query of the shift, in this order
SPACE = ["R", "max", "density"]  # what a model's own query space says of a query
WORDS = ["query_jaccard", "nearest_jaccard"]  # what words say
PRE = ["avg_idf", "max_idf", "sum_scq", "length"]  # before retrieval
POST = ["nqc", "wig", "smv", "top_score"]  # after it


def asked(store: Store, splits: dict[str, dict]) -> Asked:
    """Text and cluster of the test queries of each shift."""
    return {name: shifts.held_out(store, split).set_index("query_id")[["text", "cluster"]]
            for name, split in splits.items()}  # fmt: skip


def jaccard_table(store: Store, splits: dict[str, dict]) -> pd.DataFrame:
    """Weighted Jaccard of each cluster with the others of its shift (Lupart §5.2, Figure 3 and footnote 6).

    Returns
    -------
    DataFrame[shift, cluster, jaccard, jaccard_eval_only, n_words, n_queries, n_train] : `jaccard` of all its queries
        with all queries of the others, as in the paper; `jaccard_eval_only` of its test queries with the training
        queries of the model without it, which the footnote calls the formal way; n_words different words of the
        cluster, n_queries test queries, n_train training queries of the model without it.
    """
    rows = []
    for shift, split in splits.items():
        texts = jobs.pool_queries(split["pool"])["text"].to_numpy(object)
        label = pd.read_parquet(jobs.build(store, split) / "labels.parquet")["cluster"].to_numpy(object)
        tests = shifts.held_out(store, split)
        for cluster in split["clusters"]:
            inside, other = texts[label == cluster], texts[(label != cluster) & (label != "")]
            mine, train = tests.loc[tests["cluster"] == cluster, "text"], shifts.training_texts(store, split, cluster)
            rows.append(
                {
                    "shift": shift, "cluster": cluster, "jaccard": indicators.jaccard(inside.tolist(), other.tolist()),
                    "jaccard_eval_only": indicators.jaccard(mine.tolist(), train),
                    "n_words": len({word for text in inside for word in text.lower().split()}),
                    "n_queries": len(mine), "n_train": len(train),
                }
            )  # fmt: skip
    return pd.DataFrame(rows).round({"jaccard": 12})  # J(S, T) = J(T, S) up to the order of summation


def published_points(folder: str | Path | None = None) -> pd.DataFrame:
    """Lupart's losses beside the Jaccard of their clusters, as in Figure 3: shift, cluster, model, rel_loss, jaccard.

    `folder` of the release: Jaccard of the released evaluation queries, for all shifts; None: the values of the
    release's notebook, which has the topics only and takes whole clusters.

    >>> published_points().query("cluster == 'C1' and model == 'ColBERT'")[["rel_loss", "jaccard"]].values.tolist()
    [[0.085, 0.2632]]
    """
    if folder is None:
        table = published.load("lupart", "release-jaccard").rename(columns={"scaled": "jaccard"}).assign(shift="topics")
    else:
        table = lupart.released_jaccard(folder)
    losses = lupart_losses.published_losses(ours=True).dropna(subset="rel_loss")
    return losses.merge(table[["shift", "cluster", "jaccard"]])[["shift", "cluster", "model", "rel_loss", "jaccard"]]


def link(points: pd.DataFrame, by: str = "jaccard", level: float = 0.95) -> pd.DataFrame:
    """Correlation of the losses with an indicator over clusters, a row a model and method; fewer than 4 have none.

    Parameters
    ----------
    points : model, rel_loss and the column `by`; a row a model and cluster.

    Returns
    -------
    DataFrame[model, indicator, method, n, estimate, low, high, p_value, p_holm, needed] : see
        `lupart_losses.correlation`, which has up to 9 clusters; for more, the p-value of Spearman is scipy's. p_holm:
        corrected over the models of a method; `needed`: the smallest |estimate| with p < .05 at this n. Clusters of one
        shift share training queries, so that n overstates what is independent.
    """
    rows = []
    for model, part in points.groupby("model", sort=False):
        x, y = part[by].to_numpy(), part["rel_loss"].to_numpy()
        for method in ("Pearson", "Spearman") if len(part) > 3 and np.ptp(x) and np.ptp(y) else ():
            made = lupart_losses.correlation if len(part) < 10 else _correlation
            rows.append({"model": model, "indicator": by, "method": method, "n": len(part)} | made(x, y, method, level))
    columns = ["model", "indicator", "method", "n", "estimate", "low", "high", "p_value", "p_holm", "needed"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(p_holm=table.groupby("method")["p_value"].transform(statistics.holm)) if rows else table


def _correlation(x: np.ndarray, y: np.ndarray, method: str, level: float) -> dict[str, float]:
    """`lupart_losses.correlation` for ten points and more."""
    found, n = (stats.pearsonr if method == "Pearson" else stats.spearmanr)(x, y), len(x)
    estimate, t = float(found.statistic), stats.t.ppf(0.975, n - 2)
    spread = 1 if method == "Pearson" else 1 + estimate**2 / 2
    width = stats.norm.ppf((1 + level) / 2) * np.sqrt(spread / (n - 3))
    ends = np.tanh(np.arctanh(estimate) + np.array([-width, width])) if abs(estimate) < 1 - 1e-9 else [np.nan] * 2
    return {"estimate": estimate, "low": float(ends[0]), "high": float(ends[1]), "p_value": float(found.pvalue),
            "needed": float(t / np.sqrt(n - 2 + t**2))}  # fmt: skip


def spaces(design: list[dict], folders: Sequence[Path], asked: Asked) -> Frames:
    """R, max and density of each test query in the query space of the model without its cluster; means over seeds.

    Only models that encode a query by itself have one. Each left-out cluster has a model and so a scale of its own:
    see `standardised`.
    """

    def read(row: dict, folder: Path) -> pd.DataFrame | None:
        path = folder / "nearness.parquet"
        return pd.read_parquet(path).rename(columns={"mean": "R"})[SPACE] if path.is_file() else None

    return _of_out_models(design, folders, asked, read)


def run_predictors(design: list[dict], folders: Sequence[Path], asked: Asked) -> Frames:
    """NQC, WIG, SMV and the top score of each test query in the run of the model without its cluster.

    Nothing divides them, as a dense model has no score of the whole collection. Of a reranker's run they see the
    passages that were reranked: below them stand BM25's.
    """

    def read(row: dict, folder: Path) -> pd.DataFrame:
        recipe, depth = make_recipe(row["config"]["recipe"]), row["config"]["depth"]
        k = min(depth, recipe.rerank_depth) if recipe.architecture == "reranker" else depth
        run = Run.read(folder / "run.held-out.parquet")
        return predictors.post_retrieval(run, normalise="none", k=k, wig_k=min(5, k))[POST]

    return _of_out_models(design, folders, asked, read)


def _of_out_models(design: list[dict], folders: Sequence[Path], asked: Asked, read: Callable) -> Frames:
    """What `read(row, folder)` finds in a run cell (None: nothing), of the queries of the cluster left out there."""
    found: dict[tuple[str, str], dict[str, list]] = {}
    for row, folder in zip(design, folders, strict=True):
        if (values := read(row, folder)) is None:
            continue
        queries = asked[row["shift"]]
        mine = values.loc[queries.index[queries["cluster"] == row["left_out"]]]
        found.setdefault((row["shift"], row["model"]), {}).setdefault(row["left_out"], []).append(mine)
    made = {}
    for key, by_cluster in found.items():
        whole = pd.concat([sum(seeds) / len(seeds) for seeds in by_cluster.values()])
        made[key] = whole.loc[asked[key[0]].index]
    return made


def sides(made: shifts.Grids, asked: Asked) -> Frames:
    """AvgIn and Out of each test query: columns `in MEASURE` and `out MEASURE`, and its cluster."""
    found = {}
    for (shift, model), by_measure in made.items():
        values = {f"{side} {name}": array for name, grid in by_measure.items()
                  for side, array in zip(("in", "out"), grid.sides, strict=True)}  # fmt: skip
        found[shift, model] = pd.DataFrame(values, index=asked[shift].index).assign(cluster=asked[shift]["cluster"])
    return found


def word_spaces(store: Store, splits: dict[str, dict], asked: Asked) -> dict[str, pd.DataFrame]:
    """Jaccard of each test query with the training queries of the model without its cluster, and with the nearest."""
    found = {}
    for shift, queries in asked.items():
        parts = []
        for cluster, part in queries.groupby("cluster", sort=False):
            texts, train = part["text"].tolist(), shifts.training_texts(store, splits[shift], cluster)
            both = [indicators.query_jaccard(texts, train), indicators.nearest_jaccard(texts, train)]
            parts.append(pd.DataFrame(dict(zip(WORDS, both, strict=True)), index=part.index))
        found[shift] = pd.concat(parts).loc[queries.index]
    return found


def collection_predictors(passages: predictors.Batched, asked: Asked) -> dict[str, pd.DataFrame]:
    """Pre-retrieval predictors of the test queries of each shift (`evaluation.predictors.PRE`)."""
    texts = pd.concat([queries["text"] for queries in asked.values()]).unique()
    counted = predictors.term_statistics(passages, texts)
    return {shift: predictors.pre_retrieval(queries.reset_index(), counted)[PRE] for shift, queries in asked.items()}


def standardised(values: pd.Series, groups: pd.Series) -> pd.Series:
    """Values less their group's mean, in units of its standard deviation; 0 where a group has one value only.

    It makes R of models on different scales comparable, and takes from it what is between the groups.

    >>> standardised(pd.Series([1.0, 3, 100, 300]), pd.Series(["a", "a", "b", "b"])).tolist()
    [-1.0, 1.0, -1.0, 1.0]
    """
    by = values.groupby(groups.to_numpy())
    spread = by.transform("std", ddof=0)
    return ((values - by.transform("mean")) / spread.where(spread > 0)).fillna(0.0)


def released_r(folder: str | Path, ids: Iterable[str], vectors: np.ndarray) -> pd.DataFrame:
    """R of the released evaluation queries against those of the other clusters, on real vectors (Lupart, Figure 4).

    One encoder for all clusters, not trained on any of them: other than in the paper all values have one scale.

    Parameters
    ----------
    ids, vectors : the queries whose vectors are known, float[n, d]; released queries that are not there are left out,
        and so is a shift of which less than half are there.

    Returns
    -------
    DataFrame[shift, cluster, query_id, R, own] : `own` is the mean score with its own cluster, without itself.
    """
    place, parts = pd.Index(ids), []
    for shift in lupart.CLUSTERS:
        queries = lupart.released_queries(folder, shift)
        at = place.get_indexer(queries["query_id"])
        if (at >= 0).mean() < 0.5:
            continue
        queries, at = queries[at >= 0], at[at >= 0]
        for cluster in lupart.CLUSTERS[shift]:
            inside = (queries["cluster"] == cluster).to_numpy()
            if not inside.any() or inside.all():
                raise InputError(f"released {shift}: no vector of a query in or outside of {cluster}; encode them")
            mine, other = vectors[at[inside]], vectors[np.unique(at[~inside])]
            own = indicators.mean_similarity(mine, mine) * len(mine) - np.einsum("ij,ij->i", mine, mine)
            values = {"R": indicators.mean_similarity(mine, other), "own": own / max(1, len(mine) - 1)}
            parts.append(pd.DataFrame({"shift": shift, "cluster": cluster,
                                       "query_id": queries.loc[inside, "query_id"].to_numpy(), **values}))  # fmt: skip
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(
        columns=["shift", "cluster", "query_id", "R", "own"]
    )  # fmt: skip


def labelled(near: Frames, asked: Asked, model: str) -> pd.DataFrame:
    """One model's space over all shifts: shift, cluster, query_id, R, max, density."""
    parts = [frame.assign(shift=shift, cluster=asked[shift]["cluster"]).reset_index()
             for (shift, name), frame in near.items() if name == model]  # fmt: skip
    return pd.concat(parts, ignore_index=True)[["shift", "cluster", "query_id", *SPACE]]


def summary(frame: pd.DataFrame, column: str = "R") -> pd.DataFrame:
    """shift, cluster, n_queries, mean, sd, q05, q25, q50, q75, q95 of a column, and `own` where it is there."""
    rows = []
    for (shift, cluster), part in frame.groupby(["shift", "cluster"], sort=False):
        values = part[column]
        quantiles = {f"q{int(100 * q):02d}": values.quantile(q) for q in (0.05, 0.25, 0.5, 0.75, 0.95)}
        row = {"shift": shift, "cluster": cluster, "n_queries": len(part), "mean": values.mean(), "sd": values.std()}
        rows.append(row | quantiles | ({"own": part["own"].mean()} if "own" in part else {}))
    return pd.DataFrame(rows)
