"""Notebook 05: the order of systems, what a reranker reads, and plans that share their cells."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from toy_parameters import COMMON, COMPARED, RESTRAIN, plan_with

from interextra.claims.judgement import leads
from interextra.models.recipe import load_recipe
from interextra.notebooks import (
    n02_restrain as restrain,
)
from interextra.notebooks import (
    n03_resttest as resttest,
)
from interextra.notebooks import (
    n05_architectures as architectures,
)
from interextra.notebooks.plans import cells_of
from interextra.splits.split import REGIMES
from interextra.stats.effects import Effects, effects
from interextra.store.errors import InputError
from interextra.store.folders import Store

BY = ["protocol", "n_train", "measure"]
HOW = {"by": ["model", *BY], "on": "regime", "sides": REGIMES, "effect": "delta", "n_boot": 500}


def values_of(losses, noise=0.05):
    """Values of 400 queries in both regimes; the extrapolation of a system lies its loss below its
    interpolation.
    """
    draw, rows = np.random.default_rng(1), []
    for model, loss in losses.items():
        inter = draw.uniform(0.3, 0.9, 400)
        sides = (inter, inter * (1 - loss) + noise * draw.normal(size=400))
        for regime, side in zip(REGIMES, sides, strict=True):
            rows.append(
                pd.DataFrame({"model": model, "regime": regime, "value": side}).rename_axis(
                    "query_id"
                )
            )
    labels = {"protocol": "ReSTTest", "n_train": 9, "measure": "RR@10"}
    return pd.concat(rows).reset_index().assign(**labels)


@pytest.mark.parametrize("study", [restrain, resttest, architectures])
@pytest.mark.parametrize(
    "first", [{"label": "Lexical", "recipe": "bm25"}, {"label": "BM25", "recipe": "mini-splade"}]
)
def test_a_plan_without_bm25_under_its_name_is_refused(study, first):
    """16 of 16 findings were not comparable, without a word."""
    with pytest.raises(InputError, match="no system is BM25 with the label 'BM25'"):
        plan_with(study, COMPARED | RESTRAIN | {"recipes": [first, "mini-dense"]})


def test_rank_correlation_is_kendalls_tau_of_the_means_and_of_each_draw():
    table = effects(
        values_of({"BM25": 0.0, "ColBERT": 0.1, "SPLADE": 0.5, "DR (base)": 0.2, "Reranker": 0.9}),
        **HOW,
    )
    [row] = architectures.rank_correlation(table, BY).to_dict("records")
    assert row["tau"] == pytest.approx(
        stats.kendalltau(table["interpolation"], table["extrapolation"]).statistic
    )
    first, second = table.drawn("first"), table.drawn("second")
    taus = [stats.kendalltau(first[:, i], second[:, i]).statistic for i in range(500)]
    ends = np.quantile(taus, 0.025, method="lower"), np.quantile(taus, 0.975, method="higher")
    assert (row["low"], row["high"]) == pytest.approx(ends) and row["extrapolation"].endswith(
        "Reranker"
    )


def orders(interpolation, extrapolation):
    """Rank correlation of systems a, b, … with these means."""
    names, sides = (
        list("abc")[: len(interpolation)],
        [np.array(side)[:, None] for side in (interpolation, extrapolation)],
    )
    table = pd.DataFrame(
        {"model": names, "measure": "RR@10", REGIMES[0]: interpolation, REGIMES[1]: extrapolation}
    )
    table = Effects.of(
        table.assign(delta=0.0), ["model", "measure"], [*REGIMES, "delta"], *sides, sides[0]
    )
    return architectures.rank_correlation(table, ["measure"])["tau"].item()


def test_ties_count_as_in_tau_b_and_one_system_has_no_order():
    assert orders([1.0, 1.0, 2.0], [1.0, 2.0, 3.0]) == pytest.approx((2 / 3) ** 0.5)
    assert np.isnan(orders([1.0], [1.0]))


def test_plan_of_the_comparison_shares_its_cells_with_restrain_and_resttest():
    p = COMPARED | {"recipes": ["bm25", "mini-dense"]}
    plan = plan_with(
        architectures, {name: p[name] for name in p if name != "normalise"}
    )  # which is as notebook 03 has it
    p |= {
        "measures": ["RR@10"],
        "grid_draws": 0,
        "grid_sizes": [30],
        "grid_seeds": [1],
        "grid_steps": 0,
        "test_draws": 0,
    }
    known = {
        cell.key
        for cell in cells_of(plan_with(restrain, p))
        + cells_of(plan_with(resttest, p | {"test_splits": ["dev"]}))
    }
    assert {run.key for frame in (plan.restrain, plan.resttest) for run in frame["run"]} <= known
    only = {"only": {"ReSTrain": ["ColBERT"], "ReSTTest": ["ColBERT"]}}
    with pytest.raises(
        InputError,
        match="'only', ReSTrain: 'ColBERT' is none of the systems 'BM25', 'DR \\(base\\)'",
    ):
        plan_with(architectures, p | only)
    with pytest.raises(InputError, match="parameter 'only' names no protocol for 'DR \\(base\\)'"):
        plan_with(architectures, p | only | {"recipes": ["bm25", "mini-dense", "mini-colbert"]})


DRAWN = COMPARED | {
    "recipes": [
        "bm25",
        {
            "label": "Cross-encoder",
            "recipe": "mini-reranker",
            "first_stage_weight": 0,
            "rerank_depth": 9,
        },
        "mini-colbert",
        "mini-dense",
    ],
    "only": {"ReSTrain": ["Cross-encoder", "DR (base)"], "ReSTTest": ["ColBERT", "DR (base)"]},
    "gate_splits": ["dev"],
    "gate_limit": 9,
    "resttest_splits": ["test"],
    "test_draws": 2,
    "test_size": 8,
    "draw_splits": ["test"],
    "draw_train": 20,
    "draw_disjoint": True,
}


def test_restrain_is_over_the_draws_of_notebook_02_where_there_are_any():
    """The runs of BM25 and dense are those of 02; the gate has runs of its own."""
    plan = plan_with(architectures, DRAWN)
    of_02 = plan_with(restrain, RESTRAIN | DRAWN | {"recipes": ["bm25", "mini-dense"], "only": {}})
    is_gate = plan.restrain["left_out"].notna()
    draws, gate = plan.restrain[~is_gate], plan.restrain[is_gate]
    keys = {model: sorted(run.key for run in part["run"]) for model, part in draws.groupby("model")}
    for model, part in of_02.draws.groupby("model"):
        assert keys[model] == sorted(run.key for run in part["run"])
    assert keys.keys() == {"BM25", "DR (base)", "Cross-encoder"}
    assert plan.sizes == [20] and len(plan.sets) == 2
    assert plan.test_splits == {"ReSTrain": ["test"], "ReSTTest": ["test"]}
    assert set(gate["regime"]) == {"interpolation"} and len(gate) == 3 * 2
    trained = {run.model.key for run in draws["run"]}
    assert {run.model.key for run in gate["run"]} < trained
    assert {len(run.queries[0].ids()) for run in gate["run"]} == {9}
    [searched] = {run.queries for run in plan.resttest["run"]}
    assert [queries.name for queries in searched] == ["test", "dev"] and searched[1].limit == 9
    assert plan.buckets.vectors.test[1].limit == 0  # buckets are of all queries


def test_leads_over_draws_know_the_models_of_each():
    """Two trainings differ by 0.2 in each of four draws, so their means do by 0.2 / sqrt(2 * 4)."""
    rows = [
        (model, str(draw), seed, f"q{query}", 0.5 + (model == "a") * (0.3 + 0.1 * (-1) ** seed))
        for model in ("BM25", "a")
        for draw in range(4)
        for seed in (1, 2)
        for query in range(30)
    ]
    values = pd.DataFrame(rows, columns=["model", "left_out", "seed", "query_id", "value"])
    name = values["model"] + values["left_out"] + values["seed"].astype(str)
    values = values.assign(measure="RR@10", trained=name.where(values["model"] == "a", ""))
    [row] = leads(values, ["measure"], 1, 4000).to_dict("records")
    assert row["lead"] == pytest.approx(0.3)
    deviation = np.std([0.2, 0.4], ddof=1) / 8**0.5
    t = stats.t.ppf(0.975, 4)  # four models, trained twice each
    assert row["lead_low"] == pytest.approx(0.3 - t * deviation, rel=0.05)


def test_systems_that_a_page_compares_are_those_of_both_protocols_if_one_of_them_is_trained():
    plan = plan_with(architectures, DRAWN)
    assert architectures.compared(plan.restrain, plan.resttest) == ["BM25", "DR (base)"]
    only = {"ReSTrain": ["Cross-encoder"], "ReSTTest": ["ColBERT", "DR (base)"]}
    plan = plan_with(architectures, DRAWN | {"only": only})
    assert architectures.compared(plan.restrain, plan.resttest) == ["BM25", "Cross-encoder"]
    assert architectures.compared(plan.resttest, plan.restrain) == ["BM25", "ColBERT", "DR (base)"]


def test_scored_pairs_are_read_from_the_training_logs(tmp_path):
    p = COMMON | {"recipes": ["bm25", "mini-dense"], "measures": ["RR@10"], "k": 2, "seeds": [3]}
    design = plan_with(resttest, p).design.query("left_out == '1'")
    folders = {run.key: tmp_path / run.key for run in design["run"]}
    for run in design["run"]:
        folders[run.key].mkdir()
        bm25 = run.model.recipe.architecture == "bm25"
        log = {"steps": 0 if bm25 else 5}
        (folders[run.key] / "training.json").write_text(json.dumps(log))
    store = type("Known", (Store,), {"__getitem__": lambda self, cell: folders[cell.key]})(tmp_path)
    dense = load_recipe("mini-dense")
    assert architectures.scored_pairs(design, store) == [0, dense.scored_pairs(5)]


def test_every_system_of_the_comparison_has_recipes_for_each_profile():
    for profile in ("mini", "small", "msmarco"):
        for architecture in ("dense", "splade", "colbert", "reranker"):
            recipe, dense = (load_recipe(f"{profile}-{name}") for name in (architecture, "dense"))
            assert (
                recipe.architecture == architecture
                and recipe.initialisation == dense.initialisation
            )
