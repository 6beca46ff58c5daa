"""Published tables: complete and arithmetically consistent; one verdict beside each."""

import numpy as np
import pandas as pd
import pytest
import yaml

from interextra.papers import published
from interextra.papers.published import SIZES, load, zhan_deltas
from interextra.stats.effects import Effects
from interextra.store.errors import InputError

# (cells, cells without a value, sum of all printed numbers), counted on the papers' text and not
# with the loader.
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
    ("zhan", "text"): (17, 0, 9_309_268.13),
    ("lupart", "text"): (25, 0, 24_860_193),
    ("hofstaetter", "text"): (16, 0, 49),
    ("hofstaetter", "text-compression"): (4, 0, 963),
}
TABLE_FIELDS = (
    {"section", "caption", "keys", "columns", "rows"},
    {"cells", "where", "notes", "null_means"},
)


def documents() -> dict:
    return {path.stem: yaml.safe_load(path.read_text()) for path in published.FOLDER.glob("*.yaml")}


def grid(paper: str, table: int) -> pd.DataFrame:
    """A table as it is printed: rows by columns."""
    return load(paper, table).pivot(index="row", columns="column", values="value")


@pytest.fixture(scope="module")
def cells() -> pd.DataFrame:
    return pd.concat([load(*key).assign(paper=key[0]) for key in EXPECTED], ignore_index=True)


def test_no_table_is_missing_or_unexpected():
    found = {
        (paper, table) for paper, document in documents().items() for table in document["tables"]
    }
    assert found == {*EXPECTED, ("zhan", "10")}
    with pytest.raises(InputError, match="zhan, table 10: no numbers. .*scatter plots"):
        load("zhan", 10)


@pytest.mark.parametrize(("paper", "table"), EXPECTED)
def test_table_has_every_cell_once_and_its_printed_sum(paper, table):
    cells, (n, n_empty, total) = load(paper, table), EXPECTED[paper, table]
    assert len(cells) == n and not cells.duplicated(["row", "column"]).any()
    empty = cells["value"].isna() & cells["text"].isna()
    assert empty.sum() == n_empty and (cells.loc[empty, "note"] != "").all()
    assert cells.loc[cells["unit"] != "flag", "value"].sum() == pytest.approx(
        total, rel=1e-12, abs=1e-9
    )


def test_every_field_of_a_table_file_is_known_and_every_rule_is_used():
    required, optional = TABLE_FIELDS
    for paper, document in documents().items():
        for number, table in document["tables"].items():
            assert required <= table.keys() <= required | optional, (paper, number)
            for rule in table.get("where", []):
                found = load(paper, number)
                for name, wanted in rule["when"].items():
                    found = found[(found[name] == wanted)] if name in found else found[:0]
                changed = rule["set"].get("measure")  # a rule that changes what it asks for
                assert len(found) or changed in set(load(paper, number)["measure"]), (
                    paper,
                    number,
                    rule,
                )


def test_no_cell_is_impossible(cells):
    printed = r".+ (CIKM 2022|ECIR 2023|TREC 2021), section [\d.]+, Table \d+|.+, sections \d (to|and) \d, text|.+, repository [\w-]+/[\w-]+, .+\.ipynb"
    assert cells["source"].str.fullmatch(printed).all()
    assert (cells["source"].str.endswith("text") == cells["table"].str.startswith("text")).all()
    assert (cells["text"].notna() <= (cells["unit"] == "text")).all()
    assert (cells["value"].notna() <= (cells["unit"] != "text")).all()
    scores = cells["unit"].isin(["score", "percent", "score x100"]) & (cells["table"] != "3b")
    assert cells.loc[scores, "scaled"].dropna().between(0, 1).all()
    numbers = cells.dropna(subset="value")
    steps = numbers["scaled"] / (2 * numbers["rounding"])  # no more decimals than printed
    assert np.allclose(steps, steps.round(), atol=1e-6)


def test_shares_of_queries_add_up_and_are_whole_queries():
    shares = pd.concat([load("zhan", number) for number in (1, 2, 3)])
    sums = shares[shares["table"] != "3"].groupby(["table", "column"])["value"].sum()
    assert (sums == 100).all()
    counts = (shares["scaled"] * shares["n_queries"]).round()
    assert ((100 * counts / shares["n_queries"] - shares["value"]).abs() <= 0.5).all()
    assert counts[shares["table"] == "3"].tolist() == [11, 17, 26, 25, 34, 41]


def test_all_66_zhan_deltas_follow_from_the_shown_means(cells):
    deltas = cells[(cells["unit"] == "percent change") & (cells["paper"] == "zhan")]
    values = cells[cells["paper"] == "zhan"].set_index(["table", "row", "column"])["value"]
    assert len(deltas) == 66
    for delta in deltas.itertuples():
        stem = delta.column.removesuffix("Δ")
        inter, extra = (
            values[delta.table, delta.row, stem + name] for name in ("Inter.", "Extra.")
        )
        low, high = ((extra + d) / (inter - d) for d in (-0.0005, 0.0005))
        assert 100 * (low - 1) - 0.5 <= delta.value <= 100 * (high - 1) + 0.5, (
            delta.table,
            delta.row,
            delta.column,
        )


