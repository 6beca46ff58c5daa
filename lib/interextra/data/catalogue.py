"""What ir_datasets would download for a data set, and on which terms: by its own catalogue."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

CHANGES_NO_RESULT = True  # a collection is named by its content, see `store.code`
LINK = re.compile(r"""<a\b[^>]*\bhref=["'](https?://[^"']+)["'][^>]*>(.*?)</a>""", re.DOTALL)
# Bytes on disk of what is unpacked and of what is converted, each: of NFCorpus, SciFact, MedQuAD
# and a part of MS MARCO they were 2.4 to 5.3 a byte of the archive, and 350 to 1,500 a passage.
PER_ARCHIVE_BYTE = 4
PER_PASSAGE = 1500


class Archive(NamedTuple):
    """A file to download.

    `address`: its URL, or how to get one that is only handed out; `n_bytes`: None where the
    catalogue has no size.
    """

    address: str
    n_bytes: int | None
    by_hand: bool


def missing_archives(dataset_ids: Iterable[str]) -> list[Archive]:
    """Return the files that documents, queries and qrels of data sets are read from, each once.

    Those that ir_datasets has, or has unpacked, are left out.
    """
    found = {}
    for download in _downloads(_handlers(dataset_ids), set(), skip_unpacked=True):
        kept_at = download._cache_path
        if kept_at is None or not Path(kept_at).exists():
            archive = _archive(download)
            found[archive.address] = archive
    return list(found.values())


def terms(dataset_ids: Sequence[str]) -> str:
    """Return what a user must agree to, as ir_datasets words it, or where that can be read."""
    import ir_datasets

    for download in _downloads(_handlers(dataset_ids), set(), skip_unpacked=False):
        if download.dua:
            return download.dua
    links: dict[str, str] = {}
    parents = [ir_datasets.docs_parent_id(dataset_id) for dataset_id in dataset_ids]
    for dataset_id in dict.fromkeys([*dataset_ids, *parents]):
        dataset = ir_datasets.load(dataset_id)
        documentation = dataset.documentation() if hasattr(dataset, "documentation") else {}
        description = documentation.get("desc", "")
        stated = documentation.get("data_access") or _licence_in(description)
        if stated:
            return _plain(stated)
        for url, text in LINK.findall(description):
            links.setdefault(text.lower(), url)
    page = f"https://ir-datasets.com/{dataset_ids[0].partition('/')[0]}.html"
    return f"licence not stated here: read {_website(links) or page}"


def bytes_of_copies(archives: Iterable[Archive], n_passages: int | None) -> int:
    """Estimate the bytes of what is unpacked of archives, and of the converted copy, at most."""
    n_archive_bytes = sum(archive.n_bytes or 0 for archive in archives)
    estimates = []
    if n_archive_bytes:
        estimates.append(PER_ARCHIVE_BYTE * n_archive_bytes)
    if n_passages:
        estimates.append(PER_PASSAGE * n_passages)  # an archive may hold other data sets, too
    return 2 * min(estimates, default=0)


def _handlers(dataset_ids: Iterable[str]) -> list[Any]:
    """Return what reads the documents, queries and qrels of data sets, as far as they have them."""
    import ir_datasets

    handlers = []
    for dataset_id in dataset_ids:
        dataset = ir_datasets.load(dataset_id)
        if dataset.has_docs():
            handlers.append(dataset.docs_handler())
        if dataset.has_queries():
            handlers.append(dataset.queries_handler())
        if dataset.has_qrels():
            handlers.append(dataset.qrels_handler())
    return handlers


def _downloads(part: Any, seen: set[int], skip_unpacked: bool) -> Iterator[Any]:
    """Yield the downloads that an object of ir_datasets reads, at any depth.

    With `skip_unpacked` those are left out of which it reads an unpacked copy that is here.
    """
    from ir_datasets.util import Cache, Download

    if id(part) in seen:
        return
    seen.add(id(part))
    if isinstance(part, Download):
        yield part
        return
    if skip_unpacked and isinstance(part, Cache) and part.path(force=False).exists():
        return
    for inner in _inside(part):
        yield from _downloads(inner, seen, skip_unpacked)


def _inside(part: Any) -> Iterable[Any]:
    """Return what a collection, or an object of ir_datasets, holds."""
    if isinstance(part, Mapping):
        return part.values()
    if isinstance(part, list | tuple):
        return part
    if type(part).__module__.startswith("ir_datasets"):
        return getattr(part, "__dict__", {}).values()
    return ()


def _archive(download: Any) -> Archive:
    """Return what is known of the file of a download."""
    urls = [mirror.url for mirror in download.mirrors if hasattr(mirror, "url")]
    if urls:
        return Archive(urls[0], download._size_hint, by_hand=False)
    instructions = _plain(download.mirrors[0]._message or "")
    return Archive(instructions, download._size_hint, by_hand=True)


def _licence_in(description: str) -> str:
    """Return the sentences of a description that speak of a licence; empty where none does."""
    sentences = re.split(r"(?<=\.)\s+", _plain(description))
    return " ".join(text for text in sentences if re.search(r"licen[cs]e", text, re.IGNORECASE))


def _website(links: Mapping[str, str]) -> str:
    """Return the address that a description calls a website, else its first one; "" without any."""
    for text, url in links.items():
        if "website" in text:
            return url
    return next(iter(links.values()), "")


def _plain(html: str) -> str:
    """Return a text on one line without tags, with the addresses of its links."""
    with_addresses = LINK.sub(r"\2 <\1>", html)
    return " ".join(re.sub(r"<(?!https?://)[^>]+>", " ", with_addresses).split())
