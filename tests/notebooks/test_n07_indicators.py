"""Indicators beside losses: from the right cells, against brute force, and findings follow from
what was built in.
"""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from test_n04_shifts import FIVE, P, losses_of
from toy_parameters import typed

import interextra as ix
from interextra.claims import claim, judgement
from interextra.data.queries import Part
from interextra.data.runs import RunFile
from interextra.measures import indicators, predictors
from interextra.measures.predictors import POST, PRE, SPACE, WORDS
from interextra.notebooks import n04_shifts as shifts
from interextra.notebooks import n07_indicators as notebook
from interextra.notebooks.n07_indicators import DENSE, POOLED
from interextra.papers import releases
from interextra.splits.resttest import sides
from interextra.stats.bootstrap import resamples, seed_of
from interextra.stats.correlation import correlation_test, kendall_within
from interextra.stats.effects import effects
from interextra.store.folders import Store


def test_the_front_door_leads_to_the_modules_of_the_notebooks():
    assert ix.indicators is notebook and ix.shifts is shifts  # not to what they import


@pytest.fixture(scope="module")
def shifted(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("outputs") / "cells")
    made = shifts.shifts_of(
        typed(
            shifts,
            P
            | {
                "shifts": [{"shift": "wh-words", "clusters": ["how", "who"]}],
                "n_test": 12,
                "train_size": 30,
            },
        )
    )
    store.build(made["wh-words"])
    return store, made


def brute_jaccard(source, target):
    s, t = (Counter(" ".join(texts).lower().split()) for texts in (source, target))
    shares = [(s[word] / s.total(), t[word] / t.total()) for word in s | t]
    return sum(map(min, shares)) / sum(map(max, shares))


def test_jaccard_of_clusters_is_that_of_their_texts_and_the_same_for_two_clusters(shifted):
    store, shifts = shifted
    cell, table = shifts["wh-words"], indicators.jaccard_table(shifts, store).set_index("stratum")
    texts, label = (
        cell.pool.frame()["text"],
        pd.read_parquet(store[cell] / "labels.parquet")["cluster"],
    )
    assert table.loc["how", "jaccard"] == table.loc["who", "jaccard"]
    assert table.loc["how", "jaccard"] == pytest.approx(
        brute_jaccard(texts[label == "how"], texts[label == "who"])
    )
    strata, by_id = cell.strata(store), cell.pool.frame().set_index("query_id")["text"]
    for name, other in (("how", "who"), ("who", "how")):
        mine = by_id[strata.index[strata == name]]
        train = Part(of=cell, part=f"without-{name}").frame(store)["text"]
        assert table.loc[name, "jaccard_eval_only"] == pytest.approx(brute_jaccard(mine, train))
        assert set(train) <= set(texts[label == other])  # never trained on the own cluster
        assert table.loc[name, ["n_queries", "n_train"]].tolist() == [12, 30]


def test_words_of_a_query_are_held_against_the_training_of_the_model_without_its_cluster(shifted):
    store, shifts = shifted
    cell = shifts["wh-words"]
    said = predictors.word_indicators(shifts, cell.pool.source.open().passages, store).set_index(
        "query_id"
    )
    assert len(said) == 24 and {f"collection: {name}" for name in PRE} <= set(said)
    query_id, name = next(cell.strata(store).items())
    text = cell.pool.frame().set_index("query_id").loc[query_id, "text"]
    train = Part(of=cell, part=f"without-{name}").frame(store)["text"].tolist()
    assert said.loc[query_id, "words: query_jaccard"] == pytest.approx(brute_jaccard([text], train))
    sets = [set(other.lower().split()) for other in (text, *train)]
    best = max(len(sets[0] & other) / len(sets[0] | other) for other in sets[1:])
    assert said.loc[query_id, "words: nearest_jaccard"] == pytest.approx(best)


class Folders(dict):
    """Stands for the store and for a shift: four queries in two clusters, two in each."""

    def strata(self, store):
        return pd.Series(list("aabb"), pd.Index(["q1", "q2", "q3", "q4"], name="query_id"))

    @property
    def pool(self):
        return SimpleNamespace(
            frame=lambda: pd.DataFrame({"query_id": ["q1", "q2", "q3", "q4"], "text": list("wxyz")})
        )


class Ran(int):
    """Stands for a run: the number of its folder."""

    depth, rerank_depth = 100, np.inf

    def read(self, store, queries):
        return RunFile.read(store[self] / f"run.{queries}.parquet")


class Reranked(Ran):
    rerank_depth = 2


