import numpy as np
import pytest
from scipy import stats

from interextra.stats.correlation import (
    correlation_test,
    correlations,
    drawn_groups,
    independent,
    interval_of_one,
    kendall_draws,
    steiger,
    stretched_z,
)

SCIPY = {"Spearman": stats.spearmanr, "Kendall": stats.kendalltau, "Pearson": stats.pearsonr}


@pytest.mark.parametrize("method", SCIPY)
@pytest.mark.parametrize("own_points", [False, True])
def test_counts_are_repeated_points(method, own_points):
    random = np.random.default_rng(1)
    shape = (40, 12) if own_points else (12,)
    x, y = random.normal(size=shape).round(1), random.normal(size=shape).round(1)  # with ties
    counts = random.integers(0, 4, size=(40, 12))
    found = correlations(x, y, counts, method)
    for row, times in enumerate(counts):
        sides = [np.repeat(side[row] if own_points else side, times) for side in (x, y)]
        assert found[row] == pytest.approx(SCIPY[method](*sides).statistic, abs=1e-12)


def test_within_labels_is_the_correlation_of_what_is_left_of_the_ranks():
    random = np.random.default_rng(2)
    labels = np.repeat([0, 1, 2], 5)
    x, y = random.normal(size=15) + 10 * labels, random.normal(size=15) + 10 * labels
    left = [
        np.concatenate([part - part.mean() for part in np.split(stats.rankdata(side), 3)])
        for side in (x, y)
    ]
    [within] = correlations(x, y, np.ones((1, 15)), "Spearman", within=labels)
    assert within == pytest.approx(stats.pearsonr(*left).statistic)
    assert abs(within) < 0.8 < correlations(x, y, np.ones((1, 15)), "Spearman")[0]


def test_within_labels_follows_the_counts():
    x, y = np.array([1.0, 2, 4, 9, 7, 8]), np.array([2.0, 1, 5, 6, 8, 9])
    labels, counts = np.array(list("aaabbb")), np.array([[2, 0, 1, 1, 3, 1]])
    repeated = [np.repeat(part, counts[0]) for part in (x, y, labels)]
    again = correlations(*repeated[:2], np.ones((1, 8)), "Spearman", within=repeated[2])
    assert correlations(x, y, counts, "Spearman", within=labels) == pytest.approx(again)


def test_equal_points_have_no_correlation():
    for method in SCIPY:
        assert np.isnan(correlations([1.0, 1, 1], [1.0, 2, 3], np.ones((1, 3)), method)).all()
        assert np.isnan(correlations([1.0, 2, 3], [1.0, 2, 3], [[3.0, 0, 0]], method)).all()
        assert np.isnan(
            correlations([0.1] * 3, [1.0, 2, 4], np.ones((1, 3)), method)
        ).all()  # their mean is not 0.1


def test_groups_are_drawn_whole():
    counts = drawn_groups(list("aabbbc"), seed=3, n_boot=500)
    assert (counts[:, 0] == counts[:, 1]).all() and (counts[:, 2] == counts[:, 4]).all()
    assert (counts[:, [0, 2, 5]].sum(axis=1) == 3).all() and counts.mean() == pytest.approx(
        1, abs=0.1
    )


def test_steiger_agrees_with_his_example_and_changes_with_what_is_shared():
    # Psychological Bulletin 87 (1980), correlations at two times, n = 103: z = -1.40, not
    # significant
    example = np.array(
        [[1, 0.5, 0.7, 0.5], [0.5, 1, 0.5, 0.8], [0.7, 0.5, 1, 0.6], [0.5, 0.8, 0.6, 1]]
    )
    z, p_value = steiger(example, 103)
    assert (round(z, 2), round(p_value, 2)) == (-1.40, 0.16)
    apart = np.eye(4)
    apart[[0, 1, 2, 3], [1, 0, 3, 2]] = 0.5, 0.5, 0.6, 0.6
    z, p_value = steiger(apart, 103)  # nothing shared: two independent correlations
    assert p_value == pytest.approx(independent(0.5, 0.6, 103, "Pearson")) and p_value > 0.16
    assert steiger(np.array(example)[np.ix_([2, 3, 0, 1], [2, 3, 0, 1])], 103)[0] == pytest.approx(
        1.40, abs=0.005
    )


@pytest.mark.parametrize(
    ("matrix", "n"),
    [(np.ones((4, 4)), 9), (np.eye(4), 3), (np.eye(4) + np.eye(4)[[1, 0, 3, 2]], 9)],
)
def test_steiger_is_undefined_where_a_correlation_is_1_and_says_nothing(matrix, n):
    assert np.isnan(steiger(matrix, n)).all()


def test_steiger_keeps_its_level():
    random = np.random.default_rng(4)
    shared = np.linalg.cholesky(
        [[1, 0.5, 0.6, 0.3], [0.5, 1, 0.3, 0.6], [0.6, 0.3, 1, 0.5], [0.3, 0.6, 0.5, 1]]
    )
    p_values = [
        steiger(np.corrcoef(shared @ random.normal(size=(4, 24))), 24)[1] for _ in range(2000)
    ]
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.05, abs=0.02)


