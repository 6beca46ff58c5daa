"""Time nDCG@10, RR@10 and R@100 of 6,980 queries x 1,000 passages: ours and other tools.

The others are ranx, pytrec_eval and ir_measures. Each starts from what it takes: ours from the
arrays of a search, the others from nested dicts (whose making is not counted). ranx is run once
before, so that compiling is not counted. Ends with an error if the means differ or ours is less
than 20 times as fast as ranx; with --small times are not judged.

    python bench/measures.py [--small]
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

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
DEPTH = 1000
N_PASSAGES = 1_000_000
SEED = 0
AT_LEAST = 20  # times as fast as ranx

Nested = dict[str, dict[str, float]]  # query_id → doc_id → relevance or score
Means = dict[str, float]  # measure → its mean


class Search(NamedTuple):
    """What a search returns: `rows`, int32[n, DEPTH], are numbers of `doc_ids`."""

    query_ids: list[str]
    doc_ids: pa.Array
    rows: np.ndarray
    scores: np.ndarray

    def run(self) -> RunFile:
        """Return it as a run."""
        return RunFile.from_arrays(*self)

    def nested(self) -> Nested:
        """Return it as nested dicts."""
        run = {}
        all_doc_ids = self.doc_ids.to_pylist()
        rankings = zip(self.query_ids, self.rows.tolist(), self.scores.tolist(), strict=True)
        for query_id, rows, scores in rankings:
            doc_ids = [all_doc_ids[row] for row in rows]
            run[query_id] = dict(zip(doc_ids, scores, strict=True))
        return run


def made_up(n_queries: int) -> tuple[Search, pd.DataFrame]:
    """Return a run of random passages without ties, and judgements.

    One passage is relevant to each query, somewhere in the first 200 or missing.
    """
    rng = np.random.default_rng(SEED)
    query_ids = [str(1_000_000 + number) for number in range(n_queries)]
    doc_ids = [str(number) for number in range(N_PASSAGES)]
    start = rng.integers(N_PASSAGES, size=(n_queries, 1))
    orders = rng.permuted(np.tile(np.arange(DEPTH), (n_queries, 1)), axis=1)
    rows = (start + 7919 * orders) % N_PASSAGES
    gaps = rng.uniform(0.01, 0.09, rows.shape)
    scores = (100 - np.cumsum(gaps, axis=1)).astype(np.float32)
    place = rng.integers(250, size=n_queries)
    missing = (rows[:, 0] + 1) % N_PASSAGES
    relevant = np.where(place < 200, rows[np.arange(n_queries), place], missing)
    qrels = pd.DataFrame({"query_id": query_ids, "doc_id": [doc_ids[row] for row in relevant]})
    search = Search(query_ids, pa.array(doc_ids), rows.astype(np.int32), scores)
    return search, qrels.assign(relevance=1)


def timed(work: Callable[[], Mapping[str, float]]) -> tuple[float, Means]:
    """Return the seconds of some work, and the means that it returns."""
    begin = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - begin
    return seconds, {name: float(value) for name, value in result.items()}


def with_ranx(qrels: Nested, run: Nested) -> Means:
    """Return the means of ranx."""
    import ranx

    values = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), ["ndcg@10", "mrr@10", "recall@100"])
    return dict(zip(MEASURES, values.values(), strict=True))


def with_pytrec_eval(qrels: Nested, run: Nested) -> Means:
    """Return the means of pytrec_eval.

    Its recip_rank has no cutoff, so a second pass over the first ten.
    """
    top = {}
    for query_id, scores in run.items():
        ranking = sorted(scores.items(), key=lambda item: -item[1])
        top[query_id] = dict(ranking[:10])
    full = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut_10", "recall_100"}).evaluate(run)
    first = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate(top)
    parts = [(full, "ndcg_cut_10"), (first, "recip_rank"), (full, "recall_100")]
    means = [np.mean([values[name] for values in result.values()]) for result, name in parts]
    return dict(zip(MEASURES, means, strict=True))


def with_ir_measures(qrels: Nested, run: Nested) -> Means:
    """Return the means of ir_measures."""
    measures = [ir_measures.parse_measure(name) for name in MEASURES]
    means = ir_measures.calc_aggregate(measures, qrels, run)
    return {str(measure): mean for measure, mean in means.items()}


def results_of_all(search: Search, table: pd.DataFrame) -> dict[str, tuple[float, Means]]:
    """Return seconds and means by the name of a tool and what it starts from."""
    run = search.run()
    per_query(run, table, MEASURES)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "run.parquet")
        run.write_parquet(file)
        starts = {
            "ours, from a Run": lambda: run,
            "ours, from search arrays": search.run,
            "ours, from Parquet": lambda: RunFile.read(file),
        }
        for name, start in starts.items():
            results[name] = timed(lambda start=start: per_query(start(), table, MEASURES).mean())
    pairs = zip(table["query_id"], table["doc_id"], strict=True)
    qrels = {query_id: {doc_id: 1} for query_id, doc_id in pairs}
    nested = search.nested()
    few = search.query_ids[:5]
    with_ranx({name: qrels[name] for name in few}, {name: nested[name] for name in few})
    results["ranx, from dicts"] = timed(lambda: with_ranx(qrels, nested))
    results["pytrec_eval, from dicts"] = timed(lambda: with_pytrec_eval(qrels, nested))
    results["ir_measures, from dicts"] = timed(lambda: with_ir_measures(qrels, nested))
    return results


def main(n_queries: int, at_least: int) -> int:
    """Print a table; return 1 if means differ or ours is not fast enough."""
    results = results_of_all(*made_up(n_queries))
    ranx_seconds, _ = results["ranx, from dicts"]
    our_seconds, our_means = results["ours, from a Run"]
    print(f"{n_queries:,} queries x {DEPTH:,} passages\n")
    print(f"| tool | seconds | ranx / this | {' | '.join(MEASURES)} |")
    print("|---|---:|---:|" + "---:|" * len(MEASURES))
    is_equal = True
    for name, (seconds, means) in results.items():
        cells = " | ".join(f"{means[measure]:.6f}" for measure in MEASURES)
        print(f"| {name} | {seconds:.3f} | {ranx_seconds / seconds:.1f} | {cells} |")
        for measure in MEASURES:
            is_equal = is_equal and abs(means[measure] - our_means[measure]) < 1e-9
    is_fast = ranx_seconds >= at_least * our_seconds
    equality = "equal" if is_equal else "DIFFER"
    speed = "at least" if is_fast else "LESS THAN"
    print(f"\nmeans {equality}; {speed} {at_least} times as fast as ranx from a Run")
    return 0 if is_equal and is_fast else 1


if __name__ == "__main__":
    if "--small" in sys.argv:
        sys.exit(main(20, 0))
    sys.exit(main(6980, AT_LEAST))
