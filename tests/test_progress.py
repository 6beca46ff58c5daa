"""How far a run is: counted in its store, shown on a terminal or in lines, logged, and the same in another shell."""

import fcntl
import io
import json
import os
import re
import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from rich.console import Console
from toy_cells import Slow, Toy

from interextra.ground.cells import Store
from interextra.ground.files import SEAL, seal_problem, write_json
from interextra.study import progress, schedule
from interextra.study.cli import main
from interextra.study.notebook import publish
from interextra.study.progress import LOG, Progress, logged
from interextra.study.schedule import Job, Results, build_all

ONE, TWO = Toy(n=1), Toy(n=2)
LAST = Toy(n=9, needed=(ONE, TWO))
SMOKE_00 = ("--profile", "smoke", "--only", "00")


class Page(Toy):
    """A result with a title that a terminal could take for markup, and a page."""

    name: str = "00_it"
    took: float = 0.0  # seconds
    older: bool = False

    def title(self):
        return f"notebook [bold]{self.name}"

    def seconds(self):
        return 600.0

    def build(self, folder, store):
        super().build(folder, store)
        (folder / f"{self.name}.html").touch()
        record = {"seconds": {"cells": 1.0, "whole notebook": self.took}}
        write_json(folder / "provenance.json", record | ({"taken over": {"from": "x"}} if self.older else {}))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "outputs" / "cells")


