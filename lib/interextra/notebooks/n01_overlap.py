"""Notebook 01: candidates to annotate, our overlap beside Tables 1 to 4 of Zhan et al.

CIKM 2022, section 3. And do published runs gain more on queries that overlap with training?
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd

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
    Several,
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
TEXTS = ["test_query", "train_query"]
# Column of Zhan's Table 4 → ours
COLUMNS_OF_TABLE_4 = {
    "TREC 20 DL Test Query": "test_query",
    "Duplicate Training Query": "train_query",
}


class Parameters(TrainingParameters):
    """Parameters of notebook 01, overlap."""

    sample_dev: Million = parameter(100, "dev queries drawn at random", paper="100")
    candidates: Thousands = parameter(10, "candidates per test query and method", paper="10")
    truth: bool = parameter(
        True, "use the entities and intents stored with the queries; false: only annotators' labels"
    )
    sheets: AnyNames = parameter(
        [],
        "completed sheets of your annotators (CSV), all with the same pairs; replace the simulated "
        "ones",
    )
    annotators: Several = parameter(3, "simulated annotators", paper="3")
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
    """Return candidates by BM25 and by embedding; with `real_msmarco` also for the real queries.

    Returns
    -------
    Plan
        `runs` (see `gains`), `vectors` of the queries, `graded` (queries whose judgements are
        compared with the training labels), `candidates`, and with `real_msmarco` those of the real
        queries, `real`.

    Raises
    ------
    InputError
        A file that is not there, or published runs on a split without a run of BM25.
    """
    missing_sheets = _not_there(p.sheets)
    if missing_sheets:
        raise InputError(
            f"parameter 'sheets': no file {offenders(missing_sheets)}; a relative path begins at "
            "the repository"
        )
    runs = _published_runs(p)
    vectors = query_vectors(p, test_queries(p, p.test_splits))
    planned = Plan(
        runs=runs,
        vectors=vectors,
        graded=test_queries(p, p.graded_splits),
        candidates=Candidates(vectors=vectors, k=p.candidates),
    )
    if p.real_msmarco:
        real = real_vectors(p.real_encoder)
        planned.real = Candidates(vectors=real, k=p.candidates)
    return planned


def _published_runs(p: Parameters) -> pd.DataFrame:
    """Return system, split, path of the published runs; their files and BM25's must be there."""
    entries = [fields(entry, "system", "split", "file") for entry in p.runs]
    runs = pd.DataFrame(entries, columns=["system", "split", "path"])
    runs["path"] = runs["path"].map(with_data_folder)
    missing_files = _not_there(runs["path"])
    if missing_files:
        raise InputError(f"parameter 'runs': no file {offenders(missing_files)}")
    splits_of_bm25 = runs.loc[runs["system"] == BM25, "split"]
    without_bm25 = set(runs["split"]).difference(splits_of_bm25)
    if without_bm25:
        raise InputError(
            f"parameter 'runs': no run of {BM25} on {offenders(sorted(without_bm25))}, over which "
            "others gain"
        )
    return runs


def _not_there(paths: Iterable[str]) -> list[str]:
    """Return those of some paths at which there is no file."""
    return [path for path in paths if not Path(path).is_file()]


def published_counts(table: int) -> pd.DataFrame:
    """Return Table 1 or 2 in the form of our overlap tables.

    Returns
    -------
    pandas.DataFrame
        test_set, label, n (queries), percent, source.
    """
    printed = published.load("zhan", table)
    percent = printed["value"]
    n_queries = percent / 100 * printed["n_queries"]
    label = printed["row"].str.split().str[0]
    return pd.DataFrame(
        {
            "test_set": printed["collection"].map(TEST_SETS),
            "label": label.str.lower(),
            "n": n_queries.round().astype(int),
            "percent": percent,
            "source": "published",
        }
    )


