"""ReSTTest against loops that follow the paper's sentences, and against what the released buckets are."""

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans

from interextra.ground.errors import InputError
from interextra.evaluation.regimes import regime_row
from interextra.splits.resttest import (
    Buckets,
    agreement,
    buckets,
    distinctive_words,
    folds,
    portrait,
    regime_values,
)
from interextra.study import designs, jobs, zhan
from interextra.study.cells import Store, cell_key
from interextra.study.plan import describe

CENTRES = np.array([[9.0, 0, 0], [0, 9, 0], [0, 0, 9], [-9, -9, 0]])
SHARES = (0.1, 0.2, 0.3, 0.4)
PARAMETERS = {
    "collection": "mini", "train_split": "train", "train_limit": 0, "test_splits": ["dev", "test"], "encoder": "lsa",
    "encoder_splits": ["dev", "test"], "recipe": "mini-dense", "steps": 20, "bm25_recipe": "bm25", "k": 3,
    "fold_size": 0, "normalise": True, "seeds": [1, 2], "depth": 50, "seed": 1, "real_msmarco": False,
}  # fmt: skip


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
    found = buckets(train, test, 4, seed=2, normalise=normalise, redo=5)
    assert agreement(found.test, test_cloud)["ari"] == agreement(found.train, train_cloud)["ari"] == 1
    sizes = found.sizes["n_train"].tolist()
    assert sizes == sorted(sizes, reverse=True) == sorted(np.bincount(train_cloud).tolist(), reverse=True)
    assert found.sizes["n_test"].sum() == 90


def test_plain_k_means_reaches_the_inertia_of_scikit_learn():
    train, test = (
        np.random.default_rng(seed).normal(size=(n, 5)).astype(np.float32) for seed, n in ((1, 500), (2, 90))
    )
    ours = buckets(train, test, 4, seed=1, normalise=False, iterations=100, redo=20)
    theirs = KMeans(4, n_init=20, random_state=1).fit(np.concatenate([train, test]))
    assert ours.inertia == pytest.approx(theirs.inertia_, rel=5e-3)


@pytest.mark.parametrize("normalise", [True, False])
def test_every_query_is_in_the_bucket_of_its_nearest_centroid(clouds, normalise):
    train, _, test, _ = clouds
    found = buckets(train, test, 4, seed=2, normalise=normalise)
    unit = test / np.linalg.norm(test, axis=1, keepdims=True) if normalise else test
    by_hand = [[((q - c) ** 2).sum() for c in found.centroids] for q in unit]
    assert np.array_equal(np.argmin(by_hand, axis=1), found.test)
    assert np.allclose(found.distances(test), by_hand, rtol=1e-4, atol=1e-5)
    if normalise:
        assert np.allclose(np.linalg.norm(found.centroids, axis=1), 1, atol=1e-5)


def test_same_seed_gives_the_same_bytes_and_length_matters_only_without_normalise():
    train, test = (
        np.random.default_rng(seed).normal(size=(n, 6)).astype(np.float32) for seed, n in ((1, 700), (2, 90))
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
        np.random.default_rng(seed).normal(size=(n, 4)).astype(np.float32) for seed, n in ((1, 1500), (2, 9))
    )
    buckets(train, test, 2, seed=1)  # faiss samples above 256 points a centroid and warns below 39
    buckets(train[:12], test, 2, seed=1)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 1}, "2 to 490"),
        ({"k": 491}, "2 to 490"),
        ({"test": np.array([[np.nan, 0, 1]])}, "NaN"),
        ({"test": np.zeros((2, 3))}, "zero vectors"),
        ({"test": np.ones((2, 2))}, "dimensions"),
        ({"test": CENTRES[:1]}, "empty bucket: no test query.*lower k or other seed"),
        ({"train": CENTRES[:1]}, "empty bucket: no training query"),
    ],
)
def test_impossible_buckets_are_refused(clouds, change, words):
    with pytest.raises(InputError, match=words):
        buckets(**{"train": clouds[0], "test": clouds[2], "k": 4, "seed": 2, "redo": 5, **change})


def test_folds_are_the_training_queries_outside_the_bucket(clouds):
    found = buckets(clouds[0], clouds[2], 4, seed=2, redo=5)
    made = folds(found)
    for b, rows in enumerate(made):
        assert rows.tolist() == [row for row in range(400) if found.train[row] != b]
    smallest = min(len(rows) for rows in made)
    equal = folds(found, smallest - 10, seed=1)
    assert {len(rows) for rows in equal} == {smallest - 10}
    assert all(set(part) <= set(whole) and (np.diff(part) > 0).all() for part, whole in zip(equal, made, strict=True))
    assert [rows.tolist() for rows in equal] == [rows.tolist() for rows in folds(found, smallest - 10, seed=1)]
    with pytest.raises(InputError, match=f"smallest fold has {smallest}"):
        folds(found, smallest + 1)


