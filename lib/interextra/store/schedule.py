"""Cells in as many worker processes as there are cores or GPUs, dependencies first."""

import os
import time
from collections.abc import Callable, Sequence
from graphlib import TopologicalSorter
from typing import NamedTuple

from interextra.store.cells import Cell
from interextra.store.folders import Store
from interextra.store.workers import PATIENCE, Worker, first_ended, gpus, stop


class Job(NamedTuple):
    """A cell that a worker, a number from 1, computes since a time (of `time.time`)."""

    cell: Cell
    worker: int
    since: float


Done = Callable[[Cell], object]  # gets a cell that is finished
Watch = Callable[[list[Job], Job | None], object]  # gets the running jobs, and one that has ended


def _do_nothing(*args: object) -> None:
    pass


def build_all(
    store: Store,
    cells: Sequence[Cell],
    done: Done = _do_nothing,
    watch: Watch = _do_nothing,
) -> list[Cell]:
    """Compute the cells that are missing or damaged, and what they need.

    Whatever can start does, in the order of `cells`: results of a later notebook while an earlier
    one is executed, and the last but one waits until the results that the last one needs are begun,
    so that fewer cores idle at the end.

    The first failure, or an exception from outside (Ctrl-C), ends all: what runs beside it is
    stopped and leaves no result, what is finished stays.

    Parameters
    ----------
    store
        Where they are kept.
    cells
        What is asked for.
    done
        Is called with each cell that is finished.
    watch
        Gets the running jobs every second, and one that has ended.

    Returns
    -------
    list of Cell
        What had to be computed.

    Raises
    ------
    WorkerLostError
        A worker was killed.
    Exception
        Whatever a cell raised, with the traceback of its worker as a note.
    """
    missing = _in_order(store.missing(cells), cells)
    for cell in missing.values():
        store.plan(cell)
    if missing:
        pool = Pool(store, n_workers(len(missing)))
        try:
            _run(pool, missing, done, watch)
        except BaseException:
            stop(pool.workers.values())
            raise
        stop(pool.workers.values(), PATIENCE)
    return list(missing.values())


def _in_order(missing: Sequence[Cell], cells: Sequence[Cell]) -> dict[str, Cell]:
    """Return the missing cells by key, the last but one of those that are asked for at the end."""
    ordered = {cell.key: cell for cell in missing}
    for last_but_one in cells[-2:-1]:
        if last_but_one.key in ordered:
            ordered[last_but_one.key] = ordered.pop(last_but_one.key)
    return ordered


class Pool:
    """Workers, some of which compute a cell.

    Parameters
    ----------
    store
        Where cells are kept.
    size
        How many workers there may be; one is started when it is needed.
    """

    def __init__(self, store: Store, size: int):
        self.store = store
        self.workers: dict[int, Worker] = {}
        self.jobs: dict[Worker, Job] = {}
        self.free = list(range(size, 0, -1))  # numbers of workers

    def begin(self, cell: Cell) -> None:
        """Let a free worker compute a cell."""
        number = self.free.pop()
        if number not in self.workers:
            self.workers[number] = Worker(number)
        worker = self.workers[number]
        worker.begin(self.store, cell)
        self.jobs[worker] = Job(cell, number, time.time())

    def ended(self, seconds: float) -> list[Job]:
        """Wait so long at most; return the jobs that have ended, or raise what one raised."""
        jobs = []
        for worker in first_ended(self.jobs, seconds):
            job = self.jobs.pop(worker)
            worker.end(job.cell)
            self.free.append(job.worker)
            jobs.append(job)
        return jobs


def _run(pool: Pool, missing: dict[str, Cell], done: Done, watch: Watch) -> None:
    """Compute cells in a pool: those that can start, in their order."""
    graph: TopologicalSorter[str] = TopologicalSorter()
    for key, cell in missing.items():
        needed_keys = {needed.key for needed in cell.needs()}
        graph.add(key, *needed_keys & missing.keys())
    graph.prepare()
    place = {key: at for at, key in enumerate(missing)}
    ready: list[str] = []
    while graph.is_active():
        ready += graph.get_ready()
        ready.sort(key=place.__getitem__)
        while ready and pool.free:
            pool.begin(missing[ready.pop(0)])
        watch(list(pool.jobs.values()), None)
        for job in pool.ended(1.0):
            graph.done(job.cell.key)
            watch(list(pool.jobs.values()), job)
            done(job.cell)


def n_workers(n_cells: int) -> int:
    """Return how many cells this machine computes at once.

    One on each GPU that this process may use, else on each core.
    """
    return min(len(gpus()) or n_cores(), n_cells)


def n_cores() -> int:
    """Return how many cores this process may use; in a job of Slurm, those that it was given."""
    n_allowed = len(os.sched_getaffinity(0))
    allocated = os.environ.get("SLURM_CPUS_PER_TASK", "")
    if allocated.isdecimal():
        return max(1, min(int(allocated), n_allowed))
    return n_allowed
