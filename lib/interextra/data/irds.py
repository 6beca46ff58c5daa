"""Collections of ir_datasets, stored converted.

ir_datasets downloads (a licence may ask for consent), verifies and reads them.
"""

import difflib
import importlib.metadata
import os
from collections.abc import Iterator, Set
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from interextra.data import catalogue, converted
from interextra.data.beir import FIRST_SPLITS, query_row
from interextra.data.collection import Collection
from interextra.data.trec import QRELS_COLUMNS
from interextra.store.errors import InputError, kind_and_message, offenders

Splits = dict[str, str]  # name -> id
MSMARCO_SPLITS = {
    "train": "msmarco-passage/train",
    "dev": "msmarco-passage/dev/small",
    "dl19": "msmarco-passage/trec-dl-2019/judged",
    "dl20": "msmarco-passage/trec-dl-2020/judged",
}


class Published(NamedTuple):
    """A data set of ir_datasets as one can see it before anything is downloaded.

    `is_here`: its converted copy is on this disk; else `archives` are the files to download, and
    `n_bytes_of_copies` is what they become on disk, an estimate. `terms`: of its use; `folders`:
    of downloads and of converted copies.
    """

    is_here: bool
    archives: list[catalogue.Archive]
    n_bytes_of_copies: int
    terms: str
    folders: tuple[Path, Path]


def open_irds(dataset_id: str, splits: Splits, switches: Set[str], spec: str) -> Collection:
    """Open a data set of ir_datasets.

    Its first opening downloads what is missing and converts it. A published data set does not
    change: after changing its files (IR_DATASETS_HOME) by hand, delete the copy.

    Parameters
    ----------
    splits
        Without any, `msmarco-passage` comes with the splits train, dev (= dev/small),
        dl19 and dl20 (judged queries). Any other id with qrels is one split, named by its part
        below the documents' id (`dev/small` -> `dev-small`; `test` where the id holds documents and
        qrels); one without takes its parts train, dev, test.
    switches
        Options of the spec, see `converted.convert`.
    """
    folder = _folder(dataset_id, splits, switches)
    read = partial(_read, dataset_id, splits)
    try:
        return converted.stored(folder, dataset_id, spec, read, switches)
    except InputError:
        raise
    except Exception as error:  # ir_datasets raises whatever its download library or parser does
        raise InputError(
            f"irds:{dataset_id}: ir_datasets could not deliver it "
            f"({kind_and_message(error)}); connect to the network once (`interextra fetch`), "
            f"or copy its downloaded files into {_home()} (IR_DATASETS_HOME)"
        ) from error


def peek_irds(dataset_id: str, splits: Splits, switches: Set[str]) -> dict[str, Any]:
    """Return the numbers of passages and of queries per split, without a download.

    They are the catalogue's counts, None where it has none. There are no numbers where a copy is
    here.
    """
    if _folder(dataset_id, splits, switches).is_dir():
        return {}
    parts = splits or _splits_of(dataset_id)
    return _catalogued(dataset_id, tuple(parts.items()))


def published_irds(dataset_id: str, splits: Splits, switches: Set[str]) -> Published:
    """Return what a data set would cost and ask of its user, without a download."""
    folder = _folder(dataset_id, splits, switches)
    parts = splits or _splits_of(dataset_id)
    dataset_ids = [dataset_id, *parts.values()]
    archives = []
    n_bytes = 0
    is_here = folder.is_dir()
    if not is_here:
        archives = catalogue.missing_archives(dataset_ids)
        n_bytes = catalogue.bytes_of_copies(archives, _count(dataset_id, "docs"))
    terms = catalogue.terms(dataset_ids)
    return Published(is_here, archives, n_bytes, terms, (_home(), folder.parent))


