"""Cells in as many single-threaded worker processes as there are cores, or as there are GPUs, dependencies first."""

import fcntl
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pandas as pd

from interextra.ground.cells import Cell, Store
from interextra.ground.files import SEAL

# One thread a process: two torch processes with two threads each run eight times slower. And glibc keeps large arrays
# of a training step instead of giving them back after each: about a third less time with a large vocabulary.
WORKER = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
WORKER |= {"MALLOC_MMAP_THRESHOLD_": str(2**32), "MALLOC_TRIM_THRESHOLD_": str(2**33)}
GPUS = Path("/proc/driver/nvidia/gpus")
TICK = 1.0  # seconds between two looks at the running workers
PRIOR = 10.0  # seconds that count as computed just as estimated, so that the first small results set no speed


class Job(NamedTuple):
    """A cell and its worker, a number from 1."""

    cell: Cell
    worker: int
    since: float  # as `time.time` has it
    seconds: float | None = None  # what it took; None while it runs, and where nothing had to be computed


def build_all(
    store: Store,
    cells: Sequence[Cell],
    done: Callable[[Cell], None] = lambda cell: None,
    watch: Callable[[list[Job], Job | None], None] = lambda running, ended: None,
) -> list[Cell]:
    """Compute the cells that are missing or damaged, and what they need; returns what had to be computed.

    Whatever can start does, in the order of `cells`: results of a later notebook while an earlier one is executed.
    `done(cell)` is called after each. The first failure ends all. `watch` gets the running jobs every `TICK` seconds
    (and None), and whenever one has ended that one too.
    """
    missing = {cell.key: cell for cell in store.missing(cells)}
    for cell in missing.values():
        store.plan(cell)
    if not missing:
        return []
    needed = {key: {need.key for need in cell.needs()} & missing.keys() for key, cell in missing.items()}
    graph, order = TopologicalSorter(needed), {key: place for place, key in enumerate(missing)}
    graph.prepare()
    ready, running = [], {}
    with _workers(len(missing)) as pool:
        free = list(range(pool._max_workers, 0, -1))
        while graph.is_active():
            ready = sorted([*ready, *graph.get_ready()], key=order.__getitem__)
            while ready and free:
                job = Job(missing[ready.pop(0)], free.pop(), time.time())
                running[pool.submit(_computed, store.root, job.cell)] = job
            watch(list(running.values()), None)
            for future in wait(running, TICK, FIRST_COMPLETED).done:
                job = running.pop(future)
                try:
                    seconds = future.result()
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
                free.append(job.worker)
                graph.done(job.cell.key)
                watch(list(running.values()), job._replace(seconds=seconds))
                done(job.cell)
    return list(missing.values())


class _Timed(Store):
    """Notes how long the last cell took; nothing where it was taken over, or where another process computed it."""

    seconds: float | None = None

    def _build(self, cell: Cell) -> None:
        begin = time.perf_counter()
        super()._build(cell)
        self.seconds = time.perf_counter() - begin


def _computed(root: Path, cell: Cell) -> float | None:
    store = _Timed(root)
    store.build(cell)
    return store.seconds


def n_workers(n_cells: int) -> int:
    """How many of them this machine computes at once."""
    return min(_n_gpus() or os.cpu_count() or 1, n_cells)


def _n_gpus() -> int:
    return len(list(GPUS.iterdir())) if GPUS.is_dir() else 0


@contextmanager
def _workers(n_cells: int):
    n, n_gpus = n_workers(n_cells), _n_gpus()
    context = multiprocessing.get_context("spawn")
    places = context.Queue()
    for place in range(n):
        places.put(place % n_gpus if n_gpus else None)
    with patch.dict(os.environ, WORKER), ProcessPoolExecutor(n, context, _start_worker, (places,)) as pool:
        yield pool


def _start_worker(places) -> None:
    """Take a GPU, if there is one, and end with the parent: a worker whose parent was killed must not go on."""
    gpu, parent = places.get(), os.getppid()
    if gpu is not None and "CUDA_VISIBLE_DEVICES" not in os.environ:
        os.environ["CUDA_VISIBLE_DEVICES"] = str(gpu)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def lasting(seconds: float) -> str:
    """
    >>> [lasting(seconds) for seconds in (41, 1260, 9000)]
    ['41 s', '21 min', '2.5 h']
    """
    minutes = f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
    return f"{seconds:.0f} s" if seconds < 90 else minutes


class State(NamedTuple):
    """How many results there are and are done, those being computed (key → title, since), estimated seconds left."""

    results: int
    done: int
    running: dict[str, tuple[str, float]]
    seconds_left: float

    def __str__(self) -> str:
        left = f"about {lasting(self.seconds_left)} left" if self.done < self.results else "nothing left"
        return f"{self.done:,} of {self.results:,} results done, {len(self.running) or 'none'} being computed, {left}"


