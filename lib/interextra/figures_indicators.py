"""Figures of indicators of distance (Lupart, Figures 3 to 6, and predictors), in the style of `figures`."""

import itertools

import numpy as np
import pandas as pd

from interextra.figures import BUCKETS, COLOURS, _axes
from interextra.figures_shift import MARKERS, MODELS


def _grid(rows: int, columns: int, width: float, height: float, **options):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=(width, height), squeeze=False, **options)
    plt.close(figure)  # shown once, by the cell's last expression
    return figure, axes


def _colours(models) -> dict[str, str]:
    """The kit's colour of each system; variants take those that are left."""
    left = iter(("#CC79A7", "#56B4E9", "#F0E442", "#000000") * 3)
    return {name: MODELS.get(name) or next(left) for name in dict.fromkeys(models)}


def loss_by_jaccard(ours: pd.DataFrame, published: pd.DataFrame, by: str = "jaccard"):
    """Loss of each cluster over its weighted Jaccard with the others (Lupart, Figure 3); a panel for the published.

    Both: shift, cluster, model, rel_loss and jaccard (ours: column `by`). Two panels, as the Jaccard grows with the
    number of queries; lines are least squares a model.
    """
    panels = [("measured", ours, by), ("published", published, "jaccard")]
    colours = _colours([*MODELS, *ours["model"]])
    shifts = list(dict.fromkeys([*ours["shift"], *published["shift"]]))
    figure, axes = _axes(2, width=9.5, height=4.2, sharey=True)
    for axis, (title, part, x) in zip(axes, panels, strict=True):
        for model, rows in part.groupby("model", sort=False):
            for shift, found in rows.groupby("shift", sort=False):
                marker = MARKERS[shifts.index(shift) % len(MARKERS)]
                axis.plot(found[x], 100 * found["rel_loss"], marker, color=colours[model], ms=6, mec="white", mew=0.6)
            if len(rows) > 2 and np.ptp(rows[x]):
                ends = np.array([rows[x].min(), rows[x].max()])
                line = np.polyfit(rows[x], 100 * rows["rel_loss"], 1)
                axis.plot(ends, np.polyval(line, ends), color=colours[model], lw=1, alpha=0.7)
        axis.axhline(0, color=COLOURS["test"], lw=0.8)
        axis.set(title=title, xlabel="weighted Jaccard with the other clusters")
    axes[0].set_ylabel("RelLoss, %")
    from matplotlib.lines import Line2D

    models = [name for name in colours if name in set(ours["model"]) | set(published["model"])]
    keys = [Line2D([], [], color=colours[name], lw=3, label=name) for name in models]
    keys += [Line2D([], [], color="#555555", marker=MARKERS[i % len(MARKERS)], lw=0, label=name)
             for i, name in enumerate(shifts)]  # fmt: skip
    figure.legend(handles=keys, loc="outside right upper")
    return figure


def r_histograms(frame: pd.DataFrame, label: str, n_bins: int = 18):
    """Distribution of R of the test queries of each cluster, a panel a shift (Lupart, Figure 4): shift, cluster, R."""
    names = list(frame["shift"].unique())
    figure, axes = _axes(len(names), width=3.1 * len(names) + 0.6, height=3.4)
    for axis, name in zip(axes, names, strict=True):
        rows = frame[frame["shift"] == name]
        edges = np.histogram_bin_edges(rows["R"], n_bins)
        for colour, (cluster, part) in zip(BUCKETS, rows.groupby("cluster"), strict=False):
            look = {"color": colour, "label": cluster}
            axis.hist(part["R"], edges, weights=np.full(len(part), 100 / len(part)), histtype="stepfilled", alpha=0.25,
                      color=colour)  # fmt: skip
            axis.hist(part["R"], edges, weights=np.full(len(part), 100 / len(part)), histtype="step", lw=1.5, **look)
        axis.set(title=name, xlabel=label)
        axis.margins(y=0.3)
        axis.legend(fontsize=8, loc="upper left", ncols=2, handlelength=1, columnspacing=0.8)
    axes[0].set_ylabel("% of the cluster's test queries")
    return figure


