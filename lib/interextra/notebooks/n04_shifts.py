"""Notebook 04: how much a retriever loses on kinds of query that it did not see in training.

Lupart et al., ECIR 2023, §4 and §5.1. An effect is Out / Avg In - 1, the paper's RelLoss with the
other sign: negative is a loss (of ASL, positive is).
"""

import itertools
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import pandas as pd

from interextra.data.load import data_folder
from interextra.data.queries import Part, Queries
from interextra.measures.evaluate import worse
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.architectures.dense import LABEL as DENSE
from interextra.models.search.vectors import Vectors
from interextra.notebooks import plans
from interextra.notebooks.parameters import (
    AnyNames,
    Distinct,
    Entries,
    NamesByName,
    Positive,
    ShiftParameters,
    parameter,
)
from interextra.papers import published
from interextra.papers.releases import real_vectors
from interextra.splits.clusters import agreement, distinctive_words
from interextra.splits.shift import Shift
from interextra.splits.topics import SWITCHES, Topics, topics
from interextra.splits.years import ANY_YEAR, NewPassages, UpToYear, part_of
from interextra.stats.effects import Effects
from interextra.stats.formatting import spelled, with_unit
from interextra.store import InputError, Store

Options = dict[str, Any]  # arguments of `splits.topics.topics`
UP_TO = "up to the year"
# The question word that loses most in the paper (instrumental questions, section 5.1), the others
HOW = "how"
OTHER_WORDS = ("who", "wha")
AGES = (1, 3, 5)  # years since that of the newest training query


class Parameters(ShiftParameters):
    """Parameters of notebook 04, leave-one-out shifts."""

    only: NamesByName = parameter(
        {
            "topics": ["DR (base)", "ColBERT", "SPLADE", "BM25, fixed"],
            "wh-words": ["DR (base)", "ColBERT", "SPLADE", "BM25, fixed"],
            "length": ["DR (base)", "BM25, fixed"],
        },
        "shift: its systems beside BM25; of shifts that are not named all. Topics with the "
        "reranker: profiles worlds and small",
    )
    recipes: Entries = parameter(
        [
            "bm25",
            {"label": "BM25, fixed", "recipe": "bm25", "k1": [0.9], "b": [0.4]},
            "mini-reranker",
            {
                "recipe": "mini-colbert",
                "steps": 60,
                "negatives": "bm25+in-batch",
                "n_negatives": 1,
                "negative_depth": 20,
            },
            {
                "recipe": "mini-splade",
                "steps": 60,
                "negatives": "bm25+in-batch",
                "n_negatives": 1,
                "negative_depth": 20,
            },
            {
                "recipe": "mini-dense",
                "steps": 60,
                "negatives": "bm25+in-batch",
                "n_negatives": 1,
                "negative_depth": 20,
            },
        ],
        "systems; negatives as in the paper, BM25's and in-batch, but for the reranker: it learns "
        "nothing from them here",
    )
    test_splits: AnyNames = parameter(
        [], "splits whose queries measure, of shifts but topics; empty: n_test of each cluster"
    )
    negative_passages: str = parameter(
        "all", "which passages may be negatives: all, unexposed, control: see 09", paper="all"
    )
    years: Annotated[list[Positive], Distinct] = parameter(
        [], "time as a shift: train on queries up to each of these years; empty: not asked"
    )
    year_column: str = parameter("year", "of the queries, for `years`")


def plan(p: Parameters) -> plans.Plan:
    """Return each system without each cluster of each shift, also under the control.

    Returns
    -------
    Plan
        `pool` (the queries that are divided), `shifts` (name → Shift, the control's last), `tested`
        (name → the queries that measure it) and `topics`; frames of runs `design` and `control`
        (shift, model, left_out, seed, run), and `years` (negatives, model, up_to, seed, run; none
        without the parameter `years`); with `real_encoder` the vectors `real` and the folder
        of the files `released`, else None.
    """
    shifts = shifts_of(p)
    systems = plans.with_bm25(plans.systems(p))
    control_name = plans.named_shift(p.control).name if p.control else ""
    design, control = [], []
    for name, shift in shifts.items():
        runs = _runs_of_shift(p, systems, name, shift)
        if name == control_name:
            control += runs
        else:
            design += runs
    columns = ["shift", "model", "left_out", "seed", "run"]
    return plans.Plan(
        pool=plans.training_queries(p),
        shifts=shifts,
        tested={name: plans.tested_queries(p, shift) for name, shift in shifts.items()},
        topics=topics_of(p),
        design=pd.DataFrame(design, columns=columns),
        control=pd.DataFrame(control, columns=columns),
        years=_runs_of_years(p, systems),
        real=real_vectors(p.real_encoder) if p.real_encoder else None,
        released=data_folder() / "ms-marco-shift" if p.real_encoder else None,
    )