class Results:
    """Some cells and all that they need, as the store has them.

    No checksum is read: a damaged result counts as done until a run finds it. What is gone and needed by no missing
    result, such as old weights, does not count.
    """

    def __init__(self, store: Store, cells: Iterable[Cell]):
        self.store, self.missing, found, todo = store, {}, {}, [(cell, True) for cell in cells]
        while todo:
            cell, is_needed = todo.pop()
            is_missing = is_needed and not self._is_done(cell.key)
            if cell.key not in found or (is_missing and cell.key not in self.missing):
                found[cell.key] = cell
                self.missing |= {cell.key: cell} if is_missing else {}
                todo += [(part, is_missing) for part in cell.needs()]
        self.cells = {key: cell for key, cell in found.items() if key in self.missing or self._is_done(key)}
        self._took = self._estimated = PRIOR

    def _is_done(self, key: str) -> bool:
        return (self.store.root / key / SEAL).is_file()

    @cached_property
    def _seconds(self) -> dict[str, float]:
        return {key: cell.seconds() for key, cell in self.cells.items()}

    def learn(self, keys: Iterable[str]) -> None:
        """Take the speed of this machine from what some of the results took."""
        for key in keys:
            record = self.store.noted(self.store.root / key / "provenance.json")
            took = record.get("seconds")
            took = took.get("whole notebook") if isinstance(took, dict) else took
            if took is not None and "taken over" not in record:
                self._took, self._estimated = self._took + took, self._estimated + self._seconds[key]

    def state(self, workers: int = 0) -> State:
        """The state now. `workers` share what is left; 0: as many as compute now, or where none does this machine's."""
        self.missing = {key: cell for key, cell in self.missing.items() if not self._is_done(key)}
        folder, now = self.store.root / "building", time.time()
        begun = {key: self._since(key) for key in os.listdir(folder) if key in self.missing} if folder.is_dir() else {}
        begun = dict(sorted(((key, since) for key, since in begun.items() if since), key=lambda pair: pair[1]))
        rest = {key: self._seconds[key] * self._took / self._estimated for key in self.missing}
        # what has taken longer than estimated goes on for a tenth of that
        rest |= {key: max(rest[key] - (now - since), (now - since) / 10) for key, since in begun.items()}
        left = sum(rest.values()) / (workers or len(begun) or n_workers(len(rest) or 1))
        running = {key: (self.missing[key].title(), since) for key, since in begun.items()}
        return State(len(self.cells), len(self.cells) - len(rest), running, max(left, *rest.values(), 0.0))

    def _since(self, key: str) -> float | None:
        """When the building of a cell began; None where its folder was left by a process that is gone."""
        lock = self.store.root / "locks" / key
        with suppress(FileNotFoundError), open(lock) as file:
            since = min(path.stat().st_mtime for path in (lock, self.store.root / "building" / key))
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return since
        return None


def described(store: Store, cells: Sequence[Cell]) -> list[dict]:
    """A row a cell with all it needs, those first: key, state (`done`, `todo`), what, needs, and as estimates seconds
    and megabytes on disk."""
    missing = {cell.key: cell for cell in store.missing(cells)}
    rows = []
    for key, cell in (missing | {cell.key: cell for cell in cells}).items():
        store.plan(cell)
        row = {"key": key, "state": "todo" if key in missing else "done", "what": cell.title()}
        row |= {"seconds": cell.seconds(), "megabytes": cell.megabytes()}
        rows.append(row | {"needs": [need.key for need in cell.needs() if need.key in missing]})
    return rows


def priced(rows: Mapping[str, list[dict]], cores: int) -> dict[str, pd.DataFrame]:
    """What notebooks cost, from the rows of `described` of each: a table a notebook, and one of all of them.

    Each is a DataFrame[results, to_compute, seconds, MB, hours on N cores] with a row a kind of result (or a notebook),
    the last one their sum. What several notebooks need costs the first of them.
    """
    frame = pd.concat(pd.DataFrame(found).assign(notebook=name) for name, found in rows.items())
    kind, todo = frame["what"].str.split(" · ").str[0], frame["state"].eq("todo") & ~frame["key"].duplicated()
    counts = {"results": 1, "to_compute": todo, "seconds": frame["seconds"] * todo, "MB": frame["megabytes"] * todo}
    counts[f"hours on {cores} cores"] = counts["seconds"] / 3600 / cores
    frame = frame.assign(kind=kind, **counts)

    def summed(part: pd.DataFrame, by: str) -> pd.DataFrame:
        table = part.groupby(by, sort=False)[list(counts)].sum()
        return pd.concat([table, table.sum().to_frame("in all").T])

    tables = {str(name): summed(part, "kind") for name, part in frame.groupby("notebook", sort=False)}
    return tables | {"all notebooks": summed(frame, "notebook")}
