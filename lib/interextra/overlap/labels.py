"""Overlap of test queries with training: shared relevant passages (Zhan Table 3), entities and intents (Tables 1, 2).

Table 3's caption says "share at least one relevant result". The released script keeps a query only if it shares more
than one (`len(overlap) > 1`), and it collects the shared passages over the whole training set. So `min_shared=2` is the
statistic that was published and `min_shared=1` the one that was defined. With the official training qrels the published
percentages are 11, 26, 34 of 43 and 17, 25, 41 of 54 queries (relevance >= 3, 2, 1).
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from interextra.data.trec import read_qrels
from interextra.ground.errors import InputError, offenders

ENTITY_LABELS = ("full", "partial", "zero")  # from the most to the least overlap: Table 1
INTENT_LABELS = ("duplicate", "similar", "dissimilar")  # Table 2
LABELS = {"entity": ENTITY_LABELS, "intent": INTENT_LABELS}
PER = ("training set", "training query")


def label_overlap(
    test_qrels: pd.DataFrame,
    train_qrels: pd.DataFrame,
    thresholds: Sequence[int] = (1, 2, 3),
    min_shared: Sequence[int] = (1, 2),
    per: str = "training set",
) -> pd.DataFrame:
    """Share of test queries whose relevant passages are also labelled relevant in training.

    Parameters
    ----------
    test_qrels : DataFrame[query_id, doc_id, relevance]
        every judged query counts in the denominator, also one without a relevant passage.
    train_qrels : DataFrame[query_id, doc_id]
        all rows are taken as relevant, unless there is a column relevance: then those with relevance >= 1.
    thresholds : relevance from which a passage of the test query counts as relevant
    min_shared : distinct shared passages from which a test query counts as overlapping
    per : "training set" (shared passages collected over all training queries: Table 3) or "training query" (all of
        them with one training query)

    Returns
    -------
    DataFrame[relevance_threshold, min_shared, n_queries, n_overlapping, percent]

    >>> test = pd.DataFrame({"query_id": ["t", "t", "u"], "doc_id": ["a", "b", "c"], "relevance": [3, 1, 2]})
    >>> train = pd.DataFrame({"query_id": ["q", "r"], "doc_id": ["a", "b"]})
    >>> label_overlap(test, train, thresholds=[1, 3], min_shared=[1, 2])["n_overlapping"].tolist()
    [1, 1, 1, 0]
    """
    if per not in PER:
        raise InputError(f"unknown per {per!r}: one of {', '.join(PER)}")
    _columns("test_qrels", test_qrels, ["query_id", "doc_id", "relevance"])
    _columns("train_qrels", train_qrels, ["query_id", "doc_id"])
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
    train = (
        train_qrels.loc[train_qrels["doc_id"].isin(test_qrels["doc_id"]), ["query_id", "doc_id"]]
        .drop_duplicates()
        .rename(columns={"query_id": "train_query_id"})
    )
    shared = test_qrels.merge(train, on="doc_id")
    keys = ["query_id"] if per == "training set" else ["query_id", "train_query_id"]
    table = []
    for threshold in thresholds:
        counts = shared[shared["relevance"] >= threshold].groupby(keys)["doc_id"].nunique()
        most = counts.groupby(level="query_id").max()
        for at_least in min_shared:
            table.append((threshold, at_least, len(test_ids), int((most >= at_least).sum())))
    frame = pd.DataFrame(table, columns=["relevance_threshold", "min_shared", "n_queries", "n_overlapping"])
    return frame.assign(percent=100 * frame["n_overlapping"] / frame["n_queries"])


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
    test = [
        read_qrels(p, duplicates="keep")["query_id"]
        for p in sorted((folder / "msmarco").glob("qrels.*.txt"))
        if "train" not in p.name
    ]
    if test:
        found = found[~found["query_id"].isin(pd.concat(test))]
    return found.drop_duplicates(["query_id", "doc_id"], ignore_index=True)


def best_label(pairs: pd.DataFrame, column: str, order: Sequence[str] | None = None) -> pd.Series:
    """The label of each test query: the highest overlap that any of its candidate pairs has (Zhan §3.2).

    `pairs` DataFrame[test_query_id, …, column]; `order` from the most to the least overlap, default that of `column`.

    >>> pairs = pd.DataFrame({"test_query_id": ["a", "a", "b"], "entity": ["zero", "partial", "zero"]})
    >>> best_label(pairs, "entity").to_dict()
    {'a': 'partial', 'b': 'zero'}
    """
    order = tuple(order or LABELS[column])
    _columns("pairs", pairs, ["test_query_id", column])
    _known(pairs[column], order, column)
    position = pairs[column].map({label: i for i, label in enumerate(order)})
    best = position.groupby(pairs["test_query_id"], sort=False).min()
    return best.map(dict(enumerate(order))).rename(column)


def overlap_table(labels: Sequence[str] | pd.Series, order: Sequence[str]) -> pd.DataFrame:
    """Tables 1 and 2 from one label a test query: DataFrame[label, n, percent] in `order`, zeros included.

    >>> overlap_table(["full", "zero", "full", "full"], ENTITY_LABELS)["percent"].tolist()
    [75.0, 0.0, 25.0]
    """
    labels = pd.Series(labels, dtype=object)
    if labels.empty:
        raise InputError("overlap_table: no labels; label at least one test query")
    _known(labels, order, "label")
    n = labels.value_counts().reindex(list(order), fill_value=0)
    return pd.DataFrame({"label": list(order), "n": n.to_numpy(), "percent": (100 * n / len(labels)).to_numpy()})


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


def _columns(name: str, frame: pd.DataFrame, needed: list[str]) -> None:
    missing = [c for c in needed if c not in frame.columns]
    if missing:
        raise InputError(f"{name} lacks the columns {offenders(missing)}; it has {offenders(frame.columns, 8)}")


def _known(labels: pd.Series, order: Sequence[str], what: str) -> None:
    unknown = labels[~labels.isin(list(order))].unique()
    if len(unknown):
        raise InputError(f"unknown {what} labels {offenders(unknown)}: use {', '.join(order)}")