def _runs_of_shift(
    p: Parameters, systems: plans.Recipes, name: str, shift: Shift
) -> list[plans.Row]:
    """Return rows of a design: the systems of a shift, without each of its clusters."""
    queries = (*plans.tested_queries(p, shift), *plans.gate_queries(p))
    systems_of_shift = plans.asked_of(p, name, systems)
    return plans.runs(p, systems_of_shift, plans.without_each(shift), queries, shift=name)


def _runs_of_years(p: Parameters, systems: plans.Recipes) -> pd.DataFrame:
    """Return runs of each system trained up to each year, and of dense with new passages spared.

    Systems with other negatives than the first of their architecture are left out.
    """
    if not getattr(p, "years", []):  # notebook 07 has none
        return pd.DataFrame()
    pool = plans.training_queries(p)
    split = UpToYear(
        pool=pool, column=p.year_column, years=tuple(p.years), size=p.train_size, seed=p.seed
    )
    training_sets = [
        plans.TrainingSet({"up_to": year}, Part(of=split, part=part_of(year)))
        for year in (*p.years, ANY_YEAR)
    ]
    firsts: dict[str, str] = {}
    for label, recipe in systems.items():
        firsts.setdefault(recipe.architecture, label)
    first = {label: systems[label] for label in firsts.values()}
    tested = plans.test_queries(p, p.test_splits)
    rows = plans.runs(p, first, training_sets, tested, negatives="all")
    rows += [_sparing_new(row, pool, p) for row in rows if _is_spared(row)]
    return pd.DataFrame(rows)


def _is_spared(row: plans.Row) -> bool:
    """Return whether a run is also made without new passages among the negatives."""
    return row["model"] == DENSE and row["up_to"] != ANY_YEAR


def _sparing_new(row: plans.Row, pool: Queries, p: Parameters) -> plans.Row:
    """Return a row whose model has no passages of after its year as negatives."""
    new = NewPassages(pool=pool, column=p.year_column, year=row["up_to"])
    run = row["run"]
    model = run.model.model_copy(update={"spared": new})
    return row | {
        "negatives": "without the new",
        "run": run.model_copy(update={"model": model}),
    }


def years_since(values: pd.DataFrame, ages: Sequence[int] = AGES) -> pd.DataFrame:
    """Return values of models trained up to a year beside those of any year, by age of a query.

    Parameters
    ----------
    values
        Of the plan's `years`, with the year of each query as stratum, "" for none.
    ages
        First years of the groups of queries, counted from the year of the model; queries of before
        are a group, too.

    Returns
    -------
    pandas.DataFrame
        The values once for each year that models were trained up to, with `since` (the year),
        `age` (of the queries) and `trained_on`: `up to the year` or ANY_YEAR. Those of ANY_YEAR
        with all negatives stand beside both kinds of negatives.
    """
    years = pd.to_numeric(values["stratum"], errors="coerce")
    values = values[years.notna()].assign(year=years.dropna())
    is_any = values["up_to"] == ANY_YEAR
    parts = []
    for (since, negatives), old in values[~is_any].groupby(["up_to", "negatives"], sort=False):
        of_models = values["model"].isin(old["model"].unique())
        beside = values[is_any & of_models].assign(negatives=negatives)
        both = pd.concat([old.assign(trained_on=UP_TO), beside.assign(trained_on=ANY_YEAR)])
        parts.append(both.assign(since=since, age=_ages(both["year"] - since, ages)))
    return pd.concat(parts, ignore_index=True)


def _ages(years: pd.Series, ages: Sequence[int]) -> pd.Series:
    """Return the group of each query by the years since a model's."""
    firsts = list(ages)
    names = ["not newer"]
    for first, following in itertools.pairwise([*firsts, None]):
        last = "" if following is None else f" to {following - 1}"
        is_single = following == first + 1
        names.append(f"{first} newer" if is_single else f"{first}{last} newer")
    bins = [-np.inf, *(first - 0.5 for first in firsts), np.inf]
    return pd.cut(years, bins, labels=names).astype(str)


def shifts_of(p: ShiftParameters) -> dict[str, Shift]:
    """Return name → shift, of the parameter `shifts` and, last, of `control`."""
    entries = [*p.shifts, p.control] if p.control else p.shifts
    shifts = {}
    for entry in entries:
        named = plans.named_shift(entry)
        _refuse_untested_topics(p, named)
        given_topics = topics_of(p) if named.by == "topics" else None
        shifts[named.name] = plans.shift_of(p, named, given_topics)
    return shifts


