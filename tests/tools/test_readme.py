"""README and RESULTS say what the committed tables say, in a page that stays one; what they link to
is there.
"""

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

import interextra
from interextra.claims import judgement, wording
from interextra.claims.claim import stated
from interextra.cli import main, parser
from interextra.models.base import verified_base
from interextra.site.worlds import SEEDS
from interextra.store.errors import InputError
from tools import readme

PAGES = (
    "README.md",
    "RESULTS.md",
    "CONTRIBUTING.md",
    "book/reproducing.md",
    "book/cluster.md",
    "book/own_retriever.md",
    "book/agents.md",
    "SKILL.md",
)


@pytest.fixture
def reference(tmp_path, root):
    """A copy of the committed reference that a test may change, beside the notebooks."""
    shutil.copytree(root / "notebooks", tmp_path / "notebooks")
    return shutil.copytree(root / "outputs" / "reference", tmp_path / "outputs" / "reference")


def text_of(root, page):
    return (root / page).read_text(encoding="utf-8")


def rows_of(table):
    """First cell without its source → the other cells, of a table in Markdown."""
    table = table.replace(readme.NO_BREAK, " ")
    found = (
        line.strip("| ").split(" | ") for line in table.splitlines()[2:] if line.startswith("|")
    )
    return {cells[0].rpartition(" (")[0]: cells[1:] for cells in found}


def test_generated_parts_of_both_pages_are_those_of_the_reference(root):
    reference = root / "outputs" / "reference"
    for page, blocks in (
        ("README.md", readme.readme(reference)),
        ("RESULTS.md", readme.results(reference)),
    ):
        assert readme.filled(text_of(root, page), blocks) == text_of(root, page), (
            f"{page}: make readme"
        )


def test_every_pair_of_marks_is_filled(root):
    reference = root / "outputs" / "reference"
    names = {
        page: {name for _, name, _ in readme.BLOCK.findall(text_of(root, page))}
        for page in PAGES[:2]
    }
    assert names["README.md"] == {*readme.readme(reference), "sample"}
    assert names["RESULTS.md"] == set(readme.results(reference))
    with pytest.raises(InputError, match="no marks for the parts 'findings'"):
        readme.filled("text", {"findings": ""})


def test_the_sample_is_what_the_commands_print_for_the_committed_values(house, root):
    text = text_of(root, "README.md")
    sample = readme.sample(root)
    assert readme.filled(text, {"sample": sample}) == text, "make readme"
    *_, last, end = sample.splitlines()
    assert last == readme.CUT and end == "```"  # it goes on
    assert "of the gain is kept in extrapolation" in sample


def test_the_figure_shows_the_numbers_of_the_reference(reference, root):
    drawn = Image.open(root / readme.FIGURE)
    assert drawn.text["Description"] == readme.shown_in(readme.losses(reference)), "make readme"
    assert f'<img src="{readme.FIGURE}"' in text_of(root, "README.md") and drawn.width > 900
    path = reference / "small" / "03_resttest" / "tables" / "claims.csv"
    table = pd.read_csv(path)
    table.loc[table["claim"] == "resttest-dense", "estimate"] -= 0.01
    table.to_csv(path, index=False)
    assert drawn.text["Description"] != readme.shown_in(readme.losses(reference))


def test_the_figure_has_each_loss_published_on_real_data_and_in_the_worlds(reference):
    frame = readme.losses(reference)
    collections = pd.read_csv(reference / "real" / "03_resttest" / "tables" / "collections.csv")
    is_asked_of_them = frame["data"].isin(collections["collection"])
    on_all = frame[~is_asked_of_them]
    assert on_all.groupby("system").size().eq(3).all() and on_all["system"].nunique() == 7
    asked = frame[is_asked_of_them].query("system == 'Dense, left-out bucket'")
    assert asked["change"].tolist() == collections["estimate"].tolist()
    assert asked["excluded"].tolist() == [False, True, True, True]  # only one is ahead of BM25
    [row] = frame.query("system == 'Dense, left-out bucket' and data == 'MedQuAD'").to_dict(
        "records"
    )
    claims = pd.read_csv(reference / "small" / "03_resttest" / "tables" / "claims.csv").set_index(
        "claim"
    )
    assert row["change"] == claims.loc["resttest-dense", "estimate"]
    of_claim = [stated()[name] for name in readme.written("losses").values()]
    assert all(claim.unit == "%" for claim in of_claim)  # one axis