def test_all_40_lupart_losses_follow_from_the_shown_means(cells):
    losses = cells[cells["unit"] == "percent loss"]
    values = cells[cells["paper"] == "lupart"].set_index(["table", "row", "column"])["value"]
    assert len(losses) == 40
    for loss in losses.itertuples():
        model = loss.row.removesuffix("Rel Loss")
        inside, out = (values[loss.table, model + name, loss.column] for name in ("Avg In", "Out"))
        low, high = (1 - (out + d) / (inside - d) for d in (0.05, -0.05))
        assert 100 * low - 0.05 <= loss.value <= 100 * high + 0.05, (
            loss.table,
            loss.row,
            loss.column,
        )


def test_every_printed_change_lies_in_the_range_of_its_printed_means():
    changes = published.printed_changes()
    assert changes["consistent"].all() and (changes["low"] < changes["high"]).all()
    assert changes.groupby("paper").size().to_dict() == {"lupart": 40, "zhan": 66}
    named = changes.set_index(["paper", "table", "cell"])
    dense = named.loc[("zhan", "6", "14k | DR (base) | nDCG@10")]
    assert dense["change"] == -0.14
    assert dense["low"] == pytest.approx(0.5285 / 0.6175 - 1)
    assert dense["high"] == pytest.approx(0.5295 / 0.6165 - 1)
    how = named.loc[("lupart", "3", "SPLADE | how")]
    assert how["change"] == pytest.approx(-0.268) and how["low"] < -0.268 < how["high"]


@pytest.mark.parametrize(
    ("paper", "row", "column", "step"),
    [
        ("zhan", "14k | DR (base)", "nDCG@10 | Δ", -0.01),  # -14 %, of -14.4 to -14.1 %
        ("zhan", "14k | DR (base)", "nDCG@10 | Inter.", 0.010),
        ("lupart", "bi-encoder | Rel Loss", "C0", 0.005),
        ("lupart", "bi-encoder | Out", "C0", 0.002),
    ],
)
def test_a_misprinted_change_or_mean_is_found(monkeypatch, paper, row, column, step):
    cells = published.every_cell()
    is_changed = (cells["paper"] == paper) & (cells["row"] == row) & (cells["column"] == column)
    assert is_changed.sum() == 1
    cells.loc[is_changed, "scaled"] += step
    monkeypatch.setattr(published, "every_cell", lambda: cells)
    changes = published.printed_changes()
    wrong = changes.loc[~changes["consistent"], ["paper", "cell"]].to_numpy().tolist()
    assert wrong == [[paper, published._without_side(f"{row} | {column}")]]


def test_same_experiment_has_the_same_numbers_in_two_zhan_tables():
    six, seven, eight, nine = (grid("zhan", number) for number in (6, 7, 8, 9))
    base = eight.loc["DR (base) | BERT | RandNeg"]
    for name in ("nDCG@10 | Inter.", "nDCG@10 | Δ", "R@100 | Extra.", "R@100 | Δ"):
        assert base[f"TREC DL | {name}"] == six.loc["45k | DR (base)", name]
    for name in ("MRR@10 | Inter.", "MRR@10 | Δ", "R@100 | Extra.", "R@100 | Δ"):
        assert base[f"Dev | {name}"] == seven.loc["DR (base)", name]
    shared = eight.columns.intersection(nine.columns)
    assert len(shared) == 6 and nine.loc["BERT", shared].equals(base[shared].rename("BERT"))


def test_podcast_scores_of_table_7_are_those_of_table_4_rounded():
    four, seven = grid("hofstaetter", 4), grid("hofstaetter", 7)
    for measure in ("nDCG@10", "nDCG@30"):
        assert ((seven[f"2021 | {measure}"] - four[measure]).abs() <= 0.0005 + 1e-9).all()
    for table, n_queries in ((4, 50), (5, 40), (6, 40)):  # precision is a whole number of passages
        hits = grid("hofstaetter", table)["P@10"] * 10 * n_queries
        assert np.allclose(hits, hits.round(), atol=1e-9)


def test_attributes_name_measure_regime_and_collection():
    cell = (
        load("zhan", 8)
        .query("finetune == 'Distill' and column == 'TREC DL | R@100 | Extra.'")
        .iloc[0]
    )
    wanted = {
        "value": 0.554,
        "measure": "R(rel=2)@100",
        "regime": "extrapolation",
        "protocol": "ReSTrain",
    }
    assert cell[list(wanted)].to_dict() == wanted
    assert load("lupart", 1).query("row == 'C4 | 3'")["topic"].tolist() == ["Biology/Physics"]


@pytest.mark.parametrize(
    ("paper", "table", "message"),
    [
        ("zahn", 1, "no published paper: 'zahn'; there are hofstaetter, lupart, zhan"),
        ("zhan", 11, "no published table of zhan: '11'; there are 1, 10, 2"),
    ],
)
def test_unknown_name_gives_one_error_with_near_names(paper, table, message):
    with pytest.raises(InputError, match=message):
        load(paper, table)


