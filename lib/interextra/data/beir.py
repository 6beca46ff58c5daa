"""Collections in the BEIR layout: corpus.jsonl, queries.jsonl, qrels/*.tsv, plain or gzipped."""

import os
from collections.abc import Iterator, Set
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from interextra.data import converted
from interextra.data.collection import Collection
from interextra.data.medquad import entity_units
from interextra.data.texts import is_utf8
from interextra.data.trec import line_of, line_of_qrels, numbered_lines, read_qrels
from interextra.store.errors import InputError, offenders
from interextra.store.files import parse_json

Record = dict[str, Any]  # a line of a file
FIRST_SPLITS = ("train", "dev", "test")


class _Files(NamedTuple):
    corpus: Path
    queries: Path
    qrels: dict[str, Path]  # split -> file


def open_beir(
    folder: str | Path, spec: str, switches: Set[str], keep: int = 0, qrels: str = ""
) -> Collection:
    """Open a folder in the BEIR layout.

    Its first opening converts it, and so does any change of its files' times. A passage's text is
    `title + " " + text` where a title is there, as in BEIR and MS MARCO. Keys of a query's
    `metadata` become columns of `queries()`. Each file of `qrels/` is a split: train, dev, test
    first, others by name.

    Parameters
    ----------
    switches
        Options of the spec, see `converted.convert`.
    keep
        Cuts the collection down to whole entities (`medquad.entity_units`), drawn at random, see
        `open_collection`; 0 for all.
    qrels
        Name of other splits: those in `qrels_NAME/`.

    Raises
    ------
    InputError
        A missing file, a line that is not the JSON expected, and what `converted.convert` refuses.
    """
    folder = os.path.expanduser(folder)
    # isdir of os.path: also for a name that no folder can have, and a user who is unknown
    if not os.path.isdir(folder):
        raise InputError(
            f"beir:{folder}: no such folder; "
            "give one that holds corpus.jsonl, queries.jsonl and qrels/"
        )
    folder = Path(folder).resolve()
    files = _files_of(folder, f"qrels_{qrels}" if qrels else "qrels")
    paths = [files.corpus, files.queries, *files.qrels.values()]
    not_utf8 = [name for name in map(str, paths) if not is_utf8(name)]
    if not_utf8:
        raise InputError(
            f"{folder}: the name of a file is not UTF-8: {offenders(not_utf8)}; rename it"
        )
    stamps = [stamp(path) for path in paths]
    reader = f"{__name__}:_read"
    target = converted.folder_of(folder.name, reader, stamps, sorted(switches), keep)
    read = partial(_read, files, keep)
    return converted.stored(target, folder.name, spec, read, switches)


def stamp(path: Path) -> list[str | int]:
    """Return what changes when a file is written again: name, size, time."""
    status = path.stat()
    return [str(path), status.st_size, status.st_mtime_ns]


def _files_of(folder: Path, name_of_qrels: str) -> _Files:
    """Return the files of a folder; refuse one that lacks some."""
    corpus = _plain_or_gzipped(folder / "corpus.jsonl")
    queries = _plain_or_gzipped(folder / "queries.jsonl")
    qrels_folder = folder / name_of_qrels
    qrels_files = [*qrels_folder.glob("*.tsv"), *qrels_folder.glob("*.tsv.gz")]
    splits = {path.name.split(".tsv")[0] for path in qrels_files}
    if not splits:
        raise InputError(
            f"{qrels_folder}: no *.tsv files; write one file of qrels for each split, e.g. test.tsv"
        )
    reserved = sorted(splits & {"passages", "queries"})
    if reserved:
        raise InputError(f"{qrels_folder}: a split named {offenders(reserved)}; rename its file")
    first = [split for split in FIRST_SPLITS if split in splits]
    others = sorted(splits.difference(FIRST_SPLITS))
    qrels = {}
    for split in [*first, *others]:
        qrels[split] = _plain_or_gzipped(qrels_folder / f"{split}.tsv")
    return _Files(corpus, queries, qrels)


