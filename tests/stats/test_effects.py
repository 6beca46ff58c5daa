"""One kernel for all effects: against brute force, scipy and statsmodels, and by hand."""

import io
import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import ttost_paired

from interextra.stats import bootstrap
from interextra.stats import tests as paired
from interextra.stats.bootstrap import (
    interval,
    resampled_means,
    resamples,
    seed_of,
    simultaneous,
    stretched,
)
from interextra.stats.effects import DRAWS, Effects, across, effects, shown
from interextra.stats.tests import holm, outside, wilson
from interextra.store.errors import InputError

RANDOM = np.random.default_rng(7)
REGIMES = ("interpolation", "extrapolation")


def tidy(model, first, second, measure="RR@10", **labels):
    """Values of one system in both regimes, float[n_queries] each."""
    parts = zip(REGIMES, (first, second), strict=True)
    ids = [f"q{row}" for row in range(len(first))]
    labels = {"model": model, "measure": measure, **labels}
    return pd.concat(
        [pd.DataFrame({**labels, "regime": r, "query_id": ids, "value": side}) for r, side in parts]
    )


@pytest.fixture(scope="module")
def two():
    return pd.concat(
        [tidy(name, RANDOM.random(60), RANDOM.random(60)) for name in ("dense", "BM25")]
    )


def of(values, **options):
    return effects(
        values,
        ["model", "measure"],
        "regime",
        REGIMES,
        **{"effect": "delta", "n_boot": 500, **options},
    )


def test_counts_and_means_are_those_of_queries_drawn_one_by_one():
    values, random = RANDOM.random((30, 2)), np.random.default_rng(3)
    drawn = random.integers(30, size=(200, 30), dtype=np.int32)
    [means] = resampled_means([values], np.arange(30), 3, 200)
    assert np.allclose(means, values[drawn].mean(axis=1), atol=1e-12)
    counts = np.concatenate(list(resamples(30, 3, 200)))
    assert (counts.sum(axis=1) == 30).all() and counts[5, drawn[5, 0]] >= 1


def test_draws_do_not_depend_on_the_size_of_a_block(monkeypatch):
    values = RANDOM.random((30, 2))
    [whole] = resampled_means([values], np.arange(30), 3, 64)
    monkeypatch.setattr(bootstrap, "BLOCK", 30 * 8)
    assert np.allclose(resampled_means([values], np.arange(30), 3, 64)[0], whole, atol=1e-12)


@pytest.mark.parametrize("kind", ["delta", "difference"])
def test_effect_and_interval_equal_brute_force(two, kind):
    row = of(two, effect=kind).set_index("model").loc["dense"]
    first, second = (
        two.query("model == 'dense' and regime == @r")["value"].to_numpy() for r in REGIMES
    )
    by_hand = {"delta": lambda a, b: b / a - 1, "difference": lambda a, b: b - a}[kind]
    sample = drawn_one_by_one(first, second, by_hand)
    assert row[kind] == pytest.approx(by_hand(first.mean(), second.mean()), abs=1e-12)
    assert (row["low"], row["high"]) == pytest.approx((sample[12], sample[487]), abs=1e-12)


def drawn_one_by_one(first, second, change, n_boot=500):
    """Sorted draws of a change between paired values float[n], in the order of their ids, widened
    as few ask for.
    """
    ids = [f"q{row}" for row in range(len(first))]
    order = np.argsort(ids)  # as text: q10 before q2
    drawn = np.random.default_rng(seed_of(0, ids)).integers(
        len(ids), size=(n_boot, len(ids)), dtype=np.int32
    )
    plain = np.array(
        [change(first[order][rows].mean(), second[order][rows].mean()) for rows in drawn]
    )
    at, n = change(first.mean(), second.mean()), len(ids)
    return np.sort(stretched(at + np.sqrt(n / (n - 1)) * (plain - at), at, n - 1))


