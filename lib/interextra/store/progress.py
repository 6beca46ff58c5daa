"""How far a run is: on a terminal, in lines, in a log, and for `interextra status` elsewhere."""

import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from interextra.store.cells import Cell
from interextra.store.folders import Store
from interextra.store.schedule import Job, n_workers

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.live import Live

LOG = "run.log"  # under outputs/<name>/
COLUMNS = ("finished", "seconds", "worker", "key", "what")  # of the log
NOTE = "step.json"  # below the folder of a result that is being built: step, steps, loss
MINUTE = 60.0  # seconds between two lines
NEARLY_DONE = 0.9  # share that a result without steps can have by the clock alone
LONGEST = 1e9  # seconds that a result can have taken: a record with more is damaged
# seconds that count as computed just as estimated, so that the first small results set no speed
PRIOR = 10.0


def lasting(seconds: float) -> str:
    """Write a time as a reader would say it.

    Examples
    --------
    >>> [lasting(seconds) for seconds in (41, 1260, 9000)]
    ['41 s', '21 min', '2.5 h']
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def as_estimated(cell: Cell) -> float:
    """Return the seconds of a cell by its own estimate."""
    return cell.seconds()


class State(NamedTuple):
    """How many results there are and are done, and what is being computed.

    `running`: key → since when; `seconds_left`: an estimate; `share`: of the work, as it is priced,
    with the steps of trainings that are under way.
    """

    results: int
    done: int
    running: dict[str, float]
    seconds_left: float
    share: float = 0.0

    def __str__(self) -> str:
        """Say it in a sentence."""
        done = f"{self.done:,} of {self.results:,} results done"
        return f"{done}, {self._running_and_left()}"

    def by_work(self) -> str:
        """Say it by the share of the work, where results differ much in what they cost."""
        return f"{100 * self.share:.0f} % done, {self._running_and_left()}"

    def _running_and_left(self) -> str:
        """Say how many results are being computed, and how long the others will take."""
        n_running = len(self.running) or "none"
        left = "nothing left"
        if self.done < self.results:
            left = f"about {lasting(self.seconds_left)} left"
        return f"{n_running} being computed, {left}"


class Step(NamedTuple):
    """How far a training is: a step, of so many steps, and the loss that was noted last, if any."""

    step: int = 0
    steps: int = 1
    loss: float | None = None

    @classmethod
    def of(cls, note: dict[str, Any]) -> "Step":
        """Read a NOTE, which another process may just be writing or removing."""
        if not note:
            return cls()
        losses = note["loss"]
        loss = losses[0] if losses else None
        return cls(note["step"], note["steps"], loss)

    @property
    def share(self) -> float:
        """Which share of the steps is done."""
        return self.step / self.steps

    def __str__(self) -> str:
        """Say it, after a comma; nothing before the first note."""
        if not self.step:
            return ""
        step = f", step {self.step:,} of {self.steps:,}"
        if self.loss is None:
            return step
        return f"{step}, loss {self.loss:.3f}"


class Results:
    """Some cells and what those that are missing need, as the store has them.

    No checksum is read.

    Parameters
    ----------
    store
        Where cells are kept.
    cells
        What is asked for.
    price
        Returns the estimated seconds of a cell.
    """

    def __init__(
        self, store: Store, cells: Iterable[Cell], price: Callable[[Cell], float] = as_estimated
    ):
        self.store = store
        self.cells: dict[str, Cell] = {}
        self._done: set[str] = set()
        todo = list(cells)
        while todo:
            cell = todo.pop()
            if cell.key not in self.cells:
                self.cells[cell.key] = cell
                if not self.is_done(cell.key):
                    todo += cell.needs()
        self._seconds = {key: price(cell) for key, cell in self.cells.items()}
        self._took = self._estimated = PRIOR

    def is_done(self, key: str) -> bool:
        """Whether a result is there, made by code that still holds."""
        if key not in self._done and self.store.is_there(self.cells[key]):
            self._done.add(key)
        return key in self._done

    def learn(self, key: str) -> float | None:
        """Return the seconds that a result took, which tell the speed of this machine.

        None where its record has none.
        """
        record = self.store.noted(self.store.root / key / "provenance.json")
        seconds = record.get("seconds")
        if isinstance(seconds, dict):
            seconds = seconds.get("whole notebook")
        if not isinstance(seconds, int | float) or not 0 <= seconds < LONGEST:
            return None
        self._took += seconds
        self._estimated += self._seconds[key]
        return seconds

    def state(self) -> State:
        """Return how far they are."""
        missing = [key for key in self.cells if not self.is_done(key)]
        since = {key: self._since(key) for key in missing}
        running = {key: begin for key, begin in since.items() if begin}
        speed = self._speed(running)
        estimated = sum(self._seconds[key] for key in missing)
        for key, begin in running.items():
            estimated -= self._seconds[key] * self._share_done(key, begin, speed)
        seconds_left = estimated / speed / n_workers(len(missing) or 1)
        n_results = len(self.cells)
        share = 1 - estimated / (sum(self._seconds.values()) or 1.0)
        return State(n_results, n_results - len(missing), running, seconds_left, share)

    def step(self, key: str) -> "Step":
        """Return how far the training of a cell is that is being built, by its NOTE."""
        with suppress(OSError):  # the folder goes to its place just now
            building = self.store.root / "building" / key
            for path in building.glob(f"**/{NOTE}"):
                return Step.of(self.store.noted(path))
        return Step()

    def _speed(self, running: dict[str, float]) -> float:
        """Return the estimated seconds a second, of what is done and of trainings under way."""
        took, estimated = self._took, self._estimated
        for key, begin in running.items():
            share = self.step(key).share
            if share:
                took += time.time() - begin
                estimated += share * self._seconds[key]
        return estimated / took

    def _share_done(self, key: str, begin: float, speed: float) -> float:
        """Return which share of a cell is done: by its steps, else by its price and the clock."""
        step = self.step(key)
        if step.step or not self._seconds[key]:
            return step.share
        estimated_so_far = speed * (time.time() - begin)
        return min(estimated_so_far / self._seconds[key], NEARLY_DONE)

    def _since(self, key: str) -> float | None:
        """Return when the building of a cell began.

        None for a folder that a killed process left, whose lock is free.
        """
        with suppress(FileNotFoundError), open(self.store.root / "locks" / key) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return (self.store.root / "building" / key).stat().st_mtime
        return None


class Progress(ExitStack):
    """Shows a run, as `build_all` calls it: live on a terminal, else a line a minute.

    What is computed goes to the log.

    Parameters
    ----------
    store
        Where cells are kept.
    cells
        What is asked for.
    folder
        Of the run, under outputs/.
    price
        Returns the seconds of a cell on this machine, by which it is said how far they are; without
        it the results are counted.
    least
        Share of the work that was shown before: the share that is shown never falls.
    """

    def __init__(
        self,
        store: Store,
        cells: Sequence[Cell],
        folder: Path,
        price: Callable[[Cell], float] | None = None,
        least: float = 0.0,
    ):
        super().__init__()
        self.share = least  # of the work, as it was shown last
        self.results = Results(store, cells, price or as_estimated)
        self.formatted = State.by_work if price else State.__str__
        self.folder = folder
        self.live: Live | None = None
        self.shown = time.time()

    def __enter__(self) -> Self:
        """Begin to show it."""
        if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            from rich.console import Console
            from rich.live import Live

            # not the shared console, which keeps what stdout was when a library first used it
            live = Live(console=Console(), auto_refresh=False, transient=True)
            self.live = self.enter_context(live)
        return self

    def __call__(self, running: list[Job], ended: Job | None) -> None:
        """Show what is running, and log what has ended."""
        if ended:
            self._log(ended)
        if self.live:
            self.live.update(self._drawn(running), refresh=True)
        elif time.time() - self.shown >= MINUTE:
            self.shown = time.time()
            jobs = []
            for job in running:
                so_far = lasting(self.shown - job.since)
                step = self.results.step(job.cell.key)
                jobs.append(f"{job.cell.title()} ({so_far}{step})")
            overview = self.formatted(self._state())
            line = f"{overview}: {', '.join(jobs)}"
            print(line.rstrip(": "), flush=True)

    def _state(self) -> State:
        """Return how far they are.

        An estimate may turn out too high, as of what has no steps: then the share waits.
        """
        state = self.results.state()
        self.share = max(self.share, state.share)
        return state._replace(share=self.share)

    def _log(self, ended: Job) -> None:
        """Add a line to the log, if the result's record says how long it took."""
        seconds = self.results.learn(ended.cell.key)
        if seconds is None:
            return
        finished = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        cell = ended.cell
        what = " ".join(cell.title().split())
        row = (finished, f"{seconds:.3f}", ended.worker, cell.key, what)
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / LOG, "a", encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_size == 0:
                print(*COLUMNS, sep="\t", file=file)
            print(*row, sep="\t", file=file)

    def _drawn(self, running: list[Job]) -> "Group":
        """Return results done and time left; a row a worker; the pages that are ready."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        state = self._state()
        overview = Table.grid(padding=(0, 2))
        bar = ProgressBar(1.0, state.share, width=30)
        overview.add_row(bar, Text(self.formatted(state)))
        lines: list[RenderableType] = [overview]
        for job in sorted(running, key=lambda job: job.worker):
            so_far = lasting(time.time() - job.since)
            step = self.results.step(job.cell.key)
            title = job.cell.title()
            line = f"worker {job.worker}  {so_far:>6}  {title}{step}"
            lines.append(Text(line, no_wrap=True, overflow="ellipsis"))
        n_pages = len(list(self.folder.glob("[0-9][0-9]_*.html")))
        index = self.folder / "index.html"
        if n_pages and index.is_file():
            ready = "1 page ready: " if n_pages == 1 else f"{n_pages} pages ready: "
            link = (os.path.relpath(index), f"link {index.as_uri()}")
            lines.append(Text.assemble(ready, link))
        return Group(*lines)
