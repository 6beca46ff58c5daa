"""Learning curves: nested sets, the size from which a curve is flat, and which regime gains."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from datasets import load_from_disk
from toy_own import written

import interextra as ix
from interextra.cli import main
from interextra.data.runs import RunFile
from interextra.own import curve as module
from interextra.own import nested as nesting
from interextra.own.seen import VERDICT, Given, Seen
from interextra.own.split_folder import SplitFolder
from interextra.splits.split import REGIMES
from interextra.store.errors import InputError

SIZES = (25, 50, 100)


def planted(levels, n=60, spread=0.05, seed=1, noise=0.0):
    """Values of two trainings on each size: `levels` of each regime, by size."""
    draw = np.random.default_rng(seed)
    query_ids = [f"q{number}" for number in range(n)]
    difficulty = draw.normal(0.5, 0.15, n)
    parts = []
    for regime, of_sizes in levels.items():
        for size, level in zip(SIZES, of_sizes, strict=True):
            for training in "12":
                value = difficulty + level + draw.normal(0, spread, n) + draw.normal(0, noise)
                part = pd.DataFrame({"query_id": query_ids, "value": value})
                part["trained"] = f"{regime} {size} {training}"
                parts.append(part.assign(regime=regime, size=size, seed=training))
    return pd.concat(parts, ignore_index=True).assign(measure="nDCG@10")


def reported(values, n_boot=400, gate=(), margin=0.05, given=None):
    """The report of some values, beside a BM25 that has one half everywhere."""
    baseline = values[["query_id", "measure"]].drop_duplicates().assign(value=0.5)
    baseline.loc[baseline.index[0], "value"] = 0.4
    return module.report(values, baseline, gate, margin, 1, n_boot, given)


def test_smaller_sets_are_parts_of_the_larger_and_drawn_once_by_the_seed(spec, store):
    split, _ = written(spec, store, "restrain", "out", size=20)
    nested = nesting.nested_sets(split, store, [])
    assert nested.sizes == (1, 2, 5, 10, 20)
    store.build(nested)
    sets, whole = nested.sets(store), split.sets(store)
    assert set(sets) == set(nested.parts())
    for regime in REGIMES:
        parts = [sets[f"{regime}-20-first-{size}"] for size in nested.sizes]
        assert [len(part) for part in parts] == list(nested.sizes)
        for smaller, larger in zip(parts, parts[1:], strict=False):
            assert larger[: len(smaller)] == smaller
        assert sorted(parts[-1]) == sorted(whole[f"{regime}-20"])
    other = nested.model_copy(update={"seed": 2})
    store.build(other)
    assert other.sets(store)["interpolation-20-first-5"] != sets["interpolation-20-first-5"]


@pytest.mark.parametrize("sizes", [[3], [3, 3], [0, 2], [2, 99]])
def test_sizes_that_make_no_curve_are_one_message(spec, store, sizes):
    split, _ = written(spec, store, "restrain", "out", size=20)
    with pytest.raises(InputError, match="--sizes"):
        nesting.nested_sets(split, store, sizes)


def test_a_set_of_one_query_has_no_smaller_ones(monkeypatch):
    """The message was about an option that nobody passed."""
    monkeypatch.setattr(nesting, "sets_of", lambda split: list(split.sets(None)))
    split = SimpleNamespace(sets=lambda store: {"near": ["q1"], "far": ["q1", "q2"]})
    with pytest.raises(InputError, match="smallest training set has 1 queries, of which nested"):
        nesting.nested_sets(split, None, [])


def test_all_sizes_take_the_same_steps_and_queries(spec, store):
    split, _ = written(spec, store, "restrain", "out", size=20)
    nested = nesting.nested_sets(split, store, [5, 20])
    recipe = ix.load_recipe("small-dense", initialisation="tiny-base", batch_size=4, epochs=2)
    design = nesting.design(recipe, nested, "", [1, 2])
    assert len(design) == 8 and {run.recipe.steps for run in design["run"]} == {10}
    assert len({run.queries for run in design["run"]}) == 1
    assert design["run"].map(lambda run: run.model.train.size()).tolist() == [5] * 4 + [20] * 4


def test_a_gain_is_the_change_of_the_means_and_its_interval_holds_it():
    values = planted({"interpolation": (0, 0.1, 0.2), "extrapolation": (0, 0.02, 0.02)})
    values = values[values["seed"] == "1"]  # one training, whose noise nobody knows
    points = reported(values).points.set_index(["regime", "size"])
    means = values.groupby(["regime", "size"])["value"].mean()
    assert points["mean"].to_dict() == pytest.approx(means.to_dict())
    for regime in REGIMES:
        for size in SIZES[:-1]:
            row = points.loc[(regime, size)]
            assert row["to_largest"] == pytest.approx(means[regime, 100] / means[regime, size] - 1)
            assert row["gain_low"] < row["to_largest"] < row["gain_high"]
            # simultaneous: wider than the plain interval of this change alone
            pair = values[(values["regime"] == regime) & values["size"].isin([size, 100])]
            how = {"on": "size", "sides": (size, 100), "effect": "delta"}
            plain = ix.effects(pair, ["regime"], **how, seed=1, n_boot=400).iloc[0]
            assert row["gain_high"] - row["gain_low"] > plain["high"] - plain["low"]
        assert points.loc[(regime, 100), ["to_largest", "detects"]].isna().all()
    assert points["low"].lt(points["mean"]).all() and points["high"].gt(points["mean"]).all()


def test_which_regime_gains_and_where_it_is_flat_is_said_of_planted_curves():
    values = planted({"interpolation": (0, 0.1, 0.2), "extrapolation": (0, 0, 0)}, n=300)
    first, of_interpolation, of_extrapolation, power = reported(values).sentences
    assert first.startswith("More training queries serve interpolation more than extrapolation")
    assert "from 25 to 100" in first and "still rises" in of_interpolation
    assert "flat from 25 training queries on" in of_extrapolation and "80 % power" in power
    values = planted({"interpolation": (0, 0, 0), "extrapolation": (-0.2, -0.1, 0)}, n=300)
    assert reported(values).sentences[0].startswith("More training queries serve extrapolation")
    values = planted({"interpolation": (-0.1, 0, 0), "extrapolation": (-0.1, 0, 0)}, n=300)
    first, of_interpolation, *_ = reported(values).sentences
    assert "interpolation and extrapolation alike" in first
    assert "flat from 50 training queries on" in of_interpolation
    values = planted({"interpolation": (0, 0, 0), "extrapolation": (0, 0, 0)}, n=12, spread=0.3)
    first, of_interpolation, *_ = reported(values).sentences
    assert first.startswith("It is undecided") and "not shown to be flat" in of_interpolation


def test_a_curve_that_rises_by_the_margin_is_seldom_called_flat():
    """Its true change to the largest size is 5 %: an interval within the margin misses it."""
    n_false = 0
    for seed in range(60):
        levels = {"interpolation": (0, 0.0, 0.025), "extrapolation": (0, 0, 0.025)}
        values = planted(levels, n=150, seed=seed, noise=0.01)
        values["value"] += 0.5 - values.loc[values["size"] == 50, "value"].mean()
        points = reported(values, n_boot=200).points
        for regime in REGIMES:
            n_false += module.flat_from(points[points["regime"] == regime], 0.05) is not None
    assert n_false <= 6  # of 120, of which 3 would be 5 % of the 60


def test_a_training_noise_that_was_seen_widens_what_is_said():
    levels = {"interpolation": (0, 0.1, 0.2), "extrapolation": (0, 0, 0)}
    width = {}
    for noise in (0.0, 0.1):
        points = reported(planted(levels, noise=noise)).points
        width[noise] = (points["high"] - points["low"]).mean()
    assert width[0.1] > 1.5 * width[0.0]


def test_of_few_queries_nothing_is_said():
    values = planted({"interpolation": (0, 0.1, 0.2), "extrapolation": (0, 0, 0)}, n=12)
    gate = ["q0", "q1", "q2"]
    (said,) = reported(values, gate=gate).sentences
    assert said.startswith("Nothing is said: 9 test queries")
    assert len(reported(values).sentences) == 4


def test_a_model_that_has_seen_the_queries_gets_no_answer():
    values = planted({"interpolation": (0, 0.1, 0.2), "extrapolation": (0, 0, 0)})
    of_given = values[["query_id", "measure"]].drop_duplicates().assign(value=0.3)
    of_given.loc[of_given.index[0], "value"] = 0.2
    seen = Seen(0.2, 0.1, 0.3, 0.0001, 0.1, 100, 100)
    found = reported(values, given=Given(of_given, seen))
    assert len(found.sentences) == 1 and VERDICT in found.sentences[0]
    assert found.systems["system"].tolist() == ["BM25", "model as given"]
    blank = reported(values, given=Given(of_given, seen._replace(p_value=0.5)))
    assert len(blank.sentences) == 5 and VERDICT not in blank.sentences[0]


def test_queries_of_one_unit_are_drawn_together_in_all_systems():
    values = planted({"interpolation": (0, 0.1, 0.2), "extrapolation": (0, 0, 0)})
    values["unit"] = values["query_id"].str[:2]  # q1 and q10 to q19, …
    of_given = values[["query_id", "measure"]].drop_duplicates().assign(value=0.3)
    of_given["value"] += np.linspace(0, 0.1, len(of_given))
    found = reported(values, given=Given(of_given, Seen(why_not="it is a test")))
    assert found.systems["n_queries"].eq(60).all()
    alone = reported(values.drop(columns="unit"))
    assert found.points["mean"].tolist() == pytest.approx(alone.points["mean"].tolist())
    assert not np.allclose(found.points["low"], alone.points["low"])


def write_runs(folder, out, quality):
    """Runs of all sets and three sizes, whose passage is first for a share of the queries."""
    out.mkdir()
    draw = np.random.default_rng(5)
    luck = dict(zip(folder.queries["query_id"], draw.random(len(folder.queries)), strict=True))
    for name in folder.sets:
        for size in (3, 6, 12):
            for seed in (1, 2):
                rows = []
                for query_id, number in luck.items():
                    score = 2.0 if number < quality(name, size, query_id) else 0.5
                    rows += [(query_id, f"p-{query_id}", score)]
                    if query_id != "sky-aurora-0":
                        rows += [(query_id, "p-sky-aurora-0", 1.0)]
                frame = pd.DataFrame(rows, columns=["query_id", "doc_id", "score"])
                RunFile.from_frame(frame).write_trec(out / f"{name}.{size}.{seed}.run")


@pytest.mark.parametrize("protocol", ["restrain", "shift"])
def test_curves_come_from_runs_and_a_planted_gain_is_of_its_regime(
    spec, store, tmp_path, protocol, capsys
):
    written(spec, store, protocol, "out", attribute="column:topic", size=12)
    folder = SplitFolder.open(Path("out"))

    def quality(name, size, query_id):
        is_out = name.startswith("extrapolation")
        if folder.strata is not None:
            is_out = name == f"without-{folder.strata[query_id]}"
        return 0.3 if is_out else {3: 0.3, 6: 0.7, 12: 0.95}[size]

    write_runs(folder, tmp_path / "runs", quality)
    runs = f"{tmp_path}/runs/{{part}}.{{size}}.{{seed}}.run"
    baseline = f"{tmp_path}/runs/{folder.sets[0]}.3.1.run"
    asked = ["curve", "--split", "out", "--runs", runs, "--baseline", baseline, "--n-boot", "400"]
    asked += ["--measures", "RR@10", "--out", "found"]
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    rows = {(row["regime"], row["size"]): row for row in told["curve"]}
    assert set(rows) == {(regime, size) for regime in REGIMES for size in (3, 6, 12)}
    assert rows["interpolation", 3]["to_largest"] > 0.1
    assert abs(rows["extrapolation", 3]["to_largest"]) < 0.05
    n_tested = len(folder.queries) - len(folder.gate_ids)
    assert {row["n_queries"] for row in told["curve"]} == {n_tested}
    names = ["curve.csv", "systems.csv", "values.csv", "curve.html"]
    assert [Path(name).name for name in told["files"]] == names
    assert pd.read_csv("found/curve.csv")["regime"].tolist() == [
        row["regime"] for row in told["curve"]
    ]
    page = Path("found/curve.html").read_text()
    assert "<svg" in page and "interpolation" in page
    assert main(asked) == 0 and "interpolation" in capsys.readouterr().out
    gone = tmp_path / "runs" / f"{folder.sets[0]}.6.2.run"
    gone.unlink()
    assert main(asked) == 2 and str(gone) in capsys.readouterr().err
    for wrong, part in (
        ("runs/{part}.{seed}.run", "write {size} once"),
        ("runs/{part}.3.{size}.run", "2 sizes"),
        ("none/{part}.{size}.run", "runs of 0 sizes"),
    ):
        asked[4] = f"{tmp_path}/{wrong}"
        expected = 0 if part == "2 sizes" else 2
        assert main(asked) == expected
        assert expected == 0 or part in capsys.readouterr().err


def test_a_training_function_gets_nested_queries_of_its_set(spec, tmp_path):
    asked = []

    class Counting:
        """The more queries trained it, the more of the test queries it answers."""

        def __init__(self, size):
            self.size = size

        def search(self, queries):
            found = {}
            for number, query_id in enumerate(sorted(queries)):
                is_right = number % 10 < self.size
                found[query_id] = {f"p-{query_id}": 1.0 if is_right else 0.1, "p-sky-aurora-0": 0.5}
            return found

    def train(folder, query_ids, seed):
        asked.append((folder.name, query_ids, seed))
        assert set(query_ids) <= set(load_from_disk(folder / "ids")["query_id"])
        return Counting(len(query_ids))

    options = {"size": 12, "measures": ["RR@10"], "n_boot": 400, "sizes": [3, 6, 12]}
    found = ix.curve(train, spec, out=tmp_path / "curve", seeds=[1], **options)
    by_size = {(name, len(ids)): ids for name, ids, _ in asked}
    assert len(asked) == 6
    for regime in REGIMES:
        name = f"{regime}-12"
        assert (
            by_size[name, 12][:6] == by_size[name, 6] and by_size[name, 6][:3] == by_size[name, 3]
        )
    means = found.points.set_index(["regime", "size"])["mean"]
    assert means["interpolation", 3] < means["interpolation", 6] < means["interpolation", 12]
    assert means["extrapolation"].tolist() == means["interpolation"].tolist()
    assert found.sentences[-1].startswith("The baseline is BM25 with k1 = ")
    assert (tmp_path / "curve" / "curve.html").is_file()


def test_a_curve_is_of_a_model_or_of_runs(capsys):
    for wrong in (["curve"], ["curve", "-m", "tiny-base", "--runs", "x"]):
        assert main(wrong) == 2 and "give either" in capsys.readouterr().err
    assert main(["curve", "-m", "tiny-base"]) == 2 and "--collection" in capsys.readouterr().err
    assert main(["curve", "--runs", "x"]) == 2 and "--split" in capsys.readouterr().err