def test_interval_agrees_with_scipy_s_bootstrap(two):
    first, second = (
        two.query("model == 'dense' and regime == @r")["value"].to_numpy() for r in REGIMES
    )
    row = of(two, effect="difference", n_boot=10_000).set_index("model").loc["dense"]
    theirs = stats.bootstrap(
        (second - first,), np.mean, n_resamples=10_000, method="percentile", rng=1
    )
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
        expected.append(
            stats.ttest_rel(
                *(part.loc[part["regime"] == regime, "value"] for regime in REGIMES)
            ).pvalue
        )
    assert table["p_value"].tolist() == pytest.approx(expected)
    assert table["p_holm"].tolist() == pytest.approx(multipletests(expected, method="holm")[1])


def test_systems_on_the_same_queries_are_drawn_together(two):
    table = of(two)
    gap = table.contrast("model", [("dense", "BM25"), ("dense", "absent")])
    joint = table.drawn()[0] - table.drawn()[1]
    assert len(gap) == 1 and (gap["low"][0], gap["high"][0]) == interval(joint)
    same = pd.concat([two, two.query("model == 'dense'").assign(model="twin")])
    twins = of(same).contrast("model", [("dense", "twin")])
    assert twins["difference"].tolist() == [0] and not twins.drawn().any()


def test_draws_follow_the_rows_of_a_filtered_table(two):
    table = of(two)
    assert np.array_equal(table[table["model"] == "BM25"].drawn()[0], table.drawn()[1])
    assert np.array_equal(
        table.sort_values("model").reset_index(drop=True).drawn()[0], table.drawn()[1]
    )
    assert np.array_equal(pd.concat([table, table]).drawn()[2], table.drawn()[0])
    with pytest.raises(InputError, match="no draws"):
        Effects({"model": ["dense"]}).drawn()


def test_undefined_effect_leaves_the_rest_of_the_table():
    zero = tidy("zero", np.zeros(20), RANDOM.random(20))
    rare = tidy("rare", np.eye(20)[0], RANDOM.random(20))  # some draws miss its one query
    table = of(
        pd.concat([zero, rare, tidy("fine", RANDOM.random(20), RANDOM.random(20))])
    ).set_index("model")
    assert table.loc["zero", ["delta", "low", "high"]].isna().all()
    assert (
        np.isfinite(table.loc["rare", "delta"]) and table.loc["rare", ["low", "high"]].isna().all()
    )
    assert table.loc["fine", ["delta", "low", "high"]].notna().all()


def test_several_values_of_a_query_on_one_side_are_averaged():
    values = tidy("dense", np.array([0.2, 0.4]), np.array([0.1, 0.1]))
    more = values[values["regime"] == "interpolation"].assign(value=[0.4, 0.8])
    assert of(pd.concat([values, more]))["interpolation"].tolist() == pytest.approx([0.45])


def test_trainings_widen_the_interval_and_are_counted():
    first, other = RANDOM.random(200), RANDOM.normal(scale=0.01, size=200)
    trained = [
        tidy("dense", first, first * level + other, seed=seed)
        for seed, level in ((1, 0.9), (2, 0.5))
    ]
    one, both = of(trained[0]), of(pd.concat(trained))
    assert one["n_trainings"].tolist() == [1] and both["n_trainings"].tolist() == [2]
    assert (both["high"] - both["low"])[0] > 0.3 > (one["high"] - one["low"])[0]
    alike = of(pd.concat([trained[0], trained[0].assign(seed=2)]))
    assert alike[["low", "high"]].to_numpy() == pytest.approx(one[["low", "high"]].to_numpy())


