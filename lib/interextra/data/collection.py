"""A collection: passages in a memory-mapped Arrow file, queries and qrels per split."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from interextra.store import InputError, offenders, write_aside

SCHEMA = pa.schema([("doc_id", pa.large_string()), ("text", pa.large_string())])
BATCH_ROWS = 16_384


def content_hash(batches: Iterable[Sequence[pa.Array]]) -> str:
    """Hex SHA-256 of columns of strings or integers, the same however the rows are cut into
    batches.

    Each column feeds two streams, the values' lengths and their bytes: no choice of text can
    imitate a border.
    """
    streams = {}
    for columns in batches:
        for place, column in enumerate(columns):
            lengths, values = streams.setdefault(place, (hashlib.sha256(), hashlib.sha256()))
            if pa.types.is_integer(column.type):
                values.update(column.to_numpy(zero_copy_only=False).astype("<i8"))
                continue
            column = column.cast(pa.large_string())
            offsets = np.frombuffer(column.buffers()[1], np.int64)[
                column.offset : column.offset + len(column) + 1
            ]
            lengths.update(np.diff(offsets).astype("<i8"))
            if column.buffers()[2] is not None:
                values.update(column.buffers()[2][int(offsets[0]) : int(offsets[-1])])
    return hashlib.sha256(
        b"".join(part.digest() for pair in streams.values() for part in pair)
    ).hexdigest()


def write_passages(path: str | Path, passages: Iterable[tuple[str, str]]) -> str:
    """Write (doc_id, text) pairs to an Arrow file in memory bounded by a batch; returns the hash of
    the content.
    """
    passages = iter(passages)
    with write_aside(path) as aside:
        with pa.OSFile(str(aside), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as file:
            while batch := list(islice(passages, BATCH_ROWS)):
                columns = zip(*batch, strict=True)
                file.write_batch(
                    pa.record_batch(
                        [pa.array(column, pa.large_string()) for column in columns], SCHEMA
                    )
                )
        return content_hash(batch.columns for batch in Passages(aside).table.to_batches())


class Passages:
    """Passages `doc_id, text` of a memory-mapped Arrow file: opening costs nothing, a row is read
    when asked for.

    Rows are numbered from 0 in file order; models and runs name passages by row.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        self.doc_ids: pa.ChunkedArray = self.table["doc_id"]
        self._starts = np.cumsum([0, *map(len, self.doc_ids.chunks)], dtype=np.int64)

    def __len__(self) -> int:
        return self.table.num_rows

    def texts(self, rows: Sequence[int] | slice) -> list[str]:
        """Texts of these rows, in the order given (repeats allowed), or of a slice without
        steps.
        """
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            return self.table["text"].slice(start, max(0, stop - start)).to_pylist()
        rows = np.asarray(rows, np.int64)
        if len(bad := rows[(rows < 0) | (rows >= len(self))].tolist()):
            raise InputError(
                f"passage rows {offenders(bad)} outside 0 … {len(self) - 1}; drop the padding (-1) first"
            )
        order = np.argsort(rows, kind="stable")
        cuts = np.searchsorted(rows[order], self._starts)
        out = np.empty(len(rows), object)
        for chunk in np.flatnonzero(
            np.diff(cuts)
        ):  # chunk by chunk: taking from all at once would copy the corpus
            here = order[cuts[chunk] : cuts[chunk + 1]]
            local = pa.array(rows[here] - self._starts[chunk])
            out[here] = self.table["text"].chunk(int(chunk)).take(local).to_pylist()
        return out.tolist()

    def batches(self, size: int) -> Iterator[tuple[int, list[str]]]:
        """(first row, texts) for each `size` passages."""
        for start in range(0, len(self), size):
            yield start, self.texts(slice(start, start + size))

    def rows(self, doc_ids: Sequence[str]) -> np.ndarray:
        """Rows of these doc_ids, int64 [n], -1 where absent. Scans the column; no table of all ids
        is built.
        """
        codes, wanted = pd.factorize(np.asarray(doc_ids, object))
        found = pc.index_in(self.doc_ids, value_set=pa.array(wanted, pa.large_string()))
        row_of = np.full(len(wanted), -1, np.int64)
        row_of[found.drop_null().to_numpy()] = np.flatnonzero(found.is_valid().to_numpy())
        return row_of[codes]

    @cached_property
    def tie_order(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows int32[n] by doc_id descending, as trec_eval ranks ties, and each row's place
        int32[n] in that order.

        Both are read-only, since every search of the process shares them.
        """
        # Arrow compares UTF-8 bytes, as strcmp in trec_eval does
        rows = np.asarray(pc.sort_indices(self.doc_ids, sort_keys=[("", "descending")])).astype(
            np.int32
        )
        place = np.empty_like(rows)
        place[rows] = np.arange(len(rows), dtype=np.int32)
        rows.flags.writeable = place.flags.writeable = False
        return rows, place


@dataclass(eq=False, repr=False)
class Collection:
    name: str
    spec: str  # opens it again
    passages: Passages
    _queries: pd.DataFrame  # query_id (unique), text and any attributes
    _qrels: Mapping[str, pd.DataFrame]  # split -> query_id, doc_id, relevance
    fingerprint: str  # hex SHA-256 of passages, queries and qrels

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self._qrels)

    def queries(self, split: str) -> pd.DataFrame:
        """Queries of a split (those with qrels, in qrels order): query_id, text, attributes."""
        return (
            self._queries.set_index("query_id", drop=False)
            .loc[self.query_ids(split)]
            .reset_index(drop=True)
        )

    def qrels(self, split: str) -> pd.DataFrame:
        """Judgements of a split: query_id, doc_id, relevance, in file order."""
        if split not in self._qrels:
            raise InputError(f"{self.name} has no split {split!r}; it has {', '.join(self.splits)}")
        return self._qrels[split].copy(deep=False)  # copy on write

    def query_ids(self, split: str) -> list[str]:
        """Ids of the queries that have qrels in the split, in order of first appearance in the
        qrels.
        """
        return self.qrels(split)["query_id"].unique().tolist()

    def __repr__(self) -> str:
        return f"Collection({self.spec!r}: {len(self.passages):,} passages; splits {', '.join(self.splits)})"
