"""Collections in the BEIR layout: corpus.jsonl, queries.jsonl, qrels/*.tsv, each plain or
gzipped.
"""

import os
from collections.abc import Iterator, Set
from functools import partial
from pathlib import Path

import pandas as pd

from interextra.data import converted
from interextra.data.collection import Collection
from interextra.data.medquad import entity_units
from interextra.data.trec import line_of, line_of_qrels, numbered_lines, read_qrels
from interextra.store.errors import InputError, offenders
from interextra.store.files import parse_json

FIRST_SPLITS = ("train", "dev", "test")


def open_beir(folder: str | Path, spec: str, switches: Set[str], keep: int = 0) -> Collection:
    """Open a folder in the BEIR layout; its first opening converts it, and so does any change of
    its files' times.

    A passage's text is `title + " " + text` where a title is there, as in BEIR and MS MARCO. Keys
    of a query's `metadata` become columns of `queries()`. Each file of `qrels/` is a split: train,
    dev, test first, others by name. `keep` cuts the collection down to whole entities
    (`medquad.entity_units`), drawn at random, see `open_collection`. An InputError names a missing
    file, a line that is not the JSON expected, and what `converted.convert` refuses.
    """
    folder = os.path.expanduser(folder)
    if not os.path.isdir(
        folder
    ):  # also for a name that no folder can have, and a user who is unknown
        raise InputError(
            f"beir:{folder}: no such folder; give one that holds corpus.jsonl, queries.jsonl and qrels/"
        )
    folder = Path(folder).resolve()
    sources = {
        "passages": _file(folder / "corpus.jsonl"),
        "queries": _file(folder / "queries.jsonl"),
    }
    splits = {
        path.name.split(".tsv")[0]
        for path in (*folder.glob("qrels/*.tsv"), *folder.glob("qrels/*.tsv.gz"))
    }
    if not splits:
        raise InputError(
            f"{folder / 'qrels'}: no *.tsv files; write one file of qrels for each split, e.g. test.tsv"
        )
    if taken := splits & sources.keys():
        raise InputError(
            f"{folder / 'qrels'}: a split named {offenders(sorted(taken))}; rename its file"
        )
    ordered = [split for split in FIRST_SPLITS if split in splits] + sorted(
        splits - {*FIRST_SPLITS}
    )
    sources |= {split: _file(folder / "qrels" / f"{split}.tsv") for split in ordered}
    names = list(map(str, sources.values()))
    if bad := [name for name in names if name.encode(errors="replace").decode() != name]:
        raise InputError(f"{folder}: the name of a file is not UTF-8: {offenders(bad)}; rename it")
    stamps = [
        [str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in sources.values()
    ]
    target = converted.folder_of(folder.name, f"{__name__}:_read", stamps, sorted(switches), keep)
    return converted.stored(target, folder.name, spec, partial(_read, sources, keep), switches)


def _file(path: Path) -> Path:
    there = [each for each in (path, path.with_name(f"{path.name}.gz")) if each.is_file()]
    if len(there) != 1:
        what = (
            f"both {path.name} and {path.name}.gz; keep one"
            if there
            else "no such file, plain or .gz"
        )
        raise InputError(
            f"{path}: {what}; the BEIR layout is corpus.jsonl, queries.jsonl, qrels/*.tsv"
        )
    return there[0]


def _read(sources: dict[str, Path], keep: int) -> converted.Parts:
    asked = []
    for number, row in _objects(sources["queries"]):
        metadata = row.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise InputError(
                f"{sources['queries']}:{number}: metadata is {str(metadata)[:40]}; it must be an object"
            )
        asked.append(query_row(row["_id"], row["text"], metadata))
    queries = pd.DataFrame(asked, dtype=object)
    qrels = {
        part: read_qrels(path)
        for part, path in sources.items()
        if part not in ("passages", "queries")
    }
    rows = (row for _, row in _objects(sources["passages"]))
    passages = (
        (row["_id"], f"{row['title']} {row['text']}" if row.get("title") else row["text"])
        for row in rows
    )
    if keep:
        units, first = entity_units(queries), next(iter(qrels))
        sizes = qrels[first]["query_id"].drop_duplicates().map(units).value_counts(sort=False)
        sizes = sizes.sample(frac=1, random_state=0)
        kept = sizes.index[sizes.cumsum() - sizes < keep]
        qrels = {
            name: judged[judged["query_id"].map(units).isin(kept)] for name, judged in qrels.items()
        }
        qrels = {
            name: judged.reset_index(drop=True) for name, judged in qrels.items() if len(judged)
        }
        wanted = {doc_id for judged in qrels.values() for doc_id in judged["doc_id"]}
        passages = (passage for passage in passages if passage[0] in wanted)
    return converted.Parts(passages, queries, qrels, partial(_place, sources))


def _place(sources: dict[str, Path], part: str, row: int) -> str:
    """`file:line` of a row of a part."""
    return (line_of if part in ("passages", "queries") else line_of_qrels)(sources[part], row)


def _objects(path: Path) -> Iterator[tuple[int, dict]]:
    """(line number, object) for each line; an InputError where `_id` or `text` is not a string."""
    for number, line in numbered_lines(path):
        row = parse_json(line, f"{path}:{number}")
        row = row if isinstance(row, dict) else {}
        for name in ("_id", "text", "title"):
            if not isinstance(row.get(name), str) and not (
                name == "title" and row.get(name) is None
            ):
                shown = f"{name!r} is {str(row[name])[:40]}" if name in row else f"no {name!r}"
                raise InputError(
                    f"{path}:{number}: {shown}; _id and text (and title) must be strings"
                )
        yield number, row


def query_row(query_id: str, text: str, attributes: dict) -> dict:
    """A row of a table of queries; an attribute of the name of a column is renamed."""
    renamed = {
        f"metadata_{key}" if key in ("query_id", "text") else key: value
        for key, value in attributes.items()
    }
    return {"query_id": query_id, "text": text} | renamed
