"""Notebook 09: its plan, its sums by hand, what stands above an answer, and MS MARCO's counts."""

import numpy as np
import pandas as pd
import pytest

from interextra.data.runs import RunFile
from interextra.experiments import exposure
from interextra.experiments.exposure import DENSE
from interextra.experiments.plans import plan_of
from interextra.ground.cells import Store
from interextra.ground.effects import effects
from interextra.ground.errors import InputError
from interextra.papers.claims import gate

P = {
    "collection": "mini:n_train=600",
    "train_split": "train",
    "train_limit": 0,
    "shift": "wh-words/how/who",
    "n_test": 15,
    "train_size": 0,
    "steps": 2,
    "recipes": ["bm25"],
    "conditions": [
        "DR (base) | in-batch | mini-dense{negatives: in-batch}",
        "DR (base) | random | mini-dense{negatives: random}",
        "SPLADE | BM25 | mini-splade{negatives: bm25+in-batch}",
    ],
    "controlled": [DENSE],
    "doses": [0.5, 1.0],
    "seeds": [1, 2, 3],
    "other_seeds": [1, 2],
    "depth": 10,
    "seed": 1,
}


def test_plan_has_each_condition_without_each_cluster_and_passages_only_where_negatives_are_drawn():
    plan = plan_of("09_negative_exposure", P)
    counted = plan.design.groupby(exposure.CONDITION).size().div(2).astype(int).to_dict()
    assert counted == {
        ("BM25", "none", "all"): 1,
        (DENSE, "in-batch", "all"): 3,
        **{(DENSE, "random", which): 3 for which in ("all", "unexposed", "control")},
        **{("SPLADE", "BM25", which): 2 for which in ("all", "unexposed")},
    }
    recipes = {
        run.model.recipe.negative_passages for run in plan.design["run"] if run.model.recipe.architecture != "bm25"
    }
    assert recipes == {"all", "unexposed", "control"}
    assert plan.dose["share"].value_counts().to_dict() == {0.5: 6, 1.0: 6}
    assert {run.model.recipe.negative_passages for run in plan.dose["run"]} == {0.5, 1.0}
    with pytest.raises(InputError, match=r"SYSTEM \| NEGATIVES \| RECIPE"):
        exposure.plan(P | {"conditions": ["x | y"]})
    with pytest.raises(InputError, match="'controlled': 'nope' is no system of 'conditions'"):
        exposure.plan(P | {"controlled": [DENSE, "nope"]})
    with pytest.raises(InputError, match="'recipes': no system is BM25 with the label 'BM25'"):
        exposure.plan(P | {"recipes": ["Lexical | bm25"]})


def values(losses, n=200, noise=0.02):
    """Values of one stratum: Avg In .8 (BM25 .5), Out so that the loss of each condition is as given."""
    random, parts, base = np.random.default_rng(2), [], np.random.default_rng(1).normal(scale=0.1, size=n)
    for condition, loss in {("BM25", "none", "all"): 0.0, **losses}.items():
        level = 0.5 if condition[0] == "BM25" else 0.8
        for side, mean in (("in", level), ("out", level * (1 - loss))):
            value = mean + base + noise * random.normal(size=n)
            frame = pd.DataFrame({"side": side, "query_id": [f"q{at}" for at in range(n)], "value": value})
            parts.append(frame.assign(**dict(zip(exposure.CONDITION, condition, strict=True))))
    return pd.concat(parts, ignore_index=True).assign(stratum="a", measure="RR@10")


LOSSES = {
    (DENSE, "BM25", "all"): 0.40,
    (DENSE, "BM25", "unexposed"): 0.22,
    (DENSE, "random", "all"): 0.30,
    (DENSE, "random", "unexposed"): 0.20,
    ("SPLADE", "BM25", "all"): 0.25,
    ("SPLADE", "BM25", "unexposed"): 0.15,
}


def mean_of(losses):
    return exposure.relative_losses(values(losses), seed=1, n_boot=400)[1]


