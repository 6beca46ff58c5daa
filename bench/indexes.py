"""Encode once and search in twenty ways, beside encoding twenty times and the libraries' search.

The neighbours must be the libraries'. Vectors of the static model of `search.py`. Quantised search
beside sentence-transformers' `semantic_search_faiss`, HNSW beside plain faiss: neighbours shared,
seconds to build and to search, queries a second, bytes a passage.

Then what an index needs: each is built in a process of its own from drawn vectors in a mapped file,
and searched. Seconds of CPU, the peak of memory beside what imports take, and the formula that
plans are priced by. `--full` builds over up to two million vectors. Run: python bench/indexes.py
[--small] [--n 100000] [--full] [--out FILE]
"""

import argparse
import importlib
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np
from passages import with_memory
from search import (
    DIMENSION,
    K,
    apart,
    open_collection,
    some_queries,
    static_model,
    write_collection,
)
from sentence_transformers.util.quantization import quantize_embeddings, semantic_search_faiss

from interextra.models.architectures.dense import Dense
from interextra.models.recipe import load_recipe
from interextra.models.search.indexes import (
    BLOCK,
    PRECISIONS,
    Index,
    quantised_search,
)
from interextra.models.search.sizes import build_seconds, index_bytes, peak_bytes

EFFORTS = (16, 32, 64, 128)  # efSearch of HNSW
QUANTISED = [
    ("uint8", 2),
    ("uint8", 0),
    ("ubinary", 2),
    ("ubinary", 4),
    ("ubinary", 0),
]  # precision, rescore_multiplier
RESCORED = 2  # rescore_multiplier of the library
FACTORIES = ("SQfp16", "PCA16,Flat", "PQ16x4", "HNSW16,Flat", "HNSW32,Flat", "HNSW32_SQfp16")
HEADINGS = f"{'index':24}{'build':>8}{'search':>8}{'queries/s':>10}{'bytes':>10}{'shared':>9}  with"


class Size(NamedTuple):
    """An index over so many drawn vectors."""

    index: str
    n: int
    n_dimensions: int = 384


SMALL = [Size(index, 2_000) for index in ("Flat", "int8", "HNSW32")]
USUAL = [Size(index, n) for index in ("Flat", "int8", "HNSW32") for n in (5_000, 10_000, 20_000)]
FULL = [
    *[Size(index, n) for n in (1_000_000, 2_000_000) for index in ("Flat", "int8")],
    *[Size("HNSW32", n) for n in (31_250, 62_500, 125_000, 250_000, 1_000_000)],
]
MS_MARCO = (8_841_823, 768)  # passages, and the dimensions of BERT-base: by the formula alone
RANK = 32  # dimensions in which drawn vectors differ most, as those of texts do
N_ASKED = 100  # drawn queries
# of a line: width of each column
COLUMNS = {
    "build_seconds": 9,
    "priced_seconds": 9,
    "search_seconds": 9,
    "peak_mib": 10,
    "own_mib": 11,
    "formula_mib": 9,
    "index_mib": 10,
}
NEEDS = (
    f"{'index':9}{'vectors':>11}{'d':>5}{'build s':>9}{'priced':>9}{'search s':>9}"
    f"{'peak MiB':>10}{'of it own':>11}{'formula':>9}{'index':>10}"
)


