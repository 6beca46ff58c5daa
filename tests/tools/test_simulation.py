"""Verdicts over worlds are as sure as they say, where the true effects are known."""

import pytest

from tools.simulation import rates, rates_on_one_data_set


@pytest.fixture(scope="module")
def simulated():
    return rates(60).set_index("what")


def test_few_verdicts_are_wrong(simulated):
    """At most 5 % in truth: of 60 notebooks, and of each of seven claims, at most 15 % but for one
    time in 500.
    """
    bounded = simulated[simulated["should_be"] == "at most 0.05"]
    assert len(bounded) == 9 and (bounded["share"] <= 0.15).all(), bounded


def test_an_effect_is_found_as_often_as_is_printed(simulated):
    """Within 5 points in truth; 60 notebooks add 20 more but for one time in 500."""
    found = simulated[simulated["should_be"] != "at most 0.05"]
    assert len(found) == 6 and found["share"].between(0.02, 1).all()
    assert ((found["share"] - found["should_be"].astype(float)).abs() <= 0.25).all(), found


def test_verdicts_on_one_data_set_are_rather_too_careful():
    wrong, found = rates_on_one_data_set(8)["share"]
    assert wrong <= 0.25 and found >= 0.3
