"""The gain of fine-tuning taken apart, and what near and far queries say of a finished model."""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from toy_parameters import plan_with, typed

from interextra.notebooks import n12_gain as gain
from interextra.own.split_folder import SplitFolder
from interextra.stats.effects import effects
from interextra.store.errors import InputError

LEVELS = {"BM25": 0.5, "base": 0.2, "random split": 0.7, "far queries": 0.6, "left-out kind": 0.4}
LEVELS["left-out kind, unexposed"] = 0.45


def of_conditions(n=300, noise=0.1):
    draw, rows = np.random.default_rng(4), []
    for condition, seed, query in itertools.product(LEVELS, (1, 2), range(n)):
        value = LEVELS[condition] + noise * draw.normal()
        rows.append((condition, seed, f"q{query}", "RR@10", value))
    return pd.DataFrame(rows, columns=["condition", "seed", "query_id", "measure", "value"])


def test_the_parts_of_a_gain_add_up_and_have_the_planted_size():
    found = gain.parts_of(effects(of_conditions(), ["condition", "measure"], n_boot=500)).set_index(
        "part"
    )
    planted = {"whole gain": 0.5, "kept on a left-out kind": 0.2, "lost to exposed negatives": 0.05}
    planted |= {"interpolation: needs the kind": 0.25, "interpolation: needs near queries": 0.1}
    for part, size in planted.items():
        row = found.loc[part]
        assert row["low"] < size < row["high"] and row["difference"] == pytest.approx(
            size, abs=0.02
        )
        assert row["share"] == pytest.approx(2 * size, abs=0.05)
        assert part == "whole gain" or row["share_low"] <= row["share"] <= row["share_high"]
    parts = list(gain.PARTS)
    assert found.loc[parts[1:4], "difference"].sum() == pytest.approx(
        found.loc[parts[0], "difference"]
    )
    assert (
        found.loc[parts[0], "share"] == 1
        and found.loc[parts[0], ["share_low", "share_high"]].isna().all()
    )


def test_only_what_is_fine_tuned_has_the_noise_of_training():
    """BM25 and the base were drawn with it: an interval of a reciprocal rank began below 0."""
    values = of_conditions(noise=0.01)
    trained = ~values["condition"].isin(["BM25", "base"])
    values["value"] += 0.1 * (values["seed"] == 2) * trained  # trainings differ by a constant
    values = values[(values["seed"] == 1) | trained]
    found = gain.by_condition(values, seed=1, n_boot=2000).set_index("condition")
    width = found["high"] - found["low"]
    assert width[["BM25", "base"]].max() < 0.01 < 0.1 < width.drop(["BM25", "base"]).min()
    assert found["n_trainings"].to_dict() == {
        name: 1 + (name not in ("BM25", "base")) for name in LEVELS
    }
    plain = effects(values, ["condition", "measure"], seed=1, n_boot=40).set_index("condition")
    assert found["mean"].tolist() == pytest.approx(plain.loc[found.index, "mean"].tolist())
    parts = gain.parts_of(gain.by_condition(values, seed=1, n_boot=400))
    assert parts["part"].tolist() == list(gain.PARTS)


def test_without_a_gain_no_share_is_told():
    values = of_conditions(noise=0).assign(value=0.5)
    found = gain.parts_of(effects(values, ["condition", "measure"], n_boot=100))
    assert found["difference"].eq(0).all() and found["share"].isna().all()


def test_a_share_of_a_gain_that_is_not_shown_has_no_interval():
    """A ratio whose denominator can be 0 has no bound: +0.1 [-0.1, +0.3] kept -80 % [-1300, …]."""
    values = of_conditions(n=8, noise=2.0)
    found = gain.parts_of(effects(values, ["condition", "measure"], n_boot=200))
    assert found.set_index("part").loc["whole gain", "low"] < 0
    assert found["share"].notna().all()
    assert found[["share_low", "share_high"]].isna().all(axis=None)


