"""Tables over several worlds: the world is the unit."""

import json

import pandas as pd
import pytest
from scipy import stats

from interextra.claims.judgement import pooled
from interextra.cli import main
from interextra.site.planning import planned
from interextra.site.worlds import SEEDS


def effects(loss, **more):
    table = {
        "n_train": [10, 20],
        "model": ["a", "a"],
        "loss": loss,
        "low": [0.0, 0.0],
        "high": [1.0, 1.0],
    }
    return pd.DataFrame(table | {"p_value": [0.5, 0.5], "n_queries": [7, 7]} | more)


def test_mean_and_interval_are_those_over_worlds():
    made = pooled([effects([0.1, 0.5]), effects([0.2, 0.5]), effects([0.6, 0.5])])
    assert list(made) == ["n_train", "model", "loss", "low", "high", "least", "most", "n"]
    theirs = stats.t.interval(0.95, 2, 0.3, stats.sem([0.1, 0.2, 0.6]))
    assert made.loc[0, ["low", "high"]].tolist() == pytest.approx(theirs) and made[
        "n"
    ].tolist() == [3, 3]
    assert (
        made.loc[1, "loss"] == 0.5 and made.loc[1, ["low", "high"]].isna().all()
    )  # alike in all worlds: no interval


def test_row_that_a_world_lacks_is_left_out_and_a_table_without_intervals_is_none():
    assert pooled([effects([0.1, 0.5]), effects([0.2, 0.5]).iloc[:1]])["n_train"].tolist() == [10]
    assert pooled([pd.DataFrame({"model": ["a"], "value": [1.5]})] * 2).empty


def test_counts_of_a_world_tell_no_rows_apart():
    some = [effects([0.1, 0.5], worse=[3, 4]), effects([0.2, 0.5], worse=[5, 4])]
    made = pooled(some)
    assert made[["n_train", "n"]].values.tolist() == [[10, 2], [20, 2]] and "worse" not in made
    alike = [frame.assign(n_train=[1, 1]) for frame in some]
    assert pooled(alike).empty  # nothing tells its rows apart


def test_profile_worlds_has_the_notebooks_with_a_file_each_in_every_world(root):
    cells = planned(root, "worlds", "09")
    assert [cell.name for cell in cells] == ["09_negative_exposure"]
    assert specs_of(cells[0].runs) == [f"mini:seed={seed}" for seed in SEEDS["worlds"]]


def specs_of(runs):
    """Return the collections of runs."""
    return [json.loads(run.parameters)["collection"] for run in runs]


def test_fresh_worlds_are_others(root):
    [cell] = planned(root, "fresh", "09")
    assert specs_of(cell.runs) == [f"mini:seed={seed}" for seed in SEEDS["fresh"]]
    assert not set(SEEDS["fresh"]) & {*SEEDS["worlds"], *range(1, 23), *range(901, 1000)}


def test_profile_worlds_is_priced(capsys):
    assert main(["plan", "--profile", "worlds", "--only", "03", "--json"]) == 0
    [notebook] = json.loads(capsys.readouterr().out)["notebooks"]
    titles = [cell["what"] for cell in notebook["cells"]]
    assert sum("ReSTTest" in title or "buckets" in title for title in titles) >= 14
    assert "notebook 03_resttest over 14 worlds" in titles
