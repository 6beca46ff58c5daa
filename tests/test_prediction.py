"""Orders of queries against scipy on explicit resamples, and against ranks on paper."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from interextra.ground.errors import InputError
from interextra.evaluation import prediction as pn


def columns(n=120, seed=0):
    """Predictors [n, 3] and targets [n, 2] that follow a common ease; some with many ties, as RR@10 has."""
    rng = np.random.default_rng(seed)
    ease = rng.normal(size=n)
    predictors = np.column_stack([ease + rng.normal(size=n), (ease + rng.normal(size=n)).round(), rng.normal(size=n)])
    reciprocal = np.where(rng.random(n) < 0.6, 0, 1 / rng.integers(1, 11, n))
    return predictors, np.column_stack([ease + rng.normal(size=n), reciprocal])


def explicit(n, seed, n_boot):
    """Rows of the queries of each resample."""
    return [np.repeat(np.arange(n), counts) for counts in pn.resamples(n, seed, n_boot).astype(int)]


def frames(n=60, seed=0):
    ids = [f"q{i}" for i in range(n)]
    x, y = columns(n, seed)
    return pd.DataFrame(x, ids, ["R", "length", "noise"]), pd.DataFrame(y, ids, ["loss", "RR@10"])


@pytest.mark.parametrize("seed", range(3))
def test_kendall_is_that_of_scipy(seed):
    x, y = columns(seed=seed)
    for one in x.T:
        for other in y.T:
            assert pn.kendall(one, other) == pytest.approx(stats.kendalltau(one, other).statistic, abs=1e-12)
    assert math.isnan(pn.kendall([1, 1, 1], [1, 2, 3]))


def test_smare_by_hand():
    assert pn.smare([10, 20, 30, 40], [1, 2, 3, 4]) == 0
    assert pn.smare([4, 3, 2, 1], [1, 2, 3, 4]) == (3 + 1 + 1 + 3) / 4 / 4 == 0.5
    # ranks 1, 2.5, 2.5, 4, 5 beside 2, 2, 2, 5, 4
    assert pn.smare([0, 5, 5, 7, 9], [1, 1, 1, 8, 3]) == pytest.approx((1 + 0.5 + 0.5 + 1 + 1) / 25)
    assert pn.smare([4, 3, 2, 1], [1, 2, 3, 4], sign=-1) == 0
    n = 1001
    assert pn.smare(np.arange(n), -np.arange(n)) == pytest.approx(0.5, abs=1e-6)
    rng = np.random.default_rng(0)
    assert np.mean([pn.smare(rng.random(n), rng.random(n)) for _ in range(50)]) == pytest.approx(1 / 3, abs=0.01)


def test_resamples_hold_n_queries_and_repeat_with_their_seed():
    w = pn.resamples(50, 3, 400)
    assert w.shape == (400, 50) and (w.sum(axis=1) == 50).all() and w.mean(axis=0).std() < 0.1
    assert np.array_equal(w, pn.resamples(50, 3, 400)) and not np.array_equal(w, pn.resamples(50, 4, 400))
    assert w.var() == pytest.approx(1 - 1 / 50, abs=0.03)  # binomial, not a shuffle


@pytest.mark.parametrize("block", [2**22, 120 * 7, 1])
def test_draws_are_scipy_on_explicit_resamples_whatever_the_blocks(monkeypatch, block):
    monkeypatch.setattr(pn, "BLOCK", block)
    x, y = columns()
    taus, errors = pn.kendall_draws(x, y, seed=3, n_boot=25), pn.smare_draws(x, y, seed=3, n_boot=25)
    assert taus.shape == errors.shape == (25, 3, 2)
    for draw, rows in enumerate(explicit(120, 3, 25)):
        for p in range(3):
            for t in range(2):
                one, other = x[rows, p], y[rows, t]
                assert taus[draw, p, t] == pytest.approx(stats.kendalltau(one, other).statistic, abs=1e-6)
                ranks = stats.rankdata(one) - stats.rankdata(other)
                assert errors[draw, p, t] == pytest.approx(np.abs(ranks).mean() / 120, abs=1e-12)


def test_draws_of_more_rows_than_a_block_of_signs():
    x, y = columns(700, seed=5)  # blocks of 256 rows
    taus = pn.kendall_draws(x, y, seed=1, n_boot=3)
    expected = [[[stats.kendalltau(a, b).statistic for b in y[r].T] for a in x[r].T] for r in explicit(700, 1, 3)]
    assert taus == pytest.approx(np.array(expected), abs=1e-6)


def test_a_resample_of_one_value_has_no_tau():
    taus = pn.kendall_draws([1, 2, 3], [0, 0, 1], n_boot=200)[:, 0, 0]
    lacking = [len(set(np.array([0, 0, 1])[rows])) == 1 for rows in explicit(3, 0, 200)]
    assert np.isnan(taus).tolist() == lacking and 0 < sum(lacking) < 200


@pytest.mark.parametrize("function", [pn.kendall, pn.smare, pn.kendall_draws, pn.smare_draws])
@pytest.mark.parametrize(
    ("predictor", "target", "message"),
    [
        ([1, 2, np.nan], [1, 2, 3], "predictor: NaN or infinite in rows 2;"),
        ([1, 2, 3], [np.inf, 2, 3], "target: NaN or infinite in rows 0;"),
        ([1, 2, 3], [1, 2], "3 values of the predictor and 2 of the target"),
        ([1], [1], "two at least"),
        ([], [], "shape"),
    ],
)
def test_columns_that_have_no_order_are_errors(function, predictor, target, message):
    with pytest.raises(InputError, match=message):
        function(predictor, target)


def test_within_groups_is_the_mean_of_the_groups():
    x, y = columns(90, seed=2)
    groups = np.repeat(["a", "b", "c", "lonely"], [50, 30, 9, 1])
    x[groups == "b"] += 100  # a cluster that is easier and nearer
    y[groups == "b"] += 100
    tau, draws = pn.within_draws(x, y, groups, seed=1, n_boot=20)
    sizes = {"a": 50, "b": 30, "c": 9}
    for p in range(3):
        for t in range(2):
            own = {g: stats.kendalltau(x[groups == g, p], y[groups == g, t]).statistic for g in sizes}
            assert tau[p, t] == pytest.approx(sum(own[g] * n for g, n in sizes.items()) / 89)
            assert stats.kendalltau(x[:, p], y[:, t]).statistic > tau[p, t] + 0.1
    for draw in range(20):
        total = 0
        for number, (g, n) in enumerate(sizes.items()):
            rows = np.flatnonzero(groups == g)[explicit(n, [1, number], 20)[draw]]
            total += n * stats.kendalltau(x[rows, 0], y[rows, 0]).statistic
        assert draws[draw, 0, 0] == pytest.approx(total / 89)


def test_a_group_without_order_is_left_out():
    x, y, groups = np.array([1, 2, 3, 1, 2, 3.0]), np.array([1, 3, 2, 7, 7, 7.0]), list("aaabbb")
    tau, draws = pn.within_draws(x, y, groups, n_boot=10)
    assert tau[0, 0] == pytest.approx(1 / 3) and np.nanmax(draws) <= 1
    assert np.isnan(pn.within_draws(x[3:], y[3:], groups[3:], n_boot=2)[0]).all()


@pytest.mark.parametrize(
    ("groups", "message"),
    [(["a", "b", "c"], "no group has two"), (["a", "a"], "2 labels for 3"), (["a", "a", None], "2 labels for 3")],
)
def test_bad_groups_are_errors(groups, message):
    with pytest.raises(InputError, match=message):
        pn.within_draws([1, 2, 3], [1, 2, 3], groups, n_boot=2)


def test_table_matches_queries_by_id():
    x, y = frames()
    table = pn.prediction_table(x, y.sample(frac=1, random_state=1), n_boot=200, seed=4)
    assert list(zip(table["predictor"], table["target"], strict=True)) == [(p, t) for p in x for t in y]
    assert (table["n_queries"] == 60).all() and "kendall_within" not in table
    for row in table.itertuples():
        assert row.kendall == pytest.approx(stats.kendalltau(x[row.predictor], y[row.target]).statistic)
        assert row.smare == pytest.approx(pn.smare(x[row.predictor], y[row.target]))
        assert row.kendall_low < row.kendall < row.kendall_high
        assert row.smare_low < row.smare_high and row.smare < row.smare_high


def test_interval_is_that_of_the_draws():
    x, y = frames()
    row = pn.prediction_table(x, y, n_boot=300, seed=4, level=0.8).iloc[0]
    draws = pn.kendall_draws(x.to_numpy(), y.to_numpy(), 4, 300)[:, 0, 0]
    assert [row["kendall_low"], row["kendall_high"]] == pytest.approx(np.quantile(draws, [0.1, 0.9]), abs=0.01)


def test_missing_values_are_dropped_for_their_pair_alone():
    x, y = frames()
    x.loc[["q0", "q1"], "R"] = np.nan
    y.loc[["q1", "q2", "q3"], "loss"] = np.nan
    table = pn.prediction_table(x, y, n_boot=50).set_index(["predictor", "target"])
    counts = {("R", "loss"): 56, ("R", "RR@10"): 58, ("length", "loss"): 57, ("noise", "RR@10"): 60}
    for (predictor, target), n in counts.items():
        kept = x[predictor].notna() & y[target].notna()
        expected = stats.kendalltau(x.loc[kept, predictor], y.loc[kept, target]).statistic
        assert table.loc[(predictor, target), "n_queries"] == n == kept.sum()
        assert table.loc[(predictor, target), "kendall"] == pytest.approx(expected)


def test_signs_turn_tau_and_smare_round():
    x, y = frames()
    plain = pn.prediction_table(x, y, n_boot=100).set_index(["predictor", "target"])
    turned = pn.prediction_table(x, y, signs={"R": -1, "loss": -1}, n_boot=100).set_index(["predictor", "target"])
    assert turned.loc[("R", "RR@10"), "kendall"] == pytest.approx(-plain.loc[("R", "RR@10"), "kendall"])
    assert turned.loc[("R", "RR@10"), "kendall_low"] == pytest.approx(-plain.loc[("R", "RR@10"), "kendall_high"])
    assert turned.loc[("R", "RR@10"), "smare"] == pytest.approx(pn.smare(x["R"], y["RR@10"], sign=-1))
    for pair in (("R", "loss"), ("noise", "RR@10")):  # both sides turned, or none
        assert turned.loc[pair].tolist() == pytest.approx(plain.loc[pair].tolist())


def test_groups_add_tau_within_them():
    x, y = frames()
    groups = pd.Series(np.repeat(["near", "far"], 30), x.index)
    x["R"] += np.where(groups == "near", 100, 0)
    y["loss"] += np.where(groups == "near", 100, 0)
    table = pn.prediction_table(x, y, groups=groups.sample(frac=1, random_state=1), n_boot=100, seed=2)
    row = table.iloc[0]
    tau, draws = pn.within_draws(x[["R"]], y[["loss"]], groups, seed=2, n_boot=100)
    assert row["kendall_within"] == pytest.approx(tau[0, 0]) and row["kendall_within"] < row["kendall"] - 0.2
    assert row["kendall_within_low"] in draws and row["kendall_within_low"] < tau[0, 0] < row["kendall_within_high"]


def test_a_constant_predictor_has_no_tau_but_an_error_of_ranks():
    x, y = frames()
    row = pn.prediction_table(x.assign(same=1.0)[["same"]], y[["loss"]], n_boot=20).iloc[0]
    assert row[["kendall", "kendall_low", "kendall_high"]].isna().all() and 0.2 < row["smare"] < 0.3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": frames()[1].drop("q7")}, "not the same queries.*'q7'"),
        ({"groups": pd.Series("a", [f"q{i}" for i in range(59)])}, "groups: not the same queries.*'q59'"),
        ({"signs": {"S": -1}}, "'S' is neither"),
        ({"signs": {"R": -1, "loss": 2}}, "'loss' must be 1 or -1"),
        ({"targets": frames()[1].assign(loss=np.nan)}, "'loss': 0 queries have both"),
        ({"level": 95}, "confidence level"),
    ],
)
def test_a_table_of_bad_input_is_an_error(change, message):
    x, y = frames()
    with pytest.raises(InputError, match=message):
        pn.prediction_table(**{"predictors": x, "targets": y, "n_boot": 5, **change})


def test_difference_is_of_the_same_resamples():
    x, y = columns()
    row = pn.tau_difference(x[:, 2], x[:, 0], y[:, 0], seed=5, n_boot=300)
    assert row["difference"] == pytest.approx(pn.kendall(x[:, 0], y[:, 0]) - pn.kendall(x[:, 2], y[:, 0]))
    assert row["first"] == pn.kendall(x[:, 2], y[:, 0]) and 0 < row["low"] < row["difference"] < row["high"]
    draws = pn.kendall_draws(x, y, 5, 300)
    gaps = draws[:, 0, 0] - draws[:, 2, 0]
    assert [row["low"], row["high"]] == pytest.approx(np.quantile(gaps, [0.025, 0.975]), abs=0.02)
    same = pn.tau_difference(x[:, 0], x[:, 0], y[:, 0], n_boot=20)
    assert (same["difference"], same["low"], same["high"]) == (0, 0, 0)


def test_difference_within_groups():
    x, y = columns()
    groups = np.repeat([0, 1], 60)
    row = pn.tau_difference(x[:, 2], x[:, 0], y[:, 0], groups, seed=5, n_boot=50)
    tau, draws = pn.within_draws(x[:, [2, 0]], y[:, 0], groups, seed=5, n_boot=50)
    assert row["difference"] == pytest.approx(tau[1, 0] - tau[0, 0])
    assert row["low"] == pytest.approx((draws[:, 1, 0] - draws[:, 0, 0]).min(), abs=0.1)
    with pytest.raises(InputError, match="119 and 120"):
        pn.tau_difference(x[1:, 0], x[:, 0], y[:, 0])
