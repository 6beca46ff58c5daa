"""Cells: named by content and code, sealed last, damaged ones noticed, one computation for two
processes.
"""

import importlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
import time

import pytest
from toy_cells import Failing, Slow, Stuck, Toy

from interextra.site.notebook import Notebook
from interextra.store import cells as module
from interextra.store.cells import config_of, from_config
from interextra.store.errors import InputError
from interextra.store.files import seal_problem, write_json
from interextra.store.folders import Store
from interextra.store.schedule import build_all

TOY = Toy()


def fresh(root):
    """A store of a process that has read no checksum yet."""
    Store._valid.clear()
    return Store(root)


def test_key_depends_on_fields_needed_cells_version_and_libraries(monkeypatch):
    before = TOY.key
    assert Toy().key == Toy(n=3).key == before != Toy(n=4).key
    assert Toy(needed=(Toy(),)).key != Toy(needed=(Toy(n=4),)).key
    monkeypatch.setattr(module.code, "libraries_of", lambda modules: {"torch": "99.1"})
    assert Toy().key != before
    monkeypatch.setattr(module.code, "libraries_of", lambda modules: {})
    monkeypatch.setattr(Toy, "VERSION", 2)
    assert Toy().key != before


def test_a_changed_copy_has_a_key_of_its_own():
    assert TOY.key and TOY.model_copy(update={"n": 9}).key == Toy(n=9).key != TOY.key


def test_field_at_its_default_is_no_part_of_the_name():
    assert config_of(Toy(n=3, note="")) == {"kind": "toy_cells.Toy"}


def test_configuration_gives_the_cell_back():
    cell = Toy(n=5, needed=(Toy(), Toy(needed=(Toy(n=1),))))
    again = from_config(json.loads(json.dumps(config_of(cell))))
    assert again == cell and again.key == cell.key


NO_KINDS = [
    "os.system",
    "pathlib.Path",
    "interextra.store.files.sha256",
    "nowhere.Toy",
    "pydantic.main.BaseModel",
]


@pytest.mark.parametrize("kind", NO_KINDS)
def test_a_note_builds_kinds_of_cell_only(tmp_path, kind):
    with pytest.raises(InputError, match="no kind of this package"):
        from_config({"kind": kind, "command": f"touch {tmp_path / 'ran'}"})
    write_json(
        tmp_path / "planned" / "ab.json",
        {"config": {"kind": kind, "command": f"touch {tmp_path / 'ran'}"}},
    )
    assert Store(tmp_path).planned() == [] and not (tmp_path / "ran").exists()


def test_a_note_names_a_notebook_of_the_repository_only():
    rest = {"source": "", "parameters": "{}", "uses": (), "plan": (), "files": ""}
    assert Notebook(name="02_restrain", **rest).name == "02_restrain"
    with pytest.raises(ValueError, match="name"):
        Notebook(name="../../evil/02_x", **rest)


def test_finished_cell_is_not_built_again(tmp_path):
    cell = Slow(counter=str(tmp_path / "counter"))
    folder = Store(tmp_path / "cells").build(cell)
    assert fresh(tmp_path / "cells").build(cell) == folder
    assert (tmp_path / "counter").read_text() == "x"


@pytest.mark.parametrize("name", ["answer.txt", "part/more.txt", "config.json", "seal.json"])
def test_one_flipped_byte_is_noticed_said_and_mended(tmp_path, capsys, name):
    folder = Store(tmp_path).build(TOY)
    before = {
        p: p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.name in ("answer.txt", "more.txt")
    }
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 0x80
    (folder / name).write_bytes(data)
    assert fresh(tmp_path).build(TOY) == folder
    assert capsys.readouterr().err.count("damaged (") == 1
    assert {p: p.read_bytes() for p in before} == before and seal_problem(folder) is None


def test_missing_file_and_missing_seal_are_noticed(tmp_path):
    folder = Store(tmp_path).build(TOY)
    (folder / "answer.txt").unlink()
    assert seal_problem(folder) == "answer.txt is missing" and not fresh(tmp_path).valid(TOY)
    (folder / "seal.json").unlink()
    assert seal_problem(folder) == "no seal"


def test_a_seal_names_every_file(tmp_path):
    folder = Store(tmp_path).build(TOY)
    (folder / "more.txt").write_text("nobody sealed this")
    assert seal_problem(folder) == "seal.json does not name more.txt"
    (folder / "seal.json").write_text("{}")
    assert seal_problem(folder) == "seal.json names no file" and not fresh(tmp_path).valid(TOY)
    for text in ("5", "true", "[]", '"all"'):
        (folder / "seal.json").write_text(text)
        assert seal_problem(folder) == "seal.json names no file"
    (folder / "seal.json").unlink()
    (folder / "seal.json").mkdir()
    assert seal_problem(folder) == "seal.json is not readable"


