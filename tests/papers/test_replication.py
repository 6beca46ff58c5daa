"""Every printed cell has its row; our number beside it is the one in the table it is from."""

import numpy as np
import pandas as pd
import pytest
import yaml

from interextra.claims.claim import of_collections, stated
from interextra.papers import gates, published, replication
from interextra.papers.replication import CELL, COLUMNS, EFFECT, LEVEL, NONE, UNTESTABLE, VERDICTS
from interextra.site.travel import REFERENCE
from interextra.store.errors import InputError

PROFILES = ("mini", "small", "worlds", "real")
STATUSES = ("no number", "no result", "not at this scale", "not computed")


@pytest.fixture(scope="module")
def folders(root):
    return {profile: root / REFERENCE / profile for profile in PROFILES}


@pytest.fixture(scope="module")
def table(folders):
    return replication.replication(folders)


def n_printed() -> int:
    """Count the cells in the files of the papers, not with the loader."""
    count = 0
    for path in published.FOLDER.glob("*.yaml"):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["tables"].values():
            count += len(entry["rows"]) * len(entry["columns"])
    return count


def one(frame, **labels):
    for name, value in labels.items():
        frame = frame[frame[name] == value]
    return frame.iloc[0] if len(frame) == 1 else frame


def test_every_printed_cell_of_the_files_has_a_row(table):
    printed = table[~table["derived"]]
    assert len(printed.drop_duplicates(CELL)) == n_printed() > 700
    assert list(table) == COLUMNS
    assert not table.duplicated([*CELL, "profile", "collection"]).any()


def test_a_cell_stands_beside_a_number_or_says_why_not(table):
    is_alone = table["kind"] == NONE
    assert (is_alone == table["ours"].isna()).all() and (is_alone == (table["profile"] == "")).all()
    assert is_alone.any() and set(table.loc[is_alone, "status"]) == set(STATUSES)
    has_reason = is_alone | (table["status"] == UNTESTABLE)
    assert (has_reason == (table["why"] != "")).all()
    assert not (table["why"] == replication.UNKNOWN.why).any()
    beside = table[~is_alone]
    names = ["paper", "table", "row", "column"]
    assert not beside[names].merge(table[is_alone][names]).shape[0]


def test_effects_have_verdicts_and_ratios_and_levels_have_none(table):
    effects, levels = table[table["kind"] == EFFECT], table[table["kind"] == LEVEL]
    assert set(effects["status"]) <= set(VERDICTS)
    assert set(VERDICTS) <= {*effects["status"], "differs"}  # from no change none differs today
    assert set(levels["status"]) == {"level, other collection", "level, same queries"}
    is_null = effects["unit"].isin(replication.CHANGES) & effects["printed"].abs().le(0.01)
    known = effects[~is_null]
    assert is_null.sum() > 10 and effects.loc[is_null, "ratio"].isna().all()
    assert (known["ratio"] - known["ours"] / known["published"]).abs().max() < 1e-12
    assert levels["ratio"].isna().all() and effects["notebook"].ne("").all()
    inside = effects.dropna(subset=["low"])
    assert ((inside["low"] <= inside["ours"]) & (inside["ours"] <= inside["high"])).all()


def test_a_number_is_that_of_the_notebook_s_table(table, folders):
    row = one(table, paper="zhan", table="7", row="DR (base)", column="MRR@10 | Δ", profile="small")
    ours = pd.read_csv(folders["small"] / "03_resttest" / "tables" / "beside_published.csv")
    ours = ours.query("model == 'DR (base)' and average == 'micro' and measure == 'RR@10'").iloc[0]
    assert (row["ours"], row["low"], row["high"]) == (ours["delta"], ours["low"], ours["high"])
    assert (row["status"], row["printed"]) == (ours["verdict"], -0.12)
    assert row["over"] == ours["over"] == "queries and training runs"
    assert row["notebook"] == "03_resttest"


