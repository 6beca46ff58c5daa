"""Candidates, sheets, agreement between annotators, and the widget without a browser."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel
from sklearn.metrics import cohen_kappa_score

from interextra.notebooks.n01_overlap import recall_comparison, simulate_annotators
from interextra.overlap.annotation import (
    SHEET,
    codes,
    kappa,
    median_labels,
    pair_truth,
    query_labels,
    read_sheet,
    with_codes,
    write_sheet,
)
from interextra.overlap.candidates import Candidates, candidates, with_texts
from interextra.overlap.labels import LABELS
from interextra.overlap.text import text_jaccard
from interextra.overlap.widget import Annotation, widget
from interextra.store.errors import InputError
from interextra.world.truth import entity_overlap, intent_overlap

TEST = pd.DataFrame(
    {"query_id": ["t1", "t2"], "text": ["what is a shebang", 'rock, "n" roll\nbegin <b>']}
)
TRAIN = pd.DataFrame(
    {"query_id": [f"q{i}" for i in range(30)], "text": [f"training query {i}" for i in range(30)]}
)
BM25 = np.array([[3, 1, 2], [5, -1, -1]])
EMBEDDING = np.array([[3, 4, 1], [6, 5, 7]])


@pytest.fixture
def pairs():
    return with_texts(candidates(TEST["query_id"], TRAIN["query_id"], BM25, EMBEDDING), TEST, TRAIN)


@pytest.fixture
def many_pairs():
    n = 400
    ids = [f"t{i // 10}" for i in range(n)]
    return pd.DataFrame(
        {
            "test_query_id": ids,
            "train_query_id": [f"q{i}" for i in range(n)],
            "test_query": "a",
            "train_query": "b",
        }
    ).assign(source=np.where(np.arange(n) % 2, "bm25", "embedding"), entity="", intent="")


def test_candidates_are_merged_once_each_with_their_source(pairs):
    got = {
        tuple(r)
        for r in pairs[["test_query_id", "train_query_id", "source"]].itertuples(index=False)
    }
    first = {
        ("t1", "q3", "both"),
        ("t1", "q1", "both"),
        ("t1", "q2", "bm25"),
        ("t1", "q4", "embedding"),
    }
    assert got == first | {
        ("t2", "q5", "both"),
        ("t2", "q6", "embedding"),
        ("t2", "q7", "embedding"),
    }
    assert pairs["train_query_id"].head(4).tolist() == [
        "q3",
        "q1",
        "q4",
        "q2",
    ]  # by best rank, then row
    assert pairs.loc[0, ["bm25_rank", "embedding_rank"]].tolist() == [1, 1]


def test_candidates_refuse_a_test_query_that_was_trained_on():
    with pytest.raises(InputError, match="also training queries .'t1'"):
        candidates(TEST["query_id"], TRAIN["query_id"].replace("q0", "t1"), BM25, EMBEDDING)


class Named(NamedTuple):
    """Stands for `Queries`."""

    queries: pd.DataFrame

    def frame(self, store) -> pd.DataFrame:
        return self.queries


class Stored(NamedTuple):
    """Stands for a Vectors cell of words shared with three topics."""

    train: Named
    test: tuple[Named, ...]

    def read(self, store):
        topics = ["cat", "dog", "sun"]
        texts = [part.queries["text"] for part in (self.train, *self.test)]
        made = [
            np.array([[0.1 + text.count(topic) for topic in topics] for text in part])
            for part in texts
        ]
        return made[0], np.concatenate(made[1:])


class Asked(NamedTuple):
    """Stands for the cell."""

    vectors: Stored
    k: int


def test_candidates_cell_has_what_bm25_and_the_vectors_find(tmp_path, monkeypatch):
    """BM25 finds rare words, the vectors topics; k each, over the test sets in their order."""
    monkeypatch.setenv("INTEREXTRA_CACHE", str(tmp_path / "cache"))
    texts = ["cat food", "dog food", "sun", "cat cat dog", "why the moon", "dog cat cat"]
    train = pd.DataFrame({"query_id": [f"q{i}" for i in range(6)], "text": texts})
    tests = [
        pd.DataFrame({"query_id": [name], "text": [text]})
        for name, text in (("a", "cat moon"), ("b", "sun"))
    ]
    vectors = Stored(Named(train), tuple(map(Named, tests)))
    Candidates.build(Asked(vectors, 2), tmp_path, {})
    found = pd.read_parquet(tmp_path / "candidates.parquet")
    assert not {"test_query", "train_query"} & set(found)
    ranks = found.set_index(["test_query_id", "train_query_id"])[["bm25_rank", "embedding_rank"]]
    assert (
        ranks.loc[("a", "q4"), "bm25_rank"] == 1 and ranks.loc[("a", "q0"), "embedding_rank"] == 1
    )
    assert ranks.loc[("b", "q2")].tolist() == [1, 1] and found[
        "test_query_id"
    ].drop_duplicates().tolist() == ["a", "b"]
    assert (ranks <= 2).all(axis=None) and len(ranks.loc["a"]) <= 4
    known = type("Known", (), {"__getitem__": lambda self, cell: tmp_path})()
    read = Candidates.read(Asked(vectors, 2), known)
    assert [*read] == [*SHEET, "bm25_rank", "embedding_rank"] and read[[*found]].equals(found)
    of = dict(zip(train["query_id"], texts, strict=True)) | {"a": "cat moon", "b": "sun"}
    for side in ("test", "train"):
        assert read[f"{side}_query"].tolist() == read[f"{side}_query_id"].map(of).tolist()


def test_sheet_survives_the_round_trip(pairs, tmp_path):
    write_sheet(tmp_path / "sheet.csv", pairs)
    back = read_sheet(tmp_path / "sheet.csv", pairs, complete=False)
    assert back.equals(pairs[list(SHEET)].astype(object)) and (back["entity"] == "").all()
    assert [p.name for p in tmp_path.iterdir()] == ["sheet.csv"]


def test_sorted_sheet_comes_back_in_the_order_of_the_pairs(pairs, tmp_path):
    filled = with_codes(pairs, np.arange(7) % 3, np.zeros(7, int))
    write_sheet(tmp_path / "s.csv", filled.iloc[::-1])
    assert read_sheet(tmp_path / "s.csv", pairs).equals(filled[list(SHEET)].astype(object))


def test_spreadsheet_byte_order_mark_and_capitals_are_accepted(pairs, tmp_path):
    write_sheet(tmp_path / "s.csv", with_codes(pairs, np.full(7, 2), np.full(7, 2)))
    text = (tmp_path / "s.csv").read_text().replace(",full,", ", Full ,")
    (tmp_path / "s.csv").write_text("\ufeff" + text)
    assert set(read_sheet(tmp_path / "s.csv")["entity"]) == {"full"}


BREAKS = {
    "unknown label": (
        lambda s: s.assign(entity=["maybe", *s["entity"][1:]]),
        r"s.csv:2: entity label maybe",
    ),
    "no label": (
        lambda s: s.assign(intent=[*s["intent"][:2], "", *s["intent"][3:]]),
        r"s.csv:4: no intent label: t1",
    ),
    "missing row": (lambda s: s.drop(index=3), r"1 pairs are missing .*'q2'"),
    "twice": (lambda s: pd.concat([s.head(2), s]), r"s.csv:4: pair twice"),
    "changed text": (
        lambda s: s.assign(test_query=["x", *s["test_query"][1:]]),
        r"s.csv:2: changed test_query: x",
    ),
    "foreign pair": (
        lambda s: s.assign(train_query_id=["q29", *s["train_query_id"][1:]]),
        r"s.csv:2: pair that was not",
    ),
}


@pytest.mark.parametrize("case", BREAKS)
def test_broken_sheet_is_refused_with_file_and_line(pairs, tmp_path, case):
    broken, words = BREAKS[case]
    write_sheet(tmp_path / "s.csv", broken(with_codes(pairs, np.zeros(7, int), np.zeros(7, int))))
    with pytest.raises(InputError, match=words):
        read_sheet(tmp_path / "s.csv", pairs)


@pytest.mark.parametrize(
    ("text", "words"), [("a,b\n", "s.csv:1: columns"), (",".join(SHEET) + "\nt1,x\n", "s.csv:2")]
)
def test_sheet_with_other_columns_is_refused(tmp_path, text, words):
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        read_sheet(tmp_path / "s.csv")


def test_sheet_in_another_encoding_is_refused(pairs, tmp_path):
    write_sheet(tmp_path / "s.csv", pairs.assign(test_query="café"))
    (tmp_path / "s.csv").write_bytes((tmp_path / "s.csv").read_text("utf-8").encode("latin-1"))
    with pytest.raises(InputError, match="s.csv: cannot be read .'utf-8'"):
        read_sheet(tmp_path / "s.csv", complete=False)


def test_median_of_three_and_lower_median_of_two(pairs):
    given = [
        np.array(v) for v in ([0, 0, 0, 1, 2, 2, 0], [0, 1, 2, 1, 2, 0, 0], [2, 2, 2, 2, 2, 2, 1])
    ]
    sheets = [with_codes(pairs, g, g) for g in given]
    assert codes(median_labels(sheets), "entity").tolist() == np.median(given, axis=0).tolist()
    assert codes(median_labels(sheets[:2]), "intent").tolist() == np.minimum(*given[:2]).tolist()
    labels = query_labels(median_labels(sheets))
    assert (
        labels["entity"].to_dict() == {"t1": "full", "t2": "full"}
        and labels.index.name == "test_query_id"
    )


def test_sheets_of_other_pairs_or_in_another_order_are_refused(pairs):
    sheet = pairs.assign(entity="full", intent="similar")
    for other in (sheet.iloc[::-1], sheet.iloc[1:], sheet.assign(test_query_id="x")):
        with pytest.raises(InputError, match="the sheets hold other pairs, or in another order"):
            median_labels([sheet, other])
        with pytest.raises(InputError, match="other pairs"):
            kappa([sheet, other])


def test_unlabelled_sheet_has_no_median(pairs):
    with pytest.raises(InputError, match="unknown entity"):
        median_labels([pairs, pairs])


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
def test_kappa_is_that_of_scikit_learn_and_averaged(many_pairs, weights):
    rng = np.random.default_rng(6)
    given = simulate_annotators(rng.integers(0, 3, 400), 0.3, 3, seed=2)
    table = kappa([with_codes(many_pairs, g, np.zeros(400, int)) for g in given], weights)
    entity = table[table["label"] == "entity"].set_index("annotators")["kappa"]
    want = [
        cohen_kappa_score(given[a], given[b], weights=weights) for a, b in ((0, 1), (0, 2), (1, 2))
    ]
    np.testing.assert_allclose(entity.to_numpy(), [*want, np.mean(want)])
    assert entity.index.tolist() == ["1-2", "1-3", "2-3", "average"]
    assert (
        table.loc[table["label"] == "intent", "kappa"].isna().all()
    )  # one label only: not defined


def test_simulated_annotators_err_as_often_as_asked_and_by_one():
    truth = np.random.default_rng(8).integers(0, 3, 20_000)
    given = simulate_annotators(truth, 0.2, 3, seed=3)
    assert (
        given.shape == (3, 20_000)
        and set(np.unique(given)) == {0, 1, 2}
        and np.abs(given - truth).max() == 1
    )
    np.testing.assert_allclose((given != truth).mean(axis=1), 0.2, atol=0.01)
    assert (given == simulate_annotators(truth, 0.2, 3, seed=3)).all()


def test_median_of_simulated_annotators_beats_each_of_them(many_pairs):
    truth = np.random.default_rng(8).integers(0, 3, 400)
    given = simulate_annotators(truth, 0.25, 3, seed=4)
    median = codes(median_labels([with_codes(many_pairs, g, g) for g in given]), "entity")
    assert (median == truth).mean() > (given == truth).mean(axis=1).max()


def test_full_overlap_needs_exactly_the_same_entities():
    """Zhan §3.2: {Boston, New York} shares an entity with {New York}, and is not the same set."""
    columns = {
        "query_id": ["q1", "q2", "q3"],
        "entities": [["b"], ["a", "b"], ["b", "a"]],
        "text": "x",
    }
    train = pd.DataFrame(columns).assign(intent=["i", "j", "k"], intent_group="g")
    test = train[1:2].assign(query_id="t", intent="l")
    every = np.arange(3)[None]
    labelled = pair_truth(
        candidates(test["query_id"], train["query_id"], every, every), test, train
    )
    assert labelled.set_index("train_query_id")["entity"].to_dict() == {
        "q1": "partial",
        "q2": "full",
        "q3": "full",
    }
    assert entity_overlap(test, train[:1]).tolist() == ["partial"] and entity_overlap(
        test, train[2:]
    ).tolist() == ["full"]


def test_pair_truth_agrees_with_the_truth_per_query():
    rng = np.random.default_rng(9)

    def queries(prefix, n):
        entities = [
            rng.choice(list("abcdefghijkl"), rng.integers(1, 3), replace=False).tolist()
            for _ in range(n)
        ]
        groups = rng.integers(0, 2, n)
        intents = [
            f"{'+'.join(sorted(e))}:{g}{rng.integers(0, 2)}"
            for e, g in zip(entities, groups, strict=True)
        ]
        columns = {
            "query_id": [f"{prefix}{i}" for i in range(n)],
            "text": "x",
            "entities": entities,
            "intent": intents,
        }
        return pd.DataFrame(columns).assign(intent_group=groups)

    test, train = queries("t", 60), queries("q", 12)
    all_rows = np.tile(np.arange(12), (60, 1))
    pairs = candidates(test["query_id"], train["query_id"], all_rows, all_rows)
    labels = query_labels(pair_truth(pairs, test, train))
    assert labels["entity"].to_dict() == entity_overlap(test, train).to_dict()
    assert labels["intent"].to_dict() == intent_overlap(test, train).to_dict()
    assert all(set(labels[column]) == set(known) for column, known in LABELS.items())


def test_recall_comparison_pairs_by_query(many_pairs):
    rng = np.random.default_rng(10)
    given = rng.integers(0, 2, 400) + (many_pairs["source"] == "embedding")
    table = recall_comparison(with_codes(many_pairs, given, np.zeros(400, int)), seed=1).set_index(
        "label"
    )
    means = pd.DataFrame({"q": many_pairs["test_query_id"], "s": many_pairs["source"], "v": given})
    means = means.groupby(["q", "s"])["v"].mean().unstack()
    row = table.loc["entity"]
    assert row["difference"] == pytest.approx((means["embedding"] - means["bm25"]).mean())
    assert row["p_value"] == pytest.approx(ttest_rel(means["embedding"], means["bm25"]).pvalue)
    assert 0 < row["low"] < row["difference"] < row["high"] and row["n_queries"] == 40
    assert table.loc["intent", ["difference", "p_value"]].tolist() == [0, 1]
    assert (
        table.loc["intent", ["low", "high"]].isna().all()
    )  # where nothing differs, resampling says nothing


def test_pair_found_by_both_methods_counts_for_both_and_a_query_of_one_method_not_at_all(pairs):
    assert pairs["source"].tolist() == [
        "both",
        "both",
        "embedding",
        "bm25",
        "both",
        "embedding",
        "embedding",
    ]
    given = np.array([2, 1, 0, 0, 2, 0, 1])
    row = recall_comparison(with_codes(pairs, given, given), seed=1).iloc[0]
    assert row["bm25"] == pytest.approx((3 / 3 + 2) / 2) and row["embedding"] == pytest.approx(
        (3 / 3 + 3 / 3) / 2
    )
    alone = pairs.assign(source=[*pairs["source"][:4], *["bm25"] * 3])
    assert recall_comparison(with_codes(alone, given, given), seed=1)["n_queries"].tolist() == [
        1,
        1,
    ]


def test_words_in_common_by_hand():
    a = ["when did rock n roll begin?", "do", "what is the origin of basil"]
    b = ["when did Rock and Roll begin", "a", "what is the price of gold"]
    np.testing.assert_allclose(text_jaccard(a, b), [5 / 7, 0, 4 / 8])


@pytest.fixture
def sheet(pairs, tmp_path):
    write_sheet(tmp_path / "sheet.csv", pairs)
    return tmp_path / "sheet.csv"


def test_each_choice_is_on_disk_at_once(sheet):
    session = Annotation(sheet)
    session.label("entity", "partial")
    assert read_sheet(sheet, complete=False)["entity"].tolist() == ["partial", *[""] * 6]
    assert session.row == 0 and len(session.open) == 7
    session.label("intent", "similar")
    assert (
        session.row == 1
        and session.open.tolist() == [1, 2, 3, 4, 5, 6]
        and session.current["train_query_id"] == "q1"
    )


def test_undo_takes_back_choice_by_choice_also_on_disk(sheet):
    session = Annotation(sheet)
    session.label("entity", "full")
    session.label("intent", "duplicate")
    session.undo()
    assert session.row == 0 and read_sheet(sheet, complete=False).loc[
        0, ["entity", "intent"]
    ].tolist() == ["full", ""]
    session.undo()
    session.undo()  # nothing left: nothing happens
    assert (read_sheet(sheet, complete=False)[["entity", "intent"]] == "").all(axis=None)


def test_session_resumes_at_the_first_open_pair_and_ends(sheet):
    for _ in range(7):
        session = Annotation(sheet)
        assert len(session.open)
        session.next()  # skipping is allowed, the pair comes again
        session = Annotation(sheet)
        session.label("entity", "zero")
        session.label("intent", "dissimilar")
    assert not len(session.open) and not len(Annotation(sheet).open) and len(read_sheet(sheet)) == 7


def test_widget_shows_what_another_cell_labels_in_its_session(sheet):
    box = widget(sheet)
    for column, label in (("entity", "full"), ("intent", "duplicate")):
        box.session.label(column, label)
    assert "pair 2 · labelled 1 of 7" in box.children[0].value


def test_widget_builds_and_a_click_writes_the_sheet(sheet):
    box = widget(sheet)
    buttons = {
        b.description: b for row in box.children[1:] for b in row.children if hasattr(b, "click")
    }
    assert set(buttons) == {*LABELS["entity"], *LABELS["intent"], "undo", "next open pair"}
    buttons["full"].click()
    buttons["duplicate"].click()
    assert read_sheet(sheet, complete=False).loc[0, ["entity", "intent"]].tolist() == [
        "full",
        "duplicate",
    ]
    assert (
        "labelled 1 of 7" in box.children[0].value and "training query 1" in box.children[0].value
    )
    assert (
        "bm25" not in box.children[0].value
    )  # the annotator does not see which method found the pair
    buttons["undo"].click()
    assert box.session.row == 0 and read_sheet(sheet, complete=False).loc[0, "intent"] == ""
    for _ in range(4):
        buttons["next open pair"].click()
    assert "&lt;b&gt;" in box.children[0].value  # texts are shown, not run
