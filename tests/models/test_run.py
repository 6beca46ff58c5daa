"""A model is trained once and searches anything: other collections, other depths, fused; its
weights may be freed.
"""

import json
import zipfile

import pandas as pd
import pytest
from toy_cells import Visible

from interextra.data.pricing import pricing
from interextra.data.queries import Part, Queries, Source
from interextra.data.runs import RunFile
from interextra.measures import evaluate as measures
from interextra.models.model import Model, file_of
from interextra.models.planning import model_of
from interextra.models.recipe import load_recipe
from interextra.models.search.run import Encoded, Fused, Imported, Run, Searched
from interextra.models.search.vectors import GivenFile
from interextra.site.travel import CELLS, RUN, RUNS, SKIPS, VALUES, Reference, write_runs
from interextra.splits.shift import Shift
from interextra.store import schedule, workers
from interextra.store.errors import InputError
from interextra.store.folders import Store

TRAIN, ELSEWHERE = "mini:n_train=400,n_dev=40", "mini:ood-hobby-questions"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("home") / "outputs" / "cells")


def queries(spec, split):
    return Queries(source=Source.of(spec), split=split)


def run(recipe, *asked, depth=10):
    model = Model.of(recipe, queries(TRAIN, "train"), seed=1)
    return Run(model=model, queries=asked or (queries(TRAIN, "dev"),), depth=depth)


BM25 = load_recipe("bm25{k1: [0.9], b: [0.4]}")
DENSE = load_recipe("mini-dense", steps=2)


def read(store, cell, name="dev"):
    return cell.read(store, name)


def test_model_is_trained_once_and_searches_another_collection(home):
    here, there = run(DENSE), run(DENSE, queries(ELSEWHERE, "test"))
    home.build(here)
    assert here.model.key == there.model.key
    assert [type(cell).__name__ for cell in home.missing([there])] == ["Run"]
    home.build(there)
    found = read(home, there, "test")
    assert set(found.query_ids) == set(queries(ELSEWHERE, "test").ids())
    assert set(found.frame()["doc_id"]) <= set(
        queries(ELSEWHERE, "test").source.open().passages.doc_ids.to_pylist()
    )


def test_all_sets_of_queries_are_searched_at_once_and_kept_apart(home):
    both = run(BM25, queries(TRAIN, "dev"), queries(TRAIN, "test"))
    home.build(both)
    alone = run(BM25)
    home.build(alone)
    assert read(home, both).frame().equals(read(home, alone).frame())
    assert set(read(home, both, "test").query_ids) == set(queries(TRAIN, "test").ids())


def test_run_is_there_without_the_weights_that_made_it(home):
    cell = run(DENSE)
    home.build(cell)
    home.plan(cell), home.plan(cell.model)
    weights = home.path(cell.model) / "weights"
    assert weights.is_dir()
    home.clean()
    Store._valid.clear()
    assert not weights.exists() and home.missing([cell]) == []
    deeper = run(DENSE, depth=20)
    assert [type(item).__name__ for item in home.missing([deeper])] == ["Model", "Run"]
    log = json.loads((home[cell] / "training.json").read_text())
    assert log["n_train"] == 400 and log["steps"] == 2


def test_weights_stay_while_a_planned_run_needs_them(home):
    home.build(run(DENSE))
    home.build(run(DENSE).model)
    home.plan(run(DENSE, depth=30))
    home.clean()
    assert (home.path(run(DENSE).model) / "weights").is_dir()


@pytest.mark.parametrize("how", [{"method": "rrf"}, {"method": "wsum", "weights": (0.3, 0.7)}])
def test_fusion_is_the_sum_of_its_parts_and_breaks_ties_as_every_run_does(home, how):
    runs, weights = (run(BM25), run(DENSE)), how.get("weights", (1, 1))
    home.build(fused := Fused(runs=runs, depth=10, **how))
    parts = []
    for weight, one in zip(weights, runs, strict=True):
        frame = read(home, one).frame()
        low, high = (
            frame.groupby("query_id")["score"].transform(end).astype(float)
            for end in ("min", "max")
        )
        scaled = (frame["score"].astype(float) - low) / (high - low).clip(1e-9)
        parts.append(
            frame.assign(
                score=1 / (60 + frame["rank"]) if how["method"] == "rrf" else weight * scaled
            )
        )
    every = pd.concat(parts).groupby(["query_id", "doc_id"], as_index=False)["score"].sum()
    expected = (
        RunFile.from_frame(every).frame().query("rank <= 10").set_index(["query_id", "doc_id"])
    )
    found = read(home, fused).frame().set_index(["query_id", "doc_id"])
    assert found["rank"].to_dict() == expected["rank"].to_dict()
    assert found["score"].to_numpy() == pytest.approx(
        expected.loc[found.index, "score"].to_numpy(), rel=1e-5
    )
    assert (
        every.groupby("query_id")["score"].agg(lambda scores: scores.duplicated().any()).any()
    )  # there are ties


