"""Where a notebook finds what is shared, and where it writes."""

import os
from pathlib import Path

import pytest

from interextra.site import repository
from interextra.store.errors import InputError


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "home"


def read_only(folder, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != folder)


def test_in_a_repository_a_notebook_writes_there(root, home, monkeypatch):
    monkeypatch.chdir(root / "notebooks")
    assert repository.house() == root and not home.exists()


def test_elsewhere_it_writes_at_home_and_reads_what_is_shared(root, home):
    for _ in range(2):  # the second time the links are there
        own = repository.house()
    assert own == home / "interextra"
    assert (own / "params").samefile(root / "params")
    assert (own / "outputs" / "reference").samefile(root / "outputs" / "reference")
    (own / "outputs" / "lab").mkdir()
    assert not (own / "outputs").is_symlink()
    assert {path.name for path in repository.notebooks(own)} == {
        path.name for path in repository.notebooks(root)
    }


def test_in_a_repository_that_is_read_only_it_writes_at_home(root, home, monkeypatch):
    monkeypatch.chdir(root)
    read_only(root, monkeypatch)
    assert repository.house() == home / "interextra"


def test_a_link_to_an_earlier_installation_is_replaced(root, home, tmp_path):
    (home / "interextra").mkdir(parents=True)
    (home / "interextra" / "params").symlink_to(tmp_path / "gone")
    assert (repository.house() / "params").samefile(root / "params")


def test_without_any_repository_it_says_where_to_start(home, tmp_path, monkeypatch):
    monkeypatch.setattr(repository, "INSTALLED", tmp_path)
    with pytest.raises(InputError, match="start from the folder with notebooks/"):
        repository.house()
