"""Zhan et al.: known losses give known verdicts, plans ask for what the notebooks need, releases are read as is."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from interextra.data.runs import RunFile
from interextra.experiments import zhan
from interextra.experiments.plans import cells_of
from interextra.ground.cells import Store
from interextra.ground.effects import Effects, effects, with_interval
from interextra.models.recipe import load_recipe
from interextra.papers.claims import gate

LOSSES = {"BM25": 0.0, "Reranker": 0.01, "ColBERT": 0.02, "SPLADE": 0.2, "DR (base)": 0.3}
ABOVE = dict.fromkeys(("Reranker", "ColBERT", "SPLADE", "DR (base)"), 1.2)  # in domain, against BM25
BY = ["protocol", "n_train", "measure"]
HOW = {"by": ["model", *BY], "on": "regime", "sides": zhan.REGIMES, "effect": "delta", "n_boot": 500}
COMMON = {"collection": "mini:n_train=400", "train_split": "train", "train_limit": 0, "test_splits": ["test"]}
COMMON |= {"encoder": "lsa", "steps": 0, "seed": 1, "depth": 10, "match": "exact", "normalise": True, "fold_size": 0}
COMMON |= {"recall_relevance": 2, "real_encoders": ["lsa"], "real_msmarco": False}
COMPARED = COMMON | {"sizes": [20, 60], "trained_sizes": [20, 60], "k": 2, "seeds": [1], "other_seeds": [1]}
COMPARED |= {"resttest_splits": ["dev"], "learning": False, "restrain_measures": ["nDCG@10"]}


def values_of(losses, noise=0.05, level=None):
    """Values of 400 queries in both regimes; the extrapolation of a system lies its loss below its interpolation."""
    draw, rows = np.random.default_rng(1), []
    for model, loss in losses.items():
        inter = draw.uniform(0.3, 0.9, 400) * (level or {}).get(model, 1)
        sides = (inter, inter * (1 - loss) + noise * draw.normal(size=400))
        for regime, side in zip(zhan.REGIMES, sides, strict=True):
            rows.append(pd.DataFrame({"model": model, "regime": regime, "value": side}).rename_axis("query_id"))
    labels = {"protocol": "ReSTTest", "n_train": 9, "measure": "RR@10"}
    return pd.concat(rows).reset_index().assign(**labels)


def found_in(values, margin=0.05):
    table = effects(values, **HOW)
    return zhan.findings(table.assign(comparable=gate(table)), BY, margin).set_index("finding")


def verdicts(losses, level=ABOVE, **options):
    margin = options.pop("margin", 0.05)
    return found_in(values_of(losses, level=level, **options), margin)["verdict"]


def test_published_findings_hold_where_they_were_built_in_and_fail_where_they_were_not():
    assert len(verdicts(LOSSES)) == 9 and set(verdicts(LOSSES)) == {"holds"}
    turned = {"BM25": 0.3, "Reranker": 0.2, "ColBERT": 0.3, "SPLADE": -0.1, "DR (base)": -0.1}
    assert set(verdicts(turned)) == {"contradicted"}


def test_what_noise_hides_is_not_shown():
    assert set(verdicts(dict.fromkeys(LOSSES, 0.0), margin=0.02, noise=1.5)) == {"not shown"}


def test_no_finding_leans_on_a_system_below_bm25():
    """A reranker that was worse than BM25 made "interaction-based: a smaller loss" hold."""
    found = verdicts(LOSSES, ABOVE | {"Reranker": 0.7})
    assert set(found[found.index.str.startswith("Reranker")]) == {"not comparable"}
    assert set(found[~found.index.str.startswith("Reranker")]) == {"holds"}


def test_a_system_that_finds_nothing_is_undefined_and_the_others_stand():
    values = values_of(LOSSES, level=ABOVE)
    values.loc[values["model"] == "SPLADE", "value"] = 0.0
    found = found_in(values)["verdict"]
    splade = found.index.str.contains("SPLADE")
    assert set(found[splade]) == {"not comparable"} and set(found[~splade]) == {"holds"}
    assert "undefined" in set(with_interval(effects(values, **HOW))["delta"])


def test_systems_that_are_not_there_have_no_finding():
    assert verdicts({"BM25": 0.0, "DR (base)": 0.3}).index.tolist() == ["BM25: no loss beyond 5 %", "DR (base): a loss"]


def test_findings_about_one_system_and_about_two_are_told_apart_and_their_intervals_hold_together():
    found, own = found_in(values_of(LOSSES, level=ABOVE)), effects(values_of(LOSSES, level=ABOVE), **HOW)
    alone = found[found["against"] == zhan.ALONE].set_index("model")
    own = own.set_index("model")
    np.testing.assert_allclose(alone["estimate"], own.loc[alone.index, "delta"])
    assert (alone["high"] - alone["low"] > own.loc[alone.index, "high"] - own.loc[alone.index, "low"]).all()
    assert found.loc["ColBERT: a smaller loss than SPLADE", ["model", "against"]].tolist() == ["ColBERT", "SPLADE"]


def test_findings_in_words_say_who_loses_how_much_and_what_is_open():
    level = ABOVE | {"Reranker": 0.7}
    found = found_in(values_of(LOSSES | {"ColBERT": 0.19}, level=level)).reset_index()
    [protocol, pairs], unsure = zhan.in_words(found, {"ReSTTest": "400 queries"}, 0.05)
    lost, kept, closed = protocol.split("; ")
    assert lost.startswith("400 queries: ColBERT -18.9 % [") and lost.endswith("]: a loss") and lost.count(" % [") == 3
    assert kept.startswith("BM25 ") and kept.endswith("]: no loss beyond 5 %")
    assert closed == "Reranker: not comparable, as not shown to be better than BM25."
    assert "ColBERT: a smaller loss than DR (base) (ReSTTest) holds" in pairs and "Reranker" not in pairs
    assert unsure == "who of two loses less: ColBERT or SPLADE (ReSTTest); "


def test_rank_correlation_is_kendalls_tau_of_the_means_and_of_each_draw():
    table = effects(values_of({"BM25": 0.0, "ColBERT": 0.1, "SPLADE": 0.5, "DR (base)": 0.2, "Reranker": 0.9}), **HOW)
    [row] = zhan.rank_correlation(table, BY).to_dict("records")
    assert row["tau"] == pytest.approx(stats.kendalltau(table["interpolation"], table["extrapolation"]).statistic)
    first, second = table.drawn("first"), table.drawn("second")
    taus = [stats.kendalltau(first[:, i], second[:, i]).statistic for i in range(500)]
    np.testing.assert_allclose(zhan.kendall(first.T, second.T), taus)
    assert row["low"] == pytest.approx(np.quantile(taus, 0.025, method="lower")) and row["extrapolation"].endswith(
        "Reranker"
    )


def test_ties_count_as_neither_and_one_system_has_no_order():
    assert zhan.kendall(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx(2 / 3)
    assert np.isnan(zhan.kendall(np.array([1.0]), np.array([1.0])))


def folds(spread):
    """Three systems' folds: query q of bucket b has value q / 10 under all models, less `spread` without its bucket."""
    rows = [(m, left, str(q), b, q / 10 - spread * (left == b)) for m in "xy" for left in "123" for q, b in QUERIES]
    table = pd.DataFrame(rows, columns=["model", "left_out", "query_id", "stratum", "value"])
    return table.assign(measure="RR@10")


