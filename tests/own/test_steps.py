"""What takes long is said while it lasts, with what is left."""

import pytest

from interextra.own import steps


@pytest.mark.parametrize(("seconds", "n_lines"), [(0.1, 0), (3.0, 2), (6.0, 4)])
def test_items_are_counted_where_they_take_long(monkeypatch, capsys, seconds, n_lines):
    """A line at most every five seconds, and none when all are done."""
    now = iter(seconds * number for number in range(10))
    monkeypatch.setattr(steps, "monotonic", lambda: next(now))
    assert list(steps.counted(["a", "b", "c", "d", "e"], "runs")) == ["a", "b", "c", "d", "e"]
    out, error = capsys.readouterr()
    lines = error.splitlines()
    assert len(lines) == n_lines and not out
    if lines:
        assert (
            lines[0]
            == {
                3.0: "runs: 2 of 5 done, about 9 s left …",
                6.0: "runs: 1 of 5 done, about 24 s left …",
            }[seconds]
        )
