"""Leave-one-out: matrix, sides and losses against loops over queries; intervals from joint draws."""

import numpy as np
import pytest
from scipy import stats

from interextra.ground.errors import InputError
from interextra.evaluation.leave_one_out import Grid, loss_draws, loss_rows

CLUSTER = np.array([2, 0, 0, 1, 2, 1, 0, 2, 2])
NAMES = ("a", "b", "c")


def grid(seed=0, measure="RR@10"):
    return Grid(measure, NAMES, CLUSTER, np.random.default_rng(seed).random((3, len(CLUSTER))))


def test_matrix_holds_the_mean_of_every_model_on_every_cluster():
    made = grid()
    for i in range(3):
        for j in range(3):
            inside = [made.values[i, q] for q in range(len(CLUSTER)) if CLUSTER[q] == j]
            assert made.matrix[i, j] == pytest.approx(sum(inside) / len(inside))


def test_avg_in_is_the_mean_over_the_models_that_had_the_cluster():
    made = grid()
    avg_in, out = made.sides
    for q, own in enumerate(CLUSTER):
        others = [made.values[i, q] for i in range(3) if i != own]
        assert out[q] == made.values[own, q] and avg_in[q] == pytest.approx(sum(others) / 2)


def test_relative_loss_is_that_of_the_means():
    made = grid()
    matrix = made.matrix
    for i in range(3):
        inside = np.mean([matrix[j, i] for j in range(3) if j != i])
        assert made.losses()[i] == pytest.approx((inside - matrix[i, i]) / inside)


def test_rows_carry_loss_interval_and_the_papers_test():
    made = grid(4)
    rows = loss_rows(made, seed=1, n_boot=2000)
    assert [row["cluster"] for row in rows] == list(NAMES)
    for i, row in enumerate(rows):
        avg_in, out = (side[i == CLUSTER] for side in made.sides)
        assert row["rel_loss"] == pytest.approx(made.losses()[i]) and row["low"] <= row["rel_loss"] <= row["high"]
        assert (row["avg_in"], row["out"]) == pytest.approx((avg_in.mean(), out.mean()))
        assert row["p_value"] == pytest.approx(stats.ttest_rel(avg_in, out).pvalue)


def test_exceptions_are_models_that_had_the_cluster_and_are_worse_on_it():
    values = np.array([[0.5, 0.9, 0.4], [0.4, 0.8, 0.6], [0.7, 0.7, 0.5]])  # rows: left out; one query a cluster
    cluster = np.arange(3)
    assert Grid("RR@10", NAMES, cluster, values).exceptions() == 3  # .4 < .5 of a; .7 < .8 of b; .4 < .5 of c
    assert Grid("ASL@100", NAMES, cluster, values).exceptions() == 3  # .7 > .5; .9 > .8; .6 > .5
    assert Grid("RR@10", NAMES, cluster, 1 - np.eye(3)).exceptions() == 0


def test_ties_with_the_diagonal_are_no_exceptions():
    assert Grid("RR@10", NAMES, np.arange(3), np.full((3, 3), 0.5)).exceptions() == 0


def test_draws_hit_all_systems_alike():
    made = grid(2)
    worse = Grid(made.measure, NAMES, CLUSTER, made.values * 0.5)  # the same relative losses in every draw
    losses, outs = loss_draws([made, worse], seed=3, n_boot=500)
    assert losses.shape == outs.shape == (500, 2, 3)
    np.testing.assert_allclose(losses[:, 0], losses[:, 1], atol=1e-12)
    np.testing.assert_allclose(outs[:, 1], outs[:, 0] / 2)
    assert losses[:, 0].std(axis=0).min() > 0


def test_draws_centre_on_the_estimate_with_the_spread_of_the_single_interval():
    rng = np.random.default_rng(7)
    cluster = np.repeat([0, 1], 200)
    made = Grid("RR@10", ("a", "b"), cluster, rng.random((2, 400)))
    losses, outs = loss_draws([made], seed=1, n_boot=4000)
    assert losses[:, 0].mean(axis=0) == pytest.approx(made.losses(), abs=0.01)
    assert outs[:, 0].mean(axis=0) == pytest.approx(np.diag(made.matrix), abs=0.005)
    for i, row in enumerate(loss_rows(made, seed=5, n_boot=4000)):
        assert np.percentile(losses[:, 0, i], [2.5, 97.5]) == pytest.approx([row["low"], row["high"]], abs=0.02)


def test_a_cluster_that_is_0_in_a_draw_has_no_loss_there():
    values = np.array([[0.0, 0, 0.5], [0, 1.0, 0.5]])
    losses, _ = loss_draws([Grid("RR@10", ("a", "b"), np.array([0, 0, 1]), values)], n_boot=300)
    empty = np.isnan(losses[:, 0, 0])
    assert 0.1 < empty.mean() < 0.45 and not np.isnan(losses[:, 0, 1]).any()  # both draws of two take the query of 0


def test_systems_on_other_queries_are_refused():
    other = Grid("RR@10", NAMES, CLUSTER[::-1].copy(), grid().values)
    with pytest.raises(InputError, match="not measured on the same queries"):
        loss_draws([grid(), other])


def test_empty_cluster_and_wrong_shape_are_refused():
    with pytest.raises(InputError, match="no test query in cluster 'b'"):
        Grid("RR@10", ("a", "b"), np.array([0, 0]), np.ones((2, 2)))
    with pytest.raises(InputError, match=r"not \(2, 2\)"):
        Grid("RR@10", ("a", "b"), np.array([0, 1]), np.ones((2, 3)))
