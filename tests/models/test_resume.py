"""A training that is killed with signal 9 goes on from its checkpoint, to the bytes that it would
have had; other code's, other settings' and half written checkpoints are not used.
"""

import itertools
import json
import multiprocessing
import os
import shutil
import signal
from contextlib import redirect_stderr

import pytest

from interextra.data.queries import Queries, Source
from interextra.models.base import BASE
from interextra.models.model import Model, Pretrained
from interextra.models.planning import model_of
from interextra.models.recipe import Pretraining, load_recipe
from interextra.models.training.checkpoints import MADE_BY, VARIABLE, Checkpoints, minutes
from interextra.store import InputError, Store
from interextra.store.files import seal, sha256

SPEC = "mini:n_train=120,n_dev=30,seed=5"
STEPS = 103  # the loss is noted every second one
QUICK = {"steps": STEPS, "batch_size": 4, "n_negatives": 1, "warmup_steps": 4, "passage_length": 16}
SHORT = {"steps": 7, "batch_size": 4, "warmup_steps": 2}
FORKS = multiprocessing.get_context("forkserver")  # a fresh process that has torch, and no JVM
FORKS.set_forkserver_preload(["interextra.models.training.trainer", "torch"])


def compute(cache, root, cell, due=(), killed_after=None, killed_in=None):
    """Build a cell; a checkpoint is due after some steps of this process.

    It kills itself after a step, or when a checkpoint of this number is written but not sealed.
    """
    os.environ["INTEREXTRA_CACHE"] = str(cache)
    steps, finished = itertools.count(1), itertools.count(1)
    finish = Checkpoints.finish

    def is_due(self):
        step = next(steps)
        if step == killed_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return step in due

    def finish_or_die(self, path):
        if next(finished) == killed_in:
            os.kill(os.getpid(), signal.SIGKILL)
        finish(self, path)

    Checkpoints.is_due, Checkpoints.finish = is_due, finish_or_die
    with open(cache.with_name("said.txt"), "w", buffering=1) as said, redirect_stderr(said):
        Store(root).build(cell)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.getbasetemp() / "cache"


@pytest.fixture
def run(cache):
    """Build in a process of its own; how it ended, and what it said."""

    def run(root, cell, **fate):
        process = FORKS.Process(target=compute, args=(cache, root, cell), kwargs=fate)
        process.start()
        process.join()
        return process.exitcode, cache.with_name("said.txt").read_text()

    return run


@pytest.fixture(scope="module")
def train(cache):
    os.environ["INTEREXTRA_CACHE"] = str(cache)
    return Queries(source=Source.of(SPEC), split="train").trainable()


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory):
    """The tiny base with dropout, whose random numbers must go on, too."""
    folder = tmp_path_factory.mktemp("start") / "base"
    shutil.copytree(BASE, folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2}
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def files_of(store, cell):
    """The bytes of a result; when it was made and how long it took are none of them."""
    folder = store[cell]
    files = [path for path in folder.rglob("*") if path.is_file()]
    kept = [path for path in files if path.name not in ("provenance.json", "seal.json")]
    return {path.relative_to(folder).as_posix(): sha256(path) for path in kept}


@pytest.fixture(scope="module")
def dense(train, forgetful):
    return model_of(load_recipe("mini-dense", **QUICK, initialisation=forgetful), train, 1)


@pytest.fixture(scope="module")
def whole(cache, dense, tmp_path_factory):
    root = tmp_path_factory.mktemp("whole")
    process = FORKS.Process(target=compute, args=(cache, root, dense))
    process.start()
    process.join()
    store = Store(root)
    assert not store.checkpoints(dense).parent.exists()  # a short training writes none
    return files_of(store, dense)


EPOCH = 30  # steps, of 120 pairs
KILLS = {
    "before the first checkpoint": {"killed_after": 5},
    "in an epoch, between two notes of the loss": {"due": [17], "killed_after": 20},
    "at the end of an epoch": {"due": [2 * EPOCH], "killed_after": 2 * EPOCH + 1},
    "while a checkpoint is written": {"due": [19, 35], "killed_in": 2},
    "after the last step": {"due": [30, 100], "killed_after": STEPS},
}


@pytest.mark.parametrize("kill", KILLS)
def test_a_killed_training_goes_on_to_the_same_bytes(dense, whole, run, tmp_path, kill):
    store = Store(tmp_path)
    exit_code, _ = run(tmp_path, dense, **KILLS[kill])
    assert exit_code == -signal.SIGKILL and not store.valid(dense)
    due = KILLS[kill].get("due", [])
    last = due[0] if "killed_in" in KILLS[kill] else max(due, default=None)
    exit_code, said = run(tmp_path, dense)
    assert exit_code == 0
    assert ("goes on" in said) == bool(due) and (not due or f"goes on after step {last}\n" in said)
    assert files_of(store, dense) == whole
    assert not store.checkpoints(dense).exists()


