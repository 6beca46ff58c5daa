"""What `probe` promises: measured on this machine, whatever the folder of a model is called."""

import itertools
import json
import os
import shutil
import time
from pathlib import Path

import pandas as pd
import pytest
import torch
from toy_json import check

from interextra.cli import main
from interextra.data.queries import Queries, Source
from interextra.models.base import BASE
from interextra.models.model import fit
from interextra.models.recipe import load_recipe
from interextra.models.training import watch
from interextra.own import commands, cost, speeds
from interextra.own.cost import Prices, Speed, side_by_side
from interextra.own.fine_tuning import OwnTraining
from interextra.own.splitting import DEFAULTS, gate_of, split_of
from interextra.own.steps import Elapsed
from interextra.store import InputError
from interextra.store.workers import WorkerLostError

SPEED = Speed(
    imports=5.0,
    prepared=2.0,
    step=0.5,
    opened=1.0,
    passage=0.01,
    query=0.001,
    pair=1e-6,
    reranked=0.0,
    pace=cost.PACE,
    loss=1.0,
    n_steps=3.0,
)


def own_training(spec, store, recipe="mini-dense{steps: 10}", seeds=(1, 2)):
    options = DEFAULTS | {"size": 12}
    split = split_of("restrain", spec, options)
    return OwnTraining(
        load_recipe(recipe), split, gate_of(options, split.pool.source), seeds, store
    )


def test_stages_are_priced_as_by_hand(spec, store, monkeypatch):
    """Two sets, two seeds: four trainings and five searches in 72 passages, on two workers."""
    monkeypatch.setattr(cost, "n_workers", lambda n_jobs: min(2, n_jobs))
    training = own_training(spec, store)
    table = Prices(SPEED, training, Path("out")).stages.set_index("stage")
    assert table.loc[cost.START, "seconds"] == 5 and table.loc[cost.START, "times"] == 2
    assert table.loc[cost.TRAINING, "times"] == 5  # one of them only saves the model as it comes
    assert table.loc[cost.TRAINING, "seconds each"] == pytest.approx((4 * (2 + 5) + 2) / 5)
    assert table.loc[cost.ENCODING, "seconds each"] == pytest.approx(1 + 72 * 0.01)
    stages = table.drop(index="in all")["seconds"]
    assert table.loc["in all", "seconds"] == pytest.approx(stages.sum())
    alone = table.loc[[cost.SPLITTING, cost.LEXICAL, cost.REPORTING, cost.START], "seconds"].sum()
    n_searched = training.given.n_queries()
    search = 1.72 + n_searched * (0.001 + 72e-6 + 1000 * cost.WRITTEN_ROW)
    jobs = [7 + search] * 4 + [2 + search]
    assert stages.sum() - alone == pytest.approx(side_by_side(jobs), rel=0.02)


def test_encoders_that_read_the_queries_of_a_split_are_in_the_sum(spec, store, monkeypatch):
    """TF-IDF divides 48 training and 24 test queries, MiniLM describes the split; of a shift both
    describe it.
    """
    read = []

    def seconds_of(encoder, texts):
        read.append((encoder, len(texts)))
        return 100.0

    monkeypatch.setattr(cost, "seconds_of", seconds_of)
    options = DEFAULTS | {"encoder": "tf-idf", "other_encoder": "minilm"}
    training = own_training(spec, store)
    prices = Prices(SPEED, training, Path("out"), 0.0, options)
    assert read == [("tf-idf", 72), ("minilm", 96)]
    table = prices.stages.set_index("stage")
    assert table.loc[cost.SPLITTING, "seconds"] == cost.IMPORTED + 200
    without = Prices(SPEED._replace(pace=2 * cost.PACE), training, Path("out"), 0.0, options)
    table = without.stages.set_index("stage")
    assert table.loc[cost.SPLITTING, "seconds"] == 2 * cost.IMPORTED + 200
    store.build(training.split)
    read.clear()
    Prices(SPEED, training, Path("out"), 0.0, options)
    assert read == [("minilm", 96)]
    read.clear()
    options |= {"attribute": "column:topic", "size": 12}
    shift = split_of("shift", spec, options)
    gate = gate_of(options, shift.pool.source)
    moved = OwnTraining(load_recipe("mini-dense{steps: 10}"), shift, gate, (1,), store)
    Prices(SPEED, moved, Path("out"), 0.0, options)
    assert read == [("minilm", 96), ("tf-idf", 96)]


