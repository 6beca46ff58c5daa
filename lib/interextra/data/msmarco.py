"""The queries of MS MARCO and TREC DL from their official files, without passages."""

import hashlib
from functools import cached_property
from pathlib import Path

import pandas as pd

from interextra.data.collection import no_split, rows_of
from interextra.data.trec import read_qrels, read_queries_tsv
from interextra.store import InputError, sha256

TRAIN_FILES = ("queries.train.tsv", "queries.train.tsv.gz", "queries.train.partial.tsv.gz")
TEST_FILES = {
    "dl19": ("topics.dl19-passage.txt", "qrels.dl19-passage.txt"),
    "dl20": ("topics.dl20.txt", "qrels.dl20-passage.txt"),
    "dev": ("topics.msmarco-passage.dev-subset.txt", "qrels.msmarco-passage.dev-subset.txt"),
}


class QuerySets:
    """Training, dev and judged DL queries of MS MARCO, like a Collection without passages.

    `FOLDER/msmarco` holds the official `queries.train.tsv` (or a part of it), and Anserini's
    `topics.*`, `qrels.*`.
    """

    name = "MS MARCO queries"
    passages = ()
    splits = ("train", *TEST_FILES)

    def __init__(self, folder: str | Path, spec: str):
        self.folder = Path(folder) / "msmarco"
        self.spec = spec
        paths = [self.folder / name for name in TRAIN_FILES]
        present = [path for path in paths if path.is_file()]
        if not present:
            raise InputError(
                f"{self.folder}: no training queries; put the official queries.train.tsv there"
            )
        self._train_file = present[0]

    def queries(self, split: str) -> pd.DataFrame:
        """Return query_id, text.

        Of a test set these are the queries with judgements, as the papers use them (43, 54, 6,980).
        """
        if split == "train":
            return self._training.copy(deep=False)  # copied where it is written to
        if split not in TEST_FILES:
            raise no_split(self.name, split, self.splits)
        topics_name, _ = TEST_FILES[split]
        topics = read_queries_tsv(self.folder / topics_name)
        return rows_of(topics, self.qrels(split)["query_id"])

    def qrels(self, split: str) -> pd.DataFrame:
        """Return the judgements of a test set: query_id, doc_id, relevance."""
        _, qrels_name = TEST_FILES[split]
        return read_qrels(self.folder / qrels_name)

    def query_ids(self, split: str) -> list[str]:
        """Return the ids of the queries of a split."""
        return self.queries(split)["query_id"].tolist()

    @cached_property
    def _training(self) -> pd.DataFrame:
        """All training queries with text, less those that are test queries."""
        training = read_queries_tsv(self._train_file)
        test_ids = pd.concat([self.queries(split)["query_id"] for split in TEST_FILES])
        return training[~training["query_id"].isin(test_ids)].reset_index(drop=True)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the bytes of all files that are read."""
        paths = [self._train_file]
        for names in TEST_FILES.values():
            paths += [self.folder / name for name in names]
        total = hashlib.sha256()
        for path in paths:
            total.update(path.name.encode())
            total.update(bytes.fromhex(sha256(path)))
        return total.hexdigest()
