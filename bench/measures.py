"""Seconds for nDCG@10, RR@10 and R@100 of 6,980 queries x 1,000 passages: ours, ranx, pytrec_eval,
ir_measures.

Each contender starts from what it takes: ours from the arrays of a search, the others from nested
dicts (whose making is not counted). ranx is run once before, so that compiling is not counted. Ends
with an error if the means differ or ours is less than 20 times as fast as ranx; with --small times
are not judged.

    python bench/measures.py [--small]
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
if "--small" in sys.argv:
    os.environ["NUMBA_DISABLE_JIT"] = "1"  # to compile ranx takes longer than the small run

import ir_measures
import numpy as np
import pandas as pd
import pyarrow as pa
import pytrec_eval

from interextra.data.runs import RunFile
from interextra.measures.evaluate import per_query

MEASURES = ["nDCG@10", "RR@10", "R@100"]
DEPTH, N_PASSAGES, SEED = 1000, 1_000_000, 0
AT_LEAST = 20  # times as fast as ranx


def made_up(n_queries: int) -> tuple[list[str], list[str], np.ndarray, np.ndarray, pd.DataFrame]:
    """Tie-free run of random passages; one relevant passage a query, somewhere in the first 200 or
    missing.
    """
    rng = np.random.default_rng(SEED)
    query_ids = [f"{1_000_000 + i}" for i in range(n_queries)]
    doc_ids = [f"{i}" for i in range(N_PASSAGES)]
    start = rng.integers(N_PASSAGES, size=(n_queries, 1))
    rows = (
        start + 7919 * rng.permuted(np.tile(np.arange(DEPTH), (n_queries, 1)), axis=1)
    ) % N_PASSAGES
    scores = (100 - np.cumsum(rng.uniform(0.01, 0.09, rows.shape), axis=1)).astype(np.float32)
    place = rng.integers(250, size=n_queries)
    relevant = np.where(
        place < 200, rows[np.arange(n_queries), place], (rows[:, 0] + 1) % N_PASSAGES
    )
    qrels = pd.DataFrame(
        {"query_id": query_ids, "doc_id": [doc_ids[i] for i in relevant], "relevance": 1}
    )
    return query_ids, doc_ids, rows.astype(np.int32), scores, qrels


def timed(work: Callable[[], dict]) -> tuple[float, dict]:
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, {name: float(value) for name, value in result.items()}


def with_ranx(qrels: dict, run: dict) -> dict:
    import ranx

    values = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), ["ndcg@10", "mrr@10", "recall@100"])
    return dict(zip(MEASURES, values.values(), strict=True))


def with_pytrec_eval(qrels: dict, run: dict) -> dict:
    """recip_rank has no cutoff, so a second pass over the first ten."""
    full = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut_10", "recall_100"}).evaluate(run)
    top = {
        query: dict(sorted(docs.items(), key=lambda item: -item[1])[:10])
        for query, docs in run.items()
    }
    first = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate(top)
    parts = [(full, "ndcg_cut_10"), (first, "recip_rank"), (full, "recall_100")]
    means = (np.mean([values[name] for values in result.values()]) for result, name in parts)
    return dict(zip(MEASURES, means, strict=True))


def with_ir_measures(qrels: dict, run: dict) -> dict:
    asked = [ir_measures.parse_measure(name) for name in MEASURES]
    return {
        str(name): value for name, value in ir_measures.calc_aggregate(asked, qrels, run).items()
    }


def main(n_queries: int, at_least: int) -> int:
    query_ids, doc_ids, rows, scores, table = made_up(n_queries)
    arrays = (query_ids, pa.array(doc_ids), rows, scores)
    run = RunFile.from_arrays(*arrays)
    per_query(run, table, MEASURES)
    with tempfile.TemporaryDirectory() as folder:
        run.write_parquet(file := Path(folder) / "run.parquet")
        results = {
            "ours, from a Run": timed(lambda: per_query(run, table, MEASURES).mean()),
            "ours, from search arrays": timed(
                lambda: per_query(RunFile.from_arrays(*arrays), table, MEASURES).mean()
            ),
            "ours, from Parquet": timed(
                lambda: per_query(RunFile.read(file), table, MEASURES).mean()
            ),
        }
    qrels = {query: {doc: 1} for query, doc in zip(table.query_id, table.doc_id, strict=True)}
    nested = {
        query: {doc_ids[row]: score for row, score in zip(found, values, strict=True)}
        for query, found, values in zip(query_ids, rows.tolist(), scores.tolist(), strict=True)
    }
    with_ranx(
        {query: qrels[query] for query in query_ids[:5]},
        {query: nested[query] for query in query_ids[:5]},
    )
    results["ranx, from dicts"] = timed(lambda: with_ranx(qrels, nested))
    results["pytrec_eval, from dicts"] = timed(lambda: with_pytrec_eval(qrels, nested))
    results["ir_measures, from dicts"] = timed(lambda: with_ir_measures(qrels, nested))

    ranx_seconds, (own_seconds, own) = results["ranx, from dicts"][0], results["ours, from a Run"]
    print(
        f"{n_queries:,} queries x {DEPTH:,} passages\n\n| tool | seconds | ranx / this | {' | '.join(MEASURES)} |"
    )
    print("|---|---:|---:|" + "---:|" * len(MEASURES))
    for name, (seconds, means) in results.items():
        cells = " | ".join(f"{means[measure]:.6f}" for measure in MEASURES)
        print(f"| {name} | {seconds:.3f} | {ranx_seconds / seconds:.1f} | {cells} |")
    equal = all(
        abs(means[name] - own[name]) < 1e-9 for _, means in results.values() for name in MEASURES
    )
    fast = ranx_seconds >= at_least * own_seconds
    verdict = f"{'at least' if fast else 'LESS THAN'} {at_least} times as fast as ranx from a Run"
    print(f"\nmeans {'equal' if equal else 'DIFFER'}; {verdict}")
    return 0 if equal and fast else 1


if __name__ == "__main__":
    sys.exit(main(20, 0) if "--small" in sys.argv else main(6980, AT_LEAST))
