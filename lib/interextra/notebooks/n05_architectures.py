"""Notebook 05: five architectures in both protocols, and which of them lose. Zhan et al. (CIKM
2022), section 5.1.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from interextra.notebooks import plans
from interextra.splits.split import REGIMES
from interextra.stats.bootstrap import interval
from interextra.stats.correlation import correlations
from interextra.stats.effects import Effects
from interextra.store import InputError, Store

NOTEBOOK = "05_architecture_comparison"


def plan(p: dict) -> plans.Plan:
    """Five systems (`systems`: label → recipe) in both protocols: `restrain` and `resttest` as in
    02 and 03.
    """
    asked = plans.searched(p)
    sets, buckets = plans.restrain_of(p), plans.resttest_of(p, asked["resttest_splits"])
    made = plans.with_bm25(plans.systems(p))
    if len(made) == 1:
        raise InputError("parameter 'recipes': BM25 alone; add a system to compare with it")
    restrain, resttest = map(plans.design, plans.both_protocols(asked, sets, buckets, made))
    measures = plans.measures_of(p, "restrain_measures")
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
