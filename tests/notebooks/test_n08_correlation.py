import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from toy_parameters import plan_named, plan_with

from interextra.claims import claim, judgement
from interextra.notebooks import n08_correlation as correlation
from interextra.notebooks.plans import cells_of
from interextra.papers import published
from interextra.site.parameters import profile_parameters
from interextra.stats.correlation import drawn_groups, steiger, stretched_z
from interextra.stats.effects import Effects, effects
from interextra.store.errors import InputError

METHODS, SIZES, REGIMES = (
    [f"m{i}" for i in range(8)],
    [100, 200, 400],
    ["interpolation", "extrapolation"],
)


def values_of(means, name="", part="", n=40, noise=0.05, seed=0):
    """Values per query of each model: `means` float[regimes, methods, sizes]."""
    random, rows = np.random.default_rng(seed), []
    for (r, regime), (m, method), (s, size) in itertools.product(
        *map(enumerate, (REGIMES, METHODS, SIZES))
    ):
        rows.append(
            pd.DataFrame(
                {
                    **{
                        "method": method,
                        "n_train": size,
                        "regime": regime,
                        "seed": 1,
                        "collection": name,
                        "part": part,
                    },
                    **{
                        "query_id": [f"q{i}" for i in range(n)],
                        "unit": [f"q{i}" for i in range(n)],
                    },
                    "measure": "nDCG@10",
                    "value": means[r, m, s] + noise * random.normal(size=n),
                }
            )
        )
    return pd.concat(rows, ignore_index=True)


@pytest.fixture(scope="module")
def points():
    """Two collections: one that follows extrapolation, one that nothing in domain predicts."""
    random = np.random.default_rng(7)
    inside = random.uniform(0.2, 0.8, size=(2, 8, 3))
    follows = np.stack(
        [random.uniform(0.2, 0.8, size=(8, 3)), inside[1] + 0.02 * random.normal(size=(8, 3))]
    )
    other = random.uniform(0.2, 0.8, size=(2, 8, 3))
    outside = [values_of(follows, "follows", "a", seed=1), values_of(other, "other", "a", seed=2)]
    return correlation.points(values_of(inside), pd.concat(outside), seed=1, n_boot=400)


def frame_of(points):
    """A row a point, regime and collection, with both sides."""
    names = ["method", "n_train", "regime"]
    long = pd.DataFrame(points).melt(["collection", *names[:2]], REGIMES, "regime", "out_of_domain")
    is_inside = long["collection"] == correlation.IN_DOMAIN
    inside = (
        long[is_inside].drop(columns="collection").rename(columns={"out_of_domain": "in_domain"})
    )
    return long[~is_inside].merge(inside, on=names)


def test_table_5_agrees_with_scipy(points):
    frame, table = frame_of(points), correlation.table_5(points, 1)
    assert len(frame) == 2 * 24 * 3 and (table["n_models"] == 24).all()
    for method, function in {
        "Spearman": stats.spearmanr,
        "Kendall": stats.kendalltau,
        "Pearson": stats.pearsonr,
    }.items():
        for row in table[table["statistic"] == method].itertuples():
            for regime in REGIMES:
                part = frame[(frame["collection"] == row.collection) & (frame["regime"] == regime)]
                assert getattr(row, regime) == pytest.approx(
                    function(part["in_domain"], part["out_of_domain"]).statistic
                )
    row = table[(table["statistic"] == correlation.WITHIN) & (table["collection"] == "other")].iloc[
        0
    ]
    part = frame[(frame["collection"] == "other") & (frame["regime"] == "extrapolation")]
    ranks = part[["in_domain", "out_of_domain"]].rank()
    left = ranks - ranks.groupby(part["n_train"]).transform("mean")
    assert row["extrapolation"] == pytest.approx(left.corr().iloc[0, 1])


def test_the_order_in_which_models_were_measured_elsewhere_does_not_matter():
    drawn = np.random.default_rng(5).uniform(0.2, 0.8, size=(2, 2, 8, 3))
    inside, outside = values_of(drawn[0]), values_of(drawn[1], "c", "a", seed=1)
    turned = outside.sort_values(["method", "n_train"], ascending=[False, True], kind="stable")
    found = [
        correlation.table_5(correlation.points(inside, one, seed=1, n_boot=100), 1)
        for one in (outside, turned)
    ]
    sides = ["interpolation", "extrapolation", "difference"]
    assert np.allclose(*(np.asarray(table[sides], float) for table in found))


