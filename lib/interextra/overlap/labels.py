"""Overlap of test queries with training: shared relevant passages, entities and intents.

Zhan et al., CIKM 2022, Tables 1 to 3. Table 3's caption says "share at least one relevant result".
The released script keeps a query only if it shares more than one, over the whole training set. So
`min_shared` 2 is what was published (11, 26, 34 of 43 and 17, 25, 41 of 54 queries at relevance >=
3, 2, 1), and 1 what was defined. Taught in notebooks/01_overlap_annotation_analysis.
"""

from collections.abc import Sequence

import pandas as pd

from interextra.stats.tests import wilson
from interextra.store.errors import InputError, offenders

LABELS = {  # from the most to the least overlap
    "entity": ("full", "partial", "zero"),  # Table 1
    "intent": ("duplicate", "similar", "dissimilar"),  # Table 2
}


def label_overlap(
    test_qrels: pd.DataFrame, train_qrels: pd.DataFrame, thresholds: Sequence[int] = (1, 2, 3)
) -> pd.DataFrame:
    """Count the test queries whose relevant passages are also labelled relevant in training.

    Parameters
    ----------
    test_qrels : pandas.DataFrame
        query_id, doc_id, relevance; a judged query without a relevant passage counts, too.
    train_qrels : pandas.DataFrame
        query_id, doc_id; where it has a column relevance, rows with relevance >= 1 are relevant.
    thresholds : sequence of int
        Relevance from which a passage of the test query is relevant.

    Returns
    -------
    pandas.DataFrame
        relevance_threshold, min_shared (1 or 2 distinct shared passages, over all training queries,
        from which a test query overlaps), n_queries, n_overlapping, percent, low, high (Wilson).

    Raises
    ------
    InputError
        A test query is among the training qrels, too.

    Examples
    --------
    >>> columns = ["query_id", "doc_id", "relevance"]
    >>> test = pd.DataFrame([("t", "a", 3), ("t", "b", 1), ("u", "c", 2)], columns=columns)
    >>> train = pd.DataFrame({"query_id": ["q", "r"], "doc_id": ["a", "b"]})
    >>> label_overlap(test, train, thresholds=[1, 3])["n_overlapping"].tolist()
    [1, 1, 1, 0]
    """
    n_shared = shared_passages(test_qrels, train_qrels, thresholds)
    rows = []
    for threshold in n_shared:
        for min_shared in (1, 2):
            is_overlapping = n_shared[threshold] >= min_shared
            n = is_overlapping.sum()
            rows.append((threshold, min_shared, len(n_shared), n))
    columns = ["relevance_threshold", "min_shared", "n_queries", "n_overlapping"]
    table = pd.DataFrame(rows, columns=columns)
    n_overlapping = table["n_overlapping"]
    n_queries = table["n_queries"]
    low, high = wilson(n_overlapping, n_queries)
    table["percent"] = 100 * n_overlapping / n_queries
    table["low"] = 100 * low
    table["high"] = 100 * high
    return table


def shared_passages(
    test_qrels: pd.DataFrame, train_qrels: pd.DataFrame, thresholds: Sequence[int]
) -> pd.DataFrame:
    """Count the distinct relevant passages of each test query that are relevant in training.

    Parameters and errors are those of `label_overlap`.

    Returns
    -------
    pandas.DataFrame
        int64, query_id × threshold.
    """
    test_ids = pd.Index(test_qrels["query_id"]).unique()
    # the large side is probed with the small one: the other way round hashes every training query
    is_tested = train_qrels["query_id"].isin(test_ids)
    both = train_qrels.loc[is_tested, "query_id"].unique()
    if len(both):
        raise InputError(
            f"{len(both)} test queries are also in the training qrels ({offenders(both)}): "
            "take them out"
        )
    trained = train_qrels
    if "relevance" in train_qrels:
        trained = train_qrels[train_qrels["relevance"] >= 1]
    is_judged = trained["doc_id"].isin(test_qrels["doc_id"])
    trained_passages = trained.loc[is_judged, "doc_id"].unique()
    shared = test_qrels[test_qrels["doc_id"].isin(trained_passages)]
    counts = {}
    for threshold in thresholds:
        relevant = shared[shared["relevance"] >= threshold]
        passages = relevant.groupby("query_id")["doc_id"]
        counts[threshold] = passages.nunique()
    table = pd.DataFrame(counts, test_ids)
    return table.fillna(0).astype(int)


def overlap_table(labels: Sequence[str] | pd.Series, order: Sequence[str]) -> pd.DataFrame:
    """Return Table 1 or 2 from one label a test query.

    Returns
    -------
    pandas.DataFrame
        label, n, percent; in `order`, zeros included.

    Raises
    ------
    InputError
        No label, or one that `order` lacks.

    Examples
    --------
    >>> overlap_table(["full", "zero", "full", "full"], LABELS["entity"])["percent"].tolist()
    [75.0, 0.0, 25.0]
    """
    unknown = [label for label in dict.fromkeys(labels) if label not in order]
    if not len(labels) or unknown:
        raise InputError(
            f"overlap_table: {len(labels)} labels, unknown {offenders(unknown)}; "
            f"use {', '.join(order)}"
        )
    counts = pd.Series(labels, dtype=object).value_counts()
    counts = counts.reindex(list(order), fill_value=0)
    n = counts.to_numpy()
    percent = 100 * n / len(labels)
    return pd.DataFrame({"label": list(order), "n": n, "percent": percent})
