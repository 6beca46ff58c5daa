"""Overlap of test queries with training: shared relevant passages (Zhan Table 3), entities and
intents (Tables 1, 2).

Table 3's caption says "share at least one relevant result". The released script keeps a query only
if it shares more than one, over the whole training set. So `min_shared` 2 is what was published
(11, 26, 34 of 43 and 17, 25, 41 of 54 queries at relevance >= 3, 2, 1), and 1 what was defined.
Taught in notebooks/01_overlap_annotation_analysis.
"""

from collections.abc import Sequence

import pandas as pd

from interextra.store.errors import InputError, offenders

LABELS = {  # from the most to the least overlap
    "entity": ("full", "partial", "zero"),  # Table 1
    "intent": ("duplicate", "similar", "dissimilar"),  # Table 2
}


def label_overlap(
    test_qrels: pd.DataFrame, train_qrels: pd.DataFrame, thresholds: Sequence[int] = (1, 2, 3)
) -> pd.DataFrame:
    """Share of test queries whose relevant passages are also labelled relevant in training.

    test_qrels : query_id, doc_id, relevance; a judged query without a relevant passage counts, too.
    train_qrels : query_id, doc_id; where it has a column relevance, rows with relevance >= 1 are
    relevant.

    Returns relevance_threshold (from which a passage of the test query is relevant), min_shared (1
    or 2 distinct shared passages, over all training queries, from which it overlaps), n_queries,
    n_overlapping, percent, low, high (Wilson).

    >>> test = pd.DataFrame({"query_id": ["t", "t", "u"], "doc_id": ["a", "b", "c"], "relevance": [3, 1, 2]})
    >>> train = pd.DataFrame({"query_id": ["q", "r"], "doc_id": ["a", "b"]})
    >>> label_overlap(test, train, thresholds=[1, 3])["n_overlapping"].tolist()
    [1, 1, 1, 0]
    """
    from statsmodels.stats.proportion import proportion_confint

    counts = shared_passages(test_qrels, train_qrels, thresholds)
    rows = [
        (level, least, len(counts), (counts[level] >= least).sum())
        for level in counts
        for least in (1, 2)
    ]
    frame = pd.DataFrame(
        rows, columns=["relevance_threshold", "min_shared", "n_queries", "n_overlapping"]
    )
    low, high = proportion_confint(frame["n_overlapping"], frame["n_queries"], method="wilson")
    return frame.assign(
        percent=100 * frame["n_overlapping"] / frame["n_queries"], low=100 * low, high=100 * high
    )


def shared_passages(
    test_qrels: pd.DataFrame, train_qrels: pd.DataFrame, thresholds: Sequence[int]
) -> pd.DataFrame:
    """How many distinct relevant passages of each test query are relevant in training, query_id ×
    threshold.

    InputError: a test query is among the training qrels, too.
    """
    test_ids = pd.Index(test_qrels["query_id"]).unique()
    # the large side is probed with the small one: the other way round hashes every training query
    if len(both := train_qrels.loc[train_qrels["query_id"].isin(test_ids), "query_id"].unique()):
        raise InputError(
            f"{len(both)} test queries are also in the training qrels ({offenders(both)}): take them out"
        )
    relevant = (
        train_qrels[train_qrels["relevance"] >= 1] if "relevance" in train_qrels else train_qrels
    )
    known = relevant.loc[relevant["doc_id"].isin(test_qrels["doc_id"]), "doc_id"].unique()
    shared = test_qrels[test_qrels["doc_id"].isin(known)]
    levels = {
        level: shared[shared["relevance"] >= level].groupby("query_id")["doc_id"]
        for level in thresholds
    }
    counts = {level: passages.nunique() for level, passages in levels.items()}
    return pd.DataFrame(counts, test_ids).fillna(0).astype(int)


def overlap_table(labels: Sequence[str] | pd.Series, order: Sequence[str]) -> pd.DataFrame:
    """Tables 1 and 2 from one label a test query: DataFrame[label, n, percent] in `order`, zeros
    included.

    >>> overlap_table(["full", "zero", "full", "full"], LABELS["entity"])["percent"].tolist()
    [75.0, 0.0, 25.0]
    """
    if not len(labels) or not set(labels) <= set(order):
        unknown = offenders(set(labels) - set(order))
        raise InputError(
            f"overlap_table: {len(labels)} labels, unknown {unknown}; use {', '.join(order)}"
        )
    n = pd.Series(labels, dtype=object).value_counts().reindex(list(order), fill_value=0)
    return pd.DataFrame(
        {"label": list(order), "n": n.to_numpy(), "percent": (100 * n / len(labels)).to_numpy()}
    )