def timed(work: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Return the result of some work, and its seconds."""
    begin = time.perf_counter()
    result = work(*arguments)
    return result, time.perf_counter() - begin


def shared(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the share of the neighbours that both have."""
    return float((ours[:, :, None] == theirs[:, None, :]).any(axis=2).mean())


def library(vectors: np.ndarray, queries: np.ndarray, precision: str) -> np.ndarray:
    """Return the neighbours that sentence-transformers finds among quantised vectors."""
    rankings, *_ = semantic_search_faiss(
        queries,
        corpus_embeddings=quantize_embeddings(vectors, precision),
        top_k=K,
        corpus_precision=precision,
        calibration_embeddings=vectors,
        rescore_multiplier=RESCORED,
    )
    return np.array([[hit["corpus_id"] for hit in ranking] for ranking in rankings])


def plain(vectors: np.ndarray, queries: np.ndarray, factory: str) -> np.ndarray:
    """Return the neighbours that faiss finds."""
    index = faiss.index_factory(vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
    # as ours: faiss links the vectors of a call by their levels
    for start in range(0, len(vectors), BLOCK):
        index.add(vectors[start : start + BLOCK])
    faiss.ParameterSpace().set_index_parameters(index, f"efSearch={EFFORTS[-1]}")
    return index.search(queries, K)[1]


class Comparison:
    """Searches of the same vectors in many ways, a printed line each."""

    def __init__(self, vectors: np.ndarray, queries: np.ndarray):
        self.vectors = vectors
        self.queries = queries
        self.seconds = 0.0  # of all our ways
        self.n_ways = 0
        self.different: list[str] = []  # ways in which a library finds other neighbours
        (self.exact, _), seconds = timed(Index(vectors, "Flat").search, queries, K)
        self.line("Flat", 0.0, seconds, 4 * DIMENSION, 1.0, "exact")

    def line(
        self, name: str, build: float, search: float, size: float, share: float, other: str
    ) -> None:
        """Print what a way takes, and the neighbours that it shares with another one."""
        speed = len(self.queries) / search
        print(
            f"{name:24}{build:8.2f}{search:8.2f}{speed:10,.0f}{size:10.1f}{share:9.3f}  {other}",
            flush=True,
        )

    def compare_library(
        self, name: str, way: str, build: float, search: float, size: float, share: float
    ) -> None:
        """Print what a library takes; note a way in which it finds other neighbours."""
        self.line(f"  {name}", build, search, size, share, "ours")
        if share < 1:
            self.different.append(way)

    def quantised(self, precision: str, rescored: int) -> None:
        """Search quantised vectors."""
        arguments = (self.vectors, self.queries, K, precision, rescored)
        ((rows, _), n_bytes), seconds = timed(quantised_search, *arguments)
        size = n_bytes / len(self.vectors)
        share = shared(rows, self.exact)
        self.line(f"{precision} {rescored}", 0.0, seconds, size, share, "exact")
        self.seconds += seconds
        self.n_ways += 1
        if rescored == RESCORED:
            theirs, seconds = timed(library, self.vectors, self.queries, precision)
            share = shared(rows, theirs)
            self.compare_library("semantic_search_faiss", precision, 0.0, seconds, size, share)

    def indexed(self, factory: str) -> None:
        """Search an index of faiss, HNSW with each effort."""
        index, build = timed(Index, self.vectors, factory)
        size = index.size / len(self.vectors)
        self.seconds += build
        is_hnsw = factory.startswith("HNSW")
        efforts = [f"efSearch={effort}" for effort in EFFORTS] if is_hnsw else [""]
        for effort in efforts:
            (rows, _), seconds = timed(index.search, self.queries, K, effort)
            name = f"{factory} {effort.removeprefix('efSearch=')}"
            self.line(name, build, seconds, size, shared(rows, self.exact), "exact")
            self.seconds += seconds
            self.n_ways += 1
        if is_hnsw:  # beside the last effort
            theirs, seconds = timed(plain, self.vectors, self.queries, factory)
            share = shared(rows, theirs)
            self.compare_library("plain faiss", factory, seconds, seconds, size, share)


def drawn(n: int, n_dimensions: int, seed: int) -> np.ndarray:
    """Return n unit vectors float32[n, d] that differ most in a few dimensions."""
    directions = np.random.default_rng(1).normal(size=(RANK, n_dimensions))
    rng = np.random.default_rng(seed)
    places = rng.standard_normal((n, RANK), dtype=np.float32)
    noise = rng.standard_normal((n, n_dimensions), dtype=np.float32)
    vectors = places @ directions.astype(np.float32) + noise / 2
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def write_vectors(path: Path, n: int, n_dimensions: int) -> None:
    """Write drawn vectors to a file, block by block."""
    vectors = np.lib.format.open_memmap(path, "w+", np.float32, (n, n_dimensions))
    for start in range(0, n, BLOCK):
        n_rows = min(BLOCK, n - start)
        vectors[start : start + n_rows] = drawn(n_rows, n_dimensions, seed=2 + start)
    vectors.flush()


def needs(size: Size | None, path: Path) -> dict[str, float]:
    """Return what building an index and searching it take in this process; None: nothing."""
    if size is None:
        return with_memory(dict)
    vectors = np.load(path, mmap_mode="r")[: size.n]
    queries = drawn(N_ASKED, size.n_dimensions, seed=0)

    def work() -> dict[str, float]:
        """Return the seconds of CPU, and the bytes of the index."""
        begin = time.process_time()
        if size.index in PRECISIONS:
            _, n_bytes = quantised_search(vectors, queries, K, size.index)
            built = begin
        else:
            index = Index(vectors, size.index)
            built = time.process_time()
            index.search(queries, K)
            n_bytes = index.size
        searched = time.process_time()
        return {"build": built - begin, "search": searched - built, "bytes": n_bytes}

    return with_memory(work)


def measure_needs(sizes: list[Size], out: Path | None) -> None:
    """Print a line for each index, in a process of its own; write to `out` what they took."""
    importlib.import_module("sentence_transformers.util")  # what every process pays
    print(NEEDS)
    rows = []
    with tempfile.TemporaryDirectory(prefix="interextra-bench-") as name:
        path = Path(name, "vectors.npy")
        most = max(size.n for size in sizes)
        apart(write_vectors, path, most, sizes[0].n_dimensions)
        imports = apart(needs, None, path)
        for size in sizes:
            measured = apart(needs, size, path)
            row = size._asdict() | {
                "build_seconds": round(measured["build"], 2),
                "search_seconds": round(measured["search"], 2),
                "peak_mib": round(measured["peak"] - imports["peak"]),
                "own_mib": round(measured["own"] - imports["own"]),
                "index_mib": round(measured["bytes"] / 2**20, 1),
            }
            rows.append(row)
            if out:  # also of a run that is stopped
                out.write_text(json.dumps(rows, indent=1) + "\n")
            print_needs(size, row)
    for index in dict.fromkeys(size.index for size in sizes):
        size = Size(index, *MS_MARCO)
        print_needs(size, {"index_mib": round(index_bytes(*size) / 2**20)})


def print_needs(size: Size, measured: dict[str, Any]) -> None:
    """Print what an index needs; what was not measured is left empty."""
    row = measured | {
        "priced_seconds": round(build_seconds(size.index, "", size.n, size.n_dimensions), 2),
        "formula_mib": round(peak_bytes(*size) / 2**20),
    }
    line = f"{size.index:9}{size.n:11,}{size.n_dimensions:5}"
    for name, width in COLUMNS.items():
        line += f"{row[name]:{width},}" if name in row else " " * width
    print(line, flush=True)


def main(n: int) -> None:
    """Print a line for each way; refuse neighbours that are not the libraries'."""
    faiss.omp_set_num_threads(1)  # as ours
    with tempfile.TemporaryDirectory(prefix="interextra-bench-") as name:
        folder = Path(name, "passages")
        write_collection(folder, n)
        model = Dense(static_model(), load_recipe("mini-dense"))
        collection = open_collection(folder)
        vectors, encoding = timed(lambda: np.concatenate([*model.blocks(collection)]))
    queries = model.encode_queries(some_queries())
    print(f"{n:,} passages, {len(queries)} queries, first {K}; encoding {encoding:.2f} s")
    print(HEADINGS)
    comparison = Comparison(vectors, queries)
    for precision, rescored in QUANTISED:
        comparison.quantised(precision, rescored)
    for factory in FACTORIES:
        comparison.indexed(factory)
    n_ways = comparison.n_ways
    seconds = comparison.seconds
    print(
        f"{n_ways} ways: encoded once {encoding + seconds:.1f} s, "
        f"encoded each time {n_ways * encoding + seconds:.1f} s"
    )
    if comparison.different:
        raise SystemExit(f"not the same neighbours: {', '.join(comparison.different)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=100_000, help="passages")
    parser.add_argument("--small", action="store_true", help="2,000 passages: only whether it runs")
    parser.add_argument("--full", action="store_true", help="only what large indexes need")
    parser.add_argument("--out", type=Path, help="a JSON file for what indexes need")
    args = parser.parse_args()
    if not args.full:
        main(2_000 if args.small else args.n)
    sizes = SMALL if args.small else FULL if args.full else USUAL
    measure_needs(sizes, args.out)