@pytest.mark.parametrize(
    "conditions, said",
    [
        (["BM25", "base", "random split", "left-out kind"], "of it +40"),
        (list(LEVELS), "needs the kind (individual"),
    ],
)
def test_the_answer_names_the_parts_that_were_measured(conditions, said):
    """The conditions of the profile real are four."""
    values = of_conditions()
    values = values[values["condition"].isin(conditions)]
    parts = gain.parts_of(effects(values, ["condition", "measure"], n_boot=200))
    agreed = pd.DataFrame([{"measure": "RR@10", "difference": 0.1, "low": 0.0, "high": 0.2}])
    [of_gain, of_trainers] = gain.answer_sentences(parts, agreed, "RR@10")
    assert said in of_gain and of_gain.endswith("(individual intervals).")
    assert ("needs the kind" in of_gain) == (len(conditions) > 4)
    assert of_trainers.endswith("+10.0 percentage points of Δ [+0.0, +20.0].")


def test_a_left_out_kind_is_measured_by_its_own_model():
    values = pd.DataFrame(
        {"condition": ["random split", *["left-out kind"] * 3], "left_out": [None, "a", "b", "a"]}
    )
    values["stratum"], values["value"] = ["a", "a", "a", gain.OUTSIDE], [1.0, 2.0, 3.0, 4.0]
    assert gain.in_conditions(values)["value"].tolist() == [1.0, 2.0]


class Ids(list):
    """Stands for queries, of which only the ids are read."""

    def ids(self):
        return list(self)


def test_equally_near_queries_are_divided_into_halves_too():
    """All above the median were near: of equally near queries none."""
    trained = np.eye(2)
    tested = np.array([[1.0, 0], [1, 0], [1, 0], [1, 1]])
    vectors = SimpleNamespace(
        read=lambda store: (trained, tested), train=Ids("ab"), test=[Ids("stuv")]
    )
    halves = gain.halves(SimpleNamespace(vectors=vectors, some=Ids("ab")), None)
    assert halves["query_id"].tolist() == list("stuv")
    assert halves["is_near"].tolist() == [False, True, True, False]


def test_published_runs_are_those_of_the_committed_values(root, tmp_path):
    values, near = gain.published_runs(
        root / "outputs" / "reference" / "small" / "11_pool_bias" / "values"
    )
    assert (
        set(values["system"]) >= {"BM25", "neural"}
        and values["query_id"].isin(near["query_id"]).all()
    )
    assert values["query_id"].nunique() == len(near) == 97 and near["is_near"].sum() == 48
    assert gain.published_runs(tmp_path)[0].empty


def test_sets_of_several_sizes_are_refused():
    p = {
        "shift": "wh-words",
        "collection": "mini",
        "train_split": "train",
        "train_limit": 9,
        "test_splits": ["test"],
    }
    with pytest.raises(InputError, match="one size"):
        plan_with(gain, p | {"train_size": 9, "seed": 1})


def test_learning_curves_differ_in_their_queries_alone():
    curves = plan_with(gain, {}).curves
    sizes = curves.design["size"].tolist()
    assert curves.design["run"].map(lambda run: run.model.train.size()).tolist() == sizes
    assert len({str(run.recipe) for run in curves.design["run"]}) == 1
    merged = curves.merges
    tuned = merged[(merged["alpha"] == 1) & (merged["negatives"] == "all")]
    largest = curves.design[curves.design["size"] == max(sizes)]
    assert {run.key for run in tuned["run"]} == {run.key for run in largest["run"]}
    untrained = merged.loc[merged["alpha"] == 0, "run"]
    assert {run.key for run in untrained} == {curves.given["run"].item().key}


ASKED = ["BM25", gain.BASE, gain.RANDOM, gain.OUT]
SMALL = {"collection": "mini:n_train=700,n_graded=0", "shift": "wh-words", "n_test": 5}
SMALL |= {"train_size": 60, "test_splits": ["test"], "seeds": [1, 2], "curve_sizes": [20, 40]}


