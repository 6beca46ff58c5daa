"""Notebook 01: candidates to annotate, our overlap beside Tables 1 to 4 of Zhan et al.

CIKM 2022, section 3. And do published runs gain more on queries that overlap with training?
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from interextra import figures
from interextra.data.collection import Collection
from interextra.data.load import with_data_folder
from interextra.data.medquad import with_truth
from interextra.data.queries import Queries
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
from interextra.overlap.annotation import codes, kappa, median_labels, with_codes
from interextra.overlap.candidates import Candidates
from interextra.overlap.labels import LABELS, label_overlap, overlap_table, shared_passages
from interextra.papers import published
from interextra.papers.releases import real_vectors
from interextra.stats.bootstrap import resamples, seed_of
from interextra.stats.effects import Effects, effects
from interextra.stats.formatting import spelled
from interextra.store import InputError, Store, offenders

NDCG = "nDCG@10"
TEST_SETS = {"TREC DL 2019": "dl19", "TREC DL 2020": "dl20", "MS MARCO dev": "dev"}
REAL_NAMES = {name: title for title, name in TEST_SETS.items()}
TEXTS = ["test_query", "train_query"]
PAIR_COLUMNS = {  # of candidate pairs → their headings on a page
    "test_query": "test query",
    "train_query": "training query",
    "source": "found by",
    "bm25_rank": "BM25 rank",
    "embedding_rank": "embedding rank",
}
SOURCES = {  # of the labels of a test query → their names in figures
    "truth": "all pairs",
    "candidates": "candidates",
    "annotators": "annotators",
    "published": "published",
}
PUBLISHED_KAPPA = {"entity": 0.59, "intent": 0.54}  # of the paper's annotators, section 3.2
AGREEMENT = {  # columns of `agreement` → their names in a figure and on a page
    "kappa": "κ of two",
    "single_accuracy": "accuracy of one",
    "median_accuracy": "accuracy of three (median)",
}
# How many shared passages make an overlap → what says so
READINGS = {1: "at least one shared passage (caption)", 2: "at least two (released script)"}
NOT_SHOWN = {  # whether the real queries were counted → what the run leaves open
    True: "Overlap of the real queries in entities and intent, since the authors' annotations are "
    "not public.",
    False: "Overlap of the real queries. In a generated world it is planned, so this run tests the "
    "method only.",
}
N_TRAINING_QUERIES = 502_939  # of MS MARCO with a judgement
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
        named = offenders(sorted(without_bm25))
        raise InputError(f"parameter 'runs': no run of {BM25} on {named}, over which others gain")
    return runs


def _not_there(paths: Iterable[str]) -> list[str]:
    """Return those of some paths at which there is no file."""
    return [path for path in paths if not Path(path).is_file()]


def read_queries(
    plan: Plan, store: Store, with_labels: bool
) -> tuple[pd.DataFrame, pd.DataFrame, bool]:
    """Return the training and test queries, with entities and intents where these are stored.

    Parameters
    ----------
    plan
        Of the notebook.
    store
        Where its cells are.
    with_labels
        Whether entities and intents are asked for.

    Returns
    -------
    train, test : pandas.DataFrame
        Test queries with their split, and test_set, which is the split unless it is stored.
    is_labelled : bool
        Whether both have entities and intents.
    """
    train = plan.vectors.train.frame(store)
    parts = []
    for queries in plan.vectors.test:
        of_split = queries.frame(store)
        parts.append(of_split.assign(split=queries.name))
    test = pd.concat(parts, ignore_index=True)
    is_labelled = with_labels
    if with_labels:
        try:
            train, test = with_truth(train), with_truth(test)
        except InputError:
            is_labelled = False
    test["test_set"] = test.get("test_set", test["split"])
    return train, test, is_labelled


def with_fewer_dev(test: pd.DataFrame, n: int, seed: int) -> pd.DataFrame:
    """Return the test queries with at most `n` of those of dev, drawn at random."""
    is_dev = test["test_set"] == "dev"
    n_drawn = min(n, is_dev.sum())
    drawn = test[is_dev].sample(n_drawn, random_state=seed)
    return pd.concat([test[~is_dev], drawn], ignore_index=True)


def generated_names(collection: Collection) -> dict[str, str]:
    """Return the test sets of a generated world that have names of real ones → "generated …".

    Empty for other collections. With the name of the collection before it, too.
    """
    if not collection.name.startswith("mini"):
        return {}
    names = {}
    for name in REAL_NAMES:
        generated = f"generated {name}"
        names[name] = generated
        names[f"{collection.name} {name}"] = generated
    return names


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


def table_of_labels(
    test: pd.DataFrame, sources: Mapping[str, pd.DataFrame], column: str
) -> pd.DataFrame:
    """Return Table 1 or 2 by each source of labels.

    Parameters
    ----------
    test
        query_id, test_set.
    sources
        Name of a source → its labels, entity and intent, of each test query.
    column
        entity (Table 1) or intent (Table 2).

    Returns
    -------
    pandas.DataFrame
        test_set, label, n, percent, source.
    """
    parts = []
    for name, queries in test.groupby("test_set"):
        for source, labels in sources.items():
            of_set = labels.loc[queries["query_id"], column]
            counted = overlap_table(of_set, LABELS[column])
            parts.append(counted.assign(test_set=name, source=source))
    return pd.concat(parts)[["test_set", "label", "n", "percent", "source"]]


def figure_of_labels(table: pd.DataFrame, column: str, generated: Mapping[str, str]) -> Figure:
    """Draw Table 1 or 2 as stacked bars, a bar a test set and source.

    Parameters
    ----------
    table
        Of `table_of_labels`, published rows among them.
    column
        entity or intent.
    generated
        Of `generated_names`; published rows keep the names of the real sets.
    """
    is_published = table["source"] == "published"
    ours = table.loc[~is_published, "test_set"].unique()
    is_ours = table["test_set"].isin(ours)
    bars = table[is_ours].sort_values("test_set", kind="stable")
    real_names = bars["test_set"].replace(REAL_NAMES)
    our_names = bars["test_set"].replace(generated)
    has_real_name = bars["source"] == "published"
    bars["test_set"] = real_names.where(has_real_name, our_names)
    legend = f"{column} overlap with the training queries"
    bars = bars.replace({"source": SOURCES})
    bars = bars.rename(columns={"label": legend})
    rows = ["test_set", "source"]
    return figures.bars(bars, rows, "percent", legend, "% of the test queries")


def bias_sentence(table: pd.DataFrame, column: str) -> str:
    """Return which share of all test queries overlaps by each source of our labels, in words.

    Parameters
    ----------
    table
        Of `table_of_labels`, published rows among them.
    column
        entity or intent.

    Examples
    --------
    >>> rows = {"source": "candidates", "label": LABELS["intent"], "n": [1, 1, 2]}
    >>> bias_sentence(pd.DataFrame(rows), "intent")
    'Test queries with overlap in intent: candidates 50 %.'
    """
    ours = table[table["source"] != "published"]
    none = LABELS[column][-1]
    overlapping = ours[ours["label"] != none]
    n_queries = ours.groupby("source", sort=False)["n"].sum()
    n_overlapping = overlapping.groupby("source", sort=False)["n"].sum()
    shares = 100 * n_overlapping / n_queries
    parts = []
    for source, share in shares.items():
        name = SOURCES[source]
        parts.append(f"{name} {share:.0f} %")
    return f"Test queries with overlap in {column}: {', '.join(parts)}."


def shares_with_overlap(tables: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, float]]:
    """Return entity and intent → test set → % of its queries that overlap with training.

    Parameters
    ----------
    tables
        entity and intent → its table, see `table_of_labels`; the first source counts.
    """
    shares = {}
    for column, table in tables.items():
        none = LABELS[column][-1]
        first_source = table["source"].iloc[0]
        of_source = table[table["source"] == first_source]
        without_overlap = of_source[of_source["label"] == none]
        percent = without_overlap.set_index("test_set")["percent"]
        shares[column] = (100 - percent).to_dict()
    return shares


def shares_sentence(shares: Mapping[str, Mapping[str, float]], names: Mapping[str, str]) -> str:
    """Return `shares_with_overlap` in words.

    Parameters
    ----------
    names
        Of `generated_names`.

    Examples
    --------
    >>> shares_sentence({"entity": {"test": 97.2}}, {})
    'An entity is shared with a training query by 97 % (test) of the test queries.'
    """
    kinds = {"entity": "An entity is", "intent": "The same or a similar intent is"}
    sentences = []
    for column, of_set in shares.items():
        parts = []
        for name, share in of_set.items():
            test_set = names.get(name, name)
            parts.append(f"{share:.0f} % ({test_set})")
        by = ", ".join(parts)
        sentences.append(
            f"{kinds[column]} shared with a training query by {by} of the test queries."
        )
    return " ".join(sentences) or "Nobody has labelled the overlap in entities and intents."


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


def shared_by_set(
    graded: Iterable[Queries], test: pd.DataFrame, training: pd.DataFrame, collection: str
) -> pd.DataFrame:
    """Count the overlap in relevant passages by test set of the collection.

    Parameters
    ----------
    graded
        Queries whose judgements are compared with the training labels.
    test
        query_id, test_set; queries that are not there are counted by their split.
    training
        Judgements of the training queries.
    collection
        Its name, which begins that of each test set.

    Returns
    -------
    pandas.DataFrame
        Rows of `overlap.labels.label_overlap`, with test_set.
    """
    set_of_query = test.set_index("query_id")["test_set"]
    parts = []
    for queries in graded:
        qrels = queries.qrels()
        set_of_row = qrels["query_id"].map(set_of_query).fillna(queries.name)
        for name, part in qrels.groupby(set_of_row):
            counted = label_overlap(part, training)
            parts.append(counted.assign(test_set=f"{collection} {name}"))
    return pd.concat(parts)


def shared_of_real(real: Collection, training: pd.DataFrame) -> pd.DataFrame:
    """Count the overlap of the real queries in relevant passages, as `shared_by_set` does."""
    parts = []
    for name in ("dl19", "dl20", "dev"):
        counted = label_overlap(real.qrels(name), training)
        parts.append(counted.assign(test_set=name))
    return pd.concat(parts)


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


def readings_page(overlaps: pd.DataFrame, generated: Mapping[str, str]) -> pd.DataFrame:
    """Return the counts by both definitions of overlap in a row, in % of the test queries.

    Parameters
    ----------
    overlaps
        Of `beside_table_3`.
    generated
        Of `generated_names`.
    """
    if overlaps.empty:
        return overlaps
    rows = overlaps.replace({"test_set": {**generated, **REAL_NAMES}})
    min_shared = rows["min_shared"].astype(str)
    rows["shared"] = "at least " + min_shared + ", %"
    rows["percent"] = rows["percent"].round()
    labels = ["test_set", "relevance_threshold", "n_queries", "published_percent"]
    wide = rows.pivot(index=labels, columns="shared", values="percent")
    page = wide.rename_axis(columns=None).reset_index()
    page = page.dropna(axis="columns", how="all")
    numbers = dict.fromkeys(page.columns[1:], "Int64")
    names = {"relevance_threshold": "relevant from grade", "published_percent": "published, %"}
    return page.astype(numbers).rename(columns=names)


def nearer_to_published(overlaps: pd.DataFrame) -> pd.DataFrame:
    """Return which of both definitions comes nearer to each cell of Table 3.

    Parameters
    ----------
    overlaps
        Of `beside_table_3`.

    Returns
    -------
    pandas.DataFrame
        A row a printed cell: one, two (% by at least one and two shared passages), published,
        nearer (whether two is).

    Examples
    --------
    >>> rows = pd.DataFrame({"test_set": "dl19", "relevance_threshold": 1, "min_shared": [1, 2]})
    >>> rows = rows.assign(percent=[91, 79], published_percent=79)
    >>> nearer_to_published(rows).values.tolist()
    [[91, 79, 79, True]]
    """
    printed = overlaps.dropna(subset="published_percent")
    cell = ["test_set", "relevance_threshold"]
    by_definition = printed.pivot(index=cell, columns="min_shared", values="percent")
    table = by_definition.rename(columns={1: "one", 2: "two"})
    table = table.rename_axis(columns=None)
    table["published"] = printed.groupby(cell)["published_percent"].first()
    distance_of_one = (table["one"] - table["published"]).abs()
    distance_of_two = (table["two"] - table["published"]).abs()
    table["nearer"] = distance_of_two < distance_of_one
    return table


def nearer_sentence(overlaps: pd.DataFrame) -> str:
    """Return how both definitions of overlap compare with Table 3; what is missing for that."""
    if overlaps.empty:
        return "No committed run of small is here."
    table = nearer_to_published(overlaps)
    n_above = (table["one"] > table["published"]).sum()
    n_nearer = table["nearer"].sum()
    n_cells = len(table)
    return (
        f"At least one: above the published share in {n_above} of {n_cells} cells. At least two: "
        f"nearer to it than at least one in {n_nearer} of {n_cells} cells."
    )


def to_draw(overlaps: pd.DataFrame, collection: Collection, is_real: bool) -> pd.DataFrame:
    """Return the rows for the figure of Table 3: the real queries, or else those of the collection.

    Parameters
    ----------
    overlaps
        Of `beside_table_3`.
    collection
        The collection.
    is_real
        Whether the real queries were counted, too.
    """
    is_drawn = overlaps["test_set"].str.startswith(collection.name)
    if is_real:
        is_drawn = overlaps["test_set"].isin(["dl19", "dl20"])
    drawn = overlaps[is_drawn].rename(columns={"published_percent": "published"})
    names = {**generated_names(collection), **REAL_NAMES}
    return drawn.assign(test_set=drawn["test_set"].replace(names))


def figure_of_shared(drawn: pd.DataFrame) -> Figure:
    """Draw Table 3 by both definitions, with Wilson intervals; diamonds are published.

    Parameters
    ----------
    drawn
        Of `to_draw`.
    """
    shared = "relevant passages shared with training"
    threshold = drawn["relevance_threshold"].astype(str)
    drawn = drawn.assign(relevance="relevance ≥ " + threshold)
    drawn[shared] = drawn["min_shared"].map(READINGS)
    label = "test queries that share relevant passages with training queries, %"
    return figures.forest(drawn, "relevance", "percent", label, panel="test_set", hue=shared)


def counted_sentences(drawn: pd.DataFrame) -> list[str]:
    """Return how many test queries share relevant passages, by both definitions, in words."""
    is_relevant = drawn["relevance_threshold"] == 1
    texts = []
    for min_shared in (1, 2):
        has_shared = drawn["min_shared"] == min_shared
        counts = [_counted(row) for row in drawn[is_relevant & has_shared].itertuples()]
        texts.append(" and ".join(counts))
    one, two = texts
    return [
        f"{one} of the test queries share at least one relevant passage with training queries, the "
        "paper's definition (95 % Wilson intervals).",
        f"{two} share at least two, as the paper's released script counts.",
    ]


def _counted(row: Any) -> str:
    """Return how many queries of a test set share relevant passages, in words."""
    interval = f"[{row.low:.0f}, {row.high:.0f}]"
    share = f"{row.percent:.0f} % {interval}"
    return f"{row.n_overlapping} of {row.n_queries} ({share}, {row.test_set})"


def real_sentence(drawn: pd.DataFrame, overlaps: pd.DataFrame, share_labelled: float) -> str:
    """Return how the counts of the real queries compare with Table 3.

    Parameters
    ----------
    drawn
        Of `to_draw`.
    overlaps
        Of `beside_table_3`.
    share_labelled
        Of the training queries, those whose labels are available.
    """
    is_asked = (drawn["relevance_threshold"] == 1) & (drawn["min_shared"] == 2)
    shares = drawn.loc[is_asked, "published"]
    printed = " and ".join(f"{share:.0f} %" for share in shares)
    nearer = nearer_to_published(overlaps)["nearer"]
    return (
        f"The paper reports {printed}. Over all relevance thresholds the script's count is nearer "
        f"to the published share in {nearer.sum()} of {len(nearer)} cases. Both are lower bounds, "
        f"since the labels cover {100 * share_labelled:.0f} % of the training queries."
    )


def pairs_page(pairs: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return some columns of candidate pairs under their headings on a page.

    Examples
    --------
    >>> list(pairs_page(pd.DataFrame({"train_query": ["q"], "intent": ["similar"]}), "train_query"))
    ['training query']
    """
    return pairs[list(columns)].rename(columns=PAIR_COLUMNS)


