"""Notebook 10: compressed vectors, approximate and hybrid search in both regimes.

Hofstätter et al. (TREC 2021).
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from interextra.data.queries import Part, Queries
from interextra.data.runs import RunFile
from interextra.measures.evaluate import per_query
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.model import Model, load_model
from interextra.models.planning import model_of
from interextra.models.recipe import Recipe
from interextra.models.search import hybrid
from interextra.models.search.indexes import PRECISIONS, Index
from interextra.models.search.run import Encoded, Fused, Ranking, Run, Searched
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
from interextra.stats.effects import Effects, effects
from interextra.stats.formatting import spelled, with_interval, with_unit
from interextra.stats.trainings import weakest_over
from interextra.store import InputError, Store

# the system whose vectors are compressed and searched, and with which others are compared
FULL = "Dense"
HNSW = f"{FULL}, compressed, HNSW"
WEIGHTED = "Hybrid, weighted"
BY_RANK = "Hybrid, RRF"
UNION = "Hybrid, reranked"
CASCADE = f"{FULL}, reranked"
HYBRIDS = [BM25, FULL, WEIGHTED, BY_RANK, UNION, CASCADE]
FIRST = "nDCG@10"
# Two of our systems → the table of the paper, and the two runs there in their place
PUBLISHED = {
    ("TAS-B", "Standalone"): (2, "TUW_TAS-B_768", "TUW_DR_Base"),
    (HNSW, FULL): (2, "TUW_TAS-B_ANN", "TUW_TAS-B_768"),
    (HNSW, BM25): (4, "TUW_tasb192_ann", BM25),
    (CASCADE, BM25): (4, "TUW_tasb_cat", BM25),
    (UNION, BM25): (4, "TUW_hybrid_cat", BM25),
    (WEIGHTED, BM25): (4, "TUW_hybrid_ws", BM25),
    (CASCADE, HNSW): (4, "TUW_tasb_cat", "TUW_tasb192_ann"),  # BERT_CAT adds little, section 5
}


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
        "what is trained; each is searched exactly. Dense is compressed, searched and fused, and "
        "others are compared with it",
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
        "mini-reranker",
        "of the hybrids by reranking, trained on the same queries; empty: without these",
    )
    rerank_depth: Million = parameter(10, "passages of each run that it reads", paper="1,000")
    trained_sizes: Sizes = parameter([1600], "of these, the size that all systems are trained on")
    indexes: Names = parameter(["HNSW8", "HNSW32"], "approximate indexes whose effort is varied")
    efforts: Sizes = parameter([4, 8, 16, 32, 64], "values of efSearch")
    orders: Thousands = parameter(3, "orders of insertion")


def plan(p: Parameters) -> plans.Plan:
    """Plan each system, trained, searched and fused, in both regimes.

    Returns
    -------
    design
        model (trained, searched, hybrid), n_train and regime or left_out, seed, run.
    buckets
        Of ReSTTest, else None.
    """
    recipes = plans.with_bm25(plans.systems(p, p.strategies), "strategies")
    plans.refuse_unknown("protocol", [p.protocol], ["ReSTrain", "ReSTTest"])
    plans.refuse_unknown("strategies", [FULL], recipes)
    reranker = _reranker(p)
    effort = f"efSearch={p.efforts[0]}"
    for index in p.indexes:
        _refuse_index("indexes", index, effort, recipes[FULL])
    buckets = None
    if p.protocol == "ReSTrain":
        split = plans.restrain_of(p, p.sizes)
        training_sets = plans.in_both_regimes(split, p.trained_sizes)
    else:
        buckets = plans.resttest_of(p, [*p.test_splits, *p.gate_splits])
        training_sets = plans.without_each(buckets)
    design = plans.design(_rows(p, recipes, reranker, training_sets))
    _refuse_repeated(design)
    return plans.Plan(buckets=buckets, design=design)


def _reranker(p: Parameters) -> Recipe | None:
    """Return the recipe of the last stage of hybrids; refuse one that reranks nothing."""
    if not p.reranker:
        return None
    recipe = plans.named_recipe(p.reranker)
    plans.refuse_unknown("reranker, architecture", [recipe.architecture], ["reranker"])
    return recipe


def _rows(
    p: Parameters,
    recipes: dict[str, Recipe],
    reranker: Recipe | None,
    training_sets: Sequence[plans.TrainingSet],
) -> list[dict[str, Any]]:
    """Return rows of the design: all systems on each training set with each seed."""
    rows = []
    for training_set, seed in itertools.product(training_sets, p.seeds):
        labels = training_set.labels | {"seed": seed}
        for model, run in _rankings(p, recipes, reranker, training_set.queries, seed):
            rows.append({"model": model} | labels | {"run": run})
    return rows


def _refuse_repeated(design: pd.DataFrame) -> None:
    """Raise an InputError for a system that stands twice on one training set."""
    is_repeated = design.duplicated(design.columns.drop("run").tolist())
    if is_repeated.any():
        label = design.loc[is_repeated, "model"].iloc[0]
        raise InputError(f"parameter 'searches': {label!r} stands twice")


def _rankings(
    p: Parameters,
    recipes: dict[str, Recipe],
    reranker: Recipe | None,
    train: Queries | Part,
    seed: int,
) -> Iterator[tuple[str, Ranking]]:
    """Yield (label, ranking) of all systems on one training set with one seed."""
    test = plans.test_queries(p, p.test_splits)
    queries = (*test, *plans.gate_queries(p))
    bm25 = plans.run_of(p, recipes[BM25], train, seed, queries)
    yield BM25, bm25
    exact = {}
    for label, recipe in recipes.items():
        if label != BM25:
            model = model_of(recipe, train, seed)
            encoded = Encoded(model=model, source=test[0].source)
            exact[label] = Searched(encoded=encoded, queries=queries, depth=p.depth)
    yield from exact.items()
    yield from _searches(p, exact)
    yield from _hybrids(p, bm25, exact[FULL])
    if reranker:
        judge = model_of(reranker, train, seed)
        yield from _reranked(p, bm25, exact[FULL], judge)


def _hybrids(p: Parameters, bm25: Run, dense: Searched) -> Iterator[tuple[str, Ranking]]:
    """Yield (label, ranking) of what is made of the scores of BM25 and of the full system."""
    both = (bm25, dense)
    yield BY_RANK, Fused(runs=both, depth=p.depth)
    gate = plans.gate_queries(p)
    if gate:  # without it nothing is tuned
        yield WEIGHTED, Fused(runs=both, method="wsum", tuned=gate[0], depth=p.depth)


def _reranked(
    p: Parameters, bm25: Run, dense: Searched, reranker: Model
) -> Iterator[tuple[str, Ranking]]:
    """Yield (label, ranking) of the first passages of both, and of the full system alone."""
    both = (bm25, dense)
    depth = p.rerank_depth
    yield UNION, hybrid.Reranked(runs=both, model=reranker, depth=depth)
    yield CASCADE, hybrid.Reranked(runs=(dense,), model=reranker, depth=depth)


def _searches(p: Parameters, exact: dict[str, Searched]) -> Iterator[tuple[str, Searched]]:
    """Yield (label, search) of the parameter `searches`.

    `exact`: label → exact search of the vectors that may be searched. InputError for an entry that
    names no such vectors, a field or value that `Searched` does not have, or an index that faiss
    does not make.
    """
    for entry in p.searches:
        label, name, options = plans.fields(entry, "label", "of", more=True)
        place = f"searches, {label}"
        plans.refuse_unknown(place, [name], exact)
        fields = dict(exact[name]) | options
        try:
            search = Searched(**fields)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            raise InputError(f"parameter 'searches', {label}: {field}: {first['msg']}") from None
        _refuse_index(place, search.index, search.parameters, search.recipe, search.truncate_dim)
        yield label, search


def _refuse_index(
    parameter: str, index: str, parameters: str, recipe: Recipe, truncate_dim: int = 0
) -> None:
    """Raise an InputError for an index that faiss cannot make, before there are any vectors.

    `parameter`: where it stands, for the message; `index`, `parameters`: as faiss writes them;
    `recipe`: of the model whose vectors are searched; `truncate_dim`: of these vectors the
    dimensions that are kept, 0: all.
    """
    import faiss

    dimension = getattr(recipe, "dimension", 0) or recipe.size.dimension
    if truncate_dim > dimension:
        raise InputError(
            f"parameter {parameter!r}: truncate_dim = {truncate_dim} of {dimension} dimensions"
        )
    description = "Flat" if index in PRECISIONS else index
    try:
        empty = faiss.index_factory(truncate_dim or dimension, description)
        faiss.ParameterSpace().set_index_parameters(empty, parameters)
    except RuntimeError as error:
        message = " ".join(str(error).split())
        raise InputError(
            f"parameter {parameter!r}: faiss makes no index {index!r}, {parameters!r}: "
            f"{message[-120:]}"
        ) from None


def regimes(values: pd.DataFrame) -> pd.DataFrame:
    """Return values of either protocol with `regime`."""
    return values if "regime" in values else resttest.in_regimes(values)


def sizes(design: pd.DataFrame, store: Store) -> pd.DataFrame:
    """Return what a passage costs, by the first row of each system.

    Returns
    -------
    model, dimensions, precision, bytes_per_passage
    """
    rows = []
    for row in design.drop_duplicates("model").itertuples():
        search = row.run
        if isinstance(search, Searched):
            vectors = search.encoded.read(store)
            dimensions = search.truncate_dim or vectors.shape[1]
            n_bytes = search.bytes_per_passage(store)
            rows.append((row.model, dimensions, search.index, n_bytes))
    return pd.DataFrame(rows, columns=["model", "dimensions", "precision", "bytes_per_passage"])


def weights(design: pd.DataFrame, store: Store) -> pd.DataFrame:
    """Return the weight of BM25 in each weighted hybrid, chosen on queries that measure nothing.

    Returns
    -------
    The labels of the design, weight
    """
    weighted = design[design["model"] == WEIGHTED]
    bm25_weights = []
    for run in weighted["run"]:
        text = (store[run] / "weights.json").read_text(encoding="utf-8")
        bm25_weights.append(json.loads(text)[0])
    return weighted.drop(columns=["model", "run"]).assign(weight=bm25_weights)


def costs(
    values: pd.DataFrame,
    pairs: Sequence[tuple[str, str]],
    by: Sequence[str],
    **options: Any,
) -> pd.DataFrame:
    """Return means of systems and their differences from another system.

    Parameters
    ----------
    values
        Values per query.
    pairs
        (system, the one it is compared with).
    by
        Labels that make a group, beside the model.
    options
        Of `effects`.

    Returns
    -------
    *by, model, than, value, difference, low, high
    """
    labels = [*by, "model"]
    means = effects(values, labels, **options)
    differences = pd.DataFrame(means.contrast("model", pairs))
    differences = differences.rename(columns={"first": "model", "second": "than"})
    value = means[[*labels, "mean"]].rename(columns={"mean": "value"})
    return differences.merge(value, on=labels)


def approximate(
    design: pd.DataFrame,
    store: Store,
    indexes: Sequence[str],
    efforts: Sequence[int],
    orders: int,
) -> pd.DataFrame:
    """Return how well HNSW finds the passages of the full system.

    Parameters
    ----------
    design
        Of the plan.
    store
        Where its cells are.
    indexes
        Descriptions of indexes, as faiss writes them.
    efforts
        Values of efSearch.
    orders
        Number of orders of insertion.

    Returns
    -------
    regime or left_out, seed, index, efSearch, order, recall_at_10 (of the exact first ten), value
    (nDCG@10), bytes (per passage)
    """
    rows = []
    is_full = design["model"] == FULL
    full = design[is_full].drop(columns=["model", "n_train"], errors="ignore")
    for labels in full.to_dict("records"):
        run = labels.pop("run")
        measured = _searched_by_hnsw(run, store, indexes, efforts, orders)
        rows += [labels | values for values in measured]
    return pd.DataFrame(rows)


def _searched_by_hnsw(
    run: Searched,
    store: Store,
    indexes: Sequence[str],
    efforts: Sequence[int],
    orders: int,
) -> Iterator[dict[str, Any]]:
    """Yield what `approximate` measures of the vectors of one exact search."""
    queries = run.queries[0]
    query_ids = queries.ids(store)
    qrels = queries.qrels(store)
    query_vectors = _query_vectors(run, store)
    doc_ids = run.encoded.source.open().passages.doc_ids
    vectors = np.asarray(run.encoded.read(store))
    exact, _ = Index(vectors, "Flat").search(query_vectors, 10)
    for name, order in itertools.product(indexes, range(orders)):
        index = Index(vectors, name, seed=order)
        for effort in efforts:
            found, scores = index.search(query_vectors, run.depth, f"efSearch={effort}")
            ranking = RunFile.from_arrays(query_ids, doc_ids, found, scores)
            yield {
                "index": name,
                "efSearch": effort,
                "order": order,
                "recall_at_10": _shared(found[:, :10], exact),
                "value": per_query(ranking, qrels, [FIRST])[FIRST].mean(),
                "bytes": index.size / len(vectors),
            }


def _query_vectors(run: Searched, store: Store) -> np.ndarray:
    """Return the vectors of the first test queries by the model of a search."""
    model = load_model(store[run.model] / "weights")
    texts = run.queries[0].frame(store)["text"]
    return model.encode_queries(texts.tolist())


def _shared(found: np.ndarray, exact: np.ndarray) -> float:
    """Return the mean share of passages found, int[queries, n], that are also in `exact`."""
    is_same = found[:, :, np.newaxis] == exact[:, np.newaxis]
    return is_same.any(axis=2).mean()


def published_differences() -> pd.DataFrame:
    """Return the differences of two runs in Tables 2 and 4.

    Returns
    -------
    regime, measure, first, second, scaled, rounding
    """
    parts = []
    for (first, second), (number, run, baseline) in PUBLISHED.items():
        cells = published.load("hofstaetter", number).set_index(["run", "measure"])
        of_run = cells.loc[run]
        part = of_run.assign(
            first=first,
            second=second,
            regime=REGIMES[number == 4],
            scaled=of_run["scaled"] - cells.loc[baseline, "scaled"],
            rounding=2 * of_run["rounding"],
        )
        parts.append(part.reset_index())
    columns = ["regime", "measure", "first", "second", "scaled", "rounding"]
    return pd.concat(parts, ignore_index=True)[columns]


def beside_published(means: Effects) -> Effects:
    """Return our differences of the runs that Tables 2 and 4 compare, beside the printed ones.

    Parameters
    ----------
    means
        Means of the systems by regime, measure and model.

    Returns
    -------
    Effects[regime, measure, first, second, difference, low, high, over, published, verdict]
        over: what the interval is over, see `effects`.
    """
    printed = published_differences()
    named = printed[["first", "second"]].drop_duplicates()
    ours = means.contrast("model", list(named.itertuples(index=False, name=None)))
    over_of = means.set_index(["regime", "measure", "model"])["over"]
    over = []
    for row in ours.itertuples():
        systems = [(row.regime, row.measure, model) for model in (row.first, row.second)]
        over.append(weakest_over(over_of[systems]))
    ours.insert(len(ours.columns) - 1, "over", over)
    beside = ours.beside(printed, on=["regime", "measure", "first", "second"])
    return beside[beside["published"].notna()]


def zero_shot_sentence(beside: pd.DataFrame) -> str:
    """Return in words what compressed vectors, searched by HNSW, gain over BM25 in extrapolation.

    `beside`: differences by nDCG@10 beside `published_differences`. "" where it lacks that row.
    """
    is_asked = (beside["first"] == HNSW) & (beside["second"] == BM25)
    rows = beside[is_asked & (beside["measure"] == FIRST)]
    if rows.empty:
        return ""
    row = rows.iloc[0]
    ours = spelled(row["difference"], row["low"], row["high"], "points")
    theirs = with_unit(row["published"], "points")
    return (
        f"In extrapolation, on queries of the same collection (the paper: zero-shot), {HNSW} minus "
        f"{BM25} in {FIRST} is {ours}; "
        f"published: {theirs} ({row['verdict']})."
    )


def with_signal(run: RunFile, signal: pd.Series, weight: float) -> RunFile:
    """Return a run in the order of (1 − weight) · score + weight · signal.

    Both are brought to 0…1 by query.

    Parameters
    ----------
    run
        The run.
    signal
        By doc_id (else the query's lowest), such as entertainment in Hofstätter et al. (TREC 2021,
        section 5).
    weight
        Of the signal, 0 to 1.
    """
    frame = run.frame()
    frame["signal"] = frame["doc_id"].map(signal)
    lowest = frame.groupby("query_id")["signal"].transform("min")
    frame["signal"] = frame["signal"].fillna(lowest).fillna(0.0)
    for name in ("score", "signal"):
        by_query = frame.groupby("query_id")[name]
        low = by_query.transform("min")
        high = by_query.transform("max")
        width = (high - low).where(high > low, 1.0)
        frame[name] = (frame[name] - low) / width
    mixed = (1 - weight) * frame["score"] + weight * frame["signal"]
    return RunFile.from_frame(frame.assign(score=mixed))


def guarded(
    run: RunFile, signal: pd.Series, qrels: pd.DataFrame, guard: float = 0.05
) -> pd.DataFrame:
    """Return what each weight of a signal, in tenths, gains and costs.

    Parameters
    ----------
    run, signal
        See `with_signal`.
    qrels
        Judgements of the run's queries.
    guard
        What a weight may cost, in nDCG@30.

    Returns
    -------
    weight, value (nDCG@30), signal (mean of the first ten passages), allowed (costs `guard` or
    less)
    """
    rows = []
    for weight in np.arange(11) / 10:
        mixed = with_signal(run, signal, weight)
        value = per_query(mixed, qrels, ["nDCG@30"])["nDCG@30"].mean()
        first_ten = mixed.frame().query("rank <= 10")["doc_id"]
        mean_signal = first_ten.map(signal).mean()
        rows.append((weight, value, mean_signal))
    table = pd.DataFrame(rows, columns=["weight", "value", "signal"])
    least = table["value"].iloc[0] - guard
    return table.assign(allowed=table["value"] >= least)


def training_runs(design: pd.DataFrame) -> pd.DataFrame:
    """Return what is trained: trained system, training sets, training queries, seeds.

    A row a recipe, under the first system of the design that searches with it or reranks by it; all
    other systems search or fuse the results of these.
    """
    side = side_of(design)
    rows, seen = [], []
    for model, runs in design.groupby("model", sort=False):
        trained = _trained_of(runs["run"].iloc[0])
        if trained is None or trained.identity in seen:
            continue
        seen.append(trained.identity)
        is_reranker = trained.recipe.architecture == "reranker"
        rows.append(
            {
                "trained system": f"cross-encoder of {model}" if is_reranker else model,
                in_text(side): ", ".join(map(str, runs[side].unique())),
                "training queries": trained.train.size(),
                "seeds": ", ".join(map(str, runs["seed"].unique())),
            }
        )
    return pd.DataFrame(rows)


def _trained_of(run: Ranking) -> Model | None:
    """Return the model that a ranking searches with or reranks by; None for a fusion."""
    if isinstance(run, Searched):
        return run.encoded.model
    return getattr(run, "model", None)


def side_of(table: pd.DataFrame) -> str:
    """Return the column that names the training set: regime, or left_out under ReSTTest."""
    return "regime" if "regime" in table else "left_out"


def in_text(side: str) -> str:
    """Return the name of `side_of` for the page."""
    return {"regime": "training sets", "left_out": "buckets left out"}[side]


def unprefixed(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return a table whose systems in a column are named without the name of the full system."""
    short = table[column].str.removeprefix(f"{FULL}, ")
    return table.assign(**{column: short})