def test_what_an_option_saves_is_told_as_by_hand(spec, store, monkeypatch):
    """Of four trainings with ten steps of half a second, and four searches of them."""
    monkeypatch.setattr(cost, "n_workers", lambda n_jobs: min(2, n_jobs))
    training = own_training(spec, store)
    prices = Prices(SPEED, training, Path("out"))
    runs = training.planned_runs()
    trained = sum(prices.of(run) + prices.of(run.model) for run in runs)
    percents = [50 * trained / prices.core_seconds, 100 * 10 / prices.core_seconds]
    seeds, steps = (f"{percent:.0f} %" for percent in percents)
    assert prices.cheaper().startswith(f"To save core seconds: {seeds} by --seeds 1, {steps} by ")
    assert f"{steps} by --epochs 40, 15 % by --passage-length 28 at most, " in prices.cheaper()
    by_epochs = own_training(spec, store, "mini-dense{epochs: 2, batch_size: 4}", seeds=(3,))
    told = Prices(SPEED, by_epochs, Path("out")).cheaper()
    assert " by --epochs 1 or --size 6, " in told and "--seeds" not in told


@pytest.mark.parametrize(("load", "is_told"), [(0.2, False), (1.4, True)])
def test_cores_that_others_took_are_told_with_the_promise(spec, store, monkeypatch, load, is_told):
    monkeypatch.setattr(cost, "n_workers", lambda n_jobs: min(2, n_jobs))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    told = str(Prices(SPEED, own_training(spec, store), Path("out"), load)).splitlines()[0]
    assert "on this machine when it is otherwise idle" in told
    assert (f"; other processes took about {load} of its 2 cores at the start" in told) == is_told


def test_what_is_there_costs_nothing(spec, store):
    training = own_training(spec, store, "mini-dense{steps: 1, batch_size: 4}", seeds=(1,))
    (house := Path("out") / "split").mkdir(parents=True)
    for cell in [training.lexical, training.given, *training.planned_runs()]:
        store.build(cell)
    table = Prices(SPEED, training, house.parent).stages
    assert table["stage"].tolist() == [cost.REPORTING, cost.IN_ALL]


@pytest.mark.parametrize("n_workers", [1, 2, 3])
@pytest.mark.parametrize("jobs", [[4.0], [3.0, 1.0, 2.0], [1.0, 1.0, 5.0, 2.0, 2.0]])
def test_jobs_go_to_the_first_free_worker(monkeypatch, jobs, n_workers):
    monkeypatch.setattr(cost, "n_workers", lambda n_jobs: min(n_workers, n_jobs))
    free_at = {worker: 0.0 for worker in range(n_workers)}
    for job in jobs:
        first = min(free_at, key=free_at.get)
        free_at[first] += job
    assert side_by_side(jobs) == max(free_at.values())


@pytest.fixture
def quick(monkeypatch):
    """Measure for a fraction of a second, in one process."""
    monkeypatch.setattr(cost, "BUDGET", 0.2)
    for module in ("own.cost", "store.schedule"):
        monkeypatch.setattr(f"interextra.{module}.n_workers", lambda n_cells: 1)


def test_a_folder_of_any_name_is_measured(spec, store, quick, tmp_path):
    folder = shutil.copytree(BASE, tmp_path / "bert-base-of-ours")
    (folder / "recipe.json").unlink()
    recipe = f"mini-dense{{steps: 10, initialisation: {folder}}}"
    speed = cost.measure(own_training(spec, store, recipe))
    assert 0 < speed.step < 1 and 0 < speed.passage < 0.05 and speed.n_steps >= 2
    assert speed.imports > 0


