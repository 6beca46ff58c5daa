"""Runs: what a retriever returned for each query, as integer-coded arrays in memory and on disk.

A run is ordered as trec_eval orders it, whatever order or rank a file declares: score (as float32)
descending, then doc_id descending by its UTF-8 bytes. Others break ties otherwise: ranx by memory
order, MS MARCO by doc_id ascending.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from interextra.data.collection import content_hash
from interextra.data.trec import RUN, line_of, read_table, refuse_repeated, refuse_white_space
from interextra.store import InputError, offenders, write_aside
from interextra.store.errors import one_line
from interextra.store.files import parse_json

COLUMNS = {"qid": "query_id", "docno": "doc_id"}  # PyTerrier's names
# In the metadata of a Parquet file of ours: all queries, and `RunFile.content`
ASKED, CONTENT = b"query_ids", b"interextra.content"
MARKS = {ASKED, CONTENT}
NOT_OURS = "not a run written by RunFile.write_parquet"
BROKEN = (
    pa.ArrowException,
    OSError,
    KeyError,
    ValueError,
    TypeError,
    OverflowError,
)  # what Arrow raises of damage


@dataclass(frozen=True, eq=False, repr=False)
class RunFile:
    """A ranked list of passages per query; build it with `from_arrays`, `from_frame` or `read`.

    `query_ids` (n_queries) and `doc_ids` (Arrow strings, sorted, unique) are the dictionaries;
    `query_codes` int32[n], `doc_codes` int32[n] and `scores` float32[n] are the rows, by query and
    then by rank; the rows of query `i` are `offsets[i]:offsets[i + 1]`. A query without rows has
    retrieved nothing.

    >>> found = pd.DataFrame({"query_id": "q", "doc_id": ["d1", "d2", "d3"], "score": [1.0, 1.0, 2.0]})
    >>> RunFile.from_frame(found).frame().doc_id.tolist()  # a tie goes to the larger doc_id
    ['d3', 'd2', 'd1']
    """

    query_ids: list[str]
    doc_ids: pa.Array
    query_codes: np.ndarray
    doc_codes: np.ndarray
    scores: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def ranks(self) -> np.ndarray:
        """Rank of each row, int32[n], from 1."""
        return (np.arange(len(self), dtype=np.int64) - self.offsets[self.query_codes] + 1).astype(
            np.int32
        )

    @classmethod
    def from_arrays(
        cls, query_ids: Sequence[str], doc_ids, rows: np.ndarray, scores: np.ndarray
    ) -> "RunFile":
        """Run of a search: `rows` int[n_queries, k] into `doc_ids` (-1 = padding), `scores`
        float[n_queries, k].

        `doc_ids` is any sequence of str or an Arrow string array, e.g. `passages.doc_ids`; only
        those used are kept.
        """
        if rows.shape != scores.shape or len(rows) != len(query_ids):
            raise InputError(
                f"run: {len(query_ids)} queries, rows {rows.shape}, scores {scores.shape} do not agree"
            )
        if rows.min(initial=-1) < -1 or rows.max(initial=-1) >= len(doc_ids):
            raise InputError(
                f"run: a row lies outside the {len(doc_ids)} doc_ids; only -1 (padding) may"
            )
        kept = rows >= 0
        query_codes = np.repeat(np.arange(len(rows), dtype=np.int32), kept.sum(axis=1))
        doc_codes, used = pd.factorize(rows[kept])
        is_arrow = isinstance(doc_ids, pa.ChunkedArray | pa.Array)
        if is_arrow and not _is_text(doc_ids):
            doc_ids, is_arrow = doc_ids.to_pylist(), False
        ids = doc_ids if is_arrow else strings(pd.Series(doc_ids, dtype=object), "run: doc_id")
        taken = ids.take(pa.array(used))
        taken = taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken
        asked = strings(pd.Series(query_ids, dtype=object), "run: query_id").to_pylist()
        return cls._build(asked, query_codes, taken, doc_codes.astype(np.int32), scores[kept])

    @classmethod
    def from_frame(
        cls, frame: pd.DataFrame, at: str = "run", asked: Sequence[str] | None = None
    ) -> "RunFile":
        """Run of a table with columns query_id, doc_id, score; queries in order of first
        appearance.

        at : where the table is from, for errors. asked : ids of all queries that were searched, in
        the order wanted;
            those without rows have retrieved nothing.
        """
        needed, there = ["query_id", "doc_id", "score"], list(frame.columns)
        if missing := [name for name in needed if there.count(name) != 1]:
            told = f"{at}: needed is one column each of {', '.join(needed)}, not so {offenders(missing)}"
            raise InputError(f"{told}; there are {offenders(there, 12) or 'none'}")
        try:
            scores = _numbers(frame["score"])
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{at}: needed is a numeric score ({one_line(error)}); write numbers"
            ) from None
        if len(empty := np.flatnonzero(frame[needed].isna().any(axis=1))):
            shown = offenders(frame[needed].iloc[empty[:4]].itertuples(index=False, name=None))
            told = f"{at}: an empty query_id, doc_id or score in {len(empty)} rows: {shown}"
            raise InputError(f"{told}; fill or drop them")
        ids = {name: strings(frame[name], f"{at}: {name}") for name in needed[:2]}
        return cls._from_table(pa.table(ids | {"score": scores}), at, asked)

    @classmethod
    def read(cls, path: str | Path) -> "RunFile":
        """Run of a TREC file (six columns, plain or gzipped) or a `.parquet` file written by
        `write_parquet`.

        Rank and tag are ignored, as trec_eval does. A Parquet file is compared with its digest. An
        InputError has file, line and the first three offenders.
        """
        if Path(path).suffix != ".parquet":
            return cls._from_table(
                read_table(path, RUN), lambda row: line_of(path, row, is_trec=True)
            )
        with open_parquet(path) as file:
            return cls._as_written(
                file.read_row_group(0), path
            )  # read alone it keeps its dictionaries whole

    @classmethod
    def _as_written(cls, table: pa.Table, path: str | Path) -> "RunFile":
        """Run of what `write_parquet` wrote; InputError, ValueError, KeyError for anything else."""
        metadata = table.schema.metadata or {}
        asked = parse_json(metadata[ASKED], f"{path}: {NOT_OURS}: its query_ids")
        queries, docs, scores = (
            table[name].combine_chunks() for name in ("query_id", "doc_id", "score")
        )
        for ids in (queries, docs):
            if (
                not isinstance(ids, pa.DictionaryArray)
                or ids.null_count
                or not _is_text(ids.dictionary)
            ):
                raise ValueError("its ids are of another type")
        if scores.type != pa.float32() or scores.null_count:
            raise ValueError("its scores are of another type")
        if not isinstance(asked, list) or not all(isinstance(query_id, str) for query_id in asked):
            raise ValueError("its query_ids are no list of strings")
        queries.validate(full=True)
        docs.validate(full=True)
        place = pc.index_in(queries.dictionary, value_set=pa.array(asked, pa.string()))
        codes = place.take(queries.indices)
        if codes.null_count:
            raise ValueError("a row is of a query that its query_ids lack")
        rows = codes.to_numpy(), docs.dictionary, docs.indices.to_numpy(), scores.to_numpy()
        made = cls._build(asked, *rows, str(path))
        digest = metadata.get(CONTENT)  # older ones have none
        if digest is not None and digest != made.content.encode():
            raise InputError(
                f"{path}: was changed since it was written (its digest is another); write it again"
            )
        return made

    @property
    def content(self) -> str:
        """Digest of queries, passages and scores in their order."""
        numbers = self.query_codes, self.doc_codes, self.scores.view(np.int32)
        return content_hash(
            [[pa.array(self.query_ids, pa.string()), self.doc_ids, *map(pa.array, numbers)]]
        )

    def _coded(self) -> tuple[pa.DictionaryArray, pa.DictionaryArray]:
        """query_id and doc_id of each row."""
        queries = pa.DictionaryArray.from_arrays(
            self.query_codes, pa.array(self.query_ids, pa.string())
        )
        return queries, pa.DictionaryArray.from_arrays(self.doc_codes, self.doc_ids)

    def frame(self) -> pd.DataFrame:
        """Table of query_id, doc_id, score, rank, by query and rank."""
        queries, docs = (column.dictionary_decode() for column in self._coded())
        return pa.table(
            {"query_id": queries, "doc_id": docs, "score": self.scores, "rank": self.ranks}
        ).to_pandas()

    def write_parquet(self, path: str | Path) -> None:
        """Dictionary-coded Parquet, in rank order, with a digest of its content; written aside and
        renamed.
        """
        metadata = {ASKED: json.dumps(self.query_ids), CONTENT: self.content}
        table = pa.table(
            [*self._coded(), self.scores], ["query_id", "doc_id", "score"], metadata=metadata
        )
        # one row group with whole dictionaries, so that reading needs no hashing of ids
        layout = {
            "row_group_size": max(len(self), 1),
            "dictionary_pagesize_limit": 1 << 30,
            "data_page_size": 1 << 26,
        }
        with write_aside(path) as aside:
            pq.write_table(
                table, aside, compression="lz4", use_dictionary=["query_id", "doc_id"], **layout
            )

    def write_trec(self, path: str | Path) -> None:
        """TREC file of six columns; written aside and renamed."""
        refuse_white_space("query_id", pa.array(self.query_ids, pa.string()))
        refuse_white_space("doc_id", self.doc_ids)
        table = pa.table(
            [*self._coded(), self.ranks, self.scores], ["query_id", "doc_id", "rank", "score"]
        )
        with write_aside(path) as aside, open(aside, "wb") as out:
            for batch in table.to_batches(1_000_000):
                query, doc, rank, score = (column.cast(pa.string()) for column in batch.columns)
                lines = pc.binary_join_element_wise(
                    query, "Q0", doc, rank, score, "interextra\n", " "
                )
                out.write(lines.buffers()[2])  # the strings of an Arrow array lie end to end

    @classmethod
    def _from_table(
        cls, table: pa.Table, at: str | Callable[[int], str], asked: Sequence[str] | None = None
    ) -> "RunFile":
        """Of columns query_id, doc_id, score; `asked`: all queries, as `from_frame` takes them."""
        queries, docs = (
            table[name].combine_chunks().dictionary_encode() for name in ("query_id", "doc_id")
        )
        found, codes = queries.dictionary.to_pylist(), np.asarray(queries.indices, np.int32)
        if asked is not None:
            place = {query_id: code for code, query_id in enumerate(asked)}
            codes = np.array([place[query_id] for query_id in found], np.int32)[codes]
        doc_codes, scores = np.asarray(docs.indices, np.int32), np.asarray(table["score"])
        return cls._build(
            found if asked is None else list(asked), codes, docs.dictionary, doc_codes, scores, at
        )

    @classmethod
    def _build(
        cls, query_ids: list[str], query_codes, doc_ids, doc_codes, scores, at="run"
    ) -> "RunFile":
        """Sort the doc_ids once, then the rows by query, score and doc_id (both descending); refuse
        repeats and NaN.
        """
        refuse_repeated(pd.DataFrame({"query_id": query_ids}, dtype=object), at)
        if len(doc_ids) > 1 and not pc.all(pc.less(doc_ids[:-1], doc_ids[1:])).as_py():
            doc_ids, place = _sorted_once(doc_ids)
            doc_codes = place[doc_codes]
        if pd.Series(query_codes * np.int64(len(doc_ids)) + doc_codes).duplicated().any():
            rows = (
                pa.array(query_ids).take(pa.array(query_codes)),
                doc_ids.take(pa.array(doc_codes)),
            )
            refuse_repeated(pa.table(rows, ["query_id", "doc_id"]).to_pandas(), at)
        with np.errstate(over="ignore"):  # beyond single precision is infinite, as in trec_eval
            scores = np.asarray(scores).astype(np.float32, copy=False)
        scores = scores + np.float32(0)  # -0.0 and 0.0 are the same score
        if len(bad := np.flatnonzero(np.isnan(scores))):
            pairs = [
                (query_ids[query_codes[row]], doc_ids[int(doc_codes[row])].as_py())
                for row in bad[:4]
            ]
            where = at(int(bad[0])) if callable(at) else at
            raise InputError(
                f"{where}: the score of {offenders(pairs)} (query_id, doc_id) is NaN; give a number"
            )
        next_query, same_query = (
            query_codes[1:] > query_codes[:-1],
            query_codes[1:] == query_codes[:-1],
        )
        falling, level = scores[1:] < scores[:-1], scores[1:] == scores[:-1]
        if not (
            next_query | same_query & (falling | level & (doc_codes[1:] < doc_codes[:-1]))
        ).all():
            order = np.lexsort((-doc_codes, -scores, query_codes))
            query_codes, doc_codes, scores = query_codes[order], doc_codes[order], scores[order]
        offsets = np.searchsorted(query_codes, np.arange(len(query_ids) + 1, dtype=np.int32))
        return cls(query_ids, doc_ids, query_codes, doc_codes, scores, offsets)


@contextmanager
def open_parquet(path: str | Path) -> Iterator[pq.ParquetFile]:
    """A Parquet file, its pages compared with their checksums where it has some; its faults are
    InputErrors.

    So are those that show when it is read, within the block.
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


