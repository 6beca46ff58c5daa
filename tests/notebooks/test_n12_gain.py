"""The gain of fine-tuning taken apart, and what near and far queries say of a finished model."""

import itertools

import numpy as np
import pandas as pd
import pytest
from toy_parameters import plan_with

from interextra.notebooks import n12_gain as gain
from interextra.stats.effects import effects
from interextra.store.errors import InputError

LEVELS = {"BM25": 0.5, "base": 0.2, "random split": 0.7, "far queries": 0.6, "left-out kind": 0.4}
LEVELS["left-out kind, unexposed"] = 0.45


def of_conditions(n=300, noise=0.1):
    draw, rows = np.random.default_rng(4), []
    for condition, seed, query in itertools.product(LEVELS, (1, 2), range(n)):
        value = LEVELS[condition] + noise * draw.normal()
        rows.append((condition, seed, f"q{query}", "RR@10", value))
    return pd.DataFrame(rows, columns=["condition", "seed", "query_id", "measure", "value"])


def test_the_parts_of_a_gain_add_up_and_have_the_planted_size():
    found = gain.parts_of(effects(of_conditions(), ["condition", "measure"], n_boot=500)).set_index(
        "part"
    )
    planted = {"whole gain": 0.5, "kept on a left-out kind": 0.2, "lost to exposed negatives": 0.05}
    planted |= {"interpolation: needs the kind": 0.25, "interpolation: needs near queries": 0.1}
    for part, size in planted.items():
        row = found.loc[part]
        assert row["low"] < size < row["high"] and row["difference"] == pytest.approx(
            size, abs=0.02
        )
        assert row["share"] == pytest.approx(2 * size, abs=0.05)
        assert part == "whole gain" or row["share_low"] <= row["share"] <= row["share_high"]
    parts = list(gain.PARTS)
    assert found.loc[parts[1:4], "difference"].sum() == pytest.approx(
        found.loc[parts[0], "difference"]
    )
    assert (
        found.loc[parts[0], "share"] == 1
        and found.loc[parts[0], ["share_low", "share_high"]].isna().all()
    )


def test_only_what_is_fine_tuned_has_the_noise_of_training():
    """BM25 and the base were drawn with it: an interval of a reciprocal rank began below 0."""
    values = of_conditions(noise=0.01)
    trained = ~values["condition"].isin(["BM25", "base"])
    values["value"] += 0.1 * (values["seed"] == 2) * trained  # trainings differ by a constant
    values = values[(values["seed"] == 1) | trained]
    found = gain.by_condition(values, seed=1, n_boot=2000).set_index("condition")
    width = found["high"] - found["low"]
    assert width[["BM25", "base"]].max() < 0.01 < 0.1 < width.drop(["BM25", "base"]).min()
    assert found["n_trainings"].to_dict() == {
        name: 1 + (name not in ("BM25", "base")) for name in LEVELS
    }
    plain = effects(values, ["condition", "measure"], seed=1, n_boot=40).set_index("condition")
    assert found["mean"].tolist() == pytest.approx(plain.loc[found.index, "mean"].tolist())
    parts = gain.parts_of(gain.by_condition(values, seed=1, n_boot=400))
    assert parts["part"].tolist() == list(gain.PARTS)


def test_without_a_gain_no_share_is_told():
    values = of_conditions(noise=0).assign(value=0.5)
    found = gain.parts_of(effects(values, ["condition", "measure"], n_boot=100))
    assert found["difference"].eq(0).all() and found["share"].isna().all()


def test_a_left_out_kind_is_measured_by_its_own_model():
    values = pd.DataFrame(
        {"condition": ["random split", *["left-out kind"] * 3], "left_out": [None, "a", "b", "a"]}
    )
    values["stratum"], values["value"] = ["a", "a", "a", gain.OUTSIDE], [1.0, 2.0, 3.0, 4.0]
    assert gain.in_conditions(values)["value"].tolist() == [1.0, 2.0]


def test_published_runs_are_those_of_the_committed_values(root, tmp_path):
    values, near = gain.published_runs(
        root / "outputs" / "reference" / "small" / "11_pool_bias" / "values"
    )
    assert (
        set(values["system"]) >= {"BM25", "neural"}
        and values["query_id"].isin(near["query_id"]).all()
    )
    assert values["query_id"].nunique() == len(near) == 97 and near["is_near"].sum() == 48
    assert gain.published_runs(tmp_path)[0].empty


def test_sets_of_several_sizes_are_refused():
    p = {
        "shift": "wh-words",
        "collection": "mini",
        "train_split": "train",
        "train_limit": 9,
        "test_splits": ["test"],
    }
    with pytest.raises(InputError, match="one size"):
        plan_with(gain, p | {"train_size": 9, "seed": 1})


def test_learning_curves_differ_in_their_queries_alone():
    curves = plan_with(gain, {}).curves
    sizes = curves.design["size"].tolist()
    assert curves.design["run"].map(lambda run: run.model.train.size()).tolist() == sizes
    assert len({str(run.recipe) for run in curves.design["run"]}) == 1
    merged = curves.merges
    tuned = merged[(merged["alpha"] == 1) & (merged["negatives"] == "all")]
    largest = curves.design[curves.design["size"] == max(sizes)]
    assert {run.key for run in tuned["run"]} == {run.key for run in largest["run"]}
    untrained = merged.loc[merged["alpha"] == 0, "run"]
    assert {run.key for run in untrained} == {curves.given["run"].item().key}
