"""Runs: what a retriever returned for each query, as integer-coded arrays in memory and on disk.

A run is ordered as trec_eval orders it, whatever order or rank a file declares: score (as float32)
descending, then doc_id descending by its UTF-8 bytes. Others break ties otherwise: ranx by memory
order, MS MARCO by doc_id ascending.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from interextra.data.collection import content_hash
from interextra.data.trec import (
    RUN,
    Origin,
    line_of,
    read_table,
    refuse_repeated,
    refuse_white_space,
)
from interextra.store import InputError, offenders, write_aside
from interextra.store.errors import one_line
from interextra.store.files import parse_json

Ids: TypeAlias = Sequence[str] | pa.Array | pa.ChunkedArray
NEEDED = ["query_id", "doc_id", "score"]
COLUMNS = {"qid": "query_id", "docno": "doc_id"}  # PyTerrier's names
# In the metadata of a Parquet file of ours: all queries, and `RunFile.content`
ASKED, CONTENT = b"query_ids", b"interextra.content"
MARKS = {ASKED, CONTENT}
NOT_OURS = "not a run written by RunFile.write_parquet"
# what Arrow raises of damage
BROKEN = (pa.ArrowException, OSError, KeyError, ValueError, TypeError, OverflowError)


@dataclass(frozen=True, eq=False, repr=False)
class RunFile:
    """A ranked list of passages per query; build it with `from_arrays`, `from_frame` or `read`.

    `query_ids` (n_queries) and `doc_ids` (Arrow strings, sorted, unique) are the dictionaries;
    `query_codes` int32[n], `doc_codes` int32[n] and `scores` float32[n] are the rows, by query and
    then by rank; the rows of query `i` are `offsets[i]:offsets[i + 1]`. A query without rows has
    retrieved nothing.

    Examples
    --------
    A tie goes to the larger doc_id:

    >>> rows = [("q", "d1", 1.0), ("q", "d2", 1.0), ("q", "d3", 2.0)]
    >>> run = RunFile.from_frame(pd.DataFrame(rows, columns=["query_id", "doc_id", "score"]))
    >>> run.frame()["doc_id"].tolist()
    ['d3', 'd2', 'd1']
    """

    query_ids: list[str]
    doc_ids: pa.Array
    query_codes: np.ndarray
    doc_codes: np.ndarray
    scores: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.scores)

    @property
    def ranks(self) -> np.ndarray:
        """Rank of each row, int32[n], from 1."""
        first_row = self.offsets[self.query_codes]
        rows = np.arange(len(self))
        ranks = rows - first_row + 1
        return ranks.astype(np.int32)

    @classmethod
    def from_arrays(
        cls,
        query_ids: Sequence[str],
        doc_ids: Ids,
        rows: np.ndarray,
        scores: np.ndarray,
    ) -> "RunFile":
        """Return the run of a search.

        Parameters
        ----------
        doc_ids
            Any sequence of str or an Arrow string array, e.g. `passages.doc_ids`; only those used
            are kept.
        rows
            int[n_queries, k] into `doc_ids`, -1 for padding.
        scores
            float[n_queries, k].
        """
        _refuse_other_shapes(query_ids, doc_ids, rows, scores)
        is_passage = rows >= 0
        query_codes, _ = np.nonzero(is_passage)
        doc_codes, used_rows = pd.factorize(rows[is_passage])
        used_ids = _strings_of(doc_ids).take(pa.array(used_rows))
        if isinstance(used_ids, pa.ChunkedArray):
            used_ids = used_ids.combine_chunks()
        return cls._build(
            _id_list(query_ids, "run"),
            query_codes.astype(np.int32),
            used_ids,
            doc_codes.astype(np.int32),
            scores[is_passage],
        )

    @classmethod
    def from_frame(
        cls, frame: pd.DataFrame, at: str = "run", asked: Sequence[str] | None = None
    ) -> "RunFile":
        """Return the run of a table with columns query_id, doc_id, score.

        Parameters
        ----------
        at
            Where the table is from, for errors.
        asked
            Ids of all queries that were searched, in the order wanted; those without rows have
            retrieved nothing. Without it, queries are in order of first appearance.

        Raises
        ------
        InputError
            A column, an id or a score that is missing or of another type; a pair that stands twice;
            rows of a query that was not asked.
        """
        query_ids = None if asked is None else _id_list(asked, at)
        _refuse_other_columns(frame, at)
        try:
            scores = _numbers(frame["score"])
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{at}: needed is a numeric score ({one_line(error)}); write numbers"
            ) from None
        _refuse_gaps(frame, at)
        queries = strings(frame["query_id"], f"{at}: query_id").dictionary_encode()
        docs = strings(frame["doc_id"], f"{at}: doc_id").dictionary_encode()
        return cls._from_columns(queries, docs, scores, at, query_ids)

    @classmethod
    def read(cls, path: str | Path) -> "RunFile":
        """Read a TREC file (plain or gzipped) or a `.parquet` file written by `write_parquet`.

        A TREC file has six columns; rank and tag are ignored, as trec_eval does. A Parquet file is
        compared with its digest.

        Raises
        ------
        InputError
            With file, line and the first three offenders.
        """
        if Path(path).suffix != ".parquet":
            table = read_table(path, RUN)
            return cls._from_columns(
                table["query_id"].combine_chunks().dictionary_encode(),
                table["doc_id"].combine_chunks().dictionary_encode(),
                np.asarray(table["score"]),
                partial(line_of, path, is_trec=True),
            )
        with open_parquet(path) as file:
            table = file.read_row_group(0)  # read alone it keeps its dictionaries whole
            return cls._as_written(table, path)

    @classmethod
    def _as_written(cls, table: pa.Table, path: str | Path) -> "RunFile":
        """Return the run that `write_parquet` wrote.

        InputError, ValueError, KeyError for anything else.
        """
        metadata = table.schema.metadata or {}
        query_ids = parse_json(metadata[ASKED], f"{path}: {NOT_OURS}: its query_ids")
        queries = table["query_id"].combine_chunks()
        docs = table["doc_id"].combine_chunks()
        scores = table["score"].combine_chunks()
        if not (_is_coded_text(queries) and _is_coded_text(docs)):
            raise ValueError("its ids are of another type")
        if scores.type != pa.float32() or scores.null_count:
            raise ValueError("its scores are of another type")
        if not _is_list_of_strings(query_ids):
            raise ValueError("its query_ids are no list of strings")
        queries.validate(full=True)
        docs.validate(full=True)
        run = cls._from_columns(queries, docs, scores.to_numpy(), str(path), query_ids)
        digest = metadata.get(CONTENT)  # older ones have none
        if digest is not None and digest != run.content.encode():
            raise InputError(
                f"{path}: was changed since it was written (its digest is another); write it again"
            )
        return run

    @property
    def content(self) -> str:
        """Digest of queries, passages and scores in their order."""
        query_ids = pa.array(self.query_ids, pa.string())
        numbers = (self.query_codes, self.doc_codes, self.scores.view(np.int32))
        return content_hash([[query_ids, self.doc_ids, *map(pa.array, numbers)]])

    def _coded(self) -> tuple[pa.DictionaryArray, pa.DictionaryArray]:
        """Return query_id and doc_id of each row."""
        query_ids = pa.array(self.query_ids, pa.string())
        queries = pa.DictionaryArray.from_arrays(self.query_codes, query_ids)
        docs = pa.DictionaryArray.from_arrays(self.doc_codes, self.doc_ids)
        return queries, docs

    def frame(self) -> pd.DataFrame:
        """Return a table of query_id, doc_id, score, rank, by query and rank."""
        queries, docs = self._coded()
        columns = {
            "query_id": queries.dictionary_decode(),
            "doc_id": docs.dictionary_decode(),
            "score": self.scores,
            "rank": self.ranks,
        }
        return pa.table(columns).to_pandas()

    def write_parquet(self, path: str | Path) -> None:
        """Write dictionary-coded Parquet, in rank order, with a digest of its content.

        It is written aside and renamed.
        """
        queries, docs = self._coded()
        table = pa.table(
            {"query_id": queries, "doc_id": docs, "score": self.scores},
            metadata={ASKED: json.dumps(self.query_ids), CONTENT: self.content},
        )
        with write_aside(path) as aside:
            # one row group with whole dictionaries, so that reading needs no hashing of ids
            pq.write_table(
                table,
                aside,
                compression="lz4",
                use_dictionary=["query_id", "doc_id"],
                row_group_size=max(len(self), 1),
                dictionary_pagesize_limit=1 << 30,
                data_page_size=1 << 26,
            )

    def write_trec(self, path: str | Path) -> None:
        """Write a TREC file of six columns, aside first, then renamed."""
        refuse_white_space("query_id", pa.array(self.query_ids, pa.string()))
        refuse_white_space("doc_id", self.doc_ids)
        columns = [*self._coded(), self.ranks, self.scores]
        table = pa.table(columns, ["query_id", "doc_id", "rank", "score"])
        with write_aside(path) as aside, open(aside, "wb") as file:
            for batch in table.to_batches(1_000_000):
                texts = [column.cast(pa.string()) for column in batch.columns]
                query, doc, rank, score = texts
                lines = pc.binary_join_element_wise(
                    query, "Q0", doc, rank, score, "interextra\n", " "
                )
                file.write(lines.buffers()[2])  # the strings of an Arrow array lie end to end

    @classmethod
    def _from_columns(
        cls,
        queries: pa.DictionaryArray,
        docs: pa.DictionaryArray,
        scores: np.ndarray,
        at: Origin,
        asked: list[str] | None = None,
    ) -> "RunFile":
        """Return the run of coded rows; `asked` as in `from_frame`."""
        query_codes = queries.indices
        if asked is None:
            asked = queries.dictionary.to_pylist()
        else:
            asked_ids = pa.array(asked, pa.string())
            query_codes = pc.index_in(queries.dictionary, value_set=asked_ids).take(query_codes)
            others = queries.filter(query_codes.is_null())
            if len(others):
                raise InputError(
                    f"{at}: {len(others)} rows are of queries that were not asked: "
                    f"{offenders(others.unique().to_pylist())}; name them among the asked ones"
                )
        return cls._build(
            asked,
            np.asarray(query_codes, np.int32),
            docs.dictionary,
            np.asarray(docs.indices, np.int32),
            scores,
            at,
        )

    @classmethod
    def _build(
        cls,
        query_ids: list[str],
        query_codes: np.ndarray,
        doc_ids: pa.Array,
        doc_codes: np.ndarray,
        scores: np.ndarray,
        at: Origin = "run",
    ) -> "RunFile":
        """Sort the doc_ids once, then the rows; refuse repeats and NaN.

        Rows are sorted by query, score and doc_id (both descending).
        """
        refuse_repeated(pd.DataFrame({"query_id": query_ids}, dtype=object), at)
        if not _is_ascending(doc_ids):
            doc_ids, new_codes = _sorted_once(doc_ids)
            doc_codes = new_codes[doc_codes]
        n_docs = np.int64(len(doc_ids))
        pair_codes = query_codes * n_docs + doc_codes
        if pd.Series(pair_codes).duplicated().any():
            refuse_repeated(_pairs(query_ids, query_codes, doc_ids, doc_codes), at)
        scores = _single_precision(scores)
        is_nan = np.isnan(scores)
        nan_rows = np.flatnonzero(is_nan)[:4]
        if len(nan_rows):  # of arrays or of Parquet: the other readers refuse them by themselves
            pairs = _pairs(query_ids, query_codes[nan_rows], doc_ids, doc_codes[nan_rows])
            shown = offenders(pairs.itertuples(index=False, name=None))
            raise InputError(f"{at}: the score of {shown} (query_id, doc_id) is NaN; give a number")
        if not _is_ranked(query_codes, doc_codes, scores):
            order = np.lexsort((-doc_codes, -scores, query_codes))
            query_codes = query_codes[order]
            doc_codes = doc_codes[order]
            scores = scores[order]
        codes = np.arange(len(query_ids) + 1, dtype=np.int32)
        offsets = np.searchsorted(query_codes, codes)
        return cls(query_ids, doc_ids, query_codes, doc_codes, scores, offsets)


@contextmanager
def open_parquet(path: str | Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file, its pages compared with their checksums where it has some.

    Raises
    ------
    InputError
        Faults of the file, also those that show when it is read, within the block.
    """
    if not os.path.isfile(path):
        raise InputError(f"{path}: no such file; check the path")
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except InputError:
        raise
    except BROKEN as error:
        raise InputError(f"{path}: {NOT_OURS} ({one_line(error)})") from None


