"""TAS-Balanced: a dense retriever trained by topic, balanced margins and two teachers (Hofstätter
et al., SIGIR 2021).

The queries of a batch are of one cluster (topic-aware sampling); of a query's pairs of a relevant
and another passage one is drawn such that small and large margins of a teacher are equally likely
(sections 3.2 and 3.3). It may have a second pass, see `compressed`. Taught in
notebooks/10_compression_and_hybrid.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from interextra.data.runs import RunFile
from interextra.models.architectures import compressed
from interextra.models.encoders import CLS, LSA
from interextra.models.recipe import PositiveInt, Weight
from interextra.models.training.pairs import (
    Pairs,
    read_spared,
    relevant_pairs,
    spared_passages,
    text_numbers,
    training_pairs,
)
from interextra.splits.clusters import kmeans
from interextra.splits.similarity import nearest

LABEL = "TAS-B"
COLOUR = "#332288"
ENCODES_QUERIES, INTERACTS = True, False

load = compressed.load


class Options(compressed.Options):
    scores: ClassVar[tuple[str, ...]] = ("topics",)
    reads: ClassVar[tuple[str, ...]] = ("topics",)

    loss: str = "tas-balanced"
    similarity: Literal["dot"] = "dot"  # the margins of teachers have no bound, those of cosines do
    negatives: Literal["topics"] = "topics"  # those of the batch, whose queries are of one topic …
    n_negatives: Literal[1] = 1  # … and have one each
    negative_passages: Literal["all"] = "all"
    teacher: str = Field(min_length=1)  # recipe of the ColBERT that scores all passages of a batch
    pair_teacher: (
        str  # recipe of the reranker that scores the first `negative_depth` passages of BM25, once
    )
    in_batch_weight: Weight = 0.75
    # initialisation whose [CLS] vectors of the queries are clustered; empty: LSA on their words
    topics: str = ""
    clusters: PositiveInt = 2000
    bins: PositiveInt = 10  # of equal width between a query's smallest and largest margin

    def needs(self) -> list[str]:
        return [*super().needs(), "ranking"]


class Topics:
    """Batches of pairs (query, relevant passage, other passage) of one topic, with balanced
    margins.

    scored: DataFrame[query, positive, negative, margin], all pairs that a teacher scored, query a
    row of the training queries; labels: int[n_queries], the topic of each.
    """

    def __init__(self, scored: pd.DataFrame, labels: np.ndarray, bins: int):
        self.columns, by_query = (
            {name: scored[name].to_numpy() for name in scored},
            scored.groupby("query"),
        )
        bin_of = by_query["margin"].transform(
            lambda m: np.digitize(m, np.histogram_bin_edges(m, bins)[1:-1])
        )
        weight = 1 / scored.groupby(["query", bin_of])["margin"].transform("size")
        self.chance = (weight / weight.groupby(scored["query"]).transform("sum")).to_numpy()
        self.rows = by_query.indices
        self.topics = scored["query"].groupby(labels[scored["query"]]).unique().tolist()

    def drawn(self, draw: np.random.Generator, size: int) -> dict[str, np.ndarray]:
        """query, positive, negative, margin of `size` pairs, of as many queries as there are, from
        topic to topic.
        """
        order = [self.topics[at] for at in draw.permutation(len(self.topics))]
        queries = np.resize(np.concatenate([draw.permutation(topic) for topic in order]), size)
        picked = [draw.choice(rows, p=self.chance[rows]) for rows in map(self.rows.get, queries)]
        return {name: column[picked] for name, column in self.columns.items()}


def scored_pairs(ranking: Path, passages, pairs: Pairs, spared: Sequence[str] = ()) -> pd.DataFrame:
    """All pairs of a relevant and another passage of a run with a teacher's scores, as `Topics`
    takes them.

    A copy of a relevant passage, under another id, is neither; nor are the passages of the doc_ids
    `spared`.
    """
    alike = text_numbers(passages)
    frame = RunFile.read(ranking).frame()
    frame["query"] = pd.Index(pairs.query_ids).get_indexer(frame["query_id"])
    frame["row"] = passages.rows(frame["doc_id"])
    codes = frame["query"] * len(passages) + frame["row"]
    relevant = np.isin(codes, pairs.query * len(passages) + pairs.rows)
    other = (
        ~np.isin(codes, relevant_pairs(pairs, alike))
        & ~spared_passages(spared, passages, alike)[frame["row"]]
    )
    both = frame[relevant].merge(frame[other], on="query", suffixes=("", "_other"))
    columns = {"query": both["query"], "positive": both["row"], "negative": both["row_other"]}
    return pd.DataFrame(columns | {"margin": both["score"] - both["score_other"]})


def fit(
    recipe: Options, collection, query_ids, split: str, seed: int, *out_dir, ranking: Path, **given
) -> dict:
    """Train a bi-encoder and save it, see `interextra.models.model.fit`. `ranking`: a run with the
    scores of pairs.
    """
    from interextra.models.training.second_pass import TopicAware
    from interextra.models.training.trainer import train

    loss, pairs = (
        TopicAware(recipe, seed),
        training_pairs(collection, query_ids, split, recipe.positive_relevance),
    )
    vectors = (CLS if recipe.topics else LSA)(recipe.topics, pairs.texts).encode_queries(
        pairs.texts
    )
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    labels = nearest(
        vectors, kmeans(vectors, min(recipe.clusters, len(vectors)), seed, normalise=True), k=1
    )[1][:, 0]
    scored = scored_pairs(ranking, collection.passages, pairs, read_spared(given.get("spared")))
    loss.topics = Topics(scored, labels, recipe.bins)
    recipe = recipe.model_copy(
        update={"negatives": "own"}
    )  # so that the trainer leaves the batches to the loss
    return train(loss, recipe, collection, query_ids, split, seed, *out_dir, **given)
