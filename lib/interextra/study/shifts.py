"""From the cells of a shift to its tables: matrices, losses, exceptions (Lupart §5.1, Tables 2 and 3)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.evaluation import statistics
from interextra.evaluation.leave_one_out import Grid, loss_draws, loss_rows
from interextra.study import jobs
from interextra.study.cells import Store

Grids = dict[tuple[str, str], dict[str, Grid]]  # (shift, model) → measure → grid


def held_out(store: Store, split: dict) -> pd.DataFrame:
    """Test queries of a shift in the order of its runs: query_id, cluster, and what the collection says of them."""
    folder = jobs.build(store, split)
    queries = jobs.test_set(store, jobs.open_spec(split["pool"]["collection"]["spec"]), jobs.part(split, "held-out"))[1]
    of = pd.read_parquet(folder / "labels.parquet").set_index("query_id")["cluster"]
    return queries.assign(cluster=queries["query_id"].map(of))


def training_texts(store: Store, split: dict, left_out: str) -> list[str]:
    """Training queries of the model without a cluster."""
    return jobs.test_set(
        store, jobs.open_spec(split["pool"]["collection"]["spec"]), jobs.part(split, f"without-{left_out}")
    )[1]["text"].tolist()


def grids(
    store: Store, design: list[dict], folders: Sequence[Path], splits: dict[str, dict], measures: list[str]
) -> Grids:
    """Every measure of every system on the test queries of its shift, seeds averaged per query."""
    found: dict[tuple[str, str], dict[str, list]] = {}
    tests = {name: jobs.test_set(store, jobs.open_spec(split["pool"]["collection"]["spec"]),
                                 jobs.part(split, "held-out")) for name, split in splits.items()}  # fmt: skip
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
    losses, outs = (np.nanmean(drawn, axis=2) for drawn in loss_draws(some, seed, n_boot))
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