@pytest.fixture
def building(store):
    """A function that lets a cell be built by another process, as its folder and its lock tell, since a minute."""
    with ExitStack() as held:

        def begin(cell, root=store.root):
            for part in ("locks", f"building/{cell.key}"):
                (root / part).mkdir(parents=True, exist_ok=True)
            lock = held.enter_context(open(root / "locks" / cell.key, "w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.utime(root / "locks" / cell.key, (time.time() - 60,) * 2)
            return lock

        yield begin


def test_all_that_is_needed_counts_and_what_is_missing_shares_the_workers(store):
    assert Results(store, [LAST]).state()[:3] == (3, 0, {})
    store.build(ONE)
    state = Results(store, [LAST]).state(workers=1)
    assert state == (3, 1, {}, 2.0) and str(state) == "1 of 3 results done, none being computed, about 2 s left"
    store.build(LAST)
    assert str(Results(store, [LAST]).state()) == "3 of 3 results done, none being computed, nothing left"


def test_one_long_result_takes_its_time_whatever_the_workers(store):
    assert Results(store, [Page()]).state(workers=8).seconds_left == 600


def test_what_is_gone_and_not_needed_does_not_count(store):
    store.build(LAST)
    shutil.rmtree(store.path(ONE))
    assert Results(store, [LAST]).state()[:2] == (2, 2)
    assert Results(store, [LAST, Toy(n=5, needed=(ONE,))]).state()[:2] == (4, 2)


def test_what_is_being_computed_and_since_when_without_what_a_killed_process_left(store, building):
    lock = building(Page())
    state = Results(store, [LAST, Page()]).state(workers=1)
    [(key, (what, since))] = state.running.items()
    assert (key, what) == (Page().key, "notebook [bold]00_it") and time.time() - since == pytest.approx(60, abs=5)
    assert state.seconds_left == pytest.approx(3 + 540, abs=5) and "1 being computed, about 9 min left" in str(state)
    lock.close()
    assert Results(store, [LAST, Page()]).state().running == {}


def test_speed_of_this_machine_scales_what_is_left(store):
    slow, older, todo = Page(took=1200.0), Page(took=9.0, older=True), Page(n=4)
    store.build(slow), store.build(older)
    results = Results(store, [slow, older, todo])
    assert results.state().seconds_left == 600
    results.learn([slow.key, older.key])
    assert results.state().seconds_left == pytest.approx(600 * (schedule.PRIOR + 1200) / (schedule.PRIOR + 600))


def test_every_computed_result_is_logged_with_its_seconds_and_its_worker(store, tmp_path):
    folder = tmp_path / "outputs" / "it"
    build_all(store, [ONE], watch=Progress(store, [ONE], folder))
    build_all(store, [LAST], watch=Progress(store, [LAST], folder))
    head, *rows = [line.split("\t") for line in (folder / LOG).read_text().splitlines()]
    assert head == ["finished", "seconds", "worker", "key", "what"]
    assert [row[3] for row in rows] == [ONE.key, TWO.key, LAST.key] and {row[4] for row in rows} == {"Toy"}
    assert all(float(row[1]) > 0 and int(row[2]) >= 1 and re.match(r"20\d\d-\d\d-\d\dT", row[0]) for row in rows)
    assert logged(folder) == {row[3] for row in rows} and logged(tmp_path) == set()


def test_result_of_another_run_is_not_logged(store, tmp_path):
    slow = Slow(counter=str(tmp_path / "counter"))
    with ThreadPoolExecutor(2) as pool:
        took = [future.result() for future in [pool.submit(schedule._computed, store.root, slow) for _ in "ab"]]
    assert took.count(None) == 1 and max(filter(None, took)) > 0.4


def test_log_is_no_part_of_a_sealed_result(store, tmp_path):
    page, folder = Page(), tmp_path / "outputs" / "it"
    build_all(store, [page], lambda cell: publish(cell, store, folder), Progress(store, [page], folder))
    publish(page, store, folder)
    assert logged(folder) == {page.key} and not list(folder.glob(f"*/{LOG}")) and not seal_problem(store[page])
    assert (folder / page.name / SEAL).read_bytes() == (store[page] / SEAL).read_bytes()


def test_without_a_terminal_a_line_a_minute(store, tmp_path, capsys, building, monkeypatch):
    watch = Progress(store, [Page(), LAST], tmp_path)
    building(Page())
    watch([], None)
    assert not capsys.readouterr().out
    monkeypatch.setattr(progress, "MINUTE", 0.0)
    watch([], None)
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("0 of 4 results done, 1 being computed, about ")
    assert line.endswith(" left: notebook [bold]00_it (60 s)")


def test_a_terminal_shows_results_workers_other_runs_and_the_pages(store, tmp_path, building):
    watch, text = Progress(store, [LAST, Page()], tmp_path), io.StringIO()
    building(Page()), store.build(ONE)
    (tmp_path / "00_it.html").touch(), (tmp_path / "index.html").touch()
    drawn = watch._drawn([Job(TWO, 2, time.time() - 5)], watch.results.state(2))
    Console(file=text, width=100, force_terminal=True).print(drawn)
    shown = re.sub(r"\x1b(\[[\d;?]*[A-Za-z]|\]8;[^\x1b]*\x1b\\)", "", text.getvalue())
    assert "1 of 4 results" in shown and "about 9 min left" in shown
    assert re.search(r"worker 2 +5 s  Toy", shown) and re.search(r"another run +60 s  notebook \[bold\]00_it", shown)
    assert re.search(r"1 page ready: .*index\.html", shown) and "file://" in text.getvalue()


def test_live_display_leaves_the_terminal_as_it_was(store, tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Terminal())
    out, threads = sys.stdout, threading.active_count()
    with pytest.raises(RuntimeError, match="no more"), Progress(store, [ONE], tmp_path) as watch:
        watch([Job(ONE, 1, time.time())], None)
        print("a line above it")
        raise RuntimeError("no more")
    assert sys.stdout is out and threading.active_count() == threads
    written = out.getvalue()
    assert "a line above it" in written and "worker 1" in written and written.rindex("\x1b[?25h") > 0  # the cursor


def test_status_looks_at_the_store_only(house, capsys, building):
    def status(*more):
        assert main(["status", *SMOKE_00, *more]) == 0
        return capsys.readouterr().out

    def written():
        return sorted(path for path in (house / "outputs").rglob("*") if path.is_file())

    assert re.search(r"(?m)^0 of (\d+) results done, none being computed, about \d+ s left\.$", status())
    assert not written()
    assert main(["plan", "--json", *SMOKE_00]) == 0
    [rows] = [notebook["cells"] for notebook in json.loads(capsys.readouterr().out)]
    first, second = (Store(house / "outputs" / "cells").cell(row["key"]) for row in rows[:2])
    before = written()
    (house / "outputs" / "cells" / first.key).mkdir()
    (house / "outputs" / "cells" / first.key / SEAL).touch()
    building(second, house / "outputs" / "cells")
    text = status()
    assert re.search(rf"00_start_here +{len(rows)} +1 +1\n", text) and f"{second.key} {second.title()}" in text
    assert f"1 of {len(rows)} results done, 1 being computed, about " in text.splitlines()[-1]
    found = json.loads(status("--json"))
    assert found["notebooks"]["all notebooks"] == {"results": len(rows), "done": 1, "computing": 1}
    assert [one["key"] for one in found["computing"]] == [second.key] and found["seconds_left"] > 0
    assert len(written()) == len(before) + 2


def test_status_of_a_profile_that_is_not_there_is_one_line(house, capsys):
    assert main(["status", "--profile", "tiny"]) == 2
    assert "no profile 'tiny'" in capsys.readouterr().err
