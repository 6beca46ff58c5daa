"""Notebook 10: compressed vectors, approximate and hybrid search in both regimes. Hofstätter et al.
(TREC 2021).
"""

import itertools
import json
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from pydantic import ValidationError

from interextra.data.runs import RunFile
from interextra.measures.evaluate import per_query
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.model import load_model
from interextra.models.recipe import Recipe
from interextra.models.search import hybrid
from interextra.models.search.indexes import PRECISIONS, Index
from interextra.models.search.run import Encoded, Fused, Run, Searched
from interextra.notebooks import n03_resttest as resttest
from interextra.notebooks import plans
from interextra.notebooks.parameters import (
    Entries,
    Entry,
    GateParameters,
    Measures,
    Million,
    Names,
    ReSTrainParameters,
    ReSTTestParameters,
    Seeds,
    Sizes,
    Thousands,
    parameter,
)
from interextra.papers import published
from interextra.splits.split import REGIMES
from interextra.stats.effects import effects
from interextra.store import InputError, Store

# the system whose vectors are compressed and searched, and with which others are compared
FULL = "Dense"
WEIGHTED, BY_RANK, UNION, CASCADE = (
    "Hybrid, weighted",
    "Hybrid, RRF",
    "Hybrid, reranked",
    f"{FULL}, reranked",
)
HYBRIDS = [BM25, FULL, WEIGHTED, BY_RANK, UNION, CASCADE]
FIRST = "nDCG@10"
# Two of our systems → the table of the paper, and the two runs there in their place
PUBLISHED = {("TAS-B", "Standalone"): (2, "TUW_TAS-B_768", "TUW_DR_Base")}
PUBLISHED |= {(f"{FULL}, compressed, HNSW", FULL): (2, "TUW_TAS-B_ANN", "TUW_TAS-B_768")}
IN_PODCASTS = {f"{FULL}, compressed, HNSW": "TUW_tasb192_ann", CASCADE: "TUW_tasb_cat"}
IN_PODCASTS |= {UNION: "TUW_hybrid_cat", WEIGHTED: "TUW_hybrid_ws"}
PUBLISHED |= {(system, BM25): (4, run, BM25) for system, run in IN_PODCASTS.items()}


class Parameters(ReSTrainParameters, GateParameters, ReSTTestParameters):
    """Parameters of notebook 10, compression and hybrids."""

    protocol: str = parameter("ReSTrain", "which one makes the two regimes: ReSTrain or ReSTTest")
    measures: Measures = parameter(["nDCG@10", "R@100"], "the first one is judged")
    seeds: Seeds = parameter([1], "seeds of the training runs")
    test_splits: Names = parameter(["test", "graded"], "test queries")
    recipes: Entries = parameter(
        ["bm25", "mini-dense"], "BM25, and the dense system of that encoder"
    )
    strategies: Entries = parameter(
        [
            "bm25",
            {"label": "Standalone", "recipe": "mini-standalone"},
            {"label": "TAS-B", "recipe": "mini-tas-b"},
            {"label": "Dense", "recipe": "mini-dense"},
            {"label": "Dense, compressed", "recipe": "mini-compressed"},
            {
                "label": "Dense, second pass",
                "recipe": "mini-compressed",
                "dimension": 0,
                "temperature": 4,
            },
        ],
        "what is trained; each is searched exactly. Dense is compressed, searched and fused, and others are compared with it",
    )
    searches: Entries = parameter(
        [
            {
                "label": "Dense, compressed, HNSW",
                "of": "Dense, compressed",
                "index": "HNSW96_SQfp16",
            },
            {"label": "Dense, PCA", "of": "Dense", "index": "PCA16,Flat"},
            {"label": "Dense, PQ", "of": "Dense", "index": "PQ32x4"},
            {"label": "Dense, int8", "of": "Dense", "index": "int8"},
            {"label": "Dense, binary", "of": "Dense", "index": "binary", "rescore_multiplier": 4},
            {"label": "Dense, HNSW", "of": "Dense", "index": "HNSW96_SQfp16"},
        ],
        "of the vectors of a training (of): fields of Searched",
    )
    reranker: Entry = parameter(
        "mini-reranker", "of the hybrid by reranking, trained on the same queries"
    )
    rerank_depth: Million = parameter(10, "passages of each run that it reads", paper="1,000")
    trained_sizes: Sizes = parameter([1600], "of these, the size that all systems are trained on")
    indexes: Names = parameter(["HNSW8", "HNSW32"], "approximate indexes whose effort is varied")
    efforts: Sizes = parameter([4, 8, 16, 32, 64], "values of efSearch")
    orders: Thousands = parameter(3, "orders of insertion")


