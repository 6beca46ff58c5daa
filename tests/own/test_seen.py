"""A model that was trained on the training queries is found; one trained on others is not."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import interextra as ix
from interextra.cli import main
from interextra.data.queries import Queries
from interextra.models.planning import model_of
from interextra.models.recipe import changed, load_recipe
from interextra.models.search.run import Run
from interextra.own import seen, splitting
from interextra.own.split_folder import SplitFolder
from interextra.own.values import values_of_run

OPTIONS = splitting.DEFAULTS | {"size": 100, "encoder": "lsa", "other_encoder": "tf-idf"}
MEASURE = "nDCG@10"


@pytest.fixture
def mini(house, store, monkeypatch):
    """A split of mini whose sample has 150 training queries."""
    monkeypatch.setattr(splitting, "N_SAMPLED", 150)
    split = splitting.split_of("restrain", "mini", OPTIONS)
    store.build(split)
    splitting.export(split, store, Path("folds"), OPTIONS)
    return SplitFolder.open(Path("folds"))


@pytest.mark.mini
def test_a_model_trained_on_the_training_queries_is_found(mini, store):
    """And one that was trained as long on the test queries is not."""
    folder = mini.with_training_sample()
    store.build(folder.bm25)
    baseline = values_of_run(folder.read(folder.bm25, store), folder, [MEASURE])
    recipe = changed(load_recipe("mini-dense"), steps=40, epochs=None)
    others = Queries(source=mini.split.pool.source, split="test")
    found = {}
    for name, queries in (
        ("seen", splitting.training_sample(mini.split)),
        ("others", others),
    ):
        model = model_of(recipe, queries, 0)
        run = Run(model=model, queries=folder.bm25.queries, depth=100)
        store.build(run)
        values = values_of_run(folder.read(run, store), folder, [MEASURE])
        found[name] = seen.has_seen(folder, values, baseline, MEASURE, n_boot=2000)
    assert found["seen"].is_shown and found["seen"].low > 0.3
    assert not found["others"].is_shown and abs(found["others"].difference) < 0.2
    assert found["others"].n_training == 150 and found["others"].n_held_out == 400
    assert found["seen"].sentence(MEASURE).startswith(seen.VERDICT)
    assert "is not shown" in found["others"].sentence(MEASURE)


def ranked(folder, is_good):
    """A ranking of each query, whose answers are first or fourth."""
    answers = folder.qrels[folder.qrels["relevance"] >= 1].groupby("query_id")["doc_id"].first()
    fill = folder.passages.doc_ids.to_pylist()[:4]
    hits = {}
    for number, (query_id, answer) in enumerate(answers.items()):
        place = 0 if is_good(query_id, number) else 3
        doc_ids = [doc_id for doc_id in fill if doc_id != answer][:3]
        doc_ids.insert(place, answer)
        hits[query_id] = {doc_id: float(-rank) for rank, doc_id in enumerate(doc_ids)}
    return hits


def test_the_report_of_a_model_that_has_seen_the_queries_concludes_nothing(mini, capsys):
    """The first line says so, and the model and BM25 stand beside the fine-tuned ones."""
    sampled = mini.with_training_sample()
    training = set(sampled.sampled_ids)
    knowing = ranked(sampled, lambda query_id, number: query_id in training or number % 4 == 0)
    blank = ranked(sampled, lambda query_id, number: number % 4 == 0)
    told = {}
    for name, given in (("knowing", knowing), ("blank", blank)):
        more = {"out": name, "given": given, "n_boot": 400, "seeds": [1]}
        told[name] = ix.probe(lambda folder, seed: blank_test(blank, mini), "mini", **more, **own())
    first = told["knowing"].sentences[0]
    assert first.startswith(seen.VERDICT) and "one-sided p" in first
    loss = told["knowing"].claims.set_index("claim").loc["loss"]
    assert loss["verdict"] == "undecided" and loss["size"] == "" and "has seen" in loss["reason"]
    assert not any(line.startswith(seen.VERDICT) for line in told["blank"].sentences)
    assert "is not shown" in told["blank"].sentences[-1]
    systems = told["blank"].systems
    names = ["BM25", "model as given", "fine-tuned, interpolation", "fine-tuned, extrapolation"]
    assert systems["system"].tolist() == names and systems["n_queries"].nunique() == 1
    assert systems["mean"].iloc[1] == pytest.approx(systems["mean"].iloc[2])
    assert Path("knowing/systems.csv").is_file()
    # the same by the command, from files
    lines = Path("knowing/split/training.tsv").read_text().splitlines()
    assert {line.split("\t")[0] for line in lines} == training
    rows = [(q, d, s) for q, hits in knowing.items() for d, s in hits.items()]
    pd.DataFrame(rows, columns=["qid", "docno", "score"]).to_csv("given.csv", index=False)
    asked = ["regimes", "--split", "knowing/split", "--runs", "knowing/runs/{part}.{seed}.run"]
    assert main([*asked, "--given", "given.csv", "--n-boot", "400"]) == 0
    assert capsys.readouterr().out.startswith(seen.VERDICT)


def own():
    """The options that differ from the defaults."""
    return {name: OPTIONS[name] for name in ("size", "encoder", "other_encoder")}


def blank_test(hits, folder):
    """The rankings of the test queries alone."""
    return {query_id: hits[query_id] for query_id in folder.queries["query_id"] if query_id in hits}


def test_kinds_are_compared_with_themselves():
    """Training queries of an easy kind that is rare among held-out ones show nothing."""
    generator = np.random.default_rng(2)
    kinds = ["easy"] * 180 + ["hard"] * 20 + ["easy"] * 10 + ["hard"] * 190
    query_ids = [f"q{number}" for number in range(400)]
    leads = pd.Series(generator.normal(size=400) * 0.2, query_ids)
    leads += np.where(np.array(kinds) == "easy", 0.5, 0)
    training, held_out = leads[:200], leads[200:]
    found = seen._compared(training, held_out, pd.Series(kinds, query_ids), 1, 2000)
    assert training.mean() - held_out.mean() > 0.3
    assert not found.is_shown and found.low < 0 < found.high
    found = seen._compared(training + 0.2, held_out, pd.Series(kinds, query_ids), 1, 2000)
    assert found.is_shown and found.difference == pytest.approx(0.2, abs=0.1)
    constant = pd.Series(1.0, query_ids)
    found = seen._compared(constant[:200], constant[200:], pd.Series("", query_ids), 1, 400)
    assert found.why_not == "all queries have the same lead"
