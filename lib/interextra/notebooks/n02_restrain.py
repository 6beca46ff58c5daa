"""Notebook 02: each system in both regimes of ReSTrain.

And what the size of a training set and its distance from the test queries do, each by itself. Zhan
et al. (CIKM 2022), Table 6. Notebook 05 builds on it.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from interextra.data.collection import Collection
from interextra.data.queries import TRAINED, Part
from interextra.data.words import lower_words
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.search.vectors import QueryVectors
from interextra.notebooks import plans
from interextra.notebooks.parameters import (
    AnyThousands,
    Count,
    DrawParameters,
    Entries,
    GateParameters,
    Measures,
    Names,
    Relevance,
    Seeds,
    Sizes,
    Thousands,
    parameter,
)
from interextra.papers import published
from interextra.papers.releases import real_vectors
from interextra.splits.restrain import BANDS, ReSTrain
from interextra.splits.similarity import nearest
from interextra.splits.split import REGIMES
from interextra.stats.bootstrap import ratio
from interextra.stats.effects import Effects
from interextra.stats.formatting import spelled, with_unit
from interextra.store.folders import Store


class Parameters(DrawParameters, GateParameters):
    """Parameters of notebook 02, ReSTrain."""

    recipes: Entries = parameter(
        ["bm25", "mini-dense"], "systems", paper="BERT-base, 50 epochs, 1,024 random negatives"
    )
    seeds: Seeds = parameter(
        [1], "seeds, one per training run", paper="it does not report how many"
    )
    measures: Measures = parameter(["nDCG@10", "R@100"], "measures", paper="nDCG@10 and R@100")
    real_msmarco: bool = parameter(
        False, "compare with the released sets, on real queries (folder: INTEREXTRA_DATA)"
    )
    test_splits: Names = parameter(
        ["test", "graded"], "they decide what is near", paper="the 97 judged of DL19 and DL20"
    )
    negative_passages: str = parameter(
        "all", "which passages may be negatives: all, unexposed, control: see 09", paper="all"
    )
    grid_sizes: Sizes = parameter(
        [112, 360, 640], "training queries of the random sets per band; at most a third of all"
    )
    grid_draws: AnyThousands = parameter(1, "random sets per size and band; 0: none")
    grid_seeds: Seeds = parameter([1], "seeds of training on each of them")
    grid_steps: Count = parameter(
        20, "training steps on them; 0: as `steps`; more overfit the smallest sets"
    )
    recall_relevance: Relevance = parameter(
        2,
        "relevance from which R@100 counts; 2 reproduces the paper's BM25",
        paper="it does not say",
    )
    real_encoders: Names = parameter(["minilm", "lsa"], "encoders for the real queries")
    real_neighbours: Thousands = parameter(10, "nearest training queries per judged DL query")


def plan(p: Parameters) -> plans.Plan:
    """Return each system in both regimes; of the trained ones also what tells size from distance.

    Returns
    -------
    Plan
        Frames of runs: `design` (each size and regime), `grid` (see `_grid`) and `draws` (see
        `plans.runs_of_draws`). Beside them `measures`, `vectors`, `split`, `banded` (the split with
        the sets of the grid; None without a grid), and `real` (encoder → vectors of the real
        queries).
    """
    split = plans.restrain_of(p, p.sizes)
    systems = plans.with_bm25(plans.systems(p))
    queries = (*plans.test_queries(p, p.test_splits), *plans.gate_queries(p))
    banded = _banded(p, split.vectors)
    grid = _grid(p, banded, queries)
    draws = plans.runs_of_draws(p, systems, plans.draws_of(p))
    training_sets = plans.in_both_regimes(split, p.sizes)
    runs = plans.runs(p, systems, training_sets, queries)
    real_encoders = p.real_encoders if p.real_msmarco else []
    return plans.Plan(
        measures=plans.from_relevance(p.measures, p.recall_relevance),
        vectors=split.vectors,
        split=split,
        banded=None if grid.empty else banded,
        real={encoder: real_vectors(encoder) for encoder in real_encoders},
        design=plans.design(runs),
        grid=grid,
        draws=draws,
    )


def _banded(p: Parameters, vectors: QueryVectors) -> ReSTrain | None:
    """Return ReSTrain with random sets of three bands of distance; None without `grid_draws`."""
    if not p.grid_draws:
        return None
    sizes = tuple(p.grid_sizes)
    return ReSTrain(vectors=vectors, sizes=sizes, match=p.match, draws=p.grid_draws, seed=p.seed)


def _grid(
    p: Parameters, banded: ReSTrain | None, queries: tuple[plans.AnyQueries, ...]
) -> pd.DataFrame:
    """Return runs of the trained systems on the random sets: size and distance vary apart.

    Columns: model, n_train, band, draw, seed, run; no rows without `grid_draws`.
    """
    if not p.grid_draws:
        return pd.DataFrame()
    of_grid = p.changed(steps=p.grid_steps or p.steps, seeds=p.grid_seeds)
    systems = plans.systems(of_grid)
    trained = {label: system for label, system in systems.items() if system.training_steps(1)}
    random_sets = []
    draws = range(p.grid_draws)
    for size, band, draw in itertools.product(p.grid_sizes, BANDS, draws):
        labels = {"n_train": size, "band": band, "draw": draw}
        part = Part(of=banded, part=f"{band}-{size}-{draw}")
        random_sets.append(plans.TrainingSet(labels, part))
    return pd.DataFrame(plans.runs(of_grid, trained, random_sets, queries))


def moderators(data: Collection, train_split: str, test_splits: Sequence[str]) -> pd.DataFrame:
    """Return what may decide how large an effect is on a collection, one row.

    Parameters
    ----------
    data
        The collection.
    train_split, test_splits
        Of the training and of the test queries.

    Returns
    -------
    pandas.DataFrame
        n_passages, n_train, n_test; answers_trained: share of the test queries that are answered by
        a passage which answers a training query, too; words_in_answer: mean share of the distinct
        words of a test query that are in its first answer.
    """
    trained = _answers(data.qrels(train_split))
    tested = pd.concat([_answers(data.qrels(split)) for split in test_splits])
    is_trained = tested["doc_id"].isin(trained["doc_id"])
    answers_trained = is_trained.groupby(tested["query_id"]).any()
    queries = pd.concat([data.queries(split) for split in test_splits]).set_index("query_id")
    first = tested.drop_duplicates("query_id")
    texts = data.passages.texts(data.passages.rows(first["doc_id"].tolist()))
    shares = []
    for query, passage in zip(queries.loc[first["query_id"], "text"], texts, strict=True):
        asked = set(lower_words(query))
        shares.append(len(asked.intersection(lower_words(passage))) / max(1, len(asked)))
    row = {
        "n_passages": len(data.passages),
        "n_train": len(data.query_ids(train_split)),
        "n_test": len(first),
        "answers_trained": answers_trained.mean(),
        "words_in_answer": np.mean(shares),
    }
    return pd.DataFrame([row])


def _answers(qrels: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements that are relevant."""
    return qrels[qrels["relevance"] >= TRAINED]


