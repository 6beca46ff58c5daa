"""Notebook 12: the training sets of a split as the trainers of others read them."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from interextra.data.collection import Collection
from interextra.data.queries import Source
from interextra.data.texts import same_text
from interextra.data.trec import BEIR_HEADER, QRELS_COLUMNS
from interextra.models.training.pairs import Pairs, exposed_passages, training_pairs
from interextra.papers import released
from interextra.splits.split import Split
from interextra.store import InputError, Store, offenders

HELD_OUT = "held-out"  # a set of test queries
BATCH = 10_000  # passages whose texts are read at once


class Training(NamedTuple):
    """A training set: the pairs, and random negatives of each."""

    data: Collection
    pairs: Pairs
    negatives: np.ndarray  # int64[pairs, n], rows of the passages
    exposed: np.ndarray  # bool[passages], see `exposed_passages`

    @classmethod
    def of(
        cls, split: Split, ids: Sequence[str], n: int, spare: bool, name: str = ""
    ) -> "Training":
        """Negatives are drawn from all passages but the relevant ones of the query and, with
        `spare`, exposed ones.

        A passage of the same text as another (see `data.texts`) is relevant, or exposed, where the
        other is. A query without a passage that could be its negative is left out of the set
        `name`, which is said on standard error; InputError: where no other is left.
        """
        data = split.pool.source.open()
        pairs, group = (
            training_pairs(data, ids, split.pool.split, relevance=1),
            groups_by_text(split.pool.source),
        )
        is_taught = np.isin(group, group[pairs.rows])
        exposed = np.isin(group, group[exposed_passages(data, pairs, relevance=1)]) & ~is_taught
        allowed = np.flatnonzero(~exposed) if spare else np.arange(len(exposed))
        pairs = _with_negatives(pairs, group, allowed, spare, name)
        n_groups, draw = group.max() + 1, np.random.default_rng(split.seed)
        drawn, relevant = (
            draw.choice(allowed, (len(pairs.rows), n)),
            pairs.query * n_groups + group[pairs.rows],
        )
        while (wrong := np.isin(pairs.query[:, None] * n_groups + group[drawn], relevant)).any():
            drawn[wrong] = draw.choice(allowed, wrong.sum())
        return cls(data, pairs, drawn, exposed)

    def ids(self) -> pd.DataFrame:
        """query_id, positive_id, negative_id (negative_id_1 … where there are several): a row a
        pair.
        """
        names = np.asarray(self.data.passages.doc_ids.to_pylist(), dtype=object)
        frame = {"query_id": np.asarray(self.pairs.query_ids, object)[self.pairs.query]}
        frame["positive_id"], n = names[self.pairs.rows], self.negatives.shape[1]
        columns = ["negative_id"] if n == 1 else [f"negative_id_{at}" for at in range(1, n + 1)]
        return pd.DataFrame(frame | dict(zip(columns, names[self.negatives].T, strict=True)))

    def texts(self) -> pd.DataFrame:
        """anchor, positive, negative_1 …: the same rows as texts."""
        read = self.data.passages.texts
        frame = {
            "anchor": np.asarray(self.pairs.texts, object)[self.pairs.query],
            "positive": read(self.pairs.rows),
        }
        return pd.DataFrame(
            frame | {f"negative_{at}": read(rows) for at, rows in enumerate(self.negatives.T, 1)}
        )

    def by_query(self, pairs: pd.DataFrame, *names: str) -> pd.DataFrame:
        """query_id, query, positives, negatives (lists) as columns `names`: a row a query of `ids`
        or `texts`.
        """
        rows = []
        for at, part in pairs.groupby(self.pairs.query):
            negatives = pd.unique(part.iloc[:, 2:].to_numpy().ravel()).tolist()
            rows.append(
                (
                    self.pairs.query_ids[at],
                    self.pairs.texts[at],
                    part.iloc[:, 1].tolist(),
                    negatives,
                )
            )
        return pd.DataFrame(rows, columns=names)

    def tevatron(self) -> pd.DataFrame:
        return self.by_query(
            self.ids(), "query_id", "query_text", "positive_document_ids", "negative_document_ids"
        )

    def flagembedding(self) -> pd.DataFrame:
        return self.by_query(self.texts(), "query_id", "query", "pos", "neg").drop(
            columns="query_id"
        )

    def pylate(self) -> pd.DataFrame:
        """query_id, document_ids, scores: labels, 1 and 0, in the place of a teacher's scores."""
        of = self.by_query(self.ids(), "query_id", "query", "positives", "negatives")
        scores = [
            [1.0] * len(row.positives) + [0.0] * len(row.negatives) for row in of.itertuples()
        ]
        return of[["query_id"]].assign(
            document_ids=of["positives"] + of["negatives"], scores=scores
        )


@lru_cache(maxsize=2)
def groups_by_text(source: Source) -> np.ndarray:
    """A number for each passage, int64[passages], equal for those of the same text, see
    `data.texts.same_text`.
    """
    passages = source.open().passages
    return same_text(text for _, texts in passages.batches(BATCH) for text in texts)


