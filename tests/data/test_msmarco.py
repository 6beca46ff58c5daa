"""MS MARCO queries without passages, on the real files."""

import pytest

from interextra.data.msmarco import TEST_FILES, QuerySets
from interextra.data.queries import Queries, Source
from interextra.store.errors import InputError


def test_judged_queries_are_those_of_the_papers(real_data):
    sets = QuerySets(real_data, "msmarco-queries")
    assert [len(sets.queries(split)) for split in ("dl19", "dl20", "dev")] == [43, 54, 6980]
    assert sets.queries("dl19").set_index("query_id")["text"]["156493"] == "do goldfish grow"


def test_no_test_query_is_a_training_query(real_data):
    sets = QuerySets(real_data, "msmarco-queries")
    train = set(sets.query_ids("train"))
    assert len(train) > 100_000
    assert not any(train & set(sets.query_ids(split)) for split in ("dl19", "dl20", "dev"))


def test_fingerprint_follows_the_content(real_data, tmp_path):
    copy = tmp_path / "msmarco"
    copy.mkdir()
    for path in (real_data / "msmarco").glob("*"):
        (copy / path.name).write_bytes(path.read_bytes())
    assert QuerySets(tmp_path, "").fingerprint == QuerySets(real_data, "").fingerprint
    with (copy / "topics.dl20.txt").open("a") as file:
        file.write("1\tone more query\n")
    assert QuerySets(tmp_path, "").fingerprint != QuerySets(real_data, "").fingerprint


def test_missing_files_are_named(tmp_path):
    with pytest.raises(InputError, match="no training queries; put the official queries.train.tsv"):
        QuerySets(tmp_path, "msmarco-queries")
    (tmp_path / "msmarco").mkdir()
    (tmp_path / "msmarco" / "queries.train.tsv").write_text("1\ta query\n")
    with pytest.raises(InputError, match="topics.dl19-passage.txt: no such file"):
        QuerySets(tmp_path, "msmarco-queries").queries("dl19")


def test_a_callers_change_of_the_training_queries_reaches_no_other_caller(tmp_path):
    (tmp_path / "msmarco").mkdir()
    (tmp_path / "msmarco" / "queries.train.tsv").write_text("3\ta query\n1\tof a test set\n")
    for topics, qrels in TEST_FILES.values():
        (tmp_path / "msmarco" / topics).write_text("1\tof a test set\n")
        (tmp_path / "msmarco" / qrels).write_text("1 0 d 1\n")
    sets = QuerySets(tmp_path, "msmarco-queries")
    queries = sets.queries("train")
    queries["text"] = "changed"
    assert sets.queries("train").to_numpy().tolist() == [["3", "a query"]]


def test_topics_and_qrels_of_two_releases_leave_no_query(tmp_path, monkeypatch):
    (tmp_path / "msmarco").mkdir()
    (tmp_path / "msmarco" / "queries.train.tsv").write_text("3\ta query\n")
    for topics, qrels in TEST_FILES.values():
        (tmp_path / "msmarco" / topics).write_text("1\ta query\n")
        (tmp_path / "msmarco" / qrels).write_text("2 0 d 1\n")
    monkeypatch.setattr(
        "interextra.data.queries.open_collection", lambda spec: QuerySets(tmp_path, spec)
    )
    with pytest.raises(InputError, match="msmarco-queries: the split 'dl19' is empty"):
        Queries(source=Source.of("msmarco-queries"), split="dl19").ids()