def test_each_size_but_one_costs_steigers_test_a_point(points):
    frame, table = (
        frame_of(points),
        correlation.table_5(points, 1).set_index(["collection", "statistic"]),
    )
    parts = [
        frame[(frame["collection"] == "other") & (frame["regime"] == regime)] for regime in REGIMES
    ]
    sides = [part[side] for part in parts for side in ("in_domain", "out_of_domain")]
    ranks = [stats.rankdata(side).reshape(8, 3) for side in sides]  # [methods, sizes]
    left = [(side - side.mean(axis=0)).ravel() for side in ranks]
    for statistic, matrix, n in (("Spearman", ranks, 24), (correlation.WITHIN, left, 22)):
        matrix = np.corrcoef([side.ravel() for side in matrix])
        assert table.loc[("other", statistic), "p_value"] == pytest.approx(
            steiger(matrix, n)[1], rel=1e-9
        )
    pairs = np.random.default_rng(1).normal(size=(2, 2, 5))
    assert np.isfinite(correlation.dependent(pairs, "Spearman", list("aaaab")))
    assert np.isnan(
        correlation.dependent(pairs, "Spearman", list("aaabc"))
    )  # three points are left


def judged(points, lead=0.1):
    """The claims of notebook 08 on points, by name."""
    answering = correlation.claimed(correlation.table_5(points, 1), "nDCG@10", 80, 1)
    ahead = pd.DataFrame({"regime": REGIMES, "lead": lead, "lead_low": lead})
    every = claim.of_notebook("08_beir_correlation")
    claims = [claim for claim in every if claim.paper == "zhan" and not claim.secondary]
    return judgement.concluded(claim.answered(claims, [answering], ahead)).set_index("claim")


def test_a_regime_that_predicts_is_found_and_one_that_does_not_is_not(points):
    table = correlation.table_5(points, 1)
    row = table[(table["collection"] == "follows") & (table["statistic"] == "Spearman")].iloc[0]
    assert row["extrapolation"] > 0.9 and row["difference_low"] > 0 and row["p_value"] < 0.01
    assert (table.loc[table["collection"] == correlation.ALL, "p_holm"]).isna().all()

    def alone(name):
        """One collection as the mean of all."""
        kept = points[points["collection"].isin([correlation.IN_DOMAIN, name])]
        return kept.replace({"collection": {name: correlation.ALL}})

    found = judged(alone("follows"))
    assert found["verdict"].tolist() == ["holds", "holds"] and found["n_models"].eq(24).all()
    assert (
        -1
        < found.loc["extrapolation-predicts", "low"]
        < found.loc["extrapolation-predicts", "high"]
        < 1
    )
    assert judged(alone("follows"), lead=-0.1)["reason"].eq(judgement.GATE).all()
    assert judged(alone("other"))["verdict"].tolist() == ["undecided", "undecided"]


def test_ways_of_training_of_one_lineage_are_drawn_as_one(points):
    means = np.random.default_rng(9).uniform(size=(2, 8, 3))
    one = correlation.points(
        values_of(means), values_of(means, "c", "a"), seed=1, n_boot=50, lineage=METHODS[:3]
    )
    units = one[one["collection"] == "c"].set_index("method")["unit"]
    drawn = drawn_groups(units, 1, 50)
    counts = pd.DataFrame(drawn.T, units.index)
    assert (
        counts.loc["m0"].to_numpy() == counts.loc["m2"].to_numpy()
    ).all() and units.nunique() == 6
    assert (drawn[:, ::3].sum(axis=1) != 8).any()  # six units, of which one has three ways


def test_intervals_draw_ways_of_training_not_points():
    """Three equal sizes of each method hold no more than one of them does."""
    random = np.random.default_rng(8)
    inside, outside = (
        np.repeat(random.uniform(0.2, 0.8, size=(2, 8, 1)), 3, axis=2) for _ in range(2)
    )
    both = correlation.points(
        values_of(inside, noise=0), values_of(outside, "c", "a", noise=0), seed=1, n_boot=2000
    )
    table = correlation.table_5(both, 1)
    row = table[(table["statistic"] == "Pearson") & (table["collection"] == "c")].iloc[0]
    drawn = [random.integers(8, size=8) for _ in range(2000)]
    once = [
        stats.pearsonr(inside[1, d, 0], outside[1, d, 0]).statistic
        for d in drawn
        if len(set(d)) > 1
    ]
    once = stretched_z(np.array(once), row["extrapolation"], 8)
    assert [row["extra_low"], row["extra_high"]] == pytest.approx(
        np.quantile(once, [0.025, 0.975]), abs=0.08
    )


