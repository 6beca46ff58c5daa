"""A collection: passages in a memory-mapped Arrow file, queries and qrels per split."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from interextra.data.trec import write_aside
from interextra.ground.errors import InputError, offenders

SCHEMA = pa.schema([("doc_id", pa.large_string()), ("text", pa.large_string())])
BATCH_ROWS, BATCH_BYTES = 65_536, 64 << 20


class ContentHash:
    """SHA-256 of columns of strings or integers, the same however the rows were cut into batches.

    Each column feeds two streams, the values' lengths and their bytes, so that no choice of text can imitate a border.
    """

    def __init__(self, n_columns: int):
        self._streams = [(hashlib.sha256(), hashlib.sha256()) for _ in range(n_columns)]

    def update(self, *columns: pa.Array) -> None:
        for (lengths, values), column in zip(self._streams, columns, strict=True):
            if pa.types.is_integer(column.type):
                values.update(column.to_numpy(zero_copy_only=False).astype("<i8").tobytes())
                continue
            column = column.cast(pa.large_string())
            offsets = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]
            lengths.update(np.diff(offsets).astype("<i8").tobytes())
            if len(column) and column.buffers()[2] is not None:
                values.update(column.buffers()[2][int(offsets[0]) : int(offsets[-1])])

    def hexdigest(self) -> str:
        return hashlib.sha256(b"".join(part.digest() for pair in self._streams for part in pair)).hexdigest()


class PassageWriter:
    """Writes record batches of passages to an Arrow file and hashes them on the way."""

    def __init__(self, path: Path, at: Callable[[int], str]):
        self._at = at
        self._sink = pa.OSFile(str(path), "wb")
        self._file = pa.ipc.new_file(self._sink, SCHEMA)
        self.hash, self.rows = ContentHash(2), 0
        self._waiting: list[pa.RecordBatch] = []
        self.first_empty: list[int] = []
        self.n_empty = 0

    def write(self, doc_ids: pa.Array, texts: pa.Array) -> None:
        texts = texts.fill_null("")
        nameless = _blank(doc_ids.fill_null(""))
        if len(nameless):
            raise InputError(f"{self._at(self.rows + int(nameless[0]))}: a passage without doc_id; give it one")
        empty = _blank(texts)
        self.n_empty += len(empty)
        self.first_empty += [self.rows + int(row) for row in empty[: 4 - len(self.first_empty)]]
        columns = [doc_ids.cast(pa.large_string()), texts.cast(pa.large_string())]
        self.hash.update(*columns)
        self.rows += len(texts)
        self._waiting.append(pa.record_batch(columns, schema=SCHEMA))
        waiting_bytes = sum(batch.nbytes for batch in self._waiting)
        if sum(map(len, self._waiting)) >= BATCH_ROWS or waiting_bytes >= BATCH_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Small batches become one: fetching by row looks at each batch once."""
        if self._waiting:
            self._file.write_batch(pa.concat_batches(self._waiting))
            self._waiting.clear()

    def close(self) -> None:
        self._flush()
        self._file.close()
        self._sink.close()


def _blank(strings: pa.Array) -> np.ndarray:
    return np.flatnonzero(pc.equal(pc.binary_length(pc.utf8_trim_whitespace(strings)), 0).to_numpy(False))