def scored(tmp_path, places, kind=Ran):
    """A plan of runs (model, left_out, seed, shift of all scores) of four queries and three
    passages.
    """
    store, rows = Folders(), []
    for at, (model, left_out, seed, moved) in enumerate(places):
        folder = tmp_path / str(at)
        folder.mkdir()
        ids = ["q1", "q2", "q3", "q4"]
        near = pd.DataFrame(
            {name: moved + np.arange(4.0) for name in SPACE}, index=pd.Index(ids, name="query_id")
        )
        near.iloc[::-1].to_parquet(folder / "nearness.parquet")  # in another order than the queries
        scores = [(q, f"d{i}", moved + n + i**2) for n, q in enumerate(ids) for i in range(3)]
        frame = pd.DataFrame(scores, columns=["query_id", "doc_id", "score"])
        RunFile.from_frame(frame).write_parquet(folder / "run.held-out.parquet")
        store[at] = folder
        rows.append({"shift": "s", "model": model, "left_out": left_out, "seed": seed, "near": at})
    frame = pd.DataFrame(rows)
    frame["run"] = pd.Series([kind(at) for at in frame["near"]], dtype=object)
    plan = SimpleNamespace(design=frame.drop(columns="near"), shifts={"s": Folders()})
    plan.near = frame[frame["model"] != "BM25"].drop(columns="run")
    return plan, store


def test_each_query_is_read_from_the_model_without_its_cluster_and_seeds_are_averaged(tmp_path):
    trained = [
        ("dense", "a", 1, 0.0),
        ("dense", "a", 2, 10.0),
        ("dense", "b", 1, 100.0),
        ("dense", "b", 2, 200.0),
    ]
    plan, store = scored(tmp_path, [*trained, ("BM25", "b", 1, 0.0), ("BM25", "a", 1, 0.0)])
    near = predictors.spaces(plan.near, plan.shifts, store)
    assert set(near["model"]) == {"dense"}  # BM25 has no space
    assert near.set_index("query_id")["R"].to_dict() == {
        "q1": 5.0,
        "q2": 6.0,
        "q3": 152.0,
        "q4": 153.0,
    }
    assert near["stratum"].tolist() == list("aabb")
    after = predictors.run_predictors(plan.design, plan.shifts, store).set_index(
        ["model", "query_id"]
    )
    assert after.loc["dense", "top_score"].tolist() == [9.0, 10.0, 156.0, 157.0]
    assert after.loc["BM25", "nqc"].to_numpy() == pytest.approx(np.std([0, 1, 4]))


def test_of_a_reranker_only_the_reranked_passages_count(tmp_path):
    plan, store = scored(tmp_path, [("Reranker", "a", 1, 0.0), ("Reranker", "b", 1, 0.0)], Reranked)
    after = predictors.run_predictors(plan.design, plan.shifts, store).set_index("query_id")
    assert after.loc["q1", ["nqc", "wig"]].tolist() == [1.5, 2.5]  # of 4 and 1


def test_standardised_values_have_mean_0_and_deviation_1_in_each_group():
    values, groups = (
        pd.Series(np.random.default_rng(0).normal(5, 3, 60)),
        pd.Series(np.repeat(["a", "b", "c"], 20)),
    )
    values[groups == "c"] = 7.0
    made = pd.Series(indicators.z_scores(values, [groups])).groupby(groups)
    assert made.mean().to_numpy() == pytest.approx(0, abs=1e-12)
    assert made.std(ddof=0).to_numpy() == pytest.approx([1, 1, 0])


def clusters_of(n, shift="s"):
    points = pd.DataFrame(np.random.default_rng(1).random((n, 2)), columns=["jaccard", "delta"])
    return points.assign(model="SPLADE", shift=shift)


def test_link_needs_four_clusters_and_is_corrected_over_the_models_of_a_method():
    points = clusters_of(8)
    assert indicators.link(points.head(3), "jaccard").empty
    assert indicators.link(points.assign(jaccard=1.0), "jaccard").empty
    both = indicators.link(pd.concat([points, points.assign(model="ColBERT")]), "jaccard")
    assert both["p_holm"].to_numpy() == pytest.approx(np.minimum(2 * both["p_value"], 1).to_numpy())
    assert set(both["kind"]) == {"pooled"}  # one shift: both kinds are the same


def test_a_shift_whose_clusters_have_one_indicator_says_nothing_within_shifts():
    points = pd.concat(
        [clusters_of(8), clusters_of(2, "t").assign(jaccard=[0.3, 0.3 + 1e-13], delta=[0.1, 0.9])]
    )
    table = indicators.link(points, "jaccard").set_index(["kind", "method"])
    assert table["n"].to_dict() == {
        (kind, method): n
        for kind, n in (("pooled", 10), ("within shifts", 8))
        for method in ("Pearson", "Spearman")
    }
    alone = correlation_test(points["jaccard"].head(8), points["delta"].head(8), "Pearson")
    assert table.loc[("within shifts", "Pearson"), "estimate"] == pytest.approx(alone["estimate"])
    few = indicators.link(pd.concat([clusters_of(3), clusters_of(2, "t")]), "jaccard")
    assert set(few["kind"]) == {
        "pooled",
        "within shifts",
    }  # five points less one for the second shift
    assert set(
        indicators.link(pd.concat([clusters_of(2), clusters_of(2, "t")]), "jaccard")["kind"]
    ) == {"pooled"}