QUERIES = [(1, "1"), (2, "1"), (3, "1"), (4, "1"), (5, "2"), (6, "2"), (9, "3")]


def test_macro_delta_of_models_that_are_all_the_same_is_that_of_its_weights():
    """Counted as a loss with p below .001 before, with "worse 322, better 178"."""
    how = {"on": "regime", "sides": zhan.REGIMES, "effect": "delta", "family": ["average"], "n_boot": 200}
    table = effects(zhan.averages(folds(0.0)), ["model", "average"], **how)
    delta = table.set_index(["model", "average"])["delta"]
    assert delta["x", "micro"] == pytest.approx(0) and abs(delta["x", "macro"]) > 0.05
    apart = table.contrast("average", [("macro", "constant")])
    np.testing.assert_allclose(apart[["difference", "low", "high"]], 0, atol=1e-12)
    lossy = effects(zhan.averages(folds(0.05)), ["model", "average"], **how)
    lossy = lossy.contrast("average", [("macro", "constant")])
    assert (lossy["high"] < 0).all()


def test_verdicts_rest_on_comparable_systems_and_on_macro_without_what_its_weights_do():
    draw = np.random.default_rng(5)
    rows = [folds(spread).assign(model=model, value=lambda f, up=up: f["value"] + up) for model, spread, up in SYSTEMS]
    values = pd.concat(rows, ignore_index=True)
    values["value"] += 0.001 * draw.normal(size=len(values))
    how = {"on": "regime", "sides": zhan.REGIMES, "effect": "delta", "family": ["average"], "n_boot": 400}
    table = effects(zhan.averages(values), ["model", "average", "measure"], **how)
    fair = zhan.fair(table)
    assert fair["average"].drop_duplicates().tolist() == ["micro", "macro less constant"]
    assert fair.groupby("model")["comparable"].all().to_dict() == {"BM25": True, "above": True, "below": False}
    own = table.contrast("average", [("macro", "constant")]).set_index("model")
    less = fair[fair["average"] == "macro less constant"].set_index("model")
    np.testing.assert_allclose(less["delta"], own.loc[less.index, "difference"])
    micro = fair[fair["average"] == "micro"].set_index("model")
    pointwise = table[table["average"] == "micro"].set_index("model")
    wider = (micro["high"] - micro["low"]) / (pointwise["high"] - pointwise["low"])
    assert wider["above"] > 1.1 and less.loc["above", "high"] < 0


