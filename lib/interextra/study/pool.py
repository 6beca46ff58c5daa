"""Cells in as many single-threaded worker processes as there are cores, dependencies first."""

import multiprocessing
import os
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

from interextra.study.cells import Store, cell_key

# One thread a process: two torch processes with two threads each run eight times slower. And glibc keeps large arrays
# of a training step instead of giving them back after each: about a third less time with a large vocabulary.
WORKER = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "MALLOC_MMAP_THRESHOLD_": str(2**32), "MALLOC_TRIM_THRESHOLD_": str(2**33),
}  # fmt: skip


class Built(NamedTuple):
    """Folders in the order of the configurations that were asked for; how many cells had to be computed."""

    folders: list[Path]
    new: int


def in_order(configs: list[dict]) -> dict[str, dict]:
    """Key → configuration of all cells that are needed, each after those that it depends on, each once."""
    from interextra.study.jobs import dependencies

    found: dict[str, dict] = {}

    def visit(config: dict) -> None:
        for needed in dependencies(config):
            visit(needed)
        found.setdefault(cell_key(config), config)

    for config in configs:
        visit(config)
    return found


def _start_worker() -> None:
    """End with the parent: a worker whose parent was killed must not go on computing."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _build(root: str, config: dict) -> tuple[str, list[str]]:
    from interextra.study.jobs import build

    said: list[str] = []
    build(Store(root, say=said.append), config)
    return cell_key(config), said


def build_all(store: Store, configs: list[dict], workers: int | None = None) -> Built:
    """Build the cells that are missing or damaged.

    Parameters
    ----------
    workers : processes; default INTEREXTRA_WORKERS or the number of cores, never more than there are cells to build.
    """
    needed = in_order(configs)
    missing = {key: config for key, config in needed.items() if not store.valid(key)}
    for config in needed.values():
        store.plan(config)
    if missing:
        from interextra.study.jobs import dependencies

        store.sweep()
        waits = {key: {cell_key(d) for d in dependencies(c)} & missing.keys() for key, c in missing.items()}
        workers = min(workers or int(os.environ.get("INTEREXTRA_WORKERS", 0)) or os.cpu_count() or 1, len(missing))
        before = {name: os.environ.get(name) for name in WORKER}
        os.environ.update(WORKER)
        try:
            with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _start_worker) as pool:
                _schedule(pool, store, missing, waits)
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
    return Built([store.path(cell_key(config)) for config in configs], len(missing))


def _schedule(pool, store: Store, missing: dict, waits: dict) -> None:
    """Submit each cell when those that it needs are done; the first failure ends all."""
    running, todo = {}, dict(missing)
    while todo or running:
        for key in [key for key in todo if not waits[key]]:
            running[pool.submit(_build, str(store.root), todo.pop(key))] = key
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            running.pop(future)
            try:
                key, said = future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            for line in said:
                store.say(line)
            for needed in waits.values():
                needed.discard(key)
