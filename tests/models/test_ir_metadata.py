"""A run with a header: the same hits, and a header that says what it was computed from."""

import numpy as np
import pytest
import yaml

from interextra.data.queries import Queries, Source
from interextra.data.runs import RunFile
from interextra.models.planning import model_of
from interextra.models.recipe import load_recipe
from interextra.models.search.ir_metadata import BEGIN, END, header, record_of, write_described
from interextra.models.search.run import Run
from interextra.store.folders import Store

HEADINGS = {"platform", "research goal", "implementation", "method", "actor", "data"}


def parsed(text: str) -> dict:
    """The YAML of a header, as a reader of ir_metadata takes it out of a run."""
    lines = [line for line in text.splitlines() if line.startswith("# ")]
    assert lines[0] == f"# {BEGIN}" and lines[-1] == f"# {END}"
    return yaml.safe_load("\n".join(line[2:] for line in lines[1:-1]))


@pytest.fixture
def run():
    rows, scores = np.array([[0, 1], [1, 0]]), np.array([[2.5, 1.0], [3.0, 0.5]])
    return RunFile.from_arrays(["q1", "q2"], ["a", "b"], rows, scores)


def test_our_reader_skips_the_header_and_finds_the_same_hits(tmp_path, run):
    path = tmp_path / "deep" / "test.trec"
    write_described(run, path, {"actor": {"role": "reproducer"}, "data": {"name": "a: b # c"}})
    run.write_trec(tmp_path / "plain.trec")
    text = path.read_text()
    assert parsed(text)["data"]["name"] == "a: b # c"
    hits = [line for line in text.splitlines(keepends=True) if not line.startswith("#")]
    assert "".join(hits) == (tmp_path / "plain.trec").read_text()
    assert RunFile.read(path).frame().equals(run.frame())
    assert [file.name for file in path.parent.iterdir()] == ["test.trec"]


def test_no_line_of_a_header_is_a_hit_whatever_it_says():
    text = header({"question": "first\nsecond line that\tis long " + "x" * 2000})
    assert all(line.startswith("# ") for line in text.splitlines())
    assert parsed(text)["question"].endswith("x" * 2000)


@pytest.fixture
def made(tmp_path, tiny):
    """A run of BM25 on four passages, in a store."""
    store = Store(tmp_path / "outputs" / "cells")
    source = Source.of(f"beir:{tiny}")
    train, test = (Queries(source=source, split=split) for split in ("train", "test"))
    ranking = Run(model=model_of(load_recipe("bm25"), train, 1), queries=(test,), depth=2)
    store.build(ranking)
    return ranking, test, store


def test_a_record_has_all_headings_and_what_the_cell_was_made_from(made):
    ranking, test, store = made
    record = record_of(ranking, test, store)
    assert record.keys() - {"schema version"} == HEADINGS
    assert parsed(header(record)) == record
    collection = record["data"]["test collection"]
    assert collection["topics"] == "test" and collection["number of topics"] == test.size()
    [trained] = record["data"]["training data"]
    assert trained["name"].startswith("train of beir:")
    [stage] = record["method"]["retrieval"]
    assert stage["method"] == "bm25" and stage["depth"] == 2 and stage["key"] == ranking.key
    assert record["platform"]["software"]["python"].startswith("3.")
    assert record["implementation"]["source"]["commit"]


def test_the_header_has_no_absolute_path_but_that_of_the_collection(made, tmp_path):
    ranking, test, store = made
    text = header(record_of(ranking, test, store)).replace(test.source.spec, "")
    assert str(tmp_path) not in text