def test_link_of_the_published_losses_with_the_authors_jaccard():
    table = releases.published_links().set_index(["method", "model"])
    pearson = table.loc["Pearson"]
    assert pearson["estimate"].round(2).to_dict() == {
        DENSE: 0.73,
        "SPLADE": 0.92,
        "ColBERT": 0.76,
        "Reranker": 0.71,
    }
    assert pearson["p_value"].round(2).to_dict() == {
        DENSE: 0.17,
        "SPLADE": 0.03,
        "ColBERT": 0.13,
        "Reranker": 0.18,
    }
    assert ((pearson["estimate"].abs() > pearson["needed"]) == (pearson["p_value"] < 0.05)).all()
    assert (table["p_holm"] > 0.05).all()
    points = releases.published_points()
    assert len(points) == 20 and set(points["model"]) == set(FIVE) - {"BM25"}


def test_with_the_question_words_all_spearman_correlations_pass_holm_and_no_pearson(real_data):
    table = releases.published_links(real_data / "ms-marco-shift")
    assert table.groupby(["of", "clusters", "kind"]).size().to_dict() == {
        ("authors", "topics", "pooled"): 8,
        ("released", "topics", "pooled"): 8,
        ("released", "topics and wh-words", "pooled"): 8,
        ("released", "topics and wh-words", "within shifts"): 8,
    }
    eight = table[(table["n"] == 8) & (table["kind"] == "pooled")].set_index("method")
    assert eight["estimate"].between(0.76, 0.91).all() and (eight["p_value"] < 0.05).all()
    assert (eight.loc["Spearman", "p_holm"] < 0.023).all() and (
        eight.loc["Pearson", "p_holm"] > 0.05
    ).all()


def world(slope=0.6, n=400, seed=0, clusters=("a", "b")):
    """Values and spaces of one shift: Out falls below Avg In by `slope` times the distance (0 to
    1), but for ColBERT; R is 1 - distance, on a scale of each cluster's own.
    """
    draw, k = np.random.default_rng(seed), len(clusters)
    far, ids = draw.random(n), [f"q{i}" for i in range(n)]
    at = np.arange(n) * k // n
    stratum = np.array(clusters)[at]
    r = np.where(at == 0, 1 - far, 50 * (1 - far) + 7)
    space = pd.DataFrame(
        {"shift": "s", "model": DENSE, "stratum": stratum, "query_id": ids, "R": r, "max": r}
    )
    space["density"], parts = draw.random(n), []
    for model in (DENSE, "SPLADE", "ColBERT"):
        avg_in = 0.5 + 0.2 * draw.random(n)
        for name in clusters:
            noise = 0.01 * draw.normal(size=n)
            value = np.where(
                stratum == name, avg_in * (1 - slope * far * (model != "ColBERT")) + noise, avg_in
            ).clip(0.01)
            frame = pd.DataFrame(
                {
                    "shift": "s",
                    "model": model,
                    "left_out": name,
                    "query_id": ids,
                    "stratum": stratum,
                }
            )
            parts += [
                frame.assign(measure="RR@10", value=value),
                frame.assign(measure="ASL@100", value=1 / value),
            ]
    return sides(pd.concat(parts, ignore_index=True)), space


def prepared(values, near, control="", seed=1, n_boot=100):
    """averaged, pairs, distances, resampled."""
    values = values if "unit" in values else values.assign(unit=values["query_id"], seed=1)
    together = notebook.common_shifts(values, control)
    each = notebook.averaged(values, together)
    w = predictors.resampled(each, seed, n_boot)
    return each, notebook.pairs(each), notebook.distances(near, together), w


def test_pairs_are_the_mean_of_the_models_with_the_cluster_and_the_one_without():
    values, near = world(clusters=("a", "b", "c"), n=9)
    pairs = prepared(values, near)[1].set_index(["shift", "model", "measure", "query_id"])
    row, own = (
        pairs.loc[("s", "SPLADE", "RR@10", "q4")],
        values.query("query_id == 'q4' and measure == 'RR@10'"),
    )
    own = own[own["model"] == "SPLADE"].set_index("left_out")["value"]
    assert row[["stratum", "in", "out"]].tolist() == [
        "b",
        pytest.approx(own[["a", "c"]].mean()),
        own["b"],
    ]


def test_the_pool_is_of_the_shifts_with_all_systems_and_never_of_the_control():
    values, _ = world(n=4)
    dense = values[values["model"] == DENSE].assign(shift="t")
    assert notebook.common_shifts(pd.concat([values, dense]), "") == ["s"]
    assert notebook.common_shifts(
        pd.concat([values, values.assign(shift="t"), values.assign(shift="c")]), "c"
    ) == [
        "s",
        "t",
    ]
    assert notebook.common_shifts(pd.concat([dense, values.assign(shift="c")]), "c") == ["t"]