def test_what_cannot_be_measured_is_said(spec, store):
    with pytest.raises(InputError, match="trains other models first"):
        cost.measure(own_training(spec, store, "mini-star"))


def test_a_step_for_which_memory_does_not_suffice_is_one_message(spec, store, monkeypatch):
    def killed(*arguments):
        raise WorkerLostError("speed of process 1: killed")

    monkeypatch.setattr(cost, "build_all", killed)
    with pytest.raises(InputError, match="killed.* give a lower --batch-size"):
        cost.measure(own_training(spec, store))


def test_the_command_prints_stages_and_stops(spec, quick, root, capsys):
    asked = ["probe", "-m", "tiny-base", "--recipe", "mini-dense{steps: 2}", "--collection", spec]
    assert main([*asked, "--seeds", "1", "--size", "12", "--check"]) == 0
    out, error = capsys.readouterr()
    assert "2 training sets, 1 trainings of each" in error
    for stage in (cost.SPLITTING, cost.LEXICAL, cost.TRAINING, cost.ENCODING, cost.SEARCH):
        assert stage in out
    *table, advice, taken = out.splitlines()
    assert taken.startswith("This check took ")
    assert not Path("probe").exists() and "in all" in table[-1]
    assert advice.startswith("To save core seconds: ") and "a smaller model" in advice
    assert "on this machine when it is otherwise idle" in out
    assert main([*asked, "--seeds", "1", "--size", "12", "--check", "--json"]) == 0
    found = check(capsys.readouterr().out, root)
    assert found["seconds"] == pytest.approx(sum(row["seconds"] for row in found["stages"][:-1]))


def test_what_was_measured_today_is_not_measured_again(spec, store, quick, monkeypatch, capsys):
    cached = Path("speeds-of-this-test").resolve()
    monkeypatch.setenv("INTEREXTRA_CACHE", str(cached))
    asked = ["probe", "-m", "tiny-base", "--recipe", "mini-dense{steps: 2}", "--collection", spec]
    asked += ["--seeds", "1", "--check", "--json", "--size"]
    measured = []
    monkeypatch.setattr(cost, "measure", lambda training: measured.append(training) or SPEED)
    assert main([*asked, "12"]) == 0
    assert json.loads(capsys.readouterr().out)["is_kept"] is False
    assert main([*asked, "12"]) == 0 and len(measured) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["is_kept"] is True and found["speed"] == SPEED._asdict()
    assert found["taken"]["wall"] > 0
    assert main([*asked, "14"]) == 0 and len(measured) == 2  # other settings
    [*kept] = (cached / speeds.FOLDER).iterdir()
    assert len(kept) == 2
    monkeypatch.setattr(speeds.platform, "node", lambda: "another machine")
    assert main([*asked, "12"]) == 0 and len(measured) == 3
    monkeypatch.setattr(speeds, "_today", lambda: "2099-01-01-")
    assert main([*asked, "12"]) == 0 and len(measured) == 4
    assert len(list((cached / speeds.FOLDER).iterdir())) == 1  # those of another day are gone


def test_times_count_from_the_start_of_the_command(spec, store, monkeypatch, tmp_path, capsys):
    """Planning for 100 s, measuring for 200 s, of which a core worked for 10 and 20 s."""
    monkeypatch.setattr(cost, "elapsed", lambda: Elapsed(1300.0, 130.0))
    training = own_training(spec, store)
    spent = cost.Spent(Elapsed(1000.0, 100.0), Elapsed(1100.0, 110.0))
    prices = Prices(SPEED, training, Path("out"), spent=spent)
    table = prices.stages.set_index("stage")
    assert table.loc[[cost.PLANNING, cost.MEASURING], "seconds"].tolist() == [100, 200]
    assert table.loc[[cost.PLANNING, cost.MEASURING], "core seconds"].tolist() == [10, 20]
    without = Prices(SPEED, training, Path("out"))
    assert prices.seconds == pytest.approx(without.seconds + 300)
    assert ", of which 5 min are over" in str(prices)
    monkeypatch.setattr(cost, "elapsed", lambda: Elapsed(1900.0, 190.0))
    written = pd.read_csv(prices.write(tmp_path)).set_index("stage")
    assert written.loc["taken", ["core seconds", "seconds"]].tolist() == [90, 900]
    assert "taken 15 min, both from the start of the command" in capsys.readouterr().err


