"""Small kinds of cell for the tests of the store and of the schedule."""

import hashlib
import os
import signal
import time
from pathlib import Path

from interextra.store.cells import Cell


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


class Sleeping(Toy):
    """Notes its process in a file, then takes a minute; `is_deaf`: in C, where no handler of
    Python's is called.
    """

    begun: str
    is_deaf: bool = False
    name: str = "00_it"

    def build(self, folder, store):
        (folder / "half.txt").write_text("half")
        Path(self.begun).write_text(str(os.getpid()))
        if self.is_deaf:
            hashlib.pbkdf2_hmac("sha256", b"", b"", 300_000_000)
        else:
            time.sleep(60)


class FailingBeside(Toy):
    """Fails as soon as there is a file."""

    begun: str

    def build(self, folder, store):
        until = time.monotonic() + 30
        while not Path(self.begun).exists() and time.monotonic() < until:
            time.sleep(0.01)
        raise RuntimeError("disk full")


class Killed(Toy):
    def build(self, folder, store):
        os.kill(os.getpid(), signal.SIGKILL)


class OddError(Exception):
    """One that pickle cannot make again."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


class Odd(Toy):
    def build(self, folder, store):
        raise OddError("one", "two")


class Environment(Toy):
    """What its worker has in the environment."""

    def build(self, folder, store):
        (folder / "answer.txt").write_text(os.environ.get("NUMBA_DISABLE_JIT", "unset"))
