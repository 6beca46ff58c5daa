"""What a run shows of itself: a live display on a terminal, else a line a minute; and a log of what it computed."""

import fcntl
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from interextra.ground.cells import Cell, Store
from interextra.study.schedule import Job, Results, State, lasting, n_workers

LOG, COLUMNS = "run.log", ("finished", "seconds", "worker", "key", "what")  # under outputs/<name>/
MINUTE = 60.0  # seconds between two lines


class Progress:
    """Shows a run: `build_all` calls it. Live on a terminal, else a line a minute; what is computed goes to the log."""

    def __init__(self, store: Store, cells: Sequence[Cell], folder: Path):
        self.results, self.folder, self.live, self.shown = Results(store, cells), folder, None, time.time()
        self.workers = n_workers(len(self.results.missing) or 1)

    def __enter__(self) -> "Progress":
        if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            from rich.live import Live

            self.live = Live(auto_refresh=False, transient=True)
            self.live.start()
        return self

    def __exit__(self, *raised) -> None:
        if self.live:
            self.live.stop()

    def __call__(self, running: list[Job], ended: Job | None) -> None:
        if ended and ended.seconds is not None:
            self._log(ended)
            self.results.learn([ended.cell.key])
        if self.live:
            self.live.update(self._drawn(running, self.results.state(self.workers)), refresh=True)
        elif time.time() - self.shown >= MINUTE:
            state, self.shown = self.results.state(self.workers), time.time()
            named = (f"{what} ({lasting(self.shown - since)})" for what, since in state.running.values())
            print(f"{state}: {', '.join(named)}".rstrip(": "), flush=True)

    def _log(self, job: Job) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        what = " ".join(job.cell.title().split())
        row = (time.strftime("%Y-%m-%dT%H:%M:%S%z"), f"{job.seconds:.3f}", str(job.worker), job.cell.key, what)
        with open(self.folder / LOG, "a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # another run may have the same name
            rows = (row,) if os.fstat(file.fileno()).st_size else (COLUMNS, row)
            file.writelines("\t".join(row) + "\n" for row in rows)

    def _drawn(self, running: list[Job], state: State):
        """Results done and time left; a row a worker; the pages that are ready."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        bar = Table.grid(padding=(0, 2))
        count, left = f"{state.done:,} of {state.results:,} results", f"about {lasting(state.seconds_left)} left"
        bar.add_row(Text(count), ProgressBar(state.results, state.done, width=30), Text(left))
        found = {job.cell.key: (f"worker {job.worker}", job.cell.title(), job.since) for job in running}
        others = {key: ("another run", *one) for key, one in state.running.items() if key not in found}
        width, lines = max((len(who) for who, *_ in (found | others).values()), default=0), [bar]
        for who, what, since in sorted((found | others).values()):
            line = f"{who:<{width}}  {lasting(time.time() - since):>6}  {what}"
            lines.append(Text(line, no_wrap=True, overflow="ellipsis"))
        pages, index = len(list(self.folder.glob("[0-9][0-9]_*.html"))), self.folder / "index.html"
        if pages and index.is_file():
            ready = f"{pages} page{'s' * (pages > 1)} ready: "
            lines.append(Text.assemble(ready, (os.path.relpath(index), f"link {index.as_uri()}")))
        return Group(*lines)


def logged(folder: Path) -> set[str]:
    """Keys of the results that runs of this name computed."""
    lines = (folder / LOG).read_text(encoding="utf-8").splitlines() if (folder / LOG).is_file() else []
    return {line.split("\t")[COLUMNS.index("key")] for line in lines[1:] if line.count("\t") == len(COLUMNS) - 1}
