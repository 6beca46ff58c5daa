"""Runs: what a retriever returned for each query, as integer-coded arrays in memory and on disk.

A run is ordered as trec_eval orders it, whatever order or rank a file declares: score (as float32) descending, then
doc_id descending by its UTF-8 bytes. Others break ties otherwise: ranx by memory order, MS MARCO by doc_id ascending.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from interextra.data.trec import RUN, line_of, read_table, refuse_repeated, refuse_white_space
from interextra.ground import InputError, offenders, write_aside


@dataclass(frozen=True, eq=False, repr=False)
class RunFile:
    """A ranked list of passages per query; build it with `from_arrays`, `from_frame` or `read`.

    `query_ids` (n_queries) and `doc_ids` (Arrow strings, sorted, unique) are the dictionaries; `query_codes` int32[n],
    `doc_codes` int32[n] and `scores` float32[n] are the rows, by query and then by rank; the rows of query `i` are
    `offsets[i]:offsets[i + 1]`. A query without rows has retrieved nothing.

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
        return (np.arange(len(self), dtype=np.int64) - self.offsets[self.query_codes] + 1).astype(np.int32)

    @classmethod
    def from_arrays(cls, query_ids: Sequence[str], doc_ids, rows: np.ndarray, scores: np.ndarray) -> "RunFile":
        """Run of a search: `rows` int[n_queries, k] into `doc_ids` (-1 = padding), `scores` float[n_queries, k].

        `doc_ids` is any sequence of str or an Arrow string array, e.g. `passages.doc_ids`; only those used are kept.
        """
        if rows.shape != scores.shape or len(rows) != len(query_ids):
            raise InputError(f"run: {len(query_ids)} queries, rows {rows.shape}, scores {scores.shape} do not agree")
        if rows.min(initial=-1) < -1 or rows.max(initial=-1) >= len(doc_ids):
            raise InputError(f"run: a row lies outside the {len(doc_ids)} doc_ids; only -1 (padding) may")
        kept = rows >= 0
        query_codes = np.repeat(np.arange(len(rows), dtype=np.int32), kept.sum(axis=1))
        doc_codes, used = pd.factorize(rows[kept])
        ids = doc_ids if isinstance(doc_ids, pa.ChunkedArray) else pa.chunked_array([pa.array(doc_ids)])
        taken = ids.take(pa.array(used)).combine_chunks()
        return cls._build(list(query_ids), query_codes, taken, doc_codes.astype(np.int32), scores[kept])

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> "RunFile":
        """Run of a table with columns query_id, doc_id, score; queries in order of first appearance."""
        try:
            empty = frame.index[frame[["query_id", "doc_id", "score"]].isna().any(axis=1)]
            scores = frame["score"].to_numpy(np.float64)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"run: needed are the columns query_id, doc_id and a numeric score ({error})") from error
        if len(empty):
            raise InputError(f"run: an empty query_id, doc_id or score in rows {offenders(empty)}; fill or drop them")
        ids = {name: strings(frame[name]) for name in ("query_id", "doc_id")}
        return cls._from_table(pa.table(ids | {"score": scores}), "run")

    @classmethod
    def read(cls, path: str | Path) -> "RunFile":
        """Run of a TREC file (six columns, plain or gzipped) or a `.parquet` file written by `write_parquet`.

        Rank and tag are ignored, as trec_eval does. An InputError has file, line and the first three offenders.
        """
        if Path(path).suffix != ".parquet":
            return cls._from_table(read_table(path, RUN), lambda row: line_of(path, row))
        try:
            table = pq.ParquetFile(path).read_row_group(0)  # read alone it keeps its dictionaries whole
            query_ids = json.loads(table.schema.metadata[b"query_ids"])
            queries, docs, scores = (table[name].combine_chunks() for name in ("query_id", "doc_id", "score"))
        except (pa.ArrowInvalid, KeyError, TypeError, OSError) as error:
            raise InputError(f"{path}: not a run written by RunFile.write_parquet ({error})") from error
        place = pc.index_in(queries.dictionary, value_set=pa.array(query_ids, pa.string()))
        codes = place.take(queries.indices).to_numpy()
        return cls._build(query_ids, codes, docs.dictionary, docs.indices.to_numpy(), scores.to_numpy(), str(path))

    def _coded(self) -> tuple[pa.DictionaryArray, pa.DictionaryArray]:
        """query_id and doc_id of each row."""
        queries = pa.DictionaryArray.from_arrays(self.query_codes, pa.array(self.query_ids, pa.string()))
        return queries, pa.DictionaryArray.from_arrays(self.doc_codes, self.doc_ids)

    def frame(self) -> pd.DataFrame:
        """Table of query_id, doc_id, score, rank, by query and rank."""
        queries, docs = (column.dictionary_decode() for column in self._coded())
        return pa.table({"query_id": queries, "doc_id": docs, "score": self.scores, "rank": self.ranks}).to_pandas()

    def write_parquet(self, path: str | Path) -> None:
        """Dictionary-coded Parquet, in rank order; written aside and renamed."""
        columns, metadata = [*self._coded(), self.scores], {"query_ids": json.dumps(self.query_ids)}
        table = pa.table(columns, ["query_id", "doc_id", "score"], metadata=metadata)
        # one row group with whole dictionaries, so that reading needs no hashing of ids
        layout = {"row_group_size": max(len(self), 1), "dictionary_pagesize_limit": 1 << 30, "data_page_size": 1 << 26}
        with write_aside(path) as aside:
            pq.write_table(table, aside, compression="lz4", use_dictionary=["query_id", "doc_id"], **layout)

    def write_trec(self, path: str | Path) -> None:
        """TREC file of six columns; written aside and renamed."""
        refuse_white_space("query_id", pa.array(self.query_ids, pa.string()))
        refuse_white_space("doc_id", self.doc_ids)
        table = pa.table([*self._coded(), self.ranks, self.scores], ["query_id", "doc_id", "rank", "score"])
        with write_aside(path) as aside, open(aside, "wb") as out:
            for batch in table.to_batches(1_000_000):
                query, doc, rank, score = (column.cast(pa.string()) for column in batch.columns)
                lines = pc.binary_join_element_wise(query, "Q0", doc, rank, score, "interextra\n", " ")
                out.write(lines.buffers()[2])  # the strings of an Arrow array lie end to end

    @classmethod
    def _from_table(cls, table: pa.Table, at: str | Callable[[int], str]) -> "RunFile":
        queries, docs = (table[name].combine_chunks().dictionary_encode() for name in ("query_id", "doc_id"))
        codes = [np.asarray(column.indices, np.int32) for column in (queries, docs)]
        ids = queries.dictionary.to_pylist()
        return cls._build(ids, codes[0], docs.dictionary, codes[1], np.asarray(table["score"]), at)

    @classmethod
    def _build(cls, query_ids: list[str], query_codes, doc_ids, doc_codes, scores, at="run") -> "RunFile":
        """Sort the doc_ids once, then the rows by query, score and doc_id (both descending); refuse repeats and NaN."""
        refuse_repeated(pd.DataFrame({"query_id": query_ids}), at)
        if pd.Series(query_codes * np.int64(len(doc_ids)) + doc_codes).duplicated().any():
            rows = pa.array(query_ids).take(pa.array(query_codes)), doc_ids.take(pa.array(doc_codes))
            refuse_repeated(pa.table(rows, ["query_id", "doc_id"]).to_pandas(), at)
        scores = np.asarray(scores).astype(np.float32, copy=False) + np.float32(0)  # -0.0 and 0.0 are the same score
        if (bad := np.isnan(scores)).any():
            pairs = [(query_ids[query_codes[i]], doc_ids[int(doc_codes[i])].as_py()) for i in np.flatnonzero(bad)[:4]]
            raise InputError(f"run: the score of {offenders(pairs)} (query_id, doc_id) is NaN; give a number")
        if not pc.all(pc.less(doc_ids[:-1], doc_ids[1:])).as_py():
            order = pc.sort_indices(doc_ids)  # by UTF-8 bytes, as trec_eval's strcmp
            doc_ids, doc_codes = doc_ids.take(order), np.argsort(order).astype(np.int32)[doc_codes]
        next_query, same_query = query_codes[1:] > query_codes[:-1], query_codes[1:] == query_codes[:-1]
        falling, level = scores[1:] < scores[:-1], scores[1:] == scores[:-1]
        if not (next_query | same_query & (falling | level & (doc_codes[1:] < doc_codes[:-1]))).all():
            order = np.lexsort((-doc_codes, -scores, query_codes))
            query_codes, doc_codes, scores = query_codes[order], doc_codes[order], scores[order]
        offsets = np.searchsorted(query_codes, np.arange(len(query_ids) + 1, dtype=np.int32))
        return cls(query_ids, doc_ids, query_codes, doc_codes, scores, offsets)


def strings(column: pd.Series) -> pa.Array:
    """A column of ids as one Arrow string array."""
    array = pa.array(column.astype(str), pa.string())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
