"""Measure exact search over two million passages, streaming beside the library's own.

Seconds and peak memory. Ours encodes a block, scores it and forgets it; sentence-transformers'
`encode` and `util.semantic_search` hold all texts and all vectors. Both have the same model, a
table of random word vectors (StaticEmbedding), so that search and memory are measured and not a
transformer; both must find the same scores. SPLADE and ColBERT follow on fewer passages with the
tiny base. Each step runs in a process of its own; everything is removed at the end. Run: python
bench/search.py [--small] [--n 2000000] [--n-tokens 20000]
"""

import argparse
import importlib
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from passages import WORDS, text_of, with_memory

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from interextra.data.collection import Collection

N_QUERIES = 200
K = 100
LENGTH = 10  # words of a passage
DIMENSION = 64
SEED = 7


def write_collection(folder: Path, n: int) -> None:
    """Write passages of ten drawn words; ids are shuffled numbers."""
    from interextra.data.collection import write_passages

    rng = np.random.default_rng(SEED)
    ids = rng.permutation(n)

    def rows() -> Iterator[tuple[str, str]]:
        """Yield id and text of each passage."""
        for start in range(0, n, 10_000):
            block = ids[start : start + 10_000].tolist()
            drawn = rng.integers(0, len(WORDS), (len(block), LENGTH)).tolist()
            for doc_id, numbers in zip(block, drawn, strict=True):
                yield str(doc_id), text_of(numbers)

    folder.mkdir()
    write_passages(folder / "passages.arrow", rows())


def open_collection(folder: Path) -> "Collection":
    """Return what `write_collection` wrote."""
    import pandas as pd

    from interextra.data.collection import Collection, Passages

    passages = Passages(folder / "passages.arrow")
    return Collection("bench", "bench", passages, pd.DataFrame(), {}, "bench")


def some_queries() -> list[str]:
    """Return queries of five drawn words."""
    rng = np.random.default_rng(SEED + 1)
    return [text_of(numbers) for numbers in rng.integers(0, len(WORDS), (N_QUERIES, 5)).tolist()]


def static_model() -> "SentenceTransformer":
    """Return a model with a vector for each word piece of the tiny base, averaged over the text.

    64 dimensions.
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
    """Return the scores that the kit finds."""
    from interextra.models.architectures.dense import Dense
    from interextra.models.recipe import load_recipe

    model = Dense(static_model(), load_recipe("mini-dense"))
    return model.search(open_collection(folder), some_queries(), K)[1]


def dense_library(folder: Path) -> np.ndarray:
    """Return the scores that sentence-transformers finds."""
    from sentence_transformers import util

    model = static_model()
    texts = open_collection(folder).passages.texts(slice(None))
    # 128 as ours
    options = {"batch_size": 128, "convert_to_tensor": True, "show_progress_bar": False}
    passages = model.encode(texts, **options)
    queries = model.encode(some_queries(), **options)
    rankings = util.semantic_search(queries, passages, top_k=K, score_function=util.dot_score)
    scores = [[hit["score"] for hit in ranking] for ranking in rankings]
    return np.array(scores, dtype=np.float32)


def splade(folder: Path) -> np.ndarray:
    """Return the scores of the untrained SPLADE of the profile mini."""
    from interextra.models.architectures import splade
    from interextra.models.recipe import load_recipe

    recipe = load_recipe("mini-splade")
    model = splade.Splade(splade.build(recipe, 1), recipe)
    return model.search(open_collection(folder), some_queries(), K)[1]


def colbert(folder: Path) -> np.ndarray:
    """Return the scores of the untrained ColBERT of the profile mini."""
    from interextra.models.architectures import colbert
    from interextra.models.recipe import load_recipe

    recipe = load_recipe("mini-colbert")
    model = colbert.ColBERT(colbert.build(recipe, 1), recipe)
    return model.search(open_collection(folder), some_queries(), K)[1]


# step → its collection, and what is done
STEPS = {
    "import only": ("dense", None),
    "dense, ours": ("dense", dense_ours),
    "dense, library": ("dense", dense_library),
    "SPLADE": ("tokens", splade),
    "ColBERT": ("tokens", colbert),
}


def child(step: str, folder: Path) -> dict[str, float]:
    """Return what a step takes, in this process; its scores are written to a file."""
    collection, search = STEPS[step]

    def work() -> dict[str, float]:
        """Return the seconds of the search."""
        if search is None:
            return {}
        begin = time.perf_counter()
        cpu_begin = time.process_time()
        np.save(folder / f"{step}.npy", search(folder / collection))
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "cpu": time.process_time() - cpu_begin}

    return with_memory(work)


def apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return what `work` returns, from a process that starts with all imports done."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(work, *arguments).result()


def main(n: int, n_tokens: int) -> None:
    """Print a line for each step; refuse scores that differ."""
    for module in ("sentence_transformers", "interextra.models.architectures.dense"):
        importlib.import_module(module)  # what every step pays
    sizes = {"dense": n, "tokens": n_tokens}
    with tempfile.TemporaryDirectory(prefix="interextra-bench-") as name:
        folder = Path(name)
        for collection, size in sizes.items():
            apart(write_collection, folder / collection, size)
        print(f"{N_QUERIES} queries, top {K}; passages of {LENGTH} words")
        times = f"{'passages':>10}{'seconds':>9}{'CPU s':>8}"
        print(f"{'step':16}{times}{'peak MiB':>10}{'of it own':>11}")
        for step, (collection, _) in STEPS.items():
            measured = apart(child, step, folder)
            times = " " * 27
            if "seconds" in measured:
                size = sizes[collection]
                times = f"{size:10,}{measured['seconds']:9.1f}{measured['cpu']:8.1f}"
            memory = f"{measured['peak']:10,.0f}{measured['own']:11,.0f}"
            print(f"{step:16}{times}{memory}", flush=True)
        ours = np.load(folder / "dense, ours.npy")
        library = np.load(folder / "dense, library.npy")
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
    args = parser.parse_args()
    if args.small:
        main(2_000, 200)
    else:
        main(args.n, args.n_tokens)
