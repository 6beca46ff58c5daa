"""Notebook 02: plans, the regression of size and distance, and which queries lose."""

import itertools

import numpy as np
import pandas as pd
import pytest
from toy_parameters import COMMON, RESTRAIN, plan_with

from interextra.data.queries import Queries
from interextra.notebooks import n02_restrain as restrain
from interextra.splits.split import REGIMES
from interextra.stats.effects import effects
from interextra.store.errors import InputError
from interextra.store.folders import Store


def test_plan_of_restrain_gives_bm25_one_training_and_the_trained_systems_a_grid():
    p = COMMON | RESTRAIN | {"seeds": [1, 2], "measures": ["nDCG@10", "R@100"]}
    plan = plan_with(restrain, p | {"grid_draws": 3, "grid_steps": 7})
    assert plan.design.groupby("model").size().to_dict() == {"BM25": 4, "DR (base)": 8}
    assert set(plan.grid["model"]) == {"DR (base)"} and len(plan.grid) == 2 * 3 * 3 * 2
    assert {run.model.recipe.steps for run in plan.grid["run"]} == {7}
    assert len({run.key for run in plan.grid["run"]}) == len(plan.grid)
    assert plan.measures == ["nDCG@10", "R(rel=2)@100"] and plan.real == {}
    without = plan_with(restrain, p)
    assert without.grid.empty and without.banded is None
    assert [run.key for run in without.design["run"]] == [run.key for run in plan.design["run"]]


def test_each_draw_of_test_queries_has_sets_and_trainings_of_its_own():
    plan = plan_with(restrain, COMMON | RESTRAIN | {"test_draws": 2})
    assert plan.draws.groupby(["draw", "model"]).size().unique().tolist() == [2]
    first, second = (part["run"].tolist() for _, part in plan.draws.groupby("draw"))
    for one, other in zip(first, second, strict=True):
        assert (
            one.model.train.of.key != other.model.train.of.key
            and one.model.seed != other.model.seed
        )
        assert one.queries == one.model.train.of.vectors.test and len(one.queries[0].ids()) == 8
        assert one.model.train.of.vectors.encoder == plan.vectors.encoder
    assert set(first[0].queries[0].ids()) != set(second[0].queries[0].ids())


def test_disjoint_draws_share_no_query_and_are_blocks_of_one_order():
    p = COMMON | RESTRAIN | {"test_draws": 3, "draw_disjoint": True}
    draws = plan_with(restrain, p).draws.drop_duplicates("draw")["run"]
    drawn = [set(run.queries[0].ids()) for run in draws]
    assert [len(ids) for ids in drawn] == [8, 8, 8] and len(set.union(*drawn)) == 24
    assert {(run.queries[0].seed, run.queries[0].limit) for run in draws} == {(1, 8)}
    again = plan_with(restrain, p | {"test_draws": 2}).draws["run"]
    assert {run.key for run in again} < {run.key for run in plan_with(restrain, p).draws["run"]}
    with pytest.raises(InputError, match="no block 13 of 8 queries of the split 'test', which ha"):
        plan_with(restrain, p | {"test_draws": 100})


def test_seeds_of_draws_train_each_of_its_sets_as_often():
    p = COMMON | RESTRAIN | {"test_draws": 2}
    plain = plan_with(restrain, p).draws
    assert "seed" not in plain and {run.model.seed for run in plain["run"]} == {1, 2}
    draws = plan_with(restrain, p | {"draw_seeds": [5, 7]}).draws
    by_model = draws.groupby("model")["seed"].unique().map(list).to_dict()
    assert by_model == {"BM25": [5], "DR (base)": [5, 7]} and len(draws) == 2 * 2 * 3


def test_a_limited_gate_is_a_random_part_of_its_splits():
    p = COMMON | RESTRAIN | {"gate_splits": ["dev"]}
    whole, part = (
        plan_with(restrain, p | changed).design["run"][0].queries[-1]
        for changed in ({}, {"gate_limit": 9})
    )
    assert whole == Queries(source=whole.source, split="dev")
    assert part.name == "dev" and len(part.ids()) == 9 and set(part.ids()) < set(whole.ids())


def grid(both=0.0, noise=0.0):
    """Two runs on each of 27 sets: twice the queries add 0.1 to delta, 0.1 of similarity 0.02;
    noise is of the sets.
    """
    draw, rows = np.random.default_rng(3), []
    for n_train, band, number in itertools.product((100, 200, 400), range(3), range(3)):
        size, nearer = np.log2(n_train / 200), 1 - band
        delta = 0.1 * size + 0.02 * nearer + both * size * nearer + noise * draw.normal()
        row = {
            "set": f"{band}-{n_train}-{number}",
            "n_train": n_train,
            "nearest_similarity": 0.6 + 0.1 * nearer,
        }
        rows += [row | {"model": "m", "delta": delta}] * 2
    return pd.DataFrame(rows)


def test_regression_finds_what_size_and_distance_were_built_to_do():
    found = restrain.size_and_distance(grid(both=0.01), ["model"])
    np.testing.assert_allclose(found["delta"], [0.1, 0.02, 0.01])
    assert found[["n_sets", "n_runs"]].drop_duplicates().values.tolist() == [[27, 54]]
    noisy = restrain.size_and_distance(grid(noise=0.05), ["model"])
    assert (noisy["low"] < [0.1, 0.02, 0]).all() and (noisy["high"] > [0.1, 0.02, 0]).all()