@pytest.mark.parametrize("notebook", ["02_restrain", "03_resttest", "05_architecture_comparison"])
@pytest.mark.parametrize("profile", ["mini", "small"])
def test_verdicts_are_those_of_the_notebook_but_for_nulls_and_gates(
    table, folders, notebook, profile
):
    ours = pd.read_csv(folders[profile] / notebook / "tables" / "beside_published.csv")
    here = table[(table["kind"] == EFFECT) & (table["notebook"] == notebook)]
    here = here[here["profile"] == profile]
    pairs = {(row["delta"], row["low"]): row["verdict"] for row in ours.to_dict("records")}
    compared = 0
    for row in here.to_dict("records"):
        verdict = pairs[row["ours"], row["low"]]
        is_null = abs(row["printed"]) <= 0.01
        if verdict == verdict and not is_null:  # NaN: of another measure than the printed one
            assert row["status"] in (verdict, UNTESTABLE)
            compared += 1
    assert compared >= 1


def test_a_change_is_that_of_the_printed_means_as_in_the_claims(table):
    """Table 7 prints BM25's 0.189, 0.188 and -1 %; claims.yaml has 0.188 / 0.189 - 1."""
    cells = table[(table["paper"] == "zhan") & (table["table"] == "7")].set_index(["row", "column"])
    bm25 = cells.loc[("BM25", "MRR@10 | Δ")].iloc[0]
    assert bm25["printed"] == -0.01 and bm25["published"] == pytest.approx(0.188 / 0.189 - 1)
    assert 0.005 < bm25["rounding"] < 0.0054  # 0.1875 / 0.1895 and 0.1885 / 0.1885
    for model, name in {"BM25": "resttest-bm25", "DR (base)": "resttest-dense"}.items():
        published_value = cells.loc[(model, "MRR@10 | Δ"), "published"].iloc[0]
        assert published_value == pytest.approx(stated()[name].published, abs=6e-4)


def test_a_loss_that_is_printed_more_exactly_than_its_means_is_taken_as_printed(table):
    lupart = table[(table["unit"] == "percent loss") & table["printed"].notna()]
    assert len(lupart) and (lupart["published"] == lupart["printed"]).all()


def test_no_change_is_judged_by_the_margin_of_the_claims_of_equality(table):
    assert stated()["resttest-bm25"].margin == replication.MARGIN
    ends = {
        "agrees": [(-0.008, 0.003), (-0.05, 0.05), (0.001, 0.02)],
        "undecided": [(-0.084, -0.011), (-0.2, 0.1), (0.0, 0.06), (np.nan, np.nan)],
        "differs": [(-0.2, -0.06), (0.051, 0.07)],
    }
    for verdict, intervals in ends.items():
        low, high = zip(*intervals, strict=True)
        assert set(replication.beside_null(pd.Series(low), pd.Series(high))) == {verdict}
    bm25 = table[(table["table"] == "7") & (table["row"] == "BM25") & (table["kind"] == EFFECT)]
    assert (bm25.loc[bm25["profile"] == "real", "status"] == "agrees").all()
    lost = one(bm25, profile="small", column="MRR@10 | Δ")
    assert lost["high"] < 0 and lost["low"] < -0.05 and lost["status"] == "undecided"


def test_a_system_behind_bm25_in_domain_gets_no_verdict(table, folders):
    dense = table[(table["table"] == "7") & (table["row"] == "DR (base)")]
    dense = dense[(dense["profile"] == "real") & (dense["kind"] == EFFECT)]
    of_claim = pd.read_csv(folders["real"] / "03_resttest" / "tables" / "collections.csv")
    ahead = set(of_claim.loc[of_claim["lead_low"] > 0, "collection"])
    assert ahead and ahead < set(dense["collection"])
    for row in dense.to_dict("records"):
        is_tested = row["status"] != UNTESTABLE
        assert is_tested == (row["collection"] in ahead)
        assert row["why"] == ("" if is_tested else gates.BEHIND)


