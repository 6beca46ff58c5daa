"""Vectors of queries as cells, and of the passages of a collection.

They are made by an encoder without training of ours; those of queries also by a trained model, or
they come from a user's files.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from pydantic import BaseModel

from interextra.data.queries import Queries, Source
from interextra.models.base import initialisation_digest, is_named, refuse_unfetched
from interextra.models.encoders import encoder_of
from interextra.models.model import Model, OfModel, refuse_changed
from interextra.models.prices import (
    FLOAT32_MEGABYTES,
    PASSAGE_TOKENS,
    QUERY_MEGABYTES,
    QUERY_TOKENS,
    Size,
    size_of,
)
from interextra.store import Cell, InputError, Store, offenders, sha256

ENCODED_BLOCK = 4096  # passages whose texts are in memory at once
FITTED_PASSAGES = 100_000
# What numpy, Arrow and pandas raise of a file that holds no vectors
UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
    NotImplementedError,
    MemoryError,
)


class QueryVectors(Cell):
    """Vectors of training queries, and of sets of test queries.

    The files `train.npy`, `test1.npy`, `test2.npy`, … hold float32[n, d]. They are named by the
    place of a set: two sets may have one name, and a tested split may be called `train`.
    """

    travels: ClassVar[tuple[str, ...]] = ()
    train: Queries
    test: tuple[Queries, ...] = ()

    @abstractmethod
    def vectors(self, store: Store) -> Iterator[np.ndarray]:
        """Yield the vectors of the training queries, then of each set of test queries."""

    def build(self, folder: Path, store: Store) -> None:
        """Write a file for each set of queries."""
        for name, vectors in zip(self._file_names(), self.vectors(store), strict=True):
            np.save(folder / name, vectors)

    def read(self, store: Store) -> tuple[np.ndarray, np.ndarray]:
        """Return the vectors of the training and of the test queries.

        Returns
        -------
        train : float32[n_train, d]
        test : float32[n_test, d]
            One set after the other.
        """
        folder = store[self]
        train, *tests = [np.load(folder / name) for name in self._file_names()]
        no_vectors = train[:0]
        return train, np.concatenate([no_vectors, *tests])

    def _sets(self) -> tuple[Queries, ...]:
        return (self.train, *self.test)

    def _file_names(self) -> list[str]:
        places = range(1, len(self.test) + 1)
        return ["train.npy", *(f"test{place}.npy" for place in places)]


class Encodings(QueryVectors):
    """Vectors of queries by something that encodes them."""

    @abstractmethod
    def open(self, texts: Sequence[str], store: Store) -> Any:
        """Return what has `encode_queries(texts)` → float32[n, d].

        `texts` are those of the training queries, which some encoders are fitted on.
        """

    @abstractmethod
    def size(self) -> Size:
        """Return the size of the encoder, by which it is priced."""

    def vectors(self, store: Store) -> Iterator[np.ndarray]:
        """Encode the training queries, then each set of test queries."""
        texts = [queries.frame()["text"].tolist() for queries in self._sets()]
        encoder = self.open(texts[0], store)
        return map(encoder.encode_queries, texts)

    def device(self) -> str:
        """Return what computes it: `cpu` or `gpu`."""
        return self.size().device

    def memory(self) -> float:
        """Return the estimated megabytes of memory at the peak."""
        queries = self.n_queries() * QUERY_MEGABYTES + 2 * self.megabytes()
        encoding = self.size().searching_megabytes()
        return super().memory() + encoding + self.train.source.memory() + queries

    def seconds(self) -> float:
        """Return the estimated seconds on its device."""
        return self.n_queries() * QUERY_TOKENS / self.size().encode_tokens

    def megabytes(self) -> float:
        """Return the estimated size on disk."""
        return self.n_queries() * self.size().dimension * FLOAT32_MEGABYTES

    def n_queries(self) -> int:
        """Return the number of queries in all sets."""
        return sum(queries.size() for queries in self._sets())


class ByEncoder(Cell):
    """What is encoded without training of ours, see `encoders`."""

    encoder: str  # lsa, minilm, cls:INITIALISATION
    start: str = ""  # of a folder: what it holds, by content, set where this is planned

    def __init__(self, **fields: Any) -> None:
        if not fields.get("start"):
            fields["start"] = self._content_digest(fields.get("encoder"))
        super().__init__(**fields)

    @staticmethod
    def _content_digest(encoder: Any) -> str:
        """Return the digest of an encoder's folder; "" for all that its name tells apart.

        InputError where the folder is not there.
        """
        if not isinstance(encoder, str):  # which the type of the field refuses
            return ""
        _, option = encoder_of(encoder)
        content = initialisation_digest(option)
        return "" if is_named(option) or content == option else content

    def open(self, texts: Sequence[str], store: Store) -> Any:
        """Return the encoder; InputError where its folder has changed since it was planned."""
        kind, option = encoder_of(self.encoder)
        refuse_unfetched(option)
        content = self._content_digest(self.encoder)
        refuse_changed(self.start, content, f"encoder {self.encoder}")
        return kind(option, texts)

    def size(self) -> Size:
        """Return the size of the encoder, by which it is priced."""
        kind, option = encoder_of(self.encoder)
        return size_of(option or kind.SIZE)

    def modules(self) -> tuple[str, ...]:
        """Name the encoder's class, which decides the result, too."""
        kind, _ = encoder_of(self.encoder)
        return (*super().modules(), f"{kind.__module__}:{kind.__name__}")