def test_pooled_distances_are_standardised_in_each_cluster():
    values, near = world()
    other = near.assign(shift="t", R=-near["R"])
    _, _, far, _ = prepared(
        pd.concat([values, values.assign(shift="c")]),
        pd.concat([near, near.assign(shift="c")]),
        "c",
    )
    of = far[far["shift"] == POOLED].merge(near[["query_id", "stratum"]]).groupby("stratum")["R"]
    assert of.mean().to_numpy() == pytest.approx(0, abs=1e-9) and of.std(
        ddof=0
    ).to_numpy() == pytest.approx(1)
    assert far.loc[far["shift"] == "s", "R"].to_numpy() == pytest.approx(near["R"].to_numpy())
    both = notebook.distances(pd.concat([near, other]), ["s", "t"])
    assert both.loc[both["shift"] == POOLED, "R"].to_numpy() == pytest.approx(
        0, abs=1e-9
    )  # opposite in the two


def test_a_query_that_is_in_two_shifts_counts_once_in_the_pool():
    values, near = world(n=40)
    other = values.assign(shift="t", value=values["value"] / 2)
    each, pairs, far, w = prepared(
        pd.concat([values, other]), pd.concat([near, near.assign(shift="t")])
    )
    pooled, key = pairs[pairs["shift"] == POOLED], (DENSE, "RR@10", "q7")
    assert pooled.groupby(["model", "measure"]).size().eq(40).all()
    single = pairs[pairs["shift"] == "s"].set_index(["model", "measure", "query_id"])
    assert pooled.set_index(["model", "measure", "query_id"]).loc[key, "out"] == pytest.approx(
        0.75 * single.loc[key, "out"]
    )
    trend = notebook.trend(pooled, far, w)
    assert trend[trend["loss"] == "difference"]["n_queries"].eq(40).all()


def test_trainings_and_units_stay_in_what_is_averaged():
    values, near = world(n=40)
    twice = pd.concat([values.assign(seed=seed, value=values["value"] * seed) for seed in (1, 2)])
    twice["unit"] = "u" + twice["query_id"].str[-1]
    each, pairs, far, w = prepared(twice, near)
    table = notebook.delta_by_r(each, far, 2, seed=1, n_boot=50)
    assert table["n_trainings"].eq(2).all()
    assert w.groupby(w.index.str[-1]).nunique().le(1).all(axis=None)  # ten units, each drawn as one
    first = pairs[(pairs["shift"] == "s") & (pairs["query_id"] == "q7")].set_index(
        ["model", "measure"]
    )["out"]
    own = values[(values["query_id"] == "q7") & (values["side"] == "out")].set_index(
        ["model", "measure"]
    )["value"]
    assert first.to_numpy() == pytest.approx(1.5 * own.loc[first.index].to_numpy())


def test_delta_by_r_is_found_by_every_way_to_cut_and_to_average():
    values, near = world()
    each, pairs, far, _ = prepared(values[values["model"] == DENSE], near)
    table = notebook.delta_by_r(each, far, 4, seed=1, n_boot=100)
    assert len(table) == 2 * 2 * 4 * 4 and set(table["bin"]) == {1, 2, 3, 4}
    pooled = table[table["shift"] == POOLED].sort_values("bin")
    turned = pooled["delta"] * np.where(pooled["measure"] == "ASL@100", -1, 1)
    steps = (
        turned.groupby([pooled[name] for name in ("measure", "binning", "averaging")])
        .diff()
        .dropna()
    )
    assert len(steps) == 24 and (steps > 0).all()
    equal = pooled[(pooled["binning"] == "quantile") & (pooled["measure"] == "RR@10")]
    assert (
        (equal["n_queries"] == 100).all()
        and (equal["low"] <= equal["delta"]).all()
        and (equal["n_dropped"] == 0).all()
    )
    frame = pairs.query("shift == @POOLED and measure == 'RR@10'").merge(far).nsmallest(100, "R")
    first = equal[equal["bin"] == 1].set_index("averaging")["delta"]
    assert first["ratio of means"] == pytest.approx(frame["out"].mean() / frame["in"].mean() - 1)
    assert first["mean of ratios"] == pytest.approx((frame["out"] / frame["in"] - 1).mean())


