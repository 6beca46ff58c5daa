"""A collection: passages in a memory-mapped Arrow file, queries and qrels per split."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from interextra.store import InputError, offenders, write_aside

STRING = pa.large_string()
SCHEMA = pa.schema([("doc_id", STRING), ("text", STRING)])
BATCH_ROWS = 16_384


def content_hash(batches: Iterable[Sequence[pa.Array]]) -> str:
    """Return the SHA-256 (hex) of columns of strings or integers.

    It is the same however the rows are cut into batches. Each column feeds two streams, the values'
    lengths and their bytes: no choice of text can imitate a border.
    """
    streams: dict[int, tuple[Any, Any]] = {}
    for columns in batches:
        for position, column in enumerate(columns):
            new = (hashlib.sha256(), hashlib.sha256())
            lengths, values = streams.setdefault(position, new)
            if pa.types.is_integer(column.type):
                values.update(column.to_numpy(zero_copy_only=False).astype("<i8"))
            else:
                _hash_strings(column.cast(STRING), lengths, values)
    total = hashlib.sha256()
    for lengths, values in streams.values():
        total.update(lengths.digest())
        total.update(values.digest())
    return total.hexdigest()


def _hash_strings(strings: pa.Array, lengths: Any, values: Any) -> None:
    """Feed the lengths and the bytes of an array of large strings to two SHA-256 streams."""
    _, offsets_buffer, values_buffer = strings.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)
    end = strings.offset + len(strings)
    offsets = offsets[strings.offset : end + 1]
    lengths.update(np.diff(offsets).astype("<i8"))
    if values_buffer is not None:
        first_byte = int(offsets[0])
        last_byte = int(offsets[-1])
        values.update(values_buffer[first_byte:last_byte])


def write_passages(path: str | Path, passages: Iterable[tuple[str, str]]) -> str:
    """Write (doc_id, text) pairs to an Arrow file and return the hash of its content.

    Memory is bounded by a batch of passages.
    """
    passages = iter(passages)
    with write_aside(path) as aside:
        with (
            pa.OSFile(str(aside), "wb") as sink,
            pa.ipc.new_file(sink, SCHEMA) as file,
        ):
            while batch := list(islice(passages, BATCH_ROWS)):
                doc_ids, texts = zip(*batch, strict=True)
                file.write_batch(pa.record_batch([doc_ids, texts], SCHEMA))
        written = Passages(aside).table.to_batches()
        return content_hash(batch.columns for batch in written)


def no_split(collection: str, split: str, splits: Iterable[str]) -> InputError:
    """Return the error of a split that a collection does not have."""
    known = ", ".join(splits)
    return InputError(f"{collection} has no split {split!r}; it has {known}")


def rows_of(table: pd.DataFrame, query_ids: Iterable[str]) -> pd.DataFrame:
    """Return the rows of a table that are of these queries, in their order in the table."""
    is_wanted = table["query_id"].isin(query_ids)
    return table[is_wanted].reset_index(drop=True)


def in_order(queries: pd.DataFrame, query_ids: list[str]) -> pd.DataFrame:
    """Return the rows of a table of queries (query_id is unique) in the order of these ids."""
    by_id = queries.set_index("query_id", drop=False)
    return by_id.loc[query_ids].reset_index(drop=True)


def present_rows(passages: "Passages", doc_ids: Sequence[str], owner: str) -> np.ndarray:
    """Return the rows of these doc_ids, int64[n].

    Parameters
    ----------
    owner
        Whose passages they are, which begins the message of the error.

    Raises
    ------
    InputError
        Some are not among the passages.
    """
    rows = passages.rows(doc_ids)
    absent = pd.Index(doc_ids)[rows < 0]
    if len(absent):
        raise InputError(
            f"{owner}: {len(absent)} doc_ids are not in the collection: {offenders(absent)}"
        )
    return rows


class Passages:
    """Passages `doc_id, text` of a memory-mapped Arrow file.

    Opening costs nothing, a row is read when it is asked for. Rows are numbered from 0 in file
    order; models and runs name passages by row.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        file = pa.memory_map(str(path))
        self.table: pa.Table = pa.ipc.open_file(file).read_all()
        self.doc_ids: pa.ChunkedArray = self.table["doc_id"]
        chunk_sizes = map(len, self.doc_ids.chunks)
        self._chunk_starts = np.cumsum([0, *chunk_sizes], dtype=np.int64)

    def __len__(self) -> int:
        """Return the number of passages."""
        return self.table.num_rows

    def texts(self, rows: Sequence[int] | np.ndarray | slice) -> list[str]:
        """Return the texts of these rows, or of a slice without steps.

        Rows are taken in the order given, and may be repeated.

        Raises
        ------
        InputError
            A row that no passage has.
        """
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            n_rows = max(0, stop - start)
            return self.table["text"].slice(start, n_rows).to_pylist()
        rows = np.asarray(rows, np.int64)
        is_outside = (rows < 0) | (rows >= len(self))
        outside = rows[is_outside]
        if len(outside):
            shown = offenders(outside.tolist())
            raise InputError(
                f"passage rows {shown} outside 0 … {len(self) - 1}; drop the padding (-1) first"
            )
        return self._texts_by_chunk(rows)

    def _texts_by_chunk(self, rows: np.ndarray) -> list[str]:
        """Return texts chunk by chunk: taking from all chunks at once would copy the corpus."""
        texts = np.empty(len(rows), object)
        by_row = np.argsort(rows, kind="stable")
        bounds = np.searchsorted(rows[by_row], self._chunk_starts)
        for chunk in np.flatnonzero(np.diff(bounds)):
            start, end = bounds[chunk : chunk + 2]
            places = by_row[start:end]
            first_row = self._chunk_starts[chunk]
            rows_in_chunk = pa.array(rows[places] - first_row)
            chunk_texts = self.table["text"].chunk(int(chunk))
            texts[places] = chunk_texts.take(rows_in_chunk).to_pylist()
        return texts.tolist()

    def batches(self, size: int) -> Iterator[tuple[int, list[str]]]:
        """Yield (first row, texts) for each `size` passages."""
        for start in range(0, len(self), size):
            rows = slice(start, start + size)
            yield start, self.texts(rows)

    def rows(self, doc_ids: Sequence[str]) -> np.ndarray:
        """Return the rows of these doc_ids, int64[n], -1 where absent.

        The column is scanned; no table of all ids is built.
        """
        codes, wanted = pd.factorize(np.asarray(doc_ids, object))
        wanted_ids = pa.array(wanted, STRING)
        code_of_row = pc.index_in(self.doc_ids, value_set=wanted_ids)
        row_of_code = np.full(len(wanted), -1, np.int64)
        found_codes = code_of_row.drop_null().to_numpy()
        is_wanted = code_of_row.is_valid().to_numpy()
        row_of_code[found_codes] = np.flatnonzero(is_wanted)
        return row_of_code[codes]

    @cached_property
    def tie_order(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows by doc_id descending, as trec_eval ranks ties, and each row's place in that order.

        Both are int32[n] and read-only, since every search of the process shares them.
        """
        # Arrow compares UTF-8 bytes, as strcmp in trec_eval does
        rows = pc.sort_indices(self.doc_ids, sort_keys=[("", "descending")])
        rows = np.asarray(rows).astype(np.int32)
        place = np.empty_like(rows)
        place[rows] = np.arange(len(rows), dtype=np.int32)
        rows.flags.writeable = False
        place.flags.writeable = False
        return rows, place


@dataclass(eq=False, repr=False)
class Collection:
    """Passages, the queries that are asked of them, and relevance judgements per split."""

    name: str
    spec: str  # opens it again
    passages: Passages
    _queries: pd.DataFrame  # query_id (unique), text and any attributes
    _qrels: Mapping[str, pd.DataFrame]  # split -> query_id, doc_id, relevance
    fingerprint: str  # hex SHA-256 of passages, queries and qrels

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(self._qrels)

    def queries(self, split: str) -> pd.DataFrame:
        """Return the queries of a split that have qrels, in qrels order.

        Returns
        -------
        pandas.DataFrame
            query_id, text, attributes.
        """
        return in_order(self._queries, self.query_ids(split))

    def qrels(self, split: str) -> pd.DataFrame:
        """Return the judgements of a split: query_id, doc_id, relevance, in file order."""
        if split not in self._qrels:
            raise no_split(self.name, split, self.splits)
        return self._qrels[split].copy(deep=False)  # copy on write

    def query_ids(self, split: str) -> list[str]:
        """Return the ids of the queries with qrels, in order of first appearance in the qrels."""
        return self.qrels(split)["query_id"].unique().tolist()

    def __repr__(self) -> str:
        """Return spec, number of passages and splits in a line."""
        splits = ", ".join(self.splits)
        return f"Collection({self.spec!r}: {len(self.passages):,} passages; splits {splits})"
