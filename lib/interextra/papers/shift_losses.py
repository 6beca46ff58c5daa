"""The losses that Lupart et al. (ECIR 2023) print, under our names, and what goes with them.

Clusters bear the paper's names: topics C0 to C4, question words wha, how, who, lengths short and long. `delta` is the
printed RelLoss with the other sign, Out / Avg In - 1: negative is a loss, as in our tables.
"""

from pathlib import Path

import pandas as pd

from interextra.evaluation.indicators import link
from interextra.models import bm25, colbert, dense, reranker, splade
from interextra.papers import published
from interextra.papers.releases import CLUSTERS, released_jaccard

MODELS = {  # the paper's → ours
    "BM25": bm25.LABEL,
    "monoBERT": reranker.LABEL,
    "ColBERT": colbert.LABEL,
    "SPLADE": splade.LABEL,
    "bi-encoder": dense.LABEL,
}


def published_losses() -> pd.DataFrame:
    """Tables 2 and 3 as fractions, our model names: shift, cluster, model, delta, in, out (RR@10), rounding of delta.

    BM25 isn't trained: its one score is `out`, and it has no published loss.

    >>> published_losses().query("cluster == 'C1' and model == 'ColBERT'")["delta"].item()
    -0.085
    """
    cells = pd.concat([published.load("lupart", number) for number in (2, 3)])
    cells["shift"] = cells["collection"].str.removeprefix("MS-Shift ")
    cells["model"] = cells["model"].map(MODELS)
    cells["quantity"] = cells["quantity"].fillna("Out").map({"Rel Loss": "delta", "Avg In": "in", "Out": "out"})
    wide = cells.pivot(index=["shift", "cluster", "model"], columns="quantity", values="scaled")
    places = [(shift, name, model) for shift in CLUSTERS for name in CLUSTERS[shift] for model in MODELS.values()]
    wide = wide.loc[places].round(6)
    rounding = cells.loc[cells["quantity"] == "delta", "rounding"].max()
    wide = wide.assign(delta=-wide["delta"])[["delta", "in", "out"]]
    return wide.rename_axis(columns=None).reset_index().assign(rounding=rounding)


def published_means() -> pd.DataFrame:
    """Mean published effect over the clusters of a shift, negative where it is a loss, as `Effects.beside` takes it:
    shift, model, measure, scaled, rounding, and those of the clusters that lose most and least."""
    of = published_losses().dropna(subset="delta").groupby(["shift", "model"], sort=False)
    named = {"scaled": ("delta", "mean"), "rounding": ("rounding", "max"), "most": ("delta", "min")}
    return of.agg(**named, least=("delta", "max")).reset_index().assign(measure="RR@10")


def published_points(folder: Path | None = None) -> pd.DataFrame:
    """Lupart's losses beside the Jaccard of their clusters, as in Figure 3: shift, cluster, model, delta, jaccard.

    `folder` of the release: of the released evaluation queries, all shifts; None: of whole topics, by its notebook.

    >>> published_points().query("cluster == 'C1' and model == 'ColBERT'")[["delta", "jaccard"]].values.tolist()
    [[-0.085, 0.2632]]
    """
    if folder is None:
        table = published.load("lupart", "release-jaccard").rename(columns={"scaled": "jaccard"}).assign(shift="topics")
    else:
        table = released_jaccard(folder)
    losses = published_losses().dropna(subset="delta")[["shift", "cluster", "model", "delta"]]
    return losses.merge(table[["shift", "cluster", "jaccard"]])


def published_links(folder: Path | None = None) -> pd.DataFrame:
    """`link` of the published losses with each Jaccard that is known: of, clusters, and the columns of `link`.

    Five clusters can show little: |Pearson| must exceed .88 for p < .05, Spearman must be 1 or -1. `of`: authors (whole
    clusters), and with the release's `folder` released (evaluation queries), of topics and of question words too.
    """
    found = {("authors", "topics"): published_points()}
    if folder is not None:
        points = published_points(folder).query("shift != 'length'")
        found["released", "topics"] = points[points["shift"] == "topics"]
        found["released", "topics and wh-words"] = points
    return pd.concat([link(points, "jaccard").assign(of=of, clusters=which) for (of, which), points in found.items()])