def test_exchanging_the_regimes_turns_the_difference(points):
    by, sides = (
        ["collection", "method", "n_train"],
        [points.drawn(side) for side in ("second", "first", "effect")],
    )
    swapped = pd.DataFrame(points).rename(columns=dict(zip(REGIMES, REGIMES[::-1], strict=True)))
    turned = Effects.of(swapped, by, [*REGIMES, "difference"], *sides)
    one, two = correlation.table_5(points, 1), correlation.table_5(turned, 1)
    assert one["difference"].to_numpy() == pytest.approx(-two["difference"].to_numpy())
    assert np.allclose(one.drawn(), -two.drawn(), equal_nan=True)
    assert one["p_value"].to_numpy() == pytest.approx(two["p_value"].to_numpy(), nan_ok=True)


def test_the_gate_is_the_lead_of_half_of_the_ways_of_training():
    means = np.full((2, 8, 3), 0.5)
    means[1, :6] = 0.3
    both = correlation.points(values_of(means), values_of(means, "c", "a"), seed=1, n_boot=200)
    bm25 = (
        values_of(means)
        .query("method == 'm0' and n_train == 100 and regime == 'interpolation'")
        .assign(value=0.4)
    )
    leads = correlation.leads(both, bm25, 1)
    passing = (
        leads.assign(passing=leads["lead_low"] > 0).groupby("regime", sort=False)["passing"].sum()
    )
    assert passing.to_dict() == {"interpolation": 24, "extrapolation": 6}
    found = correlation.gate(leads).set_index("regime")
    assert found["lead"].round(1).to_dict() == {"interpolation": 0.1, "extrapolation": -0.1}
    assert (found["lead_low"] < found["lead"]).all() and found.loc["interpolation", "lead_low"] > 0


def test_some_points_are_measured_as_if_they_were_all(points):
    few = points[points["n_train"] > 100]
    once = correlation.table_5(few, 1).query("statistic == 'Kendall'").set_index("collection")
    part = frame_of(points).query(
        "n_train > 100 and collection == 'other' and regime == 'extrapolation'"
    )
    assert once.loc["other", "extrapolation"] == pytest.approx(
        stats.kendalltau(part["in_domain"], part["out_of_domain"]).statistic
    )
    assert (once["n_models"] == 16).all()


def test_a_collection_of_parts_is_their_mean_whatever_their_sizes():
    means = np.random.default_rng(9).uniform(size=(2, 8, 3))
    parts = [
        values_of(means, "c", "a", n=10, noise=0),
        values_of(means + 1, "c", "b", n=30, noise=0),
    ]
    both = pd.concat(
        [*parts, *(part.assign(measure=correlation.JUDGED, value=0.5) for part in parts)]
    )
    bm25 = both.query("method == 'm0' and n_train == 100 and regime == 'extrapolation'")
    own = bm25.assign(collection=correlation.IN_DOMAIN)
    found = correlation.out_of_domain(both, pd.concat([bm25, own]), "nDCG@10")
    assert (
        len(found) == 49
        and (found["n_queries"] == 40).all()
        and (found["judged_at_10"] == 0.5).all()
    )
    assert found.loc[
        found["model"] == "m3, 200, extrapolation, 1", "value"
    ].item() == pytest.approx(means[1, 3, 1] + 0.5)
    [row] = correlation.by_collection(found, {"c": "no"}).to_dict("records")
    assert (row["seen in pretraining"], row["queries"], row["Judged@10, models"]) == ("no", 40, 0.5)
    ends = [row["least effective model"], row["most effective model"], row["BM25"]]
    assert ends == pytest.approx([means.min() + 0.5, means.max() + 0.5, means[1, 0, 0] + 0.5])
    made = correlation.points(parts[0], pd.concat(parts), seed=1, n_boot=10).query(
        "collection == 'c'"
    )
    assert made[REGIMES].to_numpy().T.ravel() == pytest.approx((means + 0.5).ravel())


def test_a_model_that_lacks_queries_is_refused():
    values = values_of(np.full((2, 8, 3), 0.5), "c", "a")
    with pytest.raises(InputError, match="'q0' lacks a side"):
        correlation.points(values.iloc[1:], values, seed=1, n_boot=10)
    few = (values["query_id"] == "q0") & (values["method"] == "m3")
    with pytest.raises(InputError, match="a model lacks queries that others have"):
        correlation.points(values, values[~few], seed=1, n_boot=10)