@pytest.mark.parametrize("how", [{"method": "rrf"}, {"method": "wsum", "weights": (0.5, 0.5)}])
def test_query_that_one_run_lacks_keeps_the_order_of_the_other(home, tmp_path, how):
    dense = run(DENSE)
    home.build(dense)
    home.build(run(BM25))
    lacking = read(home, run(BM25)).frame()
    lacking = lacking[lacking["query_id"] != dense.queries[0].ids()[0]]
    RunFile.from_frame(lacking).write_trec(tmp_path / "lacking.trec")
    given = Imported(
        file=GivenFile.of(tmp_path / "lacking.trec"), queries=dense.queries, missing_queries=True
    )
    home.build(given)
    for runs in ((given, dense), (dense, given)):
        home.build(fused := Fused(runs=runs, depth=10, **how))
        alone, both = (
            read(home, one).frame().groupby("query_id")["doc_id"].agg(list)
            for one in (dense, fused)
        )
        assert set(both.index) == set(alone.index)
        assert [
            query_id for query_id in alone.index if both[query_id] == alone[query_id]
        ] == dense.queries[0].ids()[:1]


def test_weight_of_one_leaves_the_order_of_its_run(home):
    bm25 = run(BM25)
    fused = Fused(runs=(bm25, run(DENSE)), method="wsum", weights=(1.0, 0.0), depth=5)
    home.build(fused)
    frame = pd.DataFrame({"run": [bm25, fused], "model": ["BM25", "fused"]})
    values = measures.values(frame, home, ["RR@10"]).pivot(
        index="query_id", columns="model", values="value"
    )
    assert (values["BM25"] - values["fused"]).abs().mean() < 0.05
    with pytest.raises(InputError, match="a weight for each run"):
        home.build(Fused(runs=(bm25, run(DENSE)), method="wsum", weights=(1.0,)))
    with pytest.raises(InputError, match="rrf: it has no weights"):
        home.build(Fused(runs=(bm25, run(DENSE)), tuned=bm25.queries[0]))


def sample(n, seed, split="test"):
    return Queries(source=Source.of(TRAIN), split=split, limit=n, seed=seed)


def test_two_samples_of_a_split_in_one_run_are_ranked_and_measured_apart(home):
    one, two = sample(5, 1), sample(5, 2)
    assert set(one.ids()) != set(two.ids())
    home.build(both := run(BM25, one, two))
    home.build(whole := run(BM25, queries(TRAIN, "test")))
    for part in (one, two):
        assert set(both.read(home, part).query_ids) == set(part.ids())
    table = measures.values(pd.DataFrame({"run": [both]}), home, ["RR@10"])
    expected = measures.values(pd.DataFrame({"run": [whole]}), home, ["RR@10"]).set_index(
        "query_id"
    )["value"]
    assert expected[one.ids()].gt(0).all()
    for name, part in (("test (1)", one), ("test (2)", two)):
        rows = table[table["test_set"] == name]
        assert set(rows["query_id"]) == set(part.ids())
        assert rows["value"].tolist() == expected[rows["query_id"]].tolist()


def test_values_of_two_samples_of_a_split_travel_apart(home, tmp_path):
    one, two = sample(5, 1), sample(5, 2)
    home.build(both := run(BM25, one, two))
    design = pd.DataFrame({"run": [both], RUN: [both.identity], SKIPS: [False]})
    table = measures.values(design, home, ["RR@10"])
    (tmp_path / VALUES).mkdir()
    write_runs(tmp_path / RUNS, [table])
    zipfile.ZipFile(tmp_path / CELLS, "w").close()
    again = measures.values(design, Reference(tmp_path, home.root), ["RR@10"])
    assert again.equals(table)


