"""Cells of the study: what they need, in which order, and what they refuse."""

import json

import numpy as np
import pytest

from interextra.ground.errors import InputError
from interextra.models.recipe import load_recipe
from interextra.study import designs, jobs
from interextra.study.cells import Store, cell_key
from interextra.study.plan import describe
from interextra.study.pool import in_order

PARAMETERS = {
    "collection": "mini", "train_split": "train", "train_limit": 0, "test_splits": ["test"], "encoder": "trained",
    "encoder_splits": ["dev", "test"], "recipe": "mini-dense", "steps": 20, "bm25_recipe": "bm25", "sizes": [300, 900],
    "match": "exact", "controls": 1, "seeds": [1, 2], "depth": 50, "seed": 1, "real_msmarco": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("outputs") / "cells")


def lsa_split(**changes):
    return designs.restrain_split({**PARAMETERS, "encoder": "lsa", **changes})


def test_dependencies_come_first_and_once():
    order = list(in_order([row["config"] for row in designs.restrain(PARAMETERS)]).values())
    kinds = [config["kind"] for config in order]
    assert kinds[:3] == ["run", "vectors", "restrain"] and set(kinds[3:]) == {"run"}
    assert len({cell_key(config) for config in order}) == len(order)


def test_design_has_each_regime_size_seed_and_control():
    rows = designs.restrain(PARAMETERS)
    dense = [row for row in rows if row["model"] == "DR (base)"]
    assert sum(row["design"] == "regime" for row in dense) == 2 * 2 * 2
    # random sets at both sizes and matched parts of the largest sets at the smaller size, with the first seed
    assert sum(row["design"] != "regime" for row in dense) == 2 + 2
    assert {row["seed"] for row in rows if row["model"] == "BM25"} == {1}


def test_a_changed_seed_recipe_or_split_is_another_cell():
    base = {cell_key(row["config"]) for row in designs.restrain(PARAMETERS)}
    for change in ({"seed": 2}, {"steps": 21}, {"match": "as-released"}, {"depth": 51}):
        other = {cell_key(row["config"]) for row in designs.restrain({**PARAMETERS, **change})}
        assert not base & other, change


def test_other_weights_under_the_same_name_are_another_cell(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"one")
    keys = set()
    for content in (b"one", b"two"):
        (tmp_path / "model.safetensors").write_bytes(content)
        recipe = load_recipe("mini-dense", initialisation=str(tmp_path))
        keys.add(cell_key(jobs.run_config(recipe, jobs.pool("mini"), ["test"], 1)))
    assert len(keys) == 2


def test_a_recipe_is_stored_with_all_its_values():
    config = jobs.run_config(load_recipe("mini-dense"), jobs.pool("mini"), ["test"], 1)
    assert config["recipe"]["weight_decay"] == 0.01 and config["weights"]


def test_the_encoder_is_trained_once_for_all_notebooks():
    start = {**PARAMETERS, "test_splits": ["dev", "test"]}
    encoder = designs.query_vectors(PARAMETERS)["encoder"]
    assert encoder in [row["config"] for row in designs.start_here(start)]


def test_split_cell_holds_the_sets_of_the_library(store):
    from interextra.splits import restrain as method

    config = lsa_split()
    folder = jobs.build(store, config)
    train, test = jobs.read_vectors(store, config["vectors"])
    ids = np.array(jobs.pool_queries(config["pool"])["query_id"])
    made = method.restrain(method.neighbourhood(test, train), 300, match="exact")
    assert jobs.part_ids(folder, "interpolation-300") == ids[made.interpolation].tolist()
    assert jobs.part_ids(folder, "extrapolation-300") == ids[made.extrapolation].tolist()
    assert set(jobs.part_ids(folder, "interpolation-matched-300-0")) <= set(jobs.part_ids(folder, "interpolation-900"))
    with pytest.raises(InputError, match="has no set 'interpolation-1'"):
        jobs.part_ids(folder, "interpolation-1")


def test_empty_training_set_is_refused(tmp_path):
    (tmp_path / "sets.json").write_text(json.dumps({"interpolation-5": []}))
    with pytest.raises(InputError, match="training set 'interpolation-5' is empty"):
        jobs.part_ids(tmp_path, "interpolation-5")


def test_changed_collection_is_refused():
    queries = jobs.pool("mini")
    queries["collection"]["fingerprint"] = "0" * 64
    with pytest.raises(InputError, match="its content changed"):
        jobs.pool_queries(queries)


def test_unknown_test_split_is_refused_before_training(store):
    config = jobs.run_config(load_recipe("bm25"), jobs.pool("mini"), ["exam"], 1)
    with pytest.raises(InputError, match="no split 'exam'; it has train, dev, test"):
        jobs.build(store, config)
    assert not store.path(cell_key(config)).exists()


def test_limited_pool_is_a_fixed_random_part():
    one, same = (jobs.pool_queries(jobs.pool("mini", limit=50, seed=3))["query_id"].tolist() for _ in range(2))
    assert one == same and len(set(one)) == 50
    assert one != jobs.pool_queries(jobs.pool("mini", limit=50, seed=4))["query_id"].tolist()


def test_candidates_are_at_most_k_of_each_method(store):
    import pandas as pd

    config = jobs.candidates_config(lsa_split()["vectors"], k=3)
    pairs = pd.read_parquet(jobs.build(store, config) / "candidates.parquet")
    assert pairs.groupby("test_query_id").size().between(3, 6).all()
    assert (pairs["bm25_rank"] <= 3).all() and (pairs["embedding_rank"] <= 3).all()


def test_plan_says_what_is_done_and_what_it_needs(store):
    config = lsa_split()
    jobs.build(store, config)
    rows = {row["key"]: row for row in describe(store, [config])}
    assert {row["state"] for row in rows.values()} == {"done"} and len(rows) == 2
    assert rows[cell_key(config)]["needs"] == [cell_key(config["vectors"])]
    todo = describe(store, [row["config"] for row in designs.restrain(PARAMETERS)])
    assert all(row["seconds"] > 0 for row in todo) and any(row["state"] == "todo" for row in todo)
