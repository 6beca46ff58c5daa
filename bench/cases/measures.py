"""nDCG@10, RR@10 and R@100 of rankings of 1,000 passages.

Ours starts from a run, the others from nested dicts; the making of either is not counted, except
that ours is also timed from a file.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from interextra.data.runs import RunFile
from interextra.measures.evaluate import per_query

from .form import SEED, Case, Peer, Sizes, equal_within

MEASURES = ["nDCG@10", "RR@10", "R@100"]
DEPTH = 1000
N_PASSAGES = 1_000_000
RANX = 20  # times as long as ours

Nested = dict[str, dict[str, float]]  # query_id → doc_id → relevance or score
Means = list[float]  # of MEASURES


class Search(NamedTuple):
    """What a search returns, and judgements: `rows`, int32[n, DEPTH], are numbers of `doc_ids`."""

    query_ids: list[str]
    doc_ids: list[str]
    rows: np.ndarray
    scores: np.ndarray
    qrels: pd.DataFrame

    def run(self) -> RunFile:
        """Return it as a run."""
        return RunFile.from_arrays(self.query_ids, pa.array(self.doc_ids), self.rows, self.scores)

    def nested(self) -> Nested:
        """Return it as nested dicts."""
        run = {}
        rankings = zip(self.query_ids, self.rows.tolist(), self.scores.tolist(), strict=True)
        for query_id, rows, scores in rankings:
            doc_ids = [self.doc_ids[row] for row in rows]
            run[query_id] = dict(zip(doc_ids, scores, strict=True))
        return run

    def nested_qrels(self) -> Nested:
        """Return the judgements as nested dicts."""
        pairs = zip(self.qrels["query_id"], self.qrels["doc_id"], strict=True)
        return {query_id: {doc_id: 1} for query_id, doc_id in pairs}


def made_up(n_queries: int) -> Search:
    """Return random rankings without ties.

    One passage is relevant to each query, somewhere in the first 200 or missing.
    """
    rng = np.random.default_rng(SEED)
    query_ids = [str(1_000_000 + number) for number in range(n_queries)]
    doc_ids = [str(number) for number in range(N_PASSAGES)]
    start = rng.integers(N_PASSAGES, size=(n_queries, 1))
    in_order = np.tile(np.arange(DEPTH), (n_queries, 1))
    orders = rng.permuted(in_order, axis=1)
    rows = (start + 7919 * orders) % N_PASSAGES
    gaps = rng.uniform(0.01, 0.09, rows.shape)
    scores = (100 - np.cumsum(gaps, axis=1)).astype(np.float32)
    place = rng.integers(250, size=n_queries)
    missing = (rows[:, 0] + 1) % N_PASSAGES
    at_place = rows[np.arange(n_queries), place]
    relevant = np.where(place < 200, at_place, missing)
    judged = [doc_ids[row] for row in relevant]
    qrels = pd.DataFrame({"query_id": query_ids, "doc_id": judged, "relevance": 1})
    return Search(query_ids, doc_ids, rows.astype(np.int32), scores, qrels)


def ours(n: int, folder: Path) -> Callable[[], Means]:
    """Measure a run that is held."""
    search = made_up(n)
    run = search.run()
    return lambda: per_query(run, search.qrels, MEASURES).mean().tolist()


def from_parquet(n: int, folder: Path) -> Callable[[], Means]:
    """Read a run from a file, and measure it."""
    search = made_up(n)
    file = folder / "run.parquet"
    search.run().write_parquet(file)
    return lambda: per_query(RunFile.read(file), search.qrels, MEASURES).mean().tolist()


def with_ranx(n: int, folder: Path) -> Callable[[], Means]:
    """Measure by ranx, which compiles at the first call."""
    import ranx

    search = made_up(n)
    qrels = search.nested_qrels()
    run = search.nested()
    names = ["ndcg@10", "mrr@10", "recall@100"]

    def work() -> Means:
        """Return the means."""
        values = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), names)
        return [float(values[name]) for name in names]

    return work


def with_pytrec_eval(n: int, folder: Path) -> Callable[[], Means]:
    """Measure by pytrec_eval; its recip_rank has no cutoff: a second pass over the first ten."""
    import pytrec_eval

    search = made_up(n)
    qrels = search.nested_qrels()
    run = search.nested()

    def work() -> Means:
        """Return the means."""
        top = {}
        for query_id, scores in run.items():
            ranking = sorted(scores.items(), key=lambda item: -item[1])
            top[query_id] = dict(ranking[:10])
        full = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut_10", "recall_100"}).evaluate(run)
        first = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate(top)
        parts = [(full, "ndcg_cut_10"), (first, "recip_rank"), (full, "recall_100")]
        return [mean_of(result, name) for result, name in parts]

    return work


def mean_of(values_of_query: Nested, name: str) -> float:
    """Return the mean of a measure over queries."""
    return float(np.mean([values[name] for values in values_of_query.values()]))


def with_ir_measures(n: int, folder: Path) -> Callable[[], Means]:
    """Measure by ir_measures."""
    import ir_measures

    search = made_up(n)
    qrels = search.nested_qrels()
    run = search.nested()
    measures = [ir_measures.parse_measure(name) for name in MEASURES]

    def work() -> Means:
        """Return the means."""
        means = ir_measures.calc_aggregate(measures, qrels, run)
        return [means[measure] for measure in measures]

    return work


# what is imported once, before processes start
IMPORTS = ()
CASES = [
    Case(
        "nDCG@10, RR@10, R@100",
        "queries with 1,000 passages each",
        Sizes(20, 2000, 6980),
        ours,
        {
            "interextra, from a file": Peer(from_parquet),
            "ranx": Peer(with_ranx, ("ranx",), least=RANX),
            "pytrec_eval": Peer(with_pytrec_eval, ("pytrec_eval",)),
            "ir_measures": Peer(with_ir_measures, ("ir_measures",)),
        },
        equal_within(1e-9),
    )
]
