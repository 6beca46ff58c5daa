"""How near training sets lie to test queries, beside random sets: by hand, and for splits that are
none.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from toy_own import OPTIONS, written

from interextra.cli import main
from interextra.own import distance, regimes
from interextra.own.split_folder import SplitFolder
from interextra.splits.split import REGIMES
from interextra.store.errors import InputError


def compared(n_train, n_test, sets, is_far):
    queries = [
        pd.DataFrame({"query_id": [], "text": []}).reindex(range(n)) for n in (n_train, n_test)
    ]
    return distance.Compared(*queries, np.arange(n_test), sets, np.arange(n_train), is_far, seed=1)


@pytest.mark.parametrize("n_top", [3, 500])
def test_similarities_are_those_of_all_pairs(monkeypatch, n_top):
    """Whether a set is among the nearest that are looked at first, or not."""
    monkeypatch.setattr(distance, "N_TOP", n_top)
    monkeypatch.setattr(distance, "BLOCK", 600)  # ten test queries at a time
    generator = np.random.default_rng(3)
    train, test = generator.normal(size=(60, 4)), generator.normal(size=(25, 4))
    train[7] = 0
    sets = {"interpolation-20": np.arange(20), "extrapolation-20": np.arange(30, 50)}
    is_far = np.array([[False] * 25, [True] * 25])
    given = compared(60, 25, sets, is_far)
    nearest = distance._Nearest.of(distance._dense_cosines(train, test), given)
    lengths = np.linalg.norm(train, axis=1)
    lengths[7] = 1
    cosines = test @ train.T / lengths / np.linalg.norm(test, axis=1)[:, None]
    expected = [cosines[:, rows].max(axis=1).mean() for rows in sets.values()]
    table = distance._compare(given, nearest)
    assert table["similarity"].tolist() == pytest.approx(
        [*expected, expected[0] - expected[1]], 1e-5
    )
    assert table["regime"].tolist() == [*REGIMES, ""]
    assert table["n_train"].eq(20).all() and table["n_test"].eq(25).all()
    assert (table["random_low"] < table["random"]).all()


def test_a_query_s_own_kind_is_its_extrapolation():
    test_ids = pd.Series(["a", "b"])
    strata = pd.Series({"a": "x", "b": "y"})
    is_far = distance._is_far(["without-x", "without-y"], test_ids, strata)
    assert is_far.tolist() == [[True, False], [False, True]]
    similarity = np.array([[0.2, 0.9], [0.8, 0.3]])
    assert distance._gaps(similarity, is_far).tolist() == pytest.approx([0.6, 0.6])
    assert not len(distance._gaps(similarity[:1], is_far[:1]))  # one regime alone has no gap


@pytest.mark.parametrize(("protocol", "n_hardly"), [("restrain", 2), ("resttest", 0), ("shift", 0)])
def test_each_set_is_described_by_two_encoders(spec, store, protocol, n_hardly):
    """The four training queries of a toy word are the same but for a number: one trains near, one
    far.
    """
    more = {"attribute": "column:topic", "size": 12, "other_encoder": "tf-idf"}
    written(spec, store, protocol, "out", **more)
    table = SplitFolder.open(Path("out")).distances
    assert set(table["encoder"]) == {"lsa", "tf-idf"}
    assert len(distance.warnings(table)) == n_hardly
    assert table["n_train"].max() == 12
    assert table["similarity"].between(-1, 1.001).all()


def test_a_split_by_vectors_that_say_nothing_is_hardly_one(spec, store, capsys):
    """By the vectors themselves it is one, by the words it is not."""
    generator = np.random.default_rng(1)
    for name, n_queries in (("train", 48), ("test", 24)):
        np.save(f"{name}.npy", generator.normal(size=(n_queries, 8)))
    asked = ["split", "restrain", "--collection", spec, "--size", "20", "--out", "out"]
    asked += ["--vectors", "train.npy", "test.npy", "--other-encoder", "tf-idf"]
    assert main(asked) == 0
    lines = capsys.readouterr().out.splitlines()
    next_command = "interextra regimes --split out --runs 'runs/{part}.{seed}.run'"
    assert lines[-1].startswith("Next: train") and lines[-1].endswith(f"Then: {next_command}")
    hardly = [line for line in lines if line.startswith("Hardly an extrapolation split")]
    assert len(hardly) == 1 and "by tf-idf" in hardly[0] and "--vectors of your model" not in hardly


def test_an_encoder_that_there_is_not_is_refused(spec, store):
    with pytest.raises(InputError, match="no encoder 'word2vec'"):
        written(spec, store, "restrain", "out", size=12, other_encoder="word2vec")
    assert not Path("out").exists() and "other_encoder" in OPTIONS


def test_all_that_is_drawn_stands_at_its_own_row():
    """Of the drawn test queries alone, and the nearest of all of them."""
    generator = np.random.default_rng(5)
    train, test = generator.normal(size=(40, 6)), generator.normal(size=(30, 6))
    test[4] = 0
    cosines = distance._dense_cosines(train, test)
    ids = [pd.DataFrame({"query_id": [f"{side}{n}" for n in range(40)]}) for side in "ab"]
    sets = {"interpolation-9": np.arange(9), "extrapolation-9": np.arange(20, 29)}
    drawn = np.array([7, 4, 21])
    is_far = np.array([[False] * 3, [True] * 3])
    given = distance.Compared(ids[0], ids[1][:30], drawn, sets, np.arange(5, 40), is_far, seed=1)
    exact = cosines(np.arange(30))
    table = distance._compare(given, distance._Nearest.of(cosines, given))
    assert table["n_test"].eq(3).all()
    expected = exact[drawn][:, :9].max(axis=1).mean()
    assert table["similarity"].iloc[0] == pytest.approx(expected, 1e-5)
    nearest = distance._nearest_queries(given, cosines)
    assert nearest["train_query_id"].iloc[4] == "" and nearest["cosine"].iloc[4] == 0
    others = nearest.drop(4)
    best = exact[:, 5:].argmax(axis=1)[others.index] + 5
    assert others["train_query_id"].tolist() == [f"a{row}" for row in best]


def test_the_nearest_queries_of_a_folder_are_those_that_the_encoder_finds(spec, store):
    for protocol, more in (("restrain", {"size": 12}), ("shift", {"attribute": "column:topic"})):
        written(spec, store, protocol, protocol, other_encoder="tf-idf", **more)
        folder = SplitFolder.open(Path(protocol))
        assert folder.manifest.encoder == "lsa"
        stored = regimes.nearest_training_queries(folder)
        found = regimes.nearest_training_queries(folder, "lsa")
        if protocol == "restrain":  # of a shift LSA is fitted on the searched queries, too
            assert stored["cosine"].tolist() == pytest.approx(found["cosine"].tolist(), abs=1e-4)
        assert stored["query_id"].tolist() == found["query_id"].tolist()
        assert not set(stored["query_id"]) & set(folder.gate_ids)
        assert stored["train_query"].str.len().gt(0).all()


@pytest.mark.parametrize(
    ("n_queries", "first", "other"),
    [
        (100, "", "minilm"),
        (100, "minilm", "tf-idf"),
        (100, "cls:mine", "minilm"),
        (100, "lsa", "tf-idf"),
        (100, "tf-idf", "lsa"),
        (100_000, "", "tf-idf"),
        (100_000, "tf-idf", "lsa"),
    ],
)
def test_an_encoder_that_nobody_asked_for_takes_no_minutes(monkeypatch, n_queries, first, other):
    monkeypatch.setattr(distance, "default_encoder", lambda: "minilm")
    assert distance._unasked(n_queries, first) == other


def gaps(name, similarity):
    rows = [
        (f"interpolation-{name}", "interpolation", 0.5),
        (f"extrapolation-{name}", "extrapolation", 0.4),
        ("gap", "", similarity),
    ]
    return pd.DataFrame(rows, columns=["set", "regime", "similarity"]).assign(
        encoder=name, random=[0.5, 0.5, 0.0], random_low=-0.01, random_high=0.01
    )


def test_the_advice_is_for_the_split_at_hand():
    """5 % of the similarity of random sets is .025."""
    table = pd.concat([gaps("minilm", 0.024), gaps("tf-idf", 0.024)])
    own, other = distance.warnings(table)
    assert own.startswith("Hardly an extrapolation split by minilm") and "above +0.025" in own
    assert "take fewer training queries" in own and "--encoder" not in own
    assert "divide by it (--encoder tf-idf)" in other
    assert not distance.warnings(pd.concat([gaps("minilm", 0.026), gaps("tf-idf", 0.026)]))
    left_out = table.assign(set=table["set"].str.replace(r"\w+-", "without-", regex=True))
    assert all("split restrain --encoder" in line for line in distance.warnings(left_out))
