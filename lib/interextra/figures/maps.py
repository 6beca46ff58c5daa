"""Vectors in a plane."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from pandas import DataFrame

from interextra.figures.looks import captioned, colours_of, keys_of, kind_of_figure
from interextra.figures.panels import figure_of, finish


@kind_of_figure
def scatter_map(
    vectors: dict[str, np.ndarray],
    group: Sequence[str],
    title: str,
) -> Figure:
    """Return vectors float[n, d] in a plane by t-SNE, a panel a name, a colour a group.

    `title` says what the groups are.
    """
    groups = np.asarray(group, dtype=object)
    sizes = pd.Series(groups).value_counts(sort=False)
    colours = colours_of(DataFrame({"group": groups}), "group")
    figure, drawn = figure_of(vectors, 1.7, 2)
    for axis, every in drawn:
        points = _in_plane(every)
        axis.scatter(*points.T, c=[colours[name] for name in groups], s=16, lw=0)
        axis.set(xticks=[], yticks=[])
    counted = {}
    for name, colour in colours.items():
        counted[f"{name}\u00a0({sizes[name]:,})"] = colour  # in one line with its end
    finish(figure, {title: keys_of(counted, marker="o", lw=0, ms=5)})
    seen = f"Map by t-SNE of {len(groups)} vectors: {'; '.join(counted)}."
    return captioned(figure, f"{'; '.join(vectors)}.", seen)


def _in_plane(vectors: np.ndarray) -> np.ndarray:
    """Return the places float[n, 2] of vectors by t-SNE."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    pca = PCA(min(50, *vectors.shape), random_state=1234)
    tsne = TSNE(perplexity=(len(vectors) - 1) / 6, max_iter=1000, random_state=1234)
    return tsne.fit_transform(pca.fit_transform(vectors))