def test_cell_that_is_not_there_is_a_clear_error(tmp_path):
    with pytest.raises(InputError, match="is not computed"):
        Store(tmp_path)[TOY]


def test_failed_build_leaves_nothing(tmp_path):
    store = Store(tmp_path)
    with pytest.raises(RuntimeError, match="disk full"):
        store.build(Failing())
    assert not store.path(Failing()).exists() and not list((tmp_path / "building").iterdir())


def test_two_processes_build_one_cell_once(tmp_path):
    cell, context = Slow(counter=str(tmp_path / "counter")), multiprocessing.get_context("fork")
    pair = [context.Process(target=Store(tmp_path / "cells").build, args=(cell,)) for _ in range(2)]
    for process in pair:
        process.start()
    for process in pair:
        process.join(20)
    assert [process.exitcode for process in pair] == [0, 0]
    assert (tmp_path / "counter").read_text() == "x" and fresh(tmp_path / "cells").valid(cell)


def test_killed_build_leaves_no_result_and_the_next_one_finishes(tmp_path):
    begun, context = tmp_path / "begun", multiprocessing.get_context("fork")
    cell = Stuck(note=str(begun))
    process = context.Process(target=Store(tmp_path / "cells").build, args=(cell,))
    process.start()
    while not begun.exists():
        time.sleep(0.01)
    store = Store(tmp_path / "cells")
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert not store.valid(cell)
    store.build(cell)
    assert store.valid(cell) and not list((tmp_path / "cells" / "building").iterdir())


def test_damaged_note_of_a_planned_cell_is_written_again(tmp_path):
    store = Store(tmp_path)
    with pytest.raises(InputError, match="run `interextra plan`"):
        store.cell(TOY.key)
    store.plan(TOY)
    path = tmp_path / "planned" / f"{TOY.key}.json"
    path.write_text("{")
    with pytest.raises(InputError, match="run `interextra plan`"):
        store.cell(TOY.key)
    store.plan(TOY)
    assert store.cell(TOY.key) == TOY


def test_a_folder_under_the_name_of_another_cell_is_not_served(tmp_path):
    store, other = Store(tmp_path), Toy(n=7)
    os.replace(store.build(TOY), store.path(other))
    assert not fresh(tmp_path).valid(other)
    assert (fresh(tmp_path).build(other) / "answer.txt").read_text() == "7 rows\n"


def test_empty_folder_in_the_place_of_a_cell_is_no_damage(tmp_path, capsys):
    store = Store(tmp_path)
    store.path(TOY).mkdir(parents=True)
    store.build(TOY)
    assert not capsys.readouterr().err and store.valid(TOY)


def test_what_a_finished_cell_was_made_from_may_be_gone(tmp_path):
    store, cell = Store(tmp_path), Toy(n=1, needed=(TOY,))
    store.build(cell)
    (store.path(TOY) / "answer.txt").unlink()
    store = fresh(tmp_path)
    assert store.missing([cell]) == [] and store.missing([TOY]) == [TOY]


def test_schedule_computes_each_needed_cell_once_and_in_order(tmp_path):
    middle = [Toy(n=n, needed=(TOY,)) for n in (1, 2)]
    last, done = Toy(n=9, needed=tuple(middle)), []
    store = Store(tmp_path)
    assert len(build_all(store, [last, *middle], done.append)) == 4
    assert [cell.key for cell in (done[0], done[-1])] == [TOY.key, last.key] and len(done) == 4
    assert build_all(store, [last]) == []


def test_the_last_but_one_waits_for_what_the_last_one_needs(tmp_path, monkeypatch):
    monkeypatch.setattr("interextra.store.schedule.n_workers", lambda n_cells: 1)
    first, other = Toy(n=1), Toy(n=2)
    pages, done = [Toy(n=n, needed=(need,)) for n, need in ((7, TOY), (8, first), (9, other))], []
    build_all(Store(tmp_path), pages, done.append)
    assert [cell.n for cell in done] == [3, 7, 1, 2, 9, 8]


@pytest.fixture
def changed_code(monkeypatch):
    """A function after whose call the kinds of cell, or those of these names, have other code
    behind them.
    """
    plain = module.code.digests_of

    def change(*names):
        def digests_of(modules):
            others = names and modules[0].rpartition(":")[2] not in names
            return plain(modules) if others else [["other", "code"]]

        monkeypatch.setattr(module.code, "digests_of", digests_of)
        Store._valid.clear()

    return change