def test_share_of_the_loss_is_what_is_saved():
    mean = mean_of(LOSSES)
    table = exposure.share_of_loss(mean).set_index(["model", "negatives"])
    assert table.loc[(DENSE, "BM25"), "share_of_loss"] == pytest.approx(0.45, abs=0.05)
    row = table.loc[("SPLADE", "BM25")]
    assert row["saved"] == pytest.approx(0.10, abs=0.02) and row["saved_low"] < row["saved"] < row["saved_high"]
    at = [mean.index[(mean[exposure.CONDITION] == list(key)).all(axis=1)][0] for key in list(LOSSES)[:2]]
    drawn = mean.drawn()[at]
    assert table.loc[(DENSE, "BM25"), "low"] == pytest.approx(np.quantile(1 - drawn[1] / drawn[0], 0.025), abs=0.002)


def test_findings_follow_the_losses():
    mean = mean_of(LOSSES)
    found = exposure.findings(mean.assign(comparable=gate(mean, []))).set_index("finding")
    assert found.loc["exposure is why the papers differ on SPLADE", "verdict"] == "holds"
    assert found.loc["exposure is why the papers differ on SPLADE", "estimate"] == pytest.approx(0.08, abs=0.02)
    assert found.loc["the negatives of Lupart make the gap larger than those of Zhan, all", "verdict"] == "holds"
    costs = found.loc["exposure costs SPLADE more than dense, BM25 negatives"]
    assert costs["estimate"] == pytest.approx((0.25 - 0.15) - (0.40 - 0.22), abs=0.02)
    assert costs["verdict"] == "contradicted" and costs["effects"] == 1
    controls = mean_of(LOSSES | {(DENSE, "BM25", "control"): 0.40, ("SPLADE", "BM25", "control"): 0.19})
    less = exposure.findings(controls.assign(comparable=gate(controls, []))).set_index("finding").loc[costs.name]
    assert less["effects"] == 2 and less["estimate"] == pytest.approx((0.19 - 0.15) - (0.40 - 0.22), abs=0.02)
    alone = mean_of(LOSSES | {(DENSE, "in-batch", "all"): 0.3, ("SPLADE", "in-batch", "all"): 0.1})
    last = exposure.findings(alone.assign(comparable=gate(alone, []))).iloc[-1]
    assert last["finding"].endswith("in-batch negatives only") and last["estimate"] == pytest.approx(0.2, abs=0.02)
    narrower = mean_of(LOSSES | {(DENSE, "random", "all"): 0.45, (DENSE, "random", "unexposed"): 0.40})
    third = exposure.findings(narrower.assign(comparable=gate(narrower, []))).set_index("finding")
    said = third.loc["exposure is why the papers differ on SPLADE"]  # less so unexposed, but there is no wider gap
    assert said["verdict"] == "contradicted" and said["estimate"] == pytest.approx(-0.05, abs=0.02)
    turned = {key: loss if "random" not in key else 0.9 - 1.5 * loss for key, loss in LOSSES.items()}
    other = mean_of(turned)
    again = exposure.findings(other.assign(comparable=gate(other, []))).set_index("finding")
    assert again.loc["DR (base), random negatives: exposure is part of the loss", "verdict"] == "contradicted"


def test_what_the_control_saves_as_well_is_not_exposure():
    for control, verdict in ((0.30, "holds"), (0.20, "not shown")):
        mean = mean_of(LOSSES | {(DENSE, "random", "control"): control})
        found = exposure.findings(mean.assign(comparable=gate(mean, []))).set_index("finding")
        assert found.loc["DR (base), random negatives: exposure is part of the loss", "verdict"] == verdict


def test_condition_that_bm25_beats_in_domain_is_not_comparable():
    some = values(LOSSES)
    weak = (some["model"] == "SPLADE") & (some["negative_passages"] == "all")
    some.loc[weak, "value"] -= 0.4
    mean = exposure.relative_losses(some, 1, 300)[1]
    passing = gate(mean, [])
    assert passing.sum() == len(mean) - 1
    found = exposure.findings(mean.assign(comparable=passing)).set_index("finding")["verdict"]
    assert found["SPLADE, BM25 negatives: exposure is part of the loss"] == "not comparable"
    assert found["exposure is why the papers differ on SPLADE"] == "not comparable"
    assert found["DR (base), random negatives: exposure is part of the loss"] == "holds"


