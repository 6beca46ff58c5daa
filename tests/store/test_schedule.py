"""Cells in several processes: what fails or is stopped leaves no result and no process behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import psutil
import pytest
from toy_cells import Environment, Failing, FailingBeside, Killed, Odd, Sleeping, Toy

from interextra import cli
from interextra.store import schedule, workers
from interextra.store.folders import Store
from interextra.store.schedule import build_all
from interextra.store.workers import WorkerLostError

# The command line with toy cells: arguments are how many sleep, and the command
DRIVER = """
import signal, sys
from pathlib import Path
from toy_cells import Sleeping, Toy
from interextra.store.folders import Store
from interextra import cli
from interextra.store import schedule, workers

if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # whatever the shell that runs the tests ignores
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    schedule.n_workers = lambda n: n
    store = Store(Path("outputs", "cells"))
    asleep = [Sleeping(n=n, begun=f"begun{n}", is_deaf=n == 1, name=f"0{n}_it") for n in range(int(sys.argv[1]))]
    cells = [Sleeping(n=9, begun="begun", needed=(Toy(),)), *asleep]
    for cell in (*cells, Toy()):
        store.plan(cell)

    def selected(args):
        args.name = "it"
        return store, cells

    cli._selected = selected
    keys = [Toy().key, asleep[0].key] if sys.argv[2] == "cell" else []
    sys.exit(cli.main([sys.argv[2], *keys]))
"""


def is_running(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def until(happened, seconds):
    """Wait for it; how long that took."""
    begin = time.monotonic()
    while not happened():
        assert time.monotonic() < begin + seconds, "it did not happen"
        time.sleep(0.02)
    return time.monotonic() - begin


@pytest.fixture
def two_workers(monkeypatch):
    monkeypatch.setattr(schedule, "n_workers", lambda n_cells: min(2, n_cells))


@pytest.mark.parametrize("is_deaf", [False, True])
def test_a_failing_cell_ends_what_runs_beside_it(tmp_path, two_workers, is_deaf):
    begun, store, done = tmp_path / "begun", Store(tmp_path / "cells"), []
    beside = Sleeping(begun=str(begun), is_deaf=is_deaf)
    with pytest.raises(RuntimeError, match="disk full") as raised:
        build_all(store, [FailingBeside(begun=str(begun), needed=(Toy(),)), beside], done.append)
    assert time.time() - begun.stat().st_mtime < 5
    assert not is_running(int(begun.read_text())) and not multiprocessing.active_children()
    assert "toy_cells.py" in raised.value.__notes__[0], "where it was raised"
    assert [cell.key for cell in done] == [Toy().key] and store.valid(Toy())
    assert not store.valid(beside) and not store.path(beside).exists()
    left = [path.name for path in (store.root / "building").iterdir()]
    assert left == [beside.key] * is_deaf, "only what was killed leaves a part"
    assert store.clean()[2] == 0 and not list((store.root / "building").iterdir())


def test_a_killed_worker_is_an_error_that_names_the_cell_and_the_signal(tmp_path):
    with pytest.raises(
        WorkerLostError, match=r"^Killed: the process that computed it was killed by signal 9"
    ):
        build_all(Store(tmp_path), [Killed()])
    assert not multiprocessing.active_children()


def test_a_killed_worker_is_one_line_of_the_command_line(tmp_path, monkeypatch, capsys):
    command = Namespace(
        command="run", needs=[], function=lambda args: build_all(Store(tmp_path), [Killed()])
    )
    monkeypatch.setattr(cli, "parser", lambda: Namespace(parse_args=lambda given: command))
    assert cli.main([]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert (
        line.startswith("interextra: Killed: ")
        and "start again: results that are finished are kept" in line
    )


def test_an_error_that_goes_through_no_pipe_is_told_by_its_words(tmp_path):
    with pytest.raises(RuntimeError, match="OddError: one and two"):
        build_all(Store(tmp_path), [Odd()])


def test_a_worker_has_an_environment_that_its_parent_never_has(tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    store, before = Store(tmp_path), dict(os.environ)
    seen = []
    build_all(store, [Environment()], watch=lambda running, ended: seen.append(dict(os.environ)))
    assert (store[Environment()] / "answer.txt").read_text() == "1"
    assert all(one == before for one in seen) and dict(os.environ) == before


def test_an_exception_of_who_watches_ends_the_workers(tmp_path, two_workers):
    begun = tmp_path / "begun"

    def watch(running, ended):
        if begun.exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_all(Store(tmp_path / "cells"), [Sleeping(begun=str(begun))], watch=watch)
    assert not is_running(int(begun.read_text()))


@pytest.fixture
def started(tmp_path):
    """A function that starts the command line in a process group of its own and waits until its
    cells sleep.
    """
    (tmp_path / "notebooks").mkdir(), (tmp_path / "params").mkdir()
    (tmp_path / "notebooks" / "00_it.ipynb").touch()
    (tmp_path / "driver.py").write_text(DRIVER)
    running = []

    def start(command, n):
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
        }
        arguments = [sys.executable, "driver.py", str(n), command]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(
            arguments, cwd=tmp_path, env=environment, start_new_session=True, **pipes
        )
        running.append(process)
        asleep = [tmp_path / f"begun{i}" for i in range(n)] + (
            [tmp_path / "begun"] if command == "run" else []
        )
        until(
            lambda: (
                process.poll() is not None
                or all(path.exists() and path.read_text() for path in asleep)
            ),
            60,
        )
        return process, [int(path.read_text()) for path in asleep]

    yield start
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.parametrize("to_all", [False, True], ids=["to the parent", "to the group"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_says_what_is_kept_and_leaves_no_process(
    tmp_path, started, number, code, to_all
):
    process, workers = started("run", 2)
    (os.killpg if to_all else os.kill)(process.pid, number)
    took = until(lambda: not any(map(is_running, workers)), 5)
    _, told = process.communicate(timeout=10)
    assert process.returncode == code
    goes_on = "results that are finished are kept: give the same command again to go on from them"
    assert told == f"interextra: stopped by {number.name}; {goes_on}\n"
    assert took < 2
    store = Store(tmp_path / "outputs" / "cells")
    assert [path.parent.name for path in store.root.glob("*/seal.json")] == [
        Toy().key
    ] and store.valid(Toy())


def test_a_second_signal_changes_nothing(started):
    process, workers = started("run", 2)
    for _ in range(3):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.1)
    _, told = process.communicate(timeout=10)
    assert (
        process.returncode == 130
        and len(told.splitlines()) == 1
        and not any(map(is_running, workers))
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_single_result_that_is_stopped_says_what_is_kept(tmp_path, started, number, code):
    process, _ = started("cell", 1)
    os.kill(process.pid, number)
    out, told = process.communicate(timeout=10)
    assert process.returncode == code and told.startswith(
        f"interextra: stopped by {number.name}; results that are"
    )
    assert len(told.splitlines()) == 1 and Toy().key in out, "the first of the two was finished"
    assert not list((tmp_path / "outputs" / "cells" / "building").iterdir())


WITH_JAVA = """
import argparse, os, signal, sys, time
from interextra.models.search.lucene import java
from interextra import cli

