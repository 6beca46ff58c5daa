"""Notebook 01: candidates to annotate, our overlap beside Tables 1 to 4 of Zhan et al. (CIKM 2022,
section 3).

And do published runs gain more on queries that overlap with training?
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from interextra.data.load import with_data_folder
from interextra.data.runs import RunFile
from interextra.measures.evaluate import per_query
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.notebooks.parameters import (
    AnyEntries,
    AnyNames,
    Distinct,
    Entries,
    Million,
    Names,
    NotEmpty,
    Share,
    Thousands,
    TrainingParameters,
    parameter,
)
from interextra.notebooks.plans import Plan, fields, query_vectors, test_queries
from interextra.overlap.annotation import codes
from interextra.overlap.candidates import Candidates
from interextra.overlap.labels import LABELS
from interextra.papers import published
from interextra.papers.releases import real_vectors
from interextra.stats.bootstrap import resamples, seed_of
from interextra.stats.effects import Effects, effects
from interextra.store.errors import InputError, offenders

NDCG = "nDCG@10"
TEST_SETS = {"TREC DL 2019": "dl19", "TREC DL 2020": "dl20", "MS MARCO dev": "dev"}


class Parameters(TrainingParameters):
    """Parameters of notebook 01, overlap."""

    sample_dev: Million = parameter(100, "dev queries drawn at random", paper="100")
    candidates: Thousands = parameter(10, "candidates per test query and method", paper="10")
    truth: bool = parameter(
        True, "use the entities and intents stored with the queries; false: only annotators' labels"
    )
    sheets: AnyNames = parameter(
        [],
        "completed sheets of your annotators (CSV), all with the same pairs; replace the simulated ones",
    )
    annotators: Annotated[int, Field(ge=2, le=1000)] = parameter(
        3, "simulated annotators", paper="3"
    )
    error_rates: Annotated[list[Share], NotEmpty, Distinct] = parameter(
        [0.0, 0.05, 0.1, 0.2, 0.3, 0.4], "error rates of a simulated annotator"
    )
    error_rate: Share = parameter(
        0.1, "error rate of the annotators in Tables 1 and 2; κ of intent is then near the paper's"
    )
    real_msmarco: bool = parameter(
        False, "also Tables 3 and 4 on the real queries and labels (folder: INTEREXTRA_DATA)"
    )
    test_splits: Names = parameter(["test", "dev"], "splits whose overlap is measured")
    graded_splits: Names = parameter(
        ["test"], "splits whose judgements are compared with the training labels (Table 3)"
    )
    encoder: str = parameter(
        "trained", "the embedding: trained (dense, all training queries), minilm, lsa"
    )
    recipes: Entries = parameter(["mini-dense"], "recipe of the dense model behind `trained`")
    real_encoder: str = parameter("minilm", "embedding for the real queries")
    runs: AnyEntries = parameter(
        [], "published runs on the real queries, {system, split, file}; BM25 among them"
    )


def plan(p: Parameters) -> Plan:
    """Candidates by BM25 and by embedding; with `real_msmarco` also for the real queries.

    `graded`: the queries whose judgements are compared with the training labels. `runs`: system,
    split, path.
    """
    if missing := [sheet for sheet in p.sheets if not Path(sheet).is_file()]:
        raise InputError(
            f"parameter 'sheets': no file {offenders(missing)}; a relative path begins at the repository"
        )
    runs = [fields(entry, "system", "split", "file") for entry in p.runs]
    runs = pd.DataFrame(runs, columns=["system", "split", "path"])
    runs["path"] = runs["path"].map(with_data_folder)
    if missing := [path for path in runs["path"] if not Path(path).is_file()]:
        raise InputError(f"parameter 'runs': no file {offenders(missing)}")
    if alone := set(runs["split"]) - set(runs.loc[runs["system"] == BM25, "split"]):
        raise InputError(
            f"parameter 'runs': no run of {BM25} on {offenders(sorted(alone))}, over which others gain"
        )
    graded = test_queries(p, p.graded_splits)
    made = Plan(runs=runs, vectors=query_vectors(p, test_queries(p, p.test_splits)), graded=graded)
    made.candidates = Candidates(vectors=made.vectors, k=p.candidates)
    if p.real_msmarco:
        made.real = Candidates(vectors=real_vectors(p.real_encoder), k=p.candidates)
    return made


def published_counts(table: int) -> pd.DataFrame:
    """Table 1 or 2 in the form of our overlap tables: test_set, label, n, percent, source."""
    frame = published.load("zhan", table)
    n = (frame["value"] / 100 * frame["n_queries"]).round().astype(int)
    columns = {
        "test_set": frame["collection"].map(TEST_SETS),
        "label": frame["row"].str.split().str[0].str.lower(),
    }
    return pd.DataFrame(columns | {"n": n, "percent": frame["value"], "source": "published"})


def published_shares(seed: int, n_boot: int) -> Effects:
    """The shares of test queries that Tables 1 and 2 give to the two labels of more overlap, over
    DL 2019 and 2020.

    Returns Effects[label, test_set, measure, estimate, n_queries], with the draws of as many
    queries.
    """
    rows, random = [], np.random.default_rng(seed)
    for number, names in enumerate(LABELS.values(), 1):
        table = published_counts(number).query("test_set in ['dl19', 'dl20']")
        n, inside = table["n"].sum(), table.loc[table["label"].isin(names[:2]), "n"].sum()
        rows.append((" or ".join(names[:2]), inside / n, n))
    table = pd.DataFrame(rows, columns=["label", "estimate", "n_queries"])
    drawn = [random.binomial(n, share, n_boot) / n for _, share, n in rows]
    table = table.assign(test_set="DL 2019 and 2020", measure="share of queries")
    return Effects.of(table, ["label"], ["estimate"], drawn)


def beside_table_3(measured: pd.DataFrame) -> pd.DataFrame:
    """Our label overlap with the published percentages of DL19 and DL20 beside it: the columns of
    label_overlap.csv.
    """
    frame, on = published.load("zhan", 3), ["test_set", "relevance_threshold"]
    columns = [
        frame["collection"].map(TEST_SETS),
        frame["row"].str.extract(r"(\d)")[0].astype(int),
        frame["value"],
    ]
    theirs = pd.DataFrame(dict(zip([*on, "published_percent"], columns, strict=True)))
    columns = [*on, "min_shared", "n_queries", "n_overlapping", "percent", "low", "high"]
    return measured[columns].merge(theirs, how="left", on=on)


def table_4(pairs: pd.DataFrame, train: pd.DataFrame) -> pd.DataFrame:
    """The published duplicates: is the training query among ours, and at which rank does each
    method find it?

    `pairs`: candidates (test_query, train_query, bm25_rank, embedding_rank; 0: not found); `train`:
    has their text.
    """
    texts = ["test_query", "train_query"]
    twins = published.load("zhan", 4).pivot(index="pair", columns="column", values="text")
    twins = twins.set_axis(texts[::-1], axis=1)[texts]
    known = twins["train_query"].str.lower().isin(train["text"].str.strip().str.lower())
    found = pairs[[*texts, "bm25_rank", "embedding_rank"]]
    found = found.assign(
        **{name: found[name].str.strip().str.lower() for name in texts}
    ).drop_duplicates(texts)
    return twins.assign(in_our_training_queries=known).merge(found, how="left", on=texts)


def simulate_annotators(truth: np.ndarray, error_rate: float, n: int, seed: int) -> np.ndarray:
    """Codes that `n` annotators would give who err independently: int64[n, n_pairs] from `truth`
    int[n_pairs].

    An error is a neighbouring code: 0 and 2 become 1, and 1 becomes 0 or 2.

    >>> simulate_annotators(np.array([0, 1, 2]), 0.0, n=2, seed=1).tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    rng = np.random.default_rng(seed)
    wrong = rng.random((n, len(truth))) < error_rate
    other = np.where(truth == 1, 2 * rng.integers(2, size=(n, len(truth))), 1)
    return np.where(wrong, other, truth)