def test_exposure_table_has_clusters_and_their_mean():
    each, mean = exposure.relative_losses(values(LOSSES), 1, 100)
    table = exposure.exposure_table("kind", each, mean)
    first = ["shift", "left_out", "model", "negatives", "negative_passages", "avg_in", "out", "rel_loss", "low", "high"]
    assert list(table)[:10] == first and set(table["left_out"]) == {"a", "mean"} and len(table) == 2 * (1 + len(LOSSES))


def ran(folder, store, frame, **labels):
    """A design of one run with these results, and a store that has it in `folder`."""

    class Ran:
        key = "ran"

        def read(self, store, name):
            return RunFile.read(store[self] / f"run.{name}.parquet")

    class Stored(dict):
        def __getitem__(self, cell):
            return folder if isinstance(cell, Ran) else store[cell]

    RunFile.from_frame(frame).write_parquet(folder / "run.held-out.parquet")
    return pd.DataFrame({"model": ["x"], "run": [Ran()]} | labels), Stored()


def test_what_stands_above_the_answer_is_counted_by_kind(tmp_path):
    store, plan = Store(tmp_path / "outputs" / "cells"), exposure.plan(P | {"conditions": [], "controlled": []})
    store.build(plan.shift)
    queries, qrels = plan.shift.pool.frame(), plan.shift.pool.qrels()
    labels = pd.read_parquet(store[plan.shift] / "labels.parquet").set_index("query_id")["cluster"]
    about = queries.set_index("query_id")["entities"].map("+".join)
    answer = qrels.drop_duplicates("query_id").set_index("query_id")["doc_id"]
    alone = answer[~answer.duplicated(keep=False)]

    def one(known):
        return next(alone[query_id] for query_id in alone.index if known(query_id))

    asked = next(q for q in plan.shift.sets(store)["held-out"] if q in alone.index and labels[q] == "how")
    mine = set(qrels.loc[qrels["query_id"] == asked, "doc_id"])
    like = one(lambda q: labels[q] == "how" and about[q] != about[asked] and alone[q] not in mine)
    other = one(lambda q: labels[q] != "how" and about[q] != about[asked] and alone[q] not in mine)
    docs = [like, answer[asked], other]
    frame = pd.DataFrame({"query_id": asked, "doc_id": docs, "score": [3.0, 2.0, 1.0]})

    design, stored = ran(tmp_path, store, frame)
    table = exposure.above_the_answer(design, plan.shift, stored, depth=3).set_index("kind")
    assert table["value"].to_dict() == {exposure.KINDS[2]: 1.0, "other entity, kind in training": 0.0}
    assert table["stratum"].unique().tolist() == ["how"] and table["unit"].unique().tolist() == [about[asked]]
    assert exposure.above_the_answer(design, plan.shift, stored, depth=1).empty  # its answer is not among them


def test_passages_in_the_first_are_of_a_kind_that_was_left_out_or_drawn_or_asked_for(tmp_path):
    store, shift = Store(tmp_path / "outputs" / "cells"), exposure.plan(P | {"conditions": [], "controlled": []}).shift
    store.build(shift)
    labels = pd.read_parquet(store[shift] / "labels.parquet").set_index("query_id")["cluster"]
    qrels, sets = shift.pool.qrels().drop_duplicates("doc_id", keep=False), shift.sets(store)
    of = qrels.set_index("doc_id")["query_id"]
    trained = of.isin(sets["without-how"])
    left, right = of[of.map(labels) == "how"].index[:2], of[trained].index[:1]
    others = of[~trained & (of.map(labels) != "how")].index[:2]
    for asked, shares in (("who", [0.4, 0.4, 0.2]), ("how", None)):
        query_id = next(query_id for query_id in sets["held-out"] if labels[query_id] == asked)
        docs = [*left, *others, *right]
        frame = pd.DataFrame({"query_id": query_id, "doc_id": docs, "score": np.arange(5.0)})
        design, stored = ran(tmp_path, store, frame, left_out=["how"])
        table = exposure.in_the_first(design, shift, stored, shift.pool.source.open(), depth=5)
        if shares is None:
            assert table.empty  # its own kind is the left-out one
        else:
            assert table.set_index("kind").loc[list(exposure.ASKED), "value"].tolist() == pytest.approx(shares)
            assert set(table["stratum"]) == {asked} and set(table["left_out"]) == {"how"}


