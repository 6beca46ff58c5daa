"""Training queries that an audit says to drop are in no training set, and nothing else changes."""

import json
import shlex
from pathlib import Path

import pandas as pd
import pytest
from datasets import load_from_disk

from interextra.cli import main
from interextra.data.queries import Queries, Source
from interextra.own.kept import dropped_of, without_dropped
from interextra.own.split_folder import SplitFolder
from interextra.own.splitting import DEFAULTS, split_of
from interextra.store import InputError

DROPPED = ["sky-comet-0", "stone-basalt-3", "plant-tulip-1"]


@pytest.fixture(autouse=True)
def without_bm25(monkeypatch):
    """An audit tells no power, which takes seconds."""
    monkeypatch.setattr("interextra.own.clean.find_spec", lambda name: None)


def drop_file(query_ids):
    path = Path("drop.txt")
    path.write_text("".join(f"{query_id}\n" for query_id in query_ids))
    return str(path)


def test_dropped_queries_are_in_no_set_and_the_folder_opens_again(spec, house, capsys):
    asked = ["split", "restrain", "--collection", spec, "--other-encoder", "tf-idf"]
    assert main([*asked, "--out", "folds", "--drop-train", drop_file(DROPPED)]) == 0
    assert "3 of 48 queries of the split 'train' are in no training set" in capsys.readouterr().err
    folder = SplitFolder.open(Path("folds"))
    assert set(folder.sets) == {"interpolation-22", "extrapolation-22"}  # halves of 45
    trained = {
        query_id
        for name in folder.sets
        for query_id in load_from_disk(f"folds/{name}/ids")["query_id"]
    }
    assert len(trained) == 44 and not trained & set(DROPPED)
    assert not set(DROPPED) & set(folder.nearest["train_query_id"])
    assert dropped_of(folder.split.pool) == tuple(sorted(DROPPED))
    sample = Path("folds/training.tsv").read_text().splitlines()
    assert len(sample) == 45
    # what is relevant to a dropped query alone is exposed: no set teaches it
    exposed = set(Path("folds/interpolation-22/exposed.txt").read_text().split())
    assert {f"p-{query_id}" for query_id in DROPPED} <= exposed


def test_an_empty_file_drops_nothing(spec, house):
    options = DEFAULTS | {"size": 12}
    plain = split_of("restrain", spec, options)
    assert split_of("restrain", spec, options | {"drop_train": drop_file([])}) == plain


def test_kept_queries_are_those_of_the_split_without_the_dropped(spec, house):
    whole = Queries(source=Source.of(spec), split="train")
    kept = without_dropped(whole, drop_file(DROPPED))
    expected = whole.frame()[~whole.frame()["query_id"].isin(DROPPED)].reset_index(drop=True)
    pd.testing.assert_frame_equal(kept.frame(), expected)
    assert kept.ids() == expected["query_id"].tolist() and kept.size() == 45
    assert kept.qrels()["query_id"].tolist() == kept.ids()
    few = kept.model_copy(update={"limit": 20, "seed": 3})
    assert set(few.ids()) == set(whole.model_copy(update={"limit": 20, "seed": 3}).ids()) - set(
        DROPPED
    )


def test_an_id_of_no_training_query_is_one_message(spec, house):
    path = drop_file([DROPPED[0], "nobody"])
    with pytest.raises(InputError, match="drop.txt, line 2: 1 ids are no queries .*'nobody'"):
        split_of("restrain", spec, DEFAULTS | {"drop_train": path})


def test_the_command_that_the_audit_prints_makes_a_clean_split(spec, house, capsys):
    """A training query is copied as a test query: the audit says so, and its command drops it."""
    folder = Path(spec.removeprefix("beir:"))
    copy = {
        "_id": "copied",
        "text": "which stone is granite number 1",
        "metadata": {"topic": "stone"},
    }
    with (folder / "queries.jsonl").open("a") as file:
        file.write(json.dumps(copy) + "\n")
    with (folder / "qrels" / "test.tsv").open("a") as file:
        file.write("copied\tp-sky-aurora-5\t1\n")
    assert main(["audit", "--train", f"{spec}@train", "--test", spec + "@test"]) == 0
    lines = capsys.readouterr().out.splitlines()
    [command] = [
        line for line in lines if line.startswith("Split without the training queries to drop: ")
    ]
    words = shlex.split(command.removeprefix("Split without the training queries to drop: "))
    assert words[0] == "interextra" and "audit/drop_train.txt" in words
    assert main([*words[1:], "--other-encoder", "tf-idf"]) == 0
    pool = SplitFolder.open(Path("folds")).split.pool
    assert dropped_of(pool) == ("stone-granite-1",)


def test_sides_of_two_collections_have_no_command(spec, tmp_path, capsys):
    (tmp_path / "test.tsv").write_text("t\twhich stone is granite number 1\n")
    assert main(["audit", "--train", f"{spec}@train", "--test", f"{tmp_path}/test.tsv"]) == 0
    out = capsys.readouterr().out
    assert "Decision: before training" in out and "Split without" not in out
