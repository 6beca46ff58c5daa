"""Converted collections on disk.

A collection is checked once, sealed with checksums, and opened again without reading the source.
"""

import hashlib
import json
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from interextra.data.collection import Collection, Passages, content_hash, write_passages
from interextra.data.trec import QRELS_COLUMNS, blank, refuse_repeated
from interextra.store import InputError, cache_folder, code, digest, offenders, scratch, write_json
from interextra.store.checksums import Checksums
from interextra.store.files import seal, seal_problem

PlaceOf = Callable[[str, int], str]  # of a part and a row
_json = partial(json.dumps, ensure_ascii=False, sort_keys=True)


class Parts(NamedTuple):
    """What a source delivers.

    `place_of(part, row)` names the place of a row of "passages", "queries" or a split.
    """

    passages: Iterable[tuple[str, str]]
    queries: pd.DataFrame
    qrels: Mapping[str, pd.DataFrame]
    place_of: PlaceOf


def folder_of(name: str, reader: str, *depends: object) -> Path:
    """Return the folder of a converted collection, named by all it depends on.

    `reader` is MODULE:DEFINITION of what reads the source.
    """
    made_by = code.behind((reader, f"{__name__}:convert"))
    short = name.replace("/", "-")[:40]  # a name of 255 bytes leaves no room for the digest
    key = digest([made_by, *depends])
    return cache_folder() / "collections" / f"{short}-{key}"


def stored(
    folder: Path, name: str, spec: str, read: Callable[[], Parts], switches: Set[str]
) -> Collection:
    """Return the collection in `folder`; where it is not there, convert what `read` delivers.

    A folder that does not hold its checksums is put aside and made anew; those of large files are
    computed once, see `store.checksums`. Open it once per process. See `convert`.
    """
    if folder.exists():
        _put_aside_if_damaged(folder, spec)
    if not folder.exists():
        parts = read()
        _refuse_missing_columns(parts, spec)
        convert(folder, parts, switches, spec)
    meta = json.loads((folder / "meta.json").read_text())
    # by way of Python's own types, so that lists stay lists
    queries = pq.read_table(folder / "queries.parquet").to_pydict()
    qrels = {
        split: pd.read_parquet(folder / f"qrels-{number}.parquet")
        for number, split in enumerate(meta["splits"])
    }
    passages = Passages(folder / "passages.arrow")
    fingerprint = meta["fingerprint"]
    return Collection(name, spec, passages, pd.DataFrame(queries), qrels, fingerprint)


def _refuse_missing_columns(parts: Parts, spec: str) -> None:
    """Refuse a reader's queries or qrels that lack a column."""
    tables = {"queries": (parts.queries, ["query_id", "text"])}
    for split, qrels in parts.qrels.items():
        tables[f"qrels of split {split!r}"] = (qrels, QRELS_COLUMNS)
    for what, (table, needed) in tables.items():
        missing = [name for name in needed if name not in table]
        if missing and len(table):  # one without rows is refused where it is checked
            raise InputError(
                f"{spec}: the reader's {what} have no column {offenders(missing)}; "
                f"they need {', '.join(needed)} and have {offenders(table.columns, 12) or 'none'}"
            )


def _put_aside_if_damaged(folder: Path, spec: str) -> None:
    """Rename a folder that does not hold its checksums, and say so."""
    checksums = Checksums(folder.with_name(f"{folder.name}.checksums.json"))
    problem = seal_problem(folder, checksums.of)
    if not problem:
        return
    aside = folder.with_name(f"{folder.name}.damaged-{_unique()}")
    with suppress(FileNotFoundError):  # another process was first
        os.replace(folder, aside)
    message = f"put aside as {aside.name}, {spec} is converted again"
    print(f"{folder}: {problem}; {message}", file=sys.stderr)


def _unique() -> str:
    """Return an end for a name that no other process uses."""
    return uuid.uuid4().hex[:8]


def convert(folder: Path, parts: Parts, switches: Set[str], spec: str) -> None:
    """Check a collection and store it in `folder`; `spec` opens it, for messages.

    It is stored in one step: another process sees all of it or nothing. Qrels that are dropped are
    counted on standard error.

    Raises
    ------
    InputError
        With file, line and the first three: empty corpus, queries or split; an id twice; empty text
        without "empty" in `switches`; qrels of unknown queries or passages, which subsets of MS
        MARCO have, without "dangling".
    """
    unfinished = f"{folder.name}.tmp{os.getpid()}-{_unique()}"
    with scratch(folder.with_name(unfinished)) as aside:
        of_queries = _write_queries(aside, parts, switches, spec)
        passages_path = aside / "passages.arrow"
        passages_hash = write_passages(passages_path, parts.passages)
        passages = Passages(passages_path)
        _check("passages", passages.table, parts.place_of, switches, spec)
        of_qrels = _write_qrels(aside, parts, passages, switches, spec)
        content = json.dumps([passages_hash, *of_queries, *of_qrels])
        fingerprint = hashlib.sha256(content.encode()).hexdigest()
        meta = {"splits": list(parts.qrels), "fingerprint": fingerprint}
        write_json(aside / "meta.json", meta)
        seal(aside)
        try:
            os.replace(aside, folder)
        except OSError:
            # another process was first; its folder has the same key, so the same content
            if seal_problem(folder):
                raise