def test_spread_between_trainings_is_pooled_over_the_rows_of_a_system():
    """Many rows of two trainings each say what the spread is; one row of them says hardly
    anything.
    """
    random, n_rows, level = np.random.default_rng(5), 60, 0.03
    base, parts = RANDOM.random(50), []
    for row in range(n_rows):
        for seed in (1, 2):
            sides = [base + random.normal(scale=level) for _ in REGIMES]
            parts.append(tidy("dense", *sides, stratum=f"row {row}", seed=seed))
    table = effects(
        pd.concat(parts),
        ["model", "stratum"],
        "regime",
        REGIMES,
        "difference",
        family=[],
        n_boot=2000,
    )
    assert table["sd_trainings"].unique() == pytest.approx([level], rel=0.25)
    widths = (
        table["high"] - table["low"]
    ) / 2  # the same queries on both sides: nothing but training is left
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
    beside = base + random.normal(scale=0.001, size=40)
    once = [tidy(name, base, beside, stratum="once", seed=1) for name in ("dense", "BM25")]
    table = effects(
        pd.concat([*twice, *once]),
        ["model", "stratum"],
        "regime",
        REGIMES,
        "difference",
        family=[],
        n_boot=500,
    )
    dense, bm25 = (
        table.query("stratum == 'once' and model == @name").iloc[0] for name in ("dense", "BM25")
    )
    assert dense["n_trainings"] == 1 and dense["high"] - dense["low"] > 0.2
    assert bm25["high"] - bm25["low"] < 0.002 and np.isnan(bm25["sd_trainings"])


def test_models_of_a_leave_one_out_row_average_their_noise():
    """Five models a training, each with noise of its own on all its queries: their mean has a fifth
    of the variance.
    """
    random, level, folds = np.random.default_rng(7), 0.05, 5
    base, bucket, parts = RANDOM.random(100), np.arange(100) % folds, []
    for row, seed, left_out in itertools.product(range(30), (1, 2), range(folds)):
        value = base + random.normal(scale=level)
        side = np.where(bucket == left_out, *REGIMES[::-1])
        frame = {
            "model": "dense",
            "row": f"row {row}",
            "seed": seed,
            "left_out": left_out,
            "regime": side,
        }
        parts.append(pd.DataFrame(frame | {"query_id": np.arange(100).astype(str), "value": value}))
    table = effects(
        pd.concat(parts), ["model", "row"], "regime", REGIMES, "difference", family=[], n_boot=1000
    )
    assert table["sd_trainings"].unique() == pytest.approx([level], rel=0.15)
    widths = (
        table["high"] - table["low"]
    ) / 2  # both sides have the same five models, drawn as if they were others
    assert widths.to_numpy() == pytest.approx(
        np.full(30, 1.96 * level * np.sqrt(2 / 5 / 2)), rel=0.25
    )


def test_units_are_drawn_with_all_their_queries():
    values = tidy("dense", RANDOM.random(30), RANDOM.random(30)).assign(
        unit=lambda f: f["query_id"].str[:2]
    )
    units = values["unit"].to_numpy()[:30]
    row = of(values, effect="difference", n_boot=300).iloc[0]
    names, sample = sorted(set(units)), []
    random = np.random.default_rng(seed_of(0, names))
    first, second = (values.loc[values["regime"] == r, "value"].to_numpy() for r in REGIMES)
    for drawn in random.integers(len(names), size=(300, len(names)), dtype=np.int32):
        rows = np.concatenate([np.flatnonzero(units == names[at]) for at in drawn])
        sample.append((second - first)[rows].mean())
    at, n = (second - first).mean(), len(names)
    sample = np.sort(stretched(at + np.sqrt(n / (n - 1)) * (np.array(sample) - at), at, n - 1))
    assert (row["low"], row["high"]) == pytest.approx((sample[7], sample[292]), abs=1e-12)
    assert (row["n_queries"], row["n_units"]) == (30, n)


def test_units_that_go_together_widen_the_interval():
    first = np.repeat(RANDOM.random(10), 20)
    values = tidy("dense", np.full(200, 0.5), first)
    alone = of(values, effect="difference").iloc[0]
    together = of(
        values.assign(unit=np.tile(np.repeat(np.arange(10), 20), 2)), effect="difference"
    ).iloc[0]
    assert together["high"] - together["low"] > 2 * (alone["high"] - alone["low"])


