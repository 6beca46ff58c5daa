"""Orders of queries against scipy on explicit resamples, and against ranks on paper."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from interextra.measures import predictors as pn
from interextra.stats import correlation
from interextra.stats.bootstrap import resamples, seed_of
from interextra.stats.correlation import kendall_draws, kendall_within
from interextra.store.errors import InputError


def columns(n=120, seed=0):
    """Predictors [n, 3] and targets [n, 2] that follow a common ease; some with many ties, as RR@10
    has.
    """
    rng = np.random.default_rng(seed)
    ease = rng.normal(size=n)
    predictors = np.column_stack(
        [ease + rng.normal(size=n), (ease + rng.normal(size=n)).round(), rng.normal(size=n)]
    )
    reciprocal = np.where(rng.random(n) < 0.6, 0, 1 / rng.integers(1, 11, n))
    return predictors, np.column_stack([ease + rng.normal(size=n), reciprocal])


def counts(units, seed, n_boot):
    values = pd.DataFrame({"query_id": range(len(units)), "unit": units})
    return pn.resampled(values, seed, n_boot).to_numpy()


def weights(n, seed, n_boot):
    return counts(range(n), seed, n_boot)


def explicit(w):
    """Rows of the queries of each resample."""
    return [np.repeat(np.arange(len(w)), often) for often in w.T.astype(int)]


def frames(n=60, seed=0):
    ids = [f"q{i}" for i in range(n)]
    x, y = columns(n, seed)
    return pd.DataFrame(x, ids, ["R", "length", "noise"]), pd.DataFrame(y, ids, ["loss", "RR@10"])


def table_of(x, y, seed=4, n_boot=50, groups=None):
    groups = pd.Series("one", y.index) if groups is None else groups
    return pn.prediction_table(x, y, groups, weights(len(groups), seed, n_boot))


def test_queries_of_one_unit_are_drawn_together():
    units, drawn = list("aabcb"), np.concatenate(list(resamples(3, seed_of(7, "abc"), 40)))
    w = counts(units, 7, 40)
    assert w.shape == (5, 40) and w.dtype == np.float32
    for row, unit in zip(w, units, strict=True):
        assert row.tolist() == drawn[:, "abc".index(unit)].tolist()


@pytest.mark.parametrize("block", [2**22, 120 * 7, 1])
def test_draws_are_scipy_on_explicit_resamples_whatever_the_blocks(monkeypatch, block):
    monkeypatch.setattr(correlation, "BLOCK", block)
    x, y = columns()
    w = counts(np.arange(120) // 2, 3, 25)  # two queries a unit
    taus = kendall_draws(x, y, w)
    assert taus.shape == (25, 3, 2)
    for draw, rows in enumerate(explicit(w)):
        for p in range(3):
            for t in range(2):
                one, other = x[rows, p], y[rows, t]
                assert taus[draw, p, t] == pytest.approx(
                    stats.kendalltau(one, other).statistic, abs=1e-6
                )


def test_draws_of_more_rows_than_a_block_of_signs():
    x, y = columns(700, seed=5)  # blocks of 256 rows
    w = weights(700, 1, 3)
    taus = kendall_draws(x, y, w)
    expected = [
        [[stats.kendalltau(a, b).statistic for b in y[r].T] for a in x[r].T] for r in explicit(w)
    ]
    assert taus == pytest.approx(np.array(expected), abs=1e-6)


def test_a_resample_of_one_value_has_no_tau():
    w = weights(3, 0, 200)
    taus = kendall_draws([1, 2, 3], [0, 0, 1], w)[:, 0, 0]
    lacking = [len(set(np.array([0, 0, 1])[rows])) == 1 for rows in explicit(w)]
    assert np.isnan(taus).tolist() == lacking and 0 < sum(lacking) < 200


@pytest.mark.parametrize(
    ("predictor", "target", "message"),
    [
        ([1, 2, np.nan], [1, 2, 3], "predictor: NaN or infinite in rows 2;"),
        ([1, 2, 3], [np.inf, 2, 3], "target: NaN or infinite in rows 0;"),
        ([1, 2, 3], [1, 2], "3 values of the predictor and 2 of the target"),
        ([1], [1], "two at least"),
    ],
)
def test_columns_that_have_no_order_are_errors(predictor, target, message):
    with pytest.raises(InputError, match=message):
        kendall_draws(predictor, target, np.ones((3, 2), np.float32))


def test_within_groups_is_the_mean_of_the_groups():
    x, y = columns(90, seed=2)
    groups = np.repeat(["a", "b", "c", "lonely"], [50, 30, 9, 1])
    x[groups == "b"] += 100  # a cluster that is easier and nearer
    y[groups == "b"] += 100
    w = weights(90, 1, 20)
    tau, draws = kendall_within(x, y, groups, w)
    sizes = {"a": 50, "b": 30, "c": 9}
    for p in range(3):
        for t in range(2):
            own = {
                g: stats.kendalltau(x[groups == g, p], y[groups == g, t]).statistic for g in sizes
            }
            assert tau[p, t] == pytest.approx(sum(own[g] * n for g, n in sizes.items()) / 89)
            assert stats.kendalltau(x[:, p], y[:, t]).statistic > tau[p, t] + 0.1
    for draw in range(20):
        total = 0
        for g, n in sizes.items():
            rows = np.flatnonzero(groups == g)[explicit(w[groups == g])[draw]]
            total += n * stats.kendalltau(x[rows, 0], y[rows, 0]).statistic
        assert draws[draw, 0, 0] == pytest.approx(total / 89)


def test_a_group_without_order_is_left_out():
    x, y, groups = np.array([1, 2, 3, 1, 2, 3.0]), np.array([1, 3, 2, 7, 7, 7.0]), list("aaabbb")
    w = weights(6, 0, 10)
    tau, draws = kendall_within(x, y, groups, w)
    assert tau[0, 0] == pytest.approx(1 / 3) and np.nanmax(draws) <= 1
    assert np.isnan(kendall_within(x[3:], y[3:], groups[3:], w[3:])[0]).all()


def test_groups_of_one_query_are_errors():
    with pytest.raises(InputError, match="no group has two"):
        kendall_within([1, 2, 3], [1, 2, 3], ["a", "b", "c"], weights(3, 0, 2))


def test_table_has_a_row_for_each_predictor_and_target():
    x, y = frames()
    table = table_of(x, y, n_boot=200)
    assert list(zip(table["name"], table["target"], strict=True)) == [(p, t) for p in x for t in y]
    assert (table["n_queries"] == 60).all()
    for row in table.itertuples():
        assert row.kendall == pytest.approx(stats.kendalltau(x[row.name], y[row.target]).statistic)
        assert row.kendall_low < row.kendall < row.kendall_high


def test_interval_is_that_of_the_draws():
    x, y = frames()
    row = table_of(x, y, n_boot=300).iloc[0]
    draws = kendall_draws(x.to_numpy(), y.to_numpy(), weights(60, 4, 300))[:, 0, 0]
    assert [row["kendall_low"], row["kendall_high"]] == pytest.approx(
        np.quantile(draws, [0.025, 0.975]), abs=0.01
    )


def test_missing_values_are_dropped_for_their_predictor_alone():
    x, y = frames()
    x.loc[["q0", "q1"], "R"] = np.nan
    x.loc["q1", "length"] = np.nan
    table = table_of(x, y).set_index(["name", "target"])
    for (predictor, target), row in table.iterrows():
        kept = x[predictor].notna()
        assert row["n_queries"] == kept.sum() == {"R": 58, "length": 59, "noise": 60}[predictor]
        assert row["kendall"] == pytest.approx(
            stats.kendalltau(x.loc[kept, predictor], y.loc[kept, target]).statistic
        )


def test_a_side_that_is_turned_turns_tau_round():
    x, y = frames()
    turned = (x, y), (x.assign(R=-x["R"]), y.assign(loss=-y["loss"]))
    plain, turned = (
        table_of(*pair).drop(columns="draws").set_index(["name", "target"]) for pair in turned
    )
    assert turned.loc[("R", "RR@10"), "kendall"] == pytest.approx(
        -plain.loc[("R", "RR@10"), "kendall"]
    )
    assert turned.loc[("R", "RR@10"), "kendall_low"] == pytest.approx(
        -plain.loc[("R", "RR@10"), "kendall_high"]
    )
    for pair in (("R", "loss"), ("noise", "RR@10")):  # both sides turned, or none
        assert turned.loc[pair].tolist() == pytest.approx(plain.loc[pair].tolist())


def test_tau_within_groups_leaves_out_what_is_between_them():
    x, y = frames()
    groups = pd.Series(np.repeat(["near", "far"], 30), x.index)
    x["R"] += np.where(groups == "near", 100, 0)
    y["loss"] += np.where(groups == "near", 100, 0)
    w = weights(60, 2, 100)
    table = pn.prediction_table(x, y, groups, w)
    row, drawn, (tau, draws) = (
        table.iloc[0],
        table.drawn(),
        kendall_within(x[["R"]], y[["loss"]], groups, w),
    )
    assert row["within"] == pytest.approx(tau[0, 0]) and row["within"] < row["kendall"] - 0.2
    assert row["within_low"] in draws and row["within_low"] < tau[0, 0] < row["within_high"]
    assert drawn.shape == (6, 100) and drawn[0] == pytest.approx(draws[:, 0, 0])


def test_a_constant_predictor_has_no_tau():
    x, y = frames()
    row = table_of(x.assign(same=1.0)[["same"]], y[["loss"]], n_boot=20).iloc[0]
    assert row[["kendall", "kendall_low", "kendall_high", "within"]].isna().all()


def test_a_missing_target_is_an_error():
    x, y = frames()
    with pytest.raises(InputError, match="target: NaN or infinite in rows 0"):
        table_of(x, y.assign(loss=np.nan), n_boot=5)
