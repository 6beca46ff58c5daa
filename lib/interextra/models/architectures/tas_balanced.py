"""TAS-Balanced: a dense retriever trained by topic, with balanced margins and two teachers.

The queries of a batch are of one cluster (topic-aware sampling); of a query's pairs of a relevant
and another passage one is drawn such that small and large margins of a teacher are equally likely
(Hofstätter et al., SIGIR 2021, sections 3.2 and 3.3). It may have a second pass, see `compressed`.
Taught in notebooks/10_compression_and_hybrid.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from interextra.data.collection import Collection, Passages
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
ENCODES_QUERIES = True

load = compressed.load


class Options(compressed.Options):
    """The recipe of a dense retriever with topic-aware sampling and balanced margins."""

    scores: ClassVar[tuple[str, ...]] = ("topics",)
    reads: ClassVar[tuple[str, ...]] = ("topics",)

    loss: str = "tas-balanced"
    similarity: Literal["dot"] = "dot"  # the margins of teachers have no bound, those of cosines do
    negatives: Literal["topics"] = "topics"  # those of the batch, whose queries are of one topic …
    n_negatives: Literal[1] = 1  # … and have one each
    negative_passages: Literal["all"] = "all"
    teacher: str = Field(min_length=1)  # recipe of the ColBERT that scores all passages of a batch
    # recipe of the reranker that scores the first `negative_depth` passages of BM25, once
    pair_teacher: str
    in_batch_weight: Weight = 0.75
    # initialisation whose [CLS] vectors of the queries are clustered; empty: LSA on their words
    topics: str = ""
    clusters: PositiveInt = 2000
    bins: PositiveInt = 10  # of equal width between a query's smallest and largest margin

    def needs(self) -> list[str]:
        """Return what `model.fit` must be given: also a run with the scores of pairs."""
        return [*super().needs(), "ranking"]


class TopicBatches:
    """Batches of pairs (query, relevant passage, other passage) of one topic, balanced by margin.

    Parameters
    ----------
    scored
        DataFrame[query, positive, negative, margin], all pairs that a teacher scored; `query` is a
        row of the training queries.
    labels
        int[n_queries], the topic of each training query.
    bins
        Number of bins of equal width between a query's smallest and largest margin: first a bin is
        drawn, then a pair in it.
    """

    def __init__(self, scored: pd.DataFrame, labels: np.ndarray, bins: int) -> None:
        self.columns = {name: scored[name].to_numpy() for name in scored}
        by_query = scored.groupby("query")
        bin_of_pair = by_query["margin"].transform(lambda margins: _bin_numbers(margins, bins))
        pairs_in_bin = scored.groupby(["query", bin_of_pair])["margin"].transform("size")
        weight = 1 / pairs_in_bin
        weight_of_query = weight.groupby(scored["query"]).transform("sum")
        self.probability = (weight / weight_of_query).to_numpy()  # of a pair, given its query
        self.pairs_of_query = by_query.indices
        topic_of_pair = labels[scored["query"]]
        self.queries_of_topic = scored["query"].groupby(topic_of_pair).unique().tolist()

    def draw(self, generator: np.random.Generator, size: int) -> dict[str, np.ndarray]:
        """Draw query, positive, negative and margin of `size` pairs.

        They are of as many different queries as there are, topic after topic in random order.
        """
        order = generator.permutation(len(self.queries_of_topic))
        queries = [generator.permutation(self.queries_of_topic[topic]) for topic in order]
        drawn = []
        for query in np.resize(np.concatenate(queries), size):
            pairs = self.pairs_of_query[query]
            drawn.append(generator.choice(pairs, p=self.probability[pairs]))
        return {name: column[drawn] for name, column in self.columns.items()}


def _bin_numbers(margins: pd.Series, bins: int) -> np.ndarray:
    """Return the bin, from 0, of each of a query's margins."""
    inner_edges = np.histogram_bin_edges(margins, bins)[1:-1]
    return np.digitize(margins, inner_edges)


def scored_pairs(
    ranking: Path, passages: Passages, pairs: Pairs, spared: Sequence[str] = ()
) -> pd.DataFrame:
    """Return all pairs of a relevant and another passage of a run, as `TopicBatches` takes them.

    `ranking` is a run with a teacher's scores. A copy of a relevant passage, under another id, is
    neither; nor are the passages of the doc_ids `spared`.
    """
    text_of = text_numbers(passages)
    run = RunFile.read(ranking).frame()
    known = pd.Index(pairs.query_ids)
    run["query"] = known.get_indexer(run["query_id"])
    run["row"] = passages.rows(run["doc_id"])
    codes = run["query"] * len(passages) + run["row"]
    is_relevant = np.isin(codes, pairs.query * len(passages) + pairs.rows)
    is_relevant_or_copy = np.isin(codes, relevant_pairs(pairs, text_of))
    is_spared = spared_passages(spared, passages, text_of)[run["row"]]
    others = run[~is_relevant_or_copy & ~is_spared]
    both = run[is_relevant].merge(others, on="query", suffixes=("", "_other"))
    both["margin"] = both["score"] - both["score_other"]
    both = both.rename(columns={"row": "positive", "row_other": "negative"})
    return both[["query", "positive", "negative", "margin"]]


def fit(
    recipe: Options,
    collection: Collection,
    query_ids: Sequence[str],
    split: str,
    seed: int,
    out_dir: Path,
    *,
    ranking: Path,
    **inputs: Path,
) -> dict:
    """Train a bi-encoder and save it to `out_dir`, see `interextra.models.model.fit`.

    `ranking` is a run with the scores of pairs.
    """
    from interextra.models.training.second_pass import TopicAware
    from interextra.models.training.trainer import QueryBatches, train

    pairs = training_pairs(collection, query_ids, split, recipe.positive_relevance)
    spared = read_spared(inputs.get("spared"))
    scored = scored_pairs(ranking, collection.passages, pairs, spared)
    labels = _query_topics(recipe, pairs.texts, seed)
    loss = TopicAware(recipe, seed, TopicBatches(scored, labels, recipe.bins))
    return train(
        loss, recipe, collection, query_ids, split, seed, out_dir, batches=QueryBatches, **inputs
    )


def _query_topics(recipe: Options, texts: Sequence[str], seed: int) -> np.ndarray:
    """Cluster queries by their vectors: int64[n], the topic of each."""
    encoder = CLS if recipe.topics else LSA
    vectors = encoder(recipe.topics, texts).encode_queries(texts)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors / np.maximum(lengths, 1e-12)
    n_clusters = min(recipe.clusters, len(vectors))
    centroids = kmeans(vectors, n_clusters, seed, normalise=True)
    _, nearest_centroids = nearest(vectors, centroids, k=1)
    return nearest_centroids[:, 0]
