"""One style, one function a figure. Every function returns a matplotlib Figure; colours stay the same everywhere."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

# Colour-blind safe (Okabe and Ito); one colour a regime and a role, in every figure of the kit.
COLOURS = {
    "interpolation": "#E69F00", "extrapolation": "#0072B2", "random": "#999999", "test": "#000000",
    "published": "#CC79A7", "measured": "#009E73",
}  # fmt: skip

BUCKETS = ("#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#D55E00", "#F0E442", "#0072B2")  # named by number only
SIZES = ("#9ecae1", "#3182bd", "#08306b")  # training sizes, from small to large


def style() -> None:
    """Set the kit's look; called once by each notebook."""
    import matplotlib as mpl

    mpl.rcParams.update(
        {
            "figure.figsize": (8, 4), "figure.dpi": 110, "savefig.dpi": 150, "savefig.bbox": "tight",
            "figure.constrained_layout.use": True, "font.size": 10, "axes.spines.top": False,
            "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25, "legend.frameon": False,
            "svg.hashsalt": "interextra", "svg.fonttype": "none",
        }
    )  # fmt: skip


def _axes(n: int = 1, width: float = 8, height: float = 4, **options):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, n, figsize=(width, height), squeeze=False, **options)
    plt.close(figure)  # shown once, by the cell's last expression
    return figure, axes[0]


def query_map(test: np.ndarray, train: np.ndarray, sets: Mapping[str, np.ndarray], n: int = 3000, seed: int = 0):
    """What Zhan's Figure 1a sketches, from real vectors: PCA of all queries, training queries coloured by set.

    Parameters
    ----------
    test, train : float [n_test, d], [n_train, d].
    sets : name of a regime → rows of `train`.
    n : at most so many training queries a set are drawn (a random part, by `seed`).
    """
    from sklearn.decomposition import PCA

    plane = PCA(2, random_state=0).fit(np.concatenate([train, test]))
    rng = np.random.default_rng(seed)
    figure, (axis,) = _axes(width=7, height=5)
    inside = np.concatenate(list(sets.values()))
    groups = {"in neither set": np.setdiff1d(np.arange(len(train)), inside), **sets}
    for name, rows in groups.items():
        drawn = rows if len(rows) <= n else rng.choice(rows, n, replace=False)
        colour = COLOURS.get(name, "#dddddd")
        axis.scatter(
            *plane.transform(train[drawn]).T, s=7, alpha=0.6, color=colour, label=f"{name} ({len(rows):,})", lw=0
        )
    few = test if len(test) <= 150 else test[rng.choice(len(test), 150, replace=False)]  # more would hide the rest
    axis.scatter(
        *plane.transform(few).T, s=26, marker="x", color=COLOURS["test"], label=f"test queries ({len(test):,})"
    )
    share = plane.explained_variance_ratio_
    axis.set(xlabel=f"first component ({share[0]:.0%} of the variance)", ylabel=f"second component ({share[1]:.0%})")
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def bucket_map(
    test: np.ndarray, train: np.ndarray, test_buckets: np.ndarray, train_buckets: np.ndarray, held_out: int = -1,
    n: int = 3000, seed: int = 0,
):  # fmt: skip
    """What Zhan's Figure 1b sketches, from real vectors: PCA of all queries, training queries coloured by bucket.

    Bucket numbers count from 0 in the arrays and from 1 in the legend. Of the bucket `held_out` (-1: none) the training
    queries are grey, since the model of this fold doesn't see them, and its test queries are crosses. At most `n`
    training and 150 test queries are drawn (a random part, by `seed`).
    """
    from sklearn.decomposition import PCA

    plane = PCA(2, random_state=0).fit(np.concatenate([train, test]))
    rng, black = np.random.default_rng(seed), COLOURS["test"]
    figure, (axis,) = _axes(width=7, height=5)
    shown = rng.permutation(len(train))[:n]
    for bucket in np.unique(train_buckets):
        rows, out = shown[train_buckets[shown] == bucket], bucket == held_out
        label = f"bucket {bucket + 1} ({(train_buckets == bucket).sum():,}{', not trained on' if out else ''})"
        colour = "#bbbbbb" if out else BUCKETS[bucket % len(BUCKETS)]
        axis.scatter(*plane.transform(train[rows]).T, s=7, alpha=0.6, color=colour, label=label, lw=0)
    few = rng.permutation(len(test))[:150]  # more would hide the rest
    is_out = test_buckets[few] == held_out
    for name, rows, marker, size in (("test query", few[~is_out], ".", 12), ("extrapolation", few[is_out], "x", 26)):
        if len(rows):
            axis.scatter(*plane.transform(test[rows]).T, s=size, marker=marker, color=black, label=name)
    share = plane.explained_variance_ratio_
    axis.set(xlabel=f"first component ({share[0]:.0%} of the variance)", ylabel=f"second component ({share[1]:.0%})")
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5), markerscale=1.5)
    return figure