def test_points_draw_as_effects_do():
    """Equal seed and equal queries: a row of `effects` has the draws of the point."""
    values = values_of(np.random.default_rng(3).uniform(size=(2, 8, 3)), "c", "a")
    made = correlation.points(values, values, seed=4, n_boot=50).query(
        "method == 'm2' and n_train == 200"
    )
    one = effects(values.query("method == 'm2' and n_train == 200"), ["regime"], seed=4, n_boot=50)
    for side, expected in zip(("first", "second"), one.drawn(), strict=True):
        assert made.drawn(side) == pytest.approx(
            np.stack([expected] * 3), rel=1e-12
        )  # in domain, c, and the mean


def test_a_printed_difference_is_rounded_as_both_correlations():
    ends = {
        "difference_low": 0.3049,
        "difference_high": 0.4,
    }  # .841 - .537 = .304, printed within .001
    ours = pd.DataFrame(
        {"collection": ["TREC-Covid", "mine"], "statistic": "Spearman", "difference": 0.35} | ends
    )
    table = Effects.of(ours, ["collection", "statistic"], ["difference"], np.zeros((2, 1)))
    [row] = published.beside_differences(table).to_dict("records")
    assert row["published"] == pytest.approx(0.841 - 0.537) and row["verdict"] == "agrees"
    [row] = published.beside_differences(table.assign(difference_low=0.3051)).to_dict("records")
    assert row["verdict"] == "same direction"


def test_published_differences_are_those_of_the_paper_with_intervals():
    """inventory F9: one difference of 14 has p < .05, none after Holm; TREC-COVID .537 [.14, .78],
    .841 [.62, .94].
    """
    table = published.zhan_correlations().query("statistic == 'Spearman'").set_index("collection")
    covid = table.loc["TREC-Covid"]
    assert covid[["inter_low", "inter_high", "extra_low", "extra_high"]].round(2).tolist() == [
        0.14,
        0.78,
        0.62,
        0.94,
    ]
    assert covid["p_value"] == pytest.approx(0.07, abs=0.005)
    assert (
        table.index[table["p_value"] < 0.05].tolist() == ["CQADupS."]
        and (table["p_holm"] > 0.05).all()
    )
    assert table.loc["CQADupS.", "p_value"] == pytest.approx(0.018, abs=0.001)


@pytest.fixture(scope="module")
def parameters(root):
    return profile_parameters(root, "mini", root / "notebooks" / "08_beir_correlation.ipynb", {})


def test_mini_has_32_models_and_trains_none_of_the_largest_sets_again(
    root, parameters, monkeypatch
):
    monkeypatch.chdir(root)
    plan = plan_named("08_beir_correlation", parameters)
    assert len(plan.in_domain) == 32 and plan.in_domain.groupby("regime").size().tolist() == [
        16,
        16,
    ]
    assert len(plan.elsewhere) == 32 * 8 and len(plan.bm25) == 9
    given = profile_parameters(root, "mini", root / "notebooks" / "06_pretraining_study.ipynb", {})
    there = {cell.key for cell in cells_of(plan_named("06_pretraining_study", given))}
    largest = plan.in_domain[plan.in_domain["n_train"] == 1600]
    assert all(run.key in there for run in largest["run"])


def test_sets_of_further_sizes_leave_those_that_are_shared_alone(root, parameters, monkeypatch):
    monkeypatch.chdir(root)
    more = plan_with(
        correlation,
        parameters.changed(sizes=[1600], trained_sizes=[1600], more_sizes=[112, 360]),
    )
    assert more.sets[1600].sizes == (1600,) and more.sets[112].sizes == more.sets[360].sizes == (
        112,
        360,
    )
    assert sorted(more.in_domain["n_train"].unique()) == [112, 360, 1600]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"more_sizes": [360, 400]}, "'more_sizes': 360 stands in 'sizes', too"),
        ({"trained_sizes": [112, 7]}, "'trained_sizes': 7 is none of 112"),
        ({"results": "nowhere.csv"}, "'results': there is no file nowhere.csv"),
        (
            {"collections": [{"name": "a", "split": "test", "collection": "mini"}]},
            "write {name: …, split: …, read: …, collection: …}",
        ),
        ({"skip_own": ["nowhere"]}, "'skip_own': 'nowhere' is none of "),
        ({"strategies": [{"label": "words", "recipe": "mini-dense"}]}, "stands in both"),
        ({"lineage": ["Random", "ADORE"]}, "'lineage': 'ADORE' is none of 'Random', "),
    ],
)
def test_what_cannot_be_meant_is_named(root, parameters, changed, said, monkeypatch):
    monkeypatch.chdir(root)
    with pytest.raises(InputError, match=said.replace("|", r"\|")):
        plan_with(correlation, parameters.changed(**changed))


def leads_of(**lows):
    """Leads of methods at one size, in both regimes: the lower ends of their intervals."""
    rows = [
        (method, 100, regime, low + 0.1, low)
        for method, ends in lows.items()
        for regime, low in zip(REGIMES, ends, strict=True)
    ]
    return pd.DataFrame(rows, columns=["method", "n_train", "regime", "lead", "lead_low"])


def test_points_above_bm25_beat_it_under_both_regimes():
    leads = leads_of(m0=(0.1, 0.1), m1=(0.1, -0.1), m2=(-0.1, 0.1))
    rows = [(place, method, 100) for place in ("in domain", "c") for method in ("m1", "m0", "m2")]
    points = pd.DataFrame(rows, columns=["collection", "method", "n_train"])
    found = correlation.above_bm25(points, leads)
    assert found["method"].tolist() == ["m0", "m0"]
    ood = pd.DataFrame({"model": ["x", "x", "BM25"], "value": [0.2, 0.4, 0.5]})
    sentence = correlation.bm25_sentence(leads, ood, "nDCG@10")
    assert "2 of 3 (interpolation) and 2 of 3 (extrapolation)" in sentence
    assert sentence.endswith("most effective model 0.30, BM25 0.50.")


def test_scores_of_a_point_are_means_over_seeds_and_collections():
    models = pd.DataFrame({"model": ["a, 1", "a, 2", "b, 1"], "method": ["a", "a", "b"]})
    models = models.assign(n_train=100, regime=REGIMES[0], dl_ndcg=[0.2, 0.4, 0.5])
    ood = pd.DataFrame({"model": [*models["model"]] * 2, "value": [0.1, 0.3, 0.5, 0.3, 0.5, 0.7]})
    scores = correlation.scores_by_point(models, ood).loc[REGIMES[0], ["dl_ndcg", "elsewhere"]]
    assert scores.loc[("a", 100)].tolist() == pytest.approx([0.3, 0.3])
    assert scores.loc[("b", 100)].tolist() == pytest.approx([0.5, 0.6])


def test_sentences_say_whether_the_design_and_the_interval_separate_the_regimes():
    assert "hardly separates" in correlation.alike_sentence(0.95, 14)
    assert "hardly" not in correlation.alike_sentence(0.5, 14)
    row = {"collection": correlation.ALL, "statistic": "Spearman", "difference": 0.2}
    ends = pd.DataFrame([row | {"difference_low": -0.1, "difference_high": 0.4}])
    assert correlation.prediction_sentence(ends).endswith("[-0.10, +0.40], includes 0")
    assert correlation.prediction_sentence(ends.assign(difference_low=0.1)).endswith("excludes 0")


def test_published_correlations_in_words_are_those_of_the_table():
    theirs = published.zhan_correlations()
    first, second = correlation.published_sentences(theirs)
    assert first.startswith("12 of 14 published differences are above 0")
    assert second == "Differences with p < .05: 1; after Holm's correction: 0."


def test_our_differences_stand_beside_the_published_ones_of_the_same_collection():
    ours = {"collection": ["TREC-Covid", "mine"], "statistic": "Spearman", "difference": 0.35}
    ours |= {"difference_low": 0.3, "difference_high": 0.4}
    table = Effects.of(
        pd.DataFrame(ours), ["collection", "statistic"], ["difference"], np.zeros((2, 1))
    )
    [sentence] = correlation.beside_sentences(table)
    assert sentence == "TREC-Covid: ours +0.35 [+0.30, +0.40], published +0.30 (agrees)"
    [sentence] = correlation.beside_sentences(table[table["collection"] == "mine"])
    assert sentence == "This run measures none of the paper's collections."


def test_a_page_says_whose_table_it_shows():
    table = pd.DataFrame({"a": [1]})
    said = [correlation.whose(is_ours, some) for is_ours, some in ((True, table), (False, table))]
    assert said == ["This run:", "Committed result of the profile small:"]
    assert correlation.whose(False, table.iloc[:0]) == "No such result."
    empty = pd.DataFrame()
    assert correlation.published_models_page(empty).empty and correlation.spearman_page(empty).empty


def test_the_table_of_training_runs_counts_the_models_of_a_strategy():
    runs = itertools.product(["m0", "m1"], [100, 200], REGIMES, [1, 2])
    design = pd.DataFrame(runs, columns=["method", "n_train", "regime", "seed"])
    page = correlation.training_runs(design).set_index("training strategy")
    assert page["models"].tolist() == [8, 8]
    assert page.loc["m0"].tolist() == ["100, 200", "interpolation, extrapolation", "1, 2", 8]