def sizes_page(table: pd.DataFrame) -> pd.DataFrame:
    """Return `sizes` for the page, in whole bytes."""
    whole = table.round({"bytes_per_passage": 0}).astype({"bytes_per_passage": int})
    return whole.rename(columns=lambda name: name.replace("_", " "))


def recalls(measured: pd.DataFrame) -> pd.DataFrame:
    """Return mean, least and largest recall@10 of `approximate` over orders of insertion.

    Returns
    -------
    index, efSearch, regime or left_out, recall, low, high
    """
    by = ["index", "efSearch", side_of(measured)]
    recall = measured.groupby(by, sort=False)["recall_at_10"].agg(["mean", "min", "max"])
    return recall.set_axis(["recall", "low", "high"], axis=1).reset_index()


def recall_sentences(measured: pd.DataFrame) -> list[str]:
    """Return how far orders of insertion move the recall, and the bytes of a passage, in words.

    `measured`: of `approximate`.
    """
    recall = recalls(measured)
    spread = (recall["high"] - recall["low"]).max()
    n_orders = measured["order"].nunique()
    sentences = [
        f"Bands: least and most over {n_orders} orders, which move recall@10 by up to "
        f"{100 * spread:.1f} points."
    ]
    for name, part in measured.groupby("index", sort=False):
        sentences.append(f"{name}: {part['bytes'].mean():.0f} bytes per passage")
    return sentences


