"""How far test queries lie from training, and the loss at each distance (Lupart §5.2).

By words: the weighted Jaccard similarity (Figure 3). By a model: R(q, T), the mean score of a query
with the training queries, the nearest and the k nearest, on a scale of the model's own (Figures 4
to 6). Taught in notebooks/07_indicators.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.stats import rankdata

from interextra.data.queries import Part, Queries
from interextra.models.model import Model, OfModel, load_model
from interextra.models.prices import FLOAT32_MEGABYTES
from interextra.models.retriever import Encoder
from interextra.splits.shift import Shift
from interextra.stats.bootstrap import ratio
from interextra.stats.correlation import correlation_test
from interextra.stats.tests import holm
from interextra.store import InputError, Store, offenders

BINNINGS = ("width", "quantile")
LINK = ["model", "indicator", "kind", "method", "n"]  # columns of `link`
LINK += ["estimate", "low", "high", "p_value", "p_holm", "needed"]


class Nearness(OfModel):
    """`nearness` of each test query in its model's own query space, by query_id: nearness.parquet.

    Only of models that encode a query by itself (dense, SPLADE, ColBERT).
    """

    model: Model
    queries: tuple[Queries | Part, ...]
    k: int

    def title(self) -> str:
        """Return the names of the queries and of the model."""
        test_sets = ", ".join(part.name for part in self.queries)
        return f"nearness · {test_sets} · {self.model.title()}"

    def memory(self) -> float:
        """Return the estimated megabytes at the peak.

        Those of the similarities of as many queries as are compared at once, and two copies.
        """
        n_test = sum(part.size() for part in self.queries)
        n_train = self.model.train.size()
        n_at_once = min(n_test, Encoder.query_block)
        similarities = 3 * n_at_once * n_train * FLOAT32_MEGABYTES
        encoding = self.recipe.search_memory(n_train + n_test)
        return super().memory() + encoding + similarities

    def seconds(self) -> float:
        """Return the seconds that it takes to encode test and training queries."""
        n_test = sum(part.size() for part in self.queries)
        n_train = self.model.train.size()
        return 1 + (n_train + n_test) / 2000

    def build(self, folder: Path, store: Store) -> None:
        """Compare each test query with all training queries of the model."""
        frames = [part.frame(store) for part in self.queries]
        test = pd.concat(frames, ignore_index=True)
        train_texts = self.model.train.frame(store)["text"].tolist()
        model = load_model(store[self.model] / "weights")
        scores = model.query_similarities(test["text"].tolist(), train_texts)
        table = nearness(scores, self.k).set_index(test["query_id"])
        table.to_parquet(folder / "nearness.parquet")


def weighted_jaccard(source: Sequence[str], target: Sequence[str]) -> float:
    """Return the weighted Jaccard similarity of the words of two sets of texts (Lupart §5.2).

    Sum of min(S_k, T_k) / sum of max(S_k, T_k), where S_k and T_k are word k's share of all words
    of its set; words are text.lower().split(), as in the release.

    Examples
    --------
    >>> weighted_jaccard(["red sea"], ["red fox"])
    0.3333333333333333
    """
    source_counts = Counter(_words(source))
    target_counts = Counter(_words(target))
    n_source, n_target = source_counts.total(), target_counts.total()
    shared = sum(
        min(count / n_source, target_counts[word] / n_target)
        for word, count in source_counts.items()
    )
    return shared / (2 - shared)  # shares of a set add up to 1, so the sum of max is 2 - shared


def _words(texts: Iterable[str]) -> list[str]:
    """Return all words of some texts, as the release splits them."""
    return " ".join(texts).lower().split()


def jaccard_table(shifts: Mapping[str, Shift], store: Store) -> pd.DataFrame:
    """Return the weighted Jaccard similarity of each cluster with the others of its shift.

    As in Lupart §5.2, Figure 3 and footnote 6.

    Returns
    -------
    A row per cluster: shift, stratum, jaccard (of all its queries with all queries of the others,
    as in the paper), jaccard_eval_only (of its test queries with the training queries of the model
    without it, which the footnote calls the formal way), n_words (different words of the cluster),
    n_queries (for test), n_train (of the model without it).
    """
    rows = []
    for shift, cell in shifts.items():
        texts = cell.pool.frame()["text"]
        labels = pd.read_parquet(store[cell] / "labels.parquet")
        cluster_of_query = labels["cluster"]
        for cluster in cell.names:
            test, train_texts = in_test_and_training(cell, cluster, store)
            inside = cluster_of_query == cluster
            others = ~inside & (cluster_of_query != "")
            row = {
                "shift": shift,
                "stratum": cluster,
                "jaccard": weighted_jaccard(texts[inside], texts[others]),
                "jaccard_eval_only": weighted_jaccard(test["text"], train_texts),
                "n_words": len(set(_words(texts[inside]))),
                "n_queries": len(test),
                "n_train": len(train_texts),
            }
            rows.append(row)
    # J(S, T) = J(T, S) up to the order of summation
    return pd.DataFrame(rows).round({"jaccard": 12})


def in_test_and_training(
    shift: Shift, cluster: str, store: Store
) -> tuple[pd.DataFrame, pd.Series]:
    """Return the test queries of a cluster and the training texts of the model without it.

    The former are indexed by query_id.
    """
    strata = shift.strata(store)
    query_ids = strata.index[strata == cluster]
    queries = shift.pool.frame().set_index("query_id")
    test = queries.loc[query_ids]
    train = Part(of=shift, part=f"without-{cluster}")
    return test, train.frame(store)["text"]


def query_jaccard(queries: Sequence[str], train: Sequence[str]) -> np.ndarray:
    """Return `weighted_jaccard([q], train)` of each query, float64[n_queries].

    It is small for a large set, and grows with the length of the query.
    """
    query_counts, train_counts = _word_counts(queries, train)
    train_totals = train_counts.sum(axis=0)
    train_shares = train_totals / train_totals.sum()
    n_words = np.diff(query_counts.indptr)  # different ones, of each query
    lengths = np.repeat(query_counts.sum(axis=1), n_words)
    query_shares = query_counts.data / lengths
    query_counts.data = np.minimum(query_shares, train_shares[query_counts.indices])
    shared = query_counts.sum(axis=1)
    return shared / (2 - shared)  # as in `weighted_jaccard`


def nearest_jaccard(queries: Sequence[str], train: Sequence[str]) -> np.ndarray:
    """Return the Jaccard similarity of each query with the nearest training query.

    Of the two queries' sets of words, unweighted; float64[n_queries].
    """
    query_counts, train_counts = _word_counts(queries, train)
    train_sizes = np.diff(train_counts.indptr)
    postings = train_counts.T.tocsr()  # word → training queries that hold it
    holders_of_word = np.split(postings.indices, postings.indptr[1:-1])
    nearest = []
    for start, end in pairwise(query_counts.indptr):
        words = query_counts.indices[start:end]
        holders = np.concatenate([holders_of_word[word] for word in words])
        n_shared = np.bincount(holders, minlength=len(train_sizes))
        n_either = len(words) + train_sizes - n_shared
        nearest.append((n_shared / n_either).max())
    return np.array(nearest)


def mean_similarity(test: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Return R(q, T) of each test query: its mean score with the training queries.

    Lupart §5.2, equation 1. Scores are inner products, so the mean over T is the product with T's
    mean vector: O(n d) and not O(n_test n_train). Of float[n_test, d] and float[n_train, d];
    float64[n_test], accumulated in float64.
    """
    mean_vector = np.mean(train, axis=0, dtype=np.float64)
    return np.asarray(test, np.float64) @ mean_vector


