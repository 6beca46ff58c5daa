"""Notebook 04: how much a retriever loses on kinds of query that it did not see in training.

Lupart et al., ECIR 2023, §4 and §5.1. An effect is Out / Avg In - 1, the paper's RelLoss with the
other sign: negative is a loss (of ASL, positive is).
"""

import itertools
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from interextra import figures
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
from interextra.papers.releases import real_vectors, topic_agreement
from interextra.splits.clusters import agreement, distinctive_words
from interextra.splits.resttest import sides
from interextra.splits.shift import Shift, in_a_cluster, in_domain
from interextra.splits.topics import SWITCHES, Topics, topics
from interextra.splits.years import ANY_YEAR, NewPassages, UpToYear, part_of
from interextra.stats.effects import Effects, effects
from interextra.stats.formatting import with_interval, with_unit
from interextra.store import InputError, Store

Options = dict[str, Any]  # arguments of `splits.topics.topics`
UP_TO = "up to the year"
# The question word that loses most in the paper (instrumental questions, section 5.1), the others
HOW = "how"
OTHER_WORDS = ("who", "wha")
AGES = (1, 3, 5)  # years since that of the newest training query
FIXED = "BM25, fixed"  # its ranking does not depend on what was excluded
IN_WORDS = {"wh-words": "question words"}  # names of shifts in sentences


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
    tested = {name: plans.tested_queries(p, shift) for name, shift in shifts.items()}
    return plans.Plan(
        pool=plans.training_queries(p),
        shifts=shifts,
        tested=tested,
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
    tested = plans.tested_queries(p, shift)
    of_gate = plans.gate_queries(p)
    systems_of_shift = plans.asked_of(p, name, systems)
    training_sets = plans.without_each(shift)
    return plans.runs(p, systems_of_shift, training_sets, (*tested, *of_gate), shift=name)


def _runs_of_years(p: Parameters, systems: plans.Recipes) -> pd.DataFrame:
    """Return runs of each system trained up to each year, and of dense with new passages spared.

    Systems with other negatives than the first of their architecture are left out.
    """
    if not getattr(p, "years", []):  # notebook 07 has none
        return pd.DataFrame()
    pool = plans.training_queries(p)
    split = UpToYear(
        pool=pool,
        column=p.year_column,
        years=tuple(p.years),
        size=p.train_size,
        seed=p.seed,
    )
    training_sets = []
    for year in (*p.years, ANY_YEAR):
        part = Part(of=split, part=part_of(year))
        training_sets.append(plans.TrainingSet({"up_to": year}, part))
    firsts: dict[str, str] = {}
    for label, recipe in systems.items():
        firsts.setdefault(recipe.architecture, label)
    first = {label: systems[label] for label in firsts.values()}
    tested = plans.test_queries(p, p.test_splits)
    rows = plans.runs(p, first, training_sets, tested, negatives="all")
    spared = [row for row in rows if _is_spared(row)]
    rows += [_sparing_new(row, pool, p) for row in spared]
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


def trainings(design: pd.DataFrame) -> pd.DataFrame:
    """Return the training runs of a design, a row for the systems that have the same ones.

    Parameters
    ----------
    design
        Of the plan.

    Returns
    -------
    pandas.DataFrame
        shift, systems, without (the clusters, one of which a model is trained without), n_train
        (training queries of a model; each number once where they differ), seeds.
    """
    rows = design[["shift", "model"]].copy()
    rows["without"] = design["left_out"].astype(str)
    sizes = [run.model.train.size() for run in design["run"]]
    rows["n_train"] = [f"{size:,}" for size in sizes]
    rows["seeds"] = design["seed"].astype(str)
    trained_on = ["without", "n_train", "seeds"]
    by_system = rows.groupby(["shift", "model"], sort=False)
    of_system = by_system[trained_on].agg(_each_once).reset_index()
    by_training = of_system.groupby(["shift", *trained_on], sort=False)
    systems = by_training["model"].agg(_each_once)
    table = systems.rename("systems").reset_index()
    return table[["shift", "systems", "without", "n_train", "seeds"]]


def _each_once(names: pd.Series) -> str:
    """Return the different values of a column in their order, with semicolons between them."""
    return "; ".join(dict.fromkeys(names))


def divided(values: pd.DataFrame, gate_splits: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Divide values into those that measure the shifts, and those of the gate.

    Parameters
    ----------
    values
        Of all runs of a design, with the cluster of each query as stratum.
    gate_splits
        Splits of the queries on which a system must beat BM25.

    Returns
    -------
    values, gate : pandas.DataFrame
        Values of the test queries of all clusters, with their side (`out` under the model that was
        trained without the cluster, else `in`); values of the gate, in domain.
    """
    is_gate = values["test_set"].isin(gate_splits)
    tested = in_a_cluster(values[~is_gate])
    return sides(tested), in_domain(values[is_gate])


def not_ahead(leads: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return shift and model of the systems that are not shown to beat BM25 in domain.

    The lower end of the interval of their lead is not above 0. No kind of BM25 is among them.

    Parameters
    ----------
    leads
        Of `claims.judgement.leads`, by shift and measure.
    measure
        That decides.
    """
    is_neural = ~leads["model"].str.startswith(BM25)
    is_ahead = leads["lead_low"] > 0
    is_asked = leads["measure"] == measure
    return leads.loc[is_asked & is_neural & ~is_ahead, ["shift", "model"]]


def marked(frame: pd.DataFrame, excluded: pd.DataFrame) -> pd.DataFrame:
    """Return rows with a column `excluded`, true for the systems of `not_ahead`.

    Examples
    --------
    >>> rows = pd.DataFrame({"shift": ["length", "topics"], "model": ["SPLADE", "SPLADE"]})
    >>> marked(rows, rows[:1])["excluded"].tolist()
    [True, False]
    """
    system = ["shift", "model"]
    of_row = pd.MultiIndex.from_frame(frame[system])
    not_ahead = pd.MultiIndex.from_frame(excluded[system])
    return frame.assign(excluded=of_row.isin(not_ahead))


def excluded_in_words(excluded: pd.DataFrame) -> str:
    """Return the systems of `not_ahead` as text, by shift; "" for none.

    Examples
    --------
    >>> excluded_in_words(pd.DataFrame({"shift": ["wh-words"] * 2, "model": ["SPLADE", "DR"]}))
    'question words: SPLADE, DR'
    """
    parts = []
    for shift, models in excluded.groupby("shift", sort=False)["model"]:
        name = IN_WORDS.get(shift, shift)
        systems = ", ".join(models)
        parts.append(f"{name}: {systems}")
    return "; ".join(parts)


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
    is_dated = years.notna()
    values = values[is_dated].assign(year=years[is_dated])
    is_any = values["up_to"] == ANY_YEAR
    by_training = values[~is_any].groupby(["up_to", "negatives"], sort=False)
    parts = []
    for (since, negatives), old in by_training:
        of_models = values["model"].isin(old["model"].unique())
        beside = values[is_any & of_models].assign(negatives=negatives)
        sides = {UP_TO: old, ANY_YEAR: beside}
        both = pd.concat([part.assign(trained_on=name) for name, part in sides.items()])
        age = _ages(both["year"] - since, ages)
        parts.append(both.assign(since=since, age=age))
    return pd.concat(parts, ignore_index=True)


def _ages(years: pd.Series, ages: Sequence[int]) -> pd.Series:
    """Return the group of each query by the years since a model's."""
    firsts = list(ages)
    names = ["not newer"]
    for first, following in itertools.pairwise([*firsts, None]):
        if following is None:
            group = f"{first} or more"
        elif following == first + 1:
            group = f"{first}"
        else:
            group = f"{first} to {following - 1}"
        names.append(f"{group} newer")
    begins = [first - 0.5 for first in firsts]
    bins = [-np.inf, *begins, np.inf]
    return pd.cut(years, bins, labels=names).astype(str)


def losses_by_age(values: pd.DataFrame, seed: int, n_boot: int) -> Effects:
    """Return Δ of models trained up to a year over those of any year, by the age of a query.

    Parameters
    ----------
    values
        Of the plan's `years`, see `years_since`.
    seed, n_boot
        Of the resamples.

    Returns
    -------
    Effects[model, negatives, since, age, measure, …]
    """
    by = ["model", "negatives", "since", "age", "measure"]
    both = years_since(values)
    compared = {"on": "trained_on", "sides": (ANY_YEAR, UP_TO), "effect": "delta"}
    return effects(both, by, **compared, seed=seed, n_boot=n_boot)


def years_figure(losses: pd.DataFrame, measure: str) -> Figure:
    """Draw `losses_by_age` for one measure: a panel for each year and kind of negatives."""
    drawn = losses[losses["measure"] == measure]
    years = drawn["since"].astype(str)
    trained = "trained up to " + years + ", negatives: " + drawn["negatives"]
    return figures.forest(
        drawn.assign(trained=trained),
        "age",
        "delta",
        f"← loss   Δ of {measure}, up to the year / any year − 1",
        panel="trained",
        hue="model",
        percent=True,
    )


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
        texts_of_clusters = texts[is_labelled].tolist()
        clusters = labels[is_labelled].tolist()
        words = distinctive_words(texts_of_clusters, clusters)
        path = store[shift] / "sizes.csv"
        sizes = pd.read_csv(path, dtype={"cluster": str}, keep_default_na=False)
        for row in sizes.to_dict("records"):
            is_inside = labels == row["cluster"]
            cluster_texts = texts[is_inside]
            n_words = cluster_texts.str.split().str.len()
            row["median_words"] = n_words.median()
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


def clusters_page(clusters: pd.DataFrame) -> pd.DataFrame:
    """Return `describe` for the page: the words of two letters or more, one typical query."""
    words = clusters["words"].str.replace(r"\b\w\b ?", "", regex=True)
    typical = clusters["typical"].str.split(" | ", regex=False)
    page = clusters[["shift", "cluster", "n_queries"]].copy()
    page["distinctive words"] = words
    page["typical query"] = typical.str[0]
    return page


def changes_of_topics(options: Options) -> dict[str, Options]:
    """Return name of a change → what it replaces among the arguments of `splits.topics.topics`.

    Each is a setting that the paper does not report.
    """
    return {
        "greedy choice": {"choose": "greedy"},
        "nearest to the grown cluster": {"merge": "merged"},
        "in turns": {"order": "turns"},
        "stop at the closest size": {"stop": "closest"},
        "length of vectors": {"normalise": not options["normalise"]},
        "another seed": {"seed": options["seed"] + 1},
    }


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
        share_kept = in_both.sum() / has_topic.sum()
        row = {"change": change, "share_kept": share_kept}
        if in_both.any():
            row |= agreement(changed_topic[in_both], topic[in_both])
        rows.append(row)
    return pd.DataFrame(rows, columns=["change", "share_kept", "ari", "share_matched"])


def switches_sentence(switches: pd.DataFrame) -> str:
    """Return which change of `switch_table` leaves least of the topics, and how much.

    Changes after which no query is in a topic of both have no ARI; they leave nothing.

    Examples
    --------
    >>> table = pd.DataFrame({"change": ["in turns", "another seed"], "share_kept": [1, 0.8]})
    >>> switches_sentence(table.assign(ari=[1, 0.01], share_matched=[1, 0.4]))
    'Least remains under another seed: ARI 0.01, and 40 % of the shared queries in the same topic.'
    """
    leaves_nothing = switches["ari"].isna()
    if leaves_nothing.any():
        changes = ", ".join(switches.loc[leaves_nothing, "change"])
        return f"Nothing remains under {changes}: no query is in a topic before and after it."
    least = switches.loc[switches["ari"].idxmin()]
    change, ari = least["change"], least["ari"]
    percent = 100 * least["share_matched"]
    return (
        f"Least remains under {change}: ARI {ari:.2f}, and {percent:.0f} % of the shared queries "
        "in the same topic."
    )


def matrix_of(values: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of each model on the test queries of each cluster.

    Parameters
    ----------
    values
        Of `divided`.

    Returns
    -------
    pandas.DataFrame
        shift, model, measure, left_out, stratum (the cluster that is tested), value, n_queries.
    """
    labels = ["shift", "model", "measure", "left_out", "stratum"]
    cells = values.groupby(labels, sort=False)
    matrix = cells.agg(value=("value", "mean"), n_queries=("query_id", "nunique"))
    return matrix.reset_index()


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
    on = [*system, "stratum"]
    pairs = with_cluster.merge(without_cluster, on=on, suffixes=("", "_out"))
    difference = pairs["value"] - pairs["value_out"]
    direction = pairs["measure"].map(worse).astype(float)
    pairs["is_worse"] = difference * direction < 0
    of_system = pairs.groupby(system, sort=False)["is_worse"]
    return of_system.agg(n_comparisons="size", n_exceptions="sum").reset_index()


def exceptions_sentence(exceptions: pd.DataFrame, measure: str) -> str:
    """Return in how many comparisons of `exceptions` a model with the cluster is worse on it.

    BM25 with fixed parameters is left out: its models are all the same.

    Examples
    --------
    >>> table = pd.DataFrame({"model": ["BM25", "SPLADE"], "n_exceptions": [2, 1]})
    >>> print(exceptions_sentence(table.assign(measure="RR@10", n_comparisons=6), "RR@10"))
    By RR@10, a model that trained on the cluster is less effective on it than the one that did not
    in 3 of 12 comparisons: BM25 2 of 6, SPLADE 1 of 6.
    """
    is_measure = exceptions["measure"] == measure
    is_fixed = exceptions["model"] == FIXED
    by_model = exceptions[is_measure & ~is_fixed].groupby("model", sort=False)
    of_model = by_model[["n_exceptions", "n_comparisons"]].sum()
    of_model = of_model.sort_values("n_exceptions", ascending=False, kind="stable")
    parts = [
        f"{row.Index} {row.n_exceptions} of {row.n_comparisons}" for row in of_model.itertuples()
    ]
    n_exceptions, n_comparisons = of_model.sum()
    return (
        f"By {measure}, a model that trained on the cluster is less effective on it than the one "
        f"that did not\nin {n_exceptions} of {n_comparisons} comparisons: {', '.join(parts)}."
    )


def with_topic_words(losses: pd.DataFrame, clusters: pd.DataFrame) -> pd.DataFrame:
    """Return losses whose topics have two distinctive words in the names of their strata.

    Parameters
    ----------
    losses
        With a column stratum.
    clusters
        Of `describe`.
    """
    topic = clusters[clusters["shift"] == "topics"]
    long_words = topic["words"].str.findall(r"\w{4,}")
    two_words = long_words.str[:2].str.join(", ")
    number = topic["cluster"].str[1:]
    names = "topic " + number + ": " + two_words
    named = dict(zip(topic["cluster"], names, strict=True))
    return losses.replace({"stratum": named})


def axis_of_losses(measure: str) -> str:
    """Return the label of an axis of Δ: of ASL, where lower is better, a loss is above 0."""
    name = f"Δ of {measure}"
    if worse(measure) < 0:
        return f"{name}   loss →"
    return f"← loss   {name}"


def means_page(beside: Effects) -> pd.DataFrame:
    """Return mean losses beside the published ones for the page.

    A row a system and a column a shift: our Δ with its interval, the published one, the verdict.
    """
    page = with_interval(beside)
    texts = []
    for row in page.itertuples():
        text = row.delta
        if row.verdict:
            text += f"; paper {row.published}: {row.verdict}"
        texts.append(text)
    page = page.assign(text=texts)
    wide = page.pivot(index="model", columns="shift", values="text")
    systems = beside["model"].unique()
    shifts = beside["shift"].unique()
    in_order = wide.reindex(index=systems, columns=shifts)
    return in_order.rename_axis(columns=None).reset_index()


def largest_loss(losses: pd.DataFrame, measure: str) -> pd.Series:
    """Return the row of the largest loss by a measure, among effects per cluster.

    Examples
    --------
    >>> losses = pd.DataFrame({"measure": "RR@10", "stratum": ["a", "b"], "delta": [-0.1, -0.3]})
    >>> largest_loss(losses, "RR@10")["stratum"]
    'b'
    """
    of_measure = losses[losses["measure"] == measure]
    most = (of_measure["delta"] * worse(measure)).idxmin()
    return of_measure.loc[most]


def lost_by_query(values: pd.DataFrame, row: pd.Series) -> pd.Series:
    """Return how much each test query of a cluster loses, for one system and measure.

    It is the mean of the models that trained on the cluster minus that of the model without it, the
    other way round where lower is better (ASL): above 0 is a loss.

    Parameters
    ----------
    values
        Of `divided`.
    row
        Of effects by shift, model, stratum (the cluster) and measure.

    Returns
    -------
    pandas.Series
        Index query_id.
    """
    is_asked = np.ones(len(values), bool)
    for name in ("shift", "model", "stratum", "measure"):
        is_asked &= (values[name] == row[name]).to_numpy()
    each = values[is_asked].pivot_table(index="query_id", columns="side", values="value")
    lost = (each["in"] - each["out"]) * worse(row["measure"])
    return lost.round(9).rename("lost")  # rounding alone makes no loss


def lost_sentence(lost: pd.Series, row: pd.Series) -> str:
    """Return whether what all queries of a cluster share can explain the largest losses.

    It cannot where losses differ between them.

    Parameters
    ----------
    lost
        Of `lost_by_query`.
    row
        The effect of this cluster.

    Examples
    --------
    >>> lost = pd.Series([0.5, 0.0, -0.5])
    >>> print(lost_sentence(lost, pd.Series({"stratum": "how", "model": "SPLADE", "delta": 0.0})))
    No: all 3 test queries of cluster how share it; 1 lose, 1 gain, 1 are unchanged (SPLADE).
    The largest losses are 0.5, 0, -0.5, the largest gains 0.5, 0, -0.5: the evidence is their mean.
    """
    model, cluster = row["model"], row["stratum"]
    shared = f"all {len(lost)} test queries of cluster {cluster} share it"
    if lost.nunique() == 1:
        return f"Undecided: {shared}, and each loses the same, {lost.iloc[0]:.2g} ({model})."
    n_lose = (lost > 0).sum()
    n_gain = (lost < 0).sum()
    n_unchanged = (lost == 0).sum()
    largest = lost.nlargest(3)
    gained = 0 - lost.nsmallest(3)
    losses = ", ".join(largest.map("{:.2g}".format))
    gains = ", ".join(gained.map("{:.2g}".format))
    counts = f"{n_lose} lose, {n_gain} gain, {n_unchanged} are unchanged ({model})"
    return (
        f"No: {shared}; {counts}.\n"
        f"The largest losses are {losses}, the largest gains {gains}: the evidence is their mean."
    )


def control_page(by_chance: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the losses on clusters that are drawn at random for the page; empty without any."""
    if by_chance.empty:
        return by_chance
    is_asked = by_chance["measure"] == measure
    page = with_interval(by_chance[is_asked])
    names = {"in": "Avg In", "out": "Out", "delta": "Δ, 95 % interval"}
    return page[["model", *names]].rename(columns=names)


def metrics(means: pd.DataFrame) -> dict[str, float]:
    """Return name → Δ of each system of each shift, for the numbers of a run.

    Raises
    ------
    InputError
        The rows are of more than one measure.
    """
    plans.refuse_rows_of_more_measures(means)
    named = {}
    for row in means.itertuples():
        named[f"mean_delta_{row.shift}_{row.model}"] = row.delta
    return named


def means_sentence(means: pd.DataFrame, model: str = "DR (base)") -> str:
    """Return the mean Δ of a system for each shift, the largest loss first; "" without any.

    Examples
    --------
    >>> rows = [("topics", "ColBERT", "RR@10", -0.1), ("length", "ColBERT", "RR@10", -0.2)]
    >>> means = pd.DataFrame(rows, columns=["shift", "model", "measure", "delta"])
    >>> means_sentence(means, "ColBERT")
    'Mean Δ of RR@10, ColBERT: length -20.0 %, topics -10.0 %.'

    Raises
    ------
    InputError
        The rows are of more than one measure.
    """
    plans.refuse_rows_of_more_measures(means)
    ordered = means[means["model"] == model].sort_values("delta", kind="stable")
    if ordered.empty:
        return ""
    losses = [f"{row.shift} {with_unit(row.delta, '%')}" for row in ordered.itertuples()]
    return f"Mean Δ of {ordered['measure'].iloc[0]}, {model}: {', '.join(losses)}."


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


def n_overlapping(ranges: pd.DataFrame) -> int:
    """Return for how many rows of `ranges_over_clusters` both ranges share a value."""
    begins_before_end = ranges["worst"] <= ranges["published_best"]
    ends_after_begin = ranges["best"] >= ranges["published_worst"]
    return int((begins_before_end & ends_after_begin).sum())


def ranges_sentence(ranges: pd.DataFrame) -> str:
    """Return for how many pairs of a shift and a system both ranges overlap; "" without any."""
    if ranges.empty:
        return ""
    return (
        f"Our range of Δ over clusters overlaps the paper's for {n_overlapping(ranges)} of "
        f"{len(ranges)} pairs of a shift and a system."
    )


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
    of_words = losses["shift"] == "wh-words"
    is_measure = losses["measure"] == "RR@10"
    is_neural = ~losses["model"].str.startswith(BM25)
    asked = losses[of_words & is_measure & is_neural]
    if asked.empty:
        return asked
    return asked.contrast("stratum", [(HOW, other) for other in OTHER_WORDS])


def how_sentence(contrasts: pd.DataFrame, source: str) -> str:
    """Return for how many systems *how* has the largest loss, and is shown to have it.

    Shown: the intervals of the differences from all other question words lie below 0. A system
    without a difference from one of them has not the largest loss, without an interval it is not
    shown.

    Parameters
    ----------
    contrasts
        Of `how_minus_others`; without rows there is no sentence.
    source
        Whose they are, which begins the sentence.
    """
    if contrasts.empty:
        return ""
    by_model = contrasts.set_index(["model", "second"])[["difference", "high"]].unstack()
    differences = by_model["difference"].reindex(columns=OTHER_WORDS)
    ends = by_model["high"].reindex(columns=OTHER_WORDS)
    is_largest = (differences < 0).all(axis="columns")  # what is missing is not below 0
    is_shown = is_largest & (ends < 0).all(axis="columns")
    most = f"{is_largest.sum()} of {len(by_model)} systems"
    return f"{source}: how loses most for {most}, shown for {is_shown.sum()}."


def made_and_released(store: Store, plan: plans.Plan) -> pd.DataFrame:
    """Return the agreement of topics that we make of the real training queries with the released.

    Five topics of a twentieth of the queries each, as in the paper, with the notebook's settings.

    Parameters
    ----------
    store
        Where the vectors of the real queries are.
    plan
        With `real` and `released`.

    Returns
    -------
    pandas.DataFrame
        One row of `papers.releases.topic_agreement`.
    """
    query_ids = plan.real.train.ids()
    vectors = plan.real.read(store)[0]
    options = plan.topics.model_dump(exclude={"vectors"})
    options |= {"n_topics": 5, "target": len(query_ids) // 20}
    ours = topics(vectors, **options)
    names = [f"C{topic}" if topic >= 0 else "" for topic in ours.topic]
    topic_of_query = pd.Series(names, query_ids)
    return pd.DataFrame([topic_agreement(topic_of_query, plan.released)])


def released_sentence(rule_agreement: pd.DataFrame, agreed: pd.DataFrame) -> str:
    """Return whether rules and topics find the released clusters.

    Parameters
    ----------
    rule_agreement
        Of `papers.releases.rule_agreement`.
    agreed
        Of `made_and_released`.
    """
    if rule_agreement.empty or agreed.empty:
        return "No committed run of the profile small is here."
    by_rule = rule_agreement.groupby(["shift", "rule"])
    of_rule = by_rule[["n_released", "n_other"]].sum()
    counts = []
    for shift, rule, words in (
        ("length", "spaces", "length by spaces"),
        ("wh-words", "contains", "question words by letters"),
        ("wh-words", "whole words", "question words by whole words"),
    ):
        n_released, n_other = of_rule.loc[(shift, rule)]
        counts.append(f"{words}: {n_other:,} of {n_released:,}")
    listed = "; ".join(counts)
    of_topics = agreed.iloc[0]
    percent = 100 * of_topics["share_matched"]
    ari = of_topics["ari"]
    return (
        f"Released queries that contradict a rule: {listed}. Of the released queries that are in "
        f"a topic of ours, {percent:.0f} % are in the same one (ARI {ari:.2f})."
    )
