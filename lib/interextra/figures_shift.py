"""Figures of leave-one-out shifts, in the style of `figures`."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from interextra.figures import BUCKETS, COLOURS, _axes

MARKERS = ("o", "s", "D", "^", "v", "P", "X")
MODELS = {"BM25": "#999999", "Reranker": "#D55E00", "ColBERT": "#E69F00", "SPLADE": "#009E73", "DR (base)": "#0072B2"}


def topic_map(vectors: np.ndarray, topic: Sequence[str], n: int = 3000, seed: int = 1234):
    """t-SNE of queries coloured by topic (Lupart, Figure 1): PCA to 50 dimensions first, perplexity 40.

    The constants, seed and number of queries included (10,000), are those of the released notebook; at most `n`
    queries are drawn, those in no topic left out.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    topic = np.asarray(topic, dtype=object)
    rows = np.flatnonzero(topic != "")
    rows = np.random.default_rng(seed).permutation(rows)[:n]
    plane = PCA(min(50, vectors.shape[1], len(rows)), random_state=seed).fit_transform(vectors[rows])
    points = TSNE(perplexity=min(40, (len(rows) - 1) / 3), max_iter=300, random_state=seed).fit_transform(plane)
    figure, (axis,) = _axes(width=7, height=5)
    for colour, name in zip(BUCKETS, sorted(set(topic[rows])), strict=False):
        here = topic[rows] == name
        axis.scatter(*points[here].T, s=7, alpha=0.6, color=colour, lw=0, label=f"{name} ({(topic == name).sum():,})")
    axis.set(xticks=[], yticks=[], xlabel="t-SNE 1", ylabel="t-SNE 2")
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5), markerscale=2)
    return figure


def shift_matrix(frame: pd.DataFrame, measure: str):
    """Every model on every cluster of one shift; framed: the cluster was left out of training.

    `frame`: model, left_out, test_cluster, measure, value. One column of cells has one colour scale, since clusters
    differ in difficulty: red is the worst model on a cluster, blue the best.
    """
    part = frame[frame["measure"] == measure]
    models = list(part["model"].unique())
    names = list(part["left_out"].unique())
    figure, axes = _axes(len(models), width=2.1 * len(models) + 1.2, height=0.5 * len(names) + 1.7, sharey=True)
    for axis, model in zip(axes, models, strict=True):
        grid = part[part["model"] == model].pivot(index="left_out", columns="test_cluster", values="value")
        grid = grid.loc[names, names].to_numpy()
        spread = grid - grid.mean(axis=0)
        spread = -spread if measure.startswith("ASL") else spread
        top = np.maximum(np.abs(spread).max(axis=0), 0.05 * np.abs(grid.mean(axis=0)))  # a few percent stay pale
        axis.imshow(spread / np.where(top > 0, top, 1), cmap="RdBu", vmin=-1.8, vmax=1.8, aspect="auto")
        for (i, j), value in np.ndenumerate(grid):
            text = f"{value:.1f}" if value >= 1 else f"{value:.2f}".lstrip("0")
            axis.text(j, i, text, ha="center", va="center", fontsize=9, weight="bold" if i == j else None)
        for i in range(len(names)):
            axis.add_patch(_frame(i))
        axis.set_xticks(range(len(names)), names, rotation=40, ha="right")
        axis.set_yticks(range(len(names)), [f"without {name}" for name in names])
        axis.set(title=model)
        axis.grid(False)
    figure.supxlabel(f"{measure} on the test queries of", fontsize=10)
    return figure


def _frame(i: int):
    from matplotlib.patches import Rectangle

    return Rectangle((i - 0.47, i - 0.47), 0.94, 0.94, fill=False, lw=1.6, color="black")


def shift_losses(frame: pd.DataFrame, measure: str, published: pd.DataFrame | None = None):
    """RelLoss of each cluster with its interval, a panel a shift, a colour a model; diamonds: published, where given.

    `frame`: shift, model, cluster, measure, rel_loss, low, high; `published`: shift, model, rel_loss (drawn at the mean
    over clusters' place, one small diamond a published cluster).
    """
    part = frame[frame["measure"] == measure]
    shifts = list(part["shift"].unique())
    models = [name for name in MODELS if name in set(part["model"])]
    figure, axes = _axes(len(shifts), width=3 * len(shifts) + 1.5, height=4.2, sharex=True)
    for axis, shift in zip(axes, shifts, strict=True):
        rows = part[part["shift"] == shift]
        clusters = list(rows["cluster"].unique())
        here = [name for name in models if name in set(rows["model"])]
        for at, model in enumerate(here):
            found = rows[rows["model"] == model].set_index("cluster").loc[clusters]
            y = np.arange(len(clusters)) + (at - (len(here) - 1) / 2) * 0.15
            ends = np.abs(found[["low", "high"]].to_numpy().T - found["rel_loss"].to_numpy())
            axis.errorbar(
                100 * found["rel_loss"], y, xerr=100 * ends, fmt="o", ms=4, lw=1.2, color=MODELS[model], label=model
            )
        axis.axvline(0, color=COLOURS["test"], lw=0.8)
        axis.set_yticks(range(len(clusters)), clusters)
        axis.set(title=shift, ylim=(len(clusters) - 0.4, -0.6))
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside right upper")
    figure.supxlabel(
        f"RelLoss of {measure}, %" + (" (below 0: worse)" if measure.startswith("ASL") else ""), fontsize=10
    )
    return figure


def mean_losses(frame: pd.DataFrame, published: pd.DataFrame):
    """Mean RelLoss over clusters with its interval beside the published means: shift, model, rel_loss, low, high.

    `published`: shift, model, rel_loss; a cross at the height of the model in a last panel a published shift.
    """
    models = [name for name in MODELS if name in set(frame["model"])]
    panels = [(name, frame[frame["shift"] == name]) for name in frame["shift"].unique()]
    panels += [(f"published: {name}", published[published["shift"] == name]) for name in published["shift"].unique()]
    figure, axes = _axes(len(panels), width=1.9 * len(panels) + 1.2, height=3, sharex=True, sharey=True)
    for axis, (name, rows) in zip(axes, panels, strict=True):
        for row in rows.itertuples():
            y = models.index(row.model)
            if hasattr(row, "low"):
                axis.plot([100 * row.low, 100 * row.high], [y, y], color=MODELS[row.model], lw=2)
            axis.plot(100 * row.rel_loss, y, "o" if hasattr(row, "low") else "D", color=MODELS[row.model], ms=6)
        axis.axvline(0, color=COLOURS["test"], lw=0.8)
        axis.set_title(name, fontsize=9)
    axes[0].set_yticks(range(len(models)), models)
    axes[0].set_ylim(len(models) - 0.5, -0.5)
    figure.supxlabel("mean RelLoss over the clusters, %", fontsize=10)
    return figure