class Vectors(ByEncoder, Encodings):
    """Vectors of queries by an encoder without training of ours."""

    def title(self) -> str:
        """Return what a reader calls it."""
        return f"vectors · {self.train.source.spec} · {self.encoder}"


class PassageVectors(ByEncoder):
    """Vectors of a collection's passages by an encoder without training of ours.

    `passages.npy` holds float32[n, d]. A passage is encoded as a query is: `minilm` reads its first
    256 tokens, `cls` its first 64. `lsa` is fitted on the first FITTED_PASSAGES.
    """

    travels: ClassVar[tuple[str, ...]] = ()
    source: Source

    def build(self, folder: Path, store: Store) -> None:
        """Encode the passages block by block into the file."""
        passages = self.source.open().passages
        some_texts = passages.texts(slice(FITTED_PASSAGES))
        encode = self.open(some_texts, store).encode_queries
        blocks = map(encode, (texts for _, texts in passages.batches(ENCODED_BLOCK)))
        write_vectors(folder / "passages.npy", len(passages), blocks)

    def read(self, store: Store) -> np.ndarray:
        """Return the vectors, float32[n_passages, d], on disk until they are used."""
        return np.load(store[self] / "passages.npy", mmap_mode="r")

    def title(self) -> str:
        """Return what a reader calls it."""
        return f"vectors · passages of {self.source.spec} · {self.encoder}"

    def device(self) -> str:
        """Return what computes it: `cpu` or `gpu`."""
        return self.size().device

    def seconds(self) -> float:
        """Return the estimated seconds on its device."""
        return self.source.n_passages() * PASSAGE_TOKENS / self.size().encode_tokens

    def memory(self) -> float:
        """Return the estimated megabytes of memory at the peak."""
        return super().memory() + self.size().searching_megabytes() + self.source.memory()

    def megabytes(self) -> float:
        """Return the estimated size on disk."""
        return self.source.n_passages() * self.size().dimension * FLOAT32_MEGABYTES


def write_vectors(path: Path, n_rows: int, blocks: Iterable[np.ndarray]) -> None:
    """Write vectors float32[n_rows, d], which come in blocks of rows, to a .npy."""
    start = 0
    for block in blocks:
        if start == 0:  # the first block tells the dimension
            shape = (n_rows, block.shape[1])
            vectors = np.lib.format.open_memmap(path, "w+", np.float32, shape)
        vectors[start : start + len(block)] = block
        start += len(block)
    vectors.flush()


class TrainedVectors(OfModel, Encodings):
    """Vectors of queries by a trained model that encodes them."""

    model: Model

    def open(self, texts: Sequence[str], store: Store) -> Any:
        """Return the trained model."""
        return self.open_model(store)

    def size(self) -> Size:
        """Return the size of the encoder, by which it is priced."""
        return self.recipe.size

    def title(self) -> str:
        """Return what a reader calls it."""
        model = self.model.key[:8]
        return f"vectors · {self.train.source.spec} · trained {model}"


class GivenFile(BaseModel, frozen=True, extra="forbid"):
    """A file of the user in a configuration: found by its path, identified by its content."""

    path: str
    sha256: str

    @classmethod
    def of(cls, path: str | Path) -> "GivenFile":
        """Note a file; InputError where there is none."""
        if not Path(path).is_file():
            raise InputError(f"{path}: no such file")
        return cls(path=str(path), sha256=sha256(path))

    def open(self) -> Path:
        """Return its path; InputError where it is gone, or has changed since it was planned."""
        if self.of(self.path) != self:
            raise InputError(
                f"{self.path} is not the file that was planned: its content changed. Plan again"
            )
        return Path(self.path)


