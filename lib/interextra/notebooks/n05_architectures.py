"""Notebook 05: five architectures in both protocols, and which of them lose.

Zhan et al. (CIKM 2022), section 5.1.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.data.collection import Collection
from interextra.data.load import open_collection
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.notebooks import plans
from interextra.notebooks.n02_restrain import nearest_queries
from interextra.notebooks.parameters import (
    DrawParameters,
    Entries,
    GateParameters,
    Measures,
    Names,
    NamesByName,
    Relevance,
    ReSTTestParameters,
    Seeds,
    Share,
    Sizes,
    parameter,
)
from interextra.papers import published
from interextra.splits.restrain import ReSTrain
from interextra.splits.split import REGIMES
from interextra.stats.bootstrap import interval
from interextra.stats.correlation import correlations
from interextra.stats.effects import Effects
from interextra.stats.formatting import with_unit
from interextra.store import InputError, Store

# A passage and its question, see `six_passages`
FACTS = {
    "Aspirin eases pain.": "what eases pain",
    "Ibuprofen lowers a fever.": "what lowers a fever",
    "Rome is the capital of Italy.": "capital of italy",
    "The Tiber flows through Rome.": "river through rome",
    "A violin has four strings.": "how many strings has a violin",
    "Mozart died in Vienna.": "where did mozart die",
}
# What differs between trainings, as recipes name it
CONDITIONS = ["negatives", "n_negatives", "batch_size", "steps", "epochs", "loss"]


class Parameters(DrawParameters, GateParameters, ReSTTestParameters):
    """Parameters of notebook 05, the comparison of architectures."""

    trained_sizes: Sizes = parameter(
        [1600], "training queries per ReSTrain set, some of `sizes`", paper="all three sizes"
    )
    seeds: Seeds = parameter([1], "training seeds of the dense retriever")
    resttest_measures: Measures = parameter(
        ["RR@10", "R@100"],
        "measures under ReSTTest; the first one is judged",
        paper="MRR@10 and R@100 (Table 7)",
    )
    margin: Share = parameter(
        0.05,
        "of the equivalence test, a share of the interpolation mean; the claims have their own",
    )
    test_splits: Names = parameter(
        ["test", "graded"], "ReSTrain: test queries", paper="the 97 judged of DL19 and DL20"
    )
    resttest_splits: Names = parameter(
        ["test", "graded"], "ReSTTest: test queries", paper="the 6,980 of dev (Table 7)"
    )
    recipes: Entries = parameter(
        [
            "bm25",
            "mini-reranker",
            {"recipe": "mini-colbert", "steps": 80},
            {"recipe": "mini-splade", "steps": 60},
            "mini-dense",
        ],
        "systems, {label, recipe, option of the recipe}; fewer steps than the recipes have, for "
        "the sake of minutes",
    )
    negative_passages: str = parameter(
        "all", "which passages may be negatives: all, unexposed, control: see 09", paper="all"
    )
    other_seeds: Seeds = parameter([1], "seeds of the other systems")
    only: NamesByName = parameter(
        {
            "ReSTrain": ["DR (base)", "ColBERT", "Reranker"],
            "ReSTTest": ["DR (base)", "ColBERT", "SPLADE"],
        },
        "protocol: systems of which something is claimed, beside BM25; empty: all in both",
    )
    restrain_measures: Measures = parameter(
        ["nDCG@10", "R@100"],
        "measures under ReSTrain; the first one is judged",
        paper="nDCG@10 and R@100 (Table 6)",
    )
    recall_relevance: Relevance = parameter(
        2, "relevance from which R@100 counts under ReSTrain; 2 reproduces the paper's BM25"
    )


def plan(p: Parameters) -> plans.Plan:
    """Return five systems in both protocols, under ReSTrain over the draws where there are any.

    Returns
    -------
    Plan
        `systems` (label → recipe), the splits `sets` (ReSTrain, one or one a draw) and `buckets`
        (ReSTTest), `measures` (under ReSTrain), `sizes` (training queries per set of ReSTrain),
        `test_splits` (protocol → splits that measure), and the designs `restrain` and `resttest`,
        with the columns of those of notebooks 02 and 03, see `plans.runs_of_draws`.

    Raises
    ------
    InputError
        No system but BM25.
    """
    systems = plans.with_bm25(plans.systems(p))
    if len(systems) == 1:
        raise InputError("parameter 'recipes': BM25 alone; add a system to compare with it")
    of_restrain, of_resttest = plans.of_protocols(p, systems)
    sets, restrain = _restrain(p, of_restrain)
    buckets = plans.resttest_of(p, [*p.resttest_splits, *p.gate_splits])
    folds = plans.without_each(buckets)
    resttest = plans.runs(p, of_resttest, folds, plans.with_gate(p, p.resttest_splits))
    return plans.Plan(
        systems=systems,
        sets=sets,
        buckets=buckets,
        measures=plans.from_relevance(p.restrain_measures, p.recall_relevance),
        sizes=[p.draw_train] if p.test_draws else p.trained_sizes,
        test_splits={
            "ReSTrain": p.draw_splits if p.test_draws else p.test_splits,
            "ReSTTest": p.resttest_splits,
        },
        restrain=restrain,
        resttest=plans.design(resttest),
    )


def _restrain(p: Parameters, systems: plans.Recipes) -> tuple[list[ReSTrain], pd.DataFrame]:
    """Return the splits and the design of ReSTrain: over the draws where there are any."""
    if p.test_draws:
        draws = plans.draws_of(p)
        gate = plans.gate_beside(p, p.draw_splits)
        design = plans.runs_of_draws(p, systems, draws, gate)
        if "seed" not in design:  # the rows of ReSTTest beside them have one
            design = design.assign(seed=p.seed)
        return [draw.split for draw in draws], design
    split = plans.restrain_of(p, p.sizes)
    in_regimes = plans.in_both_regimes(split, p.trained_sizes)
    searched = plans.with_gate(p, p.test_splits)
    return [split], plans.design(plans.runs(p, systems, in_regimes, searched))


def compared(design: pd.DataFrame, other: pd.DataFrame) -> list[str]:
    """Return the systems of a design whose losses a page compares query by query.

    They are those of both designs; all of the first, where both share no trained one.
    """
    in_both = design[design["model"].isin(other["model"])]
    is_trained = [bool(run.model.recipe.training_steps(1)) for run in in_both["run"]]
    found = in_both if any(is_trained) else design
    return found["model"].unique().tolist()


def six_passages(folder: Path) -> Collection:
    """Write six passages, each with one question, as files of a collection, and open it.

    Parameters
    ----------
    folder
        Where corpus.jsonl, queries.jsonl and qrels/train.tsv are written.

    Returns
    -------
    Collection
        Its passages, queries of the split train, and judgements; ids are a to f.
    """
    ids = list("abcdef")
    texts = {"corpus": list(FACTS), "queries": list(FACTS.values())}
    for name, lines in texts.items():
        records = pd.DataFrame({"_id": ids, "text": lines})
        path = folder / f"{name}.jsonl"
        records.to_json(path, orient="records", lines=True)
    judged = pd.DataFrame({"query-id": ids, "corpus-id": ids, "score": 1})
    (folder / "qrels").mkdir()
    judged.to_csv(folder / "qrels" / "train.tsv", sep="\t", index=False)
    return open_collection(f"beir:{folder}")


def conditions(systems: plans.Recipes) -> pd.DataFrame:
    """Return what differs between the trainings of some systems (label → recipe).

    Returns
    -------
    pandas.DataFrame
        model, and those of CONDITIONS that a recipe sets; a row a system that is trained.
    """
    rows = []
    for name, recipe in systems.items():
        if recipe.training_steps(1):
            rows.append({"model": name} | recipe.model_dump(include=CONDITIONS))
    frame = pd.DataFrame(rows)[["model", *CONDITIONS]]
    return frame.dropna(axis="columns", how="all")


def scored_pairs(design: pd.DataFrame, store: Store) -> dict[str, int]:
    """Return how many scores of a query and a passage the loss of each system has seen.

    Returns
    -------
    dict
        model → scores in its first training of the design; 0 for BM25.
    """
    counts = {}
    for row in design.drop_duplicates("model").itertuples():
        n_steps = row.run.log(store)["steps"]
        recipe = row.run.model.recipe
        counts[row.model] = recipe.scored_pairs(n_steps) if n_steps else 0
    return counts


def training_runs(plan: plans.Plan, n_fold: int) -> pd.DataFrame:
    """Return the trained models of both protocols, see `plans.training_runs`.

    Parameters
    ----------
    plan
        Of this notebook.
    n_fold
        Training queries of a model under ReSTTest.
    """
    restrain = plan.restrain.assign(protocol="ReSTrain")
    resttest = plan.resttest.assign(protocol="ReSTTest", n_train=n_fold)
    by = ["protocol", "model", "n_train"]
    parts = [plans.training_runs(design, by) for design in (restrain, resttest)]
    return pd.concat(parts, ignore_index=True)


def without_gate(
    values: pd.DataFrame, test_splits: Mapping[str, Sequence[str]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Part the values that measure a loss from those of the gate's queries.

    Parameters
    ----------
    values
        With protocol and test_set.
    test_splits
        Protocol → the splits that measure under it.

    Returns
    -------
    tuple
        Both parts, with their rows in the order of `values`.
    """
    measures_loss = pd.Series(False, values.index)
    for protocol, splits in test_splits.items():
        is_of_protocol = values["protocol"] == protocol
        measures_loss |= is_of_protocol & values["test_set"].isin(splits)
    losses, gate = values[measures_loss], values[~measures_loss]
    return losses.reset_index(drop=True), gate.reset_index(drop=True)


