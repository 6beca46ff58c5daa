"""Vectors of queries, by an encoder without training of ours or by a trained model, and the cell that keeps them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from interextra.data.queries import Queries
from interextra.ground.cells import Cell, Store
from interextra.ground.errors import InputError
from interextra.models.base import quiet, verified_minilm
from interextra.models.model import Model, load_model
from interextra.models.recipe import THROUGHPUT, make_recipe
from interextra.models.topk import device

QUERY_TOKENS = 12  # a usual query with its special tokens


class Vectors(Cell):
    """Vectors float32[n, d] of training queries (`train.npy`) and of sets of test queries (`NAME.npy` each)."""

    encoder: str | Model  # lsa, lsa:dimensions=N, minilm, cls:INITIALISATION, or a trained dense model
    train: Queries
    test: tuple[Queries, ...] = ()

    def build(self, folder: Path, store: Store) -> None:
        trained = isinstance(self.encoder, Model)
        texts = self.train.frame()["text"].tolist()
        encode = (
            load_model(store[self.encoder] / "weights") if trained else encoder(self.encoder, texts)
        ).encode_queries
        np.save(folder / "train.npy", encode(texts))
        for queries in self.test:
            np.save(folder / f"{queries.name}.npy", encode(queries.frame()["text"].tolist()))

    def read(self, store: Store) -> tuple[np.ndarray, np.ndarray]:
        """(vectors of the training queries float32[n_train, d], of the test queries one set after another)."""
        train = np.load(store[self] / "train.npy")
        return train, np.concatenate([train[:0], *(np.load(store[self] / f"{part.name}.npy") for part in self.test)])

    def travels(self) -> tuple[str, ...]:
        return ()

    def modules(self) -> tuple[str, ...]:
        return (*super().modules(), "interextra.models.dense")

    def title(self) -> str:
        named = f"trained {self.encoder.key[:8]}" if isinstance(self.encoder, Model) else self.encoder
        return f"vectors · {self.train.source.spec} · {named}"

    def seconds(self) -> float:
        kind = "minilm" if self.encoder == "minilm" else "tiny"
        return (
            (self.train.size() + sum(part.size() for part in self.test))
            * QUERY_TOKENS
            / THROUGHPUT[kind]["encode_tokens"]
        )


def encoder(spec: str, texts: Sequence[str]):
    """An object with `encode_queries(texts) -> float32[n, d]`.

    Parameters
    ----------
    spec
        `lsa` (TF-IDF and truncated SVD, fitted on `texts`), `lsa:dimensions=N` (default 64), `minilm`,
        `cls:INITIALISATION` (the [CLS] vector of a model as it comes, see `Recipe.initialisation`).
    """
    name, _, option = spec.partition(":")
    if name == "lsa":
        dimensions = option.removeprefix("dimensions=") or "64"
        if (option and not option.startswith("dimensions=")) or not dimensions.isdecimal() or not int(dimensions):
            raise InputError(f"encoder {spec!r}: write lsa or lsa:dimensions=N")
        return LSA(texts, int(dimensions))
    if spec == "minilm":
        return MiniLM()
    if name == "cls" and option:
        from interextra.models import dense

        untuned = make_recipe({"architecture": "dense", "initialisation": option, "steps": 0, "query_length": 64}, spec)
        return dense.Dense(dense.build(untuned, 0), untuned)
    raise InputError(f"no encoder {spec!r}: write lsa, minilm, cls:INITIALISATION, or trained for a dense model")


class LSA:
    """Latent semantic analysis: TF-IDF (sublinear) and truncated SVD, rows of length 1.

    >>> LSA(["a red fox", "a blue fox", "the sea"], dimensions=2).encode_queries(["fox"]).shape
    (1, 2)
    """

    def __init__(self, texts: Sequence[str], dimensions: int):
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._weights = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+")
        counts = self._weights.fit_transform(texts)
        dimensions = max(1, min(dimensions, min(counts.shape) - 1))
        self._svd = TruncatedSVD(dimensions, random_state=0).fit(counts)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        vectors = self._svd.transform(self._weights.transform(texts))
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)  # a text of unknown words stays zero


class MiniLM:
    """all-MiniLM-L6-v2 as published: mean pooling, rows of length 1. It has seen MS MARCO."""

    def __init__(self):
        from sentence_transformers import SentenceTransformer

        quiet()
        self._model = SentenceTransformer(str(verified_minilm()), device=device(), trust_remote_code=False)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        vectors = self._model.encode(list(texts), batch_size=64, show_progress_bar=False, normalize_embeddings=True)
        return np.asarray(vectors, dtype=np.float32).reshape(len(texts), -1)