SYSTEMS = [("BM25", 0.0, 0.0), ("above", 0.05, 0.2), ("below", 0.05, -0.05)]


def test_a_query_is_in_extrapolation_without_its_bucket():
    found = zhan.in_regimes(folds(0.0))
    assert (found["regime"] == "extrapolation").tolist() == (found["left_out"] == found["stratum"]).tolist()


def test_loss_of_a_query_is_the_mean_over_trainings():
    values = pd.DataFrame({"model": "m", "regime": ["interpolation", "interpolation", "extrapolation"]})
    values = values.assign(query_id="q", seed=[1, 2, 1], value=[0.2, 0.6, 0.1])
    assert zhan.losses(values).loc["q", "m"] == pytest.approx(0.3)


def test_bm25_stands_beside_every_size_and_every_published_delta_once():
    table = zhan.published_deltas()
    assert not table.duplicated(["protocol", "published_n_train", "model", "measure"]).any()
    bm25 = table[(table["model"] == "BM25") & (table["protocol"] == "ReSTrain")]
    assert bm25.groupby("published_n_train")["scaled"].agg(list).to_dict() == dict.fromkeys(zhan.SIZES, [0.01, 0.01])


def test_a_delta_of_exactly_0_has_no_direction():
    """Δ = 0 was counted as a disagreement."""
    ours = pd.DataFrame({"protocol": "ReSTrain", "published_n_train": "14k", "model": "BM25", "measure": ["nDCG@10"]})
    ours = Effects(ours.assign(delta=0.0, low=0.0, high=0.0))
    on = ["protocol", "published_n_train", "model", "measure"]
    assert ours.beside(zhan.published_deltas(), on, effect="delta")["verdict"].tolist() == ["undecided"]


RESTRAIN = {"recipes": ["bm25", "mini-dense"], "sizes": [20, 60], "seeds": [1], "measures": ["RR@10"]}
RESTRAIN |= {"grid_sizes": [30, 90], "grid_draws": 0, "grid_seeds": [1, 2], "grid_steps": 0}
RESTRAIN |= {"test_draws": 0, "draw_splits": ["test"], "test_size": 8, "draw_train": 20}


