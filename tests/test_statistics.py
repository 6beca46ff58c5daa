"""Statistics against scipy, statsmodels and enumeration."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.weightstats import ttost_ind, ttost_paired

from interextra.ground.errors import InputError
from interextra.evaluation import statistics as st


def sample(n: int = 40, m: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Values like nDCG; the second side is lower, and follows the first query by query where sizes are equal."""
    rng = np.random.default_rng(seed)
    first = rng.beta(2, 1.5, n)
    return first, np.clip(0.8 * np.resize(first, m) + rng.normal(0, 0.1, m), 0, 1)


def ratio(inter, extra, axis=-1):
    return extra.mean(axis=axis) / inter.mean(axis=axis) - 1


def difference(first, second, axis=-1):
    return second.mean(axis=axis) - first.mean(axis=axis)


def scipy_interval(values, statistic, paired=False, level=0.95):
    result = stats.bootstrap(
        values, statistic, paired=paired, n_resamples=20_000, method="percentile", confidence_level=level, rng=1
    )
    return result.confidence_interval


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_bootstrap_of_the_mean_is_that_of_scipy(level):
    first, _ = sample()
    ours = st.bootstrap_mean(first, level=level, n_boot=20_000)
    theirs = scipy_interval((first,), np.mean, level=level)
    np.testing.assert_allclose(ours, theirs, atol=0.003)
    assert ours[0] < first.mean() < ours[1]


@pytest.mark.parametrize(("own", "statistic"), [(st.bootstrap_difference, difference), (st.bootstrap_delta, ratio)])
@pytest.mark.parametrize(("n", "m", "paired"), [(40, 40, True), (40, 40, False), (40, 25, False)])
def test_bootstrap_of_two_sides_is_that_of_scipy(own, statistic, n, m, paired):
    first, second = sample(n, m)
    ours = own(first, second, paired=paired, n_boot=20_000)
    np.testing.assert_allclose(ours, scipy_interval((first, second), statistic, paired), atol=0.006)


def test_bootstrap_of_three_queries_is_the_enumerated_distribution():
    """27 equally likely resamples: the shares of the drawn means come out, jointly for both sides."""
    inter, extra = np.array([0.2, 0.5, 0.9]), np.array([0.1, 0.6, 0.3])
    drawn = np.array(list(itertools.product(range(3), repeat=3)))
    for level in (0.3, 0.6, 0.9):
        edges = [(1 - level) / 2, (1 + level) / 2]
        deltas = ratio(inter[drawn], extra[drawn])
        expected = [
            np.quantile(deltas, edges[0], method="inverted_cdf"),
            np.quantile(deltas, edges[1], method="inverted_cdf"),
        ]
        ours = st.bootstrap_delta(inter, extra, paired=True, n_boot=200_000, level=level)
        np.testing.assert_allclose(ours, expected, atol=1e-12)


def test_paired_interval_is_narrower_than_unpaired_where_queries_correlate():
    first, second = sample()
    low, high = st.bootstrap_delta(first, second, paired=True)
    wide_low, wide_high = st.bootstrap_delta(first, second, paired=False)
    assert high - low < 0.5 * (wide_high - wide_low)


def test_bootstrap_repeats_with_its_seed_and_blocks_do_not_change_its_law(monkeypatch):
    first, second = sample()
    once = st.bootstrap_delta(first, second, paired=True, seed=3)
    assert once == st.bootstrap_delta(first, second, paired=True, seed=3)
    assert once != st.bootstrap_delta(first, second, paired=True, seed=4)
    monkeypatch.setattr(st, "BLOCK", 7 * len(first))  # 7 resamples at once, the last block shorter
    assert once == pytest.approx(st.bootstrap_delta(first, second, paired=True, seed=3), abs=0.01)
    assert len(st._in_blocks(lambda size: np.zeros(size), 100, 40)) == 100


def test_unpaired_sides_are_drawn_independently():
    """The same values on both sides: a shared draw would give an interval of width 0."""
    values, _ = sample()
    low, high = st.bootstrap_difference(values, values, paired=False)
    assert low < -0.02 and high > 0.02
    assert st.bootstrap_difference(values, values, paired=True) == (0, 0)