def test_simultaneous_intervals_hold_together_and_single_ones_do_not():
    random, n, kept = np.random.default_rng(8), 12, []
    for _ in range(300):
        estimates = random.normal(size=n)  # the truth is 0
        for n_boot in (800, 100):  # enough for ranks, and too few
            low, high = simultaneous(
                estimates, estimates[:, None] + random.normal(size=(n, n_boot))
            )
            kept.append((n_boot, ((low < 0) & (high > 0)).all(), (np.abs(estimates) < 1.96).all()))
    table = pd.DataFrame(kept).groupby(0).mean()
    assert table[1].between(0.91, 0.99).all() and (table[2] < 0.7).all()


def test_a_row_with_heavy_tails_does_not_blow_up_and_leaves_the_others_alone():
    reaches = []
    for seed in range(6):
        random = np.random.default_rng(seed)
        rows = [
            random.standard_t(1, size=4000) * 0.01,
            random.normal(size=4000) * 0.01,
            random.normal(size=4000),
        ]
        reaches.append(simultaneous(np.zeros(3), np.stack(rows))[1])
    reaches = np.array(reaches)
    assert reaches[:, 0].max() < 2 * reaches[:, 0].min() < 2
    assert reaches[:, 1:] == pytest.approx(
        np.array([[0.0239, 2.39]] * 6), rel=0.06
    )  # as among three of a kind


def test_simultaneous_interval_of_undefined_draws_is_undefined_and_leaves_the_others():
    good = np.random.default_rng(9).normal(size=(1, 500))
    low, high = simultaneous(
        np.array([0.0, 0.0, 0.2]), np.concatenate([good, good * np.nan, good * 0 + 0.2])
    )
    assert np.isnan([low[1:], high[1:]]).all() and high[0] == pytest.approx(1.96, rel=0.12)


def test_strata_count_the_same_and_are_drawn_within():
    sizes = {"small": 5, "large": 200}
    ends = {name: np.linspace(-0.1, 0.1, n) for name, n in sizes.items()}
    parts = [
        tidy("dense", np.ones(len(end)), end + (0.5 if len(end) == 5 else 1.0))
        for end in ends.values()
    ]
    values = pd.concat(
        [
            part.assign(stratum=name, query_id=name + part["query_id"])
            for name, part in zip(sizes, parts, strict=True)
        ]
    )
    row = of(values, strata="stratum").iloc[0]
    assert (
        row["delta"] == pytest.approx(-0.25)
        and row["n_queries"] == 205
        and np.isnan(row["p_value"])
    )
    # half of the standard error of the five, whose four degrees of freedom are nearly all that
    # there are
    error = np.hypot(*(end.std(ddof=1) / np.sqrt(len(end)) for end in ends.values())) / 2
    assert (row["high"] - row["low"]) / 2 == pytest.approx(stats.t.ppf(0.975, 4) * error, rel=0.15)


def test_means_without_sides():
    table = effects(
        tidy("dense", np.array([0.2, 0.4]), np.array([0.1, 0.1])), ["regime", "measure"], n_boot=50
    )
    names = [
        "regime",
        "measure",
        "mean",
        "low",
        "high",
        "n_queries",
        "n_units",
        "n_trainings",
        "sd_trainings",
        "over",
    ]
    assert list(table) == [*names, "draws"]
    assert table["mean"].tolist() == pytest.approx([0.3, 0.1])


