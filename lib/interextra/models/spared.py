"""Passages that are never negatives, where one kind of query is left out of training."""

import json
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from interextra.data.collection import Collection
from interextra.ground.cells import Cell, Store
from interextra.ground.files import write_json
from interextra.models.pairs import exposed_passages, training_pairs
from interextra.splits import attributes
from interextra.splits.shift import Shift


class Spared(Cell):
    """`doc_ids.json`: some of the passages that are exposed where a kind of query is left out, or as many others.

    `which`: kind, those that answer the left-out kind; other kinds, all others; answers, those of the test queries.
    """

    shift: Shift
    left_out: str
    which: Literal["kind", "other kinds", "answers"]
    control: int | None = None  # seed: as many random passages of the collection in their place

    def build(self, folder: Path, store: Store) -> None:
        data, split, sets = self.shift.pool.source.open(), self.shift.pool.split, self.shift.sets(store)
        pairs = training_pairs(data, sets[f"without-{self.left_out}"], split, relevance=1)
        chosen = exposed_passages(data, pairs, relevance=1)  # bool[passages]
        rows = {which: data.passages.rows(self._answers(data, sets, which)) for which in ("kind", "answers")}
        inside = np.isin(np.arange(len(chosen)), rows["answers" if self.which == "answers" else "kind"])
        chosen &= ~inside if self.which == "other kinds" else inside
        if self.control is not None:
            drawn = np.random.default_rng(self.control).choice(len(chosen), chosen.sum(), replace=False)
            chosen = np.isin(np.arange(len(chosen)), drawn)
        write_json(folder / "doc_ids.json", pd.Series(data.passages.doc_ids.to_pylist())[chosen].tolist())

    def _answers(self, data: Collection, sets: dict[str, list[str]], which: str) -> list[str]:
        """doc_ids that answer the left-out kind, in any split, or the test queries."""
        found = []
        for split in data.splits:
            queries, qrels = data.queries(split), data.qrels(split)
            of_kind = queries["query_id"][attributes.labels(queries, self.shift.by) == self.left_out]
            wanted = of_kind if which == "kind" else sets["held-out"] if split == self.shift.pool.split else []
            found += qrels.loc[(qrels["relevance"] >= 1) & qrels["query_id"].isin(wanted), "doc_id"].tolist()
        return found

    def read(self, store: Store) -> list[str]:
        return json.loads((store[self] / "doc_ids.json").read_text(encoding="utf-8"))