def test_plan_of_restrain_gives_bm25_one_training_and_the_trained_systems_a_grid():
    p = COMMON | RESTRAIN | {"seeds": [1, 2], "measures": ["nDCG@10", "R@100"]}
    plan = zhan.restrain(p | {"grid_draws": 3, "grid_steps": 7})
    assert plan.design.groupby("model").size().to_dict() == {"BM25": 4, "DR (base)": 8}
    assert set(plan.grid["model"]) == {"DR (base)"} and len(plan.grid) == 2 * 3 * 3 * 2
    assert {run.model.recipe.steps for run in plan.grid["run"]} == {7}
    assert len({run.key for run in plan.grid["run"]}) == len(plan.grid)
    assert plan.measures == ["nDCG@10", "R(rel=2)@100"] and plan.real == {}
    without = zhan.restrain(p)
    assert without.grid.empty and without.banded is None
    assert [run.key for run in without.design["run"]] == [run.key for run in plan.design["run"]]


def test_each_draw_of_test_queries_has_sets_and_trainings_of_its_own():
    plan = zhan.restrain(COMMON | RESTRAIN | {"test_draws": 2})
    assert plan.draws.groupby(["draw", "model"]).size().unique().tolist() == [2]
    first, second = (part["run"].tolist() for _, part in plan.draws.groupby("draw"))
    for one, other in zip(first, second, strict=True):
        assert one.model.train.of.key != other.model.train.of.key and one.model.seed != other.model.seed
        assert one.queries == one.model.train.of.vectors.test and len(one.queries[0].ids()) == 8
        assert one.model.train.of.vectors.encoder == plan.vectors.encoder
    assert set(first[0].queries[0].ids()) != set(second[0].queries[0].ids())


def grid(both=0.0, noise=0.0):
    """Two runs on each of 27 sets: twice the queries add 0.1 to delta, 0.1 of similarity 0.02; noise is of the sets."""
    draw, rows = np.random.default_rng(3), []
    for n_train, band, number in itertools.product((100, 200, 400), range(3), range(3)):
        size, nearer = np.log2(n_train / 200), 1 - band
        delta = 0.1 * size + 0.02 * nearer + both * size * nearer + noise * draw.normal()
        row = {"set": f"{band}-{n_train}-{number}", "n_train": n_train, "nearest_similarity": 0.6 + 0.1 * nearer}
        rows += [row | {"model": "m", "delta": delta}] * 2
    return pd.DataFrame(rows)


def test_regression_finds_what_size_and_distance_were_built_to_do():
    found = zhan.size_and_distance(grid(both=0.01), ["model"])
    np.testing.assert_allclose(found["delta"], [0.1, 0.02, 0.01])
    assert found[["n_sets", "n_runs"]].drop_duplicates().values.tolist() == [[27, 54]]
    noisy = zhan.size_and_distance(grid(noise=0.05), ["model"])
    assert (noisy["low"] < [0.1, 0.02, 0]).all() and (noisy["high"] > [0.1, 0.02, 0]).all()


def test_more_trainings_on_the_same_sets_do_not_make_the_regression_surer():
    """As if each training had a set of its own, ten times as many made the intervals a third as wide."""
    once, often = (zhan.size_and_distance(pd.concat([grid(noise=0.05)] * n), ["model"]) for n in (1, 10))
    np.testing.assert_allclose(often["high"] - often["low"], once["high"] - once["low"], rtol=0.05)


def test_runs_of_a_grid_stand_against_its_largest_near_sets():
    rows = [("m", "RR@10", n, band, 0, s, v) for n, band, s, v in GRID]
    values = pd.DataFrame(rows, columns=["model", "measure", "n_train", "band", "draw", "seed", "value"])
    values = pd.concat([values.assign(query_id="p", value=values["value"] - 0.1), values.assign(query_id="q")])
    sets = pd.DataFrame({"set": ["near-9-0", "far-9-0", "near-3-0"], "mean_max_similarity": [0.9, 0.3, 0.8]})
    runs = zhan.grid_runs(values, sets).set_index(["set", "seed"])
    np.testing.assert_allclose(runs["value"], [0.45, 0.55, 0.25, 0.1])
    np.testing.assert_allclose(runs["delta"], [-0.1, 0.1, -0.5, -0.8])
    assert runs["nearest_similarity"].tolist() == [0.9, 0.9, 0.3, 0.8]