def published_shares(seed: int, n_boot: int) -> Effects:
    """Return the shares of DL 2019 and 2020 that Tables 1 and 2 give to the labels of more overlap.

    Returns
    -------
    Effects
        label (the two labels of more overlap), test_set, measure, estimate, n_queries; a row a
        table, with the draws of as many queries.
    """
    random = np.random.default_rng(seed)
    rows, drawn_shares = [], []
    for table, labels in enumerate(LABELS.values(), 1):
        counts = published_counts(table).query("test_set in ['dl19', 'dl20']")
        n_of_label = counts.groupby("label")["n"].sum()
        n_queries = n_of_label.sum()
        more_overlap = list(labels[:2])
        share = n_of_label[more_overlap].sum() / n_queries
        rows.append((" or ".join(more_overlap), share, n_queries))
        drawn = random.binomial(n_queries, share, n_boot)
        drawn_shares.append(drawn / n_queries)
    shares = pd.DataFrame(rows, columns=["label", "estimate", "n_queries"])
    shares = shares.assign(test_set="DL 2019 and 2020", measure="share of queries")
    return Effects.of(shares, ["label"], ["estimate"], drawn_shares)


def beside_table_3(measured: pd.DataFrame) -> pd.DataFrame:
    """Return our label overlap with the published percentages of DL19 and DL20 beside it.

    Returns
    -------
    pandas.DataFrame
        The columns of label_overlap.csv.
    """
    printed = published.load("zhan", 3)
    relevance = printed["row"].str.extract(r"(\d)", expand=False)
    percentages = pd.DataFrame(
        {
            "test_set": printed["collection"].map(TEST_SETS),
            "relevance_threshold": relevance.astype(int),
            "published_percent": printed["value"],
        }
    )
    on = ["test_set", "relevance_threshold"]
    ours = [*on, "min_shared", "n_queries", "n_overlapping", "percent", "low", "high"]
    return measured[ours].merge(percentages, how="left", on=on)


def table_4(pairs: pd.DataFrame, train: pd.DataFrame) -> pd.DataFrame:
    """Return the published duplicates, and where our candidates have them.

    Is the training query among ours, and at which rank does each method find it?

    Parameters
    ----------
    pairs
        Candidates: test_query, train_query, bm25_rank, embedding_rank (0: not found).
    train
        Our training queries, with their text.

    Returns
    -------
    pandas.DataFrame
        test_query, train_query, in_our_training_queries, bm25_rank, embedding_rank; the ranks are
        missing where the pair is no candidate.
    """
    printed = published.load("zhan", 4)
    printed = printed.assign(column=printed["column"].map(COLUMNS_OF_TABLE_4))
    duplicates = printed.pivot(index="pair", columns="column", values="text")
    our_texts = _plain(train["text"])
    duplicates["in_our_training_queries"] = _plain(duplicates["train_query"]).isin(our_texts)
    ranks = pairs[[*TEXTS, "bm25_rank", "embedding_rank"]].copy()
    for name in TEXTS:
        ranks[name] = _plain(ranks[name])
    ranks = ranks.drop_duplicates(TEXTS)
    return duplicates.merge(ranks, how="left", on=TEXTS)


def _plain(texts: pd.Series) -> pd.Series:
    """Return texts in lower case, without space around them."""
    return texts.str.strip().str.lower()


def simulate_annotators(truth: np.ndarray, error_rate: float, n: int, seed: int) -> np.ndarray:
    """Return the codes that annotators would give who err independently.

    An error is a neighbouring code: 0 and 2 become 1, and 1 becomes 0 or 2.

    Parameters
    ----------
    truth : int[n_pairs]
        The true codes, see `overlap.annotation.codes`.
    error_rate
        Probability of an error.
    n
        Number of annotators.
    seed
        Of the errors.

    Returns
    -------
    int64[n, n_pairs]

    Examples
    --------
    >>> simulate_annotators(np.array([0, 1, 2]), 0.0, n=2, seed=1).tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    rng = np.random.default_rng(seed)
    shape = (n, len(truth))
    is_wrong = rng.random(shape) < error_rate
    zero_or_two = 2 * rng.integers(2, size=shape)
    neighbour = np.where(truth == 1, zero_or_two, 1)
    return np.where(is_wrong, neighbour, truth)


def recall_comparison(pairs: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Compare the overlap of the training queries that BM25 and the embedding find.

    Which method finds the more similar training queries (Zhan §4.1.1): the mean code of its
    candidates, paired by query. A pair found by both counts for both. Test queries without a
    candidate of one method are left out.

    Parameters
    ----------
    pairs
        Labelled, with source.
    seed
        Of the bootstrap.

    Returns
    -------
    pandas.DataFrame
        A row of `stats.effects` for each of entity and intent, as `label`.
    """
    coded = pairs.rename(columns={"test_query_id": "query_id"})
    for label in LABELS:
        coded[label] = codes(pairs, label)
    methods = ("bm25", "embedding")
    parts = []
    for method in methods:
        is_found = coded["source"].isin([method, "both"])
        parts.append(coded[is_found].assign(method=method))
    both = pd.concat(parts)
    values = both.melt(["method", "query_id"], list(LABELS), var_name="label")
    n_methods = values.groupby("query_id")["method"].transform("nunique")
    paired = values[n_methods == 2]
    return effects(paired, ["label"], "method", methods, "difference", family=[], seed=seed)


