"""Measures against ir_measures, pytrec_eval, ranx and brute force, on random runs."""

import itertools
import json
import os
import re
import subprocess
import sys
from typing import NamedTuple

import ir_measures
import numpy as np
import pandas as pd
import pytest
import pytrec_eval

from interextra.data.runs import RunFile
from interextra.data.trec import read_qrels
from interextra.measures.evaluate import check, in_random_order, per_query, report, values
from interextra.store.cells import Cell
from interextra.store.errors import InputError

TREC = {
    "nDCG@10": "ndcg_cut_10",
    "nDCG": "ndcg",
    "RR": "recip_rank",
    "R@5": "recall_5",
    "P@5": "P_5",
    "AP": "map",
    "AP@5": "map_cut_5",
    "infAP": "infAP",
    "Bpref": "bpref",
    "Success@3": "success_3",
}
BY_LEVEL = ["RR", "R@5", "P@5", "AP", "AP@5", "Bpref", "infAP", "Success@3"]
ANY_TIES = [
    *TREC,
    *(re.sub(r"^(\w+)", rf"\1(rel={rel})", name) for name in BY_LEVEL for rel in (2, 3)),
]
NO_TIES = [
    "RR@5",
    "RR(rel=2)@5",
    "Judged@5",
    "Judged",
]  # ir_measures breaks ties of these by doc_id ascending


