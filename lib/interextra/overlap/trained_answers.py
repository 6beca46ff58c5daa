"""Test queries by the training sets in which a relevant passage of theirs is a positive.

A loss in extrapolation can be that of passages which one training set alone trains on, whatever the
distance of the queries. So the test queries are told apart by their passages. Described in
notebooks/02_restrain and 03_resttest; the papers do not ask it.
"""

from collections.abc import Iterable, Mapping

import pandas as pd

from interextra.data.collection import Collection
from interextra.data.queries import TRAINED
from interextra.splits.split import REGIMES
from interextra.stats.formatting import with_interval

GROUP = "answer_trained_in"  # column with one of these groups:
IN_INTERPOLATION = "interpolation alone"
IN_EXTRAPOLATION = "extrapolation alone"
IN_BOTH = "both"
IN_NEITHER = "neither"
# those of IN_NEITHER that are as near to their training queries as most of IN_INTERPOLATION
AS_NEAR = "neither, as near"


def relevant(data: Collection, splits: Iterable[str]) -> pd.DataFrame:
    """Return the judgements of some splits by which passages are positives.

    Returns
    -------
    pandas.DataFrame
        query_id, doc_id, relevance (TRAINED or more).
    """
    qrels = pd.concat([data.qrels(split) for split in splits], ignore_index=True)
    return qrels[qrels["relevance"] >= TRAINED]


def has_positive(
    tested: pd.DataFrame, trained: pd.DataFrame, training_queries: Iterable[str]
) -> pd.Series:
    """Return which test queries have a relevant passage that is a positive of training queries.

    Parameters
    ----------
    tested, trained
        Of `relevant`: of the test queries, and of all training queries.
    training_queries
        The ids of those that are trained on.

    Returns
    -------
    pandas.Series
        bool; index query_id, the test queries with a relevant passage.

    Examples
    --------
    >>> tested = pd.DataFrame({"query_id": ["s", "t"], "doc_id": ["d1", "d2"]})
    >>> trained = pd.DataFrame({"query_id": ["a", "b"], "doc_id": ["d1", "d2"]})
    >>> has_positive(tested, trained, ["a"]).to_dict()
    {'s': True, 't': False}
    """
    of_set = trained[trained["query_id"].isin(list(training_queries))]
    is_positive = tested["doc_id"].isin(of_set["doc_id"])
    return is_positive.groupby(tested["query_id"]).any()


def by_trained_answers(
    has_positive_in: Mapping[str, pd.Series], similarity: pd.Series | None = None
) -> pd.DataFrame:
    """Return in which training sets a relevant passage of each test query is a positive.

    Parameters
    ----------
    has_positive_in
        Regime → `has_positive` with its training set.
    similarity
        Of the test queries to their nearest training query in interpolation, by query_id; tells
        AS_NEAR apart: those of IN_NEITHER that are at least as similar as three quarters of
        IN_INTERPOLATION. None: without this group.

    Returns
    -------
    pandas.DataFrame
        query_id, answer_trained_in: a row for each group of a test query; those of AS_NEAR are in
        IN_NEITHER, too.
    """
    interpolation, extrapolation = (has_positive_in[regime] for regime in REGIMES)
    groups = pd.Series(IN_NEITHER, interpolation.index)
    groups[interpolation] = IN_INTERPOLATION
    groups[extrapolation] = IN_EXTRAPOLATION
    groups[interpolation & extrapolation] = IN_BOTH
    parts = [groups]
    if similarity is not None:
        of_query = similarity.reindex(groups.index)
        least = of_query[groups == IN_INTERPOLATION].quantile(0.25)
        as_near = groups[(groups == IN_NEITHER) & (of_query >= least)].index
        parts.append(pd.Series(AS_NEAR, as_near))
    table = pd.concat(parts).rename_axis("query_id").rename(GROUP)
    return table.reset_index()


def sentence(losses: pd.DataFrame, measure: str, model: str) -> str:
    """Return the loss of a system by where the answers of the test queries were trained on.

    Parameters
    ----------
    losses
        Effects by answer_trained_in, model and measure, with n_queries.
    measure, model
        The ones to name.
    """
    is_named = (losses["measure"] == measure) & (losses["model"] == model)
    named = with_interval(losses[is_named]).set_index(GROUP)
    texts = []
    for group in (IN_INTERPOLATION, IN_BOTH, IN_NEITHER, AS_NEAR):
        if group in named.index:
            row = named.loc[group]
            texts.append(f"{group} {row['delta']} ({row['n_queries']:,} queries)")
    return (
        f"Δ {measure} of {model} by the sets in which a relevant passage of the test query is a "
        f"positive of another query: {'; '.join(texts)} (individual intervals)."
    )