def test_only_the_conditions_that_are_asked_for_are_planned():
    plan = plan_with(gain, SMALL | {"conditions": ASKED})
    assert plan.design["condition"].unique().tolist() == ASKED
    assert plan.sets is None and plan.merges.empty and plan.gate == []
    whole = plan_with(gain, SMALL)
    keys = whole.design.set_index("condition")["run"].map(lambda run: run.key)
    assert keys.index.unique().tolist() == gain.CONDITIONS
    for row in plan.design.itertuples():
        assert row.run.key in keys[[row.condition]].tolist()
    with pytest.raises(InputError, match="'conditions': 'base' is missing"):
        plan_with(gain, SMALL | {"conditions": ["BM25", gain.RANDOM, gain.OUT]})
    with pytest.raises(InputError, match="'conditions': 'far' is none of 'BM25', 'base'"):
        plan_with(gain, SMALL | {"conditions": [*ASKED, "far"]})


def test_further_random_sets_are_drawn_anew_and_trained_with_each_seed():
    one = plan_with(gain, SMALL | {"conditions": ASKED})
    several = plan_with(gain, SMALL | {"conditions": ASKED, "random_sets": 3})
    assert "draw" not in one.design and several.some == one.some
    of_sets = several.design[several.design["condition"] == gain.RANDOM]
    assert of_sets.groupby("draw")["seed"].agg(list).to_dict() == {n: [1, 2] for n in (1, 2, 3)}
    sets = [frozenset(run.model.train.ids()) for run in of_sets["run"]]
    assert len(set(sets)) == 3 and set(map(len, sets)) == {60}
    first = gain.of_first_set(several.design)
    assert {run.key for run in first["run"]} == {run.key for run in one.design["run"]}
    assert gain.of_first_set(one.design) is one.design


def test_the_noise_of_several_random_sets_is_that_of_the_sets():
    """Twelve trainings on three sets that differ are no twelve sets."""
    draw = np.random.default_rng(2)
    values = of_conditions(n=60, noise=0.01).assign(draw=np.nan, trained="")
    luck = dict(zip((1, 2, 3), (-0.1, 0.0, 0.1), strict=True))
    sets = []
    for number, seed in itertools.product(luck, (1, 2, 3, 4)):
        part = values[(values["condition"] == gain.RANDOM) & (values["seed"] == 1)]
        value = part["value"] + luck[number] + 0.001 * draw.normal()
        name = f"{number} {seed}"
        sets.append(part.assign(draw=float(number), seed=seed, trained=name, value=value))
    others = values[(values["condition"] != gain.RANDOM) & (values["seed"] == 1)]
    values = pd.concat([*sets, others], ignore_index=True)
    found = gain.by_condition(values, seed=1, n_boot=400).set_index("condition")
    row = found.loc[gain.RANDOM]
    assert row["n_trainings"] == 3 and row["sd_trainings"] == pytest.approx(0.1, abs=0.003)
    is_random = values["condition"] == gain.RANDOM
    assert row["mean"] == pytest.approx(values.loc[is_random, "value"].mean())


def test_merges_lie_between_the_base_and_each_model_without_a_kind():
    asked = SMALL | {"conditions": ASKED, "merge_left_out": True}
    plan = plan_with(gain, asked)
    kinds = plan.shift.names
    assert plan.gate == ["dev"] and len(plan.merges) == len(kinds) * 2 * len(gain.MERGED_ALPHAS)
    is_out = plan.design["condition"] == gain.OUT
    tuned = plan.merges[plan.merges["alpha"] == 1]
    assert tuned["run"].tolist() == plan.design.loc[is_out, "run"].tolist()
    [base] = plan.design.loc[plan.design["condition"] == gain.BASE, "run"]
    models = tuned.set_index(["left_out", "seed"])["run"]
    for row in plan.merges[plan.merges["alpha"] < 1].itertuples():
        assert row.run.given == base.model and row.run.alpha == row.alpha
        assert row.run.model == models[row.left_out, row.seed].model
        assert [queries.split for queries in row.run.queries] == ["test", "dev"]
    others = plan.design.loc[~is_out, "run"]
    assert {queries.split for run in others for queries in run.queries} == {"test"}
    with pytest.raises(InputError, match="'gate_split': 'test' is among the other splits"):
        plan_with(gain, asked | {"gate_split": "test"})


