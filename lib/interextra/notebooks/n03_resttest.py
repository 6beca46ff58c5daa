"""Notebook 03: each system without each bucket of ReSTTest. Zhan et al. (CIKM 2022), Table 7."""

import numpy as np
import pandas as pd

from interextra.notebooks import plans
from interextra.notebooks.parameters import (
    Entries,
    GateParameters,
    Measures,
    Names,
    ReSTTestParameters,
    Seeds,
    parameter,
)
from interextra.papers.releases import real_dev_vectors, real_vectors
from interextra.splits.resttest import APART, in_regimes, sides
from interextra.splits.split import REGIMES
from interextra.stats.effects import DRAWS, Effects


class Parameters(GateParameters, ReSTTestParameters):
    """Parameters of notebook 03, ReSTTest."""

    recipes: Entries = parameter(
        ["bm25", "mini-dense"], "systems", paper="BERT-base, 50 epochs, 1,024 random negatives"
    )
    normalise: bool = parameter(
        True, "vectors and centroids of length 1, that is cosine", paper="it does not say"
    )
    seeds: Seeds = parameter([1], "seeds of the training runs", paper="it does not say how many")
    bucket_seeds: Seeds = parameter(
        [1, 2, 3, 4, 5], "seeds of k-means to compare; the experiment uses `seed`"
    )
    measures: Measures = parameter(["RR@10", "R@100"], "measures", paper="MRR@10 and R@100")
    real_msmarco: bool = parameter(
        False, "also compare with the released buckets on real queries (folder: INTEREXTRA_DATA)"
    )
    test_splits: Names = parameter(["test", "graded"], "test queries, pooled", paper="dev")
    encoder: str = parameter(
        "trained", "whose vectors are clustered: trained (dense, all training queries), minilm, lsa"
    )
    negative_passages: str = parameter(
        "all", "which passages may be negatives: all, unexposed, control: see 09", paper="all"
    )
    real_encoders: Names = parameter(["minilm", "lsa"], "encoders for the real queries")


def plan(p: Parameters) -> plans.Plan:
    """Each system without each bucket, each seed. `design`: model, left_out, seed, run."""
    plans.gate_queries(p)  # named twice, they would be clustered twice
    asked = [*p.test_splits, *p.gate_splits]
    split, queries = plans.resttest_of(p, asked), plans.test_queries(p, asked)
    rows = plans.runs(p, plans.with_bm25(plans.systems(p)), plans.without_each(split), queries)
    real = {encoder: real_vectors(encoder) for encoder in p.real_encoders if p.real_msmarco}
    dev = {encoder: real_dev_vectors(encoder) for encoder in real}
    return plans.Plan(
        vectors=split.vectors, split=split, design=plans.design(rows), real=real, real_dev=dev
    )


def averages(values: pd.DataFrame) -> pd.DataFrame:
    """Values of a ReSTTest design in regimes, three times, told apart by `average`.

    micro: every query counts the same. macro: every bucket does. constant: the macro average as if
    no training made a difference, which is what comes from the weights alone. macro less constant
    is what comes from the models.
    """
    made = {"micro": values, "macro": macro(values), "constant": macro(constant(values))}
    return pd.concat(
        [in_regimes(part).assign(average=name) for name, part in made.items()], ignore_index=True
    )


def macro(values: pd.DataFrame) -> pd.DataFrame:
    """Values of `sides`, weighted so that their plain means are macro averages: of each fold first,
    then of the folds.

    A query of a small stratum counts more than one of a large stratum. Both sides have such
    weights, and not the same, so a macro effect moves even where no training makes a difference:
    see `constant`. The bootstrap holds them fixed.
    """
    values = sides(values)
    labels = [name for name in values if name not in APART]
    k = values.groupby(labels, dropna=False)["left_out"].transform("nunique")
    columns = [*labels, "left_out"], [*labels, "left_out", "side"]
    n_queries, n_side = (
        values.groupby(each, dropna=False)["left_out"].transform("size") for each in columns
    )
    models = np.where(
        values["side"] == "in", k - 1, 1
    )  # whose values of a query are averaged later
    return values.assign(value=values["value"] * models * n_queries / (k * n_side))


def constant(values: pd.DataFrame) -> pd.DataFrame:
    """Values of `sides` as if no training made a difference: every query has its mean in-value
    under all models.
    """
    values = sides(values)
    query = [values[name] for name in values if name not in APART or name == "query_id"]
    inside = values["side"] == "in"
    return values.assign(
        value=values["value"].where(inside).groupby(query, dropna=False).transform("mean")
    )


def less_constant(table: Effects) -> Effects:
    """Deltas of `averages` as they can be judged: the rows of micro, and those of macro less
    constant.
    """
    micro, rows = (table[table["average"] == name] for name in ("micro", "macro"))
    apart = table.contrast("average", [("macro", "constant")])
    rows = rows.assign(average="macro less constant")
    rows[["delta", "low", "high"]] = apart[["difference", "low", "high"]].to_numpy()
    sides = rows.drawn("first"), rows.drawn("second"), apart.drawn()
    rows = Effects.of(rows, rows[DRAWS].iloc[0].by, [*REGIMES, "delta"], *sides)
    return pd.concat([micro, rows], ignore_index=True)
