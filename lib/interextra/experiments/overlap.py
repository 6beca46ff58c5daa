"""Notebook 01: candidates to annotate, and our tables of overlap beside Tables 1 to 4 of Zhan et al. (CIKM 2022)."""

from pathlib import Path

import pandas as pd

from interextra.experiments.plans import Plan, query_vectors, test_queries
from interextra.ground.errors import InputError, offenders
from interextra.overlap.candidates import Candidates
from interextra.papers import published
from interextra.papers.releases import real_vectors

NOTEBOOK = "01_overlap_annotation_analysis"
TEST_SETS = {"TREC DL 2019": "dl19", "TREC DL 2020": "dl20", "MS MARCO dev": "dev"}


def plan(p: dict) -> Plan:
    """Candidates by BM25 and by embedding; with `real_msmarco` also for the real queries.

    `graded`: the queries whose judgements are compared with the training labels.
    """
    if missing := [sheet for sheet in p["sheets"] if not Path(sheet).is_file()]:
        raise InputError(f"parameter 'sheets': no file {offenders(missing)}; a relative path begins at the repository")
    graded = test_queries(p, p["graded_splits"])
    made = Plan(vectors=query_vectors(p, test_queries(p, p["test_splits"])), graded=graded)
    made.candidates = Candidates(vectors=made.vectors, k=p["candidates"])
    if p["real_msmarco"]:
        made.real = Candidates(vectors=real_vectors(p["real_encoder"]), k=p["candidates"])
    return made


def published_overlap(table: int) -> pd.DataFrame:
    """Table 1 or 2 in the form of our overlap tables: test_set, label, n, percent, source."""
    frame = published.load("zhan", table)
    n = (frame["value"] / 100 * frame["n_queries"]).round().astype(int)
    columns = {"test_set": frame["collection"].map(TEST_SETS), "label": frame["row"].str.split().str[0].str.lower()}
    return pd.DataFrame(columns | {"n": n, "percent": frame["value"], "source": "published"})


def beside_table_3(measured: pd.DataFrame) -> pd.DataFrame:
    """Our label overlap with the published percentages of DL19 and DL20 beside it: the columns of label_overlap.csv."""
    frame, on = published.load("zhan", 3), ["test_set", "relevance_threshold"]
    level = frame["row"].str.extract(r"(\d)")[0].astype(int)
    columns = [frame["collection"].map(TEST_SETS), level, frame["value"]]
    theirs = pd.DataFrame(dict(zip([*on, "published_percent"], columns, strict=True)))
    columns = [*on, "min_shared", "n_queries", "n_overlapping", "percent", "low", "high"]
    return measured[columns].merge(theirs, how="left", on=on)


def table_4(pairs: pd.DataFrame, train: pd.DataFrame) -> pd.DataFrame:
    """The published duplicates: is the training query among ours, and at which rank does each method find it?

    Parameters
    ----------
    pairs : candidates (test_query, train_query, bm25_rank, embedding_rank; rank 0: not found).
    train : the training queries at hand, with text.
    """
    texts = ["test_query", "train_query"]
    twins = published.load("zhan", 4).pivot(index="pair", columns="column", values="text")
    twins = twins.set_axis(texts[::-1], axis=1)[texts]
    known = twins["train_query"].str.lower().isin(train["text"].str.strip().str.lower())
    found = pairs[[*texts, "bm25_rank", "embedding_rank"]]
    found = found.assign(**{name: found[name].str.strip().str.lower() for name in texts}).drop_duplicates(texts)
    return twins.assign(in_our_training_queries=known).merge(found, how="left", on=texts)
