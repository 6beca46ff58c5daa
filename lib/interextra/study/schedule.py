"""Cells in as many single-threaded worker processes as there are cores, or as there are GPUs, dependencies first."""

import gc
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from interextra.ground.cells import Cell, Store

# One thread a process: two torch processes with two threads each run eight times slower. And glibc keeps large arrays
# of a training step instead of giving them back after each: about a third less time with a large vocabulary; on huge
# pages, where Linux offers them: up to 6 % less.
WORKER = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
WORKER |= {"MALLOC_MMAP_THRESHOLD_": str(2**32), "MALLOC_TRIM_THRESHOLD_": str(2**33)}
WORKER["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
WORKER["NUMBA_DISABLE_JIT"] = "1"  # ranx: each process compiles for half a minute what takes a second uncompiled
GPUS = Path("/proc/driver/nvidia/gpus")


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
    """Compute the cells that are missing or damaged, and what they need; returns what had to be computed.

    Whatever can start does, in the order of `cells`: results of a later notebook while an earlier one is executed, and
    the last but one waits until the results that the last one needs are begun, so that fewer cores idle at the end. The
    first failure ends all. `watch` gets the running jobs every second, and one that has ended.
    """
    missing = {cell.key: cell for cell in store.missing(cells)}
    missing |= {cell.key: missing.pop(cell.key) for cell in cells[-2:-1] if cell.key in missing}
    for cell in missing.values():
        store.plan(cell)
    if not missing:
        return []
    needed = {key: {need.key for need in cell.needs()} & missing.keys() for key, cell in missing.items()}
    graph, order = TopologicalSorter(needed), {key: place for place, key in enumerate(missing)}
    graph.prepare()
    n, context = n_workers(len(missing)), multiprocessing.get_context("spawn")
    ready, running, free, gpus = [], {}, list(range(n, 0, -1)), context.Queue()
    for number in range(n):
        gpus.put(number if any(GPUS.glob("*")) else None)
    with patch.dict(os.environ, WORKER), ProcessPoolExecutor(n, context, _start_worker, (gpus,)) as pool:
        while graph.is_active():
            ready = sorted([*ready, *graph.get_ready()], key=order.__getitem__)
            while ready and free:
                job = Job(missing[ready.pop(0)], free.pop(), time.time())
                running[pool.submit(_build, Store(store.root), job.cell)] = job
            watch(list(running.values()), None)
            for future in wait(running, 1.0, FIRST_COMPLETED).done:
                job = running.pop(future)
                try:
                    future.result()
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
                free.append(job.worker)
                graph.done(job.cell.key)
                watch(list(running.values()), job)
                done(job.cell)
    return list(missing.values())


def n_workers(n_cells: int) -> int:
    """How many of them this machine computes at once: no more than it has GPUs, where it has some."""
    return min(len(list(GPUS.glob("*"))) or os.cpu_count() or 1, n_cells)


def _start_worker(gpus) -> None:
    """Take a GPU, if there is one, and end with the parent: a worker whose parent was killed must not go on."""
    gpu, parent = gpus.get(), os.getppid()
    if gpu is not None and "CUDA_VISIBLE_DEVICES" not in os.environ:
        os.environ["CUDA_VISIBLE_DEVICES"] = str(gpu)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _build(store: Store, cell: Cell) -> None:
    store.build(cell)
    if "torch" in sys.modules and not gc.get_freeze_count():
        gc.collect()
        gc.freeze()  # every training starts with a garbage collection: half of a short one, over all that is imported


def described(store: Store, cells: Sequence[Cell]) -> list[dict]:
    """A row a cell, after those it needs: key, state (`done`, `todo`), what, needs; estimated seconds, megabytes."""
    missing = {cell.key: cell for cell in store.missing(cells)}
    rows = []
    for key, cell in (missing | {cell.key: cell for cell in cells}).items():
        store.plan(cell)
        row = {"key": key, "state": "todo" if key in missing else "done", "what": cell.title()}
        row |= {"seconds": cell.seconds(), "megabytes": cell.megabytes()}
        rows.append(row | {"needs": [need.key for need in cell.needs() if need.key in missing]})
    return rows


def priced(rows: Mapping[str, list[dict]], cores: int) -> dict:
    """What notebooks cost, from the rows of `described` of each: a table a notebook, and one of all of them.

    Each is a DataFrame[results, to_compute, seconds, MB, hours on N cores] with a row a kind of result (or a notebook),
    the last one their sum. What several notebooks need costs the first of them.
    """
    import pandas as pd

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
