"""Worker processes: each computes one cell after another, and leaves nothing behind when it ends.

A pool of the standard library does not tell which job a killed process had, and does not end what
its processes started: models start a JVM, notebooks a kernel.
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
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from pathlib import Path

from interextra.store.cells import Cell
from interextra.store.folders import Store
from interextra.store.processor import environment, instructions

# One thread a process: two torch processes with two threads each run eight times slower. And glibc
# keeps large arrays of a training step instead of giving them back after each: about a third less
# time with a large vocabulary; on huge pages, where Linux offers them: up to 6 % less. ranx: each
# process would compile for half a minute what takes a second uncompiled.
WORKER = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**32),
    "MALLOC_TRIM_THRESHOLD_": str(2**33),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "NUMBA_DISABLE_JIT": "1",
}
GPUS = Path("/proc/driver/nvidia/gpus")
NO_GPU = ("", "-1", "NoDevFiles")  # in CUDA_VISIBLE_DEVICES
STOPPING = (signal.SIGINT, signal.SIGTERM)  # what ends a run from outside
GRACE = 0.5  # seconds for a stopped worker to remove what it has half built, before it is killed
PATIENCE = 10.0  # seconds for an idle one to end: what is killed leaves semaphores behind


class WorkerLostError(RuntimeError):
    """The process that computed a cell was ended by the system, or by the cell."""


class Worker:
    """A process that computes one cell after another; it ends with its parent.

    Parameters
    ----------
    number
        From 1; where there are GPUs, it sees that of its number alone, see `gpus`.
    """

    def __init__(self, number: int):
        context = multiprocessing.get_context("spawn")
        visible = gpus()
        gpu = visible[(number - 1) % len(visible)] if visible else None
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, gpu))
        # what ends the run counts after the worker is known, and will be stopped
        with _signals_held_back(), environment(instructions() | dict(os.environ) | WORKER):
            self.process.start()
        theirs.close()  # so that the pipe breaks when the process ends

    def begin(self, store: Store, cell: Cell) -> None:
        """Let it compute a cell."""
        with suppress(ConnectionError):  # the process is gone: `end` says so
            self.pipe.send((Store(store.root), cell))

    def end(self, cell: Cell) -> None:
        """Take what became of a cell.

        Raises
        ------
        WorkerLostError
            The process is gone.
        Exception
            Whatever the cell raised.
        """
        try:
            error = self.pipe.recv()
        except (EOFError, ConnectionError):
            raise WorkerLostError(
                f"{cell.title()}: the process that computed it {self._end()}; start again: results "
                "that are finished are kept"
            ) from None
        if error:
            raise error

    def _end(self) -> str:
        """Return how the process ended."""
        self.process.join(GRACE)
        code = self.process.exitcode
        if code and code < 0:
            return f"was killed by signal {-code} (out of memory?)"
        return f"ended with code {code} (of a script? it needs `if __name__ == '__main__':`)"


def gpus() -> list[str]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them.

    In a job of Slurm they are those that it was given, none where it asked for none.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name not in NO_GPU]
    if "SLURM_JOB_ID" in os.environ and "SLURM_GPUS_ON_NODE" not in os.environ:
        return []
    n_gpus = len(list(GPUS.glob("*")))
    return [str(number) for number in range(n_gpus)]


def first_ended(running: Collection[Worker], seconds: float) -> list[Worker]:
    """Return the workers whose cell is finished or whose process is gone.

    Wait for the first of them, so many seconds at most.
    """
    ready = wait_for([worker.pipe for worker in running], seconds)
    return [worker for worker in running if worker.pipe in ready]


def stop(workers: Iterable[Worker], grace: float = GRACE) -> None:
    """End workers with what they started, by force where they have not ended after `grace` s."""
    workers = list(workers)
    for worker in workers:
        worker.pipe.close()
        worker.process.terminate()
    until = time.monotonic() + grace
    for worker in workers:
        worker.process.join(max(0.0, until - time.monotonic()))
    for worker in workers:
        pid = worker.process.pid
        if pid and worker.process.is_alive():
            with suppress(ProcessLookupError):  # it has no group of its own before it works
                os.killpg(pid, signal.SIGKILL)
            worker.process.kill()
            worker.process.join()


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """Hold back what ends a run from outside, also from a process that is started in the block."""
    # multiprocessing would start it in the block and end the block
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection, gpu: str | None) -> None:
    """Compute what comes through the pipe; None or an exception goes back for each.

    In a group of its own, so that Ctrl-C reaches the parent alone, and what this process started
    can be killed with it.
    """
    os.setpgid(0, 0)
    # a terminal may stop a group in the background that writes to it
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.signal(signal.SIGTERM, _leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    with suppress(EOFError, ConnectionError):  # the parent needs no more
        while True:
            pipe.send(_outcome(pipe.recv_bytes()))


def _leave(number: int, frame: object) -> None:
    """End this worker, once.

    What it half built is removed on the way, and what it would say is of no use.
    """
    signal.signal(number, signal.SIG_IGN)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    raise SystemExit(128 + number)


def _end_with_parent() -> None:
    """End this worker and what it started where its parent was killed."""
    parent = multiprocessing.parent_process()
    while parent and os.getppid() == parent.pid:
        time.sleep(0.5)
    os.killpg(0, signal.SIGKILL)


def _outcome(asked: bytes) -> Exception | None:
    """Build a cell that was asked for; return its exception as another process can read it."""
    try:
        store, cell = pickle.loads(asked)
        store.build(cell)
        _leave_imports_out_of_garbage_collection()
        return None
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        if not _can_be_sent(error):
            error = RuntimeError(f"{type(error).__name__}: {error}")
        error.add_note(f"in a worker:\n{text}")
        return error


def _can_be_sent(error: Exception) -> bool:
    """Whether an exception comes through a pipe; those of some libraries do not."""
    try:
        pickle.loads(pickle.dumps(error))
        return True
    except Exception:
        return False


def _leave_imports_out_of_garbage_collection() -> None:
    """Leave what is imported out of garbage collection, once.

    Every training starts with one: half of a short training, over all that is imported.
    """
    if "torch" in sys.modules and not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
