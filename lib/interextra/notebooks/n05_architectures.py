"""Notebook 05: five architectures in both protocols, and which of them lose. Zhan et al. (CIKM
2022), section 5.1.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from interextra.notebooks import plans
from interextra.notebooks.parameters import (
    Entries,
    GateParameters,
    Measures,
    Names,
    NamesByName,
    ReSTrainParameters,
    ReSTTestParameters,
    Seeds,
    Share,
    Sizes,
    parameter,
)
from interextra.splits.split import REGIMES
from interextra.stats.bootstrap import interval
from interextra.stats.correlation import correlations
from interextra.stats.effects import Effects
from interextra.store import InputError, Store


class Parameters(ReSTrainParameters, GateParameters, ReSTTestParameters):
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
        "systems, {label, recipe, option of the recipe}; fewer steps than the recipes have, for the sake of minutes",
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
    recall_relevance: Annotated[int, Field(ge=1, le=10)] = parameter(
        2, "relevance from which R@100 counts under ReSTrain; 2 reproduces the paper's BM25"
    )


def plan(p: Parameters) -> plans.Plan:
    """Five systems (`systems`: label → recipe) in both protocols: `restrain` and `resttest` as in
    02 and 03.
    """
    asked = plans.with_gate(p)
    sets, buckets = plans.restrain_of(p, p.sizes), plans.resttest_of(p, asked.resttest_splits)
    made = plans.with_bm25(plans.systems(p))
    if len(made) == 1:
        raise InputError("parameter 'recipes': BM25 alone; add a system to compare with it")
    restrain, resttest = map(plans.design, plans.both_protocols(asked, sets, buckets, made))
    measures = plans.from_relevance(p.restrain_measures, p.recall_relevance)
    return plans.Plan(
        systems=made,
        sets=sets,
        buckets=buckets,
        measures=measures,
        restrain=restrain,
        resttest=resttest,
    )


def scored_pairs(design: pd.DataFrame, store: Store) -> list[int]:
    """How many scores of a query and a passage the loss of each run has seen; 0 for BM25."""
    steps = [(run.model.recipe, run.log(store)["steps"]) for run in design["run"]]
    return [recipe.scored_pairs(n) if n else 0 for recipe, n in steps]


def rank_correlation(table: Effects, by: Sequence[str]) -> pd.DataFrame:
    """The order of the systems in both regimes by Kendall's tau-b, which is 1 for the same order; a
    row a group.

    Returns DataFrame[*by, tau, low, high, interpolation, extrapolation], the two last the orders.
    """
    rows = []
    for key, part in table.groupby(list(by), sort=False):
        once, drawn = (
            part[list(REGIMES)].to_numpy().T[:, None],
            (part.drawn("first").T, part.drawn("second").T),
        )
        tau, taus = (
            correlations(*sides, np.ones(sides[0].shape), "Kendall") for sides in (once, drawn)
        )
        orders = [
            " > ".join(part.sort_values(r, ascending=False, kind="stable")["model"])
            for r in REGIMES
        ]
        rows.append((*key, tau.item(), *interval(taus), *orders))
    return pd.DataFrame(rows, columns=[*by, "tau", "low", "high", *REGIMES])