def nearness(scores: Iterable[np.ndarray], k: int) -> pd.DataFrame:
    """Return R, max and density of the scores of each test query with the training queries.

    R is their mean (equation 1), density the mean of the k largest, or of all.

    Parameters
    ----------
    scores
        Blocks float[b, n_train] in the order of the test queries, as a model's
        `query_similarities` gives them.
    k
        Number of nearest training queries.
    """
    parts = []
    for block in scores:
        n_others = max(0, block.shape[1] - k)
        partitioned = np.partition(block, n_others, axis=1)
        nearest = partitioned[:, n_others:]
        mean = block.mean(axis=1, dtype=np.float64)
        density = nearest.mean(axis=1, dtype=np.float64)
        largest = nearest.max(axis=1)
        parts.append(np.column_stack([mean, largest, density]))
    table = np.concatenate(parts)
    return pd.DataFrame(table, columns=["R", "max", "density"])


def bins(values: np.ndarray, n: int, how: str) -> np.ndarray:
    """Return the number of the interval of each value, int64[n_values] from 0.

    Values that are all equal are one interval.

    Parameters
    ----------
    values
        float[n_values].
    n
        Number of intervals.
    how
        "width": n intervals of one width, of which some may be empty, each with its low edge, the
        last with both; "quantile": as many values in each as ties allow. The paper does not say.

    Raises
    ------
    InputError
        A value is NaN or infinite.
    """
    values = np.asarray(values, np.float64)
    if not np.isfinite(values).all():
        raise InputError("bins: a value is NaN or infinite; leave its query out")
    if how == "width" and np.ptp(values):
        low, high = values.min(), values.max()
        edges = np.linspace(low, high, n + 1)
        inner_edges = edges[1:-1]
        return np.searchsorted(inner_edges, values, side="right")
    mean_ranks = rankdata(values)  # which ties share
    slots = (mean_ranks - 0.5) * n / len(values)
    whole_slots = slots.astype(np.int64)
    _, numbers = np.unique(whole_slots, return_inverse=True)
    return numbers