def world(seed: int, tied: bool, lowest: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Random run and qrels: ragged depth, queries on one side only, queries judged all 0, unjudged
    passages.
    """
    rng = np.random.default_rng(seed)
    docs, run, qrels = [f"d{i}" for i in range(40)], [], []
    for query in range(30):
        if query % 7:  # some queries are missing from the run
            picked = rng.permutation(40)[: rng.integers(1, 30)]
            scores = (
                rng.integers(0, 5, len(picked))
                if tied
                else rng.permutation(1000)[: len(picked)] / 7
            )
            run += [
                (f"q{query}", docs[doc], score) for doc, score in zip(picked, scores, strict=True)
            ]
        if query % 5:  # some have no qrels
            picked = rng.permutation(40)[: rng.integers(1, 25)]
            grades = (
                np.zeros(len(picked), int)
                if query % 9 == 0
                else rng.integers(lowest, 4, len(picked))
            )
            qrels += [
                (f"q{query}", docs[doc], grade) for doc, grade in zip(picked, grades, strict=True)
            ]
    return (
        pd.DataFrame(run, columns=["query_id", "doc_id", "score"]),
        pd.DataFrame(qrels, columns=["query_id", "doc_id", "relevance"]).sample(
            frac=1, random_state=seed
        ),
    )


def with_ir_measures(run: pd.DataFrame, qrels: pd.DataFrame, measures: list[str]) -> pd.DataFrame:
    """Values per query; what it leaves out is a query missing from the run, which its own means
    count as 0.
    """
    asked = [ir_measures.parse_measure(name) for name in measures]
    rows = pd.DataFrame(ir_measures.iter_calc(asked, qrels, run)).astype({"measure": str})
    return (
        rows.pivot(index="query_id", columns="measure", values="value")
        .reindex(qrels.query_id.unique())
        .fillna(0.0)
    )


def nested(frame: pd.DataFrame, value: str, kind: type) -> dict[str, dict]:
    return {
        query: {doc: kind(x) for doc, x in zip(part.doc_id, part[value], strict=True)}
        for query, part in frame.groupby("query_id")
    }


@pytest.mark.parametrize("lowest", [0, -2])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_values_per_query_are_those_of_ir_measures(seed, tied, lowest):
    run, qrels = world(seed, tied, lowest)
    measures = ANY_TIES + ([] if tied else NO_TIES)
    ours, theirs = (
        per_query(RunFile.from_frame(run), qrels, measures),
        with_ir_measures(run, qrels, measures),
    )
    assert ours.index.tolist() == qrels.query_id.unique().tolist() and ours.index.name == "query_id"
    assert ours.columns.tolist() == measures
    np.testing.assert_allclose(ours, theirs[measures], rtol=0, atol=1e-9)
    assert (ours.to_numpy().std(axis=0) > 0).all()  # no measure is compared by constants only
    means = ir_measures.calc_aggregate(
        [ir_measures.parse_measure(name) for name in measures], qrels, run
    )
    for name, value in means.items():
        assert per_query(RunFile.from_frame(run), qrels, measures)[
            str(name)
        ].mean() == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_values_per_query_are_those_of_pytrec_eval(seed, level):
    run, qrels = world(seed, tied=True)
    theirs = pytrec_eval.RelevanceEvaluator(
        nested(qrels, "relevance", int), set(TREC.values()), relevance_level=level
    )
    theirs = pd.DataFrame(theirs.evaluate(nested(run, "score", float))).T
    names = {
        name: re.sub(r"^(\w+)", rf"\1(rel={level})", name) if name in BY_LEVEL else name
        for name in TREC
    }
    ours = per_query(RunFile.from_frame(run), qrels, list(names.values()))
    assert 0 < len(theirs) < len(ours)
    for name, trec in TREC.items():
        np.testing.assert_allclose(
            ours.loc[theirs.index, names[name]], theirs[trec], rtol=0, atol=1e-9
        )


def test_means_without_ties_are_those_of_ranx():
    """In a process of its own: compiling ranx takes half a minute, interpreting it nothing."""
    run, qrels = world(0, tied=False)
    names = {
        "nDCG@10": "ndcg@10",
        "RR@10": "mrr@10",
        "R@10": "recall@10",
        "P@5": "precision@5",
        "AP": "map",
    }
    names["R(rel=2)@10"] = "recall@10-l2"
    code = (
        "import json, sys, ranx; qrels, run, names = json.load(sys.stdin)\n"
        "print(json.dumps(ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), names, make_comparable=True)))"
    )
    given = json.dumps(
        [nested(qrels, "relevance", int), nested(run, "score", float), list(names.values())]
    )
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], input=given, env=environment, capture_output=True, text=True
    )
    assert not done.returncode, done.stderr
    theirs, ours = (
        json.loads(done.stdout),
        per_query(RunFile.from_frame(run), qrels, list(names)).mean(),
    )
    for own, name in names.items():
        assert ours[own] == pytest.approx(theirs[name], abs=1e-9)


def test_ties_of_rr_and_judged_with_cutoff_are_those_of_trec_eval_not_of_ir_measures():
    """All tied: trec_eval ranks d9 first, ir_measures' RR@k and Judged@k rank d0 first."""
    run = pd.DataFrame({"query_id": "q", "doc_id": [f"d{i}" for i in range(10)], "score": 1.0})
    qrels = pd.DataFrame({"query_id": ["q"], "doc_id": ["d9"], "relevance": [1]})
    measures = ["RR", "RR@10", "Judged@1"]
    ours, theirs = (
        per_query(RunFile.from_frame(run), qrels, measures),
        with_ir_measures(run, qrels, measures)[measures],
    )
    assert ours.loc["q"].tolist() == [1.0, 1.0, 1.0]
    assert theirs.loc["q"].tolist() == [1.0, 0.1, 0.0]


def test_missing_query_counts_as_zero_and_asl_as_its_bound():
    qrels = pd.DataFrame({"query_id": ["q1", "q2"], "doc_id": ["d", "d"], "relevance": [1, 1]})
    run = RunFile.from_arrays(
        ["extra", "q2", "empty"], ["d"], np.array([[0], [0], [-1]]), np.ones((3, 1))
    )
    values = per_query(run, qrels, ["nDCG@10", "RR", "Bpref", "Judged@10", "ASL@100"])
    assert values.loc["q1"].tolist() == [0, 0, 0, 0, 100]
    assert values.loc["q2"].tolist() == [1, 1, 1, 1, 0]
    assert values.mean().tolist() == [0.5, 0.5, 0.5, 0.5, 50]


def test_a_run_without_passages_counts_as_zero_everywhere():
    qrels = pd.DataFrame({"query_id": ["q1"], "doc_id": ["d"], "relevance": [1]})
    for query_ids in ([], ["q1"]):
        run = RunFile.from_arrays(
            query_ids, ["d"], np.full((len(query_ids), 3), -1), np.zeros((len(query_ids), 3))
        )
        assert not per_query(run, qrels, [*ANY_TIES, *NO_TIES]).any(axis=None)
        assert per_query(run, qrels, ["ASL@100"]).loc["q1"].item() == 100


def test_query_ids_and_doc_ids_may_be_numbers_in_the_qrels():
    qrels = pd.DataFrame({"query_id": [7], "doc_id": [3], "relevance": [1]})
    run = RunFile.from_arrays(["7"], ["3"], np.zeros((1, 1), int), np.ones((1, 1)))
    assert per_query(run, qrels, ["RR"]).loc["7"].item() == 1


def ranked(n: int) -> RunFile:
    return RunFile.from_arrays(
        ["q"], [f"d{i}" for i in range(1, n + 1)], np.arange(n)[None], -np.arange(n)[None]
    )


def judged(*docs: str) -> pd.DataFrame:
    return pd.DataFrame({"query_id": "q", "doc_id": docs, "relevance": 1})


@pytest.mark.parametrize(
    ("docs", "value"),
    [
        (["d1"], 0),
        (["d1", "d3"], 0.5),
        (["absent"], 100),
        (["d2", "absent"], 50.5),
        (["d500"], 100),
        (["d101"], 100),
        (["d100"], 99),
    ],
)
def test_asl_test_vectors(docs, value):
    assert per_query(ranked(1000), judged(*docs), ["ASL@100"]).loc["q"].item() == value


def brute_force_asl(run: RunFile, qrels: pd.DataFrame, bound: int, rel: int) -> list[float]:
    lists = {query: part.doc_id.tolist() for query, part in run.frame().groupby("query_id")}
    values = []
    for query in qrels.query_id.unique():
        relevant = set(qrels.doc_id[(qrels.query_id == query) & (qrels.relevance >= rel)])
        found = lists.get(query, [])
        if not relevant or not found:
            values.append(bound)
            continue
        total = 0
        for doc in relevant:
            above = found[: found.index(doc)] if doc in found else []
            total += (
                min(sum(other not in relevant for other in above), bound) if doc in found else bound
            )
        values.append(total / len(relevant))
    return values


@pytest.mark.parametrize("rel", [1, 2])
@pytest.mark.parametrize("bound", [3, 10, 100])
def test_asl_is_that_of_brute_force(rel, bound):
    frame, qrels = world(1, tied=True, lowest=-1)
    run = RunFile.from_frame(frame)
    expected = brute_force_asl(run, qrels, bound, rel)
    ours = per_query(run, qrels, [f"ASL(rel={rel})@{bound}"])
    np.testing.assert_allclose(ours.iloc[:, 0], expected, rtol=0, atol=1e-12)


UNKNOWN = [
    "ndcg@10",
    "nDCG@0",
    "nDCG@ten",
    "nDCG(rel=2)@10",
    "R",
    "P",
    "ASL",
    "Bpref@10",
    "AP(rel=x)",
    "AP(rel=0)",
]
UNKNOWN += ["ASL(missing=bound)@100", "AP(judged_only=True)", "", "AP@10 x"]


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_measure_is_an_error_that_names_it_before_anything_is_measured(name):
    with pytest.raises(InputError, match="measure") as error:
        check(["AP", name])
    assert repr(name) in str(error.value)
    with pytest.raises(InputError, match="no measure given"):
        check([])


@pytest.mark.parametrize(
    ("qrels", "part"),
    [
        (judged(), "empty"),
        (
            pd.concat([judged("d1"), judged("d1")]),
            "row 2: 1 rows repeat a query_id and doc_id: 'q d1'",
        ),
        (judged("d1").assign(relevance=0.5), "0.5"),
        (judged("d1").assign(query_id=None), "empty"),
    ],
)
def test_bad_qrels_are_input_errors(qrels, part):
    with pytest.raises(InputError, match="qrels") as error:
        per_query(ranked(3), qrels, ["AP"])
    assert part in str(error.value)


def test_printed_lines_are_those_of_the_command_of_ir_measures(tmp_path):
    run, qrels = world(3, tied=False)
    RunFile.from_frame(run).write_trec(tmp_path / "run.gz")
    RunFile.from_frame(run).write_trec(tmp_path / "run.txt")
    lines = [f"{query} 0 {doc} {grade}\n" for query, doc, grade in qrels.itertuples(index=False)]
    (tmp_path / "qrels.txt").write_text("".join(lines))
    measures = ["nDCG@10", "AP(rel=2)", "RR@10"]
    files = [str(tmp_path / "qrels.txt"), str(tmp_path / "run.txt")]
    command = [sys.executable, "-m", "ir_measures", *files, *measures]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = per_query(
        RunFile.read(tmp_path / "run.gz"), read_qrels(tmp_path / "qrels.txt"), measures
    )
    assert report(found, each=False) == theirs
    ours = report(found, each=True).splitlines()
    assert ours[-3:] == ["all\t" + line for line in theirs.splitlines()]
    assert len(ours) == 3 * (qrels.query_id.nunique() + 1)
    assert ours[0] == f"{found.index[0]}\tnDCG@10\t{found.iloc[0, 0]:.4f}"


class Judged(NamedTuple):
    """Stands for `Queries`: what `values` asks of one."""

    name: str
    judged: pd.DataFrame

    def qrels(self, store) -> pd.DataFrame:
        return self.judged

    @property
    def split(self) -> str:
        return self.name

    @property
    def source(self) -> "Judged":
        return self

    spec = "judged"

    def open(self) -> "Judged":
        return self

    def queries(self, split) -> pd.DataFrame:
        """Two queries are about one entity each."""
        query_ids = self.judged["query_id"].unique()
        about = [[f"entity {at // 2}"] for at in range(len(query_ids))]
        known = {
            "query_id": query_ids,
            "text": "x",
            "entities": about,
            "intent": "",
            "intent_group": "",
        }
        return pd.DataFrame(known)


class Searched(NamedTuple):
    """Stands for a Run cell, of a reranker where `rerank_depth` is finite."""

    key: str
    queries: tuple[Judged, ...]
    rerank_depth: float = np.inf

    def read(self, store, queries) -> RunFile:
        return RunFile.read(store[self] / f"run.{queries.name}.parquet")


class Other(Cell):
    """A cell that a design may hold besides."""

    def build(self, folder, store) -> None: ...


@pytest.fixture
def design(tmp_path):
    """Two runs over two test sets; the store is a dict of folders."""
    sets = tuple(Judged(f"set{i}", world(i, tied=False)[1]) for i in range(2))
    rows, store = [], {}
    for seed in range(2):
        run = Searched(f"{tmp_path} {seed}", sets)
        store[run.key] = tmp_path / str(seed)
        store[run.key].mkdir()
        for i in range(2):
            RunFile.from_frame(world(10 * seed + i, tied=False)[0]).write_parquet(
                store[run.key] / f"run.set{i}.parquet"
            )
        rows.append({"model": "BM25", "seed": seed, "run": run})
    return pd.DataFrame(rows), Shelf(store)


class Shelf(dict):
    measured = None

    def __getitem__(self, run: Searched):
        return super().__getitem__(run.key)


def test_recall_that_the_first_stage_settles_has_no_value(design):
    """R@100 of a reranker of ten passages is BM25's: its "no loss" said nothing."""
    frame, store = design
    runs = [frame["run"][0], frame["run"][1]._replace(rerank_depth=10)]
    frame = pd.DataFrame({"model": ["BM25", "Reranker"], "run": runs})
    names = ["nDCG@10", "R@9", "R@10", "R(rel=2)@100", "P@20", "Success@10"]
    table = values(frame, store, names)
    assert table["measure"][table["model"] == "BM25"].unique().tolist() == names
    assert table["measure"][table["model"] == "Reranker"].unique().tolist() == ["nDCG@10", "R@9"]
    everything = values(design[0], store, ["nDCG@10", "R@9"]).query("seed == 1")
    assert table.loc[table["model"] == "Reranker", "value"].tolist() == everything["value"].tolist()


def test_values_are_those_of_each_run_file_with_its_labels(design):
    frame, store = design
    names = ["nDCG@10", "AP(rel=2)"]
    table = values(
        frame.assign(near=[Other()] * len(frame)), store, names
    )  # another cell is no label
    assert table.columns.tolist() == [
        "model",
        "seed",
        "test_set",
        "query_id",
        "unit",
        "measure",
        "value",
    ]
    expected = {}
    for row in frame.itertuples():
        for part in row.run.queries:
            run = RunFile.read(store[row.run] / f"run.{part.name}.parquet")
            found = with_ir_measures(run.frame(), part.judged, names)
            expected |= {
                (row.seed, part.name, query, name): found.loc[query, name]
                for query in found.index
                for name in names
            }
    ours = table.set_index(["seed", "test_set", "query_id", "measure"])["value"]
    assert len(ours) == len(expected) and (table["model"] == "BM25").all()
    assert ours.to_dict() == pytest.approx(expected, abs=1e-9)
    orders = [
        part["query_id"].tolist() for _, part in table.groupby(["test_set", "seed", "measure"])
    ]
    assert (
        orders[0]
        == orders[1]
        == orders[2]
        == orders[3]
        == frame["run"][0].queries[0].judged["query_id"].unique().tolist()
    )


def test_queries_about_the_same_entities_are_one_unit(design):
    frame, store = design
    table = values(frame[:1], store, ["RR"])
    first = table[table["test_set"] == "set0"]
    assert first["unit"].tolist()[:4] == ["entity 0", "entity 0", "entity 1", "entity 1"]


def test_random_order_of_the_first_passages_is_the_mean_over_orders(design):
    """200 orders of one test set."""
    frame, store = design
    first_set = frame["run"][0].queries[:1]
    depth, searched = 3, frame["run"][0]._replace(queries=first_set)
    some = frame[:1].assign(run=[searched])
    drawn = [in_random_order(some, store, ["RR"], depth, seed) for seed in range(10)]
    table = pd.concat(drawn).groupby(["test_set", "query_id"])["value"].mean()
    run, qrels = (
        RunFile.read(store[searched] / "run.set0.parquet").frame(),
        searched.queries[0].judged,
    )
    right = qrels[qrels["relevance"] >= 1].groupby("query_id")["doc_id"].agg(set)
    for query_id, part in run[
        (run["rank"] <= depth) & run["query_id"].isin(qrels["query_id"])
    ].groupby("query_id"):
        orders = list(itertools.permutations(part["doc_id"]))
        each = [
            next((1 / (at + 1) for at, doc in enumerate(o) if doc in right.get(query_id, ())), 0)
            for o in orders
        ]
        assert table["set0", query_id] == pytest.approx(np.mean(each), abs=0.08)


def test_a_query_s_own_passage_is_left_out_where_it_is_asked_for_and_only_there(tmp_path):
    """BEIR's way with ArguAna; where ids are mere numbers, a passage with the query's id is one
    like any other.
    """
    judged = pd.DataFrame({"query_id": ["1", "2"], "doc_id": ["9", "2"], "relevance": 1})
    run = Searched(f"{tmp_path} own", (Judged("set0", judged),))
    store = Shelf({run.key: tmp_path})
    found = pd.DataFrame(
        {"query_id": ["1", "1", "2", "2"], "doc_id": ["1", "9", "2", "1"], "score": [2.0, 1, 2, 1]}
    )
    RunFile.from_frame(found).write_parquet(tmp_path / "run.set0.parquet")
    frame = pd.DataFrame(
        {"model": ["as it is", "without"], "skip_own": [False, True], "run": [run, run]}
    )
    table = values(frame, store, ["RR"])
    assert "skip_own" not in table and table["value"].tolist() == [0.5, 1.0, 1.0, 0.0]


def test_a_run_is_measured_once_in_a_process(design):
    frame, store = design
    first = values(frame, store, ["AP"])
    for folder in store.values():
        for path in folder.iterdir():
            path.unlink()
    assert values(frame, store, ["AP"]).equals(first)
    with pytest.raises(InputError, match="run.set0.parquet"):
        values(frame, store, ["RR"])


def test_strata_are_labels_of_queries_and_every_query_needs_one(design):
    frame, store = design
    label = pd.Series({f"q{i}": "even" if i % 2 == 0 else "odd" for i in range(30)})
    table = values(frame, store, ["AP"], label)
    assert table.columns.tolist() == [
        "model",
        "seed",
        "test_set",
        "query_id",
        "unit",
        "stratum",
        "measure",
        "value",
    ]
    assert (table["stratum"] == table["query_id"].map(label)).all() and table[
        "stratum"
    ].nunique() == 2
    with pytest.raises(InputError, match="no label for 1 queries .'q8'"):
        values(frame, store, ["AP"], label.drop("q8"))


def test_values_of_no_run_and_of_an_unknown_measure_are_errors(design):
    frame, store = design
    with pytest.raises(InputError, match="nothing to measure"):
        values(frame[:0], store, ["AP"])
    with pytest.raises(InputError, match="unknown measure 'nope'"):
        values(frame, store, ["nope"])


@pytest.mark.parametrize("kind", ["uint8", "uint64", "int8"])
def test_the_type_of_whole_relevance_does_not_matter(kind):
    """Of unsigned relevance the negative is large, so that nDCG had another ideal ranking."""
    qrels = pd.DataFrame({"query_id": "q", "doc_id": ["a", "b", "c"], "relevance": [2, 0, 1]})
    run = RunFile.from_arrays(
        ["q"], ["a", "b", "c"], np.array([[1, 2, 0]]), np.array([[3.0, 2.0, 1.0]])
    )
    expected = per_query(run, qrels, ["nDCG@10", "nDCG@2", "AP"])
    pd.testing.assert_frame_equal(
        per_query(run, qrels.astype({"relevance": kind}), [*expected]), expected
    )


@pytest.mark.parametrize("column", ["query_id", "doc_id"])
def test_qrels_whose_ids_became_floats_are_refused(column):
    """They matched nothing: every value was 0, without a word."""
    qrels = pd.DataFrame({"query_id": [1, 2], "doc_id": [1, 2], "relevance": [1, 1]})
    run = RunFile.from_arrays(["1", "2"], ["1", "2"], np.array([[0], [1]]), np.ones((2, 1)))
    assert per_query(run, qrels, ["RR"])["RR"].tolist() == [1, 1]
    with pytest.raises(InputError, match=f"qrels: {column} 1.0 is a float; read ids as strings"):
        per_query(run, qrels.astype({column: float}), ["RR"])
