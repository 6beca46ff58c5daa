"""What the benchmark's figures mean: growth, memory, repeats, agreement."""

import sys

import numpy as np
import pandas as pd
import pytest

from bench.cases.figure import figure_of_seconds, short
from bench.cases.form import DifferentError, equal_within
from bench.cases.timing import Measured, exponent_of, measured, timed


def outcome(n, seconds):
    return Measured(n, [2 * seconds, seconds], [seconds], 0.0, None)


def test_growth_is_the_power_of_the_size_that_the_least_seconds_follow():
    outcomes = [outcome(n, 1e-6 * n**1.5) for n in (1000, 2000, 4000, 8000)]
    assert exponent_of(outcomes) == pytest.approx(1.5)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is that of /proc")
def test_memory_is_the_peak_of_the_work_alone():
    held = np.ones(30 * 2**17)  # 30 MiB that were there before

    def work():
        ones = np.ones(40 * 2**17)
        twos = ones + ones
        return twos.sum()  # of twice 40 MiB, given back at the end

    found = timed(work, 1, once=True)
    assert 75 < found.megabytes < 95 and held.any()


def test_work_is_prepared_once_a_size_and_warmed_at_the_smallest():
    prepared, worked = [], []

    def prepare(n, folder):
        assert folder.is_dir() and not any(folder.iterdir())
        prepared.append(n)
        return lambda: worked.append(n)

    outcomes = measured(prepare, [3, 5], once=False)
    assert prepared == [3, 3, 5]
    assert worked == [3] * 6 + [5] * 5
    assert [len(found.seconds) for found in outcomes] == [5, 5]


def test_results_that_differ_are_refused():
    compare = equal_within(0.1)
    assert compare([1.0, 2.0], np.array([1.0, 2.05])) == "largest difference 5.0e-02"
    for other in ([1.0, 2.2], [1.0, np.nan]):
        with pytest.raises(DifferentError, match="largest difference"):
            compare([1.0, 2.0], other)


def test_figure_has_a_panel_a_case_and_says_how_many_others_are_slower():
    rows = [
        ("search", "interextra", 10, 1.0, 1.0),
        ("search", "faiss", 10, 0.5, 0.5),
        ("measures", "interextra", 10, 1.0, 1.0),
        ("measures", "interextra, from a file", 10, 2.0, 2.0),
        ("measures", "ranx", 10, 9.0, 9.0),
    ]
    frame = pd.DataFrame(rows, columns=["case", "system", "n", "seconds", "ratio"])
    figure = figure_of_seconds(frame.assign(counted="queries"))
    titles = [axis.get_title() for axis in figure.axes if axis.axison]
    assert titles == ["search", "measures"]
    assert figure.caption == "At the largest size the kit is faster than 1 of 2 others."


def test_sizes_are_written_short():
    assert [short(n) for n in (250, 12_500, 503_000, 2_000_000)] == ["250", "12.5k", "503k", "2M"]
