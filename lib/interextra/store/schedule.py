"""Cells in as many single-threaded worker processes as there are cores, or as there are GPUs,
dependencies first.
"""

import gc
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from graphlib import TopologicalSorter
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import NamedTuple

from interextra.store.cells import Cell
from interextra.store.folders import Store
from interextra.store.processor import environment, instructions

# One thread a process: two torch processes with two threads each run eight times slower. And glibc
# keeps large arrays of a training step instead of giving them back after each: about a third less
# time with a large vocabulary; on huge pages, where Linux offers them: up to 6 % less.
WORKER = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
WORKER |= {"MALLOC_MMAP_THRESHOLD_": str(2**32), "MALLOC_TRIM_THRESHOLD_": str(2**33)}
WORKER["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
WORKER["NUMBA_DISABLE_JIT"] = (
    "1"  # ranx: each process compiles for half a minute what takes a second uncompiled
)
GPUS = Path("/proc/driver/nvidia/gpus")
STOPPING = (signal.SIGINT, signal.SIGTERM)  # what ends a run from outside
GRACE = 0.5  # seconds for a stopped worker to remove what it has half built, before it is killed


class WorkerLost(RuntimeError):
    """The process that computed a cell was ended by the system, or by the cell."""


class Job(NamedTuple):
    """A cell that a worker, a number from 1, computes since a time (of `time.time`)."""

    cell: Cell
    worker: int
    since: float


def build_all(
    store: Store,
    cells: Sequence[Cell],
    done: Callable[[Cell], None] = lambda cell: None,
    watch: Callable[[list[Job], Job | None], None] = lambda running, ended: None,
) -> list[Cell]:
    """Compute the cells that are missing or damaged, and what they need; returns what had to be
    computed.

    Whatever can start does, in the order of `cells`: results of a later notebook while an earlier
    one is executed, and the last but one waits until the results that the last one needs are begun,
    so that fewer cores idle at the end. `watch` gets the running jobs every second, and one that
    has ended.

    The first failure, or an exception from outside (Ctrl-C), ends all: what runs beside it is
    stopped and leaves no result, what is finished stays.

    Raises
    ------
    WorkerLost
        a worker was killed.
    Exception
        whatever a cell raised, with the traceback of its worker as a note.
    """
    missing = {cell.key: cell for cell in store.missing(cells)}
    missing |= {cell.key: missing.pop(cell.key) for cell in cells[-2:-1] if cell.key in missing}
    for cell in missing.values():
        store.plan(cell)
    if not missing:
        return []
    needed = {
        key: {need.key for need in cell.needs()} & missing.keys() for key, cell in missing.items()
    }
    graph, order = TopologicalSorter(needed), {key: place for place, key in enumerate(missing)}
    graph.prepare()
    workers, running, ready = {}, {}, []  # Worker by its number, Job by its worker
    free = list(range(n_workers(len(missing)), 0, -1))
    try:
        while graph.is_active():
            ready = sorted([*ready, *graph.get_ready()], key=order.__getitem__)
            while ready and free:
                job = Job(missing[ready.pop(0)], free.pop(), time.time())
                if job.worker not in workers:
                    with (
                        _held_back()
                    ):  # a worker is known, and will be stopped, before the signal counts
                        workers[job.worker] = Worker(job.worker)
                workers[job.worker].begin(store, job.cell)
                running[workers[job.worker]] = job
            watch(list(running.values()), None)
            for worker in _ended(running, 1.0):
                job = running.pop(worker)
                worker.end(job.cell)
                free.append(job.worker)
                graph.done(job.cell.key)
                watch(list(running.values()), job)
                done(job.cell)
    finally:
        _stop(workers.values())
    return list(missing.values())


def n_workers(n_cells: int) -> int:
    """How many of them this machine computes at once: no more than it has GPUs, where it has
    some.
    """
    return min(len(list(GPUS.glob("*"))) or os.cpu_count() or 1, n_cells)


class Worker:
    """A process that computes one cell after another, a number from 1; it ends with its parent."""

    def __init__(self, number: int):
        context = multiprocessing.get_context("spawn")
        gpu = number - 1 if any(GPUS.glob("*")) else None
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, gpu))
        with environment(instructions() | dict(os.environ) | WORKER):
            self.process.start()
        theirs.close()  # so that the pipe breaks when the process ends

    def begin(self, store: Store, cell: Cell) -> None:
        with suppress(ConnectionError):  # the process is gone: `end` says so
            self.pipe.send((Store(store.root), cell))

    def end(self, cell: Cell) -> None:
        """Raise what the cell raised, if anything; WorkerLost where its process is gone."""
        try:
            error = self.pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join(GRACE)
            code = self.process.exitcode
            how = (
                f"was killed by signal {-code} (out of memory?)"
                if code and code < 0
                else f"ended with code {code}"
            )
            todo = "start again: results that are finished are kept"
            raise WorkerLost(
                f"{cell.title()}: the process that computed it {how}; {todo}"
            ) from None
        if error:
            raise error


