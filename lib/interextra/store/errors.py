"""Errors that a user can mend: one message, exit code 2."""

from collections.abc import Iterable
from itertools import islice

LONGEST = 200  # characters of an offender, or of another library's message, that a message shows


class InputError(ValueError):
    """What was wrong, where, the first offenders, and what to do.

    The command line ends with exit code 2 on it.
    """


def offenders(items: Iterable[object], n: int = 3) -> str:
    """Return the first items, quoted and comma-separated, for an error message.

    Of a long one its beginning is shown.

    Examples
    --------
    >>> offenders(["d7", "d9", "d12", "d40"])
    "'d7', 'd9', 'd12', …"
    """
    first = [repr(item) for item in islice(items, n + 1)]
    shown = ", ".join(_cut(text) for text in first[:n])
    return f"{shown}, …" if len(first) > n else shown


def one_line(error: object) -> str:
    """Return another library's message for an error message.

    Some have many lines, some end with a line feed.
    """
    return _cut(" ".join(str(error).split()))


def kind_and_message(error: Exception) -> str:
    """Return kind and message of an error of any code in one line."""
    return one_line(f"{type(error).__name__}: {error}")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
