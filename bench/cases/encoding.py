"""Encoding passages, and encoding and searching them, beside sentence-transformers.

Both have the same model: the tiny base, a transformer; or a table of random word vectors, so that
search is measured. Ours encodes a block, scores it and forgets it.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from search import dense_library, dense_ours, open_collection, write_collection

from .form import SEED, Case, Peer, Sizes, equal_within

BATCH = 128  # as ours


def dense_of_tiny_base(folder: Path, n: int) -> tuple:
    """Return our untrained bi-encoder of the profile mini, and a collection."""
    from interextra.models.architectures.dense import Dense, build
    from interextra.models.recipe import load_recipe

    write_collection(folder / "passages", n)
    recipe = load_recipe("mini-dense")
    return Dense(build(recipe, SEED), recipe), open_collection(folder / "passages")


def encode_ours(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Encode by the kit."""
    model, collection = dense_of_tiny_base(folder, n)
    return lambda: np.concatenate([*model.blocks(collection)])


def encode_library(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Encode by sentence-transformers, with the same model saved and opened."""
    from sentence_transformers import SentenceTransformer

    model, collection = dense_of_tiny_base(folder, n)
    model.model.save_pretrained(str(folder / "model"), create_model_card=False)
    plain = SentenceTransformer(str(folder / "model"), device=str(model.model.device))
    texts = collection.passages.texts(slice(None))
    return lambda: plain.encode(texts, batch_size=BATCH, show_progress_bar=False)


def search_ours(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Encode and search by the kit; return the scores."""
    write_collection(folder / "passages", n)
    return lambda: dense_ours(folder / "passages")


def search_library(n: int, folder: Path) -> Callable[[], np.ndarray]:
    """Encode and search by sentence-transformers; return the scores."""
    write_collection(folder / "passages", n)
    return lambda: dense_library(folder / "passages")


LIBRARY = ("sentence_transformers",)
# what is imported once, before processes start
IMPORTS = ("sentence_transformers", "interextra.models.architectures.dense")
CASES = [
    Case(
        "encode, tiny BERT",
        "passages of 10 words",
        Sizes(100, 16_000, 100_000),
        encode_ours,
        {"sentence-transformers": Peer(encode_library, LIBRARY)},
        equal_within(1e-4),
    ),
    Case(
        "encode by word vectors, and search",
        "passages of 10 words",
        Sizes(400, 100_000, 2_000_000),
        search_ours,
        {"sentence-transformers": Peer(search_library, LIBRARY)},
        equal_within(1e-3),
    ),
]