def test_a_resample_without_interpolation_mean_counts_as_infinite():
    low, high = st.bootstrap_delta(np.array([0, 0, 1.0]), np.array([0, 1.0, 1.0]), paired=True)
    assert high == math.inf and math.isfinite(low)


def test_nominal_intervals_cover_the_truth():
    """95 % intervals of delta over 200 repeated experiments hold the true -0.2 about 190 times."""
    rng, hits = np.random.default_rng(0), 0
    for seed in range(200):
        inter = rng.beta(2, 2, 60)
        extra = 0.8 * rng.beta(2, 2, 60)
        low, high = st.bootstrap_delta(inter, extra, paired=False, seed=seed, n_boot=500)
        hits += low <= -0.2 <= high
    assert 180 <= hits <= 198


@pytest.mark.parametrize("seed", range(3))
def test_t_tests_are_those_of_scipy(seed):
    first, second = sample(seed=seed)
    assert st.paired_t_test(first, second) == pytest.approx(stats.ttest_rel(first, second).pvalue, rel=1e-9)
    first, second = sample(40, 9, seed)
    assert st.welch_test(first, second) == pytest.approx(
        stats.ttest_ind(first, second, equal_var=False).pvalue, rel=1e-9
    )


def test_t_tests_of_no_difference_and_of_one_query():
    same = np.full(5, 0.3)
    assert st.paired_t_test(same, same) == 1 and st.welch_test(same, same) == 1
    assert math.isnan(st.paired_t_test([1], [2])) and math.isnan(st.welch_test([1], [2, 3]))


@pytest.mark.parametrize("n", [2, 5, 11, 12])
@pytest.mark.parametrize("rounded", [False, True])
def test_sign_flips_of_few_queries_are_enumerated(n, rounded):
    first, second = sample(n, n, seed=n)
    if rounded:  # many ties with the observed sum
        first, second = first.round(1), second.round(1)
    exact = stats.permutation_test(
        (second - first,),
        lambda x, axis: x.mean(axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    )
    assert st.sign_flip_test(first, second) == pytest.approx(exact.pvalue, abs=1e-12)


def test_sign_flips_of_many_queries_approach_the_enumerated_value(monkeypatch):
    first, second = sample(14, 14, seed=5)
    flips = np.array(list(itertools.product([-1, 1], repeat=14)))
    gaps = (second - first) * 0.4 + 0.03
    exact = (np.abs(flips @ gaps) >= abs(gaps.sum()) - 1e-12).mean()
    assert 0.01 < exact < 0.9
    ours = st.sign_flip_test(np.zeros(14), gaps, n_flips=40_000)
    assert ours == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 40_000))
    monkeypatch.setattr(st, "BLOCK", 14 * 1000)
    assert st.sign_flip_test(np.zeros(14), gaps, n_flips=40_000) == pytest.approx(exact, abs=0.02)


def test_random_permutations_never_give_zero():
    low, high = np.zeros(200), np.ones(200)
    assert st.sign_flip_test(low, high, n_flips=99) == 0.01
    assert st.permutation_test(low, high, n_permutations=99) == 0.01


@pytest.mark.parametrize(("n", "m"), [(3, 4), (5, 5), (2, 9), (1, 6)])
@pytest.mark.parametrize("rounded", [False, True])
def test_permutations_of_few_queries_are_enumerated(n, m, rounded):
    rng = np.random.default_rng(n + m)
    first, second = rng.random(n), rng.random(m) + 0.2
    if rounded:
        first, second = first.round(1), second.round(1)
    pooled = np.concatenate([first, second])
    gaps = []
    for chosen in itertools.combinations(range(n + m), n):
        gaps.append(abs(pooled[list(chosen)].mean() - np.delete(pooled, chosen).mean()))
    expected = (np.array(gaps) >= abs(first.mean() - second.mean()) - 1e-12).mean()
    assert st.permutation_test(first, second) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("n", "m"), [(30, 50), (50, 30)])
def test_random_permutations_approach_those_of_scipy(n, m):
    rng = np.random.default_rng(0)
    first, second = rng.random(n), rng.random(m) * 0.8 + 0.17
    theirs = stats.permutation_test((first, second), difference, n_resamples=20_000, vectorized=True, rng=0).pvalue
    assert 0.05 < theirs < 0.95
    assert st.permutation_test(first, second, n_permutations=20_000) == pytest.approx(theirs, abs=0.015)


