"""What a user brings: vectors and runs from files, checked against the queries and the
collection.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from interextra.data.queries import Queries, Source
from interextra.data.runs import RunFile
from interextra.models.search.run import Imported
from interextra.models.search.vectors import GivenFile, GivenVectors, Vectors
from interextra.store.errors import InputError
from interextra.store.folders import Store

SPEC = "mini:n_train=400,n_dev=40"


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "outputs" / "cells")


@pytest.fixture(scope="module")
def dev():
    return Queries(source=Source.of(SPEC), split="dev")


@pytest.fixture(scope="module")
def train():
    return Queries(source=Source.of(SPEC), split="train", limit=30)


@pytest.fixture
def frame(dev):
    """Three passages for each query, in no order."""
    doc_ids, draw = (
        np.array(dev.source.open().passages.doc_ids.to_pylist()),
        np.random.default_rng(1),
    )
    return pd.concat(
        pd.DataFrame(
            {
                "query_id": query,
                "doc_id": draw.choice(doc_ids, 3, replace=False),
                "score": draw.random(3),
            }
        )
        for query in dev.ids()
    )


def imported(path, dev, frame, **options):
    RunFile.from_frame(frame).write_trec(path / "theirs.trec")
    return Imported(file=GivenFile.of(path / "theirs.trec"), queries=(dev,), **options)


def test_imported_run_is_a_ranking_like_others(store, tmp_path, dev, frame):
    theirs, two = imported(tmp_path, dev, frame), imported(tmp_path, dev, frame, depth=2)
    for cell in (theirs, two):
        store.build(cell)
    expected = RunFile.from_frame(frame).frame()
    found = theirs.read(store, dev).frame()
    assert found[["query_id", "doc_id", "rank"]].equals(expected[["query_id", "doc_id", "rank"]])
    assert two.read(store, "dev").frame()["rank"].max() == 2
    assert (theirs.log(store), theirs.recipe) == ({}, None)


def test_imported_run_is_identified_by_its_content(store, tmp_path, dev, frame):
    theirs = imported(tmp_path, dev, frame)
    other = imported(tmp_path, dev, frame.assign(score=-frame["score"]))
    assert theirs.file.path == other.file.path and theirs.key != other.key
    with pytest.raises(InputError, match="is not the file that was planned"):
        store.build(theirs)
    with pytest.raises(InputError, match="no such file"):
        GivenFile.of(tmp_path / "none.trec")


def test_what_does_not_belong_is_named_in_one_error(store, tmp_path, dev, frame):
    ids = dev.ids()
    wrong = frame[~frame["query_id"].isin(ids[:2])].reset_index(drop=True)
    wrong.loc[0, "doc_id"] = "d-unknown"
    wrong = pd.concat(
        [
            wrong,
            pd.DataFrame({"query_id": ["q-unknown"], "doc_id": wrong["doc_id"][1], "score": 1.0}),
        ]
    )
    with pytest.raises(InputError) as caught:
        store.build(imported(tmp_path, dev, wrong))
    said = str(caught.value)
    assert "1 query_ids are not among the queries: 'q-unknown'" in said
    assert "2 queries are missing (missing_queries allows it)" in said and repr(ids[0]) in said
    assert "1 doc_ids are not in the collection: 'd-unknown'" in said


def test_missing_queries_are_allowed_by_name_only(store, tmp_path, dev, frame):
    fewer = frame[~frame["query_id"].isin(dev.ids()[:2])]
    with pytest.raises(InputError, match="2 queries are missing"):
        store.build(imported(tmp_path, dev, fewer))
    cell = imported(tmp_path, dev, fewer, missing_queries=True)
    store.build(cell)
    assert set(cell.read(store, dev).query_ids) == set(dev.ids()[2:])


@pytest.mark.parametrize("form", ["npy", "parquet"])
def test_given_vectors_are_read_in_the_order_of_the_queries(store, tmp_path, train, dev, form):
    vectors = {part: np.random.default_rng(1).random((part.size(), 5)) for part in (train, dev)}
    if form == "npy":
        paths = [tmp_path / "train.npy", tmp_path / "dev.npy"]
        for path, found in zip(paths, vectors.values(), strict=True):
            np.save(path, found)
    else:
        paths = [tmp_path / "all.parquet"]
        rows = [
            (query, list(row))
            for part, found in vectors.items()
            for query, row in zip(part.ids(), found, strict=True)
        ]
        ids, values = zip(*rows[::-1], strict=True)  # the order of the file does not matter
        pq.write_table(pa.table({"query_id": list(ids), "vector": list(values)}), paths[0])
    cell = GivenVectors.of(paths, train, (dev,))
    store.build(cell)
    for found, part in zip(cell.read(store), (train, dev), strict=True):
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, vectors[part].astype(np.float32))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (np.zeros((29, 5)), r"float64\[29, 5\] for 30 queries"),
        (np.zeros(30), r"float64\[30\] for 30 queries"),
        (np.zeros((30, 5), dtype=int), r"int64\[30, 5\] for 30 queries"),
        (np.full((30, 5), np.nan), "finite floats"),
        (np.array([["a"]], dtype=object), "no vectors of one length"),
    ],
)
def test_what_is_no_matrix_of_the_queries_is_one_clear_error(
    store, tmp_path, train, found, message
):
    np.save(tmp_path / "train.npy", found)
    with pytest.raises(InputError, match=message):
        store.build(GivenVectors.of([tmp_path / "train.npy"], train))


def test_parquet_without_a_query_or_of_several_lengths_is_refused(store, tmp_path, train, dev):
    path, ids = tmp_path / "train.parquet", train.ids()
    for rows, message in (
        (
            [(query, [0.5, 1.0]) for query in ids[1:]],
            f"1 queries have no vector or two: '{ids[0]}'",
        ),
        (
            [(query, [0.5] * (1 + place % 2)) for place, query in enumerate(ids)],
            "no vectors of one length",
        ),
    ):
        names, values = zip(*rows, strict=True)
        pq.write_table(pa.table({"query_id": list(names), "vector": list(values)}), path)
        with pytest.raises(InputError, match=message):
            store.build(GivenVectors.of([path], train))
    with pytest.raises(InputError, match="2 files for 3 sets of queries"):
        GivenVectors.of([path, path], train, (dev, dev))


def test_vectors_of_two_sets_of_one_name_are_kept_apart(store, dev, train):
    """The training queries may come from `dev` and be tested by `train`, or by another sample of
    themselves.
    """
    other = Queries(source=dev.source, split="dev", limit=7, seed=5)
    found = {}
    for test in ((train,), (other,), (other, train)):
        cell = Vectors(encoder="lsa", train=dev, test=test)
        store.build(cell)
        found[test] = cell.read(store)
        assert [len(part) for part in found[test]] == [
            dev.size(),
            sum(part.size() for part in test),
        ]
    same = [found[test][0] for test in found]
    assert np.array_equal(same[0], same[1]) and np.array_equal(same[0], same[2])
    assert np.array_equal(
        found[other, train][1], np.concatenate([found[other,][1], found[train,][1]])
    )
    assert np.array_equal(
        found[other,][1], same[0][[dev.ids().index(query_id) for query_id in other.ids()]]
    )