def test_what_dense_retrieval_cannot_answer_in_a_design_no_system_can(table):
    """ReSTrain on MedQuAD, claim restrain-dense."""
    assert "MedQuAD" in stated()["restrain-dense"].not_testable
    restrain = table[(table["table"] == "6") & (table["profile"] == "small")]
    restrain = restrain[restrain["kind"] == EFFECT]
    assert restrain["row"].str.contains("ColBERT").any()
    assert (restrain["status"] == UNTESTABLE).all()


def test_an_effect_of_a_claim_on_collections_has_the_interval_of_the_claim(table, folders):
    of_claim = pd.read_csv(folders["real"] / "03_resttest" / "tables" / "collections.csv")
    rows = table[(table["row"] == "DR (base)") & (table["profile"] == "real")]
    for claim in of_claim.to_dict("records"):
        rows_of = rows[(rows["collection"] == claim["collection"]) & (rows["kind"] == EFFECT)]
        row = one(rows_of, column="MRR@10 | Δ")
        same = [claim["estimate"], claim["low"], claim["high"]]
        assert [row["ours"], row["low"], row["high"]] == pytest.approx(same)
        assert (row["over"] == gates.BORROWED) == claim["borrowed"]
        other = one(rows_of, column="R@100 | Δ")
        assert claim["borrowed"] == (other["over"] == "queries; one training run")
    for each in replication.mapped().on_collections:
        asked = of_collections()[each.claim]
        assert (asked.notebook, asked.measure) == (each.notebook, each.measure)
        assert asked.rows["plus"]["model"] == each.model and "minus" not in asked.rows


def test_a_left_out_kind_is_not_beside_a_search_without_training_on_the_collection(table):
    """Hofstätter et al., Table 4: podcasts, after training on MS MARCO."""
    podcasts = table[table["row"].str.startswith(("RQ-P-1", "RQ-P-2"))]
    podcasts = podcasts[podcasts["kind"] == EFFECT]
    assert len(podcasts) > 5 and (podcasts["status"] == UNTESTABLE).all()
    assert podcasts["why"].str.contains("podcasts").all()


def test_what_a_design_cannot_answer_has_the_reason_and_no_verdict(table):
    """As the claims have it; each entry is of some cell."""
    row = one(table, row="RQ-DL-1 | TUW_TAS-B_768 | TUW_DR_Base", profile="small")
    assert (row["status"], row["kind"]) == (UNTESTABLE, EFFECT) and "pair teacher" in row["why"]
    assert one(table, table="7", row="DR (base)", profile="small")["status"].ne(UNTESTABLE).all()
    used = set(table.loc[table["status"] == UNTESTABLE, "why"])
    declared = {each.why for each in replication.mapped().untestable}
    assert used == {*declared, gates.BEHIND, gates.UNMEASURED}


def test_a_printed_loss_is_turned_and_a_percent_of_ours_is_a_fraction(table):
    loss = one(table, table="3", row="bi-encoder | Rel Loss", column="how", profile="worlds")
    assert loss["published"] == -0.248 and loss["ours"] < 0
    share = one(
        table, table="3", row="= 3 Perfectly relevant", column="TREC 19 DL", profile="small"
    )
    assert share["published"] == 0.26 and share["ours"] == pytest.approx(24 / 43)
    change = one(table, row="RQ-P-4, 2021 minus 2020 | TUW_tasb192_ann | BM25", profile="small")
    assert change["published"] == 0.15 and 0 < change["low"] < change["ours"] < change["high"]


def test_a_mean_over_topics_is_marked_as_derived(table):
    means = table[table["derived"]]
    assert set(means["column"]) == {"mean of C0, C1, C2, C3, C4"}
    row = one(means, row="bi-encoder | Rel Loss", profile="small")
    assert row["published"] == pytest.approx(-0.1108)


def write(folder, notebook, name, table):
    path = folder / notebook / "tables" / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False)


OURS = pd.DataFrame(
    {
        "model": "DR (base)",
        "average": "micro",
        "measure": "RR@10",
        "interpolation": 0.6,
        "extrapolation": 0.5,
        "delta": -1 / 6,
        "low": -0.2,
        "high": -0.1,
    },
    index=[0],
)


