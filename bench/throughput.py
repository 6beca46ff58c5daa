"""Measure how fast a device trains, encodes and reranks with the recipes of the paper's scale.

The kit's own code on an encoder of BERT-base's shape, whose weights are random: speed does not
depend on them, and no hub is needed. Texts are as long as a recipe reads, so that each batch is
full. A training is timed twice, with few and with more steps, and their difference counts:
what a start costs does not. The result is one JSON: the device, and tokens a second of a recipe's
training and of its encoding, as `models.recipe.Size` has them. Run:
python bench/throughput.py [--small] [--out FILE]
"""

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from passages import WORDS
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

from interextra.data.collection import Collection, Passages, write_passages
from interextra.models.architectures import bm25, reranker
from interextra.models.base import quiet
from interextra.models.model import fit, load_model
from interextra.models.recipe import Trained, changed, load_recipe
from interextra.models.retriever import reopen
from interextra.models.training.trainer import PairBatches, PairLoss, train

SEED = 7
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
VOCABULARY = 30_522  # word pieces of BERT
N_PASSAGES = 4096
SMALL_PASSAGES = 128
SMALL = {"batch_size": 2, "n_negatives": 2, "query_length": 8, "passage_length": 16}
# recipe → other options: as many random negatives as it has of BM25, which needs no Java
RECIPES: dict[str, dict[str, Any]] = {
    "msmarco-dense": {},
    "msmarco-colbert": {"negatives": "random", "n_negatives": 32},
    "msmarco-splade": {"negatives": "both", "n_negatives": 128},
    "msmarco-reranker": {"negatives": "random"},
}
STEPS = (5, 25)  # of the two trainings
RERANKED = 128  # passages of a query


def write_base(folder: Path, small: bool) -> Path:
    """Write an encoder with random weights of BERT-base's shape, or of a tiny one."""
    folder.mkdir()
    words = [*SPECIAL, *WORDS]
    others = [f"word{number}" for number in range(VOCABULARY - len(words))]
    vocabulary = {word: number for number, word in enumerate([*words, *others])}
    tokenizer = BertTokenizerFast(vocab=vocabulary, model_max_length=512)
    tokenizer.save_pretrained(folder)
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(vocab_size=VOCABULARY, **(shape if small else {}))
    torch.manual_seed(SEED)
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


def make_collection(folder: Path, n_passages: int, length: int) -> Collection:
    """Return passages of so many drawn words, each relevant to a query that is as long."""
    generator = np.random.default_rng(SEED)
    texts = [" ".join(generator.choice(WORDS, length)) for _ in range(n_passages)]
    doc_ids = [f"d{number}" for number in range(n_passages)]
    folder.mkdir()
    write_passages(folder / "passages.arrow", zip(doc_ids, texts, strict=True))
    query_ids = [f"q{number}" for number in range(n_passages)]
    queries = pd.DataFrame({"query_id": query_ids, "text": texts})
    qrels = pd.DataFrame({"query_id": query_ids, "doc_id": doc_ids, "relevance": 1})
    passages = Passages(folder / "passages.arrow")
    return Collection("bench", "bench", passages, queries, {"train": qrels}, "bench")


def seconds_of(work: Callable[[], Any]) -> float:
    """Return the seconds of some work; that of a GPU is waited for."""
    _wait()
    begin = time.perf_counter()
    work()
    _wait()
    return time.perf_counter() - begin


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def train_reranker(
    recipe: reranker.Options,
    collection: Collection,
    query_ids: list[str],
    split: str,
    seed: int,
    folder: Path,
) -> dict:
    """Train a cross-encoder as `reranker.fit` does, without the index of BM25, which needs Java."""
    loss = PairLoss(reranker.build(recipe, seed), recipe)
    return train(loss, recipe, collection, query_ids, split, seed, folder, batches=PairBatches)


def train_seconds(recipe: Trained, collection: Collection, folder: Path) -> float:
    """Return the seconds of a training step; the last training is kept in `folder`."""
    query_ids = collection.query_ids("train")
    seconds = []
    for steps in STEPS:
        of_length = changed(recipe, steps=steps, epochs=None)
        fit_model = train_reranker if recipe.architecture == "reranker" else fit
        work = partial(fit_model, of_length, collection, query_ids, "train", SEED, folder)
        seconds.append(seconds_of(work))
    few, more = seconds
    return (more - few) / (STEPS[1] - STEPS[0])


def encode_speed(recipe: Trained, collection: Collection, folder: Path) -> float:
    """Return the tokens a second that a trained model reads: passages, or pairs of a reranker."""
    if recipe.architecture == "reranker":
        opened = reopen("CrossEncoder", folder, recipe)
        model = reranker.Reranker(opened, recipe, bm25.BM25(k1=0.9, b=0.4))
        rows = np.arange(len(collection.passages)).reshape(-1, RERANKED)
        queries = collection.queries("train")["text"].tolist()[: len(rows)]
        work = partial(model.score, collection.passages, queries, rows)
    else:
        model = load_model(folder)
        work = partial(model.encode_block, collection.passages.texts(slice(None)))
    work()  # the first time pays for starting
    return len(collection.passages) * recipe_length(recipe) / seconds_of(work)


def recipe_length(recipe: Trained) -> int:
    """Return the tokens of a passage, or of a reranker's pair."""
    return recipe.longest if recipe.architecture == "reranker" else recipe.passage_length


def measure(name: str, base: Path, small: bool, folder: Path) -> dict[str, Any]:
    """Return how fast a recipe trains and encodes, and the largest memory of the GPU."""
    options = RECIPES[name] | (SMALL if small else {})
    recipe = load_recipe(name, initialisation=str(base), **options)
    n_passages = SMALL_PASSAGES if small else N_PASSAGES
    collection = make_collection(folder.with_name(f"of {name}"), n_passages, recipe.passage_length)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    step_seconds = train_seconds(recipe, collection, folder)
    encoded = encode_speed(recipe, collection, folder)
    measured = {
        "recipe": name,
        "batch_size": recipe.batch_size,
        "precision": recipe.precision,
        "encode_precision": recipe.encode_precision,
        "step_seconds": round(step_seconds, 4),
        "train_tokens": round(recipe.step_tokens() / step_seconds),
        "encode_tokens": round(encoded),
    }
    if torch.cuda.is_available():
        measured["gpu_mib"] = round(torch.cuda.max_memory_allocated() / 2**20)
    return measured


def device_name() -> str:
    """Return what computes: the GPU, else the processor."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"CPU {platform.machine()}, {torch.get_num_threads()} threads"


def main(small: bool, recipes: list[str], out: Path | None) -> None:
    """Measure each recipe, print a line for it, and write the table."""
    quiet()
    rows = []
    with tempfile.TemporaryDirectory(prefix="interextra-bench-") as name:
        folder = Path(name)
        base = write_base(folder / "base", small)
        for recipe in recipes:
            rows.append(measure(recipe, base, small, folder / recipe))
            print(json.dumps(rows[-1]), flush=True)
    result = {"device": device_name(), "torch": torch.__version__, "recipes": rows}
    if out:
        out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="a tiny encoder: only whether it runs")
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES), choices=list(RECIPES))
    parser.add_argument("--out", type=Path, help="a JSON file")
    args = parser.parse_args()
    main(args.small, args.recipes, args.out)
