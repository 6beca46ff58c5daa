"""Leave-one-out evaluation of a shift: every model on every cluster (Lupart §3.2, Figure 2).

For a cluster, `out` is the mean of a measure under the model trained without it, `avg_in` its mean under the other
models, RelLoss = (avg_in - out) / avg_in. Both are measured on the same queries, hence paired by query: the value of a
query under `avg_in` is its mean over the other models. For ASL, where lower is better, a negative RelLoss is a loss.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from interextra.ground.errors import InputError, offenders
from interextra.ground import statistics
from interextra.splits.resttest import regime_values


@dataclass(frozen=True)
class Grid:
    """One measure of one system: every model of a shift on the test queries of all clusters.

    >>> grid = Grid("RR@10", ("a", "b"), np.array([0, 0, 1]), np.array([[0.2, 0.4, 1], [0.4, 0.8, 0.5]]))
    >>> grid.matrix.tolist(), grid.losses().tolist()
    ([[0.30000000000000004, 1.0], [0.6000000000000001, 0.5]], [0.5, 0.5])
    """

    measure: str
    clusters: tuple[str, ...]
    cluster: np.ndarray  # int[n_queries], cluster of each test query, a place in `clusters`
    values: np.ndarray  # float[n_clusters, n_queries], row i: the model trained without cluster i

    def __post_init__(self):
        shape = (len(self.clusters), len(self.cluster))
        if self.values.shape != shape:
            raise InputError(f"{self.measure}: values of shape {self.values.shape}, not {shape} (clusters, queries)")
        if empty := [name for i, name in enumerate(self.clusters) if not (self.cluster == i).any()]:
            raise InputError(f"{self.measure}: no test query in cluster {offenders(empty)}")

    @property
    def lower_is_better(self) -> bool:
        return self.measure.startswith("ASL")

    @property
    def matrix(self) -> np.ndarray:
        """Means, float[left out, test cluster]; the diagonal is out of distribution."""
        return np.stack([self.values[:, self.cluster == i].mean(axis=1) for i in range(len(self.clusters))], axis=1)

    @property
    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        """(avg_in, out) of each test query, float[n_queries]."""
        return regime_values(self.values, self.cluster, "micro")

    def losses(self) -> np.ndarray:
        """RelLoss of each cluster, float[n_clusters]."""
        avg_in, out = (np.array([side[self.cluster == i].mean() for i in range(len(self.clusters))])
                       for side in self.sides)  # fmt: skip
        return (avg_in - out) / avg_in

    def exceptions(self) -> int:
        """How many models that had a cluster in training are worse on it than the one that had not.

        Out of n_clusters · (n_clusters - 1) comparisons; the paper says that the diagonal is lowest in general.
        """
        sign = -1 if self.lower_is_better else 1
        matrix = sign * self.matrix
        return int((matrix < np.diag(matrix)).sum())


def loss_rows(grid: Grid, seed: int = 0, n_boot: int = 10_000, level: float = 0.95) -> list[dict]:
    """A row a cluster: cluster, measure, avg_in, out, rel_loss, low, high (bootstrap over its queries), p_value.

    p_value: two-sided paired t-test, as in the paper; correct it over all rows of a table (`statistics.holm`).
    """
    rows = []
    for i, name in enumerate(grid.clusters):
        inside = grid.cluster == i
        avg_in, out = (pd.Series(side[inside]) for side in grid.sides)
        found = regimes.regime_row(avg_in, out, paired=True, seed=seed, n_boot=n_boot, level=level)
        rows.append(
            {
                "cluster": name, "measure": grid.measure, "avg_in": found["interpolation"],
                "out": found["extrapolation"], "rel_loss": 0 - found["delta"], "low": 0 - found["delta_high"],
                "high": 0 - found["delta_low"], "p_value": found["p_value"],
            }
        )  # fmt: skip
    return rows


def loss_draws(grids: list[Grid], seed: int = 0, n_boot: int = 10_000) -> tuple[np.ndarray, np.ndarray]:
    """Bootstrap of several systems on the same queries: RelLoss and out, each float[n_boot, n_grids, n_clusters].

    Queries are drawn within their cluster and a draw hits all systems, so that differences between systems keep the
    pairing. Where a cluster's avg_in is 0 in a draw, there is no loss: NaN.
    """
    clusters, cluster = grids[0].clusters, grids[0].cluster
    if any(grid.clusters != clusters or not np.array_equal(grid.cluster, cluster) for grid in grids):
        raise InputError("loss_draws: the systems were not measured on the same queries of the same clusters")
    columns = np.stack([side for grid in grids for side in grid.sides], axis=1)  # [n, 2 · grids]
    losses, outs = (np.full((n_boot, len(grids), len(clusters)), np.nan) for _ in range(2))
    for i in range(len(clusters)):
        means = statistics.resampled_means(columns[cluster == i], [seed, i], n_boot).reshape(n_boot, -1, 2)
        avg_in, outs[:, :, i] = means[..., 0], means[..., 1]
        np.divide(avg_in - means[..., 1], avg_in, out=losses[:, :, i], where=avg_in != 0)
    return losses, outs
