"""Notebook 10: compressed vectors, approximate and hybrid search in both regimes. Hofstätter et al. (TREC 2021)."""

import itertools
import json
from collections.abc import Sequence

import numpy as np
import pandas as pd
from pydantic import ValidationError

from interextra.data.queries import Queries
from interextra.data.runs import RunFile
from interextra.evaluation.measures import per_query
from interextra.experiments import plans
from interextra.experiments.hybrid import Reranked, balanced_of
from interextra.experiments.resttest import in_regimes
from interextra.ground.cells import Cell, Store
from interextra.ground.effects import effects
from interextra.ground.errors import InputError
from interextra.models.bm25 import LABEL as BM25
from interextra.models.indexes import Index
from interextra.models.model import Model, load_model
from interextra.models.recipe import Recipe, load_recipe
from interextra.models.run import Encoded, Fused, Run, Searched, model_of
from interextra.papers import published

NOTEBOOK = "10_compression_and_hybrid"
FULL = "TAS-B"  # the system with which others are compared
WEIGHTED, BY_RANK, UNION, CASCADE = "Hybrid, weighted", "Hybrid, RRF", "Hybrid, reranked", f"{FULL}, reranked"
HYBRIDS = [BM25, FULL, WEIGHTED, BY_RANK, UNION, CASCADE]
FIRST = "nDCG@10"
# Run of the paper → our system in its place
ROLES = {"TUW_DR_Base": "Standalone", "TUW_TAS-B_768": FULL, "TUW_TAS-B_ANN": f"{FULL}, compressed, HNSW", BM25: BM25}
ROLES |= {"TUW_tasb192_ann": ROLES["TUW_TAS-B_ANN"], "TUW_tasb_cat": CASCADE}
ROLES |= {"TUW_hybrid_cat": UNION, "TUW_hybrid_ws": WEIGHTED}


def plan(p: dict) -> plans.Plan:
    """`design`: way (trained, searched, hybrid), model, n_train and regime or left_out, seed, run.

    `buckets`: the split, where the protocol is ReSTTest, else None. `encoded`: label of a training → its vectors of the
    collection in each row of the design.
    """
    made = plans.with_bm25(plans.systems(p | {"recipes": p["strategies"]}), "strategies")
    plans.refuse_unknown("protocol", [p["protocol"]], ["ReSTrain", "ReSTTest"])
    plans.refuse_unknown("strategies", [FULL], made)
    searches = [search_in(entry, made) for entry in p["searches"]]
    gate = plans.gate_queries(p)
    queries, buckets = (*plans.test_queries(p, p["test_splits"]), *gate), None
    if p["protocol"] == "ReSTrain":
        sets = plans.in_both_regimes(plans.restrain_of(p), p["trained_sizes"])
    else:
        buckets = plans.resttest_of(p, [*p["test_splits"], *p["gate_splits"]])
        sets = plans.without_each(buckets)
    rows = []
    for (labels, train), seed in itertools.product(sets, p["seeds"]):
        models = {label: trained_model(one, train, seed) for label, one in made.items()}
        lexical = Run(model=models.pop(BM25), queries=queries, depth=p["depth"])
        encoded = {label: Encoded(model=model, source=queries[0].source) for label, model in models.items()}
        flat = {label: Searched(encoded=one, queries=queries, depth=p["depth"]) for label, one in encoded.items()}
        found = [("trained", BM25, lexical), *(("trained", label, run) for label, run in flat.items())]
        for label, of, options in searches:
            found.append(("searched", label, searched_by(flat[of], label, options)))
        judge = model_of(load_recipe(p["reranker"]), train, seed)
        found += [("hybrid", label, run) for label, run in hybrids(p, lexical, flat[FULL], judge, gate).items()]
        columns = {"seed": seed, "encoded": encoded[FULL]}
        rows += [{"way": way, "model": label} | labels | columns | {"run": run} for way, label, run in found]
    design = plans.design(rows)
    if (twice := design.duplicated([name for name in design if name not in ("way", "encoded", "run")])).any():
        raise InputError(f"parameter 'searches': {design.loc[twice, 'model'].iloc[0]!r} stands twice")
    return plans.Plan(buckets=buckets, design=design)


def search_in(entry: dict, made: dict[str, Recipe]) -> tuple[str, str, dict]:
    """(label, label of the training, fields of `Searched`) of an entry of the parameter `searches`."""
    label, of, options = plans.fields(entry, "label", "of", more=True)
    plans.refuse_unknown(f"searches, {label}", [of], [name for name in made if name != BM25])
    return label, of, options


def searched_by(flat: Searched, label: str, options: dict) -> Searched:
    try:
        return Searched(**dict(flat) | options)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"parameter 'searches', {label}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def trained_model(made: Recipe, train, seed: int) -> Model:
    return (balanced_of if made.architecture == "tas_balanced" else model_of)(made, train, seed)


def hybrids(p: dict, lexical: Run, dense: Searched, judge: Model, gate: Sequence[Queries]) -> dict[str, Cell]:
    """Label → fusion or reranking of the passages of BM25 and of a dense retriever; without a gate nothing is tuned."""
    both, depth = (lexical, dense), p["depth"]
    again = {"model": judge, "depth": p["rerank_depth"]}
    found: dict[str, Cell] = {BY_RANK: Fused(runs=both, depth=depth)}
    if gate:
        found[WEIGHTED] = Fused(runs=both, method="wsum", tuned=gate[0], depth=depth)
    return found | {UNION: Reranked(runs=both, **again), CASCADE: Reranked(runs=(dense,), **again)}


def regimes(values: pd.DataFrame) -> pd.DataFrame:
    """Values of either protocol with `regime`."""
    return values if "regime" in values else in_regimes(values)


