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
    """Return each system without each bucket, for each seed.

    Returns
    -------
    Plan
        `vectors`, `split`, `design` (model, left_out, seed, run), and encoder → vectors of the real
        training queries and judged queries, `real`, and of the real dev queries, `real_dev`.

    Raises
    ------
    InputError
        A split that is among `test_splits` and `gate_splits`: it would be clustered twice.
    """
    queries = (*plans.test_queries(p, p.test_splits), *plans.gate_queries(p))
    split = plans.resttest_of(p, [*p.test_splits, *p.gate_splits])
    systems = plans.with_bm25(plans.systems(p))
    runs = plans.runs(p, systems, plans.without_each(split), queries)
    real_encoders = p.real_encoders if p.real_msmarco else []
    return plans.Plan(
        vectors=split.vectors,
        split=split,
        design=plans.design(runs),
        real={encoder: real_vectors(encoder) for encoder in real_encoders},
        real_dev={encoder: real_dev_vectors(encoder) for encoder in real_encoders},
    )


def averages(values: pd.DataFrame) -> pd.DataFrame:
    """Return values of a ReSTTest design in regimes, three times, told apart by `average`.

    micro: every query counts the same. macro: every bucket does. constant: the macro average as if
    no training made a difference, which is what comes from the weights alone. macro minus constant
    is what comes from the models.
    """
    parts = [
        in_regimes(values).assign(average="micro"),
        in_regimes(macro(values)).assign(average="macro"),
        in_regimes(macro(constant(values))).assign(average="constant"),
    ]
    return pd.concat(parts, ignore_index=True)


def macro(values: pd.DataFrame) -> pd.DataFrame:
    """Return values weighted so that their plain means are macro averages.

    First of each fold, then of the folds. A query of a small stratum counts more than one of a
    large stratum. Both sides have such weights, and not the same, so a macro effect moves even
    where no training makes a difference: see `constant`. The bootstrap holds them fixed.

    Parameters
    ----------
    values
        Those of a leave-one-out design, see `splits.resttest.sides`.
    """
    sided = sides(values)
    labels = [name for name in sided if name not in APART]
    n_folds = _of_group(sided, labels, "nunique")
    n_queries = _of_group(sided, [*labels, "left_out"], "size")
    n_of_side = _of_group(sided, [*labels, "left_out", "side"], "size")
    is_in = sided["side"] == "in"
    # whose values of a query are averaged later
    n_models = np.where(is_in, n_folds - 1, 1)
    sided["value"] = sided["value"] * n_models * n_queries / (n_folds * n_of_side)
    return sided


def _of_group(values: pd.DataFrame, labels: list[str], statistic: str) -> pd.Series:
    """Return a statistic of the folds of the rows that share a row's labels."""
    return values.groupby(labels, dropna=False)["left_out"].transform(statistic)


def constant(values: pd.DataFrame) -> pd.DataFrame:
    """Return values as if no training made a difference.

    Every query has its mean in-value under all models.

    Parameters
    ----------
    values
        Those of a leave-one-out design, see `splits.resttest.sides`.
    """
    sided = sides(values)
    labels = [name for name in sided if name not in APART]
    sided["value"] = sided["value"].where(sided["side"] == "in")
    of_query = sided.groupby([*labels, "query_id"], dropna=False)["value"]
    sided["value"] = of_query.transform("mean")
    return sided


def less_constant(table: Effects) -> Effects:
    """Return deltas of `averages` as they can be judged.

    Returns
    -------
    Effects
        The rows of micro, then those of macro minus constant.
    """
    micro = table[table["average"] == "micro"]
    macro_rows = table[table["average"] == "macro"]
    contrast = table.contrast("average", [("macro", "constant")])
    adjusted = macro_rows.assign(average="macro less constant")
    estimates = contrast[["difference", "low", "high"]]
    adjusted[["delta", "low", "high"]] = estimates.to_numpy()
    adjusted = Effects.of(
        adjusted,
        adjusted[DRAWS].iloc[0].by,
        [*REGIMES, "delta"],
        macro_rows.drawn("first"),
        macro_rows.drawn("second"),
        contrast.drawn(),
    )
    return pd.concat([micro, adjusted], ignore_index=True)