def test_tests_agree_with_scipy_and_statsmodels(two):
    row = paired.tests(two, ["model", "measure"], "regime", REGIMES, margin=0.5).iloc[0]
    first, second = (
        two.query("model == 'dense' and regime == @r")["value"].to_numpy() for r in REGIMES
    )
    bound = 0.5 * first.mean()
    assert row["p_equivalent"] == pytest.approx(ttost_paired(second, first, -bound, bound)[0])
    assert row["cohen_d"] == pytest.approx((second - first).mean() / (second - first).std(ddof=1))
    assert row["p_permutation"] == pytest.approx(row["p_value"], abs=0.03)
    assert row["worse"] + row["better"] == 60
    same = paired.tests(tidy("dense", first, first), ["model"], "regime", REGIMES).iloc[0]
    assert same["p_value"] == same["p_permutation"] == 1 and same["cohen_d"] == 0


def test_the_same_difference_for_all_queries_is_not_called_equivalent():
    row = paired.tests(tidy("a", [0.9] * 12, [0.6] * 12), ["model"], "regime", REGIMES).iloc[0]
    assert row["p_permutation"] < 0.01 and np.isnan([row["p_equivalent"], row["cohen_d"]]).all()
    same = paired.tests(tidy("a", [0.9] * 12, [0.9] * 12), ["model"], "regime", REGIMES).iloc[0]
    assert same["p_permutation"] == 1 and same["cohen_d"] == 0 and np.isnan(same["p_equivalent"])


def test_tests_of_few_queries_are_undefined_and_none_is_an_error():
    one = paired.tests(tidy("a", [0.9], [0.6]), ["model"], "regime", REGIMES).iloc[0]
    assert (
        one[["p_value", "p_permutation", "p_equivalent", "cohen_d"]].isna().all()
        and one["worse"] == 1
    )
    nine = paired.tests(
        tidy("a", RANDOM.random(9), RANDOM.random(9)), ["model"], "regime", REGIMES
    ).iloc[0]
    assert np.isnan(nine["p_equivalent"]) and 0 < nine["p_permutation"] <= 1


def test_family_is_of_the_row_s_labels(two):
    assert "p_holm" in effects(
        two.drop(columns="measure", errors="ignore"), ["model"], "regime", REGIMES, n_boot=2
    )
    with pytest.raises(InputError, match="'protocl' is no label of a row"):
        effects(two, ["model"], "regime", REGIMES, family=["protocl"], n_boot=2)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda frame: frame.drop(columns="regime"), "no column 'regime'"),
        (lambda frame: frame[frame["regime"] == "other"], "nothing was measured"),
        (lambda frame: frame.iloc[1:], "query 'q0' lacks a side"),
        (lambda frame: frame.assign(value=np.nan), "no value for query 'q0'"),
        (lambda frame: frame.assign(seed=np.nan), "no seed for query 'q0'"),
    ],
)
def test_bad_values_are_named(change, message):
    with pytest.raises(InputError, match=message):
        of(change(tidy("dense", np.ones(3), np.ones(3))))


def test_a_fold_that_lacks_a_training_is_refused():
    """Each query has both trainings, of the other folds: its mean was there, its interval not."""
    rows = [
        {"query_id": f"q{query}", "left_out": fold, "seed": seed, "value": RANDOM.random()}
        for query in range(12)
        for fold in "abc"
        for seed in (1, 2)
        if query % 3 != "abc".index(fold)
    ]
    whole = pd.DataFrame(rows).assign(model="dense", measure="RR@10")
    assert effects(whole, ["model", "measure"], n_boot=50)["low"].notna().all()
    is_lacking = (whole["left_out"] == "b") & (whole["seed"] == 2)
    with pytest.raises(InputError, match="a model lacks a training"):
        effects(whole[~is_lacking], ["model", "measure"], n_boot=50)


def test_a_query_without_a_unit_is_its_own():
    values = tidy("dense", RANDOM.random(30), RANDOM.random(30))
    is_first = values["query_id"].isin(["q0", "q1"])
    some = values.assign(unit=np.where(is_first, "pair", None))
    every = values.assign(unit=np.where(is_first, "pair", values["query_id"]))
    assert of(some)["n_units"].item() == 29
    assert of(some)[["low", "high"]].equals(of(every)[["low", "high"]])


