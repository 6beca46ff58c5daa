"""The seconds and the memory of a system, in a process of its own."""

import ctypes
import gc
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .form import Prepare

MOST_REPEATS = 5
LEAST_REPEATS = 2
ENOUGH = 6.0  # seconds of repeats
LIBC = ctypes.CDLL(None)
STATUS = Path("/proc/self/status")
FORGET = Path("/proc/self/clear_refs")


class Measured(NamedTuple):
    """What a system takes at a size."""

    n: int
    seconds: list[float]  # of each repeat
    cpu: list[float]  # seconds of all threads
    megabytes: float  # at the peak, less what was held before
    result: Any


def status_megabytes(field: str) -> float:
    """Return a size of memory of this process; NaN where there is no /proc."""
    if not STATUS.exists():
        return float("nan")
    lines = STATUS.read_text().splitlines()
    [line] = [line for line in lines if line.startswith(field)]
    return int(line.split()[1]) / 1024


def forget_peak() -> None:
    """Give free memory back, and let the peak of memory begin anew."""
    gc.collect()
    if hasattr(LIBC, "malloc_trim"):
        LIBC.malloc_trim(0)
    if FORGET.exists():
        FORGET.write_text("5")


def timed(work: Callable[[], Any], n: int, once: bool) -> Measured:
    """Repeat some work, once or until it took `ENOUGH` seconds."""
    forget_peak()
    held = status_megabytes("VmRSS")
    seconds: list[float] = []
    cpu: list[float] = []
    while True:
        begin = time.perf_counter()
        cpu_begin = time.process_time()
        result = work()
        seconds.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - cpu_begin)
        is_enough = len(seconds) >= LEAST_REPEATS and sum(seconds) > ENOUGH
        if once or is_enough or len(seconds) == MOST_REPEATS:
            break
    return Measured(n, seconds, cpu, status_megabytes("VmHWM") - held, result)


def measured(prepare: Prepare, sizes: Sequence[int], once: bool) -> list[Measured]:
    """Measure a system at some sizes, in this process; warm it before, unless it runs once."""
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="interextra-bench-") as scratch:
        if not once:
            warming = Path(scratch, "warming")
            warming.mkdir()
            prepare(sizes[0], warming)()
        for n in sizes:
            folder = Path(scratch, str(n))
            folder.mkdir()
            outcomes.append(timed(prepare(n, folder), n, once))
    return outcomes


def apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return what `work` returns, from a process that starts with all imports done."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(work, *arguments).result()


def exponent_of(outcomes: Sequence[Measured]) -> float:
    """Return the exponent of the size, by least squares between the logarithms."""
    sizes = [outcome.n for outcome in outcomes]
    seconds = [min(outcome.seconds) for outcome in outcomes]
    slope, _ = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return float(slope)
