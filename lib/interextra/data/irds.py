"""Collections of ir_datasets, which downloads (a licence may ask for consent), verifies and reads;
stored converted.
"""

import difflib
import importlib.metadata
import os
from collections.abc import Iterator, Set
from functools import partial
from pathlib import Path

import pandas as pd

from interextra.data import converted
from interextra.data.beir import FIRST_SPLITS, query_row
from interextra.data.collection import Collection
from interextra.data.trec import QRELS_COLUMNS
from interextra.store.errors import InputError, offenders

MSMARCO_SPLITS = {
    "train": "msmarco-passage/train",
    "dev": "msmarco-passage/dev/small",
    "dl19": "msmarco-passage/trec-dl-2019/judged",
    "dl20": "msmarco-passage/trec-dl-2020/judged",
}


def open_irds(dataset_id: str, splits: dict[str, str], switches: Set[str], spec: str) -> Collection:
    """Open a data set of ir_datasets; its first opening downloads what is missing and converts it.

    `msmarco-passage` comes with the splits train, dev (= dev/small), dl19 and dl20 (judged
    queries). Any other id with qrels is one split, named by its part below the documents' id
    (`dev/small` -> `dev-small`; `test` where the id holds documents and qrels); one without takes
    its parts train, dev, test. Splits that are given, name -> id, go before. A published data set
    does not change: after changing its files (IR_DATASETS_HOME) by hand, delete the copy.
    """
    folder, read = _folder(dataset_id, splits, switches), partial(_read, dataset_id, splits)
    try:
        return converted.stored(folder, dataset_id, spec, read, switches)
    except InputError:
        raise
    except Exception as error:  # ir_datasets raises whatever its download library or parser does
        told = f"ir_datasets could not deliver it ({type(error).__name__}: {str(error)[:200]})"
        mend = f"connect to the network once, or copy its downloaded files into {_home()} (IR_DATASETS_HOME)"
        raise InputError(f"irds:{dataset_id}: {told}; {mend}") from error


def peek_irds(dataset_id: str, splits: dict[str, str], switches: Set[str]) -> dict | None:
    """Passages and queries per split by the catalogue's counts (None where it has none); None where
    a copy is here.
    """
    if _folder(dataset_id, splits, switches).is_dir():
        return None
    import ir_datasets

    queries = {}
    for name, id in (splits or _splits_of(dataset_id)).items():
        judged = (
            f"{id}/judged" if f"{id}/judged" in ir_datasets.registry else id
        )  # those with qrels
        queries[name] = _load(judged).metadata().get("queries", {}).get("count")
    return {
        "passages": _load(dataset_id).metadata().get("docs", {}).get("count"),
        "queries": queries,
    }


def _folder(dataset_id: str, splits: dict[str, str], switches: Set[str]) -> Path:
    depends = [
        list(splits.items()),
        sorted(switches),
        importlib.metadata.version("ir_datasets"),
        str(_home()),
    ]
    return converted.folder_of(dataset_id, f"{__name__}:_read", dataset_id, *depends)


def _home() -> Path:
    return (
        Path(os.environ.get("IR_DATASETS_HOME") or Path.home() / ".ir_datasets")
        .expanduser()
        .absolute()
    )


def _load(dataset_id: str):
    import ir_datasets

    try:
        return ir_datasets.load(dataset_id)
    except KeyError:
        close = difflib.get_close_matches(dataset_id, list(ir_datasets.registry), n=3)
        hint = (
            f"did you mean {offenders(close)}?"
            if close
            else "`ir_datasets list` shows the ids it knows"
        )
        raise InputError(
            f"irds:{dataset_id}: ir_datasets has no data set of this id; {hint}"
        ) from None


def _splits_of(dataset_id: str) -> dict[str, str]:
    """The splits of a data set whose specification names none."""
    import ir_datasets

    dataset = _load(dataset_id)
    if not dataset.has_docs():
        raise InputError(
            f"irds:{dataset_id}: this id has no documents; name the data set that holds them"
        )
    if dataset_id == "msmarco-passage":
        return MSMARCO_SPLITS
    if dataset.has_qrels():
        base = ir_datasets.docs_parent_id(dataset_id)
        return {dataset_id.removeprefix(base).strip("/").replace("/", "-") or "test": dataset_id}
    parts = [
        part
        for part in ir_datasets.registry
        if part.startswith(f"{dataset_id}/") and _load(part).has_qrels()
    ]
    if found := {
        split: f"{dataset_id}/{split}" for split in FIRST_SPLITS if f"{dataset_id}/{split}" in parts
    }:
        return found
    told = f"no qrels, and no part train, dev or test; name the splits: irds:{dataset_id},NAME=ID"
    raise InputError(f"irds:{dataset_id}: {told} (parts with qrels: {offenders(parts) or 'none'})")


def _read(dataset_id: str, splits: dict[str, str]) -> converted.Parts:
    splits = splits or _splits_of(dataset_id)
    for part in splits.values():
        if not (_load(part).has_qrels() and _load(part).has_queries()):
            raise InputError(
                f"irds:{dataset_id}: the split's id {part!r} has no qrels or no queries; name one with"
            )
        if _load(part).docs_handler() != _load(dataset_id).docs_handler():
            raise InputError(
                f"irds:{dataset_id}: {part!r} has other documents; a collection has one set of documents"
            )
    qrels = {
        split: pd.DataFrame(_load(part).qrels_iter())[QRELS_COLUMNS]
        for split, part in splits.items()
    }
    asked = {}  # each once, with the catalogue's further fields
    for query in (query for part in splits.values() for query in _load(part).queries_iter()):
        fields = query._asdict()
        query_id, text = fields.pop("query_id"), fields.pop("text", None)
        text = query.default_text() if text is None else text
        row = query_row(query_id, text, {**(fields.pop("metadata", None) or {}), **fields})
        if asked.setdefault(query_id, row)["text"] != text:
            raise InputError(
                f"irds:{dataset_id}: query_id {query_id!r} has two texts; open the splits one by one"
            )
    queries = pd.DataFrame(list(asked.values()), dtype=object)
    names = {"passages": f"{dataset_id} documents", "queries": f"{dataset_id} queries"}
    names |= {split: f"{part} qrels" for split, part in splits.items()}
    passages = _passages(_load(dataset_id))
    return converted.Parts(
        passages, queries, qrels, lambda part, row: f"{names[part]} of ir_datasets, row {row + 1}"
    )


def _passages(dataset) -> Iterator[tuple[str, str]]:
    """(doc_id, text): `title + " " + text` where both exist (BEIR), else what ir_datasets calls the
    default text.
    """
    for doc in dataset.docs_iter():
        title, text = getattr(doc, "title", None) or "", getattr(doc, "text", None)
        if isinstance(text, str) and isinstance(title, str):
            yield doc.doc_id, f"{title} {text}" if title else text
        else:
            yield doc.doc_id, doc.default_text() or ""
