"""Notebook 02: each system in both regimes of ReSTrain.

And what the size of a training set and its distance from the test queries do, each by itself. Zhan
et al. (CIKM 2022), Table 6. Notebook 05 builds on it.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from interextra.claims.claim import every_claim
from interextra.claims.wording import DATA, data_name
from interextra.data.collection import Collection
from interextra.data.queries import Part
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
from interextra.overlap import trained_answers
from interextra.papers import published
from interextra.papers.releases import real_vectors
from interextra.splits.restrain import BANDS, Neighbourhood, Regimes, ReSTrain
from interextra.splits.similarity import nearest
from interextra.splits.split import REGIMES
from interextra.stats.bootstrap import ratio
from interextra.stats.effects import Effects, across, effects
from interextra.stats.formatting import spelled, with_interval, with_unit
from interextra.store.folders import Store

SYSTEM = ["n_train", "model", "measure"]  # what names a row of the tables of this notebook
NEAREST = "mean cosine to the nearest test query"  # of a training set, as the figure names it
NEARER = "0.1 more similarity"  # a term of the regression
NAMES = {  # columns of tables → their headings on the page
    "delta": "Δ [95 % CI]",
    "published_n_train": "published size",
    "published": "published Δ",
    "cohen_d": "Cohen's d",
    "better": "wins",
    "worse": "losses",
    "n_sets": "sets",
    "n_runs": "training runs",
}


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
    if p.test_draws:  # they are compared with the sets of all test queries at once
        plans.refuse_unknown("draw_train", [p.draw_train], p.sizes)
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
    trained = trained_answers.relevant(data, [train_split])
    tested = trained_answers.relevant(data, test_splits)
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


def shared_answers(
    data: Collection, p: Parameters, sets: Mapping[str, Sequence[str]], closest: pd.DataFrame
) -> pd.DataFrame:
    """Return in which of the largest sets a relevant passage of a test query is a positive.

    Parameters
    ----------
    data
        The collection.
    p
        Parameters of the notebook.
    sets
        Of ReSTrain: name of a set → ids of its training queries.
    closest
        Of `nearest_queries`.

    Returns
    -------
    pandas.DataFrame
        See `overlap.trained_answers.by_trained_answers`.
    """
    tested = trained_answers.relevant(data, p.test_splits)
    trained = trained_answers.relevant(data, [p.train_split])
    has_positive_in = {
        regime: trained_answers.has_positive(tested, trained, sets[f"{regime}-{max(p.sizes)}"])
        for regime in REGIMES
    }
    in_interpolation = closest[closest["regime"] == REGIMES[0]]
    similarity = in_interpolation.set_index("query_id")["similarity"]
    return trained_answers.by_trained_answers(has_positive_in, similarity)


def described_sets(tuned: Mapping[int, Regimes]) -> pd.DataFrame:
    """Return I, E and the mean similarity of the sets of each size.

    Parameters
    ----------
    tuned
        Size → its sets, of `splits.restrain.restrain`.

    Returns
    -------
    pandas.DataFrame
        size, I, E, similarity of interpolation, of extrapolation: mean cosine of the training
        queries of a set to their nearest test query.
    """
    columns = ["size", "I", "E", "similarity of interpolation", "of extrapolation"]
    rows = []
    for size, found in tuned.items():
        cosines = (found.interpolation_similarity, found.extrapolation_similarity)
        rows.append((size, found.top_i, found.top_e, *cosines))
    return pd.DataFrame(rows, columns=columns)


def cosines_of_sets(space: Neighbourhood, tuned: Mapping[int, Regimes]) -> pd.DataFrame:
    """Return the cosine of each training query to its nearest test query, for the figure.

    Parameters
    ----------
    space
        Where the training queries lie.
    tuned
        Size → its sets, of `splits.restrain.restrain`.

    Returns
    -------
    pandas.DataFrame
        size (in words), regime, cosine: a row a training query of a set.
    """
    parts = []
    for size, found in tuned.items():
        for regime in REGIMES:
            rows = getattr(found, regime)
            labels = {"size": f"{size:,} training queries", "regime": regime}
            cosines = space.similarity[rows].astype(float)
            parts.append(pd.DataFrame({"cosine": cosines}).assign(**labels))
    return pd.concat(parts, ignore_index=True)[["size", "regime", "cosine"]]


def largest_loss_sentences(table: pd.DataFrame, measure: str) -> list[str]:
    """Return a sentence for each system: at which training-set size its Δ is lowest.

    Parameters
    ----------
    table
        Effects by n_train, model, measure.
    measure
        The one to look at.
    """
    sentences = []
    of_measure = table[table["measure"] == measure]
    for model, rows in of_measure.groupby("model", sort=False):
        lowest = rows.loc[rows["delta"].idxmin()]
        change = spelled(lowest["delta"], lowest["low"], lowest["high"])
        sizes = f"with {lowest['n_train']:,} training queries"
        if len(rows) > 1:
            sizes = f"lowest {sizes}"
        sentences.append(f"{model}: Δ of {measure} is {change}, {sizes}.")
    return sentences


def beside_page(beside: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the rows of a measure beside the published ones, for the page.

    Of BM25 one size is published, with which all of ours are compared.

    Parameters
    ----------
    beside
        Effects with the columns published_n_train, published and verdict.
    measure
        The one to show.
    """
    page = with_interval(beside[beside["measure"] == measure])
    is_bm25 = page["model"] == BM25
    page["published_n_train"] = page["published_n_train"].mask(is_bm25, published.SIZES[0])
    columns = ["n_train", "published_n_train", "model", "delta", "published", "verdict"]
    return page[columns].rename(columns=NAMES)


