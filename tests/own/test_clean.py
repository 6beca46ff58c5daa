"""What remains of a test set after an audit: its files, its power, and runs scored on it."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from interextra.cli import main
from interextra.own.audit import read
from interextra.own.clean import conclusion, smallest_difference, values_of_system

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
    assert f"36 of {N} test queries remain clean (90.0 %)." in told and "80 % power" in told
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
    sentences = json.loads(capsys.readouterr().out)["conclusion"]
    assert "give --run" in sentences[1] and "evaluate --only" in sentences[2]


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
    assert "too few" in conclusion(ids, ids[:15], values, "RR")[1]
    assert "the same RR by run" in conclusion(ids, [], values * 0, "RR")[1]
    assert conclusion(ids, [], values, "RR")[2] == "Nothing is to be dropped."


def test_bm25_is_searched_where_no_run_is_given():
    side = read("mini", "test")
    values = values_of_system(side, "", "nDCG@10")
    assert values.name == "BM25" and len(values) == len(side.queries) and 0 < values.mean() < 1
    known_by_text = side._replace(known_by="text")
    assert values_of_system(known_by_text, "", "nDCG@10") is None


def test_a_run_of_other_queries_and_no_clean_query_are_refused(files, capsys):
    (files / "run").write_text("other Q0 d 1 1 own\n")
    assert main(arguments(files, "--run", f"{files}/run")) == 2
    assert "none of the judged test queries" in capsys.readouterr().err
    (files / "train.tsv").write_text((files / "test.tsv").read_text())
    assert main(arguments(files, "--clean", f"{files}/clean")) == 2
    assert "none of 40 test queries is clean" in capsys.readouterr().err
