"""The README says what the committed tables say, and its commands exist."""

import itertools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import interextra
from interextra.models.base import verified_base
from interextra.papers import verdicts
from interextra.study.cli import main
from tools.readme import BEGIN, END, results_page, with_results


@pytest.fixture
def reference(tmp_path, root):
    """A copy of the committed reference that a test may change."""
    return shutil.copytree(root / "outputs" / "reference", tmp_path / "reference")


def lines_of(reference):
    return with_results(BEGIN + END, reference).splitlines()


def rows_of(reference):
    found = (line.strip("| ").split(" | ") for line in lines_of(reference)[3:] if line.startswith("|"))
    return {cells[0].rpartition(" (")[0]: cells[1:] for cells in found}


def test_results_of_the_readme_and_their_page_are_those_of_the_reference(root):
    reference, text = root / "outputs" / "reference", (root / "README.md").read_text(encoding="utf-8")
    assert with_results(text, reference) == text
    assert results_page(reference) == (root / "RESULTS.md").read_text(encoding="utf-8")


def test_each_primary_claim_has_a_row_and_its_cells_say_what_the_tables_say(reference):
    rows, primary = rows_of(reference), [claim for claim in verdicts.stated().values() if not claim.secondary]
    assert set(rows) == {claim.sentence for claim in primary}
    for claim in primary:
        for profile, cell in zip(("small", "worlds"), rows[claim.sentence][1:3], strict=True):
            path = reference / profile / claim.notebook / "tables" / "claims.csv"
            table = pd.read_csv(path).set_index("claim") if path.is_file() else pd.DataFrame()
            if claim.name not in table.index:
                assert cell == "–"
                continue
            row = table.loc[claim.name]
            scale, places = (100, 1) if claim.unit else (1, 2)
            low, high = (f"{scale * row[name]:+.{places}f}" for name in ("low", "high"))
            assert f"{scale * row['estimate']:+.{places}f}" in cell and f"[{low}, {high}]" in cell
            assert row["verdict"] in cell and ("gate" in cell) == str(row["reason"]).startswith("gate")
            assert ("no difference" in cell) == str(row["size"]).startswith("no difference")


def test_the_readme_s_python_runs(root):
    text = (root / "README.md").read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    random, parts = np.random.default_rng(1), []
    for model, left_out in itertools.product(("BM25", "DR (base)"), (1, 2)):
        ids = [f"q{at}" for at in range(20)]
        values = {"query_id": ids, "stratum": [1, 2] * 10, "measure": "RR@10", "value": random.random(20)}
        parts.append(pd.DataFrame({"model": model, "left_out": left_out, "seed": 1} | values))
    nb = SimpleNamespace(measure=lambda design, measures, strata: pd.concat(parts, ignore_index=True), store=None)
    plan = SimpleNamespace(design=None, split=SimpleNamespace(strata=lambda store: None))
    names = {"ix": interextra, "nb": nb, "plan": plan}
    exec(compile(text, "README.md", "exec"), names)
    assert names["beside"].groupby("model")["verdict"].size().to_dict() == {"BM25": 2, "DR (base)": 2}


def test_a_trainer_of_your_own_runs_as_printed(root, spec, store):
    """The script of the README, which is that of notebook 12, trains on a split, and `regimes` reads what it wrote."""
    text = (root / "README.md").read_text(encoding="utf-8").partition("### A trainer of your own")[2]
    script = text.partition("```python\n")[2].partition("```")[0]
    cells = json.loads((root / "notebooks" / "12_your_own_retriever.ipynb").read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells]
    parts = [source for source in sources if source.startswith(("from datasets import", "def trained(", "def search("))]
    assert len(parts) == 3 and all(part in script for part in parts)
    assert len([line for line in script.splitlines() if line.strip()]) <= 42
    asked = ["--collection", spec, "--size", "12", "--format", "ids", "st", "--out", "folds"]
    assert main(["split", "restrain", *asked]) == 0
    Path("own.py").write_text(script)
    done = subprocess.run([sys.executable, "own.py", str(verified_base()), "2"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert main(["regimes", "--split", "folds", "--runs", "runs/{part}.{seed}.run", "--n-boot", "400"]) == 0
    table = pd.read_csv("regimes/regimes.csv")
    assert table["n_trainings"].tolist() == [2, 2, 2] and table["interpolation"].between(0, 1).all()


def test_shared_judgements_are_told_in_both_readings(reference):
    path = reference / "small" / "01_overlap_annotation_analysis" / "tables" / "label_overlap.csv"
    frame = pd.read_csv(path)
    for years, told in (
        (["dl19"], "a different count is nearer in each"),
        (["dl19", "dl20"], "the caption's count is nearer"),
    ):
        frame.loc[frame["test_set"].isin(years) & (frame["min_shared"] == 2), "percent"] = 11.0
        frame.to_csv(path, index=False)
        [said] = [line for line in lines_of(reference) if "DL 2019" in line and not line.startswith("|")]
        assert "We find 11 and " in said and told in said


def test_what_is_counted_below_the_claims_is_in_the_tables(reference):
    [said] = [line for line in lines_of(reference) if "primary claims" in line]
    tables = [pd.read_csv(path) for path in reference.glob("worlds/*/tables/claims.csv")]
    found = pd.concat(tables).set_index("claim")
    found = found[[not verdicts.stated()[name].secondary for name in found.index]]
    decided = found["verdict"].isin(["holds", "contradicted"]).sum()
    assert f"{decided} of {len(found)} on fourteen generated worlds" in said


def test_every_claim_stands_on_the_page(reference):
    page = results_page(reference)
    for path in reference.glob("*/*/tables/claims.csv"):
        for row in pd.read_csv(path).to_dict("records"):
            assert f"| {verdicts.stated()[row['claim']].sentence} |" in page
            assert pd.isna(row["n_queries"]) or f"{int(row['n_queries']):,}" in page  # a table of models has none


def test_every_make_target_named_in_the_readme_exists(root):
    text, makefile = (root / "README.md").read_text(encoding="utf-8"), (root / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"(?m)(?:`|^)make ([a-z]+)", text))
    assert {"run", "test", "lab", "bench", "base", "clean"} <= named
    for target in named:
        assert re.search(rf"(?m)^{target}:", makefile), target


def test_every_notebook_stands_in_the_readme(root):
    text = (root / "README.md").read_text(encoding="utf-8")
    for path in (root / "notebooks").glob("*.ipynb"):
        assert f"| {path.stem} |" in text


def test_losses_by_mismatch_are_those_of_the_committed_table(root):
    found = pd.read_csv(root / "outputs" / "reference" / "development" / "03_resttest" / "tables" / "mismatch.csv")
    said = " ".join((root / "README.md").read_text(encoding="utf-8").split())
    for row in found[found["model"] == "DR (base)"].itertuples():
        change, low, high = (f"{100 * value:.1f}" for value in (row.delta, row.low, row.high))
        place = f"at {'mismatch ' if row.mismatch == 4 else ''}{row.mismatch}"
        assert f"{change} % [{low}, {high}] {place}" in said
    bm25 = found[found["model"] == "BM25"]
    assert len(bm25) == 4 and (found["n"] == 4).all() and ((bm25["low"] <= 0) & (bm25["high"] >= 0)).all()
