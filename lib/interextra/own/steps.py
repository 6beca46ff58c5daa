"""What a command does just now, said on standard error."""

import sys
from collections.abc import Collection, Iterator
from time import monotonic
from typing import TypeVar

from interextra.store.progress import lasting

EVERY = 5.0  # seconds between two lines of `counted`

Item = TypeVar("Item")


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
