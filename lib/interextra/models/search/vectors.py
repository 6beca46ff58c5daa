"""Vectors of queries as cells: by an encoder without training of ours, by a trained model, or from
a user's files.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from pydantic import BaseModel

from interextra.data.queries import Queries
from interextra.models.base import is_named, start_of
from interextra.models.encoders import encoder_of
from interextra.models.model import Model, OfModel, load_model, refuse_changed
from interextra.models.recipe import NUMBER, QUERY_TOKENS, Size, size_of
from interextra.store import Cell, InputError, Store, offenders, sha256


class QueryVectors(Cell):
    """Vectors float32[n, d] of training queries, `train.npy`, and of sets of test queries,
    `test1.npy`, `test2.npy`, …

    Files are named by the place of a set: two sets may have one name, and a tested split may be
    called `train`. A kind has vectors(store) → an iterator of those of the training queries, then
    of each set of test queries.
    """

    travels: ClassVar[tuple[str, ...]] = ()
    train: Queries
    test: tuple[Queries, ...] = ()

    def build(self, folder: Path, store: Store) -> None:
        for name, vectors in zip(self.files_of_sets(), self.vectors(store), strict=True):
            np.save(folder / name, vectors)

    def read(self, store: Store) -> tuple[np.ndarray, np.ndarray]:
        """(vectors of the training queries float32[n_train, d], of the test queries one set after
        another).
        """
        train, *test = (np.load(store[self] / name) for name in self.files_of_sets())
        return train, np.concatenate([train[:0], *test])

    def files_of_sets(self) -> list[str]:
        return ["train.npy", *(f"test{place}.npy" for place in range(1, len(self.test) + 1))]


class Encodings(QueryVectors):
    """By something that encodes queries; a kind has `size()`, that of the encoder, by which it is
    priced.

    It has open(texts of the training queries, store) → an object with encode_queries(texts) →
    float32[n, d].
    """

    def vectors(self, store: Store) -> Iterator[np.ndarray]:
        texts = [queries.frame()["text"].tolist() for queries in (self.train, *self.test)]
        return map(self.open(texts[0], store).encode_queries, texts)

    def seconds(self) -> float:
        return self.n_queries() * QUERY_TOKENS / self.size().encode_tokens

    def megabytes(self) -> float:
        return self.n_queries() * self.size().dimension * NUMBER

    def n_queries(self) -> int:
        return self.train.size() + sum(part.size() for part in self.test)


class Vectors(Encodings):
    encoder: str  # lsa, minilm, cls:INITIALISATION
    start: str = ""  # of a folder: what it holds, by content, set where this is planned

    def __init__(self, **fields):
        super().__init__(
            **fields
            if fields.get("start")
            else fields | {"start": self._start_of(fields.get("encoder"))}
        )

    @staticmethod
    def _start_of(encoder: Any) -> str:
        """What a folder holds; empty for all that its name tells apart. InputError where it is not
        there.
        """
        option = encoder_of(encoder)[1] if isinstance(encoder, str) else ""
        start = start_of(option)
        return "" if is_named(option) or start == option else start

    def open(self, texts: Sequence[str], store: Store):
        refuse_changed(self.start, self._start_of(self.encoder), f"encoder {self.encoder}")
        kind, option = encoder_of(self.encoder)
        return kind(option, texts)

    def size(self) -> Size:
        kind, option = encoder_of(self.encoder)
        return size_of(option or kind.SIZE)

    def modules(self) -> tuple[str, ...]:
        kind, _ = encoder_of(self.encoder)
        return (*super().modules(), f"{kind.__module__}:{kind.__name__}")

    def title(self) -> str:
        return f"vectors · {self.train.source.spec} · {self.encoder}"


class TrainedVectors(OfModel, Encodings):
    model: Model

    def open(self, texts: Sequence[str], store: Store):
        return load_model(store[self.model] / "weights")

    def size(self) -> Size:
        return self.recipe.size

    def title(self) -> str:
        return f"vectors · {self.train.source.spec} · trained {self.model.key[:8]}"


class GivenFile(BaseModel, frozen=True, extra="forbid"):
    """A file of the user in a configuration: found by its path, identified by its content."""

    path: str
    sha256: str

    @classmethod
    def of(cls, path: str | Path) -> "GivenFile":
        if not Path(path).is_file():
            raise InputError(f"{path}: no such file")
        return cls(path=str(path), sha256=sha256(path))

    def open(self) -> Path:
        """Its path; InputError where it is gone, or has changed since it was planned."""
        if self.of(self.path) != self:
            raise InputError(
                f"{self.path} is not the file that was planned: its content changed. Plan again"
            )
        return Path(self.path)


class GivenVectors(QueryVectors):
    """From files: one for each set of queries, or one Parquet for all.

    A `.npy` holds float[n, d], a row for each query in the order of its set; a Parquet has columns
    query_id and vector.
    """

    files: tuple[GivenFile, ...]  # of the training queries, then of each set of test queries

    @classmethod
    def of(
        cls, paths: Sequence[str | Path], train: Queries, test: tuple[Queries, ...] = ()
    ) -> "GivenVectors":
        n_sets = 1 + len(test)
        if len(paths) not in (1, n_sets):
            raise InputError(
                f"given vectors: {len(paths)} files for {n_sets} sets of queries; one each"
            )
        files = tuple(map(GivenFile.of, paths)) * (n_sets // len(paths))
        return cls(files=files, train=train, test=test)

    def vectors(self, store: Store) -> Iterator[np.ndarray]:
        first = None  # path and dimensions of the training queries' vectors
        for file, queries in zip(self.files, (self.train, *self.test), strict=True):
            found = _of_set(file.open(), queries)
            first = first or (file.path, found.shape[1])
            if found.shape[1] != first[1]:
                told = (
                    f"vectors of {found.shape[1]} dimensions, those of {first[0]} have {first[1]}"
                )
                raise InputError(f"{file.path}: {told}; encode all with one model")
            yield found

    def title(self) -> str:
        return f"vectors · {self.train.source.spec} · {Path(self.files[0].path).name}"

    def megabytes(self) -> float:
        return sum(Path(file.path).stat().st_size for file in set(self.files)) / 1e6


def _of_set(path: Path, queries: Queries) -> np.ndarray:
    """The vectors of a set; a .npy has a row for each query of its split, also for those that can
    train nothing.
    """
    every = queries.model_copy(update={"relevance": 0})
    if path.suffix != ".npy" or not queries.relevance:
        return vectors_of(path, queries.ids())
    return vectors_of(path, every.ids())[pd.Index(every.ids()).isin(queries.ids())]


def vectors_of(path: Path, query_ids: Sequence[str]) -> np.ndarray:
    """float32[n, d] of these queries; InputError where the file holds no such matrix or lacks a
    query.
    """
    ids = pd.Index(query_ids)
    try:
        if path.suffix == ".npy":
            found = np.asarray(np.load(path, allow_pickle=False))
        else:
            table = pq.read_table(path, columns=["query_id", "vector"]).to_pandas()
            ids, found = (
                pd.Index(table["query_id"].astype(str)),
                np.stack(table["vector"].to_numpy()),
            )
    except (
        OSError,
        EOFError,
        ValueError,
        KeyError,
        TypeError,
        NotImplementedError,
        MemoryError,
    ) as error:
        raise InputError(
            f"{path}: no vectors of one length ({error}); give a .npy of floats, or a Parquet with query_id and vector"
        ) from None
    if wrong := [*pd.Index(query_ids).difference(ids), *ids[ids.duplicated()]]:
        raise InputError(f"{path}: {len(wrong)} queries have no vector or two: {offenders(wrong)}")
    found = found if path.suffix == ".npy" else found[ids.get_indexer(query_ids)]
    if (
        found.ndim != 2
        or len(found) != len(query_ids)
        or found.dtype.kind != "f"
        or not np.isfinite(found).all()
    ):
        wrong = f"{path}: {found.dtype}{list(found.shape)} for {len(query_ids)} queries"
        raise InputError(
            f"{wrong}; give a row of finite floats for each query, in the order of the set"
        )
    return found.astype(np.float32)