GRID = [(9, "near", 1, 0.5), (9, "near", 2, 0.6), (9, "far", 1, 0.3), (3, "near", 1, 0.15)]


def test_plan_of_the_comparison_shares_its_cells_with_restrain_and_resttest():
    p = COMPARED | {"recipes": ["bm25", "mini-dense"], "learning": True}
    plan = zhan.architectures({name: p[name] for name in p if name != "normalise"})  # which is as notebook 03 has it
    p |= {"measures": ["RR@10"], "grid_draws": 0, "grid_sizes": [], "grid_seeds": [], "grid_steps": 0, "test_draws": 0}
    known = {cell.key for cell in cells_of(zhan.restrain(p)) + cells_of(zhan.resttest(p | {"test_splits": ["dev"]}))}
    assert {run.key for frame in (plan.restrain, plan.resttest) for run in frame["run"]} <= known
    start = plan.learning.set_index(["model", "trained"])["run"]
    assert start["BM25", True].key == start["BM25", False].key
    assert start["DR (base)", True].key != start["DR (base)", False].key
    without = zhan.architectures(p | {"learning": False})
    assert without.learning.empty and without.first_restrain.empty


def test_the_first_stage_of_a_reranker_is_the_bm25_that_it_reads():
    own, tuned = "mini-reranker{k1: [1.2], b: [0.8]}", "mini-reranker{k1: [0.6, 0.9], b: [0.4]}"
    for name, grid in ((own, ((1.2,), (0.8,))), (tuned, ((0.6, 0.9), (0.4,)))):
        plan = zhan.architectures(COMPARED | {"recipes": ["bm25", name, "mini-dense"]})
        for first, runs in ((plan.first_restrain, plan.restrain), (plan.first_resttest, plan.resttest)):
            made = [run.model.recipe for run in first["run"]]
            assert {(one.architecture, one.k1, one.b) for one in made} == {("bm25", *grid)}
            trained_on = {run.model.train for run in runs.query("model == 'Reranker'")["run"]}
            assert {run.model.train for run in first["run"]} == trained_on
            assert set(first["model"]) == {"Reranker"} and set(first["seed"]) == {1}


def test_floor_of_a_reranker_is_chance_and_its_ceiling_what_it_reads(tmp_path):
    """BM25 has the answer first, the reranker last of ten: random orders lie between, at H(10) / 10."""
    plan = zhan.architectures(COMPARED | {"recipes": ["bm25", "mini-reranker"], "other_seeds": [1, 2]})
    store = Store(tmp_path / "cells")
    store.build(plan.buckets.vectors)
    store.build(plan.buckets)
    folders = {}
    for frame, answer in ((plan.restrain, 10), (plan.resttest, 10), (plan.first_restrain, 1), (plan.first_resttest, 1)):
        for run in frame["run"]:
            folders[run.key] = tmp_path / run.key
            folders[run.key].mkdir(exist_ok=True)
            [asked] = run.queries
            ranked_at(answer, asked, store).write_parquet(folders[run.key] / f"run.{asked.name}.parquet")
    found = {"__getitem__": lambda self, cell: folders.get(cell.key) or store[cell]}
    known = type("Known", (Store,), found)(store.root)
    values = zhan.floors(plan, {"ReSTrain": "RR@10", "ReSTTest": "RR@10"}, known, seed=1)
    assert set(values.loc[values["protocol"] == "ReSTrain", "n_train"]) == {60}
    table = effects(values, ["protocol", "reranker", "model"], "regime", zhan.REGIMES, family=[], n_boot=50)
    assert table["n_trainings"].tolist() == [1, 1, 2] * 2 and set(table["reranker"]) == {"Reranker"}
    expected = [sum(1 / rank for rank in range(1, 11)) / 10, 1, 0.1] * 2
    for regime in zhan.REGIMES:
        np.testing.assert_allclose(table[regime], expected, atol=0.03)