def test_readme_is_a_page_with_short_lines(root):
    lines = text_of(root, "README.md").splitlines()
    assert len(lines) <= 150
    assert not [line for line in lines if len(line) > 120 and not line.startswith("|")]


def test_no_result_is_typed_into_the_readme(root):
    """Outside of the generated parts no percentage, points or interval; and no number in the
    caveats.
    """
    text = readme.BLOCK.sub("", text_of(root, "README.md"))
    text = text.replace("95 % confidence", "")
    assert not re.findall(r"\d ?%|\d points|[+-]\d|\[[\d.+-]+, ", text)
    for part in ("findings", "losses"):
        written = readme.written(part)
        assert len(written) == {"findings": 11, "losses": 7}[part]
        for words in written.values() if part == "findings" else written:
            assert not re.search(r"\d", re.sub(r"BM25|nl2bash|\(\d\d\)", "", words)), words


def test_findings_have_the_conclusion_the_estimates_and_a_caveat(reference):
    rows, caveats = rows_of(readme.readme(reference)["findings"]), readme.written("findings")
    found = readme.answers(reference)
    assert len(rows) == len(caveats) == 11
    for name, caveat in caveats.items():
        claim = stated()[name]
        ours = {data: of[name] for data, of in found.items() if name in of}
        [head] = [head for head in rows if head.startswith(claim.sentence)]
        cells = rows[head]
        said = head.lower().partition("**")[2].partition("**")[0]
        decided, _, on_others = said.rpartition("; ")
        told = wording.conclusion(claim, ours).lower()
        assert on_others.replace("on other real data", "on real data") == told
        assert bool(decided) == (cells[1] not in ("–", "not run yet"))
        decision = decided.removesuffix(" on four real collections")
        decision = decision.removesuffix(" real collections")
        assert cells[1].partition("]: ")[2].startswith(decision)
        assert cells[0] == wording.published(claim) and cells[4] == caveat
        for data, cell in zip(wording.DATA, cells[2:4], strict=True):
            assert (cell == "–") == (data not in ours)
            if data in ours:
                assert f"{100 * ours[data]['estimate']:+.1f} {claim.unit}" in cell
    assert cells[2].startswith("MedQuAD: ") and "TREC DL: " in readme.readme(reference)["findings"]


def test_real_collections_have_a_column_as_far_as_they_are_computed(tmp_path):
    """Of a claim that is asked of them, too; the mean where all that decide answer it."""
    tables = tmp_path / "real" / "03_resttest" / "tables"
    tables.mkdir(parents=True)
    row = {"claim": "real-resttest-dense", "estimate": -0.1, "low": -0.12, "high": -0.08}
    row |= {"verdict": "holds", "gate": "nl2bash, reddit, a, b", "k": 4, "n": 4, "resolution": 0.02}
    row |= {"holds_on": "nl2bash, reddit, a, b"}
    pd.DataFrame([row]).to_csv(tables / "over_collections.csv", index=False)
    rows = rows_of(readme.readme(tmp_path)["findings"])
    on_collections = {head.partition(".")[0]: cells[1] for head, cells in rows.items()}
    dense = "A dense retriever is less effective on a bucket of queries that was excluded from its"
    assert on_collections.pop(f"{dense} training") == "-10.0 % [-12.0, -8.0]: holds on 4 of 4"
    [head] = [head for head in rows if head.startswith(dense)]
    assert "**Holds on 4 of 4 real collections; " in head
    assert set(on_collections.values()) == {"–", "not run yet"}