def beside_published(table: Effects, sizes: Sequence[int], n_train: int) -> Effects:
    """Return effects beside Tables 6 and 7, a verdict a row.

    A size of ReSTrain stands beside the published size whose share of all training queries is
    nearest.

    Parameters
    ----------
    table
        Effects with protocol, n_train, model and measure.
    sizes
        Training queries per set of ReSTrain.
    n_train
        All training queries.
    """
    of_restrain = table["protocol"] == "ReSTrain"
    nearest_size = table["n_train"].map(published.nearest_share(sizes, n_train))
    ours = table.assign(published_n_train=nearest_size.where(of_restrain, "all"))
    on = ["protocol", "published_n_train", "model", "measure"]
    return ours.beside(published.zhan_deltas(), on=on)


def judged_rows(
    table: pd.DataFrame, judged_by: Mapping[str, str], sizes: Sequence[int]
) -> pd.DataFrame:
    """Return the rows of the measure that judges each protocol, at some training-set sizes.

    Parameters
    ----------
    table
        With protocol, measure and n_train.
    judged_by
        Protocol → measure.
    sizes
        Training queries.
    """
    is_judged = table["measure"] == table["protocol"].map(judged_by)
    return table[is_judged & table["n_train"].isin(sizes)]


def panels(rows: pd.DataFrame) -> pd.Series:
    """Return the title of the panel in which each row stands: protocol, measure, queries."""
    n_queries = rows.groupby("protocol")["n_queries"].transform("max")
    queries = n_queries.map("{:,} queries".format)
    return rows["protocol"] + ", " + rows["measure"] + ", " + queries


