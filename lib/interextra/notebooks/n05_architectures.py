"""Notebook 05: five architectures in both protocols, and which of them lose.

Zhan et al. (CIKM 2022), section 5.1.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from interextra.notebooks import plans
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
from interextra.splits.restrain import ReSTrain
from interextra.splits.split import REGIMES
from interextra.stats.bootstrap import interval
from interextra.stats.correlation import correlations
from interextra.stats.effects import Effects
from interextra.store import InputError, Store


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


def scored_pairs(design: pd.DataFrame, store: Store) -> list[int]:
    """Return how many scores of a query and a passage each run's loss has seen; 0 for BM25."""
    counts = []
    for run in design["run"]:
        n_steps = run.log(store)["steps"]
        counts.append(run.model.recipe.scored_pairs(n_steps) if n_steps else 0)
    return counts


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