def test_more_trainings_on_the_same_sets_do_not_make_the_regression_surer():
    """As if each training had a set of its own, ten times as many made the intervals a third as
    wide.
    """
    once, often = (
        restrain.size_and_distance(pd.concat([grid(noise=0.05)] * n), ["model"]) for n in (1, 10)
    )
    np.testing.assert_allclose(often["high"] - often["low"], once["high"] - once["low"], rtol=0.05)


def test_runs_of_a_grid_stand_against_its_largest_near_sets():
    rows = [("m", "RR@10", n, band, 0, s, v) for n, band, s, v in GRID]
    values = pd.DataFrame(
        rows, columns=["model", "measure", "n_train", "band", "draw", "seed", "value"]
    )
    values = pd.concat(
        [values.assign(query_id="p", value=values["value"] - 0.1), values.assign(query_id="q")]
    )
    sets = pd.DataFrame(
        {"set": ["near-9-0", "far-9-0", "near-3-0"], "mean_max_similarity": [0.9, 0.3, 0.8]}
    )
    runs = restrain.grid_runs(values, sets).set_index(["set", "seed"])
    np.testing.assert_allclose(runs["value"], [0.45, 0.55, 0.25, 0.1])
    np.testing.assert_allclose(runs["delta"], [-0.1, 0.1, -0.5, -0.8])
    assert runs["nearest_similarity"].tolist() == [0.9, 0.9, 0.3, 0.8]


GRID = [(9, "near", 1, 0.5), (9, "near", 2, 0.6), (9, "far", 1, 0.3), (3, "near", 1, 0.15)]


def test_loss_of_a_query_is_the_mean_over_trainings():
    values = pd.DataFrame(
        {"model": "m", "regime": ["interpolation", "interpolation", "extrapolation"]}
    )
    values = values.assign(query_id="q", seed=[1, 2, 1], value=[0.2, 0.6, 0.1])
    assert restrain.query_losses(values).loc["q", "m"] == pytest.approx(0.3)


def test_nearest_queries_come_from_the_set_of_each_regime(tmp_path):
    p = COMMON | RESTRAIN | {"recipes": ["bm25"]}
    split, store = plan_with(restrain, p).split, Store(tmp_path)
    store.build(split)
    near = restrain.nearest_queries(split, 20, store)
    sets = split.sets(store)
    for regime, part in near.groupby("regime"):
        assert set(part["nearest"]) <= set(sets[f"{regime}-20"])
    means = near.groupby("regime")["similarity"].mean()
    assert (
        means["interpolation"] > means["extrapolation"]
        and not near.duplicated(["query_id", "regime"]).any()
    )


def test_moderators_are_shares_of_test_queries():
    """d1 answers a training query; of "red fox runs" two of three words are in d1's text."""
    qrels = {
        "train": [("t1", "d1", 1), ("t2", "d2", 0)],
        "test": [("q1", "d1", 1), ("q2", "d2", 1), ("q2", "d3", 0)],
    }
    texts = {"d1": "A red fox", "d2": "blue whales"}
    queries = {"q1": "red fox runs", "q2": "blue whales"}
    frames = {
        split: pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"])
        for split, rows in qrels.items()
    }
    names = list(texts)

    class Passages:
        def __len__(self):
            return 2

        def rows(self, doc_ids):
            return [names.index(doc_id) for doc_id in doc_ids]

        def texts(self, rows):
            return [texts[names[row]] for row in rows]

    class Data:
        passages = Passages()
        qrels = staticmethod(frames.get)

        def queries(self, split):
            return pd.DataFrame({"query_id": list(queries), "text": list(queries.values())})

        def query_ids(self, split):
            return frames[split]["query_id"].unique().tolist()

    found = restrain.moderators(Data(), "train", ["test"]).iloc[0]
    assert found[["n_passages", "n_train", "n_test"]].tolist() == [2, 2, 2]
    assert found["answers_trained"] == 0.5
    assert found["words_in_answer"] == pytest.approx((2 / 3 + 1) / 2)


def test_the_trend_of_the_sizes_is_the_largest_minus_the_smallest_beside_table_6():
    levels = {(100, "interpolation"): 0.5, (100, "extrapolation"): 0.3}
    levels |= {(900, "interpolation"): 0.6, (900, "extrapolation"): 0.54}
    rows = [
        (size, model, "nDCG@10", regime, f"q{query}", level)
        for model in ("BM25", "DR (base)")
        for (size, regime), level in levels.items()
        for query in range(4)
    ]
    columns = ["n_train", "model", "measure", "regime", "query_id", "value"]
    how = {"on": "regime", "sides": REGIMES, "effect": "delta", "n_boot": 100}
    losses = effects(pd.DataFrame(rows, columns=columns), columns[:3], **how)
    trend = restrain.size_trend(losses)
    assert trend["model"].tolist() == ["DR (base)"]
    assert trend["difference"].item() == pytest.approx(-0.1 + 0.4)
    (sentence,) = restrain.size_trend_sentences(trend, "This run")
    assert "at 900 training queries minus Δ at 100: +30.0 points" in sentence
    assert sentence.endswith("200k minus 14k: +3.0 points.")  # -11 and -14 %
    one = losses[losses["n_train"] == 900]
    assert restrain.size_trend(one).empty and restrain.size_trend_sentences(one[:0], "") == []
