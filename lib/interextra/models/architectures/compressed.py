"""A dense retriever whose training makes its vectors smaller: a second pass, in which nothing is
frozen.

It goes on from the weights of a first pass (`after`), with a linear layer after pooling (Hofstätter
et al., TREC 2021, section 3), or with its loss taken at shorter lengths of the vectors, too
(Matryoshka: Kusupati et al., 2022); any loss of a dense retriever will do. Taught in
notebooks/10_compression_and_hybrid.
"""

from typing import ClassVar

from interextra.models.architectures import dense
from interextra.models.recipe import Dimension, Held

LABEL = "DR, compressed"
COLOUR = "#56B4E9"
ENCODES_QUERIES, INTERACTS = True, False

load = dense.load


class Options(dense.Options):
    scores: ClassVar[tuple[str, ...]] = ("batch", "query")

    dimension: Dimension = 0  # of the vectors after a linear layer; 0: no such layer
    bias: bool = True  # of this layer: the paper's equation has none, its code has one
    truncations: tuple[Held, ...] = ()  # lengths at which the loss is taken, too


def fit(recipe: Options, collection, query_ids, split: str, seed: int, *out_dir, **given) -> dict:
    from interextra.models.training.second_pass import AtLengths
    from interextra.models.training.trainer import train

    return train(
        AtLengths(recipe, seed), recipe, collection, query_ids, split, seed, *out_dir, **given
    )