def one_duplicate_each(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return one duplicate of each test query that has some, the nearest by embedding.

    Parameters
    ----------
    pairs
        Labelled, with the columns of PAIR_COLUMNS.
    """
    duplicates = pairs[pairs["intent"] == "duplicate"]
    rank = duplicates["embedding_rank"]
    nearness = rank.where(rank > 0, 99)  # 0: not retrieved
    in_order = duplicates.loc[nearness.sort_values().index]
    return in_order.drop_duplicates("test_query_id")[list(PAIR_COLUMNS)]


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
    names = printed["column"].map(COLUMNS_OF_TABLE_4)
    printed = printed.assign(column=names)
    duplicates = printed.pivot(index="pair", columns="column", values="text")
    our_texts = _plain(train["text"])
    their_texts = _plain(duplicates["train_query"])
    duplicates["in_our_training_queries"] = their_texts.isin(our_texts)
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


def simulated_sheets(
    labelled: pd.DataFrame, error_rate: float, n: int, seed: int
) -> list[pd.DataFrame]:
    """Return the sheets of annotators who err independently, see `simulate_annotators`.

    Parameters
    ----------
    labelled
        Pairs with their true labels.
    error_rate
        Probability of an error.
    n
        Number of annotators.
    seed
        Of the errors in entity; that of intent is the next one.
    """
    given = []
    for offset, column in enumerate(LABELS):
        truth = codes(labelled, column)
        given.append(simulate_annotators(truth, error_rate, n, seed + offset))
    by_annotator = zip(*given, strict=True)
    return [with_codes(labelled, *of_annotator) for of_annotator in by_annotator]


def accuracy(sheet: pd.DataFrame, labelled: pd.DataFrame) -> pd.Series:
    """Return the share of pairs with their true label; index entity, intent."""
    columns = list(LABELS)
    return (sheet[columns] == labelled[columns]).mean()


def agreement(
    labelled: pd.DataFrame, error_rates: Sequence[float], n: int, seed: int
) -> pd.DataFrame:
    """Return κ and accuracy of simulated annotators by their error rate.

    Parameters
    ----------
    labelled
        Pairs with their true labels.
    error_rates
        Of one annotator.
    n
        Number of annotators.
    seed
        See `simulated_sheets`.

    Returns
    -------
    pandas.DataFrame
        task (entity, intent), error_rate, kappa (mean over two annotators each), single_accuracy,
        median_accuracy, n_pairs.
    """
    parts = []
    for error_rate in error_rates:
        sheets = simulated_sheets(labelled, error_rate, n, seed)
        kappas = kappa(sheets)
        averages = kappas[kappas["annotators"] == "average"]
        single_accuracies = [accuracy(sheet, labelled) for sheet in sheets]
        row = {
            "error_rate": error_rate,
            "kappa": averages.set_index("label")["kappa"],
            "single_accuracy": sum(single_accuracies) / n,
            "median_accuracy": accuracy(median_labels(sheets), labelled),
            "n_pairs": len(labelled),
        }
        by_task = pd.DataFrame(row).rename_axis("task")
        parts.append(by_task.reset_index())
    return pd.concat(parts, ignore_index=True)


def figure_of_agreement(table: pd.DataFrame) -> Figure:
    """Draw `agreement`; dotted lines are the paper's κ."""
    rows = ["task", "error_rate"]
    curves = table.melt(rows, list(AGREEMENT), "annotators")
    curves = curves.replace({"annotators": AGREEMENT})
    is_kappa = curves["annotators"] == AGREEMENT["kappa"]
    of_task = curves["task"].map(PUBLISHED_KAPPA)
    curves["published"] = of_task.where(is_kappa)
    label = "κ or accuracy"
    return figures.curves(curves, "error_rate", "value", "annotators", label, panel="task")


def comparison_sentence(comparison: pd.DataFrame) -> str:
    """Return how much more overlap the embedding's candidates have than BM25's, in words.

    Parameters
    ----------
    comparison
        Of `recall_comparison`.
    """
    parts = []
    for row in comparison.itertuples():
        difference = spelled(row.difference, row.low, row.high, "")
        parts.append(f"{row.label} {difference}")
    n_queries = comparison["n_queries"].iloc[0]
    return (
        "Mean label code (0 to 2) of the embedding's candidates minus that of BM25's: "
        f"{', '.join(parts)}; 95 % bootstrap intervals over {n_queries:,} test queries."
    )


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


def relevant_and_shared(
    judged: Mapping[str, pd.DataFrame], training: pd.DataFrame, from_grade: int = 2
) -> pd.DataFrame:
    """Return how many relevant passages a query has, and how many of them it shares with training.

    Parameters
    ----------
    judged
        Split → judgements.
    training
        Judgements of the training queries.
    from_grade
        From which a passage is relevant.

    Returns
    -------
    pandas.DataFrame
        n_relevant, shared; index query_id, of the queries that have a relevant passage.
    """
    every = pd.concat(judged.values())
    relevant = every[every["relevance"] >= from_grade]
    counts = relevant.groupby("query_id").size().to_frame("n_relevant")
    counts["shared"] = shared_passages(relevant, training, [from_grade])[from_grade]
    return counts


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
