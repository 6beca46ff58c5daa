"""Claims about architectures follow from the values: known losses give known verdicts."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from interextra.ground.errors import InputError
from interextra.models.recipe import load_recipe
from interextra.study import architectures
from interextra.papers.architectures import Resampled, claims, differences

QUERIES = pd.Index([f"q{i}" for i in range(400)], name="query_id")
LOSSES = {"BM25": 0.0, "Reranker": 0.01, "ColBERT": 0.02, "SPLADE": 0.2, "DR (base)": 0.3}


def pairs_of(losses, noise=0.05):
    draw = np.random.default_rng(1)
    made = {}
    for model, loss in losses.items():
        inter = draw.uniform(0.3, 0.9, len(QUERIES))
        extra = inter * (1 - loss) + noise * draw.normal(size=len(QUERIES))
        made[model] = tuple(pd.DataFrame({"RR@10": side}, index=QUERIES) for side in (inter, extra))
    return made


def test_delta_is_that_of_the_means_and_systems_are_resampled_together():
    pairs = pairs_of(LOSSES)
    drawn = Resampled(pairs, "RR@10", seed=3, n_boot=500)
    for i, (inter, extra) in enumerate(pairs.values()):
        assert drawn.delta[i] == pytest.approx(extra["RR@10"].mean() / inter["RR@10"].mean() - 1)
    twice = Resampled({"a": pairs["SPLADE"], "b": pairs["SPLADE"]}, "RR@10", seed=3, n_boot=500)
    np.testing.assert_array_equal(twice.deltas[:, 0], twice.deltas[:, 1])
    rows = np.random.default_rng(3).integers(len(QUERIES), size=(500, len(QUERIES)), dtype=np.int32)
    inter, extra = (side["RR@10"].to_numpy() for side in pairs["SPLADE"])
    np.testing.assert_allclose(twice.deltas[:, 0], extra[rows].mean(1) / inter[rows].mean(1) - 1)


def test_published_findings_hold_where_they_were_built_in_and_fail_where_they_were_not():
    verdict = claims(Resampled(pairs_of(LOSSES), "RR@10", n_boot=500), margin=0.05)["verdict"].tolist()
    assert verdict == ["holds"] * 4
    turned = {"BM25": 0.3, "Reranker": 0.2, "ColBERT": 0.3, "SPLADE": -0.1, "DR (base)": -0.1}
    verdict = claims(Resampled(pairs_of(turned), "RR@10", n_boot=500), margin=0.05)["verdict"].tolist()
    assert verdict == ["contradicted"] * 4


def test_what_noise_hides_is_not_shown():
    drawn = Resampled(pairs_of(dict.fromkeys(LOSSES, 0.0), noise=1.5), "RR@10", n_boot=500)
    assert claims(drawn, margin=0.02)["verdict"].tolist() == ["not shown"] * 4


def test_rank_correlation_is_kendalls_tau():
    pairs = pairs_of({"a": 0.0, "b": 0.1, "c": 0.5, "d": 0.2, "e": 0.9})
    drawn = Resampled(pairs, "RR@10", n_boot=200)
    tau, taus = drawn.rank_correlation()
    assert tau == pytest.approx(stats.kendalltau(*drawn.scores.T).statistic)
    assert taus[7] == pytest.approx(stats.kendalltau(*drawn.drawn[7].T).statistic)


def test_differences_name_every_pair_of_systems_once():
    table = differences(Resampled(pairs_of(LOSSES), "RR@10", n_boot=500))
    assert len(table) == 10 and not table.duplicated(["first", "second"]).any()
    row = table.set_index(["first", "second"]).loc["BM25", "DR (base)"]
    assert row["low"] < row["difference"] < row["high"] and row["difference"] == pytest.approx(0.3, abs=0.02)


def runs_of(values, **labels):
    return {**labels, "values": pd.DataFrame({"RR@10": values}, index=QUERIES[: len(values)])}


def test_restrain_pairs_average_over_seeds():
    runs = pd.DataFrame(
        [
            runs_of([0.0, 1.0], model="m", n_train=9, regime="interpolation", seed=1),
            runs_of([1.0, 1.0], model="m", n_train=9, regime="interpolation", seed=2),
            runs_of([0.0, 0.5], model="m", n_train=9, regime="extrapolation", seed=1),
        ]
    )
    inter, extra = architectures.restrain_pairs(runs)[9, "m"]
    assert inter["RR@10"].tolist() == [0.5, 1.0] and extra["RR@10"].tolist() == [0.0, 0.5]


def test_resttest_pairs_put_a_query_into_extrapolation_without_its_bucket():
    folds = [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9]]  # folds[b][q]: model without bucket b on query q
    runs = pd.DataFrame([runs_of(fold, model="m", bucket=b + 1, seed=1) for b, fold in enumerate(folds)])
    inter, extra = architectures.resttest_pairs(runs, np.array([0, 1, 2]), "micro")["m"]
    np.testing.assert_allclose(extra["RR@10"], [0.1, 0.5, 0.9])
    np.testing.assert_allclose(inter["RR@10"], [(0.4 + 0.7) / 2, (0.2 + 0.8) / 2, (0.3 + 0.6) / 2])


def test_labels_that_no_run_has_are_an_error():
    runs = pd.DataFrame([runs_of([0.0], model="m", n_train=9, regime="interpolation", seed=1)])
    with pytest.raises(InputError, match="not in the design"):
        architectures.restrain_pairs(runs)


def test_loss_curves_are_read_from_the_training_log(tmp_path):
    (tmp_path / "training.json").write_text(json.dumps({"loss": [[1, 2.0], [5, 0.5]]}))
    curve = architectures.loss_curves([{"model": "SPLADE", "seed": 3}], [tmp_path])
    assert curve.to_dict("list") == {
        "model": ["SPLADE"] * 2, "seed": [3] * 2, "step": [1, 5], "loss": [2.0, 0.5],
    }  # fmt: skip


def test_every_system_of_the_comparison_has_recipes_for_each_profile():
    for profile in ("mini", "small", "msmarco"):
        for architecture in ("dense", "splade", "colbert", "reranker"):
            recipe = load_recipe(f"{profile}-{architecture}")
            dense = load_recipe(f"{profile}-dense")
            assert recipe.architecture == architecture and recipe.initialisation == dense.initialisation