def gains(runs: pd.DataFrame, qrels: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return nDCG@10 of the published runs minus that of BM25, by query.

    Parameters
    ----------
    runs
        system, split, path; BM25 among the systems of each split.
    qrels
        Split → judgements.

    Returns
    -------
    pandas.DataFrame
        system, split, query_id, gain.
    """
    parts = []
    for split, runs_of_split in runs.groupby("split", sort=False):
        ndcg = {}
        for row in runs_of_split.itertuples():
            run = RunFile.read(row.path)
            values = per_query(run, qrels[split], [NDCG])
            ndcg[row.system] = values[NDCG]
        by_system = pd.DataFrame(ndcg).rename_axis("query_id")
        bm25 = by_system.pop(BM25)
        gain = by_system.sub(bm25, axis=0).reset_index()
        long = gain.melt("query_id", var_name="system", value_name="gain")
        parts.append(long.assign(split=split))
    gained = pd.concat(parts, ignore_index=True)
    return gained[["system", "split", "query_id", "gain"]]


def gain_by_overlap(gained: pd.DataFrame, counts: pd.DataFrame, seed: int, n_boot: int) -> Effects:
    """Compare the gain over BM25 with and without a relevant passage shared with training.

    Do published runs gain more on queries that share one? The mean gain over the systems, of a
    query, by least squares on whether it shares one and on the logarithm of how many relevant
    passages it has: who has many shares one more easily, and is easier. Queries are drawn.

    Parameters
    ----------
    gained
        Of `gains`.
    counts
        shared and n_relevant of each query that has a relevant passage; index query_id.
    seed
        Of the bootstrap.
    n_boot
        Resamples.

    Returns
    -------
    Effects
        overlap, estimate, measure, n_models, n_queries: a row with and one without overlap, at the
        mean logarithm.
    """
    counts = counts.sort_index()
    mean_gains = gained.groupby("query_id")["gain"].mean()
    target = mean_gains[counts.index].to_numpy()
    weights = _weights(counts.index, seed, n_boot)
    coefficients = _least_squares(_predictors(counts), target, weights)
    without_overlap = coefficients[:, 0]
    with_overlap = without_overlap + coefficients[:, 1]
    estimates = [with_overlap[0], without_overlap[0]]
    draws = [with_overlap[1:], without_overlap[1:]]
    table = pd.DataFrame(
        {
            "overlap": [True, False],
            "estimate": estimates,
            "measure": NDCG,
            "n_models": gained["system"].nunique(),
            "n_queries": len(counts),
        }
    )
    return Effects.of(table, ["overlap"], ["estimate"], draws)


def _predictors(counts: pd.DataFrame) -> np.ndarray:
    """Return float[n, 3]: a constant, whether a query overlaps, and its log n_relevant, centred."""
    overlaps = (counts["shared"] > 0).to_numpy(float)
    log_size = np.log(counts["n_relevant"].to_numpy(float))
    log_size -= log_size.mean()
    constant = np.ones(len(counts))
    return np.column_stack([constant, overlaps, log_size])


def _weights(query_ids: pd.Index, seed: int, n_boot: int) -> np.ndarray:
    """Return float[1 + n_boot, n]: 1 for each query, then how often each draw has it."""
    n_queries = len(query_ids)
    draws = resamples(n_queries, seed_of(seed, query_ids), n_boot)
    once = np.ones((1, n_queries))
    return np.concatenate([once, *draws]).astype(float)


def _least_squares(design: np.ndarray, target: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Fit `target` float[n] by `design` float[n, p], once for each row of `weights` float[b, n].

    The result is the coefficients float[b, p].
    """
    products = np.einsum("bn,ni,nj->bij", weights, design, design)
    with_target = (weights * target) @ design
    solved = np.linalg.solve(products, with_target[..., None])
    return solved[..., 0]
