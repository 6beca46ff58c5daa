"""The README says what the committed tables say, and its commands exist."""

import itertools
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import interextra
from interextra.papers import verdicts
from tools.readme import BEGIN, END, QUESTIONS, results_page, with_results


@pytest.fixture
def reference(tmp_path, root):
    """A copy of the committed reference that a test may change."""
    return shutil.copytree(root / "outputs" / "reference", tmp_path / "reference")


def rows_of(reference):
    lines = with_results(BEGIN + END, reference).splitlines()[3:-1]
    return {cells[0]: cells[1:] for cells in (line.strip("| ").split(" | ") for line in lines)}


def test_results_of_the_readme_and_their_page_are_those_of_the_reference(root):
    reference, text = root / "outputs" / "reference", (root / "README.md").read_text(encoding="utf-8")
    assert with_results(text, reference) == text
    assert results_page(reference) == (root / "RESULTS.md").read_text(encoding="utf-8")


def test_each_question_has_a_row_with_its_interval_counts_and_verdict(reference):
    rows = rows_of(reference)
    for asked in QUESTIONS:
        said, verdict = rows[asked["question"]]
        counts = r"[\d,]+ queries, \d trainings? of each system, .* \(\d\d\)$"
        assert re.search(rf"(%|points|Spearman [+-][\d.]+) \[.*\]( by [\w -]+)?; {counts}", said), said
        assert verdict in ("holds", "contradicted", "not shown", "not comparable", "undefined")


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


def findings(reference, profile, notebook):
    path = reference / profile / notebook / "tables" / "findings.csv"
    return path, pd.read_csv(path)


def test_real_data_stand_before_a_generated_world(reference):
    notebook = "09_negative_exposure"
    _, frame = findings(reference, "worlds", notebook)
    question = "… and it is why the two disagree on SPLADE"
    assert "generated worlds" in rows_of(reference)[question][0] or (reference / "small" / notebook).is_dir()
    target = reference / "small" / notebook / "tables"
    target.mkdir(parents=True, exist_ok=True)
    frame.assign(estimate=0.123, n_trainings=3).to_csv(target / "findings.csv", index=False)
    said = rows_of(reference)[question][0]
    assert said.startswith("+12.3 points") and "3 trainings of each system, MedQuAD (09)" in said


def test_shared_judgements_are_told_in_both_readings(reference):
    path = reference / "small" / "01_overlap_annotation_analysis" / "tables" / "label_overlap.csv"
    frame = pd.read_csv(path)
    for years, told in (
        (["dl19"], "a different count is nearer in each"),
        (["dl19", "dl20"], "the caption's count is nearer"),
    ):
        frame.loc[frame["test_set"].isin(years) & (frame["min_shared"] == 2), "percent"] = 11.0
        frame.to_csv(path, index=False)
        [(said, verdict)] = [row for name, row in rows_of(reference).items() if "DL 2019" in name]
        assert said.startswith("11 and ") and verdict == told


def test_every_finding_stands_on_the_page(reference):
    page = results_page(reference)
    for path in reference.glob("mini/*/tables/findings.csv"):
        for finding in pd.read_csv(path)["finding"]:
            assert finding in page
    for path in reference.glob("*/*/tables/claims.csv"):
        for row in pd.read_csv(path).to_dict("records"):
            assert f"| {verdicts.stated()[row['claim']].sentence} |" in page and f"{row['n_queries']:,}" in page


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