def _write_queries(folder: Path, parts: Parts, switches: Set[str], spec: str) -> list[str]:
    """Check and store the queries; return the sorted names of their columns, then their hash."""
    columns = {}
    for name, values in parts.queries.items():
        columns[name] = _column(values.tolist())
    table = pa.table(columns)
    _check("queries", table, parts.place_of, switches, spec)
    pq.write_table(table, folder / "queries.parquet")
    names = sorted(columns)
    texts = [_as_text(table[name]) for name in names]
    return [*names, content_hash([texts])]


def _write_qrels(
    folder: Path, parts: Parts, passages: Passages, switches: Set[str], spec: str
) -> list[str]:
    """Check and store the qrels; return name and hash of each split."""
    content = []
    for number, split in enumerate(parts.qrels):
        kept = _without_dangling(split, parts, passages, switches, spec)
        path = folder / f"qrels-{number}.parquet"
        kept.to_parquet(path, index=False)
        columns = [pa.array(kept[name].tolist()) for name in QRELS_COLUMNS]
        content += [split, content_hash([columns])]
    return content


def _check(part: str, table: pa.Table, place_of: PlaceOf, switches: Set[str], spec: str) -> None:
    """Refuse a table without rows, and rows without an id (the first column), its own, or a text.

    `table` has the id first, and a column `text`.
    """
    if not table.num_rows:
        raise InputError(f"{place_of(part, 0)}: no {part} in it; check the file")
    key = table.column_names[0]
    for name in (key, "text"):
        if name == "text" and "empty" in switches:
            continue
        lacking = pc.indices_nonzero(blank(table[name])).to_pylist()
        if not lacking:
            continue
        place = place_of(part, lacking[0])
        first_ids = table[key].take(lacking[:4]).to_pylist()
        count = f"{len(lacking)} {part} without {name}"
        advice = f"remove them or keep them: open {spec},empty=keep"
        if name == key:
            advice = "give each one"
        problem = f"{count}: {key} {offenders(first_ids)}"
        raise InputError(f"{place}: {problem}; {advice}")
    n_different = pc.count_distinct(table[key]).as_py()
    if n_different < table.num_rows:
        refuse_repeated(table.select([key]).to_pandas(), partial(place_of, part))


def _without_dangling(
    split: str, parts: Parts, passages: Passages, switches: Set[str], spec: str
) -> pd.DataFrame:
    """Return the qrels of a split whose query and passage are there.

    Others are refused unless they are to be dropped.
    """
    qrels = parts.qrels[split]
    query_ids = parts.queries["query_id"]
    unknown_query = ~qrels["query_id"].isin(query_ids).to_numpy()
    unknown_passage = passages.rows(qrels["doc_id"]) < 0
    if "dangling" not in switches:
        _refuse_dangling(split, parts, "query_id", "query", unknown_query, spec)
        _refuse_dangling(split, parts, "doc_id", "passage", unknown_passage, spec)
    is_dangling = unknown_query | unknown_passage
    kept = qrels[~is_dangling].reset_index(drop=True)
    if kept.empty:
        place = parts.place_of(split, 0)
        raise InputError(
            f"{place}: no qrels of split {split!r} name a query and a passage that are there"
        )
    n_dropped = len(qrels) - len(kept)
    if n_dropped:
        n_queries_kept = kept["query_id"].nunique()
        n_queries = qrels["query_id"].nunique() - n_queries_kept
        dropped = f"{n_dropped:,} of {len(qrels):,} qrels of split {split!r} are dropped"
        print(f"{spec}: {dropped}, {n_queries:,} queries with them", file=sys.stderr)
    return kept


def _refuse_dangling(
    split: str, parts: Parts, column: str, what: str, is_unknown: np.ndarray, spec: str
) -> None:
    """Refuse qrels whose query or passage (`what`) is unknown."""
    if not is_unknown.any():
        return
    place = parts.place_of(split, int(is_unknown.argmax()))
    unknown_ids = parts.qrels[split][column][is_unknown]
    count = f"{len(unknown_ids)} qrels of split {split!r}"
    raise InputError(
        f"{place}: {count} name a {what} that is not there: {column} "
        f"{offenders(unknown_ids.unique())}; "
        f"complete the {what} file or drop these qrels: open {spec},dangling=drop"
    )


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