def command(args):
    java()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)

args = argparse.Namespace(command="cell", needs=[], function=command)
cli.parser = lambda: argparse.Namespace(parse_args=lambda given: args)
sys.exit(cli.main([]))
"""


def test_a_jvm_in_the_process_leaves_the_signals_to_the_command_line():
    done = subprocess.run(
        [sys.executable, "-c", WITH_JAVA], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 143 and done.stderr.startswith("interextra: stopped by SIGTERM; "), (
        done.stderr
    )


LOST = """
import argparse, signal, sys, time
from interextra import cli

class Deleted:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)

def in_del():
    Deleted()  # and gone

def caught():
    try:
        signal.raise_signal(signal.SIGTERM)
    except BaseException:
        pass

def ending():
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        time.sleep(0.1)  # what is being ended is not disturbed at once
        print("ended")

def command(args):
    {"in_del": in_del, "caught": caught, "ending": ending}[sys.argv[1]]()
    time.sleep(60)

cli.AGAIN = 0.3
args = argparse.Namespace(command="cell", needs=[], function=command)
cli.parser = lambda: argparse.Namespace(parse_args=lambda given: args)
sys.exit(cli.main([]))
"""


@pytest.mark.parametrize("place", ["in_del", "caught", "ending"])
def test_a_stop_that_does_not_arrive_is_raised_again(place):
    """Python ignores what is raised in a `__del__`, and a library may catch it."""
    done = subprocess.run(
        [sys.executable, "-c", LOST, place], capture_output=True, text=True, timeout=50
    )
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 143 and last.startswith("interextra: stopped by SIGTERM; "), last
    assert ("Exception ignored" in done.stderr) == (place == "in_del")
    assert done.stdout == ("ended\n" if place == "ending" else "")


def test_workers_end_with_a_parent_that_was_killed(started):
    process, workers = started("run", 2)
    process.kill()
    assert until(lambda: not any(map(is_running, workers)), 5) < 2


def test_a_signal_that_the_caller_ignores_is_no_concern_of_the_command_line(monkeypatch, capsys):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        monkeypatch.setattr(cli, "COMMANDS", {})
        monkeypatch.setattr(
            cli, "parser", lambda: os.kill(os.getpid(), signal.SIGINT) or sys.exit(7)
        )
        with pytest.raises(SystemExit, match="7"):
            cli.main([])
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_schedule_ends_with_the_first_failure(tmp_path):
    with pytest.raises(RuntimeError, match="disk full"):
        build_all(Store(tmp_path), [Toy(n=4, needed=(Failing(),))])


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Eight GPUs and four cores."""
    for name in "abcdefgh":
        (tmp_path / name).mkdir()
    monkeypatch.setattr(workers, "GPUS", tmp_path)
    monkeypatch.setattr(schedule.os, "sched_getaffinity", lambda process: {0, 1, 2, 3})
    for name in ("SLURM_CPUS_PER_TASK", "SLURM_JOB_ID", "SLURM_GPUS_ON_NODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_workers_are_as_many_as_gpus_that_may_be_used(machine, monkeypatch):
    assert [schedule.n_workers(n) for n in (2, 100)] == [2, 8]
    for visible, names in {"2,5": ["2", "5"], "": [], "-1": [], "NoDevFiles": []}.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert workers.gpus() == names
        assert schedule.n_workers(100) == (len(names) or 4)


def test_job_that_asked_for_no_gpu_has_none_and_the_cores_that_it_was_given(machine, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert workers.gpus() == [] and schedule.n_workers(100) == 4
    for given, expected in {"3": 3, "8": 4, "": 4, "0": 1}.items():
        monkeypatch.setenv("SLURM_CPUS_PER_TASK", given)
        assert schedule.n_workers(100) == expected
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "8")
    assert schedule.n_workers(100) == 8