SIZED = """
from interextra.store.cells import Cell


class Sized(Cell):
    n: int

    def build(self, folder, store):
        (folder / "answer.txt").write_text(str(counted(self.n)))


def counted(n):
    return n
"""


@pytest.fixture
def sized(tmp_path, monkeypatch):
    """A function that gives a kind of cell as its module has it now, after some text of the module
    was replaced.
    """
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "sized.py"
    path.write_text(SIZED)

    def forget():
        Store._valid.clear(), module.code._parsed.cache_clear(), module.code.behind.cache_clear()

    def changed(old="", new=""):
        path.write_text(path.read_text().replace(old, new))
        sys.modules.pop("sized", None)
        importlib.invalidate_caches()
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        forget()
        return importlib.import_module("sized").Sized

    yield changed
    sys.modules.pop("sized", None)
    forget()


def test_code_that_differs_for_large_results_only_serves_none_of_the_older_ones(tmp_path, sized):
    for n in (1, 2, 3, 2000):
        Store(tmp_path / "cells").build(sized()(n=n))
    kind = sized("return n", "return n if n <= 1000 else n + 1")
    store = Store(tmp_path / "cells")
    cells = [kind(n=n) for n in (1, 2, 3, 2000)]
    assert store.missing(cells) == cells
    assert [(store.build(cell) / "answer.txt").read_text() for cell in cells] == [
        "1",
        "2",
        "3",
        "2001",
    ]


def test_what_is_made_from_changed_code_is_computed_again(tmp_path, changed_code):
    last = Slow(counter=str(tmp_path / "counter"), needed=(TOY,))
    Store(tmp_path / "cells").build(last)
    changed_code("Toy")
    again = Slow(counter=str(tmp_path / "counter"), needed=(Toy(),))
    assert (again.identity, again.key) == (last.identity, last.key)
    Store(tmp_path / "cells").build(again)
    assert (tmp_path / "counter").read_text() == "xx"


def test_clean_frees_cells_of_older_code_and_keeps_today_s(tmp_path, changed_code):
    old = Store(tmp_path).build(Toy(n=1))
    changed_code()
    new = Store(tmp_path).build(Toy(n=2))
    removed, freed, live = Store(tmp_path).clean()
    assert removed == 1 and freed > 0 and live == 0 and not old.exists() and new.exists()


def test_clean_leaves_what_another_process_computes_and_may_need(tmp_path, changed_code):
    """It removed the folder that a run was writing to, and the results that this run was made
    from.
    """
    begun, context, store = (
        tmp_path / "begun",
        multiprocessing.get_context("fork"),
        Store(tmp_path / "cells"),
    )
    cell = Stuck(note=str(begun))
    live, half = (store.root / "building" / name for name in (cell.key, "0" * 20))
    process = context.Process(target=store.build, args=(cell,))
    process.start()
    try:
        while not begun.exists():
            time.sleep(0.01)
        older = store.build(TOY)
        changed_code()
        half.mkdir()
        (half / "weights").write_text("of a process that was killed")
        (store.root / "aside" / "it").mkdir(parents=True)
        assert store.clean() == (0, len("of a process that was killed"), 1)
        assert (live / "answer.txt").read_text() == "half" and older.exists()
        assert not half.exists() and not (store.root / "aside").exists()
    finally:
        process.kill()
        process.join()
    assert (
        store.clean()[::2] == (1, 0)
        and not older.exists()
        and not list((store.root / "building").iterdir())
    )


def test_a_planned_result_whose_code_is_gone_is_no_longer_planned(tmp_path):
    """A removed function ended `clean` and `make check` with a traceback."""
    gone = {
        "name": "02_x",
        "source": "",
        "parameters": "{}",
        "uses": ["interextra.stats.effects:gone"],
        "files": "",
    }
    config = {"kind": "interextra.site.notebook.Notebook", "plan": []} | gone
    with pytest.raises(AttributeError, match="has no 'gone'"):
        assert isinstance(from_config(config), Notebook) and from_config(config).key
    write_json(tmp_path / "planned" / f"{'0' * 20}.json", {"key": "0" * 20, "config": config})
    assert fresh(tmp_path).planned() == [] and fresh(tmp_path).clean()[0] == 0
    with pytest.raises(InputError, match="no cell"):
        fresh(tmp_path).cell("0" * 20)
