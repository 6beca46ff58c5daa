"""The toy topics are smaller than what a split is refused for; see test_split_sizes for that."""

import pytest

from interextra.own import few


@pytest.fixture(autouse=True)
def _toys_are_large_enough(monkeypatch):
    monkeypatch.setattr(few, "LEAST_TRAINING", 1)
    monkeypatch.setattr(few, "LEAST_MEASURING", 1)