def test_unknown_effect_is_named(two):
    with pytest.raises(InputError, match="no effect 'ratio'; there are delta"):
        of(two, effect="ratio")


def test_order_of_strata_does_not_matter():
    parts = [
        tidy("dense", RANDOM.random(20), RANDOM.random(20), stratum=name) for name in ("b", "a")
    ]
    parts = [part.assign(query_id=part["stratum"] + part["query_id"]) for part in parts]
    one, other = (of(pd.concat(some), strata="stratum") for some in (parts, parts[::-1]))
    assert one[["low", "high"]].to_numpy() == pytest.approx(
        other[["low", "high"]].to_numpy(), abs=1e-12
    )


def test_interval_over_units_is_student_s():
    table = pd.DataFrame({"world": [1, 1, 2, 3], "model": "a", "loss": [0.1, 0.3, 0.4, 0.6]})
    row = across(table, "world", ["model"], "loss").iloc[0]
    theirs = stats.t.interval(0.95, 2, np.mean([0.2, 0.4, 0.6]), stats.sem([0.2, 0.4, 0.6]))
    assert (row["low"], row["high"]) == pytest.approx(theirs) and row["n"] == 3
    assert np.isnan(across(table[table["world"] == 1], "world", ["model"], "loss")["low"]).all()


# --- what an estimate must not depend on


ids = st.lists(
    st.text("abcxyz0189-_é", min_size=1, max_size=4), min_size=4, max_size=12, unique=True
)


@st.composite
def measured(draw):
    """Values of two systems on the same queries and of a third on others, in two strata, with two
    trainings.
    """
    names = draw(ids)
    half = len(names) // 2
    random = np.random.default_rng(draw(st.integers(0, 9)))
    rows = []
    for model, seed, regime in itertools.product(("dense", "BM25"), (1, 2), REGIMES):
        for place, name in enumerate(names):
            row = {
                "model": model,
                "measure": "RR@10",
                "seed": seed,
                "regime": regime,
                "query_id": name,
            }
            stratum = "first" if place < half else "second"
            trained = "" if model == "BM25" else f"{model} {regime} {seed}"
            level = random.choice([0, 0, 0.1, 0.2, 0.5, 1.0])
            rows.append(row | {"stratum": stratum, "trained": trained, "value": level})
    return pd.DataFrame(rows)


BY = ["model", "stratum", "measure"]
NUMBERS = ["interpolation", "extrapolation", "difference", "low", "high", "p_value", "sd_trainings"]


def rows_of(values, by=BY, **options):
    table = effects(values, by, "regime", REGIMES, "difference", n_boot=60, **options)
    draws = [[part.first, part.second, part.effect] for part in table[DRAWS]]
    return table.set_index(by)[NUMBERS], dict(
        zip(table[by].itertuples(index=False, name=None), draws, strict=True)
    )


def assert_same(one, other):
    """To the last digit, for the rows that both have."""
    (table, draws), (again, drawn) = one, other
    pd.testing.assert_frame_equal(table, again.loc[table.index], check_exact=True)
    assert all(np.array_equal(draws[key], drawn[key], equal_nan=True) for key in draws)


@settings(max_examples=25, deadline=None)
@given(measured(), st.integers(0, 99))
def test_order_of_rows_and_columns_does_not_matter(values, seed):
    shuffled = values.sample(frac=1, random_state=seed)
    shuffled = shuffled[sorted(shuffled, key=lambda name: (seed * len(name)) % 7)]
    assert_same(rows_of(values), rows_of(shuffled))
    whole, again = (
        rows_of(values, BY[::2], strata="stratum"),
        rows_of(shuffled, BY[::2], strata="stratum"),
    )
    assert_same(whole, again)
    tables = [effects(one, BY, "regime", REGIMES, "delta", n_boot=60) for one in (values, shuffled)]
    gaps = [table.contrast("model", [("dense", "BM25")]) for table in tables]
    one, other = (
        gap.set_index("stratum")[["difference", "low", "high"]].sort_index() for gap in gaps
    )
    pd.testing.assert_frame_equal(one, other, check_exact=True)


