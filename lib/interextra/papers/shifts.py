"""From the cells of a shift to its tables: matrices, losses, exceptions (Lupart §5.1, Tables 2 and 3)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.ground import statistics
from interextra.evaluation.leave_one_out import Grid, loss_draws, loss_rows
from interextra.splits import attributes
from interextra.splits.resttest import agreement, distinctive_words
from interextra.splits.topics import topics
from interextra.study import jobs
from interextra.study.cells import Store

Grids = dict[tuple[str, str], dict[str, Grid]]  # (shift, model) → measure → grid


def _queries_of(store: Store, split: dict, name: str) -> tuple[str, pd.DataFrame, pd.DataFrame]:
    """(name, queries, qrels) of one set of a shift, see `jobs.test_set`."""
    return jobs.test_set(store, jobs.open_spec(split["pool"]["collection"]["spec"]), jobs.part(split, name))


def held_out(store: Store, split: dict) -> pd.DataFrame:
    """Test queries of a shift in the order of its runs: query_id, cluster, and what the collection says of them."""
    folder = jobs.build(store, split)
    queries = _queries_of(store, split, "held-out")[1]
    of = pd.read_parquet(folder / "labels.parquet").set_index("query_id")["cluster"]
    return queries.assign(cluster=queries["query_id"].map(of))


def training_texts(store: Store, split: dict, left_out: str) -> list[str]:
    """Training queries of the model without a cluster."""
    return _queries_of(store, split, f"without-{left_out}")[1]["text"].tolist()


def grids(
    store: Store, design: list[dict], folders: Sequence[Path], splits: dict[str, dict], measures: list[str]
) -> Grids:
    """Every measure of every system on the test queries of its shift, seeds averaged per query."""
    found: dict[tuple[str, str], dict[str, list]] = {}
    tests = {name: _queries_of(store, split, "held-out") for name, split in splits.items()}
    for row, folder in zip(design, folders, strict=True):
        name, queries, qrels = tests[row["shift"]]
        values = jobs.measured_on(folder, name, qrels, measures).loc[queries["query_id"]]
        runs = found.setdefault((row["shift"], row["model"]), {})
        runs.setdefault(row["left_out"], []).append(values)
    made: Grids = {}
    for (shift, model), runs in found.items():
        clusters = tuple(splits[shift]["clusters"])
        cluster = pd.Index(clusters).get_indexer(held_out(store, splits[shift])["cluster"])
        stacked = np.stack([sum(runs[name]).to_numpy() / len(runs[name]) for name in clusters])  # [k, n, measures]
        made[shift, model] = {m: Grid(m, clusters, cluster, stacked[:, :, i]) for i, m in enumerate(measures)}
    return made


def clusters_table(store: Store, splits: dict[str, dict], vectors: np.ndarray) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What is in the clusters of all shifts; `vectors` float[n, d] of the pool's queries say what is typical.

    Returns (shift, cluster, n_queries, n_train, n_test, median_words, words: those by which to tell it from the
    others) and (shift, cluster, typical: three queries nearest to the mean vector), a row a cluster each.
    """
    rows, portraits = [], []
    for shift, split in splits.items():
        folder, texts = jobs.build(store, split), jobs.pool_queries(split["pool"])["text"]
        sizes, label = pd.read_csv(folder / "sizes.csv"), pd.read_parquet(folder / "labels.parquet")["cluster"]
        inside = (label != "").to_numpy()
        words = distinctive_words(texts[inside].tolist(), label[inside].tolist())
        for row in sizes.to_dict("records"):
            here = np.flatnonzero(label == row["cluster"])
            n_words = texts.iloc[here].str.split().str.len().median()
            rows.append({"shift": shift, **row, "median_words": n_words, "words": " ".join(words[row["cluster"]])})
            far = ((vectors[here] - vectors[here].mean(axis=0)) ** 2).sum(axis=1)
            typical = " | ".join(texts.iloc[here[np.argsort(far, kind="stable")[:3]]])
            portraits.append({"shift": shift, "cluster": row["cluster"], "typical": typical})
    return pd.DataFrame(rows), pd.DataFrame(portraits)