def _refuse_untested_topics(p: ShiftParameters, named: plans.NamedShift) -> None:
    """Refuse topics where queries of other splits measure: these are in none."""
    if named.by == "topics" and getattr(p, "test_splits", []):
        raise InputError(
            "parameter 'test_splits': topics divide training queries alone, so that queries of "
            "other splits measure nothing of them; take other shifts, or hold out n_test"
        )


def topics_of(p: ShiftParameters) -> Topics:
    """Return topic clusters by the vectors of `topic_encoder`, with the notebook's switches.

    Raises
    ------
    InputError
        Other than one value for each switch of `splits.topics`.
    """
    if len(p.topic_switches) != len(SWITCHES):
        raise InputError(
            f"parameter 'topic_switches': give {len(SWITCHES)}, one each of {', '.join(SWITCHES)}"
        )
    switches = dict(zip(SWITCHES, p.topic_switches, strict=True))
    return Topics(
        vectors=Vectors(encoder=p.topic_encoder, train=plans.training_queries(p)),
        n_topics=p.n_topics,
        k=p.native_clusters,
        target=p.topic_size,
        normalise=p.normalise,
        seed=p.seed,
        **switches,
    )


def describe(store: Store, shifts: dict[str, Shift], vectors: np.ndarray) -> pd.DataFrame:
    """Return what is in the clusters of all shifts.

    Parameters
    ----------
    store
        Where the shifts are.
    shifts
        Name → shift, as in the plan.
    vectors : float[n, d]
        Of the pool's queries; they say what is typical.

    Returns
    -------
    pandas.DataFrame
        shift, cluster, n_queries, n_train, n_test, median_words, typical (three queries), words
        (distinctive).
    """
    rows = []
    for name, shift in shifts.items():
        texts = shift.pool.frame()["text"]
        labels = pd.read_parquet(store[shift] / "labels.parquet")["cluster"]
        is_labelled = labels != ""
        words = distinctive_words(texts[is_labelled].tolist(), labels[is_labelled].tolist())
        sizes = pd.read_csv(store[shift] / "sizes.csv", dtype={"cluster": str})
        for row in sizes.to_dict("records"):
            is_inside = labels == row["cluster"]
            cluster_texts = texts[is_inside]
            row["median_words"] = cluster_texts.str.split().str.len().median()
            row["typical"] = _typical(cluster_texts, vectors[is_inside])
            row["words"] = " ".join(words[row["cluster"]])
            rows.append({"shift": name, **row})
    return pd.DataFrame(rows)


def _typical(texts: pd.Series, vectors: np.ndarray) -> str:
    """Return the three texts whose vectors are nearest to the mean of all of them."""
    deviations = vectors - vectors.mean(axis=0)
    squared_distances = (deviations**2).sum(axis=1)
    nearest = np.argsort(squared_distances, kind="stable")[:3]
    return " | ".join(texts.iloc[nearest])


def switch_table(
    vectors: np.ndarray, options: Options, changes: dict[str, Options]
) -> pd.DataFrame:
    """Compare the topics under one changed option after the other with the unchanged ones.

    Parameters
    ----------
    vectors : float[n, d]
        What is clustered.
    options
        Arguments of `splits.topics.topics`.
    changes
        Name of a change → the arguments that it replaces.

    Returns
    -------
    pandas.DataFrame
        change, share_kept (queries of a topic that are in any topic there), ari and share_matched
        over these.
    """
    topic = topics(vectors, **options).topic
    has_topic = topic >= 0
    rows = []
    for change, changed_options in changes.items():
        changed_topic = topics(vectors, **options | changed_options).topic
        in_both = has_topic & (changed_topic >= 0)
        row = {"change": change, "share_kept": in_both.sum() / has_topic.sum()}
        if in_both.any():
            row |= agreement(changed_topic[in_both], topic[in_both])
        rows.append(row)
    return pd.DataFrame(rows, columns=["change", "share_kept", "ari", "share_matched"])


def exceptions(matrix: pd.DataFrame) -> pd.DataFrame:
    """Count the models that had a cluster in training and are worse on it than the one without.

    In general there are none (§5.1).

    Parameters
    ----------
    matrix
        shift, model, measure, left_out, stratum (the cluster that is tested), value.

    Returns
    -------
    pandas.DataFrame
        shift, model, measure, n_comparisons (k (k - 1) for k clusters), n_exceptions.
    """
    system = ["shift", "model", "measure"]
    is_out = matrix["left_out"] == matrix["stratum"]
    with_cluster, without_cluster = matrix[~is_out], matrix[is_out]
    pairs = with_cluster.merge(without_cluster, on=[*system, "stratum"], suffixes=("", "_out"))
    difference = pairs["value"] - pairs["value_out"]
    pairs["is_worse"] = difference * pairs["measure"].map(worse).astype(float) < 0
    of_system = pairs.groupby(system, sort=False)["is_worse"]
    return of_system.agg(n_comparisons="size", n_exceptions="sum").reset_index()


