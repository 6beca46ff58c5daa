"""How far a run is: on a terminal, in lines, and for `interextra status` in another shell."""

import fcntl
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from interextra.ground.cells import Cell, Store
from interextra.ground.files import SEAL
from interextra.study.schedule import n_workers

MINUTE = 60.0  # seconds between two lines
PRIOR = 10.0  # seconds that count as computed just as estimated, so that the first small results set no speed


def lasting(seconds: float) -> str:
    """
    >>> [lasting(seconds) for seconds in (41, 1260, 9000)]
    ['41 s', '21 min', '2.5 h']
    """
    minutes = f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
    return f"{seconds:.0f} s" if seconds < 90 else minutes


class State(NamedTuple):
    """How many results there are and are done, what is being computed for how long, and estimated seconds left."""

    results: int
    done: int
    running: list[tuple[str, float]]
    seconds_left: float

    def __str__(self) -> str:
        left = f"about {lasting(self.seconds_left)} left" if self.done < self.results else "nothing left"
        return f"{self.done:,} of {self.results:,} results done, {len(self.running) or 'none'} being computed, {left}"

    @property
    def computing(self) -> list[str]:
        return [f"{what} ({lasting(seconds)})" for what, seconds in self.running]


class Results:
    """Some cells and what those that are missing need, as the store has them; no checksum is read."""

    def __init__(self, store: Store, cells: Iterable[Cell]):
        self.store, self.cells, todo = store, {}, list(cells)
        while todo:
            if (cell := todo.pop()).key not in self.cells:
                self.cells[cell.key] = cell
                todo += [] if self.is_done(cell.key) else cell.needs()
        self._seconds = {key: cell.seconds() for key, cell in self.cells.items()}
        self._took = self._estimated = PRIOR

    def is_done(self, key: str) -> bool:
        return (self.store.root / key / SEAL).is_file()

    def learn(self, key: str) -> None:
        """Note the seconds that a result took, which tell the speed of this machine, unless it was taken over."""
        record = self.store.noted(self.store.root / key / "provenance.json")
        took = record.get("seconds")
        took = took.get("whole notebook") if isinstance(took, dict) else took
        if took is not None and "taken over" not in record:
            self._took, self._estimated = self._took + took, self._estimated + self._seconds[key]

    def state(self) -> State:
        missing = [key for key in self.cells if not self.is_done(key)]
        found = [(self.cells[key].title(), since) for key in missing if (since := self._since(key))]
        running = [(what, time.time() - since) for what, since in found]
        left = sum(self._seconds[key] for key in missing) * self._took / self._estimated / n_workers(len(missing) or 1)
        return State(len(self.cells), len(self.cells) - len(missing), running, left)

    def _since(self, key: str) -> float | None:
        """When the building of a cell began; None for a folder that a killed process left, whose lock is free."""
        with suppress(FileNotFoundError), open(self.store.root / "locks" / key) as file:
            since = (self.store.root / "building" / key).stat().st_mtime
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return since
        return None


class Progress:
    """Shows a run whenever `build_all` calls it: live on a terminal, else a line a minute."""

    def __init__(self, store: Store, cells: Iterable[Cell]):
        self.results, self.shown = Results(store, cells), time.time()
        # a console of its own: the shared one keeps what stdout was when a library first used it
        self.live = Live(console=Console(), auto_refresh=False, transient=True)

    def __enter__(self) -> "Progress":
        self.live.start()
        return self

    def __exit__(self, *raised) -> None:
        self.live.stop()

    def __call__(self) -> None:
        if self.live.console.is_interactive:
            state = self.results.state()
            lines = Text("\n".join([str(state), *state.computing]), no_wrap=True, overflow="ellipsis")
            self.live.update(Group(lines, ProgressBar(state.results, state.done, width=30)), refresh=True)
        elif time.time() - self.shown >= MINUTE:
            self.shown, state = time.time(), self.results.state()
            print(f"{state}: {', '.join(state.computing)}".rstrip(": "), flush=True)