def _is_text(ids: pa.Array | pa.ChunkedArray) -> bool:
    return pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)


def _numbers(column: pd.Series) -> np.ndarray:
    """Scores float64[n]; TypeError or ValueError for what is no number."""
    if column.dtype.kind not in "iufO":
        raise TypeError(f"scores are {column.dtype}")
    if column.dtype.kind == "O":
        for value in column:
            if isinstance(value, str | bool | np.bool_):
                raise TypeError(f"score {str(value)[:40]!r} is no number")
    return column.to_numpy(np.float64)


def _sorted_once(ids: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """The different ids in the order of their UTF-8 bytes (trec_eval's strcmp), and the place
    int32[n] of each.
    """
    order = pc.sort_indices(ids)
    ids, place = ids.take(order), np.argsort(order)
    is_new = np.append(True, np.asarray(pc.not_equal(ids[1:], ids[:-1])))
    return ids.filter(pa.array(is_new)), (np.cumsum(is_new, dtype=np.int32) - 1)[place]


def strings(column: pd.Series, what: str = "id") -> pa.Array:
    """A column of ids as one Arrow string array: strings as they are, whole numbers as they are
    written.

    Raises
    ------
    InputError
        `what`, and the first ids that are neither. A table whose ids became floats (7 is then 7.0,
        and matches no 7) was read with a missing id in it, or without saying that ids are strings.

    Examples
    --------
    >>> strings(pd.Series(["007", 7], dtype=object)).to_pylist()
    ['007', '7']
    >>> strings(pd.Series([7.0]), "run: query_id")
    Traceback (most recent call last):
    interextra.store.errors.InputError: run: query_id 7.0 is a float; read ids as strings, e.g. dtype={"query_id": str}
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    if not (isinstance(column.dtype, pd.StringDtype) or column.dtype.kind in "iu"):
        column = column.astype(object)
        for value in column:
            if not isinstance(value, str | int | np.integer) or isinstance(value, bool):
                name = what.rpartition(" ")[2]
                hint = f'read ids as strings, e.g. dtype={{"{name}": str}}'
                raise InputError(f"{what} {str(value)[:80]!s} is a {type(value).__name__}; {hint}")
    try:
        array = pa.array(column.astype(str), pa.string())
    except (UnicodeEncodeError, ValueError, pa.ArrowException) as error:
        raise InputError(
            f"{what}: no text that UTF-8 can hold ({one_line(error)}); write whole characters"
        ) from None
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
