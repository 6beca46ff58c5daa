"""Overlap of test queries with training: shared relevant passages (Zhan Table 3), entities and intents (Tables 1, 2).

Table 3's caption says "share at least one relevant result". The released script keeps a query only if it shares more
than one (`len(overlap) > 1`), and it collects the shared passages over the whole training set. So `min_shared` 2 is the
statistic that was published and 1 the one that was defined. With the official training qrels the published percentages
are 11, 26, 34 of 43 and 17, 25, 41 of 54 queries (relevance >= 3, 2, 1).
Taught in notebooks/01_overlap_annotation_analysis.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from interextra.data.trec import read_qrels
from interextra.ground.errors import InputError, offenders

LABELS = {  # from the most to the least overlap
    "entity": ("full", "partial", "zero"),  # Table 1
    "intent": ("duplicate", "similar", "dissimilar"),  # Table 2
}


def label_overlap(
    test_qrels: pd.DataFrame, train_qrels: pd.DataFrame, thresholds: Sequence[int] = (1, 2, 3)
) -> pd.DataFrame:
    """Share of test queries whose relevant passages are also labelled relevant in training.

    Parameters
    ----------
    test_qrels : DataFrame[query_id, doc_id, relevance]
        every judged query counts in the denominator, also one without a relevant passage.
    train_qrels : DataFrame[query_id, doc_id]
        all rows are taken as relevant, unless there is a column relevance: then those with relevance >= 1.
    thresholds : relevance from which a passage of the test query counts as relevant

    Returns
    -------
    DataFrame[relevance_threshold, min_shared, n_queries, n_overlapping, percent] : min_shared 1 or 2 distinct shared
    passages, collected over all training queries, from which a test query counts as overlapping.

    >>> test = pd.DataFrame({"query_id": ["t", "t", "u"], "doc_id": ["a", "b", "c"], "relevance": [3, 1, 2]})
    >>> train = pd.DataFrame({"query_id": ["q", "r"], "doc_id": ["a", "b"]})
    >>> label_overlap(test, train, thresholds=[1, 3])["n_overlapping"].tolist()
    [1, 1, 1, 0]
    """
    test_ids = pd.Index(test_qrels["query_id"]).unique()
    # the large side is probed with the small one: the other way round hashes every training query
    both = train_qrels.loc[train_qrels["query_id"].isin(test_ids), "query_id"].unique()
    if len(both):
        raise InputError(
            f"{len(both)} test queries are also in the training qrels ({offenders(both)}): they would overlap with "
            "themselves; take them out first"
        )
    if not len(test_ids):
        raise InputError("test_qrels is empty: no judged query to count")
    if "relevance" in train_qrels:
        train_qrels = train_qrels[train_qrels["relevance"] >= 1]
    known = train_qrels.loc[train_qrels["doc_id"].isin(test_qrels["doc_id"]), "doc_id"].unique()
    shared, rows = test_qrels[test_qrels["doc_id"].isin(known)], []
    for threshold in thresholds:
        counts = shared[shared["relevance"] >= threshold].groupby("query_id")["doc_id"].nunique()
        rows += [(threshold, at_least, len(test_ids), int((counts >= at_least).sum())) for at_least in (1, 2)]
    frame = pd.DataFrame(rows, columns=["relevance_threshold", "min_shared", "n_queries", "n_overlapping"])
    return frame.assign(percent=100 * frame["n_overlapping"] / frame["n_queries"])


def overlap_table(labels: Sequence[str] | pd.Series, order: Sequence[str]) -> pd.DataFrame:
    """Tables 1 and 2 from one label a test query: DataFrame[label, n, percent] in `order`, zeros included.

    >>> overlap_table(["full", "zero", "full", "full"], LABELS["entity"])["percent"].tolist()
    [75.0, 0.0, 25.0]
    """
    labels = pd.Series(labels, dtype=object)
    if labels.empty or not labels.isin(order).all():
        unknown = labels[~labels.isin(order)].unique()
        raise InputError(f"overlap_table: {len(labels)} labels, unknown {offenders(unknown)}; use {', '.join(order)}")
    n = labels.value_counts().reindex(list(order), fill_value=0)
    return pd.DataFrame({"label": list(order), "n": n.to_numpy(), "percent": (100 * n / len(labels)).to_numpy()})


def gather_training_qrels(data_folder: Path | str) -> pd.DataFrame:
    """Every MS MARCO training judgement that a data folder holds, each (query, passage) once, without test queries.

    Read where present, the first source wins: the official `msmarco/qrels.train.tsv[.gz]`; a part of it;
    Zhan's ReSTrain files; Lupart's topic and wh-word EVAL qrels (the length ones are dev queries); `msmarco-mini`.
    Queries of dev-small, DL19 and DL20 are taken out whatever file names them: a collected file can hold them.

    Returns
    -------
    DataFrame[query_id, doc_id, source]
    """
    folder = Path(data_folder)
    parts = [read(path).assign(source=source) for source, path, read in _training_files(folder) if path.is_file()]
    if not parts:
        raise InputError(f"{folder}: no training qrels; put the official qrels.train.tsv into {folder / 'msmarco'}")
    found = pd.concat(parts, ignore_index=True)
    for path in sorted((folder / "msmarco").glob("qrels.*.txt")):
        if "train" not in path.name:
            found = found[~found["query_id"].isin(read_qrels(path, duplicates="keep")["query_id"])]
    return found.drop_duplicates(["query_id", "doc_id"], ignore_index=True)


def _training_files(folder: Path) -> Iterator[tuple[str, Path, Callable[[Path], pd.DataFrame]]]:
    for name in ("qrels.train.tsv", "qrels.train.tsv.gz", "qrels.train.partial.tsv.gz"):
        yield name.removesuffix(".gz"), folder / "msmarco" / name, _relevant
    for path in sorted((folder / "extrapolate-eval" / "restrain_files" / "msmarco-passage").glob("*/*.train-qrel.txt")):
        yield "ReSTrain", path, _relevant
    for path in sorted((folder / "ms-marco-shift" / "EVAL" / "qrel").glob("qrel_*.json")):
        if path.stem not in ("qrel_short", "qrel_long"):
            yield "MS-Shift", path, _nested
    for split in ("train", "dev", "test"):  # all of them MS MARCO training queries
        yield "msmarco-mini", folder / "collections" / "msmarco-mini" / "qrels" / f"{split}.tsv", _relevant


def _relevant(path: Path) -> pd.DataFrame:
    qrels = read_qrels(path, duplicates="keep")  # two released ReSTrain files repeat rows
    return qrels.loc[qrels["relevance"] > 0, ["query_id", "doc_id"]]


def _nested(path: Path) -> pd.DataFrame:
    content = json.loads(path.read_text(encoding="utf-8"))
    rows = [(query, doc) for query, docs in content.items() for doc, relevance in docs.items() if relevance > 0]
    return pd.DataFrame(rows, columns=["query_id", "doc_id"], dtype=str)
