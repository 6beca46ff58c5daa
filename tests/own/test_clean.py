"""What remains of a test set after an audit: its files, its power, and runs scored on it."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from interextra.cli import main
from interextra.own.audit import Audit, read
from interextra.own.clean import answer, conclusion, smallest_difference, values_of_system
from interextra.own.nearness import Nearness

N = 40


@pytest.fixture
def files(tmp_path):
    """Test queries of which the first four stand in training, with qrels and a run."""
    test = [f"where is the granite of place{i} from" for i in range(N)]
    train = [*test[:4], "who wrote the first book about tulips"]
    for name, texts in (("train", train), ("test", test)):
        lines = (f"{name}{i}\t{text}\n" for i, text in enumerate(texts))
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    (tmp_path / "qrels").write_text("".join(f"test{i} 0 d{i} 1\n" for i in range(N)))
    rows = (f"test{i} Q0 d{i if i % 3 else 'x'} 1 1 own\n" for i in range(N))
    (tmp_path / "run").write_text("".join(rows))
    return tmp_path


def arguments(files, *more):
    sides = ["--train", f"{files}/train.tsv", "--test", f"{files}/test.tsv,{files}/qrels"]
    return ["audit", *sides, "--out", f"{files}/out", *more]


def test_the_clean_test_set_is_written_and_runs_are_scored_on_it(files, capsys):
    options = ["--run", f"{files}/run", "-m", "RR@10", "--clean", f"{files}/clean"]
    assert main(arguments(files, *options)) == 0
    told = capsys.readouterr().out
    assert f"36 of {N} test queries remain clean (90.0 %): 4 have" in told and "80 % power" in told
    clean = (files / "clean" / "clean.txt").read_text().split()
    assert clean == [f"test{i}" for i in range(4, N)]
    side = read(f"{files}/clean/queries.tsv,{files}/clean/qrels.tsv", "test")
    assert side.queries["query_id"].tolist() == clean == side.qrels["query_id"].tolist()
    scored = ["evaluate", "--qrels", f"{files}/qrels", "--run", f"{files}/run", "-m", "RR@10"]
    assert main([*scored, "--only", f"{files}/clean/clean.txt"]) == 0
    expected = np.mean([i % 3 > 0 for i in range(4, N)])
    assert capsys.readouterr().out == f"RR@10\t{expected:.4f}\n"
    (files / "other.txt").write_text("x\ny\n")
    assert main([*scored, "--only", f"{files}/other.txt"]) == 2
    assert "judge none of its 2 queries" in capsys.readouterr().err


def test_the_conclusion_is_in_json_and_says_what_is_missing(files, capsys):
    assert main(arguments(files, "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert "36 of 40" in told["answer"] and "give --run" in told["conclusion"][0]
    assert "leave out the 4 training queries of drop_train.txt (80.0 %" in told["conclusion"][-2]
    assert "evaluate --only" in told["conclusion"][-1]


def test_the_smallest_difference_is_found_in_four_of_five_experiments():
    rng = np.random.default_rng(2)
    values = pd.Series(rng.normal(0.5, 0.3, 300))
    shift = smallest_difference(values)
    noise = rng.normal(shift, 0.3, (2_000, 300))  # differences that vary as the values do
    p_values = stats.ttest_1samp(noise, 0, axis=1).pvalue
    assert 0.74 < (p_values < 0.05).mean() < 0.86


def test_too_few_and_constant_values_say_nothing():
    ids = [f"q{i}" for i in range(20)]
    values = pd.Series(np.arange(20.0), ids, name="run")
    assert "too few" in conclusion(seen(ids[:15]), values, "RR")[0]
    assert "the same RR by run" in conclusion(seen([]), values * 0, "RR")[0]


def test_means_over_clean_and_over_all_queries_stand_side_by_side_and_are_not_compared():
    ids = [f"q{i}" for i in range(20)]
    hard_ones_seen = pd.Series(np.arange(20) / 20, ids, name="BM25 (k1 = 0.9, b = 0.4)")
    told = conclusion(seen(ids[:5]), hard_ones_seen, "nDCG@10")
    assert "as BM25 (k1 = 0.9, b = 0.4) does and correlate" in told[0] and "mean" not in told[0]
    assert told[1] == (
        "nDCG@10 of BM25 (k1 = 0.9, b = 0.4) is 0.600 on the 15 clean test queries and 0.475 on "
        "all 20 that are judged. Do not compare a mean over clean queries with one over all: they "
        "are other queries, here easier ones."
    )
    easy_ones_seen = conclusion(seen(ids[:5]), 1 - hard_ones_seen, "nDCG@10")
    assert easy_ones_seen[1].endswith("here harder ones.")
    all_clean = conclusion(seen([]), hard_ones_seen, "nDCG@10")
    assert "(all test queries" not in all_clean[0]
    assert "0.475 on the 20 judged test queries, which are all clean" in all_clean[1]


def test_the_decision_depends_on_what_is_left():
    ids = [f"q{i}" for i in range(20)]
    assert "nothing is to be dropped" in conclusion(seen([]), None, "RR")[-1]
    some = conclusion(seen(ids[:3]), None, "RR")
    assert "leave out the 2 training queries" in some[-2] and "--clean FOLDER" in some[-1]
    assert "2 test queries are not clean only because of near-duplicates" in some[1]
    few = conclusion(seen(ids[:15]), None, "RR")
    assert "5 clean queries tell nothing apart" in few[-1] and "--clean" not in few[-1]
    assert not any("tell apart is told" in line for line in conclusion(seen(ids), None, "RR"))
    assert answer(seen(ids[:3])) == (
        "17 of 20 test queries remain clean (85.0 %): 3 have a near-duplicate among the training "
        "queries, 1 share a relevant passage with them, 1 both."
    )


def seen(ids):
    """An audit of 20 test queries of which these are seen, the first also by its passage."""
    table = pd.DataFrame({"test_query_id": ids, "test_query": "a"})
    table["near_duplicates"] = 1
    table["shared_passages"] = [int(place == 0) for place in range(len(ids))]
    names = ["q1", "q2"] if ids else []
    nothing = pd.DataFrame()
    tables = (nothing, nothing, nothing, ids, names, "", "", table)
    near = Nearness(0.5, 0.5, 20, 0.6, 0.6, 50, 0.25)
    return Audit(
        *tables,
        n_test=20,
        n_train=50,
        threshold=0.9,
        just_below=nothing,
        nearness=near,
        unpaired="",
    )


def test_bm25_is_searched_where_no_run_is_given_and_it_is_installed(monkeypatch):
    side = read("mini", "test")
    values = values_of_system(side, "", "nDCG@10")
    assert (
        values.name == "BM25 (k1 = 0.9, b = 0.4)"
        and len(values) == len(side.queries)
        and 0 < values.mean() < 1
    )
    monkeypatch.setitem(sys.modules, "pyserini", None)  # as where it is not installed
    assert values_of_system(side, "", "nDCG@10") is None
    known_by_text = side._replace(known_by="text")
    assert values_of_system(known_by_text, "", "nDCG@10") is None


def test_a_run_of_other_queries_and_no_clean_query_are_refused(files, capsys):
    (files / "run").write_text("other Q0 d 1 1 own\n")
    assert main(arguments(files, "--run", f"{files}/run")) == 2
    assert "none of the judged test queries" in capsys.readouterr().err
    (files / "train.tsv").write_text((files / "test.tsv").read_text())
    assert main(arguments(files, "--clean", f"{files}/clean")) == 2
    printed = capsys.readouterr()
    assert "none of 40 test queries is clean" in printed.err
    assert "0 of 40 test queries remain clean" in printed.out  # it is reported all the same
    assert (files / "out" / "drop_train.txt").exists() and not (files / "clean").exists()