def test_queries_without_avg_in_are_dropped_from_the_mean_of_ratios_and_counted():
    both = pd.DataFrame(
        {"in": [0.0, 0.5, 0.0, 0.0], "out": [0.1, 0.2, 0.0, 0.0], "query_id": list("wxyz")}
    )
    each = both.melt("query_id", var_name="side").assign(
        shift="s", model=DENSE, measure="RR@10", stratum="a"
    )
    far = pd.DataFrame({"shift": "s", "query_id": list("wxyz"), "R": [1.0, 2, 8, 9]})
    table = notebook.delta_by_r(
        each.assign(unit=each["query_id"], seed=1), far, 2, seed=1, n_boot=20
    )
    table = table.set_index(["binning", "averaging", "bin"])
    assert table.loc[
        ("width", "mean of ratios", 1), ["n_queries", "n_dropped", "delta"]
    ].tolist() == [2, 1, -0.6]
    assert table.loc[("width", "ratio of means", 1), ["n_queries", "n_dropped"]].tolist() == [2, 0]
    assert table.loc[("width", "mean of ratios", 2), ["n_queries", "n_dropped"]].tolist() == [2, 2]
    assert (
        table.xs(2, level="bin")["delta"].isna().all()
    )  # nothing was found by any model: no loss is defined


def test_trend_is_tau_within_clusters_for_better_and_for_worse():
    _, pairs, far, w = prepared(*world())
    table = notebook.trend(pairs, far, w)
    trend = table.set_index(["shift", "model", "measure", "loss"])
    for measure in ("RR@10", "ASL@100"):
        assert trend.loc[("s", DENSE, measure, "difference"), "low"] > 0.7
    some = pairs.merge(far).query("shift == 's' and model == 'SPLADE' and measure == 'RR@10'")
    known = [
        stats.kendalltau(part["R"], part["out"] - part["in"]).statistic
        for _, part in some.groupby("stratum")
    ]
    assert trend.loc[("s", "SPLADE", "RR@10", "difference"), "kendall"] == pytest.approx(
        np.mean(known)
    )
    none = trend.loc[(POOLED, "ColBERT", "RR@10", "relative")]
    assert none["low"] < 0 < none["high"] and none["n_queries"] == 400
    ends = np.quantile(table.drawn(), [0.025, 0.975], axis=1)
    assert ends == pytest.approx(table[["low", "high"]].to_numpy().T, abs=0.02)


def test_the_same_resamples_serve_all_systems():
    values, near = world()
    copy = values[values["model"] == "SPLADE"].assign(model="copy")
    _, pairs, far, w = prepared(pd.concat([values, copy]), near)
    table = notebook.trend(pairs[pairs["measure"] == "RR@10"], far, w)
    one, other = (
        table[(table["model"] == name) & (table["shift"] == "s")].drawn()
        for name in ("SPLADE", "copy")
    )
    assert (one == other).all() and one.std() > 0
    names = sorted(w.index)  # each query is its own unit; the names seed the draws
    drawn = np.concatenate(list(resamples(400, seed_of(1, names), 100)))
    assert w.loc["q5"].tolist() == drawn[:, names.index("q5")].tolist()


def binned(pairs, far):
    numbered = pairs.merge(notebook.in_bins(far[far["shift"] == POOLED], 5, "quantile"))
    return numbered.assign(
        delta=indicators.change_per_query(numbered["in"], numbered["out"])
    ).dropna(subset="delta")


def claimed(values, near, slope, lead=0.2):
    """The claims of notebook 07 on a world, judged."""
    each, pairs, far, w = prepared(values, near, n_boot=300)
    trend = (
        notebook.trend(pairs[pairs["measure"] == "RR@10"], far, w)
        .query("shift == @POOLED")
        .assign(n_trainings=1)
    )
    ends = each[each["measure"] == "RR@10"].merge(
        notebook.in_bins(far, 5, "quantile").query("bin == 1")
    )
    ends = ends[ends["shift"] == POOLED]
    least = effects(
        ends, ["model", "measure", "bin"], "side", ("in", "out"), "delta", seed=1, n_boot=300
    )
    points = pd.DataFrame(
        {"shift": np.repeat(["s", "t"], 8), "stratum": np.tile(list("abcdefgh"), 2)}
    )
    points["jaccard"], noise = np.tile(np.arange(8.0), 2), np.random.default_rng(3).normal(size=16)
    points["delta"] = slope * points["jaccard"] + noise * (0.1 if slope else 1)
    points = points.assign(measure="RR@10", n_queries=20, n_trainings=1)
    points = pd.concat(
        [points.assign(model="a"), points.assign(model="b", delta=points["delta"] - 1)]
    )
    words = notebook.of_all_systems(points, "jaccard", 300)
    ahead = pd.DataFrame(
        {"model": [DENSE, "SPLADE", "ColBERT"], "measure": "RR@10", "lead": lead, "lead_low": lead}
    )
    answers = claim.answered(claim.of_notebook("07_indicators"), [words, trend, least], ahead)
    return judgement.concluded(answers).set_index("claim")


@pytest.mark.parametrize(
    ("slope", "verdict"), [(0.6, "holds"), (-0.6, "contradicted"), (0.0, "undecided")]
)
def test_claims_hold_where_they_were_built_in_and_not_where_they_were_not(slope, verdict):
    table = claimed(*world(slope, seed=6), slope)
    assert table["verdict"].drop("similarity-trend-others").tolist() == [verdict] * 3
    assert (
        table.loc["similarity-trend-others", "verdict"] == verdict
    )  # SPLADE loses here as the dense system does
    words = table.loc["vocabulary-overlap"]
    assert -1 < words["low"] < words["estimate"] < words["high"] < 1 and words["n_queries"] == 320