def loss_by_distance(table: pd.DataFrame, measure: str, averaging: str, least: int = 10):
    """RelLoss in intervals of R, farthest left (Lupart, Figure 5): a column a shift, a row a way to cut the intervals.

    `table` of `indication_tables.loss_by_r`; intervals with fewer than `least` queries are left out.
    """
    part = table[(table["measure"] == measure) & (table["averaging"] == averaging)]
    part = part[part["n_queries"] - part["n_dropped"] >= least].dropna(subset="rel_loss")
    shifts, cuts, colours = list(part["shift"].unique()), list(part["binning"].unique()), _colours(part["model"])
    titles = {"width": "equal width", "quantile": "equally many queries"}
    figure, axes = _grid(len(cuts), len(shifts), 2.6 * len(shifts) + 1.6, 2.7 * len(cuts) + 0.4, sharex=True,
                         sharey=True)  # fmt: skip
    for (row, cut), (column, shift) in itertools.product(enumerate(cuts), enumerate(shifts)):
        axis, here = axes[row, column], part[(part["binning"] == cut) & (part["shift"] == shift)]
        for at, (model, found) in enumerate(here.groupby("model", sort=False)):
            x, y = found["bin"] + 0.07 * (at - 2), 100 * found["rel_loss"]
            axis.vlines(x, 100 * found["low"], 100 * found["high"], color=colours[model], lw=1, alpha=0.5)
            axis.plot(x, y, "o-", ms=4, lw=1.3, color=colours[model], label=model)
        axis.axhline(0, color=COLOURS["test"], lw=0.8)
        if row == 0:
            axis.set_title(shift)
        if column == 0:
            axis.set_ylabel(f"RelLoss, %\n({titles.get(cut, cut)})")
    shown = 100 * part["rel_loss"]
    axes[0, 0].set_ylim(max(shown.min() - 15, -100), min(shown.max() + 15, 120))
    axes[0, 0].set_xticks(sorted(part["bin"].unique()))
    known = {label: handle for axis in axes.ravel() for handle, label in zip(*axis.get_legend_handles_labels(),
                                                                              strict=True)}  # fmt: skip
    figure.legend(known.values(), known.keys(), loc="outside right upper")
    figure.supxlabel(f"interval of R, from far (1) to near; {measure}, {averaging}", fontsize=10)
    return figure


def loss_boxes(losses: pd.DataFrame, models: list[str]):
    """Per-query RelLoss in each interval of R (Lupart, Figure 6), a row a measure; single outliers are not drawn.

    `losses`: model, measure, bin, rel_loss.
    """
    models = [name for name in models if name in set(losses["model"])]
    measures = list(losses["measure"].unique())
    figure, axes = _grid(len(measures), len(models), 2.5 * len(models) + 0.8, 2.6 * len(measures) + 0.3, sharex=True,
                         sharey="row")  # fmt: skip
    for row, measure in enumerate(measures):
        for axis, model in zip(axes[row], models, strict=True):
            part = losses[(losses["measure"] == measure) & (losses["model"] == model)]
            numbers = sorted(part["bin"].unique())
            look = {"patch_artist": True, "showfliers": False, "widths": 0.6, "medianprops": {"color": "#D55E00"}}
            boxes = axis.boxplot([100 * part.loc[part["bin"] == n, "rel_loss"] for n in numbers], positions=numbers,
                                 **look)  # fmt: skip
            for box in boxes["boxes"]:
                box.set(facecolor="#dddddd", edgecolor="#555555")
            axis.axhline(0, color=COLOURS["test"], lw=0.8)
            axis.grid(False, axis="x")
            if row == 0:
                axis.set_title(model)
        axes[row, 0].set_ylabel(f"RelLoss of {measure}, %")
    figure.supxlabel("interval of R (all shifts, standardised), from far (1) to near", fontsize=10)
    return figure