def batches_of(pairs: Iterable[tuple[str, str]], size: int = BATCH_ROWS) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Cut a stream of (doc_id, text) into Arrow columns of at most `size` rows."""
    ids, texts = [], []
    for doc_id, text in pairs:
        ids.append(doc_id)
        texts.append(text)
        if len(ids) == size:
            yield pa.array(ids, pa.large_string()), pa.array(texts, pa.large_string())
            ids, texts = [], []
    if ids:
        yield pa.array(ids, pa.large_string()), pa.array(texts, pa.large_string())


def write_passages(
    path: str | Path,
    passages: Iterable[tuple[str, str]] | Iterable[tuple[pa.Array, pa.Array]],
    at: Callable[[int], str] | None = None,
    empty: str = "error",
) -> str:
    """Write passages to an Arrow IPC file, aside and then renamed, in memory bounded by a batch.

    Parameters
    ----------
    passages : (doc_id, text) pairs, or pairs of Arrow string arrays of up to some 65,536 rows.
    at : names the place of a row (`file:line`) in an error.
    empty : "error" or "keep" passages without text.

    Returns
    -------
    Hex SHA-256 of the content.

    Raises
    ------
    InputError
        No passages, a passage without text, a doc_id twice.
    """
    at = at or (lambda row: f"{path}, row {row + 1}")
    with write_aside(path) as aside:
        writer = PassageWriter(aside, at)
        try:
            for first, second in _as_batches(passages):
                writer.write(first, second)
        finally:
            writer.close()
        if not writer.rows:
            raise InputError(f"{at(0)}: no passages in the corpus; check the file")
        if writer.n_empty and empty == "error":
            ids = Passages(aside).doc_ids_at(writer.first_empty)
            raise InputError(
                f"{at(writer.first_empty[0])}: {writer.n_empty} passages without text: doc_id {offenders(ids)}; "
                "remove them or open the collection with empty=keep"
            )
        _refuse_duplicates(Passages(aside), at)
    return writer.hash.hexdigest()


def _as_batches(passages: Iterable) -> Iterator[tuple[pa.Array, pa.Array]]:
    passages = iter(passages)
    head = next(passages, None)
    if head is None:
        return
    whole = (item for part in ([head], passages) for item in part)
    yield from whole if isinstance(head[0], pa.Array) else batches_of(whole)


def _refuse_duplicates(passages: "Passages", at: Callable[[int], str]) -> None:
    column = passages.doc_ids
    if pc.count_distinct(column).as_py() == len(column):
        return
    counts = pc.value_counts(column)
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    rows = np.flatnonzero(pc.is_in(column, value_set=repeated).to_numpy())
    ids = pd.Series(column.take(pa.array(rows)).to_pylist())
    again = ids.duplicated().to_numpy()
    raise InputError(
        f"{at(int(rows[again][0]))}: {int(again.sum())} passages repeat a doc_id: {offenders(ids[again].unique())}; "
        "give each passage its own id"
    )


class Passages:
    """Passages `doc_id, text` of a memory-mapped Arrow file: opening costs nothing, a row is read when asked for.

    Rows are numbered from 0 in file order; models and runs name passages by row.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._source = pa.memory_map(str(path))
        table = pa.ipc.open_file(self._source).read_all()
        self.doc_ids: pa.ChunkedArray = table.column("doc_id")
        self._texts: pa.ChunkedArray = table.column("text")
        sizes = [len(chunk) for chunk in self.doc_ids.chunks]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def texts(self, rows: Sequence[int] | slice) -> list[str]:
        """Texts of these rows, in the order given (repeats allowed)."""
        return self._take(self._texts, rows)

    def doc_ids_at(self, rows: Sequence[int] | slice) -> list[str]:
        """doc_ids of these rows, in the order given."""
        return self._take(self.doc_ids, rows)

    def batches(self, size: int) -> Iterator[tuple[int, list[str]]]:
        """(first row, texts) for each `size` passages."""
        for start in range(0, len(self), size):
            yield start, self._texts.slice(start, size).to_pylist()

    def rows(self, doc_ids: Sequence[str]) -> np.ndarray:
        """Rows of these doc_ids, int64 [n], -1 where absent. Scans the column; no table of all ids is built."""
        wanted = pa.chunked_array([pa.array(doc_ids, pa.large_string())]).combine_chunks()
        codes = wanted.dictionary_encode()
        found = pc.index_in(self.doc_ids, value_set=codes.dictionary)
        row_of = np.full(len(codes.dictionary), -1, np.int64)
        row_of[found.drop_null().to_numpy()] = np.flatnonzero(found.is_valid().to_numpy())
        return row_of[codes.indices.to_numpy()] if len(wanted) else np.empty(0, np.int64)

    def _take(self, column: pa.ChunkedArray, rows: Sequence[int] | slice) -> list[str]:
        if isinstance(rows, slice) and rows.step in (None, 1):
            start, stop, _ = rows.indices(len(self))
            return column.slice(start, max(0, stop - start)).to_pylist()
        rows = np.arange(len(self))[rows] if isinstance(rows, slice) else np.asarray(rows, np.int64)
        if not len(rows):
            return []
        if rows.min() < 0 or rows.max() >= len(self):
            bad = rows[(rows < 0) | (rows >= len(self))].tolist()
            raise InputError(f"passage rows {offenders(bad)} outside 0 … {len(self) - 1}; drop the padding (-1) first")
        order = np.argsort(rows, kind="stable")
        cuts = np.searchsorted(rows[order], self._starts)
        out = np.empty(len(rows), object)
        for chunk, low, high in zip(range(column.num_chunks), cuts[:-1], cuts[1:], strict=True):
            if low < high:
                local = pa.array(rows[order[low:high]] - self._starts[chunk])
                out[order[low:high]] = column.chunk(chunk).take(local).to_pylist()
        return out.tolist()


class Collection:
    """Passages, queries and qrels of one collection.

    Parameters
    ----------
    name, spec : short name, and the string that opens it again.
    passages : Passages
    queries : DataFrame with query_id, text and any attributes; query_id unique.
    qrels : split -> DataFrame with query_id, doc_id, relevance, or a function that reads it (called once).
    fingerprint : hex SHA-256 of passages, queries and qrels.
    dropped : split -> number of qrels rows left out because they named a passage or query that is not there.
    """

    def __init__(
        self,
        name: str,
        spec: str,
        passages: Passages,
        queries: pd.DataFrame | Callable[[], pd.DataFrame],
        qrels: Mapping[str, pd.DataFrame | Callable[[], pd.DataFrame]],
        fingerprint: str,
        dropped: Mapping[str, int] | None = None,
    ):
        self.name, self.spec, self.passages, self.fingerprint = name, spec, passages, fingerprint
        self._queries, self._qrels, self.dropped = queries, dict(qrels), dict(dropped or {})

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self._qrels)

    @cached_property
    def _query_table(self) -> pd.DataFrame:
        return self._queries() if callable(self._queries) else self._queries

    def queries(self, split: str | None = None) -> pd.DataFrame:
        """Queries of a split (those with qrels, in qrels order), or all in file order: query_id, text, attributes."""
        if split is None:
            return self._query_table.copy(deep=False)  # copy on write
        rows = pd.Index(self._query_table["query_id"]).get_indexer(self.query_ids(split))
        return self._query_table.iloc[rows].reset_index(drop=True)

    def qrels(self, split: str) -> pd.DataFrame:
        """Judgements of a split: query_id, doc_id, relevance, in file order."""
        if split not in self._qrels:
            raise InputError(f"{self.name} has no split {split!r}; it has {', '.join(self.splits)}")
        if callable(self._qrels[split]):
            self._qrels[split] = self._qrels[split]()
        return self._qrels[split].copy(deep=False)

    def query_ids(self, split: str) -> list[str]:
        """ids of the queries that have qrels in the split, in order of first appearance in the qrels."""
        return self.qrels(split)["query_id"].unique().tolist()

    def __repr__(self) -> str:
        return f"Collection({self.spec!r}: {len(self.passages):,} passages; splits {', '.join(self.splits)})"
