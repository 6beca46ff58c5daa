import numpy as np
import pytest
from scipy import stats

from interextra.ground.correlation import correlations, drawn_groups, independent, interval_of_one, steiger, stretched

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
    left = [np.concatenate([part - part.mean() for part in np.split(stats.rankdata(side), 3)]) for side in (x, y)]
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


def test_groups_are_drawn_whole():
    counts = drawn_groups(list("aabbbc"), seed=3, n_boot=500)
    assert (counts[:, 0] == counts[:, 1]).all() and (counts[:, 2] == counts[:, 4]).all()
    assert (counts[:, [0, 2, 5]].sum(axis=1) == 3).all() and counts.mean() == pytest.approx(1, abs=0.1)


def test_steiger_agrees_with_his_example_and_changes_with_what_is_shared():
    # Psychological Bulletin 87 (1980), correlations at two times, n = 103: z = -1.40, not significant
    example = np.array([[1, 0.5, 0.7, 0.5], [0.5, 1, 0.5, 0.8], [0.7, 0.5, 1, 0.6], [0.5, 0.8, 0.6, 1]])
    z, p_value = steiger(example, 103)
    assert (round(z, 2), round(p_value, 2)) == (-1.40, 0.16)
    apart = np.eye(4)
    apart[[0, 1, 2, 3], [1, 0, 3, 2]] = 0.5, 0.5, 0.6, 0.6
    z, p_value = steiger(apart, 103)  # nothing shared: two independent correlations
    assert p_value == pytest.approx(independent(0.5, 0.6, 103, "Pearson")) and p_value > 0.16
    assert steiger(np.array(example)[np.ix_([2, 3, 0, 1], [2, 3, 0, 1])], 103)[0] == pytest.approx(1.40, abs=0.005)


def test_steiger_keeps_its_level():
    random = np.random.default_rng(4)
    shared = np.linalg.cholesky([[1, 0.5, 0.6, 0.3], [0.5, 1, 0.3, 0.6], [0.6, 0.3, 1, 0.5], [0.3, 0.6, 0.5, 1]])
    p_values = [steiger(np.corrcoef(shared @ random.normal(size=(4, 24))), 24)[1] for _ in range(2000)]
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.05, abs=0.02)


def test_interval_of_pearson_is_scipys():
    x, y = np.random.default_rng(5).normal(size=(2, 30))
    found = stats.pearsonr(x, y)
    assert interval_of_one(found.statistic, 30, "Pearson") == pytest.approx(tuple(found.confidence_interval()))
    wider = interval_of_one(0.7, 30, "Spearman")
    assert wider[0] < interval_of_one(0.7, 30, "Pearson")[0]


def test_stretched_draws_of_few_groups_keep_their_level_where_plain_ones_do_not():
    """Eight groups of three points each, nothing to be found: a symmetric interval misses 0 in at most 5 % or so."""
    random, missed = np.random.default_rng(6), {"plain": 0, "stretched": 0}
    for seed in range(400):
        x, y = ((random.normal(size=(8, 1)) + random.normal(size=(8, 3))).ravel() for _ in range(2))
        [at] = correlations(x, y, np.ones((1, 24)), "Spearman")
        drawn = correlations(x, y, drawn_groups(np.repeat(range(8), 3), seed, 400), "Spearman")
        for name, made in {"plain": drawn, "stretched": stretched(drawn, at, 8)}.items():
            missed[name] += abs(at) > np.quantile(abs(made - at), 0.95)
    assert missed["stretched"] / 400 <= 0.06 < 0.075 < missed["plain"] / 400
