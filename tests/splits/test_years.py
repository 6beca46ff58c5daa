"""Training sets up to a year, and the passages that are newer."""

import json

import numpy as np
import pandas as pd
import pytest

from interextra.data.queries import Queries, Source
from interextra.splits.years import ANY_YEAR, NewPassages, UpToYear, part_of, years_of
from interextra.store.errors import InputError
from interextra.store.folders import Store
from interextra.store.schedule import build_all

YEARS = [2018, 2018, 2019, 2020, 2020, 2021, "", 2022]


@pytest.fixture
def pool(tmp_path):
    """Queries of eight pages; the last page also answers a query of 2018 in another split."""
    folder = tmp_path / "pages"
    (folder / "qrels").mkdir(parents=True)
    passages = [{"_id": f"d{i}", "text": f"page {i}"} for i in range(8)]
    queries = []
    for i, year in enumerate(YEARS):
        queries.append({"_id": f"q{i}", "text": f"about {i}", "metadata": {"year": str(year)}})
    queries.append({"_id": "test", "text": "about 7", "metadata": {"year": "2018"}})
    for name, rows in (("corpus", passages), ("queries", queries)):
        lines = [json.dumps(row) for row in rows]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    head = "query-id\tcorpus-id\tscore\n"
    train = "".join(f"q{i}\td{i}\t1\n" for i in range(8))
    (folder / "qrels" / "train.tsv").write_text(head + train)
    (folder / "qrels" / "test.tsv").write_text(head + "test\td7\t1\n")
    return Queries(source=Source.of(f"beir:{folder}"), split="train")


def built(cell, tmp_path):
    store = Store(tmp_path / "outputs" / "cells")
    build_all(store, [cell])
    return store


def test_sets_have_one_size_and_no_query_of_after_the_year(pool, tmp_path):
    split = UpToYear(pool=pool, years=(2018, 2020), size=2, seed=1)
    assert split.parts() == ("up-to-2018", "up-to-2020", "any-year")
    sets = split.sets(built(split, tmp_path))
    assert {name: len(ids) for name, ids in sets.items()} == dict.fromkeys(split.parts(), 2)
    assert set(sets["up-to-2018"]) == {"q0", "q1"}
    assert set(sets["up-to-2020"]) <= {"q0", "q1", "q2", "q3", "q4"}


def test_a_year_with_too_few_queries_is_refused(pool):
    with pytest.raises(InputError, match="years: 2 queries up to 2018, and a set has 3"):
        UpToYear(pool=pool, years=(2018,), size=3)


def test_a_passage_is_new_where_none_of_its_queries_is_old(pool, tmp_path):
    """The query of 2018 in another split makes d7 old; d6 has no year."""
    new = NewPassages(pool=pool, year=2019)
    folder = built(new, tmp_path)[new]
    assert json.loads((folder / "doc_ids.json").read_text()) == ["d3", "d4", "d5"]


def test_a_column_that_holds_no_year_is_refused():
    queries = pd.DataFrame({"query_id": ["a"], "year": ["soon"]})
    with pytest.raises(InputError, match="no value of the column 'year' is a year: 'soon'"):
        years_of(queries, "year")
    with pytest.raises(InputError, match="no column 'added'; they have query_id, year"):
        years_of(queries, "added")
    assert np.isnan(years_of(pd.DataFrame({"year": ["2018", ""]}), "year")[1])


def test_sets_are_named_by_their_year():
    assert [part_of(2018), part_of(ANY_YEAR)] == ["up-to-2018", "any-year"]
