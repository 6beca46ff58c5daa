"""How far a run is: counted in its store, shown on a terminal or in lines, logged, and the same in
another shell.
"""

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
from rich.console import Console
from toy_cells import Toy

from interextra.cli import main
from interextra.site.notebook import publish
from interextra.store import progress
from interextra.store.files import SEAL, seal_problem, write_json
from interextra.store.folders import Store
from interextra.store.progress import LOG, NOTE, PRIOR, Progress, Results
from interextra.store.schedule import Job, build_all, n_workers

ONE, TWO = Toy(n=1), Toy(n=2)
LAST = Toy(n=9, needed=(ONE, TWO))
SMOKE_00 = ("--profile", "smoke", "--only", "00")


class Page(Toy):
    """A result with a title that a terminal could take for markup, and a page."""

    name: str = "00_it"
    took: float = 0.0  # seconds

    def title(self):
        return f"notebook [bold]{self.name}"

    def seconds(self):
        return 600.0

    def build(self, folder, store):
        super().build(folder, store)
        write_json(
            folder / "provenance.json", {"seconds": {"cells": 1.0, "whole notebook": self.took}}
        )


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


def keys_in(log):
    return [line.split("\t")[3] for line in log.read_text().splitlines()[1:]]


def test_what_is_missing_and_what_it_needs_counts_and_shares_the_workers(store):
    assert Results(store, [LAST]).state()[:3] == (3, 0, {})
    store.build(ONE)
    state = Results(store, [LAST]).state()
    left = sum(cell.seconds() for cell in (TWO, LAST)) / n_workers(2)
    assert state[:4] == (3, 1, {}, left) and str(state).startswith(
        "1 of 3 results done, none being computed, about "
    )
    store.build(LAST)
    assert (
        str(Results(store, [LAST]).state())
        == "1 of 1 results done, none being computed, nothing left"
    )


def test_what_is_gone_and_not_needed_does_not_count(store):
    store.build(LAST)
    shutil.rmtree(store.path(ONE))
    assert Results(store, [LAST]).state()[:2] == (1, 1)


def test_what_is_being_computed_and_since_when_without_what_a_killed_process_left(store, building):
    lock = building(Page())
    state = Results(store, [LAST, Page()]).state()
    [(key, since)] = state.running.items()
    assert (
        key == Page().key
        and time.time() - since == pytest.approx(60, abs=5)
        and "1 being computed" in str(state)
    )
    lock.close()
    assert Results(store, [LAST, Page()]).state().running == {}


def test_steps_of_a_training_count_as_a_share_of_its_price(store, building):
    """Two results of 600 s by their price, one a quarter through in a minute, the other not begun:
    150 s are done in 60.
    """
    pages = [Page(), Page(n=4)]
    building(pages[0])
    note = {"step": 5, "steps": 20, "loss": [0.25]}
    write_json(store.root / "building" / pages[0].key / "weights.tmp1" / NOTE, note)
    os.utime(store.root / "building" / pages[0].key, (time.time() - 60,) * 2)
    results = Results(store, pages, lambda cell: 600.0)
    state = results.state()
    assert state.share == pytest.approx(150 / 1200)
    speed = (PRIOR + 150) / (PRIOR + 60)
    assert state.seconds_left == pytest.approx(1050 / speed / n_workers(2), rel=0.1)
    assert state.by_work().startswith("12 % done, 1 being computed, about ")
    assert str(results.step(pages[0].key)) == ", step 5 of 20, loss 0.250"
    assert str(results.step(pages[1].key)) == ""


def test_the_share_that_is_shown_never_falls(store, building, tmp_path):
    """A training whose note is gone, as at its end, counts by the clock again: by less."""
    page = Page()
    building(page)
    note = store.root / "building" / page.key / "weights.tmp1" / NOTE
    write_json(note, {"step": 15, "steps": 20, "loss": [0.25]})
    watch = Progress(store, [page], tmp_path, lambda cell: 600.0)
    assert watch._state().by_work().startswith("75 % done")
    note.unlink()
    assert watch.results.state().share < 0.75 and watch._state().share == 0.75
    later = Progress(store, [page], tmp_path, lambda cell: 600.0, least=watch.share)
    assert later._state().share == 0.75


def test_what_has_no_steps_counts_by_the_clock_and_is_never_done_by_it(store, building):
    building(Page())  # since 60 s
    left = {
        price: Results(store, [Page()], lambda cell, price=price: price).state().seconds_left
        for price in (600.0, 10.0)
    }
    assert left[600.0] == pytest.approx(540, abs=5) and left[10.0] == pytest.approx(1.0)


def test_speed_of_this_machine_scales_what_is_left(store):
    slow, todo = Page(took=1200.0), Page(n=4)
    store.build(slow)
    results = Results(store, [slow, todo])
    assert results.state().seconds_left == 600
    assert results.learn(slow.key) == 1200
    assert results.state().seconds_left == pytest.approx(600 * (PRIOR + 1200) / (PRIOR + 600))


FOREIGN = [
    None,
    "1",
    [1],
    {"whole notebook": "1"},
    {"whole notebook": [1]},
    -1,
    float("nan"),
    float("inf"),
    10**400,
]