def over_draws(each: Effects, at_once: pd.DataFrame, p: Parameters) -> pd.DataFrame:
    """Return Δ over draws of few test queries, and below it with all test queries at once.

    Parameters
    ----------
    each
        Effects by draw, n_train, model and measure.
    at_once
        Effects of the whole test set by n_train, model and measure.
    p
        Parameters of the notebook.

    Returns
    -------
    pandas.DataFrame
        n_train, model, measure, test_queries (in words), delta, low, high, n_trainings (of all
        draws together). Intervals over draws are Student's, see `stats.effects.across`.
    """
    drawn = across(each, "draw", SYSTEM, "delta")
    trainings = each.groupby(SYSTEM, sort=False)["n_trainings"].sum()
    in_words = f"{p.test_draws} × {p.test_size}"
    drawn = drawn.merge(trainings.reset_index(), on=SYSTEM).assign(test_queries=in_words)
    same_size = at_once[at_once["n_train"] == p.draw_train]
    both = pd.concat([drawn, same_size.assign(test_queries="all at once")])
    return both[[*SYSTEM, "test_queries", "delta", "low", "high", "n_trainings"]]


def draws_sentence(few: pd.DataFrame, measure: str, p: Parameters) -> str:
    """Return Δ of DR with sets selected for few test queries, and for all at once.

    Parameters
    ----------
    few
        Of `over_draws`.
    measure
        The one to name.
    p
        Parameters of the notebook.
    """
    over, at_once = _dense_over_draws(few, measure)
    chosen = f"{p.draw_train:,} training queries selected for {p.test_size} test queries"
    return (
        f"DR (base), {chosen} ({p.test_draws} draws): Δ {measure} {over}, over the draws with "
        "their training sets (the claim's own interval is over the queries of these draws alone); "
        f"for all test queries {at_once} (individual intervals)."
    )


def draws_in_short(few: pd.DataFrame, measure: str, p: Parameters) -> str:
    """Return `draws_sentence` for the first screen."""
    over, at_once = _dense_over_draws(few, measure)
    return (
        f"Δ {measure} of DR (base), sets for {p.test_size} test queries at a time: {over}; for all "
        f"at once: {at_once}."
    )


