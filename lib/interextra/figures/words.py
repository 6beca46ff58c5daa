"""The words of a figure: names as a reader says them, texts that fit, and what is seen."""

import re
import textwrap
from collections.abc import Sequence

import matplotlib as mpl
import pandas as pd
from pandas import DataFrame

Names = str | list[str]  # of columns; "" is none
NAME = 1.7  # inches, of the name of a row at most: a longer one is wrapped
FEW = 8  # values that texts name one by one
# columns that hold differences: 0 says that there is none
DIFFERENCES = ("difference", "change", "delta")
# what the name of an axis of differences says already
OF_DIFFERENCE = re.compile(r"difference|minus|change|gain|loss|Δ")
WORDS = {
    "n_train": "training queries",
    "model": "system",
    "method": "training strategy",
    "wh-words": "question words",
    "wha": "what",
    "left_out": "excluded from training",
    "stratum": "test cluster",
    "bucket": "test bucket",
}


def in_words(name: Names) -> str:
    """Return a name of the data as a reader says it; of several columns none."""
    if not isinstance(name, str):
        return ""
    if name in WORDS:
        return WORDS[name]
    spaced = name.replace("_", " ")
    return re.sub(r"^C(\d+)$", r"topic \1", spaced)


def axis_name(label: str, column: str) -> str:
    """Return the name of an axis, which says so where it shows differences.

    Examples
    --------
    >>> axis_name("RR@10", "difference"), axis_name("RR@10", "mean")
    ('difference in RR@10', 'RR@10')
    """
    if column not in DIFFERENCES or OF_DIFFERENCE.search(label):
        return label
    return f"difference in {label}"


def names_of(frame: DataFrame, columns: Names) -> pd.Series:
    """Return the values of a column, or of several joined, as text a row; of no column no text."""
    if not columns:
        return pd.Series("", frame.index, object)
    if isinstance(columns, str):
        columns = [columns]
    texts = [map(_text, frame[column].tolist()) for column in columns]
    rows = zip(*texts, strict=True)
    joined = [", ".join(row) for row in rows]
    return pd.Series(joined, frame.index, object)


def _text(value: object) -> str:
    """Return a value as text, a whole number with commas."""
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def inches_of(texts: Sequence[str]) -> float:
    """Return about how wide the longest of these texts is."""
    ems = max(map(len, texts)) * 0.58
    return ems * mpl.rcParams["font.size"] / 72


def wrapped(text: str, inches: float) -> str:
    """Return a text in lines of at most this width."""
    n_letters = int(inches / inches_of("x"))
    return textwrap.fill(text, max(8, n_letters))


def counted(sides: dict[str, pd.Series], names: pd.Series, what: str = "") -> str:
    """Return who is on which side, and how often of how many (`what` is counted).

    Examples
    --------
    >>> loses = pd.Series([True, True, False, True])
    >>> counted({"Below 0": loses}, pd.Series(["dense", "dense", "BM25", "SPLADE"]))
    'Below 0: dense in both; SPLADE.'
    """
    sentences = []
    for side, is_on_side in sides.items():
        parts = []
        by_name = is_on_side.groupby(names, sort=False)
        counts = by_name.agg(["sum", "size"])
        for name, n, size in counts.itertuples():
            if n > 0:
                part = in_words(name)
                if size > 1:
                    part += f" in {_of(n, size)}{what}"
                parts.append(part)
        if parts:
            listed = "; ".join(parts)
            sentences.append(f"{side}: {listed}.")
    return " ".join(sentences)


def _of(n: int, size: int) -> str:
    """Return how many of several, in words where it is all of them."""
    if n < size:
        return f"{n} of {size}"
    return "both" if size == 2 else f"all {size}"


def extent_of(
    what: str,
    frame: DataFrame,
    value: str,
    columns: Sequence[Names],
    percent: bool = False,
) -> str:
    """Return a sentence: what, its smallest and largest value, each with the names of its row.

    All values, where there are but a few.
    """
    shown = frame[frame[value].notna()]
    has_many = len(shown) > FEW
    if has_many:
        values = shown[value]
        ends = [values.argmin(), values.argmax()]
        shown = shown.iloc[ends]
    form = ".1%" if percent else ".3g"
    places = _places(shown, columns)
    texts = []
    for number, place in zip(shown[value], places, strict=True):
        written = f"{number:{form}}"
        texts.append(f"{written} ({place})")
    if has_many:
        lowest, highest = texts
        return f"{what}: from {lowest} to {highest}."
    listed = ", ".join(texts) or "none of them defined"
    return f"{what}: {listed}."


def _places(frame: DataFrame, columns: Sequence[Names]) -> list[str]:
    """Return the different names of each row, as a reader says them."""
    rounded = frame.round(2)
    names = [names_of(rounded, column).map(in_words) for column in columns]
    places = []
    for row in zip(*names, strict=True):
        distinct = dict.fromkeys(filter(None, row))
        places.append(", ".join(distinct))
    return places
