"""Checksums of large files are remembered, and a file that changed is read again."""

import hashlib
import json
import os
import shutil

import pytest
from toy_cells import Toy

from interextra.store import checksums
from interextra.store.checksums import Checksums
from interextra.store.folders import Store

CELL = Toy()


@pytest.fixture
def reads(monkeypatch):
    """Files that are read for a checksum; every file is large."""
    read = []
    digest = hashlib.file_digest

    def counted(file, name):
        read.append(os.path.basename(file.name))
        return digest(file, name)

    monkeypatch.setattr(checksums, "LARGE", 0)
    monkeypatch.setattr(checksums, "SETTLED", 0.05)
    monkeypatch.setattr(checksums.hashlib, "file_digest", counted)
    return read


def fresh(root) -> Store:
    """A store of a process that has read no checksum yet."""
    Store._valid.clear()
    return Store(root)


def test_a_large_file_is_read_when_it_is_sealed_and_never_again(tmp_path, reads):
    folder = Store(tmp_path).build(CELL)
    assert reads.count("answer.txt") == 1
    for _ in range(3):
        assert fresh(tmp_path).valid(CELL)
    assert reads.count("answer.txt") == 1
    assert not list(folder.glob("checksums*"))


def flip(path):
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    with open(path, "r+b") as file:
        file.write(data)


def flip_and_set_times(path):
    status = path.stat()
    flip(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace_by_other_content(path):
    status = path.stat()
    other = path.with_name("other")
    shutil.copy(path, other)
    flip(other)
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.replace(other, path)


@pytest.mark.parametrize("change", [flip, flip_and_set_times, replace_by_other_content])
def test_a_file_that_changed_is_noticed(tmp_path, reads, change):
    folder = Store(tmp_path).build(CELL)
    assert fresh(tmp_path).valid(CELL)
    change(folder / "answer.txt")
    assert not fresh(tmp_path).valid(CELL)
    assert fresh(tmp_path).build(CELL) == folder and fresh(tmp_path).valid(CELL)


def test_a_copy_of_a_store_is_read_itself(tmp_path, reads):
    Store(tmp_path / "here").build(CELL)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    reads.clear()
    assert fresh(tmp_path / "there").valid(CELL) and "answer.txt" in reads


@pytest.mark.parametrize("note", ["", "[]", "{", '{"1 2 3 4": "ab"}'])
def test_a_damaged_note_is_written_again(tmp_path, reads, note):
    Store(tmp_path).build(CELL)
    path = tmp_path / "checksums" / f"{CELL.key}.json"
    path.write_text(note)
    assert fresh(tmp_path).valid(CELL)
    assert len(json.loads(path.read_text())) >= 2


def test_small_files_are_read_each_time_and_leave_no_note(tmp_path):
    path = tmp_path / "small"
    path.write_text("a")
    remembered = Checksums(tmp_path / "notes" / "small.json")
    assert remembered.of(path) == hashlib.sha256(b"a").hexdigest()
    assert not remembered.note.exists()


def test_where_nothing_can_be_written_files_are_read(tmp_path, reads):
    path = tmp_path / "answer.txt"
    path.write_text("a")
    (tmp_path / "taken").write_text("no folder")
    remembered = Checksums(tmp_path / "taken" / "note.json")
    for _ in range(2):
        assert remembered.of(path) == hashlib.sha256(b"a").hexdigest()
    assert reads == ["answer.txt"] * 2


def test_notes_of_cells_that_are_gone_are_removed(tmp_path, reads):
    store = Store(tmp_path)
    shutil.rmtree(store.build(CELL))
    store.clean()
    assert not list((tmp_path / "checksums").iterdir())