def fold_matrix(frame: pd.DataFrame, measure: str):
    """Each model on each bucket: columns model, without, bucket, measure, value; framed: the bucket was held out."""
    part = frame[frame["measure"] == measure]
    grids = {
        model: rows.pivot(index="without", columns="bucket", values="value").to_numpy()
        for model, rows in part.groupby("model", sort=False)
    }
    figure, axes = _axes(len(grids), width=4.6 * len(grids), height=3.9)
    # against the mean over the models that had the bucket; one scale for all models
    change = {m: g - (g.sum(axis=0) - np.diag(g)) / (len(g) - 1) for m, g in grids.items()}
    limit = max(1e-9, *(np.abs(values).max() for values in change.values()))
    for axis, (model, grid) in zip(axes, grids.items(), strict=True):
        axis.imshow(change[model], cmap="PuOr", vmin=-limit, vmax=limit)
        for (row, column), value in np.ndenumerate(grid):
            look = {"weight": "bold" if row == column else "normal", "fontsize": 8, "ha": "center", "va": "center"}
            dark = abs(change[model][row, column]) > 0.6 * limit
            axis.text(column, row, f"{value:.3f}", color="white" if dark else "black", **look)
        axis.scatter(range(len(grid)), range(len(grid)), s=900, marker="s", fc="none", ec="black", lw=1.5)
        ticks = (range(len(grid)), range(1, len(grid) + 1))
        axis.set_xticks(*ticks), axis.set_yticks(*ticks), axis.grid(False)
        axis.set(title=f"{model}, {measure}", xlabel="bucket of the test queries", ylabel="model without bucket")
    return figure


def systems(frame: pd.DataFrame, measure: str):
    """One measure of several systems, a panel a split: columns split, model, measure, value, low, high (interval)."""
    part = frame[frame["measure"] == measure]
    splits = list(dict.fromkeys(part["split"]))
    figure, axes = _axes(len(splits), width=3.6 * len(splits), height=3, sharex=True)
    for axis, split in zip(axes, splits, strict=True):
        rows = part[part["split"] == split].sort_values("value").reset_index(drop=True)
        for row in rows.itertuples():
            colour = COLOURS["random"] if row.model == "floor" else COLOURS["measured"]
            axis.barh(row.Index, row.value, 0.6, color=colour)
            if row.low == row.low:  # the floor is exact: it has no interval
                axis.plot([row.low, row.high], [row.Index] * 2, color="black", lw=1.5)
        axis.set_yticks(range(len(rows)), rows["model"])
        axis.set(title=split, xlabel=measure, xlim=(0, 1))
    return figure


def stacked_shares(frame: pd.DataFrame, order: Sequence[str], title: str = ""):
    """Shares of labels per test set, ours beside the published ones: columns test_set, source, label, percent."""
    rows = list(dict.fromkeys(zip(frame["test_set"], frame["source"], strict=True)))
    figure, (axis,) = _axes(width=8, height=0.5 + 0.42 * len(rows))
    greys = np.linspace(0.25, 0.85, len(order))
    left = np.zeros(len(rows))
    for label, grey in zip(order, greys, strict=True):
        part = frame[frame["label"] == label].set_index(["test_set", "source"])["percent"]
        values = np.array([part.get(row, 0.0) for row in rows])
        bars = axis.barh(range(len(rows)), values, left=left, color=str(grey), label=label)
        shown = [f"{value:.0f}%" if value >= 6 else "" for value in values]
        axis.bar_label(bars, shown, label_type="center", color="white" if grey < 0.55 else "black", fontsize=8)
        left += values
    axis.set_yticks(range(len(rows)), [f"{test} ({source})" for test, source in rows])
    axis.invert_yaxis()
    axis.set(xlabel="% of the test queries", xlim=(0, 100))
    axis.grid(False)
    axis.legend(ncols=len(order), loc="lower center", bbox_to_anchor=(0.5, 1.0), title=title or None)
    return figure