def test_of_systems_that_do_not_beat_bm25_nothing_is_decided():
    table = claimed(*world(seed=6), 0.6, lead=-0.1)["verdict"]
    assert (
        table.drop("vocabulary-overlap").eq("undecided").all()
        and table["vocabulary-overlap"] == "holds"
    )


def test_spread_compares_interquartile_ranges_of_the_outer_intervals():
    bins = np.repeat([1, 2, 3], 200)
    loss = np.random.default_rng(4).normal(size=600) * bins
    ids = [f"q{i}" for i in range(600)]
    losses = pd.DataFrame(
        {"model": "SPLADE", "measure": "RR@10", "bin": bins, "delta": loss, "query_id": ids}
    )
    table = notebook.spread(losses, predictors.resampled(losses.assign(unit=ids), 1, 300))
    row = table.iloc[0]
    assert row["farthest"] == pytest.approx(stats.iqr(loss[bins == 1]))
    assert row["nearest"] == pytest.approx(stats.iqr(loss[bins == 3]))
    assert row["low"] < row["difference"] < row["high"] < 0
    twice = predictors.resampled(losses.assign(unit=ids), 1, 2)
    often = twice.loc[ids].to_numpy(int).T
    ends = [[stats.iqr(np.repeat(loss, one * (bins == at))) for at in (1, 3)] for one in often]
    drawn = notebook.spread(losses, twice).iloc[0]
    assert drawn[["low", "high"]].tolist() == pytest.approx(
        sorted(far - near for far, near in ends)
    )


def predictors_of(pairs, near):
    draw, query = (
        np.random.default_rng(5),
        pairs[["shift", "query_id"]].drop_duplicates(ignore_index=True),
    )
    said = query.assign(**{f"words: {name}": draw.random(len(query)) for name in WORDS})
    said = said.assign(**{f"collection: {name}": draw.random(len(query)) for name in PRE})
    of = pairs[(pairs["model"] == "SPLADE") & (pairs["measure"] == "RR@10")].set_index("query_id")
    said["collection: length"] = said["query_id"].map(of["in"] - of["out"])
    said.loc[:300, "collection: avg_idf"] = np.nan  # most are missing
    after = pairs[["shift", "model", "stratum", "query_id"]].drop_duplicates(ignore_index=True)
    after = after.assign(**{name: draw.random(len(after)) for name in POST})
    after["nqc"] = after["nqc"].where(after["model"] != "SPLADE", after["query_id"].map(of["out"]))
    return predictors.predictor_table(near, said, after)


@pytest.fixture(scope="module")
def predicted():
    values, near = world()
    near = pd.concat([near, near.assign(model="SPLADE", R=-near["R"])])
    _, pairs, _, w = prepared(values[values["model"] != "ColBERT"], near, n_boot=30)
    pairs = pairs[pairs["shift"] == "s"]
    return pairs, near, predictors_of(pairs, near), w


def test_predictors_are_turned_towards_what_they_are_expected_to_say(predicted):
    pairs, _, known, w = predicted
    assert known.set_index("model")["own: R"].notna().groupby("model").all().to_dict() == {
        DENSE: False,
        "SPLADE": True,
    }
    table = predictors.predict(pairs[pairs["model"] == "SPLADE"], known, w)
    of = table.set_index(["target", "name"])
    assert "collection: avg_idf" not in of.index.levels[1]
    assert of.loc[("out RR@10", "run: nqc"), ["kendall", "within"]].tolist() == pytest.approx(
        [1, 1]
    )
    assert of.loc[("out ASL@100", "run: nqc"), "within"] > 0.99  # low is better: turned
    assert of.loc[("loss", "collection: length"), "within"] == pytest.approx(
        1
    )  # long ones should lose more
    assert (
        of.loc[("loss", "dense: R"), "within_low"] > 0.8
        and of.loc[("loss", "own: R"), "within_high"] < -0.8
    )


def test_definitions_of_far_are_contrasted_on_the_same_resamples(predicted):
    pairs, near, known, w = predicted
    table = predictors.predict(pairs[pairs["measure"] == "RR@10"], known, w)
    gaps = (
        table[table["target"] == "loss"]
        .contrast("name", notebook.GAPS)
        .set_index(["model", "first", "second"])
    )
    same = gaps.loc[("SPLADE", "dense: max", "own: max")]
    assert (
        same["difference"] == 0.0 and same[["low", "high"]].isna().all()
    )  # no draw differs: that is no certainty
    turned = gaps.loc[("SPLADE", "dense: R", "own: R")]
    assert turned["difference"] > 1 < turned["low"]  # `own` is upside down
    assert "own: R" not in gaps.loc[DENSE].index.get_level_values("second")
    some = pairs[(pairs["model"] == "SPLADE") & (pairs["measure"] == "RR@10")]
    r = near[near["model"] == DENSE].set_index("query_id")["R"].loc[some["query_id"]]
    ones = np.ones((len(some), 2), np.float32)
    tau = kendall_within(r.to_numpy(), some["out"] - some["in"], some["stratum"], ones)[0].item()
    assert turned["difference"] == pytest.approx(2 * tau)


