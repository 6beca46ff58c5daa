"""Whether a training on a GPU goes on after a kill to the same bytes, and shards find what one does.

`python bench/measured/resume_on_gpu.py`, two to three minutes on one GPU: a dense retriever of the
size of BERT-base, with dropout and in bf16, is trained whole; once more, killed with signal 9 after
a checkpoint; and goes on. Then two processes search by it and one does. Where there are two GPUs, a
training by two processes is compared with one that takes two batches a step. Prints JSON.
"""

import hashlib
import itertools
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import load_file

from interextra.data.queries import Queries, Source
from interextra.models.base import BASE
from interextra.models.model import Model, fit, load_model
from interextra.models.recipe import load_recipe
from interextra.models.retriever import Encoder
from interextra.models.search import sharded
from interextra.models.training.checkpoints import Checkpoints
from interextra.store import Store

SPEC = "mini:n_train=400,n_dev=60"
STEPS = 40
SAVED, KILLED = 15, 18  # after these steps
OPTIONS = {"batch_size": 32, "passage_length": 128, "learning_rate": 1e-5, "precision": "bf16"}
SPAWN = multiprocessing.get_context("spawn")
search_shard = sharded._search_shard


def bert_base(folder: Path) -> str:
    """Write a random BERT-base with the tokenizer of the tiny base."""
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(BASE)
    BertForMaskedLM(BertConfig(vocab_size=len(tokenizer))).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def build(root: Path, cell: Model, saved: int, killed: int) -> None:
    """Build a cell in this process, with a checkpoint after a step, and a kill; 0: none."""
    steps = itertools.count(1)

    def is_due(self: Checkpoints) -> bool:
        step = next(steps)
        if step == killed:
            os.kill(os.getpid(), signal.SIGKILL)
        return step == saved

    Checkpoints.is_due = is_due
    Store(root).build(cell)


def built(root: Path, cell: Model, saved: int = 0, killed: int = 0) -> dict:
    """Build a cell in a process of its own: how it ended, its seconds, a digest of its weights."""
    begin = time.perf_counter()
    process = SPAWN.Process(target=build, args=(root, cell, saved, killed))
    process.start()
    process.join()
    seconds = round(time.perf_counter() - begin, 1)
    path = Store(root).path(cell) / "weights" / "model.safetensors"
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return {"exit": process.exitcode, "seconds": seconds, "weights": digest}


def search_in_small_blocks(*given: object) -> sharded.Hits:
    """Search a shard, in a process of its own."""
    Encoder.block_size = 256
    return search_shard(*given)


def searches_agree(weights: Path, source: Source) -> bool:
    """Whether two processes find the bytes that one finds; without two GPUs both are on one."""
    if torch.cuda.device_count() < 2:
        os.environ["CUDA_VISIBLE_DEVICES"] = "0,0"
    texts = Queries(source=source, split="dev").frame()["text"].tolist()
    Encoder.block_size = 256
    one = load_model(weights).search(source.open(), texts, 100)
    sharded._search_shard = search_in_small_blocks
    two = sharded.search(weights, source, texts, 100, 2)
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, two, strict=True))


def difference_of_two_processes(folder: Path, source: Source, start: str) -> float | None:
    """Return the largest difference of a weight after five steps; None without two GPUs."""
    if torch.cuda.device_count() < 2:
        return None
    recipe = load_recipe("mini-dense", initialisation=start, steps=5, processes=2, batch_size=16)
    collection = source.open()
    asked = (recipe, collection, collection.query_ids("train"), "train", 1)
    fit(*asked, folder / "two")  # by accelerate launch
    torch.cuda.device_count = lambda: 1
    fit(*asked, folder / "one")
    one, two = (load_file(folder / name / "model.safetensors") for name in ("one", "two"))
    return max(float((one[name] - two[name]).abs().max()) for name in one)


def main() -> None:
    """Train, kill, go on, search; print what came of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = bert_base(folder / "start")
        source = Source.of(SPEC)
        train = Queries(source=source, split="train").trainable()
        recipe = load_recipe("mini-dense", initialisation=start, steps=STEPS, **OPTIONS)
        cell = Model.of(recipe, train, 1)
        whole = built(folder / "whole", cell)
        killed = built(folder / "killed", cell, SAVED, KILLED)
        resumed = built(folder / "killed", cell)
        weights = Store(folder / "whole")[cell] / "weights"
        found = {
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            "runs": {"whole": whole, "killed": killed, "resumed": resumed},
            "same_weights": whole["weights"] == resumed["weights"] != "",
            "same_ranking": searches_agree(weights, source),
            "difference_of_two_processes": difference_of_two_processes(folder, source, start),
        }
        shutil.rmtree(folder / "killed")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
