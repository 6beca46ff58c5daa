"""Indexes are built from blocks: the same index as at once, in the memory that a formula says."""

import subprocess
import sys

import faiss
import numpy as np
import pytest

from interextra.models.search import indexes
from interextra.models.search.indexes import (
    PRECISIONS,
    Index,
    on_disk,
    quantised_search,
)
from interextra.models.search.sizes import build_seconds, index_bytes, peak_bytes
from interextra.store.errors import InputError

EXACTLY_PRICED = ("Flat", "SQfp16", "PQ8x4")
GRAPHS = ("HNSW8", "HNSW32_SQfp16")
# the last but one: most lists are empty; the last ones are of no kind that the formula knows
OTHERS = ("PCAR8,PQ4x4", "IVF8,Flat", "IVF300,Flat", "PQ8x4fs", "IVF8,PQ4x4fs")


def drawn(n, n_dimensions, seed=1):
    draw = np.random.default_rng(seed)
    scale = 1 / np.sqrt(np.arange(1, n_dimensions + 1))
    return (draw.normal(size=(n, n_dimensions)) * scale + 0.1).astype(np.float32)


@pytest.fixture
def mapped(tmp_path):
    """Write vectors to a file; give them as a map of it."""

    def write(vectors):
        np.save(tmp_path / "vectors.npy", vectors)
        return np.load(tmp_path / "vectors.npy", mmap_mode="r")

    return write


def written(index: faiss.Index) -> np.ndarray:
    return faiss.serialize_index(index)


# Sizes


@pytest.mark.parametrize("name", [*EXACTLY_PRICED, *GRAPHS, *OTHERS])
@pytest.mark.parametrize(("n", "n_dimensions"), [(400, 16), (700, 40)])
def test_the_formula_is_the_size_of_what_faiss_writes(name, n, n_dimensions):
    index = Index(drawn(n, n_dimensions), name)
    assert index.size == len(written(index.faiss_index))
    if name in EXACTLY_PRICED:
        assert index_bytes(name, n, n_dimensions) == index.size
    if name in GRAPHS:
        assert index_bytes(name, n, n_dimensions) == pytest.approx(index.size, rel=0.01)


def test_what_is_priced_is_what_a_quantised_search_says(mapped):
    vectors = mapped(drawn(300, 20))
    for precision in PRECISIONS:
        _, size = quantised_search(vectors, drawn(3, 20), 5, precision)
        assert size == index_bytes(precision, 300, 20)


def test_matrices_and_lists_hardly_change_the_price():
    for name in ("PCA8,Flat", "IVF8,Flat"):
        size = Index(drawn(1000, 16), name).size
        assert index_bytes(name, 1000, 16) == pytest.approx(size, abs=3000)
    with pytest.raises(InputError, match="HNWS"):
        index_bytes("HNWS", 10, 8)


# Built from blocks


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        ("Flat", 16),
        ("SQfp16", 16),
        ("PQ8x4", 16),
        ("PQ8x4", 8),
        ("IVF8,Flat", 8),
    ],
)
def test_an_index_from_blocks_of_a_file_is_that_of_all_vectors_at_once(
    mapped, monkeypatch, name, cut
):
    vectors = drawn(700, 16)[:, :cut]
    at_once = faiss.index_factory(cut, name, faiss.METRIC_INNER_PRODUCT)
    in_memory = np.ascontiguousarray(vectors)
    faiss.omp_set_num_threads(1)
    at_once.train(in_memory)
    at_once.add(in_memory)
    monkeypatch.setattr(indexes, "BLOCK", 64)
    ours = Index(mapped(drawn(700, 16))[:, :cut], name)
    assert (written(ours.faiss_index) == written(at_once)).all()


@pytest.mark.parametrize(("name", "cut"), [("PCAR8,PQ4x4", 16), ("OPQ4,PQ4x4", 8)])
def test_codes_of_transformed_blocks_are_as_good_as_at_once(mapped, monkeypatch, name, cut):
    """Blocks are multiplied with other last digits, from which k-means may go elsewhere."""
    vectors = drawn(700, 16)[:, :cut]
    at_once = Index(np.ascontiguousarray(vectors), name)
    monkeypatch.setattr(indexes, "BLOCK", 64)
    in_blocks = Index(mapped(drawn(700, 16))[:, :cut], name)
    errors = []
    for index in (at_once, in_blocks):
        decoded = index.faiss_index.reconstruct_n(0, len(vectors))
        errors.append(((decoded - vectors) ** 2).mean())
    assert errors[1] == pytest.approx(errors[0], rel=0.02) and in_blocks.size == at_once.size