def recall_comparison(pairs: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Which method finds the more similar training queries (Zhan §4.1.1): mean code of its
    candidates, paired by query.

    `pairs` labelled, with source; a pair found by both counts for both. Test queries without a
    candidate of one method are left out. Returns a row of `stats.effects` for each of entity and
    intent, as `label`.
    """
    given = pd.DataFrame({label: codes(pairs, label) for label in LABELS})
    given = given.assign(
        query_id=pairs["test_query_id"].to_numpy(), source=pairs["source"].to_numpy()
    )
    parts = [
        given[given["source"].isin([name, "both"])].assign(method=name)
        for name in ("bm25", "embedding")
    ]
    values = pd.concat(parts).drop(columns="source").melt(["method", "query_id"], var_name="label")
    values = values[values.groupby("query_id")["method"].transform("nunique") == 2]
    return effects(
        values, ["label"], "method", ("bm25", "embedding"), "difference", family=[], seed=seed
    )


def gains(runs: pd.DataFrame, qrels: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """nDCG@10 of the plan's published runs less BM25's: system, split, query_id, gain; `qrels`:
    split → judgements.
    """
    parts = []
    for split, of_split in runs.groupby("split", sort=False):
        values = [
            per_query(RunFile.read(path), qrels[split], [NDCG])[NDCG] for path in of_split["path"]
        ]
        wide = pd.DataFrame(dict(zip(of_split["system"], values, strict=True))).rename_axis(
            "query_id"
        )
        wide = wide.drop(columns=BM25).sub(wide[BM25], axis=0).reset_index()
        parts.append(
            wide.melt("query_id", var_name="system", value_name="gain").assign(split=split)
        )
    return pd.concat(parts, ignore_index=True)[["system", "split", "query_id", "gain"]]


def gain_by_overlap(gained: pd.DataFrame, counts: pd.DataFrame, seed: int, n_boot: int) -> Effects:
    """Do published runs gain more over BM25 on queries that share a relevant passage with training?

    `gained`: of `gains`; `counts`: shared and n_relevant of each query that has a relevant passage,
    by query_id. The mean gain over the systems, of a query, by least squares on whether it shares
    one and on the logarithm of how many relevant passages it has: who has many shares one more
    easily, and is easier. Queries are drawn. Returns Effects[overlap, measure, estimate, n_models,
    n_queries], a row with and one without, at the mean logarithm.
    """
    counts = counts.sort_index()
    mean = gained.groupby("query_id")["gain"].mean().loc[counts.index].to_numpy()
    overlap, size = (
        (counts["shared"] > 0).to_numpy(float),
        np.log(counts["n_relevant"].to_numpy(float)),
    )
    design = np.column_stack([np.ones(len(mean)), overlap, size - size.mean()])
    drawn = resamples(len(mean), seed_of(seed, counts.index), n_boot)
    weights = np.concatenate([np.ones((1, len(mean))), *drawn]).astype(float)
    inner = np.einsum("bn,ni,nj->bij", weights, design, design)
    found = np.linalg.solve(inner, ((weights * mean) @ design)[..., None])[
        ..., 0
    ]  # [1 + n_boot, 3]
    sides = np.stack([found[:, 0] + found[:, 1], found[:, 0]])  # with and without overlap
    table = pd.DataFrame({"overlap": [True, False], "estimate": sides[:, 0], "measure": NDCG})
    table = table.assign(n_models=gained["system"].nunique(), n_queries=len(mean))
    return Effects.of(table, ["overlap"], ["estimate"], sides[:, 1:])
