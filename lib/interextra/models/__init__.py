"""Models: a recipe is fitted to a collection's queries and then searches the collection.

recipe = load_recipe("mini-dense")
log = fit(recipe, collection, query_ids, "train", seed=1, out_dir=folder)
rows, scores = search(load_model(folder), collection, texts, k=100)
"""

import importlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from interextra.ground.errors import InputError
from interextra.models.recipe import Recipe, cost, load_recipe, make_recipe, training_steps

__all__ = ["Recipe", "cost", "encoder", "fit", "load_model", "load_recipe", "search", "training_steps"]

# architecture -> module with fit(recipe, collection, query_ids, split, seed, out_dir) -> log and load(out_dir, recipe)
# -> model; a model has search(collection, queries, k). A further architecture is one more line.
ARCHITECTURES = {name: f"interextra.models.{name}" for name in ("bm25", "dense", "splade", "colbert", "reranker")}


def _module(architecture: str):
    if architecture not in ARCHITECTURES:
        raise InputError(f"{architecture} is not part of this version; it has {', '.join(ARCHITECTURES)}")
    return importlib.import_module(ARCHITECTURES[architecture])


def fit(recipe: Recipe, collection, query_ids: Sequence[str], split: str, seed: int, out_dir: str | Path) -> dict:
    """Train (or tune) on the judged passages of `query_ids` and write the model to `out_dir`.

    The same recipe, queries, seed and machine give the same bytes. The order of `query_ids` does not matter.

    Returns
    -------
    dict
        The training log: steps, seconds, loss (list of [step, loss]), and what the architecture adds.

    Raises
    ------
    InputError
        An architecture or initialisation that is not there, unknown query_ids, an `out_dir` that holds other files.
    """
    module = _module(recipe.architecture)
    out_dir = Path(out_dir)
    if out_dir.exists() and any(out_dir.iterdir()) and not (out_dir / "model.json").is_file():
        raise InputError(f"{out_dir} holds other files than a model; give a new or empty folder")
    aside = out_dir.with_name(f"{out_dir.name}.tmp{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        log = module.fit(recipe, collection, query_ids, split, seed, aside)
        if int(os.environ.get("RANK", 0)):  # under torchrun every process trains, the first one writes
            return log
        (aside / "model.json").write_text(json.dumps({"recipe": recipe.model_dump(), "seed": seed}, indent=1))
        shutil.rmtree(out_dir, ignore_errors=True)
        os.replace(aside, out_dir)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return log


def load_model(out_dir: str | Path):
    """The model that `fit` wrote to `out_dir`."""
    out_dir = Path(out_dir)
    try:
        note = json.loads((out_dir / "model.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError(f"{out_dir} is not a folder that fit wrote (no readable model.json)") from None
    recipe = make_recipe(note["recipe"], source=str(out_dir / "model.json"))
    return _module(recipe.architecture).load(out_dir, recipe)


def search(model, collection, queries: Sequence[str], k: int = 1000, **options) -> tuple[np.ndarray, np.ndarray]:
    """The k best passages for each query text; on the CPU, one GPU or several (see `topk.devices`).

    `options` are those of the model's own `search`: block_size and resume_dir (encoders and reranker), embeddings_dir
    (encoders), index and index_dir (SPLADE: exact or impact; ColBERT: exact or ivf).

    Returns
    -------
    (rows int32[n, k], scores float32[n, k])
        Rows of `collection.passages` by score descending, ties by doc_id descending as trec_eval; padding is row -1
        with score -inf.
    """
    if not len(queries):
        return np.zeros((0, k), dtype=np.int32), np.zeros((0, k), dtype=np.float32)
    return model.search(collection, list(queries), k, **options)


def encoder(spec: str | Path, texts: Sequence[str] | None = None, seed: int = 0):
    """An encoder for query similarity; see `interextra.models.vectors`."""
    from interextra.models.vectors import encoder as make

    return make(spec, texts=texts, seed=seed)
