"""Published tables: complete, arithmetically consistent, compared two-sidedly."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import yaml

from interextra.ground.errors import InputError
from interextra.study import published, published_yaml
from interextra.papers.published import beside, compare, load, lookup, tables, wide

# (cells, cells without a value, sum of all printed numbers), counted on the papers' text and not with the loader.
EXPECTED = {
    ("zhan", "1"): (9, 0, 300),
    ("zhan", "2"): (9, 0, 300),
    ("zhan", "3"): (6, 0, 318),
    ("zhan", "4"): (14, 0, 0),
    ("zhan", "5"): (70, 0, 22.405),
    ("zhan", "6"): (78, 0, -91.332),
    ("zhan", "7"): (30, 0, -47.01),
    ("zhan", "8"): (48, 0, -117.129),
    ("zhan", "9"): (56, 0, -100.824),
    ("zhan", "10"): (0, 0, 0),
    ("lupart", "1"): (18, 0, 0),
    ("lupart", "2"): (65, 0, 1467.4),
    ("lupart", "3"): (65, 0, 1568.7),
    ("lupart", "release-jaccard"): (5, 0, 1.757),
    ("hofstaetter", "1"): (30, 12, 1096),
    ("hofstaetter", "2"): (9, 0, 4.2717),
    ("hofstaetter", "3a"): (40, 21, 1328),
    ("hofstaetter", "3b"): (10, 0, -10),
    ("hofstaetter", "4"): (20, 0, 7.3522),
    ("hofstaetter", "5"): (36, 2, 6.0611),
    ("hofstaetter", "6"): (36, 0, 11.3635),
    ("hofstaetter", "7"): (55, 0, 1644.622),
}
UNREADABLE = {("with | TUW_tasb192_ann", "nDCG@30"), ("with | TUW_tasb192_ann", "nDCG@1K")}


def everything() -> pd.DataFrame:
    return pd.concat([load(paper) for paper in published.papers()], ignore_index=True)


def test_no_table_is_missing_or_unexpected():
    found = {(paper, t.table): t.n_cells for paper in published.papers() for t in tables(paper).itertuples()}
    assert found == {key: n for key, (n, _, _) in EXPECTED.items()}


@pytest.mark.parametrize(("paper", "table"), [key for key, expected in EXPECTED.items() if expected[0]])
def test_table_has_every_cell_and_its_printed_sum(paper, table):
    cells = load(paper, table)
    n, n_empty, total = EXPECTED[paper, table]
    assert len(cells) == n
    assert (cells["value"].isna() & cells["text"].isna()).sum() == n_empty
    numbers = cells.loc[cells["unit"] != "flag", "value"]
    assert numbers.sum() == pytest.approx(total, abs=1e-9)


def test_every_cell_has_source_unit_and_a_reason_where_it_is_empty():
    cells = everything()
    of_release = cells["table"].str.startswith("release-")
    printed = r".+ (CIKM 2022|ECIR 2023|TREC 2021), section [\d.]+, Table \d+"
    assert cells.loc[~of_release, "source"].str.fullmatch(printed).all()
    assert cells.loc[of_release, "source"].str.fullmatch(r".+, repository [\w-]+/[\w-]+, .+\.ipynb").all()
    assert cells["unit"].isin(published_yaml.UNITS).all()
    empty = cells[cells["value"].isna() & cells["text"].isna()]
    assert len(empty) == sum(n for _, n, _ in EXPECTED.values())
    assert (empty["note"] != "").all()


def test_unreadable_cells_are_empty_and_say_so():
    cells = load("hofstaetter", 5)
    assert set(cells.loc[cells["value"].isna(), ["row", "column"]].itertuples(index=False, name=None)) == UNREADABLE
    assert cells.loc[cells["value"].isna(), "note"].str.startswith("not readable").all()


def test_picture_without_numbers_is_said_to_be_one():
    with pytest.raises(InputError, match="zhan, table 10: no numbers. .*scatter plots"):
        load("zhan", 10)


def test_no_value_has_more_decimals_than_printed():
    cells = everything().dropna(subset=["value"])
    unit = 10.0 ** cells["decimals"].astype(float)
    assert np.allclose(cells["value"] * unit, (cells["value"] * unit).round(), atol=1e-9)


def test_scores_are_fractions_and_percentages_are_scaled():
    cells = everything()
    scores = cells[cells["unit"].isin(["score", "percent", "score x100"]) & (cells["table"] != "3b")]["scaled"].dropna()
    assert scores.between(0, 1).all()
    assert lookup("zhan", 6, "14k | SPLADE", "nDCG@10 | Δ")["scaled"] == pytest.approx(-0.18)
    assert lookup("lupart", 2, "ColBERT | Out", "C1")["scaled"] == pytest.approx(0.387)


def test_shares_of_queries_add_up_and_are_whole_queries():
    shares = load("zhan")[lambda c: c["table"].isin(["1", "2", "3"])]
    sums = shares[shares["table"] != "3"].groupby(["table", "column"])["value"].sum()
    assert (sums == 100).all()
    counts = (shares["scaled"] * shares["n_queries"]).round()
    assert ((100 * counts / shares["n_queries"] - shares["value"]).abs() <= 0.5).all()
    whole = counts.groupby([shares["table"], shares["column"]]).sum()
    assert whole[["1", "2"]].tolist() == [100, 43, 54] * 2
    assert counts[shares["table"] == "3"].tolist() == [11, 17, 26, 25, 34, 41]


def test_all_66_zhan_deltas_follow_from_the_shown_means():
    cells = load("zhan")
    deltas = cells[cells["unit"] == "percent change"]
    assert len(deltas) == 66
    for delta in deltas.itertuples():
        stem = delta.column.removesuffix("Δ")
        inter, extra = (lookup("zhan", delta.table, delta.row, stem + name)["value"] for name in ("Inter.", "Extra."))
        low, high = ((extra + d) / (inter - d) for d in (-0.0005, 0.0005))
        assert 100 * (low - 1) - 0.5 <= delta.value <= 100 * (high - 1) + 0.5, (delta.table, delta.row, delta.column)


def test_all_40_lupart_losses_follow_from_the_shown_means():
    cells = load("lupart")
    losses = cells[cells["unit"] == "percent loss"]
    assert len(losses) == 40
    for loss in losses.itertuples():
        model = loss.row.removesuffix("Rel Loss")
        inside, out = (lookup("lupart", loss.table, model + name, loss.column)["value"] for name in ("Avg In", "Out"))
        low, high = (1 - (out + d) / (inside - d) for d in (0.05, -0.05))
        assert 100 * low - 0.05 <= loss.value <= 100 * high + 0.05, (loss.table, loss.row, loss.column)


def test_same_experiment_has_the_same_numbers_in_two_zhan_tables():
    deltas = ["Inter.", "Extra.", "Δ"]
    eight, nine = wide("zhan", 8), wide("zhan", 9)
    base = eight.loc["DR (base) | BERT | RandNeg"].tolist()
    assert base[:6] == wide("zhan", 6).loc["45k | DR (base)"].tolist()
    assert base[6:] == wide("zhan", 7).loc["DR (base)"].tolist()
    for plm, row in {
        "BERT": "DR (base) | BERT | RandNeg",
        "coCon-marco": "DR (advance) | coCon-marco | RandNeg",
    }.items():
        for collection in ("TREC DL", "Dev"):
            columns = [f"{collection} | R@100 | {name}" for name in deltas]
            assert nine.loc[plm, columns].tolist() == eight.loc[row, columns].tolist()


def test_podcast_scores_of_table_7_are_those_of_table_4_rounded():
    four, seven = wide("hofstaetter", 4), wide("hofstaetter", 7)
    for measure in ("nDCG@10", "nDCG@30"):
        difference = seven[f"2021 | {measure}"] - four[measure].reindex(seven.index)
        assert (difference.abs() <= 0.0005 + 1e-9).all()


def test_podcast_precision_is_a_whole_number_of_passages():
    for table, n_queries in ((4, 50), (5, 40), (6, 40)):
        hits = wide("hofstaetter", table)["P@10"] * 10 * n_queries
        assert np.allclose(hits, hits.round(), atol=1e-9)


def test_correlations_rise_towards_extrapolation_as_noted():
    five = wide("zhan", 5)
    gains = [(five[f"{s} | Extra."] > five[f"{s} | Inter."]).sum() for s in ("Spearman", "Kendall")]
    assert gains == [12, 11]
    assert five.drop(columns="Domain").astype(float).abs().le(1).all(axis=None)


def test_query_examples_keep_their_odd_characters():
    texts = load("lupart", 1)["text"].tolist()
    assert {"+when is mardi grai", "% of earths crust is dysprosium"} <= set(texts)
    assert lookup("lupart", 1, ("C4", "3"), "Query")["topic"] == "Biology/Physics"
    assert wide("zhan", 4).loc["3"].tolist() == ["meaning of shebang", "what is a shebang"]


def test_attributes_name_measure_regime_and_collection():
    cell = lookup("zhan", 8, ["DR (advance)", "BERT", "Distill"], ["TREC DL", "R@100", "Extra."])
    wanted = {"value": 0.554, "measure": "R(rel=2)@100", "regime": "extrapolation", "protocol": "ReSTrain"}
    assert {name: cell[name] for name in wanted} == wanted
    assert lookup("zhan", 8, cell["row"], "Dev | R@100 | Extra.")["measure"] == "R@100"
    assert lookup("lupart", 3, "SPLADE | Out", "how")["regime"] == "extrapolation"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load("zahn"), "no published tables of 'zahn': near names are 'zhan'"),
        (lambda: load("zhan", 11), "zhan has no table '11': near names are '1', '10'"),
        (
            lambda: lookup("zhan", 6, "14k | SPLADE v2", "R@100 | Δ"),
            "no row '14k | SPLADE v2': near names are '14k | SPLADE'",
        ),
        (
            lambda: lookup("zhan", 6, "14k | BM25", "NDCG@10 | Inter."),
            "no column .*: near names are 'nDCG@10 | Inter.'",
        ),
        (lambda: lookup("zhan", 7, "???", "R@100 | Δ"), "no row '...': there are 'BM25', 'Reranker', 'ColBERT'"),
    ],
)
def test_unknown_name_gives_one_error_with_near_names(call, message):
    with pytest.raises(InputError, match=message.replace("|", r"\|")):
        call()


def test_lookup_and_verdict_go_to_json_and_back():
    for record in (lookup("hofstaetter", 1, "TUW_TAS-B_ANN", "loss"), lookup("hofstaetter", 5, *sorted(UNREADABLE)[0])):
        assert record["value"] is None
        assert json.loads(json.dumps(record, allow_nan=False)) == record
    for verdict in (compare(0.5, 0.4, 0.05), compare(np.float32(0.5), None, 0.05), compare(math.nan, 0.4, 0.1)):
        assert json.loads(json.dumps(verdict, allow_nan=False)) == verdict


@pytest.mark.parametrize("kind", ["absolute", "relative"])
def test_higher_is_as_much_a_mismatch_as_lower(kind):
    above, below, equal = (compare(m, 0.5, 0.1, kind) for m in (0.75, 0.25, 0.5))
    assert (above["within"], above["verdict"]) == (False, "higher")
    assert (below["within"], below["verdict"]) == (False, "lower")
    assert above["difference"] == -below["difference"] == 0.25
    assert above["relative_difference"] == -below["relative_difference"] == 0.5
    assert (equal["within"], equal["verdict"]) == (True, "match")


def test_tolerance_is_inclusive_and_relative_to_the_published_number():
    assert compare(0.31, 0.30, 0.01)["within"] and compare(0.29, 0.30, 0.01)["within"]
    assert not compare(0.3101, 0.30, 0.01)["within"]
    assert compare(-0.22, -0.20, 0.1, "relative")["within"]
    assert not compare(-0.2201, -0.20, 0.1, "relative")["within"]
    assert compare(0.0, 0.0, 0.1, "relative")["within"] and not compare(0.01, 0.0, 0.1, "relative")["within"]


@pytest.mark.parametrize("arguments", [(1, 1, -0.1), (1, 1, math.nan), (1, 1, math.inf), (1, 1, 0.1, "one-sided")])
def test_senseless_comparison_is_an_error(arguments):
    with pytest.raises(InputError):
        compare(*arguments)


KEYS = ["model", "measure", "regime"]


def measured_like(cells: pd.DataFrame, shift: float = 0.0) -> pd.DataFrame:
    return cells[KEYS].assign(value=cells["scaled"] + shift, n_queries=6980)


def test_beside_matches_what_was_published_and_flags_both_directions():
    cells = load("zhan", 7)
    same = beside(measured_like(cells), cells, on=KEYS)
    assert len(same) == 30 and same["within"].all() and (same["verdict"] == "match").all()
    assert same["n_queries"].eq(6980).all() and same["source"].eq(cells["source"]).all()
    for shift, verdict in ((0.03, "higher"), (-0.03, "lower")):
        shifted = beside(measured_like(cells, shift), cells, on=KEYS, tolerance=0.02)
        assert (shifted["verdict"] == verdict).all() and not shifted["within"].any()
        assert np.allclose(shifted["difference"], shift)


def test_beside_gives_the_verdicts_of_compare():
    cells = load("zhan", 7)
    measured = measured_like(cells).assign(value=lambda f: f["value"] * np.linspace(0.8, 1.2, len(f)))
    for row in beside(measured, cells, on=KEYS, tolerance=0.1, kind="relative").itertuples():
        one = compare(row.measured, row.published, 0.1, "relative")
        assert (row.verdict, row.within) == (one["verdict"], one["within"])


def test_default_tolerance_is_the_printed_rounding():
    cells = load("zhan", 7).head(3)
    near = beside(measured_like(cells).assign(value=[0.18949, 0.18751, -0.0053]), cells, on=KEYS)
    far = beside(measured_like(cells).assign(value=[0.18951, 0.18749, -0.0049]), cells, on=KEYS)
    assert near["within"].tolist() == [True] * 3 and far["within"].tolist() == [False] * 3
    assert near["tolerance"].tolist() == pytest.approx([0.0005, 0.0005, 0.005])


def test_direction_is_judged_for_changes_only_and_not_where_zero_was_published():
    cells = load("zhan", 7)
    table = beside(
        measured_like(cells).assign(value=-0.5), cells, on=KEYS, tolerance={"score": 1, "percent change": 0.1}
    )
    directions = table.set_index(KEYS)["direction_agrees"]
    assert directions["SPLADE", "RR@10", "delta"] is True
    assert directions["BM25", "R@100", "delta"] is None
    assert directions[:, :, "interpolation"].isna().all()
    flipped = beside(measured_like(cells).assign(value=0.01), cells, on=KEYS, tolerance=1.0)
    assert flipped.set_index(KEYS)["direction_agrees"]["SPLADE", "RR@10", "delta"] is False
    assert flipped["within"].any()


def test_cell_that_only_one_side_has_is_shown_without_a_verdict():
    cells = load("zhan", 7)
    measured = pd.concat([measured_like(cells).iloc[1:], pd.DataFrame([{"model": "mine", "value": 0.3}])])
    table = beside(measured, cells, on=KEYS)
    assert table["verdict"].value_counts().to_dict() == {"match": 29, "not measured": 1, "not published": 1}
    assert table.iloc[0]["verdict"] == "not measured" and table.iloc[-1]["model"] == "mine"
    assert len(beside(measured, cells, on=KEYS, how="inner")) == 29


def test_unreadable_cell_is_not_published_and_keeps_its_note():
    cells = load("hofstaetter", 5)
    table = beside(cells[["row", "column"]].assign(value=0.2), cells, on=["row", "column"], tolerance=0.01)
    unknown = table[table["verdict"] == "not published"]
    assert set(zip(unknown["row"], unknown["column"], strict=True)) == UNREADABLE
    assert unknown["note"].str.startswith("not readable").all()


def test_beside_accepts_published_values_of_another_source():
    other = pd.DataFrame({"model": ["a", "b"], "value": [0.4, 0.5]})
    table = beside(
        pd.DataFrame({"model": ["b", "a"], "score": [0.5, 0.3]}), other, on=["model"], tolerance=0.05, value="score"
    )
    assert table["verdict"].tolist() == ["lower", "match"]


@pytest.mark.parametrize(
    ("on", "options", "message"),
    [
        (["model", "seed"], {}, "measured values have no column 'seed'"),
        (["model"], {}, "measured values name a cell twice: 'BM25', 'BM25', 'BM25', …"),
        (KEYS, {"tolerance": {"score": 0.1}}, "no tolerance for the unit 'percent change'"),
        (KEYS, {"kind": "relative"}, "give a tolerance"),
    ],
)
def test_ambiguous_comparison_is_an_error(on, options, message):
    cells = load("zhan", 7)
    with pytest.raises(InputError, match=message):
        beside(measured_like(cells), cells, on=on, **options)


def test_callers_cannot_change_the_stored_tables():
    for mine in (load("zhan", 7), load("zhan")):
        mine.loc[:, "value"] = 0.0
    tables("zhan")["notes"][0].append("mine")
    assert lookup("zhan", 7, "BM25", "R@100 | Inter.")["value"] == 0.671
    assert "mine" not in tables("zhan")["notes"][0]


def test_yaml_that_builds_objects_is_refused(tmp_path):
    path = tmp_path / "evil.yaml"
    path.write_text("tables: !!python/object/apply:os.getcwd []\n")
    with pytest.raises(yaml.constructor.ConstructorError):
        published_yaml.read(path)


TABLE = {
    "section": "1",
    "caption": "c",
    "keys": ["model"],
    "cells": {"unit": "score"},
    "columns": ["a"],
    "rows": [["m", 0.5]],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": [["m", 0.5, 0.6]]}, "bad.yaml, table 1: rows that do not have 2 entries: \\['m'\\]"),
        ({"captoin": "x"}, "unknown \\['captoin'\\]"),
        ({"cells": {"unit": "points"}}, "unit 'points' is not one of"),
        ({"rows": [["m", "0,5"]]}, "'0,5' is not a value in the unit 'score'"),
        ({"rows": [["m", True]]}, "True is not a value"),
        ({"rows": [["m", None]]}, "null without a note"),
        ({"rows": [["m", 0.5], ["m", 0.6]]}, "cells that stand there twice"),
        ({"where": [{"when": {"model": "n"}, "set": {"note": "x"}}]}, "rules that match no cell"),
    ],
)
def test_faulty_table_file_is_one_error_that_names_file_and_table(tmp_path, change, message):
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump({"paper": "bad", "reference": "r", "tables": {"1": TABLE | change}}))
    with pytest.raises(InputError, match=message) as error:
        published_yaml.long(published_yaml.read(path), path)
    assert str(error.value).startswith("bad.yaml")
