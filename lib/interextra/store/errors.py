"""Errors that a user can mend: one message, exit code 2."""

from collections.abc import Iterable
from itertools import islice

LONGEST = 200  # characters of an offender, or of another library's message, that a message shows


class InputError(ValueError):
    """What was wrong, where, the first offenders, and what to do. The command line ends with exit
    code 2 on it.
    """


def offenders(items: Iterable[object], n: int = 3) -> str:
    """The first `n` items, quoted and comma-separated, for an error message; of a long one its
    beginning.

    >>> offenders(["d7", "d9", "d12", "d40"])
    "'d7', 'd9', 'd12', …"
    """
    head = [repr(item) for item in islice(items, n + 1)]
    shown = [text if len(text) <= LONGEST else f"{text[:LONGEST]}…" for text in head[:n]]
    return ", ".join(shown) + (", …" if len(head) > n else "")


def one_line(error: Exception) -> str:
    """Another library's message for an error message: some have many lines, some end with a line
    feed.
    """
    text = " ".join(str(error).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
