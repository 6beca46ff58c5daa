"""Notebook 02: plans, the regression of size and distance, and which queries lose."""

import itertools
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from toy_parameters import COMMON, RESTRAIN, plan_with

from interextra.data.queries import Queries
from interextra.notebooks import n02_restrain as restrain
from interextra.overlap import trained_answers
from interextra.splits.restrain import Neighbourhood
from interextra.splits.restrain import restrain as tuned_to
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


class Judged:
    """A collection of judgements alone."""

    FRAMES: ClassVar = {
        split: pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"])
        for split, rows in {
            "train": [("t1", "d1", 1), ("t2", "d2", 1), ("t3", "d3", 1), ("t4", "d3", 1)],
            "test": [
                *[("near", "d1", 1), ("far", "d2", 1), ("both", "d3", 1), ("both", "d9", 1)],
                *[("none", "d9", 1), ("none", "d1", 0), ("aside", "d8", 1)],
            ],
        }.items()
    }
    qrels = staticmethod(FRAMES.get)


def test_answers_are_told_apart_by_the_sets_that_train_on_them():
    """t1 and t3 are the interpolation set; d9 is trained on by nobody, and d1 is not for "none"."""
    p = restrain.Parameters(sizes=[1, 2], train_split="train", test_splits=["test"])
    sets = {"interpolation-2": ["t1", "t3"], "extrapolation-2": ["t2", "t4"]}
    similarity = {"near": 0.9, "far": 0.1, "both": 0.8, "none": 0.95, "aside": 0.2}
    closest = pd.DataFrame({"query_id": list(similarity), "similarity": similarity.values()})
    closest = pd.concat([closest.assign(regime=regime) for regime in REGIMES])
    found = restrain.shared_answers(Judged(), p, sets, closest)
    groups = found.groupby("answer_trained_in")["query_id"].apply(set).to_dict()
    assert groups == {
        "interpolation alone": {"near"},
        "extrapolation alone": {"far"},
        "both": {"both"},
        "neither": {"none", "aside"},
        "neither, as near": {"none"},
    }
    means = {"near": (0.8, 0.4), "none": (0.5, 0.5), "aside": (0.5, 0.4)}
    rows = [
        (query, regime, value)
        for query, both in means.items()
        for regime, value in zip(REGIMES, both, strict=True)
    ]
    values = pd.DataFrame(rows, columns=["query_id", "regime", "value"])
    values = values.assign(model="DR (base)", measure="nDCG@10").merge(found, on="query_id")
    by_group = effects(values, ["answer_trained_in", "model", "measure"], **HOW)
    sentence = trained_answers.sentence(by_group, "nDCG@10", "DR (base)")
    assert "interpolation alone -50.0 %" in sentence and "neither -10.0 %" in sentence
    assert "neither, as near 0.0 %" in sentence and "(2 queries)" in sentence


HOW = {"on": "regime", "sides": REGIMES, "effect": "delta", "n_boot": 100}


def losses(levels):
    """Effects of BM25 and DR with these levels of both regimes by size, on four queries."""
    rows = [
        (size, model, "nDCG@10", regime, f"q{query}", level + 0.01 * order[query])
        for (model, size), both in levels.items()
        for regime, level, order in zip(REGIMES, both, ([0, 1, 2, 3], [3, 1, 0, 2]), strict=True)
        for query in range(4)
    ]
    columns = ["n_train", "model", "measure", "regime", "query_id", "value"]
    return effects(pd.DataFrame(rows, columns=columns), columns[:3], **HOW)


LEVELS = {("BM25", 100): (0.5, 0.5), ("DR (base)", 100): (0.5, 0.2), ("DR (base)", 900): (0.6, 0.5)}