@cache
def _catalogued(dataset_id: str, parts: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """Return the catalogue's counts: of passages, and by split of judged queries and of qrels."""
    import ir_datasets

    queries = {}
    qrels = {}
    for split, part_id in parts:
        with_qrels = f"{part_id}/judged"
        if with_qrels not in ir_datasets.registry:
            with_qrels = part_id
        queries[split] = _count(with_qrels, "queries")
        qrels[split] = _count(part_id, "qrels")
    return {"passages": _count(dataset_id, "docs"), "queries": queries, "qrels": qrels}


def _count(dataset_id: str, what: str) -> int | None:
    """Return the catalogue's count of docs or queries."""
    return _load(dataset_id).metadata().get(what, {}).get("count")


def _folder(dataset_id: str, splits: Splits, switches: Set[str]) -> Path:
    """Return the folder of the converted copy."""
    return converted.folder_of(
        dataset_id,
        f"{__name__}:_read",
        dataset_id,
        list(splits.items()),
        sorted(switches),
        _version(),
        str(_home()),
    )


@cache
def _version() -> str:
    """Return the version of ir_datasets."""
    return importlib.metadata.version("ir_datasets")


def _home() -> Path:
    """Return the folder in which ir_datasets keeps its downloads."""
    home = os.environ.get("IR_DATASETS_HOME") or Path.home() / ".ir_datasets"
    return Path(home).expanduser().absolute()


def _load(dataset_id: str) -> Any:
    """Return a data set of ir_datasets; refuse an id that it does not know."""
    import ir_datasets

    try:
        return ir_datasets.load(dataset_id)
    except KeyError:
        hint = "`ir_datasets list` shows the ids it knows"
        similar = difflib.get_close_matches(dataset_id, list(ir_datasets.registry), n=3)
        if similar:
            hint = f"did you mean {offenders(similar)}?"
        raise InputError(
            f"irds:{dataset_id}: ir_datasets has no data set of this id; {hint}"
        ) from None


def _splits_of(dataset_id: str) -> Splits:
    """Return the splits of a data set whose specification names none."""
    import ir_datasets

    dataset = _load(dataset_id)
    if not dataset.has_docs():
        raise InputError(
            f"irds:{dataset_id}: this id has no documents; name the data set that holds them"
        )
    if dataset_id == "msmarco-passage":
        return MSMARCO_SPLITS
    if dataset.has_qrels():
        parent_id = ir_datasets.docs_parent_id(dataset_id)
        below_parent = dataset_id.removeprefix(parent_id).strip("/")
        return {below_parent.replace("/", "-") or "test": dataset_id}
    prefix = f"{dataset_id}/"
    below = [part_id for part_id in ir_datasets.registry if part_id.startswith(prefix)]
    with_qrels = [part_id for part_id in below if _load(part_id).has_qrels()]
    splits = {}
    for split in FIRST_SPLITS:
        part_id = prefix + split
        if part_id in with_qrels:
            splits[split] = part_id
    if not splits:
        raise InputError(
            f"irds:{dataset_id}: no qrels, and no part train, dev or test; "
            f"name the splits: irds:{dataset_id},NAME=ID "
            f"(parts with qrels: {offenders(with_qrels) or 'none'})"
        )
    return splits


def _read(dataset_id: str, splits: Splits) -> converted.Parts:
    """Return the parts of a collection; passages are read when they are asked for."""
    splits = splits or _splits_of(dataset_id)
    for part_id in splits.values():
        _refuse_other_part(dataset_id, part_id)
    qrels = {
        split: pd.DataFrame(_load(part_id).qrels_iter())[QRELS_COLUMNS]
        for split, part_id in splits.items()
    }
    sources = {
        "passages": f"{dataset_id} documents",
        "queries": f"{dataset_id} queries",
    }
    for split, part_id in splits.items():
        sources[split] = f"{part_id} qrels"

    def place_of(part: str, row: int) -> str:
        """Return the place of a row, for errors."""
        return f"{sources[part]} of ir_datasets, row {row + 1}"

    queries = _read_queries(dataset_id, splits)
    return converted.Parts(_read_passages(dataset_id), queries, qrels, place_of)


def _refuse_other_part(dataset_id: str, part_id: str) -> None:
    """Refuse a split without qrels or queries, or of other documents."""
    part = _load(part_id)
    if not (part.has_qrels() and part.has_queries()):
        raise InputError(
            f"irds:{dataset_id}: the split's id {part_id!r} has no qrels or no queries; "
            "name one with"
        )
    if part.docs_handler() != _load(dataset_id).docs_handler():
        raise InputError(
            f"irds:{dataset_id}: {part_id!r} has other documents; "
            "a collection has one set of documents"
        )


def _read_queries(dataset_id: str, splits: Splits) -> pd.DataFrame:
    """Return the queries of all splits, each once, with the catalogue's further fields."""
    rows: dict[str, dict[str, Any]] = {}
    for part_id in splits.values():
        for query in _load(part_id).queries_iter():
            row = _query_row(query)
            query_id = row["query_id"]
            first_row = rows.setdefault(query_id, row)
            if first_row["text"] != row["text"]:
                raise InputError(
                    f"irds:{dataset_id}: query_id {query_id!r} has two texts; "
                    "open the splits one by one"
                )
    return pd.DataFrame(list(rows.values()), dtype=object)


def _query_row(query: Any) -> dict[str, Any]:
    """Return a query of ir_datasets, a named tuple, as a row of a table."""
    fields = query._asdict()
    query_id = fields.pop("query_id")
    text = fields.pop("text", None)
    if text is None:
        text = query.default_text()
    metadata = fields.pop("metadata", None) or {}
    return query_row(query_id, text, metadata | fields)


def _read_passages(dataset_id: str) -> Iterator[tuple[str, str]]:
    """Yield (doc_id, text).

    The text is `title + " " + text` where both exist (BEIR), else what ir_datasets calls the
    default text.
    """
    for doc in _load(dataset_id).docs_iter():
        title = getattr(doc, "title", None) or ""
        text = getattr(doc, "text", None)
        if not isinstance(text, str) or not isinstance(title, str):
            text = doc.default_text() or ""
        elif title:
            text = f"{title} {text}"
        yield doc.doc_id, text