def drawn(ours: pd.DataFrame) -> Effects:
    """Effects of the column delta, with one draw each."""
    return Effects.of(ours, ["model"], ["delta"], ours[["delta"]].to_numpy())


def verdict(effect: float, low: float, high: float, theirs: float) -> str:
    """The verdict of one effect beside one that was printed as whole percents (NaN: not
    printed).
    """
    ours = pd.DataFrame([{"model": "m", "delta": effect, "low": low, "high": high}])
    printed = pd.DataFrame({"model": ["m"], "scaled": [theirs], "rounding": [0.005]}).dropna()
    return drawn(ours).beside(printed, on=["model"])["verdict"].item()


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ((-0.10, -0.18, -0.03), -0.14, "agrees"),
        ((-0.10, -0.18, -0.03), -0.02, "same direction"),  # outside, by more than its rounding
        ((-0.10, -0.18, -0.025), -0.02, "agrees"),  # printed -2 % may be -2.5 %
        ((-0.10, -0.18, -0.03), 0.02, "opposite"),
        ((-0.10, -0.50, 0.60), -0.14, "undecided"),  # a wide interval is no agreement
        ((0.01, -0.03, 0.05), -0.02, "undecided"),  # both may be 0, so it is not opposite
        ((-0.01, -0.03, 0.01), -0.18, "undecided"),  # ours includes 0, and so has no direction
        ((0.01, -0.03, 0.05), -0.18, "undecided"),
        ((0.0, 0.0, 0.0), 0.01, "undecided"),  # exactly 0 is in no direction
        ((0.0, -0.01, 0.01), -0.18, "undecided"),
        ((-0.10, -0.18, -0.03), 0.0, "undecided"),  # nor is a published 0
        ((0.10, -0.01, 0.20), 0.0, "undecided"),
        ((-0.003, -0.007, -0.001), 0.0, "agrees"),  # as printed, 0 % may be -0.3 %
        ((np.nan, np.nan, np.nan), -0.14, "undecided"),
        ((-0.10, np.nan, np.nan), -0.14, "undecided"),
        ((-0.10, -0.18, -0.03), np.nan, ""),
    ],
)
def test_one_verdict_by_its_rule(ours, theirs, expected):
    assert verdict(*ours, theirs) == expected
    assert verdict(-ours[0], -ours[2], -ours[1], -theirs) == expected  # mirrored


def test_an_interval_that_holds_0_never_counts_as_agreement():
    rng = np.random.default_rng(1)
    for low, high, theirs in zip(
        -rng.random(200), rng.random(200), rng.uniform(-1, 1, 200).round(2), strict=True
    ):
        assert verdict(rng.uniform(low, high), low, high, theirs) != "agrees"


def test_beside_keeps_our_rows_and_their_order():
    printed = load("zhan", 7).query("regime == 'delta'")
    ours = pd.DataFrame(
        {"model": ["SPLADE", "mine", "SPLADE"], "measure": "RR@10", "n_train": [900, 900, 100]}
    )
    ours = ours.assign(delta=-0.1, low=-0.2, high=-0.05).set_axis(
        [7, 0, 3]
    )  # by the index draws are found
    table = drawn(ours).beside(printed, on=["model", "measure"])
    assert table[list(ours)].equals(ours) and table.attrs == ours.attrs
    assert table["published"].tolist()[::2] == [-0.13, -0.13] and table["verdict"].tolist() == [
        "agrees",
        "",
        "agrees",
    ]


def test_ambiguous_comparison_is_an_error():
    printed = load("zhan", 7)
    ours = pd.DataFrame({"model": ["SPLADE"], "delta": [-0.1], "low": [-0.2], "high": [0.0]})
    with pytest.raises(InputError, match=r"published effects: named twice: \('BM25',\)"):
        drawn(ours).beside(printed, on=["model"])
    with pytest.raises(InputError, match="published effects: 'system' is no column of both tables"):
        drawn(ours).beside(printed, on=["model", "system"])


def test_bm25_stands_beside_every_size_and_every_published_delta_once():
    table = zhan_deltas()
    assert not table.duplicated(["protocol", "published_n_train", "model", "measure"]).any()
    bm25 = table[(table["model"] == "BM25") & (table["protocol"] == "ReSTrain")]
    assert bm25.groupby("published_n_train")["scaled"].agg(list).to_dict() == dict.fromkeys(
        SIZES, [0.01, 0.01]
    )


def test_a_delta_of_exactly_0_has_no_direction():
    """Δ = 0 was counted as a disagreement."""
    ours = pd.DataFrame(
        {
            "protocol": "ReSTrain",
            "published_n_train": "14k",
            "model": "BM25",
            "measure": ["nDCG@10"],
        }
    )
    ours = drawn(ours.assign(delta=0.0, low=0.0, high=0.0))
    on = ["protocol", "published_n_train", "model", "measure"]
    assert ours.beside(zhan_deltas(), on)["verdict"].tolist() == ["undecided"]