def test_what_may_decide_a_loss_stands_beside_the_losses_by_collection(tmp_path):
    of_restrain = tmp_path / "real" / "02_restrain" / "tables"
    of_resttest = tmp_path / "real" / "03_resttest" / "tables"
    assert readme._moderators(tmp_path).startswith("No run")
    of_hybrid = tmp_path / "real" / "10_compression_and_hybrid" / "tables"
    for tables in (of_restrain, of_resttest, of_hybrid):
        tables.mkdir(parents=True)
    weights = pd.DataFrame({"collection": ["one", "one", "two"], "weight": [0.4, 0.3, 0.8]})
    weights.to_csv(of_hybrid / "weights.csv", index=False)
    row = {"n_passages": 9000, "n_test": 1130, "answers_trained": 0.27, "words_in_answer": 0.2}
    known = pd.DataFrame([{"collection": "one"} | row, {"collection": "two"} | row])
    known.to_csv(of_restrain / "moderators.csv", index=False)
    draws = pd.DataFrame({"collection": ["one", "two"], "delta": [-0.16, -0.14]})
    draws = draws.assign(measure="nDCG@10", model="DR (base)", test_queries="all at once")
    others = [
        draws.assign(test_queries="3 × 100", delta=9.0),
        draws.assign(model="BM25", delta=9.0),
    ]
    pd.concat([draws, *others]).to_csv(of_restrain / "restrain_draws.csv", index=False)
    losses = pd.DataFrame({"collection": ["one", "two"], "estimate": [-0.3, -0.25], "lead": 0.1})
    losses = losses.assign(claim=readme.OF_RESTRAIN)
    losses.to_csv(of_restrain / "collections.csv", index=False)
    estimates = pd.DataFrame({"collection": ["two", "one"], "estimate": [-0.2, -0.1]})
    estimates = estimates.assign(claim=readme.OF_LEAD, lead=[-0.05, 0.15])
    estimates.to_csv(of_resttest / "collections.csv", index=False)
    cells = [line.strip("| ").split(" | ") for line in readme._moderators(tmp_path).splitlines()]
    found = {label: values for label, *values in cells}
    assert found["on the collection"] == ["one", "two"]
    assert found[readme.TRAINED_ANSWERS] == ["27 %", "27 %"]
    assert found[readme.LEAD] == ["+15.0 points", "-5.0 points"]
    assert found[readme.AT_ONCE] == ["-16.0 %", "-14.0 %"]
    assert found[readme.WEIGHT] == ["0.35", "0.80"]
    assert found["Dense retrieval loses on an excluded bucket (03)"] == ["-10.0 %", "-20.0 %"]


def test_a_finding_whose_claim_is_gone_is_named(tmp_path, monkeypatch):
    written = tmp_path / "readme.yaml"
    written.write_text("findings: {no-such-claim: nothing}")
    monkeypatch.setattr(readme, "WRITTEN", written)
    with pytest.raises(InputError, match="no claim 'no-such-claim'"):
        readme.written("findings")


def test_a_known_answer_has_its_mark(reference):
    lines = readme.readme(reference)["findings"].splitlines()
    for name in readme.written("findings"):
        claim = stated()[name]
        [line] = [line for line in lines if claim.sentence in line]
        answering = [data for data, of in readme.answers(reference).items() if name in of]
        is_known = any(wording.is_known(claim, data) for data in answering)
        assert ("†" in line) == is_known