def brute_force(values, bucket, average):
    k, n = values.shape
    if average == "micro":
        extra = [values[bucket[q], q] for q in range(n)]
        return np.mean([np.mean([values[b, q] for b in range(k) if b != bucket[q]]) for q in range(n)]), np.mean(extra)
    fold_extra = [np.mean([values[b, q] for q in range(n) if bucket[q] == b]) for b in range(k)]
    return np.mean([np.mean([values[b, q] for q in range(n) if bucket[q] != b]) for b in range(k)]), np.mean(fold_extra)


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_plain_means_of_the_contributions_are_the_means_of_the_paper(average):
    rng = np.random.default_rng(6)
    values, bucket = rng.random((4, 60)), np.r_[np.arange(4), rng.choice(4, 56, p=SHARES)]
    inter, extra = regime_values(values, bucket, average)
    assert (inter.mean(), extra.mean()) == pytest.approx(brute_force(values, bucket, average))
    ids = [f"q{number}" for number in range(60)]
    row = regime_row(pd.Series(inter, ids), pd.Series(extra, ids), paired=True, n_boot=50)
    assert row["delta"] == pytest.approx(extra.mean() / inter.mean() - 1) and row["n_queries"] == 60


def test_averages_agree_for_equal_buckets_and_macro_alone_moves_a_constant_system():
    bucket = np.repeat([0, 1, 2], 5)
    values = np.random.default_rng(1).random((3, 15))
    for micro, macro in zip(*(regime_values(values, bucket, how) for how in ("micro", "macro")), strict=True):
        assert micro == pytest.approx(macro)
    bucket, constant = np.repeat([0, 1], [8, 2]), np.tile(np.r_[np.full(8, 0.8), 0.2, 0.2], (2, 1))
    delta = {}
    for how in ("micro", "macro"):
        inter, extra = regime_values(constant, bucket, how)
        delta[how] = extra.mean() / inter.mean() - 1
    assert delta["micro"] == 0 and delta["macro"] == pytest.approx(0)  # two buckets only swap their places
    bucket, constant = np.repeat([0, 1, 2], [8, 2, 2]), np.tile(np.r_[np.full(8, 0.8), np.full(4, 0.2)], (3, 1))
    inter, extra = regime_values(constant, bucket, "macro")
    assert extra.mean() < inter.mean() - 0.05


@pytest.mark.parametrize(
    ("bucket", "average", "words"),
    [([0, 1, 1], "mean", "unknown average"), ([0, 0, 0], "macro", "each number used"), ([0, 1], "micro", "3 test")],
)
def test_regime_values_refuses_what_it_cannot_average(bucket, average, words):
    with pytest.raises(InputError, match=words):
        regime_values(np.ones((2, 3)), np.array(bucket), average)


def test_agreement_matches_buckets_whatever_their_numbers():
    theirs = np.repeat([1, 2, 3], [50, 30, 20])
    same = agreement(np.array([9, 7, 8])[theirs - 1], theirs)
    assert same["ari"] == same["share_matched"] == 1 and same["match"] == {1: 9, 2: 7, 3: 8}
    assert same["sizes"] == same["released_sizes"] == [50, 30, 20]
    ours = theirs.copy()
    ours[:10] = 3  # ten queries of bucket 1 moved
    moved = agreement(ours, theirs)
    assert moved["share_matched"] == 0.9 and moved["sizes"] == [40, 30, 30] and moved["ari"] < 1
    rng = np.random.default_rng(1)
    chance = [agreement(rng.permutation(ours), theirs) for _ in range(200)]
    assert abs(np.mean([c["ari"] for c in chance])) < 0.01 < np.mean([c["nmi"] for c in chance])


def test_portrait_shows_the_centre_and_the_border():
    points = np.array([[0.0], [1], [4.4], [10], [11], [6.0]])
    found = Buckets(np.zeros(0), np.zeros(0), np.array([[1.0], [10]], np.float32), 0.0, False)
    shown = portrait(found, points, list("abcdef"), n=1)
    assert shown["text"].tolist() == ["b", "c", "d", "f"] and shown["bucket"].tolist() == [0, 0, 1, 1]
    assert shown["margin"].tolist() == pytest.approx([81, 5.6**2 - 3.4**2, 81, 25 - 16])


