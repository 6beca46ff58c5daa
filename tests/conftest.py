"""Shared fixtures: the repository root, and real data where a user has it."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder with the real collections; the test is skipped where there is none."""
    folder = Path(os.environ.get("INTEREXTRA_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real data: set INTEREXTRA_DATA (looked in {folder})")
    return folder