def ranked_at(rank, queries, store):
    """Ten passages a query, one of them right, at that rank."""
    qrels, rows = queries.qrels(store), []
    wrong = [f"none-{number}" for number in range(9)]
    for query_id, doc_id in qrels.sort_values("relevance").groupby("query_id")["doc_id"].last().items():
        ranking = [*wrong[: rank - 1], doc_id, *wrong[rank - 1 :]]
        rows += [(query_id, name, 10.0 - at) for at, name in enumerate(ranking)]
    return RunFile.from_frame(pd.DataFrame(rows, columns=["query_id", "doc_id", "score"]))


def test_losses_and_pairs_are_read_from_the_training_logs(tmp_path):
    p = COMMON | {"recipes": ["bm25", "mini-dense"], "measures": ["RR@10"], "k": 2, "seeds": [3]}
    design = zhan.resttest(p).design.query("left_out == '1'")
    folders = {run.key: tmp_path / run.key for run in design["run"]}
    for run in design["run"]:
        folders[run.key].mkdir()
        bm25 = run.model.recipe.architecture == "bm25"
        log = {"steps": 0 if bm25 else 5, "loss": [] if bm25 else [[1, 2.0], [5, 0.5]]}
        (folders[run.key] / "training.json").write_text(json.dumps(log))
    store = type("Known", (Store,), {"__getitem__": lambda self, cell: folders[cell.key]})(tmp_path)
    curve = zhan.loss_curves(design, store)
    assert curve[["model", "seed", "step", "loss"]].values.tolist() == [
        ["DR (base)", 3, 1, 2.0],
        ["DR (base)", 3, 5, 0.5],
    ]
    dense = load_recipe("mini-dense")
    assert zhan.training_pairs(design, store) == [0, dense.scored_pairs(5)]


def test_nearest_queries_come_from_the_set_of_each_regime(tmp_path):
    p = COMMON | RESTRAIN | {"recipes": ["bm25"]}
    split, store = zhan.restrain(p).split, Store(tmp_path)
    store.build(split)
    near = zhan.nearest_queries(split, 20, store)
    texts, sets = split.pool.frame().set_index("query_id")["text"], split.sets(store)
    for regime, part in near.groupby("regime"):
        assert set(part["nearest"]) <= set(texts[sets[f"{regime}-20"]])
    means = near.groupby("regime")["similarity"].mean()
    assert means["interpolation"] > means["extrapolation"] and not near.duplicated(["query_id", "regime"]).any()


def test_every_system_of_the_comparison_has_recipes_for_each_profile():
    for profile in ("mini", "small", "msmarco"):
        for architecture in ("dense", "splade", "colbert", "reranker"):
            recipe, dense = (load_recipe(f"{profile}-{name}") for name in (architecture, "dense"))
            assert recipe.architecture == architecture and recipe.initialisation == dense.initialisation


def test_published_overlap_has_the_labels_of_our_tables():
    table = zhan.published_overlap(1)
    assert table.query("test_set == 'dl19' and label == 'full'")["n"].item() == 27  # 63 % of 43
    ours = pd.DataFrame({"test_set": ["dl19", "dl20", "dev"], "relevance_threshold": [3, 1, 1], "min_shared": 2})
    ours = ours.assign(n_queries=43, n_overlapping=11, percent=25.6, low=14.9, high=40.2)
    published = zhan.beside_table_3(ours)["published_percent"]
    assert published.tolist()[:2] == [26, 76] and np.isnan(published[2])


def test_published_duplicates_are_found_among_candidates_whatever_their_case():
    first = zhan.table_4(NO_PAIRS, pd.DataFrame({"text": ["x"]})).iloc[0]
    pairs = pd.DataFrame([(first["test_query"].upper(), f" {first['train_query']}", 1, 0)], columns=NO_PAIRS.columns)
    found = zhan.table_4(pairs, pd.DataFrame({"text": [first["train_query"].upper()]}))
    assert len(found) == 7 and found["in_our_training_queries"].sum() == 1 == found["bm25_rank"].notna().sum()


NO_PAIRS = pd.DataFrame(columns=["test_query", "train_query", "bm25_rank", "embedding_rank"])
