"""Notebook 11: runs judged by all judgements, and by smaller pools, to which some of the runs
contributed nothing.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd

from interextra.data.load import with_data_folder
from interextra.data.runs import RunFile
from interextra.data.trec import read_qrels
from interextra.measures import pool
from interextra.measures.evaluate import per_query
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.notebooks import plans
from interextra.notebooks.parameters import (
    AnyEntries,
    Count,
    Distinct,
    Entries,
    Million,
    Names,
    RunParameters,
    Thousands,
    parameter,
)
from interextra.papers.releases import real_vectors
from interextra.splits.similarity import nearest
from interextra.stats.correlation import correlations, drawn_groups, ends_of
from interextra.stats.effects import Effects
from interextra.store import InputError, Store, offenders

ALL, OWN = "all judgements", "without the run's own"
NEURAL = "neural"
FAMILIES = {
    NEURAL: [NEURAL],
    "neural and reranking": [NEURAL, "reranker"],
    "lexical": [BM25, "lexical"],
}
RUN = ["test_set", "family", "system"]
FIRST = "nDCG@10"
MEASURES = [FIRST, "Bpref", "Judged@10"]
CONDENSED = f"{FIRST}, condensed"


class Parameters(RunParameters):
    """Parameters of notebook 11, pool bias."""

    runs: AnyEntries = parameter(
        [], "run files of yours: test_set, family (BM25, lexical, neural, reranker), system, file"
    )
    qrels: AnyEntries = parameter([], "their judgements: test_set, file")
    pool_depth: Million = parameter(10, "passages of each run that went into the pool")
    n_draws: Thousands = parameter(20, "random choices of the judgements that are given back")
    recipes: Entries = parameter(
        ["bm25", "mini-dense", "mini-splade", "mini-colbert"],
        "systems, where `runs` names no files; all but BM25 are neural",
    )
    test_splits: Names = parameter(["graded"], "their test queries")
    complete: bool = parameter(
        True,
        "whether what the qrels do not have is known to be irrelevant, as in a generated world",
    )
    real_encoder: str = parameter(
        "", "lsa or minilm: how near the test queries of MS MARCO lie to its training queries"
    )
    per_topic: Annotated[list[Count], Distinct] = parameter(
        [0, 1, 2, 5, 10], "judgements per topic that are given back to a pool"
    )


def plan(p: Parameters) -> plans.Plan:
    """`runs`: test_set, family, system, and path, or run (a cell) and its queries; `qrels`: test
    set → path, of files.

    Runs are files (`runs`, `qrels`), or those of trained systems on the collection's `test_splits`:
    BM25 is a family of its own, all others are neural. `vectors`: of the real queries, with
    `real_encoder`.
    """
    named = [plans.fields(entry, "test_set", "file") for entry in p.qrels]
    qrels = {name: with_data_folder(path) for name, path in named}
    rows = [
        dict(zip([*RUN, "path"], plans.fields(entry, *RUN, "file"), strict=True))
        for entry in p.runs
    ]
    rows = [row | {"path": with_data_folder(row["path"])} for row in rows]
    if missing := [
        path
        for path in [*qrels.values(), *(row["path"] for row in rows)]
        if not Path(path).is_file()
    ]:
        raise InputError(f"parameters 'runs' and 'qrels': no file {offenders(missing)}")
    if without := {row["test_set"] for row in rows} - set(qrels):
        raise InputError(
            f"parameter 'qrels': no file for the test set {offenders(sorted(without))}"
        )
    train, queries = plans.training_queries(p), plans.test_queries(p, p.test_splits)
    for label, made in plans.with_bm25(plans.systems(p)).items() if not rows else ():
        run = plans.run_of(p, made, train, p.seed, queries)
        labels = {"family": BM25 if label == BM25 else NEURAL, "system": label, "run": run}
        rows += [{"test_set": one.name, "queries": one} | labels for one in queries]
    found = pd.DataFrame(rows)
    if repeated := found[found.duplicated(RUN[::2])]["system"].tolist():
        raise InputError(f"parameter 'runs': {offenders(repeated)} stands twice for a test set")
    if not any({BM25, NEURAL} <= set(part) for _, part in found.groupby("test_set")["family"]):
        told = f"which are compared; there are {', '.join(found['family'].unique())}"
        raise InputError(
            f"parameter 'runs': no test set has the families {BM25} and {NEURAL}, {told}"
        )
    return plans.Plan(
        runs=found,
        qrels=qrels,
        vectors=real_vectors(p.real_encoder) if p.real_encoder else None,
    )


class Judged:
    """Runs and judgements of a plan; `complete`: what a run returns is judged, as relevance is
    known (not of files).
    """

    def __init__(self, plan: plans.Plan, store: Store, depth: int, complete: bool):
        self.depth, self.runs, self.qrels = (
            depth,
            {},
            {name: read_qrels(path) for name, path in plan.qrels.items()},
        )
        for row in plan.runs.to_dict("records"):
            key, queries = tuple(row[name] for name in RUN), row.get("queries")
            self.runs[key] = (
                row["run"].read(store, queries) if queries else RunFile.read(row["path"])
            )
            if queries:
                self.qrels.setdefault(
                    row["test_set"], queries.qrels(store)[[*pool.PAIR, "relevance"]]
                )
        self.heads = {
            key: RunFile.from_frame(run.frame()[run.ranks <= depth])
            for key, run in self.runs.items()
        }
        for name in set(self.qrels) - set(plan.qrels) if complete else ():
            every = (
                pool.judgement_pool(self.of(name).values(), depth=10**9)
                .to_frame(index=False)
                .assign(relevance=0)
            )
            every = pd.concat(
                [self.qrels[name], every[every["query_id"].isin(self.qrels[name]["query_id"])]]
            )
            self.qrels[name] = every.drop_duplicates(pool.PAIR, ignore_index=True)

    def of(self, test_set: str, *families: str) -> dict[tuple, RunFile]:
        """The runs of a test set, or of some families there."""
        keys = [
            key for key in self.runs if key[0] == test_set and (not families or key[1] in families)
        ]
        return {key: self.runs[key] for key in keys}

    def without(self, test_set: str, own: Sequence[tuple]) -> pd.DataFrame:
        """Judgements of a test set without those that some of its runs alone contribute."""
        others = [self.heads[key] for key in self.of(test_set) if key not in own]
        return pool.left_out(
            self.qrels[test_set], [self.heads[key] for key in own], others, self.depth
        )

    def pools(self, key: tuple) -> dict[str, pd.DataFrame]:
        """The judgements by which a run is judged: all, without the own ones of FAMILIES, without
        the run's own.
        """
        test_set = key[0]
        made, seen = {ALL: self.qrels[test_set]}, [[], list(self.of(test_set))]
        for name, families in FAMILIES.items():
            if (own := list(self.of(test_set, *families))) not in seen:
                seen.append(own)
                made[f"without the {name} runs' own"] = self.without(test_set, own)
        return made | {OWN: self.without(test_set, [key])}

    def values(self) -> pd.DataFrame:
        """Of each run by each pool: test_set, family, system, judged_by, query_id, measure,
        value.
        """
        parts = []
        for key, run in self.runs.items():
            for name, qrels in self.pools(key).items():
                table = per_query(run, qrels, MEASURES)
                table[CONDENSED] = per_query(pool.condensed(run, qrels), qrels, [FIRST])[FIRST]
                # one that loses all its judgements has no relevant passage that is known: 0, as for
                # any other system
                table = table.reindex(self.qrels[key[0]]["query_id"].unique(), fill_value=0.0)
                part = (
                    table.rename_axis("query_id").reset_index().melt("query_id", var_name="measure")
                )
                parts.append(part.assign(**dict(zip(RUN, key, strict=True)), judged_by=name))
        found = pd.concat(parts, ignore_index=True)
        return found.assign(
            query_id=found["test_set"] + " " + found["query_id"]
        )  # TREC-COVID's rounds share topics

    def ranges(self, seed: int) -> pd.DataFrame:
        """Means of `pool.pool_range` and of RBP for each run and pool: the columns of
        pool_bias.csv.
        """
        rows = []
        for key, run in self.runs.items():
            for name, qrels in self.pools(key).items():
                judged = per_query(run, qrels, ["Judged@10"]).set_axis(["judged_at_10"], axis=1)
                tables = (
                    pool.pool_range(run, qrels, seed=seed),
                    pool.rank_biased_precision(run, qrels),
                    judged,
                )
                means = pd.concat([table.mean() for table in tables])
                rows.append(
                    dict(zip(RUN, key, strict=True)) | {"judged_by": name} | means.to_dict()
                )
        return pd.DataFrame(rows)

    def restored(
        self, family: str, numbers: Sequence[int], n_draws: int, seed: int
    ) -> pd.DataFrame:
        """nDCG@10 where a pool without a family's own runs gets some of its missing judgements
        back.

        They are drawn for each topic, as many as `numbers` say. Returns means over the runs of the
        family and of BM25, on test sets that have both: per_topic, family, seed (the draw),
        query_id, value.
        """
        random, parts = np.random.default_rng(seed), {}
        for name, every in self.qrels.items():
            if self.of(name, family) and self.of(name, BM25):
                kept = self.without(name, list(self.of(name, family)))
                parts[name] = kept, every.drop(kept.index)
        found = {}
        for number, draw, name in itertools.product(numbers, range(n_draws), parts):
            kept, missing = parts[name]
            given = missing.iloc[random.permutation(len(missing))].groupby("query_id").head(number)
            qrels = pd.concat([kept, given], ignore_index=True)
            qrels = qrels[
                (qrels["relevance"] > 0) | ~qrels.duplicated("query_id")
            ]  # others count as if unjudged
            for side in (family, BM25):
                values = [
                    per_query(run, qrels, [FIRST])[FIRST] for run in self.of(name, side).values()
                ]
                found[number, side, draw, name] = pd.concat(values, axis=1).mean(axis=1)
        labels = ["per_topic", "family", "seed", "test_set", "query_id"]
        table = pd.concat(found, names=labels).rename("value").reset_index()
        return table.assign(query_id=table.pop("test_set") + " " + table["query_id"])


def by_family(values: pd.DataFrame) -> pd.DataFrame:
    """Means over the systems of a family: judged_by, family, measure, query_id, value."""
    return (
        values.groupby(["judged_by", "family", "measure", "query_id"], sort=False)["value"]
        .mean()
        .reset_index()
    )


def order_flips(differences: pd.DataFrame) -> pd.DataFrame:
    """Does a smaller pool turn the order of a system and BM25 round? `differences`: contrasts of
    systems with BM25.

    Returns system, judged_by, by_all (the difference by all judgements), difference, low, high,
    flipped (its sign is another one) and is_sure (both intervals exclude 0).
    """
    is_by_all = differences["judged_by"] == ALL
    found = differences[~is_by_all].rename(columns={"first": "system"})
    every = differences[is_by_all].set_index("first").loc[found["system"]].set_index(found.index)
    flipped = np.sign(found["difference"]) * np.sign(every["difference"]) < 0
    is_sure = flipped & (found["low"] * found["high"] > 0) & (every["low"] * every["high"] > 0)
    table = found.assign(by_all=every["difference"], flipped=flipped, is_sure=is_sure)
    return table[
        ["system", "judged_by", "by_all", "difference", "low", "high", "flipped", "is_sure"]
    ]


def agreement_of_orders(means: Effects, seed: int) -> pd.DataFrame:
    """Kendall's tau of the orders of systems (`means`: by judged_by, system, measure) by all
    judgements and by others.

    Returns judged_by, measure, tau, low, high (topics are drawn), low_runs, high_runs (systems,
    too), n_systems.
    """
    rows = []
    for measure, part in means.groupby("measure", sort=False):
        every = part[part["judged_by"] == ALL].set_index("system")
        for name, found in part[part["judged_by"] != ALL].groupby("judged_by", sort=False):
            found = found.set_index("system").loc[every.index]
            drawn = every.drawn().T, found.drawn().T
            same = np.ones(drawn[0].shape)
            tau = correlations(every["mean"], found["mean"], same[:1], "Kendall").item()
            of_topics = ends_of(correlations(*drawn, same, "Kendall"))
            of_runs = ends_of(
                correlations(*drawn, drawn_groups(every.index, seed, len(same)), "Kendall")
            )
            rows.append((name, measure, tau, *of_topics, *of_runs, len(every)))
    columns = ["judged_by", "measure", "tau", "low", "high", "low_runs", "high_runs", "n_systems"]
    return pd.DataFrame(rows, columns=columns)


def distances(plan: plans.Plan, store: Store) -> pd.DataFrame:
    """The nearest training query of real test queries: query_id (of `Judged.values`), cosine,
    is_near (nearer half).
    """
    train, test = plan.vectors.read(store)
    cosine = nearest(test, train, 1)[0][:, 0]
    names = [(part.name, query_id) for part in plan.vectors.test for query_id in part.ids(store)]
    found = pd.DataFrame(names, columns=["test_set", "query_id"]).assign(cosine=cosine)
    found["is_near"] = found["cosine"] > found.groupby("test_set")["cosine"].transform("median")
    return found.assign(query_id=found["test_set"] + " " + found["query_id"]).drop(
        columns="test_set"
    )
