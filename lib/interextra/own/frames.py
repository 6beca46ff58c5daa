"""Frames of queries, judgements and passages, with the names that the kit or PyTerrier gives them.

A frame of queries has query_id and text (PyTerrier: qid, query). What is relevant to them stands in
a frame of judgements, query_id, doc_id and relevance (qid, docno, label), or in the frame of the
queries itself, a row a pair: doc_id, or the text of a positive.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from interextra.data.collection import Passages
from interextra.data.runs import strings
from interextra.data.trec import BEIR_HEADER, QRELS_COLUMNS, refuse_repeated
from interextra.own import audit
from interextra.own.audit import Side
from interextra.store import InputError, offenders, write_text

NAMES = {"qid": "query_id", "query": "text", "docno": "doc_id", "label": "relevance"}


class Judged(NamedTuple):
    """Queries with what is relevant to them."""

    what: str  # which frame it was
    queries: pd.DataFrame  # query_id, text, attributes
    qrels: pd.DataFrame | None  # query_id, doc_id, relevance; None: not given
    is_by_text: bool = False  # whether a doc_id is the text of a passage

    @classmethod
    def of(cls, frame: pd.DataFrame, qrels: pd.DataFrame | None, what: str) -> "Judged":
        """Read a frame of queries, and the one of their judgements where there is one.

        Parameters
        ----------
        what : str
            Which frame it is, for errors.

        Raises
        ------
        InputError
            A column that is missing or stands twice, an id that is a float, a text that is none,
            two texts of a query_id, judgements in both frames, or of none of the queries.
        """
        table = _renamed(frame, what)
        positive = _positive(table)
        if positive and qrels is not None:
            raise InputError(
                f"{what}: judgements in the column {positive} and in a frame; give one"
            )
        table = _with_ids(table, what, has_qrels=qrels is not None)
        own_columns = [name for name in (positive, "relevance") if name in table]
        queries = table.drop(columns=own_columns).drop_duplicates(["query_id", "text"])
        refuse_repeated(queries[["query_id"]], f"{what}: texts of a query")
        queries = queries.reset_index(drop=True)
        if not positive:
            return cls(what, queries, _judgements(qrels, queries["query_id"], what))
        pairs = table[["query_id", *own_columns]]
        pairs = pairs.rename(columns={positive: "doc_id"})
        judged = _judgements(pairs.drop_duplicates(), queries["query_id"], what)
        return cls(what, queries, judged, is_by_text=positive != "doc_id")

    def side(self, passages: Passages | None = None) -> Side:
        """Return them as one side of an audit."""
        queries = self.queries[["query_id", "text"]]
        if self.is_by_text:
            return Side(self.what, queries, self.qrels, known_by=audit.TEXT)
        return Side(self.what, queries, self.qrels, passages)


def _renamed(frame: pd.DataFrame, what: str) -> pd.DataFrame:
    """Return a frame with the kit's names of its columns, none of which stands twice."""
    table = frame.rename(columns=NAMES)
    if not table.columns.is_unique:
        raise InputError(f"{what}: a column stands twice in {offenders(table.columns, 12)}")
    return table


def _refuse_missing(table: pd.DataFrame, names: list[str], what: str) -> None:
    """Refuse a table that lacks a column."""
    missing = [name for name in names if name not in table]
    if missing:
        there = offenders(table.columns, 12)
        raise InputError(f"{what}: no column {offenders(missing)}; it has {there}")


def _positive(table: pd.DataFrame) -> str:
    """Return the column of relevant passages, of their ids before that of their texts; or ""."""
    names = ("doc_id", *audit.COLUMNS["positive"])
    return next((name for name in names if name in table), "")


def _with_ids(table: pd.DataFrame, what: str, has_qrels: bool) -> pd.DataFrame:
    """Return a table of queries with query_id and text as strings.

    Pairs of texts need no query_id: they are numbered by the texts of their queries.
    """
    anchors = [name for name in audit.COLUMNS["query"] if name in table]
    if "text" not in table and anchors:
        table = table.rename(columns={anchors[0]: "text"})
    _refuse_missing(table, ["text"], what)
    _refuse_other_texts(table, what)
    if "query_id" not in table and not has_qrels:
        numbers, _ = pd.factorize(table["text"])
        return table.assign(query_id=numbers.astype(str))
    return _with_strings(table, ["query_id"], what)