def _dense_over_draws(few: pd.DataFrame, measure: str) -> tuple[str, str]:
    """Return Δ of DR over draws of test queries, and of all at once, with their intervals."""
    is_dense = few["model"] == "DR (base)"
    of_measure = few[is_dense & (few["measure"] == measure)]
    over, at_once = with_interval(of_measure)["delta"]
    return over, at_once


def mean_agreement(per_query: pd.DataFrame) -> pd.DataFrame:
    """Return the mean shares of `papers.releases.released_agreement` by encoder and size."""
    shares = per_query.drop(columns="query_id")
    return shares.groupby(["encoder", "size"], sort=False).mean().reset_index()


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


def effects_of_thirds(values: pd.DataFrame, seed: int, n_boot: int) -> Effects:
    """Return the mean of each third of a grid, over its random sets and their training runs.

    Parameters
    ----------
    values
        Values of the plan's `grid` on the test queries.
    seed, n_boot
        Of the bootstrap.

    Returns
    -------
    Effects[model, n_train, band, measure, mean, low, high]
        A set and seed count as one training run.
    """
    draw = values["draw"].map(str)
    training = draw.str.cat(values["seed"].map(str), sep=", ")
    labels = ["model", "n_train", "band", "measure"]
    return effects(values.assign(seed=training), labels, seed=seed, n_boot=n_boot)


