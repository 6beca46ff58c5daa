"""A user's training is tried on each set of a split: models by what they can, one message for what
can nothing.
"""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from datasets import load_from_disk
from toy_topics import TOPICS

import interextra as ix
from interextra.cli import main
from interextra.own import cost
from interextra.own import probe as module
from interextra.own.split_folder import SplitFolder
from interextra.own.splitting import DEFAULTS, export, split_of
from interextra.store import progress
from interextra.store.errors import InputError

WORDS = sorted(
    {word for topic, words in TOPICS.items() for word in [topic, *words.split()]}
) + list("012345")


@pytest.fixture
def given(spec, store):
    options = DEFAULTS | {"size": 12}
    split = split_of("restrain", spec, options)
    store.build(split)
    export(split, store, Path("out"), options)
    return SplitFolder.open(Path("out"))


def bags(texts):
    """Counts of the words of the toy collection: a query and its passage have the same."""
    return np.array([[text.split().count(word) for word in WORDS] for text in texts], float)


class TwoEncoders:
    encode_query = staticmethod(bags)

    def encode_document(self, texts):
        return 2 * bags(texts)


class OneEncoder:
    similarity_fn_name = "cosine"

    def encode(self, texts):
        return bags(texts).tolist()


class Reranker:
    def predict(self, pairs):
        return [[float(bags([query])[0] @ bags([passage])[0])] for query, passage in pairs]


class Searcher:
    def search(self, queries):
        return {query_id: {f"p-{query_id}": 1.0, "p-plant-tulip-0": 0.5} for query_id in queries}


@pytest.mark.parametrize("model", [TwoEncoders(), OneEncoder(), Reranker(), Searcher()])
def test_a_model_searches_by_what_it_can(given, store, model):
    store.build(given.bm25)
    first = given.read(given.bm25, store)
    run = module.rank_with(model, given, first)
    best = run.frame().query("rank == 1").set_index("query_id")["doc_id"]
    assert best.to_dict() == {query_id: f"p-{query_id}" for query_id in given.queries["query_id"]}
    path = Path("found.run")
    run.write_trec(path)
    frame = run.frame().rename(columns={"query_id": "qid", "doc_id": "docno"})
    for same in (run, path, str(path), frame[["qid", "docno", "score"]]):
        assert module.rank_with(same, given, first).frame().equals(run.frame())


class Ragged:
    def encode(self, texts):
        return [np.ones((len(text.split()), 3)) for text in texts]


@pytest.mark.parametrize(
    ("model", "message"),
    [(object(), "gave object; it needs encode_query"), (Ragged(), "no matrix")],
)
def test_what_can_do_nothing_is_one_message(given, model, message):
    with pytest.raises(InputError, match=message):
        module.rank_with(model, given, None)


def test_a_planted_loss_of_a_training_is_found(spec, tmp_path):
    """The training sees its folder: the model here knows the topics of its training queries
    alone.
    """

    class Knowing(Searcher):
        def __init__(self, topics):
            self.topics = topics

        def search(self, queries):
            known = {query_id: query_id.split("-")[0] in self.topics for query_id in queries}
            found = {
                one: {f"p-{one}": 1.0 if ok else 0.1, "p-sky-aurora-0": 0.5}
                for one, ok in known.items()
            }
            for one in [one for one, ok in known.items() if not ok and one[-1] in "01"]:
                del found[one][f"p-{one}"]  # not all lose alike, which would say nothing of others
            return found

    seen = []

    def train(folder, seed):
        seen.append((folder.name, seed, (folder / "exposed.txt").is_file()))
        assert (
            len(load_from_disk(folder / "st"))
            and len(load_from_disk(folder.parent / "corpus")) == 72
        )
        return Knowing(
            {query_id.split("-")[0] for query_id in load_from_disk(folder / "ids")["query_id"]}
        )

    options = {
        "protocol": "shift",
        "attribute": "column:topic",
        "measures": ["RR@10"],
        "n_boot": 400,
    }
    found = ix.probe(train, spec, out=tmp_path / "probe", **options)
    assert seen == [
        (f"without-{topic}", seed, True) for topic in ("plant", "sky", "stone") for seed in (1, 2)
    ]
    every = found.changes.set_index("queries").loc["all"]
    assert every["interpolation"] == 1 and every["extrapolation"] < 0.7 and every["high"] < 0
    assert (tmp_path / "probe" / "regimes.html").is_file() and len(
        list((tmp_path / "probe" / "runs").iterdir())
    ) == 6
    again = ix.probe(train, spec, out=tmp_path / "probe", **options)
    assert again.changes.equals(found.changes)
    with pytest.raises(InputError, match="no option 'splits'"):
        ix.probe(train, spec, out=tmp_path / "probe", splits=3)
    with pytest.raises(InputError, match="is of other options"):
        ix.probe(train, spec, out=tmp_path / "probe", **options | {"seed": 2})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"measures": ["ASL@100"]}, "lower is better"),
        ({"measures": ["nDCG@ten"]}, "unknown measure"),
        ({"measures": []}, "no measure"),
        ({"seeds": []}, "--seeds"),
        ({"seeds": [1, 1]}, "--seeds"),
        ({"seeds": ["a"]}, "--seeds"),
        ({"margin": 0}, "--margin"),
        ({"n_boot": 3}, "--n-boot"),
        ({"size": float("nan")}, "--size"),
        ({"encoder": "word2vec"}, "no encoder"),
        ({"out": "taken"}, "taken is no folder"),
        ({"predictions": "taken/runs"}, "taken is no folder"),
        ({"format": ["csv"]}, "no format 'csv'"),
        ({"gate_split": "nothing"}, "no split 'nothing'"),
    ],
)
def test_what_can_be_refused_is_refused_before_training(spec, given, message):
    Path("taken").touch()
    trained = []
    with pytest.raises(InputError, match=message):
        ix.probe(lambda *asked: trained.append(asked), spec, **{"size": 12, "n_boot": 400} | given)
    assert not trained
    with pytest.raises(InputError, match="train is str"):
        ix.probe("train.py", spec)


