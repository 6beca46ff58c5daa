"""Cells of a shift and the tables made from them, on the generated world with BM25 and barely trained models."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from toy_models import animals

from interextra.data.medquad import with_truth
from interextra.ground.errors import InputError
from interextra.ground import statistics
from interextra.models import colbert, dense, load_recipe, splade
from interextra.models.vectors import encoder
from interextra.splits import attributes
from interextra.splits.topics import topics
from interextra.study import designs, jobs, shifts
from interextra.study.cells import Store, cell_key
from interextra.study.plan import what

P = {
    "collection": "mini:n_train=600", "train_split": "train", "shifts": ["wh-words/how/who", "topics"], "control": "",
    "n_topics": 2, "native_clusters": 10, "topic_size": 100, "topic_encoder": "lsa", "normalise": False,
    "topic_switches": ["exact", "native", "nearest", "reach"], "n_test": 15, "train_size": 0, "steps": 2,
    "recipes": ["bm25", "mini-reranker", "mini-colbert", "mini-splade", "mini-dense"], "variants": [], "seeds": [1],
    "neighbours": 5, "depth": 20, "seed": 1, "real_encoder": "",
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("outputs") / "cells")


@pytest.fixture(scope="module")
def made(store):
    """Grids of BM25 and the dense retriever under both shifts, with the cells behind them."""
    design = [row for row in designs.ms_shift(P) if row["model"] in ("BM25", "DR (base)")]
    folders = [jobs.build(store, row["config"]) for row in design]
    splits = designs.shift_splits(P)
    return design, folders, splits, shifts.grids(store, design, folders, splits, ["RR@10", "ASL@100"])


def test_every_system_is_trained_without_every_cluster():
    rows = designs.ms_shift(P)
    expected = set(itertools.product(["wh-words"], designs.FIVE, ["how", "who"]))
    expected |= set(itertools.product(["topics"], designs.FIVE, ["C0", "C1"]))
    assert {(row["shift"], row["model"], row["left_out"]) for row in rows} == expected and len(rows) == len(expected)
    assert len({cell_key(row["config"]) for row in rows}) == len(rows)


def test_control_and_variants_add_only_their_own_cells():
    variant = "wh-words | DR (base), pairwise | mini-dense{loss: pairwise}"
    rows = designs.ms_shift({**P, "control": "random:parts=3", "variants": [variant]})
    more = rows[len(designs.ms_shift(P)) :]
    assert [(row["shift"], row["model"]) for row in more[:3]] == [("random", "DR (base)")] * 3
    assert {row["left_out"] for row in more[:3]} == {"part 1", "part 2", "part 3"}
    assert [row["config"]["recipe"]["loss"] for row in more[3:]] == ["pairwise", "pairwise"]
    assert {row["model"] for row in more[3:]} == {"DR (base), pairwise"}
    with pytest.raises(InputError, match="shifts are wh-words, topics"):
        designs.ms_shift({**P, "variants": ["length | x | mini-dense"]})
    with pytest.raises(InputError, match=r"write SHIFT \| MODEL \| RECIPE"):
        designs.ms_shift({**P, "variants": ["topics | x"]})


def test_runs_are_measured_on_the_held_out_queries_of_all_clusters(store, made):
    design, folders, splits, _ = made
    collection = jobs.open_spec(P["collection"])
    for row, folder in zip(design, folders, strict=True):
        asked = jobs.part_ids(jobs.build(store, splits[row["shift"]]), "held-out")
        values = pd.read_parquet(folder / "per_query.held-out.parquet")
        assert set(values.index) == set(asked) and len(values) == 30
        assert (folder / "nearness.parquet").is_file() == (row["model"] == "DR (base)")
    name, queries, qrels = jobs.test_set(store, collection, jobs.part(splits["topics"], "held-out"))
    assert name == "held-out" and set(qrels["query_id"]) == set(queries["query_id"])
    with pytest.raises(InputError, match="no split 'exam'"):
        jobs.test_set(store, collection, "exam")


def test_tables_say_what_the_cells_hold(store, made):
    design, folders, splits, grids = made
    matrix, losses = shifts.matrix_table(grids), shifts.loss_table(grids, seed=1, n_boot=200)
    assert matrix.columns.tolist() == ["shift", "model", "left_out", "test_cluster", "measure", "value", "n_queries"]
    assert losses.columns.tolist() == [
        "shift", "model", "cluster", "measure", "avg_in", "out", "rel_loss", "low", "high", "p_value", "p_holm",
    ]  # fmt: skip
    for row, folder in zip(design, folders, strict=True):
        cluster = shifts.held_out(store, splits[row["shift"]]).set_index("query_id")["cluster"]
        values = pd.read_parquet(folder / "per_query.held-out.parquet")["RR@10"]
        expected = values.groupby(cluster).mean()
        mine = matrix[(matrix["shift"] == row["shift"]) & (matrix["model"] == row["model"])]
        mine = mine[(mine["left_out"] == row["left_out"]) & (mine["measure"] == "RR@10")]
        assert dict(zip(mine["test_cluster"], mine["value"], strict=True)) == pytest.approx(expected.to_dict())
    for _, part in losses.groupby("measure"):
        assert np.allclose(part["p_holm"], statistics.holm(part["p_value"]))
    means = shifts.mean_table(grids, "RR@10", 1, 200).set_index(["shift", "model"])
    for key, part in losses[losses["measure"] == "RR@10"].groupby(["shift", "model"]):
        assert means.loc[key, "rel_loss"] == pytest.approx(part["rel_loss"].mean())
    counted = shifts.exception_table(grids)
    assert counted["n_comparisons"].tolist() == [2] * len(counted) and counted["n_exceptions"].between(0, 2).all()


def test_gap_of_a_system_with_itself_is_nothing(made):
    found = shifts.gaps(made[3], "topics", "RR@10", [("BM25", "BM25"), ("DR (base)", "BM25")], 1, 200)
    assert found.loc[0, ["difference", "low", "high"]].tolist() == [0, 0, 0]
    assert found.loc[1, "low"] < found.loc[1, "difference"] < found.loc[1, "high"]


def test_cluster_table_counts_and_describes(store):
    splits = designs.shift_splits(P)
    vectors = jobs.read_vectors(store, splits["topics"]["topics"]["vectors"])[0]
    table, typical = shifts.clusters_table(store, splits, vectors)
    assert table.columns.tolist()[:5] == ["shift", "cluster", "n_queries", "n_train", "n_test"]
    how = table[table["cluster"] == "how"].iloc[0]
    assert "how" in how["words"].split() and how["n_test"] == 15
    assert typical["typical"].str.count(r" \| ").eq(2).all()


def test_rules_agree_with_the_openings_that_the_world_knows():
    table = shifts.opening_agreement(jobs.open_spec("mini").queries("train"))
    assert (table["n_released"] == table["n_agree"] + table["n_differ"]).all()
    words = table[table["rule"] == "whole words"].set_index("cluster")
    assert (words.loc[["how", "who"], "n_agree"] > 0.9 * words.loc[["how", "who"], "n_released"]).all()


def test_unchanged_switches_give_the_same_topics():
    vectors = np.random.default_rng(0).normal(size=(300, 4))
    options = {"n_topics": 3, "k": 12, "target": 60, "seed": 1}
    table = shifts.switch_table(vectors, options, {"none": {}, "seed": {"seed": 5}}).set_index("change")
    assert table.loc["none", ["share_kept", "ari", "share_matched"]].tolist() == [1, 1, 1]
    assert table.loc["seed", "ari"] < 1


def test_plan_names_shift_cells():
    split = designs.shift_splits(P)["wh-words"]
    config = designs.ms_shift(P)[0]["config"]
    assert what(split) == "shift · mini:n_train=600 · wh-words · seed 1"
    assert "without-how → held-out" in what(config)


@pytest.mark.parametrize("module", [dense, splade, colbert])
def test_query_similarities_are_the_models_own_scores_in_blocks(module, tmp_path):
    name = module.__name__.rsplit(".", 1)[-1]
    recipe = load_recipe(f"mini-{name}", steps=0)
    model = {dense: dense.Dense, splade: splade.Splade, colbert: colbert.ColBERT}[module](
        module.build(recipe, 1), recipe
    )
    texts = [query for query in animals(tmp_path).queries("train")["text"][:11]]
    model.query_block = 3
    blocks = list(model.query_similarities(texts[:7], texts[4:]))
    assert [block.shape for block in blocks] == [(3, 7), (3, 7), (1, 7)]
    found = np.concatenate(blocks)
    if module is colbert:
        block = model.encode_query_block
        pairs = [[float(colbert.maxsim(block([a]), block([b]))[0, 0]) for b in texts[4:]] for a in texts[:7]]
    else:
        left, right = model.encode_queries(texts[:7]), model.encode_queries(texts[4:])
        pairs = left @ right.T if module is dense else (left @ right.T).toarray()
    np.testing.assert_allclose(found, pairs, rtol=2e-4, atol=2e-4)


def test_untuned_cls_encoder_is_the_first_token_of_the_transformer():
    import torch

    made = encoder("cls:tiny-base")
    vectors = made.encode_queries(["what is it", "where is the moon"])
    words = made.model[0]
    coded = words.tokenizer(["what is it", "where is the moon"], padding=True, return_tensors="pt")
    with torch.no_grad():
        states = words.model(**coded).last_hidden_state[:, 0]
    np.testing.assert_allclose(vectors, states.numpy(), atol=1e-5)
