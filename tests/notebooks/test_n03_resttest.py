"""Notebook 03: micro and macro averages."""

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


def test_a_query_is_in_extrapolation_without_its_bucket():
    found = in_regimes(folds(0.0))
    assert (found["regime"] == "extrapolation").tolist() == (
        found["left_out"] == found["stratum"]
    ).tolist()
