"""Converted collections on disk.

A collection is checked once, sealed with checksums, and opened again without reading the source.
"""

import hashlib
import json
import os
import sys
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from interextra.data.collection import Collection, Passages, content_hash, write_passages
from interextra.data.trec import QRELS_COLUMNS, blank, refuse_repeated
from interextra.store import InputError, cache_folder, code, digest, offenders, scratch, write_json
from interextra.store.files import seal, seal_problem

_json = partial(json.dumps, ensure_ascii=False, sort_keys=True)


class Parts(NamedTuple):
    """What a source delivers.

    `place_of(part, row)` names the place of a row of "passages", "queries" or a split.
    """

    passages: Iterable[tuple[str, str]]
    queries: pd.DataFrame
    qrels: Mapping[str, pd.DataFrame]
    place_of: Callable[[str, int], str]


def folder_of(name: str, reader: str, *depends: object) -> Path:
    """Return the folder of a converted collection, named by all it depends on.

    `reader` is MODULE:DEFINITION of what reads the source.
    """
    made_by = code.behind((reader, f"{__name__}:convert"))
    short = name.replace("/", "-")[:40]  # a name of 255 bytes leaves no room for the digest
    return cache_folder() / "collections" / f"{short}-{digest([made_by, *depends])}"


def stored(
    folder: Path, name: str, spec: str, read: Callable[[], Parts], switches: Set[str]
) -> Collection:
    """Return the collection in `folder`; where it is not there, convert what `read` delivers.

    A folder that does not hold its checksums is put aside and made anew. Reads every byte: open it
    once per process. See `convert`.
    """
    if folder.exists():
        _put_aside_if_damaged(folder, spec)
    if not folder.exists():
        convert(folder, read(), switches)
    meta = json.loads((folder / "meta.json").read_text())
    # by way of Python's own types, so that lists stay lists
    queries = pd.DataFrame(pq.read_table(folder / "queries.parquet").to_pydict())
    qrels = {
        split: pd.read_parquet(folder / f"qrels-{number}.parquet")
        for number, split in enumerate(meta["splits"])
    }
    passages = Passages(folder / "passages.arrow")
    return Collection(name, spec, passages, queries, qrels, meta["fingerprint"])


def _put_aside_if_damaged(folder: Path, spec: str) -> None:
    """Rename a folder that does not hold its checksums, and say so."""
    problem = seal_problem(folder)
    if not problem:
        return
    aside = folder.with_name(f"{folder.name}.damaged-{uuid.uuid4().hex[:8]}")
    with suppress(FileNotFoundError):  # another process was first
        os.replace(folder, aside)
    message = f"{folder}: {problem}; put aside as {aside.name}, {spec} is converted again"
    print(message, file=sys.stderr)


def convert(folder: Path, parts: Parts, switches: Set[str]) -> None:
    """Check a collection and store it in `folder`.

    It is stored in one step: another process sees all of it or nothing.

    Raises
    ------
    InputError
        With file, line and the first three: empty corpus, queries or split; an id twice; empty text
        without "empty" in `switches`; qrels of unknown queries or passages, which subsets of MS
        MARCO have, without "dangling".
    """
    unique = f"{folder.name}.tmp{os.getpid()}-{uuid.uuid4().hex[:8]}"
    with scratch(folder.with_name(unique)) as aside:
        columns, queries_hash = _write_queries(aside, parts, "empty" in switches)
        passages_path = aside / "passages.arrow"
        content = [write_passages(passages_path, parts.passages), *columns, queries_hash]
        passages = Passages(passages_path)
        _check("passages", passages.table, parts.place_of, "empty" in switches)
        for number, split in enumerate(parts.qrels):
            kept = _without_dangling(split, parts, passages, "dangling" in switches)
            kept.to_parquet(aside / f"qrels-{number}.parquet", index=False)
            kept_columns = [pa.array(kept[name].tolist()) for name in QRELS_COLUMNS]
            content += [split, content_hash([kept_columns])]
        fingerprint = hashlib.sha256(json.dumps(content).encode()).hexdigest()
        write_json(aside / "meta.json", {"splits": list(parts.qrels), "fingerprint": fingerprint})
        seal(aside)
        try:
            os.replace(aside, folder)
        except OSError:
            # another process was first; its folder has the same key, so the same content
            if seal_problem(folder):
                raise


