"""Every benchmark runs, at its smallest size."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted(Path(__file__).resolve().parents[1].joinpath("bench").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_benchmark_runs_at_its_smallest_size(script):
    """bench/indicators.py called a function with four arguments that takes three."""
    done = subprocess.run(
        [sys.executable, script, "--small"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout
