"""Published losses in long form, their link with the Jaccard, and verdicts that follow from the losses given."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from interextra.ground.errors import InputError
from interextra.study import published
from interextra.papers.lupart_losses import (
    MODELS,
    compare_losses,
    correlation,
    order_claims,
    published_jaccard_link,
    published_losses,
)


def test_losses_are_the_printed_cells():
    table = published_losses()
    assert len(table) == 10 * 5 and table.groupby("shift", sort=False).size().to_dict() == {
        "topics": 25, "wh-words": 15, "length": 10,
    }  # fmt: skip
    for number in (2, 3):
        for model in ("bi-encoder", "SPLADE", "ColBERT", "monoBERT"):
            for quantity, name in (("Rel Loss", "rel_loss"), ("Avg In", "avg_in"), ("Out", "out")):
                printed = published.wide("lupart", number).loc[f"{model} | {quantity}"]
                ours = table[table["model"] == model].set_index("cluster").loc[printed.index, name]
                assert ours.to_numpy() * 100 == pytest.approx(printed.to_numpy(float))
    bm25 = table[table["model"] == "BM25"].set_index("cluster")
    assert bm25["rel_loss"].isna().all() and bm25.loc["how", "out"] == 0.147
    trained = table.dropna()
    assert ((trained["avg_in"] - trained["out"]) / trained["avg_in"]).to_numpy() == pytest.approx(
        trained["rel_loss"], abs=0.005
    )


def test_models_are_named_as_ours_on_request():
    assert published_losses(ours=True)["model"].map(MODELS).equals(published_losses()["model"])


def test_pearson_is_that_of_scipy_with_its_interval():
    x, y = np.random.default_rng(1).normal(size=(2, 8))
    found, theirs = correlation(x, y, "Pearson", level=0.9), stats.pearsonr(x, y)
    assert (found["estimate"], found["p_value"]) == pytest.approx(tuple(theirs))
    assert (found["low"], found["high"]) == pytest.approx(tuple(theirs.confidence_interval(0.9)))
    for n, needed in ((5, 0.878), (8, 0.707)):  # tables of critical values of r
        assert correlation(range(n), np.sin(range(n)), "Pearson")["needed"] == pytest.approx(needed, abs=5e-4)


def test_spearman_is_tested_by_all_orders():
    x, y = np.array([3.0, 1, 4, 1, 5, 9]), np.array([2.0, 7, 1, 8, 2, 8])
    found = correlation(x, y, "Spearman")
    assert found["estimate"] == pytest.approx(stats.spearmanr(x, y).statistic)
    orders = [abs(stats.spearmanr(x, y[list(order)]).statistic) for order in itertools.permutations(range(6))]
    assert found["p_value"] == pytest.approx(np.mean(np.array(orders) >= abs(found["estimate"]) - 1e-9))
    half = stats.norm.ppf(0.975) * np.sqrt((1 + found["estimate"] ** 2 / 2) / 3)
    assert np.arctanh(found["high"]) - np.arctanh(found["low"]) == pytest.approx(2 * half)
    for n, needed in ((5, 1.0), (6, 0.886), (7, 0.786), (8, 0.738)):  # tables of critical values of rho
        assert correlation(range(n), range(n), "Spearman")["needed"] == pytest.approx(needed, abs=5e-4)


def test_perfect_correlation_has_no_interval_and_no_fewer_than_four_points_are_taken():
    found = correlation([1, 2, 3, 4, 5], [9, 7, 5, 3, 2], "Spearman")
    assert found["estimate"] == -1 and np.isnan(found["low"]) and found["p_value"] == pytest.approx(2 / 120)
    for arguments in (([1, 2, 3], [1, 2, 3], "Pearson"), ([1, 2, 3, np.nan], [1, 2, 3, 4], "Pearson"),
                      ([1, 1, 1, 1], [1, 2, 3, 4], "Pearson"), ([1, 2, 3, 4], [1, 2, 3, 4], "Kendall"),
                      ([1, 2, 3, 4], [1, 2, 3, 4, 5], "Pearson")):  # fmt: skip
        with pytest.raises(InputError):
            correlation(*arguments)


def test_link_of_loss_and_jaccard_on_five_topics():
    table = published_jaccard_link()
    pearson = table[table["method"] == "Pearson"].set_index("model")
    assert pearson["estimate"].round(2).to_dict() == {
        "bi-encoder": -0.73, "SPLADE": -0.92, "ColBERT": -0.76, "monoBERT": -0.71,
    }  # fmt: skip
    assert pearson["p_value"].round(2).to_dict() == {
        "bi-encoder": 0.17, "SPLADE": 0.03, "ColBERT": 0.13, "monoBERT": 0.18,
    }  # fmt: skip
    assert ((pearson["estimate"].abs() > pearson["needed"]) == (pearson["p_value"] < 0.05)).all()
    assert ((pearson["high"] < 0) == (pearson["p_value"] < 0.05)).all()
    assert (table["p_holm"] > 0.05).all() and (table["p_holm"] >= table["p_value"]).all()


def test_link_with_question_words_takes_the_released_queries(real_data):
    table = published_jaccard_link(real_data / "ms-marco-shift")
    assert table.groupby(["jaccard", "clusters"]).size().to_dict() == {
        ("authors", "topics"): 8, ("released", "topics"): 8, ("released", "topics and wh-words"): 8,
    }  # fmt: skip
    assert (table["estimate"] < 0).all()
    eight = table[table["n"] == 8]
    assert eight["estimate"].between(-0.91, -0.76).all() and (eight["p_value"] < 0.05).all()


def losses_of(means, shift="topics", clusters=("a", "b"), step=0.02, **columns):
    return pd.DataFrame(
        [
            {"shift": shift, "model": model, "cluster": cluster, "measure": "RR@10", "rel_loss": mean + sign * step}
            for model, mean in means.items()
            for cluster, sign in zip(clusters, (-1, 1), strict=True)
        ]
    ).assign(**columns)


def test_published_losses_beside_themselves_agree():
    table = compare_losses(published_losses(ours=True).dropna().assign(measure="RR@10"))
    assert len(table) == 12 and (table["tau"] == 1).all() and table["mean_inside"].eq(True).all()
    assert (table["own_min"] == table["published_min"]).all() and (table["own_rank"] == table["published_rank"]).all()
    assert table["n_clusters"].tolist() == [5] * 4 + [3] * 4 + [2] * 4 and table["n_shown"].isna().all()


def test_range_direction_and_order_of_our_losses():
    own = {"BM25": 0.0, "DR (base)": -0.01, "SPLADE": 0.5, "ColBERT": 0.05, "Reranker": 0.1}
    measured = losses_of(own, low=lambda f: f["rel_loss"] - 0.1, high=1.0)
    other = measured.assign(measure="nDCG@10", rel_loss=9.0)
    table = compare_losses(pd.concat([other, measured])).set_index("model")
    assert list(table.index) == list(MODELS)
    assert table.loc["SPLADE", ["own_min", "own_mean", "own_max"]].tolist() == pytest.approx([0.48, 0.5, 0.52])
    assert table.loc["SPLADE", ["published_min", "published_max"]].tolist() == [0.014, 0.122]
    assert table["n_shown"].to_dict() == {"BM25": 0, "DR (base)": 0, "SPLADE": 2, "ColBERT": 0, "Reranker": 1}
    assert table["same_direction"].to_dict() == {
        "BM25": None, "Reranker": True, "ColBERT": True, "SPLADE": True, "DR (base)": False,
    }  # fmt: skip
    assert table["mean_inside"].to_dict() == {
        "BM25": None, "Reranker": True, "ColBERT": True, "SPLADE": False, "DR (base)": False,
    }  # fmt: skip
    # ours: SPLADE, Reranker, ColBERT, dense; published: dense, SPLADE, Reranker, ColBERT: three of six pairs turned
    assert table["own_rank"].dropna().to_dict() == {"SPLADE": 1, "Reranker": 2, "ColBERT": 3, "DR (base)": 4}
    assert table["published_rank"].dropna().to_dict() == {"DR (base)": 1, "SPLADE": 2, "Reranker": 3, "ColBERT": 4}
    assert table["tau"].tolist() == pytest.approx([0.0] * 5)


def test_shift_that_was_not_published_and_models_that_we_lack_leave_gaps():
    own = [losses_of({"SPLADE": 0.1}, "kinds"), losses_of({"SPLADE": 0.1}), losses_of({"BM25": 0.0}, "kinds")]
    table = compare_losses(pd.concat(own))
    assert table[["shift", "model"]].to_numpy().tolist() == [
        ["topics", "SPLADE"], ["kinds", "BM25"], ["kinds", "SPLADE"],
    ]  # fmt: skip
    assert table["tau"].isna().all() and table["published_mean"].isna().tolist() == [False, True, True]
    assert table["own_rank"].tolist()[0] == 1 and table["own_rank"].isna().tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("measured", "message"),
    [
        (losses_of({"SPLADE": 0.1}).drop(columns="measure"), "no column 'measure'"),
        (losses_of({"SPLADE": 0.1}).assign(measure="AP"), "none of RR@10; there are 'AP'"),
        (losses_of({"monoBERT": 0.1}), "unknown model 'monoBERT'; use BM25, Reranker"),
        (pd.concat([losses_of({"SPLADE": 0.1})] * 2), "given twice: .'topics', 'SPLADE', 'a'.*average over seeds"),
    ],
)
def test_losses_that_cannot_be_compared_are_an_error(measured, message):
    with pytest.raises(InputError, match=message):
        compare_losses(measured)


def draws_of(means, deviation, seed=1):
    rng = np.random.default_rng(seed)
    return {name: mean + deviation * rng.normal(size=4000) for name, mean in means.items()}


LOSSES = {"BM25": 0.0, "Reranker": 0.02, "ColBERT": 0.03, "SPLADE": 0.10, "DR (base)": 0.20}
OUT = {"BM25": 0.3, "Reranker": 0.6, "ColBERT": 0.5, "SPLADE": 0.45, "DR (base)": 0.35}


def stated(losses=LOSSES, deviation=0.001, out=OUT, **columns):
    table = losses_of(losses, **columns)
    return order_claims(
        table.assign(out=table["model"].map(out)), draws_of(losses, deviation), draws_of(out, deviation)
    )


def test_findings_hold_where_they_were_built_in_and_are_contradicted_where_turned():
    table = stated()
    assert table["verdict"].tolist() == ["holds"] * 5
    assert table["estimate"].tolist() == pytest.approx([0.10, 0.10, 0.07, 0.08, 0.05])
    assert (table["low"] < table["estimate"]).all() and (table["estimate"] < table["high"]).all()
    turned = dict(zip(LOSSES, reversed(LOSSES.values()), strict=True))
    below = dict(zip(OUT, reversed(OUT.values()), strict=True))
    assert stated(turned, out=below)["verdict"].tolist() == ["contradicted"] * 5
    assert stated(deviation=0.5)["verdict"].tolist() == ["not shown"] * 5


def test_one_model_that_loses_more_is_enough_against_loses_most():
    table = stated(LOSSES | {"ColBERT": 0.3}).set_index("finding")
    assert table.loc["DR (base) loses most", "estimate"] == pytest.approx(-0.1)
    assert table.loc["DR (base) loses most", "verdict"] == "contradicted"
    assert table.loc["DR (base) loses more than SPLADE", "verdict"] == "holds"
    assert table.loc["SPLADE loses more than ColBERT", "verdict"] == "contradicted"


def test_interval_is_that_of_the_joint_draws():
    shared = np.random.default_rng(2).normal(size=4000)  # the same queries hit both models
    draws = {"DR (base)": 0.2 + shared, "SPLADE": 0.1 + shared}
    table = order_claims(losses_of({"DR (base)": 0.2, "SPLADE": 0.1}), draws).set_index("finding")
    row = table.loc["DR (base) loses more than SPLADE"]
    assert (row["low"], row["high"]) == pytest.approx((0.1, 0.1)) and row["verdict"] == "holds"


def test_findings_about_absent_models_are_left_out_and_nothing_is_claimed_without_draws():
    table = order_claims(losses_of({"DR (base)": 0.2, "ColBERT": 0.1, "BM25": 0.0}))
    assert table["finding"].tolist() == ["DR (base) loses most"]
    assert table["verdict"].tolist() == ["no interval"] and table["low"].isna().all()
    with pytest.raises(InputError, match="no finding can be stated of 'BM25'"):
        order_claims(losses_of({"BM25": 0.0}))
    with pytest.raises(InputError, match="no draws of 'SPLADE'; resample all models together"):
        order_claims(losses_of({"DR (base)": 0.2, "SPLADE": 0.1}), {"DR (base)": np.zeros(9)})


def test_published_order_holds_for_topics_and_question_words_and_not_for_length():
    table = published_losses(ours=True)
    above = {shift: order_claims(part)["estimate"].gt(0).tolist() for shift, part in table.groupby("shift")}
    assert above == {"topics": [True] * 5, "wh-words": [True] * 5, "length": [False, True, True, False, True]}
