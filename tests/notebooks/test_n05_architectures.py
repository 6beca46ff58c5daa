"""Notebook 05: the order of systems, what a reranker reads, and plans that share their cells."""

import json

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
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
    found = architectures.scored_pairs(design, store)
    assert found == {"BM25": 0, "DR (base)": dense.scored_pairs(5)}


def test_every_system_of_the_comparison_has_recipes_for_each_profile():
    for profile in ("mini", "small", "msmarco"):
        for architecture in ("dense", "splade", "colbert", "reranker"):
            recipe, dense = (load_recipe(f"{profile}-{name}") for name in (architecture, "dense"))
            assert (
                recipe.architecture == architecture
                and recipe.initialisation == dense.initialisation
            )


def test_bootstrap_agrees_with_a_linear_mixed_model():
    """With equal noise in all systems both estimate the same losses with similar intervals."""
    draw = np.random.default_rng(1)
    of_query = draw.normal(0.7, 0.2, 400)  # as difficult for every system
    parts = []
    for model, loss in {"BM25": 0.0, "ColBERT": 0.1, "DR (base)": 0.3}.items():
        for regime in REGIMES:
            mean = of_query - loss * (regime == "extrapolation")
            value = mean + draw.normal(0, 0.1, 400)
            part = pd.DataFrame({"query_id": range(400), "value": value})
            parts.append(part.assign(model=model, regime=regime))
    labels = {"protocol": "ReSTTest", "n_train": 9, "measure": "RR@10"}
    values = pd.concat(parts, ignore_index=True).assign(**labels)
    found = effects(values, **HOW | {"effect": "difference", "n_boot": 4000}).set_index("model")
    values = values.assign(out=(values["regime"] == "extrapolation").astype(float))
    model = smf.mixedlm("value ~ model + model:out", values, groups="query_id").fit()
    fixed = model.conf_int().set_axis(["low", "high"], axis=1).assign(difference=model.params)
    fixed = fixed.loc[[f"model[{name}]:out" for name in found.index]].set_axis(found.index)
    assert fixed["difference"].to_numpy() == pytest.approx(found["difference"].to_numpy())
    width = (found["high"] - found["low"]) / (fixed["high"] - fixed["low"])
    assert width.between(0.85, 1.15).all(), width


def test_six_passages_have_a_question_each(tmp_path):
    six = architectures.six_passages(tmp_path)
    queries, qrels = six.queries("train"), six.qrels("train")
    assert len(six.passages) == 6 and qrels["query_id"].tolist() == qrels["doc_id"].tolist()
    [text] = six.passages.texts(six.passages.rows(["b"]))
    asked = queries.set_index("query_id")["text"]
    assert architectures.FACTS[text] == asked["b"] == "what lowers a fever"


def test_conditions_are_those_that_recipes_set():
    systems = {"BM25": load_recipe("bm25"), "ColBERT": load_recipe("mini-colbert", steps=7)}
    found = architectures.conditions(systems)
    assert found["model"].tolist() == ["ColBERT"]
    assert found["steps"].item() == 7 and "epochs" not in found


def test_training_runs_are_counted_by_protocol_and_system():
    found = architectures.training_runs(plan_with(architectures, DRAWN), n_fold=50)
    found = found.set_index(["protocol", "model"])
    dense = found.loc["ReSTrain", "DR (base)"]
    assert dense["training sets"] == "interpolation, extrapolation" and dense["n_train"] == 20
    assert dense["training runs"] == 4  # two draws
    dense = found.loc["ReSTTest", "DR (base)"]
    assert dense["training sets"] == "without 1, 2" and dense["n_train"] == 50
    assert found.loc["ReSTTest", "BM25"]["training runs"] == 0


def test_values_of_the_gate_are_parted_by_protocol():
    """The test queries of one protocol may open the gate of the other."""
    rows = [
        ("ReSTrain", "test", 1),
        ("ReSTrain", "dev", 2),
        ("ReSTTest", "test", 3),
        ("ReSTTest", "dev", 4),
    ]
    values = pd.DataFrame(rows, columns=["protocol", "test_set", "value"])
    splits = {"ReSTrain": ["test"], "ReSTTest": ["dev"]}
    losses, gate = architectures.without_gate(values, splits)
    assert losses["value"].tolist() == [1, 4] and gate["value"].tolist() == [2, 3]


ROWS = pd.DataFrame(
    {
        "protocol": "ReSTTest",
        "n_train": [9, 9, 9, 5],
        "measure": ["RR@10", "RR@10", "RR@10", "R@100"],
        "model": ["BM25", "ColBERT", "DR (base)", "DR (base)"],
        "interpolation": [0.5, 0.6, 0.7, 0.9],
        "extrapolation": [0.5, 0.58, 0.55, 0.9],
        "delta": [0.0, -0.03, -0.2, 0.0],
        "high": [0.1, 0.01, -0.1, 0.1],
        "n_queries": [40, 38, 40, 40],
    }
)


def test_rows_that_judge_have_the_measure_and_size_of_their_protocol():
    judged = architectures.judged_rows(ROWS, {"ReSTTest": "RR@10"}, [9])
    assert judged["model"].tolist() == ["BM25", "ColBERT", "DR (base)"]
    assert set(architectures.panels(judged)) == {"ReSTTest, RR@10, 40 queries"}


def test_a_neural_system_that_is_not_above_bm25_is_excluded_and_not_called_best():
    judged = architectures.judged_rows(ROWS, {"ReSTTest": "RR@10"}, [9])
    ahead = judged[BY].assign(model=judged["model"], lead=0.1, lead_low=[-1.0, 0.0, 0.1])
    excluded = architectures.is_excluded(judged, ahead, BY)
    assert excluded.tolist() == [False, True, False]
    lines = architectures.sentences(judged.assign(excluded=excluded))
    assert lines[0].endswith("lies below 0 for DR (base).")
    assert "smallest loss DR (base)" in lines[1]
    lines = architectures.sentences(judged.assign(excluded=False))
    assert "smallest loss ColBERT; most effective DR (base) in interpolation, ColBERT" in lines[1]


def test_queries_that_lose_most_stand_beside_their_nearest_training_queries():
    query_ids = list("abcde")
    lost = pd.DataFrame({"BM25": 0.0, "DR (base)": [0.1, 0.5, 0.2, 0.3, 0.4]}, query_ids)
    near = pd.DataFrame(
        [(name, regime, 0.5, "t1") for name in query_ids for regime in REGIMES],
        columns=["query_id", "regime", "similarity", "nearest"],
    )
    texts = pd.Series({name: f"text of {name}" for name in [*query_ids, "t1"]})
    page = architectures.most_lost(lost, near, texts, ["BM25", "DR (base)"])
    assert set(page["query"]) == {f"text of {name}" for name in "bcde"} and len(page) == 8
    assert set(page["nearest training query"]) == {"text of t1"}
    assert page.loc[page["query"] == "text of b", "lost by DR (base)"].tolist() == [0.5, 0.5]
    once = architectures.most_lost(lost, near, texts, ["DR (base)", "DR (base)"])
    assert list(once.columns[-1:]) == ["lost by DR (base)"]
