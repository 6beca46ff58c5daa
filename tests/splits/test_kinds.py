"""Kinds of passages: clusters of passages, and each query in the cluster of its first answer."""

import json

import numpy as np
import pandas as pd
import pytest

from interextra.data.queries import Queries, Source
from interextra.models.search.vectors import PassageVectors
from interextra.splits.kinds import PassageKinds
from interextra.splits.shift import OUTSIDE, Shift
from interextra.store import Cell, InputError, Store
from interextra.store.cells import config_of, from_config

WORDS = {"sky": ("comet", "nebula", "quasar"), "plant": ("tulip", "willow", "clover")}
N_OF_KIND = {"sky": 9, "plant": 5}


class Drawn(Cell):
    """Stands for vectors of passages: two directions, by the first letter of the doc_id."""

    source: Source

    def modules(self):
        return ("interextra.splits.similarity",)

    def build(self, folder, store):
        doc_ids = self.source.open().passages.doc_ids.to_pylist()
        is_sky = np.array([doc_id.startswith("sky") for doc_id in doc_ids])
        directions = np.array([[1.0, 0.1], [0.1, 1.0]], np.float32)
        np.save(folder / "passages.npy", directions[is_sky.astype(int)])

    def read(self, store):
        return np.load(store[self] / "passages.npy")


@pytest.fixture
def spec(tmp_path):
    """Write passages of two kinds; the answer of tN and dN is passage N of its kind."""
    folder = tmp_path / "kinds"
    (folder / "qrels").mkdir(parents=True)
    names = [f"{kind}-{number}" for kind, n in N_OF_KIND.items() for number in range(n)]
    corpus = [{"_id": name, "text": " ".join(WORDS[name.split("-")[0]])} for name in names]
    ids = [f"{split}-{name}" for split in ("train", "test") for name in names]
    ids += ["train-none", "test-none", "train-both"]
    queries = [{"_id": query_id, "text": f"which is {query_id}"} for query_id in ids]
    for stem, rows in (("corpus", corpus), ("queries", queries)):
        lines = [json.dumps(row) + "\n" for row in rows]
        (folder / f"{stem}.jsonl").write_text("".join(lines))
    for split in ("train", "test"):
        lines = ["query-id\tcorpus-id\tscore"]
        lines += [f"{split}-{name}\t{name}\t1" for name in names]
        lines.append(f"{split}-none\tsky-0\t0")
        if split == "train":  # judged as not relevant first, then relevant to two kinds
            lines += [f"train-both\t{name}" for name in ("sky-0\t0", "plant-0\t1", "sky-1\t2")]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return f"beir:{folder}"


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "outputs" / "cells")


def kinds(spec, k=2) -> PassageKinds:
    source = Source.of(spec)
    pool = Queries(source=source, split="train").trainable()
    return PassageKinds(vectors=Drawn(source=source), pool=pool, k=k, seed=1)


def test_the_kind_with_most_passages_comes_first(spec, store):
    cell = kinds(spec)
    store.build(cell)
    passages = cell.pool.source.open().passages.doc_ids.to_pylist()
    is_sky = [doc_id.startswith("sky") for doc_id in passages]
    assert cell.names == ("kind 1", "kind 2")
    assert cell.is_of("kind 1", store).tolist() == is_sky
    assert (cell.is_of("kind 2", store) == ~cell.is_of("kind 1", store)).all()


def test_a_query_is_of_the_kind_of_its_first_relevant_passage(spec, store):
    cell = kinds(spec)
    store.build(cell)
    for split, labels in (("train", cell.labels(store)), ("test", cell.labels_of("test", store))):
        queries = cell.pool if split == "train" else Queries(source=cell.pool.source, split=split)
        expected = []
        for query_id in queries.ids():
            is_of_first = "sky" in query_id
            is_answered = not query_id.endswith("none")
            expected.append(("kind 1" if is_of_first else "kind 2") if is_answered else "")
        assert labels.tolist() == expected
    assert "train-both" in cell.pool.ids() and "train-none" not in cell.pool.ids()


def test_a_query_whose_answer_is_no_passage_is_of_no_kind(spec, store):
    """It was of the kind of the last passage."""
    cell = kinds(spec)
    store.build(cell)
    qrels = pd.DataFrame({"query_id": ["q"], "doc_id": ["sky-99"], "relevance": [1]})
    with pytest.raises(InputError, match="qrels: 1 doc_ids are not in the collection: 'sky-99'"):
        cell._of_answers(["q"], qrels, store)


def test_a_shift_by_kinds_tests_another_split(spec, store):
    cell = kinds(spec)
    shift = Shift(by=cell, pool=cell.pool, n_test=0, train_size=4, seed=1)
    assert shift.parts() == ("without-kind 1", "without-kind 2")
    store.build(shift)
    sets = shift.sets(store)
    assert {name: len(ids) for name, ids in sets.items()} == dict.fromkeys(shift.parts(), 4)
    assert all("sky" in query_id for query_id in sets["without-kind 2"])
    assert not any("sky" in query_id for query_id in sets["without-kind 1"])
    strata = shift.strata(store, ["test"])
    assert strata.index.tolist() == Queries(source=cell.pool.source, split="test").ids()
    assert strata["test-none"] == OUTSIDE
    assert strata.drop("test-none").isin(cell.names).all()
    assert strata["test-sky-3"] == "kind 1" and strata["test-plant-3"] == "kind 2"


def test_a_note_makes_the_same_cell_again(spec):
    cell = kinds(spec)
    shift = Shift(by=cell, pool=cell.pool, n_test=0)
    assert shift.needs() == (cell,)
    assert from_config(config_of(shift)) == shift
    assert kinds(spec, k=3).key != cell.key


def test_impossible_kinds_are_refused(spec):
    for k in (1, 15):
        with pytest.raises(InputError, match=f"k={k} kinds of passages: 14 passages"):
            kinds(spec, k)
    cell = kinds(spec)
    with pytest.raises(InputError, match="take the same collection"):
        PassageKinds(vectors=Drawn(source=Source.of("mini:n_train=600")), pool=cell.pool, k=2)
    with pytest.raises(InputError, match="no kind 'kind 3'; there are kind 1, kind 2"):
        Shift(by=cell, pool=cell.pool, n_test=0, clusters=("kind 1", "kind 3")).size_of("without")
    other = Queries(source=cell.pool.source, split="test")
    with pytest.raises(InputError, match="by kinds of other queries"):
        Shift(by=cell, pool=other, n_test=0)


def test_passages_are_encoded_block_by_block_in_their_order(spec, store, monkeypatch):
    cell = PassageVectors(encoder="lsa", source=Source.of(spec))
    texts = cell.source.open().passages.texts(slice(None))
    monkeypatch.setattr("interextra.models.search.vectors.ENCODED_BLOCK", 4)
    store.build(cell)
    expected = cell.open(texts, store).encode_queries(texts)
    np.testing.assert_allclose(cell.read(store), expected, atol=1e-6)
    assert cell.read(store).dtype == np.float32
    assert cell.seconds() > 0 and cell.megabytes() > 0 and cell.device() == "cpu"
