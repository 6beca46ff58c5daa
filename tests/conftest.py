"""Shared fixtures: the repository root, a house to run in, a tiny collection, and real data where a
user has it.
"""

import json
import os
import shutil
from pathlib import Path

import pytest
from toy_topics import write_topics

from interextra.own import few
from interextra.store.folders import Store

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


@pytest.fixture
def house(tmp_path, tmp_path_factory, root, monkeypatch):
    """A copy of the repository's notebooks and parameters, with no outputs; all of them share the
    collections.
    """
    for name in ("notebooks", "params"):
        shutil.copytree(root / name, tmp_path / name, ignore=shutil.ignore_patterns(".*"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTEREXTRA_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    return tmp_path


@pytest.fixture
def tiny(tmp_path):
    """A collection of four passages in BEIR's layout, with the splits train and test."""
    folder = tmp_path / "tiny"
    (folder / "qrels").mkdir(parents=True)
    passages = {
        "a": "tea is a hot drink",
        "b": "rome is an old city",
        "c": "a lion is a cat",
        "d": "gold is a metal",
    }
    queries = {
        "1": "what is tea",
        "2": "where is rome",
        "3": "what is a lion",
        "4": "is gold a metal",
    }
    for name, content in (("corpus", passages), ("queries", queries)):
        lines = [json.dumps({"_id": key, "text": text}) for key, text in content.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    header = "query-id\tcorpus-id\tscore\n"
    (folder / "qrels" / "train.tsv").write_text(header + "1\ta\t1\n2\tb\t1\n")
    (folder / "qrels" / "test.tsv").write_text(header + "3\tc\t1\n4\td\t2\n")
    return folder


@pytest.fixture
def any_size(monkeypatch):
    """Splits of fewer queries than decide anything; see tests/own/test_split_sizes.py for those."""
    monkeypatch.setattr(few, "LEAST_MEASURING", 1)
    monkeypatch.setattr(few, "LEAST_TRAINING", 1)


@pytest.fixture
def spec(house, any_size):
    """A BEIR folder: three topics, 48 training and 24 test queries, a passage each."""
    return write_topics(house / "own")


@pytest.fixture
def store(house):
    return Store(house / "outputs" / "cells")