def test_sets_of_each_size_are_described_and_their_cosines_listed():
    space = Neighbourhood(np.array([1, 2, 3, 4]), np.array([0.9, 0.8, 0.3, 0.1]))
    tuned = {size: tuned_to(space, size, "exact") for size in (1, 2)}
    table = restrain.described_sets(tuned)
    assert table[["size", "I", "E"]].values.tolist() == [[1, 1, 3], [2, 2, 2]]
    np.testing.assert_allclose(table["of extrapolation"], [0.1, 0.2])
    cosines = restrain.cosines_of_sets(space, tuned)
    of_two = cosines[cosines["size"] == "2 training queries"]
    assert of_two.groupby("regime")["cosine"].apply(list).to_dict() == {
        "extrapolation": [0.3, 0.1],
        "interpolation": [0.9, 0.8],
    }


def test_sentences_name_the_size_of_the_largest_loss_and_what_the_largest_sets_retain():
    table = losses(LEVELS)
    one, other = restrain.largest_loss_sentences(table, "nDCG@10")
    assert one.startswith("BM25: Δ of nDCG@10 is 0.0 %") and "lowest" not in one
    assert other.startswith("DR (base): Δ of nDCG@10 is -58.3 %")
    assert other.endswith("lowest with 100 training queries.")
    (kept,) = restrain.retained_sentences(table, "nDCG@10")
    assert kept.startswith("DR (base) retains 84 % [") and kept.endswith("900 training queries.")


def test_bm25_stands_beside_its_one_published_size():
    beside = losses(LEVELS).assign(published_n_train="45k", published=-0.1, verdict="agrees")
    page = restrain.beside_page(beside, "nDCG@10")
    assert page.groupby("model")["published size"].unique().map(list).to_dict() == {
        "BM25": ["14k"],
        "DR (base)": ["45k"],
    }
    assert restrain.beside_page(beside, "R@100").empty


def test_draws_stand_above_all_test_queries_of_the_same_size():
    p = restrain.Parameters(test_draws=2, test_size=4, draw_train=100)
    other_draw = LEVELS | {("DR (base)", 100): (0.5, 0.3)}
    each = pd.concat(
        [losses(levels).assign(draw=draw) for draw, levels in enumerate((LEVELS, other_draw), 1)]
    )
    few = restrain.over_draws(each[each["n_train"] == 100], losses(LEVELS), p)
    assert few["test_queries"].tolist() == ["2 × 4", "2 × 4", "all at once", "all at once"]
    dense = few[few["model"] == "DR (base)"]["delta"]
    np.testing.assert_allclose(dense, [-0.25 / 0.515, -0.3 / 0.515])
    sentence = restrain.draws_sentence(few, "nDCG@10", p)
    assert (
        "100 training queries selected for 4 test queries (2 draws): Δ nDCG@10 -48.5 %" in sentence
    )
    assert "for all test queries -58.3 %" in sentence


def test_agreement_is_the_mean_over_queries():
    each = pd.DataFrame(
        {
            "query_id": [*"abc"],
            "encoder": "lsa",
            "size": ["14k", "14k", "45k"],
            "neither": [1, 0, 1],
        }
    )
    assert restrain.mean_agreement(each).values.tolist() == [["lsa", "14k", 0.5], ["lsa", "45k", 1]]


def test_each_set_and_seed_of_a_third_is_a_training_run_of_its_own():
    rows = [
        ("DR (base)", 60, "near", "nDCG@10", draw, seed, f"q{query}", 0.1 * query + 0.01 * draw)
        for draw, seed, query in itertools.product(range(2), (1, 2, 3), range(5))
    ]
    columns = ["model", "n_train", "band", "measure", "draw", "seed", "query_id", "value"]
    (found,) = restrain.effects_of_thirds(pd.DataFrame(rows, columns=columns), 1, 50).itertuples()
    assert found.n_trainings == 6 and found.mean == pytest.approx(0.205)


