"""Every printed cell has its row; our number beside it is the one in the table it is from."""

import pandas as pd
import pytest
import yaml

from interextra.papers import published, replication
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
    assert set(effects["status"]) <= set(VERDICTS) and set(VERDICTS) <= set(effects["status"])
    assert set(levels["status"]) == {"level, other collection", "level, same queries"}
    known = effects[effects["published"] != 0]
    assert (known["ratio"] - known["ours"] / known["published"]).abs().max() < 1e-12
    assert levels["ratio"].isna().all() and effects["notebook"].ne("").all()
    inside = effects.dropna(subset=["low"])
    assert ((inside["low"] <= inside["ours"]) & (inside["ours"] <= inside["high"])).all()


def test_a_number_is_that_of_the_notebook_s_table(table, folders):
    row = one(table, paper="zhan", table="7", row="DR (base)", column="MRR@10 | Δ", profile="small")
    ours = pd.read_csv(folders["small"] / "03_resttest" / "tables" / "beside_published.csv")
    ours = ours.query("model == 'DR (base)' and average == 'micro' and measure == 'RR@10'").iloc[0]
    assert (row["ours"], row["low"], row["high"]) == (ours["delta"], ours["low"], ours["high"])
    assert (row["status"], row["published"]) == (ours["verdict"], -0.12)
    assert row["notebook"] == "03_resttest"


@pytest.mark.parametrize("notebook", ["02_restrain", "03_resttest", "05_architecture_comparison"])
@pytest.mark.parametrize("profile", ["mini", "small"])
def test_verdicts_are_those_of_the_notebook(table, folders, notebook, profile):
    ours = pd.read_csv(folders[profile] / notebook / "tables" / "beside_published.csv")
    here = table[(table["kind"] == EFFECT) & (table["notebook"] == notebook)]
    here = here[here["profile"] == profile]
    pairs = {(row["delta"], row["low"]): row["verdict"] for row in ours.to_dict("records")}
    compared = 0
    for row in here.to_dict("records"):
        verdict = pairs[row["ours"], row["low"]]
        if verdict == verdict:  # else the notebook has another measure than the printed one
            assert row["status"] in (verdict, UNTESTABLE)
            compared += 1
    assert compared >= 2


def test_what_a_design_cannot_answer_has_the_reason_and_no_verdict(table):
    """As the claims have it; each entry is of some cell."""
    row = one(table, row="RQ-DL-1 | TUW_TAS-B_768 | TUW_DR_Base", profile="small")
    assert (row["status"], row["kind"]) == (UNTESTABLE, EFFECT) and "pair teacher" in row["why"]
    assert one(table, table="7", row="DR (base)", profile="small")["status"].ne(UNTESTABLE).all()
    used = set(table.loc[table["status"] == UNTESTABLE, "why"])
    assert used == {each.why for each in replication.mapped().untestable}


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
    table = replication.replication({"real": tmp_path})
    effects = table[table["kind"] == EFFECT]
    assert effects["collection"].tolist() == ["a", "b"]
    assert (effects["status"] == "agrees").all() and (effects["published"] == -0.12).all()


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
    assert paths == found
    used = set(table["why"])
    idle = [each.why for each in replication.mapped().reasons if each.why not in used]
    assert len(idle) <= 3, idle  # of cells that have a counterpart today


def paths_of(folder):
    return replication.tables_read({"": folder})
