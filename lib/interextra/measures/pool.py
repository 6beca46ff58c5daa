"""Rankings with unjudged passages: measures without them, the range that they leave open, and
smaller pools.

A passage is judged if the qrels have it for this query, whatever its relevance; BEIR's hole@k takes
one that is judged for any query. Taught in notebooks/11_pool_bias.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from interextra.data.runs import RunFile
from interextra.measures.evaluate import per_query
from interextra.store import InputError, Store

PAIR = ["query_id", "doc_id"]


def first(run: RunFile, qrels: pd.DataFrame, k: int) -> pd.DataFrame:
    """The first k passages of each query of the qrels: query_id, doc_id, rank, relevance (NaN where
    unjudged).
    """
    found = run.frame().drop(columns="score").query("rank <= @k")
    return found[found["query_id"].isin(qrels["query_id"])].merge(
        qrels[[*PAIR, "relevance"]], how="left", on=PAIR
    )


def condensed(run: RunFile, qrels: pd.DataFrame) -> RunFile:
    """The run without its unjudged passages, which trec_eval's option -J leaves out, too (Sakai,
    SIGIR 2007).
    """
    return RunFile.from_frame(run.frame().merge(qrels[PAIR], on=PAIR))


def pool_range(
    run: RunFile,
    qrels: pd.DataFrame,
    k: int = 10,
    prior: str = "topic",
    n_draws: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """nDCG@k of each query by what is taken of its unjudged passages: least, condensed,
    bootstrapped, most.

    least: they are irrelevant, as usual; most: all have the highest grade of the qrels;
    bootstrapped: the mean over draws of their grades from those of the judged passages, of the
    `topic` or among the first k of the `run` (of the topic where it has none there), after Fröbe et
    al. (ECIR 2023), who use both priors. Grades that are taken count in the ideal ranking, too.
    Returns DataFrame[least, condensed, bootstrapped, most], indexed by query_id.
    """
    if prior not in ("topic", "run"):
        raise InputError(f"pool_range: no prior {prior!r}; there are topic, run")
    name, draw, seen = f"nDCG@{k}", np.random.default_rng(seed), first(run, qrels, k)
    open_ones = seen[seen["relevance"].isna()]
    best = pd.concat(
        [qrels, open_ones[PAIR].assign(relevance=qrels["relevance"].max())], ignore_index=True
    )
    found = {
        "least": (run, qrels),
        "condensed": (condensed(run, qrels), qrels),
        "most": (run, best),
    }
    table = pd.DataFrame({what: per_query(*given, [name])[name] for what, given in found.items()})
    table.insert(2, "bootstrapped", table["least"])
    discounts, judged = 1 / np.log2(np.arange(2, k + 2)), qrels["relevance"].clip(lower=0)
    grades = {
        query_id: part.to_numpy(float) for query_id, part in judged.groupby(qrels["query_id"])
    }
    for query_id, part in seen[seen["query_id"].isin(open_ones["query_id"])].groupby("query_id"):
        gain = part["relevance"].to_numpy(float).clip(min=0)
        known, is_open = gain[~np.isnan(gain)], np.isnan(gain)
        drawn = draw.choice(
            known if prior == "run" and len(known) else grades[query_id], (n_draws, is_open.sum())
        )
        gains = np.tile(gain, (n_draws, 1))
        gains[:, is_open] = drawn
        dcg = gains @ discounts[part["rank"].to_numpy() - 1]
        judged = np.tile(np.sort(grades[query_id])[::-1][:k], (n_draws, 1))
        ideal = np.sort(np.hstack([judged, drawn]), axis=1)[:, ::-1][:, :k]
        ideal = ideal @ discounts[: ideal.shape[1]]
        table.loc[query_id, "bootstrapped"] = np.divide(
            dcg, ideal, out=np.zeros(n_draws), where=ideal > 0
        ).mean()
    return table


def ranges(design: pd.DataFrame, store: Store, labels: Sequence[str], seed: int) -> pd.DataFrame:
    """Means of `pool_range` over the queries of a design's runs, one set each, and over runs that
    share the labels.
    """
    rows = []
    for row in design.to_dict("records"):
        [queries] = row["run"].queries
        found = pool_range(row["run"].read(store, queries), queries.qrels(store), seed=seed)
        rows.append({name: row[name] for name in labels} | found.mean().to_dict())
    return pd.DataFrame(rows).groupby(list(labels), sort=False).mean().reset_index()


def rank_biased_precision(run: RunFile, qrels: pd.DataFrame, p: float = 0.8) -> pd.DataFrame:
    """RBP of each query and its residual, what unjudged and unseen passages could add (Moffat and
    Zobel, TOIS 2008).

    RBP = (1 - p) Σ p^(rank - 1) gain, where gain is a passage's relevance over the highest of the
    qrels, as on the leaderboards of TREC-COVID. Returns DataFrame[rbp, residual], indexed by
    query_id.

    >>> qrels = pd.DataFrame({"query_id": "q", "doc_id": ["a", "b"], "relevance": [1, 0]})
    >>> found = pd.DataFrame({"query_id": "q", "doc_id": ["a", "x", "b"], "score": [3.0, 2.0, 1.0]})
    >>> rank_biased_precision(RunFile.from_frame(found), qrels, p=0.5).loc["q"].tolist()
    [0.5, 0.375]
    """
    seen = first(run, qrels, len(run))
    weight = (1 - p) * p ** (seen["rank"] - 1.0)
    gain = seen["relevance"].clip(lower=0).fillna(0.0) / max(qrels["relevance"].max(), 1)
    parts = pd.DataFrame(
        {"rbp": weight * gain, "judged": weight.where(seen["relevance"].notna(), 0.0)}
    )
    table = (
        parts.groupby(seen["query_id"]).sum().reindex(qrels["query_id"].unique(), fill_value=0.0)
    )
    return pd.DataFrame({"rbp": table["rbp"], "residual": 1 - table["judged"]}).rename_axis(
        "query_id"
    )


def pooled(runs: Iterable[RunFile], depth: int) -> pd.MultiIndex:
    """The pairs (query_id, doc_id) among the first `depth` of any run."""
    frames = [frame.loc[frame["rank"] <= depth, PAIR] for frame in (run.frame() for run in runs)]
    every = pd.concat(frames or [pd.DataFrame(columns=PAIR)])
    return pd.MultiIndex.from_frame(every).unique()


def left_out(
    qrels: pd.DataFrame, own: Iterable[RunFile], others: Iterable[RunFile], depth: int
) -> pd.DataFrame:
    """Qrels without what only `own` runs contribute: judged pairs among their first `depth` and of
    no other run's.
    """
    alone = pooled(own, depth).difference(pooled(others, depth))
    return qrels[~pd.MultiIndex.from_frame(qrels[PAIR]).isin(alone)]