def gate_of_bands(gate: pd.DataFrame, grid: pd.DataFrame) -> pd.DataFrame:
    """Return the gate of the grid: its largest sets of the nearest band, and BM25 beside them.

    Training hardly changes BM25: its values are those of the largest size of the design.

    Parameters
    ----------
    gate
        Values of the design on the queries of the gate.
    grid
        Those of the grid.

    Returns
    -------
    pandas.DataFrame
        Values of both; those of the design without the largest size of the grid.
    """
    largest = grid["n_train"].max()
    is_bm25 = gate["model"] == BM25
    is_of_most_queries = gate["n_train"] == gate["n_train"].max()
    bm25 = gate[is_bm25 & is_of_most_queries].assign(n_train=largest)
    other_sizes = gate[gate["n_train"] != largest]
    best = grid[_is_largest_and_near(grid)]
    return pd.concat([other_sizes, best, bm25], ignore_index=True)


def _is_largest_and_near(grid: pd.DataFrame) -> pd.Series:
    """Return whether each row of a grid is of its largest sets of the nearest band."""
    is_near = grid["band"] == BANDS[0]
    is_largest = grid["n_train"] == grid["n_train"].max()
    return is_near & is_largest


def grid_runs(values: pd.DataFrame, sets: pd.DataFrame) -> pd.DataFrame:
    """Return a row per run and measure of the values of a grid.

    Parameters
    ----------
    values
        Values of the plan's `grid`.
    sets
        sets.csv of its split: set, mean_max_similarity.

    Returns
    -------
    pandas.DataFrame
        model, measure, set, n_train, band, draw, seed; nearest_similarity, the mean cosine of a
        set's queries to their nearest test query; value, the mean over the test queries; delta, its
        relative difference from the mean of the largest sets of the nearest band.
    """
    labels = ["n_train", "band", "draw", "seed"]
    of_run = values.groupby(["model", "measure", *labels], sort=False)
    runs = of_run["value"].mean().reset_index()
    size = runs["n_train"].astype(str)
    draw = runs["draw"].astype(str)
    runs["set"] = runs["band"].str.cat([size, draw], sep="-")
    similarities = sets.set_index("set")["mean_max_similarity"]
    runs["nearest_similarity"] = runs["set"].map(similarities)
    best = runs["value"].where(_is_largest_and_near(runs))
    of_model = best.groupby([runs["model"], runs["measure"]])
    mean_of_best = of_model.transform("mean")
    runs["delta"] = ratio(runs["value"], mean_of_best) - 1
    return runs[["model", "measure", "set", *labels, "nearest_similarity", "value", "delta"]]