def is_excluded(rows: pd.DataFrame, ahead: pd.DataFrame, by: Sequence[str]) -> pd.Series:
    """Return which rows are of a neural system that is not shown to beat BM25 in domain.

    Parameters
    ----------
    rows
        With model and the labels `by`.
    ahead
        Leads over BM25, see `leads`.
    by
        Labels of a lead beside its model.
    """
    labels = [*by, "model"]
    not_above = ahead[ahead["lead_low"] <= 0]
    behind = pd.MultiIndex.from_frame(not_above[labels])
    is_behind = pd.MultiIndex.from_frame(rows[labels]).isin(behind)
    is_neural = ~rows["model"].str.startswith(BM25)
    return is_behind & is_neural


def losses_sentence(rows: pd.DataFrame, protocol: str = "ReSTTest") -> str:
    """Return Δ of each system under a protocol, the largest loss first; "" without any.

    Parameters
    ----------
    rows
        Of one measure per protocol: protocol, model, measure, delta.
    protocol
        The one to name.
    """
    ordered = rows[rows["protocol"] == protocol].sort_values("delta", kind="stable")
    if ordered.empty:
        return ""
    losses = [f"{row.model} {with_unit(row.delta, '%')}" for row in ordered.itertuples()]
    return f"Δ of {ordered['measure'].iloc[0]} under {protocol}: {', '.join(losses)}."