def test_distinctive_words_need_evidence():
    texts = ["how much does a cow cost"] * 30 + ["who was a king"] * 30 + ["how zyx"]
    words = distinctive_words(texts, [0] * 30 + [1] * 30 + [0], n=3)
    assert "how" in words[0] and "zyx" not in words[0] and "who" in words[1] and "a" not in words[0] + words[1]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("outputs") / "cells")


def test_cell_holds_the_buckets_and_folds_of_the_library(store):
    config = designs.resttest_split(PARAMETERS)
    folder = jobs.build(store, config)
    found = buckets(*jobs.read_vectors(store, config["vectors"]), 3, 1)
    assert np.array_equal(np.load(folder / "train.npy"), found.train)
    assert np.array_equal(np.load(folder / "test.npy"), found.test)
    ids = np.array(jobs.pool_queries(config["pool"])["query_id"])
    for b, rows in enumerate(folds(found), 1):
        assert jobs.part_ids(folder, f"without-{b}") == ids[rows].tolist()
    sizes = pd.read_csv(folder / "sizes.csv")
    assert sizes["bucket"].tolist() == [1, 2, 3] and sizes["n_train"].sum() == 4000 and sizes["n_test"].sum() == 500


def test_design_trains_each_system_without_each_bucket():
    rows = designs.resttest(PARAMETERS)
    counts = pd.DataFrame(rows).groupby(["model", "seed"])["bucket"].apply(list).to_dict()
    assert counts == {("BM25", 1): [1, 2, 3], ("DR (base)", 1): [1, 2, 3], ("DR (base)", 2): [1, 2, 3]}
    for change in ({"k": 4}, {"fold_size": 99}, {"normalise": False}, {"seed": 2}):
        other = {cell_key(row["config"]) for row in designs.resttest({**PARAMETERS, **change})}
        assert not other & {cell_key(row["config"]) for row in rows}, change


def test_plan_guesses_the_size_of_a_fold_before_it_is_built(store):
    equal = [row["config"] for row in designs.resttest({**PARAMETERS, "fold_size": 100})]
    whole = [row["config"] for row in designs.resttest(PARAMETERS)]
    rows = describe(store, whole + equal)
    assert all(row["seconds"] > 0 for row in rows)
    assert any(row["what"] == "resttest · mini · 3 buckets · seed 1" for row in rows)


def test_released_buckets_partition_the_test_queries_and_are_question_forms(real_data, monkeypatch):
    monkeypatch.setenv("INTEREXTRA_DATA", str(real_data))
    found = zhan.released_buckets(real_data / "extrapolate-eval")
    assert found.value_counts().sort_index().tolist() == [981, 2206, 1824, 1491, 478] and found.index.is_unique
    words = zhan.released_words(real_data / "extrapolate-eval").set_index("bucket")["words"].str.split()
    assert words[1][0] == "how" and words[2][0] == "what" and words[3][0] == "where" and "cost" in words[5]


def test_released_agreement_is_counted_on_the_dev_queries(real_data, monkeypatch, store):
    """With vectors made from the released buckets themselves, k-means must find the buckets."""
    monkeypatch.setenv("INTEREXTRA_DATA", str(real_data))
    folder, queries = real_data / "extrapolate-eval", jobs.open_spec("msmarco-queries")
    known = pd.concat([zhan.released_buckets(folder, name) for name in ("dev", "trec19", "trec20")])
    vectors = {s: np.eye(5, dtype=np.float32)[known.loc[queries.query_ids(s)] - 1] for s in ("dev", "dl19", "dl20")}
    rng = np.random.default_rng(1)
    vectors = {name: x + rng.normal(scale=0.05, size=x.shape).astype(np.float32) for name, x in vectors.items()}
    vectors["dev"][:3] = 0  # no word known: left out
    train = np.concatenate([vectors["dl19"], vectors["dl20"]])
    monkeypatch.setattr(
        jobs, "read_vectors", lambda store, config: (train, np.concatenate([vectors[name] for name in config["test"]]))
    )
    np.save(store.root / "dev.npy", vectors["dev"])
    monkeypatch.setattr(jobs, "build", lambda store, config: store.root)
    p = {"real_encoders": ["lsa"]}
    table = zhan.released_bucket_agreement(
        store, designs.real_vectors(p), designs.real_dev_vectors(p), 5, [1, 2], folder
    )
    assert len(table) == 2 * 2 * 2 and set(table["n_queries"]) == {6977}
    best = table.loc[table["ari"].idxmax()]
    assert best["ari"] == best["nmi"] == best["share_matched"] == best["share_matched_dl"] == 1
    assert table["nmi_chance"].max() < 0.01