@settings(max_examples=15, deadline=None)
@given(measured())
def test_another_system_or_stratum_moves_no_row(values):
    whole = rows_of(values)
    assert_same(rows_of(values[values["model"] == "dense"]), whole)
    assert_same(rows_of(values[values["stratum"] == "second"]), whole)
    strangers = values.assign(query_id="other " + values["query_id"], model="other")
    assert_same(whole, rows_of(pd.concat([strangers, values])))


def test_renamed_queries_move_an_interval_within_the_noise_of_the_draws():
    values = tidy("dense", RANDOM.random(200), RANDOM.random(200))
    named = [values, values.assign(query_id="other " + values["query_id"])]
    rows = [of(one, effect="difference", n_boot=10_000).iloc[0] for one in named]
    assert rows[0]["low"] != rows[1]["low"] and rows[0]["difference"] == pytest.approx(
        rows[1]["difference"], abs=1e-12
    )
    assert rows[0]["low"] == pytest.approx(
        rows[1]["low"], abs=0.05 * (rows[0]["high"] - rows[0]["low"])
    )


def test_sets_of_other_queries_are_drawn_independently_in_whatever_order():
    """Two sets of 50: the difference of their means has the variance of both, whichever rows come
    first.
    """
    near, far = (
        tidy("dense", RANDOM.random(50), RANDOM.random(50)),
        tidy("dense", RANDOM.random(50), RANDOM.random(50)),
    )
    far["query_id"] = "far " + far["query_id"]
    values = pd.concat([near.assign(near=True), far.assign(near=False)]).query(
        "regime == 'interpolation'"
    )
    expected = np.sqrt(sum(part["value"].var() / 50 for _, part in values.groupby("near")))
    for ordered in (values, values.sort_values("value"), values[::-1]):
        means = effects(ordered, ["near"], n_boot=4000)
        apart = means.contrast("near", [(False, True)]).drawn()[0]
        assert apart.std() == pytest.approx(expected, rel=0.06)


def test_one_query_has_no_interval_and_two_a_very_wide_one():
    one = of(tidy("dense", np.array([0.2]), np.array([0.7])), effect="difference").iloc[0]
    assert (
        one["difference"] == pytest.approx(0.5)
        and np.isnan([one["low"], one["high"], one["p_value"]]).all()
    )
    two_ = of(
        tidy("dense", np.array([0.2, 0.3]), np.array([0.7, 0.5])), effect="difference", n_boot=4000
    ).iloc[0]
    assert two_["low"] < -1 and two_["high"] > 1.5


def test_queries_that_all_differ_by_the_same_give_no_certainty():
    row = of(tidy("dense", np.full(30, 0.2), np.full(30, 0.7)), effect="difference").iloc[0]
    assert row["difference"] == pytest.approx(0.5) and np.isnan([row["low"], row["high"]]).all()


def test_rows_of_the_same_models_count_their_trainings_once():
    """Three trainings a side on all queries, on the near and on the far half: four degrees of
    freedom, not twelve.
    """
    random, parts = np.random.default_rng(3), []
    for seed, regime in itertools.product((1, 2, 3), REGIMES):
        value = np.linspace(0.2, 0.8, 40) + random.normal(scale=0.05)
        trained = {
            "trained": f"{regime} {seed}",
            "seed": seed,
            "regime": regime,
            "model": "dense",
            "measure": "RR@10",
        }
        ids = [f"q{row}" for row in range(40)]
        for name, kept in (
            ("all", slice(40)),
            ("near half", slice(20)),
            ("far half", slice(20, 40)),
        ):
            parts.append(
                pd.DataFrame(
                    trained | {"queries": name, "query_id": ids[kept], "value": value[kept]}
                )
            )
    values, labels = pd.concat(parts), ["queries", "model", "measure"]
    options = {"on": "regime", "sides": REGIMES, "effect": "difference", "n_boot": 4000}
    every = effects(values, labels, **options)
    alone = effects(values[values["queries"] == "all"], labels, **options)
    assert every.iloc[0][["low", "high"]].tolist() == alone.iloc[0][["low", "high"]].tolist()
    unnamed = effects(values.drop(columns="trained"), labels, **options).iloc[0]
    assert unnamed["high"] - unnamed["low"] < 0.9 * (every.iloc[0]["high"] - every.iloc[0]["low"])


