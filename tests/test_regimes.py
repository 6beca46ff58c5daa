"""Regime rows and tables."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from interextra.ground.errors import InputError
from interextra.ground import statistics
from interextra.evaluation.regimes import regime_row, regime_table


def values(n: int, seed: int, scale: float = 1.0, prefix: str = "q") -> pd.Series:
    return pd.Series(scale * np.random.default_rng(seed).beta(2, 2, n), [f"{prefix}{i}" for i in range(n)])


def test_row_holds_means_delta_interval_and_p_value():
    inter, extra = values(50, 0), values(30, 1, 0.8, "p")
    row = regime_row(inter, extra, paired=False, seed=5, n_boot=2000)
    assert list(row) == [
        "interpolation", "extrapolation", "delta", "delta_low", "delta_high", "p_value", "n_queries",
    ]  # fmt: skip
    assert row["interpolation"] == pytest.approx(inter.mean()) and row["extrapolation"] == pytest.approx(extra.mean())
    assert row["delta"] == pytest.approx(extra.mean() / inter.mean() - 1)
    expected = statistics.bootstrap_delta(inter.to_numpy(), extra.to_numpy(), paired=False, seed=5, n_boot=2000)
    assert (row["delta_low"], row["delta_high"]) == expected
    assert row["delta_low"] < row["delta"] < row["delta_high"]
    assert row["p_value"] == pytest.approx(stats.ttest_ind(inter, extra, equal_var=False).pvalue)
    assert row["n_queries"] == 80


def test_paired_queries_are_matched_by_id_not_by_place():
    inter = values(40, 0)
    extra = (0.9 * inter).sample(frac=1, random_state=1)
    row = regime_row(inter, extra, paired=True)
    assert row["delta_low"] == pytest.approx(-0.1) and row["delta_high"] == pytest.approx(-0.1)
    assert row["n_queries"] == 40
    assert row["p_value"] == pytest.approx(stats.ttest_rel(inter, 0.9 * inter).pvalue)


def test_the_permutation_test_may_take_the_place_of_t():
    inter, extra = values(40, 0), values(40, 1, 0.9)
    for paired in (True, False):
        row = regime_row(inter, extra, paired, test="permutation", seed=2)
        test = statistics.sign_flip_test if paired else statistics.permutation_test
        assert row["p_value"] == test(inter.to_numpy(), extra.to_numpy(), seed=2)
    with pytest.raises(InputError, match="wilcoxon"):
        regime_row(inter, extra, True, test="wilcoxon")


def test_one_query_has_a_row_without_p_value():
    row = regime_row(values(17, 0), values(1, 1, prefix="p"), paired=False)
    assert np.isnan(row["p_value"]) and row["delta_low"] <= row["delta"] <= row["delta_high"]


@pytest.mark.parametrize(
    ("inter", "extra", "paired", "part"),
    [
        (values(0, 0), values(3, 0), False, "interpolation: no query"),
        (values(3, 0), values(0, 0), False, "extrapolation: no query"),
        (values(3, 0), values(7, 0), True, "'q3', 'q4', 'q5', …"),
        (values(3, 0, 0.0), values(3, 0), True, "mean is 0"),
        (values(3, 0), values(3, 0).where(lambda x: x != x.iloc[1]), True, "'q1'"),
        (pd.concat([values(2, 0)] * 2), values(2, 0), True, "'q0', 'q1'"),
    ],
)
def test_bad_regimes_are_input_errors(inter, extra, paired, part):
    with pytest.raises(InputError) as error:
        regime_row(inter, extra, paired)
    assert part in str(error.value)


def test_holm_corrects_within_the_declared_family_only():
    rows = [
        {"model": model, "measure": measure, "p_value": p}
        for (model, measure), p in zip(
            [("bm25", "nDCG@10"), ("bm25", "R@100"), ("dense", "nDCG@10"), ("dense", "R@100"), ("splade", "nDCG@10")],
            [0.01, 0.02, 0.04, 0.5, 0.03],
            strict=True,
        )
    ]
    table = regime_table(rows, family=["measure"])
    assert table.drop(columns="p_holm").to_dict("records") == rows
    assert table.p_holm.tolist() == pytest.approx([0.03, 0.04, 0.06, 0.5, 0.06])
    assert regime_table(rows).p_holm.tolist() == pytest.approx([0.05, 0.08, 0.09, 0.5, 0.09])


def test_bad_tables_are_input_errors():
    with pytest.raises(InputError, match="no rows"):
        regime_table([])
    with pytest.raises(InputError, match="'collection'"):
        regime_table([{"p_value": 0.1}], family=["collection"])