def test_set_of_queries_that_is_not_ranked_is_named_with_those_that_are(home):
    both = run(BM25, sample(5, 1), sample(5, 2))
    home.build(both)
    with pytest.raises(
        InputError, match=r"has no ranking of 'test'; it has 'test \(1\)', 'test \(2\)'"
    ):
        both.read(home, "test")
    with pytest.raises(InputError, match="has no ranking of 'test of mini"):
        both.read(home, queries(TRAIN, "test"))


def test_label_of_a_training_set_may_hold_a_slash(home):
    """Hard negatives are read from a ranking of the training queries, whose file is named by what
    they are.
    """
    pool = sample(30, 1, "train")
    split = Shift(pool=pool, by="length:limit=9", clusters=(), n_test=2, train_size=0, seed=1)
    part = Part(of=split, part=split.parts()[0])
    model = model_of(load_recipe("mini-star"), part.model_copy(update={"part": "yes/no"}), 1)
    assert "/" not in file_of(model.train)


def test_queries_of_two_collections_are_no_run(home, tmp_path):
    here, there = queries(TRAIN, "dev"), queries(ELSEWHERE, "test")
    with pytest.raises(
        InputError, match=r"of several collections \('mini:n_train=400,n_dev=40', 'mini:ood-hobby"
    ):
        run(BM25, here, there)
    encoded = Encoded(model=run(DENSE).model, source=here.source)
    with pytest.raises(InputError, match="Searched: the queries are of several collections"):
        Searched(encoded=encoded, queries=(here, there))
    (tmp_path / "a.trec").write_text("1 Q0 a 1 1.0 x\n")
    with pytest.raises(InputError, match="Imported: the queries are of several collections"):
        Imported(file=GivenFile.of(tmp_path / "a.trec"), queries=(here, there))
    with pytest.raises(InputError, match="Fused: no set of queries is given"):
        Fused(runs=())


def test_changed_collection_is_not_the_planned_one():
    with pytest.raises(InputError, match="its content changed"):
        Source(spec=ELSEWHERE, fingerprint="0" * 64).open()


def test_plan_is_priced_before_a_download(monkeypatch, tmp_path):
    monkeypatch.setenv("INTEREXTRA_CACHE", str(tmp_path))
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "irds"))
    with pricing():
        model = Model.of(
            load_recipe("msmarco-dense"), queries("irds:msmarco-passage", "train"), seed=1
        )
    assert model.train.source.fingerprint == "" and model.train.size() == 502_939
    assert model.seconds() > 3600 and not list(tmp_path.rglob("*.tar.gz"))


def test_a_price_within_a_price_ends_only_itself(monkeypatch, tmp_path):
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "irds"))
    with pricing():
        with pricing():
            pass
        assert Source.of("irds:msmarco-passage").fingerprint == ""
        with pytest.raises(KeyError), pricing():
            raise KeyError
        assert Source.of("irds:msmarco-passage").fingerprint == ""


def test_as_many_workers_as_gpus_each_with_its_own(monkeypatch, tmp_path):
    for number in range(3):
        (tmp_path / "gpus" / f"0000:0{number}").mkdir(parents=True)
    monkeypatch.setattr(workers, "GPUS", tmp_path / "gpus")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    store, cells, numbers = Store(tmp_path / "cells"), [Visible(n=n) for n in range(16)], set()
    schedule.build_all(
        store, cells, watch=lambda running, ended: numbers.update(job.worker for job in running)
    )
    assert numbers == {1, 2, 3}
    assert {(store[cell] / "answer.txt").read_text() for cell in cells} <= {"0", "1", "2"}


def test_queries_that_are_not_there_are_found_wrong_when_they_are_planned():
    with pytest.raises(InputError, match="has no split 'teach'; it has train, dev"):
        queries(TRAIN, "teach")
    with (
        pricing(),
        pytest.raises(InputError, match="has no split 'nope'; it has train, dev, dl19, dl20"),
    ):
        queries("irds:msmarco-passage", "nope")
    with pytest.raises(InputError, match="-1 queries of the split 'dev': give a number, 0 for all"):
        Queries(source=Source.of(TRAIN), split="dev", limit=-1)