def predictor_heatmap(table: pd.DataFrame, target: str, control: str = ""):
    """Kendall's tau within clusters of every predictor with a target, a panel a shift; bold: the interval excludes 0.

    `table` of `indication_prediction.predict`. A shift with a single model (a control) has a narrow panel.
    """
    part = table[table["target"] == target].assign(name=lambda rows: rows["space"] + ": " + rows["predictor"])
    names = list(part.drop_duplicates("name").sort_values("space", kind="stable", key=_family)["name"])
    shifts = list(part["shift"].unique())
    models = {shift: list(part.loc[part["shift"] == shift, "model"].unique()) for shift in shifts}
    widths = [len(models[shift]) for shift in shifts]
    figure, axes = _grid(1, len(shifts), 0.62 * sum(widths) + 2.6, 0.31 * len(names) + 1.5, sharey=True,
                         width_ratios=widths)  # fmt: skip
    for axis, shift in zip(axes[0], shifts, strict=True):
        rows = part[part["shift"] == shift]
        cells = {name: rows.pivot(index="name", columns="model", values=name).reindex(names, columns=models[shift])
                 for name in ("within", "within_low", "within_high")}  # fmt: skip
        tau, low, high = (frame.to_numpy() for frame in cells.values())
        image = axis.imshow(tau, cmap="PuOr", vmin=-0.5, vmax=0.5, aspect="auto")
        for (i, j), value in np.ndenumerate(tau):
            if not np.isnan(value):
                sure = low[i, j] > 0 or high[i, j] < 0
                text = f"{round(value, 2) + 0.0:+.2f}".replace("0.", ".")  # no -.00
                axis.text(j, i, text, ha="center", va="center", fontsize=8,
                          weight="bold" if sure else None, color="black" if sure else "#777777")  # fmt: skip
        axis.set_xticks(range(len(models[shift])), models[shift], rotation=50, ha="right", fontsize=8)
        axis.set_title(f"{shift}\n(control)" if shift == control else shift, fontsize=10)
        axis.grid(False)
    axes[0, 0].set_yticks(range(len(names)), names, fontsize=8)
    figure.colorbar(image, ax=axes[0, -1], label="Kendall's τ within clusters", fraction=0.3 / widths[-1])
    figure.suptitle(f"Target: {target}", fontsize=11)
    return figure


def _family(spaces: pd.Series) -> pd.Series:
    return spaces.map({name: at for at, name in enumerate(("dense", "own", "words", "collection", "run"))})


def predictor_dots(table: pd.DataFrame, models: list[str]):
    """Definitions of far beside each other: tau with the loss within clusters, with intervals, a panel a shift.

    `table` of `indication_prediction.definitions`.
    """
    models, colours = [name for name in models if name in set(table["model"])], _colours(table["model"])
    names, shifts = list(dict.fromkeys(table["definition"])), list(table["shift"].unique())
    names.sort(key=lambda name: ("dense", "own", "words").index(name.partition(":")[0]))
    figure, axes = _axes(len(shifts), width=2.7 * len(shifts) + 2.2, height=0.5 * len(names) + 1.1, sharex=True,
                         sharey=True)  # fmt: skip
    for axis, shift in zip(axes, shifts, strict=True):
        for at, model in enumerate(models):
            found = table[(table["shift"] == shift) & (table["model"] == model)]
            y = np.array([names.index(name) for name in found["definition"]]) + 0.2 * (at - (len(models) - 1) / 2)
            axis.hlines(y, found["low"], found["high"], color=colours[model], lw=1.3)
            axis.plot(found["kendall"], y, "o", ms=4, color=colours[model], label=model)
        axis.axvline(0, color=COLOURS["test"], lw=0.8)
        axis.set_title(shift)
    axes[0].set_yticks(range(len(names)), names)
    axes[0].set_ylim(len(names) - 0.4, -0.6)
    known = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(known.values(), known.keys(), loc="outside right upper")
    figure.supxlabel("Kendall's τ with the loss; above 0: the farther, the higher the loss", fontsize=10)
    return figure
