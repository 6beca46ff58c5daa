"""Notebook 03: micro and macro averages."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from interextra.notebooks import n03_resttest as resttest
from interextra.splits.resttest import in_regimes
from interextra.splits.split import REGIMES
from interextra.stats.effects import effects


def folds(spread):
    """Three systems' folds: query q of bucket b has value q / 10 under all models, less `spread`
    without its bucket.
    """
    rows = [
        (m, left, str(q), b, q / 10 - spread * (left == b))
        for m in "xy"
        for left in "123"
        for q, b in QUERIES
    ]
    table = pd.DataFrame(rows, columns=["model", "left_out", "query_id", "stratum", "value"])
    return table.assign(measure="RR@10")


QUERIES = [(1, "1"), (2, "1"), (3, "1"), (4, "1"), (5, "2"), (6, "2"), (9, "3")]


def test_macro_delta_of_models_that_are_all_the_same_is_that_of_its_weights():
    """Counted as a loss with p below .001 before, with "worse 322, better 178"."""
    how = {
        "on": "regime",
        "sides": REGIMES,
        "effect": "delta",
        "family": ["average"],
        "n_boot": 200,
    }
    table = effects(resttest.averages(folds(0.0)), ["model", "average"], **how)
    delta = table.set_index(["model", "average"])["delta"]
    assert delta["x", "micro"] == pytest.approx(0) and abs(delta["x", "macro"]) > 0.05
    apart = table.contrast("average", [("macro", "constant")])
    np.testing.assert_allclose(apart["difference"], 0, atol=1e-12)
    assert apart[["low", "high"]].isna().all(axis=None)  # where nothing varies there is no interval
    lossy = effects(resttest.averages(folds(0.05)), ["model", "average"], **how)
    lossy = lossy.contrast("average", [("macro", "constant")])
    assert (lossy["high"] < 0).all()


def test_rows_to_be_compared_are_micro_and_macro_without_what_its_weights_do():
    draw = np.random.default_rng(5)
    values = pd.concat(
        [folds(spread).assign(model=model) for model, spread in (("kept", 0.0), ("lost", 0.05))]
    )
    values["value"] += 0.2 + 0.001 * draw.normal(size=len(values))
    how = {
        "on": "regime",
        "sides": REGIMES,
        "effect": "delta",
        "family": ["average"],
        "n_boot": 400,
    }
    table = effects(resttest.averages(values), ["model", "average", "measure"], **how)
    found = resttest.less_constant(table)
    assert found["average"].drop_duplicates().tolist() == ["micro", "macro less constant"]
    own = table.contrast("average", [("macro", "constant")]).set_index("model")
    less = found[found["average"] == "macro less constant"].set_index("model")
    np.testing.assert_allclose(less["delta"], own.loc[less.index, "difference"])
    assert less.loc["lost", "high"] < 0 and abs(less.loc["kept", "delta"]) < 0.01


def effects_of(values, by):
    how = {"on": "regime", "sides": REGIMES, "effect": "delta", "n_boot": 200}
    return effects(values, by, **how)


def noisy(spread, model):
    draw = np.random.default_rng(5)
    values = folds(spread)
    values = values[values["model"] == "x"].assign(model=model)
    values["value"] += 0.2 + 0.001 * draw.normal(size=len(values))
    return values


def test_a_test_query_is_as_near_as_training_queries_of_other_buckets():
    train = np.array([[1.0, 0], [0, 1.0], [1.0, 1.0]])
    test = np.array([[1.0, 0.1], [0.1, 1.0]])
    of_train, of_test = np.array([0, 1, 1]), np.array([0, 1])
    found = resttest.nearest_outside(train, test, of_train, of_test)
    inside = 1 / np.sqrt(1.01)
    np.testing.assert_allclose(found, [1.1 / np.sqrt(2.02), 0.1 * inside], rtol=1e-6)
    cosines = pd.DataFrame({"interpolation": [inside, inside], "extrapolation": found})
    sizes = resttest.bucket_sizes(of_train, of_test, cosines)
    assert sizes[["bucket", "n_train", "n_test"]].values.tolist() == [[1, 1, 1], [2, 2, 1]]
    assert sizes["extrapolation"].is_monotonic_decreasing
    assert resttest.sizes_sentence(sizes).endswith("here 1, 1 (with those of the gate).")


def test_design_has_a_row_per_system_with_the_sizes_of_its_folds():
    design = pd.DataFrame({"model": [*"aabb"], "left_out": [*"1212"], "seed": [1, 1, 1, 2]})
    sizes = pd.DataFrame({"bucket": [1, 2], "n_train": [700, 500]})
    page = resttest.design_page(design, sizes, 0)
    assert page.values.tolist() == [
        ["a", "1, 2", "500 to 700", "1"],
        ["b", "1, 2", "500 to 700", "1, 2"],
    ]
    assert set(resttest.design_page(design, sizes, 450)["training queries"]) == {"450"}


def test_buckets_follow_the_attribute_that_made_them():
    texts = ["who ran", "who sat", "why ran", "why sat"] * 3
    train = pd.DataFrame({"text": texts, "semtype": ["a", "b"] * 6})
    found = resttest.attributes(train, np.array([0, 0, 1, 1] * 3))
    assert found["attribute"].tolist() == ["first word", "semtype"]
    assert found["ami"].iloc[0] == pytest.approx(1) and found["ami"].iloc[1] < 0.1
    assert found["n_values"].tolist() == [2, 2]
    page = resttest.attributes_page(found)
    assert page["attribute"].tolist() == ["first word", "semantic type"] and "AMI" in page
    words = resttest.bucket_words(texts, np.array([0, 0, 1, 1] * 3))
    assert [row.split()[0] for row in words["distinctive words"]] == ["who", "why"]
    cosines = pd.DataFrame({"interpolation": [0.9, 0.7], "extrapolation": [0.4, 0.2]})
    first, second = resttest.answer_sentences(cosines, found)
    assert first.endswith("from 0.80 to 0.30.") and "first word (form) agrees most" in second


def test_stability_counts_other_seeds_alone():
    draw = np.random.default_rng(1)
    train, test = draw.normal(size=(60, 3)), draw.normal(size=(20, 3))
    found = resttest.buckets(train, test, 2, 1, True)
    of_query = np.concatenate([found.train, found.test])
    stability = resttest.other_buckets(train, test, of_query, 2, [1, 2])
    own = stability[stability["normalise"] & (stability["seed"] == 1)]
    assert own["ari"].item() == 1 and len(stability) == 4
    p = resttest.Parameters(seed=1, normalise=True)
    found_again = stability.assign(share_matched=0.8)
    (sentence,) = resttest.stability_sentences(found_again, p)
    other = stability["ari"].iloc[1]
    assert f"at ARI {other:.2f} to {other:.2f}" in sentence
    assert resttest.stability_sentences(own, p) == []
    _, consequence = resttest.stability_sentences(stability.assign(share_matched=0.5), p)
    assert consequence.startswith("By the criterion above, Δ is that of one division")


def test_sentences_say_which_intervals_exclude_0_and_in_how_many_buckets_a_system_loses():
    values = pd.concat([noisy(0.0, "kept"), noisy(0.05, "lost")])
    table = effects_of(resttest.averages(values), ["model", "average", "measure"])
    kept, lost = resttest.excludes_zero_sentences(table, "RR@10")
    assert kept.startswith("kept: Δ of RR@10") and kept.endswith(
        "; the interval does not exclude 0."
    )
    assert lost.startswith("lost: Δ of RR@10 is -") and lost.endswith("; the interval excludes 0.")
    (alike,) = resttest.excludes_zero_sentences(table.iloc[:1].assign(low=np.nan), "RR@10")
    assert alike.endswith("all queries change by the same.")
    by_bucket = pd.DataFrame({"model": [*"aaab"], "measure": "RR@10", "delta": [-0.1, 0, 0.1, -1]})
    assert resttest.lower_sentences(by_bucket, "RR@10") == [
        "a has a lower RR@10 without the bucket in 1 of 3 buckets.",
        "b has a lower RR@10 without the bucket in 1 of 1 buckets.",
    ]
    beside = resttest.less_constant(table).assign(published=-0.1, verdict="agrees")
    assert set(resttest.beside_page(beside)["average"]) == {"micro", "macro minus constant"}


def test_a_smaller_loss_near_a_boundary_differs_from_a_larger_one():
    lost = in_regimes(noisy(0.05, "m"))
    alike = lost.assign(value=0.4 + 0.01 * lost["value"])
    for near, inside, answer in ((alike, lost, "smaller"), (lost, alike, "larger")):
        places = [near.assign(place="near a boundary"), inside.assign(place="inside")]
        halves = effects_of(pd.concat(places), ["place", "model", "measure"])
        (sentence,) = resttest.boundary_sentences(halves, "RR@10")
        assert sentence.startswith(f"m: the loss is {answer} near a boundary (Δ there")


def test_a_query_is_in_extrapolation_without_its_bucket():
    found = in_regimes(folds(0.0))
    assert (found["regime"] == "extrapolation").tolist() == (
        found["left_out"] == found["stratum"]
    ).tolist()


class Judged:
    """A collection of judgements alone: d1 to d4 answer training queries, d9 does not."""

    FRAMES: ClassVar = {
        split: pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"])
        for split, rows in {
            "train": [("a", "d1", 1), ("b", "d2", 1), ("c", "d2", 1), ("d", "d4", 1)],
            "test": [
                *[("own", "d1", 1), ("shared", "d2", 1), ("outside", "d4", 1)],
                *[("none", "d9", 1), ("none", "d1", 0), ("aside", "d8", 1)],
            ],
        }.items()
    }
    qrels = staticmethod(FRAMES.get)


def test_answers_are_told_apart_by_the_folds_that_train_on_them():
    """Bucket 1 holds a and b, bucket 2 c and d. d is outside bucket 1, in its fold alone."""
    p = resttest.Parameters(train_split="train", test_splits=["test"])
    sets = {"without-1": ["c", "d"], "without-2": ["a", "b"]}
    strata = pd.Series({"own": "1", "shared": "1", "outside": "1", "none": "2", "aside": "2"})
    similarity = pd.Series({"own": 0.8, "shared": 0.9, "none": 0.95, "aside": 0.2})
    found = resttest.shared_answers(Judged(), p, sets, strata, similarity)
    groups = found.groupby("answer_trained_in")["query_id"].apply(set).to_dict()
    assert groups == {
        "interpolation alone": {"own"},
        "extrapolation alone": {"outside"},
        "both": {"shared"},
        "neither": {"none", "aside"},
        "neither, as near": {"none"},
    }
