"""ReSTTest against loops that follow the paper's sentences, and against what the released buckets
are.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from toy_splits import drawn as drawn_vectors

from interextra.notebooks.n03_resttest import constant, macro
from interextra.splits.clusters import agreement, distinctive_words
from interextra.splits.resttest import ReSTTest, buckets, folds, sides
from interextra.stats.effects import effects
from interextra.store.errors import InputError
from interextra.store.folders import Store

CENTRES = np.array([[9.0, 0, 0], [0, 9, 0], [0, 0, 9], [-9, -9, 0]])
SHARES = (0.1, 0.2, 0.3, 0.4)
SEED = 10  # of k-means, with which it finds the clouds


def drawn(n, seed):
    """Four far-apart clouds of unequal size: (vectors [n, 3], cloud of each)."""
    rng = np.random.default_rng(seed)
    cloud = rng.choice(4, n, p=SHARES)
    return (CENTRES[cloud] + rng.normal(size=(n, 3))).astype(np.float32), cloud


@pytest.fixture(scope="module")
def clouds():
    return *drawn(400, seed=3), *drawn(90, seed=4)


@pytest.mark.parametrize("normalise", [True, False])
def test_clouds_are_found_and_numbered_by_training_size(clouds, normalise):
    train, train_cloud, test, test_cloud = clouds
    found = buckets(train, test, 4, seed=SEED, normalise=normalise)
    assert (
        agreement(found.test, test_cloud)["ari"] == agreement(found.train, train_cloud)["ari"] == 1
    )
    sizes = found.sizes["n_train"].tolist()
    assert (
        sizes
        == sorted(sizes, reverse=True)
        == sorted(np.bincount(train_cloud).tolist(), reverse=True)
    )
    assert found.sizes["n_test"].sum() == 90


def test_plain_k_means_reaches_the_inertia_of_scikit_learn():
    train, test = (
        np.random.default_rng(seed).normal(size=(n, 5)).astype(np.float32)
        for seed, n in ((1, 500), (2, 90))
    )
    ours = min(buckets(train, test, 4, seed, normalise=False).inertia for seed in range(20))
    theirs = KMeans(4, n_init=20, random_state=1).fit(np.concatenate([train, test]))
    assert ours == pytest.approx(theirs.inertia_, rel=5e-3)


@pytest.mark.parametrize("normalise", [True, False])
def test_every_query_is_in_the_bucket_of_its_nearest_centroid(clouds, normalise):
    train, _, test, _ = clouds
    found = buckets(train, test, 4, seed=2, normalise=normalise)
    unit = test / np.linalg.norm(test, axis=1, keepdims=True) if normalise else test
    by_hand = [[((q - c) ** 2).sum() for c in found.centroids] for q in unit]
    assert np.array_equal(np.argmin(by_hand, axis=1), found.test)
    assert np.allclose(found.distances[len(train) :], by_hand, rtol=1e-4, atol=1e-5)
    if normalise:
        assert np.allclose(np.linalg.norm(found.centroids, axis=1), 1, atol=1e-5)


def test_same_seed_gives_the_same_bytes_and_length_matters_only_without_normalise():
    train, test = (
        np.random.default_rng(seed).normal(size=(n, 6)).astype(np.float32)
        for seed, n in ((1, 700), (2, 90))
    )
    one, same, other = (buckets(train, test, 5, seed) for seed in (1, 1, 2))
    for name in ("train", "test", "centroids"):
        assert getattr(one, name).tobytes() == getattr(same, name).tobytes()
    assert not np.array_equal(one.train, other.train)
    rng = np.random.default_rng(5)  # powers of 2, so that no rounding differs
    longer = [x * rng.choice([0.5, 1, 2], (len(x), 1)).astype(np.float32) for x in (train, test)]
    assert np.array_equal(buckets(*longer, 5, 1).train, one.train)
    plain = (buckets(*pair, 5, 1, normalise=False).train for pair in ((train, test), longer))
    assert agreement(*plain)["ari"] < 0.9


def test_nothing_is_printed_or_sampled(capfd):
    train, test = (
        np.random.default_rng(seed).normal(size=(n, 4)).astype(np.float32)
        for seed, n in ((1, 1500), (2, 9))
    )
    buckets(train, test, 2, seed=1)  # faiss samples above 256 points a centroid and warns below 39
    buckets(train[:12], test, 2, seed=1)
    assert capfd.readouterr() == ("", "")
    train, _ = drawn(2000, seed=5)
    found = buckets(train, CENTRES, 4, seed=SEED, normalise=False)
    everyone, bucket = np.concatenate([train, CENTRES]), np.concatenate([found.train, found.test])
    means = [
        everyone[bucket == b].mean(axis=0) for b in range(4)
    ]  # a sample would have other means
    np.testing.assert_allclose(found.centroids, means, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 1}, "2 to 490"),
        ({"k": 491}, "2 to 490"),
        ({"test": np.array([[np.nan, 0, 1]])}, "NaN"),
        ({"test": np.zeros((2, 3))}, "no direction"),
        ({"test": np.ones((2, 2))}, "dimensions"),
        ({"test": CENTRES[:1]}, "empty bucket: no test query.*lower k or other seed"),
        ({"train": CENTRES[:1]}, "empty bucket: no training query"),
    ],
)
def test_impossible_buckets_are_refused(clouds, change, words):
    with pytest.raises(InputError, match=words):
        buckets(**{"train": clouds[0], "test": clouds[2], "k": 4, "seed": SEED, **change})


def test_folds_are_the_training_queries_outside_the_bucket(clouds):
    found = buckets(clouds[0], clouds[2], 4, seed=SEED)
    made = folds(found)
    for b, rows in enumerate(made):
        assert rows.tolist() == [row for row in range(400) if found.train[row] != b]
    smallest = min(len(rows) for rows in made)
    equal = folds(found, smallest - 10, seed=1)
    assert {len(rows) for rows in equal} == {smallest - 10}
    assert all(
        set(part) <= set(whole) and (np.diff(part) > 0).all()
        for part, whole in zip(equal, made, strict=True)
    )
    assert [rows.tolist() for rows in equal] == [
        rows.tolist() for rows in folds(found, smallest - 10, seed=1)
    ]
    with pytest.raises(InputError, match=f"of {smallest} training queries; use"):
        folds(found, smallest + 1)


def test_agreement_matches_buckets_whatever_their_numbers():
    theirs = np.repeat([1, 2, 3], [50, 30, 20])
    same = agreement(np.array([9, 7, 8])[theirs - 1], theirs)
    assert same["ari"] == same["share_matched"] == 1
    ours = theirs.copy()
    ours[:10] = 3  # ten queries of bucket 1 moved
    moved = agreement(ours, theirs)
    assert moved["share_matched"] == 0.9 and moved["ari"] < 1
    rng = np.random.default_rng(1)
    chance = [agreement(rng.permutation(ours), theirs) for _ in range(200)]
    assert abs(np.mean([c["ari"] for c in chance])) < 0.01 < np.mean([c["nmi"] for c in chance])


def test_distinctive_words_need_evidence():
    texts = ["how much does a cow cost"] * 30 + ["who was a king"] * 30 + ["how zyx"]
    words = distinctive_words(texts, [0] * 30 + [1] * 30 + [0], n=3)
    assert (
        "how" in words[0]
        and "zyx" not in words[0]
        and "who" in words[1]
        and "a" not in words[0] + words[1]
    )


@pytest.fixture(scope="module")
def cell():
    return ReSTTest(vectors=drawn_vectors(), k=3, seed=1)


@pytest.fixture(scope="module")
def store(tmp_path_factory, cell):
    store = Store(tmp_path_factory.mktemp("outputs") / "cells")
    store.build(cell)
    return store


def test_cell_holds_the_buckets_and_folds_of_the_library(cell, store):
    found, ids, sets = (
        buckets(*cell.vectors.read(store), 3, 1),
        np.array(cell.pool.ids()),
        cell.sets(store),
    )
    assert np.array_equal(np.load(store[cell] / "train.npy"), found.train)
    assert sets == {f"without-{b}": ids[rows].tolist() for b, rows in enumerate(folds(found), 1)}
    sizes = pd.read_csv(store[cell] / "sizes.csv")
    assert sizes["bucket"].tolist() == [1, 2, 3]
    assert sizes["n_train"].tolist() == np.bincount(found.train).tolist()
    asked = [query_id for part in cell.vectors.test for query_id in part.ids()]
    assert cell.strata(store).to_dict() == {
        name: str(b + 1) for name, b in zip(asked, found.test, strict=True)
    }


def test_equal_folds_and_their_estimate(cell, store):
    equal = ReSTTest(vectors=cell.vectors, k=3, fold_size=100, seed=1)
    store.build(equal)
    assert {len(ids) for ids in equal.sets(store).values()} == {100} == {equal.size_of("without-1")}
    assert cell.size_of("without-1") == 400  # two thirds of 600, before it is built


def tidy(values, bucket):
    """Values [k, n] of the models without bucket 1 to k, as a frame."""
    left_out, query = np.indices(values.shape)
    frame = {"left_out": left_out.ravel() + 1, "query_id": [f"q{at}" for at in query.ravel()]}
    frame |= {"test_set": "test", "stratum": np.tile(bucket + 1, len(values)).astype(str)}
    return pd.DataFrame(frame | {"measure": "AP", "value": values.ravel()})


def averages(values):
    table = effects(values, ["measure"], "side", ("in", "out"), "delta", n_boot=2)
    return table.loc[0, ["in", "out", "delta"]].tolist()


def by_loops(values, bucket, average):
    k, n = values.shape
    if average == "micro":
        inside = np.mean(
            [np.mean([values[b, q] for b in range(k) if b != bucket[q]]) for q in range(n)]
        )
        outside = np.mean([values[bucket[q], q] for q in range(n)])
    else:
        inside = np.mean(
            [np.mean([values[b, q] for q in range(n) if bucket[q] != b]) for b in range(k)]
        )
        outside = np.mean(
            [np.mean([values[b, q] for q in range(n) if bucket[q] == b]) for b in range(k)]
        )
    return [inside, outside, outside / inside - 1]


@pytest.mark.parametrize(("average", "prepared"), [("micro", sides), ("macro", macro)])
def test_micro_and_macro_averages_are_those_of_the_paper(average, prepared):
    rng = np.random.default_rng(6)
    values, bucket = rng.random((4, 60)), np.r_[np.arange(4), rng.choice(4, 56, p=SHARES)]
    assert averages(prepared(tidy(values, bucket))) == pytest.approx(
        by_loops(values, bucket, average)
    )
    both = pd.concat(
        [tidy(v, bucket).assign(seed=s) for s, v in ((1, values), (2, values**2))]
    ).sample(frac=1)
    for (_, of), mine in zip(prepared(both).groupby("seed"), (values, values**2), strict=True):
        assert averages(of) == pytest.approx(by_loops(mine, bucket, average))


def test_macro_is_micro_for_equal_buckets():
    values = tidy(np.random.default_rng(1).random((3, 15)), np.repeat([0, 1, 2], 5))
    pd.testing.assert_frame_equal(macro(values), sides(values))


def test_weights_alone_move_a_macro_effect_and_no_micro_effect():
    bucket, rng = np.repeat([0, 1, 2], [8, 2, 2]), np.random.default_rng(3)
    values = rng.random((3, 12)) * np.r_[np.full(8, 0.8), np.full(4, 0.2)]
    same = np.tile(
        [values[[b for b in range(3) if b != bucket[q]], q].mean() for q in range(12)], (3, 1)
    )
    flat = constant(tidy(values, bucket))
    assert flat["value"].to_numpy() == pytest.approx(same.ravel())
    assert averages(flat)[2] == pytest.approx(0)
    assert averages(macro(flat)) == pytest.approx(by_loops(same, bucket, "macro"))
    assert averages(macro(flat))[2] < -0.05


def test_names_match_as_strings_and_must_match():
    values = tidy(np.ones((2, 3)), np.array([0, 1, 1]))
    assert sides(values)["side"].tolist() == ["out", "in", "in", "in", "out", "out"]
    with pytest.raises(InputError, match="'2', '3' is not both left out and a stratum"):
        sides(values.assign(stratum=values["stratum"].replace("2", "3")))
    twice = pd.concat([values.assign(model="a"), values.query("left_out == 1").assign(model="b")])
    with pytest.raises(InputError, match=r"'b'.*'2' is not both"):  # no model of b without bucket 2
        sides(twice)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 1}, "k=1: \\d+ queries can make 2 to"),
        ({"k": 9999}, "k=9999: \\d+ queries can make"),
        ({"fold_size": 451}, "451 of 450 training queries"),
        ({"fold_size": -1}, "-1 of 450 training queries"),
    ],
)
def test_impossible_buckets_are_found_wrong_when_they_are_planned(change, words):
    """They were only after the encoder was trained."""
    with pytest.raises(InputError, match=words):
        ReSTTest(**{"vectors": drawn_vectors(), "k": 4} | change)