def matrix_table(made: Grids) -> pd.DataFrame:
    """shift, model, left_out, test_cluster, measure, value, n_queries."""
    rows = []
    for (shift, model), by_measure in made.items():
        for measure, grid in by_measure.items():
            for (i, j), value in np.ndenumerate(grid.matrix):
                rows.append(
                    {
                        "shift": shift, "model": model, "left_out": grid.clusters[i], "test_cluster": grid.clusters[j],
                        "measure": measure, "value": value, "n_queries": int((grid.cluster == j).sum()),
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)


def loss_table(made: Grids, seed: int, n_boot: int) -> pd.DataFrame:
    """shift, model, cluster, measure, avg_in, out, rel_loss, low, high, p_value, p_holm (over a measure's rows)."""
    rows = [
        {"shift": shift, "model": model, **row}
        for (shift, model), by_measure in made.items()
        for grid in by_measure.values()
        for row in loss_rows(grid, seed, n_boot)
    ]
    table = pd.DataFrame(rows)
    return table.assign(p_holm=table.groupby("measure")["p_value"].transform(statistics.holm))


def exception_table(made: Grids) -> pd.DataFrame:
    """shift, model, measure, n_comparisons, n_exceptions to "lowest on the diagonal", see `Grid.exceptions`."""
    rows = []
    for (shift, model), by_measure in made.items():
        for measure, grid in by_measure.items():
            k = len(grid.clusters)
            rows.append({"shift": shift, "model": model, "measure": measure, "n_comparisons": k * (k - 1),
                         "n_exceptions": grid.exceptions()})  # fmt: skip
    return pd.DataFrame(rows)


def mean_losses(made: Grids, shift: str, measure: str, seed: int, n_boot: int) -> pd.DataFrame:
    """The systems of a shift over all its clusters, with their joint bootstrap.

    Returns DataFrame indexed by model: rel_loss, out (means over the clusters, every cluster counts the same), and
    their draws in rel_loss_draws and out_draws, float[n_boot] each.
    """
    models = [model for name, model in made if name == shift]
    some = [made[shift, model][measure] for model in models]
    # a cluster without a loss in a draw makes the draw, and so the interval, NaN: nothing is averaged around it
    losses, outs = (drawn.mean(axis=2) for drawn in loss_draws(some, seed, n_boot))
    return pd.DataFrame(
        {
            "rel_loss": [grid.losses().mean() for grid in some],
            "out": [np.diag(grid.matrix).mean() for grid in some],
            "rel_loss_draws": list(losses.T),
            "out_draws": list(outs.T),
        },
        index=pd.Index(models, name="model"),
    )


def mean_table(made: Grids, measure: str, seed: int, n_boot: int) -> pd.DataFrame:
    """shift, model, rel_loss, low, high: the mean loss over the clusters of each shift."""
    rows = []
    for shift in dict.fromkeys(name for name, _ in made):
        for model, found in mean_losses(made, shift, measure, seed, n_boot).iterrows():
            low, high = statistics.percentiles(found["rel_loss_draws"])
            rows.append({"shift": shift, "model": model, "rel_loss": found["rel_loss"], "low": low, "high": high})
    return pd.DataFrame(rows)


def gaps(
    made: Grids, shift: str, measure: str, pairs: Sequence[tuple[str, str]], seed: int, n_boot: int
) -> pd.DataFrame:
    """Mean loss of one system minus that of another: shift, first, second, difference, low, high (joint bootstrap)."""
    of, rows = mean_losses(made, shift, measure, seed, n_boot), []
    for first, second in pairs:
        low, high = statistics.percentiles(of.loc[first, "rel_loss_draws"] - of.loc[second, "rel_loss_draws"])
        difference = of.loc[first, "rel_loss"] - of.loc[second, "rel_loss"]
        rows.append({"shift": shift, "first": first, "second": second, "difference": difference, "low": low,
                     "high": high})  # fmt: skip
    return pd.DataFrame(rows)


def opening_agreement(queries: pd.DataFrame) -> pd.DataFrame:
    """The rules for question words against openings that a generated world knows (column `wh` of its queries).

    Returns shift, rule (letters or whole words), cluster, n_released (queries that open so), n_agree, n_differ.
    """
    of = {"what": "wha", "how": "how", "how many": "how", "how much": "how"}
    known = queries["wh"].map(of | dict.fromkeys(attributes.WH_WORDS["who"], "who")).fillna("").to_numpy(object)
    rows = []
    for rule, spec in (("letters", "wh-words"), ("whole words", "wh-words:whole=true")):
        same = attributes.labels(queries, spec) == known
        for cluster in (*attributes.WH_WORDS, ""):
            n, agree = int((known == cluster).sum()), int(same[known == cluster].sum())
            rows.append({"shift": "wh-words", "rule": rule, "cluster": cluster or "none", "n_released": n,
                         "n_agree": agree, "n_differ": n - agree})  # fmt: skip
    return pd.DataFrame(rows)


def switch_table(vectors: np.ndarray, options: dict, changes: dict[str, dict]) -> pd.DataFrame:
    """Topics under one changed option after the other, compared with those under `options` of `splits.topics.topics`.

    Returns change, share_kept (queries of a topic that are in any topic there), ari and share_matched over these, and
    spread (of the chosen centroids; not comparable where vectors are normalised).
    """
    made, rows = topics(vectors, **options), []
    for name, change in changes.items():
        other = topics(vectors, **{**options, **change})
        both = (made.topic >= 0) & (other.topic >= 0)
        same = (
            agreement(other.topic[both], made.topic[both]) if both.any() else {"ari": np.nan, "share_matched": np.nan}
        )
        rows.append({"change": name, "share_kept": both.sum() / (made.topic >= 0).sum(), "ari": same["ari"],
                     "share_matched": same["share_matched"], "spread": other.spread})  # fmt: skip
    return pd.DataFrame(rows)