def grid_points(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a point for each size and third of a grid, for the figure.

    Parameters
    ----------
    runs
        Of `grid_runs`.

    Returns
    -------
    pandas.DataFrame
        measure, n_train, band, NEAREST and delta (means over the runs); with several runs of a
        point also low and high, the lowest and the highest delta.
    """
    labels = ["measure", "n_train", "band"]
    columns = {NEAREST: ("nearest_similarity", "mean"), "delta": ("delta", "mean")}
    if runs.duplicated(labels).any():
        columns |= {"low": ("delta", "min"), "high": ("delta", "max")}
    return runs.groupby(labels, sort=False).agg(**columns).reset_index()


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


def from_distance(fitted: pd.DataFrame, sets: pd.DataFrame, measure: str) -> np.ndarray:
    """Return what the distance alone makes of Δ of ReSTrain sets, by the regression.

    Parameters
    ----------
    fitted
        Of `size_and_distance`.
    sets
        Of `described_sets`.
    measure
        Of the regression.

    Returns
    -------
    numpy.ndarray
        float[n_sizes], as a fraction, in the order of the sets.
    """
    is_distance = (fitted["term"] == NEARER) & (fitted["measure"] == measure)
    slope = fitted.loc[is_distance, "delta"].mean()
    nearer = sets["of extrapolation"] - sets["similarity of interpolation"]
    return 10 * slope * nearer.to_numpy()


def distance_sentences(
    predicted: pd.Series, losses: pd.Series, runs: pd.DataFrame, sets: pd.DataFrame, is_own: bool
) -> list[str]:
    """Return what distance alone makes of Δ beside the measured one, and where to trust it least.

    Parameters
    ----------
    predicted, losses
        By training-set size: of `from_distance`, and measured.
    runs
        Of `grid_runs`.
    sets
        Of `described_sets`.
    is_own
        Whether the random sets are of this run; else they are of mini.
    """
    sentences = []
    for size, by_distance in predicted.items():
        expected = f"{100 * by_distance:+.0f} %"
        if is_own:
            found = f"{100 * losses[size]:+.0f} %"
            sentences.append(
                f"{size:,} training queries: Δ {expected} by distance, {found} measured."
            )
        else:
            sentences.append(f"{size:,} training queries: the slope of mini gives {expected}.")
    if not is_own:
        sentences.append("This predicts nothing here: collection and model are others than mini's.")
        return sentences
    low, high = runs["nearest_similarity"].agg(["min", "max"])
    beyond = np.maximum(low - sets["of extrapolation"], sets["similarity of interpolation"] - high)
    if beyond.max() <= 0:
        sentences.append("All sets lie within the similarities of the random sets.")
        return sentences
    size = sets["size"][beyond.idxmax()]
    sentences.append(
        f"Trust it least with {size:,}: the similarity of these sets lies {beyond.max():.2f} "
        f"beyond the range {low:.2f} to {high:.2f} of the random sets."
    )
    return sentences


def equality_sentences(reference: Callable[[str, str], pd.DataFrame]) -> list[str]:
    """Return the p-value of each claim whose effect is shown to be within its margin.

    Of the committed runs that decide. The tests correspond to narrower intervals than the
    simultaneous ones, which can reach beyond the margin.

    Parameters
    ----------
    reference
        Profile and name of a table → the committed table of this notebook, as `nb.reference`.
    """
    sentences = []
    for data, profile in DATA.items():
        table = reference(profile, "claims")
        if table.empty:
            continue
        for row in table[table["size"].notna()].itertuples():
            claim = every_claim()[row.claim]
            p_value = "< .001" if row.p_size < 0.001 else f"= {row.p_size:.3f}"
            sentences.append(f"- {data_name(data, claim)}, p {p_value}: {claim.sentence}")
    heading = "Within the margin by two one-sided tests (p after Holm's correction):"
    return [heading, *sentences] if sentences else []


def regression_page(fitted: pd.DataFrame) -> pd.DataFrame:
    """Return a table of `size_and_distance` for the page; without rows where there is none."""
    columns = ["model", "measure", "term", "delta", "low", "high", "n_sets", "n_runs"]
    return with_interval(fitted.reindex(columns=columns)).rename(columns=NAMES)


def _terms(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the terms of the regression, size and similarity each less its mean."""
    doublings = np.log2(runs["n_train"])
    doublings -= doublings.mean()
    nearer = 10 * runs["nearest_similarity"]
    nearer -= nearer.mean()
    return pd.DataFrame(
        {
            "twice the training queries": doublings,
            NEARER: nearer,
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
        ours = spelled(row.difference, row.low, row.high, "percentage points of Δ")
        sizes = f"at {row.first:,} training queries minus Δ at {row.second:,}"
        sentences.append(
            f"{source}, {row.model}, Δ of {row.measure} {sizes}: {ours};\n"
            f"published, {largest} minus {smallest}: {with_unit(theirs, 'percentage points of Δ')}."
        )
    return sentences


def retained_sentences(table: pd.DataFrame, measure: str) -> list[str]:
    """Return which share of its effectiveness each system retains with the largest training sets.

    Parameters
    ----------
    table
        Effects by n_train, model, measure.
    measure
        The one to look at.
    """
    is_largest = table["n_train"] == table["n_train"].max()
    rows = table[is_largest & (table["measure"] == measure)]
    sentences = []
    for row in rows.itertuples():
        share, low, high = (
            f"{100 * (1 + change):.0f}" for change in (row.delta, row.low, row.high)
        )
        sentences.append(
            f"{row.model} retains {share} % [{low}, {high}] of its {measure} in interpolation, "
            f"with {row.n_train:,} training queries."
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


def losses_with_nearest(
    losses: pd.Series, closest: pd.DataFrame, queries: pd.DataFrame
) -> pd.DataFrame:
    """Return some test queries with their loss and their nearest training query in both sets.

    Parameters
    ----------
    losses
        query_id → loss.
    closest
        Of `nearest_queries`.
    queries
        query_id and text of training and test queries.

    Returns
    -------
    pandas.DataFrame
        query, loss, regime, similarity, nearest: both queries as text.
    """
    texts = queries.set_index("query_id")["text"]
    found = closest[closest["query_id"].isin(losses.index)].sort_values(["query_id", "regime"])
    page = found.assign(
        query=found["query_id"].map(texts),
        loss=found["query_id"].map(losses),
        nearest=found["nearest"].map(texts),
    )
    return page[["query", "loss", "regime", "similarity", "nearest"]]


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