def test_each_primary_claim_has_a_row_and_its_cells_say_what_the_tables_say(reference):
    rows = rows_of(readme.results(reference)["primary"])
    primary = [claim for claim in stated().values() if not claim.secondary]
    assert set(rows) == {claim.sentence for claim in primary}
    for claim in primary:
        for profile, cell in zip(("small", "worlds"), rows[claim.sentence][2:4], strict=True):
            path = reference / profile / claim.notebook / "tables" / "claims.csv"
            table = pd.read_csv(path).set_index("claim") if path.is_file() else pd.DataFrame()
            if claim.name not in table.index:
                assert cell == "–"
                continue
            row = table.loc[claim.name]
            scale, places = (100, 1) if claim.unit else (1, 2)
            low, high = (f"{scale * row[name]:+.{places}f}" for name in ("low", "high"))
            estimate = f"{scale * row['estimate']:+.{places}f}"
            shown = estimate if float(estimate) else estimate[1:]  # 0 has no sign
            assert cell.startswith(shown) and f"[{low}, {high}]" in cell
            assert row["verdict"] in cell and ("gate" in cell) == str(row["reason"]).startswith(
                "gate"
            )
            assert ("no difference" in cell) == str(row["size"]).startswith("no difference")


def test_the_page_says_which_claims_have_a_gate(reference):
    told = readme.results(reference)["gates"]
    primary = [claim for claim in stated().values() if not claim.secondary]
    assert told.startswith(
        f"{sum(claim.is_gated for claim in primary)} of the {len(primary)} primary claims"
    )
    for claim in primary:
        assert (claim.sentence in told) == (
            claim.gate in ("none: one system", "none: as published")
        )


def test_every_claim_stands_on_the_page(reference):
    page = readme.results(reference)["claims"]
    for path in reference.glob("*/*/tables/claims.csv"):
        for row in pd.read_csv(path).to_dict("records"):
            assert f"| {stated()[row['claim']].sentence} |" in page
            assert (
                pd.isna(row["n_queries"]) or f"{int(row['n_queries']):,}" in page
            )  # a table of models has none


def test_shared_judgements_are_told_in_both_readings(reference):
    path = reference / "small" / "01_overlap_annotation_analysis" / "tables" / "label_overlap.csv"
    frame = pd.read_csv(path)
    for years, told in (
        (["dl19"], "a different count is nearer in each"),
        (["dl19", "dl20"], "the caption's count is nearer"),
    ):
        frame.loc[frame["test_set"].isin(years) & (frame["min_shared"] == 2), "percent"] = 11.0
        frame.to_csv(path, index=False)
        said = " ".join(readme.results(reference)["readings"].split())
        assert "We find 11 and " in said and told in said


def test_what_is_counted_above_the_claims_is_in_the_tables(reference):
    said = " ".join(readme.results(reference)["counts"].split())
    tables = [pd.read_csv(path) for path in reference.glob("worlds/*/tables/claims.csv")]
    found = pd.concat(tables).set_index("claim")
    claims = {name: stated()[name] for name in found.index}
    is_asked = [not c.secondary and "worlds" not in c.not_testable for c in claims.values()]
    n_evaluated = sum(not claim.secondary for claim in claims.values())
    found = found[is_asked]
    decided = found["verdict"].isin(["holds", "contradicted"]).sum()
    assert f"{decided} of {n_evaluated} on fourteen generated worlds" in said
    over = [pd.read_csv(path) for path in reference.glob("real/*/tables/over_collections.csv")]
    parts = pd.concat(over)
    parts = parts[parts["claim"].str.startswith("real-")]
    is_incomplete = parts["verdict"].eq("incomplete").groupby(parts["claim"].str.split(":").str[0])
    measured = (~is_incomplete.any()).sum() - 1  # fixed BM25 under ReSTrain cannot change
    assert f"20 more about four real collections (measured so far: {measured}, " in said


def test_losses_by_mismatch_are_those_of_the_committed_table(reference):
    found = pd.read_csv(reference / "development" / "03_resttest" / "tables" / "mismatch.csv")
    told = readme.results(reference)["mismatch"]
    for row in found.itertuples():
        change, low, high = (f"{100 * value:+.1f}" for value in (row.delta, row.low, row.high))
        [line] = [line for line in told.splitlines() if re.match(rf"\| {row.mismatch}\b", line)]
        assert f"{change} % [{low}, {high}]" in line
    assert "44, as in the reported worlds" in told and (found["n"] == 4).all()


