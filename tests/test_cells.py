"""Cells: named by content, sealed last, damaged ones noticed, one computation for two processes."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

from interextra.ground.errors import InputError
from interextra.study.cells import Store, cell_key, seal_problem

CONFIG = {"kind": "toy", "n": 3}


def write_answer(config, folder):
    (folder / "answer.txt").write_text("3 rows\n")
    (folder / "part").mkdir()
    (folder / "part" / "more.txt").write_text("more\n")


def build_slowly(root, counter):
    def builder(config, folder):
        with open(counter, "a") as file:
            file.write("x")
        time.sleep(0.5)
        write_answer(config, folder)

    Store(root).build(CONFIG, builder)


def test_key_depends_on_content_not_on_order():
    assert cell_key({"a": 1, "b": [2]}) == cell_key({"b": [2], "a": 1})
    assert cell_key({"a": 1}) != cell_key({"a": 2})


def test_finished_cell_is_not_built_again(tmp_path):
    folder = Store(tmp_path).build(CONFIG, write_answer)
    assert json.loads((folder / "config.json").read_text()) == CONFIG

    def never(config, folder):
        raise AssertionError("built again")

    assert Store(tmp_path).build(CONFIG, never) == folder


@pytest.mark.parametrize("name", ["answer.txt", "part/more.txt", "config.json", "seal.json"])
def test_one_flipped_byte_is_noticed_said_and_mended(tmp_path, name):
    folder = Store(tmp_path).build(CONFIG, write_answer)
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    for position in (0, len((folder / name).read_bytes()) // 2):
        data = bytearray(before[folder / name])
        data[position] ^= 0x80
        (folder / name).write_bytes(data)
        said = []
        assert Store(tmp_path, say=said.append).build(CONFIG, write_answer) == folder
        assert len(said) == 1 and "damaged" in said[0]
        assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


def test_missing_file_is_noticed(tmp_path):
    folder = Store(tmp_path).build(CONFIG, write_answer)
    (folder / "answer.txt").unlink()
    assert seal_problem(folder) == "answer.txt is missing"
    assert not Store(tmp_path).valid(folder.name)


def test_folder_without_seal_does_not_exist(tmp_path):
    folder = Store(tmp_path).build(CONFIG, write_answer)
    (folder / "seal.json").unlink()
    assert not Store(tmp_path, say=lambda line: None).valid(folder.name)


def test_failed_builder_leaves_nothing(tmp_path):
    def fails(config, folder):
        write_answer(config, folder)
        raise RuntimeError("disk full")

    store = Store(tmp_path)
    with pytest.raises(RuntimeError):
        store.build(CONFIG, fails)
    assert not store.path(cell_key(CONFIG)).exists()
    assert not list((tmp_path / "building").iterdir())


def test_two_processes_build_one_cell_once(tmp_path):
    context = multiprocessing.get_context("fork")
    counter = tmp_path / "counter"
    pair = [context.Process(target=build_slowly, args=(tmp_path / "cells", counter)) for _ in range(2)]
    for process in pair:
        process.start()
    for process in pair:
        process.join(20)
    assert [process.exitcode for process in pair] == [0, 0]
    assert counter.read_text() == "x"
    assert seal_problem(tmp_path / "cells" / cell_key(CONFIG)) is None


def test_killed_builder_leaves_no_result_and_the_next_one_finishes(tmp_path):
    script = (
        "import time\nfrom interextra.study.cells import Store\n"
        "def builder(config, folder):\n    (folder / 'answer.txt').write_text('half')\n"
        "    print('begun', flush=True)\n    time.sleep(60)\n"
        f"Store({str(tmp_path)!r}).build({CONFIG!r}, builder)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    store = Store(tmp_path)
    assert not store.valid(cell_key(CONFIG))
    store.sweep()
    assert not list((tmp_path / "building").iterdir())
    assert (store.build(CONFIG, write_answer) / "answer.txt").read_text() == "3 rows\n"


def test_unplanned_key_is_a_clear_error(tmp_path):
    with pytest.raises(InputError, match="no cell 'abc' is planned"):
        Store(tmp_path).config("abc")


def test_configuration_that_does_not_give_the_key_is_not_trusted(tmp_path):
    store = Store(tmp_path)
    folder = store.build(CONFIG, write_answer)
    (folder / "config.json").write_text(json.dumps({**CONFIG, "n": 4}))
    assert store.config(folder.name) == CONFIG  # as planned
    (tmp_path / "planned" / f"{folder.name}.json").write_text("{")
    with pytest.raises(InputError, match="no cell"):
        store.config(folder.name)


def test_asking_never_moves_a_damaged_cell_only_building_does(tmp_path):
    folder = Store(tmp_path).build(CONFIG, write_answer)
    (folder / "answer.txt").write_text("4 rows\n")
    assert not Store(tmp_path).valid(folder.name) and folder.exists()
    Store(tmp_path, say=lambda line: None).build(CONFIG, write_answer)
    assert [path.name.split(".")[0] for path in (tmp_path / "damaged").iterdir()] == [folder.name]


def test_empty_folder_in_the_place_of_a_cell_is_no_damage(tmp_path):
    said = []
    store = Store(tmp_path, say=said.append)
    store.path(cell_key(CONFIG)).mkdir(parents=True)
    store.build(CONFIG, write_answer)
    assert not said and store.valid(cell_key(CONFIG))


def test_sweep_leaves_what_another_process_is_building(tmp_path):
    context = multiprocessing.get_context("fork")
    process = context.Process(target=build_slowly, args=(tmp_path, tmp_path / "counter"))
    process.start()
    while not (tmp_path / "counter").exists():
        time.sleep(0.01)
    Store(tmp_path).sweep()
    process.join(20)
    assert process.exitcode == 0 and Store(tmp_path).valid(cell_key(CONFIG))
