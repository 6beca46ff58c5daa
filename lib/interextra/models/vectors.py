"""Vectors of queries, by an encoder without training of ours or by a trained model, and the cells that keep them."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from interextra.data.queries import Queries
from interextra.ground.cells import Cell, Store
from interextra.models import architectures
from interextra.models.cost import QUERY_TOKENS, Size, vectors_megabytes
from interextra.models.encoders import encoder_module
from interextra.models.model import Model, load_model


class QueryVectors(Cell):
    """Vectors float32[n, d] of training queries (`train.npy`) and of sets of test queries (`NAME.npy` each)."""

    train: Queries
    test: tuple[Queries, ...] = ()

    @abstractmethod
    def vectors(self, store: Store) -> Iterator[np.ndarray]:
        """Of the training queries, then of each set of test queries."""

    def build(self, folder: Path, store: Store) -> None:
        names = ["train", *(queries.name for queries in self.test)]
        for name, vectors in zip(names, self.vectors(store), strict=True):
            np.save(folder / f"{name}.npy", vectors)

    def read(self, store: Store) -> tuple[np.ndarray, np.ndarray]:
        """(vectors of the training queries float32[n_train, d], of the test queries one set after another)."""
        train = np.load(store[self] / "train.npy")
        return train, np.concatenate([train[:0], *(np.load(store[self] / f"{part.name}.npy") for part in self.test)])

    def travels(self) -> tuple[str, ...]:
        return ()

    def n_queries(self) -> int:
        return self.train.size() + sum(part.size() for part in self.test)


class Encodings(QueryVectors):
    """By something that encodes queries, of a size by which it is priced."""

    @abstractmethod
    def size(self) -> Size:
        """Of the encoder."""

    @abstractmethod
    def open(self, texts: Sequence[str], store: Store):
        """An object with encode_queries(texts) -> float32[n, d]; `texts` of the training queries."""

    def vectors(self, store: Store) -> Iterator[np.ndarray]:
        texts = self.train.frame()["text"].tolist()
        encode = self.open(texts, store).encode_queries
        yield encode(texts)
        for queries in self.test:
            yield encode(queries.frame()["text"].tolist())

    def seconds(self) -> float:
        return self.n_queries() * QUERY_TOKENS / self.size().encode_tokens

    def megabytes(self) -> float:
        return vectors_megabytes(self.n_queries(), self.size().dimension)


class Vectors(Encodings):
    """By an encoder without training of ours: a module of `encoders`, or one of them with an option."""

    encoder: str  # lsa, lsa:dimensions=N, minilm, cls:INITIALISATION

    def open(self, texts: Sequence[str], store: Store):
        return encoder_module(self.encoder).encoder(self.encoder, texts)

    def size(self) -> Size:
        return encoder_module(self.encoder).size(self.encoder)

    def modules(self) -> tuple[str, ...]:
        return (*super().modules(), encoder_module(self.encoder).__name__)

    def title(self) -> str:
        return f"vectors · {self.train.source.spec} · {self.encoder}"


class TrainedVectors(Encodings):
    """By a trained dense model."""

    model: Model

    def open(self, texts: Sequence[str], store: Store):
        return load_model(store[self.model] / "weights")

    def size(self) -> Size:
        return self.model.recipe.size

    def modules(self) -> tuple[str, ...]:
        return (*super().modules(), architectures()[self.model.recipe.architecture].__name__)

    def title(self) -> str:
        return f"vectors · {self.train.source.spec} · trained {self.model.key[:8]}"