def test_a_check_says_what_it_took_and_what_another_command_will_take(spec, store, monkeypatch):
    """The next one plans again, and takes up what was measured."""
    monkeypatch.setattr(cost, "elapsed", lambda: Elapsed(1360.0, 150.0))
    training = own_training(spec, store)
    spent = cost.Spent(Elapsed(1000.0, 100.0), Elapsed(1100.0, 110.0), is_check=True)
    prices = Prices(SPEED, training, Path("out"), spent=spent)
    assert cost.PLANNING in set(prices.stages["stage"])
    assert cost.MEASURING not in set(prices.stages["stage"])
    assert "are over" not in str(prices)
    assert spent.sentence().startswith("This check took 6 min (50 s of one core). What it measured")
    assert "measured earlier today" in spent._replace(is_kept=True).sentence()


@pytest.mark.parametrize("device", ["cuda:2", "cuda"])
def test_a_device_that_is_not_there_is_refused_before_anything(spec, device, monkeypatch, capsys):
    n_gpus = 2 if device == "cuda:2" else 0
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    asked = ["probe", "-m", "tiny-base", "--collection", "no/such", "--device", device]
    assert main(asked) == 2
    error = capsys.readouterr().err
    assert f"--device {device}: there is no such device here, only cpu" in error
    assert ("cuda:0, cuda:1" in error) == (n_gpus == 2) and "no/such" not in error


@pytest.mark.parametrize(
    ("device", "visible", "left"),
    [("cuda:1", "", "1"), ("cuda:1", "4,6", "6"), ("cpu", "4,6", ""), ("", "4", "4")],
)
def test_a_device_is_one_of_those_that_may_be_seen(monkeypatch, device, visible, left):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    commands._choose_device(device)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == left


def trained(steps, folder):
    source = Source.of("mini:n_train=120,n_dev=30,seed=5")
    query_ids = Queries(source=source, split="train").ids()
    recipe = load_recipe("mini-dense", steps=steps, batch_size=8)
    return fit(recipe, source.open(), query_ids, "train", 1, folder)


def test_a_timed_training_ends_itself_after_a_warm_up_and_a_step(tmp_path):
    with watch.clocked(itertools.count().__next__, 1) as clock:
        trained(9, tmp_path / "model")
    assert clock.ends == [1, 2] and (clock.step, clock.seconds) == (1, 2)
    with watch.clocked(itertools.count(0, 5).__next__, 2) as clock:
        trained(9, tmp_path / "model")
    assert clock.ends == [5] and clock.step == 5  # a slow first step is enough
    with watch.clocked(time.perf_counter, 60.0) as clock:
        trained(4, tmp_path / "model")
    assert len(clock.ends) == 4
    assert clock.step == pytest.approx((clock.ends[3] - clock.ends[0]) / 3)


def test_steps_and_losses_are_noted_while_a_training_lasts(tmp_path, monkeypatch):
    notes = []
    monkeypatch.setattr(watch, "EVERY", 0.0)
    monkeypatch.setattr(watch, "write_json", lambda path, note: notes.append((path, note)))
    log = trained(4, tmp_path / "model")
    assert [note["step"] for _, note in notes] == [1, 2, 3, 4]
    losses = [loss for _, loss in log["loss"]]
    for (_, before), (_, note) in itertools.pairwise(notes):
        assert note["loss"] == pytest.approx([losses[before["step"] - 1]], abs=1e-4)
    monkeypatch.undo()
    monkeypatch.setattr(watch, "EVERY", 0.0)
    trained(4, tmp_path / "other")
    assert not list(tmp_path.rglob("step.json"))