def ranges_over_clusters(losses: pd.DataFrame) -> pd.DataFrame:
    """Return the range of Δ over the clusters of a shift, beside that of the paper's clusters.

    The clusters are not the paper's, so that no cell of Tables 2 and 3 has one of ours beside it.

    Parameters
    ----------
    losses
        shift, model, stratum, measure, delta; the systems and shifts that the paper has count.

    Returns
    -------
    pandas.DataFrame
        shift, model; clusters, worst, median, best (of ours), and the same with the prefix
        published_.

    Examples
    --------
    >>> rows = [("length", "ColBERT", "RR@10", -0.1), ("length", "BM25", "RR@10", 0.0)]
    >>> losses = pd.DataFrame(rows, columns=["shift", "model", "measure", "delta"])
    >>> ranges = ranges_over_clusters(losses)
    >>> ranges[["model", "median", "published_worst", "published_best"]].values.tolist()
    [['ColBERT', -0.1, -0.051, -0.027]]
    """
    ours = losses[losses["measure"] == "RR@10"]
    theirs = _range_of_deltas(published.lupart_losses()).add_prefix("published_")
    beside = _range_of_deltas(ours).join(theirs, how="inner")
    return beside.reset_index()


def _range_of_deltas(losses: pd.DataFrame) -> pd.DataFrame:
    """Return clusters, worst, median and best of `delta`, by shift and model."""
    deltas = losses.groupby(["shift", "model"], sort=False)["delta"]
    return deltas.agg(clusters="size", worst="min", median="median", best="max")


def ranges_page(ranges: pd.DataFrame) -> pd.DataFrame:
    """Return `ranges_over_clusters` for the page: worst, median, best in one column a source."""
    page = ranges[["shift", "model"]].copy()
    for source, prefix in (("ours", ""), ("published", "published_")):
        numbers = ranges[[f"{prefix}worst", f"{prefix}median", f"{prefix}best"]]
        counts = ranges[f"{prefix}clusters"]
        texts = [", ".join(with_unit(value, "%") for value in row) for row in numbers.to_numpy()]
        page[f"clusters, {source}"] = counts
        page[f"Δ worst, median, best, {source}"] = texts
    return page


def n_overlapping(ranges: pd.DataFrame) -> int:
    """Return for how many rows of `ranges_over_clusters` both ranges share a value."""
    begins_before_end = ranges["worst"] <= ranges["published_best"]
    ends_after_begin = ranges["best"] >= ranges["published_worst"]
    return int((begins_before_end & ends_after_begin).sum())


def how_minus_others(losses: Effects) -> Effects:
    """Return Δ of *how* minus Δ of each other question word, of neural systems, by RR@10.

    Below 0: leaving *how* out costs more. Without this shift there is no row.

    Parameters
    ----------
    losses
        Effects by shift, model, stratum, measure.

    Returns
    -------
    Effects[shift, model, measure, first, second, difference, low, high]
    """
    asked = losses[(losses["shift"] == "wh-words") & (losses["measure"] == "RR@10")]
    asked = asked[~asked["model"].str.startswith(BM25)]
    if asked.empty:
        return asked
    return asked.contrast("stratum", [(HOW, other) for other in OTHER_WORDS])


def how_page(contrasts: pd.DataFrame) -> pd.DataFrame:
    """Return `how_minus_others` beside Table 3 for the page, a row a system."""
    losses = published.lupart_losses().set_index(["model", "cluster"])["delta"]
    rows = []
    for model, part in contrasts.groupby("model", sort=False):
        row = {"model": model}
        for one in part.itertuples():
            printed = losses[model, one.first] - losses[model, one.second]
            name = f"{one.first} minus {one.second}"
            row[name] = spelled(one.difference, one.low, one.high, "points")
            row[f"{name}, published"] = with_unit(printed, "points")
        rows.append(row)
    return pd.DataFrame(rows)


def how_sentence(contrasts: pd.DataFrame, source: str) -> str:
    """Return for how many systems *how* has the largest loss, and is shown to have it.

    Shown: the intervals of the differences from all other question words lie below 0.

    Parameters
    ----------
    contrasts
        Of `how_minus_others`; without rows there is no sentence.
    source
        Whose they are, which begins the sentence.
    """
    if contrasts.empty:
        return ""
    largest = contrasts.groupby("model")[["difference", "high"]].max()
    n_largest, n_shown = (largest < 0).sum()
    n_systems = len(largest)
    return f"{source}: how loses most for {n_largest} of {n_systems} systems, shown for {n_shown}."