def test_worlds_and_level_that_the_page_names_are_those_of_the_code(root):
    text = " ".join(text_of(root, "RESULTS.md").split())
    seeds = SEEDS["worlds"]
    assert f"The worlds of the tables, {min(seeds)} to {max(seeds)}," in text and len(seeds) == 14
    assert f"one-sided tests at {100 * judgement.LEVEL:.0f} %" in text
    assert (
        f"Fewer than {judgement.LEAST['queries']} queries, or {judgement.LEAST['worlds']} models"
        in text
    )


def test_the_python_of_contributing_runs(root):
    text = text_of(root, "CONTRIBUTING.md").partition("```python\n")[2].partition("```")[0]
    random, parts = np.random.default_rng(1), []
    for model, left_out in itertools.product(("BM25", "DR (base)"), (1, 2)):
        ids = [f"q{at}" for at in range(20)]
        values = {
            "query_id": ids,
            "stratum": [1, 2] * 10,
            "measure": "RR@10",
            "value": random.random(20),
        }
        parts.append(pd.DataFrame({"model": model, "left_out": left_out, "seed": 1} | values))
    nb = SimpleNamespace(
        measure=lambda design, measures, strata: pd.concat(parts, ignore_index=True), store=None
    )
    plan = SimpleNamespace(design=None, split=SimpleNamespace(strata=lambda store: None))
    names = {"ix": interextra, "nb": nb, "plan": plan}
    exec(compile(text, "CONTRIBUTING.md", "exec"), names)
    assert names["beside"].groupby("model")["verdict"].size().to_dict() == {
        "BM25": 2,
        "DR (base)": 2,
    }


