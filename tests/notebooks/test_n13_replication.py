"""Notebook 13: counts are those of the table, findings lead where they say, own results count."""

import itertools
import json
import re

import pandas as pd
import pytest

from interextra import figures
from interextra.notebooks import module_of
from interextra.notebooks import n13_replication as replication
from interextra.papers import findings, published
from interextra.papers.replication import CELL, EFFECT, LEVEL, NONE, UNTESTABLE, VERDICTS
from interextra.site.parameters import profile_parameters
from interextra.store.errors import InputError


@pytest.fixture(scope="module")
def folders(root):
    return replication.folders(root / "outputs", replication.Parameters())


@pytest.fixture(scope="module")
def table(folders):
    return replication.beside(folders)


def headings(root, notebook: str) -> set[str]:
    document = json.loads((root / "notebooks" / f"{notebook}.ipynb").read_text(encoding="utf-8"))
    texts = ["".join(c["source"]) for c in document["cells"] if c["cell_type"] == "markdown"]
    return set(re.findall(r"^##+ (.+)$", "\n".join(texts), re.M))


def test_counts_are_those_of_the_printed_cells(table):
    counts = replication.counts(table)
    assert counts["printed cells"].tolist()[-1] == len(published.every_cell())
    kinds = counts.columns[2:]
    assert (counts[kinds].sum(axis=1) == counts["printed cells"]).all()
    total = counts.iloc[-1]
    with_number = table[table["kind"] != NONE]
    printed = with_number[~with_number["derived"].astype(bool)].drop_duplicates(CELL)
    assert total["effects compared"] + total["levels compared"] == len(printed)


def test_verdicts_add_up_to_the_effects_of_a_profile_real_data_first(table):
    verdicts = replication.verdicts(table)
    assert (verdicts[list(VERDICTS)].sum(axis=1) == verdicts["effects"]).all()
    assert verdicts["effects"].sum() == (table["kind"] == EFFECT).sum()
    assert verdicts["profile"].iloc[0] == "small"
    said = replication.answer(replication.counts(table), verdicts)
    first = verdicts.iloc[0]
    n_tested = first["effects"] - first[UNTESTABLE]
    n_contrary = first["opposite"] + first["differs"]
    numbers = [*first[["effects", "agrees", "same direction", "undecided"]], n_tested, n_contrary]
    for number in (*numbers, len(published.every_cell())):
        assert re.search(rf"\b{number}\b", said), (number, said)
    assert len(said.split()) <= 45


def test_the_answer_says_first_what_real_data_decide():
    outcomes = [
        "undecided",
        "agrees in direction",
        replication.NONE,
        "agrees in direction",
        "differs",
    ]
    said = replication.answer_of_claims(pd.DataFrame({"real data": outcomes}))
    assert said == (
        "Real data decide 3 of the papers' 4 primary claims: "
        "2 agree in direction, 1 differs; 1 is undecided."
    )
    nothing = replication.answer_of_claims(pd.DataFrame({"real data": [replication.NONE]}))
    assert nothing == "Real data decide 0 of the papers' 0 primary claims."


def test_the_figure_has_the_comparable_effects_and_says_how_many_hold_the_printed_one(table):
    points = replication.points(table)
    effects = table[(table["kind"] == EFFECT) & table["unit"].isin(replication.DRAWN)]
    assert len(points) == len(effects) and set(points["verdict"]) <= set(VERDICTS)
    x, y = replication.X, replication.Y
    how = {"hue": "verdict", "marker": "paper", "panel": "data", "ends": ("low", "high")}
    figure = figures.scatter(points, x, y, label=y, percent=True, diagonal="equal", **how)
    inside = points["low"].le(points[x]) & points["high"].ge(points[x])
    n_known = points["low"].notna().sum()
    assert f"{inside.sum()} of {n_known} intervals" in figure.caption
    lines = [line for axis in figure.axes for line in axis.lines if line.get_linestyle() == ":"]
    assert len(lines) == points["data"].nunique()


def test_without_results_the_report_still_has_a_figure_and_an_answer(tmp_path):
    p = replication.Parameters()
    folders = replication.folders(tmp_path, p)
    table = replication.beside(folders)
    points = replication.points(table)
    assert set(points["data"]) == {replication.WITHOUT} and points[replication.Y].isna().all()
    verdicts = replication.verdicts(table)
    assert verdicts.empty and replication.claims(folders).empty
    assert "no results are here" in replication.answer(replication.counts(table), verdicts)
    assert replication.concluded(replication.claims(folders)).empty


def test_own_results_stand_in_for_the_committed_ones(tmp_path):
    p = replication.Parameters(own_results=["mini"])
    with pytest.raises(InputError, match="no folder outputs/mini; interextra run --profile mini"):
        replication.folders(tmp_path, p)
    (tmp_path / "mini").mkdir()
    found = replication.folders(tmp_path, p)
    assert found["mini"] == tmp_path / "mini"
    assert found["small"] == tmp_path / "reference" / "small"