def test_what_an_interval_is_over_is_said():
    value = RANDOM.random(20)
    once = tidy("dense", value, value / 2, seed=1).assign(
        trained=lambda frame: "model of " + frame["regime"]
    )
    fixed = tidy("BM25", value, value / 3, seed=1).assign(trained="")
    twice = pd.concat(
        [once, once.assign(seed=2, trained=once["trained"] + " 2", value=once["value"] * 0.9)]
    )
    assert of(once)["over"].tolist() == ["queries; one training run"]
    assert of(pd.concat([twice, fixed]))["over"].tolist() == [
        "queries and training runs",
        "queries",
    ]


def test_two_one_sided_tests_by_draws_are_those_of_student():
    difference = RANDOM.normal(0.01, 0.1, size=80)
    row = of(tidy("dense", np.zeros(80), difference), effect="difference", n_boot=10_000)
    theirs = ttost_paired(difference, np.zeros(80), -0.03, 0.03)[0]
    assert outside(row.drawn()[0], 0.03) == pytest.approx(theirs, abs=0.01)
    assert np.isnan(outside(np.zeros(40), 0.03))


@pytest.mark.parametrize("options", [{"effect": "delta"}, {"on": "regime"}, {"sides": REGIMES}])
def test_an_effect_between_sides_needs_two_of_them(two, options):
    with pytest.raises(InputError, match="effects: "):
        effects(two, ["model"], **options)
    with pytest.raises(InputError, match="its two values"):
        effects(two, ["model"], "regime", (*REGIMES, "third"), "difference")


def test_wilson_s_interval_is_that_of_statsmodels_to_the_last_bit():
    n = np.arange(1, 60).repeat(60)
    counts = np.minimum(n, np.tile(np.arange(60), 59))
    expected = proportion_confint(counts, n, method="wilson")
    assert all(
        (ours == theirs).all() for ours, theirs in zip(wilson(counts, n), expected, strict=True)
    )


def test_a_page_has_headings_and_truth_in_words_and_whole_numbers_as_such():
    frame = pd.DataFrame(
        {"query_id": ["q1", "q2"], "p_holm": [0.0004, 0.5], "n_queries": [58.0, 9]}
    )
    frame = frame.assign(is_far=[True, False], mean=[1.0, 0.25])
    [read] = pd.read_html(io.StringIO(shown(frame).to_html()))
    assert list(read) == ["query", "p, Holm", "queries", "is_far", "mean"]
    assert read.astype(str).values.tolist() == [
        ["q1", "< .001", "58", "yes", "1.0"],
        ["q2", "0.500", "9", "no", "0.25"],
    ]


def test_a_heading_that_is_taken_is_not_given_twice():
    html = shown(pd.DataFrame({"n_queries": [1], "queries": [2]})).to_html()
    assert "n_queries" in html


def test_what_is_printed_are_estimates_and_no_draws():
    rows = {"model": list("aabb"), "query_id": list("pqpq"), "value": [0.8, 0.6, 0.4, 0.3]}
    means = effects(pd.DataFrame(rows), ["model"])
    assert "mean" in repr(means) and "draws" not in repr(means)
    assert repr(means["draws"].iloc[0]) == "10,000 draws of mean"