def test_interval_of_pearson_is_scipys():
    x, y = np.random.default_rng(5).normal(size=(2, 30))
    found = stats.pearsonr(x, y)
    assert interval_of_one(found.statistic, 30, "Pearson") == pytest.approx(
        tuple(found.confidence_interval())
    )
    wider = interval_of_one(0.7, 30, "Spearman")
    assert wider[0] < interval_of_one(0.7, 30, "Pearson")[0]


def test_stretched_draws_of_few_groups_keep_their_level_where_plain_ones_do_not():
    """Eight groups of three points each, nothing to be found: a symmetric interval misses 0 in at
    most 5 % or so.
    """
    random, missed = np.random.default_rng(6), {"plain": 0, "stretched": 0}
    for seed in range(400):
        x, y = ((random.normal(size=(8, 1)) + random.normal(size=(8, 3))).ravel() for _ in range(2))
        [at] = correlations(x, y, np.ones((1, 24)), "Spearman")
        drawn = correlations(x, y, drawn_groups(np.repeat(range(8), 3), seed, 400), "Spearman")
        for name, made in {"plain": drawn, "stretched": stretched_z(drawn, at, 8)}.items():
            missed[name] += abs(at) > np.quantile(abs(made - at), 0.95)
    assert missed["stretched"] / 400 <= 0.06 < 0.075 < missed["plain"] / 400


@pytest.mark.parametrize("n", [4, 8, 14])
def test_correlation_is_that_of_scipy_and_spearman_of_few_points_is_tested_by_all_orders(n):
    x, y = np.random.default_rng(n).random((2, n))
    y[1] = y[0]  # a tie
    for method, function in (("Pearson", stats.pearsonr), ("Spearman", stats.spearmanr)):
        found, known = correlation_test(x, y, method), function(x, y)
        assert (
            found["estimate"] == pytest.approx(known.statistic)
            and found["low"] < found["estimate"] < found["high"]
        )
        exact = method == "Spearman" and n < 9
        assert exact or found["p_value"] == pytest.approx(known.pvalue)
    assert correlation_test(x, y, "Pearson")["low"] == pytest.approx(
        stats.pearsonr(x, y).confidence_interval().low
    )
    if n == 4:
        orders = [
            abs(stats.spearmanr(x, y[list(order)]).statistic)
            for order in np.ndindex(4, 4, 4, 4)
            if len(set(order)) == 4
        ]
        share = np.mean(np.array(orders) >= abs(found["estimate"]) - 1e-9)
        assert found["p_value"] == pytest.approx(share)


def test_needed_is_the_critical_value_of_the_tables():
    for n, pearson, spearman in (
        (5, 0.878, 1.0),
        (6, 0.811, 0.886),
        (7, 0.754, 0.786),
        (8, 0.707, 0.738),
    ):
        x, y = np.arange(n), np.random.default_rng(1).permutation(n)
        assert correlation_test(x, y, "Pearson")["needed"] == pytest.approx(pearson, abs=5e-4)
        assert correlation_test(x, y, "Spearman")["needed"] == pytest.approx(spearman, abs=5e-4)
    perfect = correlation_test(np.arange(5), -np.arange(5), "Spearman")
    assert (
        perfect["estimate"] == -1
        and np.isnan(perfect["low"])
        and perfect["p_value"] == pytest.approx(2 / 120)
    )


def test_within_shifts_what_is_between_them_is_taken_off_and_costs_a_degree_of_freedom():
    draw, shifts = np.random.default_rng(2), np.repeat(["s", "t", "u"], [4, 5, 3])
    x = draw.normal(size=12) + np.select([shifts == "s", shifts == "t"], [0, 5], 9)
    y = -draw.normal(size=12) + 2 * np.select([shifts == "s", shifts == "t"], [0, 5], 9)
    for method in ("Pearson", "Spearman"):
        assert correlation_test(x, y, method)["estimate"] > 0.8
        found = correlation_test(x, y, method, shifts)
        a, b = (stats.rankdata(side) if method == "Spearman" else side for side in (x, y))
        dummies = np.column_stack([np.ones(12), shifts == "s", shifts == "t"]).astype(
            float
        )  # partial correlation
        rests = [side - dummies @ np.linalg.lstsq(dummies, side, rcond=None)[0] for side in (a, b)]
        r = np.corrcoef(*rests)[0, 1]
        t = r * np.sqrt(8 / (1 - r**2))  # 12 points less 2 of the line and 2 shifts
        assert found["estimate"] == pytest.approx(r) and abs(r) < 0.7
        assert found["p_value"] == pytest.approx(2 * stats.t.sf(abs(t), 8))
        wide = 1 + (method == "Spearman") * r**2 / 2
        assert np.arctanh(found["high"]) - np.arctanh(r) == pytest.approx(
            1.959964 * np.sqrt(wide / 7)
        )
        assert (abs(r) > found["needed"]) == (found["p_value"] < 0.05)


def test_both_kernels_of_tau_b_give_the_same_numbers():
    random = np.random.default_rng(7)
    x, y = random.normal(size=(2, 60)).round(1)  # with ties
    counts = random.multinomial(60, np.full(60, 1 / 60), 50)
    blocks = kendall_draws(x, y, counts.T.astype(np.float32))[:, 0, 0]
    assert correlations(x, y, counts, "Kendall").tolist() == blocks.tolist()
