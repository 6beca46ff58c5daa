"""How far a run is: counted in its store, shown on a terminal or in lines, and the same in another shell."""

import fcntl
import io
import json
import os
import re
import shutil
import sys
import threading
import time
from contextlib import ExitStack

import pytest
import rich
from toy_cells import Toy

from interextra.ground.cells import Store
from interextra.ground.files import SEAL, write_json
from interextra.study import progress
from interextra.study.cli import main
from interextra.study.progress import PRIOR, Progress, Results
from interextra.study.schedule import n_workers

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
        record = {"seconds": {"cells": 1.0, "whole notebook": self.took}}
        write_json(folder / "provenance.json", record | ({"taken over": {"from": "x"}} if self.older else {}))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "outputs" / "cells")


@pytest.fixture
def building(store):
    """A function that lets a cell be built by another process, as its folder and its lock tell."""
    with ExitStack() as held:

        def begin(cell, root=store.root):
            for part in ("locks", f"building/{cell.key}"):
                (root / part).mkdir(parents=True, exist_ok=True)
            lock = held.enter_context(open(root / "locks" / cell.key, "w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.utime(root / "building" / cell.key, (time.time() - 60,) * 2)
            return lock

        yield begin


def test_what_is_missing_and_what_it_needs_counts_and_shares_the_workers(store):
    assert Results(store, [LAST]).state()[:3] == (3, 0, [])
    store.build(ONE)
    state = Results(store, [LAST]).state()
    left = sum(cell.seconds() for cell in (TWO, LAST)) / n_workers(2)
    assert state == (3, 1, [], left) and str(state).startswith("1 of 3 results done, none being computed, about ")
    store.build(LAST)
    assert str(Results(store, [LAST]).state()) == "1 of 1 results done, none being computed, nothing left"


def test_what_is_gone_and_not_needed_does_not_count(store):
    store.build(LAST)
    shutil.rmtree(store.path(ONE))
    assert Results(store, [LAST]).state()[:2] == (1, 1)


def test_what_is_being_computed_and_since_when_without_what_a_killed_process_left(store, building):
    lock = building(Page())
    state = Results(store, [LAST, Page()]).state()
    [(what, seconds)] = state.running
    assert what == Page().title() and seconds == pytest.approx(60, abs=5) and "1 being computed" in str(state)
    lock.close()
    assert Results(store, [LAST, Page()]).state().running == []


def test_speed_of_this_machine_scales_what_is_left(store):
    slow, older, todo = Page(took=1200.0), Page(took=9.0, older=True), Page(n=4)
    store.build(slow), store.build(older)
    results = Results(store, [slow, older, todo])
    assert results.state().seconds_left == 600
    results.learn(slow.key), results.learn(older.key)  # taken over: no speed
    assert results.state().seconds_left == pytest.approx(600 * (PRIOR + 1200) / (PRIOR + 600))


def test_without_a_terminal_a_line_a_minute(store, building, capsys, monkeypatch):
    watch = Progress(store, [Page(), LAST])
    building(Page())
    watch()
    assert not capsys.readouterr().out
    monkeypatch.setattr(progress, "MINUTE", 0.0)
    watch()
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("0 of 4 results done, ") and line.endswith(" left: notebook [bold]00_it (60 s)")


def test_live_display_shows_what_is_computed_and_leaves_the_terminal_as_it_was(store, building, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    rich.get_console()  # made while stdout is no terminal, as by a library's progress bar
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Terminal())
    out, threads = sys.stdout, threading.active_count()
    building(Page())
    with pytest.raises(RuntimeError, match="no more"), Progress(store, [LAST, Page()]) as watch:
        watch()
        print("a line above it")
        raise RuntimeError("no more")
    assert sys.stdout is out and threading.active_count() == threads
    written = out.getvalue()
    assert "a line above it" in written and written.rindex("\x1b[?25h") > 0  # the cursor
    assert re.search(r"0 of 4 results .* 1 being computed, about \d+ (s|min) left", written)
    assert "notebook [bold]00_it (60 s)" in written and "━" in written


def test_status_looks_at_the_store_only(house, capsys, building):
    def status(*more):
        assert main(["status", *SMOKE_00, *more]) == 0
        return capsys.readouterr().out

    assert re.search(r"(?m)^0 of (\d+) results done, none being computed, about \d+ s left\.$", status())
    assert not (house / "outputs").exists() or not list((house / "outputs").rglob("*.json"))
    assert main(["plan", "--json", *SMOKE_00]) == 0
    [rows] = [notebook["cells"] for notebook in json.loads(capsys.readouterr().out)]
    first, second = (Store(house / "outputs" / "cells").cell(row["key"]) for row in rows[:2])
    (house / "outputs" / "cells" / first.key).mkdir()
    (house / "outputs" / "cells" / first.key / SEAL).touch()
    building(second, house / "outputs" / "cells")
    text = status()
    assert re.search(rf"00_start_here +{len(rows)} +1\n", text) and f"\n{second.title()} (60 s)\n" in text
    assert f"1 of {len(rows)} results done, 1 being computed, about " in text.splitlines()[-1]


def test_status_of_a_profile_that_is_not_there_is_one_line(house, capsys):
    assert main(["status", "--profile", "tiny"]) == 2
    assert "no profile 'tiny'" in capsys.readouterr().err