def sizes(design: pd.DataFrame, store: Store) -> pd.DataFrame:
    """What a passage costs: model, dimensions, precision, bytes_per_passage; by the first row of each system."""
    rows = []
    for row in design.drop_duplicates("model").itertuples():
        if isinstance(row.run, Searched):
            width = row.run.truncate_dim or row.run.encoded.read(store).shape[1]
            rows.append((row.model, width, row.run.index, row.run.bytes_per_passage(store)))
    return pd.DataFrame(rows, columns=["model", "dimensions", "precision", "bytes_per_passage"])


def weights(design: pd.DataFrame, store: Store) -> pd.DataFrame:
    """The weight of BM25 in each weighted hybrid, chosen on queries that measure nothing: labels, weight."""
    chosen = design[design["model"] == WEIGHTED]
    found = [json.loads((store[run] / "weights.json").read_text(encoding="utf-8"))[0] for run in chosen["run"]]
    return chosen.drop(columns=["way", "model", "encoded", "run"]).assign(weight=found)


def costs(values: pd.DataFrame, pairs: Sequence[tuple[str, str]], by: Sequence[str], **how) -> pd.DataFrame:
    """Means of systems and their differences from another system: *by, model, than, value, difference, low, high."""
    means = effects(values, [*by, "model"], **how)
    apart = pd.DataFrame(means.contrast("model", pairs)).rename(columns={"first": "model", "second": "than"})
    return apart.merge(means[[*by, "model", "mean"]].rename(columns={"mean": "value"}), on=[*by, "model"])


def approximate(
    design: pd.DataFrame, store: Store, indexes: Sequence[str], searched: Sequence[int], orders: int, k: int = 10
):
    """HNSW of the vectors of the full system: index, parameters (efSearch), regime or left_out, order, recall_at_10 (of
    the exact first `k`), value (nDCG@10), bytes a passage. `searched`: values of efSearch; `orders`: of insertion.
    """
    rows = []
    for one in design[design["model"] == FULL].to_dict("records"):
        run, labels = one["run"], {name: one[name] for name in ("regime", "left_out", "seed") if name in one}
        queries, source = run.queries[0], run.encoded.source.open()
        texts, qrels = queries.frame(store), queries.qrels(store)
        vectors = np.asarray(run.encoded.read(store))
        asked = load_model(store[run.encoded.model] / "weights").encode_queries(texts["text"].tolist())
        exact, _ = Index(vectors, "Flat").search(asked, k)
        for name, order in itertools.product(indexes, range(orders)):
            index = Index(vectors, name, seed=order)
            for effort in searched:
                found, scores = index.search(asked, run.depth, f"efSearch={effort}")
                shared = (found[:, :k, None] == exact[:, None]).any(axis=2).mean()
                ranked = RunFile.from_arrays(texts["query_id"].tolist(), source.passages.doc_ids, found, scores)
                value = per_query(ranked, qrels, [FIRST])[FIRST].mean()
                row = {"index": name, "efSearch": effort, "order": order, "recall_at_10": shared, "value": value}
                rows.append(labels | row | {"bytes": index.size / len(vectors)})
    return pd.DataFrame(rows)


def published_differences() -> pd.DataFrame:
    """Differences from TAS-B (Table 2) and from BM25 (Table 4): regime, measure, first, second, scaled, rounding."""
    parts = []
    for number, second, regime in ((2, FULL, plans.REGIMES[0]), (4, BM25, plans.REGIMES[1])):
        cells = published.load("hofstaetter", number)
        cells = cells.assign(first=cells["run"].map(ROLES), second=second, regime=regime)
        from_zero = cells[cells["first"] == second].set_index("measure")["scaled"]
        cells["scaled"] -= cells["measure"].map(from_zero)
        parts.append(cells[cells["first"] != second].assign(rounding=2 * cells["rounding"]))
    return pd.concat(parts, ignore_index=True)[["regime", "measure", "first", "second", "scaled", "rounding"]]


def with_signal(run: RunFile, signal: pd.Series, weight: float) -> RunFile:
    """A run in the order of (1 − weight) · score + weight · signal, both brought to 0…1 by query.

    signal: of each passage, by doc_id; one without a signal has the lowest of its query. Hofstätter et al. (TREC 2021,
    section 5) take the entertainment or subjectivity of a podcast's segment.
    """
    frame = run.frame().assign(signal=lambda rows: rows["doc_id"].map(signal))
    frame["signal"] = frame["signal"].fillna(frame["signal"].groupby(frame["query_id"]).transform("min")).fillna(0.0)
    for name in ("score", "signal"):
        low, high = (frame.groupby("query_id")[name].transform(end) for end in ("min", "max"))
        frame[name] = (frame[name] - low) / (high - low).where(high > low, 1.0)
    mixed = (1 - weight) * frame["score"] + weight * frame["signal"]
    return RunFile.from_frame(frame.assign(score=mixed)[["query_id", "doc_id", "score"]])


def guarded(
    run: RunFile, signal: pd.Series, qrels: pd.DataFrame, guard: float = 0.05, measure: str = "nDCG@30"
) -> pd.DataFrame:
    """Weights of a signal, in tenths, with what they cost on tuning queries: weight, value, signal, allowed.

    signal: mean of the signal over the first ten passages; allowed: the measure falls by no more than `guard`.
    """
    rows = []
    for weight in np.arange(11) / 10:
        mixed = with_signal(run, signal, weight)
        top = mixed.frame().query("rank <= 10")["doc_id"].map(signal).mean()
        rows.append((weight, per_query(mixed, qrels, [measure])[measure].mean(), top))
    found = pd.DataFrame(rows, columns=["weight", "value", "signal"])
    return found.assign(allowed=found["value"] >= found["value"].iloc[0] - guard)