def _write_queries(folder: Path, parts: Parts, allow_empty: bool) -> tuple[list[str], str]:
    """Check and store the queries; return the sorted names of their columns, and their hash."""
    table = pa.table({name: _column(values.tolist()) for name, values in parts.queries.items()})
    _check("queries", table, parts.place_of, allow_empty)
    pq.write_table(table, folder / "queries.parquet")
    columns = sorted(table.column_names)
    return columns, content_hash([[_as_text(table[name]) for name in columns]])


def _check(
    part: str, table: pa.Table, place_of: Callable[[str, int], str], allow_empty: bool
) -> None:
    """Refuse a table without rows, and rows without an id (the first column), its own, or a text.

    `table` has the id first, and a column `text`.
    """
    if not table.num_rows:
        raise InputError(f"{place_of(part, 0)}: no {part} in it; check the file")
    key = table.column_names[0]
    for name in (key, "text"):
        if name == "text" and allow_empty:
            continue
        lacking = pc.indices_nonzero(blank(table[name])).to_pylist()
        if not lacking:
            continue
        shown = offenders(table[key].take(lacking[:4]).to_pylist())
        advice = "remove them or open the collection with empty=keep"
        if name == key:
            advice = "give each one"
        raise InputError(
            f"{place_of(part, lacking[0])}: {len(lacking)} {part} without {name}: "
            f"{key} {shown}; {advice}"
        )
    if pc.count_distinct(table[key]).as_py() < table.num_rows:
        refuse_repeated(table.select([key]).to_pandas(), partial(place_of, part))


def _without_dangling(split: str, parts: Parts, passages: Passages, drop: bool) -> pd.DataFrame:
    """Return the qrels of a split whose query and passage are there.

    Others are refused unless they are to be dropped.
    """
    qrels = parts.qrels[split]
    known_query = qrels["query_id"].isin(parts.queries["query_id"]).to_numpy()
    known_passage = passages.rows(qrels["doc_id"]) >= 0
    for column, what, known in (
        ("query_id", "query", known_query),
        ("doc_id", "passage", known_passage),
    ):
        if not drop and not known.all():
            place = parts.place_of(split, int(known.argmin()))
            shown = offenders(qrels[column][~known].unique())
            raise InputError(
                f"{place}: {(~known).sum()} qrels of split {split!r} name a {what} that is not "
                f"there: {column} {shown}; complete the {what} file or open the collection with "
                "dangling=drop"
            )
    kept = qrels[known_query & known_passage].reset_index(drop=True)
    if kept.empty:
        raise InputError(
            f"{parts.place_of(split, 0)}: no qrels of split {split!r} name a query and a passage "
            "that are there"
        )
    n_dropped = len(qrels) - len(kept)
    if n_dropped:
        n_queries = qrels["query_id"].nunique() - kept["query_id"].nunique()
        warnings.warn(
            f"{n_dropped} of {len(qrels)} qrels of split {split!r} dropped, "
            f"{n_queries} queries with them",
            stacklevel=2,
        )
    return kept


def _column(values: list[Any]) -> pa.Array:
    """Return the Arrow form of an attribute of the queries.

    One of mixed types, or that Parquet can't hold, is stored as JSON.
    """
    values = [None if value != value else value for value in values]  # NaN: missing
    try:
        column = pa.array(values)
        if _is_storable(column.type):
            return column
    except (pa.ArrowException, OverflowError):  # mixed types; integers beyond 64 bits
        pass
    return pa.array(map(_json, values))


def _is_storable(kind: pa.DataType, levels: int = 20) -> bool:
    """Return whether Parquet can hold the type and be read again.

    It can hold no object without keys, and no more nested levels than this.
    """
    if not levels:
        return False
    parts = [kind.field(position).type for position in range(kind.num_fields)]
    if pa.types.is_struct(kind) and not parts:
        return False
    return all(_is_storable(part, levels - 1) for part in parts)


def _as_text(column: pa.ChunkedArray) -> pa.Array:
    """Return one string per value, so that the hash needs no type.

    It is the text itself, and JSON for anything else.
    """
    if pa.types.is_string(column.type):
        return pc.fill_null(column, "\0").combine_chunks()
    return pa.array(map(_json, column.to_pylist()))
