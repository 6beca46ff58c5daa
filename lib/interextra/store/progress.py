"""How far a run is: on a terminal, in lines, in a log, and for `interextra status` in another
shell.
"""

import fcntl
import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from interextra.store.cells import Cell
from interextra.store.files import SEAL
from interextra.store.folders import Store
from interextra.store.schedule import Job, n_workers

LOG, COLUMNS = "run.log", ("finished", "seconds", "worker", "key", "what")  # under outputs/<name>/
MINUTE = 60.0  # seconds between two lines
LONGEST = 1e9  # seconds that a result can have taken: a record with more is damaged
# seconds that count as computed just as estimated, so that the first small results set no speed
PRIOR = 10.0


def lasting(seconds: float) -> str:
    """
    >>> [lasting(seconds) for seconds in (41, 1260, 9000)]
    ['41 s', '21 min', '2.5 h']
    """
    minutes = f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
    return f"{seconds:.0f} s" if seconds < 90 else minutes


class State(NamedTuple):
    """How many results there are and are done, those being computed (key → since), and estimated
    seconds left.
    """

    results: int
    done: int
    running: dict[str, float]
    seconds_left: float

    def __str__(self) -> str:
        left = (
            f"about {lasting(self.seconds_left)} left"
            if self.done < self.results
            else "nothing left"
        )
        return f"{self.done:,} of {self.results:,} results done, {len(self.running) or 'none'} being computed, {left}"


class Results:
    """Some cells and what those that are missing need, as the store has them; no checksum is
    read.
    """

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

    def learn(self, key: str) -> float | None:
        """The seconds that a result took, which tell the speed of this machine; None where its
        record has none.
        """
        took = self.store.noted(self.store.root / key / "provenance.json").get("seconds")
        took = took.get("whole notebook") if isinstance(took, dict) else took
        if not isinstance(took, int | float) or not 0 <= took < LONGEST:
            return None
        self._took, self._estimated = self._took + took, self._estimated + self._seconds[key]
        return took

    def state(self) -> State:
        missing = [key for key in self.cells if not self.is_done(key)]
        running = {key: since for key in missing if (since := self._since(key))}
        left = (
            sum(self._seconds[key] for key in missing)
            * self._took
            / self._estimated
            / n_workers(len(missing) or 1)
        )
        return State(len(self.cells), len(self.cells) - len(missing), running, left)

    def _since(self, key: str) -> float | None:
        """When the building of a cell began; None for a folder that a killed process left, whose
        lock is free.
        """
        with suppress(FileNotFoundError), open(self.store.root / "locks" / key) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return (self.store.root / "building" / key).stat().st_mtime
        return None


class Progress(ExitStack):
    """Shows a run: `build_all` calls it. Live on a terminal, else a line a minute; what is computed
    goes to the log.
    """

    def __init__(self, store: Store, cells: Sequence[Cell], folder: Path):
        super().__init__()
        self.results, self.folder, self.live, self.shown = (
            Results(store, cells),
            folder,
            None,
            time.time(),
        )

    def __enter__(self) -> "Progress":
        if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            from rich.console import Console
            from rich.live import Live

            # a console of its own: the shared one keeps what stdout was when a library first used
            # it
            self.live = self.enter_context(
                Live(console=Console(), auto_refresh=False, transient=True)
            )
        return self

    def __call__(self, running: list[Job], ended: Job | None) -> None:
        if ended and (took := self.results.learn(ended.cell.key)) is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            what = " ".join(ended.cell.title().split())
            row = (
                time.strftime("%Y-%m-%dT%H:%M:%S%z"),
                f"{took:.3f}",
                str(ended.worker),
                ended.cell.key,
                what,
            )
            with open(self.folder / LOG, "a", encoding="utf-8") as file:
                rows = (row,) if os.fstat(file.fileno()).st_size else (COLUMNS, row)
                file.writelines("\t".join(row) + "\n" for row in rows)
        if self.live:
            self.live.update(self._drawn(running), refresh=True)
        elif time.time() - self.shown >= MINUTE:
            self.shown = time.time()
            named = (f"{job.cell.title()} ({lasting(self.shown - job.since)})" for job in running)
            print(f"{self.results.state()}: {', '.join(named)}".rstrip(": "), flush=True)

    def _drawn(self, running: list[Job]):
        """Results done and time left; a row a worker; the pages that are ready."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        state, bar = self.results.state(), Table.grid(padding=(0, 2))
        bar.add_row(ProgressBar(state.results, state.done, width=30), Text(str(state)))
        lines = [bar]
        for job in sorted(running, key=lambda job: job.worker):
            line = f"worker {job.worker}  {lasting(time.time() - job.since):>6}  {job.cell.title()}"
            lines.append(Text(line, no_wrap=True, overflow="ellipsis"))
        pages, index = len(list(self.folder.glob("[0-9][0-9]_*.html"))), self.folder / "index.html"
        if pages and index.is_file():
            ready = f"{pages} page{'s' * (pages > 1)} ready: "
            lines.append(Text.assemble(ready, (os.path.relpath(index), f"link {index.as_uri()}")))
        return Group(*lines)