def label_overlap(frame: pd.DataFrame):
    """Table 3 as a picture: percent of test queries per threshold, both definitions, published ones as diamonds."""
    import matplotlib.pyplot as plt

    sets = list(dict.fromkeys(frame["test_set"]))
    columns, rows = min(3, len(sets)), -(-len(sets) // 3)
    figure, grid = plt.subplots(rows, columns, figsize=(3.2 * columns + 1.6, 3.1 * rows), sharey=True, squeeze=False)
    plt.close(figure)
    for axis in grid.ravel()[len(sets) :]:
        axis.remove()
    for axis, name in zip(grid.ravel(), sets, strict=False):
        part = frame[frame["test_set"] == name]
        levels = sorted(part["relevance_threshold"].unique(), reverse=True)
        for shift, (shared, colour) in enumerate(((1, COLOURS["interpolation"]), (2, COLOURS["measured"]))):
            values = part[part["min_shared"] == shared].set_index("relevance_threshold")["percent"].reindex(levels)
            at = np.arange(len(levels)) + 0.38 * shift - 0.19
            axis.bar(at, values, 0.36, color=colour, label=f"≥ {shared} shared")
        published = part.drop_duplicates("relevance_threshold").set_index("relevance_threshold")["published_percent"]
        if published.notna().any():
            axis.plot(
            range(len(levels)), published.reindex(levels), "D", color=COLOURS["published"], mec="white", ms=8,
            label="published",
        )  # fmt: skip
        axis.set_xticks(range(len(levels)), [f"≥ {level}" for level in levels])
        axis.set(title=name, xlabel="relevance of the shared passage", ylim=(0, 105))
    for axis in grid[:, 0]:
        axis.set_ylabel("% of the test queries")
    drawn = [axis.get_legend_handles_labels() for axis in grid.ravel()[: len(sets)]]
    handles = {label: handle for pair in drawn for handle, label in zip(*pair, strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside right upper")
    return figure


def regime_gap(frame: pd.DataFrame, measure: str, table: str = "Table 6"):
    """Δ = Extra/Inter − 1 with its interval, a row a model and training size; published values as diamonds.

    Columns: n_train, model, measure, delta, delta_low, delta_high, and published (may be missing values) of `table`.
    """
    part = frame[frame["measure"] == measure].sort_values(["model", "n_train"]).reset_index(drop=True)
    figure, (axis,) = _axes(width=8, height=0.9 + 0.36 * len(part))
    axis.hlines(part.index, part["delta_low"], part["delta_high"], color=COLOURS["extrapolation"], lw=2)
    axis.plot(part["delta"], part.index, "o", color=COLOURS["extrapolation"], label="measured, 95 % interval")
    if part["published"].notna().any():
        axis.plot(part["published"], part.index, "D", color=COLOURS["published"], ms=5, label=f"published ({table})")
    axis.axvline(0, color="black", lw=0.8)
    axis.set_yticks(part.index, [f"{row.model}, {row.n_train:,} queries" for row in part.itertuples()])
    axis.invert_yaxis()
    axis.set(xlabel=f"Δ {measure} (extrapolation / interpolation − 1)")
    axis.locator_params(axis="x", nbins=6)
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def size_and_distance(frame: pd.DataFrame, measure: str = "nDCG@10"):
    """F2 as a picture: effectiveness against training size, released-style sets beside size-matched controls."""
    figure, (axis,) = _axes(width=7, height=4)
    part = frame[frame["measure"] == measure]
    for (regime, control), rows in part.groupby(["regime", "control"], sort=True):
        mean = rows.groupby("n_train")["value"].mean()
        axis.plot(
            mean.index, mean, "o--" if control else "o-", color=COLOURS[regime], alpha=0.6 if control else 1.0,
            mfc="white" if control else None, label=f"{regime}{', random part of the largest set' if control else ''}",
        )  # fmt: skip
    axis.set(xscale="log", xlabel="training queries", ylabel=measure)
    axis.set_xticks(sorted(part["n_train"].unique()), [f"{n:,}" for n in sorted(part["n_train"].unique())])
    axis.minorticks_off()
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def kappa_curve(frame: pd.DataFrame):
    """Agreement of simulated annotators against their error rate: columns error_rate, task, kappa, median_accuracy."""
    figure, axes = _axes(2, width=9, height=3.6, sharex=True)
    for (task, rows), marker in zip(frame.groupby("task", sort=False), "os", strict=False):
        axes[0].plot(rows["error_rate"], rows["kappa"], marker + "-", label=task)
        axes[1].plot(
            rows["error_rate"], rows["single_accuracy"], marker + ":", alpha=0.6, label=f"{task}, one annotator"
        )
        axes[1].plot(rows["error_rate"], rows["median_accuracy"], marker + "-", label=f"{task}, median of three")
    axes[0].set(xlabel="error rate of each annotator", ylabel="mean Cohen's κ", ylim=(0, 1.02))
    axes[1].set(xlabel="error rate of each annotator", ylabel="share of right labels", ylim=(0, 1.02))
    for axis in axes:
        axis.legend(fontsize=8)
    return figure


def released_agreement(frame: pd.DataFrame):
    """Where each judged test query's nearest training queries lie in the released sets, by encoder and size."""
    encoders, sizes = list(dict.fromkeys(frame["encoder"])), list(dict.fromkeys(frame["size"]))
    figure, axes = _axes(len(encoders), width=4.4 * len(encoders), height=3.4, sharey=True)
    for axis, encoder in zip(axes, encoders, strict=True):
        part = frame[frame["encoder"] == encoder].set_index("size").reindex(sizes)
        for shift, regime in enumerate(("interpolation", "extrapolation")):
            bars = axis.bar(
                np.arange(len(sizes)) + 0.38 * shift - 0.19,
                100 * part[regime],
                0.36,
                color=COLOURS[regime],
                label=regime,
            )
            axis.bar_label(bars, [f"{100 * value:.1f}" for value in part[regime]], fontsize=8)
        axis.set_xticks(range(len(sizes)), sizes)
        axis.set(title=encoder, xlabel="released set", ylim=(0, 105))
    axes[0].set_ylabel("% of the nearest training queries")
    axes[-1].legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def architecture_gaps(frame: pd.DataFrame):
    """Tables 6 and 7 as a picture: Δ of each system with its interval, published values as diamonds.

    Columns: protocol, measure, model, n_train, delta, delta_low, delta_high, published (may be missing values).
    A panel a protocol and measure; sizes stand one above the other, the smallest on top.
    """
    panels = list(dict.fromkeys(zip(frame["protocol"], frame["measure"], strict=True)))
    models = list(dict.fromkeys(frame["model"]))
    figure, axes = _axes(len(panels), width=3.1 * len(panels) + 1.5, height=1.2 + 0.62 * len(models), sharey=True)
    for axis, (protocol, measure) in zip(axes, panels, strict=True):
        part = frame[(frame["protocol"] == protocol) & (frame["measure"] == measure)]
        sizes = sorted(part["n_train"].unique())
        for i, size in enumerate(sizes):
            rows = part[part["n_train"] == size].set_index("model").reindex(models)
            at = np.arange(len(models)) + 0.5 * (i + 0.5) / len(sizes) - 0.25
            colour = SIZES[min(i + (len(sizes) == 1), len(SIZES) - 1)]
            axis.hlines(at, rows["delta_low"], rows["delta_high"], color=colour, lw=2)
            axis.plot(rows["delta"], at, "o", color=colour, label=f"{size:,} training queries")
            axis.plot(
                rows["published"], at, "D", color=COLOURS["published"], ms=4, label="published" if not i else None
            )
        axis.axvline(0, color="black", lw=0.8)
        axis.set(title=f"{protocol}, {measure}", xlabel="Δ")
        axis.locator_params(axis="x", nbins=5)
        axis.xaxis.set_major_formatter(lambda x, _: f"{x:+.0%}" if abs(x) > 1e-9 else "0")
    axes[0].set_yticks(range(len(models)), models)
    axes[0].invert_yaxis()
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles))
    return figure


def size_curves(frame: pd.DataFrame, measure: str):
    """One measure against the number of training queries, a panel a system: columns n_train, model, both regimes."""
    models = list(dict.fromkeys(frame["model"]))
    figure, axes = _axes(len(models), width=2.3 * len(models) + 1.5, height=2.8, sharey=True)
    sizes = sorted(frame["n_train"].unique())
    for axis, model in zip(axes, models, strict=True):
        rows = frame[frame["model"] == model].sort_values("n_train")
        for regime in ("interpolation", "extrapolation"):
            axis.plot(rows["n_train"], rows[regime], "o-", color=COLOURS[regime], label=regime)
        axis.set(title=model, xscale="log")
        axis.set_xticks(sizes, [f"{n:,}" for n in sizes])
        axis.minorticks_off()
    axes[0].set_ylabel(measure)
    figure.supxlabel("training queries", fontsize=10)
    axes[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def loss_curves(frame: pd.DataFrame):
    """Training loss, a panel a system (their losses are of different kinds): columns model, seed, step, loss."""
    models = list(dict.fromkeys(frame["model"]))
    figure, axes = _axes(len(models), width=2.6 * len(models), height=2.5)
    for axis, model in zip(axes, models, strict=True):
        rows = frame[frame["model"] == model]
        for _, curve in rows.groupby("seed"):
            axis.plot(curve["step"], curve["loss"], color=COLOURS["measured"], alpha=0.7)
        axis.set(title=model, xlabel="step")
    axes[0].set_ylabel("training loss")
    return figure