@pytest.mark.parametrize("swapped", [False, True])
def test_random_permutations_keep_the_sizes_of_the_groups(swapped):
    """3 and 60 queries: a group of 2 or 4 would have another spread, and another p-value."""
    rng = np.random.default_rng(1)
    sides = [rng.random(3) + 0.25, rng.random(60)]
    first, second = sides[::-1] if swapped else sides
    exact = st.permutation_test(first, second, n_permutations=math.comb(63, 3))
    assert 0.05 < exact < 0.5
    assert st.permutation_test(first, second, n_permutations=30_000) == pytest.approx(exact, abs=0.01)


def test_holm_and_benjamini_hochberg_are_the_step_procedures():
    p = np.random.default_rng(0).beta(0.3, 3, 20)
    order, m = np.argsort(p), len(p)
    holm, bh = np.empty(m), np.empty(m)
    holm[order] = np.minimum(np.maximum.accumulate((m - np.arange(m)) * p[order]), 1)
    bh[order] = np.minimum(np.minimum.accumulate((m / np.arange(1, m + 1) * p[order])[::-1])[::-1], 1)
    np.testing.assert_allclose(st.holm(p), holm, rtol=1e-12)
    np.testing.assert_allclose(st.benjamini_hochberg(p), bh, rtol=1e-12)


def test_a_test_that_could_not_be_made_is_not_in_the_family():
    np.testing.assert_allclose(st.holm([0.02, np.nan, 0.03]), [0.04, np.nan, 0.04])
    assert len(st.holm([])) == 0 and np.isnan(st.holm([np.nan])).all()


def test_cohens_d_by_hand():
    first, second = np.array([1.0, 2, 3, 4]), np.array([2.0, 2, 5, 5])
    assert st.cohens_d(first, second, paired=True) == pytest.approx(1 / math.sqrt(2 / 3))
    pooled = math.sqrt((3 * 5 / 3 + 3 * 3) / 6)  # variances 5/3 and 3
    assert st.cohens_d(first, second, paired=False) == pytest.approx(1 / pooled)
    assert st.cohens_d(first, first, paired=True) == 0 and st.cohens_d(first, first + 1, paired=True) == math.inf


@pytest.mark.parametrize("margin", [0.01, 0.1, 0.3])
def test_tost_is_that_of_statsmodels(margin):
    first, second = sample()
    expected = ttost_paired(second, first, -margin, margin)[0]
    assert st.tost(first, second, margin, paired=True) == pytest.approx(expected, rel=1e-6, abs=1e-12)
    first, second = sample(40, 22)
    expected = ttost_ind(second, first, -margin, margin, usevar="unequal")[0]
    assert st.tost(first, second, margin, paired=False) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_mean_over_seeds_matches_queries_by_id():
    runs = [pd.Series({"q2": 1.0, "q1": 0.0, "q3": 0.5}), pd.Series({"q3": 0.1, "q1": 1.0, "q2": 0.0})]
    means = st.mean_over_seeds(runs)
    assert means.to_dict() == pytest.approx({"q1": 0.5, "q2": 0.5, "q3": 0.3})
    assert means.index.tolist() == ["q2", "q1", "q3"]  # as in the first seed
    with pytest.raises(InputError, match="seed number 2.*'q2'"):
        st.mean_over_seeds([runs[0], runs[1].drop("q2")])
    with pytest.raises(InputError, match="'q1'"):
        st.mean_over_seeds([runs[0], pd.concat([runs[1], runs[1][["q1"]]])])
    with pytest.raises(InputError, match="no seed"):
        st.mean_over_seeds([])


def test_bad_arguments_are_input_errors():
    for call in (
        lambda: st.bootstrap_mean([]),
        lambda: st.bootstrap_mean([1.0], level=95),
        lambda: st.bootstrap_delta([1.0, 2], [1.0], paired=True),
        lambda: st.paired_t_test([1.0, 2], [1.0]),
        lambda: st.sign_flip_test([], []),
        lambda: st.tost([1.0], [1.0], 0, paired=True),
    ):
        with pytest.raises(InputError):
            call()