def test_what_cannot_be_measured_is_refused_after_the_first_training(spec):
    trained = []

    def train(folder, seed):
        trained.append(folder.name)
        return {"another": {"p-sky-aurora-0": 1.0}}

    with pytest.raises(InputError, match="a hit for none of 24 test queries"):
        ix.probe(train, spec, size=12, n_boot=400)
    assert len(trained) == 1


def test_a_search_without_hits_counts_0(spec, capsys):
    """Of one query for each model; of all others the passage is first."""

    def train(folder, seed):
        queries = load_from_disk(folder.parent / "queries")
        asked = [
            line.split("\t")[0] for line in (folder.parent / "test.tsv").read_text().splitlines()
        ]
        assert not set(asked) & set(queries["query_id"])
        return {one: {f"p-{one}": 1.0} if at else {} for at, one in enumerate(asked)}

    found = ix.probe(train, spec, size=12, measures=["RR@10"], n_boot=400)
    values = found.values.groupby("query_id")["value"].mean()
    assert values.eq(0).sum() == 1 and values.eq(1).sum() == 23
    assert capsys.readouterr().err.count("1 of 24 test queries without a hit") == 4


def test_passages_that_no_trec_file_can_name_are_found(spec):
    """White space in the id of a passage that nobody judged: the runs are kept in a form that holds
    it.
    """
    with Path(spec.removeprefix("beir:"), "corpus.jsonl").open("a") as file:
        file.write(json.dumps({"_id": "blue sky", "text": "nothing of the kind"}) + "\n")

    def train(folder, seed):
        asked = [
            line.split("\t")[0] for line in (folder.parent / "test.tsv").read_text().splitlines()
        ]
        return {one: {"blue sky": 2.0, f"p-{one}": 1.0} for one in asked}

    found = ix.probe(train, spec, size=12, measures=["RR@10"], n_boot=400, out="spaced")
    assert (
        found.values["value"].eq(0.5).all()
        and len(list(Path("spaced/runs").glob("*.parquet"))) == 4
    )


def test_the_command_trains_on_each_set_and_says_first_what_it_costs(spec, capsys, monkeypatch):
    monkeypatch.setattr(progress, "MINUTE", 0.0)  # a line at every look, none of them in the JSON
    monkeypatch.setattr(cost, "BUDGET", 0.2)
    # each worker imports torch
    monkeypatch.setattr("interextra.store.schedule.n_workers", lambda n_cells: 1)
    asked = [
        "probe",
        "-m",
        "tiny-base",
        "--epochs",
        "2",
        "--collection",
        spec,
        "--size",
        "0.5",
    ]
    asked += ["--seeds", "1", "--batch-size", "4", "--measures", "RR@10", "--n-boot", "400"]
    assert main([*asked, "--json", "--prediction-folder", "runs"]) == 0
    out, error = capsys.readouterr()
    told = json.loads(out)
    assert {row["claim"] for row in told["claims"]} == {"loss", "lead"}
    assert "to differ from 0, and a loss of" in error and "to be above 5 % (about" in error
    assert len(told["gains"]) == 2 and told["answer_code"]
    assert "% done" in error and "in all" in error and "Promised" in error
    percents = [int(percent) for percent in re.findall(r"(\d+) % done", error)]
    assert percents == sorted(percents) and percents[-1] > 90
    runs = sorted(path.name for path in Path("runs").iterdir())
    assert runs == ["extrapolation-24.1.run", "given.run", "interpolation-24.1.run"]
    queries = pd.read_csv("runs/interpolation-24.1.run", sep=" ", header=None)[0].nunique()
    assert queries == 24 and "Recipe: learning rate" in Path("probe/regimes.html").read_text()
    recipe = json.loads(Path("probe/recipe.json").read_text())
    assert told["sentences"][-1].startswith("Recipe: learning rate")
    assert recipe["steps"] == 12 and recipe["recipe"]["passage_length"] % 8 == 0
    stages = pd.read_csv("probe/cost.csv").set_index("stage")["seconds"]
    assert stages["in all"] > 0 and stages["taken"] > 0
    assert (
        main([*asked, "-m", "no/such/folder"]) == 2 and "no such folder" in capsys.readouterr().err
    )