def test_a_profile_over_collections_has_a_row_a_collection(tmp_path):
    both = [OURS.assign(collection=name) for name in ("a", "b")]
    write(tmp_path, "03_resttest", "beside_published", pd.concat(both))
    leads = pd.DataFrame({"collection": ["a", "b"], "measure": "RR@10", "model": "DR (base)"})
    write(tmp_path, "03_resttest", "leads", leads.assign(lead=0.2, lead_low=0.1))
    table = replication.replication({"real": tmp_path})
    effects = table[table["kind"] == EFFECT]
    assert effects["collection"].tolist() == ["a", "b"]
    assert (effects["status"] == "agrees").all() and (effects["printed"] == -0.12).all()
    assert effects["over"].tolist() == ["queries"] * 2


def test_the_gate_of_a_row_is_the_lead_of_its_system_in_its_measure_or_in_ranking(tmp_path):
    write(tmp_path, "03_resttest", "beside_published", OURS)
    assert status_of(tmp_path) == (UNTESTABLE, gates.UNMEASURED)
    gate = pd.DataFrame({"claim": "c", "system": ["RR@10, DR (base)"], "lead": 0.2})
    write(tmp_path, "03_resttest", "gate", gate.assign(lead_low=-0.01))
    assert status_of(tmp_path) == (UNTESTABLE, gates.BEHIND)
    write(tmp_path, "03_resttest", "gate", gate.assign(lead_low=0.1))
    assert status_of(tmp_path) == ("agrees", "")
    write(tmp_path, "03_resttest", "beside_published", OURS.assign(measure="R@100"))
    assert status_of(tmp_path) == ("same direction", "")  # no lead in R@100 is known
    worlds = [gate.assign(world=world, lead=lead) for world, lead in ((1, 0.3), (2, -0.1))]
    write(tmp_path, "03_resttest", "gate", pd.concat(worlds))
    assert status_of(tmp_path) == (UNTESTABLE, gates.BEHIND)
    write(tmp_path, "03_resttest", "beside_published", OURS.assign(model="BM25"))
    assert status_of(tmp_path)[1] == ""


def test_a_lead_in_the_measure_of_the_effect_comes_before_one_in_ranking():
    leads = pd.DataFrame({"model": "a", "measure": ["RR@10", "R@100"], "lead_low": [0.1, -0.1]})
    row = {"model": "a", "measure": "R@100"}
    assert gates.why_closed(row, ["model"], [leads]) == gates.BEHIND
    assert gates.why_closed(row, ["model"], [leads[:1]]) == ""


def status_of(folder):
    table = replication.replication({"mini": folder})
    [row] = table[table["kind"] == EFFECT].to_dict("records")
    return row["status"], row["why"]


def test_two_rows_for_one_cell_are_refused(tmp_path):
    write(tmp_path, "03_resttest", "beside_published", pd.concat([OURS, OURS]))
    with pytest.raises(InputError, match="several rows stand beside 'DR \\(base\\)', 'RR@10'"):
        replication.replication({"mini": tmp_path})


def test_without_results_each_cell_has_one_row(tmp_path):
    table = replication.replication({"mini": tmp_path})
    assert len(table) == len(table.drop_duplicates(CELL)) and table["ours"].isna().all()
    assert replication.UNKNOWN.why in set(table["why"])


def test_every_entry_of_the_mapping_finds_something_but_for_what_no_profile_has_yet(folders, table):
    paths = {each.path for each in replication.mapped().counterparts}
    found = {path.relative_to(folder) for folder in folders.values() for path in paths_of(folder)}
    assert paths == {path for path in found if path.name not in gates.FILES}
    used = set(table["why"])
    idle = [each.why for each in replication.mapped().reasons if each.why not in used]
    assert len(idle) <= 3, idle  # of cells that have a counterpart today


def paths_of(folder):
    return replication.tables_read({"": folder})
