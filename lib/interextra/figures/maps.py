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
        colour_of_vector = groups.map(colours)
        axis.scatter(x, y, c=colour_of_vector, s=16, lw=0)
        axis.set(xticks=[], yticks=[])
    counted = _counted(groups, colours)
    keys = keys_of(counted, marker="o", lw=0, ms=5)
    finish(figure, {title: keys})
    panels = "; ".join(vectors)
    counts = "; ".join(counted)
    seen = f"Map by t-SNE of {len(groups)} vectors: {counts}."
    figure.say(f"{panels}.", seen)
    return figure


def _counted(groups: pd.Series, colours: dict[str, str]) -> dict[str, str]:
    """Return the colours by the name of a group with its number of vectors."""
    sizes = groups.value_counts(sort=False)
    counted = {}
    for name, colour in colours.items():
        size = f"{sizes[name]:,}"
        counted[f"{name}\u00a0({size})"] = colour  # in one line with its end
    return counted


def _in_plane(vectors: np.ndarray) -> np.ndarray:
    """Return the places float[n, 2] of vectors by t-SNE."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    n_components = min(50, *vectors.shape)
    perplexity = (len(vectors) - 1) / 6
    pca = PCA(n_components, random_state=1234)
    tsne = TSNE(perplexity=perplexity, max_iter=1000, random_state=1234)
    return tsne.fit_transform(pca.fit_transform(vectors))