def test_a_best_predictor_is_shown_only_where_it_exceeds_all_others(predicted):
    pairs, _, known, w = predicted
    table = predictors.predict(pairs, known, w)
    ranked = predictors.ranking(table[table["model"] == "SPLADE"], ["target", "model"]).set_index(
        ["target", "name"]
    )
    best = ranked.loc["out RR@10"].iloc[0]
    assert (
        best.name == "run: nqc"
        and best["better_than"] == len(ranked.loc["out RR@10"]) - 1
        and best["n"] == 1
    )
    noise = ranked.loc[("out RR@10", "run: wig")]
    assert noise["low"] < 0 < noise["high"] and noise["better_than"] < 5
    one = table[
        (table["model"] == "SPLADE")
        & (table["name"] == "run: wig")
        & (table["target"] == "out RR@10")
    ]
    assert (
        noise["high"] - noise["low"] > one["within_high"].item() - one["within_low"].item()
    )  # simultaneous
    both = predictors.ranking(table, ["target"])
    assert (
        not both["name"].str.startswith("own").any() and (both["n"] == 2).all()
    )  # the dense model has none
    mean = table[(table["target"] == "loss") & (table["name"] == "dense: R")]["within"].mean()
    assert both.set_index(["target", "name"]).loc[("loss", "dense: R"), "within"] == pytest.approx(
        mean
    )


def test_splade_and_colbert_are_compared_on_each_topic_by_shared_words():
    of_systems = [
        losses_of("topics", "SPLADE", {"C0": -0.1, "C1": -0.4}),
        losses_of("topics", "ColBERT", {"C0": -0.2, "C1": -0.1}),
        losses_of("topics", "DR (base)", {"C0": -0.3, "C1": -0.3}),
    ]
    losses = pd.concat(of_systems, ignore_index=True)
    jaccard = pd.DataFrame({"shift": "topics", "stratum": ["C1", "C0"], "jaccard": [0.3, 0.4]})
    gaps = notebook.splade_less_colbert(losses, jaccard, releases.published_points())
    ours = gaps[gaps["source"] == "ours"].set_index("cluster")
    assert ours.index.tolist() == ["C0", "C1"]  # the one that shares more words first
    deltas = losses.set_index(["model", "stratum"])["delta"]
    for cluster in ("C0", "C1"):
        expected = deltas["SPLADE", cluster] - deltas["ColBERT", cluster]
        assert ours.loc[cluster, "difference"] == pytest.approx(expected)
    assert ours["low"].notna().all()
    theirs = gaps[gaps["source"] == "published"].set_index("cluster")
    assert theirs.index.tolist() == ["C4", "C2", "C0", "C3", "C1"]
    assert theirs["difference"].tolist() == pytest.approx([0.008, 0.002, -0.036, -0.027, -0.037])
    sentence = notebook.splade_sentence(gaps)
    assert "ours 1 of 1, 0 of 1; published 2 of 2, 0 of 3." in sentence


def test_without_topics_only_the_published_topics_are_compared():
    losses = losses_of("domain", "SPLADE", {"C0": -0.1})
    jaccard = pd.DataFrame(columns=["shift", "stratum", "jaccard"])
    gaps = notebook.splade_less_colbert(losses, jaccard, releases.published_points())
    assert gaps["source"].unique().tolist() == ["published"]


def leads_of(**lows):
    """Leads by RR@10 with these lower ends, in the shift s; ASL@100 says nothing here."""
    rows = [("s", "RR@10", model, low + 0.1, low) for model, low in lows.items()]
    rows += [("s", "ASL@100", model, -1.0, -2.0) for model in lows]
    return pd.DataFrame(rows, columns=["shift", "measure", "model", "lead", "lead_low"])


def test_systems_that_do_not_beat_bm25_are_excluded_and_named():
    leads = leads_of(SPLADE=0.1, ColBERT=-0.1, BM25=0.2)
    beating = notebook.beating_bm25(leads, "RR@10")
    table = pd.DataFrame(
        {"shift": ["s", "s", "s", "t"], "model": ["SPLADE", "ColBERT", "BM25", "SPLADE"]}
    )
    assert notebook.included(table, beating).index.tolist() == [0]
    sentence = notebook.gate_sentence(leads, "RR@10")
    assert sentence.startswith("1 of 2 pairs") and sentence.endswith("Excluded: ColBERT (s).")
    none = notebook.beating_bm25(leads_of(SPLADE=-0.1, BM25=0.2), "RR@10")
    assert notebook.included(table, none)["model"].tolist() == ["SPLADE", "ColBERT", "SPLADE"]
    assert "all trained systems" in notebook.gate_sentence(leads_of(SPLADE=-0.1), "RR@10")


