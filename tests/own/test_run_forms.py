"""Runs and values as MTEB, sentence-transformers and PyTerrier write them, and their faults."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
from toy_own import written

from interextra.cli import main
from interextra.data import converted
from interextra.data.queries import Part
from interextra.data.runs import RunFile
from interextra.measures.evaluate import per_query
from interextra.models.base import verified_base
from interextra.own.run_files import read_csv, read_run
from interextra.own.split_folder import SplitFolder
from interextra.own.values import measure_name, systems_of, values_of_run
from interextra.splits.split import Split
from interextra.store.errors import InputError

HITS = {"q1": {"a": 0.9, "b": 0.5}, "q2": {"c": 0.7}}
QRELS = pd.DataFrame({"query_id": ["q1", "q2"], "doc_id": ["b", "c"], "relevance": 1})


def mteb_file(folder, *parts):
    """{task}_predictions.json with some (subset, split, hits), added one by one as MTEB does."""
    found = {"mteb_model_meta": {"model_name": "toy/model", "revision": "no_revision_available"}}
    for subset, split, hits in parts:
        found.setdefault(subset, {})[split] = hits
    path = folder / "ToyRetrieval_predictions.json"
    path.write_text(json.dumps(found))
    return path


def test_of_several_splits_of_mteb_the_one_with_the_queries_is_read(tmp_path):
    other = {"q8": {"a": 1.0}, "q9": {"b": 1.0}}
    path = mteb_file(
        tmp_path, ("default", "dev", other), ("default", "test", HITS), ("fra", "test", other)
    )
    assert (
        read_run(path, ["q1", "q2"])
        .frame()
        .equals(
            RunFile.from_frame(
                pd.DataFrame(
                    [("q1", "a", 0.9), ("q1", "b", 0.5), ("q2", "c", 0.7)],
                    columns=["query_id", "doc_id", "score"],
                )
            ).frame()
        )
    )
    with pytest.raises(
        InputError,
        match="3 subsets and splits .'default/dev', 'default/test', 'fra/test'.; keep one",
    ):
        read_run(path)
    with pytest.raises(InputError, match="2 subsets and splits .'default/dev', 'fra/test'."):
        read_run(path, ["q8"])
    with pytest.raises(InputError, match="none of them has the queries"):
        read_run(path, ["another"])


def test_predictions_of_sentence_transformers_give_the_evaluators_own_values(tmp_path, capsys):
    queries = {"q1": "what is tea", "q2": "where is rome", "q3": "is gold a metal"}
    corpus = {"a": "tea is a hot drink", "b": "rome is an old city", "d": "gold is a metal"}
    relevant = {"q1": {"a"}, "q2": {"b"}, "q3": {"b", "d"}}
    model = SentenceTransformer(str(verified_base()), device="cpu")
    evaluator = InformationRetrievalEvaluator(
        queries,
        corpus,
        relevant,
        name="toy",
        write_predictions=True,
        precision_recall_at_k=[10],
        map_at_k=[100],
    )
    metrics = evaluator(model, output_path=str(tmp_path))
    [path] = tmp_path.glob("*_predictions_cosine.jsonl")
    rows = [(query, 0, doc, 1) for query, docs in relevant.items() for doc in docs]
    pd.DataFrame(rows).to_csv(tmp_path / "qrels", sep=" ", header=False, index=False)
    measures = {"nDCG@10": "ndcg@10", "RR@10": "mrr@10", "AP@100": "map@100"}
    options = ["--qrels", f"{tmp_path}/qrels", "--run", str(path), "-m", *measures, "--json"]
    assert main(["evaluate", *options]) == 0
    means = json.loads(capsys.readouterr().out)["means"]
    for ours, theirs in measures.items():
        assert means[ours] == pytest.approx(metrics[f"toy_cosine_{theirs}"]), ours


@pytest.mark.parametrize("name", ["run.csv", "ToyRetrieval_predictions.json"])
def test_evaluate_measures_every_form_alike(tmp_path, capsys, name):
    mteb_file(tmp_path, ("default", "dev", {"q7": {"a": 1.0}}), ("default", "test", HITS))
    (tmp_path / "run.csv").write_text("qid,docno,score,rank\nq1,a,.9,0\nq1,b,.5,1\nq2,c,.7,0\n")
    (tmp_path / "qrels").write_text("q1 0 b 1\nq2 0 c 1\n")
    run, qrels = str(tmp_path / name), str(tmp_path / "qrels")
    assert main(["evaluate", "--qrels", qrels, "--run", run, "-m", "RR"]) == 0
    assert capsys.readouterr().out == "RR\t0.7500\n"
    assert per_query(read_run(Path(run), ["q1"]), QRELS, ["RR"])["RR"].tolist() == [0.5, 1]


def test_names_of_trec_eval_are_those_of_ir_measures():
    pytrec_names = [
        "map",
        "ndcg_cut_10",
        "recip_rank",
        "recall_100",
        "P_5",
        "success_1",
        "map_cut_10",
    ]
    assert [measure_name(name) for name in pytrec_names] == [
        "AP",
        "nDCG@10",
        "RR",
        "R@100",
        "P@5",
        "Success@1",
        "AP@10",
    ]
    for name in ("nDCG@10", "R(rel=2)@100", "ASL@100", "Judged@10", "my_own_10", "P_all"):
        assert measure_name(name) == name


def test_a_frame_of_pyterrier_is_taken_with_the_measures_it_was_asked_for(spec, store, tmp_path):
    written(spec, store, "restrain", "out", size=12, other_encoder="tf-idf")
    given = SplitFolder.open(Path("out"))
    ids = given.queries["query_id"]
    frame = pd.concat(
        [
            pd.DataFrame({"name": "m", "qid": ids, "measure": measure, "value": value})
            for measure, value in (("ndcg_cut_10", 0.25), ("map", 0.5))
        ]
    ).sort_values(["name", "qid"])
    values = values_of_run(frame, given, ["nDCG@10"], source="pt")
    assert values["value"].eq(0.25).all() and set(values["query_id"]) == set(ids)
    frame.to_csv(tmp_path / "with index.csv")
    assert values_of_run(tmp_path / "with index.csv", given, ["AP"])["value"].eq(0.5).all()
    assert list(systems_of(frame)) == ["m"]
    with pytest.raises(InputError, match="pt: no values of 'RR'"):
        values_of_run(frame, given, ["RR"], source="pt")
    with pytest.raises(InputError, match="pt: 1 queries are missing"):
        values_of_run(frame[frame["qid"] != ids[3]], given, ["AP"], source="pt")
    with pytest.raises(InputError, match="several systems"):
        values_of_run(pd.concat([frame, frame.assign(name="n")]), given, ["AP"])


@pytest.mark.parametrize(
    ("rows", "n_wrong"),
    [
        (["q 0 a 1 3 t", "q 0 b 2 2 t", "r 0 a 1 1 t"], 0),
        (["q 0 a 1 1 t", "q 0 b 2 2 t", "r 0 a 1 1 t"], 1),
        (["q 0 b 2 2 t", "q 0 a 1 1 t", "r 0 a 2 1 t", "r 0 b 1 0 t more of it"], 2),
        (["q 0 a 1 1 t", "q 0 b 1 2 t"], 0),  # one rank for all
        (["q 0 a 1 1 t", "q 0 b 2 1.00000000001 t"], 0),  # a tie in single precision
        (["q 0 a 1 5 t", "q 0 b 2 4 t", "q 0 c 2 6 t"], 1),
        (["q 0 a first 1 t", "q 0 b - 2 t"], 0),  # no ranks
        (["q 0 a 10 1 t", "q 0 b 9 2 t"], 0),  # numbers, not texts
    ],
)
def test_ranks_that_contradict_the_scores_are_one_warning(tmp_path, capsys, rows, n_wrong):
    path = tmp_path / "a.run"
    path.write_text("\n".join(rows) + "\n")
    run = read_run(path)
    assert (
        run.frame().groupby("query_id")["score"].apply(lambda of: of.is_monotonic_decreasing).all()
    )
    warned = capsys.readouterr().err
    assert warned.count("\n") == (n_wrong > 0)
    if n_wrong:
        assert f"a.run: rank and score disagree in {n_wrong} of" in warned


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("qid,docno,score\nq1,a,1\n\nq2,b,high\n", "a.csv:4: score 'high' is no number"),
        (
            "qid,docno,score\nq1,a,1\nq2,,1\n",
            "a.csv:3: an empty query_id or doc_id or score in 1 rows: ('q2', '', 1)",
        ),
        (
            "qid,docno,score\nq1,a,1\nq1,a,2\n",
            "a.csv:3: 1 rows repeat a query_id and doc_id: 'q1 a'",
        ),
        (
            "name,qid,measure,value\nm,q1,AP,.5\nm,q2,AP,\n",
            "a.csv:3: an empty name or query_id or measure or value",
        ),
        (
            "name,qid,measure,value\nm,q1,AP,.5\nm,q1,AP,.6\n",
            "a.csv:3: 1 rows repeat a name and query_id and measure",
        ),
        ("name,qid,measure,value\nm,q1,AP,a lot\n", "a.csv:2: value 'a lot' is no number"),
    ],
)
def test_a_fault_of_a_table_is_named_with_its_line(tmp_path, text, message):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(message)):
        read_csv(path)


@pytest.mark.parametrize(
    ("queries", "qrels", "message"),
    [
        ({"query_id": ["1"]}, QRELS, "test:x: the reader's queries have no column 'text'"),
        ({"id": ["1"], "text": ["tea"]}, QRELS, "no column 'query_id'.*have 'id', 'text'"),
        (
            {"query_id": ["1"], "text": ["tea"]},
            QRELS.drop(columns="relevance"),
            "qrels of split 'test' have no column 'relevance'",
        ),
    ],
)
def test_a_column_that_a_reader_does_not_deliver_is_named(tmp_path, queries, qrels, message):
    parts = converted.Parts([("a", "text")], pd.DataFrame(queries), {"test": qrels}, str)
    with pytest.raises(InputError, match=message):
        converted.stored(tmp_path / "c", "c", "test:x", lambda: parts, set())


def test_a_set_that_a_split_did_not_write_is_named(spec, store, monkeypatch):
    split, _ = written(spec, store, "restrain", "out", size=12, other_encoder="tf-idf")
    monkeypatch.setattr(Split, "sets", lambda self, store: {})
    with pytest.raises(InputError, match="'interpolation-12' is empty, or sets.json lacks it"):
        Part(of=split, part="interpolation-12").ids(store)
