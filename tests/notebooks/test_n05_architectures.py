"""Notebook 05: the order of systems, what a reranker reads, and plans that share their cells."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from toy_parameters import COMMON, COMPARED, RESTRAIN, plan_with

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
