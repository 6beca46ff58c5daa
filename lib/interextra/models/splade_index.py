"""SPLADE on an inverted index: the weights of words as impacts in Lucene, the way of Anserini.

Exact search reads every passage for every query; an inverted index reads only the passages that share a word with it.
The price: passage weights are rounded to hundredths, and the index has to be built.
"""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np

from interextra.models.lucene import hits, java, merge_in_order
from interextra.models.topk import tie_order

SCALE = 100  # Anserini's: an impact is an integer, here hundredths of a weight
# which of several constructors; pyjnius guesses others
_FIELD = "(Ljava/lang/String;Ljava/io/Reader;Lorg/apache/lucene/index/IndexableFieldType;)V"
_SEARCHER = "(Lorg/apache/lucene/index/IndexReader;)V"


def impact_index(passages, encode: Callable, folder: Path, block_size: int) -> None:
    """Write a Lucene index of the passages' rounded weights into an empty folder.

    `encode(texts)` gives a CSR matrix [passages, words] of weights ≥ 0. Passages are added by doc_id descending into
    one segment, so that Lucene's rule for ties is the rule of trec_eval.
    """
    autoclass = java()
    # "word|impact word|impact …" becomes one posting a word with its impact where Lucene keeps a term frequency
    options = autoclass("java.util.HashMap")  # a new, empty one for each part
    analyzer = autoclass("org.apache.lucene.analysis.custom.CustomAnalyzer").builder()
    analyzer.withTokenizer("whitespace", options()).addTokenFilter("delimitedTermFrequency", options())
    kind = autoclass("org.apache.lucene.document.FieldType")()
    kind.setIndexOptions(autoclass("org.apache.lucene.index.IndexOptions").DOCS_AND_FREQS)
    kind.setOmitNorms(True)
    settings = autoclass("org.apache.lucene.index.IndexWriterConfig")(analyzer.build())
    settings.setSimilarity(_similarity())
    settings.setMergePolicy(merge_in_order())
    writer = autoclass("org.apache.lucene.index.IndexWriter")(_directory(folder), settings)
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


def impact_search(passages, folder: Path, queries, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k best passages for each query, a row of a CSR matrix of weights: (rows int32[n, k], scores float32[n, k]).

    A score is off by at most .005 times the sum of the query's weights. A passage that shares no word is not found.
    """
    autoclass = java()
    reader = autoclass("org.apache.lucene.index.DirectoryReader").open(_directory(folder))
    kind = autoclass("org.apache.lucene.search.IndexSearcher")
    kind.setMaxClauseCount(max(1024, queries.shape[1]))  # words a query may have
    searcher = kind(reader, signature=_SEARCHER)
    searcher.setSimilarity(_similarity())
    words = autoclass("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()
    parser = autoclass("org.apache.lucene.queryparser.classic.QueryParser")("words", words)

    def asked():
        for start, end in itertools.pairwise(queries.indptr.tolist()):
            weighted = zip(queries.indices[start:end].tolist(), queries.data[start:end].tolist(), strict=True)
            text = " ".join(f"{word}^{weight:.7f}" for word, weight in weighted)
            yield parser.parse(text) if text else None

    rows, scores = hits(searcher, asked(), queries.shape[0], passages, k)
    reader.close()
    return rows, scores / SCALE


def _similarity():
    return java()("io.anserini.search.similarity.ImpactSimilarity")()


def _directory(folder: Path):
    autoclass = java()
    return autoclass("org.apache.lucene.store.FSDirectory").open(autoclass("java.nio.file.Paths").get(str(folder)))