def _ended(running: Collection[Worker], seconds: float) -> list[Worker]:
    """The workers whose cell is finished or whose process is gone, waiting for the first of them so
    long at most.
    """
    by_pipe = {worker.pipe: worker for worker in running}
    return [by_pipe[pipe] for pipe in wait_for(list(by_pipe), seconds)]


def _stop(workers: Iterable[Worker]) -> None:
    """End all of them, by force where they do not end by themselves, with the processes that they
    started.
    """
    workers = list(workers)
    for worker in workers:
        worker.pipe.close()
        worker.process.terminate()
    until = time.monotonic() + GRACE
    for worker in workers:
        worker.process.join(max(0.0, until - time.monotonic()))
    for worker in workers:
        if worker.process.is_alive():
            with suppress(ProcessLookupError):  # it has no group of its own before it works
                os.killpg(worker.process.pid, signal.SIGKILL)
            worker.process.kill()
            worker.process.join()


@contextmanager
def _held_back() -> Iterator[None]:
    """What ends a run from outside is held back during a block, and by a process that is started in
    it.
    """
    # multiprocessing would start it in the block and end the block
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection, gpu: int | None) -> None:
    """Compute what comes through the pipe; None or an exception goes back for each.

    In a group of its own, so that Ctrl-C reaches the parent alone, and what this process started
    can be killed with it.
    """
    os.setpgid(0, 0)
    signal.signal(
        signal.SIGTTOU, signal.SIG_IGN
    )  # a terminal may stop a group in the background that writes to it
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.signal(signal.SIGTERM, _leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if gpu is not None and "CUDA_VISIBLE_DEVICES" not in os.environ:
        os.environ["CUDA_VISIBLE_DEVICES"] = str(gpu)
    with suppress(EOFError, ConnectionError):  # the parent needs no more
        while True:
            pipe.send(_outcome(pipe.recv_bytes()))


def _leave(number: int, frame: object) -> None:
    """End this worker, once: what it half built is removed on the way, and what it would say is of
    no use.
    """
    signal.signal(number, signal.SIG_IGN)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    raise SystemExit(128 + number)


def _end_with_parent() -> None:
    """A worker whose parent was killed must not go on, nor what it started."""
    parent = multiprocessing.parent_process().pid
    while os.getppid() == parent:
        time.sleep(0.5)
    os.killpg(0, signal.SIGKILL)


def _outcome(asked: bytes) -> Exception | None:
    """Build a cell that was asked for; returns its exception as another process can read it."""
    try:
        _build(*pickle.loads(asked))
        return None
    except Exception as error:
        told = "".join(traceback.format_exception(error))
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # of a library: its own form does not come through a pipe
            error = RuntimeError(f"{type(error).__name__}: {error}")
        error.add_note(f"in a worker:\n{told}")
        return error


def _build(store: Store, cell: Cell) -> None:
    store.build(cell)
    if "torch" in sys.modules and not gc.get_freeze_count():
        gc.collect()
        # every training starts with a garbage collection: half of a short one, over all that is
        # imported
        gc.freeze()


def described(store: Store, cells: Sequence[Cell]) -> list[dict]:
    """A row a cell, after those it needs: key, state (`done`, `todo`), what, needs; estimated
    seconds, megabytes.
    """
    missing = {cell.key: cell for cell in store.missing(cells)}
    rows = []
    for key, cell in (missing | {cell.key: cell for cell in cells}).items():
        store.plan(cell)
        row = {"key": key, "state": "todo" if key in missing else "done", "what": cell.title()}
        row |= {"seconds": cell.seconds(), "megabytes": cell.megabytes()}
        rows.append(row | {"needs": [need.key for need in cell.needs() if need.key in missing]})
    return rows


def priced(rows: Mapping[str, list[dict]], cores: int) -> dict:
    """What notebooks cost, from the rows of `described` of each: a table a notebook, and one of all
    of them.

    Each is a DataFrame[results, to_compute, seconds, MB, hours on N cores] with a row a kind of
    result (or a notebook), the last one their sum. What several notebooks need costs the first of
    them.
    """
    import pandas as pd

    frame = pd.concat(pd.DataFrame(found).assign(notebook=name) for name, found in rows.items())
    kind, todo = (
        frame["what"].str.split(" · ").str[0],
        frame["state"].eq("todo") & ~frame["key"].duplicated(),
    )
    counts = {
        "results": 1,
        "to_compute": todo,
        "seconds": frame["seconds"] * todo,
        "MB": frame["megabytes"] * todo,
    }
    counts[f"hours on {cores} cores"] = counts["seconds"] / 3600 / cores
    frame = frame.assign(kind=kind, **counts)

    def summed(part: pd.DataFrame, by: str) -> pd.DataFrame:
        table = part.groupby(by, sort=False)[list(counts)].sum()
        return pd.concat([table, table.sum().to_frame("in all").T])

    tables = {
        str(name): summed(part, "kind") for name, part in frame.groupby("notebook", sort=False)
    }
    return tables | {"all notebooks": summed(frame, "notebook")}
