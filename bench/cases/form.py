"""The form of a case: the kit's way to do something, beside what a user would otherwise run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

OURS = "interextra"
SEED = 7
Prepare = Callable[[int, Path], Callable[[], Any]]  # size, an empty folder → what is timed


class DifferentError(Exception):
    """A peer finds something else than the kit."""


class Peer(NamedTuple):
    """Another way to the same result."""

    prepare: Prepare
    needs: tuple[str, ...] = ()  # modules without which it is skipped
    least: float = 0  # so many times as long as ours it takes at least, at the largest size


class Sizes(NamedTuple):
    """The largest size of a run; three halves of it come before, so that growth can be fitted."""

    small: int  # only whether it runs: alone
    usual: int
    full: int

    def of(self, level: str) -> list[int]:
        """Return the sizes of a run, from small to large.

        >>> Sizes(2, 16, 800).of("usual"), Sizes(2, 16, 800).of("small")
        ([2, 4, 8, 16], [2])
        """
        largest = getattr(self, level)
        divisors = (1,) if level == "small" else (8, 4, 2, 1)
        return [largest // divisor for divisor in divisors]


class Case(NamedTuple):
    """Something that the kit does, and peers do.

    What is prepared is not timed; what is timed returns a result that can be compared.
    """

    name: str
    counted: str  # what a size is
    sizes: Sizes
    ours: Prepare
    peers: dict[str, Peer]
    # our result and a peer's → how they agree; DifferentError where they must not differ so
    compare: Callable[[Any, Any], str]


def equal_within(tolerance: float) -> Callable[[Any, Any], str]:
    """Return a comparison of two arrays that may differ so much."""

    def compare(ours: Any, theirs: Any) -> str:
        """Say how much the arrays differ."""
        differences = np.asarray(ours) - np.asarray(theirs)
        difference = float(np.abs(differences).max())
        sentence = f"largest difference {difference:.1e}"
        if not difference <= tolerance:
            raise DifferentError(f"{sentence}, more than {tolerance:g}")
        return sentence

    return compare


def unit_vectors(n: int, dimensions: int, seed: int = SEED) -> np.ndarray:
    """Return float32[n, d] around a common direction, as those of a trained encoder are."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((n, dimensions), np.float32)
    vectors += 1
    squares = np.einsum("ij,ij->i", vectors, vectors)  # without a copy
    vectors /= np.sqrt(squares)[:, None]
    return vectors
