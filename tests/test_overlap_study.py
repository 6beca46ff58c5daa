"""Notebooks 00 and 01: wrong parameters are refused before anything is computed; published overlap beside ours."""

import numpy as np
import pandas as pd
import pytest
from toy_parameters import COMMON

from interextra.experiments import overlap, start_here
from interextra.ground.errors import InputError


def test_one_system_alone_is_refused():
    """It ended in a traceback after all training."""
    with pytest.raises(InputError, match="'recipes': .* give two"):
        start_here.plan(COMMON | {"recipes": ["bm25"]})
    assert start_here.plan(COMMON | {"recipes": ["bm25", "mini-dense"]}).design["model"].tolist() == [
        "BM25",
        "DR (base)",
    ]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"sheets": ["here.csv", "nofile.csv"]}, "'sheets': no file 'nofile.csv'"),  # a traceback
        ({"graded_splits": ["nowhere"]}, "no split 'nowhere'"),
    ],
)
def test_files_and_splits_that_are_not_there_are_refused_by_the_plan(wrong, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.csv").touch()
    asked = COMMON | {"recipes": ["mini-dense"], "sheets": [], "candidates": 3, "graded_splits": ["test"]}
    assert overlap.plan(asked | {"sheets": ["here.csv"]}).candidates.k == 3
    with pytest.raises(InputError, match=words):
        overlap.plan(asked | wrong)


def test_published_overlap_has_the_labels_of_our_tables():
    table = overlap.published_overlap(1)
    assert table.query("test_set == 'dl19' and label == 'full'")["n"].item() == 27  # 63 % of 43
    ours = pd.DataFrame({"test_set": ["dl19", "dl20", "dev"], "relevance_threshold": [3, 1, 1], "min_shared": 2})
    ours = ours.assign(n_queries=43, n_overlapping=11, percent=25.6, low=14.9, high=40.2)
    published = overlap.beside_table_3(ours)["published_percent"]
    assert published.tolist()[:2] == [26, 76] and np.isnan(published[2])


def test_published_duplicates_are_found_among_candidates_whatever_their_case():
    first = overlap.table_4(NO_PAIRS, pd.DataFrame({"text": ["x"]})).iloc[0]
    pairs = pd.DataFrame([(first["test_query"].upper(), f" {first['train_query']}", 1, 0)], columns=NO_PAIRS.columns)
    found = overlap.table_4(pairs, pd.DataFrame({"text": [first["train_query"].upper()]}))
    assert len(found) == 7 and found["in_our_training_queries"].sum() == 1 == found["bm25_rank"].notna().sum()


NO_PAIRS = pd.DataFrame(columns=["test_query", "train_query", "bm25_rank", "embedding_rank"])
