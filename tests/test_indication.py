"""Indicators beside losses: read from the right cells, by brute force, and findings follow from what was built in."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from interextra.ground.errors import InputError
from interextra.evaluation import prediction
from interextra.evaluation.leave_one_out import Grid
from interextra.data.runs import Run
from interextra.models.recipe import load_recipe
from interextra.study import designs, indication, jobs, lupart, lupart_losses, shifts
from interextra.study import indication_prediction as foresight
from interextra.study import indication_tables as tables
from interextra.study.cells import Store

DENSE = lupart_losses.DENSE
P = {
    "collection": "mini:n_train=600", "train_split": "train", "shifts": ["wh-words/how/who"], "control": "",
    "n_test": 12, "train_size": 30, "steps": 0, "recipes": ["bm25"] * 5, "variants": [], "seeds": [1], "neighbours": 5,
    "depth": 20, "seed": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def divided(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("outputs") / "cells")
    splits = designs.shift_splits(P)
    return store, splits, indication.asked(store, splits)


def brute_jaccard(source, target):
    s, t = (Counter(" ".join(texts).lower().split()) for texts in (source, target))
    shares = [(s[w] / s.total(), t[w] / t.total()) for w in s | t]
    return sum(map(min, shares)) / sum(map(max, shares))


def test_jaccard_of_clusters_is_that_of_their_texts_and_the_same_for_two_clusters(divided):
    store, splits, asked = divided
    table = indication.jaccard_table(store, splits).set_index("cluster")
    split = splits["wh-words"]
    texts = jobs.pool_queries(split["pool"])["text"]
    label = pd.read_parquet(jobs.build(store, split) / "labels.parquet")["cluster"]
    assert table.loc["how", "jaccard"] == table.loc["who", "jaccard"]
    assert table.loc["how", "jaccard"] == pytest.approx(brute_jaccard(texts[label == "how"], texts[label == "who"]))
    for cluster, other in (("how", "who"), ("who", "how")):
        mine = asked["wh-words"].query("cluster == @cluster")["text"]
        train = shifts.training_texts(store, split, cluster)
        assert table.loc[cluster, "jaccard_eval_only"] == pytest.approx(brute_jaccard(mine, train))
        assert not set(train) - set(texts[label == other])  # never trained on the own cluster
        assert table.loc[cluster, ["n_queries", "n_train"]].tolist() == [12, 30]
    words = indication.word_spaces(store, splits, asked)["wh-words"]
    assert words.index.tolist() == asked["wh-words"].index.tolist()
    query = asked["wh-words"].iloc[-1]
    train = shifts.training_texts(store, split, query["cluster"])
    assert words["query_jaccard"].iloc[-1] == pytest.approx(brute_jaccard([query["text"]], train))
    sets = [set(text.lower().split()) for text in (query["text"], *train)]
    best = max(len(sets[0] & other) / len(sets[0] | other) for other in sets[1:])
    assert words["nearest_jaccard"].iloc[-1] == pytest.approx(best)


QUERIES = pd.DataFrame({"text": list("wxyz"), "cluster": list("aabb")}, index=pd.Index(["q1", "q2", "q3", "q4"]))
QUERIES.index.name = "query_id"


def cell(folder, recipe, shift):
    """A run cell of four queries: nearness = shift + 0…3, scores of three passages."""
    folder.mkdir()
    if load_recipe(recipe).architecture != "bm25":
        near = pd.DataFrame({name: shift + np.arange(4.0) for name in ("mean", "max", "density")}, index=QUERIES.index)
        near.iloc[::-1].to_parquet(folder / "nearness.parquet")  # in another order than the queries
    rows = [(q, f"d{i}", shift + at + i**2) for at, q in enumerate(QUERIES.index) for i in range(3)]
    Run.from_frame(pd.DataFrame(rows, columns=["query_id", "doc_id", "score"])).write_parquet(
        folder / "run.held-out.parquet"
    )
    return {"recipe": load_recipe(recipe).named(), "depth": 100}


def test_each_query_is_read_from_the_model_without_its_cluster_and_seeds_are_averaged(tmp_path):
    design, folders = [], []
    places = [("mini-dense", "a", 1, 0.0), ("mini-dense", "a", 2, 10.0), ("mini-dense", "b", 1, 100.0),
              ("mini-dense", "b", 2, 200.0), ("bm25", "b", 1, 0.0), ("bm25", "a", 1, 0.0)]  # fmt: skip
    for recipe, left_out, seed, shift in places:
        folders.append(tmp_path / str(len(folders)))
        config = cell(folders[-1], recipe, shift)
        design.append({"shift": "s", "model": recipe, "left_out": left_out, "seed": seed, "config": config})
    asked = {"s": QUERIES}
    near = indication.spaces(design, folders, asked)
    assert list(near) == [("s", "mini-dense")]  # BM25 has no space
    assert near["s", "mini-dense"]["R"].to_dict() == {"q1": 5.0, "q2": 6.0, "q3": 152.0, "q4": 153.0}
    after = indication.run_predictors(design, folders, asked)
    assert after["s", "mini-dense"]["top_score"].tolist() == [9.0, 10.0, 156.0, 157.0]
    assert after["s", "bm25"]["nqc"].to_numpy() == pytest.approx(np.std([0, 1, 4]))
    long = indication.labelled(near, asked, "mini-dense")
    assert long[["shift", "cluster", "query_id", "R"]].values.tolist()[2] == ["s", "b", "q3", 152.0]


def test_of_a_reranker_only_the_reranked_passages_count(tmp_path):
    recipe = "mini-reranker{rerank_depth: 2}"
    config = cell(tmp_path / "run", recipe, 0.0)
    design = [{"shift": "s", "model": "Reranker", "left_out": c, "seed": 1, "config": config} for c in "ab"]
    after = indication.run_predictors(design, [tmp_path / "run"] * 2, {"s": QUERIES})["s", "Reranker"]
    assert after.loc["q1", ["nqc", "wig"]].tolist() == [1.5, 2.5]  # of 4 and 1


def test_sides_are_those_of_the_grid_under_the_query_ids():
    values = np.array([[0.2, 0.4, 1.0, 0.0], [0.4, 0.8, 0.5, 0.5]])
    grid = Grid("RR@10", ("a", "b"), np.array([0, 0, 1, 1]), values)
    frame = indication.sides({("s", "BM25"): {"RR@10": grid}}, {"s": QUERIES})["s", "BM25"]
    assert frame.loc["q3", ["in RR@10", "out RR@10", "cluster"]].tolist() == [1.0, 0.5, "b"]
    assert frame.loc["q1", ["in RR@10", "out RR@10"]].tolist() == [0.4, 0.2]


def test_standardised_values_have_mean_0_and_deviation_1_in_each_group():
    draw = np.random.default_rng(0)
    values, groups = pd.Series(draw.normal(5, 3, 60)), pd.Series(np.repeat(["a", "b", "c"], 20))
    values[groups == "c"] = 7.0
    made = indication.standardised(values, groups).groupby(groups)
    assert made.mean().to_numpy() == pytest.approx(0, abs=1e-12)
    assert made.std(ddof=0).to_numpy() == pytest.approx([1, 1, 0])


def test_link_is_the_correlation_over_clusters_for_few_and_many():
    draw = np.random.default_rng(1)
    for n in (3, 8, 14):
        points = pd.DataFrame({"model": "SPLADE", "jaccard": draw.random(n), "rel_loss": draw.random(n)})
        table = indication.link(points)
        assert len(table) == (0 if n == 3 else 2) and {"model", "needed"} <= set(table)
        for row in table.itertuples():
            known = (stats.pearsonr if row.method == "Pearson" else stats.spearmanr)(
                points["jaccard"], points["rel_loss"]
            )
            assert row.estimate == pytest.approx(known.statistic) and row.n == n
            assert row.low < row.estimate < row.high
            if n > 9 or row.method == "Pearson":
                assert row.p_value == pytest.approx(known.pvalue)
    both = indication.link(pd.concat([points, points.assign(model="ColBERT")]))
    assert both["p_holm"].to_numpy() == pytest.approx(np.minimum(2 * both["p_value"], 1).to_numpy())
    found = stats.pearsonr(points["jaccard"], points["rel_loss"])
    assert table.iloc[0][["low", "high"]].tolist() == pytest.approx(list(found.confidence_interval()))
    needed = table["needed"].iloc[0]
    p_value = 2 * stats.t.sf(needed * np.sqrt(12 / (1 - needed**2)), 12)
    assert p_value == pytest.approx(0.05)


def test_published_points_are_all_losses_of_the_topics():
    points = indication.published_points()
    assert len(points) == 20 and set(points["shift"]) == {"topics"} and set(points["model"]) < set(designs.FIVE)
    assert points.groupby("cluster")["jaccard"].first().to_dict()["C4"] == 0.4701


def test_released_r_is_the_mean_score_with_the_other_clusters(real_data):
    folder = real_data / "ms-marco-shift"
    points = indication.published_points(folder)
    assert points.groupby("shift").size().to_dict() == {"topics": 20, "wh-words": 12, "length": 8}
    queries = lupart.released_queries(folder, "wh-words")
    ids = queries["query_id"].drop_duplicates().tolist()
    vectors = np.random.default_rng(0).normal(size=(len(ids), 4)).astype(np.float32)
    table = indication.released_r(folder, ids, vectors).set_index("query_id")
    assert set(table["shift"]) == {"wh-words"} and len(table) == len(queries)  # of the others less than half is known
    place = {query: row for row, query in enumerate(ids)}
    cluster = queries.drop_duplicates("query_id", keep=False).set_index("query_id")["cluster"]
    query = cluster.index[7]
    other = [place[q] for q in queries.loc[queries["cluster"] != cluster[query], "query_id"].unique()]
    own = [place[q] for q in queries.loc[queries["cluster"] == cluster[query], "query_id"] if q != query]
    assert table.loc[query, "R"] == pytest.approx((vectors[other] @ vectors[place[query]]).mean(), abs=1e-6)
    assert table.loc[query, "own"] == pytest.approx((vectors[own] @ vectors[place[query]]).mean(), abs=1e-6)
    assert indication.released_r(folder, ["none"], vectors[:1]).empty


def world(slope=0.6, n=400, difficulty=0.0, seed=0):
    """Sides and spaces of one shift: Out falls below AvgIn by `slope` times the distance (0…1), for dense, SPLADE; R
    is 1 - distance on a scale of each cluster's own. `difficulty`: how much of AvgIn follows R."""
    draw = np.random.default_rng(seed)
    far = draw.random(n)
    ids = pd.Index([f"q{i}" for i in range(n)], name="query_id")
    cluster = np.repeat(["a", "b"], n // 2)
    r = np.where(cluster == "a", 1 - far, 50 * (1 - far) + 7)
    near = {("s", DENSE): pd.DataFrame({"R": r, "max": r, "density": draw.random(n)}, index=ids)}
    sides = {}
    for model in (DENSE, "SPLADE", "ColBERT"):
        avg_in = 0.5 + difficulty * (0.5 - far) + 0.2 * draw.random(n)
        out = avg_in * (1 - slope * far * (model != "ColBERT")) + 0.01 * draw.normal(size=n)
        values = {"in RR@10": avg_in, "out RR@10": np.maximum(out, 0), "in ASL@100": 1 / avg_in}
        sides["s", model] = pd.DataFrame({**values, "out ASL@100": 1 / out.clip(0.01), "cluster": cluster}, index=ids)
    return sides, near


MEASURES = ["RR@10", "ASL@100"]


def test_pool_standardises_r_and_leaves_out_the_control():
    sides, near = world()
    sides |= {("c", DENSE): sides["s", DENSE]}
    near |= {("c", DENSE): near["s", DENSE]}
    values = tables.pooled(sides, near, control="c")
    assert set(values) == {*sides, *[(tables.POOLED, model) for model in (DENSE, "SPLADE", "ColBERT")]}
    r = values[tables.POOLED, "SPLADE"]
    assert r.groupby("cluster")["R"].mean().to_numpy() == pytest.approx(0, abs=1e-9)
    assert (tables.POOLED, "SPLADE") not in tables.pooled(sides, near)  # not in every shift, once `c` is one


def test_a_loss_that_grows_with_distance_is_found_by_every_way_to_cut_and_to_average():
    sides, near = world()
    values = {key: frame for key, frame in tables.pooled(sides, near).items() if key[1] == DENSE}
    table = tables.loss_by_r(values, MEASURES, 4, seed=1, n_boot=100)
    assert len(table) == 2 * 2 * 4 * 4 and set(table["bin"]) == {1, 2, 3, 4}
    equal = table[(table["shift"] == tables.POOLED) & (table["binning"] == "quantile")]
    assert (equal["n_queries"] == 100).all() and (equal["low"] <= equal["rel_loss"]).all()
    steps = tables.monotone(table[table["shift"] == tables.POOLED])
    assert steps["monotone"].all() and (steps["n_as_stated"] == 3).all() and len(steps) == 8
    turned = table.assign(rel_loss=-table["rel_loss"])
    assert not tables.monotone(turned[turned["shift"] == tables.POOLED])["n_as_stated"].any()
    first = equal[(equal["measure"] == "RR@10") & (equal["averaging"] == "ratio of means")].iloc[0]
    frame = values[tables.POOLED, DENSE].nsmallest(100, "R")
    assert first["rel_loss"] == pytest.approx(1 - frame["out RR@10"].mean() / frame["in RR@10"].mean())


def test_trend_is_spearmans_correlation_with_the_loss_for_better_and_for_worse():
    sides, near = world()
    values = tables.pooled(sides, near)
    trend = tables.trend(values, MEASURES, seed=1, n_boot=200).set_index(["shift", "model", "measure", "loss"])
    for measure in MEASURES:
        row = trend.loc[(tables.POOLED, DENSE, measure, "difference")]
        assert row["high"] < -0.9 and row["n_queries"] == 400
    frame = values[tables.POOLED, "SPLADE"]
    known = stats.spearmanr(frame["R"], frame["in RR@10"] - frame["out RR@10"]).statistic
    assert trend.loc[(tables.POOLED, "SPLADE", "RR@10", "difference"), "spearman"] == pytest.approx(known)
    none = trend.loc[(tables.POOLED, "ColBERT", "RR@10", "relative")]
    assert none["low"] < 0 < none["high"]
    x, y = np.random.default_rng(2).integers(0, 4, (2, 50)).astype(float)  # with ties
    estimate, low, high = tables.spearman(x, y, seed=0, n_boot=300)
    assert estimate == pytest.approx(stats.spearmanr(x, y).statistic) and low < estimate < high
    assert np.isnan(tables.spearman(np.ones(5), np.arange(5.0), 0, 10)).all()


def test_findings_hold_where_they_were_built_in_and_not_where_they_were_not():
    for slope, verdict in ((0.6, "holds"), (-0.6, "contradicted"), (0.0, "not shown")):
        sides, near = world(slope, seed=6)
        values = tables.pooled(sides, near)
        by_r = tables.trend(values, MEASURES, 1, 200)
        far = tables.farthest(values, "RR@10", "ColBERT", [DENSE, "SPLADE"], 5, 1, 200)
        widths = tables.spread(tables.per_query(values, MEASURES, 5), 1, 200)
        hard = foresight.difficulty(values, "RR@10", 1, 200)
        jaccard = pd.DataFrame({"model": "SPLADE", "jaccard": np.arange(8.0), "rel_loss": -slope * np.arange(8.0)})
        jaccard["rel_loss"] += np.random.default_rng(3).normal(size=8) * (0.1 if slope else 1)
        found = tables.findings(indication.link(jaccard), by_r, far, widths, hard, "RR@10")
        found = found.set_index(["model", "finding"])
        for model in (DENSE, "SPLADE"):
            for loss in ("difference", "relative"):
                assert found.loc[(model, f"the farther, the higher the loss ({loss})"), "verdict"] == verdict
            assert found.loc[("ColBERT", f"farthest queries: ColBERT loses less than {model}"), "verdict"] == verdict
        assert found.loc[("SPLADE", "higher jaccard, lower loss (correlation)"), "verdict"] == verdict
        assert found.loc[(DENSE, "R orders queries by RR@10"), "verdict"] == verdict
        control = tables.findings(indication.link(jaccard), by_r, far, widths, hard, "RR@10", "s")["finding"]
        assert "R orders queries by RR@10 even where clusters are random" in control.tolist()


def test_the_farthest_queries_are_the_n_th_part_with_the_smallest_r():
    sides, near = world()
    values = tables.pooled(sides, near)
    row = tables.farthest(values, "RR@10", "ColBERT", [DENSE], 5, 1, 50).iloc[0]
    frame = values[tables.POOLED, DENSE].nsmallest(80, "R")
    assert row["n_queries"] == 80
    assert row["rel_loss_second"] == pytest.approx(1 - frame["out RR@10"].mean() / frame["in RR@10"].mean())
    assert row["difference"] == pytest.approx(row["rel_loss_first"] - row["rel_loss_second"])


def test_spread_compares_interquartile_ranges_of_the_outer_intervals():
    draw = np.random.default_rng(4)
    bins = np.repeat([1, 2, 3], 200)
    loss = draw.normal(size=600) * bins
    losses = pd.DataFrame({"model": "SPLADE", "measure": "RR@10", "bin": bins, "rel_loss": loss})
    row = tables.spread(losses, 1, 300).iloc[0]
    assert row["farthest"] == pytest.approx(stats.iqr(losses.query("bin == 1")["rel_loss"]))
    assert row["nearest"] == pytest.approx(stats.iqr(losses.query("bin == 3")["rel_loss"]))
    assert row["low"] < row["difference"] < row["high"] < 0


def test_r_that_orders_both_sides_alike_measures_difficulty():
    verdict = {}
    for name, options in {"distance": {}, "difficulty": {"slope": 0.0, "difficulty": 0.6},
                          "no prediction": {"slope": 0.0}, "reversed": {"slope": -0.6}}.items():  # fmt: skip
        table = foresight.difficulty(tables.pooled(*world(**options)), "RR@10", 1, 200).set_index("model")
        verdict[name] = table.loc[DENSE, "verdict"]
        assert set(table["shift"]) == {"s"}
        assert table.loc[DENSE, "difference"] == pytest.approx(table.loc[DENSE, "tau_out"] - table.loc[DENSE, "tau_in"])
    assert verdict == {name: name for name in verdict}


def predictors_of(sides, near):
    ids = sides["s", DENSE].index
    draw = np.random.default_rng(5)
    words = {"s": pd.DataFrame(draw.random((len(ids), 2)), index=ids, columns=indication.WORDS)}
    before = {"s": pd.DataFrame(draw.random((len(ids), 4)), index=ids, columns=indication.PRE)}
    before["s"]["length"] = sides["s", "SPLADE"]["in RR@10"] - sides["s", "SPLADE"]["out RR@10"]
    before["s"].loc[ids[:300], "avg_idf"] = np.nan  # most are missing
    after = {key: pd.DataFrame(draw.random((len(ids), 4)), index=ids, columns=indication.POST) for key in sides}
    after["s", "SPLADE"]["nqc"] = sides["s", "SPLADE"]["out RR@10"]
    return foresight.predictor_frames(sides, near, words, before, after)


def test_predictors_are_turned_towards_what_they_are_expected_to_say():
    sides, near = world()
    near["s", "SPLADE"] = near["s", DENSE] * -1
    known = predictors_of(sides, near)
    assert "own: R" in known["s", "SPLADE"] and "own: R" not in known["s", DENSE]
    table = foresight.predict({("s", "SPLADE"): sides["s", "SPLADE"]}, known, MEASURES, 1, 30)
    assert "avg_idf" not in set(table["predictor"])
    of = table.set_index(["target", "space", "predictor"])
    assert of.loc[("out RR@10", "run", "nqc"), ["kendall", "within", "smare"]].tolist() == pytest.approx([1, 1, 0])
    assert of.loc[("out ASL@100", "run", "nqc"), "within"] > 0.99  # low is better: turned
    assert of.loc[("loss", "collection", "length"), "within"] == pytest.approx(1)  # long ones should lose more
    assert of.loc[("loss", "dense", "R"), "within_low"] > 0.8 and of.loc[("loss", "own", "R"), "within_high"] < -0.8
    far = foresight.definitions(table).set_index("definition")
    assert far.loc["dense: R", "kendall"] == of.loc[("loss", "dense", "R"), "within"]
    assert set(far.index) == {f"{a}: {b}" for a in ("dense", "own") for b in indication.SPACE} | {
        f"words: {name}" for name in indication.WORDS
    }


def test_definition_gaps_are_paired_and_second_less_first():
    sides, near = world()
    near["s", "SPLADE"] = near["s", DENSE].assign(R=-near["s", DENSE]["R"])
    known = predictors_of(sides, near)
    gaps = foresight.definition_gaps(sides, known, "RR@10", 1, 30).set_index(["model", "first", "second"])
    same = gaps.loc[("SPLADE", "dense: max", "own: max")]
    assert same[["difference", "low", "high"]].tolist() == [0.0, 0.0, 0.0]
    turned = gaps.loc[("SPLADE", "dense: R", "own: R")]
    assert turned["tau_second"] == pytest.approx(-turned["tau_first"]) and turned["high"] < -1
    assert "own: R" not in gaps.loc[DENSE].index.get_level_values("second")
    frame = sides["s", "SPLADE"]
    loss = frame["out RR@10"] - frame["in RR@10"]
    tau = prediction.within_draws(near["s", DENSE]["R"], loss, frame["cluster"], n_boot=2)[0].item()
    assert turned["tau_first"] == pytest.approx(tau)


def test_a_release_without_known_queries_outside_a_cluster_is_refused(real_data):
    folder = real_data / "ms-marco-shift"
    queries = lupart.released_queries(folder, "length")
    ids = queries.loc[queries["cluster"] == "long", "query_id"].drop_duplicates().tolist()  # more than half
    with pytest.raises(InputError, match="no vector of a query"):
        indication.released_r(folder, ids, np.ones((len(ids), 2), np.float32))
