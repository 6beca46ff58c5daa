"""Small kinds of cell for the tests of the store and of the schedule."""

import os
import time
from pathlib import Path

from interextra.ground.cells import Cell


class Toy(Cell):
    n: int = 3
    note: str = ""
    needed: tuple[Cell, ...] = ()

    def build(self, folder, store):
        for cell in self.needed:
            assert (store[cell] / "answer.txt").is_file()
        (folder / "part").mkdir()
        (folder / "answer.txt").write_text(f"{self.n} rows\n")
        (folder / "part" / "more.txt").write_text("more\n")


class Slow(Toy):
    counter: str

    def build(self, folder, store):
        with open(self.counter, "a") as file:
            file.write("x")
        time.sleep(0.5)
        super().build(folder, store)


class Visible(Toy):
    """The GPU that its worker sees."""

    def build(self, folder, store):
        (folder / "answer.txt").write_text(os.environ["CUDA_VISIBLE_DEVICES"])


class Failing(Toy):
    def build(self, folder, store):
        super().build(folder, store)
        raise RuntimeError("disk full")


class Stuck(Toy):
    def build(self, folder, store):
        assert not list(folder.iterdir())
        (folder / "answer.txt").write_text("half")
        if not Path(self.note).exists():
            Path(self.note).touch()
            time.sleep(60)