def test_a_trainer_of_your_own_runs_as_printed(root, spec, store):
    """The script of the page, which is that of notebook 12, trains on a split, and `regimes` reads
    what it wrote.
    """
    text = text_of(root, "book/own_retriever.md").partition(
        "### A script for sentence-transformers"
    )[2]
    script = text.partition("```python\n")[2].partition("```")[0]
    cells = json.loads(
        (root / "notebooks" / "12_your_own_retriever.ipynb").read_text(encoding="utf-8")
    )["cells"]
    sources = ["".join(cell["source"]) for cell in cells]
    parts = [
        source
        for source in sources
        if source.startswith(("from datasets import", "def trained(", "def search("))
    ]
    assert len(parts) == 3 and all(part in script for part in parts)
    assert len([line for line in script.splitlines() if line.strip()]) <= 60
    asked = ["--collection", spec, "--size", "12", "--format", "ids", "st", "--out", "folds"]
    assert main(["split", "restrain", *asked]) == 0
    Path("own.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "own.py", str(verified_base()), "2"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert "interpolation-12, seed 1: 2 steps, 5.3 epochs" in said
    assert [line[:6] for line in said if "min left" in line] == [f"{n} of 4" for n in range(1, 5)]
    assert "2/2 [" in done.stderr  # the bar of a training
    asked = ["regimes", "--split", "folds", "--runs", "runs/{part}.{seed}.run", "--n-boot", "400"]
    assert main([*asked, "--given", "runs/given.run"]) == 0
    systems = pd.read_csv("regimes/systems.csv")["system"].tolist()
    assert systems[1] == "model as given"
    given = pd.read_csv("runs/given.run", sep=" ", header=None)[0].unique()
    files = [Path(f"folds/{name}.tsv").read_text() for name in ("test", "training")]
    assert set(given) == {line.partition("\t")[0] for text in files for line in text.splitlines()}
    table = pd.read_csv("regimes/regimes.csv")
    assert table["n_trainings"].tolist() == [2, 2, 2] and table["interpolation"].between(0, 1).all()


def test_a_notebook_alone_runs_by_papermill_with_a_profile_s_file(house, root):
    """As README prints it, with the shortest profile and notebook; the folder of a user who has no
    `interextra run`.
    """
    command = [
        "papermill",
        "notebooks/00_start_here.ipynb",
        "out.ipynb",
        "-f",
        "params/smoke/00_start_here.yaml",
    ]
    # one worker computes, since each imports torch
    Path("one").mkdir()
    Path("one/sitecustomize.py").write_text("import os\nos.cpu_count = lambda: 1\n")
    places = [str(house / "one"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    done = subprocess.run(
        [f"{sys.prefix}/bin/{command[0]}", *command[1:]],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(
        Path("outputs/lab/00_start_here/provenance.json").read_text(encoding="utf-8")
    )
    given = yaml.safe_load(text_of(root, "params/smoke/00_start_here.yaml"))
    assert record["method"]["parameters"].items() >= given.items() and given["profile"] == "smoke"


def test_installing_runs_nothing_and_prints_commands_that_exist(root, tmp_path):
    """With an environment that is there; what is printed is parsed as a user would type it."""
    shutil.copy(root / "Makefile", tmp_path)
    (tmp_path / ".venv").mkdir()
    for name in ("requirements-torch.lock", "requirements.lock", "pyproject.toml", ".venv/ready"):
        (tmp_path / name).touch()
    done = subprocess.run(["make", "install"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr
    commands = [
        re.split(r"\s{2,}", line.strip())[0]
        for line in done.stdout.splitlines()
        if line.startswith("  ")
    ]
    words = [shlex.split(command) for command in commands]
    assert {first for first, *_ in words} == {".venv/bin/interextra", "make"}
    for program, *arguments in words:
        if program == "make":
            assert (
                subprocess.run(["make", "-n", *arguments], cwd=root, capture_output=True).returncode
                == 0
            )
        else:
            parser().parse_args(arguments)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == [".venv"]


def test_every_make_target_is_documented_and_every_named_one_exists(root):
    makefile = text_of(root, "Makefile")
    targets = set(re.findall(r"(?m)^([a-z-]+):", makefile))
    named = {
        name
        for page in PAGES
        for name in re.findall(r"(?m)(?:`|^)make ([a-z-]+)", text_of(root, page))
    }
    assert named == targets


def test_every_notebook_has_its_line_with_its_question(root):
    text = text_of(root, "README.md")
    for path in (root / "notebooks").glob("*.ipynb"):
        question = json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"][0].strip(
            "# \n"
        )
        assert f"| [{path.stem[:2]}](notebooks/{path.name}) | {question} |" in text


@pytest.mark.parametrize("page", PAGES)
def test_links_of_the_pages_go_to_files_and_headings_that_are_there(root, page):
    text = re.sub(r"(?ms)^```.*?^```$", "", text_of(root, page))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, heading = target.partition("#")
        path = (root / page).parent / name if name else root / page
        assert path.exists(), target
        headings = [
            re.sub(r"[^\w -]", "", line).strip().lower()
            for line in re.findall(r"(?m)^#+ (.*)", text_of(root, path))
        ]
        assert not heading or heading in [line.replace(" ", "-") for line in headings], target


@pytest.mark.parametrize("page", PAGES)
def test_paths_that_the_pages_name_are_there(root, page):
    text = re.sub(r"(?ms)^```.*?^```$", "", text_of(root, page))
    tops = "notebooks|lib|params|book|tests|tools|bench|requirements"
    for path in re.findall(rf"`((?:{tops})/[\w./-]+)`", text):
        assert (root / path).exists(), path


def test_the_citation_names_the_kit_as_citation_cff_does(root):
    cite = text_of(root, "README.md").partition("```bibtex")[2]
    known = yaml.safe_load(text_of(root, "CITATION.cff"))
    assert known["title"] in cite and f"version {known['version']}" in cite
    assert "CITATION.cff" in text_of(root, "README.md")
    assert [paper["year"] for paper in known["references"]] == [2022, 2023, 2021]
    assert all(paper["title"] and paper["authors"] for paper in known["references"])
