"""Notebook 03: each system without each bucket of ReSTTest. Zhan et al. (CIKM 2022), Table 7."""

import pandas as pd

from interextra.experiments.plans import (
    REGIMES,
    Plan,
    design,
    in_regimes,
    resttest_of,
    runs,
    systems,
    test_queries,
    with_bm25,
    without_each,
)
from interextra.ground.effects import DRAWS, Effects
from interextra.papers.releases import real_dev_vectors, real_vectors
from interextra.splits.resttest import constant, macro

NOTEBOOK = "03_resttest"


def plan(p: dict) -> Plan:
    """Each system without each bucket, each seed. `design`: model, left_out, seed, run."""
    split, queries = resttest_of(p, p["test_splits"]), test_queries(p, p["test_splits"])
    rows = runs(p, with_bm25(systems(p)), without_each(split), queries)
    real = {encoder: real_vectors(encoder) for encoder in p["real_encoders"] if p["real_msmarco"]}
    dev = {encoder: real_dev_vectors(encoder) for encoder in real}
    return Plan(vectors=split.vectors, split=split, design=design(rows), real=real, real_dev=dev)


def averages(values: pd.DataFrame) -> pd.DataFrame:
    """Values of a ReSTTest design in regimes, three times, told apart by `average`.

    micro: every query counts the same. macro: every bucket does. constant: the macro average as if no training made a
    difference, which is what comes from the weights alone. macro less constant is what comes from the models.
    """
    made = {"micro": values, "macro": macro(values)}
    made["constant"] = macro(constant(values))
    return pd.concat([in_regimes(part).assign(average=name) for name, part in made.items()], ignore_index=True)


def less_constant(table: Effects) -> Effects:
    """Deltas of `averages` as they can be judged: the rows of micro, and those of macro less constant."""
    micro, rows = (table[table["average"] == name] for name in ("micro", "macro"))
    apart = table.contrast("average", [("macro", "constant")])
    rows = rows.assign(average="macro less constant", delta=apart["difference"].to_numpy())
    sides = rows.drawn("first"), rows.drawn("second"), apart.drawn()
    rows = Effects.of(rows, rows[DRAWS].iloc[0].by, [*REGIMES, "delta"], *sides)
    return pd.concat([micro, rows], ignore_index=True)