def plan(p: Parameters) -> plans.Plan:
    """`design`: model (trained, searched, hybrid), n_train and regime or left_out, seed, run;
    `buckets` of ReSTTest.
    """
    made = plans.with_bm25(plans.systems(p, p.strategies), "strategies")
    plans.refuse_unknown("protocol", [p.protocol], ["ReSTrain", "ReSTTest"])
    plans.refuse_unknown("strategies", [FULL], made)
    gate = plans.gate_queries(p)
    queries, buckets = (*plans.test_queries(p, p.test_splits), *gate), None
    reranker = plans.named_recipe(p.reranker)
    plans.refuse_unknown("reranker, architecture", [reranker.architecture], ["reranker"])
    for index in p.indexes:
        refuse_index("indexes", index, f"efSearch={p.efforts[0]}", made[FULL])
    if p.protocol == "ReSTrain":
        sets = plans.in_both_regimes(plans.restrain_of(p, p.sizes), p.trained_sizes)
    else:
        buckets = plans.resttest_of(p, [*p.test_splits, *p.gate_splits])
        sets = plans.without_each(buckets)
    rows = []
    for (labels, train), seed in itertools.product(sets, p.seeds):
        models = {label: hybrid.any_model_of(one, train, seed) for label, one in made.items()}
        lexical = Run(model=models.pop(BM25), queries=queries, depth=p.depth)
        encoded = {
            label: Encoded(model=model, source=queries[0].source) for label, model in models.items()
        }
        flat = {
            label: Searched(encoded=one, queries=queries, depth=p.depth)
            for label, one in encoded.items()
        }
        judge = {"model": hybrid.any_model_of(reranker, train, seed), "depth": p.rerank_depth}
        both = lexical, flat[FULL]
        found = [
            (BM25, lexical),
            *flat.items(),
            *searches(p, flat),
            (BY_RANK, Fused(runs=both, depth=p.depth)),
        ]
        if gate:  # without it nothing is tuned
            found.append((WEIGHTED, Fused(runs=both, method="wsum", tuned=gate[0], depth=p.depth)))
        found += [
            (UNION, hybrid.Reranked(runs=both, **judge)),
            (CASCADE, hybrid.Reranked(runs=both[1:], **judge)),
        ]
        rows += [{"model": label} | labels | {"seed": seed, "run": run} for label, run in found]
    design = plans.design(rows)
    if (twice := design.duplicated(design.columns.drop("run").tolist())).any():
        raise InputError(
            f"parameter 'searches': {design.loc[twice, 'model'].iloc[0]!r} stands twice"
        )
    return plans.Plan(buckets=buckets, design=design)


def searches(p: Parameters, flat: dict[str, Searched]) -> Iterator[tuple[str, Searched]]:
    """(label, search) of the parameter `searches`, of vectors that are searched exactly in
    `flat`.
    """
    for entry in p.searches:
        label, of, options = plans.fields(entry, "label", "of", more=True)
        plans.refuse_unknown(f"searches, {label}", [of], flat)
        try:
            search = Searched(**dict(flat[of]) | options)
        except ValidationError as error:
            place, first = f"parameter 'searches', {label}", error.errors()[0]
            raise InputError(
                f"{place}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
            ) from None
        refuse_index(
            f"searches, {label}",
            search.index,
            search.parameters,
            search.recipe,
            search.truncate_dim,
        )
        yield label, search


def refuse_index(
    parameter: str, index: str, parameters: str, made: Recipe, truncate_dim: int = 0
) -> None:
    """InputError for an index that faiss cannot make of a model's vectors, before there are any."""
    import faiss

    dimension = getattr(made, "dimension", 0) or made.size.dimension
    if truncate_dim > dimension:
        raise InputError(
            f"parameter {parameter!r}: truncate_dim = {truncate_dim} of {dimension} dimensions"
        )
    try:
        empty = faiss.index_factory(
            truncate_dim or dimension, "Flat" if index in PRECISIONS else index
        )
        faiss.ParameterSpace().set_index_parameters(empty, parameters)
    except RuntimeError as error:
        told = " ".join(str(error).split())[-120:]
        raise InputError(
            f"parameter {parameter!r}: faiss makes no index {index!r}, {parameters!r}: {told}"
        ) from None


def regimes(values: pd.DataFrame) -> pd.DataFrame:
    """Values of either protocol with `regime`."""
    return values if "regime" in values else resttest.in_regimes(values)


def sizes(design: pd.DataFrame, store: Store) -> pd.DataFrame:
    """What a passage costs: model, dimensions, precision, bytes_per_passage; by the first row of
    each system.
    """
    rows = []
    for row in design.drop_duplicates("model").itertuples():
        if isinstance(row.run, Searched):
            width = row.run.truncate_dim or row.run.encoded.read(store).shape[1]
            rows.append((row.model, width, row.run.index, row.run.bytes_per_passage(store)))
    return pd.DataFrame(rows, columns=["model", "dimensions", "precision", "bytes_per_passage"])