def _plain_or_gzipped(path: Path) -> Path:
    """Return the file itself or the one with `.gz` behind its name; refuse none and both."""
    gzipped = path.with_name(f"{path.name}.gz")
    if path.is_file() != gzipped.is_file():
        return path if path.is_file() else gzipped
    problem = "no such file, plain or .gz"
    if path.is_file():
        problem = f"both {path.name} and {gzipped.name}; keep one"
    raise InputError(
        f"{path}: {problem}; the BEIR layout is corpus.jsonl, queries.jsonl, qrels/*.tsv"
    )


def _read(files: _Files, keep: int) -> converted.Parts:
    """Return the parts of a collection; passages are read when they are asked for."""
    queries = _read_queries(files.queries)
    qrels = {split: read_qrels(path) for split, path in files.qrels.items()}
    passages = _read_passages(files.corpus)
    if keep:
        qrels = _qrels_of_whole_entities(queries, qrels, keep)
        wanted = set()
        for judged in qrels.values():
            wanted.update(judged["doc_id"])
        passages = (passage for passage in passages if passage[0] in wanted)
    return converted.Parts(passages, queries, qrels, partial(_place, files))


def _place(files: _Files, part: str, row: int) -> str:
    """Return `file:line` of a row of a part."""
    if part == "passages":
        return line_of(files.corpus, row)
    if part == "queries":
        return line_of(files.queries, row)
    return line_of_qrels(files.qrels[part], row)


def _read_queries(path: Path) -> pd.DataFrame:
    """Return query_id, text and a column for each key of the metadata."""
    rows = []
    for place, record in _records(path):
        metadata = record.get("metadata") or {}
        if not isinstance(metadata, dict):
            shown = str(metadata)[:40]
            raise InputError(f"{place}: metadata is {shown}; it must be an object")
        rows.append(query_row(record["_id"], record["text"], metadata))
    return pd.DataFrame(rows, dtype=object)


def _read_passages(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (doc_id, text)."""
    for _, record in _records(path):
        text = record["text"]
        if record.get("title"):
            text = f"{record['title']} {text}"
        yield record["_id"], text


def _qrels_of_whole_entities(
    queries: pd.DataFrame, qrels: dict[str, pd.DataFrame], keep: int
) -> dict[str, pd.DataFrame]:
    """Return what is judged of entities drawn at random until the first split has `keep` queries.

    Splits that have no query of these entities are left out.
    """
    unit_of_query = entity_units(queries)
    first_split = next(iter(qrels.values()))
    units = first_split["query_id"].drop_duplicates().map(unit_of_query)
    n_queries = units.value_counts(sort=False).sample(frac=1, random_state=0)
    n_before = n_queries.cumsum() - n_queries
    kept_units = n_queries.index[n_before < keep]
    kept = {}
    for split, judged in qrels.items():
        is_kept = judged["query_id"].map(unit_of_query).isin(kept_units)
        if is_kept.any():
            kept[split] = judged[is_kept].reset_index(drop=True)
    return kept


def _records(path: Path) -> Iterator[tuple[str, Record]]:
    """Yield (`file:line`, object) for each line."""
    for number, line in numbered_lines(path):
        place = f"{path}:{number}"
        record = parse_json(line, place)
        if not isinstance(record, dict):
            record = {}
        _refuse_other_types(record, place)
        yield place, record


def _refuse_other_types(record: Record, place: str) -> None:
    """Refuse an object whose `_id` or `text` is no string; it may lack a title."""
    for name in ("_id", "text", "title"):
        value = record.get(name)
        is_without_title = name == "title" and value is None
        if not isinstance(value, str) and not is_without_title:
            problem = f"no {name!r}"
            if name in record:
                shown = str(value)[:40]
                problem = f"{name!r} is {shown}"
            raise InputError(f"{place}: {problem}; _id and text (and title) must be strings")


def query_row(query_id: str, text: str, attributes: Record) -> Record:
    """Return a row of a table of queries; an attribute `query_id` or `text` is renamed.

    Examples
    --------
    >>> query_row("q1", "on tea", {"text": "tea", "kind": "claim"})
    {'query_id': 'q1', 'text': 'on tea', 'metadata_text': 'tea', 'kind': 'claim'}
    """
    row = {"query_id": query_id, "text": text}
    for name, value in attributes.items():
        is_taken = name in ("query_id", "text")
        column = f"metadata_{name}" if is_taken else name
        row[column] = value
    return row