def test_gate_has_the_other_clusters_and_stands_once_more_under_pooled():
    test_sets = {"held-out": ["a", "b"], "dev": ["a", "b"]}
    rows = [
        {"shift": "s", "model": "m", "measure": "RR@10", "left_out": left_out, "stratum": stratum}
        | {"query_id": f"{name} {stratum}", "test_set": name, "value": 0.5, "seed": 1}
        for name, strata in test_sets.items()
        for stratum in strata
        for left_out in ("a", "b")
    ]
    part = pd.DataFrame(rows).sample(frac=1, random_state=1)
    values, gate = notebook.sides_and_gate([part], ["dev"])
    assert values.groupby("side").size().to_dict() == {"in": 2, "out": 2}
    assert set(values["test_set"]) == {"held-out"} and set(gate["test_set"]) == {"dev"}
    assert (gate["left_out"] != gate["stratum"]).all() and len(gate) == 2
    both = notebook.with_pooled(gate, ["s"])
    assert both["shift"].value_counts().to_dict() == {"s": 2, POOLED: 2}
    assert len(notebook.with_pooled(gate, ["other"])) == 2


def test_curves_that_rise_at_every_step_are_counted_by_variant():
    curves = pd.DataFrame(
        {
            "binning": "width",
            "averaging": ["ratio of means"] * 6 + ["mean of ratios"] * 3,
            "shift": "s",
            "model": ["a"] * 3 + ["b"] * 3 + ["a"] * 3,
            "measure": "RR@10",
            "bin": [3, 1, 2, 1, 2, 3, 1, 2, 3],
            "delta": [0.3, 0.1, 0.2, 0.1, 0.3, 0.2, 0.1, np.nan, 0.2],
            "n_dropped": [0] * 6 + [1, 2, 3],
        }
    )
    page = notebook.rising(curves).set_index("average")
    assert page.loc["ratio of means", ["curves that always rise", "curves"]].tolist() == [1, 2]
    assert page.loc["mean of ratios"].tolist() == ["width", 1, 1, 6]
    assert notebook.share_rising(curves) == pytest.approx(2 / 3)


def test_queries_of_the_first_shift_have_r_standardised_by_cluster_and_their_loss():
    values, near = world()
    _, wide, _, _ = prepared(values, near)
    known = near.rename(columns={"R": "dense: R"})[["shift", "model", "query_id", "dense: R"]]
    queries = notebook.of_first_shift(wide, known)
    assert set(queries["shift"]) == {"s"} and set(queries["model"]) == {DENSE}
    assert set(queries["measure"]) == {"RR@10"} and queries["query_id"].is_unique
    assert queries["lost"].to_numpy() == pytest.approx(queries["in"] - queries["out"])
    by_cluster = queries.groupby("stratum")["z"]
    assert by_cluster.mean().to_numpy() == pytest.approx(0, abs=1e-9)
    assert queries.groupby("stratum")["dense: R"].mean().std() > 0


def test_the_place_of_r_among_the_predictors_is_that_of_its_mean():
    ranked = pd.DataFrame(
        {"target": "loss", "name": ["run: nqc", "dense: R"], "within": [0.2, 0.1]}
    ).assign(low=0.05, high=0.3)
    by_system = pd.DataFrame(
        {"target": "loss", "model": ["a", "a", "b", "b"], "better_than": [1, 0, 0, 0]}
    )
    sentence = notebook.place_of_r(ranked, by_system, "loss")
    assert (
        "of 2 predictors, NQC of the run has the highest mean τ, +0.20 [+0.05, +0.30]" in sentence
    )
    assert "R of the dense model ranks 2 (+0.10" in sentence and sentence.endswith("others: a")
    page = notebook.in_words(ranked.assign(target=["loss", "out ASL@100"]), "RR@10")
    assert page["predictor"].tolist() == ["NQC of the run"]
    assert page["target"].tolist() == ["target: loss of RR@10"]


def test_losses_stand_by_shift_and_system_without_those_that_nothing_changes():
    rows = [
        ("s", "a", -0.1, -0.2, 0.0),
        ("s", "fixed", 0.0, np.nan, np.nan),
        ("t", "a", 0.1, 0.0, 0.2),
    ]
    means = pd.DataFrame(rows, columns=["shift", "model", "delta", "low", "high"])
    page = notebook.losses_page(means)
    assert page.columns.tolist() == ["shift", "a"] and page["shift"].tolist() == ["s", "t"]
    assert page["a"].tolist() == ["-10.0 % [-20.0, +0.0]", "+10.0 % [+0.0, +20.0]"]
