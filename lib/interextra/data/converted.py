"""Converted collections on disk: checked once, written aside, renamed, opened again without reading the source."""

import hashlib
import json
import os
import shutil
import uuid
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from interextra.data.collection import Collection, ContentHash, Passages, write_passages
from interextra.data.trec import Origin
from interextra.ground.errors import InputError, offenders

FORMAT = 1  # goes into every key: a change of the stored form never meets an old folder


def cache_folder(cache_dir: str | Path | None = None) -> Path:
    """The folder of converted collections: the one given, else INTEREXTRA_CACHE, else ~/.cache/interextra."""
    return (
        Path(cache_dir or os.environ.get("INTEREXTRA_CACHE") or Path.home() / ".cache" / "interextra") / "collections"
    )


def content_key(*parts: object) -> str:
    """Short key of what a conversion depends on."""
    return hashlib.sha256(json.dumps([FORMAT, *parts], sort_keys=True, default=str).encode()).hexdigest()[:20]


def open_stored(folder: Path, name: str, spec: str) -> Collection | None:
    """The collection stored in `folder`, or None when there is none.

    Raises InputError when files there are missing or cut short.
    """
    if not (folder / "meta.json").is_file():
        return None
    meta = json.loads((folder / "meta.json").read_text())
    for file, size in meta["files"].items():
        if not (folder / file).is_file() or (folder / file).stat().st_size != size:
            raise InputError(f"{folder / file} is damaged; delete the folder {folder} and open {spec!r} again")
    return Collection(
        name,
        spec,
        Passages(folder / "passages.arrow"),
        partial(_read_queries, folder / "queries.parquet"),
        {split: partial(pd.read_parquet, folder / f"qrels-{i}.parquet") for i, split in enumerate(meta["splits"])},
        meta["fingerprint"],
        meta["dropped"],
    )


def build(
    folder: Path,
    passages: Iterable,
    queries: pd.DataFrame,
    qrels: Mapping[str, pd.DataFrame],
    origins: Mapping[str, Origin] | None = None,
    dangling: str = "error",
    empty: str = "error",
) -> None:
    """Check a collection and store it in `folder`, in one step: another process sees all of it or nothing.

    Parameters
    ----------
    passages : (doc_id, text) pairs or pairs of Arrow arrays, as `write_passages` takes them.
    queries : DataFrame with query_id, text, attributes.
    qrels : split -> DataFrame with query_id, doc_id, relevance.
    origins : "passages", "queries" and each split -> where its rows came from, for errors.
    dangling : "error" or "drop" qrels that name an unknown query or passage (subsets of MS MARCO need "drop").
    empty : "error" or "keep" passages and queries without text.

    Raises
    ------
    InputError
        Empty corpus, queries or split; an id twice; empty text; dangling qrels. Each with file, line, first three.
    """
    origins = origins or {}
    at = {part: origins.get(part, Origin(part)) for part in ("passages", "queries", *qrels)}
    _check_queries(queries, at["queries"], empty)
    if not qrels:
        raise InputError(f"{at['queries'].name}: no qrels beside the queries; a collection needs at least one split")
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = folder.with_name(f"{folder.name}.tmp{os.getpid()}-{uuid.uuid4().hex[:8]}")
    aside.mkdir()
    try:
        digests = [write_passages(aside / "passages.arrow", passages, at["passages"].at, empty)]
        stored, dropped = Passages(aside / "passages.arrow"), {}
        table = _queries_table(queries)
        pq.write_table(table, aside / "queries.parquet")
        attributes = sorted(table.column_names)
        digests += [*attributes, _digest([_as_text(table.column(name)) for name in attributes])]
        for i, (split, frame) in enumerate(qrels.items()):
            kept = _without_dangling(split, frame, at[split], queries, stored, dangling)
            if len(kept) < len(frame):
                dropped[split] = len(frame) - len(kept)
            kept.to_parquet(aside / f"qrels-{i}.parquet", index=False)
            digests += [split, _digest([pa.array(kept[name]) for name in ("query_id", "doc_id", "relevance")])]
        meta = {
            "splits": list(qrels),
            "fingerprint": hashlib.sha256(json.dumps(digests).encode()).hexdigest(),
            "dropped": dropped,
            "files": {file.name: file.stat().st_size for file in sorted(aside.iterdir())},
        }
        (aside / "meta.json").write_text(json.dumps(meta, indent=1))
        try:
            os.replace(aside, folder)
        except OSError:  # another process was first; its folder has the same key, so the same content
            if not (folder / "meta.json").is_file():
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _check_queries(queries: pd.DataFrame, origin: Origin, empty: str) -> None:
    if queries.empty:
        raise InputError(f"{origin.name}: no queries; check the file")
    again = queries["query_id"].duplicated().to_numpy()
    if again.any():
        raise InputError(
            f"{origin.at(int(np.flatnonzero(again)[0]))}: {int(again.sum())} queries repeat a query_id: "
            f"{offenders(queries['query_id'][again].unique())}; give each query its own id"
        )
    blank = (queries["text"].str.strip() == "").to_numpy()
    if blank.any() and empty == "error":
        raise InputError(
            f"{origin.at(int(np.flatnonzero(blank)[0]))}: {int(blank.sum())} queries without text: query_id "
            f"{offenders(queries['query_id'][blank])}; remove them or open the collection with empty=keep"
        )


