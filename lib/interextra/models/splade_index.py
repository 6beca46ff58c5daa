"""SPLADE on an inverted index: the weights of words as impacts in Lucene (pyserini), the way of Anserini.

Exact search reads every passage for every query; an inverted index reads only the passages that share a word with it.
The price: passage weights are rounded to hundredths, and the index has to be built.
"""

import itertools
import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np

from interextra.models.bm25 import _lucene, hits
from interextra.models.topk import tie_order

SCALE = 100  # Anserini's: an impact is an integer, here hundredths of a weight
# which of several constructors; pyjnius guesses others
_FIELD = "(Ljava/lang/String;Ljava/io/Reader;Lorg/apache/lucene/index/IndexableFieldType;)V"
_SEARCHER = "(Lorg/apache/lucene/index/IndexReader;)V"


def impact_index(passages, encode: Callable, folder: str | Path, key: str, block_size: int = 1024) -> Path:
    """The Lucene index of the passages' rounded weights below `folder`, built if there is none for `key`.

    `encode(texts)` gives a CSR matrix [passages, words] of weights ≥ 0. Passages are added by doc_id descending into
    one segment, so that Lucene's rule for ties is the rule of trec_eval (see `bm25.index_folder`).
    """
    index = Path(folder) / sha256(f"impact:1:{SCALE}:{key}".encode()).hexdigest()[:16]
    if index.is_dir():
        return index
    autoclass = _lucene()
    # "word|impact word|impact …" becomes one posting a word with its impact where Lucene keeps a term frequency
    options = autoclass("java.util.HashMap")  # a new, empty one for each part
    analyzer = autoclass("org.apache.lucene.analysis.custom.CustomAnalyzer").builder()
    analyzer.withTokenizer("whitespace", options()).addTokenFilter("delimitedTermFrequency", options())
    analyzer = analyzer.build()
    kind = autoclass("org.apache.lucene.document.FieldType")()
    kind.setIndexOptions(autoclass("org.apache.lucene.index.IndexOptions").DOCS_AND_FREQS)
    kind.setOmitNorms(True)
    settings = autoclass("org.apache.lucene.index.IndexWriterConfig")(analyzer)
    settings.setSimilarity(_similarity(autoclass))
    settings.setMergePolicy(autoclass("org.apache.lucene.index.LogByteSizeMergePolicy")())  # keeps the order
    aside = index.with_name(f"{index.name}.tmp{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    writer = autoclass("org.apache.lucene.index.IndexWriter")(_directory(autoclass, aside), settings)
    document, field = autoclass("org.apache.lucene.document.Document"), autoclass("org.apache.lucene.document.Field")
    reader = autoclass("java.io.StringReader")
    order, _ = tie_order(passages)
    for start in range(0, len(order), block_size):
        weights = encode(passages.texts(order[start : start + block_size]))
        for i in range(weights.shape[0]):
            here = slice(*weights.indptr[i : i + 2])
            impacts = np.rint(weights.data[here] * SCALE).astype(int)
            words = zip(weights.indices[here].tolist(), impacts.tolist(), strict=True)
            text = reader(" ".join(f"{word}|{impact}" for word, impact in words if impact))
            one = document()
            one.add(field("words", text, kind, signature=_FIELD))
            writer.addDocument(one)
    writer.forceMerge(1)
    writer.close()
    try:
        os.rename(aside, index)
    except OSError:  # another process was faster
        shutil.rmtree(aside, ignore_errors=True)
    return index


def impact_search(passages, index: Path, queries, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k best passages for each query, a row of a CSR matrix of weights: (rows int32[n, k], scores float32[n, k]).

    A score is off by at most .005 times the sum of the query's weights. A passage that shares no word is not found.
    """
    autoclass = _lucene()
    reader = autoclass("org.apache.lucene.index.DirectoryReader").open(_directory(autoclass, index))
    kind = autoclass("org.apache.lucene.search.IndexSearcher")
    kind.setMaxClauseCount(max(1024, queries.shape[1]))  # words a query may have
    searcher = kind(reader, signature=_SEARCHER)
    searcher.setSimilarity(_similarity(autoclass))
    words = autoclass("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()
    parser = autoclass("org.apache.lucene.queryparser.classic.QueryParser")("words", words)
    order, _ = tie_order(passages)

    def asked():
        for start, end in itertools.pairwise(queries.indptr.tolist()):
            weighted = zip(queries.indices[start:end].tolist(), queries.data[start:end].tolist(), strict=True)
            text = " ".join(f"{word}^{weight:.7f}" for word, weight in weighted)
            yield parser.parse(text) if text else None

    rows, scores = hits(searcher, asked(), queries.shape[0], order, k)
    reader.close()
    return rows, scores / SCALE


def _similarity(autoclass):
    return autoclass("io.anserini.search.similarity.ImpactSimilarity")()


def _directory(autoclass, folder: Path):
    return autoclass("org.apache.lucene.store.FSDirectory").open(autoclass("java.nio.file.Paths").get(str(folder)))
