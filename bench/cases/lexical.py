"""BM25: an index of passages, and a search in it."""

import os
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from near_duplicates import texts

from .form import SEED, Case, Peer, Sizes, equal_within

K1 = 0.9
B = 0.4
N_QUERIES = 200
K = 100


def passages_of(n: int) -> list[str]:
    """Return passages of 20 to 30 words, of which Lucene stores the length without rounding."""
    return texts(np.random.default_rng(SEED), n, 20, 30)


def queries() -> list[str]:
    """Return queries of three to six words, each once."""
    drawn = texts(np.random.default_rng(SEED + 1), N_QUERIES, 3, 6)
    return [" ".join(dict.fromkeys(text.split())) for text in drawn]


def collection_of(n: int, folder: Path) -> Any:
    """Return the passages as a collection."""
    import pandas as pd

    from interextra.data.collection import Collection, Passages, write_passages

    doc_ids = map(str, range(n))
    rows = zip(doc_ids, passages_of(n), strict=True)
    fingerprint = write_passages(folder / "passages.arrow", rows)
    passages = Passages(folder / "passages.arrow")
    return Collection("bench", "bench", passages, pd.DataFrame(), {}, fingerprint)


def index_ours(n: int, folder: Path) -> Callable[[], int]:
    """Index by the kit, each time in a cache of its own."""
    from interextra.models.search.lucene import bm25_index, java

    collection = collection_of(n, folder)
    java()

    def work() -> int:
        """Return the number of passages."""
        os.environ["INTEREXTRA_CACHE"] = tempfile.mkdtemp(dir=folder)
        bm25_index(collection)
        return n

    return work


def search_ours(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Search by the kit; return the scores."""
    from interextra.models.search.lucene import bm25_search

    collection = collection_of(n, folder)
    os.environ["INTEREXTRA_CACHE"] = str(folder)
    bm25_search(collection, queries()[:1], K, K1, B)  # makes the index

    def work() -> np.ndarray:
        """Return the scores."""
        _, scores = bm25_search(collection, queries(), K, K1, B)
        return np.where(np.isfinite(scores), scores, 0)

    return work


def lucene_of_pyserini() -> tuple[type, type]:
    """Return pyserini's indexer and searcher.

    Java is started as the kit does it. The encoders, which need clients of online services, are
    left out.
    """
    from interextra.models.search.lucene import java

    java()
    encoders = types.ModuleType("pyserini.encode")
    encoders.__getattr__ = lambda name: type(name, (), {})
    sys.modules["pyserini.encode"] = encoders
    from pyserini.index.lucene import LuceneIndexer
    from pyserini.search.lucene import LuceneSearcher

    return LuceneIndexer, LuceneSearcher


def write_pyserini(indexer: type, passages: list[str], folder: str) -> int:
    """Index by pyserini; return the number of passages."""
    writer = indexer(folder, threads=1)
    documents = []
    for row, text in enumerate(passages):
        documents.append({"id": str(row), "contents": text})
    writer.add_batch_dict(documents)
    writer.close()
    return len(passages)


def index_pyserini(n: int, folder: Path) -> Callable[[], int]:
    """Index by pyserini."""
    indexer, _ = lucene_of_pyserini()
    passages = passages_of(n)
    return lambda: write_pyserini(indexer, passages, tempfile.mkdtemp(dir=folder))


def search_pyserini(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Search by pyserini; return the scores."""
    indexer, searcher = lucene_of_pyserini()
    write_pyserini(indexer, passages_of(n), str(folder / "index"))
    query_ids = [str(number) for number in range(N_QUERIES)]

    def work() -> np.ndarray:
        """Return the scores."""
        opened = searcher(str(folder / "index"))
        opened.set_bm25(K1, B)
        hits = opened.batch_search(queries(), query_ids, k=K, threads=1)
        scores = np.zeros((N_QUERIES, K), np.float32)
        for row, query_id in enumerate(query_ids):
            found = [hit.score for hit in hits[query_id]]
            scores[row, : len(found)] = found
        return scores

    return work


def tokens_of(of_texts: list[str]) -> Any:
    """Return the stems of texts, as bm25s takes them."""
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    return bm25s.tokenize(of_texts, stopwords="en", stemmer=stemmer, show_progress=False)


def index_of_bm25s(passages: list[str]) -> Any:
    """Index by bm25s."""
    import bm25s

    index = bm25s.BM25(method="lucene", k1=K1, b=B)
    index.index(tokens_of(passages), show_progress=False)
    return index


def index_bm25s(n: int, folder: Path) -> Callable[[], int]:
    """Index by bm25s, and save."""
    passages = passages_of(n)

    def work() -> int:
        """Return the number of passages."""
        index = index_of_bm25s(passages)
        index.save(tempfile.mkdtemp(dir=folder))
        return int(index.scores["num_docs"])

    return work


def search_bm25s(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Search by bm25s, in an index that is opened; return the scores."""
    import bm25s

    index_of_bm25s(passages_of(n)).save(str(folder))

    def work() -> np.ndarray:
        """Return the scores."""
        index = bm25s.BM25.load(str(folder))
        found = index.retrieve(tokens_of(queries()), k=K, show_progress=False)
        return found.scores

    return work


OF_BM25S = ("bm25s", "Stemmer")
SIZES = Sizes(400, 20_000, 200_000)
# what is imported once, before processes start
IMPORTS = ("interextra.models.search.lucene",)
CASES = [
    Case(
        "BM25, index",
        "passages of 20 to 30 words",
        SIZES,
        index_ours,
        {
            "pyserini": Peer(index_pyserini, ("pyserini",)),
            "bm25s": Peer(index_bm25s, OF_BM25S),
        },
        equal_within(0),
    ),
    Case(
        "BM25, 200 queries",
        "passages of 20 to 30 words",
        SIZES,
        search_ours,
        {
            "pyserini": Peer(search_pyserini, ("pyserini",)),
            "bm25s": Peer(search_bm25s, OF_BM25S),
        },
        equal_within(2e-3),
    ),
]
