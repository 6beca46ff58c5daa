"""Merged weights: each is between two, α is chosen on the gate's queries alone, and pairs count."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from toy_own import written

import interextra as ix
from interextra.data.queries import Part, Queries, Source
from interextra.models.model import load_model
from interextra.models.planning import model_of
from interextra.models.search.run import Run
from interextra.own import merge as module
from interextra.own import probe
from interextra.own.split_folder import SplitFolder
from interextra.splits.shift import OUTSIDE
from interextra.splits.split import REGIMES
from interextra.store.errors import InputError

WEIGHTS = {"a": torch.tensor([0.0, 1.0]), "n": torch.tensor([7])}


def saved(folder, weights):
    """A folder of a model with these weights, and a file beside them."""
    (folder / "deep").mkdir(parents=True)
    save_file(weights, folder / "deep" / "model.safetensors")
    (folder / "config.json").write_text(folder.name)
    return folder


@pytest.mark.parametrize("alpha", [0.0, 0.25, 1.0])
def test_every_weight_lies_between_those_of_both_models(tmp_path, alpha):
    given = saved(tmp_path / "given", WEIGHTS)
    tuned = saved(tmp_path / "tuned", WEIGHTS | {"a": torch.tensor([0.3, -1.0])})
    module.merge_weights(given, tuned, alpha, tmp_path / "out")
    merged = load_file(tmp_path / "out" / "deep" / "model.safetensors")
    by_hand = [(1 - alpha) * 0 + alpha * 0.3, (1 - alpha) * 1 + alpha * -1]
    assert merged["a"].tolist() == pytest.approx(by_hand) and merged["n"].tolist() == [7]
    if alpha == 1:
        assert merged["a"].tolist() == torch.tensor([0.3, -1.0]).tolist()
    assert (tmp_path / "out" / "config.json").read_text() == "tuned"


@pytest.mark.parametrize(
    "other", [{"a": torch.zeros(3), "n": WEIGHTS["n"]}, {"b": WEIGHTS["a"], "n": WEIGHTS["n"]}]
)
def test_models_of_other_shapes_or_names_are_one_message(tmp_path, other):
    given = saved(tmp_path / "given", other)
    tuned = saved(tmp_path / "tuned", WEIGHTS)
    with pytest.raises(InputError, match="differ in [12] weights.*of one architecture"):
        module.merge_weights(given, tuned, 0.5, tmp_path / "out")
    shutil.rmtree(given / "deep")
    with pytest.raises(InputError, match="given: no safetensors weights"):
        module.merge_weights(given, tuned, 0.5, tmp_path / "out")
    shutil.rmtree(tuned / "deep")
    with pytest.raises(InputError, match="tuned: no safetensors weights"):
        module.merge_weights(given, tuned, 0.5, tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"given", "tuned"}


@pytest.mark.parametrize("larger", ["given", "tuned"])
def test_a_file_of_weights_that_one_model_lacks_is_refused(tmp_path, larger):
    given = saved(tmp_path / "given", WEIGHTS)
    tuned = saved(tmp_path / "tuned", WEIGHTS)
    save_file(WEIGHTS, tmp_path / larger / "more.safetensors")
    with pytest.raises(InputError, match="differ in 1 weights or files.*'more.safetensors'"):
        module.merge_weights(given, tuned, 0.5, tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"given", "tuned"}


@pytest.mark.parametrize("other", ["given", "tuned"])
def test_weights_of_another_format_are_refused_by_name(tmp_path, other):
    given = saved(tmp_path / "given", WEIGHTS)
    tuned = saved(tmp_path / "tuned", WEIGHTS)
    (tmp_path / other / "training_args.bin").write_bytes(b"no weights")
    module.merge_weights(given, tuned, 0.5, tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    (tmp_path / other / "2_Dense").mkdir()
    (tmp_path / other / "2_Dense" / "pytorch_model.bin").write_bytes(b"weights")
    with pytest.raises(InputError, match=f"{other} has weights.*'2_Dense/pytorch_model.bin'"):
        module.merge_weights(given, tuned, 0.5, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def planted(levels, n=200, seed=1, noise=0.05, negatives=("all",)):
    """Values at each α: `levels` of each regime; the trainings of α = 1 also move the merges."""
    draw = np.random.default_rng(seed)
    query_ids = [f"q{number}" for number in range(n)]
    difficulty = draw.normal(0.5, 0.15, n)
    parts = []
    for kind in negatives:
        for regime in REGIMES:
            for training in "12":
                luck = draw.normal(0, noise)
                for alpha, level in zip(module.ALPHAS, levels[regime], strict=True):
                    # the model as given is no training of ours, and the same in both regimes
                    value = difficulty + level + alpha * luck
                    if alpha:
                        value = value + draw.normal(0, 0.05, n)
                    part = pd.DataFrame({"query_id": query_ids, "value": value})
                    name = f"{kind} {regime} {training} {alpha}" if alpha else ""
                    labels = {"regime": regime, "seed": training, "alpha": alpha, "trained": name}
                    parts.append(part.assign(negatives=kind, **labels))
    return pd.concat(parts, ignore_index=True).assign(measure="RR@10")


LEVELS = {"interpolation": (-0.2, 0.0, 0.1, 0.1, 0.1), "extrapolation": (-0.2, 0.0, 0.2, 0.1, 0.0)}


def test_differences_are_those_of_the_same_training_and_query():
    values = planted(LEVELS)
    gate = [f"q{number}" for number in range(20)]
    points = module.report(values, gate, 0.05, 1, 400).points.set_index(["regime", "alpha"])
    tested = values[~values["query_id"].isin(gate)]
    means = tested.groupby(["regime", "alpha"])["value"].mean()
    for regime in REGIMES:
        for alpha in module.ALPHAS:
            row = points.loc[(regime, alpha)]
            assert row["mean"] == pytest.approx(means[regime, alpha])
            assert row["low"] < row["mean"] < row["high"]
            if alpha < 1:
                difference = means[regime, alpha] - means[regime, 1.0]
                assert row["difference"] == pytest.approx(difference)
                assert row["chosen"] == np.isfinite(row["d_low"])
                assert not row["chosen"] or row["d_low"] < difference < row["d_high"]
        assert points.loc[(regime, 1.0), ["difference", "d_low", "detects"]].isna().all()
    assert points["chosen"].sum() == 2


def test_what_a_training_shares_with_its_merges_widens_no_difference():
    """Trainings that move all α > 0 alike: the difference of .75 stays certain, its mean not."""
    levels = LEVELS | {"interpolation": (-0.2, 0.0, 0.1, 0.9, 0.1)}
    gate = [f"q{number}" for number in range(20)]
    found = module.report(planted(levels, noise=0.3), gate, 0.05, 1, 400).points
    row = found[found["chosen"]].iloc[0]
    assert row["alpha"] == 0.75
    assert row["d_high"] - row["d_low"] < 0.5 * (row["high"] - row["low"])


def test_alpha_is_chosen_on_the_gates_queries_alone():
    values = planted(LEVELS, noise=0.0)
    gate = [f"q{number}" for number in range(50)]
    is_gate = values["query_id"].isin(gate)
    is_best = values["alpha"].eq(0.25) & values["regime"].eq("interpolation")
    values.loc[is_gate & is_best, "value"] += 1.0  # nowhere else is .25 any good
    found = module.report(values, gate, 0.05, 1, 400)
    assert set(found.points.loc[found.points["chosen"], "alpha"]) == {0.25}
    assert found.points["n_queries"].eq(150).all()
    (said,) = found.sentences
    assert "on 50 queries of the gate, α = 0.25 is best" in said and "points" in said
    tested = values[~is_gate & values["alpha"].eq(0.25) & values["regime"].eq("interpolation")]
    row = found.points[found.points["chosen"] & found.points["regime"].eq("interpolation")].iloc[0]
    assert row["mean"] == pytest.approx(tested["value"].mean()) and row["gate"] > 1.2


@pytest.mark.parametrize(
    ("extrapolation", "said"),
    [
        (0.3, "Merging gains in extrapolation"),
        (-0.3, "Merging loses in extrapolation"),
        (0.0, "Merging changes extrapolation by less than 5 %"),
    ],
)
def test_a_planted_change_in_extrapolation_is_said(extrapolation, said):
    levels = {
        "interpolation": (-0.2, 0.0, 0.3, 0.1, 0.1),
        "extrapolation": (0, 0, extrapolation, 0, 0),
    }
    gate = [f"q{number}" for number in range(50)]
    found = module.report(planted(levels, n=300, noise=0.0), gate, 0.05, 1, 400)
    assert found.sentences[0].startswith(said)


def test_the_fine_tuned_weights_may_be_the_best_and_few_queries_say_nothing():
    levels = {"interpolation": (-0.2, 0, 0.1, 0.2, 0.4), "extrapolation": (0, 0, 0, 0, 0)}
    values = planted(levels, noise=0.0, negatives=("all", "unexposed"))
    gate = [f"q{number}" for number in range(50)]
    found = module.report(values, gate, 0.05, 1, 400)
    assert [said[:18] for said in found.sentences] == ["No merge is chosen"] * 2
    assert "negatives: unexposed" in found.sentences[1]
    few = module.report(values, gate[:9], 0.05, 1, 400)
    assert few.sentences[0].startswith("Nothing is said: 9") and not few.points["chosen"].any()


def test_the_model_before_fine_tuning_is_no_merge():
    levels = {"interpolation": (0.4, 0.1, 0.0, 0.0, 0.0), "extrapolation": (0.3, 0, 0, 0, 0)}
    gate = [f"q{number}" for number in range(50)]
    [sentence] = module.report(planted(levels, noise=0.0), gate, 0.05, 1, 400).sentences
    assert sentence.startswith("Undoing the fine-tuning gains in extrapolation: on 50 queries")
    assert "α = 0 is best, the weights before fine-tuning, which is no merge; on" in sentence


def test_of_means_that_differ_by_rounding_alone_the_smaller_alpha_is_chosen():
    level = (-0.2, 0.0, 0.4, 0.0, 0.0)
    values = planted(dict.fromkeys(REGIMES, level), noise=0.0)
    is_best = values["alpha"] == 0.5
    more_by_rounding = values[is_best].assign(alpha=0.75, value=values["value"] + 1e-15)
    values = pd.concat([values[values["alpha"] != 0.75], more_by_rounding], ignore_index=True)
    gate = [f"q{number}" for number in range(50)]
    found = module.report(values, gate, 0.05, 1, 100).points
    assert set(found.loc[found["chosen"], "alpha"]) == {0.5}
    of_kinds = pd.concat([values.assign(left_out=kind, stratum="c") for kind in "ab"])
    assert module.chosen_by_kind(of_kinds)["alpha"].tolist() == [0.5, 0.5]


def test_a_run_of_merged_weights_is_that_of_a_model_with_them(spec, store, tmp_path):
    """And the whole way: design, runs, values, report, page."""
    split, _ = written(spec, store, "restrain", "out", size=20)
    folder = SplitFolder.open(Path("out"))
    recipe = ix.load_recipe("mini-dense", steps=2, batch_size=4, warmup_steps=1)
    given = probe.untrained(recipe, split, "").model
    sets = {name: Part(of=split, part=name) for name in folder.sets}
    queries = (Queries(source=Source.of(spec), split="test"),)
    design = module.design(recipe, sets, queries, [1], given, (0.0, 0.5, 1.0))
    assert design["negatives"].unique().tolist() == ["all", "unexposed"] and len(design) == 12
    of_given = Run(model=given, queries=queries, depth=probe.DEPTH)
    assert {run.key for run in design.loc[design["alpha"] == 0, "run"]} == {of_given.key}
    tuned = design[design["alpha"] == 1].iloc[0]["run"]
    assert module.merged_run(given, tuned, 0) == of_given
    for run in dict.fromkeys(design["run"]):
        store.build(run)
    half = design[design["alpha"] == 0.5].iloc[0]
    before, after = (store[cell] / "weights" for cell in (given, half["run"].model))
    module.merge_weights(before, after, 0.5, tmp_path / "half")
    [tested] = queries
    texts = tested.frame()["text"].tolist()
    _, scores = load_model(tmp_path / "half").search(tested.source.open(), texts, 3)
    read = half["run"].read(store, tested).frame()
    assert read[read["rank"] <= 3]["score"].tolist() == pytest.approx(scores.ravel().tolist())
    values = module.values_of_design(design, folder, store, ["RR@10"])
    assert values.groupby(["negatives", "alpha", "regime"]).size().nunique() == 1
    assert (values.loc[values["alpha"] == 0, "trained"] == "").all()
    found = module.write(tmp_path, module.report(values, folder.gate_ids, 0.05, 1, 400))
    assert [path.name for path in found.files] == ["merge.csv", "merge.html"]
    assert "<svg" in (tmp_path / "merge.html").read_text()


def test_what_is_not_trained_has_no_weights_to_merge(spec, store):
    split, _ = written(spec, store, "restrain", "out", size=20)
    bm25 = ix.load_recipe("bm25")
    given = Run(model=model_of(bm25, split.pool, 0), queries=(split.pool,))
    with pytest.raises(InputError, match="bm25 is not trained"):
        module.design(bm25, {}, given.queries, [1], given.model)


KINDS = {"a": 10, "b": 30, "c": 60}  # left-out kind → queries of the kind
CHANGES = {"a": (0.30, 0.02), "b": (0.12, -0.01), "c": (0.06, 0.04)}  # of α = .5: out, in


def without_each(noise=0.0, tuned=0.4, seeds="12"):
    """Values of models without a kind each: α = .5 has CHANGES, .25 and .75 lose. Merges of even
    and odd queries differ, so that something varies; there are as many of both.
    """
    draw, rows = np.random.default_rng(7), []
    names = [(kind, number) for kind, n in KINDS.items() for number in range(n)]
    for left_out, seed in [(kind, seed) for kind in KINDS for seed in seeds]:
        luck = noise * draw.normal()
        for stratum, number in names:
            query_id = f"{stratum}{number}"
            odd = 0.01 * (-1) ** number
            out, known = CHANGES[left_out]
            change = out if stratum == left_out else known
            level = tuned + luck + 0.05 * draw.normal()
            for alpha, more in {0.25: -0.1, 0.5: change, 0.75: -0.2, 1.0: 0.0}.items():
                value = level + more + odd * (alpha < 1)
                rows.append((left_out, seed, stratum, query_id, alpha, value))
    columns = ["left_out", "seed", "stratum", "query_id", "alpha", "value"]
    values = pd.DataFrame(rows, columns=columns)
    return values.assign(measure="RR@10", trained=values["left_out"] + values["seed"])


def test_alpha_of_a_left_out_kind_is_chosen_on_the_other_kinds():
    gate = without_each()
    is_own = gate["left_out"] == gate["stratum"]
    gate.loc[is_own & (gate["alpha"] == 0.75), "value"] += 9.0  # on the left-out kind: not asked
    gate.loc[gate["stratum"] == "c", "stratum"] = OUTSIDE
    chosen = module.chosen_by_kind(gate).set_index("left_out")
    # c is in training, but none of its queries is there: a and b choose without it
    assert chosen["alpha"].to_dict() == {"a": 0.5, "b": 1.0, "c": 0.5}
    assert chosen["n_gate"].to_dict() == {"a": 30, "b": 10, "c": 40}
    is_known = (gate["left_out"] == "a") & (gate["stratum"] == "b") & (gate["alpha"] == 0.5)
    assert chosen.at["a", "gate"] == pytest.approx(gate.loc[is_known, "value"].mean())
    assert chosen.at["a", "gate_tuned"] == pytest.approx(chosen.at["a", "gate"] - 0.02)
    with pytest.raises(InputError, match="without 'a', no query is of a kind in training"):
        module.chosen_by_kind(gate[gate["stratum"] == "a"])


def test_without_queries_or_fine_tuned_models_alpha_is_not_chosen():
    gate = without_each()
    with pytest.raises(InputError, match="no query is of a kind in training"):
        module.chosen_by_kind(gate.assign(stratum=OUTSIDE))
    with pytest.raises(InputError, match="no query chooses α"):
        module.chosen_by_kind(gate[:0])
    is_tuned = (gate["left_out"] == "b") & (gate["alpha"] == 1)
    with pytest.raises(InputError, match="without 'b', no value is of the fine-tuned model"):
        module.chosen_by_kind(gate[~is_tuned])


def test_what_a_merge_changes_is_the_mean_of_the_left_out_kinds():
    values = without_each(noise=0.3)
    chosen = module.chosen_by_kind(values)
    found = module.left_out_effects(values, chosen, 1, 400).set_index(["merge", "side"])
    alphas = chosen.set_index("left_out")["alpha"]
    assert alphas.to_dict() == {"a": 0.5, "b": 1.0, "c": 0.5}
    by_hand = {"out": (0.30 + 0 + 0.06) / 3, "in": (0.02 + 0 + 0.04) / 3}  # kinds count alike
    of_half = {"out": (0.30 + 0.12 + 0.06) / 3, "in": (0.02 - 0.01 + 0.04) / 3}
    for side in ("out", "in"):
        row = found.loc["chosen", side]
        assert row["difference"] == pytest.approx(by_hand[side])
        assert found.loc["0.5", side]["difference"] == pytest.approx(of_half[side])
        assert found.loc["0.25", side]["difference"] == pytest.approx(-0.1)
        # what a training shares with its merges widens no difference
        assert row["low"] <= by_hand[side] <= row["high"] and row["high"] - row["low"] < 0.1
        assert row["n_queries"] == 100 and row["n_trainings"] == 2
    claimed = found.reset_index().query("merge == 'chosen' and side == 'out'")
    assert claimed.drawn().mean() == pytest.approx(by_hand["out"], abs=0.01)


def test_models_count_alike_on_kinds_that_none_of_them_leaves_out():
    values = without_each()
    values = values[values["left_out"] != "c"]
    found = module.left_out_effects(values, module.chosen_by_kind(values), 1, 40)
    half = found[(found["merge"] == "0.5") & (found["side"] == "in")]
    assert half["difference"].item() == pytest.approx((0.02 - 0.01) / 2)


def test_queries_of_no_kind_measure_no_merge():
    values = without_each()
    values.loc[values["query_id"] == "a0", "stratum"] = ""
    values.loc[values["query_id"] == "b0", "stratum"] = OUTSIDE
    found = module.left_out_effects(values, module.chosen_by_kind(values), 1, 40)
    assert found["n_queries"].eq(98).all()


def test_trainings_that_a_merge_changes_otherwise_widen_both_sides():
    values = without_each()
    is_second = (values["seed"] == "2") & (values["alpha"] == 0.5)
    plain = module.left_out_effects(values, module.chosen_by_kind(values), 1, 1000)
    values.loc[is_second, "value"] += 0.1
    moved = module.left_out_effects(values, module.chosen_by_kind(values), 1, 1000)
    for table, width in ((plain, (0, 0.02)), (moved, (0.05, 1.0))):
        rows = table[table["merge"] == "0.5"]
        widths = rows["high"] - rows["low"]
        assert widths.between(*width).all(), widths
