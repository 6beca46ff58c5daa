"""Encode once and search in twenty ways, beside encoding twenty times; and the same neighbours as
the libraries'.

Vectors of the static model of `search.py`. Quantised search beside sentence-transformers'
`semantic_search_faiss`, HNSW beside plain faiss: neighbours shared, seconds to build and to search,
queries a second, bytes a passage. Run: python bench/indexes.py [--small] [--n 100000]
"""

import argparse
import tempfile
import time
from pathlib import Path

import faiss
import numpy as np
from search import DIMENSION, K, open_collection, some_queries, static_model, write_collection
from sentence_transformers.util.quantization import quantize_embeddings, semantic_search_faiss

from interextra.models.architectures.dense import Dense
from interextra.models.recipe import load_recipe
from interextra.models.search.indexes import BLOCK, Index, quantised_search

EFFORTS = (16, 32, 64, 128)
WAYS = [
    ("uint8", 2),
    ("uint8", 0),
    ("ubinary", 2),
    ("ubinary", 4),
    ("ubinary", 0),
]  # precision, rescore_multiplier
FACTORIES = ("SQfp16", "PCA16,Flat", "PQ16x4", "HNSW16,Flat", "HNSW32,Flat", "HNSW32_SQfp16")


def timed(work, *given, **named):
    start = time.perf_counter()
    return work(*given, **named), time.perf_counter() - start


def shared(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Share of the neighbours that both have."""
    return float((ours[:, :, None] == theirs[:, None, :]).any(axis=2).mean())


def line(
    name: str, build: float, search: float, n_queries: int, size: float, share: float, of: str
) -> None:
    speed = n_queries / search
    print(
        f"{name:24}{build:8.2f}{search:8.2f}{speed:10,.0f}{size:10.1f}{share:9.3f}  {of}",
        flush=True,
    )


def library(vectors: np.ndarray, queries: np.ndarray, precision: str) -> np.ndarray:
    codes = quantize_embeddings(vectors, precision)
    options = {
        "corpus_precision": precision,
        "calibration_embeddings": vectors,
        "rescore_multiplier": 2,
    }
    found, *_ = semantic_search_faiss(queries, corpus_embeddings=codes, top_k=K, **options)
    return np.array([[hit["corpus_id"] for hit in hits] for hits in found])


def plain(vectors: np.ndarray, queries: np.ndarray, index: str) -> np.ndarray:
    made = faiss.index_factory(vectors.shape[1], index, faiss.METRIC_INNER_PRODUCT)
    for start in range(
        0, len(vectors), BLOCK
    ):  # as ours: faiss links the vectors of a call by their levels
        made.add(vectors[start : start + BLOCK])
    faiss.ParameterSpace().set_index_parameters(made, f"efSearch={EFFORTS[-1]}")
    return made.search(queries, K)[1]


def main(n: int) -> None:
    faiss.omp_set_num_threads(1)  # as ours
    with tempfile.TemporaryDirectory(prefix="interextra-bench-") as name:
        write_collection(folder := Path(name) / "passages", n)
        collection, model = (
            open_collection(folder),
            Dense(static_model(), load_recipe("mini-dense")),
        )
        vectors, encoding = timed(lambda: np.concatenate([*model.blocks(collection)]))
        queries, seconds, ways = model.encode_queries(some_queries()), 0.0, 0
        print(f"{n:,} passages, {len(queries)} queries, first {K}; encoding {encoding:.2f} s")
        print(
            f"{'index':24}{'build':>8}{'search':>8}{'queries/s':>10}{'bytes':>10}{'shared':>9}  with"
        )
        (exact, _), search = timed(Index(vectors, "Flat").search, queries, K)
        line("Flat", 0.0, search, len(queries), 4 * DIMENSION, 1.0, "exact")
        wrong = []
        for precision, times in WAYS:
            ((rows, _), size), search = timed(
                quantised_search, vectors, queries, K, precision, times
            )
            line(
                f"{precision} {times}",
                0.0,
                search,
                len(queries),
                size / n,
                shared(rows, exact),
                "exact",
            )
            seconds, ways = seconds + search, ways + 1
            if times == 2:
                theirs, both = timed(library, vectors, queries, precision)
                share = shared(rows, theirs)
                line("  semantic_search_faiss", 0.0, both, len(queries), size / n, share, "ours")
                wrong += [precision] * (share < 1)
        for factory in FACTORIES:
            index, build = timed(Index, vectors, factory)
            for effort in EFFORTS if factory.startswith("HNSW") else [0]:
                given = f"efSearch={effort}" * bool(effort)
                (rows, _), search = timed(index.search, queries, K, given)
                line(
                    f"{factory} {effort or ''}",
                    build,
                    search,
                    len(queries),
                    index.size / n,
                    shared(rows, exact),
                    "exact",
                )
                seconds, ways = seconds + search, ways + 1
            seconds += build
            if factory.startswith("HNSW"):
                theirs, both = timed(plain, vectors, queries, factory)
                share = shared(rows, theirs)
                line("  plain faiss", both, both, len(queries), index.size / n, share, "ours")
                wrong += [factory] * (share < 1)
        print(
            f"{ways} ways: encoded once {encoding + seconds:.1f} s, encoded each time {ways * encoding + seconds:.1f} s"
        )
        if wrong:
            raise SystemExit(f"not the same neighbours: {', '.join(wrong)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=100_000, help="passages")
    parser.add_argument("--small", action="store_true", help="2,000 passages: only whether it runs")
    given = parser.parse_args()
    main(2_000 if given.small else given.n)