@pytest.mark.parametrize("seconds", FOREIGN, ids=lambda value: f"{value!r:.30}")
def test_a_record_without_seconds_tells_no_speed(store, seconds):
    page, todo = Page(), Page(n=4)
    write_json(store.build(page) / "provenance.json", {"seconds": seconds})
    results = Results(store, [page, todo])
    assert results.learn(page.key) is None and results.state().seconds_left == 600


def test_every_computed_result_is_logged_with_its_seconds_and_its_worker(store, tmp_path):
    folder = tmp_path / "outputs" / "it"
    for cell in (ONE, LAST):
        build_all(store, [cell], watch=Progress(store, [cell], folder))
    head, *rows = [line.split("\t") for line in (folder / LOG).read_text().splitlines()]
    assert head == ["finished", "seconds", "worker", "key", "what"]
    assert [row[3] for row in rows] == [ONE.key, TWO.key, LAST.key] and {
        row[4] for row in rows
    } == {"Toy"}
    assert all(
        float(row[1]) >= 0 and int(row[2]) >= 1 and re.match(r"20\d\d-\d\d-\d\dT", row[0])
        for row in rows
    )


def test_log_is_no_part_of_a_sealed_result(store, tmp_path):
    page, folder = Page(), tmp_path / "outputs" / "it"
    build_all(
        store, [page], lambda cell: publish(cell, store, folder), Progress(store, [page], folder)
    )
    assert (
        keys_in(folder / LOG) == [page.key]
        and not list(folder.glob(f"*/{LOG}"))
        and not seal_problem(store[page])
    )


def test_without_a_terminal_a_line_a_minute(store, tmp_path, capsys, monkeypatch):
    watch, job = Progress(store, [Page(), LAST], tmp_path), Job(Page(), 1, time.time() - 60)
    watch([job], None)
    assert not capsys.readouterr().out
    monkeypatch.setattr(progress, "MINUTE", 0.0)
    watch([job], None)
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("0 of 4 results done, ") and line.endswith(
        " left: notebook [bold]00_it (60 s)"
    )


def test_a_terminal_shows_results_workers_and_the_pages(store, tmp_path):
    watch, text = Progress(store, [LAST, Page()], tmp_path), io.StringIO()
    store.build(ONE)
    (tmp_path / "00_it.html").touch(), (tmp_path / "index.html").touch()
    Console(file=text, width=300, force_terminal=True).print(
        watch._drawn([Job(Page(), 2, time.time() - 5)])
    )
    shown = re.sub(r"\x1b(\[[\d;?]*[A-Za-z]|\]8;[^\x1b]*\x1b\\)", "", text.getvalue())
    assert "1 of 4 results" in shown and re.search(r"about \d+ (s|min) left", shown)
    assert re.search(r"worker 2 +5 s  notebook \[bold\]00_it", shown)
    assert re.search(r"1 page ready: .*index\.html", shown) and "file://" in text.getvalue()


def test_live_display_leaves_the_terminal_as_it_was(store, tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    rich.get_console()  # made while stdout is no terminal, as by a library's progress bar
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Terminal())
    out, threads = sys.stdout, threading.active_count()
    with pytest.raises(RuntimeError, match="no more"), Progress(store, [ONE], tmp_path) as watch:
        watch([Job(ONE, 1, time.time())], None)
        print("a line above it")
        raise RuntimeError("no more")
    assert sys.stdout is out and threading.active_count() == threads
    written = out.getvalue()
    assert (
        "a line above it" in written and "worker 1" in written and written.rindex("\x1b[?25h") > 0
    )  # the cursor


def test_status_looks_at_the_store_only(house, capsys, building):
    def status(*more):
        assert main(["status", *SMOKE_00, *more]) == 0
        return capsys.readouterr().out

    assert re.search(
        r"(?m)^0 of (\d+) results done, none being computed, about \d+ s left\.$", status()
    )
    assert not (house / "outputs").exists() or not list((house / "outputs").rglob("*.json"))
    assert main(["plan", "--json", *SMOKE_00]) == 0
    [rows] = [notebook["cells"] for notebook in json.loads(capsys.readouterr().out)["notebooks"]]
    first, second = (Store(house / "outputs" / "cells").cell(row["key"]) for row in rows[:2])
    folder = house / "outputs" / "cells" / first.key
    write_json(folder / "config.json", {"key": first.key, "code": first.code_behind})
    (folder / SEAL).touch()
    building(second, house / "outputs" / "cells")
    text = status()
    assert (
        re.search(rf"00_start_here +{len(rows)} +1\n", text)
        and f"being computed for 60 s: {second.title()}" in text
    )
    assert f"1 of {len(rows)} results done, 1 being computed, about " in text.splitlines()[-1]
    found = json.loads(status("--json"))
    assert found["notebooks"] == {"00_start_here": {"results": len(rows), "done": 1}} and list(
        found["computing"]
    ) == [second.title()]


def test_status_of_a_profile_that_is_not_there_is_one_line(house, capsys):
    assert main(["status", "--profile", "tiny"]) == 2
    assert "no profile 'tiny'" in capsys.readouterr().err
