"""Vectors in a plane."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from pandas import DataFrame

from interextra.figures.looks import Drawing, colours_of, keys_of, kind_of_figure
from interextra.figures.panels import figure_of, finish


@kind_of_figure
def scatter_map(
    vectors: dict[str, np.ndarray],
    group: Sequence[str],
    title: str,
) -> Drawing:
    """Return vectors float[n, d] in a plane by t-SNE, a panel a name, a colour a group.

    `title` says what the groups are.
    """
    groups = pd.Series(list(group), dtype=object)
    colours = colours_of(DataFrame({"group": groups}), "group")
    figure, drawn = figure_of(vectors, 1.7, 2)
    for axis, of_panel in drawn:
        x, y = _in_plane(of_panel).T
        axis.scatter(x, y, c=groups.map(colours), s=16, lw=0)
        axis.set(xticks=[], yticks=[])
    sizes = groups.value_counts(sort=False)
    counted = {}
    for name, colour in colours.items():
        counted[f"{name}\u00a0({sizes[name]:,})"] = colour  # in one line with its end
    keys = keys_of(counted, marker="o", lw=0, ms=5)
    finish(figure, {title: keys})
    panels = "; ".join(vectors)
    seen = f"Map by t-SNE of {len(groups)} vectors: {'; '.join(counted)}."
    figure.say(f"{panels}.", seen)
    return figure


def _in_plane(vectors: np.ndarray) -> np.ndarray:
    """Return the places float[n, 2] of vectors by t-SNE."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    pca = PCA(min(50, *vectors.shape), random_state=1234)
    tsne = TSNE(perplexity=(len(vectors) - 1) / 6, max_iter=1000, random_state=1234)
    return tsne.fit_transform(pca.fit_transform(vectors))