def test_a_page_writes_numbers_as_printed(table):
    page = replication.page(table, "lupart", "3", "worlds").set_index(["row", "column"])
    row = page.loc["bi-encoder | Rel Loss", "how"]
    assert row["published"] == "-24.8 %" and row["ours"].startswith("-24.")
    page = replication.page(table, "zhan", "7", "small")
    assert page["published"].iloc[0] == "-0.5 %" and set(page["verdict"]) <= set(VERDICTS)
    assert "collection" not in page and page["over"].nunique() > 1
    page = replication.page(table, "zhan", "7", "real")
    assert page["collection"].nunique() == 4


def test_reasons_of_untestable_effects_count_each_of_them_once(table):
    reasons = replication.untestable(table)
    assert reasons["effects"].sum() == replication.verdicts(table)[UNTESTABLE].sum()
    assert reasons["data"].iloc[0] == replication.DATA_OF["small"]


def test_reasons_count_each_cell_without_a_number_once(table):
    reasons, counts = replication.reasons(table), replication.counts(table).iloc[-1]
    assert reasons["cells"].sum() == counts["not at this scale"] + counts["not computed"]
    assert reasons["paper"].iloc[0] == "Zhan et al."


def test_claims_are_those_of_the_papers_and_say_what_each_data_set_says(folders):
    claims = replication.claims(folders)
    assert len(claims) > 30 and set(claims["paper"]) == set(replication.PAPERS.values())
    dense = claims[claims["claim"].str.startswith("A dense retriever is less effective on a topic")]
    said = dense[["real data", "worlds"]].iloc[0].tolist()
    assert said == ["agrees in direction, seen before", "agrees in direction"]
    counted = replication.concluded(claims)
    assert counted["real data"].sum() == (claims["real data"] != "–").sum()


def test_every_finding_leads_to_a_section_that_is_there(root):
    table = replication.findings()
    names = {f"F{number}" for number in range(1, 23)}
    assert names <= set(table["finding"]) and not table["finding"].duplicated().any()
    for row in table.to_dict("records"):
        if row["notebook"]:
            assert row["section"] in headings(root, row["notebook"]), row["finding"]
        elif row["elsewhere"].endswith(".py"):
            assert list(root.glob(f"**/{row['elsewhere']}")), row["finding"]
    listed = replication.listed(table)
    assert listed.count("\n- ") + 1 == len(table)
    assert "[01](01_overlap_annotation_analysis.ipynb)" in listed


def test_only_the_finding_about_other_software_alone_is_shown_nowhere():
    table = replication.findings()
    assert table.loc[table["notebook"] == "", "finding"].tolist() == ["F11"]


def test_public_runs_are_read_with_the_judgements_of_their_test_set(tmp_path, monkeypatch):
    monkeypatch.setenv("INTEREXTRA_DATA", str(tmp_path))
    (tmp_path / "qrels.txt").write_text("q 0 d 2\n")
    (tmp_path / "run.txt").write_text("q Q0 d 1 0.5 bm25\n")
    runs = [{"test_set": "dl19", "system": "BM25", "file": "$INTEREXTRA_DATA/run.txt"}]
    qrels = [{"test_set": "dl19", "file": "$INTEREXTRA_DATA/qrels.txt"}]
    [public] = replication.public_runs(replication.Parameters(runs=runs, qrels=qrels))
    assert (public.test_set, public.system) == ("dl19", "BM25")
    assert public.run.frame()["doc_id"].tolist() == public.qrels["doc_id"].tolist() == ["d"]
    with pytest.raises(InputError, match="'qrels': no file for the test set 'dl19'"):
        replication.public_runs(replication.Parameters(runs=runs))


def test_public_runs_of_small_are_of_both_years_and_of_another_collection(root):
    notebook = root / "notebooks" / "13_replication_report.ipynb"
    p = profile_parameters(root, "small", notebook, {})
    assert p.real_msmarco
    systems = {(entry["test_set"], entry["system"]) for entry in p.runs}
    assert systems >= set(itertools.product(findings.DL, findings.PRINTED_SYSTEMS))
    assert {test_set for test_set, _ in systems} == {entry["test_set"] for entry in p.qrels}
    assert len(p.qrels) > len(findings.DL)


def test_what_is_not_said_names_a_parameter_of_the_notebook_or_a_table():
    for row in replication.unsaid().to_dict("records"):
        fields = module_of(row["notebook"]).Parameters.model_fields
        assert row["where"] in fields or row["where"].startswith("column "), row


def test_a_level_has_no_verdict_on_any_page(table):
    assert not set(table.loc[table["kind"] == LEVEL, "status"]) & set(VERDICTS)