def _with_strings(table: pd.DataFrame, names: list[str], what: str) -> pd.DataFrame:
    """Return a table whose ids are strings."""
    _refuse_missing(table, names, what)
    columns = {}
    for name in names:
        column = strings(table[name], f"{what}: {name}")
        columns[name] = column.to_pylist()
    return table.assign(**columns)


def _refuse_other_texts(table: pd.DataFrame, what: str) -> None:
    """Refuse rows whose text is none, and a table without rows."""
    is_text = table["text"].map(_is_text).astype(bool)
    wrong = table.index[~is_text].tolist()
    if table.empty or wrong:
        rows = offenders(wrong) or "there is none"
        raise InputError(f"{what}: each row needs a text; rows: {rows}")


def _is_text(value: object) -> bool:
    """Return whether a value is a text that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def _judgements(frame: pd.DataFrame | None, query_ids: pd.Series, what: str) -> pd.DataFrame | None:
    """Return the judgements of some queries; without a relevance each passage is relevant."""
    if frame is None:
        return None
    what = f"{what}, judgements"
    table = _renamed(frame, what)
    table = _with_strings(table, ["query_id", "doc_id"], what)
    if "relevance" not in table:
        table["relevance"] = 1
    relevance = pd.to_numeric(table["relevance"], errors="coerce")
    is_wrong = relevance.isna() | (relevance % 1 != 0)
    if is_wrong.any():
        wrong = table.loc[is_wrong, "relevance"]
        raise InputError(f"{what}: relevance {offenders(wrong)}; write whole numbers")
    table["relevance"] = relevance.astype(int)
    is_of_query = table["query_id"].isin(query_ids)
    table = table.loc[is_of_query, QRELS_COLUMNS]
    if table.empty:
        raise InputError(f"{what}: of none of the queries; query_ids must be the same in both")
    refuse_repeated(table[["query_id", "doc_id"]], what)
    return table.reset_index(drop=True)


def passages_of(frame: pd.DataFrame, what: str = "passages") -> pd.DataFrame:
    """Return doc_id and text of a frame of passages (PyTerrier: docno, text).

    Raises
    ------
    InputError
        A column that is missing, an id that is a float or stands twice, a text that is none.
    """
    table = _with_strings(_renamed(frame, what), ["doc_id", "text"], what)
    refuse_repeated(table[["doc_id"]], what)
    return table[["doc_id", "text"]]


def write_collection(folder: Path, passages: pd.DataFrame, splits: Mapping[str, Judged]) -> str:
    """Write a collection in BEIR's layout; return the spec that opens it.

    Further columns of the queries become attributes, by which a shift can leave queries out.

    Raises
    ------
    InputError
        Queries of two splits with the same id, a split without judgements by doc_id.
    """
    qrels = _qrels_of(splits)
    tables = [judged.queries for judged in splits.values()]
    queries = pd.concat(tables, ignore_index=True)
    attributes = queries.drop(columns=["query_id", "text"])
    records = queries[["query_id", "text"]]
    records = records.assign(metadata=attributes.to_dict("records"))
    write_text(folder / "corpus.jsonl", _lines(passages))
    write_text(folder / "queries.jsonl", _lines(records))
    for name, table in qrels.items():
        judgements = table[QRELS_COLUMNS]
        text = judgements.to_csv(sep="\t", index=False, header=BEIR_HEADER)
        write_text(folder / "qrels" / f"{name}.tsv", text)
    return f"beir:{folder.resolve()}"


def _qrels_of(splits: Mapping[str, Judged]) -> dict[str, pd.DataFrame]:
    """Return the judgements of splits by doc_id; refuse a query_id that two splits have."""
    seen: set[str] = set()
    qrels = {}
    for name, judged in splits.items():
        if judged.qrels is None or judged.is_by_text:
            raise InputError(f"{name}: no judgements by doc_id, which a trainer needs")
        query_ids = set(judged.queries["query_id"])
        both = sorted(seen & query_ids)
        if both:
            raise InputError(
                f"{name}: {len(both)} query_ids are of another split, too: {offenders(both)}; "
                "rename those of one"
            )
        seen |= query_ids
        qrels[name] = judged.qrels
    return qrels


def _lines(table: pd.DataFrame) -> str:
    """Return a JSON object a row; ids are called _id there."""
    named = table.rename(columns={"query_id": "_id", "doc_id": "_id"})
    return named.to_json(orient="records", lines=True, force_ascii=False)
