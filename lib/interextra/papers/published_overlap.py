"""Overlap as Zhan et al. (CIKM 2022, section 3) print it, and whether published runs gain where there is some."""

import numpy as np
import pandas as pd

from interextra.data.runs import RunFile
from interextra.evaluation.measures import per_query
from interextra.ground.effects import Effects, resamples
from interextra.models.bm25 import LABEL as BM25
from interextra.overlap.labels import LABELS
from interextra.papers import published

TEST_SETS = {"TREC DL 2019": "dl19", "TREC DL 2020": "dl20", "MS MARCO dev": "dev"}


def counts(table: int) -> pd.DataFrame:
    """Table 1 or 2 in the form of our overlap tables: test_set, label, n, percent, source."""
    frame = published.load("zhan", table)
    n = (frame["value"] / 100 * frame["n_queries"]).round().astype(int)
    columns = {"test_set": frame["collection"].map(TEST_SETS), "label": frame["row"].str.split().str[0].str.lower()}
    return pd.DataFrame(columns | {"n": n, "percent": frame["value"], "source": "published"})


def shares(seed: int, n_boot: int) -> Effects:
    """The shares of test queries that Tables 1 and 2 give to the two labels of more overlap, over DL 2019 and 2020.

    Returns Effects[label, test_set, measure, estimate, n_queries], with the draws of as many queries.
    """
    rows, drawn, random = [], [], np.random.default_rng(seed)
    for number, names in enumerate(LABELS.values(), 1):
        table = counts(number).query("test_set in ['dl19', 'dl20']")
        n, inside = table["n"].sum(), table.loc[table["label"].isin(names[:2]), "n"].sum()
        row = {"label": " or ".join(names[:2]), "test_set": "DL 2019 and 2020", "measure": "share of queries"}
        rows.append(row | {"estimate": inside / n, "n_queries": n})
        drawn.append(random.binomial(n, inside / n, n_boot) / n)
    return Effects.of(pd.DataFrame(rows), ["label"], ["estimate"], drawn)


def gains(runs: pd.DataFrame, qrels: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """nDCG@10 of the plan's published runs less BM25's: system, split, query_id, gain; `qrels`: split → judgements."""
    parts = []
    for split, of_split in runs.groupby("split", sort=False):
        paths = of_split.set_index("system")["path"]
        values = {
            system: per_query(RunFile.read(path), qrels[split], ["nDCG@10"])["nDCG@10"]
            for system, path in paths.items()
        }
        wide = pd.DataFrame(values).rename_axis("query_id")
        wide = wide.drop(columns=BM25).sub(wide[BM25], axis=0)
        parts.append(wide.reset_index().melt("query_id", var_name="system", value_name="gain").assign(split=split))
    return pd.concat(parts, ignore_index=True)[["system", "split", "query_id", "gain"]]


def gain_by_overlap(gained: pd.DataFrame, counts: pd.DataFrame, seed: int, n_boot: int) -> Effects:
    """Do published runs gain more over BM25 on queries that share a relevant passage with training?

    The mean gain over the systems, of a query, by least squares on whether it shares one and on the logarithm of how
    many relevant passages it has: who has many shares one more easily, and is easier. Queries are drawn.

    `gained`: of `gains`; `counts`: shared and n_relevant of each query that has a relevant passage, by query_id.

    Returns Effects[overlap, measure, estimate, n_models, n_queries]: a row with and one without overlap, each the gain
    of a query with the mean number of relevant passages.
    """
    mean = gained.groupby("query_id")["gain"].mean().loc[counts.index].to_numpy()
    overlap, size = (counts["shared"] > 0).to_numpy(float), np.log(counts["n_relevant"].to_numpy(float))
    design = np.column_stack([np.ones(len(mean)), overlap, size - size.mean()])
    weights = np.concatenate([np.ones((1, len(mean))), *resamples(len(mean), seed, n_boot)]).astype(float)
    inner = np.einsum("bn,ni,nj->bij", weights, design, design)
    found = np.linalg.solve(inner, ((weights * mean) @ design)[..., None])[..., 0]  # [1 + n_boot, 3]
    both = {True: found[:, 0] + found[:, 1], False: found[:, 0]}
    table = pd.DataFrame({"overlap": list(both), "estimate": [draws[0] for draws in both.values()]})
    table = table.assign(measure="nDCG@10", n_models=gained["system"].nunique(), n_queries=len(mean))
    return Effects.of(table, ["overlap"], ["estimate"], [draws[1:] for draws in both.values()])
