"""A model that was trained on the training queries is found; one trained on others is not."""

from itertools import combinations
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
    assert found["others"].n_training > 100 and found["others"].n_held_out > 300
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


def sides(leads, kinds="", baseline=0.0, n_training=200):
    """Queries with these leads, of which the first train, each with an answer of its own."""
    table = {"value": baseline + np.asarray(leads), "baseline": baseline, "kind": kinds}
    query_ids = [f"q{number:04}" for number in range(len(leads))]
    queries = pd.DataFrame(table, query_ids)
    return queries.assign(answer=query_ids, is_training=np.arange(len(leads)) < n_training)


def test_kinds_are_compared_with_themselves():
    """Training queries of an easy kind that is rare among held-out ones show nothing."""
    generator = np.random.default_rng(2)
    kinds = np.array(["easy"] * 180 + ["hard"] * 20 + ["easy"] * 10 + ["hard"] * 190)
    leads = generator.normal(size=400) * 0.2 + np.where(kinds == "easy", 0.5, 0)
    assert leads[:200].mean() - leads[200:].mean() > 0.3
    found = seen.compared(sides(leads, kinds), 1, 2000)
    assert not found.is_shown and found.low < 0 < found.high
    leads[:200] += 0.2
    found = seen.compared(sides(leads, kinds), 1, 2000)
    assert found.is_shown and found.difference == pytest.approx(0.2, abs=0.1)
    found = seen.compared(sides(np.ones(400)), 1, 400)
    assert found.why_not == "all queries have the same value"
    found = seen.compared(sides(np.ones(400), n_training=391), 1, 400)
    assert found.why_not.startswith("fewer than 10")


def test_a_model_that_finds_nothing_has_seen_nothing():
    """Though it trails BM25 by less on training queries where these are harder for BM25."""
    generator = np.random.default_rng(3)
    found_by_bm25 = generator.random(400) < np.repeat([0.4, 0.6], 200)
    baseline = np.where(found_by_bm25, generator.choice([0.43, 0.5, 0.63, 1], 400), 0)
    values = np.where(generator.random(400) < 0.1, 0.5, 0)
    leads = values - baseline
    assert leads[:200].mean() - leads[200:].mean() > 0.1
    found = seen.compared(sides(leads, baseline=baseline), 1, 2000)
    assert not found.is_shown and abs(found.difference) < 0.03


def test_queries_with_the_same_answer_count_once():
    """As does a table without the others."""
    leads = np.random.default_rng(4).choice([0, 0, 0.5, 1], 60)
    queries = sides(leads, n_training=30)
    copies = queries.rename(index="{}x".format)
    twice = pd.concat([queries, copies.assign(value=1.0)])
    assert seen.compared(twice, 1, 500) == seen.compared(queries, 1, 500)


def test_the_p_value_is_that_of_all_permutations():
    """Of the differences if any of the queries of each kind had trained."""
    leads = np.array(
        [1, 0.6, 0, 1, 0.4, 0.5, 0, 0, 0.3, 0, 0, 1, 1, 0.2, 0.6, 0, 0.4, 0, 0.1, 0, 0]
    )
    kinds = np.array(["a"] * 5 + ["b"] * 5 + ["a"] * 6 + ["b"] * 5)
    found = seen.compared(sides(leads, kinds, n_training=10), 1, 20_000)
    differences = []
    for kind, weight in (("a", 6 / 11), ("b", 5 / 11)):
        of_kind = leads[kinds == kind]
        rows = range(len(of_kind))
        splits = [np.isin(rows, chosen) for chosen in combinations(rows, 5)]
        means = [of_kind[is_in].mean() - of_kind[~is_in].mean() for is_in in splits]
        differences.append(weight * np.array(means))
    every = np.add.outer(*differences)
    assert found.difference == pytest.approx(differences[0][0] + differences[1][0])
    exact = (every >= found.difference - 1e-12).mean()
    assert found.p_value == pytest.approx(exact, abs=0.01) and 0.02 < exact < 0.5


def test_the_level_holds_for_few_queries_with_equal_leads():
    """Four of 400 simulated tests are expected to raise an alarm; ten hardly come by chance."""
    generator = np.random.default_rng(5)
    alarms = 0
    for seed in range(200):
        for n_training in (30, 150):
            n = n_training + 30
            rare = generator.choice([0.0, -1.0, -0.5], n, p=[0.9, 0.05, 0.05])
            alarms += seen.compared(sides(rare, n_training=n_training), seed, 400).is_shown
    assert alarms < 10
