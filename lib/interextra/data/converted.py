"""Converted collections on disk: checked once, sealed with checksums, opened again without reading
the source.
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
from typing import NamedTuple

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
    """What a source delivers. `at(part, row)` names the place of a row of "passages", "queries" or
    a split.
    """

    passages: Iterable[tuple[str, str]]
    queries: pd.DataFrame
    qrels: Mapping[str, pd.DataFrame]
    at: Callable[[str, int], str]


def folder_of(name: str, read: str, *depends: object) -> Path:
    """Folder of a converted collection, by all it depends on; `read`: MODULE:DEFINITION of what
    reads the source.
    """
    made_by = code.behind((read, f"{__name__}:convert"))
    short = name.replace("/", "-")[:40]  # a name of 255 bytes leaves no room for the digest
    return cache_folder() / "collections" / f"{short}-{digest([made_by, *depends])}"


def stored(
    folder: Path, name: str, spec: str, read: Callable[[], Parts], switches: Set[str]
) -> Collection:
    """The collection in `folder`, converted from what `read` delivers where it is not there (see
    `convert`).

    A folder that does not hold its checksums is put aside and made anew. Reads every byte: open it
    once per process.
    """
    if folder.exists() and (problem := seal_problem(folder)):
        aside = folder.with_name(f"{folder.name}.damaged-{uuid.uuid4().hex[:8]}")
        with suppress(FileNotFoundError):  # another process was first
            os.replace(folder, aside)
        print(
            f"{folder}: {problem}; put aside as {aside.name}, {spec} is converted again",
            file=sys.stderr,
        )
    if not folder.exists():
        convert(folder, read(), switches)
    meta = json.loads((folder / "meta.json").read_text())
    queries = pd.DataFrame(
        pq.read_table(folder / "queries.parquet").to_pydict()
    )  # lists stay lists
    qrels = {
        split: pd.read_parquet(folder / f"qrels-{i}.parquet")
        for i, split in enumerate(meta["splits"])
    }
    return Collection(
        name, spec, Passages(folder / "passages.arrow"), queries, qrels, meta["fingerprint"]
    )


def convert(folder: Path, parts: Parts, switches: Set[str]) -> None:
    """Check a collection and store it in `folder`, in one step: another process sees all of it or
    nothing.

    An InputError has file, line and the first three: empty corpus, queries or split; an id twice;
    empty text without "empty" in `switches`; qrels of unknown queries or passages, which subsets of
    MS MARCO have, without "dangling".
    """
    with scratch(
        folder.with_name(f"{folder.name}.tmp{os.getpid()}-{uuid.uuid4().hex[:8]}")
    ) as aside:
        columns = {name: _column(parts.queries[name].tolist()) for name in parts.queries.columns}
        table, names = pa.table(columns), sorted(columns)
        _check("queries", table, parts.at, "empty" in switches)
        pq.write_table(table, aside / "queries.parquet")
        content = [write_passages(aside / "passages.arrow", parts.passages)]
        written = Passages(aside / "passages.arrow")
        _check("passages", written.table, parts.at, "empty" in switches)
        content += [*names, content_hash([[_as_text(table[name]) for name in names]])]
        for i, split in enumerate(parts.qrels):
            kept = _without_dangling(split, parts, written, "dangling" in switches)
            kept.to_parquet(aside / f"qrels-{i}.parquet", index=False)
            content += [
                split,
                content_hash([[pa.array(kept[name].tolist()) for name in QRELS_COLUMNS]]),
            ]
        fingerprint = hashlib.sha256(json.dumps(content).encode()).hexdigest()
        write_json(aside / "meta.json", {"splits": list(parts.qrels), "fingerprint": fingerprint})
        seal(aside)
        try:
            os.replace(aside, folder)
        except (
            OSError
        ):  # another process was first; its folder has the same key, so the same content
            if seal_problem(folder):
                raise


def _check(part: str, table: pa.Table, at: Callable[[str, int], str], allow_empty: bool) -> None:
    """Ids are there and unique, texts are there. `table` has the id first, and a column `text`."""
    if not table.num_rows:
        raise InputError(f"{at(part, 0)}: no {part} in it; check the file")
    key = table.column_names[0]
    for name in (key,) if allow_empty else (key, "text"):
        if lacking := pc.indices_nonzero(blank(table[name])).to_pylist():
            shown = offenders(table[key].take(lacking[:4]).to_pylist())
            mend = (
                "give each one"
                if name == key
                else "remove them or open the collection with empty=keep"
            )
            raise InputError(
                f"{at(part, lacking[0])}: {len(lacking)} {part} without {name}: {key} {shown}; {mend}"
            )
    if pc.count_distinct(table[key]).as_py() < table.num_rows:
        refuse_repeated(table.select([key]).to_pandas(), partial(at, part))


def _without_dangling(split: str, parts: Parts, passages: Passages, drop: bool) -> pd.DataFrame:
    """Qrels of a split whose query and passage are there; InputError for others unless they are to
    be dropped.
    """
    frame, at = parts.qrels[split], parts.at
    known_query = frame["query_id"].isin(parts.queries["query_id"]).to_numpy()
    known_passage = passages.rows(frame["doc_id"]) >= 0
    for column, what, known in (
        ("query_id", "query", known_query),
        ("doc_id", "passage", known_passage),
    ):
        if not drop and not known.all():
            place, shown = at(split, int(known.argmin())), offenders(frame[column][~known].unique())
            told = f"{(~known).sum()} qrels of split {split!r} name a {what} that is not there: {column} {shown}"
            raise InputError(
                f"{place}: {told}; complete the {what} file or open the collection with dangling=drop"
            )
    kept = frame[known_query & known_passage].reset_index(drop=True)
    if kept.empty:
        raise InputError(
            f"{at(split, 0)}: no qrels of split {split!r} name a query and a passage that are there"
        )
    if lost := len(frame) - len(kept):
        of = frame["query_id"].nunique() - kept["query_id"].nunique()
        warnings.warn(
            f"{lost} of {len(frame)} qrels of split {split!r} dropped, {of} queries with them",
            stacklevel=2,
        )
    return kept


def _column(values: list) -> pa.Array:
    """Arrow form of an attribute of the queries; one of mixed types, or that Parquet can't hold, is
    stored as JSON.
    """
    values = [None if value != value else value for value in values]  # NaN: missing
    try:
        if _is_storable((column := pa.array(values)).type):
            return column
    except (pa.ArrowException, OverflowError):  # mixed types; integers beyond 64 bits
        pass
    return pa.array(map(_json, values))


def _is_storable(kind: pa.DataType, levels: int = 20) -> bool:
    """Whether Parquet can hold the type and be read again: no object without keys, no more nested
    levels than this.
    """
    parts = [kind.field(place).type for place in range(kind.num_fields)]
    if not levels or (pa.types.is_struct(kind) and not parts):
        return False
    return all(_is_storable(part, levels - 1) for part in parts)


def _as_text(column: pa.ChunkedArray) -> pa.Array:
    """One string per value: the text itself, JSON for anything else, so that the hash needs no
    type.
    """
    if pa.types.is_string(column.type):
        return pc.fill_null(column, "\0").combine_chunks()
    return pa.array(map(_json, column.to_pylist()))
