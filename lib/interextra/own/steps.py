"""What a command does just now, said on standard error."""

import resource
import sys
from collections.abc import Collection, Iterator
from time import monotonic
from typing import NamedTuple, TypeVar

from interextra.store.progress import lasting

EVERY = 5.0  # seconds between two lines of `counted`

Item = TypeVar("Item")


class Elapsed(NamedTuple):
    """Seconds of the wall's clock, and of this process and all ended ones that it began."""

    wall: float
    cores: float

    def since(self, earlier: "Elapsed") -> "Elapsed":
        """Return what has passed since an earlier moment."""
        return Elapsed(self.wall - earlier.wall, self.cores - earlier.cores)


def elapsed() -> Elapsed:
    """Return this moment."""
    processes = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    usages = [resource.getrusage(process) for process in processes]
    cores = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    return Elapsed(monotonic(), cores)


def say(what: str) -> None:
    """Say what is being done."""
    print(f"{what} …", file=sys.stderr, flush=True)


def counted(items: Collection[Item], what: str) -> Iterator[Item]:
    """Yield items; while they take long, say how many are done and how long the others take."""
    began = monotonic()
    shown = began
    for n_done, item in enumerate(items, 1):
        yield item
        now = monotonic()
        if now - shown < EVERY or n_done == len(items):
            continue
        shown = now
        n_left = len(items) - n_done
        left = lasting((now - began) / n_done * n_left)
        say(f"{what}: {n_done} of {len(items)} done, about {left} left")
