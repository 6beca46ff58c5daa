"""What a hidden check of an exercise says to a student, whatever the type of the answer is.

Class versions (`tools.teaching`) put each check into `checked`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd


@contextmanager
def checked(
    names: Mapping[str, Any], read: Sequence[str], asked: str, mistake: str
) -> Iterator[None]:
    """Run a check, and say what was asked for where it cannot read the answer.

    Parameters
    ----------
    names : name → value in the student's notebook.
    read : the names that the check reads.
    asked : where the exercise wants its answer, and in which type.
    mistake : the typical mistake, for an answer that is read and is not right.

    Raises
    ------
    AssertionError
        A name is missing, its value has another type than the check can read, or it is not right.

    Examples
    --------
    >>> asked = "Store a Series in `lost`."
    >>> lost = [0.5, 0.4]
    >>> with checked({"lost": lost}, ["lost"], asked, "Gains."):
    ...     assert lost["q1"] == 0.5
    Traceback (most recent call last):
    AssertionError: lost is a list, which the check cannot read. Store a Series in `lost`.
    """
    missing = [name for name in read if name not in names]
    if missing:
        raise AssertionError(f"{', '.join(missing)} is missing. {asked}")
    try:
        yield
    except AssertionError as error:
        said = str(error) or "The answer is not right"
        raise AssertionError(f"{said}. {asked} A typical mistake: {mistake}") from None
    except Exception:  # whatever the answer does to the check
        found = ", ".join(f"{name} is {described(names[name])}" for name in read)
        raise AssertionError(f"{found}, which the check cannot read. {asked}") from None


def described(value: object) -> str:
    """Return the type of a value in words.

    Examples
    --------
    >>> described([1]), described(pd.DataFrame({"a": [1, 2], "b": [3, 4]}))
    ('a list', "a DataFrame of 2 rows with the columns ['a', 'b']")
    >>> described(pd.Series([1, 2], ["q", "r"])), described(None)
    ("a Series with the index ['q', 'r']", 'None')
    """
    if value is None:
        return "None"
    if isinstance(value, pd.DataFrame):
        return f"a DataFrame of {len(value)} rows with the columns {_first(value.columns)}"
    if isinstance(value, pd.Series):
        return f"a Series with the index {_first(value.index)}"
    name = type(value).__name__
    article = "an" if name[0].lower() in "aeiou" else "a"
    return f"{article} {name}"


def _first(labels: pd.Index, n: int = 3) -> str:
    """Return the first labels as text."""
    shown = str(labels[:n].tolist())
    return f"{shown[:-1]}, …]" if len(labels) > n else shown