def test_exposed_answers_are_those_that_no_training_query_shares(tmp_path):
    store, shift = Store(tmp_path / "outputs" / "cells"), exposure.plan(P | {"conditions": [], "controlled": []}).shift
    store.build(shift)
    table = exposure.exposed_answers(shift, store, shift.pool.source.open()).set_index(["left_out", "side"])
    answers = shift.pool.qrels().groupby("query_id")["doc_id"].agg(set)
    held = shift.strata(store)
    for name in shift.names:
        positives = set().union(*answers[shift.sets(store)[f"without-{name}"]])
        free = held.index.to_series().map(lambda query_id, seen=positives: not answers[query_id] & seen)
        for side, mine in (("out", held == name), ("in", held != name)):
            expected = free[mine].mean(), mine.sum()
            assert tuple(table.loc[(name, side), ["exposed", "n_queries"]]) == pytest.approx(expected)


def test_share_of_answers_on_ms_marco_is_counted_in_the_files(tmp_path):
    (tmp_path / "qrels.train.tsv").write_text("".join(f"{at} 0 {100 + at} 1\n" for at in range(50)))
    (tmp_path / "run.txt").write_text("q Q0 100 1 9 x\nq Q0 7 2 8 x\nq Q0 8 3 7 x\nq Q0 101 4 6 x\n")
    table = exposure.on_ms_marco(tmp_path, {"a": tmp_path / "run.txt"}, held_out=0.2).set_index("negatives")
    scale = exposure.TRAIN_QUERIES / 50
    assert table.loc["a random passage", "answers"] == pytest.approx(50 / exposure.PASSAGES * scale)
    assert table.loc["BM25's first 10 (a)", "exposed"] == pytest.approx(0.5 * scale * 0.2)


def test_none_or_two_files_of_judgements_are_an_error_that_names_them(tmp_path):
    """It ended with "not enough values to unpack"."""
    with pytest.raises(InputError, match="there are: none"):
        exposure.on_ms_marco(tmp_path, {}, held_out=0.2)
    for name in ("qrels.train.tsv", "qrels.train.part.tsv"):
        (tmp_path / name).write_text("1 0 100 1\n")
    with pytest.raises(InputError, match="'qrels.train.part.tsv', 'qrels.train.tsv'"):
        exposure.on_ms_marco(tmp_path, {}, held_out=0.2)


def test_real_answers_are_about_as_frequent_in_bm25_s_list_as_at_random(real_data):
    run = real_data / "runs/dl-passage/colbert-prf-appendix/BM25.2020.res.gz"
    table = exposure.on_ms_marco(real_data / "msmarco", {"DL 2020": run}, held_out=0.2).set_index("negatives")
    assert 0.05 < table.loc["a random passage", "answers"] < 0.07
    assert 1 < table.loc["BM25's first 1,000 (DL 2020)", "against_random"] < 1.5


def test_dose_of_a_mean_keeps_its_effect():
    """`effects` with the labels of the dose: one row a share."""
    some = values({(DENSE, "random", "all"): 0.3}).assign(share=0.5)
    table = effects(some, ["model", "share"], "side", ("in", "out"), "loss", strata="stratum", family=[], n_boot=50)
    assert table.set_index("model").loc[DENSE, "loss"] == pytest.approx(0.3, abs=0.02)
