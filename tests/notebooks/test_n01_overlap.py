"""Notebooks 00 and 01: wrong parameters are refused before anything is computed; published overlap
beside ours.
"""

import numpy as np
import pandas as pd
import pytest
from toy_parameters import COMMON, plan_with

from interextra.notebooks import n00_start_here as start_here
from interextra.notebooks import n01_overlap as overlap
from interextra.store.errors import InputError


def test_one_system_alone_is_refused():
    """It ended in a traceback after all training."""
    with pytest.raises(InputError, match="'recipes': .* give two"):
        plan_with(start_here, COMMON | {"recipes": ["bm25"]})
    assert plan_with(start_here, COMMON | {"recipes": ["bm25", "mini-dense"]}).design[
        "model"
    ].tolist() == [
        "BM25",
        "DR (base)",
    ]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"sheets": ["here.csv", "nofile.csv"]}, "'sheets': no file 'nofile.csv'"),  # a traceback
        ({"graded_splits": ["nowhere"]}, "no split 'nowhere'"),
        (
            {"runs": [{"system": "BM25", "split": "dl19", "file": "nofile.run"}]},
            "'runs': no file 'nofile.run'",
        ),
        (
            {
                "runs": [
                    {"system": "BM25", "split": "dl19", "file": "here.csv"},
                    {"system": "X", "split": "dl20", "file": "here.csv"},
                ]
            },
            "'runs': no run of BM25 on 'dl20'",
        ),
    ],
)
def test_files_and_splits_that_are_not_there_are_refused_by_the_plan(
    wrong, words, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.csv").touch()
    asked = COMMON | {
        "recipes": ["mini-dense"],
        "sheets": [],
        "candidates": 3,
        "graded_splits": ["test"],
        "runs": [],
    }
    assert plan_with(overlap, asked | {"sheets": ["here.csv"]}).candidates.k == 3
    with pytest.raises(InputError, match=words):
        plan_with(overlap, asked | wrong)


def test_published_overlap_has_the_labels_of_our_tables():
    table = overlap.published_counts(1)
    assert table.query("test_set == 'dl19' and label == 'full'")["n"].item() == 27  # 63 % of 43
    ours = pd.DataFrame(
        {"test_set": ["dl19", "dl20", "dev"], "relevance_threshold": [3, 1, 1], "min_shared": 2}
    )
    ours = ours.assign(n_queries=43, n_overlapping=11, percent=25.6, low=14.9, high=40.2)
    published = overlap.beside_table_3(ours)["published_percent"]
    assert published.tolist()[:2] == [26, 76] and np.isnan(published[2])


def test_published_duplicates_are_found_among_candidates_whatever_their_case():
    first = overlap.table_4(NO_PAIRS, pd.DataFrame({"text": ["x"]})).iloc[0]
    pairs = pd.DataFrame(
        [(first["test_query"].upper(), f" {first['train_query']}", 1, 0)], columns=NO_PAIRS.columns
    )
    found = overlap.table_4(pairs, pd.DataFrame({"text": [first["train_query"].upper()]}))
    assert (
        len(found) == 7
        and found["in_our_training_queries"].sum() == 1 == found["bm25_rank"].notna().sum()
    )


NO_PAIRS = pd.DataFrame(columns=["test_query", "train_query", "bm25_rank", "embedding_rank"])


def test_shares_of_the_printed_tables_have_the_interval_of_as_many_queries():
    table = overlap.published_shares(seed=1, n_boot=4000).set_index("label")
    assert (
        table["estimate"].tolist() == pytest.approx([90 / 97, 66 / 97])
        and table["n_queries"].eq(97).all()
    )
    assert table.drawn().std(axis=1) == pytest.approx(
        np.sqrt(table["estimate"] * (1 - table["estimate"]) / 97), rel=0.05
    )


def test_gains_are_differences_of_measured_runs(tmp_path):
    qrels = {
        "dl19": pd.DataFrame({"query_id": ["p", "q"], "doc_id": ["a", "b"], "relevance": [1, 1]})
    }
    for name, order in (("bm25", "ba"), ("other", "ab")):
        lines = [
            f"{query} Q0 {doc} {at} {-at} x" for query in "pq" for at, doc in enumerate(order, 1)
        ]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    runs = [
        (system, "dl19", str(tmp_path / name))
        for system, name in (("BM25", "bm25"), ("X", "other"))
    ]
    found = overlap.gains(pd.DataFrame(runs, columns=["system", "split", "path"]), qrels)
    assert found["system"].eq("X").all() and found["gain"].tolist() == pytest.approx(
        [1 - 1 / np.log2(3), 1 / np.log2(3) - 1]
    )


@pytest.mark.parametrize(("built_in", "verdict"), [(0.0, False), (0.2, True)])
def test_a_gain_on_overlapping_queries_is_told_from_the_number_of_relevant_passages(
    built_in, verdict
):
    import statsmodels.formula.api as smf

    random, n = np.random.default_rng(2), 97
    size = random.integers(1, 100, size=n)
    shared = (random.random(n) < size / 60).astype(int)
    gain = 0.05 * np.log(size) + built_in * (shared > 0) + 0.1 * random.normal(size=n)
    ids = [f"q{at}" for at in range(n)]
    gained = pd.DataFrame({"system": "X", "query_id": ids, "gain": gain})
    counts = pd.DataFrame({"shared": shared, "n_relevant": size}, index=ids)
    table = overlap.gain_by_overlap(
        pd.concat([gained, gained.assign(system="Y")]), counts, seed=1, n_boot=2000
    )
    fitted = smf.ols(
        "gain ~ over + log_size",
        pd.DataFrame({"gain": gain, "over": shared, "log_size": np.log(size)}),
    ).fit()
    apart = table.set_index("overlap")["estimate"]
    assert (
        apart[True] - apart[False] == pytest.approx(fitted.params["over"])
        and table["n_models"].eq(2).all()
    )
    draws = np.subtract(*table.drawn())
    assert draws.std() == pytest.approx(fitted.get_robustcov_results("HC1").bse[1], rel=0.15)
    assert (np.quantile(draws, 0.025) > 0) == verdict


def test_dev_queries_are_drawn_and_the_others_kept():
    test = pd.DataFrame({"query_id": range(30), "test_set": ["dev"] * 20 + ["dl19"] * 10})
    fewer = overlap.with_fewer_dev(test, 5, seed=1)
    assert fewer["test_set"].value_counts().to_dict() == {"dl19": 10, "dev": 5}
    assert overlap.with_fewer_dev(fewer, 5, seed=2)["query_id"].nunique() == 15


class Named:
    """A collection of which only the name is asked."""

    def __init__(self, name):
        self.name = name


def test_only_the_sets_of_a_generated_world_are_called_generated():
    names = overlap.generated_names(Named("mini"))
    assert names["dl19"] == names["mini dl19"] == "generated dl19"
    assert overlap.generated_names(Named("medquad")) == {}


TEST = pd.DataFrame({"query_id": ["a", "b", "c", "d"], "test_set": ["dev", "dev", "dl19", "dl19"]})


def labels_of(*intents):
    columns = {"entity": ["full"] * 4, "intent": list(intents)}
    return pd.DataFrame(columns, index=TEST["query_id"])


def test_labels_are_counted_by_test_set_and_source():
    sources = {
        "truth": labels_of("duplicate", "similar", "dissimilar", "similar"),
        "candidates": labels_of("duplicate", "dissimilar", "dissimilar", "dissimilar"),
    }
    table = overlap.table_of_labels(TEST, sources, "intent")
    by = table.set_index(["source", "test_set", "label"])["percent"]
    assert by["truth", "dev"].to_dict() == {"duplicate": 50, "similar": 50, "dissimilar": 0}
    assert by["candidates", "dl19", "dissimilar"] == 100
    shares = overlap.shares_with_overlap({"intent": table})
    assert shares == {"intent": {"dev": 100.0, "dl19": 50.0}}  # of the first source
    words = overlap.shares_sentence(shares, {"dl19": "generated dl19"})
    assert "100 % (dev), 50 % (generated dl19)" in words
    assert "all pairs 75 %, candidates 25 %" in overlap.bias_sentence(table, "intent")
    assert "Nobody has labelled" in overlap.shares_sentence({}, {})


def test_bars_stand_beside_those_of_the_real_sets_that_they_imitate():
    ours = overlap.table_of_labels(TEST, {"truth": labels_of(*["similar"] * 4)}, "intent")
    both = pd.concat([ours, overlap.published_counts(2)])
    figure = overlap.figure_of_labels(both, "intent", overlap.generated_names(Named("mini")))
    [axis] = [axis for axis in figure.axes if axis.get_yticklabels()]
    names = " ".join(text.get_text() for text in axis.get_yticklabels())
    assert "generated dl19" in names and "TREC DL 2019" in names
    assert "dl20" not in names and "2020" not in names  # no set of ours


PAIRS = pd.DataFrame(
    {
        "test_query_id": list("aabb"),
        "train_query_id": list("wxyz"),
        "source": "both",
        "test_query": list("aabb"),
        "train_query": list("wxyz"),
        "bm25_rank": [1, 2, 1, 2],
        "embedding_rank": [2, 1, 0, 3],
        "entity": ["full", "zero", "partial", "full"],
        "intent": ["duplicate", "duplicate", "duplicate", "dissimilar"],
    }
)


def test_annotators_without_errors_agree_with_the_truth():
    table = overlap.agreement(PAIRS, [0.0, 0.5], n=3, seed=1).set_index(["error_rate", "task"])
    assert (table.loc[0.0, ["kappa", "single_accuracy", "median_accuracy"]] == 1).all(axis=None)
    assert (table.loc[0.5, "single_accuracy"] < 1).all() and (table["n_pairs"] == 4).all()
    sheets = overlap.simulated_sheets(PAIRS, 0.5, n=3, seed=1)
    assert not sheets[0]["intent"].equals(sheets[1]["intent"])
    figure = overlap.figure_of_agreement(table.reset_index())
    assert {axis.get_title() for axis in figure.axes} >= {"entity", "intent"}


def test_a_test_query_has_one_duplicate_the_nearest_that_the_embedding_found():
    found = overlap.one_duplicate_each(PAIRS)
    assert found[["test_query", "train_query"]].values.tolist() == [["a", "x"], ["b", "y"]]
    assert overlap.one_duplicate_each(PAIRS.assign(intent="")).empty


SHARED = overlap.beside_table_3(
    pd.DataFrame(
        {
            "test_set": ["dl19", "dl19", "mini dl19", "mini dl19"],
            "relevance_threshold": 1,
            "min_shared": [1, 2, 1, 2],
            "n_queries": 43,
            "n_overlapping": [39, 34, 30, 20],
            "percent": [90.7, 79.1, 69.8, 46.5],
            "low": 40.0,
            "high": 95.0,
        }
    )
)


def test_both_definitions_of_overlap_stand_in_a_row_beside_the_published():
    page = overlap.readings_page(SHARED, overlap.generated_names(Named("mini")))
    assert page["test_set"].tolist() == ["TREC DL 2019", "generated dl19"]
    assert page["at least 1, %"].tolist() == [91, 70] and page["published, %"].iloc[0] == 79
    ours = overlap.readings_page(SHARED[2:], {})
    assert "published, %" not in ours and overlap.readings_page(pd.DataFrame(), {}).empty
    sentence = overlap.nearer_sentence(SHARED)
    assert "above the published share in 1 of 1" in sentence and "in 1 of 1 cells" in sentence
    assert "No committed run" in overlap.nearer_sentence(pd.DataFrame())


def test_the_figure_has_the_real_queries_where_they_are_counted():
    real = overlap.to_draw(SHARED, Named("mini"), is_real=True)
    assert real["test_set"].tolist() == ["TREC DL 2019"] * 2 and (real["published"] == 79).all()
    ours = overlap.to_draw(SHARED, Named("mini"), is_real=False)
    assert ours["test_set"].tolist() == ["generated dl19"] * 2
    one, two = overlap.counted_sentences(ours)
    assert one.startswith("30 of 43 (70 % [40, 95], generated dl19)") and two.startswith("20 of 43")
    assert "reports 79 %" in overlap.real_sentence(real, SHARED, 0.88)
    assert "1 of 1 cases" in overlap.real_sentence(real, SHARED, 0.88)
    assert "88 % of the training" in overlap.real_sentence(real, SHARED, 0.88)
    assert overlap.figure_of_shared(real).axes


def test_passages_below_grade_two_are_neither_relevant_nor_shared():
    qrels = pd.DataFrame(
        {"query_id": ["p", "p", "p", "q"], "doc_id": list("abcd"), "relevance": [3, 2, 1, 1]}
    )
    training = pd.DataFrame({"query_id": ["t", "t"], "doc_id": ["a", "c"]})
    counts = overlap.relevant_and_shared({"dl19": qrels}, training)
    assert counts.loc[["p"]].to_dict("list") == {"n_relevant": [2], "shared": [1]}
    assert counts.index.tolist() == ["p"]


def test_overlap_is_counted_by_the_set_of_a_query_or_its_split():
    class Graded:
        name = "liveqa"

        def qrels(self):
            return pd.DataFrame(
                {"query_id": ["a", "c", "z"], "doc_id": ["x", "y", "x"], "relevance": 1}
            )

    training = pd.DataFrame({"query_id": ["t"], "doc_id": ["x"]})
    counts = overlap.shared_by_set([Graded()], TEST, training, "mini")
    once = counts.query("relevance_threshold == 1 and min_shared == 1").set_index("test_set")
    assert once["n_overlapping"].to_dict() == {"mini dev": 1, "mini dl19": 0, "mini liveqa": 1}


def test_the_embedding_is_compared_with_bm25_in_label_codes():
    row = {"label": "intent", "difference": 0.157, "low": 0.118, "high": 0.198, "n_queries": 200}
    sentence = overlap.comparison_sentence(pd.DataFrame([row]))
    assert "intent +0.16 [+0.12, +0.20]" in sentence and "200 test queries" in sentence
