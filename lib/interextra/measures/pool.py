"""Rankings with unjudged passages: measures without them, their range, and smaller pools.

A passage is judged if the qrels have it for this query, whatever its relevance; BEIR's hole@k takes
one that is judged for any query. Taught in notebooks/11_pool_bias.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from interextra.data.runs import RunFile
from interextra.measures.evaluate import per_query
from interextra.stats.bootstrap import ratio
from interextra.store import InputError, Store

PAIR = ["query_id", "doc_id"]
PERSISTENCE = 0.8  # p of RBP
LOW = 0.5  # Judged@k below which more of the first k is assumed than judged


def first(run: RunFile, qrels: pd.DataFrame, k: int) -> pd.DataFrame:
    """Return the first k passages of each query of the qrels, with their relevance.

    Columns query_id, doc_id, rank, relevance (NaN where unjudged).
    """
    ranking = _head(run, k)
    ranking = ranking[ranking["query_id"].isin(qrels["query_id"])]
    judged = qrels[[*PAIR, "relevance"]]
    return ranking.merge(judged, how="left", on=PAIR)


def _head(run: RunFile, k: int) -> pd.DataFrame:
    """Return query_id, doc_id and rank of the first k passages of each query."""
    table = run.frame().drop(columns="score")
    return table[table["rank"] <= k]


def holes(run: RunFile, qrels: pd.DataFrame, k: int) -> pd.Series:
    """Return hole@k of each query of the qrels as BEIR counts it, indexed by query_id.

    It is the share of k passages that no query has a judgement of; 1 - Judged@k counts those that
    this query has none of. A query without a ranking has no hole.

    Examples
    --------
    >>> qrels = pd.DataFrame({"query_id": ["q", "r"], "doc_id": ["a", "b"], "relevance": [1, 0]})
    >>> scores = np.array([[3.0, 2.0, 1.0]])
    >>> run = RunFile.from_arrays(["q"], ["a", "b", "c"], np.array([[0, 1, 2]]), scores)
    >>> holes(run, qrels, k=2).tolist(), holes(run, qrels, k=4).tolist()
    ([0.0, 0.0], [0.25, 0.0])
    >>> (1 - per_query(run, qrels, ["Judged@2"])["Judged@2"]).tolist()
    [0.5, 1.0]
    """
    ranking = first(run, qrels, k)
    is_hole = ~ranking["doc_id"].isin(qrels["doc_id"])
    n_holes = is_hole.groupby(ranking["query_id"]).sum()
    query_ids = pd.Index(qrels["query_id"].unique(), name="query_id")
    return n_holes.reindex(query_ids, fill_value=0) / k


def condensed(run: RunFile, qrels: pd.DataFrame) -> RunFile:
    """Return the run without its unjudged passages (Sakai, SIGIR 2007).

    trec_eval's option -J leaves them out, too.
    """
    judged = run.frame().merge(qrels[PAIR], on=PAIR)
    return RunFile.from_frame(judged)


def pool_range(
    run: RunFile,
    qrels: pd.DataFrame,
    k: int = 10,
    prior: str = "topic",
    n_draws: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return nDCG@k of each query by what is assumed of its unjudged passages.

    Grades that are assumed count in the ideal ranking, too.

    Parameters
    ----------
    run, qrels
        The ranking and the judgements.
    k
        The cutoff.
    prior
        Whence grades are drawn, after Fröbe et al. (ECIR 2023), who use both: those of all judged
        passages of the "topic", or of those among the first k of the "run" (of the topic where it
        has none there).
    n_draws, seed
        How often grades are drawn, and the seed of the draws.

    Returns
    -------
    DataFrame[least, condensed, bootstrapped, most], indexed by query_id. least: unjudged passages
    are irrelevant, as usual; condensed: they are left out; bootstrapped: mean over the draws of
    their grades; most: all have the highest grade of the qrels.

    Raises
    ------
    InputError
        An unknown prior.
    """
    if prior not in ("topic", "run"):
        raise InputError(f"pool_range: no prior {prior!r}; there are topic, run")
    measure = f"nDCG@{k}"
    seen = first(run, qrels, k)
    unjudged = seen.loc[seen["relevance"].isna(), PAIR]
    highest = unjudged.assign(relevance=qrels["relevance"].max())
    with_highest = pd.concat([qrels, highest], ignore_index=True)
    least = per_query(run, qrels, [measure])[measure]
    bootstrapped = least.copy()
    is_incomplete = seen["query_id"].isin(unjudged["query_id"])
    incomplete = seen[is_incomplete]
    bootstrapped.update(_bootstrapped(incomplete, qrels, k, prior, n_draws, seed))
    return pd.DataFrame(
        {
            "least": least,
            "condensed": per_query(condensed(run, qrels), qrels, [measure])[measure],
            "bootstrapped": bootstrapped,
            "most": per_query(run, with_highest, [measure])[measure],
        }
    )