def _refuse_other_shapes(
    query_ids: Sequence[str], doc_ids: Ids, rows: np.ndarray, scores: np.ndarray
) -> None:
    """Refuse rows and scores of other shapes than the queries', and rows of no passage."""
    if rows.shape != scores.shape or len(rows) != len(query_ids):
        raise InputError(
            f"run: {len(query_ids)} queries, rows {rows.shape}, scores {scores.shape} do not agree"
        )
    is_outside = (rows < -1) | (rows >= len(doc_ids))
    if is_outside.any():
        raise InputError(
            f"run: a row lies outside the {len(doc_ids)} doc_ids; only -1 (padding) may"
        )


def _refuse_other_columns(frame: pd.DataFrame, at: str) -> None:
    """Refuse a table that lacks a column of NEEDED, or has it twice."""
    columns = list(frame.columns)
    wrong = [name for name in NEEDED if columns.count(name) != 1]
    if wrong:
        raise InputError(
            f"{at}: needed is one column each of {', '.join(NEEDED)}, "
            f"not so {offenders(wrong)}; there are {offenders(columns, 12) or 'none'}"
        )


def _refuse_gaps(frame: pd.DataFrame, at: str) -> None:
    """Refuse rows without an id or a score."""
    is_missing = frame[NEEDED].isna()
    is_incomplete = is_missing.any(axis=1).to_numpy()
    incomplete = frame.loc[is_incomplete, NEEDED]
    if len(incomplete):
        shown = offenders(incomplete.itertuples(index=False, name=None))
        raise InputError(
            f"{at}: an empty query_id, doc_id or score in {len(incomplete)} rows: {shown}; "
            "fill or drop them"
        )