def size_and_distance(runs: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Regress delta on the size of a training set and its distance from the test queries.

    By least squares. Errors are clustered by set, as its trainings are not independent, by
    Student's t.

    Parameters
    ----------
    runs
        Of `grid_runs`.
    by
        Labels with a regression each.

    Returns
    -------
    pandas.DataFrame
        *by, term, delta, low, high, n_sets, n_runs: what twice the training queries and what 0.1
        more similarity add to delta, each in the middle of the other, and both at once beyond that.
    """
    from statsmodels.api import OLS, add_constant

    rows = []
    for labels, runs_of_one in runs.groupby(list(by), sort=False):
        terms = _terms(runs_of_one)
        set_numbers, sets = pd.factorize(runs_of_one["set"])
        regression = OLS(runs_of_one["delta"], add_constant(terms))
        fitted = regression.fit(cov_type="cluster", cov_kwds={"groups": set_numbers}, use_t=True)
        intervals = fitted.conf_int()
        counts = (len(sets), len(runs_of_one))
        for term in terms:
            effect = (fitted.params[term], *intervals.loc[term])
            rows.append((*labels, term, *effect, *counts))
    columns = [*by, "term", "delta", "low", "high", "n_sets", "n_runs"]
    return pd.DataFrame(rows, columns=columns)


def _terms(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the terms of the regression, size and similarity each less its mean."""
    doublings = np.log2(runs["n_train"])
    doublings -= doublings.mean()
    nearer = 10 * runs["nearest_similarity"]
    nearer -= nearer.mean()
    return pd.DataFrame(
        {
            "twice the training queries": doublings,
            "0.1 more similarity": nearer,
            "both at once, beyond their sum": doublings * nearer,
        }
    )


def size_trend(losses: Effects) -> Effects:
    """Return Δ of the largest training sets minus Δ of the smallest, of neural systems.

    Above 0: more training queries leave a smaller loss. The smaller extrapolation sets are more
    distant, too (`size_and_distance` separates both). Without two sizes there is no row.

    Parameters
    ----------
    losses
        Effects by n_train, model, measure.

    Returns
    -------
    Effects[model, measure, first, second (the sizes), difference, low, high]
    """
    of_neural = losses[losses["model"] != BM25]
    smallest, largest = of_neural["n_train"].min(), of_neural["n_train"].max()
    if smallest == largest:
        return of_neural.iloc[:0]
    return of_neural.contrast("n_train", [(largest, smallest)])


def size_trend_sentences(trend: pd.DataFrame, source: str) -> list[str]:
    """Return a sentence for each row of `size_trend`, with the difference in Zhan's Table 6.

    `source`: whose rows these are, which begins each sentence.
    """
    printed = published.zhan_deltas().query("protocol == 'ReSTrain'")
    printed = printed.set_index(["published_n_train", "model", "measure"])["scaled"]
    largest, smallest = published.SIZES[-1], published.SIZES[0]
    sentences = []
    for row in trend.itertuples():
        key = (row.model, row.measure)
        theirs = printed[largest, *key] - printed[smallest, *key]
        ours = spelled(row.difference, row.low, row.high, "points")
        sizes = f"at {row.first:,} training queries minus Δ at {row.second:,}"
        sentences.append(
            f"{source}, {row.model}, Δ of {row.measure} {sizes}: {ours};\n"
            f"published, {largest} minus {smallest}: {with_unit(theirs, 'points')}."
        )
    return sentences


def query_losses(values: pd.DataFrame) -> pd.DataFrame:
    """Return interpolation minus extrapolation of each query, float[query_id × model].

    Parameters
    ----------
    values
        Of one size and measure; the mean is over trainings.
    """
    means = values.pivot_table(
        index="query_id", columns=["regime", "model"], values="value", sort=False
    )
    interpolation, extrapolation = REGIMES
    return means[interpolation] - means[extrapolation]


def nearest_queries(split: ReSTrain, size: int, store: Store) -> pd.DataFrame:
    """Return the nearest training query of each test query in both sets of a size.

    Returns
    -------
    pandas.DataFrame
        query_id, regime, similarity, nearest (its id).
    """
    train, test = split.vectors.read(store)
    train_ids = np.array(split.pool.ids(store), dtype=object)
    test_ids = [query_id for queries in split.vectors.test for query_id in queries.ids(store)]
    sets = split.sets(store)
    parts = []
    for regime in REGIMES:
        in_set = np.isin(train_ids, sets[f"{regime}-{size}"])
        ids_in_set = train_ids[in_set]
        cosines, nearest_rows = nearest(test, train[in_set], k=1)
        part = pd.DataFrame({"query_id": test_ids, "regime": regime})
        part["similarity"] = cosines[:, 0]
        part["nearest"] = ids_in_set[nearest_rows[:, 0]]
        parts.append(part)
    return pd.concat(parts, ignore_index=True)