def change_per_query(avg_in: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Return Out / Avg In - 1 of each query, float64[n].

    NaN where Avg In is 0; positive for a loss where lower is better.
    """
    return ratio(out, avg_in) - 1


def link(points: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return the `correlation_test` of effects with an indicator over clusters.

    Clusters of one shift share their training queries, and shifts differ in much else: kind
    `pooled` takes all clusters as if they were independent, `within shifts` only what is between
    clusters of one shift (shifts where the indicator is the same for all are left out).

    Parameters
    ----------
    points
        A row per model and cluster: shift, model, delta and the column `by`.
    by
        The indicator.

    Returns
    -------
    A row per model, kind and method: model, indicator, kind, method, n, estimate, low, high,
    p_value, p_holm (over the models of a kind and method), needed. What leaves fewer than four
    independent points has no row.
    """
    rows = []
    for model, clusters in points.groupby("model", sort=False):
        kinds = {"pooled": (clusters, None)}
        if clusters["shift"].nunique() > 1:
            span = clusters.groupby("shift")[by].transform(np.ptp)
            varied = clusters[span > 1e-9]
            kinds["within shifts"] = (varied, varied["shift"])
        for kind, (part, within) in kinds.items():
            if not _can_correlate(part, by, within):
                continue
            for method in ("Pearson", "Spearman"):
                row = {"model": model, "indicator": by, "kind": kind, "method": method}
                row["n"] = len(part)
                test = correlation_test(part[by], part["delta"], method, within)
                rows.append(row | test)
    table = pd.DataFrame(rows, columns=LINK)
    families = table.groupby(["kind", "method"])
    return table.assign(p_holm=families["p_value"].transform(holm))


def _can_correlate(points: pd.DataFrame, by: str, within: pd.Series | None) -> bool:
    """Return whether four independent points are there, and both sides vary."""
    n_independent = len(points)
    if within is not None:
        n_independent -= within.nunique() - 1
    if n_independent < 4:
        return False
    both_sides = points[[by, "delta"]].to_numpy()
    spans = np.ptp(both_sides, axis=0)
    return bool(spans.all())


def z_scores(values: pd.Series, by: list[pd.Series]) -> np.ndarray:
    """Return values minus their group's mean, in units of its standard deviation.

    0 where a group has one value only.
    """
    groups = values.groupby(by)
    deviations = values - groups.transform("mean")
    spread = groups.transform("std", ddof=0)
    return np.nan_to_num(ratio(deviations, spread))


def _word_counts(
    queries: Sequence[str], train: Sequence[str]
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Return word counts float64[n_queries, v] and [n_train, v] over one vocabulary."""
    from sklearn.feature_extraction.text import CountVectorizer

    wordless = [row for row, text in enumerate(queries) if not text.split()]
    if wordless:
        raise InputError(
            f"queries: {len(wordless)} without words (rows {offenders(wordless)}); drop them"
        )
    counter = CountVectorizer(analyzer=lambda text: _words([text]), dtype=np.float64)
    counts = counter.fit_transform([*queries, *train])
    counts = sparse.csr_array(counts)
    n_queries = len(queries)
    return counts[:n_queries], counts[n_queries:]
