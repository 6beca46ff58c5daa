"""Every benchmark runs, at its smallest size."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted(Path(__file__).resolve().parents[2].joinpath("bench").glob("*.py"))
FORKING = (
    "indexes",
    "passages",
    "search",
    "side_by_side",
)  # start processes of their own; the others share what is imported


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_benchmark_runs_at_its_smallest_size(script, monkeypatch, capsys):
    """bench/indicators.py called a function with four arguments that takes three."""
    if script.stem in FORKING:
        done = subprocess.run(
            [sys.executable, script, "--small"], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout
        return
    monkeypatch.setattr(sys, "argv", [str(script), "--small"])
    monkeypatch.syspath_prepend(script.parent)
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        assert not end.code, end
    finally:
        for name in FORKING:  # which another one imports
            sys.modules.pop(name, None)
    assert capsys.readouterr().out