def test_a_training_that_is_killed_twice_goes_on_to_the_same_bytes(dense, whole, run, tmp_path):
    run(tmp_path, dense, due=[10], killed_after=12)
    _, said = run(tmp_path, dense, due=[25, 40], killed_after=44)
    assert "goes on after step 10\n" in said
    assert [path.name for path in Store(tmp_path).checkpoints(dense).iterdir()] == ["checkpoint-50"]
    _, said = run(tmp_path, dense)
    assert "goes on after step 50\n" in said and files_of(Store(tmp_path), dense) == whole


def test_a_checkpoint_holds_no_pickled_code(dense, run, tmp_path):
    import torch

    run(tmp_path, dense, due=[3], killed_after=4)
    [folder] = Store(tmp_path).checkpoints(dense).iterdir()
    names = {path.name for path in folder.iterdir()}
    assert "model.safetensors" in names and "training_args.bin" not in names
    assert names - {"rng_state.pth"} == {
        *("model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json"),
        *("counts_0.json", "made_by.json", "seal.json"),
    }
    for name in ("optimizer.pt", "scheduler.pt"):  # as the library reads them
        torch.load(folder / name, weights_only=True)


OTHERS = {
    "colbert": ("mini-colbert", {"n_negatives": 2}),
    "splade": ("mini-splade", {"n_negatives": 2}),
    "reranker": ("mini-reranker", {"rerank_depth": 5}),
    "compressed": ("mini-compressed", {"after": "mini-dense{steps: 2}", "n_negatives": 2}),
    "dynamic negatives": ("mini-adore", {"after": "mini-dense{steps: 2}", "negative_depth": 5}),
    "topics": (
        "mini-tas-b",
        {
            "teacher": "mini-colbert{steps: 2}",
            "pair_teacher": "mini-reranker{steps: 2}",
            "negative_depth": 5,
            "clusters": 4,
        },
    ),
}


def cell_of(name, train) -> Model | Pretrained:
    """A short training of each other kind."""
    if name in OTHERS:
        recipe, options = OTHERS[name]
        return model_of(load_recipe(recipe, **SHORT, **options), train, 1)
    how = Pretraining(objective=name, corpus=(SPEC,), steps=7, batch_size=8, length=24)
    return Pretrained.of(how, "tiny-base", 1)


@pytest.mark.parametrize("name", [*OTHERS, "order", "spans"])
def test_every_other_training_goes_on_to_the_same_bytes(train, run, tmp_path, name):
    cell, whole, killed = cell_of(name, train), tmp_path / "whole", tmp_path / "killed"
    assert run(whole, cell)[0] == 0
    shutil.copytree(whole, killed)  # what it needs is there
    shutil.rmtree(killed / cell.key)
    assert run(killed, cell, due=[3], killed_after=5)[0] == -signal.SIGKILL
    exit_code, said = run(killed, cell)
    assert exit_code == 0 and "goes on after step 3\n" in said
    assert files_of(Store(killed), cell) == files_of(Store(whole), cell)


def checkpoint(folder, step, made_by):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "weights").write_text("w")
    Checkpoints(folder, made_by).finish(path)
    return path


def test_checkpoints_of_other_code_or_settings_are_named_and_removed(tmp_path, capsys):
    made_by = {"key": "k", "code": {"k": "1"}, "processes": 1}
    for other in (made_by | {"code": {"k": "2"}}, made_by | {"processes": 2}):
        path = checkpoint(tmp_path, 7, other)
        assert Checkpoints(tmp_path, made_by).newest() is None and not path.exists()
        said = capsys.readouterr().err
        assert str(path) in said and "other code or settings: removed" in said
    path = checkpoint(tmp_path, 7, made_by)
    assert Checkpoints(tmp_path, made_by).newest() == path
    assert json.loads((path / MADE_BY).read_text()) == made_by


def test_a_checkpoint_that_is_damaged_or_not_complete_is_not_used(tmp_path, capsys):
    older = checkpoint(tmp_path, 9, {})
    for step in (10, 11):
        shutil.copytree(older, tmp_path / f"checkpoint-{step}")
    (tmp_path / "checkpoint-10" / "weights").write_text("other")
    (tmp_path / "checkpoint-11" / "seal.json").unlink()
    assert Checkpoints(tmp_path, {}).newest() == older and list(tmp_path.iterdir()) == [older]
    assert "goes on after step 9\n" in capsys.readouterr().err


def test_minutes_are_those_of_the_environment_and_in_no_key(monkeypatch, dense):
    assert minutes() == 15
    key, code = dense.key, dense.code
    monkeypatch.setenv(VARIABLE, "0.5")
    again = dense.model_copy()
    assert minutes() == 0.5 and (again.key, again.code) == (key, code)
    for wrong in ("soon", "-1", "nan"):
        monkeypatch.setenv(VARIABLE, wrong)
        with pytest.raises(InputError, match=VARIABLE):
            minutes()


def test_clean_leaves_the_checkpoints_of_what_is_planned(tmp_path, dense):
    store = Store(tmp_path)
    store.plan(dense)
    for key in (dense.key, "0" * 20):
        folder = tmp_path / "checkpoints" / key / "checkpoint-3"
        folder.mkdir(parents=True)
        (folder / "weights").write_text("w")
        seal(folder)
    assert store.clean().n_bytes > 0
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [dense.key]
