"""The README says what the committed tables say, and its commands exist."""

import re
import shutil

import pandas as pd
import pytest

from interextra.study.readme import BEGIN, END, with_results


@pytest.fixture
def reference(tmp_path, root):
    """A copy of the committed reference that a test may change."""
    return shutil.copytree(root / "outputs" / "reference", tmp_path / "reference")


def rows_of(reference):
    lines = with_results(BEGIN + END, reference).splitlines()[3:-1]
    return {cells[0]: cells[1:] for cells in (line.strip("| ").split(" | ") for line in lines)}


def test_results_table_is_that_of_the_reference(root):
    text = (root / "README.md").read_text(encoding="utf-8")
    assert with_results(text, root / "outputs" / "reference") == text


def test_each_row_of_small_bears_its_commit(reference):
    path = reference / "small" / "01_overlap_annotation_analysis" / "provenance.json"
    path.write_text('{"implementation": {"source": {"commit": "0123456789+changes"}}}')
    rows = rows_of(reference)
    assert all(re.search(r"\([0-9a-f]{7}(\+changes)?\)$", cells[-1]) for cells in rows.values())
    assert rows["DL 2019 queries that share relevant passages with training (Zhan, Table 3)"][-1].endswith(
        "(0123456+changes)"
    )


def test_system_that_bm25_beats_in_domain_is_no_finding(reference):
    path = reference / "small" / "05_architecture_comparison" / "tables" / "restrain.csv"
    frame = pd.read_csv(path)
    frame.loc[frame["model"] == "SPLADE", "interpolation"] = 0.01
    frame.to_csv(path, index=False)
    found = rows_of(reference)["SPLADE: Δ nDCG@10, ReSTrain (Zhan, Table 6)"][-1]
    assert found.startswith("not comparable") and "%" not in found


def test_tables_of_today_and_of_before_give_the_same_rows(reference):
    before = rows_of(reference)
    names = {"delta_low": "low", "delta_high": "high", "avg_in": "in", "rel_loss": "loss", "n_agree": "n_consistent"}
    for path in reference.glob("*/0[45]_*/tables/*.csv"):
        pd.read_csv(path).rename(columns=names).to_csv(path, index=False)
    assert rows_of(reference) == before


def test_every_make_target_named_in_the_readme_exists(root):
    text, makefile = (root / "README.md").read_text(encoding="utf-8"), (root / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"`?make ([a-z]+)", text)) - {"it"}
    assert {"run", "test", "lab", "bench", "base", "clean"} <= named
    for target in named:
        assert re.search(rf"(?m)^{target}:", makefile), target


def test_every_notebook_stands_in_the_readme(root):
    text = (root / "README.md").read_text(encoding="utf-8")
    for path in (root / "notebooks").glob("*.ipynb"):
        assert f"| {path.stem} |" in text
