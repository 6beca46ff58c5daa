"""Errors that a user can mend: one message, exit code 2."""

from collections.abc import Iterable
from itertools import islice


class InputError(ValueError):
    """What was wrong, where, the first offenders, and what to do. The command line ends with exit code 2 on it."""


def offenders(items: Iterable[object], n: int = 3) -> str:
    """The first `n` items, quoted and comma-separated, for an error message.

    >>> offenders(["d7", "d9", "d12", "d40"])
    "'d7', 'd9', 'd12', …"
    """
    head = list(islice(items, n + 1))
    return ", ".join(repr(item) for item in head[:n]) + (", …" if len(head) > n else "")