def test_a_gain_in_percent_is_that_of_its_means():
    means = gain.by_condition(of_conditions(noise=0.01), seed=1, n_boot=200)
    [row] = gain.relative_gain(means, ["RR@10"]).to_dict("records")
    assert row["base"] == pytest.approx(0.2, abs=0.01)
    assert row["change"] == pytest.approx(row["random split"] / row["base"] - 1)
    assert row["low"] < row["change"] < row["high"]


def test_both_cuts_of_a_gain_begin_with_the_whole():
    parts = gain.parts_of(gain.by_condition(of_conditions(noise=0.01), seed=1, n_boot=200))
    drawn = gain.cuts(parts)
    sizes = drawn.groupby("cut", sort=False)["difference"].agg(list)
    assert len(sizes) == 2
    for whole, *rest in sizes:
        assert sum(rest) == pytest.approx(whole)
    page = gain.parts_page(parts).set_index("part")["share"]
    assert page["whole gain"] == "+100.0 %" and "[" in page["kept on a left-out kind"]


def test_a_cut_without_parts_is_not_drawn():
    values = of_conditions(noise=0.01)
    is_known = ~values["condition"].isin(["far queries", "left-out kind, unexposed"])
    drawn = gain.cuts(gain.parts_of(gain.by_condition(values[is_known], n_boot=200)))
    assert drawn["cut"].unique().tolist() == ["by kind of query"]


def halved(bm25, lead, over_far):
    """A table of `near_and_far`, of low and high of three differences."""
    rows = []
    names = ["BM25", "random split minus BM25", "random split minus far queries"]
    for name, (low, high) in zip(names, (bm25, lead, over_far), strict=True):
        rows.append((name, "RR@10", (low + high) / 2, low, high))
    return pd.DataFrame(rows, columns=["system", "measure", "difference", "low", "high"])


@pytest.mark.parametrize(("over_far", "is_blamed"), [((-0.04, 0.1), True), ((-0.2, -0.1), False)])
def test_a_model_is_blamed_wrongly_only_where_retraining_shows_no_loss(over_far, is_blamed):
    table = halved((0.1, 0.3), (-0.3, -0.1), over_far)
    told = gain.difficulty_sentences(table, "RR@10")
    assert told[0].startswith("Lead over BM25, far minus near queries: -20.0 points [-30.0, -10.0]")
    assert "BM25 finds the far half easier" in told[1]
    assert ("blames the model" in told[-1]) == is_blamed


def test_without_a_difference_of_bm25_nothing_is_blamed_on_it():
    told = gain.difficulty_sentences(halved((-0.1, 0.1), (-0.3, -0.1), (-0.1, 0.1)), "RR@10")
    assert "not shown" in told[1] and not any("blames" in sentence for sentence in told)
    assert gain.row_of(halved((0, 1), (0, 1), (0, 1)), "BM25", "RR@10")["difference"] == 0.5


def test_published_leads_need_committed_values(root, tmp_path):
    assert gain.published_leads(tmp_path, 1, 100).empty
    systems = set(gain.published_leads(root, 1, 100)["system"])
    assert {"BM25", "neural minus BM25"} <= systems


def test_our_trainer_measures_each_set_and_bm25_beside_it(spec, store, tmp_path):
    own = {"collection": spec, "test_splits": ["test"], "own_size": 12, "own_seeds": [1]}
    own |= {"own_steps": 1, "encoder": "tf-idf", "measures": ["RR@10"]}
    p = typed(gain, own)
    options = gain._own_options(p, p.own_size)
    split = gain.own.split_of("restrain", spec, options)
    store.build(split)
    gain.own.export(split, store, tmp_path / "folds", options)
    folder = SplitFolder.open(tmp_path / "folds")
    recipe = gain.own_trainings(p).recipe

    def run(cells):
        for cell in cells if isinstance(cells, list) else [cells]:
            store.build(cell)

    values = gain.values_of_our_trainer(p, recipe, folder, tmp_path / "probe", store, run)
    assert set(values["measure"]) == {"RR@10"}
    is_rival = values["model"] == "BM25"
    assert set(values.loc[~is_rival, "regime"]) == {"interpolation", "extrapolation"}
    n_queries = len(folder.queries)
    assert is_rival.sum() == n_queries and (~is_rival).sum() == 2 * n_queries
