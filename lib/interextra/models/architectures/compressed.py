"""A dense retriever whose training makes its vectors smaller: a second pass without frozen weights.

It goes on from the weights of a first pass (`after`), with a linear layer after pooling (Hofstätter
et al., TREC 2021, section 3), or with its loss taken at shorter lengths of the vectors, too
(Matryoshka: Kusupati et al., 2022); any loss of a dense retriever will do. Taught in
notebooks/10_compression_and_hybrid.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from interextra.data.collection import Collection
from interextra.models.architectures import dense
from interextra.models.recipe import Dimension, Held

LABEL = "DR, compressed"
COLOUR = "#56B4E9"
ENCODES_QUERIES = True

load = dense.load


class Options(dense.Options):
    """The recipe of a dense retriever with smaller vectors."""

    scores: ClassVar[tuple[str, ...]] = ("batch", "query")

    dimension: Dimension = 0  # of the vectors after a linear layer; 0: no such layer
    bias: bool = True  # of this layer: the paper's equation has none, its code has one
    truncations: tuple[Held, ...] = ()  # lengths at which the loss is taken, too


def fit(
    recipe: Options,
    collection: Collection,
    query_ids: Sequence[str],
    split: str,
    seed: int,
    out_dir: Path,
    **inputs: Path,
) -> dict:
    """Train a dense retriever and save it to `out_dir`, see `interextra.models.model.fit`."""
    from interextra.models.training.second_pass import LossAtLengths
    from interextra.models.training.trainer import train

    loss = LossAtLengths(recipe, seed)
    return train(loss, recipe, collection, query_ids, split, seed, out_dir, **inputs)