def weights(design: pd.DataFrame, store: Store) -> pd.DataFrame:
    """The weight of BM25 in each weighted hybrid, chosen on queries that measure nothing: labels,
    weight.
    """
    chosen = design[design["model"] == WEIGHTED]
    found = [
        json.loads((store[run] / "weights.json").read_text(encoding="utf-8"))[0]
        for run in chosen["run"]
    ]
    return chosen.drop(columns=["model", "run"]).assign(weight=found)


def costs(
    values: pd.DataFrame, pairs: Sequence[tuple[str, str]], by: Sequence[str], **how
) -> pd.DataFrame:
    """Means of systems and their differences from another system: *by, model, than, value,
    difference, low, high.
    """
    means = effects(values, [*by, "model"], **how)
    apart = pd.DataFrame(means.contrast("model", pairs)).rename(
        columns={"first": "model", "second": "than"}
    )
    return apart.merge(
        means[[*by, "model", "mean"]].rename(columns={"mean": "value"}), on=[*by, "model"]
    )


def approximate(
    design: pd.DataFrame, store: Store, indexes: Sequence[str], searched: Sequence[int], orders: int
):
    """HNSW of the vectors of the full system: index, parameters (efSearch), regime or left_out,
    order, recall_at_10 (of the exact first ten), value (nDCG@10), bytes a passage. `searched`:
    values of efSearch; `orders`: of insertion.
    """
    rows = []
    for one in design[design["model"] == FULL].to_dict("records"):
        run, labels = (
            one["run"],
            {name: one[name] for name in ("regime", "left_out", "seed") if name in one},
        )
        queries, source = run.queries[0], run.encoded.source.open()
        texts, qrels = queries.frame(store), queries.qrels(store)
        vectors = np.asarray(run.encoded.read(store))
        asked = load_model(store[run.encoded.model] / "weights").encode_queries(
            texts["text"].tolist()
        )
        exact, _ = Index(vectors, "Flat").search(asked, 10)
        for name, order in itertools.product(indexes, range(orders)):
            index = Index(vectors, name, seed=order)
            for effort in searched:
                found, scores = index.search(asked, run.depth, f"efSearch={effort}")
                shared = (found[:, :10, None] == exact[:, None]).any(axis=2).mean()
                ranked = RunFile.from_arrays(
                    texts["query_id"].tolist(), source.passages.doc_ids, found, scores
                )
                value = per_query(ranked, qrels, [FIRST])[FIRST].mean()
                row = {
                    "index": name,
                    "efSearch": effort,
                    "order": order,
                    "recall_at_10": shared,
                    "value": value,
                }
                rows.append(labels | row | {"bytes": index.size / len(vectors)})
    return pd.DataFrame(rows)


def published_differences() -> pd.DataFrame:
    """Differences of two runs in Tables 2 and 4: regime, measure, first, second, scaled,
    rounding.
    """
    parts = []
    for (first, second), (number, *runs) in PUBLISHED.items():
        cells = published.load("hofstaetter", number).set_index(["run", "measure"])
        one, other = (cells.loc[run] for run in runs)
        part = one.assign(first=first, second=second, regime=REGIMES[number == 4])
        parts.append(
            part.assign(
                scaled=one["scaled"] - other["scaled"], rounding=2 * one["rounding"]
            ).reset_index()
        )
    return pd.concat(parts, ignore_index=True)[
        ["regime", "measure", "first", "second", "scaled", "rounding"]
    ]


def with_signal(run: RunFile, signal: pd.Series, weight: float) -> RunFile:
    """A run in the order of (1 − weight) · score + weight · signal, both brought to 0…1 by query.

    signal: by doc_id (else the query's lowest), such as entertainment in Hofstätter et al. (TREC
    2021, section 5).
    """
    frame = run.frame().assign(signal=lambda rows: rows["doc_id"].map(signal))
    frame["signal"] = (
        frame["signal"]
        .fillna(frame["signal"].groupby(frame["query_id"]).transform("min"))
        .fillna(0.0)
    )
    for name in ("score", "signal"):
        low, high = (frame.groupby("query_id")[name].transform(end) for end in ("min", "max"))
        frame[name] = (frame[name] - low) / (high - low).where(high > low, 1.0)
    return RunFile.from_frame(
        frame.assign(score=(1 - weight) * frame["score"] + weight * frame["signal"])
    )


def guarded(
    run: RunFile, signal: pd.Series, qrels: pd.DataFrame, guard: float = 0.05
) -> pd.DataFrame:
    """By tenths: weight, value (nDCG@30), signal (mean of the first ten passages), allowed (costs
    `guard` or less).
    """
    rows = []
    for weight in np.arange(11) / 10:
        mixed = with_signal(run, signal, weight)
        top = mixed.frame().query("rank <= 10")["doc_id"].map(signal).mean()
        rows.append((weight, per_query(mixed, qrels, ["nDCG@30"])["nDCG@30"].mean(), top))
    found = pd.DataFrame(rows, columns=["weight", "value", "signal"])
    return found.assign(allowed=found["value"] >= found["value"].iloc[0] - guard)