def test_points_of_a_grid_have_a_range_where_they_have_several_runs():
    runs = grid(noise=0.05).assign(measure="RR@10")
    runs = runs.assign(band=runs["nearest_similarity"])
    points = restrain.grid_points(runs)
    assert len(points) == 9 and (points["low"] < points["high"]).all()
    assert points[restrain.NEAREST].round(2).unique().tolist() == [0.7, 0.6, 0.5]
    once = runs.drop_duplicates(["n_train", "band"])
    assert "low" not in restrain.grid_points(once)


def test_distance_alone_moves_delta_by_its_slope():
    fitted = restrain.size_and_distance(grid().assign(measure="RR@10"), ["model", "measure"])
    sets = pd.DataFrame({"similarity of interpolation": [0.9, 0.8], "of extrapolation": [0.5, 0.6]})
    found = restrain.from_distance(fitted, sets, "RR@10")
    np.testing.assert_allclose(found, [-0.08, -0.04])
    assert np.isnan(restrain.from_distance(fitted, sets, "nDCG@10")).all()
    page = restrain.regression_page(fitted)
    assert page["Δ [95 % CI]"].iloc[1].startswith("+2.0 %")
    assert restrain.regression_page(pd.DataFrame()).empty


def test_losses_stand_beside_the_nearest_queries_of_both_sets():
    closest = pd.DataFrame(
        {"query_id": ["p", "q"] * 2, "regime": np.repeat(REGIMES, 2), "nearest": [*"tuuu"]}
    ).assign(similarity=[0.9, 0.8, 0.2, 0.1])
    queries = pd.DataFrame({"query_id": [*"pqtu"], "text": ["P?", "Q?", "T?", "U?"]})
    page = restrain.losses_with_nearest(pd.Series({"p": 0.5}), closest, queries)
    assert page.values.tolist() == [
        ["P?", 0.5, "extrapolation", 0.2, "U?"],
        ["P?", 0.5, "interpolation", 0.9, "T?"],
    ]


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
    assert "at 900 training queries minus Δ at 100: +30.0 percentage points of Δ" in sentence
    assert sentence.endswith("200k minus 14k: +3.0 percentage points of Δ.")  # -11 and -14 %
    one = losses[losses["n_train"] == 900]
    assert restrain.size_trend(one).empty and restrain.size_trend_sentences(one[:0], "") == []


def test_a_slope_of_another_collection_predicts_nothing():
    predicted = pd.Series([-0.06, -0.04], [100, 200])
    measured = pd.Series([-0.01, -0.02], [100, 200])
    sets = pd.DataFrame({"size": [100, 200]})
    sets = sets.assign(**{"similarity of interpolation": [0.9, 0.8], "of extrapolation": 0.6})
    runs = pd.DataFrame({"nearest_similarity": [0.6, 0.85]})
    *_, last = restrain.distance_sentences(predicted, measured, runs, sets, is_own=False)
    assert last.startswith("This predicts nothing here")
    first, _, last = restrain.distance_sentences(predicted, measured, runs, sets, is_own=True)
    assert first == "100 training queries: Δ -6 % by distance, -1 % measured."
    assert last.startswith("Trust it least with 100: ") and "0.05 beyond" in last
    *_, last = restrain.distance_sentences(predicted[1:], measured, runs, sets[1:], is_own=True)
    assert last == "All sets lie within the similarities of the random sets."


def test_equality_has_the_p_value_of_its_tests():
    claims = pd.DataFrame({"claim": ["restrain-dense", "restrain-bm25"]})
    worlds = claims.assign(size=[None, "no difference beyond the margin"], p_size=[0.9, 0.0321])
    tables = {"worlds": worlds}
    found = restrain.equality_sentences(lambda profile, _: tables.get(profile, pd.DataFrame()))
    assert found[1:] == [
        "- fourteen worlds, p = 0.032: BM25 is equally effective in both regimes of ReSTrain."
    ]
    assert restrain.equality_sentences(lambda *_: pd.DataFrame()) == []