def sentences(rows: pd.DataFrame) -> list[str]:
    """Return for each protocol which systems lose, which loses least, and which is best.

    Parameters
    ----------
    rows
        Of one measure per protocol, with protocol, model, both regimes, delta, high and excluded.
    """
    lines = []
    for protocol, part in rows.groupby("protocol", sort=False):
        below = part[part["high"] < 0]
        losing = ", ".join(below["model"]) or "none"
        lines.append(f"{protocol}: the individual 95 % interval of Δ lies below 0 for {losing}.")
        is_neural = part["model"] != BM25
        judged = part[~part["excluded"] & is_neural].set_index("model")
        if judged.empty:
            continue
        least, inside, outside = judged[["delta", *REGIMES]].idxmax()
        lines.append(
            f"{protocol}, not excluded: smallest loss {least}; most effective {inside} in "
            f"interpolation, {outside} in extrapolation."
        )
    return lines


def nearest_training_queries(plan: plans.Plan, store: Store) -> pd.DataFrame:
    """Return the nearest training query of each test query in both sets of the largest size.

    Returns
    -------
    pandas.DataFrame
        See `restrain.nearest_queries`; with draws, those of all draws.
    """
    size = plan.sizes[-1]
    parts = [nearest_queries(split, size, store) for split in plan.sets]
    return pd.concat(parts, ignore_index=True)


def most_lost(
    lost: pd.DataFrame, near: pd.DataFrame, texts: pd.Series, models: Sequence[str]
) -> pd.DataFrame:
    """Return the four test queries on which the last of some models loses most, for a page.

    Parameters
    ----------
    lost
        Interpolation minus extrapolation, float[query_id × model].
    near
        Of `nearest_training_queries`.
    texts
        query_id → text, of test and training queries.
    models
        Whose losses stand beside them.

    Returns
    -------
    pandas.DataFrame
        query, regime, similarity, nearest training query, and `lost by …` for each model; two
        rows a query.
    """
    query_ids = lost[models[-1]].nlargest(4).index
    rows = near[near["query_id"].isin(query_ids)]
    rows = rows.sort_values(["query_id", "regime"])
    page = pd.DataFrame({"query": rows["query_id"].map(texts)})
    page[["regime", "similarity"]] = rows[["regime", "similarity"]]
    page["nearest training query"] = rows["nearest"].map(texts)
    for model in reversed(models):
        losses = lost[model]
        page[f"lost by {model}"] = rows["query_id"].map(losses)
    return page


def rank_correlation(table: Effects, by: Sequence[str]) -> pd.DataFrame:
    """Compare the order of the systems in both regimes by Kendall's tau-b, 1 for the same order.

    Parameters
    ----------
    table
        Effects of the systems, with their means in both regimes.
    by
        Labels with a correlation each.

    Returns
    -------
    pandas.DataFrame
        *by, tau, low, high, interpolation, extrapolation; the last two are the orders.
    """
    rows = []
    for labels, systems in table.groupby(list(by), sort=False):
        # each [1 or n_boot, n_systems]
        means = [systems[regime].to_numpy()[np.newaxis] for regime in REGIMES]
        draws = [systems.drawn(side).T for side in ("first", "second")]
        tau = _kendall(*means).item()
        ends = interval(_kendall(*draws))
        orders = [_order(systems, regime) for regime in REGIMES]
        rows.append((*labels, tau, *ends, *orders))
    return pd.DataFrame(rows, columns=[*by, "tau", "low", "high", *REGIMES])


def _kendall(interpolation: np.ndarray, extrapolation: np.ndarray) -> np.ndarray:
    """Return tau-b of each row of two arrays float[n, n_systems], every system counted once."""
    counts = np.ones(interpolation.shape)
    return correlations(interpolation, extrapolation, counts, "Kendall")


def _order(systems: pd.DataFrame, regime: str) -> str:
    """Return the systems from the most to the least effective in a regime."""
    ordered = systems.sort_values(regime, ascending=False, kind="stable")
    return " > ".join(ordered["model"])
