"""The functions that take frames find what the commands find, print it, draw it and return it."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from toy_own import written

import interextra as ix
from interextra.cli import main
from interextra.data.runs import RunFile
from interextra.own.split_folder import SplitFolder
from interextra.store.errors import InputError

PYTERRIER = {"query_id": "qid", "text": "query", "doc_id": "docno", "relevance": "label"}


class Frames:
    """What a user has in memory of a collection: frames with PyTerrier's names, or the kit's."""

    def __init__(self, spec, names):
        data = ix.open_collection(spec)
        self.queries = {
            split: data.queries(split)[["query_id", "text"]].rename(columns=names)
            for split in data.splits
        }
        self.qrels = {split: data.qrels(split).rename(columns=names) for split in data.splits}
        doc_id = names.get("doc_id", "doc_id")
        texts = data.passages.texts(slice(None))
        self.passages = pd.DataFrame({doc_id: data.passages.doc_ids.to_pylist(), "text": texts})

    @property
    def judgements(self):
        return {f"{split}_qrels": qrels for split, qrels in self.qrels.items()}


@pytest.mark.parametrize("names", [PYTERRIER, {}])
def test_an_audit_of_frames_is_the_one_of_the_command(spec, names, capsys):
    frames = Frames(spec, names)
    queries = frames.queries
    result = ix.audit(queries["train"], queries["test"], frames.passages, **frames.judgements)
    assert main(["audit", "--train", f"{spec}@train", "--test", f"{spec}@test", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    table = result.to_frame()
    assert table["n"].tolist() == [row["n"] for row in told["shares"]]
    assert result.found.compared == told["compared"]
    assert len(result.clean_queries) == 24
    assert table.to_string(index=False, float_format="%.1f") in str(result)
    assert "24 of 24 test queries remain clean" in result._repr_html_()
    assert isinstance(result.plot(), Figure)
    assert [path.name for path in result.write("out")][0] == "shares.csv"
    assert Path("clean/queries.tsv") in result.write_clean("clean")


def test_a_leak_in_a_frame_of_pairs_is_found_and_the_clean_queries_are_named():
    train = pd.DataFrame(
        {"anchor": ["who wrote faust", "what is tea"], "positive": ["Goethe", "a drink"]}
    )
    test = pd.DataFrame(
        {"query_id": [5, 6, 7], "question": ["Who wrote Faust?", "cats", "old cities"]}
    )
    test["answer"] = ["Goethe did", "A  Drink", "Rome"]
    result = ix.audit(train, test)
    assert result.found.test_queries == ["5", "6"] and result.clean_queries == ["7"]
    with_ids = test.rename(columns={"answer": "doc_id"})
    assert ix.audit(train.drop(columns="positive"), with_ids).found.test_queries == ["5"]


def test_what_clean_queries_can_tell_apart_is_told_from_any_form_of_a_run(spec):
    frames = Frames(spec, {})
    ids = frames.queries["test"]["query_id"]
    hits = {name: {f"p-{name}": 1.0 if at % 3 else 0.1, "p-x": 0.5} for at, name in enumerate(ids)}
    rows = [
        (name, doc_id, score) for name, found in hits.items() for doc_id, score in found.items()
    ]
    frame = pd.DataFrame(rows, columns=["qid", "docno", "score"])
    values = pd.DataFrame(
        {"qid": ids, "measure": "recip_rank", "value": [1 if at % 3 else 0.5 for at in range(24)]}
    )
    told = set()
    for run in (
        hits,
        frame,
        RunFile.from_frame(frame.set_axis(["query_id", "doc_id", "score"], axis=1)),
        values,
    ):
        queries = frames.queries
        result = ix.audit(
            queries["train"], queries["test"], run=run, measure="RR", **frames.judgements
        )
        told.add(str(result).partition("remain clean")[2])
    assert len(told) == 1 and "with 80 % power" in told.pop()


FRAME = pd.DataFrame(
    {"query_id": ["1", "2"], "text": ["what is tea", "where is rome"], "doc_id": ["a", "b"]}
)


@pytest.mark.parametrize(
    ("train", "qrels", "message"),
    [
        (FRAME.drop(columns="text"), None, "train: no column 'text'; it has 'query_id', 'doc_id'"),
        (FRAME.assign(query_id=[1.0, 2.0]), None, "train: query_id 1.0 is a float"),
        (FRAME.assign(text=["a", None]), None, "train: each row needs a text; rows: 1"),
        (FRAME.assign(query_id="1"), None, "train: texts of a query.*'1'"),
        (FRAME.assign(qid="1"), None, "train: a column stands twice"),
        (FRAME, FRAME, "judgements in the column doc_id and in a frame"),
        (FRAME.iloc[:0], None, "train: each row needs a text; rows: there is none"),
        (FRAME.assign(relevance=[1, 0.5]), None, "relevance 0.5; write whole numbers"),
        (FRAME[["text"]], FRAME, "train: no column 'query_id'"),
        (FRAME[["query_id", "text"]], FRAME[["query_id"]], "train, judgements: no column 'doc_id'"),
        (FRAME[["query_id", "text"]], FRAME.assign(query_id=["8", "9"]), "of none of the queries"),
        (FRAME[["query_id", "text"]], pd.concat([FRAME, FRAME]), "judgements: row 3.*repeat"),
    ],
)
def test_a_frame_with_other_columns_is_refused_with_what_it_has(train, qrels, message):
    with pytest.raises(InputError, match=message):
        ix.audit(train, FRAME, train_qrels=qrels)


def test_a_split_of_frames_is_the_one_of_the_collection(spec, store):
    frames = Frames(spec, PYTERRIER)
    queries = frames.queries
    options = {"size": 12, "other_encoder": "tf-idf", "format": ["ids"]}
    mine = ix.split(
        queries["train"],
        queries["test"],
        frames.passages,
        out="mine",
        **frames.judgements,
        **options,
    )
    same = ix.split(spec, out="same", **options)
    assert mine.sets == same.sets and set(mine.sets) == {"extrapolation-12", "interpolation-12"}
    assert mine.to_frame().equals(same.to_frame())
    for name in ("test.qrels", "gate.txt", "interpolation-12/exposed.txt"):
        assert Path(mine, name).read_text() == Path(same, name).read_text()
    assert os.fspath(mine) == "mine" and mine.spec == f"beir:{Path('mine-collection').resolve()}"
    assert "12 training queries" in str(mine) and "similarity" in mine._repr_html_()
    assert isinstance(mine.plot(), Figure)


def test_attributes_of_a_frame_can_be_left_out(spec):
    frames = Frames(spec, {})
    train = frames.queries["train"]
    topics = train.assign(topic=train["query_id"].str.split("-").str[0])
    shift = ix.split(
        topics,
        None,
        frames.passages,
        train_qrels=frames.qrels["train"],
        protocol="shift",
        attribute="column:topic",
        n_test=0.25,
        other_encoder="tf-idf",
        format=["ids"],
        out="shift",
    )
    assert shift.sets == ["without-plant", "without-sky", "without-stone"]


def test_what_no_trainer_can_take_is_refused(spec):
    frames = Frames(spec, {})
    queries = frames.queries
    with pytest.raises(InputError, match="a trainer needs passages"):
        ix.split(queries["train"], queries["test"], **frames.judgements)
    with pytest.raises(InputError, match="test: 48 query_ids are of another split"):
        ix.split(
            queries["train"],
            queries["train"],
            frames.passages,
            train_qrels=frames.qrels["train"],
            test_qrels=frames.qrels["train"],
        )
    with pytest.raises(InputError, match="train: no judgements by doc_id"):
        ix.split(queries["train"], None, frames.passages)
    with pytest.raises(InputError, match="no option 'sizes'"):
        ix.split(spec, sizes=3)
    with pytest.raises(InputError, match="passages: no column 'doc_id'"):
        ix.audit(queries["train"], queries["test"], queries["test"], **frames.judgements)


@pytest.fixture
def folds(spec, store):
    written(spec, store, "restrain", "folds", size=12, other_encoder="tf-idf")
    return SplitFolder.open(Path("folds"))


def drawn_values(folds):
    """Values of two trainings of each set, as PyTerrier's Experiment has them, beside BM25's."""
    ids = folds.queries["query_id"].tolist()
    tables = []
    for name, seed in itertools.product(folds.sets, (1, 2)):
        draw = np.random.default_rng([seed, len(name)])
        level = 0.5 if name.startswith("extrapolation") else 0.8
        values = level + draw.normal(scale=0.05, size=len(ids))
        tables.append(pd.DataFrame({"name": f"{name}.{seed}", "qid": ids, "value": values}))
    tables.append(pd.DataFrame({"name": "BM25 (pt)", "qid": ids, "value": 0.6}))
    return pd.concat(tables).assign(measure="recip_rank").sort_values(["name", "qid"])


def test_values_of_an_experiment_say_what_the_command_says_of_their_files(folds, capsys):
    values = drawn_values(folds)
    result = ix.regimes(values, "folds", baseline="BM25 (pt)", n_boot=200)
    for name, table in values.groupby("name"):
        table.to_csv(f"{name}.csv", index=False)
    trained = values[values["name"] != "BM25 (pt)"]
    trained.to_csv("all.csv")
    for runs in ("{part}.{seed}.csv", "all.csv"):
        options = ["--runs", runs, "--baseline", "BM25 (pt).csv", "-m", "RR", "--n-boot", "200"]
        assert main(["regimes", "--split", "folds", "--json", *options]) == 0
        told = json.loads(capsys.readouterr().out)
        assert result.sentences == told["sentences"]
        assert result.to_frame()["change"].tolist() == pytest.approx(
            [row["change"] for row in told["regimes"]]
        )
    assert result.changes.loc[0, "high"] < -0.2 and "BM25 (pt)" in str(result)
    assert isinstance(result.plot(), Figure) and "<table" in result._repr_html_()
    assert Path("report/regimes.html") in result.write("report").files


def test_runs_in_memory_are_named_by_their_training_set(folds):
    ids = folds.queries["query_id"]
    hits = {
        name: {f"p-{name}": 1.0 if at % 3 else 0.1, "p-sky-aurora-0": 0.5}
        for at, name in enumerate(ids)
    }
    frame = pd.DataFrame(
        [(name, *hit) for name, found in hits.items() for hit in found.items()],
        columns=["qid", "docno", "score"],
    )
    runs = {"extrapolation-12": hits, "interpolation-12": frame}
    result = ix.regimes(runs, "folds", baseline=frame, n_boot=100)
    assert result.values["measure"].unique().tolist() == ["nDCG@10"]
    assert result.changes["change"].eq(0).all()
    with pytest.raises(InputError, match="'dense': no training set of the split; name each"):
        ix.regimes(runs | {"dense": hits}, "folds", baseline=hits)
    with pytest.raises(InputError, match="are one training; keep one"):
        ix.regimes(runs | {"interpolation-12.1": hits}, "folds", baseline=hits)
    with pytest.raises(InputError, match="no values of 'extrapolation-12.1'"):
        ix.regimes({"interpolation-12": hits}, "folds", baseline=hits)
    with pytest.raises(InputError, match="no column 'measure', 'value'"):
        ix.regimes(frame.assign(name="interpolation-12"), "folds", baseline=hits)


LACKING = {
    "ix.probe(train=len, collection='mini')": "ix.probe needs pyserini",
    "ix.regimes({}, 'folds')": "ix.regimes without a baseline needs pyserini",
    "ix.fit": "ix.fit needs torch",
    "ix.RegimeEvaluator": "ix.RegimeEvaluator needs sentence_transformers",
    "ix.mine_hard_negatives": "ix.mine_hard_negatives needs sentence_transformers",
    "ix.audit(PAIRS, PAIRS, encoder='minilm')": "ix.audit needs sentence_transformers",
}


# The finder of installed modules, which finds none of the extra.
WITHOUT_EXTRAS = """
import sys
from importlib.machinery import PathFinder
from interextra.store.extras import MODULES

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in MODULES["train"]:
            return super().find_spec(name, path, target)

sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
import interextra as ix
import pandas as pd
PAIRS = pd.DataFrame({"anchor": ["what is tea", "where is rome"], "positive": ["a drink", "here"]})
for call in sys.argv[1:]:
    try:
        eval(call)
    except ValueError as error:
        print(error)
"""


def test_a_missing_extra_is_one_line_from_python_too(tmp_path):
    environment = os.environ | {"INTEREXTRA_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS, *LACKING],
        env=environment,
        capture_output=True,
        text=True,
    )
    lines = [
        f"{what}, which is not installed: pip install 'interextra[train]'"
        for what in LACKING.values()
    ]
    assert done.stdout.splitlines() == lines, done.stderr


def test_importing_the_package_and_the_help_of_a_command_load_nothing_heavy():
    code = "import sys, interextra; first = set(sys.modules); from interextra.cli import parser; parser()"
    code += "; print(*sorted({name.partition('.')[0] for name in first}))"
    code += "; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    imported, with_parser = map(set, map(str.split, done.stdout.splitlines()))
    heavy = {"numpy", "pandas", "pyarrow", "scipy", "sklearn", "matplotlib", "datasets", "faiss"}
    heavy |= {
        "torch",
        "transformers",
        "sentence_transformers",
        "pyserini",
        "jnius",
        "ranx",
        "IPython",
    }
    assert not imported & (heavy | {"pydantic", "yaml"}) and not with_parser & heavy