def with_pool_range(
    table: pd.DataFrame, run: RunFile, qrels: pd.DataFrame, k: int = 10
) -> tuple[pd.DataFrame, list[str]]:
    """Return values per query with their `pool_range`, and what warns of reading it.

    Parameters
    ----------
    table
        Of `per_query`; Judged@k, the range of nDCG@k and RBP with its residual are added.
    """
    judged = f"Judged@{k}"
    table = table.drop(columns=judged, errors="ignore")
    gain_range = pool_range(run, qrels, k).add_prefix(f"nDCG@{k} ")
    precision = rank_biased_precision(run, qrels)
    rbp = f"RBP(p={PERSISTENCE:g})"
    precision = precision.set_axis([rbp, f"{rbp} residual"], axis="columns")
    table = table.join([per_query(run, qrels, [judged]), gain_range, precision])
    return table, _range_warnings(qrels, table[judged].mean(), k)


def _range_warnings(qrels: pd.DataFrame, share_judged: float, k: int) -> list[str]:
    """Return what warns that a range is one of assumptions, not of judgements."""
    warnings = []
    if share_judged < LOW:
        warnings.append(
            f"Judged@{k} is {share_judged:.2f}: {100 * (1 - share_judged):.0f} % of the first {k} "
            "passages are unjudged, so that all but least is mostly assumed. Compare no systems "
            "by it that lie within least and most."
        )
    lowest = qrels.groupby("query_id")["relevance"].min()
    n_without = (lowest > 0).sum()
    if 2 * n_without > len(lowest):
        warnings.append(
            f"{n_without:,} of {len(lowest):,} queries have no passage that is judged irrelevant: "
            "condensed and bootstrapped take unjudged passages for relevant there, and are no "
            "estimates. What remains is least, a lower bound, and most, an upper bound."
        )
    return warnings


def _bootstrapped(
    incomplete: pd.DataFrame, qrels: pd.DataFrame, k: int, prior: str, n_draws: int, seed: int
) -> pd.Series:
    """Return the mean nDCG@k over draws, by query_id, of the rankings with unjudged passages."""
    random = np.random.default_rng(seed)
    judged_gains = qrels.assign(relevance=qrels["relevance"].clip(lower=0))
    judged_gains = judged_gains.groupby("query_id")["relevance"]
    means = {}
    for query_id, ranking in incomplete.groupby("query_id"):
        gains = ranking["relevance"].to_numpy(float).clip(min=0)
        topic_gains = judged_gains.get_group(query_id).to_numpy(float)
        run_gains = gains[~np.isnan(gains)]
        known_gains = topic_gains
        if prior == "run" and len(run_gains):
            known_gains = run_gains
        n_unjudged = np.isnan(gains).sum()
        drawn = random.choice(known_gains, (n_draws, n_unjudged))
        ndcg = _drawn_ndcg(gains, drawn, topic_gains, k)
        means[query_id] = ndcg.mean()
    return pd.Series(means, dtype=float)