def _with_negatives(
    pairs: Pairs, group: np.ndarray, allowed: np.ndarray, spare: bool, name: str
) -> Pairs:
    """The pairs of the queries for which some of the `allowed` passages is not relevant."""
    n_allowed = np.bincount(group[allowed], minlength=group.max() + 1)  # passages of each text
    relevant = np.unique(pairs.query * len(n_allowed) + group[pairs.rows])
    taken = np.bincount(
        relevant // len(n_allowed), n_allowed[relevant % len(n_allowed)], len(pairs.query_ids)
    )
    has_one = taken < len(allowed)
    if has_one.all():
        return pairs
    left_out = [
        query_id for query_id, is_kept in zip(pairs.query_ids, has_one, strict=True) if not is_kept
    ]
    if len(left_out) == len(has_one):
        told = "no passage is left for a negative; give a larger set" + ", or no --spare" * spare
        raise InputError(f"query {offenders(left_out)}: {told}")
    what = "relevant or exposed" if spare else "relevant"
    told = f"without {len(left_out)} queries to which every passage is {what}, so that they have no negative"
    print(f"{name}: {told}: {offenders(left_out)}", file=sys.stderr, flush=True)
    kept, number = has_one[pairs.query], np.cumsum(has_one) - 1
    ids, texts = (
        np.asarray(one, object)[has_one].tolist() for one in (pairs.query_ids, pairs.texts)
    )
    return Pairs(ids, texts, number[pairs.query[kept]], pairs.rows[kept])


# The folder of `datasets`, or .jsonl, of a format in that of each set, and its rows: `ids` for
# sentence-transformers' `resolve_ids`, `pylate-kd` for PyLate's `KDProcessing`; `beir` and
# `released` hold all sets.
ROWS: dict[str, Callable] = {
    "ids": Training.ids,
    "st": Training.texts,
    "pylate-kd": Training.pylate,
}
ROWS |= {"tevatron.jsonl": Training.tevatron, "flagembedding.jsonl": Training.flagembedding}
FORMATS = (*(file.removesuffix(".jsonl") for file in ROWS), "beir", "released")
# What a format needs beside the sets: the passages, by what it calls their ids, or the training
# queries ("").
ONCE = {
    "ids": {"queries": "", "corpus": "passage_id"},
    "tevatron": {"tevatron-corpus.jsonl": "docid"},
}
ONCE |= {
    "pylate-kd": {"pylate-queries": "", "pylate-documents": "document_id"},
    "beir": {"beir/corpus.jsonl": "_id"},
}


def as_released(split: Split, store: Store, folder: Path) -> list[Path]:
    """Write a computed split as Zhan et al. and Lupart et al. released theirs; returns the
    paths.
    """
    sets = {name: ids for name, ids in split.sets(store).items() if name != HELD_OUT}
    paths = released.export_split(
        "restrain", sets, split.pool.frame(store), split.pool.qrels(store), folder
    )
    if split.release:
        strata = split.strata(store)
        sets = {str(name): part.index.tolist() for name, part in strata.groupby(strata)}
        parts = zip(
            *((queries.frame(store), queries.qrels(store)) for queries in split.tested), strict=True
        )
        paths += released.export_split(split.release, sets, *map(pd.concat, parts), folder)
    return paths


def write(
    name: str,
    out: Path,
    split: Split,
    store: Store,
    sets: Mapping[str, Training],
    qrels: pd.DataFrame,
) -> None:
    """Write the sets in a format; `qrels`: of the test queries."""
    from datasets import Dataset, disable_progress_bars
    from datasets.table import InMemoryTable

    disable_progress_bars()
    data, queries, pool = (
        split.pool.source.open(),
        split.pool.frame()[["query_id", "text"]],
        split.pool.qrels(),
    )

    def put(found: pd.DataFrame, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        found = (
            Dataset.from_pandas(found, preserve_index=False)
            if isinstance(found, pd.DataFrame)
            else found
        )
        found.to_json(path, force_ascii=False) if path.suffix == ".jsonl" else found.save_to_disk(
            path
        )

    for file, doc_id in ONCE.get(name, {}).items():
        table = data.passages.table.rename_columns([doc_id or "doc_id", "text"])
        put(Dataset(InMemoryTable(table)) if doc_id else queries, out / file)
    for file in (file for file in ROWS if file.removesuffix(".jsonl") == name):
        for part, made in sets.items():
            put(ROWS[file](made), out / part / file)
    if name == "beir":
        every = pd.concat([data.queries(part) for part in data.splits]).drop_duplicates("query_id")
        put(
            every[["query_id", "text"]].set_axis(["_id", "text"], axis=1),
            out / "beir/queries.jsonl",
        )
        judged = {
            part: pool[pool["query_id"].isin(made.pairs.query_ids)] for part, made in sets.items()
        }
        (out / "beir/qrels").mkdir()
        for part, found in (judged | {"test": qrels}).items():
            found[QRELS_COLUMNS].to_csv(
                out / f"beir/qrels/{part}.tsv", sep="\t", index=False, header=BEIR_HEADER
            )
    elif name == "released":
        as_released(split, store, out)
