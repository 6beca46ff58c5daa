"""Tables over several worlds: the world is the unit, and a finding needs all of them."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from interextra.study.cli import main
from interextra.study.worlds import SEEDS, planned, pooled


def effects(loss, **more):
    table = {"n_train": [10, 20], "model": ["a", "a"], "loss": loss, "low": [0.0, 0.0], "high": [1.0, 1.0]}
    return pd.DataFrame(table | {"p_value": [0.5, 0.5], "n_queries": [7, 7]} | more)


def test_mean_and_interval_are_those_over_worlds():
    made = pooled([effects([0.1, 0.5]), effects([0.2, 0.5]), effects([0.6, 0.5])])
    assert list(made) == ["n_train", "model", "loss", "low", "high", "least", "most", "n"]
    theirs = stats.t.interval(0.95, 2, 0.3, stats.sem([0.1, 0.2, 0.6]))
    assert made.loc[0, ["low", "high"]].tolist() == pytest.approx(theirs) and made["n"].tolist() == [3, 3]
    assert made.loc[1, ["loss", "low", "high"]].tolist() == pytest.approx([0.5] * 3)


def test_row_that_a_world_lacks_is_left_out_and_a_table_without_intervals_is_none():
    assert pooled([effects([0.1, 0.5]), effects([0.2, 0.5]).iloc[:1]])["n_train"].tolist() == [10]
    assert pooled([pd.DataFrame({"model": ["a"], "value": [1.5]})] * 2).empty


def test_counts_of_a_world_tell_no_rows_apart_and_a_system_must_pass_in_each_of_them():
    some = [effects([0.1, 0.5], worse=[3, 4], comparable=[True, True]), effects([0.2, 0.5], worse=[5, 4])]
    made = pooled([some[0], some[1].assign(comparable=[False, True])])
    assert made[["n_train", "n"]].values.tolist() == [[10, 2], [20, 2]] and "worse" not in made
    assert made["comparable"].tolist() == [False, True]
    alike = [frame.assign(n_train=[1, 1]) for frame in some]
    assert pooled(alike).empty  # nothing tells its rows apart


def found(*estimates, verdict="holds"):
    row = {
        "finding": "a loss",
        "low": -1.0,
        "high": 1.0,
        "kind": "below",
        "margin": 0.0,
        "effects": 1,
        "n_queries": 9,
        "n_trainings": 1,
    }
    return [pd.DataFrame([row | {"estimate": estimate, "verdict": verdict}]) for estimate in estimates]


def ordered(frames):
    names = ["finding", "estimate", "low", "high", "verdict", "kind", "margin", "effects", "n_queries", "n_trainings"]
    return [frame[names] for frame in frames]


def test_verdict_of_worlds_comes_from_their_interval_not_from_theirs():
    alike, spread = pooled(ordered(found(-0.3, -0.32, -0.28))), pooled(ordered(found(-0.9, 0.1, -0.1)))
    assert alike["verdict"].tolist() == ["holds"] and spread["verdict"].tolist() == ["not shown"]
    assert alike["n_trainings"].tolist() == [3] and alike["n_queries"].tolist() == [9]


def test_one_closed_gate_closes_it():
    closed = [*found(-0.3, -0.32), *found(-0.28, verdict="not comparable")]
    assert pooled(ordered(closed))["verdict"].tolist() == ["not comparable"]


def test_of_several_effects_the_worst_of_each_world_can_show_a_finding_and_not_contradict_it():
    shown, against = (
        [frame.assign(effects=[2, 2, 3][at]) for at, frame in enumerate(ordered(found(*estimates)))]
        for estimates in ((-0.3, -0.32, -0.28), (0.3, 0.32, 0.28))
    )
    assert pooled(ordered(found(0.3, 0.32, 0.28)))["verdict"].tolist() == ["contradicted"]
    assert pooled(shown)["verdict"].tolist() == ["holds"] and pooled(against)["verdict"].tolist() == ["not shown"]


def test_intervals_of_several_findings_hold_together():
    many = [
        pd.concat([frame, *(frame.assign(finding=f"finding {at}") for at in range(9))])
        for frame in ordered(found(-0.3, -0.2, -0.5))
    ]
    one, all_of_them = pooled(ordered(found(-0.3, -0.2, -0.5))), pooled(many)
    assert np.ptp(all_of_them.loc[0, ["low", "high"]]) > 2 * np.ptp(one.loc[0, ["low", "high"]])


def test_profile_worlds_has_the_notebooks_with_a_file_each_in_every_world(root):
    cells = planned(root, "worlds", "09")
    assert [cell.name for cell in cells] == ["09_negative_exposure"] and len(cells[0].runs) == len(SEEDS)
    specs = {run.parameters.split('"collection": "')[1].split('"')[0] for run in cells[0].runs}
    assert specs == {f"mini:seed={seed}" for seed in SEEDS}


def test_profile_worlds_is_priced(capsys):
    assert main(["plan", "--profile", "worlds", "--only", "03", "--json"]) == 0
    [notebook] = json.loads(capsys.readouterr().out)
    titles = [cell["what"] for cell in notebook["cells"]]
    assert sum("ReSTTest" in title or "buckets" in title for title in titles) >= len(SEEDS)
    assert f"notebook 03_resttest over {len(SEEDS)} worlds" in titles