def _is_text(ids: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether these are Arrow strings, of 32 or 64 bits."""
    kind = ids.type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_list_of_strings(value: Any) -> bool:
    """Return whether a JSON value is a list of strings."""
    if not isinstance(value, list):
        return False
    return all(isinstance(item, str) for item in value)


def _is_coded_text(ids: pa.Array) -> bool:
    """Return whether these are codes of a dictionary of strings, none missing."""
    if not isinstance(ids, pa.DictionaryArray) or ids.null_count:
        return False
    return _is_text(ids.dictionary)


def _pairs(
    query_ids: list[str], query_codes: np.ndarray, doc_ids: pa.Array, doc_codes: np.ndarray
) -> pd.DataFrame:
    """Return query_id and doc_id of coded rows."""
    queries = pa.array(query_ids).take(pa.array(query_codes))
    docs = doc_ids.take(pa.array(doc_codes))
    return pa.table({"query_id": queries, "doc_id": docs}).to_pandas()


def _is_ascending(ids: pa.Array) -> bool:
    """Return whether each id is larger than the one before it."""
    if len(ids) < 2:
        return True
    is_larger = pc.less(ids[:-1], ids[1:])
    return pc.all(is_larger).as_py()


def _is_ranked(query_codes: np.ndarray, doc_codes: np.ndarray, scores: np.ndarray) -> bool:
    """Return whether rows are sorted by query, score and doc_id (both descending)."""
    next_query = query_codes[1:] > query_codes[:-1]
    same_query = query_codes[1:] == query_codes[:-1]
    lower_score = scores[1:] < scores[:-1]
    same_score = scores[1:] == scores[:-1]
    lower_doc = doc_codes[1:] < doc_codes[:-1]
    in_order = next_query | same_query & (lower_score | same_score & lower_doc)
    return bool(in_order.all())


def _single_precision(scores: np.ndarray) -> np.ndarray:
    """Return float32 scores; what is beyond single precision is infinite, as in trec_eval."""
    with np.errstate(over="ignore"):
        scores = np.asarray(scores).astype(np.float32, copy=False)
    return scores + np.float32(0)  # -0.0 and 0.0 are the same score


def _numbers(column: pd.Series) -> np.ndarray:
    """Return scores float64[n]; TypeError or ValueError for what is no number."""
    if column.dtype.kind not in "iufO":
        raise TypeError(f"scores are {column.dtype}")
    if column.dtype.kind == "O":
        for value in column:
            if isinstance(value, str | bool | np.bool_):
                raise TypeError(f"score {str(value)[:40]!r} is no number")
    return column.to_numpy(np.float64)


def _sorted_once(ids: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return the different ids in the order of their UTF-8 bytes, and the place int32[n] of each.

    This is the order of trec_eval's strcmp.
    """
    different_ids = ids.unique()
    in_order = different_ids.take(pc.sort_indices(different_ids))
    return in_order, pc.index_in(ids, value_set=in_order).to_numpy()


def _strings_of(doc_ids: Ids) -> pa.Array | pa.ChunkedArray:
    """Return doc_ids as Arrow strings; what are Arrow strings already is not copied."""
    if isinstance(doc_ids, pa.ChunkedArray | pa.Array):
        if _is_text(doc_ids):
            return doc_ids
        doc_ids = doc_ids.to_pylist()
    return strings(pd.Series(doc_ids, dtype=object), "run: doc_id")


def _id_list(query_ids: Sequence[str], at: str) -> list[str]:
    """Return ids of queries as strings, see `strings`."""
    column = pd.Series(query_ids, dtype=object)
    return strings(column, f"{at}: query_id").to_pylist()


def strings(column: pd.Series, what: str = "id") -> pa.Array:
    """Return a column of ids as one Arrow string array.

    Strings are kept as they are, whole numbers as they are written.

    Raises
    ------
    InputError
        `what`, and the first ids that are neither. A table whose ids became floats (7 is then 7.0,
        and matches no 7) was read with a missing id in it, or without saying that ids are strings.

    Examples
    --------
    >>> strings(pd.Series(["007", 7], dtype=object)).to_pylist()
    ['007', '7']
    >>> strings(pd.Series([7.0]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    interextra.store.errors.InputError: id 7.0 is a float; read ids as strings, ...
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    is_text = isinstance(column.dtype, pd.StringDtype)
    is_integer = column.dtype.kind in "iu"
    if not (is_text or is_integer):
        column = column.astype(object)
        _refuse_other_ids(column, what)
    try:
        array = pa.array(column.astype(str), pa.string())
    except (UnicodeEncodeError, ValueError, pa.ArrowException) as error:
        raise InputError(
            f"{what}: no text that UTF-8 can hold ({one_line(error)}); write whole characters"
        ) from None
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _refuse_other_ids(ids: pd.Series, what: str) -> None:
    """Refuse ids that are neither strings nor whole numbers."""
    for value in ids:
        is_text_or_integer = isinstance(value, str | int | np.integer)
        if not is_text_or_integer or isinstance(value, bool):
            name = what.rpartition(" ")[2]
            kind = type(value).__name__
            raise InputError(
                f"{what} {str(value)[:80]} is a {kind}; "
                f'read ids as strings, e.g. dtype={{"{name}": str}}'
            )
