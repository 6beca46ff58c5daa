"""TAS-Balanced: a dense retriever trained by topic, balanced margins and two teachers; and a layer that compresses it.

The queries of a batch are of one cluster (topic-aware sampling); of a query's pairs of a relevant and another passage
one is drawn such that small and large margins of a teacher are equally likely (Hofstätter et al., SIGIR 2021, sections
3.2 and 3.3). A second pass may add a linear layer after pooling (Hofstätter et al., TREC 2021, section 3), or train
truncated vectors, too (Matryoshka: Kusupati et al., 2022). Taught in notebooks/10_compression_and_hybrid.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from interextra.data.runs import RunFile
from interextra.ground.errors import InputError
from interextra.models import dense
from interextra.models.encoders import CLS, LSA
from interextra.models.model import load_model
from interextra.models.pairs import Pairs, training_pairs
from interextra.models.recipe import PositiveInt
from interextra.models.topk import device
from interextra.splits.clusters import kmeans
from interextra.splits.similarity import nearest

LABEL = "TAS-B"
COLOUR = "#332288"
ENCODES_QUERIES, INTERACTS = True, False

load = dense.load


class Options(dense.Options):
    scores: ClassVar[tuple[str, ...]] = ("topics",)

    loss: str = "tas-balanced"
    similarity: Literal["dot"] = "dot"  # the margins of teachers have no bound, those of cosines do
    negatives: Literal["own"] = "own"  # the loss composes its batches
    negative_passages: Literal["all"] = "all"
    teacher: str = Field(min_length=1)  # recipe of the ColBERT that scores all passages of a batch
    pair_teacher: str  # recipe of the reranker that scores the first `negative_depth` passages of BM25, once
    in_batch_weight: float = Field(0.75, ge=0)
    topics: str = ""  # initialisation whose [CLS] vectors of the queries are clustered; empty: LSA on their words
    clusters: PositiveInt = 2000
    bins: PositiveInt = 10  # of equal width between a query's smallest and largest margin
    dimension: int = Field(0, ge=0)  # of the vectors after a linear layer; 0: no such layer
    bias: bool = True  # of this layer: the paper's equation has none, its code has one
    truncations: tuple[PositiveInt, ...] = ()  # lengths at which the loss is taken, too (Matryoshka)

    @model_validator(mode="after")
    def _one_duration(self) -> "Options":
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give exactly one of steps and epochs")
        return self

    def needs(self) -> list[str]:
        return [*super().needs(), "ranking"]

    def cost(self, n_train: int, n_passages: int, n_queries: int) -> dict[str, float]:
        tokens = self.batch_size * (self.query_length + 2 * self.passage_length)
        return self._cost(n_train, tokens, n_passages * self.passage_length)


class Topics:
    """Batches of pairs (query, relevant passage, other passage) of one topic, with balanced margins.

    scored: DataFrame[query, positive, negative, margin], all pairs that a teacher scored, query a row of the training
    queries; labels: int[n_queries], the topic of each.
    """

    def __init__(self, scored: pd.DataFrame, labels: np.ndarray, bins: int):
        scored = scored.sort_values("query", kind="stable", ignore_index=True)
        low, high = (scored.groupby("query")["margin"].transform(end) for end in ("min", "max"))
        width = (high - low).where(high > low, 1.0) / bins
        self.columns = {name: scored[name].to_numpy() for name in scored}
        self.bin = ((scored["margin"] - low) / width).astype(int).clip(upper=bins - 1).to_numpy()
        known = scored["query"].unique()
        self.start, self.end = (
            np.searchsorted(scored["query"], np.arange(len(labels)), side) for side in ("left", "right")
        )
        self.members = [part for label in np.unique(labels) if len(part := known[labels[known] == label])]

    def drawn(self, draw: np.random.Generator, size: int) -> dict[str, np.ndarray]:
        """query, positive, negative, margin of `size` pairs, each of another query; a small topic is filled up."""
        queries = np.concatenate([draw.permutation(self.members[at]) for at in draw.permutation(len(self.members))])
        picked = []
        for query in queries[:size]:
            bins = self.bin[self.start[query] : self.end[query]]
            inside = np.flatnonzero(bins == draw.choice(np.unique(bins)))
            picked.append(self.start[query] + draw.choice(inside))
        return {name: column[picked] for name, column in self.columns.items()}


def scored_pairs(ranking: Path, passages, pairs: Pairs) -> pd.DataFrame:
    """All pairs of a relevant and another passage of a run with a teacher's scores, as `Topics` takes them."""
    frame = RunFile.read(ranking).frame()
    frame["query"] = pd.Index(pairs.query_ids).get_indexer(frame["query_id"])
    frame["row"] = np.asarray(passages.rows(frame["doc_id"].tolist()), dtype=np.int64)
    relevant = np.isin(frame["query"] * len(passages) + frame["row"], pairs.query * len(passages) + pairs.rows)
    sides = (frame.loc[(frame["query"] >= 0) & part, ["query", "row", "score"]] for part in (relevant, ~relevant))
    both = pd.merge(*sides, on="query", suffixes=("", "_other"))
    columns = {"query": both["query"], "positive": both["row"], "negative": both["row_other"]}
    return pd.DataFrame(columns | {"margin": both["score"] - both["score_other"]})


def topics_of(encoder: str, texts: Sequence[str], clusters: int, seed: int) -> np.ndarray:
    """The topic of each query, int[n]: spherical k-means of its vector, see `Options.topics`."""
    vectors = (CLS if encoder else LSA)(encoder, texts).encode_queries(texts)
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return nearest(vectors, kmeans(vectors, min(clusters, len(texts)), seed, normalise=True), k=1)[1][:, 0]


def build(recipe: Options, seed: int):
    """The untrained `SentenceTransformer` of a recipe; with `dimension` a linear layer, drawn anew, ends it."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense

    model = dense.build(recipe, seed)
    shape = {"in_features": model.get_embedding_dimension(), "out_features": recipe.dimension, "bias": recipe.bias}
    if (longest := max(recipe.truncations, default=0)) >= (width := recipe.dimension or shape["in_features"]):
        raise InputError(f"truncations: {longest} of {width} dimensions: give shorter lengths")
    if not recipe.dimension:
        return model
    torch.manual_seed(seed)
    layer = Dense(**shape, activation_function=torch.nn.Identity())
    return SentenceTransformer(modules=[*model.children(), layer], device=device(), similarity_fn_name="dot")


def fit(
    recipe: Options, collection, query_ids, split: str, seed: int, out_dir: Path, ranking: Path, teacher: Path, **given
) -> dict:
    """Train a bi-encoder and save it, see `interextra.models.model.fit`. `ranking`: a run with the scores of pairs."""
    from interextra.models.balanced import TopicAware
    from interextra.models.training import train

    pairs = training_pairs(collection, query_ids, split, recipe.positive_relevance)
    labels = topics_of(recipe.topics, pairs.texts, recipe.clusters, seed)
    topics = Topics(scored_pairs(ranking, collection.passages, pairs), labels, recipe.bins)
    loss = TopicAware(build(recipe, seed), recipe, topics, load_model(teacher))
    return train(loss, recipe, collection, query_ids, split, seed, out_dir, **given)