class GivenVectors(QueryVectors):
    """Vectors from files: one for each set of queries, or one Parquet for all.

    A `.npy` holds float[n, d], a row for each query in the order of its set; a Parquet has columns
    query_id and vector.
    """

    files: tuple[GivenFile, ...]  # of the training queries, then of each set of test queries

    @classmethod
    def of(
        cls,
        paths: Sequence[str | Path],
        train: Queries,
        test: tuple[Queries, ...] = (),
    ) -> "GivenVectors":
        """Note the files of the training queries and of each set of test queries.

        InputError for another number of files than one, or one for each set.
        """
        n_sets = 1 + len(test)
        if len(paths) not in (1, n_sets):
            raise InputError(
                f"given vectors: {len(paths)} files for {n_sets} sets of queries; one each"
            )
        files = tuple(GivenFile.of(path) for path in paths)
        if len(files) == 1:
            files *= n_sets
        return cls(files=files, train=train, test=test)

    def vectors(self, store: Store) -> Iterator[np.ndarray]:
        """Yield the vectors of each set; InputError where their dimensions differ."""
        n_dimensions = 0  # of the vectors of the training queries, which come first
        for file, queries in zip(self.files, self._sets(), strict=True):
            vectors = _vectors_of_set(file.open(), queries)
            n_dimensions = n_dimensions or vectors.shape[1]
            if vectors.shape[1] != n_dimensions:
                raise InputError(
                    f"{file.path}: vectors of {vectors.shape[1]} dimensions, those of "
                    f"{self.files[0].path} have {n_dimensions}; encode all with one model"
                )
            yield vectors

    def title(self) -> str:
        """Return what a reader calls it."""
        name = Path(self.files[0].path).name
        return f"vectors · {self.train.source.spec} · {name}"

    def megabytes(self) -> float:
        """Return the estimated size on disk: that of the files."""
        paths = {file.path for file in self.files}
        return sum(Path(path).stat().st_size for path in paths) / 1e6


def _vectors_of_set(path: Path, queries: Queries) -> np.ndarray:
    """Read the vectors of a set of queries.

    A .npy has a row for each query of its split, also for those that can train nothing.
    """
    if path.suffix != ".npy" or not queries.relevance:
        return vectors_of(path, queries.ids())
    ids_of_split = queries.model_copy(update={"relevance": 0}).ids()
    is_in_set = pd.Index(ids_of_split).isin(queries.ids())
    return vectors_of(path, ids_of_split)[is_in_set]


def vectors_of(path: Path, query_ids: Sequence[str]) -> np.ndarray:
    """Read the vectors float32[n, d] of these queries.

    Raises
    ------
    InputError
        The file holds no matrix of finite floats, or lacks a query.
    """
    try:
        if path.suffix == ".npy":
            vectors = np.asarray(np.load(path, allow_pickle=False))
        else:
            table = pq.read_table(path, columns=["query_id", "vector"]).to_pandas()
            file_ids = pd.Index(table["query_id"].astype(str))
            vectors = np.stack(table["vector"].to_numpy())
    except UNREADABLE as error:
        raise InputError(
            f"{path}: no vectors of one length ({error}); "
            "give a .npy of floats, or a Parquet with query_id and vector"
        ) from None
    if path.suffix != ".npy":
        vectors = vectors[_rows_of(query_ids, file_ids, path)]
    if not _is_finite_matrix(vectors, len(query_ids)):
        found = f"{vectors.dtype}{list(vectors.shape)}"
        raise InputError(
            f"{path}: {found} for {len(query_ids)} queries; "
            "give a row of finite floats for each query, in the order of the set"
        )
    return vectors.astype(np.float32)


def _rows_of(query_ids: Sequence[str], file_ids: pd.Index, path: Path) -> np.ndarray:
    """Return the row of each query in a file; InputError where one has none, or two."""
    missing = pd.Index(query_ids).difference(file_ids)
    repeated = file_ids[file_ids.duplicated()]
    if wrong := [*missing, *repeated]:
        raise InputError(f"{path}: {len(wrong)} queries have no vector or two: {offenders(wrong)}")
    return file_ids.get_indexer(query_ids)


def _is_finite_matrix(vectors: np.ndarray, n_rows: int) -> bool:
    if vectors.ndim != 2 or len(vectors) != n_rows:
        return False
    return vectors.dtype.kind == "f" and bool(np.isfinite(vectors).all())