def weights_sentence(table: pd.DataFrame) -> str:
    """Return the range of BM25's weight in the hybrids of each collection; "" without any.

    Parameters
    ----------
    table
        collection, weight: `weights` of the committed run on real collections.
    """
    if table.empty:
        return ""
    ranges = []
    for collection, weights in table.groupby("collection", sort=False)["weight"]:
        ranges.append(f"{collection} {weights.min():.1f} to {weights.max():.1f}")
    return f"Weight of BM25 in the hybrid: {'; '.join(ranges)}."


def weights_page(table: pd.DataFrame) -> pd.DataFrame:
    """Return `weights` for the page."""
    names = {"weight": "weight of BM25", "left_out": "left out", "n_train": "training queries"}
    return table.rename(columns=names)


def brevity(design: pd.DataFrame, collection: Any, store: Store) -> pd.DataFrame:
    """Return `guarded` of the first weighted hybrid with brevity as the signal.

    Brevity is the negative number of words of a passage; the costs are on the queries on which the
    hybrid was tuned.
    """
    run = design.loc[design["model"] == WEIGHTED, "run"].iloc[0]
    passages = collection.passages
    texts = passages.texts(slice(None))
    n_words = [len(text.split()) for text in texts]
    signal = -pd.Series(n_words, passages.doc_ids.to_pylist(), dtype=float)
    return guarded(run.read(store, run.tuned), signal, run.tuned.qrels(store))


def published_page(beside: pd.DataFrame) -> pd.DataFrame:
    """Return differences beside `published_differences` for the page, in points."""
    page = with_interval(beside, "difference", "points")
    page["published"] = [with_unit(value, "points") for value in beside["published"]]
    page["first minus second"] = page["first"] + " minus " + page["second"]
    return page[["regime", "first minus second", "measure", "difference", "published", "verdict"]]
