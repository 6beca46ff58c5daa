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
