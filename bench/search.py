"""Exact search over two million passages, streaming beside the library's own: seconds and peak
memory.

Ours encodes a block, scores it and forgets it; sentence-transformers' `encode` and
`util.semantic_search` hold all texts and all vectors. Both have the same model, a table of random
word vectors (StaticEmbedding), so that search and memory are measured and not a transformer; both
must find the same scores. SPLADE and ColBERT follow on fewer passages with the tiny base. Each step
runs in a process of its own; everything is removed at the end. Run: python bench/search.py
[--small] [--n 2000000] [--n-tokens 20000]
"""

import argparse
import importlib
import multiprocessing
import resource
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from passages import WORDS, own_mb

N_QUERIES, K, LENGTH, DIMENSION = 200, 100, 10, 64
_RNG = 7


def write_collection(folder: Path, n: int) -> None:
    """Ten drawn words a passage; ids are shuffled numbers."""
    from interextra.data.collection import write_passages

    rng = np.random.default_rng(_RNG)
    ids = rng.permutation(n)

    def rows():
        for start in range(0, n, 10_000):
            block = ids[start : start + 10_000].tolist()
            words = rng.integers(0, len(WORDS), (len(block), LENGTH)).tolist()
            yield from (
                (str(i), " ".join(map(WORDS.__getitem__, row)))
                for i, row in zip(block, words, strict=True)
            )

    folder.mkdir()
    write_passages(folder / "passages.arrow", rows())


def open_collection(folder: Path):
    import pandas as pd

    from interextra.data.collection import Collection, Passages

    return Collection(
        "bench", "bench", Passages(folder / "passages.arrow"), pd.DataFrame(), {}, "bench"
    )


def some_queries() -> list[str]:
    drawn = np.random.default_rng(_RNG + 1).integers(0, len(WORDS), (N_QUERIES, 5)).tolist()
    return [" ".join(map(WORDS.__getitem__, row)) for row in drawn]


def static_model():
    """A vector for each word piece of the tiny base's vocabulary, averaged over the text; 64
    dimensions.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    from interextra.models.base import BASE, quiet

    quiet()
    tokenizer = Tokenizer.from_file(str(BASE / "tokenizer.json"))
    torch.manual_seed(1)
    table = torch.randn(tokenizer.get_vocab_size(), DIMENSION)
    return SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_weights=table)], similarity_fn_name="dot"
    )


def dense_ours(folder: Path) -> np.ndarray:
    from interextra.models.architectures.dense import Dense
    from interextra.models.recipe import load_recipe

    model = Dense(static_model(), load_recipe("mini-dense"))
    return model.search(open_collection(folder), some_queries(), K)[1]


def dense_library(folder: Path) -> np.ndarray:
    from sentence_transformers import util

    model = static_model()
    texts = open_collection(folder).passages.texts(slice(None))
    options = {
        "batch_size": 128,
        "convert_to_tensor": True,
        "show_progress_bar": False,
    }  # 128 as ours
    passages, queries = model.encode(texts, **options), model.encode(some_queries(), **options)
    found = util.semantic_search(queries, passages, top_k=K, score_function=util.dot_score)
    return np.array([[hit["score"] for hit in hits] for hits in found], dtype=np.float32)


def tiny(architecture: str, folder: Path) -> np.ndarray:
    """The untrained model of the profile mini."""
    from interextra.models.architectures import colbert, splade
    from interextra.models.recipe import load_recipe

    module, kind = {"splade": (splade, splade.Splade), "colbert": (colbert, colbert.ColBERT)}[
        architecture
    ]
    recipe = load_recipe(f"mini-{architecture}")
    return kind(module.build(recipe, 1), recipe).search(open_collection(folder), some_queries(), K)[
        1
    ]


STEPS = {
    "import only": ("dense", None),
    "dense, ours": ("dense", dense_ours),
    "dense, library": ("dense", dense_library),
    "SPLADE": ("tokens", lambda folder: tiny("splade", folder)),
    "ColBERT": ("tokens", lambda folder: tiny("colbert", folder)),
}


def child(step: str, folder: Path) -> dict[str, float]:
    samples, done = [own_mb()], threading.Event()

    def sample() -> None:
        while not done.wait(0.01):
            samples.append(own_mb())

    sampler = threading.Thread(target=sample)
    sampler.start()
    name, work = STEPS[step]
    found, started, cpu = {}, time.perf_counter(), time.process_time()
    if work:
        np.save(folder / f"{step}.npy", work(folder / name))
        found = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - cpu}
    done.set()
    sampler.join()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts KiB
    return found | {"peak": peak, "own": max(samples)}


def apart(work, *given):
    """What `work` returns, from a process of its own that starts with all imports done."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(work, *given).result()


def main(n: int, n_tokens: int) -> None:
    for module in (
        "sentence_transformers",
        "interextra.models.architectures.dense",
    ):  # what every step pays
        importlib.import_module(module)
    sizes = {"dense": n, "tokens": n_tokens}
    with tempfile.TemporaryDirectory(prefix="interextra-bench-") as name:
        folder = Path(name)
        for kind, size in sizes.items():
            apart(write_collection, folder / kind, size)
        print(f"{N_QUERIES} queries, top {K}; passages of {LENGTH} words")
        print(
            f"{'step':16}{'passages':>10}{'seconds':>9}{'CPU s':>8}{'peak MiB':>10}{'of it own':>11}"
        )
        for step, (kind, work) in STEPS.items():
            found = apart(child, step, folder)
            times = (
                f"{sizes[kind]:10,}{found['seconds']:9.1f}{found['cpu']:8.1f}" if work else " " * 27
            )
            print(f"{step:16}{times}{found['peak']:10,.0f}{found['own']:11,.0f}", flush=True)
        ours, library = (np.load(folder / f"dense, {who}.npy") for who in ("ours", "library"))
        difference = np.abs(ours - library).max()
        print(f"largest difference of a score, ours and library: {difference:.1e}")
        if difference > 1e-3:
            raise SystemExit("ours and the library do not find the same")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=2_000_000, help="passages of the dense search")
    parser.add_argument(
        "--n-tokens", type=int, default=20_000, help="passages of SPLADE and ColBERT"
    )
    parser.add_argument(
        "--small", action="store_true", help="2,000 and 200 passages: only whether it runs"
    )
    given = parser.parse_args()
    main(*((2_000, 200) if given.small else (given.n, given.n_tokens)))
