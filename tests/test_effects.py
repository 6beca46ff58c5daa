"""One kernel for all effects: against brute force, scipy and statsmodels, and by hand."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_paired

from interextra.ground import effects as kernel
from interextra.ground.effects import (
    Effects,
    across,
    effects,
    holm,
    interval,
    resampled_means,
    resamples,
    simultaneous,
)
from interextra.ground.errors import InputError

RANDOM = np.random.default_rng(7)
REGIMES = ("interpolation", "extrapolation")


def tidy(model, first, second, measure="RR@10", **labels):
    """Values of one system in both regimes, float[n_queries] each."""
    parts = zip(REGIMES, (first, second), strict=True)
    ids = [f"q{row}" for row in range(len(first))]
    labels = {"model": model, "measure": measure, **labels}
    return pd.concat([pd.DataFrame({**labels, "regime": r, "query_id": ids, "value": side}) for r, side in parts])


@pytest.fixture(scope="module")
def two():
    return pd.concat([tidy(name, RANDOM.random(60), RANDOM.random(60)) for name in ("dense", "BM25")])


def of(values, **options):
    return effects(values, ["model", "measure"], "regime", REGIMES, **{"effect": "delta", "n_boot": 500, **options})


def test_counts_and_means_are_those_of_queries_drawn_one_by_one():
    values, random = RANDOM.random((30, 2)), np.random.default_rng(3)
    drawn = random.integers(30, size=(200, 30), dtype=np.int32)
    assert np.allclose(resampled_means(values, np.arange(30), 3, 200), values[drawn].mean(axis=1), atol=1e-12)
    counts = np.concatenate(list(resamples(30, 3, 200)))
    assert (counts.sum(axis=1) == 30).all() and counts[5, drawn[5, 0]] >= 1


def test_draws_do_not_depend_on_the_size_of_a_block(monkeypatch):
    values = RANDOM.random((30, 2))
    whole = resampled_means(values, np.arange(30), 3, 64)
    monkeypatch.setattr(kernel, "BLOCK", 30 * 8)
    assert np.allclose(resampled_means(values, np.arange(30), 3, 64), whole, atol=1e-12)


@pytest.mark.parametrize("kind", ["delta", "difference"])
def test_effect_and_interval_equal_brute_force(two, kind):
    row = of(two, effect=kind).set_index("model").loc["dense"]
    first, second = (two.query("model == 'dense' and regime == @r")["value"].to_numpy() for r in REGIMES)
    by_hand = {"delta": lambda a, b: b / a - 1, "difference": lambda a, b: b - a}[kind]
    drawn = np.random.default_rng(0).integers(60, size=(500, 60), dtype=np.int32)
    sample = np.sort([by_hand(first[rows].mean(), second[rows].mean()) for rows in drawn])
    assert row[kind] == pytest.approx(by_hand(first.mean(), second.mean()), abs=1e-12)
    assert (row["low"], row["high"]) == pytest.approx((sample[12], sample[487]), abs=1e-12)


def test_interval_agrees_with_scipy_s_bootstrap(two):
    first, second = (two.query("model == 'dense' and regime == @r")["value"].to_numpy() for r in REGIMES)
    row = of(two, effect="difference", n_boot=10_000).set_index("model").loc["dense"]
    theirs = stats.bootstrap((second - first,), np.mean, n_resamples=10_000, method="percentile", rng=1)
    assert (row["low"], row["high"]) == pytest.approx(tuple(theirs.confidence_interval), abs=0.01)


def test_holm_is_that_of_statsmodels_to_the_last_bit(monkeypatch):
    monkeypatch.setattr("gc.collect", lambda: 0)  # of the whole suite, seconds a call
    draw = np.random.default_rng(1)
    for size in (1, 2, 7, 30):
        for digits in (1, 8):  # with ties, and without
            p_values = np.round(draw.random(size) ** 3, digits)
            assert np.array_equal(holm(p_values), multipletests(p_values, method="holm")[1])
    assert np.array_equal(holm([np.nan, 0.01, 0.04]), [np.nan, 0.02, 0.04], equal_nan=True)


def test_p_values_are_those_of_scipy_and_holm_s_those_of_statsmodels(two):
    table, expected = of(two), []
    for _, part in two.groupby("model", sort=False):
        expected.append(stats.ttest_rel(*(part.loc[part["regime"] == regime, "value"] for regime in REGIMES)).pvalue)
    assert table["p_value"].tolist() == pytest.approx(expected)
    assert table["p_holm"].tolist() == pytest.approx(multipletests(expected, method="holm")[1])


def test_systems_on_the_same_queries_are_drawn_together(two):
    table = of(two)
    gap = table.contrast("model", [("dense", "BM25"), ("dense", "absent")])
    joint = table.drawn()[0] - table.drawn()[1]
    assert len(gap) == 1 and (gap["low"][0], gap["high"][0]) == interval(joint)
    same = pd.concat([two, two.query("model == 'dense'").assign(model="twin")])
    twins = of(same).contrast("model", [("dense", "twin")]).iloc[0]
    assert (twins["difference"], twins["low"], twins["high"]) == (0, 0, 0)


def test_draws_follow_the_rows_of_a_filtered_table(two):
    table = of(two)
    assert np.array_equal(table[table["model"] == "BM25"].drawn()[0], table.drawn()[1])
    assert np.array_equal(table.sort_values("model").reset_index(drop=True).drawn()[0], table.drawn()[1])
    assert np.array_equal(pd.concat([table, table]).drawn()[2], table.drawn()[0])
    with pytest.raises(InputError, match="no draws"):
        Effects({"model": ["dense"]}).drawn()


def test_undefined_effect_leaves_the_rest_of_the_table():
    zero = tidy("zero", np.zeros(20), RANDOM.random(20))
    rare = tidy("rare", np.eye(20)[0], RANDOM.random(20))  # some draws miss its one query
    table = of(pd.concat([zero, rare, tidy("fine", RANDOM.random(20), RANDOM.random(20))])).set_index("model")
    assert table.loc["zero", ["delta", "low", "high"]].isna().all()
    assert np.isfinite(table.loc["rare", "delta"]) and table.loc["rare", ["low", "high"]].isna().all()
    assert table.loc["fine", ["delta", "low", "high"]].notna().all()


def test_several_values_of_a_query_on_one_side_are_averaged():
    values = tidy("dense", np.array([0.2, 0.4]), np.array([0.1, 0.1]))
    more = values[values["regime"] == "interpolation"].assign(value=[0.4, 0.8])
    assert of(pd.concat([values, more]))["interpolation"].tolist() == pytest.approx([0.45])


def test_trainings_widen_the_interval_and_are_counted():
    first = RANDOM.random(200)
    trained = [tidy("dense", first, first * level, seed=seed) for seed, level in ((1, 0.9), (2, 0.5))]
    one, both = of(trained[0]), of(pd.concat(trained))
    assert one["n_trainings"].tolist() == [1] and both["n_trainings"].tolist() == [2]
    assert (both["high"] - both["low"])[0] > 0.3 > (one["high"] - one["low"])[0]
    alike = of(pd.concat([trained[0], trained[0].assign(seed=2)]))
    assert alike[["low", "high"]].to_numpy() == pytest.approx(one[["low", "high"]].to_numpy())


def test_spread_between_trainings_is_pooled_over_the_rows_of_a_system():
    """Many rows of two trainings each say what the spread is; one row of them says hardly anything."""
    random, n_rows, level = np.random.default_rng(5), 60, 0.03
    base, parts = RANDOM.random(50), []
    for row in range(n_rows):
        for seed in (1, 2):
            sides = [base + random.normal(scale=level) for _ in REGIMES]
            parts.append(tidy("dense", *sides, stratum=f"row {row}", seed=seed))
    table = effects(pd.concat(parts), ["model", "stratum"], "regime", REGIMES, "difference", family=[], n_boot=2000)
    assert table["sd_trainings"].unique() == pytest.approx([level], rel=0.25)
    widths = (table["high"] - table["low"]) / 2  # the same queries on both sides: nothing but training is left
    expected = 1.96 * level * np.sqrt(2 / 2)  # two sides, means of two trainings
    assert widths.to_numpy() == pytest.approx(np.full(n_rows, expected), rel=0.35)
    covered = (table["low"] <= 0) & (table["high"] >= 0)
    assert covered.mean() > 0.85


def test_a_system_trained_once_borrows_the_spread_of_its_other_rows_and_none_of_other_systems():
    base, random = RANDOM.random(40), np.random.default_rng(6)
    twice = [
        tidy("dense", base, base + random.normal(scale=0.1), stratum=f"s{row}", seed=seed)
        for row in range(20)
        for seed in (1, 2)
    ]
    once = [tidy(name, base, base, stratum="once", seed=1) for name in ("dense", "BM25")]
    table = effects(
        pd.concat([*twice, *once]), ["model", "stratum"], "regime", REGIMES, "difference", family=[], n_boot=500
    )
    dense, bm25 = (table.query("stratum == 'once' and model == @name").iloc[0] for name in ("dense", "BM25"))
    assert dense["n_trainings"] == 1 and dense["high"] - dense["low"] > 0.2
    assert (bm25["low"], bm25["high"]) == (0, 0) and np.isnan(bm25["sd_trainings"])


def test_models_of_a_leave_one_out_row_average_their_noise():
    """Five models a training, each with noise of its own on all its queries: their mean has a fifth of the variance."""
    random, level, folds = np.random.default_rng(7), 0.05, 5
    base, bucket, parts = RANDOM.random(100), np.arange(100) % folds, []
    for row, seed, left_out in itertools.product(range(30), (1, 2), range(folds)):
        value = base + random.normal(scale=level)
        side = np.where(bucket == left_out, *REGIMES[::-1])
        frame = {"model": "dense", "row": f"row {row}", "seed": seed, "left_out": left_out, "regime": side}
        parts.append(pd.DataFrame(frame | {"query_id": np.arange(100).astype(str), "value": value}))
    table = effects(pd.concat(parts), ["model", "row"], "regime", REGIMES, "difference", family=[], n_boot=1000)
    assert table["sd_trainings"].unique() == pytest.approx([level], rel=0.15)
    widths = (table["high"] - table["low"]) / 2  # both sides have the same five models, drawn as if they were others
    assert widths.to_numpy() == pytest.approx(np.full(30, 1.96 * level * np.sqrt(2 / 5 / 2)), rel=0.25)


def test_units_are_drawn_with_all_their_queries():
    values = tidy("dense", RANDOM.random(30), RANDOM.random(30)).assign(unit=lambda f: f["query_id"].str[:2])
    units = values["unit"].to_numpy()[:30]
    row = of(values, effect="difference", n_boot=300).iloc[0]
    names, random, sample = list(dict.fromkeys(units)), np.random.default_rng(0), []
    first, second = (values.loc[values["regime"] == r, "value"].to_numpy() for r in REGIMES)
    for drawn in random.integers(len(names), size=(300, len(names)), dtype=np.int32):
        rows = np.concatenate([np.flatnonzero(units == names[at]) for at in drawn])
        sample.append((second - first)[rows].mean())
    sample = np.sort(sample)
    assert (row["low"], row["high"]) == pytest.approx((sample[7], sample[292]), abs=1e-12)


def test_units_that_go_together_widen_the_interval():
    first = np.repeat(RANDOM.random(10), 20)
    values = tidy("dense", np.full(200, 0.5), first)
    alone = of(values, effect="difference").iloc[0]
    together = of(values.assign(unit=np.tile(np.repeat(np.arange(10), 20), 2)), effect="difference").iloc[0]
    assert together["high"] - together["low"] > 2 * (alone["high"] - alone["low"])


def test_simultaneous_intervals_hold_together_and_single_ones_do_not():
    random, n, kept = np.random.default_rng(8), 12, []
    for _ in range(300):
        estimates = random.normal(size=n)  # the truth is 0
        for n_boot in (800, 100):  # enough for ranks, and too few
            low, high = simultaneous(estimates, estimates[:, None] + random.normal(size=(n, n_boot)))
            kept.append((n_boot, ((low < 0) & (high > 0)).all(), (np.abs(estimates) < 1.96).all()))
    table = pd.DataFrame(kept).groupby(0).mean()
    assert table[1].between(0.91, 0.99).all() and (table[2] < 0.7).all()


def test_a_row_with_heavy_tails_does_not_blow_up_and_leaves_the_others_alone():
    reaches = []
    for seed in range(6):
        random = np.random.default_rng(seed)
        rows = [random.standard_t(1, size=4000) * 0.01, random.normal(size=4000) * 0.01, random.normal(size=4000)]
        reaches.append(simultaneous(np.zeros(3), np.stack(rows))[1])
    reaches = np.array(reaches)
    assert reaches[:, 0].max() < 2 * reaches[:, 0].min() < 2
    assert reaches[:, 1:] == pytest.approx(np.array([[0.0239, 2.39]] * 6), rel=0.06)  # as among three of a kind


def test_simultaneous_interval_of_undefined_draws_is_undefined_and_leaves_the_others():
    good = np.random.default_rng(9).normal(size=(1, 500))
    low, high = simultaneous(np.array([0.0, 0.0, 0.2]), np.concatenate([good, good * np.nan, good * 0 + 0.2]))
    assert np.isnan([low[1], high[1]]).all() and high[0] == pytest.approx(1.96, rel=0.12) and low[2] == high[2] == 0.2


def test_strata_count_the_same_and_are_drawn_within():
    sizes = {"small": 5, "large": 200}
    parts = [tidy("dense", np.full(n, 1.0), np.full(n, 0.5 if name == "small" else 1.0)) for name, n in sizes.items()]
    values = pd.concat(
        [part.assign(stratum=name, query_id=name + part["query_id"]) for name, part in zip(sizes, parts, strict=True)]
    )
    row = of(values, strata="stratum").iloc[0]
    assert (row["delta"], row["low"], row["high"]) == (-0.25, -0.25, -0.25) and row["n_queries"] == 205
    assert np.isnan(row["p_value"])


def test_means_without_sides():
    table = effects(tidy("dense", np.array([0.2, 0.4]), np.array([0.1, 0.1])), ["regime", "measure"], n_boot=50)
    names = ["regime", "measure", "mean", "low", "high", "n_queries", "n_trainings", "sd_trainings"]
    assert list(table) == [*names, "draws"]
    assert table["mean"].tolist() == pytest.approx([0.3, 0.1])


def test_tests_agree_with_scipy_and_statsmodels(two):
    row = kernel.tests(two, ["model", "measure"], "regime", REGIMES, margin=0.5).iloc[0]
    first, second = (two.query("model == 'dense' and regime == @r")["value"].to_numpy() for r in REGIMES)
    bound = 0.5 * first.mean()
    assert row["p_equivalent"] == pytest.approx(ttost_paired(second, first, -bound, bound)[0])
    assert row["cohen_d"] == pytest.approx((second - first).mean() / (second - first).std(ddof=1))
    assert row["p_permutation"] == pytest.approx(row["p_value"], abs=0.03)
    assert row["worse"] + row["better"] == 60
    same = kernel.tests(tidy("dense", first, first), ["model"], "regime", REGIMES).iloc[0]
    assert same["p_value"] == same["p_permutation"] == 1 and same["cohen_d"] == 0


def test_the_same_difference_for_all_queries_is_not_called_equivalent():
    row = kernel.tests(tidy("a", [0.9] * 12, [0.6] * 12), ["model"], "regime", REGIMES).iloc[0]
    assert row["p_permutation"] < 0.01 and row["p_equivalent"] == 1.0 and np.isnan(row["cohen_d"])
    same = kernel.tests(tidy("a", [0.9] * 12, [0.9] * 12), ["model"], "regime", REGIMES).iloc[0]
    assert same[["p_permutation", "p_equivalent", "cohen_d"]].tolist() == [1.0, 0.0, 0.0]


def test_family_is_of_the_row_s_labels(two):
    assert "p_holm" in effects(two.drop(columns="measure", errors="ignore"), ["model"], "regime", REGIMES, n_boot=2)
    with pytest.raises(InputError, match="'protocl' is no label of a row"):
        effects(two, ["model"], "regime", REGIMES, family=["protocl"], n_boot=2)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda frame: frame.drop(columns="regime"), "no column 'regime'"),
        (lambda frame: frame[frame["regime"] == "other"], "nothing was measured"),
        (lambda frame: frame.iloc[1:], "query 'q0' lacks a side"),
        (lambda frame: frame.assign(value=np.nan), "no value for query 'q0'"),
    ],
)
def test_bad_values_are_named(change, message):
    with pytest.raises(InputError, match=message):
        of(change(tidy("dense", np.ones(3), np.ones(3))))


def test_unknown_effect_is_named(two):
    with pytest.raises(InputError, match="no effect 'ratio'; there are delta"):
        of(two, effect="ratio")


def test_order_of_strata_does_not_matter():
    parts = [tidy("dense", RANDOM.random(20), RANDOM.random(20), stratum=name) for name in ("b", "a")]
    parts = [part.assign(query_id=part["stratum"] + part["query_id"]) for part in parts]
    one, other = (of(pd.concat(some), strata="stratum") for some in (parts, parts[::-1]))
    assert one[["low", "high"]].to_numpy() == pytest.approx(other[["low", "high"]].to_numpy(), abs=1e-12)


def test_interval_over_units_is_student_s():
    table = pd.DataFrame({"world": [1, 1, 2, 3], "model": "a", "loss": [0.1, 0.3, 0.4, 0.6]})
    row = across(table, "world", ["model"], "loss").iloc[0]
    theirs = stats.t.interval(0.95, 2, np.mean([0.2, 0.4, 0.6]), stats.sem([0.2, 0.4, 0.6]))
    assert (row["low"], row["high"]) == pytest.approx(theirs) and row["n"] == 3
    assert np.isnan(across(table[table["world"] == 1], "world", ["model"], "loss")["low"]).all()