def test_a_graph_has_the_links_of_its_blocks_and_order(mapped):
    vectors = drawn(9000, 8)
    order = np.random.default_rng(3).permutation(9000)
    plain = faiss.index_factory(8, "HNSW8", faiss.METRIC_INNER_PRODUCT)
    faiss.omp_set_num_threads(1)
    for start in (0, indexes.BLOCK):
        plain.add(vectors[order[start : start + indexes.BLOCK]])
    ours = Index(mapped(vectors), "HNSW8", seed=3)
    assert (written(ours.faiss_index) == written(plain)).all()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("k", "times"), [(1, 0), (5, 3), (30, 4)])
def test_quantised_search_is_the_same_in_blocks(mapped, monkeypatch, precision, k, times):
    vectors, queries = drawn(900, 12), drawn(20, 12, seed=2)
    (rows, scores), size = quantised_search(vectors, queries, k, precision, times)
    monkeypatch.setattr(indexes, "BLOCK", 1024 if precision == "uint8" else 100)
    (again, scores_again), size_again = quantised_search(
        mapped(vectors), queries, k, precision, times
    )
    assert (rows == again).all() and (scores == scores_again).all() and size == size_again


@pytest.mark.parametrize("n_levels", [3, 256])  # with few codes most queries have ties at the cut
@pytest.mark.parametrize("k", [1, 7, 99, 100, 400])  # faiss chooses otherwise from 100 on
def test_codes_are_found_as_a_flat_index_finds_them(monkeypatch, n_levels, k):
    draw = np.random.default_rng(k)
    codes = (draw.integers(n_levels, size=(3000, 16)) - n_levels // 2).astype(np.int8)
    asked = (draw.integers(n_levels, size=(30, 16)) - n_levels // 2).astype(np.int8)
    flat = faiss.IndexFlatIP(16)
    flat.add(codes.astype(np.float32))
    expected_scores, expected = flat.search(asked.astype(np.float32), k)
    monkeypatch.setattr(indexes, "BLOCK", 1024)
    rows, scores = indexes._search_codes(codes, asked, k)
    assert (rows == expected).all() and (scores == expected_scores).all()


def test_an_array_on_disk_has_no_name_and_all_blocks(tmp_path):
    vectors = drawn(50, 4)
    array = on_disk((vectors[start : start + 20] for start in (0, 20, 40)), (50, 4), tmp_path)
    assert isinstance(array, np.memmap) and (array == vectors).all()
    assert not list(tmp_path.iterdir())


# Memory and seconds

MEASURED = """
import resource, sys
from pathlib import Path
import numpy as np
import sentence_transformers.util
from interextra.models.search.indexes import PRECISIONS, Index, quantised_search

vectors = np.load(sys.argv[1], mmap_mode="r")
queries = np.array(vectors[:50])
for name in sys.argv[2:]:
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if name in PRECISIONS:
        quantised_search(vectors, queries, 10, name)
    else:
        index = Index(vectors, name)
        index.search(queries, 10)
        index.size
        del index
    print(name, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/clear_refs is of Linux")
def test_the_peak_of_building_and_searching_is_within_the_formula(tmp_path):
    n, n_dimensions = 200_000, 64
    path = tmp_path / "vectors.npy"
    np.save(path, drawn(n, n_dimensions))
    names = ("Flat", "SQfp16", "int8", "binary")
    command = [sys.executable, "-c", MEASURED, path, *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    peaks = dict(line.split() for line in done.stdout.splitlines())
    for name in names:
        peak = int(peaks[name])
        index = index_bytes(name, n, n_dimensions)
        assert peak < peak_bytes(name, n, n_dimensions), f"{name}: {peak:,} bytes"
        assert peak_bytes(name, n, n_dimensions) < index + 40e6


def test_a_graph_costs_what_it_takes_to_build():
    assert build_seconds("Flat", "", 10**6, 384) == build_seconds("int8", "", 10**6, 384) == 0
    graph = build_seconds("HNSW32", "", 10**6, 384)
    assert build_seconds("HNSW32", "", 2 * 10**6, 384) > 2 * graph > 0
    assert build_seconds("HNSW32_SQfp16", "", 10**6, 768) > 1.5 * graph
    careful = build_seconds("HNSW32", "efConstruction=80,efSearch=9", 10**6, 384)
    assert careful > 1.3 * graph