def _drawn_ndcg(
    gains: np.ndarray, drawn: np.ndarray, topic_gains: np.ndarray, k: int
) -> np.ndarray:
    """Return nDCG@k with each draw of the gains that a ranking lacks, float[n_draws].

    `gains`: of its first k passages, NaN where unjudged; `drawn`: float[n_draws, n_unjudged];
    `topic_gains`: of all judged passages.
    """
    n_draws = len(drawn)
    completed = np.tile(gains, (n_draws, 1))
    completed[:, np.isnan(gains)] = drawn
    best_judged = np.sort(topic_gains)[::-1]
    judged = np.tile(best_judged[:k], (n_draws, 1))
    known_and_drawn = np.hstack([judged, drawn])
    best_last = np.sort(known_and_drawn, axis=1)
    best_first = best_last[:, ::-1]
    ideal_dcg = _dcg(best_first[:, :k])
    return np.nan_to_num(ratio(_dcg(completed), ideal_dcg))


def _dcg(gains: np.ndarray) -> np.ndarray:
    """Return the discounted cumulative gain of rankings float[n_draws, n_passages]."""
    ranks = np.arange(1, gains.shape[1] + 1)
    return gains @ (1 / np.log2(ranks + 1))


def ranges(design: pd.DataFrame, store: Store, labels: Sequence[str], seed: int) -> pd.DataFrame:
    """Return the means of `pool_range` over queries, and over runs that share the labels.

    Each run of the design has one set of queries.
    """
    rows = []
    for row in design.to_dict("records"):
        run = row["run"]
        [queries] = run.queries
        ranking = run.read(store, queries)
        table = pool_range(ranking, queries.qrels(store), seed=seed)
        row_labels = {name: row[name] for name in labels}
        rows.append(row_labels | table.mean().to_dict())
    runs = pd.DataFrame(rows)
    runs_of_labels = runs.groupby(list(labels), sort=False)
    return runs_of_labels.mean().reset_index()


def rank_biased_precision(
    run: RunFile, qrels: pd.DataFrame, p: float = PERSISTENCE
) -> pd.DataFrame:
    """Return RBP of each query and its residual (Moffat and Zobel, TOIS 2008).

    RBP = (1 - p) Σ p^(rank - 1) gain, where gain is a passage's relevance over the highest of the
    qrels, as on the leaderboards of TREC-COVID. The residual is what unjudged and unseen passages
    could add.

    Returns
    -------
    DataFrame[rbp, residual], indexed by query_id.

    Examples
    --------
    >>> qrels = pd.DataFrame({"query_id": "q", "doc_id": ["a", "b"], "relevance": [1, 0]})
    >>> found = pd.DataFrame({"query_id": "q", "doc_id": ["a", "x", "b"], "score": [3.0, 2.0, 1.0]})
    >>> rank_biased_precision(RunFile.from_frame(found), qrels, p=0.5).loc["q"].tolist()
    [0.5, 0.375]
    """
    seen = first(run, qrels, len(run))
    highest = max(qrels["relevance"].max(), 1)
    gain = seen["relevance"].clip(lower=0).fillna(0.0)
    weight = (1 - p) * p ** (seen["rank"] - 1.0)
    seen["rbp"] = weight * (gain / highest)
    is_judged = seen["relevance"].notna()
    seen["judged"] = weight.where(is_judged, 0.0)
    sums = seen.groupby("query_id")[["rbp", "judged"]].sum()
    sums = sums.reindex(qrels["query_id"].unique(), fill_value=0.0)
    sums["residual"] = 1 - sums["judged"]
    return sums[["rbp", "residual"]].rename_axis("query_id")


def judgement_pool(runs: Iterable[RunFile], depth: int) -> pd.MultiIndex:
    """Return the pairs (query_id, doc_id) among the first `depth` of any run."""
    heads = [_head(run, depth)[PAIR] for run in runs]
    no_pairs = pd.DataFrame(columns=PAIR)
    pairs = pd.concat(heads or [no_pairs])
    return pd.MultiIndex.from_frame(pairs).unique()


def left_out(
    qrels: pd.DataFrame, own: Iterable[RunFile], others: Iterable[RunFile], depth: int
) -> pd.DataFrame:
    """Return the qrels without what only `own` runs contribute.

    These are judged pairs among their first `depth` and of no other run's.
    """
    other_pairs = judgement_pool(others, depth)
    own_pairs = judgement_pool(own, depth).difference(other_pairs)
    judged_pairs = pd.MultiIndex.from_frame(qrels[PAIR])
    return qrels[~judged_pairs.isin(own_pairs)]