def _without_dangling(
    split: str, frame: pd.DataFrame, origin: Origin, queries: pd.DataFrame, passages: Passages, dangling: str
) -> pd.DataFrame:
    if frame.empty:
        raise InputError(f"{origin.name}: split {split!r} has no qrels; remove it or fill it")
    kept = np.ones(len(frame), bool)
    for column, what, present in (
        ("query_id", "query", frame["query_id"].isin(queries["query_id"]).to_numpy()),
        ("doc_id", "passage", passages.rows(frame["doc_id"].unique())[pd.factorize(frame["doc_id"])[0]] >= 0),
    ):
        lost = ~present
        if lost.any() and dangling == "error":
            raise InputError(
                f"{origin.at(int(np.flatnonzero(lost)[0]))}: {int(lost.sum())} qrels of split {split!r} name a {what} "
                f"that is not there: {column} {offenders(frame[column][lost].unique())}; complete the {what} file or "
                "open the collection with dangling=drop"
            )
        kept &= present
    if not kept.any():
        raise InputError(f"{origin.name}: no qrels of split {split!r} name a query and a passage that are there")
    if not kept.all():
        gone = int((~kept).sum())
        lost = frame["query_id"].nunique() - frame["query_id"][kept].nunique()
        warnings.warn(
            f"{origin.name}: {gone} of {len(frame)} qrels of split {split!r} dropped, {lost} queries with them",
            stacklevel=2,
        )
    return frame[kept].reset_index(drop=True)


def _queries_table(queries: pd.DataFrame) -> pa.Table:
    """Arrow form of the queries; an attribute of mixed types is stored as JSON text."""
    columns = {}
    for name in queries.columns:
        values = [None if _is_missing(value) else value for value in queries[name]]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            columns[name] = pa.array([json.dumps(value, ensure_ascii=False, sort_keys=True) for value in values])
    return pa.table(columns)


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and value != value) or value is pd.NA


def _read_queries(path: Path) -> pd.DataFrame:
    """Queries as a frame; list attributes as Python lists."""
    table = pq.read_table(path)
    frame = table.to_pandas()
    for field in table.schema:
        if pa.types.is_nested(field.type):
            frame[field.name] = pd.Series(table.column(field.name).to_pylist(), dtype=object)
    return frame


def _as_text(column: pa.ChunkedArray) -> pa.Array:
    """One string a value: the text itself, JSON for anything else, so that the hash needs no type."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return pc.fill_null(column.combine_chunks(), "\0")
    return pa.array([json.dumps(value, ensure_ascii=False, sort_keys=True) for value in column.to_pylist()])


def _digest(columns: list) -> str:
    content = ContentHash(len(columns))
    content.update(*(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns))
    return content.hexdigest()
